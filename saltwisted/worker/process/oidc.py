"""
C{oidc}: a bearer token of an OpenID Connect provider in the place of a password.

Whether a token is good is decided in L{saltwisted.domain.bearer}; here the provider's keys are
fetched, by its discovery document. They are handed back to the master, which keeps them and hands
them in with the next call. Blocks while it fetches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.config.logins import oidc_faults
from saltwisted.domain.bearer import (
    STALE,
    Bearer,
    BearerError,
    Terms,
    judge,
    keys_of,
    must_fetch,
    parse,
)
from saltwisted.domain.eauth import Proof
from saltwisted.worker.process.web import LARGEST, ask, said

DISCOVERY = "/.well-known/openid-configuration"


class Oidc:
    """The proof; all that it knows comes with the call."""

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
        kept, problem = self._kept(settings, token, now)
        keep = {} if kept is settings.get("kept") else kept
        keys = keys_of(kept.get("jwks")) if 0 <= now - _seconds(kept, "at") < STALE else ()
        steps = [problem] if problem else []
        steps.append(f"keys of the provider: {len(keys)}")
        if problem and not keys:
            return Proof(problem=f"external_auth: oidc: {problem}", steps=steps, keep=keep)
        try:
            found = judge(token, keys, _terms(settings), now)
        except BearerError as error:
            return Proof(steps=(*steps, f"token: {error}"), keep=keep)
        steps.append(f"token: of {found.name}, groups: {', '.join(found.groups) or 'none'}")
        if found.name != username:
            return Proof(steps=steps, keep=keep)
        return Proof(ok=True, groups=found.groups, until=found.until, steps=steps, keep=keep)

    def look(self, settings: Mapping[str, Any], username: str) -> Proof:
        """Only a token says who its user is."""
        return Proof(problem="oidc cannot look a user up without a token")

    def _kept(
        self, settings: Mapping[str, Any], token: Bearer, now: float
    ) -> tuple[Mapping[str, Any], str]:
        """The provider's keys, fetched if need be, and why they could not be."""
        kept = settings.get("kept") or {}
        source = [settings["issuer"], settings["jwks_uri"]]
        if kept.get("source") != source:
            kept = {}
        keys = keys_of(kept.get("jwks"))
        kid = token.header.get("kid")
        name = kid if isinstance(kid, str) else ""
        if not must_fetch(keys, _seconds(kept, "at"), _seconds(kept, "tried"), name, now):
            return kept, ""
        try:
            jwks = _fetched(settings)
        except (OSError, ValueError) as error:
            old = {**kept, "source": source, "tried": now}
            return old, f"the keys of {settings['issuer']} could not be fetched: {said(error)}"
        return {"source": source, "jwks": jwks, "at": now, "tried": now}, ""


def _fetched(settings: Mapping[str, Any]) -> dict[str, Any]:
    issuer, ca_file = str(settings["issuer"]), str(settings["ca_file"] or "")
    address = str(settings["jwks_uri"] or "")
    if not address:
        found = _document(issuer.rstrip("/") + DISCOVERY, ca_file)
        if found.get("issuer") != issuer:
            raise ValueError(f"its document is that of {found.get('issuer')!r}")
        address = str(found.get("jwks_uri") or "")
        for fault in oidc_faults({**settings, "jwks_uri": address or "nothing"}):
            raise ValueError(fault)
    rows = _document(address, ca_file).get("keys")
    if not isinstance(rows, list) or not keys_of({"keys": rows}):
        raise ValueError(f"{address} has no key that is used here")
    return {"keys": rows}


def _document(address: str, ca_file: str) -> dict[str, Any]:
    status, body = ask(address, ca_file)
    if status != 200:
        raise ValueError(f"{address} answers with status {status}")
    if len(body) > LARGEST // 4:
        raise ValueError(f"{address} answers with too much")
    try:
        found = json.loads(body)
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{address} answers with no JSON object")
    return found


def _terms(settings: Mapping[str, Any]) -> Terms:
    audience = settings["audience"]
    return Terms(
        issuer=str(settings["issuer"]),
        audience=tuple(map(str, audience if isinstance(audience, list) else [audience])),
        username_claim=str(settings["username_claim"]),
        groups_claim=str(settings["groups_claim"]),
        leeway=float(settings["leeway"]),
    )


def _seconds(kept: Mapping[str, Any], name: str) -> float:
    """When something was; long ago if never."""
    value = kept.get(name)
    return float(value) if isinstance(value, (int, float)) else float("-inf")
