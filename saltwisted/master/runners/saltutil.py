"""
The C{saltutil} runner: modules from the file roots, for the master's own use.

Pillars are compiled with the contents of C{extension_modules}: execution modules, grains, external
pillars, renderers and others. These functions copy them there from C{_modules}, C{_pillar} and so
on, and end worker processes that have loaded older ones.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

from twisted.internet.defer import maybeDeferred

from saltwisted.errors import StoreError
from saltwisted.master.processfiles import content
from saltwisted.master.runner_table import Run, Runner
from saltwisted.stores.files import make_dir, read_file, remove, write_atomic

FORMS = (
    "clouds",
    "modules",
    "states",
    "grains",
    "renderers",
    "returners",
    "output",
    "proxymodules",
    "runners",
    "wheel",
    "engines",
    "thorium",
    "queues",
    "pillar",
    "utils",
    "sdb",
    "cache",
    "fileserver",
    "tops",
    "tokens",
    "serializers",
    "executors",
    "wrapper",
    "roster",
)
"""
Kinds of modules, each with its directory C{_<kind>} (but see C{FOLDERS}), in the order of
C{sync_all}.
"""

FOLDERS = {"proxymodules": "proxy"}
"""Kinds whose directory has another name."""

ENDINGS = (".py", ".pyx", ".so", ".zip")
LARGEST = 64 * 1024 * 1024


def _words(value: Any) -> list[str]:
    return value.split(",") if isinstance(value, str) else [str(word) for word in value]


def _listed(option: Any, given: Any, form: str) -> Collection[str] | None:
    """The names in a white or black list for one kind of module; C{None} if there is none."""
    chosen = option if given is None else given
    if isinstance(chosen, dict):
        found = chosen.get(form)
        return None if found is None else _words(found)
    return _words(chosen) if chosen else None


async def _sync(run: Run, form: str, saltenv: Any, white: Any, black: Any) -> list[str]:
    ctx = run.ctx
    opts = ctx.config
    whitelist = _listed(opts.extmod_whitelist, white, form)
    blacklist = _listed(opts.extmod_blacklist, black, form)
    form = FOLDERS.get(form, form)
    place = os.path.join(opts.extension_modules, form)
    changed: list[str] = []
    wanted: set[str] = set()
    for env in _words(saltenv):
        listed: Any = maybeDeferred(ctx.files.list_now, "files", env, "")
        names: Sequence[str] = await listed
        for path in names:
            if not (path.startswith(f"_{form}/") and path.endswith(ENDINGS)):
                continue
            inner = path.split("/", 1)[1]
            name = os.path.splitext(inner)[0].replace("/", ".")
            if whitelist is not None and name not in whitelist:
                continue
            if blacklist is not None and name in blacklist:
                continue
            data = await content(ctx.files, path, env, LARGEST)
            if data is None:
                continue
            wanted.add(inner)
            if await ctx.pool(_put, data, os.path.join(place, inner)):
                changed.append(f"{form}.{name}")
    removed = opts.clean_dynamic_modules and await ctx.pool(_clean, place, wanted)
    if changed or removed:
        ctx.pillars.clear()
    return changed


def _put(data: bytes, dest: str) -> bool:
    """Write a file, in a thread; whether it was another one before."""
    if data == read_file(dest, LARGEST):
        return False
    make_dir(os.path.dirname(dest))
    write_atomic(dest, data, 0o600)
    return True


def _clean(place: str, wanted: Collection[str]) -> bool:
    """Remove files that are no longer there to be synced, and what they leave empty."""
    removed = False
    for folder, _, names in os.walk(place, topdown=False):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.relpath(path, place) not in wanted:
                remove(path)
                removed = True
        if folder != place and not os.listdir(folder):
            os.rmdir(folder)
    return removed


async def sync_all(
    run: Run, saltenv: Any = "base", extmod_whitelist: Any = None, extmod_blacklist: Any = None
) -> dict[str, list[str]]:
    """
    Sync all kinds of modules from the file roots to the master.

    CLI Example::

        salt-run saltutil.sync_all
        salt-run saltutil.sync_all extmod_whitelist={'runners': ['custom_runner'], 'grains': []}
    """
    run.ctx.files.refresh()
    return {
        form: await _sync(run, form, saltenv, extmod_whitelist, extmod_blacklist) for form in FORMS
    }


def _syncing(form: str, name: str) -> Runner:
    async def sync(
        run: Run,
        saltenv: Any = "base",
        extmod_whitelist: Any = None,
        extmod_blacklist: Any = None,
    ) -> list[str]:
        # A file that was put there a moment ago is one that this is called for
        run.ctx.files.refresh()
        try:
            return await _sync(run, form, saltenv, extmod_whitelist, extmod_blacklist)
        except StoreError as error:
            await run.complain(f"Failed to sync {form} module: {error}")
            return []

    sync.__doc__ = (
        f"Sync modules from C{{salt://_{FOLDERS.get(form, form)}}} to the master.\n\n"
        f"CLI Example::\n\n    salt-run saltutil.{name}\n"
    )
    return sync


FUNCTIONS: dict[str, Runner] = {"sync_all": sync_all}
for _form in FORMS:
    _name = "sync_eauth_tokens" if _form == "tokens" else f"sync_{_form}"
    FUNCTIONS[_name] = _syncing(_form, _name)
