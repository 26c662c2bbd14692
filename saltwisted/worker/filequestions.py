"""
Requests to a file server, and how a file is fetched from it.

One object with C{request(load)} answers: the master, through the minion's daemon
(L{saltwisted.worker.process.main.MasterLink}), or this machine's roots
(L{saltwisted.worker.localroots}). The answers have been through a wire format that guesses which
data is text; this module restores the types.
"""

from __future__ import annotations

import gzip as gzip_module
import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Protocol

from saltwisted.worker.exceptions import MinionError
from saltwisted.worker.localroots import digest

log = logging.getLogger(__name__)

WINDOW = 3
"""Chunks of one file that are on their way at once, when they are large."""

LARGE = 1 << 18
"""Bytes in a first chunk from which on it pays to ask ahead: small files have no second one."""


class Source(Protocol):
    """Answers file requests."""

    def request(self, load: dict[str, Any], timeout: float | None = None) -> Any:
        """The answer to one load."""


# -- addresses -------------------------------------------------------------


def parse_url(url: str) -> tuple[str, str | None]:
    """Path and environment of C{salt://path?saltenv=env}; any other address as it is."""
    if not url.startswith("salt://"):
        return url, None
    path, saltenv = url[len("salt://") :], None
    if "?env=" in path:
        path = path.partition("?env=")[0]
    elif "?saltenv=" in path:
        path, _, saltenv = path.partition("?saltenv=")
    return path.lstrip("/"), saltenv


def create_url(path: str, saltenv: str | None = None) -> str:
    """The C{salt://} address of a path."""
    query = f"?saltenv={saltenv}" if saltenv else ""
    return f"salt://{path}{query}"


# -- questions -------------------------------------------------------------


class FileQuestions:
    """
    The requests to a file server that need no cache, by stock's names.

    @param opts: the minion's options.
    @param source: answers the requests.
    """

    def __init__(self, opts: Mapping[str, Any], source: Source) -> None:
        self.opts = opts
        self._source = source

    def _ask(self, cmd: str, **fields: Any) -> Any:
        return self._source.request({"cmd": cmd, **fields})

    def envs(self) -> list[str]:
        """The environments."""
        return list(self._ask("_file_envs") or ())

    def file_list(self, saltenv: str = "base", prefix: str = "") -> list[str]:
        """Files of an environment, relative."""
        return _texts(self._ask("_file_list", saltenv=saltenv, prefix=prefix))

    def list_env(self, saltenv: str = "base") -> list[str]:
        """All files of an environment."""
        return self.file_list(saltenv)

    def file_list_emptydirs(self, saltenv: str = "base", prefix: str = "") -> list[str]:
        """Empty directories of an environment."""
        return _texts(self._ask("_file_list_emptydirs", saltenv=saltenv, prefix=prefix))

    def dir_list(self, saltenv: str = "base", prefix: str = "") -> list[str]:
        """Directories of an environment."""
        return _texts(self._ask("_dir_list", saltenv=saltenv, prefix=prefix))

    def symlink_list(self, saltenv: str = "base", prefix: str = "") -> dict[str, str]:
        """Links of an environment, with their targets."""
        links = self._ask("_symlink_list", saltenv=saltenv, prefix=prefix)
        return links if isinstance(links, dict) else {}

    def list_states(self, saltenv: str) -> list[str]:
        """Names of all sls files of an environment."""
        found = set()
        for path in self.file_list(saltenv):
            if path.endswith("/init.sls"):
                found.add(path[: -len("/init.sls")].replace("/", "."))
            elif path.endswith(".sls"):
                found.add(path[: -len(".sls")].replace("/", "."))
        return sorted(found)

    def master_opts(self) -> dict[str, Any]:
        """What the master tells about its options."""
        answer = self._ask("_master_opts")
        return answer if isinstance(answer, dict) else {}

    def master_tops(self, grains: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What external top systems of the master assign to this minion, of these grains."""
        opts = dict(self.opts) if grains is None else {**self.opts, "grains": dict(grains)}
        answer = self._ask("_master_tops", id=self.opts.get("id"), opts=opts)
        return answer if isinstance(answer, dict) else {}

    def hash_file(self, path: str, saltenv: str = "base") -> Any:
        """
        C{{"hsum", "hash_type"}} of a C{salt://} address or of a local file.

        C{""} when the server has no such file, C{{}} when this machine has none.
        """
        if path.startswith("salt://"):
            relative, senv = parse_url(path)
            return self._ask("_file_hash", path=relative, saltenv=senv or saltenv)
        if not os.path.isfile(path):
            log.warning("specified file %s is not present to generate hash", path)
            return {}
        kind = str(self.opts.get("hash_type") or "sha256")
        return {"hsum": digest(path, kind), "hash_type": kind}

    def hash_and_stat_file(self, path: str, saltenv: str = "base") -> tuple[Any, Any]:
        """As L{hash_file}, and the file's C{stat} as a list, or C{None}."""
        found = self.hash_file(path, saltenv)
        if path.startswith("salt://"):
            relative, senv = parse_url(path)
            answer = self._ask("_file_find", path=relative, saltenv=senv or saltenv)
            return found, answer.get("stat") if isinstance(answer, dict) else None
        try:
            return found, list(os.stat(path))
        except OSError:
            return found, None


# -- the way of a file -----------------------------------------------------


def download(
    source: Source,
    relative: str,
    saltenv: str,
    gzip: Any,
    write: Callable[[bytes], Any],
    hash_type: str,
) -> str | None:
    """
    Fetch a file's chunks, and hand each to C{write}.

    @param gzip: level for the way, 1 to 9.
    @return: the digest of what came; C{None} when the server does not know the file.
    """
    load: dict[str, Any] = {"cmd": "_serve_file", "path": relative, "saltenv": saltenv}
    if gzip:
        load["gzip"] = int(gzip)
    summer = hashlib.new(hash_type)
    first = True
    for known, data in chunks(source, load):
        if first and not data and not known:
            return None
        first = False
        write(data)
        summer.update(data)
    return summer.hexdigest()


def chunks(source: Source, load: dict[str, Any]) -> Iterator[tuple[bool, bytes]]:
    """
    The parts of a file, one after the other, the last one empty.

    Once the server's chunk size is known, some are asked for ahead, if the source can.
    Each comes with whether the server knows the file.
    """
    part = _part(source.request({**load, "loc": 0}))
    yield part
    size = place = len(part[1])
    ahead = getattr(source, "requests", None)
    if ahead is not None and size >= LARGE:
        flow = ahead(({**load, "loc": size * number} for number in count(1)), WINDOW)
        try:
            for answer in flow:
                part = _part(answer)
                yield part
                place += len(part[1])
                if len(part[1]) != size:
                    break
        finally:
            flow.close()
    # Step by step from here: a chunk of another size is the last but one, or the server's
    # sizes vary.
    while part[1]:
        part = _part(source.request({**load, "loc": place}))
        yield part
        place += len(part[1])


def _bytes(data: Any) -> bytes:
    return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)


def _part(answer: Any) -> tuple[bool, bytes]:
    """Whether the server knows the file, and some of its content."""
    if not isinstance(answer, dict) or "data" not in answer:
        raise MinionError("the file server sent an answer that makes no sense")
    data = _bytes(answer["data"] or b"")
    if data and answer.get("gzip"):
        data = gzip_module.decompress(data)
    return bool(answer.get("dest")), data


def _texts(answer: Any) -> list[str]:
    """A list of names, whatever the guessing of the wire made of them."""
    if not isinstance(answer, (list, tuple)):
        return []
    return [
        name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name)
        for name in answer
    ]
