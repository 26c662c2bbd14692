"""
Keychains of GnuPG: what is made by chance, and where ours refuses what stock takes.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.modules._gpg_run import Answer, Signatures, searched
from saltwisted.worker.exceptions import SaltInvocationError
from saltwisted.worker.fileclient import file_client
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.process.main import NoMaster
from saltwisted.worker.systools import which
from tests.modules.gpgkeys import keys
from tests.modules.harness import GRAINS


class GpgTests(SynchronousTestCase):
    """C{gpg} with the real program."""

    def setUp(self) -> None:
        if which("gpg") is None:
            raise SkipTest("needs gpg")
        self.folder = tempfile.mkdtemp(prefix="gpg", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.home = os.path.join(self.folder, "home")
        self.addCleanup(self.end_agent)
        self.have = keys()
        config = MinionConfig(id="m1", file_client="local", cachedir=f"{self.folder}/cache")
        pillar = {"gpg_passphrase": "open sesame"}
        opts = config.as_opts()
        self.loaders = Loaders(
            opts,
            grains=dict(GRAINS),
            pillar=pillar,
            fileclient=lambda: file_client(opts, NoMaster()),
            stock=False,
        )

    def end_agent(self) -> None:
        """The agent that C{gpg} has started."""
        subprocess.run(["gpgconf", "--homedir", self.home, "--kill", "all"], check=False)

    def gpg(self, function: str, **words: Any) -> Any:
        """Call a function with the keychain of the test."""
        return self.loaders.modules[f"gpg.{function}"](**{"gnupghome": self.home, **words})

    def path(self, name: str, text: str) -> str:
        """A file."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_withoutWorth(self) -> None:
        """
        What an expired signature, or a revoked or expired key, vouches for is not verified, whoever
        is named as signer. Stock takes an expired signature, and that of a revoked key.
        """
        for name in ("ann", "old", "gone_revoked"):
            self.gpg("import_key", text=self.have[name])
        found = {}
        for text, signer in (("ann", "ann"), ("late", "ann"), ("old", "old"), ("gone", "gone")):
            signed = self.have[f"{text}_signed"]
            by = self.have[f"{signer}_fingerprint"]
            asked: list[dict[str, Any]] = [{}, {"signed_by_any": by}, {"signed_by_all": [by]}]
            found[text] = [self.gpg("verify", text=signed, **more)["res"] for more in asked]

        self.assertEqual(found["ann"], [True, True, True])
        nothing = [False, False, False]
        self.assertEqual([found["late"], found["old"], found["gone"]], [nothing] * 3)

    def test_oneOfTwo(self) -> None:
        """Beside a revoked key's signature a good one still counts, for its own signer alone."""
        for name in ("ann", "gone_revoked"):
            self.gpg("import_key", text=self.have[name])
        hello = self.path("hello", "hello\n")
        detached = self.path("hello.asc", self.have["with_gone_detached"])
        files = {"filename": hello, "signature": detached}
        ann, gone = self.have["ann_fingerprint"], self.have["gone_fingerprint"]

        self.assertTrue(self.gpg("verify", **files, signed_by_any=[gone, ann])["res"])
        self.assertFalse(self.gpg("verify", **files, signed_by_any=[gone])["res"])
        self.assertFalse(self.gpg("verify", **files, signed_by_all=[ann, gone])["res"])

    def test_badBesideGood(self) -> None:
        """A signature that does not fit is not outweighed by one before it that does."""
        good = [("SIG_ID", "x 2020-01-01 1"), ("GOODSIG", "AA Ann"), ("VALIDSIG", "F " * 10)]
        lines = [("NEWSIG", ""), *good, ("TRUST_FULLY", "0 pgp"), ("NEWSIG", "")]

        found = [
            Signatures.of(Answer([*lines, more], b"", "", 0))
            for more in (("BADSIG", "BB Ben"), ("TRUST_FULLY", ""))
        ]

        self.assertEqual([one.is_bad for one in found], [True, False])
        self.assertEqual([len(one.good) for one in found], [1, 1])

    def test_roundTrip(self) -> None:
        """A key with a passphrase is made, signs, decrypts, is exported and deleted."""
        made = self.gpg("create_key", name_real="Kim", key_length=2048, use_passphrase=True)
        print_ = made["fingerprint"]
        phrase = {"use_passphrase": True}
        signed = self.gpg("sign", text="hello", **phrase)
        out = os.path.join(self.folder, "out")
        sealed = self.gpg("encrypt", text="secret", recipients=print_, bare=True)
        opened = self.gpg("decrypt", text=sealed.decode(), **phrase)
        written = self.gpg("decrypt", text=sealed.decode(), output=out, **phrase)

        self.assertEqual(made["message"], "GPG key pair successfully generated.")
        self.assertEqual(self.gpg("verify", text=signed.decode())["trust_level"], "Ultimate")
        self.assertEqual(opened, {"res": True, "comment": b"secret"})
        self.assertEqual(written["comment"], f"Decrypted data has been written to {out}")
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), "secret")
        exported = self.gpg("export_key", keyids=print_, secret=True, bare=True, **phrase)
        self.assertIn("PRIVATE KEY", exported)
        deleted = self.gpg("delete_key", fingerprint=print_, delete_secret=True)
        said = f"Secret key for {print_} deleted\nPublic key for {print_} deleted"
        self.assertEqual(deleted, {"res": True, "message": said})
        self.assertEqual(self.gpg("list_keys"), [])

    def test_moreThanOneLine(self) -> None:
        """What is to be a name cannot hold further instructions for C{gpg}."""
        name = "Kim\n%pubring /etc/passwd"
        self.assertRaises(SaltInvocationError, self.gpg, "create_key", name_real=name)

    def test_noOptions(self) -> None:
        """What begins with a dash is the name of a key, and no option."""
        path = os.path.join(self.folder, "written")
        self.gpg("import_key", text=self.have["ann"])

        self.assertEqual(self.gpg("export_key", keyids=f"--output={path},ann")["res"], True)
        self.assertFalse(os.path.exists(path))

    def test_otherAccount(self) -> None:
        """Somebody's configuration may name programs: they run in that account, not as root."""
        if os.geteuid() != 0:
            raise SkipTest("needs root: it becomes somebody else")
        account = pwd.getpwnam("nobody")
        os.chmod(self.folder, 0o755)
        self.gpg("list_keys", user="nobody")
        program = self.path("program", f"#!/bin/sh\nid -u > {self.home}/who\n")
        os.chmod(program, 0o755)
        self.path("home/gpg.conf", f"agent-program {program}\n")

        self.gpg("create_key", user="nobody")

        with open(f"{self.home}/who", encoding="utf-8") as file:
            self.assertEqual(file.read().strip(), str(account.pw_uid))
        self.assertEqual(os.stat(self.home).st_uid, account.pw_uid)

    def test_originals(self) -> None:
        """A local file whose signature fails is not taken, and not removed either."""
        source = self.path("hello", "hello\n")
        signature = self.path("hello.asc", self.have["ben_detached"])
        sums = self.path("SUMS", f"{'0' * 64}  hello\n")
        signed = {"gnupghome": self.home, "signed_by_any": "A"}
        target = os.path.join(self.folder, "target")

        def apply(state: str, **words: Any) -> Any:
            ret = self.loaders.modules["state.single"](state, name=target, **signed, **words)
            return next(iter(ret.values()))

        one = apply("file.managed", source=source, signature=signature)
        two = apply(
            "archive.extracted",
            source=f"file://{source}",
            archive_format="tar",
            signature=f"file://{signature}",
        )
        three = apply(
            "file.managed", source=f"file://{source}", source_hash=sums, source_hash_sig=True
        )

        failed = "could not be verified"
        self.assertEqual([failed in ret["comment"] for ret in (one, two, three)], [True] * 3)
        self.assertEqual([ret["result"] for ret in (one, two, three)], [False] * 3)
        there = [os.path.exists(path) for path in (source, signature, sums, target)]
        self.assertEqual(there, [True, True, True, False])

    def test_found(self) -> None:
        """What a key server has found is shown with its dates and names."""
        answer = b"info:1:1\npub:AAAA:1:2048:0:1577880000:\nuid:A \\x3a Kim:0::\npub:BBBB:1:1:0::\n"

        found = list(searched(answer))

        self.assertEqual([key["keyid"] for key in found], ["AAAA", "BBBB"])
        self.assertEqual([key["uids"] for key in found], [["A : Kim"], []])
