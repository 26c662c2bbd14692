"""
The process of one orchestration: an SLS of the master's file roots is compiled, and its calls are
made one after the other, as on a minion whose id is that of the master.

What is to be done comes as a map with C{do}:

 - C{sls}, C{single}, C{high}, C{show_sls}: the function of C{state} with C{arg} and C{kwarg};
 - C{resume}: C{chunks} that were compiled before, and C{done}, results by number as text.

C{jid} is that of the run, C{path} the master's control socket, C{folder} a place for copies where
the master is asked for files (L{saltwisted.worker.servedfiles}). To the master go by the control
socket that the process was born with C{run_begin}, C{step_begin}, C{step_end} (see
L{saltwisted.interfaces.IOrchestrations}) and, at last, C{answer}: C{{"value"}} and
whether it was C{{"killed"}} early, or C{{"error"}} with the words of a function that refused.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import msgpack

from saltwisted.domain.highstate.words import Chunk, tag_of
from saltwisted.worker.control import ControlClient
from saltwisted.worker.exceptions import SaltException
from saltwisted.worker.fileclient import file_client
from saltwisted.worker.orchestration.acts import Acts, Publishing
from saltwisted.worker.process import modulefiles
from saltwisted.worker.process.daemonlog import DaemonLog, log_to
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.process.main import NoMaster, settle_process
from saltwisted.worker.servedfiles import ServedFiles
from saltwisted.worker.states.highstate import (
    HighState,
    changed_options,
    declare_alone,
    master_options,
)
from saltwisted.worker.states.steps import ACTS, STEPS

log = logging.getLogger(__name__)

USED = (
    "saltwisted.worker.grains.collect",
    "saltwisted.worker.pillar.work",
    "saltwisted.worker.states.queue",
)
"""What a run imports by itself: its grains, its pillar, and whether another run is in its way."""
MODULES = ("config", "grains", "pillar", "saltutil", "state")
"""The execution modules that every run calls."""


class Told:
    """
    Reports the steps of the outermost run in this process to the master.

    @param acts: gets the jid under which a step publishes.
    @param secret: whether the run is the step of another that is secret: so are all of its own.
    """

    def __init__(self, client: ControlClient, acts: Acts, secret: bool = False) -> None:
        self._client = client
        self._acts = acts
        self._secret = secret
        self._begun = False

    def compiled(self, chunks: Sequence[Chunk], pillar: Any) -> bool:
        """As L{saltwisted.worker.states.steps.Steps} says: the first run is the outermost."""
        if self._begun:
            return False
        self._begun = True
        for chunk in chunks if self._secret else ():
            chunk["no_log"] = True
        self._client.call("run_begin", chunks=list(chunks), pillar=digest(pillar))
        return True

    def begin(self, number: int, low: Chunk) -> dict[str, Any] | None:
        """As L{saltwisted.worker.states.steps.Steps} says."""
        granted = self._client.call("step_begin", number=number, low=low)
        jid = str(granted.get("jid") or "")
        secret = bool(low.get("no_log"))
        self._acts.publish_as(Publishing(jid, number, granted.get("parts"), secret))
        result: dict[str, Any] | None = granted.get("result")
        return result

    def end(self, number: int, result: Mapping[str, Any]) -> None:
        """As L{saltwisted.worker.states.steps.Steps} says."""
        self._client.call("step_end", number=number, result=dict(result))


def digest(pillar: Any) -> str:
    """What tells one pillar from another."""
    packed = msgpack.packb(_sorted(pillar), use_bin_type=True, default=str)
    return hashlib.sha256(packed).hexdigest()


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = sorted(value.items(), key=lambda item: str(item[0]))
        return [[str(key), _sorted(each)] for key, each in items]
    return [_sorted(each) for each in value] if isinstance(value, (list, tuple)) else value


def surroundings(
    facts: Mapping[str, Any], payload: Mapping[str, Any], client: ControlClient, acts: Acts
) -> Loaders:
    """What modules find around them, as stock's C{MasterMinion} has it."""
    opts = dict(facts["opts"])
    opts.update(file_client="local", __role="master", user=payload["user"], pillar={})
    master = NoMaster("an orchestration reads the files of its master itself")
    folder = payload.get("folder")
    served = ServedFiles(client) if folder else None
    # Another run may read other commits at the same time
    read = {**opts, "cachedir": folder} if folder else opts
    return Loaders(
        opts,
        grains=lambda: make_grains(opts),
        pillar={},
        master=master,
        fileclient=lambda: file_client(read, master, served=served),
        extra={ACTS: acts, STEPS: Told(client, acts, bool(payload.get("secret")))},
    )


def resumed(loaders: Loaders, payload: Mapping[str, Any]) -> Any:
    """The results of a run that was compiled before, the old ones and the new."""
    options = payload["kwarg"]
    changes = {
        "saltenv": str(options.get("saltenv") or "base"),
        "pillarenv": options.get("pillarenv"),
        "test": bool(options.get("test")),
    }
    chunks = payload["chunks"]
    # What listens to others is no chunk: its result is known when it is about to begin again
    known = {int(number): one for number, one in payload["done"].items()}
    done = {tag_of(chunk): known[number] for number, chunk in enumerate(chunks) if number in known}
    with changed_options(loaders, changes), master_options(loaders):
        compiler = HighState(
            loaders,
            pillar_override=options.get("pillar"),
            pillar_enc=options.get("pillar_enc"),
            jid=str(options.get("__pub_jid") or payload["jid"]),
        )
        ordered, errors = compiler.run.order(chunks)
        return errors or compiler.run.call_ordered(ordered, done)


def padded(high: Any) -> list[str]:
    """
    Have C{salt.state: [...]} mean in high data what it means in an SLS; what is wrong with it.

    Stock's own example is written so, and stock does nothing with it.
    """
    errors: list[str] = []
    for id_, body in list(high.items()) if isinstance(high, dict) else ():
        declare_alone(high, id_, body, "<high>", errors)
    return errors


def value(loaders: Loaders, payload: Mapping[str, Any]) -> Any:
    """What was asked for."""
    if payload["do"] == "resume":
        return resumed(loaders, payload)
    if payload["do"] == "high":
        wrong = padded(payload["arg"][0])
        if wrong:
            return wrong
    function = loaders.modules[f"state.{payload['do']}"]
    return function(*payload["arg"], **payload["kwarg"])


def prepare() -> None:
    """Have in memory, once for all runs, what each of them needs."""
    for name in USED:
        import_module(name)
    modulefiles.preload(MODULES)
    modulefiles.preload(("saltmod",), "states")


def run(payload: Mapping[str, Any], client: ControlClient, facts: Mapping[str, Any]) -> None:
    """The entry of the process."""
    settle_process("salt-orch")
    log_to(DaemonLog(client), facts["opts"])
    acts = Acts(payload["path"], payload["jid"])
    loaders = surroundings(facts, payload, client, acts)
    try:
        found = value(loaders, payload)
        answer: dict[str, Any] = {"value": found, "killed": acts.was_killed}
    except SaltException as error:
        answer = {"error": str(error)}
    client.call("answer", **answer)
