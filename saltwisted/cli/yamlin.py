"""
YAML as Salt reads command-line words and its own small files.

Salt's differences from PyYAML's safe loader: whole numbers with leading zeros are
decimal, dates stay text, a key may not occur twice.
"""

from __future__ import annotations

from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, ScalarNode

from saltwisted.domain.yamltext import load_yaml
from saltwisted.mergekeys import flatten


class Loader(yaml.CSafeLoader):
    """The C loader with Salt's rules."""

    def construct_scalar(self, node: Any) -> Any:
        """Take the zeros from the left of a whole number."""
        if node.tag == "tag:yaml.org,2002:int":
            text = node.value
            if text.startswith("0") and not text.startswith(("0b", "0x")):
                node.value = text.lstrip("0") or "0"
        return super().construct_scalar(node)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """
        A map without repeated keys.

        @raises ConstructorError: a key occurs twice or cannot be a key.
        """
        if isinstance(node, MappingNode):
            flatten(node)
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=deep)
            try:
                known = key in found
            except TypeError as error:
                raise ConstructorError(
                    "while constructing a mapping",
                    node.start_mark,
                    f"found unacceptable key {key_node.value}",
                    key_node.start_mark,
                ) from error
            if known:
                raise ConstructorError(
                    "while constructing a mapping",
                    node.start_mark,
                    f"found conflicting ID '{key}'",
                    key_node.start_mark,
                )
            found[key] = self.construct_object(value_node, deep=deep)
        return found


def _text(loader: Loader, node: ScalarNode) -> Any:
    return loader.construct_scalar(node)


Loader.add_constructor("tag:yaml.org,2002:timestamp", _text)


def load(text: str | bytes) -> Any:
    """
    The value of one YAML document.

    @raises yaml.YAMLError: the text is not YAML.
    """
    return load_yaml(text, Loader)
