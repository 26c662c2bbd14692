"""
What two nodes say of themselves on a roots stream: first, and every half minute.

A greeting names the shares of a node in the order in which its frames number them, what it knows of
each with the digest of its tree, and what its clock says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field

from saltwisted.domain.roots import codec
from saltwisted.domain.roots.entry import Knowledge, ReplicaId
from saltwisted.domain.roots.frames import MAX_SHARES
from saltwisted.domain.roots.guards import Forbidden

VERSION = 1


def greeting(clock_ms: int, shares: Iterable[tuple[str, Knowledge, bytes]]) -> list[Any]:
    """The greeting, from the name of each share, what is known of it, and its digest."""
    return [
        VERSION,
        clock_ms,
        [[name, codec.pack_knowledge(knowledge), digest] for name, knowledge, digest in shares],
    ]


@define(eq=False)
class PeerState:
    """
    What a peer has said of itself.

    @ivar greeted: whether it has introduced itself.
    @ivar shares: the names of its shares, by the numbers that its frames give them.
    @ivar knowledge: what it knows of each, as far as we know.
    @ivar began: what it knew of each when it introduced itself.
    @ivar digests: of its tree of each, at what it knows.
    @ivar clock_ms: what its clock said last; 0 once that was looked at.
    """

    greeted: bool = False
    shares: list[str] = field(factory=list)
    knowledge: dict[str, dict[ReplicaId, int]] = field(factory=dict)
    began: dict[str, Knowledge] = field(factory=dict)
    digests: dict[str, bytes] = field(factory=dict)
    clock_ms: int = 0

    def introduced(self, value: Any) -> None:
        """
        Its first message.

        @raises Forbidden: it is against the rules, or not the first.
        """
        if (
            self.greeted
            or not isinstance(value, list)
            or len(value) != 3
            or not isinstance(value[2], list)
            or len(value[2]) > MAX_SHARES
        ):
            raise Forbidden("hello")
        if value[0] != VERSION:
            raise Forbidden(f"protocol version {value[0]}")
        self._take_clock(value[1])
        for item in value[2]:
            if (
                not isinstance(item, list)
                or len(item) != 3
                or not isinstance(item[0], str)
                or not isinstance(item[2], bytes)
            ):
                raise Forbidden("hello")
            self.shares.append(item[0])
            self.knowledge[item[0]] = codec.unpack_knowledge(item[1])
            self.began[item[0]] = dict(self.knowledge[item[0]])
            self.digests[item[0]] = item[2]
        self.greeted = True

    def said_again(self, value: Any) -> Iterator[str]:
        """
        A later greeting, share by share; gives the name of each.

        @raises Forbidden: it is against the rules.
        """
        if not isinstance(value, list) or len(value) != 3 or not isinstance(value[2], list):
            raise Forbidden("ping")
        self._take_clock(value[1])
        for item in value[2]:
            if not isinstance(item, list) or len(item) != 3 or item[0] not in self.shares:
                continue
            self.knows(item[0], codec.unpack_knowledge(item[1]), item[2])
            yield item[0]

    def knows(self, share: str, knowledge: Knowledge, digest: object) -> None:
        """It says what it knows of a share."""
        self.knowledge[share] = dict(knowledge)
        self.digests[share] = digest if isinstance(digest, bytes) else b""

    def share(self, number: int) -> str:
        """
        The share that it gives this number.

        @raises Forbidden: it has named no such share.
        """
        if number >= len(self.shares):
            raise Forbidden("unknown-share")
        return self.shares[number]

    def _take_clock(self, value: Any) -> None:
        if type(value) is int and 0 <= value < 1 << 53:
            self.clock_ms = value
