"""
What a minion on the master's machine may ask of the master, for C{saltutil}.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from saltwisted.domain.arguments import in_one_list, read_input
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.modules import _data
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError
from saltwisted.worker.orchestration.acts import Publishing
from saltwisted.worker.states.steps import ACTS

__opts__: Any


def _orchestration() -> Any:
    """What an orchestration asks of its master; C{None} for all other jobs."""
    return globals().get(ACTS)


def _tell_arguments(jid: Any, arguments: dict[str, Any]) -> None:
    """Stock's event before a step of an orchestration, with what it is about to do."""
    acts = _orchestration()
    if acts is not None and jid:
        acts.fire(f"salt/run/{jid}/args", arguments)


def _master_control() -> Any:
    """A connection to the master that runs on this machine, found by its configuration."""
    acts = _orchestration()
    if acts is not None:
        return acts
    from saltwisted.worker.control import ControlClient
    from saltwisted.worker.process.configio import load_from_disk

    place = __opts__["conf_file"]
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    config = load_from_disk("master", folder).config
    return ControlClient(os.path.join(config.sock_dir, "saltwisted.sock"))


@contextmanager
def _refusals() -> Iterator[None]:
    """What can go wrong between us and a master, in the words that callers know."""
    try:
        yield
    except TransportClosed as error:
        raise CommandExecutionError(
            "This command can only be executed on a minion that is located on the master."
        ) from error
    except RemoteError as error:
        raise CommandExecutionError(error.message) from error


_CLIENT_WORDS = frozenset(
    ("_cmd_meta", "failhard", "orchestration_jid", "ret_config", "ret_kwargs", "roster")
)
"""What C{saltutil.cmd} is told beside the arguments of the function."""
_ORCHESTRATIONS = ("state.orchestrate", "state.orch", "state.sls")
_UNDER = "__publish_under"
"""What the load has of a job that has a jid already: that, and the number of step and part."""


def cmd_iter(
    tgt: Any,
    fun: str,
    arg: Any = (),
    timeout: Any = None,
    tgt_type: str = "glob",
    ret: str = "",
    kwarg: Any = None,
    ssh: bool = False,
    **kwargs: Any,
) -> Iterator[dict[str, Any]]:
    """
    As C{saltutil.cmd}, each answer when it comes.
    """
    if ssh:
        raise CommandExecutionError("salt-ssh is not available")
    expect = bool(kwargs.pop("expect_minions", False))
    under = kwargs.pop(_UNDER, {})
    told = _orchestration() is not None
    words = {
        **(kwarg or {}),
        **{key: kwargs[key] for key in _data.clean_kwargs(**kwargs) if key not in _CLIENT_WORDS},
    }
    load: dict[str, Any] = {
        "tgt": tgt,
        "tgt_type": tgt_type,
        "fun": fun,
        "arg": in_one_list(arg, words),
        "ret": ret,
    }
    load["kwargs"] = {k: kwargs[k] for k in ("ret_config", "ret_kwargs") if kwargs.get(k)}
    if timeout is not None:
        load["timeout"] = timeout
    load.update(under)
    jid = ""
    silent: dict[str, None] = {}
    with _refusals(), _master_control() as master:
        for item in master.stream("run", **load):
            if item["kind"] == "published":
                jid = item["jid"]
                silent.update(dict.fromkeys(item["minions"]))
            elif item["kind"] == "return":
                silent.pop(item["id"], None)
                data = dict(item["data"])
                yield {
                    item["id"]: {
                        "ret": data.get("return"),
                        "retcode": data.get("retcode", 0),
                        "jid": data.get("jid", jid),
                        **({"out": data["out"]} if data.get("out") else {}),
                    }
                }
    if expect:
        for minion in silent:
            yield {minion: {"failed": True, "jid": jid} if told else {"failed": True}}


def cmd(
    tgt: Any,
    fun: str,
    arg: Any = (),
    timeout: Any = None,
    tgt_type: str = "glob",
    ret: str = "",
    kwarg: Any = None,
    ssh: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a function on other minions; works where the master runs on the same machine.

    CLI Example::

        salt '*' saltutil.cmd '*' test.ping
    """
    batch, subset = kwargs.pop("batch", None), kwargs.pop("subset", None)
    hard = bool(batch and kwargs.get("failhard"))
    acts = _orchestration()
    how = acts.take() if acts is not None else Publishing()
    under: dict[str, Any] = {"jid": how.jid} if how.jid else {}
    turns: list[Any] = [tgt]
    found: dict[str, Any] = {}
    if batch or subset:
        target, tgt_type = (tgt, tgt_type), "list"
        if how.parts is None:
            expect = bool(batch and kwargs.get("expect_minions"))
            turns, found = _parts(target, fun, batch, subset, timeout, expect)
            if how.jid:
                acts.in_parts(how, turns, dict(found))
        else:
            # As the master that died had decided
            turns, found = how.parts["turns"], dict(how.parts["lost"])
    # A minion that was lost before the first part is a failure as well
    for part, who in enumerate(() if found and hard else turns):
        failed = False
        if under and (batch or subset):
            under.update(step=how.step, part=part)
        kwargs[_UNDER] = under
        for answer in cmd_iter(who, fun, arg, timeout, tgt_type, ret, kwarg, ssh, **kwargs):
            found.update(answer)
            failed = failed or any(
                data.get("retcode") or data.get("failed") for data in answer.values()
            )
        if failed and hard:
            break
    return found


def _parts(
    target: tuple[Any, str], fun: str, batch: Any, subset: Any, timeout: Any, expect: bool
) -> tuple[list[list[str]], dict[str, Any]]:
    """
    The minions of each part of a job, by asking who is there; and those that are silent now: they
    are lost to a batch, and shall be named.

    @param target: with its type.
    @raises SaltInvocationError: a number is none.
    """
    asked = "sys.list_functions" if subset and not batch else "test.ping"
    tgt, tgt_type = target
    lost: dict[str, Any] = {}
    minions: list[str] = []
    for answer in cmd_iter(tgt, asked, timeout=timeout, tgt_type=tgt_type, expect_minions=expect):
        for minion, data in answer.items():
            if "failed" in data:
                lost[minion] = data
            elif asked == "test.ping" or fun in (data["ret"] or ()):
                minions.append(minion)
    if batch:
        size = _batch_size(batch, len(minions))
        return [minions[at : at + size] for at in range(0, len(minions), size)], lost
    return [random.sample(minions, min(int(subset), len(minions)))], lost


def _batch_size(batch: Any, count: int) -> int:
    """
    How many of so many minions: a number or a percentage.

    @raises SaltInvocationError: neither.
    """
    text = str(batch)
    try:
        if text.endswith("%"):
            return max(1, int(float(text[:-1]) / 100.0 * count))
        return max(1, int(text))
    except ValueError as error:
        raise SaltInvocationError(f"Invalid batch size: {text}") from error


def runner(
    name: str,
    arg: Any = None,
    kwarg: Any = None,
    full_return: bool = False,
    saltenv: str = "base",
    jid: str | None = None,
    **kwargs: Any,
) -> Any:
    """
    Run a runner; works where the master runs on the same machine.

    CLI Example::

        salt master_minion saltutil.runner jobs.list_jobs
        salt master_minion saltutil.runner test.arg arg="['baz']" kwarg="{'foo': 'bar'}"
    """
    orchestration = kwargs.pop("__orchestration_jid__", None)
    saltenv = kwargs.pop("__env__", saltenv)
    given, words = _read(arg, {**_keywords(kwarg), **_data.clean_kwargs(**kwargs)})
    if name in _ORCHESTRATIONS and orchestration:
        words["orchestration_jid"] = orchestration
    told = {"fun": name, "arg": given, "kwarg": words}
    if _orchestration() is not None:
        told["saltenv"] = str(saltenv)
    _tell_arguments(
        orchestration, {"type": "runner", "name": name, "args": list(arg or ()), "kwargs": words}
    )
    with _refusals(), _master_control() as master:
        answer = master.call("runner", **told)
    return answer if full_return else answer.get("return")


def wheel(name: str, *args: Any, **kwargs: Any) -> Any:
    """
    Run a wheel function; works where the master runs on the same machine.

    CLI Example::

        salt my-local-minion saltutil.wheel key.accept jerry
        salt my-local-minion saltutil.wheel minions.connected
    """
    orchestration = kwargs.pop("__orchestration_jid__", None)
    words = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    given, named = _read(args, words)
    _tell_arguments(orchestration, {"type": "wheel", "name": name, "args": words})
    with _refusals(), _master_control() as master:
        answer = master.call("wheel", fun=name, arg=given, kwarg=named)
    shown = [*given, *([named] if named else [])]
    told = {"fun": f"wheel.{name}", "fun_args": shown, "_stamp": _stamp(), **answer}
    # The keys of stock's, which are those of the event that tells of the call
    return {key: value for key, value in told.items() if key not in ("tag", "retcode")}


def _stamp() -> str:
    return datetime.now(UTC).replace(tzinfo=None).isoformat()


def _keywords(kwarg: Any) -> dict[str, Any]:
    """
    What is handed over as C{kwarg}.

    @raises SaltInvocationError: it is no map.
    """
    if kwarg is not None and not isinstance(kwarg, dict):
        raise SaltInvocationError("kwarg must be formatted as a dictionary")
    return dict(kwarg or {})


def _read(arg: Any, named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """
    Positional and keyword arguments for a function of the master, as a command line has them.

    @raises SaltInvocationError: C{arg} is no list.
    """
    if arg is not None and not isinstance(arg, (list, tuple)):
        raise SaltInvocationError("arg must be formatted as a list/tuple")
    return read_input(arg or (), named, __opts__.get("no_parse") or ())
