"""
C{listen}: which states are called again when all are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saltwisted.domain.highstate.words import REQUISITE_KEYWORDS, Chunk, Running, tag_of


def listeners(
    chunks: Sequence[Chunk], running: Running
) -> tuple[list[Chunk], dict[str, dict[str, Any]]]:
    """
    The calls of C{mod_watch} that changes ask for, and results for references to nothing.

    @param chunks: in the order of execution.
    """
    known: dict[tuple[str, str, str], Chunk] = {}
    first: dict[Any, Chunk] = {}
    wishes: list[tuple[tuple[Any, Any], Sequence[Any]]] = []
    for chunk in chunks:
        known[chunk["state"], chunk["__id__"], chunk["name"]] = chunk
        first.setdefault(chunk["__id__"], chunk)
        first.setdefault(chunk["name"], chunk)
        if "listen" in chunk:
            wishes.append(((chunk["state"], chunk["__id__"]), chunk["listen"]))
        for entry in chunk.get("listen_in", ()):
            for module, name in entry.items():
                wishes.append(((module, name), [{chunk["state"]: chunk["__id__"]}]))
    if not wishes:
        return [], {}
    index: dict[tuple[Any, Any], list[Chunk]] = {}
    for names, chunk in known.items():
        for name in dict.fromkeys(names):
            index.setdefault((names[0], name), []).append(chunk)
    calls: list[Chunk] = []
    errors: dict[str, dict[str, Any]] = {}
    for who, sources in wishes:
        for given in sources:
            source = given
            if not isinstance(given, dict):
                if given not in first:
                    continue
                source = {first[given]["state"]: first[given]["__id__"]}
            for ref in source.items():
                if ref not in index:
                    _missing(ref, errors)
                    continue
                for watched in index[ref]:
                    result = running.get(tag_of(watched))
                    if not result or not result["changes"]:
                        continue
                    if who not in index:
                        _missing(who, errors)
                        continue
                    calls += [_call(chunk) for chunk in index[who]]
    return calls, errors


def _call(chunk: Chunk) -> Chunk:
    low = {key: value for key, value in chunk.items() if key not in REQUISITE_KEYWORDS}
    low["sfun"] = chunk["fun"]
    low["fun"] = "mod_watch"
    low["__id__"] = f"listener_{low['__id__']}"
    return low


def _missing(ref: tuple[Any, Any], errors: dict[str, dict[str, Any]]) -> None:
    module, name = ref
    tag = f"Listen_Error_|-listen_{name}_|-listen_{module}_|-Listen_Error"
    errors[tag] = {
        "comment": f"Referenced state {module}: {name} does not exist",
        "name": f"listen_{module}:{name}",
        "result": False,
        "changes": {},
    }
