"""
Machines on which the pages of C{docs/} are tried: a Debian root and a network host for each.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.harness import ROOT, until
from tests.interop.network import Host, Hub
from tests.packaging.root import Root, build

PAGES = Path(ROOT, "docs")
SHIM = Path(__file__).with_name("systemctl.py")
PEERS = os.environ.get("SALTWISTED_PEERS", "")


@functools.cache
def packages() -> list[str]:
    """The packages of this checkout, built once: C{saltwisted-salt} and C{saltwisted}."""
    folder = tempfile.mkdtemp(prefix="swp", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return build(folder)


def commands(page: str) -> Iterator[str]:
    """Every command of a page's shell blocks; a here-document belongs to its command."""
    text = (PAGES / page).read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        whole: list[str] = []
        end = ""
        for line in block.splitlines():
            whole.append(line)
            found = re.search(r"<<'?(\w+)'?", line)
            end = found[1] if found and not end else end
            if end and line.strip() != end:
                continue
            end = ""
            if line.strip():
                yield "\n".join(whole)
            whole = []


class Machine(Root):
    """
    One machine with the packages in C{/tmp/packages}; commands run on its own network host.

    @param host: its place in the network.
    """

    def __init__(self, path: str, host: Host, test: unittest.TestCase) -> None:
        super().__init__(path)
        self.host = host
        self.unpack()
        os.makedirs(self.at("run/systemd/system"))
        shutil.copy(SHIM, self.at("usr/bin/systemctl"))
        os.chmod(self.at("usr/bin/systemctl"), 0o755)
        os.makedirs(self.at("tmp/packages"))
        for package in packages():
            shutil.copy(package, self.at("tmp/packages"))
        # This network leads nowhere: what is needed has been fetched into the base tree
        self.write("etc/apt/apt.conf.d/99-here", 'APT::Install-Recommends "false";\n')
        self.write("etc/resolv.conf", "")
        self.write("etc/hosts", "127.0.0.1 localhost\n")
        self.write("etc/hostname", f"{os.path.basename(path)}\n")
        test.addCleanup(self.end)

    def argv(self, *words: str) -> list[str]:
        """As L{Root.argv}, on this machine's host, with the stock versions at their place."""
        script = 'mount --rbind /dev "$1/dev"; mount --bind /proc "$1/proc"; '
        if PEERS:
            os.makedirs(self.at(PEERS), exist_ok=True)
            script += f'mount --bind {PEERS} "$1{PEERS}"; '
        script += 'hostname "$2"; root=$1; shift 2; exec chroot "$root" "$@"'
        name = os.path.basename(self.path)
        inside = ["unshare", "--mount", "--uts", "sh", "-ec", script, "sh", self.path, name]
        return self.host.inside([*inside, *words])

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
                f"{command}\nended with {done.returncode} on {os.path.basename(self.path)}:\n"
                f"{done.stdout}\n{self.logs()}"
            )
        return done.stdout

    def logs(self) -> str:
        """The ends of what its units have said."""
        texts = []
        for path in sorted(Path(self.at("run/units")).glob("*.log")):
            tail = path.read_text(errors="replace").splitlines()[-15:]
            texts.append("\n".join([f"-- {path.name}", *tail]))
        return "\n".join(texts)

    def wait(self, command: str, text: str) -> None:
        """Repeat a command until its output has this text."""

        def has() -> bool:
            try:
                return text in self.follow(command, tuple(range(256)))
            except subprocess.TimeoutExpired:
                return False

        until(f"{text!r} from {command!r}", has, every=0.5)

    def end(self) -> None:
        """End whatever runs in it."""
        for _ in range(3):
            for entry in Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and os.readlink(entry / "root") == self.path:
                        os.kill(int(entry.name), 9)
                except (OSError, ProcessLookupError):
                    continue


class Reader:
    """
    Follows one page, and has to account for each of its commands.

    @param says: command to what is done instead (a placeholder filled in), or C{""} for what
        cannot be done here.
    """

    def __init__(self, page: str, says: Mapping[str, str] = {}) -> None:
        self.page = page
        self.says = says
        self.left = list(commands(page))
        self.done: list[str] = []

    def follow(self, machine: Machine, count: int = 1, allowed: tuple[int, ...] = (0,)) -> str:
        """Do the next so many commands on a machine; the output of the last."""
        output = ""
        for _ in range(count):
            command = self.left.pop(0)
            self.done.append(command)
            for place, value in self.says.items():
                command = command.replace(place, value)
            if command.startswith("saltwisted status"):
                # A person looks again when something is just starting
                until(command, lambda: self.is_ready(machine), every=0.5)
            # a warning of the doctor or of status is no failure of the page
            looks = command.startswith(("saltwisted doctor", "saltwisted status"))
            output = machine.follow(command, (0, 3) if looks else allowed)
        return output

    @staticmethod
    def is_ready(machine: Machine) -> bool:
        """Whether everything serves that runs on a machine, perhaps with something missing."""
        code = "saltwisted status >/dev/null || [ $? = 3 ] && echo ready"
        return "ready" in machine.follow(code, tuple(range(256)))

    def skip(self, command: str) -> None:
        """The next command is this one, and is not done here."""
        if not self.left[0].startswith(command):
            raise AssertionError(f"{self.page}: expected {command!r}, found {self.left[0]!r}")
        self.left.pop(0)

    def to(self, machine: Machine, command: str, allowed: tuple[int, ...] = (0,)) -> str:
        """Follow up to and with the next command that begins so; its output."""
        for count, found in enumerate(self.left, 1):
            if found.startswith(command):
                return self.follow(machine, count, allowed)
        raise AssertionError(f"{self.page}: {command!r} is not among {self.left}")

    def finished(self) -> None:
        """
        Nothing of the page is left.

        @raises AssertionError: this is.
        """
        if self.left:
            raise AssertionError(f"{self.page}: not followed: {self.left}")


def hub(test: unittest.TestCase, machines: int) -> list[Host]:
    """Network hosts that reach one another, gone after the test."""
    made = Hub(machines)
    test.addCleanup(made.remove)
    made.route()
    return made.hosts
