"""
Pages of other origins in a user's browser (T-CSRF-1): they change nothing, and log nobody in.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.web.exchange import Endpoint
from tests.web.calls import FORM, JSON, LOGIN, PING
from tests.web.rig import ApiRig, Reply

HERE = "http://api.example:8000"
PARTS = "multipart/form-data; boundary=x"
OPEN = {"webhook_disable_auth": True}
"""The most that a site can open; a page must not reach even that."""
FOREIGN: dict[str, dict[str, str]] = {
    "another host": {"Origin": "http://elsewhere.example:8000"},
    "another port": {"Origin": "http://api.example:8001"},
    "no port": {"Origin": "http://api.example"},
    "a longer name": {"Origin": "http://api.example:8000.evil.example"},
    "a user": {"Origin": "http://api.example:8000@evil.example"},
    "null": {"Origin": "null"},
    "as browsers of today": {
        "Origin": "http://elsewhere.example",
        "Sec_Fetch_Site": "cross-site",
        "Referer": f"{HERE}/",
    },
    "empty": {"Origin": "x"},
    "absent, of a form": {"Sec_Fetch_Site": "cross-site"},
    "absent, of a neighbour": {"Sec_Fetch_Site": "same-site"},
    "absent, of an old browser": {"Referer": "http://elsewhere.example/page"},
}
OWN: dict[str, dict[str, str]] = {
    "absent, of a program": {},
    "the API's own": {"Origin": HERE},
    "a page of its own": {"Referer": f"{HERE}/app"},
    "typed by the user": {"Sec_Fetch_Site": "none"},
    "a page of its own, by a proxy": {
        "Origin": "https://proxy.example",
        "Sec_Fetch_Site": "same-origin",
    },
}


def bodies(fields: dict[str, str]) -> dict[str, bytes]:
    """The fields in each type of body that a form or a script of a page can send."""
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
        for name, text in fields.items()
    )
    pairs = ", ".join(f'"{name}": "{text}"' for name, text in fields.items())
    document = f"{{{pairs}}}".encode()
    return {
        FORM: urlencode(fields).encode(),
        PARTS: f"{parts}--x--\r\n".encode(),
        "text/plain": document,
        JSON: document,
        "": document,
    }


class OriginTests(SynchronousTestCase):
    """A master whose hooks are open, and a browser."""

    def setUp(self) -> None:
        self.api = ApiRig(self, block=OPEN)
        self.cookie = f"session_id={self.api.login()}"

    def changing(self) -> dict[str, Endpoint]:
        """The paths of what changes something, from the table itself."""
        found = {f"/{path}": each for path, each in self.api.api.site.endpoints.items()}
        return {path: each for path, each in found.items() if "POST" in each.methods}

    def send(self, path: str, kind: str, body: bytes, **headers: str) -> Reply:
        """What a form sends to a path."""
        return self.api.ask("POST", path, body=body, Content_Type=kind, **headers)

    def state(self) -> tuple[Any, ...]:
        """What a request might have changed."""
        rig = self.api.rig
        return (
            len(rig.published_jobs()),
            len(rig.events),
            sorted(dict(rig.ctx.logins.tokens.items())),
        )

    def test_T_CSRF_1_all(self) -> None:
        """
        T-CSRF-1: each endpoint that changes something, with each foreign origin and each type of
        body, with a user's cookie and without one: refused, without a cookie and without effect.
        """
        fields = {**LOGIN, **PING, "client": "local_async", "mid": "new1"}
        paths = self.changing()
        self.assertLess({"/", "/login", "/logout", "/run", "/token", "/hook", "/keys"}, {*paths})
        before = self.state()

        for path in paths:
            for origin, headers in FOREIGN.items():
                for kind, body in bodies(fields).items():
                    for cookie in ({}, {"Cookie": self.cookie}):
                        reply = self.send(path, kind, body, **headers, **cookie)
                        about = (path, origin, kind, bool(cookie))
                        # Whoever has no session is asked for one first
                        guarded = paths[path].guarded or "POST" in paths[path].guarded_methods
                        wanted = 401 if guarded and not cookie else 403
                        self.assertEqual(reply.status, wanted, about)
                        self.assertNotIn("set-cookie", reply.headers, about)
                        self.assertNotIn("access-control-allow-origin", reply.headers, about)
        self.assertEqual(self.state(), before)

    def test_T_CSRF_1_own(self) -> None:
        """T-CSRF-1: programs, which send no origin, and the API's own pages are served as ever."""
        for origin, headers in OWN.items():
            for kind, body in bodies(LOGIN).items():
                if kind not in ("", PARTS):
                    reply = self.send("/login", kind, body, **headers)
                    self.assertEqual(reply.status, 200, (origin, kind, reply.text))
                    self.assertIn("set-cookie", reply.headers)
            run = {**LOGIN, **PING, "client": "local_async"}
            self.assertEqual(self.api.ask("POST", "/run", run, **headers).status, 200, origin)
            self.assertEqual(self.api.ask("POST", "/hook/x", {}, **headers).status, 200, origin)
            low = {**PING, "client": "local_async"}
            reply = self.api.ask("POST", "/", low, Cookie=self.cookie, **headers)
            self.assertEqual(reply.status, 200, origin)

    def test_T_CSRF_1_named(self) -> None:
        """T-CSRF-1: origins of C{cors_origin} may log in and act; others may not beside them."""
        page = "http://elsewhere.example:8000"
        for named in (page, [page], "*"):
            api = ApiRig(self, block={"cors_origin": named})
            reply = api.ask("POST", "/login", LOGIN, Origin=page)
            self.assertEqual(reply.status, 200)
            self.assertEqual(reply.headers["access-control-allow-origin"], [page])
            other = api.ask("POST", "/login", LOGIN, Origin="http://a.example").status
            self.assertEqual(other, 200 if named == "*" else 403)

    def test_headers(self) -> None:
        """Who sends a token in a header is no page: its origin is no reason to refuse it."""
        low = {**PING, "client": "local_async"}
        reply = self.api.ask("POST", "/", low, token=self.api.login(), Origin="http://a.example")
        self.assertEqual(reply.status, 200)

    def test_links(self) -> None:
        """A link from elsewhere leads to an answer, which that page cannot read."""
        more = {"Sec_Fetch_Site": "cross-site", "Referer": "http://elsewhere.example/"}
        reply = self.api.ask("GET", "/jobs", Cookie=self.cookie, **more)
        self.assertEqual(reply.status, 200)
