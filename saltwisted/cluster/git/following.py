"""
A node that is behind: it gets the objects of what another node serves, and then serves that, too.
"""

from __future__ import annotations

from twisted.logger import Logger

from saltwisted.cluster.git.ground import Ground, served
from saltwisted.cluster.git.hearsay import Hearsay
from saltwisted.commits import IGitCopy
from saltwisted.domain.git.agreement import NONE, Do, Version, heard
from saltwisted.errors import RemoteError, SaltwistedError
from saltwisted.interfaces import IPeerLink
from saltwisted.transports.deferreds import let_go


class Following:
    """
    Reactor thread only.

    @ivar behind: repository to the reason why this node does not serve what another one does.
    """

    log = Logger()

    def __init__(self, ground: Ground, hearsay: Hearsay) -> None:
        self._ground, self._hearsay = ground, hearsay
        self.behind: dict[str, str] = {}
        self._catching: set[str] = set()
        self._is_running = False
        hearsay.listen(self.catch_up)

    def begin(self) -> None:
        """Follow from now on."""
        self._is_running = True
        self.look()

    def end(self) -> None:
        """Stop following."""
        self._is_running = False

    def look(self) -> None:
        """Try again what did not work."""
        for shared in self._ground.copies():
            self.catch_up(shared)

    async def serve(self, copy: IGitCopy, version: Version) -> None:
        """
        From now on this version is served, whose objects are here. Whoever calls it has the lock.

        @raises RemoteError: they are not, or the disk refuses.
        """
        ground = self._ground
        state = ground.exchange.held(copy.shared)[version]
        request = ground.updates().request(copy.shared)
        request.update(do="settle", fresh=False, hold=False, version=list(version))
        request.update(refs=state["refs"], aside={k: v for k, v in state.items() if k != "refs"})
        request["keep"] = sorted({*request.get("keep", ()), *ground.exchange.objects(copy.shared)})
        try:
            answer = await ground.exchange.work(request)
        except RemoteError:
            # They are asked for again
            ground.exchange.lost(copy.shared, version)
            raise
        ground.updates().copies.took(copy.shared, answer["state"])
        self.behind.pop(copy.shared, None)
        self._hearsay.tell_all()

    def catch_up(self, shared: str) -> None:
        """Somebody may serve a later version."""
        copy = self._ground.copies().get(shared)
        if copy is None or not self._is_running or shared in self._catching:
            return
        if self._hearsay.ahead(copy):
            self._catching.add(shared)
            let_go(self._catch(copy), self.log, "git: this node did not catch up")

    async def _catch(self, copy: IGitCopy) -> None:
        lock = self._ground.lock(copy.shared)
        await lock.acquire()
        try:
            while self._is_running and (ahead := self._hearsay.ahead(copy)):
                for version, link in ahead:
                    if await self._catch_one(copy, version, link):
                        break
                else:
                    # It is looked again soon
                    return
        finally:
            lock.release()
            self._catching.discard(copy.shared)

    async def _catch_one(self, copy: IGitCopy, version: Version, link: IPeerLink) -> bool:
        held = self._ground.exchange.held(copy.shared)
        try:
            if heard(served(copy), version, held.keys()) is Do.BRING:
                await self._ground.exchange.bring(copy, link, version)
            await self.serve(copy, version)
        except SaltwistedError as error:
            self.behind[copy.shared] = (
                f"{copy.shown}: {link.node} serves later commits, which this node does not have"
                f" yet: {error}"
            )
            return False
        return True

    async def mended(self, copy: IGitCopy) -> str:
        """Recreate a damaged repository from a node that serves the same; returns that node."""
        lock = self._ground.lock(copy.shared)
        await lock.acquire()
        try:
            for link, version in self._hearsay.with_it(copy.shared):
                fits = version != NONE and version >= served(copy)
                if not fits or not self._ground.may_write(link.node):
                    continue
                try:
                    await self._ground.exchange.bring(copy, link, version, anew=True)
                except SaltwistedError as error:
                    self.log.warn(
                        "git: nothing fetched from {node}: {why}", node=link.node, why=str(error)
                    )
                    continue
                self._hearsay.tell_all()
                return str(link.node)
        finally:
            lock.release()
        return ""
