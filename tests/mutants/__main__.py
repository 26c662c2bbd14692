"""
C{python -m tests.mutants}: see L{tests.mutants}.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence

from tests.mutants.every import every, is_threat, stale, threats
from tests.mutants.mutation import Mutation, NotApplying
from tests.mutants.reasons import reason_of
from tests.mutants.runner import BROKEN, KILLED, SECONDS, SURVIVED, WORKERS, Outcome, run


def main(argv: Sequence[str]) -> int:
    """Do what the arguments say; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="ID", help="threats, or beginnings of names")
    parser.add_argument("--list", action="store_true", help="print them, and run nothing")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for the tests of one")
    parser.add_argument("--workers", type=int, default=WORKERS, help="how many run at once")
    options = parser.parse_args(argv)
    try:
        wanted = chosen(every(), options.only)
        old = stale()
    except NotApplying as error:
        print(error, file=sys.stderr)
        return 1
    if options.list:
        for each in wanted:
            print(each.name)
        print(f"{len(wanted)} mutations")
        return 0
    if not wanted:
        print("no mutation has such a name", file=sys.stderr)
        return 1
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        # Tests of privileges run as another user, who has to get to the copies
        os.chmod(folder, 0o755)
        outcomes = run(wanted, folder, say, options.workers, options.seconds)
    return ended(outcomes, old, time.monotonic() - begun)


def chosen(mutations: Sequence[Mutation], only: Sequence[str] | None) -> list[Mutation]:
    """Those that are asked for: by the id of a threat, or by the beginning of a name."""
    if not only:
        return list(mutations)
    ids = {word for word in only if is_threat(word)}
    begins = tuple({*only} - ids)
    return [
        each
        for each in mutations
        if threats(each) & ids or (begins and each.name.startswith(begins))
    ]


def say(outcome: Outcome) -> None:
    """One line for each, as they end."""
    print(f"{outcome.what:9} {outcome.seconds:5.1f} s  {outcome.mutation.name}", flush=True)
    if outcome.text:
        print(f"{'':19}{outcome.text}", flush=True)


def ended(outcomes: Sequence[Outcome], old: Sequence[str], seconds: float) -> int:
    """Print what is left; the exit status."""
    counts = {
        what: sum(each.what == what for each in outcomes) for what in (KILLED, SURVIVED, BROKEN)
    }
    print(f"\n{', '.join(f'{number} {what}' for what, number in counts.items())}, {seconds:.0f} s")
    is_good = not old and not counts[BROKEN]
    for each in outcomes:
        if each.what == SURVIVED:
            reason = reason_of(each.mutation.name)
            is_good = is_good and bool(reason)
            print(f"\n{each.mutation.name}\n    {reason or 'NO REASON: write a test'}")
    for name in old:
        print(f"\n{name}\n    has a reason, and is no mutation")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
