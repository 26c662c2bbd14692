"""
Requests of the right names with values of any type: refused, and never a traceback.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.who import local
from saltwisted.errors import RemoteError, WireError
from saltwisted.master.control import JOB, Control
from saltwisted.master.table import clear_commands, sealed_commands
from saltwisted.transports.ipc import PeerProcess
from saltwisted.wire.envelope import encode_clear_request
from saltwisted.wire.msgpack import unpack
from tests.master.rig import Rig, RigMinion

modest = settings(
    derandomize=True,
    max_examples=400,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
words = st.sampled_from(
    ["", "*", "web1", "glob", "list", "compound", "grain", "pillar", "nodegroup", "G@a:b", "( a",
     "test.ping", "test.ping,", "a.b.c", "runner", "jobs.list_jobs", "key.list_all", "²:x", "base",
     "!!timestamp x:a", "20261121120000000001", "req", "__slot__:x", "name=x", "../x", "a\0b"]
)  # fmt: skip
odd = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | words
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(words | st.sampled_from(["arg", "fun", "kwarg", "__kwarg__", "tag", "data",
                                               "delimiter", "ret", "eauth", "token"]),
                      inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
GOOD: dict[str, Any] = {
    "fun": "test.ping", "arg": ["x"], "tgt": "*", "tgt_type": "glob", "ret": "", "jid": "",
    "expr_form": "glob", "kwargs": {}, "kwarg": {}, "user": "root", "data": {"a": 1}, "tags": [],
    "tag": "a/b", "events": [{"tag": "a/b", "data": {}}], "pretag": None, "path": "a",
    "saltenv": "base",
    "loc": 0, "gzip": 0, "size": 1, "return": 1, "retcode": 0, "timeout": 1, "form": "clean",
    "clear": False, "eauth": "file", "username": "fred", "password": "x", "grains": {"os": "x"},
    "pillarenv": None, "pillar_override": {}, "ext": None, "opts": {}, "match": "web1", "load": [],
    "out": "nested", "success": True, "delimiter": ":", "fun_args": [], "gather_job_timeout": 1,
    "token": "x", "pub": "x", "nonce": "x", "prefix": "",
}  # fmt: skip
nothing: Any = None
OPERATIONS = sorted(row.name for row in Control(nothing, dict).operations())
FUNCTIONS = st.sampled_from(
    ["test.ping", "saltutil.cmd", "state.high", "jobs.list_jobs", "jobs.lookup_jid", "manage.up",
     "cache.grains", "mine.get", "key.list_all", "key.finger", "key.accept", "config.values",
     "pillar.show_pillar", "test.arg", "doc.runner", "fileserver.file_list", "event.send",
     "config.get", "salt.execute", "auth.del_token", "jobs.print_job", "minions.connected"]
)  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A good request with a few fields changed, into anything, or gone."""
    load = {**GOOD, "fun": draw(FUNCTIONS)}
    for name in ("token", "eauth", "username", "password"):
        if draw(st.integers(0, 3)):
            load.pop(name)
    for name in draw(st.lists(st.sampled_from(sorted(GOOD)), max_size=3)):
        load[name] = draw(odd)
    for name in draw(st.lists(st.sampled_from(["arg", "kwargs", "kwarg", "data"]), max_size=1)):
        load[name] = draw(st.lists(odd, max_size=3) if name == "arg" else maps)
    for name in draw(st.lists(st.sampled_from(sorted(GOOD)), max_size=2)):
        load.pop(name, None)
    return load


maps = st.dictionaries(
    words | st.sampled_from(["arg", "kwarg", "delimiter", "ret_config", "module_executors", "match",
                             "timeout", "tgt", "fun", "list", "metadata", "grains", "__kwarg__"]),
    odd, max_size=3,
)  # fmt: skip
fields = requests()


class OddArguments(SynchronousTestCase):
    """Doors of a master."""

    def setUp(self) -> None:
        """A master, and what it logs as a failure."""
        self.failures: list[str] = []

        def listen(event: dict[str, Any]) -> None:
            failure = event.get("log_failure")
            if failure is not None and "in _run\n" not in failure.getTraceback():
                # What a runner itself makes of odd arguments, it tells who called it
                self.failures.append(failure.getTraceback()[-1500:])

        globalLogPublisher.addObserver(listen)
        self.addCleanup(globalLogPublisher.removeObserver, listen)
        self.rig = Rig(
            self,
            peer={".*": [".*", "@returner"]},
            peer_run={".*": ["test.*"]},
            nodegroups={"web1": "web*"},
            publisher_acl={"nobody": [".*", {"web*": [{"x.*": {"args": [".*"]}}]}],
                           "root": ["x"]},
            publisher_acl_blacklist={"modules": ["no.*"]},
        )  # fmt: skip
        self.minion = RigMinion(self.rig, "web1").accepted()

    def none_failed(self, what: Any) -> None:
        """Nothing raised what it should not."""
        self.flushLoggedErrors()
        found, self.failures[:] = self.failures[:], []
        self.assertEqual(found[:1], [], what)

    @modest
    @given(st.sampled_from(sorted(sealed_commands())), fields)
    def test_sealed(self, cmd: str, load: dict[str, Any]) -> None:
        """A minion's request with odd fields is answered or refused."""
        self.minion.ask(cmd, **load)
        self.rig.clock.pump([0.1] * 3)

        self.none_failed((cmd, load))

    def test_too_large(self) -> None:
        """What is larger than anybody judges is said at every door, before it is judged."""
        good = {**GOOD, "kwargs": {"delimiter": "|"}}
        for load, reason in (
            ({**good, "tgt": "a" * 65_537}, "65537 characters long"),
            ({**good, "tgt": "a|" * 64, "tgt_type": "grain"}, "65 parts"),
            ({**good, "fun": "test.ping," * 2000}, "2001 functions"),
            ({**good, "fun": "x" * 256}, "256 characters long"),
        ):
            named = {argument.name for argument in JOB}
            job = {name: value for name, value in load.items() if name in named}
            doors = [
                self.rig.door().handle("publish", job, PeerProcess(uid, uid, 1), _silent)
                for uid in (0, 12345)
            ]
            for door in (*doors, self.rig.ctx.dispatcher.publish(load, local("root"))):
                failure = self.failureResultOf(Deferred.fromCoroutine(door), RemoteError)
                self.assertIn(reason, failure.getErrorMessage())
            key = self.rig.ctx.users._keys["root"]
            clear = {
                name: load[name] for name in ("fun", "arg", "tgt", "tgt_type", "ret", "kwargs")
            }
            frame = encode_clear_request({**clear, "cmd": "publish", "key": key, "user": "root"})
            self.assertIn(reason, str(unpack(self.rig.ask(frame)[0])))
            asked = {name: load[name] for name in ("fun", "arg", "tgt", "tgt_type", "ret")}
            if "grain" not in load.values():  # a minion cannot say another delimiter
                self.assertEqual(self.minion.ask("minion_pub", **asked), {})
        self.none_failed("too large")
        self.assertEqual(self.rig.published_jobs(), [])

    def test_odd_times(self) -> None:
        """A minion that would wait for what is no time is refused."""
        for timeout in ("x", [1], {"a": 1}, float("inf"), float("nan"), -1):
            answer = self.minion.ask(
                "minion_publish", fun="test.ping", arg=["x"], tgt="*", ret="", timeout=timeout
            )
            self.assertEqual(answer, {}, timeout)
            self.none_failed(timeout)

    @modest
    @given(st.sampled_from(sorted(clear_commands())), fields, st.booleans())
    def test_clear(self, cmd: str, load: dict[str, Any], known: bool) -> None:
        """A request in the clear with odd fields is answered or refused, proven or not."""
        if known:
            load = {**load, "key": self.rig.ctx.users._keys["root"], "user": "root"}
        try:
            frame = encode_clear_request({**load, "cmd": cmd})
        except (WireError, OverflowError, TypeError, ValueError):
            return  # nobody can send it
        self.rig.ask(frame)
        self.rig.clock.pump([0.1] * 3)

        self.none_failed((cmd, load))

    @modest
    @given(
        st.sampled_from(["publish", "run"] * 4 + OPERATIONS),
        fields,
        st.sampled_from([0, 0, 12345]),
        st.sampled_from([True, True, True, False]),
    )
    def test_control(self, op: str, args: dict[str, Any], uid: int, fitting: bool) -> None:
        """So is an operation of the control socket, with what it takes and with more."""
        control = self.rig.door()
        (row,) = [row for row in self.rig.table() if row.name == op]
        names = {argument.name for argument in row.takes}
        if fitting and not row.more:
            args = {name: value for name, value in args.items() if name in names}
        call = Deferred.fromCoroutine(control.handle(op, args, PeerProcess(uid, uid, 1), _silent))
        self.rig.clock.pump([0.1] * 3)
        call.addErrback(lambda failure: failure.trap(RemoteError, CancelledError))
        call.cancel()
        errors: list[Any] = []
        call.addErrback(errors.append)

        for error in errors:
            self.fail(f"{op} {args}: {error.getTraceback()[-1500:]}")
        self.none_failed((op, args))


async def _silent(item: Any) -> None:
    """Nobody listens."""
