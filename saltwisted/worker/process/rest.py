"""
C{rest}: logins through a site's web server, queried like stock's C{salt/auth/rest.py} does.

The name and the password are posted to C{^url} as a form. 200 lets the user in; its body may be a
JSON list of rules, which count in addition to those of the options. Blocks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from saltwisted.config.secrets import shown_text
from saltwisted.domain.eauth import MAX_RULES, Proof
from saltwisted.wire.text import json_has_halves
from saltwisted.worker.process.web import LARGEST, ask, said


class Rest:
    """The backend; each call contains everything that it needs."""

    def prove(self, settings: Mapping[str, Any], username: str, password: str) -> Proof:
        """Whether the server answers with 200, and the rules in its answer."""
        url = str(settings.get("url") or "")
        if not url:
            return Proof(problem="external_auth: rest needs ^url")
        told = shown_text(url)
        try:
            form = {"username": username, "password": password}
            status, body = ask(url, str(settings.get("ca_file") or ""), form)
        except (OSError, ValueError) as error:
            return Proof(problem=f"external_auth: rest: {said(error)}", steps=(f"post to {told}",))
        step = f"post to {told}: status {status}"
        if status != 200:
            problem = f"external_auth: rest: {told} answers with status {status}"
            # 400 to 403 is how servers say no; others say that something is wrong
            return Proof(problem="" if 400 <= status <= 403 else problem, steps=(step,))
        rules = _rules(body)
        if rules is None:
            return Proof(
                problem=f"external_auth: rest: {told} answers with what is no list of rules",
                steps=(step,),
            )
        return Proof(ok=True, rules=rules, steps=(step, f"rules in the answer: {len(rules)}"))

    def look(self, settings: Mapping[str, Any], username: str) -> Proof:
        """The server is asked with a password or not at all."""
        return Proof(problem="rest cannot look a user up without the password")


def _rules(body: bytes) -> tuple[Any, ...] | None:
    """The rules of an answer; none where it is empty, C{None} where they are not what rules are."""
    if len(body) > LARGEST:
        return None
    if not body.strip():
        return ()
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if found is None:
        return ()
    if not isinstance(found, list) or len(found) > MAX_RULES or json_has_halves(body, found):
        return None
    return tuple(found) if all(isinstance(rule, (str, dict)) for rule in found) else None
