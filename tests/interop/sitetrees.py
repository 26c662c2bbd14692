"""
Which modules of public trees import, with ours or beside the C{salt} package.

    PYTHONPATH=. python tests/interop/sitetrees.py CLONE...                 ours alone
    PYTHONPATH=. PEERS/3008/bin/python tests/interop/sitetrees.py CLONE...  with stock's C{salt}

A clone is a git repository, with or without a work tree. Its newest commit is read; nothing of it
is written anywhere but into a temporary directory. Modules are loaded by our loader, for a Debian
machine, and no function of theirs is called.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from attrs import define, field

from saltwisted.worker.process.loader import Loaders

KINDS = (
    *("modules", "states", "grains", "runners", "renderers", "returners", "utils", "pillar"),
    *("tops", "engines", "beacons", "wheel", "sdb", "executors"),
)
_MODULE = re.compile(rf"(?:^|/)_({'|'.join(KINDS)})/([^/]+)\.py$")
_OLD = ("urllib2", "urlparse", "httplib", "StringIO", "ConfigParser", "quote_plus", "'Iterable'")
GRAINS = {"os": "Debian", "os_family": "Debian", "kernel": "Linux", "id": "x"}


@define
class Tree:
    """
    What became of one tree's modules.

    @ivar imported: also those whose C{__virtual__} says no by itself.
    @ivar failed: C{kind/name} to cause and error.
    """

    name: str
    commit: str
    files: int = 0
    imported: int = 0
    failed: dict[str, tuple[str, str]] = field(factory=dict)


def cause_of(error: BaseException) -> str:
    """Why a module cannot be imported: C{python}, C{library} or C{salt}."""
    if isinstance(error, SyntaxError) or any(word in str(error) for word in _OLD):
        return "python"
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("salt"):
        return "library"
    return "salt"


def look(name: str, commit: str, texts: Iterable[tuple[str, str]]) -> Tree:
    """
    Import each module of a tree.

    @param texts: paths in the tree, and what the files say.
    """
    tree = Tree(name, commit)
    with tempfile.TemporaryDirectory() as folder:
        found: list[tuple[str, str]] = []
        for path, text in texts:
            match = _MODULE.search(path)
            if match is None or match.group(2) == "__init__":
                continue
            place = Path(folder, match.group(1), f"{match.group(2)}.py")
            place.parent.mkdir(exist_ok=True)
            if not place.exists():
                place.write_text(text)
                found.append((match.group(1), match.group(2)))
        opts = {"module_dirs": [folder], "id": "x", "file_client": "local", "cachedir": folder}
        loaders = Loaders(opts, grains=GRAINS, pillar={}, stock=False)
        for kind, module in found:
            loaders.module_of(kind, module)
            reason = loaders[kind].missing_modules.get(module)
            tree.files += 1
            if isinstance(reason, BaseException):
                tree.failed[f"{kind}/{module}"] = (cause_of(reason), str(reason))
            else:
                tree.imported += 1
    return tree


def opened(clone: Path) -> tuple[str, Iterable[tuple[str, str]]]:
    """A clone's newest commit: its name, and the paths and texts of its modules."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "--git-dir", str(place), *words], capture_output=True, check=True
        )
        return done.stdout.decode(errors="replace")

    place = clone / ".git" if (clone / ".git").is_dir() else clone
    paths = [path for path in git("ls-tree", "-r", "--name-only", "HEAD").split("\n") if path]
    texts = ((path, git("show", f"HEAD:{path}")) for path in paths if _MODULE.search(path))
    return git("rev-parse", "HEAD")[:10], texts


def files_of(clone: Path) -> tuple[str, list[tuple[str, str, str]]]:
    """A clone's own name, and kind, name and text of each module."""
    matches = ((_MODULE.search(path), text) for path, text in opened(clone)[1])
    files = [(match[1], match[2], text) for match, text in matches if match is not None]
    return name_of(clone), files


def name_of(clone: Path) -> str:
    """What a tree is called: the directory above C{repo}, without its owner."""
    folder = clone.parent if clone.name in ("repo", ".git") else clone
    return folder.name.rpartition("+")[2]


def read(clone: Path) -> Tree:
    """Look at a clone's newest commit."""
    commit, texts = opened(clone)
    return look(name_of(clone), commit, texts)


def main(clones: Iterable[str]) -> None:
    """A line for each tree, and what failed below it."""
    logging.disable(logging.CRITICAL)
    files = imported = 0
    for clone in clones:
        tree = read(Path(os.path.abspath(clone)))
        files, imported = files + tree.files, imported + tree.imported
        sys.stdout.write(f"{tree.name} {tree.commit} {tree.imported}/{tree.files}\n")
        for name, (cause, words) in tree.failed.items():
            sys.stdout.write(f"    {name}: {cause}: {words[:110]}\n")
    sys.stdout.write(f"{imported}/{files}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
