"""
Advice of a lone master and its minion, carried out on real daemons.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.status import NOT_READY
from tests.advice.carrying import Shell, printed
from tests.harness import Daemon, OurMaster, OurMinion, scratch, until, write_config


class LoneTests(SynchronousTestCase):
    """A master, alone."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.shell = Shell(self)
        self.master = OurMaster(self.home)
        self.addCleanup(self.master.kill)

    def ours(self, *words: str, allowed: tuple[int, ...] = (0,)) -> str:
        """One of our commands with this master's configuration; what it prints."""
        first, *rest = words
        return self.shell.run(
            " ".join(["saltwisted", first, "-c", self.master.conf, *rest]), allowed=allowed
        )

    def begin(self, command: str) -> Daemon:
        """Start a daemon as a text says."""
        made = Daemon("again", self.shell.argv(command), self.home, self.shell.environ)
        self.addCleanup(made.kill)
        made.start()
        return made

    def test_start(self) -> None:
        """
        Whoever finds the master stopped is told how to start it, by C{salt}, C{salt-run} and the
        others alike, and then it serves the key that it had.
        """
        self.master.up()
        with open(f"{self.master.pki}/master.pub") as stream:
            key = stream.read()
        self.assertEqual(self.master.stop(), -15)

        said = {
            printed(self.ours(*words, allowed=(1, 2)), "start.hand")
            for words in (
                ("salt", "'*'", "test.ping"), ("salt-run", "manage.up"), ("orch", "list"),
                ("schedule", "list"), ("automation", "status"), ("doctor",),
            )
        }  # fmt: skip
        (command,) = said
        self.master.argv, self.master.env = self.shell.argv(command), self.shell.environ
        self.master.up()

        self.assertIn("serving", self.ours("status", "--role", "master"))
        self.assertNotIn("daemon.down", self.ours("doctor", allowed=(0, 1, 3)))
        with open(f"{self.master.pki}/master.pub") as stream:
            self.assertEqual(stream.read(), key)

    def test_cluster_words(self) -> None:
        """
        On a stopped lone master, commands about the cluster say that there is none: they advise
        nothing that would found one.
        """
        self.master.up()
        self.assertEqual(self.master.stop(), -15)
        for words in (
            ("members",), ("roots", "status"), ("token", "create"), ("leave",), ("remove", "b"),
        ):  # fmt: skip
            said = self.ours(*words, allowed=(1, 2, 3))

            self.assertIn("This machine has a lone master, not a cluster node.", said, words)
            self.assertNotIn("--role cluster", said)

    def test_elsewhere(self) -> None:
        """Who asks with another configuration than the one that runs is told which does."""
        self.master.up()
        empty = os.path.join(self.home, "empty")
        write_config(f"{empty}/master", {"root_dir": empty})

        said = self.shell.run(f"saltwisted status -c {empty}", allowed=(NOT_READY,))
        self.assertIn("no daemon runs with this configuration", said)
        commands = [
            printed(line, "status.elsewhere") for line in said.splitlines() if self.home in line
        ]

        (command,) = commands
        self.assertIn("master: serving", self.shell.run(command))

    def test_looks(self) -> None:
        """What shows more of a problem shows it: of the reactor, and of a word that is wrong."""
        missing = os.path.join(self.home, "missing.sls")
        write_config(f"{self.master.conf}/master.d/r.conf", {"reactor": [{"x": [missing]}]})
        self.master.up()

        def status() -> str:
            return self.ours("status", allowed=(0, 3))

        until("the mistake", lambda: "1 mistake" in status())
        self.assertIn(missing, self.shell.run(printed(status(), "automation.look")))
        said = self.ours("roots", "nosuch", allowed=(64,))
        self.assertIn("conflicts", self.shell.run(printed(said, "roots.help")))
        said = self.shell.run("saltwisted nosuchthing", allowed=(64,))
        self.assertIn("doctor", self.shell.run(printed(said, "commands.list")))
        self.shell.run(f"salt-run saltutil.sync_all -c {self.master.conf}")


class JobTests(SynchronousTestCase):
    """A master with a minion."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.master = OurMaster(self.home)
        self.addCleanup(self.master.kill)
        self.master.up()
        self.minion = OurMinion(self.home, self.master)
        self.addCleanup(self.minion.kill)
        self.minion.up()
        self.master.accept(self.minion.id)
        self.master.ping_until(self.minion.id)
        # The commands have no -c, as stock's have none: so the user's variables name the place
        self.shell = Shell(self, SALTWISTED_CONFIG_DIR=self.master.conf)

    def interrupted(self, command: str, wait: Any) -> str:
        """What a command says that is interrupted once something is so."""
        # A shell has what it puts into the background ignore the signal, and so would this
        process = subprocess.Popen(
            self.shell.argv(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=self.shell.environ, cwd="/",
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        until("it to be under way", wait)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
        return str(said)

    def test_lookup(self) -> None:
        """A job that was left alone is looked up by the line that was printed."""
        begun, may_end = (f"{self.master.file_root}/{name}" for name in ("begun", "end"))
        waits = f"touch {begun}; until test -e {may_end}; do sleep 0.1; done; echo done"
        said = self.interrupted(
            f"salt {self.minion.id} cmd.run {shlex.quote(waits)}", lambda: os.path.exists(begun)
        )

        command = printed(said, "job.lookup")

        Path(may_end).touch()
        until("the return", lambda: "done" in self.shell.run(command), every=0.5)

    def test_orchestration(self) -> None:
        """Of an orchestration whose master went away, the line that was printed tells the end."""
        with open(f"{self.master.file_root}/o.sls", "w") as stream:
            stream.write("wait:\n  salt.runner:\n    - name: test.sleep\n    - s_time: 60\n")
        process = subprocess.Popen(
            self.shell.argv("salt-run state.orchestrate o"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.shell.environ,
            cwd="/",
        )  # fmt: skip
        until("the step", lambda: "running" in self.shell.run("saltwisted orch list"))
        self.master.kill()
        said, _ = process.communicate(timeout=30)

        command = printed(said, "orch.show")
        self.master.up()

        self.assertIn("interrupted", self.shell.run(command, allowed=(1,)))
