"""
Laws of what is read from files, users and minions above the wire: whatever the text, the only
error is the reader's own.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgpack
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli import yamlin
from saltwisted.config.document import line_of, parse
from saltwisted.domain.acl import command_fault, decide, may_publish, peer_allows, rules_for
from saltwisted.domain.arguments import yamlify
from saltwisted.domain.events import minion_may_fire, trimmed
from saltwisted.domain.jid import is_jid, jid_seconds, jid_to_time
from saltwisted.domain.keys import valid_minion_id
from saltwisted.domain.nested import CALLERS, Unreadable, nested
from saltwisted.domain.render.yaml import load_sls, plain_argument, safe_load
from saltwisted.domain.render.yamlex import load_yamlex
from saltwisted.domain.schedule import ScheduleError, parse_entry
from saltwisted.domain.targeting.bounds import fault
from saltwisted.domain.targeting.traverse import scalar
from saltwisted.domain.when import WhenError, parse_cron, parse_moment
from saltwisted.domain.yamltext import load_yaml
from saltwisted.errors import ConfigError, RemoteError, RenderError, TransportClosed, WireError
from saltwisted.minion.subscriber import Seen, jid_time
from saltwisted.modules import _yaml as modules_yaml
from saltwisted.wire.publication import parse_job
from saltwisted.worker.control import ControlClient
from saltwisted.worker.jobfiles import read_kept

modest = settings(
    derandomize=True,
    max_examples=150,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

marks = st.sampled_from(
    ["", "a: ", "- ", "[", "]", "{", "}", "? ", "&a ", "*a ", "<<: ", "!!binary ", "!!int ", "0x",
     "!!timestamp ", "!!python/name:os", "!!set ", "!!omap ", "!reset ", "!aggregate ", "|\n",
     "\n", "  ", "\t", ":", ", ", "'", '"', "%YAML 1.1\n", "---\n", "...", "~", "1_0", "2026-13-45",
     "1:99", "\0", "\ud7ff", "é", "#", "{{ ", "\x85", "٣", "²"]
)  # fmt: skip
yamlish = st.lists(marks | st.text(max_size=6), max_size=14).map("".join)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=12)
    | st.sampled_from(["*", "@runner", "test.ping", ".*", "(", "[", "web*", "tuesday", "1:30pm"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
nestedly = st.dictionaries(
    st.sampled_from(["__kwarg__", "fun", "arg", "kwarg", "name", "names", "onlyif", "test", "ret",
                     "function", "job_args", "mine_functions", "mine_function", "module", "data",
                     "m_args", "state", "test.ping", "returner", "m_fun", "args"]),
    plain | st.sampled_from(["module.run", "test.try", "saltutil.cmd,test.ping", b"x", True])
    | st.lists(plain, max_size=3),
    max_size=6,
) | st.tuples(
    st.sampled_from(["fun", "name", "function", "args", "mine_functions", "data"]), yamlish
).map("=".join)  # fmt: skip


def only(
    errors: type[Exception] | tuple[type[Exception], ...], read: Callable[..., Any], *args: Any
) -> Any:
    """A value, or one of these errors."""
    try:
        return read(*args)
    except errors:
        return None


class YamlLaws(SynchronousTestCase):
    @modest
    @given(yamlish)
    def test_configuration(self, text: str) -> None:
        """A configuration file is a map or a L{ConfigError}; its lines can be looked up."""
        value = only(ConfigError, parse, text, "master")
        self.assertIsInstance(value, (dict, type(None)))
        only((), line_of, text, "a")

    @modest
    @given(yamlish)
    def test_sls(self, text: str) -> None:
        """An sls file is data or a L{RenderError}."""
        only(RenderError, load_sls, text)
        only(RenderError, load_yamlex, text)

    @modest
    @given(yamlish)
    def test_arguments(self, text: str) -> None:
        """An argument always has a value; other YAML of the command line has one or says why."""
        only((), yamlify, text)
        only((), plain_argument, text)
        only(yaml.YAMLError, yamlin.load, text)

    def test_slips(self) -> None:
        """What PyYAML's own constructors stumble over is an error of the reader, or text."""
        for text in (
            "!!int x", "!!int ''", "!!int '-'", "!!int '1:'", "!!int [1]", "!!int .inf", "0x_",
            "!!float ''", "!!float '1:1:x'", "!!bool x", "!!timestamp x", "!!timestamp []",
            "!!timestamp '2026-01-01 10:00:00+99:99'", "2026-13-45", "1" * 5000, "{{a: 1}: 2}",
            "9999-12-31 23:59:59 -12:00",
        ):  # fmt: skip
            for form in (text, f"a: {text}", f"- {text}"):
                only(ConfigError, parse, form, "master")
                only(RenderError, load_sls, form)
                only(RenderError, load_yamlex, form)
                for read in (safe_load, yamlin.load, modules_yaml.load, load_yaml):
                    only(yaml.YAMLError, read, form)
                only((), yamlify, form)
                only((), plain_argument, form)
                only((), scalar, form)
        with self.assertRaises(yaml.YAMLError):
            load_yaml("!!bool x")
        self.assertEqual(yamlify("!!bool x"), "!!bool x")

    def test_deep_brackets(self) -> None:
        """Brackets nested deeply end no process: libyaml would overflow the C stack."""
        for text in ("[" * 100_000, "{a: " * 50_000, "- " * 100_000 + "x", "? " * 50_000):
            for read in (safe_load, yamlin.load, modules_yaml.load, load_yaml):
                with self.assertRaises(yaml.YAMLError):
                    read(text)
            self.assertEqual(yamlify(text), text)
            self.assertEqual(scalar(text), text)


class TimeLaws(SynchronousTestCase):
    @modest
    @given(yamlish | st.text("0123456789:-/, apmTZ*jand", max_size=24), plain)
    def test_times(self, text: str, value: Any) -> None:
        """Moments and cron lines are understood or refused."""
        for given_value in (text, value):
            only(WhenError, parse_moment, given_value)
            only(WhenError, parse_cron, given_value)

    @modest
    @given(
        st.dictionaries(
            st.sampled_from(
                ["function", "seconds", "minutes", "hours", "days", "when", "once", "cron", "range",
                 "splay", "until", "after", "skip_during_range", "skip_explicit", "run_explicit",
                 "run_after_skip_range", "enabled", "maxrunning", "once_fmt", "return_job", "args"]
            ),
            plain,
            max_size=6,
        )
    )  # fmt: skip
    def test_schedule(self, entry: dict[str, Any]) -> None:
        """A scheduled job is understood or refused."""
        only(ScheduleError, parse_entry, "job", entry, {}, NOW)


class NameLaws(SynchronousTestCase):
    @modest
    @given(st.text(max_size=24) | st.text("0123456789_²٣", min_size=18, max_size=24) | plain)
    def test_names(self, value: Any) -> None:
        """Ids, jids and tags of any kind are judged without an error."""
        valid_minion_id(value)
        minion_may_fire("web1", value)
        jid_to_time(value)
        if is_jid(value):
            self.assertTrue(value.isascii())
            jid_seconds(value)
        if isinstance(value, str):
            jid_time(value)

    @modest
    @given(plain, plain, plain, plain)
    def test_permissions(self, fun: Any, arg: Any, tgt: Any, rules: Any) -> None:
        """Nothing that is asked for raises, and nothing is allowed where there is no rule."""
        args = arg if isinstance(arg, list) else [arg]

        def nobody(tgt: Any, form: str, delimiter: str) -> frozenset[str]:
            return frozenset()

        def everybody(tgt: Any, form: str, delimiter: str) -> frozenset[str]:
            return frozenset(("web1",))

        command_fault(fun)
        fault(tgt, "compound")
        for acl in ({}, {"ann": [".*"]}):
            judging = may_publish(rules_for(acl, "bob"), {}, "bob", fun, args, tgt, "glob")
            self.assertFalse(decide(judging, nobody))
        given = rules if isinstance(rules, list) else [rules]
        black = {"modules": ["no"]}
        for extras in ({}, rules if isinstance(rules, dict) else {"ret": rules}):
            judging = may_publish([*given, "x"], black, "ann", fun, args, tgt, "glob", ":", extras)
            decide(judging, everybody)
        self.assertFalse(peer_allows({}, "web1", fun, args))
        peer_allows({".*": given}, "web1", fun, args)

    @modest
    @given(st.sampled_from(sorted(CALLERS)), st.lists(plain | nestedly, max_size=5))
    def test_nested_calls(self, fun: str, arg: list[Any]) -> None:
        """Whatever its arguments, a call leads to functions with names, or is unreadable."""
        found = only(Unreadable, nested, fun, arg)
        if found is not None:
            self.assertTrue(all(isinstance(name, str) for name in found.functions))
            self.assertTrue(all(isinstance(name, str) for name in found.returners))

    @modest
    @given(plain)
    def test_trimmed(self, value: Any) -> None:
        """Whatever an event carries, it can be cut to size."""
        trimmed({"data": value}, 10)


class FileLaws(SynchronousTestCase):
    @modest
    @given(st.binary(max_size=80))
    def test_kept_return(self, data: bytes) -> None:
        """A damaged file of the outbox is none."""
        only((), read_kept, data)

    @modest
    @given(
        st.lists(
            st.text(max_size=30)
            | st.tuples(st.sampled_from("jsf"), yamlish, yamlish).map(" ".join), max_size=8
        ),
        plain,
    )  # fmt: skip
    @example(["s key \u00b2", "f \u00b2", "f 1.\u00b2", "j", "s"], "")
    def test_seen_jobs(self, lines: list[str], jid: Any) -> None:
        """Wrong lines of the file of seen jobs are skipped."""

        class Kept:
            def load(self) -> list[str]:
                return lines

            def append(self, line: str) -> None:
                pass

            def replace(self, lines: list[str]) -> None:
                pass

        Seen(Kept(), lambda: 1.0).load()
        seen = Seen(Kept(), lambda: 1.0)
        job = only(
            WireError, parse_job, {"jid": str(jid), "fun": "test.ping", "arg": [], "tgt": "*"}
        )
        if job is None:
            return
        seen.why_not(job, "key", "master")
        seen.add(job, "key", "master")
        self.assertEqual(seen.why_not(job, "key", "master"), "duplicate")


class ControlLaws(SynchronousTestCase):
    def setUp(self) -> None:
        """No log."""
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)

    @modest
    @given(st.binary(max_size=40) | plain.map(lambda v: _framed(v)), st.booleans())
    def test_any_answer(self, data: bytes, framed: bool) -> None:
        """A daemon that answers nonsense is not a daemon: the client says so, and nothing else."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(struct.pack(">I", len(data)) + data if framed else data)
            theirs.shutdown(socket.SHUT_WR)
            only(
                (TransportClosed, RemoteError, TimeoutError),
                ControlClient(sock=ours, timeout=5).call,
                "status",
            )


def _framed(value: Any) -> bytes:
    try:
        body: bytes = msgpack.packb({"id": 1, "error": value})
    except (OverflowError, ValueError):
        body = b""
    return struct.pack(">I", len(body)) + body
