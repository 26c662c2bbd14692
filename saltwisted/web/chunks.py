"""
Executes chunks of low state through the master's table of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.error import AlreadyCalled

from saltwisted.domain.api import lowstate
from saltwisted.domain.api.lowstate import Work
from saltwisted.domain.api.problems import Problem, problem_of
from saltwisted.domain.batches import batch_size, whole
from saltwisted.domain.operations.table import Admits, Caller, Stream
from saltwisted.errors import DeniedError, RemoteError, SaltwistedError, StoreError
from saltwisted.web.turns import Turns

DOOR = "the HTTP API"


class Operations(Protocol):
    """See L{saltwisted.domain.operations.table.Operations}."""

    async def call(self, name: str, args: Mapping[str, Any], caller: Caller, stream: Stream) -> Any:
        """Do one operation for somebody."""


class Config(Protocol):
    """The master's options that are used here; a reload may change them."""

    @property
    def netapi_enable_clients(self) -> Collection[Any]: ...

    @property
    def netapi_allow_raw_shell(self) -> bool: ...

    @property
    def rest_timeout(self) -> float: ...


@define
class Done:
    """
    The result of a chunk.

    @ivar values: one, or one for each minion of a batch.
    @ivar silent: minions that did not answer. The value that stands for them says so.
    """

    values: list[Any] = field(factory=list)
    silent: list[str] = field(factory=list)


class Unfinished(SaltwistedError):
    """
    The master could not do all chunks of a request, through no fault of the client's.

    @ivar done: the results of those that were done, of which there are some.
    @ivar problem: what became of the next one.
    """

    def __init__(self, done: list[Done], problem: Problem) -> None:
        super().__init__(problem.message)
        self.done = done
        self.problem = problem


async def _nothing(item: Any) -> None:
    """For operations whose items nobody wants."""


class Chunks:
    """Runs chunks for their sender."""

    def __init__(
        self,
        reactor: Any,
        operations: Operations,
        config: Config,
        sample: Callable[[Sequence[str], int], Sequence[str]],
        turns: Turns,
        admitting: Callable[[str], Admits],
    ) -> None:
        """
        @param sample: so many of these, at random.
        @param admitting: who may come from an address.
        """
        self._reactor = reactor
        self._operations = operations
        self._config = config
        self._sample = sample
        self._turns = turns
        self._admitting = admitting

    async def all(
        self,
        chunks: Sequence[Mapping[str, Any]],
        source: str,
        token: str = "",
        client: str = "",
    ) -> list[Done]:
        """
        Do them one after another, as Salt does.

        @param source: from where, for the log.
        @param token: of the session.
        @param client: which client, whatever the chunks say.
        @raises Problem: one is wrong; then none is begun.
        @raises RemoteError: the master refuses or fails one.
        @raises Unfinished: it fails one, and has done others.
        """
        config = self._config
        works = await self._turns.all(
            lowstate.understand(
                {**chunk, "client": client} if client else chunk,
                config.netapi_enable_clients,
                config.netapi_allow_raw_shell,
                token,
            )
            for chunk in chunks
        )
        done: list[Done] = []
        for work in works:
            try:
                done.append(await self._do(work, source))
            except (Problem, RemoteError, DeniedError, StoreError) as error:
                problem = problem_of(error)
                if done and problem.status >= 500:
                    raise Unfinished(done, problem) from error
                raise
        return done

    async def _do(self, work: Work, source: str) -> Done:
        admits = self._admitting(source)
        caller = Caller(source=source, door=DOOR, proof=work.proof, admits=admits)
        done = getattr(self, f"_{work.client}")(work, caller)
        return await done  # type: ignore[no-any-return]

    # -- minions

    async def _local(self, work: Work, caller: Caller) -> Done:
        found: dict[str, Any] = {}
        silent = await self._run(work.args, caller, work.full, found.__setitem__)
        return Done([found], silent)

    async def _run(
        self,
        args: Mapping[str, Any],
        caller: Caller,
        full: bool,
        returned: Callable[[str, Any], None],
    ) -> list[str]:
        """Publish a job and wait for its end; those who did not answer."""
        silent: list[str] = []
        unknown: dict[str, None] = {}
        jid = ""

        async def item(each: Mapping[str, Any]) -> None:
            nonlocal jid
            if each["kind"] == "published":
                jid = each["jid"]
                # Of a list; without any minion there is no job, and nobody to wait for
                unknown.update(dict.fromkeys(each.get("missing", ()) if jid else ()))
            elif each["kind"] == "return":
                unknown.pop(each["id"], None)
                returned(each["id"], lowstate.shown_return(each["data"], full))
            elif each["kind"] == "missing":
                for minion, connected in each["connected"].items():
                    silent.append(minion)
                    returned(minion, lowstate.shown_silence(jid, connected, full))

        await self._operations.call("run", args, caller, item)
        for minion in unknown:
            silent.append(minion)
            returned(minion, lowstate.shown_silence(jid, True, full))
        return sorted(silent)

    async def _local_async(self, work: Work, caller: Caller) -> Done:
        published = await self._operations.call("publish", work.args, caller, _nothing)
        if not published.get("jid"):
            return Done([{}])
        return Done([{"jid": published["jid"], "minions": published["minions"]}])

    async def _matching(self, work: Work, caller: Caller) -> list[str]:
        """
        The minions of a target.

        The job itself is judged first: who may not run it does not learn who is meant.
        """
        kwargs = work.args["kwargs"]
        given: Mapping[str, Any] = {
            "tgt": work.args["tgt"],
            "tgt_type": work.args["tgt_type"],
            "delimiter": kwargs.get("delimiter"),
        }
        found: list[str] = await self._operations.call("match", given, caller, _nothing)
        return found

    async def _local_subset(self, work: Work, caller: Caller) -> Done:
        try:
            size = whole(work.size)
        except ValueError:
            raise Problem(400, "subset must be a number of minions") from None
        minions = await self._matching(work, caller)
        chosen = sorted(self._sample(minions, min(max(0, size), len(minions))))
        if not chosen:
            return Done([{}])
        found: dict[str, Any] = {}
        args = {**work.args, "tgt": chosen, "tgt_type": "list"}
        silent = await self._run(args, caller, work.full, found.__setitem__)
        return Done([found], silent)

    async def _local_batch(self, work: Work, caller: Caller) -> Done:
        minions = await self._matching(work, caller)
        try:
            size = batch_size(work.size, len(minions))
        except ValueError:
            raise Problem(400, lowstate.bad_batch(work.size)) from None
        done = Done()

        def returned(minion: str, value: Any) -> None:
            done.values.append({minion: value})

        while minions:
            part, minions = minions[:size], minions[size:]
            args = {**work.args, "tgt": part, "tgt_type": "list"}
            done.silent += await self._run(args, caller, work.full, returned)
        return done

    # -- the master

    async def _runner(self, work: Work, caller: Caller) -> Done:
        call = self._operations.call("runner", work.args, caller, _nothing)
        result = await self._within(work, call)
        return Done([lowstate.shown_runner(result, work.full, work.args)])

    async def _runner_async(self, work: Work, caller: Caller) -> Done:
        args = {**work.args, "async": True}
        return Done([await self._operations.call("runner", args, caller, _nothing)])

    async def _wheel(self, work: Work, caller: Caller) -> Done:
        call = self._operations.call("wheel", work.args, caller, _nothing)
        result = await self._within(work, call)
        return Done([lowstate.shown_wheel(result)])

    async def _wheel_async(self, work: Work, caller: Caller) -> Done:
        args = {**work.args, "async": True}
        return Done([await self._operations.call("wheel", args, caller, _nothing)])

    async def _within(self, work: Work, calling: Any) -> Any:
        """
        The result of a function of the master, which goes on when its caller waits no longer.

        @raises Problem: C{504}, it takes too long.
        """
        seconds = self._config.rest_timeout if work.timeout is None else work.timeout
        running = Deferred.fromCoroutine(calling)
        waiting: Deferred[Any] = Deferred()

        def pass_on(result: Any) -> None:
            if not waiting.called:
                waiting.callback(result)

        running.addBoth(pass_on)  # type: ignore[unused-awaitable]
        name = work.args["fun"]
        timer = self._reactor.callLater(seconds, late, waiting, f"'{name}' did not end in time")
        try:
            return await waiting
        finally:
            if timer.active():
                timer.cancel()


def late(waiting: Deferred[Any], words: str) -> None:
    """Nobody waits any longer."""
    try:
        waiting.errback(Problem(504, words))
    except AlreadyCalled:
        return
