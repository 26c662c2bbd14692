"""
What every proof of logins has to do (L{saltwisted.parts.ILoginProof}).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.eauth import PASSWORD_LENGTH, Credentials, Proof, credentials
from saltwisted.parts import ILoginProof
from saltwisted.wire.msgpack import pack_bin, unpack_bin

USER, PASSWORD = "fred", "s3cret:word"
WRONG = ("s3cret:wor", "s3cret:word ", "S3cret:word", "", "*", "\u00e4\u20ac", "%s", "x" * 4096)
ODD = ("*", "fre", "fred ", "fred)(uid=*", "../fred", "a:b", "fred:x", "#", "\u00fc", "x" * 256)


class LoginProofContract:
    """
    The claims. A test case gives the proof, and what it is told.

    @cvar password: what the user proves himself with.
    @cvar knows: whether it tells one password from another at all.
    @cvar names: whether it tells one user from another.
    @cvar looks: whether it can say something of a user without his password.
    """

    password = PASSWORD
    knows = True
    names = True
    looks = True

    def proof(self) -> ILoginProof:
        """A proof that knows C{USER} with C{PASSWORD}."""
        raise NotImplementedError

    def settings(self) -> Mapping[str, Any]:
        """What it is told so that it works."""
        raise NotImplementedError

    def broken(self) -> tuple[ILoginProof, Mapping[str, Any]] | None:
        """One that can judge nobody, for a reason; C{None} where that cannot be."""
        return None

    def ask(self: Any, password: str, username: str = USER) -> Proof:
        """One call, of a form that comes so far."""
        given = {"eauth": "x", "username": username, "password": password}
        self.assertIsInstance(credentials(given), Credentials, given)
        found = self.proof().prove(self.settings(), username, password)
        self.assertIsInstance(found, Proof)
        return found  # type: ignore[no-any-return]

    def test_right(self: Any) -> None:
        """The right password of a user is proven, and nothing is said to be wrong."""
        found = self.ask(self.password)

        self.assertEqual((found.ok, found.closed, found.problem), (True, False, ""))

    def test_wrong(self: Any) -> None:
        """Any other password is not, and is no reason to look for what is wrong (T-EAUTH-1)."""
        for word in WRONG:
            found = self.ask(word)
            self.assertEqual(found.ok, not self.knows, word[:20])
            self.assertEqual((found.groups, found.problem), ((), ""), word[:20])

    def test_other_names(self: Any) -> None:
        """Nobody else is proven by it, whatever the name means to files, PAM or directories."""
        for name in ODD:
            self.assertEqual(self.ask(self.password, name).ok, not self.names, name[:20])

    def test_longest(self: Any) -> None:
        """As long a password as may come is judged like any other."""
        self.assertEqual(self.ask("s" * PASSWORD_LENGTH).ok, not self.knows)

    def test_forgets(self: Any) -> None:
        """One call means nothing for the next, in either order."""
        proof, settings = self.proof(), self.settings()
        words = (self.password, "x", self.password, "", self.password)

        found = [proof.prove(settings, USER, word).ok for word in words]

        self.assertEqual(found, [True, not self.knows, True, not self.knows, True])

    def test_look(self: Any) -> None:
        """
        A user is looked up without his password, and nobody else is found by other names; where
        that cannot be asked, the reason is said.
        """
        found = self.proof().look(self.settings(), USER)
        self.assertIsInstance(found, Proof)
        if not self.looks:
            self.assertEqual((found.ok, found.groups), (False, ()))
            self.assertNotEqual(found.problem, "")
            return
        self.assertEqual((found.ok, found.closed, found.problem), (True, False, ""))
        self.assertEqual(found.groups, self.ask(self.password).groups)
        for name in ODD:
            other = self.proof().look(self.settings(), name)
            self.assertEqual((other.ok, other.problem), (not self.names, ""), name[:20])

    def test_plain(self: Any) -> None:
        """What it says goes from one process to another as it is."""
        plain = self.ask(self.password).plain()

        self.assertEqual(unpack_bin(pack_bin(plain)), plain)
        self.assertTrue(all(isinstance(group, str) for group in plain["groups"]))

    def test_broken(self: Any) -> None:
        """Where nobody can be judged nobody is let in, and the reason has no password in it."""
        broken = self.broken()
        if broken is None:
            self.assertFalse(self.knows)
            return
        proof, settings = broken
        for word in (self.password, ""):
            found = proof.prove(settings, USER, word)
            self.assertFalse(found.ok)
            self.assertNotEqual(found.problem, "")
            self.assertNotIn(self.password, found.problem)
