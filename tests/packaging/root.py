"""
A Debian 12 of its own in a directory, and the units of a package run in it as systemd would.

The base tree is made once by debootstrap and kept, with the packages that ours depends on,
in the directory that C{SALTWISTED_PACKAGES} names; each test unpacks a fresh copy. Mounts live
in a namespace of each command, so nothing is left behind whatever happens.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from tests.harness import ROOT, until

CACHE = os.environ.get("SALTWISTED_PACKAGES", "")
MIRROR = "http://deb.debian.org/debian"
SOURCES = f"""deb {MIRROR} bookworm main
deb {MIRROR} bookworm-updates main
deb http://deb.debian.org/debian-security bookworm-security main
"""
DEPENDS = (
    "adduser python3 python3-attr python3-cryptography python3-jinja2 python3-msgpack"
    " python3-openssl python3-service-identity python3-twisted python3-txzmq python3-yaml"
)

ENDED = (0, -signal.SIGTERM)
"""A clean end, as systemd sees it: Twisted passes the signal on when everything has stopped."""


def run(*argv: str, seconds: float = 300, **more: object) -> str:
    """Run a command; its output. A failure carries all that it said."""
    done = subprocess.run(  # type: ignore[call-overload]
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
        **more,
    )
    if done.returncode:
        raise AssertionError(f"{shlex.join(argv)} ended with {done.returncode}:\n{done.stdout}")
    return str(done.stdout)


def base() -> str:
    """The archive of the base tree, made when it is not there yet."""
    path = os.path.join(CACHE, "bookworm.tar")
    if os.path.exists(path):
        return path
    os.makedirs(CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        tree = Root(os.path.join(scratch, "root"))
        run("debootstrap", "--variant=minbase", "bookworm", tree.path, MIRROR, seconds=900)
        tree.write("etc/apt/sources.list", SOURCES)
        shutil.copy("/etc/resolv.conf", tree.at("etc/resolv.conf"))
        # what debootstrap did not need stays out; our dependencies are only fetched, not installed
        tree.do("apt-get", "update", "-q", seconds=600)
        tree.do(
            "apt-get", "install", "-q", "-y", "--no-install-recommends", "--download-only",
            *DEPENDS.split(), seconds=600,
        )  # fmt: skip
        made = os.path.join(scratch, "made.tar")
        run("tar", "--create", "--one-file-system", "--file", made, "--directory", tree.path, ".")
        os.replace(made, path)
    return path


class Root:
    """One root directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    def at(self, name: str) -> str:
        """A path in it, from outside."""
        return os.path.join(self.path, name.lstrip("/"))

    def write(self, name: str, text: str) -> None:
        """Write a file in it."""
        Path(self.at(name)).write_text(text)

    def read(self, name: str) -> str:
        """A file in it."""
        return Path(self.at(name)).read_text()

    def read_gz(self, name: str) -> str:
        """A compressed text in it."""
        return gzip.decompress(Path(self.at(name)).read_bytes()).decode()

    def unpack(self) -> Root:
        """Make it from the base tree."""
        os.makedirs(self.path)
        run("tar", "--extract", "--file", base(), "--directory", self.path)
        shutil.copy("/etc/resolv.conf", self.at("etc/resolv.conf"))
        return self

    def argv(self, *words: str) -> list[str]:
        """How to run something in it: mounts of its own, that end with it."""
        script = (
            'set -e; root=$1; shift; mount --rbind /dev "$root/dev"; mount --bind /proc '
            '"$root/proc"; exec chroot "$root" "$@"'
        )
        return ["unshare", "--mount", "sh", "-c", script, "sh", self.path, *words]

    @property
    def environment(self) -> dict[str, str]:
        """What a command in it sees."""
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND": "noninteractive",
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "TERM": "dumb",
        }

    def do(self, *words: str, seconds: float = 300) -> str:
        """Run something in it as root; its output."""
        return run(*self.argv(*words), seconds=seconds, env=self.environment)

    def install(self, *packages: str) -> str:
        """C{apt-get install ./x.deb}; the archives are copied in."""
        names = []
        for package in packages:
            shutil.copy(package, self.at("root"))
            names.append(f"./{os.path.basename(package)}")
        return run(
            *self.argv(
                "sh", "-c",
                "cd /root && exec apt-get install -q -y --no-install-recommends --allow-downgrades "
                + shlex.join(names),
            ),
            env=self.environment,
        )  # fmt: skip

    def unit(self, name: str) -> dict[str, str]:
        """The settings of an installed unit's [Service]."""
        text = self.read(f"lib/systemd/system/{name}.service")
        section = text.partition("[Service]")[2].partition("[Install]")[0]
        return dict(re.findall(r"^(\w+)=(.*)$", section, re.M))


class Unit:
    """
    A unit's process, started as systemd would: ExecStart, User, RuntimeDirectory, notifications.

    @ivar said: what it told the service manager, in order.
    """

    def __init__(self, root: Root, name: str, test: unittest.TestCase) -> None:
        self.root = root
        self.name = name
        self.said: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.log = root.at(f"root/{name}.log")
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(root.at(f"run/{name}.notify"))
        os.chmod(root.at(f"run/{name}.notify"), 0o777)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        test.addCleanup(self._notify.close)
        test.addCleanup(self.kill)

    def start(self, watchdog: float = 2.0) -> Unit:
        """Start it and wait until it says that it is ready."""
        settings = self.root.unit(self.name)
        user = settings.get("User", "root")
        folder = settings["RuntimeDirectory"]
        path = f"/run/{folder}"
        self.root.do("install", "-d", "-m", "0755", os.path.dirname(path))
        mode = settings.get("RuntimeDirectoryMode", "0755")
        self.root.do("install", "-d", "-o", user, "-m", mode, path)
        words = shlex.split(settings["ExecStart"])
        if user != "root":
            group = settings.get("Group", user)
            words = ["setpriv", f"--reuid={user}", f"--regid={group}", "--init-groups", *words]
        self.said = []
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(
                self.root.argv(*words),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                env={
                    **self.root.environment,
                    "NOTIFY_SOCKET": f"/run/{self.name}.notify",
                    "WATCHDOG_USEC": str(int(watchdog * 1e6)),
                },
                start_new_session=True,
            )
        self.wait_for("READY=1")
        return self

    @property
    def pid(self) -> int:
        """Its main process."""
        assert self.process is not None
        return self.process.pid

    def _read(self) -> None:
        """Take what comes, for as long as the socket is there."""
        with contextlib.suppress(OSError):
            while True:
                self.said += self._notify.recv(4096).decode().splitlines()

    def wait_for(self, word: str, times: int = 1, seconds: float = 30) -> None:
        """Wait until it has told this so many times."""

        def told() -> bool:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(f"{self.name} ended:\n{self.tail()}")
            return sum(line == word or line.startswith(word) for line in list(self.said)) >= times

        try:
            until(f"{word} from {self.name}", told, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said}\n{self.tail()}") from None

    def tail(self) -> str:
        """The end of its output."""
        with open(self.log, encoding="utf-8", errors="replace") as stream:
            return "".join(stream.readlines()[-40:])

    def stop(self) -> float:
        """SIGTERM to the main process alone (KillMode=process); the seconds until it has ended."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30)
        if status not in ENDED:
            raise AssertionError(f"{self.name} ended with {status}:\n{self.tail()}")
        return time.monotonic() - began

    def kill(self) -> None:
        """End it and what it started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)


def rmtree(path: str) -> None:
    """Remove a tree; what is mounted in it is only so in the namespaces of its own processes."""
    shutil.rmtree(path, ignore_errors=True)


def build(output: str) -> list[str]:
    """Build the packages, with lintian; the paths of C{saltwisted-salt} and C{saltwisted}."""
    run(os.path.join(ROOT, "packaging/deb/build"), "--output", output, "--lintian", seconds=400)
    return sorted(str(path) for path in Path(output).glob("*.deb"))


def earlier(package: str, version: str, output: str) -> str:
    """The same package as an earlier version of itself, which differs in what it says of itself."""
    tree = os.path.join(output, "earlier")
    run("dpkg-deb", "--raw-extract", package, tree)
    control = Path(tree, "DEBIAN/control")
    current = re.search(r"^Version: (.*)$", control.read_text(), re.M)
    assert current is not None
    control.write_text(control.read_text().replace(current[0], f"Version: {version}"))
    module = Path(tree, "usr/lib/python3/dist-packages/saltwisted/__init__.py")
    if module.exists():
        module.write_text(re.sub(r'"[^"]*"\n$', f'"{version}"\n', module.read_text()))
        Path(tree, "DEBIAN/md5sums").unlink()
    made = os.path.join(output, os.path.basename(package).replace(current[1], version))
    run("dpkg-deb", "--root-owner-group", "--build", tree, made)
    shutil.rmtree(tree)
    return made
