"""
Lists of trees of commits. A worker process makes them; here they are read, each once for all who
ask, and kept. Reading very many names takes long, and is done in the pool.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress, count
from operator import ne
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from saltwisted.domain.git import trees
from saltwisted.doors import GIT
from saltwisted.errors import RemoteError, StoreError
from saltwisted.stores.files import store_error
from saltwisted.stores.git.objects import Damaged
from saltwisted.stores.roots.served import RunInPool, Shared
from saltwisted.stores.roots.tree import AT_ONCE, Listing

Work = Callable[[Mapping[str, Any]], Deferred[Any]]
"""Has a request answered by a worker process (L{saltwisted.worker.git.work})."""
Key = tuple[str, str, str]
"""The path of a repository, the name of a tree, and the mount point of its files."""
MOST_LISTINGS = 64
MOST_TEXT = GIT.memory_all // 2
"""Bytes of all paths of all lists; what is the same is counted each time."""
MOST_FAILED = 1000
AGAIN = 600.0
"""Seconds after which it is tried once more to list what could not be listed."""
MOST_NAMES = 500_000
"""Of files and directories, in all lists; what is the same is counted each time."""


class TreeLists:
    """
    Reactor thread only.

    @param run: runs a blocking call in the pool.
    @param work: has a worker process do something.
    @param monotonic: seconds on a clock that does not jump.
    """

    def __init__(
        self, run: RunInPool, work: Work, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._work, self._monotonic = run, work, monotonic
        self._texts: dict[Key, int] = {}
        self._failed: OrderedDict[Key, tuple[float, StoreError]] = OrderedDict()
        self._kept: OrderedDict[Key, Listing] = OrderedDict()
        self._coming: dict[Key, Shared] = {}

    def of(self, key: Key) -> Listing | Deferred[Listing]:
        """
        Everything below a tree.

        @raises Damaged: something of it cannot be read; through the Deferred.
        @raises StoreError: it is too much, or a worker has failed; through the Deferred. For some
            time nobody tries again.
        """
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known
        failed = self._failed.get(key)
        if failed is not None and self._monotonic() < failed[0]:
            return fail(failed[1])
        running = self._coming.get(key)
        if running is None:

            def finished(outcome: Any) -> Any:
                self._coming.pop(key, None)
                return outcome

            running = self._coming[key] = Shared()
            repo, tree, mountpoint = key
            answer = self._work(
                {
                    "do": "list",
                    "folder": os.path.dirname(repo),
                    "repo": repo,
                    "tree": tree,
                    "mountpoint": mountpoint,
                }
            )
            running.follow(
                answer.addCallbacks(self._came, self._lost, (key,), {}, (key,)).addBoth(finished)
            )
        return running.join()

    def _lost(self, failure: Failure, key: Key) -> Any:
        """A worker was killed, or has not come to it."""
        failure.trap(RemoteError)
        error: Any = failure.value
        fault = StoreError(str(error), f"{key[0]}:{key[1]}")
        if error.name == "WorkerDied":
            self._give_up(key, fault)
        raise fault

    def _give_up(self, key: Key, fault: StoreError) -> None:
        """It would fail again, and keep a worker busy: what is listed is a tree, which stays."""
        self._failed[key] = self._monotonic() + AGAIN, fault
        if len(self._failed) > MOST_FAILED:
            self._failed.popitem(last=False)

    def _came(self, answer: Mapping[str, Any], key: Key) -> Any:
        if "error" in answer:
            place = f"{key[0]}:{key[1]}"
            if answer.get("damaged"):
                raise Damaged(str(answer["error"]), place)
            fault = StoreError(str(answer["error"]), place)
            self._give_up(key, fault)
            raise fault
        near = next(
            (each for other, each in reversed(self._kept.items()) if other[::2] == key[::2]),
            Listing(),
        )
        keep = partial(self._keep, key, int(answer["text"]))
        if "at" in answer:
            read: Deferred[Listing] = self._run(_read, answer, near)
            return read.addCallback(keep)
        if (len(answer["files"]) + len(answer["dirs"])) * trees.RUN <= AT_ONCE:
            return keep(_listing_of(answer, near))
        made: Deferred[Listing] = self._run(_listing_of, answer, near)
        return made.addCallback(keep)

    def _keep(self, key: Key, text: int, listing: Listing) -> Listing:
        self._kept[key], self._texts[key] = listing, text
        named = sum(len(each.files) + len(each.dirs) for each in self._kept.values())
        text = sum(self._texts[each] for each in self._kept)
        while len(self._kept) > 1 and (
            named > MOST_NAMES or text > MOST_TEXT or len(self._kept) > MOST_LISTINGS
        ):
            oldest, gone = self._kept.popitem(last=False)
            named -= len(gone.files) + len(gone.dirs)
            text -= self._texts.pop(oldest)
        return listing


def _alike(names: Sequence[str], near: tuple[str, ...]) -> tuple[str, ...]:
    """
    The sorted names of one commit, which most often begin and end as those of another: these are
    kept once. Ten thousand take most of a mebibyte, and are compared in half a millisecond.
    """
    whole = tuple(names)
    if not near:
        return whole
    most = min(len(whole), len(near))
    front = _same(whole, near, most)
    if front == len(whole) == len(near):
        return near
    back = _same(whole[::-1], near[::-1], most - front)
    middle = whole[front : len(whole) - back]
    return near[:front] + middle + near[len(near) - back :]


def _same(one: tuple[str, ...], other: tuple[str, ...], most: int) -> int:
    """How many names at the beginning are the same; in runs, since it may be done in a thread."""
    for start in range(0, most, trees.RUN):
        end = min(start + trees.RUN, most)
        if one[start:end] != other[start:end]:
            unlike = map(ne, one[start:end], other[start:end])
            return start + next(compress(count(), unlike))
    return most


def aside(answer: Mapping[str, Any]) -> dict[str, list[bytes]]:
    """
    Blocking: read the answer of a worker from its file, and remove that.

    @raises StoreError: it cannot be read.
    """
    path = str(answer["at"])
    try:
        with open(path, "rb") as file:
            os.unlink(path)
            return {name: [*map(file.read, sizes)] for name, sizes in answer["runs"].items()}
    except OSError as error:
        raise store_error(error, path) from error


def _read(answer: Mapping[str, Any], near: Listing) -> Listing:
    """In the pool: a long list."""
    parts: dict[str, Any] = aside(answer)
    names, targets = trees.of_runs(parts["links"]), trees.of_runs(parts["targets"])
    return _listing_of({**parts, "links": dict(zip(names, targets, strict=True))}, near)


def _listing_of(answer: Mapping[str, Any], near: Listing) -> Listing:
    """The list that a worker has made; a thread may do this."""
    files = _alike(list(trees.of_runs(answer["files"])), near.files)
    dirs = _alike(list(trees.of_runs(answer["dirs"])), near.dirs)
    return Listing(files, dirs, (), answer["links"])
