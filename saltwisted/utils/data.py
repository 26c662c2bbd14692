"""
Nested data: looked into, compared, put into other shapes.
"""

from __future__ import annotations

import copy
import datetime
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
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

ALGORITHMS_ATTR_NAME = "algorithms_guaranteed"
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


class CaseInsensitiveDict(MutableMapping[Any, Any]):
    """A map whose keys are found in capitals or not; it keeps them as they were written last."""

    def __init__(self, init: Any = None, **kwargs: Any) -> None:
        self._data: dict[Any, tuple[Any, Any]] = {}
        self.update(init or {}, **kwargs)

    def __len__(self) -> int:
        return len(self._data)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._data[to_lowercase(key)] = (key, value)

    def __delitem__(self, key: Any) -> None:
        del self._data[to_lowercase(key)]

    def __getitem__(self, key: Any) -> Any:
        return self._data[to_lowercase(key)][1]

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._data.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return False
        return dict(self.items_lower()) == dict(CaseInsensitiveDict(other).items_lower())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def items_lower(self) -> Iterator[tuple[Any, Any]]:
        """The items, with keys without capitals."""
        return ((key, value) for key, (_, value) in self._data.items())

    def copy(self) -> CaseInsensitiveDict:
        """Another map with the same items."""
        return CaseInsensitiveDict(self)


def to_lowercase(data: Any, preserve_dict_class: bool = False) -> Any:
    """Data whose texts, keys too, are without capitals."""
    return _cased(data, "lower", preserve_dict_class)


def to_uppercase(data: Any, preserve_dict_class: bool = False) -> Any:
    """Data whose texts, keys too, are in capitals."""
    return _cased(data, "upper", preserve_dict_class)


def _cased(data: Any, method: str, preserve: bool) -> Any:
    change = getattr(data, method, None)
    if change is not None:
        return change()
    if isinstance(data, Mapping):
        pairs = (tuple(_cased(each, method, preserve) for each in item) for item in data.items())
        return (type(data) if preserve else dict)(pairs)  # type: ignore[call-arg]
    if isinstance(data, Sequence):
        return type(data)(_cased(each, method, preserve) for each in data)  # type: ignore[call-arg]
    return data


def get_value(obj: Any, path: str | None, default: Any = None) -> list[dict[str, Any]]:
    """
    What lies at C{a:{x}:b} in nested data; C{{x}} stands for each key or index.

    @return: C{{"value": ...}} for each place, with the key under the name C{x}.
    """
    if not path:
        return [{"value": obj}]
    key, _, rest = path.partition(":")
    if key.startswith("{") and key.endswith("}"):
        if obj is None:
            return [{"value": None}]
        places: Iterable[tuple[Any, Any]] = ()
        if isinstance(obj, dict):
            places = obj.items()
        elif isinstance(obj, list):
            places = enumerate(obj)
        return [
            {**found, key[1:-1]: place}
            for place, value in places
            for found in get_value(value, rest, default)
        ]
    if isinstance(obj, dict) and key in obj:
        return get_value(obj[key], rest, default)
    return [{"value": None if obj is None else default}]


def recursive_diff(
    old: Any,
    new: Any,
    ignore_keys: Any = None,
    ignore_order: bool = False,
    ignore_missing_keys: bool = False,
) -> dict[str, Any]:
    """
    What differs in nested data, as C{{"old": ..., "new": ...}}; empty if nothing does.

    Ordered maps are compared in order if both are such, other maps without, sets as sets, and
    what else can be walked in order. What is the same in both is left out.

    @param ignore_keys: these keys of maps are never compared.
    @param ignore_order: compare nothing in order.
    @param ignore_missing_keys: what C{new} does not have is no difference.
    """
    return _Differ(ignore_keys or (), ignore_order, ignore_missing_keys).between(old, new)


class _Differ:
    """The rules of one comparison."""

    def __init__(self, ignored: Any, unordered: bool, lenient: bool) -> None:
        self._ignored, self._unordered, self._lenient = ignored, unordered, lenient

    def between(self, old: Any, new: Any) -> dict[str, Any]:
        """C{old} and C{new} of what differs; empty if nothing does."""
        if isinstance(old, OrderedDict) and isinstance(new, OrderedDict) and not self._unordered:
            return self._ordered(old, new)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            return self._maps(old, new)
        if isinstance(old, set) and isinstance(new, set):
            return {} if old == new else {"old": old - new, "new": new - old}
        if is_iter(old) and is_iter(new):
            return self._walked(old, new)
        return {} if old == new else copy.deepcopy({"old": old, "new": new})

    def _put(self, key: Any, old: Any, new: Any) -> None:
        """Leave what differs at a key that both maps have."""
        found = self.between(old[key], new[key])
        if found:
            old[key], new[key] = found["old"], found["new"]
        else:
            del old[key], new[key]

    def _ordered(self, old: Any, new: Any) -> dict[str, Any]:
        left, right = copy.deepcopy(old), copy.deepcopy(new)
        for first, second in zip(old, new, strict=False):
            if first == second and first not in self._ignored:
                self._put(first, left, right)
                continue
            for key, rest in ((first, left), (second, right)):
                if key in self._ignored:
                    del rest[key]
        return {"old": left, "new": right} if left or right else {}

    def _maps(self, old: Any, new: Any) -> dict[str, Any]:
        left, right = copy.deepcopy(old), copy.deepcopy(new)
        for key in dict.fromkeys((*old, *new)):
            if key in self._ignored:
                left.pop(key, None)
                right.pop(key, None)
            elif key in old and key in new:
                self._put(key, left, right)
            elif key in old and self._lenient:
                del left[key]
        return {"old": left, "new": right} if left or right else {}

    def _walked(self, old: Any, new: Any) -> dict[str, Any]:
        left, right = copy.deepcopy(list(old)), copy.deepcopy(list(new))
        if self._unordered:
            left, right = self._unmatched(left, right)
        else:
            pairs = [self.between(*pair) for pair in zip(left, right, strict=False)]
            both = len(pairs)
            left = [pair["old"] for pair in pairs if pair] + left[both:]
            right = [pair["new"] for pair in pairs if pair] + right[both:]
        # What came, came as a list, a tuple or another kind: so does what is left of it
        return {"old": type(old)(left), "new": type(new)(right)} if left or right else {}

    def _unmatched(self, old: list[Any], new: list[Any]) -> tuple[list[Any], list[Any]]:
        """Both without the pairs that are alike, each item in one pair."""
        left, right = [], list(new)
        for item in old:
            at = next((n for n, each in enumerate(right) if not self.between(item, each)), None)
            if at is None:
                left.append(item)
            else:
                del right[at]
        return left, right
