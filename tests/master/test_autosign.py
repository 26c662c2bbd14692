"""
The files that accept keys without an operator, when strangers sign in.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.master import autosign
from saltwisted.wire.commands import Auth, parse_command
from tests.doors.measure import NOISE, least
from tests.master.rig import Rig
from tests.wire.recorded import key


class AutosignTests(SynchronousTestCase):
    """Autosign, of a master with files."""

    def setUp(self) -> None:
        """A folder for them."""
        self.rig = Rig(self)
        self.folder = self.mktemp()
        os.mkdir(self.folder)
        self.pub = key("minion").public.pem

    def write(self, name: str, text: str) -> str:
        """A file that can be trusted."""
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o600)
        return path

    def accepts(self, minion_id: str, **grains: Any) -> bool:
        """Whether a stranger is let in."""
        load = {"cmd": "_auth", "id": minion_id, "pub": self.pub, "autosign_grains": grains}
        auth = parse_command(load, clear=True)
        assert isinstance(auth, Auth)
        return self.rig.ctx.autosign.accepts(auth, 0.0)

    def option(self, name: str, value: Any) -> None:
        """Set an option of this master."""
        self.patch(
            self.rig.ctx.autosign, "_config", _With(self.rig.ctx.autosign._config, name, value)
        )

    def test_changed(self) -> None:
        """A file counts as it is now, and is read again only where it has changed."""
        path = self.write("names", "web1\n")
        self.option("autosign_file", path)
        reads: list[str] = []
        lines = autosign.Autosign._lines

        def counted(self: Any, path: str) -> Any:
            reads.append(path)
            return lines(self, path)

        self.patch(autosign.Autosign, "_lines", counted)
        self.assertEqual([self.accepts(n) for n in ("web1", "web2", "web1")], [True, False, True])
        self.assertEqual(len(reads), 1)

        self.write("names", "web2 \n# web1\nweb[34]\n")
        self.assertEqual([self.accepts(f"web{n}") for n in range(1, 5)], [False, True, True, True])
        os.chmod(path, 0o666)
        self.assertFalse(self.accepts("web2"))
        os.unlink(path)
        self.assertFalse(self.accepts("web2"))

    def test_grains(self) -> None:
        """A grain counts by the file of its name, and by nothing outside of the folder."""
        self.write("role", "web\n")
        self.option("autosign_grains_dir", self.folder)

        self.assertTrue(self.accepts("a", role="web"))
        self.assertFalse(self.accepts("a", role="db"))
        self.assertFalse(self.accepts("a", **{"../role": "web", "": "web", ".": "web"}))

    def test_T_COST_1_many_names(self) -> None:
        """T-COST-1: a file of ten thousand names costs a stranger no more than a short one."""
        few = self.write("few", "web1.example.com\n")
        many = self.write("many", "".join(f"web{n}.example.com\n" for n in range(10_000)))

        def cost(path: str) -> float:
            self.option("autosign_file", path)
            self.accepts("stranger")
            return least(lambda: [self.accepts(f"stranger{n}") for n in range(20)])

        self.assertLess(cost(many), 3 * cost(few) + 4 * NOISE)


class _With:
    """Options, one of them another."""

    def __init__(self, config: Any, name: str, value: Any) -> None:
        self._config, self._name, self._value = config, name, value

    def __getattr__(self, name: str) -> Any:
        return self._value if name == self._name else getattr(self._config, name)
