"""
What git and gpg say of a signature, and whether that is a good one (T-GIT-7).
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.git.signing import (
    Key,
    keys_of,
    name_in_tag,
    wrong_with_gpg,
    wrong_with_ssh,
)

FRED, EVE = "F" * 40, "E" * 40
SIGNED = 1_700_000_000
KEYS = {FRED: Key()}


def good(key: str = FRED, at: int = SIGNED) -> list[str]:
    """What gpg says of one good signature."""
    return [
        f"[GNUPG:] NEWSIG {key[:16]}",
        f"[GNUPG:] GOODSIG {key[:16]} Fred <fred@example.com>",
        f"[GNUPG:] VALIDSIG {key} 2023-11-14 {at} 0 4 0 22 8 00 {key}",
    ]


def bad(outcome: str, key: str = EVE) -> list[str]:
    """What gpg says of another one."""
    return [f"[GNUPG:] NEWSIG {key[:16]}", f"[GNUPG:] {outcome} {key[:16]} 22 8 00 {SIGNED} 9"]


class OpenPGPTests(SynchronousTestCase):
    """C{gpg --status-fd}."""

    def why(self, *lines: str, status: int = 0, key: Key = KEYS[FRED]) -> str:
        """What is wrong."""
        return wrong_with_gpg(status, "\n".join(lines), {FRED: key})

    def test_good(self) -> None:
        """One good signature by a key that may sign is good, also by a key that ended later."""
        self.assertEqual(self.why(*good()), "")
        self.assertEqual(self.why(*good(), key=Key(expires=SIGNED)), "")
        expired = [line.replace("GOODSIG", "EXPKEYSIG") for line in good()]
        self.assertEqual(self.why(*expired, status=1, key=Key(expires=SIGNED + 1)), "")

    def test_T_GIT_7_two(self) -> None:
        """
        T-GIT-7: two signatures on one commit are none, though both are good, or the first one is:
        whoever adds a second one could else hide behind somebody who may sign.
        """
        for second in (good(), good(EVE), bad("ERRSIG"), bad("BADSIG"), bad("EXPSIG")):
            for lines in ([*good(), *second], [*second, *good()]):
                self.assertEqual(self.why(*lines), "has more than one signature", lines)
        # One outcome that is said to be valid twice is no better
        self.assertNotEqual(self.why(*good(), good()[2]), "")
        self.assertNotEqual(self.why(*good(), good(EVE)[2]), "")

    def test_T_GIT_7_outcomes(self) -> None:
        """T-GIT-7: every other outcome is refused in words, whatever else is said with it."""
        for outcome, words in (
            ("ERRSIG", "may not sign"),
            ("BADSIG", "invalid"),
            ("REVKEYSIG", "revoked"),
            ("EXPSIG", "expired signature"),
        ):
            valid = [line.replace("GOODSIG", outcome) for line in good()]
            for lines in (bad(outcome), valid):
                for status in (0, 1):
                    self.assertIn(words, self.why(*lines, status=status), lines)

    def test_T_GIT_7_keys(self) -> None:
        """T-GIT-7: the key has to be in the file, not revoked, and not ended at that time."""
        self.assertIn("may not sign", self.why(*good(EVE)))
        self.assertIn("revoked", self.why(*good(), key=Key(is_revoked=True)))
        self.assertIn("had expired", self.why(*good(), key=Key(expires=SIGNED - 1)))

    def test_T_GIT_7_unclear(self) -> None:
        """T-GIT-7: what gpg does not say in full, or git does not agree with, is not good."""
        self.assertEqual(self.why(), "has no OpenPGP signature")
        self.assertEqual(self.why("GOODSIG me"), "has no OpenPGP signature")
        self.assertEqual(self.why("[GNUPG:] GOODSIG"), "has no OpenPGP signature")
        for lines in (good()[:2], [*good()[:2], f"[GNUPG:] VALIDSIG {FRED} 2023-11-14 soon"]):
            self.assertIn("cannot be verified", self.why(*lines))
        self.assertIn("cannot be verified", self.why(*good(), status=1))

    def test_listed(self) -> None:
        """A part of a key ends with the whole, and is revoked with it."""
        told = "\n".join(
            (
                "tru::1:1700000000:0:3:1:5",
                f"pub:r:255:22:{FRED[:16]}:1600000000:::u:::sc:::::ed25519:::0:",
                f"fpr:::::::::{FRED}:",
                f"sub:u:255:22:{EVE[:16]}:1600000000:1800000000:::::s:::::ed25519::",
                f"fpr:::::::::{EVE}:",
                "pub:u:255:22:0000000000000000:1600000000:1750000000::u:::sc:::::ed25519:::0:",
                f"fpr:::::::::{'A' * 40}:",
                "sub:u:255:22:0000000000000000:1600000000:1800000000:::::s:::::ed25519::",
                f"fpr:::::::::{'B' * 40}:",
                "sub:r:255:22:0000000000000000:1600000000:::::::s:::::ed25519::",
                f"fpr:::::::::{'C' * 40}:",
            )
        )

        self.assertEqual(
            keys_of(told),
            {
                FRED: Key(0, True),
                EVE: Key(1800000000, True),
                "A" * 40: Key(1750000000),
                "B" * 40: Key(1750000000),
                "C" * 40: Key(1750000000, True),
            },
        )


class SSHTests(SynchronousTestCase):
    """C{ssh-keygen -Y verify}."""

    def test_T_GIT_7_ssh(self) -> None:
        """T-GIT-7: good is what git and C{ssh-keygen} call good, for a name that may sign."""
        line = 'Good "git" signature for fred@example.com with ED25519 key SHA256:abc'
        other = 'Good "git" signature with ED25519 key SHA256:abc'

        self.assertEqual(wrong_with_ssh(0, line), "")
        self.assertIn("may not sign", wrong_with_ssh(1, line))
        for status in (0, 1):
            self.assertIn("may not sign", wrong_with_ssh(status, other))
            self.assertIn("may not sign", wrong_with_ssh(status, f"No principal matched.\n{line}"))
            self.assertEqual(
                wrong_with_ssh(status, "Signature verification failed: incorrect signature"),
                "has an invalid signature",
            )
            self.assertEqual(wrong_with_ssh(status, ""), "has no SSH signature")

    def test_tag(self) -> None:
        """A tag's own name is in its head, not in what its author wrote."""
        head = b"object 00\ntype commit\ntag v1\ntagger Fred"
        self.assertEqual(name_in_tag(head + b"\n\ntag v2\n"), "v1")
        self.assertEqual(name_in_tag(b"object 00\n\ntag v2\n"), "")
