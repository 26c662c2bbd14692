"""
What apt and dpkg know of packages, and which files and services are whose.
"""

from __future__ import annotations

import datetime
import fnmatch
import logging
import os
import re
from typing import Any

from saltwisted.modules import _data
from saltwisted.modules._apt import Apt
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandNotFoundError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__pillar__: dict[str, Any]

_apt = Apt(globals(), lambda: __pillar__)


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
        _apt.refresh()
    if not names:
        return {}
    output = _apt.call(["apt-cache", "show", *names], scope=False)["stdout"]
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
    output = _apt.call(["dpkg", "-S", path])["stdout"]
    if "no path found matching pattern" in output:
        return None
    return output.split(":")[0]
