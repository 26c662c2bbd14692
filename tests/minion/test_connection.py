from __future__ import annotations

import errno
from itertools import product
from typing import Any
from unittest import mock

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import AuthenticationError, ConfigError, RequestTimeout, TransportClosed
from saltwisted.minion import rules
from saltwisted.minion.connection import Hooks, MasterLink
from saltwisted.minion.links import Links
from saltwisted.minion.outside import resolver
from saltwisted.minion.publications import MAX_HELD
from saltwisted.minion.rules import TABLE, Rules, Standing, State, step, wait_after
from saltwisted.minion.subscriber import NEXT_KEY, Seen, Subscriber
from saltwisted.stores.minion import MasterKeyFile
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.envelope import FAILED
from saltwisted.wire.msgpack import pack
from saltwisted.wire.publication import seal_job, sign_blob
from tests.fakes.replies import CLUSTER_RETRY
from tests.minion.fakemaster import (
    IV,
    JID,
    FakeMaster,
    FakeNet,
    MemoryKeys,
    at_once,
    config,
    facts,
    outside,
)
from tests.minion.test_subscriber import MemoryKept, jid
from tests.wire.recorded import key


class RulesTests(SynchronousTestCase):
    def test_no_way_to_stop_but_stop(self) -> None:
        """Every state can be stopped, and no event but Stop leads to rest."""
        for state in State:
            self.assertIn((state, rules.Stop), TABLE)
        for (state, kind), _ in TABLE.items():
            if kind in (rules.Stop,):
                continue
            event: Any = kind("x") if kind.__attrs_attrs__ else kind()
            after, _ = step(Standing(state=state), event, Rules())

            self.assertNotEqual(after.state, State.IDLE, (state, kind))

    def test_every_attempt_can_fail(self) -> None:
        """Whatever a link is doing, a failure leads to waiting, never to standing still."""
        for state in State:
            if state not in (State.IDLE, State.WAITING):
                after, _ = step(Standing(state=state), rules.Failed("x"), Rules())

                self.assertEqual(after.state, State.WAITING, state)

    def test_missing_row(self) -> None:
        """What cannot happen is an error, not a guess."""
        self.assertRaises(LookupError, step, Standing(), rules.Heard(), Rules())

    def test_waiting_always_has_a_timer(self) -> None:
        """Whatever leads to waiting closes the sockets and sets exactly one timer."""
        for (state, kind), _ in TABLE.items():
            event: Any = kind("x") if kind.__attrs_attrs__ else kind()
            for misses in (0, 5):
                after, effects = step(Standing(state=state, misses=misses), event, Rules())
                if after.state is State.WAITING:
                    self.assertEqual(sum(isinstance(e, rules.Wait) for e in effects), 1)
                    self.assertIn(rules.Close(), effects)
                self.assertEqual(
                    any(isinstance(e, rules.Withdraw) for e in effects),
                    state is State.UP and after.state is not State.UP,
                )

    def test_waits(self) -> None:
        """Waits grow to a cap, are spread by luck, and are never zero or endless."""
        options = Rules(acceptance_wait_time=10, acceptance_wait_time_max=60)
        events = [
            rules.Failed("x"),
            rules.Unresolved("x"),
            rules.Distrusted("x"),
            *(rules.Denied(r) for r in ("pending", "rejected", "full", "cluster_retry")),
        ]
        for event, failures, luck in product(events, (0, 1, 5, 10**6), (0.0, 0.5, 0.999)):
            wait = wait_after(event, failures, options, luck)

            self.assertGreater(wait, 0.25)
            self.assertLess(wait, 500)
        self.assertEqual(wait_after(rules.Failed("x"), 0, options, 0.5), 1)
        self.assertEqual(wait_after(rules.Failed("x", answered=True), 3, options, 0.5), 8)
        self.assertEqual(wait_after(rules.Failed("x", answered=True), 99, options, 0.5), 30)
        self.assertEqual(wait_after(rules.Failed("x"), 99, options, 0.5), 2)

    def test_pending_waits(self) -> None:
        """
        A pending minion asks within a second at first, then less and less often, to
        acceptance_wait_time or its maximum; and at once where the master has kept its answer.
        """
        plain = Rules(acceptance_wait_time=10)
        growing = Rules(acceptance_wait_time=10, acceptance_wait_time_max=25)
        hasty = Rules(acceptance_wait_time=0.2)
        pending = rules.Denied("pending")
        waits = [wait_after(pending, n, plain, 0.999) for n in range(40)]

        self.assertLess(max(waits[:11]), 1)
        self.assertEqual(waits, sorted(waits))
        self.assertEqual(wait_after(pending, 30, plain, 0.5), 10)
        self.assertEqual(wait_after(pending, 10**6, growing, 0.5), 25)
        self.assertEqual(wait_after(pending, 0, hasty, 0.5), 0.2)
        self.assertEqual(wait_after(rules.Denied("pending", held=True), 99, plain, 0.5), 0.2)

    def test_rejected_waits_longer(self) -> None:
        """A rejected minion slows down, unless rejected_retry says to treat it as pending."""
        rejected = rules.Denied("rejected")

        slow = [wait_after(rejected, n, Rules(), 0.5) for n in range(7)]
        quick = [wait_after(rejected, n, Rules(rejected_retry=True), 0.5) for n in range(7)]

        self.assertEqual(slow, [10, 20, 40, 80, 160, 300, 300])
        self.assertEqual(quick, [10] * 7)

    def test_misses(self) -> None:
        """One missed heartbeat is forgiven, two in a row are not, and one heard clears them."""
        up = Standing(state=State.UP)
        once, nothing = step(up, rules.Missed(), Rules())
        twice, effects = step(once, rules.Missed(), Rules())
        cleared, _ = step(once, rules.Heard(), Rules())

        self.assertEqual((once.state, nothing), (State.UP, (rules.Doubt(),)))
        self.assertEqual(twice.state, State.WAITING)
        self.assertIsInstance(effects[0], rules.Withdraw)
        self.assertEqual(cleared.misses, 0)

    def test_miss_after_the_connection_ended(self) -> None:
        """When the subscription has lost its connection as well, one miss is enough."""
        after, _ = step(Standing(state=State.UP), rules.Missed(lost=True), Rules())

        self.assertEqual(after.state, State.WAITING)

    def test_miss_while_the_pillar_is_made(self) -> None:
        """A master that is slow with the pillar may miss a heartbeat; two are too many."""
        once, _ = step(Standing(state=State.PREPARING), rules.Missed(), Rules())
        twice, _ = step(once, rules.Missed(), Rules())
        heard, _ = step(once, rules.Heard(), Rules())
        came, _ = step(once, rules.Prepared(), Rules())

        self.assertEqual((once.state, twice.state), (State.PREPARING, State.WAITING))
        self.assertEqual((heard.misses, came.misses, came.state), (0, 0, State.UP))


class LinkCase(SynchronousTestCase):
    """One link, one master, one clock."""

    options: dict[str, Any] = {}

    def setUp(self) -> None:
        self.net = FakeNet()
        self.master = self.net.add("salt", FakeMaster())
        self.keys = MemoryKeys()
        self.heard: list[Any] = []
        self.jobs: list[Any] = []
        self.kept = MemoryKept()
        self.logged: list[Any] = []
        globalLogPublisher.addObserver(self.logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.logged.append)
        self.link = self.build()

    def build(self, **options: Any) -> MasterLink:
        self.subscriber = Subscriber(
            facts,
            lambda job, link: self.jobs.append((job.jid, link)),
            Seen(self.kept, self.net.clock.seconds),
        )
        link = MasterLink(
            "salt",
            4506,
            config(**{**self.options, **options}),
            outside(self.net, self.keys),
            self.subscriber,
            facts,
            Hooks(
                on_up=lambda link, first: self.heard.append(("up", first)),
                on_down=lambda link, reason: self.heard.append(("down", reason)),
                on_pillar=lambda link, pillar: self.heard.append(("pillar", pillar)),
            ),
        )
        self.addCleanup(self.check_end, link)
        return link

    def check_end(self, link: MasterLink) -> None:
        link.stop()
        self.net.run(200, 1.0)
        self.assertEqual(self.net.clock.getDelayedCalls(), [])
        self.assertEqual(self.net.subscriptions, [])
        self.assertTrue(all(channel.closed for channel in self.net.channels))

    def up(self) -> MasterLink:
        self.link.start()
        self.net.run(1)
        self.assertTrue(self.link.up, self.link.status())
        return self.link

    def errors(self) -> list[str]:
        from twisted.logger import formatEvent

        return [formatEvent(e) for e in self.logged if e.get("log_level") is LogLevel.error]


class ConnectTests(LinkCase):
    def test_first_contact(self) -> None:
        """Sign in, remember the key, subscribe, pillar, up, start events: in this order."""
        self.link.start()
        self.net.run(1)

        self.assertEqual(
            self.master.log[:4], ["_auth", "_pillar", "_minion_event", "_minion_event"]
        )
        self.assertEqual(self.heard, [("pillar", {"role": "web"}), ("up", True)])
        self.assertEqual(self.keys.key, self.master.identity.key.public)
        self.assertEqual([s.where for s in self.net.subscriptions], [("10.0.0.1", 4505)])
        tags = [load["tag"] for load in self.master.loads if load["cmd"] == "_minion_event"]
        self.assertEqual(tags, ["minion_start", "salt/minion/m1/start"])

    def test_not_up_before_a_round_trip(self) -> None:
        """A sign-in alone is not a connection: the link is up when the pillar has come."""
        self.master.silent.add("_pillar")
        self.link.start()
        self.net.run(30)

        self.assertFalse(self.link.up)
        self.assertEqual(self.link.standing.state, State.PREPARING)
        self.assertEqual(self.heard, [])
        self.failureResultOf(
            Deferred.fromCoroutine(self.link.request({"cmd": "_file_envs"})), TransportClosed
        )

    def test_pillar_never_comes(self) -> None:
        """Without a pillar the link starts over, and gets there when the master does."""
        self.master.silent.add("_pillar")
        self.link.start()
        self.net.run(190, 0.5)
        self.assertEqual(self.link.standing.failures, 1)

        self.master.silent.clear()
        self.net.run(80)

        self.assertTrue(self.link.up)

    def test_no_socket(self) -> None:
        """A process that has no descriptor left tries again, and connects when there are some."""

        def none(*args: Any, **how: Any) -> Any:
            raise OSError(errno.EMFILE, "Too many open files")

        for name in ("requests", "subscribe"):
            with mock.patch.object(self.net, name, none):
                self.link.start()
                self.net.run(30)
                self.assertFalse(self.link.up)
                self.assertGreater(self.link.standing.failures, 0)
            self.assertTrue(self.flushLoggedErrors(OSError))
            self.net.run(80)
            self.assertTrue(self.link.up, self.link.status())
            self.link.stop()

    def test_known_master_gets_a_token(self) -> None:
        """A remembered master must repeat our token; the key is not written again."""
        self.keys.key = self.master.identity.key.public
        self.keys.fail = True

        self.up()

        self.assertTrue(self.master.auths[0].token)

    def test_options_of_start_events(self) -> None:
        """Legacy event off, grains on, as configured."""
        self.link = self.build(
            enable_legacy_startup_events=False, start_event_grains=["os", "missing"]
        )
        self.up()

        events = [load for load in self.master.loads if load["cmd"] == "_minion_event"]
        self.assertEqual(
            [(e["tag"], e["grains"]) for e in events], [("salt/minion/m1/start", {"os": "Debian"})]
        )

    def test_autosign_grains(self) -> None:
        """The configured grains travel with the sign-in."""
        self.link = self.build(autosign_grains=["os", "none"])
        self.up()

        self.assertEqual(self.master.auths[0].autosign_grains, {"os": "Debian", "none": None})

    def test_own_publish_port(self) -> None:
        """publish_port of the minion wins over the master's, unless it is a default."""
        self.link = self.build(publish_port=14505)
        self.up()

        self.assertEqual(self.net.subscriptions[0].where[1], 14505)

    def test_filtering_topics(self) -> None:
        """With zmq_filtering the topics are broadcast and our own; without, everything."""
        self.up()
        self.assertEqual(self.net.subscriptions[0].topics[0], b"")
        self.link.stop()

        self.link = self.build(zmq_filtering=True)
        self.up()

        self.assertEqual(self.net.subscriptions[0].topics[0], b"broadcast")
        self.assertEqual(len(self.net.subscriptions[0].topics[1]), 40)

    def test_only_asking(self) -> None:
        """A link without a subscriber neither subscribes nor fires start events."""
        link = MasterLink("salt", 4506, config(), outside(self.net, self.keys), None, facts)
        self.addCleanup(self.check_end, link)
        link.start()
        self.net.run(1)

        self.assertTrue(link.up)
        self.assertEqual(self.master.log[:2], ["_auth", "_pillar"])
        self.assertNotIn("_minion_event", self.master.log)
        self.assertEqual(self.net.subscriptions, [])

    def test_names(self) -> None:
        """The name is looked up at each attempt; its addresses are tried in turn."""
        self.net.names["salt"] = ["10.0.0.9", "10.0.0.1"]
        self.link.start()
        self.net.run(60)

        self.assertTrue(self.link.up)
        self.assertEqual(self.net.resolved, ["salt", "salt"])

    def test_name_appears(self) -> None:
        """A name that cannot be resolved is tried until it can."""
        self.net.names["salt"] = OSError("no such host")
        self.link.start()
        self.net.run(100, 1.0)
        self.assertIn("cannot be resolved", self.link.status()["reason"])

        self.net.names["salt"] = ["10.0.0.1"]
        self.net.run(60)

        self.assertTrue(self.link.up)

    def test_no_address(self) -> None:
        """A name without any address is one that cannot be resolved."""
        self.net.names["salt"] = []
        self.link.start()
        self.net.run(5)

        self.assertIn("has no address", self.link.status()["reason"])

    def test_bad_pillars(self) -> None:
        """A pillar that is not a map, or is refused, is a failed attempt, and the next may do."""
        self.master.pillar = ["not", "a", "map"]
        self.link.start()
        self.net.run(1)
        self.assertIn("malformed", self.link.status()["reason"])
        self.master.pillar = {}
        self.master.refused.add("_pillar")
        self.net.run(5)
        self.assertIn("refused", self.link.status()["reason"])
        self.master.refused.clear()
        self.net.run(40)

        self.assertTrue(self.link.up)

    def test_start_events_cannot_be_sent(self) -> None:
        """A master that does not take the start events is a master all the same."""
        self.master.silent.add("_minion_event")
        self.up()
        self.net.run(70)

        self.assertTrue(self.link.up)

    def test_stop_at_any_moment(self) -> None:
        """A stop at whatever moment leaves nothing behind."""
        for moment in range(40):
            link = self.build()
            link.start()
            self.net.run(0.01 * moment, 0.01)
            link.stop()

            self.net.run(1)
            self.assertEqual(link.standing.state, State.IDLE)
            self.assertEqual(self.net.subscriptions, [])

    def test_stop_while_signing_in_again(self) -> None:
        """Whoever waits for a new sign-in is told when the link is stopped."""
        self.up()
        self.master.sessions.clear()
        self.master.script = [..., None]
        d = Deferred.fromCoroutine(self.link.request({"cmd": "_file_envs"}))
        self.net.run(0.5)
        self.link.stop()

        self.failureResultOf(d, TransportClosed)

    def test_our_own_mistake(self) -> None:
        """An error of ours is logged, and is a failed attempt, not the end."""
        net = self.net

        async def resolve(host: str) -> Any:
            if not net.resolved:
                net.resolved.append(host)
                raise ZeroDivisionError
            return await net.resolve(host)

        self.link._outside = evolve(self.link._outside, resolve=resolve)
        self.link.start()
        self.net.run(5)

        self.assertTrue(self.link.up)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_status(self) -> None:
        """The status tells what an operator wants to know, and no secret."""
        self.up()

        status = self.link.status()

        self.assertEqual(status["state"], "up")
        self.assertEqual(status["address"], "10.0.0.1")
        self.assertEqual(status["fingerprint"], self.master.identity.key.public.fingerprint())
        self.assertNotIn(self.link.session.key.text[:8], repr((status, self.link, self.logged)))

    def test_stop_and_start(self) -> None:
        """A stopped link can be wanted again; start events come once."""
        self.up()
        self.link.stop()
        self.link.stop()
        self.assertEqual(self.heard[-1], ("down", "stopped"))
        self.link.start()
        self.link.start()
        self.net.run(1)

        self.assertEqual(self.heard[-1], ("up", False))
        self.assertEqual(self.master.log.count("_minion_event"), 2)

    def test_hook_fails(self) -> None:
        """A hook that raises is logged and harms nothing."""
        self.link.reporter.hooks = Hooks(on_up=lambda link, first: 1 / 0)
        self.up()

        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_stop_from_a_hook(self) -> None:
        """A hook may stop the link."""
        self.link.reporter.hooks = Hooks(on_pillar=lambda link, pillar: link.stop())
        self.link.start()
        self.net.run(1)

        self.assertEqual(self.link.standing.state, State.IDLE)


class DeniedTests(LinkCase):
    def test_pending(self) -> None:
        """A pending minion asks again and again, and is up soon after it is accepted."""
        self.master.state = "pending"
        self.link.start()
        self.net.run(600, 1.0)
        asked = self.master.log.count("_auth")
        self.assertTrue(40 <= asked <= 100, asked)
        self.assertIsNone(self.keys.key)
        self.assertEqual(self.errors(), [])

        self.master.state = "accepted"
        self.net.run(16)

        self.assertTrue(self.link.up)

    def test_pending_patience(self) -> None:
        """
        A master that keeps its answer is asked to do so, is asked no more often than before, and
        the minion is up at once when the answer is that its key is accepted.
        """
        self.master.state, self.master.holds = "pending", True
        self.link.start()
        self.net.run(600, 0.2)
        asked = self.master.log.count("_auth")
        self.assertTrue(40 <= asked <= 100, asked)
        self.assertEqual(self.errors(), [])

        self.master.state = "accepted"
        self.master.decide()
        self.net.run(0.5)

        self.assertTrue(self.link.up)

    def test_pending_no_patience(self) -> None:
        """A master that answers at once is asked only once to keep its answer."""
        self.master.state = "pending"
        self.link.start()
        self.net.run(60, 0.2)

        self.assertEqual(len([p for p in self.master.patience if p]), 1)
        self.assertGreater(len(self.master.patience), 15)

    def test_pending_patience_after_a_restart(self) -> None:
        """
        A master that was restarted while it kept its answer is asked to keep it again, so the
        minion is up at once when its key is accepted.
        """
        self.master.state, self.master.holds = "pending", True
        self.link.start()
        self.net.run(60, 0.2)
        self.master.alive = False
        self.net.run(40, 0.2)
        self.master.alive = True
        self.net.run(120, 0.2)

        self.master.state = "accepted"
        self.master.decide()
        self.net.run(0.5)

        self.assertTrue(self.link.up)

    def test_T_MIN_3_rejected(self) -> None:
        """A rejected minion goes on asking, slowly, and says what to do."""
        self.master.state = "rejected"
        self.link.start()
        self.net.run(7200, 2.0)
        asked = self.master.log.count("_auth")
        self.assertTrue(15 <= asked <= 60, asked)
        self.assertIn("accept it there", self.errors()[0])
        self.assertLess(len(self.errors()), 15)

        self.master.state = "accepted"
        self.net.run(460, 1.0)

        self.assertTrue(self.link.up)

    def test_full_and_not_ready(self) -> None:
        """A full master and a cluster node that is not ready are asked again."""
        self.master.state = "full"
        self.master.script = [CLUSTER_RETRY]
        self.link.start()
        self.net.run(20)
        self.assertEqual(self.link.status()["reason"], "full")

        self.master.state = "accepted"
        self.net.run(16)

        self.assertTrue(self.link.up)

    def test_T_MIN_3_changed_key(self) -> None:
        """Another key than the remembered one: named, with the file; never written, never left."""
        remembered = self.keys.key = key("master_sign").public
        self.link.start()
        self.net.run(600, 1.0)

        self.assertFalse(self.link.up)
        self.assertIs(self.keys.key, remembered)
        self.assertIn(self.keys.path, self.errors()[0])
        self.assertIn(remembered.fingerprint(), self.errors()[0])
        self.assertIn(self.master.identity.key.public.fingerprint(), self.errors()[0])
        self.assertGreater(self.master.log.count("_auth"), 8)
        self.assertLess(len(self.errors()), 4)

        self.keys.key = None
        self.net.run(100, 1.0)

        self.assertTrue(self.link.up)

    def test_T_MIN_3_nonsense(self) -> None:
        """Whatever answers, the minion keeps trying and finds the master when it is there."""
        bad = [
            b"",
            b"\xc1",
            pack(1),
            pack([]),
            pack({}),
            pack({"load": b"x", "sig": b"y"}),
            FAILED,
            pack({"enc": "clear", "load": {"ret": "bad sig algo"}}),
            pack({"load": {}}),
            pack({"enc": "clear", "load": pack({"ret": True}), "sig": b""}),
        ]
        self.master.script = list(bad)
        self.link.start()
        self.net.run(900, 1.0)

        self.assertTrue(self.link.up)
        self.assertEqual(self.master.script, [])

    def test_finger(self) -> None:
        """A wrong master_finger stops nothing for ever: it is said, nothing is remembered."""
        self.link = self.build(master_finger="aa:bb")
        self.link.start()
        self.net.run(60)

        self.assertIsNone(self.keys.key)
        self.assertIn("master_finger", self.errors()[0])

    def test_key_cannot_be_written(self) -> None:
        """A key that cannot be remembered is not trusted; with room on the disk it is."""
        self.keys.fail = True
        self.link.start()
        self.net.run(30)
        self.assertFalse(self.link.up)
        self.assertIn("No space left", self.errors()[0])

        self.keys.fail = False
        self.net.run(60)

        self.assertTrue(self.link.up)

    def test_dead_master(self) -> None:
        """A master that does not answer is looked up and asked again and again, without end."""
        self.link = self.build(auth_timeout=5)
        self.master.alive = False
        self.link.start()
        self.net.run(5.1)
        self.assertEqual(self.link.standing.state, State.WAITING)
        self.net.run(3600, 1.0)
        self.assertIn("does not answer", self.link.status()["reason"])
        self.assertGreater(len(self.net.resolved), 3600 / 10)

        self.master.alive = True
        self.net.run(9)

        self.assertTrue(self.link.up)


class LivingTests(LinkCase):
    def ask(self, **options: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(self.link.request({"cmd": "_file_envs"}, **options))

    def test_request(self) -> None:
        """A link that is up carries requests."""
        self.up()
        self.master.values["_file_envs"] = ["base"]
        d = self.ask()
        self.net.run(0.1)

        self.assertEqual(self.successResultOf(d), ["base"])

    def test_dead_peer(self) -> None:
        """A master that falls silent is noticed by the heartbeat; the link starts over."""
        self.up()
        self.net.run(60)
        pending = self.ask()
        self.master.alive = False
        self.net.run(90)

        self.assertEqual(self.heard[-1][0], "down")
        self.failureResultOf(pending, TransportClosed)
        self.master.alive = True
        self.net.run(60)
        self.assertEqual(self.heard[-1], ("up", False))

    def test_dead_peer_of_ours(self) -> None:
        """Of a saltwisted master the silence is noticed sooner."""
        self.master.ours = True
        self.up()
        self.net.run(20)
        self.master.alive = False
        self.net.run(24)

        self.assertFalse(self.link.up)

    def test_connection_ends(self) -> None:
        """When the subscription's connection ends, a dead master is noticed within seconds."""
        self.up()
        self.net.run(60)
        self.master.alive = False
        self.net.subscriptions[0].lost()
        self.assertTrue(self.link.doubtful)
        self.net.run(3.5)

        self.assertEqual(self.heard[-1][0], "down")

    def test_connection_blinks(self) -> None:
        """When it ends and the master is alive, a heartbeat says so, and it is made again once."""
        self.up()
        self.net.run(60)
        before, old = self.master.log.count("heartbeat"), self.net.subscriptions[0]
        for _ in range(3):
            self.net.subscriptions[0].lost()
        self.net.run(12)

        self.assertTrue(self.link.up)
        self.assertFalse(self.link.doubtful)
        self.assertEqual(self.master.log.count("heartbeat"), before + 1)
        self.assertEqual(len(self.net.subscriptions), 1)
        self.assertIsNot(self.net.subscriptions[0], old)

    def test_idle_link_stays(self) -> None:
        """A quiet link stays up for hours, at about a heartbeat a minute."""
        self.up()
        self.net.run(21600, 2.0)

        self.assertEqual(self.heard, [("pillar", {"role": "web"}), ("up", True)])
        beats = self.master.log.count("heartbeat")
        self.assertTrue(21600 / 80 < beats < 21600 / 40, beats)

    def test_busy_link_beats_less(self) -> None:
        """Answers to other requests count as heartbeats."""
        self.up()
        self.net.run(20)
        before = self.master.log.count("heartbeat")
        for _ in range(60):
            self.ask()
            self.net.run(10, 0.5)

        self.assertLess(self.master.log.count("heartbeat") - before, 3)

    def test_session_lost(self) -> None:
        """When the session changed, many requests share one sign-in and all succeed."""
        self.up()
        self.master.sessions.clear()
        waiting = [self.ask() for _ in range(20)]
        self.net.run(1)

        for d in waiting:
            self.successResultOf(d)
        self.assertEqual(self.master.log.count("_auth"), 2)
        self.assertTrue(self.link.up)

    def test_revoked(self) -> None:
        """A minion whose key was deleted is down, polls, and comes back when it is accepted."""
        self.up()
        self.master.sessions.clear()
        self.master.state = "pending"
        d = self.ask()
        self.net.run(1)

        self.failureResultOf(d, AuthenticationError)
        self.assertEqual(self.heard[-1], ("down", "pending"))
        self.master.state = "accepted"
        self.net.run(16)
        self.assertTrue(self.link.up)

    def test_other_master_on_the_address(self) -> None:
        """If somebody else answers there suddenly, the link goes down and says why."""
        self.up()
        self.net.masters["10.0.0.1", 4506] = FakeMaster(key("master_sign"))
        d = self.ask()
        self.net.run(1)

        self.failureResultOf(d, AuthenticationError)
        self.assertFalse(self.link.up)
        self.assertIn(self.keys.path, self.errors()[0])

    def test_pillar_again(self) -> None:
        """A pillar can be fetched again; one with own fields is the caller's alone."""
        self.up()
        self.master.pillar = {"role": "db"}
        usual = Deferred.fromCoroutine(self.link.fetch_pillar())
        own = Deferred.fromCoroutine(self.link.fetch_pillar(pillarenv="dev"))
        self.net.run(1)

        self.assertEqual(self.successResultOf(usual), {"role": "db"})
        self.assertEqual(self.successResultOf(own), {"role": "db"})
        self.assertEqual([h for h in self.heard if h == ("pillar", {"role": "db"})], self.heard[2:])
        self.assertEqual(len(self.heard), 3)

    def test_timeout_is_no_death(self) -> None:
        """A slow command does not take the link down while the heart beats."""
        self.up()
        self.master.silent.add("_file_envs")
        d = self.ask(timeout=100, tries=1)
        self.net.run(101, 0.5)

        self.failureResultOf(d, RequestTimeout)
        self.assertTrue(self.link.up)


CALL = {"fun": "test.ping", "arg": [], "tgt": "*", "ret": ""}


class PublicationTests(LinkCase):
    def test_job(self) -> None:
        """A publication becomes a job from this link."""
        self.up()
        self.net.publish(self.master.publication())

        self.assertEqual(self.jobs, [(JID, self.link)])

    def test_rotation(self) -> None:
        """After a rotation the first publications make one sign-in, and none is lost."""
        self.up()
        self.master.rotate()
        for n in range(5):
            self.net.publish(self.master.publication(jid=jid(n)))
        self.assertEqual(self.jobs, [])
        self.net.run(1)

        self.assertEqual([name for name, _ in self.jobs], [jid(n) for n in range(5)])
        self.assertEqual(self.master.log.count("_auth"), 2)

    def test_two_rotations(self) -> None:
        """A second rotation right after the first waits a moment, and loses nothing either."""
        self.up()
        for n in range(2):
            self.master.rotate()
            self.net.publish(self.master.publication(jid=jid(n)))
            self.net.run(1)
        self.net.run(6)

        self.assertEqual([name for name, _ in self.jobs], [jid(0), jid(1)])
        self.assertEqual(self.master.log.count("_auth"), 3)

    def test_rotation_told_ahead(self) -> None:
        """A saltwisted master tells the next key first: no sign-in at all."""
        self.master.ours = True
        self.up()
        self.net.run(20)
        self.master.next_key = SessionKey.generate(lambda n: b"n" * n)
        self.net.publish(self.master.publication(fun=NEXT_KEY, tgt=[], tgt_type="list"))
        self.net.run(0.9)
        self.master.publish_key, self.master.next_key = self.master.next_key, None
        self.net.publish(self.master.publication(jid=jid(9)))

        self.assertEqual([name for name, _ in self.jobs], [jid(9)])
        self.assertEqual(self.master.log.count("_auth"), 1)

    def change(self) -> SessionKey:
        """A saltwisted master is about to change its publish key; we are told, and know both."""
        self.master.next_key = coming = SessionKey.generate(self.master.dice)
        self.net.publish(self.master.publication(fun=NEXT_KEY, tgt=[], tgt_type="list"))
        self.net.run(0.9)
        return coming

    def ran(self) -> list[str]:
        """The jobs that have been run."""
        return [name for name, _ in self.jobs]

    def test_both_keys_at_a_change(self) -> None:
        """
        A node of a cluster publishes under both keys until all nodes have switched: whichever
        copy comes first is run, once, and nobody signs in.
        """
        self.master.ours = True
        self.up()
        old, new = self.master.publish_key, self.change()
        for n in range(6):
            for sealed in (old, new) if n % 2 else (new, old):
                self.net.publish(self.master.publication(sealed=sealed, jid=jid(n)))
            self.net.run(0.5)
        self.master.rotate()
        self.net.publish(self.master.publication(jid=jid(6)))
        self.net.publish(self.master.publication(sealed=old, jid=jid(7)))

        self.assertEqual(self.ran(), [jid(n) for n in range(8)])
        self.assertEqual(self.master.log.count("_auth"), 1)

    def test_changes_that_were_not_heard(self) -> None:
        """What came under a key that was replaced before we could ask for it is run, too."""
        self.master.ours = True
        self.up()
        self.net.run(20)
        for n in range(4):
            self.master.rotate()
            self.net.publish(self.master.publication(jid=jid(n)))
        self.net.run(1)

        self.assertEqual(self.ran(), [jid(n) for n in range(4)])
        self.assertEqual(self.master.log.count("_auth"), 1)

    def test_unheard_while_signing_in(self) -> None:
        """A sign-in that brings a newer key than that of what waits gives nothing up."""
        self.master.ours = True
        self.up()
        self.net.run(20)
        self.master.rotate()
        self.net.publish(self.master.publication(jid=jid(1)))
        self.master.rotate()
        self.master.sessions.clear()
        asked = Deferred.fromCoroutine(self.link.request({"cmd": "_file_envs"}))
        self.net.run(3)

        self.successResultOf(asked)
        self.assertEqual(self.ran(), [jid(1)])
        self.assertEqual(self.master.log.count("_auth"), 2)

    def test_answer_that_overtakes(self) -> None:
        """What was published before an answer told of the new key is run after it, too."""
        self.master.ours = True
        self.up()
        late = self.master.publication(jid=jid(1))
        self.master.rotate()
        self.net.run(20)
        self.net.publish(late)

        self.assertEqual(self.ran(), [jid(1)])

    def test_T_REPLAY_1_former_key(self) -> None:
        """A former key opens for a minute, and what is signed alone."""
        self.subscriber._insist = False
        self.master.ours = True
        self.up()
        signed = [self.master.publication(jid=jid(n)) for n in (1, 2)]
        bare = sign_blob(seal_job(dict(CALL, jid=jid(3)), self.master.publish_key, IV), None)
        own = self.master.publish_key
        self.net.publish(sign_blob(seal_job(dict(CALL, jid=jid(4)), own, IV), None))
        self.assertEqual(self.ran(), [jid(4)])
        self.master.rotate()
        self.net.run(20)
        self.master.former.clear()
        self.jobs.clear()

        self.net.publish(bare)
        self.assertEqual(self.ran(), [])
        self.net.publish(signed[0])
        self.assertEqual(self.ran(), [jid(1)])
        self.net.run(61)
        self.net.publish(signed[1])
        self.assertEqual(self.ran(), [jid(1)])

    def test_unopenable_flood_of_ours(self) -> None:
        """A saltwisted master is asked for its keys once a second at most, without sign-ins."""
        self.master.ours = True
        self.up()
        strange = SessionKey.generate(lambda n: b"?" * n)
        payload = self.master.publication(sealed=strange)
        for _ in range(60):
            for _ in range(20):
                self.net.publish(payload)
            self.net.run(1, 0.25)

        asked = self.master.log.count("_saltwisted_keys")
        self.assertGreater(asked, 10)
        self.assertLess(asked, 80)
        self.assertEqual(self.master.log.count("_auth"), 1)
        self.assertLessEqual(self.link.upkeep.publications.held, MAX_HELD)

    def test_forged(self) -> None:
        """Forged publications cause no job, and one look at the master's key, not many."""
        self.up()
        for payload in (b"", b"\xc1", self.master.publication(signer=key("minion2"))):
            self.net.publish(payload)
        self.net.run(30)

        self.assertEqual(self.jobs, [])
        self.assertEqual(self.master.log.count("_auth"), 2)
        self.assertEqual(sum(self.subscriber.counters.values()), 3)

    def test_unopenable_flood(self) -> None:
        """Signed publications that never open cause few sign-ins and keep little."""
        self.up()
        strange = SessionKey.generate(lambda n: b"?" * n)
        payload = self.master.publication(sealed=strange)
        for _ in range(60):
            for _ in range(MAX_HELD // 20):
                self.net.publish(payload)
            self.net.run(1, 0.25)

        self.assertLess(self.master.log.count("_auth"), 20)
        self.assertLessEqual(self.link.upkeep.publications.held, MAX_HELD)
        self.assertTrue(self.link.up)

    def test_old_subscription(self) -> None:
        """What arrives by a subscription of an earlier attempt is not heard."""
        self.up()
        old = self.net.subscriptions[0]
        self.link.stop()
        old.received(self.master.publication(), None)

        self.assertEqual(self.jobs, [])

    def test_other_publish_port(self) -> None:
        """When a new sign-in names another port, the subscription moves there."""
        self.up()
        self.master.publish_port = 14505
        self.master.rotate()
        self.net.publish(self.master.publication())
        self.net.run(1)

        self.assertEqual([s.where for s in self.net.subscriptions], [("10.0.0.1", 14505)])


class LinksTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.net = FakeNet()
        self.a = self.net.add("a", FakeMaster(), "10.0.0.1")
        self.b = self.net.add("b", FakeMaster(), "10.0.0.2")
        self.b.publish_key, self.b.sessions = self.a.publish_key, self.a.sessions
        self.jobs: list[Any] = []

    def build(self, **options: Any) -> Links:
        subscriber = Subscriber(
            facts,
            lambda job, link: self.jobs.append((job.jid, link.name)),
            Seen(MemoryKept(), self.net.clock.seconds),
        )
        links = Links(config(**options), outside(self.net, MemoryKeys()), subscriber, facts)
        self.addCleanup(links.stopService)
        return links

    def test_hot(self) -> None:
        """All masters are connected at once, and a job from two of them runs once."""
        links = self.build(master=["a", "b"])
        ready = links.when_up()
        links.startService()
        self.net.run(1)

        self.assertEqual(self.successResultOf(ready).name, "a")
        self.assertTrue(all(link.up for link in links.links))
        self.net.publish(self.a.publication())
        self.assertEqual(self.jobs, [(JID, "a")])

    def test_any_that_is_up(self) -> None:
        """A request goes to the master that is named while it is up, else to another."""
        self.a.ours = self.b.ours = True
        links = self.build(master=["a", "b"])
        links.startService()
        self.net.run(1)
        wanted = links.named("b")
        assert wanted is not None
        d = Deferred.fromCoroutine(links.request({"cmd": "_return", "jid": "1"}, wanted))
        self.net.run(1)
        self.successResultOf(d)
        self.assertIn("_return", self.b.log)

        self.b.alive = False
        self.net.run(60)
        d = Deferred.fromCoroutine(links.request({"cmd": "_return", "jid": "2"}, wanted))
        self.net.run(1)

        self.successResultOf(d)
        self.assertIn("_return", self.a.log)

    def test_doubt(self) -> None:
        """The master that is asked is one that is not in doubt, if there is one."""
        self.a.ours = self.b.ours = True
        links = self.build(master=["a", "b"])
        links.startService()
        self.net.run(1)
        self.assertIs(links.best, links.named("a"))

        self.a.alive = False
        self.net.subscriptions[0].lost()

        self.assertIs(links.best, links.named("b"))
        self.net.subscriptions[1].lost()
        self.assertIs(links.best, links.named("a"))
        self.net.run(1)
        self.assertIs(links.best, links.named("b"))

    def test_none_is_up(self) -> None:
        """Without any master a request fails, and waiting ends when the service does."""
        links = self.build(master=["a"])
        waiting, cancelled = links.when_up(), links.when_up()
        cancelled.cancel()
        self.failureResultOf(cancelled)

        self.failureResultOf(
            Deferred.fromCoroutine(links.request({"cmd": "_return"})), TransportClosed
        )
        links.startService()
        self.successResultOf(links.stopService() or Deferred.fromCoroutine(nothing()))
        self.failureResultOf(waiting, TransportClosed)

    def test_start_order(self) -> None:
        """Masters may appear in any order, one with an unknown name among them."""
        self.net.names["b"] = OSError("unknown")
        self.a.alive = False
        links = self.build(master=["a", "b"])
        links.startService()
        self.net.run(120, 0.5)
        self.assertIsNone(links.best)
        self.net.names["b"] = ["10.0.0.2"]
        self.net.run(60)

        self.assertEqual(links.best and links.best.name, "b")
        self.assertEqual([s["state"] for s in links.status()][1], "up")

    def test_random_startup_delay(self) -> None:
        """With random_startup_delay nothing is dialled at once, and stopping stops that too."""
        links = self.build(master=["a"], random_startup_delay=30)
        links.startService()
        self.net.run(0.5)
        self.assertEqual(self.net.resolved, [])
        self.net.run(31)
        self.assertIsNotNone(links.best)
        links.stopService()
        links.startService()

        links.stopService()

        self.net.run(40)
        self.assertEqual(self.net.resolved, ["a"])

    def test_disable(self) -> None:
        """master_type disable means no master at all."""
        links = self.build(master_type="disable")
        self.assertEqual(links.links, [])
        for waiting in (links.when_up(), Deferred.fromCoroutine(links.request({"cmd": "x"}))):
            error = self.failureResultOf(waiting, TransportClosed).value
            self.assertEqual(str(error), "this minion has no master: master_type is disable")

    def test_unknown_kind(self) -> None:
        """A master_type that there is not is a configuration error, not a guess."""
        for kind in ("failovr", ""):
            self.assertRaises(ConfigError, self.build, master_type=kind)


async def nothing() -> None:
    """Done."""


class MasterKeyFileTests(SynchronousTestCase):
    def test_file(self) -> None:
        """Remembered as Salt does, read again each time, and a broken file is an error."""
        import os

        from saltwisted.errors import StoreError

        path = self.mktemp() + "/pki/minion_master.pub"
        store = MasterKeyFile(path)
        self.assertIsNone(store.known())
        store.remember(key("master").public)

        self.assertEqual(store.known(), key("master").public)
        with open(path) as handle:
            self.assertEqual(handle.read(), key("master").public.pem)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o644)
        with open(path, "w") as handle:
            handle.write("no key")
        self.assertRaises(StoreError, store.known)
        os.remove(path)
        self.assertIsNone(store.known())


class ResolverTests(SynchronousTestCase):
    def test_addresses_are_not_looked_up(self) -> None:
        """An address is itself, of either family."""
        resolve = resolver(lambda *a: self.fail("looked up"), False)
        for address in ("127.0.0.1", "::1"):
            got = self.successResultOf(Deferred.fromCoroutine(resolve(address)))

            self.assertEqual(got, [address])

    def test_names(self) -> None:
        """A name is asked of the system."""
        got = self.successResultOf(Deferred.fromCoroutine(resolver(at_once, False)("localhost")))

        self.assertIn("127.0.0.1", got)
