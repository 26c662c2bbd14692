"""
What a node is given by another one: the objects, and what is beside them.
"""

from __future__ import annotations

import shutil
from typing import Any

from saltwisted.domain.git.agreement import ASIDE
from saltwisted.worker.git import work
from tests.worker.test_git import MASTER
from tests.worker.test_gitsigned import SignedTestCase


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
