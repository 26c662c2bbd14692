from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import WireError
from saltwisted.wire import commands
from saltwisted.wire.commands import (
    UnknownCommand,
    command,
    has,
    parse_command,
    take_common,
)
from saltwisted.wire.crypticle import SessionKey, open_sealed
from saltwisted.wire.envelope import ClearRequest, SealedRequest, decode_request
from tests.wire.recorded import VERSIONS, key, recorded

SEALED = {
    "_pillar", "_return", "_syndic_return", "_minion_event", "_register_resources", "_file_envs",
    "_file_list", "_file_list_emptydirs", "_dir_list", "_symlink_list", "_file_hash",
    "_file_hash_and_stat", "_file_find", "_serve_file", "_file_recv", "_master_opts",
    "_master_tops", "_mine", "_mine_get", "_mine_delete", "_mine_flush", "minion_pub", "pub_ret",
    "minion_publish", "minion_runner", "revoke_auth",
}  # fmt: skip
OURS = {"_saltwisted_keys"}
CLEAR = {"_auth", "ping", "publish", "runner", "wheel", "mk_token", "get_token"}


class TableTests(SynchronousTestCase):
    def test_T_RPC_1_names(self) -> None:
        """The commands are exactly the documented ones, each on its own channel."""
        table = commands.commands()

        self.assertEqual({n for n, c in table.items() if not c.unsealed}, SEALED | OURS)
        self.assertEqual({n for n, c in table.items() if c.unsealed}, CLEAR)
        self.assertEqual({c.cmd for c in table.values()}, SEALED | OURS | CLEAR)

    def test_T_RPC_1_others(self) -> None:
        """Names of methods are not commands, nor are commands of the other channel."""
        for name in (
            "run_func",
            "__init__",
            "_prep_auth_info",
            "_send_pub",
            "verify_minion",
            "_ext_nodes",
            "run",
            "",
            "a" * 100_000,
        ):
            for clear in (True, False):
                error = self.assertRaises(UnknownCommand, parse_command, {"cmd": name}, clear)
                self.assertLessEqual(len(error.command), 200)
        for name in SEALED | OURS:
            self.assertRaises(UnknownCommand, parse_command, {"cmd": name}, clear=True)
        for name in CLEAR:
            self.assertRaises(UnknownCommand, parse_command, {"cmd": name})

    def test_no_name(self) -> None:
        """A load without a name, or with one that is not text, is not a command."""
        for load in ({}, {"cmd": 1}, {"cmd": None}, {"cmd": []}, {"cmd": b"ping"}):
            self.assertRaises(WireError, parse_command, load)


class RecordedTests(SynchronousTestCase):
    def test_everything_recorded_is_understood(self) -> None:
        """Every recorded load of stock minions and clients parses, and keeps its load."""
        seen = set()
        for version in VERSIONS:
            for name in ("requests", "return", "serve_file"):
                for case in recorded(f"{name}_{version}")["cases"]:
                    request = decode_request(bytes.fromhex(case["request_msgpack_hex"]))
                    assert isinstance(request, SealedRequest)
                    load = open_sealed(SessionKey(case["session_key"]), request.blob)
                    common = take_common(load)

                    if load["cmd"] == "_nope":
                        self.assertRaises(UnknownCommand, parse_command, load)
                        continue
                    parsed = parse_command(load)

                    public = key(case["minion_key"]).public
                    self.assertEqual(public.open_x931(common.tok), b"salt")
                    self.assertEqual(parsed.cmd, load["cmd"])
                    self.assertIs(parsed.load, load)
                    self.assertFalse({"nonce", "tok"} & set(load))
                    seen.add(parsed.cmd)
            for name in ("clear", "auth"):
                for case in recorded(f"{name}_{version}")["cases"]:
                    clear = decode_request(bytes.fromhex(case["request_msgpack_hex"]))
                    assert isinstance(clear, ClearRequest)
                    seen.add(parse_command(clear.load, clear=True).cmd)
        self.assertGreater(len(seen), 21)


class FieldTests(SynchronousTestCase):
    def test_wrong_types(self) -> None:
        """A field of a wrong type, or a required one that is missing, is named in the error."""
        for load, field in (
            ({"cmd": "_serve_file", "path": "x", "loc": "1"}, "loc"),
            ({"cmd": "_serve_file", "path": "x", "loc": True}, "loc"),
            ({"cmd": "_serve_file"}, "path"),
            ({"cmd": "_file_hash", "path": b"\xff"}, "path"),
            ({"cmd": "_file_recv", "path": "x", "data": ""}, "path"),
            ({"cmd": "_mine", "data": []}, "data"),
            ({"cmd": "_pillar"}, "grains"),
            ({"cmd": "_return", "jid": []}, "jid"),
            ({"cmd": "_minion_event", "events": {}}, "events"),
        ):
            error = self.assertRaises(WireError, parse_command, load)

            self.assertEqual(error.reason, field)

    def test_defaults_are_not_shared(self) -> None:
        """A default list or map is a new one each time."""
        load = {"cmd": "publish", "fun": "test.ping"}
        one, two = parse_command(load, clear=True), parse_command(load, clear=True)

        assert isinstance(one, commands.Publish)
        assert isinstance(two, commands.Publish)
        one.arg.append(1)

        self.assertEqual((two.arg, two.kwargs), ([], {}))

    def test_unknown_fields_stay(self) -> None:
        """What we do not know about a return stays in its load, for the bus."""
        load = {"cmd": "_return", "jid": "1", "return": 5, "future": "x"}

        parsed = parse_command(load)

        assert isinstance(parsed, commands.Return)
        self.assertEqual((parsed.ret, parsed.load["future"]), (5, "x"))

    def test_syndic_returns(self) -> None:
        """A syndic's list lies in the field C{load}."""
        parsed = parse_command({"cmd": "_syndic_return", "load": [{"jid": "1"}]})
        assert isinstance(parsed, commands.SyndicReturn)

        self.assertEqual(parsed.returns, [{"jid": "1"}])
        empty = parse_command({"cmd": "_syndic_return"})
        assert isinstance(empty, commands.SyndicReturn)
        self.assertRaises(WireError, lambda: empty.returns)

    def test_mine_clear(self) -> None:
        """The field C{clear} of a mine update is a field, not the channel."""
        parsed = parse_command({"cmd": "_mine", "data": {}, "clear": True})

        assert isinstance(parsed, commands.MineStore)
        self.assertTrue(parsed.clear)

    def test_new_commands(self) -> None:
        """A command is a class with a decorator."""

        @command("_test_only")
        @attrs.frozen
        class Only(commands.Command):
            size: int = has(int, default=3)

        self.addCleanup(commands._parsers.pop, "_test_only")

        self.assertEqual(parse_command({"cmd": "_test_only"}), Only({"cmd": "_test_only"}, 3))


class CommonTests(SynchronousTestCase):
    def test_taken(self) -> None:
        """Nonce and token leave the load; id and time stay."""
        load = {"cmd": "ping", "id": "m", "nonce": "n", "ts": 5, "tok": b"t"}

        common = take_common(load)

        self.assertEqual((common.id, common.nonce, common.ts, common.tok), ("m", "n", 5, b"t"))
        self.assertEqual(load, {"cmd": "ping", "id": "m", "ts": 5})

    def test_absent(self) -> None:
        """Only the id is needed here; the rest is for policy to miss."""
        common = take_common({"id": "m"})

        self.assertEqual((common.nonce, common.ts, common.tok), ("", None, b""))

    def test_wrong(self) -> None:
        """Wrong types are refused, and ids with NUL."""
        for load in (
            {},
            {"id": 1},
            {"id": b"\xff"},
            {"id": "a\0b"},
            {"id": "m", "nonce": 5},
            {"id": "m", "nonce": "x" * 65},
            {"id": "m", "nonce": "é"},
            {"id": "m", "tok": "text"},
            {"id": "m", "ts": "5"},
            {"id": "m", "ts": True},
        ):
            self.assertRaises(WireError, take_common, load)

    def test_token_is_not_shown(self) -> None:
        """The token, a bearer secret, is in no repr."""
        self.assertNotIn("canary", repr(take_common({"id": "m", "tok": b"canary"})))
