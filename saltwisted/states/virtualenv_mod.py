"""
Virtual environments of Python.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.modules._arguments import picked
from saltwisted.states.pip_state import wrong_pip
from saltwisted.worker.exceptions import CommandExecutionError, CommandNotFoundError

__salt__: Any
__opts__: Any
__env__: str
__virtualname__ = "virtualenv"

_WHEELS = ("use_wheel", "no_use_wheel", "no_binary")
_CREATED = (
    *("venv_bin", "system_site_packages", "distribute", "clear", "python", "extra_search_dir"),
    *("never_download", "prompt", "user", "use_vt"),
)
"""Arguments that C{virtualenv.create} takes."""
_INSTALLED = (
    *("requirements", "process_dependency_links", *_WHEELS, "user", "index_url"),
    *("extra_index_url", "pre_releases", "no_deps", "proxy", "use_vt", "env_vars"),
)
"""Arguments that C{pip.install} takes."""
_OF_PIP = (
    *("download", "download_cache", "exists_action", "ignore_installed", "upgrade"),
    *("no_cache_dir", "cache_dir"),
)
"""Words of C{pip.install} whose arguments have C{pip_} before them."""


def __virtual__() -> Any:
    if "virtualenv.create" in __salt__:
        return __virtualname__
    return False, "virtualenv module could not be loaded"


def _cached(source: str) -> str | None:
    """A file of the master on this machine, at its newest."""
    path = __salt__["cp.is_cached"](source, __env__) or __salt__["cp.cache_file"](source, __env__)
    if path and __salt__["cp.hash_file"](source, __env__) != __salt__["cp.hash_file"](
        path, __env__
    ):
        path = __salt__["cp.cache_file"](source, __env__)
    return path or None


def managed(
    name: str,
    venv_bin: Any = None,
    requirements: Any = None,
    system_site_packages: bool = False,
    distribute: bool = False,
    use_wheel: bool = False,
    clear: bool = False,
    python: Any = None,
    extra_search_dir: Any = None,
    never_download: Any = None,
    prompt: Any = None,
    user: Any = None,
    cwd: Any = None,
    index_url: Any = None,
    extra_index_url: Any = None,
    pre_releases: bool = False,
    no_deps: bool = False,
    pip_download: Any = None,
    pip_download_cache: Any = None,
    pip_exists_action: Any = None,
    pip_ignore_installed: bool = False,
    proxy: Any = None,
    use_vt: bool = False,
    env_vars: Any = None,
    no_use_wheel: bool = False,
    pip_upgrade: bool = False,
    pip_pkgs: Any = None,
    pip_no_cache_dir: bool = False,
    pip_cache_dir: Any = None,
    process_dependency_links: bool = False,
    no_binary: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    There is a virtual environment, with packages if some are named.

    requirements, pip_pkgs
        A file with packages (from the master too), or packages.
    clear
        Make it again.
    venv_bin, python, system_site_packages, prompt ...
        As for C{virtualenv.create}.
    pip_upgrade, pip_download, index_url, no_deps ...
        As for C{pip.install}.
    """
    return _managed(name, locals(), kwargs)


manage = managed


class _Failed(Exception):
    """The state has failed; its comment."""


def _managed(name: str, given: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """
    The state.

    @param given: its arguments by their names.
    @param kwargs: the further ones.
    """
    ret: dict[str, Any] = {"name": name, "result": True, "comment": "", "changes": {}}
    try:
        if "virtualenv.create" not in __salt__:
            raise _Failed("Virtualenv was not detected on this system")
        exists = os.path.exists(_interpreter(name))
        requirements = given["requirements"]
        if requirements and requirements.startswith("salt://"):
            cached = _cached(requirements)
            if cached is None:
                raise _Failed(f"pip requirements file '{requirements}' not found")
            given["requirements"] = cached
        if exists and given["clear"]:
            ret["changes"]["cleared_packages"] = __salt__["pip.freeze"](bin_env=name)
            ret["changes"]["old"] = _version(name)
        if __opts__["test"]:
            return _forecast(ret, exists, given["clear"])
        if exists and not given["clear"]:
            ret["comment"] = "virtualenv exists"
        else:
            _create(ret, given, kwargs)
        if any(given[key] for key in _WHEELS):
            has = __salt__["pip.version"](bin_env=name)
            wrong = wrong_pip(has, *(given[key] for key in _WHEELS))
            if wrong:
                raise _Failed(wrong)
        if given["requirements"] or given["pip_pkgs"]:
            _fill(ret, given, kwargs)
    except _Failed as failure:
        ret["result"] = False
        ret["comment"] = str(failure)
    return ret


def _interpreter(name: str) -> str:
    return os.path.join(name, "bin", "python")


def _version(name: str) -> str:
    command = [_interpreter(name), "-V"]
    return str(__salt__["cmd.run_stderr"](command, python_shell=False)).strip("\n")


def _forecast(ret: dict[str, Any], exists: bool, clear: bool) -> dict[str, Any]:
    name = ret["name"]
    if exists and not clear:
        ret["comment"] = f"Virtualenv {name} is already created"
        return ret
    ret["result"] = None
    ret["comment"] = f"Virtualenv {name} is set to be {'cleared' if exists else 'created'}"
    return ret


def _create(ret: dict[str, Any], given: dict[str, Any], kwargs: dict[str, Any]) -> None:
    """Make the environment, or make it again."""
    try:
        did = __salt__["virtualenv.create"](ret["name"], **picked(given, _CREATED), **kwargs)
    except CommandNotFoundError as error:
        raise _Failed(f"Failed to create virtualenv: {error}") from error
    if did["retcode"] != 0:
        raise _Failed(did["stdout"] + did["stderr"])
    ret["changes"]["new"] = _version(ret["name"])
    ret["comment"] = "Cleared existing virtualenv" if given["clear"] else "Created new virtualenv"


def _fill(ret: dict[str, Any], given: dict[str, Any], kwargs: dict[str, Any]) -> None:
    """Install the packages."""
    name, requirements, cwd = ret["name"], given["requirements"], given["cwd"]
    try:
        before = set(
            __salt__["pip.freeze"](bin_env=name, user=given["user"], use_vt=given["use_vt"])
        )
    except CommandExecutionError as error:
        raise _Failed(error.strerror) from error
    if requirements:
        if not isinstance(requirements, (str, list)):
            raise TypeError("pip requirements must be either a string or a list")
        first = requirements.split(",")[0] if isinstance(requirements, str) else requirements[0]
        if first != os.path.abspath(first):
            cwd = os.path.dirname(os.path.abspath(first))
    did = __salt__["pip.install"](
        pkgs=given["pip_pkgs"],
        bin_env=name,
        cwd=cwd,
        **picked(given, _INSTALLED),
        **{word: given[f"pip_{word}"] for word in _OF_PIP},
        **kwargs,
    )
    ret["result"] = did["retcode"] == 0
    if did["retcode"] > 0:
        ret["comment"] = f"{ret['comment']}\n{did['stdout']}\n{did['stderr']}"
    after = set(__salt__["pip.freeze"](bin_env=name))
    new, old = sorted(after - before), sorted(before - after)
    if new or old:
        ret["changes"]["packages"] = {"new": new or "", "old": old or ""}
