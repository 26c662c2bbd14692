"""
The pillar of one minion: top files, SLS files with their includes, external pillars, merging.

The order of everything, and the texts in C{_errors}, are those of stock 3008: people test for them.
Only a bug can raise. An error in a file is an entry in C{_errors}, and a fuller text in
L{Compiled.details}, which may quote the file; it is for operators, and never for a log.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from attrs import define, field

from saltwisted.domain.pillar.plain import sendable
from saltwisted.domain.pillar.settings import PillarSettings
from saltwisted.domain.pillar.top import Top, chosen, in_env_order, merge_tops, wanted_environments
from saltwisted.domain.render.errors import TemplateFailure
from saltwisted.domain.render.pipeline import Job, Renderer
from saltwisted.domain.render.tree import merge, traverse_maps
from saltwisted.domain.sitecode import place_of
from saltwisted.domain.targeting.matchers import MinionFacts, confirm_top

_WILD = re.compile(r"[*?\[]")


class SlsSource(Protocol):
    """Where SLS files are found."""

    def find(self, path: str, saltenv: str) -> str | None:
        """A local file, or C{None}."""

    def names(self, saltenv: str) -> Sequence[str]:
        """Every SLS name of an environment, sorted, dotted."""


class ExtPillars(Protocol):
    """The external pillar modules."""

    def has(self, name: str) -> bool:
        """Whether there is a module of that name."""

    def run(self, name: str, pillar: Mapping[str, Any], config: Any) -> Any:
        """
        Call it with its part of the configuration.

        @raises Exception: whatever the module raises.
        """

    def replaced(self, pillar: Mapping[str, Any]) -> None:
        """The pillar that Salt's functions see is now this."""


@define
class Compiled:
    """
    A finished pillar.

    @ivar details: the whole text for each failure, with quoted lines.
    @ivar summaries: the same for a log: names, lines and syntax, no data.
    """

    pillar: dict[str, Any] = field(repr=False)
    details: list[str] = field(factory=list, repr=False)
    summaries: list[str] = field(factory=list)


@define
class _Rendered:
    """What one SLS gave, as its includer sees it."""

    state: Any
    errors: list[str]


class PillarCompiler:
    """
    One compilation.

    @param override: C{pillar=...} of the command line.
    @param seed: what there is before: what is compiled replaces its keys.
    """

    def __init__(
        self,
        settings: PillarSettings,
        facts: MinionFacts,
        renderer: Renderer,
        source: SlsSource,
        ext: ExtPillars,
        override: Mapping[str, Any] | None = None,
        seed: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings = settings
        self._facts = facts
        self._renderer = renderer
        self._source = source
        self._ext = ext
        self._override = dict(override or {})
        self._data: dict[str, Any] = dict(seed or {})
        self._optional: dict[str, list[str]] = {}
        self._result = Compiled({})

    def compile(self, ext: bool = True) -> Compiled:
        """
        Compile.

        @param ext: false leaves the external pillars out (the pillar of a git branch).
        """
        settings = self._settings
        top, top_errors = self._top()
        errors: list[str] = []
        if ext and settings.ext_first:
            early = self._external({**self._data, **self._override}, errors)
            self._now(early)
            pillar = self._slses(top, errors)
            self._now(self._merge(self._data, pillar))
        else:
            self._now(self._slses(top, errors))
            if ext:
                self._now(self._external(self._data, errors))
        pillar = self._data
        errors.extend(top_errors)
        if settings.opts is not None:
            hidden = ("pillar", "__context__", "functions", "matchers", "rend")
            pillar["master"] = {k: v for k, v in settings.opts.items() if k not in hidden}
        if errors:
            pillar["_errors"] = errors
        if self._override:
            pillar = self._merge(pillar, self._override)
        failed = self._decrypt(pillar)
        if failed:
            pillar["_errors"] = [*pillar.get("_errors", ()), *failed]
        self._result.pillar = pillar
        return self._result

    def matches(self) -> dict[str, list[str]]:
        """Environment to the SLS names that the top files give, nothing rendered but these."""
        return chosen(self._top()[0], self._settings.pillarenv, self._confirm)

    def merged_top(self) -> Top:
        """The top files of all environments, merged, with every target in them."""
        return self._top()[0]

    def top_errors(self) -> list[str]:
        """What keeps the top files from being read, a text each; nothing else is rendered."""
        return self._top()[1]

    # -- pieces ------------------------------------------------------------------

    def _merge(self, older: Any, newer: Any) -> Any:
        settings = self._settings
        return merge(older, newer, settings.strategy, settings.renderer, settings.merge_lists)

    def _now(self, pillar: Mapping[str, Any]) -> None:
        """From here on templates, matchers and functions see this pillar."""
        self._data.update(pillar)
        self._renderer.facts["pillar"] = self._data
        self._ext.replaced(self._data)

    def _failed(self, what: str, error: Exception) -> None:
        self._result.details.append(f"{what}:\n{error}")
        where = error.summary() if isinstance(error, TemplateFailure) else type(error).__name__
        place = place_of(error)
        self._result.summaries.append(f"{what}: {where}{f' ({place})' if place else ''}")

    def _noted(self, message: str) -> str:
        self._result.details.append(message)
        self._result.summaries.append(message)
        return message

    # -- top files ---------------------------------------------------------------

    def _top(self) -> tuple[Top, list[str]]:
        settings = self._settings
        errors: list[str] = []
        tops: dict[str, list[Any]] = {}
        asked: dict[str, list[Any]] = {}
        try:
            for env in wanted_environments(
                settings.environments,
                settings.roots,
                settings.pillarenv,
                settings.saltenv,
                settings.strategy,
            ):
                path = self._source.find(settings.top, env)
                if path is not None:
                    tops.setdefault(env, []).append(self._render(path, env, ""))
        except Exception as error:
            what = "Rendering Primary Top file failed, render error"
            errors.append(f"{what}:\n{error}")
            self._failed(what, error)
        for env, files in tops.items():
            for content in files:
                if isinstance(content, dict) and "include" in content:
                    asked.setdefault(env, []).extend(content.pop("include") or ())
        # Included tops are read as they are; what they include in turn is not followed.
        for env, names in asked.items():
            done: list[Any] = []
            for name in names:
                if name in done:
                    continue
                done.append(name)
                try:
                    path, _ = self._find_sls(str(name), env)
                    tops[env].append({} if path is None else self._render(path, env, ""))
                except Exception as error:
                    what = f"Rendering Top file {name} failed, render error"
                    errors.append(f"{what}:\n{error}")
                    self._failed(what, error)
        try:
            merged, self._optional = merge_tops(tops)
        except TypeError:
            merged = {}
            errors.append(self._noted("Error encountered while rendering pillar top file."))
        return merged, errors

    def _confirm(self, target: str, entries: Sequence[Any]) -> bool:
        facts = MinionFacts(
            id=self._facts.id,
            grains=self._facts.grains,
            pillar=self._data,
            nodegroups=self._facts.nodegroups,
            data=self._facts.data,
            expand_range=self._facts.expand_range,
        )
        return confirm_top(target, entries, facts, self._result.summaries.append)

    # -- SLS files -----------------------------------------------------------------

    def _render(self, path: str, saltenv: str, sls: str, **extra: Any) -> Any:
        return self._renderer.file(path, saltenv, sls, _pillar_rend=True, **extra)

    def _find_sls(self, name: str, saltenv: str) -> tuple[str | None, bool]:
        """The file of a dotted name, and whether it is an C{init.sls}."""
        base = name.replace(".", "/")
        for path, is_init in ((f"{base}.sls", False), (f"{base}/init.sls", True)):
            found = self._source.find(path, saltenv)
            if found is not None:
                return found, is_init
        return None, False

    def _matching(self, saltenv: str, pattern: str) -> list[str]:
        """
        The SLS names that a pattern means.

        @raises KeyError: there is no such environment.
        """
        if saltenv not in self._settings.environments:
            raise KeyError(saltenv)
        if _WILD.search(pattern):
            return fnmatch.filter(self._source.names(saltenv), pattern)
        # Names are listed with dots alone, and never an empty word between two of them.
        named = "/" not in pattern and all(pattern.split("."))
        return [pattern] if named and self._find_sls(pattern, saltenv)[0] is not None else []

    def _slses(self, top: Top, errors: list[str]) -> Any:
        settings = self._settings
        matches = chosen(top, settings.pillarenv, self._confirm)
        pillar: Any = dict(self._override)
        for env in in_env_order(matches, settings.env_order):
            names: list[str] = []
            for pattern in matches[env]:
                found: list[str] = []
                try:
                    found = self._matching(env, pattern)
                except KeyError:
                    errors.append(
                        self._noted(f"No matching pillar environment for environment '{env}' found")
                    )
                names.extend(found or [pattern])
            done: dict[str, Any] = {}
            for name in names:
                rendered = self._sls(name, env, done, {})
                errors.extend(rendered.errors)
                if isinstance(rendered.state, dict):
                    pillar = self._merge(pillar, rendered.state)
        return pillar

    def _sls(
        self, sls: str, saltenv: str, done: dict[str, Any], defaults: Mapping[str, Any]
    ) -> _Rendered:
        """One SLS with all it includes; C{done} keeps what was rendered already."""
        settings = self._settings
        errors: list[str] = []
        path, is_init = self._find_sls(sls, saltenv)
        if path is None:
            if sls in self._optional.get(saltenv, ()):
                return _Rendered(None, errors)
            if not settings.roots.get(saltenv):
                # Stock mentions this in its debug log only.
                return _Rendered(None, errors)
            errors.append(
                self._noted(
                    f"Specified SLS '{sls}' in environment '{saltenv}' is not"
                    " available on the salt master"
                )
            )
            done[sls] = {}
            return _Rendered({}, errors)
        state: Any = None
        try:
            state = self._render(path, saltenv, sls, **{str(k): v for k, v in defaults.items()})
        except Exception as error:
            what = f"Rendering SLS '{sls}' failed, render error"
            self._failed(what, error)
            errors.append(
                f"Rendering SLS '{sls}' failed. Please see master log for details."
                if settings.safe_errors
                else f"{what}:\n{error}"
            )
        done[sls] = state
        if not state:
            return _Rendered(state, errors)
        if not isinstance(state, dict):
            errors.append(self._noted(f"SLS '{sls}' does not render to a dictionary"))
            return _Rendered(state, errors)
        if "include" not in state:
            return _Rendered(state, errors)
        if not isinstance(state["include"], list):
            errors.append(
                self._noted(f"Include Declaration in SLS '{sls}' is not formed as a list")
            )
            return _Rendered(state, errors)
        return self._includes(sls, is_init, saltenv, state, done, defaults, errors)

    def _includes(
        self,
        sls: str,
        is_init: bool,
        saltenv: str,
        state: dict[str, Any],
        done: dict[str, Any],
        defaults: Mapping[str, Any],
        errors: list[str],
    ) -> _Rendered:
        """
        Merge what is included: under the includer's own values, or over them.

        An SLS that was rendered before adds its own values again, without what it
        includes; C{defaults} once given hold for the includes behind them. So in stock.
        """
        override = self._settings.includes_override
        parts: list[Any] = []
        latest: list[str] = []
        merged: Any = state
        for entry in state.pop("include"):
            key = None
            if isinstance(entry, dict):
                entry, how = next(iter(entry.items()))
                how = how if isinstance(how, dict) else {}
                defaults = how.get("defaults") or {}
                key = how.get("key")
            for name in self._included_names(str(entry), sls, is_init, saltenv, errors):
                if name not in done:
                    rendered = self._sls(name, saltenv, done, defaults)
                    part, latest = rendered.state, rendered.errors
                else:
                    part = done[name]
                if isinstance(part, dict) and part:
                    for word in reversed(str(key).split(":")) if key else ():
                        part = {word: part}
                    if override:
                        merged = self._merge(merged, part)
                    else:
                        parts.append(part)
                errors.extend(latest)
        if not override:
            merged = None
            for part in (*parts, state):
                merged = part if merged is None else self._merge(merged, part)
        return _Rendered(merged, errors)

    def _included_names(
        self, entry: str, sls: str, is_init: bool, saltenv: str, errors: list[str]
    ) -> list[str]:
        """
        The SLS that an include line means: globs, and names relative to the includer.

        A relative name is also looked for from the top, as in stock.
        """
        names: list[str] = []
        try:
            names.extend(self._matching(saltenv, entry.lstrip(".").replace("/", ".")))
            if entry.startswith("."):
                above = sls.split(".") if is_init else sls.split(".")[:-1]
                entry = ".".join([*above, entry[1:]])
            names.extend(self._matching(saltenv, entry))
        except KeyError:
            errors.append(
                self._noted(f"No matching pillar environment for environment '{saltenv}' found")
            )
            names = []
        return names or [entry]

    # -- external pillars ------------------------------------------------------------

    def _external(self, pillar: Any, errors: list[str]) -> Any:
        settings = self._settings
        if not isinstance(settings.ext, (list, tuple)):
            errors.append(self._noted('The "ext_pillar" option is malformed'))
            return pillar
        if settings.ext and self._override:
            pillar = self._merge(pillar, self._override)
        for entry in settings.ext:
            if not isinstance(entry, dict) or not entry:
                errors.append(self._noted('The "ext_pillar" option is malformed'))
                return {}
            if next(iter(entry)) in settings.ext_excluded:
                continue
            made: Any = None
            for name, config in entry.items():
                if not self._ext.has(name):
                    self._noted(f"ext_pillar interface named {name} is unavailable")
                    continue
                try:
                    made, problems = sendable(self._ext.run(name, pillar, config))
                except Exception as error:
                    errors.append(f"Failed to load ext_pillar {name}: {error}")
                    self._failed(f"Failed to load ext_pillar {name}", error)
                    continue
                errors += [
                    self._noted(f"Failed to load ext_pillar {name}: {problem}")
                    for problem in problems
                ]
            if isinstance(made, dict) and isinstance(made.get("_errors"), list):
                # Of one that compiles files itself. To merge them would be to lose some
                errors += made["_errors"]
                made = {key: value for key, value in made.items() if key != "_errors"}
            if made:
                try:
                    pillar = self._merge(pillar, made)
                except TypeError as error:
                    errors.append(f"Failed to load ext_pillar {next(iter(entry))}: {error}")
                    self._failed(f"Failed to load ext_pillar {next(iter(entry))}", error)
        return pillar

    # -- decryption --------------------------------------------------------------------

    def _decrypt(self, pillar: dict[str, Any]) -> list[str]:
        """C{decrypt_pillar}: decrypt the values at some keys, in place."""
        settings = self._settings
        if not settings.decrypt:
            return []
        keys = _as_map(settings.decrypt)
        if not keys:
            return ["decrypt_pillar config option is malformed"]
        errors: list[str] = []
        for key, renderer in keys.items():
            value = traverse_maps(pillar, key, None, settings.decrypt_delimiter)
            if value is None:
                continue
            try:
                plain = self._decrypted(value, renderer or settings.decrypt_default)
            except Exception as error:
                errors.append(f"Failed to decrypt pillar key '{key}': {error}")
                self._failed(f"Failed to decrypt pillar key '{key}'", error)
                continue
            above, _, last = key.rpartition(settings.decrypt_delimiter)
            parent = (
                traverse_maps(pillar, above, None, settings.decrypt_delimiter) if above else pillar
            )
            if parent is not None:
                parent[last] = plain
        return errors

    def _decrypted(self, value: Any, name: str) -> Any:
        allowed = self._settings.decrypt_renderers
        if allowed and name not in allowed:
            raise ValueError(
                f"'{name}' is not a valid decryption renderer."
                f" Valid choices are: {', '.join(allowed)}"
            )
        engine = self._renderer.engines.get(name)
        if engine is None:
            raise ValueError(f"Decryption renderer '{name}' is not available")
        return engine(value, Job(":string:", "base", ""))


def _as_map(entries: Any) -> dict[str, Any]:
    """C{decrypt_pillar} as a map: it may be a list of names and of maps with one key."""
    if isinstance(entries, dict):
        return entries
    found: dict[str, Any] = {}
    if not isinstance(entries, Iterable) or isinstance(entries, str):
        return found
    for entry in entries:
        if isinstance(entry, dict):
            if len(entry) != 1:
                return {}
            found.update(entry)
        elif isinstance(entry, (str, int, float)):
            found[str(entry)] = None
        else:
            return {}
    return found
