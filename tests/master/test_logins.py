"""
Logins on a whole master: passwords, tokens, what they allow, and what strangers can find out.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain import tries
from saltwisted.domain.tries import AT_ONCE, IN_ALL, LANE, WINDOW
from saltwisted.domain.who import Who, local
from saltwisted.errors import RemoteError
from saltwisted.master import logins as logins_module
from saltwisted.master.logins import ENTRY, NEAR_ENTRY, NotProven
from saltwisted.stores import tokens as tokenfiles
from saltwisted.stores.tokens import TokenFiles
from saltwisted.transports.ipc import PeerProcess
from saltwisted.wire.msgpack import pack, unpack
from tests.master.rig import Rig, RigMinion

RULES = ["test.*", "@runner", {"@key": ["list_all"]}]


def silent(item: Any) -> None:
    """For calls whose items nobody reads."""


class LoginTests(SynchronousTestCase):
    """One master with the backends C{file} and C{auto}."""

    def setUp(self) -> None:
        self.users = self.mktemp()
        with open(self.users, "w", encoding="utf-8") as file:
            file.write("fred:secret\nann:word\n")
        auth = {
            "file": {"^filename": self.users, "fred": RULES, "ann": [{"web1": ["test.ping"]}]},
            "pam": {"fred": ["test.*"]},
        }
        self.rig = Rig(
            self,
            external_auth=auth,
            publisher_acl_blacklist={"modules": ["test.fib"]},
            token_expire_user_override={"file": ["fred"]},
        )
        for name in ("web1", "db1"):
            RigMinion(self.rig, name).accepted()
        self.control = self.rig.door()
        self.stranger = PeerProcess(12345, 12345, 1)

    def clear(self, cmd: str, **load: Any) -> list[Any]:
        """A clear request; the answers so far."""
        frame = pack({"enc": "clear", "load": {"cmd": cmd, **load}, "version": 3})
        return [unpack(reply) for reply in self.rig.ask(frame)]

    def publish(self, fun: str = "test.ping", tgt: str = "*", **kwargs: Any) -> list[Any]:
        """Publish by the request port."""
        return self.clear("publish", fun=fun, tgt=tgt, arg=[], user="root", kwargs=kwargs)

    def ask(self, op: str, **args: Any) -> Deferred[Any]:
        """A call on the control socket, by a user who is nobody here."""
        return Deferred.fromCoroutine(self.control.handle(op, args, self.stranger, silent))

    def good(self, **changes: Any) -> dict[str, Any]:
        """Fred's credentials."""
        return {"eauth": "file", "username": "fred", "password": "secret", **changes}

    def token(self, **changes: Any) -> dict[str, Any]:
        """A token for fred."""
        (answer,) = self.clear("mk_token", **self.good(**changes))
        assert isinstance(answer, dict), answer
        return answer

    def test_T_PEER_9_epochs(self) -> None:
        """T-PEER-9: a token of another epoch than the present one, also of a later, is none."""
        logins, made = self.rig.ctx.logins, self.token()
        for epoch, is_good in ((0, True), (1, False), (-1, False), (0, True)):
            self.patch(logins.tokens, "epoch", epoch)
            self.assertEqual(logins.token(made["token"]) is not None, is_good, epoch)

    # -- passwords

    def test_publish(self) -> None:
        """A login publishes what its rules allow, in its own name, on both ways."""
        (answer,) = self.publish(**self.good())
        self.assertEqual(sorted(answer["load"]["minions"]), ["db1", "web1"])

        other = self.successResultOf(
            self.ask("publish", tgt="web1", fun="test.ping", kwargs=self.good())
        )
        self.assertEqual(other["minions"], ["web1"])
        told = [data for tag, data in self.rig.events if tag.endswith("/new")]
        self.assertEqual([data["user"] for data in told], ["fred", "fred"])
        for tag, data in self.rig.events:
            self.assertNotIn("secret", repr((tag, data)))

    def test_not_allowed(self) -> None:
        """Functions, targets and the blacklist bind a login; the words are Salt's."""
        refused = {"name": "AuthorizationError", "message": "Authorization error occurred."}
        ann = self.good(username="ann", password="word")
        lines: list[str] = []

        def listen(event: LogEvent) -> None:
            if event.get("foreign"):
                lines.append(formatEvent(event))

        globalLogPublisher.addObserver(listen)
        self.addCleanup(globalLogPublisher.removeObserver, listen)
        for fun, tgt, kwargs in (
            ("cmd.run", "*", self.good()),
            ("test.fib", "*", self.good()),
            ("test.ping", "*", ann),
            ("test.echo", "web1", ann),
            ("test.ping", "none", ann),
            ("cmd.run", "none", self.good()),
            ("test.ping,cmd.run", "web1", self.good()),
        ):
            self.assertEqual(self.publish(fun, tgt, **kwargs), [{"error": refused}], fun)
            failure = self.failureResultOf(
                self.ask("publish", tgt=tgt, fun=fun, kwargs=kwargs), RemoteError
            )
            self.assertEqual(failure.value.message, refused["message"])
            # T-LOG-2: by either door a refusal is on record under the user's name
            user = kwargs["username"]
            self.assertEqual(
                [line.partition(" (by")[0] for line in lines],
                [f"{user} (file) may not publish {fun}"] * 2,
            )
            lines.clear()
        self.assertEqual(self.rig.publications.sent, [])

    def test_T_ACL_2_nobody_meant(self) -> None:
        """T-ACL-2: who may run it everywhere hears that nobody is meant; nothing is published."""
        (answer,) = self.publish("test.ping", "none", **self.good())
        self.assertEqual((answer["load"]["jid"], answer["load"]["minions"]), (None, []))
        other = self.successResultOf(
            self.ask("publish", tgt="none", fun="test.ping", kwargs=self.good())
        )
        self.assertEqual((other["jid"], other["minions"]), (None, []))
        self.assertEqual(self.rig.publications.sent, [])

    def test_find_job(self) -> None:
        """Who may have a minion do anything may ask it whether a job still runs; others not."""
        ann = self.good(username="ann", password="word")
        (answer,) = self.publish("saltutil.find_job", "web1", **ann)
        self.assertEqual(answer["load"]["minions"], ["web1"])

        for tgt in ("*", "db1", "none"):
            (answer,) = self.publish("saltutil.find_job", tgt, **ann)
            self.assertEqual(answer["error"]["name"], "AuthorizationError", tgt)

    def refusal_time(self, **changes: Any) -> tuple[float, Any]:
        """How long a refusal takes, and what it says."""
        start = self.rig.clock.seconds()
        frame = {"fun": "test.ping", "tgt": "*", "arg": [], "user": "root"}
        load = {"cmd": "publish", **frame, "kwargs": self.good(**changes)}
        replies = self.rig.ask(pack({"enc": "clear", "load": load, "version": 3}))
        while not replies:
            self.rig.clock.advance(0.01)
        return self.rig.clock.seconds() - start, unpack(replies[0])

    def test_refusals_look_alike(self) -> None:
        """Wrong password, unknown user, unknown backend: the same words, after about a second."""
        self.patch(tries, "SPREAD", 0.0)
        told = set()
        for changes in (
            {"password": "wrong"},
            {"username": "nobody"},
            {"eauth": "ldap"},
            {"eauth": "nonsense"},
            {"password": None},
        ):
            seconds, answer = self.refusal_time(**changes)
            self.assertEqual(round(seconds, 1), 1.0, changes)
            told.add(repr(answer))
        self.assertEqual(len(told), 1, told)
        self.assertIn("Authentication error occurred.", told.pop())
        self.assertEqual(self.rig.ctx.counters["login:refused-eauth"], 5)

    def test_T_EAUTH_1_service(self) -> None:
        """T-EAUTH-1: extra fields of a login reach no backend; the service is the configured."""
        self.rig.backends.answer = {"ok": True}
        login = {"eauth": "pam", "username": "fred", "password": "x"}
        asked = self.rig.backends.asked
        self.clear("mk_token", **login)
        alone = asked.pop()
        self.assertEqual(alone["settings"], {"service": "login"})

        for extra in (
            {"service": "x"},
            {"shell": "x"},
            {"^filename": "/etc/passwd"},
            {"sharedsecret": "x"},
            {"code": {"code": "x"}},
            {"begin": True},
            {"groups": ["root"], "rules": [".*"], "admits": True, "kept": {}},
        ):
            self.assertTrue(self.clear("mk_token", **login, **extra)[0]["token"])
            self.assertEqual(asked.pop(), alone, extra)
            self.assertTrue(self.successResultOf(self.ask("mk_token", **login, **extra))["token"])
            self.assertEqual(asked.pop(), alone, extra)
        self.assertEqual(asked, [])

    def test_kernel_is_not_asked(self) -> None:
        """Who asks to be judged by a password is not judged as root because he is root."""
        self.stranger = PeerProcess(0, 0, 1)
        call = self.ask("publish", tgt="*", fun="test.ping", kwargs=self.good(password="wrong"))
        self.rig.clock.pump([0.1] * 20)

        self.assertEqual(self.failureResultOf(call, RemoteError).value.name, "AuthenticationError")

    def test_one_at_a_time(self) -> None:
        """Tries for one user from one place wait for one another; too many are refused."""
        calls = []
        for _ in range(LANE + 5):
            calls.append(self.ask("mk_token", **self.good(password="wrong")))
        self.assertEqual(len(self.rig.backends.asked), 1)
        self.rig.clock.pump([0.1] * 15)
        self.assertLessEqual(len(self.rig.backends.asked), 3)

        other = self.publish(**self.good())
        self.assertEqual(len(other), 1, "another place waits for nobody")
        self.rig.clock.pump([0.1] * 30 * LANE)
        for call in calls:
            self.failureResultOf(call, RemoteError)
        self.assertEqual(self.rig.ctx.counters["login:too-many"], 4)
        self.assertEqual(self.rig.clock.getDelayedCalls(), [])

    def test_own_mistakes(self) -> None:
        """Who mistook the password, many times in a row, is let in a second after the last."""
        for _ in range(LANE + 5):
            self.ask("mk_token", **self.good(password="wrong")).addErrback(silent)
        right = self.ask("mk_token", **self.good())
        self.rig.clock.pump([0.1] * 11)

        self.assertEqual(self.successResultOf(right)["name"], "fred")
        self.rig.clock.pump([0.1] * 300)

    def test_flood_for_one_user(self) -> None:
        """However many places send wrong passwords for a user, he logs in from his own at once."""
        logins = self.rig.ctx.logins
        self.slow_backend(3.0)
        for number in range(2 * IN_ALL):
            given = self.good(password="wrong")
            d = Deferred.fromCoroutine(logins.prove(given, f"10.0.{number // 256}.{number % 256}"))
            d.addErrback(silent)
        right = Deferred.fromCoroutine(logins.prove(self.good(), "192.0.2.1"))
        self.rig.clock.pump([0.1] * 65)

        self.assertEqual(self.successResultOf(right).name, "fred")
        self.rig.clock.pump([1.0] * 600)
        self.assertTrue(all(line.idle for line in logins._lines.values()))

    def slow_backend(self, seconds: float) -> None:
        """Passwords are judged after so long."""
        answers = self.rig.backends.call

        def call(*args: Any) -> Deferred[Any]:
            return deferLater(self.rig.clock, seconds, answers, *args)

        self.rig.backends.call = call  # type: ignore[method-assign]

    def test_T_EAUTH_4_time(self) -> None:
        """T-EAUTH-4: a refusal takes as long as the slowest judgement of late, and no longer."""
        self.patch(tries, "SPREAD", 0.0)
        quick = [
            self.refusal_time(username=name, password="wrong")[0] for name in ("fred", "nobody")
        ]
        self.assertEqual([round(each, 1) for each in quick], [1.0, 1.0], "to the tenth")

        backend = self.rig.backends.call
        self.slow_backend(4.0)
        slow = self.ask("mk_token", **self.good())
        self.rig.clock.advance(4)
        self.successResultOf(slow)
        self.rig.backends.call = backend  # type: ignore[method-assign]
        after = [
            round(self.refusal_time(**changes)[0], 1)
            for changes in ({"password": "wrong"}, {"username": "nobody"}, {"eauth": "none"})
        ]
        self.assertEqual(after, [4.0, 4.0, 4.0], "a slow success counts, for everybody")

        self.slow_backend(50.0)
        self.ask("mk_token", **self.good(password="wrong")).addErrback(silent)
        self.rig.clock.advance(51)
        self.rig.backends.call = backend  # type: ignore[method-assign]
        self.assertEqual(round(self.refusal_time(username="nobody")[0], 1), 10.0, "the most")

        self.rig.clock.advance(2 * WINDOW)
        self.assertEqual(round(self.refusal_time(username="nobody")[0], 1), 1.0, "forgotten")

    def test_apart(self) -> None:
        """Logins without a password that came together are not refused in one moment."""
        self.rig.ctx.logins._entropy = random.Random(7).randbytes
        came: list[float] = []
        for _ in range(100):
            call = self.ask("mk_token", eauth="file", username="fred")
            call.addErrback(lambda _: came.append(self.rig.clock.seconds()))
        before = self.rig.clock.seconds()
        self.rig.clock.pump([0.01] * 130)

        self.assertEqual(len(came), 100)
        moments = Counter(round(each - before, 2) for each in came)
        self.assertTrue(all(0.99 < each < 1.27 for each in moments), moments)
        self.assertLess(max(moments.values()), 20, moments)

    def test_T_EAUTH_4_nobody_waits(self) -> None:
        """T-EAUTH-4: however long refusals take, the right password waits for none of them."""
        self.slow_backend(50.0)
        self.ask("mk_token", **self.good(password="wrong")).addErrback(silent)
        self.rig.clock.advance(51)
        del self.rig.backends.call  # type: ignore[method-assign]
        refused = self.ask("mk_token", **self.good(password="wrong"))
        right = self.ask("mk_token", **self.good())
        self.rig.clock.pump([0.1] * 11)

        self.assertEqual(self.successResultOf(right)["name"], "fred")
        self.assertNoResult(refused)
        self.rig.clock.pump([0.1] * 110)
        self.failureResultOf(refused, RemoteError)

    def test_flood_from_the_network(self) -> None:
        """However many addresses send wrong logins, users of this machine log in at once."""
        logins, answers = self.rig.ctx.logins, []
        self.slow_backend(3.0)
        for number in range(60):
            given = self.good(username=f"u{number}", password="wrong")
            answers.append(Deferred.fromCoroutine(logins.prove(given, f"10.0.0.{number}")))
        self.rig.clock.advance(0)
        near = self.ask("mk_token", **self.good())
        self.rig.clock.advance(3)

        self.assertEqual(self.successResultOf(near)["name"], "fred")
        self.assertEqual(self.rig.backends.entries, [ENTRY] * AT_ONCE + [NEAR_ENTRY])
        self.rig.clock.pump([0.5] * 120)
        for answer in answers:
            self.failureResultOf(answer, NotProven)
        self.assertTrue(all(line.idle for line in logins._lines.values()))
        self.assertEqual(logins._turns, {ENTRY: {}, NEAR_ENTRY: {}})

    # -- runners and wheel functions

    def test_runner(self) -> None:
        """A login calls the runners that its rules name, also in the form of stock clients."""
        good = self.good()
        (answer,) = self.clear(
            "runner", fun="test.arg", kwarg={"arg": ["a"], "kwarg": {"x": 1}}, **good
        )
        self.assertTrue(answer["tag"].startswith("salt/run/"))
        ((_, told),) = [
            (tag, data) for tag, data in self.rig.events if tag == answer["tag"] + "/new"
        ]
        self.assertEqual((told["user"], told["fun_args"]), ("fred", ["a", {"x": 1}]))

        (refused,) = self.clear(
            "runner", fun="test.arg", **self.good(username="ann", password="word")
        )
        self.assertEqual(
            refused["error"],
            {
                "name": "EauthAuthenticationError",
                "message": 'Authentication failure of type "eauth" occurred for user ann.',
            },
        )
        (syntax,) = self.clear("runner", fun="test", **good)
        self.assertEqual(syntax["error"]["name"], "SaltInvocationError")

    def test_wheel(self) -> None:
        """The same with wheel functions; credentials are not arguments."""
        (answer,) = self.clear("wheel", fun="key.list_all", **self.good())
        self.assertEqual(answer["data"]["return"]["minions"], ["db1", "web1"])

        (refused,) = self.clear("wheel", fun="key.delete", match="web1", **self.good())
        self.assertEqual(refused["error"]["name"], "EauthAuthenticationError")
        called = self.successResultOf(self.ask("wheel", fun="key.list_all", **self.good()))
        self.assertTrue(called["success"])

    # -- tokens

    def test_token(self) -> None:
        """A token does what the password does, on both ways, until it ends."""
        made = self.token()
        word = made["token"]
        self.assertEqual((made["name"], made["eauth"], len(word)), ("fred", "file", 64))
        self.assertEqual(made["expire"] - made["start"], 43200)

        (answer,) = self.publish(token=word)
        self.assertEqual(len(answer["load"]["minions"]), 2)
        self.assertEqual(self.clear("get_token", token=word), [made])
        called = self.successResultOf(self.ask("wheel", fun="key.list_all", token=word))
        self.assertEqual(called["user"], "fred")

        self.rig.clock.advance(43200)
        (answer,) = self.publish(token=word)
        self.assertEqual(answer["error"]["message"], "Authentication error occurred.")
        self.assertEqual(self.clear("get_token", token=word), [False])

    def test_T_TOK_1_restart(self) -> None:
        """T-TOK-1: good after a restart until its end, and not a second longer; then dropped."""
        made = self.token(token_expire=100)
        self.assertEqual(made["expire"] - made["start"], 100)
        logins = self.rig.ctx.logins
        folder = os.path.join(self.rig.ctx.config.cachedir, "tokens")

        again = TokenFiles(folder, logins.tokens._run, self.rig.clock.seconds)  # type: ignore[attr-defined]
        again.startService()
        logins.tokens = again
        self.assertIsNotNone(logins.token(made["token"]))
        self.rig.clock.advance(100)
        self.assertIsNone(logins.token(made["token"]))

        self.token()
        self.assertEqual(len(os.listdir(folder)), 1, "the ended one is gone")

    def test_many_ended(self) -> None:
        """
        With each new token a few others are looked at, whether they have ended, however many there
        are; in their turn all are. What lives is kept.
        """
        self.patch(tokenfiles, "LOOKED_AT", 3)
        folder = os.path.join(self.rig.ctx.config.cachedir, "tokens")
        living = [self.token()["token"] for _ in range(4)]
        for _ in range(10):
            self.token(token_expire=100)
        self.rig.clock.advance(100)
        there = []
        while len(there) < 10:
            living.append(self.token()["token"])
            there.append(len(os.listdir(folder)) - len(living))

        self.assertLessEqual(max(a - b for a, b in zip([10, *there], there, strict=False)), 3)
        self.assertEqual(there[-1], 0)
        for word in living:
            self.assertIsNotNone(self.rig.ctx.logins.token(word))

    def test_T_FS_1_stored(self) -> None:
        """T-FS-1: the token is in no file, and the files of tokens are their owner's."""
        word = self.token()["token"]
        folder = os.path.join(self.rig.ctx.config.cachedir, "tokens")
        (name,) = os.listdir(folder)
        path = os.path.join(folder, name)

        self.assertNotIn(word, name)
        with open(path, "rb") as file:
            self.assertNotIn(word.encode(), file.read())
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)

    def test_backend_taken_out(self) -> None:
        """A token of a backend that is configured no more is worth nothing."""
        word = self.token()["token"]
        self.rig.ctx.config.adopt(
            self.rig.ctx.config.evolve(external_auth={"pam": {}}), ["external_auth"]
        )

        self.assertIsNone(self.rig.ctx.logins.token(word))

    def test_rules_are_read_anew(self) -> None:
        """What a token grants is what the options say now, unless keep_acl_in_token is set."""
        config = self.rig.ctx.config
        word = self.token()["token"]
        config.adopt(config.evolve(keep_acl_in_token=True), ["keep_acl_in_token"])
        kept = self.token()
        self.assertEqual(kept["auth_list"], RULES)
        config.adopt(config.evolve(external_auth={"file": {}}), ["external_auth"])

        self.assertIn("error", self.publish(token=word)[0])
        self.assertIn("load", self.publish(token=kept["token"])[0])

    def test_T_EAUTH_2_closed(self) -> None:
        """T-EAUTH-2: a locked account is refused, and its live tokens end; others' stay."""
        self.rig.backends.answer = {"ok": True}
        words = [
            self.token(eauth="pam", username=name)["token"] for name in ("fred", "fred", "eve")
        ]
        self.rig.backends.answer = {"ok": False, "closed": True}
        call = self.ask("mk_token", **self.good(eauth="pam"))
        self.rig.clock.pump([0.1] * 30)

        self.failureResultOf(call, RemoteError)
        live = [self.rig.ctx.logins.token(word) is not None for word in words]
        self.assertEqual(live, [False, False, True])

    def test_bounded(self) -> None:
        """One user's tokens are bounded: a new one ends the oldest."""
        self.patch(logins_module, "PER_USER", 5)
        first = self.token()["token"]
        for _ in range(5):
            self.rig.clock.advance(0.001)
            last = self.token()["token"]

        logins = self.rig.ctx.logins
        self.assertIsNone(logins.token(first))
        self.assertIsNotNone(logins.token(last))
        self.assertEqual(len(list(logins.tokens.items())), 5)

    def test_T_API_1_random(self) -> None:
        """T-API-1: random tokens and backends pass nowhere (CVE-2020-25592)."""
        for given in (
            {"token": "a" * 64},
            {"token": ""},
            {"token": None},
            {"token": {"x": 1}},
            {"token": 5, **self.good()},
            {"eauth": None},
            {"eauth": ["file"], "username": "fred", "password": "secret"},
        ):
            call = Deferred.fromCoroutine(self.rig.ctx.logins.prove(given, "x"))
            self.rig.clock.pump([0.1] * 20)
            self.failureResultOf(call, NotProven)

    # -- the runners auth.*

    def runner(self, fun: str, *arg: Any, **kwarg: Any) -> Any:
        """Call a runner as root; its value."""
        call = Deferred.fromCoroutine(self.rig.ctx.runner(fun, arg, kwarg, local("root")))
        self.rig.clock.pump([0.1] * 20)
        return self.successResultOf(call)["return"]

    def test_T_LOG_1_runners(self) -> None:
        """T-LOG-1: salt-run auth.* works, and events and the job cache hold no secret."""
        made = self.runner("auth.mk_token", **self.good())
        self.assertEqual(self.runner("auth.mk_token", **self.good(password="s3cr3t")), "")
        self.assertIsNotNone(self.rig.ctx.logins.token(made["token"]))
        self.assertTrue(self.runner("auth.del_token", made["token"]))
        self.assertFalse(self.runner("auth.del_token", token=made["token"]))
        self.assertIsNone(self.rig.ctx.logins.token(made["token"]))

        seen = repr(self.rig.events) + repr(vars(self.rig.jobs))
        for secret in ("'secret'", "s3cr3t", made["token"]):
            self.assertNotIn(secret, seen)

    def test_T_LOG_1_records(self) -> None:
        """
        T-LOG-1: what proves a user is in no job's record, event or publication, by whichever door
        the job came; and no door hands it on.
        """
        handed: list[Any] = []
        publish = self.rig.ctx.dispatcher.publish

        def watched(load: Any, who: Who, *args: Any, **kwargs: Any) -> Any:
            handed.append(load)
            return publish(load, who, *args, **kwargs)

        self.patch(self.rig.ctx.dispatcher, "publish", watched)
        word = self.token()["token"]
        self.assertIn("load", self.publish(**self.good())[0])
        self.assertIn("load", self.publish(token=word)[0])
        for kwargs in (self.good(), {"token": word}, {**self.good(), "auth_list": [word]}):
            self.successResultOf(self.ask("publish", tgt="*", fun="test.ping", kwargs=kwargs))
            self.ask("run", tgt="*", fun="test.ping", kwargs=kwargs).addErrback(silent)
        self.assertEqual(len(handed), 8)
        self.assertNotIn("secret", repr(handed))
        self.assertNotIn(word, repr(handed))

        # The last door before the disk, should another one forget
        load = {"tgt": "*", "fun": "test.ping", "kwargs": {**self.good(), "metadata": "kept"}}
        self.successResultOf(Deferred.fromCoroutine(publish(load, local("fred"))))
        load = {"tgt": "*", "fun": "test.ping", "kwargs": {"token": word, "key": word}}
        self.successResultOf(Deferred.fromCoroutine(publish(load, local("fred"))))

        kept = repr(vars(self.rig.jobs)) + repr(self.rig.events) + repr(self.rig.publications.sent)
        self.assertIn("kept", kept)
        self.assertNotIn("secret", kept)
        self.assertNotIn(word, kept)

    def test_sudo_acl(self) -> None:
        """With sudo_acl root by sudo has the rights of who he was; without it, all."""
        config = self.rig.ctx.config
        config.adopt(config.evolve(publisher_acl={"ann": ["test.*"]}), ["publisher_acl"])
        self.stranger = PeerProcess(0, 0, 1)
        load = {"tgt": "*", "fun": "cmd.run", "user": "sudo_ann"}
        self.successResultOf(self.ask("publish", **load))

        config.adopt(config.evolve(sudo_acl=True), ["sudo_acl"])
        self.failureResultOf(self.ask("publish", **load), RemoteError)
        self.successResultOf(self.ask("publish", **{**load, "fun": "test.ping"}))
        self.failureResultOf(
            self.ask("publish", **{**load, "fun": "test.ping", "user": "sudo_bob"}), RemoteError
        )
