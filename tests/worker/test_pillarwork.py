"""
A pillar worker on real directories: stock's answers, what it records, what it refuses.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Mapping
from typing import Any
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.pillar.plain import sendable
from saltwisted.wire.msgpack import unpack
from saltwisted.wire.text import HALVES
from saltwisted.worker.pillar.facts import UsedGrains, looked_at
from saltwisted.worker.pillar.work import Compilation, PillarWorker
from tests.domain.rendering import RECORDED, plain, without_traces

TOP = "base:\n  '*': [a]\n"
LONG_AGO = 1_600_000_000


class WorkerCase(SynchronousTestCase):
    """Directories for a test."""

    maxDiff = None

    def setUp(self) -> None:
        self.where = tempfile.mkdtemp(prefix="pillar")
        self.addCleanup(shutil.rmtree, self.where, True)
        quiet = logging.NullHandler()
        logging.getLogger("saltwisted.worker").addHandler(quiet)
        self.addCleanup(logging.getLogger("saltwisted.worker").removeHandler, quiet)

    def write(self, path: str, text: str, when: int = LONG_AGO) -> str:
        """A file below the directory, as old as is said."""
        full = os.path.join(self.where, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", newline="") as stream:
            stream.write(text)
        here = full
        while here != self.where:
            os.utime(here, (when, when))
            here = os.path.dirname(here)
        return full

    def worker(
        self, roots: Mapping[str, Mapping[str, str]], opts: Mapping[str, Any] | None = None
    ) -> PillarWorker:
        """A worker on these files."""
        for env, files in roots.items():
            for path, text in files.items():
                self.write(f"{env}/{path}", text)
        settings = {
            **MasterConfig().as_opts(),
            "pillar_roots": {env: [f"{self.where}/{env}"] for env in roots},
            "config_dir": self.where,
            "cachedir": self.where + "/cache",
            "extension_modules": self.where + "/ext",
            "pillar_safe_render_error": False,
            **(opts or {}),
        }
        return PillarWorker(settings)

    def ask(self, worker: PillarWorker, **fields: Any) -> dict[str, Any]:
        """The answer to a call."""
        return worker.pillar({"do": "pillar", "id": "m1", "grains": {"os": "Debian"}, **fields})

    def pillar(self, worker: PillarWorker, **fields: Any) -> Any:
        """The pillar of a call."""
        return unpack(self.ask(worker, **fields)["packed"])


class AsStockTests(WorkerCase):
    """What needs the machine, against recorded answers."""

    def test_recorded(self) -> None:
        """External pillars and functions give what they give in stock."""
        self.assertGreater(len(RECORDED["worker"]), 40)
        for case, recorded in RECORDED["worker"]:
            opts = json.loads(json.dumps(case.get("opts", {})).replace("DIR/", self.where + "/"))
            worker = self.worker(case["roots"], opts)
            request = {"id": "m1", "grains": RECORDED["grains"], **case}
            answer = plain(Compilation(worker, request).run().pillar)
            answer = json.loads(json.dumps(answer).replace(self.where, "DIR"))
            if "_errors" in answer:
                answer["_errors"] = [without_traces(error) for error in answer["_errors"]]

            self.assertEqual(answer, recorded, case)
            shutil.rmtree(self.where)


class RecordTests(WorkerCase):
    """What an answer says about how long it holds."""

    def test_files(self) -> None:
        """Every file that was looked for is named, with its stamp, there or not."""
        worker = self.worker(
            {"base": {"top.sls": TOP, "a/init.sls": "include: [b]\n", "b.sls": ""}}
        )

        files = dict(self.ask(worker)["files"])

        names = {os.fsdecode(path): stamp for path, stamp in files.items()}
        base = self.where + "/base/"
        self.assertEqual(
            set(names), {base + n for n in ("top.sls", "a.sls", "a/init.sls", "b.sls")}
        )
        self.assertIsNone(names[base + "a.sls"])
        self.assertEqual(names[base + "b.sls"][0], LONG_AGO * 10**9)

    def test_directories(self) -> None:
        """With a glob, directories are named too."""
        worker = self.worker({"base": {"top.sls": "base:\n  '*': ['d.*']\n", "d/x.sls": "x: 1"}})

        answer = self.ask(worker)

        self.assertEqual(unpack(answer["packed"]), {"x": 1})
        self.assertIn(os.fsencode(self.where + "/base/d"), dict(answer["files"]))

    def test_links(self) -> None:
        """Links to directories are followed, those that lead back are not."""
        worker = self.worker({"base": {"top.sls": "base:\n  '*': ['*.x']\n", "d/x.sls": "x: 1"}})
        os.symlink("d", self.where + "/base/e")
        os.symlink("..", self.where + "/base/d/up")
        os.symlink(".", self.where + "/base/d/here")

        self.assertEqual(self.pillar(worker), {"x": 1})
        host = Compilation(worker, {"id": "m1"}).host
        self.assertEqual(host.names("base"), ["d.x", "e.x", "top"])

    def test_imports(self) -> None:
        """Imported templates and data are named."""
        sls = "{% import_yaml 'd.yaml' as d %}{% from 'm.jinja' import x %}a: {{ d.k }}{{ x }}"
        files = {"top.sls": TOP, "a.sls": sls, "d.yaml": "k: 1", "m.jinja": "{% set x = 2 %}"}
        worker = self.worker({"base": files})

        answer = self.ask(worker)

        self.assertEqual(unpack(answer["packed"]), {"a": 12})
        named = {os.path.basename(os.fsdecode(path)) for path, _ in answer["files"]}
        self.assertLessEqual({"d.yaml", "m.jinja"}, named)

    def test_grains(self) -> None:
        """The grains that templates and targets looked at are named, others are not."""
        top = "base:\n  'G@role:web': [a]\n"
        worker = self.worker({"base": {"top.sls": top, "a.sls": "o: {{ grains['os'] }}"}})

        answer = self.ask(worker, grains={"os": "Debian", "role": "web", "mem": 5})

        self.assertEqual(answer["grains"], ["os", "role"])

    def test_all_grains(self) -> None:
        """A dump of the grains names all of them."""
        worker = self.worker({"base": {"top.sls": TOP, "a.sls": "o: {{ grains | json }}"}})

        self.assertIsNone(self.ask(worker)["grains"])

    def test_ways_to_look(self) -> None:
        """Every way to read a map is noticed."""
        ways: list[tuple[Any, Any]] = [
            (lambda g: g["a"], ["a"]),
            (lambda g: g.get("b"), ["b"]),
            (lambda g: "c" in g, ["c"]),
            (lambda g: g.setdefault("d", 1), ["d"]),
            (dict, None),
            (lambda g: {**g}, None),
            (list, None),
            (len, None),
            (lambda g: list(g.values()), None),
            (json.dumps, None),
            (lambda g: g == {}, None),
            (lambda g: g | {}, None),
            (lambda g: g.copy(), None),
            (bool, []),
        ]
        for way, expected in ways:
            grains = UsedGrains({"a": 1})
            way(grains)

            self.assertEqual(looked_at(grains), expected)

    def test_functions(self) -> None:
        """A function that asks the machine makes a pillar that is not kept; grains.get does not."""
        pure = self.worker({"base": {"top.sls": TOP, "a.sls": "x: {{ salt.grains.get('os') }}"}})
        impure = {"top.sls": TOP, "a.sls": "x: {{ salt['cmd.run']('echo 1') }}"}

        kept = self.ask(pure)
        self.assertEqual(unpack(kept["packed"]), {"x": "Debian"})
        self.assertIsNotNone(kept["files"])
        self.assertIn("os", kept["grains"])
        self.assertIsNone(self.ask(self.worker({"base": impure}))["files"])

    def test_dice(self) -> None:
        """So do random filters and the time of day."""
        for text in ("{{ [1, 2] | random }}", "{{ None | strftime }}", "{{ 8 | random_str }}"):
            worker = self.worker({"base": {"top.sls": TOP, "a.sls": f"x: '{text}'"}})

            self.assertIsNone(self.ask(worker)["files"], text)
            # Once more, with the template compiled already
            self.assertIsNone(self.ask(worker)["files"], text)

    def test_just_written(self) -> None:
        """A file that changed this very moment may change again: not kept."""
        worker = self.worker({"base": {"top.sls": TOP, "a.sls": "x: 1"}})
        os.utime(self.where + "/base/a.sls")

        self.assertIsNone(self.ask(worker)["files"])

    def test_minions_apart(self) -> None:
        """One worker serves minions with their own grains, functions and pillars."""
        sls = "i: {{ grains.id }}\nf: {{ salt['grains.get']('id') }}{{ salt['pillar.get']('i') }}"
        worker = self.worker({"base": {"top.sls": TOP, "a.sls": sls}})

        for name in ("m1", "m2"):
            self.assertEqual(self.pillar(worker, id=name), {"i": name, "f": name})

    def test_changed_file(self) -> None:
        """A changed file is read again, whatever the worker remembers."""
        files = {"top.sls": TOP, "a.sls": "{% import_text 't' as t %}x: {{ t }}", "t": "1"}
        worker = self.worker({"base": files})
        before = self.pillar(worker)
        self.write("base/t", "2", LONG_AGO + 1)

        self.assertEqual((before, self.pillar(worker)), ({"x": 1}, {"x": 2}))


class RefusalTests(WorkerCase):
    """What pillar compilation does not do."""

    def test_t_pil_2(self) -> None:
        """T-PIL-2: ext_pillars that a minion asks for run only if allowed by name, no git URL."""
        worker = self.worker({"base": {"top.sls": TOP, "a.sls": "x: 1"}})
        for ext in (
            {"cmd_yaml": "echo 'e: 1'"},
            {"git": [{"master ext::sh -c touch% /tmp/pwned": {}}]},
            {"libvirt": {}, "cmd_yaml": "echo 'e: 1'"},
            ["cmd_yaml"],
            "git",
        ):
            answer = self.ask(worker, ext=ext)

            self.assertEqual(unpack(answer["packed"]), {"x": 1})
            self.assertIn(
                "minion asked" if isinstance(ext, dict) else "formatted", answer["log"][0]
            )

    def test_t_pil_2_named(self) -> None:
        """T-PIL-2: a git URL of a minion is refused although the option names git."""
        files = {"base": {"top.sls": TOP, "a.sls": "x: 1"}}
        worker = self.worker(files, {"on_demand_ext_pillar": ["git", "cmd_yaml"]})

        allowed = self.ask(worker, ext={"cmd_yaml": "echo 'e: 1'"})
        self.assertEqual(unpack(allowed["packed"]), {"x": 1, "e": 1})
        for more in ({}, {"cmd_yaml": "echo 'e: 1'"}):
            ext = {"git": [{"master ext::sh -c touch% /tmp/pwned": {}}], **more}
            answer = self.ask(worker, ext=ext)
            self.assertEqual(unpack(answer["packed"]), {"x": 1})
            self.assertIn("never allowed on demand", answer["log"][0])

    def test_t_jinja_1(self) -> None:
        """T-JINJA-1: grains are data, never templates, and templates run in a sandbox."""
        evil = "{{ salt['cmd.run']('touch " + self.where + "/pwned') }}"
        sls = "g: {{ grains.evil | json }}\ni: {{ grains.id | json }}"
        worker = self.worker({"base": {"top.sls": TOP, "a.sls": sls}})

        self.assertEqual(self.pillar(worker, grains={"evil": evil}), {"g": evil, "i": "m1"})
        self.assertNotIn("pwned", os.listdir(self.where))

        for text in ("{{ ''.__class__.__mro__ }}", "{{ salt.__init__.__globals__ }}"):
            worker = self.worker({"base": {"top.sls": TOP, "a.sls": f"x: {text}"}})
            self.assertIn("unsafe", self.pillar(worker)["_errors"][0])

    def test_outside(self) -> None:
        """No name points outside the roots, also if grains are part of it."""
        self.write("secret.sls", "s: 1")
        for sls in (
            "{% include grains.p %}",
            "include: ['{{ grains.p }}']",
            "{% import_text '../secret.sls' as t %}{{ t }}",
            "{% import_text 'd/../../secret.sls' as t %}{{ t }}",
        ):
            worker = self.worker({"base": {"top.sls": TOP, "a.sls": sls, "d/x": ""}})
            answer = self.pillar(worker, grains={"p": "../secret.sls"})

            self.assertNotIn("s", answer)
            self.assertIn("_errors", answer)

    def test_t_log_1(self) -> None:
        """T-LOG-1: what goes to the log of a broken pillar never quotes it."""
        canary = "C4n4ry"
        broken = (
            f"pw: {canary}\nx: {{{{ nope }}}}",
            f"pw: {canary}\nx: [",
            f"{{% set pw = '{canary}' %}}x: {{{{ pw.nope.y }}}}",
            f"x: {{{{ salt['cmd.run']('nosuchprogram {canary}') }}}}",
            f"x: {{{{ raise('{canary}') }}}}",
            f"x: {{{{ '{canary}' + 1 }}}}",
            f"x: {{{{ ('{canary}' | load_json) }}}}",
            f"x: {{{{ {{'k': '{canary}'}}[5] }}}}",
            f"#!py\ndef run():\n    raise ValueError('{canary}')",
            f"#!json\n{{'{canary}'",
            f"#!yamlex\npw: [{canary}",
            f"pw: {canary}\npw: {canary}",
            f"pw: !!{canary} x",
            f"pw: !{canary}",
            f"pw: *{canary}",
            f"? [{canary}]\n: 1",
            f"pw: @{canary}",
            f"pw: %{canary}",
            f"pw: '{canary}",
            f"{canary}: [",
        )
        for sls in broken:
            worker = self.worker({"base": {"top.sls": TOP, "a.sls": sls}})
            answer = self.ask(worker)

            self.assertTrue(answer["log"], sls)
            self.assertNotIn(canary, json.dumps(answer["log"]), sls)

        command = {"ext_pillar": [{"cmd_yaml": f"echo 'pw: {canary}: ['"}]}
        worker = self.worker({"base": {"top.sls": TOP, "a.sls": "x: 1"}}, command)
        with self.assertLogs("saltwisted.worker") as heard:
            self.ask(worker)
        self.assertNotIn(canary, str(heard.output))

    def test_commands_that_fail(self) -> None:
        """
        A command that fails, or writes what it should not, is one line of the log, with the minion
        and what it wrote to its standard error. The pillar has no error by it, as in stock; the
        master hears of it beside.
        """
        cases = (
            ({"cmd_yaml": "echo broken >&2; exit 3"}, "cmd_yaml", "ended with 3", ": broken"),
            ({"cmd_json": "echo {"}, "cmd_json", "is no JSON (JSONDecodeError)", ""),
            ({"cmd_yaml": "/no/such/program"}, "cmd_yaml", "ended with 127", "/no/such/program"),
            ({"cmd_json": "/no/such/program"}, "cmd_json", "could not be run", "/no/such/program"),
            ({"cmd_yaml": "echo 'a: [1'"}, "cmd_yaml", "is no YAML (ParserError)", ""),
        )
        for entry, name, why, more in cases:
            worker = self.worker(
                {"base": {"top.sls": TOP, "a.sls": "x: 1"}}, {"ext_pillar": [entry]}
            )
            with self.assertLogs("saltwisted.worker.pillar") as heard:
                answer = self.ask(worker)

            (line,) = heard.output
            self.assertIn(f"ext_pillar {name} for m1: ", line)
            self.assertIn(why, line)
            self.assertIn(more, line)
            (told,) = answer["failing"]
            self.assertIn(f"ext_pillar {name}: ", told)
            self.assertIn(why, told)
            self.assertTrue(answer["good"])
            self.assertEqual(unpack(answer["packed"]), {"x": 1})

        kept = {"ext_pillar": [{"cmd_yaml": "echo 'y: 2'; exit 1"}, {"cmd_json": "echo '{}'"}]}
        worker = self.worker({"base": {"top.sls": TOP, "a.sls": "x: 1"}}, kept)
        answer = self.ask(worker)
        self.assertEqual(unpack(answer["packed"]), {"x": 1, "y": 2})
        self.assertEqual(answer["failing"], ["ext_pillar cmd_yaml: the command ended with 1"])

    def test_unsendable(self) -> None:
        """What msgpack cannot carry is an error in the pillar, not of the worker."""
        sls = "#!py\ndef run():\n    return {'x': object()}\n"
        worker = self.worker({"base": {"top.sls": TOP, "a.sls": sls}})

        self.assertEqual(self.pillar(worker), {"_errors": ["x cannot be sent: object"]})

    def test_T_TEXT_1_halves(self) -> None:
        """T-TEXT-1: text that is none costs its own key, whether it is the key or below it."""
        value = {"a": "\ud800", "b\ud800": 1, "c": {"d": ["\ud800", "x"]}, "e": "\u00e4"}
        kept, problems = sendable(value)

        self.assertEqual(kept, {"c": {"d": ["x"]}, "e": "\u00e4"})
        self.assertEqual(
            problems,
            [f"{where} cannot be sent: {HALVES}" for where in ("a", "a key", "c:d:0")],
        )

    def test_unsendable_beside_others(self) -> None:
        """
        An C{ext_pillar} with loops or objects costs these keys; all else arrives.

        Loops are named as stock does it, and are no error; an object is one, in stock for
        everything at once.
        """
        module = """
        class Odd:
            pass

        def ext_pillar(minion_id, pillar, how):
            ring = {"good": 1}
            ring["again"] = ring
            items = [1]
            items.append(items)
            deep = []
            for _ in range(2000):
                deep = [deep]
            shared = {"x": 1}
            return {
                "ring": {"ring": ring},
                "objects": {"object": {"odd": Odd(), "good": 2, "set": {3}}, "list": [Odd(), 4]},
                "keys": {Odd(): 1, "good": 5},
                "loop": {"items": items, "twice": [shared, shared]},
                "deep": {"deep": deep, "good": 6},
                "pillar": {"pillar": pillar, "good": 7},
                "opts": {"opts": __opts__, "good": 8},
                "raises": {},
            }[how]
        """
        self.write("ext/pillar/odd.py", textwrap.dedent(module))
        hows = ("ring", "objects", "keys", "loop", "deep", "pillar", "opts")
        worker = self.worker(
            {"base": {"top.sls": TOP, "a.sls": "before: {x: 1}"}},
            {"ext_pillar": [*({"odd": how} for how in hows), {"cmd_yaml": "echo 'after: 1'"}]},
        )
        for _ in range(2):
            answer = self.ask(worker)
            pillar = unpack(answer["packed"])

            self.assertEqual((pillar["before"], pillar["after"]), ({"x": 1}, 1))
            self.assertEqual(pillar["good"], 8)
            self.assertEqual(pillar["ring"], {"good": 1, "again": "<Recursion on dict>"})
            self.assertEqual(pillar["object"], {"good": 2, "set": [3]})
            self.assertEqual(pillar["list"], [4])
            self.assertEqual(pillar["items"], [1, "<Recursion on list>"])
            self.assertEqual(pillar["twice"], [{"x": 1}, {"x": 1}])
            self.assertEqual(pillar["pillar"]["before"], {"x": 1})
            self.assertEqual(pillar["opts"]["extension_modules"], self.where + "/ext")
            said = " ".join(pillar["_errors"])
            for name in ("object:odd", "list:0", "a key", "deep"):
                self.assertIn(name, said)
            self.assertNotIn("Recursion", said)
            mine = [one for one in pillar["_errors"] if "deep" not in one]
            self.assertTrue(all("ext_pillar odd" in one for one in mine), said)

    def test_unsendable_without_master(self) -> None:
        """Who has no master gets the same."""
        sls = "#!py\ndef run():\n    x = {'y': 1}\n    x['x'] = x\n    return x\n"
        worker = self.worker({"base": {"top.sls": TOP, "a.sls": sls}})

        value = worker.value({"id": "m1", "grains": {}})

        self.assertEqual(value["y"], 1)
        self.assertIn("Recursion", json.dumps(value))

    def test_asks_for_itself(self) -> None:
        """A pillar that asks for the pillar of its minion ends with an error."""
        sls = "x: {{ salt['pillar.items']() | json }}"
        worker = self.worker({"base": {"top.sls": TOP, "a.sls": sls}})

        self.assertIn("requests itself", json.dumps(self.pillar(worker)))


class GpgTests(WorkerCase):
    """Real gpg."""

    def test_decrypts(self) -> None:
        """C{#!yaml|gpg} and decrypt_pillar give the plain text, by the key ring in gpgkeys."""
        if shutil.which("gpg") is None:
            raise SkipTest("there is no gpg program")
        home = os.path.join(self.where, "gpgkeys")
        os.mkdir(home, 0o700)

        def gpg(*args: str, given: bytes = b"") -> bytes:
            line = ["gpg", "--homedir", home, "--batch", "--no-tty", *args]
            return subprocess.run(line, input=given, capture_output=True, check=True).stdout

        self.addCleanup(subprocess.run, ["gpgconf", "--homedir", home, "--kill", "all"])
        gpg("--passphrase", "", "--quick-generate-key", "t@example.com", "future-default")
        sealed = gpg("--trust-model", "always", "-ear", "t@example.com", given=b"s3cret\n").decode()
        indented = sealed.replace("\n", "\n  ")
        files = {"top.sls": TOP, "a.sls": f"#!yaml|gpg\nx: |\n  {indented}\ny: plain\n"}

        worker = self.worker({"base": files})
        answer = self.ask(worker)
        self.assertEqual(unpack(answer["packed"]), {"x": "s3cret", "y": "plain"})
        self.assertIsNotNone(answer["files"])

        files["a.sls"] = f"x:\n  z: |\n    {sealed.replace(chr(10), chr(10) + '    ')}\n"
        worker = self.worker({"base": files}, {"decrypt_pillar": ["x:z"]})
        self.assertEqual(self.pillar(worker), {"x": {"z": "s3cret"}})

        gpg("--yes", "--delete-secret-keys", *_fingerprints(gpg("--list-keys", "--with-colons")))
        worker = self.worker({"base": files}, {"decrypt_pillar": ["x:z"]})
        answer = self.ask(worker)
        pillar = unpack(answer["packed"])
        self.assertIn("Failed to decrypt pillar key 'x:z'", pillar["_errors"][0])
        self.assertIsNone(answer["files"])


def _fingerprints(listing: bytes) -> list[str]:
    lines = [line.split(":") for line in listing.decode().splitlines()]
    return [line[9] for line in lines if line[0] == "fpr"][:1]


class SiteCodeTests(WorkerCase):
    """Renderers and external pillars of the site's own."""

    def setUp(self) -> None:
        """A renderer, and an external pillar."""
        super().setUp()
        self.write(
            "ext/renderers/lines.py",
            "import sys\n"
            "def render(data, saltenv='base', sls='', **kwargs):\n"
            "    text = data if isinstance(data, str) else data.read()\n"
            "    if 'leave' in text:\n        sys.exit(3)\n"
            "    if 'raise' in text:\n        raise ValueError('no such line')\n"
            "    found = dict(line.split('=') for line in text.split() if '=' in line)\n"
            "    return {**found, 'os': __grains__['os'], 'sls': sls,"
            " 'echo': __salt__['test.echo'](saltenv)}\n",
        )
        self.write(
            "ext/pillar/leaving.py",
            "import sys\ndef ext_pillar(minion_id, pillar, *args):\n    sys.exit(4)\n",
        )

    def test_renderer(self) -> None:
        """C{_renderers} work in pillars, alone and in a pipe; such a pillar is not kept."""
        worker = self.worker(
            {"base": {"top.sls": TOP, "a.sls": "#!jinja|lines\nx={{ grains.os }}\n"}}
        )

        answer = self.ask(worker)
        self.assertEqual(
            unpack(answer["packed"]), {"x": "Debian", "os": "Debian", "sls": "a", "echo": "base"}
        )
        self.assertIsNone(answer["files"])

    def test_bad_renderer(self) -> None:
        """One that raises or exits is an error of its SLS; the next pillar is unharmed."""
        for text, why in (("raise", "no such line"), ("leave", "ext/renderers/lines.py")):
            worker = self.worker(
                {"base": {"top.sls": TOP, "a.sls": f"#!lines\n{text}\n", "b.sls": "x: 1"}}
            )
            self.assertIn(why, str(self.pillar(worker)["_errors"]))
            self.write("base/top.sls", "base: {'*': [b]}")
            self.assertEqual(self.pillar(worker), {"x": 1})

    def test_exit(self) -> None:
        """An external pillar that exits is named with its file; the rest of the pillar is there."""
        worker = self.worker(
            {"base": {"top.sls": TOP, "a.sls": "x: 1"}}, {"ext_pillar": [{"leaving": 1}]}
        )

        answer = self.ask(worker)
        found = unpack(answer["packed"])
        self.assertEqual(found["x"], 1)
        self.assertIn("ext/pillar/leaving.py", str([found.get("_errors"), answer["log"]]))
