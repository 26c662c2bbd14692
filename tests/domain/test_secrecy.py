"""
What may be stored and told of a job that gives minions a secret.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain import secrecy
from saltwisted.domain.jobids import JobInParts
from saltwisted.domain.secrecy import (
    STARS,
    SecretJobs,
    discreet,
    firing_job,
    hide,
    is_secret,
    marked,
    named_job,
    redact,
    told,
    told_event,
)
from saltwisted.domain.who import local

MARKED = {"no_log": True}
JID = "20260701120000000000"


class SecrecyTests(SynchronousTestCase):
    """Jobs and returns, as they are and as they are told."""

    def test_T_LOG_1_job(self) -> None:
        """T-LOG-1: of a secret job the arguments are stars to all but those who do it."""
        job = {"fun": "cmd.run", "arg": ["x", {"pillar": {"a": "y", "n": 3}}], "tgt": "m1"}
        secret = {**job, "metadata": MARKED}
        stars = [STARS, {"pillar": {"a": STARS, "n": STARS}}]

        self.assertEqual(told(job), job)
        self.assertEqual(told(secret), {**secret, "arg": stars})
        self.assertEqual(secret["arg"], job["arg"])
        self.assertEqual(told(told(secret)), told(secret))

    def test_T_LOG_1_return(self) -> None:
        """T-LOG-1: a return keeps its shape, and of states by what a step is judged."""
        load = {
            "id": "m1",
            "fun": "state.sls",
            "fun_args": ["x", {"pillar": {"a": "y"}}],
            "retcode": 2,
            "metadata": MARKED,
            "return": {
                "cmd_|-a_|-echo y_|-run": {"result": False, "changes": {"pid": 5, "stdout": "y"}},
                "cmd_|-a_|-echo z_|-run": {
                    "result": True,
                    "changes": {},
                    "name": "echo z",
                    "duration": 1.5,
                    "__run_num__": 1,
                    "pin": 4711,
                    "again": True,
                    "start_time": 12,
                },
                "short": b"y",
            },
        }

        shown: dict[str, Any] = dict(told(load))

        self.assertNotIn("y", repr([shown["return"], shown["fun_args"]]).replace("m1", ""))
        self.assertEqual(
            shown["return"],
            {
                "cmd_|-a_|-a_|-run": {"result": False, "changes": {"pid": STARS, "stdout": STARS}},
                "cmd_|-a_|-a 2_|-run": {
                    "result": True,
                    "changes": {},
                    "name": STARS,
                    "duration": 1.5,
                    "__run_num__": 1,
                    "pin": STARS,
                    "again": STARS,
                    "start_time": STARS,
                },
                "short": STARS.encode(),
            },
        )
        self.assertEqual((shown["retcode"], shown["id"]), (2, "m1"))
        for value, seen in (
            (False, False), (True, STARS), (4711, STARS), (1.5, STARS), (0, 0), (0.0, 0.0),
            (None, None), ("", ""), (b"", b""), ((1, [2]), [STARS, [STARS]]), ([], []),
            (datetime(2020, 1, 2, tzinfo=UTC), STARS), ({4711}, STARS),
        ):  # fmt: skip
            self.assertEqual(told({**load, "return": value})["return"], seen, value)

    def test_T_LOG_1_states_anywhere(self) -> None:
        """
        T-LOG-1: names of states are hidden however deep their results are: in what a step of a step
        has done, or one of several functions. Who has a value of a pillar shown is no step.
        """
        own = {"cmd_|-a_|-echo y_|-run": {"result": True, "changes": {"n": 1}}}
        stars = {"cmd_|-a_|-a_|-run": {"result": True, "changes": {"n": STARS}}}
        for value, seen in (
            ({"data": {"m1": own}}, {"data": {"m1": stars}}),
            ([{"state.apply": own}], [{"state.apply": stars}]),
            ({"salt_|-s_|-t_|-state": {"result": True, "changes": {"ret": {"m1": own}}}},
             {"salt_|-s_|-s_|-state": {"result": True, "changes": {"ret": {"m1": stars}}}}),
            ({"a_|-b_|-c_|-d": {"result": 4711, "duration": "y"}},
             {"a_|-b_|-b_|-d": {"result": STARS, "duration": STARS}}),
        ):  # fmt: skip
            self.assertEqual(hide(value), seen)
            self.assertEqual(hide(seen), seen)
        self.assertEqual(
            redact(own), {"cmd_|-a_|-echo y_|-run": {"result": STARS, "changes": {"n": STARS}}}
        )

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
            several = {"fun": ["test.ping", fun], "return": {"test.ping": True, fun: value}}
            self.assertEqual(told(several)["return"], {"test.ping": True, fun: hidden}, fun)
            in_order = {"fun": ["test.ping", fun], "return": [True, value]}
            self.assertEqual(told(in_order)["return"], [True, hidden], fun)

    def test_T_LOG_1_fired(self) -> None:
        """
        T-LOG-1: an event of a secret job's own making keeps its tag, and which job fired it; no
        text of it, whatever it is called.
        """
        own = {"__pub_jid": JID, "__pub_fun": "event.send", "__pub_arg": ["y"], "id": "y", "n": 3}
        hidden = {**own, "__pub_arg": [STARS], "id": STARS, "n": STARS}
        load = {"cmd": "_minion_event", "id": "m1", "tag": "site/x", "data": own, "y": "y"}
        self.assertEqual(told_event("site/x", own), ("site/x", hidden))
        self.assertEqual(told_event("plain", {"a": ["y"]}), ("plain", {"a": [STARS]}))
        self.assertEqual(told_event("site/x", load)[1], {**load, "data": hidden, "y": STARS})
        self.assertEqual(discreet(load), told_event("site/x", load)[1])
        several = {"cmd": "_minion_event", "events": [{"tag": "site/x", "data": own}, "y"]}
        self.assertEqual(discreet(several)["events"], [{"tag": "site/x", "data": hidden}, STARS])
        other = {"cmd": "_file_hash", "path": "y"}
        self.assertIs(discreet(other), other)

        for tag, data, jid in (
            ("site/x", own, JID),
            ("site/x", load, JID),
            (f"salt/job/{JID}/prog/m1/0", {}, JID),
            ("site/x", {"__pub_jid": "1751371200.0-1", "data": "y"}, ""),
            ("site/x", {"__pub_jid": 5}, ""),
        ):
            self.assertEqual(firing_job(tag, data), jid)

    def test_T_LOG_1_progress(self) -> None:
        """
        T-LOG-1: what is said of a secret job while it runs keeps who says it, and by what a state
        is judged; a state's name goes from the tag as well, and a tag of the site's choice stays.
        """
        result = {"name": "echo y/z", "changes": {"pid": 5}, "comment": "y", "result": True}
        stars = {"name": STARS, "changes": {"pid": STARS}, "comment": STARS, "result": True}
        prog, own = f"salt/job/{JID}/prog/m1/0", f"salt/state_result/{JID}/m1/"
        for tag, shown in (
            (prog, prog),
            (own + "echo y/z", own + STARS),
            (own + "deploy/done", own + "deploy/done"),
        ):
            said = {"ret": result, "len": 3, "_stamp": "now", "jid": JID}
            hidden = {"ret": stars, "len": 3, "_stamp": "now", "jid": JID}
            self.assertEqual(told_event(tag, said), (shown, hidden))
            # Those who hear of it later hide no less, and no more
            self.assertEqual(told_event(shown, hidden), (shown, hidden))
            listed = {"cmd": "_minion_event", "events": [{"tag": tag, "data": said}]}
            self.assertEqual(discreet(listed)["events"], [{"tag": shown, "data": hidden}])
            whole = {"id": "m1", "cmd": "_minion_event", "tag": tag, "data": said, "more": ["y"]}
            self.assertEqual(
                told_event(tag, whole),
                (shown, {**whole, "tag": shown, "data": hidden, "more": [STARS]}),
            )
        part = {"return": {"cmd_|-a_|-echo y_|-run": {"result": True}}}
        self.assertEqual(
            told_event(prog, part)[1], {"return": {"cmd_|-a_|-a_|-run": {"result": True}}}
        )
        self.assertEqual(told_event(prog, {"return": "y"})[1], {"return": STARS})

    def test_named(self) -> None:
        """Only tags of jobs and of results of states name a job, and only by a jid."""
        for tag, jid in (
            (f"salt/job/{JID}/prog/m1/0", JID),
            (f"salt/state_result/{JID}/m1/x", JID),
            (f"salt/job/{JID}", ""),
            ("salt/job/req/prog/m1/0", ""),
            (f"salt/run/{JID}/x", ""),
            (f"site/job/{JID}/x", ""),
            ("x", ""),
        ):
            self.assertEqual(named_job(tag), jid, tag)

    def test_known(self) -> None:
        """Of the latest jobs is known whether they are secret; one that is so stays so."""
        self.patch(secrecy, "MOST_KNOWN", 2)
        jobs = SecretJobs()
        jobs.note("0", False)
        for secret in (False, True, False):
            jobs.note("1", secret)
        self.assertEqual([jobs.find(jid) for jid in "012"], [False, True, None])
        for jid in "234":
            jobs.note(jid, False)
        self.assertEqual([jobs.find(jid) for jid in "01234"], [None, True, None, False, False])

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
        first = JobInParts.first(local("root"), load, 1.0)
        record = {**local("root").facts(), **load, "arg": [STARS], "metadata": MARKED}

        self.assertTrue(JobInParts.recorded(record).has_part(first))
        self.assertFalse(first.has_part(JobInParts.first(local("root"), {**load, "arg": [0]}, 1.0)))
