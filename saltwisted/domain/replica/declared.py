"""
Members that an operator has declared dead: they belong to the cluster, and have no vote for claims.

There is a register per node key, in which the newest statement counts: that it is dead, by an
operator, or that it is alive, by itself when it is back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.fold import Fact, Registers
from saltwisted.errors import WireError

KIND = "declared"


@frozen(kw_only=True)
class Word:
    """
    The last statement about a member.

    @ivar at: the stamp and the origin, which order the statements.
    """

    dead: bool
    by: str
    at: tuple[int, Dot[Stream]]


class Declared(Registers[Word]):
    """The fold of kind C{declared}. Bodies have C{key}, C{dead} and C{by}."""

    kind = KIND

    def key_of(self, body: Mapping[str, Any]) -> str:
        """The node key."""
        key = body["key"]
        if not isinstance(key, str) or not 0 < len(key) <= 64:
            raise WireError("declared-key")
        return key

    def join(
        self, state: Word | None, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]
    ) -> Word:
        """The later word."""
        new = Word(dead=bool(body["dead"]), by=str(body["by"])[:255], at=(stamp, origin))
        return new if state is None or state.at < new.at else state

    def facts(self, key: str, state: Word) -> Iterable[Fact]:
        """One."""
        yield Fact({"key": key, "dead": state.dead, "by": state.by}, *state.at)

    def dead(self) -> set[str]:
        """Keys of the members whose last statement is that."""
        return {key for key, word in self.registers.items() if word.dead}

    def why(self, key: str) -> str:
        """Who declared it, or C{""}."""
        word = self.registers.get(key)
        return word.by if word is not None and word.dead else ""


def declared_body(key: str, dead: bool, by: str) -> dict[str, Any]:
    """What is appended."""
    return {"key": key, "dead": dead, "by": by}
