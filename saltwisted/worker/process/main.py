"""
A worker process: one job, from its publication to its return on disk.

Forked by the warm parent (L{saltwisted.worker.process.warm}), this writes Salt's process file, runs
the function (L{saltwisted.worker.process.call}), writes the return into the outbox
(C{worker.jobfiles}) and only then informs the daemon. So neither the end of the daemon nor the end
of this process loses a return. C{minion.jobs} has the daemon's side.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from saltwisted.domain.secrecy import discreet, told, told_event
from saltwisted.domain.sitecode import place_of
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient
from saltwisted.worker.exceptions import SaltClientError, SaltReqTimeoutError
from saltwisted.worker.jobfiles import Outbox, command_name, failed, remove_quietly, write_proc
from saltwisted.worker.process import asbefore
from saltwisted.worker.process.call import execute
from saltwisted.worker.process.daemonlog import DaemonLog, log_to
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.process.warm import Facts, name_process
from saltwisted.worker.unlogged import silent, unlogged_job

log = logging.getLogger(__name__)

UMASK = 0o022
"""What modules make is as public as stock's; what saltwisted itself writes sets its own modes."""

ANSWER = 60.0
"""Seconds that the daemon has to take a return, which lies on disk anyway."""

INLINE = 1 << 18
"""Bytes of a return that are handed to the daemon as well, to spare it the reading."""

ABSENT = 60.0
"""Seconds that a request to the master waits for a daemon that is being restarted."""


class MasterLink:
    """
    C{__master__}: requests to the master, made by the daemon for us.

    @ivar connected: false if there is no master to ask (C{--local}).
    """

    connected = True

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    def request(self, load: dict[str, Any], timeout: float | None = None) -> Any:
        """
        Send one request and wait for the master's answer.

        @param load: with its C{cmd}; the daemon adds C{id}, C{tok}, C{nonce} and C{ts}.
        @param timeout: seconds, or C{None}: as long as the daemon tries.
        @raises SaltReqTimeoutError: no answer in time.
        @raises SaltClientError: no master, or it refused.
        """
        return self._ask("request", dict(discreet(load)) if silent() else load, timeout)

    def pillar(self, load: dict[str, Any], timeout: float | None = None) -> Any:
        """As L{request}, for C{_pillar}, whose answer is sealed for this minion alone."""
        return self._ask("pillar_request", load, timeout)

    def requests(self, loads: Iterable[dict[str, Any]], window: int) -> Generator[Any, None, None]:
        """Several requests, some on their way at once; the answers in order."""
        flow = self._client.pipeline("request", ({"load": load} for load in loads), window)
        with _master_errors("request"):
            yield from flow

    def _ask(self, op: str, load: dict[str, Any], timeout: float | None) -> Any:
        patience = ABSENT if self._client.path is not None else 0.0
        gone_at = 0.0
        with _master_errors(str(load.get("cmd"))):
            while True:
                try:
                    return self._client.call_within(timeout, op, load=load)
                except TransportClosed:
                    # The daemon may be on its way back, as another process on the same path.
                    now = time.monotonic()
                    gone_at = gone_at or now
                    if now - gone_at >= patience:
                        raise
                    time.sleep(0.5)


@contextmanager
def _master_errors(what: str) -> Iterator[None]:
    """What can go wrong between us and the master, in the words that modules know."""
    try:
        yield
    except TimeoutError as error:
        raise SaltReqTimeoutError(f"{what}: the master did not answer") from error
    except RemoteError as error:
        if error.name in ("SaltReqTimeoutError", "TimeoutError"):
            raise SaltReqTimeoutError(error.message) from error
        raise SaltClientError(error.message) from error
    except TransportClosed as error:
        raise SaltClientError(f"{what}: {error}") from error


class NoMaster:
    """C{__master__} without a master: every request says so."""

    connected = False

    def __init__(self, reason: str = "file_client is local") -> None:
        self._reason = reason

    def request(self, load: dict[str, Any], timeout: float | None = None) -> Any:
        """
        There is nobody to ask.

        @raises SaltClientError: always.
        """
        raise SaltClientError(f"{load.get('cmd')}: there is no master to ask, {self._reason}")

    pillar = request


class DaemonLink:
    """C{__daemon__}: the minion that this job belongs to."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    def call(self, op: str, /, **args: Any) -> Any:
        """
        An operation of the minion's control socket.

        @raises RemoteError: the daemon refused.
        @raises TransportClosed: the daemon is gone.
        """
        if op == "fire_event" and silent() and isinstance(args.get("data"), dict):
            # The tag, too: the name of a state is in it
            args["tag"], args["data"] = told_event(str(args.get("tag", "")), args["data"])
        return self._client.call(op, **args)

    def notify(self, op: str, /, **args: Any) -> None:
        """As L{call}, without waiting for an answer."""
        self._client.notify(op, **args)


def settle_process(name: str) -> None:
    """What every worker is: its own name, Salt's umask, silent on stdout, loud when it crashes."""
    name_process(name)
    os.umask(UMASK)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1, inheritable=True)
    os.close(null)
    faulthandler.enable(file=sys.stderr)


def job_loaders(client: ControlClient, facts: Mapping[str, Any]) -> Loaders:
    """
    Salt's surroundings for a job: options, grains and pillar from the daemon's facts.

    @param facts: C{opts}, and C{grains} and C{pillar} as far as the daemon knows them.
    """
    opts = dict(facts["opts"])
    remote = opts.get("file_client", "remote") == "remote"
    master: Any = MasterLink(client) if remote else NoMaster()

    def grains() -> Any:
        if "grains" in facts:
            return facts["grains"]
        return make_grains(opts)

    def file_client() -> Any:
        from saltwisted.worker.fileclient import file_client as make

        if remote:
            return make(opts, master)
        from saltwisted.worker.git.localfiles import local_files

        return make(opts, master, served=local_files(opts))

    asbefore.watching[:] = [asbefore.Told(client)]
    return Loaders(
        opts,
        grains=grains,
        pillar=lambda: facts.get("pillar", {}),
        master=master,
        daemon=DaemonLink(client),
        fileclient=file_client,
    )


def run_job(payload: Mapping[str, Any], client: ControlClient, facts: Facts) -> None:
    """
    The entry of a job's process.

    @param payload: C{job} (Salt's publication), C{outbox} (a directory), and what is set of

        - C{socket}: where the daemon after this one will listen,
        - C{blackouts}: see L{execute},
        - C{private}: the return goes to the daemon as a value, and not to the disk,
        - C{own}: whether the job is the daemon's own (L{execute}); the default is C{private},
        - C{listed}: whether there is a process file; the default is that there is one unless
          C{private},
        - C{return_jid}: the return's own jid (C{req}: the master shall make one; C{""}: no
          return),
        - C{via}: the name of the master that the return is for,
        - C{without}: facts that are not to be believed, but found again.
    """
    job = dict(payload["job"])
    for name in payload.get("without", ()):
        facts.drop(name)
    set_environment(facts.get("environ") or {})
    settle_process(command_name(job["jid"]))
    client.path = payload.get("socket")
    log_to(DaemonLog(client), facts["opts"])
    loaders = job_loaders(client, facts)
    opts = loaders.opts
    private = bool(payload.get("private"))
    own = bool(payload.get("own", private))
    proc = None
    if payload.get("listed", not private):
        proc = listed(opts["cachedir"], job)
    if job.get("start_event"):
        _tell(client, _start_event(opts["id"], job))

    def progress(number: int, value: Any) -> None:
        _tell(client, _progress(opts["id"], job, number, value))

    blackouts = payload.get("blackouts", ())
    before = asbefore.AsBefore()
    with unlogged_job(job):
        ret = guarded(
            lambda: execute(loaders, job, blackouts=blackouts, progress=progress, own=own), job
        )
    before.put_back()
    # Before any disk or returner has it; what the daemon asks for itself has no mark
    ret = dict(told(ret))
    if "schedule" in job:
        ret.update(schedule=job["schedule"], pid=os.getpid())
    if private:
        if proc is not None:
            remove_quietly(proc)
        client.call_within(ANSWER, "private_return", ret=sendable(ret))
        return
    returned = {**ret, "jid": payload.get("return_jid", ret["jid"])}
    if suppressed(ret) or not returned["jid"]:
        if proc is not None:
            remove_quietly(proc)
        client.call_within(ANSWER, "return")
    else:
        if opts.get("cache_jobs"):
            cache_job(opts, ret)
        outbox = Outbox(payload["outbox"])
        hand_in(client, outbox, opts, returned, proc, str(payload.get("via", "")))
    if not suppressed(ret):
        run_returners(loaders, job, ret)


def set_environment(changes: Mapping[str, Any]) -> None:
    """
    Bring the environment to where C{environ.setenv ... update_minion=True} has put it.

    @param changes: C{clear}: forget all others first; C{values}: by name, C{None} to unset.
    """
    if changes.get("clear"):
        os.environ.clear()
    for name, value in (changes.get("values") or {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def listed(cachedir: str, job: Mapping[str, Any]) -> str | None:
    """Write the process file; a disk that refuses does not stop the job."""
    try:
        return write_proc(cachedir, told(job), os.getpid())
    except OSError as error:
        log.error("Job %s is not listed as running: %s", job["jid"], error)
        return None


def guarded(run: Callable[[], dict[str, Any]], job: Mapping[str, Any]) -> dict[str, Any]:
    """A job's return also when the function ends the process by an exit or out of memory."""
    me = os.getpid()
    try:
        ret = run()
    except BaseException as error:
        _one_returns(me)
        text = f"The function terminated its process: {type(error).__name__}: {error}"
        place = place_of(error)
        text += f" ({place})" if place else ""
        log.error("%s\n%s", text, traceback.format_exc())
        return failed(job, text)
    _one_returns(me)
    return ret


def _one_returns(me: int) -> None:
    """A function has forked, and its child came back as well: the return is the parent's."""
    if os.getpid() != me:
        os._exit(0)


def suppressed(ret: Mapping[str, Any]) -> bool:
    """Whether the function asked that nothing be returned (a state run that queued itself)."""
    value = ret.get("return")
    return isinstance(value, dict) and bool(value.get("__no_return__"))


def sendable(ret: dict[str, Any]) -> dict[str, Any]:
    """The return itself, or a failed one that says why it cannot be serialised."""
    from saltwisted.wire.msgpack import pack_bin

    try:
        pack_bin(ret)
    except TypeError as error:
        log.error("The return of %s cannot be sent: %s", ret.get("fun"), error)
        job = {"jid": ret.get("jid"), "fun": ret.get("fun"), "user": ret.get("user")}
        return failed(job, f"The return of {ret.get('fun')} cannot be sent: {error}")
    return ret


def hand_in(
    client: ControlClient,
    outbox: Outbox,
    opts: Mapping[str, Any],
    ret: dict[str, Any],
    proc: str | None,
    via: str = "",
) -> None:
    """
    Put the return on disk, take the job off the list, and tell the daemon.

    A disk that refuses is said in the log, and the daemon then has the return in its memory
    alone.
    """
    load = {"cmd": "_return", "id": opts["id"], **ret}
    name, data = "", b""
    try:
        try:
            name, data = outbox.put(load, via)
        except TypeError:
            load = {"cmd": "_return", "id": opts["id"], **sendable(ret)}
            name, data = outbox.put(load, via)
    except OSError as error:
        log.error("The return of job %s cannot be kept on disk: %s", ret.get("jid"), error)
    if proc is not None:
        remove_quietly(proc)
    args: dict[str, Any] = {"name": name} if name else {"load": load, "via": via}
    if name and len(data) <= INLINE:
        args["packed"] = data
    for last in (False, True):
        try:
            client.call_within(ANSWER, "return", **args)
        except (TransportClosed, TimeoutError, RemoteError) as error:
            if last or not isinstance(error, TransportClosed) or client.path is None:
                log.info("The return of job %s waits on disk: %s", ret.get("jid"), error)
                return
        else:
            return


def cache_job(opts: Mapping[str, Any], ret: Mapping[str, Any]) -> None:
    """C{cache_jobs}: keep a copy of the return on this machine, where stock keeps it."""
    from saltwisted.wire.msgpack import pack
    from saltwisted.worker.jobfiles import private_directory, write_whole

    jid = ret["jid"]
    if jid == "req":
        jid = (
            time.strftime("%Y%m%d%H%M%S", time.gmtime()) + f"{time.time_ns() // 1000 % 1000000:06}"
        )
    try:
        folder = private_directory(os.path.join(opts["cachedir"], "minion_jobs"))
        folder = private_directory(os.path.join(folder, jid))
        write_whole(os.path.join(folder, "return.p"), pack(ret), sync=False)
    except (OSError, TypeError) as error:
        log.error("The return of job %s cannot be cached: %s", jid, error)


def run_returners(loaders: Loaders, job: Mapping[str, Any], ret: dict[str, Any]) -> None:
    """Give the return to the returners of the job and of the configuration."""
    names = [str(part) for part in (job.get("ret"), loaders.opts.get("return")) if part]
    wanted = {name.strip() for part in names for name in part.split(",")} - {""}
    if not wanted:
        return
    full = {**ret, "id": loaders.opts["id"]}
    for key in ("ret_config", "ret_kwargs"):
        if key in job:
            full[key] = job[key]
    returners = loaders["returners"]
    for name in sorted(wanted):
        function = f"{name}.returner"
        try:
            if function in returners:
                returners[function](full)
            else:
                log.error(
                    "Returner %s could not be loaded: %s",
                    function,
                    returners.missing_fun_string(function),
                )
        except Exception:
            log.exception("The return failed for job %s", job.get("jid"))


def _start_event(minion: str, job: Mapping[str, Any]) -> dict[str, Any]:
    data = {
        "id": minion,
        **{key: job.get(key) for key in ("jid", "fun", "tgt", "tgt_type", "user")},
    }
    for key in ("master_id", "metadata"):
        if job.get(key) is not None:
            data[key] = job[key]
    return {"tag": f"salt/job/{job['jid']}/start/{minion}", "data": data}


def _progress(minion: str, job: Mapping[str, Any], number: int, value: Any) -> dict[str, Any]:
    return {"tag": f"salt/job/{job['jid']}/prog/{minion}/{number}", "data": {"return": value}}


def _tell(client: ControlClient, event: dict[str, Any]) -> None:
    """An event on its way to the master; a job does not fail for it."""
    try:
        client.notify("fire_event", **event, to_master=True)
    except TransportClosed as error:
        log.warning("The event %s is lost: %s", event["tag"], error)
