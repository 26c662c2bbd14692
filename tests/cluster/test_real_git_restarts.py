"""
Real nodes that are all killed while an orchestration and the job of its step are under way.
"""

from __future__ import annotations

from pathlib import Path

from tests.cluster.real import join_all, let_all_vote
from tests.cluster.test_real_git import HOLD, GitTestCase
from tests.harness import OurMinion, until

DEPLOY = """
hold:
  salt.state: [{{tgt: own}}, {{sls: hold}}]
{home}/read:
  file.managed: [{{source: 'salt://b/c'}}, {{require: [{{salt: hold}}]}}]
"""


class RestartTests(GitTestCase):
    """SIGKILL for all nodes."""

    def setUp(self) -> None:
        """The first commit has states."""
        super().setUp()
        states = {"hold": HOLD, "deploy": DEPLOY}
        self.repo.commit(
            {f"{name}.sls": text.format(home=self.home).encode() for name, text in states.items()}
        )
        self.first = self.push(b"1")

    def test_all_killed(self) -> None:
        """
        All nodes are killed with SIGKILL and started again in the middle of a step, when another
        commit is served: the run goes on at that of its beginning, and so does the minion, whose
        job waits meanwhile and asks for a file of it afterwards. So does another one, whose job was
        begun on a commit that was never served.
        """
        made = a, b, c = self.nodes()
        join_all(made)
        let_all_vote(made)
        for name, node in (("own", a), ("other", b)):
            minion = OurMinion(self.home, node, name)
            self.addCleanup(minion.kill)
            minion.up()
            a.accept(name)
            node.ping_until(name)
        a.command("roots", "update", "--wait", check=True)
        generation = self.said(a)["generation"]
        run = c.orchestrate("deploy")
        until("the minion to wait", Path(self.home, "at-own").exists)
        between = self.repo.commit({"b/c": b"between"})
        second = self.push(b"2")
        b.command("roots", "update", "--wait", check=True)
        self.assertEqual({self.commit(node) for node in made}, {second})
        words = ("--async", "--generation", between, "other", "state.apply", "hold")
        c.command("salt", *words, check=True)
        until("the other minion to wait", Path(self.home, "at-other").exists)

        for node in made:
            node.kill()
        for node in made:
            node.start()
        for node in made:
            node.wait_serving()
            self.assertEqual(self.commit(node), second)
        Path(self.home, "go").touch()
        until("the end", lambda: a.orchestration(run)["state"] != "running")

        shown = b.orchestration(run)
        self.assertEqual((shown["state"], shown["generation"]), ("done", generation), shown)
        self.assertEqual(Path(self.home, "got-own").read_text(), "1")
        self.assertEqual(Path(self.home, "read").read_text(), "1")
        until("the other minion", Path(self.home, "got-other").exists)
        self.assertEqual(Path(self.home, "got-other").read_text(), "between")
        job = shown["steps"][0]["jid"]
        for node in made:
            self.assertNotIn("Mixed", node.run("jobs.list_job", job))
