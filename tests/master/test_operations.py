"""
A second door to a master's operations: it has the table, and no socket.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.operations.table import Caller, Operations
from saltwisted.errors import RemoteError
from saltwisted.transports.ipc import PeerProcess
from tests.master.rig import Rig, RigMinion

RULES = [{"web*": ["test.*"]}, "@runner"]
SOURCES = Path(__file__).resolve().parent.parent.parent / "saltwisted"


class WebDoor:
    """
    As a door on the network does: who calls is what his session says, and answers are collected.

    It is made of the table alone.
    """

    def __init__(self, table: Operations) -> None:
        self._table = table

    def request(
        self, name: str, body: Mapping[str, Any], session: Mapping[str, Any] | None = None
    ) -> tuple[Deferred[Any], list[Any]]:
        """One request; its answer, and the items before."""
        items: list[Any] = []

        async def take(item: Any) -> None:
            items.append(item)

        caller = Caller(source="192.0.2.7", door="a test", proof=session or {})
        return Deferred.fromCoroutine(self._table.call(name, body, caller, take)), items


class DoorTests(SynchronousTestCase):
    """One master, fred who has a login, and two doors."""

    def setUp(self) -> None:
        users = self.mktemp()
        with open(users, "w", encoding="utf-8") as file:
            file.write("fred:secret\n")
        self.rig = Rig(
            self,
            external_auth={"file": {"^filename": users, "fred": RULES}},
            publisher_acl={"[^e].*": [".*"]},
            publisher_acl_blacklist={"users": ["mallory"], "modules": ["disk.*"]},
        )
        for name in ("web1", "db1"):
            RigMinion(self.rig, name).accepted()
        self.table = self.rig.table()
        self.door = WebDoor(self.table)
        good = {"eauth": "file", "username": "fred", "password": "secret"}
        made, _ = self.door.request("mk_token", good)
        self.fred = {"token": self.successResultOf(made)["token"]}

    def refusal(self, request: tuple[Deferred[Any], list[Any]]) -> str:
        """By which error a request is refused."""
        self.rig.clock.pump([0.1] * 50)
        error = self.failureResultOf(request[0], RemoteError).value
        assert isinstance(error, RemoteError)
        return error.name

    def test_publish(self) -> None:
        """A session publishes what its rules say, as its user, and nothing else."""
        ping = {"tgt": "web1", "fun": "test.ping"}
        answer, _ = self.door.request("publish", ping, self.fred)

        job = self.successResultOf(answer)
        self.assertEqual(job["minions"], ["web1"])
        self.assertEqual(self.rig.published_jobs()[0]["user"], "fred")
        for bad in ({"fun": "cmd.run"}, {"tgt": "db1"}, {"tgt": ""}):
            refused = self.door.request("publish", {**ping, **bad}, self.fred)
            self.assertEqual(self.refusal(refused), "AuthorizationError", bad)
        self.assertEqual(len(self.rig.published_jobs()), 1)

    def test_run(self) -> None:
        """Items come to the door, one after another."""
        job = {"tgt": "web1", "fun": "test.ping", "timeout": 1}
        answer, items = self.door.request("run", job, self.fred)

        self.assertNoResult(answer)
        self.assertEqual([item["kind"] for item in items], ["published"])
        self.rig.clock.pump([0.5] * 40)
        self.assertEqual([item["kind"] for item in items], ["published", "missing"])
        self.assertEqual(self.successResultOf(answer), {"jid": items[0]["jid"]})

    def test_match(self) -> None:
        """Who is meant is told for what he may ping, and for no other."""
        answer, _ = self.door.request("match", {"tgt": "web*"}, self.fred)

        self.assertEqual(self.successResultOf(answer), ["web1"])
        refused = self.door.request("match", {"tgt": "*"}, self.fred)
        self.assertEqual(self.refusal(refused), "AuthorizationError")

    def test_runner(self) -> None:
        """Runners go by the same rules; keys are not his."""
        answer, _ = self.door.request("runner", {"fun": "test.arg", "arg": [1]}, self.fred)
        self.rig.clock.pump([0.1] * 5)

        self.assertEqual(self.successResultOf(answer)["return"]["args"], [1])
        refused = self.door.request("wheel", {"fun": "key.list_all"}, self.fred)
        self.assertEqual(self.refusal(refused), "TokenAuthenticationError")

    def account(self, operation: str, name: str = "bob", owner: bool = False, **body: Any) -> str:
        """What an account of the machine is told that calls an operation; C{""}: no refusal."""
        caller = Caller(name=name, owner=owner, source="uid 1000", door="a test")

        async def take(item: Any) -> None:
            """No items come."""

        found = Deferred.fromCoroutine(self.table.call(operation, body, caller, take))
        self.rig.clock.pump([0.1] * 5)
        failures: list[Failure] = []
        found.addErrback(failures.append)
        return failures[0].getErrorMessage() if failures else ""

    def test_T_ACL_1_accounts(self) -> None:
        """T-ACL-1: an account that may publish everything calls no runner and no wheel function."""
        self.assertEqual(self.account("publish", tgt="web1", fun="cmd.run", arg=["id"]), "")
        for operation, fun, command in (
            ("runner", "test.arg", "salt-run"),
            ("runner", "jobs.list_jobs", "salt-run"),
            ("wheel", "key.list_all", "salt-key"),
        ):
            said = self.account(operation, fun=fun)
            self.assertIn(f"only root and the master's own user may use {command}", said)
            self.assertNotEqual(self.account(operation, fun=fun, user="root"), "")
            self.assertEqual(self.account(operation, "root", True, fun=fun), "")

    def test_blacklist(self) -> None:
        """Whom the blacklist refuses is told that it is the blacklist; root is refused as well."""
        for name, owner, fun, words in (
            ("bob", False, "disk.usage", "blacklist does not let bob run this"),
            ("root", True, "disk.usage", "blacklist does not let root run this"),
            ("mallory", False, "test.ping", "blacklist does not let mallory run this"),
            ("eve", False, "test.ping", "occurred for user eve"),
        ):
            self.assertIn(words, self.account("publish", name, owner, tgt="web1", fun=fun))
        self.assertEqual(self.rig.published_jobs(), [])

    def test_T_ACL_1_runners(self) -> None:
        """T-ACL-1: a login calls what its rules name, and what is no name of a function is none."""
        for name, fun in (("wheel", "key.delete"), ("wheel", "config.values")):
            refused = self.door.request(name, {"fun": fun}, self.fred)
            self.assertEqual(self.refusal(refused), "TokenAuthenticationError", fun)
        for fun in ("test", "test.arg.x", ""):
            for name in ("runner", "wheel"):
                refused = self.door.request(name, {"fun": fun}, self.fred)
                self.assertEqual(self.refusal(refused), "SaltInvocationError", (name, fun))

    def test_T_ACL_strangers_have_no_account(self) -> None:
        """T-ACL: who shows no login may nothing, whatever is open to accounts of the machine."""
        ping = {"tgt": "web1", "fun": "test.ping"}
        for name, body, error in (
            ("publish", ping, "AuthenticationError"),
            ("publish", {**ping, "user": "root"}, "AuthenticationError"),
            ("publish", {**ping, "user": "sudo_root"}, "AuthenticationError"),
            ("run", ping, "AuthenticationError"),
            ("match", {"tgt": "*"}, "AuthenticationError"),
            ("runner", {"fun": "test.arg"}, "AuthenticationError"),
            ("wheel", {"fun": "key.list_all"}, "AuthenticationError"),
            ("status", {}, "AuthorizationError"),
            ("events", {}, "AuthorizationError"),
            ("fire_event", {"tag": "x"}, "AuthorizationError"),
        ):
            self.assertEqual(self.refusal(self.door.request(name, body)), error, name)
            wrong = self.door.request(name, body, {"token": "0" * 64})
            self.assertIn("Auth", self.refusal(wrong), name)
        self.assertEqual(self.rig.published_jobs(), [])
        self.assertGreaterEqual(self.rig.ctx.counters["denied:control"], 20)

    def test_alike_at_both_doors(self) -> None:
        """The same login has the same outcome at the socket and at any other door."""
        cases: list[tuple[str, dict[str, Any]]] = [
            ("publish", {"tgt": "web1", "fun": "test.ping"}),
            ("publish", {"tgt": "db1", "fun": "test.ping"}),
            ("publish", {"tgt": "web1", "fun": "cmd.run"}),
            ("runner", {"fun": "test.arg"}),
            ("wheel", {"fun": "key.list_all"}),
            ("match", {"tgt": "web*"}),
            ("match", {"tgt": "*"}),
            ("publsh", {}),
            ("publish", {"tgt": "web1", "fun": 5}),
        ]
        for name, body in cases:
            inner = name in ("publish", "match")
            shown = {**body, "kwargs": self.fred} if inner else {**body, **self.fred}
            if name == "publsh":
                shown = body
            socket = self.rig.door().handle(
                name, shown, PeerProcess(12345, 1, 1), lambda item: None
            )
            outcomes = []
            for call in (
                Deferred.fromCoroutine(socket),
                self.door.request(name, body, self.fred)[0],
            ):
                self.rig.clock.pump([0.1] * 5)
                call.addCallbacks(lambda value: "done", lambda f: (f.value.name, str(f.value)))
                outcomes.append(self.successResultOf(call))
            self.assertEqual(outcomes[0], outcomes[1], (name, body))

    def test_beside_kwargs(self) -> None:
        """What a minion's worker says beside kwargs is judged with it, and reaches the job."""
        job = {"tgt": "web1", "fun": "test.ping", "ret_config": "alt", "ret_kwargs": {"a": 1}}
        refused = self.door.request("publish", job, self.fred)
        self.assertEqual(self.refusal(refused), "AuthorizationError")

        call = self.rig.door().handle("publish", job, PeerProcess(0, 0, 1), lambda item: None)
        self.successResultOf(Deferred.fromCoroutine(call))
        (sent,) = self.rig.published_jobs()
        self.assertEqual((sent["ret_config"], sent["ret_kwargs"]), ("alt", {"a": 1}))


class LawTests(SynchronousTestCase):
    """How operations are found."""

    def test_no_method_is_found_by_its_name(self) -> None:
        """Nothing that comes from a request names an attribute: C{getattr} has no such name."""
        found = []
        for path in SOURCES.rglob("*.py"):
            if path.relative_to(SOURCES).parts[0] not in ("master", "cluster", "minion", "roles"):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id == "getattr"
                    and isinstance(node.args[1], ast.JoinedStr)
                ):
                    found.append(f"{path.name}:{node.lineno}")

        self.assertEqual(found, [])
