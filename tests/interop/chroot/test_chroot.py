"""
States on a real Debian in a directory: packages from apt, accounts, mounts, repositories ...

Every case is applied by ours, and its results, its exit codes and what it leaves behind must
be those of stock, as they were written down on such a machine; with C{SALTWISTED_LONG} stock runs
beside it.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import needs_peers
from tests.interop.chroot import cases
from tests.interop.differential.runner import explained

LONG = os.environ.get("SALTWISTED_LONG", "0") == "1"


@needs_peers
class ChrootTests(SynchronousTestCase):
    """Needs root, and C{debootstrap} for the first time."""

    timeout = 1800

    def check(self, group: str) -> None:
        """Compare the cases of one file; two at a time, each on a machine of its own."""
        known = cases.recorded()
        chosen = {
            name: case
            for name, case in cases.cases().items()
            if name.startswith(f"{group}/") and (LONG or not case.get("slow"))
        }
        self.assertTrue(chosen)

        def one(name: str) -> str:
            case = chosen[name]
            theirs = cases.stock(case) if LONG else known[name]
            ours = cases.apply("ours", case)
            return "" if ours == theirs else f"== {name}\n{explained(theirs, ours)}"

        with ThreadPoolExecutor(2) as pool:
            differing = [text for text in pool.map(one, chosen) if text]

        self.assertEqual(differing, [], "\n" + "\n".join(differing))

    def test_packages(self) -> None:
        """Packages are installed, upgraded, held, removed and purged, repositories managed."""
        self.check("pkg")

    def test_system(self) -> None:
        """Kernel parameters, zone, locale, alternatives, mounts, accounts, crontabs, services."""
        self.check("system")

    def test_files(self) -> None:
        """Archives, checkouts, ssh keys and Python packages."""
        self.check("files")

    def test_real_package(self) -> None:
        """C{pkg.installed} installs a package of Debian itself, from its mirror."""
        case: dict[str, Any] = {
            "net": True,
            "run": [
                "state.single pkg.installed hello",
                "!hello; dpkg-query -W -f '${Status}' hello",
                "state.single pkg.purged hello",
                "!test ! -e /usr/bin/hello",
            ],
        }

        first, seen, second, gone = cases.raw("ours", case)

        result = next(iter(json.loads(first["out"])["local"].values()))
        self.assertEqual((first["status"], result["result"]), (0, True), result)
        self.assertEqual(result["changes"]["hello"]["old"], "")
        self.assertIn("Hello, world!", seen["out"])
        self.assertIn("install ok installed", seen["out"])
        self.assertEqual((second["status"], gone["status"]), (0, 0), second)

    def test_stock_modules(self) -> None:
        """
        An SLS of stock's own states runs through our compiler as through stock's: x509,
        logrotate, acl, alias, debconf, apache, disk, loop, process, iptables and at, with the
        execution modules that they need.
        """
        self.check("stock")
