"""
Logins through a directory (LDAP), without sockets: the queries, and the meaning of answers.

The options are those of stock's C{salt/auth/ldap.py}, C{auth.ldap.*}. A name that a user types is
always a value, and never a part of a filter or of a DN. L{saltwisted.worker.process.ldap} queries
the directory.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen
from jinja2 import Environment, TemplateError

MAX_GROUPS = 4096
_COMPARED = re.compile(r"([A-Za-z][A-Za-z0-9;.-]*)\s*=\s*\{\{\s*username\s*\}\}\s*(?=[),]|$)")
_DISABLED = re.compile(r"\bdata (533|701)\b")
"""What Active Directory says of a closed account, and only to who knows its password."""

Entry = tuple[str, Mapping[str, Sequence[str]]]
"""A DN, and values by the names of attributes in lower case."""


class DirectoryError(Exception):
    """The directory cannot be queried with these options; the text is for the master's log."""


@frozen(kw_only=True)
class Place:
    """One server. Without C{encrypted}, C{starttls} decides."""

    url: str
    host: str
    port: int
    encrypted: bool


@frozen(kw_only=True)
class Search:
    """One query: the base, the filter, and the wanted attributes."""

    base: str
    filter: str
    attributes: tuple[str, ...]
    scope: int = 2


def escape_filter(text: str) -> str:
    """A value in a filter (RFC 4515)."""
    return "".join(f"\\{ord(sign):02x}" if sign in "\\*()\0" else sign for sign in text)


def escape_dn(text: str) -> str:
    """A value in a DN (RFC 4514)."""
    found = "".join(
        f"\\{ord(sign):02x}" if ord(sign) < 32 else f"\\{sign}" if sign in ',+"\\<>;=' else sign
        for sign in text
    )
    if found[:1] in ("#", " "):
        found = "\\" + found
    if text.endswith(" ") and len(text) > 1:
        found = found[:-1] + "\\ "
    return found


def rendered(option: str, template: str, username: str, escape: Callable[[str], str]) -> str:
    """
    An option with C{{{ username }}} in it.

    @raises DirectoryError: it is not a valid template.
    """
    try:
        # Not HTML: the value is escaped for where it goes
        environment = Environment(autoescape=False)  # noqa: S701
        return environment.from_string(template).render(username=escape(username))
    except TemplateError as error:
        raise DirectoryError(f"auth.ldap.{option} is not a valid template: {error}") from None


def plain_name(username: str) -> bool:
    """
    Whether a name contains only what it seems to. Directories ignore spaces around a name and
    invisible characters, and so would let one person in under many names.
    """
    return (
        username == " ".join(username.split())
        and username == unicodedata.normalize("NFKC", username)
        and not any(unicodedata.category(sign) in ("Cc", "Cf", "Cn", "Co") for sign in username)
    )


def spelling(values: Iterable[str], username: str) -> str:
    """The directory's own spelling of a name that was typed; C{""} if it is another name."""
    found = [value for value in values if value.casefold() == username.casefold()]
    return username if username in found else (found or [""])[0]


def rdn_value(dn: str) -> str:
    """
    The value of the first part of a DN: C{ops} of C{cn=ops,ou=groups}. It is read with its
    escapes, so that a group that somebody may name at will does not seem to be another.
    """
    _, equals, rest = dn.partition("=")
    if not equals:
        return ""
    found = bytearray()
    at = 0
    rest = rest.lstrip(" ")
    while at < len(rest) and rest[at] not in ",+;":
        if rest[at] != "\\":
            found += rest[at].encode()
            at += 1
        elif re.fullmatch(r"[0-9A-Fa-f]{2}", rest[at + 1 : at + 3]):
            found.append(int(rest[at + 1 : at + 3], 16))
            at += 3
        else:
            found += rest[at + 1 : at + 2].encode()
            at += 2
    return found.decode(errors="replace").rstrip(" ")


def closed_by(message: str) -> bool:
    """Whether the answer to a bind says that the password is right and the account is not used."""
    return _DISABLED.search(message) is not None


class Directory:
    """The options in the form in which they are used."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """
        @param settings: the options C{auth.ldap.*} without these words, all of them; they go
            together (L{saltwisted.config.logins.ldap_faults}).
        @raises DirectoryError: an address or a template is none.
        """
        self._settings = settings
        self.starttls, self.no_verify = self._on("starttls"), self._on("no_verify")
        self.ca_file = self._text("ca_file")
        self.places = self._places()
        if self.starttls and any(place.encrypted for place in self.places):
            raise DirectoryError("auth.ldap.starttls is for ldap://, not for ldaps://")
        self.binddn, self.bindpw = self._text("binddn"), self._text("bindpw")
        self.anonymous = self._on("anonymous")
        self._filter = self._text("filter")
        self.serves = bool(self.binddn and self.bindpw)
        """Whether there is an account of the master's own with which it searches."""
        self.template = not self.serves and bool(self.binddn)
        """Whether the DN of a user is made of his name, and not searched for."""
        for option in ("binddn", "filter", "group_filter"):
            rendered(option, self._text(option), "x", escape_filter)

    def _text(self, name: str) -> str:
        value = self._settings[name]
        return "" if value is None else str(value)

    def _on(self, name: str) -> bool:
        return bool(self._settings[name])

    def _places(self) -> tuple[Place, ...]:
        """The servers in the order in which they are asked; a URI may name several."""
        scheme = "ldaps" if self._on("tls") else "ldap"
        given = self._text("uri") or f"{scheme}://{self._text('server')}:{self._text('port')}"
        found = []
        for url in given.replace(",", " ").split():
            try:
                parts = urlsplit(url)
                port = parts.port
            except ValueError:
                raise DirectoryError(f"auth.ldap.uri: {url} is not an address") from None
            if parts.scheme not in ("ldap", "ldaps") or not parts.hostname:
                raise DirectoryError(
                    f"auth.ldap.uri: {url} is not an address such as ldaps://ldap.example.com"
                )
            encrypted = parts.scheme == "ldaps"
            found.append(
                Place(
                    url=url,
                    host=parts.hostname,
                    port=port or (636 if encrypted else 389),
                    encrypted=encrypted,
                )
            )
        return tuple(found)

    @property
    def can_look(self) -> bool:
        """Whether the directory can be asked about a user whose password nobody has."""
        return self.serves or self.anonymous

    def bind_dn(self, username: str) -> str:
        """
        C{binddn} with the name in it: the user's DN, which may be C{NAME@DOMAIN} as well, or
        else that of the master's own account.
        """
        escape = escape_dn if "=" in self.binddn.split("{{", 1)[0] else str
        return rendered("binddn", self.binddn, username, escape)

    def user_search(self, username: str) -> Search:
        """The query that finds the user by name."""
        return Search(
            base=self._text("basedn"),
            filter=_closed(rendered("filter", self._filter, username, escape_filter)),
            attributes=(*self._names(), self._text("accountattributename")),
            scope=int(self._settings["scope"]),
        )

    def self_search(self, username: str) -> Search | None:
        """
        The query by which a user who is bound by a DN of the name finds the own entry; C{None}: it
        is impossible.
        """
        dn = self.bind_dn(username)
        if "=" in dn:
            return Search(base=dn, filter="(objectClass=*)", attributes=self._names(), scope=0)
        if not self._on("activedirectory"):
            return None
        account = self._text("accountattributename")
        person = self._text("persontype")
        return Search(
            base=self._text("basedn"),
            filter=f"(&({account}={escape_filter(username)})(objectClass={person}))",
            attributes=(account,),
        )

    def _names(self) -> tuple[str, ...]:
        template = self.binddn if self.template else self._filter
        return tuple(dict.fromkeys(_COMPARED.findall(template)))

    def name_of(self, entry: Entry, username: str) -> str:
        """
        The user's name as the directory spells it, so that one person has one name in rules, in
        tokens and on record. C{""} if the entry is somebody else's.
        """
        _, attributes = entry
        for name in (*self._names(), self._text("accountattributename")):
            values = attributes.get(name.lower())
            if values:
                return spelling(values, username)
        return username

    def group_search(self, username: str, dn: str) -> Search:
        """How the groups of a user are found, as stock finds them."""
        account = self._text("accountattributename")
        belongs = self._text("groupattribute")
        base = self._text("basedn")
        if self._on("activedirectory"):
            member = f"(&(member={escape_filter(dn)})(objectClass={self._text('groupclass')}))"
            return Search(base=base, filter=member, attributes=(account, "cn"))
        if self._on("freeipa"):
            return Search(
                base=self._text("group_basedn"),
                filter=_closed(
                    rendered("group_filter", self._text("group_filter"), username, escape_filter)
                ),
                attributes=(account, belongs, "cn"),
            )
        folder = self._text("groupou")
        return Search(
            base=f"ou={folder},{base}" if folder else base,
            filter=f"(&({account}={escape_filter(username)})"
            f"(objectClass={self._text('groupclass')}))",
            attributes=(account, "cn", belongs),
        )

    def groups(self, username: str, own: str, entries: Iterable[Entry]) -> tuple[str, ...]:
        """
        The names of the groups in such an answer.

        @param own: the user's DN. If users name their groups, stock also takes the user's own entry
            for a group: the user may choose its name, so it is not one.
        """
        account = self._text("accountattributename").lower()
        belongs = self._text("groupattribute").lower()
        folded = username.casefold()
        found: set[str] = set()
        for dn, attributes in entries:
            named = list(attributes.get("cn", ()))[:1]
            if self._on("activedirectory"):
                found.update(named)
            elif self._on("freeipa"):
                members = (*attributes.get(account, ()), *attributes.get(belongs, ()))
                if any(member_name(each).casefold() == folded for each in members):
                    found.add(rdn_value(dn))
            else:
                if _same_dn(dn, own) if "=" in own else rdn_value(dn).casefold() == folded:
                    found.update(rdn_value(each) for each in attributes.get(belongs, ()))
                elif username in attributes.get(account, ()):
                    found.update(named)
        return tuple(sorted(found - {""}))[:MAX_GROUPS]


def member_name(value: str) -> str:
    """A member's name, whether a group lists names or DNs."""
    return rdn_value(value) if "=" in value else value


def _same_dn(one: str, other: str) -> bool:
    """Whether two spellings are of one entry, as far as servers spell them differently."""
    return re.sub(r"\s*([,=])\s*", r"\1", one).casefold() == (
        re.sub(r"\s*([,=])\s*", r"\1", other).casefold()
    )


def _closed(text: str) -> str:
    """A filter with the parentheses that people leave out."""
    return text if text.startswith("(") else f"({text})"
