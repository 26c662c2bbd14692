"""
SQLite files: how they are opened, and how their schema moves from version to version.

Everything here blocks; who calls it, in which thread, is the store's business.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence

from saltwisted.errors import StoreError
from saltwisted.stores.files import store_error


def connect(path: str, mode: str) -> sqlite3.Connection:
    """
    A connection, C{rw} or C{ro}, for one thread at a time; transactions are the caller's.

    @raises sqlite3.Error: there is no such file, or it cannot be opened.
    """
    # file: URIs need the characters of their own syntax escaped
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return sqlite3.connect(
        f"file:{quoted}?mode={mode}",
        uri=True,
        timeout=10.0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
    )


def open_database(path: str, migrations: Sequence[str]) -> sqlite3.Connection:
    """
    Open the file for writing, made or brought up to date as needed; 0600, durable at each commit.

    @param migrations: what makes the schema of each version from the one before;
        C{PRAGMA user_version} counts them. Each is applied whole or not at all.
    @raises StoreError: a newer saltwisted wrote it, or it cannot be opened at all.
    @raises sqlite3.Error: it is damaged, or the disk refuses.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.fchmod(fd, 0o600)
        os.close(fd)
    except OSError as error:
        raise store_error(error, path) from error
    db = connect(path, "rw")
    try:
        db.execute("PRAGMA journal_mode=WAL").fetchall()
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA journal_size_limit=67108864")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > len(migrations):
            raise StoreError(
                f"was written by a newer saltwisted (schema {version}, this one knows "
                f"{len(migrations)}): use that version, or move the file away",
                path,
            )
        for number in range(version, len(migrations)):
            db.executescript(
                f"BEGIN IMMEDIATE; {migrations[number]} PRAGMA user_version={number + 1}; COMMIT;"
            )
        return db
    except BaseException:
        db.close()
        raise
