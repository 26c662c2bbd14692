"""
Checks what is configured before an event arrives, and tries out what an event would trigger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.domain.reactions.entries import Entry
from saltwisted.domain.reactions.reaction import Reaction, ReactionError, reaction_of
from saltwisted.errors import RemoteError, SaltwistedError
from saltwisted.master.automation.acts import Acts, step_of
from saltwisted.master.automation.reactions import NOT_RUNNING, Reactions
from saltwisted.master.automation.rendering import ENTRY, TIMEOUT, Rendering
from saltwisted.master.automation.telling import Waiting
from saltwisted.master.workers import WorkerPool
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.turns import in_turns

LOOK_AGAIN = 30.0
"""Seconds until files in which something was wrong are looked at again."""


class Looking:
    """
    Reactor thread only.

    @ivar findings: the errors in the SLS files, a sentence each.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        reactions: Reactions,
        workers: WorkerPool,
        rendering: Rendering,
        acts: Acts,
    ) -> None:
        self._clock = clock
        self._reactions = reactions
        self._workers = workers
        self._rendering = rendering
        self._acts = acts
        self.findings: list[str] = []
        self._again: IDelayedCall | None = None
        self._looking = self._asked = False
        self._running = True

    def stop(self) -> None:
        """Look no more."""
        self._running = False
        self._sleep(None)

    def _sleep(self, seconds: float | None) -> None:
        again, self._again = self._again, None
        if again is not None and again.active():
            again.cancel()
        if seconds is not None and self._running:
            self._again = self._clock.callLater(seconds, self._look_again)

    def _look_again(self) -> None:
        self._again = None
        let_go(self.look(), self.log, "the reactor's SLS could not be looked at again")

    async def look(self) -> None:
        """
        Check all SLS files; errors go to the log. While there are any it is looked again from time
        to time: who has mended a file shall not be told of it for ever.
        """
        if self._looking:
            self._asked = True
            return
        self._looking = True
        self._sleep(None)
        try:
            await self._look()
        finally:
            self._looking = False
            asked, self._asked = self._asked, False
            if asked or self.findings:
                self._sleep(0 if asked else LOOK_AGAIN)

    async def _look(self) -> None:
        wanted = wanted_of(self._reactions.entries)
        if not wanted:
            self.findings = []
            return
        asked = [[sls, entry.saltenv, sample] for entry, sls, sample in wanted]
        try:
            answers = await self._workers.call(ENTRY, {"do": "look", "sls": asked}, TIMEOUT)
        except SaltwistedError as error:
            self.log.error(
                "the reactor's SLS files could not be checked: {error}", error=str(error)
            )
            return
        said: dict[str, None] = {}
        findings = (
            (entry, finding)
            for (entry, _, _), found in zip(wanted, answers, strict=True)
            for finding in found
        )
        async for entry, finding in in_turns(self._clock, findings):
            text = judged(entry, finding, self._acts.settled)
            if text:
                if text not in said and text not in self.findings:
                    self.log.error("{text}", text=text)
                said[text] = None
        for text in self.findings:
            if text not in said:
                self.log.info("no longer: {text}", text=text)
        self.findings = list(said)

    async def trial(self, tag: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """
        What an event would trigger; nothing runs.

        @raises RemoteError: there is no reactor.
        """
        if not self._reactions.configured:
            raise RemoteError("CommandExecutionError", NOT_RUNNING)
        entries = tuple(self._reactions.matching(tag))
        found: dict[str, Any] = {
            "tag": tag,
            "entries": [{"tag": each.tag, "sls": list(each.sls)} for each in entries],
            "reactions": [],
            "problems": [],
        }
        if not entries:
            return found
        waiting = Waiting(tag=tag, data=data, entries=entries)
        ((_, answer),) = await self._rendering.rendered([waiting])
        problems = found["problems"]
        problems += [{"sls": sls, "error": text} for sls, text in answer["problems"]]
        for chunk in answer["chunks"]:
            try:
                step = step_of(self._acts.settled(reaction_of(chunk)), "")
            except ReactionError as error:
                where = {"sls": chunk.get("__sls__"), "id": chunk.get("__id__")}
                problems.append({**where, "error": str(error)})
                continue
            found["reactions"].append({k: v for k, v in step.items() if k not in ("jid", "once")})
        return found


def wanted_of(entries: Iterable[Entry]) -> list[tuple[Entry, str, dict[str, Any] | None]]:
    """Each SLS of each entry, with a sample of its events if it has one."""
    return [(entry, sls, _sample_of(entry)) for entry in entries for sls in entry.sls]


def judged(
    entry: Entry, finding: Mapping[str, Any], settled: Callable[[Reaction], Reaction]
) -> str:
    """
    What is wrong with one finding of a worker, as a sentence, or C{""}.

    @param settled: as L{Acts.settled}.
    """
    text = _wrong(finding, settled)
    line = f", line {finding['line']}" if finding.get("line") else ""
    return text and f"reactor, {entry.tag}: {finding['sls']}{line}: {text}"


def _wrong(finding: Mapping[str, Any], settled: Callable[[Reaction], Reaction]) -> str:
    if "problem" in finding:
        return str(finding["problem"])
    try:
        if "chunk" in finding:
            settled(reaction_of(finding["chunk"]))
        else:
            kind, fun = finding["call"]
            loose = dict.fromkeys(finding["names"])
            settled(Reaction(kind=kind, fun=fun, id="", sls="", loose=loose))
    except ReactionError as error:
        return str(error)
    return ""


def _sample_of(entry: Entry) -> dict[str, Any] | None:
    if entry.sample is None:
        return None
    return {"tag": str(entry.sample.get("tag") or entry.tag), "data": dict(entry.sample["data"])}
