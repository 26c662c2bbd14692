"""
Nested data: looked into, compared, put into other shapes.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from saltwisted.domain.render import datafilters, textfilters, tree
from saltwisted.modules import _data, mod_random
from saltwisted.utils import stringutils
from saltwisted.utils._own import own
from saltwisted.worker import renderfilters

compare_dicts = own(__name__, datafilters.compare_dicts)
compare_lists = own(__name__, datafilters.compare_lists)
encode = own(__name__, datafilters.encode_values)
encode_dict = own(__name__, datafilters.encode_dict)
encode_list = own(__name__, datafilters.encode_list)
exactly_n = own(__name__, datafilters.exactly_n_true)
exactly_one = own(__name__, datafilters.exactly_one_true)
filter_by = own(__name__, _data.filter_by)
flatten = own(__name__, datafilters.flatten)
from_entries = own(__name__, datafilters.from_entries)
hash = own(__name__, mod_random.hash)
is_iter = own(__name__, datafilters.is_iter)
is_list = own(__name__, datafilters.is_list)
json_query = own(__name__, renderfilters.json_query)
mysql_to_dict = own(__name__, datafilters.mysql_to_dict)
repack_dictlist = own(__name__, _data.repack_dictlist)
sample = own(__name__, mod_random.sample)
shuffle = own(__name__, mod_random.shuffle)
sorted_ignorecase = own(__name__, datafilters.sorted_ignorecase)
substr_in_list = own(__name__, textfilters.substring_in_list)
to_entries = own(__name__, datafilters.to_entries)
traverse_dict_and_list = own(__name__, tree.traverse)

_SIMPLE = (str, int, float, bool)


def decode(
    data: Any,
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    normalize: bool = False,
    preserve_dict_class: bool = False,
    preserve_tuples: bool = False,
    to_str: bool = False,
) -> Any:
    """
    Data with all bytes in it as texts; tuples become lists, dates texts.

    @param keep: bytes that are no text stay as they are.
    @raises UnicodeDecodeError: some are no text.
    """

    def text(value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.isoformat()
        return stringutils.to_str(value, encoding, errors, normalize)

    return datafilters.each_value(data, text, keep, preserve_dict_class, preserve_tuples)


def decode_dict(data: Any, *args: Any, **kwargs: Any) -> dict[Any, Any]:
    """A map as L{decode} gives it; it takes the same arguments."""
    data.items()  # of anything else it is an error
    return dict(decode(data, *args, **kwargs))


def decode_list(
    data: Iterable[Any],
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    normalize: bool = False,
    preserve_dict_class: bool = False,
    preserve_tuples: bool = False,
    to_str: bool = False,
) -> list[Any]:
    """What can be walked as a list, with all bytes in it as texts; arguments as of L{decode}."""
    kept = (keep, normalize, preserve_dict_class, preserve_tuples)
    return list(decode(list(data), encoding, errors, *kept))


def decode_tuple(
    data: Iterable[Any],
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    normalize: bool = False,
    preserve_dict_class: bool = False,
    to_str: bool = False,
) -> tuple[Any, ...]:
    """As L{decode_list}, and tuples stay tuples."""
    return tuple(decode_list(data, encoding, errors, keep, normalize, preserve_dict_class, True))


def encode_tuple(
    data: Iterable[Any],
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    preserve_dict_class: bool = False,
) -> tuple[Any, ...]:
    """What can be walked as a tuple, with all texts in it as bytes; tuples in it stay tuples."""
    made = datafilters.encode_values(list(data), encoding, errors, keep, preserve_dict_class, True)
    return tuple(made)


def filter_falsey(data: Any, recurse_depth: int | None = None, ignore_types: Any = ()) -> Any:
    """
    A map, list or set without the values that Python holds for false; C{False} itself stays.

    @param recurse_depth: so many levels of what is inside, too.
    @param ignore_types: values of these types stay.
    """

    def stays(value: Any) -> bool:
        return isinstance(value, bool) or type(value) in ignore_types or bool(value)

    def inside(value: Any) -> Any:
        if not recurse_depth:
            return value
        return filter_falsey(value, recurse_depth - 1, ignore_types)

    if isinstance(data, dict):
        pairs = ((key, inside(value)) for key, value in data.items())
        return type(data)([pair for pair in pairs if stays(pair[1])])
    if is_iter(data):
        return type(data)([value for value in map(inside, data) if stays(value)])
    return data


def traverse_dict(data: Any, key: str, default: Any = None, delimiter: str = ":") -> Any:
    """The value at C{a:b:c} in nested maps, or the default."""
    here = data
    for word in key.split(delimiter):
        try:
            here = here[word]
        except (KeyError, IndexError, TypeError):
            return default
    return here


def subdict_match(
    data: Any,
    expr: str,
    delimiter: str = ":",
    regex_match: bool = False,
    exact_match: bool = False,
) -> bool:
    """Whether nested data has what C{a:b:pattern} says."""
    from saltwisted.domain.targeting.traverse import Subdict

    return bool(Subdict(expr, delimiter, regex_match, exact_match).matches(data))


def is_dictlist(data: Any) -> bool:
    """Whether this is a list of maps of one key each."""
    return isinstance(data, list) and all(isinstance(one, dict) and len(one) == 1 for one in data)


def is_true(value: Any = None) -> bool:
    """Numbers above 0 are true, the word C{true} is, and what Python holds for true."""
    for number in (int, float):
        try:
            # A number is cut to a whole one first, as in stock; a text with a point is not.
            return number(value) > 0
        except (ValueError, TypeError, OverflowError):
            continue
    if isinstance(value, str):
        return value.lower() == "true"
    return bool(value)


def simple_types_filter(data: Any) -> Any:
    """Data with nothing but plain values in it; others are written as Python writes them."""
    if isinstance(data, (list, tuple)):
        return [_simple(one, (dict, list)) for one in data]
    if isinstance(data, dict):
        return {
            key if key is None or isinstance(key, _SIMPLE) else repr(key): _simple(
                value, (dict, list, tuple)
            )
            for key, value in data.items()
        }
    return data


def _simple(value: Any, nested: tuple[type, ...]) -> Any:
    if isinstance(value, nested):
        return simple_types_filter(value)
    if value is None or isinstance(value, (*_SIMPLE, list, tuple)):
        return value
    return repr(value)


def stringify(data: Iterable[Any]) -> list[str]:
    """All items as texts."""
    return [str(one) for one in data]
