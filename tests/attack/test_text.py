"""
T-TEXT-1: text that UTF-8 cannot carry, and a NUL where none can be, at each door.

Every text field of what comes in takes every bad text, alone, in a list, in a map and as a key.
Each request gets one answer, the log no traceback and no page, and neighbours get what is theirs.
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.main import main as command
from saltwisted.config.document import parse as parse_config
from saltwisted.domain.arguments import yamlify
from saltwisted.domain.bearer import BearerError
from saltwisted.domain.bearer import _map as claims_of
from saltwisted.domain.claims.etcd import Record, decode_record, encode_record
from saltwisted.domain.eauth import credentials
from saltwisted.domain.git.signing import Key, keys_of, wrong_with_gpg, wrong_with_ssh
from saltwisted.domain.operations.arguments import LIST, MAP, TEXT, TEXTS, WORDS, Argument
from saltwisted.domain.operations.table import Caller
from saltwisted.domain.render.yaml import YAMLError, safe_load
from saltwisted.domain.replica.words import decode as decode_word
from saltwisted.doors import DOORS
from saltwisted.errors import ConfigError, SaltwistedError, WireError
from saltwisted.master.table import clear_commands, sealed_commands
from saltwisted.transports.etcd import parsed
from saltwisted.transports.ipc import ControlProtocol, ControlServer, PeerProcess
from saltwisted.wire.commands import commands
from saltwisted.wire.envelope import decode_request
from saltwisted.wire.msgpack import pack, pack_bin, unpack, unpack_bin
from saltwisted.wire.publication import decode_publication
from saltwisted.wire.text import HALVES, escaped, has_halves, json_has_halves
from saltwisted.worker.git import news
from saltwisted.worker.process import oidc
from saltwisted.worker.process.rest import _rules as rules_of_answer
from tests.doors.test_cluster import Wire
from tests.doors.test_minions import FIXED
from tests.master.rig import Rig, RigMinion
from tests.web.rig import ApiRig

HALF = ("\ud800", "a\udfffb", "\udcff", "\udc00\ud800")
"""What JSON can write and UTF-8 cannot: a half of a pair, and what Python makes of odd bytes."""
RAW = (b"\xed\xa0\x80", b"a\xff", b"\xc3")
"""The same on the wire of minions, where it stays bytes."""
NUL = ("\0", "a\0b")
MOST = 1500
"""Characters of the log for one request."""


def around(bad: Any) -> Iterator[Any]:
    """A text as others bring it."""
    yield bad
    yield [bad]
    yield {"a": bad}
    yield {bad: "a"}
    yield [{"a": [{bad: [bad]}]}]


class Logged:
    """What the log gets."""

    def __init__(self, test: SynchronousTestCase) -> None:
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self)
        test.addCleanup(globalLogPublisher.removeObserver, self)

    def __call__(self, event: LogEvent) -> None:
        """A line."""
        failure = event.get("log_failure")
        text = formatEvent(event) + (failure.getTraceback() if failure is not None else "")
        # A line about the time that goes by for another connection
        if "iming out client" not in text:
            self.lines.append(text)

    def take(self) -> str:
        """All since the last time."""
        lines, self.lines = self.lines, []
        return "\n".join(lines)


class Minions(SynchronousTestCase):
    """The request port: sealed and clear."""

    def setUp(self) -> None:
        self.rig = Rig(
            self,
            peer={".*": [".*"]},
            peer_run={".*": ["test.arg", "event.send"]},
            mine_get={".*": [".*"]},
            file_recv=True,
            allow_minion_key_revoke=False,
        )
        self.web, self.db = (RigMinion(self.rig, name).accepted() for name in ("web1", "db1"))
        self.logged = Logged(self)

    def fields(self, cmd: str) -> Iterator[str]:
        """What a request has, and something that it does not have."""
        yield from (one.name for one in attrs.fields(commands()[cmd]) if one.name != "load")
        yield "other"

    def quiet(self, what: object) -> None:
        """No page of the log for one request."""
        said = self.logged.take()
        self.assertNotIn("Traceback", said, what)
        self.assertLess(len(said), MOST, (what, said))

    def test_T_TEXT_1_sealed(self) -> None:
        """T-TEXT-1: no field of a minion's request makes a traceback, whatever text is in it."""
        for cmd in sealed_commands():
            for field in self.fields(cmd):
                for bad in (*RAW, *NUL):
                    for value in around(bad):
                        load = {**FIXED.get(cmd, {}), field: value}
                        answer = self.web.ask(cmd, **load)
                        self.quiet((cmd, load))
                        failed = self.rig.counters.pop(f"failed:{cmd}", 0)
                        self.assertTrue(answer == "bad load" or not failed, (cmd, load))
            self.rig.events.clear()
            self.db.ask("_minion_event", tag="site/x", data={})
            self.assertEqual(self.rig.tags(), ["site/x"])
        self.assertEqual(self.rig.counters["failed:request"], 0)

    def test_T_TEXT_1_one_event(self) -> None:
        """T-TEXT-1: a bad event of a list harms itself alone, however long the list is."""
        for count in (1, 1000):
            for bad in (*RAW, "\n\n", None, 7, {}):
                self.rig.events.clear()
                good = [{"tag": f"site/{n}", "data": {"raw": b"\xff"}} for n in range(count)]
                odd = [{"tag": bad, "data": {}}, bad]
                answer = self.web.ask("_minion_event", events=[*good, *odd, *good])
                self.rig.clock.pump([0.1] * 10)
                self.assertIsNone(answer if count == 1 else None)
                self.assertEqual(len(self.rig.events), 2 * count, repr(bad))
                self.logged.take()

    def test_T_TEXT_1_returns(self) -> None:
        """T-TEXT-1: a return is acknowledged, stored and announced, whatever text is in it."""
        number = 0
        for field in ("return", "fun_args", "out", "metadata", "user", "other", "fun"):
            for bad in (*RAW, *NUL):
                for value in around(bad):
                    number += 1
                    jid = f"20260101{number:012d}"
                    load = {"jid": jid, "fun": "test.arg", "return": 1, field: value}
                    self.rig.events.clear()
                    self.assertIsNone(self.web.ask("_return", **load), (field, value))
                    kept = self.successResultOf(as_deferred(self.rig.jobs.returns(jid)))
                    self.assertEqual(kept["web1"][field], value)
                    self.assertEqual(self.rig.tags(), [f"salt/job/{jid}/ret/web1"])
                    self.quiet((field, value))

    def test_T_TEXT_1_clear(self) -> None:
        """T-TEXT-1: nor does a field of a request that is not sealed, of a stranger or a user."""
        keys = ["", self.rig.ctx.users._keys["root"]]
        for cmd in clear_commands():
            for field in (*self.fields(cmd), "eauth", "username", "password", "key", "user"):
                for bad in (*RAW, *NUL):
                    for value in around(bad):
                        for key in keys:
                            load = {"fun": "test.arg", "key": key, "user": "root", "cmd": cmd}
                            load |= {"id": "web2", "pub": "x", "tgt": "*", field: value}
                            self.rig.ask(pack({"enc": "clear", "load": load}))
                            self.quiet((cmd, field, value))
            self.rig.clock.pump([1.0] * 30)
            self.quiet(cmd)
            self.assertEqual(self.rig.counters[f"failed:{cmd}"], 0, cmd)
        self.assertEqual(self.rig.counters["failed:request"], 0)

    def test_T_TEXT_1_envelopes(self) -> None:
        """T-TEXT-1: an envelope with such text is a bad one, on every transport alike."""
        for bad in (*RAW, *NUL):
            for field in ("enc", "id", "version", "load", "sig_algo"):
                frame = {"enc": "aes", "id": "web1", "version": 3, "load": b"x", field: bad}
                self.rig.ask(pack(frame))
                self.quiet((field, bad))
                with self.subTest(field):
                    refused(lambda frame=frame: decode_request(pack(frame)))
                    refused(lambda frame=frame: decode_publication(pack(frame)))
        self.assertEqual(self.rig.counters["failed:request"], 0)


class Control(SynchronousTestCase):
    """The control socket, of a master and of whoever uses the same reader."""

    def test_T_TEXT_1_frames(self) -> None:
        """T-TEXT-1: a message with text that is none ends its connection, and no other."""
        heard: list[str] = []

        async def handler(op: str, args: dict[str, Any], peer: PeerProcess, stream: Any) -> Any:
            heard.append(op)

        server = ControlServer(Clock(), handler)
        logged = Logged(self)

        def connect() -> tuple[Any, Wire]:
            protocol, wire = ControlProtocol(server, handler, PeerProcess(0, 0, 5)), Wire()
            protocol.makeConnection(wire)
            return protocol, wire

        other, other_wire = connect()
        for raw in RAW:
            for value in around("@"):
                body = pack_bin({"id": 1, "op": "x", "args": {"a": value}})
                body = body.replace(b"\xa1@", bytes([0xA0 + len(raw)]) + raw)
                protocol, wire = connect()
                protocol.dataReceived(struct.pack(">I", len(body)) + body)
                self.assertTrue(wire.aborted, value)
        body = pack_bin({"id": 1, "op": "good", "args": {}})
        other.dataReceived(struct.pack(">I", len(body)) + body)
        self.assertEqual((heard, other_wire.aborted), (["good"], False))
        self.assertNotIn("Traceback", logged.take())

    def test_T_TEXT_1_operations(self) -> None:
        """T-TEXT-1: each argument of each operation takes a NUL, or refuses it as Salt does."""
        rig = Rig(self)
        RigMinion(rig, "web1").accepted()
        logged = Logged(self)
        table = rig.table()
        owner = Caller(name="root", owner=True, source="uid 0", door="the test")
        for row in table:
            for argument in row.takes:
                for bad in (*NUL, *RAW):
                    value = of_kind(argument, bad)
                    if value is None:
                        continue
                    args = {each.name: some(each) for each in row.takes if each.needed}
                    args = {name: each for name, each in args.items() if each is not None}
                    call = table.call(row.name, {**args, argument.name: value}, owner, nothing)
                    with self.subTest(row.name):
                        done = Deferred.fromCoroutine(call)
                        found: list[Any] = []
                        done.addBoth(found.append)
                        rig.clock.pump([1.0] * 3)
                        done.cancel()
                        error = getattr(found[0], "value", None) if found else None
                        is_known = error is None or isinstance(error, SaltwistedError)
                        shown = (row.name, argument.name, value, error)
                        self.assertTrue(is_known or type(error).__name__ == "CancelledError", shown)
                        said = logged.take()
                        self.assertNotIn("Traceback", said, shown)
                        self.assertLess(len(said), 4 * MOST, shown)

    def test_T_TEXT_1_login(self) -> None:
        """T-TEXT-1: a name or a password with such text is asked of nobody."""
        for bad in (*HALF, *RAW, *NUL):
            for field in ("eauth", "username", "password"):
                given = {"eauth": "pam", "username": "fred", "password": "word", field: bad}
                if field != "eauth":
                    self.assertIsNone(credentials(given), given)


class Api(SynchronousTestCase):
    """The HTTP API, its hooks and its listeners."""

    def setUp(self) -> None:
        self.api = ApiRig(self, block={"webhook_disable_auth": True})
        self.token = self.api.login()
        self.logged = Logged(self)

    FIELDS = (
        "client", "tgt", "tgt_type", "fun", "arg", "kwarg", "ret", "timeout", "jid", "metadata",
        "full_return", "token", "eauth", "username", "password", "token_expire", "mid", "other",
    )  # fmt: skip
    PATHS = ("/", "/run", "/login", "/minions", "/keys", "/token", "/hook/x", "/hook")

    def refuses(self, path: str, body: bytes, kind: str = "application/json") -> None:
        """The answer is 400, in one sentence."""
        before = len(self.api.rig.events), len(self.api.rig.published_jobs())
        reply = self.api.ask("POST", path, body=body, token=self.token, Content_Type=kind)
        self.assertEqual(reply.status, 400, (path, body[:100]))
        self.assertIn(HALVES, reply.text)
        self.assertLess(len(reply.content), 2000)
        after = len(self.api.rig.events), len(self.api.rig.published_jobs())
        self.assertEqual(before, after, (path, body[:100]))
        said = self.logged.take()
        self.assertNotIn("Traceback", said)
        self.assertLess(len(said), MOST)

    def test_T_TEXT_1_fields(self) -> None:
        """
        T-TEXT-1: JSON with half a character gets 400 at each path, whichever field has it, and
        nothing is done of the request.
        """
        base = {"client": "local", "tgt": "*", "fun": "test.arg", "arg": ["a"]}
        for path in self.PATHS:
            for field in self.FIELDS:
                for number, value in enumerate(around(HALF[0])):
                    if number < 2 or field in ("arg", "kwarg", "other"):
                        self.refuses(path, json.dumps([{**base, field: value}]).encode())
            for bad in HALF:
                self.refuses(path, json.dumps([base, {**base, "tgt": bad}]).encode())
                self.refuses(path, json.dumps([base, {**base, "tgt": bad}]).encode(), "text/plain")
                self.refuses(path, json.dumps([{**base, bad: "x"}]).encode())
        self.assertEqual(self.api.rig.counters["api:failed"], 0)

    def test_T_TEXT_1_long(self) -> None:
        """T-TEXT-1: so does a long body, which another process reads; a whole pair is a letter."""
        worked = self.api.worked
        padding = ["x" * 100] * 300
        self.refuses("/hook/x", json.dumps({"a": padding, "b": "\ud800"}).encode())
        self.assertEqual(self.api.worked, worked + 1)
        for value in ({"a": "\U0001f9c2"}, {"a": "\\ud800"}, {"a": padding, "b": "\U0001f9c2"}):
            reply = self.api.ask("POST", "/hook/x", body=json.dumps(value).encode())
            self.assertEqual(reply.status, 200)
            self.assertEqual(self.api.rig.events[-1][1]["post"], value)

    def test_T_TEXT_1_other_bodies(self) -> None:
        """T-TEXT-1: no other kind of body brings such text in either."""
        for kind, body in (
            ("application/x-yaml", b'{a: "\\ud800"}'),
            ("application/x-yaml", b'{a: "\\U0000d800"}'),
            ("application/x-yaml", b"a: \xed\xa0\x80"),
            ("application/json", b'{"a": "\xed\xa0\x80"}'),
            ("text/plain", b"\xff"),
            ("application/x-www-form-urlencoded", b"a=\xff"),
        ):
            reply = self.api.ask("POST", "/hook/x", body=body, Content_Type=kind)
            self.assertEqual(reply.status, 400, (kind, body))
        for kind, body in (
            ("application/x-www-form-urlencoded", b"a=%ED%A0%80&%FF=b&arg=%22%5Cud800%22"),
            ("application/x-msgpack", pack({"a": RAW[0], RAW[1]: "b"})),
        ):
            reply = self.api.ask("POST", "/hook/x", body=body, Content_Type=kind)
            self.assertEqual(reply.status, 200, (kind, body))
            self.assertFalse(has_halves(self.api.rig.events[-1][1]), kind)
        self.assertEqual(self.api.rig.counters["api:failed"], 0)

    def test_T_TEXT_1_nul(self) -> None:
        """T-TEXT-1: a NUL in any field has an answer, and never that the master is broken."""
        base = {"client": "local_async", "tgt": "*", "fun": "test.arg", "arg": ["a"]}
        for path in self.PATHS:
            for field in self.FIELDS:
                for value in around("a\0b"):
                    body = json.dumps([{**base, field: value}]).encode()
                    reply = self.api.ask("POST", path, body=body, token=self.token)
                    self.assertLess(reply.status, 500, (path, field, value))
                    said = self.logged.take()
                    self.assertNotIn("Traceback", said)
                    self.assertLess(len(said), MOST, (path, field, value, said))
        self.assertEqual(self.api.rig.counters["api:failed"], 0)

    def test_T_TEXT_1_heads(self) -> None:
        """T-TEXT-1: nor has one in a path, a query or a header."""
        for raw in (*RAW, b"\0", b"a\0b", b"\n\n"):
            coded = quote(raw)
            for path in (
                f"/{coded}", f"/hook/{coded}", f"/jobs/{coded}", f"/minions/{coded}",
                f"/keys/{coded}", f"/jobs?jid={coded}", f"/keys?mid={coded}", f"/?{coded}={coded}",
                f"/static/{coded}", f"/app/{coded}", f"/events?{coded}", f"/ws/{coded}",
                f"/stats?{coded}", f"/logout/{coded}",
            ):  # fmt: skip
                for method in ("GET", "POST"):
                    reply = self.api.ask(method, path, token=self.token)
                    self.assertLess(reply.status, 500, (method, path))
        for name in ("X-Auth-Token", "Accept", "Cookie", "Origin", "Authorization"):
            for text in ("\xed\xa0\x80", "\xff"):
                told = {name.replace("-", "_"): text}
                reply = self.api.ask("POST", "/hook/x", body=b"{}", **told)
                self.assertLess(reply.status, 500, (name, text))
        self.assertEqual(self.api.rig.counters["api:failed"], 0)
        said = self.logged.take()
        self.assertNotIn("Traceback", said)


class Answers(SynchronousTestCase):
    """What daemons ask for: directories, providers, etcd, remotes, masters, members."""

    def test_T_TEXT_1_etcd(self) -> None:
        """T-TEXT-1: an answer of an etcd, or a value in it, with such text is none."""
        for bad in HALF:
            for value in around(bad):
                with self.assertRaises(WireError):
                    parsed(json.dumps({"a": value}).encode())
            record = Record(holder="a#1", node="a", event="e\ud800")
            self.assertEqual(decode_record(encode_record(record)).event, "e\\ud800")
            for field in ("holder", "node", "planner", "what", "event", "result", "came"):
                data = json.dumps({"holder": "a#1", "node": "a", field: bad}).encode()
                with self.assertRaises(WireError):
                    decode_record(data)

    def test_T_TEXT_1_providers(self) -> None:
        """T-TEXT-1: rules, claims and groups with such text let nobody in."""
        for bad in HALF:
            self.assertIsNone(rules_of_answer(json.dumps([bad]).encode()))
            self.assertIsNone(rules_of_answer(json.dumps([{bad: ["test.*"]}]).encode()))
            body = json.dumps({"issuer": bad}).encode()
            self.patch(oidc, "ask", lambda *given, body=body: (200, body))
            with self.assertRaises(ValueError):
                oidc._document("https://idp.example", "")
            for claim in ("sub", "groups", bad):
                with self.assertRaises(BearerError):
                    claims_of(json.dumps({claim: [bad]}).encode())

    def test_T_TEXT_1_git(self) -> None:
        """T-TEXT-1: a ref whose name is no text is left out, and keeps no other away."""
        said = b"".join(
            b"a" * 40 + b"\trefs/heads/" + name + b"\n" for name in (b"main", b"\xff", b"\xc3\xbc")
        )
        found = news.after_fetch(said, ["+refs/heads/*:refs/heads/*"])
        self.assertEqual(found, dict.fromkeys(["refs/heads/main", "refs/heads/\u00fc"], "a" * 40))
        odd = said + b"b" * 40 + "\trefs/heads/main\u2028x\n".encode()
        found = news.after_fetch(odd, ["+refs/heads/*:refs/heads/*"])
        assert found is not None
        self.assertEqual(found["refs/heads/main"], "a" * 40)
        self.assertEqual(found["refs/heads/main\u2028x"], "b" * 40)

    def test_T_TEXT_1_signatures(self) -> None:
        """T-TEXT-1: a name that somebody has given his key adds no line to what gpg says of it."""
        for end in ("\x85", "\u2028", "\x0b", "\x1c"):
            name = f"Fred{end}[GNUPG:] BADSIG 77 x{end}[GNUPG:] VALIDSIG 66 2026-01-01 1 0 4 0 1 1"
            told = f"[GNUPG:] GOODSIG 55 {name}\n[GNUPG:] VALIDSIG 5555 2026-01-01 1 0 4 0 1 1\n"
            self.assertEqual(wrong_with_gpg(0, told, {"5555": Key()}), "", repr(end))
            listed = f"pub:u:2:3:55:1::::\nfpr:::::::::5555:\nuid:u:::::::::a{end}fpr:::::::::66:\n"
            self.assertEqual(list(keys_of(listed)), ["5555"], repr(end))
            other = f'Fred{end}Good "git" signature for x'
            self.assertNotEqual(wrong_with_ssh(0, f"{other}\n"), "", repr(end))

    def test_T_TEXT_1_members(self) -> None:
        """T-TEXT-1: what another node sends with such text is refused as a whole."""
        for raw in RAW:
            body = pack_bin({"kind": "@"}).replace(b"\xa1@", bytes([0xA0 + len(raw)]) + raw)
            with self.assertRaises(WireError):
                unpack_bin(body)
            with self.assertRaises(WireError):
                decode_word(body)

    def test_T_TEXT_1_yaml(self) -> None:
        """T-TEXT-1: neither files of the configuration nor arguments make such text."""
        for text in ('"\\ud800"', '"\\U0000dfff"', '["a\\udcff"]'):
            with self.assertRaises(YAMLError):
                safe_load(text)
            with self.assertRaises(ConfigError):
                parse_config(f"user: {text}", "master")
            self.assertEqual(yamlify(text), text)


class Commands(SynchronousTestCase):
    """What somebody types, or a script passes on."""

    def test_T_TEXT_1_commands(self) -> None:
        """T-TEXT-1: a command that is given such text says so in one line, and asks nobody."""
        folder = self.mktemp()
        os.makedirs(folder)
        with open(os.path.join(folder, "master"), "w", encoding="utf-8") as file:
            file.write(f"root_dir: {os.path.abspath(folder)}\n")
        for words in (
            ["salt", "-c", folder, "a\udcff", "test.ping"],
            ["salt", "-c", folder, "*", "test.echo", "a\ud800"],
            ["salt-run", "-c", folder, "test.arg", "a=\udcff"],
            ["salt-key", "-c", folder, "-y", "-a", "\udcff"],
        ):
            said = io.StringIO()
            self.patch(sys, "stderr", said)
            self.patch(sys, "stdout", said)
            status = command(words)
            self.assertNotEqual(status, 0, words)
            self.assertEqual(said.getvalue().strip(), f"an argument has {HALVES}", words)


class Packing(SynchronousTestCase):
    """What must not be refused is escaped."""

    def test_T_TEXT_1_packed(self) -> None:
        """T-TEXT-1: what is stored and passed on can be read again, keys too, and says what was."""
        for bad in HALF:
            for value in around(bad):
                found = unpack_bin(pack_bin(value))
                self.assertFalse(has_halves(found))
                self.assertEqual(found, unpack_bin(pack_bin(replaced(value))))
        self.assertEqual(unpack_bin(pack_bin("a\ud800\udcff")), "a\\ud800\\udcff")
        self.assertEqual(escaped("a\ud800\u00fc"), "a\\ud800\u00fc")
        self.assertEqual(unpack(pack("a\udcff")), b"a\xff")
        self.assertRaises(TypeError, pack, "\ud800")

    def test_T_TEXT_1_found(self) -> None:
        """T-TEXT-1: halves are found wherever they are, and nothing else is taken for one."""
        for bad in HALF:
            for value in around(bad):
                self.assertTrue(has_halves(value))
                self.assertTrue(json_has_halves(json.dumps(value), value))
                self.assertTrue(json_has_halves(json.dumps(value).encode(), value))
        for good in ("\U0001f9c2", "\\ud800", b"\xff", 7, None, {"\u00e4": ["\0", 1.5]}):
            for value in around(good) if isinstance(good, (str, bytes)) else [good]:
                self.assertFalse(has_halves(value))


TRIED = {
    "clear requests": (Minions.test_T_TEXT_1_clear, Minions.test_T_TEXT_1_envelopes),
    "sign-ins": (Minions.test_T_TEXT_1_clear,),
    "control": (Control.test_T_TEXT_1_frames, Control.test_T_TEXT_1_operations),
    "control-minion": (Control.test_T_TEXT_1_frames,),
    "peer-stranger": (Answers.test_T_TEXT_1_members,),
    "peer-member": (Answers.test_T_TEXT_1_members,),
    "peer-join": (Answers.test_T_TEXT_1_members,),
    "etcd": (Answers.test_T_TEXT_1_etcd,),
    "ldap": (Control.test_T_TEXT_1_login,),
    "login-web": (Answers.test_T_TEXT_1_providers,),
    "git": (Answers.test_T_TEXT_1_git,),
    "files": (Minions.test_T_TEXT_1_sealed,),
    "http": (Api.test_T_TEXT_1_fields, Api.test_T_TEXT_1_heads),
    "http-users": (Api.test_T_TEXT_1_fields, Api.test_T_TEXT_1_nul, Api.test_T_TEXT_1_long),
    "static": (Api.test_T_TEXT_1_heads,),
    "metrics": (Api.test_T_TEXT_1_heads,),
    "events": (Api.test_T_TEXT_1_heads,),
    "hooks": (Api.test_T_TEXT_1_fields, Api.test_T_TEXT_1_other_bodies),
    "requests-zeromq": (Minions.test_T_TEXT_1_envelopes,),
    "publications-zeromq": (Minions.test_T_TEXT_1_envelopes,),
    "requests-tcp": (Minions.test_T_TEXT_1_envelopes,),
    "requests-tls": (Minions.test_T_TEXT_1_envelopes,),
    "publications-tcp": (Minions.test_T_TEXT_1_envelopes,),
    "publications-tls": (Minions.test_T_TEXT_1_envelopes,),
    "masters": (Minions.test_T_TEXT_1_envelopes,),
    "minions-data": (Minions.test_T_TEXT_1_sealed, Minions.test_T_TEXT_1_returns),
    "minions-ask": (Minions.test_T_TEXT_1_sealed,),
    "publish": (Control.test_T_TEXT_1_operations, Minions.test_T_TEXT_1_sealed),
}
"""What tries each door."""


class Doors(SynchronousTestCase):
    """The table."""

    def test_T_TEXT_1_doors(self) -> None:
        """T-TEXT-1: each door of the table of doors is tried."""
        self.assertEqual(set(TRIED), set(DOORS))


def nothing(item: Any) -> Deferred[None]:
    """Nobody wants items."""
    return succeed(None)


def as_deferred(value: Any) -> Deferred[Any]:
    """Of a coroutine or a Deferred."""
    return value if isinstance(value, Deferred) else Deferred.fromCoroutine(value)


def refused(read: Any) -> None:
    """It is read, or refused by the one error of decoders."""
    try:
        read()
    except WireError:
        return


def replaced(value: Any) -> Any:
    """The same with backslashes."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {replaced(key): replaced(each) for key, each in value.items()}
    return [replaced(each) for each in value] if isinstance(value, list) else value


def of_kind(argument: Argument, bad: Any) -> Any:
    """A value of the argument's type with this text in it; C{None} if it has no text."""
    if argument.kind is TEXT:
        return bad
    if argument.kind in (TEXTS, LIST, WORDS):
        return [bad]
    if argument.kind is MAP:
        return {"a": bad}
    return bad if argument.kind.fits(bad) else None


def some(argument: Argument) -> Any:
    """A good value of an argument."""
    for value in ("x", ["x"], {"a": "x"}, 1, True):
        if argument.kind.fits(value):
            return value
    return None
