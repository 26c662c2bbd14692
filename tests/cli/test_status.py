"""
What C{saltwisted status} makes of what daemons say.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.status import DEGRADED, NOT_READY, SERVING, judge

MASTER = {"role": "master", "version": "1", "pid": 7, "uptime": 1.0, "keys": {"accepted": 1}}
SERVES = {"ready": True, "members": [{"node": "a", "state": "serving"}]}


class JudgeTests(SynchronousTestCase):
    """Exit codes and sentences."""

    def test_roots(self) -> None:
        """What is wrong with roots makes a node degraded; what passes by itself does not."""
        share = {"root": "/srv/salt", "ready": True, "conflicts": 1}
        code, why = judge(MASTER, SERVES, {"shares": {"file/base/0": share}})
        self.assertEqual(code, DEGRADED)
        self.assertIn("file/base/0: 1 open conflict", why)
        code, why = judge(MASTER, SERVES, {"shares": {"s": {**share, "conflicts": 0}}})
        self.assertEqual((code, len(why)), (SERVING, 1))
        code, _ = judge(MASTER, SERVES, {"shares": {"s": {"ready": True, "pending": 1}}})
        self.assertEqual(code, SERVING)

    def test_waiting(self) -> None:
        """A node that is in no cluster yet says why; what it does not know is left out."""
        members = {"ready": False, "problem": "it waits for b"}
        code, why = judge({"role": "cluster", "pid": 7, "version": "1"}, members)
        self.assertEqual(
            (code, why), (NOT_READY, ["version 1, pid 7", "not serving: it waits for b"])
        )

    def test_drift(self) -> None:
        """Options in which members differ are named, with who differs; the node serves."""
        drift = {"external_auth": ["b", "c"], "peer": ["b"]}
        code, why = judge(MASTER, {**SERVES, "drift": drift})

        self.assertEqual(code, judge(MASTER, SERVES)[0])
        said = "external_auth is another in b and c: 'saltwisted members --drift' shows how"
        self.assertIn(said, why)
        self.assertEqual(len(why), len(judge(MASTER, SERVES)[1]) + 2)

    def test_first_line(self) -> None:
        """Counted as one counts."""
        self.assertEqual(judge(MASTER)[1], ["version 1, pid 7, up 1 s, 1 accepted key"])

    def test_silences(self) -> None:
        """Callbacks that kept everybody waiting: how often, and where the last one was."""
        last = {"at": 1.5e9, "ms": 300, "who": "Server", "where": "saltwisted/web/http.py:7 parse"}
        latency = {"silences": 2, "silence_max_ms": 1800.0, "silence_last": last}
        code, why = judge({**MASTER, "latency": latency})
        self.assertEqual(code, SERVING)
        self.assertIn("its reactor stood still 2 times, for 1.80 s at worst; ", why[1])
        self.assertIn("for 0.30 s, in Server, saltwisted/web/http.py:7 parse;", why[1])
        minion = {"role": "minion", "id": "m", "master_type": "disable"}
        self.assertIn("stood still", judge({**minion, "latency": latency})[1][1])
        quiet = {"silences": 0, "silence_max_ms": 0.0, "silence_last": {}}
        self.assertEqual(judge({**MASTER, "latency": quiet})[1], judge(MASTER)[1])

    def test_disabled_minion(self) -> None:
        """A minion that is to have no master serves; one that has lost its own does not."""
        alone = {"role": "minion", "version": "1", "pid": 7, "id": "m", "masters": []}
        code, why = judge({**alone, "master_type": "disable"})
        self.assertEqual(code, SERVING)
        self.assertIn("master_type is disable", why[1])
        code, why = judge({**alone, "master_type": "str"})
        self.assertEqual(code, NOT_READY)
        rows = [{"master": "a", "state": "down", "reason": "refused"}]
        code, why = judge({**alone, "masters": rows})
        self.assertEqual((code, why[1]), (NOT_READY, "master a: down: refused"))
