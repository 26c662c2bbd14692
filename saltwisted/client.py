"""
C{salt.client} for a script on the master's machine, where the C{salt} package is not installed.

A script says C{import saltwisted.client} and then C{import salt.client}, as it did with stock. In
worker processes nothing needs to be said.
"""

from __future__ import annotations

import types

from saltwisted.worker.process import configio, loader, saltname

_made: list[loader.Loaders] = []


def _module_of(kind: str, file: str) -> types.ModuleType | None:
    """C{salt.modules.NAME}: that of a loader with the options of the minion here."""
    if not _made:
        opts = configio.load_from_disk(
            "minion", None, disk=configio.Disk(passing=True)
        ).config.as_opts()
        _made.append(loader.Loaders(opts, grains=lambda: loader.make_grains(opts)))
    return _made[0].module_of(kind, file)


saltname.install(_module_of)
