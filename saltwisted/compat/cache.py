"""
C{salt.cache}: what modules keep between jobs, in banks of keys.

The driver is C{localfs}, files below C{cachedir} as Salt writes them, or, by the option C{cache} or
the argument C{driver}, one of the site's or of an extension.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from saltwisted.compat import payload
from saltwisted.worker.exceptions import SaltCacheError

_ENVELOPE = {"data", "_expires"}
"""What is kept around a value that expires, where the driver knows nothing of that."""
LOCAL = "localfs"


def factory(opts: Mapping[str, Any], **kwargs: Any) -> Cache:
    """A cache; one in memory before it, as stock offers, would not outlive the job here."""
    return Cache(opts, **kwargs)


class Cache:
    """
    Banks, keys in them, and values that msgpack can write.

    @param cachedir: where C{localfs} has its files, if not where the options say.
    @param kwargs: C{driver}, and what a driver of the site takes.
    """

    def __init__(self, opts: Mapping[str, Any], cachedir: str | None = None, **kwargs: Any) -> None:
        self.opts = opts
        self.driver = str(kwargs.get("driver") or opts.get("cache") or LOCAL)
        self.cachedir = str(cachedir or opts.get("cachedir") or "/var/cache/salt/minion")
        self._given = {**kwargs, "cachedir": self.cachedir}
        self._functions: Any = None
        self._kwargs: dict[str, Any] = {}

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *args: object) -> None:
        self.destroy()

    def destroy(self) -> None:
        """Nothing is left open between two calls."""

    @property
    def modules(self) -> Any:
        """The functions of all drivers, as C{"driver.function"}."""
        if self._functions is None:
            if self.driver == LOCAL:
                files = _Files(self.cachedir)
                self._functions = {
                    f"{LOCAL}.{name}": getattr(files, name)
                    for name in ("store", "fetch", "updated", "flush", "list", "contains")
                }
            else:
                from saltwisted.worker.process.loader import Loaders

                self._functions = Loaders(self.opts)["cache"]
                init = f"{self.driver}.init_kwargs"
                if init in self._functions:
                    self._kwargs = dict(self._functions[init](self._given))
        return self._functions

    def _ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        function = self.modules[f"{self.driver}.{name}"]
        return function(*args, **kwargs, **self._kwargs)

    def cache(
        self,
        bank: str,
        key: str,
        fun: Callable[..., Any],
        loop_fun: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """
        What is kept, unless it is older than C{expire} seconds (a day); then what a function says.

        @param loop_fun: called with each thing of the function's list; its answers are kept.
        """
        written = self.updated(bank, key)
        fresh = written is not None and int(time.time()) - written <= kwargs.get("expire", 86400)
        data = self.fetch(bank, key)
        if data and fresh:
            return data
        data = fun(**kwargs)
        if loop_fun is not None:
            data = [loop_fun(item) for item in data]
        self.store(bank, key, data)
        return data

    def store(self, bank: str, key: str, data: Any, expires: float | None = None) -> Any:
        """
        Keep a value.

        @param expires: seconds after which it is no longer told.
        """
        try:
            return self._ask("store", bank, key, data, expires=expires)
        except TypeError:
            if expires:
                data = {"data": data, "_expires": int(time.time() + expires)}
            return self._ask("store", bank, key, data)

    def fetch(self, bank: str, key: str) -> Any:
        """What is kept; an empty map if nothing is, or if it has expired."""
        found = self._ask("fetch", bank, key)
        if isinstance(found, dict) and set(found) == _ENVELOPE:
            return found["data"] if found["_expires"] > time.time() else {}
        return found

    def updated(self, bank: str, key: str) -> Any:
        """When it was kept, in seconds since 1970; C{None}: it is not."""
        return self._ask("updated", bank, key)

    def flush(self, bank: str, key: str | None = None) -> Any:
        """Forget a key, or a bank with all that is in it."""
        return self._ask("flush", bank, key=key)

    def list(self, bank: str) -> Any:
        """The keys and banks in a bank."""
        return self._ask("list", bank)

    def contains(self, bank: str, key: str | None = None) -> Any:
        """Whether there is a key, or a bank."""
        return self._ask("contains", bank, key)

    def clean_expired(self, bank: str, *args: Any, **kwargs: Any) -> None:
        """Forget what has expired."""
        if f"{self.driver}.clean_expired" in self.modules:
            self._ask("clean_expired", bank, *args, **kwargs)
            return
        for key in self.list(bank):
            found = self._ask("fetch", bank, key)
            expires = isinstance(found, dict) and set(found) == _ENVELOPE
            if expires and found["_expires"] <= time.time():
                self.flush(bank, key)


@contextmanager
def _said(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SaltCacheError(f"There was an error {what}: {error}") from error


class _Files:
    """One file for each key, below a directory for each bank."""

    def __init__(self, base: str) -> None:
        self._base = base

    def _bank(self, bank: str) -> str:
        inside = os.path.normpath(bank)
        if os.path.isabs(inside) or inside.split(os.sep)[0] == os.pardir:
            raise SaltCacheError(f"The bank {bank} is outside of the cache")
        return os.path.join(self._base, inside)

    def _file(self, bank: str, key: str) -> str:
        if "/" in str(key) or "\0" in str(key):
            raise SaltCacheError(f"The key {key} is no name of a file")
        return os.path.join(self._bank(bank), f"{key}.p")

    def store(self, bank: str, key: str, data: Any) -> None:
        folder, path = self._bank(bank), self._file(bank, key)
        with _said(f"writing the cache file, {folder}"):
            os.makedirs(folder, exist_ok=True)
            number, name = tempfile.mkstemp(dir=folder)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(payload.dumps(data, use_bin_type=True))
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                raise

    def fetch(self, bank: str, key: str) -> Any:
        path = self._file(bank, key)
        with _said(f'reading the cache file "{path}"'):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    return payload.load(file)
            whole = self._bank(bank) + ".p"
            if not os.path.isfile(whole):
                return {}
            with open(whole, "rb") as file:
                return payload.load(file)[key]

    def updated(self, bank: str, key: str) -> int | None:
        path = self._file(bank, key)
        with _said(f'reading the mtime for "{path}"'):
            return int(os.path.getmtime(path)) if os.path.isfile(path) else None

    def flush(self, bank: str, key: str | None = None) -> bool:
        path = self._bank(bank) if key is None else self._file(bank, key)
        with _said(f'removing "{path}"'):
            if key is None and os.path.isdir(path):
                shutil.rmtree(path)
            elif key is not None and os.path.isfile(path):
                os.remove(path)
            else:
                return False
        return True

    def list(self, bank: str) -> list[str]:
        folder = self._bank(bank)
        with _said(f'accessing directory "{folder}"'):
            names = os.listdir(folder) if os.path.isdir(folder) else []
        return [name.removesuffix(".p") for name in names]

    def contains(self, bank: str, key: str | None) -> bool:
        if key is None:
            return os.path.isdir(self._bank(bank))
        return os.path.isfile(self._file(bank, key))
