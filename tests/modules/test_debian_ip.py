"""
The network of Debian, where ours does better than stock.
"""

from __future__ import annotations

import os
import types
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from tests.modules import harness


class DebianIpTests(SynchronousTestCase):
    """C{ip} on a machine in a directory."""

    def setUp(self) -> None:
        self.root = Path(self.mktemp())
        for folder in ("network/interfaces.d", "network/if-up.d", "network/if-down.d", "ppp/peers"):
            (self.root / "etc" / folder).mkdir(parents=True)
        (self.root / "etc/default").mkdir()
        (self.root / "etc/hostname").write_text("machine\n")
        (self.root / "etc/resolv.conf").write_text("search old.org\nnameserver 10.0.0.1\n")
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.module = self.load()

    def load(self, **grains: Any) -> types.ModuleType:
        """The module, on this root."""

        def note(name: str, answer: Any) -> Any:
            def asked(*args: Any) -> Any:
                self.asked.append((name, args))
                return answer

            return asked

        names = ("pkg.install", "service.enable", "service.disable", "service.available")
        salt = {name: note(name, True) for name in names}
        salt["pkg.version"] = note("pkg.version", "")
        salt["file.set_mode"] = lambda path, mode: os.chmod(path, int(mode, 8))
        module = harness.load("debian_ip", salt=salt, grains={**harness.GRAINS, **grains})
        module.__dict__["_ROOT"] = str(self.root)
        return module

    def test_nothingUnderTest(self) -> None:
        """A forecast installs no packages and switches no services."""
        for kind, more in (("vlan", {}), ("bridge", {"ports": "a"}), ("pppoe", {"provider": "x"})):
            self.module.build_interface("e.5", kind, True, test=True, proto="dhcp", **more)
        ubuntu = self.load(osfullname="Ubuntu", osrelease="22.04")
        ubuntu.build_network_settings(test=True, enabled=False, hostname="x")

        self.assertEqual([name for name, _ in self.asked if name != "pkg.version"], [])

    def test_searched(self) -> None:
        """Domains to search are set once, and all other lines of resolv.conf stay as they are."""
        resolv = self.root / "etc/resolv.conf"
        wanted = {"enabled": True, "hostname": "machine.example.com", "search": "a.org b.org"}
        found = []
        for _ in range(3):
            shown = self.module.build_network_settings(**wanted)
            found.append(resolv.read_text())

        text = "domain example.com\nsearch a.org b.org\nnameserver 10.0.0.1\n"
        self.assertEqual(found, [text] * 3)
        self.assertIn("SEARCH=a.org b.org\n", shown)
        self.assertIn("SEARCH=a.org b.org\n", self.module.get_network_settings())

    def test_password(self) -> None:
        """The file of a provider, which holds a password, is for its owner alone."""
        given = {"provider": "line", "user": "kim", "password": "open sesame", "proto": "ppp"}

        self.module.build_interface("dsl", "pppoe", True, **given)

        path = self.root / "etc/ppp/peers/line"
        self.assertIn("password open sesame\n", path.read_text())
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)

    def test_routesOfVlan(self) -> None:
        """The routes of a VLAN are found where they were written."""
        routes = [{"ipaddr": "10.0.0.0", "netmask": 8, "gateway": "10.1.1.1"}]
        built = self.module.build_routes("eth0.5", routes=routes)

        self.assertEqual(self.module.get_routes("eth0.5"), built)

    def test_source(self) -> None:
        """Of files that are included a forecast shows what it would write."""
        forecast = self.module.build_interface("source", "source", True, source="x", test=True)

        self.assertIn("source x\n", forecast)
        self.assertEqual(
            self.module.build_interface("source", "source", True, source="x"), forecast
        )

    def test_netplan(self) -> None:
        """Where netplan rules, the module is not there: nobody would read what it writes."""
        self.patch(systools, "which", lambda name: f"/sbin/{name}")
        self.assertEqual(self.module.__virtual__(), "ip")
        (self.root / "etc/netplan").mkdir()

        loaded, reason = self.module.__virtual__()

        self.assertFalse(loaded)
        self.assertIn("netplan", reason)
        self.patch(systools, "which", lambda name: None)
        self.assertEqual(self.module.__virtual__(), "ip")

    def test_addresses(self) -> None:
        """An address of IPv6 may be named as on Red Hat."""
        one = {"proto": "static", "ipaddr": "10.0.0.5", "netmask": "255.0.0.0"}
        one.update(ipv6proto="static", ipv6netmask="64")

        shown = self.module.build_interface("e1", "eth", True, ipv6addr="2001:db8::5", **one)

        self.assertEqual(
            shown,
            self.module.build_interface("e1", "eth", True, ipv6ipaddr="2001:db8::5", **one),
        )
        self.assertIn("address 2001:db8::5", "".join(shown))
