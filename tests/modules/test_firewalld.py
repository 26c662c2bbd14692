"""
The states of firewalld where ours do other than stock's, and beside the real firewalld.

The real one is asked where it is installed with C{dbus-daemon} and the test is run by root: the
daemons run in a network namespace, with a bus and a configuration of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError
from tests.modules import harness

ROOT = Path(__file__).resolve().parent.parent.parent


def _played(test: bool = True, **answers: Any) -> tuple[Any, list[str]]:
    """The state's module, and the functions that it has called."""
    called: list[str] = []

    def function(name: str) -> Callable[..., Any]:
        def answer(*args: Any, **kwargs: Any) -> Any:
            called.append(" ".join([name, *map(str, args)]))
            found = answers.get(name, [])
            if isinstance(found, Exception):
                raise found
            return found

        return answer

    class Salt(dict[str, Any]):
        def __missing__(self, name: str) -> Callable[..., Any]:
            return function(name.partition(".")[2])

    return harness.load("../states/firewalld", salt=Salt(), opts={"test": test}), called


class ForecastTests(SynchronousTestCase):
    """C{test=True} changes nothing, and what is wrong is said."""

    def test_newZone(self) -> None:
        """A zone that would be made is forecast; stock asks firewalld about it, which refuses."""
        state, called = _played(get_zones=["public"], default_zone="public")

        ret = state.present("new", ports=["22/tcp"], masquerade=True, default=True)

        self.assertEqual((ret["result"], ret["changes"]), (None, {}))
        for word in ("Configuration for 'new' will change:", "22/tcp", "masquerade:", "default:"):
            self.assertIn(word, ret["comment"])
        self.assertEqual(called, ["get_zones", "default_zone"])

    def test_newService(self) -> None:
        """A service that would be made is not; stock makes it, and brings all into force."""
        state, called = _played(get_services=["ssh"])

        ret = state.service("mine", ports=["1/tcp"])

        self.assertEqual(ret["result"], None)
        self.assertEqual(ret["changes"], {"ports": {"old": [], "new": ["1/tcp"]}})
        self.assertEqual(called, ["get_services"])

    def test_wrong(self) -> None:
        """Ports that are one text, and what forwards nothing, are refused before any change."""
        state, called = _played(False, get_zones=["public"], list_port_fwd=[])

        text = state.present("public", ports="22/tcp")
        forward = state.present("public", port_fwd=["22:2222"])
        service = state.service("ssh", ports="22/tcp")

        for ret in (text, forward, service):
            self.assertEqual((ret["result"], ret["changes"]), (False, {}))
        self.assertEqual(text["comment"], "Error: 'ports' must be a list of strings, not '22/tcp'")
        self.assertIn("'22:2222' is not a forwarded port", forward["comment"])
        self.assertEqual([line for line in called if line.startswith(("add", "new", "re"))], [])

    def test_refused(self) -> None:
        """What was done before firewalld refused is told, and is brought into force."""
        refused = CommandExecutionError("INVALID_SERVICE")
        state, called = _played(
            False, get_zones=["public"], get_masquerade=True, add_service=refused
        )

        ret = state.present("public", ports=["1/tcp"], services=["nope"])

        self.assertEqual((ret["result"], ret["comment"]), (False, "Error: INVALID_SERVICE"))
        self.assertEqual(ret["changes"], {"ports": {"old": [], "new": ["1/tcp"]}})
        self.assertEqual(called[-1], "reload_rules")


PROGRAM = """
import json, logging, subprocess, sys, time
from saltwisted.config.options import MinionConfig
from saltwisted.worker.process.loader import Loaders

logging.disable(logging.CRITICAL)
bus = subprocess.Popen(["dbus-daemon", "--system", "--nofork", "--nopidfile"])
wall = None
try:
    while subprocess.run(["dbus-send", "--system", "--dest=org.freedesktop.DBus", "/",
                          "org.freedesktop.DBus.ListNames"], stderr=subprocess.DEVNULL).returncode:
        assert bus.poll() is None
        time.sleep(0.05)
    wall = subprocess.Popen(["firewalld", "--nofork", "--nopid"], stderr=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL)
    while subprocess.run(["firewall-cmd", "--state"], capture_output=True).returncode:
        assert wall.poll() is None
        time.sleep(0.05)
    for state, is_test, args, kwargs in json.load(sys.stdin):
        opts = {**MinionConfig(id="m1", file_client="local").as_opts(), "test": is_test}
        grains = {"kernel": "Linux", "os": "Debian", "os_family": "Debian"}
        loaders = Loaders(opts, grains=grains, pillar={}, stock=False)
        is_state = state.endswith(("present", ".service"))
        table = loaders.states if is_state else loaders.modules
        try:
            print(json.dumps(table[state](*args, **kwargs)))
        except Exception as error:
            print(json.dumps(str(error)))
finally:
    for each in filter(None, (wall, bus)):
        each.terminate()
        each.wait()
"""
PRIVATE = """
set -e
mount -t tmpfs none /run
mkdir -p /run/dbus
cp -a /etc/firewalld /run/firewalld.etc
mount --bind /run/firewalld.etc /etc/firewalld
exec "$0" -c "$1"
"""


class RealTests(SynchronousTestCase):
    """The real firewalld."""

    def calls(self, calls: list[tuple[str, bool, list[Any], dict[str, Any]]]) -> list[Any]:
        """Make calls beside a firewalld of their own, and give their answers."""
        needed = ("firewalld", "firewall-cmd", "dbus-daemon", "dbus-send", "unshare")
        if os.getuid() != 0 or not all(systools.which(name) for name in needed):
            raise SkipTest(f"needs root and {', '.join(needed)}")
        done = subprocess.run(
            ["unshare", "-n", "-m", "sh", "-c", PRIVATE, sys.executable, PROGRAM],
            input=json.dumps(calls),
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_states(self) -> None:
        """Zones and services are forecast, set and left alone; what is refused changes nothing."""
        zone = {
            "masquerade": True,
            "block_icmp": ["echo-reply"],
            "ports": ["22/tcp", "25/tcp"],
            "port_fwd": ["80:443:tcp:10.0.0.2", "81:444:tcp"],
            "services": ["mine"],
            "sources": ["10.0.0.0/8"],
            "rich_rules": ["rule family=ipv4 source address='10.9.0.0/16' drop"],
        }
        less = {"ports": ["22/tcp"], "prune_ports": True, "prune_rich_rules": True}
        service = {"ports": ["4505/tcp", "4506/tcp"], "protocols": ["ospf"]}
        found = self.calls(
            [
                ("firewalld.service", True, ["mine"], service),
                ("firewalld.service", False, ["mine"], service),
                ("firewalld.service", False, ["mine"], service),
                ("firewalld.present", True, ["own"], zone),
                ("firewalld.present", False, ["own"], zone),
                ("firewalld.present", False, ["own"], zone),
                ("firewalld.present", True, ["own"], zone),
                ("firewalld.present", False, ["own"], less),
                ("firewalld.present", False, ["own"], less),
                ("firewalld.present", False, ["own"], {"ports": ["nonsense"]}),
                ("firewalld.present", False, ["own"], {"services": ["no such"]}),
            ]
        )

        self.assertEqual(
            [(ret["result"], bool(ret["changes"])) for ret in found],
            [
                (None, True),
                (True, True),
                (True, False),
                (None, False),
                (True, True),
                (True, False),
                (True, False),
                (True, True),
                (True, False),
                (False, False),
                (False, False),
            ],
            found,
        )

    def test_functions(self) -> None:
        """What runs and what is on disk are told apart; an unknown zone is firewalld's refusal."""
        found = self.calls(
            [
                ("firewalld.add_port", False, ["public", "9/udp"], {"permanent": False}),
                ("firewalld.list_ports", False, ["public"], {"permanent": False}),
                ("firewalld.list_ports", False, ["public"], {}),
                ("firewalld.make_permanent", False, [], {}),
                ("firewalld.list_ports", False, ["public"], {}),
                ("firewalld.list_all", False, ["public"], {}),
                ("firewalld.add_port_fwd", False, ["public", 8, 9, "tcp", "fe80::1"], {}),
                ("firewalld.list_port_fwd", False, ["public"], {}),
                ("firewalld.list_ports", False, ["no; reboot"], {}),
                ("firewalld.default_zone", False, [], {}),
            ]
        )

        forward = {
            "Source port": "8",
            "Protocol": "tcp",
            "Destination port": "9",
            "Destination address": "fe80::1",
        }
        self.assertEqual(found[:5], ["success", ["9/udp"], [], "success", ["9/udp"]])
        self.assertEqual(found[5]["public"]["ports"], ["9/udp"])
        self.assertEqual(found[6:8], ["success", [forward]])
        self.assertIn("INVALID_ZONE", found[8])
        self.assertEqual(found[9], "public")
