"""
What the doctor says of a daemon that cannot start.
"""

from __future__ import annotations

import io
import json
import os
from contextlib import redirect_stdout
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli import check, doctor
from tests.harness import reserve_ports, scratch, write_config


class StartTests(SynchronousTestCase):
    """A master that does not run."""

    def setUp(self) -> None:
        self.home = scratch(self)
        publish, ret = reserve_ports(2)
        self.values: dict[str, Any] = {
            "id": "one",
            "root_dir": self.home,
            "interface": "127.0.0.1",
            "publish_port": publish,
            "ret_port": ret,
            "log_file": f"{self.home}/log",
        }

    def said(self, command: Any, *words: str) -> tuple[int, str]:
        """The status and the output of a command."""
        write_config(f"{self.home}/conf/master", self.values)
        out = io.StringIO()
        with redirect_stdout(out):
            status = command.main(["-c", f"{self.home}/conf", "--role", "master", *words])
        return status, out.getvalue()

    def test_no_start(self) -> None:
        """
        With a configuration that stops the start, the doctor says so, with file and line, and does
        not say that the daemon should be started; with a sound one it does.
        """
        commands = []
        for interface in ("127.0.0.1", "10.9.9.9"):
            self.values["interface"] = interface
            findings = json.loads(self.said(doctor, "--json")[1])["findings"]
            found = {one["id"]: one for one in findings}
            commands.append(found["daemon.down"]["command"])

        self.assertIn("--role master", commands[0])
        self.assertFalse(commands[1])
        (reason,) = found["config.broken"]["evidence"]
        self.assertEqual(
            reason,
            f"{self.home}/conf/master:3: interface: 10.9.9.9 is no address of this machine",
        )

    def test_check(self) -> None:
        """C{check} leaves with 0, 3 and 1, and writes nothing below the root of the master."""
        for change, status, words in (
            ({}, 0, "nothing is wrong"),
            ({"tiemout": 5}, 3, "conf/master:7: unknown option"),
            ({"transport": "udp"}, 1, "use zeromq or tcp"),
        ):
            self.values |= change
            found = self.said(check)
            self.assertEqual(found[0], status, found[1])
            self.assertIn(words, found[1])
        self.assertEqual(os.listdir(self.home), ["conf"])
