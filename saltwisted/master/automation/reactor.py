"""
The reactor: from events that match an entry to the actions in their SLS files.

Events wait in a bounded queue (L{Intake}), are rendered several at a time in a worker process,
claimed (C{seams.claims}), and begun: the actions of one event one after another, those of several
events at the same time. Jobs are published at once; runners, wheel functions and callers wait for
one of C{reactor_worker_threads} slots. What is not done is reported (L{Telling}).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from saltwisted.domain.claims.words import Came, Claim, NoMajority, Taken
from saltwisted.domain.reactions.chains import Link
from saltwisted.domain.reactions.entries import AT_LEAST, AT_MOST
from saltwisted.domain.reactions.keeping import Kept, occasion_for
from saltwisted.domain.reactions.reaction import LOCAL, USER, ReactionError, reaction_of
from saltwisted.domain.who import MASTER, Who, local
from saltwisted.errors import SaltwistedError, WireError
from saltwisted.master.asked import reacts
from saltwisted.master.automation.acts import Acts, step_of
from saltwisted.master.automation.intake import Intake
from saltwisted.master.automation.looking import Looking
from saltwisted.master.automation.pause import Pause
from saltwisted.master.automation.places import LOST, Places
from saltwisted.master.automation.rendering import ENTRY, TIMEOUT, Answer, Rendering
from saltwisted.master.automation.telling import SHOWN, Telling, Waiting
from saltwisted.master.context import Context
from saltwisted.master.pillars import PillarWorkers
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.turns import Line, in_turns
from saltwisted.wire.msgpack import unpack_bin

BATCH = 32
"""Events that are rendered in one call."""
MOST_BEGINNING = 64
"""Events whose claims and publications are under way at the same time."""
RESULT = 1000
"""Characters of a result in a receipt."""

Step = Mapping[str, Any]


class Reactor:
    """Reactor thread only."""

    log = Logger()

    def __init__(self, ctx: Context, workers: PillarWorkers, pause: Pause) -> None:
        self._ctx = ctx
        self._clock = ctx.clock
        self._reactions = ctx.reactions
        self._workers = workers
        self._pause = pause
        self._acts = Acts(ctx, workers)
        self._telling = Telling(ctx.clock, ctx.bus, ctx.counters)
        self._intake = Intake(ctx, ctx.reactions, pause, self._telling, self._go_on, self._read)
        self._rendering = Rendering(workers)
        self.looking = Looking(ctx.clock, ctx.reactions, workers, self._rendering, self._acts)
        config = ctx.config
        self._places = Places(
            ctx.clock,
            lambda: max(int(config.reactor_worker_threads), 1),
            lambda: max(int(config.reactor_worker_hwm), 1),
        )
        # Votes, and rows on a disk, come for many at once
        self._claimed: Line[Deferred[None]] = Line(
            ctx.clock, lambda claimed: claimed.callback(None)
        )
        self._beginning = 0
        self._busy = False
        self._turn: Any = None

    # -- life --------------------------------------------------------------------------------

    def startService(self) -> None:
        """Listen, and check the configuration."""
        for kind in ("event", "reaction"):
            self._ctx.seams.claims.on_recover(kind, self._recover)
        self._intake.start()
        self._ctx.seams.kept.on_found(self._found)
        self._take_up()

    def stopService(self) -> None:
        """React to nothing more; reactions that have begun continue."""
        self._intake.stop()
        self._claimed.drain()
        self._places.stop()
        self._telling.stop()
        self.looking.stop()
        if self._turn is not None and self._turn.active():
            self._turn.cancel()
        self._turn = None

    def reconfigure(self, entries: bool) -> None:
        """
        Options have new values: templates are rendered with them.

        @param entries: whether C{reactor} is one of them.
        """
        self._workers.recycle(ENTRY)
        let_go(self._reconfigure(entries), self.log, "the reactor's entries could not be taken")

    async def _reconfigure(self, entries: bool) -> None:
        if entries:
            await self._reactions.reconfigure(self._clock, self._ctx.config.reactor)
        self._take_up()

    def _take_up(self) -> None:
        if self._reactions.has_changed():
            self._intake.hold()
        elif self._reactions.entries:
            let_go(self.looking.look(), self.log, "the reactor's SLS could not be looked at")

    def _read(self) -> None:
        let_go(self._read_map(), self.log, "the reactor's entries could not be read")

    async def _read_map(self) -> None:
        path = self._reactions.path
        try:
            found = await self._workers.call(ENTRY, {"do": "map", "path": path}, TIMEOUT)
        except SaltwistedError as error:
            found = {"error": str(error)}
        if "error" in found:
            self.log.error(
                "the reactor's entries cannot be read, and the previous ones stay in effect: "
                "{path}: {error}",
                path=path,
                error=found["error"],
            )
        else:
            await self._reactions.take(self._clock, found["value"])
        self._reactions.was_read()
        await self._intake.resume()
        await self.looking.look()

    # -- rendering ---------------------------------------------------------------------------

    def _go_on(self) -> None:
        """In a turn of its own: whoever fires an event does not wait for its reactions."""
        if self._turn is None and self._intake.queue and not self._busy:
            self._turn = self._clock.callLater(0, self._begin_turn)

    def _begin_turn(self) -> None:
        self._turn = None
        if not self._busy and self._beginning < MOST_BEGINNING:
            self._busy = True
            let_go(self._work(), self.log, "the reactor could not go on")

    async def _work(self) -> None:
        queue = self._intake.queue
        try:
            while queue and self._beginning < MOST_BEGINNING:
                batch = [self._intake.take() for _ in range(min(BATCH, len(queue)))]
                answers = await self._rendering.rendered(batch)
                async for waiting, answer in in_turns(self._clock, answers):
                    self._beginning += 1
                    let_go(self._react(waiting, answer), self.log, "a reaction failed")
        finally:
            self._busy = False
            self._go_on()

    # -- claiming and beginning --------------------------------------------------------------

    async def _react(self, waiting: Waiting, answer: Answer) -> None:
        claim: Claim | None = None
        begun: list[Deferred[str]] = []
        try:
            for sls, text in answer["problems"]:
                self._telling.fail(waiting, sls, text)
            steps = self._steps(waiting, answer["chunks"])
            claim = await self._claim(waiting, steps) if steps else None
            if claim is not None:
                claimed: Deferred[None] = Deferred()
                self._claimed.put(claimed)
                await claimed
                await self._begin(waiting, claim, steps, begun)
        finally:
            self._beginning -= 1
            self._go_on()
            let_go(self._end(waiting, claim, begun), self.log, "a reaction could not be ended")

    def _steps(self, waiting: Waiting, chunks: Sequence[Any]) -> list[Step]:
        once = {sls: entry.once for entry in waiting.entries for sls in entry.sls}
        # A glob names its files otherwise than its entry does: the careful choice counts
        other = AT_MOST if AT_MOST in once.values() else AT_LEAST
        steps: list[Step] = []
        for chunk in chunks:
            try:
                reaction = self._acts.settled(reaction_of(chunk))
            except ReactionError as error:
                name = f"{chunk.get('state')}.{chunk.get('fun')}"
                sls, id_ = str(chunk.get("__sls__")), str(chunk.get("__id__"))
                self._telling.fail(waiting, sls, str(error), id_, name)
                continue
            jid = self._ctx.dispatcher.new_jid() if reaction.kind == LOCAL else ""
            steps.append(step_of(reaction, once.get(reaction.sls, other), jid))
        return steps

    async def _claim(self, waiting: Waiting, steps: Sequence[Step]) -> Claim | None:
        """The claim, if this node is the one that acts."""
        age = self._clock.seconds() - waiting.since + waiting.age
        window = float(self._ctx.config.publish_window)
        if age > window:
            why = f"it waited for {age:.0f} s; publish_window is {window:.0f}"
            self._telling.lose(waiting.tag, why, waiting.link, "old")
            return None
        plan = {
            "tag": waiting.tag,
            "trace": waiting.link.trace,
            "generation": waiting.link.generation,
            "at": self._ctx.now(),
            "steps": list(steps),
        }
        what = ", ".join(f"{step['kind']}.{step['fun']}" for step in steps)[:SHOWN]
        if waiting.asked:
            plan["asked"] = waiting.asked
            what = f"{what}, for {waiting.asked}"
        claims, tag, data = self._ctx.seams.claims, waiting.tag, waiting.data
        if not waiting.of:
            key = f"reaction/{self._intake.boot}/{waiting.number}/{waiting.part}"
            answer = await claims.begin(key, plan, what, tag)
        else:
            came, kept = None, waiting.kept
            if kept is not None:
                source = kept.source if waiting.age > 0 else ""
                age = self._clock.seconds() - waiting.came
                came = Came(key=kept.key, source=source, age=age, row=kept.row)
            tag, data = occasion_for(waiting.of, tag, data, waiting.part)
            answer = await claims.begin_event(waiting.of, tag, data, plan, what, came)
        if isinstance(answer, Taken):
            self._telling.figures["taken"] += 1
            return None
        if isinstance(answer, NoMajority):
            self._telling.lose(waiting.tag, answer.why, waiting.link, "claim")
            return None
        assert isinstance(answer, Claim)
        self._telling.figures["reacted"] += 1
        if waiting.kept is not None:
            # From here on the claim says what is to be done
            self._ctx.seams.kept.done(waiting.kept)
        return answer

    async def _begin(
        self,
        waiting: Waiting,
        claim: Claim,
        steps: Sequence[Step],
        begun: list[Deferred[str]],
    ) -> None:
        """One step after the other; a job is published before the next begins."""
        for step in steps:
            if not self._ctx.seams.claims.holds(claim):
                why = "this process stood still for longer than its claim held"
                self._telling.lose(waiting.tag, why, waiting.link, "claim")
                break
            begun.append(await self._step(waiting, step))

    async def _step(self, waiting: Waiting, step: Step, again: bool = False) -> Deferred[str]:
        """
        Begin one step; fires with what became of it.

        @param again: it was perhaps begun before, by a life that is over.
        """
        link = waiting.link
        reacts(local(str(self._ctx.config.user)), waiting.tag, waiting.asked)
        if step["kind"] != LOCAL:
            if not self._places.has_room(waiting.owner):
                self._lose_call(waiting, step)
                return succeed(LOST)
            self._telling.run(waiting, step)
            return self._places.run(
                waiting.owner,
                lambda: self._call(waiting, step),
                lambda: self._lose_call(waiting, step),
            )
        jid = step["jid"]
        self._intake.chains.began(jid, link)
        self._telling.run(waiting, step)
        try:
            ended = await self._acts.publish(step["load"], jid, waiting.has_line, again)
        except ReactionError as error:
            self._telling.fail(waiting, step["sls"], str(error), step["id"], f"local.{step['fun']}")
            return succeed(f"failed: {error}")
        return ended

    def _lose_call(self, waiting: Waiting, step: Step) -> None:
        why = (
            f"too many calls wait already: {step['kind']} '{step['fun']}' is not begun; "
            "see reactor_worker_threads and reactor_worker_hwm"
        )
        self._telling.lose(waiting.tag, why, waiting.link, "hwm", waiting.owner)

    async def _call(self, waiting: Waiting, step: Step) -> str:
        link = waiting.link
        cause = Link(link.trace, link.generation + 1)
        kind, fun = step["kind"], step["fun"]
        # In a context of its own, since it may have waited for a place
        reacts(Who(USER, MASTER), waiting.tag, waiting.asked)
        try:
            await self._acts.call(kind, fun, list(step["arg"]), dict(step["kwarg"]), cause)
        except ReactionError as error:
            self._telling.fail(waiting, step["sls"], str(error), step["id"], f"{kind}.{fun}")
            return f"failed: {error}"
        return "done"

    async def _end(
        self, waiting: Waiting, claim: Claim | None, begun: Sequence[Deferred[str]]
    ) -> None:
        results = []
        try:
            for step in begun:
                results.append(await step)
        finally:
            self._intake.ended(waiting)
            if waiting.kept is not None:
                self._ctx.seams.kept.done(waiting.kept)
        if claim is not None:
            await self._ctx.seams.claims.end(claim, "; ".join(results)[:RESULT] or "lost")

    # -- what a dead node had begun ----------------------------------------------------------

    def _found(self, kept: Kept, age: float) -> None:
        """An event is left by a life of a node that is over."""
        try:
            data = unpack_bin(kept.data)
            if not isinstance(data, dict):
                raise WireError("kept-event")
        except WireError:
            self._lose_found(kept, "what is written down of it is damaged")
            return
        window = float(self._ctx.config.publish_window)
        if not 0 <= age <= window:
            why = f"{kept.node} died, and it is {age:.0f} s old; publish_window is {window:.0f}"
            # Of the time of day nothing else is believed than that it is not within the window
            given_up = self._give_up(kept, data, age if kept.heard is not None else None, why)
            let_go(given_up, self.log, "an event was not given up")
            return
        self._telling.figures["taken_up"] += 1
        self._intake.take_up(kept, data, max(age, 0.001))

    async def _give_up(
        self, kept: Kept, data: Mapping[str, Any], age: float | None, why: str
    ) -> None:
        """It is too old, and lost if nobody has claimed it: that may have gone unheard here."""
        claims = self._ctx.seams.claims
        came = Came(key=kept.key, source=kept.source, age=age, row=kept.row)
        plan = {"tag": kept.tag, "steps": []}
        tag, data = occasion_for(kept.minion, kept.tag, data, kept.part)
        answer = await claims.begin_event(kept.minion, tag, data, plan, "nothing", came)
        if isinstance(answer, Taken):
            self._ctx.seams.kept.done(kept)
            return
        self._lose_found(kept, why)
        if isinstance(answer, Claim):
            await claims.end(answer, "lost")

    def _lose_found(self, kept: Kept, why: str) -> None:
        self._telling.lose(kept.tag, why, Link(kept.source), "old")
        self._ctx.seams.kept.done(kept)

    async def _recover(self, key: str, plan: Mapping[str, Any], claim: Any) -> None:
        """Finish what another node, or this one before its start, had claimed, if that is safe."""
        if "steps" not in plan or "tag" not in plan:
            return
        link = Link(str(plan.get("trace", "")), int(plan.get("generation", 0)))
        asked = str(plan.get("asked", ""))
        waiting = Waiting(tag=str(plan["tag"]), data={}, link=link, asked=asked)
        late = self._ctx.now() - float(plan.get("at", 0)) > float(self._ctx.config.publish_window)
        # Where it cannot be told what was begun, another job might be given than was given then
        late = late or claim.is_doubtful
        begun: list[Deferred[str]] = []
        for step in plan["steps"]:
            # Minions know the jid of a job: who has run it does not run it again
            again = not late if step["kind"] == LOCAL else step.get("once") == AT_LEAST
            if again:
                begun.append(await self._step(waiting, step, again=True))
            else:
                why = f"the node that did {step['kind']} '{step['fun']}' has died in it"
                self._telling.lose(waiting.tag, why, link, "died")
                begun.append(succeed("lost"))
        await self._end(waiting, claim, begun)

    # -- telling -----------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Figures for the status."""
        oldest = min(self._intake.oldest, self._places.oldest)
        return {
            "entries": len(self._reactions.entries),
            "problems": [*self._reactions.problems, *self.looking.findings],
            "depth": self._intake.depth + self._places.depth,
            "oldest": round(self._clock.seconds() - oldest, 3),
            "running": self._places.running + self._beginning,
            "figures": dict(self._telling.figures),
            "paused": self._pause.shown(),
        }
