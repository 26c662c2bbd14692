"""
The pillar's top files: which SLS files a minion gets from which environment.

These are pure rules on rendered data; the compiler renders.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Top = dict[str, "OrderedDict[str, list[Any]]"]
"""Environment to target to what stands below it: SLS names and C{{match: ...}} maps."""


def wanted_environments(
    environments: Sequence[str],
    roots: Iterable[str],
    pillarenv: str | None,
    saltenv: str | None,
    strategy: str,
) -> list[str]:
    """The environments whose top files are read, in order."""
    if pillarenv:
        return [pillarenv] if pillarenv in roots else []
    if strategy == "none":
        only = saltenv or "base"
        return [only] if only in environments else []
    return list(environments)


def merge_tops(tops: Mapping[str, Sequence[Any]]) -> tuple[Top, dict[str, list[str]]]:
    """
    All top files as one, and the SLS that may be missing, by environment.

    A target that is named again in the same environment replaces the earlier one;
    C{order} sorts the targets of an environment.

    @raises TypeError: the data is not a top file.
    """
    merged: Top = defaultdict(OrderedDict)
    orders: dict[str, dict[str, int]] = defaultdict(dict)
    optional: dict[str, list[str]] = {}
    for files in tops.values():
        for content in files:
            if not isinstance(content, Mapping):
                raise TypeError(f"a top file must be a map, not {type(content).__name__}")
            for env, targets in content.items():
                if env == "include":
                    continue
                for target in targets:
                    entries = targets[target]
                    orders[env][target] = 0
                    names: list[str] = []
                    maps: list[Any] = []
                    may_miss = False
                    for entry in entries:
                        if isinstance(entry, str):
                            if entry not in names:
                                names.append(entry)
                        elif isinstance(entry, dict):
                            if "match" in entry:
                                maps.append(entry)
                            if "order" in entry:
                                orders[env][target] = _order(entry["order"])
                            may_miss = may_miss or bool(entry.get("ignore_missing"))
                    if may_miss:
                        optional.setdefault(env, []).extend(names)
                    merged[env][target] = [*maps, *names]
    ordered: Top = {}
    for env, found in merged.items():
        ranks = orders[env]
        ordered[env] = OrderedDict(sorted(found.items(), key=lambda item: ranks[item[0]]))
    return ordered, optional


def _order(value: Any) -> int:
    try:
        return int(value)
    except ValueError:
        return 0


def chosen(
    top: Top, pillarenv: str | None, confirm: Callable[[str, Sequence[Any]], bool]
) -> dict[str, list[str]]:
    """
    Environment to the SLS names of all targets that mean the minion, each name once.

    @param confirm: whether a target with its entries means the minion.
    """
    found: dict[str, list[str]] = {}
    for env, targets in top.items():
        if pillarenv and env != pillarenv:
            continue
        for target, entries in targets.items():
            if not confirm(target, entries):
                continue
            names = found.setdefault(env, [])
            for entry in entries:
                if isinstance(entry, str) and entry not in names:
                    names.append(entry)
    return found


def in_env_order(matches: Mapping[str, Any], env_order: Sequence[str]) -> list[str]:
    """Environments in the configured order, the others behind."""
    named = [env for env in env_order if env in matches]
    return named + [env for env in matches if env not in named]
