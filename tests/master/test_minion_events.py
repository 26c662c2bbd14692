"""
C{minion_events}: which tags of its own a minion may fire; and what it says of secret jobs.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.document import parse
from saltwisted.domain.secrecy import STARS, SecretJobs
from saltwisted.domain.who import local
from saltwisted.errors import StoreError
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
        is counted and in the log (pains-next 2.10); the rest of a list does, and what Salt itself
        says of the minion.
        """
        logged: list[LogEvent] = []
        globalLogPublisher.addObserver(logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, logged.append)
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
        said = [formatEvent(event) for event in logged]
        self.assertIn("minion ci1 may not fire other/x (by minion_events)", said)
        self.assertIn("minion web1 may not fire deploy/x (by minion_events)", said)

    def test_T_EVT_3_peer_run(self) -> None:
        """T-EVT-3: a minion that may run C{event.send} at the master fires no other tags by it."""
        self.made(minion_events={"ci*": ["deploy/*"]}, peer_run={".*": ["event.send"]})
        for minion in (self.ci, self.web):
            for arg in (["deploy/x"], ["salt/key"], ["tag=salt/key"], []):
                minion.ask("minion_runner", fun="event.send", arg=arg)
        tags = [tag for tag, _ in self.heard if not tag.startswith("salt/run/")]
        self.assertEqual(tags, ["deploy/x"])

    def said(self) -> list[str]:
        """The lines of the log from now on, as they come."""
        lines: list[str] = []

        def heard(event: LogEvent) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(heard)
        self.addCleanup(globalLogPublisher.removeObserver, heard)
        return lines

    def test_T_EVT_4_doors(self) -> None:
        """
        T-EVT-4: by no way of firing does a minion start what waits for hooks, files, runners or the
        wheel: alone, in a list, below a pretag, in a list of thousands, or by C{peer_run}; each
        request is said once, and what stands beside it is fired.
        """
        rig = self.made(peer_run={".*": ["event.send"]})
        said = self.said()
        tags = (
            "salt/netapi/hook/deploy", "salt/fileserver/gitfs/update", "salt/run/1/ret",
            "salt/wheel/1/new", "salt/custom/x", "salt/minion/ci1/start", "salt/job/1/new",
        )  # fmt: skip
        for tag in tags:
            said.clear()
            before = rig.counters["denied:event"] + rig.counters["dropped:event"]
            head, _, rest = tag.partition("/")
            beside = {"tag": "site/beside", "data": {}}
            self.web.ask("_minion_event", tag=tag, data={})
            self.web.ask("_minion_event", events=[{"tag": tag, "data": {}}, beside])
            self.web.ask("_minion_event", pretag=head, events=[{"tag": rest, "data": {}}])
            self.web.ask("_minion_event", events=[{"tag": tag, "data": {}}] * 600 + [beside])
            rig.clock.pump([0.1] * 10)
            self.assertEqual(self.web.ask("minion_runner", fun="event.send", arg=[tag]), {})
            after = rig.counters["denied:event"] + rig.counters["dropped:event"]
            self.assertEqual(after - before, 604, tag)
            told = [line for line in said if line.startswith(f"minion web1 may not fire {tag} (")]
            self.assertEqual(len(told), 5, said)
        self.assertEqual(self.heard, [("site/beside", "web1")] * 2 * len(tags))

    def test_T_EVT_4_advice(self) -> None:
        """T-EVT-4: a master that has the line of its log in its configuration lets it pass."""
        tag = "salt/custom/[x]"
        self.made()
        said = self.said()
        self.web.ask("_minion_event", tag=tag, data={})
        (line,) = (line for line in said if "allows it: " in line)
        pasted = parse(line.partition("allows it: ")[2], "master")

        self.made(**pasted)
        for minion in (self.ci, self.web):
            for each in (tag, "salt/custom/x", "site/own"):
                minion.ask("_minion_event", tag=each, data={})
        self.assertEqual(self.heard, [("site/own", "ci1"), (tag, "web1"), ("site/own", "web1")])

    def test_without(self) -> None:
        """Without the option a minion fires tags of its own as in Salt."""
        rig = self.made()
        self.web.ask("_minion_event", tag="other/x", data={}, id="web1")
        self.assertEqual(self.heard, [("other/x", "web1")])
        self.assertEqual(rig.counters["denied:event"], 0)


class SecretJobTests(SynchronousTestCase):
    """A master that hears of the progress of jobs, of which some are secret."""

    def setUp(self) -> None:
        self.rig = Rig(self)
        self.minion = RigMinion(self.rig, "m1").accepted()

    def publish(self, **kwargs: object) -> str:
        """The jid of a job for the minion."""
        load = {"tgt": ["m1"], "tgt_type": "list", "fun": "state.apply", "kwargs": kwargs}
        published = self.rig.ctx.dispatcher.publish(load, local("root"))
        jid: str = self.successResultOf(Deferred.fromCoroutine(published))["jid"]
        return jid

    def said(self, jid: str) -> list[tuple[str, object]]:
        """What is heard of two events of the job, alone and in a list."""
        self.rig.events.clear()
        tag, data = f"salt/job/{jid}/prog/m1/0", {"ret": {"comment": "word"}, "len": 2}
        self.minion.ask("_minion_event", tag=tag, data=data, id="m1")
        self.minion.ask(
            "_minion_event",
            events=[
                {"tag": f"salt/state_result/{jid}/m1/echo", "data": {"ret": {"name": "echo"}}},
                {"tag": "site/own", "data": {"ret": "word"}},
            ],
        )
        first, second, third = self.rig.events
        self.assertEqual(third[1]["ret"], "word")
        return [(first[0], first[1]["data"]["ret"]), (second[0], second[1]["ret"])]

    def test_T_LOG_1_progress(self) -> None:
        """
        T-LOG-1: events of a secret job are stars before anybody hears them, those of others are as
        they were sent.
        """
        jid = self.publish(metadata={"no_log": True})
        hidden = [
            (f"salt/job/{jid}/prog/m1/0", {"comment": STARS}),
            (f"salt/state_result/{jid}/m1/{STARS}", {"name": STARS}),
        ]
        self.assertEqual(self.said(jid), hidden)
        open_ = self.publish()
        self.assertEqual(
            self.said(open_),
            [
                (f"salt/job/{open_}/prog/m1/0", {"comment": "word"}),
                (f"salt/state_result/{open_}/m1/echo", {"name": "echo"}),
            ],
        )

    def test_T_LOG_1_fired(self) -> None:
        """
        T-LOG-1: so are events of its own making that a secret job fires, by stock's C{event.send}
        as well, which has the job's id and its arguments in the data.
        """
        secret, open_ = self.publish(metadata={"no_log": True}), self.publish()
        for jid, told in ((secret, STARS), (open_, "word")):
            self.rig.events.clear()
            data = {"__pub_jid": jid, "__pub_arg": ["word"], "pw": "word"}
            self.minion.ask("_minion_event", tag="site/own", data=data, id="m1")
            self.minion.ask("_minion_event", events=[{"tag": "site/list", "data": data}])
            first, second = self.rig.events
            self.assertEqual((first[0], second[0]), ("site/own", "site/list"))
            for found in (first[1]["data"], second[1]):
                self.assertEqual((found["pw"], found["__pub_arg"]), (told, [told]))

    def test_T_LOG_1_peers(self) -> None:
        """T-LOG-1: what a minion publishes or runs for a secret job is a secret job, or run."""
        rig = Rig(self, peer={".*": ["test.*"]}, peer_run={".*": ["test.arg", "event.send"]})
        minion = RigMinion(rig, "m1").accepted()
        for no_log in ({"no_log": True}, {}):
            rig.events.clear()
            for cmd in ("minion_pub", "minion_publish"):
                minion.ask(cmd, tgt="m1", fun="test.echo", arg=["word"], **no_log)
            minion.ask("minion_runner", fun="test.arg", arg=["word"], **no_log)
            minion.ask("minion_runner", fun="event.send", arg=["site/x", {"a": "word"}], **no_log)
            rig.clock.advance(30)
            tags = [tag for tag, data in rig.events if "word" in repr(data)]
            self.assertEqual(bool(tags), not no_log, tags)

    def test_T_LOG_1_after_a_start(self) -> None:
        """
        T-LOG-1: it is so after a restart, by the record of the job; and while that cannot be read
        nobody hears what may be secret.
        """
        jids = [self.publish(metadata={"no_log": True}), self.publish(), "20200101000000000000"]
        read = self.rig.jobs.job

        def refuse(jid: str) -> None:
            raise StoreError("no disk")

        for job, hidden in ((refuse, [True, True, True]), (read, [True, False, False])):
            self.rig.publisher.secrets = SecretJobs()
            self.rig.jobs.job = job
            found = [self.said(jid)[0][1] == {"comment": STARS} for jid in jids]
            self.assertEqual(found, hidden)
