"""
The tables: every filter, test and global that Salt adds to Jinja's own.

Pure filters are here; those named in L{IMPURE} come from the L{RenderHost}. A
test compares the names with a Salt beside us.
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
