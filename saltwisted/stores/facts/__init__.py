"""
The fact log on disk, and the files that a cluster node must not lose.
"""
