"""
Who is it? A target against all minions that a master knows.

The master publishes to everyone who listens; this says whose answer to await
and who may be reached (C{CkMinions} of C{salt/utils/minions.py} in 3008.2). Ids
come from the accepted keys, grains and pillar from the minion data cache; a
minion without cached grains is not in a selection by grain. The order is that
of the accepted ids, or of a list as written.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from saltwisted.domain.targeting.compound import Word, select
from saltwisted.domain.targeting.matchers import compiled, in_network, parse_network
from saltwisted.domain.targeting.nodegroups import expand
from saltwisted.domain.targeting.traverse import DELIMITER, Subdict

Fetch = Callable[[str, str], Mapping[str, Any] | None]


@frozen(kw_only=True)
class Universe:
    """
    The minions of a master.

    @ivar accepted: ids with an accepted key, sorted.
    @ivar fetch: C{fetch(bank, id)} from the minion data cache; banks are C{grains} and C{pillar}.
    @ivar cached: C{cached(bank)}, the ids with something in a bank.
    @ivar data_cache: C{minion_data_cache}; without it grains select everybody.
    @ivar expand_range: ids of a range expression, where that library is there.
    """

    accepted: Sequence[str]
    fetch: Fetch = field(default=lambda bank, minion_id: None)
    cached: Callable[[str], Iterable[str]] = field(default=lambda bank: ())
    nodegroups: Mapping[str, Any] = {}
    data_cache: bool = True
    expand_range: Callable[[str], Iterable[str]] | None = None


@frozen(kw_only=True)
class Selection:
    """
    Whom a target means.

    @ivar missing: names in a list that no accepted minion has.
    @ivar problems: why the target was not understood; empty when it was. For the log.
    """

    minions: Sequence[str]
    missing: Sequence[str] = ()
    problems: Sequence[str] = ()


def check_minions(
    tgt: Any,
    tgt_type: str,
    universe: Universe,
    delimiter: str = DELIMITER,
    greedy: bool = True,
) -> Selection:
    """
    The minions which a target means.

    @param greedy: false to consider only minions with cached grains, as for the mine;
        it matters for grains, pillar and addresses alone.
    @return: nobody, with C{problems}, when the target cannot be understood.
    """
    search = _Search(universe, greedy)
    if tgt is None:
        tgt = ""
    found = search.find(tgt, tgt_type, delimiter)
    return Selection(minions=found, missing=search.missing, problems=search.problems)


class _Search:
    def __init__(self, universe: Universe, greedy: bool) -> None:
        self.universe = universe
        self.greedy = greedy
        self.missing: list[str] = []
        self.problems: list[str] = []
        self._everyone: set[str] | None = None

    def everyone(self) -> set[str]:
        if self._everyone is None:
            self._everyone = set(self.universe.accepted)
        return self._everyone

    def find(self, tgt: Any, tgt_type: str, delimiter: str) -> list[str]:
        if tgt_type in ("compound", "compound_pillar_exact"):
            return self.compound(tgt, tgt_type != "compound")
        if tgt_type == "nodegroup":
            return self.compound(
                expand(str(tgt), self.universe.nodegroups, self.problems.append), False
            )
        kind = NESTED.get(tgt_type)
        if kind is not None:
            return self.nested(tgt, kind, delimiter)
        simple = SIMPLE.get(tgt_type)
        if simple is None:
            self.problems.append(f"Unknown target type {tgt_type!r}")
            return []
        return simple(self, tgt)

    def glob(self, tgt: Any) -> list[str]:
        """Wild cards; several patterns may be separated by commas."""
        if tgt == "*":
            return list(self.universe.accepted)
        if not isinstance(tgt, str):
            if not isinstance(tgt, (list, tuple)):
                self.problems.append(f"A glob is text, not {type(tgt).__name__}")
                return []
            patterns = [str(part) for part in tgt]
        else:
            patterns = tgt.split(",")
        if not any(sign in pattern for pattern in patterns for sign in "*?["):
            everyone = self.everyone()
            return [name for name in dict.fromkeys(patterns) if name in everyone]
        regex = re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))
        return [name for name in self.universe.accepted if regex.match(name)]

    def pcre(self, tgt: Any) -> list[str]:
        """A regular expression for the beginning of the id."""
        regex = compiled(tgt)
        if regex is None:
            self.problems.append(f"Invalid regular expression {tgt!r}")
            return []
        return [name for name in self.universe.accepted if regex.match(name)]

    def names(self, tgt: Any, count_missing: bool = True) -> list[str]:
        """Names; those that nobody has are missing."""
        if isinstance(tgt, str):
            names = [name for name in tgt.split(",") if name]
        elif isinstance(tgt, (list, tuple, set, frozenset)):
            names = [str(name) for name in tgt]
        else:
            self.problems.append(f"A list of names is needed, not {type(tgt).__name__}")
            return []
        everyone = self.everyone()
        names = list(dict.fromkeys(names))
        if count_missing:
            self.missing += [name for name in names if name not in everyone]
        return [name for name in names if name in everyone]

    def nested(self, tgt: Any, kind: tuple[str, bool, bool], delimiter: str) -> list[str]:
        """Grains or pillar in the cache."""
        universe = self.universe
        bank, regex, exact = kind
        if not universe.data_cache:
            return list(universe.accepted) if self.greedy else []
        if not isinstance(tgt, str):
            self.problems.append(f"{bank} are matched by text, not {type(tgt).__name__}")
            return []
        wanted = Subdict(tgt, delimiter, regex, exact)
        known = set(universe.cached("grains"))
        names = universe.accepted if self.greedy else sorted(known)
        found = []
        for name in names:
            if name in known:
                data = universe.fetch(bank, name)
                if data is not None and wanted.matches(data):
                    found.append(name)
        return found

    def ipcidr(self, tgt: Any) -> list[str]:
        """An address or network; minions whose addresses are unknown stay in when greedy."""
        universe = self.universe
        if not universe.data_cache:
            return list(universe.accepted) if self.greedy else []
        network = parse_network(tgt)
        if network is None:
            self.problems.append(f"Invalid IP/CIDR target: {tgt}")
            return []
        known = set(universe.cached("grains"))
        found = []
        for name in universe.accepted if self.greedy else sorted(known):
            grains = universe.fetch("grains", name) if name in known else None
            if grains is None:
                if self.greedy:
                    found.append(name)
            elif in_network(network, grains):
                found.append(name)
        return found

    def from_range(self, tgt: Any) -> list[str]:
        """A range expression, if somebody can expand it."""
        if self.universe.expand_range is None:
            self.problems.append("Range matcher unavailable (unable to import seco.range)")
            return []
        everyone = self.everyone()
        return [name for name in self.universe.expand_range(tgt) if name in everyone]

    def compound(self, tgt: Any, pillar_exact: bool) -> list[str]:
        """Words with engines and operators."""
        universe = self.universe
        if not universe.data_cache:
            # Salt 3006: without a cache nobody can be excluded
            return list(universe.accepted)
        note = self.problems.append

        def find(word: Word, subtracted: bool) -> set[str] | None:
            engine, pattern = word.engine, word.pattern
            if engine in ("", "M"):
                return set(self.glob(pattern))
            if engine == "L":
                return set(self.names(pattern, not subtracted))
            if engine in NESTED_ENGINES:
                kind = NESTED_ENGINES[engine]
                if pillar_exact and engine in "IJ":
                    kind = NESTED["pillar_exact"]
                return set(self.nested(pattern, kind, word.delimiter or DELIMITER))
            if engine == "S":
                return set(self.ipcidr(pattern))
            if engine == "E":
                return None if compiled(pattern) is None else set(self.pcre(pattern))
            if engine == "R" and universe.expand_range is not None:
                return set(self.from_range(pattern))
            if engine == "T":
                note(f"Resource targets are not supported: T@{pattern}")
            return None

        chosen = select(tgt, find, self.everyone, universe.nodegroups, note)
        if chosen is None:
            self.missing.clear()
            return []
        if len(chosen) == len(self.everyone()):
            return list(universe.accepted)
        return sorted(chosen)


SIMPLE: dict[str, Callable[[_Search, Any], list[str]]] = {
    "glob": _Search.glob,
    "pcre": _Search.pcre,
    "list": _Search.names,
    "ipcidr": _Search.ipcidr,
    "range": _Search.from_range,
    "managing_minion": _Search.glob,
}

NESTED = {
    "grain": ("grains", False, False),
    "grain_pcre": ("grains", True, False),
    "pillar": ("pillar", False, False),
    "pillar_pcre": ("pillar", True, False),
    "pillar_exact": ("pillar", False, True),
}
"""Target type to: which bank, regular expression, exact."""

NESTED_ENGINES = {
    "G": NESTED["grain"],
    "P": NESTED["grain_pcre"],
    "I": NESTED["pillar"],
    "J": NESTED["pillar_pcre"],
}
