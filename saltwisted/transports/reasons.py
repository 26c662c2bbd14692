"""
Reasons of failures in plain words: the texts of Twisted and OpenSSL are for programmers.
"""

from __future__ import annotations

import os

from OpenSSL import SSL
from twisted.internet import defer, error
from twisted.python.failure import Failure

MOST = 200
"""Characters: what others say goes into our log."""
KNOWN: tuple[tuple[type[BaseException], str], ...] = (
    (error.ConnectionRefusedError, "connection refused"),
    (ConnectionRefusedError, "connection refused"),
    (error.NoRouteError, "no route to this host"),
    (error.DNSLookupError, "this name cannot be resolved"),
    (error.TimeoutError, "no answer in time"),
    (defer.TimeoutError, "no answer in time"),
    (TimeoutError, "no answer in time"),
    (error.ConnectionLost, "the connection was lost"),
    (error.ConnectionDone, "the connection was closed"),
    (defer.CancelledError, "the attempt was abandoned"),
)


def why(problem: Failure | BaseException) -> str:
    """One line: never a traceback, nor the name of a class unless nothing else is known."""
    value = problem.value if isinstance(problem, Failure) else problem
    if isinstance(value, defer.FirstError):
        return why(value.subFailure)
    nested = getattr(value, "reasons", None)
    if isinstance(nested, (list, tuple)) and nested and isinstance(nested[-1], Failure):
        return why(nested[-1])
    for kind, words in KNOWN:
        if isinstance(value, kind):
            return words
    if isinstance(value, SSL.Error):
        return f"TLS failed: {_tls(value)}"
    number = getattr(value, "osError", None)
    if isinstance(value, error.ConnectError) and isinstance(number, int):
        return os.strerror(number).lower()
    text = " ".join(str(value).split())[:MOST]
    if not text or "[Failure instance" in text:
        return type(value).__name__
    return text


def _tls(value: SSL.Error) -> str:
    """The last word of OpenSSL's stack of errors."""
    stack = value.args[0] if value.args else None
    if isinstance(stack, list) and stack and isinstance(stack[-1], tuple):
        return str(stack[-1][-1])[:MOST]
    return "the connection was closed" if isinstance(value, SSL.ZeroReturnError) else "no details"
