"""
What one peer may cost: a row for each door of a daemon.

A door is where bytes come in: a listening port or socket, and each connection that a daemon opens
to somebody whom it does not trust. Transports and handlers take their limits from these rows, so
the table is what is enforced; C{docs/security.md} prints it. A test finds everything that listens
or connects and demands a row (C{tests/doors/test_table.py}), and another one drives each door with
generated input up to its limit (C{tests/doors/test_costs.py}).
"""

from __future__ import annotations

from typing import NamedTuple

KIB = 1024
MIB = 1024 * 1024


class Door(NamedTuple):
    """
    One door. Times are CPU of the reactor's thread, of a processor of about 3 GHz.

    @ivar name: a short name, unique.
    @ivar title: what it is, for a reader.
    @ivar who: who can use it, with what proof.
    @ivar opened: where in the code it is opened, each as C{file:function}.
    @ivar request: the largest request, frame or body, in bytes.
    @ivar per_kib: microseconds that each KiB may cost at most.
    @ivar per_request: microseconds that the smallest request may cost at most.
    @ivar turn: milliseconds of one turn of the reactor at most; the rest waits for further turns,
        or is done in a thread or another process.
    @ivar memory: bytes that are kept for one connection at most.
    @ivar memory_all: bytes that are kept for all connections of this door together at most.
    @ivar holds: seconds that it may hold something unfinished at most.
    @ivar beyond: what happens to who exceeds it.
    """

    name: str
    title: str
    who: str
    opened: tuple[str, ...]
    request: int
    per_kib: float
    per_request: float
    turn: float
    memory: int
    memory_all: int
    holds: float
    beyond: str


REQUESTS_ZMQ = Door(
    name="requests-zeromq",
    title="4506, ZeroMQ",
    who="anyone; what a request may do is decided after it is opened",
    opened=("transports/zeromq/router.py:_bind",),
    request=128 * MIB,
    per_kib=1000,
    per_request=200,
    turn=5,
    memory=128 * MIB,
    memory_all=640 * MIB,
    holds=60,
    beyond="hung up on, the slowest first; strangers share a third of what is unfinished",
)
PUBLICATIONS_ZMQ = Door(
    name="publications-zeromq",
    title="4505, ZeroMQ",
    who="anyone; a publication can be read by those only who have a key",
    opened=("transports/zeromq/publisher.py:listen",),
    request=1 * KIB,
    per_kib=1000,
    per_request=200,
    turn=5,
    memory=8 * KIB,
    memory_all=32 * MIB,
    holds=60,
    beyond="hung up on",
)

REQUESTS_TCP = Door(
    name="requests-tcp",
    title="4506, TCP",
    who="anyone; what a request may do is decided after it is opened",
    opened=("transports/tcp/framed.py:bind",),
    request=128 * MIB,
    per_kib=1000,
    per_request=200,
    turn=5,
    memory=256 * MIB,
    memory_all=640 * MIB,
    holds=60,
    beyond="hung up on, the slowest first; strangers share a third of what is unfinished",
)
REQUESTS_TLS = REQUESTS_TCP._replace(
    name="requests-tls",
    title="4506, TLS",
    who="with `cert_reqs`, whose certificate is of an authority that the master trusts",
)
PUBLICATIONS_TCP = Door(
    name="publications-tcp",
    title="4505, TCP",
    who="anyone; a publication can be read by those only who have a key",
    opened=("transports/tcp/framed.py:bind",),
    request=64 * KIB,
    per_kib=1000,
    per_request=200,
    turn=5,
    memory=256 * KIB,
    memory_all=32 * MIB,
    holds=60,
    beyond="hung up on",
)
PUBLICATIONS_TLS = PUBLICATIONS_TCP._replace(
    name="publications-tls",
    title="4505, TLS",
    who="with `cert_reqs`, whose certificate is of an authority that the master trusts",
)

DOORS: dict[str, Door] = {
    row.name: row
    for row in (
        REQUESTS_ZMQ,
        PUBLICATIONS_ZMQ,
        REQUESTS_TCP,
        REQUESTS_TLS,
        PUBLICATIONS_TCP,
        PUBLICATIONS_TLS,
    )
}
"""All doors, by name."""
