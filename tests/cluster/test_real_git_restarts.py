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
  salt.state: [{{tgt: '*'}}, {{sls: hold}}]
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
        job waits meanwhile and asks for a file of it afterwards.
        """
        made = a, b, c = self.nodes()
        join_all(made)
        let_all_vote(made)
        minion = OurMinion(self.home, a, "own")
        self.addCleanup(minion.kill)
        minion.up()
        a.accept("own")
        a.ping_until("own")
        a.command("roots", "update", "--wait", check=True)
        generation = self.said(a)["generation"]
        run = c.orchestrate("deploy")
        until("the minion to wait", Path(self.home, "at-own").exists)
        second = self.push(b"2")
        b.command("roots", "update", "--wait", check=True)
        self.assertEqual({self.commit(node) for node in made}, {second})

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
        job = shown["steps"][0]["jid"]
        for node in made:
            self.assertNotIn("Mixed", node.run("jobs.list_job", job))
