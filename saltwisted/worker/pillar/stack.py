"""
The C{stack} external pillar: templates listed in templates, merged by rules in the data.

A map says by its key C{__}, and a list by a first item with that key, how it is merged with what
was there: C{overwrite}, C{merge-first}, C{merge-last} (the default) or C{remove}.
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Callable
from typing import Any

from jinja2 import Environment, FileSystemLoader
from jinja2.sandbox import SandboxedEnvironment

from saltwisted.domain.render.serialize import SaltExtension
from saltwisted.domain.render.tree import traverse
from saltwisted.domain.render.yaml import safe_load
from saltwisted.worker.pillar.host import PillarHost
from saltwisted.worker.renderhost import RootsHost, file_stamp

log = logging.getLogger(__name__)

STRATEGIES = ("overwrite", "merge-first", "merge-last", "remove")


def stack(sources: PillarHost) -> Callable[..., Any]:
    """Templates listed in templates, merged by rules that stand in the data (C{__})."""

    def ext_pillar(minion_id: str, pillar: Any, *args: str, **kwargs: Any) -> Any:
        """
        Positions are configuration files; keywords such as C{grains:os} choose more of
        them by a value of the pillar, the grains or the options.
        """
        places = {"pillar": pillar, "grains": sources.facts.grains, "opts": sources.opts}
        env = sources.pillarenv or sources.saltenv or "base"
        files = list(args)
        for chooser, choices in kwargs.items():
            place, _, key = chooser.partition(":")
            if place not in places:
                raise ValueError(
                    f'Unknown traverse option "{place}", should be one of {places.keys()}'
                )
            named = {(env if k == "__env__" else k): v for k, v in choices.items()}
            chosen = named.get(traverse(places[place], key, None), [])
            for name in chosen if isinstance(chosen, list) else [chosen]:
                files.append(name.replace("__env__", env))
        found: dict[str, Any] = {}
        for path in files:
            if sources.host.stamp(path) is None:
                log.info('Ignoring pillar stack cfg "%s": file does not exist', path)
                continue
            found = _stack_file(sources, path, found, minion_id, pillar)
        return found

    return ext_pillar


class _RecordingLoader(FileSystemLoader):
    def __init__(self, directory: str, host: RootsHost) -> None:
        super().__init__(directory)
        self._host = host

    def get_source(self, environment: Environment, template: str) -> Any:
        found = super().get_source(environment, template)
        self._host.stamp(str(found[1]))
        return found


def _stack_file(
    sources: PillarHost, path: str, found: dict[str, Any], minion_id: str, pillar: Any
) -> dict[str, Any]:
    base, name = os.path.split(path)
    environment = SandboxedEnvironment(
        loader=_RecordingLoader(base, sources.host), extensions=["jinja2.ext.do", SaltExtension]
    )
    environment.globals.update(
        {
            "__opts__": sources.opts,
            "__salt__": sources.functions(),
            "__grains__": sources.facts.grains,
            "__stack__": {"traverse": traverse, "cfg_path": path},
            "minion_id": minion_id,
            "pillar": pillar,
            "pillarenv": sources.pillarenv,
        }
    )
    listing = environment.get_template(name).render(stack=found)
    for item in _stack_items(listing):
        if not item.strip():
            continue
        for file in _stack_paths(sources.host, base, item):
            relative = os.path.relpath(file, base)
            try:
                text = environment.get_template(relative).render(stack=found, ymlpath=file)
            except Exception as error:
                raise ValueError(
                    f'Stack pillar template render error in {file}:\n"{error}"'
                ) from error
            try:
                data = safe_load(text)
            except Exception as error:
                raise ValueError(
                    f"Stack pillar yaml parsing error in {file}:\n{error}\n{text}"
                ) from error
            if isinstance(data, dict):
                found = merge_stack(found, data)
    return found


def _stack_items(listing: str) -> list[str]:
    """The list may be YAML or bare lines."""
    try:
        value = safe_load(listing)
    except Exception:
        value = None
    return value if isinstance(value, list) else listing.splitlines()


def _stack_paths(host: RootsHost, base: str, item: str) -> list[str]:
    pattern = os.path.join(base, item)
    paths = sorted(glob.glob(pattern))
    if glob.has_magic(pattern):
        folder = os.path.dirname(pattern)
        if glob.has_magic(folder):
            host.volatile.add("stack")
        else:
            host.seen[folder] = file_stamp(folder)
    else:
        host.stamp(pattern)
    if not paths:
        log.info('Ignoring pillar stack template "%s": can\'t find from root dir "%s"', item, base)
    return paths


def _without_marks(value: Any) -> Any:
    """Take the C{__} rules out of data that is used as it is."""
    if isinstance(value, dict):
        value.pop("__", None)
        for key, inner in value.items():
            value[key] = _without_marks(inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict) and "__" in value[0]:
        del value[0]
    return value


def _strategy(name: Any) -> str:
    if name not in STRATEGIES:
        raise ValueError(f'Unknown strategy "{name}", should be one of {STRATEGIES}')
    return str(name)


def merge_stack(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """
    One map over another by the rule under its key C{__}.

    @raises ValueError: there is no such rule.
    """
    strategy = _strategy(newer.pop("__", "merge-last"))
    if strategy == "overwrite":
        cleaned: dict[str, Any] = _without_marks(newer)
        return cleaned
    for key, value in newer.items():
        if strategy == "remove":
            older.pop(key, None)
            continue
        if key not in older:
            older[key] = _without_marks(value)
            continue
        if strategy == "merge-first":
            # The same as the other way round.
            older[key], value = _without_marks(value), older[key]
        if type(older[key]) is not type(value):
            older[key] = _without_marks(value)
        elif isinstance(value, dict):
            older[key] = merge_stack(older[key], value)
        elif isinstance(value, list):
            older[key] = _merge_lists(older[key], value)
        else:
            older[key] = value
    return older


def _merge_lists(older: list[Any], newer: list[Any]) -> list[Any]:
    strategy = "merge-last"
    if newer and isinstance(newer[0], dict) and "__" in newer[0]:
        strategy = newer.pop(0)["__"]
    strategy = _strategy(strategy)
    if strategy == "overwrite":
        return newer
    if strategy == "remove":
        return [item for item in older if item not in newer]
    return newer + older if strategy == "merge-first" else older + newer
