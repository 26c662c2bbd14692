"""
A git server reports a push: the remotes that it means are fetched at once.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.config.git import GitRemote, remotes_of
from saltwisted.config.gitpillar import PillarRemote, all_pillar_remotes
from saltwisted.domain.git.pushes import place_of, pushed_to
from saltwisted.master.context import GitRemotes
from saltwisted.transports.deferreds import let_go
from saltwisted.words import listed

APART = 1.0
"""Seconds between two fetches by hooks, however many of these come."""


class GitHook:
    """
    Reactor thread only.

    Hooks that arrive during a fetch cause one more fetch after it. So repeated hooks, or many at
    once, cost at most one fetch a second.
    """

    log = Logger()

    def __init__(self, clock: Any, config: Any, git: GitRemotes) -> None:
        self._clock, self._config, self._git = clock, config, git
        self._waiting: list[GitRemote] = []
        self._is_running = False

    def pushed(self, body: Any) -> None:
        """
        Fetch the remotes that the body of a hook means; all, if it means none of ours.

        The hook's authenticity has been checked before.
        """
        remotes: list[GitRemote] = [
            *remotes_of(self._config.value)[0],
            *all_pillar_remotes(self._config.value)[0],
        ]
        places = pushed_to(body)
        meant = [each for each in remotes if place_of(each.url) in places]
        self._waiting += [each for each in meant or remotes if each not in self._waiting]
        if self._waiting and not self._is_running:
            self._is_running = True
            let_go(self._fetch(), self.log, "git: the fetch after a hook has failed")

    async def _fetch(self) -> None:
        try:
            while self._waiting:
                chosen, self._waiting = self._waiting, []
                shown = sorted({each.shown for each in chosen})
                self.log.info("git: fetching {remotes} after a hook", remotes=listed(shown))
                soonest = deferLater(self._clock, APART, lambda: None)
                begun = [each.addErrback(self._failed) for each in self._updates(chosen)]
                await gatherResults([*begun, soonest])
        finally:
            self._is_running = False

    def _failed(self, failure: Failure) -> None:
        self.log.failure("git: the fetch after a hook has failed", failure=failure)

    def _updates(self, chosen: list[GitRemote]) -> list[Deferred[Any]]:
        files = {each.id for each in chosen if not isinstance(each, PillarRemote)}
        pillars = {each.url for each in chosen if isinstance(each, PillarRemote)}
        begun = [Deferred.fromCoroutine(self._git.update_pillars(repo=url)) for url in pillars]
        if files:
            begun.append(_begun(self._git.update(files)))
        return begun


def _begun(answer: Any) -> Deferred[Any]:
    async def wait() -> Any:
        return await answer

    return Deferred.fromCoroutine(wait())
