"""
The interfaces of the interchangeable parts: one Protocol for each kind of part.

Each sentence of a docstring here is a claim that C{tests/contracts} tests. All parts of the kind,
and the fake in L{saltwisted.testing}, pass these tests. L{saltwisted.kinds} lists the parts, and
says how a site chooses one. Values are plain data or frozen classes of C{wire}, C{domain} and
C{stores}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol


class ILoginProof(Protocol):
    """
    A login backend, as C{external_auth} names it. It runs in a worker process, and may block.
    """

    def prove(self, settings: Mapping[str, Any], username: str, password: str) -> Any:
        """
        Check a name and a password that L{saltwisted.domain.eauth.credentials} has accepted. It
        raises nothing, and keeps nothing for the next call.

        @param settings: the part of the master's options that L{saltwisted.config.logins} selects.
        @return: a L{saltwisted.domain.eauth.Proof}.
        """

    def look(self, settings: Mapping[str, Any], username: str) -> Any:
        """
        Look up a user without the password: whether the user exists, and the user's groups. It
        raises nothing, and logs nobody in.

        @return: a L{saltwisted.domain.eauth.Proof}; with a C{problem} if the backend cannot tell.
        """


class IFunctionModule(Protocol):
    """A module of runner or wheel functions (C{salt-run NAME.*}). A Python module fits."""

    @property
    def FUNCTIONS(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """
        Function by name. The table reads it at each call, so a module may add and remove functions.

        Each is a coroutine function that runs in the reactor thread and must not block: long work
        goes to a worker process. Its first parameter is the call
        (L{saltwisted.master.runner_table.Run}, L{saltwisted.master.wheel_table.Call}); the others
        are the caller's, found by C{inspect.signature}. C{salt-run -d} shows its docstring. The
        caller sees the text of a C{ValueError}, or of an error of L{saltwisted.errors}.
        """


class IMinionCache(Protocol):
    """
    The minion cache, chosen by C{cache}: what a master knows about minions.

    Reactor thread only. It answers at once, since targets ask ten thousand times in a row: a remote
    store keeps a local copy of everything, loads it before it has started, and follows changes. A
    value that was put is visible at once, and is written a little later. A bank is C{grains},
    C{pillar} or C{mine}.
    """

    def startService(self) -> Any:
        """
        Learn which minions have values; may be a Deferred.

        @raises StoreError: the cache cannot find out.
        """

    def stopService(self) -> Any:
        """Write what still waits; may be a Deferred."""

    def get(self, bank: str, minion_id: str) -> Mapping[str, Any] | None:
        """The value, or C{None}. It is shared: the caller must not change it."""

    def part(self, bank: str, minion_id: str, keys: tuple[Any, ...]) -> Mapping[Any, Any] | None:
        """Those of the keys that the value has; C{None} if there is no value."""

    def packed(self, bank: str, minion_id: str) -> bytes | None:
        """The value as L{saltwisted.wire.msgpack.pack_bin} packs it, or C{None}."""

    def has(self, bank: str, minion_id: str) -> bool:
        """Whether there is a value, without reading it."""

    def ids(self, bank: str) -> Sequence[str]:
        """Sorted ids of minions that have a value in the bank."""

    def put(self, bank: str, minion_id: str, value: Mapping[str, Any]) -> None:
        """
        Replace a value. An equal value changes nothing, and no receiver is called.

        @raises StoreError: not a minion id.
        """

    def delete(self, bank: str, minion_id: str) -> None:
        """Forget a value; it does not come back, not even after a crash."""

    def adopt(self, bank: str, minion_id: str, data: bytes | None) -> None:
        """
        Take the value of another node: packed bytes, or C{None} to forget. No receiver is called.
        If the bytes cannot be read, the value is forgotten when somebody asks for it.
        """

    def on_change(self, receiver: Callable[[str, str, bytes | None], None]) -> None:
        """
        Call C{receiver(bank, minion_id, packed)} after each L{put} of a different value and each
        L{delete} of an existing one (C{packed} is then C{None}).
        """

    def retry(self) -> None:
        """Try again to write what the disk refused; called from time to time."""

    @property
    def problem(self) -> str:
        """Why the last write failed, or C{""}; for the status."""


class IFileSource(Protocol):
    """
    A source of served files, as C{fileserver_backend} names it. Reactor thread only.

    A source has environments, each a tree of files. Whatever a path is called and wherever a
    link leads, a source serves only what is in its trees. A method returns a value if the answer is
    at hand, else a Deferred while a thread or a process works. A source of commits or generations
    serves one of them, or the newest complete one: its listings and contents belong together.
    """

    @property
    def name(self) -> str:
        """The name in C{fileserver_backend}."""

    def startService(self) -> Any:
        """
        Get ready; may be a Deferred.

        @raises StoreError: it cannot serve as it is configured.
        """

    def stopService(self) -> Any:
        """Stop serving; may be a Deferred."""

    def envs(self) -> Sequence[str]:
        """Names of the environments, sorted."""

    def refresh(self) -> None:
        """Look for changes now, instead of when one is noticed."""

    def find(self, saltenv: str, path: str, index: int | None = None) -> Any:
        """
        Look a file up: at once, or with a Deferred if its way leads through very large directories.

        @param path: relative, and untrusted: it comes from the network.
        @param index: look only in this directory of the environment, counted from 0.
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
            through the Deferred. A read never ends early without an error.
        """

    def listing(self, saltenv: str) -> Any:
        """
        A L{saltwisted.stores.roots.tree.Listing}, or a Deferred of it; empty if there is nothing.
        """


class IServedFile(Protocol):
    """A file that a source has found, as it was at that moment."""

    @property
    def full(self) -> str:
        """Its path on this machine, as Salt's clients see it."""

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
    The store of jobs and returns, chosen by C{master_job_cache}. Reactor thread only.

    What is acknowledged is on a disk: it survives a killed process and a loss of power. The record
    of a job comes from its publication, or else from a return, which has less (C{claimed}); a
    publication replaces a record made from returns, never the reverse.

    @ivar on_open: called once at the start, when L{newest_jid} works and before anything is
        written.
    """

    on_open: list[Callable[[], None]]

    def startService(self) -> Any:
        """
        Open the store; may be a Deferred.

        @raises StoreError: it cannot be used.
        """

    def stopService(self) -> Any:
        """Write what waits, then close; later writes are refused. May be a Deferred."""

    @property
    def problem(self) -> str:
        """Why the store refuses jobs and returns, or C{""}; for the status."""

    @property
    def queued(self) -> int:
        """The number of waiting writes."""

    def newest_jid(self, slot: int | None = None) -> str:
        """
        At the start: the newest jid of a published job, not of a future day, or C{""}.

        @param slot: only among jids that end in these two digits.
        """

    def save_job(
        self, jid: str, load: Mapping[str, Any], minions: Sequence[str], chosen: bool = False
    ) -> Awaitable[None]:
        """
        Store a published job and the minions that it expects; fires once that is on disk.

        @param chosen: the caller chose the jid, so another job may have it already.
        @raises DeniedError: through the result: another job has this jid, and began before.
        @raises StoreError: through the result: the job cannot be stored.
        """

    def save_return(self, load: Mapping[str, Any], requested: bool = False) -> Awaitable[bool]:
        """
        Store a return (Salt's C{_return} load); fires once it is on disk: true if new, false if
        there was one of this minion and job, which stays.

        @param requested: the jid was allocated for this return (C{jid: req}).
        @raises StoreError: through the result: it cannot be stored; others are not affected.
        """

    def job(self, jid: str) -> Awaitable[Mapping[str, Any] | None]:
        """Load, C{jid}, C{minions} and C{started} of a job, C{claimed} if nobody published it."""

    def returns(self, jid: str) -> Awaitable[Mapping[str, Mapping[str, Any]]]:
        """
        Minion id, in order, to its return (C{return retcode success fun fun_args out?}), without
        the fields of the request itself.
        """

    def list_jobs(self, **criteria: Any) -> Awaitable[Sequence[Any]]:
        """
        Jobs as in L{job}, newest last, without their minions.

        @param criteria: C{limit} (the newest N), C{fun} (exact), C{not_fun}, C{since} and
            C{until} (seconds since 1970), C{minions} (true: with their minions), C{below} (in the
            order of jids, and only those before this one; all, if it is empty), C{shown} (a
            function of a module, which any thread may call: its result for each job replaces the
            job, and may be given again while the record is the same; callers must not change it).
        @raises TypeError: an unknown criterion.
        """

    def bring_in(
        self, jobs: Sequence[tuple[Any, ...]], returns: Sequence[tuple[Any, ...]]
    ) -> Awaitable[tuple[int, int]]:
        """
        Add records of another master, with their own times; existing records stay.

        @param jobs: jid, seconds since 1970, function, packed load, packed ids of minions.
        @param returns: jid, minion id, seconds since 1970, packed load.
        @return: how many of each were new; fires once they are on disk.
        """

    def prune(self, by: Callable[[], float | None] | None = None) -> Awaitable[int]:
        """
        Forget jobs that came more than C{keep_jobs_seconds} ago, with their returns; 0 keeps them
        for ever. Fires with the number of forgotten records.

        @param by: gives the time to prune by, or C{None} if nothing may be forgotten now. By
            default the store's own clock.
        """
