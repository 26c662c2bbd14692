"""
From high data to low data: one flat map for each call.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Any

from saltwisted.domain.highstate.words import Chunk, High, copied, first_key, tag_of, unique

_KEPT = ("__sls__", "__env__", "__sls_included_from__")


def compile_chunks(high: High, orchestration_jid: Any = None) -> list[Chunk]:
    """
    The calls of high data, not yet in order.

    C{names} makes one call of each name; a map in it brings arguments of its own.

    @param orchestration_jid: handed down to every call.
    """
    chunks: list[Chunk] = []
    for id_, body in high.items():
        if id_.startswith("__"):
            continue
        for state, run in body.items():
            if state.startswith("__"):
                continue
            chunk: Chunk = {"state": state, "name": id_}
            if orchestration_jid is not None:
                chunk["__orchestration_jid__"] = orchestration_jid
            for key in _KEPT:
                if key in body:
                    chunk[key] = body[key]
            chunk["__id__"] = id_
            function = None
            names: list[Any] = []
            for arg in run:
                if isinstance(arg, str):
                    function = arg
                elif isinstance(arg, dict):
                    for key, value in arg.items():
                        if key == "names":
                            names.extend(value)
                        elif key == "state":
                            continue
                        elif key == "name" and not isinstance(value, str):
                            chunk[key] = id_
                        else:
                            chunk[key] = value
            if function is None:
                continue
            for number, entry in enumerate(unique(names), 1):
                live = copied(chunk)
                if isinstance(entry, dict):
                    live["name"] = first_key(entry)
                    for arg in entry[live["name"]]:
                        live.update(copied(arg))
                else:
                    live["name"] = entry
                live["name_order"] = number
                live["fun"] = function
                chunks.append(live)
            if not names:
                live = copied(chunk)
                live["fun"] = function
                chunks.append(live)
    return chunks


def disabled_by(chunk: Chunk, patterns: Iterable[str]) -> str | None:
    """The first of the patterns in the grain C{state_runs_disabled} that names this call."""
    name = f"{chunk['state']}.{chunk['fun']}"
    for pattern in patterns:
        if fnmatch.fnmatch(name, pattern):
            return pattern
    return None


def disabled_result(chunk: Chunk, pattern: str, number: int) -> tuple[str, dict[str, Any]]:
    """Tag and result of a call that is disabled."""
    name = f"{chunk['state']}.{chunk['fun']}"
    return tag_of(chunk), {
        "changes": {},
        "result": False,
        "comment": f'The state function "{name}" is currently disabled by "{pattern}", '
        f"to re-enable, run state.enable {pattern}.",
        "__run_num__": number,
        "__sls__": chunk["__sls__"],
    }
