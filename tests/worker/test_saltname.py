"""
Modules of a site import C{salt} where it is not installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import saltwisted
from saltwisted.worker.process import saltname

SCRIPT = """
import json, sys
from saltwisted.worker.process.loader import Loaders

loaders = Loaders({"module_dirs": [sys.argv[1]], "id": "m"}, grains={}, pillar={})
found = {}
for name in sys.argv[2:]:
    try:
        found[name] = loaders.modules[name]()
    except BaseException as error:
        found[name] = [type(error).__name__, str(error)]
found["missing"] = {k: str(v) for k, v in loaders.modules.missing_modules.items()}
found["salt"] = "salt" in sys.modules
print(json.dumps(found))
"""


class SiteCase(SynchronousTestCase):
    """Each test runs site modules in a Python of its own, as a worker does."""

    def run_site(self, text: str, *names: str, salt: str = "", **others: str) -> dict[str, Any]:
        """
        Run functions of C{modules/site.py}.

        @param salt: the text of a C{salt/exceptions.py} that is installed.
        @param others: further modules beside it.
        """
        folder = Path(self.mktemp())
        (folder / "modules").mkdir(parents=True)
        for name, source in {"site": text, **others}.items():
            (folder / "modules" / f"{name}.py").write_text(source)
        path = [os.path.dirname(os.path.dirname(saltwisted.__file__))]
        if salt:
            (folder / "lib" / "salt").mkdir(parents=True)
            (folder / "lib" / "salt" / "__init__.py").write_text("REAL = True\n")
            (folder / "lib" / "salt" / "exceptions.py").write_text(salt)
            path.append(str(folder / "lib"))
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(folder), *names],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found


class SaltNameTests(SiteCase):
    """How the name is found."""

    def test_classes_are_ours(self) -> None:
        """C{salt.exceptions} has the classes that our modules raise: C{except} finds them."""
        found = self.run_site(
            "from salt.exceptions import CommandExecutionError\n"
            "def caught():\n"
            "    try:\n"
            "        __salt__['cmd.run']('true', cwd='/nosuch')\n"
            "    except CommandExecutionError as error:\n"
            "        return type(error).__module__\n",
            "site.caught",
        )

        self.assertEqual(found["site.caught"], "salt.exceptions")

    def test_one_of_each(self) -> None:
        """Packages and aliases do not load a file twice."""
        found = self.run_site(
            "import salt.utils\nimport salt.utils.files\nimport salt.utils.decorators.path\n"
            "import saltwisted.utils.files as ours, sys\n"
            "def same():\n"
            "    return [salt.utils.files is ours, salt.utils.path.which('sh') is not None,\n"
            "            sys.modules['salt.utils'].__path__, salt.utils.files.__spec__.name]\n",
            "site.same",
        )

        self.assertEqual(found["site.same"], [True, True, [], "saltwisted.utils.files"])

    def test_missing_is_named(self) -> None:
        """What is not there is an C{ImportError} that names it and the page; the next job runs."""
        found = self.run_site(
            "import salt.cloud\ndef never():\n    return 1\n",
            "site.never",
            "other.works",
            other="def works():\n    try:\n        from salt.utils import nosuch\n"
            "    except ImportError as error:\n        return str(error)\n",
        )

        self.assertIn("No module named 'salt.cloud'", found["missing"]["site"])
        self.assertIn(saltname.PAGE, found["missing"]["site"])
        self.assertIn("nosuch", found["other.works"])

    def test_lost_in_stock(self) -> None:
        """
        Where stock has lost a part as well the error is the one that it has there, and a module
        that goes on without it does.
        """
        found = self.run_site(
            "import salt.ext.six\ndef never():\n    return 1\n",
            "site.never",
            "moves.never",
            "other.works",
            other="try:\n    from salt.ext import six\nexcept ImportError as error:\n"
            "    six = str(error)\ndef works():\n    return six\n",
            moves="from salt.ext.six.moves import range\ndef never():\n    return 1\n",
        )

        said = "No module named 'salt.ext.six'"
        self.assertEqual((found["missing"]["site"], found["missing"]["moves"]), (said, said))
        self.assertIn("cannot import name 'six' from 'salt.ext'", found["other.works"])

    def test_views(self) -> None:
        """C{salt.modules} and C{salt.states} are what the loader has, with its names."""
        found = self.run_site(
            "import salt.modules.cmdmod\nfrom salt.modules import file as files\n"
            "def ran():\n"
            "    return [salt.modules.cmdmod.run('echo hi'), files.file_exists('/nosuch')]\n"
            "def absent():\n    import salt.modules.nosuch\n",
            "site.ran",
            "site.absent",
        )

        self.assertEqual(found["site.ran"], ["hi", False])
        self.assertEqual(found["site.absent"][0], "ModuleNotFoundError")

    def test_replaced(self) -> None:
        """A module that takes the place of ours, and imports it by its name, gets ours."""
        found = self.run_site(
            "def none():\n    return 1\n",
            "test.echo",
            "test.ping",
            "test.twice",
            test="from salt.modules import test as ours\n"
            "for name in dir(ours):\n"
            "    if not name.startswith('_'):\n"
            "        globals()[name] = getattr(ours, name)\n"
            "def echo(text='x'):\n    return 'site ' + ours.echo(text)\n"
            "def twice():\n    import salt.modules.test as again\n    return again is ours\n",
        )

        self.assertEqual(found["test.echo"], "site x")
        self.assertEqual(found["test.ping"], True)
        self.assertEqual(found["test.twice"], True)

    def test_masks(self) -> None:
        """A mask may be a number of bits, as in stock 3008."""
        found = self.run_site(
            "from salt.utils.validate.net import netmask\n"
            "def masks():\n"
            "    texts = ['24', '33', '255.0.0.0', '0.0.0.255', '255.0.255.0', 'x', 24]\n"
            "    return [netmask(text) for text in texts]\n",
            "site.masks",
        )

        self.assertEqual(found["site.masks"], [True, False, True, True, False, False, False])

    def test_named(self) -> None:
        """
        What modules import at their top and use in few functions says that it is not here when
        it is called; what else they import there works.
        """
        found = self.run_site(
            "import salt.client, salt.client.ssh.state, salt.utils.thin\n"
            "from salt.state import HighState, STATE_INTERNAL_KEYWORDS\n"
            "def good():\n"
            "    return ['order' in STATE_INTERNAL_KEYWORDS, salt.client.LocalClient.__name__]\n"
            "def compiled():\n    return HighState({})\n"
            "def packed():\n    return salt.client.ssh.state.prep_trans_tar()\n"
            "def nosuch():\n    return salt.utils.thin.nosuch\n",
            "site.good",
            "site.compiled",
            "site.packed",
            "site.nosuch",
        )

        self.assertEqual(found["site.good"], [True, "LocalClient"])
        self.assertEqual(found["site.compiled"][0], "NotImplementedError")
        self.assertIn("salt.state.HighState: saltwisted runs", found["site.compiled"][1])
        self.assertIn(saltname.PAGE, found["site.packed"][1])
        self.assertEqual(found["site.nosuch"][0], "AttributeError")

    def test_states_in_python(self) -> None:
        """SLS files that are Python import C{salt} as modules do, with no module of the site."""
        folder = Path(self.mktemp())
        (folder / "conf").mkdir(parents=True)
        (folder / "srv").mkdir()
        head = "#!{}\nfrom salt.utils.stringutils import to_unicode\n"
        texts = {
            "py": "def run():\n    return {to_unicode(b'one'): {'test.nop': []}}\n",
            "pyobjects": "Test.nop(to_unicode(b'two'))\n",
        }
        for name, text in texts.items():
            (folder / "srv" / f"{name}.sls").write_text(head.format(name) + text)
        opts = {
            "id": "m",
            "file_client": "local",
            "root_dir": str(folder.absolute()),
            "file_roots": {"base": [str(folder.absolute() / "srv")]},
        }
        (folder / "conf" / "minion").write_text(json.dumps(opts))
        words = ["salt-call", "-c", str(folder / "conf"), "--local", "--out", "json"]
        words += ["state.show_low_sls", "py,pyobjects"]
        done = subprocess.run(
            [sys.executable, "-m", "saltwisted.cli.main", *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

        found = json.loads(done.stdout)["local"]
        self.assertEqual([chunk["__id__"] for chunk in found], ["one", "two"], found)

    def test_threads(self) -> None:
        """The loader's names hold in threads and in a pool of them (pains 5.7)."""
        found = self.run_site(
            "import salt.loader.dunder as names\n"
            "from concurrent.futures import ThreadPoolExecutor\n"
            "def ask(number):\n"
            "    return [__salt__['test.echo'](number), names.__salt__['test.echo'](number)]\n"
            "def pool():\n"
            "    with ThreadPoolExecutor(4) as several:\n"
            "        return list(several.map(ask, range(20)))\n",
            "site.pool",
        )

        self.assertEqual(found["site.pool"], [[number, number] for number in range(20)])

    def test_real_package_is_first(self) -> None:
        """Where a C{salt} package is installed, it is the one that modules get."""
        found = self.run_site(
            "import salt\nimport salt.exceptions\n"
            "def which():\n    return [salt.REAL, salt.exceptions.WORD]\n",
            "site.which",
            salt="WORD = 'real'\n",
        )

        self.assertEqual(found["site.which"], [True, "real"])

    def test_only_for_the_site(self) -> None:
        """Our own modules do not bring it in; it is not taken for stock."""
        found = self.run_site("def none():\n    return 1\n", "test.ping", "cmd.run_all")

        self.assertFalse(found["salt"])
        found = self.run_site(
            "import salt.utils\nfrom saltwisted.worker.process import modulefiles as files\n"
            "def stock():\n    files._stock = files._UNKNOWN\n    return files.stock_directory()\n",
            "site.stock",
        )
        self.assertIsNone(found["site.stock"])

    def test_neighbours(self) -> None:
        """A module whose neighbour alone mentions C{salt} finds it too."""
        found = self.run_site(
            "import helper\ndef asked():\n    return helper.WORD\n",
            "site.asked",
            helper="from salt.utils.stringutils import to_str\nWORD = to_str(b'x')\n",
        )

        self.assertEqual(found["site.asked"], "x")

    def test_every_part_imports(self) -> None:
        """Each part can be had under Salt's name."""
        base = Path(saltwisted.__file__).parent
        names = [
            "salt." + ".".join(path.relative_to(base / "compat").with_suffix("").parts)
            for path in sorted((base / "compat").rglob("*.py"))
            if path.name != "__init__.py"
        ]
        names += [
            f"salt.utils.{path.stem}"
            for path in sorted((base / "utils").glob("*.py"))
            if not path.name.startswith("_")
        ]
        found = self.run_site(
            "import importlib, json\n"
            f"NAMES = json.loads({json.dumps(json.dumps(names))})\n"
            "def all_of_them():\n"
            "    return [bool(importlib.import_module(name).__doc__) for name in NAMES]\n",
            "site.all_of_them",
        )

        self.assertEqual(found["site.all_of_them"], [True] * len(names))
        self.assertGreater(len(names), 25)
