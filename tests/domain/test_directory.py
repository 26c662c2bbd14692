"""
Logins by a directory, without one: names, filters, DNs, and what answers mean.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.logins import OPTIONS
from saltwisted.domain.directory import (
    Directory,
    DirectoryError,
    closed_by,
    escape_dn,
    escape_filter,
    plain_name,
    rdn_value,
    spelling,
)

BASE = "dc=example,dc=com"
OWN = f"uid=fred,ou=People,{BASE}"


def directory(**options: Any) -> Directory:
    """One with the usual options, but for these."""
    usual = {"basedn": BASE, "binddn": "cn=salt", "bindpw": "x", "filter": "uid={{ username }}"}
    given = {f"auth.ldap.{name}": value for name, value in {**usual, **options}.items()}
    return Directory(OPTIONS.take("ldap").settings({}, given))


class NameTests(SynchronousTestCase):
    """Names that people type."""

    def test_T_EAUTH_6_filters(self) -> None:
        """T-EAUTH-6: no sign of a filter is left in an escaped value (RFC 4515)."""
        self.assertEqual(escape_filter("a*(b)\\\0é"), "a\\2a\\28b\\29\\5c\\00é")
        self.assertEqual(directory().user_search("x)(uid=*").filter, "(uid=x\\29\\28uid=\\2a)")

    @given(st.text(min_size=1, max_size=20))
    def test_T_EAUTH_6_dns(self, name: str) -> None:
        """T-EAUTH-6: an escaped value is one value of a DN, and the same when it is read."""
        dn = f"uid={escape_dn(name)},{BASE}"

        self.assertEqual(rdn_value(dn).strip(" "), name.strip(" "))

    def test_T_EAUTH_6_groups(self) -> None:
        """T-EAUTH-6: a group that is called like a DN is not the group in its name."""
        for dn, name in (
            (f"cn=ops,{BASE}", "ops"),
            (f"cn=x\\,cn=ops,{BASE}", "x,cn=ops"),
            (f"cn=x=ops,{BASE}", "x=ops"),
            (f"cn=a\\2cb,{BASE}", "a,b"),
            (f"cn=m\\c3\\bcller,{BASE}", "müller"),
            ("cn=a+ou=b,dc=x", "a"),
            ("cn=end\\", "end"),
            ("ops", ""),
        ):
            self.assertEqual(rdn_value(dn), name, dn)

    def test_T_EAUTH_7_plain(self) -> None:
        """T-EAUTH-7: names that a directory would read as another one are not asked about."""
        for name in ("fred", "Fred Müller", "fred@example.com", "o'neill", "李"):
            self.assertTrue(plain_name(name), name)
        for name in (" fred", "fred ", "a  b", "ｆred", "u\u0308", "fre\u00add", "f\u200bred",
                     "a\tb", "ﬁ"):  # fmt: skip
            self.assertFalse(plain_name(name), ascii(name))

    def test_T_EAUTH_7_spelling(self) -> None:
        """T-EAUTH-7: the directory's spelling counts, where only the case is another."""
        self.assertEqual(spelling(["x", "Fred"], "fred"), "Fred")
        self.assertEqual(spelling(["Fred", "fred"], "fred"), "fred")
        self.assertEqual(spelling(["freda"], "fred"), "")
        here = directory()
        self.assertEqual(here.name_of((OWN, {"uid": ("FRED",)}), "fred"), "FRED")
        self.assertEqual(here.name_of((OWN, {"uid": ("other",)}), "fred"), "")
        self.assertEqual(here.name_of((OWN, {"cn": ("other",)}), "fred"), "fred")

    def test_closed(self) -> None:
        """
        T-EAUTH-2: Active Directory says of a disabled or expired account that it is one, and only
        after the right password; of a locked one to anybody, who must not end its tokens.
        """
        words = "80090308: LdapErr: DSID-0C09042A, comment: AcceptSecurityContext error, data {}, v"
        for code, closed in ((533, True), (701, True), (775, False), ("52e", False), (5331, False)):
            self.assertEqual(closed_by(words.format(code)), closed, code)


class OptionTests(SynchronousTestCase):
    """What is asked, by the options."""

    def test_places(self) -> None:
        """Servers are those of the URI, in its order, or one by its name and port."""
        found = directory(uri="ldaps://a, ldap://b:3389").places
        self.assertEqual(
            [(each.host, each.port, each.encrypted) for each in found],
            [("a", 636, True), ("b", 3389, False)],
        )
        (found,) = directory(server="c", tls=True, port=1636).places
        self.assertEqual((found.url, found.encrypted), ("ldaps://c:1636", True))
        for odd in ("http://a", "ldap://", "ldap://a:x", "a"):
            with self.assertRaisesRegex(DirectoryError, "is not an address"):
                directory(uri=odd)
        with self.assertRaisesRegex(DirectoryError, "starttls is for ldap://"):
            directory(uri="ldaps://a", starttls=True)

    def test_bind(self) -> None:
        """A name in a DN is escaped as in a DN, one before a domain is not in a DN."""
        by_name = directory(binddn="uid={{ username }},ou=People", bindpw="", filter="")
        self.assertEqual(by_name.bind_dn("a,b"), "uid=a\\,b,ou=People")
        search = by_name.self_search("a,b")
        assert search is not None
        self.assertEqual((search.base, search.scope), ("uid=a\\,b,ou=People", 0))
        self.assertFalse(by_name.can_look)

        at = {"binddn": "{{ username }}@x.org", "bindpw": "", "accountattributename": "sAM"}
        self.assertEqual(directory(**at).bind_dn("o'neill"), "o'neill@x.org")
        self.assertIs(directory(**at).self_search("fred"), None)
        search = directory(activedirectory=True, **at).self_search("f*")
        assert search is not None
        self.assertEqual(search.filter, "(&(sAM=f\\2a)(objectClass=person))")

    def test_groups_of_mail_names(self) -> None:
        """Where the user's DN is not known, it is the name in a DN that tells his own entry."""
        here = directory(accountattributename="uid", groupou="")
        own = (f"uid=Fred,{BASE}", {"uid": ("Fred",), "cn": ("boss",), "memberof": ("cn=ops,x",)})
        self.assertEqual(here.groups("fred", "fred@x.org", [own]), ("ops",))

    def test_own_entry(self) -> None:
        """T-EAUTH-6: a user's own entry is no group, whatever name the user chose for it."""
        here = directory(accountattributename="uid", groupou="")
        own = (f"UID=fred, ou=People,{BASE}", {"uid": ("fred",), "cn": ("ops",)})
        group = (f"cn=web,ou=Groups,{BASE}", {"uid": ("fred",), "cn": ("web",)})
        private = (f"cn=fred,ou=Groups,{BASE}", {"uid": ("fred",), "cn": ("fred",)})
        other = (f"cn=dba,ou=Groups,{BASE}", {"uid": ("ann",), "cn": ("dba",)})

        self.assertEqual(here.groups("fred", OWN, [own, group, private, other]), ("fred", "web"))

    def test_freeipa(self) -> None:
        """FreeIPA's groups count where they have the user, by name or by DN."""
        here = directory(
            freeipa=True, group_basedn="cn=groups", group_filter="memberUid={{username}}"
        )
        self.assertEqual(here.group_search("a*", OWN).filter, "(memberUid=a\\2a)")
        rows = [
            ("cn=a,cn=groups", {"memberuid": ("fred",)}),
            ("cn=b,cn=groups", {"memberof": ("uid=fred,cn=users",)}),
            ("cn=c,cn=groups", {"memberuid": ("freda",), "memberof": ("cn=x,uid=fred",)}),
        ]
        self.assertEqual(here.groups("fred", OWN, rows), ("a", "b"))

    def test_templates(self) -> None:
        """A broken template is named with its option."""
        for option in ("filter", "binddn", "group_filter"):
            with self.assertRaisesRegex(
                DirectoryError, f"auth.ldap.{option} is not a valid template"
            ):
                directory(**{option: "{{ username "})
