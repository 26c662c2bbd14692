"""
The exceptions of saltwisted: a small tree, with attributes instead of prose.

Only the outermost loops (a request, a publication, a peer command, a worker
call) turn these into replies. Nothing else is here.
"""

from __future__ import annotations

from typing import Any


class SaltwistedError(Exception):
    """The root of all errors that saltwisted raises by itself."""


class ConfigError(SaltwistedError):
    """
    A configuration file cannot be used.

    @ivar path: the file, or C{None} when the value came from the command line.
    @ivar line: the line (1-based), or C{None} when unknown.
    @ivar reason: what is wrong, and what to write instead.
    """

    def __init__(self, reason: str, path: str | None = None, line: int | None = None) -> None:
        where = "" if path is None else path if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason = reason
        self.path = path
        self.line = line


class WrongPlace(ConfigError):
    """What was asked for is not where somebody said; nothing was looked for elsewhere."""


class PortError(ConfigError):
    """Somebody else has a port or a socket of ours; that may pass."""


class WireError(SaltwistedError):
    """
    Bytes from the network are wrong: drop them and count them.

    @ivar reason: a short word for counters and logs, never sent to the peer.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AuthenticationError(WireError):
    """Bytes that were not made by who they claim: HMAC, signature, nonce or token."""


class DeniedError(SaltwistedError):
    """Authenticated, but not allowed."""


class NotKept(DeniedError):
    """There is no tree of this name here, or it is no longer kept; another node may have it."""


class TargetError(SaltwistedError):
    """
    A target expression cannot be understood.

    @ivar expression: as given.
    @ivar position: 0-based offset of the offending word, or C{None}.
    """

    def __init__(self, reason: str, expression: str, position: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.expression = expression
        self.position = position


class RenderError(SaltwistedError):
    """
    A template or data file cannot be rendered.

    @ivar sls: the name of what was rendered (an sls or a path).
    @ivar line: 1-based line in the source, or C{None}.
    @ivar context: the offending lines, marked, as Salt prints them; may be empty.
    """

    def __init__(
        self, reason: str, sls: str = "", line: int | None = None, context: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sls = sls
        self.line = line
        self.context = context


class StoreError(SaltwistedError):
    """
    The disk refused: full, read-only or broken. Nothing half-written is in service.

    @ivar path: what could not be written or read.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


class TooMuch(StoreError):
    """
    Somebody has put so much into a place that it is not listed; what others have is all the same.
    """


class TakenOver(SaltwistedError):
    """Another node does now what this one had begun: nothing more is to be done here."""


class TransportClosed(SaltwistedError):
    """The other side went away before it answered."""


class RequestTimeout(TransportClosed):
    """No answer in the time allowed; the connection may be well."""


class RemoteError(SaltwistedError):
    """
    The daemon refused or failed a call on its control socket.

    @ivar name: Salt's name of the error (C{AuthorizationError}, ...).
    @ivar details: plain data that belongs to the error.
    """

    def __init__(self, name: str, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.details = details


YAML_SLIPS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What PyYAML raises besides its own errors: for C{!!int x}, C{!!bool x}, C{!!timestamp x}, ..."""
