"""
What a loader has besides the files that it executes: functions that are not for its process, and
modules of ours that others have replaced.
"""

from __future__ import annotations

import types
from typing import Any


def take_beside(loader: Any, module: str) -> bool:
    """Take the functions of a module that is not executed here; whether there is one."""
    found = {
        name: f for name, f in (loader._beside or {}).items() if name.partition(".")[0] == module
    }
    if found:
        for name, function in found.items():
            dict.setdefault(loader, name, function)
        loader.loaded_modules.add(module)
    return bool(found)


def replaced(loader: Any, file: str) -> types.ModuleType | None:
    """Ours, for the module of the site's that takes its place and imports it by its name."""
    loaded = [pair for each in loader._catalogue.replaced(file) for pair in loader._execute(each)]
    for module, code in loaded:
        loader._inject(module, code)
    return loaded[0][0] if loaded else None
