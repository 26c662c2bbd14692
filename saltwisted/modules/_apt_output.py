"""
What apt and dpkg print, read.
"""

from __future__ import annotations

from typing import Any


def candidates(output: str, names: tuple[str, ...]) -> dict[str, str]:
    """Package to candidate version, from the output of C{apt-cache policy}."""
    short = {name.split(":", 1)[0] for name in names}
    found: dict[str, str] = {}
    package = ""
    for line in output.split("\n"):
        text = line.strip()
        if text.endswith(":") and not text.startswith("Version table"):
            name = text[:-1]
            if name in names or name.split(":")[0] in short:
                package = name
        elif text.startswith("Candidate") and package:
            words = text.split()
            value = words[-1] if len(words) >= 2 else ""
            found[package] = "" if value.lower() == "(none)" else value
    return found


def selections(text: Any) -> dict[str, list[str]]:
    """State to the packages for which it is wanted, from C{dpkg --get-selections}."""
    found: dict[str, list[str]] = {}
    for line in text.split("\n") if isinstance(text, str) else text:
        words = line.split()
        if len(words) == 2:
            found.setdefault(words[1], []).append(words[0])
    return found


def repository_packages(output: str) -> dict[str, list[str]]:
    """All versions of each package, from the output of C{apt-cache show} or C{dump}."""
    found: dict[str, list[str]] = {}
    package = ""
    for line in output.split("\n"):
        if line.startswith("Package: "):
            package = line[9:]
            continue
        words = line.strip().split(None, 1)
        if words and words[0] == "Version:":
            found.setdefault(package, []).append(words[1])
    return found


def removable(output: str) -> list[str]:
    """What C{apt-get autoremove} would remove, from what it prints when nobody agrees."""
    found: list[str] = []
    inside = False
    for line in output.splitlines():
        if inside and line.startswith(" "):
            found += line.split()
        else:
            inside = not inside and "The following packages will be REMOVED:" in line
    return sorted(found)
