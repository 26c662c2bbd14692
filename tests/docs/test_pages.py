"""
The pages of C{docs/}: their commands, options and links exist, and the page of options is true.

The lines themselves were tried by hand and are run by C{tests.packaging}, C{tests.takeover} and
C{tests.care}; this keeps them from going stale when a command changes.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.complete import parser_of
from saltwisted.cli.main import COMMANDS
from saltwisted.config.load import OTHER_NAMES
from saltwisted.config.options import MasterConfig, MinionConfig

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
OWN = {"saltwisted_heartbeat", "saltwisted_unsigned_publications"}


def shell_lines(text: str) -> Iterator[str]:
    """The lines of shell blocks, without here-documents."""
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        end = ""
        for line in block.splitlines():
            if end:
                end = "" if line.strip() == end else end
                continue
            found = re.search(r"<<'?(\w+)'?", line)
            end = found[1] if found else ""
            yield line.strip()


def calls(line: str) -> Iterator[list[str]]:
    """Every call of one of our commands in a line."""
    for part in re.split(r"&&|\||;", line):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            continue
        while words and (words[0] in ("sudo", "env") or "=" in words[0]):
            words.pop(0)
        if words and words[0].endswith("saltwisted") and words[1:]:
            yield words[1:]
        elif words and words[0] in COMMANDS and words[0].startswith("salt"):
            yield words


def maker(script: str) -> Any:
    """A script of C{docs/} as a module."""
    spec = importlib.util.spec_from_file_location("made", ROOT / "docs" / script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named_rows(tree: ast.AST) -> Iterator[str]:
    """The names of operations for which a file has rows."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names: list[ast.expr] = []
            if node.func.id == "Operation":
                names = [word.value for word in node.keywords if word.arg == "name"]
            elif node.func.id == "_row":
                names = node.args[:1]
            yield from (str(n.value) for n in names if isinstance(n, ast.Constant))


class PageTests(SynchronousTestCase):
    """All pages."""

    def test_commands(self) -> None:
        """Each command in a shell block is there, with each option that is shown."""
        wrong = []
        seen = 0
        for page in PAGES:
            for line in shell_lines(page.read_text()):
                for name, *words in calls(line):
                    if name.startswith("-"):
                        continue
                    seen += 1
                    if name not in COMMANDS:
                        wrong.append(f"{page.name}: no command {name!r}: {line}")
                        continue
                    parser = parser_of(name)
                    for word in words:
                        option = word.split("=")[0]
                        if option.startswith("--") and parser.get_option(option) is None:
                            wrong.append(f"{page.name}: {name} has no {option}: {line}")

        self.assertEqual(wrong, [])
        self.assertGreater(seen, 50)

    def test_links(self) -> None:
        """Each link to a page or file leads somewhere."""
        wrong = []
        for page in PAGES:
            text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
            for target in re.findall(r"\]\(([^)#]+)", text):
                if "://" not in target and not (page.parent / target).exists():
                    wrong.append(f"{page.name}: {target}")

        self.assertEqual(wrong, [])

    def is_made(self, page: str, script: str) -> None:
        """The page is what its script writes."""
        self.assertEqual(
            (ROOT / "docs" / page).read_text().splitlines(),
            maker(script).page().splitlines(),
            f"run: python docs/{script} > docs/{page}",
        )

    def test_yaml(self) -> None:
        """Each block of YAML can be read, unless a template makes it YAML first."""
        wrong = []
        seen = 0
        for page in PAGES:
            for block in re.findall(r"```yaml[^\n]*\n(.*?)```", page.read_text(), re.S):
                seen += 1
                try:
                    found = yaml.safe_load(textwrap.dedent(block))
                except yaml.YAMLError as error:
                    if not re.search(r"{{|{%", block):
                        wrong.append(f"{page.name}: {error}\n{block}")
                else:
                    self.assertIsInstance(found, (dict, list), f"{page.name}: {block}")

        self.assertEqual(wrong, [])
        self.assertGreater(seen, 25)

    def test_options_page(self) -> None:
        """C{docs/options.md} is what C{docs/make_options.py} writes."""
        self.is_made("options.md", "make_options.py")

    def test_operations_page(self) -> None:
        """C{docs/operations-table.md} is what C{docs/make_operations.py} writes."""
        self.is_made("operations-table.md", "make_operations.py")

    def test_doors_table(self) -> None:
        """The table in C{docs/security.md} is what C{docs/make_doors.py} writes."""
        self.is_made("security.md", "make_doors.py")

    def test_every_operation_is_said(self) -> None:
        """Each row that is written anywhere is on the page of operations, in a sentence."""
        make = maker("make_operations.py")
        rows = [row for _, _, part in make.parts() for row in part]
        written = {
            name
            for path in (ROOT / "saltwisted").rglob("*.py")
            for name in named_rows(ast.parse(path.read_text()))
        }

        self.assertEqual(written - {row.name for row in rows}, set())
        self.assertGreater(len(written), 30)
        for row in rows:
            self.assertTrue(make.words_of(row).endswith("."), row.name)
            self.assertTrue(make.words_of(row)[0].isupper(), row.name)

    def test_options_in_words(self) -> None:
        """Options that a page sets or names with a colon exist."""
        known = {*MasterConfig.fields, *MinionConfig.fields, *OTHER_NAMES, *OWN}
        wrong = []
        for page in PAGES:
            if page.name in ("options.md", "benchmarks.md", "protocol.md", "wire.md"):
                continue
            for name in re.findall(r"`([a-z]+_[a-z_]+): ", page.read_text()):
                if name not in known:
                    wrong.append(f"{page.name}: {name}")

        self.assertEqual(wrong, [])

    def test_named_tests(self) -> None:
        """Tests that a page names exist."""
        names = {
            name
            for page in PAGES
            for name in re.findall(r"`(tests(?:\.\w+)+\.[A-Z]\w+\.test_\w+)`", page.read_text())
        }
        for name in sorted(names):
            module, case, test = name.rsplit(".", 2)
            found = getattr(importlib.import_module(module), case)
            self.assertTrue(callable(getattr(found, test, None)), name)
        self.assertGreater(len(names), 15)

    def test_every_page(self) -> None:
        """The README leads to every page."""
        readme = (ROOT / "README.md").read_text()
        names = [str(page.relative_to(ROOT)) for page in PAGES if page.name != "README.md"]

        self.assertEqual([name for name in names if f"({name})" not in readme], [])
