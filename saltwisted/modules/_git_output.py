"""
What the C{git} program prints, as values.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

log = logging.getLogger(__name__)

_FETCHED = re.compile(
    r"[\s*]*(?:(?P<old>[0-9a-f]+)\.\.(?P<new>[0-9a-f]+)"
    r"|\[(?:new (?P<kind>tag|branch)|tag update)\])\s+(?P<name>.+)->"
)
_STATES = {"M": "modified", "A": "new", "D": "deleted", "??": "untracked"}
_ANSWERS = ("worktree", "HEAD", "branch")


def refs(output: str) -> dict[str, str]:
    """From C{git ls-remote}: names and their hashes."""
    pairs = (line.split(None, 1) for line in output.split("\n"))
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def fetched(output: str) -> dict[str, Any]:
    """From C{git fetch}: the names that are new or changed, by kind."""
    changes: dict[str, Any] = {}
    for match in filter(None, map(_FETCHED.match, output.split("\n"))):
        name = match["name"].rstrip()
        if match["kind"]:
            what = "new tags" if match["kind"] == "tag" else "new branches"
            changes.setdefault(what, []).append(name)
        elif match["old"]:
            pair = {"old": match["old"], "new": match["new"]}
            changes.setdefault("updated branches", {})[name] = pair
        else:
            changes.setdefault("updated tags", []).append(name)
    return changes


def remotes(output: str, cwd: str) -> dict[str, dict[str, str]]:
    """From C{git remote --verbose}: the addresses of each remote, to fetch and to push."""
    found: dict[str, dict[str, str]] = {}
    for line in output.split("\n"):
        match = re.match(r"(\S+)\s+(.*\S)\s+\((\w+)\)", line)
        if match is None:
            continue
        name, url, action = match.groups()
        if action in ("fetch", "push"):
            found.setdefault(name, {})[action] = url
        else:
            log.warning(
                "Unknown action '%s' for remote '%s' in git checkout located in %s",
                action,
                name,
                cwd,
            )
    return found


def status(output: str) -> dict[str, list[str]]:
    """From C{git status -z --porcelain}: the files by what became of them."""
    found: dict[str, list[str]] = {}
    for line in output.split("\0"):
        words = line.split(None, 1)
        if len(words) == 2:
            found.setdefault(_STATES.get(words[0], words[0]), []).append(words[1])
    return found


def settings(output: str) -> dict[str, list[str]]:
    """From C{git config --get-regexp}: the values of each setting."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        name, _, value = line.partition(" ")
        if value:
            found.setdefault(name, []).append(value.lstrip())
    return found


def worktrees(output: str) -> Iterator[dict[str, str]]:
    """
    From C{git worktree list --porcelain}: C{worktree}, C{HEAD} and C{branch} of each.

    C{branch} is C{detached} if there is none. A bare repository is listed as well, without a
    commit, and is left out.
    """
    for block in output.strip().split("\n\n"):
        facts: dict[str, str] = {}
        for line in block.split("\n"):
            text = "branch detached" if line == "detached" else line.strip()
            name, _, value = text.partition(" ")
            if name in _ANSWERS and value:
                facts.setdefault(name, value.lstrip())
        if len(facts) == len(_ANSWERS):
            yield facts
        else:
            log.debug("git.worktree: incomplete data:\n%s", block)
