"""
The history of a stock master's jobs: read from its C{local_cache}, written for ours.

Stock keeps a directory for each job, C{jobs/<2 digits>/<the other 62>}, with C{.load.p},
C{.minions.p} (and C{.minions.<syndic>.p}) and a directory for each minion that has returned
(C{return.p}, C{out.p}): C{salt/returners/local_cache.py}. The result is one file of rows, which
L{saltwisted.stores.jobs.history} imports when our master has started. Times are those of the files,
because a jid is local time in some versions and universal time in others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from struct import Struct
from typing import IO, Any

from attrs import define

from saltwisted.domain.jid import is_jid
from saltwisted.domain.keys import valid_minion_id
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin, unpack

FILE = "history.msgpack"
HEAD = Struct(">I")
SLACK = 60.0


@define
class Counts:
    """
    What was found.

    @ivar broken: files that could not be read, for instance half written ones.
    """

    jobs: int = 0
    returns: int = 0
    broken: int = 0


def count(folder: str) -> int:
    """How many jobs a stock job cache holds, roughly: its directories."""
    return sum(1 for _ in _directories(folder, 0.0))


def write(folder: str, stream: IO[bytes], since: float = 0.0) -> Counts:
    """
    Write a stock job cache as rows.

    @param since: only jobs in whose directory something has appeared since then, in seconds
        since 1970.
    @raises OSError: the rows cannot be written.
    """
    counts = Counts()
    for path in _directories(folder, since):
        for row in _rows(path, counts):
            data = pack_bin(row)
            stream.write(HEAD.pack(len(data)) + data)
    return counts


def _directories(folder: str, since: float) -> Iterator[str]:
    """The directories of jobs; what goes away meanwhile, as stock cleans up, is left out."""
    with suppress(OSError):
        for top in sorted(os.listdir(folder)):
            with suppress(OSError):
                for entry in os.scandir(os.path.join(folder, top)):
                    if entry.is_dir(follow_symlinks=False) and entry.stat().st_mtime >= since:
                        yield entry.path


def _rows(path: str, counts: Counts) -> Iterator[list[Any]]:
    """The record of one job, and then what came back."""
    load, started = _unpacked(os.path.join(path, ".load.p"), counts)
    if not isinstance(load, Mapping) or not is_jid(load.get("jid")):
        return
    jid = str(load["jid"])
    with suppress(OSError):
        started = os.stat(os.path.join(path, "jid")).st_mtime
    minions: set[str] = set()
    entries = sorted(os.listdir(path))
    for name in entries:
        if name.startswith(".minions.") and name.endswith(".p"):
            some, _ = _unpacked(os.path.join(path, name), counts)
            if isinstance(some, list):
                minions.update(map(str, some))
    fun = load.get("fun")
    text = fun if isinstance(fun, str) else ",".join(map(str, fun)) if fun else ""
    # A job that a minion has begun itself is kept by stock as its return
    kept = {key: value for key, value in load.items() if key not in ("jid", "cmd", "return", "tok")}
    if "fun_args" in kept:
        kept.setdefault("arg", kept["fun_args"])
    counts.jobs += 1
    yield ["job", jid, started, text, pack_bin(kept), pack_bin(sorted(minions))]
    for name in entries:
        found, at = _unpacked(os.path.join(path, name, "return.p"), counts)
        if at == 0.0 or not valid_minion_id(name):
            continue
        if not isinstance(found, Mapping) or "return" not in found:
            found = {"return": found}  # as it was written before 2015
        value = {"fun": fun, "fun_args": load.get("arg") or [], **found}
        outputter, there = _unpacked(os.path.join(path, name, "out.p"), counts)
        if there:
            value["out"] = outputter
        counts.returns += 1
        yield ["return", jid, name, at, pack_bin(value)]


def _unpacked(path: str, counts: Counts) -> tuple[Any, float]:
    """The value in a file and when it was written; C{None} and 0 where there is none."""
    try:
        with open(path, "rb") as stream:
            return unpack(stream.read()), os.fstat(stream.fileno()).st_mtime
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, WireError):
        counts.broken += 1
    return None, 0.0


def main() -> None:
    """Write the job cache in a folder to a file, which has its name when it is whole."""
    folder, part, path = sys.argv[1:]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(part, flags, 0o600), "wb") as stream:
        write(folder, stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.rename(part, path)


if __name__ == "__main__":
    main()
