"""
Who may run what: publisher_acl and its blacklist, the rules of logins, and peer rules.

The rules are written as in Salt: a list whose items are patterns of functions
(for all minions), or maps of one target to such patterns, which may in turn
restrict arguments. Two things are stricter than in Salt, where they were holes: every
function of a compound command must be allowed, those that a function calls by
name included (T-ACL-1), and a target that resolves to nobody allows nothing (T-ACL-2).
How a user proves who he is, is not here (L{saltwisted.domain.eauth}, L{saltwisted.master.logins}).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import lru_cache
from typing import Any

from saltwisted.domain.targeting.selection import guesses_pillar
from saltwisted.errors import TargetError

Resolve = Callable[[Any, str], Collection[str]]
"""C{resolve(target, target_type)}: the accepted minions that are meant."""

_EXACT = {
    "pillar": "pillar_exact",
    "pillar_pcre": "pillar_exact",
    "compound": "compound_pillar_exact",
}
_SLOT = re.compile(r"__slot__:\s*salt:\s*([\w.]+)")

# Position and keyword of the function that an execution function calls by name
_CALLERS: Mapping[str, tuple[int, str]] = {
    "saltutil.cmd": (1, "fun"),
    "saltutil.cmd_iter": (1, "fun"),
    "publish.publish": (1, "fun"),
    "publish.full_data": (1, "fun"),
    "mine.send": (0, "mine_function"),
    "test.try": (0, "module"),
    "test.try_": (0, "module"),
    "schedule.add": (-1, "function"),
    "schedule.modify": (-1, "function"),
    "schedule.build_schedule_item": (-1, "function"),
}
_MODULE_STATES = frozenset(("module.run", "module.wait"))


def expr_match(value: str, expression: str) -> bool:
    """Salt's match of names: a glob, or else a regular expression for the whole text."""
    if fnmatch(value, expression):
        return True
    pattern = _compiled(expression)
    return pattern is not None and pattern.fullmatch(value) is not None


@lru_cache(4096)
def _compiled(expression: str) -> re.Pattern[str] | None:
    try:
        return re.compile(expression)
    except (re.error, RecursionError, OverflowError):
        return None


def function_matches(pattern: object, fun: str) -> bool:
    """Whether a rule's pattern means this function: a regular expression for its beginning."""
    if not isinstance(pattern, str):
        return False
    compiled = _compiled(pattern)
    return compiled is not None and compiled.match(fun) is not None


def calls(fun: Any, arg: Any) -> list[tuple[str, list[Any]]]:
    """
    The functions of a command with their arguments; several come as a list or with commas.

    For several functions C{arg} is a list of lists, in the same order.
    """
    if isinstance(fun, str) and "," not in fun:
        return [(fun.strip(), list(arg or []))]
    names = fun.split(",") if isinstance(fun, str) else [str(name) for name in fun or []]
    args = list(arg or [])
    found = []
    for number, name in enumerate(names):
        own = args[number] if number < len(args) else []
        found.append((name.strip(), list(own) if isinstance(own, (list, tuple)) else [own]))
    return found


def split_kwargs(arg: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments, as a job carries them: a map marked C{__kwarg__}."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for item in arg:
        if isinstance(item, Mapping) and item.get("__kwarg__"):
            keywords.update({str(k): v for k, v in item.items() if k != "__kwarg__"})
        else:
            positional.append(item)
    return positional, keywords


def nested_functions(fun: str, arg: Sequence[Any]) -> list[str]:
    """
    Names of the functions that this call would call in turn.

    Known are those that take the name as an argument, C{module.run} through
    C{state.single}, and slots anywhere in the arguments. What is hidden in a
    template or a script cannot be seen: who may run those may run anything.
    """
    positional, keywords = split_kwargs(arg)
    found = [name for value in arg for name in _slots(value)]
    caller = _CALLERS.get(fun)
    if caller is not None:
        position, keyword = caller
        value = keywords.get(keyword)
        if value is None and 0 <= position < len(positional):
            value = positional[position]
        found += _names(value)
    elif fun == "mine.update":
        wanted = keywords.get("mine_functions") or next(
            (item for item in positional if isinstance(item, Mapping)), None
        )
        if isinstance(wanted, Mapping):
            found += [str(name) for name in wanted]
            found += [name for definition in wanted.values() for name in _aliased(definition)]
    elif fun == "state.single":
        state = keywords.get("fun") or (positional[0] if positional else None)
        if state in _MODULE_STATES:
            name = keywords.get("name") or (positional[1] if len(positional) > 1 else None)
            found += _names(name)
            found += [key for key in keywords if "." in key]
            found += [
                word.partition("=")[0]
                for word in positional[1:]
                if isinstance(word, str) and "=" in word and "." in word.partition("=")[0]
            ]
    return found


def _aliased(definition: Any) -> list[str]:
    """A mine entry may go by one name and call another: C{mine_function} in its map or list."""
    maps = definition if isinstance(definition, (list, tuple)) else [definition]
    return [
        name
        for each in maps
        if isinstance(each, Mapping)
        for name in _names(each.get("mine_function"))
    ]


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    if isinstance(value, (list, tuple)):
        return [str(name) for name in value]
    return []


def _slots(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if "__slot__" in value:
            yield from _SLOT.findall(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _slots(key)
            yield from _slots(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _slots(item)


def blacklisted(blacklist: Mapping[str, Any] | None, user: str, fun: Any, arg: Any) -> bool:
    """Whether C{publisher_acl_blacklist} names the user, or any function of the command."""
    if not blacklist:
        return False
    if any(expr_match(user, str(name)) for name in _listed(blacklist.get("users"))):
        return True
    modules = [str(pattern) for pattern in _listed(blacklist.get("modules"))]
    if not modules:
        return False
    return any(
        expr_match(name, pattern)
        for function, own in calls(fun, arg)
        for name in (function, *nested_functions(function, own))
        for pattern in modules
    )


def rules_for(acl: Mapping[str, Any] | None, user: str) -> list[Any]:
    """What C{publisher_acl} grants a user: the lists of every name that matches."""
    found: list[Any] = []
    for name, rules in (acl or {}).items():
        if expr_match(user, str(name)):
            found += _listed(rules)
    return found


FREE = frozenset(("saltutil.find_job",))
"""What everybody may ask of minions who may ask anything: whether they still run a job."""


def may_publish(
    rules: Sequence[Any],
    blacklist: Mapping[str, Any] | None,
    user: str,
    fun: Any,
    arg: Any,
    tgt: Any,
    tgt_type: str,
    resolve: Resolve,
) -> bool:
    """
    Whether a user with these rules may publish this, whichever way he came: a local user by
    C{publisher_acl}, or a login by C{external_auth}.
    """
    if blacklisted(blacklist, user, fun, arg):
        return False
    if not rules:
        return False
    if isinstance(fun, str) and fun in FREE:
        return True
    return allowed(rules, fun, arg, tgt, tgt_type, resolve)


def bound_by_acl(sudo_acl: bool, acl: Mapping[str, Any] | None, user: str) -> str:
    """
    The name by which C{publisher_acl} judges somebody who came as root by sudo, or C{""} where it
    does not: only with C{sudo_acl}, and where there is an ACL.

    @param user: C{sudo_NAME}, as the client says; it could as well say that it is root.
    """
    name = user.partition("_")[2] if user.startswith("sudo_") else ""
    return name if sudo_acl and acl else ""


def allowed(
    rules: Sequence[Any], fun: Any, arg: Any, tgt: Any, tgt_type: str, resolve: Resolve
) -> bool:
    """
    Whether rules allow a command on a target: all its functions, on all minions that are meant.

    A target by pillar values must not have wildcards, not even in what it excludes, and means the
    same minions when read exactly, since with them a user could guess secrets. Node groups are the
    operator's words.
    """
    wanted = calls(fun, arg)
    if not wanted or any(not name for name, _ in wanted):
        return False
    try:
        if guesses_pillar(tgt, str(tgt_type).lower(), {}):
            return False
        minions = frozenset(resolve(tgt, tgt_type))
        exact = _EXACT.get(str(tgt_type).lower())
        if exact is not None and not minions <= frozenset(resolve(tgt, exact)):
            return False
    except TargetError:
        return False
    if not minions:
        return False
    return all(
        _one_allowed(rules, name, own, minions, resolve)
        and all(
            _one_allowed(rules, inner, None, minions, resolve)
            for inner in nested_functions(name, own)
        )
        for name, own in wanted
    )


def _one_allowed(
    rules: Sequence[Any],
    fun: str,
    arg: Sequence[Any] | None,
    minions: frozenset[str],
    resolve: Resolve,
) -> bool:
    for rule in rules:
        if isinstance(rule, str):
            if function_matches(rule, fun):
                return True
        elif isinstance(rule, Mapping) and len(rule) == 1:
            ((target, patterns),) = rule.items()
            if not isinstance(target, str) or target.startswith("@"):
                continue
            if _covers(target, minions, resolve) and conditions_allow(patterns, fun, arg):
                return True
    return False


def _covers(target: str, minions: frozenset[str], resolve: Resolve) -> bool:
    if target == "*":
        return True
    try:
        return minions <= frozenset(resolve(target, "compound"))
    except TargetError:
        return False


def conditions_allow(conditions: Any, fun: str, arg: Sequence[Any] | None) -> bool:
    """
    Whether one of a rule's patterns means this call.

    A map of a pattern to C{args} and C{kwargs} restricts arguments; it never means a
    call whose arguments are not known (C{None}).
    """
    for condition in _listed(conditions):
        if isinstance(condition, str):
            if function_matches(condition, fun):
                return True
        elif isinstance(condition, Mapping) and len(condition) == 1:
            ((pattern, limits),) = condition.items()
            if function_matches(pattern, fun) and arg is not None:
                positional, keywords = split_kwargs(arg)
                if any(_fits(limit, positional, keywords) for limit in _listed(limits)):
                    return True
    return False


def _fits(limit: Any, positional: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    if not isinstance(limit, Mapping):
        return False
    for number, pattern in enumerate(limit.get("args") or []):
        if number >= len(positional):
            return False
        if pattern is not None and not function_matches(pattern, str(positional[number])):
            return False
    for name, pattern in (limit.get("kwargs") or {}).items():
        if name not in keywords:
            return False
        if pattern is not None and not function_matches(pattern, str(keywords[name])):
            return False
    return True


def special_allows(
    rules: Sequence[Any], kind: str, fun: str, arg: Sequence[Any], kwarg: Mapping[str, Any]
) -> bool:
    """
    Whether rules allow a runner or wheel function: C{@runner}, C{@runners}, C{@jobs}, ...

    @param kind: C{runner} or C{wheel}.
    """
    module, dot, name = fun.partition(".")
    if not dot or "." in name:
        return False
    full = [*arg, {"__kwarg__": True, **kwarg}] if kwarg else list(arg)
    for rule in rules:
        if isinstance(rule, str):
            if rule in (f"@{module}", f"@{kind}", f"@{kind}s"):
                return True
        elif isinstance(rule, Mapping) and len(rule) == 1:
            ((target, conditions),) = rule.items()
            if target == f"@{module}" and conditions_allow(conditions, name, full):
                return True
            if target in (f"@{kind}", f"@{kind}s") and conditions_allow(conditions, fun, full):
                return True
    return False


def peer_rules(peer: Mapping[str, Any] | None, minion_id: str) -> list[Any]:
    """What C{peer}, C{peer_run} or C{mine_get} grants a minion: all lists whose name matches."""
    found: list[Any] = []
    for pattern, rules in (peer or {}).items():
        if isinstance(rules, (list, tuple)) and function_matches(pattern, minion_id):
            found += rules
    return found


def peer_allows(
    peer: Mapping[str, Any] | None,
    minion_id: str,
    fun: str,
    arg: Sequence[Any] | None = None,
    tgt: Any = None,
    tgt_type: str = "glob",
    resolve: Resolve | None = None,
) -> bool:
    """
    Whether a minion may use this function: publish it, run it as a runner, read it from the mine.

    Rules for some targets count only where C{resolve} is given. Functions that are
    called in turn must be allowed as well, and C{publish.*} never is in a
    publication: a minion would publish in another's name.
    """
    rules = peer_rules(peer, minion_id)
    if not rules:
        return False
    names = [fun, *nested_functions(fun, arg or [])]
    if resolve is not None:
        return not any(name.startswith("publish.") for name in names) and allowed(
            rules, fun, arg, tgt, tgt_type, resolve
        )
    return all(any(function_matches(rule, name) for rule in rules) for name in names)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
