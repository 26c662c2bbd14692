"""
One request and its answer, as the endpoints see them: without sockets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from saltwisted.config.api import ApiOptions
from saltwisted.domain.api.bodies import Body
from saltwisted.domain.api.problems import Problem
from saltwisted.domain.eauth import Token


@frozen(kw_only=True)
class Session:
    """
    A logged-in user.

    @ivar word: the token, which is also the session's id.
    @ivar by_cookie: whether the browser sent it by itself.
    @ivar by_bearer: whether it stands for a provider's token in this very request.
    """

    word: str = field(repr=False)
    token: Token
    by_cookie: bool = False
    by_bearer: bool = False


@define(kw_only=True)
class Exchange:
    """
    A request, and the additional data of its answer.

    @ivar method: C{HEAD} is C{GET} here.
    @ivar parts: of the path, decoded, behind the endpoint's own name.
    @ivar query: name to its last value.
    @ivar headers: name in lower case to its value; the first of several.
    @ivar address: where it comes from.
    @ivar body: read when the client may send one.
    @ivar request: Twisted's, for an endpoint that streams.
    @ivar understand: parses a body, for an endpoint that does not have it parsed.
    @ivar answer_headers: the headers of any answer.
    @ivar cookies: whole values of C{Set-Cookie}.
    """

    method: str
    path: str
    parts: Sequence[str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    address: str
    options: ApiOptions
    request: Any
    understand: Callable[[bytes], Awaitable[Body]]
    session: Session | None = None
    body: Body = field(factory=Body)
    answer_headers: dict[str, str] = field(factory=dict)
    cookies: list[str] = field(factory=list)

    @property
    def who(self) -> Session:
        """
        The session of an endpoint that needs one.

        @raises Problem: C{401}.
        """
        if self.session is None:
            raise Problem(401, "No authentication credentials given")
        return self.session


@frozen(kw_only=True)
class Answer:
    """
    @ivar value: shown in the format that the client accepts.
    @ivar content: bytes instead, of C{content_type}.
    @ivar source: what gives them bit by bit.
    @ivar error: what the log says of an answer that has a status of 500 or more.
    """

    value: Any = field(default=None, repr=False)
    status: int = 200
    content: bytes | None = field(default=None, repr=False)
    source: Any = field(default=None, repr=False)
    content_type: str = ""
    error: str = ""


STREAMED = Answer()
"""What an endpoint gives that writes to its request itself, and ends it."""
Handler = Callable[[Exchange], Awaitable[Answer]]


@frozen(kw_only=True)
class Endpoint:
    """
    The handler of the first word of a path.

    @ivar methods: by name; C{HEAD} and C{OPTIONS} always exist.
    @ivar guarded: whether a session is needed, for all methods.
    @ivar guarded_methods: those that need a session if others do not; checked before a body is
        read.
    @ivar depth: how many more parts a path may have.
    @ivar reads: whether a body is parsed; otherwise it is left as it is.
    @ivar plain: whether the answer is not negotiated: bytes, or a stream.
    @ivar fields: the allowed query parameters of C{GET}; C{None}: anything.
    @ivar hooks: whether a stranger may send as much as a user: what he sends proves who he is.
    @ivar browsers: whether a browser gets this answer, and not the page of an app.
    """

    methods: Mapping[str, Handler]
    guarded: bool = False
    guarded_methods: Collection[str] = ()
    depth: int = 0
    reads: bool = True
    plain: bool = False
    fields: Collection[str] | None = None
    browsers: bool = False
    hooks: bool = False
