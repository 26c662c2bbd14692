"""
All mutations together.
"""

from __future__ import annotations

import re
from functools import cache

from tests.mutants.byhand import MUTATIONS
from tests.mutants.generated import generated
from tests.mutants.mutation import Mutation
from tests.mutants.reasons import REASONS

_THREAT = re.compile(r"T-[A-Z]+-[0-9]+")


@cache
def every() -> tuple[Mutation, ...]:
    """
    Those by hand first.

    @raises NotApplying: a module is gone.
    """
    return (*MUTATIONS, *generated())


def threats(mutation: Mutation) -> set[str]:
    """The ids in the name of one by hand."""
    return {*_THREAT.findall(mutation.name.partition(":")[0])}


def is_threat(word: str) -> bool:
    """Whether it is the id of a threat."""
    return _THREAT.fullmatch(word) is not None


def stale() -> list[str]:
    """Reasons for the survival of what is no mutation."""
    names = [each.name for each in every()]
    return [key for key in REASONS if not any(name.startswith(key) for name in names)]
