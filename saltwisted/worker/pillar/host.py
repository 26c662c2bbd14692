"""
What an external pillar may use; the other half is L{saltwisted.worker.pillar.external}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from saltwisted.domain.render.pipeline import Renderer
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.worker.renderhost import RootsHost


class PillarHost(Protocol):
    """
    One minion's pillar, while it is compiled.

    @ivar opts: Salt-shaped options; C{id} is the master's own.
    @ivar functions: returns Salt's functions.
    @ivar extra: C{extra_minion_data} of the request.
    @ivar failing: what external pillars could not do, though the pillar has no error of it: a
        sentence each, without data of the pillar.
    """

    opts: Mapping[str, Any]
    facts: MinionFacts
    host: RootsHost
    renderer: Renderer
    functions: Callable[[], Mapping[str, Any]]
    pillarenv: str | None
    saltenv: str | None
    extra: Mapping[str, Any] | None
    failing: list[str]
    compile_roots: Callable[[str, list[str]], Mapping[str, Any]] | None

    def groups(self) -> list[str]:
        """The names of the node groups that the minion is in."""
