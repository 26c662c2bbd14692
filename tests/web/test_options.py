"""
Options of the API that stock has: what each does was tried with a salt-api 3008.2 and its CherryPy.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.api import problems
from saltwisted.web.exchange import Endpoint
from saltwisted.web.logfiles import ErrorLog
from tests.web.calls import LOGIN
from tests.web.rig import ApiRig

ARG = {"client": "runner", "fun": "test.arg", "arg": ["a"]}
STOCK_STATS = {
    "Enabled", "Bytes Read/Request", "Bytes Read/Second", "Bytes Written/Request",
    "Bytes Written/Second", "Current Time", "Current Requests", "Requests/Second", "Start Time",
    "Total Bytes Read", "Total Bytes Written", "Total Requests", "Total Time", "Uptime",
}  # fmt: skip
"""What C{CherryPy Applications} has in stock, but for its version and its threads."""


class OptionTests(SynchronousTestCase):
    """One test for each."""

    def broken(self, **block: Any) -> ApiRig:
        """An API with an endpoint that fails, and all its parts started but the port."""
        api = ApiRig(self, block=block)

        async def fail(exchange: Any) -> Any:
            raise ZeroDivisionError("ours\n[23/Nov/2026:17:22:00] ENGINE forged")

        api.api.site.offer({"broken": Endpoint(methods={"GET": fail}, depth=2)})
        for part in api.api.beside:
            if isinstance(part, ErrorLog):
                part.startService()
                self.addCleanup(part.stopService)
        return api

    def fails(self, api: ApiRig) -> str:
        """What is said by the endpoint that fails."""
        reply = api.ask("GET", "/broken")
        self.assertEqual(reply.status, 500)
        self.assertEqual(reply.json["status"], 500)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        return str(reply.json["return"])

    def test_debug(self) -> None:
        """With C{debug} the traceback of an error is in its answer, and without it is not."""
        self.assertEqual(self.fails(self.broken()), "An unexpected error occurred")
        self.assertNotIn("traceback", self.broken().ask("GET", "/nowhere").text)

        api = self.broken(debug=True)

        self.assertIn("ZeroDivisionError: ours", self.fails(api))
        page = api.ask("GET", "/<b>").text
        self.assertIn('<pre id="traceback">Traceback', page)
        self.assertNotIn("<b>", page)

    def test_T_LOG_2_log_error_file(self) -> None:
        """
        T-LOG-2: C{log_error_file} has where errors of ours came from, begin and end of the server,
        and no line that somebody else wrote.
        """
        path = self.mktemp()
        api = self.broken(log_error_file=path)
        api.api._engine("Serving on https://0.0.0.0:8000")
        self.assertEqual(self.fails(api), "An unexpected error occurred")
        api.ask("GET", "/nowhere")

        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertRegex(
            lines[0], r"^\[../.../....:..:..:..\] ENGINE Serving on https://0\.0\.0\.0"
        )
        self.assertRegex(lines[1], r'^\[.*\] HTTP 192\.0\.2\.7 "GET /broken" 500 An unexpected')
        self.assertIn("    Traceback (most recent call last):", lines[2])
        self.assertIn("    ZeroDivisionError: ours", lines)
        self.assertTrue(all(line.startswith("    ") for line in lines[2:]), lines)

    def test_T_LOG_1_no_token(self) -> None:
        """T-LOG-1: a token in a path or behind it is not in C{log_error_file}."""
        path = self.mktemp()
        api = self.broken(log_error_file=path)
        token = api.login()
        api.ask("GET", f"/broken/{token}?token={token}", token=token)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("/broken/...", text)
        self.assertNotIn(token, text)

    def test_collect_stats(self) -> None:
        """C{collect_stats} has the figures of requests by stock's names, and they are right."""
        api = ApiRig(self, block={"collect_stats": True, "stats_disable_auth": True})
        first = api.ask("GET", "/stats").json["CherryPy Applications"]
        login = api.ask("POST", "/login", LOGIN)
        api.wait(10)

        found = api.ask("GET", "/stats").json["CherryPy Applications"]

        self.assertEqual(set(found), STOCK_STATS)
        self.assertEqual((first["Total Requests"], found["Total Requests"]), (0, 2))
        self.assertEqual(found["Current Requests"], 1)
        self.assertGreater(found["Total Bytes Read"], 40)
        self.assertGreater(found["Total Bytes Written"], len(login.content))
        self.assertGreater(found["Uptime"], first["Uptime"] + 9)

    def test_netapi_allow_raw_shell(self) -> None:
        """C{raw_shell} in a chunk is refused, unless C{netapi_allow_raw_shell} is on."""
        chunk = {"client": "runner", "fun": "test.arg", "arg": ["a"], "raw_shell": True}
        api = ApiRig(self)
        refused = api.ask("POST", "/", [chunk], token=api.login())
        self.assertEqual(refused.status, 401)
        self.assertIn("Raw shell option not allowed.", refused.text)

        api = ApiRig(self, netapi_allow_raw_shell=True)

        self.assertEqual(api.ask("POST", "/", [chunk], token=api.login()).status, 200)

    def test_enable_sessions(self) -> None:
        """Without C{enable_sessions} four endpoints are not there, and C{/run} takes a login."""
        api = ApiRig(self, block={"enable_sessions": False})
        for method, path in (
            ("GET", "/login"), ("POST", "/login"), ("POST", "/logout"), ("GET", "/minions"),
            ("GET", "/jobs"), ("GET", "/login/oidc"),
        ):  # fmt: skip
            self.assertEqual(api.ask(method, path, LOGIN if method == "POST" else None).status, 404)

        run = api.ask("POST", "/run", [{**ARG, **LOGIN}])

        self.assertEqual((run.status, api.ask("GET", "/").status), (200, 200))
        self.assertEqual(api.ask("GET", "/keys").status, 401)

    def test_favicon(self) -> None:
        """C{favicon} is the picture at C{/favicon.ico}, for everybody; without it there is none."""
        path = self.mktemp() + ".ico"
        with open(path, "wb") as file:
            file.write(b"a picture")

        reply = ApiRig(self, block={"favicon": path}).ask("GET", "/favicon.ico", Accept="image/*")

        self.assertEqual((reply.status, reply.content), (200, b"a picture"))
        self.assertEqual(ApiRig(self).ask("GET", "/favicon.ico", Accept="*/*").status, 404)

    def test_T_API_9_guards(self) -> None:
        """
        T-API-9: a mistake in C{authorized_ips} or C{api_acl} lets nobody in, whom it should have
        kept out, and is said at the start.
        """
        for acl in ({"user": {"admin": ["*"]}}, {"users": {}}, {"users": ["admin"]}, ["admin"], 7):
            api = ApiRig(self, block={"api_acl": acl})
            self.assertEqual(api.ask("POST", "/login", LOGIN).status, 401, acl)
            self.assertEqual(api.ask("POST", "/run", [{**ARG, **LOGIN}]).status, 401, acl)
            (*_, text) = problems({"rest_twisted": {"api_acl": acl}})
            self.assertIn("nobody may log in", text)
        for places in ({"a": "192.0.2.7"}, 7, True, ["192.0.2.0/24"], "192.0.2.70"):
            api = ApiRig(self, block={"authorized_ips": places})
            self.assertEqual(api.ask("GET", "/").status, 403, places)
        self.assertEqual(len(problems({"rest_twisted": {"authorized_ips": {"a": "192.0.2.7"}}})), 1)

        one = ApiRig(self, block={"authorized_ips": "192.0.2.7", "api_acl": {}})
        self.assertEqual(one.ask("POST", "/login", LOGIN).status, 200)
        self.assertEqual(one.ask("GET", "/", address="192.0.2.77").status, 403)

    def test_addresses(self) -> None:
        """What in both can be no client's address is named."""
        good = {"authorized_ips": ["192.0.2.7", "::1"], "api_acl": {"users": {"*": "192.0.2.7"}}}
        self.assertEqual(problems({"rest_twisted": good}), [])
        acl = {"users": {"fred": ["*", "10.0.0.0/8"], "ann": 7}}
        found = problems({"rest_twisted": {"authorized_ips": ["host", 7], "api_acl": acl}})
        self.assertEqual(
            found,
            [
                "rest_twisted: authorized_ips: 'host' is not a client address, so it lets nobody"
                " in",
                "rest_twisted: authorized_ips: '7' is not a client address, so it lets nobody in",
                "rest_twisted: api_acl: fred: '10.0.0.0/8' is not a client address, so it lets"
                " nobody in",
                "rest_twisted: api_acl: ann: a list of addresses is needed, not '7'",
            ],
        )

    def test_types(self) -> None:
        """Options that mean something are judged, and those that mean nothing are taken as is."""
        found = problems({"rest_twisted": {"debug": "yes", "log_error_file": 1, "favicon": []}})
        self.assertEqual(len(found), 3)
        self.assertEqual(problems({"rest_twisted": {"thread_pool": 5, "queue_size": 30}}), [])
