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


CONTROL = Door(
    name="control",
    title="the control socket of a master and of a cluster's node",
    who="every user of the machine, as the kernel names it; root and the daemon's own user have "
    "limits of their own (`TRUSTED` in `transports/ipc.py`)",
    opened=("saltwisted/transports/ipc.py:startService", "saltwisted/transports/ipc.py:adopt"),
    request=1 * MIB,
    per_kib=250,
    per_request=400,
    turn=5,
    memory=16 * MIB,
    memory_all=64 * MIB,
    holds=60,
    beyond="a message that is too long, or has too many containers, ends the connection; so does "
    "one that is not finished in time. A user's further calls are refused. Of users who make it "
    "keep too much, the connection that keeps most is closed. Others than root and the daemon's "
    "own user have half of the 512 connections, and one user an eighth",
)
CONTROL_MINION = Door(
    name="control-minion",
    title="the control socket of a minion",
    who="every user of the machine; all but root and the minion's own user are only refused",
    opened=("saltwisted/transports/ipc.py:startService", "saltwisted/transports/ipc.py:adopt"),
    request=64 * KIB,
    per_kib=250,
    per_request=400,
    turn=5,
    memory=1 * MIB,
    memory_all=16 * MIB,
    holds=60,
    beyond=CONTROL.beyond,
)

# Rows are added below, one for each door, as its limits are settled.

DOORS: dict[str, Door] = {
    row.name: row
    for row in (
        CONTROL,
        CONTROL_MINION,
    )
}
"""All doors, by name."""
