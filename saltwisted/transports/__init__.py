"""
Bytes in, bytes out: ZeroMQ, TCP, unix sockets, worker processes.
"""
