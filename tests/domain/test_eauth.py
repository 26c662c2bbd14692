"""
External authentication: what a login grants, tokens, and what the option may say.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.logins import misspelt, problems, why_not
from saltwisted.domain.eauth import (
    Token,
    credentials,
    lifetime,
    new_token,
    rules_of,
    token_digest,
)


def token(**changes: Any) -> Token:
    """A token of fred."""
    fields: dict[str, Any] = {"name": "fred", "eauth": "pam", "start": 0.0, "expire": 100.0}
    return Token(**{**fields, **changes})


class RulesTests(SynchronousTestCase):
    """What a login grants."""

    def test_users_groups_and_everybody(self) -> None:
        """Own rules and those of groups add up; everybody's count for who is not named."""
        auth = {
            "pam": {
                "fred": ["test.*"],
                "ops%": [{"web*": ["state.apply"]}],
                "*": ["grains.*"],
                "^x": ["cmd.*"],
            }
        }

        self.assertEqual(
            rules_of(auth, "pam", "fred", ["ops"]), ["test.*", {"web*": ["state.apply"]}]
        )
        self.assertEqual(
            rules_of(auth, "pam", "eve", ["ops"]), [{"web*": ["state.apply"]}, "grains.*"]
        )
        self.assertEqual(rules_of(auth, "pam", "eve", []), ["grains.*"])
        self.assertEqual(rules_of(auth, "pam", "fred", [], True), ["test.*", "grains.*"])
        self.assertEqual(rules_of(auth, "ldap", "fred", []), [])

    def test_names_are_no_patterns(self) -> None:
        """A user whose name is a pattern gets nobody else's rules (stock reads it as one)."""
        auth = {"auto": {"fred": ["cmd.*"], "ops%": [".*"], "^filename": [".*"]}}
        for name in ("*", ".*", "f*", "fre?", "[f]red", "ops%", "ops", "^filename"):
            self.assertEqual(rules_of(auth, "auto", name, []), [], name)


class CredentialsTests(SynchronousTestCase):
    """What can be judged at all."""

    def test_T_EAUTH_1_service(self) -> None:
        """T-EAUTH-1: a PAM service that a request chooses is not read, nor is anything else."""
        good = {"eauth": "pam", "username": "fred", "password": "x"}

        self.assertIsNotNone(credentials(good))
        more = {"service": "other", "sharedsecret": "x", "code": {"a": "b"}, "^filename": "/x"}
        self.assertEqual(credentials({**good, **more}), credentials(good))

    def test_odd(self) -> None:
        """What would be another text in a C library, or none, is refused."""
        good: dict[str, Any] = {"eauth": "pam", "username": "fred", "password": "x"}
        for odd in (
            {"username": "fred\0"},
            {"password": "x\0y"},
            {"username": ""},
            {"username": "f\n"},
            {"username": "f" * 257},
            {"password": "x" * 5000},
            {"password": None},
            {"password": True},
            {"password": ["x"]},
            {"username": 5},
            {"eauth": ["pam"]},
        ):
            self.assertIsNone(credentials({**good, **odd}), odd)

    def test_secret(self) -> None:
        """The password is in no representation."""
        self.assertNotIn(
            "s3cr3t", repr(credentials({"eauth": "a", "username": "b", "password": "s3cr3t"}))
        )


class TokenTests(SynchronousTestCase):
    """T-TOK-1 and what a token is."""

    def test_T_TOK_1_expiry(self) -> None:
        """T-TOK-1: a token is dead at the moment of its end, and without a sound end always."""
        self.assertTrue(token().alive(99.9))
        self.assertFalse(token().alive(100.0))
        self.assertFalse(token().alive(101.0))
        self.assertFalse(token(expire=float("nan")).alive(1.0))

    def test_T_PATH_2_names(self) -> None:
        """T-PATH-2: what is not a token stands for nothing, and no name of a file is made of it."""
        for odd in ("", "../x", "/etc/passwd", "G" * 64, "a" * 31, "a" * 129, b"a" * 64, None, 7):
            self.assertEqual(token_digest(odd), "", odd)
        self.assertNotEqual(token_digest("a" * 64), "a" * 64)

    def test_hash_types(self) -> None:
        """A token has the length that C{hash_type} gives, as in Salt."""
        for name, length in (("md5", 32), ("sha256", 64), ("sha512", 128), ("nonsense", 64)):
            made = new_token(lambda count: b"x" * count, name)
            self.assertEqual(len(made), length)
            self.assertEqual(len(token_digest(made)), 64)

    def test_lifetime(self) -> None:
        """Users choose how long a token lives where they may, and then no nonsense."""
        self.assertEqual(lifetime(5, 100.0, False, "pam", "fred"), 100.0)
        self.assertEqual(lifetime(5, 100.0, True, "pam", "fred"), 5.0)
        self.assertEqual(lifetime(5, 100.0, {"pam": ["fred"]}, "pam", "fred"), 5.0)
        self.assertEqual(lifetime(5, 100.0, {"pam": ["fred"]}, "file", "fred"), 100.0)
        self.assertEqual(lifetime(None, 100.0, True, "pam", "fred"), 100.0)
        for odd in (0, -1, float("inf"), float("nan"), "5", True, 1e12):
            self.assertIsNone(lifetime(odd, 100.0, True, "pam", "fred"), odd)


class OptionTests(SynchronousTestCase):
    """What external_auth may say."""

    def test_good(self) -> None:
        """Salt's forms are no problem."""
        good = {
            "pam": {"fred": [".*", "@runner", {"web*": ["test.*", {"x.y": {"args": ["a"]}}]}]},
            "file": {"^filename": "/x", "^hashtype": "md5", "ops%": [], "*": ["@jobs"]},
        }

        self.assertEqual(problems(good), [])

    def test_T_EAUTH_3_absent(self) -> None:
        """T-EAUTH-3: backends that are not here are named, C{pki} among them; typos too."""
        for name in ("pki", "yubico"):
            self.assertIn(f"by {name} is not available here", problems({name: {}})[0])
        self.assertIn("did you mean 'file'?", why_not("fiel"))
        self.assertIn("did you mean 'pam'?", problems({"pamm": {}})[0])

    def test_ldap(self) -> None:
        """What of LDAP's options cannot work, is dangerous or misspelt is said before a login."""
        good = {
            "auth.ldap.uri": "ldaps://a",
            "auth.ldap.basedn": "dc=x",
            "auth.ldap.binddn": "cn=salt,dc=x",
            "auth.ldap.bindpw": "y",
            "auth.ldap.filter": "uid={{ username }}",
        }
        self.assertEqual(problems({"ldap": {"fred": [".*"]}}, good), [])
        self.assertEqual(problems({"pam": {}}, {"auth.ldap.scope": 9}), [])
        for changes, words in (
            ({"filter": ""}, "auth.ldap.filter is needed"),
            ({"filter": "uid=fred"}, "auth.ldap.filter needs {{ username }}"),
            ({"no_verify": True}, "poses as the directory server"),
            ({"uri": "ldap://a ldap://localhost"}, "passwords go to ldap://a unencrypted"),
            ({"uri": "", "server": "a"}, "passwords go to a unencrypted"),
            ({"scope": "9"}, "scope is 0, 1 or 2"),
            ({"freeipa": True, "group_filter": "x"}, "group_basedn is needed"),
            ({"auth_by_group_membership_only": True}, "has no effect"),
            ({"bindpw": "", "binddn": "uid={{ username }}"}, "count for five minutes"),
        ):
            given = {**good, **{f"auth.ldap.{name}": value for name, value in changes.items()}}
            found = problems({"ldap": {}}, given)
            self.assertEqual(len(found), 1, found)
            self.assertIn(words, found[0])
        self.assertEqual(
            problems({"ldap": {}}, {**good, "auth.ldap.uri": "ldap://a", "auth.ldap.starttls": 1}),
            [],
        )
        ((name, text),) = misspelt([*good, "auth.ldap.bind_pw", "auth.other", "mysql.host"])
        self.assertEqual(name, "auth.ldap.bind_pw")
        self.assertIn("did you mean 'auth.ldap.bindpw'?", text)

    def test_broken(self) -> None:
        """Structures that grant nothing are named."""
        for config, words in (
            ({"pam": ["fred"]}, "users are needed"),
            ({"pam": {"fred": ".*"}}, "pam: fred: a list of rules"),
            ({"pam": {"fred": ["["]}}, "not a regular expression"),
            ({"pam": {"fred": [{"a": [], "b": []}]}}, "one target"),
            ({"pam": {"fred": [{"a": [5]}]}}, "one function"),
            ({"pam": {"fred": [{"ldap(OU=web,dc=x)": ["test.*"]}]}}, "means nobody"),
            ({"file": {"fred": []}}, "^filename is needed"),
            ({"file": {"^filename": "/x", "^hashtyp": "md5"}}, "did you mean '^hashtype'?"),
        ):
            found = problems(config)
            self.assertEqual(len(found), 1, found)
            self.assertIn(words, found[0])
