"""
What a machine asks the name servers, and for how long.
"""

from __future__ import annotations

import socket
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.grains.machine import SILENCE, Machine


class SilenceTests(SynchronousTestCase):
    """A resolver that takes its time."""

    def setUp(self) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self.takes = 10.0
        self.error: OSError = socket.gaierror(socket.EAI_AGAIN, "Temporary failure")
        for name in ("getaddrinfo", "gethostbyaddr", "getfqdn"):
            self.patch(socket, name, self.answering(name))
        self.machine = Machine(lambda: self.now)

    def answering(self, name: str) -> Any:
        """A function of the resolver that fails after a time."""

        def answer(*args: Any) -> Any:
            self.asked.append(name)
            self.now += self.takes
            raise self.error

        return answer

    def test_silent(self) -> None:
        """Name servers that are not there cost one wait, not one for each question."""
        name = self.machine.full_name()
        found = self.machine.resolve(name, socket.AF_INET) + self.machine.resolve(name, 10)
        reverse = self.machine.reverse_name("192.0.2.1")

        self.assertEqual((name, found, reverse), (socket.gethostname(), [], ""))
        self.assertEqual(self.asked, ["getaddrinfo"])
        self.now += SILENCE
        self.machine.resolve(name, socket.AF_INET)
        self.assertEqual(len(self.asked), 2)

    def test_silent_backwards(self) -> None:
        """A reverse look-up that nobody answers counts as well."""
        self.error = socket.herror(2, "Host name lookup failure")

        for number in range(5):
            self.machine.reverse_name(f"192.0.2.{number}")

        self.assertEqual(self.asked, ["gethostbyaddr"])

    def test_answered(self) -> None:
        """A slow "no such name", and a quick failure, are answers: the others are still asked."""
        self.error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        self.machine.resolve("a", socket.AF_INET)
        self.takes, self.error = 0.1, socket.gaierror(socket.EAI_AGAIN, "Temporary failure")
        self.machine.resolve("b", socket.AF_INET)
        self.machine.resolve("c", socket.AF_INET)

        self.assertEqual(len(self.asked), 3)
