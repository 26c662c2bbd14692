"""
Users of one name by two backends (T-WHO-1), and names that a directory spells in its own way.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.cluster.jobs.forward import _for_minions
from saltwisted.domain.who import Who
from saltwisted.worker.process import authwork
from tests.web.calls import PING
from tests.web.rig import ApiRig, Connection
from tests.web.test_events import EventsTestCase, events_of

HERE, THERE = "192.0.2.7", "198.51.100.9"


class Namesakes(EventsTestCase):
    """A master where C{fred} and C{root} may log in by a file, and by C{auto} with any password."""

    def made(self, **options: Any) -> ApiRig:
        """Make it."""
        users = self.mktemp()
        with open(users, "w", encoding="utf-8") as file:
            file.write("fred:filepw\nroot:filepw\n")
        rules = ["test.*", "@jobs"]
        external_auth = {
            "file": {"^filename": users, "fred": rules, "root": rules},
            "auto": {"fred": rules, "root": rules},
        }
        return super().made(external_auth=external_auth, **options)

    def session(self, api: ApiRig, name: str, eauth: str) -> str:
        """Log in."""
        low = {"username": name, "password": "filepw", "eauth": eauth}
        reply = api.ask("POST", "/login", low)
        self.assertEqual(reply.status, 200, reply.text)
        return str(reply.json["return"][0]["token"])

    def listener(self, api: ApiRig, name: str, eauth: str) -> Connection:
        """Log in, and listen."""
        connection = api.open("GET", "/events", token=self.session(api, name, eauth))
        api.wait(0.1)
        return connection

    def test_T_WHO_1_events(self) -> None:
        """
        T-WHO-1: C{/events} shows a job, its returns and a runner to who began it, and to no
        namesake by another backend, an account of the machine among them.
        """
        api = self.made()
        by_file, by_auto = (self.listener(api, "root", each) for each in ("file", "auto"))
        mine = self.session(api, "root", "file")

        api.ask("POST", "/", [{**PING, "client": "local_async"}], token=mine)
        api.answer(True, 0)
        api.ask("POST", "/", [{"client": "runner", "fun": "jobs.list_jobs"}], token=mine)
        local = api.rig.ctx.dispatcher.publish(
            {"tgt": "*", "fun": "test.echo", "arg": ["secret"]}, Who("root", "local")
        )
        self.successResultOf(Deferred.fromCoroutine(local))
        api.answer("secret", 0)

        tags = self.tags(api, by_file)
        self.assertEqual(
            [tag.rsplit("/", 1)[1] for tag in tags], ["new", "api-00000", "new", "ret"]
        )
        self.assertEqual(self.tags(api, by_auto), [])
        shown = [event["data"] for event in events_of(by_file.transport.value())]
        whose = {(each["user"], each["eauth"]) for each in shown if "eauth" in each}
        self.assertEqual(whose, {("root", "file")})
        self.assertNotIn("secret", repr(shown))

    def test_T_WHO_1_old_events(self) -> None:
        """T-WHO-1: an event of a node whose release names no backend is shown to no namesake."""
        api = self.made()
        listeners = [self.listener(api, "fred", each) for each in ("file", "auto")]
        jid = "20261123100000000000"
        api.rig.bus.fire(f"salt/job/{jid}/new", {"user": "fred", "jid": jid}, "older-node")
        api.rig.bus.fire(f"salt/job/{jid}/ret/web1", {"jid": jid, "return": "x"}, "older-node")

        self.assertEqual([self.tags(api, each) for each in listeners], [[], []])

    def test_T_WHO_1_tokens(self) -> None:
        """T-WHO-1: the end of an account ends its tokens, and none of a namesake's."""
        api = self.made()
        kept, ended = (self.session(api, "fred", each) for each in ("auto", "file"))
        api.rig.backends.answer = {"ok": False, "closed": True}
        api.ask("POST", "/login", {"username": "fred", "password": "filepw", "eauth": "file"})

        self.assertEqual(api.ask("GET", "/jobs", token=ended).status, 401)
        self.assertEqual(api.ask("GET", "/jobs", token=kept).status, 200)

    def test_T_WHO_1_records(self) -> None:
        """
        T-WHO-1: the record of a job has the backend beside Salt's C{user}; minions get it neither
        here nor by way of another node.
        """
        api = self.made()
        token = self.session(api, "fred", "auto")
        api.ask("POST", "/", [{**PING, "client": "local_async"}], token=token)

        (record,) = api.rig.jobs.loads.values()
        self.assertEqual((record["user"], record["eauth"]), ("fred", "auto"))
        (job,) = api.rig.published_jobs()
        self.assertEqual((job["user"], "eauth" in job), ("fred", False))
        self.assertEqual(_for_minions({**job, "eauth": "auto"}), job)

    def test_T_WHO_1_chosen_jid(self) -> None:
        """T-WHO-1: a namesake adds no part to a job by its jid, and so gets none of its returns."""
        api = self.made()
        jid = "20261123100000000000"
        low = [{**PING, "client": "local_async", "jid": jid}]
        first, other = (self.session(api, "fred", each) for each in ("file", "auto"))

        self.assertEqual(api.ask("POST", "/", low, token=first).status, 200)
        self.assertEqual(api.ask("POST", "/", low, token=other).status, 401)
        self.assertEqual(api.ask("POST", "/", low, token=first).status, 200)


class ProvenNameTests(EventsTestCase):
    """C{api_acl} where a backend spells names in its own way, as a directory does."""

    def made(self, **options: Any) -> ApiRig:
        """A master where C{fred} may come from one address only, and others from anywhere."""
        acl = {"users": {"fred": [HERE], "*": [HERE, THERE]}}
        block = {"api_acl": acl, **options.pop("block", {})}
        users = self.mktemp()
        with open(users, "w", encoding="utf-8") as file:
            file.write("fred:pw\nann:pw\n")
        rules = {"^filename": users, "fred": ["test.*", "@runner"], "ann": ["test.*"]}
        api = super().made(block=block, external_auth={"file": rules}, **options)
        serve = authwork.serve

        def folded(payload: Any, *more: Any) -> Any:
            """As a directory: whatever the case, it is one person, whose name it says."""
            name = payload["username"].casefold()
            return {**serve({**payload, "username": name}, *more), "name": name}

        self.patch(authwork, "serve", folded)
        return api

    def test_T_WHO_1_api_acl(self) -> None:
        """
        T-WHO-1: C{api_acl} judges the name as the backend spells it, at each door of the API: who
        is kept out as C{fred} does not come as C{FRED}.
        """
        api = self.made()
        for name in ("fred", "FRED", "Fred"):
            proof = {"username": name, "password": "pw", "eauth": "file"}
            for path, low in (
                ("/login", proof),
                ("/token", proof),
                ("/run", {**proof, **PING, "client": "local_async"}),
                ("/run", {**proof, "client": "runner", "fun": "test.arg"}),
                ("/keys", {**proof, "mid": "new1"}),
            ):
                reply = api.ask("POST", path, low, address=THERE)
                self.assertEqual((reply.status, "set-cookie" in reply.headers), (401, False), path)
            self.assertEqual(api.ask("POST", "/login", proof, address=HERE).status, 200, name)
        self.assertEqual(api.rig.published_jobs(), [])
        ann = {"username": "ANN", "password": "pw", "eauth": "file"}
        self.assertEqual(api.ask("POST", "/login", ann, address=THERE).status, 200)

    def test_T_WHO_1_sessions(self) -> None:
        """T-WHO-1: a session, or a token in a body, is no way around it either."""
        api = self.made()
        proof = {"username": "FRED", "password": "pw", "eauth": "file"}
        token = api.ask("POST", "/login", proof, address=HERE).json["return"][0]["token"]
        run = {"token": token, **PING, "client": "local_async"}

        self.assertEqual(api.ask("GET", "/jobs", token=token, address=THERE).status, 401)
        self.assertEqual(api.ask("POST", "/run", run, address=THERE).status, 401)
        self.assertEqual(api.ask("POST", "/run", run, address=HERE).status, 200)

    def test_T_EAUTH_4_no_oracle(self) -> None:
        """
        T-EAUTH-4: from an address that is not the user's, a right password looks like a wrong one:
        the same answer after the same time, and the same at the next try; where nobody may come
        from, no backend is asked.
        """
        took = []
        for password in ("wrong", "pw"):
            api = self.made()
            low = {"username": "fred", "password": password, "eauth": "file"}
            answers = []
            for _ in range(2):
                connection = api.open("POST", "/login", low, address=THERE)
                steps = 0
                while not connection.replies:
                    api.rig.clock.advance(0.05)
                    steps += 1
                answers.append((connection.replies[0].text, steps))
            took.append(answers)
        self.assertEqual(took[0], took[1])

        api = self.made(block={"api_acl": {"users": {"fred": [HERE]}}})
        low = {"username": "fred", "password": "pw", "eauth": "file"}
        self.assertEqual(api.ask("POST", "/login", low, address=THERE).status, 401)
        self.assertEqual(api.rig.backends.asked, [])


class LogFileTests(EventsTestCase):
    """Who may read what the API writes about its users."""

    def test_T_FS_1_modes(self) -> None:
        """T-FS-1: the logs of the API are for their owner and group alone, whatever the umask."""
        folder = self.mktemp()
        os.mkdir(folder)
        self.addCleanup(os.umask, os.umask(0))
        names = [f"{folder}/{option}" for option in ("log_access_file", "log_error_file")]
        self.made(block={os.path.basename(path): path for path in names})

        self.assertEqual([os.stat(path).st_mode & 0o777 for path in names], [0o640, 0o640])
