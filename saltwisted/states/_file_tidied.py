"""
C{file.tidied}: a directory is rid of what is old or large enough.
"""

from __future__ import annotations

import datetime
import logging
import os
import re
import stat
from typing import Any

from attrs import define, field

from saltwisted.domain.render.textfilters import human_to_bytes
from saltwisted.states._file_work import FileState
from saltwisted.worker.exceptions import CommandExecutionError
from saltwisted.worker.walk import walk

log = logging.getLogger(__name__)


@define(kw_only=True, eq=False, repr=False, slots=False)
class Tidied(FileState):
    """
    @ivar clock: which time of a file counts.
    @ivar fitting: expressions on names, or paths; one of them must fit.
    @ivar excluded: none of these may.
    """

    age: int
    matches: Any
    rmdirs: bool
    size: Any
    exclude: Any
    full_path_match: bool
    followlinks: bool
    time_comparison: Any
    age_size_logical_operator: str
    age_size_only: str | None
    rmlinks: bool

    clock: str = field(default="atime", init=False)
    fitting: list[re.Pattern[str]] = field(factory=list, init=False)
    excluded: list[re.Pattern[str]] = field(factory=list, init=False)
    today: datetime.date = field(init=False)

    def work(self) -> None:
        """From the arguments to what is left."""
        self._settle()
        found = self._find()
        if not found:
            self.finish(f"Nothing to remove from directory {self.name}")
        if self.around.test:
            self.ret["result"] = None
            self.ret["changes"] = {"removed": found}
            self.finish(f"{self.name} is set for tidy")
        self.ret["changes"]["removed"] = []
        try:
            for path in found:
                self.salt["file.remove"](path)
                self.ret["changes"]["removed"].append(path)
        except CommandExecutionError as error:
            self.fail(str(error))
        self.finish(f"Removed {len(found)} files or directories from directory {self.name}")

    def _settle(self) -> None:
        """What the arguments mean, with defaults for those that mean nothing."""
        self.age_size_logical_operator = self.age_size_logical_operator.upper()
        if self.age_size_logical_operator not in ("AND", "OR"):
            self.age_size_logical_operator = "OR"
            log.warning("Logical operator must be 'AND' or 'OR'. Defaulting to 'OR'...")
        self.age_size_only = self.age_size_only.lower() if self.age_size_only else None
        if self.age_size_only not in (None, "age", "size"):
            self.age_size_only = None
            log.warning(
                "age_size_only parameter must be 'age' or 'size' if set. Defaulting to 'None'..."
            )
        if not os.path.isabs(self.name):
            self.fail(f"Specified file {self.name} is not an absolute path")
        if not os.path.isdir(self.name):
            self.fail(f"{self.name} does not exist or is not a directory.")
        clock = self.time_comparison.lower() if isinstance(self.time_comparison, str) else ""
        if clock in ("atime", "ctime", "mtime"):
            self.clock = clock
        if isinstance(self.size, str):
            self.size = human_to_bytes(self.size, handle_metric=True)
        matches = [".*"] if self.matches is None else self.matches
        self.fitting = [re.compile(one) for one in matches]
        self.excluded = [re.compile(one) for one in self.exclude or []]
        self.today = datetime.date.today()  # noqa: DTZ011 (days of the machine's calendar)

    def _find(self) -> list[str]:
        """What is to go, the deepest first."""
        found = []
        for root, folders, names in walk(self.name, self.followlinks, topdown=False):
            for one in names + folders:
                path = os.path.join(root, one)
                try:
                    if self._doomed(path, path if self.full_path_match else one):
                        found.append(path)
                except FileNotFoundError:
                    continue
                except PermissionError:
                    log.warning("Unable to read %s due to permissions error.", path)
        return found

    def _doomed(self, path: str, shown: str) -> bool:
        is_link = os.path.islink(path)
        status = os.lstat(path) if is_link else os.stat(path)
        is_folder = not is_link and stat.S_ISDIR(status.st_mode)
        if (is_folder and not self.rmdirs) or (is_link and not self.rmlinks):
            return False
        day = datetime.date.fromtimestamp(getattr(status, f"st_{self.clock}"))  # noqa: DTZ012
        days = abs(self.today - day).days
        length = 0 if is_link or is_folder else status.st_size
        if self.age_size_only:
            hit = days >= self.age if self.age_size_only == "age" else length >= self.size
        elif self.age_size_logical_operator == "AND":
            hit = length >= self.size and days >= self.age
        else:
            hit = length >= self.size or days >= self.age
        if not hit or not any(one.match(shown) for one in self.fitting):
            return False
        return not any(one.match(shown) for one in self.excluded)
