"""
What a job leaves on disk: its process file while it runs, its return until it is acknowledged.

C{cachedir/proc/<jid>} is Salt's own: the publication with the C{pid} of the process, by which
C{saltutil.running} and similar functions (stock's too) find the job. C{cachedir/outbox} is ours:
one file per return, complete or absent, which the minion's daemon of that time sends until a master
says that it has it. Every file is 0600 in directories of mode 0700.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack, pack_bin, unpack, unpack_bin

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\Z")


def valid_jid(jid: Any) -> bool:
    """Whether a job id can be a file's name; anything else from the network is not a job id."""
    return isinstance(jid, str) and _NAME.match(jid) is not None


def private_directory(path: str) -> str:
    """
    Make a directory of mode 0700, whatever the umask, if it is not there.

    @raises OSError: it cannot be made, or something else is there.
    """
    if not os.path.isdir(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
    return path


def write_whole(path: str, data: bytes, sync: bool) -> None:
    """
    Put a file of mode 0600 in place in one step.

    @param sync: whether the bytes and the name must be on the disk when this returns.
    @raises OSError: nothing is left behind then.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(temporary, flags, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except FileNotFoundError:
            pass
        raise
    if sync:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


SIGNALLED = "signalled"
"""The field of a process file with the number of the signal that somebody has sent to the job."""
ON_PURPOSE = "; somebody had it ended (saltutil.kill_job or the like)"


def proc_path(cachedir: str, jid: str) -> str:
    """Where the process file of a job is."""
    return os.path.join(cachedir, "proc", jid)


def write_proc(cachedir: str, job: Mapping[str, Any], pid: int) -> str:
    """
    Say that a process works on a job.

    @return: the file's path.
    """
    path = proc_path(cachedir, job["jid"])
    private_directory(os.path.dirname(path))
    write_whole(path, pack({"pid": pid, **job}), sync=False)
    return path


def note_signal(cachedir: str, job: Mapping[str, Any], number: int) -> None:
    """
    Note in a process file that somebody has a signal sent to the job, before it is sent: its end is
    told from one that nobody wanted.

    @param job: the map of the process file.
    @raises OSError: it cannot be written.
    """
    write_proc(cachedir, {**job, SIGNALLED: number}, int(job["pid"]))


def signalled(path: str) -> bool:
    """Whether somebody had a signal sent to the job of a process file."""
    try:
        with open(path, "rb") as stream:
            data = unpack(stream.read())
    except (OSError, WireError):
        return False
    return isinstance(data, dict) and SIGNALLED in data


def remove_quietly(path: str) -> None:
    """Remove a file that may be gone already."""
    try:
        os.unlink(path)
    except OSError:
        pass


def read_procs(cachedir: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every readable process file: its path and its map."""
    folder = os.path.join(cachedir, "proc")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        if name.startswith("."):
            continue
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as stream:
                data = unpack(stream.read())
        except (OSError, WireError):
            continue
        if isinstance(data, dict) and isinstance(data.get("pid"), int):
            yield path, data


def is_job_process(pid: int, jid: str) -> bool:
    """
    Whether this process still works on this job.

    A job's process holds its process file's name in its command name (see
    L{saltwisted.worker.process.main}); a stranger that got the same pid later does not.
    """
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip() == command_name(jid)
    except OSError:
        return False


def command_name(jid: str) -> str:
    """The command name (15 bytes at most, by the kernel) of the process of a job."""
    return f"salt-{jid[-10:]}"


def failed(job: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The return of a job that has none of its own."""
    ret: dict[str, Any] = {"success": False, "retcode": 1, "return": text, "out": "nested"}
    if isinstance(job.get("fun"), (list, tuple)):
        names = list(job["fun"])
        del ret["out"]
        ret["return"] = dict.fromkeys(names, text)
        ret["retcode"] = dict.fromkeys(names, 1)
        ret["success"] = dict.fromkeys(names, False)
    ret.update(jid=job.get("jid"), fun=job.get("fun"), fun_args=job.get("arg", []))
    for key in ("user", "master_id", "metadata"):
        if key in job:
            ret[key] = job[key]
    return ret


@frozen
class OutboxReturn:
    """
    A return in the outbox.

    @ivar load: in the form in which it is sent to the master.
    @ivar via: the name of the master that it is for; C{""}: any.
    """

    load: dict[str, Any]
    via: str


def read_kept(data: bytes) -> OutboxReturn | None:
    """A return out of a file's bytes; C{None} if it is damaged."""
    try:
        record = unpack_bin(data)
    except WireError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("load"), dict):
        return None
    return OutboxReturn(record["load"], str(record.get("via") or ""))


class Outbox:
    """
    Returns on disk, one file each, named by time so that sorting is sending order.

    @param path: the directory; created at the first write.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def put(self, load: Mapping[str, Any], via: str = "") -> tuple[str, bytes]:
        """
        Keep a return; it is on the disk when this is back.

        @return: the file's name, and what is in it.
        @raises OSError: the disk refused.
        @raises TypeError: the return holds what cannot be sent.
        """
        data = pack_bin({"load": load, "via": via})
        name = f"{time.time_ns():020d}_{load.get('jid', 'req')}"
        private_directory(self.path)
        write_whole(os.path.join(self.path, name), data, sync=True)
        return name, data

    def names(self) -> list[str]:
        """Names of complete files, oldest first."""
        try:
            return sorted(name for name in os.listdir(self.path) if _NAME.match(name))
        except OSError:
            return []

    def read(self, name: str) -> OutboxReturn | None:
        """
        A kept return; C{None} if it is gone. A damaged file is put aside, never sent.

        @raises OSError: it cannot be read now.
        """
        path = self._path(name)
        try:
            with open(path, "rb") as stream:
                kept = read_kept(stream.read())
        except FileNotFoundError:
            return None
        if kept is None:
            os.rename(path, os.path.join(self.path, f".damaged-{name}"))
        return kept

    def remove(self, name: str) -> None:
        """Forget a return."""
        remove_quietly(self._path(name))

    def _path(self, name: str) -> str:
        if _NAME.match(name) is None:
            raise ValueError(f"{name!r} is not the name of a return")
        return os.path.join(self.path, name)


def jid_of(name: str) -> str:
    """The job id in the name of a kept return."""
    return name.partition("_")[2]
