"""
Python packages by C{pip}, of the system or of a virtual environment.

C{bin_env} in these functions is a virtual environment, a C{pip} or a C{python}; without it the
Python that runs this is meant.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from saltwisted.modules import _files, _pip_words
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, CommandNotFoundError

logger = logging.getLogger(__name__)

__salt__: dict[str, Any]
__opts__: dict[str, Any]
__context__: dict[str, Any]

__func_alias__ = {"list_": "list"}


def __virtual__() -> str:
    return "pip"


def _pip(bin_env: str | None) -> list[str]:
    """
    The start of a command line.

    @raises CommandNotFoundError: there is no pip in C{bin_env}.
    """
    if not bin_env:
        return [os.path.normpath(sys.executable), "-m", "pip"]
    if os.path.isdir(bin_env):
        for name in ("python", "bin/python", "Scripts/python"):
            path = os.path.join(bin_env, name)
            if systools.is_executable(path):
                return [os.path.normpath(path), "-m", "pip"]
        path = _numbered_python(os.path.join(bin_env, "bin"))
        if path:
            return [os.path.normpath(path), "-m", "pip"]
        raise CommandNotFoundError(f"Could not find a pip binary in virtualenv {bin_env}")
    if not os.access(bin_env, os.X_OK):
        raise CommandNotFoundError(f"Access denied to {bin_env}, could not find a pip binary")
    if not os.path.isfile(bin_env):
        raise CommandExecutionError(f"Could not find a pip binary within {bin_env}")
    python = "python" in os.path.basename(bin_env)
    return [os.path.normpath(bin_env), *(("-m", "pip") if python else ())]


def _numbered_python(folder: str) -> str:
    """C{python3}, else C{python3.11} and its like, in this folder; or the empty string."""
    if not os.path.isdir(folder):
        return ""
    names = [name for name in os.listdir(folder) if re.match(r"^python(\d+(\.\d+)?)?$", name)]
    for name in sorted(names, key=lambda item: (item != "python3", item)):
        path = os.path.join(folder, name)
        if systools.is_executable(path):
            return path
    return ""


def _proxy(proxy: Any) -> list[str]:
    if proxy:
        return ["--proxy", proxy]
    host, port = __opts__.get("proxy_host"), __opts__.get("proxy_port")
    if proxy is False or not host or not port:
        return []
    user, password = __opts__.get("proxy_username"), __opts__.get("proxy_password")
    account = f"{user}:{password}@" if user and password else ""
    return ["--proxy", f"http://{account}{host}:{port}"]


# --- files of requirements


def _cached(requirement: str, saltenv: str) -> Any:
    path, env = _files.parse_url(requirement)
    saltenv = env or saltenv
    if path not in __salt__["cp.list_master"](saltenv):
        return False
    cached = __salt__["cp.is_cached"](requirement, saltenv)
    if not cached:
        return __salt__["cp.cache_file"](requirement, saltenv)
    same = __salt__["cp.hash_file"](requirement, saltenv) == __salt__["cp.hash_file"](
        cached, saltenv
    )
    return cached if same else __salt__["cp.cache_file"](requirement, saltenv)


class _Requirements:
    """
    The C{--requirement} options, and copies of the files that another user may read.

    @ivar error: a result that tells which file is missing, or C{None}.
    """

    def __init__(self, wanted: Any, cwd: str | None, saltenv: str, user: str | None) -> None:
        self.words: list[str] = []
        self.error: dict[str, Any] | None = None
        self._folder = ""
        if wanted is None:
            return
        if isinstance(wanted, str):
            wanted = _pip_words.split(wanted)
        elif not isinstance(wanted, list):
            raise TypeError("requirements must be a string or list")
        for requirement in wanted:
            path = requirement
            if requirement.startswith("salt://"):
                path = _cached(requirement, saltenv)
                if not path:
                    comment = f"pip requirements file '{requirement}' not found"
                    self.error = {"result": False, "comment": comment}
                    return
            if user:
                path = self._hand_over(path, cwd, user)
            self.words += ["--requirement", path]

    def _hand_over(self, path: str, cwd: str | None, user: str) -> str:
        if not self._folder:
            self._folder = tempfile.mkdtemp()
            __salt__["file.chown"](self._folder, user, None)
        folder = cwd
        if folder is None:
            folder, path = os.path.split(os.path.abspath(path))
        for name in _pip_words.chain(path, folder):
            target = os.path.join(self._folder, os.path.basename(name))
            if not os.path.exists(target):
                __salt__["file.copy"](os.path.join(folder, name), target)
            __salt__["file.chown"](target, user, None)
        return os.path.join(self._folder, path)

    def clean_up(self) -> None:
        """Remove the copies."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


# --- functions


def normalize(name: str) -> str:
    """
    A package name in the spelling of PEP 503.

    CLI Example::

        salt '*' pip.normalize Zope.Interface
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def install(
    pkgs: Any = None,
    requirements: Any = None,
    bin_env: str | None = None,
    use_wheel: bool = False,
    no_use_wheel: bool = False,
    log: str | None = None,
    proxy: Any = None,
    timeout: Any = None,
    editable: Any = None,
    find_links: Any = None,
    index_url: str | None = None,
    extra_index_url: str | None = None,
    no_index: bool = False,
    mirrors: Any = None,
    build: str | None = None,
    target: str | None = None,
    download: str | None = None,
    download_cache: str | None = None,
    source: str | None = None,
    upgrade: bool = False,
    force_reinstall: bool = False,
    ignore_installed: bool = False,
    exists_action: str | None = None,
    no_deps: bool = False,
    no_install: bool = False,
    no_download: bool = False,
    global_options: Any = None,
    install_options: Any = None,
    user: str | None = None,
    cwd: str | None = None,
    pre_releases: bool = False,
    cert: str | None = None,
    allow_all_external: bool = False,
    allow_external: Any = None,
    allow_unverified: Any = None,
    process_dependency_links: bool = False,
    saltenv: str = "base",
    env_vars: Any = None,
    use_vt: bool = False,
    trusted_host: str | None = None,
    no_cache_dir: bool = False,
    extra_args: Any = None,
    cache_dir: str | None = None,
    no_binary: Any = None,
    disable_version_check: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Install packages; gives what C{cmd.run_all} gives.

    @param pkgs: a list, or text with commas; a C{;} stands for a comma in a version.
    @param requirements: files of requirements, here or on the master.
    @param user: as whom.
    @param extra_args: further words, or maps of an option to its value.

    CLI Example::

        salt '*' pip.install <package name>,<package2 name>
        salt '*' pip.install requirements=/path/to/requirements.txt
        salt '*' pip.install <package name> bin_env=/path/to/virtualenv
    """
    given = dict(locals())
    return _install(given, kwargs)


def _install(given: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """
    C{pip.install}.

    @param given: its arguments by their names.
    @param kwargs: the further ones.
    """
    bin_env, cwd, user, saltenv = (given[key] for key in ("bin_env", "cwd", "user", "saltenv"))
    command: list[Any] = [*_pip(bin_env), "install"]
    wanted = _Requirements(given["requirements"], cwd, saltenv, user)
    if wanted.error:
        return wanted.error
    command += wanted.words
    now = version(bin_env, cwd, user=user)
    command += _pip_words.wheel_options(
        now, given["use_wheel"], given["no_use_wheel"], given["no_binary"]
    )
    command += _pip_words.log_option(given["log"])
    command += _proxy(given["proxy"])
    command += _pip_words.timeout(given["timeout"])
    command += _pip_words.install_options(now, given)
    if given["pkgs"]:
        command += _pip_words.packages(given["pkgs"])
    elif not given["requirements"] and not given["editable"]:
        return {"retcode": 0, "stdout": "No packages to install."}
    command += _pip_words.last_options(given)
    use_vt = given["use_vt"]
    params: dict[str, Any] = {"saltenv": saltenv, "use_vt": use_vt, "runas": user, **kwargs}
    params.update(_pip_words.env(bin_env, given["env_vars"], params.get("env")))
    if cwd:
        params["cwd"] = cwd
    try:
        return dict(__salt__["cmd.run_all"](command, python_shell=False, **params))
    finally:
        __context__.pop(_pip_words.key(bin_env), None)
        wanted.clean_up()


def uninstall(
    pkgs: Any = None,
    requirements: Any = None,
    bin_env: str | None = None,
    log: str | None = None,
    proxy: Any = None,
    timeout: Any = None,
    user: str | None = None,
    cwd: str | None = None,
    saltenv: str = "base",
    use_vt: bool = False,
    extra_args: Any = None,
) -> dict[str, Any]:
    """
    Remove packages; gives what C{cmd.run_all} gives.

    CLI Example::

        salt '*' pip.uninstall <package name>,<package2 name>
    """
    command: list[Any] = [*_pip(bin_env), "uninstall", "-y"]
    wanted = _Requirements(requirements, cwd, saltenv, user)
    if wanted.error:
        return wanted.error
    command += wanted.words
    if log:
        command += ["--log", log]
    command += _proxy(proxy)
    command += _pip_words.timeout(timeout)
    names = _pip_words.split(pkgs or ())
    if names and requirements:
        # What the files name is removed by them.
        for path in _pip_words.split(requirements):
            for line in systools.read_text(path).splitlines():
                name = line.partition("==")[0]
                if "==" in line and name in names:
                    names.remove(name)
    command += names
    command += _pip_words.extra(extra_args)
    try:
        return dict(
            __salt__["cmd.run_all"](
                command,
                python_shell=False,
                runas=user,
                cwd=cwd,
                saltenv=saltenv,
                use_vt=use_vt,
                **_pip_words.env(bin_env, None),
            )
        )
    finally:
        __context__.pop(_pip_words.key(bin_env), None)
        wanted.clean_up()


def _run(
    command: Iterable[str], bin_env: str | None, env_vars: Any, kwargs: dict[str, Any]
) -> dict[str, Any]:
    """
    @raises CommandExecutionError: pip fails.
    """
    given = {**kwargs, **_pip_words.env(bin_env, env_vars, kwargs.get("env"))}
    done: dict[str, Any] = __salt__["cmd.run_all"](list(command), **given)
    if done["retcode"]:
        raise CommandExecutionError(done["stderr"], info=done)
    return done


def _run_json(*args: Any) -> Any:
    done = _run(*args)
    try:
        return json.loads(done["stdout"], strict=False)
    except ValueError as error:
        raise CommandExecutionError("Invalid JSON", info=done) from error


def freeze(
    bin_env: str | None = None,
    user: str | None = None,
    cwd: str | None = None,
    use_vt: bool = False,
    env_vars: Any = None,
    **kwargs: Any,
) -> list[str]:
    """
    Installed packages as lines of a file of requirements.

    CLI Example::

        salt '*' pip.freeze bin_env=/home/code/path/to/virtualenv
    """
    command = [*_pip(bin_env), "freeze"]
    now = version(bin_env, cwd)
    if _pip_words.compare(now, "<", "8.0.3"):
        logger.warning(
            "The version of pip installed is %s, which is older than 8.0.3. The packages pip,"
            " wheel, setuptools, and distribute will not be included in the output of pip.freeze",
            now,
        )
    else:
        command.append("--all")
    command.append("--disable-pip-version-check")
    params = {"runas": user, "cwd": cwd, "use_vt": use_vt, "python_shell": False, **kwargs}
    return list(_run(command, bin_env, env_vars, params)["stdout"].splitlines())


def list_freeze_parse(
    prefix: str | None = None,
    bin_env: str | None = None,
    user: str | None = None,
    cwd: str | None = None,
    env_vars: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Installed packages with their versions, from C{pip freeze}.

    CLI Example::

        salt '*' pip.list_freeze_parse salt
    """
    found: dict[str, Any] = {}
    prefix = normalize(prefix) if prefix else None
    if prefix is None or "pip".startswith(prefix):
        found["pip"] = version(bin_env, cwd)
    lines = freeze(bin_env=bin_env, user=user, cwd=cwd, env_vars=env_vars, **kwargs)
    for line in lines:
        if line.startswith(("-f", "#", "-e hg+not trust")):
            continue
        if line.startswith("-e"):
            line = line.split("-e ")[1]
            number, egg, name = line.partition("#egg=")
            if egg:
                _pip_words.take(found, prefix, normalize(name), number)
                continue
        for mark in ("===", "=="):
            parts = line.split(mark)
            if len(parts) >= 2:
                _pip_words.take(found, prefix, normalize(parts[0]), parts[1])
                break
        else:
            logger.error("Can't parse line '%s'", line)
    return found


def list_(
    prefix: str | None = None,
    bin_env: str | None = None,
    user: str | None = None,
    cwd: str | None = None,
    env_vars: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Installed packages with their versions; names in the spelling of PEP 503.

    @param prefix: only those whose name begins with it.

    CLI Example::

        salt '*' pip.list salt
    """
    if _pip_words.compare(version(bin_env, cwd, user=user), "<", "9.0"):
        return list_freeze_parse(
            prefix=prefix, bin_env=bin_env, user=user, cwd=cwd, env_vars=env_vars, **kwargs
        )
    command = [*_pip(bin_env), "list", "--format=json", "--disable-pip-version-check"]
    params = {"cwd": cwd, "runas": user, "python_shell": False, **kwargs}
    wanted = normalize(prefix) if prefix else ""
    found = {}
    for item in _run_json(command, bin_env, env_vars, params):
        name = normalize(item["name"])
        if name.startswith(wanted):
            found[name] = item["version"]
    return found


def version(
    bin_env: str | None = None, cwd: str | None = None, user: str | None = None
) -> str | None:
    """
    The version of pip.

    @raises CommandNotFoundError: there is none.

    CLI Example::

        salt '*' pip.version
    """
    key = _pip_words.key(bin_env)
    if key not in __context__:
        done = __salt__["cmd.run_all"](
            [*_pip(bin_env), "--version"], cwd=cwd, runas=user, python_shell=False
        )
        if done["retcode"]:
            raise CommandNotFoundError("Could not find a `pip` binary")
        match = re.match(r"^pip (\S+)", done["stdout"])
        __context__[key] = match.group(1) if match else None
    found: str | None = __context__[key]
    return found


def list_upgrades(
    bin_env: str | None = None, user: str | None = None, cwd: str | None = None
) -> dict[str, str]:
    """
    Packages that can be upgraded: to which version, and as what kind of file.

    CLI Example::

        salt '*' pip.list_upgrades
    """
    command = [*_pip(bin_env), "list", "--outdated", "--disable-pip-version-check"]
    now = version(bin_env, cwd, user=user)
    params = {"cwd": cwd, "runas": user}
    if _pip_words.compare(now, ">=", "9.0"):
        rows = _run_json([*command, "--format=json"], bin_env, None, params)
        return {row["name"]: f"{row['latest_version']} [{row['latest_filetype']}]" for row in rows}
    old = r"(\S*)\s+\(.*Latest:\s+(.*)\)"
    pattern = (
        old if _pip_words.compare(now, "<", "8.0.0") else r"(\S*)\s+\(.*\)\s+-\s+Latest:\s+(.*)"
    )
    return dict(re.findall(pattern, _run(command, bin_env, None, params)["stdout"]))


def is_installed(
    pkgname: str,
    bin_env: str | None = None,
    user: str | None = None,
    cwd: str | None = None,
) -> bool:
    """
    Whether a package is installed.

    CLI Example::

        salt '*' pip.is_installed salt
    """
    found = list_(prefix=pkgname, bin_env=bin_env, user=user, cwd=cwd)
    return pkgname.lower() in {name.lower() for name in found}


def upgrade_available(
    pkg: str, bin_env: str | None = None, user: str | None = None, cwd: str | None = None
) -> bool:
    """
    Whether a package can be upgraded.

    CLI Example::

        salt '*' pip.upgrade_available <package name>
    """
    return pkg in list_upgrades(bin_env=bin_env, user=user, cwd=cwd)


def upgrade(
    bin_env: str | None = None,
    user: str | None = None,
    cwd: str | None = None,
    use_vt: bool = False,
) -> dict[str, Any]:
    """
    Upgrade all packages that can be upgraded; C{changes}, C{result} and C{comment}.

    CLI Example::

        salt '*' pip.upgrade
    """
    found: dict[str, Any] = {"changes": {}, "result": True, "comment": ""}
    command = [*_pip(bin_env), "install", "-U", "--disable-pip-version-check"]
    old = list_(bin_env=bin_env, user=user, cwd=cwd)
    params = {"cwd": cwd, "runas": user, "use_vt": use_vt, **_pip_words.env(bin_env, None)}
    for name in list_upgrades(bin_env=bin_env, user=user, cwd=cwd):
        done = __salt__["cmd.run_all"]([*command, name], **params)
        found["result"] = found["result"] and done["retcode"] == 0
        found["comment"] += done.get("stderr", "")
    __context__.pop(_pip_words.key(bin_env), None)
    found["changes"] = systools.compare_dicts(old, list_(bin_env=bin_env, user=user, cwd=cwd))
    return found


def list_all_versions(
    pkg: str,
    bin_env: str | None = None,
    include_alpha: bool = False,
    include_beta: bool = False,
    include_rc: bool = False,
    user: str | None = None,
    cwd: str | None = None,
    index_url: str | None = None,
    extra_index_url: str | None = None,
) -> list[str] | None:
    """
    All versions that the index has, oldest first; C{None} if there are none.

    CLI Example::

        salt '*' pip.list_all_versions <package name>
    """
    command = [*_pip(bin_env), "--disable-pip-version-check"]
    now = version(bin_env=bin_env, cwd=cwd, user=user)
    if _pip_words.compare(now, ">=", "21.2"):
        pattern = r"\s*Available versions: (.*)"
        command += ["index", "versions", pkg]
    else:
        # An impossible version makes pip name all that there are.
        pattern = r"\s*Could not find a version.* \(from versions: (.*)\)"
        if _pip_words.compare(now, ">=", "20.3"):
            command.append("--use-deprecated=legacy-resolver")
        command += ["install", f"{pkg}==versions"]
    for option, url in (("--index-url", index_url), ("--extra-index-url", extra_index_url)):
        if url:
            _pip_words.check_url(url)
            command += [option, url]
    done = __salt__["cmd.run_all"](
        command,
        cwd=cwd,
        runas=user,
        output_loglevel="quiet",
        redirect_stderr=True,
        **_pip_words.env(bin_env, None),
    )
    unwanted = [
        mark
        for mark, wanted in (("a", include_alpha), ("b", include_beta), ("rc", include_rc))
        if not wanted
    ]
    match = re.search(pattern, done["stdout"])
    if match is None:
        return None
    versions = [
        item
        for item in match.group(1).split(", ")
        if item and not any(mark in item for mark in unwanted)
    ]
    return sorted(versions, key=_pip_words.sort_key) or None
