"""
The C{yamlex} renderer: YAML whose values may ask to be aggregated.

C{!aggregate} marks a value to be joined with an earlier one under the same key,
C{!reset} on a key forgets the earlier one. The document itself counts as marked,
so that documents can be merged. Texts and maps print themselves as YAML.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.scanner import ScannerError

from saltwisted.domain.render.aggregate import Aggregate, AggregatedSequence, merge_aggregated
from saltwisted.domain.render.errors import TemplateFailure
from saltwisted.domain.yamltext import load_yaml

_STD = "tag:yaml.org,2002:"
_OMAP = _STD + "omap"


class YamlexDumper(yaml.CSafeDumper):
    """Maps of every kind as maps."""


YamlexDumper.add_multi_representer(
    dict, lambda dumper, data: dumper.represent_mapping(_STD + "map", list(data.items()))
)
YamlexDumper.add_multi_representer(list, lambda dumper, data: dumper.represent_list(data))
YamlexDumper.add_multi_representer(
    str, lambda dumper, data: dumper.represent_str(str.__str__(data))
)


def _as_yaml(value: Any, **options: Any) -> str:
    text = str(yaml.dump(value, Dumper=YamlexDumper, allow_unicode=False, **options))
    return text.removesuffix("\n...\n").removesuffix("\n")


class SLSMap(OrderedDict[Any, Any]):
    """A map that prints itself as flow-style YAML."""

    def __str__(self) -> str:
        return _as_yaml(self, default_flow_style=True)

    __repr__ = __str__


class SLSString(str):
    """A text that prints itself with double quotes."""

    def __str__(self) -> str:
        return _as_yaml(str.__str__(self), default_style='"', default_flow_style=None)

    __repr__ = __str__


class AggregatedSLSMap(SLSMap, Aggregate):
    """A map marked by C{!aggregate}."""


class YamlexLoader(yaml.CSafeLoader):
    """Reads one document."""

    def get_single_node(self) -> Any:
        """The document's node, marked."""
        node = super().get_single_node()
        if node is not None:
            node.tag = "!aggregate"
        return node


def _merge(older: Any, newer: Any) -> Any:
    return merge_aggregated(older, newer, False, AggregatedSLSMap, AggregatedSequence)


def _plain_tag(loader: Any, node: Node) -> tuple[str, bool]:
    """The tag that a node would have without ours, and whether it is a container."""
    if isinstance(node, SequenceNode):
        return _STD + "seq", True
    if isinstance(node, MappingNode):
        return _OMAP, True
    return str(loader.resolve(ScalarNode, node.value, [True, True])), False


def _map(loader: Any, node: Node) -> SLSMap:
    if not isinstance(node, MappingNode):
        kind = getattr(node, "id", "node")
        raise ConstructorError(
            None, None, f"expected a mapping node, but found {kind}", node.start_mark
        )
    loader.flatten_mapping(node)
    made = SLSMap()
    for key_node, value_node in node.value:
        fresh = key_node.tag == "!reset"
        if key_node.tag == "!aggregate":
            # The mark belongs to the value.
            value_node.tag = key_node.tag
            key_node.tag = _plain_tag(loader, key_node)[0]
        key = loader.construct_object(key_node, deep=False)
        try:
            known = key in made
        except TypeError:
            raise ConstructorError(
                f"While constructing a mapping {node.start_mark} found unacceptable key"
                f" {key_node.start_mark}"
            ) from None
        value = loader.construct_object(value_node, deep=False)
        made[key] = _merge(made[key], value) if known and not fresh else value
    return made


def _unmarked(loader: Any, node: Node) -> Any:
    tag, deep = _plain_tag(loader, node)
    node = copy.copy(node)
    node.tag = tag
    return loader.construct_object(node, deep)


def _aggregate(loader: Any, node: Node) -> Any:
    value = _unmarked(loader, node)
    if value is None:
        return AggregatedSequence()
    if isinstance(node, MappingNode):
        return AggregatedSLSMap(value)
    if isinstance(node, SequenceNode):
        return AggregatedSequence(value)
    return AggregatedSequence([value])


def _int(loader: Any, node: Any) -> int:
    text = node.value
    if text != "0" and text.startswith("0") and not text.startswith(("0b", "0x")):
        text = text.lstrip("0") or "0"
    return int(text)


for _tag, _make in {
    "!aggregate": _aggregate,
    "!reset": _unmarked,
    _OMAP: _map,
    _STD + "map": _map,
    _STD + "int": _int,
    _STD + "str": lambda loader, node: SLSString(loader.construct_scalar(node)),
}.items():
    YamlexLoader.add_constructor(_tag, _make)


def load_yamlex(text: str) -> Any:
    """
    The renderer; an empty document is an empty map.

    @raises TemplateFailure: it cannot be read.
    """
    try:
        return load_yaml(text, YamlexLoader) or {}
    except ScannerError as error:
        mark = error.problem_mark
        line = None if mark is None else mark.line + 1
        raise TemplateFailure("Unknown yaml render error", line) from error
    except yaml.YAMLError as error:
        raise TemplateFailure(str(error)) from error
