"""
Logins by a directory, tried against a real C{slapd}.
"""

from __future__ import annotations

import builtins
import ssl
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.logins import OPTIONS
from saltwisted.domain.eauth import Proof
from saltwisted.worker.process.authwork import serve
from saltwisted.worker.process.ldap import MISSING, Ldap
from tests.slapd import BASE, SERVICE_PASSWORD, Slapd, needs_slapd

USERS = {
    "fred": "s3cret",
    "ann": "w(or)d*",
    "star*": "x",
    "müller": "schlüssel€",
    "Mixed": "case",
}
GROUPS = {"ops": ("fred", "ann"), "web": ("fred",), "dba": ("müller",), "Mixed Group": ("Mixed",)}
BY_NAME = {"binddn": f"uid={{{{ username }}}},ou=People,{BASE}", "bindpw": "", "filter": ""}
AD = {
    "activedirectory": True,
    "groupclass": "groupOfNames",
    "accountattributename": "sAMAccountName",
    "filter": "(sAMAccountName={{ username }})",
}
IPA = {
    "freeipa": True,
    "group_basedn": f"ou=Teams,{BASE}",
    "group_filter": "(&(objectClass=groupOfNames)"
    f"(member=uid={{{{ username }}}},ou=People,{BASE}))",
    "groupattribute": "member",
}
MEMBER_OF = {
    "groupou": "",
    "accountattributename": "uid",
    "groupclass": "person",
    "groupattribute": "belongsTo",
}
FORMS: dict[str, dict[str, Any]] = {
    "posixGroup": {},
    "Active Directory": AD,
    "FreeIPA": IPA,
    "memberOf": MEMBER_OF,
}


class _Case(SynchronousTestCase):
    """One server with the users above."""

    def setUp(self) -> None:
        """Start it."""
        self.server = Slapd(self, USERS, GROUPS).start()

    def settings(self, **changes: Any) -> dict[str, Any]:
        """What the proof is told, of a site that searches by an account of its own."""
        return OPTIONS.take("ldap").settings({}, self.server.options(**changes))

    def ask(self, username: str, password: str, **changes: Any) -> Proof:
        """One login."""
        return Ldap().prove(self.settings(**changes), username, password)

    def look(self, username: str, **changes: Any) -> Proof:
        """One question without a password."""
        return Ldap().look(self.settings(**changes), username)


@needs_slapd
class LoginTests(_Case):
    """Names and passwords."""

    def test_groups(self) -> None:
        """Each form of directory gives the same groups, with a password and without one."""
        for form, options in FORMS.items():
            for name, password in (("fred", "s3cret"), ("ann", USERS["ann"])):
                found = self.ask(name, password, **options)
                self.assertEqual((found.ok, found.problem), (True, ""), (form, found.steps))
                wanted = tuple(sorted(group for group in GROUPS if name in GROUPS[group]))
                self.assertEqual(found.groups, wanted, (form, found.steps))
                self.assertEqual(self.look(name, **options).groups, wanted, form)
            self.assertFalse(self.ask("fred", "wrong", **options).ok, form)

    def test_by_name(self) -> None:
        """A DN that is made of the name needs no account of the master's own."""
        for form, options in FORMS.items():
            found = self.ask("fred", "s3cret", **{**options, **BY_NAME})
            self.assertEqual((found.ok, found.groups), (True, ("ops", "web")), (form, found.steps))
            self.assertFalse(self.ask("fred", "wrong", **{**options, **BY_NAME}).ok, form)

    def test_one_bind(self) -> None:
        """A login and its groups are one bind as the user: each may ask his telephone."""
        for count, options in enumerate((*FORMS.values(), BY_NAME), 1):
            self.assertTrue(self.ask("fred", "s3cret", **options).ok)
            self.assertEqual(self.server.binds("fred"), count, options)
        self.look("fred")
        self.assertEqual(self.server.binds("fred"), count)

    def test_T_EAUTH_5_empty(self) -> None:
        """
        T-EAUTH-5: a bind with a name and no password is none and succeeds on many servers, so that
        an empty password is refused before anybody is asked.
        """
        for options in (*FORMS.values(), BY_NAME):
            found = self.ask("fred", "", **options)
            self.assertEqual((found.ok, found.problem), (False, ""))
        self.assertEqual(self.server.asked(), 0)

    def test_T_EAUTH_6_names(self) -> None:
        """
        T-EAUTH-6: a name with the signs of filters and DNs is a name: it finds nobody else, and
        him who is called so.
        """
        for options in (*FORMS.values(), BY_NAME):
            for name in (
                "*", "fre*", "fred)(uid=*", "*)(objectClass=*", "fred,ou=People", "\\66red",
                "fred+cn=fred", "fred#", "(fred)", "fred\\", '"fred"', "#fred",
            ):  # fmt: skip
                found = self.ask(name, "s3cret", **options)
                self.assertEqual((found.ok, found.problem), (False, ""), (name, found.steps))
                self.assertEqual(self.look(name, **options).ok, False, name)
        self.assertTrue(self.ask("star*", "x").ok)
        self.assertFalse(self.ask("star*", "y").ok)
        self.assertFalse(self.ask("star", "x").ok)
        self.assertTrue(self.ask("müller", USERS["müller"]).ok)
        self.assertEqual(self.ask("müller", USERS["müller"], **{**AD, **BY_NAME}).groups, ("dba",))

    def test_T_EAUTH_7_one_name(self) -> None:
        """
        T-EAUTH-7: who types his name in other letters is known by the directory's spelling, so that
        the rules and the record have one name for him; other signs are another name.
        """
        for options in (*FORMS.values(), BY_NAME):
            found = self.ask("FRED", "s3cret", **options)
            self.assertEqual((found.ok, found.name, found.groups), (True, "fred", ("ops", "web")))
            for name in ("fred ", " fred", "fr ed", "ｆred", "fre\u00add", "fred\u200b"):
                self.assertFalse(self.ask(name, "s3cret", **options).ok, (name, options))
        self.assertEqual(self.look("mixed").name, "Mixed")
        self.assertEqual(self.look("mixed").groups, ("Mixed Group",))

    def test_one_dn_for_all(self) -> None:
        """One DN without a name in it proves nobody: its owner would be anybody (T-EAUTH-6)."""
        found = self.ask("fred", "s3cret", binddn=f"uid=ann,ou=People,{BASE}", bindpw="")
        self.assertIn("whoever knows its password would be anybody", found.problem)
        self.assertEqual(self.server.asked(), 0)

    def test_groups_alone(self) -> None:
        """
        C{auth_by_group_membership_only} with C{anonymous} lets stock take any password; here it
        does nothing (T-EAUTH-5).
        """
        options = {"auth_by_group_membership_only": True, "anonymous": True}

        self.assertFalse(self.ask("fred", "wrong", **options).ok)
        self.assertTrue(self.ask("fred", "s3cret", **options).ok)

    def test_two_users(self) -> None:
        """A filter that finds two users lets neither in, and says so."""
        found = self.ask("fred", "s3cret", filter="(|(uid={{ username }})(uid=ann))")

        self.assertFalse(found.ok)
        self.assertIn("finds several users", found.problem)

    def test_taken_away(self) -> None:
        """A group that is taken away is gone from the next answer; so is a user."""
        self.assertEqual(self.look("fred").groups, ("ops", "web"))
        self.server.leave("fred", "web")
        self.assertEqual(self.look("fred").groups, ("ops",))
        self.server.remove("fred")
        self.assertEqual(self.look("fred"), Proof(steps=self.look("fred").steps))

    def test_no_account(self) -> None:
        """Without an account of its own the master cannot look anybody up, and says so."""
        found = self.look("fred", **BY_NAME)

        self.assertFalse(found.ok)
        self.assertIn("auth.ldap.bindpw", found.problem)

    def test_missing(self) -> None:
        """Without the library there is one sentence that says what to install."""
        real = builtins.__import__

        def importing(name: str, *rest: Any, **more: Any) -> Any:
            if name == "ldap3":
                raise ImportError
            return real(name, *rest, **more)

        self.patch(builtins, "__import__", importing)
        self.assertEqual(self.ask("fred", "s3cret").problem, MISSING)

    def test_worker(self) -> None:
        """The worker process asks it by its name; without a password nobody is let in as proven."""
        payload = {"eauth": "ldap", "settings": self.settings(), "username": "fred"}

        found = serve({**payload, "password": "s3cret"}, None, {})
        self.assertEqual((found["ok"], found["groups"]), (True, ["ops", "web"]))
        self.assertFalse(serve({**payload, "password": "x"}, None, {})["ok"])


@needs_slapd
class TrustTests(_Case):
    """Which server is believed, and what it sees."""

    def test_T_TLS_1_encrypted(self) -> None:
        """T-TLS-1: certificates are verified with ldaps and with STARTTLS."""
        for options in (
            {},
            {"uri": self.server.url, "starttls": True},
            {"uri": "", "port": self.server.secure_url.rpartition(":")[2], "tls": True},
        ):
            found = self.ask("fred", "s3cret", **options)
            self.assertEqual((found.ok, found.problem), (True, ""), (options, found.steps))
            for wrong in ({"ca_file": ""}, {"ca_file": __file__}):
                found = self.ask("fred", "s3cret", **{**options, **wrong})
                self.assertFalse(found.ok)
                self.assertNotEqual(found.problem, "", (options, wrong))
            found = self.ask("fred", "s3cret", **{**options, "ca_file": "", "no_verify": True})
            self.assertTrue(found.ok, found.steps)
        self.assertEqual(self.server.binds("fred"), 6)

    def test_T_TLS_1_other_host(self) -> None:
        """T-TLS-1: a certificate for another host is not believed, by either way."""
        other = Slapd(self, USERS, GROUPS, named="elsewhere.example.com").start()
        for url, starttls in ((other.secure_url, False), (other.url, True)):
            options = other.options(uri=url, starttls=starttls)
            settings = OPTIONS.take("ldap").settings({}, options)
            found = Ldap().prove(settings, "fred", "s3cret")
            self.assertFalse(found.ok)
            self.assertNotEqual(found.problem, "")
        self.assertEqual(other.binds("fred"), 0)
        self.assertNotIn(f'BIND dn="{options["auth.ldap.binddn"]}"', other.daemon.text())

    def test_no_starttls(self) -> None:
        """A server that does not encrypt when it is asked to sees no password."""
        bare = Slapd(self, USERS, GROUPS, more="disallow tls_2_anon\nsecurity ssf=0").start()
        settings = OPTIONS.take("ldap").settings(
            {}, bare.options(uri=bare.url, starttls=True, ca_file=bare.authority)
        )
        self.patch(ssl.SSLContext, "wrap_socket", _refusing)

        found = Ldap().prove(settings, "fred", "s3cret")

        self.assertFalse(found.ok)
        self.assertNotEqual(found.problem, "")
        self.assertNotIn("BIND dn", bare.daemon.text())

    def test_next_server(self) -> None:
        """Of several servers the next is asked when one is away; when all are, that is said."""
        away = "ldaps://localhost:1"
        found = self.ask("fred", "s3cret", uri=f"{away} {self.server.secure_url}")
        self.assertTrue(found.ok, found.steps)
        self.assertEqual(self.server.binds("fred"), 1)

        self.server.daemon.kill()
        found = self.ask("fred", "s3cret", uri=f"{away} {self.server.secure_url}")
        self.assertFalse(found.ok)
        self.assertIn(away, found.problem)
        self.assertIn(self.server.secure_url, found.problem)

    def test_T_LOG_1_no_secrets(self) -> None:
        """T-LOG-1: what is told of a login has neither its password nor the master's own."""
        for options in (
            {}, BY_NAME, {"bindpw": "wrong-service-word"}, {"uri": "ldap://localhost:1"},
            {"filter": "(((uid={{ username }}"}, {"basedn": "nowhere"}, {"groupou": "Nowhere"},
        ):  # fmt: skip
            for password in ("s3cret", "s3cretx"):
                found = self.ask("fred", password, **options)
                told = repr((found.problem, found.steps))
                for word in ("s3cret", SERVICE_PASSWORD, "wrong-service-word"):
                    self.assertNotIn(word, told)
                self.assertNotEqual(found.steps, (), options)

    def test_told(self) -> None:
        """What is wrong with the options is said as it is, with the option or the server's word."""
        for options, words in (
            ({"bindpw": "no"}, "invalidCredentials"),
            ({"basedn": "dc=nowhere"}, "noSuchObject"),
            ({"filter": ""}, "auth.ldap.filter"),
            ({"filter": "(uid={{ username )"}, "auth.ldap.filter"),
            ({"binddn": ""}, "auth.ldap.binddn"),
            ({"starttls": True}, "auth.ldap.starttls"),
            ({"starttls": True, "tls": True}, "auth.ldap.starttls"),
            ({"scope": 5}, "auth.ldap.scope"),
            ({"freeipa": True}, "auth.ldap.group_basedn"),
            ({"uri": "http://x"}, "http://x"),
        ):
            found = self.ask("fred", "s3cret", **options)
            self.assertFalse(found.ok, options)
            self.assertIn(words, found.problem, options)

    def test_groups_unknown(self) -> None:
        """A login whose groups cannot be found is one without groups, and the log says why."""
        found = self.ask("fred", "s3cret", groupou="Nowhere")

        self.assertEqual((found.ok, found.groups), (True, ()))
        self.assertIn("the groups of fred are unknown", found.problem)


def _refusing(*given: Any, **more: Any) -> Any:
    """TLS that does not come about."""
    raise ssl.SSLError("no")


@needs_slapd
class AnonymousTests(SynchronousTestCase):
    """A directory that lets everybody search."""

    def test_search(self) -> None:
        """C{anonymous} finds users and groups without an account; passwords are judged as ever."""
        server = Slapd(self, USERS, GROUPS, anonymous="read").start()
        settings = OPTIONS.take("ldap").settings(
            {}, server.options(anonymous=True, binddn="", bindpw="")
        )

        found = Ldap().prove(settings, "fred", "s3cret")
        self.assertEqual((found.ok, found.groups), (True, ("ops", "web")), found.steps)
        self.assertFalse(Ldap().prove(settings, "fred", "wrong").ok)
        self.assertEqual(Ldap().look(settings, "ann").groups, ("ops",))
        self.assertEqual(server.binds("fred"), 2)
