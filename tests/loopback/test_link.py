"""
A minion's link over real ZeroMQ sockets, to a master made of our own servers.

Needs the real reactor: what is proved is the wiring of links and sockets.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

from attrs import evolve
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from saltwisted.minion.connection import Hooks, MasterLink
from saltwisted.minion.outside import ZeroMQDialer, endpoint, resolver
from saltwisted.minion.rules import Rules
from saltwisted.minion.subscriber import Seen, Subscriber
from saltwisted.transports.zeromq.publisher import PubServer
from saltwisted.wire.publication import topic_of
from tests.loopback.test_zeromq import Rig, until
from tests.minion.fakemaster import JID, FakeMaster, FakeNet, MemoryKeys, config, facts, outside
from tests.minion.test_subscriber import MemoryKept


class LinkTests(Rig):
    async def test_life(self) -> None:
        """Sign-in, pillar, a job and its return; the master dies, is noticed, comes back."""
        master, jobs, heard = FakeMaster(), [], []
        seen = Seen(MemoryKept(), lambda: 0)
        requests = self.router(lambda frame, _, reply: answer(master, frame, reply))
        publisher = PubServer(self.zeromq, "127.0.0.1", 0)
        publisher.listen()
        self.addCleanup(publisher.stop)
        master.publish_port = publisher.port
        options = config(
            master="localhost", master_port=requests.port, recon_default=20, recon_max=20
        )
        link = MasterLink(
            "localhost",
            requests.port,
            options,
            evolve(
                outside(FakeNet(), MemoryKeys()),
                reactor=reactor,
                dialer=ZeroMQDialer(self.zeromq, options, Random(1)),
                resolve=resolver(deferToThread, False),
                run=deferToThread,
                entropy=os.urandom,
                now=reactor.seconds,
            ),
            Subscriber(facts, lambda job, link: jobs.append(job.jid), seen),
            facts,
            Hooks(
                on_up=lambda link, first: heard.append("up"),
                on_down=lambda link, why: heard.append("down"),
            ),
            rules=Rules(heartbeat=0.2, slow_heartbeat=0.2, heartbeat_timeout=1.0, first=0.05),
        )
        self.addCleanup(link.stop)

        link.start()
        await until(lambda: link.up)
        await until(lambda: publisher.topics[topic_of("m1")] and publisher.topics[b""])
        publisher.publish(master.publication())
        await until(lambda: jobs == [JID])
        await link.request({"cmd": "_return", "jid": JID, "return": True})
        self.assertEqual(master.loads[-1]["cmd"], "_return")

        master.alive = False
        await until(lambda: heard[:2] == ["up", "down"])
        master.alive = True
        await until(lambda: heard[:3] == ["up", "down", "up"])
        link.stop()
        await deferLater(reactor, 0.05)

    async def test_endpoints(self) -> None:
        """Addresses of both families are written as ZeroMQ wants them."""
        self.assertEqual(endpoint("127.0.0.1", 1), "tcp://127.0.0.1:1")
        self.assertEqual(endpoint("::1", 1), "tcp://[::1]:1")

    async def test_source_address(self) -> None:
        """source_address is where we come from."""
        seen: list[str] = []

        def handler(frame: bytes, address: str, reply: Any) -> None:
            seen.append(address)
            reply(b"")

        server = self.router(handler)
        dialer = ZeroMQDialer(self.zeromq, config(source_address="127.0.0.1"), Random(1))
        client = dialer.requests("127.0.0.1", server.port)
        self.addCleanup(client.close)
        await client.request(b"x", 5)

        self.assertEqual(seen, ["127.0.0.1"])


def answer(master: FakeMaster, frame: bytes, reply: Any) -> None:
    """Let the fake master answer, or be silent."""
    data = master.handle(frame)
    if data is not None:
        reply(data)
