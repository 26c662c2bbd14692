"""
The pages of C{docs/}, command by command, and who follows them on a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.harness import ROOT, until
from tests.packaging.lab import Machine

PAGES = Path(ROOT, "docs")


def commands(page: str) -> Iterator[str]:
    """Every command of a page's shell blocks; a here-document belongs to its command."""
    text = (PAGES / page).read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        whole: list[str] = []
        end = ""
        for line in block.splitlines():
            whole.append(line)
            found = re.search(r"<<'?(\w+)'?", line)
            end = found[1] if found and not end else end
            if end and line.strip() != end:
                continue
            end = ""
            if line.strip():
                yield "\n".join(whole)
            whole = []


class Reader:
    """
    Follows one page, and has to account for each of its commands.

    @param says: command to what is done instead (a placeholder filled in), or C{""} for what
        cannot be done here.
    """

    def __init__(self, page: str, says: Mapping[str, str] = {}) -> None:
        self.page = page
        self.says = says
        self.left = list(commands(page))
        self.done: list[str] = []

    def follow(self, machine: Machine, count: int = 1, allowed: tuple[int, ...] = (0,)) -> str:
        """Do the next so many commands on a machine; the output of the last."""
        output = ""
        for _ in range(count):
            command = self.left.pop(0)
            self.done.append(command)
            for place, value in self.says.items():
                command = command.replace(place, value)
            if command.startswith("saltwisted status"):
                # A person looks again when something is just starting
                until(command, lambda: self.is_ready(machine), every=0.5)
            # a warning of the doctor or of status is not a failure of the page
            looks = command.startswith(("saltwisted doctor", "saltwisted status"))
            output = machine.follow(command, (0, 3) if looks else allowed)
        return output

    @staticmethod
    def is_ready(machine: Machine) -> bool:
        """Whether everything serves that runs on a machine, perhaps with something missing."""
        code = "saltwisted status >/dev/null || [ $? = 3 ] && echo ready"
        return "ready" in machine.follow(code, tuple(range(256)))

    def skip(self, command: str) -> None:
        """The next command is this one, and is not done here."""
        if not self.left[0].startswith(command):
            raise AssertionError(f"{self.page}: expected {command!r}, found {self.left[0]!r}")
        self.left.pop(0)

    def to(self, machine: Machine, command: str, allowed: tuple[int, ...] = (0,)) -> str:
        """Follow up to and with the next command that begins so; its output."""
        for count, found in enumerate(self.left, 1):
            if found.startswith(command):
                return self.follow(machine, count, allowed)
        raise AssertionError(f"{self.page}: {command!r} is not among {self.left}")

    def finished(self) -> None:
        """
        Nothing of the page is left.

        @raises AssertionError: this is.
        """
        if self.left:
            raise AssertionError(f"{self.page}: not followed: {self.left}")
