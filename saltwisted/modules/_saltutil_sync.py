"""
Custom modules, fetched from the master, for C{saltutil}.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from saltwisted.modules import _extmods, _files
from saltwisted.modules._daemon import Daemon
from saltwisted.worker import templates
from saltwisted.worker.exceptions import CommandExecutionError, SaltException, SaltRenderError

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__context__: Any
__fileclient__: Any

_daemon = Daemon(globals())

TOP_ENVS_CKEY = "saltutil._top_file_envs"


def _top_envs() -> Any:
    """
    The environment of the state run that this is a part of, or of the configuration. Without any,
    those that this minion's top file names; found out once per job.
    """
    saltenv = __opts__.get("saltenv")
    if saltenv:
        return [str(saltenv)]
    if TOP_ENVS_CKEY not in __context__:
        __context__[TOP_ENVS_CKEY] = _find_top_envs()
    return __context__[TOP_ENVS_CKEY]


def _find_top_envs() -> Any:
    """
    Render the top file of every environment and see which targets mean this minion.

    A file that cannot be rendered counts as none: what it lacks may be the very module that is to
    be synced.
    """
    from saltwisted.domain.pillar.top import chosen, merge_tops
    from saltwisted.domain.targeting.matchers import MinionFacts, confirm_top

    name = str(__opts__.get("state_top") or "top.sls")
    name = name if name.startswith("salt://") else f"salt://{name}"
    context = {"salt": __salt__, "opts": __opts__, "grains": __grains__, "pillar": __pillar__}
    facts = MinionFacts(
        id=__opts__["id"],
        grains=__grains__,
        pillar=__pillar__,
        nodegroups=__opts__.get("nodegroups") or {},
    )
    tops: dict[str, list[Any]] = {}
    try:
        only = __opts__.get("state_top_saltenv")
        for env in [str(only)] if only else __fileclient__.envs():
            path = __fileclient__.cache_file(name, env)
            if not path:
                continue
            try:
                tops[env] = [templates.render_data(context, path, saltenv=env, sls="top")]
            except SaltRenderError as error:
                log.error("The top file of '%s' names no environment: %s", env, error)
        merged, _ = merge_tops(tops)
    except (SaltException, TypeError, AttributeError) as error:
        raise CommandExecutionError(f"Unable to render top file(s): {error}") from error
    found = chosen(merged, None, lambda target, entries: confirm_top(target, entries, facts))
    return list(found) or "base"


def _sync(form: str, saltenv: Any, whitelist: Any, blacklist: Any) -> list[str]:
    if saltenv is None:
        saltenv = _top_envs()
    if isinstance(saltenv, str):
        saltenv = saltenv.split(",")
    changed, touched = _extmods.sync(__opts__, __fileclient__, form, saltenv, whitelist, blacklist)
    if touched:
        _files.mark(os.path.join(__opts__["cachedir"], "module_refresh"))
        # What this very job calls next may be one of the new functions.
        loaders = getattr(__salt__, "loaders", None)
        if loaders is not None:
            loaders.clear()
    if form == "grains":
        _extmods.forget_grains(__opts__["cachedir"])
    return changed


def sync_modules(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom execution modules from C{salt://_modules}; answers with what is new.

    saltenv
        Environments to take them from; those of the top file if not given.
    refresh
        Have the daemon load them.
    extmod_whitelist, extmod_blacklist
        Names to take alone, or to leave out.

    CLI Example::

        salt '*' saltutil.sync_modules
        salt '*' saltutil.sync_modules saltenv=base,dev
    """
    changed = _sync("modules", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_states(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom state modules from C{salt://_states}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_states
    """
    changed = _sync("states", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_grains(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
    clean_pillar_cache: bool = False,
) -> list[str]:
    """
    Fetch custom grains from C{salt://_grains}. See C{saltutil.sync_modules}. When it returns, the
    master knows what they say: the next command may target them.

    CLI Example::

        salt '*' saltutil.sync_grains
    """
    changed = _sync("grains", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("grains", wait=True, timeout=30)
        _daemon.refresh("pillar", clean_cache=clean_pillar_cache)
    return changed


def sync_beacons(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom beacons from C{salt://_beacons}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_beacons
    """
    changed = _sync("beacons", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("beacons")
    return changed


def sync_sdb(
    saltenv: Any = None, extmod_whitelist: Any = None, extmod_blacklist: Any = None
) -> list[str]:
    """
    Fetch custom sdb modules from C{salt://_sdb}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_sdb
    """
    return _sync("sdb", saltenv, extmod_whitelist, extmod_blacklist)


def sync_renderers(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom renderers from C{salt://_renderers}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_renderers
    """
    changed = _sync("renderers", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_returners(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom returners from C{salt://_returners}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_returners
    """
    changed = _sync("returners", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_proxymodules(
    saltenv: Any = None,
    refresh: bool = False,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom proxy modules from C{salt://_proxy}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_proxymodules
    """
    changed = _sync("proxy", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_matchers(
    saltenv: Any = None,
    refresh: bool = False,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom matchers from C{salt://_matchers}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_matchers
    """
    changed = _sync("matchers", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_engines(
    saltenv: Any = None,
    refresh: bool = False,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom engines from C{salt://_engines}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_engines
    """
    changed = _sync("engines", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_thorium(
    saltenv: Any = None,
    refresh: bool = False,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom Thorium modules from C{salt://_thorium}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_thorium
    """
    changed = _sync("thorium", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_output(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom outputters from C{salt://_output}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_output
    """
    changed = _sync("output", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_outputters(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Another name of C{saltutil.sync_output}.

    CLI Example::

        salt '*' saltutil.sync_outputters
    """
    return sync_output(saltenv, refresh, extmod_whitelist, extmod_blacklist)


def sync_clouds(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom cloud modules from C{salt://_clouds}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_clouds
    """
    changed = _sync("clouds", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_utils(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom utility modules from C{salt://_utils}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_utils
    """
    changed = _sync("utils", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_serializers(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom serializers from C{salt://_serializers}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_serializers
    """
    changed = _sync("serializers", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_log_handlers(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom log handlers from C{salt://_log_handlers}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_log_handlers
    """
    changed = _sync("log_handlers", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_executors(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom executors from C{salt://_executors}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_executors
    """
    changed = _sync("executors", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


def sync_resources(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom resource modules from C{salt://_resources}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_resources
    """
    changed = _sync("resources", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        __salt__["event.fire"]({}, "resource_refresh")
    return changed


def _masterless(what: str) -> None:
    if __opts__.get("file_client") != "local":
        raise CommandExecutionError(f"{what} modules can only be synced to masterless minions")


def sync_pillar(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
    clean_pillar_cache: bool = False,
) -> list[str]:
    """
    Fetch custom pillar modules from C{salt://_pillar}; on a minion without a master only.

    CLI Example::

        salt '*' saltutil.sync_pillar
    """
    _masterless("Pillar")
    changed = _sync("pillar", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("pillar", clean_cache=clean_pillar_cache)
    return changed


def sync_tops(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom master tops from C{salt://_tops}; on a minion without a master only.

    CLI Example::

        salt '*' saltutil.sync_tops
    """
    _masterless("Master top")
    if refresh:
        __context__.pop(TOP_ENVS_CKEY, None)
    return _sync("tops", saltenv, extmod_whitelist, extmod_blacklist)


def sync_wrapper(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
) -> list[str]:
    """
    Fetch custom salt-ssh wrappers from C{salt://_wrapper}; on a minion without a master only.

    CLI Example::

        salt '*' saltutil.sync_wrapper
    """
    _masterless("Wrapper")
    changed = _sync("wrapper", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _daemon.refresh("modules")
    return changed


_ALL = (
    ("clouds", "clouds"),
    ("beacons", "beacons"),
    ("modules", "modules"),
    ("states", "states"),
    ("sdb", "sdb"),
    ("grains", "grains"),
    ("renderers", "renderers"),
    ("returners", "returners"),
    ("output", "output"),
    ("utils", "utils"),
    ("log_handlers", "log_handlers"),
    ("executors", "executors"),
    ("proxymodules", "proxy"),
    ("engines", "engines"),
    ("thorium", "thorium"),
    ("serializers", "serializers"),
    ("matchers", "matchers"),
    ("resources", "resources"),
)
"""What C{sync_all} answers with, in order: the name there, the directory without underscore."""


def sync_all(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
    clean_pillar_cache: bool = False,
) -> dict[str, list[str]]:
    """
    Fetch custom modules of every kind; answers with what is new of each.

    CLI Example::

        salt '*' saltutil.sync_all
        salt '*' saltutil.sync_all extmod_whitelist={'modules': ['custom_module']}
    """
    given = (extmod_whitelist, extmod_blacklist)
    local = __opts__.get("file_client") == "local"
    result: dict[str, list[str]] = {}
    if local:
        result["tops"] = sync_tops(saltenv, refresh, *given)
    for name, form in _ALL:
        result[name] = _sync(form, saltenv, *given)
    if local:
        result["pillar"] = _sync("pillar", saltenv, *given)
        result["wrapper"] = _sync("wrapper", saltenv, *given)
    if refresh:
        if any(result.values()):
            _daemon.refresh("modules")
        _daemon.refresh("pillar", clean_cache=clean_pillar_cache)
    return result


def list_extmods() -> dict[str, list[str]]:
    """
    The custom modules that are here, by kind.

    CLI Example::

        salt '*' saltutil.list_extmods
    """
    base = os.path.join(__opts__["cachedir"], "extmods")
    result = {}
    for kind in os.listdir(base):
        names: set[str] = set()
        for _, _, files in os.walk(os.path.join(base, kind)):
            names.update(name.split(".")[0] for name in files)
        result[kind] = sorted(names)
    return result
