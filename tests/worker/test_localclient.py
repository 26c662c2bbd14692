"""
C{salt.client.LocalClient}: what it asks the master, and the shapes of its answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.compat import client
from saltwisted.worker.exceptions import SaltInvocationError

JID = "20260131040506123456"


class Master:
    """Plays a master with minions, of which some are silent."""

    def __init__(self, *minions: str, silent: tuple[str, ...] = ()) -> None:
        self.minions, self.silent = minions, silent
        self.jobs: list[dict[str, Any]] = []
        self.values: dict[str, Any] = {}
        self.codes: dict[str, int] = {}
        self.kept: list[dict[str, Any]] = []

    def __call__(self, opts: Any) -> Master:
        return self

    def close(self) -> None:
        """Nothing is open."""

    def call(self, op: str, **args: Any) -> Any:
        if op == "returns":
            return self.kept.pop(0) if len(self.kept) > 1 else self.kept[0]
        self.jobs.append(args)
        found = [each for each in self.minions if args["tgt"] in ("*", each)]
        return {"jid": JID if found else "", "minions": found}

    def stream(self, op: str, **args: Any) -> Iterator[dict[str, Any]]:
        self.jobs.append(dict(args))
        meant = self.minions if args["tgt"] == "*" else args["tgt"]
        yield {"kind": "published", "jid": JID, "minions": meant, "missing": []}
        for minion in meant:
            gone = minion in self.silent and args["fun"] != "test.ping"
            if not gone:
                value = self.values.get(args["fun"], True)
                data = {"return": value, "retcode": self.codes.get(minion, 0)}
                yield {"kind": "return", "id": minion, "data": data}


class LocalClientTests(SynchronousTestCase):
    """One master, asked by a script."""

    def client(self, *minions: str, **how: Any) -> client.LocalClient:
        self.master = Master(*minions, **how)
        self.patch(client, "connected", self.master)
        self.patch(client, "_PAUSE", 0)
        return client.LocalClient(mopts={"timeout": 5, "gather_job_timeout": 10})

    def test_subset_by_both_names(self) -> None:
        """As many minions as C{subset} says, or C{sub}, which is no argument of the function."""
        local = self.client("a", "b", "c", "d")
        self.master.values["sys.list_functions"] = ["test.ping"]
        for how, count in (({"subset": 2}, 2), ({"sub": 1}, 1), ({}, 3), ({"sub": "1"}, 1)):
            self.assertEqual(len(local.cmd_subset("*", "test.ping", **how)), count, how)
            self.assertNotIn("sub", self.master.jobs[-1]["kwargs"])

    def test_batch(self) -> None:
        """So many at a time, under one job id, with the values as they come."""
        local = self.client("a", "b", "c")
        self.master.values["test.echo"] = 5
        found = list(local.cmd_batch("*", "test.echo", [5], batch=2))
        self.assertEqual(found, [{"a": 5}, {"b": 5}, {"c": 5}])
        ping, one, two = self.master.jobs
        self.assertEqual((ping["fun"], ping["tgt"]), ("test.ping", "*"))
        self.assertEqual((one["tgt"], one["jid"], one["arg"]), (["a", "b"], "", [5]))
        self.assertEqual((two["tgt"], two["jid"], two["tgt_type"]), (["c"], JID, "list"))

    def test_batch_forms(self) -> None:
        """A share in percent, return codes with C{raw}, nobody, and what is no size at all."""
        local = self.client("a", "b", "c", "d")
        self.assertEqual(len(list(local.cmd_batch("*", "test.x", batch="50%"))), 4)
        self.assertEqual([job["tgt"] for job in self.master.jobs[1:]], [["a", "b"], ["c", "d"]])
        (first, *_) = local.cmd_batch("*", "test.x", batch=1, raw=True)
        self.assertEqual(first, {"a": {"ret": True, "retcode": 0}})
        self.assertEqual(list(self.client().cmd_batch("*", "test.x")), [])
        with self.assertRaises(SaltInvocationError):
            list(local.cmd_batch("*", "test.x", batch="few"))

    def test_batch_stops(self) -> None:
        """With C{failhard} a failure, and a silent minion end it; without, all go on."""
        local = self.client("a", "b", "c", silent=("b",))
        found = list(local.cmd_batch("*", "test.x", batch=1))
        self.assertEqual(found, [{"a": True}, {"b": {}}, {"c": True}])
        hard = list(local.cmd_batch("*", "test.x", batch=1, failhard=True))
        self.assertEqual(hard, [{"a": True}, {"b": {}}])
        self.master.codes["a"] = 2
        hard = list(local.cmd_batch("*", "test.x", batch=1, failhard=True))
        self.assertEqual(hard, [{"a": True}])

    def test_pub(self) -> None:
        """The job's id and its minions, an empty list if there are none."""
        local = self.client("a")
        self.assertEqual(local.pub("*", "test.ping"), {"jid": JID, "minions": ["a"]})
        self.assertEqual(local.pub("x", "test.ping"), {"jid": "", "minions": []})

    def test_get_returns(self) -> None:
        """Values by minion, when all are there, or after the time."""
        local = self.client("a", "b")
        first, both = {"a": {"return": 1}}, {"a": {"return": 1}, "b": {"return": 2}}
        self.master.kept = [first, both]
        self.assertEqual(local.get_returns(JID, ["a", "b"]), {"a": 1, "b": 2})
        self.master.kept = [first]
        self.assertEqual(local.get_returns(JID, ["a", "b"], timeout=1e-9), {"a": 1})

    def test_get_cli_event_returns(self) -> None:
        """Each return, how far it is if that is wanted, and a text for who did not return."""
        local = self.client("a", "b")
        self.master.kept = [{"a": {"return": 1, "retcode": 0}}]
        told = local.get_cli_event_returns(JID, ["a", "b"], timeout=1e-9, progress=True)
        progress, answer, silent = told
        self.assertEqual(progress, {"minion_count": 2, "return_count": 1})
        self.assertEqual(answer, {"a": {"ret": 1, "retcode": 0}})
        self.assertEqual((silent["b"]["out"], silent["b"]["retcode"]), ("no_return", 1))
        self.assertIn("did not return", silent["b"]["ret"])
