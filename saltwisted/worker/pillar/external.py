"""
External pillars: data from commands, trees of files and stacks of templates.

Ours are C{cmd_json cmd_yaml cmd_yamlex extra_minion_data_in_pillar file_tree git gpg
nodegroups stack}, with stock's arguments and answers. A module from
C{extension_modules} or C{module_dirs} comes before ours, stock's own modules
come behind where Salt is installed. What a source reads from files is recorded
with the L{RootsHost}; everything else makes the pillar one that is not kept.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, evolve, field

from saltwisted.domain.render.pipeline import Renderer
from saltwisted.domain.targeting.matchers import MinionFacts, matches
from saltwisted.worker.pillar import sources as extsources
from saltwisted.worker.pillar.stack import stack
from saltwisted.worker.pillar.tree import file_tree
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.renderhost import RootsHost


@define(kw_only=True)
class Sources:
    """
    What an external pillar may use, and the L{ExtPillars} of the compiler.

    @ivar opts: Salt-shaped options; C{id} is the master's own.
    @ivar functions: returns Salt's functions.
    @ivar extra: C{extra_minion_data} of the request.
    @ivar failing: as L{saltwisted.worker.pillar.host.PillarHost} says.
    """

    opts: Mapping[str, Any] = field(repr=False)
    facts: MinionFacts
    host: RootsHost
    renderer: Renderer
    functions: Callable[[], Mapping[str, Any]]
    pillarenv: str | None = None
    saltenv: str | None = None
    extra: Mapping[str, Any] | None = None
    failing: list[str] = field(factory=list, repr=False)
    pillar: Mapping[str, Any] = field(factory=dict, repr=False)
    changed: Callable[[Mapping[str, Any]], None] = lambda pillar: None
    compile_roots: Callable[[str, list[str]], Mapping[str, Any]] | None = None
    _custom: Any = field(default=None, init=False)
    _stock: Any = field(default=None, init=False)

    def has(self, name: str) -> bool:
        """As the protocol says."""
        found = self._function(name) is not None
        if not found:
            self.host.volatile.add(name)  # it may come
        return found

    def replaced(self, pillar: Mapping[str, Any]) -> None:
        """As the protocol says."""
        self.pillar = pillar
        self.changed(pillar)
        for loaders in (self._custom, self._stock):
            if loaders is not None:
                loaders.replace(pillar=pillar)

    def run(self, name: str, pillar: Mapping[str, Any], config: Any) -> Any:
        """As the protocol says: a map gives keywords, a list positions, else one argument."""
        function = self._function(name)
        assert function is not None
        self.pillar = pillar
        keywords: dict[str, Any] = {}
        if self.extra and "extra_minion_data" in inspect.signature(function).parameters:
            keywords["extra_minion_data"] = self.extra
        if isinstance(config, dict):
            return function(self.facts.id, pillar, **keywords, **config)
        if isinstance(config, list):
            return function(self.facts.id, pillar, *config, **keywords)
        return function(self.facts.id, pillar, config, **keywords)

    def groups(self) -> list[str]:
        """The names of the node groups that the minion is in."""
        facts = evolve(self.facts, pillar=self.pillar)
        known = self.opts.get("nodegroups") or {}
        return [name for name in known if matches(name, "nodegroup", facts)]

    def _function(self, name: str) -> Callable[..., Any] | None:
        custom = self._module(name, stock=False)
        if custom is not None:
            return custom
        ours = OURS.get(name)
        if ours is not None:
            function = ours(self)
            function.__qualname__ = "ext_pillar"  # Python's errors name it
            return function
        return self._module(name, stock=True)

    def _module(self, name: str, stock: bool) -> Callable[..., Any] | None:
        loaders = self._stock if stock else self._custom
        if loaders is None:
            loaders = Loaders(
                self.opts,
                grains=self.facts.grains,
                pillar=self.pillar,
                stock=stock,
                extra={"__salt__": self.functions()},
            )
            if stock:
                self._stock = loaders
            else:
                self._custom = loaders
        function = loaders["pillar"].get(f"{name}.ext_pillar")
        if function is None:
            return None

        def call(*args: Any, **kwargs: Any) -> Any:
            self.host.volatile.add(name)
            try:
                return function(*args, **kwargs)
            except SystemExit as error:
                path = function.__code__.co_filename
                raise RuntimeError(f"{path} wanted to end the process: {error!r}") from error

        call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return call


OURS: dict[str, Callable[[Sources], Callable[..., Any]]] = {
    "cmd_json": extsources.cmd_json,
    "cmd_yaml": extsources.cmd_yaml,
    "cmd_yamlex": extsources.cmd_yamlex,
    "extra_minion_data_in_pillar": extsources.extra_minion_data_in_pillar,
    "file_tree": file_tree,
    "git": extsources.git,
    "gpg": extsources.gpg,
    "nodegroups": extsources.nodegroups,
    "stack": stack,
}
"""Name to a maker of the function that is called C{ext_pillar} in Salt."""
