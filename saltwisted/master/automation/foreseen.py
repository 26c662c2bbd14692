"""
What a master will complain of when it reads its reactor and its schedule: found without a master.

The readers are those of L{saltwisted.master.automation.reactions}, C{looking} and C{schedule}; here
they run one after the other, in a process that may block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from saltwisted.config.options import MasterConfig
from saltwisted.domain.masterschedule import prepared, remarks
from saltwisted.domain.reactions.entries import Entry, reading
from saltwisted.domain.schedule import without_hidden
from saltwisted.domain.schedulebook import Book
from saltwisted.master.automation.acts import settled_by
from saltwisted.master.automation.looking import judged, wanted_of
from saltwisted.master.calls import Functions
from saltwisted.master.site import site_folders
from saltwisted.worker.automation.work import SALT, Rendering, read_map

KINDS = {"runner": "runners", "wheel": "wheel"}


class Foreseen(Functions):
    """
    The functions of a master that does not run. A function of the site's is taken for right: what
    is in its file is known when it was executed, and nothing is executed here.
    """

    def __init__(self, config: MasterConfig) -> None:
        super().__init__()
        self._config = config

    def is_of_site(self, kind: str, fun: str) -> bool:
        """Whether there is a file of the site's that may have such a function."""
        name = fun.partition(".")[0]
        folders = site_folders(self._config, KINDS[kind]) if kind in KINDS else []
        return any(
            os.path.exists(os.path.join(folder, name + end))
            for folder in folders
            for end in (".py", ".so", "")
        )

    def parameters(self, kind: str, fun: str) -> tuple[Sequence[str], bool] | None:
        """As of a master; a function of the site's takes anything."""
        return ((), True) if self.is_of_site(kind, fun) else super().parameters(kind, fun)

    def refusal(self, kind: str, fun: str, arg: Any, kwarg: Any) -> str:
        """As of a master."""
        if kind not in KINDS or self.is_of_site(kind, fun):
            return ""
        return super().refusal(kind, fun, arg, kwarg)


def of_reactor(config: MasterConfig) -> Iterator[tuple[str, str, str]]:
    """
    What is wrong with the entries, and with their files: a sentence each.

    @return: the file with the entries (C{""} if they are in the configuration), the tag of the
        entry (C{""} if it has none), and the sentence.
    """
    value, path = config.reactor, ""
    if isinstance(value, str) and value:
        path, found = value, read_map(value)
        if "error" in found:
            yield path, "", f"the reactor's entries cannot be read: {found['error']}"
            return
        value = found["value"]
    entries: list[Entry] = []
    for one in reading(value):
        if isinstance(one, Entry):
            entries.append(one)
        else:
            yield path, "", f"{one}; it is left out"
    wanted = [each for each in wanted_of(entries) if _is_here(config, each[1])]
    if not wanted:
        return
    functions = Foreseen(config)
    answers = Rendering(config.as_opts()).look(
        [[sls, entry.saltenv, sample] for entry, sls, sample in wanted]
    )
    said = dict.fromkeys(
        (entry.tag, judged(entry, finding, lambda one: settled_by(functions.parameters, one)))
        for (entry, _, _), found in zip(wanted, answers, strict=True)
        for finding in found
    )
    yield from ((path, tag, text) for tag, text in said if text)


def _is_here(config: MasterConfig, sls: str) -> bool:
    """Whether a file can be looked for without a master: not what git or minions have."""
    return not sls.startswith(SALT) or set(config.fileserver_backend) <= {"roots"}


def of_schedule(config: MasterConfig, now: datetime) -> Iterator[tuple[str, str]]:
    """What is wrong with the entries of the configuration: the name of each and a sentence."""
    schedule = without_hidden(config.schedule)
    for name, data in schedule.items():
        yield from ((name, remark) for remark in remarks({name: data}) if remark)
    functions = Foreseen(config)
    book = Book(
        {},
        lambda low, high: low,
        lambda level, text: None,
        prepare=lambda name, data: prepared(name, data, functions.refusal),
    )
    book.take(schedule, now)
    yield from book.errors.items()
