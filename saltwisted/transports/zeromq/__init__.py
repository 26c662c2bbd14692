"""
ZeroMQ in the reactor, for both ends of Salt's two channels.

C{router} and C{publisher} are the master's sides, C{dealer} and C{subscriber} the minion's. All use
C{fairness}: nobody outside this package holds a socket, every socket has high-water marks and a
largest message, and C{EAGAIN} on sending is an expected result, which is counted.

Framing is Salt's: requests are C{[identity, empty, msgpack]}, publications C{[msgpack]} or, with
C{zmq_filtering}, C{[topic, msgpack]}. L{saltwisted.wire} has the meaning of the bytes. ZeroMQ's own
threads do the network; everything here runs in the reactor thread and does not block, except
L{saltwisted.transports.zeromq.fairness.ZeroMQ.shutdown}.
"""
