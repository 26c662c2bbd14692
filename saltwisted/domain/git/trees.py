"""
Trees of commits: what is at a path, and everything in them.

Names in a tree are whatever somebody has pushed. A name that could mean another place on a disk, or
the inside of a repository, is treated as missing. A link leads inside its tree or nowhere.

A function argument reads a tree. This module does not know libgit2.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from attrs import evolve, field, frozen

from saltwisted.doors import GIT

FOLDER, FILE, PROGRAM, LINK, MODULE = 0o40000, 0o100644, 0o100755, 0o120000, 0o160000
MOST_LINKS = 40
MOST_NAME = 4096
MOST_DEPTH = 255
MOST_HOPS = 1000
"""Parts of a path, and of the links that it leads through."""
MOST_SEEN = 250_000
"""Names in all directories that one path leads through."""
MOST_LINK = 4096
"""Bytes of the target of a link; a longer one leads nowhere."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of one directory that is listed."""
MOST_TEXT = GIT.memory * 3 // 8
"""Characters of a list: of all paths, and of what links lead to."""
RUN = 1000
"""Names of one run."""
RUN_TEXT = 64 * 1024
"""Characters of one run, if there are more names than one."""
_ROWS = {
    width: re.compile(rb"([0-7]{1,7}) ([^\0]*)\0(.{%d})" % width, re.DOTALL) for width in (20, 32)
}

Entry = tuple[int, str]
"""Mode and object."""
Look = Callable[[str, str], "Entry | None"]
"""What a tree (by its object) has by a name; C{None} if nothing."""
LookIn = Callable[[str, str], "tuple[int, str, int] | None"]
"""The same, and how many names the tree has."""
Target = Callable[[str], "str | None"]
"""The target of a link, by its object; C{None} where it is no text, or too long."""
Read = Callable[[Sequence[str], str, int], "Iterable[bytes | None]"]
"""
The raw forms of objects of a kind (C{tree}, C{blob}), in order; C{None} for one with more bytes
than the last argument says.
"""


def is_plain(name: str) -> bool:
    """Whether a name may be served: it means itself, and is not one of git's own names."""
    return (
        name not in ("", ".", "..")
        and name.lower().rstrip(". ") != ".git"
        and "/" not in name
        and "\0" not in name
    )


def clean(path: str) -> tuple[str, ...] | None:
    """The parts of a relative path; C{None} for one that could lead astray."""
    if not path or path[0] == "/" or len(path) > MOST_NAME:
        return None
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    return parts if parts and all(map(is_plain, parts)) else None


class Walk:
    """
    The way of a path through a tree, links included. It can stop in the middle and go on later,
    after what it lacked has come.

    Somebody else chose the tree, so a way has a budget: L{MOST_HOPS} parts of paths and of links,
    and L{MOST_SEEN} names in all the directories that it looks into. A longer way leads nowhere.
    Its length depends on the tree alone, and on nothing that is in memory.

    @ivar parts: the path.
    @ivar found: where it leads, once L{is_done}; C{None} if nowhere.
    @ivar too_long: the beginning of the path that is too long, whatever follows; empty if none is.
    """

    __slots__ = (
        *("_waiting", "_trees", "_links", "_hops", "_names", "_seen"),
        *("_link_ends", "_link_after", "parts", "found", "is_done", "too_long"),
    )

    def __init__(self, top: str, parts: Sequence[str]) -> None:
        """
        @param top: the tree of the commit; no link leads above it.
        """
        self.parts = tuple(parts)
        self._waiting = list(reversed(parts))
        self._trees = [top]
        self._links = self._hops = self._names = 0
        self._seen: set[str] = set()
        # How many parts wait behind the outermost link, and how many of the path led to it
        self._link_ends, self._link_after = len(parts), 0
        self.found: Entry | None = (FOLDER, top)
        self.is_done = not parts
        self.too_long: tuple[str, ...] = ()

    def go(self, look: LookIn, target: Target, is_enough: Callable[[], bool] | None = None) -> bool:
        """
        Go on. What the functions raise is raised; then it goes on from there the next time.

        @param is_enough: asked after each look into a tree; if so, it stops here for now.
        @return: whether it is done.
        """
        waiting, trees = self._waiting, self._trees
        while waiting:
            part = waiting[-1]
            self._hops += 1
            if self._hops > MOST_HOPS:
                return self.give_up()
            if part in ("", "."):
                waiting.pop()
                continue
            if self.found is None or self.found[0] != FOLDER:
                return self._end(None)
            if part == "..":
                if len(trees) == 1:
                    return self._end(None)
                waiting.pop()
                trees.pop()
                self.found = (FOLDER, trees[-1])
                continue
            if not is_plain(part) or len(trees) > MOST_DEPTH:
                return self._end(None)
            tree = trees[-1]
            try:
                entry = look(tree, part)
                if entry is None:
                    return self._end(None)
                mode, oid, names = entry
                text = target(oid) if mode == LINK and self._links < MOST_LINKS else None
            except BaseException:
                self._hops -= 1
                raise
            if tree not in self._seen:
                self._seen.add(tree)
                self._names += names
                if self._names > MOST_SEEN:
                    return self.give_up()
            waiting.pop()
            if mode == FOLDER:
                trees.append(oid)
                self.found = (mode, oid)
            elif mode == LINK:
                if not text or text[0] == "/":
                    return self._end(None)
                self._follow(text)
            elif mode == MODULE:
                return self._end(None)
            else:
                # Of the old modes of git those of groups are plain ones, too
                self.found = (PROGRAM if mode & 0o100 else FILE, oid)
            if is_enough is not None and waiting and is_enough():
                return False
        self.is_done = True
        return True

    def _follow(self, text: str) -> None:
        """Go where a link leads, from the directory that it is in."""
        self._links += 1
        behind = len(self._waiting)
        if behind < self._link_ends:
            self._link_ends, self._link_after = behind, len(self.parts) - behind
        self._waiting.extend(reversed(text.split("/")))

    def give_up(self) -> bool:
        """It is too long: so is every path that begins with the outermost link that it is in."""
        inside = len(self._waiting) > self._link_ends
        self.too_long = self.parts[: self._link_after] if inside else self.parts
        return self._end(None)

    def lead_nowhere(self) -> None:
        """It ends here."""
        self._end(None)

    def _end(self, found: Entry | None) -> bool:
        self.found, self.is_done = found, True
        self._waiting.clear()
        return True


def resolve(top: str, parts: Sequence[str], look: Look, target: Target) -> Entry | None:
    """
    Where a path leads inside a tree, through links; C{None} if nowhere.

    @param top: the tree of the commit; no link leads above it.
    """

    def look_in(tree: str, name: str) -> tuple[int, str, int] | None:
        entry = look(tree, name)
        return (*entry, 0) if entry is not None else None

    walk = Walk(top, parts)
    walk.go(look_in, target)
    return walk.found


class Table:
    """
    One directory with very many names, to be searched without having been parsed.

    @param data: the raw form of the tree.
    @param starts: where each of its rows begins, in the order of their names: as of L{table_of}.
    @param width: bytes of the name of an object.
    """

    def __init__(self, data: bytes, starts: bytes, width: int = 20) -> None:
        self._data, self._starts, self._width = data, memoryview(starts).cast("I"), width

    def __len__(self) -> int:
        return len(self._starts)

    def get(self, name: str) -> Entry | None:
        """What there is by a name."""
        try:
            raw = name.encode()
        except UnicodeEncodeError:
            return None
        place = bisect_left(self._starts, raw, key=lambda start: self._row(start)[1])
        if place == len(self._starts):
            return None
        mode, found, oid = self._row(self._starts[place])
        return (int(mode, 8), oid.hex()) if found == raw else None

    def _row(self, start: int) -> tuple[bytes, bytes, bytes]:
        space = self._data.index(b" ", start)
        end = self._data.index(b"\0", space)
        oid = self._data[end + 1 : end + 1 + self._width]
        return self._data[start:space], self._data[space + 1 : end], oid


def table_of(data: bytes, width: int = 20) -> bytes:
    """
    Where each row of a tree begins, in the order of their names: 32 bits each, for a L{Table}.

    @param width: bytes of the name of an object.
    @raises ValueError: it is not a tree.
    """
    rows = []
    end = 0
    for row in _rows_of(data, width):
        rows.append((row[2], end))
        end = row.end()
    if end != len(data):
        raise ValueError("a tree is truncated or invalid")
    rows.sort()
    return array("I", [start for _, start in rows]).tobytes()


@frozen
class Everything:
    """
    What is in a tree, as Salt lists it: links are files, whatever they lead to; submodules are
    missing.

    @ivar links: link to its target.
    @ivar left_out: how many names are not served.
    """

    files: list[str] = field(factory=list)
    dirs: list[str] = field(factory=list)
    links: dict[str, str] = field(factory=dict)
    left_out: int = 0


@frozen
class Names:
    """
    What one tree has: names of files, and names with objects of directories and of links.

    @ivar count: how many names are served, including submodules.
    @ivar odd: how many are not served.
    @ivar longest: the length of the longest name.
    @ivar text: the characters of all served names.
    """

    files: list[str]
    folders: list[tuple[str, str]]
    links: list[tuple[str, str]]
    count: int
    odd: int
    longest: int
    text: int


def names_of(data: bytes, width: int = 20) -> Names:
    """
    Parse the raw form of a tree. A list may have 10 000 names, so as much as possible is done for
    all of them at once.

    @param width: bytes of the name of an object.
    @raises ValueError: it is not a tree.
    """
    rows = [row.groups() for row in _rows_of(data, width)]
    if sum(map(len, chain.from_iterable(rows))) + 2 * len(rows) != len(data):
        raise ValueError("a tree is truncated or invalid")
    joined = b"\0".join([row[1] for row in rows])
    names: list[str | None]
    try:
        whole = joined.decode()
    except UnicodeDecodeError:
        names = [_text(row[1]) for row in rows]
    else:
        names = list(whole.split("\0")) if rows else []
        if rows and _may_be_odd(whole):
            names = [name if name is not None and is_plain(name) else None for name in names]
    plain = [name for name in names if name is not None]
    modes = {raw: int(raw, 8) for raw in {row[0] for row in rows}}
    odd, longest = len(rows) - len(plain), max(map(len, plain), default=0)
    text = sum(map(len, plain))
    if not {FOLDER, LINK, MODULE} & set(modes.values()):
        return Names(plain, [], [], len(plain), odd, longest, text)
    files: list[str] = []
    folders: list[tuple[str, str]] = []
    links: list[tuple[str, str]] = []
    for name, (raw, _, oid) in zip(names, rows, strict=True):
        mode = modes[raw]
        if name is None or mode == MODULE:
            continue
        if mode == FOLDER:
            folders.append((name, oid.hex()))
        elif mode == LINK:
            links.append((name, oid.hex()))
        else:
            files.append(name)
    return Names(files, folders, links, len(plain), odd, longest, text)


def _rows_of(data: bytes, width: int) -> Iterator[re.Match[bytes]]:
    """
    The rows of a tree, as far as they follow each other.

    Each is looked for where the one before ends, and nowhere else: a search would begin at each
    byte of what is no tree, and each time go on to its end.
    """
    pattern: Any = _ROWS[width]
    return iter(pattern.scanner(data).match, None)


def _may_be_odd(text: str) -> bool:
    """
    Whether one of some names may not be plain: it is empty, begins with a dot or has a slash.

    @param text: the names, with zeros between. It is searched for a few texts, which takes a tenth
        of the time of an expression.
    """
    return (
        text[:1] in ("", ".", "\0")
        or text[-1:] == "\0"
        or "/" in text
        or "\0." in text
        or "\0\0" in text
    )


def _text(raw: bytes) -> str | None:
    """A name, if it may be served."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return None
    return name if is_plain(name) else None


def everything(top: str, read: Read, most: int) -> Everything:
    """
    All paths below a tree, sorted.

    @param most: entries at most.
    @raises ValueError: there are more.
    """
    files: list[str] = []
    dirs: list[str] = []
    links: list[tuple[str, str]] = []
    kept: dict[str, Names] = {}
    odd = seen = text = depth = 0
    too_long = f"the paths in the tree have more than {MOST_TEXT >> 20} MiB"
    level: list[tuple[str, str]] = [("", top)]
    too_much = f"the tree has more than {most} files, or is too deep"
    while level:
        if depth > MOST_DEPTH:
            raise ValueError(too_much)
        new = [oid for oid in dict.fromkeys(oid for _, oid in level) if oid not in kept]
        for oid, data in zip(new, read(new, "tree", MOST_BYTES), strict=True):
            if data is None:
                raise ValueError(f"a directory has more than {MOST_BYTES >> 20} MiB of names")
            kept[oid] = names_of(data, len(oid) // 2)
            odd += kept[oid].odd
        below: list[tuple[str, str]] = []
        for above, oid in level:
            found = kept[oid]
            seen += found.count
            text += found.text + found.count * len(above)
            if seen > most:
                raise ValueError(too_much)
            if text > MOST_TEXT:
                raise ValueError(too_long)
            if len(above) + found.longest > MOST_NAME:
                found, left = _shorter(found, MOST_NAME - len(above))
                odd += left
            files += [above + name for name in found.files]
            links += [(above + name, blob) for name, blob in found.links]
            dirs += [above + name for name, _ in found.folders]
            below += [(f"{above}{name}/", tree) for name, tree in found.folders]
        level, depth = below, depth + 1
    blobs = list(dict.fromkeys(blob for _, blob in links))
    targets = dict(zip(blobs, map(text_of, read(blobs, "blob", MOST_LINK)), strict=True))
    text += sum(len(targets[blob] or "") for _, blob in links)
    if text > MOST_TEXT:
        raise ValueError(too_long)
    files += [path for path, _ in links]
    files.sort()
    dirs.sort()
    there = sorted((path, targets[blob]) for path, blob in links)
    return Everything(files, dirs, {path: text for path, text in there if text is not None}, odd)


def _shorter(names: Names, room: int) -> tuple[Names, int]:
    """Those with so many characters at most, and how many others there are but submodules."""
    files = [name for name in names.files if len(name) <= room]
    folders = [(name, oid) for name, oid in names.folders if len(name) <= room]
    links = [(name, oid) for name, oid in names.links if len(name) <= room]
    had = len(names.files) + len(names.folders) + len(names.links)
    left = had - len(files) - len(folders) - len(links)
    return evolve(names, files=files, folders=folders, links=links), left


def text_of(data: bytes | None) -> str | None:
    """The target of a link; C{None} if it is not text, or too long."""
    if data is None or len(data) > MOST_LINK or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def mounted(listed: Everything, mountpoint: str) -> Everything:
    """The same below a mount point, which is a directory itself."""
    if not mountpoint:
        return listed
    return Everything(
        [f"{mountpoint}/{path}" for path in listed.files],
        sorted([mountpoint, *(f"{mountpoint}/{path}" for path in listed.dirs)]),
        {f"{mountpoint}/{path}": text for path, text in listed.links.items()},
        listed.left_out,
    )


def in_runs(names: Sequence[str]) -> list[bytes]:
    """
    Names in a form that is received at once, however many they are: runs of them, each one text.
    No name of a tree has the character that separates them.
    """
    longest = max(map(len, names), default=0)
    run = max(1, min(RUN, RUN_TEXT // (longest + 1)))
    return ["\0".join(names[start : start + run]).encode() for start in range(0, len(names), run)]


def of_runs(runs: Iterable[bytes]) -> Iterator[str]:
    """The names; between two runs a thread may be interrupted."""
    for run in runs:
        yield from run.decode().split("\0")


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, list[str]]:
    """Ref to its commit before and after, C{""} if there was or is none."""
    return {
        ref: [old.get(ref, ""), new.get(ref, "")]
        for ref in sorted(old.keys() | new.keys())
        if old.get(ref, "") != new.get(ref, "")
    }
