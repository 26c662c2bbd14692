"""
Password files: text, htpasswd and htdigest, with hashes that Apache's tools made.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.logins import OPTIONS
from saltwisted.domain.passwords import PasswordFileError, apr1, right


def crypt(password: str, setting: str) -> str | None:
    """A system that knows one hash."""
    return setting if (password, setting) == ("word", "$6$salt$hash") else "*0"


def may(text: str, username: str, password: str, **settings: Any) -> bool:
    """Whether the file lets him in."""
    given = {"^" + name: value for name, value in settings.items()}
    config = OPTIONS.take("file").settings(given, {})
    return right(text, config, username, password, crypt)


class TextTests(SynchronousTestCase):
    """Fields of lines."""

    def test_plain(self) -> None:
        """The whole field counts, and only that user's."""
        text = "ann:one\n\nfred:two:more\nfred:three\n"

        self.assertTrue(may(text, "fred", "two"))
        for user, word in (
            ("fred", "three"),
            ("fred", "one"),
            ("ann", "on"),
            ("ann", ""),
            ("", ""),
            ("eve", "one"),
        ):
            self.assertFalse(may(text, user, word), (user, word))

    def test_digests_and_fields(self) -> None:
        """Other columns, separators and digests, as documented."""
        for kind in ("md5", "sha256", "sha512"):
            digest = hashlib.new(kind, b"word").hexdigest()
            text = f"46|trey|{digest}\n"
            self.assertTrue(
                may(
                    text,
                    "trey",
                    "word",
                    hashtype=kind,
                    username_field=2,
                    password_field="3",
                    field_separator="|",
                )
            )
            self.assertFalse(
                may(text, "trey", digest, hashtype=kind, username_field=2, field_separator="|")
            )

    def test_other_encodings(self) -> None:
        """A name that is not UTF-8 keeps nobody behind it from logging in."""
        text = b"j\xfcrgen:x\nuser:word\n".decode("utf-8", "surrogateescape")
        for settings in ({"filetype": "htpasswd"}, {"filetype": "text"}):
            self.assertTrue(may(text, "user", "word", **settings))
            self.assertFalse(may(text, "j\xfcrgen", "x", **settings))

    def test_broken(self) -> None:
        """A file or a setting that cannot be used lets nobody in, and says what it is."""
        for text, settings, words in (
            ("fred\n", {}, "line 1 has 1 fields"),
            ("fred:x\n", {"hashtype": "crc"}, "plaintext, md5"),
            ("fred:x\n", {"filetype": "xml"}, "text, htpasswd"),
            ("fred:x\n", {"username_field": "a"}, "numbers"),
            ("fred:x\n", {"username_field": 0}, "count from 1"),
            ("fred:x\n", {"field_separator": ""}, "empty"),
            ("fred:r:x\n", {"filetype": "htdigest"}, "^realm"),
        ):
            error = self.assertRaises(PasswordFileError, may, text, "fred", "x", **settings)
            self.assertIn(words, str(error))


class ApacheTests(SynchronousTestCase):
    """What htpasswd and htdigest write."""

    def test_apr1(self) -> None:
        """The digest that C{openssl passwd -apr1} makes."""
        self.assertEqual(apr1("myPassword", "qHDFfhPC"), "$apr1$qHDFfhPC$nITSVHgYbDAK1Y0acGRnY0")

    def test_htpasswd(self) -> None:
        """apr1, SHA-1, what the system's crypt knows, and plain texts."""
        sha = "{SHA}" + b64encode(hashlib.sha1(b"word").digest()).decode()
        text = f"a:{apr1('word', 'saltsalt')}\nb:{sha}\nc:$6$salt$hash\nd:word\n"
        for user in "abcd":
            self.assertTrue(may(text, user, "word", filetype="htpasswd"), user)
            self.assertFalse(may(text, user, "wordy", filetype="htpasswd"), user)
        for user, kept in (("a", apr1("word", "saltsalt")), ("b", sha), ("c", "$6$salt$hash")):
            self.assertFalse(may(text, user, kept, filetype="htpasswd"))
        self.assertFalse(may("e:\n", "e", "", filetype="htpasswd"))

    def test_htdigest(self) -> None:
        """The digest of user, realm and password, for one realm."""
        digest = hashlib.md5(b"fred:R:word").hexdigest()
        text = f"fred:R:{digest}\n"

        self.assertTrue(may(text, "fred", "word", filetype="htdigest", realm="R"))
        self.assertFalse(may(text, "fred", "word", filetype="htdigest", realm="S"))
        self.assertFalse(may(text, "fred", "x", filetype="htdigest", realm="R"))
