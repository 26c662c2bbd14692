"""
Who may run what: publisher_acl, its blacklist, peers, and tokens.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.acl import (
    FREE,
    FUNCTIONS,
    NAME,
    allowed,
    blacklisting,
    command_fault,
    decide,
    may_publish,
    may_target,
    peer_allows,
    peer_may_publish,
    rules_for,
    special_allows,
)
from saltwisted.domain.firing import may_have_fired
from saltwisted.errors import TargetError

MINIONS = {"*": ("web1", "web2", "db1"), "web*": ("web1", "web2"), "db1": ("db1",), "none": ()}


def resolve(tgt: Any, tgt_type: str, delimiter: str) -> Collection[str]:
    """Three minions; the exact reading of pillar values knows fewer."""
    if tgt == "broken":
        raise TargetError("cannot be understood", "broken")
    if tgt == "secret:*":
        return () if tgt_type == "pillar_exact" else ("web1",)
    return MINIONS.get(tgt, ())


def may(rules: list[Any], fun: Any, arg: Any = (), tgt: str = "web*", kind: str = "glob") -> bool:
    """Whether rules allow it."""
    return decide(allowed(rules, fun, list(arg), tgt, kind), resolve) is not None


def publishes(peer: dict[str, Any], fun: Any, arg: list[Any], tgt: str) -> bool:
    """Whether the minion C{x} may publish it."""
    return decide(peer_may_publish(peer, "x", fun, arg, tgt, "glob"), resolve) is not None


def blacklisted(blacklist: Any, user: str, fun: Any, arg: Any) -> bool:
    """Whether the blacklist names it."""
    return decide(blacklisting(blacklist, user, fun, arg), lambda *target: ())


class PublisherTests(SynchronousTestCase):
    """publisher_acl."""

    def test_names(self) -> None:
        """A user has the rules of every name that is his, as a glob or as an expression."""
        acl = {
            "fred": ["test.ping"],
            "f*": ["network.*"],
            r"(fred|eve)": ["grains.*"],
            "bob": ["."],
        }

        self.assertEqual(rules_for(acl, "fred"), ["test.ping", "network.*", "grains.*"])
        self.assertEqual(rules_for(acl, "mallory"), [])
        self.assertEqual(rules_for(None, "fred"), [])

    def test_functions(self) -> None:
        """A pattern means the functions that begin with it, as in stock."""
        self.assertTrue(may(["test.ping"], "test.ping"))
        self.assertTrue(may(["test"], "test.echo"))
        self.assertFalse(may(["test.ping"], "cmd.run"))
        self.assertFalse(may(["("], "test.ping"))
        self.assertFalse(may([], "test.ping"))

    def test_T_ACL_1_each_function(self) -> None:
        """T-ACL-1: one function that is not allowed refuses the whole command, in every form."""
        rules = ["test.*"]
        for fun, arg in (
            ("test.ping,cmd.run", [[], ["id"]]),
            ("cmd.run,test.ping", [["id"], []]),
            ("test.ping, cmd.run", [[], ["id"]]),
            (["test.ping", "cmd.run"], [[], ["id"]]),
            ("test.ping,", [[], []]),
            (",", []),
            ("", []),
            (None, []),
            ([], []),
            ("saltutil.cmd", ["*", "cmd.run", "id"]),
            ("state.single", ["cmd.run", "id"]),
            ("module.run", ["cmd.run"]),
            ("sys.doc", []),
            ("test.try", ["cmd.run"]),
            ("test.try_", [{"__kwarg__": True, "module": "cmd.run"}]),
            ("test.echo", ["__slot__:salt:cmd.run(id)"]),
            ("test.echo", [{"__kwarg__": True, "text": ["a", {"b": "__slot__:salt:cmd.run(x)"}]}]),
        ):
            self.assertFalse(may(rules, fun, arg), (fun, arg))
        self.assertTrue(may(rules, "test.ping,test.echo", [[], ["x"]]))
        self.assertTrue(may(rules, "test.try", ["test.ping"]))

    def test_T_ACL_1_as_minions_read_it(self) -> None:
        """T-ACL-1: arguments are judged as minions read them, in text and maps, however deep."""
        rules = ["test.*", "saltutil.cmd", "state.single", "mine.send", "schedule.add"]
        word = {"__kwarg__": True}
        for fun, arg in (
            ("saltutil.cmd", ["*", "fun=cmd.run"]),
            ("saltutil.cmd", ["fun=cmd.run", "*"]),
            ("saltutil.cmd", ["*", 'fun="cmd.run"']),
            ("saltutil.cmd", ["*", "fun=[test.ping, cmd.run]"]),
            ("saltutil.cmd", ["*", r'fun="\x63md.run"']),
            ("saltutil.cmd", [{"__kwarg__": 1, "fun": "test.ping"}, "cmd.run"]),
            ("saltutil.cmd", ["*", b"cmd.run"]),
            ("saltutil.cmd", ["*", "test.ping", {**word, "fun": "cmd.run"}]),
            ("saltutil.cmd", ["*", "saltutil.cmd", ["*", "cmd.run"]]),
            ("saltutil.cmd", ["*", "saltutil.cmd", ["*", "fun=cmd.run"]]),
            ("saltutil.cmd", ["*", "test.ping,saltutil.cmd", [[], ["*", "cmd.run"]]]),
            ("saltutil.cmd", ["*", "test.try", {**word, "kwarg": {"module": "cmd.run"}}]),
            ("saltutil.cmd", ["*", "test.try", {**word, "module": "cmd.run"}]),
            ("test.try", ["module=cmd.run"]),
            ("test.cross_test", ["cmd.run", "id"]),
            ("test.cross_test", ["test.cross_test", ["cmd.run", ["id"]]]),
            ("mine.send", ["name=cmd.run"]),
            ("mine.send", ["x", "mine_function=cmd.run"]),
            ("schedule.add", ["job", "function=cmd.run"]),
            ("schedule.add", ["job", "function=saltutil.cmd", "job_args=['*', cmd.run]"]),
            ("state.single", ["fun=module.run", "name=cmd.run"]),
            ("state.single", ["module.run", "cmd.run"]),
            ("state.single", ["module.run.more", "cmd.run"]),
            ("state.single", ["module.mod_watch", "cmd.run"]),
            ("state.single", ["module.run", "x", "cmd.run=[id]"]),
            ("state.single", ["module.run", "x", "cmd.run:again=[id]"]),
            ("state.single", ["module.run", "saltutil.cmd", "m_fun=cmd.run", "tgt=*"]),
            ("state.single", ["test.nop", "x", "onlyif=id"]),
            ("state.single", ["test.nop", "x", {**word, "unless": [{"fun": "cmd.run"}]}]),
            ("state.single", ["test.nop", '__slot__:salt:"cmd".run(id)']),
            ("state.single", ["test.nop", "__slot__:salt:cmd . run(id)"]),
            ("state.single", ["test.nop", r'name="\x5f_slot__:salt:cmd.run(id)"']),
            ("state.single", ["test.nop", "name=__slot__:salt:cmd.run(id)"]),
            ("state.single", ["test.nop", "__slot__:salt:saltutil.cmd(*, cmd.run)"]),
            ("state.single", ["test.nop", "x", "text=" + "[" * 20_000]),
            ("state.single", ["salt.function", "cmd.run", "tgt=*"]),
            ("state.single", ["schedule.present", "job", "function=cmd.run"]),
        ):
            self.assertFalse(may(rules, fun, arg), (fun, arg))
            self.assertTrue(may([".*", "@returner"], fun, ["x"]), fun)
        for fun, arg in (
            ("saltutil.cmd", ["*", "fun=test.ping"]),
            ("saltutil.cmd", ["*", "saltutil.cmd", ["*", "test.ping"]]),
            ("test.echo", ["fun=cmd.run"]),
            ("test.cross_test", ["test.echo", "cmd.run"]),
            ("mine.send", ["users", "mine_function=test.ping"]),
            ("state.single", ["test.nop", "module.run"]),
            ("state.single", ["module.run", "x", "test.ping=[]"]),
            ("state.single", ["test.nop", "__slot__:salt:test.ping()"]),
        ):
            self.assertTrue(may(rules, fun, arg), (fun, arg))

    def test_T_ACL_1_what_else_a_job_carries(self) -> None:
        """T-ACL-1: returners and executors need rules of their own, the rest is for owners."""

        def carries(rules: list[Any], fun: str = "test.ping", **extras: Any) -> bool:
            judging = may_publish(rules, {}, "fred", fun, [], "*", "glob", ":", extras)
            return decide(judging, resolve) is not None

        some = [".*", {"@returner": ["pgjsonb", "log*"]}, {"@executor": ["sudo"]}]
        every = [".*", "@returner", "@executor"]
        for fun in ("test.ping", "saltutil.find_job"):
            self.assertTrue(carries([".*"], fun, ret="", module_executors=None, ret_config=""))
            for extras in (
                {"ret": "pgjsonb"},
                {"ret": "pgjsonb,logstash"},
                {"module_executors": "sudo"},
                {"module_executors": ["sudo"]},
            ):
                self.assertFalse(carries([".*"], fun, **extras), extras)
                self.assertTrue(carries(some, fun, **extras), extras)
                self.assertTrue(carries(every, fun, **extras), extras)
            for extras in (
                {"ret": "pgjsonb,smtp"},
                {"ret": ["smtp"]},
                {"ret": {"smtp": 1}},
                {"ret": "pgjsonbx"},
                {"module_executors": ["sudo", "docker"]},
            ):
                self.assertFalse(carries(some, fun, **extras), extras)
            for name in ("ret_config", "ret_kwargs", "executor_opts"):
                self.assertFalse(carries(every, fun, **{name: {"a": 1}}), name)

    def test_T_ACL_1_returners_in_turn(self) -> None:
        """T-ACL-1: a returner that a nested call names is judged like one of the job itself."""
        word = {"__kwarg__": True}
        some = [".*", {"@returner": ["pgjsonb"]}]
        for fun, arg in (
            ("saltutil.cmd", ["*", "test.ping", {**word, "ret": "pgjsonb"}]),
            ("saltutil.cmd", ["*", "test.ping", [], 5, "glob", "pgjsonb"]),
            ("publish.publish", ["*", "test.ping", "", "glob", "pgjsonb"]),
            ("schedule.add", ["x", "function=test.ping", "returner=pgjsonb"]),
            ("state.single", ["module.run", "x", "test.ping=[]", "returner=pgjsonb"]),
            ("state.single", ["salt.function", "test.ping", "tgt=*", "ret=pgjsonb"]),
        ):
            self.assertFalse(may([".*"], fun, arg), (fun, arg))
            self.assertTrue(may(some, fun, arg), (fun, arg))
        self.assertFalse(may(some, "saltutil.cmd", ["*", "test.ping", "ret_config=x"]))

    def test_T_ACL_1_delimiter(self) -> None:
        """T-ACL-1: a target is judged by the delimiter under which it is published."""
        asked: list[Any] = []

        def listening(tgt: Any, tgt_type: str, delimiter: str) -> Collection[str]:
            asked.append((tgt, tgt_type, delimiter))
            return ("web1",)

        judging = may_publish([".*"], {}, "fred", "test.ping", [], "a|b", "pillar", "|")

        self.assertTrue(decide(judging, listening))
        self.assertEqual(asked, [("a|b", "pillar", "|"), ("a|b", "pillar_exact", "|")])

    def test_T_ACL_2_nobody_meant(self) -> None:
        """
        T-ACL-2: a target that means nobody is allowed by rules for all minions alone. Rules for
        some answer as for minions of others, and so do not tell which there are.
        """
        for tgt in ("none", "unknown"):
            self.assertTrue(may(["test.*"], "test.ping", tgt=tgt), tgt)
            self.assertTrue(may([{"*": ["test.*"]}], "test.ping", tgt=tgt), tgt)
            self.assertFalse(may(["test.*"], "test.ping,cmd.run", tgt=tgt), tgt)
            self.assertFalse(may([{"*": ["test.*"]}], "cmd.run", tgt=tgt), tgt)
            for target in ("web*", "none", "G@os:*", "*1"):
                rules = [{target: ["test.*"]}, {"*": ["sys.*"]}]
                self.assertFalse(may(rules, "test.ping", tgt=tgt), (target, tgt))
        self.assertFalse(may([{"web*": ["test.*"]}], "test.ping", tgt="db1"))

    def test_T_ACL_2_not_understood(self) -> None:
        """T-ACL-2: a target that cannot be understood, or that is empty, allows nothing."""
        for tgt in ("broken", ""):
            self.assertFalse(may(["test.*"], "test.ping", tgt=tgt), tgt)
            self.assertFalse(may([{"*": ["test.*"]}], "test.ping", tgt=tgt), tgt)

    def test_targets(self) -> None:
        """A rule for some minions allows what means no others."""
        rules = [{"web*": ["test.*"]}, {"db1": "cmd.run"}]

        self.assertTrue(may(rules, "test.ping", tgt="web*"))
        self.assertFalse(may(rules, "test.ping", tgt="*"))
        self.assertFalse(may(rules, "cmd.run", tgt="web*"))
        self.assertTrue(may(rules, "cmd.run", tgt="db1"))
        self.assertFalse(may([{"broken": ["test.*"]}], "test.ping"))
        self.assertFalse(may([{"@runner": ["test.*"]}], "test.ping"))
        self.assertFalse(may([{"web*": ["test.*"], "db1": ["test.*"]}, 5], "test.ping"))

    def test_guessing_pillar(self) -> None:
        """A target by pillar wildcards that would tell a secret apart is refused."""
        self.assertFalse(may(["test.*"], "test.ping", tgt="secret:*", kind="pillar"))
        self.assertTrue(may(["test.*"], "test.ping", tgt="secret:*", kind="grain"))

    def test_T_PIL_3_guessing_by_exclusion(self) -> None:
        """T-PIL-3: nor may a user say whom pillar wildcards exclude, which tells them apart too."""

        def everybody(tgt: Any, tgt_type: str, delimiter: str) -> Collection[str]:
            return ("web1", "web2")

        for tgt, good in (
            ("not I@secret:a*", False),
            ("web* and not ( J@secret:a )", False),
            ("I@secret:abc or web*", True),
            ("N@webs", True),
        ):
            judging = allowed(["test.*"], "test.ping", [], tgt, "compound")
            self.assertEqual(decide(judging, everybody) is not None, good, tgt)

    def test_arguments(self) -> None:
        """A rule may fix arguments: those that it mentions must be there, others are free."""
        rules = [{"*": [{"cmd.run": {"args": ["uptime$", None], "kwargs": {"cwd": "/tmp$"}}}]}]
        good = {"__kwarg__": True, "cwd": "/tmp"}

        self.assertTrue(may(rules, "cmd.run", ["uptime", "x", good]))
        self.assertFalse(may(rules, "cmd.run", ["reboot", "x", good]))
        self.assertFalse(may(rules, "cmd.run", ["uptime", good]))
        self.assertFalse(may(rules, "cmd.run", ["uptime", "x", {**good, "cwd": "/"}]))
        self.assertFalse(may(rules, "cmd.run", ["uptime", "x"]))
        self.assertTrue(may(rules, "cmd.run", ["uptime", "x", "cwd=/tmp"]))
        self.assertFalse(may(rules, "cmd.run", ["uptime", "x", "cwd=/"]))
        self.assertFalse(may(rules, "cmd.run", ["uptime", {"__kwarg__": 1}, "cwd=/"]))
        self.assertFalse(may([{"*": [{"cmd.run": "no map"}, {"a": 1, "b": 2}, 5]}], "cmd.run"))

    def test_arguments_do_not_reach_nested_calls(self) -> None:
        """A function with fixed arguments is not thereby allowed when something else calls it."""
        rules: list[Any] = ["saltutil.cmd", {"*": [{"cmd.run": {"args": ["uptime$"]}}]}]

        self.assertFalse(may(rules, "saltutil.cmd", ["*", "cmd.run", "uptime"]))

    def test_blacklist(self) -> None:
        """Users and functions on the blacklist are refused, nested functions too."""
        black = {"users": ["root", r"^(?!sudo_).*$"], "modules": ["cmd.*"]}

        self.assertTrue(blacklisted(black, "fred", "test.ping", []))
        self.assertFalse(blacklisted(black, "sudo_fred", "test.ping", []))
        self.assertTrue(blacklisted(black, "sudo_fred", "test.ping,cmd.run", [[], []]))
        self.assertTrue(blacklisted(black, "sudo_fred", "saltutil.cmd", ["*", "cmd.run"]))
        self.assertTrue(blacklisted(black, "sudo_fred", "saltutil.cmd", ["*", "fun=cmd.run"]))
        unseen = ["test.nop", '__slot__:salt:"cmd".run(id)']
        self.assertTrue(blacklisted(black, "sudo_fred", "state.single", unseen))
        self.assertFalse(blacklisted({}, "fred", "cmd.run", []))
        self.assertFalse(blacklisted({"users": []}, "fred", "cmd.run", []))

    def test_whole(self) -> None:
        """A user publishes what his rules allow and no blacklist names."""
        acl = {"fred": ["test.*", "cmd.run"]}

        def fred(fun: str, black: dict[str, Any] | None = None) -> bool:
            judging = may_publish(rules_for(acl, "fred"), black, "fred", fun, [], "*", "glob")
            return decide(judging, resolve) is not None

        self.assertTrue(fred("test.ping"))
        self.assertFalse(fred("pkg.install"))
        self.assertFalse(fred("cmd.run", {"modules": ["cmd.run"]}))
        nothing = may_publish(rules_for({}, "fred"), {}, "fred", "test.ping", [], "*", "glob")
        self.assertIsNone(decide(nothing, resolve))


class GrantTests(SynchronousTestCase):
    """To whom rules allow something (T-ACL-4)."""

    def granted(self, rules: list[Any], fun: Any, tgt: Any = "web*", kind: str = "glob") -> Any:
        """The minions to whom a command goes: some, all ("every"), or C{None} if it is refused."""
        grant = decide(may_publish(rules, {}, "fred", fun, [], tgt, kind), resolve)
        if grant is None or grant.judged is None:
            return grant and "every"
        return sorted(grant.judged.minions)

    def test_T_ACL_4_whom(self) -> None:
        """T-ACL-4: rules for some minions allow it on those that were judged, and no others."""
        some = {"web*": ["test.*"]}
        for rules, fun, expected in (
            ([some], "test.ping", ["web1", "web2"]),
            (["test.ping"], "test.ping", "every"),
            ([{"*": ["test.ping"]}], "test.ping", "every"),
            # Whichever comes first
            ([some, "test.ping"], "test.ping", "every"),
            ([some, {"*": "test"}], "test.ping", "every"),
            # The least of several functions, and of those that one calls
            ([some, "cmd.run"], "test.ping,cmd.run", ["web1", "web2"]),
            (["test.*", {"web*": "cmd.run"}], "cmd.run,test.ping", ["web1", "web2"]),
            ([{"db1": ["test.*"]}], "test.ping", None),
        ):
            self.assertEqual(self.granted(rules, fun), expected, (rules, fun))
        nested = allowed(
            ["saltutil.cmd", {"web*": "cmd.run"}], "saltutil.cmd", ["*", "cmd.run"], "web*", "glob"
        )
        grant = decide(nested, resolve)
        assert grant is not None and grant.judged is not None
        self.assertEqual(grant.judged.minions, ["web1", "web2"])

    def test_T_ACL_4_free(self) -> None:
        """
        T-ACL-4: a free function needs no rule that names it; but each minion that is meant has to
        be covered by a rule, and its target must not guess.
        """
        some = {"web*": ["test.ping"]}
        for rules, tgt, kind, expected in (
            ([some], "web*", "glob", ["web1", "web2"]),
            ([some], "*", "glob", None),
            ([some], "db1", "glob", None),
            ([some], "none", "glob", None),
            ([some], "broken", "glob", None),
            ([some], "", "glob", None),
            # Together they cover it
            ([some, {"db1": [{"cmd.run": {"args": ["x"]}}]}], "*", "glob", ["db1", "web1", "web2"]),
            ([{"web*": []}], "web*", "glob", None),
            # Whose events one may see is not whom one may have do something
            ([{"web*": ["@events", "(", 5]}, {"*": "@events"}], "web*", "glob", None),
            ([{"broken": ["test.*"]}], "web*", "glob", None),
            (["pkg.install"], "db1", "glob", "every"),
            ([{"*": ["pkg.install"]}], "none", "glob", "every"),
            (["@runner", {"@jobs": ["x"]}, "(", 5], "web*", "glob", None),
            ([some], "secret:*", "pillar", None),
            ([".*"], "secret:*", "pillar", None),
            ([".*"], "not I@secret:a*", "compound", None),
        ):
            for fun in FREE:
                self.assertEqual(self.granted(rules, fun, tgt, kind), expected, (rules, tgt))
            # In a list it is a command like others
            self.assertIsNone(self.granted([some], [*FREE], "web*"))

    def test_T_PIL_3_targets_of_runners(self) -> None:
        """
        T-PIL-3: what a login gives a runner as a target is free, unless it asks for pillar: then
        it must not guess, and a rule has to cover each minion.
        """
        groups = {"secret": "I@secret:a*", "webs": "web*"}
        whole = {"secret:abc": ("web1",), "I@secret:abc": ("web1",), "secret": ("web1",)}

        def meant(tgt: Any, tgt_type: str, delimiter: str) -> Collection[str]:
            return whole.get(tgt) or MINIONS.get(tgt, ())

        for tgt, kind, alone, covered, every in (
            ("*", "glob", "every", "every", "every"),
            ("G@os:*", "compound", "every", "every", "every"),
            ("webs", "nodegroup", "every", "every", "every"),
            ("I@" * 40_000, "compound", "every", "every", "every"),
            ("secret:abc", "pillar", None, ["web1"], "every"),
            ("secret:abc", "pillar_exact", None, ["web1"], "every"),
            ("I@secret:abc", "compound", None, ["web1"], "every"),
            ("I@secret:abc", "COMPOUND", None, ["web1"], "every"),
            ("secret", "nodegroup", None, ["web1"], "every"),
            ("secret:a*", "pillar", None, None, None),
            ("secret:a*", "pillar_exact", None, None, None),
            ("secret:abc", "pillar_pcre", None, None, None),
            ("not I@secret:a*", "compound", None, None, None),
            ("none:none", "pillar", None, None, "every"),
        ):
            for rules, expected in (
                (["@runner"], alone),
                (["@runner", {"web*": ["test.ping"]}], covered),
                (["@runner", "test.ping"], every),
            ):
                grant = decide(may_target(rules, tgt, kind, ":", groups), meant)
                seen = grant and ("every" if grant.judged is None else grant.judged.minions)
                self.assertEqual(seen, expected, (tgt[:20], kind, rules))


class ExactTests(SynchronousTestCase):
    """Pillar values, which are compared as they are written, too."""

    def test_T_PIL_3_exactly(self) -> None:
        """
        T-PIL-3: a target that means fewer minions when it is compared exactly is refused, though
        it has no wildcard: another rule for matching would else reveal values.
        """
        for kind, tgt in (("pillar", "a:b"), ("compound", "I@a:b and web*")):
            for exact, is_allowed in ((("web1", "web2"), True), (("web1",), False), ((), False)):

                def meant(
                    asked: Any, asked_kind: str, delimiter: str, exact: Any = exact
                ) -> Collection[str]:
                    return exact if asked_kind.endswith("exact") else ("web1", "web2")

                judging = allowed([".*"], "test.ping", [], tgt, kind)
                self.assertEqual(decide(judging, meant) is not None, is_allowed, (kind, exact))


class UnreadableTests(SynchronousTestCase):
    """Calls of which nobody can tell what they call in turn."""

    CALL = ("mine.send", ["name", {"__kwarg__": True, "mine_function": "x" * 5000}])

    def test_T_ACL_1_unreadable(self) -> None:
        """T-ACL-1: who may do anything may not do what cannot be read, by any door."""
        fun, arg = self.CALL
        anything = {"x": [".*"]}
        self.assertTrue(peer_allows(anything, "x", fun, ["name"]))
        self.assertFalse(peer_allows(anything, "x", fun, arg))
        self.assertTrue(publishes(anything, fun, ["name"], "web*"))
        self.assertFalse(publishes(anything, fun, arg, "web*"))
        self.assertFalse(may([".*"], fun, arg))
        self.assertTrue(blacklisted({"modules": ["cmd.*"]}, "fred", fun, arg))
        rules = [".*", {"@event": ["a/*"]}]
        self.assertTrue(decide(may_have_fired(rules, "test.ping", []), resolve))
        self.assertFalse(decide(may_have_fired(rules, fun, arg), resolve))

    def test_peers(self) -> None:
        """A minion without rules publishes nothing, nor by returners that no rule names."""
        for fun in (None, 5, ["test.ping"]):
            self.assertFalse(peer_allows({"x": [".*"]}, "x", fun))  # type: ignore[arg-type]
        self.assertFalse(peer_allows({}, "x", "test.ping"))
        for rules, ret, is_allowed in (
            ([".*"], "", True),
            ([".*"], "mysql", False),
            ([], "", False),
            ([".*", "@returner"], "mysql", True),
        ):
            judging = peer_may_publish({"x": rules}, "x", "test.ping", [], "web*", "glob", ret)
            self.assertEqual(decide(judging, resolve) is not None, is_allowed, (rules, ret))

    def test_long_arguments(self) -> None:
        """A rule about arguments means none that is too long to be written out and compared."""
        rules = [{"*": [{"test.arg": {"args": [".*"]}}]}]
        self.assertTrue(may(rules, "test.arg", [["x"]]))
        self.assertFalse(may(rules, "test.arg", [["x"] * 2000]))
        rules = [{"*": [{"test.arg": {"args": ["(a+)+x"]}}]}]
        self.assertTrue(may(rules, "test.arg", ["aaax"]))
        self.assertFalse(may(rules, "test.arg", ["a" * 2000 + "x"]))


class CommandTests(SynchronousTestCase):
    """What may be a command at all."""

    def test_faults(self) -> None:
        """A command has some functions with names of some length, in a text or in a list."""
        many, long = ["test.ping"] * FUNCTIONS, "x" * NAME
        for fun in ("test.ping", ["test.ping"], ("a.b", "c.d"), ",".join(many), many, long, [long]):
            self.assertEqual(command_fault(fun), "")
        for fun in (None, 5, {}, {"test.ping": 1}, [1], ["test.ping", None], b"test.ping", [[]]):
            self.assertIn("as a string, or several in a list", command_fault(fun))
        for fun in ([*many, "a.b"], ",".join([*many, "a.b"])):
            self.assertIn("at most", command_fault(fun))
            self.assertIn("functions", command_fault(fun))
        for fun in (long + "x", [long + "x"], f"test.ping,{long}x"):
            self.assertIn("characters long", command_fault(fun))


class SpecialTests(SynchronousTestCase):
    """Runners and wheel functions."""

    def test_runners(self) -> None:
        """C{@runner} means all of a kind, C{@jobs} one module, a map some functions of it."""
        for rules, fun, expected in (
            (["@runner"], "jobs.list_jobs", True),
            (["@runners"], "jobs.list_jobs", True),
            (["@jobs"], "jobs.list_jobs", True),
            (["@jobs"], "manage.up", False),
            (["@wheel"], "jobs.list_jobs", False),
            ([{"@jobs": ["list_job$"]}], "jobs.list_job", True),
            ([{"@jobs": ["list_job$"]}], "jobs.list_jobs", False),
            ([{"@runner": ["jobs.*"]}], "jobs.list_jobs", True),
            (["jobs.*"], "jobs.list_jobs", False),
            (["@runner"], "jobs", False),
            (["@runner"], "a.b.c", False),
            ([5, {"@jobs": ["list_job"], "x": []}], "jobs.list_job", False),
        ):
            self.assertEqual(special_allows(rules, "runner", fun, [], {}), expected, (rules, fun))

    def test_arguments(self) -> None:
        """Arguments of a wheel function can be fixed."""
        rules = [{"@key": [{"accept": {"kwargs": {"match": "web"}}}]}]

        self.assertTrue(special_allows(rules, "wheel", "key.accept", [], {"match": "web1"}))
        self.assertFalse(special_allows(rules, "wheel", "key.accept", [], {"match": "db1"}))


class PeerTests(SynchronousTestCase):
    """peer, peer_run, mine_get."""

    def test_names_and_functions(self) -> None:
        """A minion has the rules of every expression that its id begins with."""
        peer = {"web.*": ["test.*"], ".*": ["network.interfaces"], "db": "no list"}

        self.assertTrue(peer_allows(peer, "web1", "test.ping"))
        self.assertTrue(peer_allows(peer, "db1", "network.interfaces"))
        self.assertFalse(peer_allows(peer, "db1", "test.ping"))
        self.assertFalse(peer_allows({}, "db1", "test.ping"))
        self.assertFalse(peer_allows(None, "db1", "test.ping"))

    def test_targets(self) -> None:
        """With a resolver, rules for some targets count, and a target of nobody does not."""
        peer = {".*": [{"web*": ["test.*"]}]}

        self.assertTrue(publishes(peer, "test.ping", [], "web*"))
        self.assertFalse(publishes(peer, "test.ping", [], "*"))
        self.assertFalse(publishes(peer, "test.ping", [], "none"))
        self.assertFalse(publishes({}, "test.ping", [], "web*"))
        self.assertFalse(peer_allows(peer, "x", "test.ping"))

    def test_no_publishing_in_turn(self) -> None:
        """A minion may not have others publish, whatever the rules say."""
        peer = {".*": [".*"]}

        self.assertTrue(publishes(peer, "test.ping,test.echo", [[], ["x"]], "*"))
        for fun, arg in (
            ("publish.publish", ["*", "test.ping"]),
            ("saltutil.cmd", ["*", "publish.publish"]),
            ("test.ping,publish.publish", [[], ["*", "test.ping"]]),
            ("test.ping,saltutil.cmd", [[], ["*", "publish.publish"]]),
        ):
            self.assertFalse(publishes(peer, fun, arg, "*"), fun)

    def test_T_ACL_1_each_function_of_a_minion(self) -> None:
        """T-ACL-1: among several functions, each is judged by arguments of its own."""
        peer = {".*": ["test.*", "saltutil.cmd"]}

        self.assertTrue(publishes(peer, "test.ping,saltutil.cmd", [[], ["*", "test.ping"]], "*"))
        self.assertFalse(publishes(peer, "test.ping,saltutil.cmd", [[], ["*", "cmd.run"]], "*"))
        self.assertFalse(publishes(peer, "test.ping,cmd.run", [[], ["id"]], "*"))

    def test_nested(self) -> None:
        """A function that calls another by name needs both to be allowed."""
        self.assertFalse(peer_allows({".*": ["mine.send"]}, "x", "mine.send", ["cmd.run"]))
        self.assertTrue(peer_allows({".*": ["mine.send"]}, "x", "mine.send", ["mine.send"]))
