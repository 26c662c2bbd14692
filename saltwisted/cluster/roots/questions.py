"""
Questions about roots that change nothing.

Each answer is plain data; L{saltwisted.cli.roots} displays it.
"""

from __future__ import annotations

import base64
import os
import pwd
from typing import Any

from saltwisted.cluster.roots.choice import RootChoice, name_of_dot
from saltwisted.cluster.roots.share import RootShare
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.domain.causality.clock import stamp_seconds
from saltwisted.domain.operations.table import Call
from saltwisted.domain.replica.membership import RIGHTS
from saltwisted.domain.roots.entry import DIR, FILE, LINK, TreeEntry, Version
from saltwisted.domain.roots.manifest import name_of
from saltwisted.errors import StoreError

SHOWN = 64 * 1024
"""Bytes of a lost version that C{show} gives."""


def _me() -> str:
    """Whom this daemon runs as: who needs the right to read and write the roots."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


class RootQuestions:
    """The operations that only read."""

    def __init__(self, sync: RootSync, chosen: RootChoice) -> None:
        self._sync = sync
        self._chosen = chosen
        self._user = _me()

    async def status(self, call: Call) -> Any:
        """Report everything about the shares of this node, and its peers."""
        sync = self._sync
        return {
            "node": sync.host.node,
            "generation": sync.report.name,
            "pillar": sync.report.pillar_name,
            "ready": sync.report.ready,
            "state": sync.report.members_state(),
            "clock": sync.clocks.problem,
            "rights": [right for right in RIGHTS if sync.host.may(sync.host.node, right)],
            "shares": {share.name: self._share(share) for share in self._chosen.shares(call.args)},
            "left_out": dict(sync.left_out),
            "peers": sync.report.peers(),
        }

    def _share(self, share: RootShare) -> dict[str, Any]:
        generation = share.generation
        files, size = generation.counts() if generation is not None else (0, 0)
        store = share.store
        return {
            "root": share.root,
            "user": self._user,
            "generation": generation.name if generation is not None else "",
            "number": generation.number if generation is not None else 0,
            "at": generation.at if generation is not None else 0,
            "files": files,
            "bytes": size,
            "ready": share.ready,
            "suspended": share.core.suspended,
            "pending": 0 if share.is_settled else 1,
            "held": len(share.core.held),
            "held_from": dict(share.inbox.held_remote),
            "conflicts": store.conflicts.open if store is not None else 0,
            "skipped": {os.fsdecode(p): why for p, why in list(share.look.skipped.items())[:100]},
            "skipped_count": len(share.look.skipped),
            "unread": {os.fsdecode(p): why for p, why in list(share.look.unread.items())[:100]},
            "unread_count": len(share.look.unread),
            "kept": sorted(os.fsdecode(path) for path in share.writes.kept)[:100],
            "failed": {os.fsdecode(p): why for p, why in list(share.writes.failed.items())[:100]},
            "overflows": share.watch.events.overflows,
            "scan_seconds": round(share.look.scan_seconds, 3),
            "error": share.core.last_error,
            "hot": {os.fsdecode(p): pause for p, pause in share.care.pauses().items()},
            "rotten": sorted(os.fsdecode(path) for path in share.care.rotten)[:100],
            "damaged": sorted(digest.hex()[:12] for digest in share.catchup.damaged)[:100],
            "damaged_count": len(share.catchup.damaged),
            "alarm": self._sync.alarms.get(share.name, ""),
        }

    async def generations(self, call: Call) -> Any:
        """List the generations that are kept, newest first."""
        most = int(call.args.get("most") or 20)
        found: list[dict[str, Any]] = []
        for share in self._chosen.shares(call.args):
            if share.store is None:
                continue
            for one in share.store.history.newest(most):
                found.append(
                    {
                        "share": share.name,
                        "generation": name_of(one.digest),
                        "number": one.number,
                        "at": one.at,
                        "origin": one.origin,
                        "note": one.note,
                        "files": one.files,
                        "bytes": one.size,
                    }
                )
        return sorted(found, key=lambda one: -float(one["at"]))[:most]

    async def diff(self, call: Call) -> Any:
        """Report what changed since a generation, or what a peer does not have yet."""
        name, peer = call.args.get("generation") or "", call.args.get("peer")
        peer = peer if isinstance(peer, str) else ""
        found = []
        for share in self._chosen.shares(call.args):
            store = share.store
            if store is None:
                continue
            if peer:
                found += self._diff_peer(share, peer)
                continue
            try:
                number = store.history.find(name).number if name else store.generation.number - 1
                changed = await self._sync.host.pool(store.history.difference, number)
            except StoreError:
                if name and len(self._sync.shares) > 1:
                    continue
                raise
            for path, (then, today) in changed.items():
                found.append(
                    {
                        "share": share.name,
                        "path": os.fsdecode(path),
                        "change": _change(then, today),
                        "then": _entry(then),
                        "now": _entry(today),
                    }
                )
        return found

    def _diff_peer(self, share: RootShare, peer: str) -> list[dict[str, Any]]:
        links = [link for link in self._sync.streams.of(share.name) if link.node == peer]
        if not links:
            raise StoreError("there is no link to this node now", peer)
        theirs = links[0].peer.knowledge[share.name]
        store = share.store
        if store is None:
            return []
        return [
            {
                "share": share.name,
                "path": os.fsdecode(path),
                "change": "not there yet",
                "then": None,
                "now": _entry(row[0].entry),
            }
            for path, row in sorted(store.index.rows.items())
            if row and row[0].dot.number > theirs.get(row[0].dot.source, 0)
        ]

    async def trace(self, call: Call) -> Any:
        """Report where a path comes from, and which masters have it."""
        path = os.fsencode(str(call.args.get("path") or ""))
        found = []
        for share, rel in self._chosen.holding(call.args, path):
            store = share.store
            if store is None:
                continue
            links = self._sync.streams.of(share.name)
            for number, version in enumerate(store.index.rows.get(rel, ())):
                found.append(
                    {
                        "share": share.name,
                        "path": os.fsdecode(rel),
                        "visible": number == 0,
                        **_version(version),
                        "on": [
                            self._sync.host.node,
                            *(
                                link.node
                                for link in links
                                if link.peer.knowledge[share.name].get(version.dot.source, 0)
                                >= version.dot.number
                            ),
                        ],
                        "known_to": len(links) + 1,
                    }
                )
        return found

    async def conflicts(self, call: Call) -> Any:
        """List versions that lost against a version that had not seen them."""
        found = []
        for share in self._chosen.shares(call.args):
            store = share.store
            if store is None:
                continue
            for path, version, at, state in store.conflicts.all():
                shown = store.generation.get(path)
                same = shown is not None and shown.same_content(version.entry)
                if (state == "settled" or same) and not call.args.get("all"):
                    continue
                found.append(
                    {
                        "share": share.name,
                        "path": os.fsdecode(path),
                        "state": state,
                        "noticed": at,
                        **_version(version),
                        "visible": _entry(shown),
                    }
                )
        return found

    async def show(self, call: Call) -> Any:
        """Give the contents of a lost version."""
        share, path, version = self._chosen.lost(call.args)
        store = share.store
        if store is None:
            raise StoreError("the store is not open", share.name)
        content = b""
        if version.entry.kind == FILE:
            content = await self._sync.host.pool(
                store.objects.read, version.entry.content, 0, SHOWN
            )
        elif version.entry.kind == LINK:
            content = version.entry.content
        return {
            "share": share.name,
            "path": os.fsdecode(path),
            **_version(version),
            "content": base64.b64encode(content).decode(),
            "whole": len(content) >= version.entry.size,
        }

    async def dry(self, call: Call) -> Any:
        """Report what a scan of the working trees would commit now."""
        found = []
        for share in self._chosen.shares(call.args):
            for path, before, after in await share.preview():
                found.append(
                    {
                        "share": share.name,
                        "path": os.fsdecode(path),
                        "change": _change(before, after),
                        "then": _entry(before),
                        "now": _entry(after),
                    }
                )
        return found


def _entry(entry: TreeEntry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    kinds = {FILE: "file", DIR: "directory", LINK: "link"}
    shown: dict[str, Any] = {"kind": kinds.get(entry.kind, "gone")}
    if entry.kind in (FILE, DIR):
        shown["mode"] = f"{entry.mode:04o}"
    if entry.kind == FILE:
        shown.update(size=entry.size, sha256=entry.content.hex(), mtime=entry.mtime / 1e9)
    elif entry.kind == LINK:
        shown["target"] = os.fsdecode(entry.content)
    return shown


def _version(version: Version) -> dict[str, Any]:
    return {
        "version": name_of_dot(version.dot),
        "master": version.dot.source.master,
        "written": stamp_seconds(version.stamp),
        "entry": _entry(version.entry),
    }


def _change(then: TreeEntry | None, now: TreeEntry | None) -> str:
    if then is None:
        return "added"
    if now is None:
        return "removed"
    if not then.same_content(now):
        return "changed"
    return "mode" if then.mode != now.mode else "time"
