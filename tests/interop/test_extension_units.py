"""
The script that runs the unit tests of extensions: what it counts, and by which causes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import PEERS, ROOT, needs_peers, peer_venv
from tests.interop.extensions import Result, Run, cause_of, read_report, rows

FILES = {
    "pyproject.toml": """
[project]
name = "saltext.tiny"
[project.entry-points."salt.loader"]
"saltext.tiny" = "saltext.tiny"
""",
    "src/saltext/tiny/__init__.py": "",
    "src/saltext/tiny/modules/tiny.py": """
from salt.exceptions import CommandExecutionError

def word():
    return [__salt__["test.word"](), __opts__["id"], __pillar__]

def fail():
    raise CommandExecutionError("no")
""",
    "src/saltext/tiny/states/lone.py": "def __virtual__():\n    return False, 'not today'\n",
    "src/saltext/tiny/states/bad.py": "import salt.nosuchpart\n",
    "tests/__init__.py": "",
    "tests/conftest.py": "from saltfactories.utils import random_string\n",
    "tests/unit/__init__.py": "",
    "tests/unit/test_file.py": "import salt.nosuchpart\ndef test_one():\n    pass\n",
    "tests/unit/test_tiny.py": """
import os
import pytest
import salt.config
import salt.exceptions
import salt.version
from saltext.tiny.modules import tiny

@pytest.fixture
def configure_loader_modules():
    return {tiny: {"__salt__": {"test.word": lambda: "x"}, "__opts__": {"id": "me"}}}

def test_globals():
    tiny.__pillar__["a"] = 1
    assert tiny.word() == ["x", "me", {"a": 1}]

def test_fresh():
    assert tiny.word()[2] == {}
    with pytest.raises(salt.exceptions.CommandExecutionError):
        tiny.fail()

def test_daemon(salt_factories):
    assert salt_factories.salt_minion_daemon("m", overrides={"a": 1}).config["a"] == 1

def test_nosuch():
    import salt.nosuchpart

def test_false():
    assert hasattr(salt.version, "SaltStackVersion"), "real"

def test_false_everywhere():
    assert False

def test_endless():
    while True:
        try:
            os.read(os.pipe()[0], 1)
        except Exception:
            pass

@pytest.mark.skip_if_binaries_missing("nosuch-program")
def test_skipped():
    assert False
""",
}


class CauseTests(SynchronousTestCase):
    """Without running anything."""

    def test_causes(self) -> None:
        """Each kind of error has its cause; with stock failing as well, that is the cause."""

        def of(error: str, words: str = "", missing: str = "", same: str | None = None) -> str:
            return cause_of(Result("t", "failed", error, words, missing), same)

        self.assertEqual(of("AssertionError", "1 == 2"), "differs")
        self.assertEqual(of("AssertionError", same="passed"), "differs")
        self.assertEqual(of("AssertionError", same="failed"), "failed with stock, too")
        self.assertEqual(of("TimedOut"), "time limit")
        self.assertEqual(
            of("AttributeError", "module 'saltwisted.utils.x' has no attribute 'y'"),
            "part not here",
        )
        self.assertEqual(
            of("ModuleNotFoundError", "No module named 'salt.utils.s3'", "salt.utils.s3"),
            "part not here",
        )
        self.assertEqual(
            of("NotImplementedError", "salt.utils.thin.gen_thin: ... has no part of this name"),
            "needs stock's internals",
        )
        self.assertEqual(of("ModuleNotFoundError", "", "boto3"), "library not installed")
        self.assertEqual(of("ModuleNotFoundError", "", "saltext.other"), "library not installed")
        self.assertEqual(of("ConnectionRefusedError"), "outside service")
        self.assertEqual(of("SaltClientError"), "needs a running master")

    def test_rows(self) -> None:
        """
        What passes with stock alone is counted, too; a file that is not collected is one line;
        a test whose end fails has failed.
        """
        ours = Run(
            read_report(
                [
                    '{"test": "f::a", "outcome": "passed"}',
                    '{"test": "f::b", "outcome": "passed"}',
                    '{"test": "f::b", "outcome": "failed", "error": "OSError", "words": "x"}',
                    '{"test": "g", "outcome": "uncollected", "error": "KeyError", "words": "y"}',
                    '{"test": "f::s", "outcome": "skipped"}',
                ]
            )
        )
        stock = Run({name: Result(name, "passed") for name in ("f::a", "f::b", "g::c", "g::d")})

        found = list(rows("x", "c0", ours, stock))

        self.assertEqual(found[0], "| `x` | c0 | 1 of 4 | 4 | 3 differs |")
        self.assertEqual(
            found[1:], ["    f::b: differs: OSError: x", "    g: differs: KeyError: y"]
        )
        alone = next(iter(rows("x", "c0", ours, None)))
        self.assertEqual(alone, "| `x` | c0 | 1 of 2 | 1 differs |")


@needs_peers
class ScriptTests(SynchronousTestCase):
    """The whole script, with an extension of this file's."""

    def test_counted(self) -> None:
        """
        Ours and stock's C{salt} are each given to the tests, with the globals that they ask for;
        each failure has its cause, an endless test ends, and module files are loaded.
        """
        python = os.path.join(PEERS, "testinfra", "bin", "python")
        if not os.path.exists(python):
            raise AssertionError(f"no pytest: {python} is not there")
        (stock,) = Path(peer_venv("3008")).glob("lib/python3*/site-packages")
        clone = Path(self.mktemp()).absolute() / "saltext-tiny"
        for path, text in FILES.items():
            place = clone / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
            names = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
            subprocess.run(["git", "-C", str(clone), *names, *words], check=True)

        script = os.path.join(ROOT, "tests", "interop", "extensions.py")
        words = [sys.executable, script, "--python", python, "--stock", str(stock), "--limit", "5"]
        done = subprocess.run(
            [*words, str(clone)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        commit = subprocess.check_output(["git", "-C", str(clone), "rev-parse", "HEAD"], text=True)
        self.assertEqual(
            lines[0].split(" | ")[:4], ["| `saltext-tiny`", commit[:10], "3 of 7", "4"]
        )
        causes = {line.split(": ")[0].strip().rpartition("::")[2]: line for line in lines[1:6]}
        for name, cause in (
            ("test_nosuch", "failed with stock, too: ModuleNotFoundError"),
            ("test_false", "differs: AssertionError: real"),
            ("test_false_everywhere", "failed with stock, too"),
            ("test_endless", "failed with stock, too: TimedOut"),
            ("tests/unit/test_file.py", "uncollected with stock, too"),
        ):
            self.assertIn(f": {cause}", causes[name], done.stdout)
        self.assertEqual(lines[6], "3 module files: 1 load, 1 refuse, 1 fail")
        self.assertIn("tiny/states/bad.py: fails: No module named 'salt.nosuchpart'", lines[7])
        self.assertIn("tiny/states/lone.py: refuses: not today", lines[8])
