"""
C{python -m tests.bench.fleet}: many minions of ours in one process, without workers.

Real are the links: rule book, fail-over, sign-ins, heartbeats, subscriptions, returns. A job
is answered C{True} at once. All have one key pair, each its own id.

Reads from stdin: when it ends, so do we. Writes one JSON line a second: how many are up, and
at which masters. With C{--journal} each job that one has begun and each return that was
acknowledged to it is a line of a file (C{ran JID ID}, C{kept JID ID}); a return that nobody
has acknowledged is then tried again and again, as a minion with a disk does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from typing import Any, TextIO

import zmq
from twisted.internet import reactor, stdio, task
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import LogEvent, eventAsText, globalLogBeginner
from twisted.python.failure import Failure

from saltwisted.config.options import MinionConfig
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import SaltwistedError
from saltwisted.minion.channel import Identity
from saltwisted.minion.connection import MasterLink
from saltwisted.minion.links import Links
from saltwisted.minion.outside import Outside, ZeroMQDialer, resolver
from saltwisted.minion.subscriber import Seen, Subscriber
from saltwisted.transports.threads import Threads
from saltwisted.transports.zeromq.fairness import ZeroMQ
from saltwisted.wire.rsa import PrivateKey, PublicKey

PER_CONTEXT = 200
"""Links that share a ZeroMQ context."""
SOCKETS = 64 * PER_CONTEXT
"""
Sockets of a context: a link keeps as many for requests as it ever had under way at once, eight at
most, and has some more for its pulse and its subscription, and twice that while it starts over.
"""
AGAIN = 2.0
"""Seconds until a return that nobody took is tried again."""


class Lines:
    """No memory of jobs beyond the process."""

    def load(self) -> list[str]:
        """Nothing."""
        return []

    def append(self, line: str) -> None:
        """Forget."""

    def replace(self, lines: list[str]) -> None:
        """Forget."""


class Trusting:
    """The master's key, in memory."""

    path = "memory"

    def __init__(self) -> None:
        self.key: PublicKey | None = None

    def known(self) -> PublicKey | None:
        """What was seen first."""
        return self.key

    def remember(self, key: PublicKey) -> None:
        """Keep."""
        self.key = key


class Simulated:
    """One minion."""

    def __init__(
        self, number: int, first: int, key: PrivateKey, tok: bytes, base: dict[str, Any]
    ) -> None:
        self.id = f"fleet{first + number:05d}"
        self.journal: TextIO | None = base["journal"]
        self.all = base["options"].get("master_type", "str") == "str"
        config = MinionConfig(id=self.id, **base["options"])
        facts = MinionFacts(id=self.id, grains={"id": self.id}, pillar={}, nodegroups={})
        context = base["contexts"][number % len(base["contexts"])]
        outside = Outside(
            reactor=reactor,  # type: ignore[arg-type]
            dialer=ZeroMQDialer(context, config, base["dice"]),
            resolve=resolver(base["threads"].run, False),
            run=base["threads"].run,
            keys=base["keys"],
            identity=Identity(id=self.id, key=key, tok=tok),
            entropy=os.urandom,
            dice=base["dice"],
        )
        subscriber = Subscriber(lambda: facts, self.job, Seen(Lines(), time.time))
        self.links = Links(config, outside, subscriber, lambda: facts)

    @property
    def lacks(self) -> bool:
        """Whether a link of one that wants all masters is not up."""
        return self.all and not all(link.up for link in self.links.links)

    def job(self, job: Any, link: MasterLink) -> None:
        """Answer at once."""
        load = {
            "cmd": "_return",
            "id": self.id,
            "jid": job.jid,
            "fun": job.fun,
            "fun_args": [],
            "return": True,
            "retcode": 0,
            "success": True,
        }
        self.note("ran", job.jid)
        self.bring(load, link.name)

    def bring(self, load: dict[str, Any], via: str) -> None:
        """Deliver a return."""
        returning = Deferred.fromCoroutine(self.links.deliver(load, via))
        returning.addCallback(lambda _: self.note("kept", load["jid"]))

        def failed(failure: Failure) -> None:
            failure.trap(SaltwistedError)
            if self.journal is not None:
                reactor.callLater(AGAIN, self.bring, load, "")  # type: ignore[attr-defined]

        _ = returning.addErrback(failed)

    def note(self, word: str, jid: str) -> None:
        """A line of the journal."""
        if self.journal is not None:
            self.journal.write(f"{word} {jid} {self.id}\n")
            self.journal.flush()


class Leash(Protocol):
    """We live as long as stdin does."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The end."""
        reactor.stop()  # type: ignore[attr-defined]


def roomy() -> ZeroMQ:
    """A context with room for many links."""
    made = ZeroMQ(reactor)
    made.factory.context.set(zmq.MAX_SOCKETS, SOCKETS)
    return made


def main() -> None:
    """Run them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__)
    parser.add_argument("-n", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the number of the first minion")
    parser.add_argument("--key", required=True, help="PEM of the key pair of all")
    parser.add_argument("--options", required=True, help="JSON: options of the minions")
    parser.add_argument("--journal", help="a file for what was run and acknowledged")
    chosen = parser.parse_args()
    with open(chosen.key, "rb") as handle:
        key = PrivateKey.from_pem(handle.read())
    options = json.loads(chosen.options)
    masters = options["master"] if isinstance(options["master"], list) else [options["master"]]
    links = chosen.n * (len(masters) if options.get("master_type", "str") == "str" else 1)
    threads = Threads(reactor, 2, "fleet")
    base = {
        "options": options,
        "contexts": [roomy() for _ in range(links // PER_CONTEXT + 1)],
        "dice": random.SystemRandom(),
        "threads": threads,
        "keys": Trusting(),
        "journal": open(chosen.journal, "a") if chosen.journal else None,  # noqa: SIM115
    }
    tok = key.sign_x931(b"salt")
    minions = [Simulated(number, chosen.first, key, tok, base) for number in range(chosen.n)]

    def log_errors(event: LogEvent) -> None:
        if "log_failure" in event:
            sys.stderr.write(eventAsText(event) + "\n")

    def tell() -> None:
        used = {one.id: one.links.best for one in minions}
        names = [link.name for link in used.values() if link is not None]
        line: dict[str, Any] = {"up": len(names)}
        line["at"] = {name: names.count(name) for name in set(names)}
        # Some of those that lack one, for whoever wonders why
        lacking = [one for one in minions if used[one.id] is None or one.lacks][:2]
        line["lacking"] = {one.id: one.links.status() for one in lacking}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def begin() -> None:
        threads.startService()
        globalLogBeginner.beginLoggingTo([log_errors], redirectStandardIO=False)
        for number, minion in enumerate(minions):
            # A fleet does not come up in one moment; what is measured comes later
            reactor.callLater(number * 0.004, minion.links.startService)  # type: ignore[attr-defined]
        task.LoopingCall(tell).start(1.0)  # type: ignore[unused-awaitable]

    stdio.StandardIO(Leash())
    reactor.callWhenRunning(begin)  # type: ignore[attr-defined]
    reactor.run()  # type: ignore[attr-defined]
    os._exit(0)


if __name__ == "__main__":
    main()
