"""
Commits that were served before, for jobs that run on them.

The disk records which commits these were (L{saltwisted.domain.git.history}), and on which others a
job was begun (L{saltwisted.domain.git.made}). Their objects are in the repositories of the remotes,
as long as those keep them. A view of an earlier generation has today's remotes and mappings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from saltwisted.config.git import key_of_entry
from saltwisted.domain.git.history import SHORTEST, BackWards, CommitHistory, changes
from saltwisted.domain.git.made import Made, MadeGenerations
from saltwisted.domain.git.mapping import Tip, is_hex, tip_of
from saltwisted.domain.roots.manifest import name_of
from saltwisted.errors import DeniedError, NotKept, StoreError, WireError
from saltwisted.stores.files import make_dir, read_file, write_atomic
from saltwisted.stores.git.source import GitFiles, GitView, Served
from saltwisted.transports.deferreds import let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

TOLD = 3
"""Refs of a remote that are named in a row of the log."""
LARGEST = 64 * 1024 * 1024


class EarlierCommits:
    """
    Reactor thread only. The file is read when the object is created.

    @param path: the file that records them.
    @param run: runs a blocking call in the pool.
    @param now: seconds since 1970.
    """

    log = Logger()

    def __init__(
        self,
        path: str,
        source: GitFiles,
        run: Callable[..., Deferred[Any]],
        now: Callable[[], float],
    ) -> None:
        self._path, self._source, self._run, self._now = path, source, run, now
        kept = self._read()
        self._history = CommitHistory(kept.get("generations"), now())
        self._made = MadeGenerations(kept.get("made"))
        self._back = BackWards(kept.get("back"))
        self._fetched = source.view
        self._writing = False
        self._is_news = False
        self._waiting: list[Deferred[None]] = []
        self._users: list[Callable[[], Iterable[bytes]]] = []
        source.through(self._behind)
        source.on_show(self._show)
        source.on_keep(self._kept)

    def _read(self) -> Mapping[str, Any]:
        try:
            data = read_file(self._path, LARGEST)
            kept = unpack_bin(data) if data else {}
        except (OSError, StoreError, WireError) as error:
            self.log.warn("git: earlier generations are forgotten: {error}", error=str(error))
            return {}
        return _without_credentials(kept) if isinstance(kept, dict) else {}

    def _behind(self, view: GitView) -> GitView:
        """What is served in the place of what was fetched: of remotes that are rolled back less."""
        self._fetched = view
        served = []
        for each in view.served:
            refs, is_news = self._back.refs(each.remote.key, each.refs)
            if is_news:
                self.log.info(
                    "git: {remote} has something new, and is no longer rolled back",
                    remote=each.remote.shown,
                    always=True,
                )
                self._changed()
            served.append(each if refs is None else evolve(each, refs=refs))
        return GitView(served)

    def _show(self, view: GitView) -> None:
        refs = {each.remote.key: each.refs for each in view.served}
        if refs and self._history.add(view.name, refs, self._now(), self._used()):
            self._changed()

    def on_use(self, user: Callable[[], Iterable[bytes]]) -> None:
        """Ask C{user()} on which commits jobs run, by their digests: these are not forgotten."""
        self._users.append(user)

    def _used(self) -> set[str]:
        used = {view.name for view in self._source.views_read()}
        used |= {name_of(digest) for user in self._users for digest in user()}
        made = map(self._made.get, used)
        return used | {each.of for each in made if each is not None}

    def _kept(self, folder: str) -> set[str]:
        """What earlier generations have of a repository."""
        remotes = {each.remote.key for each in self._fetched.served if each.folder == folder}
        served = {oid for remote in remotes for oid in self._history.objects(remote)}
        return served | {oid for remote in remotes for oid in self._made.commits(remote)}

    def _changed(self) -> None:
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
            if not self._writing:
                waiting, self._waiting = self._waiting, []
                for each in waiting:
                    each.callback(None)
            return outcome

        kept = {
            "generations": self._history.rows(),
            "made": self._made.rows(),
            "back": self._back.rows(),
        }
        written = self._run(_put, self._path, kept).addBoth(done)
        let_go(written, self.log, "git: the earlier generations were not written down")

    def written(self) -> Deferred[None]:
        """Fires when all that is known now is on the disk, or could not be written."""
        if not self._writing:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        return done

    # -- what was made for a job

    def learn(self, name: str, served: Sequence[Served], base: Mapping[str, str]) -> None:
        """
        Another node has made this.

        @param served: what it was made of; nothing of it is kept unless that was served here, too.
        @param base: remote to the commit that is environment C{base} instead.
        """
        of = self._history.having({each.remote.key: each.refs for each in served})
        if of is not None and self._made.add(name, Made(of, base), self._used()):
            self._changed()

    # -- what operators ask

    def log_rows(self, most: int) -> list[dict[str, Any]]:
        """The generations that are kept, the newest first, as C{saltwisted roots log} shows."""
        shown = {each.remote.key: each.remote.shown for each in self._fetched.served}
        back = [shown[name] for name in shown if name in self._back]
        return self.rows(most, back)

    def rows(self, most: int, back: Sequence[str]) -> list[dict[str, Any]]:
        """
        The same.

        @param back: the remotes that are rolled back.
        """
        shown = {each.remote.key: each.remote.shown for each in self._fetched.served}
        rows = [
            {
                "generation": name,
                "at": at,
                "share": "gitfs",
                "origin": "",
                "files": None,
                "bytes": None,
                "note": _note(change, shown),
            }
            for name, at, change in self._history.newest(most)
        ]
        if rows and back:
            rows[0]["note"] = f"rolled back: {', '.join(back)}. {rows[0]['note']}"
        return rows

    def roll_back(self, wanted: str, dry_run: bool = False) -> list[dict[str, Any]]:
        """
        Serve an earlier generation: of each remote, until something new is fetched of it.

        @param dry_run: only say what would follow.
        @raises DeniedError: as for L{find}; or this node has never served it.
        """
        then = {each.remote.key: each for each in self.find(wanted).served}
        plan = []
        for each in self._fetched.served:
            earlier = then.get(each.remote.key)
            if earlier is None:
                continue
            if earlier.remote != each.remote:
                raise DeniedError(f"generation {wanted!r}: this node has never served it")
            plan.append((each, earlier))
        rows = [
            {
                "share": each.remote.shown,
                "to": wanted,
                "changed": changes(each.refs, earlier.refs),
            }
            for each, earlier in plan
        ]
        if dry_run:
            return rows
        for each, earlier in plan:
            self._back.put(each.remote.key, each.refs, earlier.refs)
        self._source.show(self._fetched)
        self._changed()
        return rows

    def find(self, wanted: str) -> GitView:
        """
        What was served as this generation, or was made for a job under this name. For a commit: the
        newest generation whose environment C{base} was this commit, or in which another ref led to
        it that has moved on; for any other commit of a remote, what is served now, with that commit
        as environment C{base}.

        @raises DeniedError: there is nothing of this name, or it is no longer kept.
        """
        now = self._source.view
        if wanted == now.name:
            return now
        refs = self._history.generation(wanted)
        if refs is None and (made := self._made.get(wanted)) is not None:
            return self._remade(wanted, made)
        if refs is None and is_hex(wanted) and len(wanted) >= SHORTEST:
            prefix = wanted.lower()
            commits = self._history.commits(prefix)
            if len(commits) > 1:
                raise DeniedError(f"generation {wanted!r}: names {len(commits)} commits")
            if not commits:
                return self._base(wanted, prefix)
            commit = commits.pop()
            refs = self._history.serving(commit, partial(self._is_base, commit))
            if refs is None and any(commit in _commits(each) for each in now.served):
                # That of a tag, or of another branch: whoever names it means its files
                return self._base(wanted, commit)
            refs = refs or self._history.serving(commit)
        return GitView(self._then(wanted, refs))

    def _then(self, wanted: str, refs: Mapping[str, Mapping[str, Tip]] | None) -> list[Served]:
        """@raises DeniedError: these refs are not known, no longer here, or may not be served."""
        if refs is None:
            raise _unknown(wanted)
        now = self._source.view
        served = [
            evolve(each, refs=refs[each.remote.key])
            for each in now.served
            if each.remote.key in refs
        ]
        if not served:
            # Its repositories are made anew, or were taken out of the configuration
            raise _unknown(wanted)
        newest = {each.remote.key: set(each.refs.values()) for each in now.served}
        for then in served:
            self._check(wanted, newest[then.remote.key], then)
        return served

    def _remade(self, wanted: str, made: Made) -> GitView:
        """What was served then, with a commit that was never served as environment C{base}."""
        then = self._then(wanted, self._history.generation(made.of))
        if made.base.keys() - {each.remote.key for each in then}:
            # That repository is made anew, or was taken out of the configuration
            raise _unknown(wanted)
        served = []
        for each in then:
            commit = made.base.get(each.remote.key)
            if commit is None:
                served.append(each)
                continue
            if each.signed is not None and commit not in each.signed:
                raise _unsigned(wanted, f"commit {commit} of {each.remote.shown}")
            if each.repository.commit(commit) is None:
                raise NotKept(
                    f"generation {wanted!r}: {each.remote.shown} keeps commit {commit} no longer"
                )
            served.append(with_base(each, commit))
        return GitView(served)

    def _is_base(self, commit: str, refs: Mapping[str, Mapping[str, Tip]]) -> bool:
        """Whether a commit was environment C{base} of a remote, as that is mapped now."""
        for each in self._source.view.served:
            tip = tip_of(each.remote, refs.get(each.remote.key, {}), "base")
            if isinstance(tip, Tip) and tip.commit == commit:
                return True
        return False

    def _check(self, wanted: str, known: set[Tip], then: Served) -> None:
        for ref, tip in then.refs.items():
            if then.signed is not None and tip.commit and tip.commit not in then.signed:
                raise _unsigned(wanted, f"commit {tip.commit} of {ref} of {then.remote.shown}")
            if tip not in known and tip.commit and then.repository.commit(tip.commit) is None:
                raise NotKept(
                    f"generation {wanted!r}: {then.remote.shown} keeps commit {tip.commit} of"
                    f" {ref} no longer"
                )

    def _base(self, wanted: str, prefix: str) -> GitView:
        """What is served now, with a commit that was never served as environment C{base}."""
        now = self._source.view
        found = [(each, each.repository.commit(prefix)) for each in now.served]
        having = [each for each, commit in found if commit is not None]
        if any(
            commit is not None and each.remote.verify and commit[0] not in (each.signed or ())
            for each, commit in found
        ):
            raise DeniedError(
                f"generation {wanted!r}: it was not served here, and only what is signed may be:"
                " tag it, or name a generation that was served"
            )
        if not having:
            raise _unknown(wanted)
        if len(having) > 1:
            raise DeniedError(f"generation {wanted!r}: {len(having)} remotes have such a commit")
        (only,) = having
        mine = with_base(only, prefix)
        view = GitView([mine if each is only else each for each in now.served])
        made = Made(now.name, {only.remote.key: mine.remote.base})
        if self._made.add(view.name, made, self._used()):
            self._changed()
        return view


def _commits(served: Served) -> set[str]:
    """Those that its refs lead to."""
    return {tip.commit for tip in served.refs.values()}


def _unknown(wanted: str) -> NotKept:
    why = "this master has no generation or commit of that name, or keeps it no longer"
    return NotKept(f"generation {wanted!r}: {why}")


def _unsigned(wanted: str, what: str) -> DeniedError:
    return DeniedError(f"generation {wanted!r}: {what} is not among those that were found signed")


def with_base(served: Served, prefix: str) -> Served:
    """The same, with a commit that it has as environment C{base}."""
    found = served.repository.commit(prefix)
    assert found is not None
    remote = served.remote
    changes: dict[str, Any] = {"base": found[0], "ref_types": (*remote.ref_types, "sha")}
    if remote.all_saltenvs is not None:
        changes["all_saltenvs"] = found[0]
    return evolve(served, remote=type(remote)(**{**vars(remote), **changes}))


def _note(change: Mapping[str, Any], shown: Mapping[str, str]) -> str:
    """What a generation changed, in a few words."""
    words = []
    for remote, refs in change.items():
        name = shown.get(remote, remote)
        if refs is None:
            words.append(f"{name} is gone")
            continue
        tips = [f"{_short(ref)} {tip[1][:12] if tip else 'is gone'}" for ref, tip in refs.items()]
        more = f" and {len(tips) - TOLD} more" if len(tips) > TOLD else ""
        words.append(f"{name}: {', '.join(tips[:TOLD])}{more}")
    return "; ".join(words)


def _short(ref: str) -> str:
    return ref.removeprefix("refs/").removeprefix("remotes/origin/")


def _without_credentials(kept: Mapping[str, Any]) -> dict[str, Any]:
    """What was written down, by keys without credentials: earlier versions wrote these, too."""

    def renamed(value: Any) -> Any:
        found = value.items() if isinstance(value, dict) else ()
        return {key_of_entry(str(name)): each for name, each in found}

    rows = kept.get("generations")
    rows = [
        [row[0], renamed(row[1]), *row[2:]] if isinstance(row, list) and len(row) > 2 else row
        for row in (rows if isinstance(rows, list) else ())
    ]
    return {"generations": rows, "made": kept.get("made"), "back": renamed(kept.get("back"))}


def _put(path: str, kept: Mapping[str, Any]) -> None:
    make_dir(os.path.dirname(path))
    write_atomic(path, pack_bin(kept))
