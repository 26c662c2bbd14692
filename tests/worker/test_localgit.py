"""
A minion without a master reads its states from git, and from its directories beside them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig, MinionConfig
from saltwisted.worker.fileclient import FileClient, file_client
from saltwisted.worker.git import localfiles
from saltwisted.worker.process.localcall import run_call
from saltwisted.worker.process.main import NoMaster
from tests.gitrepos import Repo
from tests.stores.support import FolderTestCase

BIG = b"0123456789" * 70_000


class LocalGitTests(FolderTestCase):
    """C{file_client: local} with C{fileserver_backend: [roots, git]}."""

    def setUp(self) -> None:
        """A repository with two branches, and a directory."""
        super().setUp()
        self.repo = Repo(self.path("source"))
        self.target = self.path("written")
        sls = f"{self.target}:\n  file.managed: [{{source: salt://web/word}}]\n"
        self.repo.commit(
            {
                "salt/top.sls": b"base: {'*': [web]}\n",
                "salt/web/init.sls": sls.encode(),
                "salt/web/word": b"of git\n",
                "salt/both": b"of git",
                "salt/big": BIG,
                "outside": b"",
            },
            {"salt/link": "web/word", "salt/out": "../outside"},
        )
        self.repo.git("branch", "dev")
        Path(self.folder, "roots").mkdir()
        Path(self.folder, "roots/both").write_bytes(b"of the roots")

    def config(self, **more: Any) -> MinionConfig:
        """A minion's."""
        return MinionConfig(
            **{
                "id": "m1",
                "cachedir": self.path("cache"),
                "config_dir": self.folder,
                "file_client": "local",
                "file_roots": {"base": [self.path("roots")]},
                "fileserver_backend": ["roots", "gitfs"],
                "gitfs_remotes": [self.repo.url],
                "gitfs_root": "salt",
                **more,
            }
        )

    def client(self, **more: Any) -> FileClient:
        """Its file client, of a process of its own."""
        opts = self.config(**more).as_opts()
        return file_client(opts, NoMaster(), served=localfiles.local_files(opts))

    def test_state(self) -> None:
        """States run from a commit; what was pushed is run by the next process."""
        for word in ("of git\n", "pushed\n"):
            done = run_call(self.config(), "state.apply")
            self.assertEqual(done["retcode"], 0, done)
            self.assertEqual(Path(self.target).read_text(), word)
            self.repo.commit({"salt/web/word": b"pushed\n"})

    def test_order(self) -> None:
        """The first backend that has a file serves it; lists are those of all."""
        for order, expected in (
            (["roots", "gitfs"], b"of the roots"),
            (["gitfs", "roots"], b"of git"),
        ):
            client = self.client(fileserver_backend=order)
            self.assertEqual(Path(client.cache_file("salt://both")).read_bytes(), expected)
            self.assertEqual(
                client.hash_file("salt://both")["hsum"], hashlib.sha256(expected).hexdigest()
            )
        self.assertEqual(client.envs(), ["base", "dev"])
        files = ["big", "both", "link", "out", "top.sls", "web/init.sls", "web/word"]
        self.assertEqual(client.file_list(), files)
        self.assertEqual(client.file_list(prefix="web/"), files[-2:])
        self.assertEqual(client.dir_list(), ["web"])
        self.assertEqual(client.symlink_list(), {"link": "web/word", "out": "../outside"})
        self.assertEqual(client.file_list_emptydirs(), [])

    def test_files(self) -> None:
        """
        T-PATH-4: content comes in pieces; a link leads inside its repository; what is not there, or
        leads astray, is not.
        """
        client = self.client()
        self.assertEqual(Path(client.cache_file("salt://big")).read_bytes(), BIG)
        self.assertEqual(Path(client.cache_file("salt://link")).read_bytes(), b"of git\n")
        self.assertEqual(
            Path(client.cache_file("salt://web/word?saltenv=dev")).read_bytes(), b"of git\n"
        )
        for path in (
            "nothing",
            "web",
            "../source/outside",
            "web/../../outside",
            "salt/both",
            ".git/config",
        ):
            self.assertFalse(client.cache_file(f"salt://{path}"), path)
        self.assertEqual(client.hash_and_stat_file("salt://big")[1][6], len(BIG))

    def test_away(self) -> None:
        """A remote that is away serves what it had, and one of which nothing is known nothing."""
        self.client().file_list()
        os.rename(self.repo.path, self.repo.path + ".away")
        self.assertIn("web/word", self.client().file_list())
        shutil.rmtree(self.path("cache"))
        with self.assertLogs(localfiles.log, "ERROR") as logs:
            self.assertEqual(self.client().file_list(), ["both"])
        self.assertIn("cannot be fetched", logs.output[0])

    def test_once(self) -> None:
        """A process asks its remotes once, and reads the same to its end."""
        client = self.client()
        before = client.file_list()
        self.repo.commit({"salt/new": b""})
        self.assertEqual(client.file_list(), before)
        self.assertIn("new", self.client().file_list())


class ElsewhereTests(SynchronousTestCase):
    """Who reads directories alone."""

    def test_others(self) -> None:
        """Whoever has directories alone, or a master to ask, fetches nothing."""
        git = {"fileserver_backend": ["gitfs"], "cachedir": "/nowhere"}
        for opts in (
            MinionConfig(file_client="local").as_opts(),
            MinionConfig(file_client="remote", **git).as_opts(),
            MasterConfig(**git).as_opts(),
        ):
            self.assertIsNone(localfiles.local_files(opts))
        found = localfiles.local_files(MinionConfig(file_client="local", **git).as_opts())
        self.assertIsInstance(found, localfiles.LocalSources)
