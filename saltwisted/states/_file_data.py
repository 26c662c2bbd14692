"""
Data written to files and read back, in the formats of C{file.serialize}.

Each behaves as stock's serializer of its name, which differ in details: YAML loses its last
newline, JSON comes indented by the state's options.
"""

from __future__ import annotations

import configparser
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from saltwisted.domain.yamltext import load_yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class DataError(Exception):
    """What was read is not of the format."""


class _Dumper(_Base):
    """Subclasses of the plain types are written as those."""


_Dumper.add_multi_representer(dict, lambda dumper, data: dumper.represent_dict(data.items()))
_Dumper.add_multi_representer(list, lambda dumper, data: dumper.represent_list(data))
_Dumper.add_multi_representer(tuple, lambda dumper, data: dumper.represent_list(data))
_Dumper.add_multi_representer(str, lambda dumper, data: dumper.represent_str(str(data)))


def _to_yaml(data: Any, **options: Any) -> str:
    options.setdefault("default_flow_style", None)
    text = str(yaml.dump(data, Dumper=_Dumper, **options))
    if text.endswith("\n...\n"):
        return text[: -len("\n...\n")]
    return text.removesuffix("\n")


def _from_yaml(data: bytes, **options: Any) -> Any:
    try:
        return load_yaml(data, _Loader, **options)
    except yaml.YAMLError as error:
        raise DataError(error) from error


def _to_json(data: Any, **options: Any) -> str:
    options.setdefault("ensure_ascii", False)
    return json.dumps(data, **options)


def _from_json(data: bytes, **options: Any) -> Any:
    try:
        return json.loads(data, **options)
    except ValueError as error:
        raise DataError(error) from error


def _to_ini(data: Any, **options: Any) -> str:
    parser = configparser.ConfigParser(**options)
    for section, keys in data.items():
        name = str(section)
        if name != configparser.DEFAULTSECT:
            parser.add_section(name)
        for key, value in keys.items():
            text = value if value is None else str(value)
            parser.set(name, parser.optionxform(str(key)), text)
    stream = io.StringIO()
    parser.write(stream)
    return stream.getvalue()


def _from_ini(data: bytes, **options: Any) -> Any:
    parser = configparser.ConfigParser(**options)
    try:
        parser.read_string(data.decode("utf-8"))
        return {name: dict(parser.items(name)) for name in parser.sections()}
    except (configparser.Error, UnicodeDecodeError) as error:
        raise DataError(error) from error


def _to_msgpack(data: Any, **options: Any) -> bytes:
    import msgpack

    packed: bytes = msgpack.packb(data, **options)
    return packed


def _from_msgpack(data: bytes, **options: Any) -> Any:
    import msgpack

    options.setdefault("strict_map_key", False)
    try:
        return msgpack.unpackb(data, **options)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise DataError(error) from error


OWN: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "yaml": (_to_yaml, _from_yaml),
    "json": (_to_json, _from_json),
    "configparser": (_to_ini, _from_ini),
    "msgpack": (_to_msgpack, _from_msgpack),
}
"""Format to its writer and its reader."""


def writer(name: str, others: Mapping[str, Any]) -> Callable[..., Any] | None:
    """How to write a format: ours, else the serializer modules'."""
    if name in OWN:
        return OWN[name][0]
    return others.get(f"{name}.serialize")


def reader(name: str, others: Mapping[str, Any]) -> Callable[..., Any] | None:
    """How to read a format, or C{None}. It takes bytes and raises L{DataError}."""
    if name in OWN:
        return OWN[name][1]
    return others.get(f"{name}.deserialize")
