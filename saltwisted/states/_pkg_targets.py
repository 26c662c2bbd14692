"""
What of the packages that a state names is to be installed, downloaded, removed or repaired.

Nothing here changes the machine: package lists are read through the C{pkg} functions given.
Either the targets come back, or the whole return of the state where nothing is left to do
or nothing can be done.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from saltwisted.modules import _packages
from saltwisted.modules.pkg_resource import _repack_pkgs
from saltwisted.states import _pkg_versions
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

Ret = dict[str, Any]
Versions = dict[str, Any]


def done(name: Any, result: bool | None, comment: str, changes: Any = None) -> Ret:
    """A return."""
    return {"name": name, "changes": changes or {}, "result": result, "comment": comment}


def already(name: Any, comment: str) -> Ret:
    """Nothing to do."""
    return done(name, True, comment)


def refused(name: Any, comment: str) -> Ret:
    """Nothing can be done."""
    return done(name, False, comment)


@frozen(kw_only=True)
class Install:
    """
    @ivar desired: all packages, with the version wanted or C{None}; or the source of each.
    @ivar targets: those to install.
    @ivar unpurge: those marked for purging.
    @ivar reinstall: those to install over themselves.
    @ivar altered: what verification found wrong with them.
    @ivar refreshed: the package lists have been read again.
    """

    desired: Versions
    targets: Versions
    unpurge: list[str]
    reinstall: Versions
    altered: Versions
    warnings: list[str]
    refreshed: bool


def verify_words(verify: Any) -> dict[str, Any]:
    """The arguments of C{pkg.verify} in C{pkg_verify: [{ignore_types: ...}]}."""
    words: dict[str, Any] = {"ignore_types": [], "verify_options": []}
    for item in reversed(verify if isinstance(verify, list) else []):
        if isinstance(item, dict):
            words.update({key: item[key] for key in words if item.get(key) is not None})
    return words


@define
class Finder:
    """
    @ivar salt: C{__salt__}.
    @ivar ignore_epoch: as the state was told.
    @ivar kwargs: what the state passes on to the functions.
    """

    salt: Any
    ignore_epoch: bool | None
    kwargs: dict[str, Any]

    def normalized(self, name: str, normalize: bool) -> str:
        """The name without an architecture that goes without saying."""
        if normalize and "pkg.normalize_name" in self.salt:
            return str(self.salt["pkg.normalize_name"](name))
        return name

    def installed(self, current: Mapping[str, Any], name: str) -> Any:
        """
        What the list of packages has of a name.

        The list leaves out an architecture that goes without saying; the name may have it.
        """
        return current.get(name) or current.get(self.normalized(name, True)) or []

    def repacked(self, pkgs: Any, normalize: Any = True) -> Versions:
        """C{[{a: 1}, b]} as a map."""
        function = _repack_pkgs
        packed = function(pkgs, normalize=False)
        return {self.normalized(name, bool(normalize)): value for name, value in packed.items()}

    def fulfils(self, installed: Iterable[str], text: str, allow_updates: bool = False) -> bool:
        """Whether some version meets the conditions."""
        compare = self.salt.get("pkg.version_cmp") or _packages.loose_compare
        return _pkg_versions.fulfils(installed, text, compare, self.ignore_epoch, allow_updates)

    def unknown(self, desired: Mapping[str, Any], fromrepo: Any = None, **kwargs: Any) -> str:
        """What to say of packages that no repository has, where the platform can tell."""
        if "pkg.check_db" not in self.salt:
            return ""
        try:
            known = self.salt["pkg.check_db"](*desired, fromrepo=fromrepo, **kwargs)
        except CommandExecutionError:
            return ""
        lost = sorted(n for n, one in known.items() if one["found"] is False)
        bare = [name for name in lost if not known[name]["suggestions"]]
        said = []
        if bare:
            said.append(
                "The following package(s) were not found, and no possible matches were found in"
                f" the package db: {', '.join(bare)}"
            )
        for name, one in known.items():
            if one["found"] is False and one["suggestions"]:
                said.append(
                    f"Package '{name}' not found (possible matches: "
                    f"{', '.join(one['suggestions'])})"
                )
        if len(said) > 1:
            said.append("")
        return ". ".join(said).rstrip()

    # -- to install

    def install(
        self,
        name: Any,
        version: Any,
        pkgs: Any,
        sources: Any,
        *,
        skip_suggestions: bool,
        verify: Any,
        normalize: bool,
        reinstall: bool,
        refresh: bool,
    ) -> Install | Ret:
        """What C{pkg.installed} has to do."""
        if pkgs and sources:
            return refused(name, 'Only one of "pkgs" and "sources" is permitted.')
        provides = (
            self.kwargs.get("resolve_capabilities", False) and "pkg.list_provides" in self.salt
        )
        try:
            current = self.salt["pkg.list_pkgs"](versions_as_list=True, **self.kwargs)
            provided = self.salt["pkg.list_provides"](**self.kwargs) if provides else {}
        except CommandExecutionError as error:
            return refused(name, error.strerror)
        if pkgs or sources:
            if pkgs:
                split = self.kwargs.get("split_arch", True)
                desired = self.repacked(pkgs, normalize and split)
            else:
                desired = self.salt["pkg_resource.pack_sources"](sources, normalize=normalize)
            if not desired:
                kind = "pkgs" if pkgs else "sources"
                return refused(name, f"Invalidly formatted '{kind}' parameter. See minion log.")
            unpurge = self._to_unpurge(desired)
        else:
            desired = {self.normalized(name, normalize): version}
            unpurge = self._to_unpurge(desired)
            has = current.get(name, [])
            if has and name not in unpurge and not reinstall and not verify:
                text = f"Version {version} of package '{name}' is already installed"
                if version and version in has:
                    return already(name, text)
                if version is None:
                    return already(name, f"Package {name} is already installed")
        problem = "" if sources or skip_suggestions else self._unknown_of(desired, current)
        if problem:
            return refused(name, problem)
        refreshed = not sources and self._name_latest(desired, current, refresh)
        sorter = _Sorter(self, verify, reinstall, bool(sources))
        for package, wanted in desired.items():
            has = self.installed(current, package)
            if not has and package in provided:
                has = current.get(provided[package][0], [])
            sorter.sort(package, wanted, has)
        return sorter.answer(name, desired, unpurge, refreshed)

    def _unknown_of(self, desired: Versions, current: Mapping[str, list[str]]) -> str:
        """What to say of packages that are missing, and that no repository has."""
        missing = {
            one: wanted
            for one, wanted in desired.items()
            if one not in current or not (wanted is None or self.fulfils(current[one], wanted))
        }
        return self.unknown(missing, **self.kwargs) if missing else ""

    def _name_latest(
        self, desired: Versions, current: Mapping[str, list[str]], refresh: bool
    ) -> bool:
        """Put numbers for C{latest}; whether the package lists were read again."""
        newest = [one for one, wanted in desired.items() if wanted == "latest"]
        if not newest:
            return False
        found = self.salt["pkg.latest_version"](*newest, refresh=refresh, **self.kwargs)
        resolved = {newest[0]: found} if len(newest) == 1 else found
        for one in resolved:
            if not resolved[one]:
                resolved[one] = current[one][-1] if one in current else None
        desired.update(resolved)
        return bool(refresh)

    def _to_unpurge(self, desired: Versions) -> list[str]:
        marked = self.salt["pkg.list_pkgs"](purge_desired=True, **self.kwargs)
        return [one for one in desired if one in marked]

    # -- to download, to remove

    def download(
        self, name: Any, version: Any, pkgs: Any, fromrepo: Any, skip_suggestions: bool = False
    ) -> tuple[Versions, Ret | None]:
        """What C{pkg.downloaded} has to fetch; or its return."""
        cached = self.salt["pkg.list_downloaded"](**self.kwargs)
        if pkgs:
            wanted = self.repacked(pkgs)
            if not wanted:
                return {}, refused(name, "Invalidly formatted pkgs parameter. See minion log.")
        else:
            wanted = {self.normalized(name, True): version}
            has = cached.get(name, {})
            if has and name in wanted and version in has:
                text = f"Version {version} of package '{name}' is already downloaded"
                return {}, already(name, text)
            if has and name in wanted and version is None:
                return {}, already(name, f"Package {name} is already downloaded")
        if not skip_suggestions:
            problem = self.unknown(wanted, fromrepo=fromrepo, **self.kwargs)
            if problem:
                return {}, refused(name, problem)
        targets: Versions = {}
        compared = False
        problems = []
        for package, conditions in wanted.items():
            has = cached.get(package, {})
            if has and not conditions:
                continue
            try:
                compared = compared or bool(has)
                if not has or not self.fulfils(has, conditions):
                    targets[package] = conditions
            except CommandExecutionError as error:
                problems.append(error.strerror)
        if problems:
            return {}, refused(name, " ".join(problems))
        if not targets:
            more = " (matching specified versions)" if compared else ""
            return {}, already(name, f"All specified packages{more} are already downloaded")
        return targets, None

    def remove(
        self, name: Any, version: Any, pkgs: Any, normalize: bool
    ) -> tuple[list[str], Ret | None]:
        """What C{pkg.removed} has to remove; or its return."""
        current = self.salt["pkg.list_pkgs"](versions_as_list=True, **self.kwargs)
        if pkgs:
            wanted = self.repacked(pkgs, normalize)
            if not wanted:
                return [], refused(name, "Invalidly formatted pkgs parameter. See minion log.")
        else:
            wanted = {self.normalized(name, True): version}
        targets = []
        compared = False
        problems = []
        for package, conditions in wanted.items():
            has = current.get(package, [])
            if not has:
                continue
            if self.salt["pkg_resource.version_clean"](conditions) is None:
                targets.append(package)
                continue
            compared = True
            try:
                if self.fulfils(has, str(conditions)):
                    targets.append(package)
                else:
                    log.debug("%s is at %s, not at %s: not removed", package, has, conditions)
            except CommandExecutionError as error:
                problems.append(error.strerror)
        if problems:
            return [], refused(name, " ".join(problems))
        if not targets:
            more = " (matching specified versions)" if compared else ""
            return [], already(name, f"All specified packages{more} are already absent")
        return targets, None

    # -- afterwards

    def verified(
        self,
        desired: Mapping[str, Any],
        now: Mapping[str, Any],
        provided: Mapping[str, list[str]] | None = None,
    ) -> tuple[list[str], list[str]]:
        """Those of the desired packages that are there as wanted, and those that are not."""
        good: list[str] = []
        bad: list[str] = []
        for package, wanted in desired.items():
            name = package.split("=")[0]
            has = self.installed(now, name)
            if not has and provided and name in provided:
                has = now.get(provided[name][0])
            if not has:
                bad.append(package)
            elif (
                wanted == "latest"
                or not self.salt["pkg_resource.version_clean"](wanted)
                or (wanted.endswith("*") and next(iter(has)).startswith(wanted[:-1]))
                or self.fulfils(has, wanted)
            ):
                good.append(package)
            else:
                bad.append(package)
        return good, bad


@define
class _Sorter:
    """
    What has to be done with each package of C{pkg.installed}.

    @ivar verify: how C{pkg.verify} is to be asked, or false.
    @ivar sources: packages are files.
    @ivar broken: what the last verification that failed said.
    """

    finder: Finder
    verify: Any
    reinstall: bool
    sources: bool
    targets: Versions = field(factory=dict)
    again: Versions = field(factory=dict)
    altered: Versions = field(factory=dict)
    warnings: list[str] = field(factory=list)
    problems: list[str] = field(factory=list)
    compared: bool = False
    broken: str = ""

    def sort(self, package: str, wanted: Any, has: list[str]) -> None:
        """
        Decide about one package.

        @param has: the versions of it that are installed.
        """
        salt = self.finder.salt
        if not has:
            self.targets[package] = wanted
            return
        if self.reinstall:
            self.again[package] = wanted
            return
        version = wanted
        if self.sources:
            version = None
            if "lowpkg.bin_pkg_info" in salt:
                version = self._version_of_file(wanted)
            if version is None:
                return
        else:
            if not salt["pkg_resource.check_extra_requirements"](package, wanted):
                self.targets[package] = wanted
                return
            if salt["pkg_resource.version_clean"](wanted) is None:
                if self.verify:
                    self._verify(package, wanted)
                return
        updates = bool(not self.sources and self.finder.kwargs.get("allow_updates"))
        try:
            fits = self.finder.fulfils(has, version, updates)
        except CommandExecutionError as error:
            self.problems.append(error.strerror)
            return
        self.compared = True
        if fits:
            return
        if self.verify and any(one == "==" for one, _ in _pkg_versions.conditions(wanted)):
            self._verify(package, wanted)
        else:
            self.targets[package] = wanted

    def _verify(self, package: str, wanted: Any) -> None:
        finder = self.finder
        words = verify_words(self.verify)
        try:
            wrong = finder.salt["pkg.verify"](package, **words, **finder.kwargs)
        except (CommandExecutionError, SaltInvocationError) as error:
            self.broken = str(error.strerror) or self.broken
            return
        if wrong:
            self.again[package] = wanted
            self.altered[package] = wrong

    def answer(
        self, name: Any, desired: Versions, unpurge: list[str], refreshed: bool
    ) -> Install | Ret:
        """What has to be done; or the return, if that is nothing, or cannot be done."""
        problems = [*self.problems, self.broken] if self.broken else self.problems
        if problems:
            return refused(name, " ".join(problems))
        if not self.targets and not unpurge and not self.again:
            whole = self.compared and not self.sources
            more = " and are at the desired version" if whole else ""
            ret = already(name, f"All specified packages are already installed{more}")
            if self.warnings:
                ret["warnings"] = self.warnings
            return ret
        return Install(
            desired=desired,
            targets=self.targets,
            unpurge=unpurge,
            reinstall=self.again,
            altered=self.altered,
            warnings=self.warnings,
            refreshed=refreshed,
        )

    def _version_of_file(self, source: str) -> str | None:
        """The version inside a package file; C{None} (and why) if there is none to be had."""
        try:
            cached = self.finder.salt["cp.cache_file"](
                source,
                saltenv=self.finder.kwargs["saltenv"],
                verify_ssl=self.finder.kwargs.get("verify_ssl", True),
            )
        except CommandExecutionError as error:
            self.problems.append(f"Unable to cache {source}: {error}")
            return None
        if not cached:
            self.problems.append(f"Unable to cache {source}: file not found")
            return None
        if not os.path.exists(cached):
            self.problems.append(f"{source} does not exist on minion")
            return None
        info = self.finder.salt["lowpkg.bin_pkg_info"](cached)
        if info is None:
            self.warnings.append(f"Failed to parse metadata for {source}")
            return None
        return str(info["version"])
