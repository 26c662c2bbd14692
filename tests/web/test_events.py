"""
C{/events}, C{/hook} and C{/stats}.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import tracemalloc
from typing import Any

from twisted.internet.protocol import connectionDone
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.who import HOOK, Who
from saltwisted.web import events as events_module
from saltwisted.web.events import AT_ONCE, CHECK, OF_ONE, SLICE, UNREAD, UNREAD_EVENTS, Outlet
from tests.web import rig
from tests.web.calls import RULES
from tests.web.rig import ApiRig, Connection

JOB = "salt/job/20261123100000000000"
READER = Who("reader", "file")


def of_stream(data: bytes) -> tuple[str, str]:
    """The head of an answer, and what its chunks have."""
    head, _, rest = data.partition(b"\r\n\r\n")
    text = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        text += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return head.decode(), text.decode()


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The events of a stream."""
    _, text = of_stream(data)
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


class EventsTestCase(SynchronousTestCase):
    """A master with an API whose hub hears."""

    rules: dict[str, Any] = RULES

    def made(self, **options: Any) -> ApiRig:
        """Make it."""
        self.patch(rig, "RULES", self.rules)
        api = ApiRig(self, **options)
        for each in api.api.beside:
            each.startService()
            self.addCleanup(each.stopService)
        return api

    def logged(self) -> list[LogEvent]:
        """What is logged from now on."""
        logged: list[LogEvent] = []
        globalLogPublisher.addObserver(logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, logged.append)
        return logged

    def listen(self, api: ApiRig, user: str = "admin", **more: Any) -> Connection:
        """Somebody listens."""
        connection = api.open("GET", "/events", token=api.login(user), **more)
        api.wait(0.1)
        return connection

    def tags(self, api: ApiRig, connection: Connection) -> list[str]:
        """What he has heard of what is not his login."""
        api.wait(0.1)
        found = [event["tag"] for event in events_of(connection.transport.value())]
        return [tag for tag in found if not tag.startswith("salt/auth")]


class ShapeTests(EventsTestCase):
    """The stream is stock's."""

    def test_stream(self) -> None:
        """Head, first line and each event are as rest_cherrypy's."""
        api = self.made()
        connection = self.listen(api)
        api.rig.bus.fire("my/tag", {"a": 1})
        api.wait(0.1)

        head, text = of_stream(connection.transport.value())
        self.assertTrue(head.startswith("HTTP/1.1 200 OK"), head)
        self.assertIn("Content-Type: text/event-stream;charset=utf-8", head)
        self.assertIn("Cache-Control: no-cache", head)
        first, tag, data, empty = text.split("\n")[:4]
        self.assertEqual((first, tag, empty), ("retry: 400", "tag: my/tag", ""))
        event = json.loads(data.removeprefix("data: "))
        self.assertEqual((event["tag"], event["data"]["a"]), ("my/tag", 1))
        self.assertIn("_stamp", event["data"])

    def test_cookie(self) -> None:
        """A browser's C{EventSource} has only the cookie."""
        api = self.made()
        connection = api.open("GET", "/events", Cookie=f"session_id={api.login()}")
        api.wait(0.1)
        self.assertTrue(connection.transport.value().startswith(b"HTTP/1.1 200"))

    def test_no_token_in_the_address(self) -> None:
        """T-API-6: anything behind a question mark is refused, a good token first of all."""
        api = self.made()
        token = api.login()
        for query in (f"token={token}", f"salt_token={token}", "x", "=", "a=b"):
            for more in ({}, {"token": token}):
                self.assertEqual(api.ask("GET", f"/events?{query}", **more).status, 400, query)

    def test_no_session(self) -> None:
        """Without a session, or with one that has ended, there is 401."""
        api = self.made()
        token = api.login()
        api.ask("POST", "/logout", token=token)
        for wrong in ("", "x", "0" * 64, token):
            self.assertEqual(api.ask("GET", "/events", token=wrong).status, 401, wrong)

    def test_methods(self) -> None:
        """Nothing is streamed to C{HEAD}; other methods are refused."""
        api = self.made()
        token = api.login()
        self.assertEqual(api.ask("HEAD", "/events", token=token).status, 200)
        self.assertEqual(api.ask("POST", "/events", [], token=token).status, 405)

    def test_strange_tags(self) -> None:
        """A tag that has lines ends neither its own nor another; odd data does not end a stream."""
        api = self.made()
        connection = self.listen(api)
        api.rig.bus.fire("my\ndata: {}\n\ntag: other", {"a": 1})
        api.rig.bus.fire("odd", {"bytes": b"\xff", "set": {1}, "deep": [[[[1]]]], 5: None})
        api.rig.bus.fire("bytes", {"bytes": b"\xff"})
        api.rig.bus.fire("last", {})

        found = self.tags(api, connection)
        self.assertEqual(found, ["my\ndata: {}\n\ntag: other", "bytes", "last"])
        self.assertEqual(api.rig.counters["api:events-not-json"], 1)


class SightTests(EventsTestCase):
    """Who sees what."""

    rules = {
        **RULES,
        "reader": ["test.*", {"api-00001": ["test.*", "@events"]}],
    }

    def fire(self, api: ApiRig) -> None:
        """What happens at a master."""
        bus = api.rig.bus
        bus.fire(f"{JOB}/new", {"user": "admin", "minions": ["api-00000"], "arg": ["secret"]})
        bus.fire(f"{JOB}/ret/api-00000", {"return": "secret"})
        bus.fire(f"{JOB}/ret/api-00001", {"return": "his"})
        bus.fire("salt/job/2/new", {**READER.facts(), "minions": ["api-00000"]})
        bus.fire("salt/job/2/ret/api-00000", {"return": True})
        bus.fire("salt/minion/api-00000/start", {})
        bus.fire("my/own", {"id": "api-00001"}, sender="api-00000")
        bus.fire("my/own2", {}, sender="api-00001")
        bus.fire("salt/netapi/hook/x", {"post": "secret"})

    def test_owner(self) -> None:
        """Who may do everything sees everything."""
        api = self.made()
        connection = self.listen(api, "admin")
        self.fire(api)
        self.assertEqual(len(self.tags(api, connection)), 9)

    def test_others(self) -> None:
        """
        Others see the events of their own jobs, and of the minions that a rule covers; nothing of
        what others do elsewhere (pains-next 2.9).
        """
        api = self.made()
        connection = self.listen(api, "reader")
        self.fire(api)
        self.assertEqual(
            self.tags(api, connection),
            [
                f"{JOB}/ret/api-00001",
                "salt/job/2/new",
                "salt/job/2/ret/api-00000",
                "my/own2",
            ],
        )
        self.assertNotIn(b"secret", connection.transport.value())

    def test_for_all(self) -> None:
        """C{events_for_all} is stock's way: everybody who has logged in sees everything."""
        api = self.made(block={"events_for_all": True})
        connection = self.listen(api, "reader")
        self.fire(api)
        self.assertEqual(len(self.tags(api, connection)), 9)

    def test_rules_of_others(self) -> None:
        """T-ACL-1: rules of C{*} are not those of a user who has his own, unless they add up."""
        self.rules = {"*": [".*", "@runner", "@wheel"], "reader": ["test.*"]}
        for permissive, seen in ((False, 0), (True, 1)):
            api = self.made(permissive_acl=permissive)
            connection = self.listen(api, "reader")
            api.rig.bus.fire(f"{JOB}/ret/api-00000", {"return": "secret"})
            self.assertEqual(len(self.tags(api, connection)), seen, permissive)

    def test_rights_change(self) -> None:
        """A right that is taken away holds within seconds, also for who listens already."""
        api = self.made()
        connection = self.listen(api, "reader")
        api.rig.bus.fire("salt/minion/api-00001/start", {})
        external_auth = api.rig.config.external_auth["file"]
        external_auth["reader"] = ["test.*"]
        api.wait(CHECK + 0.1)
        api.rig.bus.fire(f"{JOB}/ret/api-00001", {"return": "no longer his"})
        self.assertEqual(self.tags(api, connection), ["salt/minion/api-00001/start"])

    def test_logout(self) -> None:
        """A session that ends, ends its streams within seconds."""
        api = self.made()
        token = api.login()
        connection = api.open("GET", "/events", token=token)
        api.wait(0.1)
        api.ask("POST", "/logout", token=token)
        api.wait(CHECK + 0.1)
        self.assertTrue(connection.transport.value().endswith(b"0\r\n\r\n"))
        self.assertEqual(len(api.api.beside[0]), 0)


class LimitTests(EventsTestCase):
    """A bad or greedy listener harms only itself."""

    def test_goes(self) -> None:
        """A listener that goes leaves nothing behind."""
        api = self.made()
        connection = self.listen(api)
        (hub,) = api.api.beside
        self.assertEqual(len(hub), 1)
        connection.protocol.connectionLost(connectionDone)
        self.assertEqual(len(hub), 0)
        api.rig.bus.fire("my/tag", {})
        api.wait(0.1)

    def test_does_not_read(self) -> None:
        """
        A listener that does not read is hung up on and counted once so much waits for it; others
        hear everything meanwhile.
        """
        api = self.made()
        good, bad = self.listen(api), self.listen(api)
        bad.transport.producer.pauseProducing()
        before = len(bad.transport.value())
        count = UNREAD // 100_000 + 2
        for n in range(count):
            api.rig.bus.fire(f"my/{n}", {"text": "x" * 100_000})
            api.wait(0.1)

        self.assertTrue(bad.transport.disconnecting)
        self.assertEqual(len(bad.transport.value()), before)
        self.assertEqual(api.rig.counters["api:slow-listeners"], 1)
        self.assertEqual(len(self.tags(api, good)), count)

    def test_mute_crowd(self) -> None:
        """What two hundred do not read is in memory once, not for each of them."""
        api = self.made()
        for _ in range(OF_ONE):
            self.listen(api).transport.producer.pauseProducing()
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for n in range(30):
            api.rig.bus.fire(f"my/{n}", {"text": "x" * 100_000})
            api.wait(0.1)
        kept, _ = tracemalloc.get_traced_memory()
        self.assertEqual(len(api.api.beside[0]), OF_ONE)
        self.assertGreater(kept, 3_000_000)
        self.assertLess(kept, 8_000_000)

    def test_short_events(self) -> None:
        """Of very short events not more may wait than of any: their places are memory, too."""
        api = self.made()
        good, bad = self.listen(api), self.listen(api)
        bad.transport.producer.pauseProducing()
        for n in range(UNREAD_EVENTS + 2):
            api.rig.bus.fire("my/x", {"n": n})
            if n % 500 == 0:
                api.wait(0.1)
        api.wait(5)
        self.assertTrue(bad.transport.disconnecting)
        self.assertEqual(len(self.tags(api, good)), UNREAD_EVENTS + 2)

    def test_pauses(self) -> None:
        """A listener that pauses and goes on has missed nothing, in order."""
        api = self.made()
        connection = self.listen(api)
        producer = connection.transport.producer
        for n in range(50):
            if n % 7 == 0:
                producer.pauseProducing()
            api.rig.bus.fire(f"my/{n}", {"text": "x" * 3000 * (n % 5)})
            if n % 7 == 5:
                producer.resumeProducing()
        producer.resumeProducing()
        self.assertEqual(self.tags(api, connection), [f"my/{n}" for n in range(50)])

    def test_too_many(self) -> None:
        """One user has so many streams; the next is told to come later."""
        api = self.made()
        token = api.login()
        for _ in range(OF_ONE):
            api.open("GET", "/events", token=token)
        reply = api.ask("GET", "/events", token=token)
        self.assertEqual((reply.status, reply.headers["retry-after"]), (503, ["5"]))
        self.assertEqual(len(api.api.beside[0]), OF_ONE)

    def test_behind(self) -> None:
        """Events that come too fast do not pile up: who would miss one is hung up on."""
        api = self.made()
        connection = self.listen(api)
        self.patch(events_module, "QUEUED", 100_000)
        for n in range(5):
            api.rig.bus.fire(f"my/{n}", {"text": "x" * 60_000})
        api.wait(0.1)
        self.assertTrue(connection.transport.disconnecting)
        self.assertEqual(api.rig.counters["api:listeners-behind"], 1)

    def test_large_event(self) -> None:
        """A large event is made in pieces, a few in one turn of the reactor, and arrives whole."""
        api = self.made()
        connection = self.listen(api)
        data = {"return": {f"key{n}": {"text": "x" * 20} for n in range(50_000)}}
        before = len(connection.transport.value())
        api.rig.bus.fire("my/large", data)
        api.rig.clock.advance(0)
        api.rig.bus.fire("my/next", {})
        self.assertEqual(self.tags(api, connection), ["my/large", "my/next"])
        found = events_of(connection.transport.value())[-2]["data"]["return"]
        self.assertEqual(found, data["return"])
        self.assertGreater(len(connection.transport.value()), before)

    def test_judged_in_turns(self) -> None:
        """Very many listeners are judged a few in one turn of the reactor, all in one round."""
        api = self.made()
        (hub,) = api.api.beside
        for _ in range(60):
            self.listen(api)
        looks: list[int] = [0]
        for listener in hub._listeners:
            look = listener.look

            def counted(look: Any = look) -> Any:
                looks[-1] += 1
                return look()

            listener.look = counted
        later = api.rig.clock.callLater

        def next_turn(seconds: float, *args: Any, **more: Any) -> Any:
            if not seconds:
                looks.append(0)
            return later(seconds, *args, **more)

        self.patch(api.rig.clock, "callLater", next_turn)
        api.rig.clock.advance(CHECK)
        api.rig.clock.advance(0)

        self.assertEqual(sum(looks), 60)
        self.assertLessEqual(max(looks), AT_ONCE)

    def test_made_once(self) -> None:
        """However many listen, an event is made into JSON once."""
        api = self.made()
        listeners = [self.listen(api) for _ in range(10)]
        made: list[Any] = []
        pieces = events_module.pieces
        self.patch(events_module, "pieces", lambda value: made.append(value) or pieces(value))
        for n in range(20):
            api.rig.bus.fire(f"my/{n}", {})
        for connection in listeners:
            self.assertEqual(self.tags(api, connection), [f"my/{n}" for n in range(20)])
        self.assertEqual(len(made), 20)

    def test_end(self) -> None:
        """When the master ends, streams end."""
        api = self.made()
        connection = self.listen(api)
        api.api.beside[0].stopService()
        self.assertTrue(connection.transport.value().endswith(b"0\r\n\r\n"))


class OutletTests(SynchronousTestCase):
    """What waits for one client."""

    def test_slices(self) -> None:
        """Large events go in slices, so that no connection copies more than one of them."""
        written: list[bytes] = []
        outlet = Outlet(written.append, lambda: None)
        outlet.give(b"x" * 200_000)
        self.assertEqual([len(piece) for piece in written], [SLICE] * 12 + [200_000 - 12 * SLICE])

    def test_pause_within(self) -> None:
        """A client that has enough in the middle of an event gets the rest of it first."""
        written: list[bytes] = []

        def write(data: bytes) -> None:
            written.append(data)
            outlet.pauseProducing()

        outlet = Outlet(write, lambda: None)
        outlet.give(b"a" * SLICE + b"b")
        outlet.give(b"c")
        self.assertEqual(outlet.unread, 2)
        outlet.resumeProducing()
        outlet.resumeProducing()
        self.assertEqual(b"".join(written)[-2:], b"bc")


class HookTests(EventsTestCase):
    """C{/hook}."""

    def fired(self, api: ApiRig) -> list[tuple[str, Any]]:
        """Note what is fired."""
        found: list[tuple[str, Any]] = []
        api.rig.bus.subscribe("salt/netapi", lambda tag, data: found.append((tag, data)))
        return found

    def test_event(self) -> None:
        """The path is in the tag; body, what it means and headers are the data, as in Salt."""
        api = self.made()
        found = self.fired(api)
        reply = api.ask("POST", "/hook/build/done", {"ok": 1}, token=api.login(), X_Own="y")
        self.assertEqual((reply.status, reply.json), (200, {"success": True}))
        ((tag, data),) = found
        self.assertEqual(tag, "salt/netapi/hook/build/done")
        self.assertEqual((data["body"], data["post"]), ('{"ok": 1}', {"ok": 1}))
        self.assertEqual(data["headers"]["X-Own"], "y")
        self.assertEqual(data["headers"]["Remote-Addr"], "192.0.2.7")

    def test_no_session_in_the_event(self) -> None:
        """The token of who sends a hook is for nobody who sees the event (T-LOG-1)."""
        api = self.made()
        found = self.fired(api)
        token = api.login()
        api.ask("POST", "/hook", {}, token=token, Cookie="a=b", Authorization="Bearer x")
        ((_, data),) = found
        self.assertNotIn(token, json.dumps(dict(data)))
        self.assertEqual({"Cookie", "Authorization"} & set(data["headers"]), set())

    def test_needs_a_session(self) -> None:
        """Without one nothing is fired, unless C{webhook_disable_auth} says so."""
        api = self.made()
        found = self.fired(api)
        self.assertEqual(api.ask("POST", "/hook/x", {}).status, 401)
        self.assertEqual(api.ask("GET", "/hook/x", token=api.login()).status, 405)
        self.assertEqual(found, [])
        api = self.made(block={"webhook_disable_auth": True})
        found = self.fired(api)
        self.assertEqual(api.ask("POST", "/hook/x", {}).status, 200)
        self.assertEqual(len(found), 1)

    def test_T_LOG_3_hooks(self) -> None:
        """T-LOG-3: who has sent a hook is on record, with where from; of strangers nobody knows."""
        block = {"webhook_signatures": {"deploy": "a long secret"}, "webhook_disable_auth": True}
        api = self.made(block=block)
        lines: list[str] = []
        asked: list[Any] = []
        api.rig.bus.subscribe_events("salt/netapi/hook/", lambda event: asked.append(event.asked))

        def listen(event: LogEvent) -> None:
            if event.get("always") and " fire " in formatEvent(event):
                lines.append(formatEvent(event))

        globalLogPublisher.addObserver(listen)
        self.addCleanup(globalLogPublisher.removeObserver, listen)
        signature = "sha256=" + hmac.new(b"a long secret", b"{}", hashlib.sha256).hexdigest()
        for path, how in (
            ("/hook/build", {"token": api.login()}),
            ("/hook/deploy", {"X_Hub_Signature_256": signature}),
            ("/hook/other", {}),
        ):
            self.assertEqual(api.ask("POST", path, {}, **how).status, 200)
        way = "(by the HTTP API, 192.0.2.7)"
        # What reacts to one of them names who has sent it
        self.assertEqual(
            asked,
            [
                (who, "the HTTP API, 192.0.2.7")
                for who in (
                    Who("admin", "file"),
                    Who("a signature", HOOK),
                    Who("somebody", HOOK),
                )
            ],
        )
        self.assertEqual(
            lines,
            [
                f"admin (file) does fire salt/netapi/hook/build {way}",
                f"a signature does fire salt/netapi/hook/deploy {way}",
            ],
        )

    def test_other_path(self) -> None:
        """C{webhook_url} is its path."""
        api = self.made(block={"webhook_url": "/my/hooks"})
        found = self.fired(api)
        self.assertEqual(api.ask("POST", "/my/hooks/x", {}, token=api.login()).status, 200)
        self.assertEqual(api.ask("POST", "/hook/x", {}, token=api.login()).status, 404)
        self.assertEqual([tag for tag, _ in found], ["salt/netapi/hook/x"])

    def test_signature(self) -> None:
        """
        An unsigned hook fires nothing, with a session or without; a signed one needs no session
        (pains-next 2.18).
        """
        block = {
            "webhook_signatures": {"deploy/*": "a long secret"},
            "webhook_disable_auth": True,
        }
        api = self.made(block=block)
        found = self.fired(api)
        body = b'{"ref": "main"}'
        good = "sha256=" + hmac.new(b"a long secret", body, hashlib.sha256).hexdigest()
        for wrong, content in (("", body), ("sha256=00", body), (good, body + b" ")):
            for token in ("", api.login()):
                reply = api.ask(
                    "POST",
                    "/hook/deploy/web",
                    body=content,
                    token=token,
                    X_Hub_Signature_256=wrong,
                )
                self.assertEqual(reply.status, 401, wrong)
        self.assertEqual(found, [])
        reply = api.ask("POST", "/hook/deploy/web", body=body, X_Hub_Signature_256=good)
        self.assertEqual((reply.status, len(found)), (200, 1))
        self.assertEqual(api.ask("POST", "/hook/other", {}).status, 200)
        self.assertEqual(api.rig.counters["api:bad-signature"], 6)

    def test_no_way_round(self) -> None:
        """A path that is written differently is the same path, or none (T-PATH-4)."""
        api = self.made(block={"webhook_signatures": {"deploy/*": "a long secret"}})
        found = self.fired(api)
        token = api.login()
        for path in (
            "/hook//deploy/web", "/hook/deploy//web", "/hook/%64eploy/web", "/hook/./deploy/web",
            "/hook/x/../deploy/web", "/hook/x%2f..%2fdeploy/web", "/hook/deploy%2Fweb",
            "/hook/deploy/web/", "/hook/deploy/web%0a", "//hook/deploy/web",
        ):  # fmt: skip
            self.assertIn(api.ask("POST", path, {}, token=token).status, (400, 401, 404), path)
        self.assertEqual(found, [])

    def test_T_EVT_3_hooks(self) -> None:
        """
        T-EVT-3: a user with a rule C{'@event'} sends the hooks that it means, and no others; each
        refusal is in the log with who, which and where from (pains-next 2.10).
        """
        logged = self.logged()
        self.rules = {
            **RULES,
            "reader": ["test.*", {"@event": ["salt/netapi/hook/deploy/*", "deploy/*"]}],
        }
        block = {"webhook_signatures": {"signed/*": "a long secret"}}
        api = self.made(block=block)
        found = self.fired(api)
        reader, admin = api.login("reader"), api.login()
        self.assertEqual(api.ask("POST", "/hook/deploy/web", {}, token=reader).status, 200)
        for path in ("/hook/other", "/hook", "/hook/deploy", "/hook/x/deploy/web"):
            self.assertEqual(api.ask("POST", path, {}, token=reader).status, 401, path)
        self.assertEqual(api.rig.counters["denied:event"], 4)
        said = "reader (file) may not fire salt/netapi/hook/other (by the HTTP API, 192.0.2.7)"
        self.assertEqual([formatEvent(event) for event in logged].count(said), 1)
        self.assertEqual(api.ask("POST", "/hook/other", {}, token=admin).status, 200)
        tags = [tag.removeprefix("salt/netapi/hook/") for tag, _ in found]
        self.assertEqual(tags, ["deploy/web", "other"])

    def test_T_EVT_3_runner(self) -> None:
        """
        T-EVT-3: C{event.send} by the API is judged by the same rule, and needs no other; refusals
        are in the log.
        """
        logged = self.logged()
        self.rules = {**RULES, "reader": [{"@event": ["deploy/*"]}]}
        api = self.made()
        found: list[str] = []
        api.rig.bus.subscribe("", lambda tag, data: found.append(tag))
        token = api.login("reader")
        for tag, status in (("deploy/web", 200), ("other/web", 401), ("salt/key", 401)):
            low = {"client": "runner", "fun": "event.send", "arg": [tag], "kwarg": {"data": {}}}
            self.assertEqual(api.ask("POST", "/", [low], token=token).status, status, tag)
        self.assertEqual([tag for tag in found if not tag.startswith("salt/")], ["deploy/web"])
        self.assertNotIn("salt/key", found)
        said = "reader (file) may not run runner event.send (by the HTTP API, 192.0.2.7)"
        self.assertEqual([formatEvent(event) for event in logged].count(said), 2)

    def test_bad_bodies(self) -> None:
        """A body that is not what it says fires nothing."""
        api = self.made()
        found = self.fired(api)
        token = api.login()
        for body, kind, status in (
            (b"{", "application/json", 400),
            (b"a: [", "application/x-yaml", 400),
            (b"\xff", "text/plain", 400),
            (b"<x/>", "application/xml", 406),
        ):
            reply = api.ask("POST", "/hook/x", body=body, token=token, Content_Type=kind)
            self.assertEqual(reply.status, status, kind)
        self.assertEqual(found, [])


class StatsTests(EventsTestCase):
    """C{/stats}."""

    def test_stats(self) -> None:
        """Nothing unless C{collect_stats} is set, and to nobody without a session."""
        api = self.made()
        self.assertEqual(api.ask("GET", "/stats", token=api.login()).json, {})
        self.assertEqual(api.ask("GET", "/stats").status, 401)
        api = self.made(block={"collect_stats": True, "stats_disable_auth": True})
        found = api.ask("GET", "/stats").json
        self.assertEqual(found["saltwisted HTTPServer"]["Listeners"], 0)
