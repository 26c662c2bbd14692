"""
Changing the identity key: one node's part, with its files and without sockets.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.facts.identity import IdentityChange
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.identity import Identity, decode
from saltwisted.domain.replica.secrets import IDENTITY, PUBLISH, SESSION, Secrets
from saltwisted.domain.replica.tokens import Tokens
from saltwisted.errors import DeniedError, StoreError, WireError
from saltwisted.stores.facts.node import NodeFiles
from saltwisted.wire.handshake import followed
from saltwisted.wire.rsa import PrivateKey, PublicKey
from tests.wire.recorded import key


class IdentityChangeTests(SynchronousTestCase):
    """One node; the log is its folds."""

    def setUp(self) -> None:
        self.pki = self.mktemp()
        self.files = NodeFiles(self.pki)
        self.files.open()
        self.secrets, self.tokens = Secrets(), Tokens()
        self.number = 0
        self.adopted: list[bytes] = []
        self.shown: list[Any] = []
        self.made = ["minion", "master_sign"]
        self.own = key("master")
        self.change = self.node()

    def node(self) -> IdentityChange:
        """The part as it is built at a start."""
        return IdentityChange(
            files=self.files,
            secrets=self.secrets,
            own=lambda: (b"private", (self.own.public.pem + "\n").encode()),
            key=self.own,
            generate=self.generate,
            in_thread=lambda f, *args: succeed(f(*args)),
            append=self.append,
            settled=lambda: succeed(["away"]),
            void_tokens=partial(self.tokens.void_body, os.urandom),
            fits=self.fits,
            adopt=lambda private, public: self.adopted.append(public),
            show=self.shown.append,
            minions=lambda: (["m1", "m2"], ["m1"]),
            now=lambda: 1.7e9,
            entropy=os.urandom,
            hash_type="sha256",
        )

    def fits(self, private: bytes, public: bytes) -> bool:
        """Whether a pair is one."""
        try:
            return PrivateKey.from_pem(private).public == PublicKey.from_pem(public)
        except WireError:
            return False

    def test_T_PEER_9_unusable(self) -> None:
        """
        T-PEER-9: an identity that this node could not begin with is not adopted, and said once;
        the next good one is.
        """
        other = key("minion").public.pem.encode()
        for private in (b"junk", self.own.pem().encode()):
            body = self.secrets.next_body(IDENTITY, Identity(private, other).encode(), 1.0)
            self.append("secret", body)
            self.change.follow()
        self.assertEqual((self.adopted, self.shown), ([], []))

        pair = key("minion")
        good = Identity(pair.pem().encode(), pair.public.pem.encode())
        self.append("secret", self.secrets.next_body(IDENTITY, good.encode(), 1.0))

        self.assertEqual(self.adopted, [pair.public.pem.encode()])

    def generate(self) -> tuple[bytes, bytes]:
        """Recorded keys: making them takes long."""
        pair = key(self.made.pop(0))
        return pair.pem().encode(), pair.public.pem.encode()

    def append(self, kind: str, body: Any) -> Deferred[None]:
        """Into the folds at once, and told as a log tells it."""
        self.number += 1
        fold = {"secret": self.secrets, "token": self.tokens}[kind]
        fold.apply(body, self.number, Dot(Stream("a", "0" * 16), self.number))
        self.change.follow()
        return succeed(None)

    def ask(self, coroutine: Any) -> Any:
        """Its result; it must not wait."""
        return self.successResultOf(Deferred.fromCoroutine(coroutine))

    def test_resumed(self) -> None:
        """What was prepared is the same after a restart, until it was used or given up."""
        said = self.ask(self.change.prepare())
        self.ask(self.change.installed(["m1"]))
        self.change = self.node()
        again = self.ask(self.change.prepare())

        self.assertEqual(again, {**said, "installed": ["m1"]})
        self.assertEqual((said["minions"], said["here"]), (["m1", "m2"], ["m1"]))
        self.assertEqual(said["fingerprint"], key("minion").public.fingerprint())
        self.assertEqual(said["present_fingerprint"], key("master").public.fingerprint())
        self.ask(self.change.forget())
        self.assertEqual(
            self.ask(self.change.prepare())["fingerprint"], key("master_sign").public.fingerprint()
        )

    def test_change(self) -> None:
        """One fact with the statement of the key before; older secrets and tokens are refused."""
        self.append("secret", self.secrets.next_body(SESSION, b"old", 1.0))
        self.ask(self.change.prepare())

        done = self.ask(self.change.change())

        self.assertEqual(done["unreached"], ["away"])
        (version,) = self.secrets.versions(IDENTITY)
        value = decode(version.value)
        new = followed(key("master").public, value.handovers)
        self.assertEqual(new, key("minion").public)
        self.assertEqual(PublicKey.from_pem(value.public), new)
        self.assertEqual(len(self.secrets.versions(SESSION)), 1)
        self.assertNotEqual(self.secrets.versions(SESSION)[0].value, b"old")
        self.assertTrue(self.secrets.current(PUBLISH))
        self.assertGreater(self.tokens.epoch, 0)
        self.assertEqual(self.files.next_identity(), (b"", b"", []))
        self.assertEqual(self.adopted, [value.public])

    def test_twice(self) -> None:
        """Who knows the first key follows both changes."""
        self.ask(self.change.prepare())
        self.ask(self.change.change())
        self.own = key("minion")
        self.change = self.node()
        self.change.follow()
        self.assertEqual(len(self.adopted), 1)
        self.ask(self.change.prepare())
        self.ask(self.change.change())

        handovers = decode(self.secrets.versions(IDENTITY)[0].value).handovers
        self.assertEqual(len(self.shown[-1]), 2)
        self.assertEqual(followed(key("master").public, handovers), key("master_sign").public)

    def test_followed_once(self) -> None:
        """A node that learns of it starts again once; who has the key already does not."""
        self.ask(self.change.prepare())
        self.ask(self.change.change())
        self.change.follow()
        self.assertEqual(len(self.adopted), 1)
        other = self.node()
        other.follow()
        self.assertEqual(len(self.adopted), 2)
        self.own = key("minion")
        self.node().follow()
        self.assertEqual(len(self.adopted), 2)

    def test_unprepared(self) -> None:
        """Nothing happens that was not prepared, and a damaged file is not a key."""
        for asked in (self.change.change(), self.change.installed(["m1"])):
            self.failureResultOf(Deferred.fromCoroutine(asked), DeniedError)
        self.assertEqual(self.secrets.versions(IDENTITY), ())
        with open(f"{self.files.folder}/identity.next", "w") as file:
            file.write("{}")
        self.failureResultOf(Deferred.fromCoroutine(self.change.change()), StoreError)
