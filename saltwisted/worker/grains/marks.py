"""
Whether the files that grains are written in are as they were: cheap enough to be asked often.

What the kernel and programs say may change without a trace here; that is what
C{saltutil.refresh_grains} and C{grains_refresh_every} are for.
"""

from __future__ import annotations

import os
from typing import Any


def grain_marks(config_dir: str, extension_modules: str) -> Any:
    """
    Something that differs when C{grains} of the configuration, or a custom grain module, has
    changed. It takes a few calls of C{stat}.
    """
    folder = os.path.join(extension_modules, "grains")
    marks: list[Any] = [_mark(os.path.join(config_dir, "grains"))]
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    marks += [(name, _mark(os.path.join(folder, name))) for name in names if name.endswith(".py")]
    return marks


def _mark(path: str) -> Any:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
