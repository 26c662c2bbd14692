"""
What is wrong with the roots of a node: rules from what it says of itself to findings.

One place for C{saltwisted status}, C{doctor} and C{roots status}. The facts are the answer to
C{roots status} (L{saltwisted.cluster.roots.control}), as plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saltwisted import advice
from saltwisted.domain.doctor import Finding, Severity
from saltwisted.words import are, counted

FORBIDDEN = ("Permission denied", "Operation not permitted")
"""What the system says of a file that is another user's."""
LAG = 100
"""Changes behind which somebody ought to know; fewer are on their way at any moment."""


def roots(status: Mapping[str, Any]) -> Iterator[Finding]:
    """All that is wrong, and what a person may want to know though nothing is."""
    if status.get("clock"):
        yield Finding(
            id="roots.clock",
            severity=Severity.ERROR,
            text=f"roots: {status['clock']}; changes made here wait",
            advice=advice.of("clock.wrong"),
        )
    for name, share in (status.get("shares") or {}).items():
        yield from of_share(str(name), share)
    yield from _left_out(status.get("left_out") or {})
    for node, peer in (status.get("peers") or {}).items():
        yield from _of_peer(str(node), peer)


def of_share(name: str, share: Mapping[str, Any]) -> Iterator[Finding]:
    """One directory that is replicated to all masters."""
    yield from _held_up(name, share)
    yield from _left_paths(name, share)
    yield from _bad_disk(name, share)
    if share.get("alarm"):
        yield Finding(
            id="roots.alarm", severity=Severity.ERROR, text=f"{name}: alarm: {share['alarm']}"
        )
    if share.get("error"):
        yield Finding(id="roots.error", severity=Severity.WARNING, text=f"{name}: {share['error']}")
    yield from _notes(name, share)


def _held_up(name: str, share: Mapping[str, Any]) -> Iterator[Finding]:
    """What waits for somebody: the share itself, deletions, conflicts."""
    if share.get("suspended"):
        yield Finding(
            id="roots.suspended",
            severity=Severity.ERROR,
            text=f"{name} is suspended: {share['suspended']}",
            evidence=[
                f"changes in {share.get('root')} are not sent to the other "
                "members, and theirs are not written there; what was committed is still served"
            ],
            advice=advice.of("roots.suspended", share=name),
        )
    if not share.get("ready", True):
        yield Finding(
            id="roots.waiting",
            severity=Severity.WARNING,
            text=f"{name} waits for the cluster's tree",
            advice=advice.of("members.look"),
        )
    if share.get("held"):
        yield Finding(
            id="roots.held",
            severity=Severity.WARNING,
            text=f"{name}: {are(int(share['held']), 'deletion')} held until somebody approves",
            advice=advice.of("roots.held", share=name),
        )
    for origin, why in (share.get("held_from") or {}).items():
        yield Finding(
            id="roots.held",
            severity=Severity.WARNING,
            text=f"{name}: the changes of {origin} are held: {why}",
            node=str(origin),
            advice=advice.of("roots.held-there", node=origin),
        )
    if share.get("conflicts"):
        yield Finding(
            id="roots.conflict",
            severity=Severity.WARNING,
            text=f"{name}: {counted(int(share['conflicts']), 'open conflict')}",
            advice=advice.of("roots.conflicts", share=name),
        )


def _left_paths(name: str, share: Mapping[str, Any]) -> Iterator[Finding]:
    """Paths that are not taken in, or not written."""
    unread = share.get("unread") or {}
    unread_count = max(int(share.get("unread_count") or 0), len(unread))
    if unread:
        root, user = str(share.get("root") or ""), str(share.get("user") or "")
        yield Finding(
            id="roots.unread",
            severity=Severity.ERROR,
            text=f"{name}: {counted(unread_count, 'path')} cannot be read here; what is in "
            + ("it" if unread_count == 1 else "them")
            + " is not replicated",
            evidence=_pairs(unread),
            advice=advice.of("roots.access", user=user, root=root)
            if root and user and any(why in FORBIDDEN for why in unread.values())
            else None,
        )
    skipped = {p: why for p, why in (share.get("skipped") or {}).items() if p not in unread}
    # Of both, no more than a hundred are named
    count = max(int(share.get("skipped_count") or 0) - unread_count, len(skipped))
    if count:
        yield Finding(
            id="roots.skipped",
            severity=Severity.WARNING,
            text=f"{name}: {are(count, 'path')} not replicated",
            evidence=_pairs(skipped),
        )
    failed = share.get("failed") or {}
    if failed:
        yield Finding(
            id="roots.unwritten",
            severity=Severity.ERROR,
            text=f"{name}: {counted(len(failed), 'path')} cannot be written here",
            evidence=_pairs(failed),
        )


def _bad_disk(name: str, share: Mapping[str, Any]) -> Iterator[Finding]:
    """What the disk does not give back as it was written."""
    rotten = share.get("rotten") or ()
    if rotten:
        yield Finding(
            id="roots.rotten",
            severity=Severity.ERROR,
            text=f"{name}: {counted(len(rotten), 'file')} changed on disk although nobody wrote "
            + ("it" if len(rotten) == 1 else "them"),
            evidence=list(rotten),
            advice=advice.of("disk.fails"),
        )
    damaged = share.get("damaged") or ()
    if damaged:
        count = max(int(share.get("damaged_count") or 0), len(damaged))
        yield Finding(
            id="roots.damaged",
            severity=Severity.ERROR,
            text=f"{name}: {are(count, 'content')} damaged on disk, and fetched from the other "
            "members",
            evidence=list(damaged),
            advice=advice.of("disk.fails"),
        )


def _notes(name: str, share: Mapping[str, Any]) -> Iterator[Finding]:
    """What is as it should be, and looks odd."""
    if share.get("pending"):
        yield Finding(
            id="roots.pending",
            severity=Severity.NOTE,
            text=f"{name}: changes are being taken in",
        )
    kept = share.get("kept") or ()
    if kept:
        yield Finding(
            id="roots.kept",
            severity=Severity.NOTE,
            text=f"{name}: removed elsewhere, but not here, where other files are in "
            + ("it" if len(kept) == 1 else "them"),
            evidence=list(kept),
        )
    hot = share.get("hot") or {}
    if hot:
        yield Finding(
            id="roots.hot",
            severity=Severity.NOTE,
            text=f"{name}: {are(len(hot), 'file')} changing all the time",
            evidence=[f"{path}: taken in every {pause:.2g} s" for path, pause in hot.items()],
        )


def _left_out(left_out: Mapping[str, str]) -> Iterator[Finding]:
    if left_out:
        yield Finding(
            id="roots.not-replicated",
            severity=Severity.NOTE,
            text=f"{are(len(left_out), 'root')} not replicated",
            evidence=_pairs(left_out),
        )


def _of_peer(node: str, peer: Mapping[str, Any]) -> Iterator[Finding]:
    if peer.get("error"):
        yield Finding(
            id="roots.peer",
            severity=Severity.WARNING,
            text=f"roots of {node}: {peer['error']}",
            node=node,
            advice=advice.of("roots.look"),
        )
    shares = (peer.get("shares") or {}).values()
    lacks, ahead = (sum(int(one.get(way) or 0) for one in shares) for way in ("lacks", "ahead"))
    for count, text in (
        (lacks, f"{are(lacks, 'change')} missing on {node}"),
        (ahead, f"{are(ahead, 'change')} missing here that {node} has"),
    ):
        if count:
            yield Finding(
                id="roots.lag",
                severity=Severity.WARNING if count > LAG else Severity.NOTE,
                text=f"roots: {text}",
                advice=advice.of("roots.wait"),
            )


def _pairs(reasons: Mapping[str, str]) -> Sequence[str]:
    return [f"{path}: {why}" for path, why in reasons.items()]
