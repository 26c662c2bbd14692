"""Real nodes over mutual TLS: edits, the command C{roots}, and what minions are served."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import signal
import subprocess
import threading
import time
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.stores.roots.housekeeping import DAY, clean
from saltwisted.stores.roots.store import RootStore
from tests.cluster.real import OurNode
from tests.harness import OurMinion, until


def children(pid: int) -> set[int]:
    """The processes that a process has made."""
    found: set[int] = set()
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError), open(path) as file:
            found.update(int(one) for one in file.read().split())
    return found


def root_of(node: OurNode) -> str:
    """Its base root."""
    return f"{node.home}/srv/{node.name}/salt"


class RealRootsTests(SynchronousTestCase):
    """Child processes: what an administrator sees."""

    def _roots(self, node: OurNode, *words: str, check: bool = True) -> Any:
        done = node.command("roots", *words, "--json", check=check)
        return json.loads(done.stdout) if done.stdout else None

    def check_alike(self, one: OurNode, other: OurNode) -> None:
        """Rsync finds no difference between their roots."""
        same = subprocess.run(
            ["rsync", "-anciO", "--delete", f"{root_of(one)}/", f"{root_of(other)}/"],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(same.stdout, "")

    def test_two_nodes(self) -> None:
        """An edit on one is on the other; status, log, trace, rollback and sync say the truth."""
        nodes = self.make("alpha beta")
        one, other = nodes
        with open(f"{root_of(one)}/top.sls", "w") as file:
            file.write("base: {}\n")

        result = self._roots(one, "sync", "--wait")

        self.assertTrue(result["done"], result)
        with open(f"{root_of(other)}/top.sls") as file:
            self.assertEqual(file.read(), "base: {}\n")
        first = self._roots(other, "status")
        self.assertEqual(first["generation"], self._roots(one, "status")["generation"])
        trace = self._roots(other, "trace", "top.sls")
        self.assertEqual(sorted(trace[0]["on"]), sorted(["alpha", "beta"]))
        with open(f"{root_of(other)}/more.sls", "w") as file:
            file.write("x\n")
        until("more.sls", lambda: os.path.exists(f"{root_of(one)}/more.sls"))
        self._roots(one, "rollback", first["generation"])
        until("rollback", lambda: not os.path.exists(f"{root_of(other)}/more.sls"))
        self.assertEqual(self._roots(other, "status")["generation"], first["generation"])
        self.check_alike(one, other)
        states = {row["node"]: row["roots"] for row in one.members()}
        self.assertEqual(set(states.values()), {"in step"})

    def test_worker_is_killed(self) -> None:
        """Who reads and makes the small files for the nodes dies again and again: all arrives."""
        one, other = self.make("alpha beta")
        for number in range(6000):
            folder = f"{self.home}/new/d{number % 40}"
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/{number}.sls", "w") as file:
                file.write(f"{number} " * (number % 300))
        over = threading.Event()
        killed: set[int] = set()

        def kill() -> None:
            while not over.wait(0.01):
                parents = {child for node in (one, other) for child in children(node.pid)}
                for pid in {worker for parent in parents for worker in children(parent)}:
                    if pid not in killed and len(killed) < 6:
                        os.kill(pid, signal.SIGKILL)
                        killed.add(pid)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            os.rename(f"{self.home}/new", f"{root_of(one)}/new")
            result = self._roots(one, "sync", "--wait")
        finally:
            over.set()
            killer.join()
        self.assertTrue(killed)
        self.assertTrue(result["done"], result)
        self.check_alike(one, other)

    def test_last_writer_is_removed(self) -> None:
        """What only one other had of a node that is lost for good comes to all, and they go on."""
        one, other, writer = self.make("alpha beta gamma")
        with open(f"{root_of(one)}/old.sls", "w") as file:
            file.write("old\n")
        self.assertTrue(self._roots(one, "sync", "--wait")["done"])
        one.kill()
        os.mkdir(f"{root_of(writer)}/new")
        with open(f"{root_of(writer)}/new/last.sls", "w") as file:
            file.write("last\n" * 1000)
        os.unlink(f"{root_of(writer)}/old.sls")
        last = f"{root_of(other)}/new/last.sls"
        until("it on beta", lambda: os.path.exists(last))
        until("it gone on beta", lambda: not os.path.exists(f"{root_of(other)}/old.sls"))
        writer.kill()
        other.command("remove", writer.name, check=True)

        one.up()

        until("it on alpha", lambda: os.path.exists(f"{root_of(one)}/new/last.sls"))
        until("it gone on alpha", lambda: not os.path.exists(f"{root_of(one)}/old.sls"))
        for number, node in enumerate((one, other)):
            with open(f"{root_of(node)}/after{number}.sls", "w") as file:
                file.write(node.name)
            self.assertTrue(self._roots(node, "sync", "--wait")["done"])
        self.check_alike(one, other)
        names = {self._roots(node, "status")["generation"] for node in (one, other)}
        self.assertEqual(len(names), 1)
        self.assertEqual(self._roots(one, "conflicts"), [])
        states = {row["node"]: row["roots"] for row in one.members()}
        self.assertEqual(states, {"alpha": "in step", "beta": "in step"})

    def test_back_after_the_log_has_ended(self) -> None:
        """
        A node that was away for longer than the others keep their log gets the whole tree, keeps
        what was edited on it meanwhile, and brings nothing back that was deleted.
        """
        one, other = self.make("alpha beta")
        for name in ("old", "kept", "edited"):
            with open(f"{root_of(one)}/{name}.sls", "w") as file:
                file.write(f"{name}\n")
        self.assertTrue(self._roots(one, "sync", "--wait")["done"])
        other.kill()
        os.unlink(f"{root_of(one)}/old.sls")
        for number in range(3):
            with open(f"{root_of(one)}/new{number}.sls", "w") as file:
                file.write(f"new {number}\n")
            self._roots(one, "sync")
        one.kill()
        with open(f"{root_of(other)}/edited.sls", "a") as file:
            file.write("on beta, while it was away\n")
        (folder,) = glob.glob(f"{one.root}/**/roots/file-base-0", recursive=True)
        # Eight days go by for alpha's housekeeping
        store = RootStore(folder, "alpha", os.urandom, lambda: time.time() + 8 * DAY)
        self.assertTrue(store.batches.rows)
        clean(store, [])
        self.assertEqual(store.batches.rows, [])
        store.close()

        for node in (one, other):
            node.start()
        for node in (one, other):
            node.wait_serving()
            self.assertTrue(self._roots(node, "sync", "--wait")["done"])

        names = sorted(name for name in os.listdir(root_of(other)) if name.endswith(".sls"))
        self.assertEqual(names, ["edited.sls", "kept.sls", "new0.sls", "new1.sls", "new2.sls"])
        with open(f"{root_of(one)}/edited.sls") as file:
            self.assertEqual(file.read(), "edited\non beta, while it was away\n")
        self.check_alike(one, other)

    def make(self, names: str) -> list[OurNode]:
        """A cluster whose nodes have roots of their own."""
        from tests.cluster import real

        home = self.home = real.scratch(self)
        options: dict[str, Any] = {}
        made = []
        ports = real.reserve_ports(3)
        for number, name in enumerate(names.split()):
            options = {
                "file_roots": {"base": [f"{home}/srv/{name}/salt"]},
                "pillar_roots": {"base": [f"{home}/srv/{name}/pillar"]},
                "cluster_roots": {"free_mib": 1},
            }
            os.makedirs(f"{home}/srv/{name}/salt")
            os.makedirs(f"{home}/srv/{name}/pillar")
            node = OurNode(home, name, f"127.0.0.{number + 1}", ports, **options)
            node.home = home  # type: ignore[attr-defined]
            self.addCleanup(node.kill)
            made.append(node)
        first, *others = made
        first.up()
        for node in others:
            token = first.token()
            node.start()
            until(f"{node.name} to answer", node.members)
            node.command("join", token, check=True)
        for node in made:
            node.wait_serving()
        return made

    def test_minions_are_served_generations(self) -> None:
        """Pillar and states come from what is committed, on any node; the job names its tree."""
        one, other = self.make("alpha beta")
        for node in (one, other):
            node.command("roots", "sync", "--wait", check=True)
        self.write(one, "pillar/top.sls", "base:\n  '*': [data]\n")
        self.write(one, "pillar/data.sls", "colour: red\n")
        self.write(one, "salt/top.sls", "base:\n  '*': [s]\n")
        text = "{{ pillar.colour }}"
        self.write(one, "salt/s.sls", f"a:\n  test.show_notification:\n    - text: {text}\n")
        one.command("roots", "sync", "--wait", check=True)
        minion = OurMinion(self.home, other, "m")
        self.addCleanup(minion.kill)
        minion.up()
        pending = os.path.join(other.pki, "minions_pre", "m")
        until("the key of m", lambda: os.path.exists(pending))
        other.command("salt-key", "-y", "-a", "m", check=True)
        until("m", lambda: other.salt("-t", "5", "m", "test.ping") == {"m": True})

        self.assertEqual(self._comments(other), ["red"])
        self.write(one, "pillar/data.sls", "colour: blue\n")
        one.command("roots", "sync", "--wait", check=True)
        until("the new pillar", lambda: self._comments(other) == ["blue"])
        served = [
            os.path.join(folder, name)
            for folder, _, names in os.walk(f"{other.root}")
            for name in names
            if name == "data.sls" and "/served/" in folder
        ]
        self.assertTrue(served)
        for path in served:
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

        jid, *_ = other.run("jobs.list_jobs", "search_function=state.apply")
        shown = [node.run("jobs.print_job", jid)[jid]["Generation"] for node in (one, other)]
        self.assertEqual(shown, [self._roots(one, "status")["generation"]] * 2)

    def _comments(self, node: OurNode) -> list[str]:
        done = node.salt("m", "state.apply")
        return [state["comment"] for state in done["m"].values()]

    def write(self, node: OurNode, path: str, text: str) -> None:
        """Write into one of its roots."""
        with open(f"{self.home}/srv/{node.name}/{path}", "w") as file:
            file.write(text)
