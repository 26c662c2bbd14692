"""
What holds for every target, found by search.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.targeting.matchers import MATCHERS, MinionFacts, matches
from saltwisted.domain.targeting.nodegroups import expand
from saltwisted.domain.targeting.selection import Universe, check_minions
from saltwisted.domain.targeting.traverse import subdict_match, traverse

IDS = ["a1", "a2", "b1", "b2", "silent"]
GRAINS: dict[str, dict[str, Any]] = {
    name: {"os": name[0].upper(), "n": int(name[1]), "ipv4": [f"10.0.{ord(name[0])}.{name[1]}"]}
    for name in IDS[:4]
}
MASTER = Universe(
    accepted=IDS, fetch=lambda bank, name: GRAINS.get(name), cached=lambda bank: list(GRAINS)
)

operands = st.sampled_from(
    ["a*", "b1", "*", "G@os:A", "P@os:A|B", "L@a1,b2", "E@.2", "S@10.0.97.0/24", "I@os:B", "nobody"]
)


def unfold(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Larger expressions from smaller ones."""
    return st.one_of(
        st.tuples(part, st.sampled_from([" and ", " or "]), part).map("".join),
        part.map("not {}".format),
        part.map("( {} )".format),
    )


well_formed = st.recursive(operands, unfold, max_leaves=8).filter(
    lambda text: "not not" not in text
)
any_words = st.lists(
    st.one_of(operands, st.sampled_from(["and", "or", "not", "(", ")", "N@x", "T@x", "Q@x", "@"])),
    max_size=12,
).map(" ".join)
trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.text("ab*:[", max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.text("ab12:*", max_size=2), st.integers(0, 3)), inner, max_size=3
        ),
    ),
    max_leaves=10,
)


class TargetLaws(SynchronousTestCase):
    """Laws of targets."""

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(well_formed)
    def test_master_and_minion_agree(self, target: str) -> None:
        """The master expects exactly the minions that count themselves in."""
        expected = [
            name
            for name, grains in GRAINS.items()
            if matches(target, "compound", MinionFacts(id=name, grains=grains, pillar=grains))
        ]

        selected = check_minions(target, "compound", MASTER)

        self.assertEqual([name for name in selected.minions if name != "silent"], expected)
        self.assertEqual(selected.problems, [])

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(st.one_of(any_words, st.text(max_size=30)), st.sampled_from(sorted(MATCHERS)))
    def test_never_raises(self, target: str, kind: str) -> None:
        """Whatever is asked, the answer is yes or no, and accepted minions are all there is."""
        answer = matches(target, kind, MinionFacts(id="a1", grains=GRAINS["a1"]))

        self.assertIsInstance(answer, bool)
        self.assertLessEqual(set(check_minions(target, kind, MASTER).minions), set(IDS))

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(trees, st.text("ab12*:[]", max_size=8), st.booleans(), st.booleans())
    def test_any_data(self, data: Any, path: str, regex: bool, exact: bool) -> None:
        """Any path may be asked of any data."""
        self.assertIsInstance(subdict_match({"a": data}, path, ":", regex, exact), bool)
        traverse(data, path)

    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(
        st.dictionaries(
            st.sampled_from("abcd"),
            st.lists(st.sampled_from(["N@a", "N@b", "N@c", "or", "x*", "(", ")"]), max_size=4),
        )
    )
    def test_groups_end(self, groups: dict[str, list[str]]) -> None:
        """However groups name one another, unfolding ends and leaves no group behind."""
        for name in groups:
            words = expand(name, groups)
            self.assertFalse(any(word.startswith("N@") for word in words))

    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 32))
    def test_networks(self, address: int, other: int, length: int) -> None:
        """An address is in a network exactly when the library says so."""
        ip = ipaddress.IPv4Address(address)
        network = ipaddress.IPv4Network((other, length), strict=False)
        facts = MinionFacts(id="m", grains={"ipv4": ["nonsense", "999.1.1.1", str(ip)]})

        self.assertEqual(matches(str(network), "ipcidr", facts), ip in network)
        self.assertTrue(matches(str(ip), "ipcidr", facts))
