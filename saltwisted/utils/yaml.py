"""
YAML for custom modules, with the names of C{salt.utils.yaml}.

Salt's dialect: what looks like an octal number or a date is read and written as Salt does it.
"""

from __future__ import annotations

from typing import IO, Any

import yaml as _yaml

from saltwisted.domain.render import yaml as _reading
from saltwisted.domain.render import yamldump as _writing

YAMLError = _yaml.YAMLError
SaltYamlSafeLoader = _reading.SaltLoader
SafeOrderedDumper = _writing.SaltDumper


class OrderedDumper(_yaml.SafeDumper):
    """As L{SafeOrderedDumper}, but it ends a bare value with C{...}, as stock's does."""


class IndentedSafeOrderedDumper(_yaml.SafeDumper):
    """Writes lists further in than the key that they belong to."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        """Never without an indent."""
        return super().increase_indent(flow, False)


OrderedDumper.yaml_representers = IndentedSafeOrderedDumper.yaml_representers = {
    **_yaml.SafeDumper.yaml_representers,
    **_writing.SaltDumper.yaml_representers,
}


def safe_load(stream: Any, Loader: Any = SaltYamlSafeLoader) -> Any:
    """
    The value of a YAML text or an open file.

    @raises yaml.YAMLError: it is none.
    """
    text = stream.read() if hasattr(stream, "read") else stream
    return _reading.safe_load(text, Loader)


load = safe_load


def safe_dump(data: Any, stream: IO[Any] | None = None, **kwargs: Any) -> Any:
    """A value as YAML, letters as they are; into a file when one is given."""
    kwargs.setdefault("allow_unicode", True)
    kwargs.setdefault("default_flow_style", None)
    return _yaml.dump(data, stream, Dumper=SafeOrderedDumper, **kwargs)


def dump(data: Any, stream: IO[Any] | None = None, **kwargs: Any) -> Any:
    """As L{safe_dump}; another C{Dumper} may be given."""
    kwargs.setdefault("allow_unicode", True)
    kwargs.setdefault("default_flow_style", None)
    kwargs.setdefault("Dumper", OrderedDumper)
    return _yaml.dump(data, stream, **kwargs)


def get_dumper(dumper_name: str) -> Any:
    """A dumper by its name."""
    return {
        "OrderedDumper": OrderedDumper,
        "SafeOrderedDumper": SafeOrderedDumper,
        "IndentedSafeOrderedDumper": IndentedSafeOrderedDumper,
    }.get(dumper_name)
