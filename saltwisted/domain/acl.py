"""
Who may run what: publisher_acl and its blacklist, the rules of logins, and peer rules.

The rules are written as in Salt: a list whose items are patterns of functions (for all minions), or
maps of one target to such patterns, which may in turn restrict arguments. Three things are stricter
than in Salt, where they were holes: every function of a compound command must be allowed, including
those that a function calls by name (T-ACL-1); if a target matches nobody, only rules for all
minions allow it (T-ACL-2); and what a rule for some minions allows is for the minions by which it
was judged, not for those that read the target in their own way (T-ACL-4).

L{saltwisted.domain.eauth} and L{saltwisted.master.logins} check who a user is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from enum import IntEnum
from fnmatch import fnmatch, fnmatchcase
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from attrs import frozen

from saltwisted.domain.api.pieces import room_after
from saltwisted.domain.arguments import split_words
from saltwisted.domain.firing import SEND, may_fire, may_have_fired, tag_sent, tags_of
from saltwisted.domain.nested import (
    FUNCTIONS,
    NAME,
    Unreadable,
    calls,
    names_of,
    nested_functions,
    nesting,
    readable,
)
from saltwisted.domain.targeting.bounds import fault
from saltwisted.domain.targeting.regexes import is_risky
from saltwisted.domain.targeting.selection import Selection, guesses_pillar, pillar_words
from saltwisted.domain.targeting.traverse import DELIMITER
from saltwisted.errors import TargetError

Resolve = Callable[[Any, str, str], Collection[str]]
"""C{resolve(target, target_type, delimiter)}: the accepted minions that are meant."""

Decision = TypeVar("Decision")
Judging: TypeAlias = Generator[tuple[Any, str, str] | None, Selection, Decision]
"""
A decision in steps: C{(target, target_type, delimiter)} wants the minions that are meant sent,
or a L{TargetError} thrown in; C{None} is a pause. Its value is the decision.
"""


@frozen
class Grant:
    """
    What rules allow of a request that has a target; there is none for what they refuse.

    @ivar judged: the minions that the target was judged to mean. The rules allow it on these alone,
        whatever the target says to somebody else. C{None}: they allow it on every minion.
    """

    judged: Selection | None = None


_EXACT = {
    "pillar": "pillar_exact",
    "pillar_pcre": "pillar_exact",
    "compound": "compound_pillar_exact",
}


def decide(judging: Judging[Decision], resolve: Resolve) -> Decision:
    """The decision at once, for callers that can resolve a target at once."""
    try:
        asked = next(judging)
        while True:
            if asked is None:
                asked = next(judging)
                continue
            try:
                meant = Selection(minions=list(resolve(*asked)))
            except TargetError as error:
                asked = judging.throw(error)
            else:
                asked = judging.send(meant)
    except StopIteration as end:
        decision: Decision = end.value
        return decision


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


LONG = 1024
"""Characters of an argument up to which any expression judges it; above, cheap ones alone do."""


def command_fault(fun: Any) -> str:
    """What is wrong or too much in the functions of a command; C{""} when nothing is."""
    if isinstance(fun, str):
        count = fun.count(",") + 1
    elif isinstance(fun, (list, tuple)) and all(isinstance(name, str) for name in fun):
        count = len(fun)
    else:
        return "A command names its function as a string, or several in a list"
    if count > FUNCTIONS:
        return f"The command has {count} functions; at most {FUNCTIONS} are allowed"
    longest = max(map(len, fun.split(",") if isinstance(fun, str) else fun), default=0)
    if longest > NAME:
        return f"The name of a function is {longest} characters long; at most {NAME} are allowed"
    return ""


def blacklisting(
    blacklist: Mapping[str, Any] | None, user: str, fun: Any, arg: Any
) -> Judging[bool]:
    """
    Whether C{publisher_acl_blacklist} names the user, or any function of the command; in steps.
    """
    if not blacklist:
        return False
    if any(expr_match(user, str(name)) for name in _listed(blacklist.get("users"))):
        return True
    modules = [str(pattern) for pattern in _listed(blacklist.get("modules"))]
    if not modules:
        return False
    try:
        for function, own in calls(fun, arg):
            inside = yield from nesting(function, own)
            for name in (function, *inside.functions):
                if any(expr_match(name, pattern) for pattern in modules):
                    return True
                yield None
    except Unreadable:
        return True
    return False


def rules_for(acl: Mapping[str, Any] | None, user: str) -> list[Any]:
    """What C{publisher_acl} grants a user: the lists of every name that matches."""
    found: list[Any] = []
    for name, rules in (acl or {}).items():
        if expr_match(user, str(name)):
            found += _listed(rules)
    return found


EVERYBODY = "*"
"""The target of a rule for all minions."""
FREE = frozenset(("saltutil.find_job",))
"""
What needs no rule for the function: whoever may have a minion do anything may ask it whether it
still runs a job. The target is judged nevertheless (L{covering}).
"""


def may_publish(
    rules: Sequence[Any],
    blacklist: Mapping[str, Any] | None,
    user: str,
    fun: Any,
    arg: Any,
    tgt: Any,
    tgt_type: str,
    delimiter: str = DELIMITER,
    extras: Mapping[str, Any] | None = None,
) -> Judging[Grant | None]:
    """
    Whether a user with these rules may publish this, through whichever interface: a local user by
    C{publisher_acl}, or a login by C{external_auth}.

    @param extras: what else the job carries: C{ret}, C{module_executors} and the like.
    """
    if (yield from blacklisting(blacklist, user, fun, arg)):
        return None
    if not rules:
        return None
    if not extras_allowed(rules, extras or {}):
        return None
    if not (yield from may_have_fired(rules, fun, arg)):
        return None
    if isinstance(fun, str) and fun in FREE:
        return (yield from covering(rules, tgt, tgt_type, delimiter))
    return (yield from allowed(rules, fun, arg, tgt, tgt_type, delimiter))


_OWNERS = ("ret_config", "ret_kwargs", "executor_opts")
"""What of a job no rule allows: they say where returns go and as whom functions run."""


def extras_allowed(rules: Sequence[Any], extras: Mapping[str, Any]) -> bool:
    """
    Whether rules allow what a job carries besides its functions: returners by C{@returner},
    executors by C{@executor}. Like C{@runner}, the word alone allows all of them.
    """
    if any(extras.get(name) for name in _OWNERS):
        return False
    return _kind_allowed(rules, "@returner", extras.get("ret")) and _kind_allowed(
        rules, "@executor", extras.get("module_executors")
    )


def _kind_allowed(rules: Sequence[Any], kind: str, wanted: Any) -> bool:
    if not wanted:
        return True
    patterns: list[str] = []
    for rule in rules:
        if rule == kind:
            return True
        if isinstance(rule, Mapping) and len(rule) == 1:
            patterns += [str(each) for each in _listed(rule.get(kind))]
    return all(any(expr_match(name, pattern) for pattern in patterns) for name in names_of(wanted))


def bound_by_acl(sudo_acl: bool, acl: Mapping[str, Any] | None, user: str) -> str:
    """
    The name by which C{publisher_acl} judges a user who became root by sudo, or C{""} if it does
    not: only with C{sudo_acl}, and if there is an ACL.

    @param user: C{sudo_NAME}, as the client says; it could as well say that it is root.
    """
    name = user.partition("_")[2] if user.startswith("sudo_") else ""
    return name if sudo_acl and acl else ""


def allowed(
    rules: Sequence[Any],
    fun: Any,
    arg: Any,
    tgt: Any,
    tgt_type: str,
    delimiter: str = DELIMITER,
) -> Judging[Grant | None]:
    """
    Whether rules allow a command on a target: all its functions, on all matching minions.

    A target that matches nobody is allowed by a rule for all minions, and by no other (T-ACL-2): a
    user who may run a function anywhere may learn that nobody matches, but a user with rules for
    some minions would learn which others exist. Nothing is published to nobody.
    """
    wanted = calls(fun, arg)
    if not wanted or any(not name for name, _ in wanted):
        return None
    meant = yield from _meant(tgt, tgt_type, delimiter)
    if meant is None:
        return None
    minions = frozenset(meant.minions)
    covered: dict[str, bool] = {}
    reach = _Reach.EVERYWHERE
    for name, own in wanted:
        reach = min(reach, (yield from _one_allowed(rules, name, own, minions, covered)))
        if not reach:
            return None
        try:
            inside = yield from nesting(name, own)
        except Unreadable:
            return None
        if not _kind_allowed(rules, "@returner", inside.returners):
            return None
        for inner in inside.functions:
            reach = min(reach, (yield from _one_allowed(rules, inner, None, minions, covered)))
            if not reach:
                return None
    return Grant() if reach is _Reach.EVERYWHERE else Grant(meant)


def _meant(tgt: Any, tgt_type: str, delimiter: str) -> Judging[Selection | None]:
    """
    The minions that a user's target means; C{None} if no user who is bound by rules may ask so.

    A target by pillar values must not have wildcards, not even in what it excludes, and must match
    the same minions when compared exactly, because otherwise a user could guess secrets. Node
    groups are the operator's words.
    """
    kind = str(tgt_type).lower()
    try:
        if guesses_pillar(tgt, kind, {}):
            return None
        meant = yield tgt, tgt_type, delimiter
        exact = _EXACT.get(kind)
        if exact is not None:
            exactly = yield tgt, exact, delimiter
            if not frozenset(meant.minions) <= frozenset(exactly.minions):
                return None
    except TargetError:
        return None
    return meant if tgt else None


class _Reach(IntEnum):
    """Where rules allow a function: not on all that are meant, on these, or on every minion."""

    NOT_HERE = 0
    HERE = 1
    EVERYWHERE = 2


def _one_allowed(
    rules: Sequence[Any],
    fun: str,
    arg: Sequence[Any] | None,
    minions: frozenset[str],
    covered: dict[str, bool],
) -> Judging[_Reach]:
    """@param covered: of the rules' targets so far, whether they mean all these minions."""
    words = Words(arg)
    targets: list[str] = []
    for rule in rules:
        yield None
        if isinstance(rule, str):
            if function_matches(rule, fun):
                return _Reach.EVERYWHERE
            continue
        target, conditions = _for_minions(rule)
        if target and conditions_allow(conditions, fun, words):
            if target == EVERYBODY:
                return _Reach.EVERYWHERE
            targets.append(target)
    for target in targets:
        if target not in covered:
            covered[target] = bool(minions) and minions <= (yield from _of_rule(target))
        if covered[target]:
            return _Reach.HERE
    return _Reach.NOT_HERE


def _for_minions(rule: Any) -> tuple[str, Any]:
    """The target of a rule for some minions, and what it allows there; C{""} for other rules."""
    if isinstance(rule, Mapping) and len(rule) == 1:
        ((target, conditions),) = rule.items()
        if isinstance(target, str) and not target.startswith("@"):
            return target, conditions
    return "", None


def _of_rule(target: str) -> Judging[frozenset[str]]:
    """The minions of a rule's target; nobody if it cannot be understood."""
    try:
        return frozenset((yield target, "compound", DELIMITER).minions)
    except TargetError:
        return frozenset()


def covering(
    rules: Sequence[Any], tgt: Any, tgt_type: str, delimiter: str = DELIMITER
) -> Judging[Grant | None]:
    """
    Whether each minion of a target is covered by some rule of a user, whatever that rule allows
    there: what is asked needs no rule of its own (T-ACL-4).

    The target is judged as one of a command (L{allowed}): no guessing, and nobody only for a user
    who has a rule for all minions.
    """
    meant = yield from _meant(tgt, tgt_type, delimiter)
    if meant is None:
        return None
    targets: dict[str, None] = {}
    for rule in rules:
        yield None
        if isinstance(rule, str):
            if _names_function(rule):
                return Grant()
            continue
        target, conditions = _for_minions(rule)
        if target and any(map(_names_function, _listed(conditions))):
            if target == EVERYBODY:
                return Grant()
            targets[target] = None
    left = frozenset(meant.minions)
    for target in targets if left else ():
        left -= yield from _of_rule(target)
        if not left:
            return Grant(meant)
    return None


def _names_function(condition: Any) -> bool:
    """Whether it allows functions, with any arguments or some; not so C{@events}."""
    if isinstance(condition, Mapping) and len(condition) == 1:
        condition = next(iter(condition))
    if not isinstance(condition, str) or condition.startswith("@"):
        return False
    return _compiled(condition) is not None


def may_target(
    rules: Sequence[Any],
    tgt: Any,
    tgt_type: str,
    delimiter: str = DELIMITER,
    nodegroups: Mapping[str, Any] | None = None,
) -> Judging[Grant | None]:
    """
    Whether a login may give this target to a runner that the rules allow (T-PIL-3).

    A rule for a runner names no minions: it is for all of them, and ids, grains and addresses may
    be asked about. Pillars have secrets, which could be spelled out by asking whom a value means.
    So a target that asks for pillar, also by a node group, is judged like one of a command: it must
    not guess, and each minion that it means must be covered by a rule for minions.
    """
    kind = str(tgt_type).lower()
    # Who looks up what is too large finds nobody, and says why
    if fault(tgt, kind, delimiter) or not pillar_words(tgt, kind, nodegroups or {}):
        return Grant()
    return (yield from covering(rules, tgt, tgt_type, delimiter))


class Words:
    """
    The arguments of a call, for rules that restrict them: read once, however many rules there are.

    @param arg: C{None}: they are not known.
    """

    def __init__(self, arg: Sequence[Any] | None) -> None:
        self._arg = arg
        self._words: tuple[list[Any], dict[str, Any]] | None = None

    def read(self) -> tuple[list[Any], dict[str, Any]] | None:
        """Positional and keyword arguments; C{None}: nobody knows, or they are too much to read."""
        if self._words is None and self._arg is not None and readable(self._arg):
            self._words = split_words(self._arg)
        return self._words


def conditions_allow(conditions: Any, fun: str, words: Words) -> bool:
    """
    Whether one of a rule's patterns means this call.

    A map of a pattern to C{args} and C{kwargs} restricts arguments; it never means a
    call whose arguments are not known.
    """
    for condition in _listed(conditions):
        if isinstance(condition, str):
            if function_matches(condition, fun):
                return True
        elif isinstance(condition, Mapping) and len(condition) == 1:
            ((pattern, limits),) = condition.items()
            known = words.read() if function_matches(pattern, fun) else None
            if known is not None and any(_fits(limit, *known) for limit in _listed(limits)):
                return True
    return False


def _fits(limit: Any, positional: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    if not isinstance(limit, Mapping):
        return False
    for number, pattern in enumerate(limit.get("args") or []):
        if number >= len(positional):
            return False
        if pattern is not None and not _argument_matches(pattern, positional[number]):
            return False
    for name, pattern in (limit.get("kwargs") or {}).items():
        if name not in keywords:
            return False
        if pattern is not None and not _argument_matches(pattern, keywords[name]):
            return False
    return True


def _argument_matches(pattern: object, value: Any) -> bool:
    if not isinstance(value, str) and room_after(value, LONG) < 0:
        # It would have to be written out for each rule
        return False
    text = str(value)
    if len(text) > LONG and isinstance(pattern, str) and is_risky(pattern, 1):
        return False
    return function_matches(pattern, text)


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
    full = Words([*arg, {"__kwarg__": True, **kwarg}] if kwarg else list(arg))
    if kind == "runner" and fun == SEND and tags_of(rules) is not None:
        return may_fire(rules, tag_sent(arg, kwarg))
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


def minion_may_say(
    acl: Mapping[str, Any] | None, minion_id: str, tag: Any, below: str = ""
) -> bool:
    """
    Whether C{minion_events} lets a minion fire this tag, which is none of Salt's own. Its names
    mean minions as those of C{publisher_acl} mean users; without it every minion may.

    @param below: how a rule has to begin to count; then every minion needs one.
    """
    if not acl:
        return not below
    return isinstance(tag, str) and any(
        fnmatchcase(tag, pattern)
        for name, tags in acl.items()
        if expr_match(minion_id, str(name))
        for pattern in minion_rules(tags)
        if pattern.startswith(below)
    )


def minion_rules(tags: Any) -> list[str]:
    """The globs of one name of C{minion_events}."""
    return [each for each in _listed(tags) if isinstance(each, str)]


def peer_rules(peer: Mapping[str, Any] | None, minion_id: str) -> list[Any]:
    """What C{peer}, C{peer_run} or C{mine_get} grants a minion: all lists whose name matches."""
    found: list[Any] = []
    for pattern, rules in (peer or {}).items():
        if isinstance(rules, (list, tuple)) and function_matches(pattern, minion_id):
            found += rules
    return found


def peer_allows(
    peer: Mapping[str, Any] | None, minion_id: str, fun: str, arg: Sequence[Any] | None = None
) -> bool:
    """
    Whether a minion may run this function as a runner, or read it from the mine. Functions that
    are called in turn must be allowed as well; rules for some targets do not count.
    """
    rules = peer_rules(peer, minion_id)
    if not rules or not isinstance(fun, str):
        return False
    try:
        names = [fun, *nested_functions(fun, arg or [])]
    except Unreadable:
        return False
    return all(any(function_matches(rule, name) for rule in rules) for name in names)


def peer_may_publish(
    peer: Mapping[str, Any] | None,
    minion_id: str,
    fun: Any,
    arg: Sequence[Any] | None,
    tgt: Any,
    tgt_type: str,
    ret: Any = "",
) -> Judging[Grant | None]:
    """
    Whether a minion may publish this; C{publish.*} never, also in turn: a minion would publish
    in another's name.
    """
    rules = peer_rules(peer, minion_id)
    if not rules or not extras_allowed(rules, {"ret": ret}):
        return None
    try:
        for name, own in calls(fun, arg):
            inside = yield from nesting(name, own)
            if any(each.startswith("publish.") for each in (name, *inside.functions)):
                return None
    except Unreadable:
        return None
    return (yield from allowed(rules, fun, arg, tgt, tgt_type))


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
