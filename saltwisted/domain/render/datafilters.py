"""
Filters on lists and maps, with Salt's names and results.

Salt's set filters give sets for hashable arguments (texts, tuples) and lists
in order of appearance for the others; that is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from saltwisted.domain.render.errors import FilterError
from saltwisted.domain.render.textfilters import to_bytes, to_num
from saltwisted.domain.render.tree import DELIMITER, traverse, traverse_maps


def sequence(data: Any) -> Any:
    """A container as it is, anything else as a list of one."""
    return data if isinstance(data, (list, tuple, set, dict)) else [data]


def unique(values: Any) -> Any:
    """Each value once."""
    if isinstance(values, Hashable):
        return set(values)  # type: ignore[call-overload]
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept


def average(lst: Any) -> float:
    """The arithmetic mean."""
    if not isinstance(lst, Hashable):
        return float(sum(lst) / len(lst))
    return float(lst)  # type: ignore[arg-type]


def _sets(first: Any, second: Any) -> bool:
    return isinstance(first, Hashable) and isinstance(second, Hashable)


def union(lst1: Any, lst2: Any) -> Any:
    """What is in either."""
    return set(lst1) | set(lst2) if _sets(lst1, lst2) else unique(lst1 + lst2)


def intersect(lst1: Any, lst2: Any) -> Any:
    """What is in both."""
    if _sets(lst1, lst2):
        return set(lst1) & set(lst2)
    return unique([item for item in lst1 if item in lst2])


def difference(lst1: Any, lst2: Any) -> Any:
    """What is in the first alone."""
    if _sets(lst1, lst2):
        return set(lst1) - set(lst2)
    return unique([item for item in lst1 if item not in lst2])


def symmetric_difference(lst1: Any, lst2: Any) -> Any:
    """What is in exactly one."""
    if _sets(lst1, lst2):
        return set(lst1) ^ set(lst2)
    common = intersect(lst1, lst2)
    return unique([item for item in union(lst1, lst2) if item not in common])


def method_call(obj: Any, f_name: str, *f_args: Any, **f_kwargs: Any) -> Any:
    """Call a method by name; C{None} if there is none."""
    method = getattr(obj, f_name, None)
    return None if method is None else method(*f_args, **f_kwargs)


def compare_dicts(old: Any = None, new: Any = None) -> dict[Any, Any]:
    """What differs, key by key, as C{old} and C{new}."""
    changes: dict[Any, Any] = {}
    for key in set(new or {}) | set(old or {}):
        if key not in old:
            changes[key] = {"old": "", "new": new[key]}
        elif key not in new:
            changes[key] = {"new": "", "old": old[key]}
        elif new[key] != old[key]:
            changes[key] = {"old": old[key], "new": new[key]}
    return changes


def compare_lists(old: Any = None, new: Any = None) -> dict[str, list[Any]]:
    """What was added and what was removed."""
    changes: dict[str, list[Any]] = {}
    added = [item for item in new if item not in old]
    removed = [item for item in old if item not in new]
    if added:
        changes["new"] = added
    if removed:
        changes["old"] = removed
    return changes


def encode_values(
    data: Any,
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    preserve_dict_class: bool = False,
    preserve_tuples: bool = False,
) -> Any:
    """Every text in nested data as bytes; tuples become lists."""

    def encode(item: Any) -> Any:
        return to_bytes(item, encoding, errors)

    return each_value(data, encode, keep, preserve_dict_class, preserve_tuples)


def each_value(
    data: Any,
    change: Callable[[Any], Any],
    keep: bool,
    preserve_dict_class: bool,
    preserve_tuples: bool,
) -> Any:
    """
    Nested data with each value and each key changed; what contains itself ends there with C{None}.

    @param change: what raises C{TypeError} or L{FilterError} for a value leaves it as it is.
    @param keep: so does what raises C{UnicodeError}.
    """
    above: list[int] = []

    def walk(item: Any) -> Any:
        if not isinstance(item, (Mapping, list, tuple)):
            try:
                return change(item)
            except (TypeError, FilterError):
                return item
            except UnicodeError:
                if keep:
                    return item
                raise
        if id(item) in above:
            return None
        above.append(id(item))
        made: Any
        if isinstance(item, Mapping):
            made = item.__class__() if preserve_dict_class else {}
            for key, value in item.items():
                made[walk(key)] = walk(value)
        else:
            made = [walk(one) for one in item]
        above.pop()
        return tuple(made) if preserve_tuples and isinstance(item, tuple) else made

    return walk(data)


def encode_dict(
    data: Any,
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    preserve_dict_class: bool = False,
    preserve_tuples: bool = False,
) -> dict[Any, Any]:
    """Every text in a map as bytes."""
    data.items()  # of anything else it is an error
    made: dict[Any, Any] = encode_values(
        data, encoding, errors, keep, preserve_dict_class, preserve_tuples
    )
    return made


def encode_list(
    data: Any,
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    preserve_dict_class: bool = False,
    preserve_tuples: bool = False,
) -> list[Any]:
    """Every text in an iterable as bytes, in a list."""
    made: list[Any] = encode_values(
        list(data), encoding, errors, keep, preserve_dict_class, preserve_tuples
    )
    return made


def lst_min(obj: Any) -> Any:
    """The least."""
    return min(obj)


def lst_max(obj: Any) -> Any:
    """The greatest."""
    return max(obj)


def exactly_n_true(iterable: Iterable[Any], amount: int = 1) -> bool:
    """Whether so many values are true, and no more."""
    return sum(1 for value in iterable if value) == amount


def exactly_one_true(iterable: Iterable[Any]) -> bool:
    """Whether one value is true, and no more."""
    return exactly_n_true(iterable)


def is_list(value: Any) -> bool:
    """Whether it is a list."""
    return isinstance(value, list)


def is_iter(thing: Any, ignore: Any = (str,)) -> bool:
    """Whether it can be walked, texts excepted."""
    if ignore and isinstance(thing, ignore):
        return False
    try:
        iter(thing)
    except TypeError:
        return False
    return True


def sorted_ignorecase(to_sort: Iterable[str]) -> list[str]:
    """Texts in order of their lower case."""
    return sorted(to_sort, key=lambda text: text.lower())


def mysql_to_dict(data: Iterable[str], key: str) -> dict[Any, Any]:
    """The table that the mysql client draws, as maps by one column."""
    rows: dict[Any, Any] = {}
    header: list[str] = []
    for line in data:
        if not line or line.startswith("+"):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if len(header) <= 1:
            header = cells
            continue
        row = {header[at]: to_num(cells[at]) for at in range(1, len(header) - 1)}
        rows[row[key]] = row
    return rows


def flatten(
    data: Any, levels: Any = None, preserve_nulls: bool = False, _ids: set[int] | None = None
) -> list[Any]:
    """
    Nested lists as one.

    @param levels: how many levels to dissolve; C{None}: all.
    @param preserve_nulls: keep C{None}, C{"None"} and C{"null"}, which are left out otherwise.
    @raises RecursionError: the data contains itself.
    """
    seen = set() if _ids is None else _ids
    if id(data) in seen:
        raise RecursionError("Reference cycle detected. Check input list.")
    seen.add(id(data))
    flat: list[Any] = []
    for item in data:
        if not preserve_nulls and item in (None, "None", "null"):
            continue
        if not is_iter(item) or (levels is not None and levels < 1):
            flat.append(item)
        else:
            deeper = None if levels is None else int(levels) - 1
            flat.extend(flatten(item, deeper, preserve_nulls, seen))
    return flat


def to_entries(data: Any) -> list[dict[str, Any]]:
    """
    A map or list as C{[{key, value}, ...]}.

    @raises ValueError: it is neither.
    """
    if isinstance(data, dict):
        pairs: Iterable[tuple[Any, Any]] = data.items()
    elif isinstance(data, list):
        pairs = enumerate(data)
    else:
        raise ValueError("Input data must be a dict or list")
    return [{"key": key, "value": value} for key, value in pairs]


def from_entries(entries: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
    """The reverse of C{to_entries}; C{name} does for C{key}, in any case of letters."""
    made: dict[Any, Any] = {}
    for entry in entries:
        pairs = dict(entry).items()
        fields = {str(k).lower() if isinstance(k, str) else k: v for k, v in pairs}
        name = fields.get("key") or fields.get("name")
        if name:
            made[name] = fields.get("value")
    return made


def _parent(data: dict[Any, Any], keys: str, delimiter: str, ordered: bool) -> tuple[Any, str]:
    """The map above the last word of a path, made where it was missing."""
    *above, last = keys.split(delimiter)
    here = data
    for word in above:
        if word not in here or not isinstance(here[word], dict):
            here[word] = OrderedDict() if ordered else {}
        here = here[word]
    if above:
        here = traverse_maps(data, delimiter.join(above), None, delimiter)
    return here, last


def set_dict_key_value(
    in_dict: Any, keys: str, value: Any, delimiter: str = DELIMITER, ordered_dict: bool = False
) -> Any:
    """Put a value at a path; changes and returns the map."""
    parent, last = _parent(in_dict, keys, delimiter, ordered_dict)
    parent[last] = value
    return in_dict


def update_dict_key_value(
    in_dict: Any, keys: str, value: Any, delimiter: str = DELIMITER, ordered_dict: bool = False
) -> Any:
    """
    Update the map at a path; changes and returns the whole.

    @raises FilterError: there is no map, or the value is not one.
    """
    parent, last = _parent(in_dict, keys, delimiter, ordered_dict)
    if last not in parent or parent[last] is None:
        parent[last] = OrderedDict() if ordered_dict else {}
    target = parent[last]
    try:
        target.update(value)
    except AttributeError:
        raise FilterError(f"The last key contains a {type(target)}, which cannot update.") from None
    except (ValueError, TypeError):
        raise FilterError(f"Cannot update {type(target)} with a {type(value)}.") from None
    return in_dict


def append_dict_key_value(
    in_dict: Any, keys: str, value: Any, delimiter: str = DELIMITER, ordered_dict: bool = False
) -> Any:
    """
    Append to the list at a path; changes and returns the map.

    @raises FilterError: there is something else.
    """
    parent, last = _parent(in_dict, keys, delimiter, ordered_dict)
    if last not in parent or parent[last] is None:
        parent[last] = []
    try:
        parent[last].append(value)
    except AttributeError:
        raise FilterError(
            f"The last key contains a {type(parent[last])}, which cannot append."
        ) from None
    return in_dict


def extend_dict_key_value(
    in_dict: Any, keys: str, value: Any, delimiter: str = DELIMITER, ordered_dict: bool = False
) -> Any:
    """
    Extend the list at a path; changes and returns the map.

    @raises FilterError: there is something else, or the value is not a sequence.
    """
    parent, last = _parent(in_dict, keys, delimiter, ordered_dict)
    if last not in parent or parent[last] is None:
        parent[last] = []
    target = parent[last]
    try:
        target.extend(value)
    except AttributeError:
        raise FilterError(f"The last key contains a {type(target)}, which cannot extend.") from None
    except TypeError:
        raise FilterError(f"Cannot extend {type(target)} with a {type(value)}.") from None
    return in_dict


FILTERS: dict[str, Callable[..., Any]] = {
    "append_dict_key_value": append_dict_key_value,
    "avg": average,
    "compare_dicts": compare_dicts,
    "compare_lists": compare_lists,
    "difference": difference,
    "exactly_n_true": exactly_n_true,
    "exactly_one_true": exactly_one_true,
    "extend_dict_key_value": extend_dict_key_value,
    "flatten": flatten,
    "from_entries": from_entries,
    "intersect": intersect,
    "is_iter": is_iter,
    "is_list": is_list,
    "json_decode_dict": encode_dict,
    "json_decode_list": encode_list,
    "json_encode_dict": encode_dict,
    "json_encode_list": encode_list,
    "max": lst_max,
    "method_call": method_call,
    "min": lst_min,
    "mysql_to_dict": mysql_to_dict,
    "sequence": sequence,
    "set_dict_key_value": set_dict_key_value,
    "sorted_ignorecase": sorted_ignorecase,
    "symmetric_difference": symmetric_difference,
    "to_entries": to_entries,
    "traverse": traverse,
    "union": union,
    "unique": unique,
    "update_dict_key_value": update_dict_key_value,
}
