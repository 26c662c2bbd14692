"""
Real nodes: one of them fetches from git, and all serve the same commits.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from twisted.trial.unittest import TestCase

from saltwisted.errors import RemoteError, TransportClosed
from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.gitrepos import ENVIRON, Repo
from tests.harness import (
    Daemon,
    OurMinion,
    StockMinion,
    needs_peers,
    reserve_ports,
    scratch,
    until,
)

MASTER = "refs/remotes/origin/master"


def git_daemon(home: str, port: int) -> Daemon:
    """C{git daemon} over the repositories of a directory."""
    argv = ["git", "daemon", "--reuseaddr", "--export-all", f"--base-path={home}"]
    argv += ["--listen=127.0.0.1", f"--port={port}", "--verbose", home]
    return Daemon("git-daemon", argv, home, ENVIRON)


class GitTestCase(TestCase):
    """Three nodes with one remote."""

    timeout = 600

    def setUp(self) -> None:
        """A repository, and a daemon that serves it; no node is started."""
        self.home = scratch(self)
        self.repo = Repo(f"{self.home}/work")
        self.first = self.repo.commit({"a.sls": b"a: test.nop\n", "b/c": b"1"})
        bare = f"{self.home}/states.git"
        self.repo.git("clone", "--quiet", "--bare", self.repo.path, bare)
        self.repo.git("remote", "add", "origin", bare)
        self.pillar = Repo(f"{self.home}/pillar")
        self.pillar.commit({"top.sls": b"base: {'*': [p]}\n", "p.sls": b"v: 1\n"})
        self.pillar.git("clone", "--quiet", "--bare", self.pillar.path, f"{self.home}/pillar.git")
        self.pillar.git("remote", "add", "origin", f"{self.home}/pillar.git")
        (self.port,) = reserve_ports(1)
        self.daemon = git_daemon(self.home, self.port)
        self.addCleanup(self.daemon.kill)
        self.daemon.start()
        self.url = f"git://127.0.0.1:{self.port}/states.git"

    def push(self, content: bytes) -> str:
        """A commit that the remote has."""
        commit = self.repo.commit({"b/c": content})
        self.repo.git("push", "--quiet", "--force", "origin", "master")
        return commit

    def nodes(self) -> list[OurNode]:
        """Those of the cluster, not started."""
        return nodes(
            self,
            "a b c",
            fileserver_backend=["git"],
            gitfs_remotes=[self.url],
            gitfs_update_interval=3600,
            ext_pillar=[{"git": [f"master git://127.0.0.1:{self.port}/pillar.git"]}],
            git_pillar_update_interval=3600,
        )

    def said(self, node: OurNode) -> dict[str, Any]:
        """What a node says of git; empty while it does not answer."""
        try:
            found: dict[str, Any] = node.ask("status").get("git", {})
        except (RemoteError, TransportClosed, OSError):
            return {}
        return found

    def commit(self, node: OurNode) -> str:
        """What a node serves."""
        remotes = self.said(node).get("remotes", {})
        found: str = remotes.get(self.url, {}).get("refs", {}).get(MASTER, "")
        return found

    def holder(self, made: list[OurNode]) -> OurNode:
        """The one that fetches, as all say."""

        def agreed() -> str:
            said = {self.said(node).get("fetched_by", {}).get("git", "") for node in made}
            return said.pop() if len(said) == 1 else ""

        name = until("all to know who fetches", agreed)
        return next(node for node in made if node.name == name)


class GitTests(GitTestCase):
    """Who fetches, and what then is served."""

    def test_one_fetches(self) -> None:
        """
        One node fetches and all serve it; an update on any node is one on all; when the node that
        fetches is killed another one does.
        """
        made = self.nodes()
        join_all(made)
        for node in made:
            until(f"{node.name} to serve it", lambda node=node: self.commit(node) == self.first)
        let_all_vote(made)
        holder = self.holder(made)
        others = [node for node in made if node is not holder]

        self.check_commands(others[0])
        for node in made:
            self.assertEqual(node.run("pillar.show_pillar", "m1"), {"v": 2})
        second = self.push(b"2")
        found = others[0].run("fileserver.update")["gitfs"][self.url]
        self.assertEqual(found["changed"], {MASTER: [self.began, second]})
        self.assertEqual(found["fetched_by"], holder.name)
        self.assertEqual(found["nodes"], dict.fromkeys("abc", True))
        self.assertEqual({self.commit(node) for node in made}, {second})
        self.assertEqual(len({self.said(node)["generation"] for node in made}), 1)

        holder.kill()
        third = self.push(b"3")
        self.holder(others)
        found = others[0].run("fileserver.update")["gitfs"][self.url]
        self.assertEqual(found["refs"], {MASTER: third})
        self.assertEqual({self.commit(node) for node in others}, {third})
        holder.up()
        until("who was away to serve it", lambda: self.commit(holder) == third)
        self.check_nowhere(others, holder)

    def check_commands(self, node: OurNode) -> None:
        """C{roots update} and C{roots status} on a node that does not fetch say what all serve."""
        self.began = self.push(b"1b")
        done = node.command("roots", "update", "--wait", "--json", check=True)
        told = json.loads(done.stdout)[self.url]
        self.assertEqual(told["changed"], {MASTER: [self.first, self.began]})

        self.pillar.commit({"p.sls": b"v: 2\n"})
        self.pillar.git("push", "--quiet", "origin", "master")
        self.assertEqual(list(node.run("git_pillar.update").values()), [True])

        done = node.command("roots", "status", "--json")
        nodes = json.loads(done.stdout)["git"]
        self.assertEqual(
            {name: said["remotes"][self.url]["refs"] for name, said in nodes.items()},
            {name: {MASTER: self.began} for name in "abc"},
        )
        done = node.command("roots", "status")
        self.assertIn(f"master  {self.began[:12]}", done.stdout)

    def check_nowhere(self, others: list[OurNode], gone: OurNode) -> None:
        """
        Who has lost its disk and reaches no git server gets all from a peer; the remote is away
        for all, and that is told on each node.
        """
        gone.kill()
        self.daemon.kill()
        shutil.rmtree(f"{gone.root}/var/cache/salt/master/saltwisted/git")
        gone.up()
        before = self.commit(others[0])
        until("the objects of a peer", lambda: self.commit(gone) == before)
        found = gone.run("fileserver.file_list")
        self.assertEqual(sorted(found), ["a.sls", "b/c"])

        done = gone.command("roots", "update")
        self.assertEqual(done.returncode, 1, done.stdout)
        for node in (*others, gone):
            until(
                f"{node.name} to say that the remote is away",
                lambda node=node: "refused" in self.said(node)["remotes"][self.url]["error"],
            )


HOLD = """
wait:
  cmd.run:
    - name: touch {home}/at-{{{{ grains.id }}}}; while [ ! -e {home}/go ]; do sleep 0.1; done
later:
  file.managed:
    - name: {home}/got-{{{{ grains.id }}}}
    - source: salt://b/c
    - require: [cmd: wait]
"""
GET = """
later:
  file.managed:
    - name: {home}/got-{{{{ grains.id }}}}
    - source: salt://b/c
"""
DEPLOY = """
hold:
  salt.state: [{{tgt: '*'}}, {{sls: hold}}]
{home}/read:
  file.managed: [{{source: 'salt://b/c'}}, {{require: [{{salt: hold}}]}}]
inner:
  salt.runner: [{{name: state.orchestrate}}, {{mods: inner}}, {{require: [{{salt: hold}}]}}]
"""
INNER = """
{home}/inner:
  file.managed: [{{source: 'salt://b/c'}}]
moved:
  salt.function: [{{name: cmd.run}}, {{tgt: '*'}}, {{arg: ['mv {home}/got-$ID {home}/held-$ID']}}]
later:
  salt.state: [{{tgt: '*'}}, {{sls: get}}, {{require: [{{salt: moved}}]}}]
"""


@needs_peers
class PinTests(GitTestCase):
    """Jobs run on the commits of one generation, wherever their minions are."""

    def setUp(self) -> None:
        """The first commit has states."""
        super().setUp()
        states = {"hold": HOLD, "get": GET, "deploy": DEPLOY, "inner": INNER}
        self.repo.commit(
            {f"{name}.sls": text.format(home=self.home).encode() for name, text in states.items()}
        )
        self.first = self.push(b"1")

    def minions(self, made: list[OurNode]) -> None:
        """Ours at the first node, a stock one at the second."""
        home = scratch(self)
        ours = OurMinion(home, made[0], "own")
        stock = StockMinion(home, "3008", made[1], minion_id="stock")
        for minion, node in ((ours, made[0]), (stock, made[1])):
            minion.env["ID"] = minion.id
            self.addCleanup(minion.kill)
            minion.up()
            node.accept(minion.id)
            node.ping_until(minion.id)
        for node in made:
            until(f"{node.name} to know both", lambda node=node: len(node.keys()["minions"]) == 2)

    def got(self, name: str = "got") -> dict[str, str]:
        """What both minions have got, which is gone then."""
        found = {}
        for minion in ("own", "stock"):
            path = Path(self.home, f"{name}-{minion}")
            found[minion] = path.read_text() if path.exists() else ""
            path.unlink(missing_ok=True)
        return found

    def both(self, content: str) -> dict[str, str]:
        """The same for both."""
        return {"own": content, "stock": content}

    def update(self, node: OurNode) -> None:
        """Have a push served everywhere."""
        node.command("roots", "update", "--wait", check=True)

    def test_pins(self) -> None:
        """
        A job sees one commit to its end on whichever node its minions are, and every node can say
        which one it was, also when the node that published it is gone.
        """
        made = a, b, c = self.nodes()
        join_all(made)
        let_all_vote(made)
        self.minions(made)
        self.update(a)
        generation = self.said(a)["generation"]
        done = c.command("salt", "--async", "*", "state.apply", "hold", check=True)
        jid = done.stdout.split()[-1]
        for minion in ("own", "stock"):
            until(f"{minion} to wait", Path(self.home, f"at-{minion}").exists)
        second = self.push(b"2")
        self.update(b)
        self.assertEqual({self.commit(node) for node in made}, {second})
        Path(self.home, "go").touch()
        until("both to have returned", lambda: len(a.run("jobs.lookup_jid", jid)) == 2)
        self.assertEqual(self.got(), self.both("1"))

        third = self.check_orchestration(made, second)
        for node in (a, b):
            shown = node.run("jobs.list_job", jid)
            self.assertEqual(shown["Commits"], {"base": {self.url: self.first}})
            self.assertEqual(shown["Generation"], generation)
            self.assertNotIn("Mixed", shown)
            looked = node.command("salt-run", "jobs.lookup_jid", jid)
            self.assertIn(generation, looked.stdout + looked.stderr)
        self.check_earlier(made, generation, third)
        c.up()
        self.check_rolled_back(made, third)

    def check_orchestration(self, made: list[OurNode], served: str) -> str:
        """
        The third node orchestrates, and is killed in the middle of a step, when another commit is
        served: whoever goes on reads that of the beginning, and so do all jobs; the newest commit.
        """
        a, b, c = made
        for name in ("go", "at-own", "at-stock"):
            Path(self.home, name).unlink()
        generation = self.said(c)["generation"]
        run = c.orchestrate("deploy")
        for minion in ("own", "stock"):
            until(f"{minion} to wait", Path(self.home, f"at-{minion}").exists)
        third = self.push(b"3")
        self.update(b)
        c.kill()
        until("another node", lambda: a.orchestration(run)["node"] in ("a", "b"))
        Path(self.home, "go").touch()
        until("the end", lambda: a.orchestration(run)["state"] != "running")

        shown = b.orchestration(run)
        self.assertEqual((shown["state"], shown["generation"]), ("done", generation), shown)
        self.assertEqual(self.got("held"), self.both("2"))
        self.assertEqual(self.got(), self.both("2"))
        for name in ("read", "inner"):
            self.assertEqual(Path(self.home, name).read_text(), "2", name)
        job = a.run("jobs.list_job", shown["steps"][0]["jid"])
        self.assertEqual(job["Commits"], {"base": {self.url: served}})
        self.assertEqual({self.commit(node) for node in (a, b)}, {third})
        return third

    def apply(self, node: OurNode, *words: str, sls: str = "get") -> Any:
        """Have both run a state."""
        return node.command("salt", *words, "*", "state.apply", sls, check=True)

    def check_earlier(self, made: list[OurNode], generation: str, newest: str) -> None:
        """
        On each node a job runs on an earlier generation or commit, and the next on the newest; a
        name that nobody knows is refused by it. Who is still busy with an older job is named.
        """
        for node, name in ((made[0], generation), (made[1], self.first[:9])):
            self.apply(node, "--generation", name)
            self.assertEqual(self.got(), self.both("1"), name)
            self.apply(node)
            self.assertEqual(self.got(), self.both("3"), name)
            done = node.command("salt", "--generation", "0123456789ab", "*", "state.apply", "get")
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("generation '0123456789ab'", done.stdout + done.stderr)
        for name in ("go", "at-own", "at-stock"):
            Path(self.home, name).unlink()
        made[1].command("salt", "--async", "*", "state.apply", "hold", check=True)
        for minion in ("own", "stock"):
            until(f"{minion} to wait", Path(self.home, f"at-{minion}").exists)
        words = ("--generation", self.first, "*", "state.apply", "get", "concurrent=True")
        done = made[0].command("salt", *words, check=True)
        for minion in ("own", "stock"):
            self.assertRegex(done.stdout + done.stderr, f"{minion}.*: an older job has not")
        Path(self.home, "go").touch()
        self.assertEqual(self.got(), self.both("3"))

    def check_rolled_back(self, made: list[OurNode], newest: str) -> None:
        """
        All serve what any of them is rolled back to, also when the one that fetches is killed, and
        until something is pushed.
        """
        holder = self.holder(made)
        others = [node for node in made if node is not holder]
        done = others[0].command("roots", "rollback", self.first[:12], check=True)
        self.assertIn(
            f"{self.url}: 1 change; it is now as it was in {self.first[:12]}", done.stdout
        )
        self.assertEqual({self.commit(node) for node in made}, {self.first})
        holder.kill()
        self.holder(others)
        self.update(others[1])
        self.assertEqual({self.commit(node) for node in others}, {self.first})
        self.assertIn("rolled back", others[1].command("roots", "log").stdout)
        holder.up()
        until("who was away to serve it", lambda: self.commit(holder) == self.first)

        fourth = self.push(b"4")
        self.update(others[0])
        for node in made:
            until("the push", lambda node=node: self.commit(node) == fourth)
        self.assertNotIn("rolled back", others[1].command("roots", "log").stdout)
