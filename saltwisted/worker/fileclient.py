"""
C{__fileclient__}: files from the master, from C{file_roots}, or from the web, in the cache.

The methods, their arguments and their results are those of stock's C{salt/fileclient.py}, on which
C{cp}, C{file} and the state compiler are built. L{saltwisted.worker.filequestions} has the requests
to the server, L{saltwisted.worker.filecache} the copies.

Three things are stricter than in stock: a file is written completely or not at all; received data
is compared with the digest that the master named; and no name from outside (a path, an environment,
a URL) leads out of the cache.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import re
import shutil
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.worker import templates
from saltwisted.worker.exceptions import CommandExecutionError, MinionError, SaltRenderError
from saltwisted.worker.filecache import (
    FileCache,
    Replacement,
    has_hash,
    inside,
    is_same,
    make_private,
)
from saltwisted.worker.filequestions import FileQuestions, Source, create_url, download, parse_url
from saltwisted.worker.localroots import LocalRoots

log = logging.getLogger(__name__)

TRIES = 3
"""How often a file is fetched when what came is not what the master announced."""


class FileClient(FileQuestions):
    """
    Files for one minion: what the server says about them, and copies of them.

    @param opts: its options.
    @param source: answers the requests.
    @param local: whether the source is on this machine.
    @param render: renders a template, C{render(text, engine, context)}; for L{get_template}.
    @param utils: stock's utility functions, for C{s3://} and the like.
    @ivar cache: where copies are.
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
        super().__init__(opts, source)
        self.local = local
        self.cache = FileCache(opts)
        self._render = render
        self._utils = utils

    # -- the cache

    def get_cachedir(self, cachedir: str | None = None) -> str:
        """The cache directory; a relative one is under the minion's."""
        return self.cache.folder(cachedir)

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
        folder, senv = _salt_path(path)
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
                place = self.cache.place(name, saltenv, cachedir)
                if name.startswith(folder) and place is not None:
                    os.makedirs(place, mode=0o700, exist_ok=True)
                    copies.append(place)
        return copies

    def cache_local_file(self, path: str, **kwargs: Any) -> str:
        """Copy a file of this machine into C{localfiles} of the cache."""
        place = self.cache.local_place(path)
        if place is None:
            raise CommandExecutionError(f"Invalid path '{path}'")
        make_private(os.path.dirname(place))
        with Replacement(place, private=True) as target, open(path, "rb") as source:
            while chunk := source.read(1 << 20):
                target.write(chunk)
        return place

    def file_local_list(self, saltenv: str = "base") -> list[str]:
        """Every file in the cache of an environment and in C{localfiles}."""
        return self.cache.copies(saltenv)

    def is_cached(self, path: str, saltenv: str = "base", cachedir: str | None = None) -> str:
        """The path of a copy in the cache, or C{""}; nothing is fetched."""
        return self.cache.find(path, saltenv, cachedir)

    def cache_dest(self, url: str, saltenv: str = "base", cachedir: str | None = None) -> str:
        """Where the copy of an address is or would be."""
        return self.cache.dest(url, saltenv, cachedir)

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
        relative, senv = _salt_path(path)
        saltenv = senv or saltenv
        announced = self.hash_file(create_url(relative), saltenv)
        if not announced or not isinstance(announced, dict):
            log.debug("Could not find file '%s' in saltenv '%s'", path, saltenv)
            return False
        if dest and (os.path.isdir(dest) or dest.endswith("/")):
            dest = os.path.join(dest, os.path.basename(relative))
        in_cache = not dest
        target = dest or self.cache.place(relative.lstrip("|"), saltenv, cachedir)
        if target is None:
            log.error("The path '%s' in saltenv '%s' points outside the cache", relative, saltenv)
            return False
        if os.path.isfile(target) and is_same(target, announced):
            return target
        if in_cache:
            if os.path.isdir(target):
                shutil.rmtree(target)
            make_private(os.path.dirname(target))
        elif not os.path.isdir(os.path.dirname(target)):
            if not makedirs:
                return False
            os.makedirs(os.path.dirname(target), exist_ok=True)
        for attempt in range(1, TRIES + 1):
            kind = str(announced.get("hash_type") or "sha256")
            with Replacement(target, private=in_cache) as out:
                found = download(self._source, relative, saltenv, gzip, out.write, kind)
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

    def get_dir(
        self,
        path: str,
        dest: str = "",
        saltenv: str = "base",
        gzip: Any = None,
        cachedir: str | None = None,
    ) -> list[Any]:
        """Fetch a directory, with its empty directories, under C{dest}; what was made, sorted."""
        folder, senv = _salt_path(path)
        saltenv = senv or saltenv
        folder = folder.rstrip("/")
        parent = folder.rpartition("/")[0]
        made: list[Any] = []
        for name in self.file_list(saltenv, prefix=folder):
            target = _under(dest, name, folder, parent)
            if target is not None:
                made.append(self.get_file(create_url(name), target, True, saltenv, gzip))
        for name in self.file_list_emptydirs(saltenv, prefix=folder):
            target = _under(dest, name, folder, parent)
            if target is not None:
                os.makedirs(target, exist_ok=True)
                made.append(target)
        return sorted(made, key=str)

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
            from saltwisted.worker.webfiles import fetch_by_utility

            target = dest or self.cache.web_place(url, saltenv, cachedir)
            return fetch_by_utility(self.opts, self._utils, url, target)
        from saltwisted.worker.webfiles import fetch_content, fetch_file

        if not dest and no_cache:
            return fetch_content(self.opts, url, verify_ssl)
        target = dest or self.cache.web_place(url, saltenv, cachedir)
        if target is None:
            raise MinionError(f"Invalid path in {parts.scheme} address")
        in_cache = not dest
        if in_cache:
            if source_hash is not None and has_hash(target, source_hash):
                return target
            make_private(os.path.dirname(target))
        elif not os.path.isdir(os.path.dirname(target)):
            if not makedirs:
                return ""
            os.makedirs(os.path.dirname(target), exist_ok=True)
        fetch_file(self.opts, url, target, in_cache, verify_ssl, use_etag)
        return _content(target) if dest is None else target

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

        @return: its path; C{""} when there is no such file or no such engine.
        @raises SaltRenderError: the template is wrong.
        """
        kwargs.pop("env", None)
        kwargs.update(kwargs.pop("context", None) or {})
        source = self.cache_file(url, saltenv, cachedir=cachedir)
        if not source or not os.path.exists(source):
            return ""
        if self._render is None or not templates.known(template):
            log.error("Attempted to render template with unavailable engine %s", template)
            return ""
        try:
            with open(source, encoding="utf-8") as stream:
                text = self._render(stream.read(), template, {**kwargs, "saltenv": saltenv})
        except SaltRenderError:
            raise
        except Exception as error:
            log.error("Failed to render template with error: %s", error)
            return ""
        target = dest or self.cache.web_place(url, saltenv, cachedir)
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
    served: Source | None = None,
) -> FileClient:
    """
    The client that C{file_client} of the options asks for.

    @param served: who answers where that is more than the directories of this machine.
    """
    if render is None:
        render = templates.render_text
    if opts.get("file_client") == "local":
        source: Source = served if served is not None else LocalRoots(opts)
        return FileClient(opts, source, local=True, render=render, utils=utils)
    return FileClient(opts, master, render=render, utils=utils)


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


def _salt_path(url: str) -> tuple[str, str | None]:
    if not url.startswith("salt://"):
        raise MinionError(f"Unsupported path: {url}")
    return parse_url(url)


def _under(dest: str, name: str, folder: str, parent: str) -> str | None:
    """Where a name of the server's list goes; C{None} if it is of another directory."""
    if not name.startswith(folder + "/") and folder:
        return None
    relative = name[len(parent) :].lstrip("/")
    if inside("/x", relative) is None:
        return None
    return f"{dest}/{relative}"


def _content(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()
