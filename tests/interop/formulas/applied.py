"""
Formulas applied for real, each by ours and by stock on a Debian 12 of its own, twice.

What the first run leaves has to be the same: files with their texts, modes and owners, links
(services that are enabled are links), packages and accounts. The second run has to change nothing
that stock's second run does not change.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from tests.interop.chroot import root
from tests.interop.formulas.sides import STOCK, program
from tests.interop.formulas.trees import Tree, lay_out

FOLDERS = "/etc /usr/local /opt /home /root /srv /var/spool /var/lib /custom"
# .pyenv may be where the interpreter of our side lies, and is no work of a formula
_NO_WORK = ("/root/.pyenv", "/var/lib/apt/", "/var/lib/dpkg/", "/etc/apt/")
_KEPT = " ".join(f"! -path '{path}*'" for path in _NO_WORK)
LOOK = rf"""
dpkg-query -W -f '${{Package}} ${{Version}} ${{Status}}\n' | sed 's/^/package /'
find {FOLDERS} -xdev {_KEPT} -printf '%y %m %u:%g %p %l\n' 2>/dev/null | LC_ALL=C sort -k4
find {FOLDERS} -xdev -type f {_KEPT} -exec sha256sum {{}} + 2>/dev/null | LC_ALL=C sort -k2
service --status-all 2>&1 | sed 's/^/service /'
"""
"""What is there, as lines."""


@frozen
class Applied:
    """
    What one side did with one formula.

    @ivar failed: the ids of states that failed in the first run.
    @ivar again: the ids of states that changed something in the second run.
    """

    states: int
    failed: tuple[str, ...]
    again: tuple[str, ...]
    left: frozenset[str]


def states_of(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The results of a run by state."""
    found = json.loads(answer["out"])["local"]
    if not isinstance(found, dict):
        raise AssertionError(f"not applied: {found}")
    return found


def apply(side: str, conf: str, place: str) -> Applied:
    """Apply a formula twice on a fresh machine, with the network for its packages."""
    words = [*program(side), "-c", conf, "--local", "--out", "json", "state.apply"]
    ready = "mkdir -p -m 700 /etc/salt/pki/minion /etc/salt/minion.d; apt-get -qq update"
    work = [{"sh": ready}, {"exec": words}, {"sh": LOOK}, {"exec": words}]
    _, first, left, second = root.run(side, work, net=True, places=[place])
    states = states_of(first)
    return Applied(
        len(states),
        tuple(sorted(name for name, one in states.items() if one["result"] is False)),
        tuple(sorted(name for name, one in states_of(second).items() if one["changes"])),
        frozenset(left["out"].splitlines()),
    )


def place_of(line: str) -> str:
    """The path, package or service that a line is about."""
    words = line.split()
    if words[0] in ("package", "service"):
        return " ".join(words[:2]) if words[0] == "package" else line
    return words[1] if words[1].startswith("/") else words[3]


def both(tree: Tree, trees: dict[str, Tree], mirror: Path) -> tuple[Applied, Applied]:
    """
    Stock's and ours, one after the other. What two runs of stock leave differently (keys, the id of
    the machine) is left out.
    """
    scratch = tempfile.mkdtemp(prefix="formula-", dir="/tmp")
    try:
        conf = lay_out(tree, trees, mirror, Path(scratch, "site"))
        theirs, mine = apply(STOCK, conf, scratch), apply("ours", conf, scratch)
        if theirs.left == mine.left:
            return theirs, mine
        chance = {place_of(line) for line in theirs.left ^ apply(STOCK, conf, scratch).left}

        def steady(one: Applied) -> Applied:
            return evolve(
                one, left=frozenset(line for line in one.left if place_of(line) not in chance)
            )

        return steady(theirs), steady(mine)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def differing(theirs: Applied, mine: Applied) -> list[str]:
    """What ours left otherwise than stock, as lines with the side in front."""
    found = [f"stock left: {line}" for line in sorted(theirs.left - mine.left)]
    found += [f"ours left: {line}" for line in sorted(mine.left - theirs.left)]
    for what in ("failed", "again"):
        one, other = getattr(theirs, what), getattr(mine, what)
        if one != other:
            found.append(f"{what}: stock {one}, ours {other}")
    return found
