"""
External authentication: the backends, what a login grants, and tokens.

These are pure rules for the option C{external_auth}, in Salt's words. A worker process checks
passwords (L{saltwisted.worker.process.authwork}); L{saltwisted.master.logins} limits when and how
often somebody may try. L{saltwisted.domain.acl} says what rules allow, in the same way for local
users and for logins.

A token is known only by its digest: somebody who reads the store of a master, or a link between
masters, learns nothing that can be used to log in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from typing import Any

from attrs import field, frozen

from saltwisted.domain.who import Who
from saltwisted.interfaces import Entropy
from saltwisted.wire.text import is_text

NAME_LENGTH = 256
PASSWORD_LENGTH = 4096
BEARER_LENGTH = 16384
"""Of the token that C{oidc} takes for a password; it may have many groups in it."""
MAX_RULES = 4096
"""Rules that a backend may grant."""
LONGEST = 100 * 365 * 86400.0
"""Seconds that a token may live at most."""
_TOKEN = re.compile(r"[0-9a-f]{32,128}")


@frozen(kw_only=True)
class Token:
    """
    What is stored of a token; never the token itself.

    @ivar name: the user.
    @ivar start: when it was made, in seconds since 1970.
    @ivar expire: when it expires.
    @ivar groups: the user's groups when it was made.
    @ivar rules: what it grants, if C{keep_acl_in_token} is set; else C{None}.
    @ivar epoch: the epoch of the cluster: the removal of a node makes all earlier tokens invalid.
    """

    name: str
    eauth: str
    start: float
    expire: float
    groups: tuple[str, ...] = ()
    rules: Sequence[Any] | None = None
    epoch: int = 0

    @property
    def who(self) -> Who:
        """Its user, to be compared with others."""
        return Who(self.name, self.eauth)

    def alive(self, now: float) -> bool:
        """Whether it is good: before its end, never at it (T-TOK-1)."""
        return now < self.expire

    def plain(self) -> dict[str, Any]:
        """All of it but the epoch as plain data, for a disk or the wire."""
        return {
            "name": self.name,
            "eauth": self.eauth,
            "start": self.start,
            "expire": self.expire,
            "groups": list(self.groups),
            "rules": None if self.rules is None else list(self.rules),
        }

    def shown(self) -> dict[str, Any]:
        """The map that Salt's clients get for it."""
        found: dict[str, Any] = {
            "start": self.start,
            "expire": self.expire,
            "name": self.name,
            "eauth": self.eauth,
        }
        if self.rules is not None:
            found["auth_list"] = list(self.rules)
        if self.groups:
            found["groups"] = list(self.groups)
        return found


@frozen(kw_only=True)
class Credentials:
    """
    A user name and a password for one backend, of a form that can be checked at all.

    @ivar code: what a browser has brought from a provider, instead of both.
    """

    eauth: str
    username: str
    password: str = field(repr=False)
    code: Mapping[str, Any] | None = field(default=None, repr=False)


@frozen(kw_only=True)
class Proof:
    """
    The answer of a login backend to a name and a password.

    @ivar ok: whether it is that user.
    @ivar groups: the user's groups, for the rules of groups.
    @ivar closed: whether the account may not be used although the password is right: its tokens end
        too.
    @ivar problem: for the master's log, if nobody could have been let in. It never contains a
        secret.
    @ivar name: the user's name as the backend spells it, if it may differ by case from what was
        typed; C{""} if it is what was typed.
    @ivar rules: what the backend grants, in addition to the rules of the options.
    @ivar until: when the proof expires, in seconds since 1970; 0: never.
    @ivar steps: the queries and their results, for display. It never contains a secret.
    @ivar keep: what the next call gets as the setting C{kept}, such as keys that were fetched;
        empty if the previous value stays valid.
    """

    ok: bool = False
    groups: Sequence[str] = ()
    closed: bool = False
    problem: str = ""
    name: str = ""
    rules: Sequence[Any] = ()
    until: float = 0.0
    steps: Sequence[str] = ()
    keep: Mapping[str, Any] = {}

    def plain(self) -> dict[str, Any]:
        """As it goes from one process to another."""
        return {
            "ok": self.ok,
            "groups": list(self.groups),
            "closed": self.closed,
            "problem": self.problem,
            "name": self.name,
            "rules": list(self.rules),
            "until": self.until,
            "steps": list(self.steps),
            "keep": dict(self.keep),
        }


def new_token(entropy: Entropy, hash_type: str) -> str:
    """A token as Salt makes it: the digest of 512 random bytes."""
    name = hash_type if hash_type in hashlib.algorithms_guaranteed else "sha256"
    if name.startswith("shake"):
        name = "sha256"
    return hashlib.new(name, entropy(512)).hexdigest()


def token_digest(token: Any) -> str:
    """What stands for a token in stores and between nodes; C{""} if it is not a token."""
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        return ""
    return hashlib.sha256(b"saltwisted eauth token " + token.encode()).hexdigest()


def credentials(given: Mapping[str, Any]) -> Credentials | None:
    """
    What a request says about its sender; C{None} if no backend could check it.

    Only these three fields are read, whoever asks by whichever door: any other, such as a PAM
    service, reaches no backend (T-EAUTH-1).

    A NUL would end a text in the system's libraries, and so another text would be checked.
    """
    eauth, username, password = (given.get(name) for name in ("eauth", "username", "password"))
    if not isinstance(eauth, str) or not isinstance(username, str):
        return None
    if isinstance(password, (int, float)) and not isinstance(password, bool):
        # salt-run auth.mk_token reads password=1234 as a number
        password = str(password)
    if not isinstance(password, str):
        return None
    longest = BEARER_LENGTH if eauth == "oidc" else PASSWORD_LENGTH
    if not 0 < len(username) <= NAME_LENGTH or len(password) > longest:
        return None
    if any(ord(letter) < 32 for letter in username) or "\0" in password:
        return None
    if not is_text(username) or not is_text(password):
        # It could be neither asked about nor written down
        return None
    return Credentials(eauth=eauth, username=username, password=password)


def rules_of(
    external_auth: Mapping[str, Any] | None,
    eauth: str,
    name: str,
    groups: Collection[str],
    permissive: bool = False,
    given: Sequence[Any] = (),
) -> list[Any]:
    """
    What a user of a backend may: the rules of all L{reasons}.
    """
    found: list[Any] = []
    for _, rules in reasons(external_auth, eauth, name, groups, permissive, given):
        found += rules
    return found


def reasons(
    external_auth: Mapping[str, Any] | None,
    eauth: str,
    name: str,
    groups: Collection[str],
    permissive: bool = False,
    given: Sequence[Any] = (),
) -> list[tuple[str, list[Any]]]:
    """
    Why a user of a backend has which rights: what the configuration grants to the user and the
    user's groups (C{name%}), and what the backend itself grants. Rules of C{*} count if no rule
    names the user, or always with C{permissive_acl}.

    @param given: what the backend grants.
    @return: the words under which C{external_auth} has it, and the rules.
    """
    config = (external_auth or {}).get(eauth)
    if not isinstance(config, Mapping):
        return []
    found: list[tuple[str, list[Any]]] = []
    named = bool(given)
    for key, rules in config.items():
        if not isinstance(key, str) or key.startswith("^"):
            continue
        if key.endswith("%"):
            if key.rstrip("%") in groups:
                found.append((key, _listed(rules)))
        elif key != "*" and key == name:
            named = True
            found.append((key, _listed(rules)))
    if given:
        found.append((f"the answer of {eauth}", list(given)))
    if "*" in config and (permissive or not named):
        found.append(("*", _listed(config["*"])))
    return found


def shown_rules(
    external_auth: Mapping[str, Any] | None, eauth: str, name: str, groups: Collection[str]
) -> list[Any]:
    """
    A user's rules as the HTTP API shows them after a login: those of C{*} among them, each once,
    sorted. What a user may is decided by L{rules_of}, not by this.
    """
    words: set[str] = set()
    others: list[Any] = []
    for rule in rules_of(external_auth, eauth, name, groups, True):
        if isinstance(rule, str):
            words.add(rule)
        elif rule not in others:
            others.append(rule)
    return [*sorted(words), *sorted(others, key=repr)]


def lifetime(
    asked: Any, usual: float, override: bool | Mapping[str, Any], eauth: str, username: str
) -> float | None:
    """
    Seconds that a new token lives.

    @param asked: what the user wants, if anything; counts if C{token_expire_user_override} allows
        it.
    @return: C{None} if the user may choose, and the choice is not a valid time.
    """
    if asked is None:
        return usual
    if isinstance(override, Mapping):
        names = override.get(eauth)
        may = isinstance(names, (list, tuple)) and username in names
    else:
        may = override is True
    if not may:
        return usual
    if isinstance(asked, bool) or not isinstance(asked, (int, float)):
        return None
    return float(asked) if isfinite(asked) and 0 < asked <= LONGEST else None


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
