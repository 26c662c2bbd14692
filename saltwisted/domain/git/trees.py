"""
Trees of commits: what is at a path, and everything that is there.

Names in a tree are whatever somebody has pushed. One that could mean another place on a disk, or
the inside of a repository, is as if it were not there. A link leads inside its tree or nowhere.

How a tree is read is an argument. Nothing here knows libgit2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import field, frozen

FOLDER, FILE, PROGRAM, LINK, MODULE = 0o40000, 0o100644, 0o100755, 0o120000, 0o160000
MOST_LINKS = 40
MOST_NAME = 4096
MOST_DEPTH = 255
MOST_LINK = 4096
"""Bytes of the target of a link; a longer one leads nowhere."""

Entry = tuple[int, str]
"""Mode and object."""
Look = Callable[[str, str], "Entry | None"]
"""What a tree (by its object) has by a name; C{None} if nothing."""
Target = Callable[[str], "str | None"]
"""The target of a link, by its object; C{None} where it is no text, or too long."""


def is_plain(name: str) -> bool:
    """Whether a name may be served: it means itself, and is no place of git's own."""
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


def resolve(top: str, parts: Sequence[str], look: Look, target: Target) -> Entry | None:
    """
    What a path leads to inside a tree, by way of links; C{None} where that is nothing.

    @param top: the tree of the commit; no link leads above it.
    """
    trees = [top]
    waiting = list(reversed(parts))
    followed = 0
    found: Entry = (FOLDER, top)
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if found[0] != FOLDER:
            return None
        if part == "..":
            if len(trees) == 1:
                return None
            trees.pop()
            found = (FOLDER, trees[-1])
            continue
        entry = look(trees[-1], part) if is_plain(part) else None
        if entry is None or len(trees) > MOST_DEPTH:
            return None
        mode, oid = entry
        if mode == LINK:
            followed += 1
            text = target(oid) if followed <= MOST_LINKS else None
            if not text or text[0] == "/":
                return None
            waiting.extend(reversed(text.split("/")))
        elif mode == FOLDER:
            trees.append(oid)
            found = entry
        elif mode == MODULE:
            return None
        else:
            # Of the old modes of git those of groups are plain ones, too
            found = (PROGRAM if mode & 0o100 else FILE, oid)
    return found


def entries(data: bytes, width: int = 20) -> Iterator[tuple[int, bytes, str]]:
    """
    The raw form of a tree: mode, name and object of each entry.

    @raises ValueError: it is none.
    """
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        end = data.index(b"\0", space)
        last = end + 1 + width
        if last > len(data):
            raise ValueError("a tree ends in the middle")
        yield int(data[at:space], 8), data[space + 1 : end], data[end + 1 : last].hex()
        at = last


@frozen
class Everything:
    """
    What is in a tree, as Salt lists it: links are files, whatever they lead to; submodules are not
    there.

    @ivar links: link to its target.
    @ivar left_out: how many names are not served.
    """

    files: list[str] = field(factory=list)
    dirs: list[str] = field(factory=list)
    links: dict[str, str] = field(factory=dict)
    left_out: int = 0


def everything(top: str, read: Callable[[str], bytes], target: Target, most: int) -> Everything:
    """
    All paths below a tree, sorted.

    @param read: the raw form of a tree.
    @param most: entries at most.
    @raises ValueError: there are more.
    """
    files: list[str] = []
    dirs: list[str] = []
    links: dict[str, str] = {}
    kept: dict[str, list[tuple[int, str, str]]] = {}
    odd = seen = 0
    waiting: list[tuple[str, str, int]] = [("", top, 0)]
    while waiting:
        above, tree, depth = waiting.pop()
        if tree not in kept:
            good: list[tuple[int, str, str]] = []
            for mode, raw, oid in entries(read(tree), len(tree) // 2):
                try:
                    name = raw.decode()
                except UnicodeDecodeError:
                    name = ""
                if is_plain(name):
                    good.append((mode, name, oid))
                else:
                    odd += 1
            kept[tree] = good
        seen += len(kept[tree])
        if seen > most or depth > MOST_DEPTH:
            raise ValueError(f"the tree has more than {most} files, or is too deep")
        for mode, name, oid in kept[tree]:
            path = f"{above}{name}"
            if len(path) > MOST_NAME:
                odd += 1
            elif mode == FOLDER:
                dirs.append(path)
                waiting.append((path + "/", oid, depth + 1))
            elif mode == MODULE:
                continue
            else:
                files.append(path)
                if mode == LINK and (text := target(oid)) is not None:
                    links[path] = text
    files.sort()
    dirs.sort()
    return Everything(files, dirs, dict(sorted(links.items())), odd)


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


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, list[str]]:
    """Ref to its commit before and after, C{""} where there was none or is none any more."""
    return {
        ref: [old.get(ref, ""), new.get(ref, "")]
        for ref in sorted(old.keys() | new.keys())
        if old.get(ref, "") != new.get(ref, "")
    }
