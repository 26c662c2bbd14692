"""
The operations on roots: their rows of the table of operations.

On the control socket they are the operation C{roots}, with the word under C{do}. Each answer is
plain data. All are only for root and the master's own user. L{saltwisted.cli.roots} displays the
answers.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted.cluster.roots.choice import RootChoice
from saltwisted.cluster.roots.living import GIT
from saltwisted.cluster.roots.nothing import NoCommits
from saltwisted.cluster.roots.questions import RootQuestions
from saltwisted.cluster.roots.share import RootShare
from saltwisted.cluster.roots.sync import RootSync
from saltwisted.cluster.roots.written import RootWritten
from saltwisted.commits import IEarlierCommits
from saltwisted.domain.causality.knowledge import count_missing
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
from saltwisted.domain.replica.membership import WRITE
from saltwisted.domain.roots.entry import DIR, LINK, TreeEntry
from saltwisted.errors import DeniedError, NotKept, RemoteError, SaltwistedError, StoreError
from saltwisted.stores.progress import Progress
from saltwisted.transports.deferreds import let_go
from saltwisted.words import counted

FAMILY = "roots"
"""The name under which the control socket asks for all of them, with C{do} for the word."""
BY_WORD = {FAMILY: ("do", "status")}
# Older commands send the option peer of the configuration, a map, where no node is named
PEER = Kind("text", lambda value: isinstance(value, (str, Mapping)))
RECORDED: Mapping[str, tuple[str, ...]] = {
    "resolve": ("share", "path", "take"),
    "rollback": ("share", "generation"),
    "approve": ("share",),
    "adopt": ("share", "how"),
    "export": ("share", "directory", "generation"),
}
"""What of these is on record, with which arguments; the others only tell, or hurry."""
MAY = owner_only("only root and the master's own user may ask about roots")
TELL = 1.0
"""Seconds after which a waiting caller is told how far the work is, again and again."""
MOST = 20
"""Generations that are listed."""
POLL = 0.05
"""Seconds after which it is looked again though nothing was heard."""
ASKING = 10.0
"""Seconds for which members are waited for that write their directories, ..."""
ASK_AGAIN = 0.5
"""... and after which one that cannot is asked again."""


class RootControl:
    """
    The operations on roots: their rows, and those operations that change something.

    @param clock: the reactor.
    @param commits: the commits of git, which are treated as one more share.
    @param written: asks the members whether their working trees are written.
    """

    log = Logger()

    def __init__(
        self,
        sync: RootSync,
        clock: Any,
        written: RootWritten | None = None,
        commits: Callable[[], IEarlierCommits] = NoCommits,
    ) -> None:
        self._sync, self._commits = sync, commits
        self._written = written
        self._clock = clock
        self._chosen = RootChoice(sync)
        self._questions = RootQuestions(sync, self._chosen)
        self._exports: list[tuple[str, Progress]] = []

    def operations(self) -> list[Operation]:
        """The rows: C{roots.log} and so on."""
        ask = self._questions
        path = Argument("path", TEXT, needed=True)
        generation, timeout = Argument("generation", TEXT), Argument("timeout", SECONDS)
        rows: list[tuple[str, Handler, tuple[Argument, ...]]] = [
            ("status", ask.status, ()),
            ("log", self.generations, (Argument("most", WHOLE),)),
            ("diff", ask.diff, (generation, Argument("peer", PEER))),
            ("trace", ask.trace, (path,)),
            ("conflicts", ask.conflicts, (Argument("all", FLAG),)),
            ("show", ask.show, (path, Argument("version", TEXT))),
            ("resolve", self.resolve, (path, Argument("take", TEXT))),
            ("rollback", self.rollback, (generation, Argument("dry_run", FLAG))),
            ("approve", self.approve, ()),
            ("adopt", self.adopt, (Argument("how", one_of("accept", "restore")),)),
            ("scan", self.scan, ()),
            ("settled", self.settled, (timeout,)),
            ("dry", ask.dry, ()),
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
                record=RECORDED.get(word),
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
            work = self._sync.report.work(self._chosen.shares(args))
        except StoreError:
            return None  # the answer says that there is no such share
        exports = [
            {"share": name, "doing": one.doing, "done": one.done, "of": one.total}
            for name, one in self._exports
            if one.doing
        ]
        return stream({"work": [*work, *exports]})

    def _may_write(self) -> None:
        """@raises DeniedError: the membership says that this node changes nothing for others."""
        if not self._sync.host.may(self._sync.host.node, WRITE):
            raise DeniedError(
                "403: this node is read-only in the cluster: do it on a member that may write"
            )

    async def generations(self, call: Call) -> Any:
        """List the generations that are kept, newest first, including those of git."""
        most, wanted = int(call.args.get("most") or MOST), call.args.get("share")
        rows = self._commits().log_rows(most)
        if wanted == GIT:
            return rows
        found = await self._questions.generations(call)
        rows = found if wanted else sorted([*found, *rows], key=lambda row: -float(row["at"]))
        return rows[:most]

    async def resolve(self, call: Call) -> Any:
        """Close the conflicts of a path; C{take} names the version to serve."""
        take = str(call.args.get("take") or "")
        if take not in ("", "visible"):
            self._may_write()
        share, path, version = self._chosen.lost(
            {**call.args, "version": "" if take == "visible" else take}
        )
        dot = None if take in ("", "visible") else version.dot
        count = await share.orders.resolve(path, dot, call.user)
        return {"share": share.name, "path": os.fsdecode(path), "closed": count}

    async def rollback(self, call: Call) -> Any:
        """Serve an earlier tree again, on all masters; C{dry_run} changes nothing."""
        dry = bool(call.args.get("dry_run"))
        name, wanted = str(call.args.get("generation") or ""), call.args.get("share")
        self._may_write()
        done: list[dict[str, Any]] = []
        problem: StoreError | None = None
        if wanted in (None, "", GIT):
            try:
                return await self._commits().roll_back(name, dry)
            except NotKept as error:
                if wanted:
                    raise
                problem = StoreError(str(error))
        for share in self._chosen.shares(call.args):
            try:
                orders = share.orders
                done.append(
                    await (orders.plan_rollback(name) if dry else orders.rollback(name, call.user))
                )
            except StoreError as error:
                problem = problem or error
        if not done:
            raise problem or StoreError("there is no such generation", name)
        return done

    async def approve(self, call: Call) -> Any:
        """Let held deletions through."""
        return {
            share.name: await share.orders.approve(call.user)
            for share in self._chosen.shares(call.args)
        }

    async def adopt(self, call: Call) -> Any:
        """End the suspension of a root: refill it, or take it as it is."""
        done = {}
        for share in self._chosen.shares(call.args):
            if not share.core.suspended and not share.core.held:
                continue
            if call.args.get("how") == "accept":
                await share.orders.accept(call.user)
                done[share.name] = -1
            else:
                done[share.name] = await share.orders.restore()
        return done

    async def scan(self, call: Call) -> Any:
        """Scan the working trees now."""
        for share in self._chosen.shares(call.args):
            await share.rescan()
        return True

    async def settled(self, call: Call) -> Any:
        """Wait until this node commits and writes nothing more, and give the generation."""
        end = self._clock.seconds() + float(call.args.get("timeout") or 60)
        while not all(share.is_settled for share in self._chosen.shares(call.args)):
            if self._clock.seconds() > end:
                raise StoreError("is still busy", self._sync.host.node)
            await self._sync.until_notified(POLL)
        return self._sync.report.name

    async def sync(self, call: Call) -> Any:
        """
        Commit the changes in the working trees, and wait until every member has them.

        Progress is sent as items: C{waits} says how many changes each member lacks, C{sent} how
        many bytes it was sent meanwhile. The answer says for each member whether it has everything.
        """
        shares = self._chosen.shares(call.args)
        for share in shares:
            await share.flush()
        if not call.args.get("wait"):
            return self._result(shares)
        end = self._clock.seconds() + float(call.args.get("timeout") or 60)
        links = {link for share in shares for link in self._sync.streams.of(share.name)}
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
            await self._sync.until_notified(pause)

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
        for node in sorted(sync.host.members()):
            links = [one for share in shares for one in sync.streams.of(share.name)]
            link = next((one for one in links if one.node == node), None)
            lacks = 0
            for share in shares:
                if not sync.host.may_have(node, share.name):
                    continue
                if (
                    link is not None
                    and share.name in link.peer.knowledge
                    and share.store is not None
                ):
                    lacks += count_missing(link.peer.knowledge[share.name], share.store.knowledge)
            peers[node] = {
                "ok": link is not None and not lacks,
                "lacks": lacks,
                "error": "not connected" if link is None else sync.streams.flags.get(node, ""),
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
        if sync.clocks.problem:
            problems["clock"] = sync.clocks.problem.removeprefix("clock: ")
        settled = all(share.is_settled for share in shares)
        return {
            "done": settled and not problems and all(one["ok"] for one in peers.values()),
            "generation": sync.report.name,
            "pillar": sync.report.pillar_name,
            "peers": peers,
            "problems": problems,
        }

    async def export(self, call: Call) -> Any:
        """Write the tree of the present or an earlier generation to a new directory."""
        target, name = str(call.args.get("directory") or ""), str(call.args.get("generation") or "")
        if not os.path.isabs(target):
            raise StoreError("needs an absolute path", target)
        shares = self._chosen.shares(call.args)
        if len(shares) != 1:
            raise StoreError("say which share: --share " + " | ".join(s.name for s in shares))
        store = shares[0].store
        if store is None:
            raise StoreError("the store is not open", shares[0].name)
        number = store.history.find(name).number if name else store.generation.number
        tree = await self._sync.host.pool(store.history.manifest, number)
        one = shares[0].name, Progress("paths written", 0, len(tree))
        self._exports.append(one)
        try:
            count = await self._sync.host.pool(export, store.objects, tree, target, one[1])
        finally:
            self._exports.remove(one)
        return {"share": shares[0].name, "directory": target, "entries": count}


def export(objects: Any, tree: Mapping[bytes, TreeEntry], target: str, progress: Progress) -> int:
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
