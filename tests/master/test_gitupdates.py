"""
Who has remotes fetched, when, and what is told of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred, succeed
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.git import GitRemote
from saltwisted.config.gitpillar import PillarRemote
from saltwisted.config.options import MasterConfig
from saltwisted.errors import RemoteError
from saltwisted.master.gitcopies import key_of
from saltwisted.master.gitfirst import BESIDE, FIRST, FirstFetches
from saltwisted.master.gitupdates import (
    EVENT,
    FETCH_ENTRY,
    REFUSED_EVENT,
    GitUpdates,
    Watched,
)
from saltwisted.master.seams import LoneGit
from saltwisted.stores.git.source import GitFiles
from tests.harness import scratch

MASTER = "refs/remotes/origin/master"


def state(commit: str, branch: str = "master", repo: str = "repo.1") -> dict[str, Any]:
    """What a worker says of a repository with one branch."""
    tip = [commit * 40] * 3
    return {"repo": repo, "refs": {f"refs/remotes/origin/{branch}": tip}, "large": {}, "at": 1.0}


class Worker:
    """Answers when the test says; remembers what it was asked."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.fetches: list[tuple[dict[str, Any], Deferred[Any]]] = []

    def call(self, entry: str, payload: Any, timeout: float) -> Deferred[Any]:
        """A request."""
        if entry != FETCH_ENTRY:
            return succeed({"states": dict.fromkeys(payload["folders"], self.known)})
        answer: Deferred[Any] = Deferred()
        self.fetches.append((payload, answer))
        return answer

    def urls(self) -> list[str]:
        """Of fetches that are not answered yet."""
        return [request["url"] for request, _ in self.fetches]

    def answer(self, url: str, value: Any) -> None:
        """Answer the first that waits."""
        for number, (request, answer) in enumerate(self.fetches):
            if request["url"] == url:
                del self.fetches[number]
                answer.errback(value) if isinstance(value, Exception) else answer.callback(value)
                return
        raise AssertionError(f"nobody fetches {url}")


class UpdatesTestCase(SynchronousTestCase):
    """A service with two remotes."""

    remotes: Any = ("/one", {"/two": [{"name": "second"}, {"mountpoint": "m"}]})

    def setUp(self) -> None:
        """Not started yet."""
        self.clock = Clock()
        self.worker = Worker()
        self.events: list[tuple[str, Any]] = []
        self.counters: Counter[str] = Counter()
        self.config = MasterConfig(cachedir=scratch(self), gitfs_remotes=list(self.remotes))
        self.source = GitFiles("/c", "sha256", maybeDeferred, lambda request: succeed({}))
        self.updates = GitUpdates(
            self.clock,
            self.config,
            self.source,
            self.worker,
            lambda tag, data: self.events.append((tag, data)),
            self.counters,
            self.clock.seconds,
            lambda: 0.5,
            self.sharing(),
        )
        self.addCleanup(self.updates.stopService)

    def sharing(self) -> Any:
        """A master alone."""
        return LoneGit()

    def start(self) -> Deferred[Any]:
        """Start it, and wait for what is new."""

        async def start() -> None:
            await self.updates.startService()
            await FirstFetches(self.clock, self.updates).startService()

        return ensureDeferred(start())

    def started(self, *urls: str) -> None:
        """Started, and these remotes have come."""
        begun = self.start()
        for url in urls or ("/one", "/two"):
            self.worker.answer(url, {"state": state("a")})
        self.clock.advance(1)
        self.successResultOf(begun)


class StartTests(UpdatesTestCase):
    """The start."""

    def test_first(self) -> None:
        """A start waits until new remotes have come, and serves them then."""
        begun = self.start()
        self.assertNoResult(begun)
        self.worker.answer("/one", {"state": state("a")})
        self.assertEqual(self.source.envs(), ["base"])
        self.worker.answer("/two", {"state": state("b", "dev")})
        self.clock.advance(1)

        self.successResultOf(begun)
        self.assertEqual(self.source.envs(), ["base", "dev"])

    def test_dead(self) -> None:
        """A dead remote holds a start up for seconds, and no other remote (pains-next 3.10)."""
        begun = self.start()
        self.clock.pump([0.25] * 20)
        self.worker.answer("/one", {"state": state("a")})
        self.clock.pump([0.25] * 12)
        self.assertNoResult(begun)
        self.clock.pump([0.25] * 2)

        self.successResultOf(begun)
        self.assertEqual(self.source.envs(), ["base"])
        self.assertEqual(self.worker.urls(), ["/two"])

    def test_excess(self) -> None:
        """
        T-COST-2: what is too much in a repository is logged once, and stands in the status, with
        the name of the remote, until it serves something else.
        """
        self.started()
        folder = self.updates.copies.watched[key_of(GitRemote(id="/one", url="/one"))].folder
        with capturedLogs() as logs:
            for text in ("too long", "too long", *map(str, range(100))):
                self.source._exceeded(folder, text)

        told = [formatEvent(event) or "" for event in logs]
        self.assertEqual(told[0], "gitfs: /one: too long")
        self.assertEqual(len(told), 20)
        self.assertEqual(self.updates.status()["remotes"]["/one"]["excess"][0], "too long")
        self.assertEqual(self.updates.status()["remotes"]["second"]["excess"], [])
        self.assertIn("/one: too long; 0; 1; 2; 3; and 15 more", self.updates.problem)

        _ = self.updates.update()
        self.worker.answer("/one", {"state": state("c")})
        self.assertEqual(self.updates.problem, "")

    def test_said(self) -> None:
        """
        The service itself is up at once. A remote that says nothing is named before it fails, and
        no longer when it has come.
        """
        self.successResultOf(ensureDeferred(self.updates.startService()))
        self.worker.answer("/one", {"state": state("a")})
        found = [self.updates.problem]
        self.clock.advance(BESIDE)
        found.append(self.updates.problem)
        self.worker.answer("/two", {"state": state("b")})
        found.append(self.updates.problem)

        self.assertEqual(found, ["", "second: not fetched yet, after 3 s", ""])

    def test_all_dead(self) -> None:
        """Where nothing can be served the start waits longer, and not for ever."""
        begun = self.start()
        self.clock.pump([0.25] * int(FIRST * 4 - 1))
        self.assertNoResult(begun)
        self.clock.pump([0.25] * 2)
        self.successResultOf(begun)

    def test_files_and_pillar(self) -> None:
        """Files alone are as little use to a minion as pillar alone: both are waited for."""
        self.config.adopt(self.config.evolve(ext_pillar=[{"git": ["master /p"]}]), ["ext_pillar"])
        begun = self.start()
        self.worker.answer("/p", {"state": state("a")})
        self.clock.pump([0.25] * 40)
        self.assertNoResult(begun)
        self.worker.answer("/one", {"state": state("a")})
        self.clock.pump([0.25] * 14)
        self.successResultOf(begun)

    def test_black_hole(self) -> None:
        """
        Nothing waits for a remote that takes a connection and says nothing: neither the rounds of
        the others, nor commands for them, nor what is told of all; and it is asked once at a time
        (pains-next 3.10).
        """
        pillars = [{"git": ["master /p", "master /hole"]}]
        self.config.adopt(
            self.config.evolve(gitfs_remotes=["/hole", "/one"], ext_pillar=pillars),
            ["gitfs_remotes", "ext_pillar"],
        )
        begun = self.start()
        for url in ("/one", "/p"):
            self.worker.answer(url, {"state": state("a")})
        self.clock.pump([0.25] * 14)
        self.successResultOf(begun)
        holes = ["/hole", "/hole"]
        for number in range(100):
            self.assertEqual(self.worker.urls(), holes)
            self.clock.advance(60.0)
            self.assertEqual(sorted(self.worker.urls()), [*holes, "/one", "/p"])
            self.worker.answer("/one", {"state": state("ab"[number % 2])})
            self.worker.answer("/p", {"state": state("ab"[number % 2])})
            self.assertEqual(
                self.updates.status()["remotes"]["/one"]["fetched"], self.clock.seconds()
            )
        files = ensureDeferred(self.updates.update(["/one"]))
        pillar = ensureDeferred(self.updates.update_pillars(repo="/p"))
        self.assertEqual(sorted(self.worker.urls()), [*holes, "/one", "/p"])
        self.worker.answer("/one", {"state": state("c")})
        self.worker.answer("/p", {"state": state("c")})
        self.assertTrue(self.successResultOf(files)["/one"]["changed"])
        self.assertEqual(self.successResultOf(pillar), {"master /p": True})
        self.updates.reconfigure()
        self.config.adopt(self.config.evolve(gitfs_remotes=["/hole", "/new"]), ["gitfs_remotes"])
        self.updates.reconfigure()
        self.worker.answer("/new", {"state": state("a", "dev")})
        self.assertEqual(self.source.envs(), ["dev"])
        self.assertEqual(self.worker.urls(), holes)

    def test_new_and_dead(self) -> None:
        """Where others are served already, one that is dead and new holds up a start less long."""
        self.worker.known = state("a", "old")
        real = self.worker.call

        def call(entry: str, payload: Any, timeout: float) -> Any:
            answer = real(entry, payload, timeout)
            if payload["do"] == "states":
                known = self.successResultOf(answer)["states"]
                last = payload["folders"][-1]
                return succeed({"states": {**known, last: {}}})
            return answer

        self.patch(self.worker, "call", call)
        begun = self.start()
        self.clock.pump([0.25] * int(BESIDE * 4 - 1))
        self.assertNoResult(begun)
        self.clock.pump([0.25] * 2)

        self.successResultOf(begun)
        self.assertEqual(self.source.envs(), ["old"])

    def test_known(self) -> None:
        """What was fetched before a restart is served at once, before any remote has answered."""
        self.worker.known = state("a", "old")

        self.successResultOf(self.start())

        self.assertEqual(self.source.envs(), ["old"])


class PaceTests(UpdatesTestCase):
    """When remotes are asked."""

    def test_interval(self) -> None:
        """Each remote is asked again after its interval, and never twice at a time."""
        self.started()
        self.assertEqual(self.worker.urls(), [])
        self.clock.advance(61)
        self.assertEqual(self.worker.urls(), ["/one", "/two"])
        self.clock.advance(600)
        self.assertEqual(self.worker.urls(), ["/one", "/two"])

    def test_failures(self) -> None:
        """One that fails is asked ever later, is named, and what it had is served."""
        self.started()
        for pause in (60, 120, 240):
            self.clock.advance(pause + 1)
            self.worker.answer("/one", {"error": "gone"})
            if "/two" in self.worker.urls():
                self.worker.answer("/two", {"state": state("a")})

        self.assertEqual(self.source.envs(), ["base"])
        self.assertIn("/one: gone (its last good commits are served)", self.updates.problem)
        self.assertEqual(self.updates.status()["remotes"]["/one"]["failures"], 3)
        self.assertEqual(self.counters["git:failed"], 3)
        self.clock.advance(479)
        self.assertNotIn("/one", self.worker.urls())
        self.clock.advance(2)
        self.worker.answer("/one", {"state": state("b")})
        self.assertEqual(self.updates.problem, "")

    def test_away_for_a_day(self) -> None:
        """A remote that is away for a day is asked every quarter of an hour, and told once."""
        self.started()
        asked = 0
        with capturedLogs() as logs:
            for _ in range(24 * 60):
                self.clock.advance(60)
                for url in self.worker.urls():
                    asked += url == "/one"
                    away = {"error": "no route to host"}
                    self.worker.answer(url, away if url == "/one" else {"state": state("a")})
            lines = [formatEvent(each) for each in logs if each["log_level"] is LogLevel.error]

        self.assertTrue(90 <= asked <= 110, asked)
        self.assertEqual(len(lines), 1, lines)
        self.assertEqual(self.source.envs(), ["base"])
        self.assertIn("its last good commits are served", self.updates.problem)
        self.clock.advance(1000)
        self.worker.answer("/one", {"state": state("b")})
        self.assertEqual(self.updates.problem, "")
        self.assertIn("/one", self.updates.status()["remotes"])

    def test_worker_dies(self) -> None:
        """A worker that dies, or gives no answer, is a failure as any other."""
        self.started()
        self.clock.advance(61)
        self.worker.answer("/one", RemoteError("WorkerDied", "killed"))

        self.assertIn("killed", self.updates.problem)
        self.clock.advance(121)
        self.assertIn("/one", self.worker.urls())

    def test_never(self) -> None:
        """With an interval of 0 only somebody's word has a remote asked (pains-next 3.12)."""
        self.config.adopt(self.config.evolve(gitfs_update_interval=0), ["gitfs_update_interval"])
        self.started()
        self.clock.advance(1e6)
        self.assertEqual(self.worker.urls(), [])
        _ = self.updates.update()
        self.assertEqual(self.worker.urls(), ["/one", "/two"])


class UpdateTests(UpdatesTestCase):
    """Somebody's word."""

    def test_answer(self) -> None:
        """
        Who asks hears of the commits of each ref, before and after, and an event says it
        (pains-next 3.12).
        """
        self.started()
        asked = maybeDeferred(self.updates.update, ["second"])
        self.worker.answer("/two", {"state": state("b")})

        found = self.successResultOf(asked)

        change = {MASTER: ["a" * 40, "b" * 40]}
        self.assertEqual(found, {"second": {"changed": change, "refs": {MASTER: "b" * 40}}})
        tag, data = self.events[-1]
        self.assertEqual((tag, data["remote"], data["refs"]), (EVENT, "second", change))

    def test_nodes(self) -> None:
        """In a cluster the answer and the event say which nodes serve it (pains-next 3.12)."""
        self.started()
        nodes = {"a": True, "b": False}

        def fetch(shared: str, damaged: bool, ask: Any) -> Any:
            return succeed({"state": state("b"), "nodes": nodes})

        self.patch(self.updates._sharing, "fetch", fetch)
        found = self.successResultOf(maybeDeferred(self.updates.update, ["second"]))

        change = {MASTER: ["a" * 40, "b" * 40]}
        self.assertEqual(found["second"]["nodes"], nodes)
        tag, data = self.events[-1]
        self.assertEqual((tag, data["refs"], data["nodes"]), (EVENT, change, nodes))

    def test_nothing_new(self) -> None:
        """Nothing new is no change and no event."""
        self.started()
        self.events.clear()
        asked = maybeDeferred(self.updates.update, ["/one"])
        self.worker.answer("/one", {"state": state("a")})

        self.assertEqual(self.successResultOf(asked)["/one"]["changed"], {})
        self.assertEqual(self.events, [])

    def test_mark(self) -> None:
        """
        The mark of a fetch is given to the next one; after a failure there is none. What has to be
        kept is said only where a repository may be made anew.
        """
        self.started()
        self.source.on_keep(lambda folder: ["k" * 40])

        def asked(answer: Any) -> tuple[Any, ...]:
            maybeDeferred(self.updates.update, ["/one"])
            ((request, _),) = self.worker.fetches
            self.worker.answer("/one", answer)
            known = request["repo"], request["mark"], request["one"]
            return (*known, "k" * 40 in request["keep"])

        same = {"same": True, "mark": b"m", "many": False}
        found = [asked(same), asked(same), asked(RemoteError("WorkerDied", "died")), asked(same)]
        found += [asked({**same, "many": True}), asked(same)]

        self.assertEqual(
            found,
            [
                ("repo.1", b"", True, True),
                ("repo.1", b"m", False, False),
                ("repo.1", b"m", False, False),
                ("repo.1", b"", False, False),
                ("repo.1", b"m", False, False),
                ("repo.1", b"m", True, True),
            ],
        )

    def test_after_the_push(self) -> None:
        """Who asks while a fetch runs waits for one that begins later; all who do share it."""
        self.started()
        first = maybeDeferred(self.updates.update, ["/one"])
        later = [maybeDeferred(self.updates.update, ["/one"]) for _ in range(3)]
        self.worker.answer("/one", {"state": state("a")})
        self.successResultOf(first)
        for each in later:
            self.assertNoResult(each)
        self.assertEqual(self.worker.urls(), ["/one"])
        self.worker.answer("/one", {"state": state("b")})

        for each in later:
            self.assertEqual(self.successResultOf(each)["/one"]["refs"], {MASTER: "b" * 40})
        self.assertEqual(self.worker.urls(), [])

    def test_error(self) -> None:
        """Who asks hears why a remote failed, and what of the others."""
        self.started()
        asked = maybeDeferred(self.updates.update)
        self.worker.answer("/one", {"error": "gone"})
        self.worker.answer("/two", {"state": state("b")})

        found = self.successResultOf(asked)

        self.assertEqual(found["/one"]["error"], "gone")
        self.assertEqual(found["/one"]["refs"], {MASTER: "a" * 40})
        self.assertNotIn("error", found["second"])

    def test_damaged(self) -> None:
        """A damaged repository is made anew, once, however often somebody meets the damage."""
        self.started()
        folder = self.source.view.served[0].folder
        for _ in range(5):
            self.source._tell(folder)

        ((request, _),) = self.worker.fetches

        self.assertEqual((request["url"], request["fresh"]), ("/one", True))
        self.worker.answer("/one", {"state": state("a", repo="repo.2")})
        self.assertEqual(self.worker.urls(), [])
        self.assertTrue(self.source.view.served[0].repository.path.endswith("repo.2"))


class ReloadTests(UpdatesTestCase):
    """Remotes and mappings at runtime."""

    def reload(self, **options: Any) -> None:
        """New values."""
        self.config.adopt(self.config.evolve(**options), list(options))
        self.updates.reconfigure()

    def test_remotes(self) -> None:
        """
        A new remote is fetched, one that is gone is served no more, the others go on
        (pains-next 3.11).
        """
        self.started()
        self.reload(gitfs_remotes=["/one", "/three"])
        self.assertEqual(self.worker.urls(), ["/three"])
        self.worker.answer("/three", {"state": state("c", "dev")})

        self.assertEqual(self.source.envs(), ["base", "dev"])
        self.assertEqual(list(self.updates.status()["remotes"]), ["/one", "/three"])
        self.clock.advance(61)
        self.assertEqual(self.worker.urls(), ["/one", "/three"])

    def test_mapping(self) -> None:
        """A mapping that changes counts at once, without a fetch (pains-next 3.11)."""
        self.started()
        self.reload(gitfs_base="trunk")

        self.assertEqual(self.source.envs(), ["master"])
        self.assertEqual(self.worker.urls(), [])

    def test_wrong(self) -> None:
        """A remote that cannot work is named; the others are served."""
        self.started()
        self.reload(gitfs_remotes=["/one", "ext::sh -c x"])

        self.assertIn("is not a valid URL of a remote", self.updates.problem)
        self.assertEqual(self.source.envs(), ["base"])


class PillarTests(UpdatesTestCase):
    """Remotes of git pillar."""

    def setUp(self) -> None:
        """Two branches of one repository, and another one."""
        super().setUp()
        entries = ["master /p", "dev /p", {"main /q": [{"name": "other"}]}]
        self.config.adopt(self.config.evolve(ext_pillar=[{"git": entries}]), ["ext_pillar"])

    def test_fetched(self) -> None:
        """They are fetched in the background, a repository once, and are no environments."""
        begun = self.start()
        self.assertEqual(sorted(self.worker.urls()), ["/one", "/p", "/q", "/two"])
        for url in ("/one", "/p", "/q", "/two"):
            self.worker.answer(url, {"state": state("a", "dev" if url == "/p" else "master")})
        self.clock.advance(1)

        self.successResultOf(begun)
        self.assertEqual(self.source.envs(), ["base"])
        self.clock.advance(61)
        self.assertEqual(sorted(self.worker.urls()), ["/one", "/p", "/q", "/two"])

    def test_update(self) -> None:
        """Salt's answer for each entry: true, C{None}, or false; by branch, URL or name."""
        self.started("/one", "/two", "/p", "/q")
        asked = ensureDeferred(self.updates.update_pillars())
        self.worker.answer("/p", {"state": state("b")})
        self.worker.answer("/q", {"error": "gone"})
        self.assertEqual(
            self.successResultOf(asked), {"master /p": True, "dev /p": True, "main /q": False}
        )
        asked = ensureDeferred(self.updates.update_pillars("dev", "/p"))
        self.worker.answer("/p", {"state": state("b")})
        self.assertEqual(self.successResultOf(asked), {"dev /p": None})
        asked = ensureDeferred(self.updates.update_pillars(None, "other"))
        self.assertEqual(self.worker.urls(), ["/q"])
        nobody = ensureDeferred(self.updates.update_pillars("nosuch"))
        self.assertEqual(self.successResultOf(nobody), {})

    def test_password_in_url(self) -> None:
        """No answer has it: it goes into the record of the job, and to who may run runners."""
        entry = "main https://fred:sesame@h/p"
        self.config.adopt(self.config.evolve(ext_pillar=[{"git": [entry]}]), ["ext_pillar"])
        self.started("/one", "/two", "https://fred:sesame@h/p")
        asked = ensureDeferred(self.updates.update_pillars())
        self.worker.answer("https://fred:sesame@h/p", {"error": "gone"})
        self.assertEqual(self.successResultOf(asked), {"main https://h/p": False})

    def test_wrong(self) -> None:
        """An entry that cannot work is named."""
        wrong = [{"git": ["master ext::sh -c x"]}]
        self.config.adopt(self.config.evolve(ext_pillar=wrong), ["ext_pillar"])
        self.started()

        self.assertIn("is not a valid URL of a remote", self.updates.problem)


class SignedTests(UpdatesTestCase):
    """Refs that nobody has signed who may."""

    remotes = (
        {"/one": [{"verify": "gpg"}, {"verify_keyring": "/k"}, {"saltenv_blacklist": ["old*"]}]},
    )
    why = "has no OpenPGP signature"

    def state(self, *refused: str, served: str = "a") -> dict[str, Any]:
        """The branch C{master} is served; these refs are refused."""
        rows = {f"refs/remotes/origin/{name}": ["f" * 40, self.why] for name in refused}
        return {**state(served), "refused": rows, "signed": ["a" * 40, "c" * 40]}

    def came(self, *refused: str, **answer: Any) -> None:
        """A fetch ends so."""
        self.worker.answer("/one", {"state": self.state(*refused), **answer})

    def test_asked(self) -> None:
        """A worker is told who may sign, and which commits are configured."""
        _ = self.start()
        (request, _), *_ = self.worker.fetches

        self.assertEqual(
            {name: request[name] for name in ("verify", "signers", "pins")},
            {"verify": "gpg", "signers": "/k", "pins": []},
        )

    def test_told(self) -> None:
        """T-GIT-7: a refused ref is in the answer, an event, the log and the status, once each."""
        with capturedLogs() as logs:
            _ = self.start()
            self.came("master", "dev")
            answer = self.updates.update(["/one"])
            self.came("master", "dev")
        found = self.successResultOf(answer)["/one"]["refused"]
        expected = {
            MASTER: {"commit": "f" * 40, "why": self.why, "serves": "a" * 40},
            "refs/remotes/origin/dev": {"commit": "f" * 40, "why": self.why, "serves": ""},
        }

        self.assertEqual(found, expected)
        events = [data for tag, data in self.events if tag == REFUSED_EVENT]
        self.assertEqual(events, [{"backend": "gitfs", "remote": "/one", "refs": expected}])
        self.assertEqual(self.updates.status()["remotes"]["/one"]["refused"], expected)
        self.assertEqual(self.counters["git:refused"], 2)
        text = (
            "/one: branch master is at ffffffffffff, which has no OpenPGP signature; its last good"
            " one, aaaaaaaaaaaa, is served; branch dev is at ffffffffffff, which has no OpenPGP"
            " signature; it is not served"
        )
        self.assertEqual(self.updates.problem, text)
        lines = [formatEvent(each) for each in logs if each["log_level"] is LogLevel.error]
        self.assertEqual(lines, [f"git: {text}"])

    def test_many(self) -> None:
        """Of many refused refs some are named, and the number of the others."""
        _ = self.start()
        with capturedLogs():
            self.came(*(f"b{number}" for number in range(30)))

        self.assertEqual(self.updates.problem.count("it is not served"), 5)
        self.assertTrue(self.updates.problem.endswith("; and 25 more"))

    def test_unwanted(self) -> None:
        """A ref that would be no environment is nobody's concern."""
        _ = self.start()
        self.came("old", "old/1")

        self.assertEqual((self.updates.problem, self.events[1:]), ("", []))

    def test_well_again(self) -> None:
        """A ref that is good again is told so, and one that is bad again is told anew."""
        with capturedLogs() as logs:
            _ = self.start()
            for refused in (("master",), (), ("master",)):
                self.came(*refused)
                self.clock.advance(61)

        texts = [formatEvent(each) for each in logs]
        self.assertEqual(sum("branch master is in order again" in text for text in texts), 1)
        self.assertEqual(self.counters["git:refused"], 2)

    def test_restart(self) -> None:
        """What was refused before a restart is told after it, before any remote has answered."""
        self.worker.known = self.state("master")
        with capturedLogs():
            self.successResultOf(self.start())

        self.assertIn("branch master is at ffffffffffff", self.updates.problem)

    def test_less(self) -> None:
        """T-GIT-7: what counts no more is served no more, though the remote is away."""
        with capturedLogs():
            _ = self.start()
            self.came()
            self.assertEqual(self.source.envs(), ["base"])
            self.clock.advance(61)
            less = {**self.state("master"), "refs": {}}
            self.worker.answer("/one", {"error": "gone", "state": less})

        self.assertEqual(self.source.envs(), [])
        self.assertIn("gone", self.updates.problem)

    def test_served_commits(self) -> None:
        """T-GIT-7: by its own name only a commit is served that was good."""
        _ = self.start()
        self.came()
        (served,) = self.source.view.served

        self.assertEqual(served.signed, {"a" * 40, "c" * 40})

    def test_pillar(self) -> None:
        """Of a remote of pillar the branches count that are its pillar."""
        found = {}
        for branch in ("main", "__env__", "other"):
            remote = PillarRemote(id="x", url="/x", branch=branch, verify="ssh")
            refs = {"refused": {"refs/remotes/origin/main": ["f" * 40, "x"]}, "repo": "r"}
            found[branch] = list(Watched("k", "/f", [remote], refs).refused)

        main = ["refs/remotes/origin/main"]
        self.assertEqual(found, {"main": main, "__env__": main, "other": []})


class KeyTests(SynchronousTestCase):
    """Where repositories are."""

    def test_own(self) -> None:
        """T-GIT-1: remotes that are reached in different ways never share a folder."""
        ways: list[dict[str, Any]] = [
            {}, {"user": "a"}, {"user": "b"}, {"privkey": "/k"}, {"refspecs": ("+a:refs/tags/a",)},
            {"verify": "gpg", "verify_keyring": "/k"}, {"verify": "gpg", "verify_keyring": "/l"},
            {"verify": "ssh", "verify_allowed_signers": "/k"},
        ]  # fmt: skip
        keys = [key_of(GitRemote(id="/r", url="/r", **way)) for way in ways]
        keys += [key_of(GitRemote(id="/s", url="/s"))]

        self.assertEqual(len(set(keys)), 9)
        self.assertEqual(keys[0], key_of(GitRemote(id="/r", url="/r", mountpoint="m", name="n")))
        self.assertTrue(all(key.isalnum() for key in keys))
