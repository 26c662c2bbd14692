"""
What a handler returns if its answer is not simply sealed with the minion's session key.

L{saltwisted.master.requests} sends each kind in its own way; any other value is packed and sealed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen


@frozen
class Private:
    """A handler's packed value for Salt's private form: sealed under the minion's RSA key."""

    packed: bytes = field(repr=False)


@frozen
class Packed:
    """A value that is packed already, since many ask for it."""

    packed: bytes = field(repr=False)


@frozen
class Elsewhere:
    """
    Another master makes the private reply, sealed for the minion; this master passes it on
    unchanged.

    @ivar fetch: C{fetch(nonce, enc_algo, sig_algo)}: its bytes, later.
    @ivar failed: the answer, as L{Private}, if nobody can be asked.
    """

    fetch: Callable[[str, str, str], Any]
    failed: bytes


@frozen
class Chunk:
    """
    A large piece of a file, which is sealed in a thread, with the small entries beside it.

    @ivar sealed: called when it is sealed, or when that has failed: it is no longer in memory.
    """

    data: bytes = field(repr=False)
    rest: dict[str, Any]
    sealed: Callable[[], None]
