"""
What C{pillar} functions show to a person.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.masking import answering
from saltwisted.worker.process.loader import Loaders

STARS = "**********"
PILLAR = {
    "pin": 4711, "rate": 1.5, "switch": True, "off": False, "zero": 0, "text": "abc", "empty": "",
    "list": [1, [2]], "map": {"code": 99, "none": None},
}  # fmt: skip
SHOWN = {
    "pin": STARS, "rate": STARS, "switch": STARS, "off": False, "zero": 0, "text": STARS,
    "empty": "", "list": [STARS, [STARS]], "map": {"code": STARS, "none": None},
}  # fmt: skip
"""The same as 3008.5 shows it."""


class MaskedTests(SynchronousTestCase):
    """A minion with this pillar."""

    def asked(self, fun: str, *args: Any, **more: Any) -> Any:
        """What a person sees."""
        opts = more.pop("opts", {})
        loaders = Loaders({"id": "m1", "file_client": "remote", **opts}, grains={}, pillar=PILLAR,
                          master=self, stock=False)  # fmt: skip
        function = loaders.modules[fun]
        with answering(fun):
            return function(*args, **more)

    def pillar(self, load: Any) -> Any:
        """As the link to a master, which compiles it."""
        return dict(PILLAR)

    def test_T_LOG_1_scalars(self) -> None:
        """T-LOG-1: all but C{False}, zero, what is empty and C{None} is stars, as in 3008.5."""
        for fun in ("pillar.items", "pillar.data"):
            self.assertEqual(self.asked(fun), SHOWN, fun)
            self.assertEqual(self.asked(fun, unmask=True), PILLAR, fun)
        for key, value in SHOWN.items():
            self.assertEqual(self.asked("pillar.get", key), value, key)
            self.assertEqual(self.asked("pillar.item", key), {key: value}, key)
        self.assertEqual(self.asked("pillar.get", "missing", 5), STARS)
        self.assertEqual(self.asked("pillar.get", "pin", unmask=True), 4711)
        self.assertEqual(self.asked("pillar.raw"), PILLAR)
        self.assertEqual(self.asked("pillar.raw", unmask=False), SHOWN)
        self.assertEqual(self.asked("pillar.ext", {}), SHOWN)

    def test_mask_output(self) -> None:
        """With C{pillar_mask_output: false}, C{pillar.items} alone shows values, unless asked."""
        opts = {"pillar_mask_output": False}
        self.assertEqual(self.asked("pillar.items", opts=opts), PILLAR)
        self.assertEqual(self.asked("pillar.data", opts=opts), PILLAR)
        self.assertEqual(self.asked("pillar.items", opts=opts, unmask=False), SHOWN)
        self.assertEqual(self.asked("pillar.items", "pin", opts=opts), {"pin": STARS})
        self.assertEqual(self.asked("pillar.get", "pin", opts=opts), STARS)
        self.assertEqual(self.asked("pillar.item", "pin", opts=opts), {"pin": STARS})
