"""
Which of several programs goes by a general name: C{update-alternatives}.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from saltwisted.worker import systools

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]

__func_alias__ = {"set_": "set"}
__outputter__ = {"display": "txt", "install": "txt", "remove": "txt"}

_LINKS = "/etc/alternatives"


def __virtual__() -> Any:
    if os.path.isdir(_LINKS):
        return True
    return (False, "Cannot load alternatives module: /etc/alternatives dir not found")


def _run(*words: str, **kwargs: Any) -> dict[str, Any]:
    redhat = __grains__["os_family"] == "RedHat"
    command = ["alternatives" if redhat else "update-alternatives", *words]
    return dict(__salt__["cmd.run_all"](command, python_shell=False, **kwargs))


def _failed(done: dict[str, Any]) -> bool:
    return bool(done["retcode"] > 0 and done["stderr"] != "")


def display(name: str) -> str:
    """
    All that is known of a name.

    CLI Example::

        salt '*' alternatives.display editor
    """
    done = _run("--display", name, ignore_retcode=True)
    return str(done["stderr"] if _failed(done) else done["stdout"])


def show_link(name: str) -> Any:
    """
    The link that users call; false if there is none.

    CLI Example::

        salt '*' alternatives.show_link editor
    """
    family = __grains__["os_family"]
    if family in ("RedHat", "Suse"):
        folder = "/var/lib/alternatives" if family == "RedHat" else "/var/lib/rpm/alternatives"
        lines = systools.read_text(os.path.join(folder, name)).splitlines()
        if len(lines) > 1:
            return lines[1]
        log.error("alternatives: unable to get master link for %s", name)
        return False
    done = _run("--query", name, ignore_retcode=True)
    if not _failed(done):
        for line in done["stdout"].split("\n\n", 1)[0].split("\n"):
            if line.startswith("Link:"):
                return line.partition(":")[2].strip()
    return False


def show_current(name: str) -> Any:
    """
    What a name stands for now; false if there is none.

    CLI Example::

        salt '*' alternatives.show_current editor
    """
    try:
        return os.readlink(os.path.join(_LINKS, name))
    except OSError:
        log.error("alternative: %s does not exist", name)
        return False


def check_exists(name: str, path: str) -> bool:
    """
    Whether a program is among those that a name may stand for.

    CLI Example::

        salt '*' alternatives.check_exists name path
    """
    done = _run("--display", name, ignore_retcode=True)
    return not _failed(done) and any(line.startswith(path) for line in done["stdout"].splitlines())


def check_installed(name: str, path: str) -> bool:
    """
    Whether a name stands for a program now.

    CLI Example::

        salt '*' alternatives.check_installed name path
    """
    try:
        return os.readlink(os.path.join(_LINKS, name)) == path
    except OSError:
        return False


def install(name: str, link: str, path: str, priority: Any) -> str:
    """
    Let a name stand for a program too; gives what the command said.

    CLI Example::

        salt '*' alternatives.install editor /usr/bin/editor /usr/bin/emacs23 50
    """
    done = _run("--install", link, name, path, str(priority))
    return str(done["stderr"] if _failed(done) else done["stdout"])


def _told(*words: str) -> str:
    done = _run(*words)
    return str(done["stderr"] if done["retcode"] > 0 else done["stdout"])


def remove(name: str, path: str) -> str:
    """
    Let a name not stand for a program any more; gives what the command said.

    CLI Example::

        salt '*' alternatives.remove name path
    """
    return _told("--remove", name, path)


def auto(name: str) -> str:
    """
    Let the priorities decide; gives what the command said.

    CLI Example::

        salt '*' alternatives.auto name
    """
    return _told("--auto", name)


def set_(name: str, path: str) -> str:
    """
    Let a name stand for this program; gives what the command said.

    CLI Example::

        salt '*' alternatives.set name path
    """
    return _told("--set", name, path)
