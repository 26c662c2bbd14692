"""
What a history must be like. Pure: lines in, violations out; the lines are those of
L{tests.nemesis.history}, the invariants those of C{docs/replication.md}.

It knows what operators and minions are promised, and nothing of how that is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]

ALONE_AFTER = 0.9
"""Seconds after which one node may acknowledge by itself; a little less, for two clocks."""
REVOKES = {"reject": "minions_rejected", "delete": ""}
ACTS = ("accept", *REVOKES)
PENDING = "minions_pre"
CALM_BEFORE = 10.0
"""Seconds without a blow after which every minion is connected again."""
CALM_AFTER = 2.0
"""Seconds in which a job comes to every minion that is connected."""
FAR = 600.0
"""Seconds of a clock's error beyond which the order of what has no other order is not promised."""


class History:
    """Questions about a history that all invariants have."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)
        self.nodes: list[str] = self.of("run")[0]["nodes"]
        self.disks = self.of("disk")
        self.settled = self.of("settled")
        self.faults = self.of("fault")
        self.away = self.of("outside")
        self.seen: dict[str, Record] = {r["node"]: r["value"] for r in self.of("seen")}

    def of(self, kind: str) -> list[Record]:
        """The lines of a kind."""
        return [record for record in self.records if record["kind"] == kind]

    def ops(self, *names: str) -> list[Record]:
        """What was asked, and not told that nothing was done; by the beginning."""
        found = [r for r in self.of("op") if r["op"] in names and r["result"] != "none"]
        return sorted(found, key=lambda record: float(record["t"]))

    def sure(self, op: Record) -> bool:
        """Whether it was acknowledged and may not vanish."""
        return op["result"] == "ok" and not self.excused(op)

    def excused(self, op: Record) -> bool:
        """
        Whether one node alone had it, and that one's disk was lost before others had it; or it was
        asked of one that was no member.
        """
        return self.outside(op) or any(
            self.alone(op, node) and bool(self.disk_lost(node, op["e"], op["t"]))
            for node in ([op["node"]] if op["node"] else self.nodes)
        )

    def outside(self, op: Record) -> bool:
        """Whether the node that was asked was no member then."""
        return any(
            away["node"] == op["node"] and away["t"] <= op["e"] and op["t"] <= away["e"]
            for away in self.away
        )

    def alone(self, op: Record, node: str) -> bool:
        """Whether this node acknowledged, and may have been the only one that had it."""
        if "alone" in op:
            return bool(op["alone"])
        if op["e"] - op["t"] >= ALONE_AFTER:
            return True
        return all(
            self.apart(node, other, op["t"], op["e"]) for other in self.nodes if other != node
        )

    def apart(self, one: str, two: str, begin: float, end: float) -> bool:
        """Whether these two may have been unable to talk at some time in between."""
        return any(
            {one, two} in [set(pair) for pair in fault["pairs"]]
            and fault["t"] <= end
            and begin <= fault["e"]
            for fault in self.faults
        )

    def disk_lost(self, node: str, had: float, since: float) -> list[Record]:
        """The losses of a node's disk that what it had may be among, unless all had it by then."""
        return [
            loss
            for loss in self.disks
            if loss["node"] == node
            and loss["t"] >= since
            and loss["back"] <= had
            and not self.everywhere(had, loss["t"])
        ]

    def everywhere(self, done: float, at: float) -> bool:
        """Whether what was done then was seen to be on all nodes before some moment."""
        return any(s["asked"] >= done and s["t"] <= at for s in self.settled)

    def surely_saw(self, later: Record, earlier: Record) -> bool:
        """Whether the node that was asked later had the earlier one by then, as it was told."""
        if not self.sure(earlier) or earlier["e"] > later["t"]:
            return False
        if self.everywhere(earlier["e"], later["t"]):
            return True
        node = later["node"]
        had = node == earlier["node"] or ("late" in earlier and node not in earlier["late"])
        return had and not any(
            loss["t"] <= later["e"] for loss in self.disk_lost(node, earlier["e"], earlier["t"])
        )

    def broken(self, begin: float, end: float) -> bool:
        """Whether anything was in between."""
        return any(fault["t"] <= end and begin <= fault["e"] for fault in self.faults)

    def clock_far(self, op: Record) -> bool:
        """Whether the clock of the node that was asked was far off: requests look old there."""
        return any(
            fault["node"] == op["node"] and abs(fault.get("by", 0)) > FAR
            for fault in self.faults
            if fault["t"] <= op["e"] and op["t"] <= fault["e"]
        )

    def order_is_sure(self, until: float) -> bool:
        """Whether no clock was far off before that."""
        return not any(abs(f.get("by", 0)) > FAR and f["t"] <= until for f in self.faults)


def judge(records: Iterable[Record]) -> list[str]:
    """All violations of a history; none if it is as it must be."""
    history = History(records)
    found = [f"bad: {record['text']}" for record in history.of("bad")]
    if not history.of("op"):
        found.append("empty: nothing was asked")
    missing = [name for name in history.nodes if "keys" not in history.seen.get(name, {})]
    if missing:
        return [*found, f"silent: {', '.join(missing)} did not say at the end what it has"]
    found += foreign(history)
    found += alike(history)
    found += keys(history)
    found += uses(history)
    found += kept(history, "return", "returns", "key")
    found += kept(history, "job", "jobs", "jid")
    found += tokens(history)
    found += mine(history)
    found += files(history)
    found += reads(history)
    found += fleet(history)
    return found


def foreign(history: History) -> list[str]:
    """No node shows minions another identity than that of the cluster."""
    return [
        f"foreign: {op['node']} showed another identity at {op['t']}: {op.get('why')}"
        for op in history.of("op")
        if op.get("foreign")
    ]


def alike(history: History) -> list[str]:
    """All nodes have the same; but a joiner keeps what it had itself as conflicts of its own."""
    found = []
    first, *others = history.nodes
    for what, value in history.seen[first].items():
        if what == "conflicts":
            continue
        for other in others:
            if (said := history.seen[other].get(what)) != value:
                found.append(f"differ: {what} of {first} and {other}: {difference(value, said)}")
    return found


def difference(one: Any, two: Any) -> str:
    """What two do not have in common, some of it."""
    if not isinstance(one, dict) or not isinstance(two, dict):
        return f"{one!r:.200} / {two!r:.200}"
    names = sorted(name for name in {*one, *two} if one.get(name) != two.get(name))
    shown = [f"{name}: {one.get(name)!r:.60} / {two.get(name)!r:.60}" for name in names[:4]]
    return f"{len(names)}, " + "; ".join(shown)


def by_key(ops: Iterable[Record]) -> dict[str, list[Record]]:
    """Those of each key, in order."""
    found: dict[str, list[Record]] = {}
    for op in ops:
        found.setdefault(op["key"], []).append(op)
    return found


# -- keys


def keys(history: History) -> list[str]:
    """A key is where the acts on it allow it to be, on every node."""
    found = []
    appeared = by_key(history.ops("appear", "use"))
    for name, acts in by_key(history.ops(*ACTS)).items():
        for node in history.nodes:
            state = history.seen[node]["keys"].get(name, "")
            why = wrong_key(history, acts, appeared.get(name, []), state)
            if why:
                story = "; ".join(told(act) for act in acts[-6:])
                found.append(f"key: {name} is {state or 'absent'!r} on {node}: {why}: {story}")
    return found


def told(act: Record) -> str:
    """An act in short."""
    late = f" without {act['late']}" if act.get("late") else ""
    return f"{act['t']:.1f}-{act['e']:.1f} {act['op']} {act['node']} {act['result']}{late}"


def wrong_key(
    history: History, acts: Sequence[Record], appeared: Sequence[Record], state: str
) -> str:
    """Why a key may not be in this state; empty if it may."""
    accepted = state == "minions"
    if accepted and not may_be_accepted(history, acts):
        return "no acceptance can have seen every revocation"
    if not accepted and not may_be_refused(history, acts):
        return "an acceptance saw every revocation"
    last = surely_last(history, acts)
    if last is None or accepted:
        return ""
    came = any(op["e"] >= last["t"] for op in appeared)
    if last["op"] == "delete" and not (state == "" or (state == PENDING and came)):
        return "it was deleted last"
    if last["op"] == "reject" and state != "minions_rejected":
        return "it was rejected last"
    return ""


def may_be_accepted(history: History, acts: Sequence[Record]) -> bool:
    """Whether some acceptance may have seen every revocation that is sure."""
    revoked = [act for act in acts if act["op"] in REVOKES and history.sure(act)]
    return any(
        act["op"] == "accept" and all(other["t"] < act["e"] for other in revoked) for act in acts
    )


def may_be_refused(history: History, acts: Sequence[Record]) -> bool:
    """Whether every acceptance that is sure may have missed some revocation."""
    revoked = [act for act in acts if act["op"] in REVOKES]
    return all(
        any(not history.surely_saw(act, other) for other in revoked)
        for act in acts
        if act["op"] == "accept" and history.sure(act)
    )


def surely_last(history: History, acts: Sequence[Record]) -> Record | None:
    """The act that saw all others, if one did, and all are sure."""
    last = max(acts, key=lambda act: float(act["t"]))
    if not history.sure(last):
        return None
    others = [act for act in acts if act is not last]
    return last if all(history.surely_saw(last, other) for other in others) else None


def uses(history: History) -> list[str]:
    """Who was revoked is not served by a node that has said so, and who was accepted is."""
    found = []
    acts = by_key(history.ops(*ACTS))
    for use in history.ops("use"):
        if use["result"] != "ok":
            continue
        before = [act for act in acts.get(use["key"], []) if act["t"] <= use["e"]]
        if not before:
            continue
        last = surely_last(history, before)
        if last is None or not history.surely_saw(use, last):
            continue
        if last["op"] == "accept" and use["said"] == "refused" and not history.clock_far(use):
            found.append(f"use: {use['key']} was accepted and is refused: {told(last)}: {use}")
        if last["op"] in REVOKES and use["said"] == "served":
            found.append(f"use: {use['key']} was revoked and is served: {told(last)}: {use}")
    return found


# -- what is kept


def kept(history: History, op: str, what: str, key: str) -> list[str]:
    """What was acknowledged is on every node, as it was sent, and nothing else is."""
    found = []
    sent: dict[str, set[str]] = {}
    for one in history.ops(op):
        if one.get(key):
            sent.setdefault(one[key], set()).add(one["value"])
    for one in history.ops(op):
        if not history.sure(one):
            continue
        without = [node for node in history.nodes if one[key] not in history.seen[node][what]]
        if without:
            found.append(
                f"lost: {op} {one[key]} of {one['node']}, acknowledged at {one['e']} after "
                f"{one['e'] - one['t']:.2f} s, is not on {', '.join(without)}"
            )
    for node in history.nodes:
        for name, value in history.seen[node][what].items():
            if name in sent and value not in sent[name]:
                found.append(f"changed: {op} {name} on {node} is not what was sent: {value!r:.60}")
    return found


def fleet(history: History) -> list[str]:
    """A minion runs a job once, is rid of its return, and gets it if nothing was broken."""
    found = []
    brought = {op["key"] for op in history.ops("return")}
    ran: set[tuple[str, str]] = set()
    for op in history.of("ran"):
        one = (op["jid"], op["id"])
        if one in ran:
            found.append(f"twice: {op['id']} ran {op['jid']} again at {op['t']}")
        ran.add(one)
        if "/".join(one) not in brought:
            found.append(f"unanswered: nobody took the return of {op['jid']} from {op['id']}")
    for job in history.ops("job"):
        if job["result"] != "ok" or history.broken(job["t"] - CALM_BEFORE, job["e"] + CALM_AFTER):
            continue
        missing = [name for name in job.get("crowd", ()) if (job["jid"], name) not in ran]
        if missing:
            found.append(
                f"delivery: {job['jid']}, given to {job['node']} at {job['t']}, never came to "
                f"{', '.join(missing)}, though nothing was broken"
            )
    return found


def tokens(history: History) -> list[str]:
    """A token is live if and only if it was made and not taken back."""
    found = []
    revoked = by_key(history.ops("revoke"))
    voids = history.ops("void")
    for made in history.ops("token"):
        name = made["key"]
        if not name:
            continue
        ends = [*revoked.get(name, []), *(v for v in voids if v["e"] >= made["t"])]
        surely = [
            end
            for end in ends
            if end["result"] == "ok" and end["t"] >= made["e"]
            and (end["op"] == "void" or history.sure(end))
        ]  # fmt: skip
        for node in history.nodes:
            live = history.seen[node]["tokens"].get(name) == "live"
            if live and surely:
                found.append(f"token: {name} is live on {node}, ended at {surely[0]['e']}")
            if not live and not ends and history.sure(made):
                state = history.seen[node]["tokens"].get(name)
                found.append(f"token: {name} is {state} on {node}: {made}")
    return found


def mine(history: History) -> list[str]:
    """The mine has what was sent, and nothing older than what was sent by one who knew it."""
    found = []
    for name, sent in by_key(history.ops("mine")).items():
        values = {op["value"]: op for op in sent}
        for node in history.nodes:
            value = history.seen[node]["mine"].get(name)
            if value is None:
                if any(history.sure(op) for op in sent):
                    found.append(f"mine: {node} has nothing of {name}")
                continue
            if value not in values:
                found.append(f"mine: {name} on {node} is {value}, which was never sent")
                continue
            newer = [
                op
                for op in sent
                if op["value"] > value
                and history.sure(op)
                and history.everywhere(values[value]["e"], op["t"])
                and history.order_is_sure(op["e"])
            ]
            if newer:
                found.append(f"mine: {name} on {node} is {value}, older than {newer[-1]}")
    return found


def reads(history: History) -> list[str]:
    """Nobody is served what nobody wrote, at any time."""
    edits = by_key(history.ops("edit"))
    return [
        f"read: {read['key']} of {read['node']} at {read['t']} is {read['value']}: nobody wrote it"
        for read in history.ops("read")
        if read["result"] == "ok"
        and not any(
            edit["value"] == read["value"] and edit["t"] <= read["e"]
            for edit in edits.get(read["key"], [])
        )
    ]


def files(history: History) -> list[str]:
    """Of each file the last version is served, or it is a conflict; none is lost, none is made."""
    found = []
    conflicts = {path for seen in history.seen.values() for path in seen["conflicts"]}
    for path, edits in by_key(history.ops("edit")).items():
        sure = [op for op in edits if history.sure(op)]
        values = {op["value"]: op for op in edits}
        for node in history.nodes:
            value = history.seen[node]["files"].get(path)
            if value is None:
                if sure:
                    found.append(f"file: {path} is not on {node}: {told(sure[-1])}")
                continue
            if value not in values:
                found.append(f"file: {path} on {node} has what nobody wrote")
                continue
            if not sure or value == sure[-1]["value"] or values[value]["t"] >= sure[-1]["t"]:
                continue
            if history.surely_saw(sure[-1], values[value]):
                found.append(
                    f"file: {path} on {node} is of {told(values[value])}, older than "
                    f"{told(sure[-1])}, which was written over it"
                )
            elif path not in conflicts:
                found.append(
                    f"file: {path} on {node}: the version of {told(sure[-1])} is neither served "
                    "nor kept as a conflict"
                )
    return found
