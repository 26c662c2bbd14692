"""
Key files of local users: who gets one.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.master import userkeys
from saltwisted.master.userkeys import UserKeys
from tests.wire.recorded import Dice


class UserKeyTests(SynchronousTestCase):
    """A machine with four users."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        os.mkdir(self.folder)
        users = {
            name: SimpleNamespace(pw_name=name, pw_uid=0)
            for name in ["root", "fred", "web1", "web2"]
        }
        self.patch(userkeys.pwd, "getpwnam", users.__getitem__)
        self.patch(userkeys.pwd, "getpwall", lambda: list(users.values()))

    def keys(self, *acl: str, verify: bool = True) -> set[str]:
        """Whose key files are there."""
        self.made = UserKeys(self.folder, "root", acl, Dice(), verify)
        return {name[1:-4] for name in os.listdir(self.folder)}

    def test_names_and_patterns(self) -> None:
        """Users whom the ACL names or means by a pattern get a key, if they exist."""
        self.assertEqual(
            self.keys("fred", "nobody-here", "web.*"), {"root", "fred", "web1", "web2"}
        )

    def test_unverified(self) -> None:
        """Without client_acl_verify every name gets one that may be a file's, and no pattern."""
        self.assertEqual(
            self.keys("fred", "ghost", "../x", "web.*", verify=False), {"root", "fred", "ghost"}
        )

    def test_whose(self) -> None:
        """A key is one user's; the owner's may be root by sudo."""
        self.keys("fred")
        with open(os.path.join(self.folder, ".fred_key"), encoding="ascii") as file:
            fred = file.read()
        with open(os.path.join(self.folder, ".root_key"), encoding="ascii") as file:
            root = file.read()

        self.assertEqual(self.made.user_of(fred, "root"), ("fred", False))
        self.assertEqual(self.made.user_of(fred, "sudo_root"), ("fred", False))
        self.assertEqual(self.made.user_of(root, "sudo_ann"), ("sudo_ann", True))
        self.assertIsNone(self.made.user_of("", "root"))
