"""
A master's peers: links over mutual TLS, joining, and what is sent between nodes.
"""
