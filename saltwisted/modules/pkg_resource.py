"""
What the package modules of all systems share: reading C{name}, C{pkgs} and C{sources}, and
keeping lists of installed versions.
"""

from __future__ import annotations

import copy
import fnmatch
import logging
import os
from collections.abc import Callable
from typing import Any

from saltwisted.modules import _data, _packages, _yaml
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]


def _normalizer(normalize: bool) -> Callable[[str], str]:
    found = __salt__.get("pkg.normalize_name") if normalize else None
    return found or (lambda name: name)


def _repack_pkgs(pkgs: Any, normalize: bool = True) -> dict[str, str | None]:
    """C{[{a: 1}, b]} as C{{a: "1", b: None}}."""
    name_of = _normalizer(normalize)
    packed = {
        name_of(str(name)): None if version is None else str(version)
        for name, version in _data.repack_dictlist(pkgs).items()
    }
    if len(packed) != len(pkgs):
        raise SaltInvocationError(
            "You are passing a list of packages that contains duplicated packages names:"
            f" {pkgs}. This cannot be processed. In case you are targeting different versions of"
            " the same package, please target them individually"
        )
    return packed


def pack_sources(sources: Any, normalize: bool = True) -> dict[str, Any]:
    """
    C{[{a: salt://a.deb}]}, also as YAML text, as one map.

    CLI Example::

        salt '*' pkg_resource.pack_sources '[{"foo": "salt://foo.rpm"}]'
    """
    if isinstance(sources, str):
        import yaml

        try:
            sources = _yaml.load(sources)
        except yaml.YAMLError as error:
            log.error("%s", error)
            return {}
    name_of = _normalizer(normalize)
    packed: dict[str, Any] = {}
    for source in sources or ():
        if not isinstance(source, dict) or len(source) != 1:
            log.error("Input must be a list of 1-element dicts, not %r", sources)
            return {}
        for name, place in source.items():
            packed[name_of(name)] = place
    return packed


def parse_targets(
    name: str | None = None,
    pkgs: Any = None,
    sources: Any = None,
    saltenv: str = "base",
    normalize: bool = True,
    **kwargs: Any,
) -> tuple[Any, str | None]:
    """
    What is to be installed: C{(packages, "repository")} or C{(files, "file")}.

    C{(None, None)} if nothing is named, or what is named makes no sense (that is logged).

    CLI Example::

        salt '*' pkg_resource.parse_targets
    """
    version = kwargs.get("version")
    if pkgs and sources:
        log.error('Only one of "pkgs" and "sources" can be used.')
        return None, None
    if "advisory_ids" in kwargs:
        if pkgs:
            log.error('Cannot use "advisory_ids" and "pkgs" at the same time')
            return None, None
        return kwargs["advisory_ids"] or [name], "advisory"
    if (pkgs or sources) and version is not None:
        log.warning("'version' argument will be ignored for multiple package targets")
    if pkgs:
        packed = _repack_pkgs(pkgs, normalize=normalize)
        return (packed, "repository") if packed else (None, None)
    if sources:
        found = pack_sources(sources, normalize=normalize)
        if not found:
            return None, None
        return [_local_file(key, place, saltenv) for key, place in found.items()], "file"
    if name:
        name_of = _normalizer(normalize)
        return {name_of(item): version for item in name.split(",")}, "repository"
    log.error("No package sources provided")
    return None, None


def _local_file(name: str, place: str, saltenv: str) -> Any:
    if __salt__["config.valid_fileproto"](place):
        cached = __salt__["cp.cache_file"](place, saltenv)
        if not cached:
            raise CommandExecutionError(f"Unable to cache source {place} for package {name}")
        return cached
    if not os.path.isabs(place):
        raise SaltInvocationError(
            f"Path {place} for package {name} is either not absolute or an invalid protocol"
        )
    return place


def version(*names: str, **kwargs: Any) -> Any:
    """
    The installed version of packages: text for one, a map for several or for wildcards.

    CLI Example::

        salt '*' pkg_resource.version vim
        salt '*' pkg_resource.version 'python*'
    """
    as_list = systools.is_true(kwargs.pop("versions_as_list", False))
    found: dict[str, Any] = {}
    many = False
    if names:
        installed = __salt__["pkg.list_pkgs"](versions_as_list=True, **kwargs)
        for name in names:
            if "*" in name:
                many = True
                found.update({item: installed[item] for item in fnmatch.filter(installed, name)})
            else:
                found[name] = installed.get(name, [])
    if not as_list:
        stringify(found)
    if len(found) == 1 and not many:
        return next(iter(found.values()))
    return found


def add_pkg(pkgs: dict[str, list[str]], name: str, pkgver: str) -> None:
    """
    Note a version of a package in a list of packages.

    CLI Example::

        salt '*' pkg_resource.add_pkg '{}' bind 9
    """
    pkgs.setdefault(name, []).append(pkgver)


def sort_pkglist(pkgs: dict[str, list[str]]) -> None:
    """
    Sort the versions of each package, and keep each once.

    CLI Example::

        salt '*' pkg_resource.sort_pkglist '["3.45", "2.13"]'
    """
    for name, versions in pkgs.items():
        if len(versions) > 1:
            pkgs[name] = sorted(set(versions))


def stringify(pkgs: dict[str, Any]) -> None:
    """
    Join the versions of each package with commas.

    CLI Example::

        salt '*' pkg_resource.stringify 'vim: 7.127'
    """
    for name, versions in pkgs.items():
        pkgs[name] = ",".join(versions)


def version_clean(verstr: Any) -> Any:
    """
    A version without what the platform adds, if the platform's module knows how.

    CLI Example::

        salt '*' pkg_resource.version_clean <version_string>
    """
    if verstr and "pkg.version_clean" in __salt__:
        return __salt__["pkg.version_clean"](verstr)
    return verstr


def version_compare(ver1: Any, oper: str, ver2: Any, ignore_epoch: bool = False) -> bool:
    """
    Whether two versions stand to one another as the operator says.

    CLI Example::

        salt '*' pkg_resource.version_compare 1.0 '<' 1.1
    """
    return _packages.compare(ver1, oper, ver2, __salt__["pkg.version_cmp"], ignore_epoch)


def check_extra_requirements(pkgname: str, pkgver: Any) -> Any:
    """
    Whether further conditions of the platform's module are met; true if it has none.

    CLI Example::

        salt '*' pkg_resource.check_extra_requirements <pkgname> <extra_requirements>
    """
    if pkgver and "pkg.check_extra_requirements" in __salt__:
        return __salt__["pkg.check_extra_requirements"](pkgname, pkgver)
    return True


_ATTRIBUTES = frozenset(
    ("epoch", "version", "release", "arch", "install_date", "install_date_time_t")
)


def format_pkg_list(packages: dict[str, Any], versions_as_list: bool, attr: Any) -> dict[str, Any]:
    """
    Lists of attributes as the C{attr} argument of C{pkg.list_pkgs} asks, or as plain versions.

    CLI Example::

        salt '*' pkg_resource.format_pkg_list '{}' False all
    """
    found = copy.deepcopy(packages)
    if not attr:
        for name, entries in found.items():
            found[name] = [
                format_version(item["epoch"], item["version"], item["release"]) for item in entries
            ]
        if not versions_as_list:
            stringify(found)
        return found
    wanted = _ATTRIBUTES if attr == "all" else _ATTRIBUTES & {*attr, "version", "arch"}
    result: dict[str, Any] = {}
    for name, entries in found.items():
        parts: dict[str, Any] = {"name": name, "arch": None}
        if "pkg.parse_arch" in __salt__:
            parts = __salt__["pkg.parse_arch"](name)
        rows = [{key: item[key] for key in wanted if key in item} for item in entries]
        plain = parts["name"] and any(row.get("arch") == parts["arch"] for row in rows)
        result.setdefault(parts["name"] if plain else name, []).extend(rows)
    return result


def format_version(epoch: Any, version: str, release: Any) -> str:
    """
    C{epoch:version-release}, without what is empty.

    CLI Example::

        salt '*' pkg_resource.format_version 1 2.0 3
    """
    text = f"{epoch}:{version}" if epoch else version
    return f"{text}-{release}" if release else text
