"""
T-PRIV-1: what a running daemon still may, and who may look into its memory.

Daemons are started as root with groups that they must lose, hence as root alone.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import pathlib
import pwd
import re
import resource
import shutil
import signal
import subprocess
import sys
from typing import Any
from unittest import skipIf

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from twisted.trial.unittest import SynchronousTestCase

from tests.harness import ROOT, OurMaster, OurMinion, scratch, until

USER = "nobody"
AS_USER = f"""
import os, pwd, sys
entry = pwd.getpwnam({USER!r})
os.setgroups([])
os.setgid(entry.pw_gid)
os.setuid(entry.pw_uid)
os.execv(sys.argv[1], sys.argv[1:])
"""
GROUPS = [0, 4, 27, 4711]
UNITS = pathlib.Path(ROOT) / "packaging" / "deb"


def family(pid: int) -> list[int]:
    """A process and all that come from it."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="ascii") as file:
            parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def status(pid: int) -> dict[str, list[str]]:
    """The lines of C{/proc/PID/status}, by name."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return {name: rest.split() for name, _, rest in (line.partition(":") for line in file)}


def memory(pid: int) -> bytes:
    """All that a process has in memory and may write to."""
    pieces = []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if match is not None:
                start, end = (int(each, 16) for each in match.groups())
                with contextlib.suppress(OSError, OverflowError, ValueError):
                    mem.seek(start)
                    pieces.append(mem.read(end - start))
    return b"\0".join(pieces)


def forms(path: str) -> dict[str, bytes]:
    """How a private key may lie in memory: as text, and its numbers in both orders of bytes."""
    with open(path, "rb") as file:
        text = file.read()
    key = load_pem_private_key(text, None)
    assert isinstance(key, RSAPrivateKey)
    numbers = key.private_numbers()
    found = {"text": text.splitlines()[5]}
    for name, number in (("p", numbers.p), ("q", numbers.q), ("d", numbers.d)):
        size = (number.bit_length() + 7) // 8
        found[f"{name} big"] = number.to_bytes(size, "big")
        found[f"{name} little"] = number.to_bytes(size, "little")
    return found


@skipIf(os.getuid() != 0, "only root can start what then gives its rights up")
class PrivilegeTests(SynchronousTestCase):
    """Real daemons."""

    def own(self, daemon: Any) -> None:
        """Start it as root, with groups, for another user."""
        for folder, folders, files in os.walk(daemon.root):
            for name in (".", *folders, *files):
                shutil.chown(os.path.join(folder, name), USER)
        before = os.getgroups()
        self.addCleanup(os.setgroups, before)
        os.setgroups(GROUPS)
        self.addCleanup(daemon.kill)

    def master(self, **options: Any) -> OurMaster:
        """A master for L{USER} that was started by root."""
        home = scratch(self)
        os.chmod(home, 0o755)
        master = OurMaster(home, user=USER, **options)
        self.own(master)
        return master

    def test_T_PRIV_1(self) -> None:
        """
        After the start the user's ids and groups are all that is left, in the daemon and in all
        that come from it: no group of root's, no way back, no capability.
        """
        master = self.master().up()
        master.run("pillar.show_pillar", "somebody")
        entry = pwd.getpwnam(USER)
        groups = {str(gid) for gid in os.getgrouplist(USER, entry.pw_gid)}

        processes = family(master.pid)

        self.assertGreaterEqual(len(processes), 2, "the daemon and what makes its workers")
        for pid in processes:
            now = status(pid)
            self.assertEqual(now["Uid"], [str(entry.pw_uid)] * 4)
            self.assertEqual(now["Gid"], [str(entry.pw_gid)] * 4)
            self.assertLessEqual(set(now["Groups"]), groups)
            for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                self.assertEqual(int(now[name][0], 16), 0, name)

    def test_T_PRIV_1_units(self) -> None:
        """The packaged masters have no capability, cannot gain one, and dump no core."""
        units = {}
        for path in UNITS.glob("*.service"):
            unit = configparser.RawConfigParser(strict=False)
            unit.optionxform = str  # type: ignore[assignment,method-assign]
            unit.read(path)
            units[path.name.split(".")[1]] = unit["Service"]
        self.assertEqual(len(units), 3)
        for name, service in units.items():
            self.assertEqual(service["LimitCORE"], "0", name)
            if name != "saltwisted-minion":
                self.assertEqual(service["User"], "saltwisted")
                self.assertEqual(service["CapabilityBoundingSet"], "")
                self.assertEqual(service["AmbientCapabilities"], "")
                self.assertEqual(service["NoNewPrivileges"], "yes")

    def test_T_PRIV_1_memory(self) -> None:
        """Who has the daemon's own user cannot read its memory, nor trace it; root can."""
        as_user = [sys.executable, "-c", AS_USER, sys.executable]
        master = self.master()
        # As systemd starts it: by who changes his user this is set by the kernel already
        master.argv = [*as_user, *master.argv[1:]]
        master.up()
        read = ["-c", "import sys; open(f'/proc/{sys.argv[1]}/mem', 'rb')", str(master.pid)]

        done = subprocess.run([*as_user, *read], capture_output=True, text=True, check=False)

        self.assertIn("PermissionError", done.stderr)
        self.assertGreater(len(memory(master.pid)), 1 << 20)

    def test_no_core(self) -> None:
        """T-PRIV-1: a master or a minion that dies of a signal leaves no core, at any limit."""
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        master = OurMaster(scratch(self), auto_accept=True)
        minion = OurMinion(scratch(self), master)
        for daemon in (master, minion):
            self.addCleanup(daemon.kill)
            daemon.up()
        master.ping_until("ours")
        for daemon in (minion, master):
            os.kill(daemon.pid, signal.SIGABRT)
            assert daemon.process is not None
            # 0x80 in what wait(2) says: a core was dumped
            _, how = os.waitpid(daemon.pid, 0)
            self.assertEqual((os.WTERMSIG(how), os.WCOREDUMP(how)), (signal.SIGABRT, False))
            daemon.process.returncode = -signal.SIGABRT
            self.assertEqual([n for n in os.listdir(daemon.home) if n.startswith("core")], [])

    def test_keys_of_workers(self) -> None:
        """
        No process but the daemon itself has its private key in memory: not the one that workers
        come from, not those that render pillars, judge passwords or run jobs.
        """
        home = scratch(self)
        users = os.path.join(home, "users")
        with open(users, "w", encoding="utf-8") as file:
            file.write("fred:secret\n")
        auth = {"file": {"^filename": users, "fred": [".*"]}}
        master = OurMaster(home, auto_accept=True, external_auth=auth)
        minion = OurMinion(home, master)
        for daemon in (master, minion):
            self.addCleanup(daemon.kill)
            daemon.up()
        master.ping_until("ours")
        master.run("pillar.show_pillar", "somebody")
        login = ("-a", "file", "--username", "fred", "--password", "secret")
        master.command("salt", *login, "--async", "ours", "test.sleep", "60", check=True)
        until("the job to run", lambda: len(family(minion.pid)) >= 3)

        for daemon, path in ((master, f"{master.pki}/master.pem"), (minion, minion_key(minion))):
            known = forms(path)
            # Idle workers end after some seconds; a daemon that stands still ends none
            os.kill(daemon.pid, signal.SIGSTOP)
            self.addCleanup(os.kill, daemon.pid, signal.SIGCONT)
            processes = family(daemon.pid)
            self.assertGreaterEqual(len(processes), 3, daemon.name)
            own = memory(processes[0])
            self.assertTrue(any(form in own for form in known.values()), "the search finds it")
            for pid in processes[1:]:
                text = memory(pid)
                self.assertGreater(len(text), 1 << 20)
                seen = [name for name, form in known.items() if form in text]
                self.assertEqual(seen, [], f"{daemon.name}: {status(pid)['Name']}")


def minion_key(minion: OurMinion) -> str:
    """Where its private key lies."""
    found = [
        os.path.join(folder, name)
        for folder, _, files in os.walk(minion.root)
        for name in files
        if name == "minion.pem"
    ]
    return found[0]
