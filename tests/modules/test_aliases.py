"""
Lines of the file of aliases that are no aliases.
"""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.modules.harness import Commands, load

TEXT = """# mail
list: a@b.c,
   continued@b.c
   # indented
odd

: nobody
root: kim
"""


class LinesTests(SynchronousTestCase):
    """C{aliases.set_target} and C{aliases.rm_alias} in a file that people wrote."""

    def setUp(self) -> None:
        self.path = Path(self.mktemp()).resolve()
        self.path.write_text(TEXT)
        self.commands = Commands()
        self.module = load("aliases")
        self.module.__dict__["__salt__"] = {
            "config.option": lambda name: str(self.path),
            "cmd.run": lambda cmd, **given: self.commands.run_all(cmd, **given),
        }
        self.patch(self.module.shutil, "which", lambda name: f"/usr/bin/{name}")

    def test_kept(self) -> None:
        """Continued lines and what nobody understands stay, byte by byte."""
        self.module.set_target("root", "lee")
        self.assertEqual(self.path.read_text(), TEXT.replace("kim", "lee"))

        self.module.rm_alias("root")
        self.assertEqual(self.path.read_text(), TEXT.replace("root: kim\n", ""))

    def test_mailer(self) -> None:
        """The mailer is told of a change, and of nothing else."""
        self.module.set_target("root", "kim")
        self.module.rm_alias("nosuch")
        self.assertEqual(self.commands.ran, [])

        self.module.set_target("root", "lee")
        self.assertEqual(self.commands.ran, ["/usr/bin/newaliases"])

    def test_link(self) -> None:
        """A link to the file stays a link."""
        real = self.path.with_name("real")
        self.path.rename(real)
        self.path.symlink_to(real)

        self.module.set_target("root", "lee")

        self.assertTrue(self.path.is_symlink())
        self.assertIn("root: lee\n", real.read_text())
