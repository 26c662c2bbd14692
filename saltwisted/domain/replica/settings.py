"""
Options that ought to be equal on all members, and where they are not.

Who may do what, who is in which group, and what minions are given: if two nodes differ in these, it
depends on the node what an operator may do. Paths and addresses are each node's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

COMPARED = (
    "auth.ldap.accountattributename",
    "auth.ldap.activedirectory",
    "auth.ldap.anonymous",
    "auth.ldap.basedn",
    "auth.ldap.binddn",
    "auth.ldap.bindpw",
    "auth.ldap.filter",
    "auth.ldap.freeipa",
    "auth.ldap.group_basedn",
    "auth.ldap.group_filter",
    "auth.ldap.groupattribute",
    "auth.ldap.groupclass",
    "auth.ldap.groupou",
    "auth.ldap.minion_stripdomains",
    "auth.ldap.no_verify",
    "auth.ldap.persontype",
    "auth.ldap.port",
    "auth.ldap.scope",
    "auth.ldap.server",
    "auth.ldap.starttls",
    "auth.ldap.tls",
    "auth.ldap.uri",
    "auth.pam.service",
    "auto_accept",
    "autosign_timeout",
    "claims",
    "claims_etcd_prefix",
    "client_acl_verify",
    "default_top",
    "env_order",
    "ext_pillar",
    "ext_pillar_first",
    "external_auth",
    "file_ignore_glob",
    "file_ignore_regex",
    "file_roots",
    "fileserver_backend",
    "hash_type",
    "keep_acl_in_token",
    "keep_jobs",
    "keep_jobs_seconds",
    "minion_events",
    "nodegroups",
    "open_mode",
    "peer",
    "peer_run",
    "permissive_acl",
    "pillar_includes_override_sls",
    "pillar_merge_lists",
    "pillar_opts",
    "pillar_roots",
    "pillar_source_merging_strategy",
    "pillarenv_from_saltenv",
    "preserve_minion_cache",
    "publisher_acl",
    "publisher_acl_blacklist",
    "renderer",
    "rotate_aes_key",
    "sharedsecret",
    "state_top",
    "sudo_acl",
    "token_expire",
    "token_expire_user_override",
    "top_file_merging_strategy",
)
SECRET = ("auth.ldap.bindpw", "sharedsecret")
"""Compared, and shown as a digest."""
_PASSWORD = re.compile(r"(://[^/@:\s\"]*):([^/@\s\"]+)@")
ROOTS = ("file_roots", "pillar_roots")
ABSENT = "(not set)"
SHOWN = "shown:"
"""Before the name of an option: a text that is shown in place of the one that is compared."""


def texts_of(option: Any) -> dict[str, str]:
    """
    The compared options as text that is equal where they are.

    @param option: C{option(name)}: its value, or C{None} where there is no such option.
    """
    found = {}
    for name in COMPARED:
        value = option(name)
        if name in ROOTS and isinstance(value, Mapping):
            # Where they lie is each node's own matter; which environments there are is not
            value = {env: len(paths) for env, paths in value.items()}
        if value is None:
            continue
        if name in SECRET:
            found[name] = f"sha256 {sha256(str(value).encode()).hexdigest()[:12]}"
        else:
            found[name] = _PASSWORD.sub(_hidden, json.dumps(value, sort_keys=True, default=str))
    return found


def shown_of(option: Any) -> dict[str, str]:
    """
    L{texts_of}, and beside them what a person wants to see where they differ: the paths of roots.
    """
    found = texts_of(option)
    for name in ROOTS:
        value = option(name)
        if isinstance(value, Mapping):
            found[SHOWN + name] = json.dumps(value, sort_keys=True, default=str)
    return found


def _hidden(match: re.Match[str]) -> str:
    """A password in an address, as something that is equal where it is."""
    return f"{match[1]}:(sha256 {sha256(match[2].encode()).hexdigest()[:12]})@"


def differences(texts: Mapping[str, Mapping[str, str]]) -> Sequence[Mapping[str, Any]]:
    """
    Where nodes differ.

    @param texts: node to its options.
    @return: C{{"option", "values": {node: text}}} for each option that differs, sorted.
    """
    rows = []
    names = {name for options in texts.values() for name in options}
    for name in sorted(name for name in names if not name.startswith(SHOWN)):
        values = {node: options.get(name, ABSENT) for node, options in texts.items()}
        if len(set(values.values())) > 1:
            shown = {n: options.get(SHOWN + name, values[n]) for n, options in texts.items()}
            rows.append({"option": name, "values": shown})
    return rows
