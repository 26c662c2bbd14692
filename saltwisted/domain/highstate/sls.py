"""
From SLS files to high data: includes, declarations in short form, order, conflicts.

Files come from a L{Source}, already rendered. The mistakes and their wording are those
of C{BaseHighState.render_highstate} in 3008.2.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from saltwisted.domain.highstate.words import High, is_pattern

FIRST_ORDER = 10000
"""The C{order} of the first state that names none."""

_LEADING = re.compile(r"^(\.+)(.*)$")


@frozen
class Rendered:
    """
    One SLS as data.

    @ivar data: its value; C{None} if there is nothing.
    @ivar origin: the address that it came from; distinguishes C{a/init.sls} from C{a.sls}.
    @ivar found: whether the file exists.
    """

    data: Any
    origin: str = ""
    errors: Sequence[str] = ()
    found: bool = True


class Source(Protocol):
    """Where SLS files come from."""

    @property
    def environments(self) -> Container[Any]:
        """All there are."""

    def names(self, saltenv: Any) -> Sequence[str]:
        """All SLS names of an environment, sorted."""

    def has(self, saltenv: Any, sls: str) -> bool:
        """Whether an environment has an SLS of just this name."""

    def render(self, sls: str, saltenv: Any, rendered: set[str], local: bool) -> Rendered:
        """Fetch and render one; C{local}: the name is a path of this machine."""


class Assembly:
    """
    High data under construction.

    @param auto_order: C{state_auto_order}: states keep the order of their files.
    @ivar high: what there is so far.
    """

    def __init__(self, source: Source, auto_order: bool = True) -> None:
        self._source = source
        self._auto_order = auto_order
        self._order = FIRST_ORDER
        self.high: High = {}

    def assemble(self, matches: Mapping[Any, Sequence[str]]) -> list[str]:
        """
        Render what a top file selected, or what was requested.

        @param matches: environment to SLS names, including globs.
        @return: errors; the data is in L{high}.
        """
        every: list[str] = []
        rendered: set[str] = set()
        files: list[str] = []
        for saltenv, wanted in matches.items():
            for name in wanted:
                if saltenv in self._source.environments:
                    files = self.fitting(saltenv, name)
                elif "__env__" in self._source.environments:
                    files = self.fitting("__env__", name)
                else:
                    every.append(f"No matching salt environment for environment '{saltenv}' found")
                # A file that is not listed may have come since, or be made on demand.
                files = files or [name]
                for sls in files:
                    if f"{saltenv}:{sls}" in rendered:
                        continue
                    state, errors = self.render(sls, saltenv, rendered, matches)
                    if state:
                        self._merge(self.high, state, errors)
                    place = f"SLS {name} in saltenv"
                    every += [
                        f"No matching sls found for '{name}' in env '{saltenv}'"
                        if "is not available" in error and place in error
                        else error
                        for error in errors
                    ]
        self._clean_extends()
        return every

    def fitting(self, saltenv: Any, pattern: str) -> list[str]:
        """The SLS of an environment that a glob fits."""
        if not is_pattern(pattern):
            return [pattern] if self._source.has(saltenv, pattern) else []
        return fnmatch.filter(self._source.names(saltenv), pattern)

    def render(
        self,
        sls: str,
        saltenv: Any,
        rendered: set[str],
        matches: Mapping[Any, Sequence[str]] | None,
        local: bool = False,
    ) -> tuple[High, list[str]]:
        """One SLS and all that it includes."""
        found = self._source.render(sls, saltenv, rendered, local)
        errors = list(found.errors)
        if found.found:
            rendered.add(f"{saltenv}:{sls}")
        state = found.data
        if not state:
            return {}, errors
        if not isinstance(state, dict):
            errors.append(f"SLS {sls} does not render to a dictionary")
            return state, errors
        included = self._included(state, sls, errors)
        self._take_extend(state, sls, saltenv, errors)
        self._take_exclude(state, sls, errors)
        self._declare(state, sls, saltenv, errors)
        own = list(state)
        for entry in included:
            self._include(entry, state, sls, saltenv, found.origin, rendered, matches, errors)
        self._put_in_order(state, own)
        return state, errors

    # -- includes

    def _included(self, state: High, sls: str, errors: list[str]) -> list[Any]:
        if "include" not in state:
            return []
        if not isinstance(state["include"], list):
            errors.append(f"Include Declaration in SLS {sls} is not formed as a list")
            return []
        included: list[Any] = state.pop("include")
        return included

    def _include(
        self,
        entry: Any,
        state: High,
        sls: str,
        saltenv: Any,
        origin: str,
        rendered: set[str],
        matches: Mapping[Any, Sequence[str]] | None,
        errors: list[str],
    ) -> None:
        env, name = saltenv, entry
        if isinstance(entry, dict) and entry:
            env, name = next(reversed(entry.items()))
        if not isinstance(name, str):
            errors.append(
                f"Badly formatted include {name} found in include in SLS '{saltenv}:{sls}'"
            )
            return
        known = self._source.environments
        if env not in known and "__env__" not in known:
            errors.append(
                f"Nonexistent saltenv '{env}' found in include of '{name}' within SLS "
                f"'{saltenv}:{sls}'"
            )
            return
        if name.startswith("."):
            absolute = _absolute(name, sls, origin)
            if absolute is None:
                errors.append(
                    f"Attempted relative include of '{name}' within SLS '{saltenv}:{sls}' "
                    "goes beyond top level package "
                )
                return
            name = absolute
        if env == "_xenv":
            among = matches or ()
            resolved = [one for one in among if self.fitting(one, name)]
        elif env in (matches or ()) or self.fitting(env, name):
            resolved = [env]
        else:
            resolved = []
        if len(resolved) != 1 and saltenv not in resolved:
            errors.append(_unresolved(env, name, resolved, matches))
            return
        chosen = resolved[0] if len(resolved) == 1 else saltenv
        for target in self.fitting(saltenv, name) or [name]:
            if f"{chosen}:{target}" in rendered:
                continue
            inner, more = self.render(target, chosen, rendered, matches)
            if inner:
                for id_ in inner:
                    if isinstance(id_, str) and id_.startswith("__"):
                        continue
                    if isinstance(inner[id_], dict):
                        inner[id_].setdefault("__sls_included_from__", []).append(sls)
                self._merge(state, inner, errors)
            errors.extend(more)

    # -- declarations

    def _take_extend(self, state: High, sls: str, saltenv: Any, errors: list[str]) -> None:
        if "extend" not in state:
            return
        extend = state.pop("extend")
        if not isinstance(extend, dict):
            errors.append(f"Extension value in SLS '{sls}' is not a dictionary")
            return
        for name, body in extend.items():
            if not isinstance(body, dict):
                errors.append(f"Extension name '{name}' in SLS '{sls}' is not a dictionary")
                continue
            body.setdefault("__sls__", sls)
            body.setdefault("__env__", saltenv)
            for key in list(body):
                if not key.startswith("_") and isinstance(body[key], list) and "." in key:
                    _split_key(body, key)
        state.setdefault("__extend__", []).append(extend)

    def _take_exclude(self, state: High, sls: str, errors: list[str]) -> None:
        if "exclude" not in state:
            return
        exclude = state.pop("exclude")
        if not isinstance(exclude, list):
            errors.append(f"Exclude Declaration in SLS {sls} is not formed as a list")
        state.setdefault("__exclude__", []).extend(exclude or ())

    def _declare(self, state: High, sls: str, saltenv: Any, errors: list[str]) -> None:
        """Give every id its SLS and environment, and C{module.function} keys their parts."""
        for id_, body in state.items():
            if not isinstance(body, dict):
                if id_ in ("__extend__", "__exclude__"):
                    continue
                if isinstance(body, str) and "." in body:
                    parts = body.split(".")
                    state[id_] = {"__sls__": sls, "__env__": saltenv, parts[0]: [parts[1]]}
                    continue
                errors.append(f"ID {id_} in SLS {sls} is not a dictionary")
                continue
            modules = set()
            for key in list(body):
                if not isinstance(key, str):
                    errors.append(
                        f"ID '{id_}' in SLS '{sls}' has a key that is not a string: {key!r}"
                    )
                    del body[key]
                    continue
                if key.startswith("_") or not isinstance(body[key], list):
                    continue
                module = key.split(".")[0]
                if "." in key:
                    if module in modules:
                        errors.append(
                            f"ID '{id_}' in SLS '{sls}' contains multiple state declarations "
                            "of the same type"
                        )
                        continue
                    _split_key(body, key)
                modules.add(module)
            body.setdefault("__sls__", sls)
            body.setdefault("__env__", saltenv)

    def _put_in_order(self, state: High, ids: Sequence[Any]) -> None:
        if not self._auto_order:
            return
        for id_ in ids:
            body = state.get(id_)
            for key, run in body.items() if isinstance(body, dict) else ():
                if key.startswith("_") or not isinstance(run, list):
                    continue
                if not any(isinstance(arg, dict) and next(iter(arg), "") == "order" for arg in run):
                    run.append({"order": self._order})
                    self._order += 1

    # -- joining

    def _merge(self, high: High, state: Any, errors: list[str]) -> None:
        if not isinstance(state, dict):
            errors.append(f"Error when rendering state with contents: {state}")
            return
        for key in ("__extend__", "__exclude__"):
            if key in state:
                high.setdefault(key, []).extend(state.pop(key))
        for id_, body in state.items():
            mine = high.get(id_)
            if id_ in high and mine != body:
                if not isinstance(mine, dict) or not isinstance(body, dict):
                    continue
                errors.append(
                    "Detected conflicting IDs, SLS IDs need to be globally unique.\n"
                    f"    The conflicting ID is '{id_}' and is found in SLS "
                    f"'{mine['__env__']}:{mine['__sls__']}' and SLS "
                    f"'{body['__env__']}:{body['__sls__']}'"
                )
        high.update(state)

    def _clean_extends(self) -> None:
        """Each extension once."""
        if "__extend__" not in self.high:
            return
        kept: list[tuple[Any, Any]] = []
        by_name: dict[Any, list[Any]] = {}
        for part in self.high["__extend__"]:
            for name, body in part.items():
                if body not in by_name.setdefault(name, []):
                    by_name[name].append(body)
                    kept.append((name, body))
        self.high["__extend__"] = [{name: body} for name, body in kept]


def _split_key(body: dict[str, Any], key: str) -> None:
    module, function = key.split(".")[:2]
    body[module] = body.pop(key)
    body[module].append(function)


def _absolute(name: str, sls: str, origin: str) -> str | None:
    """A relative include from the top; C{None} if it leads out of it."""
    match = _LEADING.match(name)
    if match is None:
        return name
    dots, rest = match.groups()
    parts = sls.split(".")
    if origin.endswith("/init.sls"):
        parts.append("init")
    if len(dots) > len(parts):
        return None
    return ".".join([*parts[: -len(dots)], rest])


def _unresolved(
    env: Any, name: str, resolved: Sequence[Any], matches: Mapping[Any, Any] | None
) -> str:
    if resolved:
        return (
            f"Ambiguous include: Specified SLS {env}: {name} is available on the salt master in "
            f"multiple available saltenvs: {', '.join(resolved)}"
        )
    where = ", ".join(matches or ()) if env == "_xenv" else env
    return (
        f"Unknown include: Specified SLS {env}: {name} is not available on the salt master in "
        f"saltenv(s): {where} "
    )
