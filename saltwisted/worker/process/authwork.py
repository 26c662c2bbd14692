"""
Checks passwords, in a process that may block.

A call has the shape C{{"eauth", "settings", "username", "password"}}. Without a C{password} it asks
what is known of the user. With C{code} it has what a browser has brought from a provider, and with
C{begin} a browser is to be sent there. The answer is a L{saltwisted.domain.eauth.Proof} as plain
data. L{saltwisted.worker.process.proofs} has the backends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.eauth import Proof
from saltwisted.errors import ConfigError
from saltwisted.kinds import Parts
from saltwisted.parts import ILoginProof
from saltwisted.worker.process.proofs import PROOFS


def serve(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a pooled worker process."""
    return judged(payload, PROOFS)


def serve_near(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same, in processes of their own for users of this machine."""
    return judged(payload, PROOFS)


def serve_look(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same, in processes of their own for what the master asks by itself."""
    return judged(payload, PROOFS)


def judged(payload: Mapping[str, Any], proofs: Parts[ILoginProof]) -> dict[str, Any]:
    """What the proof that a call names says of its name and password."""
    try:
        proof = proofs.take(payload["eauth"])
    except ConfigError as error:
        return Proof(problem=str(error)).plain()
    settings, username = payload["settings"], payload["username"]
    if "code" in payload or "begin" in payload:
        return _by_browser(proof, settings, payload)
    if "password" in payload:
        found = proof.prove(settings, username, payload["password"])
    else:
        found = proof.look(settings, username)
    plain: dict[str, Any] = found.plain()
    return plain


def _by_browser(
    proof: Any, settings: Mapping[str, Any], payload: Mapping[str, Any]
) -> dict[str, Any]:
    """The beginning or the end of a browser's login, for proofs that have such logins."""
    from saltwisted.worker.process.oidc import Oidc

    if not isinstance(proof, Oidc):
        return Proof(problem=f"no browser logs in by {payload['eauth']}").plain()
    if "begin" in payload:
        return proof.begin(settings).plain()
    return proof.exchange(settings, payload["code"]).plain()
