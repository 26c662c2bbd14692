"""
A job runs one commit from its beginning to its end, and its record says which.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import maybeDeferred

from saltwisted.config.options import MasterConfig
from saltwisted.domain.roots.pins import UNUSED
from saltwisted.master.commitpins import CommitPins, TellsCommits, commits
from saltwisted.master.fileserver import FileServer
from saltwisted.master.runners.jobs import describe
from saltwisted.stores.git.source import GitView
from tests.contracts.test_gitfiles import GitSourceTestCase


class PinTestCase(GitSourceTestCase):
    """A source at a first commit."""

    def setUp(self) -> None:
        """Serve it."""
        super().setUp()
        self.now = 0.0
        self.remote = self.repo()
        self.first = self.remote.commit({"a": b"1", "large": b"1" * 100_000})
        self.source = self.serving(self.remote, name="states")
        self.pins = CommitPins(self.server(self.source), self.source, self.server, lambda: self.now)

    def server(self, source: Any) -> FileServer:
        """A file server over a source."""
        return FileServer([source], MasterConfig(), maybeDeferred)

    def push(self) -> str:
        """A second commit is served."""
        commit = self.remote.commit({"a": b"2", "large": b"2" * 100_000, "b": b""})
        self.source.show(GitView([self.fetched(self.remote, name="states")]))
        return commit

    def begin(self, jid: str, fun: str = "state.apply") -> Any:
        """A job of one minion begins; what its record says more."""
        facts = self.pins.facts(jid, fun)
        self.pins.published(jid, ["m"])
        return facts

    def seen(self, path: str = "a", minion: str = "m") -> Any:
        """The first byte that a minion gets."""
        server = self.pins.files(minion) or self.pins.newest
        found = server.find(path)
        return found and self.value(self.source.read(found, 0, 1))


class CommitPinTests(PinTestCase):
    """A master alone."""

    def test_record(self) -> None:
        """The record names the generation, and the commit of each remote by environment."""
        facts = self.begin("1")

        self.assertEqual(facts["commits"], {"base": {"states": self.first}})
        self.assertEqual(facts["generation"], self.source.view.name)
        shown = describe("20260101000000000000", {"fun": "state.apply", **facts})
        self.assertEqual(shown["Commits"], facts["commits"])
        self.assertEqual(self.begin("2", "test.ping"), {})

    def test_one_commit(self) -> None:
        """What is fetched meanwhile is seen by others, and by this minion when it has returned."""
        self.begin("1")
        self.push()
        self.assertEqual(self.seen(), b"1")
        self.assertEqual(self.seen("large"), b"1")
        self.assertIsNone(self.seen("b"))
        self.assertEqual(self.seen(minion="other"), b"2")
        listed = self.pins.files("m")
        assert listed is not None
        self.assertEqual(self.value(listed.list_now("files", "base", "")), ["a", "large"])

        self.pins.returned("1", "m")

        self.assertEqual(self.seen(), b"2")

    def test_older_job(self) -> None:
        """Of two jobs the older counts; a minion that never asked is not held for ever."""
        self.begin("1")
        self.push()
        self.begin("2")
        self.assertEqual(self.seen(), b"1")
        self.pins.returned("1", "m")
        self.assertEqual(self.seen(), b"2")
        self.pins.returned("2", "m")
        self.begin("3")
        self.push()
        self.now += UNUSED + 1
        self.assertIsNone(self.pins.files("m"))

    def test_names(self) -> None:
        """A view is named by its commits and mappings: alike for the same, and else another."""
        view = self.source.view
        self.assertEqual(view.name, GitView([self.fetched(self.remote, name="states")]).name)
        self.assertNotEqual(view.name, GitView([self.fetched(self.remote, base="x")]).name)
        self.push()
        self.assertNotEqual(view.name, self.source.view.name)
        self.assertEqual(len(view.name), 12)

    def test_many_environments(self) -> None:
        """Of very many environments the record has that of base alone."""
        for number in range(30):
            self.remote.git("branch", f"b{number}")
        view = GitView([self.fetched(self.remote)])

        self.assertEqual(list(commits(view)), ["base"])


class TellingTests(PinTestCase):
    """A cluster."""

    def test_told(self) -> None:
        """The record has what the roots say, and the commits beside it."""
        telling = TellsCommits(self.pins, self.source)
        facts = telling.facts("1", "state.apply")

        self.assertEqual(sorted(facts), ["commits", "generation"])
        self.assertEqual(telling.facts("1", "test.ping"), {})
        telling.published("1", ["m"])
        self.push()
        self.assertIsNotNone(telling.files("m"))
        telling.returned("1", "m")
        self.assertIsNone(telling.files("m"))
