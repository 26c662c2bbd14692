"""
Options that should be equal on all members, and where they differ.

They decide who may do what, who is in which group, and what minions get: if two nodes differ in
them, an operator's rights depend on the node. Paths and addresses are each node's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
ROOTS = ("file_roots", "pillar_roots")
ABSENT = "(not set)"
SHOWN = "shown:"
"""Before the name of an option: a text that is shown in place of the one that is compared."""


def texts_of(option: Callable[[str], Any], text: Callable[[str, Any], str]) -> dict[str, str]:
    """
    The compared options as text that is equal if the options are.

    @param option: C{option(name)}: its value, or C{None} if it does not exist.
    @param text: C{text(name, value)}: what others may see of it, equal if the value is.
    """
    found = {}
    for name in COMPARED:
        value = option(name)
        if name in ROOTS and isinstance(value, Mapping):
            # Where they lie is each node's own matter; which environments there are is not
            value = {env: len(paths) for env, paths in value.items()}
        if value is not None:
            found[name] = text(name, value)
    return found


def shown_of(option: Callable[[str], Any], text: Callable[[str, Any], str]) -> dict[str, str]:
    """
    L{texts_of}, and in addition what a person wants to see if they differ: the paths of roots.
    """
    found = texts_of(option, text)
    for name in ROOTS:
        value = option(name)
        if isinstance(value, Mapping):
            found[SHOWN + name] = json.dumps(value, sort_keys=True, default=str)
    return found


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
