"""
C{saltwisted demo --masters N}: nodes that become one cluster, whose roots are alike whichever is
edited, which react to an event once, and what happens when one is killed.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from functools import partial
from typing import Any

from saltwisted.cli.demo import COMMAND_LIMIT, Demo
from saltwisted.cli.keyfiles import lay_down_beginning
from saltwisted.cli.playground import (
    Daemon,
    Interrupts,
    Playground,
    PlaygroundError,
    _common,
    _write,
)
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.words import counted


class ClusterPlayground(Playground):
    """
    As L{Playground}, with several nodes at addresses of their own.

    @ivar nodes: the nodes; C{master} is the first.
    """

    def __init__(self, masters: int, minions: int, interrupts: Interrupts) -> None:
        super().__init__(minions, interrupts)
        self.nodes = [self.master]
        self.master.role, self.master.name = "cluster", "node-1"
        for number in range(2, masters + 1):
            name = f"node-{number}"
            self.nodes.append(Daemon("cluster", name, self._directory(name)))

    @property
    def daemons(self) -> list[Daemon]:
        """All of them, the nodes first."""
        return [*getattr(self, "nodes", [self.master]), *self.minions]

    def address(self, node: Daemon) -> str:
        """Where a node listens: each has an address, and all the same ports."""
        return f"127.0.0.{self.nodes.index(node) + 1}"

    def configure(self) -> None:
        """Choose ports, and write all configuration."""
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ports = [sock.getsockname()[1] for sock in held]
        for sock in held:
            sock.close()
        self.ports, self.pool_port = ports[:2], ports[2]
        _write(
            self.reaction,
            "greet:\n  local.cmd.run:\n    - tgt: {{ sender }}\n    - args:\n"
            f"        cmd: echo Hello, {{{{ sender }}}} >> {self.greeted}\n",
        )
        for node in self.nodes:
            self._configure_node(node)
        for minion in self.minions:
            self._configure_minion(minion)

    def _configure_node(self, node: Daemon) -> None:
        publish, requests = self.ports
        here = node.directory
        lay_down_beginning(os.path.join(here, "pki"))
        _write(
            os.path.join(here, "master"),
            _common(here)
            + f"id: {node.name}\ninterface: {self.address(node)}\n"
            + f"publish_port: {publish}\nret_port: {requests}\n"
            + f"cluster_pool_port: {self.pool_port}\ncluster_roots: {{free_mib: 1}}\n"
            + f"file_roots: {{base: ['{here}/files']}}\n"
            + f"pillar_roots: {{base: ['{here}/pillar']}}\n"
            + f"reactor: [{{{self.reacts_to}: ['{self.reaction}']}}]\n"
            # Members vote twice that and 18 s after they were made; nobody wants to wait longer
            + "publish_window: 5\n",
        )

    @property
    def reacts_to(self) -> str:
        """The tag of the event that all nodes react to: a minion has started."""
        return f"salt/minion/{self.minions[0].name}/start"

    @property
    def reaction(self) -> str:
        """The SLS that says what is done then."""
        return os.path.join(self.root, "hello.sls")

    @property
    def greeted(self) -> str:
        """The file that gets a line each time."""
        return os.path.join(self.minions[0].directory, "hello")

    def _masters(self) -> str:
        return "[" + ", ".join(self.address(node) for node in self.nodes) + "]"

    def write_state(self, node: Daemon, text: str) -> str:
        """Put a state tree into a node's own directory, as an editor would; where it is."""
        folder = os.path.join(node.directory, "files")
        _write(os.path.join(folder, "top.sls"), "base:\n  '*':\n    - motd\n")
        path = os.path.join(folder, "motd.sls")
        _write(path, f"motd:\n  test.show_notification:\n    - text: {text}\n")
        return path

    def write_deploy(self, node: Daemon) -> str:
        """Put an orchestration into a node's directory, and the state that it applies."""
        folder = os.path.join(node.directory, "files")
        _write(
            os.path.join(folder, "app.sls"),
            "install:\n  cmd.run:\n    - name: echo {{ grains.id }} has version "
            f"{{{{ pillar.version }}}} >> {self.deployed}; sleep 2\n",
        )
        path = os.path.join(folder, "deploy.sls")
        _write(
            path,
            "web:\n  salt.state:\n    - tgt: 'demo-*'\n    - sls: app\n"
            "    - pillar: {version: {{ pillar.version }}}\n    - batch: 1\n    - failhard: true\n"
            "tell:\n  salt.runner:\n    - name: event.send\n    - tag: site/deployed\n"
            "    - require: [{salt: web}]\n",
        )
        return path

    @property
    def deployed(self) -> str:
        """The file that gets a line with each installation."""
        return os.path.join(self.root, "deployed")

    def installations(self) -> list[str]:
        """What there is in it."""
        if not os.path.exists(self.deployed):
            return []
        with open(self.deployed, encoding="utf-8") as file:
            return file.read().splitlines()

    def start_nodes(self, nodes: list[Daemon], tick: Any) -> None:
        """Start nodes and wait until they serve."""
        for node in nodes:
            self._start(node)
        for node in nodes:
            self.wait(partial(self.serves, node), f"{node.name} to serve", tick, node)

    def serves(self, node: Daemon) -> bool:
        """Whether it serves minions."""
        if not node.alive:
            raise PlaygroundError(f"{node.name} ended", node)
        try:
            with node.client() as client:
                return bool(client.call_within(5.0, "members")["ready"])
        except (TransportClosed, RemoteError, TimeoutError):
            return False


class ClusterDemo(Demo):
    """Join by token, accept once, command from each node, kill one, nothing lost, it comes back."""

    def _make_place(self, interrupts: Interrupts) -> Playground:
        return ClusterPlayground(self.report["masters"], self._count, interrupts)

    def _show_all(self, place: Playground) -> None:
        assert isinstance(place, ClusterPlayground)
        nodes, names = place.nodes, [minion.name for minion in place.minions]
        first, second, others = nodes[0], nodes[1], nodes[1:]
        self.report["directory"] = place.root
        place.configure()
        self._say(
            f"A playground of saltwisted: {len(nodes)} masters that become one, and "
            f"{counted(len(names), 'minion')}, as processes of\ntheir own, without root "
            f"rights. Everything lies below {place.root}.\n"
        )
        self._step(
            f"Start {', '.join(node.name for node in nodes)}; each is a full master alone",
            lambda: place.start_nodes(nodes, self._tick),
            first.command,
        )
        for node in others:
            said = self._command(
                f"Make a token on {first.name}", ["token", "create"], ["swt1-"], first
            )
            self._command(
                f"{node.name} joins with it", ["join", said.split()[-1]], [first.name], node
            )
        self._command(
            "Who belongs to the cluster?", ["members"], [node.name for node in nodes], second
        )
        self._step(
            f"Start {', '.join(names)}; they know all masters",
            lambda: place.start_minions(self._tick),
            place.minions[0].command,
        )
        self._command(
            f"Accept them once, on {second.name}", ["salt-key", "-y", "-A"], names, second
        )
        for node in nodes:
            self._until(node, names)
            self._command(
                f"Command all of them from {node.name}", ["salt", "*", "test.ping"], names, node
            )
        self._edit_roots(place, names)
        self._react(place, names)
        self._kill_one(place, names)

    def _edit_roots(self, place: ClusterPlayground, names: list[str]) -> None:
        """An edit that is everywhere, two at a time that are both kept, and the way back."""
        first, second, last = place.nodes[0], place.nodes[1], place.nodes[-1]
        others = [node.name for node in place.nodes[1:]]
        path = os.path.join(first.directory, "files", "motd.sls")
        self._step(
            f"Write a state into {first.name}'s own directory",
            lambda: _ignore(place.write_state(first, f"Written on {first.name}")),
            ["editor", path],
        )
        self._command("Wait until all nodes have it", ["roots", "sync", "--wait"], others, first)
        with first.client() as client:
            before = str(client.call_within(10.0, "roots", do="status")["generation"])
        highstate = ["salt", "*", "state.apply"]
        wanted = [*names, f"Written on {first.name}"]
        self._command(f"Highstate from {second.name}", highstate, wanted, second)
        self._step(
            f"Edit that file on {first.name} and on {last.name} at the same moment",
            lambda: self._edit_both(place, first, last),
            ["editor", path],
        )
        self._command(
            f"One version is served everywhere, and the other is kept: ask {second.name}",
            ["roots", "conflicts"],
            ["motd.sls"],
            second,
        )
        self._command("This is what it says", ["roots", "show", "motd.sls"], ["Edited on "], second)
        self._command(
            f"Go back to the previous tree, from {last.name}",
            ["roots", "rollback", before],
            [before],
            last,
        )
        self._command("Wait until all nodes have that", ["roots", "sync", "--wait"], [before], last)
        self._command(f"Highstate from {first.name}", highstate, wanted, first)

    def _edit_both(self, place: ClusterPlayground, one: Daemon, other: Daemon) -> None:
        paths = [place.write_state(node, f"Edited on {node.name}") for node in (one, other)]

        def alike() -> bool:
            kept = 0
            for node in place.nodes:
                with node.client() as client:
                    kept += bool(client.call_within(10.0, "roots", do="conflicts"))
            texts = set()
            for path in paths:
                with open(path, encoding="utf-8") as file:
                    texts.add(file.read())
            return kept == len(place.nodes) and len(texts) == 1

        place.wait(alike, "the nodes to agree on a version", self._tick, other)

    def _react(self, place: ClusterPlayground, names: list[str]) -> None:
        """A minion starts, and tells all nodes; it is greeted by one of them."""
        second, minion = place.nodes[1], place.minions[0]
        self._step(
            "Wait until the nodes may decide together: new nodes get their votes after a while",
            lambda: place.wait(
                lambda: all(_claims(node) for node in place.nodes), "votes", self._tick, second
            ),
        )

        def restart() -> None:
            _kill(minion)
            if os.path.exists(place.greeted):
                os.unlink(place.greeted)
            place.start_minions(self._tick, [minion])
            for node in place.nodes:
                self._until(node, names)
            place.wait(lambda: os.path.exists(place.greeted), "the reaction", self._tick, second)

        self._step(
            f"Start {minion.name} again: it tells every node, and each has a reaction to that",
            restart,
            minion.command,
        )
        self._command(
            "Which node did it?",
            ["receipts", "--event", place.reacts_to],
            ["local.cmd.run"],
            second,
        )

        def look() -> None:
            with open(place.greeted, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.report["steps"][-1]["output"] = "\n".join(lines)
            for line in lines:
                self._say(f"        {line}")
            if len(lines) != 1:
                raise PlaygroundError(f"{minion.name} was greeted {len(lines)} times", second)

        self._step("Once", look, ["cat", place.greeted])

    def _give_job(self, node: Daemon) -> str:
        """Give all minions a job that takes a while; its id."""
        said = self._command(
            f"Give a job to {node.name} that takes a while",
            ["salt", "--async", "*", "cmd.run", "sleep 2; echo survived"],
            [],
            node,
        )
        found = re.search(r"[0-9]{20}", said)
        if found is None:
            raise PlaygroundError("the job has no id", node)
        return found[0]

    def _deploy(self, place: ClusterPlayground, first: Daemon, second: Daemon) -> str:
        """Begin a rolling deploy, and wait until it is in the middle; its id."""
        place.write_deploy(first)
        self._command(
            "Write a rolling deploy, and wait until all nodes have it",
            ["roots", "sync", "--wait"],
            [],
            first,
        )
        words = ["salt-run", "--async", "state.orch", "deploy", "pillar={version: 7}"]
        self._command(f"Begin it on {first.name}: one minion after the other", words, [], first)
        self._step(
            "Wait until it works on the first minion",
            lambda: place.wait(
                lambda: bool(place.installations()), "the deploy", self._tick, first
            ),
            ["cat", place.deployed],
        )
        listed = self._command("How is it?", ["orch", "list"], ["running"], second)
        found = re.search(r"[0-9]{20}", listed)
        if found is None:
            raise PlaygroundError("the deploy has no id", first)
        return found[0]

    def _deployed(
        self, place: ClusterPlayground, names: list[str], second: Daemon, jid: str
    ) -> None:
        """Another node has gone on with the deploy; each minion has it once."""
        self._command(
            "Another node continues the deploy, at the same minion",
            ["orch", "show", jid, "--follow"],
            ["done"],
            second,
        )
        found = sorted(place.installations())
        if found != [f"{name} has version 7" for name in sorted(names)]:
            raise PlaygroundError(f"the deploy has left {found}", second)
        self._step("Each minion has it once", lambda: None, ["cat", place.deployed])
        self.report["steps"][-1]["output"] = "\n".join(found)
        for line in found:
            self._say(f"        {line}")

    def _kill_one(self, place: ClusterPlayground, names: list[str]) -> None:
        # A cluster that is young, or has two nodes, decides nothing without the first one
        first, second = place.nodes[-1], place.nodes[0]
        deploy = self._deploy(place, first, second)
        jid = self._give_job(first)

        assert first.process is not None
        words = ["kill", "-9", str(first.process.pid)]
        self._step(f"Kill {first.name} while the job runs", partial(_kill, first), words)
        self._step(
            f"Wait until {second.name} has all its returns",
            lambda: place.wait(
                lambda: self._returned(second, jid) >= set(names), "the returns", self._tick, second
            ),
        )
        survived = [*names, "survived"]
        self._command(
            f"Nothing was lost: {second.name} has the job and its returns",
            ["salt-run", "jobs.lookup_jid", jid],
            survived,
            second,
        )
        self._deployed(place, names, second, deploy)
        self._command(
            f"And commands all minions without {first.name}",
            ["salt", "*", "test.ping"],
            names,
            second,
        )
        self._step(
            f"Start {first.name} again; it catches up before it serves",
            lambda: place.start_nodes([first], self._tick),
            first.command,
        )
        self._step(
            f"Wait until {first.name} has caught up",
            lambda: place.wait(
                lambda: self._returned(first, jid) >= set(names), "the returns", self._tick, first
            ),
        )
        self._command(
            f"It knows what it missed: {first.name} has the returns, too",
            ["salt-run", "jobs.lookup_jid", jid],
            survived,
            first,
        )
        self._until(first, names)
        self._command(
            f"And all minions answer it again: command them from {first.name}",
            ["salt", "*", "test.ping"],
            names,
            first,
        )

    def _returned(self, node: Daemon, jid: str) -> set[str]:
        try:
            with node.client() as client:
                done = client.call_within(10.0, "runner", fun="jobs.lookup_jid", arg=[jid])
        except (TransportClosed, RemoteError, TimeoutError):
            return set()
        value = done.get("return") if isinstance(done, dict) else None
        return set(value) if isinstance(value, dict) else set()

    def _until(self, node: Daemon, names: list[str]) -> None:
        """Wait until all minions have signed in at a node, which is quick and not instant."""
        place = self._place
        assert place is not None

        def all_answer() -> bool:
            answered = set()
            try:
                with node.client() as client:
                    items = client.stream_within(
                        COMMAND_LIMIT, "run", tgt="*", fun="test.ping", arg=[], timeout=2
                    )
                    for item in items:
                        if isinstance(item, dict) and item.get("kind") == "return":
                            answered.add(item.get("id"))
            except (TransportClosed, RemoteError, TimeoutError):
                return False
            return answered >= set(names)

        place.wait(all_answer, f"all minions to answer {node.name}", self._tick, node)


def _claims(node: Daemon) -> bool:
    """Whether it would claim something that is to be done once."""
    try:
        with node.client() as client:
            done = client.call_within(10.0, "runner", fun="reactor.is_leader", keep=False)
    except (TransportClosed, RemoteError, TimeoutError):
        return False
    return bool(done.get("return"))


def _kill(daemon: Daemon) -> None:
    """At once, with everything that it has started."""
    assert daemon.process is not None
    os.killpg(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait()


def _ignore(value: object) -> None:
    """For a step that gives nothing back."""
