"""
What requests of the API say: bodies, low state, signatures of hooks. Each refusal alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.api import bodies
from saltwisted.domain.api.bodies import FORM, measure, read
from saltwisted.domain.api.lowstate import CLIENTS, token_word, understand
from saltwisted.domain.api.problems import Problem
from saltwisted.domain.api.signatures import git_rule_of, signatures_of
from saltwisted.errors import ConfigError


class _Case(SynchronousTestCase):
    """What is refused."""

    def problem(self, status: int, words: str, made: Callable[..., Any], *args: Any) -> None:
        """This is answered by such a status and such words."""
        with self.assertRaisesRegex(Problem, words) as caught:
            made(*args)
        self.assertEqual(caught.exception.status, status, args)


class BodyTests(_Case):
    """Bodies."""

    def test_T_API_5_measured(self) -> None:
        """T-API-5: what is too deep, has too many values, or too many keys that are no text."""
        deep: Any = "x"
        for _ in range(bodies.DEPTH - 1):
            deep = [deep]
        measure(deep)
        self.problem(400, "too deeply", measure, [deep])
        self.problem(400, "too deeply", measure, {"a": deep})
        self.patch(bodies, "VALUES", 10)
        for fine in ([0] * 10, {"a": [0] * 4, "b": (0,) * 4}):
            measure(fine)
        for large in ([0] * 11, [[0] * 5, [0] * 4], {"a": {0, 1, 2, 3, 4}, "b": [0] * 5}):
            self.problem(400, "too many values", measure, large)

    def test_T_COST_1_keys(self) -> None:
        """T-COST-1: a map of numbers is short; one of texts need not be."""
        measure(dict.fromkeys(range(bodies.KEYS)))
        measure(dict.fromkeys(map(str, range(bodies.KEYS + 1))))
        keys = dict.fromkeys(range(bodies.KEYS + 1))
        for value in (keys, [keys], {**keys, "a": 1}):
            self.problem(400, "no text", measure, value)

    def test_T_TEXT_1_halves(self) -> None:
        """T-TEXT-1: JSON does not write halves of characters, whatever it says that it is."""
        for kind in ("application/json", "text/plain"):
            for body in (b'"\\ud800"', b'[{"a": ["\\uDC00"]}]', b'{"\\ud83e": 1}'):
                self.problem(400, "half a character", read, kind, body)
            self.assertEqual(read(kind, b'"\\ud83e\\uddc2"').value, "\U0001f9c2")

    def test_T_COST_1_forms(self) -> None:
        """T-COST-1: a form has few fields, and few words that are read as YAML."""
        for body in (b"arg=%b", b"kwarg=%b", b"arg=1&arg=%b", b"arg=%b&kwarg=1"):
            self.problem(400, "send JSON", read, FORM, body % (b"x" * (bodies.WORDS + 1)))
        read(FORM, b"arg=" + b"x" * bodies.WORDS)
        read(FORM, b"other=" + b"x" * (bodies.WORDS + 1))
        self.problem(400, "fields", read, FORM, b"a=1&" * bodies.FIELDS + b"a=1")

    def test_kinds(self) -> None:
        """A body of a kind that nobody reads is not read."""
        self.assertEqual(read(None, b""), bodies.Body())
        for kind in (None, "", "image/png", "application/xml; charset=utf-8", "json"):
            self.problem(406, "not supported", read, kind, b"{}")

    def test_low_state(self) -> None:
        """Low state is a list of maps of text, and no long one."""
        self.assertEqual(bodies.low_state({"a": 1}), [{"a": 1}])
        chunks = [{"a": 1}] * bodies.LOWSTATES
        self.assertEqual(bodies.low_state(chunks), chunks)
        for value in (None, "x", 5, {}):
            self.problem(400, "must be a list", bodies.low_state, value)
        self.problem(400, "lowstates", bodies.low_state, [*chunks, {"a": 1}])
        for chunk in (None, "x", ["a"], {1: 2}, {"a": 1, None: 2}):
            self.problem(400, "must be a map", bodies.low_state, [{"a": 1}, chunk])


class LowStateTests(_Case):
    """One chunk."""

    good: dict[str, Any] = {"client": "local", "tgt": "*", "fun": "test.ping", "token": "a1"}

    def refused(self, status: int, words: str, **changes: Any) -> None:
        """It asks for nothing that is here."""
        chunk = {**self.good, **changes}
        chunk = {name: value for name, value in chunk.items() if value is not ...}
        self.problem(status, words, understand, chunk, CLIENTS, False)

    def test_T_API_1_who(self) -> None:
        """T-API-1: who does not say who he is, or shows no token, is nobody."""
        self.assertEqual(understand(self.good, CLIENTS, False).proof, {"token": "a1"})
        self.refused(401, "credentials", token=...)
        self.refused(401, "credentials", token=..., username="fred", password="x")
        for token in (None, 5, "", "x", "a\n", "a" * 513, ["a1"], b"a1"):
            self.refused(401, "Invalid token", token=token)
            self.problem(401, "Invalid token", token_word, token)

    def test_what(self) -> None:
        """A client that there is, a function, a target; of a runner one function; no raw shell."""
        for client in (None, "x", 5, ["local"]):
            self.refused(400, "Invalid client", client=client)
        self.problem(400, "disabled", understand, self.good, ("runner",), False)
        self.refused(400, "no salt-ssh", client="ssh")
        for fun in (..., None, "", [], {}, 5):
            self.refused(400, "needs 'fun'", fun=fun)
        for client in ("runner", "runner_async", "wheel", "wheel_async"):
            self.refused(400, "needs 'fun'", client=client, fun=["test.arg"])
        for tgt in (..., None, "", []):
            self.refused(400, "needs 'tgt'", tgt=tgt)
        understand({**self.good, "raw_shell": True}, CLIENTS, True)
        self.refused(401, "Raw shell", raw_shell=True)

    def test_arguments(self) -> None:
        """Keywords are a map of text; seconds are a number that a clock can count."""
        for kwarg in ([1], "x", 5, {1: 2}, {"a": 1, None: 2}):
            self.refused(400, "dictionary", kwarg=kwarg)
        for name in ("timeout", "gather_job_timeout"):
            for value in ("soon", -1, 1e9, float("nan"), float("inf"), 10**400, [1]):
                self.refused(400, "number of seconds", **{name: value})


class SignatureTests(SynchronousTestCase):
    """What cannot be read opens no hook."""

    def test_rules(self) -> None:
        """A rule is a secret that is long enough, or a map that has one, and no other words."""
        (one, other) = signatures_of(
            {"/x/": "a" * 8, "y": {"secret": "b" * 8, "header": "H", "algorithm": "sha512"}}
        )
        self.assertEqual((one.pattern, one.secret, one.algorithm), ("x", b"a" * 8, "sha256"))
        self.assertEqual((other.header, other.algorithm), ("h", "sha512"))
        self.assertEqual((signatures_of(None), signatures_of({})), ((), ()))
        for option in ("x" * 8, ["x" * 8], 5, True):
            self.assertRaisesRegex(ConfigError, "map of paths", signatures_of, option)
        secret = "s" * 8
        for rule, words in (
            *((value, "secret of eight") for value in (None, 5, "", "s" * 7, ["s" * 8], {})),
            *(({"secret": value}, "secret of eight") for value in (None, 5, "s" * 7, ["s"] * 8)),
            ({"secret": secret, "haeder": "H"}, "no haeder"),
            ({"secret": secret, 5: "H"}, "no 5"),
            *(({"secret": secret, "header": value}, "header") for value in (None, 5, "")),
            *(({"secret": secret, "algorithm": value}, "one of") for value in ("md5", None, "")),
        ):
            self.assertRaisesRegex(ConfigError, words, signatures_of, {"x": rule})
        self.assertEqual(git_rule_of(""), ())
        self.assertEqual(git_rule_of(secret)[0].secret, secret.encode())
        for value in (5, "s" * 7, ["s"] * 8, b"s" * 8):
            self.assertRaisesRegex(ConfigError, "eight", git_rule_of, value)
