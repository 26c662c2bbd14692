"""
The budget: how many functions, classes and files are larger than they should be.

The numbers only go down. The test fails when there are more than written, and also when there
are fewer: then the lower number is written here, so that it cannot rise again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parent.parent

LINES_OF_A_FUNCTION = 60
METHODS_OF_A_CLASS = 25
LINES_OF_A_FILE = 700

BUDGET = {"functions": 0, "classes": 4, "files": 3}
"""What is too large today. These numbers only ever get lower."""


@frozen
class Large:
    """Something over its measure: which kind, where it is, and how large."""

    kind: str
    where: str
    size: int


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """
    The lines of a function, from C{def} to its end, without its docstring.

    Docstrings of modules' functions are the text of C{sys.doc}, as long as users need it.
    """
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        text = function.body[0]
        lines -= (text.end_lineno or text.lineno) - text.lineno + 1
    return lines


def is_table(tree: ast.Module) -> bool:
    """
    Whether a module mostly says what there is, and hardly does anything.

    It does if more than half of its lines are values that are given names: at its top level, or
    in the body of a class, with the texts that describe them.
    """
    values = functions = 0
    for body in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        for node in body.body:
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr):
                values += lines
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions += lines
    return values > functions


def large(where: str, source: str) -> Iterator[Large]:
    """What in a file is over its measure, and the file itself."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if length(node) > LINES_OF_A_FUNCTION:
                yield Large("functions", f"{where}:{node.lineno} {node.name}", length(node))
        elif isinstance(node, ast.ClassDef):
            methods = [
                each
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            if len(methods) > METHODS_OF_A_CLASS:
                yield Large("classes", f"{where}:{node.lineno} {node.name}", len(methods))
    lines = len(source.splitlines())
    if lines > LINES_OF_A_FILE and not is_table(tree):
        yield Large("files", where, lines)


def judged(found: list[Large], kind: str, allowed: int) -> str:
    """What is wrong with the number of a kind; C{""} if it is as written."""
    those = sorted((each for each in found if each.kind == kind), key=lambda each: -each.size)
    if len(those) == allowed:
        return ""
    if len(those) < allowed:
        return f"{kind}: {len(those)} are left of {allowed}. Lower the number in BUDGET."
    listed = "".join(f"\n  {each.size:5} {each.where}" for each in those)
    return f"{kind}: {len(those)} are too large, {allowed} were. Split what you added to:{listed}"


class BudgetTests(SynchronousTestCase):
    """The budget as it stands."""

    def test_budget(self) -> None:
        """No more functions, classes and files are too large than yesterday, and no fewer."""
        found: list[Large] = []
        for path in sorted((ROOT / "saltwisted").rglob("*.py")):
            found += large(str(path.relative_to(ROOT)), path.read_text())
        for kind in BUDGET:
            those = [each for each in found if each.kind == kind]
            largest = max(those, key=lambda each: each.size, default=None)
            print(f"too large: {len(those)} {kind}, the largest {largest}")

        wrong = [text for kind, number in BUDGET.items() if (text := judged(found, kind, number))]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_measures_bite(self) -> None:
        """One line, one method more than allowed is found; a docstring is not counted."""
        body = "    x = 1\n"
        fits = "def f():\n" + body * 59
        self.assertEqual(list(large("x.py", fits)), [])
        self.assertEqual(list(large("x.py", fits + body)), [Large("functions", "x.py:1 f", 61)])
        self.assertEqual(list(large("x.py", 'def f():\n    """One.\n\n    """\n' + body * 59)), [])
        inner = "class A:\n    async def f(self):\n" + "        x = 1\n" * 60
        self.assertEqual([each.kind for each in large("x.py", inner)], ["functions"])

        methods = "".join(f"    def f{number}(self): ...\n" for number in range(25))
        self.assertEqual(list(large("x.py", f"class A:\n{methods}")), [])
        more = f"class A:\n{methods}    async def g(self): ...\n"
        self.assertEqual(list(large("x.py", more)), [Large("classes", "x.py:1 A", 26)])

    def test_files_bite(self) -> None:
        """A file of 701 lines is too large, unless it is a table."""
        code = "def f():\n    return 1\n"
        self.assertEqual(list(large("x.py", code * 350)), [])
        self.assertEqual(list(large("x.py", code * 350 + "f()\n")), [Large("files", "x.py", 701)])
        rows = "ROWS = [\n" + "    1,\n" * 700 + "]\n"
        self.assertEqual(list(large("x.py", rows + code)), [])
        fields = "class A:\n" + "    a: int = 1\n" * 700
        self.assertEqual(list(large("x.py", fields + code)), [])

    def test_numbers_bite(self) -> None:
        """More than written fails, fewer than written fails too, as many as written does not."""
        found = [Large("files", "x.py", 701), Large("files", "y.py", 900)]
        self.assertIn("900 y.py", judged(found, "files", 1))
        self.assertIn("Lower the number", judged(found, "files", 3))
        self.assertEqual(judged(found, "files", 2), "")
