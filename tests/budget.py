"""
A report of the largest functions, classes and files: C{python -m tests.budget}.

It is for a reader who looks for what may hold more than one idea. No number is a law, and nothing
fails: where a file or a class ends is decided by what belongs together.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent

LINES_OF_A_FUNCTION = 60
METHODS_OF_A_CLASS = 25
LINES_OF_A_FILE = 700

KINDS = ("functions", "classes", "files")
SHOWN = 10
"""The largest of each kind that are listed."""


@frozen
class Large:
    """Something large: which kind, where it is, and how many lines or methods it has."""

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
    """What in a file is large, and the file itself if it is no table."""
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


def report(found: list[Large]) -> Iterator[str]:
    """The lines of the report: how many of each kind are large, and the largest of them."""
    measures = (LINES_OF_A_FUNCTION, METHODS_OF_A_CLASS, LINES_OF_A_FILE)
    units = ("lines", "methods", "lines")
    for kind, measure, unit in zip(KINDS, measures, units, strict=True):
        those = sorted((each for each in found if each.kind == kind), key=lambda each: -each.size)
        yield f"{kind} of more than {measure} {unit}: {len(those)}"
        yield from (f"  {each.size:5} {each.where}" for each in those[:SHOWN])


def main() -> None:
    """Print the report."""
    found: list[Large] = []
    for path in sorted((ROOT / "saltwisted").rglob("*.py")):
        found += large(str(path.relative_to(ROOT)), path.read_text())
    sys.stdout.writelines(f"{line}\n" for line in report(found))


if __name__ == "__main__":
    main()
