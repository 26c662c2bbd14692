"""
PostgreSQL: bad input, secrets, and where ours does what stock's only says.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.modules import _postgres_sql as sql
from tests.servers.postgres import Postgres
from tests.servers.test_recorded import ServerTestCase

WRAPPER = """#!/bin/sh
tr '\\0' ' ' < /proc/$$/cmdline >> {folder}/titles
env >> {folder}/titles
exec {bins}/psql "$@"
"""


class SqlTests(SynchronousTestCase):
    """Quoting and passwords, without a server."""

    def test_scram(self) -> None:
        """The example of RFC 7677 has its verifier, and is known by it; another password is not."""
        salt = bytes.fromhex("5b6d9967369ff0a31ad2fb2a9e5a2c48")
        stored = sql.scram("pencil", salt)

        self.assertTrue(sql.is_stored("user", "pencil", stored, "scram-sha-256"))
        self.assertFalse(sql.is_stored("user", "pen", stored, "scram-sha-256"))
        self.assertFalse(sql.is_stored("user", "pencil", None, "scram-sha-256"))
        self.assertNotEqual(sql.scram("pencil"), sql.scram("pencil"))

    def test_prepared(self) -> None:
        """Passwords are prepared as by RFC 4013; what it forbids stays as it is."""
        told = {"I\u00adX": "IX", "\u00aa": "a", "\u2168": "IX", "\u0007": "\u0007"}
        told |= {"\u0627\u0031": "\u0627\u0031", "a\u00a0b": "a b"}

        self.assertEqual({each: sql.prepared(each) for each in told}, told)


class RealPostgres(ServerTestCase):
    """One server for each test."""

    def setUp(self) -> None:
        super().setUp()
        self.needed(Postgres)
        self.server = Postgres()
        self.addCleanup(self.server.stop)
        self.server.start()

    def psql(self, statements: str, database: str = "postgres") -> str:
        """Ask beside Salt."""
        words = (f"{Postgres.programs()}/psql", "-qAth", self.server.path("socket"))
        return self.server.run(*words, "-v", "ON_ERROR_STOP=1", "-c", statements, database)

    def ret(self, functions: Any, state: str, /, **kwargs: Any) -> Any:
        """A state's result, whether there are changes, and its comment."""
        (part,) = functions["state.single"](state, **kwargs).values()
        return part["result"], bool(part["changes"]), part["comment"]

    def test_names(self) -> None:
        """
        Names, passwords and places with quotes and statements in them are taken for what they are
        (T-SQL-1): nothing else happens, and the second run changes nothing.
        """
        self.psql("CREATE TABLE canary (a int)")
        odd = "x\"'; DROP TABLE canary; --\\"
        call = self.functions(self.server)
        role = {"name": odd, "password": odd, "groups": [f"{odd}2"]}
        where = {"dbname": odd}
        there = {"name": odd, "maintenance_db": odd}
        steps = [
            ("postgres_group.present", {"name": f"{odd}2"}),
            ("postgres_user.present", {**role, "encrypted": "scram-sha-256"}),
            ("postgres_database.present", {"name": odd, "template": "template0"}),
            ("postgres_schema.present", {**where, "name": odd, "owner": odd}),
            ("postgres_privileges.present", {**there, "object_name": odd, "object_type": "schema",
                                             "privileges": ["USAGE", "CREATE"]}),
            ("postgres_privileges.present", {**there, "name": f"{odd}2", "object_name": odd,
                                             "object_type": "database", "privileges": ["CREATE"]}),
        ]  # fmt: skip

        first = [self.ret(call, name, **kwargs)[:2] for name, kwargs in steps]
        again = [self.ret(call, name, **kwargs)[:2] for name, kwargs in steps]
        refused = [
            call["postgres.tablespace_create"]("t", odd, options={odd: odd}),
            call["postgres.create_extension"](odd),
            call["postgres.language_create"](odd, odd),
            call["postgres.privileges_grant"](odd, odd, "function", "EXECUTE"),
            call["postgres.privileges_grant"](odd, "f(int); DROP TABLE canary", "function", "ALL"),
            self.ret(call, "postgres_user.present", name=odd, valid_until=odd)[0],
        ]
        gone = [
            self.ret(call, "postgres_schema.absent", **where, name=odd)[0],
            self.ret(call, "postgres_database.absent", name=odd)[0],
            self.ret(call, "postgres_user.absent", name=odd)[0],
        ]

        # The owner of a schema has all privileges on it
        self.assertEqual(first, [(True, True)] * 4 + [(True, False), (True, True)])
        self.assertEqual(again, [(True, False)] * 6)
        self.assertEqual((refused, gone), ([False] * 6, [True] * 3))
        self.assertEqual(self.psql("SELECT count(*) FROM canary"), "0\n")

    def test_backslashes(self) -> None:
        """A server that takes backslashes for escapes is told the same names (T-SQL-1)."""
        self.psql("ALTER DATABASE postgres SET standard_conforming_strings = off")
        self.psql('CREATE TABLE "a\\b" (a int); CREATE ROLE reader')
        call = self.functions(self.server)
        words = {"name": "reader", "object_name": "a\\b", "object_type": "table"}

        found = [
            self.ret(call, "postgres_privileges.present", **words, privileges=["SELECT"])[:2]
            for _ in range(2)
        ]

        self.assertEqual(found, [(True, True), (True, False)])

    def test_passwords(self) -> None:
        """
        A password with any characters logs in. It is in no process title, environment, file or
        log, nor in the server's log, also when a statement fails (T-LOG-1).
        """
        secret = "canary:w\\o'r\"d \u00aa$"
        folder = self.server.owned("bin")
        Path(folder, "psql").write_text(
            WRAPPER.format(folder=self.server.folder, bins=Postgres.programs())
        )
        os.chmod(f"{folder}/psql", 0o755)
        self.server.run("touch", f"{self.server.owned('own')}/titles")
        os.rename(self.server.path("own/titles"), self.server.path("titles"))
        self.server.options["postgres.bins_dir"] = folder
        logging.disable(logging.NOTSET)
        logged: list[str] = []
        handler = logging.Handler(1)
        handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
        root = logging.getLogger()
        old = root.level
        root.addHandler(handler)
        self.addCleanup(root.removeHandler, handler)
        root.setLevel(1)
        self.addCleanup(root.setLevel, old)
        call = self.functions(self.server)
        words = {"name": "app:role", "password": secret, "encrypted": "scram-sha-256"}

        rets = [
            self.ret(call, "postgres_user.present", **words),
            self.ret(call, "postgres_user.present", **words, groups=["nosuch"]),
            self.ret(call, "postgres_user.present", name="b", password=secret, groups="nosuch"),
            self.ret(call, "postgres_user.present", name="c", password=secret, encrypted=False),
            self.ret(call, "postgres_user.present", name="d", password=secret, valid_until="no"),
        ]
        login = {"user": "app:role", "maintenance_db": "postgres"}
        rows = [
            call["postgres.psql_query"]("SELECT current_user AS u", **login, password=each)
            for each in (secret, "wrong")
        ]

        self.assertEqual([ret[:2] for ret in rets], [(True, True), *[(False, False)] * 4])
        self.assertEqual(rows, [[{"u": "app:role"}], []])
        self.assertEqual(self.psql("SELECT rolname FROM pg_roles WHERE rolname ~ '^[bcd]$'"), "")
        titles = Path(self.server.path("titles")).read_text()
        self.assertIn("PGPASSFILE", titles)
        told = Path(self.server.path("log")).read_text() + titles + json.dumps([rets, logged])
        self.assertNotIn("canary", told)
        self.assertNotIn("SCRAM-SHA-256$", titles + json.dumps(logged))
        # Those of other tests have other names; ours are of this user, and gone
        passfiles = [word for word in titles.split() if word.startswith("PGPASSFILE=")]
        self.assertEqual([f for f in passfiles if os.path.exists(f.partition("=")[2])], [])

    def test_owner(self) -> None:
        """A new owner gets all that is in a database, or nothing; stock ends with a traceback."""
        call = self.functions(self.server)
        call["postgres.user_create"]("new-owner")
        call["postgres.db_create"]("shop")
        self.psql(
            'CREATE SCHEMA "my till"; CREATE TABLE "my till".items (a serial); CREATE VIEW v AS'
            " SELECT 1; CREATE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'select 1'; CREATE"
            " PROCEDURE p() LANGUAGE sql AS 'select 1'; CREATE AGGREGATE a(int) (SFUNC = int4pl,"
            " STYPE = int)",
            "shop",
        )
        words = {"name": "shop", "owner_recurse": True}

        found = [
            self.ret(call, "postgres_database.present", **words, owner="nosuch")[0],
            self.ret(call, "postgres_database.present", **words, owner="new-owner")[:2],
            self.ret(call, "postgres_database.present", **words, owner="new-owner")[:2],
        ]

        self.assertEqual(found, [False, (True, True), (True, False)])
        query = (
            "SELECT count(*) FROM (SELECT relowner AS o, relnamespace AS n FROM pg_class WHERE"
            " relkind IN ('r', 'v', 'S') UNION ALL SELECT proowner, pronamespace FROM pg_proc) x"
            " JOIN pg_namespace s ON s.oid = n JOIN pg_roles r ON r.oid = o WHERE nspname IN"
            " ('public', 'my till') AND rolname {} 'new-owner'"
        )
        self.assertEqual(self.psql(query.format("="), "shop"), "6\n")
        self.assertEqual(self.psql(query.format("<>"), "shop"), "0\n")

    def test_better(self) -> None:
        """What stock grants again each time, cannot do, or does under C{test=True}."""
        self.psql(
            "CREATE ROLE reader; CREATE TABLE items (a int); CREATE FUNCTION twice(i integer)"
            " RETURNS integer LANGUAGE sql AS 'select i * 2'; INSERT INTO items VALUES (1)"
        )
        call = self.functions(self.server)
        space = self.server.owned("space")
        items = {"name": "reader", "object_name": "items", "object_type": "table"}
        granted = "postgres_privileges.present"
        steps = [
            (granted, {**items, "privileges": ["SELECT"]}),
            (granted, {**items, "privileges": ["SELECT"], "grant_option": True}),
            (granted, {**items, "privileges": ["ALL"]}),
            (granted, {**items, "object_name": "twice(int)", "object_type": "function",
                       "privileges": ["EXECUTE"]}),
            ("postgres_tablespace.present", {"name": "fast", "directory": space}),
            ("postgres_tablespace.present", {"name": "fast", "directory": space, "owner": "reader",
                                             "options": {"seq_page_cost": 2}}),
            ("postgres_language.absent", {"name": "plpgsql", "maintenance_db": "template1"}),
        ]  # fmt: skip

        found = []
        for name, kwargs in steps:
            runs = [self.ret(call, name, **kwargs, test=is_test)[:2] for is_test in (True, False)]
            found.append([*runs, self.ret(call, name, **kwargs)[:2]])
        query = "WITH n AS (UPDATE items SET a = 2 RETURNING a) SELECT * FROM n"
        rows = call["postgres.psql_query"](query, write=True)

        usual = [(None, False), (True, True), (True, False)]
        refused = [(None, False), (False, False), (False, False)]
        # One spelling of a function's arguments is the server's own; and an extension needs plpgsql
        other = [(None, False), (True, True), (True, True)]
        self.assertEqual(found, [usual] * 3 + [other] + [usual] * 2 + [refused])
        self.assertEqual((rows, self.psql("SELECT a FROM items")), ([{"a": "2"}], "2\n"))

    def test_stays(self) -> None:
        """A database that cannot be removed keeps its privileges; one in use is removed."""
        call = self.functions(self.server)
        call["postgres.db_create"]("busy")
        before = call["postgres.db_list"]()["template1"]
        words = (f"{Postgres.programs()}/psql", "-qh", self.server.path("socket"), "busy")
        self.server.run("sh", "-c", f"{' '.join(words)} -c 'select pg_sleep(300)' >&- 2>&- &")

        refused = self.ret(call, "postgres_database.absent", name="template1")
        while self.psql("SELECT count(*) FROM pg_stat_activity WHERE datname = 'busy'") == "0\n":
            pass
        removed = self.ret(call, "postgres_database.absent", name="busy")

        self.assertEqual((refused[0], removed[:2]), (False, (True, True)))
        self.assertEqual(call["postgres.db_list"]()["template1"], before)
