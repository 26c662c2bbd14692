"""
Logins by a directory that is in this process: what holds is tried where there is no C{slapd}, too.
"""

from __future__ import annotations

import ssl
import sys
from typing import Any
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.logins import OPTIONS
from saltwisted.domain.directory import Directory, DirectoryError
from saltwisted.domain.eauth import Proof
from saltwisted.worker.process.ldap import Ldap, _Asking
from tests.fakes.directory import FakeDirectory

BASE = "dc=example,dc=com"
SERVICE, SERVICE_PASSWORD = f"cn=salt,{BASE}", "service-word"
FRED = f"uid=fred,ou=People,{BASE}"
SEARCHING = {"binddn": SERVICE, "bindpw": SERVICE_PASSWORD}
ANONYMOUS = {"binddn": "", "bindpw": "", "anonymous": True}
BY_NAME = {"binddn": f"uid={{{{ username }}}},ou=People,{BASE}", "bindpw": "", "filter": ""}
BY_ADDRESS = {"binddn": "{{ username }}", "bindpw": "", "filter": "", "activedirectory": True}
WAYS = (SEARCHING, ANONYMOUS, BY_NAME, BY_ADDRESS)


class AloneTests(SynchronousTestCase):
    """Names and passwords, and a server that takes whoever says nothing."""

    def setUp(self) -> None:
        """Fred is in it, and so is the master's own account."""
        self.directory = FakeDirectory(
            [
                (FRED, {"uid": ["fred"], "sAMAccountName": ["fred"]}),
                (f"cn=ops,ou=Groups,{BASE}", {"cn": ["ops"], "memberUid": ["fred"]}),
            ],
            {FRED: "s3cret", "fred": "s3cret", SERVICE: SERVICE_PASSWORD},
        )
        # In the very map: what imports looks a module up there, whatever sys.modules is then
        library = patch.dict(sys.modules, {"ldap3": self.directory.library()})
        library.start()
        self.addCleanup(library.stop)

    def settings(self, **changes: Any) -> dict[str, Any]:
        """What the proof is told."""
        usual = {"uri": "ldaps://localhost", "basedn": BASE, "filter": "(uid={{ username }})"}
        options = {f"auth.ldap.{name}": value for name, value in {**usual, **changes}.items()}
        return OPTIONS.take("ldap").settings({}, options)

    def ask(self, username: str, password: str, **changes: Any) -> Proof:
        """One login."""
        return Ldap().prove(self.settings(**changes), username, password)

    def test_right(self) -> None:
        """The right password lets in, a wrong one does not, in each way to find somebody's DN."""
        for options in WAYS:
            found = self.ask("fred", "s3cret", **options)
            self.assertEqual((found.ok, found.name, found.problem), (True, "fred", ""), found.steps)
            found = self.ask("fred", "wrong", **options)
            self.assertEqual((found.ok, found.groups, found.problem), (False, (), ""), options)
        self.assertEqual(self.directory.opened, self.directory.closed)

    def test_T_EAUTH_5_empty(self) -> None:
        """T-EAUTH-5: an empty password is refused before anybody is asked, in each way."""
        for options in WAYS:
            for name in ("fred", "nobody", ""):
                found = self.ask(name, "", **options)
                self.assertEqual((found.ok, found.problem), (False, ""), (name, options))
        self.assertEqual(self.directory.opened, 0)

    def test_T_EAUTH_5_never_sent(self) -> None:
        """T-EAUTH-5: nor is a bind with a name and no password sent, whoever asks for one."""
        for options in WAYS:
            asking = _Asking(Directory(self.settings(**options)), "fred")
            self.assertRaises(DirectoryError, asking.login, "")
            for user, password in self.directory.told:
                self.assertFalse(user and not password, options)

    def test_T_EAUTH_5_no_name(self) -> None:
        """
        T-EAUTH-5: an entry without a DN is nobody: a bind without a name succeeds whatever the
        password is.
        """
        self.directory.entries[0] = ("", self.directory.entries[0][1])
        for options in (SEARCHING, ANONYMOUS):
            found = self.ask("fred", "wrong", **options)
            self.assertFalse(found.ok, options)
        for name in ("", " ", "\t"):
            for options in WAYS:
                self.assertFalse(self.ask(name, "wrong", **options).ok, (name, options))

    def test_T_EAUTH_5_other_results(self) -> None:
        """
        T-EAUTH-5: a bind that ends otherwise lets nobody in: what says no says no, and what says
        that something is wrong is told.
        """
        for result, is_told in (
            *((32, False), (34, False), (53, False), (49, False)),
            *((1, True), (2, True), (8, True), (10, True), (14, True), (51, True), (80, True)),
        ):
            self.directory.result = {"result": result, "description": f"r{result}", "message": ""}
            for options in WAYS:
                found = self.ask("fred", "wrong", **options)
                self.assertEqual((found.ok, bool(found.problem)), (False, is_told), options)

    def test_T_EAUTH_5_groups_alone(self) -> None:
        """T-EAUTH-5: being in a group is no password, where stock's option says so."""
        for options in (SEARCHING, ANONYMOUS):
            more = {**options, "auth_by_group_membership_only": True}
            self.assertFalse(self.ask("fred", "wrong", **more).ok)
            self.assertTrue(self.ask("fred", "s3cret", **more).ok)

    def test_T_EAUTH_2_closed(self) -> None:
        """T-EAUTH-2: an account of which the directory says that it is closed is that."""
        message = "80090308: LdapErr: DSID-0C09, comment: AcceptSecurityContext error, data 533"
        self.directory.result = {"result": 49, "description": "x", "message": message}
        found = self.ask("fred", "s3cretx", **SEARCHING)
        self.assertEqual((found.ok, found.closed), (False, True))

    def test_T_EAUTH_7_somebody_else(self) -> None:
        """T-EAUTH-7: an entry that has another name is somebody else's, whatever the password."""
        self.directory.entries[0] = (FRED, {"uid": ["ann"], "sAMAccountName": ["ann"]})
        self.directory.entries.append(("uid=x", {"uid": ["fred"]}))
        for options in (SEARCHING, BY_NAME):
            self.assertFalse(self.ask("fred", "s3cret", **options).ok, options)

    def test_two(self) -> None:
        """A filter that finds two lets neither in, and says so."""
        self.directory.entries.append((f"uid=fred,ou=Others,{BASE}", {"uid": ["fred"]}))
        found = self.ask("fred", "s3cret", **SEARCHING)
        self.assertFalse(found.ok)
        self.assertIn("several users", found.problem)

    def test_options(self) -> None:
        """Options that cannot work are told before anybody is asked; so is a look-up by nobody."""
        for options in ({"scope": 5}, {"starttls": True, "tls": True}, {"freeipa": True}):
            found = self.ask("fred", "s3cret", **SEARCHING, **options)
            self.assertFalse(found.ok)
            self.assertIn("auth.ldap.", found.problem, options)
        found = Ldap().look(self.settings(**BY_NAME), "fred")
        self.assertFalse(found.ok)
        self.assertIn("auth.ldap.bindpw", found.problem)
        self.assertEqual(self.directory.opened, 0)
        self.assertTrue(Ldap().look(self.settings(**SEARCHING), "fred").ok)

    def test_part_of_an_answer(self) -> None:
        """A search that was not answered whole finds nobody: the rest may be what counts."""
        self.directory.search_result = {"result": 4, "description": "sizeLimitExceeded"}
        found = self.ask("fred", "s3cret", **SEARCHING)
        self.assertFalse(found.ok)
        self.assertIn("sizeLimitExceeded", found.problem)

    def test_T_TLS_1_verified(self) -> None:
        """
        T-TLS-1: certificates are verified unless the site says no; and no password goes to a server
        that refuses to encrypt.
        """
        self.ask("fred", "s3cret", **SEARCHING)
        self.assertEqual(set(self.directory.tls), {(True, ssl.CERT_REQUIRED)})
        self.directory.tls.clear()
        self.directory.told.clear()
        self.directory.takes_starttls = False
        found = self.ask("fred", "s3cret", **SEARCHING, uri="ldap://localhost", starttls=True)
        self.assertFalse(found.ok)
        self.assertIn("STARTTLS", found.problem)
        self.assertEqual(self.directory.told, [])
        self.assertEqual(set(self.directory.tls), {(False, ssl.CERT_REQUIRED)})
