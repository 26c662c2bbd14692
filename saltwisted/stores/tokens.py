"""
The login tokens of a lone master: one file for each in C{cachedir/tokens}, named by its digest.

Salt names the files by the tokens themselves, so that a listing of the directory is enough to log
in; here neither the names nor the contents are. Files that stock Salt left there are not touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.domain.eauth import Token
from saltwisted.errors import StoreError
from saltwisted.stores import files
from saltwisted.wire.msgpack import pack, unpack

_NAME = re.compile(r"[0-9a-f]{64}\.token")
LARGEST = 1 << 20
LOOKED_AT = 20
"""Tokens that are looked at, whether they have expired, with each new one."""


class TokenFiles:
    """All tokens in memory, and each in a file (0600) before anybody gets it."""

    log = Logger()

    def __init__(
        self, folder: str, run: Callable[..., Deferred[Any]], now: Callable[[], float]
    ) -> None:
        """
        @param run: calls in a thread.
        """
        self._folder = folder
        self._run = run
        self.now = now
        self.epoch = 0
        self._tokens: dict[str, Token] = {}

    def startService(self) -> None:
        """
        Read the directory.

        @raises StoreError: the directory cannot be created.
        """
        files.make_dir(self._folder)
        files.sweep_temporary(self._folder)
        try:
            names = [name for name in os.listdir(self._folder) if _NAME.fullmatch(name)]
        except OSError as error:
            raise files.store_error(error, self._folder) from error
        for name in names:
            path = os.path.join(self._folder, name)
            try:
                self._tokens[name[:64]] = read(unpack(files.read_file(path, LARGEST) or b""))
            except Exception as error:
                self.log.warn(
                    "{path} is not a token, and is ignored ({error})", path=path, error=error
                )

    def stopService(self) -> None:
        """Nothing waits to be written."""

    async def fresh(self) -> None:
        """Nobody else changes the tokens that are known here."""

    def get(self, digest: str) -> Token | None:
        """A token that was made and not deleted; it may have expired."""
        return self._tokens.get(digest)

    def items(self) -> Iterator[tuple[str, Token]]:
        """All of them."""
        return iter(list(self._tokens.items()))

    async def put(self, digest: str, token: Token) -> None:
        """
        Keep a new one; on disk when this returns.

        @raises StoreError: the disk refused.
        """
        data = pack(token.plain())
        await self._run(files.write_atomic, self._path(digest), data, 0o600)
        self._tokens[digest] = token
        for old in self._some_ended():
            await self.drop(old)

    def _some_ended(self) -> list[str]:
        """
        What has expired of those that were looked at longest ago: however many there are, all are
        looked at in turn, and few at a time.
        """
        now, ended = self.now(), []
        for digest in list(islice(self._tokens, LOOKED_AT)):
            if self._tokens[digest].alive(now):
                self._tokens[digest] = self._tokens.pop(digest)
            else:
                ended.append(digest)
        return ended

    async def drop(self, digest: str) -> bool:
        """
        Delete one; returns whether it existed.

        @raises StoreError: the disk refused; the token is not accepted any more until a restart.
        """
        if self._tokens.pop(digest, None) is None:
            return False
        await self._run(files.remove, self._path(digest))
        return True

    def _path(self, digest: str) -> str:
        return os.path.join(self._folder, f"{digest}.token")


def read(data: Any) -> Token:
    """
    The reverse of L{Token.plain}.

    @raises StoreError: it is none.
    """
    if not isinstance(data, Mapping):
        raise StoreError("not a token")
    try:
        rules = data["rules"]
        return Token(
            name=str(data["name"]),
            eauth=str(data["eauth"]),
            start=float(data["start"]),
            expire=float(data["expire"]),
            groups=tuple(str(group) for group in data["groups"]),
            rules=None if rules is None else list(rules),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError("not a token") from error
