"""
What is asked of an etcd about claims, and what its answers mean.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.copies import Instance
from saltwisted.domain.claims.etcd import (
    Busy,
    Free,
    Kv,
    Later,
    Names,
    Over,
    Record,
    Revisions,
    State,
    decode_done,
    decode_lease,
    decode_record,
    decode_token,
    encode_record,
    meaning,
    settings_of,
    state_of,
)
from saltwisted.errors import ConfigError, WireError

ME, OTHER = "a#1", "b#1"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "header",
                    "revision",
                    "raft_term",
                    "responses",
                    "response_range",
                    "kvs",
                    "key",
                    "value",
                    "result",
                    "ID",
                    "TTL",
                    "token",
                    "succeeded",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def kv(holder: str, planner: str = "", written: int = 5, lease: str = "7", made: int = 0) -> Kv:
    """A value of ours in etcd."""
    record = Record(holder=holder, node=holder[0], planner=planner or holder)
    return Kv(b"k", encode_record(record), made or written, written, lease)


class OptionTests(SynchronousTestCase):
    def refused(self, endpoints: Any = ("http://127.0.0.1:2379",), **values: Any) -> str:
        """Why these options cannot be used."""
        given = list(endpoints) if isinstance(endpoints, tuple) else endpoints
        error = self.assertRaises(ConfigError, settings_of, given, values)
        return str(error)

    def test_refused(self) -> None:
        """What cannot work is refused by the name of its option."""
        for endpoints in ([], None, "http://a:1"):
            self.assertIn("claims_etcd:", self.refused(endpoints))
        for bad in ("127.0.0.1:2379", "ftp://a:1", "http://a", "http://a:x", "http://u:p@a:1",
                    "http://a:1/v3", "http://a b:1", 5, {}, "http://[::1:1"):  # fmt: skip
            self.assertIn("is not an address", self.refused((bad,)))
        self.assertIn("claims_etcd_prefix", self.refused(prefix="/"))
        self.assertIn("claims_etcd_key", self.refused(("https://a:1",), prefix="p", cert="/c"))
        self.assertIn("claims_etcd_password", self.refused(prefix="p", user="u"))
        self.assertIn("https://", self.refused(prefix="p", ca="/ca"))

    def test_password_is_not_shown(self) -> None:
        """T-LOG-1: the password is in no text that is made of the settings."""
        values = {"prefix": "/x/", "user": "u", "password": "s3cret"}
        settings = settings_of(["http://[::1]:2379/"], values)

        self.assertEqual((settings.endpoints, settings.prefix), (("http://[::1]:2379",), "x"))
        self.assertNotIn("s3cret", repr(settings))


class MeaningTests(SynchronousTestCase):
    """What is written of a key, and what node a with lease 7 makes of it."""

    def means(self, lease: str = "7", can_begin: bool = True, **state: Any) -> Any:
        """What a state means."""
        return meaning(State(**state), ME, lease, can_begin)

    def test_free(self) -> None:
        """What nobody holds can be begun, but not finished for somebody else."""
        self.assertEqual(self.means(), Free())
        self.assertIsInstance(self.means(can_begin=False), Later)

    def test_held_and_done(self) -> None:
        """What another holds or has done is his, whatever else is there."""
        held = self.means(term=kv(OTHER), open=kv(OTHER, made=3), plan=b"p")
        self.assertEqual((type(held), held.record.node, held.since), (Busy, "b", 3))
        done = evolve(decode_record(kv(OTHER).value), ended=1.0, since=2)
        over = self.means(done=Kv(b"k", encode_record(done), 9, 9, "0"))
        self.assertEqual((type(over), over.since), (Over, 2))

    def test_dead_holder(self) -> None:
        """What a dead node has planned is given to whoever gets the key, with its plan."""
        found = self.means(open=kv(OTHER, made=3), plan=b"p", can_begin=False)
        self.assertEqual((found.planned, found.since), (b"p", 3))
        # Taken over by this node before, whose answer was lost: still the other one's plan
        again = self.means(term=kv(ME), open=kv(ME, planner=OTHER), plan=b"p")
        self.assertEqual(again.planned, b"p")

    def test_earlier_life(self) -> None:
        """An earlier life of this node is another holder: what it planned may have begun."""
        found = self.means(open=kv("a#0"), plan=b"p")
        self.assertEqual(found.planned, b"p")
        self.assertIsInstance(self.means(term=kv("a#0"), open=kv("a#0"), plan=b"p"), Busy)

    def test_lost_answer(self) -> None:
        """What this life was granted without hearing of it was not begun: it is free again."""
        self.assertIsNone(self.means(term=kv(ME), open=kv(ME), plan=b"p").planned)

    def test_old_lease(self) -> None:
        """What hangs on an earlier lease of this node is not taken: it may vanish any moment."""
        self.assertIsInstance(self.means(lease="8", term=kv(ME), open=kv(ME), plan=b"p"), Later)

    def test_nonsense(self) -> None:
        """What somebody else has written there is an error, and nobody's act."""
        for value in (b"", b"[]", b"{}", b'{"holder": 1, "node": "a"}', b"\xff", b"[" * 99999,
                      b'{"holder": "a", "node": "a", "x": 1}',
                      b'{"holder": "a", "node": "a", "begun": true}'):  # fmt: skip
            self.assertRaises(WireError, decode_record, value)
        for number in ("Infinity", "-Infinity", "NaN", "1e999", "9" * 400, "-" + "9" * 400):
            text = '{"holder": "a", "node": "a", "%s": %s}'
            for name in ("begun", "since", "waited", "ended"):
                self.assertRaises(WireError, decode_record, (text % (name, number)).encode())
        self.assertRaises(WireError, self.means, open=kv(OTHER))


class QuestionTests(SynchronousTestCase):
    names = Names("p")

    def test_conditions(self) -> None:
        """A short act is taken only if nobody holds it, has begun it or has done it."""
        record = Record(holder=ME, node="a", planner=ME)
        body = self.names.take("event/x/1", "7", record, b"plan", "9").body

        same = {b64decode(c["key"]): c["mod_revision"] for c in body["compare"]}
        keys = {f"p/{kind}/event/x/1".encode(): "0" for kind in ("term", "open", "done")}
        self.assertEqual(same, keys)
        leases = {b64decode(p["request_put"]["key"]): p["request_put"]["lease"]
                  for p in body["success"]}  # fmt: skip
        self.assertEqual(leases.pop(b"p/term/event/x/1"), "7")
        self.assertEqual(set(leases.values()), {"9"})
        self.assertEqual(len(body["failure"]), 6)

    def test_taken_over(self) -> None:
        """What is taken over is taken as it was seen, and its plan stays as it is."""
        state = State(term=kv(ME, written=8), open=kv(OTHER, written=6), plan=b"plan")
        record = Record(holder=ME, node="a", planner=OTHER)
        body = self.names.take("run/x", "7", record, b"plan", state=state).body

        self.assertEqual([c["mod_revision"] for c in body["compare"]], ["8", "6", "0"])
        put = [b64decode(p["request_put"]["key"]) for p in body["success"]]
        self.assertEqual(put, [b"p/term/run/x", b"p/open/run/x"])
        self.assertEqual(len(body["failure"]), 4)

    def test_names_are_kept(self) -> None:
        """Keys of any text come back as they were, and those of other clusters are none of ours."""
        for key in ("duty/a b", "event/\u00fc/1", "x\udcff"):
            self.assertEqual(self.names.key_of("term", self.names.of("term", key)), key)
        self.assertRaises(WireError, self.names.key_of, "term", b"q/term/x")


class AnswerTests(SynchronousTestCase):
    def test_state(self) -> None:
        """The answer to a look is taken apart in the order of the question."""
        names = Names("p")
        record = encode_record(Record(holder=OTHER, node="b", since=4))

        def rows(*keys: str) -> Any:
            found = [
                {"key": b64encode(k.encode()).decode(), "value": b64encode(record).decode(),
                 "mod_revision": "6", "create_revision": "5", "lease": "-3"}
                for k in keys
            ]  # fmt: skip
            return {"response_range": {"kvs": found} if found else {}}

        responses = [rows("p/term/k"), rows(), rows(), rows(), rows(), rows("p/done/event/x/3")]
        done = decode_done({"header": {"revision": "9", "raft_term": "2"}, "responses": responses})
        state = state_of(names, done)

        self.assertEqual((done.is_granted, done.revision, done.raft), (False, 9, 2))
        assert state.term is not None
        self.assertEqual((state.term.written, state.term.made, state.term.lease), (6, 5, "-3"))
        self.assertEqual((state.open, state.recent), (None, ((3, "b", 4, 0.0),)))

    @given(JSON)
    def test_nonsense(self, answer: Any) -> None:
        """Whatever JSON comes back, it is understood or a WireError."""
        for decode in (decode_done, decode_lease, decode_token):
            try:
                found: Any = decode(answer)
                if decode is decode_done:
                    state_of(Names("p"), found)
            except WireError:
                pass

    def test_odd_answers(self) -> None:
        """T-CLAIM-1: numbers are of 64 bits, lists are lists, a revision is above 0."""
        header = {"revision": "9", "raft_term": "2"}
        self.assertEqual(decode_done({"header": header, "responses": None}).found, ())
        for number in (str(1 << 64), str(-(1 << 63) - 1), 1 << 64, "9" * 100, "x", [1], True):
            bad = {"header": {**header, "revision": number}}
            self.assertRaises(WireError, decode_done, bad)
            bad = {"header": {**header, "raft_term": number}}
            self.assertRaises(WireError, decode_done, bad)
        for revision in (None, 0, "0", "-1", ""):
            self.assertRaises(WireError, decode_done, {"header": {**header, "revision": revision}})
        for rows in ("x", {}, {"a": 1}, 5, (), ""):
            bad = {"header": header, "responses": rows}
            self.assertRaises(WireError, decode_done, bad)
            bad = {"header": header, "responses": [{"response_range": {"kvs": rows}}]}
            self.assertRaises(WireError, decode_done, bad)
        for count in (0, 1, 3, 5, 7):
            nothing: Any = [{"response_range": {}}] * count
            done = decode_done({"header": header, "responses": nothing})
            self.assertRaises(WireError, state_of, Names("p"), done)

    def test_tokens(self) -> None:
        """A token is what a header can carry."""
        self.assertEqual(decode_token({"token": "a.b"}), "a.b")
        for token in (None, "", 5, ["a"], "a\nb", "a\r", "\u00fc", "\x7f"):
            self.assertRaises(WireError, decode_token, {"token": token})

    def test_lease(self) -> None:
        """A lease that is shorter than was asked for is no lease; one that is gone lasts 0 s."""
        header = {"raft_term": "2"}
        short = {"header": header, "ID": "5", "TTL": "2"}
        self.assertRaises(WireError, decode_lease, short, 6)
        gone = decode_lease(json.loads('{"result": {"header": {}, "ID": "5"}}'))
        self.assertEqual((gone.id, gone.seconds), ("5", 0))


class RevisionTests(SynchronousTestCase):
    def test_ages(self) -> None:
        """Between two looks a revision came: its age lies between the two, on the safe sides."""
        clock = Revisions()
        clock.saw(10, 100.0, 100.5)
        clock.saw(20, 101.0, 101.5)

        self.assertEqual(clock.at_least(15, 103.0), 1.5)
        self.assertEqual(clock.at_most(15, 103.0), 3.0)
        self.assertEqual(clock.at_most(5, 103.0), float("inf"))
        self.assertEqual(clock.at_least(5, 103.0), 2.5)
        self.assertEqual(clock.at_least(99, 103.0), 0.0)

    def test_instances(self) -> None:
        """Of events that are alike a copy belongs to one that is not too old, or the newest."""
        clock = Revisions()
        for second in range(100):
            clock.saw(second + 1, float(second), float(second))
        recent = ((1, "a", 2, 0.0), (2, "a", 40, 0.0), (3, "b", 96, 0.0))
        found = clock.instances(recent, 100.0, 0.0)

        self.assertEqual(found, (Instance(2, "a", 61.0), Instance(3, "b", 5.0)))

    def test_before_it_looked(self) -> None:
        """
        How old something is that was there before this node looked is told by the time of day; but
        within ten seconds after that it may be new, whatever the time of day says.
        """
        clock = Revisions()
        clock.saw(50, 100.0, 100.0)

        self.assertEqual(clock.at_least(40, 109.0, 3600.0), 9.0)
        self.assertEqual(clock.at_least(40, 120.0, 3600.0), 3600.0)
        self.assertEqual(clock.at_least(40, 120.0, -5.0), 20.0)
