"""
Words of pip's command lines, and versions.
"""

from __future__ import annotations

import logging
import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

from saltwisted.modules import _packages
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

logger = logging.getLogger(__name__)


_PROTOS = ("http", "https", "ftp", "file")


_CHAIN = re.compile(r"(?:-r\s|--requirement[=\s])(.*)\n?", re.MULTILINE)


_COMMENT = re.compile(r"(?:^|\s+)#.*$", re.MULTILINE)


def key(bin_env: str | None) -> str:
    return "pip.version" if bin_env is None else f"pip.version.{bin_env}"


def compare(one: Any, operator: str, other: str) -> bool:
    return _packages.compare(one, operator, other, _packages.loose_compare)


def split(value: Any) -> list[str]:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else list(value)


def check_url(url: str) -> None:
    if urllib.parse.urlparse(url).scheme not in _PROTOS:
        raise CommandExecutionError(f"'{url}' is not a valid URL")


def timeout(timeout: Any) -> list[Any]:
    if not timeout:
        return []
    try:
        if isinstance(timeout, float):
            raise ValueError("Timeout cannot be a float")
        int(timeout)
    except ValueError as error:
        raise ValueError(f"'{timeout}' is not a valid timeout, must be an integer") from error
    return ["--timeout", timeout]


def extra(extra_args: Any) -> list[Any]:
    words: list[Any] = []
    for arg in extra_args or ():
        if isinstance(arg, dict):
            key, value = next(iter(arg.items()))
            if isinstance(value, (dict, list)):
                raise TypeError(f"Too many levels in: {key}")
            words += [key, value]
        else:
            words.append(arg)
    return words


def env(bin_env: str | None, env_vars: Any, given: Any = None) -> dict[str, Any]:
    """The environment as a keyword argument for a command, if there is anything to say."""
    found: dict[str, Any] = dict(given or {})
    if bin_env and os.path.isdir(bin_env):
        found["VIRTUAL_ENV"] = bin_env
    if env_vars:
        if not isinstance(env_vars, dict):
            raise CommandExecutionError(f"env_vars {env_vars} is not a dictionary")
        found.update({str(key): str(value) for key, value in env_vars.items()})
    return {"env": found} if found else {}


def chain(path: str, folder: str) -> list[str]:
    """A file of requirements and those that it refers to, relative to C{folder} if they are."""
    text = _COMMENT.sub("", systools.read_text(os.path.join(folder, path)))
    found = [path]
    for name in _CHAIN.findall(text):
        found += chain(os.path.join(os.path.dirname(path), name), folder)
    return found


def wheel_options(now: Any, use: bool, no_use: bool, no_binary: Any) -> list[str]:
    words: list[str] = []
    for flag, option in ((use, "--use-wheel"), (no_use, "--no-use-wheel")):
        if flag and (compare(now, "<", "1.4") or compare(now, ">", "9.0.3")):
            logger.error(
                "The %s option is only supported in pip between 1.4 and 9.0.3. The version of pip"
                " detected is %s. This option will be ignored.",
                option,
                now,
            )
        elif flag:
            words.append(option)
    if no_binary:
        if compare(now, "<", "7.0.0"):
            logger.error(
                "The --no-binary option is only supported in pip 7.0.0 and newer. The version of"
                " pip detected is %s. This option will be ignored.",
                now,
            )
        else:
            names = ",".join(no_binary) if isinstance(no_binary, list) else no_binary
            words += ["--no-binary", names]
    return words


def log_option(log: str | None) -> list[str]:
    if not log:
        return []
    if os.path.isdir(log):
        raise OSError(f"'{log}' is a directory. Use --log path_to_file")
    if not os.path.exists(log):
        parent = os.path.dirname(log)
        if not os.path.exists(parent):
            raise OSError(
                f"Trying to create '{log}' but parent directory '{parent}' does not exist."
            )
        if not os.access(parent, os.W_OK):
            raise OSError(
                f"Trying to create '{log}' but parent directory '{parent}' is not writeable."
            )
    elif not os.access(log, os.W_OK):
        raise OSError(f"'{log}' is not writeable")
    return ["--log", log]


def index_options(
    find_links: Any, index: Any, extra: Any, no_index: bool, mirrors: Any, now: Any
) -> list[str]:
    words: list[str] = []
    for link in split(find_links or ()):
        if urllib.parse.urlparse(link).scheme not in _PROTOS and not os.path.exists(link):
            raise CommandExecutionError(f"'{link}' is not a valid URL or path")
        words += ["--find-links", link]
    if no_index and (index or extra):
        raise CommandExecutionError(
            "'no_index' and ('index_url' or 'extra_index_url') are mutually exclusive."
        )
    for option, url in (("--index-url", index), ("--extra-index-url", extra)):
        if url:
            check_url(url)
            words += [option, url]
    if no_index:
        words.append("--no-index")
    if mirrors:
        if compare(now, ">=", "7.0.0"):
            raise CommandExecutionError(
                "pip >= 7.0.0 does not support mirror argument: use index_url and/or"
                " extra_index_url instead"
            )
        words.append("--use-mirrors")
        for mirror in split(mirrors):
            if not mirror.startswith("http://"):
                raise CommandExecutionError(f"'{mirror}' is not a valid URL")
            words += ["--mirrors", mirror]
    return words


def editable_options(editable: Any) -> list[str]:
    words: list[str] = []
    for entry in split(editable or ()):
        local = entry == "." or entry.startswith(("file://", "/"))
        egg = re.search(r"(?:#|#.*?&)egg=([^&]*)", entry)
        if not local and (not egg or not egg.group(1)):
            raise CommandExecutionError("You must specify an egg for this editable")
        words += ["--editable", entry]
    return words


def install_options(now: Any, given: Mapping[str, Any]) -> list[Any]:
    """
    The options of C{pip install} that go before the packages.

    @param given: the arguments of C{pip.install}.
    """
    words: list[Any] = index_options(
        given["find_links"],
        given["index_url"],
        given["extra_index_url"],
        given["no_index"],
        given["mirrors"],
        now,
    )
    if given["disable_version_check"]:
        words.append("--disable-pip-version-check")
    target = given["target"]
    if target is None and given["bin_env"] is None:
        target = os.environ.get("VENV_PIP_TARGET")
    cache_option = "--cache-dir" if compare(now, ">=", "6.0") else "--download-cache"
    for option, value in (
        ("--build", given["build"]),
        ("--target", target),
        ("--download", given["download"]),
        (cache_option, given["download_cache"] or given["cache_dir"]),
        ("--source", given["source"]),
    ):
        if value:
            words += [option, value]
    words += _flags(given, ("upgrade", "force_reinstall", "ignore_installed"))
    action = given["exists_action"]
    if action:
        if action.lower() not in ("s", "i", "w", "b"):
            raise CommandExecutionError(
                "The exists_action pip option only supports the values s, i, w, and b."
                f" '{action}' is not valid."
            )
        words += ["--exists-action", action]
    words += _flags(given, ("no_deps", "no_install", "no_download", "no_cache_dir"))
    if given["pre_releases"] and compare(now, ">=", "1.4"):
        words.append("--pre")
    if given["cert"]:
        words += ["--cert", given["cert"]]
    words += _each("--global-option", given["global_options"])
    words += _each("--install-option", given["install_options"])
    return words


def packages(pkgs: Any) -> list[str]:
    """Packages from a list, or text with commas."""
    names = pkgs if isinstance(pkgs, list) else split(str(pkgs))
    return [str(name).replace(";", ",") for name in names]


def last_options(given: Mapping[str, Any]) -> list[Any]:
    """The options of C{pip install} that go behind the packages."""
    words: list[Any] = editable_options(given["editable"])
    words += _flags(given, ("allow_all_external",))
    words += _each("--allow-external", given["allow_external"])
    words += _each("--allow-unverified", given["allow_unverified"])
    words += _flags(given, ("process_dependency_links",))
    if given["trusted_host"]:
        words += ["--trusted-host", given["trusted_host"]]
    words += extra(given["extra_args"])
    return words


def _flags(given: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in names if given[name]]


def _each(option: str, values: Any) -> list[str]:
    return [word for value in split(values or ()) for word in (option, value)]


def take(found: dict[str, Any], prefix: str | None, name: str, number: str) -> None:
    if not prefix or name.lower().startswith(prefix.lower()):
        found[name] = number


def sort_key(text: str) -> Any:
    """The order of PEP 440, without a library for it: epoch, numbers, then what follows them."""
    match = re.match(
        r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)[-_.]?(?:(a|b|c|rc)[-_.]?(\d*))?(?:[-_.]?post[-_.]?(\d*)|-(\d+))?"
        r"(?:[-_.]?dev[-_.]?(\d*))?",
        text.lower(),
    )
    if match is None:
        return ((-1, [], (0, 0), 0, 0), text)
    epoch, numbers, kind, count, post, dash, dev = match.groups()
    release = [int(part) for part in numbers.split(".")]
    while release and release[-1] == 0:
        release.pop()
    ranks = {"a": 1, "b": 2, "c": 3, "rc": 3}
    after = -1 if post is None and dash is None else int(post or dash or 0)
    only_dev = kind is None and after < 0 and dev is not None
    stage = (0 if only_dev else ranks.get(kind or "", 4), int(count or 0))
    return (
        (int(epoch or 0), release, stage, after, float("inf") if dev is None else int(dev or 0)),
        text,
    )
