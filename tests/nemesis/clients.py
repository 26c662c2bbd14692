"""
Clients: threads that work at random nodes, one request after another, and write down what they
were told. Each has ids, paths and tokens of its own, so that its own order is the order of what
is done to them.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import Callable
from typing import Any

import zmq

from saltwisted.errors import RemoteError, TransportClosed, WireError
from saltwisted.wire.handshake import Accepted, HandshakeError
from saltwisted.wire.rsa import PublicKey
from tests.attack.fleet import Asker, Refused, Silence, WireMinion
from tests.bench.fleets import Fleet
from tests.nemesis.history import History
from tests.nemesis.world import Node, World, decoded

OK, UNKNOWN, NONE = "ok", "unknown", "none"


def digest(value: str) -> str:
    """What a history says of a content."""
    return hashlib.sha256(value.encode()).hexdigest()


WAIT = 4.0
"""Seconds that a light minion waits for an answer."""
ERRORS = (TransportClosed, RemoteError, TimeoutError, WireError, Silence, Refused, OSError)


class Stage:
    """What clients share."""

    def __init__(self, world: World, history: History, seed: int) -> None:
        self.world = world
        self.history = history
        self.seed = seed
        self.context: zmq.Context[Any] = zmq.Context()
        self.over = threading.Event()
        self.failures: list[str] = []
        self.identity: PublicKey | None = None

    def pace(self, seconds: float) -> bool:
        """Wait so long; whether to go on."""
        return not self.over.wait(seconds)

    def minion(self, node: Node, name: str) -> WireMinion:
        """A light minion that talks to this node; it has not signed in."""
        made = WireMinion(self.context, node.ret_port, name, self.world.key(name.split("-")[0]))
        made.asker = Asker(self.context, node.ret_port, node.address)
        made.known = self.identity
        return made


class Client(threading.Thread):
    """One thread; C{step} is what it does again and again."""

    every = 0.5

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stage, self.world, self.history = stage, stage.world, stage.history
        self.dice = random.Random(f"{stage.seed} {name}")
        self.minions: dict[tuple[str, str], WireMinion] = {}

    def run(self) -> None:
        """Until all is over."""
        try:
            while self.stage.pace(self.dice.uniform(0.3, 1.7) * self.every):
                self.step()
        except Exception as error:
            self.stage.failures.append(f"{self.name}: {error!r}")
            self.history.add("note", text=f"{self.name} failed: {error!r}")
            raise
        finally:
            for minion in self.minions.values():
                minion.asker.close()

    def step(self) -> None:
        """One thing."""
        raise NotImplementedError

    def node(self) -> Node:
        """Any."""
        return self.dice.choice(self.world.nodes)

    def do(self, op: str, node: Node, key: str, act: Callable[[], Any], **more: Any) -> Any:
        """
        Ask, and write down how it ended.

        @param act: gives a dictionary of what to write down, C{result} among it.
        """
        began = self.history.now()
        try:
            said = act()
        except HandshakeError as error:
            said = {"result": UNKNOWN, "foreign": True, "why": repr(error)[:300]}
        except ERRORS as error:
            said = {"result": UNKNOWN, "why": repr(error)[:300]}
        record = {"op": op, "node": node.name, "key": key, "by": self.name, **more, **said}
        self.history.add("op", t=began, e=self.history.now(), **record)
        return record

    def ask(self, node: Node, name: str, cmd: str, **fields: Any) -> Any:
        """
        One request of a light minion, which signs in when it has to.

        @raises Refused: it is not let in.
        """
        minion = self.minions.get((node.name, name))
        if minion is None:
            minion = self.minions[node.name, name] = self.stage.minion(node, name)
        for _ in range(2):
            if minion.session is None:
                outcome = minion.sign_in(WAIT)
                if not isinstance(outcome, Accepted):
                    raise Refused(outcome.reason)
            try:
                return minion.ask(cmd, WAIT, **fields)
            except (Refused, WireError):
                minion.session = None
        raise Refused("a session that was just given")

    def others(self, node: Node) -> set[str]:
        """The names of the other nodes."""
        return {other.name for other in self.world.nodes if other is not node}


class Jobs(Client):
    """Jobs, and the returns of light minions that bring them to any node."""

    every = 0.25

    def __init__(self, stage: Stage, name: str, minions: list[str]) -> None:
        super().__init__(stage, name)
        self.ids = minions
        self.jids: list[str] = []
        self.used: set[tuple[str, str]] = set()
        self.count = 0

    def step(self) -> None:
        """A job now and then, returns all the time."""
        self.count += 1
        node = self.node()
        if not self.jids or self.dice.random() < 0.15:
            done = self.do("job", node, f"{self.name}:{self.count}", lambda: self.publish(node))
            if done["result"] == OK:
                self.jids.append(done["jid"])
            return
        jid, name = self.dice.choice(self.jids[-5:]), self.dice.choice(self.ids)
        self.jids = self.jids[-5:]
        value = f"{self.name} {self.count} " + "x" * self.dice.choice((1, 100, 20_000))
        if (jid, name) in self.used or self.dice.random() < 0.8:
            # A job of its own, as that of a masterless schedule: a minion returns a job once
            jid = f"{jid[:-6]}{self.count % 10000:04d}{jid[-2:]}"
        self.used.add((jid, name))
        self.do(
            "return",
            node,
            f"{jid}/{name}",
            lambda: self.bring(node, name, jid, value),
            value=digest(value),
        )

    def publish(self, node: Node, target: str = "w*") -> dict[str, Any]:
        """Give a job."""
        tag = f"{self.name} {self.count}"
        done = node.ask("publish", 10.0, tgt=target, fun="test.echo", arg=[tag])
        return {"result": OK if done.get("jid") else UNKNOWN, "jid": done.get("jid"), "value": tag}

    def bring(self, node: Node, name: str, jid: str, value: str) -> dict[str, Any]:
        """Bring a return."""
        load = {"jid": jid, "fun": "test.echo", "retcode": 0, "success": True, "return": value}
        said = self.ask(node, name, "_return", **load)
        return {"result": UNKNOWN if said is False else OK}


class Crowd(Jobs):
    """
    Jobs for minions that listen: what they ran, and what of it was acknowledged, is in a journal.

    @ivar began: when each job was begun by whom.
    """

    every = 0.7

    def __init__(self, stage: Stage, name: str, fleet: Fleet, journal: str) -> None:
        super().__init__(stage, name, [])
        self.fleet, self.journal = fleet, journal
        self.read = 0
        self.began: dict[tuple[str, str], float] = {}

    def step(self) -> None:
        """A job, and what was done about the last ones."""
        self.count += 1
        node = self.node()
        self.do(
            "job",
            node,
            f"{self.name}:{self.count}",
            lambda: self.publish(node, "fleet*"),
            crowd=self.fleet.ids,
        )
        self.follow()

    def follow(self) -> None:
        """Take in what is new in the journal."""
        if not os.path.exists(self.journal):
            return
        with open(self.journal) as file:
            file.seek(self.read)
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self.read += len(whole)
        for word, jid, name in map(str.split, whole.splitlines()):
            now = self.history.now()
            if word == "ran":
                self.began.setdefault((jid, name), now)
                self.history.add("ran", jid=jid, id=name)
            elif word == "kept":
                self.history.add(
                    "op", op="return", node="", key=f"{jid}/{name}", by=self.name,
                    t=self.began.get((jid, name), now), e=now, result=OK, value=digest("True"),
                )  # fmt: skip


class Mine(Client):
    """Mine data, a number that grows."""

    every = 0.8

    def __init__(self, stage: Stage, name: str, minion: str) -> None:
        super().__init__(stage, name)
        self.id = minion
        self.count = 0

    def step(self) -> None:
        """The next number."""
        self.count += 1
        node, number = self.node(), self.count

        def send() -> dict[str, Any]:
            said = self.ask(node, self.id, "_mine", data={"n": number})
            return {"result": OK if said is True else UNKNOWN}

        self.do("mine", node, self.id, send, value=number)


class Keys(Client):
    """An operator, and minions that come and are accepted, rejected and deleted."""

    every = 0.8

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage, name)
        self.ids: list[str] = []
        self.count = 0

    def step(self) -> None:
        """A new minion, or something about an old one."""
        node = self.node()
        if len(self.ids) < 3 or self.dice.random() < 0.25:
            self.count += 1
            name = f"{self.name}-{self.count}"
            self.ids.append(name)
            self.do("appear", node, name, lambda: self.appear(node, name))
            return
        name = self.dice.choice(self.ids[-6:])
        if self.dice.random() < 0.2:
            self.do("appear", node, name, lambda: self.appear(node, name))
            return
        kind = self.dice.choice(("accept", "accept", "reject", "delete"))
        how = self.by_command if self.dice.random() < 0.4 else self.by_socket
        done = self.do(kind, node, name, lambda: how(kind, node, name))
        if done["result"] == OK and kind != "accept" and not done["late"]:
            other = self.node()
            self.do("use", other, name, lambda: self.use(other, name))
        elif done["result"] == OK and kind == "accept":
            self.do("use", node, name, lambda: self.use(node, name))

    def appear(self, node: Node, name: str) -> dict[str, Any]:
        """Sign in, with a new session."""
        minion = self.stage.minion(node, name)
        try:
            outcome = minion.sign_in(WAIT)
        finally:
            minion.asker.close()
        said = "accepted" if isinstance(outcome, Accepted) else outcome.reason
        return {"result": OK, "said": said}

    def use(self, node: Node, name: str) -> dict[str, Any]:
        """Whether a minion is served, by any session that it has or gets."""
        try:
            self.ask(node, name, "_file_envs")
        except Refused as error:
            later = "cluster_retry" in str(error) or "full" in str(error)
            return {
                "result": UNKNOWN if later else OK, "said": "refused", "why": repr(error)[:200]
            }  # fmt: skip
        return {"result": OK, "said": "served"}

    def by_command(self, kind: str, node: Node, name: str) -> dict[str, Any]:
        """With C{salt-key}."""
        more = {"accept": ["--include-rejected"], "reject": ["--include-accepted"], "delete": []}
        status, out, wrong = node.cli("salt-key", "-y", f"--{kind}", name, *more[kind])
        late = []
        if "Not confirmed yet by: " in wrong:
            late = wrong.partition("Not confirmed yet by: ")[2].partition(". ")[0].split(", ")
        word = {"accept": "accepted", "reject": "rejected", "delete": "deleted"}[kind]
        result = UNKNOWN
        if status == 0:
            result = OK if f"Key for minion {name} {word}." in out else NONE
        return {
            "result": result, "status": status, "late": late,
            "alone": set(late) >= self.others(node), "why": (out + wrong)[-300:] * (result != OK),
        }  # fmt: skip

    def by_socket(self, kind: str, node: Node, name: str) -> dict[str, Any]:
        """As C{salt-key} does, without its process."""
        found = self.wheel(node, "key.name_match", name)
        before = {
            "accept": {"minions_pre", "minions_rejected"},
            "reject": {"minions_pre", "minions"},
            "delete": set(found),
        }
        if not before[kind] & set(found):
            return {"result": NONE, "late": []}
        more = {"accept": {"include_rejected": True}, "reject": {"include_accepted": True}}
        said = self.wheel(node, f"key.{kind}", name, **more.get(kind, {}))
        late = list(said.get("unconfirmed", []))
        return {"result": OK, "late": late, "alone": set(late) >= self.others(node)}

    def wheel(self, node: Node, fun: str, match: str, **more: Any) -> dict[str, Any]:
        """A wheel function."""
        answer = node.ask("wheel", 20.0, fun=fun, kwarg={"match": match, **more})
        if answer.get("success") is False:
            raise RemoteError("WheelError", str(answer.get("return")))
        said: dict[str, Any] = answer["return"]
        return said


class Tokens(Client):
    """Join tokens, made and revoked."""

    every = 3.0

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage, name)
        self.live: list[str] = []

    def step(self) -> None:
        """Make one, or revoke one of this client's own."""
        node = self.node()
        if len(self.live) < 2 or self.dice.random() < 0.6:
            self.do("token", node, "", lambda: self.create(node))
            return
        one = self.live.pop(self.dice.randrange(len(self.live)))
        self.do("revoke", node, one, lambda: self.revoke(node, one))

    def create(self, node: Node) -> dict[str, Any]:
        """C{saltwisted token create}; the token's id is what C{token list} has again."""
        status, out, wrong = node.cli("token", "create", "--ttl", "9d", "--json")
        made = decoded(out)
        if status != 0 or not made:
            return {"result": UNKNOWN, "status": status, "why": wrong[-300:]}
        self.live.append(made["id"])
        return {"result": OK, "key": made["id"], "alone": not made["held_by"]}

    def revoke(self, node: Node, one: str) -> dict[str, Any]:
        """C{saltwisted token revoke}."""
        status, out, wrong = node.cli("token", "revoke", one)
        result = OK if status == 0 and "admits nobody" in out else UNKNOWN
        late = []
        if "Not confirmed by " in wrong:
            late = wrong.partition("Not confirmed by ")[2].partition(": ")[0].split(", ")
        return {"result": result, "status": status, "late": late,
                "alone": set(late) >= self.others(node), "why": (out + wrong)[-300:]}  # fmt: skip


def served(ask: Callable[..., Any], path: str) -> bytes | None:
    """
    A file as a minion gets it; nothing if it gets none.

    @param ask: C{ask(cmd, **fields)}.
    """
    whole = b""
    while True:
        said = ask("_serve_file", path=path, saltenv="base", loc=len(whole), gzip=None)
        # What is not there has no name: Salt's answer
        if not isinstance(said, dict) or "data" not in said or not said.get("dest"):
            return None
        data = said["data"]
        if not data:
            return whole
        whole += data.encode() if isinstance(data, str) else data


class Readers(Client):
    """A minion that fetches files, of any node, while they are edited and damaged."""

    every = 0.4

    def __init__(self, stage: Stage, name: str, minion: str) -> None:
        super().__init__(stage, name)
        self.id = minion

    def step(self) -> None:
        """One of all files."""
        edits = [r for r in list(self.history.records) if r["kind"] == "op" and r["op"] == "edit"]
        if not edits:
            return
        node, path = self.node(), self.dice.choice(edits)["key"]

        def ask(cmd: str, **fields: Any) -> Any:
            return self.ask(node, self.id, cmd, **fields)

        def announced() -> Any:
            said = ask("_file_hash", path=path, saltenv="base")
            return said.get("hsum") if isinstance(said, dict) else None

        def read() -> dict[str, Any]:
            before = announced()
            data = served(ask, path)
            found = "" if data is None else hashlib.sha256(data).hexdigest()
            # Its parts are of two versions, if it changed meanwhile: a minion begins again then
            whole = found == before or before == announced()
            return {"result": OK if found and whole else UNKNOWN, "value": found}

        self.do("read", node, path, read)


class Roots(Client):
    """An administrator who edits files on any node; done when C{roots sync} says so."""

    every = 1.5

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage, name)
        self.count = 0

    def step(self) -> None:
        """A new file, or another version of one of this client's own."""
        self.count += 1
        node = self.node()
        key = f"{self.name}/f{self.count}" if self.dice.random() < 0.7 else f"{self.name}/again"
        # The last is one that has a file of its own in the content store
        value = f"{self.name} {self.count}\n" * self.dice.choice((1, 50, 3000, 12_000))
        wait = self.dice.random() < 0.5
        self.do("edit", node, key, lambda: self.edit(node, key, value, wait), value=digest(value))

    def edit(self, node: Node, key: str, value: str, wait: bool) -> dict[str, Any]:
        """Write it as an editor does, and have it taken in."""
        if not node.running or node.wrong.stalled:
            return {"result": UNKNOWN, "why": "an editor would hang"}
        path = os.path.join(node.file_root, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.swp")
        with open(part, "w") as handle:
            handle.write(value)
            handle.flush()
            os.fsync(handle.fileno())
        os.rename(part, path)
        words = ["--wait", "--timeout", "15"] if wait else []
        status, out, wrong = node.cli("roots", "sync", *words, "--json")
        said = decoded(out) or {}
        held = [name for name, one in said.get("peers", {}).items() if one["ok"]]
        return {
            "result": OK if status == 0 else UNKNOWN, "status": status, "wait": wait,
            "alone": not held, "late": sorted(self.others(node) - set(held)),
            "why": "" if status == 0 else (out + wrong)[-400:],
        }  # fmt: skip
