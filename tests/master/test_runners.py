"""
Runners of Salt's that need no minion's process: match, network, survey.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.who import local
from tests.master.rig import Rig

MAC = "08:00:27:13:69:77"


class RunnerTestCase(SynchronousTestCase):
    """Calls runners of one master."""

    def setUp(self) -> None:
        self.rig = Rig(self)

    def call(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        """The whole answer."""
        call = self.rig.ctx.runner(fun, list(args), kwargs, local("root"))
        return self.successResultOf(Deferred.fromCoroutine(call))

    def know(self, minion: str, grains: dict[str, Any], pillar: dict[str, Any]) -> None:
        """An accepted minion, and what the master knows of it."""
        self.rig.ctx.keys.put("accepted", minion, b"a key\n")
        self.rig.ctx.cache.put("grains", minion, grains)
        self.rig.ctx.cache.put("pillar", minion, pillar)


class MatchTests(RunnerTestCase):
    """C{match.compound_matches}."""

    def setUp(self) -> None:
        super().setUp()
        self.know("web1", {"os": "Debian"}, {"secret": "abc"})
        self.rig.ctx.keys.put("accepted", "new", b"a key\n")

    def res(self, expr: Any, minion: Any) -> Any:
        """What it says."""
        return self.call("match.compound_matches", expr, minion)["return"]["res"]

    def test_matches(self) -> None:
        """A minion that is meant is named; others, and those that nothing is known of, are not."""
        self.assertEqual(self.res("G@os:Deb* and not db*", "web1"), "web1")
        self.assertEqual(self.res("web1", "web1"), "web1")
        self.assertIs(self.res("G@os:RedHat", "web1"), False)
        self.assertIs(self.res("web*", "web2"), False)
        self.assertIs(self.res("G@os:Debian", "new"), False)
        self.assertIs(self.res("S@10.0.0.0/8", "new"), False)
        self.assertEqual(self.res("new", "new"), "new")

    def test_removed(self) -> None:
        """A minion whose key is gone is not meant, whatever is still in the cache."""
        self.know("old", {"os": "Debian"}, {})
        self.assertEqual(self.res("G@os:Debian", "old"), "old")

        self.rig.ctx.keys.delete("old", ["accepted"])

        self.assertIs(self.res("G@os:Debian", "old"), False)

    def test_pillar_is_exact(self) -> None:
        """Pillar values cannot be spelt out by wildcards, one sign after another."""
        self.assertEqual(self.res("I@secret:abc", "web1"), "web1")
        self.assertIs(self.res("I@secret:a*", "web1"), False)
        self.assertIs(self.res("J@secret:a.*", "web1"), False)

    def test_odd(self) -> None:
        """What is no target or no id matches nothing, and says no more."""
        for expr, minion in (
            ("(", "web1"),
            (None, "web1"),
            ("*", "../web1"),
            ("*", 7),
            ({}, "web1"),
        ):
            self.assertIs(self.res(expr, minion), False, (expr, minion))

    def test_without_cache(self) -> None:
        """Where nothing is kept of minions nothing matches."""
        self.rig = Rig(self, minion_data_cache=False)
        self.rig.ctx.keys.put("accepted", "web1", b"a key\n")
        self.assertIs(self.res("*", "web1"), False)


class WakeTests(RunnerTestCase):
    """C{network.wol} and its like, to a socket on loopback."""

    def setUp(self) -> None:
        super().setUp()
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.sock.close)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.setblocking(False)
        self.where = {"bcast": "127.0.0.1", "destport": self.sock.getsockname()[1]}

    def got(self) -> list[bytes]:
        """All packets that came; on loopback they are there when they have been sent."""
        found = []
        while True:
            try:
                found.append(self.sock.recv(1000))
            except BlockingIOError:
                return found

    def packet(self, mac: str) -> bytes:
        """The packet for an address."""
        return b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16

    def test_one(self) -> None:
        """Addresses in all ways of writing are sent, also those that look like a number."""
        for mac in (MAC, "08-00-27-13-69-77", "080027136977", 80027136977):
            self.assertIs(self.call("network.wol", mac, **self.where)["return"], True)
            self.assertEqual(self.got(), [self.packet(MAC)])

    def test_wrong(self) -> None:
        """What is no address fails, and nothing is sent."""
        answer = self.call("network.wol", "08:00", **self.where)
        self.assertIs(answer["success"], False)
        self.assertEqual(self.got(), [])

    def test_list(self) -> None:
        """The addresses of a file are woken up."""
        path = os.path.join(self.rig.home, "macs")
        with open(path, "w") as file:
            file.write(f"{MAC}\n08:00:27:13:69:78\n")

        woken = self.call("network.wollist", path, **self.where)["return"]

        self.assertEqual(woken, [MAC, "08:00:27:13:69:78"])
        self.assertEqual(self.got(), [self.packet(mac) for mac in woken])

    def test_no_list(self) -> None:
        """A file that is no list is told of by an event, without what is in it."""
        path = os.path.join(self.rig.home, "secret")
        with open(path, "w") as file:
            file.write("secretsecret\n")

        self.assertEqual(self.call("network.wollist", path, **self.where)["return"], [])

        self.assertEqual(self.got(), [])
        said = str(self.rig.events)
        self.assertIn("Failed to open the MAC file. Error: Invalid MAC address", said)
        self.assertNotIn("'se'", said)

    def test_match(self) -> None:
        """Minions are woken up by their grains; nonsense in them stops nobody."""
        self.know("a1", {"hwaddr_interfaces": {"lo": "00:00:00:00:00:00", "eth0": "rubbish"}}, {})
        self.know("a2", {"hwaddr_interfaces": {"lo": "00:00:00:00:00:00", "eth0": MAC}}, {})
        self.know("a3", {"hwaddr_interfaces": 7}, {})

        answer = self.call("network.wolmatch", "a*", **self.where)

        self.assertEqual(answer["return"], [MAC])
        self.assertEqual(self.got(), [self.packet(MAC)])


class SurveyTests(RunnerTestCase):
    """C{survey.hash} and C{survey.diff}."""

    def setUp(self) -> None:
        super().setUp()
        self.loads: list[Any] = []
        answers = {"a": "x\ny", "b": "x\nz", "c": "x\ny"}

        async def run(load: Any, *given: Any, **how: Any) -> AsyncIterator[dict[str, Any]]:
            self.loads.append(load)
            yield {"kind": "published", "jid": "1", "minions": list(answers)}
            for minion, answer in answers.items():
                yield {"kind": "return", "id": minion, "data": {"return": answer}}

        self.patch(self.rig.ctx.dispatcher, "run", run)

    def test_hash(self) -> None:
        """Those that answered alike are together, the most first; C{survey_sort=up} turns it."""
        many = {"pool": ["a", "c"], "result": "x\ny"}
        few = {"pool": ["b"], "result": "x\nz"}

        down = self.call("survey.hash", "*", "cmd.run", "ls", cwd="/")["return"]
        up = self.call("survey.hash", "*", "test.ping", survey_sort="up", tgt_type="glob")["return"]

        self.assertEqual((down, up), ([many, few], [few, many]))
        load = self.loads[0]
        self.assertEqual((load["tgt_type"], load["fun"]), ("compound", "cmd.run"))
        self.assertEqual(load["arg"], ["ls", {"__kwarg__": True, "cwd": "/"}])
        self.assertEqual(self.loads[1]["tgt_type"], "compound")

    def test_diff(self) -> None:
        """The answers of all other groups are shown beside the first one's."""
        said: list[str] = []

        async def stream(item: Any) -> None:
            said.append(item.get("say", ""))

        call = self.rig.ctx.runner(
            "survey.diff", ["*", "test.ping"], {}, local("root"), stream=stream
        )
        self.successResultOf(Deferred.fromCoroutine(call))

        self.assertIn("--- a\n+++ b\n@@ -2 +2 @@\n-y\n+z\n", "\n".join(said))

    def test_too_few(self) -> None:
        """A survey of nothing says what it needs."""
        self.assertIs(self.call("survey.hash", "*")["success"], False)
