"""
A pillar worker: compiles one minion's pillar per call, and keeps what it learnt.

The process is long-lived. Compiled templates, parsed texts and loaded execution
modules stay between calls; everything else is made for each. The answer names
what the pillar depended on, so that the master can keep it until a file, a
directory or a grain changes.

Calls have the shape C{{"do": "pillar", "id", "grains", "saltenv", "pillarenv", "override",
"ext", "extra"}}; where C{grains}, C{override}, C{ext} and C{extra} are long, they are a map in
C{packed}. The answer is C{{"packed": bytes, "files": [[path, stamp]], "grains":
[names], "log": [lines], "good": bool, "failing": [texts]}}: C{files} is C{None} for a pillar that
must not be kept,
C{grains} is C{None} if all were looked at, C{good} says that it has no errors, C{failing} what
external pillars could not do all the same, a sentence each. C{"do": "top"}
answers with the merged top file, C{"do": "tops"} with environment to SLS names, from
C{master_tops}.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from attrs import evolve

from saltwisted.config.compat import COMPAT_VERSION_TEXT
from saltwisted.config.gitpillar import FETCHED
from saltwisted.config.secrets import without_own
from saltwisted.domain.pillar.compile import Compiled, PillarCompiler
from saltwisted.domain.pillar.plain import sendable
from saltwisted.domain.pillar.settings import PillarSettings
from saltwisted.domain.render.cache import RenderCache
from saltwisted.domain.render.pipeline import Renderer, RenderSettings
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.wire.msgpack import pack, unpack, unpack_bin
from saltwisted.worker.exceptions import SaltClientError
from saltwisted.worker.fileclient import FileClient, file_client
from saltwisted.worker.grains.collect import Grains
from saltwisted.worker.masking import plain_pillar
from saltwisted.worker.pillar.external import Sources
from saltwisted.worker.pillar.facts import NotedFunctions, OptsDict, UsedGrains, looked_at
from saltwisted.worker.pillar.tops import master_tops
from saltwisted.worker.process import asbefore
from saltwisted.worker.process.catalogue import Catalogue
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.process.modulefiles import KINDS, adopt_salt
from saltwisted.worker.renderhost import RootsHost
from saltwisted.worker.servedfiles import served_by

VIRTUAL_GRAINS = ("kernel", "os", "os_family", "osrelease", "osmajorrelease", "init", "virtual")
"""What decides which execution modules there are; modules loaded for one set serve all alike."""

KEPT_LOADERS = 4
MOST_FAILING = 20
DEEPEST = 3
"""Pillars within pillars."""
_depth: ContextVar[int] = ContextVar("pillar_depth", default=0)


def grains_of(grains: Mapping[str, Any], minion: str) -> dict[str, Any]:
    """
    What templates see as grains.

    Grains of this very machine stay as they are: they compute themselves when they are read. So do
    those of a pillar that this one is a part of, which has to know what was looked at here.
    """
    if isinstance(grains, (Grains, UsedGrains)) and grains.get("id") == minion:
        return grains
    return UsedGrains({**grains, "id": minion})


class Compilation:
    """
    One call: its options, host, renderer and compiler.

    @param request: the call.
    """

    def __init__(self, worker: PillarWorker, request: Mapping[str, Any]) -> None:
        self._worker, self._request = worker, request
        self.minion = str(request["id"])
        self.grains = grains_of(request.get("grains") or {}, self.minion)
        opts = OptsDict(worker.opts)
        saltenv, pillarenv = request.get("saltenv"), request.get("pillarenv")
        self.settings = PillarSettings.of(opts, saltenv, pillarenv)
        self.refused = self._take_ext(opts, request.get("ext"))
        self.master_id = opts.get("id")
        opts.update(
            {
                "id": self.minion,
                "minion_id": self.minion,
                "grains": self.grains,
                "file_client": "local",
                "saltenv": saltenv if saltenv is not None else opts.get("saltenv"),
                "pillarenv": self.settings.pillarenv,
                "pillar_roots": dict(self.settings.roots),
                "state_top": "salt://" + self.settings.top,
            }
        )
        self.settings = PillarSettings.of(
            {**opts, "saltversion": COMPAT_VERSION_TEXT}, saltenv, self.settings.pillarenv
        )
        if self.settings.opts is not None:
            self.settings = evolve(
                self.settings,
                opts=without_own(
                    {k: v for k, v in self.settings.opts.items() if k != FETCHED},
                    worker.shown_opts,
                ),
            )
        self.opts = opts
        self.pillar: Mapping[str, Any] = {}
        self._inner = Compiled({})
        self._loaders: Loaders | None = None
        self.functions = NotedFunctions(self._functions, lambda name: self.host.volatile.add(name))
        self.host = RootsHost(self.settings.roots, opts, lambda: self.functions, adopt_salt)
        self.renderer = Renderer(
            self.host,
            worker.render_settings,
            opts=opts,
            grains=self.grains,
            pillar={},
            functions=self.functions,
            cache=worker.cache,
            custom=self._written,
        )
        self.facts = MinionFacts(
            id=self.minion, grains=self.grains, nodegroups=opts.get("nodegroups") or {}
        )
        self.sources = self._sources(request)
        override = request.get("override")
        self.compiler = PillarCompiler(
            self.settings,
            self.facts,
            self.renderer,
            self.host,
            self.sources,
            override if isinstance(override, dict) else None,
            request.get("seed"),
        )

    def _functions(self) -> Any:
        """What templates call; modules are loaded for the first that calls one."""
        self._loaders = self._worker.loaders(self)
        return self._loaders.called

    def _written(self, name: str, instead: bool) -> Any:
        """A renderer of the site's own. It may look at anything: the pillar is not kept."""
        if instead and not self._worker.renderers.is_of_site(name):
            return None
        found = self._worker.loaders(self)["renderers"].get(f"{name}.render")
        if found is not None:
            asbefore.calls(found)
        # Also one that is not there: it may come
        self.host.volatile.add(f"renderer {name}")
        return found

    def _sources(self, request: Mapping[str, Any]) -> Sources:
        """What external pillars are given."""
        return Sources(
            opts={**self.opts, "id": self.master_id},
            facts=self.facts,
            host=self.host,
            renderer=self.renderer,
            functions=lambda: self.functions,
            pillarenv=self.settings.pillarenv,
            saltenv=self.opts["saltenv"],
            extra=request.get("extra") or None,
            changed=self.replaced,
            compile_roots=self._compile_roots,
        )

    def _take_ext(self, opts: dict[str, Any], ext: Any) -> str:
        """
        Add what the minion asks for on demand, if all of it is allowed by name.

        @return: why it was refused, for the log.
        """
        if not ext:
            return ""
        allowed = opts.get("on_demand_ext_pillar") or []
        if not isinstance(ext, dict) or not isinstance(allowed, (list, tuple)):
            return "On-demand pillar is not formatted as a dictionary"
        if "git" in ext:
            # It would have the master fetch from a place that the minion chose (CVE-2025-22237).
            return "The minion asked for a git pillar, which is never allowed on demand"
        if any(name not in allowed for name in ext):
            return "The minion asked for ext_pillar modules that on_demand_ext_pillar does not name"
        configured = opts.get("ext_pillar")
        opts["ext_pillar"] = [*(configured if isinstance(configured, list) else ()), ext]
        return ""

    def _compile_roots(self, env: str, roots: list[str]) -> Mapping[str, Any]:
        """
        The pillar of one environment from other directories, without external pillars. This one
        depends on what that one does.
        """
        worker = self._worker.sibling({"pillar_roots": {env: roots}})
        inner = Compilation(
            worker,
            {
                "id": self.minion,
                "grains": self.grains,
                "saltenv": env,
                "pillarenv": self.settings.pillarenv,
            },
        )
        compiled = inner.compiler.compile(ext=False)
        self.host.take(inner.host)
        self._inner.summaries += [f"git_pillar: {line}" for line in compiled.summaries]
        self._inner.details += compiled.details
        return compiled.pillar

    def replaced(self, pillar: Mapping[str, Any]) -> None:
        """The compiler has got further: functions see the new pillar."""
        self.pillar = pillar
        if self._loaders is not None:
            self._loaders.replace(pillar=pillar)

    def run(self) -> Compiled:
        """Compile."""
        with plain_pillar():
            compiled = self.compiler.compile()
        compiled.summaries += self._inner.summaries
        compiled.details += self._inner.details
        if self.refused:
            compiled.summaries.insert(0, self.refused)
        return compiled


def plain(compiled: Compiled) -> dict[str, Any]:
    """The pillar without what cannot be sent; that is an error in it, and in the log."""
    pillar, problems = sendable(compiled.pillar)
    if problems:
        compiled.summaries.extend(problems)
        pillar["_errors"] = [*pillar.get("_errors", ()), *problems]
    return pillar  # type: ignore[no-any-return]


class _HereMaster:
    """C{__master__} in this process: pillars are compiled here, nothing else is answered."""

    def __init__(self, worker: PillarWorker) -> None:
        self._worker = worker

    def request(self, load: Mapping[str, Any], timeout: float | None = None) -> Any:
        """There is no minion here that could ask."""
        raise SaltClientError(
            f"{load.get('cmd')} cannot be requested while a pillar is being compiled"
        )

    def pillar(self, load: Mapping[str, Any]) -> Any:
        """A minion's request for its pillar."""
        return self._worker.value(
            {
                "id": load["id"],
                "grains": load.get("grains") or {},
                "saltenv": load.get("saltenv"),
                "pillarenv": load.get("pillarenv"),
                "override": load.get("pillar_override"),
                "ext": load.get("ext"),
                "extra": load.get("extra_minion_data"),
            }
        )


class PillarWorker:
    """
    What a worker process keeps between calls.

    @param opts: the master's Salt-shaped options, or those of a minion without a master.
    @param daemon: the socket to the master, if this is one of its processes.
    """

    def __init__(self, opts: Mapping[str, Any], daemon: Any = None) -> None:
        self._daemon = daemon
        # A minion's options make its pillar when that is first read: not here, of all places.
        pairs = dict.items(opts) if isinstance(opts, dict) else opts.items()
        self.opts = {key: value for key, value in pairs if key not in ("grains", "pillar")}
        self.cache = RenderCache()
        self.render_settings = RenderSettings.of(opts)
        self._loaders: dict[Any, Loaders] = {}
        # By name the value of an option, and as minions may see it
        self.shown_opts: dict[str, tuple[Any, Any]] = {}
        # Which there are is asked by each pillar; most need no loader for that
        self.renderers = Catalogue(
            KINDS["renderers"], self.opts, frozenset(), False, adopt_salt, with_own=False
        )

    def loaders(self, compilation: Compilation) -> Loaders:
        """The modules for a minion's grains; modules once loaded are used again."""
        grains = compilation.grains
        key = tuple(str(grains.get(name)) for name in VIRTUAL_GRAINS)
        loaders = self._loaders.pop(key, None)
        if loaders is None:
            # Stock loads them with the master's options: config.get("id") is the master's.
            loaders = Loaders(
                self.opts,
                grains=grains,
                pillar=compilation.pillar,
                master=_HereMaster(self),
                fileclient=self._file_client,
            )
            while len(self._loaders) >= KEPT_LOADERS:
                del self._loaders[next(iter(self._loaders))]
        else:
            loaders.replace(grains=grains, pillar=compilation.pillar, context={})
        self._loaders[key] = loaders
        return loaders

    def look_again(self) -> None:
        """What the site has changed of its modules since the last call counts in this one."""
        if self.renderers.changed():
            self.renderers.forget()
        for loaders in self._loaders.values():
            loaders.look_again()

    def _file_client(self) -> FileClient:
        """C{salt://} in a pillar means what is served here."""
        opts = {**self.opts, "file_client": "local"}
        served: Any = served_by(self._daemon, opts)
        if self._daemon is None:
            from saltwisted.worker.git.localfiles import local_files

            served = local_files(opts)
        return file_client(opts, _HereMaster(self), served=served)

    def sibling(self, changes: Mapping[str, Any]) -> PillarWorker:
        """A worker with other options, which remembers with this one."""
        other = PillarWorker({**self.opts, **changes}, self._daemon)
        other.cache = self.cache
        other._loaders = self._loaders
        return other

    def value(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """
        The pillar as a value, for who has no master (C{salt-call --local}) and for functions.

        @raises SaltClientError: a pillar asks for itself without end.
        """
        depth = _depth.get()
        if depth >= DEEPEST:
            raise SaltClientError("the pillar requests itself")
        token = _depth.set(depth + 1)
        try:
            return plain(Compilation(self, request).run())
        finally:
            _depth.reset(token)

    def pillar(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer C{"do": "pillar"}."""
        if "packed" in request:
            request = {**request, **unpack_bin(request["packed"])}
        compilation = Compilation(self, request)
        compiled = compilation.run()
        pillar = plain(compiled)
        packed = pack(pillar)
        files = compilation.host.keepable()
        return {
            "packed": packed,
            "files": None if files is None else [[os.fsencode(p), s] for p, s in files.items()],
            "grains": looked_at(compilation.grains),
            "log": compiled.summaries,
            "good": "_errors" not in pillar,
            "failing": compilation.sources.failing[:MOST_FAILING],
            "details": compiled.details if request.get("details") else [],
        }

    def top_errors(self, request: Mapping[str, Any]) -> list[str]:
        """What keeps the top files from being read for a minion, a sentence each."""
        return Compilation(self, request).compiler.top_errors()

    def top(self, request: Mapping[str, Any]) -> Any:
        """Answer C{"do": "top"}."""
        return Compilation(self, request).compiler.merged_top()


_worker: PillarWorker | None = None


def serve(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> Any:
    """
    The entry of a pooled worker process.

    @param facts: C{opts}, as they were when the process was forked.
    """
    global _worker
    if _worker is None:
        _worker = PillarWorker(facts["opts"], daemon)
    _worker.look_again()
    if payload.get("do") == "top":
        return _worker.top(payload)
    if payload.get("do") == "tops":
        return master_tops(facts["opts"], str(payload["id"]), unpack(payload["opts"]))
    return _worker.pillar(payload)
