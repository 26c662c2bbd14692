"""
Fetches by the real git program: what counts afterwards, and what a remote cannot do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from saltwisted.domain.git.trees import of_runs
from saltwisted.worker.git import program, repository, work
from saltwisted.worker.git.program import GitError
from tests.gitrepos import Repo, fetch_request
from tests.harness import until
from tests.stores.support import FolderTestCase

MASTER = "refs/remotes/origin/master"


STEP = 1 if os.environ.get("SALTWISTED_LONG") == "1" else 3
"""Calls of the system between two moments at which a fetch is killed."""


class FetchTestCase(FolderTestCase):
    """A remote, and a folder of its own for what is fetched."""

    def setUp(self) -> None:
        """Make the remote, with one commit."""
        super().setUp()
        self.repo = Repo(self.path("source"))
        self.first = self.repo.commit({"top.sls": b"1"})
        self.cache = self.path("cache")
        # What whoever runs the tests has configured does not count
        self.patch(os, "environ", {**os.environ, "HOME": self.folder, "GIT_CONFIG_NOSYSTEM": "1"})

    def fetch(self, url: str = "", **more: Any) -> dict[str, Any]:
        """What a worker answers."""
        return work.fetch(fetch_request(self.cache, url or self.repo.url, **more))

    def refs(self, answer: dict[str, Any] | None = None) -> dict[str, str]:
        """Ref to commit."""
        answer = answer or self.fetch()
        self.assertNotIn("error", answer)
        return {ref: tip[1] for ref, tip in answer["state"]["refs"].items()}

    def error(self, url: str = "", **more: Any) -> str:
        """Why it fails; what there was before counts still."""
        before = repository.state_of(self.cache)
        answer = self.fetch(url, **more)
        self.assertIn("error", answer)
        self.assertEqual(repository.state_of(self.cache), before)
        self.assertEqual([n for n in os.listdir(self.cache) if n.startswith("quarantine")], [])
        return str(answer["error"])


class FetchTests(FetchTestCase):
    """What comes."""

    def test_refs(self) -> None:
        """Branches and tags come with their commits; what leads to none is told apart."""
        self.repo.git("tag", "-a", "ann", "-m", "m")
        self.repo.git("branch", "feature/a.b")
        self.repo.git("tag", "tree", "HEAD^{tree}")
        refs = self.refs()

        self.assertEqual(refs[MASTER], self.first)
        self.assertEqual(refs["refs/remotes/origin/feature/a.b"], self.first)
        self.assertEqual((refs["refs/tags/ann"], refs["refs/tags/tree"]), (self.first, ""))

    def test_again(self) -> None:
        """What is new is one more pack, and a deleted branch is gone (pains-next 3.11)."""
        self.repo.git("branch", "old")
        one = self.fetch()
        self.assertEqual(self.fetch()["state"], one["state"])
        second = self.repo.commit({"top.sls": b"2"})
        self.repo.git("branch", "-D", "old")

        refs = self.refs()

        self.assertEqual(refs, {MASTER: second})
        packs = Path(self.cache, one["state"]["repo"], "objects/pack").glob("*.pack")
        self.assertEqual(len(list(packs)), 2)

    def test_rewritten(self) -> None:
        """A history that was rewritten, and a branch in the place of a directory of branches."""
        self.repo.git("branch", "a/b")
        self.fetch()
        self.repo.git("commit", "--quiet", "--amend", "-m", "other")
        self.repo.git("branch", "-D", "a/b")
        self.repo.git("branch", "a")
        head = self.repo.git("rev-parse", "HEAD")

        self.assertEqual(self.refs(), {MASTER: head, "refs/remotes/origin/a": head})

    def test_names(self) -> None:
        """
        Branches with slashes, dots and letters of any script, and one that is named like a tag, are
        brought up to date as any other (pains-next 3.6).
        """
        names = ("a/b/c", "a.b", "\u00fc/\u6587", "v1", "x" * 200)
        self.repo.git("tag", "v1")
        for name in names:
            self.repo.git("branch", name, "master")
        self.fetch()
        second = self.repo.commit({"top.sls": b"2"})
        for name in names:
            self.repo.git("update-ref", f"refs/heads/{name}", second)

        refs = self.refs()

        wanted = {f"refs/remotes/origin/{name}": second for name in (*names, "master")}
        self.assertEqual(refs, {**wanted, "refs/tags/v1": self.first})

    def test_T_TEXT_1_names(self) -> None:
        """
        T-TEXT-1: a branch whose name is no UTF-8, which anybody can push, is left out: the others
        are brought up to date, and the next fetch finds nothing new.
        """
        source, bad = os.fsencode(self.path("source")), b"refs/heads/bad\xff"
        words = [b"git", b"-C", source, b"update-ref", bad, self.first.encode()]
        subprocess.run(words, check=True)
        first = self.fetch()
        self.assertEqual(self.refs(), {MASTER: self.first})
        second = self.repo.commit({"top.sls": b"2"})

        self.assertEqual(self.refs(), {MASTER: second})
        self.assertIn("refs", first["state"])

    def test_T_TEXT_1_lines(self) -> None:
        """
        T-TEXT-1: a branch whose name has what Python takes for the end of a line, and git does not,
        is one branch: it does not stand in the place of the one that its name begins with.
        """
        other = self.repo.commit({"top.sls": b"other"})
        self.repo.git("update-ref", "refs/heads/master", self.first)
        ends = ("\x85", "\u2028", "\u2029")
        for end in ends:
            self.repo.git("update-ref", f"refs/heads/master{end}x", other)
        wanted = {f"{MASTER}{end}x": other for end in ends}

        self.assertEqual(self.refs(), {MASTER: self.first, **wanted})
        self.assertEqual(self.refs(), {MASTER: self.first, **wanted})
        # From here on they are known by the file of the fetch before
        self.repo.git("update-ref", "refs/heads/more", other)
        wanted["refs/remotes/origin/more"] = other
        self.assertEqual(self.refs(), {MASTER: self.first, **wanted})

    def test_many_branches(self) -> None:
        """With 500 branches a fetch starts as many processes as with one (pains-next 3.8)."""
        started: list[Any] = []
        real = program.outcome

        def outcome(args: Any, *rest: Any, **more: Any) -> Any:
            started.append(args)
            return real(args, *rest, **more)

        self.patch(program, "outcome", outcome)

        def costs() -> list[int]:
            found = []
            self.fetch()
            for content in (b"", b"x"):
                if content:
                    self.repo.commit({"top.sls": os.urandom(8)})
                started.clear()
                self.fetch()
                found.append(len(started))
            return found

        few = costs()
        rows = "".join(f"create refs/heads/b{number} {self.first}\n" for number in range(500))
        self.repo.git("update-ref", "--stdin", data=rows.encode())

        self.assertEqual(costs(), few)

    def test_nothing_new(self) -> None:
        """
        Where a remote has nothing new it is asked for its refs, and nothing else is done, however
        many there are: no quarantine is made. Where it has, git fetches.
        """
        started: list[str] = []
        made: list[str] = []
        real = program.outcome

        def outcome(args: Any, *rest: Any, **more: Any) -> Any:
            started.append(args[2] if args[0] == "--git-dir" else args[0])
            return real(args, *rest, **more)

        self.repo.git("tag", "-a", "-m", "m", "v1")
        rows = "".join(f"create refs/heads/b{number} {self.first}\n" for number in range(50))
        self.repo.git("update-ref", "--stdin", data=rows.encode())
        state = self.fetch()["state"]
        self.patch(program, "outcome", outcome)
        empty = repository.skeleton

        def skeleton(path: str) -> None:
            made.extend([path] if repository.QUARANTINE in os.path.basename(path) else [])
            empty(path)

        self.patch(repository, "skeleton", skeleton)

        self.assertEqual(self.fetch()["state"], state)
        self.assertEqual(started, ["ls-remote"])
        self.assertEqual(made, [])
        for change in (
            ("branch", "--quiet", "-D", "b7"),
            ("tag", "-d", "v1"),
            ("branch", "--quiet", "-m", "b8", "b7"),
            ("commit", "--quiet", "--amend", "--allow-empty", "-m", "other"),
        ):
            started.clear()
            self.repo.git(*change)
            refs = self.refs()
            self.assertEqual(started[:2], ["ls-remote", "fetch"], change)
            told = self.repo.git("for-each-ref", "--format=%(refname:short)", "refs/heads")
            names = {ref.rpartition("/")[2] for ref in refs if ref.startswith("refs/remotes")}
            self.assertEqual(names, set(told.split()))
        self.assertEqual(len(made), 4)
        self.assertEqual(refs[MASTER], self.repo.git("rev-parse", "HEAD"))

    def test_same(self) -> None:
        """Who knows already what the remote has is told that it is the same, and not all of it."""
        state = self.fetch()["state"]
        had = [state["at"], len(state["large"])]

        answer = self.fetch(had=had)
        self.assertEqual((answer["same"], answer["locks"], "state" in answer), (True, [], False))
        self.assertEqual(self.fetch(had=[])["state"], state)
        second = self.repo.commit({"top.sls": b"2"})
        self.assertEqual(self.refs(self.fetch(had=had, now=state["at"] + 1)), {MASTER: second})
        self.assertIn("state", self.fetch(had=had))

    def test_nothing_new_damaged(self) -> None:
        """A pack that is cut off, or gone, is found by the next fetch, though nothing is new."""
        state = self.fetch()["state"]

        def cut(path: Path) -> None:
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[:-30])

        for harm in (cut, Path.unlink):
            for kind in (".pack", ".idx"):
                (path,) = Path(self.cache, state["repo"], "objects/pack").glob(f"*{kind}")
                harm(path)
                state = self.fetch()["state"]
                repo = os.path.join(self.cache, state["repo"])
                args = ["--git-dir", repo, "cat-file", "-p", f"{self.first}:top.sls"]
                self.assertEqual(
                    program.run(args, program.environment({}), seconds=30), b"1", (harm, kind)
                )

    def known(self, **more: Any) -> bool:
        """Whether a fetch finds nothing new without a look at what there is."""
        knows, looked = {**(more if "repo" in more else self.knows), **more}, list[str]()
        real = repository.state_of
        self.patch(repository, "state_of", lambda folder: (looked.append(folder), real(folder))[1])
        answer = self.fetch(**knows)
        self.assertNotIn("error", answer)
        self.patch(repository, "state_of", real)
        return bool(answer.get("same")) and not looked

    @property
    def knows(self) -> dict[str, Any]:
        """What a master knows after two fetches."""
        state = self.fetch()["state"]
        answer = self.fetch(had=[state["at"], len(state["large"])])
        return {
            "had": [state["at"], len(state["large"])],
            "repo": state["repo"],
            "mark": answer["mark"],
        }

    def test_mark(self) -> None:
        """
        A mark says that a remote has nothing new, until the remote, its repository here, or what is
        asked is another.
        """
        knows = self.knows
        pack = next(Path(self.cache, knows["repo"], "objects/pack").glob("*.pack"))

        def push() -> None:
            self.repo.commit({"top.sls": b"2"})

        def branch() -> None:
            self.repo.git("branch", "other")

        def touch() -> None:
            os.utime(pack, (1, 1))

        def again() -> None:
            self.fetch(fresh=True)

        self.assertTrue(self.known())
        for more in ({"mark": b""}, {"refspecs": ["+refs/heads/*:refs/remotes/origin/*"]}):
            self.assertFalse(self.known(**more), more)
        for change in (push, branch, touch, again):
            knows = self.knows
            self.assertTrue(self.known(**knows), change)
            change()
            self.assertFalse(self.known(**knows), change)
            self.assertTrue(self.known(), change)

    def test_mark_and_branches(self) -> None:
        """
        Who has a mark makes as many calls to learn that nothing is new with 500 branches as with
        few (pains-next 3.8).
        """

        def calls() -> int:
            knows, count = self.knows, 0

            def note(frame: Any, event: str, arg: Any) -> None:
                nonlocal count
                count += event in ("call", "c_call")

            # In how many pieces it comes is the system's choice
            self.patch(program, "_pump", _at_once)
            sys.setprofile(note)
            try:
                answer = self.fetch(**knows)
            finally:
                sys.setprofile(None)
            self.assertTrue(answer["same"])
            return count

        few = calls()
        rows = "".join(f"create refs/heads/b{number} {self.first}\n" for number in range(500))
        self.repo.git("update-ref", "--stdin", data=rows.encode())

        # Some are those that look for the end of a process; each branch took twenty
        self.assertLess(abs(calls() - few), 100)

    def test_large(self) -> None:
        """Large objects are known by their sizes, also those of later packs."""
        self.repo.commit({"large": os.urandom(70_000)})
        self.fetch()
        self.repo.commit({"larger": os.urandom(80_000)})

        large = self.fetch()["state"]["large"]

        self.assertEqual(sorted(large.values()), [70_000, 80_000])

    def test_many_packs(self) -> None:
        """Many packs become one, in another repository, and nothing is lost."""
        self.patch(repository, "MANY_PACKS", 2)
        before = self.fetch()["state"]["repo"]
        for number in range(3):
            last = self.repo.commit({f"f{number}": b"x"})
            answer = self.fetch()

        self.assertNotEqual(answer["state"]["repo"], before)
        self.assertEqual(self.refs(answer), {MASTER: last})
        self.assertEqual(answer["state"]["refs"][MASTER], self.fetch()["state"]["refs"][MASTER])

    def test_many_packs_keep(self) -> None:
        """
        What jobs still run on is in the one pack as well, though nothing that is served leads to
        it; what nobody wants is not.
        """
        self.fetch()
        self.repo.git("checkout", "--quiet", "--orphan", "other")
        unwanted = self.repo.commit({"u": b"u"})
        self.repo.git("branch", "--quiet", "-M", "other", "master")
        self.fetch()
        self.repo.git("checkout", "--quiet", "--orphan", "third")
        last = self.repo.commit({"l": b"l"})
        self.repo.git("branch", "--quiet", "-M", "third", "master")
        self.patch(repository, "MANY_PACKS", 1)
        gone = "1" * 40

        answer = self.fetch(keep=[self.first, gone])

        self.assertEqual(self.refs(answer), {MASTER: last})
        repo = os.path.join(self.cache, answer["state"]["repo"])
        asked = [self.first, unwanted, last]
        self.assertEqual(repository.missing(repo, asked, 30.0), [unwanted])
        args = ["--git-dir", repo, "cat-file", "-p", f"{self.first}:top.sls"]
        self.assertEqual(program.run(args, program.environment({}), seconds=30), b"1")

    def test_remote_is_away(self) -> None:
        """A remote that is away is told, and what it had counts."""
        self.fetch()
        os.rename(self.repo.path, self.repo.path + ".away")
        self.assertIn("does not appear to be a git repository", self.error())
        os.rename(self.repo.path + ".away", self.repo.path)
        self.assertEqual(self.refs(), {MASTER: self.first})

    def test_made_anew(self) -> None:
        """A repository that is damaged on disk is made anew from the remote by the next fetch."""
        state = self.fetch()["state"]
        for path in Path(self.cache, state["repo"], "objects/pack").iterdir():
            path.unlink()
        second = self.repo.commit({"top.sls": b"2"})

        refs = self.refs()

        self.assertEqual(refs, {MASTER: second})
        fresh = repository.state_of(self.cache)["repo"]
        args = [
            "--git-dir",
            os.path.join(self.cache, fresh),
            "cat-file",
            "-p",
            f"{self.first}:top.sls",
        ]
        self.assertEqual(program.run(args, program.environment({}), seconds=30), b"1")


def _at_once(process: Any, stdin: bytes, sink: Any, seconds: float) -> tuple[bytes, bool]:
    """As L{program._pump}, in one piece."""
    sink(process.stdout.read())
    return process.stderr.read(), True


class KilledTests(FetchTestCase):
    """Processes that end in the middle."""

    def test_stale_locks(self) -> None:
        """Locks of git's own, and what a killed fetch has left, are gone by the next one."""
        state = self.fetch()["state"]
        repo = Path(self.cache, state["repo"])
        for name in ("packed-refs.lock", "HEAD.lock", "config.lock", "refs/heads/x.lock"):
            (repo / name).touch()
        Path(self.cache, "quarantine-dead/objects").mkdir(parents=True)
        Path(self.cache, "repo.dead").mkdir()
        second = self.repo.commit({"top.sls": b"2"})

        answer = self.fetch()

        self.assertEqual(self.refs(answer), {MASTER: second})
        self.assertEqual(
            sorted(answer["locks"]), ["HEAD.lock", "config.lock", "packed-refs.lock", "x.lock"]
        )
        self.assertEqual(sorted(os.listdir(self.cache)), ["lock", state["repo"], "state"])

    def test_killed_anywhere(self) -> None:
        """
        Killed at any call of the system that changes a file, a fetch leaves the old commit or the
        new one, whole, and the next fetch works by itself (pains-next 3.7).
        """
        self.fetch()
        script = (
            "import os, sys\n"
            "from saltwisted.worker.git import work\n"
            "left = [int(sys.argv[1])]\n"
            "def dying(call):\n"
            "    def wrapped(*args, **kwargs):\n"
            "        left[0] -= 1\n"
            "        if left[0] < 0: os.kill(os.getpid(), 9)\n"
            "        return call(*args, **kwargs)\n"
            "    return wrapped\n"
            "for name in ('rename', 'mkdir', 'open', 'fsync', 'unlink'):\n"
            "    setattr(os, name, dying(getattr(os, name)))\n"
            "work.fetch(eval(sys.argv[2]))\n"
        )
        commits, died, at = {self.first}, 0, 0
        while True:
            commits.add(self.repo.commit({"top.sls": str(at).encode()}))
            request = repr(fetch_request(self.cache, self.repo.url))
            done = subprocess.run(
                [sys.executable, "-c", script, str(at), request],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                check=False,
            )
            state = repository.state_of(self.cache)
            self.assertIn(state["refs"][MASTER][1], commits, at)
            answer = work.serve(
                {
                    "do": "list",
                    "repo": os.path.join(self.cache, state["repo"]),
                    "tree": state["refs"][MASTER][2],
                    "mountpoint": "",
                }
            )
            self.assertEqual([*of_runs(answer.get("files", ()))], ["top.sls"], (at, answer))
            if done.returncode == 0:
                break
            self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
            died, at = died + 1, at + STEP
        self.assertGreater(died, 15 // STEP)
        self.assertEqual(self.refs()[MASTER], self.repo.git("rev-parse", "HEAD"))

    def test_one_at_a_time(self) -> None:
        """Eight at once on a new folder all end well, and have the same."""
        answers: list[dict[str, Any]] = []
        threads = [threading.Thread(target=lambda: answers.append(self.fetch())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        self.assertEqual([self.refs(each) for each in answers], [{MASTER: self.first}] * 8)

    def test_limits(self) -> None:
        """
        What git starts has limits, and this process has its own again, whoever sees to the end of
        the two.
        """
        alias = "!cat /proc/self/limits"
        for in_group in (False, True):
            self.patch(program, "in_group", in_group)
            had = Path("/proc/self/limits").read_text()
            environ = program.environment({}, settings={"alias.limits": alias})
            process = program.start(["limits"], environ, most=12345)
            with process:
                said = process.communicate(timeout=60)[0].decode()

            soft = {line[:25].strip(): line[26:47].strip() for line in said.splitlines()}
            self.assertEqual(soft["Max core file size"], "0")
            self.assertEqual(soft["Max file size"], "12345")
            self.assertEqual(soft["Max data size"], str(program.most_memory()))
            self.assertEqual(Path("/proc/self/limits").read_text(), had)

    def test_too_long(self) -> None:
        """A git that does not end is killed with all that it has started, and is told."""
        bin_ = Path(self.folder, "bin")
        bin_.mkdir()
        pid = Path(self.folder, "pid")
        (bin_ / "git").write_text(
            f"#!/bin/sh\nsleep 600 &\necho $! > {pid}.new; mv {pid}.new {pid}\nwait\n"
        )
        (bin_ / "git").chmod(0o755)
        self.patch(os, "environ", {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"})

        with self.assertRaisesRegex(GitError, "git did not finish within 1 s"):
            program.run(["fetch"], program.environment({}), seconds=1.0)

        child = int(pid.read_text())
        status = Path(f"/proc/{child}/stat")

        def is_gone() -> bool:
            try:
                return status.read_text().split()[2] in "ZX"
            except (FileNotFoundError, ProcessLookupError):
                return True

        # Killed it is; that it has ended is seen a moment later
        until("its end", is_gone)


class AttackTests(FetchTestCase):
    """A remote, or a repository, that means no good."""

    def test_no_programs(self) -> None:
        """T-GIT-2: no transport that is a program, whatever the configuration has let through."""
        mark = self.path("mark")
        for url in (f"ext::sh -c touch% {mark}", f"fd::17,18/{mark}"):
            text = self.error(url)
            self.assertIn("not allowed", text)
        self.error(f"--upload-pack=touch {mark}")
        self.error(refspecs=[f"--upload-pack=touch {mark}"])
        self.error(refspecs=["--all"])

        self.assertFalse(os.path.exists(mark))

    def test_environment(self) -> None:
        """T-GIT-2: of the variables of git's own that the daemon was started with, none counts."""
        mark = self.path("mark")
        evil = Path(self.folder, "evil")
        evil.write_text(f"#!/bin/sh\ntouch {mark}\n")
        evil.chmod(0o755)
        names = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXEC_PATH")
        given = {name: str(evil) for name in names}
        given |= {"GIT_DIR": "/nowhere", "GIT_ALLOW_PROTOCOL": "ext", "GIT_TRACE": mark}
        given["GIT_CONFIG_PARAMETERS"] = f"'core.hooksPath={self.folder}'"
        self.patch(os, "environ", {**os.environ, **given})

        self.assertEqual(self.refs(), {MASTER: self.first})
        self.error("ssh://127.0.0.1:1/x")
        self.assertFalse(os.path.exists(mark))

    def test_hooks_and_filters(self) -> None:
        """T-GIT-4: hooks, filters and configuration in a repository are never run."""
        mark = self.path("mark")
        hooks = Path(self.folder, "hooks")
        hooks.mkdir()
        for name in ("post-checkout", "reference-transaction", "post-merge", "fsmonitor"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
            (hooks / name).chmod(0o755)
        Path(self.folder, ".gitconfig").write_text(
            f"[core]\n hooksPath = {hooks}\n fsmonitor = {hooks}/fsmonitor\n"
            f'[filter "x"]\n smudge = touch {mark}\n clean = touch {mark}\n required = true\n'
        )
        self.repo.commit({".gitattributes": b"* filter=x diff=x\n", "a": b"$Id$"}, None)
        os.path.exists(mark) and os.unlink(mark)
        state = self.fetch()["state"]
        repo = os.path.join(self.cache, state["repo"])
        for name in ("config", "hooks/post-checkout"):
            self.assertEqual(os.path.exists(os.path.join(repo, name)), name == "config")

        self.repo.commit({"a": b"2"})
        self.fetch()

        self.assertFalse(os.path.exists(mark))

    def test_too_much(self) -> None:
        """T-GIT-5: a remote that sends more than it may is stopped, and what it had counts."""
        self.fetch()
        self.repo.commit({"large": os.urandom(400_000)})

        self.assertIn("more than 0 MiB", self.error(most=100_000))

    def test_too_many_refs(self) -> None:
        """T-GIT-5: a remote with more refs than anybody means is refused in words."""
        self.patch(repository, "MOST_REFS", 3)
        for number in range(4):
            self.repo.git("branch", f"b{number}")

        self.assertIn("5 refs; at most 3 are accepted", self.error())
        self.patch(repository, "MOST_REFS", 5)
        self.patch(repository, "MOST_REF_TEXT", 100)
        self.assertIn("the names of the remote's refs", self.error())
        self.patch(repository, "MOST_REF_TEXT", 200)
        self.assertEqual(len(self.refs()), 5)

    def test_noise(self) -> None:
        """T-GIT-5: what git says for ever is not kept, and signs for a terminal are not shown."""
        script = "import sys\nwhile True: sys.stderr.write('x' * 100000)"
        self.patch(program.subprocess, "Popen", _as(sys.executable, script))
        with self.assertRaises(GitError) as caught:
            program.run([], program.environment({}), seconds=1.0)

        self.assertIn("did not finish within", caught.exception.text)
        self.assertEqual(program.said("a\x1b[31mb\x07\nhttps://u:p@h/x", {}), "ab; https://h/x")

    def test_secrets(self) -> None:
        """T-GIT-3: a password is in no argument, in no file that stays, and in no error."""
        reach = {
            "url": "https://git.example.org:8443/x", "user": "fred", "password": "geheim",
            "passphrase": "auch-geheim", "privkey": "/k",
        }  # fmt: skip
        environ = program.environment(reach, "/ask")
        settings = [value for name, value in environ.items() if name.startswith("GIT_")]

        self.assertEqual([value for value in settings if "geheim" in value], [])
        said = program.said("fatal: https://fred:geheim@h/ geheim auch-geheim", reach)
        self.assertNotIn("geheim", said)
        del reach["url"]
        self.error("http://127.0.0.1:1/x", **reach)
        for path in Path(self.folder).rglob("*"):
            if path.is_file() and "source" not in path.parts:
                self.assertNotIn(b"geheim", path.read_bytes(), path)

    def test_asked_by_one_host(self) -> None:
        """T-GIT-3: the password is told to the host of the remote, and to no other."""
        ask = Path(self.folder, "ask")
        ask.write_text(program.ASK)
        ask.chmod(0o700)
        url = "https://git.example.org:8443/x"
        reach = {"url": url, "user": "fred", "password": "geheim", "passphrase": "p"}
        environ = program.environment(reach, str(ask))

        def asked(prompt: str) -> str:
            done = subprocess.run([ask, prompt], env=environ, capture_output=True, check=False)
            return done.stdout.decode().strip()

        self.assertEqual(asked("Username for 'https://git.example.org:8443': "), "fred")
        self.assertEqual(asked("Password for 'https://fred@git.example.org:8443': "), "geheim")
        self.assertEqual(asked("Enter passphrase for key '/k': "), "p")
        for prompt in (
            "Password for 'https://fred@evil.org': ",
            "Password for 'https://git.example.org:8443@evil.org': ",
            "Username for 'https://evil.org': ",
            "Are you sure you want to continue connecting (yes/no)? ",
        ):
            self.assertEqual(asked(prompt), "", prompt)

    def test_host_key(self) -> None:
        """A host key that nobody knows is refused, with the line that adds it."""
        text = repository.explain(
            "Host key verification failed.\nfatal: Could not read", {"url": "ssh://git@h:2222/x"}
        )

        self.assertIn("ssh-keyscan -p 2222 h >> ", text)
        self.assertIn("StrictHostKeyChecking=yes", program.environment({})["GIT_SSH_COMMAND"])


def _as(*args: str) -> Any:
    """Something else in the place of git."""
    real = subprocess.Popen

    def popen(_: Any, **kwargs: Any) -> Any:
        return real([args[0], "-c", *args[1:]], **kwargs)

    return popen
