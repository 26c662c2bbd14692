"""
Targets, judged by what stock Salt answered to the same ones.

C{targeting_cases.json} was recorded from Salt 3008.5 by C{record_targeting.py}.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.targeting.matchers import (
    MinionFacts,
    confirm_top,
    matches,
    publication_matches,
)
from saltwisted.domain.targeting.nodegroups import expand, unfold
from saltwisted.domain.targeting.regexes import is_risky
from saltwisted.domain.targeting.selection import Universe, check_minions, selecting
from saltwisted.domain.targeting.traverse import subdict_match, traverse
from saltwisted.errors import TargetError

RECORDED = json.loads((Path(__file__).parent / "targeting_cases.json").read_text())
MINIONS: dict[str, dict[str, Any]] = RECORDED["minions"]
for _facts in MINIONS.values():  # JSON has no numbers as keys
    if "2" in _facts.get("grains", {}):
        _facts["grains"][2] = _facts["grains"].pop("2")


def facts_of(name: str) -> MinionFacts:
    """The recorded minion as facts."""
    known = MINIONS[name]
    return MinionFacts(
        id=name,
        grains=known.get("grains", {}),
        pillar=known.get("pillar", {}),
        nodegroups=RECORDED["nodegroups"],
    )


def universe(**changes: Any) -> Universe:
    """The recorded master."""
    settings: dict[str, Any] = {
        "accepted": sorted(MINIONS),
        "fetch": lambda bank, name: MINIONS[name].get(bank),
        "cached": lambda bank: [name for name in MINIONS if bank in MINIONS[name]],
        "nodegroups": RECORDED["nodegroups"],
    }
    return Universe(**{**settings, **changes})


OURS = {
    "not N@either": ["silent", "we(ird)+id", "web1.example.com", "web2.example.com"],
    "N@words and db*": ["db1", "db2"],
}
"""Where stock reads only a part of a group as an operand, and ours the whole of it."""

_AS_STOCK = [case for case in RECORDED["cases"] if str(case["tgt"]) not in OURS]


class AsStockTests(SynchronousTestCase):
    """Every recorded target has the recorded answer, but for those in L{OURS}."""

    def test_better(self) -> None:
        """
        A group within an expression is one operand, to master and minion: without its members
        means without all of them. Stock's answers differ in these cases, and in no others.
        """
        seen = set()
        for case in RECORDED["cases"]:
            if str(case["tgt"]) in OURS:
                right = OURS[case["tgt"]]
                seen.add(case["tgt"])
                self.assertNotEqual(sorted(case["matched"]), right)
                self.assertNotEqual(case["selected"], right)
                answer = check_minions(case["tgt"], case["type"], universe())
                self.assertEqual(sorted(answer.minions), right)
        self.assertEqual(seen, set(OURS))
        groups = {"ab": "L@a or L@b", "nest": "N@ab", "more": "N@ab or L@d", "odd": "( a or b"}
        ours = evolve(universe(), accepted=["a", "b", "c", "d"], nodegroups=groups)
        for tgt, right in (
            ("not N@ab", ["c", "d"]),
            ("c and N@ab", []),
            ("c or N@ab and L@a", ["a", "c"]),
            ("not N@nest", ["c", "d"]),
            ("not N@more", ["c"]),
            ("N@ab", ["a", "b"]),
        ):
            answer = check_minions(tgt, "compound", ours)
            self.assertEqual(sorted(answer.minions), right, tgt)
            published, kind = unfold(tgt, "compound", groups)
            for told, known in ((tgt, groups), (published, {})):
                here = [
                    name
                    for name in "abcd"
                    if matches(told, kind, MinionFacts(id=name, nodegroups=known))
                ]
                self.assertEqual(here, right, told)

    def test_minion(self) -> None:
        """A minion counts itself in exactly when a stock minion does."""
        everyone = [facts_of(name) for name in MINIONS]
        found = []
        for case in _AS_STOCK:
            key = (case["type"], str(case["tgt"]))
            matched = [
                facts.id
                for facts in everyone
                if publication_matches(
                    {
                        "jid": "1",
                        "fun": "test.ping",
                        "arg": [],
                        "tgt": case["tgt"],
                        "tgt_type": case["type"],
                        "delimiter": case["delimiter"],
                    },
                    facts,
                )
            ]
            if matched != case["matched"]:
                found.append((key, matched, case["matched"]))

        self.assertEqual(found, [])

    def test_master(self) -> None:
        """A master expects exactly whom a stock master expects, and misses the same names."""
        found = []
        for case in _AS_STOCK:
            key = (case["type"], str(case["tgt"]))
            answer = check_minions(case["tgt"], case["type"], universe(), case["delimiter"])
            got = (sorted(answer.minions), list(answer.missing))
            wanted = (case["selected"], case["missing"])
            if got != wanted:
                found.append((key, got, wanted))

        self.assertEqual(found, [])

    def test_master_shy(self) -> None:
        """Without greed, as for the mine, only minions with cached grains are considered."""
        found = []
        for case in _AS_STOCK:
            key = (case["type"], str(case["tgt"]))
            answer = check_minions(
                case["tgt"], case["type"], universe(), case["delimiter"], greedy=False
            )
            if sorted(answer.minions) != case["shy"]:
                found.append((key, sorted(answer.minions), case["shy"]))

        self.assertEqual(found, [])


class TraverseTests(SynchronousTestCase):
    """Paths into nested data."""

    def test_paths(self) -> None:
        """Maps, lists by number, maps inside lists, and numeric keys are entered."""
        data = {"a": {"b": [10, {"c": "x"}]}, 3: "three", "l": [{"k": 1}, {"k": 2}], True: "yes"}

        self.assertEqual(traverse(data, "a:b:0"), 10)
        self.assertEqual(traverse(data, "a:b:c"), "x")
        self.assertEqual(traverse(data, "a/b/1/c", delimiter="/"), "x")
        self.assertEqual(traverse(data, "3"), "three")
        self.assertEqual(traverse(data, 3), "three")
        self.assertEqual(traverse(data, ["l", "k"]), 1)
        self.assertEqual(traverse(data, "true"), "yes")
        self.assertEqual(traverse(data, "a:b:7", "none"), "none")
        self.assertEqual(traverse(data, "a:b:0:0", "none"), "none")
        self.assertEqual(traverse(None, "a", "none"), "none")

    def test_broken_key(self) -> None:
        """A key that is not YAML is a key like any other."""
        self.assertIsNone(traverse({"a": 1}, "{"))
        self.assertIsNone(traverse({"a": 1}, "!!python/object/apply:os.getcwd []"))
        self.assertTrue(subdict_match({"{": {"[": 1}}, "{:[:1"))

    def test_self_reference(self) -> None:
        """Looking with wild cards goes one level down and no further."""
        data: dict[str, Any] = {"a": {"b": {"c": "d"}}}

        self.assertTrue(subdict_match(data, "a:*:c"))
        self.assertFalse(subdict_match(data, "*:d"))


class PublicationTests(SynchronousTestCase):
    """What a minion makes of a published job."""

    def test_incomplete(self) -> None:
        """A job without function or arguments is for nobody."""
        facts = MinionFacts(id="m")

        self.assertFalse(publication_matches({"tgt": "*", "jid": "1", "fun": "f"}, facts))
        self.assertTrue(publication_matches({"tgt": "*", "jid": "1", "fun": "f", "arg": []}, facts))

    def test_data(self) -> None:
        """C{data} targets read the minion's own store."""
        store = {"role": "Web", "list": ["A", "b"], "map": {"k": 1}}
        facts = MinionFacts(id="m", data=store.get)

        answers = [
            matches(tgt, "data", facts)
            for tgt in ("role:W*", "role:w*", "list:a", "map:k", "map:x", "none:x", "role")
        ]

        self.assertEqual(answers, [True, False, True, True, False, False, False])

    def test_range(self) -> None:
        """Ranges match by the grain fqdn where they can be expanded, and nowhere else."""
        facts = MinionFacts(
            id="m", grains={"fqdn": "m.example"}, expand_range=lambda _: ["m.example"]
        )
        told: list[str] = []

        self.assertTrue(matches("%web", "range", facts))
        self.assertTrue(matches("R@%web and m", "compound", facts))
        self.assertFalse(matches("%web", "range", MinionFacts(id="m"), note=told.append))
        self.assertIn("unavailable", told[0])

    def test_note(self) -> None:
        """An expression that cannot be understood says why, once."""
        told: list[str] = []

        self.assertFalse(matches("a and", "compound", MinionFacts(id="a"), note=told.append))
        self.assertEqual(told, ["Invalid compound target: a and"])

    def test_resources(self) -> None:
        """Resource targets of 3008 match nobody, and say that they are not supported."""
        told: list[str] = []

        self.assertFalse(matches("T@vm", "compound", MinionFacts(id="a"), note=told.append))
        answer = check_minions("T@vm or db1", "compound", universe())

        self.assertIn("not supported", told[0])
        self.assertEqual(list(answer.minions), [])
        self.assertIn("not supported", answer.problems[0])

    def test_top(self) -> None:
        """A top file's target is a compound unless its entries say otherwise."""
        facts = facts_of("db1")

        self.assertTrue(confirm_top("G@os:CentOS and db*", ["sls"], facts))
        self.assertTrue(confirm_top("os:CentOS", [{"match": "grain"}, "sls"], facts))
        self.assertTrue(confirm_top("dbs", ["sls", {"match": "nodegroup"}], facts))
        self.assertFalse(confirm_top("os:CentOS", ["sls"], facts))
        self.assertFalse(confirm_top("db1", [{"match": "horoscope"}], facts))


class NodegroupTests(SynchronousTestCase):
    """Groups are unfolded before a job is published."""

    def test_wrong(self) -> None:
        """
        A target that cannot be understood means nobody, and it is said why: an expression that is
        none, in every kind of target; a ring of groups; one that is not there.
        """
        groups = {"ring": "N@gnir", "gnir": "N@ring", "lost": "N@nowhere or N@gone"}
        there = universe(nodegroups=groups)
        for tgt, tgt_type in (
            ("*(", "pcre"),
            ("os:(", "grain_pcre"),
            ("os:*a", "pillar_pcre"),
            ("E@*(", "compound"),
            ("* and not P@os:(", "compound"),
            ("* and not J@a:b:[", "compound"),
        ):
            answer = check_minions(tgt, tgt_type, there)
            self.assertEqual(list(answer.minions), [], tgt)
            self.assertIn("Invalid regular expression", str(answer.problems), tgt)
        for tgt, tgt_type, why in (
            ("ring", "nodegroup", "illegal nested"),
            ("N@ring", "compound", "illegal nested"),
            ("lost", "nodegroup", 'unknown nodegroup "nowhere"'),
            ("nowhere", "nodegroup", 'unknown nodegroup "nowhere"'),
        ):
            answer = check_minions(tgt, tgt_type, there)
            self.assertEqual(list(answer.minions), [], tgt)
            self.assertIn(why, str(answer.problems), tgt)
        for tgt in ("os:(?:x|y)", "os:x:y", "os:[x:y]"):
            self.assertEqual(list(check_minions(tgt, "grain_pcre", there).problems), [], tgt)

    def test_unfold(self) -> None:
        """Groups become words; targets without groups stay as they are."""
        groups = {"web": "web*", "both": "N@web or db1", "named": "a,b"}

        self.assertEqual(unfold("web", "nodegroup", groups), ("web*", "compound"))
        self.assertEqual(
            unfold("N@both and not x", "compound", groups),
            ("( ( web* ) or db1 ) and not x", "compound"),
        )
        self.assertEqual(unfold("named", "nodegroup", groups), ("L@a,b", "compound"))
        self.assertEqual(unfold("a  or b", "compound", groups), ("a  or b", "compound"))
        self.assertEqual(unfold("*", "glob", groups), ("*", "glob"))

    def test_odd(self) -> None:
        """What is not an expression has no groups in it."""
        self.assertEqual(unfold(5, "compound", {}), (5, "compound"))

    def test_unknown(self) -> None:
        """A group that is not configured is an error which names it and its place."""
        error = self.assertRaises(TargetError, unfold, "a or N@nope", "compound", {})

        self.assertIn("nope", error.reason)
        self.assertEqual(error.position, 5)

    def test_circle(self) -> None:
        """Groups that contain one another end, and are told."""
        told: list[str] = []

        words = expand("a", {"a": "N@b or x", "b": "N@a or y"}, told.append)

        self.assertEqual(words, ["(", "(", "or", "y", ")", "or", "x", ")"])
        self.assertEqual(told, ['Failed nodegroup expansion: illegal nested nodegroup "a"'])


class ManyTests(SynchronousTestCase):
    """Ten thousand minions."""

    def test_ten_thousand(self) -> None:
        """Every kind of target selects from ten thousand minions, in the order of the ids."""
        ids = sorted(f"web{number}" for number in range(10000))
        grains = {name: {"os": "Debian" if name[-1] in "02468" else "BSD"} for name in ids}
        many = Universe(
            accepted=ids, fetch=lambda bank, name: grains[name], cached=lambda bank: ids
        )
        even = [name for name in ids if name[-1] in "02468"]

        self.assertEqual(list(check_minions("*", "glob", many).minions), ids)
        self.assertEqual(list(check_minions("*[02468]", "glob", many).minions), even)
        self.assertEqual(list(check_minions("os:debian", "grain", many).minions), even)
        self.assertEqual(
            list(check_minions("G@os:Debian and not web1*", "compound", many).minions),
            [name for name in even if not name.startswith("web1")],
        )
        self.assertEqual(
            list(check_minions(",".join(ids[::-1]) + ",x", "list", many).missing), ["x"]
        )

    def test_small_steps(self) -> None:
        """No kind of target takes more than a few milliseconds of CPU between two steps."""
        ids = sorted(f"web{number}" for number in range(10000))
        grains = {name: {"os": "Debian", "ipv4": [f"10.0.0.{len(name)}"]} for name in ids}
        many = Universe(
            accepted=ids, fetch=lambda bank, name: grains[name], cached=lambda bank: ids
        )
        targets = (
            ("web*9", "glob"),
            ("web.*9", "pcre"),
            ("os:D*", "grain"),
            ("os:D.*", "grain_pcre"),
            ("10.0.0.0/8", "ipcidr"),
            ("G@os:Debian and E@web1.* and not S@10.0.0.7 or web*", "compound"),
        )
        for tgt, kind in targets:
            steps = list(selecting(tgt, kind, many))

            self.assertEqual([step for step in steps if step is not None], [])
            self.assertGreaterEqual(len(steps), 39)

    def test_risky_expressions(self) -> None:
        """A regular expression that may take for ever is given to the caller, alone or inside."""
        known = Universe(
            accepted=["a1", "b2"],
            fetch=lambda bank, name: {"os": name},
            cached=lambda bank: ["a1", "b2"],
        )
        cases = (
            ("(a+)+$", "pcre", ["a1", "b2"], ""),
            ("os:(a+)+$", "grain_pcre", ["a1", "b2"], "grains"),
            ("b* or E@(a|a)*$", "compound", ["a1", "b2"], ""),
            ("J@os:(.*)*x and *", "compound", ["a1", "b2"], "pillar"),
        )
        for tgt, kind, ids, bank in cases:
            steps = selecting(tgt, kind, known)
            asked = next(step for step in steps if step is not None)
            self.assertEqual((list(asked.ids), asked.bank), (ids, bank))
            with self.assertRaises(StopIteration) as end:
                steps.send(["a1"])
                while True:
                    next(steps)
            self.assertIn("a1", end.exception.value.minions)

    def test_parts(self) -> None:
        """A search that may ask for single keys finds the same."""
        whole = universe()

        def part(bank: str, name: str, keys: tuple[Any, ...]) -> dict[Any, Any] | None:
            data = whole.fetch(bank, name)
            return None if data is None else {key: data[key] for key in keys if key in data}

        parts = evolve(whole, part=part)
        for case in RECORDED["cases"]:
            self.assertEqual(
                check_minions(case["tgt"], case["type"], parts, case["delimiter"]),
                check_minions(case["tgt"], case["type"], whole, case["delimiter"]),
                case,
            )

    def test_too_slow(self) -> None:
        """An expression that was given up means nobody, with a reason."""
        steps = selecting("(a+)+$", "pcre", Universe(accepted=["a"]))
        self.assertIsNotNone(next(steps))
        with self.assertRaises(StopIteration) as end:
            steps.send(None)
        self.assertEqual(list(end.exception.value.minions), [])
        self.assertIn("takes too long to match", end.exception.value.problems[0])

    def test_cheap_expressions(self) -> None:
        """What people write is cheap; what has more ways than letters is not."""
        for pattern in (
            r"web\d+",
            "web.*[02468]$",
            "(web|db)[0-9]{1,3}",
            "^a?b?c?$",
            "x*",
            ".*a.*",
        ):
            self.assertFalse(is_risky(pattern), pattern)
        for pattern in (
            "(a+)+$",
            "(a|a)*b",
            "(a?){30}b",
            "(?:.*a){20}",
            r"(a*)\1",
            ".*.*.*x",
            "a?" * 30,
            "(?=(a+)*)b",
        ):
            self.assertTrue(is_risky(pattern), pattern)

    def test_long_expressions(self) -> None:
        """Thousands of words and parentheses neither recurse nor take long."""
        facts = MinionFacts(id="m999")
        names = " or ".join(f"m{number}" for number in range(3000))
        deep = "( " * 5000 + "m999" + " )" * 5000

        self.assertTrue(matches(names, "compound", facts))
        self.assertTrue(matches(deep, "compound", facts))

    def test_many_wild_cards(self) -> None:
        """A path of wild cards through deep data is answered without trying every way."""
        data: dict[str, Any] = {}
        here = data
        for _ in range(30):
            here["a"], here["b"] = {}, {"c": [{"a": 1}]}
            here = here["a"]
        here["end"] = "x"

        self.assertFalse(subdict_match(data, "a:*:" * 20 + "zz"))
        self.assertTrue(subdict_match(data, "a:*:" * 15 + "end"))
        self.assertFalse(subdict_match(data, "*:" * 60 + "zz"))

    def test_odd_values(self) -> None:
        """A target of the wrong type selects nobody and says why; lists of globs are fine."""
        odd: list[tuple[Any, str]] = [(5, "glob"), (5, "list"), (5, "grain"), (5, "pcre")]

        for tgt, kind in odd:
            answer = check_minions(tgt, kind, universe())
            self.assertEqual(list(answer.minions), [])
            self.assertTrue(answer.problems)
        self.assertEqual(
            list(check_minions(["db*", "x"], "glob", universe()).minions), ["db1", "db2"]
        )

    def test_range(self) -> None:
        """A range selects the accepted minions in it, where it can be expanded."""
        known = universe(expand_range=lambda text: ["db1", "gone"])

        self.assertEqual(list(check_minions("%db", "range", known).minions), ["db1"])
        self.assertEqual(
            list(check_minions("R@%db or db2", "compound", known).minions), ["db1", "db2"]
        )
        self.assertIn("unavailable", check_minions("%db", "range", universe()).problems[0])

    def test_without_cache(self) -> None:
        """Without a data cache, nobody can be excluded by grains."""
        blind = universe(data_cache=False)

        self.assertEqual(len(check_minions("os:Debian", "grain", blind).minions), len(MINIONS))
        self.assertEqual(check_minions("os:x", "grain", blind, greedy=False).minions, [])
        self.assertEqual(len(check_minions("::1", "ipcidr", blind).minions), len(MINIONS))
        self.assertEqual(check_minions("::1", "ipcidr", blind, greedy=False).minions, [])
        self.assertEqual(len(check_minions("G@os:x", "compound", blind).minions), len(MINIONS))

    def test_as_many_are_not_the_same(self) -> None:
        """A compound that means as many as are accepted need not mean those."""
        cache = {"a": {"os": "x"}, "old": {"os": "x"}}
        made = Universe(
            accepted=["a", "b"],
            fetch=lambda bank, name: cache.get(name),
            cached=lambda bank: cache,
        )
        found = check_minions("G@os:x", "compound", made, greedy=False)
        self.assertNotIn("b", found.minions)
