"""
C{minion_events}: which tags of its own a minion may fire.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.master.rig import Rig, RigMinion


class MinionEventsTests(SynchronousTestCase):
    """A master with rules for two minions."""

    def made(self, **options: object) -> Rig:
        """Make it, and note what is fired."""
        rig = Rig(self, **options)
        self.heard: list[tuple[str, str]] = []
        rig.ctx.bus.subscribe_events("", lambda event: self.heard.append((event.tag, event.sender)))
        self.ci, self.web = (RigMinion(rig, name).accepted() for name in ("ci1", "web1"))
        self.heard.clear()
        return rig

    def test_T_EVT_3_rules(self) -> None:
        """
        T-EVT-3: what a minion may not fire reaches nobody, alone, in a list or below a pretag, and
        is counted; the rest of a list does, and what Salt itself says of the minion.
        """
        rig = self.made(minion_events={"ci*": ["deploy/*"]})
        for minion in (self.ci, self.web):
            minion.ask("_minion_event", tag="deploy/x", data={}, id=minion.id)
            minion.ask("_minion_event", tag="other/x", data={}, id=minion.id)
            minion.ask(
                "_minion_event",
                pretag="salt/custom",
                events=[{"tag": "a", "data": {}}],
            )
            minion.ask(
                "_minion_event",
                events=[
                    {"tag": "deploy/y", "data": {}},
                    {"tag": "other/y", "data": {}},
                    {"tag": f"salt/beacon/{minion.id}/disk/", "data": {}},
                    {"tag": "minion_start", "data": {}},
                ],
            )
        self.assertEqual(
            self.heard,
            [
                ("deploy/x", "ci1"),
                ("deploy/y", "ci1"),
                ("salt/beacon/ci1/disk/", "ci1"),
                ("minion_start", "ci1"),
                ("salt/beacon/web1/disk/", "web1"),
                ("minion_start", "web1"),
            ],
        )
        self.assertEqual(rig.counters["denied:event"], 3 + 5)

    def test_T_EVT_3_peer_run(self) -> None:
        """T-EVT-3: a minion that may run C{event.send} at the master fires no other tags by it."""
        self.made(minion_events={"ci*": ["deploy/*"]}, peer_run={".*": ["event.send"]})
        for minion in (self.ci, self.web):
            for arg in (["deploy/x"], ["salt/key"], ["tag=salt/key"], []):
                minion.ask("minion_runner", fun="event.send", arg=arg)
        tags = [tag for tag, _ in self.heard if not tag.startswith("salt/run/")]
        self.assertEqual(tags, ["deploy/x"])

    def test_without(self) -> None:
        """Without the option a minion fires tags of its own as in Salt."""
        rig = self.made()
        self.web.ask("_minion_event", tag="other/x", data={}, id="web1")
        self.assertEqual(self.heard, [("other/x", "web1")])
        self.assertEqual(rig.counters["denied:event"], 0)
