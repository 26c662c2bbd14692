"""
Salt's C{transport: tcp}: requests and publications as frames in plain streams, perhaps in TLS.

C{server} and C{publisher} are a master's sides, C{client} and C{subscriber} a minion's. All stand
on C{framed}. A frame is in L{saltwisted.wire.frames}; what is in its body is what ZeroMQ would
carry. Requests of one connection are answered in any order, told apart by the C{mid} of the head.

Frames with C{saltwisted} in the head are ours alone, sent to minions that say in their first frame
that they know them: a sign of life every few seconds, since a stream that is cut without
a word looks like one that is idle.
"""
