"""
All state of a master in one file: taken while the master runs, and restored.

A backup is a compressed tar archive: C{manifest.json} first, then the files under their absolute
paths. Databases are copied by SQLite's own backup, which copies one consistent state of each; other
files are copied again if they change meanwhile. A restored state is a copy: stores of a cluster
node notice that by themselves and begin a new incarnation.

Root does both, in directories that belong to the daemon's user: L{saltwisted.worker.beneath}. A
backup says itself where its files go, so whoever makes one decides what root writes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import sqlite3
import stat
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import IO, Any

from attrs import asdict, frozen

from saltwisted import __version__
from saltwisted.config.options import MasterConfig
from saltwisted.errors import StoreError, WrongPlace
from saltwisted.worker.beneath import parent, reading
from saltwisted.worker.freshfile import fresh, fresh_link, private

MANIFEST = "manifest.json"
FORMAT = 1
TRIES = 5
LEVEL = 6
SMALL = 256 * 1024
"""Bytes up to which a file is read at once, without a copy on the disk."""
_SQLITE = b"SQLite format 3\0"
MODES = 0o777
"""What is kept of a file's mode: nothing of a master's needs the rights of its owner."""
_SKIPPED = ("-wal", "-shm", "-journal")
_ROOM = "saltwisted-reserve"
"""A file that only keeps room on the disk."""
SYSTEM = frozenset(
    f"{above}/{name}"
    for above, names in {
        "/etc": "cron.d cron.daily cron.hourly init.d pam.d profile.d ssh sudoers.d systemd",
        "/usr": "bin lib lib64 libexec local sbin share",
        "/var": "cache lib log mail run spool tmp www",
        "/run": "lock systemd user",
    }.items()
    for name in names.split()
)
"""Directories below the first level in which there is more than a master."""
_PASSING = frozenset(("proc", "sock", "run"))


@frozen(kw_only=True)
class BackupFile:
    """
    One file of a backup.

    @ivar kind: C{file} or C{link}; for a link C{digest} is the target.
    """

    path: str
    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    digest: str

    def as_json(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)


def folders(config: MasterConfig) -> list[str]:
    """What makes a master: its configuration, keys and caches."""
    found: list[str] = []
    for path in (config.config_dir, config.pki_dir, config.cachedir):
        path = os.path.realpath(path)
        if os.path.isdir(path) and not any(path.startswith(f"{one}/") for one in found):
            found.append(path)
    return found


def has_master(config: MasterConfig) -> bool:
    """Whether a master with this configuration has ever had a key; a link to one is one."""
    places = [os.path.join(config.pki_dir, "master.pem")]
    if config.cluster_id and config.cluster_pki_dir:
        places.append(os.path.join(config.cluster_pki_dir, "cluster.pem"))
    return any(os.path.lexists(path) for path in places)


def roots_folder(config: MasterConfig) -> str:
    """Where a node of a cluster keeps the roots' generations: the others have them, too."""
    return os.path.join(os.path.realpath(config.cachedir), "saltwisted", "roots")


def walk(folder: str, without: str = "") -> Iterator[str]:
    """
    Every file and link below a directory, sorted; sockets, temporary names and journals not.

    @param without: a directory that is left out.
    """
    for here, names, files in os.walk(folder):
        names[:] = sorted(
            name
            for name in names
            if not (here == folder and name in _PASSING) and os.path.join(here, name) != without
        )
        links = [name for name in names if os.path.islink(os.path.join(here, name))]
        for name in sorted([*files, *links]):
            if not name.startswith((".tmp-", _ROOM)) and not name.endswith(_SKIPPED):
                yield os.path.join(here, name)


def directories(folders: Iterable[str], without: str = "") -> dict[str, list[int]]:
    """
    Each directory at and below some, with mode, uid and gid. Who may look into the one with the
    configuration has to be the same after a restore: the commands of all users read it.

    @param without: one that is left out, with all that is in it.
    """
    found: dict[str, list[int]] = {}
    for top in folders:
        for here, names, _ in os.walk(top):
            names[:] = [name for name in names if os.path.join(here, name) != without]
            with suppress(FileNotFoundError):
                info = os.lstat(here)
                found[here] = [stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid]
    return found


def backup(
    config: MasterConfig,
    target: str,
    roots: bool = False,
    say: Callable[[int, int], None] = lambda files, size: None,
) -> dict[str, Any]:
    """
    Write a backup; the file is whole or not there, and its owner's alone.

    @param roots: whether the generations of replicated roots are in it.
    @param say: hears how many files, with how many bytes, are in it by now.
    @return: what the manifest says.
    @raises WrongPlace: there is no master's key where the configuration says; nothing is written.
    @raises StoreError: a file cannot be read or the backup not written.
    """
    target = os.path.abspath(target)
    if not has_master(config):
        raise WrongPlace(
            f"there is no master to save: {config.pki_dir}/master.pem does not exist "
            f"(configuration: {config.config_dir})"
        )
    entries: list[BackupFile] = []
    without = "" if roots else roots_folder(config)
    size = 0
    try:
        with (
            tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as scratch,
            private(os.path.join(scratch, "body")) as stream,
        ):
            with tarfile.open(
                fileobj=stream, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=LEVEL
            ) as body:
                for folder in folders(config):
                    for path in walk(folder, without):
                        entry = add(body, folder, path, scratch)
                        if entry is not None:
                            entries.append(entry)
                            size += entry.size
                            say(len(entries), size)
            manifest = {
                "format": FORMAT,
                "saltwisted": __version__,
                "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "host": os.uname().nodename,
                "id": config.id,
                "config_dir": config.config_dir,
                "folders": folders(config),
                "without": without,
                "entries": [entry.as_json() for entry in entries],
                "directories": directories(folders(config), without),
            }
            with fresh(target) as whole:
                _assemble(whole, manifest, stream)
    except OSError as error:
        raise StoreError(error.strerror or str(error), str(error.filename or target)) from error
    return manifest


def _assemble(stream: IO[bytes], manifest: Mapping[str, Any], body: IO[bytes]) -> None:
    """
    The manifest first, so that a reader knows what follows, then what was collected.

    Both are compressed on their own: one after the other they are one gzip file, and one archive.
    """
    data = json.dumps(manifest).encode()
    info = tarfile.TarInfo(MANIFEST)
    info.size, info.mode, info.mtime = len(data), 0o600, int(time.time())
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=LEVEL, filename="") as head:
        head.write(info.tobuf(tarfile.PAX_FORMAT))
        head.write(data)
        head.write(b"\0" * (-len(data) % tarfile.BLOCKSIZE))
    body.seek(0)
    shutil.copyfileobj(body, stream, 1 << 20)


def add(archive: tarfile.TarFile, top: str, path: str, scratch: str) -> BackupFile | None:
    """
    Put one file into an archive; C{None} for what is gone, or is neither file nor link.

    @param top: a directory above, which is found as its path says; below it no link is followed.
    """
    try:
        with parent(top, path) as (folder, name):
            return _add(archive, folder, name, path, scratch)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _add(
    archive: tarfile.TarFile, folder: int, name: str, path: str, scratch: str
) -> BackupFile | None:
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    member = tarfile.TarInfo(path.lstrip("/"))
    member.mode, member.uid, member.gid = info.st_mode & MODES, info.st_uid, info.st_gid
    member.mtime = int(info.st_mtime)
    if stat.S_ISLNK(info.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=folder)
        archive.addfile(member)
        return _entry(path, member, "link", member.linkname)
    source = reading(name, folder)
    if source is None:
        return None
    with source:
        # Of the file that is read, whatever lay there a moment ago
        info = os.fstat(source.fileno())
        member.mode, member.uid, member.gid = info.st_mode & MODES, info.st_uid, info.st_gid
        data = small_copy(source)
        if data is not None:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
            return _entry(path, member, "file", hashlib.sha256(data).hexdigest())
        copy = stable_copy(source, path, scratch)
    with open(copy, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        member.size = stream.tell()
        stream.seek(0)
        archive.addfile(member, stream)
    return _entry(path, member, "file", digest)


def _entry(path: str, member: tarfile.TarInfo, kind: str, digest: str) -> BackupFile:
    return BackupFile(
        path=path,
        kind=kind,
        mode=member.mode,
        uid=member.uid,
        gid=member.gid,
        size=member.size,
        digest=digest,
    )


def small_copy(source: IO[bytes]) -> bytes | None:
    """One state of a small file, C{None} for all that wants L{stable_copy}."""
    before = os.fstat(source.fileno())
    if before.st_size > SMALL:
        return None
    data = source.read(SMALL + 1)
    after = os.fstat(source.fileno())
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return data if same and len(data) == after.st_size and not data.startswith(_SQLITE) else None


def stable_copy(source: IO[bytes], path: str, scratch: str) -> str:
    """
    A copy of one state of a file, though somebody may be writing it.

    @param path: where it lies, for a database: SQLite finds its journals beside it.
    @raises StoreError: it changed at every try, or it is a damaged database.
    """
    copy = os.path.join(scratch, "copy")
    source.seek(0)
    if source.read(len(_SQLITE)) == _SQLITE:
        opened = os.fstat(source.fileno())
        copy_database(path, copy)
        there = os.stat(path)
        if (opened.st_dev, opened.st_ino) != (there.st_dev, there.st_ino):
            raise StoreError("was replaced while it was copied", path)
        return copy
    for _ in range(TRIES):
        before = os.fstat(source.fileno())
        source.seek(0)
        with open(copy, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        after = os.fstat(source.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            return copy
    raise StoreError("keeps changing while it is copied", path)


def copy_database(path: str, copy: str) -> None:
    """
    Copy one whole state of a database, with what is still in its write-ahead log.

    @raises StoreError: it is damaged.
    """
    with suppress(FileNotFoundError):
        os.unlink(copy)
    try:
        with (
            closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target, pages=1000, sleep=0.01)
            target.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise StoreError(f"the database cannot be copied: {error}", path) from error


# -- putting it back


@frozen(kw_only=True)
class Change:
    """What a restore does to one path: C{new}, C{changed} or C{removed}."""

    what: str
    path: str


def read_manifest(archive: tarfile.TarFile, source: str) -> dict[str, Any]:
    """
    What a backup says of itself.

    @raises StoreError: it is not a backup of ours, or of a later format.
    """
    first = archive.next()
    stream = archive.extractfile(first) if first is not None and first.name == MANIFEST else None
    if stream is None:
        raise StoreError("is not a backup of saltwisted", source)
    try:
        manifest: dict[str, Any] = json.load(stream)
        if int(manifest["format"]) > FORMAT:
            raise StoreError(f"was made by a newer version ({manifest['saltwisted']})", source)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"has no usable manifest: {error}", source) from None
    return manifest


def restore(source: str, dry_run: bool) -> tuple[dict[str, Any], list[Change]]:
    """
    Put a backup back, and take away what came after it in the directories that it covers.

    Everything is checked against the manifest before the first file is written.

    @raises StoreError: it is damaged or no backup, or something cannot be written.
    """
    try:
        with open(source, "rb") as raw:
            with tarfile.open(fileobj=raw, mode="r:gz") as archive:
                manifest = read_manifest(archive, source)
                entries = {one["path"]: one for one in manifest["entries"]}
                check_folders(manifest["folders"], source)
                check(archive, entries, manifest["folders"], source)
                without = str(manifest.get("without") or "")
                changes = list(compare(entries, manifest["folders"], without))
            if not dry_run:
                raw.seek(0)
                with tarfile.open(fileobj=raw, mode="r:gz") as archive:
                    known = known_folders(manifest)
                    write(archive, entries, manifest["folders"], changes, known)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise StoreError(str(error), source) from error
    return manifest, changes


def check_folders(folders: Any, source: str) -> None:
    """
    What a restore may empty and fill: no directory of the system.

    @raises StoreError: a directory is none that a master has for itself.
    """
    for folder in folders if isinstance(folders, list) else [None]:
        if (
            not isinstance(folder, str)
            or os.path.normpath(folder) != folder
            or not folder.startswith("/")
            or folder.startswith("//")
        ):
            raise StoreError(f"names a directory that is none: {folder!r}", source)
        if folder.count("/") < 2 or folder in SYSTEM:
            raise StoreError(f"would replace all that is in {folder}", source)


def check(
    archive: tarfile.TarFile,
    entries: Mapping[str, Mapping[str, Any]],
    allowed: list[str],
    source: str,
) -> None:
    """
    Every file is there, is what the manifest says, and lies where the backup was taken.

    @raises StoreError: naming the first that is not so.
    """
    seen: set[str] = set()
    for member in archive:
        if member.name == MANIFEST:
            continue
        path = "/" + member.name
        entry = entries.get(path)
        inside = any(os.path.normpath(path).startswith(f"{folder}/") for folder in allowed)
        if entry is None or not inside or os.path.normpath(path) != path:
            raise StoreError(f"has a file that does not belong in it: {path}", source)
        if entry["kind"] == "link":
            good = member.issym() and member.linkname == entry["digest"]
        else:
            stream = archive.extractfile(member) if member.isreg() else None
            good = stream is not None and _digest(stream) == entry["digest"]
        if not good:
            raise StoreError(f"is damaged: {path} is not what was saved", source)
        seen.add(path)
    missing = sorted(set(entries) - seen)
    if missing:
        raise StoreError(f"is damaged: {missing[0]} is missing", source)


def _digest(stream: IO[bytes]) -> str:
    found = hashlib.sha256()
    while piece := stream.read(1 << 20):
        found.update(piece)
    return found.hexdigest()


def compare(
    entries: Mapping[str, Mapping[str, Any]], folders: list[str], without: str = ""
) -> Iterator[Change]:
    """
    What is different on the disk.

    @param without: a directory that the backup left out, and that stays as it is.
    """
    for path, entry in sorted(entries.items()):
        try:
            info = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            yield Change(what="new", path=path)
            continue
        if entry["kind"] == "link":
            same = stat.S_ISLNK(info.st_mode) and os.readlink(path) == entry["digest"]
        else:
            same = _is_same(path, entry, _top(path, folders))
        if not same:
            yield Change(what="changed", path=path)
    for folder in folders:
        for path in walk(folder, without):
            if path not in entries:
                yield Change(what="removed", path=path)


def _is_same(path: str, entry: Mapping[str, Any], top: str) -> bool:
    """Whether a file has the contents and the mode that were saved; one behind a link has not."""
    try:
        with parent(top, path) as (folder, name):
            found = reading(name, folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if found is None:
        return False
    with found:
        mode = stat.S_IMODE(os.fstat(found.fileno()).st_mode)
        wanted, digest = int(entry["mode"]) & MODES, str(entry["digest"])
        return mode == wanted and _digest(found) == digest


def known_folders(manifest: Mapping[str, Any]) -> dict[str, tuple[int, int, int]]:
    """
    What the backup says of directories: path to mode, uid and gid.

    One that was made by an earlier version says nothing. What is above the directories that are
    covered, and where the configuration is, everybody may look into, as after an installation.
    """
    found: dict[str, tuple[int, int, int]] = {}
    config = os.path.realpath(str(manifest.get("config_dir") or "/"))
    for top in manifest["folders"]:
        above = os.path.dirname(str(top))
        while above != "/":
            found[above] = (0o755, 0, 0)
            above = os.path.dirname(above)
    for path in (config, *(os.path.join(config, name) for name in ("master.d", "minion.d"))):
        found[path] = (0o755, 0, 0)
    given = manifest.get("directories")
    for path, about in given.items() if isinstance(given, dict) else ():
        mode, uid, gid = (int(number) for number in about)
        found[str(path)] = (mode & MODES, uid, gid)
    return found


def make_folders(
    path: str, entry: Mapping[str, Any], known: Mapping[str, tuple[int, int, int]]
) -> None:
    """Make what is missing of a path: as it was, or for the owner of the file that goes there."""
    if os.path.isdir(path):
        return
    make_folders(os.path.dirname(path), entry, known)
    mode, uid, gid = known.get(path, (0o700, entry["uid"], entry["gid"]))
    os.mkdir(path, 0o700)
    if os.geteuid() == 0:
        os.chown(path, uid, gid, follow_symlinks=False)
    os.chmod(path, mode)


def write(
    archive: tarfile.TarFile,
    entries: Mapping[str, Mapping[str, Any]],
    folders: list[str],
    changes: list[Change],
    known: Mapping[str, tuple[int, int, int]],
) -> None:
    """
    Make the changes, in the archive's order; every file is whole at any moment.

    Below the directories of the backup no link is followed: what was a directory becomes one again.
    """
    wanted = {change.path for change in changes if change.what != "removed"}
    for member in archive:
        path = "/" + member.name
        if path not in wanted:
            continue
        entry = entries[path]
        owner = (entry["uid"], entry["gid"]) if os.geteuid() == 0 else None

        def made(folder: int, path: str, entry: Mapping[str, Any] = entry) -> None:
            mode, uid, gid = known.get(path, (0o700, entry["uid"], entry["gid"]))
            if os.geteuid() == 0:
                os.fchown(folder, uid, gid)
            os.fchmod(folder, mode)

        top = _top(path, folders)
        make_folders(top, entry, known)
        with parent(top, path, made) as (folder, name):
            if entry["kind"] == "link":
                fresh_link(name, entry["digest"], folder)
                continue
            stream = archive.extractfile(member)
            assert stream is not None  # checked before the first write
            with fresh(name, entry["mode"] & MODES, owner, folder=folder) as target:
                shutil.copyfileobj(stream, target)
                # a journal beside it belongs to the database that is being replaced
                for suffix in _SKIPPED:
                    with suppress(FileNotFoundError):
                        os.unlink(name + suffix, dir_fd=folder)
    for change in changes:
        if change.what == "removed":
            # A link that has become a directory again is gone, with what lay behind it
            with (
                suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError),
                parent(_top(change.path, folders), change.path) as (folder, name),
            ):
                os.unlink(name, dir_fd=folder)


def _top(path: str, folders: list[str]) -> str:
    """The directory of the backup in which a path lies."""
    return next(folder for folder in folders if path.startswith(f"{folder}/"))
