"""
A takeover beside a stock salt-api: its port becomes ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.document import parse
from saltwisted.config.options import MasterConfig
from saltwisted.errors import StoreError
from saltwisted.testing.ports import reserve_ports
from saltwisted.tools import daemons, takeover
from saltwisted.tools.ports import listener

LISTENING = """
import socket, sys
sock = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
sys.stdin.read()
"""


class ClientsTests(SynchronousTestCase):
    """What is said before the switch."""

    def told(self, **options: Any) -> list[str]:
        """Of clients of the API."""
        config = MasterConfig(**options)
        found = takeover.problems(config, takeover.Places.of(self.mktemp()), [], "")
        return [problem.text for problem in found if problem.id == "api-clients"]

    def test_no_clients(self) -> None:
        """An API without netapi_enable_clients does nothing, and the takeover says so."""
        for block in ("rest_cherrypy", "rest_twisted"):
            (text,) = self.told(**{block: {"port": 8000}})
            self.assertIn(f"{block} is set, but netapi_enable_clients names no client", text)
            some = {block: {"port": 8000}, "netapi_enable_clients": ["local"]}
            self.assertEqual(self.told(**some), [])
        self.assertEqual(self.told(), [])


class ReactorTests(SynchronousTestCase):
    """What is said of reactions to events of minions."""

    def told(self, **options: Any) -> list[str]:
        """Of entries of the reactor."""
        config = MasterConfig(**options)
        found = takeover.problems(config, takeover.Places.of(self.mktemp()), [], "")
        return [problem.text for problem in found if problem.id == "reactor"]

    def test_T_EVT_4_reactor(self) -> None:
        """
        T-EVT-4: entries for tags that minions cannot fire any more are named, with the line that
        lets them; those for hooks and files too, without one; others are not.
        """
        entries = [
            {"salt/custom/*": ["/srv/a.sls"]},
            {"salt/netapi/hook/deploy": ["/srv/b.sls"]},
            {"salt/minion/*/start": ["/srv/c.sls"]},
            {"site/*": ["/srv/d.sls"]},
            {"salt/other": {"sls": "/srv/e.sls"}},
        ]
        hooks, sites = self.told(reactor=entries)

        self.assertIn("salt/netapi/hook/deploy: comes from the master alone", hooks)
        self.assertNotIn("minion_events", hooks)
        self.assertIn("salt/custom/*, salt/other: minions cannot fire such tags any more", sites)
        pasted = parse(sites.partition("allows it: ")[2], "master")
        self.assertEqual(pasted, {"minion_events": {"*": ["*", "salt/custom/*", "salt/other"]}})
        self.assertEqual(self.told(reactor=entries[2:4]), [])
        self.assertEqual(self.told(reactor=entries[:1], **pasted), [])
        self.assertEqual(self.told(reactor="nonsense"), [])

    def test_T_EVT_4_file(self) -> None:
        """T-EVT-4: so are those of the file that C{reactor} names."""
        path = self.mktemp()
        with open(path, "w", encoding="utf-8") as file:
            file.write("- 'salt/custom/*': [/srv/a.sls]\n")
        (text,) = self.told(reactor=path)
        self.assertIn("salt/custom/*", text)


class SaltApiTests(SynchronousTestCase):
    """Without systemd: by the pid file."""

    def setUp(self) -> None:
        self.patch(daemons, "under_systemd", lambda: False)
        self.home = self.mktemp()
        os.makedirs(self.home)
        self.api, publish, ret = reserve_ports(3)
        self.options: dict[str, Any] = {
            "root_dir": "/",
            "publish_port": publish,
            "ret_port": ret,
            "pidfile": os.path.join(self.home, "master.pid"),
            "extra": {"api_pidfile": os.path.abspath(os.path.join(self.home, "api.pid"))},
        }
        self.child = subprocess.Popen(
            [sys.executable, "-c", LISTENING, str(self.api)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(self.end)
        assert self.child.stdout is not None
        self.child.stdout.readline()
        with open(os.path.join(self.home, "api.pid"), "w", encoding="utf-8") as file:
            file.write(str(self.child.pid))

    def end(self) -> None:
        """The pretended salt-api goes."""
        self.child.kill()
        self.child.wait()
        for stream in (self.child.stdin, self.child.stdout):
            assert stream is not None
            stream.close()

    def config(self, **options: Any) -> MasterConfig:
        """A stock master's."""
        return MasterConfig(**{**self.options, **options})

    def test_stopped(self) -> None:
        """The salt-api of a configuration that has one is stopped with its master."""
        block = {"port": self.api, "disable_ssl": True}
        daemons.stop_stock(self.config(rest_cherrypy=block), {}, "salt-master")

        self.child.wait(30)
        self.assertEqual(listener(self.api), "")

    def test_left(self) -> None:
        """A salt-api that the configuration does not name is nobody's business."""
        daemons.stop_stock(self.config(), {}, "salt-master")
        self.assertIsNone(self.child.poll())

    def test_somebody_else(self) -> None:
        """A port that somebody else keeps ends the takeover, with his name."""
        self.patch(daemons, "_wait", lambda condition, seconds: condition())
        self.patch(daemons, "api_pid", lambda config: 0)
        block = {"port": self.api}
        error = self.assertRaises(
            StoreError,
            daemons.stop_stock,
            self.config(rest_cherrypy=block),
            {},
            "salt-master",
        )
        self.assertIn(str(self.api), str(error))
