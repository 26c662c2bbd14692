"""
What may be asked about roots: their rows of the table of operations.

On the control socket they are the operation C{roots}, with the word under C{do}. Each answer is
plain data. All are for root and the master's own user alone. How answers are shown is in
L{saltwisted.cli.roots}.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.cluster.roots.share import RootShare
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.cluster.roots.written import RootWritten
from saltwisted.domain.operations.arguments import (
    FLAG,
    SECONDS,
    TEXT,
    WHOLE,
    Argument,
    Kind,
    one_of,
)
from saltwisted.domain.operations.table import Call, Handler, Operation, Stream, owner_only
from saltwisted.domain.replica.membership import RIGHTS, WRITE
from saltwisted.domain.roots.entry import DIR, FILE, LINK, Dot, Entry, Version, count_missing
from saltwisted.domain.roots.guards import check_path
from saltwisted.domain.roots.manifest import name_of
from saltwisted.domain.roots.stamps import seconds
from saltwisted.errors import DeniedError, RemoteError, SaltwistedError, StoreError
from saltwisted.stores.progress import Progress
from saltwisted.transports.deferreds import let_go
from saltwisted.words import counted

FAMILY = "roots"
"""The name under which the control socket asks for all of them, with C{do} for the word."""
BY_WORD = {FAMILY: ("do", "status")}
# Older commands send the option peer of the configuration, a map, where no node is named
PEER = Kind("text", lambda value: isinstance(value, (str, Mapping)))
MAY = owner_only("only root and the master's own user may ask about roots")
SHOWN = 64 * 1024
"""Bytes of a lost version that C{show} gives."""
TELL = 1.0
"""Seconds after which a waiting caller is told how far the work is, again and again."""
POLL = 0.05
"""Seconds after which it is looked again though nothing was heard."""
ASKING = 10.0
"""Seconds for which members are waited for that write their directories, ..."""
ASK_AGAIN = 0.5
"""... and after which one that cannot is asked again."""


class RootControl:
    """
    @param clock: the reactor.
    @param written: who asks the members whether their working trees are written.
    """

    log = Logger()

    def __init__(self, sync: RootSync, clock: Any, written: RootWritten | None = None) -> None:
        self._sync = sync
        self._written = written
        self._clock = clock
        self._exports: list[tuple[str, Progress]] = []

    def operations(self) -> list[Operation]:
        """The rows: C{roots.log} and so on."""
        path = Argument("path", TEXT, needed=True)
        generation, timeout = Argument("generation", TEXT), Argument("timeout", SECONDS)
        rows: list[tuple[str, Handler, tuple[Argument, ...]]] = [
            ("status", self.status, ()),
            ("log", self.generations, (Argument("most", WHOLE),)),
            ("diff", self.diff, (generation, Argument("peer", PEER))),
            ("trace", self.trace, (path,)),
            ("conflicts", self.conflicts, (Argument("all", FLAG),)),
            ("show", self.show, (path, Argument("version", TEXT))),
            ("resolve", self.resolve, (path, Argument("take", TEXT))),
            ("rollback", self.rollback, (generation,)),
            ("approve", self.approve, ()),
            ("adopt", self.adopt, (Argument("how", one_of("accept", "restore")),)),
            ("scan", self.scan, ()),
            ("settled", self.settled, (timeout,)),
            ("dry", self.dry, ()),
            ("sync", self.sync, (Argument("wait", FLAG), timeout)),
            ("export", self.export, (Argument("directory", TEXT, needed=True), generation)),
        ]
        return [
            Operation(
                name=f"{FAMILY}.{word}",
                right=MAY,
                handler=self._telling(handler),
                takes=(Argument("share", TEXT), *takes),
                streams=True,
            )
            for word, handler, takes in rows
        ]

    def _telling(self, handler: Handler) -> Handler:
        """The same, which tells who waits how far it is, and errors in the words of the roots."""

        @wraps(handler)
        async def run(call: Call) -> Any:
            telling = LoopingCall(self._tell, call.stream, call.args)
            telling.clock = self._clock
            let_go(telling.start(TELL, now=False), self.log, "progress was not told")
            try:
                return await handler(call)
            except DeniedError as error:
                raise RemoteError("AuthorizationError", str(error)) from None
            except SaltwistedError as error:
                if isinstance(error, RemoteError):
                    raise
                raise RemoteError("RootsError", str(error)) from None
            finally:
                if telling.running:
                    telling.stop()

        return run

    def _tell(self, stream: Stream, args: Mapping[str, Any]) -> Any:
        """An item for the waiting caller: what is done for each share, if it can be counted."""
        try:
            work = self._sync.work(self._shares(args))
        except StoreError:
            return None  # the answer says that there is no such share
        exports = [
            {"share": name, "doing": one.doing, "done": one.done, "of": one.total}
            for name, one in self._exports
            if one.doing
        ]
        return stream({"work": [*work, *exports]})

    # -- which shares

    def _shares(self, args: Mapping[str, Any]) -> list[RootShare]:
        name = str(args.get("share") or "")
        if not name:
            return list(self._sync.shares.values())
        found = [s for n, s in self._sync.shares.items() if n == name or s.root == name]
        if not found:
            known = ", ".join(self._sync.shares) or "none"
            raise StoreError(f"no such share; there are: {known}", name)
        return found

    def _holding(self, args: Mapping[str, Any], path: bytes) -> list[tuple[RootShare, bytes]]:
        """Shares that know a path, which may be given below a root or from C{/} on."""
        found = []
        why = "is in no share"
        for share in self._shares(args):
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
            lost = any(one[0] == rel for one in store.database.conflicts())
            if lost or rel in store.index.rows or store.generation.get(rel) is not None:
                found.append((share, rel))
            else:
                why = share.look.why_not(rel) or why
        if not found:
            raise StoreError(why, os.fsdecode(path))
        return found

    # -- looking

    async def status(self, call: Call) -> Any:
        """Say everything about the shares of this node, and its peers."""
        sync = self._sync
        return {
            "node": sync.node,
            "generation": sync.name,
            "pillar": sync.pillar_name,
            "ready": sync.ready,
            "state": sync.members_state(),
            "clock": sync.clock_problem,
            "rights": [right for right in RIGHTS if sync.may(sync.node, right)],
            "shares": {share.name: self._share(share) for share in self._shares(call.args)},
            "left_out": dict(sync.left_out),
            "peers": sync.peers(),
        }

    def _share(self, share: RootShare) -> dict[str, Any]:
        generation = share.generation
        files, size = generation.counts() if generation is not None else (0, 0)
        store = share.store
        return {
            "root": share.root,
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
            "conflicts": store.open_conflicts if store is not None else 0,
            "skipped": {os.fsdecode(p): why for p, why in list(share.look.skipped.items())[:100]},
            "skipped_count": len(share.look.skipped),
            "unread": {os.fsdecode(p): why for p, why in list(share.look.unread.items())[:100]},
            "unread_count": len(share.look.unread),
            "kept": sorted(os.fsdecode(path) for path in share.writes.kept)[:100],
            "failed": {os.fsdecode(p): why for p, why in list(share.writes.failed.items())[:100]},
            "overflows": share.watch.overflows,
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
        for share in self._shares(call.args):
            if share.store is None:
                continue
            for one in share.store.database.generations(most):
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
        """Say what changed since a generation, or what a peer has not got yet."""
        name, peer = call.args.get("generation") or "", call.args.get("peer")
        peer = peer if isinstance(peer, str) else ""
        found = []
        for share in self._shares(call.args):
            store = share.store
            if store is None:
                continue
            if peer:
                found += self._diff_peer(share, peer)
                continue
            try:
                number = store.find(name).number if name else store.generation.number - 1
                changed = await self._sync.pool(store.difference, number)
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
        links = [link for link in self._sync.links_of(share.name) if link.node == peer]
        if not links:
            raise StoreError("there is no link to this node now", peer)
        theirs = links[0].knowledge[share.name]
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
            if row and row[0].dot.counter > theirs.get(row[0].dot.replica, 0)
        ]

    async def trace(self, call: Call) -> Any:
        """Say where a path comes from, and which masters have it."""
        path = os.fsencode(str(call.args.get("path") or ""))
        found = []
        for share, rel in self._holding(call.args, path):
            store = share.store
            if store is None:
                continue
            links = self._sync.links_of(share.name)
            for number, version in enumerate(store.index.rows.get(rel, ())):
                found.append(
                    {
                        "share": share.name,
                        "path": os.fsdecode(rel),
                        "visible": number == 0,
                        **_version(version),
                        "on": [
                            self._sync.node,
                            *(
                                link.node
                                for link in links
                                if link.knowledge[share.name].get(version.dot.replica, 0)
                                >= version.dot.counter
                            ),
                        ],
                        "known_to": len(links) + 1,
                    }
                )
        return found

    async def conflicts(self, call: Call) -> Any:
        """List versions that lost against one that had not seen them."""
        found = []
        for share in self._shares(call.args):
            store = share.store
            if store is None:
                continue
            for path, version, at, state in store.database.conflicts():
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
        """Give the content of a lost version."""
        share, path, version = self._lost(call.args)
        store = share.store
        if store is None:
            raise StoreError("the store is not open", share.name)
        content = b""
        if version.entry.kind == FILE:
            content = await self._sync.pool(store.objects.read, version.entry.content, 0, SHOWN)
        elif version.entry.kind == LINK:
            content = version.entry.content
        return {
            "share": share.name,
            "path": os.fsdecode(path),
            **_version(version),
            "content": base64.b64encode(content).decode(),
            "whole": len(content) >= version.entry.size,
        }

    def _lost(self, args: Mapping[str, Any]) -> tuple[RootShare, bytes, Version]:
        path = os.fsencode(str(args.get("path") or ""))
        wanted = str(args.get("version") or "")
        for share, rel in self._holding(args, path):
            store = share.store
            for one, version, _, _ in reversed(store.database.conflicts() if store else []):
                if one == rel and _dot(version.dot).startswith(wanted):
                    return share, rel, version
        raise StoreError("has no such lost version", os.fsdecode(path))

    # -- changing

    def _may_write(self) -> None:
        """@raises DeniedError: the membership says that this node changes nothing for others."""
        if not self._sync.may(self._sync.node, WRITE):
            raise DeniedError(
                "403: this node is read-only in the cluster: do it on a member that may write"
            )

    async def resolve(self, call: Call) -> Any:
        """Close the conflicts of a path; C{take} names the version that is to be visible."""
        take = str(call.args.get("take") or "")
        if take not in ("", "visible"):
            self._may_write()
        share, path, version = self._lost(
            {**call.args, "version": "" if take == "visible" else take}
        )
        dot = None if take in ("", "visible") else version.dot
        count = await share.orders.resolve(path, dot, call.user)
        return {"share": share.name, "path": os.fsdecode(path), "closed": count}

    async def rollback(self, call: Call) -> Any:
        """Make an earlier tree visible again, everywhere."""
        name = str(call.args.get("generation") or "")
        self._may_write()
        done = []
        problem: StoreError | None = None
        for share in self._shares(call.args):
            try:
                done.append(await share.orders.rollback(name, call.user))
            except StoreError as error:
                problem = error
        if not done:
            raise problem or StoreError("there is no such generation", name)
        return done

    async def approve(self, call: Call) -> Any:
        """Let held deletions through."""
        return {
            share.name: await share.orders.approve(call.user) for share in self._shares(call.args)
        }

    async def adopt(self, call: Call) -> Any:
        """Trust a root again: refill it, or take it as it is."""
        done = {}
        for share in self._shares(call.args):
            if not share.core.suspended and not share.core.held:
                continue
            if call.args.get("how") == "accept":
                await share.orders.accept(call.user)
                done[share.name] = -1
            else:
                done[share.name] = await share.orders.restore()
        return done

    async def scan(self, call: Call) -> Any:
        """Look at the working trees now."""
        for share in self._shares(call.args):
            await share.rescan()
        return True

    async def settled(self, call: Call) -> Any:
        """Wait until nothing is being taken in or written here, and name the generation."""
        end = self._clock.seconds() + float(call.args.get("timeout") or 60)
        while not all(share.is_settled for share in self._shares(call.args)):
            if self._clock.seconds() > end:
                raise StoreError("is still busy", self._sync.node)
            await self._sync.stirs(POLL)
        return self._sync.name

    async def dry(self, call: Call) -> Any:
        """Say what a look at the working trees would commit now."""
        found = []
        for share in self._shares(call.args):
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

    async def sync(self, call: Call) -> Any:
        """
        Take in what is in the working trees, and wait until every member has it.

        Progress comes as items: C{waits} says how many changes each member lacks, C{sent} how many
        bytes it was sent meanwhile. The answer says for each whether it has everything.
        """
        shares = self._shares(call.args)
        for share in shares:
            await share.flush()
        if not call.args.get("wait"):
            return self._result(shares)
        end = self._clock.seconds() + float(call.args.get("timeout") or 60)
        links = {link for share in shares for link in self._sync.links_of(share.name)}
        began = {link: link.bytes_out for link in links}
        last, tell = None, self._clock.seconds()
        while True:
            result = self._result(shares)
            pause = POLL
            if result["done"]:
                pause = ASK_AGAIN
                left = end - self._clock.seconds()
                await self._wait_for_trees(shares, result, min(max(left, POLL), ASKING))
            if result["done"] or self._clock.seconds() > end:
                return result
            waits = {node: one["lacks"] for node, one in result["peers"].items() if one["lacks"]}
            if waits != last or (waits and self._clock.seconds() >= tell):
                last, tell = waits, self._clock.seconds() + TELL
                sent = {link.node: link.bytes_out - before for link, before in began.items()}
                await _maybe(call.stream({"waits": waits, "sent": sent}))
            await self._sync.stirs(pause)

    async def _wait_for_trees(
        self, shares: Sequence[RootShare], result: dict[str, Any], seconds: float
    ) -> None:
        """A node that has committed everything is done when it has also written it."""
        if self._written is None:
            return
        names = [share.name for share in shares]
        for node, why in (await self._written.problems(names, seconds)).items():
            if node in result["peers"]:
                result["peers"][node].update(ok=False, error=why)
                result["done"] = False

    def _result(self, shares: Sequence[RootShare]) -> dict[str, Any]:
        sync = self._sync
        peers: dict[str, Any] = {}
        for node in sorted(sync.members()):
            links = [one for share in shares for one in sync.links_of(share.name)]
            link = next((one for one in links if one.node == node), None)
            lacks = 0
            for share in shares:
                if not sync.may_have(node, share.name):
                    continue
                if link is not None and share.name in link.knowledge and share.store is not None:
                    lacks += count_missing(link.knowledge[share.name], share.store.knowledge)
            peers[node] = {
                "ok": link is not None and not lacks,
                "lacks": lacks,
                "error": "not connected" if link is None else sync.flags.get(node, ""),
            }
        problems = {s.name: s.look.unread_in_words() for s in shares if s.look.unread}
        problems.update({s.name: "waits for the cluster's tree" for s in shares if not s.ready})
        problems.update({s.name: s.core.suspended for s in shares if s.core.suspended})
        problems.update(
            {
                s.name: f"held: {counted(len(s.core.held), 'deletion')}"
                for s in shares
                if s.core.held
            }
        )
        if sync.clock_problem:
            problems["clock"] = sync.clock_problem.removeprefix("clock: ")
        settled = all(share.is_settled for share in shares)
        return {
            "done": settled and not problems and all(one["ok"] for one in peers.values()),
            "generation": sync.name,
            "pillar": sync.pillar_name,
            "peers": peers,
            "problems": problems,
        }

    async def export(self, call: Call) -> Any:
        """Write the tree of the present or an earlier generation to a new directory."""
        target, name = str(call.args.get("directory") or ""), str(call.args.get("generation") or "")
        if not os.path.isabs(target):
            raise StoreError("needs an absolute path", target)
        shares = self._shares(call.args)
        if len(shares) != 1:
            raise StoreError("say which share: --share " + " | ".join(s.name for s in shares))
        store = shares[0].store
        if store is None:
            raise StoreError("the store is not open", shares[0].name)
        number = store.find(name).number if name else store.generation.number
        tree = await self._sync.pool(store.manifest, number)
        one = shares[0].name, Progress("paths written", 0, len(tree))
        self._exports.append(one)
        try:
            count = await self._sync.pool(export, store.objects, tree, target, one[1])
        finally:
            self._exports.remove(one)
        return {"share": shares[0].name, "directory": target, "entries": count}


def export(objects: Any, tree: Mapping[bytes, Entry], target: str, progress: Progress) -> int:
    """
    Write a tree into a directory that must not be there.

    @param progress: counts the paths.
    @raises StoreError: it is there, or the disk refuses.
    """
    try:
        os.mkdir(target, 0o755)
        top = os.fsencode(target)
        for path, entry in sorted(tree.items()):
            progress.done += 1
            full = top + b"/" + path
            if entry.kind == DIR:
                os.mkdir(full)
            elif entry.kind == LINK:
                os.symlink(entry.content, full)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(full, flags, 0o600)
                try:
                    at = 0
                    while at < entry.size:
                        piece = objects.read(entry.content, at, 1 << 20)
                        os.write(fd, piece)
                        at += len(piece)
                    os.fchmod(fd, entry.mode)
                    os.utime(fd, ns=(entry.mtime, entry.mtime))
                finally:
                    os.close(fd)
        for path, entry in sorted(tree.items(), reverse=True):
            if entry.kind == DIR:
                os.chmod(top + b"/" + path, stat.S_IMODE(entry.mode))
    except OSError as error:
        raise StoreError(error.strerror or str(error), target) from error
    return len(tree)


async def _maybe(value: Any) -> None:
    if isinstance(value, Deferred):
        await value


def _entry(entry: Entry | None) -> dict[str, Any] | None:
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


def _dot(dot: Dot) -> str:
    return f"{dot.replica.master}:{dot.replica.incarnation.hex()[:8]}:{dot.counter}"


def _version(version: Version) -> dict[str, Any]:
    return {
        "version": _dot(version.dot),
        "master": version.dot.replica.master,
        "written": seconds(version.stamp),
        "entry": _entry(version.entry),
    }


def _change(then: Entry | None, now: Entry | None) -> str:
    if then is None:
        return "added"
    if now is None:
        return "removed"
    if not then.same_content(now):
        return "changed"
    return "mode" if then.mode != now.mode else "time"
