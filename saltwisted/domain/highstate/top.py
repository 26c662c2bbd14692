"""
Top files: which SLS files of which environment this minion gets.

These are rules on rendered data; L{saltwisted.worker.states.highstate} fetches and renders. The
four ways of merging are those of C{top_file_merging_strategy}; a sentence for the log goes to
C{note}.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

Tops = dict[str, list[Any]]
"""Environment to the top files found there, as data."""
Top = dict[Any, dict[Any, Any]]
"""Environment to target to a list of SLS names and maps."""

Note = Callable[[str], None]


class NoTargets(Exception):
    """A section of a top file has no targets."""

    def __init__(self) -> None:
        super().__init__("Unable to render top file. No targets found.")


def environments(roots: Sequence[str], served: Sequence[str], order: Sequence[str]) -> list[str]:
    """
    The environments in the order in which their top files count.

    @param roots: those of C{file_roots}.
    @param served: those that the file server has.
    @param order: C{env_order}.
    """
    wanted = list(dict.fromkeys(order))
    if wanted:
        return [env for env in wanted if env in served] if served else wanted
    return list(dict.fromkeys(["base", *roots, *served]))


def merged(tops: Tops, strategy: str, default_top: str | None, note: Note) -> Top:
    """
    All top files as one.

    @param strategy: C{merge}, C{same} or C{merge_all}; anything else is C{merge}.
    @param default_top: for C{same}: the environment that speaks for those without a top file.
    @raises NoTargets: a section without targets.
    """
    if strategy == "same":
        return _same(tops, default_top, note)
    if strategy == "merge_all":
        return _merge_all(tops)
    if strategy != "merge":
        note(f"Invalid top_file_merging_strategy '{strategy}', falling back to 'merge'")
    return _merge(tops)


def _take(top: Top, env: Any, targets: Any) -> None:
    if not isinstance(targets, Mapping):
        raise NoTargets
    top.setdefault(env, {}).update(targets)


def _merge(tops: Tops) -> Top:
    """The base environment speaks for all; others for themselves, where it is silent."""
    top: Top = {}
    for content in tops.get("base", ()):
        for env, targets in content.items():
            if env != "include":
                _take(top, env, targets)
    for own, contents in tops.items():
        for content in contents if own != "base" else ():
            for env, targets in content.items():
                if env == own and env not in top:
                    _take(top, env, targets)
    return top


def _same(tops: Tops, default_top: str | None, note: Note) -> Top:
    """Every environment speaks for itself alone, or has the default speak."""
    top: Top = {}
    for own, contents in tops.items():
        speaking = contents
        if all(content == {} for content in contents):
            speaking = tops.get(default_top or "", [])
            if all(content == {} for content in speaking):
                note(
                    f"The '{own}' saltenv has no top file, and the fallback saltenv specified "
                    f"by default_top ({default_top}) also has no top file"
                )
                continue
        for content in speaking:
            if own in content:
                _take(top, own, content[own])
    return top


def _merge_all(tops: Tops) -> Top:
    """All sections of all files, lists joined."""
    top: Top = {}
    for contents in tops.values():
        for content in contents:
            for env, targets in content.items():
                if env == "include":
                    continue
                if not isinstance(targets, Mapping):
                    raise NoTargets
                section = top.setdefault(env, {})
                for target, entries in targets.items():
                    if target not in section:
                        section[target] = entries
                        continue
                    older, names = _split(section[target])
                    newer, more = _split(entries)
                    match = newer or older
                    joined: list[Any] = [match] if match is not None else []
                    joined += names
                    joined += [name for name in more if name not in joined]
                    section[target] = joined
    return top


def _split(entries: Any) -> tuple[Any, list[str]]:
    match = None
    names = []
    for entry in entries:
        if isinstance(entry, dict):
            match = entry
        if isinstance(entry, str):
            names.append(entry)
    return match, names


def mistakes(top: Any) -> list[str]:
    """What is wrong with a top file, in stock's words."""
    if not isinstance(top, dict):
        return ["Top data was not formed as a dict"]
    errors = []
    for env, targets in top.items():
        if env == "include":
            continue
        if not isinstance(env, str):
            errors.append(f"Environment {env} in top file is not formed as a string")
        if env == "":
            errors.append("Empty saltenv statement in top file")
        if not isinstance(targets, dict):
            errors.append(f"The top file matches for saltenv {env} are not formatted as a dict")
            continue
        for target, entries in targets.items():
            if not isinstance(entries, list):
                errors.append(
                    f"Malformed topfile: state declarations for matcher {target!r} in saltenv "
                    f"{env!r} are not formed as a list (got {type(entries).__name__})"
                )
                continue
            for entry in entries:
                if isinstance(entry, dict):
                    errors += [
                        f"Improperly formatted top file matcher in saltenv {entry}: {value} file"
                        for value in entry.values()
                        if not value
                    ]
                elif entry == "":
                    errors.append(f"Environment {env} contains an empty sls index")
    return errors


def matches(
    top: Top,
    saltenv: str | None,
    confirm: Callable[[Any, Sequence[Any]], bool],
    available: Container[Any],
) -> dict[Any, list[str]]:
    """
    Environment to the SLS that this minion gets, in order and as often as named.

    @param saltenv: if set, the only environment that counts.
    @param confirm: whether a target with its entries means the minion.
    @param available: the environments there are, for C{{env: sls}} entries.
    """
    found: dict[Any, list[str]] = {}
    for env, targets in top.items():
        if not saltenv or env == saltenv:
            for target, entries in targets.items():
                _select(env, target, entries, confirm, available, found)
    return found


def _select(
    env: Any,
    target: Any,
    entries: Any,
    confirm: Callable[[Any, Sequence[Any]], bool],
    available: Container[Any],
    found: dict[Any, list[str]],
) -> None:
    if isinstance(entries, str):
        entries = [entries]
    if not confirm(target, entries):
        return
    names = found.setdefault(env, [])
    for entry in entries:
        if isinstance(entry, str):
            names.append(entry)
        elif isinstance(entry, dict):
            rest = dict(entry)
            for inner, more in rest.pop("subfilter", {}).items():
                _select(env, inner, more, confirm, available, found)
            if rest:
                other, sls = rest.popitem()
                if other in available:
                    found.setdefault(other, []).append(sls)


def with_external(
    found: dict[Any, list[str]], external: Mapping[Any, Any], first: bool
) -> dict[Any, list[str]]:
    """
    The matches, and those of C{master_tops}.

    @param first: C{master_tops_first}.
    """
    for env, names in external.items():
        mine = found.get(env, [])
        before, after = (names, mine) if first else (mine, names)
        found[env] = list(before) + [name for name in after if name not in before]
    return found


def whitelisted(found: dict[Any, list[str]], names: Any) -> dict[Any, list[str]]:
    """Only the SLS on a list, which may be comma text."""
    if not names:
        return found
    if not isinstance(names, list):
        names = names.split(",")
    kept: dict[Any, list[str]] = {}
    for env, chosen in found.items():
        some = [sls for sls in chosen if sls in names]
        if some:
            kept[env] = some
    return kept


def usage(
    found: Mapping[Any, Sequence[str]], available: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """C{show_state_usage}: which SLS of each environment this minion uses."""
    answer = {}
    for env, names in available.items():
        mine = set(found.get(env, ()))
        used = [name for name in names if name in mine]
        unused = [name for name in names if name not in mine]
        answer[env] = {
            "used": used,
            "unused": unused,
            "count_all": len(names),
            "count_used": len(used),
            "count_unused": len(unused),
        }
    return answer
