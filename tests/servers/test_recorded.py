"""
Our modules and states of servers answer as stock's, against the real servers.
"""

from __future__ import annotations

import functools
import json
import logging
import os
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.modules import _process
from saltwisted.worker.fileclient import file_client
from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.process.main import NoMaster
from tests.servers.record import VECTORS, answers, differences, prepared
from tests.servers.script import Server, configured
from tests.servers.scripts import SERVERS


class ServerTestCase(SynchronousTestCase):
    """Servers run as users of their own, so that only root can start them."""

    def setUp(self) -> None:
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.addCleanup(os.umask, os.umask(0o022))
        self.patch(os, "environ", {**os.environ, "SHELL": "/bin/sh"})
        # A login for each of hundreds of calls is most of their time, and always says the same.
        kept = functools.cache(_process.login_environment)
        self.patch(_process, "login_environment", lambda *args: dict(kept(*args)))

    def needed(self, kind: type[Server]) -> None:
        """Skip where there is no such server."""
        if os.geteuid() != 0:
            raise SkipTest("needs root: servers run as users of their own")
        if missing := kind.lacking():
            raise SkipTest(f"{missing} is not installed")

    def functions(self, server: Server) -> Any:
        """Our modules, with a server's configuration."""
        opts = load_from_disk("minion", configured(server)).config.as_opts()
        master = NoMaster()
        return Loaders(
            opts,
            grains=lambda: make_grains(opts),
            pillar={},
            master=master,
            fileclient=lambda: file_client(opts, master),
            stock=False,
        ).modules


class RecordedServers(ServerTestCase):
    """Each test runs one script."""

    def check(self, name: str) -> None:
        """Start the server, make all calls, and compare."""
        self.needed(SERVERS[name])
        script = prepared(name)
        self.addCleanup(script.server.stop)
        with open(os.path.join(VECTORS, f"{name}.json"), encoding="utf-8") as file:
            recorded = json.load(file)["answers"]

        found = answers(self.functions(script.server), script)

        self.assertEqual(len(recorded), len(script.calls), "the vectors are of another script")
        different = differences(script.calls, recorded, found)
        self.assertEqual(different, [], "\n" + "\n".join(different))

    def test_postgresRoles(self) -> None:
        """Roles of PostgreSQL are made, changed, given passwords and removed as by stock."""
        self.check("postgres_roles")

    def test_postgresClusters(self) -> None:
        """Debian's clusters of PostgreSQL are made, refused and removed as by stock."""
        self.check("postgres_clusters")

    def test_postgresDatabases(self) -> None:
        """Databases, tablespaces, schemas, languages and extensions are as with stock."""
        self.check("postgres_databases")

    def test_postgresPrivileges(self) -> None:
        """Privileges are granted, listed and revoked as by stock, on every kind of object."""
        self.check("postgres_privileges")

    def test_postgresRefused(self) -> None:
        """What a PostgreSQL server that does not answer leads to is what it does with stock."""
        self.check("postgres_refused")

    def test_mysqlUsers(self) -> None:
        """Users of MariaDB are made, given passwords and removed as by stock."""
        self.check("mysql_users")

    def test_mysqlDatabases(self) -> None:
        """Databases of MariaDB are made and removed, and statements run, as by stock."""
        self.check("mysql_databases")

    def test_mysqlGrants(self) -> None:
        """Privileges in MariaDB are granted, seen and revoked as by stock."""
        self.check("mysql_grants")

    def test_mysqlRefused(self) -> None:
        """What a MariaDB server that does not answer leads to is what it does with stock."""
        self.check("mysql_refused")

    def test_rabbitmq(self) -> None:
        """
        Users, virtual hosts, permissions and policies of RabbitMQ are as with stock.

        Each call starts an Erlang; L{tests.servers.test_rabbitmq} has a shorter one.
        """
        if os.environ.get("SALTWISTED_LONG") != "1":
            raise SkipTest("SALTWISTED_LONG is not set: a hundred calls of rabbitmqctl")
        self.check("rabbitmq")
