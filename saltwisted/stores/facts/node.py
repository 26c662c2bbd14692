"""
What a cluster node must not lose: its key, its cluster, and a join that is in progress.

These are small files below C{pki_dir/cluster}, 0600 in a 0700 directory, each written as a whole.
The replicated facts themselves are in L{saltwisted.stores.facts.log}.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from attrs import define, field

from saltwisted.domain.keys import valid_minion_id
from saltwisted.domain.replica.certificates import NodeKey
from saltwisted.errors import StoreError, WireError
from saltwisted.stores import files

FOLDER = "cluster"
DIRECTORIES = ("minions", "minions_pre", "minions_denied", "minions_rejected")
NEXT = "identity.next"
NODE, KEY, TOKEN, FACTS, LOG = "node.json", "node.pem", "join.token", "bootstrap", "facts.sqlite"
_LIMIT = 1 << 26
BEGIN = "begin"
"""A file that says that this node is the first of a cluster."""
ALONE, JOINING, MEMBER, REMOVED, LEFT = "alone", "joining", "member", "removed", "left"


@define
class NodeState:
    """
    The state of a node.

    @ivar node: its id, created once.
    @ivar cluster: the cluster's id, C{""} while it belongs to none.
    @ivar phase: C{alone}, C{joining}, C{member}, C{removed}, C{left}.
    @ivar verified: whether everything that the cluster knew at the join has arrived; until then the
        node serves nobody.
    """

    node: str = ""
    cluster: str = ""
    phase: str = ALONE
    verified: bool = True
    more: dict[str, Any] = field(factory=dict)


class NodeFiles:
    """Blocks for a few small files; only for starts, joins and removals."""

    def __init__(self, pki_dir: str) -> None:
        self.folder = f"{pki_dir}/{FOLDER}"
        self._pki_dir = pki_dir

    def open(self) -> None:
        """
        Make the directory.

        @raises StoreError: the disk refuses.
        """
        files.make_dir(self.folder)
        files.sweep_temporary(self.folder)

    def state(self) -> NodeState:
        """
        The state as last saved, or that of a node that never was.

        @raises StoreError: the file is damaged. A node must not take itself for a new one then.
        """
        data = files.read_file(f"{self.folder}/{NODE}", _LIMIT)
        if not data:
            return NodeState()
        try:
            found = json.loads(data)
            return NodeState(
                str(found["node"]),
                str(found["cluster"]),
                str(found["phase"]),
                bool(found["verified"]),
                dict(found["more"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"is damaged ({error}); remove the directory to start as a new node",
                f"{self.folder}/{NODE}",
            ) from error

    def save(self, state: NodeState) -> None:
        """Durable when this returns."""
        text = json.dumps(
            {
                "node": state.node,
                "cluster": state.cluster,
                "phase": state.phase,
                "verified": state.verified,
                "more": state.more,
            }
        )
        files.write_atomic(f"{self.folder}/{NODE}", text.encode() + b"\n")

    def begins(self) -> bool:
        """
        Whether this node may be the first of a cluster: an operator said so, or it already has an
        identity that minions may know.
        """
        paths = (f"{self.folder}/{BEGIN}", f"{self._pki_dir}/master.pem")
        return any(os.path.exists(path) for path in paths)

    def key(self, new: bool = False) -> NodeKey:
        """
        The node's key, made when there is none.

        @param new: make another one; a removed key never comes back.
        """
        path = f"{self.folder}/{KEY}"
        data = None if new else files.read_file(path, _LIMIT)
        if data:
            try:
                return NodeKey.from_pem(data)
            except WireError as error:
                raise StoreError("is not a node's key; restore it or remove it", path) from error
        key = NodeKey.generate()
        files.write_atomic(path, key.pem, 0o400)
        return key

    def check_key(self) -> None:
        """
        Whether the node's key can be used, if it has one.

        @raises StoreError: it cannot.
        """
        if files.read_file(f"{self.folder}/{KEY}", _LIMIT):
            self.key()

    def pending_token(self) -> tuple[str, bool]:
        """
        The token of a join that was asked for and is not done, or C{""}; and whether accepted
        minions may be cut off by it.
        """
        data = files.read_file(f"{self.folder}/{TOKEN}", 8192)
        words = data.decode("ascii", "replace").split() if data else []
        return words[0] if words else "", "discard-identity" in words[1:]

    def forget_token(self) -> None:
        """The join is done, or was refused."""
        files.remove(f"{self.folder}/{TOKEN}", sync=True)

    def keep_token(self, line: str, discard: bool) -> None:
        """A join is asked for; it survives a restart."""
        words = f"{line} discard-identity\n" if discard else f"{line}\n"
        files.write_atomic(f"{self.folder}/{TOKEN}", words.encode())

    def facts(self) -> bytes:
        """The facts that came with the join, packed; C{b""} for none."""
        return files.read_file(f"{self.folder}/{FACTS}", _LIMIT) or b""

    def keep_facts(self, data: bytes) -> None:
        """Remember the facts that came with the join."""
        files.write_atomic(f"{self.folder}/{FACTS}", data)

    def next_identity(self) -> tuple[bytes, bytes, list[str]]:
        """
        The key pair that a change of the identity has prepared, PEM, and which minions have
        installed it; empty if no change is in progress.

        @raises StoreError: the file is damaged.
        """
        path = f"{self.folder}/{NEXT}"
        data = files.read_file(path, _LIMIT)
        if not data:
            return b"", b"", []
        try:
            found = json.loads(data)
            private, public = str(found["private"]), str(found["public"])
            return private.encode(), public.encode(), [str(each) for each in found["installed"]]
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"is damaged ({error}); remove it to start again", path) from error

    def keep_next_identity(self, private: bytes, public: bytes, installed: list[str]) -> None:
        """Durable when this returns."""
        found = {"private": private.decode(), "public": public.decode(), "installed": installed}
        files.write_atomic(f"{self.folder}/{NEXT}", json.dumps(found).encode(), 0o600)

    def forget_next_identity(self) -> None:
        """The change is done, or given up."""
        files.remove(f"{self.folder}/{NEXT}", sync=True)

    @property
    def log_path(self) -> str:
        """The path of the fact log: it is beside the keys, because it is not a cache."""
        return f"{self.folder}/{LOG}"

    def forget_log(self) -> None:
        """Put the log of another cluster aside; one is kept."""
        for suffix in ("", "-wal", "-shm"):
            path = self.log_path + suffix
            if os.path.exists(path):
                try:
                    os.replace(path, f"{self.log_path}.before{suffix}")
                except OSError as error:
                    raise files.store_error(error, path) from error

    def adopt_identity(self, private: bytes, public: bytes, name: str = "master") -> None:
        """
        Make this key pair the master's own; the previous one is kept beside it.

        @raises StoreError: either nothing was replaced, or both halves were.
        """
        stamp = time.strftime("%Y%m%d%H%M%S")
        pem, pub = f"{self._pki_dir}/{name}.pem", f"{self._pki_dir}/{name}.pub"
        for path in (pem, pub):
            old = files.read_file(path, _LIMIT)
            if old and old not in (private, public):
                files.write_atomic(f"{path}.before-{stamp}", old, 0o400)
            if os.path.islink(path):
                files.remove(path)
        # The private half first: the public one can be made from it
        files.remove(pub)
        files.write_atomic(pem, private, 0o400)
        files.write_atomic(pub, public, 0o600)

    def take_over(self, shared: str) -> bool:
        """
        Become the first node of a former cluster of stock masters: take the identity key and the
        minions' keys from their C{cluster_pki_dir}, once. Nothing there is changed.

        @return: whether there was something to take over, and this was not a node yet.
        @raises StoreError: it cannot be read, or cannot be written here.
        """
        private = files.read_file(f"{shared}/cluster.pem", _LIMIT)
        if not private or os.path.exists(f"{self.folder}/{NODE}"):
            return False
        public = files.read_file(f"{shared}/cluster.pub", _LIMIT)
        if not public:
            raise StoreError("is missing beside cluster.pem", f"{shared}/cluster.pub")
        for folder in DIRECTORIES:
            self._copy_keys(f"{shared}/{folder}", f"{self._pki_dir}/{folder}")
        self.adopt_identity(private, public)
        return True

    @staticmethod
    def _copy_keys(source: str, target: str) -> None:
        files.make_dir(target)
        try:
            names = sorted(os.listdir(source)) if os.path.isdir(source) else []
        except OSError as error:
            raise files.store_error(error, source) from error
        for name in names:
            path = f"{source}/{name}"
            if not valid_minion_id(name) or os.path.islink(path) or not os.path.isfile(path):
                continue
            data = files.read_file(path, 64 * 1024)
            if data and not os.path.exists(f"{target}/{name}"):
                files.write_atomic(f"{target}/{name}", data, 0o600, sync=False)
        files.sync_dir(target)
