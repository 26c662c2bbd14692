"""
Modules of the site, synced to the minion in the course of a run.

Each function takes what the function of C{saltutil} of the same name takes, C{refresh} and
C{saltenv} above all, and its changes are what came.
"""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger(__name__)

__virtualname__ = "saltutil"
__salt__: Any
__opts__: Any


def __virtual__() -> str:
    return __virtualname__


def _synced(name: str, kind: str, good: str, **kwargs: Any) -> dict[str, Any]:
    """Call C{saltutil.sync_KIND}; what came is by kind if it was asked for all kinds."""
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": ""}
    if __opts__["test"]:
        comment = f"saltutil.sync_{kind} would have been run"
        return {**ret, "result": None, "comment": comment}
    try:
        came = __salt__[f"saltutil.sync_{kind}"](**kwargs)
        changes = dict(came) if kind == "all" else {kind: came}
        ret["changes"] = {key: value for key, value in changes.items() if value}
    except Exception as error:
        log.error("Failed to run saltutil.sync_%s: %s", kind, error)
        return {**ret, "result": False, "comment": f"Failed to run sync_{kind}: {error}"}
    return {**ret, "comment": good if ret["changes"] else "No updates to sync"}


def sync_all(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Modules of all kinds are synced.
    """
    return _synced(name, "all", "Sync performed", **kwargs)


def sync_beacons(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Beacons are synced.
    """
    return _synced(name, "beacons", "Updated beacons.", **kwargs)


def sync_clouds(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Modules of clouds are synced.
    """
    return _synced(name, "clouds", "Updated clouds.", **kwargs)


def sync_engines(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Engines are synced.
    """
    return _synced(name, "engines", "Updated engines.", **kwargs)


def sync_grains(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Modules of grains are synced.
    """
    return _synced(name, "grains", "Updated grains.", **kwargs)


def sync_executors(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Executors are synced.
    """
    return _synced(name, "executors", "Updated executors.", **kwargs)


def sync_log_handlers(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Handlers of logs are synced.
    """
    return _synced(name, "log_handlers", "Updated log_handlers.", **kwargs)


def sync_modules(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Execution modules are synced.
    """
    return _synced(name, "modules", "Updated modules.", **kwargs)


def sync_output(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Outputters are synced.
    """
    return _synced(name, "output", "Updated output.", **kwargs)


def sync_outputters(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Outputters are synced.
    """
    return _synced(name, "outputters", "Updated outputters.", **kwargs)


def sync_pillar(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Modules of external pillars are synced.
    """
    return _synced(name, "pillar", "Updated pillar.", **kwargs)


def sync_proxymodules(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Proxy modules are synced.
    """
    return _synced(name, "proxymodules", "Updated proxymodules.", **kwargs)


def sync_matchers(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Matchers are synced.
    """
    return _synced(name, "matchers", "Updated matchers.", **kwargs)


def sync_renderers(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Renderers are synced.
    """
    return _synced(name, "renderers", "Updated renderers.", **kwargs)


def sync_returners(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Returners are synced.
    """
    return _synced(name, "returners", "Updated returners.", **kwargs)


def sync_sdb(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Modules of sdb are synced.
    """
    return _synced(name, "sdb", "Updated sdb.", **kwargs)


def sync_states(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    State modules are synced.
    """
    return _synced(name, "states", "Updated states.", **kwargs)


def sync_tops(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Modules of tops are synced.
    """
    return _synced(name, "tops", "Updated tops.", **kwargs)


def sync_resources(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Modules of resources are synced.
    """
    return _synced(name, "resources", "Updated resources.", **kwargs)


def sync_thorium(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Modules of thorium are synced.
    """
    return _synced(name, "thorium", "Updated thorium.", **kwargs)


def sync_utils(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Utility modules are synced.
    """
    return _synced(name, "utils", "Updated utils.", **kwargs)


def sync_serializers(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Serializers are synced.
    """
    return _synced(name, "serializers", "Updated serializers.", **kwargs)


def sync_wrapper(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Wrappers of salt-ssh are synced.
    """
    return _synced(name, "wrapper", "Updated wrapper.", **kwargs)
