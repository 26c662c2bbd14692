"""
Administer the minion itself: its modules, pillar, jobs, caches and keys.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from saltwisted.errors import SaltwistedError
from saltwisted.modules import _data, _extmods
from saltwisted.modules._daemon import Daemon

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]
__parts__ = ("_saltutil_sync", "_saltutil_jobs", "_saltutil_master")

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__master__: Any

_daemon = Daemon(globals())


# -- refreshing ------------------------------------------------------------------


def refresh_pillar(wait: bool = False, timeout: Any = 30, clean_cache: bool = True) -> bool:
    """
    Have the pillar compiled again and keep it for the jobs to come.

    With C{wait} not before that is done, or C{timeout} seconds have passed.

    CLI Example::

        salt '*' saltutil.refresh_pillar
        salt '*' saltutil.refresh_pillar wait=True timeout=60
    """
    options: dict[str, Any] = {"clean_cache": clean_cache}
    if wait:
        options.update(wait=True, timeout=timeout)
    return _daemon.refresh("pillar", **options)


def pillar_refresh(wait: bool = False, timeout: Any = 30, clean_cache: bool = True) -> bool:
    """
    Another name of C{saltutil.refresh_pillar}.

    CLI Example::

        salt '*' saltutil.pillar_refresh
    """
    return refresh_pillar(wait, timeout, clean_cache)


def refresh_grains(**kwargs: Any) -> bool:
    """
    Have the grains computed again, and the pillar with them.

    refresh_pillar
        False: not the pillar.
    clean_pillar_cache
        Also without the master's pillar cache.

    CLI Example::

        salt '*' saltutil.refresh_grains
    """
    given = _data.clean_kwargs(**kwargs)
    with_pillar = given.pop("refresh_pillar", True)
    clean = given.pop("clean_pillar_cache", False)
    _data.invalid_kwargs(given)
    _extmods.forget_grains(__opts__["cachedir"])
    _daemon.refresh("grains")
    if with_pillar:
        refresh_pillar(clean_cache=clean)
    else:
        refresh_modules()
    return True


def refresh_modules(**kwargs: Any) -> bool:
    """
    Have the daemon look at all modules again; C{async=False} waits until it did.

    CLI Example::

        salt '*' saltutil.refresh_modules
    """
    if kwargs.get("async", True):
        return _daemon.refresh("modules")
    return _daemon.refresh("modules", wait=True, timeout=30)


def refresh_beacons() -> bool:
    """
    Have the beacons set up again.

    CLI Example::

        salt '*' saltutil.refresh_beacons
    """
    return _daemon.refresh("beacons")


def refresh_matchers() -> bool:
    """
    Have the matchers loaded again.

    CLI Example::

        salt '*' saltutil.refresh_matchers
    """
    return _daemon.refresh("matchers")


def refresh_resources() -> bool:
    """
    Say that the resources of this minion changed.

    CLI Example::

        salt '*' saltutil.refresh_resources
    """
    answer: bool = __salt__["event.fire"]({}, "resource_refresh")
    return answer


def update(version: str | None = None) -> dict[str, str]:
    """
    Not available: it replaces frozen builds of Salt, which this is not.

    CLI Example::

        salt '*' saltutil.update
    """
    return {"_error": "Esky not available as import"}


# -- caches and keys -------------------------------------------------------------

_KEPT = ("outbox", "proc")
"""Below the cache directory, and no cache: returns to be sent, and running jobs."""


def clear_cache() -> bool:
    """
    Remove the files in the minion's cache; answers whether that went.

    Returns that no master has yet, and the list of running jobs, stay.

    CLI Example::

        salt '*' saltutil.clear_cache
    """
    base = __opts__["cachedir"]
    for folder, below, names in os.walk(base, followlinks=False):
        if folder == base:
            below[:] = [name for name in below if name not in _KEPT]
        for name in names:
            try:
                os.remove(os.path.join(folder, name))
            except OSError as error:
                log.error("Attempt to clear cache with saltutil.clear_cache FAILED with: %s", error)
                return False
    return True


def regen_keys() -> None:
    """
    Remove the minion's keys and the master's that it knows; new ones are made at the next start.

    CLI Example::

        salt '*' saltutil.regen_keys
    """
    base = __opts__["pki_dir"]
    for name in os.listdir(base):
        try:
            os.remove(os.path.join(base, name))
        except OSError:
            pass


def revoke_auth(preserve_minion_cache: bool = False) -> bool:
    """
    Ask the master to delete this minion's key.

    CLI Example::

        salt '*' saltutil.revoke_auth
    """
    load = {
        "cmd": "revoke_auth",
        "id": __opts__["id"],
        "preserve_minion_cache": preserve_minion_cache,
    }
    try:
        __master__.request(load)
    except (SaltwistedError, OSError, TimeoutError):
        return False
    return True


def mmodule(saltenv: str, fun: str, *args: Any, **kwargs: Any) -> Any:
    """
    Call a function with the custom modules of an environment of C{file_roots}, unsynced.

    CLI Example::

        salt '*' saltutil.mmodule base test.ping
    """
    from saltwisted.worker.process.loader import Loaders

    roots = list((__opts__.get("file_roots") or {}).get(saltenv) or ())
    opts = {**__opts__, "module_dirs": [*(__opts__.get("module_dirs") or ()), *roots]}
    loaders = Loaders(opts, grains=__grains__, pillar=__pillar__)
    return loaders.called[fun](*args, **kwargs)
