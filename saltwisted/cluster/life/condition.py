"""
The condition of a node: what it reports to the other members, and why it does not serve yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from attrs import define

from saltwisted import __version__
from saltwisted.cluster.facts.replicate import KeyReplica
from saltwisted.cluster.life.catchup import CatchUp


class RootsState(Protocol):
    """The state of the roots."""

    def state(self) -> str:
        """A word for the list of members."""

    def waiting(self) -> str:
        """Which roots are not whole here yet, and why; empty if all are."""

    def received(self) -> int:
        """Bytes that came from all peers together."""


@define(kw_only=True)
class Condition:
    """
    The lifecycle asks for it, and so do other members.

    @ivar is_open: whether minions are answered on both ports.
    @ivar minions: how many are connected here.
    @ivar problems: which stores cannot write, and why.
    @ivar knowledge: how much of the facts is on disk.
    """

    uptime: Callable[[], float]
    is_open: Callable[[], bool]
    minions: Callable[[], int]
    problems: Callable[[], Mapping[str, str]]
    knowledge: Callable[[], Mapping[Any, int]]
    catch_up: CatchUp
    keys: KeyReplica
    roots: RootsState

    def status(self) -> dict[str, Any]:
        """What this node reports about itself to the others."""
        waiting, problems = self.waiting(), self.said()
        return {
            "version": __version__,
            "uptime": self.uptime(),
            "minions": self.minions(),
            "serving": not waiting,
            "degraded": self.catch_up.degraded or problems,
            "problem": waiting or "; ".join(problems),
            "roots": self.roots.state(),
            "received": self.roots.received(),
        }

    def waiting(self) -> str:
        """Why minions are not answered on both ports; empty if they are."""
        if self.is_open():
            return ""
        if not self.catch_up.done:
            late = ", ".join(self.catch_up.late_members())
            return f"it is fetching what it missed{f' from {late}' if late else ''}"
        if not self.keys.written:
            return "it is writing the keys that it has received"
        return self.roots.waiting() or "it is opening its ports"

    def said(self) -> list[str]:
        """Which stores cannot write, and why, in words."""
        return [f"{name}: {why}" for name, why in self.problems().items()]

    def progress(self) -> Any:
        """Something that changes for as long as a start gets on."""
        return self.waiting(), self.knowledge(), self.roots.received()
