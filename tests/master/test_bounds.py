"""
What users and minions who are bound by rules may target, through every door: a job goes to the
minions by which it was judged, and no answer tells them others' pillar.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.acl import FREE
from saltwisted.domain.operations.table import Caller
from saltwisted.domain.targeting.selection import Selection
from saltwisted.errors import RemoteError
from saltwisted.master.runner_table import ours
from saltwisted.wire.msgpack import pack, unpack
from tests.master.rig import RigMinion
from tests.web.rig import ApiRig
from tests.wire.recorded import key

RULES = [{"a": ["test.*"]}]
"""What everybody here may: fred by a login, ann by an account, the minion a by C{peer}."""
MEANING_A: tuple[tuple[Any, str], ...] = (
    ("a", "glob"),
    ("[a]", "glob"),
    ("a,none", "list"),
    (["a"], "list"),
    ("a$", "pcre"),
    ("letter:A", "grain"),
    ("letter:A$", "grain_pcre"),
    ("secret:abc", "pillar"),
    ("192.0.2.1", "ipcidr"),
    ("first", "nodegroup"),
    ("a or G@unknown:*", "compound"),
    ("G@letter:A or I@secret:nobody", "compound"),
    ("N@first and not b", "compound"),
)
"""Targets which mean the minion a alone by what the master knows."""


class Bounds(SynchronousTestCase):
    """A master with an API, the minions a and b, and everybody with the same rules."""

    rules: Sequence[Any] = RULES

    def setUp(self) -> None:
        users = self.mktemp()
        with open(users, "w", encoding="utf-8") as file:
            file.write("fred:fredpw\n")
        self.api = ApiRig(
            self,
            external_auth={"file": {"^filename": users, "fred": list(self.rules)}},
            publisher_acl={"ann": list(self.rules)},
            sudo_acl=True,
            peer={"a": list(self.rules)},
            nodegroups={"first": "L@a", "guess": "I@secret:a*", "exact": "I@secret:xyz"},
        )
        self.rig = self.api.rig
        self.table = self.rig.table()
        for name in ("api-00000", "api-00001"):
            self.rig.ctx.keys.delete(name)
        self.a = RigMinion(self.rig, "a").accepted()
        self.b = RigMinion(self.rig, "b", key("minion2")).accepted()
        self.know("a", "A", "abc")
        self.know("b", "B", "xyz")
        self.rig.ctx.users._keys["ann"] = "k" * 64
        self.token = self.api.login("fred")
        self.fred = {"token": self.token}

    def know(self, minion: str, letter: str, secret: str) -> None:
        """What the master knows of a minion; the address of a is the only one of its network."""
        cache = self.rig.ctx.cache
        address = f"192.0.2.{ord(letter) - 64}"
        grains = {"id": minion, "letter": letter, "map": {"lo": [address]}, "ipv4": [address]}
        cache.put("grains", minion, grains)
        cache.put("pillar", minion, {"secret": secret})
        cache.put("mine", minion, {"x": minion})

    def operation(self, name: str, args: Mapping[str, Any], caller: Caller) -> Deferred[Any]:
        """An operation of the table."""

        async def take(item: Any) -> None:
            pass

        return Deferred.fromCoroutine(self.table.call(name, args, caller, take))

    def clear(self, **load: Any) -> Any:
        """A request at the request port."""
        (reply,) = self.rig.ask(pack({"enc": "clear", "load": load, "version": 3}))
        return unpack(reply)

    def low(self, client: str, **chunk: Any) -> None:
        """A chunk for the API, for whose answer nobody waits: its client goes away in the end."""
        opened = self.api.open("POST", "/", [{"client": client, **chunk}], token=self.token)
        self.addCleanup(opened.protocol.connectionLost, Failure(ConnectionDone()))

    def publishing(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """Each door through which somebody who is bound by rules has a job published."""
        login = Caller(source="uid 5", door="a test")
        ann = Caller(name="ann", source="uid 6", door="a test")
        root = Caller(name="root", owner=True, source="uid 0", door="a test")
        web = Caller(source="192.0.2.7", door="a test", proof=self.fred)

        def with_login(job: dict[str, Any]) -> dict[str, Any]:
            return {**job, "kwargs": {**self.fred}}

        port = {"cmd": "publish", "arg": [], "user": "ann"}
        return {
            "publish, login": lambda job: self.operation("publish", with_login(job), login),
            "run, login": lambda job: self.operation("run", with_login(job), login),
            "publish, session": lambda job: self.operation("publish", job, web),
            "publish, account": lambda job: self.operation("publish", job, ann),
            "run, account": lambda job: self.operation("run", job, ann),
            "publish, sudo": lambda job: self.operation(
                "publish", {**job, "user": "sudo_ann"}, root
            ),
            "port, login": lambda job: self.clear(**port, **with_login(job)),
            "port, key": lambda job: self.clear(**port, **job, key="k" * 64),
            "local": lambda job: self.low("local", **job),
            "local_async": lambda job: self.low("local_async", **job),
            "local_subset": lambda job: self.low("local_subset", **job, subset=5),
            "local_batch": lambda job: self.low("local_batch", **job, batch="100%"),
            "minion_pub": lambda job: self.a.ask("minion_pub", arg=[], **job),
            "minion_publish": lambda job: self.a.ask("minion_publish", arg=[], **job),
        }

    def sent(self, door: Callable[[dict[str, Any]], Any], job: dict[str, Any]) -> list[Any]:
        """The jobs of this function that go out at once when it is asked for at a door."""
        before = len(self.rig.publications.sent)
        waiting = door(job)
        if isinstance(waiting, Deferred):
            waiting.addErrback(lambda failure: failure.trap(RemoteError, CancelledError) and None)
            self.addCleanup(waiting.cancel)
        self.rig.clock.pump([0.1] * 5)
        wanted = job["fun"], job.get("arg", [])
        jobs = self.rig.published_jobs()[before:]
        return [each for each in jobs if (each["fun"], each["arg"]) == wanted]


class JudgedTests(Bounds):
    """Jobs of users and minions with rules for some minions."""

    def test_T_ACL_4_the_judged_list_goes_out(self) -> None:
        """
        T-ACL-4: through each door, and however the target says it, the job that goes out names the
        minions by which it was judged, so that no minion reads more into it.
        """
        for name, door in self.publishing().items():
            for tgt, kind in MEANING_A:
                job = {"tgt": tgt, "tgt_type": kind, "fun": "test.ping"}
                self.assertEqual(
                    [(each["tgt"], each["tgt_type"]) for each in self.sent(door, job)],
                    [(["a"], "list")],
                    (name, tgt, kind),
                )

    def test_T_ACL_4_others_are_refused(self) -> None:
        """T-ACL-4: a target that means b, too, or nobody, goes out through no door."""
        for name, door in self.publishing().items():
            for tgt, kind in (
                ("*", "glob"),
                ("a or G@map:lo:192.0.2.2", "compound"),
                ("map:lo:*", "grain"),
                ("I@secret:xyz", "compound"),
                ("I@secret:xyz", "compound_pillar_exact"),
                ("secret:xyz", "pillar_exact"),
                ("secret:a*", "pillar_exact"),
                ("none", "glob"),
                ([], "list"),
            ):
                job = {"tgt": tgt, "tgt_type": kind, "fun": "test.ping"}
                self.assertEqual(self.sent(door, job), [], (name, tgt, kind))

    def test_groups_are_the_operators_words(self) -> None:
        """
        A node group may have patterns for pillar: a user did not choose them. A minion may not
        name it even so, as ever.
        """
        for name, door in self.publishing().items():
            sent = self.sent(door, {"tgt": "guess", "tgt_type": "nodegroup", "fun": "test.ping"})
            expected = [] if name.startswith("minion") else [["a"]]
            self.assertEqual([job["tgt"] for job in sent], expected, name)

    def test_T_ACL_4_on_record(self) -> None:
        """
        T-ACL-4: the record of the job and its event name the list as well: another node publishes
        what is on record. A name of a list that nobody has is told to the caller, and in neither.
        """
        job = {"tgt": "a,none", "tgt_type": "list", "fun": "test.ping", "kwargs": self.fred}
        answer = self.successResultOf(self.operation("publish", job, Caller(source="uid 5")))

        self.assertEqual((answer["minions"], answer["missing"]), (["a"], ["none"]))
        record = self.rig.jobs.loads[answer["jid"]]
        (event,) = [d for tag, d in self.rig.events if tag == f"salt/job/{answer['jid']}/new"]
        for seen in (record, event):
            self.assertEqual((seen["tgt"], seen["tgt_type"]), (["a"], "list"))
            self.assertEqual(seen["minions"], ["a"])

    def test_T_ACL_4_one_look(self) -> None:
        """
        T-ACL-4: what was judged is what goes out, though another minion should match a moment
        later: the target is looked up once.
        """
        targets = self.rig.ctx.dispatcher.targets
        looked: list[Any] = []
        find = targets.find

        async def looking(tgt: Any, *args: Any, **kwargs: Any) -> Selection:
            found = await find(tgt, *args, **kwargs)
            if tgt == "letter:A":
                looked.append(tgt)
                self.know("b", "A", "xyz")
            return found

        self.patch(targets, "find", looking)
        for name, door in self.publishing().items():
            self.know("b", "B", "xyz")
            looked.clear()
            job = {"tgt": "letter:A", "tgt_type": "grain", "fun": "test.ping"}
            self.assertEqual([each["tgt"] for each in self.sent(door, job)], [["a"]], name)
            self.assertEqual(looked, ["letter:A"], name)

    def test_T_ACL_4_questions_about_a_job(self) -> None:
        """T-ACL-4: whoever is silent is asked by name whether it still runs such a job."""
        args = {"tgt": "letter:A", "tgt_type": "grain", "fun": "test.ping", "timeout": 1}
        run = self.operation("run", {**args, "kwargs": self.fred}, Caller(source="uid 5"))
        self.rig.clock.pump([0.5] * 10)

        jobs = [(job["fun"], job["tgt"], job["tgt_type"]) for job in self.rig.published_jobs()]
        self.assertEqual(
            jobs[:2], [("test.ping", ["a"], "list"), ("saltutil.find_job", ["a"], "list")]
        )
        run.addErrback(lambda failure: None)
        run.cancel()

    def test_T_ACL_4_free_functions(self) -> None:
        """
        T-ACL-4: a function that needs no rule is for minions that a rule covers, through each door
        and by each kind of target; what it is asked of others tells nothing of their pillar.
        """
        for fun in sorted(FREE):
            for name, door in self.publishing().items():
                if name.startswith("minion"):
                    # peer knows no free functions
                    continue
                sent = self.sent(door, {"tgt": "a", "fun": fun})
                self.assertEqual([(j["tgt"], j["tgt_type"]) for j in sent], [(["a"], "list")], name)
                for tgt, kind in (
                    ("b", "glob"),
                    ("*", "glob"),
                    ("a,b", "list"),
                    ("none", "glob"),
                    ("letter:B", "grain"),
                    ("secret:x*", "pillar"),
                    ("secret:a*", "pillar"),
                    ("secret:x", "pillar_pcre"),
                    ("secret:xyz", "pillar"),
                    ("secret:xyz", "pillar_exact"),
                    ("a or I@secret:x*", "compound"),
                    ("a and not I@secret:x*", "compound"),
                    ("exact", "nodegroup"),
                ):
                    job = {"tgt": tgt, "tgt_type": kind, "fun": fun}
                    self.assertEqual(self.sent(door, job), [], (fun, name, tgt, kind))


class EverywhereTests(Bounds):
    """Jobs of users and minions who may run the function on every minion."""

    rules = ["test.*", {"a": ["cmd.run"]}]

    def test_the_target_goes_out(self) -> None:
        """
        Where the rules allow a function on every minion, the target goes out as it was given: a
        list of ten thousand ids in each job would be no safer.
        """
        for name, door in self.publishing().items():
            sent = self.sent(door, {"tgt": "letter:?", "tgt_type": "grain", "fun": "test.ping"})
            expected: Any = (["a", "b"], "list")
            if name not in ("local_subset", "local_batch"):
                expected = ("letter:?", "grain")
            self.assertEqual([(job["tgt"], job["tgt_type"]) for job in sent], [expected], name)

    def test_T_ACL_4_the_least_of_several_counts(self) -> None:
        """T-ACL-4: of several functions, one that is allowed on some minions binds all of them."""
        job = {
            "tgt": "letter:A",
            "tgt_type": "grain",
            "fun": ["test.ping", "cmd.run"],
            "arg": [[], ["id"]],
            "kwargs": self.fred,
        }
        self.successResultOf(self.operation("publish", job, Caller(source="uid 5")))

        (sent,) = self.rig.published_jobs()
        self.assertEqual((sent["tgt"], sent["tgt_type"]), (["a"], "list"))


GUESSES: tuple[tuple[Any, str], ...] = (
    ("secret:x*", "pillar"),
    ("secret:x.*", "pillar_pcre"),
    ("secret:xyz", "pillar"),
    ("secret:xyz", "pillar_exact"),
    ("I@secret:x*", "compound"),
    ("not I@secret:x*", "compound"),
    ("not J@secret:x", "compound"),
    ("a or I@secret:xyz", "compound"),
    (["a", "or", "I@secret:xyz"], "compound"),
    ("I@secret:xyz", "compound_pillar_exact"),
    ("exact", "nodegroup"),
    ("not N@guess", "compound"),
)
"""Targets by which one could learn the secret of b."""
FILLED: Mapping[str, Any] = {
    "fun": "test.ping",
    "clear_mine_func_flag": "x",
    "timeout": 1,
    "gather_job_timeout": 1,
}
"""Arguments beside the target of runners that take one."""


def with_target(name: str, function: Any, tgt: Any, kind: str) -> dict[str, Any] | None:
    """
    How a runner is called with a target: C{arg} and C{kwarg}; C{None} for one that takes none.
    """
    if name.startswith("survey."):
        return {"arg": [tgt, "test.ping"], "kwarg": {"tgt_type": "compound"}}
    if name == "match.compound_matches":
        return {"arg": [tgt, "b"], "kwarg": {}}
    takes = signature(function).parameters
    if "tgt" not in takes:
        return None
    given = {name: value for name, value in FILLED.items() if name in takes}
    assert all(
        each.default is not Parameter.empty or each.name in ("run", "tgt", *given)
        for each in takes.values()
        if each.kind is Parameter.POSITIONAL_OR_KEYWORD
    ), name
    return {"arg": [], "kwarg": {**given, "tgt": tgt, "tgt_type": kind}}


class RunnerTests(Bounds):
    """Runners that take a target, called by logins."""

    rules = ["@runner", {"a": ["test.*"]}]

    def doors(self) -> dict[str, Callable[[str, dict[str, Any]], None]]:
        """Each door through which a login calls a runner."""
        login = Caller(source="uid 5", door="a test")

        def operation(fun: str, given: dict[str, Any]) -> None:
            self.operation("runner", {"fun": fun, **given, **self.fred}, login)

        def port(fun: str, given: dict[str, Any]) -> None:
            self.clear(cmd="runner", fun=fun, user="x", **given, **self.fred)

        return {
            "operation": operation,
            "port": port,
            "runner": lambda fun, given: self.low("runner", fun=fun, **given),
            "runner_async": lambda fun, given: self.low("runner_async", fun=fun, **given),
        }

    def targeting(self, tgt: Any, kind: str) -> dict[str, dict[str, Any]]:
        """All runners that take a target, and how each is called with this one."""
        found = {}
        for module, functions in ours().items():
            for name, function in functions.FUNCTIONS.items():
                fun = f"{module}.{name}"
                given = with_target(fun, function, tgt, kind)
                by_words = given and not given["kwarg"].get("tgt")
                if given is not None and not (by_words and "compound" not in kind):
                    found[fun] = given
        return found

    def results(self, door: Callable[[str, dict[str, Any]], None], fun: str, given: Any) -> Any:
        """What the event of the end of a runner has."""
        self.rig.events.clear()
        door(fun, given)
        for _ in range(30):
            ends = [data for _, data in self.rig.events if data.get("fun") == f"runner.{fun}"]
            found = [(data["success"], data["return"]) for data in ends if "return" in data]
            if found:
                return found
            self.rig.clock.advance(0.5)
        return []

    def test_T_PIL_3_no_runner_tells(self) -> None:
        """
        T-PIL-3: a login with C{@runner} and a rule for one minion gets nothing out of another's
        pillar, by any runner that takes a target, by any door, and however it asks.
        """
        text = (
            "fred (file) may not use this target: it asks for pillar values, with wildcards or of "
            "minions for which no rule is"
        )
        asked = set()
        for name, door in self.doors().items():
            for tgt, kind in GUESSES:
                for fun, given in self.targeting(tgt, kind).items():
                    asked.add(fun)
                    found = self.results(door, fun, given)
                    self.assertEqual(found, [(False, text)], (name, fun, tgt, kind))
        self.assertEqual(self.rig.published_jobs(), [])
        self.assertEqual(sorted(self.rig.ctx.cache.ids("pillar")), ["a", "b"])
        self.assertLessEqual(
            {"manage.status", "cache.grains", "mine.get", "salt.execute", "survey.diff"}, asked
        )

    def test_T_PIL_3_taught(self) -> None:
        """T-PIL-3: no runner has a target of which L{with_target} does not know."""
        odd = set()
        for module, functions in ours().items():
            for name, function in functions.FUNCTIONS.items():
                takes = signature(function).parameters
                if {"expr", "expr_form", "tgt_type", "target", "minion", "minions"} & set(takes):
                    odd.add(f"{module}.{name}")
        known = set(self.targeting("a", "compound"))

        self.assertEqual(
            odd - known,
            {
                # A file
                "http.update_ca_bundle",
                # A word for which the records of jobs are searched
                "jobs.last_run",
                # Globs of ids alone
                "pillar.clear_pillar_cache",
                "pillar.show_pillar",
                "pillar.show_pillar_cache",
                "pillar.show_top",
            },
        )

    def test_other_targets(self) -> None:
        """Ids, grains and addresses are asked about by the rule for the runner alone."""
        door = self.doors()["operation"]
        for tgt, kind in (
            ("b", "glob"),
            ("b", "list"),
            ("letter:B", "grain"),
            ("192.0.2.2", "ipcidr"),
            ("G@letter:B and not N@first", "compound"),
        ):
            for fun in ("cache.grains", "mine.get"):
                ((good, value),) = self.results(door, fun, self.targeting(tgt, kind)[fun])
                self.assertEqual((good, sorted(value)), (True, ["b"] if fun != "mine.get" else []))
            ((good, value),) = self.results(
                door, "manage.down", {"kwarg": {"tgt": tgt, "tgt_type": kind, **TIMES}}
            )
            self.assertEqual((good, value), (True, ["b"]))

    def test_covered(self) -> None:
        """Whole pillar values may be asked about where a rule covers who has them."""
        door = self.doors()["operation"]
        given = {"kwarg": {"tgt": "secret:abc", "tgt_type": "pillar"}}
        ((good, value),) = self.results(door, "cache.mine", given)
        self.assertEqual((good, value), (True, {"a": {"x": "a"}}))

        ((good, value),) = self.results(door, "manage.down", {"kwarg": {**given["kwarg"], **TIMES}})
        self.assertEqual((good, value), (True, ["a"]))
        for job in self.rig.published_jobs():
            # T-ACL-4: what was judged goes out here as well
            self.assertEqual((job["tgt"], job["tgt_type"]), (["a"], "list"))
        given = {"arg": ["I@secret:abc", "a"]}
        ((good, value),) = self.results(door, "match.compound_matches", given)
        self.assertEqual((good, value), (True, {"res": "a"}))
        # What it means is covered, and not the minion in question
        ((good, _),) = self.results(door, "match.compound_matches", {"arg": ["I@secret:abc", "b"]})
        self.assertFalse(good)

    def test_T_PIL_3_what_was_judged_is_answered(self) -> None:
        """
        T-PIL-3: a runner answers about the minions by which its target was judged, though another
        one should match a moment later.
        """
        targets = self.rig.ctx.dispatcher.targets
        find = targets.find

        async def looking(*args: Any, **kwargs: Any) -> Selection:
            found = await find(*args, **kwargs)
            self.know("b", "B", "abc")
            return found

        self.patch(targets, "find", looking)
        for fun in ("cache.mine", "cache.grains"):
            self.know("b", "B", "xyz")
            given = {"kwarg": {"tgt": "secret:abc", "tgt_type": "pillar"}}
            ((good, value),) = self.results(self.doors()["operation"], fun, given)
            seen = sorted(value) if good else []
            self.assertEqual(seen, ["a"] if len(self.rules) > 1 else [], fun)

    def test_T_PIL_3_orchestrations(self) -> None:
        """
        T-PIL-3: the words of C{state.orchestrate_single} are its caller's, and so are judged by
        the rules, also when another node goes on with it; those of an SLS are the operator's.
        """
        for fun, arg, refused in (
            ("state.orchestrate_single", ["salt.function", "test.ping"], True),
            ("state.orchestrate_high", [{"x": {"salt.function": []}}], True),
            ("state.orchestrate", ["deploy"], False),
        ):
            self.doors()["operation"](fun, {"arg": arg})
            jid = self.rig.children.all[-1].payload["jid"]
            active = self.rig.orchestrating.found(jid)
            self.assertEqual(active.run.rules is not None, refused, fun)

            job = {"tgt": "secret:x*", "tgt_type": "pillar", "fun": "test.ping", "arg": []}
            before = len(self.rig.publications.sent)
            items: list[Any] = []

            async def publish(run: Any = active.run, job: Any = job, items: Any = items) -> None:
                async for item in run.publish_rest(job):
                    items.append(item)

            work = Deferred.fromCoroutine(publish())
            self.rig.clock.pump([0.1] * 5)
            if refused:
                self.failureResultOf(work)
            else:
                work.addErrback(lambda failure: None)
                work.cancel()
            self.assertEqual(len(self.rig.publications.sent) - before, 0 if refused else 1, fun)
            told = self.rig.orchestrating._told(active, {"chunks": [], "pillar": ""})
            self.assertEqual(json.loads(json.dumps(told["options"]["rules"])), active.run.rules)


class RunnersAloneTests(RunnerTests):
    """A login which has no rule for minions at all."""

    rules = ["@runner"]

    def test_covered(self) -> None:
        """Without a rule for minions no pillar value may be asked about, not even a whole one."""
        door = self.doors()["operation"]
        for tgt in ("secret:abc", "secret:nobody"):
            given = {"kwarg": {"tgt": tgt, "tgt_type": "pillar"}}
            ((good, _),) = self.results(door, "cache.mine", given)
            self.assertFalse(good, tgt)


TIMES = {"timeout": 1, "gather_job_timeout": 1}
"""How long those who do not answer are waited for."""
