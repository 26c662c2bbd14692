"""
The state compiler's rules on data: order, cycles, cost.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.highstate import extend, verify
from saltwisted.domain.highstate.chunks import compile_chunks
from saltwisted.domain.highstate.graph import Graph, order_chunks
from saltwisted.domain.highstate.sls import Assembly, Rendered
from saltwisted.domain.highstate.verdicts import Required, status_of, succeeded, unified
from saltwisted.domain.highstate.words import copied


class Files:
    """SLS in memory."""

    def __init__(self, files: dict[str, Any]) -> None:
        self.files = files
        self.environments = {"base"}
        self.asked: list[str] = []

    def names(self, saltenv: Any) -> list[str]:
        return sorted(self.files)

    def has(self, saltenv: Any, sls: str) -> bool:
        return sls in self.files

    def render(self, sls: str, saltenv: Any, rendered: set[str], local: bool) -> Rendered:
        self.asked.append(sls)
        return Rendered(copied(self.files[sls]), f"salt://{sls}.sls")


def compile_all(files: dict[str, Any], *wanted: str) -> tuple[list[str], list[str]]:
    """Ids in the order of execution, and errors."""
    assembly = Assembly(Files(files))
    errors = assembly.assemble({"base": list(wanted)})
    high = assembly.high
    errors += extend.reconcile_extend(high)
    errors += verify.mistakes(high)
    if errors:
        return [], errors
    errors += extend.apply_requisites_in(high)
    extend.apply_exclude(high)
    graph = Graph()
    chunks = compile_chunks(high)
    for chunk in chunks:
        graph.add(chunk, False)
    ordered, more = order_chunks(graph, chunks)
    return [chunk["__id__"] for chunk in ordered], errors + more


def nop(*args: Any) -> dict[str, Any]:
    """A state C{test.nop} with arguments."""
    return {"test.nop": list(args)}


class OrderTests(SynchronousTestCase):
    """What runs before what."""

    def test_file_order(self) -> None:
        """Without requisites the order is that of the files, includes first where they stand."""
        files = {"a": {"include": ["b"], "z": nop(), "y": nop()}, "b": {"x": nop()}}

        self.assertEqual(compile_all(files, "a"), (["x", "z", "y"], []))

    def test_requirement_pulls_forward(self) -> None:
        """What an early state requires runs just before it, and not where it stands."""
        files = {
            "a": {
                "one": nop({"require": [{"test": "last"}]}),
                "two": nop(),
                "last": nop(),
            }
        }

        self.assertEqual(compile_all(files, "a")[0], ["last", "one", "two"])

    def test_prerequired_runs_twice(self) -> None:
        """A prerequired state is tried before the one that asked, and run after it."""
        files = {"a": {"deploy": nop(), "stop": nop({"prereq": [{"test": "deploy"}]})}}

        self.assertEqual(compile_all(files, "a")[0], ["deploy", "stop", "deploy"])

    def test_cycle_of_many(self) -> None:
        """A circle of ten thousand states is told as one error, without deep recursion."""
        count = 10000
        files = {
            "a": {
                f"s{n}": nop({"require": [{"test": f"s{(n + 1) % count}"}]}) for n in range(count)
            }
        }

        ordered, errors = compile_all(files, "a")

        self.assertEqual(ordered, [])
        self.assertEqual(len(errors), 1)
        self.assertTrue(errors[0].startswith("Recursive requisites were found: ({'SLS': 'a'"))

    def test_circular_include(self) -> None:
        """Files that include one another are rendered once each."""
        source = Files({"a": {"include": ["b"], "x": nop()}, "b": {"include": ["a"], "y": nop()}})
        assembly = Assembly(source)

        errors = assembly.assemble({"base": ["a", "b"]})

        self.assertEqual((errors, source.asked), ([], ["a", "b"]))


class CostTests(SynchronousTestCase):
    """Work grows with the data, and no faster."""

    def test_edges_are_read_once(self) -> None:
        """A glob that many states require is matched once."""
        graph = Graph()
        chunks = compile_chunks(
            {
                **{
                    f"s{n}": {"test": ["nop"], "__sls__": "a", "__env__": "base"}
                    for n in range(100)
                },
                **{
                    f"w{n}": {
                        "test": ["nop", {"require": [{"test": "s*"}]}],
                        "__sls__": "a",
                        "__env__": "base",
                    }
                    for n in range(100)
                },
            }
        )
        for chunk in chunks:
            graph.add(chunk, False)

        ordered, errors = order_chunks(graph, chunks)

        self.assertEqual((len(ordered), errors), (200, []))
        self.assertEqual(len(graph._patterns), 1)
        self.assertEqual(len(list(graph.requirements(chunks[-1]))), 100)

    def test_names_by_index(self) -> None:
        """A reference by name finds the id also after an extension renamed it."""
        high = {
            "a": {"test": [{"name": "old"}, "nop"], "__sls__": "x", "__env__": "base"},
            "__extend__": [
                {"old": {"test": [{"name": "new"}]}},
                {"new": {"test": [{"comment": "found"}]}},
                {"old": {"test": [{"comment": "not found"}]}},
            ],
        }

        errors = extend.reconcile_extend(high)

        self.assertEqual(high["a"]["test"], [{"name": "new"}, "nop", {"comment": "found"}])
        self.assertEqual(len(errors), 1)
        self.assertTrue(errors[0].startswith("Cannot extend ID 'old'"))


class ResultTests(SynchronousTestCase):
    """Results of state functions and of runs."""

    def test_malformed_answers(self) -> None:
        """What is not a result becomes a failed one that says why."""
        for answer in ("text", None, {"name": "x"}, {"changes": {}, "name": "x", "result": True}):
            self.assertIs(unified(answer)["result"], False)
            self.assertIn("An exception occurred in this state", unified(answer)["comment"])

    def test_empty_run_is_no_success(self) -> None:
        """A run without results, or with a list of errors, has not succeeded."""
        self.assertFalse(succeeded({}))
        self.assertFalse(succeeded(["error"]))
        self.assertTrue(succeeded({"a_|-b_|-c_|-d": {"result": None}}))

    def test_bad_shapes(self) -> None:
        """High data of wrong shape is told with its id and SLS."""
        found = verify.mistakes({"a": {"test": ["nop", {}], "__sls__": "s"}})

        self.assertEqual(found, ["An argument of state 'a' in SLS 's' is an empty map"])


class OnchangesTests(SynchronousTestCase):
    """A failure is no change."""

    running: dict[str, Any] = {
        "failed": {"result": False, "changes": {"old": 1}},
        "still": {"result": True, "changes": {}},
        "changed": {"result": True, "changes": {"new": 1}},
    }

    def _status(self, **kinds: list[str]) -> str:
        required: Required = {
            kind: [(tag, {"__id__": tag}) for tag in tags] for kind, tags in kinds.items()
        }
        return status_of(required, self.running, {})

    def test_failedAlone(self) -> None:
        """A call that waits for the change of a failed state alone does not run, nor fail."""
        for kind in ("onchanges", "onchanges_any"):
            self.assertEqual(self._status(**{kind: ["failed"]}), "onchanges")
            self.assertEqual(self._status(**{kind: ["failed", "still"]}), "onchanges")
        self.assertEqual(self._status(onchanges=["failed"], require=["changed"]), "onchanges")

    def test_otherChange(self) -> None:
        """The change of another target lets it run."""
        self.assertEqual(self._status(onchanges=["failed", "changed"]), "met")
        self.assertEqual(self._status(onchanges_any=["failed", "changed"]), "met")

    def test_requiredFailure(self) -> None:
        """What also requires the failed state fails."""
        self.assertEqual(self._status(onchanges=["changed"], require=["failed"]), "fail")
