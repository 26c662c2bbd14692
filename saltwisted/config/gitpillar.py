"""
Git remotes of the external pillar C{git}: the meaning of an entry.

The names are Salt's. An entry is C{BRANCH URL}, or that as a key with parameters, whose global
forms are C{git_pillar_NAME}.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.config.git import AUTH, GitRemote, check_url, judge, repacked, shown, typed
from saltwisted.errors import ConfigError

OPTIONS = {
    "base": "git_pillar_base",
    "env": "git_pillar_env",
    "fallback": "git_pillar_fallback",
    "insecure_auth": "git_pillar_insecure_auth",
    "passphrase": "git_pillar_passphrase",
    "password": "git_pillar_password",
    "privkey": "git_pillar_privkey",
    "proxy": "git_pillar_proxy",
    "refspecs": "git_pillar_refspecs",
    "root": "git_pillar_root",
    "ssl_verify": "git_pillar_ssl_verify",
    "update_interval": "git_pillar_update_interval",
    "user": "git_pillar_user",
    "verify": "git_pillar_verify",
    "verify_allowed_signers": "git_pillar_verify_allowed_signers",
    "verify_keyring": "git_pillar_verify_keyring",
}
"""Parameters of a remote, and the options that are their defaults."""
PER_REMOTE = frozenset(
    {
        *OPTIONS.keys() - {"update_interval"},
        *AUTH,
        "all_saltenvs",
        "depth",
        "disable_saltenv_mapping",
        "mountpoint",
        "name",
        "ref_types",
    }
)
FETCHED = "__git_pillar_fetched"
"""The option by which a master says to its workers that it has the remotes fetched itself."""
LOOSE = frozenset(("root", "mountpoint", "env", "all_saltenvs", "name"))
"""What is judged where it is used."""


class PillarRemote(GitRemote):
    """
    One entry.

    @ivar branch: C{__env__} stands for the pillar environment.
    @ivar env: its environment, if the entry names one.
    """

    branch: str = "master"
    env: str = ""

    def directory(self) -> str:
        """The name of its repository's directory; none that is reached differently shares it."""
        reached = (self.url, self.name or None, self.user, self.privkey, tuple(self.refspecs))
        return hashlib.sha256(repr(reached + self.judged).encode()).hexdigest()[:32]


def pillar_remotes(config: Any, value_of: Callable[[str], Any]) -> list[PillarRemote]:
    """
    The entries of C{ext_pillar: [{git: [...]}]}.

    @param value_of: the value of an option of the master.
    @raises ConfigError: an entry cannot be used.
    """
    usual = {name: value_of(option) for name, option in OPTIONS.items()}
    found = []
    for entry in config if isinstance(config, (list, tuple)) else [config]:
        own: dict[str, Any] = {}
        if isinstance(entry, Mapping):
            if len(entry) != 1:
                raise ConfigError(f"Invalid git_pillar remote: {len(entry)} keys in one entry")
            entry, given = next(iter(entry.items()))
            own = repacked(given)
            if not own:
                who = shown(str(entry).rpartition(" ")[2])
                raise ConfigError(
                    f"Invalid git_pillar remote {who!r}: it has no parameters: remove the colon"
                    " behind its URL"
                )
        words = str(entry).split(None, 1)
        if not words:
            raise ConfigError("Invalid git_pillar remote: an entry is empty")
        branch, url = words if len(words) == 2 else (value_of("git_pillar_branch"), words[0])
        unknown = sorted(set(own) - PER_REMOTE)
        if unknown:
            raise ConfigError(
                f"Invalid git_pillar configuration parameter(s): {', '.join(unknown)}"
            )
        try:
            url = check_url(url)
        except ConfigError as error:
            raise ConfigError(f"Invalid git_pillar remote: {error.reason}") from None
        values = {**usual, **{name: value for name, value in own.items() if value is not None}}
        remote = PillarRemote(
            id=str(entry),
            url=url,
            branch=str(branch or "master"),
            **{
                name: str(value) if name in LOOSE else typed(url, name, value)
                for name, value in values.items()
                if value is not None and not (value == "" and name != "env")
            },
        )
        judge(remote)
        found.append(remote)
    return found


def all_pillar_remotes(value_of: Callable[[str], Any]) -> tuple[list[PillarRemote], list[str]]:
    """Those of all entries C{git} of C{ext_pillar}, and a sentence for each that cannot work."""
    found: list[PillarRemote] = []
    wrong: list[str] = []
    entries = value_of("ext_pillar")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and "git" in entry:
            try:
                found += pillar_remotes(entry["git"], value_of)
            except ConfigError as error:
                wrong.append(error.reason)
    return found, wrong
