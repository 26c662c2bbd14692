"""
What a worker process does for the git sources: it fetches, lists, and writes large files to disk.

A request is plain data; C{do} says which. An answer has an C{error} if git has failed, in words
that may be shown.

Most processes fetch, and find nothing new. The warm parent imports what that takes, and keeps it;
whatever else there is to do has its libraries imported by the process that does it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from saltwisted.domain.git import sizes
from saltwisted.worker.git import program, repository
from saltwisted.worker.git.program import GitError

DAMAGE = re.compile(
    "bad object|bad tree|corrupt|did not send all necessary|does not point to a valid object|"
    "file .* is too small|inflate|is empty|missing (blob|commit|tree)|not a git repository|"
    "packfile .* (cannot|does not)|unable to (parse|read)|unresolved delta"
)
"""What git says where a repository on this disk is broken."""


def prepare() -> None:
    """In the warm parent: when it sees a child killed, it kills what that one has started."""
    program.in_group = True


def serve(request: Mapping[str, Any], daemon: Any = None, facts: Any = None) -> dict[str, Any]:
    """The entry of a pooled worker process (L{saltwisted.worker.process.warm})."""
    try:
        answer = _DO[request["do"]](request)
    except repository.Damaged as error:
        return {"error": error.text, "damaged": True}
    except GitError as error:
        return {"error": error.text}
    except OSError as error:
        return {"error": f"{error.filename or request.get('folder')}: {error.strerror}"}
    if "states" in answer:
        answer["states"] = {folder: _told(each) for folder, each in answer["states"].items()}
    if "state" in answer:
        answer["state"] = _told(answer["state"])
    return answer


def _told(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state as it is told: it may have very many large objects."""
    return {**state, "large": sizes.told(state["large"])} if "large" in state else dict(state)


def fetch(request: Mapping[str, Any], daemon: Any = None, facts: Any = None) -> dict[str, Any]:
    """The same, as an entry of its own: what waits for a remote holds up no other."""
    return serve(request, daemon, facts)


def list_all(request: Mapping[str, Any], daemon: Any = None, facts: Any = None) -> dict[str, Any]:
    """The same, for lists: a tree that takes long to list holds up nobody who wants one file."""
    return serve(request, daemon, facts)


def share(request: Mapping[str, Any], daemon: Any = None, facts: Any = None) -> dict[str, Any]:
    """The same, for packs of other nodes: no remote that stands still holds them up."""
    return serve(request, daemon, facts)


def _fetch(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    @param request: as of a L{repository.Fetch}. C{had} tells the state that whoever asks knows:
        C{at}, and how many objects are C{large}. With C{one} false many packs stay many.
    @return: the C{state}, or C{same}; the C{mark} for the next fetch; whether there are
        C{many} packs, so that the next fetch, or this one, may make them one.
    """
    fetch = repository.Fetch(request)
    try:
        fetch, state = _fetched(request, fetch)
    except (GitError, OSError) as error:
        if not fetch.is_less:
            raise
        text = error.text if isinstance(error, GitError) else str(error)
        return {"error": text, "state": fetch.state, "locks": fetch.locks}
    if fetch.is_known:
        return {"same": True, "locks": [], "mark": fetch.mark, "many": False}
    answer: dict[str, Any] = {"locks": fetch.locks, "mark": fetch.mark}
    packs = _packs(request["folder"], state)
    if packs > repository.MANY_PACKS and request.get("one", True) and not request.get("hold"):
        state = _in_one(request)
        answer["mark"] = b""
    answer["many"] = packs >= repository.MANY_PACKS
    if request.get("had") == [state.get("at"), len(state["large"])]:
        # Of hundreds of branches it takes longer to be told than to be found out
        return {**answer, "same": True}
    return {**answer, "state": state}


def _fetched(
    request: Mapping[str, Any], fetch: repository.Fetch
) -> tuple[repository.Fetch, dict[str, Any]]:
    try:
        return fetch, fetch.run()
    except GitError as error:
        if request.get("fresh") or not DAMAGE.search(error.text):
            raise
        # If the remote is to blame, this fails as well, and changes nothing
        again = repository.Fetch({**request, "fresh": True})
        return again, again.run()


def _packs(folder: str, state: Mapping[str, Any]) -> int:
    names = os.listdir(os.path.join(folder, state["repo"], "objects/pack"))
    return sum(name.endswith(".pack") for name in names)


def _in_one(request: Mapping[str, Any]) -> dict[str, Any]:
    """Make a repository of one pack out of one of many; the other is served until it is done."""
    folder = str(request["folder"])
    repository.keep(folder, request.get("keep") or (), float(request["seconds"]))
    old = repository.state_of(folder)
    again = dict(request, url=os.path.join(folder, old["repo"]), fresh=True, copy=True)
    for name in ("user", "password", "privkey", "passphrase", "proxy"):
        again.pop(name, None)
    again["refspecs"] = ["+refs/*:refs/*"]
    return repository.Fetch(again).run()


def _states(request: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of these remotes from before."""
    return {"states": {folder: repository.state_of(folder) for folder in request["folders"]}}


def _settle(request: Mapping[str, Any]) -> dict[str, Any]:
    """Have refs count whose objects were fetched before."""
    state = _of("packs", "settle")(request)
    if _packs(request["folder"], state) > repository.MANY_PACKS:
        state = _in_one(request)
    return {"state": state}


def _of(module: str, function: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A function of a module that is imported when it is called."""

    def do(request: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = getattr(import_module(f"{__package__}.{module}"), function)(request)
        return found

    return do


_DO = {
    "fetch": _fetch,
    "states": _states,
    "list": _of("lists", "everything"),
    "table": _of("lists", "table"),
    "spool": repository.spool,
    "pack": _of("packs", "pack"),
    "take": _of("packs", "take"),
    "settle": _settle,
}
