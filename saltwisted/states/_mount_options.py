"""
Whether a file system is mounted with the options and from the device that are wanted.

Nothing here touches the machine; what is mounted is given, as C{mount.active} tells it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

_INVISIBLE = frozenset(
    (
        "_netdev",
        "actimeo",
        "auto",
        "backup-volfile-servers",
        "bg",
        "bind",
        "comment",
        "defaults",
        "delay_connect",
        "direct-io-mode",
        "intr",
        "loop",
        "nobootwait",
        "nofail",
        "nointr",
        "nonempty",
        "password",
        "port",
        "reconnect",
        "retry",
        "soft",
        "transform_symlinks",
        "users",
    )
)
"""Options that a mounted file system does not show."""

_INVISIBLE_KEYS = frozenset(
    (
        "actimeo",
        "comment",
        "credentials",
        "direct-io-mode",
        "password",
        "port",
        "retry",
        "secretfile",
    )
)
"""Options whose values it does not show."""

_SIZE = re.compile(r"size=(\d+)([kmg])")
_UNITS = {"k": 1, "m": 1024, "g": 1024 * 1024}


def _size(option: str) -> str | None:
    """C{size=1m} as C{size=1024k}."""
    match = _SIZE.match(option)
    return f"size={int(match[1]) * _UNITS[match[2]]}k" if match else None


@frozen(kw_only=True)
class Rules:
    """
    @ivar invisible: options never to be seen.
    @ivar keys: options with values never to be seen.
    @ivar ignored: by file system, options that do not count.
    @ivar renamed: options that are shown under another name.
    """

    invisible: frozenset[str]
    keys: frozenset[str]
    ignored: Mapping[str, Sequence[str]]
    renamed: Mapping[str, str]

    @classmethod
    def make(cls, options: Any, keys: Any, ignored: Any, renamed: Any, hidden: Any) -> Rules:
        """The usual rules and those of an SLS."""
        return cls(
            invisible=_INVISIBLE | set(options or ()) | set(hidden or ()),
            keys=_INVISIBLE_KEYS | set(keys or ()),
            ignored={"ramfs": ["size"], **(ignored or {})},
            renamed={"tcp": "proto=tcp", "udp": "proto=udp", **(renamed or {})},
        )

    def shown(self, option: str, fstype: str, number_of: Callable[[str, str], str]) -> str:
        """
        An option as the mounted file system shows it.

        @param number_of: the number of a user (C{uid}) or group (C{gid}).
        """
        option = self.renamed.get(option, option)
        key, _, value = option.partition("=")
        if key in self.keys:
            option = key
        option = _size(option) or option
        key = option.partition("=")[0]
        if fstype == "cifs" and key == "user":
            option = f"username={value}"
        if key in self.ignored.get(fstype, ()):
            return key
        if key in ("uid", "gid") and "=" in option:
            option = f"{key}={number_of(key, value)}"
        return option

    def missing(
        self,
        options: Iterable[str],
        fstype: str,
        active: Mapping[str, Any],
        number_of: Callable[[str, str], str],
    ) -> tuple[list[str], str]:
        """
        The options that the mounted file system lacks, and the last of all.

        A size that the file system shows stands for every option: so stock compares, and
        does not see changes of a C{tmpfs} with a size.
        """
        supers = [_size(one) or one for one in active.get("superopts", [])]
        size = next((one for one in reversed(supers) if _SIZE.match(one)), None)
        known = {*active["opts"], *supers, *self.invisible, *self.keys}
        known |= set(self.ignored.get(fstype, ()))
        lacking = []
        option = ""
        for wanted in options:
            option = size or self.shown(wanted, fstype, number_of)
            if option not in known:
                lacking.append(option)
        return lacking, option


def mapper_device(device: str) -> str | None:
    """The device mapper's name of C{/dev/GROUP/VOLUME}."""
    match = re.match(r"^/dev/([^/]+)/([^/]+$)", device)
    if match is None:
        return None
    return "/dev/mapper/" + "-".join(part.replace("-", "--") for part in match.groups())


def fuse_device(device: str) -> str | None:
    """What stands behind C{sshfs#}."""
    match = re.match(r"^\w+#(.+)", device)
    return match[1] if match else None


def escaped(path: str) -> str:
    """A path as the table of mounts writes it."""
    return path.replace(" ", "\\040")
