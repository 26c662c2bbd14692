"""
What a master asks of its surroundings, and what it does on its own.

A master is built with L{Seams}; nothing is assigned to it later. Each attribute is a small Protocol
of L{saltwisted.interfaces} with a C{Lone...} implementation here.
docs/adr/009-seams-before-walls.md says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import fail, succeed

from saltwisted.claiming import IClaims, IKeptEvents
from saltwisted.commits import IGitSharing
from saltwisted.domain.masterschedule import IScheduleFacts
from saltwisted.domain.reactions.keeping import Kept, Owed
from saltwisted.domain.replica.pruning import PruneClock
from saltwisted.errors import DeniedError
from saltwisted.interfaces import (
    IAcknowledging,
    IGate,
    IJobHearer,
    IKeyAgreement,
    IKeyChanges,
    IMasters,
    IOrchestrating,
    IOrchestrations,
    IPillarHolders,
    IPins,
    IPruneTime,
    ISecrets,
    IVoucher,
    IVouching,
    IWhereabouts,
)
from saltwisted.master.fileserver import FileServer
from saltwisted.master.logins import Tokens
from saltwisted.master.loneclaims import LoneClaims
from saltwisted.master.receipts import ReceiptBook


class LoneKeyChanges:
    """There are no members that could be behind."""

    def together(self) -> AbstractContextManager[None]:
        """Each change is an act of its own."""
        return nullcontext()

    def in_one(self) -> AbstractContextManager[None]:
        """Nothing is logged."""
        return nullcontext()

    def settled(self) -> Awaitable[Sequence[str]]:
        """There is nobody else to inform."""
        return succeed(())


class LoneVoucher:
    """Only the site's rules let a minion in."""

    def pre_accepted(self, auth: Any) -> bool:
        """There are no tokens for minions."""
        return False


class LoneSecrets:
    """The secret in a file, and the acceptances that the key directories show."""

    def __init__(
        self,
        versions: Callable[[], Sequence[Any]],
        acceptance: Callable[[str], int | None],
    ) -> None:
        self._versions = versions
        self._acceptance = acceptance

    def versions(self) -> Sequence[Any]:
        """Of the file."""
        return self._versions()

    def acceptance(self, minion_id: str) -> int | None:
        """By the directories."""
        return self._acceptance(minion_id)


class LoneAgreement:
    """Nobody shares the publish key."""

    def request(self, why: str) -> bool:
        """The master makes a new one by itself."""
        return False


class LoneHearer:
    """Nobody else has minions."""

    cares_for_late = False

    def job_published(
        self, job: Mapping[str, Any], minions: Sequence[str], given: float | None = None
    ) -> None:
        """There is nobody to inform."""

    def unreached(self, jid: str) -> Sequence[str]:
        """It is unknown which minions were reached."""
        return ()


class LoneAcknowledging:
    """A return on this disk is acknowledged."""

    def return_stored(self, jid: str, minion_id: str) -> None:
        """At once."""

    def repeated(self, minion_id: str, load: Mapping[str, Any]) -> str | None:
        """There is no other node that could have it."""
        return None

    def one_copy(self, jid: str) -> Awaitable[Sequence[str]]:
        """One copy is all that there can be, and no news."""
        return succeed(())


@frozen
class LonePins:
    """Files are served as they are in their directories."""

    newest: FileServer

    def files(self, minion: str) -> None:
        """All minions are served the same."""

    def still(self) -> FileServer:
        """Directories are never pinned."""
        return self.newest

    def again(self, generation: str) -> Awaitable[FileServer]:
        """Directories are never pinned."""
        return succeed(self.newest)

    def follow(self, jid: str, fun: Any, generation: str) -> Awaitable[None]:
        """Nor are the jobs of a run."""
        return succeed(None)

    def choose(
        self, jid: str, fun: Any, generation: str, minions: Sequence[str]
    ) -> Awaitable[Sequence[str]]:
        """There is nothing to choose from."""
        why = (
            "a master alone serves directories as they are, and keeps no earlier trees of them; it"
            " keeps commits (fileserver_backend: git), and a cluster keeps both"
        )
        return fail(DeniedError(f"generation {generation!r}: {why}"))

    def facts(self, jid: str, fun: Any) -> Mapping[str, str]:
        """There are no generations."""
        return {}

    def notes(self, jid: str) -> Mapping[str, Any]:
        """Nothing becomes known."""
        return {}

    def published(self, jid: str, minions: Sequence[str]) -> None:
        """Nobody is pinned."""

    def returned(self, jid: str, minion: str) -> None:
        """Nobody was pinned."""


class LonePillars:
    """Pillars are compiled here, from their directories."""

    elsewhere = False

    def ask(self, question: bytes) -> Awaitable[bytes]:
        """@raises RuntimeError: always, because this master has pillars."""
        raise RuntimeError("a master with pillars asks nobody")

    def generation(self) -> int:
        """Directories are never replaced as a whole."""
        return 0

    def roots(self, configured: Mapping[str, Any]) -> Mapping[str, Any]:
        """As they are configured."""
        return configured


class LoneWhereabouts:
    """There are no other nodes."""

    def elsewhere(self) -> Mapping[str, str]:
        """Nobody."""
        return {}

    def refresh(self) -> Awaitable[None]:
        """This master knows all that there is to know."""
        return succeed(None)

    def came(self, minion_id: str) -> None:
        """Nobody has missed it."""


class LoneMasters:
    """Minions know their master by their own configuration."""

    serves = ""

    def masters(self) -> Sequence[str]:
        """They are told nothing."""
        return ()


class LoneVouching:
    """There is no authority: the API signs its certificate itself."""

    pin = ""

    def names(self) -> Sequence[str]:
        """Nobody asks."""
        return ()

    def issue(self, public: bytes, names: Sequence[str], days: int) -> tuple[bytes, bytes]:
        """@raises DeniedError: always."""
        raise DeniedError("a master alone has no authority")

    def on_change(self, hear: Callable[[], None]) -> None:
        """There never is one."""


class LoneGit:
    """This master fetches, and nobody else serves the same."""

    holds = False

    def fetches(self, pillar: bool) -> bool:
        """Always."""
        return True

    def fetch(
        self, shared: str, damaged: bool, ask: Callable[[], Awaitable[Any]]
    ) -> Awaitable[Mapping[str, Any]]:
        """Here."""
        return ask()

    def problems(self) -> Sequence[str]:
        """There are no others."""
        return ()

    def status(self) -> Mapping[str, Any]:
        """There are no others."""
        return {}

    def everywhere(self) -> Awaitable[Mapping[str, Any]]:
        """There are no others."""
        return succeed({})


class LoneGate:
    """There is nobody to catch up with."""

    def keeps(self, frame: bytes | memoryview, peer: str, reply: Callable[[bytes], None]) -> bool:
        """No request waits."""
        return False


class LonePruneTime:
    """A master uses its own clock, unless that clock jumps."""

    def __init__(self, now: Callable[[], float], runtime: Callable[[], float]) -> None:
        """
        @param runtime: seconds that nobody sets, those of sleep too.
        """
        self._now = now
        self._runtime = runtime
        self._rules = PruneClock()

    def time(self) -> float | None:
        """By the clock, if it has gone evenly."""
        wall, runtime = self._now(), self._runtime()
        self._rules.compare(wall, runtime, (), {})
        return self._rules.time(wall, runtime)

    @property
    def problem(self) -> str:
        """That the clock has jumped."""
        return self._rules.problem


class LoneScheduleFacts:
    """In memory; a role provides a file."""

    alone = True

    def __init__(self) -> None:
        self._items: dict[str, Mapping[str, Any]] = {}

    def items(self) -> Mapping[str, Mapping[str, Any]]:
        """All of it."""
        return self._items

    def put(self, key: str, body: Mapping[str, Any] | None) -> Awaitable[None]:
        """At once."""
        if body is None:
            self._items.pop(key, None)
        else:
            self._items[key] = body
        return succeed(None)

    def settled(self) -> Awaitable[Sequence[str]]:
        """There is nobody else to inform."""
        return succeed(())

    def listen(self, receiver: Callable[[Sequence[str]], None]) -> None:
        """Nobody else changes anything."""


class LoneOrchestrations:
    """Steps are recorded nowhere: a run ends with its master."""

    def run_begin(self, jid: str, run: Mapping[str, Any]) -> Awaitable[None]:
        """At once."""
        return succeed(None)

    def step_begin(
        self, jid: str, number: int, low: Mapping[str, Any], proposed: str
    ) -> Awaitable[Mapping[str, Any]]:
        """As proposed."""
        return succeed({"jid": proposed, "result": None, "parts": None})

    def step_parts(
        self, jid: str, number: int, turns: Sequence[Sequence[str]], lost: Mapping[str, Any]
    ) -> Awaitable[None]:
        """At once."""
        return succeed(None)

    def step_part(self, jid: str, number: int, part: int) -> Awaitable[bool]:
        """At once."""
        return succeed(True)

    def step_end(self, jid: str, number: int, result: Mapping[str, Any]) -> Awaitable[None]:
        """At once."""
        return succeed(None)

    def run_end(self, jid: str, outcome: Mapping[str, Any]) -> Awaitable[None]:
        """At once."""
        return succeed(None)

    def serve(self, orchestrating: IOrchestrating) -> None:
        """Nothing is gone on with."""

    def holds(self, jid: str) -> bool:
        """For ever."""
        return True

    def show(self, jid: str) -> Awaitable[Any]:
        """Nobody knows it."""
        return fail(DeniedError(f"orchestration {jid} was not written down"))

    def listed(self, most: int = 0) -> Awaitable[Sequence[Mapping[str, Any]]]:
        """None is known."""
        return succeed(())

    def go_on(self, jid: str, first: str, user: str) -> Awaitable[Any]:
        """Nobody knows it."""
        return self.show(jid)

    def stop(self, jid: str, user: str) -> Awaitable[Any]:
        """Nobody knows it."""
        return self.show(jid)

    def wished(self, jid: str, wishes: Mapping[str, Any], user: str) -> Awaitable[None]:
        """At once."""
        return succeed(None)

    def wish_elsewhere(self, jid: str, wish: Mapping[str, Any], user: str) -> Awaitable[None]:
        """There is no other."""
        return fail(DeniedError(f"no orchestration {jid} runs here"))

    def startService(self) -> None:
        """Nothing was left."""

    def stopService(self) -> None:
        """Nothing is left."""


class NothingKept:
    """Events are not stored: for masters whose role provides no disk for it."""

    problem = ""

    def startService(self) -> None:
        """Nothing to start."""

    def stopService(self) -> None:
        """Nothing to stop."""

    def keep(
        self, events: Sequence[tuple[str, str, Mapping[str, Any], Mapping[int, str]]]
    ) -> Awaitable[Sequence[Any]]:
        """At once."""
        return succeed(
            [
                Owed(
                    parts={
                        part: Kept(
                            source="", number=0, part=part, minion=who, tag=tag, key=key,
                            at=0.0, data=b"",
                        )
                        for part, key in keys.items()
                    }
                )
                for who, tag, _, keys in events
            ]
        )  # fmt: skip

    def copied(self, owed: Sequence[Any]) -> None:
        """At once."""

    def done(self, kept: Any) -> None:
        """Nothing was owed."""

    def on_found(self, receiver: Callable[[Any, float], None]) -> None:
        """Nothing is."""


@frozen(kw_only=True)
class Seams:
    """
    The surroundings of a master.

    @ivar pins: which files minions are served.
    @ivar secrets: what session keys are derived from.
    @ivar tokens: where login tokens are stored.
    @ivar schedule: which changes the schedule had at run time, and what has run.
    @ivar prune_time: the time by which old jobs are pruned.
    @ivar orchestrations: where orchestrations are recorded.
    @ivar book: where a lone master keeps its receipts; it is started with the master.
    """

    pins: IPins
    secrets: ISecrets
    tokens: Tokens
    prune_time: IPruneTime
    key_changes: IKeyChanges = field(factory=LoneKeyChanges)
    voucher: IVoucher = field(factory=LoneVoucher)
    agreement: IKeyAgreement = field(factory=LoneAgreement)
    hearer: IJobHearer = field(factory=LoneHearer)
    acknowledging: IAcknowledging = field(factory=LoneAcknowledging)
    pillars: IPillarHolders = field(factory=LonePillars)
    whereabouts: IWhereabouts = field(factory=LoneWhereabouts)
    masters: IMasters = field(factory=LoneMasters)
    vouching: IVouching = field(factory=LoneVouching)
    gate: IGate = field(factory=LoneGate)
    git: IGitSharing = field(factory=LoneGit)
    schedule: IScheduleFacts = field(factory=LoneScheduleFacts)
    claims: IClaims = field(factory=LoneClaims)
    orchestrations: IOrchestrations = field(factory=LoneOrchestrations)
    kept: IKeptEvents = field(factory=NothingKept)
    book: ReceiptBook | None = None
