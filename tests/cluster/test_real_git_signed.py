"""
Real nodes that serve only what was signed, and are told by a git server that somebody has pushed.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import time
from typing import Any

from tests.cluster.gitrig import MASTER, GitNodesCase
from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.gitrepos import Repo
from tests.gitsigners import Signers
from tests.harness import reserve_ports, until, write_config

SECRET = "a long secret"


class SignedTests(GitNodesCase):
    """One remote whose commits are signed by OpenPGP, and one by SSH keys."""

    def setUp(self) -> None:
        """Nobody has signed the first commits."""
        super().setUp()
        self.signers = Signers(self)
        self.fred, self.anna = self.signers.openpgp("fred"), self.signers.ssh("anna")
        (self.api,) = reserve_ports(1)

    def defaults(self) -> dict[str, Any]:
        """Each remote with those who may sign it."""
        ssh = {"verify": "ssh", "verify_allowed_signers": self.signers.allowed(self.anna)}
        return {
            **super().defaults(),
            "gitfs_remotes": [
                self.url,
                {self.other: [{name: value} for name, value in ssh.items()]},
            ],
            "gitfs_verify": "gpg",
            "gitfs_verify_keyring": self.signers.keyring(self.fred),
            "gitfs_webhook_secret": SECRET,
        }

    def made_nodes(self) -> list[OurNode]:
        """Nodes with the API."""
        made = nodes(self, "a b c", **self.defaults())
        for node in made:
            api = {"port": self.api, "host": node.address, "disable_ssl": True}
            write_config(f"{node.conf}/master", {**node.options, "rest_cherrypy": api})
        join_all(made)
        let_all_vote(made)
        return made

    def signed(self, repo: Repo, files: dict[str, bytes], who: str) -> str:
        """A signed commit that the remote has."""
        commit = self.signers.commit(repo, files, who)
        repo.git("push", "--quiet", "--force", "origin", "master")
        return commit

    def hook(self, node: OurNode, **proof: str) -> int:
        """A git server tells a node of a push; the status of its answer."""
        place = {"clone_url": self.url, "full_name": "states"}
        body = json.dumps({"ref": "refs/heads/master", "repository": place}).encode()
        digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            name.replace("_", "-"): text.replace("DIGEST", digest) for name, text in proof.items()
        }
        client = http.client.HTTPConnection(node.address, self.api, timeout=30)
        try:
            client.request(
                "POST", "/hook/git", body, {"Content-Type": "application/json", **headers}
            )
            return client.getresponse().status
        finally:
            client.close()

    def refused(self, node: OurNode, url: str = "") -> str:
        """Which commit of a remote's branch a node says that it refuses."""
        remote = self.said(node).get("remotes", {}).get(url or self.url, {})
        found: str = remote.get("refused", {}).get(MASTER, {}).get("commit", "")
        return found

    def test_signed_and_pushed(self) -> None:
        """
        What nobody has signed is served by no node and told by each; what is signed is served by
        all a moment after the hook of GitHub, Gitea or GitLab, whichever node that asks; and a
        restart of all changes nothing.
        """
        made = self.made_nodes()
        for node in made:
            until("the refusal", lambda node=node: self.refused(node) == self.first)
            until("the other", lambda node=node: self.refused(node, self.other))
            self.assertEqual(self.commit(node), "")
            self.assertEqual(node.run("fileserver.file_list"), [])

        commit = self.check_hooks(made)
        bad = self.push(self.states, {"a": b"bad"})
        done = made[1].command("roots", "update", "--wait", "--json")
        told = json.loads(done.stdout)[self.url]
        self.assertEqual((told["refs"], told["changed"]), ({MASTER: commit}, {}))
        self.assertEqual(told["refused"][MASTER]["commit"], bad)
        for node in made:
            until("the refusal", lambda node=node: self.refused(node) == bad)
            self.assertEqual(self.commit(node), commit)
            self.assertIn("has no OpenPGP signature", node.command("status").stdout)

        other = self.signed(self.more, {"beside": b"2"}, self.anna)
        self.assertEqual(self.update(made[2], self.other)[self.other]["refs"], {MASTER: other})
        self.serve(made, other, self.other)
        for node in made:
            node.kill()
        for node in made:
            node.start()
        for node in made:
            node.wait_serving()
            self.assertEqual(self.commit(node), commit)
            self.assertEqual(self.commit(node, self.other), other)
            self.assertEqual(self.refused(node), bad)

    def check_hooks(self, made: list[OurNode]) -> str:
        """A push by each kind of server, told to each of the nodes; the last commit."""
        proofs = [
            {"X_Hub_Signature_256": "sha256=DIGEST"},
            {"X_Gitea_Signature": "DIGEST"},
            {"X_Gitlab_Token": SECRET},
        ]
        self.assertEqual(self.hook(made[0], X_Gitlab_Token="wrong"), 401)
        took = []
        for number, (node, proof) in enumerate(zip(made, proofs, strict=True)):
            commit = self.signed(self.states, {"a": b"good %d" % number}, self.fred)
            began = time.monotonic()
            self.assertEqual(self.hook(node, **proof), 200)
            self.serve(made, commit)
            took.append(time.monotonic() - began)
            # Hooks have fetches begin a second apart, and each of these is to be measured alone
            until("a second", lambda began=began: time.monotonic() - began > 1.5)
        self.assertLess(min(took), 5.0)
        return commit
