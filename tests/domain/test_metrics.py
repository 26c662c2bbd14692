"""
Figures, their names and their bounds; the block C{metrics}.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.metrics.families import (
    COUNTER,
    GAUGE,
    MOST,
    OTHER,
    Family,
    families_of,
    labelled,
    parts,
)
from saltwisted.domain.metrics.jobs import (
    MOST_PAIRS,
    MOST_SCHEDULED,
    PORTION,
    JobFigures,
    seconds_of_states,
    succeeded,
)
from saltwisted.domain.metrics.settings import MetricsSettings, settings_of
from saltwisted.errors import ConfigError


def told(figures: JobFigures) -> dict[str, dict[str, float]]:
    """Every family as C{name: {"label=value,...": number}}."""
    found: dict[str, dict[str, float]] = {}
    for family in figures.families():
        for labels, value in family.samples.items():
            key = ",".join(f"{name}={text}" for name, text in labels)
            found.setdefault(family.name, {})[key] = value
    return found


class SettingsTests(SynchronousTestCase):
    """The block."""

    def test_stock_default(self) -> None:
        """The default, which is Salt's, serves nothing; so does a block that is switched off."""
        self.assertIsNone(settings_of(MasterConfig().metrics))
        self.assertIsNone(settings_of({"enabled": False, "port": 1}))
        self.assertIsNone(settings_of({"enabled": True, "exporter": "otlp-http"}))
        self.assertIsNone(settings_of(None))

    def test_empty(self) -> None:
        """An empty block is enough, and is for this machine alone."""
        self.assertEqual(settings_of({}), MetricsSettings())
        self.assertEqual(MetricsSettings().host, "127.0.0.1")

    def test_words(self) -> None:
        """Our words, and Salt's for Prometheus; ours are stronger."""
        stock = {"enabled": True, "exporter": "prometheus", "prometheus": {"host": "h", "port": 1}}
        self.assertEqual(settings_of(stock), MetricsSettings(host="h", port=1))
        found = settings_of({**stock, "port": 2, "minions": True, "functions": "test.ping"})
        expected = MetricsSettings(host="h", port=2, minions=True, functions=("test.ping",))
        self.assertEqual(found, expected)

    def test_refused(self) -> None:
        """What cannot be is refused with a word for what to write, a misspelt word by name."""
        cases: list[tuple[Any, str]] = [
            (True, "map"),
            ({"prot": 1}, "prot"),
            ({"port": "9464"}, "port"),
            ({"port": 70000}, "port"),
            ({"port": True}, "port"),
            ({"host": ""}, "host"),
            ({"host": 1}, "host"),
            ({"minions": "yes"}, "minions"),
            ({"functions": {"a": 1}}, "functions"),
            ({"functions": [1]}, "functions"),
            ({"functions": [f"f{n}" for n in range(21)]}, "functions"),
            ({"prometheus": 9464}, "prometheus"),
        ]
        for block, word in cases:
            error = self.assertRaises(ConfigError, settings_of, block)
            self.assertIn(word, error.reason, block)


class FamilyTests(SynchronousTestCase):
    """Families."""

    def test_bounded(self) -> None:
        """A label has at most so many values; the rest are added up, and nothing is lost."""
        family = labelled("n", COUNTER, "x", "l", {f"v{n}": n for n in range(MOST * 3)})

        self.assertEqual(len(family.samples), MOST + 1)
        self.assertEqual(sum(family.samples.values()), sum(range(MOST * 3)))
        self.assertIn((("l", OTHER),), family.samples)

    def test_pieces(self) -> None:
        """Pieces have all samples, none too many, and one of each name is the first."""
        families = [
            labelled("a", GAUGE, "x", "l", {str(n): n for n in range(25)}),
            labelled("a", GAUGE, "x", "l", {str(n): n for n in range(25, 30)}),
            Family("b", GAUGE, "x", {}),
        ]
        pieces = list(parts(families, 10))

        self.assertEqual([len(piece.samples) for piece, _ in pieces], [10, 10, 5, 5, 0])
        self.assertEqual([first for _, first in pieces], [True, False, False, False, True])

    def test_counters(self) -> None:
        """Counters go to families by their beginnings, and each counts in one of them."""
        counters = {
            "_return": 5, "failed:_return": 1, "refused:no-session": 2, "signin:accept": 3,
            "login:accepted": 4, "denied:jid": 6, "kept": 7, "pillar:compiled": 8,
        }  # fmt: skip
        found = {f.name: dict(f.samples) for f in families_of({"counters": counters})}

        self.assertEqual(found["saltwisted_requests_total"], {(("command", "_return"),): 5})
        self.assertEqual(found["saltwisted_requests_failed_total"], {(("command", "_return"),): 1})
        self.assertEqual(found["saltwisted_sign_ins_total"], {(("result", "accept"),): 3})
        counted = sum(
            sum(samples.values())
            for name, samples in found.items()
            if name not in ("saltwisted_info", "saltwisted_serving")
        )
        self.assertEqual(counted, sum(counters.values()))

    def test_claims(self) -> None:
        """What is counted of claims has a family of its own, and is told once."""
        claims = {"would_claim": False, "held": 2, "figures": {"granted": 3, "lost": 1}}
        figures = {"counters": {"claims_granted": 3, "kept": 7}, "claims": claims}
        found = {f.name: dict(f.samples) for f in families_of(figures)}

        self.assertEqual(found["saltwisted_duties_held"], {(): 2})
        self.assertEqual(
            found["saltwisted_claims_total"], {(("what", "granted"),): 3, (("what", "lost"),): 1}
        )
        self.assertEqual(found["saltwisted_counted_total"], {(("name", "kept"),): 7})

    def test_nothing_known(self) -> None:
        """Of a node that has no master yet there is little to tell, and that is told."""
        found = {f.name: f.samples for f in families_of({"id": "a", "role": "cluster"})}

        self.assertEqual(set(found), {"saltwisted_info", "saltwisted_serving"})
        self.assertEqual(found["saltwisted_serving"], {(): 0.0})


class JobFigureTests(SynchronousTestCase):
    """What became of jobs, as salt-exporter names it."""

    def new(self, figures: JobFigures, fun: str, own: bool = True, **data: Any) -> None:
        """A job is published."""
        load = {"fun": fun, "minions": ["a", "b"], **data}
        figures.heard("salt/job/20261123100000000000/new", load, own, 1.0)

    def ret(
        self, figures: JobFigures, fun: str, minion: str = "a", own: bool = True, **data: Any
    ) -> None:
        """A return comes."""
        load = {"fun": fun, "id": minion, "retcode": 0, "success": True, **data}
        figures.heard(f"salt/job/20261123100000000000/ret/{minion}", load, own, 2.0)

    def test_a_job(self) -> None:
        """A job counts once, its minions are expected, and each return counts by its result."""
        figures = JobFigures(False, ())
        self.new(figures, "test.ping")
        self.ret(figures, "test.ping")
        self.ret(figures, "test.ping", "b", retcode=1)

        found = told(figures)
        self.assertEqual(found["salt_new_job_total"], {"function=test.ping,state=": 1})
        self.assertEqual(found["salt_expected_responses_total"], {"function=test.ping,state=": 2})
        self.assertEqual(
            found["salt_function_responses_total"],
            {
                "function=test.ping,state=,success=false": 1,
                "function=test.ping,state=,success=true": 1,
            },
        )
        self.assertEqual(found["salt_responses_total"], {"success=true": 1, "success=false": 1})
        self.assertNotIn("salt_function_status", found)

    def test_states(self) -> None:
        """A state's name is where salt-exporter finds it: by argument, keyword, or highstate."""
        cases: list[tuple[str, dict[str, Any], str]] = [
            ("state.highstate", {}, "highstate"),
            ("state.apply", {}, "highstate"),
            ("state.apply", {"arg": ["web"]}, "web"),
            ("state.sls", {"arg": [{"__kwarg__": True, "mods": "web"}]}, "web"),
            ("state.sls", {"fun_args": ["web", {"test": True}]}, "web"),
            ("state.single", {"arg": ["test.nop", "x"]}, "test.nop"),
            ("state.single", {"fun_args": [{"fun": "test.nop"}]}, "test.nop"),
            ("cmd.run", {"arg": ["echo secret"]}, ""),
            ("state.sls", {"arg": [7]}, ""),
            ("state.sls", {"arg": "web"}, ""),
        ]
        for fun, data, state in cases:
            figures = JobFigures(False, ())
            self.new(figures, fun, **data)
            key = f"function={fun},state={state}"
            self.assertEqual(told(figures)["salt_new_job_total"], {key: 1}, (fun, data))

    def test_each_node_its_own(self) -> None:
        """What arose at another node is counted there; its functions are known here."""
        figures = JobFigures(False, ())
        self.new(figures, "test.ping", own=False)
        self.ret(figures, "test.ping", own=False)
        self.assertNotIn("salt_new_job_total", told(figures))

        self.ret(figures, "test.ping")
        found = told(figures)["salt_function_responses_total"]
        self.assertEqual(found, {"function=test.ping,state=,success=true": 1})

    def test_minions_make_no_series_up(self) -> None:
        """
        However many functions minions and users invent, the number of series stays bounded, and
        minions take no room from what was published.
        """
        figures = JobFigures(False, ())
        for n in range(2 * MOST_PAIRS):
            self.ret(figures, f"made.up{n}")
            self.ret(figures, f"made.up{n}", schedule="x")
        self.new(figures, "test.ping")
        self.ret(figures, "test.ping")
        for n in range(2 * MOST_PAIRS):
            self.new(figures, f"users.own{n}")

        found = told(figures)
        came = found["salt_function_responses_total"]
        self.assertEqual(came["function=other,state=,success=true"], 2 * MOST_PAIRS)
        self.assertEqual(came["function=test.ping,state=,success=true"], 1)
        self.assertEqual(len(came), 2)
        self.assertEqual(len(found["salt_scheduled_job_return_total"]), MOST_SCHEDULED + 1)
        self.assertEqual(len(found["salt_new_job_total"]), MOST_PAIRS + 1)

    def test_by_minion(self) -> None:
        """Only where asked for: last results of listed functions, last word, last heartbeat."""
        figures = JobFigures(True, ["state.highstate"])
        self.new(figures, "state.highstate")
        self.new(figures, "test.ping")
        self.ret(figures, "state.highstate")
        self.ret(figures, "test.ping")
        self.ret(figures, "state.highstate", retcode=2)
        figures.heard("salt/beacon/a/status", {"id": "a"}, True, 9.0)

        found = told(figures)
        key = "function=state.highstate,minion=a,state=highstate"
        self.assertEqual(found["salt_function_status"], {key: 0})
        self.assertEqual(found["salt_health_last_heartbeat"], {"minion=a": 9.0})
        self.assertEqual(found["salt_responses_last_received_response"], {"minion=a": 2.0})
        responses = {"minion=a,success=true": 2, "minion=a,success=false": 1}
        self.assertEqual(found["salt_responses_total"], responses)

        figures.forget_others(["b"])
        self.assertNotIn("salt_function_status", told(figures))

    def test_a_minion_speaks_for_itself(self) -> None:
        """Whose return it is the tag says, not what is in it."""
        figures = JobFigures(True, ["test.ping"])
        self.ret(figures, "test.ping", "a", id="b")
        self.assertEqual(list(told(figures)["salt_responses_total"]), ["minion=a,success=true"])

    def test_many_minions(self) -> None:
        """No family has more minions than are put together at once."""
        figures = JobFigures(True, ["test.ping"])
        for n in range(3 * PORTION):
            self.ret(figures, "test.ping", f"m{n}")

        largest = max(len(family.samples) for family in figures.families())
        self.assertEqual(largest, PORTION)
        self.assertEqual(len(told(figures)["salt_function_status"]), 3 * PORTION)

    def test_strange_data(self) -> None:
        """Whatever a minion puts into a return or a tag, it counts or is left; nothing raises."""
        figures = JobFigures(True, ["test.ping"])
        strange: list[Any] = [
            None, 7, "x", [], [1], {}, {"a": 1}, {"a": {"result": "x"}}, float("nan"), 10**400,
            {"a": {"result": True, "duration": 10**400}}, {"a": {"duration": float("inf")}},
            {1: {"result": False}}, b"\xff",
        ]  # fmt: skip
        for value in strange:
            for name in ("fun", "return", "retcode", "success", "schedule", "arg", "fun_args"):
                load = {"fun": "test.ping", name: value}
                figures.heard("salt/job/1/ret/a", load, True, 1.0)
                figures.heard("salt/job/1/new", {**load, "minions": value}, True, 1.0)
        for tag in ("salt/", "salt/job", "salt//new/x", "salt/job/1/ret", "salt/beacon/a/status"):
            figures.heard(tag, {}, True, 1.0)
        figures.heard("salt/job/1/new", {"fun": "x\ny"}, True, 1.0)
        figures.heard("salt/job/1/new", {"fun": "x" * 5000}, True, 1.0)

        for family in figures.families():
            for labels, value in family.samples.items():
                float(value)
                for _, text in labels:
                    self.assertLessEqual(len(text), 120)
                    self.assertTrue(text.isprintable())

    def test_success(self) -> None:
        """A failed state makes a return a failure, whatever its code says."""
        self.assertTrue(succeeded({"retcode": 0}))
        self.assertFalse(succeeded({"retcode": 0, "success": False}))
        good, bad = {"result": True}, {"result": False}
        self.assertTrue(succeeded({"return": {"a": good, "b": good}}))
        self.assertFalse(succeeded({"return": {"a": good, "b": bad}}))
        self.assertTrue(succeeded({"return": {"a": "text", "b": bad}}))

    def test_durations(self) -> None:
        """Durations of states are milliseconds, their sum is told in seconds."""
        states = {"a": {"duration": 1500.0}, "b": {"duration": 500}}
        self.assertEqual(seconds_of_states(states), 2.0)
        self.assertIsNone(seconds_of_states({"a": 1}))
        self.assertIsNone(seconds_of_states({}))
