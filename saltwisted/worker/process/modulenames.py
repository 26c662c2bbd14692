"""
Which names a site's module gives itself, by its text alone.

A module says its name in C{__virtualname__}, in what C{__virtual__} returns, and in
C{__virtual_aliases__}. Python has many ways to write each of them; those that say the name
literally are understood here. Of all others it is known that the module has to be asked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

NAME, FUNCTION, ALIASES = "__virtualname__", "__virtual__", "__virtual_aliases__"
_ALL = (NAME, FUNCTION, ALIASES)


class _Computed(Exception):
    """A name is not literal."""


def claimed_names(text: str) -> frozenset[str] | None:
    """
    The names that a module may load as besides its file's.

    @return: C{None}: the text computes a name, which may be any.
    """
    if "__virtual" not in text and "import *" not in text:
        return frozenset()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # It cannot be executed either; whoever asks for it by its file's name hears why
        return frozenset()
    try:
        return frozenset(_names(tree))
    except (_Computed, RecursionError):
        return None


def _names(tree: ast.Module) -> Iterator[str]:
    """
    @raises _Computed: not all are literal.
    """
    bound: set[int] = set()
    functions: list[ast.FunctionDef] = []
    has_name = False
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id in (NAME, ALIASES):
                    bound.add(id(target))
                    if node.value is not None:
                        has_name = has_name or target.id == NAME
                        yield from _literals(node.value, target.id == ALIASES)
        elif isinstance(node, ast.FunctionDef) and node.name == FUNCTION:
            functions.append(node)
    for node in ast.walk(tree):
        if _binds_otherwise(node, bound):
            raise _Computed
    if has_name:
        # What the function returns only says whether there is the module
        return
    for function in functions:
        if function.decorator_list:
            raise _Computed
        for value in _returned(function.body):
            yield from _truths(value)


def _binds_otherwise(node: ast.AST, bound: set[int]) -> bool:
    """Whether a node may give one of the names a value that was not looked at."""
    if isinstance(node, ast.Name):
        return node.id in _ALL and not isinstance(node.ctx, ast.Load) and id(node) not in bound
    if isinstance(node, ast.alias):
        return node.name == "*" or (node.asname or node.name) in _ALL
    if isinstance(node, (ast.ClassDef, ast.AsyncFunctionDef)):
        return node.name in _ALL
    if isinstance(node, ast.FunctionDef):
        return node.name in (NAME, ALIASES)
    # As in globals()["__virtualname__"] = ...; the words of a docstring are longer
    return isinstance(node, ast.Constant) and node.value in _ALL


def _literals(value: ast.expr, several: bool) -> Iterator[str]:
    try:
        found = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise _Computed from None
    if several:
        if isinstance(found, (list, tuple, set, dict)):
            yield from (each for each in found if isinstance(each, str))
    elif isinstance(found, str):
        yield found


def _returned(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """What the function with this body returns; not what functions within it return."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            if node.value is not None:
                yield node.value
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def _truths(value: ast.expr) -> Iterator[str]:
    """
    The names in what C{__virtual__} returns: text, a truth, or a tuple of that and the reason.

    @raises _Computed: it may return others.
    """
    if isinstance(value, ast.Constant):
        if isinstance(value.value, str):
            yield value.value
    elif isinstance(value, ast.Tuple) and value.elts:
        yield from _truths(value.elts[0])
    elif isinstance(value, ast.IfExp):
        yield from _truths(value.body)
        yield from _truths(value.orelse)
    elif isinstance(value, ast.BoolOp):
        # The last may be the answer; so may one before it, if it is text by itself
        for each in value.values[:-1]:
            if isinstance(each, (ast.Constant, ast.BoolOp)):
                yield from _truths(each)
            elif isinstance(value.op, ast.Or) and not _is_truth(each):
                raise _Computed
        yield from _truths(value.values[-1])
    elif not _is_truth(value):
        raise _Computed


def _is_truth(value: ast.expr) -> bool:
    """Whether an expression is true or false whatever it looks at."""
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Not)
    return isinstance(value, ast.Compare) or (
        isinstance(value, ast.Constant) and isinstance(value.value, (bool, type(None)))
    )
