"""
Modules and states, played together, answer and do what stock's do.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from tests.modules.machineplays import VECTORS, perform
from tests.modules.plays import Play


class MachinePlays(SynchronousTestCase):
    """Each test performs one play of L{tests.modules.machineplays}."""

    def check(self, name: str, ours: str = "") -> None:
        """
        Perform, and compare answers, commands and calls with the record.

        @param ours: a regular expression of what is another on purpose.
        """

        def same(one: Any, other: Any) -> bool:
            first, second = (json.dumps(each, sort_keys=True) for each in (one, other))
            return one == other or bool(
                ours and re.sub(ours, "", first) == re.sub(ours, "", second)
            )

        with open(os.path.join(VECTORS, f"{name}.json"), encoding="utf-8") as file:
            recorded = json.load(file)["answers"]
        self.addCleanup(os.umask, os.umask(0o022))

        def patch(play: Play) -> None:
            self.patch(systools, "which", play.which)
            self.patch(systools, "which_bin", play.which_bin)

        play, found = perform(name, patch)

        calls = [call for call in play.calls if isinstance(call[0], str) or _looks(call[0])]
        self.assertEqual(len(found), len(recorded), "the vectors are of another script")
        different = [
            f"{call}\n  stock {theirs}\n  ours  {mine}"
            for call, theirs, mine in zip(calls, recorded, found, strict=True)
            if not same(theirs, mine)
        ]
        self.assertEqual(different, [], "\n" + "\n".join(different))

    def test_alias(self) -> None:
        """Aliases of mail are forecast, set, removed and refused as by stock."""
        self.check("alias")

    def test_iptables(self) -> None:
        """Every kind of rule is built in stock's words, and read; stock's commands change them."""
        self.check("iptables")

    def test_iptablesSave(self) -> None:
        """Rules are saved where stock saves them, without those that are filtered out."""
        self.check("iptables_save")

    def test_iptablesStates(self) -> None:
        """Rules, chains and policies are forecast, set, refused and saved as by stock."""
        self.check("iptables_states")

    def test_debianIp(self) -> None:
        """Interfaces, bonds, bridges, routes and names are defined for Debian as by stock."""
        self.check("debian_ip")

    def test_networkStates(self) -> None:
        """Interfaces and routes are forecast, configured, brought up and refused as by stock."""
        self.check("network_states")

    def test_dig(self) -> None:
        """Name servers are asked with stock's words, and their answers read as by stock."""
        self.check("dig")

    def test_selinux(self) -> None:
        """Modes, booleans, modules and rules of SELinux are read and set as by stock."""
        self.check("selinux")

    def test_selinuxStates(self) -> None:
        """Modes, booleans, modules and rules are forecast, set and refused as by stock."""
        self.check("selinux_states")

    def test_sysfs(self) -> None:
        """Attributes of the kernel's objects are read, listed and written as by stock."""
        self.check("sysfs")

    def test_xfs(self) -> None:
        """Programs of XFS are run with stock's words, and their answers are stock's."""
        self.check("xfs")

    def test_lvm(self) -> None:
        """Volumes are shown, made and removed with stock's commands, and its errors are ours."""
        self.check("lvm")

    def test_lvmStates(self) -> None:
        """Volumes are forecast, made, resized and refused as by stock."""
        self.check("lvm_states")

    def test_blockdev(self) -> None:
        """Block devices are tuned and formatted, or left alone, as by stock."""
        self.check("blockdev")

    def test_logrotate(self) -> None:
        """Settings of logrotate are read and changed as by stock, in blocks too."""
        # Stock's pattern also fits longer names, and ends at a brace in a script
        self.check("logrotate", r"pattern='[^']*', ")

    def test_dnsutil(self) -> None:
        """Hosts and zones are read and written as by stock, and dig is asked where it is needed."""
        self.check("dnsutil")

    def test_saltutilStates(self) -> None:
        """What came is a change, an error is told, and under test nothing is synced."""
        self.check("saltutil_states")

    def test_apache(self) -> None:
        """The server is asked with stock's commands, and files of configuration are stock's."""
        self.check("apache")

    def test_apacheDebian(self) -> None:
        """Sites, modules and configurations are enabled and disabled as by stock 3006."""
        self.check("apache_debian")

    def test_nftables(self) -> None:
        """Rules are built in stock's words; what is there is changed by its commands."""
        self.check("nftables")

    def test_nftablesStates(self) -> None:
        """Rules, chains, tables and policies are forecast, set and refused as by stock."""
        self.check("nftables_states")

    def test_firewalld(self) -> None:
        """firewall-cmd is asked in stock's words, and its answers are read as by stock."""
        self.check("firewalld")

    def test_firewalldStates(self) -> None:
        """Zones and services are forecast, set, left alone and refused as by stock."""
        self.check("firewalld_states")


def _looks(step: object) -> bool:
    """Whether a step only shows files."""
    return getattr(step, "__qualname__", "").startswith(("Play.read.", "Play.tree."))
