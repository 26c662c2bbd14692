"""
Virtual environments of Python (virtual module C{virtualenv}), by C{virtualenv} or C{venv}.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from typing import Any

from saltwisted.modules import _files
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__opts__: dict[str, Any]
__pillar__: dict[str, Any]

__virtualname__ = "virtualenv"

_NAMES = (
    f"virtualenv-{sys.version_info[0]}.{sys.version_info[1]}",
    f"virtualenv{sys.version_info[0]}",
    "virtualenv",
)


_PYTHON = re.compile(r"(python|pypy)[0-9.]*(\.exe)?", re.IGNORECASE)
"""Names of interpreters, which make an environment by C{-m venv}."""


def __virtual__() -> str:
    return __virtualname__


def virtualenv_ver(venv_bin: str, user: str | None = None, **kwargs: Any) -> tuple[int, ...]:
    """
    The version of a C{virtualenv} program, as numbers.

    CLI Example::

        salt '*' virtualenv.virtualenv_ver virtualenv
    """
    command = [venv_bin, "--version"]
    done = __salt__["cmd.run_all"](
        command, runas=user, python_shell=False, redirect_stderr=True, **kwargs
    )
    if done["retcode"] > 0 or not done["stdout"].strip():
        raise CommandExecutionError(
            f"Unable to get the virtualenv version output using '{command}'. Returned data: {done}"
        )
    words = [word for word in done["stdout"].split() if re.search(r"^\d.\d*", word)]
    text = re.sub(r"(rc|\+ds).*$", "", "".join(words))
    return tuple(int(part) for part in text.split("."))


def _unsupported(name: str, option: str, program: str) -> CommandExecutionError:
    return CommandExecutionError(f"The `{name}`(`{option}`) option is not supported by '{program}'")


def create(
    path: str,
    venv_bin: str | None = None,
    system_site_packages: bool = False,
    distribute: bool = False,
    clear: bool = False,
    python: str | None = None,
    extra_search_dir: Any = None,
    never_download: bool | None = None,
    prompt: str | None = None,
    pip: bool = False,
    symlinks: bool | None = None,
    upgrade: bool | None = None,
    user: str | None = None,
    use_vt: bool = False,
    saltenv: str = "base",
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Make a virtual environment; gives what C{cmd.run_all} gives.

    @param venv_bin: C{virtualenv}, its path, C{venv}, or a Python that makes it by C{-m venv};
        by default what is there.
    @param python: the interpreter that the environment is for; with C{venv} the one that makes it.
    @param pip: see to it that there is a C{pip} in it.
    @param user: as whom.

    CLI Example::

        salt '*' virtualenv.create /path/to/new/virtualenv
    """
    if venv_bin is None:
        configured = __pillar__.get("venv_bin") or __opts__.get("venv_bin")
        venv_bin = str(configured or systools.which_bin(_NAMES) or "venv")
    command = _program(venv_bin, python)
    if len(command) > 1:
        # It has made its choice of the interpreter
        python = None
    named = {
        "python": python,
        "extra_search_dir": extra_search_dir,
        "never_download": never_download,
        "prompt": prompt,
    }
    if len(command) > 1 or "venv" in venv_bin:
        _refuse({**named, "prompt": None}, venv_bin)
        if upgrade is True:
            command.append("--upgrade")
        if symlinks is True:
            command.append("--symlinks")
        if prompt is not None and prompt.strip():
            command += ["--prompt", prompt]
    else:
        if upgrade is not None:
            raise _unsupported("upgrade", "--upgrade", venv_bin)
        if symlinks is not None:
            raise _unsupported("symlinks", "--symlinks", venv_bin)
        number = virtualenv_ver(venv_bin, user=user, **kwargs)
        command += _virtualenv_options(number, distribute, named)
    if clear is True:
        command.append("--clear")
    if system_site_packages is True:
        command.append("--system-site-packages")
    was_there = os.path.lexists(path)
    done: dict[str, Any] = __salt__["cmd.run_all"](
        [*command, path], runas=user, python_shell=False, **kwargs
    )
    if done["retcode"] != 0 and not was_there:
        # With half of it there, a later run would find an environment
        shutil.rmtree(path, ignore_errors=True)
    if done["retcode"] != 0 or not pip or os.path.exists(os.path.join(path, "bin", "pip")):
        return done
    more = _bootstrap_pip(path, user, saltenv, use_vt)
    done.update(
        retcode=more["retcode"],
        stdout=f"{done['stdout']}\n{more['stdout']}".strip(),
        stderr=f"{done['stderr']}\n{more['stderr']}".strip(),
    )
    return done


def _program(venv_bin: str, python: str | None) -> list[str]:
    """
    The start of the command.

    @raises CommandExecutionError: the interpreter is not there, or there are two.
    """
    chosen = bool(python and python.strip())
    interpreter = sys.executable
    if venv_bin == "venv" and not chosen:
        return [interpreter, "-m", "venv"]
    if venv_bin == "venv":
        interpreter = str(python)
    elif not _PYTHON.fullmatch(os.path.basename(venv_bin)):
        return [venv_bin]
    elif chosen:
        raise CommandExecutionError(
            "Pass the target interpreter either as `venv_bin` or as `python`, not both."
        )
    else:
        interpreter = venv_bin
    if not systools.which(interpreter):
        raise CommandExecutionError(f"Cannot find requested python ({interpreter}).")
    return [interpreter, "-m", "venv"]


def _refuse(named: dict[str, Any], program: str) -> None:
    """C{venv} has fewer options."""
    for name, value in named.items():
        given = value is not None and (not isinstance(value, str) or value.strip() != "")
        if given:
            raise _unsupported(name, f"--{name.replace('_', '-')}", program)


def _virtualenv_options(
    number: tuple[int, ...], distribute: bool, named: dict[str, Any]
) -> list[str]:
    words: list[str] = []
    if distribute:
        if number >= (1, 10):
            log.info("virtualenv 1.10 and newer does not need '--distribute'")
        else:
            words.append("--distribute")
    python = named["python"]
    if python is not None and python.strip():
        if not systools.which(python):
            raise CommandExecutionError(f"Cannot find requested python ({python}).")
        words.append(f"--python={python}")
    folders = named["extra_search_dir"]
    if isinstance(folders, str):
        folders = [part.strip() for part in folders.split(",") if part.strip()]
    words += [f"--extra-search-dir={folder}" for folder in folders or ()]
    never_download = named["never_download"]
    if never_download is True:
        if (1, 10) <= number < (14, 0, 0):
            log.info("virtualenv supports '--never-download' only before 1.10 and from 14.0.0")
        else:
            words.append("--never-download")
    elif never_download is False and number >= (20, 0):
        words.append("--download")
    prompt = named["prompt"]
    if prompt is not None and prompt.strip():
        words.append(f"--prompt='{prompt}'")
    return words


def _bootstrap_pip(path: str, user: str | None, saltenv: str, use_vt: bool) -> dict[str, Any]:
    cached = __salt__["cp.cache_file"]("https://bootstrap.pypa.io/get-pip.py", saltenv)
    script = _files.mkstemp(dir=path)
    try:
        shutil.copyfile(cached, script)
        os.chmod(script, 0o500)
        if user:
            os.chown(script, __salt__["file.user_to_uid"](user), -1)
        return dict(
            __salt__["cmd.run_all"](
                [os.path.join(path, "bin", "python"), script],
                runas=user,
                cwd=path,
                env={"VIRTUAL_ENV": path},
                use_vt=use_vt,
                python_shell=False,
            )
        )
    finally:
        _files.safe_remove(script)


def _python_of(venv: str) -> str:
    path = os.path.join(venv, "bin", "python")
    if not os.path.exists(path):
        raise CommandExecutionError(
            f"Path '{venv}' does not appear to be a virtualenv: '{path}' not found."
        )
    return path


_UNSAFE = ("import", ";", "subprocess", "eval", "open", "file", "exec", "input")


def _check_word(*words: Any) -> None:
    """
    @raises SaltInvocationError: a name that could be a program.
    """
    for word in words:
        if any(bad in str(word) for bad in _UNSAFE):
            raise SaltInvocationError(f"Unsafe python code detected in '{word}'")


def _ask(venv: str, code: str) -> str:
    done = __salt__["cmd.exec_code_all"](_python_of(venv), code)
    if done["retcode"] != 0:
        raise CommandExecutionError(f"{done['stdout']}\n{done['stderr']}")
    return str(done["stdout"])


def get_site_packages(venv: str) -> str:
    """
    Where packages of an environment are.

    CLI Example::

        salt '*' virtualenv.get_site_packages /path/to/my/venv
    """
    return _ask(venv, 'import sysconfig; print(sysconfig.get_path("purelib"))')


def get_distribution_path(venv: str, distribution: str) -> str:
    """
    Where a package of an environment is.

    CLI Example::

        salt '*' virtualenv.get_distribution_path /path/to/my/venv my_distribution
    """
    _check_word(distribution)
    return _ask(
        venv,
        "import importlib.metadata, os\n"
        f"found = importlib.metadata.distribution({distribution!r})\n"
        'print(os.path.abspath(str(found.locate_file(""))))\n',
    )


def get_resource_path(venv: str, package: str | None = None, resource: str | None = None) -> str:
    """
    Where a file of a package of an environment is.

    CLI Example::

        salt '*' virtualenv.get_resource_path /path/to/my/venv my_package my/resource.xml
    """
    _check_word(package, resource)
    return _ask(
        venv,
        f"import pkg_resources; print(pkg_resources.resource_filename({package!r}, {resource!r}))",
    )


def get_resource_content(venv: str, package: str | None = None, resource: str | None = None) -> str:
    """
    What is in a file of a package of an environment.

    CLI Example::

        salt '*' virtualenv.get_resource_content /path/to/my/venv my_package my/resource.xml
    """
    _check_word(package, resource)
    return _ask(
        venv,
        f"import pkg_resources; print(pkg_resources.resource_string({package!r}, {resource!r}))",
    )
