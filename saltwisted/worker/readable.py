"""
What this process may read of a tree. Only the kernel knows all the rules: it is tried.
"""

from __future__ import annotations

import os


def unreadable(path: str, most: int = 20) -> list[str]:
    """
    What cannot be read at or below a path, the top first.

    @param most: after so many it is not looked any further.
    """
    found: list[str] = []
    if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
        return [path]
    for folder, folders, names in os.walk(path):
        for name in folders:
            if not os.access(os.path.join(folder, name), os.R_OK | os.X_OK):
                found.append(os.path.join(folder, name))
        for name in names:
            file = os.path.join(folder, name)
            if os.path.exists(file) and not os.access(file, os.R_OK):
                found.append(file)
        if len(found) >= most:
            break
    return found[:most]
