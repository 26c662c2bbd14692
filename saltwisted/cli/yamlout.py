"""
YAML as Salt writes it: block style, unicode kept, unknown types as C{NULL}.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

import yaml


class Dumper(yaml.CSafeDumper):
    """Ordered and default maps are maps; what YAML has no word for becomes C{NULL}."""


def _null(dumper: Dumper, _data: Any) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:null", "NULL")


def _map(dumper: Dumper, data: Any) -> yaml.Node:
    return dumper.represent_dict(data.items())


Dumper.add_representer(None, _null)  # type: ignore[arg-type]
Dumper.add_representer(OrderedDict, _map)
Dumper.add_representer(defaultdict, yaml.representer.SafeRepresenter.represent_dict)


def dump(data: Any, **options: Any) -> str:
    """The text of C{data}; options are those of C{yaml.dump}."""
    text: str = yaml.dump(data, None, Dumper=Dumper, allow_unicode=True, **options)
    return text
