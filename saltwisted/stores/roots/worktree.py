"""
The working tree of a share, which people edit. It is read by scanning and written by exchanging
files.

The directory itself is in L{saltwisted.stores.roots.treeroot}, scanning it in
L{saltwisted.stores.roots.treeread}, writing to it in L{saltwisted.stores.roots.treewrite}, and
displaced files are in L{saltwisted.stores.roots.displaced}. Everything here blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from saltwisted.domain.roots.guards import (
    Limits,
)
from saltwisted.stores.progress import Progress
from saltwisted.stores.roots.displaced import Displaced
from saltwisted.stores.roots.filework import Helper
from saltwisted.stores.roots.sites import Sites
from saltwisted.stores.roots.treeread import TreeReader
from saltwisted.stores.roots.treeroot import TreeRoot
from saltwisted.stores.roots.treewrite import TreeWriter


class WorkTree(TreeRoot):
    """
    One root directory that people edit.

    @param helper: reads and creates many small files in another process.
    @ivar reader: scans it.
    @ivar writer: writes to it.
    @ivar displaced: displaced files.
    """

    def __init__(
        self,
        path: str,
        share: str,
        limits: Limits,
        now_ns: Callable[[], int],
        extra_rules: tuple[bytes, ...] = (),
        trash: str = "",
        helper: Helper | None = None,
    ) -> None:
        super().__init__(path, share, extra_rules, trash)
        self.limits = limits
        self.progress = Progress()
        token = os.urandom(4).hex().encode()
        sites = Sites(path, token, self.progress, helper)
        self.reader = TreeReader(self, limits, now_ns, self.progress, sites, helper)
        self.displaced = Displaced(self, now_ns)
        self.writer = TreeWriter(self, self.reader, self.displaced, sites, self.progress, token)
