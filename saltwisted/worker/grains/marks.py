"""
Whether the files that contain grains are unchanged: cheap enough to be checked often.

The kernel and programs may change without any sign here. For those there are
C{saltutil.refresh_grains} and C{grains_refresh_every}.
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
