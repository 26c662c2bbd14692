"""
A job runs one commit from its beginning to its end, and its record says which.
"""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed

from saltwisted.config.git import GitRemote, key_of_entry
from saltwisted.config.options import MasterConfig
from saltwisted.domain.git import history, made
from saltwisted.domain.git.mapping import Tip
from saltwisted.domain.joblists import describe
from saltwisted.domain.roots.pins import UNUSED
from saltwisted.errors import DeniedError, NotKept, StoreError
from saltwisted.master import commitpins
from saltwisted.master.commitpins import CommitPins, commits
from saltwisted.master.commitviews import CommitViews
from saltwisted.master.earliercommits import EarlierCommits
from saltwisted.master.fileserver import FileServer
from saltwisted.stores.git.source import GitFiles, GitView
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from saltwisted.worker.git import repository, work
from tests.contracts.test_gitfiles import GitSourceTestCase
from tests.gitrepos import fetch_request


class PinTestCase(GitSourceTestCase):
    """A source at a first commit."""

    def setUp(self) -> None:
        """Serve it."""
        super().setUp()
        self.now = 0.0
        self.remote = self.repo()
        self.first = self.remote.commit({"a": b"1", "large": b"1" * 100_000})
        self.source = self.serving(self.remote, name="states")
        self.newest = self.source.view
        self.pins = self.made()

    def made(self) -> CommitPins:
        """As after a start: what is on the disk is known."""
        path = f"{self.folder}/generations"
        earlier = EarlierCommits(path, self.source, maybeDeferred, lambda: self.now + 5.0)
        self.source.show(self.newest)
        return CommitPins(
            self.server(self.source), self.source, self.server, lambda: self.now, earlier
        )

    def server(self, source: Any) -> FileServer:
        """A file server over a source."""
        return FileServer([source], MasterConfig(), maybeDeferred)

    def push(self) -> str:
        """A second commit is served."""
        commit = self.remote.commit({"a": b"2", "large": b"2" * 100_000, "b": b""})
        self.newest = GitView([self.fetched(self.remote, name="states")])
        self.source.show(self.newest)
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


class RecordedJobs:
    """C{IPinnedJobs}, with one answer."""

    def __init__(self, answer: Deferred[Any]) -> None:
        self._answer = answer

    def unfinished(self, since: float) -> Deferred[Any]:
        """What has not returned."""
        return self._answer


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

    def test_restart(self) -> None:
        """
        A minion that had not returned when this master ended gets the commits of its job after the
        next start; where these are not kept, the newest. A store that cannot be read keeps nobody
        from starting.
        """
        facts = self.begin("1")
        unfinished = [("1", facts, ["m"]), ("2", {"generation": "gone"}, ["n"])]
        self.push()
        self.pins = self.made()
        self.pins._jobs = RecordedJobs(succeed(unfinished))  # type: ignore[assignment]
        self.value(Deferred.fromCoroutine(self.pins.startService()))
        self.assertEqual((self.seen(), self.seen(minion="n")), (b"1", b"2"))
        self.pins.returned("1", "m")
        self.assertEqual(self.seen(), b"2")

        self.pins._jobs = RecordedJobs(fail(StoreError("cannot")))  # type: ignore[assignment]
        self.value(Deferred.fromCoroutine(self.pins.startService()))
        self.assertEqual(self.seen(), b"2")

    def test_packs(self) -> None:
        """
        Packs are made one while a job runs on a commit that nobody can reach any more: the job sees
        it to its end.
        """
        self.begin("1")
        before = self.newest.served[0]
        self.remote.git("checkout", "--quiet", "--orphan", "other")
        self.remote.git("rm", "--quiet", "-rf", ".")
        self.remote.commit({"a": b"2"})
        self.remote.git("branch", "--quiet", "-M", "other", "master")
        self.patch(repository, "MANY_PACKS", 1)
        request = fetch_request(before.folder, self.remote.url)
        state = work.fetch({**request, "keep": self.source.kept(before.folder)})["state"]
        old = before.repository.path
        before.repository.move(f"{before.folder}/{state['repo']}", state["large"])
        refs = {ref: Tip(*tip) for ref, tip in state["refs"].items()}
        self.source.show(GitView([evolve(before, refs=refs)]))
        self.assertNotEqual(old, before.repository.path)
        # The next fetch removes it
        shutil.rmtree(old)

        self.assertEqual((self.seen(), self.seen("large")), (b"1", b"1"))
        self.assertEqual(self.seen(minion="other"), b"2")

    def test_run(self) -> None:
        """
        What a run reads stays, however many generations come and go in it, and its jobs run on it;
        both no longer than that.
        """
        self.patch(history, "MOST", 1)
        folder = self.source.view.served[0].folder
        run, name = self.pins.still(), self.source.view.name
        self.remote.git("checkout", "--quiet", "--orphan", "other")
        self.remote.commit({"a": b"2"})
        self.remote.git("branch", "--quiet", "-M", "other", "master")
        self.newest = GitView([self.fetched(self.remote, name="states")])
        self.source.show(self.newest)

        self.assertIn(self.first, self.source.kept(folder))
        found = run.find("a")
        self.assertEqual(found and self.value(self.source.read(found, 0, 1)), b"1")
        for _ in range(3):
            self.push()
        # A restart, and a push before the run is gone on with
        self.pins = self.made()
        again = Deferred.fromCoroutine(self.pins.again(name))
        self.assertIsNotNone(self.successResultOf(again).find("a"))
        self.successResultOf(Deferred.fromCoroutine(self.pins.follow("1", "state.apply", name)))
        self.assertEqual(self.pins.facts("1", "state.apply")["generation"], name)
        del run, found, again
        gc.collect()
        self.now += history.USED
        self.push()
        self.assertNotIn(self.first, self.source.kept(folder))

    def test_long_job(self) -> None:
        """A job that has not returned is served its commits, however many others have run since."""
        self.patch(history, "MOST", 1)
        self.patch(commitpins, "MOST_VIEWS", 1)
        self.begin("1")
        name = self.source.view.name
        for number in range(2, 5):
            self.push()
            self.pins.facts(str(number), "state.apply")
            self.pins.published(str(number), ["other"])

        self.assertEqual(self.seen(), b"1")
        self.successResultOf(Deferred.fromCoroutine(self.pins.again(name)))
        self.pins.returned("1", "m")
        self.now += history.USED
        self.begin("5")
        gc.collect()
        self.push()
        gone = Deferred.fromCoroutine(self.pins.again(name))
        self.assertIn(name, str(self.failureResultOf(gone, DeniedError).value))

    def test_followed(self) -> None:
        """
        A run that is gone on with reads the commits of its generation, and so does a job of it;
        where they are no longer kept it does not go on.
        """
        name = self.source.view.name
        self.push()
        server = self.successResultOf(Deferred.fromCoroutine(self.pins.again(name)))
        found = server.find("a")
        self.assertEqual(self.value(self.source.read(found, 0, 1)), b"1")
        self.successResultOf(Deferred.fromCoroutine(self.pins.follow("1", "state.apply", name)))
        self.assertEqual(self.begin("1")["commits"], {"base": {"states": self.first}})
        self.assertEqual(self.seen(), b"1")

        gone = Deferred.fromCoroutine(self.pins.again("0123456789ab"))
        self.assertIn("0123456789ab", str(self.failureResultOf(gone, DeniedError).value))

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


class ViewTests(PinTestCase):
    """What a node of a cluster knows of the commits that it serves, and has served."""

    def setUp(self) -> None:
        """One of a cluster, with a copy that has one name for all nodes."""
        super().setUp()
        self.nodes: dict[str, GitFiles] = {}
        self.views = self.node("c")

    def node(self, name: str) -> CommitViews:
        """One of them, as after a start."""
        path = f"{self.folder}/{name}"
        source = GitFiles(self.folder, "sha256", maybeDeferred, lambda request: Deferred())
        earlier = EarlierCommits(path, source, maybeDeferred, lambda: 5.0)
        source.show(self.newest)
        copy: Any = SimpleNamespace(
            folder=self.newest.served[0].folder, is_pillar=False, shown="states"
        )
        copies: Any = SimpleNamespace(all=lambda: {"shared": copy}, view=lambda: source.view)
        self.nodes[name] = source
        return CommitViews(source, earlier, lambda: copies)

    def push(self) -> str:
        """All serve a second commit."""
        commit = super().push()
        for source in self.nodes.values():
            source.show(self.newest)
        return commit

    def test_made_is_learnt(self) -> None:
        """
        Another node makes the same of a commit that was never served, and so does its next life;
        without that commit it does not pretend to have it.
        """
        other = self.node("d")
        between = self.remote.commit({"a": b"between"})
        self.push()
        digest = self.views.find(between)
        content = self.views.content(digest)
        assert content is not None
        self.assertFalse(other.has(digest))
        other.learn(digest, content)
        self.push()
        for node in (self.views, other, self.node("c"), self.node("d")):
            self.assertEqual(node.told(digest)["base"], {"states": between})
        self.assertFalse(self.node("e").has(digest))

        lacking = {"shared": {**content["shared"], "base": "1" * 40}}
        with self.assertRaisesRegex(NotKept, "states does not have commit 1111"):
            other.learn(b"1" * 32, lacking)
        self.assertFalse(other.has(b"1" * 32))

    def test_was_served(self) -> None:
        """What was served may be rolled back to, and what never was may not."""
        unseen = self.remote.commit({"a": b"unseen"})
        before = self.views.digest
        self.push()

        self.assertEqual(self.views.find(self.first), before)
        self.assertTrue(self.views.was_served(before))
        self.assertTrue(self.views.was_served(self.views.digest))
        self.assertFalse(self.views.was_served(self.views.find(unseen)))
        self.assertFalse(self.views.was_served(b"0" * 32))


class EarlierTests(PinTestCase):
    """A job that is to run on an earlier tree."""

    def choose(self, jid: str, wanted: str, fun: str = "state.apply") -> Any:
        """A job of one minion; what its record says more."""
        self.successResultOf(Deferred.fromCoroutine(self.pins.choose(jid, fun, wanted, [])))
        return self.begin(jid, fun)

    def refused(self, wanted: str, fun: str = "state.apply") -> str:
        """Why it is not run."""
        choosing = Deferred.fromCoroutine(self.pins.choose("9", fun, wanted, []))
        return str(self.failureResultOf(choosing, DeniedError).value)

    def test_generation(self) -> None:
        """By the name of a generation, or a commit of it: its minion sees that, others do not."""
        before = self.source.view.name
        second = self.push()
        for jid, wanted in (("1", before), ("2", self.first), ("3", self.first[:7].upper())):
            facts = self.choose(jid, wanted)
            self.assertEqual(facts["generation"], before)
            self.assertEqual(facts["commits"], {"base": {"states": self.first}})
            self.assertEqual((self.seen(), self.seen("large"), self.seen("b")), (b"1", b"1", None))
            self.assertEqual(self.seen(minion="other"), b"2")
            self.pins.returned(jid, "m")
            self.assertEqual(self.seen(), b"2")
        self.assertEqual(self.choose("4", second)["commits"], {"base": {"states": second}})

    def test_commit_of_other_refs(self) -> None:
        """
        A commit means the newest generation whose base it was, though tags and branches are still
        there; one that was never base is that for the job; one that a branch has left is found.
        """
        self.remote.git("branch", "left", self.first)
        self.remote.git("tag", "v1", self.first)
        self.push()
        dev = self.remote.commit({"a": b"dev"})
        self.remote.git("branch", "dev", dev)
        self.remote.git("reset", "--quiet", "--hard", "HEAD~1")
        self.newest = GitView([self.fetched(self.remote, name="states")])
        self.source.show(self.newest)

        facts = self.choose("1", self.first)
        self.assertEqual(facts["commits"]["base"], {"states": self.first})
        self.assertEqual(self.seen(), b"1")
        self.pins.returned("1", "m")
        facts = self.choose("2", dev)
        self.assertEqual(facts["commits"]["base"], {"states": dev})
        self.assertEqual(facts["commits"]["left"], {"states": self.first})
        self.pins.returned("2", "m")
        with self.assertRaisesRegex(DeniedError, "this node has never served it"):
            self.pins.earlier.roll_back(dev)
        (row,) = self.pins.earlier.roll_back(self.first)
        self.assertEqual((self.seen(), row["changed"] > 0), (b"1", True))
        self.pins.earlier.roll_back(self.newest.name)

        self.remote.git("branch", "--force", "dev", "master")
        self.source.show(GitView([self.fetched(self.remote, name="states")]))
        facts = self.choose("3", dev)
        self.assertEqual(facts["commits"]["dev"], {"states": dev})
        self.assertNotEqual(facts["commits"]["base"], {"states": dev})

    def test_signed_commit_of_other_refs(self) -> None:
        """T-GIT-7: a commit that was never base is that for a job only if it is signed."""
        self.push()
        unsigned = self.remote.commit({"a": b"unsigned"})
        self.remote.git("branch", "odd", unsigned)
        dev = self.remote.commit({"a": b"dev"})
        self.remote.git("branch", "dev", dev)
        self.remote.git("reset", "--quiet", "--hard", "HEAD~2")
        newest = self.fetched(self.remote, name="states", verify="gpg", verify_keyring="/k")
        refs = {ref: tip for ref, tip in newest.refs.items() if tip.commit != unsigned}
        good = frozenset(tip.commit for tip in refs.values())
        self.source.show(GitView([evolve(newest, refs=refs, signed=good)]))

        self.assertEqual(self.choose("1", dev)["commits"]["base"], {"states": dev})
        self.assertEqual(self.seen(), b"d")
        self.pins.returned("1", "m")
        self.assertIn("only what is signed may be", self.refused(unsigned))

    def test_older_job_is_told(self) -> None:
        """
        Who is served for an older job until that returns is named: a minion's requests do not say
        which job they are for.
        """
        before = self.source.view.name
        self.push()
        self.begin("1")
        choosing = self.pins.choose("2", "state.apply", before, ["m", "other"])
        self.assertEqual(self.successResultOf(Deferred.fromCoroutine(choosing)), ["m"])
        self.begin("2")
        self.assertEqual(self.seen(), b"2")
        self.pins.returned("1", "m")
        self.assertEqual(self.seen(), b"1")

    def test_signed(self) -> None:
        """Where only signed commits count, no earlier generation brings in others."""
        signed = frozenset([self.first])
        self.source.show(GitView([evolve(self.newest.served[0], signed=signed)]))
        before = self.source.view.name
        self.remote.commit({"a": b"2"})
        newest = self.fetched(self.remote, name="states")
        self.source.show(GitView([evolve(newest, signed=signed)]))
        (then,) = self.pins.earlier.find(before).served
        self.assertEqual(then.signed, signed)

        # Who had signed it is no longer among those who may
        self.source.show(GitView([evolve(newest, signed=frozenset())]))
        self.assertIn("is not among those that were found signed", self.refused(before))

    def test_after_start(self) -> None:
        """Another life of the master knows the generations of those before it."""
        before = self.source.view.name
        self.push()
        self.pins = self.made()

        self.assertEqual(self.choose("1", before)["generation"], before)
        self.assertEqual(self.seen(), b"1")
        Path(self.folder, "generations").write_bytes(b"\xc1 damaged")
        self.pins = self.made()
        self.assertIn("has no generation", self.refused(before))

    def test_no_credentials(self) -> None:
        """
        Neither what is written down nor the log of generations has the credentials of a remote,
        also when it is gone; what an earlier version has written down goes on without them.
        """
        url = "https://fred:sesame@git.example.org/x?token=sesame"
        (served,) = self.newest.served
        remote = GitRemote(id=url, url=url)
        self.newest = GitView([evolve(served, remote=remote)])
        self.pins = self.made()
        name, path = self.newest.name, Path(self.folder, "generations")
        data = path.read_bytes()
        self.assertNotIn(b"sesame", data)
        self.assertIn(b"git.example.org", data)
        # As it was written down before
        old = unpack_bin(data)
        for row in old["generations"]:
            row[1] = {url if "example" in key else key: each for key, each in row[1].items()}
        path.write_bytes(pack_bin(old))
        self.pins = self.made()
        self.push()
        rows = self.pins.earlier.log_rows(10)
        self.assertIn(f"{key_of_entry(url)} is gone", str(rows))
        self.assertNotIn("sesame", str(rows))
        self.assertNotIn(b"sesame", path.read_bytes())
        self.source.show(GitView([evolve(self.newest.served[0], remote=remote)]))
        self.assertNotEqual(self.source.view.name, name)
        self.assertEqual(self.pins.earlier.find(name).name, name)

    def test_rolled_back(self) -> None:
        """
        What an operator rolls back is served to all, also after a restart, until something new is
        pushed; the log says so. The newest is a generation to which one may go, too.
        """
        before = self.source.view.name
        second = self.push()
        newest = self.source.view.name
        for wanted in (before, self.first[:8]):
            rows = self.pins.earlier.roll_back(wanted)
            self.assertEqual(rows, [{"share": "states", "to": wanted, "changed": 1}])
            self.assertEqual((self.seen(), self.source.view.name), (b"1", before))
        self.pins = self.made()
        self.assertEqual((self.seen(), self.source.view.name), (b"1", before))
        top, *rest = self.pins.earlier.log_rows(9)
        self.assertEqual((top["generation"], top["at"]), (before, 5.0))
        self.assertEqual(top["note"], f"rolled back: states. states: master {self.first[:12]}")
        self.assertEqual([row["generation"] for row in rest], [newest, before])

        self.pins.earlier.roll_back(newest)
        self.assertEqual(self.seen(), b"2")
        self.pins.earlier.roll_back(before)
        self.push()
        self.assertEqual(self.seen("b"), b"")
        self.assertEqual(self.source.view.served[0].refs, self.newest.served[0].refs)
        self.pins = self.made()
        self.assertNotIn("rolled back", self.pins.earlier.log_rows(1)[0]["note"])
        with self.assertRaisesRegex(DeniedError, "'nothing': this master has no generation"):
            self.pins.earlier.roll_back("nothing")
        self.assertNotEqual(second, self.first)

    def test_never_served(self) -> None:
        """Of two commits that came together the older is known as well, as environment base."""
        between = self.remote.commit({"a": b"between"})
        self.push()

        facts = self.choose("1", between[:10])

        self.assertEqual(facts["commits"]["base"], {"states": between})
        self.assertEqual(self.seen(), b"b")
        self.assertEqual(self.seen(minion="other"), b"2")

    def restarted(self, *unfinished: Any) -> None:
        """Another life of the master, by whose records these jobs have not returned."""
        self.pins = self.made()
        self.pins._jobs = RecordedJobs(succeed(unfinished))  # type: ignore[assignment]
        self.value(Deferred.fromCoroutine(self.pins.startService()))

    def test_never_served_goes_on(self) -> None:
        """
        A job on a commit that was never served is served it after a restart, too, and after more
        generations than are kept; the name of its generation can be asked for as any other, until
        it is no longer needed.
        """
        self.patch(history, "MOST", 2)
        self.patch(made, "MOST", 2)
        self.patch(commitpins, "MOST_VIEWS", 1)
        between = self.remote.commit({"a": b"between"})
        self.push()
        facts = self.choose("1", between[:10])
        name = facts["generation"]
        for _ in range(4):
            self.push()
        self.restarted(("1", facts, ["m"]))
        self.assertEqual((self.seen(), self.seen(minion="other")), (b"b", b"2"))
        for _ in range(4):
            self.push()
            self.choose("x", self.newest.name)
            self.pins.returned("x", "m")
        self.assertEqual(self.seen(), b"b")
        self.assertIn(between, self.source.kept(self.source.view.served[0].folder))
        self.pins.returned("1", "m")
        again = self.choose("2", name)
        self.assertEqual((again["generation"], again["commits"]), (name, facts["commits"]))
        self.assertEqual(self.seen(), b"b")

        self.pins.returned("2", "m")
        self.choose("3", self.newest.name)
        gc.collect()
        for _ in range(4):
            self.now += history.USED
            self.push()
        self.assertIn("keeps it no longer", self.refused(name))

    def test_never_served_is_on_disk(self) -> None:
        """Such a job does not begin before the disk has recorded what it runs on."""
        between = self.remote.commit({"a": b"between"})
        self.push()
        writing: list[Deferred[None]] = []

        def write(function: Any, *args: Any) -> Deferred[None]:
            writing.append(Deferred())
            return writing[-1].addCallback(lambda _: function(*args))

        self.pins.earlier._run = write
        choosing = Deferred.fromCoroutine(self.pins.choose("1", "state.apply", between, []))
        self.assertNoResult(choosing)
        writing[0].callback(None)

        self.successResultOf(choosing)
        name = self.begin("1")["generation"]
        self.pins = self.made()
        self.assertEqual(self.pins.earlier.find(name).name, name)

    def test_never_served_no_more(self) -> None:
        """
        T-GIT-7: after a restart it is refused by name if the commit is no longer there, or its
        signature no longer counts; what is written down wrongly is left out.
        """
        between = self.remote.commit({"a": b"between"})
        self.push()
        name = self.choose("1", between)["generation"]
        (served,) = self.newest.served
        good = frozenset(tip.commit for tip in served.refs.values())
        self.newest = GitView([evolve(served, signed=frozenset((*good, self.first, between)))])
        self.restarted()
        self.assertEqual(self.choose("2", name)["commits"]["base"], {"states": between})
        self.newest = GitView([evolve(served, signed=good)])
        self.restarted()
        self.assertIn("is not among those that were found signed", self.refused(name))

        self.newest = GitView([served])
        self.patch(served.repository, "commit", lambda prefix: None)
        self.restarted()
        self.assertIn(f"states keeps commit {between} no longer", self.refused(name))
        path = Path(self.folder, "generations")
        kept = unpack_bin(path.read_bytes())
        path.write_bytes(pack_bin({**kept, "made": [["x"], 5, [name, "x", 7]]}))
        self.restarted()
        self.assertIn("has no generation", self.refused(name))

    def test_refused(self) -> None:
        """What is not there, is no more, or would mean nothing is refused by its name."""
        before = self.source.view.name
        self.assertIn("'nothing': this master has no generation", self.refused("nothing"))
        self.assertIn("or commit of that name", self.refused("0123456789"))
        self.assertIn("a job of test.ping reads no files", self.refused(before, "test.ping"))

        self.remote.git("commit", "--quiet", "--amend", "-m", "other", GIT_COMMITTER_NAME="b")
        work_folder = self.source.view.served[0].folder
        shutil.rmtree(work_folder)
        self.source.show(GitView([self.fetched(self.remote, name="states")]))
        self.assertIn(f"states keeps commit {self.first} of refs/", self.refused(before))
        self.assertIn("keeps commit", self.refused(self.first))
