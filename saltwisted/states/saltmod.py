"""
Orchestration: states, functions, runners and wheel functions from a state tree on the master.

All of it goes through C{saltutil.cmd}, C{saltutil.runner} and C{saltutil.wheel}, which ask the
master on this machine. What their answers mean is in C{_salt_results}.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from saltwisted.errors import SaltwistedError
from saltwisted.modules import _data
from saltwisted.modules._arguments import picked
from saltwisted.states import _salt_results
from saltwisted.worker.control import ControlClient
from saltwisted.worker.exceptions import SaltException, nested_text
from saltwisted.worker.states.steps import ACTS

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any
__env__: str
__orchestration_jid__: Any
__virtualname__ = "salt"


def __virtual__() -> str:
    return __virtualname__


def _jid() -> Any:
    return globals().get("__orchestration_jid__")


def _commanded(kind: str, name: str, tgt: Any, fun: str, words: Mapping[str, Any]) -> Any:
    """
    What minions answer to a function.

    The master's bus has stock's event before, with what a step of an orchestration is about to do.
    """
    acts, jid = globals().get(ACTS), _jid()
    if acts is not None and jid:
        data = {"type": kind, "tgt": tgt, "name": name, "args": dict(words)}
        acts.fire(f"salt/run/{jid}/args", data)
    return __salt__["saltutil.cmd"](tgt, fun, **words)


def _new(name: str) -> dict[str, Any]:
    return {"name": name, "changes": {}, "comment": "", "result": True}


def _command(given: Mapping[str, Any]) -> dict[str, Any]:
    """
    Arguments for C{saltutil.cmd}.

    @param given: those of the state.
    """
    words = {key: given[key] for key in ("ret", "timeout", "tgt_type", "ssh", "expect_minions")}
    more = {
        "batch": None if given["batch"] is None else str(given["batch"]),
        "subset": given["subset"],
        "failhard": True if given["failhard"] is True or __opts__.get("failhard") else None,
        "ret_config": given["ret_config"] or None,
        "ret_kwargs": given["ret_kwargs"] or None,
        "roster": given["kwargs"].get("roster"),
    }
    words.update({key: value for key, value in more.items() if value is not None})
    return words


def _keep_jid(ret: dict[str, Any], answers: Mapping[str, Any]) -> None:
    first: Mapping[str, Any] = next(iter(answers.values()), {})
    if "jid" in first:
        ret["__jid__"] = first["jid"]


def _wanted(highstate: Any, top: Any, sls: Any) -> tuple[str, list[Any]]:
    """The function of C{state} and its arguments; nothing if nothing is to be applied."""
    if highstate:
        return "state.highstate", []
    if top:
        return "state.top", [top]
    if sls:
        return "state.sls", [",".join(sls) if isinstance(sls, list) else sls]
    return "", []


def _for_apply(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for C{state.apply}, from those of the state."""
    test = given["test"]
    testing = test if test is not None else __opts__.get("test")
    kwarg = {
        "test": testing if test is not None or testing else None,
        "pillar": given["pillar"] or None,
        **picked(given, ("pillarenv", "saltenv", "exclude", "queue", "concurrent")),
    }
    return {key: value for key, value in kwarg.items() if value is not None}


def state(
    name: str,
    tgt: Any,
    ssh: bool = False,
    tgt_type: str = "glob",
    ret: Any = "",
    ret_config: Any = None,
    ret_kwargs: Any = None,
    highstate: Any = None,
    sls: Any = None,
    top: Any = None,
    saltenv: Any = None,
    test: Any = None,
    pillar: Any = None,
    pillarenv: Any = None,
    expect_minions: bool = True,
    exclude: Any = None,
    fail_minions: Any = None,
    allow_fail: Any = 0,
    concurrent: Any = False,
    timeout: Any = None,
    batch: Any = None,
    queue: Any = False,
    subset: Any = None,
    orchestration_jid: Any = None,
    failhard: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    States have been applied on minions.

    tgt, tgt_type
        Which minions.
    highstate, sls, top
        What: everything, these trees, or those of a top file.
    saltenv, pillarenv, pillar, exclude, test, queue, concurrent
        As for C{state.apply}.
    expect_minions, fail_minions, allow_fail
        That some must answer, which may fail, and how many may.
    timeout, batch, subset, ret
        As for the command C{salt}.
    """
    words = _command(locals())
    made = _new(name)

    def refuse(text: str) -> dict[str, Any]:
        made["result"] = False
        made["comment"] = text
        return made

    try:
        allow_fail = int(allow_fail)
    except ValueError:
        return refuse("Passed invalid value for 'allow_fail', must be an int")
    function_name, args = _wanted(highstate, top, sls)
    if not function_name:
        return refuse("No highstate or sls specified, no execution made")
    if not isinstance(concurrent, bool):
        return refuse("Must pass in boolean for value of 'concurrent'")
    kwarg = _for_apply(locals())
    if not ssh and __opts__.get("__role") == "minion" and __opts__.get("file_client") == "local":
        answer = __salt__[function_name](*args, **kwarg)
        answers: dict[str, Any] = {__opts__["id"]: {"ret": answer, "out": "highstate"}}
    else:
        words.update(arg=args, kwarg=kwarg)
        answers = _commanded("state", name, tgt, function_name, words)
    _keep_jid(made, answers)
    may_fail = _salt_results.expected_failures(fail_minions, made)
    if not answers and expect_minions:
        return refuse("No minions returned")
    _salt_results.StateRuns.sort(answers, may_fail).tell(made, allow_fail)
    if (test or __opts__.get("test")) and made["changes"] and made["result"] is True:
        made["result"] = None
    return made


def function(
    name: str,
    tgt: Any,
    ssh: bool = False,
    tgt_type: str = "glob",
    ret: Any = "",
    ret_config: Any = None,
    ret_kwargs: Any = None,
    expect_minions: Any = None,
    fail_minions: Any = None,
    fail_function: str | None = None,
    arg: Any = None,
    kwarg: Any = None,
    timeout: Any = None,
    batch: Any = None,
    subset: Any = None,
    failhard: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A function has been called on minions.

    arg, kwarg
        Its arguments.
    fail_function
        A function that judges each answer.
    expect_minions
        False: a minion that does not answer is no failure.

    Other arguments are those of C{state}.
    """
    # Stock forgets who does not answer, and says that all went well
    expect_minions = expect_minions is None or bool(expect_minions)
    words = _command(locals())
    made = _new(name)
    if isinstance(arg, str):
        made["warnings"] = ["Please specify 'arg' as a list of arguments."]
        arg = arg.split()
    if __opts__["test"] is True:
        made["comment"] = f"Function {name} would be executed on target {tgt}"
        made["result"] = None
        return made
    words.update(arg=arg or [], kwarg=kwarg or {})
    try:
        answers = _commanded("function", name, tgt, name, words)
    except Exception as error:
        # Whatever it is, stock makes a comment of it.
        made["result"] = False
        made["comment"] = str(error)
        return made
    _keep_jid(made, answers)
    may_fail = _salt_results.expected_failures(fail_minions, made)
    if not answers:
        made["result"] = False
        made["comment"] = "No minions responded"
        return made
    changes, failed = _judged(answers, fail_function, may_fail)
    made["changes"] = {"ret": changes}
    made["comment"] = _said(name, answers, failed)
    if failed:
        made["result"] = False
    return made


def _said(name: str, answers: Mapping[str, Any], failed: list[str]) -> str:
    """What there is to say of a function that minions were told; stock names who failed alone."""
    told = "Function ran successfully."
    if failed:
        told = f"Running function {name} failed on minions: {', '.join(failed)}"
    ran = [minion for minion in answers if not answers[minion].get("failed")]
    told += f" Function {name} ran on {', '.join(ran)}." if ran else ""
    told += "".join(
        f"\nMinion {minion} did not return. Its job is {data.get('jid', 'not known')}."
        for minion, data in answers.items()
        if data.get("failed")
    )
    wheres = [_salt_results.whereabouts(minion, answers[minion]) for minion in failed]
    return told + "".join(
        f"\n{where}"
        for minion, where in zip(failed, wheres, strict=True)
        if where and not answers[minion].get("failed")
    )


def _judged(
    answers: Mapping[str, Any], fail_function: str | None, may_fail: Any
) -> tuple[dict[str, Any], list[str]]:
    """What each minion has answered, and which of them have failed."""
    changes: dict[str, Any] = {}
    failed: list[str] = []
    for minion, data in answers.items():
        fine = not data.get("failed", False)
        answer = data.get("ret", data.get("return", False)) if fine else False
        if fine and fail_function:
            fine = bool(__salt__[fail_function](answer))
        if data.get("retcode") or ((not fine or answer is False) and minion not in may_fail):
            failed.append(minion)
        changes[minion] = answer
    return changes, failed


def wait_for_event(
    name: str, id_list: Any, event_id: str = "id", timeout: Any = 300, node: str = "master"
) -> dict[str, Any]:
    """
    Events have been seen, for each of several ids.

    name
        A glob for their tags.
    id_list, event_id
        The ids, and what holds them in the events' data.
    timeout
        Seconds to wait for all.
    """
    made = {**_new(name), "result": False}
    if __opts__.get("test"):
        made["comment"] = f"Orchestration would wait for event '{name}'"
        made["result"] = None
        return made
    if node != "master":
        made["comment"] = f"Cannot wait for events of a {node}, only for those of the master"
        return made
    start = time.time()
    left = list(id_list)
    client = ControlClient(os.path.join(__opts__["sock_dir"], "saltwisted.sock"))
    stream = client.stream_within(timeout, "events", tags=[""], match="startswith")
    try:
        for item in stream:
            if not item.get("ready") and fnmatch.fnmatch(item["tag"], name):
                for one in _salt_results.seen(item, event_id):
                    if one in left:
                        left.remove(one)
                        made["changes"].setdefault("minions_seen", []).append(one)
            if not left:
                made["result"] = True
                made["comment"] = f"All events seen in {time.time() - start} seconds."
                break
            if time.time() - start > timeout:
                made["comment"] = "Timeout value reached."
                break
    except TimeoutError:
        made["comment"] = "Timeout value reached."
    except SaltwistedError as error:
        made["comment"] = f"The master's events cannot be read: {error}"
    finally:
        stream.close()
        client.close()
    return made


def _told(name: str, kind: str, out: Mapping[str, Any]) -> dict[str, Any]:
    """The return for what a runner or wheel function answered."""
    answer = out.get("return")
    broken = isinstance(answer, Mapping) and "Error" in answer
    success = False if broken else out.get("success", True)
    made: dict[str, Any] = {
        "name": name,
        "changes": {"return": answer},
        "result": success,
        "comment": f"{kind} function '{name}' {'executed' if success else 'failed'}.",
    }
    if "jid" in out:
        made["__jid__"] = out["jid"]
    return made


def runner(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A runner has run on the master, with these arguments.
    """
    if __opts__.get("test", False):
        made = {**_new(name), "result": None}
        made["comment"] = f"Runner function '{name}' would be executed."
        return made
    out = __salt__["saltutil.runner"](
        name, __orchestration_jid__=_jid(), __env__=__env__, full_return=True, **kwargs
    )
    return _told(name, "Runner", out)


def wheel(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A wheel function has run on the master, with these arguments.
    """
    if __opts__.get("test", False):
        made = {**_new(name), "result": None}
        made["comment"] = f"Wheel function '{name}' would be executed."
        return made
    out = __salt__["saltutil.wheel"](name, __orchestration_jid__=_jid(), __env__=__env__, **kwargs)
    return _told(name, "Wheel", out)


def parallel_runners(name: str, runners: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Several runners have run on the master at once.

    runners
        By id, each a C{name} and a C{kwarg}; or the name of one.
    """
    made = _new(name)
    if isinstance(runners, str):
        runners = {runners: [{name: runners}]}
    if not isinstance(runners, dict):
        made["result"] = False
        made["comment"] = "The runners parameter must be a string or dict."
        return made
    work = {
        key: {"name": key, **(_data.repack_dictlist(given) if given else {})}
        for key, given in runners.items()
    }

    def run(one: Mapping[str, Any]) -> Any:
        return __salt__["saltutil.runner"](
            one["name"],
            __orchestration_jid__=_jid(),
            __env__=__env__,
            full_return=True,
            **(one.get("kwarg") or {}),
        )

    try:
        with ThreadPoolExecutor(max_workers=min(32, len(work) or 1)) as pool:
            answers = pool.map(run, work.values())
            found = dict(zip(work, answers, strict=True))
    except SaltException as error:
        made["result"] = made["success"] = False
        made["comment"] = f"One of the runners raised an exception: {error}"
        return made
    _tell_runners(made, found)
    return made


def _tell_runners(made: dict[str, Any], found: Mapping[str, Mapping[str, Any]]) -> None:
    """Complete the return of C{parallel_runners}; C{found} is the whole answer of each."""
    outputs = {key: out["return"] for key, out in found.items()}
    # Stock looks for return codes where its own orchestrations have none any more
    bad = {key for key, out in found.items() if not out.get("success", True)}
    as_states = all(
        isinstance(out, Mapping) and out.get("outputter", "") == "highstate" and "data" in out
        for out in outputs.values()
    )
    made["comment"] = "All runner functions executed successfully."
    if as_states:
        failed = [
            key
            for key, out in outputs.items()
            if key in bad or out["data"].get("retcode", 0) != 0 or out.get("retcode")
        ]
        if failed:
            made["comment"] = "\n".join(
                f"Runner {key} failed with return value:\n"
                + "\n".join(f"  {line}" for line in nested_text(outputs[key]).splitlines())
                for key in failed
            )
        changes = {key: _salt_results.extracted_changes(o["data"]) for key, o in outputs.items()}
        made["changes"] = {key: one for key, one in changes.items() if one}
    else:
        failed = [
            key
            for key, out in outputs.items()
            if key in bad or (isinstance(out, Mapping) and out.get("exit_code", 0) != 0)
        ]
        if len(failed) == 1:
            made["comment"] = f"Runner {failed[0]} failed."
        elif failed:
            made["comment"] = f"Runners {', '.join(failed)} failed."
        made["changes"] = {"ret": dict(outputs)}
    made["result"] = not failed
