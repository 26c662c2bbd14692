"""
Administer the minion itself: its modules, pillar, jobs, caches and keys.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from saltwisted.errors import RemoteError, SaltwistedError, TransportClosed
from saltwisted.modules import _data, _extmods, _files, _process
from saltwisted.worker import templates
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    SaltException,
    SaltInvocationError,
)

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__context__: Any
__master__: Any
__daemon__: Any
__fileclient__: Any

TOP_ENVS_CKEY = "saltutil._top_file_envs"


# -- refreshing ------------------------------------------------------------------


def _refresh(what: str, **options: Any) -> bool:
    """Tell the daemon to look again; false when there is none."""
    if __daemon__ is None:
        return False
    try:
        __daemon__.call("refresh", what=what, **options)
    except (SaltwistedError, OSError) as error:
        log.error("The daemon could not refresh its %s: %s", what, error)
        return False
    return True


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
    return _refresh("pillar", **options)


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
    _refresh("grains")
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
        return _refresh("modules")
    return _refresh("modules", wait=True, timeout=30)


def refresh_beacons() -> bool:
    """
    Have the beacons set up again.

    CLI Example::

        salt '*' saltutil.refresh_beacons
    """
    return _refresh("beacons")


def refresh_matchers() -> bool:
    """
    Have the matchers loaded again.

    CLI Example::

        salt '*' saltutil.refresh_matchers
    """
    return _refresh("matchers")


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


# -- syncing ---------------------------------------------------------------------


def _top_envs() -> Any:
    """The environments that this minion's top file names; found out once per job."""
    if TOP_ENVS_CKEY not in __context__:
        __context__[TOP_ENVS_CKEY] = _find_top_envs()
    return __context__[TOP_ENVS_CKEY]


def _find_top_envs() -> Any:
    """Render the top file of every environment and see which targets mean this minion."""
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
        for env in __fileclient__.envs():
            path = __fileclient__.cache_file(name, env)
            if path:
                tops[env] = [templates.render_data(context, path, saltenv=env, sls="top")]
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
        try:
            os.remove(os.path.join(__opts__["cachedir"], "grains.cache.p"))
        except FileNotFoundError:
            pass
        except OSError:
            log.error("Could not remove grains cache!")
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
        refresh_modules()
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
        refresh_modules()
    return changed


def sync_grains(
    saltenv: Any = None,
    refresh: bool = True,
    extmod_whitelist: Any = None,
    extmod_blacklist: Any = None,
    clean_pillar_cache: bool = False,
) -> list[str]:
    """
    Fetch custom grains from C{salt://_grains}. See C{saltutil.sync_modules}.

    CLI Example::

        salt '*' saltutil.sync_grains
    """
    changed = _sync("grains", saltenv, extmod_whitelist, extmod_blacklist)
    if refresh:
        _refresh("grains")
        refresh_pillar(clean_cache=clean_pillar_cache)
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
        refresh_beacons()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_modules()
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
        refresh_resources()
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
        refresh_pillar(clean_cache=clean_pillar_cache)
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
        refresh_modules()
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
            refresh_modules()
        refresh_pillar(clean_cache=clean_pillar_cache)
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


# -- jobs ------------------------------------------------------------------------


def running() -> list[dict[str, Any]]:
    """
    The jobs that run now, but for the one that asks.

    CLI Example::

        salt '*' saltutil.running
    """
    from saltwisted.worker import jobfiles

    found = []
    for path, data in jobfiles.read_procs(__opts__["cachedir"]):
        if data["pid"] == os.getpid():
            continue
        if jobfiles.is_job_process(data["pid"], str(data.get("jid", ""))):
            found.append(data)
        else:
            # Its process is gone, or the number belongs to a stranger now.
            jobfiles.remove_quietly(path)
    return found


def is_running(fun: str) -> list[dict[str, Any]]:
    """
    The running jobs whose function fits a glob.

    CLI Example::

        salt '*' saltutil.is_running state.highstate
    """
    return [
        data
        for data in running()
        if any(
            fnmatch.fnmatch(name, fun)
            for name in (
                data["fun"] if isinstance(data.get("fun"), list) else [data.get("fun", "")]
            )
        )
    ]


def find_job(jid: Any) -> dict[str, Any]:
    """
    A running job, or an empty map.

    CLI Example::

        salt '*' saltutil.find_job <job id>
    """
    wanted = str(jid)
    for data in running():
        if data.get("jid") == wanted:
            return data
    return {}


def find_cached_job(jid: Any) -> Any:
    """
    The return of an earlier job, if the option C{cache_jobs} keeps them.

    CLI Example::

        salt '*' saltutil.find_cached_job <job id>
    """
    from saltwisted.wire.msgpack import unpack
    from saltwisted.worker import jobfiles

    jid = str(jid)
    folder = os.path.join(__opts__["cachedir"], "minion_jobs", jid)
    if not jobfiles.valid_jid(jid) or not os.path.isdir(folder):
        if not __opts__.get("cache_jobs"):
            return (
                "Local jobs cache directory not found; you may need to enable cache_jobs "
                "on this minion"
            )
        return f"Local jobs cache directory {folder} not found"
    with open(os.path.join(folder, "return.p"), "rb") as file:
        data = unpack(file.read())
    return data if isinstance(data, dict) else None


def signal_job(jid: Any, sig: Any) -> str:
    """
    Send a signal to the process of a job and to all that it started.

    CLI Example::

        salt '*' saltutil.signal_job <job id> 15
    """
    wanted, number = str(jid), int(sig)
    for data in running():
        if data.get("jid") != wanted:
            continue
        pid = data["pid"]
        try:
            for child in _process.descendants(pid):
                try:
                    os.kill(child, number)
                except ProcessLookupError:
                    pass
            os.kill(pid, number)
        except OSError:
            path = os.path.join(__opts__["cachedir"], "proc", wanted)
            if os.path.isfile(path):
                os.remove(path)
            return f"Job {wanted} was not running and job data has been cleaned up"
        return f"Signal {number} sent to job {wanted} at pid {pid}"
    return ""


def term_job(jid: Any) -> str:
    """
    Ask a job to end (SIGTERM).

    CLI Example::

        salt '*' saltutil.term_job <job id>
    """
    return signal_job(jid, signal.SIGTERM)


def term_all_jobs() -> list[str]:
    """
    Ask all jobs to end.

    CLI Example::

        salt '*' saltutil.term_all_jobs
    """
    return [signal_job(data["jid"], signal.SIGTERM) for data in running()]


def kill_job(jid: Any) -> str:
    """
    End a job at once (SIGKILL).

    CLI Example::

        salt '*' saltutil.kill_job <job id>
    """
    return signal_job(jid, signal.SIGKILL)


def kill_all_jobs() -> list[str]:
    """
    End all jobs at once.

    CLI Example::

        salt '*' saltutil.kill_all_jobs
    """
    return [signal_job(data["jid"], signal.SIGKILL) for data in running()]


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


def clear_job_cache(hours: Any = 24) -> bool:
    """
    Remove kept returns (C{cache_jobs}) older than some hours.

    CLI Example::

        salt '*' saltutil.clear_job_cache hours=12
    """
    limit = time.time() - float(hours) * 3600
    base = os.path.join(__opts__["cachedir"], "minion_jobs")
    try:
        names = os.listdir(base)
    except FileNotFoundError:
        return True
    for name in names:
        path = os.path.join(base, name)
        try:
            if os.path.isdir(path) and os.path.getmtime(path) < limit:
                shutil.rmtree(path)
        except OSError as error:
            log.error("Attempt to clear cache with saltutil.clear_job_cache FAILED with: %s", error)
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


# -- from a minion on the master's machine -----------------------------------------


def _master_control() -> Any:
    """A connection to the master that runs on this machine, found by its configuration."""
    from saltwisted.worker.control import ControlClient
    from saltwisted.worker.process.configio import load_from_disk

    place = __opts__["conf_file"]
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    config = load_from_disk("master", folder).config
    return ControlClient(os.path.join(config.sock_dir, "saltwisted.sock"))


@contextmanager
def _refusals() -> Iterator[None]:
    """What can go wrong between us and a master, in the words that callers know."""
    try:
        yield
    except TransportClosed as error:
        raise CommandExecutionError(
            "This command can only be executed on a minion that is located on the master."
        ) from error
    except RemoteError as error:
        raise CommandExecutionError(error.message) from error


_CLIENT_WORDS = frozenset(
    ("_cmd_meta", "failhard", "orchestration_jid", "ret_config", "ret_kwargs", "roster")
)
"""What C{saltutil.cmd} is told beside the arguments of the function."""


def cmd_iter(
    tgt: Any,
    fun: str,
    arg: Any = (),
    timeout: Any = None,
    tgt_type: str = "glob",
    ret: str = "",
    kwarg: Any = None,
    ssh: bool = False,
    **kwargs: Any,
) -> Iterator[dict[str, Any]]:
    """
    As C{saltutil.cmd}, each answer when it comes.
    """
    if ssh:
        raise CommandExecutionError("salt-ssh is not available")
    expect = bool(kwargs.pop("expect_minions", False))
    words = {
        **(kwarg or {}),
        **{key: kwargs[key] for key in _data.clean_kwargs(**kwargs) if key not in _CLIENT_WORDS},
    }
    load: dict[str, Any] = {
        "tgt": tgt,
        "tgt_type": tgt_type,
        "fun": fun,
        "arg": [*arg, *([{"__kwarg__": True, **words}] if words else [])],
        "ret": ret,
    }
    load["kwargs"] = {k: kwargs[k] for k in ("ret_config", "ret_kwargs") if kwargs.get(k)}
    if timeout is not None:
        load["timeout"] = timeout
    jid = ""
    silent: dict[str, None] = {}
    with _refusals(), _master_control() as master:
        for item in master.stream("run", **load):
            if item["kind"] == "published":
                jid = item["jid"]
                silent.update(dict.fromkeys(item["minions"]))
            elif item["kind"] == "return":
                silent.pop(item["id"], None)
                data = dict(item["data"])
                yield {
                    item["id"]: {
                        "ret": data.get("return"),
                        "retcode": data.get("retcode", 0),
                        "jid": data.get("jid", jid),
                        **({"out": data["out"]} if data.get("out") else {}),
                    }
                }
    if expect:
        for minion in silent:
            yield {minion: {"failed": True}}


def cmd(
    tgt: Any,
    fun: str,
    arg: Any = (),
    timeout: Any = None,
    tgt_type: str = "glob",
    ret: str = "",
    kwarg: Any = None,
    ssh: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a function on other minions; works where the master runs on the same machine.

    CLI Example::

        salt '*' saltutil.cmd '*' test.ping
    """
    batch, subset = kwargs.pop("batch", None), kwargs.pop("subset", None)
    turns = [(tgt, tgt_type)]
    if batch or subset:
        asked = "sys.list_functions" if subset and not batch else "test.ping"
        minions = [
            minion
            for answer in cmd_iter(tgt, asked, timeout=timeout, tgt_type=tgt_type)
            for minion, data in answer.items()
            if asked == "test.ping" or fun in (data["ret"] or ())
        ]
        if batch:
            size = _batch_size(batch, len(minions))
            turns = [
                (minions[start : start + size], "list") for start in range(0, len(minions), size)
            ]
        else:
            turns = [(random.sample(minions, min(int(subset), len(minions))), "list")]
    found: dict[str, Any] = {}
    for who, kind in turns:
        failed = False
        for answer in cmd_iter(who, fun, arg, timeout, kind, ret, kwarg, ssh, **kwargs):
            found.update(answer)
            failed = failed or any(data.get("retcode") for data in answer.values())
        if failed and batch and kwargs.get("failhard"):
            break
    return found


def _batch_size(batch: Any, count: int) -> int:
    """
    How many of so many minions: a number or a percentage.

    @raises SaltInvocationError: neither.
    """
    text = str(batch)
    try:
        if text.endswith("%"):
            return max(1, int(float(text[:-1]) / 100.0 * count))
        return max(1, int(text))
    except ValueError as error:
        raise SaltInvocationError(f"Invalid batch size: {text}") from error


def runner(
    name: str,
    arg: Any = None,
    kwarg: Any = None,
    full_return: bool = False,
    saltenv: str = "base",
    jid: str | None = None,
    **kwargs: Any,
) -> Any:
    """
    Run a runner; works where the master runs on the same machine.

    CLI Example::

        salt master_minion saltutil.runner jobs.list_jobs
        salt master_minion saltutil.runner test.arg arg="['baz']" kwarg="{'foo': 'bar'}"
    """
    kwargs.pop("__orchestration_jid__", None)
    kwargs.pop("__env__", None)
    words = {**(kwarg or {}), **_data.clean_kwargs(**kwargs)}
    with _refusals(), _master_control() as master:
        answer = master.call("runner", fun=name, arg=list(arg or ()), kwarg=words)
    return answer if full_return else answer.get("return")


def wheel(name: str, *args: Any, **kwargs: Any) -> Any:
    """
    Run a wheel function; works where the master runs on the same machine.

    CLI Example::

        salt my-local-minion saltutil.wheel key.accept jerry
        salt my-local-minion saltutil.wheel minions.connected
    """
    words = _data.clean_kwargs(**kwargs)
    with _refusals(), _master_control() as master:
        answer = master.call("wheel", fun=name, arg=list(args), kwarg=words)
    data = {"fun": f"wheel.{name}", "fun_args": list(args), **answer}
    return {"tag": data.pop("tag", ""), "data": data}


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
    return loaders.modules[fun](*args, **kwargs)
