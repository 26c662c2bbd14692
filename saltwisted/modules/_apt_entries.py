"""
Entries of apt's sources: which one is meant, what it shows, and what becomes of it.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from saltwisted.modules import _debsources
from saltwisted.modules._debsources import Line, Sources, Stanza
from saltwisted.worker import systools
from saltwisted.worker.exceptions import (
    SaltInvocationError,
)

log = logging.getLogger(__name__)

_PPA = "deb http://ppa.launchpad.net/{owner}/{name}/ubuntu {dist} main"
_PRIVATE_PPA = "deb https://{auth}private-ppa.launchpad.net/{owner}/{name}/ubuntu {dist} main"
UBUNTUS = ("Ubuntu", "Mint", "neon")
LINE_FIELDS = frozenset(
    ("uri", "comps", "architectures", "disabled", "file", "dist", "signedby", "trusted")
)
STANZA_FIELDS = LINE_FIELDS | {"uris", "suites", "types"}
"""What C{mod_repo} may set on an entry."""


def ppa_line(repo: str, auth: str | None, dist: str) -> str:
    """The line of C{sources.list} for C{ppa:owner/name}."""
    owner, name = repo[4:].split("/", 1)
    if auth:
        return _PRIVATE_PPA.format(auth=f"{auth}@", owner=owner, name=name, dist=dist)
    return _PPA.format(owner=owner, name=name, dist=dist)


def unreadable(source: Any) -> bool:
    """Whether an entry is not to be listed: no entry, or one with options that make no sense."""
    if not source.invalid:
        return False
    return not (
        isinstance(source, Line)
        and source.uri
        and source.type in ("deb", "deb-src", "rpm", "rpm-src")
    )


def as_repo(source: Line | Stanza, kind: str, uri: str, suite: str) -> dict[str, Any]:
    """An entry, for one of its addresses and suites, as C{pkg.get_repo} shows it."""
    if isinstance(source, Stanza):
        line = Line(f"{kind} {uri} {suite} {' '.join(source.comps)}")
        line.disabled = source.disabled
        line.architectures = source.architectures
        line.signedby = source.signedby
        line.trusted = source.trusted
        text = str(line)
    else:
        text = source.line.strip()
    return {
        "file": source.file,
        "comps": source.comps,
        "disabled": source.disabled,
        "enabled": not source.disabled,
        "dist": suite,
        "suites": source.suites,
        "type": kind,
        "types": source.types,
        "uri": uri,
        "uris": source.uris,
        "line": text,
        "architectures": source.architectures,
        "signedby": source.signedby,
    }


def take_out(sources: Sources, entry: Line | Stanza, wanted: Line) -> bool:
    """Remove a suite, or some of its components, from an entry; false if none are in common."""
    have, drop = set(entry.comps), set(wanted.comps)
    if have == drop:
        suites = list(entry.suites)
        suites.remove(wanted.dist)
        entry.suites = suites
        if not suites:
            sources.remove(entry)
        return True
    if have & drop:
        entry.comps = [comp for comp in entry.comps if comp not in drop]
        return True
    return False


def read_fields(kwargs: dict[str, Any], components: list[str], wanted: Line) -> None:
    """Bring the fields of an entry in C{kwargs} into their shapes; C{components} grows."""
    if "comps" in kwargs:
        kwargs["comps"] = [comp.strip() for comp in kwargs["comps"].split(",")]
        components += [comp for comp in kwargs["comps"] if comp not in components]
    else:
        kwargs["comps"] = list(components)
    if "architectures" in kwargs:
        kwargs["architectures"] = kwargs["architectures"].split(",")
    else:
        kwargs["architectures"] = wanted.architectures
    if "disabled" in kwargs:
        kwargs["disabled"] = systools.is_true(kwargs["disabled"])
    elif "enabled" in kwargs:
        kwargs["disabled"] = not systools.is_true(kwargs["enabled"])


def entry_to_change(
    sources: Sources, wanted: Line, components: list[str], kwargs: dict[str, Any]
) -> Line | Stanza | None:
    """The entry that C{pkg.mod_repo} means; C{None} if there is none yet."""
    for entry in sources:
        if entry.invalid or not entry.types:
            continue
        kinds = (entry.type or "").split()
        same = (
            wanted.type in kinds
            and wanted.uri.rstrip("/") in [uri.rstrip("/") for uri in entry.uris]
            and wanted.dist in entry.suites
        )
        named = kwargs.get("dist") in entry.suites and kwargs.get("type") in kinds
        if (same or named) and (
            not entry.comps
            or any(comp in entry.comps for comp in components)
            or kwargs["architectures"] != entry.architectures
        ):
            return entry
    return None


def new_entry(repo: str, wanted: Line, kwargs: dict[str, Any]) -> Line | Stanza:
    """An entry for a repository that there was not."""
    path = kwargs.get("file")
    if not (path and path.endswith(".sources")):
        return Line(repo, path)
    stanza = Stanza("", path)
    stanza.types, stanza.uris = wanted.type, wanted.uri
    stanza.suites, stanza.comps = wanted.dist, wanted.comps
    if (
        kwargs.get("trusted") is True
        or kwargs.get("Trusted") is True
        or ("trusted" not in kwargs and wanted.trusted is True)
    ):
        stanza.trusted = True
    return stanza


def consolidate(sources: Sources) -> Sources:
    """Entries that differ only in their components become one, all in the main file."""
    merged: dict[tuple[Any, ...], Line] = {}
    others: set[str] = set()
    for entry in sources:
        if entry.invalid or not isinstance(entry, Line):
            continue
        key = (
            tuple(entry.architectures),
            entry.disabled,
            entry.type,
            entry.uri,
            entry.dist,
        )
        if key in merged:
            first = merged[key]
            first.comps += [comp for comp in entry.comps if comp not in first.comps]
        else:
            merged[key] = Line(entry.line)
        if entry.file != _debsources.MAIN_FILE:
            others.add(entry.file)
    kept: list[Line | Stanza] = [entry for entry in sources if isinstance(entry, Stanza)]
    sources.list = [*merged.values(), *kept]
    sources.save()
    for path in others:
        try:
            os.remove(path)
        except OSError:
            log.debug("Cannot remove %s", path)
    return sources


def expand_repo_def(os_name: str, os_codename: str | None = None, **kwargs: Any) -> dict[str, Any]:
    """A repository of a state, completed to what C{get_repo} would show of it."""
    if "repo" not in kwargs:
        raise SaltInvocationError("missing 'repo' argument")
    repo = kwargs["repo"]
    if repo.startswith("ppa:") and os_name in UBUNTUS:
        owner, name = repo[4:].split("/", 1)
        repo = ppa_line(repo, kwargs.get("ppa_auth"), os_codename or "")
        kwargs.setdefault("file", f"/etc/apt/sources.list.d/{owner}-{name}-{os_codename}.list")
    wanted = Line(repo)
    for key in ("architectures", "comps"):
        if key in kwargs:
            kwargs[key] = [item.strip() for item in kwargs[key].split(",")]
    for key in LINE_FIELDS & kwargs.keys():
        setattr(wanted, key, kwargs[key])
    signedby = wanted.signedby
    path = kwargs.get("file") or _debsources.MAIN_FILE
    entry: Line | Stanza
    if path.endswith(".sources"):
        entry = Stanza("", path)
        for field, value in (
            ("types", wanted.types),
            ("uris", wanted.uris),
            ("suites", wanted.suites),
        ):
            given = kwargs.get(field)
            setattr(entry, field, given if isinstance(given, list) and given else value)
        entry.comps = wanted.comps
        if wanted.architectures:
            entry.architectures = wanted.architectures
        entry.disabled = wanted.disabled
        if signedby:
            entry.signedby = signedby
        if "trusted" in kwargs and kwargs["trusted"] is not False:
            entry.trusted = kwargs["trusted"]
    else:
        options = [f"arch={','.join(wanted.architectures)}"] if wanted.architectures else []
        if signedby:
            options.append(f"signed-by={signedby}")
        if kwargs.get("trusted"):
            options.append("trusted=yes")
        words = [wanted.type, f"[{' '.join(options)}]" if options else "", wanted.uri, wanted.dist]
        entry = Line(" ".join(word for word in (*words, *wanted.comps) if word) + "\n", path)
        entry.disabled = wanted.disabled
        entry.line = entry.repo_line()
    return {
        "file": entry.file,
        "comps": entry.comps,
        "disabled": entry.disabled,
        "dist": entry.dist,
        "suites": entry.suites,
        "type": entry.type,
        "types": entry.types,
        "uri": entry.uri,
        "uris": entry.uris,
        "line": str(entry),
        "architectures": entry.architectures,
        "signedby": signedby,
    }
