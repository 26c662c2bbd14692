"""
YAML read and written by modules, with the C parser, Salt's rules and Salt's look.
"""

from __future__ import annotations

from typing import IO, Any

import yaml

from saltwisted.domain.render.yaml import safe_load

Error = yaml.YAMLError

_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):
    """Maps, lists and texts of any class are plain."""


_Dumper.add_multi_representer(dict, lambda dumper, data: dumper.represent_dict(data.items()))
_Dumper.add_multi_representer(list, lambda dumper, data: dumper.represent_list(data))
_Dumper.add_multi_representer(str, lambda dumper, data: dumper.represent_str(str(data)))


def load(source: str | bytes | IO[Any]) -> Any:
    """
    Plain data from YAML text or an open file; C{0644} is 644.

    @raises yaml.YAMLError: it is none.
    """
    return safe_load(source if isinstance(source, (str, bytes)) else source.read())


def dump(data: Any, **options: Any) -> str:
    """Plain data as YAML text in block style, keys sorted as Salt writes them."""
    options.setdefault("default_flow_style", False)
    options.setdefault("allow_unicode", True)
    return str(yaml.dump(data, Dumper=_Dumper, **options))
