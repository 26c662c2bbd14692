"""
C{oidc}: a bearer token of an OpenID Connect provider instead of a password.

L{saltwisted.domain.bearer} decides whether a token is good. This module fetches the provider's keys
through its discovery document. It returns them to the master, which stores them and passes them in
with the next call. For browsers it exchanges a code for such a token. Blocks while it fetches.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from attrs import evolve

from saltwisted.config.logins import browser_faults, for_browsers, oidc_faults
from saltwisted.domain.bearer import (
    KEY_FIELDS,
    MOST_KEYS,
    STALE,
    Bearer,
    BearerError,
    Holder,
    judge,
    judge_identity,
    kept_document,
    keys_of,
    must_fetch,
    parse,
    source_of,
    terms_of,
)
from saltwisted.domain.eauth import Proof, credentials
from saltwisted.wire.text import HALVES, json_has_halves
from saltwisted.worker.process.web import LARGEST, ask, said

DISCOVERY = "/.well-known/openid-configuration"


class Oidc:
    """The backend; each call contains everything that it needs."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def prove(self, settings: Mapping[str, Any], username: str, password: str) -> Proof:
        """Whether the password is a token that proves this user, and its groups."""
        for fault in oidc_faults(settings):
            return Proof(problem=f"external_auth: oidc: {fault}")
        now = self._now()
        try:
            token = parse(password)
        except BearerError as error:
            return Proof(steps=(f"token: {error}",))
        kept, problem = self._kept(settings, _kid(token), now)
        keep = {} if kept is settings.get("kept") else kept
        keys = keys_of(kept.get("jwks")) if 0 <= now - _seconds(kept, "at") < STALE else ()
        steps = [problem] if problem else []
        steps.append(f"keys of the provider: {len(keys)}")
        if problem and not keys:
            return Proof(problem=f"external_auth: oidc: {problem}", steps=steps, keep=keep)
        try:
            found = judge(token, keys, terms_of(settings), now)
        except BearerError as error:
            return Proof(steps=(*steps, f"token: {error}"), keep=keep)
        steps.append(f"token: of {found.name}, groups: {', '.join(found.groups) or 'none'}")
        if found.name != username:
            return Proof(steps=steps, keep=keep)
        return Proof(ok=True, groups=found.groups, until=found.until, steps=steps, keep=keep)

    def look(self, settings: Mapping[str, Any], username: str) -> Proof:
        """Only a token says who its user is."""
        return Proof(problem="oidc cannot look a user up without a token")

    def begin(self, settings: Mapping[str, Any]) -> Proof:
        """Fetch what the provider says of itself, for browsers that are to be sent there."""
        faults = [*oidc_faults(settings), *browser_faults(settings)]
        if faults or not for_browsers(settings):
            return Proof(problem=f"external_auth: oidc: {(*faults, 'no ^client_id')[0]}")
        now = self._now()
        kept, problem = self._kept(settings, "", now)
        keep = {} if kept is settings.get("kept") else kept
        there = kept_document(settings, kept, now, STALE) is not None
        return Proof(
            problem=f"external_auth: oidc: {problem}" if problem else "", keep=keep, ok=there
        )

    def exchange(self, settings: Mapping[str, Any], code: Mapping[str, Any]) -> Proof:
        """
        Whom a browser's code proves: it is given to the provider for a token, once.

        @param code: C{code}, C{verifier}, C{nonce} and C{back}, where the browser came back to.
        """
        begun = self.begin(settings)
        kept = begun.keep or settings.get("kept") or {}
        now = self._now()
        document = kept_document(settings, kept, now, STALE)
        if document is None:
            return evolve(begun, ok=False)
        try:
            token = parse(_identity(settings, document, code))
            kept, _ = self._kept({**settings, "kept": kept}, _kid(token), now)
            found = self._judged(settings, kept, token, str(code["nonce"]), now)
        except BearerError as error:
            return Proof(steps=(f"token: {error}",), keep=kept)
        except (OSError, ValueError) as error:
            text = f"the provider gave no token for a code: {said(error)}"
            return Proof(problem=f"external_auth: oidc: {text}", keep=kept)
        return Proof(ok=True, name=found.name, groups=found.groups, keep=kept)

    def _judged(
        self,
        settings: Mapping[str, Any],
        kept: Mapping[str, Any],
        token: Bearer,
        nonce: str,
        now: float,
    ) -> Holder:
        """@raises BearerError: it proves nobody."""
        keys = keys_of(kept.get("jwks")) if 0 <= now - _seconds(kept, "at") < STALE else ()
        client = str(settings["client_id"])
        found = judge_identity(token, keys, terms_of(settings), client, nonce, now)
        if credentials({"eauth": "oidc", "username": found.name, "password": "x"}) is None:
            raise BearerError("its name cannot be the name of a user")
        return found

    def _kept(
        self, settings: Mapping[str, Any], name: str, now: float
    ) -> tuple[Mapping[str, Any], str]:
        """
        The provider's keys, fetched if need be, and why they could not be.

        @param name: of the key that is needed; C{""}: any.
        """
        kept = settings.get("kept") or {}
        source = source_of(settings)
        if kept.get("source") != source:
            kept = {}
        keys = keys_of(kept.get("jwks"))
        if not must_fetch(keys, _seconds(kept, "at"), _seconds(kept, "tried"), name, now):
            return kept, ""
        try:
            jwks, document = _fetched(settings)
        except (OSError, ValueError) as error:
            old = {**kept, "source": source, "tried": now}
            return old, f"the keys of {settings['issuer']} could not be fetched: {said(error)}"
        found = {"source": source, "jwks": jwks, "document": document, "at": now, "tried": now}
        return found, ""


def _fetched(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The provider's keys, and what it says of itself as far as that is needed."""
    issuer, ca_file = str(settings["issuer"]), str(settings["ca_file"] or "")
    address = str(settings["jwks_uri"] or "")
    document: dict[str, Any] = {}
    if not address or for_browsers(settings):
        found = _document(issuer.rstrip("/") + DISCOVERY, ca_file)
        if found.get("issuer") != issuer:
            raise ValueError(f"its document is that of {found.get('issuer')!r}")
        address = address or str(found.get("jwks_uri") or "")
        for fault in oidc_faults({**settings, "jwks_uri": address or "nothing"}):
            raise ValueError(fault)
        if for_browsers(settings):
            document = _for_browsers(settings, found)
    rows = _document(address, ca_file).get("keys")
    if not isinstance(rows, list) or not keys_of({"keys": rows}):
        raise ValueError(f"{address} has no key that saltwisted can use")
    # They come back with each call
    return {"keys": [_needed(row) for row in rows[:MOST_KEYS]]}, document


def _needed(row: Any) -> dict[str, Any]:
    """What of a provider's key L{keys_of} reads; others are not kept."""
    return {name: row[name] for name in KEY_FIELDS if name in row} if isinstance(row, dict) else {}


def _for_browsers(settings: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """What of a provider's document the logins of browsers need."""
    kept: dict[str, Any] = {}
    for name in ("authorization_endpoint", "token_endpoint"):
        address = str(found.get(name) or "")
        if oidc_faults({**settings, "jwks_uri": address or "nothing"}):
            raise ValueError(f"its {name} is not an https address: {address!r}")
        kept[name] = address
    methods = found.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise ValueError("it does not know PKCE with S256")
    kept["names_issuer"] = found.get("authorization_response_iss_parameter_supported") is True
    ways = found.get("token_endpoint_auth_methods_supported")
    ways = ways if isinstance(ways, list) else ["client_secret_basic"]
    kept["secret_posted"] = "client_secret_basic" not in ways and "client_secret_post" in ways
    return kept


def _identity(
    settings: Mapping[str, Any], document: Mapping[str, Any], code: Mapping[str, Any]
) -> str:
    """
    The ID token that the provider gives for a code.

    @raises BearerError: it gives none for this code.
    @raises OSError: it cannot be asked, or does not know us.
    """
    client = str(settings["client_id"])
    form = {
        "grant_type": "authorization_code",
        "code": str(code["code"]),
        "redirect_uri": str(code["back"]),
        "client_id": client,
        "code_verifier": str(code["verifier"]),
    }
    headers: dict[str, str] = {}
    if path := str(settings["client_secret_file"] or ""):
        with open(path, encoding="utf-8") as file:
            secret = file.read(4096).strip()
        if document["secret_posted"]:
            form["client_secret"] = secret
        else:
            both = f"{quote(client, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(both.encode()).decode()}"
    address = str(document["token_endpoint"])
    status, body = ask(address, str(settings["ca_file"] or ""), form, headers)
    if status == 400:
        raise BearerError("the provider has no token for this code")
    if status != 200 or len(body) > LARGEST // 4:
        raise ValueError(f"{address} answers with status {status}")
    try:
        found = json.loads(body)
    except RecursionError:
        found = None
    token = found.get("id_token") if isinstance(found, dict) else None
    if not isinstance(token, str) or len(token) > LARGEST // 8:
        raise ValueError(f"{address} answers without an id_token")
    return token


def _kid(token: Bearer) -> str:
    kid = token.header.get("kid")
    return kid if isinstance(kid, str) else ""


def _document(address: str, ca_file: str) -> dict[str, Any]:
    status, body = ask(address, ca_file)
    if status != 200:
        raise ValueError(f"{address} answers with status {status}")
    if len(body) > LARGEST // 4:
        raise ValueError(f"the answer of {address} is too large")
    try:
        found = json.loads(body)
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"the answer of {address} is not a JSON object")
    if json_has_halves(body, found):
        raise ValueError(f"the answer of {address} has {HALVES}")
    return found


def _seconds(kept: Mapping[str, Any], name: str) -> float:
    """When something was; long ago if never."""
    value = kept.get(name)
    return float(value) if isinstance(value, (int, float)) else float("-inf")
