"""
Functions to try the system with: is it there, what arrives, what comes back.
"""

from __future__ import annotations

import builtins
import logging
import os
import sys
import time
from typing import Any

from saltwisted.config.compat import COMPAT_VERSION_TEXT
from saltwisted.modules import _data
from saltwisted.worker import exceptions
from saltwisted.worker.called import called
from saltwisted.worker.masking import shown_options

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]
__func_alias__ = {"true_": "true", "false_": "false", "try_": "try"}

__salt__: Any
__opts__: Any
__grains__: Any
__context__: Any


def ping() -> bool:
    """
    Answer true: the minion is there and takes jobs. Not an ICMP ping.

    CLI Example::

        salt '*' test.ping
    """
    return True


def echo(text: Any) -> Any:
    """
    Answer with the argument.

    CLI Example::

        salt '*' test.echo 'good morning'
    """
    return text


def sleep(length: Any) -> bool:
    """
    Wait for C{length} seconds, then answer true.

    CLI Example::

        salt '*' test.sleep 20
    """
    time.sleep(int(length))
    return True


def rand_sleep(max: int = 60) -> bool:
    """
    Wait for a random whole number of seconds, at most C{max}, then answer true.

    CLI Example::

        salt '*' test.rand_sleep 60
    """
    import random

    time.sleep(random.randint(0, max))
    return True


def version() -> str:
    """
    The version of Salt whose behaviour this minion gives.

    CLI Example::

        salt '*' test.version
    """
    return COMPAT_VERSION_TEXT


def versions_information() -> dict[str, Any]:
    """
    Versions of this software, its libraries and the system, as a map.

    CLI Example::

        salt '*' test.versions_information
    """
    from saltwisted.worker.versions import versions_information as information

    return information()


def versions_report() -> str:
    """
    Versions of this software, its libraries and the system, as text to read.

    CLI Example::

        salt '*' test.versions_report
    """
    from saltwisted.worker.versions import versions_report as report

    return "\n".join(report())


def versions() -> str:
    """
    Another name of C{test.versions_report}.

    CLI Example::

        salt '*' test.versions
    """
    return versions_report()


def conf_test() -> Any:
    """
    The value of the option C{test.foo}, or Salt's default for it.

    CLI Example::

        salt '*' test.conf_test
    """
    return __salt__["config.option"]("test.foo")


def get_opts() -> Any:
    """
    All options of this minion.

    CLI Example::

        salt '*' test.get_opts
    """
    return shown_options(__opts__)


def opts_pkg() -> dict[str, Any]:
    """
    All options of this minion with its grains among them, as a state compiler needs them.

    CLI Example::

        salt '*' test.opts_pkg
    """
    package = dict(shown_options(__opts__))
    package["grains"] = dict(__grains__)
    return package


def cross_test(func: str, args: Any = None) -> Any:
    """
    Call another function of this minion through C{__salt__}.

    CLI Example::

        salt '*' test.cross_test file.gid_to_group 0
    """
    return called(__salt__)[func](*(args or []))


def kwarg(**kwargs: Any) -> dict[str, Any]:
    """
    Answer with the keyword arguments, those that the publication adds among them.

    CLI Example::

        salt '*' test.kwarg num=1 txt="two" env='{a: 1, b: "hello"}'
    """
    return kwargs


def arg(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Answer with all arguments as they arrived.

    CLI Example::

        salt '*' test.arg 1 "two" 3.1 txt="hello" wow='{a: 1, b: "hello"}'
    """
    return {"args": args, "kwargs": kwargs}


def arg_type(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Answer with the types of all arguments.

    CLI Example::

        salt '*' test.arg_type 1 'int'
    """
    return {
        "args": [str(type(value)) for value in args],
        "kwargs": {key: str(type(value)) for key, value in kwargs.items()},
    }


def arg_repr(*args: Any, **kwargs: Any) -> dict[str, str]:
    """
    Answer with all arguments as Python writes them.

    CLI Example::

        salt '*' test.arg_repr 1 "two" 3.1 txt="hello" wow='{a: 1, b: "hello"}'
    """
    return {"args": repr(args), "kwargs": repr(kwargs)}


def arg_clean(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """
    As C{test.arg}, without what the publication adds.

    CLI Example::

        salt '*' test.arg_clean 1 "two" 3.1 txt="hello"
    """
    return {"args": args, "kwargs": _data.clean_kwargs(**kwargs)}


def fib(num: Any) -> tuple[int, float]:
    """
    A Fibonacci number by its index, and the seconds it took.

    CLI Example::

        salt '*' test.fib 3
    """
    num = int(num)
    if num < 0:
        raise ValueError("Negative number is not allowed!")
    start = time.time()
    before, here = 0, 1
    if num < 2:
        return num, time.time() - start
    for _ in range(num - 1):
        before, here = here, before + here
    return here, time.time() - start


def collatz(start: Any) -> tuple[list[Any], float]:
    """
    The Collatz sequence from a number, and the seconds it took.

    CLI Example::

        salt '*' test.collatz 3
    """
    value: Any = int(start)
    begin = time.time()
    steps = []
    while value != 1:
        steps.append(value)
        if value > 1:
            # True division, so that the numbers after the first step are floats as in Salt.
            value = value / 2 if value % 2 == 0 else value * 3 + 1
    return steps, time.time() - begin


def outputter(data: Any) -> Any:
    """
    Answer with the argument, to try an outputter on it.

    CLI Example::

        salt '*' test.outputter foobar
    """
    return data


def retcode(code: int = 42) -> bool:
    """
    Answer true, with this exit code.

    CLI Example::

        salt '*' test.retcode 42
    """
    __context__["retcode"] = code
    return True


def provider(module: str) -> str:
    """
    The file that gives a module its functions, without its ending.

    CLI Example::

        salt '*' test.provider service
    """
    prefix = f"{module}."
    for name in __salt__:
        if name.startswith(prefix):
            source = sys.modules[__salt__[name].__module__].__file__ or ""
            return os.path.splitext(os.path.basename(source))[0]
    return ""


def providers() -> dict[str, str]:
    """
    Files that give functions, each with the name of its module.

    CLI Example::

        salt '*' test.providers
    """
    found: dict[str, str] = {}
    done: set[str] = set()
    for function in __salt__:
        name = function.split(".")[0]
        if name not in done:
            done.add(name)
            found[provider(name)] = name
    return found


def not_loaded() -> list[str]:
    """
    Modules that are here as files and not loaded on this machine.

    CLI Example::

        salt '*' test.not_loaded
    """
    loaded = providers()
    missing = set()
    for folder in {os.path.dirname(__file__), *__opts__.get("module_dirs", ())}:
        if os.path.isabs(folder) and os.path.isdir(folder):
            for entry in os.listdir(folder):
                name = entry.split(".")[0]
                if not name.startswith("_") and name not in loaded:
                    missing.add(name)
    return sorted(missing)


def module_report() -> dict[str, list[str]]:
    """
    Which modules and functions are reached by item, and which by attribute.

    CLI Example::

        salt '*' test.module_report
    """
    report: dict[str, list[str]] = {
        "functions": [],
        "function_attrs": [],
        "function_subs": [],
        "modules": [],
        "module_attrs": [],
        "missing_attrs": [],
        "missing_subs": [],
    }
    for name in __salt__:
        if "." in name:
            report["functions"].append(name)
            continue
        report["modules"].append(name)
        if hasattr(__salt__, name):
            report["module_attrs"].append(name)
        for function in __salt__[name]:
            full = f"{name}.{function}"
            if hasattr(getattr(__salt__, name), function):
                report["function_attrs"].append(full)
            report["function_subs"].append(full)
    attributes, items = set(report["function_attrs"]), set(report["function_subs"])
    report["missing_attrs"] = [name for name in report["functions"] if name not in attributes]
    report["missing_subs"] = [name for name in report["functions"] if name not in items]
    return report


def attr_call() -> Any:
    """
    Call C{grains.items} by attribute instead of by item.

    CLI Example::

        salt '*' test.attr_call
    """
    return __salt__.grains.items()


def random_hash(size: int = 9999999999, hash_type: str | None = None) -> str:
    """
    The hash of a random number up to C{size}; by the option C{hash_type} if none is named.

    CLI Example::

        salt '*' test.random_hash
        salt '*' test.random_hash hash_type=sha512
    """
    import hashlib
    import random

    kind = hash_type or __opts__.get("hash_type", "sha256")
    number = random.SystemRandom().randint(0, size)
    return hashlib.new(kind, str(number).encode()).hexdigest()


def rand_str(size: int = 9999999999, hash_type: str | None = None) -> str:
    """
    The old name of C{test.random_hash}.

    CLI Example::

        salt '*' test.rand_str
    """
    return random_hash(size=size, hash_type=hash_type)


def exception(message: str = "Test Exception") -> None:
    """
    Fail with an exception.

    CLI Example::

        salt '*' test.exception 'Oh noes!'
    """
    raise Exception(message)


def raise_exception(name: str, *args: Any, **kwargs: Any) -> bool:
    """
    Fail with an exception by name: a built-in one or C{salt.exceptions.NAME}.

    A name that is not an exception answers false.

    CLI Example::

        salt '*' test.raise_exception TypeError "An integer is required"
        salt '*' test.raise_exception salt.exceptions.CommandExecutionError "Something went wrong"
    """
    prefix = "salt.exceptions."
    home: Any = exceptions if name.startswith(prefix) else builtins
    kind = getattr(home, name.removeprefix(prefix), None)
    if isinstance(kind, type) and issubclass(kind, BaseException) and kind is not BaseException:
        raise kind(*args, **_data.clean_kwargs(**kwargs))
    log.error("%s is not an exception", name)
    return False


def stack() -> str:
    """
    The stack of calls that led here.

    CLI Example::

        salt '*' test.stack
    """
    import traceback

    return "".join(traceback.format_stack())


def tty(*args: Any, **kwargs: Any) -> str:
    """
    Gone to C{cmd.tty}; says so.

    CLI Example::

        salt '*' test.tty tty0 'This is a test'
    """
    return "ERROR: This function has been moved to cmd.tty"


def try_(module: str, return_try_exception: bool = False, **kwargs: Any) -> Any:
    """
    Call a function of this minion; if it fails answer nothing, or the exception.

    Jinja Example::

        {{ salt['test.try'](module='ipmi.get_users', bmc_host='192.0.2.1') }}
    """
    try:
        return called(__salt__)[module](**kwargs)
    except Exception as error:
        return error if return_try_exception else None


def assertion(assertion: Any) -> None:
    """
    Fail unless the argument is true.

    CLI Example::

        salt '*' test.assertion False
    """
    assert assertion


def true_() -> bool:
    """
    True.

    CLI Example::

        salt '*' test.true
    """
    return True


def false_() -> bool:
    """
    False.

    CLI Example::

        salt '*' test.false
    """
    return False


def deprecation_warning() -> bool:
    """
    Log two warnings of a deprecation that will never come, and answer true.

    CLI Example::

        salt \\* test.deprecation_warning
    """
    import warnings

    for text in (
        "This is a test deprecation warning by version.",
        "This is a test deprecation warning by date very far into the future (3000-01-01).",
    ):
        warnings.warn(text, DeprecationWarning, stacklevel=2)
    return True
