"""
What is read before a start, and where it says that a fault is.
"""

from __future__ import annotations

import errno
import socket

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.load import Loaded
from saltwisted.config.options import MasterConfig
from saltwisted.errors import ConfigError, PortError, StoreError
from saltwisted.roles import privileges
from saltwisted.roles.privileges import become
from saltwisted.roles.readings import Reading, problems, refuse
from saltwisted.transports.listening import cannot_listen, no_address, port_in_use


def failing(error: Exception) -> Reading:
    """A reading of C{interface} that fails."""

    def read(config: object) -> None:
        raise error

    return Reading("interface", read)


PLACES = {"interface": ("/etc/master", 3), "ssl": ("/etc/more", 7)}


def loaded() -> Loaded:
    """A configuration that was read from two files."""
    return Loaded(MasterConfig(), where=lambda *names: PLACES.get(names[0], (None, None)))


class ReadingTests(SynchronousTestCase):
    """Errors get their places."""

    def test_places(self) -> None:
        """
        The option that the text names counts, then that of the row; an error that knows its file
        keeps it, and what no file says has none.
        """
        errors = [
            ConfigError("interface: no"),
            ConfigError("ssl: no"),
            ConfigError("it is missing"),
            ConfigError("is no key", "/pki/key"),
            StoreError("is damaged", "/node"),
        ]

        found = [str(each) for each in problems([failing(each) for each in errors], loaded())]

        self.assertEqual(
            found,
            [
                "/etc/master:3: interface: no",
                "/etc/more:7: ssl: no",
                "/etc/master:3: it is missing",
                "/pki/key: is no key",
                "/node: is damaged",
            ],
        )

    def test_first(self) -> None:
        """A start ends with the first, and reads nothing after it."""
        rows = [failing(ConfigError("one")), failing(ConfigError("two"))]

        error = self.assertRaises(ConfigError, refuse, rows, loaded())

        self.assertEqual(error.reason, "one")


class ListeningTests(SynchronousTestCase):
    """What cannot be listened on."""

    def test_addresses(self) -> None:
        """Addresses of others, and names that nobody has, are told; ours, and all, are none."""
        for host in ("127.0.0.1", "0.0.0.0", "*", "::", ""):
            self.assertEqual(no_address(host), "", host)
        self.assertEqual(no_address("lo", devices=True), "")
        self.assertEqual(no_address("192.0.2.9"), "192.0.2.9 is no address of this machine")
        for host in ("nosuch0", "localhost"):
            self.assertIn("is neither an address nor", no_address(host, devices=True))

    def test_may_pass(self) -> None:
        """Only a port that is in use may be free a moment later; only then it is asked whose."""
        kinds = {
            errno.EADDRINUSE: PortError,
            errno.EADDRNOTAVAIL: ConfigError,
            errno.EACCES: ConfigError,
        }
        for number, kind in kinds.items():
            error = cannot_listen("10.9.9.9", 4505, OSError(number, "x"), "cannot listen", "who?")
            self.assertIs(type(error), kind, number)
            self.assertEqual("who?" in str(error), kind is PortError)
        text = str(cannot_listen("10.9.9.9", 1, OSError(errno.EADDRNOTAVAIL, "x"), "no", "who?"))
        self.assertEqual(text, "no on 10.9.9.9:1: 10.9.9.9 is no address of this machine")

    def test_in_use(self) -> None:
        """A port that somebody listens on is in use, and he hears nothing of the question."""
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            self.assertIn(
                f"127.0.0.1:{port}: Address already in use", port_in_use("127.0.0.1", port)
            )
            other.setblocking(False)
            self.assertRaises(BlockingIOError, other.accept)
        self.assertEqual(port_in_use("127.0.0.1", port), "")


class NumberTests(SynchronousTestCase):
    """A user that has only a number, as in a container."""

    def test_ours(self) -> None:
        """Who has it already needs no name; another number is nobody's."""
        self.patch(privileges.os, "geteuid", lambda: 47110815)

        become("47110815")

        error = self.assertRaises(ConfigError, become, "47110816")
        self.assertIn("'47110816' does not exist", str(error))
        error = self.assertRaises(ConfigError, become, "root")
        self.assertIn("started as '47110815'", str(error))
