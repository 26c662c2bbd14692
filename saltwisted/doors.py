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

GIT = Door(
    name="git",
    title="git remotes of gitfs and git_pillar, and what is in their repositories",
    who="who may push to one of them, and whoever answers in its place",
    opened=("worker/git/program.py:start",),
    # One fetch; processes receive it, and the option is gitfs_max_size
    request=8192 * MIB,
    # Of directories that libgit2 reads here; those of more than a mebibyte are read by a worker
    per_kib=4.0,
    per_request=100.0,
    turn=5.0,
    # The list of a remote's files, with its directories and small files that were read lately
    memory=128 * MIB,
    # Lists of all remotes together; directories and files have 24 MiB for each remote
    memory_all=256 * MIB,
    # The option is gitfs_timeout
    holds=300.0,
    beyond="a path leads nowhere, a list lacks this remote, or a fetch fails and the commits before"
    " it are served; the log and the status name the remote",
)
FILES = Door(
    name="files",
    title="requests for files: their paths, and lists of them",
    who="accepted minions",
    # They come with other requests
    opened=(),
    # Of a path with its environment, in characters
    request=16 * KIB,
    per_kib=100.0,
    per_request=100.0,
    turn=5.0,
    # A chunk of a file, and its sealed form
    memory=2 * MIB,
    memory_all=16 * MIB,
    holds=120.0,
    beyond="there is no such file",
)

DOORS: dict[str, Door] = {row.name: row for row in (GIT, FILES)}
"""All doors, by name."""
