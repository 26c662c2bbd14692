"""
Each kind of module that a master executes, out of an installed extension (pains 5.3).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMaster, scratch
from tests.worker.test_extensions import install

CALLED = (
    "from salt.exceptions import SaltException\ndef f():\n    return ['called', __opts__['id']]\n"
)
FILES = {
    "runners/extrun": CALLED,
    "wheel/extwheel": CALLED,
    "modules/extmod": CALLED,
    "utils/extutil": "def word():\n    return 'of a utility'\n",
    "pillar/extpillar": "def ext_pillar(minion_id, pillar, *args):\n"
    "    return {'external': __utils__['extutil.word']()}\n",
    "renderers/extrender": "def render(data, *args, **kwargs):\n    return {'rendered': 'yes'}\n",
    "output/extout": "def output(data, **kwargs):\n    return f'shown {data}'\n",
}


class ExtensionTests(SynchronousTestCase):
    """One master, on whose path an extension is installed."""

    def test_kinds(self) -> None:
        """A runner, wheel and execution functions, a pillar, a renderer, an outputter."""
        home = scratch(self)
        site = Path(home, "packages")
        files = {f"masterext/{name}.py": text for name, text in FILES.items()}
        install(site, "saltext-master", "x = masterext", files)
        master = OurMaster(home, ext_pillar=[{"extpillar": []}])
        master.env["PYTHONPATH"] += os.pathsep + str(site)
        self.addCleanup(master.kill)
        Path(master.pillar_root, "top.sls").write_text("base: {'*': [one]}\n")
        Path(master.pillar_root, "one.sls").write_text("#!extrender\nx: 1\n")
        master.up()

        def ask(operation: str, fun: str, *arg: str) -> object:
            return master.ask(operation, fun=fun, arg=list(arg), kwarg={})["return"]

        called = ["called", "master_master"]
        self.assertEqual(ask("runner", "extrun.f"), called)
        self.assertEqual(ask("wheel", "extwheel.f"), called)
        self.assertEqual(ask("runner", "salt.cmd", "extmod.f"), called)
        self.assertEqual(
            ask("runner", "pillar.show_pillar", "m1"),
            {"rendered": "yes", "external": "of a utility"},
        )
        shown = master.command("salt-run", "-l", "quiet", "--out=extout", "salt.cmd", "extmod.f")
        self.assertEqual(shown.stdout.strip(), f"shown {called}", shown)
        plain = master.command("salt-run", "--out=json", "-l", "quiet", "salt.cmd", "extmod.f")
        self.assertEqual(json.loads(plain.stdout), called)
