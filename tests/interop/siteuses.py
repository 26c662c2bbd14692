"""
What modules of public trees import and call of Salt's, as a table, and whether it is here.

    PYTHONPATH=. python tests/interop/siteuses.py --peer PEERS/3008/bin/python CLONE... > table

C{--peer} names a Python with the C{salt} package: what that lacks as well is marked so. A clone is
a git repository, as L{tests.interop.sitetrees} reads it. Nothing of it is executed: the names are
those in the syntax trees. Files that are Python 2 alone are counted by their imports.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import define, field

from saltwisted.worker.process import saltname
from saltwisted.worker.process.loader import Loaders

GRAINS = {"os": "Debian", "os_family": "Debian", "kernel": "Linux", "id": "x"}
SHOWN = 8
"""How many names of one part are shown, the most used first."""
_IMPORT = re.compile(
    r"^\s*(?:import\s+(salt[\w.]*)|from\s+(salt[\w.]*)\s+import\s+([\w, ]+))", re.M
)


@define
class Part:
    """
    A module of Salt's.

    @ivar files: in which it is imported, each with its tree.
    @ivar names: what of it is imported by name, called or read, and in how many files.
    """

    files: set[tuple[str, str]] = field(factory=set)
    names: Counter[str] = field(factory=Counter)


def used(text: str) -> Iterator[tuple[str, str]]:
    """The parts that a file imports, each with a name that it uses of it, or with none."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        for whole, part, names in _IMPORT.findall(text):
            yield whole or part, ""
            yield from ((part, name.strip()) for name in names.split(",") if name.strip())
        return
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.split(".")[0] == "salt":
                    known[each.asname or each.name] = each.name
                    yield each.name, ""
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "salt":
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                if is_module(whole):
                    known[each.asname or each.name] = whole
                    yield whole, ""
                else:
                    yield str(node.module), ""
                    yield str(node.module), each.name
    for node in ast.walk(tree):
        words = dotted(node)
        for end in range(len(words) - 1, 0, -1):
            start = ".".join(words[:end])
            if start in known and not is_module(f"{known[start]}.{words[end]}"):
                yield known[start], words[end]
                break


def is_module(name: str) -> bool:
    """Whether a name below C{salt} is that of a part, and not of something in one."""
    return (
        name in saltname.NAMED
        or saltname.source_of(name) is not None
        or name.rpartition(".")[0] in saltname.VIEWS
        or name in ("salt.ext", "salt.ext.six", "salt.utils", "salt.modules", "salt.states")
    )


def dotted(node: ast.AST) -> list[str]:
    """C{a.b.c} in its words; none, if a node is something else."""
    words: list[str] = []
    while isinstance(node, ast.Attribute):
        words.insert(0, node.attr)
        node = node.value
    return [node.id, *words] if words and isinstance(node, ast.Name) else []


def counted(clones: Iterable[Path]) -> tuple[dict[str, Part], int, int]:
    """Parts by name; how many files were read, and how many of them import something of Salt's."""
    from tests.interop.sitetrees import files_of  # the peer has not what tests need

    parts: dict[str, Part] = defaultdict(Part)
    read: set[tuple[str, str]] = set()
    users = 0
    for clone in clones:
        tree, files = files_of(clone)
        for kind, name, text in files:
            file = (tree, f"{kind}/{name}")
            if name == "__init__" or file in read:
                continue
            read.add(file)
            found = set(used(text))
            users += bool(found)
            for part, word in found:
                parts[part].files.add(file)
                parts[part].names.update([word] if word else [])
    return parts, len(read), users


def missing(names: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """By part, which of these names are not here: C{yes}: all are; C{no}: nor is the part."""
    if importlib.util.find_spec("salt") is None:
        saltname.install(Loaders({"id": "x"}, grains=GRAINS, pillar={}, stock=False).module_of)
    found = {}
    for part, words in names.items():
        try:
            module = importlib.import_module(part)
        except Exception:
            found[part] = "no"
            continue
        absent = [f"`{word}`" for word in sorted(words) if not _has(module, word)]
        shown = ", ".join(absent) if len(absent) <= SHOWN else f"{len(absent)} of them"
        found[part] = f"without {shown}" if absent else "yes"
    return found


def _has(module: object, name: str) -> bool:
    value = getattr(module, name, None)
    return value is not None and not getattr(value, "__qualname__", "").startswith("_absent.")


def main(words: Sequence[str]) -> None:
    """The table, by how many files import a part."""
    logging.disable(logging.CRITICAL)
    say = sys.stdout.write
    if words[0] == "--missing":
        say(json.dumps(missing(json.load(sys.stdin))))
        return
    peer, clones = (words[1], words[2:]) if words[0] == "--peer" else ("", words)
    parts, read, users = counted(Path(os.path.abspath(clone)) for clone in clones)
    wanted = {name: list(part.names) for name, part in parts.items()}
    here, there = missing(wanted), {}
    if peer:
        command = [peer, __file__, "--missing"]
        text = json.dumps(wanted)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        there = json.loads(done.stdout)
    say(f"{read} files, of which {users} import something of Salt's.\n\n")
    say("| part | files | trees | what of it, and in how many files | here |\n")
    say("|---|---|---|---|---|\n")
    for name, part in sorted(parts.items(), key=lambda each: (-len(each[1].files), each[0])):
        trees = len({tree for tree, _ in part.files})
        names = sorted(part.names.items(), key=lambda each: (-each[1], each[0]))
        shown = [f"`{word}` {count}" for word, count in names[:SHOWN]]
        shown += [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
        is_alike = here[name] != "yes" and here[name] == there.get(name)
        state = f"{here[name]}{', as in stock' if is_alike else ''}"
        say(f"| `{name}` | {len(part.files)} | {trees} | {', '.join(shown)} | {state} |\n")


if __name__ == "__main__":
    main(sys.argv[1:])
