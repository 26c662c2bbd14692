"""
Roots in step: from one node's working tree to those of the others.
"""
