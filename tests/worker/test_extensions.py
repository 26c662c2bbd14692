"""
Modules of installed extensions: packages with entry points of the group C{salt.loader}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import saltwisted
from saltwisted.domain.moved import EXTENSIONS, GONE, STOCK, package_of
from saltwisted.worker.process import extensions
from saltwisted.worker.process.modulefiles import HERE, KINDS, claims

PARENT = os.path.dirname(os.path.dirname(saltwisted.__file__))

SCRIPT = """
import json, logging, sys
logging.basicConfig(level=logging.WARNING)
from saltwisted.worker.process.loader import Loaders

loaders = Loaders(json.loads(sys.argv[1]), grains={}, pillar={}, stock=False)
found = {}
for word in sys.argv[2:]:
    kind, name = word.split("/")
    try:
        found[word] = loaders[kind][name]()
    except KeyError:
        found[word] = loaders[kind].missing_fun_string(name)
found["salt"] = "salt" in sys.modules
print(json.dumps(found))
"""


def install(
    folder: Path, name: str, points: str, files: dict[str, str], version: str = "1.0"
) -> None:
    """
    What pip does: a distribution's files and its metadata.

    @param points: the lines below C{[salt.loader]}.
    """
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[salt.loader]\n{points}\n")


def says(word: str) -> str:
    """A module with one function."""
    return f"from salt.exceptions import SaltException\ndef word():\n    return {word!r}\n"


class ExtensionTestCase(SynchronousTestCase):
    """A directory in which extensions are installed, which is on the path of what runs."""

    def setUp(self) -> None:
        """Empty."""
        self.site = Path(self.mktemp()).absolute()
        self.site.mkdir()

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of ours."""
        path = os.pathsep.join((PARENT, str(self.site)))
        return subprocess.run(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    def call(self, *words: str, **opts: Any) -> tuple[dict[str, Any], str]:
        """Functions of loaders, C{kind/module.function}: what they answer, and what was logged."""
        done = self.python("-c", SCRIPT, json.dumps({"id": "m", **opts}), *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        found: dict[str, Any] = json.loads(done.stdout)
        return found, done.stderr


class EntryPointTests(ExtensionTestCase):
    """The forms of an entry point."""

    def test_package(self) -> None:
        """A package has a directory for each kind, and is not executed to find them."""
        kinds = sorted(kind for kind in KINDS if kind not in ("runners", "wheel", "grains"))
        install(
            self.site,
            "saltext-all",
            "all = saltext.all",
            {
                "saltext/all/__init__.py": "raise RuntimeError('executed')\n",
                **{
                    f"saltext/all/{KINDS[kind].folder}/allof.py": says(KINDS[kind].folder)
                    for kind in kinds
                },
            },
        )

        found, log = self.call(*(f"{kind}/allof.word" for kind in kinds))

        self.assertEqual(
            {kind: found[f"{kind}/allof.word"] for kind in kinds},
            {kind: KINDS[kind].folder for kind in kinds},
        )
        self.assertEqual(log, "")
        self.assertTrue(found["salt"])

    def test_functions(self) -> None:
        """A function gives a map by kinds; an old one, called like an option, a list."""
        install(
            self.site,
            "saltext-new",
            "anything = newext.loader:where",
            {
                "newext/__init__.py": "",
                "newext/loader.py": "import os, salt.exceptions\n"
                "HERE = os.path.dirname(__file__)\n"
                "def where():\n    return {'modules': [os.path.join(HERE, 'mods')]}\n",
                "newext/mods/newer.py": says("new"),
                "newext/states/newer.py": says("never: the map has no states"),
            },
        )
        install(
            self.site,
            "old-thing",
            "module_dirs = oldext:mods\nsdb_dirs = oldext:sdbs",
            {
                "oldext.py": "import os\nHERE = os.path.dirname(os.path.abspath(__file__))\n"
                "def mods():\n    return [HERE + '/oldmods']\n"
                "def sdbs():\n    yield HERE + '/oldsdbs'\n",
                "oldmods/older.py": says("old"),
                "oldsdbs/older.py": says("secret"),
            },
        )

        found, log = self.call(
            "modules/newer.word", "states/newer.word", "modules/older.word", "sdb/older.word"
        )

        self.assertEqual(found["modules/newer.word"], "new")
        self.assertEqual(found["states/newer.word"], "'newer.word' is not available.")
        self.assertEqual((found["modules/older.word"], found["sdb/older.word"]), ("old", "secret"))
        self.assertEqual(log, "")

    def test_broken(self) -> None:
        """What is wrong with one is said once, by its name and version; the others work."""
        install(self.site, "bad-absent", "x = nosuch.package", {})
        install(self.site, "bad-raises", "x = badraises:where", {"badraises.py": "1 / 0\n"})
        install(
            self.site,
            "bad-word",
            "x = badword:where",
            {"badword.py": "def where():\n    return {'modules': '/etc'}\n"},
            "2.5",
        )
        install(self.site, "good", "x = goodext", {"goodext/modules/good.py": says("good")})
        (self.site / "half-1.0.dist-info").mkdir()
        (self.site / "half-1.0.dist-info" / "entry_points.txt").write_text("[salt.loader]\nx\n")

        found, log = self.call("modules/good.word", "modules/test.ping", "states/no.one")

        self.assertEqual((found["modules/good.word"], found["modules/test.ping"]), ("good", True))
        for name in (
            "bad-absent(version: 1.0)",
            "bad-raises(version: 1.0)",
            "bad-word(version: 2.5",
        ):
            self.assertEqual(log.count(f"Error processing Salt Extension {name}"), 1, log)
        self.assertIn("division by zero", log)
        self.assertNotIn("Traceback", log)

    def test_ten_together(self) -> None:
        """
        Ten extensions, some with functions, utilities and grains of their own, live together
        (pains 5.2): C{test.ping} is as before, and nothing is logged.
        """
        before, _ = self.call("modules/test.ping")
        for number in range(10):
            name = f"ten{number}"
            install(
                self.site,
                f"saltext-{name}",
                f"{name} = saltext.{name}",
                {
                    f"saltext/{name}/__init__.py": "",
                    f"saltext/{name}/utils/{name}.py": f"def word():\n    return {number}\n",
                    f"saltext/{name}/modules/{name}.py": f"import saltext.{name}.utils.{name}\n"
                    f"def word():\n    return [__utils__['{name}.word'](),"
                    f" saltext.{name}.utils.{name}.word()]\n",
                },
            )

        words = [f"modules/ten{number}.word" for number in range(10)]
        found, log = self.call("modules/test.ping", *words)

        self.assertEqual(before["modules/test.ping"], found["modules/test.ping"])
        self.assertEqual([found[word] for word in words], [[each, each] for each in range(10)])
        self.assertEqual(log, "")


class PlaceTests(ExtensionTestCase):
    """Which of several files of one name is used."""

    def test_precedence(self) -> None:
        """By whole modules: the site's, then an extension's, then ours (pains 5.4)."""
        install(
            self.site,
            "saltext-over",
            "x = overext",
            {
                "overext/modules/test.py": says("extension"),
                "overext/modules/mine.py": says("extension"),
            },
        )
        own = self.site / "own" / "modules"
        own.mkdir(parents=True)
        (own / "mine.py").write_text(says("site"))

        found, _ = self.call(
            "modules/test.word",
            "modules/test.ping",
            "modules/mine.word",
            module_dirs=[str(own.parent)],
        )

        self.assertEqual(found["modules/test.word"], "extension")
        self.assertEqual(found["modules/test.ping"], "'test.ping' is not available.")
        self.assertEqual(found["modules/mine.word"], "site")

    def test_no_neighbours(self) -> None:
        """A module of an extension is not taken for the library of its name, if that is absent."""
        install(
            self.site,
            "saltext-github",
            "x = githubext",
            {
                "githubext/modules/nolibrary.py": "try:\n    import nolibrary\n    HAS = True\n"
                "except ImportError:\n    HAS = False\n"
                "def word():\n    return HAS\n",
                "githubext/utils/inutils.py": "",
                "githubext/modules/other.py": "try:\n    import inutils\n    HAS = True\n"
                "except ImportError:\n    HAS = False\n"
                "def word():\n    return HAS\n",
            },
        )

        found, _ = self.call("modules/nolibrary.word", "modules/other.word")

        self.assertEqual(
            (found["modules/nolibrary.word"], found["modules/other.word"]), (False,) * 2
        )

    def test_took_along(self) -> None:
        """C{salt.utils.NAME} that Salt gave away is the extension's own, where one has it."""
        install(
            self.site,
            "saltext-took",
            "x = saltext.took",
            {
                "saltext/took/__init__.py": "",
                "saltext/took/utils/gadget/__init__.py": "WORD = 'own'\n"
                "import salt.utils.gadget.deep\n",
                "saltext/took/utils/gadget/deep.py": "import salt.utils.stringutils\n"
                "DEEP = salt.utils.stringutils.to_str(b'deep')\n",
                "saltext/took/modules/took.py": "import salt.utils.gadget\n"
                "def word():\n"
                "    return [salt.utils.gadget.WORD, salt.utils.gadget.deep.DEEP]\n",
            },
        )

        found, log = self.call("modules/took.word")

        self.assertEqual((found["modules/took.word"], log), (["own", "deep"], ""))


class InstalledLaterTests(ExtensionTestCase):
    """In a process that goes on, such as the warm parent of a minion's jobs."""

    def test_seen(self) -> None:
        """What is installed, changed and removed is seen at the next look."""
        path = str(self.site)
        self.assertEqual(extensions.entry_points([path]), [])

        install(self.site, "saltext-late", "x = lateext", {})
        self.assertEqual(
            [each.extension for each in extensions.entry_points([path])], ["saltext-late"]
        )
        info = self.site / "saltext_late-1.0.dist-info"
        soon = time.time() + 1000
        os.utime(self.site, (soon, soon))
        self.assertEqual(len(extensions.entry_points([path])), 1)
        (info / "entry_points.txt").write_text("[salt.loader]\ny = laterext\n")
        self.assertEqual([each.module for each in extensions.entry_points([path])], ["laterext"])

        old = time.time() - 60
        os.utime(self.site, (old, old))
        self.assertEqual(len(extensions.entry_points([path])), 1)
        (info / "entry_points.txt").unlink()
        self.assertEqual(len(extensions.entry_points([path])), 1, "it was remembered")
        os.utime(self.site, (old + 1, old + 1))
        self.assertEqual(extensions.entry_points([path]), [])

    def test_first_of_two(self) -> None:
        """Of two distributions of one name, the one that Python would import counts."""
        for version in ("1.0", "2.0"):
            install(self.site / version, "saltext-twice", "x = twice", {}, version)

        found = extensions.entry_points([str(self.site / "2.0"), str(self.site / "1.0")])

        self.assertEqual([each.version for each in found], ["2.0"])


class MinionTests(ExtensionTestCase):
    """As a user sees it, by C{salt-call}."""

    def salt_call(self, *words: str) -> Any:
        """Run it, and read its JSON."""
        done = self.python(
            "-c",
            "import sys; from saltwisted.cli.main import main; sys.exit(main())",
            "salt-call",
            "--local",
            f"--config-dir={self.site}",
            "--out=json",
            *words,
        )
        self.assertTrue(done.stdout, done.stderr)
        return json.loads(done.stdout)["local"]

    def test_every_kind(self) -> None:
        """
        A state that uses a renderer, a utility, a grain, a secret behind C{sdb://} and a returner
        of an extension (pains 5.3).
        """
        (self.site / "minion").write_text(
            f"root_dir: {self.site}\nid: here\nstore:\n  driver: extsdb\n"
            f"file_roots: {{base: [{self.site}/states]}}\n"
        )
        (self.site / "states").mkdir()
        (self.site / "states" / "one.sls").write_text("#!shout\none:\n  extstate.said: []\n")
        install(
            self.site,
            "saltext-kinds",
            "x = kindsext",
            {
                "kindsext/grains/extgrain.py": "def main():\n    return {'ext': {'a': 'grain'}}\n",
                "kindsext/sdb/extsdb.py": "def get(key, profile=None):\n"
                "    return 'secret ' + key\n",
                "kindsext/utils/extutil.py": "def loud(text):\n    return text.upper()\n",
                "kindsext/renderers/shout.py": "from salt.utils import yaml\n"
                "def render(data, saltenv='base', sls='', **kw):\n"
                "    found = yaml.safe_load(data if isinstance(data, str) else data.read())\n"
                "    return {key.upper(): value for key, value in found.items()}\n",
                "kindsext/states/extstate.py": "def said(name):\n"
                "    words = [__utils__['extutil.loud'](name), __grains__['ext']['a'],\n"
                "             __salt__['config.get']('sdb_word')]\n"
                "    return {'name': name, 'result': True, 'changes': {},\n"
                "            'comment': ' '.join(words)}\n",
                "kindsext/returners/extret.py": "def returner(ret):\n"
                f"    open({str(self.site / 'returned')!r}, 'w').write(str(ret['return']))\n",
            },
        )
        with open(self.site / "minion", "a", encoding="utf-8") as file:
            file.write("sdb_word: sdb://store/word\n")

        applied = self.salt_call("state.apply", "one")
        self.salt_call("--return", "extret", "test.echo", "back")
        asked = [
            self.salt_call("sdb.get", "sdb://store/x"),
            self.salt_call("sdb.get", "sdb://no/x"),
        ]

        self.assertEqual([each["comment"] for each in applied.values()], ["ONE grain secret word"])
        self.assertEqual((self.site / "returned").read_text(), "back")
        self.assertEqual(asked, ["secret x", "sdb://no/x"])


class MovedTests(ExtensionTestCase):
    """Which package has what is not here (pains 5.1)."""

    def test_said(self) -> None:
        """
        A function's error names the extension that has it, or the C{salt} package. One that
        nothing has any more is missing in stock's words, and once the log has what became of it.
        """
        found, said = self.call(
            "modules/zabbix.host_get",
            "states/mongodb_user.present",
            "modules/napalm.cli",
            "modules/boto_ec2.exists",
            "modules/boto_ec2.exists",
            "modules/nosuch.thing",
        )

        self.assertEqual(
            found["modules/zabbix.host_get"],
            "'zabbix.host_get' is not available. It is in the Salt extension saltext-zabbix"
            " (pip install --no-deps saltext-zabbix).",
        )
        self.assertIn("saltext-mongodb", found["states/mongodb_user.present"])
        self.assertIn("the salt package has it", found["modules/napalm.cli"])
        self.assertEqual(found["modules/boto_ec2.exists"], "'boto_ec2.exists' is not available.")
        self.assertEqual(said.count("boto_ec2.exists: Salt 3007 had it; Salt 3008 has not"), 1)
        self.assertEqual(found["modules/nosuch.thing"], "'nosuch.thing' is not available.")

    def test_not_here(self) -> None:
        """No row names a module that is here; none is in two rows."""
        for kind in ("modules", "states", "renderers", "returners", "runners", "sdb"):
            here: set[str] = set()
            for path in Path(HERE, KINDS[kind].own).glob("[!_]*.py"):
                here |= {path.stem} | set(claims(str(path)) or ())
            named = [*STOCK.get(kind, "").split(), *GONE.get(kind, "").split()]
            for kinds in EXTENSIONS.values():
                named += kinds.get(kind, "").split()
            self.assertEqual(here & set(named), set(), kind)
            self.assertEqual(len(named), len(set(named)), kind)
        self.assertEqual(package_of("modules", "vault"), "saltext-vault")
