"""
Reading and writing YAML for the HTTP API, in a process that may take its time.

libyaml takes a second for a megabyte: a master that did it itself would answer nobody meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.api import bodies
from saltwisted.domain.api.problems import Problem


def serve(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """
    The entry of a pooled worker process.

    @param payload: C{read}, the bytes of a document, or C{write}, a value.
    @return: C{value} and C{raw}, or C{text}, or C{problem}: a status and a sentence.
    """
    if "write" in payload:
        return {"text": bodies.yaml_text(payload["write"])}
    try:
        body = bodies.read_yaml(payload["read"])
    except Problem as problem:
        return {"problem": [problem.status, problem.message]}
    return {"value": body.value, "raw": body.raw}
