"""
Which minions a target matches, among all that a master knows.

The master publishes to everyone who listens; this says whose answer to await and who may be reached
(C{CkMinions} of C{salt/utils/minions.py} in 3008.2). Ids come from the accepted keys, grains and
pillar from the minion data cache; a minion without cached grains is not in a selection by grain.
The order is that of the accepted ids, or of a list as written.

Ten thousand minions take 10 to 30 milliseconds, which is too long for a reactor, and a regular
expression may take for ever. So L{selecting} works in small steps, and gives risky expressions to
its caller, who has them tried where they do no harm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from attrs import field, frozen

from saltwisted.domain.api.pieces import room_after
from saltwisted.domain.targeting.bounds import fault
from saltwisted.domain.targeting.compound import Word, parse_word, select, words_of
from saltwisted.domain.targeting.globs import translate
from saltwisted.domain.targeting.matchers import compiled, in_network, parse_network
from saltwisted.domain.targeting.nodegroups import expand
from saltwisted.domain.targeting.regexes import is_risky
from saltwisted.domain.targeting.traverse import DELIMITER, Subdict, scalar

Fetch = Callable[[str, str], Mapping[str, Any] | None]
Part = Callable[[str, str, tuple[Any, ...]], Mapping[Any, Any] | None]

STEP = 8
"""Minions that are looked at in one step: under 0.05 ms, and 2 when their data must be unpacked."""
HEAVY = 2048
"""Characters of patterns that are compiled between two steps; it takes a microsecond for each."""
LIGHT = 4000
"""
Values of one minion's data that are looked at at once, by a target without a star; more are looked
at elsewhere.
"""
_TEXT = frozenset((str,))
FEW = 8
"""Texts of one grain that are not weighed."""
ADDRESSES_STEP = 64
"""Addresses of one minion that are looked at between two steps, more only if they are of one."""
NAMES_STEP = 2048
"""Names of a list that are looked up in one step."""


@frozen(kw_only=True)
class Universe:
    """
    The minions of a master.

    @ivar accepted: ids with an accepted key, sorted.
    @ivar fetch: C{fetch(bank, id)} from the minion data cache; banks are C{grains} and C{pillar}.
    @ivar part: C{part(bank, id, keys)}, the same but only these keys; if it is given, it is
        quicker.
    @ivar cached: C{cached(bank)}, the ids with data in a bank.
    @ivar data_cache: C{minion_data_cache}; without it grains select everybody.
    @ivar expand_range: ids of a range expression, if that library is installed.
    """

    accepted: Sequence[str]
    fetch: Fetch = field(default=lambda bank, minion_id: None)
    part: Part | None = None
    cached: Callable[[str], Iterable[str]] = field(default=lambda bank: ())
    nodegroups: Mapping[str, Any] = {}
    data_cache: bool = True
    expand_range: Callable[[str], Iterable[str]] | None = None


@frozen(kw_only=True)
class Selection:
    """
    The minions that a target matches.

    @ivar missing: names in a list that no accepted minion has.
    @ivar problems: why the target is invalid; empty if it is valid. For the log.
    """

    minions: Sequence[str]
    missing: Sequence[str] = ()
    problems: Sequence[str] = ()


@frozen
class Risky:
    """
    A pattern that may take for ever, or takes long to compile: one target for the caller to
    evaluate.

    @ivar ids: the minions in question.
    @ivar bank: the bank in the cache whose data matters; C{""} if the ids do.
    """

    tgt: Any
    tgt_type: str
    delimiter: str
    ids: Sequence[str]
    bank: str


Steps: TypeAlias = Generator[Risky | None, Sequence[str] | None, Any]
"""
C{None} after each step; a L{Risky} wants the ids that match it sent, C{None} for too slow.
"""


def check_minions(
    tgt: Any,
    tgt_type: str,
    universe: Universe,
    delimiter: str = DELIMITER,
    greedy: bool = True,
) -> Selection:
    """
    The minions which a target means, at once.

    @param greedy: false to consider only minions with cached grains, as for the mine;
        it matters for grains, pillar and addresses alone.
    @return: nobody, with C{problems}, when the target cannot be understood.
    """
    steps = selecting(tgt, tgt_type, universe, delimiter, greedy, wary=False)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            selection: Selection = end.value
            return selection


def selecting(
    tgt: Any,
    tgt_type: str,
    universe: Universe,
    delimiter: str = DELIMITER,
    greedy: bool = True,
    wary: bool = True,
) -> Steps:
    """
    The same in steps; the generator's value is the L{Selection}.

    @param wary: give risky regular expressions to the caller.
    """
    reason = fault(tgt, tgt_type, delimiter)
    if reason:
        return Selection(minions=(), problems=[reason])
    search = _Search(universe, greedy, wary)
    found = yield from search.find("" if tgt is None else tgt, tgt_type, delimiter)
    return Selection(minions=found, missing=search.missing, problems=search.problems)


class _Search:
    def __init__(self, universe: Universe, greedy: bool, wary: bool) -> None:
        self.universe = universe
        self.greedy = greedy
        self.wary = wary
        self.missing: list[str] = []
        self.problems: list[str] = []
        self._everyone: set[str] | None = None

    def problem(self, text: str) -> None:
        """Note why the target is not understood; who wrote it knows its end."""
        self.problems.append(text if len(text) <= 200 else text[:197] + "...")

    def everyone(self) -> set[str]:
        if self._everyone is None:
            self._everyone = set(self.universe.accepted)
        return self._everyone

    def find(self, tgt: Any, tgt_type: str, delimiter: str) -> Steps:
        if tgt_type in ("compound", "compound_pillar_exact"):
            return (yield from self.compound(tgt, tgt_type != "compound"))
        if tgt_type in ("nodegroup", "nodegroup_pillar_exact"):
            words = expand(str(tgt), self.universe.nodegroups, self.problem)
            return (yield from self.compound(words, tgt_type != "nodegroup"))
        if tgt_type in NESTED:
            return (yield from self.nested(tgt, tgt_type, delimiter))
        long = LONG.get(tgt_type)
        if long is not None:
            return (yield from long(self, tgt))
        if tgt_type == "range":
            return self.from_range(tgt)
        self.problem(f"Unknown target type {tgt_type!r}")
        return []

    def risky(self, tgt: Any, tgt_type: str, delimiter: str, ids: Sequence[str]) -> Steps:
        """Have somebody else try it."""
        bank = NESTED[tgt_type][0] if tgt_type in NESTED else ""
        found = yield Risky(tgt, tgt_type, delimiter, ids, bank)
        if found is None:
            self.problem(f"The pattern {tgt!r} takes too long to match")
            return []
        return list(found)

    def glob(self, tgt: Any) -> Steps:
        """Wild cards; several patterns may be separated by commas."""
        if tgt == "*":
            return list(self.universe.accepted)
        if not isinstance(tgt, str):
            if not isinstance(tgt, (list, tuple)):
                self.problem(f"A glob must be a string, not {type(tgt).__name__}")
                return []
            patterns = [str(part) for part in tgt]
        else:
            patterns = tgt.split(",")
        if not any(sign in pattern for pattern in patterns for sign in "*?["):
            everyone = self.everyone()
            return [name for name in dict.fromkeys(patterns) if name in everyone]
        if self.wary and sum(map(len, patterns)) > HEAVY:
            return (yield from self.risky(tgt, "glob", DELIMITER, self.universe.accepted))
        regex = re.compile("|".join(translate(pattern) for pattern in patterns))
        return (yield from self.by_name(regex))

    def by_name(self, regex: re.Pattern[str]) -> Steps:
        found: list[str] = []
        accepted = self.universe.accepted
        for start in range(0, len(accepted), 32 * STEP):
            found += [name for name in accepted[start : start + 32 * STEP] if regex.match(name)]
            yield None
        return found

    def pcre(self, tgt: Any) -> Steps:
        """A regular expression for the beginning of the id."""
        if self.wary and isinstance(tgt, str) and len(tgt) > HEAVY:
            return (yield from self.risky(tgt, "pcre", DELIMITER, self.universe.accepted))
        regex = compiled(tgt)
        if regex is None:
            self.problem(f"Invalid regular expression {tgt!r}")
            return []
        if self.wary and is_risky(tgt):
            return (yield from self.risky(tgt, "pcre", DELIMITER, self.universe.accepted))
        return (yield from self.by_name(regex))

    def names(self, tgt: Any, count_missing: bool = True) -> Steps:
        """Names; those that nobody has are missing."""
        if not isinstance(tgt, (str, list, tuple, set, frozenset)):
            self.problem(f"Expected a list of names, not {type(tgt).__name__}")
            return []
        everyone = self.everyone()
        found: dict[str, None] = {}
        missing: dict[str, None] = {}
        for some in _portions(tgt):
            for name in some:
                (found if name in everyone else missing)[name] = None
            yield None
        if count_missing:
            self.missing += missing
        return list(found)

    def nested(self, tgt: Any, kind: str, delimiter: str) -> Steps:
        """Grains or pillar in the cache."""
        universe = self.universe
        bank, regex, exact = NESTED[kind]
        if not universe.data_cache:
            return list(universe.accepted) if self.greedy else []
        if not isinstance(tgt, str):
            self.problem(f"{bank} are matched by a string, not {type(tgt).__name__}")
            return []
        wanted = Subdict(tgt, delimiter, regex, exact)
        known = set(universe.cached("grains"))
        names = universe.accepted if self.greedy else sorted(known)
        if self.wary and _takes_long(tgt, delimiter, regex):
            names = [name for name in names if name in known]
            return (yield from self.risky(tgt, kind, delimiter, names))
        if regex and _is_wrong(tgt, delimiter):
            self.problem(f"Invalid regular expression {tgt!r}")
            return []
        fetch = self.fetching(bank, first_keys(tgt, delimiter))
        # Each star is tried on everything that is in there
        room = LIGHT // (1 + tgt.count("*"))
        found, heavy = [], []
        looked = 0
        for number, name in enumerate(names, 1):
            if number % STEP == 0 or looked > room:
                looked = 0
                yield None
            data = fetch(name) if name in known else None
            if data is None:
                continue
            left = _left_after(data, room) if self.wary else room
            looked += room - left
            if left < 0:
                heavy.append(name)
            elif wanted.matches(data):
                found.append(name)
        if not heavy:
            return found
        also = yield from self.risky(tgt, kind, delimiter, heavy)
        both = {*found, *also}
        return [name for name in names if name in both]

    def fetching(
        self, bank: str, keys: tuple[Any, ...]
    ) -> Callable[[str], Mapping[Any, Any] | None]:
        """How to read a minion's data; without C{keys} all of it."""
        part, fetch = self.universe.part, self.universe.fetch
        if part is None or not keys:
            return lambda name: fetch(bank, name)
        return lambda name: part(bank, name, keys)

    def ipcidr(self, tgt: Any) -> Steps:
        """An address or network; minions whose addresses are unknown stay in when greedy."""
        universe = self.universe
        if not universe.data_cache:
            return list(universe.accepted) if self.greedy else []
        network = parse_network(tgt)
        if network is None:
            self.problem(f"Invalid IP/CIDR target: {tgt}")
            return []
        known = set(universe.cached("grains"))
        fetch = self.fetching("grains", (f"ipv{network.version}",))
        found = []
        for number, name in enumerate(universe.accepted if self.greedy else sorted(known), 1):
            if number % STEP == 0:
                yield None
            grains = fetch(name) if name in known else None
            if grains is None:
                if self.greedy:
                    found.append(name)
                continue
            if in_network(network, grains):
                found.append(name)
            if len(next(iter(grains.values()), ())) > ADDRESSES_STEP:
                yield None
        return found

    def from_range(self, tgt: Any) -> list[str]:
        """A range expression, if somebody can expand it."""
        if self.universe.expand_range is None:
            self.problem("Range matcher unavailable (unable to import seco.range)")
            return []
        everyone = self.everyone()
        return [name for name in self.universe.expand_range(tgt) if name in everyone]

    def compound(self, tgt: Any, pillar_exact: bool) -> Steps:
        """Words with engines and operators."""
        universe = self.universe
        if not universe.data_cache:
            # Salt 3006: without a cache nobody can be excluded
            return list(universe.accepted)

        def find(word: Word, subtracted: bool) -> Generator[Any, Any, set[str] | None]:
            engine, pattern = word.engine, word.pattern
            if engine in ("", "M"):
                return set((yield from self.glob(pattern)))
            if engine == "L":
                return set((yield from self.names(pattern, not subtracted)))
            if engine in NESTED_ENGINES:
                exact = pillar_exact and engine in "IJ"
                kind = "pillar_exact" if exact else NESTED_ENGINES[engine]
                if NESTED[kind][1] and _is_wrong(pattern, word.delimiter or DELIMITER):
                    # What is subtracted must not be nobody by mistake
                    self.problem(f"Invalid regular expression {pattern!r}")
                    return None
                return set((yield from self.nested(pattern, kind, word.delimiter or DELIMITER)))
            if engine == "S":
                return set((yield from self.ipcidr(pattern)))
            if engine == "E":
                if len(pattern) <= HEAVY and compiled(pattern) is None:
                    self.problem(f"Invalid regular expression {pattern!r}")
                    return None
                return set((yield from self.pcre(pattern)))
            if engine == "R" and universe.expand_range is not None:
                return set(self.from_range(pattern))
            if engine == "T":
                self.problem(f"Resource targets are not supported: T@{pattern}")
            return None

        chosen = yield from select(tgt, find, self.everyone, universe.nodegroups, self.problem)
        if chosen is None:
            self.missing.clear()
            return []
        # Cached data may be of minions that are not accepted any more: as many are not the same
        if len(chosen) == len(self.everyone()) and chosen == self.everyone():
            return list(universe.accepted)
        return sorted(chosen)


def _portions(tgt: Any) -> Iterator[list[str]]:
    """The names of a list or of a text with commas, some at a time."""
    if isinstance(tgt, str):
        rest = [tgt]
        while rest:
            *some, last = rest.pop().split(",", NAMES_STEP)
            if len(some) == NAMES_STEP:
                rest.append(last)
            else:
                some.append(last)
            yield [name for name in some if name]
        return
    names = iter(tgt)
    while some := list(islice(names, NAMES_STEP)):
        yield [str(name) for name in some]


def _left_after(data: Mapping[Any, Any], room: int) -> int:
    """What is left of a room for what a target asks for of one minion; below 0, it takes long."""
    if len(data) == 1:
        # Nearly always it is one grain: a text, or some
        for value in data.values():
            if type(value) is str:
                return room
            if type(value) is list and len(value) <= FEW and set(map(type, value)) <= _TEXT:
                return room - len(value)
    return room_after(data, room)


def first_keys(tgt: str, delimiter: str) -> tuple[Any, ...]:
    """The keys by which a nested target enters the data; none if it may be any of them."""
    first = tgt.partition(delimiter)[0] if delimiter else ""
    if first in ("", "*"):
        return ()
    other = scalar(first)
    return (first, other) if other is None or isinstance(other, (int, float)) else (first,)


def _takes_long(tgt: str, delimiter: str, regex: bool) -> bool:
    """Whether to read a nested target elsewhere: every tail of it may have to be compiled."""
    if not regex and not any(sign in tgt for sign in "*?["):
        return len(tgt) > 16 * HEAVY
    parts = tails(tgt, delimiter)
    if sum(map(len, parts)) > HEAVY:
        return True
    return regex and any(is_risky(part, 1) for part in parts)


def _is_wrong(tgt: str, delimiter: str) -> bool:
    """
    Whether no part of a nested target is an expression, nor the star that stands for anything;
    long ones are tried elsewhere.
    """
    parts = tails(tgt, delimiter) or [tgt]
    short = sum(map(len, parts)) <= HEAVY
    return short and all(part != "*" and compiled(part) is None for part in parts)


def tails(tgt: str, delimiter: str) -> list[str]:
    """What of a nested target may be read as an expression: all that follows a delimiter."""
    head, found_one, _ = tgt.partition(delimiter) if delimiter else (tgt, "", "")
    starts = {0} if head == "*" else set()
    if found_one:
        first = len(head) + len(delimiter)
        starts |= {at + len(delimiter) for at in _places(tgt, delimiter, 0)}
        # Below a map the delimiter is always a colon, and a star stands for any key
        starts |= {at + 1 for at in _places(tgt, DELIMITER, first)}
    return [tgt[start:] for start in sorted(starts)]


def _places(text: str, what: str, start: int) -> Iterator[int]:
    at = text.find(what, start)
    while at >= 0:
        yield at
        at = text.find(what, at + len(what))


LONG: dict[str, Callable[[_Search, Any], Steps]] = {
    "glob": _Search.glob,
    "list": _Search.names,
    "pcre": _Search.pcre,
    "ipcidr": _Search.ipcidr,
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

NESTED_ENGINES = {"G": "grain", "P": "grain_pcre", "I": "pillar", "J": "pillar_pcre"}

EXACT_FORMS = {
    "pillar": "pillar_exact",
    "pillar_pcre": "pillar_exact",
    "compound": "compound_pillar_exact",
    "nodegroup": "nodegroup_pillar_exact",
}
"""Target type to the one that reads pillar values without wildcards, also those in its words."""


_LOOSE_FORMS = {
    "pillar_exact": "pillar",
    "compound_pillar_exact": "compound",
    "nodegroup_pillar_exact": "nodegroup",
}
"""Of those types the ones that name the same values; a client may send either."""


def exact_form(tgt_type: str) -> str:
    """
    The type as which a target is read that a minion names, which must not learn others' pillar.

    With wildcards it could spell a value out, one sign after another.
    """
    return EXACT_FORMS.get(tgt_type, tgt_type)


def pillar_words(tgt: Any, tgt_type: str, nodegroups: Mapping[str, Any]) -> list[Word]:
    """
    Those operands of a target that ask for pillar, of its node groups as well.

    @param nodegroups: empty to look at what the target itself says alone.
    """
    known: set[str] = set()
    tgt_type = _LOOSE_FORMS.get(tgt_type, tgt_type)
    if tgt_type in ("pillar", "pillar_pcre"):
        return [Word("I" if tgt_type == "pillar" else "J", "", str(tgt))]
    if tgt_type == "nodegroup":
        words = expand(str(tgt), nodegroups)
    elif tgt_type == "compound":
        words = words_of(tgt) or []
    else:
        return []
    found = []
    for word in map(parse_word, words):
        if word.engine == "N" and word.pattern in nodegroups:
            if word.pattern in known:
                continue
            known.add(word.pattern)
            found += [w for w in map(parse_word, expand(word.pattern, nodegroups)) if w.engine]
        else:
            found.append(word)
    return [word for word in found if word.engine in ("I", "J")]


def guesses_pillar(tgt: Any, tgt_type: str, nodegroups: Mapping[str, Any]) -> bool:
    """
    Whether a target asks for pillar values by wildcards or expressions, in negations too.

    Read exactly, C{not I@role:db*} would mean the very minions that it excludes: where a job is
    to run, such a target is refused instead.
    """
    # Any regular expression is one: it matches the beginning of a value
    return any(
        word.engine == "J" or not {"*", "?", "["}.isdisjoint(word.pattern)
        for word in pillar_words(tgt, tgt_type, nodegroups)
    )
