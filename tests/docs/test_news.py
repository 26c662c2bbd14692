"""
News fragments are in order, and what says the licence says the same everywhere.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from configparser import ConfigParser
from pathlib import Path

import yaml
from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = re.compile(r"(\d+|\+[a-z0-9-]+)\.([a-z]+)\.md")
OTHERS = {"README.md", "template.jinja"}


def settings() -> dict[str, object]:
    """What towncrier is told."""
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
        "towncrier"
    ]
    return found


def kinds() -> set[str]:
    """The types of fragments that there are."""
    listed = settings()["type"]
    assert isinstance(listed, list)
    return {each["directory"] for each in listed}


def faults(files: Iterable[tuple[str, str]]) -> list[str]:
    """What is wrong with fragments, given as name and text."""
    found = []
    for name, text in files:
        match = NAME.fullmatch(name)
        if match is None:
            found.append(f"{name}: not NUMBER.TYPE.md or +word.TYPE.md")
        elif match[2] not in kinds():
            found.append(f"{name}: no such type")
        elif match[2] != "misc" and not text.strip():
            found.append(f"{name}: says nothing")
        elif text.startswith(("-", "*", "#")):
            found.append(f"{name}: the list is made by the template")
    return found


class NewsTests(SynchronousTestCase):
    """C{newsfragments/} and C{NEWS.md}."""

    def test_fragments(self) -> None:
        """Each fragment has a name that towncrier knows and says something."""
        files = [
            (path.name, path.read_text())
            for path in sorted((ROOT / "newsfragments").iterdir())
            if path.name not in OTHERS
        ]

        self.assertEqual(faults(files), [])

    def test_faults_bite(self) -> None:
        """A wrong name, an unknown type, an empty text and a dash in front are found."""
        wrong = [("x.md", "a"), ("1.fix.md", "a"), ("1.bugfix.md", " \n"), ("+a.doc.md", "- a")]

        self.assertEqual(len(faults(wrong)), len(wrong))
        self.assertEqual(faults([("16.doc.md", "A page."), ("+a.misc.md", "")]), [])

    def test_readme_names_types(self) -> None:
        """The page beside the fragments explains each type, and no other."""
        page = (ROOT / "newsfragments" / "README.md").read_text()

        self.assertEqual(set(re.findall(r"^\| `(\w+)` \|", page, re.M)), kinds())

    def test_release(self) -> None:
        """towncrier writes the fragments into NEWS.md above what was there, and removes them."""
        if importlib.util.find_spec("towncrier") is None:
            self.skipTest("towncrier is not installed (pip install -e '.[dev]')")
        copy = Path(self.mktemp())
        copy.mkdir()
        for name in ("pyproject.toml", "NEWS.md"):
            shutil.copy(ROOT / name, copy / name)
        (copy / "newsfragments").mkdir()
        for name in OTHERS:
            shutil.copy(ROOT / "newsfragments" / name, copy / "newsfragments" / name)
        (copy / "newsfragments" / "12.feature.md").write_text("Bells ring.\n")
        (copy / "newsfragments" / "+odd.bugfix.md").write_text("Whistles do not.\n")
        (copy / "newsfragments" / "13.misc.md").write_text("Tidied.\n")
        subprocess.run(["git", "init", "-q"], cwd=copy, check=True)

        words = ["build", "--yes", "--version", "9.9", "--date", "2030-01-02"]
        run = subprocess.run(
            [sys.executable, "-m", "towncrier", *words], cwd=copy, capture_output=True, text=True
        )

        self.assertEqual(run.returncode, 0, run.stderr)
        before, after = (ROOT / "NEWS.md").read_text(), (copy / "NEWS.md").read_text()
        mark = settings()["start_string"]
        assert isinstance(mark, str)
        head, tail = before.split(mark)
        self.assertEqual(
            after,
            f"{head}{mark}\n## 9.9 (2030-01-02)\n\n### New\n\n- Bells ring. (#12)\n\n"
            f"### Fixed\n\n- Whistles do not.\n\n{tail.lstrip()}",
        )
        self.assertEqual({path.name for path in (copy / "newsfragments").iterdir()}, OTHERS)


class HookTests(SynchronousTestCase):
    """C{.pre-commit-config.yaml}."""

    def test_local(self) -> None:
        """Each hook is local, runs what C{.[dev]} installs, and so fetches nothing."""
        config = ConfigParser()
        config.read(ROOT / "setup.cfg")
        extra = {
            line.split()[0] for line in config["options.extras_require"]["dev"].split("\n") if line
        }
        brought = {
            "ruff": "ruff", "mypy": "mypy", "python": "hypothesis",
            "trailing-whitespace-fixer": "pre-commit-hooks",
            "end-of-file-fixer": "pre-commit-hooks", "check-merge-conflict": "pre-commit-hooks",
        }  # fmt: skip
        repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
        hooks = [hook for repo in repos for hook in repo["hooks"]]

        self.assertEqual({repo["repo"] for repo in repos}, {"local"})
        self.assertEqual({hook["language"] for hook in hooks}, {"system"})
        for hook in hooks:
            self.assertIn(brought[hook["entry"].split()[0]], extra)
        self.assertIn("pre-commit", extra)


class LicenceTests(SynchronousTestCase):
    """Apache-2.0, said in three places."""

    def test_agree(self) -> None:
        """The text, the package's metadata and Debian's copyright file say Apache-2.0."""
        config = ConfigParser()
        config.read(ROOT / "setup.cfg")
        text = (ROOT / "LICENSE").read_text()
        debian = (ROOT / "packaging/deb/copyright").read_text()

        self.assertEqual(config["metadata"]["license"], "Apache-2.0")
        self.assertEqual(config["metadata"]["license_files"], "LICENSE")
        self.assertIn("Apache License Version 2.0, January 2004", " ".join(text.split()))
        self.assertIn("END OF TERMS AND CONDITIONS", text)
        self.assertIn("License: Apache-2.0\n", debian)
        self.assertIn("/usr/share/common-licenses/Apache-2.0", debian)

    def test_packed(self) -> None:
        """The build of the Debian package has the licence file, which setup.cfg names."""
        build = (ROOT / "packaging/deb/build").read_text()
        parts = re.search(r'^parts="(.*)"', build, re.M)
        assert parts is not None

        self.assertIn("LICENSE", parts[1].split())
