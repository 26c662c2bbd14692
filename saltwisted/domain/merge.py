"""
What would happen to keys, files and rights if one master entered the cluster of another.

Both sides are described in the same way, as a I{census}: a map of C{keys} (state, then minion id,
to the digest of the key), C{files} (share, then path, to a digest of the contents) and C{options}
(name to text). Nothing is read or queried here. The rules are those of
L{saltwisted.domain.replica.keyset} and of C{cluster_roots: rejoin}: the cluster's version wins if
both have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from attrs import frozen

from saltwisted import advice
from saltwisted.domain.replica.settings import ABSENT
from saltwisted.errors import WireError

STATES = ("accepted", "pending", "rejected", "denied")
DIGEST_BYTES = 16
SHOWN = 10

Census = Mapping[str, Any]


def key_digest(pub: bytes) -> bytes:
    """A key, however its lines end."""
    return sha256(b"".join(pub.split())).digest()[:DIGEST_BYTES]


@frozen
class Difference:
    """
    One kind of difference.

    @ivar id: does not change between versions.
    @ivar text: what differs, and what will happen to it.
    @ivar names: which keys, files or options.
    @ivar decide: whether an operator should decide before it happens.
    """

    id: str
    text: str
    names: Sequence[str]
    decide: bool = False

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "id": self.id,
            "text": self.text,
            "count": len(self.names),
            "names": list(self.names),
            "decide": self.decide,
        }


def checked(value: Any) -> Census:
    """
    A census as it came from another node.

    @raises WireError: it has another form.
    """
    if not isinstance(value, dict):
        raise WireError("census")
    for part, deep in (("keys", True), ("files", True), ("options", False)):
        found = value.get(part)
        if not isinstance(found, dict):
            raise WireError("census")
        for name, inner in found.items():
            if not isinstance(name, str) or (deep and not isinstance(inner, dict)):
                raise WireError("census")
    return value


def compare(here: Census, there: Census) -> list[Difference]:
    """
    What the two differ in, the kinds that want a decision first; empty kinds are left out.

    @param here: the master that would enter.
    @param there: the cluster.
    """
    found = [*_keys(here["keys"], there["keys"]), *_files(here["files"], there["files"])]
    found += _options(here["options"], there["options"])
    return sorted((one for one in found if one.names), key=lambda one: not one.decide)


def _keys(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[Difference]:
    ours, theirs = _judged(here), _judged(there)
    accepted = here.get("accepted", {})
    others = there.get("accepted", {})
    turned = [
        f"{name}: {state} here, {theirs[name, digest]} there"
        for (name, digest), state in sorted(ours.items())
        if theirs.get((name, digest), state) != state
        and "pending" not in (state, theirs[name, digest])
    ]
    return [
        Difference(
            "key.other",
            "minions whose ids have one key accepted here and another one there: the key that "
            "was accepted first holds, and the other machine is denied",
            sorted(name for name in accepted if others.get(name, accepted[name]) != accepted[name]),
            True,
        ),
        Difference(
            "key.state",
            "keys that are accepted on one side only: what the cluster says holds",
            turned,
            True,
        ),
        Difference(
            "key.here",
            "minions accepted only here; they will be accepted on all nodes",
            sorted(n for n in accepted if n not in others and _free(n, accepted, theirs)),
        ),
        Difference(
            "key.there",
            "minions accepted only in the cluster; they will be accepted here, too",
            sorted(n for n in others if n not in accepted and _free(n, others, ours)),
        ),
    ]


def _judged(keys: Mapping[str, Any]) -> dict[tuple[str, bytes], str]:
    """Minion id and key, and what was decided of them."""
    return {(name, key): state for state in STATES for name, key in keys.get(state, {}).items()}


def _free(name: str, keys: Mapping[str, Any], other: Mapping[Any, str]) -> bool:
    """Whether the other side has not judged this key otherwise."""
    return other.get((name, keys[name]), "pending") == "pending"


def _files(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[Difference]:
    differ, only_here, only_there = [], [], []
    for share in sorted({*here, *there}):
        ours, theirs = here.get(share, {}), there.get(share, {})
        for path in sorted({*ours, *theirs}):
            name = f"{share}: {path}"
            if path not in theirs:
                only_here.append(name)
            elif path not in ours:
                only_there.append(name)
            elif ours[path] != theirs[path]:
                differ.append(name)
    return [
        Difference(
            "file.differs",
            "files that differ: the cluster's are served, and this master's are kept as "
            f"conflicts. {advice.of('roots.conflicts-all')}",
            differ,
            True,
        ),
        Difference(
            "file.here",
            "files only here: they are not served any more, and kept as conflicts. Copy them "
            "into the roots of the cluster before or after",
            only_here,
            True,
        ),
        Difference("file.there", "files only in the cluster; they come here", only_there),
    ]


def _options(here: Mapping[str, str], there: Mapping[str, str]) -> list[Difference]:
    names = [
        f"{name}: {here.get(name, ABSENT)} here, {there.get(name, ABSENT)} there"
        for name in sorted({*here, *there})
        if here.get(name, ABSENT) != there.get(name, ABSENT)
    ]
    return [
        Difference(
            "option.differs",
            "options that should be the same but differ (what users may do then depends on "
            "the node): only you can change that",
            names,
            True,
        )
    ]
