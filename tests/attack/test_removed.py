"""
What a removed node still holds, and what it is worth: session secrets, and all that came from them.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import attrs
from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.secretscare import SecretsCare
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.secrets import SESSION, Secrets
from saltwisted.master.seams import LoneSecrets, Seams
from saltwisted.wire.sessionkey import SECRET_BYTES, SessionSecret
from tests.master.rig import Rig, RigMinion

OLD, NEW = bytes(SECRET_BYTES), b"n" * SECRET_BYTES


class OtherSecrets(Rig):
    """A master whose sessions come from secrets that a test can change."""

    def beside(self, alone: Seams) -> Seams:
        """As alone, but for the secrets."""
        self.session_secrets = [SessionSecret(1, OLD, self.clock.seconds())]
        secrets = LoneSecrets(lambda: tuple(self.session_secrets), alone.secrets.acceptance)
        return evolve(alone, secrets=secrets)


class SessionTests(SynchronousTestCase):
    """A master, and somebody who can derive every session of the old secret."""

    def setUp(self) -> None:
        self.rig = OtherSecrets(self)
        self.secrets = self.rig.session_secrets
        self.minion = RigMinion(self.rig, "web1").accepted()

    def test_old_secret_is_worth_nothing(self) -> None:
        """
        Once the old secret is refused, its sessions are, also the one in use; the minion signs in
        again and is served.
        """
        self.assertEqual(self.minion.ask("_file_envs"), ["base"])
        self.secrets[:] = [SessionSecret(2, NEW, self.rig.clock.seconds())]

        self.rig.ctx.sessions.end_all()

        self.assertEqual(self.minion.ask("_file_envs"), "bad load")
        old = self.minion.session
        self.minion.sign_in()
        self.assertNotEqual(self.minion.session, old)
        self.assertEqual(self.minion.ask("_file_envs"), ["base"])

    def test_ordinary_rotation(self) -> None:
        """While the secret before still counts, nobody has to sign in again."""
        self.secrets.insert(0, SessionSecret(2, NEW, self.rig.clock.seconds()))
        self.rig.ctx.sessions.end_all()

        self.assertEqual(self.minion.ask("_file_envs"), ["base"])


class MemberTests(SynchronousTestCase):
    """A member ends sessions when, and only when, secrets are refused."""

    def setUp(self) -> None:
        self.secrets = Secrets()
        self.number = 0
        values: dict[str, Any] = {
            field.name: MagicMock()
            for field in attrs.fields(SecretsCare)
            if field.init and field.default is attrs.NOTHING
        }
        self.care = SecretsCare(**{**values, "secrets": self.secrets})

    def renew(self, value: bytes, refuse_old: bool) -> None:
        """Another node has made a new session secret."""
        self.number += 1
        body = self.secrets.next_body(SESSION, value, 1.0, refuse_old=refuse_old)
        self.secrets.apply(body, self.number, Dot(Stream("b", "0" * 16), self.number))
        self.care.changed()

    def test_removal_ends_sessions(self) -> None:
        """An ordinary new version ends none; the one after a removal ends all, once."""
        self.renew(OLD, False)
        self.renew(NEW, False)
        self.care.end_sessions.assert_not_called()  # type: ignore[attr-defined]

        self.renew(b"x" * SECRET_BYTES, True)
        self.care.changed()

        self.care.end_sessions.assert_called_once_with()  # type: ignore[attr-defined]
