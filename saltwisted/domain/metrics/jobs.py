"""
What happened to jobs, counted from events, under the names of salt-exporter.

Its dashboards and alerts continue to work: the names, labels and meanings are those of
U{https://github.com/kpetremann/salt-exporter}, with these differences. Families with a label for
each minion exist only on request. Durations are in seconds, as their name says. And the values of
labels are limited, because minions choose them: a return of a function that nobody here has
published counts under C{other}.

Each node counts its own events, so the sum over the nodes of a cluster counts each event once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from saltwisted.domain.metrics.families import COUNTER, GAUGE, OTHER, UNTYPED, Family, Labels

MOST_PAIRS = 200
"""Pairs of a function and a state that have series of their own."""
MOST_SCHEDULED = 100
"""The same of what minions' own schedules run, of which a master has only their word."""
MOST_MINIONS = 100_000
PORTION = 200
"""Minions of which the figures are put together at once."""
LONGEST = 120
"""Characters of a label's value that are told."""
JUDGED = 4096
"""Characters of such a text that decide whether it is told."""
MOST_STATES = 10_000
"""States of one return that are looked at; what has more was made up, or is too much to measure."""
LONGEST_STATE = 1e12
"""Milliseconds; a minion may say any number."""
MASTER = "master"
"""The minion of a runner's return, as salt-exporter calls it."""
Pair = tuple[str, str]


class Pairs:
    """
    Pairs of a function and a state with series of their own: the first ones that were met, up to a
    limit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[Pair] = set()

    def take(self, pair: Pair) -> Pair:
        """The pair under which this one counts; a new one is added while there is room."""
        if pair not in self._known:
            if len(self._known) >= self._most:
                return OTHER, ""
            self._known.add(pair)
        return pair

    def find(self, pair: Pair) -> Pair:
        """The same, but nothing is added."""
        return pair if pair in self._known else (OTHER, "")


class JobFigures:
    """
    Receives events, and provides families.

    @param minions: whether to keep figures of each minion.
    @param functions: the functions of which the last result of each minion is kept.
    """

    def __init__(self, minions: bool, functions: Collection[str]) -> None:
        self._by_minion = minions
        self._functions = frozenset(functions)
        self._published = Pairs(MOST_PAIRS)
        self._scheduled = Pairs(MOST_SCHEDULED)
        self._new: Counter[Pair] = Counter()
        self._expected: Counter[Pair] = Counter()
        self._came: Counter[tuple[Pair, bool]] = Counter()
        self._came_scheduled: Counter[tuple[Pair, bool]] = Counter()
        self._responses: Counter[bool] = Counter()
        self._durations: dict[Pair, float] = {}
        self._of: dict[str, _OfMinion] = {}

    def heard(self, tag: str, data: Mapping[str, Any], own: bool, now: float) -> None:
        """
        An event.

        @param own: whether it arose at this node.
        """
        words = tag.split("/")
        if len(words) < 4 or words[0] != "salt":
            return
        if words[1] in ("job", "run") and words[3] in ("new", "ret"):
            if words[3] == "new":
                self._begun(data, own)
            elif own:
                self._returned(words, data, now)
        elif own and words[1] == "beacon" and words[3] == "status" and self._by_minion:
            self._minion(words[2]).beat = now

    def _begun(self, data: Mapping[str, Any], own: bool) -> None:
        pair = self._published.take(_pair(data))
        if not own:
            return
        self._new[pair] += 1
        minions = data.get("minions")
        self._expected[pair] += len(minions) if isinstance(minions, (list, tuple)) else 0

    def _returned(self, words: Sequence[str], data: Mapping[str, Any], now: float) -> None:
        good, pair = succeeded(data), _pair(data)
        if data.get("schedule"):
            counted = self._scheduled.take(pair)
            self._came_scheduled[counted, good] += 1
        else:
            counted = self._published.find(pair)
            self._came[counted, good] += 1
        self._responses[good] += 1
        duration = seconds_of_states(data.get("return"))
        if duration is not None:
            self._durations[counted] = duration
        if not self._by_minion:
            return
        # Who it is the tag says: the sender of a return cannot be another
        known = self._minion(words[4] if words[1] == "job" and len(words) > 4 else MASTER)
        known.seen = now
        known.responses[good] += 1
        if pair[0] in self._functions:
            known.last[pair[0]] = (counted[1], good)

    def _minion(self, minion_id: str) -> _OfMinion:
        known = self._of.get(minion_id)
        if known is None:
            known = _OfMinion()
            if len(self._of) < MOST_MINIONS:
                self._of[minion_id] = known
        return known

    def forget_others(self, accepted: Collection[str]) -> None:
        """Only these are minions; of others nothing is kept."""
        for gone in self._of.keys() - {*accepted, MASTER} if self._of else ():
            del self._of[gone]

    def families(self) -> Iterator[Family]:
        """What was counted."""
        yield _by_pair("salt_new_job_total", COUNTER, "New jobs", self._new)
        yield _by_pair(
            "salt_expected_responses_total", COUNTER, "Minions that jobs were for", self._expected
        )
        yield _by_result(
            "salt_function_responses_total", "Returns of jobs, by function", self._came
        )
        yield _by_result(
            "salt_scheduled_job_return_total",
            "Returns of what minions' own schedules run",
            self._came_scheduled,
        )
        yield _by_pair(
            "salt_job_duration_seconds",
            GAUGE,
            "How long the states of the last return took together",
            self._durations,
        )
        if self._by_minion:
            yield from self._families_by_minion()
        else:
            yield Family(
                "salt_responses_total",
                COUNTER,
                "Returns",
                {(("success", _word(good)),): float(n) for good, n in self._responses.items()},
            )

    def _families_by_minion(self) -> Iterator[Family]:
        """Each in portions, so that no turn of the reactor sees to all minions."""
        of = list(self._of.items())
        portions = [of[start : start + PORTION] for start in range(0, len(of), PORTION)]
        for portion in portions:
            yield Family(
                "salt_responses_total",
                COUNTER,
                "Returns",
                {
                    (("minion", minion_id), ("success", _word(good))): float(n)
                    for minion_id, known in portion
                    for good, n in sorted(known.responses.items())
                },
            )
        for portion in portions:
            yield Family(
                "salt_function_status",
                GAUGE,
                "Whether the last run of a function succeeded",
                {
                    (("function", fun), ("minion", minion_id), ("state", state)): float(good)
                    for minion_id, known in portion
                    for fun, (state, good) in sorted(known.last.items())
                },
            )
        for name, says, field in (
            ("salt_responses_last_received_response", "When a minion last returned", "seen"),
            ("salt_health_last_heartbeat", "When a minion's status beacon last came", "beat"),
        ):
            for portion in portions:
                yield Family(
                    name,
                    GAUGE,
                    f"{says}, in seconds since 1970",
                    {
                        (("minion", minion_id),): getattr(known, field)
                        for minion_id, known in portion
                        if getattr(known, field)
                    },
                )


class _OfMinion:
    """What is kept of one."""

    __slots__ = ("beat", "last", "responses", "seen")

    def __init__(self) -> None:
        self.beat = 0.0
        self.seen = 0.0
        self.responses: Counter[bool] = Counter()
        self.last: dict[str, tuple[str, bool]] = {}


def minions_total(count: int) -> Family:
    """salt-exporter calls a gauge so; without a kind Prometheus' own lint does not mind."""
    return Family(
        "salt_health_minions_total", UNTYPED, "Minions whose keys are accepted", {(): float(count)}
    )


def _pair(data: Mapping[str, Any]) -> Pair:
    """The function of an event, and the state that it applies."""
    fun = data.get("fun")
    if isinstance(fun, (list, tuple)):
        fun = ",".join(str(each) for each in fun[:10])
    fun = _short(fun)
    return fun, _short(_state(fun, data))


def _short(value: Any) -> str:
    """A label's value: printable, and not too long."""
    text = value if isinstance(value, str) else ""
    return text[:LONGEST] if text[:JUDGED].isprintable() else OTHER


def _state(fun: str, data: Mapping[str, Any]) -> Any:
    if fun == "state.highstate":
        return "highstate"
    if fun not in ("state.sls", "state.apply", "state.single"):
        return ""
    for name in ("arg", "fun_args"):
        args = data.get(name)
        if isinstance(args, (list, tuple)) and args:
            first = args[0]
            if isinstance(first, Mapping):
                first = first.get("fun" if fun == "state.single" else "mods", "")
            return first if isinstance(first, str) else ""
    return "highstate" if fun == "state.apply" else ""


def succeeded(data: Mapping[str, Any]) -> bool:
    """Whether a return is of a success: by its code, its word, and each of its states."""
    if data.get("retcode") or data.get("success") is False:
        return False
    states = data.get("return")
    if not isinstance(states, Mapping):
        return True
    for state in islice(states.values(), MOST_STATES):
        if not isinstance(state, Mapping) or not isinstance(state.get("result"), bool):
            return True
        if not state["result"]:
            return False
    return True


def seconds_of_states(states: Any) -> float | None:
    """How long the states of a return took together; C{None} if it is not one of a state run."""
    if not isinstance(states, Mapping) or not 0 < len(states) <= MOST_STATES:
        return None
    total = 0.0
    for state in states.values():
        took = state.get("duration") if isinstance(state, Mapping) else None
        if not isinstance(took, float) and (isinstance(took, bool) or not isinstance(took, int)):
            return None
        total += min(took, LONGEST_STATE)
    return total / 1000


def _word(good: bool) -> str:
    return "true" if good else "false"


def _labels(pair: Pair) -> Labels:
    return (("function", pair[0]), ("state", pair[1]))


def _by_pair(name: str, kind: str, says: str, values: Mapping[Pair, float]) -> Family:
    return Family(name, kind, says, {_labels(p): float(n) for p, n in sorted(values.items())})


def _by_result(name: str, says: str, values: Mapping[tuple[Pair, bool], int]) -> Family:
    return Family(
        name,
        COUNTER,
        says,
        {
            (*_labels(pair), ("success", _word(good))): float(n)
            for (pair, good), n in sorted(values.items())
        },
    )
