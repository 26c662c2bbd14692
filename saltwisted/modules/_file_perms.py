"""
Owner, mode, attributes and SELinux context of a path, as C{file.check_perms} wants them.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from saltwisted.modules import _file_owners

log = logging.getLogger(__name__)


class AttrChanges(NamedTuple):
    """Letters of C{chattr} that a file has too few of, and too many."""

    added: str | None
    removed: str | None


def attr_changes(path: str, attrs: Any) -> AttrChanges | None:
    """What C{chattr} would have to add and remove."""
    found = _file_owners.lsattr(path)
    new, old = set(attrs), set(found.get(path, ()))
    # Extents are the file system's business: nobody takes that letter away.
    if "e" in old:
        new.add("e")
    return AttrChanges("".join(new - old) or None, "".join(old - new) or None)


def selinux_parts(name: str) -> list[str]:
    parts = _file_owners.get_selinux_context(name).split(":")
    if len(parts) != 4:
        raise ValueError("no SELinux context")
    return parts
