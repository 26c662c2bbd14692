"""
Whatever a master reads by C{salt://} is what it serves: of git, in orchestrations, reactions,
pillars, and functions of a site's own.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.gitrepos import Repo
from tests.harness import OurMaster, scratch, until

DEPLOY = """
{% from 'orch/map.jinja' import word with context %}
include: [orch.more]
fetched now:
  salt.runner: [{name: fileserver.update}]
nested:
  salt.runner:
    - name: state.orchestrate
    - mods: orch.inner
    - require: [{salt: fetched now}]
OUT/rendered:
  file.managed: [{contents: {{ word }}}]
OUT/outer:
  file.managed:
    - source: salt://orch/word
    - require: [{salt: nested}]
"""
INNER = "OUT/inner:\n  file.managed: [{source: 'salt://orch/word'}]\n"
MORE = "OUT/more:\n  file.managed: [{contents: more}]\n"
REACTION = """
go:
  runner.state.orchestrate:
    - args:
      - mods: orch.reacted
      - pillar: {word: {{ salt['cp.get_file_str']('salt://orch/word').strip() }}}
"""
REACTED = "OUT/reacted:\n  file.managed: [{contents: {{ pillar.word }}}]\n"
RUNNER = """
def read(path):
    with open(__file_client__.cache_file(path)) as file:
        return file.read()
"""


class ReaderTests(SynchronousTestCase):
    """A master whose states are in git alone; nothing is in its directories."""

    def setUp(self) -> None:
        """Start it."""
        self.home = scratch(self)
        self.out = os.path.join(self.home, "out")
        os.mkdir(self.out)
        self.repo = Repo(os.path.join(self.home, "states"))
        self.commit("one")
        self.master = OurMaster(
            self.home,
            fileserver_backend=["git"],
            gitfs_remotes=[self.repo.url],
            gitfs_update_interval=0,
            reactor=[{"site/go": ["salt://reactor/*.sls"]}],
        )
        self.addCleanup(self.master.kill)
        Path(self.master.pillar_root, "top.sls").write_text("base: {'*': [word]}\n")
        Path(self.master.pillar_root, "word.sls").write_text(
            "word: {{ salt['cp.get_file_str']('salt://orch/word') | json }}\n"
        )
        self.master.up()

    def commit(self, word: str) -> str:
        """Push a word."""
        files = {
            "orch/map.jinja": f"{{% set word = '{word}' %}}",
            "orch/word": f"{word}\n",
            "orch/deploy.sls": DEPLOY.replace("OUT", self.out),
            "orch/inner.sls": INNER.replace("OUT", self.out),
            "orch/more.sls": MORE.replace("OUT", self.out),
            "orch/reacted.sls": REACTED.replace("OUT", self.out),
            "reactor/go.sls": REACTION,
            "_runners/site.py": RUNNER,
        }
        return self.repo.commit({path: text.encode() for path, text in files.items()})

    def run_json(self, *words: str) -> Any:
        """What a runner answers."""
        done = self.master.command("salt-run", *words, "--out", "json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def written(self, name: str) -> str:
        """What a state has written."""
        return Path(self.out, name).read_text().strip()

    def test_readers(self) -> None:
        """
        An orchestration, with what it includes, imports and begins, reads one commit from its
        beginning to its end, although another one is fetched in it; the next run reads that. The
        remote is not asked: it may be away. A reaction, a pillar and a runner of the site's, which
        C{saltutil.sync_runners} has brought from git, read it as well. Nothing is left over.
        """
        self.commit("two")
        self.run_json("state.orchestrate", "orch.deploy")
        names = ("rendered", "inner", "outer")
        self.assertEqual([self.written(name) for name in names], ["one"] * 3)
        self.assertEqual(self.written("more"), "more")

        os.rename(self.repo.path, self.repo.path + ".away")
        done = self.master.command("salt-run", "state.orchestrate", "orch.deploy")
        self.assertIn("Total states run:     5", done.stdout + done.stderr)
        self.assertEqual([self.written(name) for name in names[:1]], ["two"])
        os.rename(self.repo.path + ".away", self.repo.path)

        self.assertEqual(self.run_json("saltutil.sync_runners"), ["runners.site"])
        self.assertEqual(self.run_json("site.read", "salt://orch/word"), "two\n")
        self.assertEqual(self.run_json("pillar.show_pillar")["word"], "two\n")
        self.run_json("event.send", "site/go")
        path = Path(self.out, "reacted")
        until("the reaction", lambda: path.exists() and path.read_text())
        self.assertEqual(self.written("reacted"), "two")

        read = Path(self.master.root, "var/cache/salt/master/saltwisted/read")
        self.assertTrue((read / "reactions/files/base/reactor/go.sls").exists())
        until("the copies to be gone", lambda: not list(read.glob("orchestrations/*")))
