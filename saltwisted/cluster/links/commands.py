"""
The commands of C{sw-amp/1}, and the size limits.

AMP knows three commands: a greeting, a word with a body, and a sign of life. The words themselves
(C{facts}, C{jobs}, ...) belong to the modules that registered them; a link only carries them. A
body above L{INLINE} goes over the bulk connection, and the AMP box then has its number.
"""

from __future__ import annotations

from struct import Struct

from twisted.protocols import amp

from saltwisted.doors import PEER_MEMBER

VERSION = 1
"""Raised when a node of this version cannot talk to one of the version before."""
INLINE = 32 * 1024
"""Bytes of a body that still goes in the AMP box; the rest of the link stays quick that way."""
MAX_BODY = PEER_MEMBER.request
MAX_WAITING = 64 * 1024 * 1024
"""Bytes that may wait for a peer that does not read. More, and the link is closed: only its own lag
grows, and at the next connection it is sent what it lacks."""
BULK_HEAD = Struct(">QI")
"""Before each body on the bulk connection: its number, its length."""
ATTACH = Struct(">16s16s")
"""The first bytes on a C{sw-bulk/1} connection: for what it is, and the link that it belongs to."""
PURPOSE_BULK = b"bulk"
NO_BULK = 0
MOST_FIELDS = 16
"""Fields of an AMP box; ours have a handful."""
MOST_ASKED = 4096
"""Questions of one peer that are being answered."""
MOST_CONTAINERS = 200_000
"""Lists and maps in one body: what is unpacked at once takes some ten milliseconds."""


class PeerRefused(Exception):
    """The peer refused the request, or could not do it; the text says why."""


class Hello(amp.Command):
    """
    The greeting, which the dialling side sends first. The answer gives the same data about the
    other side, and names the link.
    """

    arguments = [
        (b"version", amp.Integer()),
        (b"cluster", amp.Unicode()),
        (b"release", amp.Unicode()),
    ]
    response = [*arguments, (b"link", amp.String())]
    errors = {PeerRefused: b"REFUSED"}


class Tell(amp.Command):
    """A word without an answer."""

    arguments = [
        (b"word", amp.String()),
        (b"body", amp.String()),
        (b"bulk", amp.Integer()),
    ]
    requiresAnswer = False


class Ask(amp.Command):
    """A word whose answer is a body."""

    arguments = Tell.arguments
    response = [(b"body", amp.String()), (b"bulk", amp.Integer())]
    errors = {PeerRefused: b"REFUSED"}


class Ping(amp.Command):
    """A sign of life, sent when nothing else has been sent for a while."""

    response = []
