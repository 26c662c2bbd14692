"""What beacons share, with the names of C{salt.utils.beacons}."""

from __future__ import annotations

from typing import Any


def list_to_dict(config: Any) -> dict[Any, Any]:
    """A beacon's configuration, a list of maps, as one map; the last of a key holds."""
    found: dict[Any, Any] = {}
    for item in config:
        found.update(item)
    return found


def remove_hidden_options(config: Any, whitelist: Any) -> Any:
    """Without the names that begin with an underscore, save those of a list."""
    for entry in list(config):
        for name in list(entry):
            if name.startswith("_") and name not in whitelist:
                config.remove(entry)
    return config
