"""
C{salt.utils.jinja}: the filters and tests of templates as functions.
"""

from __future__ import annotations

from typing import Any

from jinja2.filters import do_indent

from saltwisted.domain.render import datafilters, filters, serialize, textfilters
from saltwisted.domain.render.printing import PrintableMap, printable

PrintableDict = PrintableMap
ensure_sequence_filter = datafilters.sequence
to_bool = textfilters.to_bool
skip_filter = textfilters.skip
indent = do_indent
quote = textfilters.quote
regex_escape = textfilters.regex_escape
regex_search = textfilters.regex_search
regex_match = textfilters.regex_match
regex_replace = textfilters.regex_replace
uuid_ = textfilters.uuid
unique = datafilters.unique
lst_min = datafilters.lst_min
lst_max = datafilters.lst_max
lst_avg = datafilters.average
union = datafilters.union
intersect = datafilters.intersect
difference = datafilters.difference
symmetric_difference = datafilters.symmetric_difference
method_call = datafilters.method_call
test_match = textfilters.matches
test_equalto = filters.TESTS["equalto"]
tojson = serialize.FILTERS["tojson"]
jinja_raise = filters.raise_error


def finalize(value: Any) -> Any:
    """A value as templates print it."""
    return printable(value)
