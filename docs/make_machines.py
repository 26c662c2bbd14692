"""
Writes C{docs/machines/} from the machines themselves: python docs/make_machines.py

Nothing here is drawn by hand. Some machines are tables, and each of their rows is asked what it
does; three are pure functions, and are tried with every input, or with every sequence of acts up to
a length. A test keeps the pages true.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "machines"
sys.path.insert(0, str(ROOT))

from saltwisted.domain import keys  # noqa: E402
from saltwisted.domain.causality.knowledge import Dot  # noqa: E402
from saltwisted.domain.claims import claimant  # noqa: E402
from saltwisted.domain.orchestration import life  # noqa: E402
from saltwisted.domain.replica import keyset, membership  # noqa: E402
from saltwisted.domain.replica.entry import Stream  # noqa: E402
from saltwisted.minion import failover, rules  # noqa: E402

NOTE = "Written by `docs/make_machines.py` from the code; do not edit."
DEPTH = 4
"""Acts in a row that a register is tried with."""

Step = tuple[str, str, str, tuple[str, ...]]
"""State, event, next state, effects."""


def words(text: str | None) -> str:
    """The first sentence of a docstring, without its markup."""
    first = (text or "").strip().split("\n\n")[0].replace("\n", " ")
    while "  " in first:
        first = first.replace("  ", " ")
    return first.replace("C{", "`").replace("L{", "`").replace("}", "`")


def unique(steps: Iterable[Step]) -> list[Step]:
    """Each step once, in the order of the first."""
    return list(dict.fromkeys(steps))


def drawing(steps: Iterable[Step], start: str) -> list[str]:
    """The steps that change the state, as a diagram."""
    ids: dict[str, str] = {}
    edges: dict[tuple[str, str], list[str]] = {}
    for state, event, after, _ in steps:
        for name in (state, after):
            ids.setdefault(name, "".join(part.capitalize() for part in name.split()) or "None")
        if state != after:
            labels = edges.setdefault((state, after), [])
            if event not in labels:
                labels.append(event)
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f'    state "{name}" as {short}' for name, short in ids.items()]
    lines.append(f"    [*] --> {ids[start]}")
    lines += [f"    {ids[a]} --> {ids[b]}: {', '.join(labels)}" for (a, b), labels in edges.items()]
    return [*lines, "```"]


def table(steps: Iterable[Step], effects: bool = True) -> list[str]:
    """Every step as a row."""
    head = "| state | event | next state |" + (" effects |" if effects else "")
    lines = [head, "|---" * (4 if effects else 3) + "|"]
    for state, event, after, done in steps:
        after = f"**{after}**" if after != state else after
        row = f"| {state} | {event} | {after} |"
        lines.append(row + (f" {', '.join(done)} |" if effects else ""))
    return lines


def legend(title: str, classes: Iterable[type]) -> list[str]:
    """What each event or effect means, in the words of its class."""
    lines = [f"## {title}", "", "| name | meaning |", "|---|---|"]
    return [*lines, *(f"| {cls.__name__} | {words(cls.__doc__)} |" for cls in classes)]


def page(title: str, module: ModuleType, about: str, *parts: list[str]) -> str:
    """A whole page."""
    file = module.__name__.replace(".", "/") + ".py"
    head = [f"# {title}", "", NOTE, "", f"{' '.join(about.split())} The code: `{file}`."]
    return "\n".join([*head, *(line for part in parts for line in ("", *part)), ""])


def named(effects: Iterable[Any]) -> tuple[str, ...]:
    """Names of effects."""
    return tuple(type(effect).__name__ for effect in effects)


# -- one link of a minion


def samples(cls: type, values: dict[str, tuple[Any, ...]]) -> Iterator[Any]:
    """Instances of an event with each combination of values."""
    fields = [field.name for field in attrs.fields(cls)]
    for chosen in product(*(values[name] for name in fields)):
        yield cls(**dict(zip(fields, chosen, strict=True)))


def link_steps() -> list[Step]:
    """What each row of the link's table does."""
    values: dict[str, tuple[Any, ...]] = {
        "reason": ("x",), "address": ("x",), "held": (False, True), "answered": (False, True),
        "lost": (False, True),
    }  # fmt: skip
    limits = rules.Rules()
    found: list[Step] = []
    for state, event in rules.TABLE:
        for sample in samples(event, values):
            for misses in range(limits.misses):
                link = rules.Standing(state=state, misses=misses)
                after, effects = rules.step(link, sample, limits)
                found.append((state.value, event.__name__, after.state.value, named(effects)))
    return unique(found)


def link() -> str:
    """The page of the link."""
    steps = link_steps()
    return page(
        "A minion's link to one master",
        rules,
        """
        When a minion dials a master, when it waits, and what the link is worth.
        Where a row of the table has several outcomes, what is remembered (missed
        heartbeats) or told decides.
        """,
        drawing(steps, rules.State.IDLE.value),
        table(steps),
        legend("Events", rules.Event.__args__),
        legend("Effects", rules.Effect.__args__),
    )


# -- which of several masters


def failover_steps() -> list[Step]:
    """What happens in each standing of two masters that can be reached at all."""
    policy = failover.Policy(failback=30.0)
    values: dict[str, tuple[Any, ...]] = {
        "master": (0, 1), "silent": (False, True), "order": ((0, 1), (1,), ()), "home": (None, 0),
    }  # fmt: skip
    events = [event for cls in failover.Event.__args__ for event in samples(cls, values)]
    found: list[Step] = []
    first = failover.Choice(order=(0, 1), home=0)
    seen, ahead = {first}, [first]
    while ahead:
        choice = ahead.pop(0)
        for event in events:
            after, effects = failover.step(choice, event, policy)
            name = type(event).__name__
            found.append((choice.place.value, name, after.place.value, named(effects)))
            if after not in seen:
                seen.add(after)
                ahead.append(after)
    order = {place.value: number for number, place in enumerate(failover.Place)}
    kinds = {cls.__name__: number for number, cls in enumerate(failover.Event.__args__)}
    return sorted(unique(found), key=lambda step: (order[step[0]], kinds[step[1]]))


def failover_page() -> str:
    """The page of the choice."""
    steps = failover_steps()
    effective = [step for step in steps if step[0] != step[2] or step[3]]
    idle = {step[:2] for step in steps} - {step[:2] for step in effective}
    rows = [f"{event} while {state}" for state, event in sorted(idle)]
    return page(
        "Which of several masters a minion uses",
        failover,
        """
        All that can happen with two masters, of which the first is preferred: found
        by going through every standing that can be reached.
        """,
        drawing(steps, failover.Place.STOPPED.value),
        table(effective),
        [f"Nothing comes of: {', '.join(rows)}."],
        legend("Events", failover.Event.__args__),
        legend("Effects", failover.Effect.__args__),
    )


# -- a sign-in


def sign_in() -> str:
    """Every answer of L{keys.judge} to a sound request, by what is stored and what rules say."""
    heads = (
        "stored key",
        "sent key",
        "autosign",
        "autoreject",
        "open mode",
        "answer",
        "`act`",
        "then",
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    states = ("", "pending", "accepted", "rejected")
    for state, same, sign, reject, is_open in product(states, *[(True, False)] * 4):
        if (not state and same) or (is_open and (sign or reject)):
            continue
        verdict = keys.judge(
            keys.SignIn(
                minion_id="m", pub=b"sent", state=state,
                stored=(b"sent" if same else b"other") if state else b"",
                autosign=sign, autoreject=reject, open_mode=is_open,
            )
        )  # fmt: skip
        sent = ("the same" if same else "another") if state else "new"
        marks = ["yes" if mark else "" for mark in (sign, reject, is_open)]
        lines.append(
            f"| {state or 'none'} | {sent} | {' | '.join(marks)} | {verdict.answer.value} | "
            f"{verdict.act} | {verdict.write or 'as it was'} |"
        )
    return page(
        "A sign-in at a master",
        keys,
        """
        What a minion that signs in is answered, and what is written: `judge`, asked everything.
        Before this, an invalid id and an unsound key are refused, and beyond `max_minions` the
        answer is *full*. In open mode the other rules are not asked.
        """,
        lines,
        legend("The words", [keys.Answer, keys.Verdict]),
    )


# -- registers of a cluster


def tried(
    acts: Iterable[tuple[str, Callable[[Any, int], None]]],
    fresh: Callable[[], Any],
    state_of: Callable[[Any], str],
) -> list[Step]:
    """Every step within all sequences of C{DEPTH} acts."""
    found: list[Step] = []
    known = list(acts)
    for length in range(1, DEPTH + 1):
        for sequence in product(known, repeat=length):
            fold = fresh()
            for number, (_, act) in enumerate(sequence[:-1], 1):
                act(fold, number)
            before = state_of(fold)
            sequence[-1][1](fold, length)
            found.append((before, sequence[-1][0], state_of(fold), ()))
    return sorted(unique(found))


KEY = "0" * 64
ADDED = {"node": "n", "public": "", "by": "", "token": "", "about": {}}
MEMBER_ACTS: dict[str, dict[str, Any]] = {
    "add": {"op": "add", "wait": False, **ADDED},
    "add, to wait": {"op": "add", "wait": True, **ADDED},
    "approve": {"op": "approve"},
    "suspend": {"op": "suspend"},
    "leave": {"op": "remove", "by": "n", "left": True},
    "remove": {"op": "remove", "by": "o", "left": False},
}


def member_steps() -> list[Step]:
    """What becomes of a member."""

    def act(body: dict[str, Any]) -> Callable[[Any, int], None]:
        def do(fold: Any, number: int) -> None:
            fold.apply({"key": KEY, **body}, number, Dot(Stream("n", "0" * 16), number))

        return do

    def state_of(fold: Any) -> str:
        found = fold.find(KEY)
        if found is None:
            return "unknown"
        return "not added yet" if found.added is None is found.removed else str(found.state)

    acts = [(name, act(body)) for name, body in MEMBER_ACTS.items()]
    return tried(acts, membership.Membership, state_of)


def members() -> str:
    """The page of the membership."""
    steps = member_steps()
    return page(
        "A member of a cluster",
        membership,
        """
        The register of one node key, tried with every sequence of acts up to four,
        as one node after the other hears of them. It joins acts by what they say
        and not by the order in which they come, so the same acts in another order
        end alike. A removal is final: a node that comes back has a new key.
        """,
        drawing(steps, "unknown"),
        table(steps, effects=False),
    )


def key_steps() -> list[Step]:
    """What becomes of a key when each act has seen those before it."""
    pub = b"a public key"
    finger = keyset.finger_of(pub)

    def act(name: str) -> Callable[[Any, int], None]:
        def do(fold: Any, number: int) -> None:
            fold.apply(fold.act(name, "m", pub), number << 20, Dot(Stream("n", "0" * 16), number))

        return do

    def state_of(fold: Any) -> str:
        found = fold.register("m", finger)
        return "unknown" if found is None else str(found.word or "forgotten")

    acts = [(name, act(name)) for name in (*keyset.GRANTS, *keyset.REVOCATIONS)]
    return tried(acts, keyset.KeySet, state_of)


def key_page() -> str:
    """The page of keys."""
    steps = key_steps()
    return page(
        "A minion's key in a cluster",
        keyset,
        """
        The register of one key of one id, tried with every sequence of acts up to
        four, each of which knew of those before. `pend` and `clash` are sign-ins
        (of a new key; of one while another holds the id), the rest are decisions.
        What holds of acts that did not know of each other is in
        [replication](../replication.md).
        """,
        drawing(steps, "unknown"),
        table(steps, effects=False),
    )


def duty() -> str:
    """What is held for a term."""
    steps = [
        (state.value, said.value, taken.to.value, tuple(each.value for each in taken.do))
        for (state, said), taken in claimant.TABLE.items()
    ]
    return page(
        "A duty on one member of a cluster",
        claimant,
        """
        What is to be done by one member at a time, such as an entry of the schedule. A
        majority grants it for a term of six seconds, which is renewed each second. What is
        not in the table changes nothing. The faults and what comes of them are in
        [automation](../automation.md).
        """,
        drawing(steps, "not wanted"),
        table(steps),
    )


def orchestration() -> str:
    """A run and its steps."""
    runs: list[Step] = [
        (state.value, said.value, to.value, ()) for (state, said), to in life.RUN.items()
    ]
    steps: list[Step] = [
        (state.value, said.value, to.value, ()) for (state, said), to in life.STEP.items()
    ]
    return page(
        "An orchestration and its steps",
        life,
        """
        What is written down of a run, line by line, and what becomes of it. What is not in a table
        changes nothing. Which steps a node goes on with that takes a run over, and
        why the lines are kept as they are, is in [016](../adr/016-runs-are-written-down.md).
        """,
        ["## A run", "", *drawing(runs, "running")],
        table(runs, effects=False),
        ["## A step", "", *drawing(steps, "waiting")],
        table(steps, effects=False),
    )


PAGES: dict[str, Callable[[], str]] = {
    "link": link,
    "failover": failover_page,
    "sign-in": sign_in,
    "member": members,
    "key": key_page,
    "duty": duty,
    "orchestration": orchestration,
}


def index(pages: dict[str, str]) -> str:
    """The page that leads to the others."""
    lines = ["# State machines", "", NOTE, ""]
    for name, text in pages.items():
        lines.append(f"- [{text.splitlines()[0][2:]}]({name}.md)")
    lines += [
        "",
        "Each is printed from a table or a pure function. The phases of a node, the change of a",
        "publish key, a join and a takeover have none: they are steps of coroutines, which write",
        "down how far they are.",
        "",
    ]
    return "\n".join(lines)


def files() -> dict[str, str]:
    """File name to text."""
    pages = {name: make() for name, make in PAGES.items()}
    return {"README.md": index(pages), **{f"{name}.md": text for name, text in pages.items()}}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
