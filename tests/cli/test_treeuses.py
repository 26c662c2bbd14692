"""
What a tree of states uses that is in an extension, or nowhere any more.
"""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.moved import uses
from saltwisted.tools import takeover
from saltwisted.tools.treeuses import missing
from saltwisted.wire.rsa import PrivateKey

SLS = """#!jinja|yaml|gpg
{% set users = salt['mongodb.user_list']() %}
{% set disks = salt.zfs.list() %}
db:
  mongodb_user.present:
    - name: x
  file.managed: []
  # zabbix_host.present
web:
  docker_container:
    - running
    - name: web
  own_state.done: []
other:
  boto_elb.present
"""


class UsesTests(SynchronousTestCase):
    """An SLS is read by its lines."""

    def test_lines(self) -> None:
        """States in both forms, calls in both forms, and renderers are found."""
        self.assertEqual(
            uses(SLS),
            {
                *(("renderers", name) for name in ("jinja", "yaml", "gpg")),
                *(("modules", name) for name in ("mongodb", "zfs")),
                *(
                    ("states", name)
                    for name in (
                        "mongodb_user",
                        "file",
                        "docker_container",
                        "own_state",
                        "boto_elb",
                    )
                ),
            },
        )

    def test_nothing(self) -> None:
        """What is no SLS uses nothing, or nothing that is asked for."""
        for text in ("", "\0\xff", "a: b\nc:\n  - d\n", "#!", "#!/bin/sh\n", "salt['x']"):
            self.assertEqual(uses(text) & {("states", "d"), ("modules", "x")}, set(), text)


class MissingTests(SynchronousTestCase):
    """A tree on disk."""

    def test_tree(self) -> None:
        """
        Each module that is elsewhere is named once, with a file and where it is (pains 5.1); what
        is here, or in the tree itself, is not.
        """
        root = Path(self.mktemp()).absolute()
        for path, text in {
            "a/init.sls": SLS,
            "b.sls": "x:\n  mongodb_user.absent: []\n",
            "_states/boto_elb.py": "def present(name):\n    pass\n",
            ".git/c.sls": "x:\n  zabbix_host.present: []\n",
            "notes.txt": "x:\n  zabbix_host.present: []\n",
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        os.symlink("/nosuch", root / "broken.sls")

        found = missing({"base": [str(root)], "dev": [str(root), "/nosuch"]})

        self.assertEqual(
            [line.split(". ")[0] for line in found],
            [
                "a/init.sls: module mongodb",
                "a/init.sls: module zfs",
                "a/init.sls: renderer gpg",
                "a/init.sls: state docker_container",
                "a/init.sls and 1 more: state mongodb_user",
            ],
        )
        self.assertIn("saltext-mongodb", found[0])
        self.assertEqual(missing({"base": ["/nosuch"]}), [])

    def test_takeover(self) -> None:
        """A takeover's plan says so, and is not stopped by it."""
        root = Path(self.mktemp()).absolute()
        for name in ("states", "pki"):
            (root / name).mkdir(parents=True)
        (root / "states" / "db.sls").write_text("db:\n  mongodb_user.present: []\n")
        key = PrivateKey.generate(2048)
        (root / "pki" / "master.pem").write_text(key.pem())
        (root / "master").write_text(
            f"root_dir: {root}\npki_dir: {root}/pki\nfile_roots: {{base: [{root}/states]}}\n"
        )

        plan = takeover.plan(str(root), str(root / "ours"))

        found = [each for each in plan.problems if each.id == "modules"]
        self.assertEqual([each.fatal for each in found], [False])
        self.assertIn("db.sls: state mongodb_user. It is in the Salt extension", found[0].text)
