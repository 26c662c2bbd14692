"""
Only what was signed: real commits and tags, judged by the real gpg and ssh-keygen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from saltwisted.config.gitpillar import PillarRemote
from saltwisted.domain.git.trees import of_runs
from saltwisted.worker.git import repository, signatures, work
from saltwisted.worker.pillar.git import GitPillar
from tests.gitsigners import Signers
from tests.worker.test_git import MASTER, FetchTestCase

DEV = "refs/remotes/origin/dev"


class SignedTestCase(FetchTestCase):
    """A remote, and people who sign."""

    kind = "gpg"

    def setUp(self) -> None:
        """Make the remote; nobody has signed its first commit."""
        super().setUp()
        self.signers = Signers(self)
        self.keys = ""

    def fetch(self, url: str = "", **more: Any) -> dict[str, Any]:
        """What a worker answers where only what was signed counts."""
        return super().fetch(url, **{"verify": self.kind, "signers": self.keys, **more})

    def why(self, ref: str = MASTER) -> str:
        """Fetch; why a ref is refused."""
        refused = self.fetch()["state"]["refused"]
        return str(refused[ref][1]) if ref in refused else ""


class OpenPGPTests(SignedTestCase):
    """Signatures of OpenPGP."""

    def setUp(self) -> None:
        """Fred may sign."""
        super().setUp()
        self.fred = self.signers.openpgp("fred")
        self.keys = self.signers.keyring(self.fred)

    def test_unsigned(self) -> None:
        """T-GIT-7: a commit that nobody has signed is not served, nor a branch that is new."""
        answer = self.fetch()

        self.assertEqual(self.refs(answer), {})
        self.assertEqual(
            answer["state"]["refused"], {MASTER: [self.first, "has no OpenPGP signature"]}
        )

    def test_last_good(self) -> None:
        """T-GIT-7: the last good commit is served until there is a good one again."""
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.assertEqual(self.refs(), {MASTER: good})
        bad = self.repo.commit({"a": b"2"})

        answer = self.fetch()
        self.assertEqual(self.refs(answer), {MASTER: good})
        self.assertEqual(answer["state"]["refused"][MASTER][0], bad)
        self.assertEqual(self.fetch()["state"], answer["state"])
        better = self.signers.commit(self.repo, {"a": b"3"}, self.fred)

        answer = self.fetch()
        self.assertEqual((self.refs(answer), answer["state"]["refused"]), ({MASTER: better}, {}))

    def test_last_good_is_kept(self) -> None:
        """
        A good commit that no branch leads to any more is kept: when packs become one, and when the
        repository is made anew by what has them.
        """
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.fetch()
        self.repo.git("reset", "--quiet", "--hard", self.first)
        self.repo.commit({"b": b"2"})
        self.patch(repository, "MANY_PACKS", 0)

        before = repository.state_of(self.cache)["repo"]
        answer = self.fetch()

        self.assertNotEqual(answer["state"]["repo"], before)
        self.assertEqual(self.refs(answer), {MASTER: good})
        tree = answer["state"]["refs"][MASTER][2]
        repo = os.path.join(self.cache, answer["state"]["repo"])
        listed = work.serve({"do": "list", "repo": repo, "tree": tree, "mountpoint": ""})
        self.assertEqual([*of_runs(listed["files"])], ["a", "top.sls"])
        self.assertEqual(self.refs(), {MASTER: good})

    def test_unknown_key(self) -> None:
        """T-GIT-7: a signature of somebody who is not in the file counts for nothing."""
        eve = self.signers.openpgp("eve")
        self.signers.commit(self.repo, {"a": b"1"}, eve)

        self.assertIn("with a key that may not sign", self.why())

    def test_other_kind(self) -> None:
        """T-GIT-7: where OpenPGP is asked for, no SSH key counts, whoever knows it."""
        self.signers.commit(self.repo, {"a": b"1"}, self.signers.ssh("fred"))

        self.assertEqual(self.why(), "has no OpenPGP signature")

    def test_expired_key(self) -> None:
        """A commit counts that was signed before the key expired, and one signed later does not."""
        old = self.signers.openpgp("old", expires="2025-06-01")
        self.keys = self.signers.keyring(old)
        good = self.signers.commit(self.repo, {"a": b"1"}, old, at="20250301")
        self.assertEqual(self.refs(), {MASTER: good})

        args = self.signers.by(old, "20250301")[0]
        args = [each.replace("T000000!", "T000000! ") for each in args]
        late = Path(self.signers.home, "gpg-late")
        late.write_text(
            '#!/bin/sh\ncase "$*" in *--verify*) exec gpg "$@";; esac\n'
            f"cp -r {self.signers.home} {self.folder}/late\nexport GNUPGHOME={self.folder}/late\n"
            "gpg --batch --quiet --passphrase '' --faked-system-time 20250301T000000!"
            f" --quick-set-expire $(gpg --with-colons --list-keys {old} |"
            " awk -F: '/^fpr/ {print $10; exit}') 2030-01-01 >/dev/null 2>&1\n"
            'gpg --faked-system-time 20250801T000000! "$@"; status=$?\n'
            "gpgconf --kill all; exit $status\n"
        )
        late.chmod(0o755)
        self.repo.write({"a": b"2"})
        self.repo.git("add", "--all")
        self.repo.git(
            "-c", f"user.signingkey={old}", "-c", f"gpg.program={late}", "commit", "--quiet", "-S",
            "-m", "m", GNUPGHOME=self.signers.home,
        )  # fmt: skip

        self.assertIn("was signed after the key had expired", self.why())
        self.assertEqual(self.refs(), {MASTER: good})

    def test_revoked_key(self) -> None:
        """T-GIT-7: what a key has signed that is revoked counts no more, though it was served."""
        self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.assertEqual(list(self.refs()), [MASTER])
        revocation = next(Path(self.signers.home, "openpgp-revocs.d").iterdir())
        text = revocation.read_text().replace(":-----BEGIN", "-----BEGIN")
        revocation.write_text(text)
        self.signers.gpg("--import", str(revocation))
        self.keys = self.signers.keyring(self.fred)

        self.assertIn("with a revoked key", self.why())
        self.assertEqual(self.refs(), {})

    def test_tampered(self) -> None:
        """T-GIT-7: a signature that was made for another commit does not fit."""
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        raw = self.repo.git("cat-file", "commit", good) + "\nmore\n"
        other = self.repo.git("hash-object", "-t", "commit", "-w", "--stdin", data=raw.encode())
        self.repo.git("update-ref", "refs/heads/master", other)

        self.assertIn("has an invalid signature", self.why())

    def test_key_is_taken_out(self) -> None:
        """
        T-GIT-7: what somebody has signed who is no longer in the file is served no more, also
        while the remote is away.
        """
        anna = self.signers.openpgp("anna")
        self.keys = self.signers.keyring(self.fred, anna)
        self.signers.commit(self.repo, {"a": b"1"}, anna)
        self.repo.git("branch", "dev")
        good = self.signers.commit(self.repo, {"a": b"2"}, self.fred)
        self.assertEqual(sorted(self.refs()), [DEV, MASTER])
        self.signers.keyring(self.fred)
        os.rename(self.repo.path, self.repo.path + ".away")

        answer = self.fetch()

        self.assertIn("does not appear to be a git repository", answer.pop("error"))
        self.assertEqual(self.refs(answer), {MASTER: good})
        self.assertEqual(list(answer["state"]["refused"]), [DEV])

    def test_no_keys(self) -> None:
        """T-GIT-7: a file of keys that is missing, empty, or none of keys lets nothing through."""
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.fetch()
        self.repo.commit({"a": b"2"})
        for content, text in ((b"", "is empty"), (b"nothing", "has no OpenPGP keys")):
            Path(self.keys).write_bytes(content)
            self.assertIn(text, self.error())
        os.unlink(self.keys)

        self.assertIn(f"{self.keys} (the keys that may sign): No such", self.error())
        self.assertEqual(repository.state_of(self.cache)["refs"][MASTER][1], good)

    def test_rewound(self) -> None:
        """A branch that somebody sets back to an old commit that is signed is served there."""
        old = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.signers.commit(self.repo, {"a": b"2"}, self.fred)
        self.fetch()
        self.repo.git("update-ref", "refs/heads/master", old)

        self.assertEqual(self.refs(), {MASTER: old})

    def test_damaged(self) -> None:
        """A repository that is damaged on disk is made anew, and what was good is good."""
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        state = self.fetch()["state"]
        for path in Path(self.cache, state["repo"], "objects/pack").iterdir():
            path.unlink()
        self.keys = self.signers.keyring(self.fred, self.signers.openpgp("anna"))
        self.repo.commit({"a": b"2"})

        self.assertEqual(self.refs(), {MASTER: good})

    def test_damaged_and_taken_out(self) -> None:
        """T-GIT-7: of a repository that is made anew nothing counts that is no longer good."""
        self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        state = self.fetch()["state"]
        for path in Path(self.cache, state["repo"], "objects/pack").iterdir():
            path.unlink()
        self.keys = self.signers.keyring(self.signers.openpgp("anna"))
        self.repo.commit({"a": b"2"})

        self.assertEqual(self.refs(), {})

    def test_nothing_stays(self) -> None:
        """No agent, and no directory of gpg's is left, and nobody's own settings count."""
        home = Path(self.folder, ".gnupg")
        home.mkdir(mode=0o700)
        Path(home, "gpg.conf").write_text("this-is-no-option\n")
        Path(self.folder, ".gitconfig").write_text(
            f"[gpg]\n program = {self.folder}/mark\n minTrustLevel = ultimate\n"
            f'[gpg "openpgp"]\n program = {self.folder}/mark\n'
        )
        self.signers.commit(self.repo, {"a": b"1"}, self.fred)

        state = self.fetch()["state"]

        self.assertEqual(state["refused"], {})
        self.assertEqual(sorted(os.listdir(self.cache)), ["lock", state["repo"], "state"])
        self.assertEqual(sorted(os.listdir(home)), ["gpg.conf"])
        agents = [
            path
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if self.cache.encode() in _read(path)
        ]
        self.assertEqual(agents, [])

    def test_asked_once(self) -> None:
        """A commit is judged once, however many refs lead to it and however often it is fetched."""
        asked = []
        real = signatures.Judge.wrong

        def wrong(judge: Any, repo: str, oid: str, is_tag: bool) -> str:
            asked.append(oid)
            return real(judge, repo, oid, is_tag)

        self.patch(signatures.Judge, "wrong", wrong)
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        for name in ("b1", "b2", "b3"):
            self.repo.git("branch", name)
        self.fetch()
        self.repo.git("branch", "b4", self.first)
        for _ in range(3):
            self.fetch()

        self.assertEqual(asked, [good, self.first])


class TagTests(SignedTestCase):
    """Tags."""

    def setUp(self) -> None:
        """Fred may sign; a branch is signed."""
        super().setUp()
        self.fred = self.signers.openpgp("fred")
        self.keys = self.signers.keyring(self.fred)

    def test_annotated(self) -> None:
        """An annotated tag counts if it is signed itself, whatever it leads to."""
        self.signers.tag(self.repo, "v1", self.fred)
        self.repo.git("tag", "-a", "-m", "m", "v2")

        answer = self.fetch()

        self.assertEqual(self.refs(answer), {"refs/tags/v1": self.first})
        self.assertEqual(answer["state"]["refused"]["refs/tags/v2"][1], "has no OpenPGP signature")

    def test_lightweight(self) -> None:
        """A tag that is only a name counts if its commit is signed."""
        self.repo.git("tag", "old")
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.repo.git("tag", "new")

        answer = self.fetch()

        self.assertEqual(self.refs(answer), {MASTER: good, "refs/tags/new": good})
        self.assertEqual(list(answer["state"]["refused"]), ["refs/tags/old"])

    def test_unsigned_tag_of_a_signed_commit(self) -> None:
        """T-GIT-7: an annotated tag that nobody has signed is not saved by its commit."""
        self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.repo.git("tag", "-a", "-m", "m", "v1")

        self.assertEqual(self.why("refs/tags/v1"), "has no OpenPGP signature")

    def test_other_name(self) -> None:
        """T-GIT-7: a signed tag is served by no other name than the one that was signed."""
        oid = self.signers.tag(self.repo, "v1", self.fred)
        self.repo.git("update-ref", "refs/tags/v2", oid)

        self.assertEqual(self.why("refs/tags/v2"), "is the tag v1")


class SSHTests(SignedTestCase):
    """Signatures of SSH keys."""

    kind = "ssh"

    def setUp(self) -> None:
        """Fred may sign."""
        super().setUp()
        self.fred, self.eve = self.signers.ssh("fred"), self.signers.ssh("eve")
        self.keys = self.signers.allowed(self.fred)

    def test_signed(self) -> None:
        """What an allowed signer has signed counts, a commit as well as a tag."""
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.signers.tag(self.repo, "v1", self.fred)

        self.assertEqual(self.refs(), {MASTER: good, "refs/tags/v1": good})

    def test_not_signed(self) -> None:
        """T-GIT-7: unsigned, signed by somebody else, or with another kind of key: not served."""
        self.assertEqual(self.why(), "has no SSH signature")
        self.signers.commit(self.repo, {"a": b"1"}, self.eve)
        self.assertIn("with a key that may not sign", self.why())
        self.signers.commit(self.repo, {"a": b"2"}, self.signers.openpgp("fred"))
        self.assertEqual(self.why(), "has no SSH signature")
        self.assertEqual(self.refs(), {})

    def test_tampered(self) -> None:
        """T-GIT-7: a signature that was made for another commit does not fit."""
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        raw = self.repo.git("cat-file", "commit", good) + "\nmore\n"
        args = ("hash-object", "-t", "commit", "-w", "--stdin")
        other = self.repo.git(*args, data=raw.encode())
        self.repo.git("update-ref", "refs/heads/master", other)

        self.assertNotEqual(self.why(), "")
        self.assertEqual(self.refs(), {})

    def test_expired_key(self) -> None:
        """A commit counts that was made while its key was valid, and one made later does not."""
        self.keys = self.signers.allowed(f'valid-before="20250601" {self.fred}')
        dates = {"GIT_COMMITTER_DATE": "2025-03-01T00:00:00Z"}
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred, **dates)
        self.assertEqual(self.refs(), {MASTER: good})
        self.signers.commit(self.repo, {"a": b"2"}, self.fred)

        self.assertIn("or was not allowed to at that time", self.why())
        self.assertEqual(self.refs(), {MASTER: good})


class CommitTests(SignedTestCase):
    """Commits that are named, not led to."""

    def setUp(self) -> None:
        """Fred may sign."""
        super().setUp()
        self.fred = self.signers.openpgp("fred")
        self.keys = self.signers.keyring(self.fred)

    def test_known(self) -> None:
        """Every commit that was good is known as such, and none that nobody has signed."""
        one = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.fetch()
        self.repo.commit({"a": b"2"})
        two = self.signers.commit(self.repo, {"a": b"3"}, self.fred)

        self.assertEqual(self.fetch()["state"]["signed"], [one, two])

    def test_configured(self) -> None:
        """A commit that is configured is looked at as well, wherever it is in the history."""
        one = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.signers.commit(self.repo, {"a": b"2"}, self.fred)
        self.fetch()

        signed = self.fetch(pins=[one[:12], self.first, "0" * 40])["state"]["signed"]

        self.assertIn(one, signed)
        self.assertNotIn(self.first, signed)

    def test_pillar(self) -> None:
        """T-GIT-7: pillar has no branch and no commit that nobody has signed who may."""
        self.patch(os, "environ", {**os.environ, "HOME": self.folder})
        good = self.signers.commit(self.repo, {"a": b"1"}, self.fred)
        self.repo.commit({"a": b"2"})
        self.repo.git("branch", "dev")
        ours = {"verify": "gpg", "verify_keyring": self.keys, "name": "ours"}

        def root(branch: str) -> str:
            opts = {
                "cachedir": self.cache,
                "ext_pillar": [],
                "git_pillar_update_interval": 0,
                "git_pillar_base": "master",
            }
            found = GitPillar(opts).directories(
                [{f"{branch} {self.repo.url}": [{key: text} for key, text in ours.items()]}],
                None,
                None,
            )
            return os.path.basename(found[0][0]) if found else ""

        self.assertEqual(root(good), good)
        self.repo.git("update-ref", "refs/heads/master", good)
        self.assertEqual(root("master"), good)
        self.repo.git("update-ref", "refs/heads/master", self.first)
        self.assertEqual(root("master"), good)
        with self.assertLogs("saltwisted.worker", "ERROR"):
            self.assertEqual((root("dev"), root(self.first)), ("", ""))

    def test_folder(self) -> None:
        """T-GIT-7: what was fetched before anybody had to sign is in another folder."""
        plain = PillarRemote(id="x", url="/x")
        judged = PillarRemote(id="x", url="/x", verify="gpg", verify_keyring="/k")

        self.assertNotEqual(plain.directory(), judged.directory())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
