"""
Which share, path or version an operation on the roots means.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from saltwisted.cluster.roots.share import RootShare
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots.entry import ReplicaId, Version
from saltwisted.domain.roots.guards import check_path
from saltwisted.errors import StoreError


class RootChoice:
    """Finds by arguments among the roots of this node."""

    def __init__(self, sync: RootSync) -> None:
        self._sync = sync

    def shares(self, args: Mapping[str, Any]) -> list[RootShare]:
        """
        The named share, or all.

        @raises StoreError: the share does not exist.
        """
        name = str(args.get("share") or "")
        if not name:
            return list(self._sync.shares.values())
        found = [s for n, s in self._sync.shares.items() if n == name or s.root == name]
        if not found:
            known = ", ".join(self._sync.shares) or "none"
            raise StoreError(f"no such share; there are: {known}", name)
        return found

    def holding(self, args: Mapping[str, Any], path: bytes) -> list[tuple[RootShare, bytes]]:
        """Shares that know a path, which may be relative to a root or absolute."""
        found = []
        why = "is in no share"
        for share in self.shares(args):
            rel = path
            if path.startswith(b"/"):
                top = os.fsencode(share.root) + b"/"
                if not path.startswith(top):
                    continue
                rel = path[len(top) :]
            check_path(rel)
            store = share.store
            if store is None:
                continue
            lost = any(one[0] == rel for one in store.conflicts.all())
            if lost or rel in store.index.rows or store.generation.get(rel) is not None:
                found.append((share, rel))
            else:
                why = share.look.why_not(rel) or why
        if not found:
            raise StoreError(why, os.fsdecode(path))
        return found

    def lost(self, args: Mapping[str, Any]) -> tuple[RootShare, bytes, Version]:
        """
        A version that lost a conflict, by its path and the beginning of its name.

        @raises StoreError: there is none.
        """
        path = os.fsencode(str(args.get("path") or ""))
        wanted = str(args.get("version") or "")
        for share, rel in self.holding(args, path):
            store = share.store
            for one, version, _, _ in reversed(store.conflicts.all() if store else []):
                if one == rel and name_of_dot(version.dot).startswith(wanted):
                    return share, rel, version
        raise StoreError("has no such lost version", os.fsdecode(path))


def name_of_dot(dot: Dot[ReplicaId]) -> str:
    """A version as operators name it."""
    return f"{dot.source.master}:{dot.source.incarnation.hex()[:8]}:{dot.number}"
