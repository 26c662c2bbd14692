"""
Which node fetches from a remote: the holder of the duty, or another node for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from saltwisted.cluster.git.exchange import told
from saltwisted.cluster.git.ground import Ground
from saltwisted.commits import IGitCopy
from saltwisted.errors import RemoteError, SaltwistedError
from saltwisted.interfaces import IPeerLink
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import pack_bin, unpack_bin

FETCH = "git-fetch"
LONGER = 60.0
"""Seconds that another node has beyond those of a fetch."""


class Turns:
    """
    Reactor thread only.

    @param seconds: the time limit of one fetch.
    """

    def __init__(self, ground: Ground, seconds: Callable[[], float]) -> None:
        self._ground, self._seconds = ground, seconds
        self._route: dict[str, str] = {}
        ground.peers.answer(FETCH, self._asked_to_fetch)

    async def fetched(
        self, copy: IGitCopy, ask: Callable[[], Awaitable[Any]]
    ) -> tuple[Mapping[str, Any], Any]:
        """
        What a remote has, whose objects are here then; and locks that were removed.

        @raises RemoteError: nobody reaches it; it says why.
        """
        ground, errors = self._ground, {}
        turns: list[Any] = [
            None,
            *(
                link
                for link in ground.peers.links()
                if ground.may_have(link.node, copy.is_pillar) and ground.may_write(link.node)
            ),
        ]
        # Who has reached it last goes first
        route = self._route.get(copy.shared, "")
        turns.sort(key=lambda link: ("" if link is None else link.node) != route)
        for link in turns:
            node = "" if link is None else link.node
            try:
                if link is None:
                    tips, locks = await self._here(copy, ask)
                else:
                    tips, locks = await self._by(copy, link), ()
            except SaltwistedError as error:
                errors[node] = str(error)
                continue
            self._route[copy.shared] = node
            return tips, locks
        others = "; ".join(f"{node}: {why}" for node, why in errors.items() if node)
        raise RemoteError("GitError", f"{errors['']} ({others})" if others else errors[""])

    async def _here(
        self, copy: IGitCopy, ask: Callable[[], Awaitable[Any]]
    ) -> tuple[Mapping[str, Any], Any]:
        answer = await ask()
        if "error" in answer and "state" not in answer:
            # With a state something counts no more, whatever the remote says
            raise RemoteError("GitError", str(answer["error"]))
        self._ground.updates().copies.learn(copy.shared, answer["state"])
        return answer["state"], answer.get("locks")

    async def _by(self, copy: IGitCopy, link: IPeerLink) -> Mapping[str, Any]:
        """Have another node fetch, and get what has come."""
        body = pack_bin({"key": copy.shared})
        said = unpack_bin(await link.ask(FETCH, body, self._seconds() + LONGER))
        if not isinstance(said, dict) or "error" in said:
            why = said.get("error") if isinstance(said, dict) else "its answer is invalid"
            raise RemoteError("GitError", str(why)[:1000])
        return await self._ground.exchange.bring(copy, link, said=said)

    async def _asked_to_fetch(self, node: str, body: bytes) -> bytes:
        """The node that has the duty cannot reach a remote, and this one perhaps can."""
        copy, _ = self._ground.asked(node, body)
        answer = await as_deferred(self._ground.updates().ask(copy.shared))
        if "error" in answer:
            return pack_bin({"error": str(answer["error"])})
        state = answer["state"]
        self._ground.updates().copies.learn(copy.shared, state)
        return pack_bin(told(state))
