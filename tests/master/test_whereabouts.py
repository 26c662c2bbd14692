"""What a master remembers of its minions over a restart."""

from __future__ import annotations

import shutil
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.presence import Whereabouts
from saltwisted.master.whereabouts import EVERY, RARELY, WhereaboutsNotes
from saltwisted.stores.whereabouts import WhereaboutsFile
from tests.master.rig import AtOnce, Rig, RigMinion


class WhereaboutsTests(SynchronousTestCase):
    """The address of a minion's last request outlives its master."""

    def setUp(self) -> None:
        """A master, and a minion that has made a request from behind an address of its own."""
        self.rig = Rig(self)
        RigMinion(self.rig, "m1").accepted().ask("_minion_event", tag="x", data={})
        self.session = self.rig.ctx.sessions.live()["m1"]
        self.session.spoke("198.51.100.7", self.rig.clock.seconds())
        self.file = WhereaboutsFile(self.rig.config.cachedir)
        self.written = 0

    def notes(self) -> WhereaboutsNotes:
        """Started beside the master."""

        def run(function: Any, *args: Any) -> Any:
            self.written += 1
            return AtOnce().run(function, *args)

        rig = self.rig
        made = WhereaboutsNotes(
            rig.clock, self.file, rig.ctx.keys, run, lambda: 30.0, lambda: rig.ctx.presence
        )
        made.startService()
        self.addCleanup(made.stopService)
        return made

    def test_after_a_restart(self) -> None:
        """Silent since the start, it is present while there is a connection from its address."""
        self.notes().stopService()
        self.rig.ctx.sessions.live().clear()
        presence = self.rig.ctx.presence
        presence._earlier = WhereaboutsFile(self.rig.config.cachedir).read

        self.assertEqual(presence.before(), ["m1"])
        self.assertEqual(presence.here(["m1"]), set())
        self.rig.connected.add("198.51.100.7")
        self.assertEqual(presence.here(["m1"]), {"m1"})

    def test_killed(self) -> None:
        """A master that is killed has written it within seconds."""
        self.notes()
        self.rig.clock.advance(EVERY)

        self.assertEqual(self.file.read(), {"m1": Whereabouts("198.51.100.7", True)})

    def test_rarely(self) -> None:
        """Requests write nothing, and presence alone is written once a minute."""
        self.notes()
        self.rig.clock.advance(EVERY)
        for _ in range(5):
            self.session.spoke("198.51.100.7", self.rig.clock.seconds())
            self.rig.clock.advance(EVERY)
        self.assertEqual(self.written, 1)

        for _ in range(int((RARELY + 60) / EVERY)):
            self.rig.clock.advance(EVERY)
        self.assertEqual(self.written, 2)
        self.assertEqual(self.file.read(), {"m1": Whereabouts("198.51.100.7", False)})

    def test_two_restarts(self) -> None:
        """Who has not come back yet when the master is stopped again is still known to come."""
        self.notes().stopService()
        self.rig.ctx.sessions.live().clear()
        second = self.notes()
        self.rig.ctx.presence._earlier = second.earlier
        self.rig.clock.advance(EVERY)
        second.stopService()

        self.assertEqual(self.file.read(), {"m1": Whereabouts("198.51.100.7", True)})

    def test_revoked(self) -> None:
        """Of a minion whose key is gone nothing is kept."""
        self.notes()
        self.rig.clock.advance(EVERY)
        self.rig.ctx.keys.delete("m1")
        self.rig.clock.advance(EVERY)

        self.assertEqual(self.file.read(), {})

    def test_damaged(self) -> None:
        """A file that says nothing useful, or cannot be written, stops nothing."""
        self.file.write({"a": Whereabouts("x" * 1000, True)})
        self.assertEqual(self.file.read(), {"a": Whereabouts("x" * 64, True)})
        for data in (b"\xc1", b"\x93\x01\x02\x03", b"\x91\x93\x01\x02\x03", b"\x81\x01\x02"):
            with open(self.file._path, "wb") as handle:
                handle.write(data)
            self.assertEqual(self.file.read(), {})
        shutil.rmtree(self.rig.config.cachedir)
        with open(self.rig.config.cachedir, "w"):
            self.file.write({})
        self.assertEqual(len(self.flushLoggedErrors()), 0)
