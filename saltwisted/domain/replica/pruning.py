"""
Until when history may be pruned: one wrong clock must not decide that.

What is pruned never comes back. So the time is the one on which most members agree within L{LIMIT}
seconds, carried forward by the runtime of this machine, which nobody sets. While clocks differ by
more, or this node's own has jumped, nothing is pruned: that only costs space.

A master without peers has nobody to ask. It uses its own clock and its runtime, and believes a
clock that has jumped when it has stayed with the new time for L{TRIAL} seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import define

LIMIT = 60.0
"""Seconds by which clocks may differ."""
TRIAL = 3600.0
"""Seconds after which a master without peers believes its own clock again."""


@define
class PruneClock:
    """
    The part of one node.

    @ivar agreed: a time, and the runtime of this machine then; C{None} before there is one.
    @ivar problem: why nothing is pruned, or C{""}.
    """

    agreed: tuple[float, float] | None = None
    problem: str = ""
    _odd: tuple[float, float] | None = None

    def compare(
        self,
        wall: float,
        runtime: float,
        others: Collection[str],
        clocks: Mapping[str, float],
        node: str = "",
    ) -> None:
        """
        Clocks were compared.

        @param wall: this node's own clock.
        @param runtime: seconds that this machine has run, by a clock that nobody sets.
        @param others: the other members, whether they can be reached or not.
        @param clocks: the present clocks of those that answered.
        @param node: this node's name, for texts.
        """
        if not others:
            self._alone(wall, runtime)
            return
        shown = {node: wall, **{name: clocks[name] for name in clocks if name in others}}
        known = sorted(shown.values())
        middle = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
        off = {name: at - middle for name, at in shown.items()}
        if max(off.values()) - min(off.values()) > LIMIT:
            worst = max(off, key=lambda name: (abs(off[name]), name))
            whose = "this node's clock" if worst == node else f"the clock of {worst}"
            self.problem = f"{whose} is {_ahead(off[worst])} the others'; nothing is pruned"
        elif 2 * len(shown) > len(others) + 1:
            self.agreed = (middle, runtime)
            self.problem = ""
        elif self.agreed is None:
            self.problem = "no majority of the members has reported its time; nothing is pruned"
        else:
            self._hold(wall, runtime)

    def _alone(self, wall: float, runtime: float) -> None:
        if self.agreed is None:
            self.agreed = (wall, runtime)
        self._hold(wall, runtime)
        if not self.problem:
            self.agreed, self._odd = (wall, runtime), None
            return
        if self._odd is None or abs(self._odd[0] + runtime - self._odd[1] - wall) > LIMIT:
            self._odd = (wall, runtime)
        elif runtime - self._odd[1] >= TRIAL:
            self.agreed, self._odd, self.problem = (wall, runtime), None, ""

    def _hold(self, wall: float, runtime: float) -> None:
        """Hold this node's clock against the time that was agreed."""
        assert self.agreed is not None
        jump = wall - (self.agreed[0] + runtime - self.agreed[1])
        self.problem = ""
        if abs(jump) > LIMIT:
            way = "forward" if jump > 0 else "back"
            self.problem = f"this node's clock was set {way} by {_text(jump)}; nothing is pruned"

    def time(self, wall: float, runtime: float) -> float | None:
        """What time it is for who prunes; C{None}: nothing may be pruned now."""
        if self.agreed is None:
            return None
        if not self.problem:
            self._hold(wall, runtime)
        if self.problem:
            return None
        return self.agreed[0] + runtime - self.agreed[1]


def _text(seconds: float) -> str:
    size = abs(seconds)
    return f"{size / 3600:.1f} h" if size >= 7200 else f"{size:.0f} s"


def _ahead(seconds: float) -> str:
    return f"{_text(seconds)} {'ahead of' if seconds > 0 else 'behind'}"
