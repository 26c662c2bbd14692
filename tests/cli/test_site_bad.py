"""
Each way in which a file of a site's may be bad, with each kind that C{salt-call} executes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

CASES = {
    "raises": 'raise RuntimeError("not today")\n',
    "leaves": "import sys\nsys.exit(3)\n",
    "ends": "import os\nos._exit(7)\n",
    "forks": "import os\nos.fork()\n",
    "prints": 'print("at import")\n',
    "changes": "import os, sys\nos.environ.clear()\nsys.path[:] = []\nos.chdir('/')\n",
    "patches": "import saltwisted.modules.test as ours\nours.ping = None\n",
}
BODIES = {
    "modules": "def f():\n    return 'fine'\n",
    "utils": "def f():\n    return 'fine'\n",
    "states": "def f(name):\n"
    "    return {'name': name, 'result': True, 'changes': {}, 'comment': 'fine'}\n",
    "renderers": "def render(data, *args, **kwargs):\n    return 'fine'\n",
    "returners": "def returner(ret):\n    with open(PLACE, 'a') as f:\n        f.write('fine')\n",
    "outputters": "def output(data, **kwargs):\n    return 'fine'\n",
    "executors": "def execute(opts, data, func, args, kwargs):\n    return 'fine'\n",
    "sdb": "def get(key, profile=None):\n    return 'fine'\n",
    "grains": "def f():\n    return {'site': 'fine'}\n",
}
ASKS = "def f(name):\n    return __utils__[name]()\n"


class BadFileTests(SynchronousTestCase):
    """Each call is a command of its own, as a user's."""

    def setUp(self) -> None:
        """A minion's configuration, and a directory of modules for each kind."""
        self.base = Path(self.mktemp()).absolute()
        self.place = self.base / "place"
        (self.base / "site" / "modules").mkdir(parents=True)
        (self.base / "site" / "modules" / "asks.py").write_text(ASKS)
        options = {"root_dir": str(self.base), "module_dirs": [str(self.base / "site")]}
        options.update(
            id="m1", file_client="local", outputter_dirs=[str(self.base / "site" / "output")]
        )
        options.update({f"bad_{case}": {"driver": f"bad_{case}"} for case in CASES})
        options["executor_dirs"] = [str(self.base / "site" / "executors")]
        (self.base / "minion").write_text(json.dumps(options))

    def write(self, kind: str, case: str) -> Path:
        """The file of a kind that is bad in this way."""
        folder = {"outputters": "output"}.get(kind, kind)
        path = self.base / "site" / folder / f"bad_{case}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(CASES[case] + BODIES[kind].replace("PLACE", repr(str(self.place))))
        return path

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run C{salt-call --local}."""
        command = [sys.executable, "-m", "saltwisted.cli.main", "salt-call", "--local"]
        return subprocess.run(
            [*command, "-c", str(self.base), "-l", "error", "--out=json", *words],
            capture_output=True,
            text=True,
            timeout=60,
        )

    def asked(self, kind: str, case: str) -> tuple[str, subprocess.CompletedProcess[str]]:
        """Call for the file of a kind; what it gave, as one text, and how the command ended."""
        name = f"bad_{case}"
        words = {
            "modules": [f"{name}.f"],
            "utils": ["asks.f", f"{name}.f"],
            "states": ["state.single", f"{name}.f", "name=x"],
            "renderers": ["slsutil.renderer", "string=x", f"default_renderer={name}"],
            "returners": [f"--return={name}", "test.ping"],
            "outputters": [f"--out={name}", "test.ping"],
            "executors": [f"--module-executors=[{name}]", "test.ping"],
            "sdb": ["sdb.get", f"sdb://{name}/key", "strict=True"],
            "grains": ["grains.get", "site"],
        }
        done = self.call(*words[kind])
        found = done.stdout
        if kind == "returners":
            found = self.place.read_text() if self.place.exists() else ""
            self.place.unlink(missing_ok=True)
        return found, done

    def check(self, kind: str) -> None:
        """All cases with one kind."""
        for case in CASES:
            path = self.write(kind, case)
            found, done = self.asked(kind, case)
            if case in ("raises", "leaves", "ends"):
                self.assertNotIn("fine", found, case)
                self.assertIn(str(path), done.stderr, (case, done))
            else:
                self.assertEqual(found.count("fine"), 1, (case, done))
            if case == "ends":
                self.assertEqual(done.returncode, 7)
                self.assertEqual(done.stderr, f"[ERROR   ] {path} has ended this process\n")
            path.unlink()
            if case == "prints":
                self.assertIn("at import", done.stdout)
            elif case in ("forks", "changes", "patches"):
                self.whole(kind, done.stdout)
        self.assertEqual(json.loads(self.call("test.ping").stdout), {"local": True})

    def whole(self, kind: str, shown: str) -> None:
        """What is printed is what was asked for, once."""
        if kind == "outputters":
            self.assertEqual(shown, "fine\n")
        else:
            json.loads(shown)

    def test_modules(self) -> None:
        """Execution modules: the file is named, or the function answers, once."""
        self.check("modules")

    def test_utils(self) -> None:
        """Utilities: likewise."""
        self.check("utils")

    def test_states(self) -> None:
        """States: likewise."""
        self.check("states")

    def test_renderers(self) -> None:
        """Renderers: likewise."""
        self.check("renderers")

    def test_returners(self) -> None:
        """Returners: likewise."""
        self.check("returners")

    def test_grains(self) -> None:
        """Grains: likewise."""
        self.check("grains")

    def test_outputters(self) -> None:
        """Outputters: likewise."""
        self.check("outputters")

    def test_executors(self) -> None:
        """Executors: likewise."""
        self.check("executors")

    def test_sdb(self) -> None:
        """Drivers of C{sdb://}: likewise."""
        self.check("sdb")
