"""
Grants of MySQL and MariaDB: what a text says, and which statement makes it so. Nothing is asked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from saltwisted.modules import _mysql
from saltwisted.worker.exceptions import SaltInvocationError

_WORDS = frozenset(
    """
    ALL PRIVILEGES|ALTER|ALTER ROUTINE|BACKUP_ADMIN|BINLOG_ADMIN|BINLOG ADMIN|BINLOG MONITOR
    BINLOG REPLAY|CONNECTION_ADMIN|CONNECTION ADMIN|CREATE|CREATE ROLE|CREATE ROUTINE
    CREATE TABLESPACE|CREATE TEMPORARY TABLES|CREATE USER|CREATE VIEW|DELETE|DELETE HISTORY|DROP
    DROP ROLE|ENCRYPTION_KEY_ADMIN|EVENT|EXECUTE|FEDERATED ADMIN|FILE|GRANT OPTION
    GROUP_REPLICATION_ADMIN|INDEX|INSERT|LOCK TABLES|PERSIST_RO_VARIABLES_ADMIN|PROCESS
    READ_ONLY ADMIN|REFERENCES|RELOAD|REPLICA MONITOR|REPLICATION CLIENT
    REPLICATION MASTER ADMIN|REPLICATION REPLICA|REPLICATION SLAVE|REPLICATION_SLAVE_ADMIN
    REPLICATION SLAVE ADMIN|RESOURCE_GROUP_ADMIN|RESOURCE_GROUP_USER|ROLE_ADMIN|SELECT|SET USER
    SET_USER_ID|SHOW DATABASES|SHOW VIEW|SHUTDOWN|SLAVE MONITOR|SUPER|SYSTEM_VARIABLES_ADMIN
    TRIGGER|UPDATE|USAGE|XA_RECOVER_ADMIN
    """.strip()
    .replace("\n", "|")
    .replace("| ", "|")
    .replace("  ", "")
    .split("|")
)
_SSL_VALUES = ("CIPHER", "ISSUER", "SUBJECT")
_SSL = (*_SSL_VALUES, "SSL", "X509")
_GRANT = re.compile(r"\s*([\w\s]*\w)\s*(?:\(([^)(]*)\))?\s*(,|$)")
_RENAMED = {
    "REPLICATION REPLICA": "REPLICATION SLAVE",
    "REPLICATION CLIENT": "BINLOG MONITOR",
    "REPLICA MONITOR": "SLAVE MONITOR",
}
"""What MariaDB 10.5 calls it when it tells of it."""


@frozen
class Privilege:
    """One privilege, perhaps on some columns only."""

    word: str
    columns: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As a statement has it."""
        columns = ", ".join(_mysql.quoted(each) for each in self.columns)
        return f"{self.word} ({columns})" if columns else self.word


def privileges(grant: str) -> list[Privilege]:
    """
    @raises SaltInvocationError: this is no list of privileges.
    """
    return list(_privileges(grant.strip()))


def _privileges(grant: str) -> Iterator[Privilege]:
    place = 0
    while place < len(grant):
        found = _GRANT.match(grant, place)
        word = " ".join(found[1].upper().split()) if found else grant[place:]
        word = "ALL PRIVILEGES" if word == "ALL" else word
        if found is None or word not in _WORDS:
            raise SaltInvocationError(f"Invalid grant : '{word}'")
        columns = (each.strip().strip("`") for each in (found[2] or "").split(","))
        yield Privilege(word, tuple(each for each in columns if each))
        place = found.end()


def target(database: str, is_escaped: bool = True) -> str:
    """C{database.table} as a statement names it; either may be C{*}."""
    place, _, table = database.rpartition(".")
    if is_escaped:
        place = place if place == "*" else _mysql.quoted(place, for_grants=table == "*")
        table = table if table == "*" else _mysql.quoted(table)
    else:
        place, table = place.replace("%", "%%"), table.replace("%", "%%")
    return f"{place}.{table}"


def requirement(options: Any, values: dict[str, Any]) -> str:
    """
    What a connection has to be like: C{REQUIRE ...}.

    @param values: those of the statement are put in.
    @raises SaltInvocationError: there is no such option.
    """
    words = []
    for option in options:
        ((key, value),) = option.items()
        word = str(key).strip().upper()
        if word not in _SSL:
            raise SaltInvocationError(f"Invalid SSL option : '{key}'")
        if word in _SSL_VALUES:
            values[word] = str(value)
            words.append(f"{word} %({word})s")
        elif value:
            words.append(word)
    return " REQUIRE " + " AND ".join(words) if words else ""


def tokens(grant: Any) -> dict[str, Any]:
    """The parts of a C{GRANT} statement, as Salt tells them."""
    found: dict[str, Any] = {"user": "", "host": "", "grant": [], "database": ""}
    if isinstance(grant, dict):
        given = grant.get("args", {})
        found |= {key: given.get(key, "undefined") for key in ("user", "host")}
        grant = grant.get("qry", "undefined").replace("%%", "%")
    lexer = shlex.shlex(grant)
    lexer.quotes, lexer.whitespace_split, lexer.commenters = "'`", False, ""
    lexer.wordchars += '"'
    words = list(lexer)[1:]
    on = words.index("ON") if "ON" in words else len(words)
    found["grant"] = _granted(words[:on])
    rest = words[on + 1 :]
    to = rest.index("TO") if "TO" in rest else len(rest)
    found["database"] = "".join(rest[:to])
    who = rest[to + 1 :]
    if not found["user"] and "@" in who:
        at = who.index("@")
        found["user"] = "".join(who[:at]).strip("'")
        found["host"] = "".join(who[at + 1 : at + 2]).strip("'")
    return found


def _granted(words: Sequence[str]) -> list[str]:
    """C{SELECT}, C{SHOW VIEW}; columns as C{SELECT.`id`}."""
    found: list[str] = []
    waiting: list[str] = []
    of = ""
    is_column = False
    for word in [*words, ","]:
        if word in (",", "(", ")"):
            if waiting:
                text = " ".join(waiting)
                found.append(f"{of}.{text}" if is_column else text)
                of = of if is_column else text
            waiting = []
            is_column = word == "(" or (is_column and word != ")")
        else:
            waiting.append(word)
    return found


def known(words: Sequence[str], version: str) -> list[str]:
    """Privileges as the server calls them."""
    if "MariaDB" not in version or numbers(version) < (10, 5, 1):
        return list(words)
    return [_RENAMED.get(each, each) for each in words]


def numbers(version: str) -> tuple[int, ...]:
    """C{10.11.4-MariaDB} as C{(10, 11, 4)}."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def bare(text: str) -> str:
    """Without what only quotes."""
    return text.replace('"', "").replace("\\", "").replace("`", "")
