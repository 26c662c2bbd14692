"""C{salt.utils.locales}: names of locales, and their parts."""

from __future__ import annotations

import sys

_SIGNS = (("charmap", " "), ("modifier", "@"), ("codeset", "."))


def get_encodings() -> list[str]:
    """Encodings to try, in order."""
    found = [sys.getfilesystemencoding(), sys.getdefaultencoding(), "utf-8", "latin-1"]
    return list(dict.fromkeys(found))


def split_locale(loc: str) -> dict[str, str]:
    """C{language_territory.codeset@modifier charmap} in its parts; empty where there is none."""
    parts: dict[str, str] = {}
    rest = loc
    for name, sign in _SIGNS:
        rest, _, parts[name] = rest.partition(sign)
    parts["language"], _, parts["territory"] = rest.partition("_")
    return parts


def join_locale(comps: dict[str, str]) -> str:
    """The other direction."""
    found = comps["language"]
    signs = (("territory", "_"), *reversed(_SIGNS))
    for name, sign in signs:
        if comps.get(name):
            found += sign + comps[name]
    return found


def normalize_locale(loc: str) -> str:
    """As C{locale -a} writes it."""
    parts = split_locale(loc)
    parts["territory"] = parts["territory"].upper()
    parts["codeset"] = parts["codeset"].lower().replace("-", "")
    return join_locale({**parts, "charmap": ""})
