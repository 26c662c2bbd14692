"""
What a minion's network half keeps on disk: the master's key, and which jobs it has seen.

All files are tiny. L{MasterKeyFile} is Salt's C{minion_master.pub}. L{SeenFile} has no counterpart
in Salt: it is an append-only text with one line per job, which is rewritten when it has grown to
twice the size of what is remembered. Calls take some tens of microseconds and are made in the
reactor thread unless stated otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from twisted.logger import Logger

from saltwisted.domain.replica.tokens import Token, parse
from saltwisted.errors import StoreError, WireError
from saltwisted.stores.files import make_dir, read_file, remove, store_error, write_atomic
from saltwisted.wire.rsa import PublicKey


class MasterKeyFile:
    """
    The remembered key of the master: C{pki_dir/minion_master.pub}.

    The file is checked again each time it is needed, so an administrator can remove it without a
    restart.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def known(self) -> PublicKey | None:
        """
        The key, or C{None} when none is remembered.

        @raises StoreError: the file is there, but is not a usable key. Trusting a new key
            instead would be a mistake.
        """
        data = read_file(self.path, 65536)
        if data is None or not data.strip():
            return None
        try:
            return PublicKey.from_pem(data)
        except WireError as error:
            raise StoreError(f"is not a usable public key ({error.reason})", self.path) from error

    def remember(self, key: PublicKey) -> None:
        """
        Keep this key from now on. Waits for the disk: call it in a thread.

        @raises StoreError: it could not be written.
        """
        make_dir(os.path.dirname(self.path))
        write_atomic(self.path, key.pem.encode("ascii"), 0o644)


class MastersFile:
    """The masters that a cluster has named to us, one per line."""

    log = Logger()

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> list[str]:
        """What was saved last; nothing when that cannot be read."""
        try:
            data = read_file(self.path, 65536)
        except StoreError as error:
            self.log.warn("the list of known masters cannot be read: {error}", error=error)
            return []
        return (data or b"").decode("utf-8", "replace").split()

    def save(self, names: Sequence[str]) -> None:
        """
        Remember these. Does not wait for the disk.

        @raises StoreError: it refuses.
        """
        make_dir(os.path.dirname(self.path))
        write_atomic(self.path, "".join(f"{name}\n" for name in names).encode(), sync=False)


class TokenFile:
    """
    The join token that an operator gave this minion: C{pki_dir/join.token}, until it has been used.

    It is read again at each sign-in, like L{MasterKeyFile}.
    """

    log = Logger()

    def __init__(self, path: str) -> None:
        self.path = path

    def held(self) -> Token | None:
        """The token; one that cannot be read is none."""
        try:
            data = read_file(self.path, 8192)
            return parse(data.decode("ascii", "replace")) if data else None
        except (StoreError, WireError) as error:
            self.log.error("{path} is not a join token: {error}", path=self.path, error=str(error))
            return None

    def keep(self, line: str) -> None:
        """
        Keep a token.

        @raises StoreError: the disk refuses.
        """
        make_dir(os.path.dirname(self.path))
        write_atomic(self.path, f"{line}\n".encode("ascii"), 0o600)

    def done(self) -> None:
        """This minion is known to the cluster. Waits for the disk."""
        try:
            remove(self.path, sync=True)
        except StoreError as error:
            self.log.warn("a used token could not be removed: {error}", error=str(error))


class SeenFile:
    """Lines that survive a restart, for L{saltwisted.minion.subscriber.Seen}."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    def load(self) -> list[str]:
        """
        All lines, oldest first. A last line that was cut by a crash is left out.

        @raises StoreError: the file cannot be read.
        """
        data = read_file(self.path, 64 * 1024 * 1024)
        if not data:
            return []
        text = data.decode("utf-8", "replace")
        return text[: text.rfind("\n") + 1].splitlines()

    def append(self, line: str) -> None:
        """
        Add a line; when this returns, a kill of the process does not lose it.

        @raises StoreError: full or broken disk.
        """
        try:
            if self._fd < 0:
                make_dir(os.path.dirname(self.path))
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                self._fd = os.open(self.path, flags, 0o600)
            os.write(self._fd, f"{line}\n".encode())
        except OSError as error:
            raise store_error(error, self.path) from error

    def replace(self, lines: list[str]) -> None:
        """
        Start over with these lines.

        @raises StoreError: nothing has changed then.
        """
        make_dir(os.path.dirname(self.path))
        self.close()
        write_atomic(self.path, "".join(f"{line}\n" for line in lines).encode(), sync=False)

    def close(self) -> None:
        """Let go of the file. Idempotent; the next L{append} opens it again."""
        if self._fd >= 0:
            with suppress(OSError):
                os.close(self._fd)
            self._fd = -1
