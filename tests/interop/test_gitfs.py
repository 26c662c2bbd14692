"""
C{gitfs} beside stock: the same lists, hashes and environments of one repository, and stock minions
that run what was pushed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import ensureDeferred, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.git import remotes_of
from saltwisted.config.options import MasterConfig
from saltwisted.domain.git.mapping import Tip
from saltwisted.master.fileserver import FileServer
from saltwisted.master.runners.fileserver import FUNCTIONS
from saltwisted.stores.git.objects import Repository
from saltwisted.stores.git.source import GitFiles, GitView, Served
from saltwisted.worker.git import work
from tests.gitrepos import ENVIRON, Repo, fetch_request, git_daemon
from tests.harness import (
    OurMaster,
    StockMinion,
    needs_peers,
    peer_venv,
    reserve_ports,
    scratch,
    until,
    write_config,
)

ASK = """
import json, os, sys
import salt.config, salt.fileserver, salt.runners.fileserver as runner, salt.utils.gitfs
cases, more, calls = map(json.loads, sys.argv[2:5])
def plain(value):
    return value.decode() if isinstance(value, bytes) else value
def ask(home, given):
    os.makedirs(home)
    opts = salt.config.master_config(None)
    opts.update(cachedir=home, sock_dir=home, fileserver_backend=["gitfs"], root_dir=home,
                gitfs_provider="gitpython", extension_modules=home + "/ext", **given)
    opts["__role"] = "master"
    salt.utils.gitfs.GitFS.instance_map.clear()
    fs = salt.fileserver.Fileserver(opts)
    fs.update()
    found = {"envs": sorted(fs.envs())}
    for env in [*found["envs"], *more]:
        load = {"saltenv": env}
        files = fs.file_list(dict(load))
        told = found[env] = {
            "files": files, "dirs": fs.dir_list(dict(load)),
            "empty": fs.file_list_emptydirs(dict(load)),
            "links": {plain(k): plain(v) for k, v in fs.symlink_list(dict(load)).items()},
            "hashes": {}, "modes": {},
        }
        for path in files:
            try:
                hashed, stat = fs.file_hash_and_stat({"path": "|" + path, **load})
            except Exception as error:
                hashed, stat = "", None
            told["hashes"][path] = plain(hashed["hsum"]) if hashed else ""
            told["modes"][path] = stat[0] if stat else None
    if home.endswith("/plain"):
        runner.__opts__, runner.__context__ = opts, {}
        found["calls"] = [getattr(runner, fun)(**kwargs) for fun, kwargs in calls]
    return found
print(json.dumps({name: ask(f"{sys.argv[1]}/{name}", given) for name, given in cases.items()}))
"""
CALLS: list[tuple[str, dict[str, str]]] = [
    *((fun, {}) for fun in ("dir_list", "empty_dir_list", "symlink_list")),
    *((fun, {"saltenv": "dev"}) for fun in ("dir_list", "empty_dir_list", "symlink_list")),
    *((fun, {"saltenv": "nowhere"}) for fun in ("dir_list", "empty_dir_list", "symlink_list")),
    *(("dir_list", {"backend": name}) for name in ("git", "-gitfs", "nosuch")),
    *((fun, {}) for fun in ("lock", "clear_lock")),
    *((fun, {"backend": name}) for fun in ("lock", "clear_lock") for name in ("git", "nosuch")),
    *((fun, {"remote": name}) for fun in ("lock", "clear_lock") for name in ("*", "nosuch")),
    # The last: stock lists nothing until the next update
    *(("clear_cache", options) for options in ({}, {"backend": "git"}, {"backend": "nosuch"})),
]
"""Of the runner C{fileserver}."""
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "root": {"gitfs_root": "states"},
    "root-missing": {"gitfs_root": "no/such"},
    "mountpoint": {"gitfs_mountpoint": "salt://a/b"},
    "root-mountpoint": {"gitfs_root": "states/sub", "gitfs_mountpoint": "m"},
    "base-tag": {"gitfs_base": "v1"},
    "branches": {"gitfs_ref_types": ["branch"]},
    "tags-first": {"gitfs_ref_types": ["tag", "branch"]},
    "mapped": {
        "gitfs_saltenv": [
            {"qa": [{"ref": "dev"}, {"root": "states"}]},
            {"gone": [{"ref": "nowhere"}]},
        ]
    },
    "only-mapped": {
        "gitfs_disable_saltenv_mapping": True,
        "gitfs_saltenv": [{"qa": [{"ref": "v1"}, {"mountpoint": "salt://q"}]}],
    },
    "white": {"gitfs_saltenv_whitelist": ["base", "feature/.*"]},
    "black": {"gitfs_saltenv_blacklist": ["v*", "dev"]},
    "fallback": {"gitfs_fallback": "dev"},
    "refspecs": {
        "gitfs_refspecs": [
            "+refs/heads/dev:refs/remotes/origin/dev",
            "+refs/heads/feature/*:refs/remotes/origin/*",
            "+refs/tags/*:refs/tags/*",
        ],
        "gitfs_base": "dev",
    },
    "all": {"remote": [{"all_saltenvs": "v1"}]},
    "own": {
        "remote": [{"root": "states"}, {"saltenv": [{"base": [{"ref": "dev"}]}]}],
        "gitfs_root": "elsewhere",
    },
}


@needs_peers
class CompareTests(SynchronousTestCase):
    """One repository with what people have in repositories."""

    maxDiff = None

    def setUp(self) -> None:
        """Make it."""
        self.home = scratch(self)
        repo = self.repo = Repo(os.path.join(self.home, "source"))
        repo.write(
            {
                "top.sls": b"base:\n",
                'odd/a b/\u00fc "q" & ?.txt': b"x",
                "odd/-dash": b"y",
                "odd/tab\tname": b"t",
                "odd/new\nline": b"n",
                "odd/back\\slash": b"b",
                "Case": b"1",
                "case": b"2",
                "empty": b"",
                "run.sh": b"#!/bin/sh\n",
                "lfs.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
                "states/big": bytes(range(256)) * 2000,
                "states/sub/init.sls": b"s",
                "states/sub/deep/er/x": b"",
                "deadbeef": b"a name like a commit",
            },
            {
                "states/link.sls": "../top.sls",
                "states/sub/far": "../../odd/-dash",
                "dirlink": "states",
                "lost": "nowhere",
                "loop": "loop",
                "out": "../../../../etc/passwd",
            },
        )
        os.chmod(os.path.join(repo.path, "run.sh"), 0o755)
        tree = repo.commit({})
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{tree},mod")
        repo.git("commit", "--quiet", "-m", "module")
        self.first = repo.git("rev-parse", "HEAD")
        for name in ("dev", "feature/x.y", "-odd"):
            repo.git("update-ref", f"refs/heads/{name}", self.first)
        for name in ("v1", "dev"):
            repo.git("update-ref", f"refs/tags/{name}", self.first)
        repo.git("tag", "-a", "annotated", "-m", "m")
        repo.git("checkout", "--quiet", "refs/heads/dev")
        repo.commit({"only-dev": b"d"})
        repo.git("update-ref", "refs/heads/dev", "HEAD")
        repo.git("checkout", "--quiet", "master")
        repo.commit({"states/more.sls": b"more"})

    def options(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Of one row."""
        given = {name: value for name, value in case.items() if name != "remote"}
        remote: Any = {self.repo.url: case["remote"]} if "remote" in case else self.repo.url
        return {"gitfs_remotes": [remote], **given}

    def stock(self, cases: Mapping[str, Any], more: list[str]) -> Any:
        """What stock says to all of them."""
        done = subprocess.run(
            [
                f"{peer_venv('3008')}/bin/python",
                "-c",
                ASK,
                os.path.join(self.home, "stock"),
                json.dumps(cases),
                json.dumps(more),
                json.dumps(CALLS),
            ],
            env={**ENVIRON, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise AssertionError(done.stderr[-3000:])
        return json.loads(done.stdout)

    def ours(self, given: Mapping[str, Any], more: list[str]) -> Any:
        """What we say."""
        some = {"refspecs": given["gitfs_refspecs"]} if "gitfs_refspecs" in given else {}
        folder = os.path.join(self.home, f"ours{len(some)}")
        state = work.fetch(fetch_request(folder, self.repo.url, **some))["state"]
        refs = {ref: Tip(*tip) for ref, tip in state["refs"].items()}
        repository = Repository(os.path.join(folder, state["repo"]), state["large"])
        config = MasterConfig(**given)
        remotes, wrong = remotes_of(config.value)
        self.assertEqual(wrong, [])
        source = GitFiles(
            "/c", "sha256", maybeDeferred, lambda request: maybeDeferred(work.serve, request)
        )
        source.show(GitView([Served(each, folder, repository, refs) for each in remotes]))
        server = FileServer([source], config, maybeDeferred)
        found: dict[str, Any] = {"envs": server.envs()}
        for env in [*found["envs"], *more]:
            files = self.value(server.list_now("files", env, ""))
            told = found[env] = {
                "files": files,
                "dirs": self.value(server.list_now("dirs", env, "")),
                "empty": self.value(server.list_now("empty_dirs", env, "")),
                "links": self.value(server.links_now(env, "")),
                "hashes": {},
                "modes": {},
            }
            for path in files:
                hashed, numbers = self.value(server.file_hash_and_stat("|" + path, env))
                told["hashes"][path] = hashed["hsum"] if hashed else ""
                told["modes"][path] = numbers[0] if numbers else None

        async def complain(text: str) -> None:
            """Who calls from a shell hears it beside the answer."""

        run: Any = SimpleNamespace(ctx=SimpleNamespace(files=server), complain=complain)
        found["calls"] = [
            self.value(ensureDeferred(FUNCTIONS[fun](run, **kwargs))) for fun, kwargs in CALLS
        ]
        return found

    def value(self, answer: Any) -> Any:
        """What is at hand, or has come."""
        return self.successResultOf(maybeDeferred(lambda: answer))

    def test_alike(self) -> None:
        """
        For each mapping: the same environments, files, directories, links, hashes and modes; and
        what the runner says of them, of locks and of the cache.
        """
        given = {name: self.options(case) for name, case in CASES.items()}
        more = [self.first, self.first[:9], "nowhere-else"]
        stock = self.stock(given, more)
        said = stock["plain"].pop("calls")
        for name, theirs in stock.items():
            mine = self.ours(given[name], more)
            self.assertEqual(mine["envs"], theirs["envs"], name)
            if name == "plain":
                for call, answer, expected in zip(CALLS, mine["calls"], said, strict=True):
                    self.assertEqual(answer, expected, call)
            for env in theirs:
                if env != "envs":
                    for what in theirs[env]:
                        self.assertEqual(mine[env][what], theirs[env][what], (name, env, what))


@needs_peers
class ServedTests(SynchronousTestCase):
    """A master of ours, a C{git daemon}, and a stock minion."""

    def test_push_to_state(self) -> None:
        """
        The first state runs from git; what is pushed is fetched by C{fileserver.update}, which
        names the commits, and the next run is of the new one; a server that is away is told, and
        the last good commit is run. With C{--generation} a job runs on the commit before. What the
        minion pushes is served by C{minionfs} beside git.
        """
        home = scratch(self)
        repo = Repo(os.path.join(home, "git/states"))
        target = os.path.join(home, "written")
        first = repo.commit(self.states(target, "one"))
        (port,) = reserve_ports(1)
        served = git_daemon(self, os.path.join(home, "git"), port)
        url = f"git://127.0.0.1:{port}/states"
        options: dict[str, Any] = {
            "fileserver_backend": ["roots", "git", "minion"],
            "file_recv": True,
            "gitfs_remotes": [url],
            "gitfs_update_interval": 0,
            "auto_accept": True,
        }
        master = OurMaster(home, **options).up()
        self.addCleanup(master.stop)
        minion = StockMinion(home, "3008", master).up()
        self.addCleanup(minion.stop)
        until("the minion", lambda: "True" in master.command("salt", "*", "test.ping").stdout)

        self.apply(master)
        self.assertEqual(Path(target).read_text(), "one\n")

        second = repo.commit(self.states(target, "two"))
        told = self.update(master)
        ref = "refs/remotes/origin/master"
        self.assertEqual(told[url]["changed"], {ref: [first, second]})
        self.apply(master)
        self.assertEqual(Path(target).read_text(), "two\n")
        jobs = master.command("salt-run", "jobs.list_jobs", "--out", "json").stdout
        runs = [job for job in json.loads(jobs).values() if job["Function"] == "state.apply"]
        told_commits = [job["Commits"]["base"][url] for job in runs]
        self.assertEqual(told_commits, [first, second])

        for name in (first, runs[0]["Generation"]):
            self.apply(master, "--generation", name)
            self.assertEqual(Path(target).read_text(), "one\n")
            self.apply(master)
            self.assertEqual(Path(target).read_text(), "two\n")
        done = master.command("roots", "rollback", first[:10])
        self.assertEqual(done.stdout, f"{url}: 1 change; it is now as it was in {first[:10]}\n")
        self.apply(master)
        self.assertEqual(Path(target).read_text(), "one\n")
        self.assertIn("rolled back", master.command("roots", "log").stdout)
        master.command("roots", "rollback", second)
        done = master.command("salt", "--generation", "0123456789ab", "*", "state.apply")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("generation '0123456789ab': this master has no", done.stdout + done.stderr)

        self.check_reload(master, url)
        served.terminate()
        served.wait()
        told = self.update(master, status=1)
        self.assertIn("unable to connect", told[url]["error"])
        self.assertEqual(told[url]["refs"], {ref: second})
        done = master.command("salt-run", "fileserver.update", "remotes=stats")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("no git remote of gitfs that is called stats", done.stdout + done.stderr)
        status = master.command("status")
        self.assertEqual(status.returncode, 3, status.stdout)
        self.assertIn("its last good commits are served", status.stdout)
        Path(target).unlink()
        self.apply(master)
        self.assertEqual(Path(target).read_text(), "two\n")

        done = master.command("salt", "*", "cp.push", target)
        self.assertIn("True", done.stdout)
        url = f"salt://{minion.id}{os.path.realpath(target)}"
        done = master.command("salt", "*", "cp.get_file_str", url, "--out", "json")
        self.assertEqual(json.loads(done.stdout), {minion.id: "two\n"})

    def check_reload(self, master: OurMaster, url: str) -> None:
        """Remotes and mappings change while it runs, by SIGHUP alone (pains-next 3.11)."""

        def files() -> list[str]:
            done = master.command("salt-run", "fileserver.file_list", "--out", "json")
            found: list[str] = json.loads(done.stdout)
            return found

        before, more = files(), Repo(os.path.join(master.root, "more"))
        more.commit({"beside": b""})
        remotes = [{url: [{"mountpoint": "salt://moved"}]}, more.url]
        moved = sorted(["beside", *(f"moved/{path}" for path in before)])
        for options, expected in (({"gitfs_remotes": remotes}, moved), ({}, before)):
            write_config(f"{master.conf}/master", {**master.options, **options})
            os.kill(master.pid, signal.SIGHUP)
            until(f"the files {expected}", lambda expected=expected: files() == expected)

    def states(self, target: str, word: str) -> dict[str, bytes]:
        """A top file, a state and what it copies."""
        sls = f"{target}:\n  file.managed:\n    - source: salt://web/files/word\n"
        return {
            "top.sls": b"base:\n  '*':\n    - web\n",
            "web/init.sls": sls.encode(),
            "web/files/word": f"{word}\n".encode(),
        }

    def apply(self, master: OurMaster, *words: str) -> None:
        """Run the states."""
        done = master.command("salt", *words, "*", "state.apply", "--out", "json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def update(self, master: OurMaster, status: int = 0) -> Any:
        """What the runner says of the remotes."""
        done = master.command("salt-run", "fileserver.update", "--out", "json")
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout)["gitfs"]
