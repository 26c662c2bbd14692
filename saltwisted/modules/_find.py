"""
The search behind C{file.find}: criteria, depth, and what to do with what is found.

The words are those of Salt, which are near those of C{find(1)}.
"""

from __future__ import annotations

import grp
import hashlib
import logging
import os
import pwd
import re
import shlex
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

log = logging.getLogger(__name__)

TYPES = {
    "b": stat.S_IFBLK,
    "c": stat.S_IFCHR,
    "d": stat.S_IFDIR,
    "f": stat.S_IFREG,
    "l": stat.S_IFLNK,
    "p": stat.S_IFIFO,
    "s": stat.S_IFSOCK,
}
_LETTERS = {kind: letter for letter, kind in TYPES.items()}

Entry = tuple[str, str, "_Stat"]
"""Directory, name, and the file's status when it is asked for."""


class _Stat:
    """The status of a path, looked up once, through links where they lead somewhere."""

    __slots__ = ("_found", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._found: os.stat_result | None = None

    def get(self) -> os.stat_result:
        if self._found is None:
            try:
                self._found = os.stat(self.path)
            except OSError:
                self._found = os.lstat(self.path)
        return self._found


Criterion = Callable[[str, str, _Stat], Any]


def _glob(value: str, flags: int = 0) -> Criterion:
    text = value.replace(".", "\\.").replace("?", ".?").replace("*", ".*") + "$"
    pattern = re.compile(text, flags)
    return lambda folder, name, status: pattern.match(name)


def _regex(value: str, flags: int = 0) -> Criterion:
    pattern = _compiled(value, flags)
    return lambda folder, name, status: pattern.match(name)


def _compiled(value: Any, flags: int = 0) -> re.Pattern[str]:
    try:
        return re.compile(str(value), flags)
    except re.error as error:
        raise ValueError(f'invalid regular expression: "{value}"') from error


def _kinds(value: str) -> set[int]:
    found = set()
    for letter in value.replace(",", "").replace(" ", ""):
        if letter not in TYPES:
            raise ValueError(f'invalid file type "{letter}"')
        found.add(TYPES[letter])
    return found


def _type(value: str) -> Criterion:
    kinds = _kinds(value)
    return lambda folder, name, status: stat.S_IFMT(status.get().st_mode) in kinds


def _ids(value: Any, what: str, find: Callable[[str], int]) -> set[int]:
    found = set()
    for name in str(value).replace(",", " ").split():
        try:
            found.add(int(name) if name.isdigit() else find(name))
        except KeyError as error:
            raise ValueError(f'no such {what} "{name}"') from error
    return found


def _owner(value: Any) -> Criterion:
    uids = _ids(value, "user", lambda name: pwd.getpwnam(name).pw_uid)
    return lambda folder, name, status: status.get().st_uid in uids


def _group(value: Any) -> Criterion:
    gids = _ids(value, "group", lambda name: grp.getgrnam(name).gr_gid)
    return lambda folder, name, status: status.get().st_gid in gids


_UNITS = {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def size_range(value: Any) -> tuple[int, int]:
    """
    C{10k}, C{+1m}, C{-5g} as the least and greatest number of bytes.

    @raises ValueError: it is not a size.
    """
    text = str(value).strip()
    sign = text[0] if text[:1] in ("+", "-") else ""
    number = text[len(sign) :]
    unit = _UNITS.get(number[-1:].lower())
    step = 1 << (unit or 0)
    if unit is not None:
        number = number[:-1].strip()
    try:
        count = int(float(number) * step) if "." in number else int(number) * step
    except ValueError as error:
        raise ValueError(f'invalid size: "{value}"') from error
    if sign == "-":
        return 0, count
    if sign == "+":
        return count, sys.maxsize
    return count, count + step - 1


def _size(value: Any) -> Criterion:
    least, most = size_range(value)
    return lambda folder, name, status: least <= status.get().st_size <= most


_INTERVAL = re.compile(
    r"\s*([+-]?)"
    + "".join(rf"(?:\s*(\d+(?:\.\d*)?)\s*[{unit}{unit.upper()}])?\s*" for unit in "wdhms")
    + r"$"
)
_SECONDS = (604800, 86400, 3600, 60, 1)


def interval(value: Any) -> tuple[float, int, str]:
    """
    C{-1d12h} as seconds, the size of its smallest unit in seconds, and its sign.

    @raises ValueError: it is not an interval.
    """
    match = _INTERVAL.match(str(value))
    if match is None or not any(match.groups()[1:]):
        raise ValueError(f"invalid time interval: '{value}'")
    total, smallest = 0.0, 1
    for number, seconds in zip(match.groups()[1:], _SECONDS, strict=True):
        if number is not None:
            total += float(number) * seconds
            smallest = seconds
    return total, smallest, match.group(1)


def _mtime(value: Any) -> Criterion:
    seconds, unit, sign = interval(value)
    limit = time.time() - int(seconds / unit) * unit
    if sign == "-":
        return lambda folder, name, status: int(status.get().st_mtime) >= limit
    return lambda folder, name, status: int(status.get().st_mtime) <= limit


def _grep(value: Any) -> Criterion:
    pattern = re.compile(_compiled(value).pattern.encode())

    def matches(folder: str, name: str, status: _Stat) -> bool:
        if not stat.S_ISREG(status.get().st_mode):
            return False
        before = b""
        with open(os.path.join(folder, name), "rb") as file:
            while block := file.read(1 << 18):
                if pattern.search(before + block):
                    return True
                before = block[-(1 << 15) :]
        return False

    return matches


_CRITERIA: dict[str, tuple[int, Callable[[Any], Criterion]]] = {
    "name": (0, lambda value: _glob(str(value))),
    "iname": (0, lambda value: _glob(str(value), re.IGNORECASE)),
    "regex": (0, lambda value: _regex(str(value))),
    "iregex": (0, lambda value: _regex(str(value), re.IGNORECASE)),
    "type": (1, lambda value: _type(str(value))),
    "owner": (1, _owner),
    "group": (1, _group),
    "size": (1, _size),
    "mtime": (1, _mtime),
    "grep": (2, _grep),
}
"""Each with its cost: names first, then the status, then the content."""


def _user_name(status: os.stat_result) -> Any:
    try:
        return pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return status.st_uid


def _group_name(status: os.stat_result) -> Any:
    try:
        return grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        return status.st_gid


def _md5(path: str, status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return ""
    summed = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 18):
            summed.update(block)
    return summed.hexdigest()


_FACTS: dict[str, Callable[[str, _Stat], Any]] = {
    "path": lambda path, status: path,
    "name": lambda path, status: os.path.basename(path),
    "size": lambda path, status: status.get().st_size,
    "type": lambda path, status: _LETTERS.get(stat.S_IFMT(status.get().st_mode), "?"),
    "mode": lambda path, status: status.get().st_mode & 0o777,
    "mtime": lambda path, status: int(status.get().st_mtime),
    "user": lambda path, status: _user_name(status.get()),
    "group": lambda path, status: _group_name(status.get()),
    "md5": lambda path, status: _md5(path, status.get()),
}

Action = Callable[[str, _Stat], Any]


def _print(value: str) -> Action:
    words = value.replace(",", " ").split() or ["path"]
    facts = [_FACTS[word] for word in words if word in _FACTS]

    def tell(path: str, status: _Stat) -> Any:
        found = [fact(path, status) for fact in facts]
        return found[0] if len(found) == 1 else found

    return tell


def _delete(value: str, test: bool) -> tuple[Criterion, Action]:
    kinds = "bcdpfls" if "a" in value else value

    def remove(path: str, status: _Stat) -> str | None:
        if test:
            return path
        try:
            if os.path.isfile(path) or os.path.islink(path):
                os.remove(path)
            elif os.path.isdir(path):
                shutil.rmtree(path)
        except OSError:
            return None
        return path

    return _type(kinds), remove


def _exec(value: str) -> Action:
    def run(path: str, status: _Stat) -> str:
        command = value.replace("{}", path)
        # The path is one word of the command, whatever characters it holds.
        words = [word.replace("{}", path) for word in shlex.split(value)]
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        except (OSError, ValueError):
            log.error("file.find could not run its command on %s", path)
            return f"{path}: Failed"
        return f"{command}:\n{done.stdout.decode('utf-8', 'replace')}\n"

    return run


class Finder:
    """
    Looks below a path.

    @param options: Salt's words with their values.
    @raises ValueError: a word that there is not, or a value that makes no sense.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        options = dict(options)
        self.mindepth = int(options.pop("mindepth", 0))
        maxdepth = options.pop("maxdepth", None)
        self.maxdepth = None if maxdepth is None else int(maxdepth)
        test = bool(options.pop("test", False))
        criteria: list[tuple[int, Criterion]] = []
        self.actions: list[Action] = []
        for key, value in options.items():
            if key.startswith("_"):
                continue
            if not value:
                raise ValueError(f'missing value for "{key}" option')
            if key in _CRITERIA:
                cost, make = _CRITERIA[key]
                criteria.append((cost, make(value)))
            elif key == "delete":
                criterion, action = _delete(str(value), test)
                criteria.append((1, criterion))
                self.actions.append(action)
            elif key == "print":
                self.actions.append(_print(str(value)))
            elif key == "exec":
                self.actions.append(_exec(str(value)))
            else:
                raise ValueError(f'invalid option "{key}"')
        self.criteria = [criterion for _, criterion in sorted(criteria, key=lambda item: item[0])]
        if not self.actions:
            self.actions.append(_print("path"))

    def find(self, path: str) -> Iterator[Any]:
        """What the actions answer, for the path itself and all below it that fits."""
        if self.mindepth < 1:
            folder, name = os.path.split(path)
            yield from self._look(folder, name, path)
        for folder, dirs, files in os.walk(path):
            below = os.path.relpath(folder, path)
            depth = 1 if below == "." else below.count(os.sep) + 2
            if depth >= self.mindepth and (self.maxdepth is None or self.maxdepth >= depth):
                for name in dirs + files:
                    yield from self._look(folder, name, os.path.join(folder, name))
            if self.maxdepth is not None and depth > self.maxdepth:
                dirs[:] = []

    def _look(self, folder: str, name: str, path: str) -> Iterator[Any]:
        status = _Stat(path)
        if all(criterion(folder, name, status) for criterion in self.criteria):
            for action in self.actions:
                answer = action(path, status)
                if answer is not None:
                    yield answer
