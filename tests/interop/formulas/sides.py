"""
Ours and stock's C{salt-call --local} on machines of their own, and what differs between them.

Each command is a process of its own, as a user starts it, so that the processor time that is told
is what a user pays.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from attrs import field, frozen

from tests.harness import peer_venv
from tests.interop.chroot import root
from tests.interop.differential.runner import explained, normal
from tests.interop.formulas.trees import Tree, lay_out

STOCK = "3008"
COMMANDS = (("low", ("state.show_lowstate",)), ("try", ("state.apply", "test=True")))


def program(side: str) -> list[str]:
    """The words that start a side's C{salt-call}."""
    if side == "ours":
        return [sys.executable, "-m", "saltwisted.cli.main", "salt-call"]
    return [os.path.join(peer_venv(side), "bin", "salt-call")]


@frozen
class Answer:
    """What one side said to one command."""

    status: int
    value: Any
    cpu: float
    err: str = ""


@frozen
class Verdict:
    """
    What became of one tree.

    @ivar ran: stock compiled it, and tried it.
    @ivar differs: the commands whose answers differ.
    """

    tree: Tree
    ran: bool
    differs: dict[str, str] = field(factory=dict)
    cpu: dict[str, float] = field(factory=dict)
    states: int = 0
    said: str = ""


def answers(side: str, conf: str, place: str) -> dict[str, Answer]:
    """Ask one side, on a fresh machine that has no network."""
    words = [*program(side), "-c", conf, "--local", "--out", "json", "--retcode-passthrough"]
    # The directories that the packages make, and that stock's salt-call would
    made = {"sh": "mkdir -p -m 700 /etc/salt/pki/minion /etc/salt/minion.d"}
    work = [{"exec": [*words, *command]} for _, command in COMMANDS]
    told = root.run(side, [made, *work], places=[place])
    found = {}
    for (name, _), one in zip(COMMANDS, told[1:], strict=True):
        try:
            value = normal(json.loads(one["out"])["local"])
        except (ValueError, KeyError, TypeError):
            value = None
        found[name] = Answer(one["status"], value, one["cpu"], one["err"] + one["out"][:2000])
    return found


CHANCE = "by chance"


def steady(one: Any, other: Any) -> Any:
    """
    Two answers of the same side, with a mark where they differ: what is random, a time, or in the
    order of a set.
    """
    if type(one) is type(other):
        if one == other:
            return one
        if isinstance(one, dict) and one.keys() == other.keys():
            return {key: steady(one[key], other[key]) for key in one}
        if isinstance(one, list) and len(one) == len(other):
            return [steady(*pair) for pair in zip(one, other, strict=True)]
    return {CHANCE: True}


def alike(theirs: Any, mine: Any) -> bool:
    """Ours is what stock's is, apart from what stock does not answer twice alike."""
    if theirs == {CHANCE: True}:
        return True
    if isinstance(theirs, dict) and isinstance(mine, dict) and theirs.keys() == mine.keys():
        return all(alike(theirs[key], mine[key]) for key in theirs)
    if isinstance(theirs, list) and isinstance(mine, list) and len(theirs) == len(mine):
        return all(alike(*pair) for pair in zip(theirs, mine, strict=True))
    return bool(theirs == mine)


def is_low(value: Any) -> bool:
    """It is a list of chunks, and no errors."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def judge(tree: Tree, trees: dict[str, Tree], mirror: Path) -> Verdict:
    """
    Compile and try one tree on both sides.

    Where they differ stock is asked again, up to three times: what it does not answer twice alike
    is no difference.
    """
    scratch = tempfile.mkdtemp(prefix="formula-", dir="/tmp")
    try:
        conf = lay_out(tree, trees, mirror, Path(scratch, "site"))
        theirs = answers(STOCK, conf, scratch)
        mine = answers("ours", conf, scratch)
        known = {name: [one.status, one.value] for name, one in theirs.items()}
        said = {name: [one.status, one.value] for name, one in mine.items()}
        for _ in range(3):
            if all(alike(known[name], said[name]) for name in known):
                break
            again = answers(STOCK, conf, scratch)
            known = {
                name: steady(known[name], [one.status, one.value]) for name, one in again.items()
            }
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    ran = is_low(theirs["low"].value) and isinstance(theirs["try"].value, dict)
    return Verdict(
        tree,
        ran,
        {
            name: explained(known[name], said[name])
            for name in known
            if not alike(known[name], said[name])
        },
        {
            "stock": sum(one.cpu for one in theirs.values()),
            "ours": sum(one.cpu for one in mine.values()),
        },
        len(theirs["low"].value) if ran else 0,
        "" if ran else f"{theirs['low'].value or theirs['low'].err}"[-3000:],
    )
