"""
What a merge would do, computed on the machine that would enter the cluster.

The stock master's keys, roots and rights are read here. A separate process asks for those of the
cluster (L{saltwisted.roles.scout}), because nothing on this floor speaks TLS with peers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from attrs import frozen

from saltwisted.config.options import MasterConfig
from saltwisted.config.secrets import compared
from saltwisted.domain.merge import (
    DIGEST_BYTES,
    Census,
    Difference,
    checked,
    compare,
    key_digest,
)
from saltwisted.domain.replica.settings import texts_of
from saltwisted.domain.roots.ignore import RULES_FILE, ignorer
from saltwisted.errors import StoreError, WireError
from saltwisted.wire.msgpack import unpack_bin

FOLDERS = {
    "accepted": "minions",
    "pending": "minions_pre",
    "rejected": "minions_rejected",
    "denied": "minions_denied",
}
ASK_TIME = 90.0


@frozen
class Meeting:
    """
    The cluster's answer.

    @ivar cluster: its id.
    @ivar identity: the fingerprint of its master key.
    @ivar members: the members of the cluster.
    @ivar cut: whether it has more keys and files than it has sent.
    """

    cluster: str
    identity: str
    members: tuple[str, ...]
    differences: tuple[Difference, ...]
    cut: bool

    @property
    def undecided(self) -> bool:
        """Whether somebody should say that this is meant."""
        return any(one.decide for one in self.differences)

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "cluster": self.cluster,
            "master_key": self.identity,
            "members": list(self.members),
            "differences": [one.as_json() for one in self.differences],
            "cut": self.cut,
        }


def meet(config: MasterConfig, written: Mapping[str, Any], token: str) -> Meeting:
    """
    Ask the cluster of a token, and compare.

    @param config: the stock master's.
    @param written: the options that ours would have.
    @raises StoreError: it does not answer, or refuses.
    """
    said = ask(token, config.id)
    if said.get("refused"):
        raise StoreError(f"the cluster refuses: {said['refused']}", str(said.get("cluster")))
    try:
        there = checked(said.get("census"))
    except WireError:
        raise StoreError(
            "the cluster runs a version that cannot report what it has", str(said.get("cluster"))
        ) from None
    return Meeting(
        str(said.get("cluster")),
        str(said.get("fingerprint")),
        tuple(map(str, said.get("members") or ())),
        tuple(compare(census(config, written), there)),
        bool(there.get("cut")),
    )


def ask(token: str, node: str) -> dict[str, Any]:
    """
    What the cluster of a token says of itself.

    @raises StoreError: nobody answers, or the token is no good.
    """
    try:
        # the token goes by the standard input: arguments are for everybody to see
        done = subprocess.run(
            [sys.executable, "-m", "saltwisted.roles.scout", node],
            input=token.encode() + b"\n", capture_output=True, timeout=ASK_TIME, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise StoreError("does not answer", "the cluster of the token") from None
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["cannot be asked"]
        raise StoreError(words[-1], "the cluster of the token")
    value = unpack_bin(done.stdout)
    if not isinstance(value, dict):
        raise StoreError("does not answer", "the cluster of the token")
    return value


def census(config: MasterConfig, written: Mapping[str, Any]) -> Census:
    """What the stock master has, in the words of L{saltwisted.domain.merge}."""
    keys: dict[str, dict[str, bytes]] = {}
    for state, folder in FOLDERS.items():
        found = keys.setdefault(state, {})
        with suppress(FileNotFoundError):
            for name in os.listdir(os.path.join(config.pki_dir, folder)):
                path = os.path.join(config.pki_dir, folder, name)
                if not name.startswith(".") and os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as stream:
                        found[name] = key_digest(stream.read())
    files: dict[str, dict[str, bytes]] = {}
    for kind, roots in (("file", config.file_roots), ("pillar", config.pillar_roots)):
        for env, paths in (roots or {}).items():
            for number, path in enumerate([paths] if isinstance(paths, str) else paths or []):
                if os.path.isabs(str(path)) and not any(char in str(path) for char in "*?["):
                    files[f"{kind}/{env}/{number}"] = dict(tree(str(path)))
    # What somebody has set and is not taken has its default with us
    usual = MasterConfig()
    options = texts_of(lambda name: written.get(name, usual.value(name)), compared)
    return {"keys": keys, "files": files, "options": options}


def tree(root: str) -> Iterator[tuple[str, bytes]]:
    """Path and digest of what would take part in the roots of a cluster."""
    rules = b""
    with suppress(OSError), open(os.path.join(os.fsencode(root), RULES_FILE), "rb") as stream:
        rules = stream.read()
    ignored = ignorer(rules)
    top = os.fsencode(root)
    for folder, folders, names in os.walk(top):
        below = os.path.relpath(folder, top)
        prefix = b"" if below == b"." else below + b"/"
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = sorted(
            name for name in folders if name not in links and not ignored(prefix + name, True)
        )
        for name in sorted([*names, *links]):
            path = os.path.join(folder, name)
            text = (prefix + name).decode("utf-8", "backslashreplace")
            if ignored(prefix + name, False):
                continue
            with suppress(OSError):
                if os.path.islink(path):
                    yield text, os.readlink(path)[:DIGEST_BYTES]
                elif os.path.isfile(path):
                    with open(path, "rb") as stream:
                        digest = sha256()
                        while chunk := stream.read(1 << 20):
                            digest.update(chunk)
                    yield text, digest.digest()[:DIGEST_BYTES]
