"""
Virtual environments of Python.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.states.pip_state import wrong_pip
from saltwisted.worker.exceptions import CommandExecutionError, CommandNotFoundError

__salt__: Any
__opts__: Any
__env__: str
__virtualname__ = "virtualenv"


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
    ret: dict[str, Any] = {"name": name, "result": True, "comment": "", "changes": {}}

    def fail(comment: str) -> dict[str, Any]:
        ret["result"] = False
        ret["comment"] = comment
        return ret

    if "virtualenv.create" not in __salt__:
        return fail("Virtualenv was not detected on this system")
    interpreter = os.path.join(name, "bin", "python")
    exists = os.path.exists(interpreter)
    if requirements and requirements.startswith("salt://"):
        cached = _cached(requirements)
        if cached is None:
            return fail(f"pip requirements file '{requirements}' not found")
        requirements = cached

    def version() -> str:
        return str(__salt__["cmd.run_stderr"]([interpreter, "-V"], python_shell=False)).strip("\n")

    if exists and clear:
        ret["changes"]["cleared_packages"] = __salt__["pip.freeze"](bin_env=name)
        ret["changes"]["old"] = version()
    if __opts__["test"]:
        if exists and not clear:
            ret["comment"] = f"Virtualenv {name} is already created"
            return ret
        ret["result"] = None
        ret["comment"] = f"Virtualenv {name} is set to be {'cleared' if exists else 'created'}"
        return ret
    if exists and not clear:
        ret["comment"] = "virtualenv exists"
    else:
        try:
            did = __salt__["virtualenv.create"](
                name,
                venv_bin=venv_bin,
                system_site_packages=system_site_packages,
                distribute=distribute,
                clear=clear,
                python=python,
                extra_search_dir=extra_search_dir,
                never_download=never_download,
                prompt=prompt,
                user=user,
                use_vt=use_vt,
                **kwargs,
            )
        except CommandNotFoundError as error:
            return fail(f"Failed to create virtualenv: {error}")
        if did["retcode"] != 0:
            return fail(did["stdout"] + did["stderr"])
        ret["changes"]["new"] = version()
        ret["comment"] = "Cleared existing virtualenv" if clear else "Created new virtualenv"
    if use_wheel or no_use_wheel or no_binary:
        has = __salt__["pip.version"](bin_env=name)
        wrong = wrong_pip(has, use_wheel, no_use_wheel, no_binary)
        if wrong:
            return fail(wrong)
    if not requirements and not pip_pkgs:
        return ret
    try:
        before = set(__salt__["pip.freeze"](bin_env=name, user=user, use_vt=use_vt))
    except CommandExecutionError as error:
        return fail(error.strerror)
    if requirements:
        if not isinstance(requirements, (str, list)):
            raise TypeError("pip requirements must be either a string or a list")
        first = requirements.split(",")[0] if isinstance(requirements, str) else requirements[0]
        if first != os.path.abspath(first):
            cwd = os.path.dirname(os.path.abspath(first))
    did = __salt__["pip.install"](
        pkgs=pip_pkgs,
        requirements=requirements,
        process_dependency_links=process_dependency_links,
        bin_env=name,
        use_wheel=use_wheel,
        no_use_wheel=no_use_wheel,
        no_binary=no_binary,
        user=user,
        cwd=cwd,
        index_url=index_url,
        extra_index_url=extra_index_url,
        download=pip_download,
        download_cache=pip_download_cache,
        pre_releases=pre_releases,
        exists_action=pip_exists_action,
        ignore_installed=pip_ignore_installed,
        upgrade=pip_upgrade,
        no_deps=no_deps,
        proxy=proxy,
        use_vt=use_vt,
        env_vars=env_vars,
        no_cache_dir=pip_no_cache_dir,
        cache_dir=pip_cache_dir,
        **kwargs,
    )
    ret["result"] = did["retcode"] == 0
    if did["retcode"] > 0:
        ret["comment"] = f"{ret['comment']}\n{did['stdout']}\n{did['stderr']}"
    after = set(__salt__["pip.freeze"](bin_env=name))
    new, old = sorted(after - before), sorted(before - after)
    if new or old:
        ret["changes"]["packages"] = {"new": new or "", "old": old or ""}
    return ret


manage = managed
