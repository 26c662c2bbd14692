"""
From rendered SLS files to calls in their order.

An error in one SLS does not affect the others; stock drops everything that one event triggers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saltwisted.domain.highstate.chunks import compile_chunks
from saltwisted.domain.highstate.graph import Graph, order_chunks
from saltwisted.domain.highstate.verify import mistakes
from saltwisted.domain.highstate.words import Chunk, High, copied

Problem = tuple[str, str]
"""An SLS, and what is wrong with it."""


def compile_sls(rendered: Sequence[tuple[str, Any]]) -> tuple[list[Chunk], list[Problem]]:
    """
    The calls of several SLS files that react to one event, in order, and the errors.

    @param rendered: path and data of each; a later one replaces ids of an earlier one.
    """
    problems: list[Problem] = []
    sound: list[tuple[str, High]] = []
    for path, data in rendered:
        high, wrong = high_of(path, data)
        problems += [(path, text) for text in wrong]
        if high and not wrong:
            sound.append((path, high))
    chunks, wrong = _compile([high for _, high in sound])
    if not wrong:
        return chunks, problems
    if len(sound) == 1:
        return [], problems + [(sound[0][0], text) for text in wrong]
    # A requisite that nothing answers to: those that stand by themselves go on
    kept: list[Chunk] = []
    for path, high in sound:
        some, wrong = _compile([high])
        problems += [(path, text) for text in wrong]
        kept += [] if wrong else some
    return kept, problems


def high_of(path: str, data: Any) -> tuple[High, list[str]]:
    """High data of one rendered SLS, with C{module.function} in its parts; and its mistakes."""
    if not data:
        return {}, []
    if not isinstance(data, dict):
        return {}, [f"does not render to a map of ids, but to a {type(data).__name__}"]
    high: High = {}
    wrong: list[str] = []
    for name, body in data.items():
        if isinstance(body, str) and "." in body:
            module, _, function = body.partition(".")
            body = {module: [function]}
        if not isinstance(body, dict):
            wrong.append(
                f"the id {name!r} needs a map such as local.test.ping: [...], and has "
                f"{type(body).__name__}"
            )
            continue
        high[name] = {**_padded(body), "__sls__": path}
    return high, wrong or mistakes(high)


def _padded(body: dict[Any, Any]) -> dict[Any, Any]:
    """C{local.test.ping: [...]} as C{local: [..., "test.ping"]}; the first of a kind counts."""
    found: dict[Any, Any] = {}
    seen: set[str] = set()
    for key in sorted(body, key=str):
        value = body[key]
        if isinstance(key, str) and not key.startswith("_") and isinstance(value, list):
            kind, dot, function = key.partition(".")
            if dot and kind not in seen:
                found[kind] = [*value, function]
                seen.add(kind)
                continue
            seen.add(key)
        found[str(key)] = value
    return found


def _compile(highs: Sequence[High]) -> tuple[list[Chunk], list[str]]:
    whole: High = {}
    for high in highs:
        whole.update(copied(high))
    graph = Graph()
    chunks = compile_chunks(whole)
    for chunk in chunks:
        graph.add(chunk, False)
    ordered, errors = order_chunks(graph, chunks)
    return ([] if errors else ordered), errors
