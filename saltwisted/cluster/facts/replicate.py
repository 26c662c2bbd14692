"""
Minion keys between Salt's directories and the replicated log, in both directions.

Changes by this node's operators and sign-ins arrive here as changes of the directories
(L{saltwisted.stores.keys}) and go into the log. What the log says, wherever it comes from, is
written to the directories. L{saltwisted.domain.replica.keyset} has the rules.

 - For each minion id, the node remembers what it last wrote or read there (C{Shown}). A change
   from outside is the difference from that, never from the log. So a change that
   another node made and that is not written yet is not reverted.
 - At the start the log wins: differing files are rewritten. An id that the log does not know
   is taken over unchanged if this node is new in its cluster, and later as pending.
 - If an operator acts here before that, the act is judged when it is done, by what the log knows
   then. So a node that joins or catches up loses no decision of its own.
 - Files that vanish wait a moment. If more than max(10, 10 %) of them vanish, or a directory is
   gone, that is not a deletion: they are restored, with an alarm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.cluster.facts.keyacts import WRITTEN_SECONDS, KeyActs
from saltwisted.cluster.facts.keydirs import NOTHING, KeyDirectories, Shown, wanted_of
from saltwisted.cluster.facts.ondisk import refuse
from saltwisted.domain.replica.keyset import KIND, KeySet
from saltwisted.errors import StoreError
from saltwisted.stores import files
from saltwisted.stores.keys import KeyStore
from saltwisted.transports.deferreds import all_within
from saltwisted.words import WERE, are

ACT = {"accepted": "accept", "rejected": "reject", "pending": "pend"}
AT_ONCE = 16
"""Ids that are compared or written between two turns of the reactor."""

VANISHED_SECONDS = 2.0
"""How long a file that vanished from outside may come back, or be followed by many others."""

VANISHED_MEMORY = 60.0


class KeyReplica:
    """
    A part of the service: started when the node has caught up, before its ports are open.

    @ivar waiting: ids whose directories still have to be written.
    @ivar restored: how often many files were restored.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        node: str,
        cluster: str,
        marker: str,
        keys: KeyStore,
        keyset: KeySet,
        append: Callable[[str, Mapping[str, Any]], Awaitable[Any]],
        listen: Callable[[str, Callable[[Sequence[Any]], None]], None],
        alarm: Callable[[str, Mapping[str, Any]], None],
        confirmed: Callable[[], Awaitable[Sequence[str]]],
        problem: Callable[[], str] = lambda: "",
    ) -> None:
        """
        @param cluster: its id: keys of before this node belonged to it are taken over once.
        @param marker: the file that says into which cluster's log they were.
        @param confirmed: waits for what was appended last; the members that have not got it.
        @param append: C{append(kind, body)} of the fact log; in the folds when it returns.
        @param alarm: C{alarm(tag, data)}: fires an event.
        @param problem: why this node's disk does not take what is appended, or C{""}.
        """
        self._clock = clock
        self._node = node
        self._problem = problem
        self._cluster = cluster
        self._marker = marker
        self._keys = keys
        self._keyset = keyset
        self._alarm = alarm
        self._confirmed = confirmed
        self._acts = KeyActs(clock, keyset, append, problem, self._facts_changed)
        self._directories = KeyDirectories(keys)
        self._queue: deque[str] = deque()
        self.waiting: set[str] = set()
        self._early: dict[str, Shown] = {}
        self._awaited: list[Deferred[None]] = []
        self._running = self._ended = False
        self._writer: IDelayedCall | None = None
        self._vanished: dict[str, float] = {}
        self._recent: deque[float] = deque()
        self._judge: IDelayedCall | None = None
        self.restored = 0
        listen(KIND, self._facts_changed)
        keys.on_change(self._directory_changed)

    # -- life

    @property
    def written(self) -> bool:
        """Whether the directories match what the log said at the start."""
        return self._running

    def startService(self) -> Deferred[None]:
        """Make directories and log the same: the log wins. Fires when they are."""
        self._ended = False
        return Deferred.fromCoroutine(self._start())

    async def _start(self) -> None:
        marker = self._marker
        first = files.read_file(marker, 1024) != self._cluster.encode()
        self._directories.make()
        self._keys.rescan()
        listed = self._keys.list_keys()
        here = {minion_id for ids in listed.values() for minion_id in ids}
        known = set(self._keyset.ids())
        missing = taken = 0
        # All that is known is looked at now
        self.waiting.clear()
        self._queue.clear()
        for number, minion_id in enumerate(sorted(here | known)):
            if minion_id in self._early:
                continue
            shown = self._directories.shown[minion_id] = self._directories.look(minion_id)
            if minion_id not in known:
                self._take_in(minion_id, shown, first)
                taken += 1
            elif first and self._undecided(minion_id, shown):
                self._acts.do(
                    self._keyset.act("accept", minion_id, shown.pubs[shown.finger], self._node)
                )
            wanted = wanted_of(self._keyset, minion_id)
            if wanted != shown:
                missing += bool(wanted.state == "accepted" and not shown.state)
                self._directories.write(minion_id, wanted, shown)
            if number % AT_ONCE == AT_ONCE - 1:
                await deferLater(self._clock, 0)
        self._running = True
        early, self._early = self._early, {}
        for minion_id, after in early.items():
            self._directories.shown[minion_id] = after
            self._log_difference(minion_id, wanted_of(self._keyset, minion_id), after)
        if not first:
            self._note_restored(missing, len(known))
        if taken:
            self.log.info(
                "{ids} in {path} not in the cluster's log: {what}",
                ids=are(taken, "minion id", verbs=WERE),
                path=self._keys.pki_dir,
                what="taken over" if first else "they are pending now",
            )
        if first:
            files.write_atomic(marker, self._cluster.encode(), 0o600)
        # What has changed while this was done
        self._facts_changed([*self.waiting, *early])
        self._let_in()

    def _let_in(self) -> None:
        """Those who waited for the start go on."""
        awaited, self._awaited = self._awaited, []
        for each in awaited:
            each.callback(None)

    def _undecided(self, minion_id: str, shown: Shown) -> bool:
        """Whether a joiner has accepted what nobody in the cluster has decided about."""
        registers = self._keyset.of_id(minion_id)
        return shown.state == "accepted" and all(
            each.word == "pending" and not each.seen for each in registers
        )

    def stopService(self) -> None:
        """Write no more."""
        self._let_in()
        self._acts.flush()
        self._running, self._ended = False, True
        for call in (self._writer, self._judge):
            if call is not None and call.active():
                call.cancel()
        self._writer = self._judge = None

    # -- from the directories to the log

    def _directory_changed(self, minion_id: str, old: str, new: str) -> None:
        if not self._running:
            if self._keys.inside and not self._directories.writing:
                self._early[minion_id] = self._directories.look(minion_id)
            return
        # Looking may itself notice another change of this id, and come here for that
        after = self._directories.look(minion_id)
        before = self._directories.shown.get(minion_id, NOTHING)
        if after == before:
            self._vanished.pop(minion_id, None)
            return
        gone = (before.state and not after.state) or (before.denied and not after.denied)
        if gone and not self._keys.inside:
            self._suspect(minion_id)
            return
        self._directories.shown[minion_id] = after
        self._log_difference(minion_id, before, after)

    def _log_difference(self, minion_id: str, before: Shown, after: Shown) -> None:
        """Put into the log what has changed here."""
        keyset = self._keyset
        fingers = (before.finger, after.finger, before.denied, after.denied)
        if self._acts.collects(minion_id, fingers):
            # What follows is judged by what the log knows
            self._acts.flush()
        if (after.state, after.finger) != (before.state, before.finger):
            if not after.state:
                self._revoke(minion_id, before.finger, "delete")
                for register in keyset.of_id(minion_id):
                    if register.word == "accepted" and register.finger != before.finger:
                        # It must not move up by itself: somebody has to decide about it
                        self._revoke(minion_id, register.finger, "deny")
            else:
                self._grant(minion_id, after)
        if before.denied and not after.denied and after.finger != before.denied:
            for shown in keyset.view(minion_id).denied:
                self._revoke(minion_id, shown.finger, "delete")
        elif after.denied not in ("", before.denied, after.finger):
            self._acts.do(keyset.act("clash", minion_id, after.pubs[after.denied], self._node))

    def _grant(self, minion_id: str, after: Shown) -> None:
        pub = after.pubs[after.finger]
        act = ACT[after.state]
        for register in self._keyset.of_id(minion_id):
            if register.finger != after.finger and register.word in ("accepted", "rejected"):
                # Somebody who puts another key in the place has decided about the one before
                self._revoke(minion_id, register.finger, "delete")
        known = self._keyset.register(minion_id, after.finger)
        if act == "pend" and known is not None and known.word in ("accepted", "rejected"):
            self._revoke(minion_id, after.finger, "delete")
        self._acts.do(self._keyset.act(act, minion_id, pub, self._node))

    def _revoke(self, minion_id: str, finger: str, act: str) -> None:
        self._acts.do(self._keyset.act_on(act, minion_id, finger, self._node))

    @contextmanager
    def together(self) -> Iterator[None]:
        """
        What an operator does to many keys at once is one act, for up to L{MAX_ACTS} of them.

        @raises StoreError: nothing is begun that would not be written, or that the log, which wins
            at the start, would undo.
        """
        refuse(self._problem())
        if self._ended:
            raise StoreError(
                "not done: this node no longer serves its cluster. Nothing was changed; use "
                "another member",
                self._keys.pki_dir,
            )
        if not self._running:
            raise StoreError(
                "not done: this node is catching up with the other members, and serves after "
                "that. Nothing was changed; try again then, or use another member",
                self._keys.pki_dir,
            )
        with self.in_one():
            yield

    @contextmanager
    def in_one(self) -> Iterator[None]:
        """What happens to many keys in here is one entry; see L{KeyActs.in_one}."""
        with self._acts.in_one():
            yield

    async def settled(self) -> Sequence[str]:
        """
        Wait until this node's changes are in the log, and all reachable members have them.

        @return: the members that have not confirmed within two seconds.
        @raises StoreError: it is not on this node's disk; the text says what is true then.
        """
        if self._early and not self._running:
            started: Deferred[None] = Deferred()
            self._awaited.append(started)
            await all_within(self._clock, WRITTEN_SECONDS, [started])
            if not self._running:
                raise StoreError(
                    "unknown: this node is still catching up. The change is done when the node "
                    "serves, and lost if the process ends before that"
                )
        await self._acts.written()
        return await self._confirmed()

    def _take_in(self, minion_id: str, shown: Shown, first: bool) -> None:
        """An id that the log does not know."""
        if shown.state:
            act = ACT[shown.state] if first or shown.state == "rejected" else "pend"
            self._acts.do(self._keyset.act(act, minion_id, shown.pubs[shown.finger], self._node))
        if shown.denied and shown.denied != shown.finger:
            self._acts.do(
                self._keyset.act("clash", minion_id, shown.pubs[shown.denied], self._node)
            )

    # -- vanished files

    def _suspect(self, minion_id: str) -> None:
        now = self._clock.seconds()
        if minion_id not in self._vanished:
            self._vanished[minion_id] = now
            self._recent.append(now)
        if self._judge is None or not self._judge.active():
            self._judge = self._clock.callLater(VANISHED_SECONDS, self._decide)

    def _decide(self) -> None:
        """What vanished from outside: was it a deletion?"""
        now = self._clock.seconds()
        while self._recent and self._recent[0] < now - VANISHED_MEMORY:
            self._recent.popleft()
        gone = []
        for minion_id in list(self._vanished):
            if self._directories.look(minion_id) == self._directories.shown.get(minion_id, NOTHING):
                del self._vanished[minion_id]
            else:
                gone.append(minion_id)
        if not gone:
            return
        if not self._directories.are_there() or len(self._recent) > self._most():
            self._restore(gone)
            return
        late = []
        for minion_id in gone:
            if self._vanished[minion_id] > now - VANISHED_SECONDS:
                late.append(minion_id)
                continue
            del self._vanished[minion_id]
            before = self._directories.shown.get(minion_id, NOTHING)
            after = self._directories.shown[minion_id] = self._directories.look(minion_id)
            self._log_difference(minion_id, before, after)
        if late:
            self._judge = self._clock.callLater(VANISHED_SECONDS, self._decide)

    def _most(self) -> int:
        """So many files may vanish within a minute and be deletions."""
        return max(10, len(self._directories.shown) // 10)

    def _restore(self, gone: Sequence[str]) -> None:
        self._directories.make()
        for minion_id in gone:
            self._vanished.pop(minion_id, None)
            self._directories.shown[minion_id] = self._directories.look(minion_id)
        self._facts_changed(gone)
        self._note_restored(len(gone), len(self._directories.shown))

    def _note_restored(self, missing: int, known: int) -> None:
        if missing <= max(10, known // 10):
            return
        self.restored += 1
        self.log.critical(
            "{files} vanished from {path}: no key was revoked, and this node restores them from "
            "the cluster's log. {advice}",
            advice=advice.of("key.delete"),
            files=are(missing, "key file", verbs=("has", "have")),
            path=self._keys.pki_dir,
        )
        data = {"path": self._keys.pki_dir, "missing": missing}
        self._alarm("saltwisted/alarm/keys-vanished", data)

    # -- from the log to the directories

    def _facts_changed(self, minion_ids: Sequence[str]) -> None:
        for minion_id in minion_ids:
            if self._acts.appending and self._running and self._says_already(minion_id):
                continue
            if minion_id not in self.waiting:
                self.waiting.add(minion_id)
                self._queue.append(minion_id)
            elif not self._running:
                self._queue.append(minion_id)
        if self._running and self._queue and self._writer is None:
            self._writer = self._clock.callLater(0, self._write_some)

    def _says_already(self, minion_id: str) -> bool:
        """
        Whether an act of here has put into the log what the directories said when it was done, as
        mostly. What another tool has changed since is found as any other change of its.
        """
        return minion_id not in self._vanished and self._directories.shown.get(
            minion_id, NOTHING
        ) == wanted_of(self._keyset, minion_id)

    def _write_some(self) -> None:
        self._writer = None
        with self._keys.together():
            for _ in range(min(AT_ONCE, len(self._queue))):
                self._write_next()
        if self._queue:
            self._writer = self._clock.callLater(0, self._write_some)

    def _write_next(self) -> None:
        minion_id = self._queue.popleft()
        self.waiting.discard(minion_id)
        self._vanished.pop(minion_id, None)
        wanted = wanted_of(self._keyset, minion_id)
        try:
            self._directories.write(minion_id, wanted)
        except StoreError as error:
            self.log.error("the key of {minion_id}: {error}", minion_id=minion_id, error=error)
            self._clock.callLater(5.0, self._again, minion_id)

    def _again(self, minion_id: str) -> None:
        if self._running:
            self._facts_changed([minion_id])
