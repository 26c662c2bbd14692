"""
What C{external_auth} may say: which backends there are, and what in the option cannot work.

What a login grants is in L{saltwisted.domain.eauth}.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

BACKENDS = ("auto", "file", "pam", "sharedsecret")
"""What is here."""
ABSENT = ("ldap", "rest", "django", "keystone", "mysql", "pki", "yubico")
"""What Salt has, or had, and is not here."""

FILE_DEFAULTS: Mapping[str, Any] = {
    "filename": "",
    "filetype": "text",
    "hashtype": "plaintext",
    "field_separator": ":",
    "username_field": 1,
    "password_field": 2,
    "realm": "",
}
"""Parameters of the backend C{file}, written with a C{^} before them."""


def file_settings(config: Any) -> dict[str, Any]:
    """The parameters of the backend C{file}, with Salt's defaults."""
    given = config if isinstance(config, Mapping) else {}
    return {name: given.get("^" + name, value) for name, value in FILE_DEFAULTS.items()}


def why_not(eauth: str) -> str:
    """Why a backend cannot be used, in a sentence; C{""} for one that can."""
    if eauth in BACKENDS:
        return ""
    have = f"Available eauth types: {', '.join(BACKENDS)}"
    if eauth in ABSENT:
        return f"external authentication by {eauth} is not available here. {have}"
    near = _nearest(eauth, BACKENDS + ABSENT)
    hint = f"did you mean {near!r}? " if near else ""
    return f"unknown external authentication system {eauth!r}: {hint}{have}"


def problems(external_auth: Mapping[str, Any]) -> list[str]:
    """What in the option cannot work, a sentence each, for the person who starts the master."""
    found = []
    for eauth, config in external_auth.items():
        where = f"external_auth: {eauth}"
        reason = why_not(str(eauth))
        if reason:
            found.append(f"{reason}; its logins are refused")
            continue
        if not isinstance(config, Mapping):
            found.append(f"{where}: users are needed, each with a list of rules, not {config!r}")
            continue
        if eauth == "file" and not config.get("^filename"):
            found.append(f"{where}: ^filename is needed, the file with users and passwords")
        for key, rules in config.items():
            if isinstance(key, str) and key.startswith("^"):
                if eauth == "file" and key[1:] not in FILE_DEFAULTS:
                    near = _nearest(key[1:], list(FILE_DEFAULTS))
                    hint = f", did you mean '^{near}'?" if near else ""
                    found.append(f"{where}: unknown parameter {key!r}{hint}")
                continue
            found += [f"{where}: {key}: {text}" for text in _rule_problems(rules)]
    return found


def _rule_problems(rules: Any) -> list[str]:
    if not isinstance(rules, (list, tuple)):
        return [f"a list of rules is needed, not {rules!r}; it is read as one rule"]
    found = []
    for rule in rules:
        if isinstance(rule, str):
            found += _pattern_problems(rule)
        elif isinstance(rule, Mapping) and len(rule) == 1:
            ((_, conditions),) = rule.items()
            for condition in _listed(conditions):
                if isinstance(condition, str):
                    found += _pattern_problems(condition)
                elif not isinstance(condition, Mapping) or len(condition) != 1:
                    found.append(
                        f"a function, or one function with 'args' and 'kwargs', is needed, not"
                        f" {condition!r}; it grants nothing"
                    )
        else:
            found.append(
                f"a function, or one target with a list of functions, is needed, not {rule!r};"
                " it grants nothing"
            )
    return found


def _pattern_problems(pattern: str) -> list[str]:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return [f"{pattern!r} is not a regular expression ({error}); it grants nothing"]
    return []


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _nearest(word: str, words: Sequence[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(word, words, 1, 0.6)
    return found[0] if found else ""
