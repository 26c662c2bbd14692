"""
The endpoints of rest_cherrypy that ask the master: logins, jobs, minions, keys.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve

from saltwisted.config.api import ApiOptions
from saltwisted.domain.api import bodies
from saltwisted.domain.api.lowstate import CLIENTS
from saltwisted.domain.api.paging import page_of
from saltwisted.domain.api.problems import NO_RIGHT, Problem
from saltwisted.domain.eauth import Token
from saltwisted.domain.operations.table import Caller
from saltwisted.errors import RemoteError
from saltwisted.web.chunks import DOOR, Chunks, Done, Operations, Unfinished
from saltwisted.web.cookies import SESSION, cookie
from saltwisted.web.exchange import Answer, Endpoint, Exchange
from saltwisted.web.site import Sessions, admits_somebody, admitting

LOGIN_FIELDS = ("username", "password", "eauth", "token_expire")
"""What a login has. Others are dropped here: SaltGUI sends C{sharedsecret} too."""
BAD_LOGIN = "Could not authenticate using provided credentials"


async def _nothing(item: Any) -> None:
    """Logins give no items."""


class Endpoints:
    """Those of one master."""

    def __init__(
        self,
        options: ApiOptions,
        operations: Operations,
        chunks: Chunks,
        sessions: Sessions,
        now: Callable[[], float],
        secure: bool,
    ) -> None:
        self._options = options
        self._operations = operations
        self._chunks = chunks
        self._sessions = sessions
        self._now = now
        self._secure = secure

    def table(self) -> dict[str, Endpoint]:
        """By the first word of the path."""
        found = {
            "": Endpoint(
                methods={"GET": self.welcome, "POST": self.low},
                guarded_methods=("POST",),
                fields=(),
            ),
            "token": Endpoint(methods={"GET": self.welcome, "POST": self.token}, fields=()),
            "run": Endpoint(methods={"GET": self.welcome, "POST": self.run}, fields=()),
            "keys": Endpoint(
                methods={"GET": self.keys, "POST": self.new_key}, depth=1, fields=("mid",)
            ),
        }
        if self._options.enable_sessions:
            found["login"] = Endpoint(methods={"GET": self.please, "POST": self.login}, fields=())
            found["logout"] = Endpoint(methods={"POST": self.logout}, guarded=True, reads=False)
            found["minions"] = Endpoint(
                methods={"GET": self.minions, "POST": self.minions_post},
                guarded=True,
                depth=1,
                fields=("mid",),
            )
            found["jobs"] = Endpoint(
                methods={"GET": self.jobs},
                guarded=True,
                depth=1,
                fields=("jid", "timeout", "limit", "after"),
            )
        return found

    # -- low state

    async def welcome(self, exchange: Exchange) -> Answer:
        """C{GET /}."""
        return Answer(value={"return": "Welcome", "clients": list(CLIENTS)})

    async def low(self, exchange: Exchange) -> Answer:
        """C{POST /}."""
        chunks = bodies.low_state(exchange.body.value)
        return await self._shown(chunks, exchange, exchange.who.word)

    async def run(self, exchange: Exchange) -> Answer:
        """C{POST /run}: each chunk says who sends it."""
        self._check_address(exchange)
        chunks = bodies.low_state(exchange.body.value)
        return await self._shown(with_bearer(chunks, exchange), exchange)

    async def _shown(
        self, chunks: Sequence[Mapping[str, Any]], exchange: Exchange, word: str = ""
    ) -> Answer:
        """The results of chunks: of all, or of those before one that the master could not do."""
        try:
            return whole(await self._chunks.all(chunks, exchange.address, word))
        except Unfinished as unfinished:
            return partial(whole(unfinished.done), unfinished.problem, exchange)

    async def minions(self, exchange: Exchange) -> Answer:
        """C{GET /minions}, C{GET /minions/ID}, C{GET /minions?mid=ID}."""
        target = named(exchange, "mid") or "*"
        chunk = {"client": "local", "tgt": target, "fun": "grains.items"}
        return whole(await self._chunks.all([chunk], exchange.address, exchange.who.word))

    async def minions_post(self, exchange: Exchange) -> Answer:
        """C{POST /minions}: publish, and do not wait."""
        only_whole(exchange)
        chunks = bodies.low_state(exchange.body.value)
        word = exchange.who.word
        try:
            done = await self._chunks.all(chunks, exchange.address, word, client="local_async")
        except Unfinished as unfinished:
            return partial(published(unfinished.done), unfinished.problem, exchange)
        return published(done)

    async def jobs(self, exchange: Exchange) -> Answer:
        """C{GET /jobs}, C{GET /jobs/JID}, C{GET /jobs?jid=JID}."""
        jid = named(exchange, "jid")
        if not jid:
            return await self._listed(exchange)
        chunk = {"client": "runner", "fun": "jobs.list_job", "jid": jid}
        chunk["timeout"] = exchange.query.get("timeout", "")
        (done,) = await self._chunks.all([chunk], exchange.address, exchange.who.word)
        (found,) = done.values
        result = found.get("Result") if isinstance(found, Mapping) else None
        if not isinstance(result, Mapping):
            raise Problem(404, f"There is no job {jid[:100]!r}")
        returns = {
            minion: each.get("return") for minion, each in result.items() if "return" in each
        }
        return Answer(value={"info": [found], "return": [returns]})

    async def _listed(self, exchange: Exchange) -> Answer:
        """All jobs, or a page of them with what to ask for the next one."""
        chunk: dict[str, Any] = {"client": "runner", "fun": "jobs.list_jobs"}
        chunk["timeout"] = exchange.query.get("timeout", "")
        page = page_of(exchange.query)
        if page is not None:
            chunk["kwarg"] = page.asked
        (done,) = await self._chunks.all([chunk], exchange.address, exchange.who.word)
        (found,) = done.values
        if page is None or not isinstance(found, Mapping):
            return Answer(value={"return": [found]})
        shown, after = page.shown(found)
        value: dict[str, Any] = {"return": [shown]}
        if after:
            value["after"] = after
        return Answer(value=value)

    # -- keys

    async def keys(self, exchange: Exchange) -> Answer:
        """C{GET /keys}, C{GET /keys/ID}, C{GET /keys?mid=ID}."""
        chunk: dict[str, Any] = {"client": "wheel", "fun": "key.list_all"}
        if minion := named(exchange, "mid"):
            chunk = {"client": "wheel", "fun": "key.finger", "kwarg": {"match": minion}}
        word = exchange.session.word if exchange.session else ""
        (done,) = await self._chunks.all([chunk], exchange.address, word)
        return Answer(value={"return": done.values[0]["data"].get("return", {})})

    async def new_key(self, exchange: Exchange) -> Answer:
        """C{POST /keys}: a new pair whose public half is accepted, as a tar file."""
        only_whole(exchange)
        self._check_address(exchange)
        chunks = bodies.low_state(exchange.body.value)
        chunk = dict(with_bearer(chunks, exchange)[0]) if chunks else {}
        if "mid" in chunk:
            chunk["id_"] = chunk.pop("mid")
        minion = chunk.get("id_")
        if not isinstance(minion, str) or not minion:
            raise Problem(400, "A new key needs 'mid', the id of its minion")
        chunk.update({"client": "wheel", "fun": "key.gen_accept"})
        (done,) = await self._chunks.all([chunk], exchange.address)
        data = done.values[0]["data"]
        pair = data.get("return")
        if not data.get("success") or not isinstance(pair, Mapping) or "pub" not in pair:
            raise Problem(400, f"No key was made: {str(pair)[:200]}")
        told = exchange.answer_headers
        told["Content-Disposition"] = f'attachment; filename="saltkeys-{minion}.tar"'
        told["Cache-Control"] = "no-cache"
        return Answer(content=tar_of(pair), content_type="application/x-tar")

    # -- logins

    async def please(self, exchange: Exchange) -> Answer:
        """C{GET /login}."""
        exchange.answer_headers["WWW-Authenticate"] = "Session"
        return Answer(value={"status": None, "return": "Please log in"})

    async def login(self, exchange: Exchange) -> Answer:
        """C{POST /login}: a session, which is a token that all nodes know."""
        given = self._credentials(exchange)
        admits = admitting(self._options.api_acl, exchange.address)
        caller = Caller(source=exchange.address, door=DOOR, admits=admits)
        try:
            made = await self._operations.call("mk_token", given, caller, _nothing)
        except RemoteError as error:
            if error.name == "StoreError":
                raise
            if error.details:
                # Right or wrong: nobody has looked at it
                raise Problem(503, "Too many logins wait", {"Retry-After": "2"}) from None
            raise Problem(401, BAD_LOGIN) from None
        token = await self._sessions.known(made["token"])
        if token is None:
            raise Problem(503, "The login could not be kept", {"Retry-After": "5"})
        expire = ends(self._options, token)
        exchange.answer_headers["X-Auth-Token"] = made["token"]
        exchange.cookies.append(self._cookie(made["token"], expire))
        shown = {
            "token": made["token"],
            "expire": expire,
            "start": token.start,
            "user": token.name,
            "eauth": token.eauth,
            "perms": list(self._sessions.permissions(token)) or {},
        }
        return Answer(value={"return": [shown]})

    def _credentials(self, exchange: Exchange) -> dict[str, Any]:
        """
        What a login gives.

        @raises Problem: C{400} it is none; C{401} C{api_acl} lets nobody come from there.
        """
        self._check_address(exchange)
        chunks = bodies.low_state(exchange.body.value) if exchange.body.value else []
        if not chunks:
            raise Problem(400, 'Require "username", "password", and "eauth" params')
        return {name: chunks[0][name] for name in LOGIN_FIELDS if name in chunks[0]}

    def _cookie(self, word: str, expire: float) -> str:
        return cookie(SESSION, word, expire, self._now(), self._secure)

    async def logout(self, exchange: Exchange) -> Answer:
        """C{POST /logout}: the session ends on all nodes."""
        await self._sessions.delete_token(exchange.who.word)
        exchange.cookies.append(self._cookie("", 0))
        return Answer(value={"return": "Your token has been cleared"})

    async def token(self, exchange: Exchange) -> Answer:
        """C{POST /token}: a token for C{/run}, by the runner C{auth.mk_token}; a bare list."""
        self._check_address(exchange)
        chunks = bodies.low_state(exchange.body.value)
        made = []
        for chunk in chunks:
            try:
                kwarg = {name: chunk[name] for name in ("username", "password", "eauth")}
            except KeyError:
                raise Problem(400, 'Require "username", "password", and "eauth" params') from None
            if "token_expire" in chunk:
                kwarg["token_expire"] = chunk["token_expire"]
            made.append({**kwarg, "client": "runner", "fun": "auth.mk_token", "kwarg": kwarg})
        done = await self._chunks.all(made, exchange.address)
        return Answer(value=[value for each in done for value in each.values])

    def _check_address(self, exchange: Exchange) -> None:
        """
        Who says in a body who he is may come from where C{api_acl} says. Who he is decides the
        proof itself (L{Caller}).

        @raises Problem: C{401}, nobody may come from there.
        """
        if not admits_somebody(self._options.api_acl, exchange.address):
            raise Problem(401, NO_RIGHT)


def named(exchange: Exchange, field: str) -> str:
    """
    What a C{GET} is about, in the path or behind the question mark; C{""}: all.

    @raises Problem: C{404}, it is in both places.
    """
    asked = exchange.query.get(field, "")
    if exchange.parts and asked:
        raise Problem(404, f"Either the path names one, or {field!r} does")
    return exchange.parts[0] if exchange.parts else asked


def only_whole(exchange: Exchange) -> None:
    """@raises Problem: C{404}, a C{POST} for one of them, which there is not."""
    if exchange.parts:
        raise Problem(404, "Nothing matches the given URI")


def with_bearer(
    chunks: Sequence[Mapping[str, Any]], exchange: Exchange
) -> Sequence[Mapping[str, Any]]:
    """Chunks with their senders; if a chunk names none, a provider's token in the header does."""
    session = exchange.session
    if session is None or not session.by_bearer:
        return chunks
    return [
        chunk if "token" in chunk or "eauth" in chunk else {**chunk, "token": session.word}
        for chunk in chunks
    ]


def ends(options: ApiOptions, token: Token) -> float:
    """When the session of a token ends."""
    minutes = options.session_timeout
    return min(token.expire, token.start + minutes * 60) if minutes else token.expire


def whole(done: Sequence[Done]) -> Answer:
    """The results of chunks; minions that did not answer are listed separately, for each chunk."""
    value: dict[str, Any] = {"return": [value for each in done for value in each.values]}
    if any(each.silent for each in done):
        value["missing"] = [each.silent for each in done]
    return Answer(value=value)


def published(done: Sequence[Done]) -> Answer:
    """Jobs that are on their way, with where their results will be."""
    jobs = [value for each in done for value in each.values]
    links = [{"href": f"/jobs/{job['jid']}"} for job in jobs if job]
    return Answer(value={"return": jobs, "_links": {"jobs": links}}, status=202)


def partial(answer: Answer, problem: Problem, exchange: Exchange) -> Answer:
    """An answer with the results that there are, and why there are no more."""
    exchange.answer_headers.update(problem.headers)
    value = {"status": problem.status, "error": problem.message, **answer.value}
    return evolve(answer, value=value, status=problem.status, error=problem.message)


def tar_of(pair: Mapping[str, Any]) -> bytes:
    """A pair of keys as Salt packs it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in (("minion.pub", pair.get("pub")), ("minion.pem", pair.get("priv"))):
            content = str(text or "").encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
