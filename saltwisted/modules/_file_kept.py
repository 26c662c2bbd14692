"""
The copies that were kept of files before they changed, as functions of C{file}.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.modules import _file_backups

__salt__: Any


def _backup_root() -> str:
    return os.path.join(__salt__["config.get"]("cachedir"), "file_backup")


def list_backups(path: str, limit: Any = None) -> dict[int, dict[str, Any]]:
    """
    The backups of a file that C{backup: minion} made, the newest first.

    CLI Example::

        salt '*' file.list_backups /foo/bar/baz.txt
    """
    return _file_backups.listed(_backup_root(), path, limit)


def list_backup(path: str, limit: Any = None) -> dict[int, dict[str, Any]]:
    """
    Another name of C{file.list_backups}.

    CLI Example::

        salt '*' file.list_backup /foo/bar/baz.txt
    """
    return list_backups(path, limit)


def list_backups_dir(path: str, limit: Any = None) -> dict[str, dict[int, dict[str, Any]]]:
    """
    The backups of all files of a directory.

    CLI Example::

        salt '*' file.list_backups_dir /foo/bar/baz/
    """
    return _file_backups.listed_below(_backup_root(), path, limit)


def restore_backup(path: str, backup_id: Any) -> dict[str, Any]:
    """
    Put the content of a backup back; what is there now becomes a backup too.

    CLI Example::

        salt '*' file.restore_backup /foo/bar/baz.txt 0
    """
    return _file_backups.restore(_backup_root(), path, backup_id)


def delete_backup(path: str, backup_id: Any) -> dict[str, Any]:
    """
    Remove a backup.

    CLI Example::

        salt '*' file.delete_backup /var/cache/salt/minion/file_backup/home/foo/bar/baz.txt 0
    """
    return _file_backups.delete(_backup_root(), path, backup_id)


def remove_backup(path: str, backup_id: Any) -> dict[str, Any]:
    """
    Another name of C{file.delete_backup}.

    CLI Example::

        salt '*' file.remove_backup /foo/bar/baz.txt 0
    """
    return delete_backup(path, backup_id)
