"""
Changes to high data after all SLS files are there: C{extend}, C{exclude} and the requisites C{_in}.

Stock reads all high data for each extension (C{find_name}). Here an index is used, so that the cost
is proportional to the length of the data. The results are those of C{reconcile_extend},
C{requisite_in} and C{_apply_exclude} in 3008.2.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from typing import Any

from saltwisted.domain.highstate.words import (
    REQUISITE_KEYWORDS,
    High,
    as_list,
    first_key,
)

REPEATED = 200
"""Up to so many entries, a C{_in} list repeats what stock repeats (see L{_targets})."""

_IN = frozenset(
    ["require_in", "watch_in", "onfail_in", "onchanges_in", "use", "use_in", "prereq_in"]
)
_NOT_USED = _IN | {"require", "watch", "prereq", "onfail", "onfail_stop", "onchanges"}


class Names:
    """
    Which id has an argument of this value: C{find_name} of stock, indexed.

    @param high: read at the first question; tell L{forget} of changes.
    """

    def __init__(self, high: High) -> None:
        self._high = high
        self._values: dict[tuple[Any, Any], dict[Any, int]] | None = None
        self._sls: dict[Any, list[Any]] | None = None
        self._first: dict[Any, tuple[Any, Any]] | None = None

    def find(self, name: Any, state: Any, strict: bool) -> list[tuple[Any, Any]]:
        """The (id, module) pairs that a reference means; an id twice if two arguments fit."""
        high = self._high
        if name in high and (not strict or state in high.get(name, {})):
            return [(name, state)]
        if state == "sls":
            return [(id_, first_key(high[id_])) for id_ in self.ids_of(name)]
        if self._values is None:
            self._values = {}
            for id_, body in high.items():
                for module, run in _parts(body):
                    self._note(id_, module, run, 1)
        try:
            found = self._values.get((state, name), {})
        except TypeError:
            return []
        return [(id_, state) for id_, count in found.items() for _ in range(count)]

    def changing(self, id_: Any, state: Any) -> None:
        """The arguments of a state are about to change."""
        if self._values is not None:
            self._note(id_, state, self._high[id_].get(state), -1)

    def changed(self, id_: Any, state: Any) -> None:
        """They have."""
        if self._values is not None:
            self._note(id_, state, self._high[id_].get(state), 1)

    def _note(self, id_: Any, state: Any, run: Any, count: int) -> None:
        index = self._values
        if index is None or not isinstance(run, list):
            return
        for arg in run:
            if not isinstance(arg, dict) or len(arg) != 1:
                continue
            value = arg[first_key(arg)]
            if not isinstance(value, (str, int, float)):
                continue
            ids = index.setdefault((state, value), {})
            ids[id_] = ids.get(id_, 0) + count
            if ids[id_] <= 0:
                del ids[id_]

    def ids_of(self, sls: Any) -> list[Any]:
        """The ids that an SLS declared, in order."""
        if self._sls is None:
            self._sls = {}
            for id_, body in self._high.items():
                if isinstance(body, dict):
                    self._sls.setdefault(body.get("__sls__"), []).append(id_)
        try:
            return self._sls.get(sls, [])
        except TypeError:
            return []

    def of_sls(self, sls: Any) -> list[tuple[Any, Any]]:
        """The (id, module) pairs that an SLS declared, in order."""
        return [
            (id_, module)
            for id_ in self.ids_of(sls)
            for module in self._high[id_]
            if not module.startswith("__")
        ]

    def named(self, name: Any) -> tuple[Any, Any] | None:
        """The first (id, module) with C{name: <name>} among its arguments."""
        if self._first is None:
            self._first = {}
            for id_, body in self._high.items():
                for module, run in _parts(body):
                    for arg in run if isinstance(run, list) else ():
                        if isinstance(arg, dict) and isinstance(arg.get("name"), str):
                            self._first.setdefault(arg["name"], (id_, module))
        return self._first.get(name) if isinstance(name, str) else None


def _parts(body: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(body, dict):
        return ()
    return [(key, run) for key, run in body.items() if not str(key).startswith("__")]


def reconcile_extend(high: High, strict: bool = False) -> list[str]:
    """
    Merge C{__extend__} into the states that it names; the high data is changed.

    @param strict: an id counts only with the module that is extended.
    @return: errors: an extended state does not exist.
    """
    errors: list[str] = []
    names = Names(high)
    excluded = _excluded_sls(high)
    for part in high.pop("__extend__", ()):
        for name, body in part.items():
            module = next(key for key in body if not key.startswith("__"))
            if name not in high or module not in high[name]:
                found = names.find(name, module, strict)
                if len(found) != 1:
                    errors.append(_not_extended(name, body))
                    continue
                name = found[0][0]
            if body.get("__sls__") in excluded:
                continue
            for state, run in body.items():
                if state.startswith("__"):
                    continue
                names.changing(name, state)
                if state not in high[name]:
                    high[name][state] = run
                else:
                    _extend(high[name][state], run)
                names.changed(name, state)
    return errors


def _excluded_sls(high: High) -> list[Any]:
    return [
        item if isinstance(item, str) else item["sls"]
        for item in high.get("__exclude__", ())
        if isinstance(item, str) or (isinstance(item, dict) and item.get("sls"))
    ]


def _not_extended(name: Any, body: dict[str, Any]) -> str:
    env, sls = body.get("__env__", "base"), body.get("__sls__", "base")
    return (
        f"Cannot extend ID '{name}' in '{env}:{sls}'. It is not part of the high state.\n"
        "This is likely due to a missing include statement or an incorrectly typed ID.\n"
        f"Ensure that a state with an ID of '{name}' is available\n"
        f"in environment '{env}' and to SLS '{sls}'"
    )


def _extend(mine: list[Any], run: list[Any]) -> None:
    """Lay arguments over arguments: requisites are joined, everything else is replaced."""
    for arg in run:
        done = False
        for index, value in enumerate(mine):
            if isinstance(arg, str) and isinstance(value, str):
                mine[index] = arg
                done = True
            elif isinstance(arg, dict) and isinstance(value, dict):
                name = first_key(arg)
                if name == first_key(value):
                    if name in REQUISITE_KEYWORDS:
                        value[name].extend(arg[name])
                    else:
                        mine[index] = arg
                    done = True
                if name == "name" and first_key(mine[index]) == "names":
                    mine[index] = arg
        if not done:
            mine.append(arg)


def apply_exclude(high: High) -> None:
    """Take out what C{__exclude__} names: ids, and all ids of SLS (globs)."""
    if "__exclude__" not in high:
        return
    patterns: set[Any] = set()
    ids: set[Any] = set()
    for item in high.pop("__exclude__"):
        if isinstance(item, str):
            patterns.add(item)
        elif isinstance(item, dict) and len(item) == 1:
            if "sls" in item:
                patterns.add(item["sls"])
            elif "id" in item:
                ids.add(item["id"])
    if patterns:
        fits: dict[Any, bool] = {}
        for name, body in high.items():
            sls = "" if name.startswith("__") else body.get("__sls__", "")
            if sls not in fits:
                fits[sls] = bool(sls) and any(fnmatch.fnmatch(sls, one) for one in patterns)
            if fits[sls]:
                ids.add(name)
    for id_ in ids:
        high.pop(id_, None)


def apply_requisites_in(high: High, disabled: Iterable[str] = ()) -> list[str]:
    """
    Turn C{require_in} and its family, C{use} and C{use_in} into arguments where they belong.

    @param disabled: C{disabled_requisites}.
    @return: errors: references with dots, or to states that do not exist.
    """
    work = _RequisitesIn(high, frozenset(disabled))
    for id_, body in high.items():
        if not isinstance(body, dict):
            continue
        for state, run in body.items():
            if state.startswith("__"):
                continue
            for arg in run:
                if isinstance(arg, dict) and arg:
                    work.argument(id_, state, body, arg)
    high["__extend__"] = [{key: value} for key, value in work.extend.items()]
    return work.errors + reconcile_extend(high, strict=True)


class _RequisitesIn:
    def __init__(self, high: High, disabled: frozenset[str]) -> None:
        self.high = high
        self.names = Names(high)
        self.disabled = disabled
        self.extend: dict[Any, dict[str, Any]] = {}
        self.errors: list[str] = []
        self._places: dict[tuple[Any, Any, str], list[Any]] = {}

    def argument(self, id_: Any, state: str, body: dict[str, Any], arg: dict[Any, Any]) -> None:
        """One argument of a state, which may be a C{_in}."""
        key = first_key(arg)
        if key not in _IN or key in self.disabled:
            return
        kind = key.split("_")[0]
        items = arg[key]
        if isinstance(items, dict):
            for module, name in items.items():
                if "." in module:
                    self.errors.append(
                        f"Invalid requisite in {kind}: {module} for {name} in SLS "
                        f"'{body['__sls__']}'. Requisites must not contain dots, did you mean "
                        f"'{module[: module.find('.')]}'?"
                    )
                    module = module.split(".")[0]
                self._require(name, module, kind, id_, state, body)
        elif isinstance(items, list):
            for name, module in self._targets(items, kind, body):
                if key == "use_in":
                    for other, part in self.names.find(name, module, strict=True):
                        self._use((id_, state), (other, part))
                elif key == "use":
                    for other, part in self.names.find(name, module, strict=True):
                        self._use((other, part), (id_, state))
                else:
                    self._require(name, module, kind, id_, state, body)

    def _targets(
        self, items: list[Any], kind: str, body: dict[str, Any]
    ) -> Iterable[tuple[Any, Any]]:
        """
        The (name, module) pairs of a list.

        Stock goes through all earlier entries once more for each entry. That repeats
        requirements to no effect, but C{show_lowstate} shows it; in long lists we leave it out.
        """
        pairs: list[tuple[Any, Any]] = []
        for item in items:
            ref = self._reference(item)
            if not ref:
                continue
            module = first_key(ref)
            name = ref[module]
            if module == "sls":
                pairs = self.names.of_sls(name)
            elif len(items) > REPEATED:
                pairs = [(name, module)]
            else:
                pairs.append((name, module))
            if "." in module:
                self.errors.append(
                    f"Invalid requisite in {kind}: {module} for {name}, in SLS "
                    f"'{body['__sls__']}'. Requisites must not contain dots, did you mean "
                    f"'{module[: module.find('.')]}'?"
                )
            yield from list(pairs)

    def _reference(self, item: Any) -> dict[Any, Any] | None:
        """C{{module: name}} for an entry, which may be a bare id or name."""
        if isinstance(item, dict):
            return item
        if item in self.high:
            module = next(key for key in self.high[item] if not key.startswith("__"))
            return {module: item}
        found = self.names.named(item)
        return None if found is None else {found[1]: found[0]}

    def _require(
        self, name: Any, module: Any, kind: str, id_: Any, state: str, body: dict[str, Any]
    ) -> None:
        target = self.extend.setdefault(name, {})
        run = target.setdefault(module, [])
        target["__env__"] = body["__env__"]
        target["__sls__"] = body["__sls__"]
        place = self._places.get((name, module, kind))
        if place is None:
            place = self._places[name, module, kind] = []
            for arg in run:
                if first_key(arg) == kind:
                    # An argument that "use" brought along.
                    place = self._places[name, module, kind] = arg[kind]
                    break
            else:
                run.append({kind: place})
        place.append({state: id_})

    def _use(self, source: tuple[Any, Any], target: tuple[Any, Any]) -> None:
        """The arguments of one state for another, save those that it has."""
        id_, state = target
        own = {
            first_key(arg)
            for arg in as_list(self.high[id_][state])
            if isinstance(arg, dict) and len(arg) == 1
        }
        run = self.extend.setdefault(id_, {}).setdefault(state, [])
        for arg in self.high[source[0]][source[1]]:
            if not isinstance(arg, dict) or len(arg) != 1:
                continue
            name = first_key(arg)
            if name not in _NOT_USED and name not in own and name not in ("name", "names"):
                run.append(arg)
