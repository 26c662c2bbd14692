"""
Errors of a request, as a status and a sentence for the client.

If Salt's rest_cherrypy has a sentence for it, it is used.
"""

from __future__ import annotations

import html
from collections.abc import Mapping

from saltwisted.errors import DeniedError, RemoteError, SaltwistedError, StoreError

PHRASES: Mapping[int, str] = {
    200: "OK",
    202: "Accepted",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    411: "Length Required",
    413: "Request Entity Too Large",
    417: "Expectation Failed",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
NO_RIGHT = "No permission -- see authorization schemes"
"""What a 401 says that has nothing better to say."""
_STATUS: Mapping[str, int] = {
    "AuthenticationError": 401,
    "AuthorizationError": 401,
    "EauthAuthenticationError": 401,
    "TokenAuthenticationError": 401,
    "SaltInvocationError": 400,
    "NoProvider": 404,
    "StoreError": 503,
    "ClusterError": 503,
    "SaltReqTimeoutError": 503,
    "SaltClientTimeout": 504,
    "WorkerBusy": 503,
    "WorkerDied": 503,
    "WorkerTimeout": 504,
}
_PAGE = """<!DOCTYPE html PUBLIC
"-//W3C//DTD XHTML 1.0 Transitional//EN"
"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html>
<head>
    <meta http-equiv="Content-Type" content="text/html; charset=utf-8"></meta>
    <title>{status}</title>
</head>
    <body>
        <h2>{status}</h2>
        <p>{message}</p>{trace}
    </body>
</html>
"""


class Problem(SaltwistedError):
    """
    The answer to a request that cannot be carried out.

    @ivar headers: the headers of the answer.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})


def status_line(status: int) -> str:
    """C{404 Not Found}."""
    return f"{status} {PHRASES.get(status, 'Unknown')}"


def page(status: int, message: str, trace: str = "") -> bytes:
    """
    The page that rest_cherrypy has for an error; nothing of the client's is markup in it.

    @param trace: where the error comes from, for C{debug}.
    """
    shown = f'\n        <pre id="traceback">{html.escape(trace)}</pre>' if trace else ""
    text = _PAGE.format(
        status=status_line(status), message=html.escape(message, quote=False), trace=shown
    )
    return text.encode("utf-8", "replace")


def problem_of(error: Problem | RemoteError | DeniedError | StoreError) -> Problem:
    """What was refused or failed, as an answer."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RemoteError):
        return of_remote(error)
    if isinstance(error, StoreError):
        return Problem(503, str(error), {"Retry-After": "5"})
    return Problem(401, str(error))


def of_remote(error: RemoteError) -> Problem:
    """What an operation of the master refused or failed, as an answer."""
    status = _STATUS.get(error.name, 500)
    headers = {"Retry-After": "5"} if status == 503 else {}
    return Problem(status, error.message, headers)
