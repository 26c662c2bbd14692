"""
Where states of firewalls, volumes and files do better than stock's.
"""

from __future__ import annotations

import io
import urllib.error
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from tests.modules import harness

RULE = {"chain": "INPUT", "proto": "tcp", "dport": 22, "jump": "ACCEPT"}


class MachineStates(SynchronousTestCase):
    """Each test names what stock does instead."""

    def setUp(self) -> None:
        self.patch(systools, "which", lambda name: f"/sbin/{name}")
        self.commands = harness.Commands()
        self.salt: dict[str, Any] = self.commands.salt()
        self.salt["cmd.run_stderr"] = lambda cmd, **_kw: self.commands.run_all(cmd)["stderr"]

    def _load(self, name: str, is_test: bool = False) -> Any:
        opts = {"test": is_test, "cachedir": "/nonexistent"}
        module = harness.load(name, salt=self.salt, opts=opts)
        if not name.startswith(".."):
            harness.connect(module)
        return module

    def test_deleteSeveral(self) -> None:
        """Several rules are deleted and then saved once; stock ends with a traceback."""
        self._load("iptables")
        self.salt["file.write"] = lambda path, text: f"wrote {path}"
        self.commands.answers["/sbin/iptables --help"] = "--wait --check"
        path = f"{self.mktemp()}/rules"
        rules = [{**RULE, "name": name, "save": path} for name in ("one", "two")]

        ret = self._load("../states/iptables").delete("all", rules=rules)

        self.assertEqual((ret["result"], ret["changes"]), (True, {"locale": ["one", "two"]}))
        self.assertEqual(self.commands.ran.count("/sbin/iptables-save"), 1)

    def test_aggregated(self) -> None:
        """The mark of an aggregated rule does not reach iptables; with stock's insert it does."""
        self._load("iptables")
        self.commands.answers["/sbin/iptables -t filter"] = 1
        self.commands.answers["/sbin/iptables --help"] = "--wait --check"
        states = self._load("../states/iptables")

        ret = states.insert("one", **RULE, position=1, __agg__=True)

        self.assertTrue(ret["result"])
        self.assertEqual([line for line in self.commands.ran if "agg" in line], [])

    def test_groupUnderTest(self) -> None:
        """Under test no device is added to a group that is there; stock adds it."""
        self._load("linux_lvm")
        self.commands.answers["vgdisplay"] = ":".join(["  vg", *"1234567890123456"])
        self.commands.answers["pvdisplay"] = ":".join(["  /dev/none", "", *"123456789"])

        ret = self._load("../states/lvm", is_test=True).vg_present("vg", devices="/dev/none")

        self.assertEqual((ret["result"], ret["changes"]), (None, {}))
        self.assertIn("/dev/none is set to be added to vg", ret["comment"])
        self.assertEqual([line for line in self.commands.ran if "vgextend" in line], [])

    def test_noInclude(self) -> None:
        """A file of logrotate that includes nothing is changed; stock ends with a traceback."""
        changes: list[Any] = []
        self.salt["file.replace"] = lambda **change: changes.append(change) or True
        path = Path(self.mktemp())
        path.write_text("rotate 4\n")

        self.assertTrue(self._load("logrotate").set_("rotate", 5, conf_file=str(path)))

        self.assertEqual([change["repl"] for change in changes], ["rotate 5"])

    def test_fileSystemSeenLater(self) -> None:
        """A file system that is seen only a little later is waited for, some seconds at a time."""
        path = Path(self.mktemp())
        path.touch()
        self.commands.answers["blkid"] = ["", "", "", "xfs"]
        self.salt["disk.format"] = lambda *_args, **_kwargs: True
        states = self._load("../states/blockdev")
        waited: list[float] = []
        self.patch(states, "time", SimpleNamespace(sleep=waited.append))

        ret = states.formatted(str(path), fs_type="xfs")

        self.assertEqual((ret["result"], waited), (True, [3, 3]))

    def test_serverStatus(self) -> None:
        """What Apache says of its work is numbers where it says numbers; no answer is an error."""
        apache = self._load("apache")
        said = b"Total Accesses: 12\nLoad1: 0.5\nServerVersion: Apache/2.4\nScoreboard: __W.\n"
        asked: list[str] = []

        def answer(url: str, timeout: float) -> io.BytesIO:
            asked.append(url)
            return io.BytesIO(said)

        self.patch(apache, "_opener", lambda *_args: SimpleNamespace(open=answer))
        found = apache.server_status()

        self.assertEqual(asked, ["http://localhost/server-status?auto"])
        self.assertEqual((found["Total Accesses"], found["Load1"]), (12, 0.5))
        self.assertEqual(found["ServerVersion"], "Apache/2.4")
        self.assertEqual([found["Scoreboard"][each] for each in "_W.K"], [2, 1, 1, 0])

    def test_noServer(self) -> None:
        """A server that does not answer is the word that stock has for it."""
        apache = self._load("apache")

        def refuse(url: str, timeout: float) -> io.BytesIO:
            raise urllib.error.URLError("refused")

        self.patch(apache, "_opener", lambda *_args: SimpleNamespace(open=refuse))

        self.assertEqual(apache.server_status(), "error")

    def test_noAttribute(self) -> None:
        """An attribute that is not there is not written; stock writes to its standard input."""
        self.assertIs(self._load("sysfs").write("no/such/thing", 1), False)
