"""
A list of calls to a server, and who makes them.

Nothing here needs a package: stock's Python imports it, too.
"""

from __future__ import annotations

import copy
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

KEPT = ("name", "result", "changes", "comment", "dbname")
"""What of a state's return is compared; the rest is the compiler's."""

MISSING = object()


class Server:
    """
    A program that serves, in a directory of its own.

    @cvar user: who runs it.
    @ivar options: what the minion's configuration says of it.
    @ivar prepare: done where a script says C{!prepare}, beside Salt.
    """

    user = "root"

    def __init__(self) -> None:
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="server", dir="/tmp"))
        os.chmod(self.folder, 0o755)
        self.options: dict[str, Any] = {}
        self.prepare: Callable[[], Any] = str
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def lacking(cls) -> str:
        """The program that is not here; nothing if all are."""
        raise NotImplementedError

    def path(self, name: str) -> str:
        """A file in the directory."""
        return os.path.join(self.folder, name)

    def owned(self, name: str) -> str:
        """A new directory that is the server's."""
        path = self.path(name)
        os.makedirs(path, mode=0o755)
        found = pwd.getpwnam(self.user)
        os.chown(path, found.pw_uid, found.pw_gid)
        return path

    def run(self, *words: str, **kwargs: Any) -> str:
        """Run a program as the server's user, and give what it printed."""
        kwargs.setdefault("cwd", self.folder)
        done = subprocess.run(
            words, user=self.user, group=self._group(), extra_groups=[], check=False,
            capture_output=True, text=True, timeout=120, **kwargs,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(f"{words[0]}: {done.stdout}{done.stderr}")
        return done.stdout

    def _group(self) -> int:
        return pwd.getpwnam(self.user).pw_gid

    def launch(self, *words: str, **kwargs: Any) -> None:
        """Start the program that stays."""
        with open(self.path("log"), "ab") as log:
            self._process = subprocess.Popen(
                words, user=self.user, group=self._group(), extra_groups=[],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True, **kwargs,
            )  # fmt: skip

    def wait(self, is_there: Callable[[], bool]) -> None:
        """Until it serves."""
        end = time.monotonic() + 120
        while not is_there():
            process = self._process
            if process is None or process.poll() is not None or time.monotonic() > end:
                with open(self.path("log"), encoding="utf-8", errors="replace") as log:
                    raise AssertionError(f"the server does not start:\n{log.read()}")
            time.sleep(0.05)

    def start(self) -> None:
        """Make its data, start it, and wait until it serves."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it and all that it has started, and remove the directory."""
        if self._process is not None:
            for kind in (signal.SIGQUIT, signal.SIGKILL):
                try:
                    os.killpg(self._process.pid, kind)
                    self._process.wait(10)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
        shutil.rmtree(self.folder, ignore_errors=True)


class Call:
    """
    One call.

    @ivar is_test: whether a state only forecasts; C{None} for what is no state.
    @ivar ours: what ours answers where it is better than stock; C{MISSING} if it is stock's answer.
    """

    def __init__(self, name: str, is_test: bool | None, args: Any, kwargs: Any, ours: Any) -> None:
        self.name, self.is_test, self.args, self.kwargs = name, is_test, args, kwargs
        self.ours = ours

    @property
    def is_better(self) -> bool:
        """Whether ours differs from stock, and is to."""
        return self.ours is not MISSING

    def expected(self, stock: Any) -> Any:
        """What ours answers."""
        if not self.is_better:
            return stock
        if self.is_test is None:
            return ["ok", self.ours]
        was = stock[1] if stock[0] == "ok" and isinstance(stock[1], dict) else {}
        return ["ok", {**was, **self.ours}]

    def __repr__(self) -> str:
        return f"{self.name} {self.args} {self.kwargs} test={self.is_test}"


class Script:
    """Calls in their order."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.calls: list[Call] = []

    def call(self, name: str, /, *args: Any, ours: Any = MISSING, **kwargs: Any) -> None:
        """A function of a module."""
        self.calls.append(Call(name, None, args, kwargs, ours))

    def state(
        self, function: str, /, *, is_test: bool = False, ours: Any = MISSING, **kwargs: Any
    ) -> None:
        """A state. C{ours} has what differs of stock's return."""
        self.calls.append(Call(function, is_test, (), kwargs, ours))

    def twice(self, function: str, /, *, ours: Any = (MISSING,) * 3, **kwargs: Any) -> None:
        """A state, forecast, applied, and applied again, which is to change nothing."""
        for is_test, differing in zip((True, False, False), ours, strict=True):
            self.state(function, is_test=is_test, ours=differing, **kwargs)


def plain(value: Any, folder: str) -> Any:
    """An answer without what no two runs have in common."""
    if isinstance(value, dict):
        return {
            str(key).replace(folder, "{W}"): plain(each, folder)
            for key, each in value.items()
            if key not in ("pid", "oid", "query time")
        }
    if isinstance(value, list | tuple | set | type({}.keys())):
        return [plain(each, folder) for each in value]
    if isinstance(value, str):
        text = value.replace(folder, "{W}")
        return re.sub(r"(Traceback).*\n(\S.*?)\n?$", r"\1 \2", text, flags=re.DOTALL)
    return value


def answer(functions: Any, call: Call, folder: str) -> list[Any]:
    """Make a call, and write down what came."""
    args, kwargs = copy.deepcopy(call.args), copy.deepcopy(call.kwargs)
    try:
        if call.is_test is None:
            value = functions[call.name](*args, **kwargs)
        else:
            value = functions["state.single"](call.name, *args, test=call.is_test, **kwargs)
            if isinstance(value, dict):
                (part,) = value.values()
                value = {key: part[key] for key in KEPT if key in part}
        found = ["ok", plain(value, folder)]
    except Exception as error:
        found = ["error", type(error).__name__, plain(str(error), folder)]
    return list(json.loads(json.dumps(found, default=str)))


def options(server: Server) -> dict[str, Any]:
    """The configuration that both sides run with."""
    return {
        "id": "mm",
        "root_dir": server.path("machine"),
        "file_client": "local",
        "file_roots": {"base": [server.path("roots")]},
        "pillar_roots": {"base": [server.path("pillar")]},
        "user": "root",
        **server.options,
    }


def configured(server: Server) -> str:
    """Write the configuration, and give its directory."""
    folder = server.path("conf.d")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "minion"), "w", encoding="utf-8") as file:
        json.dump(options(server), file)
    return folder
