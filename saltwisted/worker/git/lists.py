"""
What is in a tree, for a process that lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.git import trees
from saltwisted.worker.git.reading import Objects

MOST_ENTRIES = 500_000
"""Files and directories of one tree that are listed; with more it is not served."""


def everything(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    Everything below a tree, as Salt lists it; C{files} and C{dirs} as of L{trees.in_runs}.

    @param request: C{repo}, C{tree} and C{mountpoint}.
    """
    with Objects(str(request["repo"])) as objects:
        try:
            found = trees.everything(str(request["tree"]), objects.read, MOST_ENTRIES)
        except ValueError as error:
            return {"error": str(error)}
    found = trees.mounted(found, str(request["mountpoint"]))
    return {
        "files": trees.in_runs(found.files),
        "dirs": trees.in_runs(found.dirs),
        "links": found.links,
        "left_out": found.left_out,
    }


def table(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    One large directory, for a L{trees.Table}: its raw form C{data}, and C{starts}.

    @param request: C{repo}, C{tree}, and C{most}, the bytes that it may have.
    """
    oid = str(request["tree"])
    with Objects(str(request["repo"])) as objects:
        (data,) = objects.read([oid], "tree", int(request["most"]))
    if data is None:
        return {"error": f"a directory has more than {int(request['most']) >> 20} MiB of names"}
    try:
        return {"data": data, "starts": trees.table_of(data, len(oid) // 2)}
    except ValueError as error:
        return {"error": str(error)}
