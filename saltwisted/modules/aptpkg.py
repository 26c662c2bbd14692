"""
Packages by apt (virtual module C{pkg}).

C{apt-get} never asks a question: its environment says so, configuration files that were changed
stay as they are, and a lock held by someone else is waited for (L{Apt}). What changed is found by
comparing the lists of packages before and after. The list is kept in C{__context__} until
something changes it.
"""

from __future__ import annotations

import copy
import logging
import re
from typing import Any

from saltwisted.modules import _apt_install, _apt_output, _packages, _yaml
from saltwisted.modules._apt import Apt, as_map
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, MinionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__opts__: dict[str, Any]
__context__: dict[str, Any]
__pillar__: dict[str, Any]

__virtualname__ = "pkg"
__parts__ = ("_apt_repos", "_apt_ask")

PKG_ARCH_SEPARATOR = ":"


_apt = Apt(globals(), lambda: __pillar__)


def __virtual__() -> Any:
    if __grains__.get("os_family") == "Debian":
        return __virtualname__
    return (False, "The pkg module could not be loaded: unsupported OS family")


def normalize_name(name: str) -> str:
    """
    A package name without an architecture that is this machine's own, C{all} or C{any}.

    CLI Example::

        salt '*' pkg.normalize_name zsh:amd64
    """
    plain, separator, arch = name.rpartition(PKG_ARCH_SEPARATOR)
    return plain if separator and arch in (__grains__["osarch"], "all", "any") else name


def parse_arch(name: str) -> dict[str, str | None]:
    """
    Name and architecture apart.

    CLI Example::

        salt '*' pkg.parse_arch zsh:amd64
    """
    plain, separator, arch = name.rpartition(PKG_ARCH_SEPARATOR)
    return {"name": plain, "arch": arch} if separator else {"name": name, "arch": None}


def latest_version(*names: str, **kwargs: Any) -> Any:
    """
    The version to which packages could be installed or upgraded, empty if they are up to date.

    Text for one package, a map for several.

    @keyword refresh: fetch the lists first (default).
    @keyword show_installed: also of packages that are up to date.
    @keyword fromrepo: the release to take it from.
    @keyword cache_valid_time: seconds for which the lists count as fresh.

    CLI Example::

        salt '*' pkg.latest_version <package name>
        salt '*' pkg.latest_version <package1> <package2> fromrepo=unstable
    """
    refresh = systools.is_true(kwargs.pop("refresh", True))
    show_installed = systools.is_true(kwargs.pop("show_installed", False))
    if "repo" in kwargs:
        raise SaltInvocationError("The 'repo' argument is invalid, use 'fromrepo' instead")
    fromrepo = kwargs.pop("fromrepo", None)
    cache_valid_time = kwargs.pop("cache_valid_time", 0)
    if not names:
        return ""
    installed = list_pkgs(versions_as_list=True)
    if refresh:
        refresh_db(cache_valid_time)
    command = ["apt-cache", "-q", "policy", *names]
    if fromrepo:
        command += ["-o", f"APT::Default-Release={fromrepo}"]
    candidates = _apt_output.candidates(_apt.call(command, scope=False)["stdout"], names)
    found = dict.fromkeys(names, "")
    # A name of a foreign architecture is answered as name:arch. One that apt does not know is no
    # name any more, and so Salt's answer is a map where it would otherwise be text.
    known = [name for name in names if name in candidates]
    for name in names:
        if name not in candidates:
            known += [item for item in candidates if item.startswith(f"{name}:")]
    for name in known:
        candidate = candidates[name]
        versions = installed.get(name, [])
        fresh = any(_packages.compare(item, ">=", candidate, version_cmp) for item in versions)
        if show_installed or not versions or (candidate and not fresh):
            found[name] = candidate
    return found[known[0]] if len(known) == 1 else found


available_version = latest_version


def version(*names: str, **kwargs: Any) -> Any:
    """
    The installed version of packages, empty if they are not installed.

    CLI Example::

        salt '*' pkg.version <package1> <package2>
    """
    return __salt__["pkg_resource.version"](*names, **kwargs)


def refresh_db(
    cache_valid_time: Any = 0, failhard: Any = False, **kwargs: Any
) -> dict[str, bool | None]:
    """
    Fetch the package lists; address to true (fetched), C{None} (unchanged) or false (failed).

    @param cache_valid_time: do nothing if the lists are younger than this, in seconds.
    @param failhard: raise if any list could not be fetched.

    CLI Example::

        salt '*' pkg.refresh_db
    """
    return _apt.refresh(cache_valid_time, failhard, **kwargs)


def install(
    name: str | None = None,
    refresh: Any = False,
    fromrepo: str | None = None,
    skip_verify: bool = False,
    debconf: str | None = None,
    pkgs: Any = None,
    sources: Any = None,
    reinstall: bool = False,
    downloadonly: bool = False,
    ignore_epoch: bool = False,
    normalize: bool = True,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Install packages; gives what changed, package to C{old} and C{new} version.

    @param refresh: fetch the lists first; with a version only if it is not the latest known.
    @param fromrepo: the release to take them from.
    @param skip_verify: install without a valid signature.
    @param debconf: a file of answers for C{debconf-set-selections}, on the master or here.
    @param pkgs: a list of names, or of maps of name to version (also C{>=1.2}).
    @param sources: a list of maps of name to the place of a C{.deb}.
    @keyword version: of the one package C{name}.
    @keyword only_upgrade: do not install what is not installed.
    @keyword install_recommends: whether to install recommended packages.
    @keyword force_conf_new: replace changed configuration files.
    @keyword cache_valid_time: seconds for which the lists count as fresh.
    @raises CommandExecutionError: with C{errors} and C{changes} in its C{info}.

    CLI Example::

        salt '*' pkg.install <package name>
        salt '*' pkg.install pkgs='["foo", {"bar": "1.2.3-0ubuntu0"}]'
        salt '*' pkg.install sources='[{"foo": "salt://foo.deb"}]'
    """
    must_refresh = systools.is_true(refresh) and _lists_too_old(name, pkgs, kwargs)
    if debconf:
        __salt__["debconf.set_file"](debconf)
    try:
        targets, kind = __salt__["pkg_resource.parse_targets"](
            name, pkgs, sources, normalize=normalize and kwargs.get("split_arch", True), **kwargs
        )
    except MinionError as error:
        raise CommandExecutionError(str(error)) from error
    fromrepo = fromrepo or kwargs.get("repo", "")
    if not targets:
        return {}
    old = list_pkgs()
    plan = _apt_install.Plan(old, bool(reinstall), ignore_epoch, version_cmp)
    if kind == "repository":
        if name and pkgs is None and kwargs.get("version") and len(targets) == 1:
            targets = dict.fromkeys(targets, kwargs["version"])
        _plan_packages(plan, targets, kwargs)
    else:
        for path in targets:
            data = __salt__["lowpkg.bin_pkg_info"](path)
            plan.add_file(data["name"], path, data["version"])
    head = _apt_install.install_command(kwargs, skip_verify)
    if fromrepo and kind == "repository":
        head += ["-t", fromrepo]
    head.append("install")
    if fromrepo and not sources:
        log.info("Targeting repo '%s'", fromrepo)
    commands = plan.commands(head, kind == "repository", bool(sources), downloadonly)
    changes: dict[str, Any] = {}
    if commands:
        cache_valid_time = kwargs.pop("cache_valid_time", 0)
        if must_refresh:
            refresh_db(cache_valid_time)
        changes = _carry_out(plan, commands, kwargs)
    if plan.errors:
        raise CommandExecutionError(
            "Problem encountered installing package(s)",
            info={"errors": plan.errors, "changes": changes},
        )
    return changes


def _plan_packages(
    plan: _apt_install.Plan, targets: dict[str, Any], kwargs: dict[str, Any]
) -> None:
    compared = [
        item for item, wanted in targets.items() if wanted and wanted.startswith(("<", ">"))
    ]
    known = list_repo_pkgs(*compared, byrepo=False, **kwargs) if compared else {}
    for item, wanted in targets.items():
        plan.add_package(item, wanted, known.get(item, []) if item in compared else None)


def _carry_out(
    plan: _apt_install.Plan, commands: list[list[str]], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Run what a plan has come to; what is held is not held meanwhile. Gives what changed."""
    named = {item.split("=")[0] for item in (*plan.targets, *plan.again)}
    held = [item for item in get_selections(state="hold").get("hold", []) if item in named]
    if held:
        unhold(pkgs=held)
    for command in commands:
        done = _apt.call(command, **kwargs)
        if done["retcode"] != 0 and done["stderr"]:
            plan.errors.append(done["stderr"])
    __context__.pop("pkg.list_pkgs", None)
    new = list_pkgs()
    changes: dict[str, Any] = systools.compare_dicts(plan.old, new)
    for item in plan.again:
        changes[item] = {"old": plan.old.get(item, ""), "new": new.get(item, "")}
    if held:
        hold(pkgs=held)
    return changes


def _lists_too_old(name: Any, pkgs: Any, kwargs: dict[str, Any]) -> bool:
    """With wanted versions a refresh is needed only if the lists do not know them as latest."""
    if pkgs:
        for item in pkgs:
            if not isinstance(item, dict):
                return True
            one = next(iter(item))
            if latest_version(one, refresh=False, show_installed=True) != item[one]:
                return True
        return False
    if kwargs.get("version"):
        latest = latest_version(name, refresh=False, show_installed=True)
        return bool(latest != kwargs["version"])
    return True


def _uninstall(action: str, name: str | None, pkgs: Any, kwargs: dict[str, Any]) -> Any:
    try:
        wanted = __salt__["pkg_resource.parse_targets"](name, pkgs)[0] or {}
    except MinionError as error:
        raise CommandExecutionError(str(error)) from error
    old = list_pkgs()
    old_removed = list_pkgs(removed=True)
    # A wildcard stands for what is installed; what is left of it is no longer a name.
    by_name = _packages.match_wildcard(old, wanted)
    targets = [item for item in by_name if item in old]
    if action == "purge":
        by_name = _packages.match_wildcard(old_removed, {**wanted, **by_name})
        targets += [item for item in by_name if item in old_removed]
    if not targets:
        return {}
    env = as_map(kwargs.get("env"))
    done = _apt.call(["apt-get", "-q", "-y", action, *targets], env=env)
    errors = [done["stderr"]] if done["retcode"] != 0 and done["stderr"] else []
    __context__.pop("pkg.list_pkgs", None)
    changes: dict[str, Any] = systools.compare_dicts(old, list_pkgs())
    if action == "purge":
        gone = systools.compare_dicts(old_removed, list_pkgs(removed=True))
        changes = {"removed": gone, "installed": changes}
    if errors:
        raise CommandExecutionError(
            "Problem encountered removing package(s)",
            info={"errors": errors, "changes": changes},
        )
    return changes


def autoremove(list_only: bool = False, purge: bool = False) -> Any:
    """
    Remove packages that came in for others which are gone.

    @param list_only: only list them.
    @param purge: with their configuration files.

    CLI Example::

        salt '*' pkg.autoremove list_only=True
    """
    tail = ["--purge", "autoremove"] if purge else ["autoremove"]
    if not list_only:
        old = list_pkgs()
        _apt.call(["apt-get", "--assume-yes", *tail], ignore_retcode=True)
        __context__.pop("pkg.list_pkgs", None)
        return systools.compare_dicts(old, list_pkgs())
    output = _apt.call(["apt-get", "--assume-no", *tail], ignore_retcode=True)["stdout"]
    return _apt_output.removable(output)


def remove(name: str | None = None, pkgs: Any = None, **kwargs: Any) -> Any:
    """
    Remove packages; their configuration files stay.

    CLI Example::

        salt '*' pkg.remove <package name>
        salt '*' pkg.remove <package1>,<package2>,<package3>
        salt '*' pkg.remove pkgs='["foo", "bar"]'
    """
    return _uninstall("remove", name, pkgs, kwargs)


def purge(name: str | None = None, pkgs: Any = None, **kwargs: Any) -> Any:
    """
    Remove packages with their configuration files.

    Gives C{installed} and C{removed}: what changed of the packages, and of those that were
    removed earlier but for their configuration files.

    CLI Example::

        salt '*' pkg.purge <package name>
    """
    return _uninstall("purge", name, pkgs, kwargs)


def upgrade(refresh: Any = True, dist_upgrade: bool = False, **kwargs: Any) -> dict[str, Any]:
    """
    Upgrade all packages.

    @param dist_upgrade: also where that installs or removes others.
    @keyword force_conf_new: replace changed configuration files.
    @keyword download_only: only download.
    @keyword skip_verify: without valid signatures.
    @keyword allow_downgrades: also down.
    @raises CommandExecutionError: with C{changes} and C{result} in its C{info}.

    CLI Example::

        salt '*' pkg.upgrade
    """
    cache_valid_time = kwargs.pop("cache_valid_time", 0)
    if systools.is_true(refresh):
        refresh_db(cache_valid_time)
    old = list_pkgs()
    command = ["apt-get", "-q", "-y", *_apt_install.conf_options(kwargs)]
    for names, option in (
        (("force_yes",), "--force-yes"),
        (("skip_verify",), "--allow-unauthenticated"),
        (("download_only", "downloadonly"), "--download-only"),
        (("allow_downgrades",), "--allow-downgrades"),
    ):
        if any(kwargs.get(item, False) for item in names):
            command.append(option)
    command.append("dist-upgrade" if dist_upgrade else "upgrade")
    done = _apt.call(command)
    __context__.pop("pkg.list_pkgs", None)
    changes = systools.compare_dicts(old, list_pkgs())
    if done["retcode"] != 0:
        raise CommandExecutionError(
            "Problem encountered upgrading packages", info={"changes": changes, "result": done}
        )
    return changes


def _named(name: Any, pkgs: Any, sources: Any) -> list[Any]:
    if not name and not pkgs and not sources:
        raise SaltInvocationError("One of name, pkgs, or sources must be specified.")
    if pkgs and sources:
        raise SaltInvocationError("Only one of pkgs or sources can be specified.")
    items = pkgs or sources or [name]
    return [next(iter(item)) if isinstance(item, dict) else item for item in items]


def hold(name: Any = None, pkgs: Any = None, sources: Any = None, **kwargs: Any) -> dict[str, Any]:
    """
    Keep packages at their version.

    CLI Example::

        salt '*' pkg.hold <package name>
        salt '*' pkg.hold pkgs='["foo", "bar"]'
    """
    found: dict[str, Any] = {}
    for item in _named(name, pkgs, sources):
        entry = {"name": item, "changes": {}, "result": False, "comment": ""}
        state = get_selections(pattern=item, state="hold")
        if not state:
            entry["comment"] = f"Package {item} not currently held."
        elif systools.is_true(state.get("hold", False)):
            entry.update(result=True, comment=f"Package {item} is already set to be held.")
        elif __opts__.get("test"):
            entry.update(result=None, comment=f"Package {item} is set to be held.")
        else:
            changed = set_selections(selection={"hold": [item]})
            entry.update(
                changes=changed[item], result=True, comment=f"Package {item} is now being held."
            )
        found[item] = entry
    return found


def unhold(
    name: Any = None, pkgs: Any = None, sources: Any = None, **kwargs: Any
) -> dict[str, Any]:
    """
    Let packages be upgraded again.

    CLI Example::

        salt '*' pkg.unhold <package name>
    """
    found: dict[str, Any] = {}
    for item in _named(name, pkgs, sources):
        entry = {"name": item, "changes": {}, "result": False, "comment": ""}
        state = get_selections(pattern=item)
        if not state:
            entry["comment"] = f"Package {item} does not have a state."
        elif not systools.is_true(state.get("hold", False)):
            entry.update(result=True, comment=f"Package {item} is already set not to be held.")
        elif __opts__.get("test"):
            entry.update(result=None, comment=f"Package {item} is set not to be held.")
        else:
            changed = set_selections(selection={"install": [item]})
            entry.update(
                changes=changed[item],
                result=True,
                comment=f"Package {item} is no longer being held.",
            )
        found[item] = entry
    return found


def list_pkgs(
    versions_as_list: Any = False, removed: Any = False, purge_desired: Any = False, **kwargs: Any
) -> dict[str, Any]:
    """
    Installed packages with their versions.

    @param versions_as_list: a list of versions for each, not text with commas.
    @param removed: those that are removed, but for their configuration files.
    @param purge_desired: those that are marked to be purged.
    @keyword use_context: take the list of an earlier call (default).

    CLI Example::

        salt '*' pkg.list_pkgs
        salt '*' pkg.list_pkgs versions_as_list=True
    """
    if "pkg.list_pkgs" not in __context__ or not kwargs.get("use_context", True):
        __context__["pkg.list_pkgs"] = _all_pkgs()
    lists = __context__["pkg.list_pkgs"]
    if systools.is_true(removed):
        found = copy.deepcopy(lists["removed"])
    else:
        found = copy.deepcopy(lists["purge_desired"])
        if not systools.is_true(purge_desired):
            found.update(copy.deepcopy(lists["installed"]))
    if not systools.is_true(versions_as_list):
        __salt__["pkg_resource.stringify"](found)
    return dict(found)


def _all_pkgs() -> dict[str, dict[str, list[str]]]:
    form = "${Status} ${Package} ${Version} ${Architecture}\n"
    output = __salt__["cmd.run_stdout"](
        ["dpkg-query", "--showformat", form, "-W"], output_loglevel="trace", python_shell=False
    )
    lists: dict[str, dict[str, list[str]]] = {"installed": {}, "removed": {}, "purge_desired": {}}
    for line in output.splitlines():
        words = line.split()
        if len(words) < 6:
            continue
        want, _error, status, name, number, arch = words[:6]
        name = _packages.foreign_name(name, arch, __grains__)
        # "deinstall" has "install" in it, and Salt looks for that.
        if ("install" in want or "hold" in want) and "installed" in status:
            kind = "installed"
        elif "deinstall" in want:
            kind = "removed"
        elif "purge" in want and status == "installed":
            kind = "purge_desired"
        else:
            continue
        __salt__["pkg_resource.add_pkg"](lists[kind], name, number)
    for packages in lists.values():
        __salt__["pkg_resource.sort_pkglist"](packages)
    return lists


def _upgradable(dist_upgrade: bool = True, **kwargs: Any) -> dict[str, str]:
    command = ["apt-get", "--just-print", "dist-upgrade" if dist_upgrade else "upgrade"]
    if "fromrepo" in kwargs:
        command += ["-o", f"APT::Default-Release={kwargs['fromrepo']}"]
    done = _apt.call(command)
    if done["retcode"] != 0:
        reason = done["stderr"] or done["stdout"]
        raise CommandExecutionError(
            f"Failed to get upgrades: {reason}" if reason else "Failed to get upgrades"
        )
    return dict(re.findall(r"(?m)^Conf ([^ ]+) \(([^ ]+)", done["stdout"]))


def list_upgrades(refresh: Any = True, dist_upgrade: bool = True, **kwargs: Any) -> dict[str, str]:
    """
    Packages that can be upgraded, with the version they would have.

    CLI Example::

        salt '*' pkg.list_upgrades
    """
    cache_valid_time = kwargs.pop("cache_valid_time", 0)
    if systools.is_true(refresh):
        refresh_db(cache_valid_time)
    return _upgradable(dist_upgrade, **kwargs)


def upgrade_available(name: str, **kwargs: Any) -> bool:
    """
    Whether there is a newer version of a package.

    CLI Example::

        salt '*' pkg.upgrade_available <package name>
    """
    return bool(latest_version(name) != "")


def version_cmp(pkg1: Any, pkg2: Any, ignore_epoch: bool = False, **kwargs: Any) -> int | None:
    """
    -1, 0 or 1 as the first version is older, the same or newer; C{None} if nobody can tell.

    CLI Example::

        salt '*' pkg.version_cmp '0.2.4-0ubuntu1' '0.2.4.1-0ubuntu1'
    """
    one, other = str(pkg1), str(pkg2)
    if ignore_epoch:
        one, other = one.split(":", 1)[-1], other.split(":", 1)[-1]
    known = _packages.debian_compare(one, other)
    if known is not None:
        return known
    for operator, result in (("lt", -1), ("eq", 0), ("gt", 1)):
        code = __salt__["cmd.retcode"](
            ["dpkg", "--compare-versions", one, operator, other],
            output_loglevel="trace",
            python_shell=False,
            ignore_retcode=True,
        )
        if code == 0:
            return result
    return None


def list_repo_pkgs(*args: str, **kwargs: Any) -> dict[str, list[str]]:
    """
    All versions that the repositories have, of some packages or of all.

    CLI Example::

        salt '*' pkg.list_repo_pkgs foo bar baz
    """
    command = ["apt-cache", "show", *args] if args else ["apt-cache", "dump"]
    output = _apt.call(command, scope=False, ignore_retcode=True)["stdout"]
    return _apt_output.repository_packages(output)


def get_selections(pattern: str | None = None, state: str | None = None) -> dict[str, list[str]]:
    """
    What is wanted of packages: C{install}, C{hold}, C{deinstall} or C{purge}, to their names.

    CLI Example::

        salt '*' pkg.get_selections
        salt '*' pkg.get_selections 'python-*' state=hold
    """
    output = __salt__["cmd.run_stdout"](
        ["dpkg", "--get-selections", pattern or "*"], output_loglevel="trace", python_shell=False
    )
    found = _apt_output.selections(output)
    return {state: found.get(state, [])} if state else found


def set_selections(
    path: str | None = None, selection: Any = None, clear: bool = False, saltenv: str = "base"
) -> dict[str, dict[str, Any]]:
    """
    Say what is wanted of packages, from a file or as C{{state: [packages]}}; what changed.

    @param clear: forget all other selections first.

    CLI Example::

        salt '*' pkg.set_selections selection='{"install": ["netcat"]}'
        salt '*' pkg.set_selections salt://path/to/file
    """
    if not path and not selection:
        return {}
    if path and selection:
        raise SaltInvocationError(
            "The 'selection' and 'path' arguments to pkg.set_selections are mutually exclusive,"
            " and cannot be specified together"
        )
    if isinstance(selection, str):
        import yaml

        try:
            selection = _yaml.load(selection)
        except yaml.YAMLError as error:
            raise SaltInvocationError(f"Improperly-formatted selection: {error}") from error
    if path:
        with open(__salt__["cp.cache_file"](path, saltenv), encoding="utf-8") as file:
            selection = _apt_output.selections(file.readlines())
    if not selection:
        return {}
    bad = [item for item in selection if item not in ("install", "hold", "deinstall", "purge")]
    if bad:
        raise SaltInvocationError(f"Invalid state(s): {', '.join(bad)}")
    pretend = bool(__opts__.get("test"))
    if clear and not pretend:
        done = _apt.call(["dpkg", "--clear-selections"], scope=False)
        if done["retcode"] != 0:
            text = f"Running dpkg --clear-selections failed: {done['stderr']}"
            log.error(text)
            raise CommandExecutionError(text)
    current = {name: state for state, names in get_selections().items() for name in names}
    changed: dict[str, dict[str, Any]] = {}
    for state, names in selection.items():
        for name in names:
            if current.get(name) == state or pretend:
                continue
            done = _apt.call(["dpkg", "--set-selections"], scope=False, stdin=f"{name} {state}")
            if done["retcode"] != 0:
                log.error("failed to set state %s for package %s", state, name)
            else:
                changed[name] = {"old": current.get(name), "new": state}
    return changed
