"""
Which environments a repository has, and which commit each of them is: Salt's rules.

Branches and tags are environments of the same names; the branch (or tag) C{base} is environment
C{base}. Mappings in the configuration take precedence. Whoever pushes chooses a branch name: it is
compared here, and never part of a path or of a command.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import frozen

BASE = "base"
_HEX = re.compile(r"[0-9a-fA-F]{4,64}")
_FULL = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class IRemote(Protocol):
    """The fields of a remote that count here (L{saltwisted.config.git.GitRemote})."""

    @property
    def base(self) -> str: ...
    @property
    def fallback(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def mountpoint(self) -> str: ...
    @property
    def ref_types(self) -> Sequence[str]: ...
    @property
    def disable_saltenv_mapping(self) -> bool: ...
    @property
    def saltenv_whitelist(self) -> Sequence[str]: ...
    @property
    def saltenv_blacklist(self) -> Sequence[str]: ...
    @property
    def all_saltenvs(self) -> str | None: ...
    @property
    def saltenv(self) -> Mapping[str, Mapping[str, str]]: ...
    @property
    def saltenv_everywhere(self) -> Mapping[str, Mapping[str, str]]: ...


@frozen
class Tip:
    """
    The value of a ref: the object that it names, the commit that this is or leads to, and that
    commit's tree.
    """

    id: str
    commit: str
    tree: str


Refs = Mapping[str, Tip]
"""Full name of a ref, C{refs/...}, to what it is."""


def is_hex(text: str) -> bool:
    """Whether an environment may be a commit, by Salt's rule."""
    return _HEX.fullmatch(text) is not None


def is_whole_id(text: str) -> bool:
    """Whether a text is the whole name of an object."""
    return _FULL.fullmatch(text) is not None


def environments(remote: IRemote, refs: Refs) -> set[str]:
    """The environments of a repository, without those that are not exposed."""
    by_ref = _by_ref(remote)
    found = {env for envs in by_ref.values() for env in envs}
    if is_hex(remote.base):
        found.add(BASE)
    for ref in refs:
        name = _name_of(remote, ref)
        if not name:
            continue
        if name in by_ref:
            found.update(by_ref[name])
        elif name == remote.base:
            found.add(BASE)
        elif not remote.disable_saltenv_mapping:
            found.add(name)
    return {env for env in found if exposed(remote, env)}


def _by_ref(remote: IRemote) -> dict[str, list[str]]:
    """Ref to the environments that are mapped to it by name."""
    found: dict[str, list[str]] = {}
    own: set[str] = set()
    for env, said in remote.saltenv.items():
        if "ref" in said:
            found.setdefault(said["ref"], []).append(env)
            own.add(env)
    for env, said in remote.saltenv_everywhere.items():
        if "ref" in said and env not in own:
            found.setdefault(said["ref"], []).append(env)
    return found


def _name_of(remote: IRemote, ref: str) -> str:
    """The name of the branch or tag that a ref is, or C{""} for one that is neither."""
    if ref.startswith("refs/remotes/") and "branch" in remote.ref_types:
        origin, slash, name = ref.removeprefix("refs/remotes/").partition("/")
        return name if slash else origin
    if ref.startswith("refs/tags/") and "tag" in remote.ref_types:
        return ref.removeprefix("refs/tags/")
    return ""


def exposed(remote: IRemote, env: str) -> bool:
    """Whether white and black list let an environment through."""
    return let_through(env, remote.saltenv_whitelist, remote.saltenv_blacklist)


def let_through(text: str, white: Sequence[str], black: Sequence[str]) -> bool:
    """Whether a white and a black list, as Salt has them, let a name through."""
    if any(_fits(text, each) for each in black):
        return False
    return not white or any(_fits(text, each) for each in white)


def _fits(text: str, pattern: str) -> bool:
    """By wild cards, or else as an expression, as Salt compares lists."""
    if fnmatch.fnmatchcase(text, pattern):
        return True
    try:
        return re.fullmatch(pattern, text) is not None
    except re.error:
        return False


def ref_of(remote: IRemote, env: str) -> str | None:
    """The branch, tag or commit that an environment is mapped to; C{None} if to nothing."""
    if remote.all_saltenvs is not None:
        return remote.all_saltenvs
    if env == BASE:
        return remote.base
    said = _of(remote, env, "ref")
    if remote.disable_saltenv_mapping:
        return said
    return said or env


def root_of(remote: IRemote, env: str) -> str:
    """The directory of the repository that is served in an environment."""
    return (_of(remote, env, "root") if _has(remote, env, "root") else remote.root) or ""


def mountpoint_of(remote: IRemote, env: str) -> str:
    """Where the files are in an environment."""
    mapped = _has(remote, env, "mountpoint")
    return (_of(remote, env, "mountpoint") if mapped else remote.mountpoint) or ""


def _has(remote: IRemote, env: str, name: str) -> bool:
    return name in remote.saltenv.get(env, {}) or name in remote.saltenv_everywhere.get(env, {})


def _of(remote: IRemote, env: str, name: str) -> str | None:
    own = remote.saltenv.get(env, {})
    return own[name] if name in own else remote.saltenv_everywhere.get(env, {}).get(name)


def tip_of(remote: IRemote, refs: Refs, env: str) -> Tip | str | None:
    """
    The commit of an environment: a known one, the name of an object to look up (hex digits,
    possibly a prefix), or C{None}.

    Branches before tags before commits, or as C{ref_types} says; then the same with C{fallback}.
    """
    if not exposed(remote, env):
        return None
    name = ref_of(remote, env)
    if name is None:
        return None
    found = _named(remote, refs, name)
    if found is None and remote.fallback:
        found = _named(remote, refs, remote.fallback)
    return found


def _named(remote: IRemote, refs: Refs, name: str) -> Tip | str | None:
    for kind in remote.ref_types:
        if kind == "branch":
            tip = refs.get(f"refs/remotes/origin/{name}")
        elif kind == "tag":
            tip = refs.get(f"refs/tags/{name}")
        elif is_hex(name):
            return name.lower()
        else:
            continue
        if tip is not None and tip.tree:
            return tip
    return None


def pins(remote: IRemote) -> set[str]:
    """The commits that a configuration names, in hex digits."""
    said = [remote.base, remote.fallback, remote.all_saltenvs or ""]
    for env in (*remote.saltenv.values(), *remote.saltenv_everywhere.values()):
        said.append(env.get("ref", ""))
    return {name.lower() for name in said if name and is_hex(name)}


def listed_in(remote: IRemote, env: str, envs: set[str]) -> bool:
    """
    Whether a remote is asked about an environment at all.

    @param envs: those of all remotes together.
    """
    return is_hex(env) or env in envs or bool(remote.fallback)
