"""
Tests of states: what functions answer is compared with what a file C{*.tst} expects.

As Salt's C{salt/modules/saltcheck.py}, with two differences. A test's function is called on this
minion as it is, with its pillar, while Salt's has the pillar of a minion without a master. Of
several states all are tested, as Salt 3006 does; 3008 stops after the first.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

from saltwisted.modules._data import split_input
from saltwisted.modules._saltcheck_asserts import APPLY, as_junit, is_sound, judged
from saltwisted.modules._saltcheck_files import TestFiles
from saltwisted.worker.called import called
from saltwisted.worker.shares import shared

log = logging.getLogger(__name__)

__salt__: Any
__opts__: dict[str, Any]
__context__: dict[str, Any]


_COUNTED = {"Pass": "Passed", "Fail": "Failed", "Skip": "Skipped"}


def _env(saltenv: str | None) -> str:
    return saltenv or __opts__.get("saltenv") or "base"


def _is_valid(test: Mapping[str, Any]) -> bool:
    """A test has a function that is there, and assertions that say what they need."""
    function = test.get("module_and_function")
    if function == APPLY:
        return True
    valid = True
    for given in test.get("assertions") or (test,):
        valid = is_sound(given)
    if not function:
        log.error("Saltcheck: missing module_and_function")
        return False
    if function not in called(__salt__):
        log.error("Saltcheck: %s is not a valid function", function)
        return False
    return valid


def _answer(function: str, args: Any, kwargs: Any) -> Any:
    """Call a function; how it ends is no part of how this job ends."""
    before = __context__.get("retcode")
    try:
        return called(__salt__)[function](*(args or ()), **(kwargs or {}))
    finally:
        if before is None:
            __context__.pop("retcode", None)
        else:
            __context__["retcode"] = before


def _tested(test: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out one test: C{status}, C{duration} in seconds, and the details that it wants."""
    begun = time.monotonic()
    details = test.get("output_details", __salt__["config.get"]("saltcheck_output_details", False))
    found: dict[str, Any] = {}
    if not _is_valid(test):
        found["status"] = "Fail - invalid test"
    elif test.get("skip"):
        return {"status": "Skip", "duration": 0.0}
    else:
        function, args = test["module_and_function"], test.get("args")
        kwargs = {key: each for key, each in (test.get("kwargs") or {}).items() if key != "pillar"}
        if pillar := test.get("pillar_data", test.get("pillar-data")):
            kwargs["pillar"] = pillar
        came = _answer(function, args, kwargs)

        def judge(given: Mapping[str, Any]) -> dict[str, Any]:
            shown = test.get("print_result", True)
            return judged(function, args, given, came, details, shown)

        if test.get("assertions"):
            several = [judge(given) for given in test["assertions"]]
            found = {f"assertion{number}": each for number, each in enumerate(several, 1)}
            passed = all(each["status"] == "Pass" for each in several)
            found["status"] = "Pass" if passed else "Fail"
        else:
            found = judge(test)
    found["duration"] = round(time.monotonic() - begun, 4)
    return found


def run_test(**kwargs: Any) -> Any:
    """
    Carry out one test.

    test
        The keys that a test has in a file.

    CLI Example::

        salt '*' saltcheck.run_test test='{"module_and_function": "test.echo",
            "assertion": "assertEqual", "expected_return": "This works!",
            "args": ["This works!"]}'
    """
    test = kwargs.get("test")
    if test and isinstance(test, dict):
        return _tested(test)
    return "Test argument must be a dictionary"


def state_apply(state_name: str, **kwargs: Any) -> Any:
    """
    Apply states, as a test does to prepare or tidy up.

    state_name
        As for C{state.apply}, which takes the other arguments.

    CLI Example::

        salt '*' saltcheck.state_apply postfix
    """
    return __salt__["state.apply"](state_name, **kwargs)


def report_highstate_tests(saltenv: str | None = None) -> dict[str, Any]:
    """
    Which states of the top file have tests. The exit code is the number of those without.

    saltenv
        The environment.

    CLI Example::

        salt '*' saltcheck.report_highstate_tests
    """
    env = _env(saltenv)
    tests = TestFiles(__salt__, env)
    missing = []
    for sls in _top_states(env):
        tests.add(sls)
        if sls not in tests.found_states:
            missing.append(sls)
    __context__["retcode"] = len(missing)
    return {
        "TEST REPORT RESULTS": {
            "Missing Tests": len(missing),
            "States missing tests": missing,
            "States with tests": tests.found_states,
        }
    }


def _top_states(saltenv: str) -> list[str]:
    return __salt__["state.show_top"](saltenv=saltenv)[saltenv]  # type: ignore[no-any-return]


def run_state_tests(
    state: Any,
    saltenv: str | None = None,
    check_all: bool = False,
    only_fails: bool = False,
    junit: bool = False,
) -> Any:
    """
    Carry out the tests of states and of what these include. The exit code is 1 if one has failed.

    state
        Names of SLS, or of files with tests, with commas between them.
    saltenv
        The environment.
    check_all
        All tests that lie beside these states.
    only_fails
        Answer with the tests that fail, and the sums.
    junit
        Answer with text in the XML of JUnit.

    With C{saltcheck_parallel: True} in the minion's configuration the tests are shared out to as
    many processes as there are cores, or to C{saltcheck_processes}; not if one of them applies
    states.

    CLI Example::

        salt '*' saltcheck.run_state_tests postfix,common
    """
    files = TestFiles(__salt__, _env(saltenv))
    results: dict[str, dict[str, Any]] = {}
    for name in split_input(state):
        files.add(name, check_all)
        tests = files.take()
        processes = _processes(tests)
        results[name] = results.get(name) or dict(
            zip(tests, shared(_tested, list(tests.values()), processes), strict=True)
        )
    failed = [one for tests in results.values() for one in tests.values() if _has_failed(one)]
    __context__["retcode"] = 1 if failed else 0
    return as_junit(results) if junit else _summed(results, only_fails)


run_state_tests_ssh = run_state_tests


def run_highstate_tests(
    saltenv: str | None = None, only_fails: bool = False, junit: bool = False
) -> Any:
    """
    Carry out the tests of all states of the top file.

    saltenv
        The environment.
    only_fails
        Answer with the tests that fail, and the sums.
    junit
        Answer with text in the XML of JUnit.

    CLI Example::

        salt '*' saltcheck.run_highstate_tests
    """
    env = _env(saltenv)
    return run_state_tests(",".join(_top_states(env)), env, only_fails=only_fails, junit=junit)


def _processes(tests: Mapping[str, Any]) -> int:
    """How many processes carry out these tests; 1: this one alone."""
    if not __salt__["config.get"]("saltcheck_parallel"):
        return 1
    if any("state" in str(test.get("module_and_function")) for test in tests.values()):
        # One test may rely on the state that another one applies
        log.warning("Tests apply states. They are run one after the other.")
        return 1
    limit = int(__salt__["config.get"]("saltcheck_processes") or os.cpu_count() or 1)
    return max(1, min(limit, len(tests)))


def _summed(results: Mapping[str, Mapping[str, Any]], only_fails: bool) -> list[dict[str, Any]]:
    """The answer of a run: the results by state, and the sums."""
    counts = {"Passed": 0, "Failed": 0, "Skipped": 0, "Missing Tests": 0}
    seconds = 0.0
    told: list[dict[str, Any]] = []
    for state, tests in results.items():
        counts["Missing Tests"] += not tests
        for result in tests.values():
            counts[_COUNTED[result["status"][:4]]] += 1
            seconds += result["duration"]
        if only_fails:
            failed = {key: one for key, one in tests.items() if _has_failed(one)}
            told.append({state: failed} if failed else {})
        else:
            told.append({state: dict(tests)})
    told.sort(key=sorted)
    told.append({"TEST RESULTS": {"Execution Time": round(seconds, 4), **counts}})
    return told


def _has_failed(result: Mapping[str, Any]) -> bool:
    return str(result["status"]).startswith("Fail")
