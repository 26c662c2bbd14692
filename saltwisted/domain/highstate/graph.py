"""
The graph of requisites: references become edges, edges become an order.

Nodes and edges are numbered. A node keeps its edges in the order in which they were read, because
stock's order among equals (and the text of a cycle) depends on it. The order is that of
C{salt/utils/requisite.py} in 3008.2: topological, and where that leaves a choice, by C{order},
pulled forward by states that wait for a state, then by module, name and function.

A prerequired state is in the graph twice: once to be tried in test mode before the state that
requires it, once to be run after it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Container, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from attrs import define, field

from saltwisted.domain.highstate.words import (
    ORDERING,
    REQUISITES,
    Chunk,
    is_pattern,
    tag_of,
)

_KINDS = tuple(REQUISITES)
_PREREQ = REQUISITES["prereq"]
_REQUIRE = REQUISITES["require"]
_TRIAL = "_|-__prereq_test__"
GROUP = 500
"""So many states are aggregated at most."""


@define(eq=False)
class Node:
    """
    A call, or several aggregated ones.

    @ivar call: the tag of the call; C{tag} differs for a trial.
    @ivar outs: C{number * 16 + kind} of the nodes that wait for this one, in order.
    @ivar ins: the same for the nodes that this one waits for.
    @ivar aggregable: whether the call may be combined with others.
    @ivar aggregate: the number of the node that stands for it and others, or C{None}.
    @ivar members: for such a node: the numbers of what it stands for.
    """

    tag: str
    call: str
    state: str
    chunk: Chunk | None
    aggregable: bool = False
    outs: dict[int, None] = field(factory=dict)
    ins: dict[int, None] = field(factory=dict)
    aggregate: int | None = None
    members: dict[int, None] = field(factory=dict)


class Cycle(Exception):
    """The requisites form a cycle."""


class Graph:
    """The calls of one run, with what each waits for."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._numbers: dict[str, int] = {}
        self._found: dict[tuple[str, str], dict[int, None]] = {}
        self._sls: dict[str, dict[int, None]] = {}
        self._patterns: dict[tuple[str, str], tuple[bool, dict[int, None]]] = {}

    def __bool__(self) -> bool:
        return bool(self.nodes)

    # -- building ----------------------------------------------------------------

    def add(self, low: Chunk, aggregable: bool) -> None:
        """A call; one of the same tag takes the place of the earlier."""
        tag, state, id_, name = tag_of(low), low["state"], low["__id__"], low["name"]
        number = self._number(tag, state, low)
        self.nodes[number].aggregable = aggregable
        for key in ((state, name), (state, id_), ("id", id_), ("id", name)):
            self._found.setdefault(key, {})[number] = None
        if low.get("__sls__"):
            self._sls.setdefault(low["__sls__"], {})[number] = None
        for sls in low.get("__sls_included_from__") or ():
            self._sls.setdefault(sls, {})[number] = None
        self._patterns.clear()

    def _number(self, tag: str, state: str, chunk: Chunk | None) -> int:
        number = self._numbers.get(tag)
        if number is None:
            number = self._numbers[tag] = len(self.nodes)
            self.nodes.append(Node(tag, tag.removesuffix(_TRIAL), state, chunk))
        else:
            self.nodes[number].chunk = chunk
            self.nodes[number].state = state
        return number

    def _edge(self, source: int, target: int, kind: int) -> None:
        self.nodes[source].outs[target * 16 + kind] = None
        self.nodes[target].ins[source * 16 + kind] = None

    def add_requisites(self, low: Chunk, disabled: Container[str] = ()) -> str | None:
        """
        Read the requisites of a call.

        @param disabled: C{disabled_requisites}.
        @return: the first mistake, or C{None}.
        """
        for kind in ORDERING:
            if not low.get(kind) or kind in disabled:
                continue
            for given in low[kind]:
                req = {"id": given} if isinstance(given, str) else given
                key, value = next(iter(req.items()))
                key = key.split(".", 1)[0]
                if value is None:
                    continue
                if not isinstance(value, str):
                    return (
                        f"Requisite [{kind}: {key}] in state [{low['name']}] in SLS "
                        f"[{low.get('__sls__')}] must have a string as the value"
                    )
                known, wanted = self._lookup(key, value)
                if not known:
                    return (
                        f"Referenced state does not exist for requisite [{kind}: "
                        f"({key}: {value})] in state [{low['name']}] in SLS "
                        f"[{low.get('__sls__')}]"
                    )
                self._require(low, REQUISITES[kind], wanted)
        return None

    def _lookup(self, key: str, value: str) -> tuple[bool, Iterable[int]]:
        """Whether a reference means anything, and what."""
        if not is_pattern(value):
            found = self._sls.get(value) if key == "sls" else self._found.get((key, value))
            return bool(found), found or ()
        if (key, value) not in self._patterns:
            numbers: dict[int, None] = {}
            hit = key == "sls"
            if key == "sls":
                for sls, some in self._sls.items():
                    if fnmatch.fnmatch(sls, value):
                        numbers.update(some)
            else:
                for (state, name), some in self._found.items():
                    if state == key and fnmatch.fnmatch(str(name), value):
                        hit = True
                        numbers.update(some)
            self._patterns[key, value] = hit, numbers
        return self._patterns[key, value]

    def _require(self, low: Chunk, kind: int, wanted: Iterable[int]) -> None:
        mine = self._numbers[tag_of(low)]
        if kind == _PREREQ:
            for number in wanted:
                self._prerequire(mine, number)
            return
        nodes = self.nodes
        targets = [mine]
        if low.get("__prereq__", False):
            targets.insert(0, self._numbers[nodes[mine].tag + _TRIAL])
        for target in targets:
            ins, code = nodes[target].ins, target * 16 + kind
            for number in wanted:
                nodes[number].outs[code] = None
                ins[number * 16 + kind] = None

    def _prerequire(self, mine: int, wanted: int) -> None:
        """Try the wanted state first, run it after mine."""
        nodes = self.nodes
        asking, asked = nodes[mine], nodes[wanted]
        if asking.chunk is None or asked.chunk is None:
            return
        asking.chunk["__prerequiring__"] = True
        asked.chunk["__prereq__"] = True
        trial = self._numbers.get(asked.tag + _TRIAL)
        if trial is None:
            trial = self._number(asked.tag + _TRIAL, asked.chunk["state"], asked.chunk)
            for code in list(asked.ins):
                if code & 15 != _PREREQ:
                    self._edge(code >> 4, trial, code & 15)
        self._edge(trial, mine, _PREREQ)
        self._edge(mine, wanted, _REQUIRE)
        # A chain of prereqs is tried in its own order.
        my_trial = self._numbers.get(asking.tag + _TRIAL)
        if my_trial is not None:
            self._edge(trial, my_trial, _PREREQ)

    # -- asking --------------------------------------------------------------------

    def requirements(self, low: Chunk) -> Iterator[tuple[str, str, Chunk]]:
        """Kind, tag and call of everything that a call waits for, now that it is its turn."""
        tag = tag_of(low)
        if low.get("__prereq__"):
            tag += _TRIAL
        number = self._numbers.get(tag)
        for code in self.nodes[number].ins if number is not None else ():
            source = self.nodes[code >> 4]
            if source.chunk is not None:
                yield _KINDS[code & 15], source.call, source.chunk
            else:
                for member in source.members:
                    one = self.nodes[member]
                    if one.chunk is not None:
                        yield _KINDS[code & 15], one.call, one.chunk

    def aggregated(self, low: Chunk) -> list[Chunk]:
        """The calls that may be done together with this one, itself among them."""
        number = self._numbers.get(tag_of(low))
        group = self.nodes[number].aggregate if number is not None else None
        if group is None:
            return []
        chunks = (self.nodes[member].chunk for member in self.nodes[group].members)
        return [chunk for chunk in chunks if chunk is not None]

    # -- the order -------------------------------------------------------------------

    def ordered(self, cap: int) -> list[Chunk]:
        """
        All calls in the order of execution; a prerequired one twice.

        @param cap: the C{order} of a state that has none.
        @raises Cycle: there is no order; L{cycle_text} says why.
        """
        nodes = self.nodes
        count = len(nodes)
        waiting = [len(node.ins) for node in nodes]
        heap = [
            (self._rank(number, cap), nodes[number].tag, number)
            for number in range(count)
            if not waiting[number]
        ]
        heapify(heap)
        order: list[int] = []
        groups: dict[str, list[dict[int, None]]] = {}
        while heap:
            number = heappop(heap)[2]
            order.append(number)
            node = nodes[number]
            if node.aggregable:
                self._aggregate(number, groups.setdefault(node.state, []))
            for code in node.outs:
                target = code >> 4
                if target >= count:
                    continue
                waiting[target] -= 1
                if not waiting[target]:
                    heappush(heap, (self._rank(target, cap), nodes[target].tag, target))
        if len(order) != count:
            raise Cycle
        return [nodes[number].chunk or {} for number in order]

    def _rank(self, number: int, cap: int) -> tuple[tuple[float, float], str]:
        node = self.nodes[number]
        chunk = node.chunk
        if chunk is None:
            return (float("inf"), float("inf")), ""
        order = chunk["order"] = _order_number(chunk.get("order"), cap)
        name_order = chunk.pop("name_order", 0)
        if name_order:
            order = chunk["order"] = order + name_order / 10000.0
        if order < 0:
            order = chunk["order"] = order + cap + 1000000
        first = float("inf")
        heaviest = -1
        for code in node.outs:
            kind = code & 15
            if heaviest <= kind:
                heaviest = kind
                child = self.nodes[code >> 4].chunk
                if child is None:
                    continue
                given = child.get("order", first)
                if not isinstance(given, (int, float)):
                    given = child["order"] = _order_number(given, cap)
                if given < first:
                    first = given
        return (min(order, first), order), f"{chunk['state']}{chunk['name']}{chunk['fun']}"

    def _aggregate(self, number: int, groups: list[dict[int, None]]) -> None:
        """Put a call into the first group that no member of makes it wait for."""
        nodes = self.nodes
        node = nodes[number]
        for index, group in enumerate(groups):
            if len(group) >= GROUP:
                continue
            first = next(iter(group))
            standing = nodes[first].aggregate
            if self._leads(first if standing is None else standing, number):
                continue
            if standing is None:
                standing = self._number(f"__aggregate_{node.state}_{index}__", node.state, None)
                nodes[standing].members = group
                self._copy_edges(first, standing)
                nodes[first].aggregate = standing
            self._copy_edges(number, standing)
            node.aggregate = standing
            group[number] = None
            return
        groups.append({number: None})

    def _copy_edges(self, source: int, target: int) -> None:
        for code in list(self.nodes[source].ins):
            self._edge(code >> 4, target, code & 15)
        for code in list(self.nodes[source].outs):
            self._edge(target, code >> 4, code & 15)

    def _leads(self, source: int, target: int) -> bool:
        """Whether there is a way from one node to another."""
        seen = {source}
        stack = [source]
        while stack:
            here = stack.pop()
            if here == target:
                return True
            for code in self.nodes[here].outs:
                if code >> 4 not in seen:
                    seen.add(code >> 4)
                    stack.append(code >> 4)
        return False

    # -- what went wrong ---------------------------------------------------------------

    def cycle_text(self) -> str:
        """The first circle, as stock prints it."""
        shown = []
        for code, target in self._cycle():
            source, kind = self.nodes[code >> 4], _KINDS[code & 15]
            waiting = self.nodes[target].chunk or {}
            if kind == "require" and "require" not in waiting:
                # The edge that a prereq added.
                kind = "prereq"
            shown.append(f"({_described(waiting)}, '{kind}', {_described(source.chunk or {})})")
        return ", ".join(shown)

    def _cycle(self) -> list[tuple[int, int]]:
        """The edges of the first circle that a walk in depth meets: (source and kind, target)."""
        nodes = self.nodes
        state = bytearray(len(nodes))
        for start in range(len(nodes)):
            if state[start]:
                continue
            state[start] = 1
            path: list[tuple[int, int, Iterator[int]]] = [(start, 0, iter(nodes[start].outs))]
            while path:
                here, _, edges = path[-1]
                for code in edges:
                    target, kind = code >> 4, code & 15
                    if state[target] == 1:
                        circle = [(here * 16 + kind, target)]
                        for index in range(len(path) - 1, 0, -1):
                            if path[index][0] == target:
                                break
                            circle.append(
                                (path[index - 1][0] * 16 + path[index][1], path[index][0])
                            )
                        return list(reversed(circle))
                    if not state[target]:
                        state[target] = 1
                        path.append((target, kind, iter(nodes[target].outs)))
                        break
                else:
                    state[here] = 2
                    path.pop()
        return []

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        lines = ["digraph G {"]
        for node in self.nodes:
            if node.chunk:
                label = f"{node.chunk['state']}.{node.chunk['fun']}\\n{node.chunk['__id__']}"
                if node.chunk["name"] != node.chunk["__id__"]:
                    label += f"\\n({node.chunk['name']})"
                lines.append(f'  "{node.tag}" [label="{label}"];')
            else:
                lines.append(f'  "{node.tag}" [label="Aggregate {node.state}", shape=box];')
        for node in self.nodes:
            for code in node.outs:
                other = self.nodes[code >> 4].tag
                lines.append(f'  "{node.tag}" -> "{other}" [label="{_KINDS[code & 15]}"];')
        lines.append("}")
        return "\n".join(lines)


def _order_number(order: Any, cap: int) -> float:
    if isinstance(order, (int, float)):
        return order
    if order == "last":
        return cap + 1000000
    return 0 if order == "first" else cap


def _described(chunk: Chunk) -> str:
    names = {"SLS": chunk["__sls__"], "ID": chunk["__id__"]}
    if chunk["__id__"] != chunk["name"]:
        names["NAME"] = chunk["name"]
    return str(names)


def order_chunks(
    graph: Graph, chunks: Iterable[Chunk], disabled: Container[str] = ()
) -> tuple[list[Chunk], list[str]]:
    """
    The order of execution, and the errors of the requisites.

    @param graph: with all chunks added.
    @return: chunks and errors; no chunks if requisites form a cycle.
    """
    cap = 1
    errors: list[str] = []
    for chunk in chunks:
        error = graph.add_requisites(chunk, disabled)
        if error:
            errors.append(error)
            continue
        order = chunk.get("order")
        if isinstance(order, int) and order > cap - 1 and order > 0:
            cap = order + 100
    try:
        return graph.ordered(cap), errors
    except Cycle:
        errors.append(f"Recursive requisites were found: {graph.cycle_text()}")
        return [], errors
