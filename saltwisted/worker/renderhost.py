"""
The machine behind a renderer: L{RenderHost} on real files.

L{LocalHost} finds C{salt://} paths through a function (a file client's, or directories by
L{RootsHost}). L{RootsHost} also records every file that was requested, whether it exists or not, so
that a compiled pillar can be kept until one of them changes.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import stat
import subprocess
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from fnmatch import fnmatch
from importlib import import_module
from typing import Any

from saltwisted.domain.render.errors import TemplateFailure
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError
from saltwisted.worker.masking import plain_pillar
from saltwisted.worker.renderfilters import impure_filters, which
from saltwisted.worker.walk import walk

log = logging.getLogger(__name__)

Stamp = tuple[int, int, int] | None
"""Modification time in nanoseconds, size, inode; C{None}: not there."""

PROFILE = 15
"""Salt's log level of that name."""
_LEVELS = {
    "profile": PROFILE,
    "debug": logging.DEBUG,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
LIBRARIES = frozenset({"hjson", "json5", "mako.template", "mako.exceptions", "tomllib"})
"""What renderers may ask for."""
FRESH = 20_000_000
"""Nanoseconds: a file changed so shortly before we looked may change again unseen."""


def file_stamp(path: str) -> Stamp:
    """The stamp of a file or directory, links followed."""
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


class LocalHost:
    """
    A L{saltwisted.domain.render.host.RenderHost}.

    @param finder: C{(path, saltenv)} to a local file or C{None}.
    @param opts: Salt-shaped options (for C{gpg}).
    @param functions: returns Salt's functions when a filter needs one.
    @param prepare: called before a site's Python code is run.
    @ivar volatile: why the last renderings may not be kept: names of filters, programs.
    """

    function_errors: tuple[type[BaseException], ...] = (
        SaltInvocationError,
        CommandExecutionError,
    )

    def __init__(
        self,
        finder: Callable[[str, str], str | None],
        opts: Mapping[str, Any],
        functions: Callable[[], Mapping[str, Any]] = dict,
        prepare: Callable[[], object] = bool,
    ) -> None:
        self._finder = finder
        self._prepare = prepare
        self._opts = opts
        self._plain: dict[bytes, bytes] = {}
        self.volatile: set[str] = set()
        self.filters: Mapping[str, Callable[..., Any]] = impure_filters(
            functions, self.volatile.add
        )

    def find(self, path: str, saltenv: str) -> str | None:
        """
        As the protocol says. A whole path of this machine, C{/srv/salt/x.jinja}, means the file
        below the roots of the environment, in whichever of them it is; none outside of them.
        """
        return self._finder(self._below(path, saltenv), saltenv)

    def _below(self, path: str, saltenv: str) -> str:
        """A whole path as one below a root; any other path as it is."""
        if path.startswith("/"):
            whole = os.path.normpath(path)
            for root in self._directories(saltenv):
                base = os.path.normpath(str(root))
                if whole.startswith(f"{base}/"):
                    return whole[len(base) + 1 :]
        return path

    def _directories(self, saltenv: str) -> Sequence[str]:
        """Where the files of an environment are on this machine: its roots, or their copies."""
        if self._opts.get("file_client") == "local":
            roots = self._opts.get("file_roots") or {}
            found = roots.get(saltenv) if isinstance(roots, Mapping) else None
            return found if isinstance(found, (list, tuple)) else ()
        cachedir = self._opts.get("cachedir")
        return [os.path.join(str(cachedir), "files", saltenv)] if cachedir else ()

    def stamp(self, path: str) -> Hashable | None:
        """As the protocol says; only files count."""
        try:
            about = os.stat(path)
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(about.st_mode):
            return None
        return about.st_mtime_ns, about.st_size, about.st_ino

    def read(self, path: str) -> bytes:
        """As the protocol says."""
        with open(path, "rb") as stream:
            return stream.read()

    def now(self) -> float:
        """As the protocol says."""
        return time.monotonic()

    def log(self, level: str, message: str) -> None:
        """As the protocol says."""
        log.log(_LEVELS[level], "%s", message)

    def rendering(self) -> AbstractContextManager[Any]:
        """As the protocol says."""
        return plain_pillar()

    def prepare_python(self) -> None:
        """As the protocol says."""
        self._prepare()

    def library(self, name: str) -> Any:
        """As the protocol says."""
        if name not in LIBRARIES:
            return None
        try:
            return import_module(name)
        except ImportError:
            return None

    def gpg(self, message: bytes) -> bytes:
        """
        As the protocol says; one run of C{gpg} for each different message.

        @raises TemplateFailure: the errors of stock.
        """
        plain = self._plain.get(message)
        if plain is None:
            plain = self._run_gpg(message)
            if plain is not message:
                self._plain[message] = plain
        return plain

    def _run_gpg(self, message: bytes) -> bytes:
        program = which("gpg")
        if program is None:
            raise TemplateFailure("GPG unavailable")
        done = subprocess.run(
            [program, "--homedir", self.gpg_home(), "--status-fd", "2", "--no-tty", "-d"],
            input=message,
            capture_output=True,
            check=False,
        )
        if done.stdout:
            return done.stdout
        self.volatile.add("gpg")
        log.warning("gpg could not decrypt a message: %s", _gpg_reason(done.stderr))
        if self._opts.get("gpg_decrypt_must_succeed"):
            raise TemplateFailure(
                f"Could not decrypt cipher {message!r}, received: {done.stderr!r}", quotable=False
            )
        return message

    def gpg_home(self) -> str:
        """The key ring's directory."""
        chosen = self._opts.get("gpg_keydir")
        if chosen:
            return str(chosen)
        config_dir = self._opts.get("config_dir") or os.path.dirname(
            str(self._opts.get("conf_file") or "/etc/salt/master")
        )
        return os.path.join(str(config_dir), "gpgkeys")


def _gpg_reason(output: bytes) -> str:
    """The status words of gpg's output: no key, no data, ...; nothing of the message."""
    words = re.findall(rb"^\[GNUPG:\] (NO_SECKEY|NODATA|DECRYPTION_FAILED|ERROR)", output, re.M)
    return " ".join(sorted({word.decode() for word in words})) or "no output"


class RootsHost(LocalHost):
    """
    Files in directories by environment, with a record of everything that was requested.

    @param roots: environment to directories, in order of precedence.
    @ivar seen: path to stamp, of files and directories, including missing ones.
    """

    def __init__(
        self,
        roots: Mapping[str, Sequence[str]],
        opts: Mapping[str, Any],
        functions: Callable[[], Mapping[str, Any]] = dict,
        prepare: Callable[[], object] = bool,
    ) -> None:
        super().__init__(self._in_roots, opts, functions, prepare)
        self._roots = roots
        self._names: dict[str, list[str]] = {}
        self._ignored_globs = tuple(opts.get("file_ignore_glob") or ())
        self._ignored = [re.compile(one) for one in opts.get("file_ignore_regex") or ()]
        self._began = time.time_ns()
        self.seen: dict[str, Stamp] = {}

    def stamp(self, path: str) -> Hashable | None:
        """As for L{LocalHost}; each path is asked once in a compilation."""
        if path in self.seen:
            return self.seen[path]
        found = super().stamp(path)
        self.seen[path] = found  # type: ignore[assignment]
        return found

    def _directories(self, saltenv: str) -> Sequence[str]:
        return self._roots.get(saltenv) or super()._directories(saltenv)

    def _in_roots(self, path: str, saltenv: str) -> str | None:
        if ".." in path.split("/"):
            path = os.path.normpath(path)
            if path.startswith("../"):
                return None
        path = path.lstrip("/")
        for root in self._roots.get(saltenv, ()):
            full = os.path.join(root, path)
            if self.stamp(full) is not None:
                return full
        return None

    def depends(self, path: str) -> None:
        """Somebody else reads this file, or a directory: what is compiled depends on it."""
        self.seen.setdefault(path, file_stamp(path))

    def take(self, other: RootsHost) -> None:
        """What is compiled depends on all that something else depended on."""
        self.volatile |= other.volatile
        for path, stamp in other.seen.items():
            self.seen.setdefault(path, stamp)

    def forget(self) -> None:
        """Look at all files anew."""
        self.seen.clear()

    def matching(self, pattern: str, saltenv: str) -> list[str]:
        """The files that a pattern with wild cards means in the first root that has some."""
        for root in self._roots.get(saltenv, ()):
            inside = [
                each
                for each in sorted(glob.glob(os.path.join(glob.escape(root), pattern)))
                if os.path.realpath(each).startswith(os.path.realpath(root) + os.sep)
            ]
            if inside:
                return inside
        return []

    def names(self, saltenv: str) -> list[str]:
        """Every SLS name of an environment; each directory on the way is recorded."""
        if saltenv not in self._names:
            found: set[str] = set()
            for root in self._roots.get(saltenv, ()):
                self._walk(root, found)
            self._names[saltenv] = sorted(found)
        return self._names[saltenv]

    def _walk(self, root: str, found: set[str]) -> None:
        self.seen[root] = file_stamp(root)
        for here, folders, files in walk(root):
            if here != root:
                self.seen[here] = file_stamp(here)
            folders[:] = [name for name in folders if not self._is_ignored(name)]
            prefix = os.path.relpath(here, root)
            prefix = "" if prefix == "." else prefix + "/"
            for name in files:
                if name.endswith(".sls"):
                    path = prefix + name
                    cut = -9 if path.endswith("/init.sls") else -4
                    found.add(path.replace("/", ".")[:cut])

    def _is_ignored(self, name: str) -> bool:
        return any(one.search(name) for one in self._ignored) or any(
            fnmatch(name, one) for one in self._ignored_globs
        )

    def keepable(self) -> dict[str, Stamp] | None:
        """
        What the renderings depended on, or C{None} if they may not be kept.

        A file that changed a moment before it was read may have changed once more in
        the same tick of the clock.
        """
        if self.volatile:
            return None
        for stamp in self.seen.values():
            if stamp is not None and -FRESH < stamp[0] - self._began < 60 * 10**9:
                return None
        return self.seen
