"""
Compare ours with stock on public formulas and trees.

    python -m tests.interop.formulas [--mirror DIR] [--out DIR] [NAME...]
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.interop.formulas.sides import Verdict, judge
from tests.interop.formulas.trees import chosen


def line(verdict: Verdict) -> str:
    """One tree in one line."""
    if not verdict.ran:
        word = "not run by stock" + (", differs" if verdict.differs else ", alike")
    else:
        word = ("differs: " + " ".join(verdict.differs)) if verdict.differs else "identical"
    cpu = f"{verdict.cpu['ours']:.1f} s of {verdict.cpu['stock']:.1f}"
    return f"{verdict.tree.name:14} {verdict.states:4} states  {cpu:16} {word}\n"


def main(argv: list[str]) -> int:
    """Say how each tree came out, and the sums."""
    parser = ArgumentParser(prog="tests.interop.formulas")
    parser.add_argument("--mirror", type=Path, default=Path("/tmp/saltwisted-formulas"))
    parser.add_argument("--out", type=Path, help="a directory for what differs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args(argv)
    trees = chosen()
    names = given.names or [name for name, tree in trees.items() if tree.kind != "part"]
    verdicts = []
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        for verdict in pool.map(lambda name: judge(trees[name], trees, given.mirror), names):
            sys.stdout.write(line(verdict))
            sys.stdout.flush()
            verdicts.append(verdict)
            if given.out:
                text = "".join(f"== {name}\n{diff}\n" for name, diff in verdict.differs.items())
                (given.out / verdict.tree.name).write_text(text + verdict.said)
    ran = [one for one in verdicts if one.ran]
    same = [one for one in ran if not one.differs]
    low = [one for one in ran if "low" not in one.differs]
    mine, theirs = (sum(one.cpu[side] for one in ran) for side in ("ours", "stock"))
    sys.stdout.write(
        f"{len(verdicts)} trees, {len(ran)} run by stock; chunks identical in {len(low)}, all in"
        f" {len(same)}; processor time {mine:.1f} s of {theirs:.1f}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
