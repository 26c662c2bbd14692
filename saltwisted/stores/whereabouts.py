"""
Where minions were, for the next start of their master: one file, C{cachedir/saltwisted/minions}.

Stock minions that stay connected over a restart send nothing, and need not name the address that
the master sees. Without this file they would be absent until they do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from twisted.logger import Logger

from saltwisted.domain.presence import Whereabouts, remembered, rows_of
from saltwisted.errors import StoreError, WireError
from saltwisted.stores import files
from saltwisted.wire.msgpack import pack_bin, unpack_bin

LARGEST = 64 * 1024 * 1024
"""Bytes of the file that are read."""


class WhereaboutsFile:
    """
    The file, 0600. It is a cache: one that is damaged or cannot be written is reported, and what it
    would have said is not known.
    """

    log = Logger()

    def __init__(self, cachedir: str) -> None:
        self._path = os.path.join(cachedir, "saltwisted", "minions")

    def read(self) -> dict[str, Whereabouts]:
        """What was written last, of each minion."""
        try:
            data = files.read_file(self._path, LARGEST)
            return remembered(unpack_bin(data)) if data else {}
        except (StoreError, WireError) as error:
            self.log.warn("{path} cannot be used: {error}", path=self._path, error=str(error))
            return {}

    def write(self, known: Mapping[str, Whereabouts]) -> None:
        """Write this. May block; any thread."""
        try:
            files.make_dir(os.path.dirname(self._path))
            # A power failure may take it
            files.write_atomic(self._path, pack_bin(rows_of(known)), sync=False)
        except StoreError as error:
            self.log.warn("{path} cannot be written: {error}", path=self._path, error=str(error))
