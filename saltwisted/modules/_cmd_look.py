"""
Looking for programs, shells and terminals.

A part of the module C{cmd}: it needs nothing of the loader.
"""

from __future__ import annotations

import os
import re
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import (
    CommandExecutionError,
)


def which(cmd: str) -> str | None:
    """
    The path of a program, or nothing.

    CLI Example::

        salt '*' cmd.which cat
    """
    return systools.which(cmd)


def which_bin(cmds: Any) -> str | None:
    """
    The path of the first of these programs that is there.

    CLI Example::

        salt '*' cmd.which_bin '[pip2, pip, pip-python]'
    """
    return systools.which_bin([cmds] if isinstance(cmds, str) else cmds)


def has_exec(cmd: str) -> bool:
    """
    Whether a program is there.

    CLI Example::

        salt '*' cmd.has_exec cat
    """
    return which(cmd) is not None


def tty(device: str, echo: Any = "") -> dict[str, str]:
    """
    Write a text to a terminal: C{tty0}, C{pts3}.

    CLI Example::

        salt '*' cmd.tty tty0 'This is a test'
    """
    if re.fullmatch(r"tty\w*", device):
        path = f"/dev/{device}"
    elif re.fullmatch(r"pts/?\d+", device):
        path = "/dev/pts/" + device.removeprefix("pts").lstrip("/")
    else:
        return {"Error": "The specified device is not a valid TTY"}
    try:
        # Never create a plain file under /dev.
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY)
        try:
            os.write(descriptor, str(echo).encode())
        finally:
            os.close(descriptor)
    except OSError:
        return {"Error": f"Echoing to {path} returned error"}
    return {"Success": f"Message was successfully echoed to {path}"}


def shells() -> list[str]:
    """
    The login shells that C{/etc/shells} names.

    CLI Example::

        salt '*' cmd.shells
    """
    lines = (line.strip() for line in systools.read_text("/etc/shells").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def shell_info(shell: str, list_modules: bool = False) -> dict[str, Any]:
    """
    Whether a shell or script language is here, where, and in which version.

    CLI Example::

        salt '*' cmd.shell_info bash
    """
    from saltwisted.modules import _shells  # few commands need it

    return _shells.info(shell)


def powershell(cmd: Any, *args: Any, shell: str = "powershell", **kwargs: Any) -> Any:
    """
    Not available: this minion runs on Linux.

    CLI Example::

        salt '*' cmd.powershell '$PSVersionTable.CLRVersion'
    """
    raise CommandExecutionError(f"The shell {shell} is not available")


def powershell_all(cmd: Any, *args: Any, shell: str = "powershell", **kwargs: Any) -> Any:
    """
    Not available: this minion runs on Linux.

    CLI Example::

        salt '*' cmd.powershell_all '$PSVersionTable.CLRVersion'
    """
    raise CommandExecutionError(f"The shell {shell} is not available")
