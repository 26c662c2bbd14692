"""
Shells and script languages: which are here, and in which versions.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

from saltwisted.modules import _process
from saltwisted.worker import systools
from saltwisted.worker.exceptions import TimedProcTimeoutError

_SHELLS: dict[str, tuple[str, list[str]]] = {
    "bash": (r"version (\d\S*)", ["bash", "--version"]),
    "zsh": (r"^zsh (\d\S*)", ["zsh", "--version"]),
    "tcsh": (r"^tcsh (\d\S*)", ["tcsh", "--version"]),
    "perl": (r"^(\d\S*)", ["perl", "-e", 'printf "%vd\n", $^V;']),
    "python": (r"^Python (\d\S*)", ["python", "-V"]),
    "ruby": (r"^ruby (\d\S*)", ["ruby", "-v"]),
    "php": (r"^PHP (\d\S*)", ["php", "-v"]),
    "powershell": (
        r"PSVersion\s+(\d\S*)",
        ["powershell", "-NonInteractive", "$PSVersionTable"],
    ),
}


def info(shell: str) -> dict[str, Any]:
    """Whether one is here, where, and in which version, in the words of C{cmd.shell_info}."""
    if shell not in _SHELLS:
        return {
            "error": f"Salt does not know how to get the version number for {shell}",
            "installed": None,
        }
    pattern, words = _SHELLS[shell]
    line = " ".join(words)
    options = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "env": {"HOME": os.path.expanduser("~"), **os.environ},
    }
    try:
        _, _, out, _ = _process.run(words, None, 10, options)
    except OSError as error:
        return {"error": f"Unable to run command '{line}' Reason: {error}", "installed": False}
    except TimedProcTimeoutError:
        return {"error": f"Unable to run command '{line}' Reason: Timed out.", "installed": False}
    output = _process.text(out, None)
    result: dict[str, Any] = {"installed": None, "path": systools.which(words[0])}
    found = re.search(pattern, output, re.IGNORECASE)
    if found:
        result["version_raw"] = found.group(1)
        number = re.match(r"\d[\d.]*", found.group(1))
        if number:
            parts = number.group().split(".")[:3]
            result["installed"] = True
            result["version"] = ".".join(parts if len(parts) > 1 else [*parts, "0"])
    if "version" not in result:
        result["error"] = (
            f"The version regex pattern for shell {shell}, could not find the version string"
        )
        result["stdout"] = output
    return result
