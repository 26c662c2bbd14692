"""
What a daemon offers to people and programs: one table of operations, which any interface may serve.

An interface (a I{door}) reads a request, identifies the caller, and writes the answer; the table
does the rest. The control socket is one. Nothing here knows a socket.
"""
