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


# Rows are added below, one for each door, as its limits are settled.

HTTP = Door(
    name="http",
    title="the HTTP API before a login",
    who="everybody who can reach it",
    opened=("saltwisted/web/service.py:startService",),
    request=64 * KIB,
    per_kib=500.0,
    per_request=1000.0,
    turn=5.0,
    memory=160 * KIB,
    memory_all=96 * MIB,
    holds=30.0,
    beyond=(
        "what is larger is answered with 413; where there is no room for all, whoever keeps the "
        "most loses what is oldest of it (503)"
    ),
)

HTTP_USERS = Door(
    name="http-users",
    title="the HTTP API after a login",
    who="users with a session",
    opened=("saltwisted/web/service.py:startService",),
    request=MIB,
    per_kib=500.0,
    per_request=2000.0,
    turn=5.0,
    memory=2 * MIB,
    memory_all=256 * MIB,
    holds=60.0,
    beyond="max_request_body_size is the limit of a body",
)

STATIC = Door(
    name="static",
    title="files of the HTTP API: static, app, favicon",
    who="everybody who can reach it",
    opened=("saltwisted/web/service.py:startService",),
    request=64 * MIB,
    per_kib=200.0,
    per_request=1000.0,
    turn=5.0,
    memory=128 * KIB,
    memory_all=256 * MIB,
    holds=60.0,
    beyond="a larger file is not served; who reads nothing is cut off",
)

METRICS = Door(
    name="metrics",
    title="the port of /metrics, /livez and /readyz",
    who="everybody who can reach it",
    opened=("saltwisted/web/measures.py:startService",),
    request=16 * KIB,
    per_kib=200.0,
    per_request=1000.0,
    turn=5.0,
    memory=128 * KIB,
    memory_all=8 * MIB,
    holds=20.0,
    beyond="a body ends the connection; where there are many, the oldest is closed",
)

EVENTS = Door(
    name="events",
    title="/events and /ws: events for those who listen",
    who="users with a session",
    opened=("saltwisted/web/service.py:startService",),
    request=4 * KIB,
    per_kib=6000.0,
    per_request=3000.0,
    turn=5.0,
    memory=5 * MIB,
    memory_all=96 * MIB,
    holds=30.0,
    beyond=(
        "who has 4 MiB or 8192 events unread is cut off, and where there is no room for all, who "
        "has most unread; a web socket that sends more than 16 KiB in ten seconds is closed"
    ),
)

HOOKS = Door(
    name="hooks",
    title="/hook: events from outside",
    who="users with a session, or who signs his requests",
    opened=("saltwisted/web/service.py:startService",),
    request=MIB,
    per_kib=500.0,
    per_request=1000.0,
    turn=5.0,
    memory=2 * MIB,
    memory_all=HTTP.memory_all,
    holds=30.0,
    beyond="as before a login; max_request_body_size is the limit of a body",
)

DOORS: dict[str, Door] = {
    row.name: row for row in (HTTP, HTTP_USERS, HOOKS, EVENTS, STATIC, METRICS)
}
"""All doors, by name."""
