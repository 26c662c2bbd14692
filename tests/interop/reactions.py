"""
What the kill test of reactions needs: minions that fire numbered events until they are told to
stop, reactions that leave a line on disk for each time they are done, and the judgement.

The tag of each event is its own, so that what was done, what was said as lost and what the receipts
say of it are found by it: C{storm/KIND/MINION/NUMBER}.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from saltwisted.domain.claims import copies
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient

LOCAL = "local"
KINDS = (LOCAL, "runner-most", "runner-least", "caller-most", "caller-least")
"""Types of reactions, and what becomes of them when their node dies."""
SLS = {
    LOCAL: """
mark:
  local.cmd.run:
    - tgt: {{{{ sender }}}}
    - args:
        cmd: {command}
""",
    "runner": """
mark:
  runner.salt.execute:
    - args:
        tgt: {target}
        fun: cmd.run
        arg: ["{command}"]
        timeout: 5
""",
    "caller": """
mark:
  caller.cmd.run:
    - args:
        cmd: {command}
""",
}
COMMANDS = {
    "local": "echo {{ tag }} >> DONE",
    "most": "echo {{ tag }} >> DONE; sleep 1",
    "least": "sleep 1; echo {{ tag }} >> DONE",
}
"""
By the end of a kind. Where it may be done once it is done first, and where it must be done last: a
node is often killed in between.
"""
MODULE = '''
import os
import time


def go(place, kinds, pace, **kwargs):
    """Fire one event after the other, until there is the file C{stop}."""
    name, number = __opts__["id"], 0
    while not os.path.exists(place + "/stop"):
        number += 1
        kind = kinds[number % len(kinds)]
        data = {"n": number}
        if number // len(kinds) % 2:
            # As all events have that are fired by a job as such
            data["__pub_jid"] = name
        tag = "storm/%s/%s/%s" % (kind, name, number)
        sent = __salt__["event.send"](tag, data)
        with open(place + "/fired-" + name, "a") as stream:
            stream.write("%s %s\\n" % (tag, bool(sent)))
        time.sleep(pace)
'''
"""An execution module for the minions, stock's and ours."""
LATE = copies.LATE - 1.0
"""
Copies of an event that lie further apart are two events (C{docs/automation.md}); less a second for
what passes between the arrival of a copy and its claim.
"""


def lay_out(place: str, target: str) -> list[Any]:
    """
    Write SLS and module below this directory.

    @param target: the minion on which the runner has it done.
    @return: the C{reactor} option.
    """
    for folder in ("done", "sls", "modules"):
        os.makedirs(f"{place}/{folder}")
    with open(f"{place}/modules/storm.py", "w") as stream:
        stream.write(MODULE)
    entries: list[Any] = []
    for kind in KINDS:
        path = f"{place}/sls/{kind}.sls"
        with open(path, "w") as stream:
            command = COMMANDS[kind.split("-")[-1]].replace("DONE", f"{place}/done/{kind}")
            stream.write(SLS[kind.partition("-")[0]].format(command=command, target=target))
        once = "at_least" if kind.endswith("least") else "at_most"
        entries.append({f"storm/{kind}/*": {"sls": path, "once": once}})
    return entries


class Ear(threading.Thread):
    """
    Listens to one node for as long as there is one.

    @ivar heard: tags of events that it has had.
    @ivar lost: tags of events that it has said are lost.
    """

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.over = threading.Event()
        self.heard: set[str] = set()
        self.lost: set[str] = set()

    def run(self) -> None:
        """Again and again."""
        while not self.over.wait(0.05):
            client = ControlClient(path=self.path)
            try:
                for item in client.stream("events", tags=["storm/", "saltwisted/reaction/lost"]):
                    self.take(item["tag"], item["data"])
            except (TransportClosed, RemoteError, OSError):
                continue
            finally:
                client.close()

    def take(self, tag: str, data: Mapping[str, Any]) -> None:
        """One event."""
        if tag.startswith("storm/"):
            self.heard.add(tag)
        elif tag:
            self.lost.add(str(data.get("tag")))


def done_at(place: str) -> Counter[str]:
    """How often what was to be done for each event was done."""
    found: Counter[str] = Counter()
    for kind in KINDS:
        try:
            with open(f"{place}/done/{kind}") as stream:
                found.update(stream.read().split())
        except FileNotFoundError:
            continue
    return found


def fired_at(place: str, minions: Iterable[str]) -> dict[str, bool]:
    """The tag of each event that was fired, and whether its minion says that it left."""
    found = {}
    for name in minions:
        with open(f"{place}/fired-{name}") as stream:
            for line in stream:
                tag, left = line.split()
                found[tag] = left == "True"
    return found


@define(kw_only=True)
class Judgement:
    """
    What is wrong, as far as it can be told from outside.

    @ivar fired: tags of events, and whether they left.
    @ivar done: how often what they set off was done.
    @ivar heard: tags that a node is known to have had.
    @ivar lost: tags that were said as lost, by an event or in a log.
    @ivar receipts: as C{saltwisted receipts} shows them.
    """

    fired: Mapping[str, bool]
    done: Counter[str]
    heard: set[str]
    lost: set[str]
    receipts: Sequence[Mapping[str, Any]]
    acts: dict[str, dict[str, list[Mapping[str, Any]]]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        """Receipts by tag and key: who came late has noted another's end under his own term."""
        for row in self.receipts:
            self.acts.setdefault(row["event"], {}).setdefault(row["key"], []).append(row)

    def late(self, tag: str) -> bool:
        """Whether it was claimed several times since its copies came too far from each other."""
        begun = sorted(
            min(row["begun"] for row in rows) for rows in self.acts.get(tag, {}).values()
        )
        gaps = [later - before for before, later in itertools.pairwise(begun)]
        return bool(gaps) and min(gaps) >= LATE

    def results(self, tag: str) -> set[str]:
        """What the receipts say of how it ended; C{""} for what has not."""
        rows = [row for rows in self.acts.get(tag, {}).values() for row in rows]
        return {row["result"] if row["ended"] else "" for row in rows}

    def twice(self) -> list[str]:
        """What is to be done once at most, and was done more often."""
        return [
            tag
            for tag, times in sorted(self.done.items())
            if times > 1 and not tag.split("/")[1].endswith("least") and not self.late(tag)
        ]

    def never(self) -> list[str]:
        """What is to be done once at least, which a node has had, and was not done."""
        return [
            tag
            for tag in sorted(self.heard)
            if tag.split("/")[1].endswith("least") and not self.done[tag]
        ]

    def unsaid(self) -> list[str]:
        """What a node has had, that was not done, and of which nobody says that it was lost."""
        found = []
        for tag in sorted(self.heard):
            said = tag in self.lost or any(
                each.startswith(("lost", "failed")) for each in self.results(tag)
            )
            # A job that was published is for its minion to be run
            published = any(each.startswith("published") for each in self.results(tag))
            if not self.done[tag] and not said and not published:
                found.append(tag)
        return found

    def disagreeing(self) -> list[str]:
        """Where the receipts say something else than what was done."""
        found = [f"{tag}: no receipt" for tag in sorted(self.done) if tag not in self.acts]
        for tag in sorted(self.acts):
            kind, results = tag.split("/")[1], self.results(tag)
            if "" in results:
                found.append(f"{tag}: no end")
            elif kind.startswith("caller") and "done" in results and not self.done[tag]:
                found.append(f"{tag}: said to be done")
            elif kind == "caller-most" and results == {"lost"} and self.done[tag] > 1:
                found.append(f"{tag}: lost, and done {self.done[tag]} times")
        return found

    def wrong(self) -> dict[str, list[str]]:
        """All of it by what is wrong; each with what the receipts say."""
        found = {
            "done twice": self.twice(),
            "never done": self.never(),
            "lost without a word": self.unsaid(),
            "receipts": self.disagreeing(),
        }
        return {
            word: [f"{tag} {self.acts.get(tag, '')}" for tag in tags]
            for word, tags in found.items()
            if tags
        }

    def figures(self) -> dict[str, int]:
        """For whoever reads how it went."""
        most = [tag for tag in self.heard if not tag.split("/")[1].endswith("least")]
        return {
            "fired": len(self.fired),
            "heard": len(self.heard),
            "done": sum(1 for tag in self.heard if self.done[tag]),
            "lost": len(self.lost),
            "at most, not done": sum(1 for tag in most if not self.done[tag]),
            "again": sum(times - 1 for times in self.done.values() if times > 1),
            "died in": sum(1 for row in self.receipts if "lost" in row["result"]),
            "late copies": sum(1 for tag in self.acts if self.late(tag)),
        }
