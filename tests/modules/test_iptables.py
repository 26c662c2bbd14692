"""
Rules of iptables that are made of arguments.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.modules._iptables_rule import Rule, parsed


class TargetTests(SynchronousTestCase):
    """Options of a target stand behind the jump, or iptables refuses them."""

    def test_behindJump(self) -> None:
        """Options that are newer than the targets, too."""
        for kwargs, rule in (
            (
                {"random-fully": "", "to-source": "192.0.2.1", "jump": "SNAT"},
                "--jump SNAT --random-fully --to-source 192.0.2.1",
            ),
            (
                {"sack-perm": "", "timestamp": "", "wscale": 7, "mss": 1460, "jump": "SYNPROXY"},
                "--jump SYNPROXY --mss 1460 --sack-perm --timestamp --wscale 7",
            ),
            ({"zone-orig": 3, "jump": "CT"}, "--jump CT --zone-orig 3"),
            ({"zone-reply": 4, "jump": "CT"}, "--jump CT --zone-reply 4"),
        ):
            self.assertEqual(Rule(kwargs).text(), rule)

    def test_sets(self) -> None:
        """A set and its directions are two words of iptables; stock puts them into quotes."""
        kwargs = {"map-mark": "", "map-set": "foo src,dst", "jump": "SET"}
        self.assertEqual(Rule(kwargs).text(), "--jump SET --map-set foo src,dst --map-mark")
        self.assertEqual(
            Rule({"add-set": "foo src", "jump": "SET"}).text(), "--jump SET --add-set foo src"
        )

    def test_read(self) -> None:
        """A saved rule that has them can be read."""
        saved = "*nat\n:OUT ACCEPT [0:0]\n-A OUT -j MASQUERADE --random-fully\nCOMMIT\n"

        self.assertIn("random-fully", str(parsed(saved)))
