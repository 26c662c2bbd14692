"""
The fact log on disk, and what a node of a cluster must not lose.
"""
