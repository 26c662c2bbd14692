"""
Runners and wheel functions of a site's own: C{runner_dirs}, C{_runners}, C{wheel_dirs}, C{_wheel};
and execution functions that are called on the master, C{salt.cmd}.

The master executes none of them. A process lists them whenever a file has changed, and each call
has a process of its own (L{saltwisted.worker.process.sitework}), with a time limit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any, TypeVar

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from twisted.logger import Logger, LogLevel

from saltwisted.config.options import MasterConfig
from saltwisted.domain.secrecy import hide
from saltwisted.errors import RemoteError
from saltwisted.master.calls import HIDDEN, NOT_SHOWN
from saltwisted.master.ground import Ground
from saltwisted.master.processfiles import ProcessFiles
from saltwisted.master.runner_table import Run
from saltwisted.master.workers import Spawner
from saltwisted.parts import IFunctionModule
from saltwisted.worker.process.extensions import entry_points

ENTRY = "saltwisted.worker.process.sitework:run"
MOST = 64
"""Calls at once: each is a process."""
EXECUTING = 10.0
"""Seconds that a file may take to be executed when it is listed."""
LEVELS = (
    (40, "error", LogLevel.error),
    (30, "warning", LogLevel.warn),
    (20, "info", LogLevel.info),
    (0, "debug", LogLevel.debug),
)
_KINDS = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
)
SHOWN = 30
"""The level from which on the caller is shown a line of the log, as C{salt-run} does."""
Tell = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
T = TypeVar("T")
Stamp = tuple[tuple[str, int, int, int], ...]


@frozen
class Default:
    """A default value as it is written; the value itself is not available here."""

    text: str

    def __repr__(self) -> str:
        return self.text


@define
class Module:
    """A module of the site's own; an L{IFunctionModule}."""

    path: str
    FUNCTIONS: Mapping[str, Callable[..., Awaitable[Any]]] = field(factory=dict)


class Unusable(Mapping[str, Callable[..., Awaitable[Any]]]):
    """A module that cannot be used. It has no functions; callers are told why."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __getitem__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def refuse(call: Any, /, *arg: Any, **kwarg: Any) -> Any:
            raise RemoteError("SaltRunnerError", self._why)

        return refuse

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@define
class _Late:
    """It took too long."""

    seconds: float

    def __str__(self) -> str:
        return f"took longer than {self.seconds:g} seconds and was ended"


def site_folders(config: MasterConfig, kind: str) -> list[str]:
    """
    Where the site's modules of a kind may be: first what is synchronised from C{salt://}.

    @param kind: C{runners} or C{wheel}.
    """
    own = config.runner_dirs if kind == "runners" else config.wheel_dirs
    named = [str(path) for path in own or ()]
    for base in config.module_dirs or ():
        named += [os.path.join(str(base), name) for name in (kind, f"_{kind}")]
    return [os.path.join(config.extension_modules, kind), *named]


class SiteFunctions(Mapping[str, IFunctionModule]):
    """
    Modules of one kind by name. Reactor thread only.

    @param kind: C{runners} or C{wheel}, or C{modules} for L{execute} alone.
    @param ours: those of the same kind that the master has itself.
    """

    log = Logger()

    def __init__(
        self,
        ground: Ground,
        workers: Spawner,
        kind: str,
        ours: Mapping[str, IFunctionModule],
    ) -> None:
        self._ground = ground
        self._workers = workers
        self._kind = kind
        self._word = {"runners": "runner", "modules": "function"}.get(kind, kind)
        self._ours = ours
        self._modules: dict[str, Module] = {}
        self._stamp: Stamp = ()
        self._looking = DeferredLock()
        self._replaced: set[str] = set()
        self._running = 0
        self._read = ProcessFiles(ground, kind)
        self._extended: bool | None = None

    def __getitem__(self, name: str) -> IFunctionModule:
        return self._modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    # -- what there is ---------------------------------------------------------------

    def _folders(self) -> tuple[list[str], bool]:
        """Where modules may be, and whether the site has named one of these places."""
        synced, *named = site_folders(self._ground.config, self._kind)
        return [synced, *named], bool(named)

    async def learn(self) -> None:
        """Look whether a file has changed since the last time, and if so, what there is now."""
        folders, named = self._folders()
        if self._extended is None:
            self._extended = await self._ground.pool(has_extensions)
        if not (named or self._extended or self._stamp or is_there(folders[0])):
            return
        stamp = await self._ground.pool(stamp_of, folders)
        if stamp == self._stamp:
            return
        await self._looking.acquire()
        try:
            if stamp != self._stamp:
                self._stamp = stamp if await self._look() else ()
        finally:
            self._looking.release()

    async def _look(self) -> bool:
        """Whether it could be found out what there is."""
        broken: dict[str, str] = {}
        while True:
            begun = ""

            async def told(op: str, args: Mapping[str, Any]) -> None:
                nonlocal begun
                if op == "begins":
                    begun = given(args, "path", str)

            payload = {"do": "list", "kind": self._kind, "ours": [], "without": list(broken)}
            answer, why = await self._process(payload, told, EXECUTING)
            if answer is not None:
                break
            if not begun or begun in broken:
                self.log.error("{kind} modules cannot be listed: {why}", kind=self._word, why=why)
                return False
            broken[begun] = f"it was executed, and its process {why}"
        if "error" in answer:
            self.log.error("{kind} modules: {why}", kind=self._word, why=answer["error"])
            return False
        broken.update(answer["problems"])
        self._modules = {
            name: self._module(name, found) for name, found in answer["modules"].items()
        }
        for path, text in broken.items():
            why = f"{self._word} module {path} cannot be used: {text}"
            self.log.error("{why}", why=why)
            self._modules.setdefault(module_name(path), Module(path, Unusable(why)))
        self._say_replaced()
        return True

    def _say_replaced(self) -> None:
        replaced = {name for name in self._modules if name in self._ours}
        for name in sorted(replaced - self._replaced):
            self.log.warn(
                "{kind} module {name}: {path} of this site replaces saltwisted's own module",
                kind=self._word,
                name=name,
                path=self._modules[name].path,
            )
        self._replaced = replaced

    def _module(self, name: str, found: Mapping[str, Any]) -> Module:
        path = str(found["path"])
        functions = {
            short: self._function(f"{name}.{short}", path, about)
            for short, about in found["functions"].items()
        }
        return Module(path, functions)

    def _function(
        self, name: str, path: str, about: Mapping[str, Any]
    ) -> Callable[..., Awaitable[Any]]:
        async def function(call: Any, /, *arg: Any, **kwarg: Any) -> Any:
            return await self._call(name, path, call, arg, kwarg)

        function.__doc__ = about["doc"] or None
        vars(function).update(__signature__=signature_of(about["parameters"]))
        return function

    async def execute(
        self, run: Run, fun: str, arg: Sequence[Any], kwarg: Mapping[str, Any], with_pillar: bool
    ) -> Any:
        """
        Call an execution function, ours or the site's, on this machine as the master's user.

        @param with_pillar: C{__pillar__} is that of the master's own id, and not empty.
        """
        return await self._call(fun, "salt.cmd", run, arg, kwarg, with_pillar)

    # -- a call ------------------------------------------------------------------------

    async def _call(
        self,
        name: str,
        path: str,
        call: Any,
        arg: Sequence[Any],
        kwarg: Mapping[str, Any],
        with_pillar: bool = False,
    ) -> Any:
        if self._running >= MOST:
            raise RemoteError(
                "SaltRunnerError",
                f"{MOST} site functions already run: {name} was not started",
            )
        run = call if isinstance(call, Run) else None
        secret = HIDDEN.get()
        tag = f"salt/{'run' if run else 'wheel'}/{call.jid}"
        payload = {
            **self._surroundings(call, tag),
            "fun": name,
            "arg": list(arg),
            "kwarg": dict(kwarg),
            "with_pillar": with_pillar,
        }
        lent = self._read.lend(str(call.jid))
        if lent is not None:
            payload["folder"] = lent.folder

        begun = path

        async def told(op: str, args: Mapping[str, Any]) -> Any:
            nonlocal begun
            if op == "files":
                return await self._read.answer(args.get("load"), lent)
            if op == "begins":
                begun = given(args, "path", str)[:300]
                return None
            return await self._told(name, tag, run, secret, op, args)

        limit = float(self._ground.config.site_function_timeout)
        self._running += 1
        try:
            answer, why = await self._process(payload, told, limit)
        finally:
            self._running -= 1
            self._read.take_back(lent)
        if answer is None:
            raise RemoteError(
                "SaltRunnerError",
                f"Exception occurred in {self._word} {name} ({begun}): its process {why}",
            )
        if "error" in answer:
            raise RemoteError("SaltRunnerError", str(answer["error"]))
        if answer.get("retcode"):
            call.judge(False)
        return answer["value"]

    def _surroundings(self, call: Any, tag: str) -> dict[str, Any]:
        """What the process of a call is told besides the call itself."""
        return {
            "do": "call",
            "kind": self._kind,
            "jid": call.jid,
            "tag": tag,
            "user": call.who.name if isinstance(call, Run) else call.actor,
            "ours": [
                f"{module}.{short}"
                for module, found in self._ours.items()
                for short in found.FUNCTIONS
            ],
        }

    async def _told(
        self, name: str, tag: str, run: Run | None, secret: bool, op: str, args: Mapping[str, Any]
    ) -> None:
        """
        What a process says while it runs.

        @param secret: whether nobody but the caller may hear it.
        """
        if op == "progress":
            end, data = given(args, "end", str), args.get("data")
            if run is not None and end != "event":
                await run.progress(data, end)
            else:
                data = as_map(data)
                self._ground.bus.fire(f"{tag}/{end}", hide(data) if secret else data)
        elif op == "say":
            text = given(args, "text", str)
            if run is not None:
                await run.say(text)
        elif op == "complain":
            text = given(args, "text", str)
            shown = NOT_SHOWN if secret else text[:2000]
            self.log.warn("{fun}: {text}", fun=name, text=shown)
            if run is not None:
                await run.tell({"err": text})
        elif op == "log":
            number, text = given(args, "level", int), given(args, "message", str)
            word, level = next((w, one) for least, w, one in LEVELS if max(0, number) >= least)
            shown = NOT_SHOWN if secret else text
            self.log.emit(level, "{fun}: {text}", fun=name, text=shown)
            if run is not None and number >= SHOWN:
                await run.tell({"log": word, "text": text})
        else:
            raise RemoteError("SaltInvocationError", f"a function has no operation {op}")

    async def _process(
        self, payload: Mapping[str, Any], told: Tell, limit: float
    ) -> tuple[Mapping[str, Any] | None, Any]:
        """
        Have a process do something.

        @param limit: seconds; what it says of files that it begins starts them anew. 0: any time.
        @return: its answer; C{None}, and how it ended instead.
        """
        done: Deferred[Any] = Deferred()
        timer: Any = None

        def ended(how: Any) -> None:
            if not done.called:
                done.callback(how)

        async def asked(op: str, args: dict[str, Any], peer: Any, stream: Any) -> Any:
            if op == "answer":
                ended(dict(args))
                return None
            listing = payload["do"] == "list"
            if op == "begins" and listing and timer is not None and timer.active():
                timer.reset(limit)
            return await told(op, args)

        def late() -> None:
            ended(_Late(limit))
            child.kill()

        child = self._workers.spawn(ENTRY, payload, asked)
        _ = child.exited.addCallback(ended)
        if limit:
            timer = self._ground.clock.callLater(limit, late)
        try:
            found = await done
        except CancelledError:
            child.kill()
            raise
        finally:
            if timer is not None and timer.active():
                timer.cancel()
        return (found, "") if isinstance(found, dict) else (None, found)


def given(args: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """
    An argument of what a process says: a site's function can say anything.

    @raises RemoteError: it is missing, or of another kind.
    """
    value = args.get(name)
    if not isinstance(value, kind):
        raise RemoteError("SaltInvocationError", f"{name} must be of the kind {kind.__name__}")
    return value


def has_extensions() -> bool:
    """Whether a Salt extension is installed, which may bring modules of any kind. Blocking."""
    return bool(entry_points(sys.path))


def is_there(path: str) -> bool:
    """Whether there is a directory."""
    return os.path.isdir(path)


def module_name(path: str) -> str:
    """The name of the module in a file."""
    folder, file = os.path.split(path)
    return os.path.basename(folder) if file == "__init__.py" else file.split(".")[0]


def as_map(data: Any) -> dict[str, Any]:
    """What an event may carry."""
    return data if isinstance(data, dict) else {"data": data}


def stamp_of(folders: Sequence[str]) -> Stamp:
    """A value that changes when a module is added, removed or written. Blocking."""
    found: list[tuple[str, int, int, int]] = [
        (f"{each.extension} {each.version} {each.module}", 0, 0, 0)
        for each in entry_points(sys.path)
    ]

    def look(folder: str, deeper: bool) -> None:
        try:
            entries = sorted(os.scandir(folder), key=lambda each: each.name)
        except OSError:
            return
        for entry in entries:
            if entry.name == "__pycache__":
                continue
            try:
                about = entry.stat()
                is_folder = entry.is_dir()
            except OSError:
                continue
            if is_folder:
                if deeper:
                    look(entry.path, False)
                continue
            found.append((entry.path, about.st_mtime_ns, about.st_size, about.st_ino))

    for folder in folders:
        look(folder, True)
    return tuple(found)


def signature_of(parameters: Sequence[Sequence[Any]]) -> Signature:
    """
    A function's signature, from the description by a process; the call itself comes before all
    other arguments.
    """
    kinds = {int(kind): kind for kind in _KINDS}
    first = Parameter("__call", Parameter.POSITIONAL_ONLY)
    return Signature(
        [
            first,
            *(
                Parameter(
                    str(name),
                    kinds[int(kind)],
                    default=Parameter.empty if default is None else Default(str(default)),
                )
                for name, kind, default in parameters
            ),
        ]
    )
