"""
Packages by apt (virtual module C{pkg}).

C{apt-get} never asks a question: its environment says so (L{DPKG_ENV_VARS}), configuration
files that were changed stay as they are, and a lock held by someone else is waited for. What
changed is found by comparing the lists of packages before and after. The list is kept in
C{__context__} until something changes it.
"""

from __future__ import annotations

import copy
import datetime
import fnmatch
import logging
import os
import pathlib
import re
import shutil
import time
from collections.abc import Iterable
from typing import Any

from saltwisted.modules import _data, _debsources, _packages, _systemd, _yaml
from saltwisted.modules._debsources import Line, Sources, Stanza
from saltwisted.worker import systools
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    CommandNotFoundError,
    MinionError,
    SaltInvocationError,
)

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__opts__: dict[str, Any]
__pillar__: Any
__context__: dict[str, Any]

__virtualname__ = "pkg"

APT_LISTS_PATH = "/var/lib/apt/lists"
PKG_ARCH_SEPARATOR = ":"

DPKG_ENV_VARS = {
    "APT_LISTBUGS_FRONTEND": "none",
    "APT_LISTCHANGES_FRONTEND": "none",
    "DEBIAN_FRONTEND": "noninteractive",
    "UCF_FORCE_CONFFOLD": "1",
}
"""Nothing that runs below apt may ask."""

_sleep = time.sleep

_PPA = "deb http://ppa.launchpad.net/{owner}/{name}/ubuntu {dist} main"
_PRIVATE_PPA = "deb https://{auth}private-ppa.launchpad.net/{owner}/{name}/ubuntu {dist} main"
_UBUNTUS = ("Ubuntu", "Mint", "neon")

_LINE_FIELDS = frozenset(
    ("uri", "comps", "architectures", "disabled", "file", "dist", "signedby", "trusted")
)
_STANZA_FIELDS = _LINE_FIELDS | {"uris", "suites", "types"}
"""What C{mod_repo} may set on an entry."""


def __virtual__() -> Any:
    if __grains__.get("os_family") == "Debian":
        return __virtualname__
    return (False, "The pkg module could not be loaded: unsupported OS family")


def _call_apt(args: Iterable[Any], scope: bool = True, **kwargs: Any) -> dict[str, Any]:
    """
    Run C{apt-get} or one of its kin; waits up to half an hour for the lock of another one.

    @param scope: put it into a systemd scope, so that it survives a restart of the minion.
    """
    command: list[Any] = []
    if scope and _systemd.has_scope(__context__) and __salt__["config.get"]("systemd.scope", True):
        command += ["systemd-run", "--scope", "--description", f'"{__name__}"']
    command += args
    given = kwargs.pop("env", None)
    params: dict[str, Any] = {
        "output_loglevel": "trace",
        "python_shell": False,
        "env": {**DPKG_ENV_VARS, **_module_environment(), **_as_map(given)},
        **kwargs,
    }
    done: dict[str, Any] = __salt__["cmd.run_all"](command, **params)
    tries = 0
    while "Could not get lock" in done.get("stderr", "") and tries < 10:
        tries += 1
        log.warning("Waiting for dpkg lock release: retrying... %s/100", tries)
        _sleep(2**tries)
        done = __salt__["cmd.run_all"](command, **params)
    return done


def _module_environment() -> dict[str, str]:
    return _packages.module_environment(__opts__, globals().get("__pillar__"), ("pkg", "aptpkg"))


def _as_map(env: Any) -> dict[str, Any]:
    """An environment given as a map, or as a list of maps."""
    if isinstance(env, dict):
        return env
    return _data.repack_dictlist(env) if isinstance(env, list) else {}


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
    candidates = _candidates(_call_apt(command, scope=False)["stdout"], names)
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


def _candidates(output: str, names: tuple[str, ...]) -> dict[str, str]:
    """Package to candidate version, from the output of C{apt-cache policy}."""
    short = {name.split(":", 1)[0] for name in names}
    found: dict[str, str] = {}
    package = ""
    for line in output.split("\n"):
        text = line.strip()
        if text.endswith(":") and not text.startswith("Version table"):
            name = text[:-1]
            if name in names or name.split(":")[0] in short:
                package = name
        elif text.startswith("Candidate") and package:
            words = text.split()
            value = words[-1] if len(words) >= 2 else ""
            found[package] = "" if value.lower() == "(none)" else value
    return found


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
    _packages.clear_rtag(__opts__)
    if cache_valid_time:
        try:
            if os.stat(APT_LISTS_PATH).st_mtime + cache_valid_time > time.time():
                return {}
        except (OSError, TypeError) as error:
            log.warning("Cannot determine the age of the package lists: %s", error)
    timeout = kwargs.get("timeout", __opts__.get("aptpkg_refresh_db_timeout", 30))
    done = _call_apt(["apt-get", "-q", "update"], scope=False, timeout=timeout)
    if "Timed out" in done["stdout"]:
        _call_apt(["apt-get", "-q", "clean"], scope=False)
        done = _call_apt(["apt-get", "-q", "update"], scope=False)
    if done["retcode"] != 0:
        raise CommandExecutionError(done.get("stderr", ""))
    found: dict[str, bool | None] = {}
    failed = []
    for line in done["stdout"].splitlines():
        first, _blank, ident = " ".join(line.split()).partition(" ")
        if "Get" in first:
            found[re.sub(r" \[.+B\]$", "", ident)] = True
        elif "Ign" in first:
            found[ident] = False
        elif "Hit" in first:
            found[ident] = None
        elif "Err" in first:
            found[ident] = False
            failed.append(ident)
    if failed and systools.is_true(failhard):
        raise CommandExecutionError(f"Error getting repos: {', '.join(failed)}")
    return found


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
    plan = _Plan(old, bool(reinstall), ignore_epoch)
    if kind == "repository":
        if name and pkgs is None and kwargs.get("version") and len(targets) == 1:
            targets = dict.fromkeys(targets, kwargs["version"])
        compared = [
            item for item, wanted in targets.items() if wanted and wanted.startswith(("<", ">"))
        ]
        known = list_repo_pkgs(*compared, byrepo=False, **kwargs) if compared else {}
        for item, wanted in targets.items():
            plan.add_package(item, wanted, known.get(item, []) if item in compared else None)
    else:
        for path in targets:
            data = __salt__["lowpkg.bin_pkg_info"](path)
            plan.add_file(data["name"], path, data["version"])
    head = _install_command(kwargs, skip_verify)
    if fromrepo and kind == "repository":
        head += ["-t", fromrepo]
    head.append("install")
    if fromrepo and not sources:
        log.info("Targeting repo '%s'", fromrepo)
    commands = plan.commands(head, kind == "repository", bool(sources), downloadonly)
    changes: dict[str, Any] = {}
    errors = plan.errors
    if commands:
        cache_valid_time = kwargs.pop("cache_valid_time", 0)
        if must_refresh:
            refresh_db(cache_valid_time)
        named = {item.split("=")[0] for item in (*plan.targets, *plan.again)}
        held = [item for item in get_selections(state="hold").get("hold", []) if item in named]
        if held:
            unhold(pkgs=held)
        for command in commands:
            done = _call_apt(command, **kwargs)
            if done["retcode"] != 0 and done["stderr"]:
                errors.append(done["stderr"])
        __context__.pop("pkg.list_pkgs", None)
        new = list_pkgs()
        changes = systools.compare_dicts(old, new)
        for item in plan.again:
            changes[item] = {"old": old.get(item, ""), "new": new.get(item, "")}
        if held:
            hold(pkgs=held)
    if errors:
        raise CommandExecutionError(
            "Problem encountered installing package(s)",
            info={"errors": errors, "changes": changes},
        )
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


def _install_command(kwargs: dict[str, Any], skip_verify: bool) -> list[str]:
    command = ["apt-get", "-q", "-y"]
    if kwargs.get("force_yes", False):
        command.append("--force-yes")
    command += _conf_options(kwargs)
    if "install_recommends" in kwargs:
        wanted = kwargs["install_recommends"]
        command.append("--install-recommends" if wanted else "--no-install-recommends")
    if kwargs.get("only_upgrade"):
        command.append("--only-upgrade")
    if skip_verify:
        command.append("--allow-unauthenticated")
    return command


def _conf_options(kwargs: dict[str, Any]) -> list[str]:
    words = ["confnew"] if kwargs.get("force_conf_new") else ["confold", "confdef"]
    return [part for word in words for part in ("-o", f"DPkg::Options::=--force-{word}")]


class _Plan:
    """
    What C{apt-get install} is to be called with: three calls at most.

    @ivar targets: to install or upgrade.
    @ivar down: to downgrade.
    @ivar again: name to what names it on the command line, to install once more.
    @ivar errors: wanted versions that there are not.
    """

    def __init__(self, old: dict[str, str], reinstall: bool, ignore_epoch: bool) -> None:
        self.old = old
        self.reinstall = reinstall
        self.ignore_epoch = ignore_epoch
        self.targets: list[str] = []
        self.down: list[str] = []
        self.again: dict[str, str] = {}
        self.errors: list[str] = []

    def add_package(self, name: str, wanted: str | None, known: list[str] | None) -> None:
        """
        @param known: the versions to choose from for C{>=1.2}; C{None} if C{wanted} is exact.
        """
        if wanted is None:
            if self.reinstall and name in self.old:
                self.again[name] = name
            else:
                self.targets.append(name)
            return
        exact: str | None = wanted.lstrip("=")
        if known is not None:
            exact = _packages.match_version(
                exact or "", known, cmp_func=version_cmp, ignore_epoch=self.ignore_epoch
            )
            if exact is None:
                shown = ", ".join(known) if known else None
                self.errors.append(
                    f"No version matching '{name}{wanted}' could be found (available: {shown})"
                )
                return
        self._place(name, f"{name}={exact}", exact or "")

    def add_file(self, name: str, path: str, number: str) -> None:
        """A C{.deb} that holds this version."""
        self._place(name, path, number)

    def _place(self, name: str, word: str, number: str) -> None:
        current = self.old.get(name, "")
        if self.reinstall and current and _packages.compare(number, "==", current, version_cmp):
            self.again[name] = word
        elif not current or _packages.compare(number, ">=", current, version_cmp):
            self.targets.append(word)
        else:
            self.down.append(word)

    def commands(
        self, head: list[str], repository: bool, sources: bool, downloadonly: bool
    ) -> list[list[str]]:
        """The calls, in Salt's order."""
        found = []
        if self.targets:
            found.append([*head, *self.targets])
        if self.down:
            forced = repository and "--force-yes" not in head
            options = [*head[:-1], "--force-yes", head[-1]] if forced else head
            found.append([*options, *self.down])
        if downloadonly and found:
            found[-1].append("--download-only")
        if self.again:
            option = [] if sources else ["--reinstall"]
            found.append([*head, *option, *self.again.values()])
        return found


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
    env = _as_map(kwargs.get("env"))
    done = _call_apt(["apt-get", "-q", "-y", action, *targets], env=env)
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
        _call_apt(["apt-get", "--assume-yes", *tail], ignore_retcode=True)
        __context__.pop("pkg.list_pkgs", None)
        return systools.compare_dicts(old, list_pkgs())
    output = _call_apt(["apt-get", "--assume-no", *tail], ignore_retcode=True)["stdout"]
    found: list[str] = []
    inside = False
    for line in output.splitlines():
        if inside and line.startswith(" "):
            found += line.split()
        else:
            inside = not inside and "The following packages will be REMOVED:" in line
    return sorted(found)


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
    command = ["apt-get", "-q", "-y", *_conf_options(kwargs)]
    for names, option in (
        (("force_yes",), "--force-yes"),
        (("skip_verify",), "--allow-unauthenticated"),
        (("download_only", "downloadonly"), "--download-only"),
        (("allow_downgrades",), "--allow-downgrades"),
    ):
        if any(kwargs.get(item, False) for item in names):
            command.append(option)
    command.append("dist-upgrade" if dist_upgrade else "upgrade")
    done = _call_apt(command)
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
    done = _call_apt(command)
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
    output = _call_apt(command, scope=False, ignore_retcode=True)["stdout"]
    found: dict[str, list[str]] = {}
    package = ""
    for line in output.split("\n"):
        if line.startswith("Package: "):
            package = line[9:]
            continue
        words = line.strip().split(None, 1)
        if words and words[0] == "Version:":
            found.setdefault(package, []).append(words[1])
    return found


def _unreadable(source: Any) -> bool:
    """Whether an entry is not to be listed: no entry, or one with options that make no sense."""
    if not source.invalid:
        return False
    return not (
        isinstance(source, Line)
        and source.uri
        and source.type in ("deb", "deb-src", "rpm", "rpm-src")
    )


def list_repos(**kwargs: Any) -> dict[str, list[dict[str, Any]]]:
    """
    All repositories by their address.

    CLI Example::

        salt '*' pkg.list_repos
    """
    repos: dict[str, list[dict[str, Any]]] = {}
    for source in Sources():
        if _unreadable(source):
            continue
        for uri in source.uris:
            for suite in source.suites:
                for kind in source.types:
                    repos.setdefault(uri, []).append(_as_repo(source, kind, uri, suite))
    return repos


def _as_repo(source: Line | Stanza, kind: str, uri: str, suite: str) -> dict[str, Any]:
    if isinstance(source, Stanza):
        line = Line(f"{kind} {uri} {suite} {' '.join(source.comps)}")
        line.disabled = source.disabled
        line.architectures = source.architectures
        line.signedby = source.signedby
        line.trusted = source.trusted
        text = str(line)
    else:
        text = source.line.strip()
    return {
        "file": source.file,
        "comps": source.comps,
        "disabled": source.disabled,
        "enabled": not source.disabled,
        "dist": suite,
        "suites": source.suites,
        "type": kind,
        "types": source.types,
        "uri": uri,
        "uris": source.uris,
        "line": text,
        "architectures": source.architectures,
        "signedby": source.signedby,
    }


def _ppa_line(repo: str, auth: str | None, dist: str) -> str:
    owner, name = repo[4:].split("/", 1)
    if auth:
        return _PRIVATE_PPA.format(auth=f"{auth}@", owner=owner, name=name, dist=dist)
    return _PPA.format(owner=owner, name=name, dist=dist)


def get_repo(repo: str, **kwargs: Any) -> dict[str, Any]:
    """
    A repository, given as the line that C{sources.list} would have; empty if it is not there.

    CLI Example::

        salt '*' pkg.get_repo "deb http://deb.debian.org/debian bookworm main"
    """
    auth = kwargs.get("ppa_auth")
    if repo.startswith("ppa:") and __grains__["os"] in _UBUNTUS:
        repo = _ppa_line(repo, auth, __grains__["oscodename"])
    repos = list_repos()
    if not repos:
        return {}
    wanted = Line(repo)
    uri = wanted.uri
    if auth:
        match = re.search(r"(http[s]?://)(.+)", uri)
        if match and not match.group(2).startswith(auth):
            uri = f"{match.group(1)}{auth}@{match.group(2)}"
    for entries in repos.values():
        for entry in entries:
            if (
                entry["type"] == wanted.type
                and entry["uri"].rstrip("/") == uri.rstrip("/")
                and entry["dist"] == wanted.dist
                and (not wanted.comps or any(comp in entry["comps"] for comp in wanted.comps))
            ):
                return entry
    return {}


def del_repo(repo: str, **kwargs: Any) -> str:
    """
    Remove a repository, given as the line that C{sources.list} has, and refresh the lists.

    A file of its own that is empty then is removed as well.

    @raises CommandExecutionError: it is not there.

    CLI Example::

        salt '*' pkg.del_repo "deb http://deb.debian.org/debian bookworm main"
    """
    is_ppa = repo.startswith("ppa:") and __grains__["os"] in _UBUNTUS
    if is_ppa:
        repo = _ppa_line(repo, kwargs.get("ppa_auth"), __grains__["oscodename"])
    sources = Sources()
    entries = [item for item in sources if not item.invalid]
    wanted = Line(repo)
    touched: dict[str, int] = {}
    for entry in entries:
        same_place = (
            wanted.uri.rstrip("/") in [uri.rstrip("/") for uri in entry.uris]
            and wanted.dist in entry.suites
        )
        match = wanted.type in (entry.type or "").split() and (
            entry.architectures == wanted.architectures
        )
        twin = is_ppa and wanted.type == "deb" and entry.type == "deb-src"
        if same_place and (match or twin) and _take_out(sources, entry, wanted):
            touched[entry.file] = 0
    if entries:
        sources.save()
    if not touched:
        raise CommandExecutionError(f"Repo {repo} doesn't exist in the sources.list(s)")
    for entry in sources:
        if not entry.invalid and entry.file in touched:
            touched[entry.file] += 1
    text = ""
    for path, left in touched.items():
        if left == 0 and "sources.list.d/" in path and os.path.isfile(path):
            try:
                os.remove(path)
            except OSError:
                log.error("Cannot remove %s", path)
            text += f"File {path} containing repo '{repo}' has been removed."
        else:
            if left == 0 and os.path.isfile(path) and list(sources):
                # Saving writes only the files of the entries that are left.
                with open(path, "w", encoding="utf-8"):
                    pass
            text += f"Repo '{repo}' has been removed from {path}.\n"
    refresh_db()
    return text


def _take_out(sources: Sources, entry: Line | Stanza, wanted: Line) -> bool:
    """Remove a suite, or some of its components, from an entry; false if none are in common."""
    have, drop = set(entry.comps), set(wanted.comps)
    if have == drop:
        suites = list(entry.suites)
        suites.remove(wanted.dist)
        entry.suites = suites
        if not suites:
            sources.remove(entry)
        return True
    if have & drop:
        entry.comps = [comp for comp in entry.comps if comp not in drop]
        return True
    return False


def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text


def _keys_from_colons(output: str) -> dict[str, dict[str, Any]]:
    """Key id to key, from the output of C{gpg --with-colons}."""
    keys: list[dict[str, Any]] = []
    for line in output.splitlines():
        if not line.strip():
            continue
        fields = [_number(part.strip()) if part.strip() else None for part in line.split(":")]
        if len(fields) < 2:
            continue
        kind = fields[0]
        if kind in ("pub", "sub"):
            key = {
                "algorithm": fields[3],
                "bits": fields[2],
                "capability": fields[11],
                "date_creation": fields[5],
                "date_expiration": fields[6],
                "keyid": str(fields[4]),
                "validity": fields[1],
            }
            if kind == "pub":
                keys.append(key)
            elif keys:
                keys[-1]["subkey"] = key
        elif kind == "fpr" and keys:
            (keys[-1].get("subkey") or keys[-1])["fingerprint"] = fields[9]
        elif kind == "uid" and keys:
            keys[-1].update(uid=fields[9], uid_hash=fields[7])
    return {key["keyid"]: key for key in keys}


def _key_folder(keydir: Any) -> pathlib.Path:
    return pathlib.Path(keydir) if keydir else pathlib.Path("/etc/apt/keyrings")


def _check_key_folder(folder: pathlib.Path) -> bool:
    if folder.is_dir():
        return True
    log.error(
        "The directory %s does not exist. Please create this directory only writable by root",
        folder,
    )
    return False


def _keys_of_file(path: Any) -> str:
    done = __salt__["cmd.run_all"](
        ["gpg", "--no-default-keyring", "--keyring", str(path), "--list-keys", "--with-colons"]
    )
    return str(done["stdout"])


def get_repo_keys(aptkey: bool = True, keydir: Any = None) -> Any:
    """
    The keys that apt trusts.

    @param aptkey: ask C{apt-key}, if it is there; else the files in C{keydir} are read.
    @param keydir: C{/etc/apt/keyrings} by default.

    CLI Example::

        salt '*' pkg.get_repo_keys
    """
    if aptkey and systools.which("apt-key"):
        command = "apt-key adv --batch --list-public-keys --with-fingerprint --with-fingerprint"
        done = _call_apt([*command.split(), "--with-colons", "--fixed-list-mode"], scope=False)
        if done["retcode"] != 0:
            log.error(done["stderr"])
            return {}
        return _keys_from_colons(done["stdout"])
    folder = _key_folder(keydir)
    if not _check_key_folder(folder):
        return False
    outputs = [_keys_of_file(folder / name) for name in os.listdir(folder)]
    return _keys_from_colons(" ".join(outputs))


def _binary_key(path: str, target: str) -> Any:
    """
    A key file as apt wants it at C{target}: without armour, unless that ends in C{.asc}.

    @return: the path, or false if C{gpg} would be needed and is missing.
    """
    try:
        with open(path, encoding="utf-8") as file:
            armoured = file.read().strip("-").startswith("BEGIN PGP")
    except UnicodeDecodeError:
        return path
    if not armoured or target.endswith(".asc"):
        return path
    if not systools.which("gpg"):
        log.error(
            "Detected an ASCII armored key %s and the gpg binary is not available."
            " Not decrypting the key.",
            path,
        )
        return False
    plain = f"{path}.decrypted"
    done = __salt__["cmd.run_all"](["gpg", "--yes", "--output", plain, "--dearmor", path])
    if done["retcode"] != 0:
        log.error("Failed to decrypt the key %s", path)
    return plain


def add_repo_key(
    path: str | None = None,
    text: str | None = None,
    keyserver: str | None = None,
    keyid: str | None = None,
    saltenv: str = "base",
    aptkey: bool = True,
    keydir: Any = None,
    keyfile: Any = None,
) -> bool:
    """
    Add a key that apt is to trust: from a file, as text, or from a key server.

    @param aptkey: let C{apt-key} do it, if it is there; else it becomes a file in C{keydir}.
    @param keyfile: the name of that file.

    CLI Example::

        salt '*' pkg.add_repo_key 'salt://apt/sources/test.key' aptkey=False
        salt '*' pkg.add_repo_key keyserver='keyserver.example' keyid='0000AAAA'
    """
    folder = _key_folder(keydir)
    if not aptkey and not _check_key_folder(folder):
        return False
    if not systools.which("apt-key"):
        aptkey = False
    if keyid:
        known = get_repo_keys(aptkey=aptkey, keydir=folder) or {}
        if any(item.endswith(keyid) for item in known):
            log.debug("The keyid '%s' already present", keyid)
            return True
    command: list[Any] = ["apt-key"]
    kwargs: dict[str, Any] = {}
    if path:
        cached = __salt__["cp.cache_file"](path, saltenv)
        if not cached:
            log.error("Unable to get cached copy of file: %s", path)
            return False
        if not aptkey:
            return _install_key(cached, folder, keyfile)
        command += ["add", cached]
    elif text:
        command += ["add", "-"]
        kwargs["stdin"] = text
    elif keyserver:
        if not keyid:
            raise SaltInvocationError(f"No keyid or keyid too short for keyserver: {keyserver}")
        if aptkey:
            command += ["adv", "--batch", "--keyserver", keyserver, "--recv", keyid]
        elif keyfile:
            command = ["gpg", "--no-default-keyring", "--keyring", str(folder / keyfile)]
            command += ["--keyserver", keyserver, "--recv-keys", keyid]
        else:
            log.error(
                "You must define the name of the key file to save the key. See keyfile argument"
            )
            return False
    elif keyid:
        raise SaltInvocationError(f"No keyserver specified for keyid: {keyid}")
    else:
        raise TypeError("add_repo_key() takes at least 1 argument (0 given)")
    done = _call_apt(command, **kwargs)
    if done["retcode"] == 0:
        return True
    log.error("Unable to add repo key: %s", done["stderr"])
    return False


def _install_key(cached: str, folder: pathlib.Path, keyfile: Any) -> bool:
    key = _binary_key(cached, str(keyfile or pathlib.Path(cached).name))
    if not key:
        return False
    name = keyfile or pathlib.Path(key).name.removesuffix(".decrypted")
    shutil.copyfile(key, folder / name)
    return True


def _file_of_key(folder: pathlib.Path, keyid: str) -> pathlib.Path | None:
    if len(keyid) not in (8, 16):
        log.error("The keyid needs to be either 8 or 16 characters")
        return None
    for name in os.listdir(folder):
        keys = _keys_from_colons(_keys_of_file(folder / name))
        if any(key["keyid"].endswith(keyid) for key in keys.values()):
            return folder / name
    log.error("Could not find the key file for keyid: %s", keyid)
    return None


def del_repo_key(
    name: str | None = None, aptkey: bool = True, keydir: Any = None, **kwargs: Any
) -> Any:
    """
    Remove a key that apt trusts; gives its id, or false if it is not found.

    @param name: a PPA, with C{keyid_ppa=True}.
    @keyword keyid: its id, 8 or 16 digits.

    CLI Example::

        salt '*' pkg.del_repo_key keyid=0123ABCD aptkey=False
    """
    folder = _key_folder(keydir)
    if not aptkey and not _check_key_folder(folder):
        return False
    if not systools.which("apt-key"):
        aptkey = False
    if kwargs.get("keyid_ppa", False):
        if not (isinstance(name, str) and name.startswith("ppa:")):
            raise SaltInvocationError("keyid_ppa requires that a PPA be passed")
        keyid = _launchpad(*name[4:].split("/", 1))["signing_key_fingerprint"][-8:]
    elif "keyid" in kwargs:
        keyid = kwargs["keyid"]
    else:
        raise SaltInvocationError("keyid or keyid_ppa and PPA name must be passed")
    if not aptkey:
        path = _file_of_key(folder, keyid)
        if path is None:
            return False
        path.unlink()
        return keyid
    done = _call_apt(["apt-key", "del", keyid], scope=False)
    if done["retcode"] != 0:
        reason = f": {done['stderr']}" if done["stderr"] else ""
        raise CommandExecutionError(f"Failed to remove keyid {keyid}{reason}")
    return keyid


def _launchpad(owner: str, name: str) -> dict[str, Any]:
    """What Launchpad knows about a PPA."""
    import json
    import urllib.error
    import urllib.request

    address = f"https://launchpad.net/api/1.0/~{owner}/+archive/{name}"
    request = urllib.request.Request(address, headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            data = json.load(answer)
    except urllib.error.HTTPError as error:
        raise CommandExecutionError(
            f"Launchpad does not know about {owner}/{name}: {error}"
        ) from error
    return dict(data)


def _proxy_url() -> str:
    option = __salt__["config.option"]
    host, port = option("proxy_host"), option("proxy_port")
    user, password = option("proxy_username"), option("proxy_password")
    if not host or not port:
        return ""
    return (
        f"http://{user}:{password}@{host}:{port}" if user and password else f"http://{host}:{port}"
    )


def mod_repo(
    repo: str, saltenv: str = "base", aptkey: bool = True, **kwargs: Any
) -> dict[str, Any]:
    """
    Add or change a repository, given as the line that C{sources.list} is to have.

    @param aptkey: use C{apt-key} for keys, if it is there; else the entry must name a key file
        (C{[signed-by=...]}) or be C{trusted}.
    @keyword file: where a new entry goes; C{.sources} for a deb822 stanza.
    @keyword comps, architectures: lists as text with commas.
    @keyword disabled, enabled: one or the other.
    @keyword comments: text or a list for a comment.
    @keyword keyid, keyserver: fetch a key, or a list of them.
    @keyword key_url: fetch a key from here; C{key_text}: the key itself.
    @keyword consolidate: merge entries that differ in their components only.
    @keyword refresh: fetch the lists after it (default); also as C{refresh_db}.
    @return: the line to the entry as it is then.

    CLI Example::

        salt '*' pkg.mod_repo "deb http://deb.debian.org/debian bookworm main" comps=main,contrib
    """
    refresh = kwargs.get("refresh_db", kwargs.get("refresh", True))
    if not systools.which("apt-key"):
        aptkey = False
    if repo.startswith("ppa:"):
        repo, done = _prepare_ppa(repo, kwargs, refresh)
        if done is not None:
            return done
    sources = Sources()
    if kwargs.get("consolidate", False):
        sources = _consolidate(sources)
    wanted = Line(repo)
    if wanted.invalid:
        raise SaltInvocationError(
            f"Name {repo} is not valid. This must be the complete repo entry as seen in the"
            " sources file"
        )
    components = [comp.strip() for comp in wanted.comps]
    kwargs["signedby"] = pathlib.Path(wanted.signedby) if wanted.signedby else ""
    _fetch_keys(kwargs, aptkey, saltenv)
    _read_fields(kwargs, components, wanted)
    entry = _entry_to_change(sources, wanted, components, kwargs)
    if "comments" in kwargs:
        kwargs["comments"] = _debsources.combine_comments(kwargs["comments"])
    if entry is None:
        if not aptkey and not (
            kwargs["signedby"] or _debsources.to_bool(kwargs.get("trusted", "no"))
        ):
            raise SaltInvocationError(
                "missing 'signedby' or 'trusted' option when apt-key is missing"
            )
        entry = _new_entry(repo, wanted, kwargs)
        sources.list.append(entry)
    if "comments" in kwargs:
        entry.comment = kwargs["comments"]
    if isinstance(entry, Line):
        entry.line = wanted.line if wanted.line.endswith("\n") else wanted.line + "\n"
    if not kwargs["architectures"] and not entry.architectures:
        kwargs.pop("architectures")
    allowed = _STANZA_FIELDS if isinstance(entry, Stanza) else _LINE_FIELDS
    for key in kwargs:
        if key in allowed:
            setattr(entry, key, kwargs[key])
    if isinstance(entry, Line) and entry.uri != wanted.uri:
        entry.uri = wanted.uri
        entry.line = str(entry)
    sources.save()
    if refresh:
        refresh_db()
    return {repo: get_repo(repo)}


def _prepare_ppa(
    repo: str, kwargs: dict[str, Any], refresh: bool
) -> tuple[str, dict[str, Any] | None]:
    """The line of a PPA with its key in C{kwargs}, or the result if another program did it all."""
    if __grains__["os"] not in _UBUNTUS:
        raise CommandExecutionError(f'cannot parse "ppa:" style repo definitions: {repo}')
    if systools.which("apt-add-repository") and "ppa_auth" not in kwargs:
        known = get_repo(repo)
        if known:
            return repo, {repo: known}
        proxy = _proxy_url()
        env = {"http_proxy": proxy, "https_proxy": proxy} if proxy else {}
        old = float(__grains__["osrelease"]) < 12.04
        command = ["apt-add-repository", repo] if old else ["apt-add-repository", "-y", repo]
        done = _call_apt(command, env=env, scope=False, **kwargs)
        if done["retcode"]:
            raise CommandExecutionError(
                f"Unable to add PPA '{repo[4:]}'. '{command}' exited with status"
                f" {done['retcode']!s}: '{done['stderr']}'"
            )
        if refresh:
            refresh_db()
        return repo, {repo: done}
    owner, slash, name = repo[4:].partition("/")
    if not slash:
        raise CommandExecutionError(
            'Unable to get PPA info from argument. Expected format "<PPA_OWNER>/<PPA_NAME>"'
            f" (e.g. saltstack/salt) not found.  Received '{repo[4:]}' instead."
        )
    dist = kwargs["dist"] = __grains__["oscodename"]
    kwargs.setdefault("file", f"/etc/apt/sources.list.d/{owner}-{name}-{dist}.list")
    facts = _launchpad(owner, name)
    if "ppa_auth" not in kwargs:
        kwargs["keyid"] = facts["signing_key_fingerprint"]
    elif "keyid" not in kwargs:
        raise CommandExecutionError(f"Private PPAs require a keyid to be specified: {owner}/{name}")
    elif not facts["private"]:
        raise CommandExecutionError(f"PPA is not private but auth credentials passed: {repo}")
    kwargs.setdefault("keyserver", "keyserver.ubuntu.com")
    return _ppa_line(repo, kwargs.get("ppa_auth"), dist), None


def _consolidate(sources: Sources) -> Sources:
    """Entries that differ only in their components become one, all in the main file."""
    merged: dict[tuple[Any, ...], Line] = {}
    others: set[str] = set()
    for entry in sources:
        if entry.invalid or not isinstance(entry, Line):
            continue
        key = (
            tuple(entry.architectures),
            entry.disabled,
            entry.type,
            entry.uri,
            entry.dist,
        )
        if key in merged:
            first = merged[key]
            first.comps += [comp for comp in entry.comps if comp not in first.comps]
        else:
            merged[key] = Line(entry.line)
        if entry.file != _debsources.MAIN_FILE:
            others.add(entry.file)
    kept: list[Line | Stanza] = [entry for entry in sources if isinstance(entry, Stanza)]
    sources.list = [*merged.values(), *kept]
    sources.save()
    for path in others:
        try:
            os.remove(path)
        except OSError:
            log.debug("Cannot remove %s", path)
    return sources


def _fetch_keys(kwargs: dict[str, Any], aptkey: bool, saltenv: str) -> None:
    if "keyid" in kwargs:
        keyid, keyserver = kwargs.pop("keyid", None), kwargs.pop("keyserver", None)
        if not keyid or not keyserver:
            raise NameError("both keyserver and keyid options required.")
        for key in keyid if isinstance(keyid, list) else [keyid]:
            _receive_key(hex(key) if isinstance(key, int) else key, keyserver, kwargs, aptkey)
    elif "key_url" in kwargs:
        _key_from_url(kwargs["key_url"], kwargs, aptkey, saltenv)
    elif "key_text" in kwargs:
        text = kwargs["key_text"]
        output = __salt__["cmd.run_stdout"](
            ["apt-key", "add", "-"], **{**kwargs, "stdin": text, "python_shell": False}
        )
        if not output.upper().startswith("OK"):
            raise CommandExecutionError(f"Error: failed to add key:\n{text}")


def _receive_key(key: str, keyserver: str, kwargs: dict[str, Any], aptkey: bool) -> None:
    signed = kwargs["signedby"]
    if not aptkey:
        if not signed:
            raise SaltInvocationError(
                "missing 'signedby' or 'trusted' option when apt-key is missing"
            )
        known = get_repo_keys(aptkey=False, keydir=signed.parent) or {}
        if not known.get(key) and not add_repo_key(
            keyid=key, keyserver=keyserver, aptkey=False, keydir=signed.parent, keyfile=signed.name
        ):
            raise CommandExecutionError(f"Error: Could not add key: {key}")
        return
    output = __salt__["cmd.run_stdout"](
        ["apt-key", "export", key], **{**kwargs, "python_shell": False}
    )
    if output.startswith("-----BEGIN PGP"):
        return
    command = ["apt-key", "adv", "--batch"]
    proxy = _proxy_url()
    if proxy and keyserver not in (__salt__["config.option"]("no_proxy") or ()):
        command += ["--keyserver-options", f"http-proxy={proxy}"]
    command += ["--keyserver", keyserver, "--logger-fd", "1", "--recv-keys", key]
    done = _call_apt(command, scope=False, **kwargs)
    if done["retcode"] != 0:
        raise CommandExecutionError(f"Error: key retrieval failed: {done['stdout']}")


def _key_from_url(key_url: str, kwargs: dict[str, Any], aptkey: bool, saltenv: str) -> None:
    cached = __salt__["cp.cache_file"](key_url, saltenv)
    if not cached:
        raise CommandExecutionError(f"Error: file not found: {key_url}")
    path = pathlib.Path(cached)
    signed = kwargs["signedby"]
    if signed and path.name != signed.name:
        path = path.rename(path.parent / signed.name)
    if not aptkey:
        folder = {"keydir": signed.parent} if signed else {}
        if not add_repo_key(path=str(path), aptkey=False, **folder):
            raise CommandExecutionError(f"Error: Could not add key: {path}")
        return
    output = __salt__["cmd.run_stdout"](
        ["apt-key", "add", str(path)], **{**kwargs, "python_shell": False}
    )
    if not output.upper().startswith("OK"):
        raise CommandExecutionError(f"Error: failed to add key from {key_url}")


def _read_fields(kwargs: dict[str, Any], components: list[str], wanted: Line) -> None:
    """Bring the fields of an entry in C{kwargs} into their shapes; C{components} grows."""
    if "comps" in kwargs:
        kwargs["comps"] = [comp.strip() for comp in kwargs["comps"].split(",")]
        components += [comp for comp in kwargs["comps"] if comp not in components]
    else:
        kwargs["comps"] = list(components)
    if "architectures" in kwargs:
        kwargs["architectures"] = kwargs["architectures"].split(",")
    else:
        kwargs["architectures"] = wanted.architectures
    if "disabled" in kwargs:
        kwargs["disabled"] = systools.is_true(kwargs["disabled"])
    elif "enabled" in kwargs:
        kwargs["disabled"] = not systools.is_true(kwargs["enabled"])


def _entry_to_change(
    sources: Sources, wanted: Line, components: list[str], kwargs: dict[str, Any]
) -> Line | Stanza | None:
    for entry in sources:
        if entry.invalid or not entry.types:
            continue
        kinds = (entry.type or "").split()
        same = (
            wanted.type in kinds
            and wanted.uri.rstrip("/") in [uri.rstrip("/") for uri in entry.uris]
            and wanted.dist in entry.suites
        )
        named = kwargs.get("dist") in entry.suites and kwargs.get("type") in kinds
        if (same or named) and (
            not entry.comps
            or any(comp in entry.comps for comp in components)
            or kwargs["architectures"] != entry.architectures
        ):
            return entry
    return None


def _new_entry(repo: str, wanted: Line, kwargs: dict[str, Any]) -> Line | Stanza:
    path = kwargs.get("file")
    if not (path and path.endswith(".sources")):
        return Line(repo, path)
    stanza = Stanza("", path)
    stanza.types, stanza.uris = wanted.type, wanted.uri
    stanza.suites, stanza.comps = wanted.dist, wanted.comps
    if (
        kwargs.get("trusted") is True
        or kwargs.get("Trusted") is True
        or ("trusted" not in kwargs and wanted.trusted is True)
    ):
        stanza.trusted = True
    return stanza


def _expand_repo_def(os_name: str, os_codename: str | None = None, **kwargs: Any) -> dict[str, Any]:
    """A repository of a state, completed to what C{get_repo} would show of it."""
    if "repo" not in kwargs:
        raise SaltInvocationError("missing 'repo' argument")
    repo = kwargs["repo"]
    if repo.startswith("ppa:") and os_name in _UBUNTUS:
        owner, name = repo[4:].split("/", 1)
        repo = _ppa_line(repo, kwargs.get("ppa_auth"), os_codename or "")
        kwargs.setdefault("file", f"/etc/apt/sources.list.d/{owner}-{name}-{os_codename}.list")
    wanted = Line(repo)
    for key in ("architectures", "comps"):
        if key in kwargs:
            kwargs[key] = [item.strip() for item in kwargs[key].split(",")]
    for key in _LINE_FIELDS & kwargs.keys():
        setattr(wanted, key, kwargs[key])
    signedby = wanted.signedby
    path = kwargs.get("file") or _debsources.MAIN_FILE
    entry: Line | Stanza
    if path.endswith(".sources"):
        entry = Stanza("", path)
        for field, value in (
            ("types", wanted.types),
            ("uris", wanted.uris),
            ("suites", wanted.suites),
        ):
            given = kwargs.get(field)
            setattr(entry, field, given if isinstance(given, list) and given else value)
        entry.comps = wanted.comps
        if wanted.architectures:
            entry.architectures = wanted.architectures
        entry.disabled = wanted.disabled
        if signedby:
            entry.signedby = signedby
        if "trusted" in kwargs and kwargs["trusted"] is not False:
            entry.trusted = kwargs["trusted"]
    else:
        options = [f"arch={','.join(wanted.architectures)}"] if wanted.architectures else []
        if signedby:
            options.append(f"signed-by={signedby}")
        if kwargs.get("trusted"):
            options.append("trusted=yes")
        words = [wanted.type, f"[{' '.join(options)}]" if options else "", wanted.uri, wanted.dist]
        entry = Line(" ".join(word for word in (*words, *wanted.comps) if word) + "\n", path)
        entry.disabled = wanted.disabled
        entry.line = entry.repo_line()
    return {
        "file": entry.file,
        "comps": entry.comps,
        "disabled": entry.disabled,
        "dist": entry.dist,
        "suites": entry.suites,
        "type": entry.type,
        "types": entry.types,
        "uri": entry.uri,
        "uris": entry.uris,
        "line": str(entry),
        "architectures": entry.architectures,
        "signedby": signedby,
    }


def file_list(*packages: str, **kwargs: Any) -> Any:
    """
    The files of packages; of all if none is named.

    CLI Example::

        salt '*' pkg.file_list httpd
    """
    return __salt__["lowpkg.file_list"](*packages)


def file_dict(*packages: str, **kwargs: Any) -> Any:
    """
    The files of packages, by package.

    CLI Example::

        salt '*' pkg.file_dict httpd
    """
    return __salt__["lowpkg.file_dict"](*packages)


def _parse_selections(text: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.split("\n") if isinstance(text, str) else text:
        words = line.split()
        if len(words) == 2:
            found.setdefault(words[1], []).append(words[0])
    return found


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
    found = _parse_selections(output)
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
            selection = _parse_selections(file.readlines())
    if not selection:
        return {}
    bad = [item for item in selection if item not in ("install", "hold", "deinstall", "purge")]
    if bad:
        raise SaltInvocationError(f"Invalid state(s): {', '.join(bad)}")
    pretend = bool(__opts__.get("test"))
    if clear and not pretend:
        done = _call_apt(["dpkg", "--clear-selections"], scope=False)
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
            done = _call_apt(["dpkg", "--set-selections"], scope=False, stdin=f"{name} {state}")
            if done["retcode"] != 0:
                log.error("failed to set state %s for package %s", state, name)
            else:
                changed[name] = {"old": current.get(name), "new": state}
    return changed


def owner(*paths: str, **kwargs: Any) -> Any:
    """
    The package that a file belongs to; a map for several files.

    CLI Example::

        salt '*' pkg.owner /usr/bin/apachectl
    """
    found = {}
    for path in paths:
        output = __salt__["cmd.run_stdout"](
            ["dpkg", "-S", path], output_loglevel="trace", python_shell=False
        )
        name = output.split(":")[0]
        found[path] = "" if "no path found" in name.lower() else name
    if not found:
        return ""
    return next(iter(found.values())) if len(found) == 1 else found


def show(*names: str, **kwargs: Any) -> dict[str, dict[str, dict[str, str]]]:
    """
    What the repositories say of packages, by name and version.

    @keyword filter: only these fields.
    @keyword refresh: fetch the lists first.

    CLI Example::

        salt myminion pkg.show gawk filter=description,provides
    """
    kwargs = _data.clean_kwargs(**kwargs)
    refresh = kwargs.pop("refresh", False)
    fields = _data.split_input(kwargs.pop("filter", []), lambda item: str(item).lower())
    _data.invalid_kwargs(kwargs)
    if refresh:
        refresh_db()
    if not names:
        return {}
    output = _call_apt(["apt-cache", "show", *names], scope=False)["stdout"]
    found: dict[str, dict[str, dict[str, str]]] = {}
    for block in re.split(r"\n[ \t]*\n", output):
        entry: dict[str, str] = {}
        for line in block.splitlines():
            key, colon, value = line.strip().partition(":")
            key = key.strip()
            if colon and (
                not fields or key.lower() in fields or key.lower() in ("package", "version")
            ):
                entry[key] = value.strip()
        name, number = entry.pop("Package", None), entry.pop("Version", None)
        if name is not None and number is not None:
            found.setdefault(name, {}).setdefault(number, {}).update(entry)
    return found


def info_installed(*names: str, **kwargs: Any) -> dict[str, dict[str, Any]]:
    """
    All that is known of installed packages; of all if none is named.

    @keyword failhard: raise if a package is not known (default), else leave it out.

    CLI Example::

        salt '*' pkg.info_installed <package1> <package2> failhard=false
    """
    kwargs = _data.clean_kwargs(**kwargs)
    failhard = kwargs.pop("failhard", True)
    _data.invalid_kwargs(kwargs)
    renamed = {
        "package": "name",
        "origin": "vendor",
        "section": "group",
        "maintainer": "packager",
        "homepage": "url",
    }
    return {
        name: {renamed.get(key, key): value for key, value in data.items() if key != "status"}
        for name, data in __salt__["lowpkg.info"](*names, failhard=failhard).items()
        if data.get("status", "ii")[1] == "i"
    }


def list_downloaded(root: str | None = None, **kwargs: Any) -> dict[str, dict[str, Any]]:
    """
    Packages that lie in apt's cache, by name and version.

    CLI Example::

        salt '*' pkg.list_downloaded
    """
    top = "/var/cache/apt"
    found: dict[str, dict[str, Any]] = {}
    for folder, _names, files in os.walk(os.path.join(root, top.lstrip("/")) if root else top):
        for file in fnmatch.filter(files, "*.deb"):
            path = os.path.join(folder, file)
            data = __salt__["lowpkg.bin_pkg_info"](path)
            created = int(os.path.getctime(path))
            moment = datetime.datetime.fromtimestamp(created, datetime.UTC).replace(tzinfo=None)
            found.setdefault(data["name"], {})[data["version"]] = {
                "path": path,
                "size": os.path.getsize(path),
                "creation_date_time_t": created,
                "creation_date_time": moment.isoformat(),
            }
    return found


def services_need_restart(**kwargs: Any) -> list[str]:
    """
    Services that still run with files that were replaced, from C{checkrestart}.

    @raises CommandNotFoundError: it is not installed.

    CLI Example::

        salt '*' pkg.services_need_restart
    """
    if not systools.which("checkrestart"):
        raise CommandNotFoundError(
            "'checkrestart' is needed. It is part of the 'debian-goodies' package which can be"
            " installed from official repositories."
        )
    output = __salt__["cmd.run_stdout"](
        ["checkrestart", "--machine", "--package"], python_shell=False
    )
    return list(
        {line[8 : line.find(",")] for line in output.split("\n") if line.startswith("SERVICE:")}
    )


def which(path: str) -> Any:
    """
    The package that a file belongs to; C{None} if none does, false if there is no such file.

    CLI Example::

        salt '*' pkg.which <file name>
    """
    if not os.path.isabs(path) or not os.path.exists(path):
        log.debug("%s is not the absolute path of an existing file", path)
        return False
    output = _call_apt(["dpkg", "-S", path])["stdout"]
    if "no path found matching pattern" in output:
        return None
    return output.split(":")[0]
