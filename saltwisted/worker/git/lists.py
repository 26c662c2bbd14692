"""
What is in a tree, for a process that lists.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saltwisted.domain.git import trees
from saltwisted.worker.git.reading import Objects
from saltwisted.worker.git.repository import FILES

MOST_ENTRIES = 500_000
"""Files and directories of one tree that are listed; with more it is not served."""
SECONDS = 30.0
"""Within these a tree has to be read: others wait to be listed."""
SMALL = 256 * 1024
"""Bytes of an answer that are sent; more are written to a file, which a thread reads."""


def everything(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    Everything below a tree, as Salt lists it; C{files} and C{dirs} as of L{trees.in_runs}.

    @param request: C{repo}, C{tree} and C{mountpoint}. With C{folder}, that of the remote, a long
        answer is in a file: C{at}, and how long each of its C{runs} is, also of C{links} and of
        their C{targets}. C{text} is how long all of it is.
    """
    until = time.monotonic() + SECONDS
    with Objects(str(request["repo"])) as objects:

        def read(oids: Sequence[str], kind: str, most: int) -> Iterator[bytes | None]:
            for data in objects.read(oids, kind, most):
                if time.monotonic() > until:
                    raise ValueError(f"the tree cannot be read within {SECONDS:g} s")
                yield data

        try:
            found = trees.everything(str(request["tree"]), read, MOST_ENTRIES)
        except ValueError as error:
            return {"error": str(error)}
    found = trees.mounted(found, str(request["mountpoint"]))
    runs = {"files": trees.in_runs(found.files), "dirs": trees.in_runs(found.dirs)}
    linked = {"links": [*found.links], "targets": [*found.links.values()]}
    many = {**runs, **{name: trees.in_runs(texts) for name, texts in linked.items()}}
    size = sum(len(run) for each in many.values() for run in each)
    told = {"left_out": found.left_out, "text": size}
    if "folder" in request and size > SMALL:
        return {**_aside(str(request["folder"]), many), **told}
    return {**runs, "links": found.links, **told}


def _aside(folder: str, runs: Mapping[str, Sequence[bytes]]) -> dict[str, Any]:
    """Write an answer to a file, that is removed by whoever reads it, or some time later."""
    place = os.path.join(folder, FILES)
    os.makedirs(place, mode=0o700, exist_ok=True)
    path = os.path.join(place, f"list-{os.urandom(8).hex()}")
    with open(path, "xb") as file:
        for each in runs.values():
            file.writelines(each)
    return {"at": path, "runs": {name: [*map(len, each)] for name, each in runs.items()}}


def table(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    One large directory, for a L{trees.Table}: its raw form C{data}, and C{starts}.

    @param request: C{repo}, C{tree}, and C{most}, the bytes that it may have; C{folder} as of
        L{everything}.
    """
    oid = str(request["tree"])
    with Objects(str(request["repo"])) as objects:
        (data,) = objects.read([oid], "tree", int(request["most"]))
    if data is None:
        return {"error": f"a directory has more than {int(request['most']) >> 20} MiB of names"}
    try:
        starts = trees.table_of(data, len(oid) // 2)
    except ValueError as error:
        return {"error": str(error)}
    if "folder" in request and len(data) > SMALL:
        return _aside(str(request["folder"]), {"data": [data], "starts": [starts]})
    return {"data": data, "starts": starts}
