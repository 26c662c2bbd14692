"""
C{docs/machines/} is what C{docs/make_machines.py} writes, and that is what the machines do.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.minion import failover, rules

ROOT = Path(__file__).resolve().parent.parent.parent


def maker() -> Any:
    """The program that writes the pages."""
    spec = importlib.util.spec_from_file_location("machines", ROOT / "docs/make_machines.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class MachineTests(SynchronousTestCase):
    """The pages."""

    def test_current(self) -> None:
        """Each page is what the code gives now, and there is no other."""
        written = {path.name: path.read_text() for path in (ROOT / "docs/machines").iterdir()}

        self.assertEqual(written, maker().files(), "run: python docs/make_machines.py")

    def test_every_row(self) -> None:
        """Each row of the two tables is on its page."""
        made = maker()
        links = {(state, event) for state, event, _, _ in made.link_steps()}
        choices = {(place, event) for place, event, _, _ in made.failover_steps()}

        rows = {(state.value, event.__name__) for state, event in rules.TABLE}
        self.assertEqual(links, rows)
        places = {(place.value, event.__name__) for place, event in failover.TABLE}
        self.assertEqual(choices, places)

    def test_known(self) -> None:
        """What is printed is what must hold: a removal is final, a rejection needs a decision."""
        made = maker()
        members, keys = made.member_steps(), made.key_steps()

        after = {state for before, _, state, _ in members if before in ("removed", "left")}
        self.assertEqual(after, {"removed", "left"})
        ways = {act for before, act, state, _ in keys if before != state == "accepted"}
        self.assertEqual(ways, {"accept"})

    def test_changes_bite(self) -> None:
        """A row that does something else is another page."""
        made = maker()
        before = made.link()
        self.patch(rules, "TABLE", {**rules.TABLE, (rules.State.UP, rules.Heard): rules._stay})

        self.assertNotEqual(made.link(), before)
