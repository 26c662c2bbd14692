"""
The contents of a request, by its C{Content-Type}: JSON, YAML, a form, msgpack, or JSON as plain
text.

The length of a body is limited before it gets here, but its value may be much larger: a YAML whose
anchors repeat one another, a form with very many fields. Those are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from attrs import frozen

from saltwisted.domain.api.problems import Problem
from saltwisted.domain.arguments import yamlify
from saltwisted.domain.render.yaml import YAMLError, safe_load
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import unpack
from saltwisted.wire.text import HALVES, json_has_halves

FIELDS = 1000
"""Fields of a form."""
WORDS = 16_384
"""Characters of a form's arguments that are read as YAML."""
VALUES = 200_000
"""Values in a body, each counted as often as it is reached."""
KEYS = 1000
"""
Keys of one map that are no text. Python finds numbers slowly that were chosen for it, and the map
is made anew wherever it is sent.
"""
DEPTH = 100
"""Levels of a body."""
AT_ONCE = 16_384
"""Bytes of a body that are read at once: a millisecond, if it is full of brackets."""
YAML_AT_ONCE = 2048
"""The same of YAML, and of a form's arguments; they take a hundred times as long as JSON does."""
MSGPACK_AT_ONCE = 4096
"""The same of msgpack, which may be full of containers, and of keys that collide."""
LOWSTATES = 1000
"""Chunks of low state in a request."""
FORM = "application/x-www-form-urlencoded"


@frozen
class Body:
    """
    @ivar value: its value; C{None} if there is none.
    @ivar raw: its text.
    """

    value: Any = None
    raw: str = ""


def media_type(header: str | None) -> str:
    """The type without its parameters; C{""} if nothing says it."""
    return (header or "").partition(";")[0].strip().lower()


def read(content_type: str | None, content: bytes) -> Body:
    """
    The body of a request.

    @raises Problem: C{400} it is not what it claims to be; C{406} nothing can read its type, or it
        has none.
    """
    if not content:
        return Body()
    reader = _READERS.get(media_type(content_type))
    if reader is None:
        raise Problem(406, "Content type not supported")
    value, raw = reader(content)
    measure(value)
    return Body(value, raw)


def is_long(content_type: str | None, content: bytes) -> bool:
    """Whether a body must be read where it delays nobody."""
    reader = _READERS.get(media_type(content_type))
    if reader is None:
        return False
    return len(content) > _AT_ONCE.get(reader, AT_ONCE)


def yaml_text(value: Any) -> bytes:
    """As Salt shows YAML."""
    import yaml

    text = yaml.dump(value, Dumper=_dumper(), default_flow_style=False, allow_unicode=True)
    return text.encode("utf-8", "replace")


@cache
def _dumper() -> Any:
    """A map that is of a kind of its own is a map."""
    import yaml

    dumper = type("Dumper", (yaml.CSafeDumper,), {})
    dumper.add_multi_representer(dict, dumper.represent_dict)  # type: ignore[attr-defined]
    return dumper


def measure(value: Any) -> None:
    """
    Refuse a value that is too large to be walked through.

    @raises Problem: too deep, or too many values.
    """
    left = VALUES
    level = [value]
    for _ in range(DEPTH):
        below: list[Any] = []
        for each in level:
            if isinstance(each, Mapping):
                if len(each) > KEYS and sum(type(key) is not str for key in each) > KEYS:
                    raise Problem(400, f"A map may have {KEYS} keys that are no text")
                below.extend(each.values())
            elif isinstance(each, (list, tuple, set)):
                below.extend(each)
            if len(below) > left:
                raise Problem(400, "The document has too many values")
        if not below:
            return
        left -= len(below)
        level = below
    raise Problem(400, "The document is nested too deeply")


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, "The body is not UTF-8") from None


def _json(content: bytes) -> tuple[Any, str]:
    text = _text(content)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Problem(400, "Invalid JSON document") from None
    return _whole(value, text), text


def _whole(value: Any, source: str) -> Any:
    """
    The value itself.

    @raises Problem: its JSON writes halves of characters, which nobody could pass on (T-TEXT-1).
    """
    if json_has_halves(source, value):
        raise Problem(400, f"The body has {HALVES}")
    return value


def _yaml(content: bytes) -> tuple[Any, str]:
    text = _text(content)
    try:
        return safe_load(text), text
    except YAMLError:
        raise Problem(400, "Invalid YAML document") from None


def _plain(content: bytes) -> tuple[Any, str]:
    """JSON that does not say so, as browsers send it; anything else is text."""
    text = _text(content)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text, text
    return _whole(value, text), text


def _msgpack(content: bytes) -> tuple[Any, str]:
    try:
        return unpack(content), ""
    except WireError:
        raise Problem(400, "Invalid msgpack document") from None


def _form(content: bytes) -> tuple[Any, str]:
    """A form; C{arg} and C{kwarg} are read as the command line reads them."""
    text = _text(content)
    try:
        pairs = parse_qsl(text, max_num_fields=FIELDS)
    except ValueError:
        raise Problem(400, f"A form may have {FIELDS} fields") from None
    found: dict[str, Any] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    found = {key: values[0] if len(values) == 1 else values for key, values in found.items()}
    if sum(len(value) for key, value in pairs if key in ("arg", "kwarg")) > WORDS:
        raise Problem(400, f"Arguments in a form may have {WORDS} characters; send JSON")
    if "kwarg" in found:
        kwarg = found["kwarg"]
        found["kwarg"] = yamlify(kwarg) if isinstance(kwarg, str) else kwarg
    if "arg" in found:
        arg = found["arg"]
        found["arg"] = [yamlify(each) for each in (arg if isinstance(arg, list) else [arg])]
    return found, text


_READERS: Mapping[str, Callable[[bytes], tuple[Any, str]]] = {
    FORM: _form,
    "application/json": _json,
    "application/x-yaml": _yaml,
    "text/yaml": _yaml,
    "text/plain": _plain,
    "application/x-msgpack": _msgpack,
    "application/msgpack": _msgpack,
}


_AT_ONCE: Mapping[Any, int] = {
    _yaml: YAML_AT_ONCE,
    _form: YAML_AT_ONCE,
    _msgpack: MSGPACK_AT_ONCE,
}


def low_state(value: Any) -> list[dict[str, Any]]:
    """
    A body as chunks of low state; one mapping is a list of one.

    @raises Problem: it is neither.
    """
    chunks = [value] if isinstance(value, Mapping) and value else value
    if not isinstance(chunks, list):
        raise Problem(400, "Lowstates must be a list")
    if len(chunks) > LOWSTATES:
        raise Problem(400, f"A request may have {LOWSTATES} lowstates")
    found = []
    for chunk in chunks:
        if not isinstance(chunk, Mapping) or not all(isinstance(key, str) for key in chunk):
            raise Problem(400, "Each lowstate must be a map with text for keys")
        found.append(dict(chunk))
    return found
