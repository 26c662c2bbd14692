"""
Which parts of a configuration may be shown: everything but its secrets.

All code that shows options uses this module: functions that answer with them, messages of the
loader, the comparison of members, pillars. Secret options are marked where they are declared
(C{Secret[...]} in C{options.py}). Below an option, and in a site's own options, the name decides
(C{password}, C{mysql.pass}), and so does the form of a URL (C{https://user:password@host}).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.config.options import SECRETS

PLACEHOLDER = "**********"
WHOLE = frozenset(("webhook_signatures", "headers"))
"""Maps in which every text is secret: of hooks to what signs them, of headers to who sends them."""
NAMES = frozenset(("nodegroups", "file_roots", "pillar_roots", "thorium_roots", "master_roots"))
"""Maps whose keys are names that a site gives, and say nothing of what is behind them."""
_WORD = re.compile(
    r"(?:^|[._^-])(?:password|passwd|passphrase|pass|passwords|pw|bindpw|secret|token|authorization|"
    r"api[._-]?key|apikey|secret[._-]?key|secretkey|access[._-]?key|credential|credentials)$",
    re.IGNORECASE,
)
_WITH_PASSWORD = re.compile(r"(://[^/@:\s\"]*):([^/@\s\"]+)@")
_TOKEN_ALONE = re.compile(r"(https?://)([^/@:\s\"]{20,})@")
"""A user of that length is what hosters of git make for machines."""
Put = Callable[[str], str]
"""What stands in place of a secret text."""


def stars(text: str) -> str:
    """What is shown of any secret, as of values of a pillar."""
    return PLACEHOLDER


def digest(text: str) -> str:
    """What tells two secrets apart, and tells neither."""
    # The command line loads this file, and needs no digest
    from hashlib import sha256

    return f"sha256 {sha256(text.encode()).hexdigest()[:12]}"


def shown(opts: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the Salt-shaped options without secrets; what was not set stays as it is."""
    return {name: shown_value(name, value) for name, value in opts.items()}


def shown_value(name: str, value: Any, put: Put = stars) -> Any:
    """
    A copy of the value of an option without secrets.

    @param name: of the option, or of what stands within one.
    """
    if name in SECRETS or name in WHOLE:
        return _hidden(value, put)
    if isinstance(value, Mapping):
        inner = name not in NAMES
        return {
            shown_text(key, put) if isinstance(key, str) else key: (
                shown_value(str(key), item, put) if inner else shown_value("", item, put)
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [shown_value("", item, put) for item in value]
    if _WORD.search(name):
        return _hidden(value, put)
    return shown_text(value, put) if isinstance(value, str) else value


def shown_text(text: str, put: Put = stars) -> str:
    """A text without the passwords of addresses in it."""
    if "://" not in text:
        return text
    # In parentheses, which an address has not: so it is not taken for one that is meant
    text = _WITH_PASSWORD.sub(lambda match: f"{match[1]}:({put(match[2])})@", text)
    return _TOKEN_ALONE.sub(lambda match: f"{match[1]}({put(match[2])})@", text)


def compared(name: str, value: Any) -> str:
    """The value of an option as a text that is equal where it is, with digests for secrets."""
    import json

    if name in SECRETS:
        return digest(str(value))
    return json.dumps(shown_value(name, value, digest), sort_keys=True, default=str)


def without_own(opts: Mapping[str, Any]) -> dict[str, Any]:
    """
    Options as minions may have them (C{pillar_opts}): without the master's own secrets. What a
    site has put there for its modules (C{mysql.pass}) is what they are sent for.
    """
    return {
        name: _hidden(value, stars) if name in SECRETS else value for name, value in opts.items()
    }


def _hidden(value: Any, put: Put) -> Any:
    """Every text and number replaced; shapes, truth values and what is empty stay."""
    if isinstance(value, Mapping):
        return {key: _hidden(item, put) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hidden(item, put) for item in value]
    return value if value is None or isinstance(value, bool) or value == "" else put(str(value))
