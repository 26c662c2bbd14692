"""
Publish a command from this minion to others, as far as the master's C{peer} option allows.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from saltwisted.domain.arguments import yamlify
from saltwisted.worker.exceptions import SaltInvocationError, SaltReqTimeoutError
from saltwisted.worker.unlogged import secret_function

log = logging.getLogger(__name__)

__virtualname__ = "publish"

__opts__: Any
__master__: Any

_PAUSE = 0.3
"""Seconds between two questions for returns, as in Salt."""


def __virtual__() -> str:
    return __virtualname__


def _args(given: Any) -> list[Any]:
    """What is handed over as C{arg}: a list as it is, a word as YAML reads it."""
    value = yamlify(given)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _marked(load: dict[str, Any]) -> dict[str, Any]:
    """
    A request, and that it is secret if the job is that makes it.

    What a state asks others for while it runs is not: it works with the answer, which would be
    stars.
    """
    if secret_function().startswith("publish."):
        load["no_log"] = True
    return load


def _connected() -> bool:
    return __master__ is not None and getattr(__master__, "connected", True)


def _publish(
    tgt: Any,
    fun: str,
    arg: Any,
    tgt_type: str,
    returner: str,
    timeout: Any,
    form: str,
    via_master: str | None = None,
) -> Any:
    if not _connected():
        log.error(
            "Cannot run publish commands without a connection to a salt master. No command sent."
        )
        return {}
    if fun.startswith("publish."):
        log.info("Cannot publish publish calls. Returning {}")
        return {}
    if via_master:
        masters = __opts__.get("master")
        known = masters if isinstance(masters, list) else [masters]
        if via_master not in known:
            raise SaltInvocationError(
                f"Could not find match for {via_master} in list of configured masters {known} "
                "when using `via_master` option"
            )
    load = {
        "cmd": "minion_pub",
        "fun": fun,
        "arg": _args(arg),
        "tgt": tgt,
        "tgt_type": tgt_type,
        "ret": returner,
        "tmo": timeout,
        "form": form,
        "id": __opts__["id"],
        "no_parse": __opts__.get("no_parse", []),
    }
    try:
        job = __master__.request(_marked(load))
    except SaltReqTimeoutError:
        return f"'{fun}' publish timed out"
    if not job:
        return {}
    expected = set(job["minions"])
    deadline = time.monotonic() + float(timeout)
    question = {"cmd": "pub_ret", "id": __opts__["id"], "jid": job["jid"]}
    while True:
        found = __master__.request(question) or {}
        if set(found) >= expected or time.monotonic() > deadline:
            break
        time.sleep(_PAUSE)
    if form == "clean":
        return {minion: answer["ret"] for minion, answer in found.items()}
    return found


def publish(
    tgt: Any,
    fun: str,
    arg: Any = None,
    tgt_type: str = "glob",
    returner: str = "",
    timeout: Any = 5,
    via_master: str | None = None,
) -> Any:
    """
    Run a function on other minions and answer with what each answered.

    CLI Example::

        salt system.example.com publish.publish '*' cmd.run 'ls -la /tmp'
        salt '*' publish.publish '*' network.interfaces tgt_type=glob timeout=30
    """
    return _publish(tgt, fun, arg, tgt_type, returner, timeout, "clean", via_master)


def full_data(
    tgt: Any,
    fun: str,
    arg: Any = None,
    tgt_type: str = "glob",
    returner: str = "",
    timeout: Any = 5,
) -> Any:
    """
    As C{publish.publish}, with all that the master knows of each return.

    CLI Example::

        salt system.example.com publish.full_data '*' cmd.run 'ls -la /tmp'
    """
    return _publish(tgt, fun, arg, tgt_type, returner, timeout, "full")


def runner(fun: str, arg: Any = None, timeout: Any = 5) -> Any:
    """
    Run a runner on the master and answer with what it answers; needs C{peer_run} there.

    CLI Example::

        salt publish.runner manage.down
    """
    if not _connected():
        return "No access to master. If using salt-call with --local, please remove."
    load = {
        "cmd": "minion_runner",
        "fun": fun,
        "arg": _args(arg),
        "tmo": timeout,
        "id": __opts__["id"],
        "no_parse": __opts__.get("no_parse", []),
    }
    try:
        return __master__.request(_marked(load))
    except SaltReqTimeoutError:
        return f"'{fun}' runner publish timed out"
