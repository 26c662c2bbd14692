"""
One connection of HTTP/1.1 whose input is judged before it is read.

Twisted's own channel reads all that a client sends in one go: sixty-four kibibytes of short
requests are thousands of answers, lines that go on are copied again and again, and names of
headers are remembered for ever. Here the head of a request is looked for as bytes, its size is
judged, and only then Twisted's parser gets it. A body is passed on in parts. However many
connections have something to read, they share the turns of the reactor.
"""

from __future__ import annotations

from time import thread_time
from typing import Any

from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineReceiver
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel

from saltwisted.turns import Turns, Waiting

HEAD = 16_384
"""Bytes of a request's line and headers together."""
HEADERS = 50
"""Header lines of a request."""
LONGEST_NAME = 100
"""Bytes of a header's name: Twisted remembers ten thousand of them."""
LONGEST_NUMBER = 18
"""Digits of a length."""
EAGER = HEAD + 4
"""Bytes that are taken while they cannot be read yet; the rest waits with the client."""
PART = 65_536
"""Bytes of a body that are passed on at once."""
PART_OF_CHUNKS = 4096
"""The same of a body in chunks, each of which may be one byte."""
LITTLE = 16_384
"""
Bytes that a connection is given at once, and at which its client counts as one that does not read.
"""
_END = b"\r\n\r\n"
_LENGTH = b"content-length"


class JudgedChannel(HTTPChannel):
    """
    One connection.

    @ivar turns: those of the reactor.
    @ivar waits: whether something else must come first: no input is read meanwhile.
    """

    log = Logger()
    transport: Any
    turns: Turns
    maxHeaders = HEADERS
    totalHeadersSize = HEAD
    waits = False
    _next: Waiting | None = None
    _searched = 0
    _full = False
    _ending = False

    def __init__(self) -> None:
        super().__init__()
        self._input = bytearray()

    def connectionMade(self) -> None:
        """A client has connected."""
        self.keep_little(LITTLE)
        super().connectionMade()

    def keep_little(self, size: int) -> None:
        """
        A small buffer for what the client does not read.

        @param size: bytes in its buffer at which it is full.
        """
        # With TLS it is the connection below that keeps them
        below = self.transport
        while (under := getattr(below, "transport", None)) is not None:
            below = under
        below.bufferSize = size

    # -- what comes

    def dataReceived(self, data: bytes) -> None:
        """Something of a request: read at once if this turn of the reactor has room for it."""
        if self._ending:
            return
        self.resetTimeout()
        self._input += data
        if self._next is None and self._may_read():
            if self.turns.has_room:
                began = thread_time()
                self._read()
                self.turns.spent(thread_time() - began)
            else:
                self.again()
        self._flow()

    @property
    def handles(self) -> bool:
        """Whether a request is being answered."""
        return bool(getattr(self, "_handlingRequest", False))

    def again(self) -> None:
        """Read on in a later turn, if there is something to be read."""
        if self._next is None and self._input and self._may_read():
            self._next = self.turns.later(self._turn)

    def _turn(self) -> None:
        self._next = None
        try:
            if self._may_read():
                self._read()
            self._flow()
        except Exception:
            # As a reactor does it whose own call it is
            self.log.failure("the input of a connection could not be read")
            self.transport.abortConnection()

    def _may_read(self) -> bool:
        """
        Not while a request is answered, nor while its client does not read the answers before.
        """
        return not (self._ending or self.waits or self.handles or self._waitingForTransport)

    def _read(self) -> None:
        """One step: the head of a request, or a part of its body."""
        if self._transferDecoder is None and not self._pass_head():
            self.unfinished()
            return
        if self._transferDecoder is not None and self._input and self._may_read():
            self._pass_part()
        if self._transferDecoder is not None and not self._ending:
            self.unfinished()
        self.again()

    def _pass_head(self) -> bool:
        """Pass on the head of the next request, if all of it is there."""
        # An empty line before a request is allowed
        end = self._input.find(_END, max(0, self._searched - len(_END) + 1), HEAD + len(_END))
        if end < 0 and len(self._input) < HEAD + len(_END):
            self._searched = len(self._input)
            return False
        self._searched = 0
        end += len(_END)
        if end < len(_END) or self._input.count(b"\n", 0, end) > HEADERS + 3:
            self._input.clear()
            self._respondToBadRequestAndDisconnect()
            return False
        self._pass(end)
        return True

    def _pass_part(self) -> None:
        length = self.length
        size = PART_OF_CHUNKS
        if length is not None:
            size = min(PART, length - int(getattr(self.requests[-1], "came", 0)))
        self._pass(size)

    def _pass(self, size: int) -> None:
        data = bytes(self._input[:size])
        del self._input[:size]
        LineReceiver.dataReceived(self, data)
        self._take_back()

    def _take_back(self) -> None:
        """What Twisted's parser has kept of what follows a body comes before all else."""
        if self._dataBuffer:
            self._input[:0] = b"".join(self._dataBuffer)
            self._dataBuffer = []

    def headerReceived(self, line: bytes) -> bool:
        """One header."""
        colon = line.find(b":", 0, LONGEST_NAME + 1)
        if colon < 0 or (
            colon == len(_LENGTH)
            and len(line) > len(_LENGTH) + 3 + LONGEST_NUMBER
            and line[:colon].lower() == _LENGTH
        ):
            self._respondToBadRequestAndDisconnect()
            return False
        good: bool = super().headerReceived(line)
        return good

    def unfinished(self) -> None:
        """A request has begun and is not whole."""

    def go_on(self) -> None:
        """What had to come first has come."""
        self.waits = False
        self.again()
        self._flow()

    def requestDone(self, request: Any) -> None:
        """It is answered; the next one has its turn."""
        self._take_back()
        super().requestDone(request)
        if self._input or self._full:
            self.again()
            self._flow()

    def resumeProducing(self) -> None:
        """The client has read what was sent."""
        super().resumeProducing()
        self.again()
        self._flow()

    def _flow(self) -> None:
        """Take no more than can be read soon."""
        if not (self._input or self._full or self.waits):
            return
        full = len(self._input) >= EAGER or self.waits
        if full and not self._ending:
            self._full = True
            self._networkProducer.pauseProducing()
        elif self._full and not self._waitingForTransport and not self._ending:
            self._full = False
            self._networkProducer.resumeProducing()

    # -- the end

    def loseConnection(self) -> None:
        """Disconnect when everything written has been sent."""
        if not self._ending:
            self._ending = True
            self._drop()
            super().loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """It is gone."""
        self._ending = True
        self._drop()
        super().connectionLost(reason)

    def _drop(self) -> None:
        """Nothing more is read."""
        self._input = bytearray()
        if self._next is not None:
            self._next.cancel()
            self._next = None
