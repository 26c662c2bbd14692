"""
Construction only: which services make a master, a minion, a cluster node.
"""
