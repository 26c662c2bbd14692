"""
PostgreSQL: a server, and what is asked of it.
"""

from __future__ import annotations

import glob
import os
from typing import Any

from tests.servers.script import MISSING, Script, Server

_SCRAM = (
    "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=:"
    "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY="
)


class Postgres(Server):
    """A server on a socket in its directory; each role with a password has to prove itself."""

    user = "postgres"

    @classmethod
    def programs(cls) -> str:
        """Where Debian has them."""
        return max(glob.glob("/usr/lib/postgresql/*/bin"), default="")

    @classmethod
    def lacking(cls) -> str:
        return "" if os.access(f"{cls.programs()}/initdb", os.X_OK) else "postgresql"

    def start(self) -> None:
        bins, data, socket = self.programs(), self.owned("data"), self.owned("socket")
        self.run(f"{bins}/initdb", "-D", data, "-A", "trust", "--no-sync", "--locale=C.UTF-8")
        with open(f"{data}/pg_hba.conf", "w", encoding="utf-8") as file:
            file.write('local all "app:role" scram-sha-256\nlocal all all trust\n')
        self.launch(
            *(f"{bins}/postgres", "-D", data, "-k", socket, "-c", "listen_addresses="),
            *("-c", "fsync=off"),
        )
        probe = ("psql", "-qh", socket, "-c", "select 1", "postgres")
        self.wait(lambda: os.path.exists(f"{socket}/.s.PGSQL.5432") and self._answers(probe))
        self.options = {"postgres.host": socket, "postgres.bins_dir": bins}

    def _answers(self, probe: tuple[str, ...]) -> bool:
        try:
            return bool(self.run(f"{self.programs()}/{probe[0]}", *probe[1:]))
        except AssertionError:
            return False


def roles(script: Script) -> None:
    """Roles are made, changed, put into groups, given passwords, and removed."""
    call, twice, state = script.call, script.twice, script.state
    call("postgres.version")
    call("postgres.user_exists", "postgres")
    call("postgres.role_get", "nobody")
    call("postgres.user_create", "fred", createdb=True, rolepassword="word", connlimit=3)
    call("postgres.user_create", "fred")
    call("postgres.role_get", "fred", return_password=True)
    call("postgres.user_update", "fred", superuser=True, createdb=False, valid_until="2031-05-06")
    call("postgres.user_update", "fred", replication=True, inherit=False, login=False)
    call("postgres.role_get", "fred", return_password=True)
    call("postgres.user_update", "nobody", login=True)
    call("postgres.group_create", "ops", createroles=True)
    call("postgres.group_create", "with space")
    call("postgres.group_update", "ops", createdb=True)
    call("postgres.user_update", "fred", groups=["ops", "with space"])
    call("postgres.user_update", "fred", groups="nosuch")
    call("postgres.user_list")
    call("postgres.user_remove", "nobody")
    call("postgres.user_create", "mia", rolepassword=_SCRAM, encrypted="scram-sha-256")
    call("postgres.role_get", "mia", return_password=True)
    call("postgres.user_create", "bad", rolepassword="word", encrypted="rot13")
    call("postgres.user_create", "clear", rolepassword="word", encrypted=False)
    call("postgres.user_create", "odd", valid_until="tomorrow week")
    call("postgres.user_exists", "odd")
    call("postgres.group_remove", "ops")
    call("postgres.user_exists", "ops")

    twice("postgres_user.present", name="anna", password="a'b", createdb=True, groups="with space")
    twice("postgres_user.present", name="anna", password="new", valid_until="2032-01-02 03:04:05")
    twice("postgres_user.present", name="anna", login=False, superuser=True, replication=True)
    twice("postgres_user.present", name="anna", password=_SCRAM, encrypted="scram-sha-256")
    state("postgres_user.present", name="anna", password="again", refresh_password=True)
    twice("postgres_user.present", name="dash-ed", default_password="first")
    state("postgres_user.present", name="dash-ed", default_password="other")
    state("postgres_user.present", name="anna", groups="nosuch")
    state("postgres_user.present", name="eve", groups=["with space", "nosuch"])
    call("postgres.user_exists", "eve")
    state("postgres_user.present", name="eve", password="x", encrypted="rot13")
    twice("postgres_group.present", name="devs", createdb=True, password="x")
    twice("postgres_group.present", name="devs", createroles=True, groups=["with space"])
    call("postgres.role_get", "devs", return_password=True)
    call("postgres.role_get", "anna", return_password=True)
    twice("postgres_group.absent", name="devs")
    twice("postgres_user.absent", name="anna")
    state("postgres_user.absent", name="postgres")


def databases(script: Script) -> None:
    """Databases, tablespaces, schemas, languages and extensions come, change and go."""
    call, twice, state = script.call, script.twice, script.state
    space = script.server.owned("space")
    call("postgres.db_list")
    call("postgres.user_create", "owner-of")
    call("postgres.db_create", "one", owner="owner-of", encoding="UTF8", template="template0")
    call("postgres.db_create", "one")
    call("postgres.db_exists", "one")
    call("postgres.db_create", "two", encoding="KLINGON")
    call("postgres.db_create", "two", owner='o"o')
    call("postgres.db_create", "two", lc_ctype="x'y")
    call("postgres.db_alter", "one", owner="postgres")
    call("postgres.db_alter", "one")
    call("postgres.db_alter", "one", owner="nosuch")
    twice("postgres_database.present", name="shop", owner="owner-of", lc_collate="C.UTF-8")
    twice("postgres_database.present", name="shop", owner="postgres", encoding="utf8")
    state("postgres_database.present", name="shop", encoding="LATIN1")
    state("postgres_database.present", name="shop", lc_ctype="C")
    state("postgres_database.present", name="shop", owner="nosuch")
    state("postgres_database.present", name="bad", template="nosuch")
    call("postgres.psql_query", "select 1 as a, null as b, 'x,\"y' as c, e'l\\nm' as d")
    call("postgres.psql_query", "select 1 where false;")
    call("postgres.psql_query", "select nosuch")
    call("postgres.psql_query", "select date '2020-02-03' as d", maintenance_db="shop")

    tablespace = "postgres_tablespace.present"
    twice(tablespace, name="fast", directory=space, owner="owner-of")
    twice(tablespace, name="fast", directory=space, options={"seq_page_cost": "1.5"})
    call("postgres.tablespace_list")
    call("postgres.tablespace_exists", "fast")
    call("postgres.tablespace_alter", "fast", new_name="faster")
    call("postgres.tablespace_alter", "faster", reset_option="seq_page_cost")
    call("postgres.tablespace_alter", "fast", new_owner="postgres")
    call("postgres.tablespace_alter", "faster")
    call("postgres.tablespace_create", "lost", "/no/such/folder")
    state(tablespace, name="faster", directory="/elsewhere")
    twice("postgres_database.present", name="shop", tablespace="faster")
    twice("postgres_database.present", name="shop", tablespace="pg_default")
    twice("postgres_tablespace.absent", name="faster")

    call("postgres.schema_create", "shop", "till", owner="owner-of")
    call("postgres.schema_create", "shop", "till")
    call("postgres.schema_get", "shop", "till")
    call("postgres.schema_get", "shop", "nosuch")
    call("postgres.schema_list", "shop")
    call("postgres.schema_exists", "nosuch", "till")
    call("postgres.schema_remove", "shop", "nosuch")
    twice("postgres_schema.present", dbname="shop", name="stock room", owner="owner-of")
    state("postgres_schema.present", dbname="shop", name="x", owner="nosuch")
    twice("postgres_schema.absent", dbname="shop", name="stock room")
    state("postgres_schema.absent", dbname="nosuch", name="till")

    call("postgres.language_list", "shop")
    call("postgres.language_exists", "plpgsql", "shop")
    call("postgres.language_create", "klingon", "shop")
    call("postgres.language_remove", "klingon", "shop")
    state("postgres_language.present", name="plpgsql", maintenance_db="shop")
    state("postgres_language.present", name="klingon", maintenance_db="shop")
    state("postgres_language.absent", name="klingon", maintenance_db="shop")

    there = {"maintenance_db": "shop"}
    call("postgres.is_available_extension", "PLPGSQL")
    call("postgres.get_available_extension", "tablefunc")
    call("postgres.get_installed_extension", "plpgsql", **there)
    call("postgres.create_metadata", "tablefunc", **there)
    call("postgres.create_metadata", "plpgsql", ext_version="9.9", **there)
    call("postgres.create_metadata", "plpgsql", schema="public", **there)
    call("postgres.create_extension", "nosuch", **there)
    call("postgres.drop_extension", "nosuch", **there)
    twice("postgres_extension.present", name="tablefunc", schema="till", **there)
    twice("postgres_extension.present", name="tablefunc", schema="public", **there)
    state("postgres_extension.present", name="tablefunc", ext_version="77", **there)
    state("postgres_extension.present", name="nosuch", is_test=True, **there)
    state("postgres_extension.present", name="nosuch", **there)
    twice("postgres_extension.absent", name="tablefunc", **there)
    call("postgres.available_extensions", maintenance_db="nosuch")

    twice("postgres_database.absent", name="one")
    state("postgres_database.absent", name="nosuch")


def privileges(script: Script) -> None:
    """Privileges are granted, seen and revoked on each kind of object."""
    call, twice, state = script.call, script.twice, script.state
    for role in ("reader", "Writer", "crew"):
        call("postgres.user_create", role)
    call("postgres.db_create", "shop")
    there = {"maintenance_db": "shop"}
    # What makes tables is no query: psql does it beside
    server, bins = script.server, Postgres.programs()
    server.prepare = lambda: server.run(
        f"{bins}/psql", "-qh", server.path("socket"), "-c",
        "CREATE TABLE items (a int); CREATE SEQUENCE counter; CREATE VIEW seen AS SELECT 1;"
        """ CREATE TABLE "it'em" (a int); CREATE TABLE "it""em" (a int);"""
        """ CREATE TABLE "Two Words; x" (a int);"""
        " CREATE FUNCTION twice(i integer) RETURNS integer LANGUAGE sql AS 'select i * 2'",
        "shop",
    )  # fmt: skip
    call("!prepare")
    call("postgres.privileges_list", "items", "table", **there)
    call("postgres.has_privileges", "postgres", "items", "table", "ALL", **there)
    call("postgres.has_privileges", "reader", "items", "table", "SELECT", **there)
    call("postgres.privileges_grant", "reader", "items", "table", "SELECT,INSERT", **there)
    call("postgres.privileges_grant", "reader", "items", "table", "SELECT", **there)
    call("postgres.privileges_list", "items", "table", **there)
    call("postgres.has_privileges", "reader", "items", "table", "SELECT, INSERT", **there)
    call("postgres.privileges_grant", "public", "items", "table", "DELETE", **there)
    call("postgres.privileges_list", "items", "table", **there)
    call("postgres.privileges_revoke", "reader", "items", "table", "INSERT", **there)
    call("postgres.privileges_revoke", "reader", "items", "table", "INSERT", **there)
    call("postgres.privileges_grant", "reader", "items", "table", "FLY", **there)
    call("postgres.privileges_grant", "reader", "nosuch", "table", "SELECT", **there)
    call("postgres.privileges_grant", "nosuch", "items", "table", "SELECT", **there)
    call("postgres.privileges_grant", "reader", "crew", "group", "SELECT", **there)

    granted = {"result": True, "changes": {"reader": "Present"},
               "comment": "The privilege(s): SELECT have been granted to reader"}  # fmt: skip
    revoked = {"result": True, "changes": {"reader": "Absent"},
               "comment": "The privilege(s): SELECT have been revoked from reader"}  # fmt: skip

    def odd(name: str, first: Any = MISSING, has: Any = MISSING, last: Any = MISSING) -> None:
        """A table of a name that wants quotes: stock gives them in some of its statements only."""
        words = {"object_name": name, "object_type": "table", **there}
        select = {"name": "reader", "privileges": ["SELECT"], **words}
        call("postgres.privileges_list", name, "table", **there)
        state("postgres_privileges.present", **select, ours=first)
        call("postgres.has_privileges", "reader", name, "table", "SELECT", **there, ours=has)
        state("postgres_privileges.absent", **select, ours=last)

    odd("it'em", has=True, last=revoked)
    odd('it"em', first=granted, has=True, last=revoked)
    odd("Two Words; x", last=revoked)
    odd("Items")

    def both(**kwargs: object) -> None:
        twice("postgres_privileges.present", **kwargs, **there)
        twice("postgres_privileges.absent", **kwargs, **there)

    words = {"name": "reader", "object_name": "items", "object_type": "table"}
    both(**words, privileges=["UPDATE", "DELETE"])
    both(name="reader", object_name="counter", object_type="sequence", privileges=["USAGE"])
    both(name="reader", object_name="counter", object_type="sequence", privileges=["ALL"])
    both(name="reader", object_name="public", object_type="schema", privileges=["CREATE"])
    both(name="reader", object_name="shop", object_type="database", privileges=["CREATE"])
    both(name="reader", object_name="plpgsql", object_type="language", privileges=["USAGE"])
    both(
        name="reader",
        object_name="twice(integer)",
        object_type="function",
        privileges=["EXECUTE"],
    )
    both(name="reader", object_name="crew", object_type="group")
    call("postgres.privileges_list", "crew", "group", **there)
    call("postgres.privileges_list", "shop", "database", **there)
    call("postgres.privileges_list", "twice(integer)", "function", **there)
    state("postgres_privileges.present", **words, privileges=["FLY"], **there)
    state("postgres_privileges.present", **{**words, "object_name": "no"}, privileges=["SELECT"])


class Nowhere(Postgres):
    """A server that refuses: there is none."""

    def start(self) -> None:
        self.options = {
            "postgres.host": self.owned("socket"),
            "postgres.bins_dir": self.programs(),
            "postgres.pass": "secret",
        }


def refused(script: Script) -> None:
    """Every kind of call while the server does not answer."""
    call, state = script.call, script.state
    call("postgres.version")
    call("postgres.user_list")
    call("postgres.role_get", "fred")
    call("postgres.user_create", "fred", rolepassword="word")
    call("postgres.user_update", "fred")
    call("postgres.user_remove", "fred")
    call("postgres.db_list")
    call("postgres.db_create", "shop")
    call("postgres.db_alter", "shop", owner="fred")
    call("postgres.psql_query", "select 1")
    call("postgres.tablespace_create", "fast", "/srv")
    call("postgres.schema_create", "shop", "till")
    call("postgres.create_extension", "tablefunc")
    call("postgres.privileges_grant", "fred", "items", "table", "SELECT")
    state("postgres_user.present", name="fred", password="word")
    state("postgres_user.present", name="fred", password="word", is_test=True)
    state("postgres_user.absent", name="fred")
    state("postgres_group.present", name="crew")
    state("postgres_database.present", name="shop")
    state("postgres_database.absent", name="shop")
    state("postgres_schema.present", dbname="shop", name="till")
    state("postgres_extension.present", name="tablefunc")
    state("postgres_language.present", name="plperl", maintenance_db="shop")
    state(
        "postgres_tablespace.present",
        name="fast",
        directory="/srv",
        ours={"comment": "Failed to create tablespace fast"},
    )
    state(
        "postgres_privileges.present",
        name="fred",
        object_name="items",
        object_type="table",
        privileges=["SELECT"],
    )


SCRIPTS = {
    "postgres_refused": refused,
    "postgres_roles": roles,
    "postgres_databases": databases,
    "postgres_privileges": privileges,
}
