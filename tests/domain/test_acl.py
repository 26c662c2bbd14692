"""
Who may run what: publisher_acl, its blacklist, peers, and tokens.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.acl import (
    allowed,
    blacklisted,
    calls,
    may_publish,
    nested_functions,
    peer_allows,
    rules_for,
    special_allows,
)
from saltwisted.errors import TargetError

MINIONS = {"*": ("web1", "web2", "db1"), "web*": ("web1", "web2"), "db1": ("db1",), "none": ()}


def resolve(tgt: Any, tgt_type: str) -> Collection[str]:
    """Three minions; the exact reading of pillar values knows fewer."""
    if tgt == "broken":
        raise TargetError("cannot be understood", "broken")
    if tgt == "secret:*":
        return () if tgt_type == "pillar_exact" else ("web1",)
    return MINIONS.get(tgt, ())


def may(rules: list[Any], fun: Any, arg: Any = (), tgt: str = "web*", kind: str = "glob") -> bool:
    """Whether rules allow it."""
    return allowed(rules, fun, list(arg), tgt, kind, resolve)


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

    def test_nested_names(self) -> None:
        """The functions that a call names in its arguments are found, by position or keyword."""
        kwarg = {"__kwarg__": True}
        for fun, arg, expected in (
            ("saltutil.cmd", ["*", "cmd.run"], ["cmd.run"]),
            (
                "saltutil.cmd",
                ["*", {**kwarg, "fun": "cmd.run,test.ping"}],
                ["cmd.run", "test.ping"],
            ),
            ("publish.publish", ["*", "cmd.run"], ["cmd.run"]),
            ("mine.send", ["users", {**kwarg, "mine_function": "cmd.run"}], ["cmd.run"]),
            ("mine.send", ["cmd.run"], ["cmd.run"]),
            ("mine.update", [{**kwarg, "mine_functions": {"cmd.run": []}}], ["cmd.run"]),
            (
                "mine.update",
                [{"ips": [{"mine_function": "network.ip_addrs"}], "x": {"mine_function": "a.b"}}],
                ["ips", "x", "network.ip_addrs", "a.b"],
            ),
            ("mine.update", [True], []),
            ("saltutil.cmd", ["*", ["cmd.run", "a.b"]], ["cmd.run", "a.b"]),
            ("saltutil.cmd", ["*"], []),
            ("state.single", ["module.run", "a.b=1", "text", 5], ["a.b=1", "a.b"]),
            ("schedule.add", ["job", {**kwarg, "function": "cmd.run"}], ["cmd.run"]),
            ("state.single", ["module.run", "cmd.run"], ["cmd.run"]),
            ("state.single", ["module.run", {**kwarg, "cmd.run": ["id"]}], ["cmd.run"]),
            ("state.single", ["pkg.installed", "vim"], []),
            ("test.ping", [], []),
        ):
            self.assertEqual(nested_functions(fun, arg), expected, (fun, arg))

    def test_T_ACL_2_nobody_meant(self) -> None:
        """T-ACL-2: a target that means nobody, or cannot be understood, allows nothing."""
        for tgt in ("none", "unknown", "broken", ""):
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

        def everybody(tgt: Any, tgt_type: str) -> Collection[str]:
            return ("web1", "web2")

        for tgt, good in (
            ("not I@secret:a*", False),
            ("web* and not ( J@secret:a )", False),
            ("I@secret:abc or web*", True),
            ("N@webs", True),
        ):
            given = (["test.*"], "test.ping", [], tgt, "compound", everybody)
            self.assertEqual(allowed(*given), good, tgt)

    def test_arguments(self) -> None:
        """A rule may fix arguments: those that it mentions must be there, others are free."""
        rules = [{"*": [{"cmd.run": {"args": ["uptime$", None], "kwargs": {"cwd": "/tmp$"}}}]}]
        good = {"__kwarg__": True, "cwd": "/tmp"}

        self.assertTrue(may(rules, "cmd.run", ["uptime", "x", good]))
        self.assertFalse(may(rules, "cmd.run", ["reboot", "x", good]))
        self.assertFalse(may(rules, "cmd.run", ["uptime", good]))
        self.assertFalse(may(rules, "cmd.run", ["uptime", "x", {**good, "cwd": "/"}]))
        self.assertFalse(may(rules, "cmd.run", ["uptime", "x"]))
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
        self.assertFalse(blacklisted({}, "fred", "cmd.run", []))
        self.assertFalse(blacklisted({"users": []}, "fred", "cmd.run", []))

    def test_whole(self) -> None:
        """A user publishes what his rules allow and no blacklist names."""
        acl = {"fred": ["test.*", "cmd.run"]}

        def fred(fun: str, black: dict[str, Any] | None = None) -> bool:
            return may_publish(rules_for(acl, "fred"), black, "fred", fun, [], "*", "glob", resolve)

        self.assertTrue(fred("test.ping"))
        self.assertFalse(fred("pkg.install"))
        self.assertFalse(fred("cmd.run", {"modules": ["cmd.run"]}))
        self.assertFalse(
            may_publish(rules_for({}, "fred"), {}, "fred", "test.ping", [], "*", "glob", resolve)
        )

    def test_calls(self) -> None:
        """A compound command is taken apart with each function's own arguments."""
        self.assertEqual(calls("test.ping", ["a"]), [("test.ping", ["a"])])
        self.assertEqual(
            calls("test.ping, test.echo", [[], ["x"]]), [("test.ping", []), ("test.echo", ["x"])]
        )
        self.assertEqual(calls(["a.b", "c.d"], ["x"]), [("a.b", ["x"]), ("c.d", [])])


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

        self.assertTrue(peer_allows(peer, "x", "test.ping", [], "web*", "glob", resolve))
        self.assertFalse(peer_allows(peer, "x", "test.ping", [], "*", "glob", resolve))
        self.assertFalse(peer_allows(peer, "x", "test.ping", [], "none", "glob", resolve))
        self.assertFalse(peer_allows(peer, "x", "test.ping"))

    def test_no_publishing_in_turn(self) -> None:
        """A minion may not have others publish, whatever the rules say."""
        peer = {".*": [".*"]}

        self.assertFalse(
            peer_allows(peer, "x", "publish.publish", ["*", "test.ping"], "*", "glob", resolve)
        )
        self.assertFalse(
            peer_allows(peer, "x", "saltutil.cmd", ["*", "publish.publish"], "*", "glob", resolve)
        )

    def test_nested(self) -> None:
        """A function that calls another by name needs both to be allowed."""
        self.assertFalse(peer_allows({".*": ["mine.send"]}, "x", "mine.send", ["cmd.run"]))
        self.assertTrue(peer_allows({".*": ["mine.send"]}, "x", "mine.send", ["mine.send"]))
