"""
Writes C{docs/operations-table.md} from the rows themselves:
python docs/make_operations.py > docs/operations-table.md

What an operation does is the first paragraph of its handler's docstring. A test keeps the page
true.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from saltwisted.cluster.control import ClusterControl, views  # noqa: E402
from saltwisted.cluster.roots.control import BY_WORD, RootControl  # noqa: E402
from saltwisted.domain.operations.table import Operation  # noqa: E402
from saltwisted.master.automation.claimviews import ClaimViews  # noqa: E402
from saltwisted.master.automation.operations import AutomationOperations  # noqa: E402
from saltwisted.master.control import Control as MasterControl  # noqa: E402
from saltwisted.master.doctoring import DoctorOperations  # noqa: E402
from saltwisted.master.gitoperations import GitOperations  # noqa: E402
from saltwisted.master.orchestration.operations import OrchestrationOperations  # noqa: E402
from saltwisted.master.orchestration.views import OrchestrationViews  # noqa: E402
from saltwisted.minion.control import Control as MinionControl  # noqa: E402

HEAD = """# Every operation

Written by `docs/make_operations.py` from the rows of the table; do not edit. This is what may be
asked of a daemon: today by its control socket ([protocol](protocol.md#the-control-socket)), as
the commands do. Each row says who may ask, what it takes and what it does; whoever asks, and by
which door, is judged by the same rule.

- An argument in **bold** is needed. One that is `null` counts as not given.
- A missing, unknown or ill-typed argument is the error `SaltInvocationError`, which names it. An
  unknown operation is `UnknownOperation`, with the nearest name there is. Who may not ask gets
  `AuthorizationError`, or `AuthenticationError` for a wrong password or token.
- **items**: the operation sends items before its answer.
"""
PART = """
## {title}

{words}

| operation | who may | arguments | items | what it does |
|---|---|---|---|---|
"""


def _nothing(kind: type) -> Any:
    """A part without anything behind it: its rows are the same."""
    return kind(*[None] * len(signature(kind).parameters))


def parts() -> list[tuple[str, str, Sequence[Operation]]]:
    """Title, introduction and rows of each part."""
    nothing: Any = None
    (family, (word, default)) = next(iter(BY_WORD.items()))
    return [
        (
            "A master",
            "With `--role master` and with `--role cluster`.",
            [
                *_nothing(MasterControl).operations(),
                *_nothing(AutomationOperations).operations(),
                *_nothing(ClaimViews).operations(),
                *_nothing(GitOperations).operations(),
                *_nothing(DoctorOperations).operations(),
                *_nothing(OrchestrationOperations).operations(),
                *_nothing(OrchestrationViews).operations(),
            ],
        ),
        (
            "A node of a cluster",
            "With `--role cluster`, from its start on; the last three when it is a member. Before "
            "that, any other operation but `status` is answered with `NotReady` and the reason.",
            [*_nothing(ClusterControl).operations(), *views(nothing, nothing, nothing)],
        ),
        (
            "The roots of a cluster",
            f"On the control socket these are the operation `{family}`, with the second word as "
            f"the argument `{word}` (`{default}` where it is missing).",
            _nothing(RootControl).operations(),
        ),
        (
            "A minion",
            "On the socket of the minion, and for its jobs.",
            _nothing(MinionControl).operations(),
        ),
    ]


def words_of(row: Operation) -> str:
    """What an operation does: the first paragraph of its docstring."""
    text = " ".join((row.handler.__doc__ or "").strip().partition("\n\n")[0].split())
    return re.sub(r"C\{([^}]*)\}", r"`\1`", text)


def _arguments(row: Operation) -> str:
    shown = []
    for argument in row.takes:
        name = f"**`{argument.name}`**" if argument.needed else f"`{argument.name}`"
        shown.append(f"{name} ({argument.kind.words})")
    text = ", ".join(shown)
    if row.more:
        return f"{text}; others: {row.more}"
    return text or "none"


def page() -> str:
    """The whole page."""
    text = HEAD
    for title, words, rows in parts():
        text += PART.format(title=title, words=words)
        for row in rows:
            text += (
                f"| `{row.name}` | {row.right.words} | {_arguments(row)} | "
                f"{'yes' if row.streams else ''} | {words_of(row)} |\n"
            )
    return text


if __name__ == "__main__":
    sys.stdout.write(page())
