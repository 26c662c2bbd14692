"""
Real nodes that do not reach the git server, have no credentials for it, or reach no other node.
"""

from __future__ import annotations

from typing import Any

from tests.cluster.gitrig import GitNodesCase
from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.gitweb import GitWeb
from tests.harness import until, write_config

LOGIN = {"gitfs_user": "fred", "gitfs_password": "ge heim", "gitfs_insecure_auth": True}
ALONE = "no node that fetches git remotes is in reach"


class AloneTests(GitNodesCase):
    """A remote that wants a login, which one node alone has."""

    def setUp(self) -> None:
        """Serve the repository by http, too."""
        super().setUp()
        self.web = GitWeb(self, self.home, "fred:ge heim")
        self.url = f"{self.web.url}/states.git"

    def defaults(self) -> dict[str, Any]:
        """One remote."""
        return {**super().defaults(), "gitfs_remotes": [self.url]}

    def problems(self, node: OurNode) -> str:
        """What a node tells of git."""
        return node.command("status").stdout

    def test_others_serve_the_same(self) -> None:
        """
        Nodes without credentials serve what the one with them can fetch. While that one is away
        they serve what they had and say why. Who is cut off from both others serves what it had,
        says so, and does not fetch; when they are back all serve the newest.
        """
        made = nodes(self, "a b c", **self.defaults())
        a, b, c = made
        write_config(f"{a.conf}/master", {**a.options, **LOGIN})
        join_all(made)
        let_all_vote(made)
        self.serve(made, self.first)
        for node in (b, c):
            self.assertNotIn("ge heim", str(self.said(node)))

        second = self.push(self.states, {"a": b"2"})
        told = self.update(c)[self.url]
        self.assertEqual((told["refs"], told["nodes"]), (self.refs(second), self.all_of("abc")))

        a.kill()
        self.push(self.states, {"a": b"3"})
        holder = self.holder([b, c])
        told = self.update(b)[self.url]
        self.assertIn("could not read Username", told["error"])
        self.assertEqual(told["refs"], self.refs(second))
        other = c if holder is b else b
        for node in (b, c):
            until("what is wrong", lambda node=node: "Username" in self.problems(node))
            self.assertEqual(self.read(node, "a"), "2")

        a.up()
        third = self.push(self.states, {"a": b"4"})
        until("a to be linked", lambda: "error" not in self.update(b)[self.url])
        self.serve(made, third)
        self.check_cut_off(other, [node for node in made if node is not other], third)

    def check_cut_off(self, node: OurNode, others: list[OurNode], served: str) -> None:
        """The others say nothing more, though their machines take connections."""
        for each in others:
            each.freeze()
            self.addCleanup(each.thaw)
        newest = self.push(self.states, {"a": b"5"})

        self.assertEqual(self.read(node, "a"), "4")
        # Either it knows that the one that fetches is away, or has waited for it in vain
        self.assertIn("error", self.update(node)[self.url])
        until("it to say so", lambda: ALONE in self.problems(node))
        done = node.command("doctor")
        self.assertIn(ALONE, done.stdout + done.stderr)
        self.assertEqual((self.read(node, "a"), self.commit(node)), ("4", served))

        for each in others:
            each.thaw()
        made = [node, *others]
        until("them to have met", lambda: "error" not in self.update(node)[self.url])
        self.serve(made, newest)
        until("nothing to be wrong", lambda: ALONE not in self.problems(node))

    def refs(self, commit: str) -> dict[str, str]:
        """The one branch."""
        return {"refs/remotes/origin/master": commit}

    def all_of(self, names: str) -> dict[str, bool]:
        """Each of these nodes serves it."""
        return dict.fromkeys(names, True)
