"""
T-YAML-1, T-JINJA-1, T-PATH-3: text from outside stays text, and names stay names.
"""

from __future__ import annotations

import ast
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from twisted.trial.unittest import SynchronousTestCase

import saltwisted
from saltwisted.cli import yamlin
from saltwisted.domain.arguments import yamlify
from saltwisted.domain.keys import valid_minion_id
from saltwisted.errors import ConfigError, SaltwistedError
from saltwisted.modules import _yaml
from saltwisted.wire.msgpack import unpack
from saltwisted.worker import filecache
from saltwisted.worker.fileclient import FileClient
from saltwisted.worker.grains.collect import _file as grains_file_of
from saltwisted.worker.pillar.work import PillarWorker
from saltwisted.worker.process.configio import load_from_disk
from tests.domain.rendering import renderer
from tests.master.rig import Rig, RigMinion
from tests.worker.test_fileclient import PretendedMaster

SOURCES = Path(saltwisted.__file__).parent
UNSAFE = {"Loader", "CLoader", "UnsafeLoader", "CUnsafeLoader", "FullLoader", "CFullLoader",
          "unsafe_load", "unsafe_load_all", "full_load", "full_load_all", "load_all",
          "Dumper", "CDumper"}  # fmt: skip


class _Place(SynchronousTestCase):
    """A directory, and a quiet log."""

    def setUp(self) -> None:
        """Make it."""
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.home = tempfile.mkdtemp(prefix="swt", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.mark = os.path.join(self.home, "mark")

    def write(self, name: str, text: str) -> str:
        """A file below it."""
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        return path


class Yaml(_Place):
    """T-YAML-1."""

    def payloads(self) -> list[str]:
        """YAML that builds objects, where somebody lets it."""
        touch = f"touch {self.mark}"
        return [
            f"!!python/object/apply:os.system ['{touch}']",
            f"!!python/object/apply:subprocess.check_output [['touch', '{self.mark}']]",
            f"!!python/object/new:os.system ['{touch}']",
            "!!python/name:os.system",
            "!!python/module:os",
            "!!python/object:saltwisted.errors.WireError {reason: x}",
            "!!python/tuple [1, 2]",
            "!<tag:yaml.org,2002:python/object/apply:os.system> ['true']",
        ]

    def built_nothing(self, value: Any, where: str) -> None:
        """Nothing has run, and nothing in the value is more than data."""
        self.assertFalse(os.path.exists(self.mark), where)
        for item in _every(value):
            self.assertIn(
                type(item), (dict, list, str, int, float, bool, type(None), bytes), (where, item)
            )

    def refuses(self, where: str, read: Callable[[], Any], *errors: type[Exception]) -> None:
        """It is one of these errors, or data."""
        try:
            value = read()
        except errors:
            value = None
        self.built_nothing(_plain(value), where)

    def test_T_YAML_1(self) -> None:
        """No YAML that we read builds an object: an error of its reader's own, or text."""
        for number, payload in enumerate(self.payloads()):
            line = f"key: {payload}\n"
            folder = f"conf{number}"
            self.write(f"{folder}/master", line)
            self.refuses(
                "config",
                lambda folder=folder: load_from_disk("master", f"{self.home}/{folder}", {}),
                ConfigError,
            )
            with self.assertRaises(ConfigError):
                load_from_disk("master", f"{self.home}/{folder}", {})
            self.write(f"inc{number}/minion", "id: m\n")
            self.write(f"inc{number}/minion.d/x.conf", line)
            with self.assertRaises(ConfigError):
                load_from_disk("minion", f"{self.home}/inc{number}", {})

            for name, text in (("top.sls", f"base: {payload}\n"), ("a.sls", line)):
                files = {"top.sls": "base:\n  '*': [a]\n", "a.sls": "x: 1\n", name: text}
                self.refuses(f"pillar {name}", lambda files=files: self._pillar(files))
            for text in (
                line,
                f"#!yaml\n{line}",
                f"#!yamlex\n{line}",
                f"#!jinja|yaml\n{{{{ {line!r} }}}}",
                f"{{% set x = {line!r}|load_yaml %}}\nx: {{{{ x }}}}",
                f"{{% load_yaml as x %}}\n{line}{{% endload %}}\nx: {{{{ x }}}}",
                f"#!json\n{payload}",
            ):
                self.refuses(
                    "sls",
                    lambda text=text: renderer({"base": {"a.sls": text}}).file("DIR/base/a.sls"),
                    SaltwistedError,
                )
            self.refuses("argument", lambda p=payload: yamlify(p))
            self.assertEqual(yamlify(payload), payload)
            self.refuses("argument", lambda p=payload: yamlify(f"{{a: {p}}}"))
            self.refuses("command line", lambda p=line: yamlin.load(p), yaml.YAMLError)
            self.refuses("schedule, grains, pkg", lambda p=line: _yaml.load(p), yaml.YAMLError)
            self.write(f"{folder}/grains", line)
            self.assertEqual(grains_file_of(_Grains(f"{self.home}/{folder}")), {})  # type: ignore[arg-type]

    def _pillar(self, files: Mapping[str, str]) -> Any:
        roots = tempfile.mkdtemp(dir=self.home)
        for name, text in files.items():
            self.write(f"{roots}/{name}", text)
        return _compile({"pillar_roots": {"base": [roots]}, "cachedir": self.home}, {})

    def test_T_YAML_1_all_readers(self) -> None:
        """No source names a loader that builds objects, nor a dumper that writes them."""
        loads = 0
        for path in sorted(SOURCES.rglob("*.py")):
            text = path.read_text()
            if "yaml" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                names: list[str] = []
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    names = [node.attr] if node.value.id == "yaml" else []
                elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("yaml"):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
                    names = [str(getattr(argument, "value", "")) for argument in node.args[1:2]]
                for name in names:
                    loads += name.endswith("Loader")
                    where = f"{path.relative_to(SOURCES)}:{getattr(node, 'lineno', 0)}: {name}"
                    self.assertNotIn(name, UNSAFE, where)
        self.assertGreater(loads, 8)


class _Grains:
    """As much of the collector of grains as reading its file needs."""

    def __init__(self, config_dir: str) -> None:
        self.opts = {"config_dir": config_dir, "conf_file": f"{config_dir}/minion"}
        self.machine = self

    def read(self, path: str) -> str:
        """A file."""
        with open(path, encoding="utf-8") as handle:
            return handle.read()


def _every(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _every(key)
            yield from _every(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _every(item)


def _plain(value: Any) -> Any:
    """Readers' own kinds of maps, lists and text count as such; nothing else does."""
    for kind in (dict, list, str):
        if isinstance(value, kind):
            if kind is dict:
                return {_plain(k): _plain(v) for k, v in value.items()}
            return [_plain(v) for v in value] if kind is list else str(value)
    return value


def _compile(opts: Mapping[str, Any], grains: Mapping[str, Any], minion_id: str = "m1") -> Any:
    from saltwisted.config.options import MasterConfig

    worker = PillarWorker(
        {
            **MasterConfig().as_opts(),
            "config_dir": opts["cachedir"],
            "extension_modules": f"{opts['cachedir']}/ext",
            **opts,
        }
    )
    answer = worker.pillar({"do": "pillar", "id": minion_id, "grains": grains})
    return unpack(answer["packed"])


class Jinja(_Place):
    """T-JINJA-1."""

    def evil(self) -> list[str]:
        """Text that does something when a template engine reads it."""
        call = f".os.system('touch {self.mark}')"
        return [
            "{{ 7 * 7 }}",
            "{% include '/etc/passwd' %}",
            "{{ salt['cmd.run']('touch " + self.mark + "') }}",
            "{{ cycler.__init__.__globals__" + call + " }}",
            "{{ self.__init__.__globals__.__builtins__ }}",
            "#!py\ndef run():\n    open('" + self.mark + "', 'w')\n",
        ]

    def pillar(self, text: str, grains: Mapping[str, Any], minion_id: str = "m1") -> Any:
        """The pillar of a minion with such grains."""
        roots = os.path.join(self.home, "pillar")
        self.write("pillar/top.sls", "base:\n  '*':\n    - a\n")
        self.write("pillar/a.sls", text)
        return _compile(
            {"pillar_roots": {"base": [roots]}, "cachedir": self.home}, grains, minion_id
        )

    def test_T_JINJA_1_grains(self) -> None:
        """A grain with a template in it comes out of the pillar as it went in."""
        for text in self.evil():
            made = self.pillar(
                "x: {{ grains['role'] | yaml_dquote }}\ny: {{ grains['role'] | json }}\n"
                "{% set z = grains.role %}\nz: {{ z | json }}\n",
                {"role": text},
            )
            self.assertEqual((made["x"], made["y"], made["z"]), (text, text, text))
        self.assertFalse(os.path.exists(self.mark))

    def test_T_JINJA_1_names(self) -> None:
        """A grain that chooses a file chooses among the pillar's files, and no others."""
        self.write("outside.sls", "leak: true\n")
        for name in ("../outside", "..outside", "/etc/passwd", "../../etc/passwd", "a\0b"):
            made = self.pillar(
                "{% include grains['role'] ignore missing %}\nx: 1\n", {"role": f"{name}.sls"}
            )
            self.assertNotIn("leak", made)
            self.assertNotIn("root:", str(made))
        for text in self.evil():
            self.assertFalse(valid_minion_id(text) and "/" in text)

    def test_T_JINJA_1_sandbox(self) -> None:
        """Templates of the operator run in a sandbox: the way to Python's insides is barred."""
        for text in (
            "x: {{ ''.__class__.__mro__[1].__subclasses__() }}",
            "x: {{ cycler.__init__.__globals__.os.getpid() }}",
            "x: {{ ({}).__class__.__base__ }}",
        ):
            made = self.pillar(f"{text}\n", {})
            self.assertNotIn("x", made)

    def test_T_JINJA_1_requests(self) -> None:
        """Events, returns, mine data and file names from a minion are passed on untouched."""
        rig = Rig(self, peer={".*": [".*"]})
        minion = RigMinion(rig, "web1").accepted()
        for number, text in enumerate(self.evil()):
            jid = f"2026112112000000{number:04d}"
            minion.ask("_minion_event", tag=f"my/{text}", data={"key": text})
            tag, data = rig.events[-1]
            self.assertEqual(tag, f"my/{text}")
            self.assertEqual(data["data"], {"key": text})
            minion.ask("_return", jid=jid, fun=text, **{"return": {"x": text}})
            self.assertEqual(rig.events[-1][1]["return"], {"x": text})
            minion.ask("_mine", data={"f": text})
            self.assertEqual(minion.ask("_mine_get", tgt="web1", fun="f"), {"web1": text})
            self.assertEqual(minion.ask("_file_hash", path=text, saltenv=text), "")
        self.assertFalse(os.path.exists(self.mark))

    def test_T_JINJA_1_who_renders(self) -> None:
        """On the master's side the template engine is known to the renderer's own modules alone."""
        for folder in ("master", "stores", "transports", "wire"):
            for path in (SOURCES / folder).rglob("*.py"):
                for node in ast.walk(ast.parse(path.read_text())):
                    names = []
                    if isinstance(node, ast.Import):
                        names = [alias.name for alias in node.names]
                    elif isinstance(node, ast.ImportFrom):
                        names = [node.module or ""]
                    for name in names:
                        self.assertFalse(
                            name.startswith(("jinja2", "saltwisted.domain.render")), str(path)
                        )


class Names(_Place):
    """T-PATH-3."""

    def test_T_PATH_3(self) -> None:
        """No address, and no name that a master sends, leads out of the minion's cache."""
        bad = [
            "../evil", "../../evil", "a/../../../evil", "/evil", "..", "./../evil", "a/..//../evil",
            "evil\0", "~/evil", "|../evil",
        ]  # fmt: skip
        cache = os.path.join(self.home, "cache")
        os.mkdir(cache)
        master = PretendedMaster(dict.fromkeys([*bad, "good"], b"evil"))
        client = FileClient({"cachedir": cache, "id": "m"}, master)
        before = set(os.listdir(self.home))

        for name in bad:
            for url in (f"salt://{name}", f"salt://good?saltenv={name}", f"file://{name}"):
                for saltenv in ("base", name):
                    try:
                        path = client.cache_file(url, saltenv)
                    except Exception as error:
                        self.assertRegex(
                            type(error).__module__, r"^salt(wisted|\.exceptions)", repr(error)
                        )
                        continue
                    if path and not url.startswith("file:"):
                        self.assertTrue(os.path.realpath(path).startswith(cache + "/"), path)
            for host in ("127.0.0.1:1", "..", "%2e%2e", "user@..:1", "."):
                place = client.cache.web_place(f"http://{host}/{name}", "base", None)
                if place is not None:
                    self.assertTrue(os.path.normpath(place).startswith(cache + "/"), place)
        try:
            client.cache_master()
        except Exception as error:
            self.assertRegex(type(error).__module__, "saltwisted")

        self.assertEqual(set(os.listdir(self.home)), before)
        self.assertFalse(os.path.exists("/evil"))
        self.assertIsNone(filecache.inside(cache, "../x"))
        self.assertTrue(client.cache_file("salt://good"))
