"""
What stock answers to each of the calls in C{tests/web/calls.py}, and what ours does.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.web.calls import APP, CALLS, FILES, Request
from tests.web.rig import ApiRig, Connection, Reply, replies

RECORDED = Path(__file__).with_name("recorded-3008.2.json")
DIFFERENT: dict[str, tuple[int, str]] = {
    "root-options": (200, ""),
    "root-preflight": (200, ""),
    "root-html": (406, "text/html"),
    "root-xml": (406, "application/xml"),
    "ping-xml": (406, "text/xml"),
    "nowhere-deep": (404, "was not found"),
    "login-empty": (400, 'Require "username", "password", and "eauth" params'),
    "login-empty-map": (400, 'Require "username", "password", and "eauth" params'),
    "login-bad-yaml": (400, "Invalid YAML document"),
    "ping-expr-form": (200, '"api-00001": true'),
    "ping-no-tgt": (400, "'tgt'"),
    "ping-no-fun": (400, "'fun'"),
    "ping-bad-timeout": (400, "timeout must be a number of seconds"),
    # Those minions do not know several functions in one job; stock has no minion left to choose
    "several": (200, "Minion did not return."),
    "subset": (200, '"api-0000'),
    "batch": (200, '"api-00001": true'),
    "runner-full": (200, '"success": true'),
    "runner-unknown": (400, "'no.such' is not available."),
    "runner-one-word": (400, "Check syntax"),
    "runner-no-fun": (400, "'fun'"),
    "runner-bad-arguments": (200, "Passed invalid arguments"),
    "wheel-unknown": (400, "'no.such' is not available."),
    "wheel-no-argument": (200, "Passed invalid arguments"),
    "ssh": (400, "has no salt-ssh"),
    "low-list-of-text": (400, "must be a map"),
    "minions-post-no-tgt": (400, "'tgt'"),
    "keys-post-token": (401, "No authentication credentials given"),
    "keys-post-no-mid": (400, "'mid'"),
    "token-empty": (400, "Lowstates must be a list"),
    "logout-get": (405, "Specified method is invalid for this resource"),
    # Stock fails at them; what is allowed is compared nevertheless
    "options-login": (200, ""),
    "options-hook": (200, ""),
    "options-events": (200, ""),
    "options-stats": (200, ""),
    # Without a type, as there is nothing that would have one
    "options-static": (200, ""),
    "options-app": (200, ""),
    "options-nowhere": (200, ""),
    "events-post": (405, "Specified method is invalid for this resource"),
    "ws-no-token": (401, "No permission"),
    "ws-plain": (400, "This is for web sockets"),
    "ws": (101, ""),
    # Nothing of CherryPy's release, nor of each request
    "stats": (200, '"Total Bytes Written": '),
    "static-post": (405, "Specified method is invalid for this resource"),
    "app-not": (404, "was not found"),
}
"""Ours is another on purpose, or another could not be made equal: its status, and what it says."""
LACKING = {"set-cookie", "accept-ranges"}
"""Only a login sets a cookie here, and files are given whole."""
SIGNS = (
    (r"\b[0-9a-f]{40,64}\b", "TOKEN"),
    (r"\b20\d{18}\b", "JID"),
    (r"\b\d{10}\.\d+\b", "0"),
    (r"(?:[0-9a-f]{2}:){31}[0-9a-f]{2}", "FINGERPRINT"),
    (r"20\d\d-\d\d-\d\dT[0-9:.+]+", "STAMP"),
    (r"20\d\d, [A-Z][a-z]{2} \d\d [0-9:.]+", "START"),
    (r'"\w+\.(pem|pub)"', r'"master.\1"'),
    (r'"?\b(vm|rig)_master\b"?', '"MASTER"'),
    (r"-? destroy\n", ""),
    (r'"destroy", ', ""),
)


def plain(text: str) -> str:
    """Without what is another each time."""
    for expression, sign in SIGNS:
        text = re.sub(expression, sign, text)
    return text


def shape(reply: Reply) -> Any:
    """What is said, as the record has it."""
    text = reply.content.decode("utf-8", "replace")
    if page := re.search(r"<h2>(.*?)</h2>\s*<p>(.*?)</p>", text, re.S):
        return [page[1], page[2]]
    if reply.headers.get("content-type") == ["application/x-tar"]:
        return True
    text = plain(text)
    if text.startswith('{"CherryPy Applications"'):
        return sorted(json.loads(text)["CherryPy Applications"])
    try:
        return json.loads(text)
    except ValueError:
        return text


def recorded_shape(record: dict[str, Any]) -> Any:
    """Likewise, of the record."""
    if "json" in record:
        return json.loads(plain(json.dumps(record["json"])))
    return record.get("page") or record.get("tar") or plain(record["text"])


class RecordedTests(SynchronousTestCase):
    """The same calls, with minions that answer as those of the record did."""

    def setUp(self) -> None:
        home = Path(self.mktemp())
        for name, text in {"app.html": APP, **FILES}.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        block = {"static": str(home / "static"), "collect_stats": True}
        self.api = ApiRig(self, block=block)
        self.with_app = ApiRig(self, block={**block, "app": str(home / "app.html")})
        self.answered: set[str] = set()
        self.tokens = {user: self.api.login(user) for user in ("admin", "reader", "nobody")}

    def make(self, call: Request) -> Reply:
        """One call, and its answer."""
        kind = {"Content_Type": call.kind} if call.content() else {"Content_Type": ""}
        headers = {name.replace("-", "_"): text for name, text in call.headers.items()}
        connection = (self.with_app if call.app else self.api).open(
            call.method,
            call.path,
            body=call.content(),
            token=self.tokens.get(call.token, call.token),
            Accept=call.accept or "",
            **kind,
            **headers,
        )
        for _ in range(60):
            if connection.transport.value():
                break
            self.answer_all()
            self.api.wait(1)
        return self.only(connection, call.name)

    def only(self, connection: Connection, name: str) -> Reply:
        """The answer; of one without an end, its beginning."""
        head, _, rest = connection.transport.value().partition(b"\r\n\r\n")
        if b"\r\ncontent-length: " in head.lower():
            self.assertEqual(len(connection.replies), 1, name)
            return connection.replies[0]
        (reply,) = replies(head + b"\r\n\r\n")
        if "chunked" in reply.headers.get("transfer-encoding", ()):
            rest = rest.partition(b"\r\n")[2].partition(b"\r\n")[0]
        return Reply(reply.status, reply.headers, rest)

    def answer_all(self) -> None:
        """The minions do what they were told."""
        for job in self.api.rig.published_jobs():
            values = {
                "test.ping": True,
                "test.arg": {"args": job["arg"], "kwargs": {}},
                "grains.items": {"id": "", "os": "Debian"},
            }
            if job["jid"] in self.answered or not isinstance(job["fun"], str):
                continue
            self.answered.add(job["jid"])
            if job["fun"] in values:
                meant = self.api.rig.jobs.loads[job["jid"]]["minions"]
                for minion in self.api.minions:
                    if minion.id in meant:
                        minion.ask(
                            "_return",
                            jid=job["jid"],
                            fun=job["fun"],
                            retcode=0,
                            success=True,
                            **{"return": values[job["fun"]]},
                        )

    def test_recorded(self) -> None:
        """
        Each call has the status, the type, the headers and the shape of stock's answer, but for
        those that differ on purpose: these say what the table has.
        """
        recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["calls"]
        calls = {call.name: call for call in CALLS}
        self.assertGreater(len(recorded), 180)
        wrong = []
        for name, call in calls.items():
            if name not in recorded:
                continue
            record, reply = recorded[name], self.make(call)
            if record.get("allow") and reply.headers.get("allow") != [record["allow"]]:
                wrong.append(f"{name}: allows {reply.headers.get('allow')}, not {record['allow']}")
            if name in DIFFERENT:
                status, words = DIFFERENT[name]
                if reply.status != status or words not in reply.text:
                    wrong.append(f"{name}: {reply.status} {reply.text[:300]}")
                continue
            mine, theirs = shape(reply), recorded_shape(record)
            if name in ("jobs", "login-accept-yaml", "run-login", "run-form"):
                mine, theirs = type(mine), type(theirs)
            types = reply.headers.get("content-type", [None])
            if (reply.status, mine, types[0]) != (record["status"], theirs, record["type"]):
                wrong.append(f"{name}:\n  {record['status']} {theirs}\n  {reply.status} {mine}")
            lacking = set(record["headers"]) - set(reply.headers) - LACKING
            foreign = "Origin" in call.headers or "Upgrade" in call.headers
            if lacking and not foreign:
                wrong.append(f"{name}: has no {lacking}")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))
