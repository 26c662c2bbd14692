"""
Data written as text and read back: what C{slsutil.serialize} and C{file.serialize} stand on.

Each format behaves as stock's serializer of its name, which differ in details: YAML loses its last
newline and sorts the keys of every map, yamlex keeps the order of ordered maps, JSON is not
escaped. C{toml} is read in any case, and written if its library is there.
"""

from __future__ import annotations

import configparser
import datetime
import importlib.util
import io
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from saltwisted.domain.yamltext import load_yaml
from saltwisted.worker.exceptions import SaltException, SaltRenderError

log = logging.getLogger(__name__)

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_SCANNER_WORDS = {"found character '\\t' that cannot start any token": "Illegal tab character"}


class SerializationError(SaltException, RuntimeError):
    """The data cannot be written in this format."""


class DeserializationError(SaltRenderError, RuntimeError):
    """The text is not of this format."""


class _Encrypted(str):
    """A text that was marked C{!encrypted}; it is written with that mark again."""


class _Loader(_BaseLoader):
    """Safe YAML, and C{!encrypted}."""


class _Dumper(_BaseDumper):
    """Subclasses of the plain types are written as those."""


def _encrypted(loader: Any, tag: str, node: Any) -> _Encrypted:
    return _Encrypted(loader.construct_scalar(node))


_Loader.add_multi_constructor("!encrypted", _encrypted)
_Dumper.add_multi_representer(
    _Encrypted, lambda dumper, data: dumper.represent_scalar("!encrypted", str(data))
)
# In this order: of several classes that a value is of, its nearest one is taken.
for _kind, _write in (
    (str, lambda dumper, data: dumper.represent_str(str(data))),
    (bool, _BaseDumper.represent_bool),
    (int, _BaseDumper.represent_int),
    (float, _BaseDumper.represent_float),
    (list, _BaseDumper.represent_list),
    (tuple, _BaseDumper.represent_list),
    (dict, _BaseDumper.represent_dict),
    (set, _BaseDumper.represent_set),
    (datetime.date, _BaseDumper.represent_date),
    (datetime.datetime, _BaseDumper.represent_datetime),
):
    _Dumper.add_multi_representer(_kind, _write)


def _dumped(data: Any, **options: Any) -> str:
    options.setdefault("default_flow_style", None)
    try:
        text = str(yaml.dump(data, **options))
    except Exception as error:
        raise SerializationError(error) from error
    if text.endswith("\n...\n"):
        return text[: -len("\n...\n")]
    return text.removesuffix("\n")


def _loaded(text: Any, loader: Any, **options: Any) -> Any:
    chosen = options.pop("Loader", loader)
    for name in options:
        raise DeserializationError(f"load() got an unexpected keyword argument {name!r}")
    if not isinstance(text, (str, bytes)) and not hasattr(text, "read"):
        raise DeserializationError("a string or stream input is required")
    try:
        return load_yaml(text, chosen)
    except yaml.scanner.ScannerError as error:
        words = _SCANNER_WORDS.get(str(error.problem), "Unknown yaml render error")
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise DeserializationError(words, line) from error
    except Exception as error:
        raise DeserializationError(error) from error


def _to_yaml(data: Any, **options: Any) -> str:
    options.setdefault("Dumper", _Dumper)
    return _dumped(data, **options)


def _from_yaml(text: Any, **options: Any) -> Any:
    return _loaded(text, _Loader, **options)


def _to_yamlex(data: Any, **options: Any) -> str:
    from saltwisted.domain.render.yamlex import YamlexDumper

    options.setdefault("Dumper", YamlexDumper)
    return _dumped(data, **options)


def _from_yamlex(text: Any, **options: Any) -> Any:
    from saltwisted.domain.render.yamlex import YamlexLoader

    return _loaded(text, YamlexLoader, **options)


def _as_text(source: Any) -> Any:
    """What may be a text, bytes or a stream, as a text."""
    found = source if isinstance(source, (str, bytes)) else source.read()
    return found.decode("utf-8") if isinstance(found, bytes) else found


def _to_json(data: Any, **options: Any) -> Any:
    options.setdefault("ensure_ascii", False)
    try:
        if "fp" in options:
            json.dump(data, **options)
            return None
        return json.dumps(data, **options)
    except Exception as error:
        raise SerializationError(error) from error


def _from_json(text: Any, **options: Any) -> Any:
    # As in stock, options matter where a stream is read, and are nothing to a text.
    given = options if hasattr(text, "read") else {}
    try:
        return json.loads(_as_text(text), **given)
    except Exception as error:
        raise DeserializationError(error) from error


def _to_ini(data: Any, **options: Any) -> str | None:
    try:
        if not isinstance(data, dict):
            raise TypeError(f"configparser can only serialize dictionaries, not {type(data)}")
        stream = options.pop("fp", None)
        parser = configparser.ConfigParser(**options)
        for section, keys in data.items():
            name = str(section)
            if name != configparser.DEFAULTSECT:
                parser.add_section(name)
            for key, value in keys.items():
                text = value if value is None else str(value)
                parser.set(name, parser.optionxform(str(key)), text)
        if stream:
            parser.write(stream)
            return None
        written = io.StringIO()
        parser.write(written)
        return written.getvalue()
    except Exception as error:
        raise SerializationError(error) from error


def _from_ini(text: Any, **options: Any) -> Any:
    parser = configparser.ConfigParser(**options)
    try:
        parser.read_file(io.StringIO(text) if isinstance(text, (str, bytes)) else text)  # type: ignore[arg-type]
        return {name: dict(parser.items(name)) for name in parser.sections()}
    except Exception as error:
        raise DeserializationError(error) from error


def _to_msgpack(data: Any, **options: Any) -> bytes:
    import msgpack

    try:
        packed: bytes = msgpack.packb(data, **options)
    except Exception as error:
        raise SerializationError(error) from error
    return packed


def _from_msgpack(data: Any, **options: Any) -> Any:
    import msgpack

    options = {"use_list": True, "raw": False, "strict_map_key": False, **options}
    try:
        return msgpack.unpackb(data, **options)
    except Exception as error:
        raise DeserializationError(error) from error


def _to_toml(data: Any, **options: Any) -> Any:
    import toml

    try:
        if "file_out" in options:
            return toml.dump(data, options.pop("file_out"), **options)
        return toml.dumps(data, **options)
    except Exception as error:
        raise SerializationError(error) from error


def _from_toml(text: Any, **options: Any) -> Any:
    """Read by the library C{toml} if it is there, as in Salt; else by Python's own reader."""
    given = options if hasattr(text, "read") else {}
    try:
        if importlib.util.find_spec("toml") is None:
            import tomllib

            return tomllib.loads(_as_text(text))
        import toml

        return toml.loads(_as_text(text), **given)
    except Exception as error:
        raise DeserializationError(error) from error


OWN: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "yaml": (_to_yaml, _from_yaml),
    "yamlex": (_to_yamlex, _from_yamlex),
    "json": (_to_json, _from_json),
    "configparser": (_to_ini, _from_ini),
    "msgpack": (_to_msgpack, _from_msgpack),
}
"""Format to its writer and its reader."""

_TOML = (_to_toml, _from_toml)


def pair(
    name: str, others: Mapping[str, Any]
) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
    """
    How to write and how to read a format: ours, else the serializer modules'.

    @param others: the functions of serializer modules (C{__serializers__}).
    """
    if name in OWN:
        return OWN[name]
    if name == "toml":
        if importlib.util.find_spec("toml") is not None:
            return _TOML
        return others.get("toml.serialize"), others.get("toml.deserialize", _from_toml)
    return others.get(f"{name}.serialize"), others.get(f"{name}.deserialize")
