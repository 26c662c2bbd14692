"""
Packages of the distribution: installed, at their newest, removed, held.

What has to be done is found out in C{_pkg_targets}; versions are in C{_pkg_versions}, holds
in C{_pkg_holds}. The C{pkg} functions come from the platform's module, ours for apt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.modules import _packages
from saltwisted.modules._arguments import picked
from saltwisted.states import _pkg_holds, _pkg_reports
from saltwisted.states._pkg_aggregate import aggregate
from saltwisted.states._pkg_installation import Installation, only_held, warned
from saltwisted.states._pkg_targets import Finder, Ret, already, done, refused
from saltwisted.states._pkg_versions import described
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    MinionError,
)

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any
__grains__: Any
__states__: Any
__env__: str

_FOR_INSTALL = (
    *("version", "fromrepo", "skip_verify", "normalize", "update_holds", "ignore_epoch"),
)
"""Arguments of C{installed} that C{pkg.install} takes as they are."""
_FOR_WORK = (
    *("name", "finder", "found", "pkgs", "sources", "words", "kwargs", "verify", "reinstall"),
    "holds",
)


def __virtual__() -> Any:
    if "pkg.install" in __salt__:
        return True
    return False, "pkg module could not be loaded"


def _resolved(pkgs: Any, refresh: Any = False, **kwargs: Any) -> tuple[Any, Any]:
    """Packages for the capabilities named, on platforms that know such."""
    if not pkgs or "pkg.resolve_capabilities" not in __salt__:
        return pkgs, refresh
    return __salt__["pkg.resolve_capabilities"](pkgs, refresh=refresh, **kwargs), False


# -- installed


def installed(
    name: Any,
    version: Any = None,
    refresh: Any = None,
    fromrepo: Any = None,
    skip_verify: bool = False,
    skip_suggestions: bool = False,
    pkgs: Any = None,
    sources: Any = None,
    allow_updates: bool = False,
    pkg_verify: Any = False,
    normalize: bool = True,
    ignore_epoch: bool | None = None,
    reinstall: bool = False,
    update_holds: bool = False,
    **kwargs: Any,
) -> Ret:
    """
    Packages are installed, at a version if one is named.

    version
        C{1.2-3}, with wildcards (C{1.2*}), conditions (C{">=1.2, <2"}) or C{latest}.
    refresh
        Read the package lists first; by default once in a run of states.
    fromrepo
        The release or archive to install from.
    skip_verify
        Take packages without signature.
    pkgs
        Several packages, each a name or C{name: version}.
    sources
        Package files, each C{name: place}.
    allow_updates
        What is newer than C{version} does as well.
    pkg_verify
        Install again what differs from its package, where the platform can check that.
    reinstall
        Install again in any case.
    hold
        Keep the packages at their version afterwards, or let go of them if false.
    update_holds
        Change held packages, too.
    """
    if isinstance(pkgs, list) and not pkgs:
        return already(name, "No packages to install provided")
    if name and not pkgs and not sources:
        pkgs = [{name: version}] if version else [name]
        version = None
    kwargs["saltenv"] = __env__
    refresh = _packages.check_refresh(__opts__, refresh)
    if pkgs:
        pkgs, refresh = _resolved(pkgs, refresh=refresh, **kwargs)
    verify = pkg_verify if isinstance(pkg_verify, list) else pkg_verify is True
    if verify is not False and "pkg.verify" not in __salt__:
        return refused(name, "pkg.verify not implemented")
    version = None if version is None else str(version)
    kwargs["allow_updates"] = allow_updates
    finder = Finder(__salt__, ignore_epoch, {**kwargs, "fromrepo": fromrepo, "split_arch": False})
    found = finder.install(
        name,
        version,
        pkgs,
        sources,
        skip_suggestions=skip_suggestions,
        verify=verify,
        normalize=normalize,
        reinstall=reinstall,
        refresh=refresh,
    )
    words = picked(locals(), _FOR_INSTALL)
    holds = "pkg.hold" in __salt__ and "hold" in kwargs
    if isinstance(found, dict):
        return only_held(__salt__, found, pkgs, sources, kwargs["hold"]) if holds else found
    if found.unpurge and "lowpkg.unpurge" not in __salt__:
        return warned(refused(name, "lowpkg.unpurge not implemented"), found)
    if __opts__["test"]:
        forecast = _pkg_reports.forecast(__salt__, name, found, bool(sources), reinstall)
        return warned(forecast, found)
    words["refresh"] = refresh and not found.refreshed
    work = Installation(**picked(locals(), _FOR_WORK))
    return warned(work.run(), found)


# -- downloaded, and what other platforms have


def downloaded(
    name: Any,
    version: Any = None,
    pkgs: Any = None,
    fromrepo: Any = None,
    ignore_epoch: bool | None = None,
    **kwargs: Any,
) -> Ret:
    """
    Packages are in the package manager's cache. The arguments are those of C{installed}.
    """
    if "pkg.list_downloaded" not in __salt__:
        return refused(name, "The pkg.downloaded state is not available on this platform")
    if isinstance(pkgs, list) and not pkgs:
        return already(name, "No packages to download provided")
    if name and not pkgs:
        pkgs = [{name: version}] if version else [name]
        version = None
    kwargs.pop("downloadonly", None)
    pkgs, _ = _resolved(pkgs, **kwargs)
    finder = Finder(__salt__, ignore_epoch, kwargs)
    targets, nothing = finder.download(name, version, pkgs, fromrepo)
    if nothing is not None:
        return nothing
    names = ", ".join(targets)
    if __opts__["test"]:
        return done(name, None, f"The following packages would be downloaded: {names}")
    try:
        changes = __salt__["pkg.install"](
            name=name,
            pkgs=pkgs,
            version=version,
            downloadonly=True,
            fromrepo=fromrepo,
            ignore_epoch=ignore_epoch,
            **kwargs,
        )
    except CommandExecutionError as error:
        return _pkg_reports.failed(name, error, "downloading package(s)")
    _, failed = finder.verified(targets, __salt__["pkg.list_downloaded"](**kwargs))
    if failed:
        text = ", ".join(described(one, targets) for one in failed)
        return done(name, False, f"The following packages failed to download: {text}", changes)
    return done(name, True, "" if changes else f"Packages downloaded: {names}", changes)


def patch_installed(
    name: Any, advisory_ids: Any = None, downloadonly: Any = None, **kwargs: Any
) -> Ret:
    """
    Advisory patches are installed, on platforms that have such.
    """
    if "pkg.list_patches" not in __salt__:
        return refused(name, "The pkg.patch_installed state is not available on this platform")
    if isinstance(advisory_ids, list) and not advisory_ids:
        return already(name, "No advisory ids provided")
    has = __salt__["pkg.list_installed_patches"](**kwargs)
    if not advisory_ids and has.get(name):
        return already(name, f"Advisory patch {name} is already installed")
    targets = [one for one in advisory_ids or [name] if not has.get(one)]
    if not targets:
        return already(name, "All specified advisory patches are already installed")
    if __opts__["test"]:
        names = ", ".join(targets)
        return done(name, None, f"The following advisory patches would be downloaded: {names}")
    try:
        changes = __salt__["pkg.install"](
            name=name, advisory_ids=advisory_ids, downloadonly=downloadonly, **kwargs
        )
    except CommandExecutionError as error:
        return _pkg_reports.failed(name, error, "downloading package(s)")
    status = "downloaded" if downloadonly else "installed"
    text = f"Advisory patch is not needed or related packages are already {status}"
    return done(name, True, "" if changes else text, changes)


def patch_downloaded(name: Any, advisory_ids: Any = None, **kwargs: Any) -> Ret:
    """
    Advisory patches are in the package manager's cache, on platforms that have such.
    """
    if "pkg.list_patches" not in __salt__:
        return refused(name, "The pkg.patch_downloaded state is not available on this platform")
    kwargs.pop("downloadonly", None)
    return patch_installed(name, advisory_ids=advisory_ids, downloadonly=True, **kwargs)


def group_installed(name: Any, skip: Any = None, include: Any = None, **kwargs: Any) -> Ret:
    """
    A group of packages is installed, on platforms that have such.
    """
    if "pkg.group_diff" not in __salt__:
        return refused(name, "pkg.group_install not available for this platform")
    given: dict[str, list[str]] = {}
    for word, value in (("skip", skip), ("include", include)):
        if value is not None and not isinstance(value, list):
            return refused(name, f"{word} must be formatted as a list")
        given[word] = [str(one) for one in value or ()]
    clean = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    try:
        diff = __salt__["pkg.group_diff"](name, **clean)
    except (CommandExecutionError, TypeError) as error:
        if "unexpected keyword argument" in str(error):
            return refused(name, "Repo options are not supported on this platform")
        return refused(
            name,
            f"An error was encountered while installing/updating group '{name}': {error}.",
        )
    mandatory = diff["mandatory"]["not installed"]
    skipped = [one for one in diff["mandatory"]["installed"] + mandatory if one in given["skip"]]
    if skipped:
        names = ", ".join(skipped)
        return refused(name, f"The following mandatory packages cannot be skipped: {names}")
    targets = [
        *mandatory,
        *(one for one in diff["default"]["not installed"] if one not in given["skip"]),
        *given["include"],
    ]
    if not targets:
        return already(name, f"Group '{name}' is already installed")
    partly = any(diff[kind]["installed"] for kind in ("mandatory", "default", "optional"))
    if __opts__["test"]:
        how = "is partially installed and will be updated" if partly else "will be installed"
        return done(name, None, f"Group '{name}' {how}")
    try:
        changes = __salt__["pkg.install"](pkgs=targets, **kwargs)
    except CommandExecutionError as error:
        return _pkg_reports.failed(name, error, f"installing/updating group '{name}'")
    now = __salt__["pkg.list_pkgs"](**kwargs)
    failed = [one for one in (*mandatory, *given["include"]) if one not in now]
    if failed:
        text = f"Failed to install the following packages: {', '.join(failed)}"
        return done(name, False, text, changes)
    return done(name, True, f"Group '{name}' was {'updated' if partly else 'installed'}", changes)


# -- latest


def latest(
    name: Any,
    refresh: Any = None,
    fromrepo: Any = None,
    skip_verify: bool = False,
    pkgs: Any = None,
    watch_flags: bool = True,
    **kwargs: Any,
) -> Ret:
    """
    Packages are installed at the newest version there is. The arguments are those of C{installed}.
    """
    refresh = _packages.check_refresh(__opts__, refresh)
    finder = Finder(__salt__, None, kwargs)
    if kwargs.get("sources"):
        return refused(name, 'The "sources" parameter is not supported.')
    if pkgs:
        desired = list(finder.repacked(pkgs))
        if not desired:
            return refused(name, 'Invalidly formatted "pkgs" parameter. See minion log.')
    elif isinstance(pkgs, list):
        return already(name, "No packages to install provided")
    else:
        desired = [name]
    kwargs["saltenv"] = __env__
    desired, refresh = _resolved(desired, refresh=refresh, **kwargs)
    try:
        newest, current = _versions(desired, fromrepo, refresh, kwargs)
    except _Refused as problem:
        return refused(name, problem.args[0])
    targets = {one: newest[one] for one in desired if newest.get(one)}
    if not targets:
        return _pkg_reports.up_to_date(name, desired)
    same = [one for one in pkgs or () if one not in targets]
    if __opts__["test"]:
        return _pkg_reports.would_upgrade(__salt__, name, targets, current, same)
    try:
        changes = __salt__["pkg.install"](
            name=None,
            refresh=False,
            fromrepo=fromrepo,
            skip_verify=skip_verify,
            pkgs=list(targets),
            **kwargs,
        )
    except CommandExecutionError as error:
        return refused(name, f"An error was encountered while installing package(s): {error}")
    return _pkg_reports.upgraded(name, targets, changes, sorted(same))


class _Refused(Exception):
    """Nothing can be done; why."""


def _versions(
    desired: list[str], fromrepo: Any, refresh: Any, kwargs: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    The newest and the present version of each package.

    @raises _Refused: they cannot be found out, or there is neither.
    """
    try:
        newest = __salt__["pkg.latest_version"](
            *desired, fromrepo=fromrepo, refresh=refresh, **kwargs
        )
    except CommandExecutionError as error:
        raise _Refused(
            "An error was encountered while checking the newest available version of package(s):"
            f" {error}"
        ) from error
    try:
        current = __salt__["pkg.version"](*desired, **kwargs)
    except CommandExecutionError as error:
        raise _Refused(error.strerror) from error
    current = {desired[0]: current} if isinstance(current, str) else current
    newest = {desired[0]: newest} if isinstance(newest, str) else newest
    problems = [
        f"No information found for '{one}'."
        for one in desired
        if not newest.get(one) and not current.get(one)
    ]
    if problems:
        raise _Refused(" ".join(problems))
    return newest, current


# -- removed


def _uninstall(
    action: str,
    name: Any,
    version: Any,
    pkgs: Any,
    normalize: bool,
    ignore_epoch: bool | None,
    **kwargs: Any,
) -> Ret:
    try:
        params = __salt__["pkg_resource.parse_targets"](
            name, pkgs, normalize=normalize, version=version, **kwargs
        )[0]
    except MinionError as error:
        return refused(name, f"An error was encountered while parsing targets: {error}")
    finder = Finder(__salt__, ignore_epoch, kwargs)
    targets, nothing = finder.remove(name, version, pkgs, normalize)
    purges = action == "purge"
    if nothing is not None and not purges:
        return nothing
    if purges:
        left = __salt__["pkg.list_pkgs"](versions_as_list=True, removed=True, **kwargs)
        targets = targets + [one for one in params if one in left]
    targets.sort()
    if not targets:
        more = " or partially installed" if purges else ""
        return already(name, f"None of the targeted packages are installed{more}")
    names = ", ".join(targets)
    if __opts__["test"]:
        forecast = {one: {"new": f"{action}d", "old": ""} for one in targets}
        text = f"The following packages will be {action}d: {names}."
        return done(name, None, text, forecast)
    changes = __salt__[f"pkg.{action}"](
        name, pkgs=pkgs, version=version, split_arch=False, **kwargs
    )
    now = __salt__["pkg.list_pkgs"](versions_as_list=True, **kwargs)
    failed = _still_there(params, now)
    if purges:
        left = __salt__["pkg.list_pkgs"](versions_as_list=True, removed=True, **kwargs)
        failed += [one for one in params if one in left]
    if failed:
        text = f"The following packages failed to {action}: {', '.join(sorted(failed))}."
        return done(name, False, text, changes)
    others = sorted(one for one in params if one not in targets)
    if others:
        text = (
            f"The following packages were not installed: {', '.join(others)} The following"
            f" packages were {action}d: {names}."
        )
    else:
        text = f"All targeted packages were {action}d."
    return done(name, True, text, changes)


def _still_there(params: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    if __grains__["os_family"] not in ("Suse", "RedHat", "Windows"):
        return [one for one in params if one in now]
    # There several versions of a package stand side by side.
    return [
        f"{one}-{version}" if version else one
        for one, version in params.items()
        if one in now and (not version or version in now[one])
    ]


def removed(
    name: Any,
    version: Any = None,
    pkgs: Any = None,
    normalize: bool = True,
    ignore_epoch: bool | None = None,
    **kwargs: Any,
) -> Ret:
    """
    Packages are not installed; their configuration may stay. The arguments are those of
    C{installed}.
    """
    kwargs["saltenv"] = __env__
    try:
        return _uninstall("remove", name, version, pkgs, normalize, ignore_epoch, **kwargs)
    except CommandExecutionError as error:
        return _pkg_reports.failed(name, error, "removing package(s)")


def purged(
    name: Any,
    version: Any = None,
    pkgs: Any = None,
    normalize: bool = True,
    ignore_epoch: bool | None = None,
    **kwargs: Any,
) -> Ret:
    """
    Packages are not installed, nor is their configuration there. The arguments are those of
    C{installed}.
    """
    kwargs["saltenv"] = __env__
    try:
        return _uninstall("purge", name, version, pkgs, normalize, ignore_epoch, **kwargs)
    except CommandExecutionError as error:
        return _pkg_reports.failed(name, error, "purging package(s)")


def uptodate(name: Any, refresh: Any = False, pkgs: Any = None, **kwargs: Any) -> Ret:
    """
    All installed packages, or those named, are at their newest.
    """
    if "pkg.list_upgrades" not in __salt__:
        return refused(name, "State pkg.uptodate is not available")
    if not isinstance(refresh, bool):
        return refused(name, "refresh must be either True or False")
    try:
        pkgs, refresh = _resolved(pkgs, refresh=refresh, **kwargs)
        newest = __salt__["pkg.list_upgrades"](refresh=refresh, **kwargs)
        expected = {
            one: {"new": version, "old": __salt__["pkg.version"](one, **kwargs)}
            for one, version in newest.items()
            if not isinstance(pkgs, list) or one in pkgs
        }
    except Exception as error:
        # Whatever it is, stock makes a comment of it.
        return refused(name, str(error))
    if not expected:
        return already(name, "System is already up-to-date")
    if __opts__["test"]:
        return done(name, None, "System update will be performed", expected)
    try:
        changes = __salt__["pkg.upgrade"](refresh=refresh, pkgs=pkgs, **kwargs)
    except CommandExecutionError as error:
        return _pkg_reports.failed(name, error, "updating packages")
    missing = [one for one in expected if one not in changes] if isinstance(pkgs, list) else []
    if missing:
        text = f"The following package(s) failed to update: {', '.join(missing)}"
        return done(name, False, text, changes)
    return done(name, True, "Upgrade ran successfully", changes)


# -- held


def held(
    name: Any, version: Any = None, pkgs: Any = None, replace: bool = False, **kwargs: Any
) -> Ret:
    """
    Packages stay at their version.

    replace
        No others do.
    """
    if isinstance(pkgs, list) and not pkgs and not replace:
        return already(name, "No packages to be held provided")
    if name and pkgs is None:
        pkgs = [{name: version}] if version else [name]
    holds = _pkg_holds.Holds.read(__salt__, bool(__opts__["test"]))
    if holds is None:
        return refused(name, _pkg_holds.NO_LIST)
    if "pkg.hold" not in __salt__:
        return refused(name, "`hold` function is not implemented for the package manager.")
    return holds.hold(done(name, True, ""), pkgs, replace)


def unheld(
    name: Any, version: Any = None, pkgs: Any = None, all: bool = False, **kwargs: Any
) -> Ret:
    """
    Packages may change their version.

    all
        Every package may.
    """
    if isinstance(pkgs, list) and not pkgs and not all:
        return already(name, "No packages to be unheld provided")
    if name and pkgs is None:
        pkgs = [{name: version}]
    holds = _pkg_holds.Holds.read(__salt__, bool(__opts__["test"]))
    if holds is None:
        return refused(name, _pkg_holds.NO_LIST)
    return holds.unhold(done(name, True, ""), pkgs, all)


# -- what the compiler asks for


def mod_init(low: dict[str, Any]) -> Any:
    """
    Before the first state of a run: ask for the package lists to be read once.
    """
    ret = __salt__["pkg.ex_mod_init"](low) if "pkg.ex_mod_init" in __salt__ else True
    if low["fun"] not in ("installed", "latest"):
        return False
    _packages.write_rtag(__opts__)
    return ret


def mod_aggregate(
    low: dict[str, Any], chunks: list[dict[str, Any]], running: Mapping[str, Any]
) -> dict[str, Any]:
    """
    Take the packages of states still to come into this one.
    """
    return aggregate(low, chunks, running)


def mod_watch(name: Any, **kwargs: Any) -> Ret:
    """
    Apply the state again: something that it watches has changed.
    """
    function = kwargs.pop("sfun", None)
    known: dict[Any, Callable[..., Ret]] = {
        "purged": purged,
        "latest": latest,
        "removed": removed,
        "installed": installed,
    }
    if function in known:
        return known[function](name, **kwargs)
    return refused(name, f"pkg.{function} does not work with the watch requisite")


def mod_beacon(name: Any, **kwargs: Any) -> Ret:
    """
    Watch packages that C{installed} or C{removed} looked after, if the state asks for a C{beacon}.
    """
    function = kwargs.pop("sfun", None)
    if function not in ("installed", "removed"):
        return refused(name, f"pkg.{function} does not work with the mod_beacon state function")
    if not kwargs.get("beacon"):
        return already(name, "Not adding beacon.")
    made: Ret = __states__["beacon.present"](
        name=f"beacon_pkg_{name}",
        pkgs=kwargs.get("pkgs", [name]),
        interval=60,
        beacon_module="pkg",
    )
    return made
