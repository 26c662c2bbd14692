"""
Packs between the nodes of a cluster: one is made of the objects that another node lacks, and put
into its repository by the steps of a fetch.

The received pack is in a quarantine until git has computed the name of each object from its
content, and has found that nothing is missing to which the refs lead. Nobody checks whether objects
are well-formed: a fetch does not check that either, and what one node serves the others have to
serve, too.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgpack

from saltwisted.worker.git import program, repository
from saltwisted.worker.git.program import GitError

PACKS = "packs"
KEPT = 900.0
"""Seconds for which a pack that was made stays, since others may lack the same."""


def pack(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    Make a pack of what somebody lacks.

    @param request: C{folder}; C{wants}, the objects that he needs with all that they lead to;
        C{haves}, those that he has; C{seconds} and C{most} (bytes).
    @return: C{path} and C{size}.
    @raises GitError: not all that is wanted is here.
    """
    folder, seconds = str(request["folder"]), float(request["seconds"])
    state = repository.state_of(folder)
    if not state:
        raise GitError("this node does not have this repository")
    repo = os.path.join(folder, state["repo"])
    wants, haves = sorted(set(request["wants"])), sorted(set(request["haves"]))
    if any(repository.missing(repo, wants, seconds)):
        raise GitError("this node does not have all wanted objects")
    lacking = set(repository.missing(repo, haves, seconds))
    lines = [*wants, *(f"^{oid}" for oid in haves if oid not in lacking)]
    text = "".join(f"{line}\n" for line in lines).encode()
    top = os.path.join(folder, PACKS)
    os.makedirs(top, mode=0o700, exist_ok=True)
    _tidy(top)
    path = os.path.join(top, hashlib.sha256(state["repo"].encode() + text).hexdigest()[:32])
    if not os.path.exists(path):
        temporary = f"{path}.{secrets.token_hex(8)}"
        args = ["--git-dir", repo, "pack-objects", "--revs", "--stdout", "--quiet"]
        args += ["--delta-base-offset", "--threads=1"]
        try:
            with open(temporary, "xb") as file:
                program.run(
                    args,
                    program.environment({}),
                    seconds=seconds,
                    stdin=text,
                    sink=_limited(file, int(request["most"])),
                )
            os.rename(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    return {"path": path, "size": os.path.getsize(path)}


def _limited(file: Any, most: int) -> Any:
    def sink(data: bytes) -> None:
        if file.tell() + len(data) > most:
            raise GitError(f"a pack has more than {most >> 20} MiB")
        file.write(data)

    return sink


def _tidy(top: str) -> None:
    """Remove packs that nobody has asked for lately, and those of killed processes."""
    for name in os.listdir(top):
        path = os.path.join(top, name)
        with suppress(OSError):
            if time.time() - os.path.getmtime(path) > KEPT:
                os.unlink(path)


class Taking(repository.Fetch):
    """A fetch whose objects are already in a file, from another node."""

    def _keeps(self) -> str:
        return str(self._request.get("pack") or "")

    def _has_all(self, repo: str) -> bool:
        """What came has to be looked at."""
        return False

    def _ask(self, quarantine: str) -> dict[str, str]:
        """Have git look at what has come."""
        refs = {str(ref): str(oid) for ref, oid in self._request["refs"].items()}
        repository.bound(refs)
        environ = program.environment({})
        name = self._keeps()
        if name:
            path = os.path.join(quarantine, "objects/pack", f"pack-{secrets.token_hex(20)}.pack")
            os.rename(os.path.join(self._folder, name), path)
            args = ["--git-dir", quarantine, "index-pack", "--threads=1", path]
            most = int(self._request.get("most") or 0)
            program.run(args, environ, seconds=self._seconds, most=most)
        back = (self._request.get("aside") or {}).get("back") or {}
        wants = sorted({*refs.values(), *(str(tip[0]) for tip in back.values())})
        lacking = repository.missing(quarantine, wants, self._seconds)
        if lacking:
            raise GitError(f"the pack from another node lacks {lacking[0]}")
        args = ["--git-dir", quarantine, "rev-list", "--objects", "--quiet", "--stdin"]
        text = "".join(f"{oid}\n" for oid in wants).encode()
        if wants:
            # Nothing may be missing between these and the refs that were served before
            args += ["--not", "--all"]
            program.run(args, environ, seconds=self._seconds, stdin=text)
        return refs


def take(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    Put a pack of another node into the repository.

    @param request: as of a fetch, and C{pack}, the name of a file in the folder (or C{""}), and
        C{refs}, ref to object. With C{hold} the refs do not count yet.
    """
    try:
        return {"state": Taking(request).run()}
    finally:
        if request.get("pack"):
            with suppress(OSError):
                os.unlink(os.path.join(str(request["folder"]), str(request["pack"])))


def settle(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    Have refs count, whose objects were taken before.

    @param request: C{folder}, C{refs} (ref to its tip), C{version}, C{now} and C{seconds}.
    @raises GitError: not all of their objects are here.
    """
    folder = str(request["folder"])
    with repository.locked(folder):
        state = repository.state_of(folder)
        if not state:
            raise GitError("this node does not have this repository")
        repo = os.path.join(folder, state["repo"])
        refs: dict[str, list[str]] = {ref: list(tip) for ref, tip in request["refs"].items()}
        back = (request.get("aside") or {}).get("back") or {}
        tips = [*refs.values(), *back.values()]
        wanted = sorted({str(oid) for tip in tips for oid in tip if oid})
        lacking = repository.missing(repo, wanted, float(request["seconds"]))
        if lacking:
            raise GitError(f"object {lacking[0]} is missing")
        state = {
            "repo": state["repo"],
            "refs": dict(sorted(refs.items())),
            "large": state["large"],
            **(request.get("aside") or {}),
            "at": float(request["now"]),
            "version": list(request["version"]),
        }
        # What the remote has and is not served is here where it was fetched, and nowhere else
        seen = {ref: tip[0] for ref, tip in refs.items()}
        if "seen" in state:
            oids = sorted(set(state["seen"].values()))
            absent = set(repository.missing(repo, oids, float(request["seconds"])))
            seen = {ref: oid for ref, oid in state["seen"].items() if oid not in absent}
        repository.point(repo, repository.named(state, seen))
        repository.replace(os.path.join(folder, repository.STATE), msgpack.packb(state))
        return state
