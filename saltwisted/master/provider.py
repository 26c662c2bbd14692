"""
Logins through an OpenID Connect provider, without a password: browsers that come back from it with
a code, and scripts that send its token with each request.

L{saltwisted.domain.codeflow} decides what is remembered of a login; worker processes talk to the
provider (L{saltwisted.worker.process.oidc}).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.config.logins import browser_faults, for_browsers, settings
from saltwisted.domain.bearer import FRESH, kept_document
from saltwisted.domain.codeflow import (
    FlowError,
    begun,
    came_back,
    of_cookie,
    own_address,
    provider_address,
)
from saltwisted.domain.eauth import Credentials, Token
from saltwisted.errors import RemoteError
from saltwisted.interfaces import Entropy
from saltwisted.master.logins import LOOK_ENTRY, Logins, NotProven

OIDC = "oidc"
BROWSER = "(browser)"
"""Who logs in by a browser, until the provider says who it is."""


class Provider:
    """The provider of one master, if its C{external_auth} has one."""

    def __init__(self, logins: Logins, config: Any, now: Any, entropy: Entropy) -> None:
        """
        @param config: the master's options; read again each time, since a reload changes them.
        """
        self._logins = logins
        self._config = config
        self._now = now
        self._entropy = entropy

    # -- browsers

    async def begin(self, path: str, host: str) -> tuple[str, str]:
        """
        The URL at which a browser logs in, and the cookie that it keeps until it returns.

        @param path: the path on this server to which it wants to go afterwards.
        @param host: the host that it has requested.
        @raises RemoteError: browsers cannot log in, or not now.
        """
        told, document = await self._provider()
        flow = begun(path, self._entropy)
        address = provider_address(document, told, flow, own_address(told, host))
        return address, flow.cookie

    async def finish(
        self, query: Mapping[str, str], cookie: str, host: str, source: str
    ) -> tuple[dict[str, Any], str]:
        """
        A token for the user who has logged in, as from L{Logins.make_token}, and the path to go to.

        @param query: the query with which the browser came back.
        @raises RemoteError: the user has not logged in.
        @raises StoreError: it could not be stored.
        """
        told, document = await self._provider()
        back = own_address(told, host)
        try:
            names_itself = document.get("names_issuer") is True
            flow, code = came_back(query, of_cookie(cookie), str(told["issuer"]), names_itself)
        except FlowError as error:
            again = back.removesuffix("/callback")
            raise RemoteError("AuthenticationError", f"{error}. Begin again at {again}") from None
        brought = {"code": code, "verifier": flow.verifier, "nonce": flow.nonce, "back": back}
        asked = Credentials(eauth=OIDC, username=BROWSER, password="", code=brought)
        try:
            who, verdict = await self._logins.proven(asked, BROWSER, source)
            return await self._logins.made(who, verdict, None, source), flow.path
        except NotProven as error:
            raise _refused(error) from None

    async def _provider(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """
        The options of C{oidc}, and what the provider says of itself.

        @raises RemoteError: browsers cannot log in, or not now.
        """
        told = settings(OIDC, self._config) if OIDC in self._config.external_auth else None
        if told is None or browser_faults(told) or not for_browsers(told):
            raise RemoteError(
                "NoProvider",
                "Browser login is not configured: external_auth has no oidc with ^client_id and "
                "^redirect_uri",
            )
        found = kept_document(told, self._logins.kept(OIDC), self._now())
        if found is None:
            answer = await self._logins.ask(LOOK_ENTRY, OIDC, "", {"begin": True})
            if problem := str(answer.get("problem") or ""):
                self._logins.tell(f"problem {OIDC}", problem)
            if answer.get("ok") is True:
                found = self._logins.kept(OIDC).get("document")
        if not found:
            raise RemoteError("WorkerBusy", "The provider does not answer; the log says more")
        return told, found

    # -- scripts

    async def bearer(self, text: str, source: str) -> str:
        """
        What stands on this node for a provider's token that comes with each request: as a token
        of ours, for some minutes, and never longer than the provider's.

        @return: C{""} where tokens of a provider are not asked for.
        @raises RemoteError: it proves nobody, or nobody has looked at it.
        """
        if OIDC not in self._config.external_auth:
            return ""
        try:
            return await self._logins.bearers.word(text, source, self._judge)
        except NotProven as error:
            raise _refused(error) from None

    async def _judge(self, text: str, source: str) -> Token:
        name = self._logins.bearers.name_in(text, settings(OIDC, self._config))
        given = {"eauth": OIDC, "username": name, "password": text}
        return self._logins.token_of(*await self._logins.login(given, source), FRESH)


def _refused(error: NotProven) -> RemoteError:
    if error.unasked:
        return RemoteError("WorkerBusy", "Too many logins wait")
    return RemoteError("EauthAuthenticationError", "The provider does not say who it is")
