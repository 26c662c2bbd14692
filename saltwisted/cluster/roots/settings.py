"""
The roots options of the configuration: which directories take part, and how.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from saltwisted import advice
from saltwisted.cluster.roots.core import Settings
from saltwisted.domain.roots.guards import MIB, Limits
from saltwisted.domain.roots.index import Policy
from saltwisted.errors import ConfigError
from saltwisted.stores.roots.housekeeping import DAY


@frozen
class Root:
    """A directory to be replicated: its name, such as C{file/base/0}, and its path."""

    name: str
    path: str


def roots_of(config: Any) -> tuple[list[Root], dict[str, str]]:
    """The shares in a configuration, and the directories that do not take part, with the reason."""
    found: list[Root] = []
    left: dict[str, str] = {}
    seen: dict[str, str] = {}
    pillar = bool(config.cluster_pillar)
    for kind, roots in (("file", config.file_roots), ("pillar", config.pillar_roots)):
        for env, paths in (roots or {}).items():
            for number, path in enumerate([paths] if isinstance(paths, str) else paths or []):
                name = f"{kind}/{env}/{number}"
                path = str(path)
                if kind == "pillar" and not pillar:
                    left[name] = "this node has no right to pillars"
                elif env == "__env__" or "__env__" in path:
                    left[name] = "roots of __env__ are not replicated"
                elif any(char in path for char in "*?["):
                    left[name] = "roots named by a pattern are not replicated"
                elif not os.path.isabs(path):
                    left[name] = "it is not an absolute path"
                elif os.path.realpath(path) in seen:
                    left[name] = f"it is the same directory as {seen[os.path.realpath(path)]}"
                else:
                    seen[os.path.realpath(path)] = name
                    found.append(Root(name, path.rstrip("/") or "/"))
    return found, left


@frozen
class RootSettings:
    """
    What is the same for all shares.

    @ivar keep: seconds for which superseded contents are kept at least.
    @ivar ignored: rules for paths that are not replicated, in addition to the shares' own.
    """

    share: Settings
    limits: Limits
    policy: Policy
    keep: float
    ignored: tuple[bytes, ...]


def settings_of(options: Mapping[str, Any]) -> RootSettings:
    """
    The C{cluster_roots} map as values.

    @raises ConfigError: a value is invalid.
    """
    try:
        settings = Settings(
            quiet=float(options.get("quiet_ms", 50)) / 1000,
            quiet_most=float(options.get("quiet_max_ms", 2000)) / 1000,
            scan=max(float(options.get("scan_s", 60)), 1.0),
            rejoin=str(options.get("rejoin", "adopt")),
            keep_both=options.get("conflict") == "keep-both",
        )
        limits = Limits(
            max_file=int(options.get("max_file_mib", 1024)) * MIB,
            guard_files=int(options.get("guard_files", 100)),
            guard_part=float(options.get("guard_pct", 25)) / 100,
            links=str(options.get("links", "inside")),
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(f"cluster_roots: {error}") from error
    if "pillar_nodes" in options:
        raise ConfigError(
            f"cluster_roots: pillar_nodes is no longer an option: {advice.of('cluster.rights')}"
        )
    conflict = options.get("conflict", "newest")
    primary = ""
    if isinstance(conflict, Mapping) and set(conflict) == {"primary"}:
        primary = str(conflict["primary"])
    elif conflict not in ("newest", "keep-both"):
        raise ConfigError(
            "cluster_roots: conflict must be newest, keep-both, or a map of primary to a node id"
        )
    if settings.rejoin not in ("adopt", "merge"):
        raise ConfigError("cluster_roots: rejoin must be adopt or merge")
    if limits.links not in ("inside", "all", "none"):
        raise ConfigError("cluster_roots: links must be inside, all or none")
    return RootSettings(
        settings,
        limits,
        Policy(primary),
        keep=float(options.get("keep_base_days", 7)) * DAY,
        ignored=tuple(str(rule).encode() for rule in options.get("ignore") or ()),
    )
