"""
One PostgreSQL server, asked through the program C{psql}.

Who it is and whom to be there comes from the call, else from C{postgres.host}, C{postgres.port},
C{postgres.user}, C{postgres.pass} and C{postgres.maintenance_db} of the configuration or pillar.
A password goes to the program by a file that only it can read, and statements that hold one go to
its standard input: neither is in a process title or in a log.
"""

from __future__ import annotations

import csv
import io
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from saltwisted.modules._injected import Injected
from saltwisted.modules._versions import order
from saltwisted.worker import systools
from saltwisted.worker.exceptions import SaltInvocationError

log = logging.getLogger("saltwisted.modules.postgres")

_USER = "postgres"
"""Who owns the server on this machine."""

Row = dict[str, str]


def program(salt: Any, name: str) -> str | None:
    """Where a program of PostgreSQL is: in C{postgres.bins_dir}, or where programs are."""
    folder = salt["config.option"]("postgres.bins_dir")
    found = systools.which(os.path.join(folder, name)) if folder else None
    return found or systools.which(name)


@contextmanager
def secret_file(salt: Any, text: str, owner: str | None) -> Iterator[str]:
    """A file with a secret that nobody but this user can read, as long as it is needed."""
    handle, path = tempfile.mkstemp(prefix="__salt.tmp.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if owner:
            salt["file.chown"](path, owner, "")
        yield path
    finally:
        os.unlink(path)


class Psql:
    """One server, as one role of it, in one database."""

    def __init__(
        self,
        space: dict[str, Any],
        user: str | None = None,
        host: str | None = None,
        port: Any = None,
        maintenance_db: str | None = None,
        password: Any = None,
        runas: str | None = None,
    ) -> None:
        """
        @param space: the globals of the module that asks.
        """
        self._salt = Injected(space).salt
        self._user, self._host, self._port = user, host, port
        self._database, self._password, self._runas = maintenance_db, password, runas

    def _option(self, name: str) -> Any:
        return self._salt["config.option"](f"postgres.{name}")

    def _command(self) -> list[str]:
        """The program and where it connects to."""
        cmd = [str(program(self._salt, "psql")), "--no-align", "--no-readline", "--no-psqlrc"]
        cmd += ["--no-password", "--quiet"]
        for word, given in (("user", self._user), ("host", self._host), ("port", self._port)):
            if value := given or self._option(word):
                cmd += [f"--{'username' if word == 'user' else word}", str(value)]
        return [*cmd, "--dbname", str(self._database or self._option("maintenance_db") or _USER)]

    def _login(self) -> str | None:
        """The line of a password file, if there is a password; it is for this connection only."""
        password = self._option("pass") if self._password is None else self._password
        if password is None or password == "":
            return None
        if "\n" in str(password):
            raise SaltInvocationError("A password of PostgreSQL is one line")
        return "*:*:*:*:" + str(password).replace("\\", "\\\\").replace(":", "\\:")

    def _run(self, words: list[str], **kwargs: Any) -> dict[str, Any]:
        host = self._host or self._option("host")
        runas = self._runas
        if runas is None and (not host or str(host).startswith("/")):
            runas = _USER
        kwargs |= {"reset_system_locale": False, "clean_env": True, "python_shell": False}
        kwargs["timeout"] = self._salt["config.option"]("postgres.timeout", default=0)
        if runas:
            kwargs["runas"] = runas
        run_all = self._salt["cmd.run_all"]
        line = self._login()
        if line is None:
            ret = run_all([*self._command(), *words], **kwargs)
        else:
            with secret_file(self._salt, line, runas) as path:
                ret = run_all([*self._command(), *words], env={"PGPASSFILE": path}, **kwargs)
        if ret.get("retcode", 0) != 0:
            log.error("Error connecting to Postgresql server")
        return dict(ret)

    def run(self, *statements: str) -> dict[str, Any]:
        """Statements that hold no secret: all of them happen, or none."""
        return self._run(["-c", "; ".join(statements)])

    def run_script(self, *statements: str) -> dict[str, Any]:
        """Many statements, too many for a command line: all of them happen, or none."""
        words = ["-v", "ON_ERROR_STOP=1", "--single-transaction", "-f", "-"]
        text = "".join(f"{each};\n" for each in statements)
        return self._run(words, stdin=text, stdin_raw_newlines=True)

    def run_secret(self, *statements: str) -> dict[str, Any]:
        """
        The same with secrets in them.

        What the server says to a mistake is short, for it would quote the statement.
        """
        words = [
            "-v",
            "ON_ERROR_STOP=1",
            "-v",
            "VERBOSITY=terse",
            "--single-transaction",
            "-f",
            "-",
        ]
        text = "".join(f"{each};\n" for each in statements)
        return self._run(words, stdin=text, stdin_raw_newlines=True, output_loglevel="quiet")

    def did(self, *statements: str) -> bool:
        """Whether statements could be run."""
        return bool(self.run(*statements)["retcode"] == 0)

    def rows(self, query: str, write: bool = False, is_secret: bool = False) -> list[Row]:
        """
        What a query finds; nothing if it could not be asked.

        @param is_secret: what it finds goes into no log.
        """
        text = f"COPY ({query.strip().rstrip(';')}) TO STDOUT WITH CSV HEADER"
        if write:
            text = f"START TRANSACTION READ WRITE; {text}; COMMIT TRANSACTION;"
        # Dates in one form, whatever the server's is
        more = {"output_loglevel": "quiet"} if is_secret else {}
        ret = self._run(["-v", "datestyle=ISO,MDY", "-c", text], **more)
        if ret["retcode"] > 0:
            return []
        return [dict(row) for row in csv.DictReader(io.StringIO(ret["stdout"]))]

    def version(self) -> str | None:
        """The server's version as it says it; C{None} if it does not answer."""
        query = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'server_version'"
        return str(self._run(["-c", query, "-t"])["stdout"]).partition("\n")[0] or None

    def is_before(self, version: str) -> bool | None:
        """Whether the server is older than this; C{None} if it does not answer."""
        found = self.version()
        if found:
            return order(found) < order(version)
        log.warning("Attempt to parse version of Postgres server failed. Is the server responding?")
        return None
