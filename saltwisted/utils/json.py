"""JSON for custom modules, with the names of C{salt.utils.json}."""

from __future__ import annotations

import json as _json
from typing import IO, Any


def import_json() -> Any:
    """The module that reads and writes JSON."""
    return _json


def loads(s: Any, **kwargs: Any) -> Any:
    """
    The value of a JSON text, or of its bytes in UTF-8.

    @param kwargs: those of C{json.loads}, and C{_json_module} in its place.
    @raises ValueError: it is none.
    """
    module = kwargs.pop("_json_module", _json)
    kwargs.pop("encoding", None)
    if isinstance(s, bytes | bytearray):
        s = s.decode()
    return module.loads(s, **kwargs)


def load(fp: IO[Any], **kwargs: Any) -> Any:
    """The value in an open file."""
    return kwargs.pop("_json_module", _json).load(fp, **kwargs)


def dumps(obj: Any, **kwargs: Any) -> str:
    """A value as JSON; other than of C{json} itself, letters outside of ASCII stay as they are."""
    module = kwargs.pop("_json_module", _json)
    kwargs.setdefault("ensure_ascii", False)
    return str(module.dumps(obj, **kwargs))


def dump(obj: Any, fp: IO[Any], **kwargs: Any) -> None:
    """Write a value into an open file."""
    module = kwargs.pop("_json_module", _json)
    kwargs.setdefault("ensure_ascii", False)
    module.dump(obj, fp, **kwargs)


def find_json(s: str) -> Any:
    """
    The first JSON map or list in a text, whatever stands around it.

    @raises ValueError: there is none.
    """
    decoder = _json.JSONDecoder()
    for start, sign in enumerate(s):
        if sign in "{[":
            try:
                return decoder.raw_decode(s, start)[0]
            except ValueError:
                continue
    raise ValueError
