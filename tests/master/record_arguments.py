"""
Records how stock Salt reads the arguments of a function, at each of its doors.

    STOCK tests/master/record_arguments.py

Each door is stock's own code, with nobody behind it: what the function would be called with is
written down. Prints JSON: door to form to C{[positional, keywords]}.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
from typing import Any

FORMS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "text": (["word", "two words", "", " blank "], {}),
    "numbers": (["5", "-7", "1.5", "0644", "1_000", "1e3"], {}),
    "true": (["true", "no", "None", "null", "~"], {}),
    "lists": (["[1, 2]", "[a, [b]]", "- a", "[1"], {}),
    "maps": (["{a: 1}", "a: 1", "{a", "{a: {b: [1]}}"], {}),
    "comments": (["a # b", "5 # b", "#"], {}),
    "lines": (["a\nb", "1\n", "\t5"], {}),
    "marks": (["!", "|", "---", "..."], {}),
    "keyword": (["n=7", "t=word", "l=[1, 2]", "e=", "m={a: 1}", "x=a=b"], {}),
    "no keyword": (["a==b", "=a", "7=a", "a b=c", "a=b\nc"], {}),
    "dotted keyword": (["a.b-c=1"], {}),
    "values": ([5, True, None, [1, "2"], {"a": "1"}, 1.5], {}),
    "jid": (["20260131040506123456", 20260131040506123456, "j=20260131040506123456"], {}),
    "marked": (["a", {"__kwarg__": True, "n": "7", "l": [1]}], {}),
    "kwarg": (["a"], {"n": "7", "l": "[1]", "k": 1}),
    "both": (["5", "n=7", "q=1"], {"q": "7"}),
}

DOORS: dict[str, Any] = {}


def door(function: Any) -> Any:
    DOORS[function.__name__] = function
    return function


def seen(*args: Any, **kwargs: Any) -> Any:
    """The function that is called."""
    return [list(args), {k: v for k, v in kwargs.items() if not k.startswith("__")}]


def options() -> Any:
    import salt.config

    opts = salt.config.master_config("/nonexistent/master")
    home = tempfile.mkdtemp()
    opts.update(cachedir=home, sock_dir=home, pki_dir=home, peer={".*": [".*"]})
    opts.update(peer_run={".*": [".*"]}, conf_file="/nonexistent/master")
    return opts


class Captured(BaseException):
    """What a client was about to do."""


def patched() -> None:
    """Clients that know one function, and tell what they would call."""
    import salt.loader
    import salt.runner
    import salt.wheel

    functions = {"test.arg": seen}
    salt.loader.runner = lambda *a, **k: functions
    salt.loader.wheels = lambda *a, **k: functions

    def low(self: Any, fun: str, low: Any, **kwargs: Any) -> Any:
        value = seen(*low["arg"], **low["kwarg"])
        return {"return": value} if kwargs.get("full_return") else value

    for client in (salt.runner.RunnerClient, salt.wheel.WheelClient):
        client.low = low


def caught(call: Any) -> Any:
    try:
        call()
    except Captured as found:
        return found.args[0]
    raise AssertionError("nothing was called")


@door
def command_run(arg: Any, kwarg: Any) -> Any:
    """C{salt-run}."""
    import salt.runner

    opts = {**options(), "fun": "test.arg", "arg": arg, "doc": False, "async": False}
    runner = salt.runner.Runner(opts)

    def procedure(**how: Any) -> Any:
        raise Captured(seen(*how["low"]["arg"], **how["low"]["kwarg"]))

    runner._proc_function = procedure
    return caught(runner.run)


@door
def runner_client(arg: Any, kwarg: Any) -> Any:
    """C{RunnerClient.cmd}."""
    import salt.runner

    return salt.runner.RunnerClient(options()).cmd("test.arg", arg, kwarg=kwarg)


@door
def saltutil_runner(arg: Any, kwarg: Any) -> Any:
    """C{saltutil.runner}, which C{salt.runner} in an orchestration calls."""
    import salt.modules.saltutil as module

    module.__opts__ = options()
    return module.runner("test.arg", arg=arg, kwarg=kwarg)


@door
def saltutil_wheel(arg: Any, kwarg: Any) -> Any:
    """C{saltutil.wheel}."""
    import salt.modules.saltutil as module

    module.__opts__ = {**options(), "__role": "master"}
    return module.wheel("test.arg", *arg, **kwarg)["return"]


@door
def publish_runner(arg: Any, kwarg: Any) -> Any:
    """C{publish.runner}: what the module sends, as the master reads it."""
    import salt.daemons.masterapi
    import salt.modules.publish as module
    import salt.runner

    class Runner(salt.runner.Runner):
        def _proc_function(self, **how: Any) -> Any:
            raise Captured(seen(*how["low"]["arg"], **how["low"]["kwarg"]))

    remote = salt.daemons.masterapi.RemoteFuncs.__new__(salt.daemons.masterapi.RemoteFuncs)
    remote.opts = {**options(), "async": False}
    load = {"fun": "test.arg", "arg": module._parse_args(arg), "id": "web1"}
    before, salt.runner.Runner = salt.runner.Runner, Runner
    try:
        return over_the_wire(caught(lambda: remote.minion_runner(load)))
    finally:
        salt.runner.Runner = before


def over_the_wire(value: Any) -> Any:
    """What arrives; numbers that msgpack cannot hold are text then."""
    import salt.payload

    return salt.payload.loads(salt.payload.dumps(value))


def as_minion(arg: Any) -> Any:
    """What a minion calls its function with."""
    import salt.minion

    args, kwargs = salt.minion.load_args_and_kwargs(seen, arg)
    return seen(*args, **kwargs)


@door
def publish_publish(arg: Any, kwarg: Any) -> Any:
    """C{publish.publish}: what the module sends, as the master publishes it, as minions read it."""
    import salt.daemons.masterapi
    import salt.modules.publish as module
    import salt.utils.args

    class Local:
        def cmd_async(self, **load: Any) -> Any:
            published = salt.utils.args.condition_input(load["arg"], None)
            raise Captured(as_minion(over_the_wire(published)))

    remote = salt.daemons.masterapi.RemoteFuncs.__new__(salt.daemons.masterapi.RemoteFuncs)
    remote.opts, remote.local = options(), Local()
    remote._RemoteFuncs__verify_minion_publish = lambda load: True
    load = {"fun": "test.arg", "arg": module._parse_args(arg), "tgt": "*", "ret": "", "id": "w"}
    return caught(lambda: remote.minion_pub(load))


@door
def api_runner(arg: Any, kwarg: Any) -> Any:
    """The runner of the HTTP API."""
    import salt.runner

    low = {"fun": "test.arg", "client": "runner", "arg": arg, "kwarg": kwarg}
    found = salt.runner.RunnerClient(options())._reformat_low(low)["kwarg"]
    return seen(*found["arg"], **found["kwarg"])


@door
def local_client(arg: Any, kwarg: Any) -> Any:
    """C{LocalClient.cmd}, as minions read it."""
    import salt.utils.args

    return as_minion(salt.utils.args.condition_input(arg, kwarg))


@door
def command_salt(arg: Any, kwarg: Any) -> Any:
    """C{salt}, as minions read it, and C{salt-call}."""
    import salt.utils.args

    return as_minion(salt.utils.args.parse_input(arg))


TAKES_NO_KWARG = ("command_run", "command_salt", "publish_runner", "publish_publish")


def forms_of(name: str) -> dict[str, Any]:
    """The forms that a door can be given: a command line has text alone, and no C{kwarg}."""
    found = copy.deepcopy(FORMS)
    if name in TAKES_NO_KWARG:
        found = {form: each for form, each in found.items() if not each[1]}
    if name.startswith("command"):
        found = {
            form: each for form, each in found.items() if all(isinstance(x, str) for x in each[0])
        }
    return found


def main() -> None:
    patched()
    table = {
        name: {form: call(*given) for form, given in forms_of(name).items()}
        for name, call in DOORS.items()
    }
    lines = []
    for name, answers in table.items():
        rows = [f"  {json.dumps(form)}: {json.dumps(each)}" for form, each in answers.items()]
        lines.append(f" {json.dumps(name)}: {{\n" + ",\n".join(rows) + "\n }")
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
