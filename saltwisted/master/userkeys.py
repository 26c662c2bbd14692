"""
The user keys of local clients on the request port: C{cachedir/.<user>_key}.

A process that can read a user's key file counts as that user, as in Salt: the stock C{salt} command
and similar programs send its contents. Our own commands use the control socket and need none of
this.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from base64 import b64encode
from collections.abc import Sequence
from hmac import compare_digest

from twisted.logger import Logger

from saltwisted.domain.acl import expr_match
from saltwisted.interfaces import Entropy
from saltwisted.stores import files

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
"""A name that may be part of a file's."""


class UserKeys:
    """Makes the key files at start, and compares what local clients send."""

    log = Logger()

    def __init__(
        self,
        cachedir: str,
        owner: str,
        acl: Sequence[str],
        entropy: Entropy,
        verify: bool = True,
    ) -> None:
        """
        @param owner: the master's user.
        @param acl: the names in C{publisher_acl}, which may be patterns.
        @param verify: C{client_acl_verify}: only users that this machine knows get a key, and
            also those that a pattern means.
        """
        self._keys: dict[str, str] = {}
        self._owner = owner or "root"
        users = [self._owner, *acl]
        if verify and any(name not in _known([name]) for name in acl):
            users += [user for user in _everybody() if any(expr_match(user, p) for p in acl)]
        for user in dict.fromkeys(users):
            key = self._load_or_make(cachedir, user, entropy, verify)
            if key:
                self._keys[user] = key

    def _load_or_make(self, cachedir: str, user: str, entropy: Entropy, verify: bool) -> str:
        uid = 0
        try:
            uid = pwd.getpwnam(user).pw_uid
        except KeyError:
            if verify or _NAME.fullmatch(user) is None:
                return ""
        path = os.path.join(cachedir, f".{user}_key")
        try:
            info = os.lstat(path)
            if stat.S_ISREG(info.st_mode) and info.st_mode & 0o077 == 0:
                old = files.read_file(path, 4096)
                if old and len(old) >= 32:
                    return old.decode("ascii", "replace").strip()
        except OSError:
            pass
        key = b64encode(entropy(48)).decode()
        files.write_atomic(path, key.encode(), 0o600)
        if os.geteuid() == 0 and uid != 0:
            os.chown(path, uid, -1)
        return key

    def user_of(self, key: str | None, claimed: str) -> tuple[str, bool] | None:
        """
        Whose key this is, or C{None}; all are compared, so that the time reveals nothing.

        @return: the name, and whether it is the master's own user or root, who may do everything.
            The key decides that, because C{sudo_ann} may also be somebody's account.
        """
        found = None
        given = (key or "").encode()
        for user, own in self._keys.items():
            if compare_digest(own.encode(), given):
                found = user
        if found is None:
            return None
        if found == self._owner and claimed.startswith("sudo_"):
            return claimed, True
        return found, found in (self._owner, "root")


def _known(users: Sequence[str]) -> set[str]:
    found = set()
    for user in users:
        try:
            found.add(pwd.getpwnam(user).pw_name)
        except KeyError:
            continue
    return found


def _everybody() -> list[str]:
    return [entry.pw_name for entry in pwd.getpwall()]
