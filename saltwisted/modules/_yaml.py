"""
YAML read and written by modules, with the C parser and Salt's look.
"""

from __future__ import annotations

from typing import IO, Any

import yaml

from saltwisted.domain.yamltext import load_yaml

Error = yaml.YAMLError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):
    """Maps, lists and texts of any class are plain."""


_Dumper.add_multi_representer(dict, lambda dumper, data: dumper.represent_dict(data.items()))
_Dumper.add_multi_representer(list, lambda dumper, data: dumper.represent_list(data))
_Dumper.add_multi_representer(str, lambda dumper, data: dumper.represent_str(str(data)))


def load(source: str | bytes | IO[Any]) -> Any:
    """
    Plain data from YAML text or an open file.

    @raises yaml.YAMLError: it is none.
    """
    return load_yaml(source, _Loader)


def dump(data: Any, **options: Any) -> str:
    """Plain data as YAML text in block style, keys sorted as Salt writes them."""
    options.setdefault("default_flow_style", False)
    options.setdefault("allow_unicode", True)
    return str(yaml.dump(data, Dumper=_Dumper, **options))
