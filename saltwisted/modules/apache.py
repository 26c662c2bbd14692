"""
The web server Apache.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import SaltException

__salt__: dict[str, Any]
__grains__: dict[str, Any]

_SIGNALS = ("start", "stop", "restart", "graceful", "graceful-stop")
_QUESTIONS = ("configtest", "status", "fullstatus")


def __virtual__() -> Any:
    if systools.which(_program()):
        return "apache"
    return False, "The apache execution module cannot be loaded: apache is not installed."


def _program() -> str:
    return "apache2ctl" if __grains__["os_family"] in ("Debian", "Suse") else "apachectl"


def _said(option: str) -> str:
    return str(__salt__["cmd.run"]([_program(), option], python_shell=False))


def version() -> str:
    """
    The version of the server.

    CLI Example::

        salt '*' apache.version
    """
    return _said("-v").splitlines()[0].split(": ")[1]


def fullversion() -> dict[str, Any]:
    """
    The version of the server, and what it was compiled with.

    CLI Example::

        salt '*' apache.fullversion
    """
    found: dict[str, Any] = {"compiled_with": []}
    for line in _said("-V").splitlines():
        if ": " in line:
            key, value = line.split(": ")[:2]
            found[key.strip().lower().replace(" ", "_")] = value.strip()
        elif " -D" in line:
            found["compiled_with"].append(re.sub(r"^\s+-D\s+", "", line))
    return found


def modules() -> dict[str, list[str]]:
    """
    The modules that the server was built with, and those that are loaded.

    CLI Example::

        salt '*' apache.modules
    """
    found: dict[str, list[str]] = {"static": [], "shared": []}
    for line in _said("-M").splitlines():
        for kind, names in found.items():
            if f"({kind})" in line:
                names.append(line.split()[0])
    return found


def servermods() -> list[str]:
    """
    The modules that the server was built with.

    CLI Example::

        salt '*' apache.servermods
    """
    return [line.strip() for line in _said("-l").splitlines() if ".c" in line]


def directives() -> dict[str, str]:
    """
    The directives of the server, and where they may stand.

    CLI Example::

        salt '*' apache.directives
    """
    lines = [line for line in _said("-L").replace("\n\t", "\t").splitlines() if line]
    return {name: "\n".join(rest) for name, *rest in (line.split("\t") for line in lines)}


def vhosts() -> dict[str, Any]:
    """
    The virtual hosts, and the files that they are from.

    CLI Example::

        salt '*' apache.vhosts
    """
    found: dict[str, Any] = {}
    place = ""
    for line in _said("-S").splitlines():
        words = line.split()
        if not words:
            continue
        if "is a NameVirtualHost" in line:
            place = words[0]
            found[place] = {}
        elif words[0] == "default":
            found[place]["default"] = {"vhost": words[2], "conf": re.sub(r"[()]", "", words[3])}
        elif words[0] == "port":
            conf = re.sub(r"[()]", "", words[4])
            found[place][words[3]] = {"vhost": words[3], "conf": conf, "port": words[1]}
    return found


def signal(signal: str | None = None) -> str | None:
    """
    Start, stop, restart or ask the server.

    CLI Example::

        salt '*' apache.signal restart
    """
    if signal not in _SIGNALS + _QUESTIONS:
        return None
    cmd: list[str] = [_program(), *(["-k"] if signal in _SIGNALS else []), str(signal)]
    done = __salt__["cmd.run_all"](cmd, python_shell=False)
    # configtest says that all is well on standard error.
    said = done["stderr"] or done["stdout"]
    return said.strip() if said else f'Command: "{" ".join(cmd)}" completed successfully!'


def useradd(pwfile: str, user: str, password: str, opts: str = "") -> Any:
    """
    Add a user to a file of passwords, by C{webutil}.

    CLI Example::

        salt '*' apache.useradd /etc/httpd/htpasswd larry badpassword
    """
    return __salt__["webutil.useradd"](pwfile, user, password, opts)


def userdel(pwfile: str, user: str) -> Any:
    """
    Remove a user from a file of passwords, by C{webutil}.

    CLI Example::

        salt '*' apache.userdel /etc/httpd/htpasswd larry
    """
    return __salt__["webutil.userdel"](pwfile, user)


def _opener(url: str, setting: Any) -> urllib.request.OpenerDirector:
    user, password = setting("user", ""), setting("pass", "")
    if not user or not password:
        return urllib.request.build_opener()
    passwords = urllib.request.HTTPPasswordMgr()
    passwords.add_password(setting("realm", ""), url, user, password)
    return urllib.request.build_opener(
        urllib.request.HTTPBasicAuthHandler(passwords),
        urllib.request.HTTPDigestAuthHandler(passwords),
    )


def server_status(profile: str = "default") -> Any:
    """
    What the server says about its work; its address is C{apache.server-status:PROFILE:url}.

    CLI Example::

        salt '*' apache.server_status other-profile
    """

    def setting(name: str, default: Any) -> Any:
        return __salt__["config.get"](f"apache.server-status:{profile}:{name}", default)

    url = setting("url", "http://localhost/server-status")
    try:
        with _opener(url, setting).open(f"{url}?auto", timeout=setting("timeout", 5)) as answer:
            lines = answer.read().decode("utf-8", "replace").splitlines()
    except urllib.error.URLError:
        return "error"
    found: dict[str, Any] = {"Scoreboard": dict.fromkeys("_SRWKDCLGI.", 0)}
    for line in lines:
        key, _colon, value = (part.strip() for part in line.partition(":"))
        if key == "Scoreboard":
            for letter in value:
                found["Scoreboard"][letter] += 1
        elif value:
            found[key] = _number(value)
    return found


def _number(text: str) -> Any:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text


def _lines(conf: Any, slot: Any = None) -> Iterator[str]:
    """The text of a piece of configuration, in pieces."""
    if isinstance(conf, str):
        yield f"{slot} {conf}" if slot else conf
    elif isinstance(conf, list):
        this = [str(item["this"]) for item in conf if "this" in item]
        if not this:
            for item in conf:
                yield f"{_text(item, str(slot))}\n"
            return
        pairs = [pair for item in conf for pair in item.items() if pair[0] != "this"]
        yield f"<{slot} {this[-1]}>\n"
        for key, value in pairs:
            yield f"{_text(value, str(key))}\n"
        yield f"</{slot}>\n"
    elif isinstance(conf, dict):
        if "this" not in conf:
            raise SaltException(
                f'Apache section container "<{slot}>" expects attribute. '
                'Specify it using key "this".'
            )
        yield f"<{slot} {conf['this']}>\n"
        for key, value in conf.items():
            if key != "this" and isinstance(value, str | list | dict):
                yield f"{_text(value, key)}\n"
        yield f"</{slot}>\n"


def _text(conf: Any, slot: Any = None) -> str:
    return "".join(_lines(conf, slot))


def config(name: str, config: list[dict[str, Any]], edit: bool = True) -> str:
    """
    Make a file of configuration out of data.

    @param edit: write it; otherwise only give the text.

    CLI Example::

        salt '*' apache.config /etc/httpd/conf.d/ports.conf config="[{'Listen': '22'}]"
    """
    first = [next(iter(entry.items())) for entry in config]
    text = "\n".join(_text(value, key) for key, value in first)
    if edit:
        with open(name, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"# This file is managed by Salt.\n{text}")
    return text
