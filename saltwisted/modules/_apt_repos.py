"""
The repositories of apt, and the keys that it trusts, as functions of C{pkg}.
"""

from __future__ import annotations

import logging
import os
import pathlib
import re
from typing import Any

from saltwisted.modules import _apt_entries, _apt_keys, _debsources
from saltwisted.modules._apt import Apt
from saltwisted.modules._debsources import Line, Sources, Stanza
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__pillar__: dict[str, Any]

_apt = Apt(globals(), lambda: __pillar__)


def list_repos(**kwargs: Any) -> dict[str, list[dict[str, Any]]]:
    """
    All repositories by their address.

    CLI Example::

        salt '*' pkg.list_repos
    """
    repos: dict[str, list[dict[str, Any]]] = {}
    for source in Sources():
        if _apt_entries.unreadable(source):
            continue
        for uri in source.uris:
            for suite in source.suites:
                for kind in source.types:
                    repos.setdefault(uri, []).append(_apt_entries.as_repo(source, kind, uri, suite))
    return repos


def get_repo(repo: str, **kwargs: Any) -> dict[str, Any]:
    """
    A repository, given as the line that C{sources.list} would have; empty if it is not there.

    CLI Example::

        salt '*' pkg.get_repo "deb http://deb.debian.org/debian bookworm main"
    """
    auth = kwargs.get("ppa_auth")
    if repo.startswith("ppa:") and __grains__["os"] in _apt_entries.UBUNTUS:
        repo = _apt_entries.ppa_line(repo, auth, __grains__["oscodename"])
    repos = list_repos()
    if not repos:
        return {}
    wanted = Line(repo)
    uri = wanted.uri
    if auth:
        match = re.search(r"(http[s]?://)(.+)", uri)
        if match and not match.group(2).startswith(auth):
            uri = f"{match.group(1)}{auth}@{match.group(2)}"
    for entries in repos.values():
        for entry in entries:
            if (
                entry["type"] == wanted.type
                and entry["uri"].rstrip("/") == uri.rstrip("/")
                and entry["dist"] == wanted.dist
                and (not wanted.comps or any(comp in entry["comps"] for comp in wanted.comps))
            ):
                return entry
    return {}


def del_repo(repo: str, **kwargs: Any) -> str:
    """
    Remove a repository, given as the line that C{sources.list} has, and refresh the lists.

    A file of its own that is empty then is removed as well.

    @raises CommandExecutionError: it is not there.

    CLI Example::

        salt '*' pkg.del_repo "deb http://deb.debian.org/debian bookworm main"
    """
    is_ppa = repo.startswith("ppa:") and __grains__["os"] in _apt_entries.UBUNTUS
    if is_ppa:
        repo = _apt_entries.ppa_line(repo, kwargs.get("ppa_auth"), __grains__["oscodename"])
    sources = Sources()
    entries = [item for item in sources if not item.invalid]
    wanted = Line(repo)
    touched: dict[str, int] = {}
    for entry in entries:
        same_place = (
            wanted.uri.rstrip("/") in [uri.rstrip("/") for uri in entry.uris]
            and wanted.dist in entry.suites
        )
        match = wanted.type in (entry.type or "").split() and (
            entry.architectures == wanted.architectures
        )
        twin = is_ppa and wanted.type == "deb" and entry.type == "deb-src"
        if same_place and (match or twin) and _apt_entries.take_out(sources, entry, wanted):
            touched[entry.file] = 0
    if entries:
        sources.save()
    if not touched:
        raise CommandExecutionError(f"Repo {repo} doesn't exist in the sources.list(s)")
    for entry in sources:
        if not entry.invalid and entry.file in touched:
            touched[entry.file] += 1
    text = ""
    for path, left in touched.items():
        if left == 0 and "sources.list.d/" in path and os.path.isfile(path):
            try:
                os.remove(path)
            except OSError:
                log.error("Cannot remove %s", path)
            text += f"File {path} containing repo '{repo}' has been removed."
        else:
            if left == 0 and os.path.isfile(path) and list(sources):
                # Saving writes only the files of the entries that are left.
                with open(path, "w", encoding="utf-8"):
                    pass
            text += f"Repo '{repo}' has been removed from {path}.\n"
    _apt.refresh()
    return text


def mod_repo(
    repo: str, saltenv: str = "base", aptkey: bool = True, **kwargs: Any
) -> dict[str, Any]:
    """
    Add or change a repository, given as the line that C{sources.list} is to have.

    @param aptkey: use C{apt-key} for keys, if it is there; else the entry must name a key file
        (C{[signed-by=...]}) or be C{trusted}.
    @keyword file: where a new entry goes; C{.sources} for a deb822 stanza.
    @keyword comps, architectures: lists as text with commas.
    @keyword disabled, enabled: one or the other.
    @keyword comments: text or a list for a comment.
    @keyword keyid, keyserver: fetch a key, or a list of them.
    @keyword key_url: fetch a key from here; C{key_text}: the key itself.
    @keyword consolidate: merge entries that differ in their components only.
    @keyword refresh: fetch the lists after it (default); also as C{refresh_db}.
    @return: the line to the entry as it is then.

    CLI Example::

        salt '*' pkg.mod_repo "deb http://deb.debian.org/debian bookworm main" comps=main,contrib
    """
    refresh = kwargs.get("refresh_db", kwargs.get("refresh", True))
    if not systools.which("apt-key"):
        aptkey = False
    if repo.startswith("ppa:"):
        repo, done = _prepare_ppa(repo, kwargs, refresh)
        if done is not None:
            return done
    sources = Sources()
    if kwargs.get("consolidate", False):
        sources = _apt_entries.consolidate(sources)
    wanted = Line(repo)
    if wanted.invalid:
        raise SaltInvocationError(
            f"Name {repo} is not valid. This must be the complete repo entry as seen in the"
            " sources file"
        )
    components = [comp.strip() for comp in wanted.comps]
    kwargs["signedby"] = pathlib.Path(wanted.signedby) if wanted.signedby else ""
    _fetch_keys(kwargs, aptkey, saltenv)
    _apt_entries.read_fields(kwargs, components, wanted)
    entry = _apt_entries.entry_to_change(sources, wanted, components, kwargs)
    if "comments" in kwargs:
        kwargs["comments"] = _debsources.combine_comments(kwargs["comments"])
    if entry is None:
        if not aptkey and not (
            kwargs["signedby"] or _debsources.to_bool(kwargs.get("trusted", "no"))
        ):
            raise SaltInvocationError(
                "missing 'signedby' or 'trusted' option when apt-key is missing"
            )
        entry = _apt_entries.new_entry(repo, wanted, kwargs)
        sources.list.append(entry)
    if "comments" in kwargs:
        entry.comment = kwargs["comments"]
    if isinstance(entry, Line):
        entry.line = wanted.line if wanted.line.endswith("\n") else wanted.line + "\n"
    if not kwargs["architectures"] and not entry.architectures:
        kwargs.pop("architectures")
    allowed = _apt_entries.STANZA_FIELDS if isinstance(entry, Stanza) else _apt_entries.LINE_FIELDS
    for key in kwargs:
        if key in allowed:
            setattr(entry, key, kwargs[key])
    if isinstance(entry, Line) and entry.uri != wanted.uri:
        entry.uri = wanted.uri
        entry.line = str(entry)
    sources.save()
    if refresh:
        _apt.refresh()
    return {repo: get_repo(repo)}


def _prepare_ppa(
    repo: str, kwargs: dict[str, Any], refresh: bool
) -> tuple[str, dict[str, Any] | None]:
    """The line of a PPA with its key in C{kwargs}, or the result if another program did it all."""
    if __grains__["os"] not in _apt_entries.UBUNTUS:
        raise CommandExecutionError(f'cannot parse "ppa:" style repo definitions: {repo}')
    if systools.which("apt-add-repository") and "ppa_auth" not in kwargs:
        known = get_repo(repo)
        if known:
            return repo, {repo: known}
        proxy = _apt_keys.proxy_url(_apt)
        env = {"http_proxy": proxy, "https_proxy": proxy} if proxy else {}
        old = float(__grains__["osrelease"]) < 12.04
        command = ["apt-add-repository", repo] if old else ["apt-add-repository", "-y", repo]
        done = _apt.call(command, env=env, scope=False, **kwargs)
        if done["retcode"]:
            raise CommandExecutionError(
                f"Unable to add PPA '{repo[4:]}'. '{command}' exited with status"
                f" {done['retcode']!s}: '{done['stderr']}'"
            )
        if refresh:
            _apt.refresh()
        return repo, {repo: done}
    owner, slash, name = repo[4:].partition("/")
    if not slash:
        raise CommandExecutionError(
            'Unable to get PPA info from argument. Expected format "<PPA_OWNER>/<PPA_NAME>"'
            f" (e.g. saltstack/salt) not found.  Received '{repo[4:]}' instead."
        )
    dist = kwargs["dist"] = __grains__["oscodename"]
    kwargs.setdefault("file", f"/etc/apt/sources.list.d/{owner}-{name}-{dist}.list")
    facts = _apt_keys.launchpad(owner, name)
    if "ppa_auth" not in kwargs:
        kwargs["keyid"] = facts["signing_key_fingerprint"]
    elif "keyid" not in kwargs:
        raise CommandExecutionError(f"Private PPAs require a keyid to be specified: {owner}/{name}")
    elif not facts["private"]:
        raise CommandExecutionError(f"PPA is not private but auth credentials passed: {repo}")
    kwargs.setdefault("keyserver", "keyserver.ubuntu.com")
    return _apt_entries.ppa_line(repo, kwargs.get("ppa_auth"), dist), None


def _fetch_keys(kwargs: dict[str, Any], aptkey: bool, saltenv: str) -> None:
    if "keyid" in kwargs:
        keyid, keyserver = kwargs.pop("keyid", None), kwargs.pop("keyserver", None)
        if not keyid or not keyserver:
            raise NameError("both keyserver and keyid options required.")
        for key in keyid if isinstance(keyid, list) else [keyid]:
            _receive_key(hex(key) if isinstance(key, int) else key, keyserver, kwargs, aptkey)
    elif "key_url" in kwargs:
        _key_from_url(kwargs["key_url"], kwargs, aptkey, saltenv)
    elif "key_text" in kwargs:
        text = kwargs["key_text"]
        output = __salt__["cmd.run_stdout"](
            ["apt-key", "add", "-"], **{**kwargs, "stdin": text, "python_shell": False}
        )
        if not output.upper().startswith("OK"):
            raise CommandExecutionError(f"Error: failed to add key:\n{text}")


def _receive_key(key: str, keyserver: str, kwargs: dict[str, Any], aptkey: bool) -> None:
    signed = kwargs["signedby"]
    if not aptkey:
        if not signed:
            raise SaltInvocationError(
                "missing 'signedby' or 'trusted' option when apt-key is missing"
            )
        known = _apt_keys.known_keys(_apt, aptkey=False, keydir=signed.parent) or {}
        if not known.get(key) and not _apt_keys.add_key(
            _apt,
            keyid=key,
            keyserver=keyserver,
            aptkey=False,
            keydir=signed.parent,
            keyfile=signed.name,
        ):
            raise CommandExecutionError(f"Error: Could not add key: {key}")
        return
    output = __salt__["cmd.run_stdout"](
        ["apt-key", "export", key], **{**kwargs, "python_shell": False}
    )
    if output.startswith("-----BEGIN PGP"):
        return
    command = ["apt-key", "adv", "--batch"]
    proxy = _apt_keys.proxy_url(_apt)
    if proxy and keyserver not in (__salt__["config.option"]("no_proxy") or ()):
        command += ["--keyserver-options", f"http-proxy={proxy}"]
    command += ["--keyserver", keyserver, "--logger-fd", "1", "--recv-keys", key]
    done = _apt.call(command, scope=False, **kwargs)
    if done["retcode"] != 0:
        raise CommandExecutionError(f"Error: key retrieval failed: {done['stdout']}")


def _key_from_url(key_url: str, kwargs: dict[str, Any], aptkey: bool, saltenv: str) -> None:
    cached = __salt__["cp.cache_file"](key_url, saltenv)
    if not cached:
        raise CommandExecutionError(f"Error: file not found: {key_url}")
    path = pathlib.Path(cached)
    signed = kwargs["signedby"]
    if signed and path.name != signed.name:
        path = path.rename(path.parent / signed.name)
    if not aptkey:
        folder = {"keydir": signed.parent} if signed else {}
        if not _apt_keys.add_key(_apt, path=str(path), aptkey=False, **folder):
            raise CommandExecutionError(f"Error: Could not add key: {path}")
        return
    output = __salt__["cmd.run_stdout"](
        ["apt-key", "add", str(path)], **{**kwargs, "python_shell": False}
    )
    if not output.upper().startswith("OK"):
        raise CommandExecutionError(f"Error: failed to add key from {key_url}")


def get_repo_keys(aptkey: bool = True, keydir: Any = None) -> Any:
    """
    The keys that apt trusts.

    @param aptkey: ask C{apt-key}, if it is there; else the files in C{keydir} are read.
    @param keydir: C{/etc/apt/keyrings} by default.

    CLI Example::

        salt '*' pkg.get_repo_keys
    """
    return _apt_keys.known_keys(_apt, aptkey, keydir)


def add_repo_key(
    path: str | None = None,
    text: str | None = None,
    keyserver: str | None = None,
    keyid: str | None = None,
    saltenv: str = "base",
    aptkey: bool = True,
    keydir: Any = None,
    keyfile: Any = None,
) -> bool:
    """
    Add a key that apt is to trust: from a file, as text, or from a key server.

    @param aptkey: let C{apt-key} do it, if it is there; else it becomes a file in C{keydir}.
    @param keyfile: the name of that file.

    CLI Example::

        salt '*' pkg.add_repo_key 'salt://apt/sources/test.key' aptkey=False
        salt '*' pkg.add_repo_key keyserver='keyserver.example' keyid='0000AAAA'
    """
    return _apt_keys.add_key(_apt, path, text, keyserver, keyid, saltenv, aptkey, keydir, keyfile)


def del_repo_key(
    name: str | None = None, aptkey: bool = True, keydir: Any = None, **kwargs: Any
) -> Any:
    """
    Remove a key that apt trusts; gives its id, or false if it is not found.

    @param name: a PPA, with C{keyid_ppa=True}.
    @keyword keyid: its id, 8 or 16 digits.

    CLI Example::

        salt '*' pkg.del_repo_key keyid=0123ABCD aptkey=False
    """
    return _apt_keys.remove_key(_apt, name, aptkey, keydir, **kwargs)
