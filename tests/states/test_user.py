"""
What of C{user} cannot be recorded, since stock asks the real machine about it.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.states import user
from tests.states.fakes import Machine


class Shrinking(Machine):
    """A machine on which a user's private group goes with the user."""

    def user__delete(self, *args: Any, **words: Any) -> bool:
        name, *_ = args
        if name not in self.users:
            return False
        self.did.append(["user.delete", *args, words])
        del self.users[name], self.groups[name]
        return True


class Stubborn(Machine):
    """A machine on which no user can be removed."""

    def user__delete(self, *args: Any, **words: Any) -> bool:
        return False


class AbsentTests(SynchronousTestCase):
    """C{user.absent} for real."""

    def apply(self, machine: Machine, name: str, **words: Any) -> dict[str, Any]:
        self.patch(user, "__salt__", machine.functions())
        self.patch(user, "__opts__", {"test": False})
        return user.absent(name, **words)

    def setUp(self) -> None:
        for name in ("__salt__", "__opts__"):
            vars(user).setdefault(name, None)

    def test_removed(self) -> None:
        """The user and the group that went with it are named, and the options handed on."""
        machine = Shrinking()

        ret = self.apply(machine, "kim", purge=True, force=True)

        self.assertEqual(ret["changes"], {"kim group": "removed", "kim": "removed"})
        self.assertEqual((ret["result"], ret["comment"]), (True, "Removed user kim"))
        self.assertEqual(machine.did, [["user.delete", "kim", True, True, {"local": False}]])

    def test_refused(self) -> None:
        """A user that stays is a failure without changes."""
        ret = self.apply(Stubborn(), "kim")

        self.assertEqual((ret["result"], ret["changes"]), (False, {}))
        self.assertEqual(ret["comment"], "Failed to remove user kim")

    def test_secret(self) -> None:
        """A password hash that could not be set is not shown in the comment."""
        machine = Machine()
        functions = machine.functions()
        functions["shadow.set_password"] = lambda name, value: True
        self.patch(user, "__salt__", functions)
        self.patch(user, "__opts__", {"test": False})

        ret = user.present("kim", password="hash-4711")

        self.assertEqual(ret["result"], False)
        self.assertNotIn("hash-4711", str(ret))
        self.assertIn("XXX-REDACTED-XXX", ret["comment"])
