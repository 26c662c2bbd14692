"""
SELinux: rules in what C{semanage} lists.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.exceptions import SaltInvocationError
from tests.modules import harness

FILES = """SELinux fcontext                                   type               Context

/                                                  directory          system_u:object_r:root_t:s0
/srv/x(/.*)?                                       all files          system_u:object_r:old_t:s0
/srv/x(/.*)?                                       regular file       system_u:object_r:new_t:s0
/srv/none                                          all files          <<None>>
/srv/it's                                          all files          u:object_r:t:s0
"""
PORTS = """SELinux Port Type              Proto    Port Number

http_port_t                    tcp      80, 81, 443, 8000-8010
dns_port_t                     udp      53
dns_port_t                     tcp      53
echo_port_t                    tcp      7
"""


class SelinuxTests(SynchronousTestCase):
    """C{selinux} over programs that are played."""

    def setUp(self) -> None:
        answers = {"semanage fcontext --list": FILES, "semanage port --list": PORTS}
        self.commands = harness.Commands(answers)
        self.module = harness.load("selinux", salt=self.commands.salt())

    def test_files(self) -> None:
        """A rule is found by its pattern, its kind of files and its type; other lines are none."""
        get = self.module.fcontext_get_policy
        name = "/srv/x(/.*)?"
        found = {
            "filespec": name,
            "filetype": "regular file",
            "sel_user": "system_u",
            "sel_role": "object_r",
            "sel_type": "new_t",
            "sel_level": "s0",
        }

        self.assertEqual(get(name, "f"), found)
        self.assertEqual(get(name)["sel_type"], "old_t")
        self.assertEqual(get(name, sel_type="new_t"), found)
        self.assertEqual(get("/srv/it's", "a")["sel_user"], "u")
        for args in ((name, "d"), ("/srv/x",), ("/srv/none",), (name, "f", "old_t")):
            self.assertIsNone(get(*args))
        self.assertRaises(SaltInvocationError, get, name, "z")

    def test_change(self) -> None:
        """A rule that is there, for any kind of files, is changed, another one is added."""
        self.module.fcontext_add_policy("/srv/x(/.*)?", "d", "t")
        self.module.fcontext_add_policy("/srv/x", sel_type="t")

        ran = [command for command in self.commands.ran if "--list" not in command]
        self.assertEqual(
            ran,
            [
                "semanage fcontext --modify --ftype d --type t /srv/x(/.*)?",
                "semanage fcontext --add --type t /srv/x",
            ],
        )

    def test_ports(self) -> None:
        """A port is found among several, by its whole number, its protocol and its type."""
        get = self.module.port_get_policy

        self.assertEqual(get("tcp/443")["sel_type"], "http_port_t")
        self.assertEqual(get("tcp/8000-8010")["sel_type"], "http_port_t")
        self.assertEqual(get("x", protocol="udp", port=53)["protocol"], "udp")
        self.assertEqual(get("tcp/7")["sel_type"], "echo_port_t")
        for args in (("tcp/8",), ("udp/443",), ("tcp/443", "dns_port_t")):
            self.assertIsNone(get(*args))
        self.assertRaises(SaltInvocationError, get, "icmp/5")

    def test_together(self) -> None:
        """Booleans of several states are set by one; those that persist are apart."""
        module = harness.load("../states/selinux", salt={}, opts={"test": False})

        def chunk(name: str, **more: Any) -> dict[str, Any]:
            return {"state": "selinux", "fun": "boolean", "name": name, "__id__": name, **more}

        first = chunk("a", value=True)
        rest = [chunk("b", value=False), chunk("c", value=True, persist=True)]
        rest.append(chunk("d", value=True, booleans=["e", {"f": False}]))
        rest.append({**chunk("g", value=True), "fun": "mode"})

        found = module.mod_aggregate(first, rest, {})

        self.assertEqual(found["booleans"], {"a": True, "b": False, "e": True, "f": False})
        self.assertEqual(["__agg__" in one for one in rest], [True, False, True, False])
