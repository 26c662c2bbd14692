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

MINIONS_DATA = Door(
    name="minions-data",
    title="sealed requests by which minions bring something: returns, events, grains, mine, files",
    who="an accepted minion, by its session key",
    opened=("transports/zeromq/router.py:listen", "transports/tcp/server.py:listen"),
    request=128 * MIB,
    # A list of events of seven bytes each, each of which is fired
    per_kib=1000.0,
    per_request=500.0,
    turn=8.0,
    # What a handler makes of a request, beside the request itself
    memory=4 * 128 * MIB,
    # Of events that wait for reactions, on the disk; a minion has at most half of what is free
    memory_all=256 * MIB,
    holds=60.0,
    beyond="it is refused; a minion's long requests wait for one another, and if too many events "
    "wait for reactions, it loses its own",
)
MINIONS_ASK = Door(
    name="minions-ask",
    title="sealed requests by which minions ask for something, or have something done; what they "
    "target costs a few microseconds more for each word and minion, in turns",
    who="an accepted minion, by its session key",
    opened=("transports/zeromq/router.py:listen", "transports/tcp/server.py:listen"),
    request=2 * MIB,
    per_kib=1000.0,
    per_request=1000.0,
    turn=8.0,
    memory=32 * MIB,
    memory_all=1024 * MIB,
    holds=60.0,
    beyond="it is refused",
)
PUBLISH = Door(
    name="publish",
    title="jobs of users with rules, and of minions, beside the names that are their target",
    who="a user of publisher_acl or external_auth, a minion of peer",
    opened=(
        "transports/ipc.py:startService",
        "transports/zeromq/router.py:listen",
        "transports/tcp/server.py:listen",
    ),
    request=MIB,
    # Arguments that are YAML, of functions that call others
    per_kib=1000.0,
    per_request=1000.0,
    turn=15.0,
    memory=32 * MIB,
    memory_all=1024 * MIB,
    holds=60.0,
    beyond="it is refused",
)

DOORS: dict[str, Door] = {row.name: row for row in (MINIONS_DATA, MINIONS_ASK, PUBLISH)}
"""All doors, by name."""
