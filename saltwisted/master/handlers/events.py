"""
C{_minion_event}: puts events of minions on the master's bus.

A minion may fire any tag of its own making, but no tag in the name of a master, a job or another
minion (T-EVT-1): such events are dropped and counted, and the rest of the request is served.
C{minion_events} says which of its own tags it may use (T-EVT-3).

An event that triggers a reaction is acknowledged like a return: when it is on this disk, and on
another node's or after a second without that (C{IKeptEvents}). If the disk refuses, there is no
answer.

The texts about a secret job, or in it, are removed here from a minion's event before anybody
receives it (L{saltwisted.domain.secrecy}).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from twisted.python.failure import Failure

from saltwisted.domain.acl import minion_may_say
from saltwisted.domain.events import minion_may_fire, weight
from saltwisted.domain.firing import of_salt
from saltwisted.domain.reactions.keeping import occasion_for
from saltwisted.domain.secrecy import firing_job, is_secret, told_event
from saltwisted.errors import StoreError
from saltwisted.master.context import Context
from saltwisted.master.permits import tell_refusal
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.commands import MinionEvent, RegisterResources

Events = Sequence[tuple[str, dict[str, Any]]]


def minion_event(ctx: Context, who: str, cmd: MinionEvent) -> Any:
    """
    Fire the event, or each of a list; the single form carries the whole load, as in Salt.

    @raises StoreError: through the Deferred, when an event that is reacted to cannot be kept.
    """
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
    if cmd.events is None:
        if cmd.tag:
            yield cmd.tag, cmd.load
        return
    for event in cmd.events:
        if not isinstance(event, dict):
            continue
        tag = event.get("tag")
        if not isinstance(tag, str) or not tag:
            continue
        # An entry without data is its own data, as in Salt
        data = event.get("data", event)
        if cmd.pretag:
            tag = f"{cmd.pretag}/{tag}"
        yield tag, data if isinstance(data, dict) else {"data": data}


def _may_fire(ctx: Context, who: str, tag: str) -> bool:
    if not minion_may_fire(who, tag):
        ctx.counters["dropped:event"] += 1
        return False
    if not of_salt(tag) and not minion_may_say(ctx.config.minion_events, who, tag):
        ctx.counters["denied:event"] += 1
        tell_refusal(ctx, f"minion {who}", f"fire {tag}", "minion_events")
        return False
    return True


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
        for _, _, _, found in wanted:
            for key in found.values():
                ctx.seams.claims.keys.back(key)
        return failure

    return kept.addCallbacks(stored, refused)


def _keys(ctx: Context, who: str, tag: str, data: Mapping[str, Any]) -> dict[int, str]:
    """What is claimed for each part of the reaction to an event; nothing where nobody reacts."""
    parts = ctx.reactions.parts(tag)
    if not parts or weight(data) > int(ctx.config.max_event_size):
        # One that is too large is said as lost
        return {}
    found = {}
    for part in parts:
        key = ctx.seams.claims.keys.of(who, *occasion_for(who, tag, data, part))
        if key is not None:
            found[part] = key
    return found


def register_resources(ctx: Context, who: str, cmd: RegisterResources) -> bool:
    """A 3008 minion names its resources at start; they are recorded, and not managed."""
    return True
