"""
What a node is given by another one: the objects, and what is beside them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saltwisted.domain.git.agreement import ASIDE
from saltwisted.worker.git import reading, repository, work
from saltwisted.worker.git.reading import Objects
from saltwisted.worker.git.repository import Damaged
from tests.gitrepos import Pack, Repo, name_of
from tests.stores.support import FolderTestCase
from tests.worker.test_git import MASTER
from tests.worker.test_gitsigned import SignedTestCase

WHO = b"a <a@example.org> 1700000000 +0000"


class TakenTests(SignedTestCase):
    """Two folders: the one is fetched into, and the other gets its packs."""

    def setUp(self) -> None:
        """Fred may sign, and the first commit of his is in both."""
        super().setUp()
        fred = self.signers.openpgp("fred")
        self.keys = self.signers.keyring(fred)
        self.signers.commit(self.repo, {"a": b"good"}, fred)
        self.other = self.path("other")
        self.assertEqual(self.given(self.fetched())["refused"], {})

    def fetched(self) -> dict[str, Any]:
        """What the first has of the remote."""
        state: dict[str, Any] = self.fetch()["state"]
        return state

    def given(self, state: dict[str, Any]) -> dict[str, Any]:
        """Give it to the other, and have it count there; what it has."""
        aside = {name: state[name] for name in ASIDE if name in state}
        refs = {ref: tip[0] for ref, tip in state["refs"].items()}
        beside = {"folder": self.other, "aside": aside, "seconds": 60.0, "now": 1.0}
        known = work.serve({"do": "states", "folders": [self.other]})["states"][self.other]
        haves = sorted({tip[0] for tip in known.get("refs", {}).values()})
        name = ""
        if wants := sorted(set(refs.values()) - set(haves)):
            request = {"do": "pack", "folder": self.cache, "wants": wants, "haves": haves}
            pack = work.share({**request, "seconds": 60.0, "most": 1 << 30})
            name = "incoming-1"
            shutil.copy(pack["path"], self.write(f"other/{name}"))
        request = {"do": "take", "pack": name, "refs": refs, "hold": True, "most": 1 << 30}
        taken = work.share({**beside, **request, "version": [0, 1, 1]})["state"]
        beside["aside"] = {name: taken[name] for name in ASIDE if name in taken}
        settle = {"do": "settle", "refs": taken["refs"], "version": [0, 1, 1]}
        state = work.share({**beside, **settle})["state"]
        return dict(state)

    def test_refused_beside_the_same(self) -> None:
        """
        A commit that is refused is told by the other, too, where all that is served is as before;
        and when it is gone again nothing is told any more.
        """
        good = self.repo.git("rev-parse", "HEAD")
        bad = self.repo.commit({"a": b"bad"})
        state = self.given(self.fetched())
        self.assertEqual(state["refs"][MASTER][0], good)
        self.assertEqual(state["refused"], {MASTER: [bad, "has no OpenPGP signature"]})

        self.repo.git("reset", "--quiet", "--hard", good)
        self.assertEqual(self.given(self.fetched())["refused"], {})


class HostileTests(FolderTestCase):
    """T-GIT-11: a member that sends a pack of its own making."""

    def setUp(self) -> None:
        """One commit, in parts."""
        super().setUp()
        self.folder_of = self.path("repository")
        self.blob = b"the content"
        self.tree = b"100644 a\0" + bytes.fromhex(name_of("blob", self.blob))
        tree = name_of("tree", self.tree)
        self.commit = b"tree %s\nauthor %s\ncommitter %s\n\nm\n" % (tree.encode(), WHO, WHO)
        self.tip = name_of("commit", self.commit)
        self.parts = {"commit": self.commit, "tree": self.tree, "blob": self.blob}

    def pack(self, parts: Mapping[str, bytes]) -> bytes:
        """A pack of these."""
        pack = Pack()
        for kind, content in parts.items():
            pack.whole(kind, content)
        return pack.data()

    def take(self, data: bytes | None, **more: Any) -> dict[str, Any]:
        """What a worker answers whom it is given to."""
        if data is not None:
            os.makedirs(self.folder_of, exist_ok=True)
            Path(self.folder_of, "incoming-1").write_bytes(data)
        request = {"do": "take", "folder": self.folder_of, "refs": {MASTER: self.tip}}
        request |= {"pack": "incoming-1" if data is not None else "", "version": [0, 1, 1]}
        return work.share({**request, "most": 1 << 20, "seconds": 60.0, "now": 1.0, **more})

    def refused(self, data: bytes | None, words: str = "", **more: Any) -> None:
        """It is refused, and nothing has changed or is left."""
        before = repository.state_of(self.folder_of)
        answer = self.take(data, **more)
        self.assertIn(words, answer.get("error", "-"), answer)
        self.assertEqual(repository.state_of(self.folder_of), before)
        left = [each for each in os.listdir(self.folder_of) if each.startswith(("inc", "quar"))]
        self.assertEqual(left, [])

    def test_whole(self) -> None:
        """A commit with all that belongs to it is taken."""
        self.assertEqual(self.take(self.pack(self.parts))["state"]["refs"][MASTER][1], self.tip)

    def test_T_GIT_11_incomplete(self) -> None:
        """T-GIT-11: a pack without one of the objects that its refs lead to is refused."""
        for kind in self.parts:
            parts = {each: content for each, content in self.parts.items() if each != kind}
            self.refused(self.pack(parts), self.tip if kind == "commit" else "")
            self.refused(self.pack(parts), hold=True)
        self.refused(None, "lacks")

    def test_T_GIT_11_incomplete_history(self) -> None:
        """T-GIT-11: so is one without an earlier commit, though what is served is there."""
        parent = self.commit.replace(b"\nauthor", b"\nparent " + b"1" * 40 + b"\nauthor", 1)
        self.tip = name_of("commit", parent)
        self.refused(self.pack({**self.parts, "commit": parent}))

    def test_T_GIT_11_incomplete_back(self) -> None:
        """T-GIT-11: so is one that lacks what the nodes have gone back to."""
        self.refused(
            self.pack(self.parts),
            "1" * 40,
            aside={"back": {MASTER: ["1" * 40, "1" * 40, "2" * 40]}},
        )

    def test_T_GIT_11_changed(self) -> None:
        """T-GIT-11: a byte that was changed is found, though the digest of the pack fits again."""
        data = self.pack(self.parts)
        for at in (13, 60, len(data) - 25, len(data) - 3):
            changed = bytes((*data[:at], data[at] ^ 1, *data[at + 1 :]))
            self.refused(changed)
            body = changed[:-20]
            if at < len(body):
                self.refused(body + hashlib.sha1(body, usedforsecurity=False).digest())
        self.refused(self.pack({**self.parts, "blob": b"another text"}))
        self.refused(self.pack({**self.parts, "tree": self.tree.replace(b"a\0", b"b\0")}))
        self.refused(data[:-30])
        self.refused(b"")

    def test_T_GIT_5_unpacked(self) -> None:
        """T-GIT-5: an index of a pack that is larger than a file may be is not written."""
        self.refused(self.pack(self.parts), most=100)


class ReadTests(FolderTestCase):
    """Objects by the git program, as a worker lists and lays them out."""

    def test_T_GIT_11_read(self) -> None:
        """T-GIT-11: what git hands out is what its name says, or is not read."""
        repo = Repo(self.path("repo"))
        pack = Pack()
        oid, other = pack.whole("blob", b"the content"), pack.whole("blob", b"another one")
        pack.into(repo)
        path = os.path.join(repo.path, ".git")
        with Objects(path) as objects:
            self.assertEqual(list(objects.read([oid], "blob", 100)), [b"the content"])
            self.assertEqual(list(objects.read([oid, other], "blob", 3)), [None, None])
            self.assertRaises(Damaged, list, objects.read([oid], "tree", 100))
        self.patch(Objects, "_ask", _asks_for(other))
        self.patch(reading, "AT_ONCE", 1)
        for kind, most in (("blob", 100), ("blob", 3), ("tree", 100)):
            with Objects(path) as objects:
                self.assertRaises(Damaged, list, objects.read([oid], kind, most))

    def test_T_GIT_11_forged(self) -> None:
        """T-GIT-11: bytes that were changed in an object or a pack of the disk are not read."""
        for packed in (False, True):
            repo = Repo(self.path(f"repo-{packed}"))
            git = Path(repo.path, ".git")
            oid = repo.blob(b"the content")
            if packed:
                repo.git("commit", "--allow-empty", "-qm", "m")
                repo.git("tag", "blob", oid)
                repo.git("-c", "pack.compression=9", "repack", "-adqF")
            # The other one is put where the first one was
            forged = Repo(self.path(f"forged-{packed}"))
            there = forged.blob(b"another one")
            if packed:
                (path,) = git.glob("objects/pack/*.pack")
                data = path.read_bytes()
                whole = Pack()
                whole.whole("blob", b"the content")
                rest = Pack()
                rest.whole("blob", b"the contend")
                good, bad = whole.data()[12:-20], rest.data()[12:-20]
                self.assertEqual(len(good), len(bad))
                self.assertIn(good, data)
                body = data.replace(good, bad)[:-20]
                path.chmod(0o600)
                path.write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())
            else:
                path = git / "objects" / oid[:2] / oid[2:]
                path.chmod(0o600)
                shutil.copy(Path(forged.path, ".git/objects", there[:2], there[2:]), path)
            with Objects(str(git)) as objects:
                self.assertRaises(Damaged, list, objects.read([oid], "blob", 100))


def _asks_for(other: str) -> Any:
    """A reader whose git answers with another object, under the name that was asked for."""

    def ask(self: Any, text: bytes) -> None:
        oid = text.decode().strip()
        self._process.stdin.write(f"{other}\n".encode())
        self._process.stdin.flush()
        first = self._process.stdout
        self._process.stdout = _Renamed(first, oid.encode(), other.encode())

    return ask


class _Renamed:
    """A pipe in whose first line the name of an object is another one."""

    def __init__(self, pipe: Any, name: bytes, instead: bytes) -> None:
        self._pipe, self._name, self._instead = pipe, name, instead

    def readline(self) -> bytes:
        """The head of an object."""
        line: bytes = self._pipe.readline()
        return line.replace(self._instead, self._name)

    def read(self, size: int) -> bytes:
        """As it is."""
        data: bytes = self._pipe.read(size)
        return data

    def close(self) -> None:
        """As it is."""
        self._pipe.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipe, name)
