"""
Contents that turn out to be damaged when they are about to be served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.cluster.roots.share import RootShare
from saltwisted.errors import SaltwistedError
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.served import Shared


class Mending:
    """Each is repaired only once at a time, however many callers ask for it."""

    log = Logger()

    def __init__(self, shares: Mapping[str, RootShare]) -> None:
        self._shares = shares
        self._running: dict[bytes, Shared] = {}

    def mend(self, objects: ContentStore, digest: bytes, size: int) -> Deferred[None]:
        """A content that was about to be served is damaged; fires when something was done."""
        mending = self._running.get(digest)
        if mending is None:
            share = next((s for s in self._shares.values() if _has(s, objects)), None)
            if share is None:
                return succeed(None)
            mending = self._running[digest] = Shared()
            d = Deferred.fromCoroutine(share.care.found({digest: size}))
            mending.follow(d.addErrback(self._failed).addBoth(self._over, digest))
        joined: Deferred[None] = mending.join()
        return joined

    def _failed(self, failure: Failure) -> None:
        failure.trap(SaltwistedError)
        self.log.error("roots: damaged contents were not repaired: {error}", error=failure.value)

    def _over(self, result: Any, digest: bytes) -> Any:
        del self._running[digest]
        return result


def _has(share: RootShare, objects: ContentStore) -> bool:
    return share.store is not None and share.store.objects is objects
