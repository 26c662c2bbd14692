"""
Rolling back: all nodes serve earlier commits of a repository in place of those that were fetched,
as a version like every other (L{saltwisted.domain.git.agreement}). The holder of the duty makes
that version; fetches keep it until the remote has something new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.task import deferLater

from saltwisted.cluster.git.exchange import MOST_REFS
from saltwisted.cluster.git.ground import Ground, served
from saltwisted.cluster.git.sharing import POLL, SERVED, TELLS, GitSharing
from saltwisted.cluster.links.commands import PeerRefused
from saltwisted.commits import IGitCopy
from saltwisted.domain.git.agreement import (
    Tips,
    difference,
    rolled_back,
    shown,
    tips_of,
    version_of,
)
from saltwisted.errors import RemoteError, SaltwistedError
from saltwisted.interfaces import IPeerLink
from saltwisted.wire.msgpack import pack_bin, unpack_bin

BACK_TO = "git-back-to"


class Backing:
    """Reactor thread only."""

    def __init__(self, ground: Ground, sharing: GitSharing) -> None:
        self._ground, self._sharing = ground, sharing
        ground.peers.answer(BACK_TO, self._asked)

    def plan(self, shared: str, tips: Tips) -> dict[str, Any]:
        """
        What L{roll_back} will answer, without the nodes.

        @raises RemoteError: none of that name.
        """
        copy = self._ground.copies().get(shared)
        if copy is None:
            raise RemoteError("GitError", "this remote is not configured here")
        return {"changed": difference(shown(copy.state), tips), "nodes": {}}

    async def roll_back(self, shared: str, tips: Tips) -> Mapping[str, Any]:
        """
        Have all nodes serve earlier commits of a repository until something new is pushed; those of
        now end that. C{changed} says how many refs are others, C{nodes} who serves them.

        @raises RemoteError: none of that name, nobody has the duty, or the commits are gone.
        """
        copy = self._ground.copies().get(shared)
        if copy is None:
            raise RemoteError("GitError", "this remote is not configured here")
        if self._sharing.fetches(copy.is_pillar):
            return await self._here(copy, tips, None)
        link = await self._sharing.link_to_holder(copy.is_pillar)
        if link is None:
            raise RemoteError("GitError", f"nothing is rolled back: {self._sharing.nobody()}")
        question = {"key": shared, "tips": {ref: list(tip) for ref, tip in tips.items()}}
        said = unpack_bin(await link.ask(BACK_TO, pack_bin(question), TELLS))
        version = version_of(said["version"])
        end = self._ground.clock.seconds() + SERVED
        while served(copy) < version and self._ground.clock.seconds() < end:
            await deferLater(self._ground.clock, POLL)
        nodes = {**said["nodes"], self._ground.node: served(copy) >= version}
        return {"changed": int(said["changed"]), "nodes": nodes}

    async def _here(self, copy: IGitCopy, tips: Tips, link: IPeerLink | None) -> dict[str, Any]:
        """
        @param link: to who asks for it, who has the objects.
        """
        claim, copies = self._sharing.duty[copy.is_pillar], self._ground.updates().copies
        if link is not None and copies.lacks(copy.shared, tips):
            said = {"refs": {ref: tip[0] for ref, tip in tips.items()}}
            await self._ground.exchange.bring(copy, link, said=said)
        if lacking := copies.lacks(copy.shared, tips):
            raise RemoteError("GitError", f"{copy.shown} no longer has commit {lacking[0]}")
        changed = difference(shown(copy.state), tips)
        if not await self._sharing.count(copy, claim, lambda state: rolled_back(state, tips)):
            raise RemoteError("GitError", "this node has lost the duty in the meantime: try again")
        nodes = await self._sharing.all_serve(copy)
        return {"version": list(served(copy)), "changed": changed, "nodes": nodes}

    async def _asked(self, node: str, body: bytes) -> bytes:
        copy, said = self._ground.asked(node, body)
        try:
            tips = tips_of(said.get("tips"), MOST_REFS)
        except ValueError as error:
            raise PeerRefused(str(error)) from None
        if not self._sharing.fetches(copy.is_pillar):
            raise PeerRefused("this node does not fetch")
        try:
            return pack_bin(await self._here(copy, tips, self._ground.link(node)))
        except SaltwistedError as error:
            raise PeerRefused(str(error)[:1000]) from None
