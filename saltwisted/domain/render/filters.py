"""
The tables: every filter, test and global that Salt adds to Jinja's own.

Pure filters are here; those in L{IMPURE} come from the L{RenderHost}. A test compares the names
with a stock Salt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saltwisted.domain.render import datafilters, netfilters, serialize, textfilters
from saltwisted.domain.render.errors import TemplateError

IMPURE = frozenset(
    {
        "date_format",
        "dns_check",
        "file_hashsum",
        "gen_mac",
        "get_uid",
        "http_query",
        "is_bin_file",
        "is_empty",
        "is_text_file",
        "json_query",
        "list_files",
        "rand_str",
        "random_hash",
        "random_sample",
        "random_shuffle",
        "random_str",
        "strftime",
        "which",
    }
)
"""Filters that need a clock, dice, files, the network or an optional library."""

FILTERS: dict[str, Callable[..., Any]] = {
    **textfilters.FILTERS,
    **datafilters.FILTERS,
    **netfilters.FILTERS,
    "tojson": serialize.FILTERS["tojson"],
}

_CALLED = {
    "avg": "lst_avg",
    "base64_decode": "base64_b64decode",
    "base64_encode": "base64_b64encode",
    "exactly_n_true": "exactly_n",
    "exactly_one_true": "exactly_one",
    "hmac": "hmac_signature",
    "is_ip": "is_ip_filter",
    "is_ipv4": "is_ipv4_filter",
    "is_ipv6": "is_ipv6_filter",
    "md5": "md5_digest",
    "path_join": "join",
    "sequence": "ensure_sequence_filter",
    "sha1": "sha1_digest",
    "sha256": "sha256_digest",
    "sha512": "sha512_digest",
    "skip": "skip_filter",
    "substring_in_list": "substr_in_list",
    "to_camelcase": "snake_to_camel_case",
    "to_snake_case": "camel_to_snake_case",
    "traverse": "traverse_dict_and_list",
    "uuid": "uuid_",
    "yaml_dquote": "yaml_dquote",
    "yaml_encode": "yaml_encode",
    "yaml_squote": "yaml_squote",
}
"""What Salt's functions are called, where Python's errors about arguments name them."""

for _name, _text in _CALLED.items():
    FILTERS[_name].__name__ = FILTERS[_name].__qualname__ = _text


def _equal(value: Any, other: Any) -> bool:
    """The test C{is equalto}."""
    return bool(value == other)


TESTS: dict[str, Callable[..., Any]] = {
    "match": textfilters.matches,
    "equalto": _equal,
    "list": datafilters.is_list,
}


def raise_error(message: Any) -> None:
    """The global C{raise}: fail the template with a message of its own."""
    raise TemplateError(message)


GLOBALS: dict[str, Any] = {"raise": raise_error}
