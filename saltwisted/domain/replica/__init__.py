"""
What the nodes of a cluster agree on: pure merges and machines, no sockets, no disk, no clock.
"""
