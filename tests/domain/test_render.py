"""
Renderers: the pipe, the engines, what is remembered, and how mistakes are told.

What can be compared with stock is in C{test_render_stock.py}.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

import jinja2.defaults
import msgpack
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.render import filters, serialize, tree
from saltwisted.domain.render.cache import RenderCache, Shelf
from saltwisted.domain.render.errors import TemplateFailure, excerpt
from saltwisted.domain.render.names import sls_names
from saltwisted.domain.render.pipeline import STRING, Job, Renderer, RenderSettings
from saltwisted.domain.render.yaml import load_sls, plain_argument, safe_load
from saltwisted.domain.render.yamldump import safe_dump
from saltwisted.worker.renderfilters import impure_filters
from tests.domain.rendering import RECORDED, renderer
from tests.fakes.renderhost import FunctionFailed, MemoryHost

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)
trees = st.dictionaries(st.text("ab", max_size=2), values, max_size=4)


def host_of(made: Renderer) -> MemoryHost:
    """The host in memory behind a renderer."""
    assert isinstance(made.host, MemoryHost)
    return made.host


class TableTests(SynchronousTestCase):
    """The names that templates may use."""

    def test_filters(self) -> None:
        """Every filter, test and global of stock is there, counted by the recorder."""
        names = RECORDED["names"]
        ours = {*filters.FILTERS, *serialize.FILTERS, *impure_filters(dict), "indent"}

        self.assertEqual(len(names["filters_changed"]), 92)
        self.assertEqual(set(names["filters_changed"]) - ours, set())
        self.assertEqual(set(names["filters"]) - ours - set(jinja2.defaults.DEFAULT_FILTERS), set())
        self.assertEqual(set(names["tests"]) - set(filters.TESTS), set())
        self.assertEqual(set(names["globals"]), {"ifelse", *filters.GLOBALS})

    def test_impure(self) -> None:
        """The host brings exactly the filters that are named as impure, and C{random}."""
        self.assertEqual(set(impure_filters(dict)), {*filters.IMPURE, "random"})
        self.assertEqual(filters.IMPURE & set(filters.FILTERS), set())


class PipeTests(SynchronousTestCase):
    """The C{#!} line and its renderers."""

    def one(self, text: str | bytes, **more: Any) -> Any:
        """What a single file gives."""
        return renderer({"base": {"a.sls": text}}, **more).file("DIR/base/a.sls", sls="a")

    def test_default(self) -> None:
        """Without a line it is the C{renderer} option; one may be named in the call."""
        self.assertEqual(self.one("a: {{ 1 }}"), {"a": 1})
        self.assertEqual(self.one("a: '{{ 1 }}'", opts={"renderer": "yaml"}), {"a": "{{ 1 }}"})
        made = renderer({"base": {"a": "{{ 1 }}"}})
        self.assertEqual(made.file("DIR/base/a", default="jinja"), "1")

    def test_empty(self) -> None:
        """Missing, empty and blank files are empty maps."""
        self.assertEqual([self.one(""), self.one(" \n \n")], [{}, {}])
        self.assertEqual(renderer({"base": {}}).file("DIR/base/nope"), {})

    def test_msgpack(self) -> None:
        """C{msgpack} behind a line."""
        packed = msgpack.packb({"a": [1, "b"]})

        self.assertEqual(self.one(b"#!msgpack\n" + packed), {"a": [1, "b"]})
        self.assertEqual(self.one("#!msgpack\n"), {})
        self.assertRaises(TemplateFailure, self.one, "#!msgpack\nabc")

    def test_toml(self) -> None:
        """C{toml}, which Python brings."""
        self.assertEqual(
            self.one("#!jinja|toml\na = {{ 1 + 1 }}\n[b]\nc = 'd'"), {"a": 2, "b": {"c": "d"}}
        )
        self.assertRaises(TemplateFailure, self.one, "#!toml\na = ")

    def test_gpg(self) -> None:
        """C{gpg} replaces armoured messages anywhere in the data, and nothing else."""
        armour = "-----BEGIN PGP MESSAGE-----\n{}\n-----END PGP MESSAGE-----"
        made = renderer({"base": {}})
        data = {"a": [armour.format("x"), "y"], "b": {"c": f"1{armour.format('z')}2"}, "n": 5}

        step = made.steps("gpg")[0][0]
        result = step(data, Job(STRING, "base", ""))

        self.assertEqual(result["a"], ["plain:x", "y"])
        self.assertEqual(result["b"], {"c": "1plain:z\n2"})

    def test_nacl(self) -> None:
        """C{nacl} asks the function of that name."""
        text = "#!yaml|nacl\na: NACL[abc=]\nb: [x, 'NACL[d]']\n"

        made = self.one(text, functions={"nacl.dec": lambda text: f"<{text}>"})
        self.assertEqual(made, {"a": "<abc=>", "b": ["x", "<d>"]})

    def test_py(self) -> None:
        """C{py} runs the file with Salt's names as globals."""
        found = "{'a': __grains__['os'], 'b': salt['f.g'](2), 'c': sls, 'd': data}"
        text = f"#!py\ndef run():\n    return {found}\n"
        made = renderer({"base": {"a.sls": text}}, functions={"f.g": lambda n: n + 1})

        result = made.file("DIR/base/a.sls", sls="a", data="D")
        self.assertEqual(result, {"a": "Debian", "b": 3, "c": "a", "d": "D"})

    def test_py_error(self) -> None:
        """A failing C{run} tells its line."""
        with self.assertRaises(TemplateFailure) as caught:
            self.one("#!py\ndef run():\n    x = 1\n    return nope\n")

        self.assertEqual(caught.exception.line, 4)
        self.assertIn("NameError", str(caught.exception))

    def test_text(self) -> None:
        """A text is rendered as a file is."""
        made = renderer({"base": {}})

        self.assertEqual(made.text("#!yaml\na: 1"), {"a": 1})
        self.assertEqual(made.text("a: {{ b }}", context={"b": 5}), {"a": 5})
        self.assertEqual(made.text(""), {})

    def test_forbidden(self) -> None:
        """A forbidden renderer is left out with a warning; an unknown one makes nothing."""
        made = renderer({"base": {}}, {"renderer_blacklist": ["py"]})
        self.assertEqual(made.text("#!yaml|py\na: 1"), {"a": 1})
        self.assertEqual(made.text("#!yaml|nope\na: 1"), {})

        self.assertEqual([level for level, _ in host_of(made).logged], ["warning", "error"])

    def test_libraries(self) -> None:
        """Renderers of optional libraries are there when these are."""

        class Host(MemoryHost):
            def library(self, name: str) -> Any:
                return json if name == "json5" else None

        made = Renderer(
            Host({"base": {}}), RenderSettings(), opts={}, grains={}, pillar={}, functions={}
        )
        self.assertEqual(made.text('#!json5\n{"a": 1}'), {"a": 1})
        self.assertEqual(made.text('#!hjson\n{"a": 1}'), {})
        for text, words in (
            ("#!toml\na = 1", "library is missing"),
            ("#!mako\na: 1", "No module named 'mako'"),
            ("#!json5\n{", "Expecting property name"),
        ):
            self.assertIn(words, str(self.assertRaises(TemplateFailure, made.text, text)))

    def test_functions(self) -> None:
        """Both ways to call a function; its own failures are told as such."""

        def fail() -> None:
            raise FunctionFailed("no such thing")

        made = renderer({"base": {}}, functions={"m.f": lambda x: x * 2, "m.bad": fail})
        self.assertEqual(made.text("a: {{ salt['m.f'](2) }}{{ salt.m.f(3) }}"), {"a": 46})
        failure = self.assertRaises(TemplateFailure, made.text, "\na: {{ salt.m.bad() }}")
        self.assertIn("Problem running salt function in Jinja template: no such", str(failure))
        self.assertEqual((failure.line, failure.quotable), (2, False))

    def test_profile(self) -> None:
        """C{profile} writes how long its block took."""
        made = renderer({"base": {}})
        made.text("{% profile as 'here' %}a: 1{% endprofile %}")

        [(level, message)] = host_of(made).logged
        self.assertEqual(level, "profile")
        self.assertIn("'here': 0.0", message)

    def test_ifelse(self) -> None:
        """The C{ifelse} global is the function C{match.ifelse}."""
        made = renderer({"base": {}}, functions={"match.ifelse": lambda *args: args[-1]})

        self.assertEqual(made.text("a: {{ ifelse('x*', 1, 2) }}"), {"a": 2})


class MemoryTests(SynchronousTestCase):
    """What a worker keeps must never be seen in a result."""

    def test_fresh_copies(self) -> None:
        """Two renderings of one text share nothing that could be changed."""
        made = renderer({"base": {"a": "x: {y: [1]}"}})
        one = made.file("DIR/base/a")
        one["x"]["y"].append(2)

        self.assertEqual(made.file("DIR/base/a"), {"x": {"y": [1]}})

    def test_no_second_read(self) -> None:
        """An unchanged file is read once, a changed one again, imports likewise."""
        made = renderer({"base": {"a": "{% import 'm' as m %}x: {{ m.v }}", "m": "{% set v=1 %}"}})
        host = host_of(made)
        for _ in range(3):
            self.assertEqual(made.file("DIR/base/a"), {"x": 1})
        self.assertEqual(sorted(host.reads), ["DIR/base/a", "DIR/base/m"])

        host.files["DIR/base/m"] = b"{% set v=2 %}"
        self.assertEqual(made.file("DIR/base/a"), {"x": 2})
        self.assertEqual(len(host.reads), 3)

    def test_options_apart(self) -> None:
        """A shared cache keeps templates of different settings apart."""
        cache = RenderCache()
        text = "a:\n{% if true %}\n  b\n{% endif %}"
        one = renderer({"base": {}}, {"renderer": "jinja"}, cache=cache)
        two = renderer(
            {"base": {}}, {"renderer": "jinja", "jinja_env": {"trim_blocks": True}}, cache=cache
        )

        self.assertEqual(one.text(text), "a:\n\n  b\n")
        self.assertEqual(two.text(text), "a:\n  b\n")

    def test_header(self) -> None:
        """A C{#jinja2:} line, the first or below C{#!}, counts for its file alone, and goes."""
        header = '#jinja2: {"trim_blocks": true, "nosuch": 1}'
        text = "a:\n{% if true %}\n  b\n{% endif %}\n"
        made = renderer({"base": {}}, {"renderer": "jinja"})

        self.assertEqual(made.text(f"{header}\n{text}"), "a:\n  b\n\n")
        self.assertEqual(made.text(f"#!jinja\n{header} \n{text}"), "#!jinja\na:\n  b\n\n")
        self.assertEqual(made.text(text), "a:\n\n  b\n\n")
        self.assertEqual(made.text(header), "")

    def test_header_imports(self) -> None:
        """What a file with a header imports is compiled for it, apart from others who import it."""
        made = renderer({"base": {"m": "<< 1 >>{{ 1 }}"}}, {"renderer": "jinja"})
        header = '#jinja2: {"variable_start_string": "<<", "variable_end_string": ">>"}'
        body = "{% include 'm' %}"

        plain, changed = made.text(body), made.text(f"{header}\n{body}")

        self.assertEqual((plain, changed), ("<< 1 >>1", "1{{ 1 }}"))

    def test_no_header(self) -> None:
        """A line that is no JSON map, or stands elsewhere, stays; a broken one is told of."""
        made = renderer({"base": {}}, {"renderer": "jinja"})
        deep = "[" * 100_000
        for line in ("#jinja2:", "#jinja2: {broken", "#jinja2: [1]", f"#jinja2: {deep}"):
            self.assertEqual(made.text(f"{line}\n{{{{ 1 }}}}"), f"{line}\n1")
        self.assertEqual([level for level, _ in host_of(made).logged].count("warning"), 3)
        below = '#!/bin/sh\n#jinja2: {"trim_blocks": true}\n{{ 1 }}'
        self.assertEqual(made.text(below, default="jinja"), below.replace("{{ 1 }}", "1"))

    def test_bad_header(self) -> None:
        """Options that Jinja does not take are an error of the template."""
        made = renderer({"base": {}}, {"renderer": "jinja"})
        text = '#jinja2: {"block_start_string": "x", "variable_start_string": "x"}\na'

        error = self.assertRaises(TemplateFailure, made.text, text)

        self.assertIn("#jinja2:", str(error))
        self.assertEqual(made.jinja.mistake(text), {"line": 1, "problem": error.problem})
        late = '#jinja2: {"trim_blocks": true}\na\n{% if %}'
        self.assertEqual((made.jinja.mistake(late) or {})["line"], 3)

    def test_long_in_map(self) -> None:
        """A long text of several lines in a printed map stays on one line."""
        made = renderer({"base": {}}, {"renderer": "jinja"})

        shown = made.text("{{ {'a': ('word ' * 40) ~ '\n'} }}")

        self.assertEqual(shown.count("\n"), 0, shown)

    def test_no_leak(self) -> None:
        """Variables of one rendering are not seen by the next."""
        made = renderer({"base": {"m": "{{ secret }}"}})
        made.text("{{ secret }}{% import 'm' as m with context %}", context={"secret": 1})

        self.assertRaises(TemplateFailure, made.text, "{{ secret }}")
        self.assertRaises(TemplateFailure, made.text, "{% import 'm' as m %}")

    def test_shelf(self) -> None:
        """A shelf drops what was not used for longest, and takes nothing too heavy."""
        shelf = Shelf(3)
        for key in "abc":
            shelf.put(key, key, 1)
        shelf.get("a")
        shelf.put("d", "d", 1)
        shelf.put("e", "e", 4)

        self.assertEqual([shelf.get(key) for key in "abcde"], ["a", None, "c", "d", None])
        shelf.put("a", "A", 3)
        self.assertEqual((len(shelf), shelf.get("a")), (1, "A"))


class MistakeTests(SynchronousTestCase):
    """Broken input ends in an error that says where."""

    def test_excerpt(self) -> None:
        """Five lines around the one at fault, marked; beyond the end the whole text."""
        text = "\n".join(str(n) for n in range(1, 21))

        self.assertEqual(
            excerpt(text, 10, marker=" <"),
            "---\n[...]\n5\n6\n7\n8\n9\n10 <\n11\n12\n13\n14\n15\n[...]\n---",
        )
        self.assertEqual(excerpt("a\nb", 1), "---\na\nb\n---")
        self.assertEqual(excerpt("a\nb", 5), "a\nb")

    def test_t_yaml_1(self) -> None:
        """T-YAML-1: no tag makes an object, in any reader of ours."""
        tags = ("apply:os.system", "new:os.system", "name:os.system", "module:os")
        for tag in tags:
            text = f"a: !!python/object/{tag} ['id']"
            if tag.startswith(("name", "module")):
                text = f"a: !!python/{tag} ''"
            made = renderer({"base": {}})
            for pipe in ("yaml", "yamlex"):
                failure = self.assertRaises(TemplateFailure, made.text, f"#!{pipe}\n{text}")
                self.assertIn("could not determine a constructor for the tag", str(failure))
            template = "{% load_yaml as x %}" + text + "{% endload %}"
            self.assertRaises(TemplateFailure, made.text, template)
            self.assertEqual(plain_argument(f"!!python/{tag} ''"), f"!!python/{tag} ''")

    def test_deep(self) -> None:
        """Nesting without end is an error, not the end of the process."""
        for text in ("[" * 100000, "{a: " * 100000, "- " * 100000, "? " * 100000):
            self.assertRaises(TemplateFailure, load_sls, text)
        blocks = "\n".join(" " * n + "a:" for n in range(1200))
        self.assertRaises(TemplateFailure, load_sls, blocks)
        self.assertRaises(TemplateFailure, load_sls, "a: &a [*a]")
        self.assertRaises(TemplateFailure, load_sls, "a: &a {b: *a}")
        self.assertEqual(load_sls("a: &a [1]\nb: [*a, *a]"), {"a": [1], "b": [[1], [1]]})

        deep = "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}"
        self.assertRaises(TemplateFailure, renderer({"base": {}}).text, deep)

    def test_endless(self) -> None:
        """Templates that include themselves end with an error."""
        made = renderer({"base": {"a": "{% include 'a' %}"}})

        self.assertRaises(TemplateFailure, made.file, "DIR/base/a")

    def test_not_text(self) -> None:
        """Bytes that are no UTF-8 are an error of the file."""
        made = renderer({"base": {"a": b"a: \xff", "b": "{% import_text 'a' as x %}{{ x }}"}})

        self.assertRaises(UnicodeDecodeError, made.file, "DIR/base/a")
        self.assertRaises(TemplateFailure, made.file, "DIR/base/b")

    def test_where(self) -> None:
        """A mistake in an imported file is quoted from there, with its path and line."""
        files = {"a.sls": "{% import 'lib/m' as m %}", "lib/m": "one\ntwo\n{{ nope }}\n"}
        made = renderer({"base": files})

        failure = self.assertRaises(TemplateFailure, made.file, "DIR/base/a.sls", sls="a")
        self.assertIn("DIR/base/lib/m(3):", str(failure))
        self.assertIn("{{ nope }}    <======================", str(failure))

    def test_bad_load_yaml(self) -> None:
        """C{load_yaml} quotes the line at fault; stock breaks down here."""
        failure = self.assertRaises(
            TemplateFailure,
            renderer({"base": {}}).text,
            "{% load_yaml as x %}\na: 1\nb: [\n{% endload %}",
        )

        self.assertIn("Encountered error loading yaml: ", str(failure))
        self.assertIn("<======================", str(failure))

    @given(st.text("[]{}:-?&*!|>'\"%@`#,\n\t ab01", max_size=40))
    def test_any_text(self, text: str) -> None:
        """Whatever the text, YAML is data or a L{TemplateFailure}."""
        try:
            load_sls(text)
        except TemplateFailure as failure:
            self.assertTrue(str(failure))

    @given(st.text("{}%#ab.|()[]' \n-=if", max_size=40))
    def test_any_template(self, text: str) -> None:
        """Whatever the template, rendering gives a value or a L{TemplateFailure}."""
        try:
            renderer({"base": {}}).text(text)
        except TemplateFailure as failure:
            self.assertTrue(str(failure))


class YamlTests(SynchronousTestCase):
    """Reading and writing."""

    @given(trees)
    def test_round_trip(self, data: Any) -> None:
        """What the C{yaml} filter writes is read back as it was."""
        for flow in (True, False, None):
            text = safe_dump(data, default_flow_style=flow)
            self.assertEqual(safe_load(text), data)

    def test_ordered(self) -> None:
        """Maps of an SLS keep their order, and are ordered maps, as in stock."""
        made = load_sls("b: {z: 1, a: 2}\na: 1")

        self.assertIsInstance(made, OrderedDict)
        self.assertEqual([*made, *made["b"]], ["b", "a", "z", "a"])

    def test_arguments(self) -> None:
        """Words of a command line are values only where that cannot surprise."""
        cases: list[tuple[Any, Any]] = [
            ("5", 5), ("1_000", "1_000"), ("a#b", "a#b"), ("# x", "# x"), ("", ""), ("---", "---"),
            ("None", None), ("true", True), ("a: b", "a: b"), ("{a: b}", {"a": "b"}),
            ("[1]", [1]), ("- 1", "- 1"), ("|", "|"), ("!", "!"), ("a\tb", "a\tb"), ("[", "["),
            ("2020-01-01", "2020-01-01"), ("1.5", 1.5), (7, 7), ("0777", 777), ("~", None),
        ]  # fmt: skip
        for text, value in cases:
            self.assertEqual(plain_argument(text), value, text)


class TreeTests(SynchronousTestCase):
    """Merging."""

    @given(trees, trees)
    def test_unchanged(self, older: Any, newer: Any) -> None:
        """A merge leaves its arguments as they were."""
        before = json.dumps([older, newer], default=repr)
        for strategy in tree.STRATEGIES:
            tree.merge(older, newer, strategy, lists=True)

        self.assertEqual(json.dumps([older, newer], default=repr), before)

    @given(trees, trees)
    def test_idempotent(self, older: Any, newer: Any) -> None:
        """Merging the same once more changes nothing, with list merging too."""
        for lists in (False, True):
            once = tree.merge_recurse(older, newer, lists)
            self.assertEqual(tree.merge_recurse(once, newer, lists), once)

    @given(trees)
    def test_identity(self, a: Any) -> None:
        """Nothing is the neutral element."""
        self.assertEqual(tree.merge_recurse(a, {}), a)
        self.assertEqual(tree.merge_recurse({}, a), a)

    def test_not_maps(self) -> None:
        """Only maps can be merged."""
        self.assertRaises(TypeError, tree.merge, {}, [1])
        self.assertRaises(TypeError, tree.merge, [1], {}, "overwrite")

    def test_update(self) -> None:
        """C{update} works in place, with or without recursion and list merging."""
        data = {"a": {"b": 1}, "l": [1]}
        self.assertIs(tree.update(data, {"a": {"c": 2}, "l": [1, 2]}, lists=True), data)
        self.assertEqual(data, {"a": {"b": 1, "c": 2}, "l": [1, 2]})
        self.assertEqual(
            tree.update({"a": {"b": 1}}, {"a": {"c": 2}}, recursive=False), {"a": {"c": 2}}
        )


class NameTests(SynchronousTestCase):
    """Where a template stands."""

    def test_names(self) -> None:
        """SLS files, init files, files that are not an SLS, and bare texts."""
        cases: list[tuple[str | None, str, dict[str, str]]] = [
            (
                "/r/a/b.sls",
                "a.b",
                {"tplfile": "a/b.sls", "tpldir": "a", "slspath": "a", "tpldot": "a"},
            ),
            (
                "/r/a/b/init.sls",
                "a.b",
                {"tplfile": "a/b/init.sls", "tpldir": "a/b", "slsdotpath": "a.b"},
            ),
            ("/r/top.sls", "", {"tplfile": "top.sls", "tpldir": ".", "slspath": "", "tpldot": ""}),
            (
                "/r/x.conf",
                "d/x.conf",
                {"tplfile": "d/x.conf", "tpldir": "d", "tplpath": "/r/x.conf"},
            ),
            (None, "a.b", {"slspath": "a/b", "sls_path": "a_b", "slscolonpath": "a:b"}),
        ]
        for path, sls, expected in cases:
            names = sls_names(path, sls)
            self.assertEqual({k: names[k] for k in expected}, expected, (path, sls))
