"""
Files by the programs of the system, as functions of C{file}.
"""

from __future__ import annotations

import glob
import os
import shlex
from typing import Any

from saltwisted.modules import _file_perms, _file_work, _files
from saltwisted.modules._file_around import SecurityContext
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

__salt__: Any


def chattr(*files: str, **kwargs: Any) -> bool:
    """
    Add or remove attributes of files; answers whether that went.

    operator
        C{add} or C{remove}.
    attributes
        Letters of C{aAcCdDeijPsStTu}.
    flags, version
        Further arguments for the program C{chattr}: C{R}, C{V}, C{f}; a version number.

    CLI Example::

        salt '*' file.chattr foo1.txt foo2.txt operator=add attributes=ai
        salt '*' file.chattr foo3.txt operator=remove attributes=i version=2
    """
    operator = kwargs.pop("operator", None)
    attributes = kwargs.pop("attributes", None)
    flags = kwargs.pop("flags", None)
    version = kwargs.pop("version", None)
    if operator not in ("add", "remove"):
        raise SaltInvocationError("Need an operator: 'add' or 'remove' to modify attributes.")
    if attributes is None:
        raise SaltInvocationError("Need attributes: [aAcCdDeijPsStTu]")
    if flags is not None or version is not None:
        words = ["chattr", f"{'+' if operator == 'add' else '-'}{attributes}"]
        if flags is not None:
            words.append(f"-{flags}")
        if version is not None:
            words += ["-v", str(version)]
        return not __salt__["cmd.run"]([*words, *files], python_shell=False)
    return _file_work.change_attrs(files, operator, str(attributes))


def grep(path: str, pattern: str, *opts: Any) -> dict[str, Any]:
    """
    Run C{grep} on a file or a glob; options one by one after the pattern.

    CLI Example::

        salt '*' file.grep /etc/passwd nobody
        salt '*' file.grep /etc/sysconfig/network-scripts/ifcfg-eth0 ipaddr -- -i
    """
    path = _files.expanded(path)
    words: list[str] = []
    for option in opts:
        split = shlex.split(str(option))
        if len(split) > 1:
            raise SaltInvocationError(
                "Passing multiple command line arguments in a single string is not "
                f"supported, please pass the following arguments separately: {option}"
            )
        words += split
    answer: dict[str, Any] = __salt__["cmd.run_all"](
        ["grep", *words, pattern, *(glob.glob(path) or [path])], python_shell=False
    )
    return answer


def sed(
    path: str,
    before: Any,
    after: Any,
    limit: str = "",
    backup: str = ".bak",
    options: str = "-r -e",
    flags: str = "g",
    escape_all: bool = False,
    negate_match: bool = False,
) -> Any:
    """
    Replace text with the program C{sed}; C{file.replace} is the better way.

    CLI Example::

        salt '*' file.sed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'
    """
    path = _files.expanded(path)
    if not os.path.exists(path):
        return False
    before = _file_work.sed_text(str(before), escape_all)
    after = _file_work.sed_text(str(after), escape_all)
    limit = _file_work.sed_text(limit, escape_all)
    words = ["sed", f"-i{backup}" if backup else "-i", *shlex.split(options)]
    words.append(
        (f"/{limit}/ " if limit else "")
        + ("!" if negate_match else "")
        + f"s/{before}/{after}/{flags}"
    )
    return __salt__["cmd.run_all"]([*words, path], python_shell=False)


def sed_contains(path: str, text: Any, limit: str = "", flags: str = "g") -> bool:
    """
    Whether C{sed} finds a text in a file; C{file.search} is the better way.

    CLI Example::

        salt '*' file.contains /etc/crontab 'mymaintenance.sh'
    """
    path = _files.expanded(path)
    if not os.path.exists(path):
        return False
    before = _file_work.sed_text(str(text))
    limit = _file_work.sed_text(str(limit))
    expression = (f"/{limit}/ " if limit else "") + f"s/{before}/$/p{flags}"
    return bool(
        __salt__["cmd.run"](["sed", "-n", "-r", "-e", expression, path], python_shell=False)
    )


def patch(originalfile: str, patchfile: str, options: str = "", dry_run: bool = False) -> Any:
    """
    Apply a patch to a file or directory with the program C{patch}.

    CLI Example::

        salt '*' file.patch /opt/file.txt /tmp/file.txt.patch
    """
    program = systools.which("patch")
    if not program:
        raise CommandExecutionError(
            "patch executable not found. Is the distribution's patch package installed?"
        )
    words = [program, *shlex.split(options)]
    if dry_run:
        words.append("--dry-run")
    # Neither ask questions nor leave reject files about.
    if "-N" not in words and "--forward" not in words:
        words.append("--forward")
    if not any(word == "-r" or word.startswith(("-r ", "--reject-file")) for word in words):
        words.append("--reject-file=-")
    words += ["-i", patchfile]
    if os.path.isdir(originalfile):
        words += ["-d", originalfile]
        if not any(word.startswith(("-p", "--strip=")) for word in words):
            words.append("--strip=0")
    else:
        words.append(originalfile)
    return __salt__["cmd.run_all"](words, python_shell=False)


def restorecon(path: str, recursive: bool = False) -> bool:
    """
    Reset the SELinux context of a path; answers whether that went.

    CLI Example::

        salt '*' file.restorecon /home/user/.ssh/authorized_keys
    """
    words = ["restorecon", "-FR" if recursive else "-F", path]
    return not __salt__["cmd.retcode"](words, python_shell=False)


def set_selinux_context(
    path: str,
    user: str | None = None,
    role: str | None = None,
    type: str | None = None,
    range: str | None = None,
    persist: bool = False,
) -> Any:
    """
    Set parts of the SELinux context of a path; with C{persist} in the policy too.

    CLI Example::

        salt '*' file.set_selinux_context path <user> <role> <type> <range>
    """
    wanted = SecurityContext(seuser=user, serole=role, setype=type, serange=range)
    return _file_perms.set_selinux(__salt__, path, wanted, persist)
