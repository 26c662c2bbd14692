"""C{salt.utils.validate.path}: what this process may do with a file."""

from __future__ import annotations

import os


def is_writeable(path: str, check_parent: bool = False) -> bool:
    """Whether it may be written; with C{check_parent}, also whether it could be made."""
    if os.access(path, os.F_OK):
        return os.access(path, os.W_OK)
    return check_parent and os.access(os.path.dirname(path) or os.getcwd(), os.W_OK)


def is_readable(path: str) -> bool:
    """Whether it may be read."""
    return os.access(path, os.F_OK) and os.access(path, os.R_OK)


def is_executable(path: str) -> bool:
    """Whether it may be executed."""
    return os.access(path, os.F_OK) and os.access(path, os.X_OK)
