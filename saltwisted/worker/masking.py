"""
When a pillar value, or a secret among the options, may be shown.

Since Salt 3008 the C{pillar} functions answer a person with stars in place of every value; only
what is empty, zero, C{False} or C{None} is shown. What a person requests is one function of a job,
and L{answering} says that it is called now. The same holds for a function whose answer another
function stores or shows: the mine's, and that of C{module.run}. All other callers (modules,
templates, pillars) work with the value, and get it. So it is with options that are secret, and the
functions that answer with options.

A state with C{no_log: True} shows nothing of its arguments: not in its result, wherever that is
made, nor in its name, which is often a command, nor in what is stored of its run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from saltwisted.domain.secrecy import hide, redact

_asked: ContextVar[str] = ContextVar("asked", default="")
"""The module of the function whose answer is shown; C{""}: modules and templates call."""
_OF_OPTIONS = ("config", "test")
"""Modules whose functions answer with options, or with what a function of others answers."""


@contextmanager
def answering(fun: str) -> Iterator[None]:
    """Within this block a function is called whose answer is shown or stored as it is."""
    token = _asked.set(fun.partition(".")[0])
    try:
        yield
    finally:
        _asked.reset(token)


@contextmanager
def plain_pillar() -> Iterator[None]:
    """Within this block C{pillar.get} and its family answer with plain values."""
    token = _asked.set("")
    try:
        yield
    finally:
        _asked.reset(token)


def shown(value: Any, unmask: bool | None = None) -> Any:
    """What the caller gets to see; C{unmask} of C{None} means by the place of the call."""
    plain = _asked.get() != "pillar" if unmask is None else unmask
    return value if plain else redact(value)


def shown_options(opts: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the caller gets to see of options, among which may be the grains and the pillar."""
    if _asked.get() not in _OF_OPTIONS:
        return opts
    from saltwisted.config.secrets import shown_value  # only people need it

    return {
        name: redact(opts[name])
        if name == "pillar"
        else opts[name]
        if name == "grains"
        else shown_value(name, opts[name])
        for name in opts
    }


def masked(low: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """The result of a state, without what one with C{no_log} must not tell."""
    if low.get("no_log"):
        for word in ("comment", "changes", "warnings"):
            if word in result:
                result[word] = hide(result[word])
        for part in result.get("sub_state_run") or ():
            for word in ("comment", "changes"):
                if word in part:
                    part[word] = hide(part[word])
        if "name" in result:
            result["name"] = name_of(low)
    return result


def name_of(low: Mapping[str, Any]) -> Any:
    """The name of a state as it may be told."""
    return low.get("__id__") if low.get("no_log") else low.get("name")


def unnamed(running: dict[str, Any], chunks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Results under tags in which the names of states with C{no_log} are their ids."""
    names = {(low["state"], str(low["name"])) for low in chunks if low.get("no_log")}
    if not names:
        return running
    found: dict[str, Any] = {}
    for tag, result in running.items():
        words = tag.split("_|-")
        # A name may have the mark in it that divides words
        state, id_, name, fun = words[0], words[1], "_|-".join(words[2:-1]), words[-1]
        if (state, name) in names and name != id_:
            told, number = f"{state}_|-{id_}_|-{id_}_|-{fun}", 1
            while told in found or told in running:
                number += 1
                told = f"{state}_|-{id_}_|-{id_} {number}_|-{fun}"
            tag = told
        found[tag] = result
    return found


def is_marked(high: Mapping[str, Any]) -> bool:
    """Whether there is a state with C{no_log} in high data."""
    return any(
        isinstance(arg, Mapping) and arg.get("no_log")
        for body in high.values()
        if isinstance(body, Mapping)
        for args in body.values()
        if isinstance(args, list)
        for arg in args
    )
