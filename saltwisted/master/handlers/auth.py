"""
C{_auth}: passed to the queue of sign-ins, which answers later.
"""

from __future__ import annotations

from collections.abc import Callable

from saltwisted.errors import WireError
from saltwisted.master.context import Context
from saltwisted.wire.commands import Auth, parse_command
from saltwisted.wire.envelope import ClearRequest


def sign_in(ctx: Context, request: ClearRequest, peer: str, reply: Callable[[bytes], None]) -> None:
    """
    Queue a sign-in.

    @raises WireError: malformed or too large, or the queue is full; then nobody replies.
    """
    cmd = parse_command(request.load, clear=True)
    if not isinstance(cmd, Auth):
        raise WireError("cmd")
    ctx.signins.submit(cmd, request.version, peer, reply, request.size)
