"""
A master's figures as families of samples, with the names that dashboards know.

A family has one name, one kind, a description, and samples that differ by their labels. C{web}
writes them for Prometheus. Labels have few values by construction: values from outside (names of
functions, reasons) are limited to L{MOST} in a family, and the others are together in C{other}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen

COUNTER, GAUGE, UNTYPED = "counter", "gauge", "unknown"
MOST = 200
OTHER = "other"
Labels = tuple[tuple[str, str], ...]


@frozen
class Family:
    """
    @ivar name: with C{_total} if it only rises.
    @ivar samples: labels to value.
    """

    name: str
    kind: str
    says: str
    samples: Mapping[Labels, float]


def single(name: str, kind: str, says: str, value: float) -> Family:
    """A family of one sample, without labels."""
    return Family(name, kind, says, {(): float(value)})


def labelled(
    name: str, kind: str, says: str, label: str, values: Mapping[str, float], most: int = MOST
) -> Family:
    """A family with one label; the largest of too many values stay apart."""
    if len(values) > most:
        largest = sorted(values, key=lambda key: (-values[key], key))[:most]
        kept = {key: values[key] for key in largest}
        rest = sum(values.values()) - sum(kept.values())
        values = {**kept, OTHER: kept.get(OTHER, 0.0) + rest}
    return Family(name, kind, says, {((label, k),): float(v) for k, v in values.items()})


def families_of(figures: Mapping[str, Any]) -> Iterator[Family]:
    """
    All that is known of a master; what a figure is missing for has no family.

    @param figures: of L{saltwisted.roles.master.Master.figures}.
    """
    yield from _condition(figures)
    if "latency" in figures:
        yield from _reactor(figures["latency"])
    if "counters" in figures:
        yield from _counters(figures["counters"])
    yield from _totals(figures)
    yield from _sizes(figures)
    if "reactor" in figures:
        yield from _automation(figures["reactor"])
    if "claims" in figures:
        yield from _claims(figures["claims"])
    yield from _cluster(figures)


def _condition(figures: Mapping[str, Any]) -> Iterator[Family]:
    about = {name: str(figures.get(name, "")) for name in ("version", "role", "id")}
    labels = tuple(sorted({**about, "node": about["id"]}.items() - {("id", about["id"])}))
    yield Family("saltwisted_info", GAUGE, "Which program this is; always 1", {labels: 1.0})
    serving = float(bool(figures.get("serving")))
    yield single(
        "saltwisted_serving", GAUGE, "Whether minions are answered, as /readyz says", serving
    )
    if "disks" in figures:
        problems = figures.get("problems", {})
        yield labelled(
            "saltwisted_store_problem",
            GAUGE,
            "Whether a store cannot write, git is outdated, or a pillar has errors at the moment",
            "store",
            {name: float(name in problems) for name in figures["disks"]},
        )


def _reactor(latency: Mapping[str, Any]) -> Iterator[Family]:
    for name, key, says in (
        ("late_recent", "late_recent_ms", "The worst lateness of a timer in the last 10 to 20 s"),
        ("late_max", "late_max_ms", "The worst lateness of a timer since the start"),
        ("callback_cpu_max", "callback_cpu_max_ms", "The most CPU that one callback used"),
        ("silence_max", "silence_max_ms", "The longest of the silences"),
    ):
        yield single(f"saltwisted_reactor_{name}_seconds", GAUGE, says, latency[key] / 1000)
    yield single(
        "saltwisted_reactor_long_callbacks_total",
        COUNTER,
        "Callbacks that used more than 5 ms of CPU",
        latency["callbacks_over_5ms"],
    )
    yield single(
        "saltwisted_reactor_silences_total",
        COUNTER,
        "Turns of over 250 ms, during which nobody else was answered",
        latency["silences"],
    )


_COUNTED = {
    "failed": ("requests_failed", "command", "Requests that failed here"),
    "refused": ("requests_refused", "reason", "Requests and messages that were refused"),
    "signin": ("sign_ins", "result", "Answers to minions that signed in"),
    "login": ("logins", "result", "Logins of users"),
    "denied": ("denied", "what", "What users and minions asked for and may not have"),
}
"""Beginnings of the names of counters, before the colon: their family and its label."""
_REST = ("counted", "name", "Whatever else was counted")


def _counters(counters: Mapping[str, int]) -> Iterator[Family]:
    found: dict[tuple[str, str, str], Counter[str]] = {_REST: Counter()}
    found |= {family: Counter() for family in _COUNTED.values()}
    commands: Counter[str] = Counter()
    for name, count in counters.items():
        first, colon, rest = name.partition(":")
        if colon and first in _COUNTED:
            found[_COUNTED[first]][rest] += count
        elif name.startswith("_") or name in PLAIN_COMMANDS:
            commands[name] += count
        elif not name.startswith(OF_CLAIMS):
            # Those of claims are a family of their own
            found[_REST][name] += count
    yield labelled(
        "saltwisted_requests_total", COUNTER, "Requests that were taken", "command", commands
    )
    for (family, label, says), values in found.items():
        yield labelled(f"saltwisted_{family}_total", COUNTER, says, label, values)


OF_CLAIMS = "claims_"
PLAIN_COMMANDS = frozenset(("publish", "runner", "wheel", "mk_token", "get_token", "ping"))
"""Commands on the wire whose names do not begin with an underscore."""


def _totals(figures: Mapping[str, Any]) -> Iterator[Family]:
    for key, name, says in (
        ("published", "publications", "Publications that were sent to minions"),
        ("rotations", "key_rotations", "Changes to a new publish key"),
        ("events", "events", "Events on this node's bus"),
    ):
        if key in figures:
            yield single(f"saltwisted_{name}_total", COUNTER, says, figures[key])


def _sizes(figures: Mapping[str, Any]) -> Iterator[Family]:
    for key, name, label, says in (
        ("keys", "keys", "state", "Minion keys, by state"),
        ("queues", "queue_length", "queue", "What waits to be done, by queue"),
    ):
        if key in figures:
            yield labelled(f"saltwisted_{name}", GAUGE, says, label, figures[key])
    for key, name, says in (
        ("started", "start_time_seconds", "When this master began, since 1970"),
        ("sessions", "sessions", "Minions with a session that was used since the start"),
        ("schedule_running", "schedule_running", "Entries of the schedule that run now"),
    ):
        if key in figures:
            yield single(f"saltwisted_{name}", GAUGE, says, figures[key])


NOT_YET = dict.fromkeys(
    ("failed", "lost:chain", "lost:claim", "lost:died", "lost:hwm", "lost:old", "lost:size"), 0
)
"""
What an alert watches is told from the start: Prometheus sees no increase in a series that begins
with its first loss.
"""


def _automation(reactor: Mapping[str, Any]) -> Iterator[Family]:
    yield single(
        "saltwisted_reactions_running", GAUGE, "Reactions that run now", reactor["running"]
    )
    yield single(
        "saltwisted_reactions_oldest_seconds",
        GAUGE,
        "How long the oldest reaction has waited",
        max(float(reactor["oldest"]), 0.0) if reactor["depth"] else 0.0,
    )
    yield single(
        "saltwisted_automation_paused",
        GAUGE,
        "Whether reactions and the schedule are paused",
        float(bool(reactor["paused"])),
    )
    yield labelled(
        "saltwisted_reactions_total",
        COUNTER,
        "What became of events that something reacts to",
        "what",
        {**NOT_YET, **reactor["figures"]},
    )


def _claims(claims: Mapping[str, Any]) -> Iterator[Family]:
    yield single(
        "saltwisted_claims_possible",
        GAUGE,
        "Whether this node could take a duty over now",
        float(bool(claims["would_claim"])),
    )
    yield single("saltwisted_duties_held", GAUGE, "Duties that this node holds", claims["held"])
    yield labelled(
        "saltwisted_claims_total",
        COUNTER,
        "What became of claims of short acts, such as reactions",
        "what",
        claims["figures"],
    )


def _cluster(figures: Mapping[str, Any]) -> Iterator[Family]:
    for key, name, label, kind, says in (
        ("links", "link_up", "node", GAUGE, "Whether there is a link to a member"),
        (
            "drift", "option_drift", "option", GAUGE,
            "Members in which an option is another than here that ought to be equal",
        ),
        (
            "roots_lag", "roots_lag", "share", GAUGE,
            "Changes of other members that this node does not serve yet",
        ),
        ("roots_conflicts", "roots_conflicts", "share", GAUGE, "Conflicts that are open"),
        (
            "roots_suspended", "roots_suspended", "share", GAUGE,
            "Whether a share waits for an operator",
        ),
        (
            "roots_received", "roots_received_bytes_total", "node", COUNTER,
            "Contents of roots that came from a member",
        ),
        (
            "roots_sent", "roots_sent_bytes_total", "node", COUNTER,
            "Contents of roots that went to a member",
        ),
    ):  # fmt: skip
        if key in figures:
            yield labelled(f"saltwisted_{name}", kind, says, label, figures[key])
    if "lag" in figures:
        yield Family(
            "saltwisted_replication_lag",
            GAUGE,
            "Entries that a member is not known to have yet",
            {
                (("node", node), ("what", what)): float(count)
                for node, both in figures["lag"].items()
                for what, count in sorted(both.items())
                if count is not None
            },
        )


def parts(families: Iterable[Family], size: int) -> Iterator[tuple[Family, bool]]:
    """
    The families in pieces of at most so many samples, and whether one is the first of its name.
    Each can be written by itself. A family may come in several that follow one another.
    """
    before = ""
    for family in families:
        samples = list(family.samples.items())
        for start in range(0, max(len(samples), 1), size):
            piece = dict(samples[start : start + size])
            yield Family(family.name, family.kind, family.says, piece), family.name != before
            before = family.name
