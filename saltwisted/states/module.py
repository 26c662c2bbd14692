"""
Execution functions as states.

The new form names functions as arguments (C{- test.ping: []}), the old one gives one
function as C{name}, with C{m_name}, C{m_fun} ... for arguments whose names are taken.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from saltwisted.domain.jid import jid_at
from saltwisted.worker.called import called
from saltwisted.worker.exceptions import SaltInvocationError
from saltwisted.worker.masking import answering
from saltwisted.worker.process.call import argspec

log = logging.getLogger(__name__)

__opts__: Any
__salt__: Any
__ret__: Any

_PREFIXED = {name: f"m_{name}" for name in ("name", "fun", "names", "state", "saltenv")}
"""Arguments that a state cannot have under their own name."""


def wait(name: Any, **kwargs: Any) -> dict[str, Any]:
    """
    As C{module.run}, but only when a watched state has changed.
    """
    return {"name": name, "changes": {}, "result": True, "comment": ""}


def watch(name: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Another name of C{module.wait}.
    """
    return wait(name, **kwargs)


def run(**kwargs: Any) -> dict[str, Any]:
    """
    Call one or several execution functions.

    returner
        Gives every return to this returner.

    Every other argument is the name of a function with a list of its arguments::

        some_id:
          module.run:
            - network.ip_addrs:
              - interface: eth0
    """
    names = [key for key in kwargs if key not in ("name", "__reqs__", "sfun")]
    if any("." not in name for name in names) or (not names and kwargs):
        return _old_form(**kwargs)
    return _new_form(kwargs)


def mod_watch(**kwargs: Any) -> dict[str, Any]:
    """
    Call the functions because a watched state has changed.
    """
    return run(**kwargs)


def _new_form(kwargs: dict[str, Any]) -> dict[str, Any]:
    kwargs.pop("name", None)
    answer: dict[str, Any] = {"name": list(kwargs), "changes": {}, "comment": "", "result": None}
    functions = [name for name in kwargs if "." in name]
    if not functions:
        answer.update(comment="No function provided.", result=False)
        return answer
    # A function may be named several times: test.ping:one, test.ping:two.
    plain = {name: name.split(":")[0] for name in functions}
    known = called(__salt__)
    missing = [name for name in plain.values() if name not in known]
    tried = [name for name in plain.values() if name in known] if __opts__["test"] else []
    if missing or tried:
        comments = []
        if missing:
            plural = "True" if len(missing) > 1 else ""
            comments.append(f"Unavailable function{plural}: {', '.join(missing)}.")
        if tried:
            plural = "True" if len(tried) > 1 else ""
            comments.append(f"Function{plural} {', '.join(tried)} to be executed.")
        answer["comment"] = " ".join(comments)
        if missing:
            answer["result"] = False
        return answer
    failures: list[str] = []
    done: list[str] = []
    for name, function in plain.items():
        try:
            value = _called(function, kwargs.get("returner"), kwargs.get(name))
        except (SaltInvocationError, TypeError) as error:
            failures.append(f"'{name}' failed: {error}")
            continue
        if _is_good(value):
            shown = value.get("comment", "Success") if isinstance(value, dict) else value
            done.append(f"{name}: {shown}")
            answer["changes"][name] = value
        elif isinstance(value, dict):
            failures.append(f"'{name}' failed: {value.get('comment', '(error message N/A)')}")
        elif value is False:
            failures.append(f"'{name}': {value}")
    answer["comment"] = ", ".join(failures + done)
    answer["result"] = not failures
    return answer


def _called(name: str, returner: Any, given: Any) -> Any:
    """
    Call a function with a list of arguments, keywords as maps in it.

    @raises SaltInvocationError: arguments are missing.
    """
    function = called(__salt__)[name]
    spec = argspec(function)
    split = len(spec.args) - len(spec.defaults or ())
    required = spec.args[:split]
    keywords = dict(zip(spec.args[split:], spec.defaults or (), strict=True))
    args: list[Any] = []
    by_name: dict[str, Any] = {}
    for item in reversed(given or []):
        if isinstance(item, dict):
            for key, value in item.items():
                if key in required:
                    by_name[key] = value
                else:
                    keywords.update(item)
        else:
            args.insert(0, item)
    args += [by_name[name] for name in required if name in by_name]
    given_count = len(args)
    missing = []
    if len(required) > given_count:
        for arg in spec.args[given_count:]:
            if arg in keywords:
                given_count += 1
            else:
                missing.append(arg)
    if missing:
        raise SaltInvocationError(f"Missing arguments: {', '.join(missing)}")
    if len(required) > given_count:
        raise SaltInvocationError(
            f"Function expects {len(required)} positional parameters, got only {given_count}"
        )
    with answering(name):
        value = function(*args, **keywords)
    _hand_on(returner, name, value)
    return value


def _hand_on(returner: Any, name: str, value: Any) -> None:
    if not returner:
        return
    function = f"{returner}.returner"
    for key in (returner, function):
        if "." in key and key in __ret__:
            __ret__[key](
                {"id": __opts__["id"], "ret": value, "fun": name, "jid": jid_at(time.time())}
            )
            return


def _old_form(name: Any = None, **kwargs: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"name": name, "changes": {}, "comment": "", "result": None}
    functions = called(__salt__)
    if name not in functions:
        answer.update(comment=f"Module function {name} is not available", result=False)
        return answer
    if __opts__["test"]:
        answer["comment"] = f"Module function {name} is set to execute"
        return answer
    spec = argspec(functions[name])
    split = len(spec.args) - len(spec.defaults or ())
    defaults = dict(zip(spec.args[split:], spec.defaults or (), strict=True))
    for arg in defaults:
        for key in (_PREFIXED.get(arg, arg), arg):
            if key in kwargs:
                defaults[arg] = kwargs.pop(key)
    args: list[Any] = []
    missing: dict[str, None] = {}
    for arg in spec.args:
        key = _PREFIXED.get(arg, arg)
        if arg in defaults:
            args.append(defaults[arg])
        elif key in kwargs:
            args.append(kwargs.pop(key))
        else:
            missing[key] = None
    if missing:
        comment = "The following arguments are missing:" + "".join(f" {arg}" for arg in missing)
        answer.update(comment=comment, result=False)
        return answer
    if spec.varargs:
        more = kwargs.pop(_PREFIXED.get(spec.varargs, spec.varargs), [])
        if not isinstance(more, list):
            answer.update(comment=f"'{spec.varargs}' must be a list.", result=False)
            return answer
        args.extend(more)
    keywords: Any = {}
    if spec.keywords and spec.keywords in kwargs:
        keywords = kwargs.pop(spec.keywords)
        if not isinstance(keywords, dict):
            answer.update(comment=f"'{spec.keywords}' must be a dict.", result=False)
            return answer
    try:
        with answering(name):
            value = functions[name](*args, **keywords)
    except Exception as error:  # whatever went wrong is this state's failure
        comment = f"Module function {name} threw an exception. Exception: {error}"
        answer.update(comment=comment, result=False)
        return answer
    answer["changes"]["ret"] = value
    _hand_on(kwargs.get("returner"), name, value)
    answer["comment"] = f"Module function {name} executed"
    answer["result"] = _is_good(value)
    return answer


def _is_good(value: Any) -> bool:
    """False for C{False}, and for maps that hold C{result: False} or a return code somewhere."""
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        for key, item in value.items():
            if (key == "result" and item is False) or (key == "retcode" and item != 0):
                return False
            if isinstance(item, dict) and not _is_good(item):
                return False
    return True
