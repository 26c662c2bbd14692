"""
What a daemon would complain of at a start with a configuration: asked of a process of its own
(L{saltwisted.roles.check}), since the readers of a start are far above this floor.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from attrs import asdict, frozen

from saltwisted.errors import StoreError
from saltwisted.tools.ports import listener

TIME = 600.0
"""Seconds after which the process is ended. A remote alone may take half a minute."""


@frozen(kw_only=True)
class Fault:
    """
    One thing that does not work.

    @ivar severity: C{error}: the daemon does not start; C{warning}: it starts without something.
    @ivar path: the file that says it, or C{None}.
    @ivar line: the line (1-based), or C{None}.
    @ivar port: of this machine, where somebody has it; else C{None}.
    """

    severity: str
    text: str
    path: str | None = None
    line: int | None = None
    port: int | None = None

    @property
    def place(self) -> str:
        """C{path:line}, as far as it is known."""
        return ":".join(str(part) for part in (self.path, self.line) if part is not None)

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.path else self.text

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return asdict(self)


def faults(
    role: str,
    config_dir: str | None = None,
    *,
    user: str = "",
    files: Mapping[str, str] | None = None,
    online: bool = False,
    ports: bool = True,
    own_pid: int = 0,
) -> list[Fault]:
    """
    What does not work, in the order in which a start would find it.

    @param user: whom the daemon will run as, if the configuration does not say so.
    @param files: path to the text of configuration files that will be there.
    @param online: whether git remotes are tried.
    @param ports: whether ports are tried.
    @param own_pid: a daemon with this configuration, which may have its ports.
    @raises StoreError: it could not be found out.
    """
    asked = {
        "role": role,
        "config_dir": config_dir,
        "user": user,
        "files": dict(files or {}),
        "online": online,
        "ports": ports,
    }
    try:
        # By the standard input: secrets may be in it, and arguments are for everybody to see
        done = subprocess.run(
            [sys.executable, "-m", "saltwisted.roles.check"],
            input=json.dumps(asked).encode(), capture_output=True, timeout=TIME, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise StoreError(f"the configuration could not be checked: {error}") from None
    if found is None:
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["no answer"]
        raise StoreError(f"the configuration could not be checked: {words[-1]}")
    told = (_by(Fault(**each), own_pid) for each in found)
    return [fault for fault in told if fault is not None]


def _by(fault: Fault, own_pid: int) -> Fault | None:
    """A port that is in use, with who has it; C{None} if that is the daemon itself."""
    if fault.port is None:
        return fault
    who = listener(fault.port, own_pid)
    if own_pid and f"(pid {own_pid})" in who:
        return None
    text = f"{fault.text}, by {who}" if who else fault.text
    return Fault(**{**asdict(fault), "text": text})
