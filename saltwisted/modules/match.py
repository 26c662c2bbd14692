"""
Does a target mean this minion? The questions of targeting, one function for each kind.

The rules are in L{saltwisted.domain.targeting.matchers}. A target that makes no sense is
no match, and a line in the log.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.targeting.matchers import MinionFacts, matches
from saltwisted.modules import _data
from saltwisted.worker.exceptions import SaltException

log = logging.getLogger(__name__)

__func_alias__ = {"list_": "list"}

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any


def _facts(minion_id: Any = None) -> MinionFacts:
    return MinionFacts(
        id=str(minion_id) if minion_id else __opts__["id"],
        grains=__grains__,
        pillar=__pillar__,
        nodegroups=__opts__.get("nodegroups") or {},
        data=lambda key: __salt__["data.get"](key),
    )


def _match(tgt: Any, kind: str, minion_id: Any = None, delimiter: str = ":") -> bool:
    try:
        return matches(
            tgt, kind, _facts(minion_id), delimiter, note=lambda text: log.error("%s", text)
        )
    except Exception:
        log.exception("Matching a target of type %s failed", kind)
        return False


def compound(tgt: Any, minion_id: Any = None) -> bool:
    """
    Whether a compound target means this minion, or one of another id with these grains.

    CLI Example::

        salt '*' match.compound 'L@cheese,foo and *'
    """
    return _match(tgt, "compound", minion_id)


def ipcidr(tgt: Any) -> bool:
    """
    Whether this minion has an address in a network.

    CLI Example::

        salt '*' match.ipcidr '192.168.44.0/24'
    """
    return _match(tgt, "ipcidr")


def pillar_pcre(tgt: Any, delimiter: str = ":") -> bool:
    """
    Whether a regular expression fits a pillar value.

    CLI Example::

        salt '*' match.pillar_pcre 'cheese:(swiss|american)'
    """
    return _match(tgt, "pillar_pcre", delimiter=delimiter)


def pillar(tgt: Any, delimiter: str = ":") -> bool:
    """
    Whether a glob fits a pillar value.

    CLI Example::

        salt '*' match.pillar 'cheese:foo'
    """
    return _match(tgt, "pillar", delimiter=delimiter)


def data(tgt: Any) -> bool:
    """
    Whether a value that C{data.update} stored fits.

    CLI Example::

        salt '*' match.data 'spam:eggs'
    """
    return _match(tgt, "data")


def grain_pcre(tgt: Any, delimiter: str = ":") -> bool:
    """
    Whether a regular expression fits a grain.

    CLI Example::

        salt '*' match.grain_pcre 'os:Fedo.*'
    """
    return _match(tgt, "grain_pcre", delimiter=delimiter)


def grain(tgt: Any, delimiter: str = ":") -> bool:
    """
    Whether a glob fits a grain.

    CLI Example::

        salt '*' match.grain 'os:Ubuntu'
    """
    return _match(tgt, "grain", delimiter=delimiter)


def list_(tgt: Any, minion_id: Any = None) -> bool:
    """
    Whether this minion (or one of another id) is in a list.

    CLI Example::

        salt '*' match.list 'server1,server2'
    """
    return _match(tgt, "list", minion_id)


def pcre(tgt: Any, minion_id: Any = None) -> bool:
    """
    Whether a regular expression fits this minion's id, or another.

    CLI Example::

        salt '*' match.pcre '.*'
    """
    return _match(tgt, "pcre", minion_id)


def glob(tgt: Any, minion_id: Any = None) -> bool:
    """
    Whether a glob fits this minion's id, or another.

    CLI Example::

        salt '*' match.glob '*'
    """
    return _match(tgt, "glob", minion_id)


_KINDS = {
    "compound": compound,
    "ipcidr": ipcidr,
    "pillar_pcre": pillar_pcre,
    "pillar": pillar,
    "data": data,
    "grain_pcre": grain_pcre,
    "grain": grain,
    "list": list_,
    "list_": list_,
    "pcre": pcre,
    "glob": glob,
}


def _ask(tgt: Any, tgt_type: str, minion_id: Any) -> bool:
    matcher: Any = _KINDS[tgt_type]
    return bool(matcher(tgt, minion_id) if minion_id else matcher(tgt))


def filter_by(
    lookup: Any,
    tgt_type: str = "compound",
    minion_id: Any = None,
    merge: Any = None,
    merge_lists: bool = False,
    default: Any = "default",
) -> Any:
    """
    The entry of a map whose key, a target, means this minion; C{merge} is laid over it.

    CLI Example::

        salt '*' match.filter_by '{foo*: Foo!, bar*: Bar!}' minion_id=bar03
    """
    for key in lookup:
        if not _ask(key, tgt_type, minion_id):
            continue
        if merge:
            if not isinstance(merge, Mapping):
                raise SaltException("filter_by merge argument must be a dictionary.")
            if lookup[key] is None:
                return merge
            _data.update(lookup[key], copy.deepcopy(merge), merge_lists=merge_lists)
        return lookup[key]
    return lookup.get(default, None)


def search_by(lookup: Any, tgt_type: str = "compound", minion_id: Any = None) -> Any:
    """
    The keys of a map of lists of targets of which one means this minion; nothing if none.

    CLI Example::

        salt '*' match.search_by '{web: [node1, node2], db: [node2, node]}'
    """
    found = [
        key
        for key, targets in lookup.items()
        for target in targets
        if _ask(target, tgt_type, minion_id)
    ]
    return found or None


def ifelse(
    *args: Any,
    tgt_type: str = "compound",
    minion_id: Any = None,
    merge: Any = None,
    merge_lists: bool = False,
) -> Any:
    """
    Pairs of target and value, and a default at the end: the first value whose target fits.

    CLI Example::

        salt '*' match.ifelse 'foo*' 'Foo!' 'bar*' 'Bar!' minion_id=bar03
    """
    if len(args) % 2 == 0:
        raise SaltException("The ifelse function must have an odd number of arguments!")
    if len(args) == 1:
        return args[0]
    nothing, default = "SALT_IFELSE_MATCH_NOTHING", "SALT_IFELSE_FUNCTION_DEFAULT"
    targets = ["*" if key is True else nothing if key is False else key for key in args[:-1:2]]
    lookup = dict(zip(targets, args[1::2], strict=True))
    lookup[default] = args[-1]
    return filter_by(lookup, tgt_type, minion_id, merge, merge_lists, default)
