"""
How far a long piece of work is, for those who wait for it.
"""

from __future__ import annotations

from attrs import define


@define
class Progress:
    """
    Counted by the thread that works, read by any other; nothing depends on it.

    @ivar doing: what is being done, such as C{"paths looked at"}; empty when nothing is.
    @ivar done: how many of them.
    @ivar total: of how many; 0 while that is not known.
    """

    doing: str = ""
    done: int = 0
    total: int = 0

    def begin(self, doing: str, total: int = 0) -> None:
        """From now on it is this."""
        self.doing, self.done, self.total = doing, 0, total

    def close(self) -> None:
        """Nothing is being done."""
        self.begin("")
