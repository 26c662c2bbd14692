"""Salt's C{git} with real repositories, and with keys that nobody uses."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError
from tests.modules.harness import load

ENV = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
    "PATH": os.defpath,
}
OLD_KEY = "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n"
NEW_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n"
OPEN = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ=="
LOCKED = "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0"


class GitTests(SynchronousTestCase):
    """One upstream repository and what is done with its clones."""

    def setUp(self) -> None:
        if systools.which("git") is None:
            raise SkipTest("git is not installed")
        self.home = os.path.abspath(self.mktemp())
        os.mkdir(self.home)
        self.env = {**ENV, "HOME": self.home}
        self.patch(os, "environ", self.env)
        self.up = os.path.join(self.home, "up")
        self.git = load("git", salt={"cmd.run_all": self.run_all})
        self.git.init(self.up, opts="--quiet --initial-branch=main")
        self.save("up", "a", "1\n")
        self.git.tag(self.up, "v1")

    def run_all(self, cmd: list[str], cwd: str | None = None, **kwargs: Any) -> dict[str, Any]:
        done = subprocess.run(
            cmd,
            cwd=cwd,
            env={**self.env, **kwargs["env"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if kwargs.get("redirect_stderr") else subprocess.PIPE,
            text=True,
            check=False,
        )
        return {
            "retcode": done.returncode,
            "stdout": done.stdout.rstrip("\n"),
            "stderr": (done.stderr or "").rstrip("\n"),
        }

    def save(self, repo: str, name: str, text: str) -> str:
        """Commit a file, and tell the hash."""
        place = os.path.join(self.home, repo)
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            file.write(text)
        self.git.add(place, name)
        self.git.commit(place, f"more of {name}")
        return str(self.git.revision(place))

    def test_clone(self) -> None:
        """A clone has its source's branches and tags, and is where a relative path says."""
        self.assertTrue(self.git.clone("work/x", self.up))

        place = os.path.join(self.home, "work/x")
        self.assertIn("origin/main", self.git.list_branches(place, remote=True))
        self.assertEqual(self.git.list_tags(place), ["v1"])
        self.assertEqual(self.git.current_branch(place), "main")
        self.assertEqual(self.git.remotes(place), {"origin": {"fetch": self.up, "push": self.up}})
        refs = self.git.ls_remote(place)
        self.assertEqual(refs["HEAD"], self.git.revision(place))

    def test_into(self) -> None:
        """With a name the clone is made in a directory, which is made as well."""
        self.git.clone(os.path.join(self.home, "deep/down"), self.up, name="x")

        self.assertTrue(os.path.isfile(os.path.join(self.home, "deep/down/x/a")))

    def test_fetch(self) -> None:
        """What a fetch has brought is told by kind."""
        self.git.clone("x", self.up)
        old = self.git.revision("x", short=True)
        new = self.save("up", "a", "2\n")
        self.git.branch(self.up, "topic")
        self.git.tag(self.up, "v2")

        found = self.git.fetch("x")

        self.assertEqual(found["new branches"], ["topic"])
        self.assertEqual(found["new tags"], ["v2"])
        self.assertEqual(found["updated branches"], {"main": {"old": old, "new": new[:7]}})
        self.assertEqual(self.git.fetch("x"), {})
        self.git.pull("x")
        self.assertEqual(self.git.revision("x"), new)

    def test_push(self) -> None:
        """Commits are sent where they are to go."""
        self.git.clone("x", self.up)
        hash_ = self.save("x", "b", "b\n")

        self.git.push("x", "origin", "main:other")

        self.assertEqual(self.git.revision(self.up, "other"), hash_)

    def test_status(self) -> None:
        """Files are told by what happened to them."""
        for name, text in (("a", "3\n"), ("new one", ""), ("b", "")):
            with open(os.path.join(self.up, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.git.add(self.up, "b")

        self.assertEqual(
            self.git.status(self.up), {"modified": ["a"], "new": ["b"], "untracked": ["new one"]}
        )
        self.git.discard_local_changes(self.up, "a")
        self.assertNotIn("modified", self.git.status(self.up))

    def test_config(self) -> None:
        """Settings with one value and with several are set, told and removed."""
        self.git.config_set("x.y", multivar=["a", "b"], cwd=self.up)
        self.assertEqual(self.git.config_get("x.y", cwd=self.up), "b")
        self.assertEqual(self.git.config_get_regexp("^x", cwd=self.up), {"x.y": ["a", "b"]})
        error = self.assertRaises(CommandExecutionError, self.git.config_unset, "x.y", cwd=self.up)
        self.assertEqual(str(error), "Multiple values exist for key 'x.y'")
        self.git.config_unset("x.y", cwd=self.up, all=True)
        self.assertIsNone(self.git.config_get("x.y", cwd=self.up))
        self.git.config_set("me.too", "1", **{"global": True})
        self.assertTrue(os.path.isfile(os.path.join(self.home, ".gitconfig")))

    def test_worktrees(self) -> None:
        """Worktrees are made, listed, found stale, and forgotten."""
        place = os.path.join(self.home, "wt")
        self.git.worktree_add(self.up, place, branch="topic")
        self.assertTrue(self.git.is_worktree(place))
        self.assertFalse(self.git.is_worktree(self.up))
        self.assertEqual(self.git.list_worktrees(self.up)[place]["branch"], "topic")
        self.assertTrue(self.git.worktree_rm(place))
        self.assertEqual(list(self.git.list_worktrees(self.up, stale=True)), [place])
        self.assertIn("worktrees/wt", self.git.worktree_prune(self.up))
        self.assertEqual(self.git.list_worktrees(self.up, stale=True), {})

    def test_mergeBase(self) -> None:
        """The common ancestor of two branches is found, and who is one."""
        base = self.git.revision(self.up)
        self.git.checkout(self.up, opts="-b topic")
        self.save("up", "t", "t\n")
        self.git.checkout(self.up, "main")
        self.save("up", "a", "4\n")

        self.assertEqual(self.git.merge_base(self.up, "main,topic"), base)
        self.assertTrue(self.git.merge_base(self.up, ["v1", "main"], is_ancestor=True))
        self.assertFalse(self.git.merge_base(self.up, ["main", "v1"], is_ancestor=True))

    def test_symbolic(self) -> None:
        """A name is let stand for another."""
        self.git.symbolic_ref(self.up, "refs/heads/alias", "refs/heads/main")

        self.assertEqual(self.git.symbolic_ref(self.up, "refs/heads/alias"), "refs/heads/main")


class KeyTests(SynchronousTestCase):
    """What happens to identities."""

    def setUp(self) -> None:
        self.folder = os.path.abspath(self.mktemp())
        os.mkdir(self.folder)
        self.seen: list[dict[str, str]] = []
        self.codes = [0]

        def run_all(cmd: Any, env: dict[str, str], **kwargs: Any) -> dict[str, Any]:
            self.seen.append(dict(env))
            path = env["GIT_IDENTITY"]
            self.mode = os.stat(path).st_mode & 0o777
            return {"retcode": self.codes.pop(0), "stdout": "denied https://u:p@x", "stderr": ""}

        def get_file(source: str, target: str, saltenv: str) -> str:
            if source != "salt://key":
                return ""
            with open(target, "w", encoding="utf-8") as file:
                file.write(OLD_KEY.format("x"))
            os.chmod(target, 0o644)
            return target

        functions = {
            "cmd.run_all": run_all,
            "cp.get_file": get_file,
            "file.file_exists": os.path.isfile,
        }
        self.git = load("git", salt=functions)

    def key(self, name: str, text: str) -> str:
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o600)
        return path

    def fetch(self, *keys: str) -> Any:
        return self.git.fetch(self.folder, identity=list(keys))

    def test_tried(self) -> None:
        """Keys are tried in their order until one opens the door."""
        self.codes = [1, 0]
        first = self.key("one", OLD_KEY.format("x"))
        second = self.key("it's two", NEW_KEY.format(OPEN))

        self.fetch(first, second, first)

        self.assertEqual([env["GIT_IDENTITY"] for env in self.seen], [first, second])
        quoted = second.replace("'", "'\"'\"'")
        self.assertTrue(self.seen[1]["GIT_SSH_COMMAND"].endswith(f" -i '{quoted}'"))

    def test_denied(self) -> None:
        """If none opens it, all reasons are told, without anybody's password."""
        self.codes = [1]
        missing = os.path.join(self.folder, "nowhere")

        error = self.assertRaises(
            CommandExecutionError, self.fetch, self.key("one", OLD_KEY.format("x")), missing
        )

        self.assertEqual(
            str(error),
            "Unable to authenticate using identity file:\n\ndenied https://<redacted>@x\n\n"
            f"The following identity file(s) were not found: {missing}",
        )

    def test_locked(self) -> None:
        """A key with a passphrase is not tried, in either form, for nobody could type it."""
        for text in (NEW_KEY.format(LOCKED), OLD_KEY.format("Proc-Type: 4,ENCRYPTED")):
            error = self.assertRaises(CommandExecutionError, self.fetch, self.key("k", text))
            self.assertIn("is passphrase-protected", str(error))
        self.assertEqual(self.seen, [])

    def test_noKey(self) -> None:
        """Something that is not a key is not given to anybody."""
        path = self.key("k", "hello")

        error = self.assertRaises(CommandExecutionError, self.fetch, path)

        self.assertEqual(str(error), f"{path} is not a private key")

    def test_fromMaster(self) -> None:
        """A key of the master is there for this command only, and for nobody else."""
        self.fetch("salt://nope", "salt://key")

        self.assertEqual(self.mode, 0o600)
        self.assertFalse(os.path.exists(self.seen[0]["GIT_IDENTITY"]))
