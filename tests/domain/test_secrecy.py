"""
What may be stored and told of a job that gives minions a secret.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.jobids import JobInParts
from saltwisted.domain.secrecy import STARS, is_secret, marked, told

MARKED = {"no_log": True}


class SecrecyTests(SynchronousTestCase):
    """Jobs and returns, as they are and as they are told."""

    def test_T_LOG_1_job(self) -> None:
        """T-LOG-1: of a secret job the arguments are stars to all but those who do it."""
        job = {"fun": "cmd.run", "arg": ["x", {"pillar": {"a": "y", "n": 3}}], "tgt": "m1"}
        secret = {**job, "metadata": MARKED}
        stars = [STARS, {"pillar": {"a": STARS, "n": 3}}]

        self.assertEqual(told(job), job)
        self.assertEqual(told(secret), {**secret, "arg": stars})
        self.assertEqual(secret["arg"], job["arg"])
        self.assertEqual(told(told(secret)), told(secret))

    def test_T_LOG_1_return(self) -> None:
        """T-LOG-1: a return keeps its shape, truth and numbers, by which a step is judged."""
        load = {
            "id": "m1",
            "fun": "state.sls",
            "fun_args": ["x", {"pillar": {"a": "y"}}],
            "retcode": 2,
            "metadata": MARKED,
            "return": {
                "cmd_|-a_|-echo y_|-run": {"result": False, "changes": {"pid": 5, "stdout": "y"}},
                "cmd_|-a_|-echo z_|-run": {"result": True, "changes": {}, "name": "echo z"},
                "short": b"y",
            },
        }

        shown: dict[str, Any] = dict(told(load))

        self.assertNotIn("y", repr([shown["return"], shown["fun_args"]]).replace("m1", ""))
        self.assertEqual(
            shown["return"],
            {
                "cmd_|-a_|-a_|-run": {"result": False, "changes": {"pid": 5, "stdout": STARS}},
                "cmd_|-a_|-a 2_|-run": {"result": True, "changes": {}, "name": STARS},
                "short": STARS.encode(),
            },
        )
        self.assertEqual((shown["retcode"], shown["id"]), (2, "m1"))
        self.assertEqual(told({**load, "return": False})["return"], False)

    def test_T_LOG_1_running(self) -> None:
        """T-LOG-1: who asks a minion what it runs, or has kept, learns no more than others."""
        job = {"fun": "cmd.run", "arg": ["x"], "pid": 5, "metadata": MARKED}
        open_ = {"fun": "test.arg", "arg": ["seen"]}
        for fun, value, hidden in (
            ("saltutil.find_job", job, {**job, "arg": [STARS]}),
            ("saltutil.running", [open_, job], [open_, {**job, "arg": [STARS]}]),
            ("saltutil.find_cached_job", {**job, "return": "x"},
             {**job, "arg": [STARS], "return": STARS}),
            ("test.arg", job, job),
        ):  # fmt: skip
            self.assertEqual(told({"fun": fun, "return": value})["return"], hidden, fun)

    def test_marks(self) -> None:
        """Only truth marks a job; what else its metadata says stays."""
        self.assertEqual(
            marked({"metadata": {"a": 1}, "ret_config": "x"}),
            {"metadata": {"a": 1, "no_log": True}, "ret_config": "x"},
        )
        for metadata in (None, "no_log", {"no_log": "yes"}, {}):
            self.assertFalse(is_secret({"metadata": metadata}), metadata)
        self.assertTrue(is_secret({"metadata": marked(None)["metadata"]}))

    def test_parts(self) -> None:
        """A further part of a secret job is known by its record, which has stars."""
        load = {"fun": "cmd.run", "arg": ["x"], "kwargs": marked({})}
        first = JobInParts.first("root", load, 1.0)
        record = {"user": "root", **load, "arg": [STARS], "metadata": MARKED}

        self.assertTrue(JobInParts.recorded(record).has_part(first))
        self.assertFalse(first.has_part(JobInParts.first("root", {**load, "arg": [1]}, 1.0)))
