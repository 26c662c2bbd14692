"""
What strangers and broken programs send: each has its answer, and harms nobody else.
"""

from __future__ import annotations

import gzip
import json
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.api import bodies, lowstate
from saltwisted.web import http
from saltwisted.web.logfiles import AccessLog
from tests.web.calls import LOGIN, PING
from tests.web.rig import ApiRig

ARG = {"client": "runner", "fun": "test.arg", "arg": ["a"]}
OTHER = "http://elsewhere.example"


class LoginlessTests(SynchronousTestCase):
    """Whoever has not logged in does nothing."""

    def test_T_API_1_every_client(self) -> None:
        """T-API-1: no client of any name works without a login, with a bad or an ended one."""
        api = ApiRig(self)
        ended = api.login()
        api.rig.clock.advance(43201)
        good = api.login()
        api.ask("POST", "/logout", token=good)
        published = len(api.rig.published_jobs())
        events = len(api.rig.events)

        proofs: list[dict[str, Any]] = [
            {},
            {"token": ended},
            {"token": good},
            {"token": "0" * 64},
            {"token": ""},
            {"token": "../../../etc/passwd"},
            {"token": None},
            {"token": ["x"]},
            {"eauth": "file"},
            {"eauth": "nosuch", "username": "admin", "password": "adminpw"},
            {"eauth": "file", "username": "admin", "password": ""},
            {"eauth": ["file"], "username": {}, "password": 7},
            {"username": "admin", "password": "adminpw"},
            {"user": "root"},
            {"key": "x"},
        ]
        for client in lowstate.CLIENTS:
            fun = "key.list_all" if client.startswith("wheel") else "test.arg"
            chunk = {"client": client, "tgt": "*", "fun": fun}
            for proof in proofs:
                for path in ("/", "/run", "/minions"):
                    reply = api.ask("POST", path, [{**chunk, **proof}])
                    # That there is none is said before anybody asks who wants it
                    refused = (400, 401) if client == "ssh" else (401,)
                    self.assertIn(reply.status, refused, (client, proof, path))
                for word in (proof.get("token"), ended, good):
                    if isinstance(word, str):
                        reply = api.ask("POST", "/", [chunk], token=word)
                        self.assertEqual(reply.status, 401, (client, word))
        self.assertEqual(len(api.rig.published_jobs()), published)
        self.assertEqual(len(api.rig.events), events)

    def test_T_API_1_endpoints(self) -> None:
        """T-API-1: no endpoint but those for logging in shows anything to a stranger."""
        api = ApiRig(self)
        for method, path in (
            ("GET", "/minions"), ("GET", "/minions/api-00000"), ("GET", "/jobs"),
            ("GET", "/jobs/20260101000000000000"), ("GET", "/keys"), ("GET", "/keys/api-00000"),
            ("POST", "/keys"), ("POST", "/logout"), ("POST", "/minions"), ("POST", "/run"),
            ("GET", "/stats"), ("POST", "/"), ("GET", "/events"),
        ):  # fmt: skip
            low = [{"mid": "new", "tgt": "*", "fun": "test.ping", "client": "local"}]
            reply = api.ask(method, path, low if method == "POST" else None)
            self.assertEqual(reply.status, 401, path)
        self.assertNotIn("new", api.rig.keys.accepted_ids())

    def test_T_API_2_no_ssh(self) -> None:
        """T-API-2: there is no client C{ssh}, even where it is enabled."""
        api = ApiRig(self)
        chunk = {"client": "ssh", "tgt": "*;id", "fun": "test.ping", "raw_shell": False}
        reply = api.ask("POST", "/", [chunk], token=api.login())
        self.assertEqual(reply.status, 400)
        self.assertIn("has no salt-ssh", reply.text)

    def test_api_acl(self) -> None:
        """C{api_acl} says from where a user may come, also with a session and by C{/run}."""
        block = {"api_acl": {"users": {"admin": ["192.0.2.7"], "*": ["*"]}}}
        api = ApiRig(self, block=block)
        token = api.login()
        api.login("reader", address="198.51.100.1")

        for more in ({"address": "198.51.100.1"}, {"address": "192.0.2.70"}):
            self.assertEqual(api.ask("POST", "/login", LOGIN, **more).status, 401)
            self.assertEqual(api.ask("POST", "/", [ARG], token=token, **more).status, 401)
            for proof in ({"token": token}, LOGIN):
                reply = api.ask("POST", "/run", [{**ARG, **proof}], **more)
                self.assertEqual(reply.status, 401)
        self.assertEqual(api.ask("POST", "/", [ARG], token=token).status, 200)

    def test_authorized_ips(self) -> None:
        """With C{authorized_ips} nobody else is answered anything."""
        api = ApiRig(self, block={"authorized_ips": ["192.0.2.7"]})
        self.assertEqual(api.ask("GET", "/").status, 200)
        self.assertEqual(api.ask("GET", "/", address="198.51.100.1").status, 403)


class BodyTests(SynchronousTestCase):
    """Bodies."""

    def setUp(self) -> None:
        self.api = ApiRig(self)
        self.token = self.api.login()

    def status(self, body: bytes, kind: str, **more: Any) -> int:
        """What is said to a body of somebody who has logged in."""
        more = {"token": self.token, **more}
        return self.api.ask("POST", "/", body=body, Content_Type=kind, **more).status

    def test_broken(self) -> None:
        """What is not what it says is 400, and nobody's error."""
        cases = [
            (b"[{", "application/json"),
            (b"\xff\xfe", "application/json"),
            (b"[" * 100_000, "application/json"),
            (b"9" * 5000, "application/json"),
            (b"a: [", "application/x-yaml"),
            (b"!!python/object/apply:os.system [id]", "text/yaml"),
            (b"[" * 5000, "application/x-yaml"),
            (b"\xc1", "application/x-msgpack"),
            (b"&".join(b"a%d=1" % n for n in range(100_000)), bodies.FORM),
            (b"arg=" + b"[" * 20_000, bodies.FORM),
            (b"kwarg=x&client=runner&fun=test.arg", bodies.FORM),
            (b"7", "application/json"),
            (b'{"client": 7}', "application/json"),
            (json.dumps([{**ARG, "kwarg": [1]}]).encode(), "application/json"),
            (json.dumps([{**PING, "tgt_type": {"a": 1}}]).encode(), "application/json"),
            (json.dumps([{**PING, "timeout": "soon"}]).encode(), "application/json"),
        ]
        for body, kind in cases:
            self.assertEqual(self.status(body, kind), 400, (body[:60], kind))
        self.assertEqual(self.status(b"x", "image/png"), 406)
        self.assertEqual(self.api.rig.counters["api:failed"], 0)

    def test_endless(self) -> None:
        """A number without an end is 400 wherever one is expected, and nobody's error."""
        for chunk in (
            '"client": "local_batch", "batch": "inf%"',
            '"client": "local_batch", "batch": 1e400',
            '"client": "local_batch", "batch": NaN',
            '"client": "local_subset", "subset": 1e400',
            '"client": "local_subset", "sub": -1e400',
            '"client": "local", "timeout": 1e400',
            '"client": "local", "gather_job_timeout": NaN',
            '"client": "runner", "timeout": 1e400',
        ):
            body = f'[{{"tgt": "*", "fun": "test.ping", {chunk}}}]'.encode()
            self.assertEqual(self.status(body, "application/json"), 400, chunk)
        self.assertEqual(self.api.rig.counters["api:failed"], 0)
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_bombs(self) -> None:
        """T-YAML-1: a YAML whose anchors repeat one another is refused before it is walked."""
        lines = ["client: runner", "fun: test.arg", "a: &a [x,x,x,x,x,x,x,x,x,x]"]
        for last, name in zip("abcde", "bcdef", strict=True):
            lines.append(f"{name}: &{name} [{','.join([f'*{last}'] * 10)}]")
        bomb = "\n".join(lines).encode()
        reply = self.api.ask(
            "POST", "/", body=bomb, token=self.token, Content_Type="application/x-yaml"
        )
        self.assertEqual(reply.status, 400)
        self.assertIn("too many values", reply.text)

    def test_T_API_5_too_large(self) -> None:
        """T-API-5: a body over the limit is refused by its announced length, and by what came."""
        api = ApiRig(self, block={"max_request_body_size": 1000})
        head = b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
        for start in (
            head + b"Content-Length: 1001\r\n\r\n",
            head + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001,
        ):
            connection = api.open("GET", "/")
            connection.transport.clear()
            connection.send(start)
            (reply,) = connection.replies
            self.assertEqual(reply.status, 413)
            connection.send(b"x" * 100_000)
            self.assertLessEqual(connection.protocol.requests[0].content.tell(), 1000)
            api.wait(http.LINGER + 1)
            self.assertTrue(connection.transport.disconnecting)

    def test_T_API_5_before_a_login(self) -> None:
        """T-API-5: of somebody without a session only small bodies are read."""
        body = b"[" + b'"x",' * 20_000 + b'"x"]'
        for path in ("/login", "/run", "/token"):
            self.assertEqual(self.api.ask("POST", path, body=body).status, 413, path)
        separators = b"&;" * 500_000
        self.assertEqual(self.api.ask("POST", "/login", body=separators).status, 413)

    def test_T_API_5_announced(self) -> None:
        """T-API-5: of a stranger no more is kept than a small body, whatever is to come yet."""
        head = b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
        for start in (
            head + b"Content-Length: 1000000\r\n\r\n",
            head + b"Transfer-Encoding: chunked\r\n\r\n20000\r\n" + b"x" * 100_000,
        ):
            connection = self.api.open("GET", "/")
            connection.transport.clear()
            connection.send(start)
            self.api.wait(1)
            (reply,) = connection.replies
            self.assertEqual(reply.status, 413)

    def test_T_API_4_malformed_parts(self) -> None:
        """T-API-4: files in a form are nothing here, and write nothing into the log."""
        for _ in range(100):
            kind = "multipart/form-data; boundary=x"
            self.assertEqual(self.status(b"--x\r\n" * 100, kind), 406)
        self.assertEqual(self.flushLoggedErrors(), [])


class ConnectionTests(SynchronousTestCase):
    """Connections."""

    def setUp(self) -> None:
        self.api = ApiRig(self)

    def test_slow(self) -> None:
        """Who takes too long to send a request is hung up on, however often a byte comes."""
        for start in (b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 99\r\n\r\n"):
            connection = self.api.open("GET", "/")
            connection.transport.clear()
            connection.send(start)
            for _ in range(35):
                if connection.transport.disconnecting:
                    break
                self.assertEqual(connection.replies, [])
                self.api.rig.clock.advance(1)
                connection.send(b"x")
            self.assertEqual([reply.status for reply in connection.replies], [408])
        self.assertEqual(self.api.rig.counters["api:slow"], 2)

    def test_idle(self) -> None:
        """A connection on which nothing comes ends after a minute."""
        connection = self.api.open("GET", "/")
        self.api.rig.clock.advance(59)
        self.assertFalse(connection.transport.disconnecting)
        self.api.rig.clock.advance(2)
        self.assertTrue(connection.transport.disconnecting)

    def test_long_answers_wait(self) -> None:
        """A request whose answer takes longer than that is not cut off."""
        connection = self.api.open("POST", "/", [{**PING, "timeout": 600}], token=self.api.login())
        self.api.rig.clock.pump([10] * 30)
        self.assertFalse(connection.transport.disconnecting)
        self.api.answer(True, 0, 1)
        self.assertEqual([reply.status for reply in connection.replies], [200])

    def test_too_many(self) -> None:
        """Who opens very many connections is refused more; others are not."""
        self.patch(http, "FROM_ONE", 3)
        for _ in range(3):
            self.assertEqual(self.api.ask("GET", "/").status, 200)
        self.assertEqual(self.api.open("GET", "/").replies[0].status, 503)
        self.assertEqual(self.api.ask("GET", "/", address="198.51.100.1").status, 200)

    def test_gone(self) -> None:
        """Nothing is left of a client that goes away while it waits; its job goes on."""
        before = len(self.api.rig.clock.getDelayedCalls())
        connection = self.api.open("POST", "/", [PING], token=self.api.login())
        from twisted.internet.error import ConnectionDone
        from twisted.python.failure import Failure

        connection.protocol.connectionLost(Failure(ConnectionDone()))
        for each in self.api.rig.clock.getDelayedCalls()[before:]:
            self.assertNotIn("AwaitedJob", str(each))
        self.api.answer(True, 0, 1)
        self.assertEqual(connection.replies, [])

    def test_many_in_a_row(self) -> None:
        """Requests sent without waiting are answered in their order."""
        connection = self.api.open("GET", "/")
        connection.send(b"GET /nowhere HTTP/1.1\r\n\r\nGET /login HTTP/1.1\r\n\r\n")
        self.api.wait(0.1)
        self.assertEqual([reply.status for reply in connection.replies], [200, 404, 200])

    def test_junk(self) -> None:
        """What is no HTTP is hung up on."""
        for junk in (
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"\r\n\r\n\r\n",
            b"GET\r\n\r\n",
            b"A" * 20_000,
        ):
            connection = self.api.open("GET", "/")
            connection.transport.clear()
            connection.send(junk + b"\r\n\r\n")
            self.assertTrue(connection.transport.disconnecting, junk[:10])

    def test_methods(self) -> None:
        """A method that an endpoint has not is 405, with those that it has."""
        for method in ("PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "NOSUCH"):
            reply = self.api.ask(method, "/login")
            self.assertEqual((reply.status, reply.headers["allow"]), (405, ["GET, HEAD, POST"]))

    def test_head(self) -> None:
        """C{HEAD} is C{GET} without a body."""
        connection = self.api.open("HEAD", "/")
        head, _, rest = connection.transport.value().partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200 "))
        self.assertEqual(rest, b"")


class PathTests(SynchronousTestCase):
    """T-API-3: paths, and files."""

    def setUp(self) -> None:
        top = self.mktemp()
        os.makedirs(os.path.join(top, "static", "sub"))
        self.write(os.path.join(top, "secret"), "secret")
        self.write(os.path.join(top, "page.html"), "<p>page</p>")
        self.write(os.path.join(top, "static", "a.js"), "let a")
        self.text = os.path.join(top, "static", "sub", "b c.txt")
        self.write(self.text, "b")
        os.symlink("../secret", os.path.join(top, "static", "link"))
        os.symlink("..", os.path.join(top, "static", "up"))
        os.mkfifo(os.path.join(top, "static", "pipe"))
        block = {"static": os.path.join(top, "static"), "app": os.path.join(top, "page.html")}
        self.api = ApiRig(self, block=block)

    def write(self, path: str, text: str) -> None:
        """A file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_files(self) -> None:
        """Files below C{static} are served, with their type, and not again while unchanged."""
        reply = self.api.ask("GET", "/static/a.js")
        self.assertEqual((reply.status, reply.text), (200, "let a"))
        self.assertIn("javascript", reply.headers["content-type"][0])
        self.assertEqual(reply.headers["x-content-type-options"], ["nosniff"])
        self.assertEqual(self.api.ask("GET", "/static/sub/b%20c.txt").text, "b")
        since = reply.headers["last-modified"][0]
        self.assertEqual(self.api.ask("GET", "/static/a.js", If_Modified_Since=since).status, 304)

    def test_gzip(self) -> None:
        """
        Pages, texts and errors are compressed for who asks for it, a file in a thread; a script,
        and answers as JSON, are not.
        """
        long = "b" * 200_000
        self.write(self.text, long)
        for path, plain in (("/static/sub/b%20c.txt", long), ("/app", "<p>page</p>")):
            reply = self.api.ask("GET", path, Accept_Encoding="gzip, deflate")
            self.assertEqual(reply.headers["content-encoding"], ["gzip"])
            self.assertIn("Accept-Encoding", reply.headers["vary"][0])
            self.assertEqual(gzip.decompress(reply.content).decode(), plain)
            reply = self.api.ask("GET", path)
            self.assertNotIn("content-encoding", reply.headers)
            self.assertIn("Accept-Encoding", reply.headers["vary"][0])
            self.assertEqual(reply.text, plain)
        wrong = self.api.ask("GET", "/nosuch", Accept_Encoding="gzip")
        self.assertIn(b"was not found", gzip.decompress(wrong.content))
        for path in ("/static/a.js", "/"):
            reply = self.api.ask("GET", path, Accept_Encoding="gzip")
            self.assertNotIn("content-encoding", reply.headers)

    def test_page(self) -> None:
        """A browser that asks for a page gets the app, wherever it comes; programs do not."""
        for path in ("/app", "/app/x/y", "/", "/minions"):
            reply = self.api.ask("GET", path, Accept="text/html,application/xhtml+xml,*/*;q=0.8")
            self.assertEqual((reply.status, reply.text), (200, "<p>page</p>"), path)
        self.assertEqual(self.api.ask("GET", "/").json["return"], "Welcome")
        self.assertEqual(self.api.ask("GET", "/minions").status, 401)

    def test_T_API_3_paths(self) -> None:
        """T-API-3: no path leaves the directory, and each refusal is the same C{404}."""
        for path in (
            "/static/../secret", "/static/..%2fsecret", "/static/%2e%2e/secret",
            "/static/%2e%2e%2fsecret", "/static/..\\secret", "/static//etc/passwd",
            "/static/sub/../../secret", "/static/sub", "/static", "/static/", "/static/nosuch",
            "/static/%00", "/static/a.js%00.html", "/static/link", "/static/up/secret",
            "/static/pipe", "/static/%ff", "/static/" + "a/" * 30, "/staticx", "/static.",
            "/minions/../static/../secret", "/keys/..%2f..%2fmaster.pem",
        ):  # fmt: skip
            reply = self.api.ask("GET", path, token=self.api.login())
            self.assertEqual(reply.status, 404, path)
            self.assertNotIn("secret\n", reply.text)

    def test_prefix(self) -> None:
        """With C{root_prefix} everything is below it, and nothing elsewhere."""
        api = ApiRig(self, block={"root_prefix": "/salt/api"})
        self.assertEqual(api.ask("GET", "/salt/api").json["return"], "Welcome")
        self.assertEqual(api.ask("GET", "/salt/api/login").status, 200)
        for path in ("/", "/login", "/salt", "/salt/apix/login"):
            self.assertEqual(api.ask("GET", path).status, 404, path)


class HeaderTests(SynchronousTestCase):
    """Headers, and pages of somebody else."""

    def setUp(self) -> None:
        self.api = ApiRig(self)

    def test_markup(self) -> None:
        """What a client sent is no markup in the page that says what was wrong."""
        for reply in (
            self.api.ask("GET", "/<script>alert(1)</script>"),
            self.api.ask("GET", "/", Accept="<script>/x"),
            self.api.ask("POST", "/", [{"client": "<script>"}], token=self.api.login()),
        ):
            self.assertNotIn("<script", reply.text)

    def test_injection(self) -> None:
        """No header of an answer has a second line that a client wrote."""
        token = self.api.login()
        low = {"mid": "a\r\nX-Bad: 1", **LOGIN}
        for connection in (
            self.api.open("GET", "/", Origin="http://a\rX-Bad: 1"),
            self.api.open("GET", "/%0d%0aX-Bad:1"),
            self.api.open("GET", "/", token=token, Cookie="session_id=a%0d%0aX-Bad: 1"),
            self.api.open("POST", "/keys", low),
        ):
            self.api.wait(3)
            for reply in connection.replies:
                self.assertNotIn("x-bad", reply.headers)

    def test_T_LOG_1_access(self) -> None:
        """
        T-LOG-1, T-LOG-2: the log of requests has a line for each, with the user; no token, no
        password, and no line that a client wrote.
        """
        path = self.mktemp()
        api = ApiRig(self, block={"log_access_file": path})
        (access,) = [each for each in api.api.beside if isinstance(each, AccessLog)]
        access.startService()
        self.addCleanup(access.stopService)
        token = api.login()
        api.ask("POST", f"/?token={token}", [ARG], token=token, User_Agent='a"\\ b\x1b[2J')
        api.ask("GET", "/%0a1.2.3.4-root")

        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn('"POST /login HTTP/1.1" 200', lines[0])
        self.assertIn("- admin [", lines[1])
        self.assertIn('"a\\x22\\x5c b\\x1b[2J"', lines[1])
        for secret in (token, "adminpw"):
            self.assertNotIn(secret, "".join(lines))

    def test_elsewhere(self) -> None:
        """A page of somebody whom C{cors_origin} does not name does nothing with a cookie."""
        cookie = f"session_id={self.api.login()}"
        for method, path, low in (
            ("POST", "/", [{**PING, "client": "local_async"}]),
            ("GET", "/minions", None),
            ("GET", "/jobs", None),
            ("POST", "/logout", None),
        ):
            reply = self.api.ask(method, path, low, Cookie=cookie, Origin=OTHER)
            self.assertEqual(reply.status, 403, path)
            self.assertNotIn("access-control-allow-origin", reply.headers)
        self.assertEqual(self.api.rig.published_jobs(), [])
        same = self.api.ask("POST", "/", [ARG], Cookie=cookie, Origin="http://api.example:8000")
        self.assertEqual(same.status, 200)

    def test_T_CSRF_1_port(self) -> None:
        """
        T-CSRF-1: another port of this host is somebody else, as are another name, and what only
        looks like this one: a program of another user listens there.
        """
        cookie = f"session_id={self.api.login()}"
        for origin in (
            *("http://api.example:8001", "http://api.example", "http://api.example:80"),
            *("http://api.example:8000.evil.example", "http://evil.example:8000", "null"),
            *(
                "http://api.example:8000@evil.example",
                "http://x@api.example:8000",
                "api.example:8000",
            ),
        ):
            reply = self.api.ask("POST", "/", [ARG], Cookie=cookie, Origin=origin)
            self.assertEqual(reply.status, 403, origin)
            self.assertNotIn("access-control-allow-origin", reply.headers, origin)

    def test_preflight(self) -> None:
        """Browsers are told that whom C{cors_origin} names may come, and nobody else."""
        api = ApiRig(self, block={"cors_origin": [OTHER]})
        more = {"Access_Control_Request_Method": "POST"}
        reply = api.ask("OPTIONS", "/", Origin=OTHER, **more)
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.headers["access-control-allow-origin"], [OTHER])
        self.assertEqual(reply.headers["access-control-allow-methods"], ["GET, POST"])
        for origin in ("http://a.example", "null", "http://elsewhere.example.evil", "://["):
            reply = api.ask("OPTIONS", "/", Origin=origin, **more)
            self.assertNotIn("access-control-allow-origin", reply.headers, origin)
        cookie = f"session_id={api.login()}"
        self.assertEqual(api.ask("POST", "/", [ARG], Cookie=cookie, Origin=OTHER).status, 200)
