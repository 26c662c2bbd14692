"""
The real disk and host behind C{config/load.py}.

It blocks, and is fast: the command line uses it before each command, so modules that a plain
configuration does not need are imported where they are used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.config.load import Loaded, load
from saltwisted.config.options import MasterConfig, MinionConfig
from saltwisted.errors import ConfigError, WrongPlace

LOCAL_NAMES = (
    r"localhost.*|ip6-.*|127[.]\d|0\.0\.0\.0|::1.*|ipv6-.*|fe00::.*|fe02::.*|1.0.0.*.ip6.arpa"
)
"""Names and addresses that every host has, and which therefore name none."""


class Disk:
    """
    Files as they are.

    @param beside: path to the text of files that are not there yet, and count as if they were.
    @param passing: whether a file that this user may not read counts as one that is not there.
    @ivar passed: the files that were passed over.
    """

    def __init__(self, beside: Mapping[str, str] | None = None, passing: bool = False) -> None:
        self._beside = beside or {}
        self._passing = passing
        self.passed: list[str] = []

    def read(self, path: str) -> str | None:
        """The text of a file, or C{None}; what is not UTF-8 or not allowed is an error."""
        if path in self._beside:
            return self._beside[path]
        try:
            with open(path, encoding="utf-8") as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            with open(path, "rb") as raw:
                line = raw.read()[: error.start].count(b"\n") + 1
            raise ConfigError("not UTF-8 text", path, line) from None
        except OSError as error:
            if self._passing and isinstance(error, PermissionError):
                self.passed.append(path)
                return None
            raise ConfigError(f"cannot be read: {error.strerror}", path) from None

    def glob(self, pattern: str) -> Sequence[str]:
        """Paths that match; hidden files only where the pattern says so."""
        found = self._on_disk(pattern)
        if not self._beside:
            return found
        from fnmatch import fnmatch

        return [
            *found,
            *(one for one in self._beside if fnmatch(one, pattern) and one not in found),
        ]

    def _on_disk(self, pattern: str) -> Sequence[str]:
        if not any(sign in pattern for sign in "*?["):
            return [pattern] if os.path.lexists(pattern) else []
        head, tail = os.path.split(pattern)
        if tail.startswith("*") and not any(sign in head + tail[1:] for sign in "*?["):
            # master.d/*.conf, without importing glob and fnmatch
            try:
                names = os.listdir(head)
            except OSError:
                return []
            suffix = tail[1:]
            return [
                os.path.join(head, name)
                for name in names
                if name.endswith(suffix) and not name.startswith(".")
            ]
        from glob import glob

        return glob(pattern)

    def has_folder(self, path: str) -> bool:
        """Whether there is such a directory, or will be."""
        return os.path.isdir(path) or any(one.startswith(f"{path}/") for one in self._beside)

    def expand_user(self, path: str) -> str:
        """As the shell does."""
        return os.path.expanduser(path)

    def absolute(self, path: str) -> str:
        """Relative to the current directory."""
        return os.path.abspath(path)


class Machine:
    """The host as it is."""

    def user(self) -> str:
        """The name of the effective user, or the number if it has none."""
        uid = os.geteuid()
        if uid == 0:
            return "root"
        import pwd

        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)

    def owner(self, path: str) -> str:
        """Whose a path is; nobody's if it is not there, or its owner has no name."""
        try:
            uid = os.stat(path).st_uid
        except OSError:
            return ""
        if uid == 0:
            return "root"
        import pwd

        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return ""

    def home(self) -> str:
        """The home directory."""
        return os.path.expanduser("~")

    def program(self) -> str:
        """The base name of C{argv[0]}."""
        return os.path.basename(sys.argv[0]) if sys.argv else ""

    def guess_id(self) -> str:
        """
        Salt's choice: the full name, the node's name, C{/etc/hostname}, local aliases, an address.

        The first of them that is not a name every host has.
        """
        import re
        import socket

        strange = re.compile(LOCAL_NAMES)
        name = socket.gethostname()
        candidates = [socket.getfqdn(name), os.uname().nodename, name]
        if not any(text and not strange.match(text) for text in candidates):
            try:
                infos = socket.getaddrinfo(
                    "localhost", None, socket.AF_INET, socket.SOCK_RAW, 0, socket.AI_CANONNAME
                )
                candidates += [info[3] for info in infos]
            except socket.gaierror:
                pass
        for path in ("/etc/hostname", "/etc/nodename", "/etc/hosts"):
            try:
                with open(path, encoding="utf-8", errors="replace") as stream:
                    lines = stream.read().splitlines()
            except OSError:
                continue
            for line in lines:
                words = line.partition("#")[0].split()
                if words and (len(words) == 1 or words[0][:4] == "127." or words[0][:3] == "::1"):
                    candidates += words
        candidates.append(self._address())
        return next((text for text in candidates if text and not strange.match(text)), "localhost")

    def _address(self) -> str:
        """The address this host would use towards others; no packet is sent."""
        import socket

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                return str(probe.getsockname()[0])
            except OSError:
                return ""

    def call_id_function(
        self, function: str, kwargs: Mapping[str, Any], config: MasterConfig | MinionConfig
    ) -> str:
        """Call a function of the execution modules, as C{salt-call --local} would."""
        from saltwisted.worker.process.localcall import run_call

        answer = run_call(config, function, kwargs=kwargs)
        name = answer.get("return")
        if answer.get("retcode") or not isinstance(name, str) or not name:
            raise ConfigError(
                f"id_function {function} returned {name!r}, which is not an id", config.conf_file
            )
        return name


def load_from_disk(
    role: str,
    config_dir: str | None = None,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
    guess_id: bool = True,
    disk: Disk | None = None,
) -> Loaded:
    """
    Read C{config_dir/ROLE} and what it includes.

    @param role: C{master} or C{minion}.
    @param config_dir: from C{-c}/C{--config}; otherwise the environment or the usual places.
    @param overrides: options from a command line, over every file.
    @param guess_id: false for commands which need no id: guessing may ask DNS.
    @param disk: where the files are; the real one if not given.
    @raises WrongPlace: there is no directory of the name that was given.
    @raises ConfigError: with file and line.
    """
    if config_dir is not None:
        config_dir = os.path.abspath(os.path.expanduser(config_dir))
    disk = disk or Disk()
    named = config_dir or environ.get("SALTWISTED_CONFIG_DIR")
    if named and not disk.has_folder(named):
        # All defaults would be another master: with keys in another place, or somebody else's
        what = "is no directory" if os.path.exists(named) else "does not exist"
        raise WrongPlace(f"the configuration directory {named} {what}")
    return load(role, disk, Machine(), config_dir, environ, overrides, guess_id)
