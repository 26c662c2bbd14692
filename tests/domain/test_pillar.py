"""
The pillar compiler: the order of its steps, external pillars, and what it says went wrong.

Its answers are compared with stock in C{test_render_stock.py}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.pillar.compile import Compiled, PillarCompiler
from saltwisted.domain.pillar.settings import PillarSettings, asked_environment, resolve_roots
from saltwisted.domain.pillar.top import chosen, in_env_order, merge_tops
from saltwisted.domain.render.pipeline import Renderer, RenderSettings
from saltwisted.domain.targeting.matchers import MinionFacts
from tests.domain.rendering import OPTS, compile_case
from tests.fakes.renderhost import MemoryHost

TOP = "base:\n  '*': [a]\n"


class Ext:
    """External pillars that say what they were given."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.seen: list[tuple[str, dict[str, Any], Any]] = []
        self.pillars: list[dict[str, Any]] = []

    def has(self, name: str) -> bool:
        return name in self.answers

    def run(self, name: str, pillar: Mapping[str, Any], config: Any) -> Any:
        self.seen.append((name, dict(pillar), config))
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def replaced(self, pillar: Mapping[str, Any]) -> None:
        self.pillars.append(dict(pillar))


class ExtTests(SynchronousTestCase):
    """External pillars in their places."""

    def compile(self, ext: Ext, sls: str, **opts: Any) -> Compiled:
        """One SLS and these options."""
        case = {"roots": {"base": {"top.sls": TOP, "a.sls": sls}}, "opts": opts}
        return compile_case(case, ext)

    def test_order(self) -> None:
        """Each sees what was there before it, and wins over it."""
        ext = Ext(one={"b": 1, "c": 1}, two={"c": 2})

        made = self.compile(ext, "a: 0\nb: 0", ext_pillar=[{"one": "x"}, {"two": [1]}])

        self.assertEqual(made.pillar, {"a": 0, "b": 1, "c": 2})
        self.assertEqual(
            ext.seen, [("one", {"a": 0, "b": 0}, "x"), ("two", {"a": 0, "b": 1, "c": 1}, [1])]
        )
        self.assertEqual(ext.pillars, [{"a": 0, "b": 0}, {"a": 0, "b": 1, "c": 2}])

    def test_first(self) -> None:
        """With C{ext_pillar_first} files see them, and win."""
        ext = Ext(one={"b": 1, "c": 1})

        made = self.compile(
            ext, "a: {{ pillar.c }}\nb: 0", ext_pillar=[{"one": 1}], ext_pillar_first=True
        )

        self.assertEqual(made.pillar, {"a": 1, "b": 0, "c": 1})
        self.assertEqual(ext.seen, [("one", {}, 1)])

    def test_failing(self) -> None:
        """One that fails is an error in the pillar; the others go on; the log stays clean."""
        ext = Ext(bad=ValueError("C4n4ry"), good={"g": 1})

        made = self.compile(ext, "a: 0", ext_pillar=[{"bad": 1}, {"good": 1}, {"none": 1}])

        self.assertEqual(made.pillar["g"], 1)
        self.assertEqual(made.pillar["_errors"], ["Failed to load ext_pillar bad: C4n4ry"])
        self.assertEqual(
            made.summaries,
            [
                "Failed to load ext_pillar bad: ValueError",
                "ext_pillar interface named none is unavailable",
            ],
        )

    def test_unwanted_kinds(self) -> None:
        """An answer that is not a map is an error, C{None} is none."""
        ext = Ext(words=["x"], nothing=None)

        made = self.compile(ext, "a: 0", ext_pillar=[{"words": 1}, {"nothing": 1}])

        self.assertEqual(made.pillar["a"], 0)
        self.assertEqual(len(made.pillar["_errors"]), 1)

    def test_left_out(self) -> None:
        """A compilation for a git branch runs none."""
        ext = Ext(one={"b": 1})
        opts = {**OPTS, "pillar_roots": {"base": ["DIR/base"]}, "ext_pillar": [{"one": 1}]}
        host = MemoryHost({"base": {"top.sls": TOP, "a.sls": "a: 1"}})
        facts = MinionFacts(id="m1", grains={})
        renderer = Renderer(
            host, RenderSettings.of(opts), opts=opts, grains={}, pillar={}, functions={}
        )
        compiler = PillarCompiler(PillarSettings.of(opts, None, None), facts, renderer, host, ext)

        self.assertEqual(compiler.compile(ext=False).pillar, {"a": 1})
        self.assertEqual(ext.seen, [])


class MistakeTests(SynchronousTestCase):
    """What is told to whom."""

    def test_three_audiences(self) -> None:
        """The minion gets the safe text, the operator all of it, the log a place."""
        files = {"top.sls": TOP, "a.sls": "pw: C4n4ry\nx: {{ nope }}"}
        case = {"roots": {"base": files}, "opts": {"pillar_safe_render_error": True}}

        made = compile_case(case)

        self.assertEqual(
            made.pillar["_errors"],
            ["Rendering SLS 'a' failed. Please see master log for details."],
        )
        self.assertIn("pw: C4n4ry", made.details[0])
        self.assertEqual(
            made.summaries,
            ["Rendering SLS 'a' failed, render error: Jinja variable 'nope' is undefined (line 2)"],
        )
        self.assertNotIn("C4n4ry", repr(made))

    def test_missing(self) -> None:
        """An SLS that is not there is named, also to the log."""
        made = compile_case({"roots": {"base": {"top.sls": TOP}}})

        self.assertEqual(made.summaries, made.pillar["_errors"])

    def test_unknown_matcher(self) -> None:
        """A matcher that does not exist matches nobody, and the log hears of it."""
        top = "base:\n  'x':\n    - match: nosuch\n    - a\n"
        made = compile_case({"roots": {"base": {"top.sls": top, "a.sls": "a: 1"}}})

        self.assertEqual(made.pillar, {})
        self.assertIn("nosuch", made.summaries[0])


class DecryptTests(SynchronousTestCase):
    """C{decrypt_pillar}."""

    ARMOUR = "-----BEGIN PGP MESSAGE-----\\nx\\n-----END PGP MESSAGE-----"

    def compile(self, decrypt: Any, **opts: Any) -> Compiled:
        """A pillar with two secrets."""
        sls = f's: {{t: "{self.ARMOUR}"}}\nl: ["{self.ARMOUR}", plain]\n'
        files = {"top.sls": TOP, "a.sls": sls}
        return compile_case({"roots": {"base": files}, "opts": {"decrypt_pillar": decrypt, **opts}})

    def test_forms(self) -> None:
        """Keys may be a list, a list of maps or a map; a text or what contains texts."""
        for keys in (["s:t"], [{"s:t": "gpg"}], {"s:t": None}, ["s"], ["s:nope", "s:t"]):
            self.assertEqual(self.compile(keys).pillar["s"], {"t": "plain:x"})
        made = self.compile(["l", "s|t"], decrypt_pillar_delimiter="|")
        self.assertEqual(
            (made.pillar["l"], made.pillar["s"]["t"]), (["plain:x", "plain"], "plain:x")
        )

    def test_refused(self) -> None:
        """Only the named renderers decrypt."""
        made = self.compile([{"s:t": "py"}])

        self.assertEqual(
            made.pillar["_errors"],
            [
                "Failed to decrypt pillar key 's:t': 'py' is not a valid decryption renderer."
                " Valid choices are: gpg"
            ],
        )


class TopTests(SynchronousTestCase):
    """Rules on rendered top files."""

    def test_later_wins(self) -> None:
        """A target named again in the same environment replaces the earlier one."""
        tops = {
            "base": [{"base": {"*": ["a"]}}],
            "dev": [{"base": {"*": ["b"]}, "dev": {"*": ["c"]}}],
        }

        merged, optional = merge_tops(tops)

        self.assertEqual(
            {e: dict(t) for e, t in merged.items()}, {"base": {"*": ["b"]}, "dev": {"*": ["c"]}}
        )
        self.assertEqual(optional, {})

    def test_chosen(self) -> None:
        """Names of all targets that match, each once, in order; one environment if asked."""
        merged, _ = merge_tops(
            {"base": [{"base": {"x": ["b", "a"], "y": ["a", "c"]}, "dev": {"x": ["d"]}}]}
        )

        self.assertEqual(
            chosen(merged, None, lambda t, e: True), {"base": ["b", "a", "c"], "dev": ["d"]}
        )
        self.assertEqual(chosen(merged, "dev", lambda t, e: True), {"dev": ["d"]})
        self.assertEqual(chosen(merged, None, lambda t, e: t == "y"), {"base": ["a", "c"]})

    def test_env_order(self) -> None:
        """Named environments first, as named; the rest as it comes."""
        self.assertEqual(in_env_order({"a": 1, "b": 1, "c": 1}, ["c", "x", "a"]), ["c", "a", "b"])

    def test_roots(self) -> None:
        """C{__env__} stands for the asked environment, in names of directories too."""
        roots = {"base": ["/b"], "__env__": ["/e/__env__/p"]}

        self.assertEqual(resolve_roots(roots, "dev"), {"base": ["/b"], "dev": ["/e/dev/p"]})
        self.assertEqual(resolve_roots(roots, "base"), {"base": ["/b"]})
        self.assertEqual(resolve_roots({"base": None}, "base"), {"base": []})


class AskedTests(SynchronousTestCase):
    """Which environment of the pillar a call asks for."""

    def test_asked(self) -> None:
        """A call's C{pillarenv} decides, then perhaps its C{saltenv}; else the option stays."""
        for follow, kwargs, asked in (
            (True, {}, {}),
            (True, {"saltenv": "dev"}, {"pillarenv": "dev"}),
            (True, {"saltenv": None}, {"pillarenv": None}),
            (True, {"saltenv": "dev", "pillarenv": None}, {"pillarenv": None}),
            (True, {"saltenv": "dev", "pillarenv": 8}, {"pillarenv": "8"}),
            (False, {"saltenv": "dev"}, {}),
            (False, {"pillarenv": "qa"}, {"pillarenv": "qa"}),
        ):
            opts = {"pillarenv": "base", "pillarenv_from_saltenv": follow}
            self.assertEqual(asked_environment(opts, kwargs), asked)
