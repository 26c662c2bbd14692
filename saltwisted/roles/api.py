"""
Connects the HTTP API to its master, if the configuration asks for one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

from twisted.logger import Logger

from saltwisted.config.api import BLOCKS, ApiOptions, options_of
from saltwisted.config.options import MasterConfig
from saltwisted.domain.api.signatures import OPTION, Rule, git_rule_of, signatures_of
from saltwisted.domain.operations.table import Operations
from saltwisted.errors import ConfigError
from saltwisted.master.context import Context
from saltwisted.master.githooks import GitHook
from saltwisted.master.provider import Provider
from saltwisted.roles.stores import WEB_ENTRY, Stores
from saltwisted.stores.files import make_dir, write_atomic
from saltwisted.transports.listening import no_address
from saltwisted.web.browserlogin import BrowserLogin
from saltwisted.web.certificate import Certificate
from saltwisted.web.chunks import Chunks
from saltwisted.web.endpoints import Endpoints
from saltwisted.web.events import Hub
from saltwisted.web.exchange import Endpoint
from saltwisted.web.listening import Listening
from saltwisted.web.logfiles import Journal, check_log_file
from saltwisted.web.sending import Readers
from saltwisted.web.service import Api
from saltwisted.web.site import Site, admitting
from saltwisted.web.sockets import MISSING, Begin, Sockets
from saltwisted.web.static import StaticFiles
from saltwisted.web.tls import check_certificate
from saltwisted.web.turns import Turns

log = Logger()
PATIENCE = 30.0
"""Seconds that a document may take in a worker."""


def api_of(stores: Stores, ctx: Context, operations: Operations) -> Api | None:
    """
    The API, or C{None} if there is none.

    @raises ConfigError: its certificate cannot be used.
    """
    config, reactor = stores.config, stores.reactor
    options = options_of({name: config.value(name) for name in BLOCKS})
    if options is None:
        return None
    certificate = None if options.disable_ssl else _certificate(stores, ctx, options)
    secure = certificate is not None
    turns = Turns(reactor)
    sample = random.SystemRandom().sample
    chunks = Chunks(reactor, operations, config, sample, turns, partial(admitting, options.api_acl))
    endpoints = Endpoints(options, operations, chunks, ctx.logins, stores.now, secure)
    files = StaticFiles(options, Readers(reactor, stores.files_threads.run))
    hub = Hub(reactor, ctx.bus, stores.counters)
    journal = Journal(options, stores.now, reactor.seconds)
    listening = _listening(
        stores, ctx, options, hub, lambda: journal.traffic.figures(stores.now(), site.answering)
    )
    sockets = Sockets(
        reactor, ctx.logins, hub, listening.looking, _loading(stores), stores.counters
    )
    provider = Provider(ctx.logins, config, stores.now, os.urandom)
    browsers = BrowserLogin(options, provider, ctx.logins, stores.now, secure)
    table: dict[str, Endpoint] = {}
    for part in (endpoints, browsers, files, listening, sockets):
        table.update(part.table())
    page = files.app if options.app else None
    site = Site(
        reactor,
        options,
        ctx.logins,
        stores.counters,
        table,
        stores.now,
        lambda payload: stores.warm.call(WEB_ENTRY, payload, PATIENCE),
        turns,
        page,
        provider,
        journal.wrong,
    )
    beside = [*journal.parts, hub]
    return Api(
        reactor,
        options,
        site,
        stores.counters,
        certificate,
        beside,
        journal.written,
        journal.engine,
    )


def check(config: MasterConfig) -> None:
    """
    Whether the API can start as it is configured, if there is one. Nothing is written.

    @raises ConfigError: a certificate, a log file, a rule of signatures or its host does not work.
    """
    options = options_of({name: config.value(name) for name in BLOCKS})
    if options is None:
        return
    why = no_address(options.host)
    if why:
        raise ConfigError(f"{options.block}: host: {why}")
    if not options.disable_ssl:
        check_certificate(options)
    for option in ("log_access_file", "log_error_file"):
        if getattr(options, option):
            check_log_file(f"{options.block}: {option}", getattr(options, option))
    _rules(config, options)


def _rules(config: MasterConfig, options: ApiOptions) -> list[Rule]:
    """Who may call a hook without a login: by a signature, or as a git server."""
    signed = signatures_of(config.value(options.block).get(OPTION))
    return [*signed, *git_rule_of(config.value("gitfs_webhook_secret"))]


def _certificate(stores: Stores, ctx: Context, options: ApiOptions) -> Certificate:
    """What is shown in TLS."""
    return Certificate(
        stores.reactor,
        options,
        stores.config.pki_dir,
        stores.config.id,
        ctx.seams.vouching,
        stores.now,
        _new,
        stores.files_threads.run,
    )


def _loading(stores: Stores) -> Callable[[], Awaitable[Begin]] | None:
    """What loads the library of web sockets, when the first of them comes."""
    if find_spec("autobahn") is None:
        log.warn("the HTTP API has no web sockets (/ws): {missing}", missing=MISSING)
        return None

    async def load() -> Begin:
        # It takes up to a tenth of a second: in a thread nobody waits for it
        begin: Begin = await stores.files_threads.run(_begin)
        return begin

    return load


def _begin() -> Begin:
    from saltwisted.web.talking import begin

    return begin


def _listening(
    stores: Stores,
    ctx: Context,
    options: ApiOptions,
    hub: Hub,
    traffic: Callable[[], Mapping[str, Any]],
) -> Listening:
    """Events in and out."""

    async def resolve(target: str) -> Collection[str]:
        return (await ctx.find(target, "compound")).minions

    return Listening(
        options,
        _rules(stores.config, options),
        ctx.logins,
        hub,
        ctx.bus,
        resolve,
        stores.now,
        stores.counters,
        traffic,
        GitHook(stores.reactor, stores.config, ctx.git).pushed,
    )


def _new(path: str, content: bytes, mode: int) -> None:
    """A file."""
    make_dir(path.rpartition("/")[0])
    write_atomic(path, content, mode)
