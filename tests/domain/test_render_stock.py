"""
Renderers and pillar, judged by what stock Salt answered to the same inputs.

C{render_cases.json} was recorded from Salt 3008.2 by C{record_render.py}. Where an
answer of ours differs on purpose, the case stands in L{OTHERWISE} with the reason.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.domain.rendering import RECORDED, compile_case, plain, without_traces

TOP = "base:\n  '*': [a]\n"

OTHERWISE = {
    "'NoneType' object has no attribute 'splitlines'": "stock fails while it quotes bad YAML",
    "name '__context__' is not defined": "stock's ifelse global does not work",
}
"""Beginnings of stock's words for its own defects, which we do not share."""


def ours(case: dict[str, Any]) -> dict[str, Any]:
    """Our pillar in the recorder's form."""
    pillar: dict[str, Any] = plain(compile_case(case).pillar)
    if "_errors" in pillar:
        pillar["_errors"] = [without_traces(error) for error in pillar["_errors"]]
    return pillar


def excused(answer: Any) -> bool:
    """Whether stock's answer is one of its defects."""
    return isinstance(answer, dict) and (
        "raised" in answer
        or any(words in error for error in answer.get("_errors", ()) for words in OTHERWISE)
    )


class AsStockTests(SynchronousTestCase):
    """Every recorded input has the recorded answer."""

    maxDiff = None

    def test_expressions(self) -> None:
        """Filters, tests and globals print and fail as in stock."""
        self.assertGreater(len(RECORDED["expressions"]), 250)
        for expression, value, errors in RECORDED["expressions"]:
            sls = "v: |-\n    {{ " + expression + " }}\n"
            answer = ours({"roots": {"base": {"top.sls": TOP, "a.sls": sls}}})

            if not excused({"_errors": errors or []}):
                self.assertEqual((answer.get("v"), answer.get("_errors")), (value, errors), sls)

    def test_documents(self) -> None:
        """YAML is read, and refused, as in stock."""
        for text, recorded in RECORDED["documents"]:
            case = {"roots": {"base": {"top.sls": TOP, "a.sls": "#!yaml\n" + text}}}

            self.assertEqual(ours(case), recorded, text)

    def test_pillars(self) -> None:
        """Tops, includes, merges, environments, imports and errors are those of stock."""
        compared = 0
        for case, recorded in RECORDED["pillars"]:
            answer = ours(case)

            if not excused(recorded):
                compared += 1
                self.assertEqual(answer, recorded, case)
        self.assertGreater(compared, 140)

    def test_defects(self) -> None:
        """Where stock breaks down, an error in the pillar says what is wrong."""
        for case, recorded in RECORDED["pillars"]:
            if not excused(recorded):
                continue
            answer = ours(case)

            self.assertIsInstance(answer, dict, case)
