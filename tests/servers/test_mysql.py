"""
MariaDB: bad input, secrets, and what stock cannot do.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.modules import _mysql, _mysql_grants
from saltwisted.worker.exceptions import SaltInvocationError
from tests.modules import harness
from tests.servers.mysql import MariaDb
from tests.servers.test_recorded import ServerTestCase

SCRIPT = """
-- a comment; with a semicolon
CREATE TABLE notes
  (id INT, /* one; two */ text VARCHAR(50));  # and the end;
INSERT INTO notes VALUES (1, 'a;b -- c'), (2, 'it''s');
SELECT text
FROM notes
ORDER BY id;
SELECT 5 AS five
"""


class WithoutServerTests(SynchronousTestCase):
    """What needs no server."""

    def test_noLibrary(self) -> None:
        """Without a client library the module says so in stock's words."""
        self.patch(_mysql, "driver", None)

        found = harness.load("mysql").__virtual__()

        self.assertEqual(found, (False, "No python mysql client installed."))

    def test_privileges(self) -> None:
        """What is no list of privileges is refused, whatever stands between the words (T-SQL-1)."""
        for odd in (
            "SELECT; DROP",
            "SELECT`",
            "SELECT ON a.* TO b",
            "FLY",
            "SELECT (a",
            "a,,b",
            "'",
        ):
            self.assertRaises(SaltInvocationError, _mysql_grants.privileges, odd)

        told = [each.text for each in _mysql_grants.privileges("select (a, `b`x`), ALL")]
        self.assertEqual(told, ["SELECT (`a`, `b``x`)", "ALL PRIVILEGES"])


class RealMariaDb(ServerTestCase):
    """One server for each test."""

    def setUp(self) -> None:
        super().setUp()
        self.needed(MariaDb)
        self.server = MariaDb()
        self.addCleanup(self.server.stop)
        self.server.start()

    def ret(self, functions: Any, state: str, /, **kwargs: Any) -> Any:
        """A state's result, whether there are changes, and its comment."""
        (part,) = functions["state.single"](state, **kwargs).values()
        return part["result"], bool(part["changes"]), part["comment"]

    def test_names(self) -> None:
        """
        Names and passwords with quotes and statements in them are taken for what they are
        (T-SQL-1): nothing else happens, and the second run changes nothing.
        """
        self.server.sql("CREATE DATABASE canary")
        odd = "x`'\"; DROP DATABASE canary; -- \\ %s"
        call = self.functions(self.server)
        grant = {"name": "g", "database": f"{odd}.*", "user": odd, "host": "%"}
        steps = [
            ("mysql_database.present", {"name": odd}),
            ("mysql_user.present", {"name": odd, "host": "%", "password": odd}),
            ("mysql_grants.present", {**grant, "grant": "SELECT,INSERT"}),
        ]

        first = [self.ret(call, name, **kwargs)[:2] for name, kwargs in steps]
        again = [self.ret(call, name, **kwargs)[:2] for name, kwargs in steps]
        login = call["mysql.verify_login"](odd, odd), call["mysql.verify_login"](odd, "other")
        refused = [
            self.ret(call, "mysql_grants.present", **{**grant, "grant": odd})[0],
            self.ret(call, "mysql_database.present", name="other", collate=odd)[0],
            call["mysql.plugin_add"](odd, odd),
            call["mysql.db_tables"](f"{odd}2"),
        ]
        self.assertRaises(
            SaltInvocationError, call["mysql.user_exists"], odd, "%", odd, password_column=odd
        )
        gone = [
            self.ret(call, "mysql_grants.absent", **grant, grant="SELECT")[:2],
            self.ret(call, "mysql_user.absent", name=odd, host="%")[:2],
            self.ret(call, "mysql_database.absent", name=odd)[:2],
        ]

        self.assertEqual((first, again), ([(True, True)] * 3, [(True, False)] * 3))
        self.assertEqual(login, (True, False))
        self.assertEqual((refused, gone), ([False] * 4, [(True, True)] * 3))
        self.assertIn("canary", self.server.sql("SHOW DATABASES"))

    def test_patterns(self) -> None:
        """A C{_} or C{%} in a name is no pattern: only the database of that name is meant."""
        call = self.functions(self.server)
        call["mysql.db_create"]("a_b")
        call["mysql.user_create"]("fred", password="word")
        call["mysql.grant_add"]("SELECT", "a_b.*", "fred")

        found = call["mysql.db_exists"]("a%"), call["mysql.db_exists"]("a_b")

        self.assertEqual((found, call["mysql.db_remove"]("%")), ((False, True), False))
        # The program doubles backslashes in what it prints
        self.assertIn("`a\\\\_b`.*", self.server.sql("SHOW GRANTS FOR fred@localhost"))

    def test_secrets(self) -> None:
        """A password is in no log and no comment, also when the server refuses (T-LOG-1)."""
        secret = "canary'w\\ord"
        logging.disable(logging.NOTSET)
        logged: list[str] = []
        handler = logging.Handler(1)
        handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
        root = logging.getLogger()
        self.addCleanup(root.setLevel, root.level)
        self.addCleanup(root.removeHandler, handler)
        root.addHandler(handler)
        root.setLevel(1)
        call = self.functions(self.server)
        user = {"name": "fred", "password": secret}

        rets = [
            self.ret(call, "mysql_user.present", **user),
            self.ret(call, "mysql_user.present", **user),
            self.ret(call, "mysql_user.present", name="x" * 200, password=secret),
            self.ret(call, "mysql_user.present", name="a", password_hash=secret),
            self.ret(call, "mysql_user.present", **user, connection_pass="canary"),
            self.ret(call, "mysql_user.present", name="b", password=secret, connection_user="no"),
        ]
        # Both drop what a server says of a statement that holds a secret
        call["mysql.user_create"]("c", password=secret, unix_socket="no", host="elsewhere")

        told = [(True, True), (True, False), *[(False, False)] * 4]
        self.assertEqual([ret[:2] for ret in rets], told)
        self.assertTrue(logged)
        self.assertNotIn("canary", json.dumps([rets, logged]))

    def test_file(self) -> None:
        """The statements of a file are run as they stand, and grains and files get the results."""
        call = self.functions(self.server)
        call["mysql.db_create"]("shop")
        path, into = Path(self.server.path("script.sql")), Path(self.server.path("out"))
        path.write_text(SCRIPT)

        found = call["mysql.file_query"]("shop", str(path))
        words = {"name": "q", "database": "shop", "query": "SELECT * FROM notes WHERE id = 1"}
        rets = [
            self.ret(call, "mysql_query.run", **words, output=str(into))[:2],
            self.ret(call, "mysql_query.run", **words, output=str(into), overwrite=False)[:2],
            self.ret(call, "mysql_query.run", **{**words, "query": "SELECT nosuch"}),
            self.ret(call, "mysql_query.run_file", name="f", database="shop", query_file=str(path)),
        ]

        self.assertEqual(found["results"], [[("a;b -- c",), ("it's",)], [("5",)]])
        self.assertEqual((found["rows affected"], found["rows returned"]), (2, 3))
        self.assertEqual(rets[:2], [(True, True), (True, False)])
        self.assertEqual(into.read_text(), "id:1\ntext:a;b -- c\n")
        self.assertEqual([ret[:2] for ret in rets[2:]], [(False, False)] * 2)
        self.assertIn("nosuch", rets[2][2])
        self.assertIn("already exists", rets[3][2])
