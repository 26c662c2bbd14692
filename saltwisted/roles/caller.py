"""
The private minion of a C{salt-call} if no minion runs: it signs in and sends requests, no more.

L{saltwisted.cli.callmaster} starts it as a process of its own, with the arguments
C{--config DIR --fd N [--id ID] [--master HOST] [--timeout S]}. It serves the minion's
operations that speak to the master (C{request}, C{pillar_request}, C{fire_event}, C{return})
on the connected socket with the descriptor C{N}, and ends when that closes. It does not
subscribe: no job can reach it, and a minion that is started meanwhile is not disturbed.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import TimeoutError
from twisted.logger import globalLogBeginner, globalLogPublisher
from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError

from saltwisted.config.options import MinionConfig
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import ConfigError, RemoteError, SaltwistedError, TransportClosed
from saltwisted.minion.control import Control
from saltwisted.minion.directory import srv_lookup
from saltwisted.minion.links import Links
from saltwisted.minion.outside import Outside, resolver
from saltwisted.roles.logs import observer
from saltwisted.roles.minion import dialer_of, identity_of, keys_of, led_by, sign_key_of
from saltwisted.roles.privileges import become, restrict_umask
from saltwisted.roles.uptime import run_by_uptime
from saltwisted.stores.files import make_dir
from saltwisted.stores.minion import MasterKeyFile, MastersFile, TokenFile
from saltwisted.transports.bus import EventBus
from saltwisted.transports.ipc import ControlServer
from saltwisted.transports.lookups import LookUps
from saltwisted.transports.threads import Threads
from saltwisted.transports.zeromq.fairness import ZeroMQ
from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.process.loader import Loaders, make_grains

POLL = 0.05
"""Seconds between two looks for the command's end."""


class Options(UsageOptions):
    """The command line."""

    optParameters = [
        ["config", None, None, "the directory with the file minion"],
        ["fd", None, None, "the descriptor of a connected stream socket", int],
        ["id", None, None, "the minion id, instead of the configured"],
        ["master", None, None, "the master, instead of the configured"],
        ["timeout", None, 60.0, "seconds that a request waits for the sign-in", float],
    ]

    def postOptions(self) -> None:
        """The descriptor is required."""
        if self["fd"] is None:
            raise UsageError("--fd is needed")


class Caller:
    """
    The parts, put together.

    @param patience: seconds that a request waits for a master to be there at all.
    @param grains: this machine's, for the pillar that comes with each sign-in.
    @param ending: called when the command has what it wants, and the connection ends.
    """

    def __init__(
        self,
        reactor: Any,
        config: MinionConfig,
        patience: float,
        grains: Mapping[str, Any],
        ending: Callable[[], None] = lambda: None,
    ) -> None:
        self.reactor = reactor
        self.patience = patience
        self._ending = ending
        self.threads = Threads(reactor, 2, "caller")
        self.zeromq = ZeroMQ(reactor)
        outside = Outside(
            reactor=reactor,
            dialer=dialer_of(reactor, self.zeromq, config),
            resolve=resolver(LookUps(reactor).run, bool(config.ipv6)),
            run=self.threads.run,
            keys=MasterKeyFile(os.path.join(config.pki_dir, "minion_master.pub")),
            identity=identity_of(config),
            entropy=os.urandom,
            sign_key=sign_key_of(config),
            keys_of=keys_of(config),
            services=srv_lookup(reactor),
            kept=MastersFile(os.path.join(config.cachedir, "saltwisted", "masters")),
            join=TokenFile(os.path.join(config.pki_dir, "join.token")),
        )
        facts = MinionFacts(
            id=config.id, grains=dict(grains), pillar={}, nodegroups=config.nodegroups
        )
        self.links = Links(config, outside, None, lambda: facts)
        self.control = Control(
            reactor,
            self.links,
            EventBus(time.time),
            config.id,
            patience,
            lambda args: None,
            self.send_return,
            list,
            lambda jid, number: False,
            _nothing_here,
            _no_schedule,
            self.status,
            _no_join,
        )
        self.server = ControlServer(reactor, self.control.handle)

    def start(self, sock: socket.socket, ended: Callable[[], None]) -> None:
        """Connect to the master, and serve the command behind C{sock} until it hangs up."""
        self.threads.startService()
        self.links.startService()
        self.server.adopt(sock)
        self._watch(ended)

    def _watch(self, ended: Callable[[], None]) -> None:
        """Look whether the command has hung up; it does so at its end, and once."""
        if self.server.connections == 0:
            ended()
        else:
            self.reactor.callLater(POLL, self._watch, ended)

    def stop(self) -> None:
        """Disconnect from the master."""
        self._ending()
        self.links.stopService()
        self.zeromq.shutdown()
        self.threads.stopService()

    async def send_return(self, load: Mapping[str, Any]) -> None:
        """
        Bring a return to the master now: there is no later for us.

        @raises TransportClosed: no master is there, or comes in time.
        """
        if self.links.best is None:
            try:
                await self.links.when_up().addTimeout(self.patience, self.reactor)
            except TimeoutError:
                raise TransportClosed("no master is connected") from None
        await self.links.request(dict(load))

    def status(self) -> dict[str, Any]:
        """What C{status} answers."""
        return {"role": "caller", "pid": os.getpid(), "masters": self.links.status()}


def _asked(config: MinionConfig, grains: Mapping[str, Any]) -> Any:
    """
    What the function of C{master_type: func} says.

    @raises ConfigError: it is not there, or failed.
    """
    name = str(config.master)
    functions = Loaders(config.as_opts(), grains=grains, pillar={})["modules"]
    if name not in functions:
        raise ConfigError(f"master_type func: there is no {name!r}")
    try:
        return functions[name]()
    except Exception as error:
        raise ConfigError(f"master_type func: {name} failed: {error}") from error


async def _nothing_here(what: str, **_options: Any) -> Any:
    raise RemoteError("SaltInvocationError", f"refresh of {what}: no minion runs here")


def _no_schedule(func: str, **_data: Any) -> Mapping[str, Any]:
    raise RemoteError("SaltInvocationError", f"schedule {func}: no minion runs here")


def _no_join(line: str) -> None:
    raise RemoteError("SaltInvocationError", "join: no minion runs here")


def main(reactor: Any, argv: Sequence[str]) -> int:
    """Serve one C{salt-call}; the exit status is 1 when the configuration cannot work."""
    options = Options()
    try:
        options.parseOptions(list(argv))
    except UsageError as error:
        sys.stderr.write(f"saltwisted.roles.caller: {error}\n")
        return 64
    run_by_uptime(reactor)
    overrides = {name: options[name] for name in ("id", "master") if options[name]}
    with socket.socket(fileno=options["fd"]) as sock:
        try:
            loaded = load_from_disk("minion", options["config"], overrides=overrides)
            config = loaded.minion
            restrict_umask()
            become(config.user)
            observe = observer(config, "warning", os.environ)
            globalLogBeginner.beginLoggingTo([observe], redirectStandardIO=False)
            for path in (config.pki_dir, config.cachedir):
                make_dir(path)
            grains = dict(make_grains(config.as_opts()))
            if config.master_type == "func":
                config = led_by(config, _asked(config, grains))
            caller = Caller(
                reactor,
                config,
                options["timeout"],
                grains,
                # That the connection ends with the command is no news.
                lambda: globalLogPublisher.removeObserver(observe),
            )
        except SaltwistedError as error:
            sys.stderr.write(f"salt-call: {error}\n")
            return 1
        reactor.callWhenRunning(caller.start, sock, reactor.stop)
        reactor.addSystemEventTrigger("before", "shutdown", caller.stop)
        reactor.run()
    return 0
