"""
Replication of the roots, from one node's working tree to those of the others.
"""
