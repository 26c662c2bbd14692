"""
The pages of C{docs/}, command by command, on machines that have what a reader has.

Each command in a shell block is done as it stands, placeholders filled in, or named here with
the reason why it is not. A page that gets another command fails until that is followed, too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import unittest

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import until
from tests.packaging.lab import Machine, hub, packages
from tests.packaging.pages import Reader
from tests.packaging.root import build_depends
from tests.packaging.test_deb import REASON


class ListTests(SynchronousTestCase):
    """What can be said without a machine."""

    def test_build_depends(self) -> None:
        """The page has a person install what the package says that its build needs."""
        command = Reader("quickstart.md").left[0]

        named = set(command.removeprefix("apt-get install -y ").split())

        self.assertEqual(named, {"build-essential", *build_depends()})


@unittest.skipIf(bool(REASON), REASON)
class PageTests(SynchronousTestCase):
    """Machines C{a} and C{b}, from the page for beginners to a cluster."""

    def setUp(self) -> None:
        self.scratch = tempfile.mkdtemp(prefix="swd", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)

    def machines(self, *names: str) -> list[Machine]:
        """Machines with these names."""
        hosts = hub(self, len(names))
        return [
            Machine(os.path.join(self.scratch, name), host, self)
            for name, host in zip(names, hosts, strict=True)
        ]

    def test_quickstart(self) -> None:
        """From a bare Debian with this checkout to a state, word by word, the build included."""
        (a,) = self.machines("a")
        a.copy_sources("root/saltwisted")

        self.quickstart(a)

    def test_to_cluster(self) -> None:
        """Operations, a cluster of two, its roots, and minions with two masters."""
        a, b = self.machines("a", "b")
        for machine in (a, b):
            machine.offer(*packages())
        a.follow(
            "apt-get install -y /tmp/packages/*.deb && systemctl start saltwisted-master && "
            "printf 'master: 127.0.0.1\\nid: web1\\n' >/etc/saltwisted/minion.d/master.conf && "
            "systemctl enable --now saltwisted-minion saltwisted-master"
        )
        a.wait("salt-key -L", "web1")
        a.follow("salt-key -y -a web1")
        a.wait("salt -t 5 web1 test.ping", "True")
        self.operations(a)
        self.cluster(a, b)

    def quickstart(self, machine: Machine) -> None:
        """All of it, from the directory of the sources."""
        page = Reader(
            "quickstart.md", {"packaging/deb/build": "cd /root/saltwisted && packaging/deb/build"}
        )
        page.to(machine, "saltwisted status")
        page.to(machine, "systemctl enable --now saltwisted-minion")
        machine.wait("salt-key -L", "web1")
        page.to(machine, "salt-key -y -a web1")
        machine.wait("salt -t 5 web1 test.ping", "True")
        self.assertIn("True", page.to(machine, "salt web1 test.ping"))
        page.to(machine, "salt web1 state.apply hello test=True")
        self.assertNotIn("Hello", machine.read("etc/motd"))
        page.follow(machine)
        self.assertEqual(machine.read("etc/motd"), "Hello from web1\n")
        page.finished()

    def operations(self, machine: Machine) -> None:
        """Status, doctor, reload, JSON logs, backup and restore, upgrade, a machine removed."""
        page = Reader("operations.md")
        page.to(machine, "saltwisted doctor")
        page.to(machine, "systemctl reload", (0,))
        page.follow(machine, 2)
        log = "log/saltwisted/master"
        until("JSON in the log", lambda: machine.read(f"var/{log}").strip().endswith("}"))
        self.assertIn("level", json.loads(page.follow(machine)))
        page.to(machine, "saltwisted restore --dry-run")
        page.to(machine, "systemctl start saltwisted-master")
        machine.wait("salt -t 5 web1 test.ping", "True")
        machine.follow("cp /tmp/packages/saltwisted_*_all.deb /root")
        before = machine.pid("saltwisted-minion")
        page.says = {"install -y ./": "install -y --reinstall /root/"}
        page.follow(machine)
        self.assertNotEqual(machine.pid("saltwisted-minion"), before)
        machine.wait("salt -t 5 web1 test.ping", "True")
        page.follow(machine)
        self.assertNotIn("web1", machine.follow("salt-key -l acc"))
        page.finished()
        # the next page goes on with this minion
        machine.wait("salt-key -L", "web1")
        machine.follow("salt-key -y -a web1")

    def cluster(self, a: Machine, b: Machine) -> None:
        """The second machine joins; roots and fail-over are tried on the two; one leaves."""
        b.follow("apt-get install -y /tmp/packages/*.deb")
        page = Reader("cluster.md")
        page.to(a, "saltwisted members")
        said = page.to(a, "saltwisted roots status")
        self.assertNotIn("suspended", said)
        token = re.search(r"\S{40,}", page.follow(a))
        assert token is not None
        page.says = {"TOKEN": token[0], "remove NODE": "remove b_master"}
        page.to(b, "saltwisted join --dry-run")
        page.follow(b)
        b.wait("saltwisted members", "serving")
        self.assertIn("a", page.follow(b))
        b.wait("salt -t 5 web1 test.ping", "True")
        page.to(a, "saltwisted members --drift", (0, 3))
        page.follow(a)
        self.roots(a, b)
        self.failover(a, b)
        self.assertIn("saltwisted leave", page.left[0])
        page.follow(b)
        # It is removed already: the page's other way is for one that will not come back
        page.follow(a, 1, (0, 1))
        for command in (
            "saltwisted rotate-identity --dry-run",  # asks a person; tests.cluster does it
            "saltwisted rotate-identity",
            "saltwisted takeover --switch --role cluster",
            "saltwisted token create",
            "saltwisted takeover --dry-run",
            "saltwisted takeover --merge TOKEN",
        ):
            page.skip(command)  # takeovers: tests.takeover
        page.finished()

    def roots(self, a: Machine, b: Machine) -> None:
        """An edit reaches the other; and the words for what seldom happens."""
        page = Reader("roots.md", {"PATH": "top.sls", "NODE": "b_master"})
        a.follow("echo 'base: {}' > /srv/salt/top.sls")
        page.to(a, "saltwisted roots sync --wait")
        self.assertEqual(b.read("srv/salt/top.sls"), "base: {}\n")
        self.assertIn("a", page.follow(a))
        page.to(a, "saltwisted roots conflicts")
        # There is no conflict and nothing is held: these say so
        page.follow(a, 5, (0, 1))
        page.to(a, "saltwisted members rights NODE read")
        b.wait("saltwisted members", "serving")
        self.assertIn("b_master: read, write, pillar", page.follow(a))
        b.wait("saltwisted members", "in step")
        page.finished()

    def failover(self, a: Machine, b: Machine) -> None:
        """The minion knows both; one is stopped."""
        page = Reader("failover.md")
        a.write(
            "etc/hosts",
            "127.0.0.1 localhost\n"
            f"{a.host.address} master1.example.com\n{b.host.address} master2.example.com\n",
        )
        a.follow("rm -f /etc/saltwisted/minion.d/master.conf; echo web1 > /etc/hostname")
        a.write("etc/saltwisted/minion.d/id.conf", "id: web1\n")
        page.to(a, "systemctl restart saltwisted-minion")
        for machine in (a, b):
            machine.wait("salt -t 5 web1 test.ping", "True")
        page.to(a, "systemctl restart saltwisted-minion")
        a.wait("saltwisted status --role minion", "serving")
        page.follow(a)
        page.finished()
