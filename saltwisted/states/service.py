"""
Services: that they run or not, start with the machine or not, are masked or not.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable
from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError

__salt__: Any
__opts__: Any
__grains__: Any
__context__: Any
__states__: Any


def __virtual__() -> Any:
    if "service.start" in __salt__:
        return True
    system = __grains__.get("osfinger", __grains__.get("os"))
    return (
        False,
        f"No service execution module loaded: check support for service management on {system} ",
    )


def _new(name: str) -> dict[str, Any]:
    return {"name": name, "changes": {}, "result": True, "comment": ""}


def _error(ret: dict[str, Any], text: str) -> dict[str, Any]:
    ret["result"] = False
    ret["comment"] = text
    return ret


def _systemd_words(
    ret: dict[str, Any], function: Callable[..., Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments for systemd alone that a function takes; a warning where that is not."""
    known = inspect.signature(function).parameters
    found: dict[str, Any] = {}
    for word in ("no_block", "unmask", "unmask_runtime"):
        if word not in kwargs or word not in known:
            continue
        if os.path.isdir("/run/systemd/system"):
            found[word] = kwargs[word]
            continue
        text = f"The '{word}' argument is not supported by this platform"
        if text not in ret.setdefault("warnings", []):
            ret["warnings"].append(text)
    return found


def _yes(value: Any) -> bool | None:
    """What an SLS means by a text for true or false."""
    if not isinstance(value, str):
        return value  # type: ignore[no-any-return]
    try:
        return float(value) > 0
    except ValueError:
        return value.lower() == "true"


def _offline() -> bool:
    return "service.offline" in __salt__ and bool(__salt__["service.offline"]())


def _known(name: str) -> bool:
    if "service.available" in __salt__:
        return bool(__salt__["service.available"](name))
    return "service.get_all" in __salt__ and name in __salt__["service.get_all"]()


def _starts_at_boot(name: str) -> bool:
    if "service.enabled" not in __salt__:
        return True
    return bool(__salt__["service.enabled"](name))


def _at_boot(
    name: str, on: bool, started: bool | None, result: bool = True, **kwargs: Any
) -> dict[str, Any]:
    """
    Let a service start with the machine, or not.

    @param started: whether it runs now, C{None} if it is as it should be.
    @param result: the result if this goes well.
    @return: fields for a return.
    """
    verb = "enable" if on else "disable"
    past = f"{verb}d"
    try:
        if not _known(name):
            text = f"The named service {name} is not available"
            return {"result": not on, "comment": text}
    except CommandExecutionError as error:
        return {"result": False, "comment": error.strerror}

    def now(running: str, settled: str, dead: str) -> str:
        if started is True:
            return running
        return settled if started is None else dead

    if f"service.{verb}" not in __salt__ or f"service.{past}" not in __salt__:
        text = now(f"{name} started", f"{name} is in the desired state", f"{name} is dead")
        return {
            "result": result,
            "comment": f"{verb.capitalize()} is not available on this minion, service {text}",
        }
    state = now("is running", "is in the desired state", "is dead")
    words = kwargs if on else {}
    before = __salt__[f"service.{past}"](name, **words)
    if before:
        found: dict[str, Any] = {
            "result": result,
            "comment": f"Service {name} is already {past}, and {state}",
        }
        if started is None:
            found["changes"] = {}
        return found
    if __opts__["test"]:
        return {"result": None, "comment": f"Service {name} set to be {past}"}
    problem = ""
    try:
        if __salt__[f"service.{verb}"](name, **kwargs):
            after = __salt__[f"service.{past}"](name, **words)
            return {
                "result": result,
                "changes": {} if before == after else {name: True},
                "comment": f"Service {name} has been {past}, and {state}",
            }
    except CommandExecutionError as error:
        if not on:
            raise
        problem = error.strerror
    what = "to start at boot" if on else "to not start at boot"
    running = "but the service is running" if on else "and is running"
    text = f"Failed when setting service {name} {what}, " + now(
        running, "but the service was already running", "and the service is dead"
    )
    if problem:
        text += f". Additional information follows:\n\n{problem}"
    return {"result": False, "comment": text}


def _prepared(name: str, mode: str, ret: dict[str, Any], kwargs: dict[str, Any], done: str) -> bool:
    """The start of C{running} and C{dead}; false if that is all."""
    __context__["service.state"] = mode
    if "enabled" in kwargs:
        _error(
            ret,
            f'Service {name} uses non-existent option "enabled".  Perhaps "enable" option was '
            "intended?",
        )
        return False
    if _offline():
        ret["comment"] = "Running in OFFLINE mode. Nothing to do"
        return False
    try:
        if _known(name):
            return True
    except CommandExecutionError as error:
        _error(ret, error.strerror)
        return False
    _error(ret, f"The named service {name} is not available")
    if __opts__.get("test"):
        ret["result"] = None
        ret["comment"] = (
            f"Service {name} not present; if created in this state run, it would have been {done}"
        )
    elif mode == "dead":
        ret["result"] = True
    return False


def _boot_as_wanted(
    ret: dict[str, Any],
    enable: Any,
    started: bool | None,
    kwargs: dict[str, Any],
    result: bool = True,
    before: bool | None = None,
) -> None:
    """Apply C{enable}; where C{before} is given, only if it differs."""
    if enable is True and not before:
        ret.update(_at_boot(ret["name"], True, started, result, **kwargs))
    elif enable is False and before is not False:
        ret.update(_at_boot(ret["name"], False, started, result, **kwargs))


def running(
    name: str, enable: Any = None, sig: Any = None, init_delay: Any = None, **kwargs: Any
) -> dict[str, Any]:
    """
    A service runs.

    enable
        Whether it also starts with the machine.
    sig
        What to look for among processes, where nothing else tells that it runs.
    init_delay
        Seconds to wait before looking whether it came up.
    unmask, unmask_runtime, no_block
        For systemd: unmask it first; do not wait for it.
    """
    ret = _new(name)
    enable = _yes(enable)
    if not _prepared(name, "running", ret, kwargs, "started"):
        return ret
    status_words = _systemd_words(ret, __salt__["service.status"], kwargs)
    before = __salt__["service.status"](name, sig, **status_words)
    boot_before = _starts_at_boot(name)
    unmask = bool(kwargs.get("unmask", False))
    unmask_text = ""
    if unmask:
        unmask_text = unmasked(name, kwargs.get("unmask_runtime", False))["comment"]
    more = f"\n{unmask_text}" if unmask_text else ""
    if before:
        ret["comment"] = f"The service {name} is already running{more}"
        _boot_as_wanted(ret, enable, None, kwargs, before=boot_before)
        return ret
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"Service {name} is set to start{more}"
        return ret
    start_words = _systemd_words(ret, __salt__["service.start"], kwargs)
    try:
        did = __salt__["service.start"](name, **start_words)
    except CommandExecutionError as error:
        return _error(ret, error.strerror)
    if not did:
        _error(ret, f"Service {name} failed to start")
        _boot_as_wanted(ret, enable, False, kwargs, result=False)
        return ret
    if init_delay:
        time.sleep(init_delay)
    after = __salt__["service.status"](name, sig, **status_words)
    if before != after or boot_before != _starts_at_boot(name):
        ret["changes"][name] = after
    if after:
        ret["comment"] = f"Started service {name}"
    else:
        _error(ret, f"Service {name} failed to start")
    _boot_as_wanted(ret, enable, after, kwargs, result=after)
    if init_delay:
        ret["comment"] += f"\nDelayed return for {init_delay} seconds"
    if unmask:
        ret["comment"] += f"\n{unmask_text}"
    return ret


def dead(
    name: str, enable: Any = None, sig: Any = None, init_delay: Any = None, **kwargs: Any
) -> dict[str, Any]:
    """
    A service does not run. The arguments are those of C{running}.
    """
    ret = _new(name)
    enable = _yes(enable)
    if not _prepared(name, "dead", ret, kwargs, "stopped"):
        return ret
    status_words = _systemd_words(ret, __salt__["service.status"], kwargs)
    before = __salt__["service.status"](name, sig, **status_words)
    boot_before = _starts_at_boot(name)
    if not before:
        ret["comment"] = f"The service {name} is already dead"
        _boot_as_wanted(ret, enable, None, kwargs, before=boot_before)
        return ret
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"Service {name} is set to be killed"
        return ret
    stop_words = _systemd_words(ret, __salt__["service.stop"], kwargs)
    if not __salt__["service.stop"](name, **stop_words):
        _error(ret, f"Service {name} failed to die")
        _boot_as_wanted(ret, enable, True, kwargs, result=False)
        return ret
    if init_delay:
        time.sleep(init_delay)
    after = __salt__["service.status"](name, **status_words)
    if before != after or boot_before != _starts_at_boot(name):
        ret["changes"][name] = after
    if after:
        _error(ret, f"Service {name} failed to die")
    else:
        ret["comment"] = f"Service {name} was killed"
    _boot_as_wanted(ret, enable, after, kwargs, result=not after)
    return ret


def enabled(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A service starts with the machine.
    """
    ret = _new(name)
    __context__["service.state"] = "enabled"
    ret.update(_at_boot(name, True, None, **kwargs))
    gone = ret["comment"] == f"The named service {name} is not available"
    if gone and __opts__.get("test"):
        ret["result"] = None
        ret["comment"] = (
            f"Service {name} not present; if created in this state run, it would have been enabled"
        )
    return ret


def disabled(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A service does not start with the machine.
    """
    ret = _new(name)
    __context__["service.state"] = "disabled"
    ret.update(_at_boot(name, False, None, **kwargs))
    return ret


def _mask(name: str, runtime: bool, on: bool) -> dict[str, Any]:
    ret = _new(name)
    if "service.masked" not in __salt__:
        return _error(ret, "Service masking not available on this minion")
    kind = "runtime masked" if runtime else "masked"
    verb = "mask" if on else "unmask"
    past = kind if on else ("runtime unmasked" if runtime else "unmasked")
    changes = {kind: {"old": not on, "new": on}}
    try:
        if bool(__salt__["service.masked"](name, runtime)) is on:
            ret["comment"] = f"Service {name} {'is' if on else 'was'} already {past}"
        elif __opts__["test"]:
            ret["result"] = None
            ret["changes"] = changes
            ret["comment"] = f"Service {name} would be {past}"
        else:
            __salt__[f"service.{verb}"](name, runtime)
            if bool(__salt__["service.masked"](name, runtime)) is on:
                ret["changes"] = changes
                ret["comment"] = f"Service {name} was {past}"
            else:
                ret["comment"] = f"Failed to {verb} service {name}"
    except CommandExecutionError as error:
        return _error(ret, error.strerror)
    return ret


def masked(name: str, runtime: bool = False) -> dict[str, Any]:
    """
    A service of systemd cannot be started, until the next boot if C{runtime}.
    """
    return _mask(name, runtime, True)


def unmasked(name: str, runtime: bool = False) -> dict[str, Any]:
    """
    A service of systemd can be started.
    """
    return _mask(name, runtime, False)


def mod_watch(
    name: str,
    sfun: str | None = None,
    sig: Any = None,
    reload: bool = False,
    full_restart: bool = False,
    init_delay: Any = None,
    force: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Restart (or reload, or start, or stop) a service: something that it watches has changed.
    """
    ret = _new(name)
    status_words = _systemd_words(ret, __salt__["service.status"], kwargs)
    if sfun not in ("running", "dead"):
        return _error(ret, f"Unable to trigger watch for service.{sfun}")
    runs = __salt__["service.status"](name, sig, **status_words)
    if sfun == "dead":
        if not runs:
            ret["comment"] = "Service is already stopped"
            return ret
        function, verb, past = "stop", "stop", "stopped"
    else:
        if not runs:
            function = verb = "start"
        elif reload and "service.reload" in __salt__:
            function = verb = "reload"
            if force and "service.force_reload" in __salt__:
                function, verb = "force_reload", "forcefully reload"
        elif full_restart and "service.full_restart" in __salt__:
            function, verb = "full_restart", "fully restart"
        else:
            function = verb = "restart"
        past = f"{verb}ed"
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"Service is set to be {past}"
        return ret
    if verb == "start" and "service.stop" in __salt__:
        # What is half up is put away first.
        __salt__["service.stop"](name)
    call = __salt__[f"service.{function}"]
    words = _systemd_words(ret, call, kwargs)
    try:
        did = call(name, **words)
    except CommandExecutionError as error:
        return _error(ret, error.strerror)
    if init_delay:
        time.sleep(init_delay)
    ret["changes"] = {name: did}
    ret["result"] = did
    ret["comment"] = f"Service {past}" if did else f"Failed to {verb} the service"
    return ret


def mod_beacon(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Watch a service that C{running} or C{dead} looked after, if the state asks for a C{beacon}.
    """
    function = kwargs.pop("sfun", None)
    ret = _new(name)
    if function not in ("running", "dead"):
        return _error(ret, f"service.{function} does not work with the beacon state function")
    if not kwargs.get("beacon"):
        ret["comment"] = "Not adding beacon."
        return ret
    given = kwargs.get("beacon_data", {})
    watched = {
        "onchangeonly": given.get("onchangeonly", True),
        "delay": given.get("delay", 0),
        "emitatstartup": given.get("emitatstartup", False),
        "uncleanshutdown": given.get("emitatstartup", None),
    }
    made: dict[str, Any] = __states__["beacon.present"](
        name=f"beacon_service_{name}",
        services={name: watched},
        interval=given.get("interval", 60),
        beacon_module="service",
    )
    return made
