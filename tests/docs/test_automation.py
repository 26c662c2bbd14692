"""
The page on automation: what it shows of the reactor is as the reactor reads it.
"""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.reactions.entries import OPTIONS, parse
from saltwisted.domain.reactions.looking import look
from saltwisted.domain.yamltext import load_yaml
from saltwisted.worker.automation.work import Rendering

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "automation.md"


class AutomationPageTests(SynchronousTestCase):
    """C{docs/automation.md}."""

    def setUp(self) -> None:
        """The part on the reactor, and its blocks of YAML."""
        text = PAGE.read_text()
        self.part = text[text.index("## The reactor") : text.index("## The schedule")]
        self.blocks = re.findall(r"```yaml\n(.*?)```", self.part, re.S)

    def test_entries(self) -> None:
        """The entries it shows are entries."""
        entries, problems = parse(load_yaml(self.blocks[0])["reactor"])

        self.assertEqual(problems, [])
        self.assertEqual(len(entries), 2)
        assert entries[1].throttle is not None
        self.assertEqual((entries[1].throttle.by, entries[1].batch), (("id",), 20))

    def test_options(self) -> None:
        """The table has the options that there are."""
        table = self.part[self.part.index("### What an entry may say") :]
        rows = re.findall(r"^\| `(\w+)` \|", table[: table.index("### Before")], re.M)

        self.assertEqual(sorted(rows), sorted(OPTIONS))

    def test_sls(self) -> None:
        """The SLS it shows is sound, and its two calls come in the order that it says."""
        path = Path(self.mktemp())
        path.write_text(self.blocks[1])

        (answer,) = Rendering(MasterConfig(id="x").as_opts()).react(
            [
                {
                    "tag": "backup/wanted",
                    "data": {"id": "web1", "data": {"disk": 95}},
                    "sls": [[str(path.absolute()), "base"]],
                }
            ]
        )

        self.assertEqual([one for one in look("x", self.blocks[1]) if "problem" in one], [])
        self.assertEqual(answer["problems"], [])
        self.assertEqual([chunk["fun"] for chunk in answer["chunks"]], ["cmd.run", "event.send"])
