"""
Packages as C{dpkg} sees them (virtual module C{lowpkg}): files, and what a C{.deb} says.
"""

from __future__ import annotations

import datetime
import logging
import os
import re
from typing import Any

from saltwisted.modules import _data, _packages
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__context__: dict[str, Any]

__virtualname__ = "lowpkg"


def __virtual__() -> Any:
    if __grains__["os_family"] == "Debian":
        return __virtualname__
    return (
        False,
        "The dpkg execution module cannot be loaded: only works on Debian family systems.",
    )


def bin_pkg_info(path: str, saltenv: str = "base") -> dict[str, str]:
    """
    Name, version and architecture of a C{.deb}, which may be on the master.

    CLI Example::

        salt '*' lowpkg.bin_pkg_info /root/foo-1.2.3-1ubuntu1_all.deb
    """
    if __salt__["config.valid_fileproto"](path):
        cached = __salt__["cp.cache_file"](path, saltenv)
        if not cached:
            raise CommandExecutionError(f"Unable to retrieve {path} from saltenv '{saltenv}'")
        path = cached
    elif not os.path.exists(path):
        raise CommandExecutionError(f"{path} does not exist on minion")
    elif not os.path.isabs(path):
        raise SaltInvocationError(f"{path} does not exist on minion")
    done = __salt__["cmd.run_all"](["dpkg", "-I", path], output_loglevel="trace")
    if done["retcode"] != 0:
        reason = f": {done['stderr']}" if done["stderr"] else ""
        raise CommandExecutionError(f"Unable to get info for {path}{reason}")
    found: dict[str, str] = {}
    for line in done["stdout"].splitlines():
        match = re.match(r"\s*(Package|Version|Architecture) *:.*?(\S+)\s*$", line)
        if match:
            key = {"Package": "name", "Version": "version", "Architecture": "arch"}
            found[key[match.group(1)]] = match.group(2)
    missing = [key for key in ("name", "version", "arch") if key not in found]
    if missing:
        raise CommandExecutionError(f"Unable to get {', '.join(missing)} for {path}")
    found["name"] = _packages.foreign_name(found["name"], found["arch"], __grains__)
    return found


def unpurge(*packages: str) -> dict[str, Any]:
    """
    Take packages that are marked to be purged off that list.

    CLI Example::

        salt '*' lowpkg.unpurge curl
    """
    if not packages:
        return {}
    old = __salt__["pkg.list_pkgs"](purge_desired=True)
    __salt__["cmd.run"](
        ["dpkg", "--set-selections"],
        stdin="\\n".join(f"{name} install" for name in packages),
        python_shell=False,
        output_loglevel="trace",
    )
    __context__.pop("pkg.list_pkgs", None)
    return systools.compare_dicts(old, __salt__["pkg.list_pkgs"](purge_desired=True))


def _query(form: str, packages: tuple[str, ...]) -> Any:
    """The rows of C{dpkg-query} for installed packages, or its error as text."""
    command = ["dpkg-query", f"-f=${{db:Status-Status}}\t{form}\n", "-W", *packages]
    done = __salt__["cmd.run_all"](command, python_shell=False)
    if done["retcode"] != 0:
        text = f"Error:  {done['stderr']}"
        log.error(text)
        return text
    rows = (line.split("\t") for line in done["stdout"].splitlines())
    return [row[1:] for row in rows if row[0] == "installed"]


def list_pkgs(*packages: str, **kwargs: Any) -> Any:
    """
    Installed packages with their versions.

    CLI Example::

        salt '*' lowpkg.list_pkgs
        salt '*' lowpkg.list_pkgs httpd
    """
    rows = _query("${binary:Package}\t${Version}", packages)
    return rows if isinstance(rows, str) else dict(rows)


def file_list(*packages: str, **kwargs: Any) -> Any:
    """
    The files of packages; of all if none is named.

    CLI Example::

        salt '*' lowpkg.file_list httpd
    """
    found = file_dict(*packages)
    if isinstance(found, str):
        return found
    files = {path for paths in found["packages"].values() for path in paths}
    return {"errors": [], "files": sorted(files)}


def file_dict(*packages: str, **kwargs: Any) -> Any:
    """
    The files of packages, by package.

    CLI Example::

        salt '*' lowpkg.file_dict httpd
    """
    rows = _query("${binary:Package}", packages)
    if isinstance(rows, str):
        return rows
    return {
        "errors": [],
        "packages": {
            name: __salt__["cmd.run"](["dpkg", "-L", name], python_shell=False).splitlines()
            for (name,) in rows
        },
    }


_FIELDS = (
    ("package", "Package"),
    ("revision", "binary:Revision"),
    ("architecture", "Architecture"),
    ("maintainer", "Maintainer"),
    ("summary", "Summary"),
    ("source", "source:Package"),
    ("version", "Version"),
    ("section", "Section"),
    ("installed_size", "Installed-size"),
    ("size", "Size"),
    ("MD5", "MD5sum"),
    ("SHA1", "SHA1"),
    ("SHA256", "SHA256"),
    ("origin", "Origin"),
    ("homepage", "Homepage"),
    ("status", "db:Status-Abbrev"),
    ("install_date", "db-fsys:Last-Modified"),
    ("description", "Description"),
)
_END = "*/~^\\*"


def _package_info(packages: tuple[str, ...], failhard: bool) -> list[dict[str, Any]]:
    shown = "".join(f"{key}:${{{field}}}\\n" for key, field in _FIELDS)
    form = f"{shown}\\n*/~^\\\\*\\n"
    done = __salt__["cmd.run_all"](
        ["dpkg-query", "-W", f"-f={form}", *packages], python_shell=False
    )
    if done["retcode"]:
        if failhard:
            raise CommandExecutionError(f"Error getting packages information: {done['stderr']}")
        return []
    found = []
    for block in f"{done['stdout']}\n".split(f"\n{_END}\n"):
        if not block.strip():
            continue
        head, _mark, description = block.partition("\ndescription:")
        entry: dict[str, Any] = {}
        for line in head.strip().splitlines():
            key, _colon, value = line.strip().partition(":")
            if key == "install_date":
                value = _moment(value)
            if value:
                entry[key] = value
        entry["description"] = description
        found.append(entry)
    return found


def _moment(text: str) -> str:
    """Seconds since 1970 as C{2024-01-01T00:00:00Z}; empty if they are none."""
    if not text.isdigit():
        return ""
    moment = datetime.datetime.fromtimestamp(int(text), tz=datetime.UTC)
    return moment.isoformat().replace("+00:00", "Z")


def _license(name: str) -> str:
    text = systools.read_text(f"/usr/share/doc/{name}/copyright")
    found = {line.partition(":")[2].strip() for line in text.split("\n") if line[:8] == "License:"}
    return ", ".join(sorted(found))


def _available() -> dict[str, dict[str, str]]:
    """What C{dselect}'s list of available packages says; nothing without C{dselect}."""
    if not systools.which("dselect"):
        return {}
    done = __salt__["cmd.run_all"](
        ["dpkg-query", "--print-avail"], python_shell=False, ignore_retcode=True
    )
    if done["retcode"]:
        return {}
    found = {}
    for block in done["stdout"].split("Package:"):
        entry = {}
        for line in f"Package:{block}".splitlines():
            key, colon, value = line.partition(": ")
            if colon and value.strip():
                entry[key.lower()] = value
        if entry.get("package"):
            found[entry["package"]] = entry
    return found


_NOT_SHOWN = (
    "installed_size",
    "depends",
    "recommends",
    "provides",
    "replaces",
    "conflicts",
    "bugs",
    "description-md5",
    "task",
)


def info(*packages: str, **kwargs: Any) -> dict[str, dict[str, Any]]:
    """
    All that is known of installed packages; of all if none is named.

    @keyword failhard: raise if a package is not known (default), else leave it out.

    CLI Example::

        salt '*' lowpkg.info
        salt '*' lowpkg.info apache2 bash
    """
    available = _available()
    kwargs = _data.clean_kwargs(**kwargs)
    failhard = kwargs.pop("failhard", True)
    _data.invalid_kwargs(kwargs)
    found = {}
    for entry in _package_info(packages, failhard):
        name = entry["package"]
        entry = {**available.get(name, {}), **entry}
        for key in _NOT_SHOWN:
            entry.pop(key, None)
        licenses = _license(name)
        if licenses:
            entry["license"] = licenses
        found[name] = entry
    return found
