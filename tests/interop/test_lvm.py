"""
LVM on loop devices: stock C{salt-call} and ours make, grow and remove the same volumes.

Physical volumes and volume groups need loop devices alone. Logical volumes need the kernel's
device mapper as well: without it C{lvcreate} refuses, and both must say so in the same way.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.harness import needs_peers, peer_venv, scratch
from tests.interop.differential.runner import Machine, explained, ours, stock

MIB = 1 << 20
MAPPER = "device-mapper" in Path("/proc/misc").read_text()
"""Whether this kernel can have logical volumes."""
PRESENT = """
first:
  lvm.pv_present:
    - name: {one}
second:
  lvm.pv_present:
    - name: {two}
swtest:
  lvm.vg_present:
    - devices: {one}
    - require: [lvm: first]
swdata:
  lvm.lv_present:
    - vgname: swtest
    - size: 8M
    - require: [lvm: swtest]
"""
GROWN = """
swtest:
  lvm.vg_present:
    - devices: [{one}, {two}]
swdata:
  lvm.lv_present:
    - vgname: swtest
    - size: 12M
"""
WRONG = """
no device:
  lvm.pv_present:
    - name: /dev/nosuch
taken:
  lvm.vg_present:
    - name: swother
    - devices: {one}
no group:
  lvm.lv_present:
    - name: swdata
    - vgname: swnone
    - size: 8M
too much:
  lvm.lv_present:
    - name: swbig
    - vgname: swtest
    - size: 8G
"""
ABSENT = """
swdata:
  lvm.lv_absent:
    - vgname: swtest
swtest:
  lvm.vg_absent: []
{one}:
  lvm.pv_absent: []
{two}:
  lvm.pv_absent: []
"""
RUN = [
    "state.apply present test=True",
    "state.apply present",
    "state.apply grown",
    "state.apply wrong",
    "lvm.vgdisplay swtest",
    "lvm.lvdisplay swtest",
    "lvm.pvdisplay {two}",
    "lvm.vgextend swnone {two}",
    "state.apply absent",
    "state.apply absent",
]


def looped(file: str) -> str:
    """
    The loop device of a file.

    @raises SkipTest: this machine gives none.
    """
    done = subprocess.run(
        ["losetup", "--find", "--show", file], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SkipTest(f"needs loop devices: {done.stderr.strip()}")
    return done.stdout.strip()


def without_ids(value: Any) -> Any:
    """An answer without the ids that LVM draws."""
    if isinstance(value, dict):
        return {key: without_ids(item) for key, item in value.items()}
    if isinstance(value, list):
        return [value[0], "ID"] if value[:1] == ["UUID"] else [without_ids(one) for one in value]
    return value


@needs_peers
class VolumeTests(SynchronousTestCase):
    """On two loop devices, which no other LVM of the machine sees."""

    def setUp(self) -> None:
        if os.geteuid():
            raise SkipTest("needs root: it makes loop devices")
        if not shutil.which("vgcreate"):
            raise SkipTest("needs the package lvm2")
        self.home = scratch(self)
        self.devices = []
        for name in ("one", "two"):
            file = os.path.join(self.home, name)
            with open(file, "wb") as stream:
                stream.truncate(40 * MIB)
            device = looped(file)
            self.addCleanup(subprocess.run, ["losetup", "-d", device], check=False)
            self.devices.append(device)
        own = "".join(f'"a|^{device}$|", ' for device in self.devices)
        Path(self.home, "lvm").mkdir()
        Path(self.home, "lvm", "lvm.conf").write_text(
            f'devices {{ filter = [{own}"r|.*|"]\n use_devicesfile = 0 }}\n'
            "backup { backup = 0\n archive = 0 }\n"
            f'global {{ locking_dir = "{self.home}/lock" }}\n'
        )
        os.environ["LVM_SYSTEM_DIR"] = f"{self.home}/lvm"
        self.addCleanup(os.environ.pop, "LVM_SYSTEM_DIR")
        self.addCleanup(self._clear)

    def _clear(self) -> None:
        """Nothing may be left on a device that is given back, whatever went wrong."""
        for words in (
            ["vgremove", "-ff", "-y", "swtest"],
            ["pvremove", "-ff", "-y", *self.devices],
        ):
            subprocess.run(words, capture_output=True, check=False)

    def test_asStock(self) -> None:
        """
        Both answer each step alike: what is made, made again, grown, refused and removed. The
        groups are there in truth, and nothing is left in the end.
        """
        names = dict(zip(("one", "two"), self.devices, strict=True))
        trees = {"present": PRESENT, "grown": GROWN, "wrong": WRONG, "absent": ABSENT}
        case = {
            "files": {f"{name}.sls": text.format(**names) for name, text in trees.items()},
            "run": [command.format(**names) for command in RUN],
        }
        python = os.path.join(peer_venv("3008"), "bin", "python")

        theirs = stock(python, {"lvm": Machine(self.home, "s", case)}, {"lvm": case})["lvm"]
        mine = ours(Machine(self.home, "o", case), case)

        for command, one, other in zip(RUN, theirs, mine, strict=True):
            one, other = without_ids(one), without_ids(other)
            self.assertEqual(one, other, f"{command}\n{explained(one, other)}")
        by_command = dict(zip(RUN, mine, strict=True))
        self.assertIn("['Current Physical Volumes', '2']", str(by_command["lvm.vgdisplay swtest"]))
        self.assertEqual(by_command["state.apply grown"]["status"], 0 if MAPPER else 2)
        self.assertEqual("swdata" in str(by_command["lvm.lvdisplay swtest"]), MAPPER)
        left = subprocess.run(["pvs", "--noheadings"], capture_output=True, check=True)
        self.assertEqual(left.stdout.strip(), b"")
