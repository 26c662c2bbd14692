"""
MariaDB: a server, and what is asked of it.
"""

from __future__ import annotations

import os
import shutil

from tests.servers.script import MISSING, Script, Server

_HASH = "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"
"""Of C{password}."""


class MariaDb(Server):
    """A server on a socket in its directory, whose C{root} needs no password."""

    user = "mysql"

    @classmethod
    def lacking(cls) -> str:
        return "" if shutil.which("mariadbd", path="/usr/sbin:/usr/bin") else "mariadb-server"

    def start(self) -> None:
        data, socket = self.owned("data"), f"{self.owned('socket')}/s"
        small = ("--innodb-buffer-pool-size=8M", "--innodb-log-file-size=4M")
        self.run(
            *("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db"),
            *("--auth-root-authentication-method=normal", "--skip-name-resolve", *small),
        )
        self.launch(
            *("/usr/sbin/mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={socket}"),
            *("--skip-networking", "--innodb-flush-log-at-trx-commit=0", *small),
            *(f"--pid-file={data}/pid", "--general-log", f"--general-log-file={data}/general"),
        )
        self.options = {"mysql.unix_socket": socket, "mysql.user": "root"}
        self.wait(lambda: os.path.exists(socket))

    def sql(self, statements: str) -> str:
        """Ask beside Salt."""
        socket = str(self.options["mysql.unix_socket"])
        words = ("mariadb", "--no-defaults", "-uroot", f"-S{socket}", "-NBe", statements)
        return self.run(*words)


class Nowhere(MariaDb):
    """A server that refuses: there is none."""

    def start(self) -> None:
        self.options = {"mysql.unix_socket": f"{self.owned('socket')}/s", "mysql.user": "root"}


def users(script: Script) -> None:
    """Users are made, given passwords, and removed."""
    call, twice, state = script.call, script.twice, script.state
    call("mysql.user_exists", "root")
    call("mysql.user_exists", "fred")
    call("mysql.user_create", "fred", password="word")
    call("mysql.user_create", "fred", password="word")
    call("mysql.user_create", "hash", "%", password_hash=_HASH)
    call("mysql.user_create", "open", "127.0.0.1", allow_passwordless=True)
    call("mysql.user_create", "none")
    call("mysql.user_create", "bad", password_hash="nohash")
    call("mysql.user_exists", "fred", password="word")
    call("mysql.user_exists", "fred", password="other")
    call("mysql.user_exists", "hash", "%", password="password")
    call("mysql.user_exists", "hash", "%", password_hash=_HASH)
    call("mysql.user_exists", "open", "127.0.0.1", passwordless=True)
    call("mysql.user_chpass", "fred", password="new")
    call("mysql.user_chpass", "fred", password_hash=_HASH)
    call("mysql.user_chpass", "fred", allow_passwordless=True)
    call("mysql.user_chpass", "fred", ours=False)
    call("mysql.user_chpass", "nobody", password="x")
    call("mysql.user_grants", "nobody")
    call("mysql.user_remove", "fred")
    call("mysql.user_exists", "fred")
    twice("mysql_user.present", name="anna", password="a'b\"c%")
    twice("mysql_user.present", name="anna", password="new")
    twice("mysql_user.present", name="anna", password_hash=_HASH)
    twice("mysql_user.present", name="anna", allow_passwordless=True)
    twice("mysql_user.present", name="open", host="10.%", allow_passwordless=True)
    state("mysql_user.present", name="fred")
    state("mysql_user.present", name="x" * 200, password="word")
    twice("mysql_user.absent", name="anna")
    call("mysql.verify_login", "hash", "wrong")


def databases(script: Script) -> None:
    """Databases are made, changed and removed; statements are run."""
    call, twice, state = script.call, script.twice, script.state
    call("mysql.db_exists", "shop")
    call("mysql.db_create", "shop", "utf8mb4", "utf8mb4_bin")
    call("mysql.db_create", "shop")
    call("mysql.db_create", "bad", "klingon")
    call("mysql.db_tables", "nosuch")
    call("mysql.db_remove", "nosuch")
    call("mysql.db_remove", "mysql")
    twice("mysql_database.present", name="till")
    twice("mysql_database.present", name="odd`name")
    state("mysql_database.present", name="bad", character_set="klingon")
    state("mysql_database.absent", name="nosuch")
    twice("mysql_database.absent", name="till")
    twice("mysql_database.absent", name="odd`name")
    call("mysql.query", "shop", "CREATE TABLE items (id INT, price DECIMAL(5,2))")
    call("mysql.query", "shop", "INSERT INTO items VALUES (1, 2.5), (2, NULL)")
    call("mysql.query", "shop", "SELECT * FROM items")
    call("mysql.query", "shop", "SELECT 'word' AS a")
    call("mysql.db_get", "shop")
    call("mysql.db_tables", "shop")
    call("mysql.db_list")
    call("mysql.user_list")
    call("mysql.db_check", "shop")
    was, now = ("utf8mb4", "utf8mb4_bin"), ("latin1", "latin1_swedish_ci")
    changes = {
        key: {"before": old, "now": new}
        for key, old, new in zip(("character_set", "collate"), was, now, strict=True)
    }
    twice(
        "mysql_database.present",
        name="shop",
        character_set="latin1",
        ours=(MISSING, {"changes": changes}, {"comment": "Database shop is already present"}),
    )
    for table in ("`it'em`", '`it"em`', "`it``em; x`"):
        call("mysql.query", "shop", f"CREATE TABLE {table} (id INT)")
        call("mysql.query", "shop", f"SELECT * FROM {table}")
    call("mysql.db_tables", "shop")
    for table in ("it'em", 'it"em', "it`em; x", "nosuch'; --"):
        call("mysql.db_check", "shop", table)
    call("mysql.query", "shop", "SELECT nosuch FROM items")
    call("mysql.query", "nosuch", "SELECT 1")
    call("mysql.query", "shop", "UPDATE items SET id = 3 WHERE id = 2")
    flags = {"name": "a", "database": "shop", "query": "DELETE FROM items"}
    state("mysql_query.run", **flags, is_test=True)
    state("mysql_query.run", **flags, client_flags="x")
    state("mysql_query.run", **{**flags, "database": "nosuch"})
    state("mysql_query.run", **flags, output="grain")
    state("mysql_query.run_file", name="a", database="shop", query_file="/no/such/file")


def grants(script: Script) -> None:
    """Privileges are granted, seen and revoked."""
    call, twice, state = script.call, script.twice, script.state
    call("mysql.db_create", "sh_op")
    call("mysql.query", "sh_op", "CREATE TABLE items (id INT, name TEXT)")
    call("mysql.user_create", "fred", password="word")
    call("mysql.user_create", "mia", "%", password="word")
    call("mysql.user_grants", "fred")
    for words in (
        ("SELECT,INSERT", "sh_op.*", "fred"),
        ("all", "sh_op.*", "mia", "%"),
        ("ALL PRIVILEGES", "*.*", "mia", "%"),
        ("select, Create View", "sh_op.items", "fred"),
        ("REPLICATION CLIENT", "*.*", "fred"),
        ("USAGE", "*.*", "fred"),
    ):
        call("mysql.grant_exists", *words)
        call("mysql.grant_add", *words)
        call("mysql.grant_exists", *words)
    columns = ("SELECT (id, name), UPDATE", "sh_op.items", "fred")
    call("mysql.grant_exists", *columns)
    call("mysql.grant_add", *columns, ours=True)
    call("mysql.grant_exists", *columns, ours=True)
    call("mysql.grant_exists", "SELECT", "sh_op.*", "fred")
    call("mysql.grant_exists", "DELETE", "sh_op.*", "fred")
    call("mysql.grant_exists", "SELECT", "sh_op.*", "nobody")
    call("mysql.grant_add", "FLY", "sh_op.*", "fred")
    call("mysql.grant_add", "SELECT", "sh_op.*", "nobody")
    call("mysql.user_grants", "mia", "%")
    call("mysql.grant_revoke", "INSERT", "sh_op.*", "fred")
    call("mysql.grant_revoke", "INSERT", "nosuch.*", "fred")
    for text in (
        "GRANT SELECT, INSERT ON testdb.* TO 'testuser'@'localhost'",
        "GRANT ALL PRIVILEGES ON `my\\_db`.* TO `u`@`%` WITH GRANT OPTION",
        "GRANT SELECT (`a`, `b`), CREATE TEMPORARY TABLES ON `d`.`t` TO 'u'@'%'",
        "GRANT USAGE ON *.* TO ''@'host.example'",
    ):
        call("mysql.tokenize_grant", text)
    call("mysql.quote_identifier", "a_b%c`d")
    call("mysql.quote_identifier", "a_b%c`d", True)
    words = {"name": "g", "grant": "select,update", "database": "sh_op.*", "user": "fred"}
    twice("mysql_grants.present", **words)
    twice("mysql_grants.present", **words, host="nowhere")
    twice("mysql_grants.absent", **words)
    twice("mysql_grants.present", **{**words, "grant": "ALL"}, grant_option=True)
    twice("mysql_grants.present", **{**words, "database": "*.*"}, ssl_option=[{"SSL": True}])
    done = {"result": True, "comment": "Grant DELETE on sh_op.* to fred@localhost has been added"}
    there = {**done, "comment": done["comment"].replace("has been added", "is already present")}
    twice(
        "mysql_grants.present",
        **{**words, "grant": "DELETE"},
        revoke_first=True,
        ours=(MISSING, {**done, "changes": {"g": "Present"}}, there),
    )
    state("mysql_grants.present", **{**words, "grant": "FLY"})


def refused(script: Script) -> None:
    """Every kind of call while the server does not answer."""
    call, state = script.call, script.state
    for name in ("version", "status", "slave_lag", "db_list", "user_list", "processlist"):
        call(f"mysql.{name}")
    call("mysql.query", "shop", "SELECT 1")
    call("mysql.db_exists", "shop")
    call("mysql.db_create", "shop")
    call("mysql.user_exists", "fred")
    call("mysql.grant_add", "SELECT", "shop.*", "fred")
    state("mysql_user.present", name="fred", password="word")
    state("mysql_user.absent", name="fred")
    state("mysql_database.present", name="shop")
    state("mysql_database.absent", name="shop")
    state("mysql_grants.present", name="g", grant="SELECT", database="shop.*", user="fred")
    state("mysql_grants.absent", name="g", grant="SELECT", database="shop.*", user="fred")
    state("mysql_query.run", name="q", database="shop", query="SELECT 1")


SCRIPTS = {
    "mysql_refused": refused,
    "mysql_users": users,
    "mysql_databases": databases,
    "mysql_grants": grants,
}
