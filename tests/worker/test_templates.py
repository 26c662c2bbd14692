"""
Templates on this machine: what a site has written, and where imports are found.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.domain.render.errors import TemplateFailure
from saltwisted.domain.render.pipeline import Renderer, RenderSettings
from saltwisted.worker import templates
from saltwisted.worker.exceptions import SaltRenderError
from saltwisted.worker.fileclient import file_client
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.process.main import NoMaster
from saltwisted.worker.renderhost import LocalHost, RootsHost

CAPITAL = """
import io, yaml

def render(template_data, saltenv="base", sls="", **kws):
    assert not isinstance(template_data, str), "Salt gives a stream"
    data = yaml.safe_load(template_data.read())
    if kws.get("argline") == "text":
        stream = io.StringIO()
        stream.write("\\n".join(f"{key.upper()}: {value}" for key, value in data.items()))
        return stream
    return {key.upper(): value for key, value in data.items()}
"""


class Case(SynchronousTestCase):
    """A directory with modules and roots."""

    def setUp(self) -> None:
        self.base = os.path.abspath(self.mktemp())
        self.opts: dict[str, Any] = {
            **MinionConfig(id="m1").as_opts(),
            "file_client": "local",
            "extension_modules": os.path.join(self.base, "ext"),
            "cachedir": os.path.join(self.base, "cache"),
            "file_roots": {"base": [os.path.join(self.base, name) for name in ("srv", "more")]},
        }
        os.makedirs(os.path.join(self.base, "srv"))

    def write(self, path: str, text: str) -> str:
        """A file."""
        full = os.path.join(self.base, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as stream:
            stream.write(text)
        return full

    def context(self) -> dict[str, Any]:
        """What a module gives to its templates."""
        loaders = Loaders(self.opts, grains={}, pillar={})
        return {"salt": loaders.modules, "opts": loaders.opts, "grains": {}, "pillar": {}}


class WrittenTests(Case):
    """A renderer of the site's."""

    def test_streams(self) -> None:
        """
        It gets a stream wherever it stands in a pipe, as in Salt: the first, after one of ours, or
        after another of the site's, whose stream is read from its start by all others.
        """
        self.write("ext/renderers/capital.py", CAPITAL)
        for text in (
            "#!capital\nab: 1\n",
            "#!jinja|capital\na{{ 'b' }}: 1\n",
            "#!capital text|capital\nab: 1\n",
            "#!capital text|yaml\nab: 1\n",
            "#!capital text|jinja|yaml\nab: 1\n",
        ):
            self.assertEqual(templates.render_data(self.context(), text=text), {"AB": 1}, text)
            path = self.write("srv/x.sls", text)
            self.assertEqual(templates.render_data(self.context(), path=path), {"AB": 1}, text)


class PythonTests(Case):
    """C{template: py}."""

    def test_no_text(self) -> None:
        """A template whose C{run()} returns no text is an error that says so, and no file."""
        for value, kind in (("None", "NoneType"), ("5", "int"), ("['a']", "list"), ("{}", "dict")):
            path = self.write("t.py", f"def run():\n    return {value}\n")
            with self.assertRaises(SaltRenderError) as caught:
                templates.render_text("", "py", self.context(), path)
            self.assertIn(f"has to return text, and returned {kind}", str(caught.exception))

            target = os.path.join(self.base, "target")
            loaders = Loaders(
                {**self.opts, "test": False},
                grains={},
                pillar={},
                fileclient=lambda: file_client(self.opts, NoMaster()),
            )
            state = loaders.states["file.managed"](target, source=path, template="py")
            self.assertIs(state["result"], False)
            self.assertIn(kind, state["comment"])
            self.assertFalse(os.path.exists(target))

    def test_text(self) -> None:
        """Text and bytes are the file, also no text at all."""
        for value, text in (("'a'", "a"), ("b'\\xc3\\xa4'", "\u00e4"), ("''", "")):
            path = self.write("t.py", f"def run():\n    return {value}\n")
            self.assertEqual(templates.render_text("", "py", self.context(), path), text)


class AbsoluteTests(Case):
    """C{{% from "/srv/salt/x.jinja" import v %}}."""

    def rendered(self, host: Any, name: str) -> Any:
        """What a template imports from a path."""
        renderer = Renderer(
            host, RenderSettings(), opts=self.opts, grains={}, pillar={}, functions={}
        )
        text = f'{{% from "{name}" import v with context %}}\na: {{{{ v }}}}\n'
        return renderer.text(text, "base", "x")

    def hosts(self) -> list[Any]:
        """Of a minion without a master, with one, and of a master's own files."""
        cached = os.path.join(self.base, "cache", "files", "base")

        def find(path: str, saltenv: str) -> str | None:
            asked.append(path)
            for root in (*self.opts["file_roots"]["base"], cached):
                if not path.startswith("/") and os.path.isfile(os.path.join(root, path)):
                    return os.path.join(root, path)
            return None

        asked: list[str] = []
        remote = {**self.opts, "file_client": "remote"}
        return [
            LocalHost(find, self.opts),
            LocalHost(find, remote),
            RootsHost(self.opts["file_roots"], self.opts),
        ]

    def test_inside(self) -> None:
        """A path below a root of the environment is the file there, with what it imports itself."""
        local, remote, roots = self.hosts()
        for folder in ("srv", "more", "cache/files/base"):
            self.write(f"{folder}/t/y.jinja", f"{{% set w = '{folder}' %}}")
            path = self.write(
                f"{folder}/t/{folder[:1]}.jinja",
                "{% from './y.jinja' import w with context %}{% set v = 'MOOP' %}",
            )
            for host in [remote] if folder.startswith("cache") else [local, roots]:
                self.assertEqual(self.rendered(host, path), {"a": "MOOP"})

    def test_outside(self) -> None:
        """A path outside of them is not there, whichever way it is written."""
        outside = self.write("outside.jinja", "{% set v = 'secret' %}")
        self.write("srv2/x.jinja", "{% set v = 'secret' %}")
        for host in self.hosts():
            for path in (
                outside,
                os.path.join(self.base, "srv", "..", "outside.jinja"),
                os.path.join(self.base, "srv2", "x.jinja"),
                os.path.join(self.base, "srv", "t", "..", "..", "srv2", "x.jinja"),
            ):
                with self.assertRaises(TemplateFailure):
                    self.rendered(host, path)
