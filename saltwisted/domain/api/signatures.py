"""
Signatures of web hooks: an HMAC of the body, as GitHub, Gitea and others send it, or the secret
itself, as GitLab does.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol

from attrs import field, frozen

from saltwisted.errors import ConfigError

HEADER = "X-Hub-Signature-256"
ALGORITHMS = ("sha256", "sha384", "sha512")
OPTION = "webhook_signatures"
GIT = "git"
"""The path of hooks that have remotes fetched."""
GITEA, GITLAB = "x-gitea-signature", "x-gitlab-token"
SHORTEST = 8
_WORDS = frozenset(("secret", "header", "algorithm"))


class Rule(Protocol):
    """What the requests to some paths must contain."""

    @property
    def pattern(self) -> str:
        """Of the path below the hook's own, with C{*} and C{?}."""
        ...

    def verify(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether a request has it."""
        ...


@frozen(kw_only=True)
class Signed:
    """
    What the requests to some paths must contain.

    @ivar pattern: a pattern of the path below the hook's own, with C{*} and C{?}.
    @ivar header: in lower case.
    """

    pattern: str
    secret: bytes = field(repr=False)
    header: str = HEADER.lower()
    algorithm: str = "sha256"

    def verify(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether the body is signed with the secret; takes as long whatever is wrong."""
        given = headers.get(self.header, "")
        _, equals, rest = given.partition("=")
        shown = (rest if equals else given).strip().lower()
        right = hmac.new(self.secret, body, getattr(hashlib, self.algorithm)).hexdigest()
        return hmac.compare_digest(right.encode(), shown.encode("utf-8", "replace"))


@frozen
class SignedByGitServer:
    """What requests to C{/hook/git} must contain: the proof of any of the known git servers."""

    secret: bytes = field(repr=False)
    pattern: str = GIT

    def verify(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether one of them shows that it knows the secret; takes as long whatever is wrong."""
        signed = [
            Signed(pattern=GIT, secret=self.secret, header=header).verify(headers, body)
            for header in (HEADER.lower(), GITEA)
        ]
        token = headers.get(GITLAB, "").encode("utf-8", "replace")
        return any([*signed, hmac.compare_digest(self.secret, token)])


def git_rule_of(secret: Any) -> tuple[SignedByGitServer, ...]:
    """
    The rule of C{gitfs_webhook_secret}, if there is one.

    @raises ConfigError: it is not a valid secret.
    """
    if not secret:
        return ()
    if not isinstance(secret, str) or len(secret) < SHORTEST:
        raise ConfigError("gitfs_webhook_secret: eight or more characters are needed")
    return (SignedByGitServer(secret.encode()),)


def signatures_of(option: Any) -> tuple[Signed, ...]:
    """
    The rules of C{webhook_signatures}: path to a secret, or to a map that has one.

    @raises ConfigError: one cannot be read. A hook would be open that ought to be closed.
    """
    if option is None:
        return ()
    if not isinstance(option, Mapping):
        raise ConfigError(f"{OPTION}: a map of paths is needed")
    return tuple(_signed(str(path), rule) for path, rule in option.items())


def _signed(path: str, rule: Any) -> Signed:
    given = rule if isinstance(rule, Mapping) else {"secret": rule}
    unknown = sorted(str(word) for word in given if word not in _WORDS)
    if unknown:
        raise ConfigError(f"{OPTION}: {path}: there is no {unknown[0]}")
    secret = given.get("secret")
    if not isinstance(secret, str) or len(secret) < SHORTEST:
        raise ConfigError(f"{OPTION}: {path}: a secret of eight or more characters is needed")
    header = given.get("header", HEADER)
    algorithm = given.get("algorithm", "sha256")
    if not isinstance(header, str) or not header:
        raise ConfigError(f"{OPTION}: {path}: header is the name of one")
    if algorithm not in ALGORITHMS:
        raise ConfigError(f"{OPTION}: {path}: algorithm is one of {', '.join(ALGORITHMS)}")
    return Signed(
        pattern=path.strip("/"),
        secret=secret.encode(),
        header=header.lower(),
        algorithm=algorithm,
    )


def rules_for(signatures: Sequence[Rule], path: str) -> list[Rule]:
    """Those that a path has to keep, in any case: each of them."""
    return [each for each in signatures if fnmatchcase(path, each.pattern)]
