"""
Which events somebody may fire.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.acl import decide, may_publish, minion_may_say, special_allows
from saltwisted.domain.firing import may_fire, of_salt

DEPLOY: list[Any] = [{"@event": ["deploy/*", "salt/netapi/hook/deploy/*"]}]


def sends(rules: list[Any], *arg: Any, **kwarg: Any) -> bool:
    """Whether rules allow this call of the runner."""
    return special_allows(rules, "runner", "event.send", list(arg), kwarg)


def publishes(rules: list[Any], fun: Any, *arg: Any) -> bool:
    """Whether rules allow minions to be called so."""
    judging = may_publish(rules, None, "ci", fun, list(arg), "m", "glob")
    return decide(judging, lambda target, kind, delimiter: {"m"}) is not None


class UserTests(SynchronousTestCase):
    """T-EVT-3: users."""

    def test_T_EVT_3_tags(self) -> None:
        """T-EVT-3: a rule means the tags of its globs, whole and in their case, and no others."""
        for tag in ("deploy/web", "deploy/web/x", "salt/netapi/hook/deploy/web"):
            self.assertTrue(may_fire(DEPLOY, tag), tag)
        for tag in (
            "deploy",
            "Deploy/web",
            "x/deploy/web",
            "salt/key",
            "",
            None,
            ["deploy/web"],
            7,
        ):
            self.assertFalse(may_fire(DEPLOY, tag), tag)
        self.assertFalse(may_fire([{"@event": []}], "deploy/web"))
        self.assertFalse(may_fire([{"@event": ["d*x", 7, None]}], "deploy/web"))
        self.assertTrue(may_fire([*DEPLOY, {"@event": "app/*"}], "app/x"))

    def test_T_EVT_3_runner(self) -> None:
        """T-EVT-3: the rule gives C{event.send} for its tags, and takes all others from it."""
        for rules in (DEPLOY, ["@runner", *DEPLOY], [".*", "@runner", "@wheel", *DEPLOY]):
            self.assertTrue(sends(rules, "deploy/web", {"a": 1}))
            self.assertTrue(sends(rules, tag="deploy/web"))
            for arg, kwarg in (
                (["salt/key"], {}), ([], {}), ([], {"tag": "salt/key"}), (["data=1"], {}),
                (["salt/key"], {"tag": "deploy/web"}), (["tag=salt/key"], {}), ([["deploy/x"]], {}),
            ):  # fmt: skip
                self.assertFalse(sends(rules, *arg, **kwarg), (rules, arg, kwarg))
        self.assertFalse(special_allows(DEPLOY, "runner", "jobs.active", [], {}))
        self.assertFalse(special_allows(DEPLOY, "wheel", "event.send", ["deploy/web"], {}))

    def test_as_in_salt(self) -> None:
        """Without such a rule all is as in Salt; so it is with Salt's own form."""
        for rules in (
            ["@runner"],
            ["@event"],
            [{"@runner": ["event.send"]}],
            [{"@event": ["send"]}],
        ):
            self.assertTrue(sends(rules, "any/tag"), rules)
        self.assertFalse(sends([".*"], "any/tag"))
        self.assertTrue(may_fire(["test.*"], "any/tag"))
        self.assertTrue(publishes([".*"], "event.send", "any/tag"))

    def test_T_EVT_3_minions(self) -> None:
        """T-EVT-3: minions that a user calls fire no other tags for him, however he says it."""
        rules = [".*", *DEPLOY]
        self.assertTrue(publishes(rules, "event.send", "deploy/web", {"a": 1}))
        self.assertTrue(publishes(rules, "event.send", "tag=deploy/web"))
        self.assertTrue(publishes(rules, "event.fire_master", {"a": 1}, "deploy/web"))
        self.assertTrue(publishes(rules, "test.ping"))
        self.assertFalse(publishes(rules[1:], "event.send", "deploy/web"))
        for fun, arg in (
            ("event.send", ["salt/x"]),
            ("event.send", []),
            ("event.send", [{"__kwarg__": True, "tag": "salt/x"}]),
            ("event.fire_master", ["deploy/web", "salt/x"]),
            ("test.ping,event.send", [[], ["salt/x"]]),
            (["test.ping", "event.send"], [[], ["salt/x"]]),
            ("saltutil.cmd", ["*", "event.send", ["salt/x"]]),
            ("state.single", ["module.run", "name=event.send"]),
            ("state.single", ["event.send", "name=salt/x"]),
            ("state.single", [{"__kwarg__": True, "fun": "event.fire_master", "name": "salt/x"}]),
            ("schedule.add", ["j", "function=event.send"]),
        ):
            self.assertFalse(publishes(rules, fun, *arg), fun)


class MinionTests(SynchronousTestCase):
    """T-EVT-3: minions."""

    def test_T_EVT_3_minion(self) -> None:
        """T-EVT-3: a minion fires what names that mean it allow; without the option anything."""
        acl = {"ci*": ["deploy/*"], "*": "app/*", "web[0-9]+": ["web/*"]}
        self.assertTrue(minion_may_say(acl, "ci1", "deploy/x"))
        self.assertTrue(minion_may_say(acl, "ci1", "app/x"))
        self.assertTrue(minion_may_say(acl, "web10", "web/x"))
        for minion, tag in (("db1", "deploy/x"), ("xci1", "deploy/x"), ("web", "web/x")):
            self.assertFalse(minion_may_say(acl, minion, tag), (minion, tag))
        self.assertFalse(minion_may_say({"ci*": ["*"]}, "db1", "x"))
        self.assertFalse(minion_may_say(acl, "ci1", None))
        self.assertTrue(minion_may_say({}, "db1", "x"))

    def test_of_salt(self) -> None:
        """What Salt's programs fire about their minion needs no rule; what is alike does."""
        for tag in (
            "minion_start", "salt/minion/m/start", "salt/beacon/m/diskusage/",
            "salt/job/1/prog/m/0", "salt/state_result/1/m/x", "minion/refresh/m",
            "salt/deltaproxy/start",
        ):  # fmt: skip
            self.assertTrue(of_salt(tag), tag)
        for tag in ("deploy/x", "salt/custom/x", "salt/netapi/hook/x", "salt/minion", "x/minion/m"):
            self.assertFalse(of_salt(tag), tag)
