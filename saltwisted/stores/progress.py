"""
The progress of a long piece of work, for those who wait for it.
"""

from __future__ import annotations

from attrs import define


@define
class Progress:
    """
    Counted by the thread that works, and read by any other; nothing depends on it.

    @ivar doing: the current activity, such as C{"paths looked at"}; empty when there is none.
    @ivar done: how many are done.
    @ivar total: how many there are; 0 while that is unknown.
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
