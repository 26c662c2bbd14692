"""
Which parts of a configuration may be shown: everything but its secrets.

All code that shows options uses this module: functions that answer with them, messages of the
loader, the comparison of members, pillars. Secret options are marked where they are declared
(C{Secret[...]} in C{options.py}), and so are names below an option that say nothing of it
(C{SECRET_WITHIN} there). Below an option, and in a site's own options, the name decides
(C{password}, C{mysql.pass}), and so does the form of an address
(C{https://user:password@host?token=...}) or of a command (C{--password=...}).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.config.options import OF_SALT, SECRET_WITHIN, SECRETS, MasterConfig

PLACEHOLDER = "**********"
NAMES = frozenset(
    (
        "nodegroups", "file_roots", "pillar_roots", "thorium_roots", "master_roots", "schedule",
        "beacons", "mine_functions", "publisher_acl", "peer", "peer_run", "mine_get",
        "minion_events",
    )
)  # fmt: skip
"""Maps whose keys are names that a site gives, and say nothing of what is behind them."""
_WORDS = (
    r"(?:passwords?|passwd|passphrases?|passcode|pass|pw|pwd|bindpw|psk|secrets?|token|"
    r"authorization|webhook|credentials?|secret[._-]?id|connection[._-]?string|"
    r"(?:api|secret|access|account|shared|private|encryption|auth)[._-]?key)"
)
_WORD = re.compile(rf"(?:^|[._^-]){_WORDS}$|\.key$|^sk$", re.IGNORECASE)
"""Names of secrets: C{s3.key} is that of an account, and C{sk} the key of C{nacl.config}."""
_WITH_PASSWORD = re.compile(r"(://[^/@:\s\"]*):([^/\s\"]+)@")
_TOKEN_ALONE = re.compile(r"(https?://)([^/@:\s\"]{20,})@")
"""A user of that length is what hosters of git make for machines."""
_GIVEN = re.compile(
    rf"(?<![^\s?&;'\"])((?:[\w.-]*[._-])?{_WORDS}=|--(?:[\w-]*-)?{_WORDS}\s+)([^\s&;'\"]+)",
    re.IGNORECASE,
)
"""As in a command (C{--password x}), its environment (C{PASSWORD=x}), an address (C{?token=x})."""
_LOGIN = re.compile(r"(?<!\S)((?:-u|--user)[ =]?[^\s:]+):(\S+)")
"""As C{curl} takes it."""
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
    if name in SECRETS or name in SECRET_WITHIN or _WORD.search(name):
        return _hidden(value, put)
    if isinstance(value, Mapping):
        inner = name not in NAMES
        found: dict[Any, Any] = {}
        for key, item in value.items():
            told = shown_text(key, put) if isinstance(key, str) else key
            if key == "key" and "keyid" in value:
                found[told] = _hidden(item, put)  # as of an account of S3
            else:
                found[told] = shown_value(str(key) if inner else "", item, put)
        return found
    if isinstance(value, (list, tuple)):
        return [shown_value("", item, put) for item in value]
    return shown_text(value, put) if isinstance(value, str) else value


def shown_text(text: str, put: Put = stars) -> str:
    """A text without the passwords of addresses and commands in it."""
    if "://" in text:
        # In parentheses, which an address has not: so it is not taken for one that is meant
        text = _WITH_PASSWORD.sub(lambda match: f"{match[1]}:({put(match[2])})@", text)
        text = _TOKEN_ALONE.sub(lambda match: f"{match[1]}({put(match[2])})@", text)
    if "=" in text or "-" in text:
        text = _GIVEN.sub(lambda match: f"{match[1]}({put(match[2])})", text)
        text = _LOGIN.sub(lambda match: f"{match[1]}:({put(match[2])})", text)
    return text


def compared(name: str, value: Any) -> str:
    """The value of an option as a text that is equal where it is, with digests for secrets."""
    import json

    if name in SECRETS:
        return digest(str(value))
    return json.dumps(shown_value(name, value, digest), sort_keys=True, default=str)


def without_own(
    opts: Mapping[str, Any], known: dict[str, tuple[Any, Any]] | None = None
) -> dict[str, Any]:
    """
    A master's options as minions may have them (C{pillar_opts}): without secrets in those that this
    program knows, nor in what stands within these.

    What a site has put there besides for its modules (C{mysql.pass}) is what they are sent for.

    @param known: what an earlier call has found, for one that has most of the same values; it is
        brought up to date.
    """
    known = {} if known is None else known
    found = dict(opts)
    for name, value in opts.items():
        if name in MasterConfig.fields or name in OF_SALT or name in SECRETS:
            before = known.get(name)
            if before is None or before[0] is not value:
                before = known[name] = (value, shown_value(name, value))
            found[name] = before[1]
    return found


def _hidden(value: Any, put: Put) -> Any:
    """Every text and number replaced; shapes, truth values and what is empty stay."""
    if isinstance(value, Mapping):
        return {key: _hidden(item, put) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hidden(item, put) for item in value]
    return value if value is None or isinstance(value, bool) or value == "" else put(str(value))
