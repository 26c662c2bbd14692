"""
Whose returns a local user may read: those of jobs that he has published himself.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.operations.table import Caller
from saltwisted.errors import RemoteError
from tests.master.rig import Rig, RigMinion

NOBODY = Caller(name="nobody", source="uid 65534", door="a test")
DAEMON = Caller(name="daemon", source="uid 1", door="a test")
ROOT = Caller(name="root", owner=True, source="uid 0", door="a test")


class OwnJobTests(SynchronousTestCase):
    """One master, accounts that C{publisher_acl} names, and a login of the name of one of them."""

    def setUp(self) -> None:
        users = self.mktemp()
        with open(users, "w", encoding="utf-8") as file:
            file.write("nobody:secret\n")
        self.rig = Rig(
            self,
            external_auth={"file": {"^filename": users, "nobody": [".*"]}},
            publisher_acl={"nobody": ["test.*"], "daemon": [".*"]},
        )
        self.web1 = RigMinion(self.rig, "web1").accepted()
        self.table = self.rig.table()

    def ask(self, caller: Caller, name: str, **args: Any) -> Deferred[Any]:
        """One call of an operation."""

        async def silent(item: Any) -> None:
            """No items come."""

        found = Deferred.fromCoroutine(self.table.call(name, args, caller, silent))
        self.rig.clock.pump([0.1] * 50)
        return found

    def returned(self, caller: Caller, fun: str, **kwargs: Any) -> str:
        """The id of a job of his that has come back."""
        asked = self.ask(caller, "publish", tgt="web1", fun=fun, arg=["x"], kwargs=kwargs)
        jid = self.successResultOf(asked)["jid"]
        load = {"jid": jid, "fun": fun, "return": "x", "retcode": 0, "success": True}
        self.web1.ask("_return", **load)
        self.rig.clock.pump([0.1] * 5)
        return str(jid)

    def refusal(self, caller: Caller, **args: Any) -> str:
        """The words with which a question is refused."""
        error = self.failureResultOf(self.ask(caller, "returns", **args), RemoteError).value
        assert isinstance(error, RemoteError)
        return f"{error.name}: {error.message}"

    def test_own(self) -> None:
        """Who has published a job reads its returns; root reads everybody's."""
        jid = self.returned(NOBODY, "test.echo")

        for caller in (NOBODY, ROOT):
            found = self.successResultOf(self.ask(caller, "returns", jid=jid))
            self.assertEqual(found["web1"]["return"], "x")
            self.assertEqual(found["web1"]["retcode"], 0)

    def test_others(self) -> None:
        """Others' jobs and jobs that are not there are refused alike, and it is counted."""
        jid = self.returned(NOBODY, "test.echo")
        roots = self.returned(ROOT, "test.echo")
        absent = "20200101000000000000"

        for caller, asked in ((DAEMON, jid), (NOBODY, roots), (NOBODY, absent)):
            expected = f"AuthorizationError: {caller.name} has published no job {asked}"
            self.assertEqual(self.refusal(caller, jid=asked), expected)
        self.assertEqual(self.rig.ctx.counters["denied:control"], 3)
        self.assertIn("SaltInvocationError", self.refusal(NOBODY))

    def test_T_WHO_1_login_of_his_name(self) -> None:
        """T-WHO-1: the jobs of a login of the account's name are not the account's."""
        login = {"eauth": "file", "username": "nobody", "password": "secret"}
        for fun in ("cmd.run", "test.echo"):
            jid = self.returned(NOBODY, fun, **login)
            record = self.rig.jobs.loads[jid]
            self.assertEqual((record["user"], record["eauth"]), ("nobody", "file"))
            self.assertIn("has published no job", self.refusal(NOBODY, jid=jid))
        session = Caller(name="nobody", source="uid 65534", door="a test", proof=login)
        self.assertIn("only local users of this machine", self.refusal(session, jid=jid))

    def test_T_WHO_1_old_records(self) -> None:
        """T-WHO-1: a record of a release that kept no backend is root's to read alone."""
        jid = self.returned(NOBODY, "test.echo")
        self.assertEqual(self.rig.jobs.loads[jid].pop("eauth"), "local")

        self.assertIn("has published no job", self.refusal(NOBODY, jid=jid))
        self.successResultOf(self.ask(ROOT, "returns", jid=jid))

    def test_claimed(self) -> None:
        """A job of which a minion alone says whose it is, is nobody's."""
        jid = self.returned(NOBODY, "test.echo")
        self.rig.jobs.loads[jid]["claimed"] = True

        self.assertIn("has published no job", self.refusal(NOBODY, jid=jid))
