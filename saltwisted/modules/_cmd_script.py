"""
The file of a script that is run once.
"""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger(__name__)


def temporary(source: str, folder: Any) -> str:
    """An empty file for a script, under a random name with the script's ending."""
    ending = os.path.splitext(source.split("?saltenv=", 1)[0])[1]
    descriptor, path = tempfile.mkstemp(prefix="__salt.tmp.", suffix=ending, dir=folder)
    os.close(descriptor)
    return path


def remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError as error:
        log.error("cmd: unable to clean tempfile '%s': %s", path, error.strerror)


@contextmanager
def written(code: str, runas: str | None) -> Iterator[str]:
    """The path of a file with this text, for as long as it is run."""
    descriptor, path = tempfile.mkstemp(prefix="__salt.tmp.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(code)
        if runas is not None:
            os.chown(path, pwd.getpwnam(runas).pw_uid, -1)
        yield path
    finally:
        remove(path)


def copied(source: Any, path: str) -> bool:
    """Copy a script that was fetched; tell whether there is one."""
    if not source:
        return False
    try:
        shutil.copyfile(source, path)
    except FileNotFoundError:
        return False
    return True


def make_ready(path: str, runas: str | None) -> None:
    """Let who runs it read and run a script, and nobody else."""
    if runas:
        os.chown(path, pwd.getpwnam(runas).pw_uid, -1)
    os.chmod(path, 0o500)
