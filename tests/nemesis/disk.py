"""
A disk of its own for each node: an ext4 in a file, which can be filled, wiped, copied, set back,
and lose what the kernel had not yet written when the power went.

Needs root and loop devices. That it stands still is done by L{Control}, with C{preload.c}: a file
system that is frozen would hold up everything on this machine that calls C{sync}.
"""

from __future__ import annotations

import contextlib
import os
import random
import struct
import subprocess
import time

from tests.interop.network import run

MEBI = 1024 * 1024
SIZE = 192 * MEBI
FULL = 4096
"""Bytes that a full disk has at most."""


def compile_preload(home: str) -> str:
    """The library for L{Control}; its path."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preload.c")
    made = os.path.join(home, "preload.so")
    run("gcc", "-shared", "-fPIC", "-O2", "-o", made, source, "-ldl")
    return made


class Control:
    """The clock and the stalls of one node, as C{preload.c} reads them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.offset = 0.0
        self.stalled = False
        self.device = 0
        with open(path, "wb") as handle:
            handle.write(bytes(32))

    def write(self) -> None:
        """Have it so, from this moment on."""
        page = struct.pack("<qqQq", int(self.offset * 1e9), self.stalled, self.device, 0)
        with open(self.path, "r+b", buffering=0) as handle:
            handle.write(page)


class Disk:
    """
    One disk.

    @ivar where: where it is mounted.
    @ivar image: the file that it is in.
    """

    def __init__(self, home: str, name: str) -> None:
        self.where = os.path.join(home, name)
        self.image = os.path.join(home, f"{name}.disk")
        os.makedirs(self.where, exist_ok=True)

    @property
    def filler(self) -> str:
        """The file that fills it."""
        return os.path.join(self.where, "filler")

    def make(self) -> None:
        """A new one, empty, and mounted."""
        self.unmount()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.image)
        with open(self.image, "wb") as handle:
            handle.truncate(SIZE)
        run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0", self.image)
        self.mount()

    def mount(self) -> None:
        """Mount it; the journal brings it back to one moment."""
        run("mount", "-o", "loop", self.image, self.where)

    def unmount(self) -> None:
        """Take it away, once whoever is killed has let go of it."""
        for _ in range(100):
            if not os.path.ismount(self.where):
                return
            done = subprocess.run(["umount", self.where], capture_output=True, check=False)
            if done.returncode:
                time.sleep(0.1)  # for processes that are being ended by the kernel
        run("umount", "-l", self.where)

    def copy(self, to: str) -> None:
        """The disk as it is at this moment, of whatever was written through to it."""
        run("cp", "--sparse=always", self.image, to)

    def flush(self) -> None:
        """Have the kernel write all."""
        run("sync", "-f", self.where)

    def set_back(self, copy: str) -> None:
        """In place of this disk there is a copy of it. Its node must not run."""
        self.unmount()
        os.unlink(self.image)
        run("cp", "--sparse=always", copy, self.image)
        self.mount()

    def lose_power(self) -> None:
        """What was not written through is gone. Its node was killed right before."""
        copy = f"{self.image}.copy"
        self.copy(copy)
        self.unmount()
        os.replace(copy, self.image)
        self.mount()

    def fill(self) -> None:
        """Leave no room."""
        with open(self.filler, "wb", buffering=0) as handle, contextlib.suppress(OSError):
            for size in (MEBI, FULL, 512):
                with contextlib.suppress(OSError):
                    while True:
                        handle.write(b"x" * size)

    def empty(self) -> None:
        """There is room again."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.filler)

    def damage(self, path: str, dice: random.Random, bits: int = 40) -> list[int]:
        """Flip bits of a file, under whoever has it open; where."""
        size = os.path.getsize(path)
        places = sorted(dice.randrange(size) for _ in range(bits if size else 0))
        with open(path, "r+b", buffering=0) as handle:
            for place in places:
                handle.seek(place)
                was = handle.read(1)[0]
                handle.seek(place)
                handle.write(bytes([was ^ (1 << dice.randrange(8))]))
        return places

    def remove(self) -> None:
        """Gone."""
        self.unmount()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.image)
