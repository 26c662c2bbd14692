"""
C{python3 -m saltwisted.roles.scout ID}: asks the cluster of a token what it is and has.

The token is read from the standard input, the answer is written to the standard output as
msgpack; an error is one line on the standard error, and the exit code 1. Nothing is changed, here
or there: the takeover shows with it what a merge would do before anything is stopped.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from saltwisted.cluster.life.join import COMPARE, Joiner, Myself
from saltwisted.domain.replica.certificates import NodeKey, issue
from saltwisted.domain.replica.tokens import MASTER, parse
from saltwisted.errors import DeniedError, SaltwistedError, TransportClosed
from saltwisted.transports.tls import Badge
from saltwisted.wire.msgpack import pack_bin


async def ask(reactor: Any, line: str, node: str) -> dict[str, Any]:
    """
    The answer of the first member that responds.

    @raises SaltwistedError: nobody does, or the token is refused.
    """
    token = parse(line)
    if token.role != MASTER:
        raise DeniedError("this token is for a minion: a master needs one with --role master")
    key = NodeKey.generate()
    badge = Badge(key, issue(key, key.public, node, "unknown", time.time()))
    joiner = Joiner(reactor=reactor, badge=badge, entropy=os.urandom, token=token)
    problem = "the token names no peers"
    for address in token.peers:
        try:
            return await joiner.ask(address, {"do": COMPARE, "node": node})
        except (Myself, TransportClosed) as error:
            problem = f"{address}: {error}"
    raise TransportClosed(problem)


def main() -> None:
    """Ask, and write what was said."""

    async def run(reactor: Any) -> None:
        try:
            value = await ask(reactor, sys.stdin.readline().strip(), sys.argv[1])
        except SaltwistedError as error:
            sys.stderr.write(f"{error}\n")
            raise SystemExit(1) from None
        sys.stdout.buffer.write(pack_bin(value))
        sys.stdout.buffer.flush()

    react(lambda reactor: Deferred.fromCoroutine(run(reactor)))


if __name__ == "__main__":
    main()
