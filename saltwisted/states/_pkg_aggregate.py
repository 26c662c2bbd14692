"""
C{mod_aggregate} of C{pkg}: the packages of several states, installed in one go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.highstate.words import tag_of


def aggregate(
    low: dict[str, Any], chunks: list[dict[str, Any]], running: Mapping[str, Any]
) -> dict[str, Any]:
    """As C{pkg.mod_aggregate}."""
    if low.get("fun") not in ("installed", "latest", "removed", "purged"):
        return low
    kind = "sources" if "sources" in low else "pkgs"
    more: dict[str, dict[Any, None]] = {}
    for chunk in chunks:
        if (
            tag_of(chunk) in running
            or chunk.get("state") != "pkg"
            or "__agg__" in chunk
            or "hold" in chunk
            or any(chunk.get(key) != low.get(key) for key in ("fun", "fromrepo"))
        ):
            continue
        if kind in chunk:
            _combine(more, chunk[kind])
        elif kind == "pkgs" and "sources" not in chunk and "name" in chunk:
            more.setdefault(chunk["name"], {})[chunk.pop("version", None)] = None
        else:
            continue
        chunk["__agg__"] = True
    if more:
        mine: dict[str, dict[Any, None]] = {}
        _combine(mine, low.get(kind, []))
        for package, versions in more.items():
            mine.setdefault(package, {}).update(versions)
        low[kind] = [
            package if version is None else {package: version}
            for package, versions in mine.items()
            for version in _named(versions)
        ]
    return low


def _combine(into: dict[str, dict[Any, None]], items: Any) -> None:
    for item in items or ():
        pairs = item.items() if isinstance(item, dict) else ((item, None),)
        for package, version in pairs:
            into.setdefault(package, {})[version] = None


def _named(versions: Mapping[Any, None]) -> list[Any]:
    """The versions asked for; "any" only if nobody asks for a certain one."""
    return [one for one in versions if one is not None] or [None]
