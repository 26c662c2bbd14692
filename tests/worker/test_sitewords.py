"""
What a site's own function and its children write, as it is read.
"""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.process.sitework import CHUNK, MOST_LEFT, Streams


class StreamTests(SynchronousTestCase):
    """Reading in the thread of the test: the end was said before it begins."""

    def told(self, number: int) -> list[tuple[str, str]]:
        """What is told of a stream after the end of the call."""
        found: list[tuple[str, str]] = []

        def tell(op: str, text: str) -> None:
            found.append((op, text))
            # Otherwise a reader without a bound would not come back
            self.assertLess(len(found), MOST_LEFT + 2)

        streams = Streams({number: "say"}, tell)
        self.addCleanup(os.close, streams._wake)
        self.addCleanup(os.close, streams._end)
        streams.end()
        streams.read()
        return found

    def test_T_SITE_1_endless(self) -> None:
        """T-SITE-1: a child that writes faster than anybody reads does not hold up the end."""
        endless = os.open("/dev/zero", os.O_RDONLY | os.O_CLOEXEC)
        self.addCleanup(os.close, endless)

        self.assertEqual(self.told(endless), [("say", "\0" * CHUNK)] * MOST_LEFT)

    def test_all(self) -> None:
        """All that a full pipe has at the end is told, the last line without its end as well."""
        ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        text = b"\n".join([b"a line"] * 9000)
        written = os.write(theirs, text)

        told = self.told(ours)

        self.assertEqual("\n".join(line for _, line in told), text[:written].decode())
        self.assertLess(len(told), MOST_LEFT)
