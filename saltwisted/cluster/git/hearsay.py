"""
What nodes report about the git repositories that they serve, each time that it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field

from saltwisted.cluster.git.ground import Ground, served
from saltwisted.cluster.links.commands import PeerRefused
from saltwisted.commits import IGitCopy
from saltwisted.domain.git.agreement import NONE, Version, version_of
from saltwisted.interfaces import IPeerLink
from saltwisted.wire.msgpack import pack_bin, unpack_bin

HERE = "git-here"


@define
class Heard:
    """
    What another node has reported.

    @ivar serves: repository to version.
    @ivar terms: the terms for which it fetches, for pillar or not.
    """

    serves: dict[str, Version] = field(factory=dict)
    generation: str = ""
    terms: dict[bool, int] = field(factory=dict)


class Hearsay:
    """
    Reactor thread only.

    @param term: the term for which this node has the duty, for pillar or not; 0 for none. With a
        term, the node also reports the errors of fetches.
    @ivar heard: what was reported, by node.
    @ivar newest: repository to the highest version that this node has heard of.
    """

    def __init__(self, ground: Ground, term: Callable[[bool], int]) -> None:
        self._ground, self._term = ground, term
        self.heard: dict[str, Heard] = {}
        self.newest: dict[str, Version] = {}
        self._receivers: list[Callable[[str], None]] = []
        self._is_running = False
        ground.peers.answer(HERE, self._told)
        ground.peers.on_link(self._linked)

    def begin(self) -> None:
        """Tell from now on."""
        self._is_running = True
        for shared, copy in self._ground.copies().items():
            self._ground.exchange.keep(shared, served(copy), copy.state)
            self.saw(shared, served(copy))
        self.tell_all()

    def end(self) -> None:
        """Say nothing more."""
        self._is_running = False

    def listen(self, receiver: Callable[[str], None]) -> None:
        """Call C{receiver(shared)} when a node has reported which version it serves."""
        self._receivers.append(receiver)

    def saw(self, shared: str, version: Version) -> None:
        """There is such a version."""
        self.newest[shared] = max(self.newest.get(shared, NONE), version)

    def fetcher(self, pillar: bool) -> str:
        """The linked node that fetches, as it says itself, and may; C{""} for none."""
        ground = self._ground
        found = [
            (term, link.node)
            for link in ground.peers.links()
            if (said := self.heard.get(link.node)) is not None
            and (term := said.terms.get(pillar, 0))
            and ground.may_write(link.node)
            and ground.may_have(link.node, pillar)
        ]
        return max(found)[1] if found else ""

    def with_it(self, shared: str) -> list[tuple[IPeerLink, Version]]:
        """Linked nodes that have this repository, with the versions that they serve."""
        found = []
        for link in self._ground.peers.links():
            said = self.heard.get(link.node)
            copy = self._ground.copies().get(shared)
            may = copy is not None and self._ground.may_have(link.node, copy.is_pillar)
            if may and said is not None and shared in said.serves:
                found.append((link, said.serves[shared]))
        return found

    def ahead(self, copy: IGitCopy) -> list[tuple[Version, IPeerLink]]:
        """Linked nodes that serve a later version, the latest first."""
        found = [
            (version, link)
            for link, version in self.with_it(copy.shared)
            if version > served(copy) and self._ground.may_write(link.node)
        ]
        return sorted(found, key=lambda pair: pair[0], reverse=True)

    def _here(self, node: str) -> bytes:
        """What another node is told; of repositories that it may not have nothing."""
        may_have = self._ground.may_have
        copies = {
            key: copy
            for key, copy in self._ground.copies().items()
            if may_have(node, copy.is_pillar)
        }
        errors = {key: copy.error for key, copy in copies.items() if self._term(copy.is_pillar)}
        return pack_bin(
            {
                "serves": {key: list(served(copy)) for key, copy in copies.items()},
                "errors": errors,
                "terms": [self._term(False), self._term(True)],
                "generation": self._ground.updates().copies.generation,
            }
        )

    def tell_all(self) -> None:
        """Report to all what is served here."""
        if self._is_running:
            for link in self._ground.peers.links():
                link.tell(HERE, self._here(link.node))

    def _linked(self, link: IPeerLink, up: bool) -> None:
        if up and self._is_running:
            link.tell(HERE, self._here(link.node))

    def _told(self, node: str, body: bytes) -> None:
        said = unpack_bin(body)
        if not isinstance(said, dict) or not isinstance(said.get("serves"), dict):
            raise PeerRefused("the message makes no sense")
        try:
            serves = {str(key): version_of(value) for key, value in said["serves"].items()}
        except ValueError as error:
            raise PeerRefused(str(error)) from None
        is_first = node not in self.heard
        self.heard[node] = Heard(serves, str(said.get("generation", ""))[:64], _terms(said))
        if is_first and self._is_running and (link := self._ground.link(node)) is not None:
            # The link may have come up before this node could say anything
            link.tell(HERE, self._here(link.node))
        if not self._ground.may_write(node):
            return
        for shared, version in serves.items():
            self.saw(shared, version)
            for receiver in self._receivers:
                receiver(shared)
        self._take_errors(said.get("errors"))

    def _take_errors(self, errors: object) -> None:
        """What the node that fetches says of its last fetches."""
        for shared, error in errors.items() if isinstance(errors, dict) else ():
            copy = self._ground.copies().get(str(shared))
            if copy is not None and not self._term(copy.is_pillar):
                self._ground.updates().copies.said(str(shared), str(error)[:1000])


def _terms(said: Mapping[str, Any]) -> dict[bool, int]:
    value = said.get("terms")
    if not isinstance(value, list) or len(value) != 2:
        return {}
    return {bool(kind): term for kind, term in enumerate(value) if isinstance(term, int) and term}
