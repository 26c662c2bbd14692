"""
A Debian 12 of its own in a directory: a layer over one base tree that all tests share.

The base tree is made once by debootstrap and kept in the directory that
C{SALTWISTED_PACKAGES} names, with systemd in it, and with the packages fetched that ours depends
on, for its build and at run time; nothing but debootstrap's minimal set is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.harness import ROOT

CACHE = os.environ.get("SALTWISTED_PACKAGES", "")
MIRROR = "http://deb.debian.org/debian"
SOURCES = f"""deb {MIRROR} bookworm main
deb {MIRROR} bookworm-updates main
deb http://deb.debian.org/debian-security bookworm-security main
"""
BOOTED = "systemd,systemd-sysv,dbus,iproute2,procps,ca-certificates"
"""What a machine has that boots, and debootstrap's minimal set has not."""
DEPENDS = (
    "adduser python3 python3-attr python3-cryptography python3-jinja2 python3-jmespath"
    " python3-msgpack python3-openssl python3-service-identity python3-twisted python3-txzmq"
    " python3-yaml"
)
OTHERS = "haproxy cron logrotate nano"
"""What tests install on machines that have no way to the mirror."""
NAME = "bookworm-booting"


def build_depends() -> list[str]:
    """What C{packaging/deb/control} says that a build needs."""
    text = Path(ROOT, "packaging/deb/control").read_text()
    found = re.search(r"^Build-Depends:(.*?)^\S", text, re.M | re.S)
    assert found is not None
    names = [part.split("(")[0].strip() for part in found[1].split(",")]
    # Virtual ones, by the names of the packages that have them
    real = {"debhelper-compat": "debhelper", "dh-sequence-python3": "dh-python"}
    return [real.get(name, name) for name in names]


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
    """The base tree, made when it is not there yet, and again when it lacks what is needed now."""
    path = os.path.join(CACHE, NAME)
    wanted = " ".join([BOOTED, DEPENDS, OTHERS, "build-essential", *build_depends()])
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, f"{NAME}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            if Path(f"{path}.has").read_text() == wanted:
                return path
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            tree = Root(os.path.join(scratch, "root"))
            run(
                "debootstrap", "--variant=minbase", f"--include={BOOTED}", "bookworm", tree.path,
                MIRROR, seconds=900,
            )  # fmt: skip
            tree.write("etc/apt/sources.list", SOURCES)
            shutil.copy("/etc/resolv.conf", tree.at("etc/resolv.conf"))
            # Tests wait for no disk, and for no suggestions
            tree.write("etc/dpkg/dpkg.cfg.d/99-tests", "force-unsafe-io\n")
            tree.write("etc/apt/apt.conf.d/99-tests", 'APT::Install-Recommends "false";\n')
            tree.do("apt-get", "update", "-q", seconds=600)
            tree.do(
                "apt-get", "install", "-q", "-y", "--download-only", "build-essential",
                *build_depends(), *DEPENDS.split(), *OTHERS.split(), seconds=600,
            )  # fmt: skip
            shutil.rmtree(path, ignore_errors=True)
            os.rename(tree.path, path)
        Path(f"{path}.has").write_text(wanted)
    return path


class Root:
    """One root directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    def at(self, name: str) -> str:
        """A path in it, from outside."""
        return os.path.join(self.path, name.lstrip("/"))

    def write(self, name: str, text: str) -> None:
        """Write a file in it, and the folders that it needs."""
        path = Path(self.at(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, name: str) -> str:
        """A file in it."""
        return Path(self.at(name)).read_text()

    def read_gz(self, name: str) -> str:
        """A compressed text in it."""
        return gzip.decompress(Path(self.at(name)).read_bytes()).decode()

    def lay(self) -> Root:
        """Lay it over the base tree; L{drop} takes it away."""
        layers = {name: f"{self.path}.{name}" for name in ("upper", "work")}
        for folder in (self.path, *layers.values()):
            os.makedirs(folder)
        options = f"lowerdir={base()},upperdir={layers['upper']},workdir={layers['work']}"
        run("mount", "-t", "overlay", "overlay", "-o", options, self.path)
        shutil.copy("/etc/resolv.conf", self.at("etc/resolv.conf"))
        return self

    def drop(self) -> None:
        """Take it away."""
        subprocess.run(["umount", "--lazy", self.path], capture_output=True, check=False)
        for folder in (self.path, f"{self.path}.upper", f"{self.path}.work"):
            shutil.rmtree(folder, ignore_errors=True)

    def copy_sources(self, name: str) -> None:
        """Put this checkout there, without what git does not know."""
        listed = run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard")
        os.makedirs(self.at(name))
        there = [one for one in listed.splitlines() if os.path.lexists(os.path.join(ROOT, one))]
        subprocess.run(
            f"tar -C {ROOT} -c -T - | tar -C {self.at(name)} -x",
            input="\n".join(there), text=True, shell=True, check=True,
        )  # fmt: skip

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
        words = "cd /root && exec apt-get install -q -y --allow-downgrades " + shlex.join(names)
        return self.do("sh", "-c", words)


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
    # Nothing depends on how well it is compressed
    run("dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", tree, made)
    shutil.rmtree(tree)
    return made
