"""
Those who wait for the disk are told a few at a time.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.stores.jobs import delivery as delivery_module
from saltwisted.stores.jobs.delivery import Delivery
from saltwisted.stores.jobs.writes import Write


class DeliveryTests(SynchronousTestCase):
    """L{Delivery}."""

    def test_in_turns(self) -> None:
        """
        What follows a write may be the signature of a job: a turn that has used its time leaves the
        others for the next, in their order.
        """
        clock, told = Clock(), list[int]()
        replica: Any = SimpleNamespace(streams=None)
        delivery = Delivery(clock, replica, portion=-1.0)
        batches = [[Write(size=1) for _ in range(20)] for _ in range(2)]
        for number, write in enumerate(batches[0] + batches[1]):
            write.done.addCallback(lambda _, number=number: told.append(number))

        turns = []
        for batch in batches:
            delivery.written(batch)
        while clock.calls:
            before, call = len(told), clock.calls.pop(0)
            call.called = 1
            call.func()
            turns.append(len(told) - before)

        self.assertEqual(told, list(range(40)))
        self.assertEqual(turns, [1] * 40)

    def test_many_batches(self) -> None:
        """
        Of the batches that come in one turn, one for each of many requests, those are told that
        have time in it; the others come in the next ones, each with its own portion.
        """
        clock, told, used = Clock(), list[int](), [0.0]
        self.patch(delivery_module, "thread_time", lambda: used[0])
        delivery = Delivery(clock, SimpleNamespace(streams=None), portion=0.001)  # type: ignore[arg-type]

        def tell(number: int) -> None:
            used[0] += 0.0003
            told.append(number)

        for number in range(60):
            write = Write(size=1)
            write.done.addCallback(lambda _, number=number: tell(number))
            delivery.written([write])
        self.assertEqual(told, list(range(4)))
        counts = []
        while clock.calls:
            before, call = len(told), clock.calls.pop(0)
            call.called = 1
            call.func()
            counts.append(len(told) - before)

        self.assertEqual(told, list(range(60)))
        self.assertEqual(set(counts), {4})
