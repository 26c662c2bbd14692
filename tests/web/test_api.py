"""
The API of one master: logins and sessions, low state, who may what.
"""

from __future__ import annotations

import io
import json
import tarfile
from functools import partial
from typing import Any

import yaml
from twisted.internet.defer import Deferred, fail
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.tries import IN_ALL
from saltwisted.domain.who import local
from saltwisted.errors import RemoteError
from saltwisted.master.calls import CLIENT_INTERNAL_KEYWORDS
from saltwisted.wire.msgpack import pack, unpack
from tests.web.calls import LOGIN, PING
from tests.web.rig import ApiRig

ARG = {"client": "runner", "fun": "test.arg", "arg": ["a"]}
NO_RETURN = {"out": "no_return", "ret": "", "retcode": 1}


class SessionTests(SynchronousTestCase):
    """Logging in and out."""

    def setUp(self) -> None:
        self.api = ApiRig(self)

    def test_login(self) -> None:
        """A login gives a token in body, header and cookie, with which its user may come."""
        reply = self.api.ask("POST", "/login", LOGIN)

        self.assertEqual(reply.status, 200)
        (shown,) = reply.json["return"]
        self.assertEqual(sorted(shown), ["eauth", "expire", "perms", "start", "token", "user"])
        self.assertEqual(shown["perms"], [".*", "@jobs", "@runner", "@wheel"])
        self.assertEqual(reply.headers["x-auth-token"], [shown["token"]])
        (cookie,) = reply.headers["set-cookie"]
        self.assertTrue(cookie.startswith(f"session_id={shown['token']}; "), cookie)
        self.assertIn("HttpOnly", cookie)
        by_cookie = self.api.ask("POST", "/", [ARG], Cookie=f"session_id={shown['token']}")
        self.assertEqual(by_cookie.json, {"return": [{"args": ["a"], "kwargs": {}}]})

    def test_T_EAUTH_1_other_fields(self) -> None:
        """
        T-EAUTH-1: fields of a login beside the known ones have no effect, as SaltGUI sends them: it
        is logged in, and the backend gets what it got without them.
        """
        asked, logins = self.api.rig.backends.asked, self.api.rig.ctx.logins
        make_token, entered = logins.make_token, set()

        def watched(given: Any, *more: Any) -> Any:
            entered.update(given)
            return make_token(given, *more)

        self.patch(logins, "make_token", watched)
        self.api.ask("POST", "/login", LOGIN)
        alone = asked.pop()
        for extra in (
            {"sharedsecret": "adminpw"},
            {"service": "other", "client": "local", "key": "x", "user": "root"},
            {"^filename": "/etc/passwd", "settings": {"^filename": "/etc/passwd"}},
            {"token": "0" * 64, "groups": ["wheel"], "code": {"code": "x"}},
        ):
            reply = self.api.ask("POST", "/login", {**LOGIN, **extra})
            self.assertEqual(reply.status, 200, extra)
            self.assertEqual(reply.json["return"][0]["user"], "admin")
            self.assertEqual(asked.pop(), alone, extra)
        self.assertEqual(entered, {*LOGIN}, "what else comes is dropped at the entrance")
        wrong = {**LOGIN, "password": "no", "sharedsecret": "adminpw"}
        self.assertEqual(self.api.ask("POST", "/login", wrong).status, 401)

    def test_T_EAUTH_4_refused(self) -> None:
        """T-EAUTH-4: a wrong password, user or backend is one answer, after the same wait."""
        for wrong in ({"password": "no"}, {"username": "no"}, {"eauth": "no"}):
            connection = self.api.open("POST", "/login", {**LOGIN, **wrong})
            self.assertEqual(connection.replies, [], wrong)
            self.api.wait(3)
            (reply,) = connection.replies
            self.assertEqual(reply.status, 401)
            self.assertIn("Could not authenticate using provided credentials", reply.text)
            self.assertNotIn("set-cookie", reply.headers)

    def test_crowd(self) -> None:
        """
        Logins that find no room among very many are told to come again, and not that they are
        wrong, whether or not they are; to whom there is room is let in.
        """
        waiting: list[Any] = []
        self.patch(self.api.rig.backends, "call", lambda *args: waiting.append(args) or Deferred())
        open_ = [self.api.open("POST", "/login", LOGIN) for _ in range(140)]
        open_ += [self.api.open("POST", "/login", {**LOGIN, "password": "no"}) for _ in range(137)]
        self.api.wait(3)

        told = [reply for each in open_ for reply in each.replies]
        self.assertEqual(len(waiting), 1)
        self.assertEqual({reply.status for reply in told}, {503})
        self.assertEqual(len(told), 140 + 137 - 1 - IN_ALL)
        self.assertEqual(told[0].headers["retry-after"], ["2"])

    def test_logout(self) -> None:
        """After a logout the token is worth nothing, neither here nor in C{/run}."""
        token = self.api.login()
        self.assertEqual(
            self.api.ask("POST", "/logout", token=token).json,
            {"return": "Your token has been cleared"},
        )

        self.assertEqual(self.api.ask("POST", "/", [ARG], token=token).status, 401)
        self.assertEqual(self.api.ask("POST", "/run", [{**ARG, "token": token}]).status, 401)

    def test_end(self) -> None:
        """A session ends when its token does."""
        token = self.api.login()
        self.api.rig.clock.advance(43199)
        self.assertEqual(self.api.ask("POST", "/", [ARG], token=token).status, 200)
        self.api.rig.clock.advance(2)
        self.assertEqual(self.api.ask("POST", "/", [ARG], token=token).status, 401)

    def test_session_timeout(self) -> None:
        """With C{session_timeout} it ends so many minutes after the login."""
        api = ApiRig(self, block={"session_timeout": 10})
        token = api.login()
        api.rig.clock.advance(599)
        self.assertEqual(api.ask("POST", "/", [ARG], token=token).status, 200)
        api.rig.clock.advance(1)
        self.assertEqual(api.ask("POST", "/", [ARG], token=token).status, 401)

    def test_token(self) -> None:
        """C{/token} gives a bare list, and C{/run} takes such a token without a session."""
        (made,) = self.api.ask("POST", "/token", LOGIN).json
        self.assertEqual(made["name"], "admin")
        reply = self.api.ask("POST", "/run", [{**ARG, "token": made["token"]}])
        self.assertEqual(reply.json, {"return": [{"args": ["a"], "kwargs": {}}]})


class LowStateTests(SynchronousTestCase):
    """What chunks do."""

    def setUp(self) -> None:
        self.api = ApiRig(self)
        self.token = self.api.login()

    def test_local(self) -> None:
        """C{local} answers when all minions have, with what each said."""
        connection = self.api.open("POST", "/", [PING], token=self.token)
        self.api.answer(True, 0)
        self.assertEqual(connection.replies, [])
        self.api.answer(True, 1)

        (reply,) = connection.replies
        self.assertEqual(reply.json, {"return": [{"api-00000": True, "api-00001": True}]})
        self.assertEqual(self.api.rig.published_jobs()[0]["user"], "admin")

    def test_long_yaml(self) -> None:
        """A long document of YAML, sent or wanted, is a worker's business; a short one is not."""
        for count, worked in ((1, 0), (2000, 2)):
            arg = [f"a{number}" for number in range(count)]
            low = yaml.safe_dump([{**ARG, "arg": arg}]).encode()
            reply = self.api.ask(
                "POST",
                "/",
                body=low,
                token=self.token,
                Content_Type="application/x-yaml",
                Accept="application/x-yaml",
            )
            self.assertEqual(
                yaml.safe_load(reply.content), {"return": [{"args": arg, "kwargs": {}}]}
            )
            self.assertEqual(self.api.worked, worked)
        bad = b"a: [" + b" " * 5000
        kind = {"Content_Type": "application/x-yaml"}
        self.assertEqual(self.api.ask("POST", "/", body=bad, token=self.token, **kind).status, 400)

    def test_yaml_dialect(self) -> None:
        """YAML in a request is Salt's: C{0644} is 644, a date is text, no key is there twice."""
        kind = {"Content_Type": "application/x-yaml"}
        low = b"- {client: runner, fun: test.arg, arg: [0644, 2026-01-02, {mode: 0755}]}"
        reply = self.api.ask("POST", "/", body=low, token=self.token, **kind)
        wanted = [644, "2026-01-02", {"mode": 755}]
        self.assertEqual(reply.json["return"], [{"args": wanted, "kwargs": {}}])
        twice = b"- {client: runner, fun: test.arg, fun: test.arg}"
        reply = self.api.ask("POST", "/", body=twice, token=self.token, **kind)
        self.assertEqual(reply.status, 400)

    def test_long_bodies(self) -> None:
        """
        Long JSON, msgpack and forms are a worker's business too, for hooks as for low state: full
        of brackets they would hold up the master. What they mean arrives whole.
        """
        arg = [[number, {}] for number in range(4000)]
        low = [{**ARG, "arg": arg}]
        form = "&".join(["client=runner", "fun=test.arg", *(f"arg=a{n}" for n in range(300))])
        for count, (kind, body, wanted) in enumerate(
            (
                ("application/json", json.dumps(low).encode(), arg),
                ("text/plain", json.dumps(low).encode(), arg),
                ("application/x-msgpack", pack(low), arg),
                ("application/x-www-form-urlencoded", form.encode(), [f"a{n}" for n in range(300)]),
            ),
            1,
        ):
            reply = self.api.ask("POST", "/", body=body, token=self.token, Content_Type=kind)
            self.assertEqual(reply.json["return"], [{"args": wanted, "kwargs": {}}], kind)
            self.assertEqual(self.api.worked, count, kind)

        fired: list[Any] = []
        self.api.rig.bus.subscribe("salt/netapi/", lambda tag, data: fired.append(data["post"]))
        for kind, body in (
            ("application/json", json.dumps(low).encode()),
            ("application/x-yaml", yaml.safe_dump(low).encode()),
        ):
            reply = self.api.ask("POST", "/hook/x", body=body, token=self.token, Content_Type=kind)
            self.assertEqual(reply.status, 200, kind)
        self.assertEqual((fired, self.api.worked), ([low, low], 6))

    def test_busy(self) -> None:
        """When too many long documents wait for the worker, the next one is told when to come."""
        busy = RemoteError("WorkerBusy", "64 calls are already waiting")
        self.patch(self.api, "work", lambda entry, payload, timeout: fail(busy))
        body = json.dumps([{**ARG, "arg": list(range(9000))}]).encode()

        for path in ("/", "/hook/x"):
            reply = self.api.ask("POST", path, body=body, token=self.token)
            self.assertEqual((reply.status, reply.headers["retry-after"]), (503, ["5"]), path)

    def test_large_answers(self) -> None:
        """A large answer is whole, whatever is in it, and is what C{json.dumps} makes of it."""
        value = {
            "text": "x\u00e4\n" * 50_000,
            "list": [{"a": [1, 2.5, None, True, "b"]}] * 3000,
            "map": {str(number): {"n": number} for number in range(3000)},
            "numbers": list(range(5000)),
            "empty": [{}, [], ""],
        }
        connection = self.api.open("POST", "/", [PING], token=self.token)
        self.api.answer(value, 0, 1)
        self.api.wait(2)

        (reply,) = connection.replies
        whole = {"return": [{"api-00000": value, "api-00001": value}]}
        self.assertEqual(reply.json, whole)
        self.assertEqual(reply.text, json.dumps(whole, ensure_ascii=False))

    def test_stalled(self) -> None:
        """A large answer waits for a client that reads slowly, and ends for one that does not."""
        again = self.api.open("POST", "/", [PING], token=self.token)
        channel = again.protocol
        write = again.transport.write

        def pausing(data: bytes) -> None:
            write(data)
            if len(data) > 60_000:
                channel.pauseProducing()

        self.patch(again.transport, "write", pausing)
        self.api.answer("x" * 1_000_000, 0, 1)
        self.api.wait(1)
        got = len(again.transport.value())
        self.assertLess(got, 200_000)
        channel.resumeProducing()
        self.assertGreater(len(again.transport.value()), got)
        self.assertFalse(again.transport.disconnected)
        self.api.rig.clock.advance(61)
        self.assertTrue(again.transport.disconnected)

    def test_silent(self) -> None:
        """A minion that did not answer is neither false nor empty, and is listed apart."""
        for full in (False, True):
            chunk = {**PING, "full_return": full}
            connection = self.api.open("POST", "/", [chunk], token=self.token)
            self.api.answer(True, 0)
            self.api.wait(30)

            (reply,) = connection.replies
            (shown,) = reply.json["return"]
            told = shown["api-00001"]["ret"] if full else shown["api-00001"]
            self.assertIn("Minion did not return.", told)
            self.assertEqual(reply.json["missing"], [["api-00001"]])

    def test_keywords_of_runners(self) -> None:
        """
        By the API a runner is called without keywords that it does not take, as by stock, and the
        log names them, however they come; C{salt-run} refuses them.
        """
        lines: list[str] = []

        def listen(event: LogEvent) -> None:
            lines.append(formatEvent(event) or "")

        globalLogPublisher.addObserver(listen)
        self.addCleanup(globalLogPublisher.removeObserver, listen)
        chunk = {"client": "runner", "fun": "test.metasyntactic"}
        alone = self.api.ask("POST", "/", [chunk], token=self.token).json
        for more in (
            {"full_return": False, "colour": "red\nroot does all"},
            {"kwarg": {"colour": "red"}},
            {"arg": ["colour=red"]},
        ):
            lines.clear()
            reply = self.api.ask("POST", "/", [{**chunk, **more}], token=self.token)
            self.assertEqual(reply.json, alone, more)
            (line,) = [each for each in lines if "was dropped" in each]
            self.assertTrue(line.startswith("admin (file) called runner test.metasyntactic"), line)
            self.assertTrue(line.endswith(": colour"), line)
        whole = {**chunk, "colour": "red", "locality": "us", "full_return": True}
        reply = self.api.ask("POST", "/", [whole], token=self.token)
        self.assertEqual(reply.json["return"][0]["data"]["fun_args"], [{"locality": "us"}])
        self.assertNotIn("dropped", reply.text)
        # What takes any keyword gets it
        low = {"client": "runner", "fun": "test.arg", "colour": "red"}
        reply = self.api.ask("POST", "/", [low], token=self.token)
        self.assertEqual(reply.json["return"], [{"args": [], "kwargs": {"colour": "red"}}])

        run = self.api.rig.ctx.runner("test.metasyntactic", [], {"colour": "red"}, local("root"))
        told = self.successResultOf(Deferred.fromCoroutine(run))
        self.assertFalse(told["success"])
        self.assertIn("Passed invalid arguments", told["return"])

    def test_keywords_of_the_wheel(self) -> None:
        """
        A wheel function ignores what stock's clients put among its keywords (SaltGUI sends C{match}
        to all of them), unless it takes it, and nothing else.
        """
        chunk = {"client": "wheel", "fun": "key.list_all"}

        def data(chunk: dict[str, Any]) -> dict[str, Any]:
            reply = self.api.ask("POST", "/", [chunk], token=self.token)
            found = reply.json["return"][0]["data"]
            return {key: found[key] for key in ("return", "success")}

        alone = data(chunk)
        self.assertTrue(alone["success"])
        for name in CLIENT_INTERNAL_KEYWORDS - {"client", "fun", "kwarg", "token"}:
            self.assertEqual(data({**chunk, name: "*"}), alone, name)
        for name in ("mach", "hash_type", "tgt"):
            self.assertFalse(data({**chunk, name: "*"})["success"], name)
        found = data({**chunk, "fun": "key.name_match", "match": "api-00000"})
        self.assertEqual(found["return"], {"minions": ["api-00000"]})

    def test_unknown_ids(self) -> None:
        """
        An id of a list that nobody has is told as a minion that did not answer, as by C{salt} and
        by stock; by itself it is no job. C{local_async} and batches name those who got the job.
        """
        listed = {**PING, "tgt": ["api-00000", "gone"], "tgt_type": "list"}
        for full in (False, True):
            chunk = {**listed, "full_return": full}
            connection = self.api.open("POST", "/", [chunk], token=self.token)
            self.api.answer(True, 0)
            self.api.wait(30)
            (reply,) = connection.replies
            (shown,) = reply.json["return"]
            self.assertEqual(sorted(shown), ["api-00000", "gone"])
            told = shown["gone"]["ret"] if full else shown["gone"]
            self.assertIn("Minion did not return. [No response]", told)
            self.assertIn("jobs.lookup_jid 20", told)
            if full:
                self.assertEqual({**shown["gone"], "ret": ""}, NO_RETURN)
            self.assertEqual(reply.json["missing"], [["gone"]])

        low = {**listed, "client": "local_async"}
        (job,) = self.api.ask("POST", "/", [low], token=self.token).json["return"]
        self.assertEqual(job["minions"], ["api-00000"])
        connection = self.api.open(
            "POST", "/", [{**listed, "client": "local_batch"}], token=self.token
        )
        self.api.wait(0.5)
        self.api.answer(True, 0)
        self.api.wait(1)
        self.assertEqual(connection.replies[0].json, {"return": [{"api-00000": True}]})
        nobody = {**listed, "tgt": ["gone"]}
        reply = self.api.ask("POST", "/", [nobody], token=self.token)
        self.assertEqual(reply.json, {"return": [{}]})

    def test_jobs(self) -> None:
        """C{/jobs} has all jobs, or so many of the newest, and says after which the next are."""
        jids = []
        for _ in range(5):
            chunk = {**PING, "client": "local_async"}
            done = self.api.ask("POST", "/", [chunk], token=self.token)
            jids.append(done.json["return"][0]["jid"])
            self.api.rig.clock.advance(1)
        self.api.answer(True, 0, 1)

        whole = self.api.ask("GET", "/jobs", token=self.token).json
        self.assertLessEqual(set(jids), set(whole["return"][0]))
        first = self.api.ask("GET", "/jobs?limit=2", token=self.token).json
        shown = list(first["return"][0])
        # Asking is a job too, and the newest
        self.assertEqual(shown, sorted({*whole["return"][0], shown[0]}, reverse=True)[:2])
        path = f"/jobs?limit=1000&after={first['after']}"
        rest = self.api.ask("GET", path, token=self.token).json
        self.assertNotIn("after", rest)
        self.assertEqual(set(rest["return"][0]), set(whole["return"][0]) - set(shown))
        for bad in ("0", "-1", "x", "99999999999", "1e3"):
            path = f"/jobs?limit={bad}"
            self.assertEqual(self.api.ask("GET", path, token=self.token).status, 400, bad)
        one = self.api.ask("GET", f"/jobs/{jids[-1]}", token=self.token).json
        self.assertEqual(one["return"], [{"api-00000": True, "api-00001": True}])
        self.assertEqual(one["info"][0]["Function"], "test.ping")

    def test_jobs_in_each_form(self) -> None:
        """A list of jobs is the same in JSON, YAML and msgpack."""
        self.api.rig.ctx.jobs.save_job(
            "20260701120000000000", {"fun": "test.arg", "arg": ["é", 1], "tgt": "*"}, ["a"]
        )
        shown = {
            kind: self.api.ask("GET", "/jobs", token=self.token, Accept=kind).content
            for kind in ("application/json", "application/x-yaml", "application/x-msgpack")
        }
        as_json, as_yaml, as_msgpack = shown.values()
        found = json.loads(as_json)
        (jobs,) = found["return"]

        self.assertEqual(jobs["20260701120000000000"]["Arguments"], ["é", 1])
        (later,) = yaml.safe_load(as_yaml)["return"]
        (last,) = unpack(as_msgpack)["return"]
        # Each request is a job of its own
        self.assertEqual([len(jobs), len(later), len(last)], [1, 2, 3])
        self.assertLessEqual(jobs.items(), later.items())
        self.assertLessEqual(later.items(), last.items())

    def test_pages_are_cheap(self) -> None:
        """
        A page reads the jobs that it shows and one more, however many there are; with a filter it
        reads on in parts until it is full. All pages together are all jobs, each once.
        """
        jobs = self.api.rig.ctx.jobs
        for number in range(1300):
            load = {"fun": "test.ping" if number % 100 else "test.rare", "tgt": "*"}
            jobs.save_job(f"20260701120000{number:06d}", load, [])
        self.api.wait(1)
        asked: list[tuple[Any, int]] = []
        list_jobs = jobs.list_jobs

        def asking(**criteria: Any) -> Any:
            asked.append((criteria.get("below"), criteria["limit"]))
            return list_jobs(**criteria)

        self.patch(jobs, "list_jobs", asking)
        seen: list[str] = []
        after = "20260701120000999999"
        while after:
            path = f"/jobs?limit=300&after={after}"
            reply = self.api.ask("GET", path, token=self.token).json
            seen += reply["return"][0]
            after = reply.get("after", "")
        self.assertEqual(seen, [f"20260701120000{n:06d}" for n in reversed(range(1300))])
        self.assertEqual([limit for _, limit in asked], [301] * 5)

        asked.clear()
        words = {"limit": 6, "search_function": "test.rare"}
        chunk = {"client": "runner", "fun": "jobs.list_jobs", "kwarg": words}
        (found,) = self.api.ask("POST", "/", [chunk], token=self.token).json["return"]
        self.assertEqual(
            [jid[-4:] for jid in found], ["0700", "0800", "0900", "1000", "1100", "1200"]
        )
        self.assertEqual(len(asked), 2)
        chunk["kwarg"] = {"limit": "many"}
        (found,) = self.api.ask("POST", "/", [chunk], token=self.token).json["return"]
        self.assertEqual(found, "limit must be a number from 1, not 'many'")

    def test_keys(self) -> None:
        """C{/keys} shows keys as the wheel does, and makes a new pair for whoever may."""
        found = self.api.ask("GET", "/keys", token=self.token).json["return"]
        self.assertEqual(found["minions"], ["api-00000", "api-00001"])
        one = self.api.ask("GET", "/keys/api-00000", token=self.token).json["return"]
        self.assertEqual(list(one["minions"]), ["api-00000"])

        reply = self.api.ask("POST", "/keys", {**LOGIN, "mid": "made", "keysize": 2048})
        self.assertEqual(reply.headers["content-type"], ["application/x-tar"])
        with tarfile.open(fileobj=io.BytesIO(reply.content)) as tar:
            self.assertEqual(tar.getnames(), ["minion.pub", "minion.pem"])
        self.assertIn("made", self.api.rig.keys.accepted_ids())

    def test_queries(self) -> None:
        """
        What a path names may stand behind the question mark, as in Salt. What is not known there is
        404, and not the answer to another question.
        """
        ask = partial(self.api.ask, token=self.token)
        self.assertEqual(ask("GET", "/keys?mid=api-00001").json, ask("GET", "/keys/api-00001").json)
        jid = ask("POST", "/minions", [{"tgt": "*", "fun": "test.ping"}]).json["return"][0]["jid"]
        self.api.answer(True, 0, 1)
        for path in (f"/jobs?jid={jid}", f"/jobs?jid={jid}&timeout=5"):
            self.assertEqual(ask("GET", path).json, ask("GET", f"/jobs/{jid}").json)
        self.assertEqual(ask("GET", "/jobs?timeout=soon").status, 400)
        asked = self.api.open("GET", "/minions?mid=api-00000", token=self.token)
        self.assertEqual(self.api.rig.published_jobs()[-1]["tgt"], "api-00000")
        self.api.answer({"os": "Debian"}, 0)
        (reply,) = asked.replies
        self.assertEqual(reply.json, {"return": [{"api-00000": {"os": "Debian"}}]})

        for path in ("/", "/login", "/token", "/run", "/stats", "/minions", "/jobs", "/keys"):
            reply = ask("GET", f"{path}?username=admin")
            self.assertEqual(reply.status, 404, path)
            self.assertIn("There is no field", reply.text, path)
        self.assertEqual(ask("GET", "/keys/api-00000?mid=api-00001").status, 404)
        for path in ("/minions/api-00000", "/keys/made"):
            reply = ask("POST", path, [{**LOGIN, "mid": "made", "tgt": "*", "fun": "test.ping"}])
            self.assertEqual(reply.status, 404, path)
        self.assertNotIn("made", self.api.rig.keys.accepted_ids())

    def test_causes(self) -> None:
        """
        What is wrong with a request is said in words of its own, and is never status 500
        (pains-next 2.4). Only logins say no more than that they failed (T-EAUTH-4).
        """
        reader = self.api.login("reader")
        causes: list[tuple[str, dict[str, Any], int, str]] = [
            ("", PING, 401, "No permission -- see authorization schemes"),
            ("0" * 40, PING, 401, "No permission -- see authorization schemes"),
            (reader, {**PING, "fun": "cmd.run"}, 401, "Authorization error occurred."),
            (reader, ARG, 401, "occurred for user reader."),
            (self.token, {**PING, "client": "nosuch"}, 400, "Invalid client specified: 'nosuch'"),
            (self.token, {"tgt": "*", "fun": "test.ping"}, 400, "Invalid client specified: 'None'"),
            (self.token, {**PING, "client": "ssh"}, 400, "saltwisted has no salt-ssh."),
            (self.token, {"client": "local", "tgt": "*"}, 400, "A lowstate needs 'fun'"),
            (self.token, {"client": "local", "fun": "test.ping"}, 400, "needs 'tgt', the target"),
            (self.token, {**PING, "tgt": ""}, 400, "needs 'tgt', the target"),
            (self.token, {**PING, "tgt": None}, 400, "needs 'tgt', the target"),
            (self.token, {**ARG, "fun": "no.such"}, 400, "'no.such' is not available."),
            (self.token, {**ARG, "fun": "jobs.lookup_jid", "arg": []}, 200, "Passed invalid arg"),
            (self.token, {**PING, "tgt": "none*"}, 200, '{"return": [{}]}'),
        ]
        for token, chunk, status, words in causes:
            reply = self.api.ask("POST", "/", [chunk], token=token)
            self.assertEqual(reply.status, status, chunk)
            self.assertIn(words, reply.text)
        reply = self.api.ask("POST", "/", body=b"{", token=self.token)
        self.assertEqual(reply.status, 400)
        self.assertIn("Invalid JSON document", reply.text)

    def test_disabled(self) -> None:
        """A client that is not named is refused, with the option that names it."""
        api = ApiRig(self, netapi_enable_clients=["runner"])
        reply = api.ask("POST", "/", [PING], token=api.login())
        self.assertEqual(reply.status, 400)
        self.assertIn("Client disabled: 'local'. Add to 'netapi_enable_clients'", reply.text)

    def test_T_ACL_1_rights(self) -> None:
        """T-ACL-1: a login may here what its rules say, by whichever client, and nothing else."""
        reader, nobody = self.api.login("reader"), self.api.login("nobody")
        refused: list[tuple[str, dict[str, Any]]] = [
            (reader, {**PING, "fun": "cmd.run", "arg": ["id"]}),
            (reader, {**PING, "fun": "cmd.run", "client": "local_async"}),
            (reader, {**PING, "fun": "cmd.run", "client": "local_batch"}),
            (reader, {**PING, "fun": "cmd.run", "client": "local_subset"}),
            (reader, ARG),
            (reader, {**ARG, "client": "runner_async"}),
            (reader, {"client": "wheel", "fun": "key.list_all"}),
            (reader, {"client": "wheel_async", "fun": "key.list_all"}),
            (nobody, PING),
        ]
        for token, chunk in refused:
            self.assertEqual(self.api.ask("POST", "/", [chunk], token=token).status, 401, chunk)
        self.assertEqual(self.api.rig.published_jobs(), [])

    def test_session_before_chunk(self) -> None:
        """What a chunk says of its sender does not count where there is a session."""
        reader = self.api.login("reader")
        for more in (LOGIN, {"token": self.token}, {"user": "root"}, {"key": "x"}):
            reply = self.api.ask("POST", "/", [{**ARG, **more}], token=reader)
            self.assertEqual(reply.status, 401, more)

    def test_nothing_begun(self) -> None:
        """Where one chunk of several is wrong, none is done."""
        chunks = [{**PING, "client": "local_async"}, {"client": "nosuch"}]
        self.assertEqual(self.api.ask("POST", "/", chunks, token=self.token).status, 400)
        self.assertEqual(self.api.rig.published_jobs(), [])

    def test_not_accepted(self) -> None:
        """Where the client could not read the answer, nothing is done."""
        chunk = {**PING, "client": "local_async"}
        reply = self.api.ask("POST", "/", [chunk], token=self.token, Accept="text/xml")
        self.assertEqual(reply.status, 406)
        self.assertEqual(self.api.rig.published_jobs(), [])
