"""
The site's rules that accept or reject a key without an operator.

C{auto_accept}, C{autosign_file}, C{autosign_grains_dir}, a file in C{minions_autosign}, and
C{autoreject_file} before all of them. Files that somebody else could write are not trusted. They
are read only when a minion signs in about which no operator has decided.
"""

from __future__ import annotations

import os
import stat

from twisted.logger import Logger

from saltwisted.config.options import MasterConfig
from saltwisted.domain.keys import IdLines, grains_match, may_be_trusted, signing_lines
from saltwisted.errors import StoreError
from saltwisted.interfaces import IVoucher
from saltwisted.stores import files
from saltwisted.stores.keys import KeyStore
from saltwisted.wire.commands import Auth

MAX_RULES = 4 * 1024 * 1024


class Autosign:
    """Says whether a rule accepts or rejects a key of this id."""

    log = Logger()

    def __init__(self, config: MasterConfig, keys: KeyStore, voucher: IVoucher) -> None:
        self._config = config
        self._keys = keys
        self._voucher = voucher
        self._read: dict[str, tuple[tuple[int, ...], IdLines]] = {}

    def _matches(self, minion_id: str, path: str | None) -> bool:
        """Whether a file means this minion. It is read again only where it has changed."""
        if not path:
            return False
        try:
            info = os.stat(path)
        except OSError:
            return False
        state = (info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino, info.st_mode,
                 info.st_gid, bool(self._config.permissive_pki_access))  # fmt: skip
        kept = self._read.get(path)
        if kept is None or kept[0] != state:
            kept = self._read[path] = state, IdLines(self._lines(path))
        return kept[1].match(minion_id)

    def _lines(self, path: str) -> tuple[str, ...]:
        try:
            info = os.stat(path)
        except OSError:
            return ()
        if not stat.S_ISREG(info.st_mode):
            return ()
        trusted = may_be_trusted(
            info.st_mode,
            info.st_gid,
            bool(self._config.permissive_pki_access),
            os.geteuid() == 0,
            os.getgroups(),
        )
        if not trusted:
            self.log.warn("Wrong permissions for {path}, ignoring content", path=path)
            return ()
        try:
            data = files.read_file(path, MAX_RULES)
        except StoreError as error:
            self.log.warn("{error}", error=error)
            return ()
        return signing_lines((data or b"").decode("utf-8", "replace"))

    def rejects(self, minion_id: str) -> bool:
        """Whether C{autoreject_file} names the id."""
        return self._matches(minion_id, self._config.autoreject_file)

    def accepts(self, auth: Auth, now: float) -> bool:
        """Whether any rule accepts the id, its token, or its C{autosign_grains}."""
        config, minion_id, grains = self._config, auth.id, auth.autosign_grains
        if config.auto_accept:
            return True
        if self._matches(minion_id, config.autosign_file):
            return True
        if self._voucher.pre_accepted(auth):
            return True
        minutes = float(config.autosign_timeout or 120)
        if self._keys.take_autosign(minion_id, now, minutes):
            return True
        folder = config.autosign_grains_dir
        if not folder or not isinstance(grains, dict) or not grains:
            return False
        # A stranger names as many grains as it likes; the files are the operator's
        try:
            names = [name for name in os.listdir(folder) if name in grains]
        except OSError:
            return False
        return grains_match(
            grains, {name: self._lines(os.path.join(folder, name)) for name in names}
        )
