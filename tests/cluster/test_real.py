"""
Real nodes on loopback: founding, joining, and what each command says.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from types import SimpleNamespace

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.replica.tokens import parse
from saltwisted.wire.rsa import PrivateKey, fingerprint
from tests.cluster.real import OurNode, cluster, nodes
from tests.harness import OurMinion, scratch, until, write_config


class JoinTests(SynchronousTestCase):
    """By token."""

    def test_join_while_running(self) -> None:
        """A node that runs joins by one line; both show both, with one identity and two slots."""
        a, b = cluster(self, "a b")

        for node in (a, b):
            rows = node.members()
            self.assertEqual([row["node"] for row in rows], ["a", "b"])
            self.assertEqual({row["state"] for row in rows}, {"serving"})
            self.assertEqual(len({row["slot"] for row in rows}), 2)
            said = node.command("members", "--json", check=True).stdout
            self.assertEqual([row["node"] for row in json.loads(said)], ["a", "b"])
        with open(f"{a.pki}/master.pub", "rb") as one, open(f"{b.pki}/master.pub", "rb") as other:
            self.assertEqual(one.read(), other.read())
        for path in ("master.pem", "cluster/node.pem", "cluster/facts.sqlite"):
            mode = stat.S_IMODE(os.stat(f"{b.pki}/{path}").st_mode)
            self.assertEqual(mode & 0o077, 0, path)

    def test_join_before_the_first_start(self) -> None:
        """The token is laid down where no daemon runs; the node joins at its first start."""
        a, b = nodes(self, "a b")
        a.up()

        said = b.command("join", a.token(), check=True).stdout
        b.up()

        self.assertIn("--role cluster", said)
        until(
            "both to see both", lambda: a.states() == b.states() == {"a": "serving", "b": "serving"}
        )

    def test_token_is_used_once(self) -> None:
        """A token for one use admits one node; the next is told that it is used up."""
        a, b, c = nodes(self, "a b c")
        a.up()
        token = a.token()
        for node in (b, c):
            node.up()
        b.command("join", token, check=True)

        done = c.command("join", token)

        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(sorted(a.states()), ["a", "b"])
        self.assertTrue(c.serving(), "it goes on alone")

    def test_token_used_twice_at_once(self) -> None:
        """One use, two joiners at the same moment at two members: exactly one is let in."""
        a, b = cluster(self, "a b")
        token = parse(a.token())
        c, d = nodes(self, "c d", publish_port=a.publish_port)
        lines = []
        for node, member, address in ((c, a, "127.0.0.11"), (d, b, "127.0.0.12")):
            write_config(f"{node.conf}/master", {**node.options, "interface": address})
            node.start()
            peers = (f"{member.address}:{member.pool_port}",)
            lines.append(evolve(token, peers=peers).line)
        for node in (c, d):
            node.wait_serving()

        running = [
            subprocess.Popen(
                [sys.executable, "-m", "saltwisted.cli.main", "join", "-c", node.conf, line],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for node, line in zip((c, d), lines, strict=True)
        ]
        said = [each.communicate(timeout=120)[0] for each in running]

        let_in = sorted(each.returncode == 0 for each in running)
        self.assertEqual(let_in, [False, True], said)
        members = a.members()
        self.assertEqual(len(members), 3, (members, said))

    def test_token_of_a_dead_issuer(self) -> None:
        """Any live member honours a token, also when its issuer is gone."""
        a, b = cluster(self, "a b")
        token = a.token()
        a.kill()
        (c,) = nodes(self, "c", interface="127.0.0.9", publish_port=b.publish_port)
        c.start()
        until("c to answer", c.members)

        c.command("join", token, "--no-wait", check=True)

        until("b to know c", lambda: b.states().get("c"))

    def test_restart(self) -> None:
        """A node that was killed comes back as the member that it was."""
        a, b = cluster(self, "a b")
        b.kill()
        until("a to miss b", lambda: a.states() == {"a": "serving", "b": "down"})

        b.up()

        until("all to serve", lambda: a.states() == {"a": "serving", "b": "serving"})

    def test_whole_restart(self) -> None:
        """
        After all were down, one alone serves as degraded once it has waited, and names who is
        missing; with all back none is degraded. C{serve_alone: false} waits for ever.
        """
        a, b = cluster(self, "a b", catchup_wait=2)
        for node in (a, b):
            node.kill()
        write_config(f"{a.conf}/master", {**a.options, "serve_alone": False})

        b.up()
        alone = b.states()
        b.kill()
        a.start()
        a.wait_for_line("not serving yet")
        self.assertFalse(a.serving())
        b.start()

        self.assertEqual(alone, {"a": "down", "b": "degraded"})
        self.assertIn("a did not answer within 2 s", b.text())
        for node in (a, b):
            node.wait_serving()
        until("both to serve", lambda: a.states() == {"a": "serving", "b": "serving"})

    def test_port_taken(self) -> None:
        """A node whose peer port is taken says so, and ends."""
        a, b = nodes(self, "a b")
        a.up()
        write_config(f"{b.conf}/master", {**b.options, "interface": a.address})

        b.start()

        until("b to end", lambda: not b.running)
        self.assertIn("cluster_pool_port", b.text())

    def test_refused_identity(self) -> None:
        """
        A master with accepted minions and another identity is not joined unasked, and says how
        many minions would be cut off; --dry-run changes nothing.
        """
        a, b = nodes(self, "a b")
        a.up()
        b.up()
        os.makedirs(f"{b.pki}/minions", exist_ok=True)
        with open(f"{b.pki}/master.pub", "rb") as file:
            public = file.read()
        with open(f"{b.pki}/minions/web1", "wb") as file:
            file.write(public)
        token = a.token()

        refused = b.command("join", token)
        shown = b.command("join", "--dry-run", "--json", token, check=True)

        self.assertEqual(refused.returncode, 1)
        self.assertIn("1 accepted", refused.stderr)
        self.assertEqual(json.loads(shown.stdout)["cut_off"], 1)
        self.assertEqual(sorted(a.states()), ["a"])
        with open(f"{b.pki}/master.pub", "rb") as file:
            self.assertEqual(file.read(), public)


class MinionTokenTests(SynchronousTestCase):
    """Tokens that stand for minions."""

    def test_pre_accepted(self) -> None:
        """A minion whose id a token names is accepted by any node, as often as the token says."""
        a, b = cluster(self, "a b")
        a.token("--role", "minion", "--id", "web*")
        for number in ("1", "2"):
            minion = OurMinion(scratch(self), b, f"web{number}")
            self.addCleanup(minion.kill)
            minion.up()
            until("its key", lambda m=minion: any(m.id in ids for ids in b.keys().values()))

        until("web1 to be accepted", lambda: "web1" in a.keys()["minions"])
        until("web2 to wait", lambda: "web2" in a.keys()["minions_pre"])
        listed = json.loads(b.command("token", "list", "--json", check=True).stdout)
        self.assertEqual([(row["used"], row["state"]) for row in listed[-1:]], [(1, "used up")])

    def test_joins_by_token(self) -> None:
        """
        Our minion that knows no master joins by a token, is accepted without anybody, learns where
        the other masters are, and is there when the one that it used is gone.
        """
        a, b = nodes(self, "a b")
        a.up()
        minion = self._lost_minion(a)
        self.addCleanup(minion.kill)
        token = a.token("--role", "minion")
        self.assertEqual(self._join(minion, "--dry-run", token).returncode, 0)
        said = self._join(minion, token)
        self.assertIn("The token is saved", said.stdout)

        minion.up()

        until("m1 to be accepted", lambda: "m1" in a.keys()["minions"])
        until("the token to have served", lambda: not self._held(minion))
        listed = json.loads(a.command("token", "list", "--json", check=True).stdout)
        self.assertEqual(listed[-1]["state"], "used up")
        b.command("join", a.token(), check=True)
        b.up()
        minion.wait_for_line(f"{b.address}:{b.ret_port}")
        a.kill()
        b.ping_until("m1")

    def test_running_minion_joins(self) -> None:
        """A token that is for another cluster's key is not believed; a running minion takes one."""
        (a,) = cluster(self, "a")
        minion = self._lost_minion(a)
        self.addCleanup(minion.kill)
        minion.up()
        minion.wait_for_line("ready after")
        token = parse(a.token("--role", "minion"))

        self._join(minion, evolve(token, pin="0" * 64).line)
        minion.wait_for_line("the token by which this minion joins")
        until("its key", lambda: any("m1" in ids for ids in a.keys().values()))
        said = self._join(minion, token.line)

        self.assertIn("now shows the token to", said.stdout)
        minion.wait_for_line("connected to master")
        self.assertIn("m1", a.keys()["minions"])

    def _lost_minion(self, node: OurNode) -> OurMinion:
        """A minion whose configuration leads nowhere."""
        nowhere = SimpleNamespace(address="127.0.0.9", ret_port=1, publish_port=node.publish_port)
        return OurMinion(scratch(self), nowhere, "m1")

    def _held(self, minion: OurMinion) -> bool:
        return os.path.exists(os.path.join(minion.root, "etc/salt/pki/minion/join.token"))

    def _join(self, minion: OurMinion, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "saltwisted.cli.main", "join", "-c", minion.conf, *args],
            capture_output=True,
            text=True,
            timeout=90,
            env=minion.env,
            check=False,
        )


class SecretTests(SynchronousTestCase):
    """By C{cluster_secret}, as the tutorial's configuration has it."""

    SECRET = "8d1f0c7e5b3a49d2a6c4e0f19b7d3a58"

    def configured(self, names: str) -> list[OurNode]:
        """Nodes that list all of them, themselves too."""
        made = nodes(
            self, names, cluster_id="one", cluster_secret=self.SECRET, cluster_pki_dir="/nowhere"
        )
        peers = [f"{node.address}:{node.pool_port}" for node in made]
        for node in made:
            with open(f"{node.conf}/master", "a") as file:
                file.write(f"cluster_peers: {json.dumps(peers)}\n")
        return made

    def test_any_order(self) -> None:
        """Started in any order, the smallest id founds, the others join; one cluster."""
        a, b, c = self.configured("a b c")

        for node in (c, b):
            node.start()
        until("c to answer", c.members)
        waiting = c.command("members", "--json")
        a.start()

        self.assertNotEqual(waiting.returncode, 0)
        for node in (a, b, c):
            node.wait_serving()
        until("three members", lambda: len(c.members()) == 3)
        self.assertEqual({row["state"] for row in c.members()}, {"serving"})

    def test_tutorial(self) -> None:
        """
        The tutorial's own configuration, with a secret: ids are addresses, peers are bare ones, all
        nodes in everybody's list; one that joins later needs one of them, not all.
        """
        made = self.configured("a b c")
        addresses = [node.address for node in made]
        for node in made:
            write_config(
                f"{node.conf}/master",
                {**node.options, "id": node.address, "cluster_peers": addresses[:2]},
            )
        a, b, c = made
        for node in (a, b):
            node.start()
        for node in (a, b):
            node.wait_serving()
        until("two members", lambda: sorted(b.states()) == addresses[:2])
        a.kill()

        c.start()
        c.wait_serving()

        self.assertEqual(sorted(c.states()), addresses)
        self.assertEqual(c.states()[b.address], "serving")
        with open(f"{b.pki}/master.pub") as one, open(f"{c.pki}/master.pub") as other:
            self.assertEqual(one.read(), other.read())

    def test_cluster_pki_dir(self) -> None:
        """
        The directory that stock masters of a cluster share gives the first node its identity and
        its minions' keys, once, and is not changed.
        """
        shared = scratch(self)
        identity, minion = PrivateKey.generate(2048), PrivateKey.generate(2048)
        os.makedirs(f"{shared}/minions")
        for name, text in (
            ("cluster.pem", identity.pem()),
            ("cluster.pub", identity.public.pem + "\n"),
            ("minions/web1", minion.public.pem + "\n"),
        ):
            with open(f"{shared}/{name}", "w") as file:
                file.write(text)
        (a,) = nodes(self, "a", cluster_id="one", cluster_pki_dir=shared)

        a.up()

        self.assertEqual(a.keys()["minions"], ["web1"])
        with open(f"{a.pki}/master.pub") as file:
            self.assertEqual(file.read(), identity.public.pem + "\n")
        self.assertEqual(sorted(os.listdir(shared)), ["cluster.pem", "cluster.pub", "minions"])

    def test_pinned(self) -> None:
        """
        C{cluster_pub_fingerprint} is what sha256sum says of the key's file, as in stock, or what
        C{salt-key -F} shows; a node that was told another one joins nobody.
        """
        a, b, c, d = self.configured("a b c d")
        write_config(f"{a.conf}/master", a.options)  # who lists nobody waits for nobody
        a.up()
        with open(f"{a.pki}/master.pub", "rb") as file:
            pem = file.read()
        pins = (hashlib.sha256(pem).hexdigest(), fingerprint(pem), "0" * 64)
        for node, pin in zip((b, c, d), pins, strict=True):
            with open(f"{node.conf}/master", "a") as file:
                file.write(f"cluster_pub_fingerprint: {json.dumps(pin)}\n")
            node.start()

        for node in (b, c):
            node.wait_serving()
        d.wait_for_line("cluster_pub_fingerprint")
        self.assertFalse(d.serving())
        self.assertEqual(sorted(a.states()), ["a", "b", "c"])

    def test_weak_secret(self) -> None:
        """An empty or short secret is refused at the start, in a sentence."""
        for secret in ("", "changeme"):
            (a,) = nodes(self, "a", cluster_secret=secret)
            a.start()
            until("its end", lambda a=a: not a.running)
            self.assertIn("cluster_secret", a.text())

    def test_another_secret(self) -> None:
        """A node with another secret is not let in, and says for whom it waits."""
        a, b = self.configured("a b")
        with open(f"{b.conf}/master") as file:
            text = file.read()
        with open(f"{b.conf}/master", "w") as file:
            file.write(text.replace(self.SECRET, "0f9e8d7c6b5a49382716abcdef543210"))
        a.start()
        b.start()
        until("b to answer", b.members)

        b.wait_for_line("not ready")

        self.assertFalse(b.serving())
        self.assertIn("waits for", b.members()[0]["problem"])
