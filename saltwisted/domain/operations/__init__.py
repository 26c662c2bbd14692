"""
What a daemon offers to people and programs: one table of operations, which any door may serve.

A door reads a request, says who asks, and writes the answer; the table does the rest. The control
socket is one door. Nothing here knows a socket.
"""
