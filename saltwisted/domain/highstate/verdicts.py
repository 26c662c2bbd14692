"""
Whether a call may run once its requisites have run, and the result of the whole run.

These are pure functions of results. The wording of comments is that of C{salt/state.py}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from saltwisted.domain.highstate.words import Chunk, High, Running, as_list, split_tag

Required = dict[str, list[tuple[str, Chunk]]]
"""Kind of requisite to the tags and calls it names."""

NOT_RUN = {
    "skip_req": "State was not run because requisites were skipped by another state",
    "pre": "No changes detected",
    "onfail": "State was not run because onfail req did not change",
    "onchanges": "State was not run because none of the onchanges reqs changed",
}
"""The statuses that end a call without a run, with their comments."""


def grouped(requirements: Iterable[tuple[str, str, Chunk]]) -> Required:
    """What L{saltwisted.domain.highstate.graph.Graph.requirements} gives, by kind."""
    found: Required = {}
    for kind, tag, chunk in requirements:
        found.setdefault(kind, []).append((tag, chunk))
    return found


def status_of(required: Required, running: Running, trials: Running, pending: bool = False) -> str:
    """
    What the requisites of a call say.

    @param trials: results of prerequired calls in test mode.
    @param pending: some of them still run in processes of their own.
    @return: C{met}, C{change} (a watched state changed), C{unmet} (one has no result yet),
        C{pending}, C{fail}, C{skip_watch}, or a key of L{NOT_RUN}.
    """
    total: set[str] = set()
    for kind, items in required.items():
        base = kind.removesuffix("_any").removesuffix("_all")
        results = trials if base == "prereq" else running
        stats: set[str] = set()
        for tag, _ in items:
            result = results.get(tag)
            if not result:
                stats.add("unmet")
            elif not pending:
                _note(base, result, stats)
        if kind.endswith("_any") or kind == "onfail":
            if "met" in stats or "change" in stats:
                stats.discard("fail")
            if "onchangesmet" in stats:
                stats -= {"onchanges", "fail"}
            if "met" in stats:
                stats.discard("onfail")
        if kind.endswith("_all") and "onfail" in stats:
            stats.discard("met")
        total |= stats
    return _verdict(total, pending)


def _note(base: str, result: Mapping[str, Any], stats: set[str]) -> None:
    """What one finished requisite says."""
    if result.get("skip_req"):
        stats.add("skip_req")
    outcome = result["result"]
    if base == "onfail":
        if outcome is True:
            stats.add("onfail")
            return
    elif base == "onchanges":
        # A failure counts as no change; the change of another target still lets the call run.
        changed = outcome is not False and result["changes"]
        stats.add("onchangesmet" if changed else "onchanges")
        return
    elif outcome is False:
        stats.add("fail")
        return
    if base == "watch" and result["changes"]:
        stats.add("change")
    elif base == "prereq":
        stats.add("premet" if outcome is None else "pre")
    elif result.get("__state_ran__", True):
        stats.add("met")


def _verdict(total: set[str], pending: bool) -> str:
    if "unmet" in total:
        return "unmet"
    if pending:
        return "pending"
    if "fail" in total:
        return "fail"
    if "skip_req" in total:
        if total & {"onchangesmet", "premet"}:
            return "skip_req"
        if "change" in total:
            return "skip_watch"
    if "pre" in total:
        return "met" if "premet" in total else "pre"
    if "onchangesmet" not in total:
        for word in ("onfail", "onchanges"):
            if word in total:
                return word
    if "change" in total:
        return "change"
    return "onfail" if "onfail" in total else "met"


def failed_requisites(required: Required, running: Running, trials: Running) -> str:
    """The comment of a call that a requisite's failure keeps from running."""
    names: dict[str, None] = {}
    for items in required.values():
        for tag, chunk in items:
            result = trials.get(tag, running.get(tag))
            if result is not None and result["result"] is False:
                names[f"{chunk['__sls__']}.{chunk['__id__']}"] = None
    return f"One or more requisite failed: {', '.join(names)}"


# -- what a state function gave back --------------------------------------------------


class Malformed(Exception):
    """A state function's answer is not a result."""


def unified(result: Any) -> Any:
    """
    A state's answer in a uniform form: C{comment} a text, C{result} true, false or C{None}.

    An answer that is not a result becomes a failed one that says so.
    """
    parts = result.get("sub_state_run", ()) if isinstance(result, dict) else ()
    result = _unified(result)
    if parts:
        result["sub_state_run"] = [_unified(part) for part in parts]
    return result


def _unified(result: Any) -> Any:
    try:
        _check(result)
    except Malformed as error:
        result = {
            "result": False,
            "name": "later",
            "changes": {},
            "comment": f"An exception occurred in this state: {error}",
        }
    comment = result.get("comment")
    if isinstance(comment, list):
        result["comment"] = "\n".join(str(line) for line in comment)
    if result.get("result") is not None:
        result["result"] = bool(result["result"])
    return result


def _check(result: Any) -> None:
    if not isinstance(result, dict):
        raise Malformed("Malformed state return. Data must be a dictionary type.")
    if not isinstance(result.get("changes"), dict):
        raise Malformed("'Changes' should be a dictionary.")
    missing = [key for key in ("name", "result", "changes", "comment") if key not in result]
    if missing:
        raise Malformed(
            f"The following keys were not present in the state return: {', '.join(missing)}."
        )
    for part in result.get("sub_state_run", ()):
        _check(part)


# -- the whole run ----------------------------------------------------------------------


def succeeded(running: Any, high: Any = None, recurse: bool = False) -> bool:
    """
    Whether a run counts as a success.

    A failure whose C{onfail} handler says C{onfail_stop: False} and succeeds does not count.

    @param high: the high data, for those handlers.
    """
    if not isinstance(running, dict) or not running:
        return False
    good = True
    for tag, result in running.items():
        expected = list if tag == "__extend__" else dict
        if not recurse and not isinstance(result, expected):
            good = False
        if good and isinstance(result, dict):
            if "result" not in result:
                good = succeeded(result, high, recurse=True)
            elif result["result"] is False:
                good = False
        if not good:
            good = bool(handled(tag, result, running, high))
        if not good:
            return False
    return good


def handled(tag: str, result: Any, running: dict[str, Any], high: Any) -> bool | None:
    """
    Whether the handlers of a failure succeeded; C{None}: it has none.

    @param running: the results so far, by their tags.
    """
    if not (tag and result and high and isinstance(high, dict)):
        return None
    verdict: bool | None = None
    for id_, module, _ in failure_handlers(tag, high):
        for other, outcome in running.items():
            if "_|-" in other:
                about = split_tag(other)
            else:
                about = {"__id__": outcome.get("__id__", other), "state": module}
            if about["state"] == module and about["__id__"] == id_:
                if outcome.get("result") in (True, False):
                    verdict = outcome["result"]
                if outcome.get("result") is False:
                    break
        if verdict is None:
            verdict = False
    return verdict


def failure_handlers(tag: str, high: High) -> list[tuple[Any, str, list[Any]]]:
    """Id, module and arguments of the states that handle a failure: C{onfail_stop: False}."""
    about = split_tag(tag) if "_|-" in tag else {"__id__": tag}
    found = []
    for id_, body in high.items():
        if id_ == about["__id__"] or not isinstance(body, dict):
            continue
        for module, run in body.items():
            if not isinstance(module, str) or module.startswith("__") or not isinstance(run, list):
                continue
            args = [arg for arg in run if isinstance(arg, dict)]
            if not any(arg.get("onfail_stop", True) is False for arg in args):
                continue
            for arg in args:
                for ref in as_list(arg.get("onfail")):
                    for kind, value in ref.items() if isinstance(ref, dict) else ():
                        if value == about["__id__"] and kind == about.get("state", kind):
                            found.append((id_, module, run))
    return found


def without_uneventful(running: dict[str, Any]) -> dict[str, Any]:
    """C{state_data: terse}: only what failed or changed something."""
    return {tag: value for tag, value in running.items() if not value["result"] or value["changes"]}
