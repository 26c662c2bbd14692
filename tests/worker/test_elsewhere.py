"""
Modules of Windows and macOS refuse in stock's words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.worker.process.loader import Loaders

RECORDED = Path(__file__).parent.parent / "vectors" / "machine" / "refused.json"


class ElsewhereTests(SynchronousTestCase):
    """Names that only mean something on another system."""

    def _loaders(self, **options: Any) -> Loaders:
        opts = {**MinionConfig(id="m1", file_client="local").as_opts(), **options}
        grains = {"kernel": "Linux", "os": "Debian", "os_family": "Debian"}
        return Loaders(opts, grains=grains, pillar={}, stock=False)

    def test_refused(self) -> None:
        """What stock says of each of them on Linux is what is said here."""
        loaders = self._loaders()
        found: dict[str, dict[str, str]] = {}
        recorded = json.loads(RECORDED.read_text())["answers"]
        for kind, names in recorded.items():
            for name in names:
                self.assertNotIn(f"{name}.nosuchfn", loaders[kind])
                said = loaders[kind].missing_fun_string(f"{name}.nosuchfn")
                found.setdefault(kind, {})[name] = said

        self.assertEqual(found, recorded)
        self.assertIn("chocolatey", found["states"])

    def test_unknown(self) -> None:
        """A name that no system knows, and a function that a module lacks, are as before."""
        modules = self._loaders().modules

        self.assertEqual(
            modules.missing_fun_string("nosuch.thing"), "'nosuch.thing' is not available."
        )
        self.assertNotIn("test.nosuch", modules)
        self.assertEqual(
            modules.missing_fun_string("test.nosuch"), "'test.nosuch' is not available."
        )

    def test_ofTheSite(self) -> None:
        """A module of the site by such a name is used, and a function it lacks is its own lack."""
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "win_path.py").write_text("def get():\n    return 5\n")
        modules = self._loaders(module_dirs=[str(folder.absolute())]).modules

        self.assertEqual(modules["win_path.get"](), 5)
        self.assertNotIn("win_path.add", modules)
        self.assertEqual(
            modules.missing_fun_string("win_path.add"), "'win_path.add' is not available."
        )
