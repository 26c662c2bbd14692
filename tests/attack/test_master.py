"""
Attacks on a master: the tests by id of the threat model, on a master without sockets.

Each name is an attack that worked on some Salt; here it must not.
"""

from __future__ import annotations

import os
import random

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.keys import valid_minion_id
from saltwisted.domain.who import local
from saltwisted.errors import RemoteError
from saltwisted.master.requests import Requests
from saltwisted.master.table import clear_commands, sealed_commands
from saltwisted.transports.ipc import PeerProcess
from saltwisted.wire.commands import commands
from saltwisted.wire.crypticle import SessionKey, seal
from saltwisted.wire.envelope import BAD_LOAD, encode_sealed_request
from saltwisted.wire.handshake import Accepted, NotYet
from saltwisted.wire.msgpack import pack, unpack, unpack_raw
from tests.master.rig import Rig, RigMinion
from tests.wire.recorded import key

JID = "20261121120000000001"
LONG = os.environ.get("SALTWISTED_LONG") == "1"

STOCK_INTERNALS = [
    "_prep_auth_info",
    "_prep_pub",
    "_prep_jid",
    "_send_pub",
    "_send_ssh_pub",
    "run",
    "_handle_aes",
    "_handle_clear",
    "_run_cmd",
    "get_method",
    "local",
    "masterapi",
    "event",
    "verify_minion",
    "_ext_nodes",
    "__class__",
    "__init__",
    "__getattribute__",
    "__dict__",
    "mminion",
    "serial",
    "opts",
    "wheel_",
    "load_args",
    "destroy",
    "handle",
]

SEALED = {
    "_pillar", "_return", "_syndic_return", "_minion_event", "_register_resources", "_file_envs",
    "_file_list", "_file_list_emptydirs", "_dir_list", "_symlink_list", "_file_hash",
    "_file_hash_and_stat", "_file_find", "_serve_file", "_file_recv", "_master_opts",
    "_master_tops", "_mine", "_mine_get", "_mine_delete", "_mine_flush", "minion_pub",
    "minion_publish", "pub_ret", "minion_runner", "revoke_auth", "_saltwisted_keys",
}  # fmt: skip
CLEAR = {"_auth", "ping", "publish", "runner", "wheel", "mk_token", "get_token"}

FIELDS = {
    "_pillar": {"grains": {}, "ver": "2"},
    "_return": {"jid": JID, "fun": "test.ping", "return": True},
    "_syndic_return": {"load": []},
    "_minion_event": {"tag": "my/tag", "data": {}},
    "_file_hash": {"path": "x"},
    "_file_hash_and_stat": {"path": "x"},
    "_file_find": {"path": "x"},
    "_serve_file": {"path": "x", "loc": 0},
    "_file_recv": {"path": ["x"], "loc": 0, "data": b"x"},
    "_mine": {"data": {"a": 1}},
    "_mine_get": {"tgt": "*", "fun": "a"},
    "_mine_delete": {"fun": "a"},
    "minion_pub": {"fun": "test.ping", "tgt": "*", "arg": []},
    "minion_publish": {"fun": "test.ping", "tgt": "*", "arg": []},
    "pub_ret": {"jid": JID},
    "minion_runner": {"fun": "test.arg"},
}


class Attacks(SynchronousTestCase):
    """One test per id."""

    def test_T_RPC_1(self) -> None:
        """Only the documented commands are answered, on their own channel; all else is unknown."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        self.assertEqual(set(sealed_commands()), SEALED)
        self.assertEqual(set(clear_commands()), CLEAR)
        self.assertEqual({n for n, c in commands().items() if c.unsealed}, CLEAR)
        self.assertEqual({n for n, c in commands().items() if not c.unsealed}, SEALED)

        names = {*STOCK_INTERNALS, *dir(Requests), *dir(rig.ctx), *dir(rig.ctx.dispatcher)}
        for name in names - SEALED:
            self.assertEqual(minion.ask(name), {}, name)
        for name in (names | SEALED) - CLEAR:
            (reply,) = rig.ask(pack({"enc": "clear", "load": {"cmd": name}, "version": 3}))
            self.assertEqual(unpack(reply), {}, name)
        control = rig.door()
        for name in (*STOCK_INTERNALS, "handle", "_is_owner", "op_publish", "ctx", "x.y"):
            d = Deferred.fromCoroutine(
                control.handle(name, {}, PeerProcess(0, 0, 1), lambda item: None)
            )
            self.failureResultOf(d, RemoteError)
        self.assertEqual(rig.publications.sent, [])

    def test_T_ID_1(self) -> None:
        """A minion with a good key cannot act as another, by any command or place of the id."""
        rig = Rig(self)
        one = RigMinion(rig, "one").accepted()
        RigMinion(rig, "two", key("minion2")).accepted()
        cached = rig.ctx.cache.get("mine", "two")

        for cmd in SEALED:
            load = {"cmd": cmd, **FIELDS.get(cmd, {})}
            for frame in (
                one.frame(load, id="two"),
                one.frame(load, envelope_id="two"),
                one.frame(load, envelope_id="two", id="two"),
                one.frame(load, id=None),
                one.frame(load, id=["one"]),
                one.frame(load, tok=key("minion2").sign_x931(b"salt")),
                one.frame(load, tok=None),
            ):
                self.assertEqual(rig.ask(frame), [BAD_LOAD], cmd)
        self.assertEqual(rig.jobs.kept, {})
        self.assertEqual(rig.ctx.cache.get("mine", "two"), cached)
        self.assertNotIn("my/tag", rig.tags())
        self.assertEqual(one.ask("_file_envs"), ["base"])

    def test_T_KEY_1(self) -> None:
        """After a deletion the old key, session and token are refused, also beside a new key."""
        rig = Rig(self)
        old = RigMinion(rig, "web1").accepted()
        old_key = rig.ctx.publisher.key
        self.assertEqual(old.ask("_file_envs"), ["base"])

        d = Deferred.fromCoroutine(rig.ctx.wheel("key.delete", ["web1"], {}, local("root")))
        rig.clock.pump([0] * 5)
        self.successResultOf(d)
        self.assertEqual(old.ask("_file_envs"), "bad load")
        new = RigMinion(rig, "web1", key("minion2")).accepted()
        rig.clock.pump([1] * 5)

        self.assertEqual(old.ask("_file_envs"), "bad load")
        self.assertEqual(old.sign_in(), NotYet("rejected", True))
        self.assertNotEqual(old.session, new.session)
        self.assertNotEqual(rig.ctx.publisher.key, old_key)
        self.assertEqual(new.ask("_file_envs"), ["base"])
        again = RigMinion(rig, "web1").accepted()
        self.assertNotEqual(old.session, again.session)

    def test_T_KEY_1_outside(self) -> None:
        """A key file that another program removes or replaces is refused at the next request."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        path = os.path.join(rig.ctx.config.pki_dir, "minions", "web1")

        with open(path, "w") as handle:
            handle.write(key("minion2").public.pem)
        self.assertEqual(minion.ask("_file_envs"), "bad load")
        os.unlink(path)
        self.assertEqual(minion.ask("_file_envs"), "bad load")

    def test_T_KEY_2(self) -> None:
        """Keys with a small exponent or too few bits come in by no door."""
        rig = Rig(self, auto_accept=True)
        for bits, exponent in ((2048, 3), (1024, 65537)):
            weak = rsa.generate_private_key(exponent, bits).public_key()
            pem = weak.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
            load = {"cmd": "_auth", "id": "weak", "pub": pem, "nonce": "0" * 32}

            (reply,) = rig.ask(pack({"enc": "clear", "load": load, "version": 3}))
            rig.ctx.keys.put("pending", "file", pem.encode())
            d = Deferred.fromCoroutine(rig.ctx.wheel("key.accept", ["file"], {}, local("root")))
            rig.clock.pump([0] * 5)
            self.successResultOf(d)

            self.assertIs(unpack(unpack_raw(reply)[b"load"])["ret"], False)
            self.assertEqual(list(rig.ctx.keys.accepted_ids()), [])

    def test_T_PATH_1(self) -> None:
        """Ids that are not names are refused before any file is touched."""
        rig = Rig(self, auto_accept=True)
        bad = [
            "..", ".", "", "../x", "a/b", "a\\b", "a\0b", "%2f..%2fx", "x" * 300, "é" * 200,
            "a.", "a ", ".hidden", "con", "a\u2215b", "a\nb", "\x7f", "a/../../etc/passwd",
        ]  # fmt: skip
        before = _tree(rig.home)

        for name in bad:
            self.assertFalse(valid_minion_id(name), repr(name))
            load = {"cmd": "_auth", "id": name, "pub": key("minion").public.pem, "nonce": "0" * 32}
            (reply,) = rig.ask(pack({"enc": "clear", "load": load, "version": 3}))
            decoded = unpack_raw(reply)
            if isinstance(decoded, dict):
                self.assertIs(unpack(decoded[b"load"])["ret"], False, repr(name))
            forged = seal(
                SessionKey.generate(rig.entropy), {"cmd": "_file_envs", "id": name}, b"0" * 16
            )
            self.assertEqual(rig.ask(encode_sealed_request(name, forged)), [BAD_LOAD])

        self.assertEqual(_tree(rig.home), before)

    def test_T_PATH_2(self) -> None:
        """Token names, wheel functions that write files, and key ids reach no path."""
        rig = Rig(self)
        with open(os.path.join(rig.ctx.config.cachedir, ".root_key")) as handle:
            user_key = handle.read()
        before = _tree(rig.home)
        load = {"cmd": "get_token", "token": "../../../etc/passwd"}
        (reply,) = rig.ask(pack({"enc": "clear", "load": load, "version": 3}))
        self.assertIs(unpack(reply), False)

        for fun, how in (
            ("file_roots.write", {"path": "../x", "data": "x"}),
            ("file_roots.read", {"path": "../cache/.root_key"}),
            ("file_roots.find", {"path": "../cache/.root_key"}),
            ("pillar_roots.write", {"path": "../x", "data": "x"}),
            ("pillar_roots.read", {"path": "../x"}),
            ("config.update_config", {"file_name": "../x", "yaml_contents": {}}),
            ("key.gen_keys", {"keyname": "../x"}),
        ):
            load = {"cmd": "wheel", "fun": fun, "key": user_key, "user": "root", **how}
            (reply,) = rig.ask(pack({"enc": "clear", "load": load, "version": 3}))
            answer = unpack(reply)["data"]
            if fun.endswith((".read", ".find")):
                self.assertEqual(answer["return"], [], fun)
            else:
                self.assertIs(answer["success"], False, fun)
        for fun in ("key.accept", "key.delete", "key.finger", "key.key_str"):
            d = Deferred.fromCoroutine(
                rig.ctx.wheel(fun, ["../../../etc/passwd"], {}, local("root"))
            )
            rig.clock.pump([0] * 5)
            self.assertEqual(self.successResultOf(d)["return"], {})
        self.assertEqual(_tree(rig.home), before)

    def test_T_PATH_4(self) -> None:
        """No C{salt://} path, environment or link points outside the roots."""
        rig = Rig(self, fileserver_followsymlinks=False)
        minion = RigMinion(rig, "web1").accepted()
        with open(os.path.join(rig.home, "secret"), "w") as handle:
            handle.write("secret")
        os.symlink(os.path.join(rig.home, "secret"), os.path.join(rig.root, "link"))
        with open(os.path.join(rig.root, "good"), "w") as handle:
            handle.write("good")
        self.assertEqual(minion.ask("_serve_file", path="good", loc=0)["data"], "good")
        bad = [
            "../secret", "/etc/passwd", f"{rig.home}/secret", "a/../../secret", "..\\secret",
            "good\0", "|../secret", "link", "../../../../etc/passwd", "./../secret",
            "\u2025/secret", "srv/../../secret", "x/" * 2000 + "y",
        ]  # fmt: skip

        for path in bad:
            for saltenv in ("base", "../", "base/../..", "/", "base\0", None, ".."):
                for cmd in ("_file_hash", "_file_find", "_file_hash_and_stat"):
                    answer = minion.ask(cmd, path=path, saltenv=saltenv)
                    found = (
                        answer.get("path")
                        if isinstance(answer, dict) and cmd == "_file_find"
                        else None
                    )
                    self.assertFalse(found, (cmd, path, saltenv, answer))
                answer = minion.ask("_serve_file", path=path, saltenv=saltenv, loc=0)
                if isinstance(answer, dict):
                    self.assertFalse(answer.get("data"), (path, saltenv))
        for saltenv in ("../", "/", "..", "nope"):
            self.assertEqual(minion.ask("_file_list", saltenv=saltenv, prefix=""), [])

    def test_T_PATH_5(self) -> None:
        """Files that minions push stay below their own directory, and come only when allowed."""
        off = RigMinion(Rig(self), "web1").accepted()
        self.assertIs(off.ask("_file_recv", path=["x"], loc=0, data=b"x"), False)
        rig = Rig(self, file_recv=True, file_recv_max_size=1)
        minion = RigMinion(rig, "web1").accepted()
        base = os.path.join(rig.ctx.config.cachedir, "minions", "web1", "files")
        os.makedirs(base)
        os.symlink(rig.home, os.path.join(base, "out"))
        before = _tree(rig.home)

        for path in (
            ["..", "x"],
            ["/etc", "x"],
            ["a/../../x"],
            ["out", "x"],
            [".."],
            [],
            [1],
            ["\0"],
        ):
            self.assertIn(
                minion.ask("_file_recv", path=path, loc=0, data=b"x"), (False, "bad load", "")
            )
        self.assertIs(minion.ask("_file_recv", path=["x"], loc=0, data=b"x" * (1 << 21)), False)
        self.assertIs(minion.ask("_file_recv", path=["x"], loc=1 << 40, data=b"x"), False)
        self.assertIs(minion.ask("_file_recv", path=["x"], loc=-1, data=b"x"), False)

        self.assertEqual(_tree(rig.home), before)
        self.assertIs(minion.ask("_file_recv", path=["good"], loc=0, data=b"x"), True)

    def test_T_PATH_6(self) -> None:
        """A jid that is none is refused wherever a minion sends one."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        before = _tree(rig.home)

        for jid in (
            "../../x",
            "pipe",
            "1" * 19,
            "1" * 21,
            JID + "_",
            JID + "/x",
            "",
            JID + "\n",
            5,
        ):
            answer = minion.ask("_return", jid=jid, fun="test.ping", **{"return": True})
            self.assertEqual(answer, "bad load", repr(jid))
            self.assertIn(minion.ask("pub_ret", jid=jid), ({}, "bad load"))

        self.assertEqual(rig.jobs.kept, {})
        self.assertEqual(_tree(rig.home), before)

    def test_T_REPLAY_2(self) -> None:
        """Recorded requests act once: returns by (jid, id), the rest by nonce and time."""
        rig = Rig(self, peer={".*": [".*"]}, file_recv=True)
        minion = RigMinion(rig, "web1").accepted()
        recorded = {
            cmd: minion.frame({"cmd": cmd, **FIELDS.get(cmd, {})})
            for cmd in ("_minion_event", "_mine", "_mine_delete", "_mine_flush", "minion_pub",
                        "_file_recv", "_return", "_file_envs")
        }  # fmt: skip
        first = {cmd: rig.ask(frame) for cmd, frame in recorded.items()}
        events, jobs = len(rig.events), len(rig.publications.sent)

        again = {cmd: rig.ask(frame) for cmd, frame in recorded.items()}

        for cmd in (
            "_minion_event",
            "_mine",
            "_mine_delete",
            "_mine_flush",
            "minion_pub",
            "_file_recv",
        ):
            self.assertNotEqual(first[cmd], [BAD_LOAD], cmd)
            self.assertEqual(again[cmd], [BAD_LOAD], cmd)
        self.assertEqual(len(rig.publications.sent), jobs)
        self.assertEqual(list(rig.jobs.kept[JID]), ["web1"])
        self.assertEqual([t for t in rig.tags() if t == "my/tag"], ["my/tag"])
        self.assertLessEqual(len(rig.events), events + 1)
        # An old request is refused when the minion's own clock has gone on; our clock says nothing
        old = int(rig.clock.seconds())
        minion.ask("_file_envs", ts=old + 301)
        self.assertEqual(rig.ask(minion.frame({"cmd": "_file_envs"}, ts=old)), [BAD_LOAD])
        minion.sign_in()
        self.assertEqual(minion.ask("_file_envs"), ["base"])

    def test_T_REPLAY_2_other_clock(self) -> None:
        """A minion whose clock is years off is served, unless C{request_server_ttl} says not to."""
        lax, strict = Rig(self), Rig(self, request_server_ttl=60)

        self.assertEqual(
            RigMinion(lax, "web1").accepted().ask("_file_envs", ts=1_000_000), ["base"]
        )
        minion = RigMinion(strict, "web1").accepted()
        self.assertEqual(strict.ask(minion.frame({"cmd": "_file_envs"}, ts=5)), [BAD_LOAD])
        self.assertEqual(minion.ask("_file_envs"), ["base"])

    def test_T_DOWN_1(self) -> None:
        """No request below protocol 3 is served, clear or sealed, also with the option lowered."""
        for options in ({}, {"minimum_auth_version": 0}):
            rig = Rig(self, **options)
            minion = RigMinion(rig, "web1").accepted()
            for version in (0, 1, 2, -1, "2", None):
                envelope = unpack_raw(minion.frame({"cmd": "_file_envs"}))
                envelope[b"version"] = version
                self.assertEqual(rig.ask(pack(envelope)), [BAD_LOAD])
                shared = seal(rig.ctx.publisher.key, {"cmd": "_file_envs", "id": "web1"}, b"0" * 16)
                frame = pack({"enc": "aes", "load": shared, "version": version})
                self.assertEqual(rig.ask(frame), [BAD_LOAD])
                load = {"cmd": "_auth", "id": "web1", "pub": minion.key.public.pem}
                frame = pack({"enc": "clear", "load": load, "version": version})
                self.assertEqual(rig.ask(frame), [BAD_LOAD])

    def test_T_EVT_1(self) -> None:
        """A minion cannot speak for masters, jobs or other minions; its own tags pass."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        bad = [
            f"salt/job/{JID}/publish", f"salt/job/{JID}/new", f"salt/job/{JID}/return", "salt/key",
            "salt/key/x", "salt/auth", "salt/cloud/x", "salt/run/1/new", "salt/cluster/x",
            "salt/wheel/1/new", "salt/wheel/1/ret", "salt/presence/present", "cluster/event/x",
            f"salt/job/{JID}/ret/web2", f"salt/job/{JID}/prog/web2/1", f"salt/job/{JID}/start/web2",
            "salt/minion/web2/start", "salt/beacon/web2/load/", "salt/beacon/web2",
            f"salt/job/{JID}/sub/web2/error/state.apply", f"salt/state_result/{JID}/web2/x",
            "minion/refresh/web2", "resource/refresh/web2",
        ]  # fmt: skip
        good = [
            "my/tag", "salt/minion/web1/start", "minion_start", "salt/beacon/web1/load/",
            f"salt/job/{JID}/prog/web1/1", "minion_ping", "salt/state_result/1/web1/x",
            f"salt/job/{JID}/sub/web1/error/state.apply", "minion/refresh/web1",
        ]  # fmt: skip
        already = len(rig.events)

        for tag in bad:
            minion.ask("_minion_event", tag=tag, data={"x": 1})
            minion.ask("_minion_event", events=[{"tag": tag, "data": {"x": 1}}])
            head, _, rest = tag.partition("/")
            minion.ask("_minion_event", events=[{"tag": rest, "data": {}}], pretag=head)
        self.assertEqual([t for t, _ in rig.events[already:]], [])
        for tag in good:
            minion.ask("_minion_event", tag=tag, data={"x": 1})
            minion.ask("_minion_event", events=[{"tag": tag, "data": {"x": 1}}])
        self.assertEqual([t for t, _ in rig.events[already:]], [t for t in good for _ in (1, 2)])

    def test_T_FUZZ_1(self) -> None:
        """Mutated first frames never raise, never stay unanswered, and leave others served."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        dice = random.Random(20261121)
        seeds = [
            minion.frame({"cmd": cmd, **FIELDS.get(cmd, {})})
            for cmd in sorted(SEALED - {"revoke_auth"})
        ] + [
            minion.handshake.request("0" * 32, minion.known),
            pack({"enc": "clear", "load": {"cmd": "publish", "fun": "x"}, "version": 3}),
            pack({"enc": "clear", "load": {"cmd": "wheel", "fun": "key.accept"}, "version": 3}),
            pack([[[]]]), b"", b"\xc1", b"\xdb\xff\xff\xff\xff", b"\x91" * 5000,
        ]  # fmt: skip
        count = 1_000_000 if LONG else 20_000

        for _ in range(count):
            frame = bytearray(dice.choice(seeds))
            for _ in range(dice.choice((1, 1, 2, 8))):
                if frame and dice.random() < 0.8:
                    frame[dice.randrange(len(frame))] = dice.randrange(256)
                else:
                    at = dice.randrange(len(frame) + 1)
                    frame[at:at] = dice.randbytes(dice.randrange(1, 9))
            replies = rig.ask(bytes(frame))
            if not replies:
                # Sign-ins that only follow a rotation are admitted at a bounded rate
                rig.clock.advance(1.0)
            self.assertEqual(len(replies), 1)

        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertEqual(rig.publications.sent, [])
        self.assertEqual(minion.ask("_file_envs"), ["base"])
        self.assertIsInstance(minion.sign_in(), Accepted)

    def test_T_ACL_1(self) -> None:
        """A user limited by C{publisher_acl} runs nothing that is nested in what is allowed."""
        rig = Rig(self, publisher_acl={"nobody": ["test.*", "state.apply"]})
        RigMinion(rig, "web1").accepted()
        control = rig.door()
        peer = PeerProcess(65534, 65534, 1)

        def publish(**load: object) -> Deferred[object]:
            return Deferred.fromCoroutine(
                control.handle("publish", {"tgt": "*", "arg": [], **load}, peer, lambda item: None)
            )

        self.assertEqual(self.successResultOf(publish(fun="test.ping"))["minions"], ["web1"])  # type: ignore[index]
        for load in (
            {"fun": "cmd.run"},
            {"fun": "test.ping,cmd.run", "arg": [[], ["id"]]},
            {"fun": ["test.ping", "cmd.run"], "arg": [[], ["id"]]},
            {"fun": "saltutil.cmd"},
            {"fun": "module.run"},
            {"fun": "test.ping", "tgt": ""},
            {"fun": "test.ping", "tgt": []},
        ):
            self.assertEqual(self.failureResultOf(publish(**load)).value.name, "AuthorizationError")  # type: ignore[attr-defined]
        for op, args in (
            ("wheel", {"fun": "key.list_all"}),
            ("runner", {"fun": "jobs.list_jobs"}),
            ("events", {}),
            ("fire_event", {"tag": "x"}),
        ):
            d = Deferred.fromCoroutine(control.handle(op, args, peer, lambda item: None))
            self.assertEqual(self.failureResultOf(d, RemoteError).value.name, "AuthorizationError")

    def test_flood_of_one_minion_counts_only_for_it(self) -> None:
        """Requests that are refused leave nothing behind but a counter."""
        rig = Rig(self)
        minion = RigMinion(rig, "web1").accepted()
        frame = minion.frame({"cmd": "_file_envs"}, id="other")

        for _ in range(1000):
            rig.ask(frame)

        self.assertEqual(rig.ctx.counters["refused:foreign-id"], 1000)
        self.assertEqual(len(rig.ctx.sessions.live()), 1)


def _tree(path: str) -> list[str]:
    """Every file and directory below a path, sessions and their like aside."""
    return sorted(
        os.path.join(folder, name)
        for folder, folders, files in os.walk(path)
        for name in (*folders, *files)
        if "/sessions" not in folder
    )
