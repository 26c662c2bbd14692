"""
Writing YAML as Salt's C{yaml} filter does.

C{CSafeDumper} with ordered maps as maps, unicode left readable, and whatever it
has no word for as C{NULL}: Salt's answer, kept because templates rely on it.
"""

from __future__ import annotations

import io
import sys
from collections import OrderedDict, defaultdict
from typing import Any

import yaml
from yaml.emitter import Emitter
from yaml.nodes import ScalarNode
from yaml.representer import SafeRepresenter


class SaltDumper(yaml.CSafeDumper):
    """The dumper behind C{yaml.safe_dump} with Salt's extra types."""


def _as_map(dumper: Any, data: Any) -> Any:
    return dumper.represent_dict(list(data.items()))


def _as_null(dumper: Any, data: Any) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:null", "NULL")


SaltDumper.add_representer(OrderedDict, _as_map)
SaltDumper.add_representer(defaultdict, SafeRepresenter.represent_dict)
SaltDumper.add_representer(None, _as_null)  # type: ignore[arg-type]


def register_map(kind: type) -> None:
    """Have instances of a map class written as maps."""
    SaltDumper.add_representer(kind, _as_map)


def safe_dump(data: Any, **options: Any) -> str:
    """YAML text of plain data; options are PyYAML's."""
    options.setdefault("allow_unicode", True)
    options.setdefault("default_flow_style", None)
    return str(yaml.dump(data, None, Dumper=SaltDumper, **options))


def dump_filter(data: Any, flow_style: bool | None = True) -> str:
    """The C{yaml} filter's text: no blank ends, no end-of-document mark."""
    text = safe_dump(data, default_flow_style=flow_style).strip()
    return text[:-4] if text.endswith("\n...") else text


def double_quoted(text: Any) -> str:
    """A double-quoted scalar with YAML's escapes, on one line."""
    with io.StringIO() as stream:
        Emitter(stream, width=sys.maxsize).write_double_quoted(str(text))
        return stream.getvalue()


def single_quoted(text: Any) -> str:
    """A single-quoted scalar."""
    with io.StringIO() as stream:
        Emitter(stream, width=sys.maxsize).write_single_quoted(str(text))
        return stream.getvalue()


def scalar(data: Any) -> str:
    """
    One scalar as YAML, texts always double-quoted.

    @raises TypeError: for anything that is not a scalar.
    """
    node = SafeRepresenter().represent_data(data)
    if not isinstance(node, ScalarNode):
        raise TypeError(f"yaml_encode() only works with YAML scalar data; failed for {type(data)}")
    if node.tag.rsplit(":", 1)[-1] == "str":
        return double_quoted(node.value)
    return str(node.value)
