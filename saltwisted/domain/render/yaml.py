"""
YAML as Salt reads it: C{yaml.CSafeLoader} with Salt's rules on top.

Duplicate keys are an error, maps keep their order, C{0755} is the number 755,
dates stay text, no tag makes a Python object. The parsing is libyaml's; the
values are built here, in one loop without recursion and in the order of
PyYAML's own constructor, so that of two mistakes the same one is reported.
Writing YAML is in L{saltwisted.domain.render.yamldump}.
"""

from __future__ import annotations

import base64
import binascii
import gc
from collections import OrderedDict
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import ParserError
from yaml.scanner import ScannerError

from saltwisted.domain.render.errors import TemplateFailure, unforeseen
from saltwisted.domain.yamltext import MAX_DEPTH, TOO_DEEP, check_depth, own_error
from saltwisted.errors import YAML_SLIPS
from saltwisted.mergekeys import flatten

YAMLError = yaml.YAMLError

_STD = "tag:yaml.org,2002:"
_STR = _STD + "str"
_INT = _STD + "int"
_MAP = _STD + "map"
_SEQ = _STD + "seq"
_OMAP = _STD + "omap"
_AS_TEXT = frozenset({_STR, _STD + "timestamp", _STD + "python/unicode"})
_PROBLEMS = {"found character '\\t' that cannot start any token": "Illegal tab character"}
_Waiting = list[tuple[Node, Any]]


class SaltLoader(yaml.CSafeLoader):
    """
    One document, built by Salt's rules.

    @cvar maps: the class of maps; an ordered one also reads C{!!omap} as a map.
    """

    maps: type[dict[Any, Any]] = dict
    _aliased = False

    # Tags by path are not used: spare the parser two calls of Python for each node.

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """Called by the composer on the way down."""

    def ascend_resolver(self) -> None:
        """Called by the composer on the way up."""

    def document(self) -> Any:
        """
        The value of the only document; C{None} for an empty one.

        @raises YAMLError: anything but one well-formed document.
        """
        node = self.get_single_node()
        return None if node is None else self.build(node)

    def build(self, root: Node) -> Any:
        """The value of a node; containers are filled level by level."""
        made: dict[Node, Any] = {}
        waiting: _Waiting = []
        value = self._begin(root, made, waiting)
        depth = 0
        while waiting:
            depth += 1
            if depth > MAX_DEPTH:
                raise YAMLError(TOO_DEEP)
            level, waiting = waiting, []
            for node, target in level:
                if isinstance(node, MappingNode):
                    self._fill_map(node, target, made, waiting)
                else:
                    for item in node.value:
                        target.append(self._begin(item, made, waiting))
        if self._aliased and _is_cyclic(value):
            raise YAMLError(TOO_DEEP)
        return value

    def _begin(self, node: Node, made: dict[Node, Any], waiting: _Waiting) -> Any:
        """A scalar's value, or an empty container that is filled later."""
        if node in made:
            self._aliased = True
            return made[node]
        value: Any
        tag = node.tag
        if isinstance(node, ScalarNode):
            text = node.value
            if tag in _AS_TEXT:
                return text
            if tag == _INT and text.isdigit() and (text[0] != "0" or text == "0"):
                return int(text)
            value = self._scalar(node)
        elif tag == _MAP or (tag == _OMAP and self.maps is not dict):
            if not isinstance(node, MappingNode):
                raise ConstructorError(
                    None, None, f"expected a mapping node, but found {_kind(node)}", node.start_mark
                )
            value = self.maps()
            waiting.append((node, value))
        elif tag == _SEQ and isinstance(node, SequenceNode):
            value = []
            waiting.append((node, value))
        else:
            value = self.construct_object(node, deep=True)
        made[node] = value
        return value

    def _fill_map(
        self,
        node: MappingNode,
        target: dict[Any, Any],
        made: dict[Node, Any],
        waiting: _Waiting,
    ) -> None:
        flatten(node)
        for key_node, value_node in node.value:
            key = self._begin(key_node, made, waiting)
            try:
                known = key in target
            except TypeError:
                raise ConstructorError(
                    "while constructing a mapping",
                    node.start_mark,
                    f"found unacceptable key {key_node.value}",
                    key_node.start_mark,
                ) from None
            value = self._begin(value_node, made, waiting)
            if known:
                raise ConstructorError(
                    "while constructing a mapping",
                    node.start_mark,
                    f"found conflicting ID '{key}'",
                    key_node.start_mark,
                )
            target[key] = value

    def _scalar(self, node: ScalarNode) -> Any:
        if node.tag == _STD + "binary":
            return self._binary(node)
        if node.tag in (_MAP, _SEQ, _OMAP):
            kind = "sequence" if node.tag == _SEQ else "mapping"
            raise ConstructorError(
                None, None, f"expected a {kind} node, but found {_kind(node)}", node.start_mark
            )
        if node.tag == _INT and node.value[:1] == "0" and node.value[:2] not in ("0b", "0x"):
            # Salt takes the zeros away where YAML 1.1 would read an octal number.
            node.value = node.value.lstrip("0") or "0"
        return self.construct_object(node)

    def _binary(self, node: ScalarNode) -> bytes:
        """Base64 whose padding may be missing."""
        try:
            raw = node.value.encode("ascii")
        except UnicodeEncodeError as error:
            raise ConstructorError(
                None, None, f"failed to convert base64 data into ascii: {error}", node.start_mark
            ) from None
        try:
            return base64.decodebytes(raw + b"=" * (-len(raw) % 4))
        except binascii.Error as error:
            raise ConstructorError(
                None, None, f"failed to decode base64 data: {error}", node.start_mark
            ) from None


def _kind(node: Node) -> str:
    """C{scalar}, C{sequence} or C{mapping}, as PyYAML says in its errors."""
    return str(getattr(node, "id", "node"))


def _is_cyclic(value: Any) -> bool:
    """Whether an alias made the value contain itself."""
    done: set[int] = set()
    path: set[int] = set()
    stack: list[tuple[Any, bool]] = [(value, False)]
    while stack:
        here, leaving = stack.pop()
        mark = id(here)
        if leaving:
            path.discard(mark)
            done.add(mark)
            continue
        if not isinstance(here, (dict, list)) or mark in done:
            continue
        if mark in path:
            return True
        path.add(mark)
        stack.append((here, True))
        stack.extend((v, False) for v in (here.values() if isinstance(here, dict) else here))
    return False


class OrderedLoader(SaltLoader):
    """What SLS files are read with: ordered maps, as in stock."""

    maps = OrderedDict


def safe_load(text: str | bytes, loader: type[SaltLoader] = SaltLoader) -> Any:
    """
    The value of one YAML document.

    @raises YAMLError: also for any tag that would make a Python object.
    """
    check_depth(text)
    # A big document makes a million objects and no garbage: the collector, looking for some
    # again and again, would take three quarters of the time.
    pause = len(text) > 20000 and gc.isenabled()
    if pause:
        gc.disable()
    reader = loader(text)
    try:
        return reader.document()
    except YAML_SLIPS as error:
        raise own_error(error) from error
    finally:
        reader.dispose()
        if pause:
            gc.enable()


def load_sls(text: str) -> Any:
    """
    The C{yaml} renderer: an empty document is an empty map.

    @raises TemplateFailure: with the text that stock gives for the same mistake.
    """
    try:
        data = safe_load(text, OrderedLoader)
    except ScannerError as error:
        problem = error.problem or ""
        mark = error.problem_mark
        line = None if mark is None else mark.line + 1
        raise TemplateFailure(_PROBLEMS.get(problem, problem), line) from error
    except (ParserError, ConstructorError) as error:
        mark = error.problem_mark
        # A password that begins with an exclamation mark is a tag to YAML.
        names = "tag" in str(error.problem) or "unacceptable key" in str(error.problem)
        line = None if mark is None else mark.line + 1
        brief = error.problem or ""
        raise TemplateFailure(str(error), line, quotable=not names, brief=brief) from error
    except YAMLError as error:
        raise unforeseen(TemplateFailure(str(error))) from error
    if not data:
        return {}
    return data


def plain_argument(text: Any) -> Any:
    """
    A word of a command line or a key path, as YAML reads it where that is harmless.

    Texts with comment signs, control characters or digits grouped by underscores
    stay as they are; maps and lists need their brackets.
    """
    if not isinstance(text, str) or text.strip() in ("", "---", "..."):
        return text
    if "_" in text and all(c in "0123456789_" for c in text.strip()):
        return text
    if any(c in text for c in "\t\r\n"):
        return text
    if text == "None":
        return None
    try:
        value = safe_load(text)
    except (YAMLError, ValueError, RecursionError):
        return text
    if "#" in text:
        return text if value is None or isinstance(value, str) else value
    if isinstance(value, dict):
        return value if text.startswith("{") else text
    if isinstance(value, list):
        return value if text.startswith("[") else text
    if text in ("|", "!"):
        return text
    return value if value is None or isinstance(value, (int, float, str)) else text
