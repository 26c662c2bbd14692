"""
Real processes: two nodes join three in the middle of an orchestration, then the first of all and
the one that orchestrates are killed. What is left are two newcomers and one of three: the run goes
on at one of them. It takes two minutes, since newcomers vote late: C{SALTWISTED_LONG=1} runs it.
"""

from __future__ import annotations

import os

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.cluster.real import OurNode, do_all_vote, join_all, nodes
from tests.harness import OurMinion, scratch, until, write_config

STEPS = 8
SLS = """
{% for number in range(STEPS) %}
step {{ number }}:
  salt.function:
    - name: cmd.run
    - tgt: m1
    - arg:
      - |
        echo {{ number }} >> HOME/log
        {% if number == 3 %}while [ ! -e HOME/go ]; do sleep 0.1; done{% endif %}
    - order: {{ number + 1 }}
    - failhard: true
{% endfor %}
"""


class JoinTests(SynchronousTestCase):
    """Five nodes, and a minion that is linked to the first three."""

    timeout = 900

    def setUp(self) -> None:
        """Three of them serve."""
        if os.environ.get("SALTWISTED_LONG") != "1":
            raise SkipTest("it takes two minutes (SALTWISTED_LONG=1)")
        self.home = scratch(self)
        with open(os.path.join(self.home, "deploy.sls"), "w") as stream:
            stream.write(SLS.replace("HOME", self.home).replace("STEPS", str(STEPS)))
        roots = {"base": [self.home]}
        # Newcomers vote sooner so
        self.made: list[OurNode] = nodes(
            self, "a b c d e", file_roots=roots, auto_accept=True, publish_window=10
        )
        join_all(self.made[:3])
        self.minion = OurMinion(self.home, self.made[0], "m1")
        # Not to the others: who has minions of its own is not let in so easily
        hot = [node.address for node in self.made[:3]]
        write_config(os.path.join(self.minion.conf, "minion.d", "many.conf"), {"master": hot})
        self.addCleanup(self.minion.kill)
        self.minion.up()

    def traces(self) -> list[str]:
        """The steps that have run."""
        try:
            with open(os.path.join(self.home, "log")) as stream:
                return stream.read().split()
        except FileNotFoundError:
            return []

    def test_two_join(self) -> None:
        """The run goes on with what the newcomers and the third have: each step runs once."""
        a, b, c, d, e = self.made
        until("the three to vote", lambda: do_all_vote([a, b, c]), 120)
        until("the minion at b", lambda: b.hears("m1"))
        jid = b.orchestrate("deploy")
        until("the fourth step", lambda: len(self.traces()) == 4)

        for node in (d, e):
            token = a.token()
            node.start()
            until(f"{node.name} to answer", node.members)
            node.command("join", token, check=True)
        until("the five to vote", lambda: do_all_vote(self.made), 300)
        for node in (d, e):
            until(f"the minion by way of {node.name}", lambda node=node: node.hears("m1"))
        self.assertEqual(self.traces(), ["0", "1", "2", "3"])
        for node in (a, b):
            node.kill()
        with open(os.path.join(self.home, "go"), "w"):
            pass

        try:
            until("the end", lambda: d.orchestration(jid)["state"] not in ("", "running"), 120)
        except AssertionError as error:
            said = "\n".join(node.tail() for node in (c, d, e))
            raise AssertionError(f"{error}\n{said}") from None
        shown = e.ask("orch.show", jid=jid)
        self.assertEqual((shown["state"], shown["why"]), ("done", ""))
        self.assertIn(shown["node"], ("c", "d", "e"))
        self.assertEqual(self.traces(), [str(number) for number in range(STEPS)])
