"""
The other masters of a cluster: links over mutual TLS, joining, and the messages between nodes.
"""
