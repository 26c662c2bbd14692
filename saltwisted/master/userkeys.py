"""
The user keys of local clients that come by the request port: C{cachedir/.<user>_key}.

Whoever can read a user's key file is that user, as in Salt: the stock C{salt}
command and its like send its content. Our own commands use the control socket
and need none of this.
"""

from __future__ import annotations

import os
import pwd
import stat
from base64 import b64encode
from hmac import compare_digest

from twisted.logger import Logger

from saltwisted.interfaces import Entropy
from saltwisted.stores import files


class UserKeys:
    """Makes the key files at start, and compares what local clients send."""

    log = Logger()

    def __init__(self, cachedir: str, users: list[str], entropy: Entropy) -> None:
        """
        @param users: the master's user and every name in C{publisher_acl} that exists.
        """
        self._keys: dict[str, str] = {}
        self._owner = users[0] if users else "root"
        for user in dict.fromkeys(users):
            key = self._load_or_make(cachedir, user, entropy)
            if key:
                self._keys[user] = key

    def _load_or_make(self, cachedir: str, user: str, entropy: Entropy) -> str:
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
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
        if os.geteuid() == 0 and entry.pw_uid != 0:
            os.chown(path, entry.pw_uid, -1)
        return key

    def user_of(self, key: str | None, claimed: str) -> str | None:
        """Whose key this is, or C{None}; all are compared, so that time tells nothing."""
        found = None
        given = (key or "").encode()
        for user, own in self._keys.items():
            if compare_digest(own.encode(), given):
                found = user
        if found is None:
            return None
        if found == self._owner and claimed.startswith("sudo_"):
            return claimed
        return found

    def is_owner(self, user: str) -> bool:
        """Whether this is the master's own user or root, who may do everything."""
        return user in (self._owner, "root") or user.startswith("sudo_")
