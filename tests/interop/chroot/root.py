"""
A Debian 12 in a directory, and throw-away copies of it that commands run in.

The directory is C{SALTWISTED_CHROOT}, or C{bookworm} in the directory of CI; it is made by
C{debootstrap} when it is not there, and only ever read afterwards. A copy is an overlay (or, where
the kernel refuses that, a real copy) in mount and process namespaces of its own: what runs there
sees the interpreter and the code of this checkout at their own paths, and the machine's name
servers and package sources. It ends with its first process.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from tests.harness import ROOT, peer_venv

WORK = os.environ.get("SALTWISTED_CI_DIR", "/tmp/saltwisted-ci")
BASE = os.environ.get("SALTWISTED_CHROOT") or os.path.join(WORK, "bookworm")
MIRROR = "http://deb.debian.org/debian"
INCLUDE = (
    "acl",
    "at",
    "ca-certificates",
    "cron",
    "debconf-utils",
    "git",
    "iptables",
    "kmod",
    "locales",
    "openssh-client",
    "openssh-server",
    "procps",
    "python3",
    "python3-venv",
    "tzdata",
    "unzip",
    "zip",
)
MARK = "etc/saltwisted-tests"
"""Names the packages that the directory was made with."""
DRIVER = os.path.join(ROOT, "tests", "interop", "chroot", "driver.py")

_ENTER = """
set -e
base=$1 new=$2 net=$3
shift 3
mount -t tmpfs -o size=2g none "$new"
mkdir "$new/up" "$new/work" "$new/root"
if ! mount -t overlay overlay -o "lowerdir=$base,upperdir=$new/up,workdir=$new/work" "$new/root"
then cp -a "$base/." "$new/root/"
fi
cd "$new/root"
mount -t proc none proc
mount -t sysfs -o ro none sys || true
mount --bind /dev dev
mount -t tmpfs none run
mkdir -p run/lock tmp run/sshd
cat /etc/resolv.conf >etc/resolv.conf
if [ "$net" = yes ]
then
  rm -rf etc/apt/sources.list etc/apt/sources.list.d
  cp -a /etc/apt/sources.list etc/apt/ 2>/dev/null || true
  cp -a /etc/apt/sources.list.d etc/apt/
  rm -f etc/apt/sources.list.d/*.disabled*
  for part in /etc/apt/apt.conf.d/*artifact* /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf
  do [ ! -e "$part" ] || cp -a "$part" etc/apt/apt.conf.d/
  done
else
  rm -rf etc/apt/sources.list etc/apt/sources.list.d
  mkdir etc/apt/sources.list.d
  ip link set lo up 2>/dev/null || true
fi
for place in "$@"
do
  mkdir -p ".$place"
  mount --bind "$place" ".$place"
done
"""

_RUN = """
exec chroot . /usr/bin/env -i HOME=/root PATH="$PATH" LANG=C.UTF-8 $also "$python" "$driver"
"""


def ready() -> str:
    """
    The directory, made now if it was not there.

    @raises AssertionError: it cannot be made here.
    """
    if os.geteuid() != 0:
        raise AssertionError("tests of a machine need root: mounts and chroot")
    os.makedirs(os.path.dirname(BASE), exist_ok=True)
    with open(BASE + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _packages_of(BASE) != INCLUDE:
            _make()
    return BASE


def _packages_of(path: str) -> tuple[str, ...]:
    """The packages that a directory was made with; none if it was not made by us."""
    try:
        with open(os.path.join(path, MARK)) as stream:
            return tuple(stream.read().split())
    except FileNotFoundError:
        return ()


def _make() -> None:
    program = shutil.which("debootstrap", path=os.environ["PATH"] + ":/usr/sbin")
    if program is None:
        raise AssertionError("debootstrap is not installed: no machine to test states on")
    new = BASE + ".new"
    shutil.rmtree(new, ignore_errors=True)
    command = [program, "--variant=minbase", f"--include={','.join(INCLUDE)}", "bookworm", new]
    done = subprocess.run(
        [*command, MIRROR], capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode:
        raise AssertionError(f"debootstrap failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    for folder in ("var/cache/apt/archives", "var/lib/apt/lists"):
        for name in os.listdir(os.path.join(new, folder)):
            if name.endswith(".deb") or folder.endswith("lists"):
                path = os.path.join(new, folder, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    with open(os.path.join(new, MARK), "w") as stream:
        stream.write("\n".join(INCLUDE))
    if os.path.exists(BASE):
        # Made with other packages, by an older version of this file.
        shutil.rmtree(BASE)
    os.rename(new, BASE)


def _places(python: str) -> list[str]:
    """Directories that the interpreter and the code need, each at its own path."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    code = subprocess.run(
        [python, "-c", "import sys; print(sys.base_prefix)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    base = code.stdout.strip()
    return [place for place in dict.fromkeys((ROOT, prefix, base)) if place != "/usr"]


_BESIDE = """
import sys
sys.path.append({site!r})
from saltwisted.cli.main import main
sys.exit(main(["salt-call", *sys.argv[1:]]))
"""
"""Ours with the C{salt} package of a stock Salt behind everything else that is importable."""


def run(
    side: str, work: Sequence[dict[str, Any]], net: bool = False, places: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """
    Run commands on a fresh machine.

    @param side: C{ours}, the version of a stock Salt, or C{ours beside VERSION}.
    @param work: see L{driver}.
    @param net: with the network, rather than one of its own that leads nowhere.
    @param places: more directories that the machine sees, each at its own path.
    """
    base = ready()
    python = sys.executable
    also = ""
    words = ["-m", "saltwisted.cli.main", "salt-call"]
    ours = side.startswith("ours")
    others = []
    if not ours:
        python = os.path.join(peer_venv(side), "bin", "python")
    elif side != "ours":
        others.append(peer_venv(side.split()[-1]))
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        site = os.path.join(others[0], "lib", version, "site-packages")
        words = ["-c", _BESIDE.format(site=site)]
    if ours and ROOT in os.environ.get("PYTHONPATH", "").split(":"):
        # the interpreter may have another checkout installed, which the machine does not see
        also = f"PYTHONPATH={ROOT}"
    given = {
        "side": "ours" if ours else "stock",
        "ours": [python, *words],
        "cwd": "/",
        "work": list(work),
    }
    place = tempfile.mkdtemp(prefix="chroot-", dir="/tmp")
    try:
        done = subprocess.run(
            [
                "unshare", "--mount", "--propagation", "private", "--pid", "--fork",
                "--kill-child", "--uts", *([] if net else ["--net"]), "/bin/sh", "-c",
                _ENTER + f"python={python} driver={DRIVER} also={also}\n" + _RUN, "sh",
                base, place, "yes" if net else "no", *_places(python), *others, *places,
            ],
            input=json.dumps(given), capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
    finally:
        os.rmdir(place)
    if done.returncode:
        raise AssertionError(f"{side}: {done.stderr[-4000:]}")
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers
