"""
Commits that were served before, for jobs that are to run on them.

What is written down is which commits these were (L{saltwisted.domain.git.history}); their objects
are in the repositories of the remotes, as long as those keep them. A view of an earlier generation
has the remotes and mappings of today.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.domain.git.history import SHORTEST, CommitHistory
from saltwisted.domain.git.mapping import Tip, is_hex
from saltwisted.errors import DeniedError, StoreError, WireError
from saltwisted.stores.files import make_dir, read_file, write_atomic
from saltwisted.stores.git.source import GitFiles, GitView, Served
from saltwisted.transports.deferreds import let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

LARGEST = 64 * 1024 * 1024


class EarlierCommits:
    """
    Reactor thread only. What is on the disk is read when it is made.

    @param path: where it is written down.
    @param run: runs a blocking call in the pool.
    """

    log = Logger()

    def __init__(self, path: str, source: GitFiles, run: Callable[..., Deferred[Any]]) -> None:
        self._path, self._source, self._run = path, source, run
        self._history = CommitHistory(self._read())
        self._writing = False
        self._is_news = False
        source.on_show(self._show)

    def _read(self) -> Any:
        try:
            data = read_file(self._path, LARGEST)
            return unpack_bin(data) if data else ()
        except (OSError, StoreError, WireError) as error:
            self.log.warn("git: earlier generations are forgotten: {error}", error=str(error))
            return ()

    def _show(self, view: GitView) -> None:
        refs = {each.remote.id: each.refs for each in view.served}
        if refs and self._history.add(view.name, refs):
            self._is_news = True
            self._write()

    def _write(self) -> None:
        """One after the other; what came meanwhile is written afterwards, together."""
        if self._writing or not self._is_news:
            return
        self._writing, self._is_news = True, False

        def done(outcome: Any) -> Any:
            self._writing = False
            self._write()
            return outcome

        written = self._run(_put, self._path, self._history.rows()).addBoth(done)
        let_go(written, self.log, "git: the earlier generations were not written down")

    def find(self, wanted: str) -> GitView:
        """
        What was served as this generation; or the newest with this commit; or, of a commit that a
        remote has and that was never served, what is served now with it as environment C{base}.

        @raises DeniedError: there is nothing of this name, or it is no longer kept.
        """
        now = self._source.view
        if wanted == now.name:
            return now
        refs = self._history.generation(wanted)
        if refs is None and is_hex(wanted) and len(wanted) >= SHORTEST:
            prefix = wanted.lower()
            commits = self._history.commits(prefix)
            if len(commits) > 1:
                raise DeniedError(f"generation {wanted!r}: names {len(commits)} commits")
            if not commits:
                return self._base(wanted, prefix)
            refs = self._history.serving(commits.pop())
        if refs is None:
            raise _unknown(wanted)
        served = [
            Served(each.remote, each.folder, each.repository, refs[each.remote.id])
            for each in now.served
            if each.remote.id in refs
        ]
        newest = {each.remote.id: set(each.refs.values()) for each in now.served}
        for then in served:
            self._check(wanted, newest[then.remote.id], then)
        return GitView(served)

    def _check(self, wanted: str, known: set[Tip], then: Served) -> None:
        for ref, tip in then.refs.items():
            if tip not in known and tip.commit and then.repository.commit(tip.commit) is None:
                raise DeniedError(
                    f"generation {wanted!r}: {then.remote.shown} keeps commit {tip.commit} of"
                    f" {ref} no longer"
                )

    def _base(self, wanted: str, prefix: str) -> GitView:
        """What is served now, with a commit that was never served as environment C{base}."""
        now = self._source.view
        having = [each for each in now.served if each.repository.commit(prefix) is not None]
        if any(getattr(each.remote, "verify", "") for each in having):
            raise DeniedError(
                f"generation {wanted!r}: it was not served here, and only what is signed may be:"
                " tag it, or name a generation that was served"
            )
        if not having:
            raise _unknown(wanted)
        if len(having) > 1:
            raise DeniedError(f"generation {wanted!r}: {len(having)} remotes have such a commit")
        return GitView(
            [_with_base(each, prefix) if each in having else each for each in now.served]
        )


def _unknown(wanted: str) -> DeniedError:
    why = "this master has no generation or commit of that name, or keeps it no longer"
    return DeniedError(f"generation {wanted!r}: {why}")


def _with_base(served: Served, prefix: str) -> Served:
    found = served.repository.commit(prefix)
    assert found is not None
    remote = served.remote
    changes: dict[str, Any] = {"base": found[0], "ref_types": (*remote.ref_types, "sha")}
    if remote.all_saltenvs is not None:
        changes["all_saltenvs"] = found[0]
    return evolve(served, remote=type(remote)(**{**vars(remote), **changes}))


def _put(path: str, rows: Any) -> None:
    make_dir(os.path.dirname(path))
    write_atomic(path, pack_bin(rows))
