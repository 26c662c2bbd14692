"""
A careless user: C{python -m tests.roots.editor TREE SEED SECONDS} edits a tree at random.

Writes in place and by renaming, moves files and directories, deletes, links, changes modes, and
checks branches out of a git repository. Races with whoever else writes there are part of it.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress

NAMES = ("web", "db", "top.sls", "init.sls", "map.jinja", "files", "a", "b")


def main(tree: str, seed: int, seconds: float) -> None:
    """Edit until the time is over."""
    dice = random.Random(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError, shutil.Error):
            edit(tree, dice)
        time.sleep(dice.random() * 0.05)


def somewhere(tree: str, dice: random.Random) -> str:
    """A path up to three levels down, there or not."""
    return os.path.join(tree, *(dice.choice(NAMES) for _ in range(dice.randint(1, 3))))


def edit(tree: str, dice: random.Random) -> None:
    """One thing that people do."""
    path = somewhere(tree, dice)
    what = dice.random()
    data = dice.randbytes(dice.choice((0, 10, 3000, 100_000)))
    if what < 0.3:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            for at in range(0, len(data), 30_000):
                file.write(data[at : at + 30_000])
                file.flush()
                time.sleep(0.001)
    elif what < 0.5:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + "~", "wb") as file:
            file.write(data)
        os.rename(path + "~", path)
    elif what < 0.6:
        with open(path, "ab") as file:
            file.write(data[:100])
    elif what < 0.7:
        os.rename(path, somewhere(tree, dice))
    elif what < 0.78:
        os.unlink(path)
    elif what < 0.82:
        if os.path.isdir(path):
            shutil.rmtree(path)
    elif what < 0.87:
        os.makedirs(path)
    elif what < 0.91:
        os.symlink(dice.choice(NAMES), path)
    elif what < 0.95:
        os.chmod(path, dice.choice((0o600, 0o644, 0o755)))
    elif what < 0.97:
        target = somewhere(tree, dice)
        if not f"{target}/".startswith(f"{path}/"):
            shutil.copytree(path, target)
    else:
        checkout(tree, dice)


def checkout(tree: str, dice: random.Random) -> None:
    """Switch a small repository between two branches, inside the tree."""
    work = os.path.join(tree, "formula")
    git = ["git", "-C", work, "-c", "user.name=x", "-c", "user.email=x@y"]
    if not os.path.exists(f"{work}/.git"):
        os.makedirs(work, exist_ok=True)
        subprocess.run([*git, "init", "-q"], check=False)
        for branch in ("one", "two"):
            subprocess.run([*git, "checkout", "-q", "-B", branch], check=False)
            for number in range(20):
                with open(f"{work}/f{number}", "w") as file:
                    file.write(f"{branch} {number // 2 if branch == 'two' else number}\n")
            subprocess.run([*git, "add", "."], check=False)
            subprocess.run([*git, "commit", "-qm", branch], check=False)
    subprocess.run(
        [*git, "checkout", "-qf", dice.choice(("one", "two"))], check=False, capture_output=True
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
