"""
Locales (virtual module C{locale}): which one is set, which there are, making one.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
from typing import Any

from saltwisted.modules import _systemd
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__context__: dict[str, Any]

__virtualname__ = "locale"


def __virtual__() -> str:
    return __virtualname__


def _split_locale(text: str) -> dict[str, str]:
    """The parts of C{language_territory.codeset@modifier charmap}."""
    rest, _blank, charmap = text.partition(" ")
    rest, _at, modifier = rest.partition("@")
    rest, _dot, codeset = rest.partition(".")
    language, _line, territory = rest.partition("_")
    return {
        "charmap": charmap,
        "modifier": modifier,
        "codeset": codeset,
        "language": language,
        "territory": territory,
    }


def _join_locale(parts: dict[str, str]) -> str:
    """The opposite of L{_split_locale}."""
    text = parts["language"]
    for mark, key in (("_", "territory"), (".", "codeset"), ("@", "modifier"), (" ", "charmap")):
        if parts.get(key):
            text += mark + parts[key]
    return text


def _normalize_locale(text: str) -> str:
    """A locale in the spelling of C{locale -a}: C{de_DE.utf8}."""
    parts = _split_locale(text)
    parts["territory"] = parts["territory"].upper()
    parts["codeset"] = parts["codeset"].lower().replace("-", "")
    parts["charmap"] = ""
    return _join_locale(parts)


def _localectl_status() -> dict[str, Any]:
    if systools.which("localectl") is None:
        raise CommandExecutionError('Unable to find "localectl"')
    probe = subprocess.run(["localectl"], check=False, capture_output=True)
    if b"Failed to connect to bus: No such file or directory" in probe.stderr:
        raise CommandExecutionError('Command "localectl" is in a degraded state.')
    found: dict[str, Any] = {}
    output = (__salt__["cmd.run"]("localectl status") or "").strip()
    key = ""
    for line in output.splitlines():
        if ": " in line:
            key, _colon, value = line.partition(": ")
            key = key.strip().lower().replace(" ", "_")
        else:
            value = line.strip()
        if not value or not key:
            continue
        name, equals, setting = value.partition("=")
        if not equals:
            found[key] = {"data": None if value in ("n/a", "(unset)") else value}
        elif "=" not in setting:
            found.setdefault(key, {})[name] = setting
    if not found:
        log.debug("Unable to find any locale information inside: %s", output)
        raise CommandExecutionError('Unable to parse result of "localectl"')
    return found


def _localectl_set(locale: str) -> bool:
    settings = _localectl_status().get("system_locale", {})
    settings["LANG"] = str(locale)
    words = [f"{key}={value}" for key, value in settings.items() if value is not None]
    command = ["localectl", "set-locale", *words]
    if not __salt__["cmd.retcode"](command, python_shell=False):
        return True
    # Seen where the service behind it is masked, as in containers.
    _set_line("/etc/locale.conf", "LANG", f"LANG={locale}")
    return True


def _set_line(path: str, name: str, line: str) -> None:
    if not __salt__["file.file_exists"](path):
        __salt__["file.touch"](path)
    __salt__["file.replace"](path, f"^{name}=.*", line, append_if_not_found=True)


def _is_suse_12() -> bool:
    return bool(__grains__["os_family"] == "Suse" and __grains__["osmajorrelease"] == 12)


def list_avail() -> list[str]:
    """
    The locales that are there.

    CLI Example::

        salt '*' locale.list_avail
    """
    return list(__salt__["cmd.run"]("locale -a").split("\n"))


def get_locale() -> str:
    """
    The locale of the system.

    CLI Example::

        salt '*' locale.get_locale
    """
    if _systemd.booted(__context__) and not _is_suse_12():
        return str(_localectl_status()["system_locale"].get("LANG", ""))
    family = __grains__["os_family"]
    if "Suse" in family:
        command = ["grep", "^RC_LANG", "/etc/sysconfig/language"]
    elif "RedHat" in family:
        command = ["grep", "^LANG=", "/etc/sysconfig/i18n"]
    elif "Debian" in family:
        command = ["grep", "^LANG=", "/etc/default/locale"]
    elif "Gentoo" in family:
        return str(__salt__["cmd.run"]("eselect --brief locale show").strip())
    else:
        raise CommandExecutionError(f'Error: "{__grains__["oscodename"]}" is unsupported!')
    words = __salt__["cmd.run"](command, python_shell=False).split("=")
    if len(words) < 2:
        log.error('Error occurred while running "%s"', shlex.join(command))
        return ""
    return str(words[1].replace('"', ""))


def set_locale(locale: str) -> bool:
    """
    Set the locale of the system.

    CLI Example::

        salt '*' locale.set_locale 'en_US.UTF-8'
    """
    family = __grains__["os_family"]
    new_debian = family == "Debian" and __grains__.get("osmajorrelease", 0) >= 13
    if _systemd.booted(__context__) and not _is_suse_12() and not new_debian:
        return _localectl_set(locale)
    if "Suse" in family:
        _set_line("/etc/sysconfig/language", "RC_LANG", f'RC_LANG="{locale}"')
    elif "RedHat" in family:
        _set_line("/etc/sysconfig/i18n", "LANG", f'LANG="{locale}"')
    elif "Debian" in family:
        program = systools.which("update-locale")
        if program is None:
            raise CommandExecutionError('Cannot set locale: "update-locale" was not found.')
        __salt__["cmd.run"]([program], python_shell=False)
        __salt__["file.replace"](
            "/etc/default/locale", "^LANG=.*", f'LANG="{locale}"', append_if_not_found=True
        )
    elif "Gentoo" in family:
        command = ["eselect", "--brief", "locale", "set", locale]
        return bool(__salt__["cmd.retcode"](command, python_shell=False) == 0)
    else:
        raise CommandExecutionError("Error: Unsupported platform!")
    return True


def avail(locale: str) -> bool:
    """
    Whether a locale is there, in whatever spelling.

    CLI Example::

        salt '*' locale.avail 'en_US.UTF-8'
    """
    wanted = _normalize_locale(locale)
    return any(
        _normalize_locale(item.strip()) == wanted for item in __salt__["locale.list_avail"]()
    )


def gen_locale(locale: str, **kwargs: Any) -> Any:
    """
    Make a locale; false if nobody knows it.

    @param locale: with a charmap behind a blank where Debian's list has one.
    @keyword verbose: give what C{cmd.run_all} gives.

    CLI Example::

        salt '*' locale.gen_locale en_US.UTF-8
        salt '*' locale.gen_locale 'en_IE.UTF-8 UTF-8'
    """
    ubuntu = __grains__.get("os") == "Ubuntu"
    gentoo = __grains__.get("os_family") == "Gentoo"
    parts = _split_locale(locale)
    short = f"{parts['language']}_{parts['territory']}"
    # Debian's list says the charmap a second time.
    if not parts["charmap"] and not ubuntu:
        parts["charmap"] = parts["codeset"]
        locale = _join_locale(parts)
    if not _known(locale, short, gentoo):
        return False
    if os.path.exists("/etc/locale.gen"):
        __salt__["file.replace"](
            "/etc/locale.gen",
            rf"^\s*#\s*{locale}\s*$",
            f"{locale}\n",
            append_if_not_found=True,
        )
    elif ubuntu:
        path = f"/var/lib/locales/supported.d/{parts['language']}"
        __salt__["file.touch"](path)
        __salt__["file.replace"](path, locale, locale, append_if_not_found=True)
    if systools.which("locale-gen"):
        command = ["locale-gen", *(["--generate"] if gentoo else [])]
        command.append(_normalize_locale(locale) if ubuntu else locale)
    elif systools.which("localedef"):
        quiet = "--verbose" if kwargs.get("verbose", False) else "--quiet"
        name = f"{short}.{parts['codeset']}"
        command = ["localedef", "--force", "-i", short, "-f", parts["codeset"], name, quiet]
    else:
        raise CommandExecutionError(
            'Command "locale-gen" or "localedef" was not found on this system.'
        )
    done = __salt__["cmd.run_all"](command, python_shell=False)
    if done["retcode"]:
        log.error(done["stderr"])
    return done if kwargs.get("verbose") else done["retcode"] == 0


def _known(locale: str, short: str, gentoo: bool) -> bool:
    if __grains__.get("os") == "Debian" or gentoo:
        place = "/usr/share/i18n/SUPPORTED"
        known = bool(__salt__["file.search"](place, f"^{locale}$", flags=re.MULTILINE))
    else:
        suse = __grains__.get("os_family") == "Suse"
        place = "/usr/share/locale" if suse else "/usr/share/i18n/locales"
        try:
            known = short in os.listdir(place)
        except OSError as error:
            log.error(error)
            raise CommandExecutionError(f'Locale "{locale}" is not available.') from error
    if not known:
        log.error('The provided locale "%s" is not found in %s', locale, place)
    return known
