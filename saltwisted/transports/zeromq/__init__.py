"""
ZeroMQ in the reactor, for both ends of Salt's two channels.

C{router} and C{publisher} are a master's sides, C{dealer} and C{subscriber} a minion's. All stand
on C{fairness}: nobody outside this package holds a socket, every socket has high-water marks and a
largest message, and C{EAGAIN} on sending is an expected outcome, which is counted.

Framing is Salt's: requests C{[identity, empty, msgpack]}, publications C{[msgpack]} or, with
C{zmq_filtering}, C{[topic, msgpack]}. What the bytes mean is in L{saltwisted.wire}. ZeroMQ's own
threads do the network; everything here runs in the reactor thread and does not block, but for
L{saltwisted.transports.zeromq.fairness.ZeroMQ.shutdown}.
"""
