"""
Copies custom modules from the file server into this minion's C{extension_modules}.

Each directory C{_modules}, C{_states}, C{_grains} ... of the environments becomes one
directory there; what the server no longer has is removed with C{clean_dynamic_modules}.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from saltwisted.modules import _files
from saltwisted.worker.process.modulefiles import HERE, KINDS

log = logging.getLogger(__name__)

_SUFFIXES = r"E@\.(pyx?|so|zip)$"


def sync(
    opts: Mapping[str, Any],
    client: Any,
    form: str,
    environments: Iterable[str],
    whitelist: Any = None,
    blacklist: Any = None,
) -> tuple[list[str], bool]:
    """
    Bring one kind of modules up to date.

    @param client: the file client.
    @param form: C{modules}, C{states}, ...: the directory without its underscore.
    @param whitelist: names to take alone, C{None} for the option C{extmod_whitelist}.
    @return: new and changed modules as C{form.name}, and whether anything at all changed.
    """
    allowed = _names(opts, "extmod_whitelist", whitelist, form)
    denied = _names(opts, "extmod_blacklist", blacklist, form)
    target = os.path.join(opts["extension_modules"], form)
    changed: list[str] = []
    wanted: set[str] = set()
    touched = False
    try:
        _files.make_private(target)
        for env in environments:
            base = os.path.join(opts["cachedir"], "files", env, f"_{form}")
            for path in client.cache_dir(f"salt://_{form}", env, False, _SUFFIXES, None):
                below = os.path.relpath(path, base)
                name = os.path.splitext(below)[0].replace(os.sep, ".")
                if (allowed and name not in allowed) or name in denied:
                    continue
                if below.startswith(".."):
                    raise OSError(f"{path} is outside of the cache")
                wanted.add(below)
                is_new = not os.path.exists(os.path.join(target, below))
                if _copy(path, os.path.join(target, below)):
                    changed.append(f"{form}.{name}")
                    if is_new and _is_ours(form, name):
                        log.warning(
                            "%s.%s now comes from the site; saltwisted's own is no longer used",
                            form,
                            name,
                        )
        touched = bool(changed)
        if opts.get("clean_dynamic_modules", True) is True:
            touched = _clean(target, wanted) or touched
    except Exception as error:
        log.error("Failed to sync %s module: %s", form, error)
    return changed, touched


def _is_ours(form: str, name: str) -> bool:
    """Whether there is a module of ours of this name, which the site's replaces as a whole."""
    kind = KINDS.get(form)
    return kind is not None and os.path.isfile(os.path.join(HERE, kind.own, f"{name}.py"))


def _names(opts: Mapping[str, Any], option: str, given: Any, form: str) -> frozenset[str]:
    if given is None:
        given = opts.get(option) or {}
    elif isinstance(given, str):
        given = {form: given.split(",")}
    if not isinstance(given, dict):
        log.error("%s must be a string or dictionary", option)
        return frozenset()
    return frozenset(given.get(form) or ())


def _copy(source: str, target: str) -> bool:
    if os.path.isfile(target) and _files.digest(source) == _files.digest(target):
        return False
    _files.make_private(os.path.dirname(target))
    with open(source, "rb") as file:
        _files.write_atomically(target, file.read(), 0o600)
    return True


def _clean(folder: str, wanted: set[str]) -> bool:
    """Remove what is not wanted, compiled leftovers and empty directories too."""
    touched = False
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            full = os.path.join(place, name)
            if os.path.relpath(full, folder) not in wanted:
                os.remove(full)
                touched = True
        if place != folder and (os.path.basename(place) == "__pycache__" or not os.listdir(place)):
            shutil.rmtree(place, ignore_errors=True)
            touched = True
    if not os.listdir(folder):
        os.rmdir(folder)
    return touched


def forget_grains(cachedir: str) -> None:
    """Have grains computed again at the next look, whatever C{grains_cache} has kept."""
    try:
        os.remove(os.path.join(cachedir, "grains.cache.p"))
    except FileNotFoundError:
        pass
    except OSError:
        log.error("Could not remove grains cache!")
