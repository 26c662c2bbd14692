"""
Long documents of the HTTP API, in a process that may take its time.

libyaml takes a second for a megabyte, and JSON full of brackets 50 milliseconds: a master that did
it itself would answer nobody meanwhile. Values are passed between the two in pieces or parcels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.api import bodies
from saltwisted.domain.api.parcels import parcels
from saltwisted.domain.api.problems import Problem
from saltwisted.wire.msgpack import unpack_bin


def serve(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """
    The entry of a pooled worker process.

    @param payload: C{read}, bytes of a document, and its C{type}, or C{write}, a packed value.
    @return: C{parcels} and C{raw}, or C{text}, or C{problem}: a status and a sentence.
    """
    if "write" in payload:
        return {"text": bodies.yaml_text(unpack_bin(payload["write"]))}
    try:
        body = bodies.read(payload["type"], payload["read"])
    except Problem as problem:
        return {"problem": [problem.status, problem.message]}
    return {"parcels": list(parcels(body.value)), "raw": body.raw}
