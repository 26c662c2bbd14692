"""
Real processes: an acknowledged event is reacted to, though whoever took it is killed before that.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import zmq
from twisted.trial.unittest import TestCase

from saltwisted.errors import RemoteError, TransportClosed
from tests.attack.fleet import WireMinion, put_key
from tests.cluster.dying import GRANTED
from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.harness import OurMaster, OurMinion, scratch, until

TAG = "site/wanted"
SLS = """
{%- for i in range(25) %}
{%- if not salt['file.file_exists']('GO') %}{% do salt['test.sleep'](1) %}{% endif %}
{%- endfor %}
say:
  runner.test.arg:
    - args:
        n: {{ data['data']['n'] }}
"""
"""Rendered no further before there is a file."""
SAY = SLS.rpartition("%}\n")[2]
JOB = """
job:
  local.cmd.run:
    - tgt: ours
    - args:
        cmd: echo {{ tag }} >> MARKS
"""
LONG = """
long:
  runner.test.sleep:
    - args:
        s_time: 600
"""


class Owed(TestCase):
    """A minion of wire, and a reaction that is held up until the test wants it."""

    timeout = 900

    def setUp(self) -> None:
        """The SLS."""
        folder = scratch(self)
        self.go = os.path.join(folder, "go")
        self.sls = os.path.join(folder, "say.sls")
        with open(self.sls, "w") as stream:
            stream.write(SLS.replace("GO", self.go))
        self.reactor = [{TAG: [self.sls]}]

    def let_go_on(self) -> None:
        """From here on reactions are rendered at once."""
        with open(self.go, "w"):
            pass

    def send(self, master: OurMaster, then: Callable[[], Any] = lambda: None, **data: Any) -> None:
        """One event of a minion, acknowledged; then the master is killed."""
        minion = self.minion(master)
        self.assertIsNone(minion.ask("_minion_event", tag=TAG, data=data))
        then()
        master.kill()

    def minion(self, master: OurMaster) -> WireMinion:
        """One that has signed in."""
        context: zmq.Context[Any] = zmq.Context()
        self.addCleanup(context.destroy, 0)
        minion = WireMinion(context, master.ret_port, "web1")
        minion.sign_in()
        return minion

    def figures(self, node: OurMaster) -> dict[str, int]:
        """What its reactor has counted; nothing while it does not answer."""
        client = node.control()
        try:
            found: dict[str, int] = client.call("automation.status")["figures"]
        except (RemoteError, TransportClosed):
            return {}
        finally:
            client.close()
        return found

    def total(self, made: Sequence[OurMaster], name: str) -> int:
        """Of several."""
        return sum(self.figures(node).get(name, 0) for node in made)

    def file(self, master: OurMaster) -> str:
        """Where it writes down what it owes."""
        return os.path.join(master.root, "var/cache/salt/master/saltwisted/events.sqlite")

    def rows(self, master: OurMaster) -> int:
        """How many events a master owes by its disk."""
        with contextlib.closing(sqlite3.connect(self.file(master))) as db:
            (count,) = db.execute("SELECT count(*) FROM events").fetchone()
        return int(count)


class LoneTests(Owed):
    """A master alone, which is started again."""

    def master(self, dying: str = "", **options: Any) -> OurMaster:
        """
        One that reacts, and knows the minion.

        @param dying: the directory that says when it dies by itself, if it does.
        """
        master = OurMaster(scratch(self), reactor=self.reactor, **options)
        self.addCleanup(master.kill)
        if dying:
            command = master.argv.index("-c")
            master.argv[command : command + 2] = ["-m", "tests.cluster.dying"]
            master.env["DYING"] = dying
        put_key(master.pki, "web1")
        return master.up()

    def test_killed_before_the_reaction(self) -> None:
        """It is reacted to after the start, once, and not again at the next start."""
        master = self.master()
        self.send(master, n=1)
        self.assertEqual(self.rows(master), 1)

        self.let_go_on()
        master.up()
        until("the reaction", lambda: self.figures(master).get("reacted") == 1)
        self.assertEqual(self.figures(master)["taken_up"], 1)
        until("it to be struck out", lambda: not self.rows(master))
        master.kill()
        master.up()

        self.assertEqual(self.figures(master), {})
        self.assertEqual(self.rows(master), 0)

    def test_a_thousand(self) -> None:
        """
        A thousand events at a time, each with its own SLS of ten: all are reacted to, each once, by
        its SLS, and none is left (pains 1.2).
        """
        folder = os.path.dirname(self.sls)
        for number in range(10):
            with open(os.path.join(folder, f"burst{number}.sls"), "w") as stream:
                stream.write(SAY.replace("say:", f"say{number}:"))
        self.reactor = [
            {f"site/burst/{number}/*": [os.path.join(folder, f"burst{number}.sls")]}
            for number in range(10)
        ]
        master = self.master()
        tags = [f"site/burst/{number % 10}/{number}" for number in range(1000)]
        minion = self.minion(master)
        events = [{"tag": tag, "data": {"data": {"n": tag}}} for tag in tags]
        self.assertIsNone(minion.ask("_minion_event", events=events))

        until("all reactions", lambda: self.figures(master).get("reacted", 0) >= 1000)
        until("them to be struck out", lambda: not self.rows(master))

        def ended() -> list[tuple[str, str]]:
            with contextlib.closing(master.control()) as client:
                found = client.call("receipts", event="site/burst/*", limit=5000)
            return [(each["event"], each["result"]) for each in found if each["ended"]]

        until("their ends", lambda: len(ended()) >= 1000)
        self.assertEqual(sorted(ended()), sorted((tag, "done") for tag in tags))
        self.assertEqual(self.figures(master)["reacted"], 1000)
        master.kill()

    def test_too_late(self) -> None:
        """What is older than publish_window when the master is back is said as lost."""
        master = self.master()
        self.send(master, n=1)

        with contextlib.closing(sqlite3.connect(self.file(master))) as db, db:
            db.execute("UPDATE events SET at = at - 60")
        self.let_go_on()
        master.up()

        until("it to be lost", lambda: self.figures(master).get("lost:old") == 1)
        master.wait_for_line(f"no reaction to event {TAG}")
        self.assertNotIn("reacted", self.figures(master))
        until("it to be struck out", lambda: not self.rows(master))

    def test_killed_in_the_reaction(self) -> None:
        """
        What had begun is known after the start: a runner is said as lost, and not run again. The
        receipts of before the kill are shown.
        """
        with open(self.sls, "w") as stream:
            stream.write(LONG)
        master = self.master()

        def begun() -> None:
            until("it to begin", lambda: self.figures(master).get("reacted") == 1)

        self.send(master, begun, n=1)

        master.up()

        until("it to be lost", lambda: self.figures(master).get("lost:died") == 1)
        until("its end", lambda: self.receipts(master)[0]["ended"] is not None)
        (receipt,) = self.receipts(master)
        self.assertEqual((receipt["event"], receipt["result"]), (TAG, "lost"))
        self.assertEqual(receipt["what"], "runner.test.sleep")
        self.assertNotIn("reacted", self.figures(master))
        until("it to be struck out", lambda: not self.rows(master))
        master.kill()
        master.up()
        self.assertEqual(self.receipts(master), [receipt])

    def test_killed_before_the_job(self) -> None:
        """
        A job that was claimed and not published is published after the start, before its minion has
        connected again. The minion gets it when it comes, and runs it once.
        """
        place = scratch(self)
        marks = f"{place}/marks"
        with open(self.sls, "w") as stream:
            stream.write(JOB.replace("MARKS", marks))
        master = self.master(place, publish_window=180)
        minion = OurMinion(place, master)
        self.addCleanup(minion.kill)
        minion.up()
        master.accept("ours")
        master.ping_until("ours")
        with open(f"{place}/{GRANTED}", "w"):
            pass

        def died() -> None:
            until("its death", lambda: not master.running)
            minion.freeze()

        self.send(master, died, n=1)
        master.up()
        until("the job to be published", lambda: self.receipts(master)[0]["ended"] is not None)
        self.assertFalse(os.path.exists(marks))
        (receipt,) = self.receipts(master)
        self.assertEqual(receipt["result"].split()[0], "published")

        minion.thaw()

        until("the job", lambda: os.path.exists(marks))
        # Whatever went out before the ping has come before it
        master.ping_until("ours")
        with open(marks) as stream:
            self.assertEqual(stream.read(), f"{TAG}\n")

    def receipts(self, master: OurMaster) -> list[dict[str, Any]]:
        """What the command shows."""
        shown: list[dict[str, Any]] = json.loads(
            master.command("receipts", "--event", TAG, "--json", check=True).stdout
        )
        return shown


class ClusterTests(Owed):
    """Three nodes, the first of which takes the event."""

    def test_killed_before_the_reaction(self) -> None:
        """Another node reacts within publish_window, once; the first, started again, does not."""
        made: list[OurNode] = nodes(self, "a b c", reactor=self.reactor, publish_window=20)
        put_key(made[0].pki, "web1")
        join_all(made)
        a, b, c = made
        let_all_vote(made)
        self.send(a, n=1)
        self.assertEqual([self.rows(node) for node in made], [1, 1, 1])

        self.let_go_on()
        try:
            until("the reaction", lambda: self.total([b, c], "reacted") == 1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{b.tail()}\n{c.tail()}") from None
        a.up()
        until("the first to look", lambda: self.figures(a).get("taken") == 1)

        self.assertEqual(self.total(made, "reacted"), 1)
        shown = json.loads(b.command("receipts", "--event", TAG, "--json", check=True).stdout)
        # Who came late has noted the other's end under the term of his own attempt
        self.assertEqual(len({(row["key"], row["node"], row["result"]) for row in shown}), 1, shown)
        for node in made:
            until("it to be struck out", lambda node=node: not self.rows(node))
