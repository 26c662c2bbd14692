"""
What can be checked of an SLS before there is an event: the skeleton under its template.

Expressions become a word that can mean anything; blocks and comments become nothing. What is left
is read as YAML, with its lines, and compared with the forms of a reaction. If a template makes the
structure itself, nothing is reported: a warning that may be wrong helps nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from saltwisted.domain.highstate.words import REQUISITE_KEYWORDS
from saltwisted.domain.reactions.reaction import ALIASES, KINDS, LOCAL
from saltwisted.domain.yamltext import check_depth
from saltwisted.errors import YAML_SLIPS
from saltwisted.words import listed

Finding = dict[str, Any]
"""
C{{"sls", "line", "problem"}}, or C{{"sls", "line", "call": [kind, function], "names": [...]}}: a
call whose function is known, with the names of arguments that are given by their own names.
"""

ANY = "ANY0WORD"
_EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_BLOCK = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_SHEBANG = re.compile(r"#!(?!/)(.*)")
_YAML_PIPES = ("jinja|yaml", "yaml", "yaml_jinja")
_OF_LOCAL = frozenset(
    """
    tgt tgt_type arg kwarg args ret jid user timeout name names order metadata ret_config ret_kwargs
    module_executors executor_opts delimiter listen
    """.split()  # noqa: SIM905 - a list of words
)
_UNREADABLE: tuple[type[Exception], ...] = (yaml.YAMLError, *YAML_SLIPS)
_PLAIN = frozenset(("args", "arg", "kwarg", "name", "names", "order", "user"))


def look(path: str, text: str) -> list[Finding]:
    """What is found in one SLS."""
    shebang = _SHEBANG.match(text)
    if shebang and shebang.group(1).strip().replace(" ", "") not in _YAML_PIPES:
        return []
    plain = _EXPRESSION.sub(_kept_lines(ANY), _BLOCK.sub(_kept_lines(""), text))
    templated = plain != text
    try:
        check_depth(plain)
        root = yaml.compose(plain, Loader=yaml.CSafeLoader)
    except _UNREADABLE as error:
        if templated:
            return []
        mark = getattr(error, "problem_mark", None)
        return [_problem(path, mark.line + 1 if mark else 1, str(error).split("\n", 1)[0])]
    if root is None:
        return [] if templated else [_problem(path, 1, "is empty: nothing reacts")]
    return list(_ids(path, root, templated))


def _kept_lines(word: str) -> Any:
    return lambda match: word + "\n" * match.group().count("\n")


def _problem(path: str, line: int, text: str) -> Finding:
    return {"sls": path, "line": line, "problem": text}


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _is_open(node: Node) -> bool:
    """Whether a template stands for a value, or for a part of it."""
    return isinstance(node, ScalarNode) and ANY in str(node.value)


def _is_nothing(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag.endswith(":null")


def _ids(path: str, root: Node, templated: bool) -> Iterator[Finding]:
    if _is_open(root):
        return
    if not isinstance(root, MappingNode):
        yield _problem(path, _line(root), "must be a map of ids, each with what it calls")
        return
    seen: dict[str, int] = {}
    for key, body in root.value:
        name = str(key.value)
        if name in seen and not templated:
            yield _problem(path, _line(key), f"the id {name!r} is there twice")
        seen[name] = _line(key)
        if _is_open(body) or (templated and _is_nothing(body)):
            continue
        if isinstance(body, ScalarNode) and "." in str(body.value):
            yield from _call(path, str(body.value), body, None)
            continue
        if not isinstance(body, MappingNode):
            yield _problem(
                path, _line(key), f"the id {name!r} needs a map such as local.test.ping: [...]"
            )
            continue
        for call, given in body.value:
            yield from _call(path, str(call.value), call, given)


def _call(path: str, word: str, where: Node, given: Node | None) -> Iterator[Finding]:
    if ANY in word.partition(".")[0] or word.startswith("__"):
        return
    kind, _, fun = word.partition(".")
    kind = ALIASES.get(kind, kind)
    if kind not in KINDS:
        yield _problem(
            path,
            _line(where),
            f"{word!r}: reactions begin with {listed(KINDS, 'or')}, and not with {kind!r}",
        )
        return
    arguments: dict[str, Node] = {}
    if given is not None and not _is_open(given):
        if not isinstance(given, SequenceNode):
            yield _problem(path, _line(where), f"{word!r} needs a list of its arguments")
            return
        for item in given.value:
            if isinstance(item, MappingNode):
                if len(item.value) > 1 and not any(_is_open(key) for key, _ in item.value):
                    names = listed([key.value for key, _ in item.value])
                    yield _problem(
                        path, _line(item), f"{names} are one item: each needs a dash of its own"
                    )
                arguments.update({str(key.value): value for key, value in item.value})
            elif isinstance(item, ScalarNode) and not fun:
                fun = str(item.value)
            elif not _is_open(item):
                yield _problem(path, _line(item), f"{word!r}: an argument needs a name")
    if not fun:
        yield _problem(path, _line(where), f"{word!r} names no function")
        return
    if "." not in fun and ANY not in fun:
        yield _problem(path, _line(where), f"{fun!r} is no function: it needs a module")
        return
    yield from _arguments(path, kind, fun, where, given, arguments)


def _arguments(
    path: str,
    kind: str,
    fun: str,
    where: Node,
    given: Node | None,
    arguments: dict[str, Node],
) -> Iterator[Finding]:
    whole = given is None or not _is_open(given)
    for name, node in arguments.items():
        if _is_open(node):
            continue
        if name == "arg" and not isinstance(node, SequenceNode):
            yield _problem(path, _line(node), "arg must be a list")
        if name == "kwarg" and not isinstance(node, (MappingNode, SequenceNode)):
            yield _problem(path, _line(node), "kwarg must be a map")
        if name == "args":
            yield from _args(path, kind, node)
    if "args" in arguments:
        for name in ("arg", "kwarg"):
            if name in arguments:
                yield _problem(path, _line(arguments[name]), f"{name} is ignored beside args")
    if kind == LOCAL:
        if whole and "tgt" not in arguments:
            yield _problem(path, _line(where), f"local.{fun} needs tgt: the minions it is for")
        for name in arguments:
            if name not in _OF_LOCAL and name not in REQUISITE_KEYWORDS and ANY not in name:
                yield _problem(
                    path,
                    _line(arguments[name]),
                    f"{name} is no argument of a local reaction; what the function takes goes "
                    "under args",
                )
    if ANY not in fun:
        loose = (
            sorted(name for name in arguments if name not in _PLAIN and ANY not in name)
            if not {"args", "arg", "kwarg"} & arguments.keys()
            else []
        )
        yield {"sls": path, "line": _line(where), "call": [kind, fun], "names": loose}


def _args(path: str, kind: str, node: Node) -> Iterator[Finding]:
    if isinstance(node, MappingNode):
        return
    if not isinstance(node, SequenceNode):
        yield _problem(path, _line(node), "args must be a map, or a list of maps of one key")
        return
    for item in node.value:
        if isinstance(item, MappingNode) and len(item.value) == 1:
            continue
        if _is_open(item) or kind == "caller":
            continue
        yield _problem(
            path,
            _line(item),
            "args is a list of maps of one key; for arguments by place there is arg",
        )
