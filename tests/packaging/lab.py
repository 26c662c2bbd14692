"""
Debian machines that boot: systemd as PID 1 in namespaces of its own, on a network host.

A machine is a layer over the base tree (L{tests.packaging.root}), so it is there in a second, and
nothing of it is left. There are no controllers of cgroups, so that limits of units are not
enforced; the network leads to the other machines of the test and nowhere else.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from tests.harness import until
from tests.interop.network import Host, Hub
from tests.packaging.root import Root, build

BOOT = r"""
r=$1
mount --make-rprivate /
mount --bind "$r" "$r"
mount -t proc proc "$r/proc"
mount -t sysfs -o ro sysfs "$r/sys"
mount -t tmpfs -o mode=755 tmpfs "$r/sys/fs/cgroup"
mkdir "$r/sys/fs/cgroup/systemd"
mount -t cgroup -o none,name=systemd,xattr systemd "$r/sys/fs/cgroup/systemd" ||
  mount -t cgroup -o none,name=systemd systemd "$r/sys/fs/cgroup/systemd"
mount -t tmpfs -o mode=755 tmpfs "$r/run"
mount -t tmpfs -o mode=755 tmpfs "$r/dev"
for d in null zero full random urandom tty; do
  touch "$r/dev/$d"
  mount --bind "/dev/$d" "$r/dev/$d"
done
mkdir "$r/dev/pts" "$r/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$r/dev/pts"
ln -s pts/ptmx "$r/dev/ptmx"
mount -t tmpfs tmpfs "$r/dev/shm"
ln -s /proc/self/fd "$r/dev/fd"
for n in 0:stdin 1:stdout 2:stderr; do ln -s "fd/${n%%:*}" "$r/dev/${n##*:}"; done
hostname "$2"
exec env -i container=systemd-nspawn container_uuid="$(cat /proc/sys/kernel/random/uuid)" \
  TERM=linux HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  chroot "$r" /lib/systemd/systemd --log-target=console --show-status=0
"""
BOOT_SECONDS = 60.0


@functools.cache
def packages() -> list[str]:
    """The packages of this checkout, built once: C{saltwisted-salt} and C{saltwisted}."""
    folder = tempfile.mkdtemp(prefix="swp", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return build(folder)


class Machine(Root):
    """
    One machine, booted.

    @param host: its place in the network.
    @ivar init: its systemd, as a process of ours.
    """

    def __init__(self, path: str, host: Host, test: unittest.TestCase) -> None:
        super().__init__(path)
        self.host = host
        self.name = os.path.basename(path)
        self.init = 0
        self._process: subprocess.Popen[bytes] | None = None
        test.addCleanup(self.drop)
        self.lay()
        # This network leads nowhere: what is needed has been fetched into the base tree
        self.write("etc/resolv.conf", "")
        self.write("etc/hosts", "127.0.0.1 localhost\n")
        self.write("etc/hostname", f"{self.name}\n")
        self.boot()

    def boot(self) -> None:
        """Start it, and wait until systemd has started all."""
        with open(f"{self.path}.boot", "wb") as log:
            self._process = subprocess.Popen(
                self.host.inside(
                    ["unshare", "-m", "-p", "-f", "-u", "-i", "--kill-child",
                     "sh", "-ec", BOOT, "sh", self.path, self.name]
                ),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until(f"{self.name} to boot", self._is_up, BOOT_SECONDS, every=0.1)

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(Path(f"{self.path}.boot").read_text(errors="replace"))
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        if not children.split():
            return False
        pid = int(children.split()[0])
        if Path(f"/proc/{pid}/comm").read_text().strip() != "systemd":
            return False
        self.init = pid
        said = subprocess.run(
            self.argv("systemctl", "is-system-running"),
            capture_output=True, text=True, check=False, env=self.environment,
        )  # fmt: skip
        return said.stdout.strip() in ("running", "degraded")

    def drop(self) -> None:
        """Pull the plug, and take it away."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
            if self.init:
                until("its end", lambda: not os.path.exists(f"/proc/{self.init}"), 10)
        super().drop()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.path}.boot")

    def argv(self, *words: str) -> list[str]:
        """How to run something in it."""
        if not self.init:
            return super().argv(*words)
        target = str(self.init)
        return ["nsenter", "-t", target, "-a", "--root", "--wd", *words]

    def offer(self, *debs: str) -> None:
        """Put packages where the pages have them."""
        os.makedirs(self.at("tmp/packages"), exist_ok=True)
        for deb in debs:
            shutil.copy(deb, self.at("tmp/packages"))

    def follow(self, command: str, allowed: tuple[int, ...] = (0,)) -> str:
        """
        One command of a page, in a shell; its output.

        @raises AssertionError: it leaves with another status.
        """
        done = subprocess.run(
            self.argv("bash", "-ec", command),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=300, check=False, env=self.environment,
        )  # fmt: skip
        if done.returncode not in allowed:
            raise AssertionError(
                f"{command}\nended with {done.returncode} on {self.name}:\n{done.stdout}\n"
                f"{self.logs()}"
            )
        return done.stdout

    def logs(self) -> str:
        """The state of our units, and the end of its journal."""
        outputs = []
        for words in (
            ("systemctl", "--no-pager", "-n", "20", "status", "saltwisted-*"),
            ("journalctl", "--no-pager", "-n", "60", "-o", "short-precise"),
        ):
            done = subprocess.run(
                self.argv(*words), capture_output=True, text=True, errors="replace", check=False,
                env=self.environment,
            )  # fmt: skip
            outputs.append(done.stdout)
        return "\n".join(outputs)

    def wait(self, command: str, text: str) -> None:
        """Repeat a command until its output has this text."""

        def has() -> bool:
            try:
                return text in self.follow(command, tuple(range(256)))
            except subprocess.TimeoutExpired:
                return False

        try:
            until(f"{text!r} from {command!r}", has, every=0.3)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    # -- units

    def shown(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.do("systemctl", "show", "--property", name, "--value", unit).strip()

    def pid(self, unit: str) -> int:
        """A unit's main process, as the machine counts; 0 while it has none."""
        return int(self.shown(unit, "MainPID"))

    def stop(self, *units: str) -> float:
        """Stop units; the seconds that it took."""
        began = time.monotonic()
        self.do("systemctl", "stop", *units)
        return time.monotonic() - began

    def processes(self, pattern: str) -> list[str]:
        """Command lines of processes that match."""
        listed = self.do("ps", "-eo", "user:32,args", "--no-headers").splitlines()
        return [line for line in listed if re.search(pattern, line) and "ps -eo" not in line]


def hub(test: unittest.TestCase, machines: int) -> list[Host]:
    """Network hosts that reach one another, gone after the test."""
    made = Hub(machines)
    test.addCleanup(made.remove)
    made.route()
    return made.hosts
