"""
How the arguments of a function are read, at every door at which somebody can name one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli import args as words
from saltwisted.compat import client, runner
from saltwisted.domain.api.lowstate import understand
from saltwisted.domain.api.problems import Problem
from saltwisted.domain.arguments import TEXT
from saltwisted.worker.process.call import split_arguments
from tests.master.record_arguments import FORMS, forms_of, seen
from tests.master.rig import Rig, RigMinion
from tests.modules.harness import load

STOCK = json.loads(Path(__file__).with_name("arguments.json").read_text())
ME = ".*"
BOMB = "[&a [1,1,1,1,1,1,1,1,1], &b [*a,*a,*a,*a,*a,*a,*a,*a,*a], " + "".join(
    f"&{new} [" + f"*{old}," * 9 + "]," for old, new in zip("bcdefg", "cdefgh", strict=True)
)
BOMB = BOMB + "1]"


class Control:
    """A connection to a master that takes down what is asked of it."""

    def __init__(self, asked: list[dict[str, Any]]) -> None:
        self.asked = asked

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def close(self) -> None:
        """Nothing is open."""

    def call(self, op: str, **args: Any) -> Any:
        self.asked.append(args)
        return {"return": None, "success": True, "minions": [], "jid": ""}


def called(asked: dict[str, Any]) -> Any:
    """What the function is called with for such a request."""
    return seen(*asked["arg"], **asked["kwarg"])


def as_minion(arg: list[Any]) -> Any:
    """What a minion calls its function with."""
    given, named = split_arguments(seen, arg)
    return seen(*given, **named)


class DoorTests(SynchronousTestCase):
    """Stock's answers, door by door and form by form."""

    maxDiff = None

    def check(self, door: str, read: Callable[[Any, Any], Any]) -> None:
        forms = forms_of(door)
        self.assertEqual(set(forms), set(STOCK[door]), "tests/record.py arguments")
        ours = {form: read(*copy.deepcopy(given)) for form, given in forms.items()}
        for form, expected in STOCK[door].items():
            # An int is no bool here
            self.assertEqual(json.dumps(ours[form]), json.dumps(expected), (door, form))

    def rig(self) -> RigMinion:
        return RigMinion(Rig(self, peer={ME: [ME]}, peer_run={ME: [ME]}), "web1").accepted()

    def sent(self, fun: str, arg: Any, *more: Any) -> dict[str, Any]:
        """What C{publish} of a minion asks its master."""
        module = load("publish", opts={"id": "web1", "master": "m"})
        sent: list[dict[str, Any]] = []

        class Master:
            connected = True

            def request(self, asked: dict[str, Any]) -> Any:
                sent.append(asked)

        module.__master__ = Master()
        getattr(module, fun)(*more, "test.arg", arg)
        return sent[0]

    def test_every_door_is_recorded(self) -> None:
        """No door of the recording is without its test."""
        tests = {name for name in dir(self) if name.startswith("test_door_")}
        self.assertEqual({name.removeprefix("test_door_") for name in tests}, set(STOCK))
        self.assertTrue(all(set(answers) <= set(FORMS) for answers in STOCK.values()))

    def test_door_command_run(self) -> None:
        """C{salt-run}."""

        def read(arg: Any, kwarg: Any) -> Any:
            given, named = words.parse(arg)
            return seen(*words.condense(given, None), **named)

        self.check("command_run", read)

    def test_door_command_salt(self) -> None:
        """C{salt} and C{salt-call}."""
        self.check("command_salt", lambda arg, kwarg: as_minion(words.parse_input(arg)))

    def test_door_runner_client(self) -> None:
        """C{RunnerClient.cmd} of a script."""
        asked: list[dict[str, Any]] = []
        self.patch(runner, "connected", lambda opts: Control(asked))

        def read(arg: Any, kwarg: Any) -> Any:
            runner.RunnerClient({}).cmd("test.arg", arg, kwarg=kwarg)
            return called(asked.pop())

        self.check("runner_client", read)

    def test_door_saltutil_runner(self) -> None:
        """C{saltutil.runner}, and so C{salt.runner} of an orchestration."""
        asked: list[dict[str, Any]] = []
        module = load("saltutil", opts={"id": "mm"})
        module.cmd.__globals__["_master_control"] = lambda: Control(asked)

        def read(arg: Any, kwarg: Any) -> Any:
            module.runner("test.arg", arg=arg, kwarg=kwarg)
            return called(asked.pop())

        self.check("saltutil_runner", read)

    def test_door_saltutil_wheel(self) -> None:
        """C{saltutil.wheel}, and so C{salt.wheel} of an orchestration."""
        asked: list[dict[str, Any]] = []
        module = load("saltutil", opts={"id": "mm"})
        module.cmd.__globals__["_master_control"] = lambda: Control(asked)

        def read(arg: Any, kwarg: Any) -> Any:
            module.wheel("test.arg", *arg, **kwarg)
            return called(asked.pop())

        self.check("saltutil_wheel", read)

    def test_door_publish_runner(self) -> None:
        """C{publish.runner}: the master reads what the minion sends."""
        minion = self.rig()

        def read(arg: Any, kwarg: Any) -> Any:
            load = self.sent("runner", arg)
            found = minion.ask("minion_runner", fun=load["fun"], arg=load["arg"])
            return [found["args"], found["kwargs"]]

        self.check("publish_runner", read)

    def test_door_publish_publish(self) -> None:
        """C{publish.publish}: the master reads, and minions get keywords as a map."""
        minion = self.rig()
        both = {}
        for cmd in ("minion_pub", "minion_publish"):

            def read(arg: Any, kwarg: Any, cmd: str = cmd) -> Any:
                load = self.sent("publish", arg, "*")
                sent = {key: load[key] for key in ("fun", "arg", "tgt", "ret")}
                minion.ask(cmd, **sent, tgt_type="glob")
                return as_minion(minion.rig.published_jobs()[-1]["arg"])

            both[cmd] = read
        self.check("publish_publish", both["minion_pub"])
        self.check("publish_publish", both["minion_publish"])

    def test_door_api_runner(self) -> None:
        """The runner of the HTTP API."""

        def read(arg: Any, kwarg: Any) -> Any:
            low = {"client": "runner", "fun": "test.arg", "arg": arg, "kwarg": kwarg}
            return called(understand(low, ["runner"], False, "ab").args)

        self.check("api_runner", read)

    def test_door_local_client(self) -> None:
        """C{LocalClient.cmd} of a script: texts are for the minion to read."""
        asked: list[dict[str, Any]] = []
        self.patch(client, "connected", lambda opts: Control(asked))
        local = client.LocalClient(mopts={})

        def read(arg: Any, kwarg: Any) -> Any:
            local.run_job("*", "test.arg", arg, kwarg=kwarg)
            return as_minion(asked.pop()["arg"])

        self.check("local_client", read)

    def test_no_parse(self) -> None:
        """What a minion names in C{no_parse} stays text, and the rest of it is ignored."""
        minion = self.rig()
        for kept, value in ((["n"], "7"), ([["n"]], 7), ("n", 7), (None, 7)):
            found = minion.ask("minion_runner", fun="test.arg", arg=["n=7"], no_parse=kept)
            self.assertEqual(found["kwargs"], {"n": value}, kept)


class LimitTests(SynchronousTestCase):
    """What reading may cost."""

    def test_T_COST_3_yaml_of_minions(self) -> None:
        """T-COST-3: a minion's YAML is refused if it is long, or if its aliases make it large."""
        rig = Rig(self, peer={ME: [ME]}, peer_run={ME: [ME]})
        minion = RigMinion(rig, "web1").accepted()
        for arg in (
            ["[" + "1," * TEXT + "]"],
            ["n={a: " + "1" * TEXT + "}"],
            [BOMB],
            [f"n={BOMB}"],
        ):
            for cmd in ("minion_runner", "minion_pub", "minion_publish"):
                before = rig.counters["refused:too-large"]
                asked = {"fun": "test.arg", "arg": arg, "tgt": "*", "tgt_type": "glob", "ret": ""}
                if cmd == "minion_runner":
                    asked = {"fun": "test.arg", "arg": arg}
                self.assertEqual(minion.ask(cmd, **asked), {}, (cmd, arg[0][:9]))
                self.assertEqual(rig.counters["refused:too-large"], before + 1)
        self.assertEqual(rig.published_jobs(), [])

    def test_long_text(self) -> None:
        """Text without brackets may be long, as it costs next to nothing."""
        minion = RigMinion(Rig(self, peer_run={ME: [ME]}), "web1").accepted()
        text = "QUJD" * 50_000
        found = minion.ask("minion_runner", fun="test.arg", arg=[text, f"n={text}"])
        self.assertEqual(found, {"args": [text], "kwargs": {"n": text}})

    def test_T_COST_1_yaml_of_requests(self) -> None:
        """T-COST-1: the same of the HTTP API, which says so; as C{kwarg} it may be long."""
        low = {"client": "runner", "fun": "test.arg"}
        for arg in (["[" + "1," * TEXT + "]"], [BOMB], [f"n={BOMB}"]):
            with self.assertRaises(Problem) as caught:
                understand({**low, "arg": arg}, ["runner"], False, "ab")
            self.assertEqual(caught.exception.status, 400)
        value = [1] * TEXT
        self.assertEqual(
            understand({**low, "kwarg": {"n": value}}, ["runner"], False, "ab").args["kwarg"],
            {"n": value},
        )
