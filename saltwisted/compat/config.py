"""
C{salt.config}: the options of a master or minion on this machine, as maps.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.worker.process.configio import Disk, load_from_disk

DEFAULT_HASH_TYPE = "sha256"


def _read(role: str, path: str | None) -> dict[str, Any]:
    """
    @param path: the file; stock's default place means wherever the daemon of this machine looks.
    @raises SaltConfigurationError: with file and line.
    """
    from saltwisted.errors import ConfigError
    from saltwisted.worker.exceptions import SaltConfigurationError

    folder = None
    if path and path != f"/etc/salt/{role}":
        folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    try:
        return dict(load_from_disk(role, folder, disk=Disk(passing=True)).config.as_opts())
    except ConfigError as error:
        raise SaltConfigurationError(str(error)) from error


def master_config(path: str | None = None, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """A master's options, by the path of its configuration file."""
    return _read("master", path)


def client_config(path: str | None = None, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """What clients of a master need to know: its options."""
    return _read("master", path)


def minion_config(path: str | None = None, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """A minion's options, by the path of its configuration file."""
    return _read("minion", path)


def __getattr__(name: str) -> Any:
    if name not in ("DEFAULT_MINION_OPTS", "DEFAULT_MASTER_OPTS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from saltwisted.config.options import MasterConfig, MinionConfig

    made: Any = MinionConfig() if "MINION" in name else MasterConfig()
    found = globals()[name] = dict(made.as_opts())
    return found
