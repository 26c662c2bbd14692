"""
The option C{external_auth}: the available backends, and the errors of the option.

L{saltwisted.domain.eauth} says what a login grants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from saltwisted.config.options import LOGIN_OPTIONS
from saltwisted.config.secrets import shown_value
from saltwisted.kinds import LOGINS, Parts

CALLBACK = "/login/oidc/callback"
"""How an address ends that a provider sends browsers back to."""
LDAP = "auth.ldap."
FAMILIES = (LDAP, "auth.pam.")
"""How options begin whose names are known here, all of them."""
_HERE = ("ldap://localhost", "ldap://127.0.0.1", "ldap://[::1]")
_NAMED = re.compile(r"\{[{%].*\busername\b.*[}%]\}", re.DOTALL)

FILE_DEFAULTS: Mapping[str, Any] = {
    "filename": "",
    "filetype": "text",
    "hashtype": "plaintext",
    "field_separator": ":",
    "username_field": 1,
    "password_field": 2,
    "realm": "",
}


OIDC_DEFAULTS: Mapping[str, Any] = {
    "issuer": "",
    "audience": "",
    "jwks_uri": "",
    "ca_file": "",
    "username_claim": "sub",
    "groups_claim": "groups",
    "leeway": 60,
    "client_id": "",
    "client_secret_file": "",
    "redirect_uri": "",
    "scope": "openid profile",
}


class LoginOptions:
    """The options for one login backend, which are also the options that the backend gets."""

    def __init__(
        self,
        parameters: Mapping[str, Any] = MappingProxyType({}),
        needs: Mapping[str, str] = MappingProxyType({}),
        options: Mapping[str, str] = MappingProxyType({}),
        fresh: bool = False,
    ) -> None:
        """
        @param parameters: written with a C{^} before them, beside the users; with their defaults.
        @param needs: parameter to what it is, for those without which nobody can log in.
        @param options: setting to an option of the master.
        @param fresh: whether the groups of a token are asked for again while it is used.
        """
        self.parameters, self.needs, self.options = parameters, needs, options
        self.fresh = fresh

    def settings(self, given: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
        """
        What the proof is told.

        @param given: what C{external_auth} says of it.
        @param extra: the options of the master that have no schema.
        """
        stated = given if isinstance(given, Mapping) else {}
        found = {name: stated.get("^" + name, value) for name, value in self.parameters.items()}
        for name, option in self.options.items():
            value = extra.get(option)
            usual, _ = LOGIN_OPTIONS.get(option, (None, ""))
            found[name] = usual if value is None else value
        return found


OPTIONS = Parts[LoginOptions](
    LOGINS,
    {
        "auto": LoginOptions(),
        "file": LoginOptions(FILE_DEFAULTS, {"filename": "the file with users and passwords"}),
        "ldap": LoginOptions(
            options={
                name.removeprefix(LDAP): name for name in LOGIN_OPTIONS if name.startswith(LDAP)
            },
            fresh=True,
        ),
        "oidc": LoginOptions(
            OIDC_DEFAULTS,
            {
                "issuer": "the provider whose tokens log in",
                "audience": "for whom a token has to be made",
            },
        ),
        "pam": LoginOptions(options={"service": "auth.pam.service"}),
        "rest": LoginOptions(
            {"url": "", "ca_file": ""}, {"url": "the address that is asked about users"}
        ),
        "sharedsecret": LoginOptions(options={"sharedsecret": "sharedsecret"}),
    },
)


def settings(eauth: str, config: Any) -> dict[str, Any]:
    """
    What the proof of this name is told of a master's options: what it needs, and no more.

    @raises ConfigError: there is no such proof.
    """
    return OPTIONS.take(eauth).settings(config.external_auth.get(eauth), config.extra)


def why_not(eauth: str) -> str:
    """Why a backend cannot be used, in a sentence; C{""} for one that can."""
    if eauth in LOGINS.here:
        return ""
    have = f"Available eauth types: {', '.join(LOGINS.here)}"
    if eauth in LOGINS.elsewhere:
        return f"external authentication by {eauth} is not available here. {have}"
    near = LOGINS.nearest(eauth)
    hint = f"did you mean {near!r}? " if near else ""
    return f"unknown external authentication system {eauth!r}: {hint}{have}"


def misspelt(options: Iterable[Any]) -> list[tuple[str, str]]:
    """Options of proofs of logins that nobody knows, with a sentence for each."""
    found = []
    for option in options:
        name = str(option)
        if name.startswith(FAMILIES) and name not in LOGIN_OPTIONS:
            near = _nearest(name, list(LOGIN_OPTIONS))
            hint = f": did you mean {near!r}?" if near else ""
            found.append((name, f"unknown option {name!r}{hint}"))
    return found


def problems(external_auth: Mapping[str, Any], extra: Mapping[str, Any] = {}) -> list[str]:
    """
    What in the option cannot work, a sentence each, for the person who starts the master.

    @param extra: the options beside it that have no schema.
    """
    found = []
    if "ldap" in external_auth:
        found += _ldap_problems(OPTIONS.take("ldap").settings({}, extra))
    for eauth, config in external_auth.items():
        where = f"external_auth: {eauth}"
        reason = why_not(str(eauth))
        if reason:
            found.append(f"{reason}; its logins are refused")
            continue
        if not isinstance(config, Mapping):
            seen = shown_value("", config)
            found.append(f"{where}: users are needed, each with a list of rules, not {seen!r}")
            continue
        options = OPTIONS.take(eauth)
        found += [
            f"{where}: ^{name} is needed, {what}"
            for name, what in options.needs.items()
            if not config.get("^" + name)
        ]
        if eauth == "oidc":
            found += [
                f"{where}: {text}; its logins are refused"
                for text in oidc_faults(options.settings(config, extra))
                if "is needed" not in text
            ]
            found += [
                f"{where}: {text}; browsers cannot log in"
                for text in browser_faults(options.settings(config, extra))
            ]
        if _is_plain(str(config.get("^url") or "")):
            found.append(f"{where}: ^url: passwords go over the network unencrypted: use https")
        for key, rules in config.items():
            if isinstance(key, str) and key.startswith("^"):
                if options.parameters and key[1:] not in options.parameters:
                    near = _nearest(key[1:], list(options.parameters))
                    hint = f", did you mean '^{near}'?" if near else ""
                    found.append(f"{where}: unknown parameter {key!r}{hint}")
                continue
            found += [f"{where}: {key}: {text}" for text in _rule_problems(rules)]
    return found


def ldap_faults(settings: Mapping[str, Any]) -> list[str]:
    """Why nobody can log in with these options of LDAP; nothing if somebody can."""
    found = []
    if settings["starttls"] and settings["tls"]:
        found.append("auth.ldap.starttls and auth.ldap.tls cannot both be on")
    if str(settings["scope"]) not in ("0", "1", "2"):
        found.append("auth.ldap.scope is 0, 1 or 2")
    if settings["binddn"] and not settings["bindpw"]:
        if not _NAMED.search(str(settings["binddn"])):
            found.append(
                "auth.ldap.binddn needs {{ username }}, or auth.ldap.bindpw beside it: with one"
                " DN for all, whoever knows its password would be anybody"
            )
    elif not settings["binddn"] and not settings["anonymous"]:
        found.append(
            "auth.ldap.binddn is needed, with {{ username }} or with auth.ldap.bindpw"
            " (or auth.ldap.anonymous: true)"
        )
    else:
        found += [
            f"auth.ldap.{option} is needed to find users"
            for option in ("filter", "basedn")
            if not settings[option]
        ]
        if settings["filter"] and not _NAMED.search(str(settings["filter"])):
            found.append("auth.ldap.filter needs {{ username }}")
    if settings["freeipa"] and not settings["activedirectory"]:
        found += [
            f"auth.ldap.{option} is needed with auth.ldap.freeipa"
            for option in ("group_basedn", "group_filter")
            if not settings[option]
        ]
    return found


def oidc_faults(settings: Mapping[str, Any]) -> list[str]:
    """Why nobody can log in with these parameters of OIDC; nothing if somebody can."""
    found = [f"^{name} is needed" for name in ("issuer", "audience") if not settings[name]]
    for name in ("issuer", "jwks_uri"):
        url = str(settings[name] or "")
        if url and (_is_plain(url) or not url.startswith(("http://", "https://"))):
            found.append(f"^{name}: {url} is not an https address, and keys come from there")
    audience = settings["audience"]
    rows = audience if isinstance(audience, list) else [audience]
    if not all(isinstance(row, str) for row in rows):
        found.append("^audience is a text or a list of texts")
    leeway = settings["leeway"]
    if isinstance(leeway, bool) or not isinstance(leeway, (int, float)) or not 0 <= leeway <= 600:
        found.append("^leeway is a number of seconds up to 600")
    return found


def for_browsers(settings: Mapping[str, Any]) -> bool:
    """Whether the parameters of OIDC are also meant for the logins of browsers."""
    return bool(settings["client_id"] or settings["redirect_uri"])


def browser_faults(settings: Mapping[str, Any]) -> list[str]:
    """Why no browser can log in with these parameters of OIDC, if any was to."""
    if not for_browsers(settings):
        return []
    found = []
    if not isinstance(settings["client_id"], str) or not settings["client_id"]:
        found.append("^client_id is needed with ^redirect_uri, a text")
    given = settings["redirect_uri"]
    addresses = given if isinstance(given, list) else [given]
    if not addresses or not all(isinstance(each, str) and each for each in addresses):
        return [*found, "^redirect_uri is needed with ^client_id, a text or a list of texts"]
    for address in addresses:
        if _is_plain(address) or not address.startswith(("http://", "https://")):
            found.append(f"^redirect_uri: {address} is not an https address, and sessions go there")
        elif not address.endswith(CALLBACK):
            found.append(f"^redirect_uri: {address} does not end with {CALLBACK}")
    if "openid" not in str(settings["scope"]).split():
        found.append("^scope needs the word 'openid'")
    return found


def _is_plain(url: str) -> bool:
    """Whether what is sent there may be read on its way."""
    here = re.match(r"http://(localhost|127\.0\.0\.1|\[::1\])[:/]", url + "/")
    return url.startswith("http://") and here is None


def _ldap_problems(settings: Mapping[str, Any]) -> list[str]:
    """What cannot work, is dangerous, or has no effect."""
    where = "external_auth: ldap"
    found = [f"{where}: {text}; its logins are refused" for text in ldap_faults(settings)]
    uri = str(settings["uri"] or "")
    server = str(settings["server"])
    plain = [url for url in uri.replace(",", " ").split() if not url.startswith(("ldaps:", *_HERE))]
    if not uri and not settings["tls"] and server not in ("localhost", "127.0.0.1", "::1"):
        plain = [server]
    if plain and not settings["starttls"]:
        found.append(
            f"{where}: passwords go to {plain[0]} unencrypted: use ldaps:// or"
            " auth.ldap.starttls: true"
        )
    if settings["no_verify"]:
        found.append(
            f"{where}: auth.ldap.no_verify: whoever poses as the directory server reads the"
            " passwords, and lets in whom he likes"
        )
    if settings["auth_by_group_membership_only"]:
        found.append(
            f"{where}: auth.ldap.auth_by_group_membership_only has no effect: a login needs the"
            " password of the user"
        )
    if not (settings["bindpw"] or settings["anonymous"]):
        found.append(
            f"{where}: without auth.ldap.bindpw the groups of a user cannot be asked for again:"
            " in a token they count for five minutes"
        )
    return found


def _rule_problems(rules: Any) -> list[str]:
    if not isinstance(rules, (list, tuple)):
        return [f"a list of rules is needed, not {rules!r}; it is read as one rule"]
    found = []
    for rule in rules:
        if isinstance(rule, str):
            found += _pattern_problems(rule)
        elif isinstance(rule, Mapping) and len(rule) == 1:
            ((target, conditions),) = rule.items()
            if str(target).startswith("ldap("):
                found.append(f"the target {target!r} means nobody: units of LDAP are not read here")
            for condition in _listed(conditions):
                if isinstance(condition, str):
                    found += _pattern_problems(condition)
                elif not isinstance(condition, Mapping) or len(condition) != 1:
                    found.append(
                        f"a function, or one function with 'args' and 'kwargs', is needed, not"
                        f" {condition!r}; it grants nothing"
                    )
        else:
            found.append(
                f"a function, or one target with a list of functions, is needed, not {rule!r};"
                " it grants nothing"
            )
    return found


def _pattern_problems(pattern: str) -> list[str]:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return [f"{pattern!r} is not a regular expression ({error}); it grants nothing"]
    return []


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _nearest(word: str, words: list[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(word, words, 1, 0.6)
    return found[0] if found else ""
