"""
Acts on keys, and how they get into the fact log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.cluster.facts.ondisk import unknown
from saltwisted.domain.replica.keyset import KIND, MANY, MAX_ACTS, KeySet
from saltwisted.errors import StoreError
from saltwisted.transports.deferreds import all_within, as_deferred, let_go

WRITTEN_SECONDS = 5.0
"""How long an operator waits for this node's own disk."""


class KeyActs:
    """
    Puts acts into the log, many as one entry, and knows which of them are not on disk yet.

    @ivar appending: whether a local act is being put into the folds at this moment.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        keyset: KeySet,
        append: Callable[[str, Mapping[str, Any]], Awaitable[Any]],
        problem: Callable[[], str],
        not_written: Callable[[Sequence[str]], None],
    ) -> None:
        """
        @param append: C{append(kind, body)} of the fact log; in the folds when it returns.
        @param problem: why this node's disk does not take what is appended, or C{""}.
        @param not_written: told of the ids whose acts the disk has refused.
        """
        self._clock = clock
        self._keyset = keyset
        self._append = append
        self._problem = problem
        self._not_written = not_written
        self._pending: set[Deferred[Any]] = set()
        self._refused: list[str] = []
        self._batch: dict[tuple[str, str], Mapping[str, Any]] | None = None
        self.appending = False

    def collects(self, minion_id: str, fingers: Sequence[str]) -> bool:
        """Whether an act on one of these keys is collected, and not in the log yet."""
        batch = self._batch or {}
        return any((minion_id, finger) in batch for finger in fingers)

    @contextmanager
    def in_one(self) -> Iterator[None]:
        """What happens to many keys in here is one entry, for up to L{MAX_ACTS} of them."""
        if self._batch is not None:
            yield
            return
        self._batch = {}
        try:
            yield
        finally:
            self.flush()
            self._batch = None

    def do(self, body: Mapping[str, Any]) -> None:
        """Put an act into the log, or into the entry that is being made."""
        batch = self._batch
        if batch is None:
            self._log(body)
            return
        key = body["id"], body["fp"]
        if key in batch or len(batch) >= MAX_ACTS:
            self.flush()
            # It must have seen what was done to this key in the same breath
            pub = {"pub": body["pub"]} if "pub" in body else {}
            body = {**self._keyset.act_on(body["act"], *key, body.get("by", "")), **pub}
        batch[key] = body

    def flush(self) -> None:
        """Put collected acts into the log, so that what follows has seen them."""
        batch = self._batch
        if not batch:
            return
        acts = list(batch.values())
        batch.clear()
        self._log(acts[0] if len(acts) == 1 else {"act": MANY, "acts": acts})

    def _log(self, body: Mapping[str, Any]) -> None:
        self.appending = True
        try:
            done = as_deferred(self._append(KIND, body))
        finally:
            self.appending = False
        self._pending.add(done)

        def ended(result: Any) -> Any:
            self._pending.discard(done)
            return result

        def refused(failure: Failure) -> None:
            error = failure.trap(StoreError) and failure.value
            self.log.error("a key change is not in the log: {error}", error=error)
            self._refused.append(str(error))
            # The directories say again what the log says
            self._not_written(sorted({str(each["id"]) for each in body.get("acts", [body])}))

        let_go(done.addBoth(ended).addErrback(refused), self.log, "a key change is not in the log")

    async def written(self) -> None:
        """
        Wait until all of it is on disk.

        @raises StoreError: it is not; the text says what is true then.
        """
        self.flush()
        written = await all_within(
            self._clock, WRITTEN_SECONDS, list(self._pending), lambda: self._refused
        )
        refused, self._refused = self._refused, []
        if refused:
            raise StoreError(f"not written: {refused[0]}; taken back")
        if not written:
            raise unknown(self._problem())
