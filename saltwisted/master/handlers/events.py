"""
C{_minion_event}: puts events of minions on the master's bus.

A minion may fire any tag of its own making, but below C{salt/} only what stock's minions fire about
themselves (T-EVT-1, T-EVT-4): other events are dropped, counted and named in the log, and the rest
of the request is served. C{minion_events} says which of its own tags it may use (T-EVT-3), and may
open more of those below C{salt/}.

An event that triggers a reaction is acknowledged like a return: when it is on this disk, and on
another node's or after a second without that (C{IKeptEvents}). If the disk refuses, there is no
answer.

The texts about a secret job, or in it, are removed here from a minion's event before anybody
receives it (L{saltwisted.domain.secrecy}).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from saltwisted.domain.api.pieces import room_after
from saltwisted.domain.brief import brief
from saltwisted.domain.events import MAX_TAG, rough_weight
from saltwisted.domain.minionevents import refusal
from saltwisted.domain.reactions.keeping import occasion_for
from saltwisted.domain.secrecy import firing_job, is_secret, telling_event, told_event
from saltwisted.domain.who import MINION, Who
from saltwisted.errors import StoreError
from saltwisted.master.context import Context
from saltwisted.master.permits import tell_refusal
from saltwisted.transports.deferreds import as_deferred
from saltwisted.transports.turns import in_turns, stepped
from saltwisted.wire.commands import MinionEvent, RegisterResources

Events = Sequence[tuple[str, dict[str, Any]]]
Wanted: TypeAlias = tuple[str, str, Mapping[str, Any], Mapping[int, str]]
"""What is to be kept: minion, tag, data, and part to key."""

_GONE: tuple[str, dict[str, Any]] = ("", {})
AT_ONCE = 1000
"""Values of a request whose events are fired at once: a millisecond, whoever listens."""
TOGETHER, TOGETHER_BYTES = 64, 128 * 1024
"""Events, and about how many bytes of them, that are written down in one turn."""
LOOKED_UP = 256
"""Jobs of which one request can make a master read the records; those of others are secret."""


def minion_event(ctx: Context, who: str, cmd: MinionEvent) -> Any:
    """
    Fire the event, or each of a list; the single form carries the whole load, as in Salt.

    What has many events, or much in them, is shared out in turns of the reactor, while the answer
    waits.

    @raises StoreError: through the Deferred, when an event that is reacted to cannot be kept.
    """
    if room_after(cmd.load, AT_ONCE) < 0:
        return ctx.long_work.do(who, partial(_many, ctx, who, cmd))
    events = [event for event in _events(cmd) if _may_fire(ctx, who, event[0])]
    jobs = {jid for tag, data in events if (jid := firing_job(tag, data))}
    unknown = [jid for jid in jobs if ctx.publisher.secrets.find(jid) is None]
    if not unknown:
        return _heard(ctx, who, events, jobs)
    looked_up = as_deferred(_look_up(ctx, unknown))
    return looked_up.addCallback(lambda _: _heard(ctx, who, events, jobs))


async def _look_up(ctx: Context, jids: Collection[str]) -> None:
    """Learn of jobs that did not go out here since the start; what cannot be read stays unknown."""
    for jid in jids:
        with suppress(StoreError):
            job = await ctx.jobs.job(jid)
            ctx.publisher.secrets.note(jid, job is not None and is_secret(job))


def _heard(ctx: Context, who: str, events: Events, jobs: Collection[str]) -> Any:
    find = ctx.publisher.secrets.find
    secret = {jid for jid in jobs if find(jid) is not False}
    if secret:
        events = [
            told_event(tag, data) if firing_job(tag, data) in secret else (tag, data)
            for tag, data in events
        ]
    if not ctx.reactions.configured:
        for tag, data in events:
            ctx.bus.fire(tag, data, sender=who)
        return None
    unread = ctx.reactions.until_read()
    if unread is not None:
        return unread.addCallback(lambda _: _take(ctx, who, events))
    return _take(ctx, who, events)


def _events(cmd: MinionEvent) -> Iterator[tuple[str, dict[str, Any]]]:
    return (event for event in _each(cmd) if event is not None)


def _each(cmd: MinionEvent) -> Iterator[tuple[str, dict[str, Any]] | None]:
    """The events; C{None} in the place of what is none."""
    if cmd.events is None:
        if cmd.tag:
            yield cmd.tag, cmd.load
        return
    # What is too long for a tag stands before none: it would be copied for each event
    before = f"{cmd.pretag[: MAX_TAG + 1]}/" if cmd.pretag else ""
    for event in cmd.events:
        tag = event.get("tag") if isinstance(event, dict) else None
        if not isinstance(tag, str) or not tag:
            yield None
            continue
        # An entry without data is its own data, as in Salt
        data = event.get("data", event)
        yield before + tag, data if isinstance(data, dict) else {"data": data}


def _may_fire(ctx: Context, who: str, tag: str, tells: bool = True) -> bool:
    """@param tells: whether the log says it if it may not."""
    refused = refusal(ctx.config.minion_events, who, tag)
    if refused is None:
        return True
    ctx.counters[refused.counter] += 1
    if tells:
        told = f"fire {brief(tag)}"
        tell_refusal(ctx, Who(who, MINION), told, refused.source, refused.advice)
    return False


def _take(ctx: Context, who: str, events: Events) -> Any:
    """Fire them, when those that are reacted to are written down."""
    keys = [_keys(ctx, who, tag, data) for tag, data in events]
    matched = [at for at, found in enumerate(keys) if found]
    if not matched:
        for tag, data in events:
            ctx.bus.fire(tag, data, sender=who)
        return None
    wanted = [(who, *events[at], keys[at]) for at in matched]
    kept = as_deferred(ctx.seams.kept.keep(wanted))

    def stored(owed: Sequence[Any]) -> Any:
        known = dict(zip(matched, owed, strict=True))
        for at, (tag, data) in enumerate(events):
            ctx.bus.fire(tag, data, sender=who, owed=known.get(at))
        return ctx.seams.kept.copied(owed)

    def refused(failure: Failure) -> Failure:
        _give_back(ctx, wanted)
        return failure

    return kept.addCallbacks(stored, refused)


def _give_back(ctx: Context, wanted: Sequence[Wanted]) -> None:
    """Nobody claims what was not kept."""
    for _, _, _, found in wanted:
        for key in found.values():
            ctx.seams.claims.keys.back(key)


def _keys(ctx: Context, who: str, tag: str, data: Mapping[str, Any]) -> dict[int, str]:
    """What is claimed for each part of the reaction to an event; nothing where nobody reacts."""
    parts = ctx.reactions.parts(tag)
    if not parts or rough_weight(data) > int(ctx.config.max_event_size):
        # One that is too large is said as lost
        return {}
    found = {}
    for part in parts:
        key = ctx.seams.claims.keys.of(who, *occasion_for(who, tag, data, part))
        if key is not None:
            found[part] = key
    return found


# -- many at once -------------------------------------------------------------------


async def _many(ctx: Context, who: str, cmd: MinionEvent) -> None:
    """
    As L{minion_event}, in turns. All that is reacted to is on disk before anything is fired, as
    with few events: if the disk refuses, the minion sends all of it again.

    @raises StoreError: an event that is reacted to cannot be kept.
    """
    clock = ctx.clock
    events: list[tuple[str, dict[str, Any]]] = []
    secret: dict[str, bool | None] = {}
    is_told = False
    async for event in in_turns(clock, _each(cmd)):
        if event is None:
            continue
        tag, data = event
        # The log says the first one: a list has a hundred thousand
        if not _may_fire(ctx, who, tag, not is_told):
            is_told = True
            continue
        events.append((tag, data))
        if jid := firing_job(tag, data):
            secret[jid] = ctx.publisher.secrets.find(jid)
    await _look_up(ctx, list(islice((jid for jid in secret if secret[jid] is None), LOOKED_UP)))
    async for jid in in_turns(clock, secret):
        secret[jid] = ctx.publisher.secrets.find(jid)
    await stepped(clock, _hiding(events, secret))
    if not ctx.reactions.configured:
        async for _, tag, data in in_turns(clock, _one_by_one(events)):
            ctx.bus.fire(tag, data, sender=who)
        return
    unread = ctx.reactions.until_read()
    if unread is not None:
        await unread
    asked: list[tuple[Collection[int], Deferred[Sequence[Any]]]] = []
    async for some in in_turns(clock, _portions(ctx, who, events)):
        if some:
            asked.append((list(some), _kept(ctx, list(some.values()))))
    portions: list[Sequence[Any]] = []
    known_as: dict[int, Any] = {}
    wrong: StoreError | None = None
    for places, keeping in asked:
        try:
            owed = await keeping
        except StoreError as error:
            wrong = error
            continue
        portions.append(owed)
        known_as.update(zip(places, owed, strict=True))
    if wrong is not None:
        # It is owed to nobody: the minion comes again with all of it
        async for row in in_turns(clock, _rows_of(portions)):
            ctx.seams.claims.keys.back(row.key)
            ctx.seams.kept.done(row)
        for owed in portions:
            ctx.seams.kept.copied(owed)
        raise wrong
    async for at, tag, data in in_turns(clock, _one_by_one(events)):
        ctx.bus.fire(tag, data, sender=who, owed=known_as.pop(at, None))
    copied = [ctx.seams.kept.copied(owed) for owed in portions]
    for each in copied:
        if each is not None:
            await each


def _one_by_one(
    events: list[tuple[str, dict[str, Any]]],
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Places, tags and data; each is let go: to free all of them at once takes long as well."""
    for at, (tag, data) in enumerate(events):
        events[at] = _GONE
        yield at, tag, data


def _hiding(
    events: list[tuple[str, dict[str, Any]]], secret: Mapping[str, bool | None]
) -> Generator[None, None, None]:
    """Put stars into what is about jobs of which it is not known that they are not secret."""
    for at, (tag, data) in enumerate(events):
        if secret.get(firing_job(tag, data), False) is not False:
            events[at] = yield from telling_event(tag, data)
        yield


def _portions(ctx: Context, who: str, events: Events) -> Iterator[Mapping[int, Wanted]]:
    """
    Those that are reacted to, by their places in the list, as many together as are written down in
    a short time; an empty portion where a step has found none.
    """
    some: dict[int, Wanted] = {}
    size = 0
    for at, (tag, data) in enumerate(events):
        found = _keys(ctx, who, tag, data)
        if found:
            some[at] = (who, tag, data, found)
            size += rough_weight(data)
        if len(some) >= TOGETHER or size >= TOGETHER_BYTES:
            yield some
            some, size = {}, 0
        else:
            yield {}
    yield some


def _kept(ctx: Context, wanted: Sequence[Wanted]) -> Deferred[Sequence[Any]]:
    def refused(failure: Failure) -> Failure:
        _give_back(ctx, wanted)
        return failure

    kept: Deferred[Sequence[Any]] = as_deferred(ctx.seams.kept.keep(wanted))
    return kept.addErrback(refused)


def _rows_of(portions: Sequence[Sequence[Any]]) -> Iterator[Any]:
    return (row for owed in portions for each in owed for row in each.parts.values())


def register_resources(ctx: Context, who: str, cmd: RegisterResources) -> bool:
    """A 3008 minion names its resources at start; they are recorded, and not managed."""
    return True
