"""
Pillar from git, with the real program and repositories in a directory.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.wire.msgpack import unpack
from saltwisted.worker.exceptions import FileserverConfigError
from saltwisted.worker.pillar import git as gitpillar
from saltwisted.worker.pillar.git import GitPillar, remotes
from saltwisted.worker.pillar.work import PillarWorker
from saltwisted.worker.renderhost import file_stamp


class GitCase(SynchronousTestCase):
    """A repository with branches, and a master's cache."""

    def setUp(self) -> None:
        if shutil.which("git") is None:
            raise SkipTest("there is no git program")
        self.where = tempfile.mkdtemp(prefix="gitpillar")
        self.addCleanup(shutil.rmtree, self.where)
        self.repo = self.where + "/repo"
        quiet = logging.NullHandler()
        logging.getLogger("saltwisted.worker").addHandler(quiet)
        self.addCleanup(logging.getLogger("saltwisted.worker").removeHandler, quiet)
        os.mkdir(self.repo)
        self.git("init", "-q", "-b", "master")
        self.now = 1e9
        self.commit({"top.sls": "base:\n  '*': [a]\n", "a.sls": "x: {{ saltenv }}"})

    def git(self, *args: str) -> None:
        """Run git in the repository."""
        names = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=no")
        subprocess.run(["git", *names, *args], cwd=self.repo, check=True, capture_output=True)

    def commit(self, files: dict[str, str], branch: str = "") -> None:
        """Write files and commit them, on a new branch if named."""
        if branch:
            self.git("checkout", "-q", "-b", branch)
        for path, text in files.items():
            full = os.path.join(self.repo, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as stream:
                stream.write(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def options(self, *config: Any, **opts: Any) -> dict[str, Any]:
        """A master's options."""
        return {
            **MasterConfig().as_opts(),
            "pillar_roots": {"base": [self.where + "/none"]},
            "cachedir": self.where + "/cache",
            "config_dir": self.where,
            "extension_modules": self.where + "/ext",
            "ext_pillar": [{"git": list(config)}],
            "pillar_safe_render_error": False,
            "git_pillar_update_interval": 0,
            **opts,
        }

    def pillar(self, *config: Any, pillarenv: str | None = None, **opts: Any) -> Any:
        """What a minion gets."""
        worker = PillarWorker(self.options(*config, **opts))
        answer = worker.pillar({"id": "m1", "grains": {"os": "X"}, "pillarenv": pillarenv})
        if "__git_pillar_fetched" not in opts:
            self.assertIsNone(answer["files"])
        return unpack(answer["packed"])

    def source(self, **opts: Any) -> GitPillar:
        """Repositories with a clock of the test's."""
        return GitPillar(self.options(**opts), lambda: self.now)

    def stores(self) -> list[str]:
        """The repositories in the cache."""
        names = os.listdir(self.where + "/cache/git_pillar")
        return [name for name in names if len(name) == 32]


class TooMuchTests(GitCase):
    """T-COST-2: what somebody pushes into a repository of pillar."""

    def test_bomb(self) -> None:
        """
        A tree that holds itself ten times, ten levels deep, is not written, nor listed to its end,
        and that is found out once. The pillar of other remotes is compiled.
        """
        self.git("checkout", "-q", "-b", "bomb")
        blob = self.said("hash-object", "-w", "--stdin", data="1")
        kind = "100644 blob"
        for _ in range(10):
            rows = "".join(f"{kind} {blob}\td{number}\n" for number in range(10))
            blob, kind = self.said("mktree", data=rows), "040000 tree"
        bomb = self.said("commit-tree", blob, "-m", "m")
        self.git("update-ref", "refs/heads/bomb", bomb)
        self.patch(gitpillar, "MOST_ROWS", 1 << 20)
        runs: list[Any] = []
        real = gitpillar.lay_out
        self.patch(gitpillar, "lay_out", lambda *args: (runs.append(args), real(*args)))

        for _ in range(3):
            found = self.pillar({f"bomb {self.repo}": [{"env": "base"}]}, f"master {self.repo}")
            self.assertEqual(found, {"x": "base"})

        self.assertEqual(len(runs), 2, "the bomb once, and the other remote")

    def test_bytes(self) -> None:
        """The same file in very many places is counted in each of them."""
        self.commit({f"d/{number}": "x" * 1000 for number in range(20)})
        self.patch(gitpillar, "MOST_LAID", 15_000)
        self.assertEqual(self.pillar(f"master {self.repo}"), {})

        self.patch(gitpillar, "MOST_LAID", 25_000)
        self.commit({"b": "1"})
        self.assertEqual(self.pillar(f"master {self.repo}"), {"x": "base"})

    def test_batches(self) -> None:
        """However many files are in memory at once, each is written as it is."""
        self.patch(gitpillar, "AT_ONCE", 10)
        self.commit({name: name * 4 for name in ("b", "c/d", "c/e")})
        os.symlink("c/d", os.path.join(self.repo, "link"))
        os.symlink("/etc/passwd", os.path.join(self.repo, "out"))
        self.commit({"f": "", "g": "b" * 4})
        self.pillar(f"master {self.repo}")

        (place,) = Path(self.where).glob("cache/git_pillar/*/files/*")
        found = {name: (place / name).read_text() for name in ("b", "c/d", "c/e", "f", "g", "link")}
        self.assertEqual(
            found,
            {"b": "bbbb", "c/d": "c/d" * 4, "c/e": "c/e" * 4, "f": "", "g": "bbbb",
             "link": "c/d" * 4},
        )  # fmt: skip
        self.assertFalse(os.path.lexists(place / "out"))

    def said(self, *args: str, data: str = "") -> str:
        """What git says."""
        names = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        done = subprocess.run(
            ["git", *names, *args],
            cwd=self.repo, check=True, capture_output=True, input=data, text=True,
        )  # fmt: skip
        return done.stdout.strip()


class PillarTests(GitCase):
    """Branches as environments."""

    def test_branches(self) -> None:
        """The base branch is C{base}, another one an environment of its name."""
        self.commit({"top.sls": "dev:\n  '*': [a]\n", "a.sls": "x: {{ saltenv }}\nd: 1"}, "dev")

        self.assertEqual(self.pillar(f"master {self.repo}"), {"x": "base"})
        self.assertEqual(
            self.pillar(f"master {self.repo}", f"dev file://{self.repo}"), {"x": "dev", "d": 1}
        )
        both = (f"master {self.repo}", f"dev {self.repo}")
        self.assertEqual(self.pillar(*both, pillarenv="base"), {"x": "base"})
        answer = self.pillar({f"dev {self.repo}": [{"env": "base"}]})
        self.assertIn("No matching pillar environment", answer["_errors"][0])

    def test_env_branch(self) -> None:
        """C{__env__} is the branch of the pillar environment, C{fallback} where there is none."""
        self.commit({"top.sls": "{{ saltenv }}:\n  '*': [a]\n"}, "dev")
        entry = {f"__env__ {self.repo}": [{"fallback": "dev"}]}

        self.assertEqual(self.pillar(entry), {"x": "base"})
        self.assertEqual(self.pillar(entry, pillarenv="dev"), {"x": "dev"})
        self.assertEqual(self.pillar(entry, pillarenv="qa"), {"x": "qa"})
        self.assertEqual(self.pillar(f"__env__ {self.repo}", pillarenv="qa"), {})

    def test_root(self) -> None:
        """C{root} names a directory of the repository, none outside of it."""
        self.commit({"sub/top.sls": "base:\n  '*': [b]\n", "sub/b.sls": "b: 1"})

        self.assertEqual(self.pillar({f"master {self.repo}": [{"root": "sub"}]}), {"b": 1})
        answer = self.pillar({f"master {self.repo}": [{"root": "../.."}]})
        self.assertIn("points outside", answer["_errors"][0])

    def test_mountpoint(self) -> None:
        """A mounted repository is there for includes and has no top file of its own."""
        self.commit({"top.sls": "base:\n  '*': [lib.a]\n"}, "lib")
        self.git("checkout", "-q", "master")
        self.commit({"a.sls": "include: [lib.x.a]\ny: 1"})
        mounted = {f"lib {self.repo}": [{"mountpoint": "lib/x"}, {"env": "base"}]}

        answer = self.pillar(f"master {self.repo}", mounted)
        self.assertEqual(answer, {"x": "base", "y": 1})

    def test_errors(self) -> None:
        """Mistakes are entries in C{_errors}; an unknown environment is passed over."""
        answer = self.pillar({f"master {self.repo}": [{"nope": 1}]})
        self.assertIn("configuration parameter(s): nope", answer["_errors"][0])
        answer = self.pillar({f"master https://u:secret@h/{self.repo}": None})
        self.assertIn("has no parameters", answer["_errors"][0])
        self.assertNotIn("secret", answer["_errors"][0])
        self.assertEqual(self.pillar(f"nosuch {self.repo}"), {})
        self.assertEqual(self.pillar(f"master {self.where}/nosuch"), {})
        # Which has a stock minion refuse to run states (pains-next 3.5)
        top = "base:\n  '*': [a, b]\n"
        self.commit({"top.sls": top, "a.sls": "x: {{ no.no }}", "b.sls": "y: 1"})
        answer = self.pillar(f"master {self.repo}")
        self.assertEqual(answer["y"], 1)
        self.assertIn("Rendering SLS 'a' failed", answer["_errors"][0])

    def test_all_errors(self) -> None:
        """
        Of several branches, external pillars and pillar files each error is named, in the pillar
        and in what the master logs (pains-next 3.5).
        """
        self.commit({"a.sls": "x: {{ one.no }}"})
        self.commit({"a.sls": "y: {{ two.no }}"}, "two")
        two = {f"two {self.repo}": [{"env": "base"}]}
        os.makedirs(f"{self.where}/roots")
        Path(f"{self.where}/roots/top.sls").write_text("base:\n  '*': [c]\n")
        Path(f"{self.where}/roots/c.sls").write_text("z: {{ three.no }}")
        options = self.options(f"master {self.repo}", two)
        options["pillar_roots"] = {"base": [f"{self.where}/roots"]}
        apart = [{"git": [each]} for each in (f"master {self.repo}", two)]
        for several in (options["ext_pillar"], apart):
            options["ext_pillar"] = several
            worker = PillarWorker(options)
            answer = worker.pillar({"id": "m1", "grains": {}, "saltenv": None, "pillarenv": None})
            errors, said = unpack(answer["packed"])["_errors"], "\n".join(answer["log"])

            self.assertEqual([text.split("'")[1] for text in errors], ["c", "a", "a"])
            self.assertFalse(answer["good"])
            for name in ("one", "two", "three"):
                self.assertIn(f"'{name}' is undefined", said)
            self.assertEqual(said.count("git_pillar: "), 2)


def ask(options: dict[str, Any], branches: list[str]) -> list[tuple[str, Any]]:
    """In a process of its own, as the workers of a master: the pillar of each branch."""
    worker, found = PillarWorker(options), []
    for branch in branches:
        answer = worker.pillar({"id": "m1", "grains": {}, "pillarenv": branch})
        found.append((branch, unpack(answer["packed"])))
    return found


class ManyTests(GitCase):
    """Many minions at once, each with a branch of its own."""

    def write(self, branch: str, number: int) -> None:
        """A commit of a branch: two files that say which one it is."""
        text = f"branch: {branch}\nenv: {{{{ saltenv }}}}\n"
        self.commit(
            {
                "top.sls": "'{{ saltenv }}':\n  '*': [a, b]\n",
                "a.sls": text + f"one: {number}\n",
                "b.sls": f"two: {number}\n",
            }
        )

    def test_never_another(self) -> None:
        """
        Fifty pillars of fourteen branches by several processes at once, from the first use on, and
        while branches are pushed: each is of its branch, and of one commit (pains-next 3.3).
        """
        branches = [f"b{number}" for number in range(14)]
        for branch in branches:
            self.git("checkout", "-q", "-b", branch)
            self.write(branch, 0)
        options = self.options(f"__env__ {self.repo}")
        asked = [(branches * 4)[start : start + 14] for start in (0, 4, 9, 2)]
        with ProcessPoolExecutor(len(asked), get_context("spawn")) as pool:
            running = [pool.submit(ask, options, some[:13]) for some in asked]
            number = 0
            while not all(each.done() for each in running):
                number += 1
                branch = branches[number % len(branches)]
                self.git("checkout", "-q", branch)
                self.write(branch, number)
            found = [pair for each in running for pair in each.result()]

        self.assertGreaterEqual(len(found), 50)
        for branch, pillar in found:
            said = (pillar.get("branch"), pillar.get("env"), pillar.get("one"))
            self.assertEqual(said, (branch, branch, pillar.get("two")), pillar)


class KeptTests(GitCase):
    """What a pillar depended on, where the master has the remotes fetched."""

    def compiled(self, *config: Any, **opts: Any) -> tuple[Any, Any, Any]:
        """A pillar, its files with their stamps, and the grains that were looked at."""
        worker = PillarWorker(self.options(*config, __git_pillar_fetched=True, **opts))
        answer = worker.pillar({"id": "m1", "grains": {"os": "X", "kernel": "Y"}})
        files = answer["files"]
        stamps = None if files is None else {os.fsdecode(path): stamp for path, stamp in files}
        return unpack(answer["packed"]), stamps, answer["grains"]

    def fetched(self) -> str:
        """Have what is new fetched, and laid out long ago: the directory of its files."""
        [(place, _, _)] = self.source().directories([f"master {self.repo}"], None, None)
        for above, _, names in os.walk(os.path.dirname(os.path.dirname(place))):
            for each in (above, *(os.path.join(above, name) for name in names)):
                os.utime(each, (1e9, 1e9))
        return str(place)

    def test_kept(self) -> None:
        """It depends on the commit of its branch, on the files it is made of, and their grains."""
        self.commit({"a.sls": "x: {{ grains['os'] }}"})
        place = self.fetched()

        pillar, files, grains = self.compiled(f"master {self.repo}")
        _, again, _ = self.compiled(f"master {self.repo}")

        self.assertEqual(pillar, {"x": "X"})
        state = os.path.join(os.path.dirname(os.path.dirname(place)), "state")
        self.assertLessEqual({state, place + "/top.sls", place + "/a.sls"}, set(files))
        self.assertNotIn(None, [files[state], files[place + "/a.sls"]])
        self.assertIn("os", grains)
        self.assertNotIn("kernel", grains)
        self.assertEqual(again, files)

    def test_listed(self) -> None:
        """It is the same as long as the commit is, also where it has all files of a directory."""
        self.commit({"top.sls": "base:\n  '*': ['*']\n"})
        place = self.fetched()

        _, files, _ = self.compiled(f"master {self.repo}")
        _, again, _ = self.compiled(f"master {self.repo}")

        self.assertIsNotNone(files[place])
        self.assertEqual(again, files)

    def test_new_commit(self) -> None:
        """With the next commit of the branch it is another one, also if its files are not."""
        self.fetched()
        _, files, _ = self.compiled(f"master {self.repo}")
        self.commit({"other.sls": ""})
        place = self.fetched()

        state = os.path.join(os.path.dirname(os.path.dirname(place)), "state")
        self.assertNotEqual(files[state], list(file_stamp(state) or ()))

    def test_not_there(self) -> None:
        """What was not fetched yet may come; then it is compiled again."""
        pillar, files, _ = self.compiled(f"master {self.repo}")
        self.assertEqual((pillar, [*files.values()].count(None)), ({}, len(files)))

        place = self.fetched()
        self.assertIn(os.path.join(os.path.dirname(os.path.dirname(place)), "state"), files)

    def test_volatile(self) -> None:
        """What may not be kept there may not be kept here."""
        self.commit({"a.sls": "x: {{ 8 | random_str | length }}"})
        self.fetched()

        self.assertEqual(self.compiled(f"master {self.repo}")[:2], ({"x": 8}, None))

    def test_cannot_be_read(self) -> None:
        """A commit that cannot be laid out now perhaps can the next time."""
        place = self.fetched()
        shutil.rmtree(place)
        folder = os.path.dirname(os.path.dirname(place))
        for name in os.listdir(folder):
            if name.startswith("repo."):
                shutil.rmtree(os.path.join(folder, name, "objects/pack"))

        self.assertEqual(self.compiled(f"master {self.repo}")[:2], ({}, None))


class StoreTests(GitCase):
    """What is fetched when, and kept where."""

    def test_interval(self) -> None:
        """A remote is fetched again when the interval has passed, not before."""
        source = self.source(git_pillar_update_interval=60)
        [(first, env, mounted)] = source.directories([f"master {self.repo}"], None, None)
        self.commit({"new.sls": ""})
        self.now += 59
        [(same, _, _)] = source.directories([f"master {self.repo}"], None, None)
        self.now += 2
        [(later, _, _)] = source.directories([f"master {self.repo}"], None, None)

        self.assertEqual((env, mounted, same), ("base", False, first))
        self.assertNotIn("new.sls", os.listdir(first))
        self.assertIn("new.sls", os.listdir(later))

    def test_gone(self) -> None:
        """A remote that cannot be reached serves what was fetched last."""
        source = self.source()
        before = source.directories([f"master {self.repo}"], None, None)
        os.rename(self.repo, self.repo + ".away")

        self.assertEqual(source.directories([f"master {self.repo}"], None, None), before)

    def test_t_git_1(self) -> None:
        """T-GIT-1: remotes that differ in anything but the branch have stores of their own."""
        self.commit({"a.sls": "x: other"}, "dev")
        twice = {f"master {self.repo}": [{"name": "two"}]}
        self.pillar(f"master {self.repo}", twice, f"master file://{self.repo}", f"dev {self.repo}")

        self.assertEqual(len(self.stores()), 3)

    def test_exact(self) -> None:
        """A layout has exactly the files of its commit, and no git data."""
        [(place, _, _)] = self.source().directories([f"master {self.repo}"], None, None)

        self.assertEqual(sorted(os.listdir(place)), ["a.sls", "top.sls"])

    def layouts(self) -> set[str]:
        """The commits that are laid out."""
        [store] = self.stores()
        return set(os.listdir(f"{self.where}/cache/git_pillar/{store}/files"))

    def test_swept(self) -> None:
        """
        A layout that was used within ten minutes stays, however many others there are: who is
        compiling reads it. After that those stay that were used last.
        """
        self.patch(gitpillar, "KEPT", 2)
        source = self.source()
        for number in range(5):
            self.commit({"a.sls": str(number)})
            source.directories([f"master {self.repo}"], None, None)
            self.now += 1
        in_use = self.layouts()

        self.now += gitpillar.SPARED
        self.commit({"a.sls": "new"})
        [(place, _, _)] = source.directories([f"master {self.repo}"], None, None)

        self.assertEqual(len(in_use), 5)
        self.assertIn(os.path.basename(place), self.layouts())
        self.assertEqual(len(self.layouts()), 3)

    def test_branches_take_turns(self) -> None:
        """Fourteen branches that are asked for in turn are laid out once each."""
        names = [f"b{number}" for number in range(14)]
        for name in names:
            self.commit({"a.sls": name}, name)
        made: list[str] = []
        lay_out = gitpillar.lay_out

        def counting(repo: str, commit: str, place: str) -> None:
            made.append(commit)
            lay_out(repo, commit, place)

        self.patch(gitpillar, "lay_out", counting)
        source = self.source()
        for _ in range(3):
            for name in names:
                source.directories([f"{name} {self.repo}"], None, None)
                self.now += gitpillar.SPARED

        self.assertEqual(len(made), 14)

    def test_links(self) -> None:
        """T-GIT-6: a link that leads out of its commit is not laid out; one inside is."""
        secret = os.path.join(self.where, "secret.sls")
        with open(secret, "w") as stream:
            stream.write("stolen: 1")
        os.makedirs(self.repo + "/sub")
        for name, target in {
            "abs.sls": secret,
            "out.sls": "../../../secret.sls",
            "sub/up": "../..",
            "sub/good.sls": "../a.sls",
            "dir": "sub",
        }.items():
            os.symlink(target, os.path.join(self.repo, name))
        self.commit({"sub/b.sls": "b: 1"})

        [(place, _, _)] = self.source().directories([f"master {self.repo}"], None, None)

        self.assertEqual(sorted(os.listdir(place)), ["a.sls", "dir", "sub", "top.sls"])
        self.assertEqual(sorted(os.listdir(place + "/dir")), ["b.sls", "good.sls"])
        with open(place + "/dir/good.sls") as stream:
            self.assertEqual(stream.read(), "x: {{ saltenv }}")

    def test_filters(self) -> None:
        """T-GIT-4: files are written as they are in the commit, and no filter is run for them."""
        mark = os.path.join(self.where, "mark")
        home = os.path.join(self.where, "home")
        os.mkdir(home)
        with open(home + "/.gitconfig", "w") as stream:
            stream.write(f'[filter "x"]\n smudge = touch {mark}\n required = true\n')
        self.commit({".gitattributes": "*.sls filter=x\n", "b.sls": "b: 1"})
        self.patch(os, "environ", {**os.environ, "HOME": home})

        self.assertEqual(self.pillar(f"master {self.repo}"), {"x": "base"})
        self.assertFalse(os.path.exists(mark))

    def test_by_the_master(self) -> None:
        """Where the master has remotes fetched, no pillar waits for one: what is there is used."""
        source = self.source()
        [(first, _, _)] = source.directories([f"master {self.repo}"], None, None)
        self.commit({"new.sls": ""})
        self.now += 1e6
        source = self.source(__git_pillar_fetched=True)

        self.assertEqual(
            source.directories([f"master {self.repo}"], None, None), [(first, "base", False)]
        )

    def test_not_told(self) -> None:
        """That the master fetches is said to its workers alone, and no minion is sent it."""
        told = {"pillar_opts": True, "__git_pillar_fetched": True}
        found = self.pillar(f"master {self.repo}", **told)["master"]

        self.assertIn("git_pillar_branch", found)
        self.assertEqual([name for name in found if "fetched" in name], [])

    def test_transports(self) -> None:
        """Transports that run programs, and URLs that are options, are refused."""
        for url in ("ext::sh -c id", "--upload-pack=id", "fd::7", "-x"):
            self.assertRaises(FileserverConfigError, remotes, [{f"master {url}": []}], {})
        hidden = f"master file://{self.where}/x"
        with open(os.path.join(self.where, "sub"), "w"):
            pass
        self.assertEqual(self.source().directories([hidden], None, None), [])

    def test_credentials(self) -> None:
        """Passwords stand in no representation and no log."""
        [remote] = remotes(
            [{"master https://u:C4n4ry@h/r": [{"user": "u"}, {"password": "C4n4ry"}]}], {}
        )

        self.assertNotIn("C4n4ry", repr(remote) + remote.shown)
