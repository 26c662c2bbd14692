"""
The script that counts which modules of public trees import.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

FILES = {
    "salt/_modules/good.py": "from salt.exceptions import SaltException\ndef f():\n    pass\n",
    "salt/_modules/old.py": "print 'x'\n",
    "salt/_states/lib.py": "import nosuchlibrary\n",
    "salt/_states/part.py": "import salt.nosuchpart\n",
    "salt/_grains/no.py": "def __virtual__():\n    return False\n",
    "salt/_grains/__init__.py": "1 / 0\n",
    "salt/top.sls": "base: {}\n",
}


class SiteTreesTests(SynchronousTestCase):
    """A tree is looked at in a Python of its own, as the script does."""

    def test_causes(self) -> None:
        """Each module of the newest commit is imported; what fails is counted by its cause."""
        clone = Path(self.mktemp()).absolute()
        for path, text in FILES.items():
            place = clone / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
            names = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
            subprocess.run(["git", "-C", str(clone), *names, *words], check=True)

        done = subprocess.run(
            [sys.executable, "-m", "tests.interop.sitetrees", str(clone)],
            cwd=Path(__file__).parent.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        )

        lines = done.stdout.splitlines()
        self.assertTrue(lines[0].endswith(" 2/5"), lines)
        self.assertEqual(lines[-1], "2/5")
        causes = {line.split(":")[0].strip(): line.split(":")[1].strip() for line in lines[1:-1]}
        self.assertEqual(
            causes, {"modules/old": "python", "states/lib": "library", "states/part": "salt"}
        )

    def test_calls(self) -> None:
        """
        The script that compares answers calls what is listed for a tree of this name; what
        differs is shown with both answers, and fails.
        """
        clone = Path(self.mktemp()).absolute() / "owner+salt-talk"
        place = clone / "_modules" / "mysite.py"
        place.parent.mkdir(parents=True)
        place.write_text("def ping():\n    return [__salt__['test.echo']('x'), __grains__['os']]\n")
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
            names = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
            subprocess.run(["git", "-C", str(clone), *names, *words], check=True)
        script = Path(__file__).parent.parent / "interop" / "sitecalls.py"

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            root = str(script.parent.parent.parent)
            return subprocess.run(
                [sys.executable, str(script), *words],
                env={**os.environ, "PYTHONPATH": root},
                capture_output=True,
                text=True,
            )

        ours = run(str(clone)).stdout
        one, two = clone.parent / "one", clone.parent / "two"
        one.write_text(ours)
        two.write_text(ours.replace("Debian", "other"))

        self.assertEqual(ours, "[\"salt-talk/modules/mysite.ping()\", \"['x', 'Debian']\"]\n")
        self.assertEqual(run("--compare", str(one), str(one)).returncode, 0)
        found = run("--compare", str(one), str(two))
        self.assertEqual(found.returncode, 1)
        self.assertIn("1 calls, 0 absent with stock, 1 differ", found.stdout)

    def test_uses(self) -> None:
        """
        The script that says what modules import and call of Salt's: each file once, what is here,
        and what is not.
        """
        clone = Path(self.mktemp()).absolute()
        files = {
            "_modules/one.py": "import salt.utils.files, salt.nosuch\n"
            "from salt.exceptions import SaltException, NoSuchError\n"
            "def f():\n    return salt.utils.files.fopen('x'), salt.utils.files.nosuch\n",
            "_states/two.py": "import salt.utils.files as files\nfiles.fopen('y')\n",
            "_states/old.py": "from salt.exceptions import SaltException\nprint 'x'\n",
            "_states/none.py": "import os\n",
            "other/_states/two.py": "import salt.cloud\n",
        }
        for path, text in files.items():
            (clone / path).parent.mkdir(parents=True, exist_ok=True)
            (clone / path).write_text(text)
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
            names = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
            subprocess.run(["git", "-C", str(clone), *names, *words], check=True)

        done = subprocess.run(
            [sys.executable, "-m", "tests.interop.siteuses", str(clone)],
            cwd=Path(__file__).parent.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        )

        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "4 files, of which 3 import something of Salt's.")
        self.assertEqual(
            lines[4:],
            [
                "| `salt.exceptions` | 2 | 1 | `SaltException` 2, `NoSuchError` 1"
                " | without `NoSuchError` |",
                "| `salt.utils.files` | 2 | 1 | `fopen` 2, `nosuch` 1 | without `nosuch` |",
                "| `salt.nosuch` | 1 | 1 |  | no |",
            ],
        )
