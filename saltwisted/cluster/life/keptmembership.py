"""
A copy of the membership beside the fact log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from attrs import define
from twisted.logger import Logger

from saltwisted.cluster.life.join import pack_facts
from saltwisted.domain.replica.membership import Membership
from saltwisted.domain.replica.secrets import Secrets
from saltwisted.domain.replica.tokens import Tokens
from saltwisted.errors import SaltwistedError

KEEP_FACTS = 1.0
"""Seconds after which a change of membership is also kept beside the log."""


class FactFile(Protocol):
    """Where the copy is stored: L{saltwisted.stores.facts.node.NodeFiles}."""

    def keep_facts(self, data: bytes) -> None:
        """Write it."""


@define(kw_only=True)
class KeptMembership:
    """
    Keeps members, secrets and tokens beside the log, so that a node that has lost its log still
    knows its cluster.

    @ivar in_thread: C{in_thread(f)}: runs a blocking call whose result nobody needs.
    """

    log = Logger()

    reactor: Any
    membership: Membership
    secrets: Secrets
    tokens: Tokens
    files: FactFile
    in_thread: Callable[[Callable[[], Any]], None]
    _timer: Any = None

    def keep_soon(self) -> None:
        """Something has changed."""
        if self._timer is None or not self._timer.active():
            self._timer = self.reactor.callLater(KEEP_FACTS, lambda: self.in_thread(self._writer()))

    def keep_now(self) -> None:
        """Keep it before this returns."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._writer()()

    def stop(self) -> None:
        """Write what still has to be written."""
        if self._timer is not None and self._timer.active():
            self.keep_now()

    def _writer(self) -> Callable[[], None]:
        data = pack_facts(self.membership, self.secrets, self.tokens)

        def write() -> None:
            try:
                self.files.keep_facts(data)
            except SaltwistedError as error:
                self.log.error("the membership cannot be kept: {error}", error=error)

        return write
