"""
What a test of C{saltcheck} asserts of what a function has answered.

Texts and outcomes are those of Salt's C{salt/modules/saltcheck.py}.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree

from attrs import frozen

from saltwisted.domain.render.tree import traverse

log = logging.getLogger(__name__)

APPLY = "saltcheck.state_apply"
"""The function that prepares something: its test passes if it has answered anything."""

Says = Callable[[Any, Any], str]


@frozen
class Assertion:
    """
    One kind of assertion.

    @ivar sign: how it is written in the details.
    @ivar holds: of what was expected and what came.
    @ivar complaint: why it does not hold.
    @ivar hidden: the same, where results are not to be shown; C{""}: they always are.
    @ivar expects: whether something has to be expected.
    @ivar casts: whether what is expected becomes the type of what came.
    """

    sign: str
    holds: Callable[[Any, Any], bool]
    complaint: Says
    hidden: str = ""
    expects: bool = True
    casts: bool = True


def _is_false(_: Any, came: Any) -> bool:
    return (bool(came) if isinstance(came, str) else came) is False


def _not_false(_: Any, came: Any) -> str:
    return f"{bool(came) if isinstance(came, str) else came} not False"


def _about(words: str) -> Says:
    return lambda _, came: f"{came} {words}"


ASSERTIONS: Mapping[str, Assertion] = {
    "assertEqual": Assertion(
        "==",
        lambda want, came: bool(want == came),
        lambda want, came: f"{want} is not equal to {came}",
        "Result is not equal",
    ),
    "assertNotEqual": Assertion(
        "!=",
        lambda want, came: bool(want != came),
        lambda want, came: f"{want} is equal to {came}",
        "Result is equal",
    ),
    "assertTrue": Assertion(
        "True is", lambda _, came: came is True, _about("not True"), expects=False, casts=False
    ),
    "assertFalse": Assertion("False is", _is_false, _not_false, expects=False, casts=False),
    "assertIn": Assertion(
        "IN",
        lambda want, came: want in came,
        lambda want, came: f"{want} not found in {came}",
        "Result not found",
        casts=False,
    ),
    "assertNotIn": Assertion(
        "NOT IN",
        lambda want, came: want not in came,
        lambda want, came: f"{want} was found in {came}",
        "Result was found",
        casts=False,
    ),
    # The texts of these four are Salt's, too
    "assertGreater": Assertion(">", lambda want, came: bool(want > came), _about("not False")),
    "assertGreaterEqual": Assertion(
        ">=", lambda want, came: bool(want >= came), _about("not False")
    ),
    "assertLess": Assertion("<", lambda want, came: bool(want < came), _about("not False")),
    "assertLessEqual": Assertion("<=", lambda want, came: bool(want <= came), _about("not False")),
    "assertEmpty": Assertion(
        "IS EMPTY", lambda _, came: not came, _about("is not empty"), expects=False, casts=False
    ),
    "assertNotEmpty": Assertion(
        "IS NOT EMPTY",
        lambda _, came: bool(came),
        lambda *_: "value is empty",
        expects=False,
        casts=False,
    ),
}


def expected(given: Mapping[str, Any]) -> Any:
    """What a test expects, also by the older name of the key."""
    return given.get("expected_return", given.get("expected-return"))


def is_sound(given: Mapping[str, Any]) -> bool:
    """The assertion is known, and has what it needs."""
    assertion = ASSERTIONS.get(given.get("assertion") or "")
    sound = assertion is not None
    if assertion is None:
        log.error("Saltcheck: %s is not in the assertions list", given.get("assertion"))
    if (assertion is None or assertion.expects) and expected(given) is None:
        log.error("Saltcheck: expected_return missing a value")
        sound = False
    return sound


def cast(want: Any, came: Any) -> Any:
    """
    What is expected, as the type of what came, where it can be one.

    @raises TypeError: there is no way from one to the other.
    """
    if came is None:
        return want
    if want == "False" and isinstance(came, bool):
        want = False
    try:
        return type(came)(want)
    except ValueError:
        log.info("expected_return %r cannot be made a %s", want, type(came).__name__)
        return want


def judged(
    function: str,
    args: Any,
    given: Mapping[str, Any],
    came: Any,
    details: bool,
    is_shown: bool,
) -> dict[str, Any]:
    """
    C{status} of one assertion, with what was asked and found if C{details} are wanted.

    @param args: those of the function.
    @param given: the keys of the assertion.
    @param came: what the function has answered.
    @param is_shown: whether values may be in the texts.
    """
    section = given.get("assertion_section")
    if section:
        came = traverse(came, section, False, given.get("assertion_section_delimiter", ":"))
    name = "assertNotEmpty" if function == APPLY else given["assertion"]
    want = expected(given)
    assertion = ASSERTIONS.get(name)
    if assertion is None:
        # One of several; only the last one's soundness counts
        return {"status": "Fail - bad assertion"}
    if assertion.casts:
        want = cast(want, came)
    if assertion.holds(want, came):
        said = {"status": "Pass"}
    else:
        hidden = "" if is_shown else assertion.hidden
        said = {"status": f"Fail: {hidden or assertion.complaint(want, came)}"}
    if not details:
        return said
    title, part = (" assertion_section", f" {section}") if section else ("", "")
    wanted = "" if want is None else f"{want} "
    found = came if is_shown else "hidden"
    return {
        **said,
        f"module.function [args]{title}": f"{function} {json.dumps(args)}{part}",
        "saltcheck assertion": f"{wanted}{assertion.sign} {found}",
    }


def as_junit(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The results by state and test as the XML that programs read of JUnit."""
    suite = ElementTree.Element("testsuite", name="test_results")
    counts = {"tests": 0, "failures": 0, "skipped": 0}
    seconds = 0.0
    for tests in results.values():
        if not tests:
            case = ElementTree.SubElement(suite, "testcase", name="missing_test")
            ElementTree.SubElement(case, "system-out").text = "Test(s) Missing"
            counts["tests"] += 1
        for name, result in sorted(tests.items()):
            took, status = result["duration"], result["status"]
            case = ElementTree.SubElement(suite, "testcase", name=name, time=f"{took}")
            seconds += took
            counts["tests"] += 1
            for word, key, tag in (("Fail", "failures", "failure"), ("Skip", "skipped", "skipped")):
                if status.startswith(word):
                    ElementTree.SubElement(case, tag, message=status, type=tag)
                    counts[key] += 1
    sums = {key: str(value) for key, value in counts.items()}
    suite.attrib.update(sums, time=f"{round(seconds, 4)}")
    whole = ElementTree.Element("testsuites", sums)
    whole.append(suite)
    return ElementTree.tostring(whole, encoding="unicode", xml_declaration=True)
