"""
Salt's C{transport: tcp}: requests and publications as frames in plain streams, optionally in TLS.

C{server} and C{publisher} are the master's sides, C{client} and C{subscriber} the minion's. All use
C{framed}. L{saltwisted.wire.frames} describes a frame; its body is what ZeroMQ would carry.
Requests of one connection are answered in any order; the C{mid} in the head tells them apart.

Frames with C{saltwisted} in the head are our own addition. They are sent only to minions whose
first frame says that they know them: a sign of life every few seconds, because a stream that is cut
silently looks like an idle one.
"""
