"""
C{POST /hook/git}: a git server says that somebody has pushed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.errors import ConfigError
from saltwisted.master.githooks import APART, GitHook
from saltwisted.master.gitupdates import NoGit
from tests.web.rig import ApiRig

SECRET = "a long secret"
PUSH = {
    "ref": "refs/heads/main",
    "repository": {
        "full_name": "ops/states",
        "clone_url": "https://git.example.org/ops/states.git",
        "ssh_url": "git@git.example.org:ops/states.git",
    },
}
"""What GitHub and Gitea tell, in short."""
REMOTES = ["git@git.example.org:ops/states.git", "https://git.example.org/other.git"]
PILLAR = [{"git": ["main https://bot@git.example.org/ops/states"]}]


def signed(body: bytes, secret: str = SECRET) -> str:
    """The signature of a body."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class HookTests(SynchronousTestCase):
    """By the API of a master."""

    def made(self, **options: Any) -> ApiRig:
        """A master whose remotes are asked by nobody."""
        self.asked: list[set[str]] = []
        self.patch(NoGit, "update", lambda _, names: self.asked.append(names) or succeed({}))
        return ApiRig(self, **{"gitfs_remotes": REMOTES, "gitfs_webhook_secret": SECRET, **options})

    def test_servers(self) -> None:
        """GitHub's and Gitea's signature, and GitLab's token, each have the remote fetched."""
        api = self.made()
        events: list[Any] = []
        api.rig.bus.subscribe("salt/netapi/", lambda tag, data: events.append((tag, data)))
        body = json.dumps(PUSH).encode()
        for proof in (
            {"X_Hub_Signature_256": f"sha256={signed(body)}"},
            {"X_Gitea_Signature": signed(body)},
            {"X_Gitlab_Token": SECRET},
        ):
            reply = api.ask("POST", "/hook/git", body=body, **proof)
            self.assertEqual((reply.status, reply.json), (200, {"success": True}))
            api.wait(2 * APART)

        self.assertEqual(self.asked, [{REMOTES[0]}] * 3)
        self.assertEqual({tag for tag, _ in events}, {"salt/netapi/hook/git"})
        self.assertNotIn(SECRET, repr(events))

    def test_wrong(self) -> None:
        """T-GIT-8: without a good proof nobody has anything fetched, logged in or not."""
        api = self.made()
        body = json.dumps(PUSH).encode()
        for proof in (
            {},
            {"X_Hub_Signature_256": "sha256=" + signed(body, "another secret")},
            {"X_Hub_Signature_256": "sha256=" + signed(body + b" ")},
            {"X_Hub_Signature": "sha1=" + signed(body)},
            {"X_Gitea_Signature": ""},
            {"X_Gitlab_Token": SECRET + "x"},
            {"X_Gitlab_Token": ""},
            {"X_Gitlab_Token": signed(body)},
        ):
            for token in ("", api.login()):
                reply = api.ask("POST", "/hook/git", body=body, token=token, **proof)
                self.assertEqual(reply.status, 401, proof)
        for path in ("/hook//git", "/hook/git/", "/hook/%67it", "/hook/./git"):
            reply = api.ask("POST", path, body=body, token=api.login())
            self.assertIn(reply.status, (400, 401, 404), path)
        api.wait(2 * APART)

        self.assertEqual(self.asked, [])

    def test_no_secret(self) -> None:
        """T-GIT-8: where no secret is configured, such a hook is an event like any other."""
        api = self.made(gitfs_webhook_secret="")
        body = json.dumps(PUSH).encode()

        self.assertEqual(api.ask("POST", "/hook/git", body=body, X_Gitlab_Token="").status, 401)
        self.assertEqual(api.ask("POST", "/hook/git", body=body, token=api.login()).status, 200)
        api.wait(2 * APART)
        self.assertEqual(self.asked, [])

    def test_rule(self) -> None:
        """A rule of C{webhook_signatures} for C{git} is proof as well, and is needed beside it."""
        api = self.made(block={"webhook_signatures": {"git": "another secret"}})
        body = json.dumps(PUSH).encode()
        other = {"X_Hub_Signature_256": "sha256=" + signed(body, "another secret")}

        self.assertEqual(api.ask("POST", "/hook/git", body=body, **other).status, 401)
        both = {**other, "X_Gitlab_Token": SECRET}
        self.assertEqual(api.ask("POST", "/hook/git", body=body, **both).status, 200)
        self.assertEqual(len(self.asked), 1)

    def test_short_secret(self) -> None:
        """A secret that can be guessed is refused at the start."""
        with self.assertRaisesRegex(ConfigError, "eight or more"):
            self.made(gitfs_webhook_secret="short")


class Git:
    """Remotes that take their time."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.waiting: list[Deferred[Any]] = []

    def update(self, names: Any = None) -> Deferred[Any]:
        """Fetch those of C{gitfs}."""
        self.asked.append(names)
        self.waiting.append(Deferred())
        return self.waiting[-1]

    async def update_pillars(self, branch: Any = None, repo: Any = None) -> dict[str, Any]:
        """Fetch those of pillar."""
        self.asked.append(repo)
        return {}

    def status(self) -> dict[str, Any]:
        """Nothing."""
        return {}


class FetchTests(SynchronousTestCase):
    """What is fetched, and how often."""

    def setUp(self) -> None:
        """Two remotes, and one of pillar."""
        self.git, self.clock = Git(), Clock()
        config = MasterConfig(gitfs_remotes=REMOTES, ext_pillar=PILLAR)
        self.hook = GitHook(self.clock, config, self.git)

    def test_meant(self) -> None:
        """The remotes of the repository are fetched, files as well as pillar, and no others."""
        self.hook.pushed(PUSH)

        pillar = "https://bot@git.example.org/ops/states"
        self.assertEqual(self.git.asked, [pillar, {REMOTES[0]}])

    def test_unknown(self) -> None:
        """All are fetched where the body names none of them, or is none."""
        for body in ({"repository": {"clone_url": "https://h/x"}}, None, [], "x", {"payload": "["}):
            self.git.asked.clear()
            self.hook.pushed(body)
            self.assertIn(set(REMOTES), self.git.asked, body)
            self.git.waiting.pop().callback({})
            self.clock.advance(APART)

    def test_again(self) -> None:
        """
        T-GIT-8: a hook that is sent again and again has one fetch follow the other, a second apart.
        """
        for _ in range(100):
            self.hook.pushed(PUSH)
        self.assertEqual(len(self.git.waiting), 1)
        self.git.waiting[0].callback({})
        self.assertEqual(len(self.git.waiting), 1)
        self.clock.advance(APART)
        self.assertEqual(len(self.git.waiting), 2)
        self.git.waiting[1].callback({})
        self.clock.advance(APART)

        self.assertEqual(len(self.git.waiting), 2)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_failed(self) -> None:
        """A fetch that fails is no reason not to begin the next."""
        self.hook.pushed(PUSH)
        self.git.waiting[0].errback(ValueError("gone"))
        self.hook.pushed(PUSH)
        self.clock.advance(APART)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

        self.assertEqual(len(self.git.waiting), 2)
