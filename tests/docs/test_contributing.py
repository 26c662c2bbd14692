"""
C{CONTRIBUTING.md} is followed word by word in a copy of the tree, and what it names exists.

A recipe is the blocks of a section: C{file=} makes a file, with C{after="..."} the lines go behind
the first line that holds these words, with C{end} to the end; C{sh follow} is run as it stands.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from tests import record

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
FENCE = re.compile(r"^```(\w+)[ ]?([^\n]*)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"file=(\S+)")
AFTER = re.compile(r'after="((?:[^"\\]|\\.)*)"')


@frozen
class Block:
    """A fenced block: its language, what stands behind it, and its text."""

    language: str
    words: str
    text: str

    @property
    def file(self) -> str:
        """The file that it goes to, or C{""}."""
        found = FILE.search(self.words)
        return found[1] if found else ""


def blocks(page: str) -> Iterator[Block]:
    """All blocks of a page."""
    for match in FENCE.finditer(page):
        yield Block(match[1], match[2].strip(), match[3])


def put(top: Path, block: Block) -> None:
    """Write a block where it says."""
    path = top / block.file
    after = AFTER.search(block.words)
    if after is not None:
        words = after[1].replace('\\"', '"')
        lines = path.read_text().splitlines(keepends=True)
        at = next(number for number, line in enumerate(lines) if words in line)
        lines.insert(at + 1, block.text)
        path.write_text("".join(lines))
    elif "end" in block.words.split():
        is_inside = block.text.startswith(" ")
        path.write_text(path.read_text() + ("\n" if is_inside else "\n\n") + block.text)
    else:
        if path.exists():
            raise AssertionError(f"{block.file} is there already")
        path.write_text(block.text)


def copied(top: Path) -> None:
    """The tree, with programs in C{.venv/bin} as the page calls them."""
    for name in ("saltwisted", "tests", "docs", "twisted", "newsfragments", "packaging", "etc"):
        shutil.copytree(ROOT / name, top / name)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "NEWS.md", "CONTRIBUTING.md"):
        shutil.copy2(ROOT / name, top / name)
    folder = top / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name, words in (("python", ""), ("trial", "-m twisted.trial --temp-directory _trial")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        program.chmod(0o755)


class RecipeTests(SynchronousTestCase):
    """The recipes."""

    def test_followed(self) -> None:
        """Each recipe, followed in order, gives what its own commands find in order."""
        top = Path(self.mktemp()).resolve()
        top.mkdir()
        copied(top)
        env = {**os.environ, "PYTHONPATH": str(top)}
        for name in ("SALTWISTED_PEERS", "SALTWISTED_LONG"):
            env.pop(name, None)
        followed = 0

        for block in blocks(PAGE.read_text()):
            if block.file:
                put(top, block)
            elif block.language == "sh" and "follow" in block.words.split():
                followed += 1
                done = subprocess.run(
                    ["bash", "-e", "-c", block.text],
                    cwd=top, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                )  # fmt: skip
                self.assertEqual(done.returncode, 0, f"{block.text}\n{done.stdout[-4000:]}")

        self.assertEqual(followed, PAGE.read_text().count("```sh follow"))
        self.assertGreater(followed, 3)

    def test_names(self) -> None:
        """Files and modules of tests that the page names exist, or are made by a recipe."""
        page = PAGE.read_text()
        made = {block.file for block in blocks(page)}
        missing = [
            name
            for name in re.findall(r"`((?:saltwisted|tests|docs|newsfragments)/[\w./-]*)`", page)
            if name not in made and not (ROOT / name).exists()
        ]
        for dotted in re.findall(r"\btests((?:\.[a-z]\w*)+)", page):
            path = ROOT / ("tests" + dotted.replace(".", "/"))
            file = path.with_suffix(".py")
            if not path.exists() and not file.exists() and str(file.relative_to(ROOT)) not in made:
                missing.append(dotted)

        self.assertEqual([name for name in missing if name != ".py"], [])

    def test_bites(self) -> None:
        """A line that is not there to be written behind stops the recipe."""
        top = Path(self.mktemp())
        top.mkdir()
        (top / "a.py").write_text("one\ntwo\n")

        put(top, Block("python", 'file=a.py after="one"', "and a half\n"))

        self.assertEqual((top / "a.py").read_text(), "one\nand a half\ntwo\n")
        with self.assertRaises(StopIteration):
            put(top, Block("python", 'file=a.py after="three"', "\n"))
        with self.assertRaises(AssertionError):
            put(top, Block("python", "file=a.py", "\n"))


class RecordTests(SynchronousTestCase):
    """C{tests/record.py}: one command for each kind of recording."""

    def peers(self, text: str) -> str:
        """A directory of venvs whose Python says this."""
        folder = Path(self.mktemp()) / record.LINE / "bin"
        folder.mkdir(parents=True)
        (folder / "python").write_text(f"#!/bin/sh\necho {text}\n")
        (folder / "python").chmod(0o755)
        return str(folder.parent.parent)

    def test_what_is_needed(self) -> None:
        """What is missing is said with the way to get it, before anything is run."""
        kind = record.KINDS["states"]
        for names, peers, uid, words in (
            ((), "", 0, "SALTWISTED_PEERS is not set"),
            ((), self.peers("3008.2"), 1000, "run it as root"),
            ((), self.mktemp(), 0, "pip install salt==3008.2"),
            ((), self.peers("3008.1"), 0, "is 3008.1"),
        ):
            self.assertIn(words, record.lacking(kind, names, peers, uid))
        whole = record.KINDS["config"]
        self.assertIn("as a whole", record.lacking(whole, ["x"], self.peers("3008.2"), 0))
        self.assertEqual(record.lacking(kind, ["host"], self.peers("3008.2"), 0), "")

    def test_kinds(self) -> None:
        """Each kind names a recorder, a recording and a test that are there, and is in the list."""
        missing = []
        for name, kind in record.KINDS.items():
            for word in kind.command.split()[1:2]:
                path = word if word != "-m" else kind.command.split()[2].replace(".", "/") + ".py"
                missing += [] if (ROOT / path).exists() else [f"{name}: {path}"]
            missing += [] if (ROOT / (kind.into or ".")).exists() else [f"{name}: {kind.into}"]
            judge = ROOT / kind.judged.replace(".", "/")
            found = judge.is_dir() or judge.with_suffix(".py").exists()
            missing += [] if found else [f"{name}: {kind.judged}"]
            self.assertIn(f"\n{name}", record.overview())

        self.assertEqual(missing, [])

    def test_every_recorder(self) -> None:
        """No recorder of the tests is without a kind."""
        known = " ".join(kind.command for kind in record.KINDS.values())
        files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("*/record*.py")]
        # Access to the recorded bytes of the wire, which are recorded by hand
        files.remove("tests/wire/recorded.py")

        self.assertEqual([file for file in files if file not in known], [])
