"""
What each part of a kind has to do: one Protocol for each kind of which there are several.

A sentence of a docstring here is a claim of C{tests/contracts}, which all parts of the kind and
the fake of L{saltwisted.testing} pass. Which parts there are, and how a site chooses, is in
L{saltwisted.kinds}. Values are plain data or frozen classes of C{wire}, C{domain} and C{stores}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol


class ILoginProof(Protocol):
    """
    One way to prove a login, as C{external_auth} names it. In a worker process; it may block.
    """

    def prove(self, settings: Mapping[str, Any], username: str, password: str) -> Any:
        """
        Judge a name and a password, of a form that L{saltwisted.domain.eauth.credentials} lets
        through. It raises nothing, and keeps nothing for the next call.

        @param settings: what L{saltwisted.config.logins} gives it of the master's options.
        @return: a L{saltwisted.domain.eauth.Proof}.
        """

    def look(self, settings: Mapping[str, Any], username: str) -> Any:
        """
        What is known of a user now, without his password: whether there is such a user, and his
        groups. It raises nothing, and lets nobody in.

        @return: a L{saltwisted.domain.eauth.Proof}; with a C{problem} where that cannot be asked.
        """


class IFunctionModule(Protocol):
    """A module of runners, or of the wheel: what C{salt-run NAME.*} calls. A Python module fits."""

    @property
    def FUNCTIONS(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """
        Function by name. Asked at each call: a module may learn and forget functions.

        Each is a coroutine function of the reactor's thread, which blocks nobody: what takes long
        is done in a worker process. Its first parameter is the call
        (L{saltwisted.master.runner_table.Run}, L{saltwisted.master.wheel_table.Call}), the others
        are the caller's; C{inspect.signature} tells them. Its docstring is what C{salt-run -d}
        shows. A C{ValueError}, or an error of L{saltwisted.errors}, is told to the caller in its
        own words.
        """


class IMinionCache(Protocol):
    """
    What a master knows about minions, as C{cache} says where: grains, pillar and mine.

    Reactor thread only. What is asked is answered at once, since targets ask ten thousand times in
    a row: a store that is far away keeps all of it here as well, learns it before it has started,
    and hears of changes. What is put counts for the next question, and is written a little later. A
    bank is C{grains}, C{pillar} or C{mine}.
    """

    def startService(self) -> Any:
        """
        Learn whose values there are; may be a Deferred.

        @raises StoreError: that cannot be found out.
        """

    def stopService(self) -> Any:
        """Write what is still waiting; may be a Deferred."""

    def get(self, bank: str, minion_id: str) -> Mapping[str, Any] | None:
        """The value, or C{None}. It is shared: whoever asks does not change it."""

    def part(self, bank: str, minion_id: str, keys: tuple[Any, ...]) -> Mapping[Any, Any] | None:
        """Some keys of a value, those that it has; C{None} where there is no value."""

    def packed(self, bank: str, minion_id: str) -> bytes | None:
        """The value as L{saltwisted.wire.msgpack.pack_bin} packs it, or C{None}."""

    def has(self, bank: str, minion_id: str) -> bool:
        """Whether there is a value, without reading it."""

    def ids(self, bank: str) -> Sequence[str]:
        """Sorted ids of minions that have a value in the bank."""

    def put(self, bank: str, minion_id: str, value: Mapping[str, Any]) -> None:
        """
        Replace a value. One that is equal changes nothing, and nobody is told.

        @raises StoreError: that is no minion id.
        """

    def delete(self, bank: str, minion_id: str) -> None:
        """Forget a value; it does not come back, not even after a crash."""

    def adopt(self, bank: str, minion_id: str, data: bytes | None) -> None:
        """
        Take over what another node has: packed bytes, or C{None} to forget. Tells nobody. What
        cannot be read is forgotten when somebody asks for it.
        """

    def on_change(self, receiver: Callable[[str, str, bytes | None], None]) -> None:
        """
        Call C{receiver(bank, minion_id, packed)} after each L{put} that was news and each
        L{delete} of what was there (C{None}).
        """

    def retry(self) -> None:
        """Try again to write what was refused; called now and then."""

    @property
    def problem(self) -> str:
        """Why the last write failed, or C{""}; for the status."""


class IFileSource(Protocol):
    """
    Where served files come from, as C{fileserver_backend} names it. Reactor thread only.

    A source has environments, each a tree of files. Whatever a path is called and wherever a
    link leads, a source serves what is in its trees, and nothing else of this machine. An answer
    that is at hand is a value; else it is a Deferred, and a thread or a process is busy with it. A
    source of commits or generations is made for one of them, or for the newest that is whole: what
    it lists and what it reads belong together.
    """

    @property
    def name(self) -> str:
        """As C{fileserver_backend} calls it."""

    def startService(self) -> Any:
        """
        Get ready; may be a Deferred.

        @raises StoreError: it cannot serve as it is configured.
        """

    def stopService(self) -> Any:
        """Serve no more; may be a Deferred."""

    def envs(self) -> Sequence[str]:
        """Names of the environments, sorted."""

    def refresh(self) -> None:
        """Look again now, instead of when a change is noticed."""

    def find(self, saltenv: str, path: str, index: int | None = None) -> Any:
        """
        Look a file up, at once.

        @param path: relative; whatever somebody on the network has sent.
        @param index: only in that one of the places that this environment has, counted from 0.
        @return: an L{IServedFile}, or C{None}.
        """

    def hash(self, found: Any) -> Any:
        """
        The hash of a file in hex, by C{hash_type}, or a Deferred of it.

        @raises StoreError: it cannot be read; also through the Deferred.
        """

    def read(self, found: Any, start: int, size: int) -> Any:
        """
        Up to C{size} bytes from C{start}, as many as there are, or a Deferred of them.

        @raises StoreError: they cannot be read, or are not those of the file that was found; also
            through the Deferred. A file never seems to end where it does not.
        """

    def listing(self, saltenv: str) -> Any:
        """
        A L{saltwisted.stores.roots.tree.Listing}, or a Deferred of it; empty where nothing is.
        """


class IServedFile(Protocol):
    """A file that a source has found, as it is at this moment."""

    @property
    def full(self) -> str:
        """Its path on this machine, as Salt's clients are told."""

    @property
    def rel(self) -> str:
        """Its path in its environment, normalised."""

    @property
    def info(self) -> Any:
        """Its C{os.stat_result}."""

    @property
    def back(self) -> str:
        """The name of its source."""


class IJobStore(Protocol):
    """
    Jobs and returns, as C{master_job_cache} says where. Reactor thread only.

    What is acknowledged is on a disk: it is there after the process was killed, and after the
    machine has lost its power. A record of a job comes of its publication, or else of a return,
    which says what it can (C{claimed}); a publication replaces what returns have said, never the
    reverse.

    @ivar on_open: called once at the start, when L{newest_jid} can be asked and before anything is
        written.
    """

    on_open: list[Callable[[], None]]

    def startService(self) -> Any:
        """
        Open it; may be a Deferred.

        @raises StoreError: it cannot be used.
        """

    def stopService(self) -> Any:
        """Write what waits, then close; whatever comes later is refused. May be a Deferred."""

    @property
    def problem(self) -> str:
        """Why jobs and returns are not taken, or C{""}; for the status."""

    @property
    def queued(self) -> int:
        """Writes that wait now."""

    def newest_jid(self, slot: int | None = None) -> str:
        """
        At the start: the newest jid of a published job that is not of a day to come, or C{""}.

        @param slot: of those that end in these two digits.
        """

    def save_job(
        self, jid: str, load: Mapping[str, Any], minions: Sequence[str], chosen: bool = False
    ) -> Awaitable[None]:
        """
        Remember a published job and whom it expects; fires once that is on disk.

        @param chosen: its jid was a caller's choice, so that there may be a job by it.
        @raises DeniedError: when it fires, where that job holds, since it began before.
        @raises StoreError: when it fires, where it cannot be kept.
        """

    def save_return(self, load: Mapping[str, Any], requested: bool = False) -> Awaitable[bool]:
        """
        Store a return (Salt's C{_return} load); fires once it is on disk: true if new, false if
        there was one of this minion and job, which stays.

        @param requested: the jid was allocated for this return (C{jid: req}).
        @raises StoreError: when it fires, where it cannot be kept; others are not harmed.
        """

    def job(self, jid: str) -> Awaitable[Mapping[str, Any] | None]:
        """Load, C{jid}, C{minions} and C{started} of a job, C{claimed} if nobody published it."""

    def returns(self, jid: str) -> Awaitable[Mapping[str, Mapping[str, Any]]]:
        """
        Minion id, in order, to what it returned (C{return retcode success fun fun_args out?}),
        without what belongs to the request itself.
        """

    def list_jobs(self, **criteria: Any) -> Awaitable[Sequence[Any]]:
        """
        Jobs as in L{job}, newest last, without their minions.

        @param criteria: C{limit} (the newest so many), C{fun} (exact), C{not_fun}, C{since} and
            C{until} (seconds since 1970), C{minions} (true: with them), C{below} (in the order of
            jids, and only those before this one; any, if it is empty), C{shown} (a function of a
            module, which any thread may call: what it makes of each job stands in its place, and
            may be given again as long as the record is the same; nobody changes it).
        @raises TypeError: another one.
        """

    def bring_in(
        self, jobs: Sequence[tuple[Any, ...]], returns: Sequence[tuple[Any, ...]]
    ) -> Awaitable[tuple[int, int]]:
        """
        Add records of another master, with their own times; what is here already stays.

        @param jobs: jid, seconds since 1970, function, packed load, packed ids of minions.
        @param returns: jid, minion id, seconds since 1970, packed load.
        @return: how many of each were new; fires once they are on disk.
        """

    def prune(self, by: Callable[[], float | None] | None = None) -> Awaitable[int]:
        """
        Forget jobs that came more than C{keep_jobs_seconds} ago, with their returns; 0 keeps for
        ever. Fires with how many records are gone.

        @param by: what time it is for who forgets; C{None}: nothing may be forgotten now. Without
            it, the store's own clock.
        """
