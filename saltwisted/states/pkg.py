"""
Packages of the distribution: installed, at their newest, removed, held.

What has to be done is found out in C{_pkg_targets}; versions are in C{_pkg_versions}, holds
in C{_pkg_holds}. The C{pkg} functions come from the platform's module, ours for apt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.domain.highstate.words import tag_of
from saltwisted.modules import _packages
from saltwisted.states import _pkg_holds, _pkg_targets
from saltwisted.states._pkg_targets import Finder, Install, Ret, already, done, refused
from saltwisted.states._pkg_versions import described
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    MinionError,
    SaltInvocationError,
    nested_text,
)

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any
__grains__: Any
__states__: Any
__env__: str


def __virtual__() -> Any:
    if "pkg.install" in __salt__:
        return True
    return False, "pkg module could not be loaded"


def _resolved(pkgs: Any, refresh: Any = False, **kwargs: Any) -> tuple[Any, Any]:
    """Packages for the capabilities named, on platforms that know such."""
    if not pkgs or "pkg.resolve_capabilities" not in __salt__:
        return pkgs, refresh
    return __salt__["pkg.resolve_capabilities"](pkgs, refresh=refresh, **kwargs), False


def _failed(name: Any, error: CommandExecutionError, doing: str) -> Ret:
    """The return for what the package manager refused, with what it did before that."""
    if error.info:
        changes = error.info.get("changes", {})
        return done(name, False, error.strerror_without_changes, changes)
    return refused(name, f"An error was encountered while {doing}: {error}")


def _installable(targets: Mapping[str, Any], current: Mapping[str, Any] | None = None) -> Ret:
    """What installing would change, as far as the package lists tell."""
    open_ones = [name for name, version in targets.items() if not version]
    found: dict[str, Any] = {}
    versions = __salt__["pkg.latest_version"](*open_ones)
    if open_ones:
        found = {open_ones[0]: versions} if isinstance(versions, str) else dict(versions)
    fixed = [described(name, targets) for name in targets if name not in open_ones]
    if fixed:
        for name, candidates in __salt__["pkg.list_repo_pkgs"](*fixed).items():
            if candidates:
                found[name] = candidates[0]
    changes: Ret = dict(found)
    for name in targets:
        old = (current or {}).get(name, "")
        changes[name] = {"new": found.get(name) or "installed", "old": old}
    return changes


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
    if not isinstance(pkg_verify, list):
        pkg_verify = pkg_verify is True
    if (pkg_verify or isinstance(pkg_verify, list)) and "pkg.verify" not in __salt__:
        return refused(name, "pkg.verify not implemented")
    if version is not None:
        version = str(version)
    kwargs["allow_updates"] = allow_updates
    finder = Finder(__salt__, ignore_epoch, {**kwargs, "fromrepo": fromrepo, "split_arch": False})
    found = finder.install(
        name,
        version,
        pkgs,
        sources,
        skip_suggestions=skip_suggestions,
        verify=pkg_verify,
        normalize=normalize,
        reinstall=reinstall,
        refresh=refresh,
    )
    holds = "pkg.hold" in __salt__ and "hold" in kwargs
    if isinstance(found, dict):
        return _only_held(found, pkgs, sources, kwargs["hold"]) if holds else found
    if found.unpurge and "lowpkg.unpurge" not in __salt__:
        return _warned(refused(name, "lowpkg.unpurge not implemented"), found)
    if __opts__["test"]:
        return _warned(_forecast(name, found, bool(sources), reinstall), found)
    if pkgs:
        pkgs = [{one: wanted} for one, wanted in (*found.targets.items(), *found.reinstall.items())]
    elif sources:
        first = [one for one in sources if next(iter(one)) in found.targets]
        sources = first + [one for one in sources if next(iter(one)) in found.reinstall]
    comment: list[str] = []
    changes: Ret = {}
    did: Any = {}
    if found.targets or found.reinstall:
        try:
            did = __salt__["pkg.install"](
                name=None,
                refresh=refresh and not found.refreshed,
                version=version,
                fromrepo=fromrepo,
                skip_verify=skip_verify,
                pkgs=pkgs,
                sources=sources,
                reinstall=bool(found.reinstall),
                normalize=normalize,
                update_holds=update_holds,
                ignore_epoch=ignore_epoch,
                split_arch=False,
                **kwargs,
            )
        except CommandExecutionError as error:
            return _warned(_failed(name, error, "installing package(s)"), found)
        if isinstance(did, dict):
            changes.update(did)
        elif isinstance(did, str):
            comment.append(did)
            did = {}
    held: _pkg_holds.Held | None = None
    if holds:
        try:
            held, problem = _pkg_holds.hold_or_not(
                __salt__, kwargs["hold"], name=name, pkgs=found.desired
            )
        except (CommandExecutionError, SaltInvocationError) as error:
            comment.append(str(error))
            return _warned(done(name, False, "\n".join(comment), changes), found)
        if problem:
            return _warned(problem, found)
    if found.unpurge:
        changes["purge_desired"] = __salt__["lowpkg.unpurge"](*found.unpurge)
    good = _report(finder, found, bool(sources), changes, held, comment)
    again = _report_again(finder, found, bool(sources), reinstall, pkg_verify, did, comment)
    return _warned(done(name, good and again, "\n".join(comment), changes), found)


def _warned(ret: Ret, found: Install) -> Ret:
    if found.warnings:
        ret.setdefault("warnings", []).extend(found.warnings)
    return ret


def _only_held(ret: Ret, pkgs: Any, sources: Any, hold: Any) -> Ret:
    """Hold or let go of what is installed already."""
    try:
        held, problem = _pkg_holds.hold_or_not(
            __salt__, hold, name=ret["name"], pkgs=pkgs, sources=sources
        )
    except (CommandExecutionError, SaltInvocationError) as error:
        return refused(ret["name"], str(error))
    if held is None:
        return problem or ret
    held.add_to(ret)
    return ret


def _forecast(name: Any, found: Install, sources: bool, reinstall: bool) -> Ret:
    comment: list[str] = []
    changes: Ret = {}
    if found.targets:
        changes.update(
            {one: {"new": "installed", "old": ""} for one in found.targets}
            if sources
            else _installable(found.targets)
        )
        names = ", ".join(found.targets)
        comment.append(f"The following packages would be installed/updated: {names}")
    if found.unpurge:
        comment.append(
            "The following packages would have their selection status changed from 'purge' to"
            f" 'install': {', '.join(found.unpurge)}"
        )
        changes.update({one: {"new": "installed", "old": ""} for one in found.unpurge})
    texts = {one: one if sources else described(one, found.reinstall) for one in found.reinstall}
    if texts and reinstall:
        changes.update({text: {"new": "installed", "old": ""} for text in texts.values()})
        comment.append(f"The following packages would be reinstalled: {', '.join(texts.values())}")
    elif texts:
        for one, text in texts.items():
            comment.append(
                f"Package '{text}' would be reinstalled because the following files have been"
                " altered:"
            )
            changes[one] = {}
            comment.append(nested_text(found.altered[one]).rstrip())
    return done(name, None, "\n".join(comment), changes)


def _report(
    finder: Finder,
    found: Install,
    sources: bool,
    changes: Ret,
    held: _pkg_holds.Held | None,
    comment: list[str],
) -> bool:
    """Look whether the targets are there now; add to the comment what came of it."""
    targets, desired = found.targets, found.desired

    def others(names: list[str]) -> list[str]:
        return [one for one in names if one not in targets and one not in found.reinstall]

    if sources:
        changed = [one for one in changes if one in targets]
        same = others(list(desired))
        failed = [one for one in targets if one not in changed]
    else:
        kwargs = {key: value for key, value in finder.kwargs.items() if key != "fromrepo"}
        now = __salt__["pkg.list_pkgs"](versions_as_list=True, **kwargs)
        provided = None
        if kwargs.get("resolve_capabilities", False) and "pkg.list_provides" in __salt__:
            provided = __salt__["pkg.list_provides"](**kwargs)
        good, bad = finder.verified(desired, now, provided)
        changed = [one for one in good if one in targets]
        same = others(good)
        failed = [one for one in bad if one in targets]
    for one in list(failed):
        # A task of the system does it later.
        if isinstance(changes.get(one), dict) and changes[one].get("install status") == (
            "task started"
        ):
            changed.append(one)
            failed.remove(one)

    def summary(names: list[str]) -> str:
        return ", ".join(one if sources else described(one, desired) for one in names)

    if changed:
        text = summary(changed)
        if len(text) < 20:
            comment.append(f"The following packages were installed/updated: {text}")
        else:
            comment.append(f"{_counted(changed)} installed/updated.")
    if held:
        held.add_changes(changes, comment)
    if same:
        if len(same) <= 20:
            comment.append(f"The following packages were already installed: {summary(same)}")
        else:
            comment.append(f"{_counted(same)} already installed")
    if held:
        comment.extend(one["comment"] for one in held.same)
    if failed:
        comment.insert(0, f"The following packages failed to install/update: {summary(failed)}")
    if held:
        comment.extend(one["comment"] for one in held.failed)
    return not failed and not (held and held.failed)


def _counted(names: list[str]) -> str:
    one = len(names) == 1
    return f"{len(names)} targeted package{'' if one else 's'} {'was' if one else 'were'}"


def _report_again(
    finder: Finder,
    found: Install,
    sources: bool,
    reinstall: bool,
    verify: Any,
    did: Mapping[str, Any],
    comment: list[str],
) -> bool:
    """Look whether what was to be installed again is well now."""
    good: list[str] = []
    bad: list[str] = []
    for one in found.reinstall:
        if reinstall:
            (good if one in did else bad).append(one)
        elif verify:
            words = _pkg_targets.verify_words(verify)
            wrong = __salt__["pkg.verify"](one, **words, **finder.kwargs)
            if wrong:
                found.altered[one] = wrong
            (bad if wrong else good).append(one)
    for names, head, files in (
        (good, "Package {} was reinstalled.", "were remediated"),
        (bad, "Reinstall was not successful for package {}.", "could not be remediated"),
    ):
        for one in names:
            text = head.format(one if sources else described(one, found.desired))
            if one in found.altered:
                comment.append(f"{text} The following files {files}:")
                comment.append(nested_text(found.altered[one]).rstrip())
            else:
                comment.append(text)
    return not bad


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
        return _failed(name, error, "downloading package(s)")
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
        return _failed(name, error, "downloading package(s)")
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
        return _failed(name, error, f"installing/updating group '{name}'")
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
        newest = __salt__["pkg.latest_version"](
            *desired, fromrepo=fromrepo, refresh=refresh, **kwargs
        )
    except CommandExecutionError as error:
        return refused(
            name,
            "An error was encountered while checking the newest available version of package(s):"
            f" {error}",
        )
    try:
        current = __salt__["pkg.version"](*desired, **kwargs)
    except CommandExecutionError as error:
        return refused(name, error.strerror)
    current = {desired[0]: current} if isinstance(current, str) else current
    newest = {desired[0]: newest} if isinstance(newest, str) else newest
    problems = [
        f"No information found for '{one}'."
        for one in desired
        if not newest.get(one) and not current.get(one)
    ]
    if problems:
        return refused(name, " ".join(problems))
    targets = {one: newest[one] for one in desired if newest.get(one)}
    if not targets:
        if len(desired) > 10:
            return already(name, f"All {len(desired)} packages are up-to-date.")
        if len(desired) > 1:
            return already(name, f"All packages are up-to-date ({', '.join(sorted(desired))}).")
        return already(name, f"Package {desired[0]} is already up-to-date")
    same = [one for one in pkgs or () if one not in targets]
    if __opts__["test"]:
        names = ", ".join(sorted(targets))
        comments = [f"The following packages would be installed/upgraded: {names}"]
        if len(same) > 10:
            comments.append(f"{len(same)} packages are already up-to-date")
        elif same:
            names = ", ".join(f"{one} ({current[one]})" for one in sorted(same))
            comments.append(f"The following packages are already up-to-date: {names}")
        return done(name, None, "\n".join(comments), _installable(targets, current))
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
    return _upgraded(name, targets, changes, sorted(same))


def _upgraded(name: Any, targets: Mapping[str, str], changes: Any, same: list[str]) -> Ret:
    """The return of C{latest} by what the package manager did."""
    were = f"The following packages were already up-to-date: {', '.join(same)}"
    if not changes:
        if len(targets) > 10:
            text = f"{len(targets)} targeted packages failed to update. See debug log for details."
        elif len(targets) > 1:
            text = (
                "The following targeted packages failed to update. See debug log for details:"
                f" ({', '.join(sorted(targets))})."
            )
        else:
            text = f"Package {next(iter(targets))} failed to update."
        if len(same) > 10:
            text += f"{len(same)} packages were already up-to-date"
        elif same:
            text += f" {were}"
        return done(name, False, text, changes)

    def fell_short(one: str) -> bool:
        if not changes.get(one):
            return True
        new = changes[one].get("new")
        return new is not None and targets[one] not in (*new.split(","), "latest")

    failed = sorted(one for one in targets if fell_short(one))
    good = sorted(one for one in targets if one not in failed)
    comments = []
    if failed:
        comments.append(f"The following packages failed to update: {', '.join(failed)}")
    if good:
        comments.append(
            f"The following packages were successfully installed/upgraded: {', '.join(good)}"
        )
    if len(same) > 10:
        comments.append(f"{len(same)} packages were already up-to-date ")
    elif same:
        comments.append(were)
    return done(name, not failed, " ".join(comments), changes)


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
        return _failed(name, error, "removing package(s)")


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
        return _failed(name, error, "purging package(s)")


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
        return _failed(name, error, "updating packages")
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
    if low.get("fun") not in ("installed", "latest", "removed", "purged"):
        return low
    kind = "sources" if "sources" in low else "pkgs"
    more: dict[str, dict[Any, None]] = {}
    for chunk in chunks:
        if (
            tag_of(chunk) in running
            or chunk.get("state") != "pkg"
            or "__agg__" in chunk
            or "hold" in chunk
            or any(chunk.get(key) != low.get(key) for key in ("fun", "fromrepo"))
        ):
            continue
        if kind in chunk:
            _combine(more, chunk[kind])
        elif kind == "pkgs" and "sources" not in chunk and "name" in chunk:
            more.setdefault(chunk["name"], {})[chunk.pop("version", None)] = None
        else:
            continue
        chunk["__agg__"] = True
    if more:
        mine: dict[str, dict[Any, None]] = {}
        _combine(mine, low.get(kind, []))
        for package, versions in more.items():
            mine.setdefault(package, {}).update(versions)
        low[kind] = [
            package if version is None else {package: version}
            for package, versions in mine.items()
            for version in _named(versions)
        ]
    return low


def _combine(into: dict[str, dict[Any, None]], items: Any) -> None:
    for item in items or ():
        pairs = item.items() if isinstance(item, dict) else ((item, None),)
        for package, version in pairs:
            into.setdefault(package, {})[version] = None


def _named(versions: Mapping[Any, None]) -> list[Any]:
    """The versions asked for; "any" only if nobody asks for a certain one."""
    return [one for one in versions if one is not None] or [None]


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
