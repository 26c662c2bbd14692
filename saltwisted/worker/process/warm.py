"""
The warm parent: a small process that forks one child per job, each with everything imported.

It imports what the children of an entry need when the first of them is asked for: until then it is
little more than Python itself, and this module imports little. What a child does is
L{saltwisted.worker.process.child}.

A minion starts it by L{exec_warm_parent} before its reactor runs, a master when it needs a child,
and both again if it dies. From then on they share one stream socket. Its messages are a four-byte
length and a msgpack map; the descriptor of a child's control socket travels beside them.
To the parent:

  - C{{"do": "spawn", "n", "entry", "payload", "pooled"}} and one descriptor: fork a child that
    calls the entry; C{n} is the daemon's number for it.
  - C{{"do": "fact", "name", "value"}}: packed bytes that later children find in
    L{Facts}; big and rarely changed things (pillar, grains) are sent once, not per job.
  - C{{"do": "kill", "n", "signal", "group"}}: only a child that was not reaped yet is hit, so
    a pid that another process has got meanwhile never is.

And back: C{{"is": "started", "n", "pid"}}, C{{"is": "exited", "n", "pid", "status"}} (as
C{waitpid} gives it) and C{{"is": "failed", "n", "reason"}} when there was no fork. When the
daemon goes away the parent ends. Children with jobs stay; all others have nobody to answer to, and
are killed if they do not see that themselves (L{GRACE}).

The daemon's side is C{transports.workers}.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module

import msgpack

import saltwisted
from saltwisted.worker.process import stackdump

TYPE_CHECKING = False
"""As C{typing} has it, which takes half a mebibyte."""
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Known = Mapping[str, Any]
else:
    Known = Mapping

ENTRIES = frozenset(
    {
        "saltwisted.worker.process.main:run_job",
        "saltwisted.worker.git.work:fetch",
        "saltwisted.worker.git.work:list_all",
        "saltwisted.worker.git.work:serve",
        "saltwisted.worker.git.work:share",
        "saltwisted.worker.pillar.work:serve",
        "saltwisted.worker.automation.work:serve",
        "saltwisted.worker.orchestration.work:run",
        "saltwisted.worker.automation.work:serve_caller",
        "saltwisted.worker.process.authwork:serve",
        "saltwisted.worker.process.authwork:serve_near",
        "saltwisted.worker.process.authwork:serve_look",
        "saltwisted.worker.process.sitework:run",
        "saltwisted.worker.process.targetwork:serve",
        "saltwisted.worker.process.webwork:serve",
        "saltwisted.stores.roots.filework:serve",
        "saltwisted.tools.doctor:serve",
    }
)
"""What a child may be asked to call."""
OUTLIVE = frozenset(
    {"saltwisted.worker.process.main:run_job", "saltwisted.worker.automation.work:serve_caller"}
)
"""What goes on without the daemon: it changes the machine, and nobody else does it in its place."""
GRACE = 5.0
"""Seconds that any other child has to end after its daemon; in a loop it would never look."""

CHILD = "saltwisted.worker.process.child"
"""What every child needs; imported when the first of them is asked for."""

_HEAD = struct.Struct(">I")
_CHUNK = 1 << 18


class Facts(Known):
    """
    What every child of a warm parent knows, by name; unpacked when a child first needs it.

    Small values are kept unpacked in the parent, so that they cost a child nothing.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._packed: dict[str, bytes] = {}

    def put(self, name: str, packed: bytes) -> None:
        """Replace a fact."""
        self._values.pop(name, None)
        self._packed[name] = packed
        if len(packed) <= 65536:
            self._values[name] = unpack(self._packed.pop(name))

    def drop(self, name: str) -> None:
        """Forget a fact."""
        self._values.pop(name, None)
        self._packed.pop(name, None)

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = unpack(self._packed.pop(name))
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values or name in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter([*self._values, *self._packed])

    def __len__(self) -> int:
        return len(self._values) + len(self._packed)


class Warm:
    """
    A warm parent, as the daemon holds it.

    @ivar pid: its process, a child of the daemon.
    @ivar sock: the daemon's end, non-blocking.
    """

    __slots__ = ("pid", "sock")

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self.sock = sock


def pack(value: Any) -> bytes:
    """msgpack with text and bytes told apart, for these messages and facts."""
    data: bytes = msgpack.packb(value, use_bin_type=True)
    return data


def unpack(data: bytes) -> Any:
    """The other direction."""
    return msgpack.unpackb(data, raw=False, strict_map_key=False, use_list=True)


def frame(message: Mapping[str, Any]) -> bytes:
    """One message as bytes."""
    body = pack(message)
    return _HEAD.pack(len(body)) + body


class Frames:
    """Messages out of a stream, as its bytes come."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Take some bytes; every message that is complete now."""
        self._buffer += data
        while len(self._buffer) >= 4:
            (size,) = _HEAD.unpack_from(self._buffer)
            if len(self._buffer) < 4 + size:
                return
            body = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            yield unpack(body)


def exec_warm_parent(preload: Iterable[str] = ()) -> Warm:
    """
    Start a warm parent as a program of its own; safe at any time.

    @param preload: modules to import, C{"name"}, or our execution modules to compile,
        C{"modules/name"}.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    # Not by PYTHONPATH, which every program of every job would inherit; and without the current
    # directory, where anybody may have put a module of a common name.
    here = os.path.dirname(os.path.dirname(os.path.abspath(saltwisted.__file__)))
    code = (
        "import sys; here = sys.argv.pop(1); here in sys.path or sys.path.insert(0, here); "
        "from saltwisted.worker.process.warm import main; main(sys.argv[1:])"
    )
    with theirs:
        theirs.set_inheritable(True)
        words = [sys.executable, "-P", "-c", code, here, str(theirs.fileno()), *preload]
        pid = os.posix_spawn(
            sys.executable,
            [*words, "saltwisted"],
            os.environ,
            setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD],
            # They would end it before it has its own handlers
            setsigmask=[signal.SIGUSR1, signal.SIGUSR2],
        )
    ours.setblocking(False)
    return Warm(pid, ours)


def main(argv: list[str]) -> NoReturn:
    """The program of L{exec_warm_parent}: the socket's descriptor, then what to preload."""
    _become(socket.socket(fileno=int(argv[0])), tuple(argv[1:-1]))


def _become(link: socket.socket, preload: Iterable[str]) -> NoReturn:
    """Drop all that belonged to the daemon, get warm, and serve."""
    link = _only_descriptor(link)
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                pass
    signal.set_wakeup_fd(-1)
    stackdump.install()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if os.getpgrp() != os.getpid():
        os.setsid()
    _own_streams()
    name_process("salt-warm")
    # Nothing of this is garbage before it is looked through once, below
    gc.disable()
    for name in preload:
        kind, slash, module = name.partition("/")
        if slash:
            from saltwisted.worker.process import modulefiles

            modulefiles.preload([module], kind)
        else:
            import_module(name)
    if preload:
        _settle()
    gc.enable()
    WarmParent(link).serve()


def _settle() -> None:
    """
    What was imported stays as it is: children share it. What importing has left over is given back,
    some two mebibytes that each child would have as well.
    """
    import ctypes

    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _only_descriptor(link: socket.socket) -> socket.socket:
    """Close every descriptor but the standard ones and this."""
    keep = link.fileno()
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number != keep:
            try:
                os.close(number)
            except OSError:
                pass
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(null, number, inheritable=True)
    os.dup2(null, 0, inheritable=True)
    if null > 2:
        os.close(null)
    link.set_inheritable(False)
    return link


def _own_streams() -> None:
    """Plain text streams on the standard descriptors, instead of the daemon's log."""
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - they live as long as the process
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.excepthook = sys.__excepthook__


def name_process(name: str) -> None:
    """Set the command name that C{ps} and C{/proc/PID/comm} show (15 bytes)."""
    try:
        with open("/proc/self/comm", "w", encoding="utf-8") as stream:
            stream.write(name[:15])
    except OSError:
        pass


class WarmParent:
    """The loop: forks what it is asked to, reaps what has ended, reports both."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._facts = Facts()
        self._frames = Frames()
        self._descriptors: list[int] = []
        self._children: dict[int, int] = {}
        self._bound: set[int] = set()
        self._prepared: set[str] = set()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> NoReturn:
        """Until the daemon goes away."""
        signal.signal(signal.SIGCHLD, lambda number, stack: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                self._reap()
            if self._link.fileno() in ready:
                self._read()

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._link, _CHUNK, 64)
        except ConnectionError:
            # The daemon was killed before it had read what it was last told
            self._end()
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self._descriptors += descriptors
        if not data:
            self._end()
        for message in self._frames.feed(data):
            if message["do"] == "spawn":
                self._spawn(message, self._descriptors.pop(0))
            elif message["do"] == "fact":
                self._facts.put(message["name"], message["value"])
            elif message["do"] == "kill":
                self._kill(message)

    def _spawn(self, message: dict[str, Any], descriptor: int) -> None:
        number = message["n"]
        if message["entry"] not in ENTRIES:
            os.close(descriptor)
            self._tell(
                {"is": "failed", "n": number, "reason": f"{message['entry']}: unknown entry point"}
            )
            return
        try:
            self._prepare(message["entry"])
            pid = os.fork()
        except OSError as error:
            os.close(descriptor)
            self._tell({"is": "failed", "n": number, "reason": str(error.strerror)})
            return
        if pid == 0:
            status = 70
            try:
                self._leave()
                run = import_module(CHILD).run
                status = run(message, socket.socket(fileno=descriptor), self._facts)
            except BaseException as error:
                status = _status_of(error)
            finally:
                _flush()
                os._exit(status)
        os.close(descriptor)
        self._children[pid] = number
        if message["entry"] not in OUTLIVE:
            self._bound.add(pid)
        self._tell({"is": "started", "n": number, "pid": pid})

    def _prepare(self, entry: str) -> None:
        """
        Import what the children of an entry need, when the first of them is asked for.

        They all share it then, and a daemon that never asks never pays for it. A module may have a
        C{prepare} that gets more. If it cannot be imported, the child says so itself.
        """
        if entry in self._prepared:
            return
        self._prepared.add(entry)
        module = entry.partition(":")[0]
        if module in sys.modules and CHILD in sys.modules:
            return
        try:
            import_module(CHILD)
            prepare = getattr(import_module(module), "prepare", None)
            if prepare is not None:
                prepare()
        except Exception:
            return
        _settle()

    def _leave(self) -> None:
        """In the child: nothing of the parent's stays."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._link.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        for descriptor in self._descriptors:
            os.close(descriptor)
        os.setsid()

    def _kill(self, message: dict[str, Any]) -> None:
        for pid, number in self._children.items():
            if number == message["n"]:
                ways = (os.killpg, os.kill) if message.get("group") else (os.kill,)
                for kill in ways:
                    # One that has just been forked has no group of its own yet
                    try:
                        kill(pid, message["signal"])
                        break
                    except ProcessLookupError:
                        pass

    def _reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            pid = ended.si_pid
            if pid in self._bound and ended.si_code != os.CLD_EXITED:
                # It was killed, and could not end what it had started. As long as nobody has waited
                # for it, this is its group and no other's
                try:
                    os.killpg(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            _, status = os.waitpid(pid, 0)
            self._bound.discard(pid)
            number = self._children.pop(pid, None)
            if number is not None:
                self._tell({"is": "exited", "n": number, "pid": pid, "status": status})

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._link.sendall(frame(message))
        except OSError:
            self._end()

    def _end(self) -> NoReturn:
        """The daemon is gone, and waits for nobody: who stays to see the children off is a fork."""
        try:
            # None of them was reaped, so these are their pids
            left = {os.pidfd_open(pid): pid for pid in self._bound}
            if left and os.fork() == 0:
                _see_off(left)
        finally:
            os._exit(0)


def _see_off(left: dict[int, int]) -> None:
    """
    Wait until these processes have ended, and kill the groups of those that do not.

    @param left: descriptor of a process to its pid.
    """
    poll = select.poll()
    for descriptor in left:
        poll.register(descriptor, select.POLLIN)
    end = time.monotonic() + GRACE
    while left and (seconds := end - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(seconds * 1000):
            poll.unregister(descriptor)
            del left[descriptor]
    for descriptor, pid in left.items():
        for kill, whom in ((os.killpg, pid), (signal.pidfd_send_signal, descriptor)):
            # One that has just been forked has no group of its own yet
            try:
                kill(whom, signal.SIGKILL)
            except ProcessLookupError:
                pass


def _status_of(error: BaseException) -> int:
    """The exit status of a child that failed; its reason goes to stderr, which is the log's."""
    import traceback

    from saltwisted.errors import TransportClosed

    if isinstance(error, TransportClosed):
        return 75  # the daemon has stopped, or wants nothing any more: that is not a failure
    traceback.print_exception(error)
    return 70


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
