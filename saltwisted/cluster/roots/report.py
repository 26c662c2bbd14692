"""
The status of a node's roots: which trees are here, what is missing, what is being done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from saltwisted.cluster.roots.core import STARTING
from saltwisted.cluster.roots.host import Host
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.share import RootShare
from saltwisted.cluster.roots.streams import RootStreams
from saltwisted.domain.causality.knowledge import count_missing
from saltwisted.domain.roots.manifest import name_of_all


class RootReport:
    """
    Changes nothing.

    @ivar waits: each says whether its work that this node needs before it may serve is done.
    """

    def __init__(self, host: Host, shares: Mapping[str, RootShare], streams: RootStreams) -> None:
        self.waits: list[Callable[[], bool]] = []
        self._host = host
        self._shares = shares
        self._streams = streams

    # -- which trees are here

    @property
    def name(self) -> str:
        """The generation of all file roots together: what a job is pinned to."""
        return name_of_all(self.digests())

    @property
    def pillar_name(self) -> str:
        """The generation of all pillar roots together; empty if this node has none."""
        found = self.digests("pillar")
        return name_of_all(found) if found else ""

    def digests(self, kind: str = "file") -> dict[str, bytes]:
        """Share of file roots, or of pillar roots, to the digest of its tree."""
        return {
            name: share.generation.digest
            for name, share in self._shares.items()
            if name.startswith(f"{kind}/") and share.generation is not None
        }

    @property
    def ready(self) -> bool:
        """Whether this node has at least one whole generation of every share."""
        return all(share.ready for share in self._shares.values())

    @property
    def complete(self) -> bool:
        """Whether minions and workers are also served everything that this node has."""
        return self.ready and all(done() for done in self.waits)

    def waiting(self) -> str:
        """Which shares are not whole here yet, and why; empty if all are."""
        found = []
        for name, share in self._shares.items():
            if not share.ready:
                why = share.core.suspended
                if why in ("", STARTING):
                    why = "the cluster's tree is not complete here yet"
                found.append(f"{name} ({why})")
        if found:
            return "it waits for roots: " + ", ".join(found)
        return "" if self.complete else "it is writing the pillar roots"

    # -- what peers lack, and what they have more

    def _lag(self, link: RootLink, share: RootShare) -> tuple[int, int]:
        """Changes that the peer lacks, and that we lack of what it knows."""
        theirs = link.peer.knowledge.get(share.name, {})
        ours = share.store.knowledge if share.store is not None else {}
        return count_missing(theirs, ours), count_missing(ours, theirs)

    def peers(self) -> dict[str, dict[str, Any]]:
        """What is known of each peer's roots."""
        streams = self._streams
        found: dict[str, dict[str, Any]] = {}
        for node in sorted({*self._host.members(), *streams.links}):
            link = streams.links.get(node)
            came, went = streams.traffic(node)
            entry: dict[str, Any] = {
                "connected": link is not None,
                "bytes_in": came,
                "bytes_out": went,
                "error": streams.flags.get(node, "") or (link.error if link else ""),
            }
            if link is not None:
                both = {
                    name: self._lag(link, share)
                    for name, share in self._shares.items()
                    if name in link.peer.knowledge and self._host.may_have(node, name)
                }
                entry["lag"] = sum(lag[0] for lag in both.values())
                entry["shares"] = {
                    name: {"lacks": lag[0], "ahead": lag[1]} for name, lag in both.items()
                }
            found[node] = entry
        return found

    def members_state(self) -> str:
        """One word for the list of members."""
        if not self.ready:
            return "waiting for a generation"
        if any(share.core.suspended for share in self._shares.values()):
            return "suspended"
        lacking = sum(self.behind(share) for share in self._shares.values())
        return f"{lacking} behind" if lacking else "in step"

    def behind(self, share: RootShare) -> int:
        """Changes of others that writers of a share are known to have, and this node has not."""
        if share.store is None:
            return 0
        ours, name = share.store.knowledge, share.name
        return sum(
            count_missing(ours, link.peer.knowledge.get(name, {}))
            for link in self._streams.writers(name)
        )

    def figures(self) -> dict[str, dict[str, float]]:
        """For metrics: by share, how far it is behind, its conflicts, and whether it waits."""
        shares = self._shares
        return {
            "roots_lag": {name: self.behind(share) for name, share in shares.items()},
            "roots_conflicts": {
                name: share.store.conflicts.open if share.store is not None else 0
                for name, share in shares.items()
            },
            "roots_suspended": {
                name: float(share.core.suspended not in ("", STARTING))
                for name, share in shares.items()
            },
        }

    # -- what is done

    def work(self, shares: Iterable[RootShare] = ()) -> list[dict[str, Any]]:
        """
        What is being done for these shares (all), as far as it can be counted: the share,
        C{doing}, C{done} C{of} how many, and of contents that are fetched C{bytes} and C{of_bytes}.
        """
        rows: list[dict[str, Any]] = []
        for share in shares or self._shares.values():
            tree = share.core.tree.progress
            if tree.doing:
                row = {"doing": tree.doing, "done": tree.done, "of": tree.total}
                rows.append({"share": share.name, **row})
            for link in self._streams.of(share.name):
                if (coming := link.objects.coming(share.name)) is not None:
                    rows.append(
                        {
                            "share": share.name,
                            "doing": f"files fetched from {link.node}",
                            "done": coming.done,
                            "of": coming.of,
                            "bytes": coming.bytes_done,
                            "of_bytes": coming.bytes_of,
                        }
                    )
        return rows
