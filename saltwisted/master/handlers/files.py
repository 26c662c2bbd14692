"""
The file server's commands, one function each; L{saltwisted.master.fileserver} has their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from saltwisted.master.chunks import LARGE, Place
from saltwisted.master.context import Context
from saltwisted.master.fileserver import FileServer
from saltwisted.master.replies import Chunk
from saltwisted.wire.commands import (
    DirList,
    FileEnvs,
    FileFind,
    FileHash,
    FileHashAndStat,
    FileList,
    FileListEmptyDirs,
    FileRecv,
    ServeFile,
    SymlinkList,
)


def _from_files(ctx: Context, who: str, act: Callable[[FileServer], Any]) -> Any:
    """Ask what this minion is served: the newest files, or those that its job is pinned to."""
    pinned = ctx.seams.pins.files(who)
    if isinstance(pinned, Deferred):
        return pinned.addCallback(act)
    return act(pinned or ctx.files)


def envs(ctx: Context, who: str, cmd: FileEnvs) -> list[str]:
    """Names of the environments."""
    return ctx.files.envs()


def file_list(ctx: Context, who: str, cmd: FileList) -> Any:
    """Sorted paths of all files."""
    return _from_files(ctx, who, lambda files: files.list_packed("files", cmd.saltenv, cmd.prefix))


def file_list_emptydirs(ctx: Context, who: str, cmd: FileListEmptyDirs) -> Any:
    """Sorted paths of directories without anything in them."""
    return _from_files(
        ctx, who, lambda files: files.list_packed("empty_dirs", cmd.saltenv, cmd.prefix)
    )


def dir_list(ctx: Context, who: str, cmd: DirList) -> Any:
    """Sorted paths of all directories."""
    return _from_files(ctx, who, lambda files: files.list_packed("dirs", cmd.saltenv, cmd.prefix))


def symlink_list(ctx: Context, who: str, cmd: SymlinkList) -> Any:
    """Links with their targets."""
    return _from_files(ctx, who, lambda files: files.links_packed(cmd.saltenv, cmd.prefix))


def file_hash(ctx: Context, who: str, cmd: FileHash) -> Any:
    """C{{hash_type, hsum}}, or an empty text."""
    return _from_files(ctx, who, lambda files: files.file_hash(cmd.path, cmd.saltenv))


def file_hash_and_stat(ctx: Context, who: str, cmd: FileHashAndStat) -> Any:
    """A list of the hash and the stat numbers."""
    return _from_files(ctx, who, lambda files: files.file_hash_and_stat(cmd.path, cmd.saltenv))


def file_find(ctx: Context, who: str, cmd: FileFind) -> Any:
    """Where the file is, and its stat."""
    return _from_files(ctx, who, lambda files: files.file_find(cmd.path, cmd.saltenv))


def serve_file(ctx: Context, who: str, cmd: ServeFile) -> Any:
    """One chunk of a file; a large one when there is a place for it in memory."""
    place = ctx.chunks.place()
    with ExitStack() as undo:
        undo.callback(place.give_back)
        reply = _from_files(
            ctx,
            who,
            lambda files: files.serve_file(cmd.path, cmd.saltenv, cmd.loc, cmd.gzip, place),
        )
        undo.pop_all()
    if isinstance(reply, Deferred):
        return reply.addCallbacks(partial(_chunk, place), partial(_no_chunk, place))
    return _chunk(place, reply)


def _chunk(place: Place, reply: dict[str, Any] | str) -> Any:
    if isinstance(reply, str) or len(reply["data"]) < LARGE:
        place.give_back()
        return reply
    data = reply.pop("data")
    return Chunk(data, reply, place.give_back)


def _no_chunk(place: Place, failure: Failure) -> Failure:
    place.give_back()
    return failure


def file_recv(ctx: Context, who: str, cmd: FileRecv) -> Any:
    """Take a chunk of a file from a minion; false unless C{file_recv} is on."""
    return ctx.files.receive(who, cmd.path, cmd.loc, cmd.data)
