"""
Jobs that are marked as secret, by the API.
"""

from __future__ import annotations

from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from saltwisted.domain.secrecy import STARS
from tests.web.test_events import EventsTestCase

WORD = "canary-4711"
JOB = {
    "client": "local",
    "tgt": "*",
    "fun": "test.arg",
    "arg": [WORD],
    "kwarg": {"given": WORD},
    "metadata": {"no_log": True},
}


class SecretTests(EventsTestCase):
    """Somebody who may do everything asks for all that there is of a job."""

    def test_T_LOG_1_pages(self) -> None:
        """
        T-LOG-1: the words of a marked job are in no answer of the API and in no event that it
        shows, nor in the store or a log (pains-next 2.19), though its minion sends them, as a stock
        one does. The minion gets them.
        """
        logged: list[LogEvent] = []
        globalLogPublisher.addObserver(logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, logged.append)
        api = self.made()
        token = api.login()
        listening = api.open("GET", "/events", token=token)
        asked = api.open("POST", "/", [JOB], token=token)
        api.wait(0.1)
        job = api.rig.published_jobs()[-1]
        self.assertEqual(job["arg"][0], WORD)
        for minion in api.minions:
            minion.ask(
                "_return",
                jid=job["jid"],
                fun=job["fun"],
                fun_args=job["arg"],
                metadata=job["metadata"],
                retcode=0,
                success=True,
                **{"return": {"args": [WORD], "kwargs": {"given": WORD}}},
            )
        api.wait(1)

        (answer,) = asked.replies
        self.assertEqual(answer.json["return"][0]["api-00000"]["args"], [STARS])
        shown = [
            answer.text,
            api.ask("GET", f"/jobs/{job['jid']}", token=token).text,
            api.ask("GET", "/jobs", token=token).text,
            listening.transport.value().decode(),
            repr(api.rig.jobs.loads),
            repr(api.rig.jobs.kept),
            repr([formatEvent(event) for event in logged]),
        ]
        self.assertIn(f"salt/job/{job['jid']}/ret/api-00001", shown[3])
        self.assertEqual([text for text in shown if WORD in text], [])
