"""
The state compiler on this machine: fetches SLS files, renders them, and passes them to the rules.

L{saltwisted.domain.highstate} has the rules, L{saltwisted.worker.states.run} the run. All of it
happens in the job's own process.
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from saltwisted.domain.highstate import extend, verify
from saltwisted.domain.highstate import top as topfile
from saltwisted.domain.highstate.sls import Assembly, Rendered
from saltwisted.domain.highstate.words import Chunk, High
from saltwisted.domain.render.errors import TemplateFailure
from saltwisted.domain.render.pipeline import Renderer, RenderSettings
from saltwisted.domain.render.tree import merge
from saltwisted.domain.targeting.matchers import MATCHERS, MinionFacts, confirm_top
from saltwisted.worker.exceptions import CommandExecutionError, SaltException
from saltwisted.worker.filequestions import create_url
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.renderhost import LocalHost
from saltwisted.worker.states.cache import read_cache, write_high
from saltwisted.worker.states.run import StateRun
from saltwisted.worker.templates import written_renderer

log = logging.getLogger(__name__)

PROFILE = 15
"""Salt's level between debug and info."""

NO_STATES = "no_|-states_|-states_|-None"

_FROM_MASTER: tuple[tuple[str, Any], ...] = (
    ("state_top_saltenv", None),
    ("nodegroups", {}),
    ("jinja_env", {}),
    ("jinja_sls_env", {}),
    ("jinja_lstrip_blocks", False),
    ("jinja_trim_blocks", False),
)
"""Options in which the master's word counts, with what counts if it is silent."""

_FROM_MASTER_OR_OWN = (
    "state_auto_order",
    "top_file_merging_strategy",
    "env_order",
    "default_top",
)


class Environments:
    """
    The SLS files of each environment, listed when they are first needed.

    @param names: all environments.
    """

    def __init__(self, client: Any, names: Callable[[], Sequence[str]]) -> None:
        self._client = client
        self._names = names
        self._known: dict[str, None] | None = None
        self._lists: dict[Any, list[str]] = {}
        self._sets: dict[Any, frozenset[str]] = {}

    def __contains__(self, saltenv: object) -> bool:
        return saltenv == "base" or saltenv in self.known()

    def known(self) -> dict[str, None]:
        """All environments in order, the base first."""
        if self._known is None:
            self._known = dict.fromkeys(["base", *self._names()])
        return self._known

    def names(self, saltenv: Any) -> list[str]:
        """As L{saltwisted.domain.highstate.sls.Source} says."""
        if saltenv not in self._lists:
            self._lists[saltenv] = self._client.list_states(saltenv)
        return self._lists[saltenv]

    def has(self, saltenv: Any, sls: str) -> bool:
        """As L{saltwisted.domain.highstate.sls.Source} says."""
        if saltenv not in self._sets:
            self._sets[saltenv] = frozenset(self.names(saltenv))
        return sls in self._sets[saltenv]


class HighState:
    """
    One compilation and its run.

    @param loaders: the job's modules, with its options for this run.
    @param pillar_override: values that replace those of the pillar.
    @param pillar_enc: the renderer that decrypts them.
    @param jid: the job's id, for events and pauses; C{None} if the call is not a job.
    @param mocked: pretend that every state succeeds.
    @param fresh_pillar: compile the pillar again even if there is one.
    @ivar run: what executes calls.
    """

    def __init__(
        self,
        loaders: Loaders,
        *,
        pillar_override: Any = None,
        pillar_enc: Any = None,
        jid: str | None = None,
        mocked: bool = False,
        fresh_pillar: bool = True,
    ) -> None:
        self.loaders = loaders
        self.opts = loaders.opts
        self.client = loaders.pack["__fileclient__"]
        self._override, self._override_enc = pillar_override, pillar_enc
        if fresh_pillar or pillar_override:
            log.debug("Gathering pillar data for state run")
            loaders.replace(pillar=self.gathered_pillar())
            log.debug("Finished gathering pillar data for state run")
        log.info("Loading fresh modules for state activity")
        self.run = StateRun(loaders, jid=jid, mocked=mocked, gather_pillar=self.gathered_pillar)
        self.environments = Environments(self.client, self._environments)
        self.assembly = Assembly(self, bool(self.opts.get("state_auto_order", True)))
        self._renderer: Renderer | None = None

    @property
    def high(self) -> High:
        """The high data so far, C{building_highstate} of stock."""
        return self.assembly.high

    def gathered_pillar(self) -> Any:
        """The pillar, compiled now, with the override on top."""
        override = self._override
        pillar = self.loaders.modules["pillar.items"](
            pillar=override,
            pillar_enc=self._override_enc,
            pillarenv=self.opts.get("pillarenv"),
            unmask=True,
        )
        if override and isinstance(override, dict) and not self._override_enc:
            return merge(
                pillar,
                override,
                str(self.opts.get("pillar_source_merging_strategy") or "smart"),
                str(self.opts.get("renderer") or "yaml"),
                bool(self.opts.get("pillar_merge_lists")),
            )
        return pillar

    # -- files

    def names(self, saltenv: Any) -> Sequence[str]:
        """As L{saltwisted.domain.highstate.sls.Source} says."""
        return self.environments.names(saltenv)

    def has(self, saltenv: Any, sls: str) -> bool:
        """As L{saltwisted.domain.highstate.sls.Source} says."""
        return self.environments.has(saltenv, sls)

    def render(self, sls: str, saltenv: Any, rendered: set[str], local: bool) -> Rendered:
        """As L{saltwisted.domain.highstate.sls.Source} says."""
        origin, errors = "", []
        if local:
            path: Any = sls
            if not os.path.isfile(path):
                errors.append(f"Specified SLS {sls} on local filesystem cannot be found.")
        else:
            found = self.client.get_state(sls, saltenv)
            path, origin = found.get("dest"), found.get("source", "")
        if not path:
            errors.append(
                f"Specified SLS {sls} in saltenv {saltenv} is not available on the salt master "
                "or through a configured fileserver"
            )
            return Rendered(None, origin, errors, found=False)
        data = None
        try:
            data = self._rendered(path, saltenv, sls, rendered)
        except (TemplateFailure, SaltException) as error:
            if isinstance(error, TemplateFailure) and error.unforeseen and error.__cause__:
                trace = "".join(traceback.format_exception(error.__cause__))
                errors.append(f"Rendering SLS {sls} failed, render error: {error}\n{trace}")
            else:
                errors.append(f"Rendering SLS '{saltenv}:{sls}' failed: {error}")
            log.critical("Rendering SLS '%s:%s' failed: %s", saltenv, sls, _summary(error))
        except Exception as error:
            errors.append(
                f"Rendering SLS {sls} failed, render error: {error}\n{traceback.format_exc()}"
            )
            log.critical("Rendering SLS %s failed, render error: %s", sls, type(error).__name__)
        self.run.processed.add(sls)
        return Rendered(data, origin, errors)

    def _rendered(self, path: str, saltenv: str, sls: str, rendered: set[str] | None = None) -> Any:
        log.debug("compile template: %s", path)
        began = time.monotonic()
        data = self.renderer.file(path, saltenv, sls, rendered_sls=rendered)
        log.log(PROFILE, "Time (in seconds) to render '%s': %s", path, time.monotonic() - began)
        return data

    @property
    def renderer(self) -> Renderer:
        """Renders with the grains and pillar as they are now."""
        loaders = self.loaders
        if self._renderer is None:

            def find(path: str, saltenv: str) -> str | None:
                return self.client.cache_file(create_url(path), saltenv) or None

            self._renderer = Renderer(
                LocalHost(find, self.opts, lambda: loaders.modules, loaders.adopt_salt),
                RenderSettings.of(self.opts),
                opts=self.opts,
                grains=loaders.grains,
                pillar=loaders.pillar,
                functions=loaders.called,
                proxied=True,
                custom=partial(written_renderer, loaders),
            )
        self._renderer.facts.update(grains=loaders.grains, pillar=loaders.pillar)
        return self._renderer

    # -- the top file

    def _environments(self) -> list[str]:
        return topfile.environments(
            list(self.opts.get("file_roots") or ()),
            self.client.envs(),
            self.opts.get("env_order") or (),
        )

    def _rendered_top(self, path: Any, saltenv: str, sls: str = "") -> Any:
        return self._rendered(path, saltenv, sls) if path else {}

    def tops(self) -> topfile.Tops:
        """
        The top files of all environments that count, and those they include.

        @raises TemplateFailure: one cannot be rendered.
        """
        opts = self.opts
        wanted = [opts["saltenv"]] if opts.get("saltenv") else []
        if not wanted:
            strategy = opts.get("top_file_merging_strategy")
            if strategy == "same" and not opts.get("default_top"):
                raise TemplateFailure(
                    "top_file_merging_strategy set to 'same', but no default_top "
                    "configuration option was set"
                )
            only = opts.get("state_top_saltenv")
            wanted = [str(only)] if only else self._environments()
        tops: topfile.Tops = {}
        for saltenv in wanted:
            path = self.client.cache_file(opts["state_top"], saltenv)
            tops[saltenv] = [self._rendered_top(path, saltenv)]
        for saltenv, contents in tops.items():
            done: set[str] = set()
            for content in list(contents):
                for pattern in content.pop("include", ()) if "include" in content else ():
                    for sls in self.assembly.fitting(saltenv, pattern):
                        if sls not in done:
                            done.add(sls)
                            path = self.client.get_state(sls, saltenv).get("dest")
                            contents.append(self._rendered_top(path, saltenv, ""))
        return tops

    def top(self) -> topfile.Top:
        """
        All top files as one; C{{}} if one cannot be rendered.

        @raises topfile.NoTargets: a section has no targets.
        """
        try:
            tops = self.tops()
        except (TemplateFailure, SaltException) as error:
            log.error("Unable to render top file: %s", _summary(error))
            return {}
        opts = self.opts
        return topfile.merged(
            tops,
            str(opts.get("top_file_merging_strategy")),
            opts.get("default_top"),
            lambda text: log.warning("%s", text),
        )

    def matches(self, data: topfile.Top) -> dict[Any, list[str]]:
        """Environment to SLS for this minion, with those of C{master_tops}."""
        opts = self.opts
        facts = MinionFacts(
            id=opts["id"],
            grains=self.loaders.grains,
            pillar=self.loaders.pillar,
            nodegroups=opts.get("nodegroups") or {},
            data=lambda key: self.loaders.modules["data.get"](key),
        )

        def confirm(target: Any, entries: Sequence[Any]) -> bool:
            for entry in entries:
                if isinstance(entry, dict) and entry.get("match", "glob") not in MATCHERS:
                    raise CommandExecutionError(
                        f"Unknown matcher '{entry['match']}' of target '{target}' in the top file"
                    )
            return confirm_top(target, entries, facts)

        found = topfile.matches(data, opts.get("saltenv"), confirm, self.environments)
        return topfile.with_external(
            found, self._master_tops(), bool(opts.get("master_tops_first"))
        )

    def _master_tops(self) -> Mapping[Any, Any]:
        opts = self.opts
        if opts.get("file_client") != "local":
            return self.client.master_tops(self.loaders.grains)  # type: ignore[no-any-return]
        found: dict[Any, Any] = {}
        wanted = opts.get("master_tops") or {}
        for name in wanted:
            for suffix in ("", ".top"):
                function = self.loaders["tops"].get(name + suffix) if "." in name + suffix else None
                if function is None:
                    continue
                try:
                    answer = function(opts=opts, grains=self.loaders.grains)
                    found = dict(merge(found, answer, lists=True))
                except Exception as error:
                    log.error(
                        "Top function %s failed with error %s for minion %s",
                        name,
                        error,
                        opts["id"],
                    )
                break
        return found

    # -- high data

    def errors_of_pillar(self, force: bool = False) -> list[Any]:
        """What C{_errors} of the pillar says."""
        return [] if force else list(self.loaders.pillar.get("_errors") or ())

    def load_dynamic(self, matches: Mapping[Any, Any]) -> None:
        """C{autoload_dynamic_modules}: fetch custom modules of the environments."""
        if not self.opts.get("autoload_dynamic_modules"):
            return
        synced = self.loaders.modules["saltutil.sync_all"](list(matches), refresh=False)
        if synced.get("grains"):
            self.loaders.replace(grains=make_grains(self.opts))
            self.loaders.replace(pillar=self.gathered_pillar())
        if any(synced.values()):
            self.run.calls.refresh_modules()

    def call_highstate(
        self,
        exclude: Any = None,
        cache: Any = None,
        cache_path: str = "",
        force: bool = False,
        whitelist: Any = None,
        orchestration_jid: Any = None,
    ) -> Any:
        """Everything that the top file gives this minion; results, or a list of errors."""
        answer: dict[str, Any] = {
            NO_STATES: {
                "result": False,
                "comment": "No states found for this minion",
                "name": "No States",
                "changes": {},
                "__run_num__": 0,
            }
        }
        if cache and os.path.isfile(cache_path):
            return self.run.call_high(read_cache(cache_path), orchestration_jid)
        try:
            data = self.top()
        except topfile.NoTargets as error:
            answer[NO_STATES]["comment"] = f"Unable to render top file: {error}"
            return answer
        except Exception:
            return [traceback.format_exc()]
        errors = topfile.mistakes(data)
        found = self.matches(data)
        if not found:
            answer[NO_STATES]["comment"] = (
                "No Top file or master_tops data matches found. Please see master log for details."
            )
            return answer
        found = topfile.whitelisted(found, whitelist)
        self.load_dynamic(found)
        of_pillar = self.errors_of_pillar(force)
        if of_pillar:
            errors += ["Pillar failed to render with the following messages:", *of_pillar]
            return errors
        errors += self.assembly.assemble(found)
        add_excludes(self.high, exclude)
        if errors:
            return errors
        if not self.high:
            return answer
        write_high(cache_path, self.high)
        return self.run.call_high(self.high, orchestration_jid)

    def compile_highstate(self) -> Any:
        """The high data of the top file, or errors."""
        data = self.top()
        errors = topfile.mistakes(data)
        errors += self.assembly.assemble(self.matches(data))
        return errors or self.high

    def compile_low(self) -> list[Any]:
        """The calls of the top file in their order, or errors."""
        errors = self.assembly.assemble(self.matches(self.top()))
        high = self.high
        errors += extend.reconcile_extend(high)
        errors += verify.mistakes(high)
        errors += extend.apply_requisites_in(high, self.run.disabled_requisites)
        extend.apply_exclude(high)
        if errors:
            return errors
        chunks: list[Chunk]
        chunks, errors = self.run.compile_high(high)
        return errors or chunks

    def verified(self, matches: Mapping[Any, Sequence[str]]) -> list[str]:
        """Assemble the high data of some SLS; errors."""
        errors = self.assembly.assemble(matches)
        return errors + verify.mistakes(self.high)

    def compile_sls(
        self, matches: Mapping[Any, Sequence[str]], requisites: bool = False
    ) -> tuple[list[Chunk], list[str]]:
        """
        The calls of some SLS in their order, or errors.

        @param requisites: also apply those of the C{_in} form.
        """
        errors = self.verified(matches)
        if requisites and not errors:
            errors += extend.apply_requisites_in(self.high, self.run.disabled_requisites)
        if errors:
            return [], errors
        return self.run.compile_high(self.high)

    def call_text(self, text: str) -> Any:
        """Run the text of one SLS, which may not include others."""
        name = "<template-str>"
        high = self.renderer.text(text, default=None)
        if not high:
            return high
        if not isinstance(high, dict):
            return [f"Template {name} does not render to a dictionary"]
        for word in ("include", "exclude", "extends"):
            if word in high:
                return [
                    f"The '{word}' declaration found on '{name}' is invalid when "
                    "rendering single templates"
                ]
        errors: list[str] = []
        for id_, body in high.items():
            declare_alone(high, id_, body, name, errors)
        return errors or self.run.call_high(high)

    def shown_top(self) -> tuple[dict[Any, list[str]], list[str]]:
        """What the top file gives this minion, or errors."""
        data = self.top()
        errors = topfile.mistakes(data)
        return ({}, errors) if errors else (self.matches(data), [])

    def usage(self) -> Any:
        """C{show_state_usage}."""
        data = self.top()
        errors = topfile.mistakes(data)
        if errors:
            return errors
        lists = {env: self.names(env) for env in self.environments.known()}
        return topfile.usage(self.matches(data), lists)


def declare_alone(high: High, id_: Any, body: Any, name: str, errors: list[str]) -> None:
    """Bring one id of a template that is not an SLS into the form of high data."""
    if not isinstance(body, dict):
        if isinstance(body, str) and "." in body:
            parts = body.split(".")
            high[id_] = {parts[0]: [parts[1]]}
        else:
            errors.append(f"ID {id_} in template {name} is not a dictionary")
        return
    modules = set()
    for key in sorted(body):
        if key.startswith("_"):
            continue
        if body[key] is None:
            errors.append(
                f"ID '{id_}' in template {name} contains a short declaration ({key}) with a "
                "trailing colon. When not passing any arguments to a state, the colon must be "
                "omitted."
            )
            continue
        if not isinstance(body[key], list):
            continue
        module = key.split(".")[0]
        if "." in key:
            if module in modules:
                errors.append(
                    f"ID '{id_}' in template '{name}' contains multiple state declarations of "
                    "the same type"
                )
                continue
            body[module] = body.pop(key)
            body[module].append(key.split(".")[1])
        modules.add(module)


def add_excludes(high: High, exclude: Any) -> None:
    """What the command line excludes, as if an SLS said so."""
    if exclude:
        names = exclude.split(",") if isinstance(exclude, str) else list(exclude)
        high.setdefault("__exclude__", []).extend(names)


def _summary(error: BaseException) -> str:
    """An error for the log, where no template and no data may stand."""
    summary = getattr(error, "summary", None)
    return summary() if callable(summary) else type(error).__name__


@contextmanager
def changed_options(loaders: Loaders, changes: Mapping[str, Any]) -> Iterator[None]:
    """Other values in C{__opts__} for a while."""
    opts = loaders.opts
    before = {key: opts.get(key, _ABSENT) for key in changes}
    opts.update(changes)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is _ABSENT:
                opts.pop(key, None)
            else:
                opts[key] = value


@contextmanager
def master_options(loaders: Loaders) -> Iterator[None]:
    """The options with those of the master in them, as far as states are concerned."""
    opts = loaders.opts
    if opts.get("file_client") == "local":
        told: Any = opts
    else:
        told = loaders.pack["__fileclient__"].master_opts()
    changes: dict[str, Any]
    if not told:
        changes = {
            "renderer": "jinja|yaml",
            "failhard": False,
            "state_top": "salt://top.sls",
            "nodegroups": {},
            "file_roots": {"base": ["/srv/salt"]},
        }
    else:
        state_top = str(told["state_top"])
        if not state_top.startswith("salt://"):
            state_top = create_url(state_top.removeprefix("/"))
        changes = {
            "renderer": told["renderer"],
            "failhard": told.get("failhard", False),
            "state_top": state_top,
            "file_roots": told["file_roots"],
        }
        changes.update({key: told.get(key, default) for key, default in _FROM_MASTER})
        changes.update({key: told.get(key, opts.get(key)) for key in _FROM_MASTER_OR_OWN})
        changes.update(
            {
                key: opts.get(key) or told.get(key) or False
                for key in ("state_events", "state_aggregate")
            }
        )
    with changed_options(loaders, changes):
        yield


_ABSENT = object()
