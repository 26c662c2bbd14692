"""
The reactor's rules: entries, forms of a reaction, chains, and what is seen of an SLS beforehand.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.reactions.chains import Chains, Link
from saltwisted.domain.reactions.compiling import compile_sls
from saltwisted.domain.reactions.entries import Entry, Interval, Matcher, parse
from saltwisted.domain.reactions.looking import look
from saltwisted.domain.reactions.pacing import DROP, REACT, WAIT, Pacing
from saltwisted.domain.reactions.reaction import ReactionError, reaction_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
)


class EntryTests(SynchronousTestCase):
    """The option C{reactor}."""

    def test_stock_forms(self) -> None:
        """A tag with one SLS or a list of them."""
        entries, problems = parse([{"a/*": "/x.sls"}, {"b": ["/y.sls", "salt://z.sls"]}])

        self.assertEqual(problems, [])
        self.assertEqual(
            [(each.tag, each.sls) for each in entries],
            [("a/*", ("/x.sls",)), ("b", ("/y.sls", "salt://z.sls"))],
        )

    def test_options(self) -> None:
        """A map with options beside C{sls}."""
        body = {
            "sls": "/x.sls",
            "saltenv": "dev",
            "once": "at_least",
            "throttle": {"seconds": 3, "by": ["id", "data:disk"]},
            "batch": 4,
            "sample": {"data": {}},
        }
        ((entry,), problems) = parse([{"a": body}])

        self.assertEqual(problems, [])
        self.assertEqual((entry.saltenv, entry.once, entry.batch), ("dev", "at_least", 4))
        self.assertEqual(entry.throttle, Interval(3.0, ("id", "data:disk")))

    def test_nothing(self) -> None:
        """No value is no entry, and no mistake."""
        for value in (None, [], {}, ""):
            self.assertEqual(parse(value), ([], []))

    def test_wrong(self) -> None:
        """Each entry that means nothing is named, and the others count."""
        wrong: list[tuple[Any, str]] = [
            ("text", "must be a map of one tag"),
            (5, "must be a map of one tag"),
            ({}, "must have one tag, and has none"),
            ({"a": ["/x"], "b": ["/y"]}, "must have one tag"),
            ({5: ["/x"]}, "the tag must be text"),
            ({"a": None}, "needs a path"),
            ({"a": []}, "needs a path"),
            ({"a": 5}, "needs a path"),
            ({"a": [5]}, "must be a path"),
            ({"a": [["/x"]]}, "must be a path"),
            ({"a": ["x.sls"]}, "neither an absolute path nor"),
            ({"a": {"saltenv": "b"}}, "needs sls"),
            ({"a": {"sls": "/x", "throtle": 3}}, "there is no option throtle"),
            ({"a": {"sls": "/x", "once": "twice"}}, "once must be"),
            ({"a": {"sls": "/x", "saltenv": 3}}, "saltenv must be"),
            ({"a": {"sls": "/x", "batch": -1}}, "batch must be"),
            ({"a": {"sls": "/x", "batch": True}}, "batch must be"),
            ({"a": {"sls": "/x", "throttle": "soon"}}, "throttle needs a number"),
            ({"a": {"sls": "/x", "throttle": 0}}, "throttle needs a number"),
            ({"a": {"sls": "/x", "throttle": {"by": "id"}}}, "throttle needs a number"),
            ({"a": {"sls": "/x", "throttle": {"second": 1}}}, "no second"),
            ({"a": {"sls": "/x", "debounce": {"seconds": 1, "by": 5}}}, "by of debounce"),
            ({"a": {"sls": "/x", "debounce": 1, "throttle": 1}}, "exclude one another"),
            ({"a": {"sls": "/x", "sample": "x"}}, "sample must be"),
        ]
        for number, (value, words) in enumerate(wrong):
            entries, problems = parse([{"good": "/x"}, value])
            self.assertEqual([each.tag for each in entries], ["good"], number)
            (problem,) = problems
            self.assertIn("reactor, entry 2", problem)
            self.assertIn(words, problem)
        self.assertIn("must be a list", parse({"a": "/x"})[1][0])
        self.assertIn("must be a list", parse("/a/path")[1][0])

    @given(VALUES)
    def test_anything(self, value: Any) -> None:
        """Whatever it is, it is entries or sentences, and never an exception."""
        entries, problems = parse([value])

        self.assertEqual(len(entries) + len(problems), 1)


class MatcherTests(SynchronousTestCase):
    """Which entries an event means."""

    def matching(self, tag: str, *patterns: str) -> list[str]:
        """The patterns that fit."""
        entries = [Entry(number=n, tag=p, sls=("/x",)) for n, p in enumerate(patterns, 1)]
        return [entry.tag for entry in Matcher(entries).matching(tag)]

    def test_globs(self) -> None:
        """All that fit, in their order; the whole tag has to."""
        self.assertEqual(self.matching("a/b", "a/*", "b", "a/?", "*", "a"), ["a/*", "a/?", "*"])
        self.assertEqual(self.matching("a/b"), [])

    def test_newlines(self) -> None:
        """A tag with line ends is matched as a whole, and nothing slips through behind one."""
        self.assertEqual(self.matching("a\nb", "a*", "a", "a\nb"), ["a*", "a\nb"])
        self.assertEqual(self.matching("a\n", "a"), [])

    @given(
        st.lists(st.text("a/*?[]!b\n", max_size=6).filter(bool), max_size=6),
        st.text("a/b\n*[", max_size=8),
    )
    def test_as_fnmatch(self, patterns: list[str], tag: str) -> None:
        """Whatever the patterns are, those fit that fit by the standard library, as in stock."""
        wanted = [pattern for pattern in patterns if fnmatch.fnmatchcase(tag, pattern)]

        self.assertEqual(self.matching(tag, *patterns), wanted)

    def test_no_expressions(self) -> None:
        """Thousands of tags without wild cards, or with stars alone, need no expression."""
        self.patch(re, "compile", lambda *args: self.fail("an expression is compiled"))

        found = self.matching("a/7/c/d", *(f"a/{n}/*/d" for n in range(9)), "a/*", "a/7/c/d")

        self.assertEqual(found, ["a/7/*/d", "a/*", "a/7/c/d"])


class FormTests(SynchronousTestCase):
    """From a rendered SLS to calls."""

    def chunks(self, data: Any) -> list[dict[str, Any]]:
        """The calls of one SLS that is sound."""
        chunks, problems = compile_sls([("/r.sls", data)])
        self.assertEqual(problems, [])
        return chunks

    def refused(self, body: dict[str, Any], words: str) -> None:
        """This call cannot be made, for this reason."""
        (chunk,) = self.chunks({"x": body})
        with self.assertRaises(ReactionError) as raised:
            reaction_of(chunk)
        self.assertIn(words, str(raised.exception))

    def test_args(self) -> None:
        """C{args}: a map, a list of maps, and for a caller a list of values."""
        for args in ({"a": 1, "b": 2}, [{"a": 1}, {"b": 2}]):
            (chunk,) = self.chunks({"x": {"runner.m.f": [{"args": args}]}})
            self.assertEqual(reaction_of(chunk).kwarg, {"a": 1, "b": 2})
        (chunk,) = self.chunks({"x": {"caller.m.f": [{"args": [1, 2]}]}})
        self.assertEqual(reaction_of(chunk).arg, (1, 2))

    def test_loose(self) -> None:
        """A runner's arguments by their own names; unknown ones are refused by name."""
        (chunk,) = self.chunks({"x": {"runner.m.f": [{"tgt": "a"}, {"odd": 1}, {"order": 1}]}})
        reaction = reaction_of(chunk)

        self.assertEqual(dict(reaction.bound(["tgt"], True).kwarg), {"tgt": "a", "odd": 1})
        with self.assertRaises(ReactionError) as raised:
            reaction.bound(["tgt"], False)
        self.assertEqual(str(raised.exception), "'odd' is an invalid keyword argument for 'm.f'")

    def test_jid_as_text(self) -> None:
        """A number that is a jid goes out as text, as in stock."""
        jid = 20261123061700123456
        (chunk,) = self.chunks({"x": {"local.m.f": [{"tgt": "*"}, {"arg": [jid, 7]}]}})

        self.assertEqual(reaction_of(chunk).arguments(), [str(jid), 7])

    def test_wrong(self) -> None:
        """Wrong forms say what is wrong."""
        self.refused({"local.m.f": []}, "needs tgt")
        self.refused({"state.m.f": []}, "type 'state'")
        self.refused({"runner": ["noduckydot"]}, "is not a function")
        self.refused({"runner.m.f": [{"args": "x"}]}, "args must be a map")
        self.refused({"runner.m.f": [{"args": [[1]]}]}, "Incorrect argument format")
        self.refused({"local.m.f": [{"tgt": "*"}, {"arg": "x"}]}, "arg must be a list")
        self.refused({"local.m.f": [{"tgt": "*"}, {"kwarg": 5}]}, "kwarg must be a map")
        self.refused({"local.m.f": [{"tgt": "*"}, {"tgt_type": 5}]}, "tgt_type must be text")

    def test_one_bad_among_good(self) -> None:
        """A requisite that nothing answers to stops its own SLS, and no other."""
        bad = {"b": {"runner.m.f": [{"require": [{"runner": "nobody"}]}]}}
        good = {"g": {"runner.m.f": []}}

        chunks, problems = compile_sls([("/bad.sls", bad), ("/good.sls", good)])

        self.assertEqual([chunk["__id__"] for chunk in chunks], ["g"])
        self.assertEqual({sls for sls, _ in problems}, {"/bad.sls"})


class ChainTests(SynchronousTestCase):
    """Which chain an event belongs to."""

    def test_by_jid(self) -> None:
        """The jid is read from the tag, from the data, and from what C{event.send} puts there."""
        chains = Chains()
        chains.began("1", Link("t", 2))

        found = Link("t", 3, "1")
        self.assertEqual(chains.link("salt/job/1/ret/m", {}), found)
        self.assertEqual(chains.link("salt/run/1/ret", {}), found)
        self.assertEqual(chains.link("site/x", {"jid": "1"}), found)
        self.assertEqual(chains.link("site/x", {"data": {"__pub_jid": "1"}}), found)
        self.assertEqual(chains.link("site/x", {"data": {"__pub_jid": "2"}}), None)
        self.assertEqual(chains.link("salt/job/2/ret/m", {}), None)

    def test_bounded(self) -> None:
        """The oldest are forgotten: memory does not grow with reactions."""
        chains = Chains(keep=10)
        for number in range(100_000):
            chains.began(str(number), Link("t"))

        self.assertEqual(len(chains), 10)
        self.assertIsNone(chains.link("x", {"jid": "1"}))
        self.assertIsNotNone(chains.link("x", {"jid": "99999"}))


class PacingTests(SynchronousTestCase):
    """C{throttle} and C{debounce}."""

    def test_throttle(self) -> None:
        """Once in the time, for each kind by itself; a clock that goes back drops nothing."""
        entry = Entry(number=1, tag="a", sls=("/x",), throttle=Interval(10, ("data:d", "tag")))
        pacing = Pacing()

        def judge(disk: Any, now: float, tag: str = "a") -> str:
            return pacing.judge(entry, tag, {"data": {"d": disk}}, now)

        self.assertEqual(
            [judge(1, 0), judge(1, 9.9), judge(2, 9.9), judge(1, 10), judge(1, 5)],
            [REACT, DROP, REACT, REACT, REACT],
        )
        self.assertEqual(judge(1, 6, "b"), REACT)

    def test_none(self) -> None:
        """An entry without either reacts to all; one with C{debounce} waits."""
        plain = Entry(number=1, tag="a", sls=("/x",))
        quiet = Entry(number=2, tag="a", sls=("/x",), debounce=Interval(1))

        self.assertEqual(Pacing().judge(plain, "a", {}, 0), REACT)
        self.assertEqual(Pacing().judge(quiet, "a", {}, 0), WAIT)


class LookTests(SynchronousTestCase):
    """What is said of an SLS before there is an event."""

    def said(self, text: str) -> list[str]:
        """Line and words of each problem."""
        return [f"{one['line']}: {one['problem']}" for one in look("/r", text) if "problem" in one]

    def test_sound(self) -> None:
        """Nothing is said of what is right, templates among it."""
        for text in (
            "a:\n  local.test.ping:\n    - tgt: '*'\n",
            "a:\n  local.test.ping:\n    - tgt: {{ data['id'] }}\n    - args: {{ data | json }}\n",
            "{% if data['x'] %}\na:\n  runner.x.y: []\n{% endif %}\n",
            "{% for i in data['x'] %}\n{{ i }}:\n  wheel.key.accept:\n    - match: x\n"
            "{% endfor %}\n",
            "a:\n  {{ kind }}.test.ping: []\n",
            "{{ salt['x.y']() }}\n",
            "#!py\ndef run():\n    return {}\n",
            "quick: wheel.key.list_all\n",
            "a:\n  cmd.test.arg:\n    - tgt: x\n    - arg: [1]\n    - kwarg: {a: 1}\n",
            "a:\n  caller.test.arg:\n    - args: [1, 2]\n",
        ):
            self.assertEqual(self.said(text), [], text)

    def test_corpus(self) -> None:
        """Each wrong form is named, with its line."""
        head = "a:\n  local.test.ping:\n"
        for text, words in (
            ("", "1: is empty"),
            ("- a\n", "1: must be a map of ids"),
            ("text\n", "1: must be a map of ids"),
            ("a: [\n", "2: "),
            ("a:\n\tb: c\n", "2: "),
            ("a:\n", "1: the id 'a' needs a map"),
            ("a: 5\n", "1: the id 'a' needs a map"),
            ("a:\n  - local.test.ping\n", "1: the id 'a' needs a map"),
            ("a:\n  runner.x.y: []\na:\n  runner.x.y: []\n", "3: the id 'a' is there twice"),
            ("a:\n  locale.test.ping: []\n", "2: 'locale.test.ping': reactions begin with"),
            ("a:\n  state.apply: []\n", "2: 'state.apply': reactions begin with"),
            ("a:\n  test.ping:\n    - tgt: x\n", "2: 'test.ping': reactions begin with"),
            ("a:\n  local.test.ping: {tgt: x}\n", "2: 'local.test.ping' needs a list"),
            ("a:\n  local.test.ping:\n", "2: 'local.test.ping' needs a list"),
            ("a:\n  local:\n    - tgt: x\n", "2: 'local' names no function"),
            ("a:\n  runner.ping: []\n", "2: 'ping' is no function"),
            ("a:\n  local.test.ping: []\n", "2: local.test.ping needs tgt"),
            (head + "    - target: x\n", "2: local.test.ping needs tgt"),
            (head + "    - tgt: x\n    - expr_form: list\n", "4: expr_form is no argument"),
            (head + "    - tgt: x\n    - timeot: 5\n", "4: timeot is no argument"),
            (head + "    - tgt: x\n      tgt_type: list\n", "3: tgt and tgt_type are one item"),
            (head + "    - tgt: x\n    - arg: y\n", "4: arg must be a list"),
            (head + "    - tgt: x\n    - arg: {a: 1}\n", "4: arg must be a list"),
            (head + "    - tgt: x\n    - kwarg: y\n", "4: kwarg must be a map"),
            (head + "    - tgt: x\n    - args: y\n", "4: args must be a map"),
            (head + "    - tgt: x\n    - args:\n      - y\n", "5: args is a list of maps"),
            (head + "    - tgt: x\n    - args: {a: 1}\n    - arg: [1]\n", "5: arg is ignored"),
            (head + "    - tgt: x\n    - args: {a: 1}\n    - kwarg: {}\n", "5: kwarg is ignored"),
            (head + "    - tgt: x\n    - y\n", "4: 'local.test.ping': an argument needs a name"),
        ):
            said = self.said(text)
            self.assertTrue(any(one.startswith(words) for one in said), (text, said))

    def test_calls(self) -> None:
        """Calls are found with the names of arguments that are given by their own names."""
        (call,) = look("/r", "a:\n  wheel.key.accept:\n    - match: x\n    - order: 1\n")

        self.assertEqual((call["call"], call["names"]), (["wheel", "key.accept"], ["match"]))

    @given(st.text(alphabet="ab:.-[]{}%#!\n\t '\"&*|>", max_size=80))
    def test_anything(self, text: str) -> None:
        """Whatever is in the file, looking at it raises nothing."""
        for one in look("/r", text):
            self.assertIn("line", one)
