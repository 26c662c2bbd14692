"""
The checker bites: histories that are as they must be, and the same with one violation planted.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.nemesis.checker import judge

NODES = ("a", "b", "c")


class Told:
    """A history that is being made up."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = [{"kind": "run", "t": 0, "nodes": list(NODES)}]
        self.seen: dict[str, dict[str, Any]] = {
            node: {
                "keys": {}, "tokens": {}, "conflicts": [], "jobs": {}, "returns": {}, "mine": {},
                "files": {},
            }
            for node in NODES
        }  # fmt: skip

    def op(self, op: str, key: str, node: str, t: float, **more: Any) -> Told:
        """Something that was asked; acknowledged within a tenth of a second."""
        record = {"kind": "op", "op": op, "key": key, "node": node, "t": t, "e": t + 0.1}
        self.records.append({**record, "result": "ok", **more})
        return self

    def ran(self, jid: str, name: str, t: float) -> Told:
        """A minion ran a job, and is rid of its return."""
        key = f"{jid}/{name}"
        self.op("return", key, "", t, value="x").have("returns", key, "x")
        return self.line("ran", t, jid=jid, id=name)

    def act(self, op: str, key: str, node: str, t: float, *late: str, **more: Any) -> Told:
        """An act on a key that all have confirmed, but for some."""
        return self.op(op, key, node, t, late=list(late), alone=len(late) == 2, **more)

    def line(self, kind: str, t: float, **more: Any) -> Told:
        """Another line."""
        self.records.append({"kind": kind, "t": t, **more})
        return self

    def lost(self, node: str, t: float, back: float = 0.0) -> Told:
        """The disk of a node is a new one."""
        return self.line("disk", t, node=node, back=back)

    def apart(self, node: str, t: float, e: float) -> Told:
        """A node is cut off."""
        pairs = [[node, other] for other in NODES if other != node]
        return self.line("fault", t, e=e, pairs=pairs, what="drop", node=node)

    def have(self, what: str, key: str, value: Any, *nodes: str) -> Told:
        """What nodes are found to have at the end; all, if none is named."""
        for node in nodes or NODES:
            self.seen[node][what][key] = value
        return self

    def judged(self) -> list[str]:
        """The first word of each violation."""
        last = [{"kind": "seen", "t": 999, "node": n, "value": v} for n, v in self.seen.items()]
        return sorted({text.partition(":")[0] for text in judge([*self.records, *last])})


class KeptTests(SynchronousTestCase):
    """Jobs and returns."""

    def test_kept(self) -> None:
        """A return that is on all nodes as it was sent is as it must be."""
        told = Told().op("return", "1/w", "a", 5, value="x").have("returns", "1/w", "x")
        self.assertEqual(told.judged(), [])

    def test_lost(self) -> None:
        """A return that no node has was lost; one that a node lacks is no agreement either."""
        told = Told().op("return", "1/w", "a", 5, value="x")
        self.assertEqual(told.judged(), ["lost"])
        told.have("returns", "1/w", "x", "a", "b")
        self.assertEqual(told.judged(), ["differ", "lost"])

    def test_not_acknowledged(self) -> None:
        """What was not acknowledged may be there or not, but on all nodes alike."""
        told = Told().op("return", "1/w", "a", 5, value="x", result="unknown")
        self.assertEqual(told.judged(), [])
        self.assertEqual(told.have("returns", "1/w", "x").judged(), [])
        told = Told().op("return", "1/w", "a", 5, value="x", result="unknown")
        self.assertEqual(told.have("returns", "1/w", "x", "b").judged(), ["differ"])

    def test_changed(self) -> None:
        """A return with another content than was sent is a violation."""
        told = Told().op("return", "1/w", "a", 5, value="x").have("returns", "1/w", "y")
        self.assertEqual(told.judged(), ["changed"])

    def test_wiped(self) -> None:
        """A disk excuses what its node acknowledged after a second, and no more."""
        for took, node, judged in ((1.1, "a", []), (0.2, "a", ["lost"]), (1.1, "b", ["lost"])):
            told = Told().op("return", "1/w", node, 5, value="x", e=5 + took).lost("a", 8)
            self.assertEqual(told.judged(), judged, (took, node))

    def test_wiped_while_cut_off(self) -> None:
        """Who could reach nobody may acknowledge at once; and others are not excused by that."""
        told = Told().apart("a", 4, 9).op("return", "1/w", "a", 5, value="x").lost("a", 8)
        self.assertEqual(told.judged(), [])
        told.op("return", "1/w2", "b", 5, value="x").lost("b", 8)
        self.assertEqual(told.judged(), ["lost"])

    def test_settled(self) -> None:
        """What all nodes had before the disk was lost has to come back."""
        told = Told().op("return", "1/w", "a", 5, value="x", e=6.2)
        told.line("settled", 12, asked=7).lost("a", 20)
        self.assertEqual(told.judged(), ["lost"])

    def test_outside(self) -> None:
        """What a node was given while it was no member is not the cluster's; later it is."""
        for t, judged in ((5, []), (9, ["lost"])):
            told = Told().op("job", "j:1", "a", t, jid="1", value="x")
            self.assertEqual(told.line("outside", 4, node="a", e=8).judged(), judged)

    def test_set_back(self) -> None:
        """A copy of a disk has what is older than it."""
        for back, judged in ((4.0, []), (7.0, ["lost"])):
            told = Told().op("return", "1/w", "a", 5, value="x", e=6.2).lost("a", 9, back)
            self.assertEqual(told.judged(), judged)

    def test_job(self) -> None:
        """A job that was given has to be known to all nodes."""
        told = Told().op("job", "j:1", "a", 5, jid="1", value="x")
        self.assertEqual(told.judged(), ["lost"])
        self.assertEqual(told.have("jobs", "1", "x").judged(), [])

    def test_twice(self) -> None:
        """A minion that runs a job twice is a violation."""
        told = Told().ran("1", "w", 5).ran("1", "v", 6)
        self.assertEqual(told.judged(), [])
        self.assertEqual(told.ran("1", "w", 7).judged(), ["twice"])

    def test_unanswered(self) -> None:
        """A minion that cannot get rid of a return is a violation."""
        told = Told().op("mine", "w", "a", 4, value=1, result="unknown")
        told.line("ran", 5, jid="1", id="w")
        self.assertEqual(told.judged(), ["unanswered"])

    def test_not_delivered(self) -> None:
        """A job that was given while nothing was broken comes to all it was for."""
        for e, judged in ((24, ["delivery"]), (31, [])):
            told = Told().op("job", "j:1", "a", 35, jid="1", value="x", crowd=["v", "w"])
            told.have("jobs", "1", "x").ran("1", "w", 36).apart("b", 20, e)
            self.assertEqual(told.judged(), judged)
            self.assertEqual(told.ran("1", "v", 37).judged(), [])

    def test_any_node(self) -> None:
        """A return of which the minion does not say who took it may have been taken by any."""
        for e, judged in ((6.2, []), (5.2, ["lost"])):
            told = Told().op("return", "1/w", "", 5, value="x", e=e).lost("b", 7)
            self.assertEqual(told.judged(), judged)

    def test_silent(self) -> None:
        """A node that does not say what it has is a violation."""
        told = Told().op("mine", "w", "a", 4, value=1, result="unknown")
        told.seen["b"] = {"silent": "refused"}
        self.assertEqual(told.judged(), ["silent"])

    def test_empty(self) -> None:
        """A history in which nobody asked for anything shows nothing."""
        self.assertEqual(Told().judged(), ["empty"])

    def test_stuck(self) -> None:
        """So is what was a violation when it was written down, and a wrong identity."""
        told = Told().line("bad", 5, text="stuck")
        told.op("return", "1/w", "a", 5, value="x", result="unknown", foreign=True)
        self.assertEqual(told.judged(), ["bad", "foreign"])


class KeyTests(SynchronousTestCase):
    """Keys."""

    def test_in_order(self) -> None:
        """The last of acts that saw each other is the state."""
        told = Told().act("accept", "k", "a", 5).act("reject", "k", "b", 6)
        self.assertEqual(told.have("keys", "k", "minions_rejected").judged(), [])
        for state in ("minions", "minions_pre", "minions_denied"):
            self.assertEqual(told.have("keys", "k", state).judged(), ["key"], state)
        told.act("accept", "k", "c", 7)
        self.assertEqual(told.judged(), ["key"])
        self.assertEqual(told.have("keys", "k", "minions").judged(), [])

    def test_deleted(self) -> None:
        """A deleted key is away, or pending where its minion came again."""
        told = Told().act("accept", "k", "a", 5).act("delete", "k", "b", 6)
        self.assertEqual(told.judged(), [])
        self.assertEqual(told.have("keys", "k", "minions_pre").judged(), ["key"])
        self.assertEqual(told.op("appear", "k", "c", 7).judged(), [])
        self.assertEqual(told.have("keys", "k", "minions").judged(), ["key"])

    def test_revocation_wins(self) -> None:
        """A revocation that an acceptance cannot have seen holds, also if that came later."""
        told = Told().act("reject", "k", "a", 5, "b", "c").act("accept", "k", "b", 6, "a")
        self.assertEqual(told.have("keys", "k", "minions_rejected").judged(), [])
        # It may have seen it, for all that the answer says
        self.assertEqual(told.have("keys", "k", "minions").judged(), [])
        told = Told().act("accept", "k", "b", 5, "a").act("reject", "k", "a", 6, "b", "c")
        self.assertEqual(told.have("keys", "k", "minions").judged(), ["key"])

    def test_unknown_act(self) -> None:
        """An act that failed may hold or not."""
        told = Told().act("accept", "k", "a", 5).act("delete", "k", "b", 6, result="unknown")
        self.assertEqual(told.judged(), [])
        self.assertEqual(told.have("keys", "k", "minions").judged(), [])

    def test_wiped(self) -> None:
        """An act that no other confirmed may vanish with the disk; another may not."""
        for late, judged in ((("b", "c"), []), (("b",), ["key"])):
            told = Told().act("accept", "k", "a", 4).act("delete", "k", "a", 5, *late)
            told.have("keys", "k", "minions").lost("a", 7)
            self.assertEqual(told.judged(), judged)

    def test_served_after_revocation(self) -> None:
        """Who was revoked is refused by each node that has said so."""
        for node, judged in (("b", ["use"]), ("c", [])):
            told = Told().act("accept", "k", "a", 4).act("reject", "k", "a", 5, "c")
            told.have("keys", "k", "minions_rejected").op("use", "k", node, 6, said="served")
            self.assertEqual(told.judged(), judged)

    def test_refused_after_acceptance(self) -> None:
        """Who was accepted is served."""
        told = Told().act("accept", "k", "a", 4).have("keys", "k", "minions")
        self.assertEqual(told.op("use", "k", "a", 5, said="served").judged(), [])
        self.assertEqual(told.op("use", "k", "a", 6, said="refused").judged(), ["use"])
        # To a node whose clock is days off every request looks old
        told.line("fault", 5, e=7, pairs=[], what="clock", node="b", by=9999.0)
        self.assertEqual(told.judged(), ["use"])
        told.line("fault", 5, e=7, pairs=[], what="clock", node="a", by=9999.0)
        self.assertEqual(told.judged(), [])


class OtherTests(SynchronousTestCase):
    """Tokens, mine and files."""

    def test_tokens(self) -> None:
        """A token is live until it is revoked or made void."""
        told = Told().op("token", "t", "a", 4, alone=False).have("tokens", "t", "live")
        self.assertEqual(told.judged(), [])
        self.assertEqual(told.have("tokens", "t", "revoked").judged(), ["token"])
        told.op("revoke", "t", "b", 5, alone=False)
        self.assertEqual(told.judged(), [])
        self.assertEqual(told.have("tokens", "t", "live").judged(), ["token"])
        told = Told().op("token", "t", "a", 4, alone=False).op("void", "", "b", 6)
        self.assertEqual(told.judged(), [])
        self.assertEqual(told.have("tokens", "t", "live").judged(), ["token"])

    def test_mine(self) -> None:
        """The mine is a value that was sent, none is older than one sent in full knowledge."""
        told = Told().op("mine", "w", "a", 4, value=1)
        self.assertEqual(told.judged(), ["mine"])
        told.have("mine", "w", 1).op("mine", "w", "b", 5, value=2)
        self.assertEqual(told.judged(), [])
        self.assertEqual(told.have("mine", "w", 3).judged(), ["mine"])
        told.have("mine", "w", 1).line("settled", 12, asked=7).op("mine", "w", "c", 13, value=4)
        self.assertEqual(told.judged(), ["mine"])
        told.line("fault", 1, e=3, pairs=[], what="clock", node="a", by=-9999.0)
        self.assertEqual(told.judged(), [])

    def test_files(self) -> None:
        """A file is the last version; one that did not know of another is a conflict."""
        told = Told().op("edit", "f", "a", 4, value="1", late=[], alone=False)
        self.assertEqual(told.judged(), ["file"])
        self.assertEqual(told.have("files", "f", "1").judged(), [])
        self.assertEqual(told.have("files", "f", "0").judged(), ["file"])
        told.have("files", "f", "1").op("edit", "f", "b", 5, value="2", late=[], alone=False)
        self.assertEqual(told.judged(), ["file"])
        self.assertEqual(told.have("files", "f", "2").judged(), [])

    def test_reads(self) -> None:
        """Who fetches a file is served what somebody had written by then."""
        told = Told().op("edit", "f", "a", 4, value="1", late=[], alone=False)
        told.have("files", "f", "1").op("read", "f", "b", 5, value="1")
        told.op("read", "f", "b", 5, value="", result="unknown")
        self.assertEqual(told.judged(), [])
        self.assertEqual(told.op("read", "f", "b", 5, value="x").judged(), ["read"])

    def test_read_before_it_was_written(self) -> None:
        """What is written later was served by nobody before."""
        told = Told().op("edit", "f", "a", 4, value="1", late=[], alone=False)
        told.have("files", "f", "1").op("read", "f", "b", 3, value="1")
        self.assertEqual(told.judged(), ["read"])

    def test_conflict(self) -> None:
        """Of two versions that did not know of each other one is served and one is kept."""
        told = Told().op("edit", "f", "a", 4, value="1", late=["b", "c"], alone=True)
        told.op("edit", "f", "b", 5, value="2", late=["a"], alone=False).have("files", "f", "1")
        self.assertEqual(told.judged(), ["file"])
        told.seen["b"]["conflicts"] = ["f"]
        self.assertEqual(told.judged(), [])
