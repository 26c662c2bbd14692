"""
A process for one call of a site's own function on the master: a runner, or a wheel function.

Such a function affects only its own process: it may hang, leak, fork, exit, or change the
environment. The request is a map with C{do}:

 - C{list}: C{kind}; the answer is C{{"modules": {name: {"path", "functions": {name: {"doc",
   "parameters"}}}}, "problems": [[path, text], ...]}}. C{begins} names each file before it is
   executed, so that one that ends or halts the process is known. Files in C{without} are left out;
 - C{call}: C{kind}, C{fun}, C{arg}, C{kwarg}, C{jid}, C{tag}, C{user}; C{ours} are the functions
   of this kind that the master has itself. For the kind C{modules}, an execution function, with
   C{with_pillar}. The answer is C{{"value", "retcode"}} or C{{"error"}}.

The process also sends C{say} and C{complain}, its standard output and error, C{log}, and
C{progress}, an event of the run.
"""

from __future__ import annotations

import faulthandler
import inspect
import os
import select
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from saltwisted.errors import TransportClosed
from saltwisted.worker.control import ControlClient
from saltwisted.worker.fileclient import file_client
from saltwisted.worker.masking import answering
from saltwisted.worker.process import asbefore
from saltwisted.worker.process.daemonlog import DaemonLog, log_to
from saltwisted.worker.process.late import late
from saltwisted.worker.process.latefunctions import LoadedFunctions
from saltwisted.worker.process.loader import Loader, Loaders, make_grains
from saltwisted.worker.process.main import UMASK, NoMaster
from saltwisted.worker.process.warm import name_process
from saltwisted.worker.servedfiles import ServedFiles

CHUNK = 1 << 16
"""Bytes of output that are told at once, and the longest line that is told whole."""
MOST_LEFT = 32
"""Chunks that are read of each stream after the call has ended: more than there is in a pipe."""
WORDS = {"runners": "runner", "wheel": "wheel", "modules": "function"}


class Streams:
    """
    Reads streams and tells what is in them, in whole lines.

    Whoever writes faster waits, as on a terminal. A child that outlives the call has copies of all
    descriptors, and may write for ever: neither holds up the end.

    @param ops: descriptors that do not block, to the operation by which each one's text is told.
    @param tell: gets such an operation, and lines.
    """

    def __init__(self, ops: Mapping[int, str], tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._ops = ops
        self._left = dict.fromkeys(ops, b"")
        self._wake, self._end = os.pipe2(os.O_CLOEXEC)

    def end(self) -> None:
        """Let L{read} end: what is in the streams now is told, what comes later is lost."""
        # To close them would say nothing while a child has them open, too
        os.write(self._end, b"\0")

    def read(self) -> None:
        """Tell until the end; blocks."""
        poll = select.poll()
        for number in (*self._ops, self._wake):
            poll.register(number, select.POLLIN)
        ends = False
        while not ends:
            ready = [number for number, _ in poll.poll()]
            ends = self._wake in ready
            for number in self._ops if ends else ready:
                left = MOST_LEFT if ends else 1
                while left and self._take(poll, number):
                    left -= 1
        for number, rest in self._left.items():
            self._say(number, rest)

    def _take(self, poll: select.poll, number: int) -> bool:
        """Read once from one of them; whether there was something."""
        try:
            data = os.read(number, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            poll.unregister(number)
            return False
        whole, newline, rest = (self._left[number] + data).rpartition(b"\n")
        if not newline and len(rest) >= CHUNK:
            whole, rest = rest, b""
        self._left[number] = rest
        self._say(number, whole, bool(newline))
        return True

    def _say(self, number: int, text: bytes, is_line: bool = False) -> None:
        if text or is_line:
            self._tell(self._ops[number], text.decode("utf-8", "replace"))


class OwnWords:
    """
    What this process and the programs that it starts write to standard output and error: a thread
    reads it (L{Streams}).

    @param tell: gets C{say} or C{complain}, and lines.
    """

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        ops: dict[int, str] = {}
        for stream, number, op in ((sys.stdout, 1, "say"), (sys.stderr, 2, "complain")):
            ours, theirs = os.pipe2(os.O_CLOEXEC)
            os.dup2(theirs, number, inheritable=True)
            os.close(theirs)
            os.set_blocking(ours, False)
            ops[ours] = op
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        self._streams = Streams(ops, tell)
        self._thread = threading.Thread(target=self._streams.read, daemon=True, name="own-words")
        self._thread.start()

    def close(self) -> None:
        """Tell what was written until now; what children write from then on is lost."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # The function has closed it.
        self._streams.end()
        self._thread.join()


class Events:
    """C{__jid_event__}: events of this run, as stock's C{NamespacedEvent}."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    def fire_event(self, data: Any, tag: str, *args: Any, **kwargs: Any) -> None:
        """An event whose tag begins with that of the run; the caller is shown it."""
        self._client.call("progress", data=data, end=str(tag))


def surroundings(
    payload: Mapping[str, Any], client: ControlClient, facts: Mapping[str, Any]
) -> Loaders:
    """What modules find around them."""
    opts = dict(facts["opts"])
    opts.update(file_client="local", __role="master", fun=payload.get("fun", ""), pillar={})
    master = NoMaster("a function of the master reads its files itself")
    folder = payload.get("folder")
    served = ServedFiles(client) if folder else None
    read = {**opts, "cachedir": folder} if folder else opts
    kind = str(payload["kind"])
    beside: dict[str, Any] = {"runners": {}, "wheel": {}}
    if kind in beside:
        beside[kind] = {name: partial(_of_master, opts, kind, name) for name in payload["ours"]}
    grains = late(lambda: make_grains(opts))

    def pillar() -> dict[str, Any]:
        made = import_module("saltwisted.compat.pillar").Pillar(opts, grains(), opts["id"], None)
        return dict(made.compile_pillar())

    return Loaders(
        opts,
        grains=grains,
        pillar=pillar if payload.get("with_pillar") else {},
        master=master,
        fileclient=lambda: file_client(read, master, served=served),
        stock=False,
        extra={
            "__jid__": payload.get("jid", ""),
            "__user__": payload.get("user", ""),
            "__tag__": payload.get("tag", ""),
            "__jid_event__": Events(client),
        },
        beside=beside,
    )


def _of_master(opts: Mapping[str, Any], kind: str, name: str, *args: Any, **kwargs: Any) -> Any:
    """A function of the master's own, from a site's: it runs in the master."""
    clients = import_module(f"saltwisted.compat.{WORDS[kind]}")
    client = getattr(clients, f"{WORDS[kind].title()}Client")(opts)
    return client.cmd(name, list(args), kwarg=kwargs)


def described(function: Callable[..., Any]) -> dict[str, Any]:
    """What a master needs to know of a function that it does not have."""
    parameters = inspect.signature(function).parameters.values()
    return {
        "doc": inspect.getdoc(function) or "",
        "parameters": [
            [each.name, int(each.kind), None if each.default is each.empty else repr(each.default)]
            for each in parameters
        ],
    }


def listing(loader: Loader, client: ControlClient, without: Any) -> dict[str, Any]:
    """What there is of the site's own."""
    wrong: list[tuple[str, BaseException]] = []
    for (file,) in list(loader._catalogue.by_name().values()):
        if file.path not in without:
            client.call("begins", path=file.path)
            loader._load(file)
            why = loader.missing_modules.get(file.name)
            wrong += [(file.path, why)] if isinstance(why, BaseException) else []
    modules: dict[str, Any] = {}
    for name, function in sorted(LoadedFunctions(loader).items()):
        module, _, short = name.partition(".")
        path = function.__globals__.get("__file__", "")
        known = modules.setdefault(module, {"path": path, "functions": {}})
        known["functions"][short] = described(function)
    problems = [[path, f"{type(why).__name__}: {why}"] for path, why in wrong]
    return {"modules": modules, "problems": problems}


def called(loaders: Loaders, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Call the function; whatever it raises is an answer."""
    kind, fun = str(payload["kind"]), str(payload["fun"])
    try:
        function = loaders[kind].get(fun)
        if function is None:
            why = loaders[kind].missing_fun_string(fun)
            # What stock's salt.cmd answers is this text
            return {"value": why, "retcode": 0} if kind == "modules" else {"error": why}
        asbefore.calls(function)
        with answering(fun):
            value = function(*payload["arg"], **payload["kwarg"])
        return {"value": value, "retcode": loaders.context.get("retcode", 0)}
    except BaseException as error:
        if type(error).__name__ == "NotImplemented":
            return {"error": str(error)}
        shown = traceback.format_exc()
        return {"error": f"Exception occurred in {WORDS[kind]} {fun}: {shown}"}


def run(payload: Mapping[str, Any], client: ControlClient, facts: Mapping[str, Any]) -> None:
    """The entry of the process."""
    me = os.getpid()
    name_process("salt-site")
    os.umask(UMASK)
    # The standard error of now, before it is told to the caller
    faulthandler.enable(file=os.dup(2))

    def tell(op: str, text: str) -> None:
        try:
            client.call(op, text=text)
        except TransportClosed:
            pass

    words = OwnWords(tell)
    log_to(DaemonLog(client), facts["opts"])
    try:
        loaders = surroundings(payload, client, facts)
        if payload["do"] == "list":
            answer = listing(loaders[str(payload["kind"])], client, payload["without"])
        else:
            asbefore.watching[:] = [asbefore.Told(client)]
            answer = called(loaders, payload)
    finally:
        if os.getpid() != me:
            # The function has forked, and its child came back here: the answer is the parent's
            os._exit(0)
    words.close()
    client.call("answer", **_sendable(payload, answer))


def _sendable(payload: Mapping[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer itself, or why it cannot be sent."""
    from saltwisted.wire.msgpack import pack_bin

    try:
        pack_bin(answer)
    except (TypeError, ValueError, OverflowError) as error:
        return {"error": f"The return of {payload.get('fun')} cannot be sent: {error}"}
    return answer
