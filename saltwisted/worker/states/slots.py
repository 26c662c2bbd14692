"""
Slots: arguments C{__slot__:salt:fun(args)} that are computed when the state is called.
"""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.domain.arguments import SLOT, parse_call
from saltwisted.domain.render.tree import traverse

log = logging.getLogger(__name__)


def fill_slots(functions: Any, args: list[Any], keywords: dict[str, Any]) -> None:
    """Replace slots in arguments: texts, and texts in maps and lists one level down."""
    for index, value in enumerate(args):
        filled = _filled(functions, value)
        if filled is not value:
            args[index] = filled
    for key, value in keywords.items():
        keywords[key] = _filled(functions, value)


def _filled(functions: Any, value: Any) -> Any:
    if isinstance(value, str):
        return _value(functions, value) if value.startswith(SLOT) else value
    if isinstance(value, dict):
        _fill_map(functions, value)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict):
                _fill_map(functions, item)
            elif isinstance(item, str) and item.startswith(SLOT):
                value[index] = _value(functions, item)
    return value


def _fill_map(functions: Any, value: dict[Any, Any]) -> None:
    for key, item in value.items():
        if isinstance(item, str) and item.startswith(SLOT):
            value[key] = _value(functions, item)


def _unquoted(text: str) -> str:
    """The text without the quotes around it, if there are any."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


def _value(functions: Any, slot: str) -> Any:
    """What a slot means; a malformed one stays as it is."""
    parts = slot.split(":", 2)
    if len(parts) != 3 or parts[1] != "salt":
        log.warning("Malformed slot: %s", slot)
        return slot
    name, args, keywords = parse_call(parts[2])
    if not name or name not in functions:
        log.warning(
            "Malformed slot: %s. Execution module should be specified in a function call "
            "format: test.arg('arg', kw='kwarg')",
            slot,
        )
        return slot
    value = functions[name](*args, **keywords)
    text, tilde, appended = parts[2].partition("~")
    path = text[text.rindex(")") + 1 :] if ")" in text else ""
    if "." in path:
        value = traverse(value, path.split(".", 1)[1].strip(), None, ".")
    if tilde:
        if isinstance(value, str):
            value += _unquoted(appended.strip())
        else:
            log.error("Ignoring slot append, slot result is not a string")
    return value
