"""
Values of many parts are let go a few parts at a time.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.wire import freeing
from saltwisted.wire.freeing import free


class FreeTests(SynchronousTestCase):
    """C{free}."""

    def test_T_COST_1_taken_apart(self) -> None:
        """Whatever nobody else holds is emptied, at any depth, before it goes."""
        taken: list[int] = []
        original = freeing._take_off

        def take_off(one: Any, ahead: list[Any]) -> None:
            before = len(one)
            original(one, ahead)
            taken.append(before - len(one))

        self.patch(freeing, "_take_off", take_off)
        whole = [{"events": [{"tag": "a", "data": {"n": [n]}} for n in range(3000)], "n": 1}]

        free(whole)

        self.assertEqual(whole, [])
        # The load and its two entries, the events, and of each a tag, data, a list, a number
        self.assertEqual(sum(taken), 1 + 2 + 3000 * (1 + 2 + 1 + 1))
        self.assertLessEqual(max(taken), freeing.RUN)

    def test_others(self) -> None:
        """What somebody else holds stays as it is, with all that is in it."""
        inner = {"a": [1, {"b": [2, 3]}]}
        deep = [[4, 5]]
        whole = [{"x": inner, "y": [deep, {"z": deep}]}, inner]

        free(whole)

        self.assertEqual(whole, [])
        self.assertEqual(inner, {"a": [1, {"b": [2, 3]}]})
        self.assertEqual(deep, [[4, 5]])
