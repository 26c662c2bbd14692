"""
Results of states: their names, and those of parts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from saltwisted.domain.highstate import verdicts
from saltwisted.domain.pillar.settings import asked_environment
from saltwisted.utils._own import own
from saltwisted.worker import jobfiles
from saltwisted.worker.exceptions import CommandExecutionError
from saltwisted.worker.states import queue

check_onfail_requisites = own(__name__, verdicts.handled)
search_onfail_requisites = own(__name__, verdicts.failure_handlers)


def check_result(running: Any, recurse: bool = False, highstate: Any = None) -> bool:
    """Whether a run, results by their tags, has succeeded: C{highstate} names its handlers."""
    return verdicts.succeeded(running, highstate, recurse)


def get_active_states(opts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The jobs of this minion that run states now, this one too."""
    return [
        job
        for _, job in jobfiles.read_procs(opts["cachedir"])
        if str(job.get("fun", "")).startswith("state.")
        and jobfiles.is_job_process(job["pid"], str(job.get("jid", "")))
    ]


def check_prior_running_states(
    opts: Mapping[str, Any], jid: Any, active_jobs: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Those of some jobs that began before one; all of them if it has no id."""
    return queue.before(jid, [job for job in active_jobs if job.get("jid") is not None])


def get_sls_opts(opts: Mapping[str, Any], **kwargs: Any) -> dict[str, Any]:
    """
    A copy of the options with what C{localconfig}, C{saltenv} and C{pillarenv} change.

    @raises CommandExecutionError: C{lock_saltenv} forbids it.
    """
    changed = copy.deepcopy(dict(opts))
    if "localconfig" in kwargs:
        from saltwisted.worker.process.configio import load_from_disk

        loaded = load_from_disk("minion", None, overrides={"conf_file": kwargs["localconfig"]})
        return {**changed, **loaded.config.as_opts()}
    saltenv = kwargs.get("saltenv")
    if saltenv is not None:
        if opts.get("lock_saltenv") and str(saltenv) != opts.get("saltenv"):
            raise CommandExecutionError("lock_saltenv is enabled, saltenv cannot be changed")
        changed["saltenv"] = saltenv
    changed.update(asked_environment(opts, kwargs))
    return changed


def gen_tag(low: Mapping[str, Any]) -> str:
    """The key of a low chunk's result."""
    return "_|-".join(str(low[key]) for key in ("state", "__id__", "name", "fun"))


def merge_subreturn(
    original_return: dict[str, Any], sub_return: Mapping[str, Any], subkey: Any = None
) -> dict[str, Any]:
    """
    Put the result of a state's part into that of the state, which is changed and given back.

    @param subkey: what the changes are named after; the name of the part by default.
    """
    key = subkey or sub_return["name"]
    if sub_return["result"] is False:
        original_return["result"] = False
    comments = sub_return["comment"]
    if not isinstance(comments, list):
        comments = [comments]
    told = original_return.setdefault("comment", [])
    if isinstance(told, list):
        told.extend(comments)
    else:
        before = f"{told}\n" if told else told
        original_return["comment"] = before + "\n".join(comments)
    if sub_return["changes"]:
        original_return.setdefault("changes", {})[key] = sub_return["changes"]
    return original_return
