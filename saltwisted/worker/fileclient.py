"""
C{__fileclient__}: files from the master, from C{file_roots}, or from the web, in the cache.

The methods, their arguments and what they give back are those of stock's
C{salt/fileclient.py}, on which C{cp}, C{file} and the state compiler are built. Where the
answers come from is one object with C{request(load)}: the master, through the minion's daemon
(C{worker.main.MasterLink}), or this machine's roots (C{worker.localroots}).

Three things are stricter than stock: a file is in place whole or not at all; what arrived is
compared with the digest that the master named; and no name from outside (a path, an
environment, an address) leads out of the cache.
"""

from __future__ import annotations

import fnmatch
import gzip as gzip_module
import hashlib
import logging
import os
import re
import shutil
import stat
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, BinaryIO, Protocol

from saltwisted.worker import templates
from saltwisted.worker.exceptions import CommandExecutionError, MinionError
from saltwisted.worker.jobfiles import remove_quietly
from saltwisted.worker.localroots import LocalRoots, digest
from saltwisted.worker.walk import walk

log = logging.getLogger(__name__)

LONGEST_NAME = 255
"""Bytes in a file's name; longer names of the web are replaced by their digest."""

TRIES = 3
"""How often a file is fetched when what came is not what the master announced."""

WINDOW = 3
"""Chunks of one file that are on their way at once, when they are large."""

LARGE = 1 << 18
"""Bytes in a first chunk from which on it pays to ask ahead: small files have no second one."""


class Source(Protocol):
    """Who answers file requests."""

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


def inside(base: str, *names: str) -> str | None:
    """
    Join names from outside under a directory of ours.

    @return: C{None} when they would lead out of it, or are not names at all.
    """
    path = os.path.normpath(os.path.join(base, *(name.lstrip("/") for name in names)))
    if "\0" in path or not path.startswith(os.path.normpath(base).rstrip("/") + "/"):
        return None
    return path


# -- the client ------------------------------------------------------------


class FileClient:
    """
    Files for one minion.

    @param opts: its options.
    @param source: who answers.
    @param local: whether the source is on this machine.
    @param render: renders a template, C{render(text, engine, context)}; for L{get_template}.
    @param utils: stock's utility functions, for C{s3://} and the like.
    """

    def __init__(
        self,
        opts: Mapping[str, Any],
        source: Source,
        *,
        local: bool = False,
        render: Callable[[str, str, dict[str, Any]], str] | None = None,
        utils: Mapping[str, Any] | None = None,
    ) -> None:
        self.opts = opts
        self.local = local
        self._source = source
        self._render = render
        self._utils = utils

    def _ask(self, cmd: str, **fields: Any) -> Any:
        return self._source.request({"cmd": cmd, **fields})

    # -- questions to the file server

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

    def master_tops(self) -> dict[str, Any]:
        """What external top systems of the master assign to this minion."""
        answer = self._ask("_master_tops", id=self.opts.get("id"), opts=dict(self.opts))
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

    # -- the cache

    def get_cachedir(self, cachedir: str | None = None) -> str:
        """The cache directory; a relative one is under the minion's."""
        base = str(self.opts["cachedir"])
        return os.path.join(base, cachedir) if cachedir else base

    def cache_file(
        self,
        path: str,
        saltenv: str = "base",
        cachedir: str | None = None,
        source_hash: str | None = None,
        verify_ssl: bool = True,
        use_etag: bool = False,
    ) -> Any:
        """The path of a copy in the cache, fetched if need be; false or empty if there is none."""
        return self.get_url(
            path,
            "",
            True,
            saltenv,
            cachedir=cachedir,
            source_hash=source_hash,
            verify_ssl=verify_ssl,
            use_etag=use_etag,
        )

    def cache_files(
        self, paths: str | list[str], saltenv: str = "base", cachedir: str | None = None
    ) -> list[Any]:
        """L{cache_file} for several, also given as comma text."""
        names = paths.split(",") if isinstance(paths, str) else paths
        return [self.cache_file(path, saltenv, cachedir=cachedir) for path in names]

    def cache_master(self, saltenv: str = "base", cachedir: str | None = None) -> list[Any]:
        """Cache every file of an environment."""
        return [
            self.cache_file(create_url(path), saltenv, cachedir=cachedir)
            for path in self.file_list(saltenv)
        ]

    def cache_dir(
        self,
        path: str,
        saltenv: str = "base",
        include_empty: bool = False,
        include_pat: Any = None,
        exclude_pat: Any = None,
        cachedir: str | None = None,
    ) -> list[str]:
        """Cache a directory; the paths of the copies."""
        folder, senv = self._salt_path(path)
        saltenv = senv or saltenv
        folder = folder if folder.endswith("/") else folder + "/"
        copies = []
        for name in self.file_list(saltenv):
            if name.strip() and name.startswith(folder) and wanted(name, include_pat, exclude_pat):
                copy = self.cache_file(create_url(name), saltenv, cachedir=cachedir)
                if copy:
                    copies.append(copy)
        if include_empty:
            for name in self.file_list_emptydirs(saltenv):
                place = self._cache_place(name, saltenv, cachedir)
                if name.startswith(folder) and place is not None:
                    os.makedirs(place, mode=0o700, exist_ok=True)
                    copies.append(place)
        return copies

    def cache_local_file(self, path: str, **kwargs: Any) -> str:
        """Copy a file of this machine into C{localfiles} of the cache."""
        place = inside(os.path.join(self.get_cachedir(), "localfiles"), path)
        if place is None:
            raise CommandExecutionError(f"Invalid path '{path}'")
        _make_private(os.path.dirname(place))
        with Replacement(place, private=True) as target, open(path, "rb") as source:
            while chunk := source.read(1 << 20):
                target.write(chunk)
        return place

    def file_local_list(self, saltenv: str = "base") -> list[str]:
        """Every file in the cache of an environment and in C{localfiles}."""
        found: set[str] = set()
        for base in (
            inside(os.path.join(self.get_cachedir(), "files"), saltenv),
            os.path.join(self.get_cachedir(), "localfiles"),
        ):
            for folder, _, files in walk(base or ""):
                found.update(os.path.join(folder, name) for name in files)
        return sorted(found)

    def is_cached(self, path: str, saltenv: str = "base", cachedir: str | None = None) -> str:
        """The path of a copy in the cache, or C{""}; nothing is fetched."""
        name, senv = parse_url(path)
        saltenv = senv or saltenv
        escaped = "|" if name.startswith("|") else ""
        relative = name.lstrip("|/")
        place = self._cache_place(relative, saltenv)
        if place is not None and os.path.exists(place):
            return escaped + place
        place = inside(os.path.join(self.get_cachedir(), "localfiles"), relative)
        if place is not None and os.path.exists(place):
            return escaped + place
        place = self._extern_place(path, saltenv, cachedir)
        return place if place is not None and os.path.exists(place) else ""

    def cache_dest(self, url: str, saltenv: str = "base", cachedir: str | None = None) -> str:
        """Where the copy of an address is or would be."""
        scheme = urllib.parse.urlsplit(url).scheme
        if scheme == "":
            return url
        if scheme != "salt":
            return self._extern_place(url, saltenv, cachedir) or "Invalid path"
        name, senv = parse_url(url)
        return self._cache_place(name.lstrip("|/"), senv or saltenv) or "Invalid path"

    def _cache_place(self, relative: str, saltenv: str, cachedir: str | None = None) -> str | None:
        base = os.path.join(self.get_cachedir(cachedir), "files")
        environment = inside(base, saltenv)
        return None if environment is None else inside(environment, relative)

    def _extern_place(self, url: str, saltenv: str, cachedir: str | None = None) -> str | None:
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2].replace(":", "")
        name = f"{parts.path}-{parts.query}" if parts.query else parts.path
        if len(name) > LONGEST_NAME:
            name = hashlib.sha256(name.encode()).hexdigest()
        base = os.path.join(self.get_cachedir(cachedir), "extrn_files")
        environment = inside(base, saltenv)
        folder = None if environment is None else inside(environment, host or ".")
        if environment is not None and not host:
            folder = environment
        return None if folder is None else inside(folder, name)

    def _salt_path(self, url: str) -> tuple[str, str | None]:
        if not url.startswith("salt://"):
            raise MinionError(f"Unsupported path: {url}")
        return parse_url(url)

    # -- fetching

    def get_state(self, sls: str, saltenv: str, cachedir: str | None = None) -> dict[str, Any]:
        """The copy of an sls, C{{"source", "dest"}}; C{{}} if there is none."""
        path = sls.replace(".", "/")
        for url in (create_url(path + ".sls"), create_url(path + "/init.sls")):
            copy = self.cache_file(url, saltenv, cachedir=cachedir)
            if copy:
                return {"source": url, "dest": copy}
        return {}

    def get_file(
        self,
        path: str,
        dest: str | None = "",
        makedirs: bool = False,
        saltenv: str = "base",
        gzip: Any = None,
        cachedir: str | None = None,
    ) -> Any:
        """
        Fetch a C{salt://} file, unless what is there is the same already.

        @param dest: a file or a directory; C{""}: the cache.
        @param makedirs: make the directory of C{dest}.
        @param gzip: level for the way, 1 to 9.
        @return: the path; false when the server has no such file or the directory is missing.
        @raises MinionError: what came was three times not what the server had announced.
        """
        relative, senv = self._salt_path(path)
        saltenv = senv or saltenv
        announced = self.hash_file(create_url(relative), saltenv)
        if not announced or not isinstance(announced, dict):
            log.debug("Could not find file '%s' in saltenv '%s'", path, saltenv)
            return False
        if dest and (os.path.isdir(dest) or dest.endswith("/")):
            dest = os.path.join(dest, os.path.basename(relative))
        in_cache = not dest
        target = dest or self._cache_place(relative.lstrip("|"), saltenv, cachedir)
        if target is None:
            log.error("The path '%s' in saltenv '%s' points outside the cache", relative, saltenv)
            return False
        if os.path.isfile(target) and _same(target, announced):
            return target
        if in_cache:
            if os.path.isdir(target):
                shutil.rmtree(target)
            _make_private(os.path.dirname(target))
        elif not os.path.isdir(os.path.dirname(target)):
            if not makedirs:
                return False
            os.makedirs(os.path.dirname(target), exist_ok=True)
        for attempt in range(1, TRIES + 1):
            with Replacement(target, private=in_cache) as out:
                found = self._download(relative, saltenv, gzip, out, announced)
                out.keep = found == announced["hsum"]
            if out.keep:
                log.info("Fetching file from saltenv '%s', ** done ** '%s'", saltenv, relative)
                return target
            if found is None:
                return False
            log.warning("Bad download of file %s, attempt %d of %d", relative, attempt, TRIES)
            announced = self.hash_file(create_url(relative), saltenv)
            if not isinstance(announced, dict) or not announced:
                return False
        raise MinionError(f"{path} changed during each of {TRIES} attempts to copy it")

    def _download(
        self,
        relative: str,
        saltenv: str,
        gzip: Any,
        out: Replacement,
        announced: Mapping[str, Any],
    ) -> str | None:
        """
        Write a file's chunks.

        @return: the digest of what came; C{None} when the server does not know the file.
        """
        load: dict[str, Any] = {"cmd": "_serve_file", "path": relative, "saltenv": saltenv}
        if gzip:
            load["gzip"] = int(gzip)
        summer = hashlib.new(str(announced.get("hash_type") or "sha256"))
        first = True
        for known, data in self._chunks(load):
            if first and not data and not known:
                return None
            first = False
            out.write(data)
            summer.update(data)
        return summer.hexdigest()

    def _chunks(self, load: dict[str, Any]) -> Iterator[tuple[bool, bytes]]:
        """
        The parts of a file, one after the other, the last one empty.

        Once the server's chunk size is known, some are asked for ahead, if the source can.
        Each comes with whether the server knows the file.
        """
        part = _part(self._source.request({**load, "loc": 0}))
        yield part
        size = place = len(part[1])
        ahead = getattr(self._source, "requests", None)
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
            part = _part(self._source.request({**load, "loc": place}))
            yield part
            place += len(part[1])

    def get_dir(
        self,
        path: str,
        dest: str = "",
        saltenv: str = "base",
        gzip: Any = None,
        cachedir: str | None = None,
    ) -> list[Any]:
        """Fetch a directory, with its empty directories, under C{dest}; what was made, sorted."""
        folder, senv = self._salt_path(path)
        saltenv = senv or saltenv
        folder = folder.rstrip("/")
        parent = folder.rpartition("/")[0]
        made: list[Any] = []
        for name in self.file_list(saltenv, prefix=folder):
            target = self._under(dest, name, folder, parent)
            if target is not None:
                made.append(self.get_file(create_url(name), target, True, saltenv, gzip))
        for name in self.file_list_emptydirs(saltenv, prefix=folder):
            target = self._under(dest, name, folder, parent)
            if target is not None:
                os.makedirs(target, exist_ok=True)
                made.append(target)
        return sorted(made, key=str)

    def _under(self, dest: str, name: str, folder: str, parent: str) -> str | None:
        """Where a name of the server's list goes; C{None} if it is of another directory."""
        if not name.startswith(folder + "/") and folder:
            return None
        relative = name[len(parent) :].lstrip("/")
        if inside("/x", relative) is None:
            return None
        return f"{dest}/{relative}"

    def get_url(
        self,
        url: str,
        dest: str | None,
        makedirs: bool = False,
        saltenv: str = "base",
        no_cache: bool = False,
        cachedir: str | None = None,
        source_hash: str | None = None,
        verify_ssl: bool = True,
        use_etag: bool = False,
    ) -> Any:
        """
        Fetch any address: C{salt}, C{file} or a plain path, C{http}, C{https}, C{ftp}.

        @param dest: a file or directory; C{""}: the cache; C{None}: give back the content.
        @param no_cache: with C{dest=None}, leave nothing on the disk.
        @param source_hash: C{kind=hex} or the hex alone: a cached copy with it is good enough.
        @return: the path or the content; C{""} or false when there is none.
        @raises MinionError: the server refused.
        """
        parts = urllib.parse.urlsplit(url, allow_fragments=False)
        if dest and (os.path.isdir(dest) or dest.endswith("/")):
            plain = parts.query or (len(parts.path) > 1 and not parts.path.endswith("/"))
            dest = os.path.join(dest, url.split("/")[-1] if plain else "index.html")
        if parts.scheme in ("file", ""):
            place = os.path.join(parts.netloc, parts.path).rstrip("/")
            if not os.path.isabs(place):
                raise CommandExecutionError(f"Path '{place}' is not absolute")
            return _content(place) if dest is None else place
        if parts.scheme == "salt":
            found = self.get_file(url, dest, makedirs, saltenv, cachedir=cachedir)
            return _content(found) if found and dest is None else found
        if parts.scheme not in ("http", "https", "ftp"):
            return self._by_utility(parts, url, dest, saltenv, cachedir)
        if not dest and no_cache:
            return self._web_content(url, verify_ssl)
        target = dest or self._extern_place(url, saltenv, cachedir)
        if target is None:
            raise MinionError(f"Invalid path in {parts.scheme} address")
        in_cache = not dest
        if in_cache:
            if source_hash is not None and _has_hash(target, source_hash):
                return target
            _make_private(os.path.dirname(target))
        elif not os.path.isdir(os.path.dirname(target)):
            if not makedirs:
                return ""
            os.makedirs(os.path.dirname(target), exist_ok=True)
        self._web_file(url, target, in_cache, verify_ssl, use_etag)
        return _content(target) if dest is None else target

    def _web_content(self, url: str, verify_ssl: bool) -> Any:
        from saltwisted.worker.fetch import fetch

        content = bytearray()
        found = fetch(url, content.extend, self.opts, verify_ssl=verify_ssl)
        return content.decode(found.charset, "replace") if found.charset else bytes(content)

    def _web_file(
        self, url: str, target: str, private: bool, verify_ssl: bool, use_etag: bool
    ) -> None:
        from saltwisted.worker.fetch import fetch

        note, known = f"{target}.etag", ""
        if use_etag and os.path.isfile(target):
            try:
                with open(note, encoding="utf-8") as stream:
                    known = stream.read().strip()
            except OSError:
                pass
        with Replacement(target, private=private) as out:
            found = fetch(url, out.write, self.opts, verify_ssl=verify_ssl, etag=known)
            out.keep = not found.unchanged
        if use_etag and found.etag and not found.unchanged:
            with Replacement(note, private=private) as out:
                out.write(found.etag.encode())

    def _by_utility(
        self,
        parts: urllib.parse.SplitResult,
        url: str,
        dest: str | None,
        saltenv: str,
        cachedir: str | None,
    ) -> Any:
        """C{s3://}, by stock's utility module."""
        query = None if self._utils is None else self._utils.get("s3.query")
        if parts.scheme != "s3" or query is None:
            raise MinionError(f"Unsupported path: {url}: {parts.scheme}:// is not supported")
        target = dest or self._extern_place(url, saltenv, cachedir)
        if target is None:
            raise MinionError(f"Invalid path: {url}")
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        pillar = self.opts.get("pillar") or {}

        def option(name: str, default: Any = None) -> Any:
            if f"s3.{name}" in self.opts:
                return self.opts[f"s3.{name}"]
            return (pillar.get("s3") or {}).get(name, default)

        try:
            query(
                method="GET",
                bucket=parts.netloc,
                path=parts.path[1:],
                return_bin=False,
                local_file=target,
                action=None,
                key=option("key"),
                keyid=option("keyid"),
                service_url=option("service_url"),
                verify_ssl=option("verify_ssl", True),
                location=option("location"),
                path_style=option("path_style", False),
                https_enable=option("https_enable", True),
            )
        except Exception as error:
            raise MinionError(f"Could not fetch from {url}. Exception: {error}") from error
        return target

    def get_template(
        self,
        url: str,
        dest: str | None,
        template: str = "jinja",
        makedirs: bool = False,
        saltenv: str = "base",
        cachedir: str | None = None,
        **kwargs: Any,
    ) -> str:
        """
        Fetch a file, render it, and put the result at C{dest} (or among the cached web files).

        @return: its path; C{""} when there is no such file, no such engine or a mistake in it.
        """
        kwargs.pop("env", None)
        kwargs.update(kwargs.pop("context", None) or {})
        source = self.cache_file(url, saltenv, cachedir=cachedir)
        if not source or not os.path.exists(source):
            return ""
        if self._render is None:
            log.error("Attempted to render template with unavailable engine %s", template)
            return ""
        try:
            with open(source, encoding="utf-8") as stream:
                text = self._render(stream.read(), template, {**kwargs, "saltenv": saltenv})
        except Exception as error:
            log.error("Failed to render template with error: %s", error)
            return ""
        target = dest or self._extern_place(url, saltenv, cachedir)
        if target is None:
            return ""
        folder = os.path.dirname(target)
        if not os.path.isdir(folder):
            if dest and not makedirs:
                return ""
            os.makedirs(folder, exist_ok=True)
        with Replacement(target, private=True) as out:
            out.write(text.encode())
        return target

    # Stock's file clients are closed and used as context managers.

    def destroy(self) -> None:
        """Nothing to let go: the connection is the daemon's."""

    def __enter__(self) -> FileClient:
        return self

    def __exit__(self, *args: object) -> None:
        pass


def file_client(
    opts: Mapping[str, Any],
    master: Source,
    *,
    utils: Mapping[str, Any] | None = None,
    render: Callable[[str, str, dict[str, Any]], str] | None = None,
) -> FileClient:
    """The client that C{file_client} of the options asks for."""
    if render is None:
        render = templates.render_text
    if opts.get("file_client") == "local":
        return FileClient(opts, LocalRoots(opts), local=True, render=render, utils=utils)
    return FileClient(opts, master, render=render, utils=utils)


# -- files -----------------------------------------------------------------


class Replacement:
    """
    New content that takes the place of a file when the block ends without an error.

    A file that is there keeps its owner and mode; a new one gets the umask's, or 0600.
    Through a link the file that it names is replaced; devices and pipes are written to.

    @ivar keep: set it to false to leave the old file as it is.
    """

    def __init__(self, path: str, private: bool) -> None:
        self._path = os.path.realpath(path)
        self._private = private
        self._temporary = ""
        self._stream: BinaryIO
        self.keep = True

    def write(self, data: bytes) -> int:
        """Add some content."""
        return self._stream.write(data)

    def __enter__(self) -> Replacement:
        old = None
        try:
            old = os.stat(self._path)
        except FileNotFoundError:
            pass
        if old is not None and not stat.S_ISREG(old.st_mode):
            self._stream = open(self._path, "wb")
            return self
        folder = os.path.dirname(self._path)
        self._temporary = os.path.join(folder, f".salt-{os.urandom(8).hex()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        mode = 0o600 if self._private or old is not None else 0o666
        fd = os.open(self._temporary, flags, mode)
        self._stream = open(fd, "wb")
        if old is not None and not self._private:
            try:
                os.fchown(fd, old.st_uid, old.st_gid)
            except PermissionError:
                pass
            os.fchmod(fd, stat.S_IMODE(old.st_mode))
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self._stream.close()
            if self._temporary and error is None and self.keep:
                os.rename(self._temporary, self._path)
                self._temporary = ""
        finally:
            if self._temporary:
                remove_quietly(self._temporary)


def _make_private(folder: str) -> None:
    """Make directories of the cache, 0700; a file that stands in the way is an old copy."""
    missing = []
    while not os.path.isdir(folder):
        if os.path.lexists(folder):
            os.unlink(folder)
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass


def wanted(path: str, include: Any = None, exclude: Any = None) -> bool:
    """Whether C{include_pat} and C{exclude_pat} (globs, C{E@regex}, lists) let a path through."""
    if include and not _any(path, include):
        return False
    return not (exclude and _any(path, exclude))


def _any(path: str, patterns: Any) -> bool:
    for pattern in patterns if isinstance(patterns, list) else [patterns]:
        if pattern.startswith("E@"):
            if re.search(pattern[2:], path):
                return True
        elif fnmatch.fnmatch(path, pattern):
            return True
    return False


def _same(path: str, announced: Mapping[str, Any]) -> bool:
    try:
        found = digest(path, str(announced.get("hash_type") or "sha256"))
        return found == str(announced["hsum"])
    except (OSError, ValueError):
        return False


_KINDS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}


def _has_hash(path: str, source_hash: str) -> bool:
    wanted_sum = source_hash.split("=")[-1].strip().lower()
    kind = _KINDS.get(len(wanted_sum))
    if kind is None or not os.path.isfile(path):
        return False
    return _same(path, {"hsum": wanted_sum, "hash_type": kind})


def _content(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


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
