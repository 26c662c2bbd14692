"""
What is enabled in Debian's Apache: sites, modules and pieces of configuration.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandNotFoundError

__virtualname__ = "apache"
__salt__: dict[str, Any]
__grains__: dict[str, Any]

_TOP = "/etc/apache2"


def __virtual__() -> Any:
    if __grains__["os_family"] == "Debian" and systools.which("apache2ctl"):
        return __virtualname__
    return False, "apache execution module not loaded: apache not installed."


def _is_link(*names: str) -> bool:
    return os.path.islink(os.path.join(_TOP, *names))


def _with_end(name: str, end: str) -> str:
    return name if name.endswith(".conf") else f"{name}{end}"


def _changed(program: str, kind: str, name: str, missing: int) -> dict[str, Any]:
    """Run C{a2en...} or C{a2dis...}; what came of it."""
    word = "Enable" if program.startswith("a2en") else "Disable"
    code = __salt__["cmd.retcode"]([program, name], python_shell=False)
    status: Any = code
    if code == 0:
        status = f"{kind} {name} {word.lower()}d"
    elif code == missing:
        status = f"{kind} {name} Not found"
    return {"Name": f"Apache2 {word} {kind}", kind: name, "Status": status}


def check_site_enabled(site: str) -> bool:
    """
    Whether a site is enabled.

    CLI Example::

        salt '*' apache.check_site_enabled example.com
    """
    name = _with_end(site, ".conf")
    if _is_link("sites-enabled", name):
        return True
    return site == "default" and _is_link("sites-enabled", f"000-{name}")


def a2ensite(site: str) -> dict[str, Any]:
    """
    Enable a site.

    CLI Example::

        salt '*' apache.a2ensite example.com
    """
    return _changed("a2ensite", "Site", site, 1)


def a2dissite(site: str) -> dict[str, Any]:
    """
    Disable a site.

    CLI Example::

        salt '*' apache.a2dissite example.com
    """
    return _changed("a2dissite", "Site", site, 256)


def check_mod_enabled(mod: str) -> bool:
    """
    Whether a module is enabled.

    CLI Example::

        salt '*' apache.check_mod_enabled status
    """
    return _is_link("mods-enabled", mod if mod.endswith(".load") else _with_end(mod, ".load"))


def a2enmod(mod: str) -> dict[str, Any]:
    """
    Enable a module.

    CLI Example::

        salt '*' apache.a2enmod vhost_alias
    """
    return _changed("a2enmod", "Mod", mod, 1)


def a2dismod(mod: str) -> dict[str, Any]:
    """
    Disable a module.

    CLI Example::

        salt '*' apache.a2dismod vhost_alias
    """
    return _changed("a2dismod", "Mod", mod, 256)


def check_conf_enabled(conf: str) -> bool:
    """
    Whether a piece of configuration is enabled.

    CLI Example::

        salt '*' apache.check_conf_enabled security
    """
    return _is_link("conf-enabled", _with_end(conf, ".conf"))


def _needed(program: str) -> None:
    if systools.which(program) is None:
        raise CommandNotFoundError(f"The '{program}' binary was not found in $PATH.")


def a2enconf(conf: str) -> dict[str, Any]:
    """
    Enable a piece of configuration.

    CLI Example::

        salt '*' apache.a2enconf security
    """
    _needed("a2enconf")
    return _changed("a2enconf", "Conf", conf, 1)


def a2disconf(conf: str) -> dict[str, Any]:
    """
    Disable a piece of configuration.

    CLI Example::

        salt '*' apache.a2disconf security
    """
    _needed("a2disconf")
    return _changed("a2disconf", "Conf", conf, 256)
