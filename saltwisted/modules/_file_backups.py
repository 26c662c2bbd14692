"""
The copies that C{backup: minion} keeps of files: listed, put back, removed.
"""

from __future__ import annotations

import datetime
import logging
import os
from typing import Any

from saltwisted.modules import _files

log = logging.getLogger(__name__)


def _limit(limit: Any) -> int | None:
    if limit is None:
        return None
    try:
        return int(limit)
    except (TypeError, ValueError):
        log.error("file.list_backups: 'limit' value must be numeric")
        return None


def _backups(folder: str, name: str, limit: int | None) -> dict[int, dict[str, Any]]:
    """The backups of one file in a directory of backups, the newest first, numbered."""
    found = []
    for entry in os.listdir(folder):
        place = os.path.join(folder, entry)
        if not entry.startswith(f"{name}_") or not os.path.isfile(place):
            continue
        try:
            when = datetime.datetime.strptime(entry[len(name) + 1 :], "%a_%b_%d_%H:%M:%S_%f_%Y")
        except ValueError:
            continue
        found.append((when, place))
    found.sort(reverse=True)
    return {
        number: {
            "Backup Time": when.strftime("%a %b %d %Y %H:%M:%S.%f"),
            "Size": os.stat(place).st_size,
            "Location": place,
        }
        for number, (when, place) in enumerate(found[:limit])
    }


def listed(root: str, path: str, limit: Any = None) -> dict[int, dict[str, Any]]:
    """
    The backups of a file, the newest first.

    @param root: the directory of all backups.
    """
    folder, name = os.path.split(_files.expanded(path))
    place = os.path.join(root, folder[1:])
    return _backups(place, name, _limit(limit)) if os.path.isdir(place) else {}


def listed_below(root: str, path: str, limit: Any) -> dict[str, dict[int, dict[str, Any]]]:
    """The backups of all files of a directory."""
    folder = os.path.dirname(_files.expanded(path))
    place = os.path.join(root, folder[1:])
    if not os.path.isdir(place):
        return {}
    # As Salt does, a file's name is taken to end at its first underscore.
    names = {entry.split("_")[0] for entry in os.listdir(place)}
    return {name: _backups(place, name, _limit(limit)) for name in sorted(names)}


def _one(root: str, path: str, backup_id: Any) -> tuple[dict[str, Any] | None, str]:
    """A backup by its number, or why there is none."""
    try:
        number = int(backup_id)
    except (TypeError, ValueError):
        return None, f"Invalid backup_id '{backup_id}'"
    if len(str(backup_id)) != len(str(number)):
        return None, f"Invalid backup_id '{backup_id}'"
    found = listed(root, path).get(number)
    return found, f"backup_id '{backup_id}' does not exist for {path}"


def restore(root: str, path: str, backup_id: Any) -> dict[str, Any]:
    """Put the content of a backup back; what is there now becomes a backup too."""
    path = _files.expanded(path)
    found, problem = _one(root, path, backup_id)
    if found is None:
        return {"result": False, "comment": problem}
    place = found["Location"]
    if os.path.exists(path):
        _files.backup(path, root)
    try:
        _files.copyfile(place, path)
    except OSError as error:
        return {"result": False, "comment": f"Unable to restore {place} to {path}: {error}"}
    return {"result": True, "comment": f"Successfully restored {place} to {path}"}


def delete(root: str, path: str, backup_id: Any) -> dict[str, Any]:
    """Remove a backup."""
    path = _files.expanded(path)
    found, problem = _one(root, path, backup_id)
    if found is None:
        return {"result": False, "comment": problem}
    try:
        os.remove(found["Location"])
    except OSError as error:
        return {"result": False, "comment": f"Unable to remove {found['Location']}: {error}"}
    return {"result": True, "comment": f"Successfully removed {found['Location']}"}
