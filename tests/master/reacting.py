"""
A master that reacts, without sockets: what renders is in this process, and nobody sleeps.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError
from saltwisted.master.automation.pause import Pause
from saltwisted.master.automation.reactor import Reactor
from saltwisted.wire.msgpack import pack, unpack
from saltwisted.worker.automation import work
from tests.master.rig import Rig


class Workers:
    """
    Renders here; values go through the packer, as between processes.

    @ivar held: calls that are not answered before L{release}, if C{holding}.
    """

    def __init__(self, opts: dict[str, Any]) -> None:
        self.opts = opts
        self.rendering = work.Rendering(opts)
        self.calls: list[dict[str, Any]] = []
        self.holding = False
        self.held: list[tuple[Deferred[Any], str, Any]] = []
        self.deadly = ""

    def set_fact(self, name: str, value: Any) -> None:
        """Nothing is kept."""

    def recycle(self, entry: str) -> None:
        """As a new process."""
        self.rendering = work.Rendering(self.opts)

    def call(self, entry: str, payload: Any, timeout: float) -> Deferred[Any]:
        """Do it now, or at L{release}."""
        self.calls.append(payload)
        if self.holding:
            d: Deferred[Any] = Deferred()
            self.held.append((d, entry, payload))
            return d
        return self._answer(entry, payload)

    def _answer(self, entry: str, payload: Any) -> Deferred[Any]:
        payload = unpack(pack(payload))
        if self.deadly and any(one["tag"] == self.deadly for one in payload.get("events", ())):
            return fail(RemoteError("WorkerDied", "the worker was ended by SIGKILL"))
        try:
            if entry.endswith("serve_caller"):
                value = work.serve_caller(payload, None, {"opts": self.opts})
            elif payload["do"] == "map":
                value = work.read_map(payload["path"])
            elif payload["do"] == "look":
                value = self.rendering.look(payload["sls"])
            else:
                value = self.rendering.react(payload["events"])
        except OSError as error:
            return fail(RemoteError(type(error).__name__, str(error)))
        return succeed(unpack(pack(value)))

    def release(self) -> None:
        """Answer what was held."""
        held, self.held = self.held, []
        for d, entry, payload in held:
            self._answer(entry, payload).chainDeferred(d)


class Reacting:
    """
    A rig with a reactor that runs.

    @param sls: name to text; in C{reactor}, C{{name}} stands for the path.
    """

    def __init__(
        self, test: SynchronousTestCase, reactor: Any, sls: dict[str, str], **options: Any
    ) -> None:
        self.rig = rig = Rig(test, config_dir="/nowhere", **options)
        self.folder = os.path.join(rig.home, "reactor")
        os.makedirs(self.folder)
        for name, text in sls.items():
            self.write(name, text)
        rig.ctx.reactions.configure(self.placed(reactor))
        self.workers = Workers(rig.config.as_opts())
        self.pause = Pause(rig.ctx.seams.schedule, rig.clock.seconds)
        self.pause.startService()
        self.reactor = Reactor(rig.ctx, self.workers, self.pause)
        self.reactor.startService()
        test.addCleanup(self.reactor.stopService)

    def path(self, name: str) -> str:
        """Of an SLS."""
        return os.path.join(self.folder, name)

    def write(self, name: str, text: str) -> None:
        """An SLS as it is now; it was changed long ago."""
        with open(self.path(name), "w") as stream:
            stream.write(text)

    def placed(self, value: Any) -> Any:
        """With names of SLS as paths."""
        if isinstance(value, str):
            return self.path(value[1:]) if value.startswith("@") else value
        if isinstance(value, dict):
            return {key: self.placed(each) for key, each in value.items()}
        return [self.placed(each) for each in value] if isinstance(value, list) else value

    def fire(self, tag: str, data: dict[str, Any] | None = None, **how: Any) -> None:
        """An event, and all turns that it needs."""
        self.rig.bus.fire(tag, data or {}, **how)
        self.turn()

    def turn(self, seconds: float = 0.0) -> None:
        """Let time go on, and all that waits for a turn have its turn."""
        self.rig.clock.advance(seconds)
        for _ in range(20):
            self.rig.clock.advance(0)

    def said(self, word: str) -> list[dict[str, Any]]:
        """The data of the reactor's own events of one kind."""
        tag = f"saltwisted/reaction/{word}"
        return [data for each, data in self.rig.events if each == tag]

    def runs(self, fun: str = "") -> list[dict[str, Any]]:
        """What runners and wheel functions have returned."""
        return [
            data
            for tag, data in self.rig.events
            if tag.startswith(("salt/run/", "salt/wheel/"))
            and tag.endswith("/ret")
            and (not fun or data["fun"] == fun)
        ]
