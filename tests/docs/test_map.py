"""
What the pages say about the code is there: names on the map, files, and papers that the code cites.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = re.compile(r"`([\w./-]+\.py):([\w.]+)`")
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
PAPER = re.compile(r"(?<![\w./-])([\w/][\w./-]*\.md)\b")
NAMED = re.compile(r"[LC]\{((?:saltwisted|tests)(?:\.\s*\w+)+)\}")
SOURCES = ("saltwisted", "tests", "packaging", "etc", "twisted", ".ci")


def names(source: str) -> set[str]:
    """What a module defines: functions, classes, constants, and methods and fields of classes."""
    found: set[str] = set()

    def look(body: Iterable[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    look(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign):
                found.update(prefix + ast.unparse(target) for target in node.targets)
            elif isinstance(node, ast.AnnAssign):
                found.add(prefix + ast.unparse(node.target))

    look(ast.parse(source).body, "")
    return found


def absent(page: str) -> list[str]:
    """Places of a page that are not there."""
    wrong = []
    for file, name in PLACE.findall(page):
        path = ROOT / file
        if not path.exists():
            wrong.append(file)
        elif name not in names(path.read_text()):
            wrong.append(f"{file}:{name}")
    return wrong


class MapTests(SynchronousTestCase):
    """C{docs/map.md} and the other pages."""

    def test_places(self) -> None:
        """Each file and name on a page exists."""
        wrong = {page.name: found for page in PAGES if (found := absent(page.read_text()))}

        self.assertEqual(wrong, {})
        self.assertGreater(len(PLACE.findall((ROOT / "docs/map.md").read_text())), 30)

    def test_places_bite(self) -> None:
        """A file, a function and a method that are not there are found."""
        page = (
            "`a/b.py:c` `saltwisted/domain/keys.py:judges` `saltwisted/domain/keys.py:SignIn.pubs`"
        )

        self.assertEqual(len(absent(page)), 3)
        self.assertEqual(absent("`saltwisted/domain/keys.py:SignIn.pub`"), [])

    def test_five_questions(self) -> None:
        """The map answers what a newcomer asks first."""
        page = (ROOT / "docs/map.md").read_text()

        for words in (
            "Where is a sign-in decided?",
            "How do I add a runner?",
            "What happens when a return cannot be written?",
            "Where is a conflict of keys decided?",
            "How do I add a state with a test?",
        ):
            _, _, answer = page.partition(f"## {words}\n")
            self.assertTrue(PLACE.search(answer.partition("\n## ")[0]), words)

    def test_files_in_pages(self) -> None:
        """A source file that a page names is there; a bare name is that of one file alone."""
        wrong = []
        everywhere = Counter(
            path.name
            for top in ("saltwisted", "tests", "docs")
            for path in (ROOT / top).rglob("*.py")
        )
        for page in PAGES:
            made = set(re.findall(r"file=(\S+)", page.read_text()))
            for file in re.findall(r"`([\w./-]+\.py)[:`]", page.read_text()):
                there = [top for top in (ROOT, ROOT / "saltwisted") if (top / file).exists()]
                if not there and file not in made and ("/" in file or everywhere[file] != 1):
                    wrong.append(f"{page.relative_to(ROOT)}: {file}")

        self.assertEqual(wrong, [])


class PaperTests(SynchronousTestCase):
    """References to papers, in code and tests."""

    def papers(self) -> list[str]:
        """Each reference to a page that this tree has not."""
        wrong = []
        for top in SOURCES:
            for path in sorted((ROOT / top).rglob("*")):
                if (
                    path.suffix not in (".py", ".cfg", ".service", ".toml", "")
                    or not path.is_file()
                ):
                    continue
                if path.parent == Path(__file__).parent or "__pycache__" in path.parts:
                    continue
                for number, line in enumerate(path.read_text().splitlines(), 1):
                    for name in PAPER.findall(line):
                        name = name.removeprefix("/usr/share/doc/saltwisted/").lstrip("/")
                        places = [ROOT / name, path.parent / name]
                        if top != "saltwisted":  # the code says where a page is
                            places.append(ROOT / "docs" / name)
                        if not any(place.exists() for place in places):
                            wrong.append(f"{path.relative_to(ROOT)}:{number}: {name}")
        return wrong

    def test_papers(self) -> None:
        """Whatever page a docstring or comment refers to, by its path, is in this tree."""
        found = self.papers()

        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_docstring_names(self) -> None:
        """Whatever of ours a docstring names in full is there."""
        known: dict[Path, set[str]] = {}

        def is_there(dotted: str) -> bool:
            parts = dotted.split(".")
            for length in range(len(parts), 0, -1):
                at = ROOT.joinpath(*parts[:length])
                for path in (at.with_suffix(".py"), at / "__init__.py"):
                    if path.exists():
                        if path not in known:
                            known[path] = names(path.read_text())
                        rest = ".".join(parts[length:])
                        return not rest or rest in known[path]
            return ROOT.joinpath(*parts).is_dir()

        wrong = []
        for top in ("saltwisted", "tests"):
            for path in sorted((ROOT / top).rglob("*.py")):
                for found in NAMED.findall(path.read_text()):
                    if not is_there(re.sub(r"\s", "", found)):
                        wrong.append(f"{path.relative_to(ROOT)}: {found}")

        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))
