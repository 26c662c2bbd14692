"""
Functions that a call names in its arguments: C{saltutil.cmd}, C{module.run}, slots, ...

A user who may run only C{saltutil.cmd} may not thereby run everything. So every function to which a
call leads is checked, and every returner (T-ACL-1). Arguments are read as minions read them. The
contents of a template, a state tree or a script cannot be seen: a user who may run those may run
anything.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from attrs import define, field

from saltwisted.domain.arguments import SLOT, TEXT, keyword_of, split_words, yamlify
from saltwisted.errors import SaltwistedError
from saltwisted.wire.decoding import at_once

DEPTH = 8
"""Calls within calls that are followed."""
ITEMS = 65_536
"""Values in arguments that are looked at, again for each call that they lead to."""
STEP = 4096
"""Of these, values that are looked at in one step."""
SLOT_COSTS = 16
"""As how many of these one counts that has to be taken apart."""
FUNCTIONS = 1024
"""Functions of one command, or of one call to which it leads."""
NAME = 255
"""Characters of a function's name; rules may hold any expression to judge it by."""

_SLOT = re.compile(r"__slot__:\s*salt:\s*([\w.]+)\s*\(")


class Unreadable(SaltwistedError):
    """A call leads to something that cannot be read; it is refused."""


class Step(NamedTuple):
    """
    A call to which another one leads.

    @ivar fun: its function, or several with commas.
    @ivar arg: its arguments, C{None} if they are unknown.
    """

    fun: Any
    arg: Sequence[Any] | None = None


@define
class Nested:
    """The calls to which a call leads, without itself."""

    functions: list[str] = field(factory=list)
    returners: list[str] = field(factory=list)


def nested(fun: str, arg: Sequence[Any]) -> Nested:
    """
    Everything to which a call leads, however deep.

    @raises Unreadable: that cannot be determined.
    """
    found: Nested = at_once(nesting(fun, arg))
    return found


def nesting(fun: str, arg: Sequence[Any]) -> Generator[None, None, Nested]:
    """
    As L{nested}, in steps of some milliseconds at most.

    @raises Unreadable: that cannot be determined.
    """
    found = Nested()
    reading = _Reading(found)
    if fun in CALLERS:
        yield from reading.follow(fun, arg, DEPTH)
    else:
        found.functions += yield from reading.slots(arg)
    return found


def readable(arg: Sequence[Any]) -> bool:
    """Whether all YAML in the arguments is little enough to be read at once."""
    return sum(len(word[1]) for word in map(keyword_of, arg) if word) <= TEXT


def nested_functions(fun: str, arg: Sequence[Any]) -> list[str]:
    """
    Names of the functions to which a call leads.

    @raises Unreadable: that cannot be determined.
    """
    return nested(fun, arg).functions


class _Reading:
    """One call taken apart, within bounds."""

    def __init__(self, found: Nested) -> None:
        self._found = found
        self._text = TEXT
        self._items = ITEMS

    def slots(self, value: Any) -> Generator[None, None, list[str]]:
        """The functions of all slots, wherever they are."""
        found: list[str] = []
        waiting: deque[Any] = deque([(value,)])
        looked = 0
        while waiting:
            some = waiting.popleft()
            self._spend(len(some))
            for item in some:
                kind = type(item)
                if kind is str:
                    if SLOT in item:
                        found += _slots_of(item)
                        looked += SLOT_COSTS
                        if looked > STEP:
                            looked = 0
                            yield
                elif kind is dict or isinstance(item, Mapping):
                    if item:
                        waiting.append(item)
                        waiting.append(item.values())
                elif (kind is list or kind is tuple) and item:
                    waiting.append(item)
            looked += 1 + len(some)
            if looked > STEP:
                looked = 0
                yield
        return found

    def follow(self, fun: str, arg: Sequence[Any], depth: int) -> Generator[None, None, None]:
        """A call that leads to others."""
        self._text -= sum(len(word[1]) for word in map(keyword_of, arg) if word)
        if depth == 0 or self._text < 0:
            raise Unreadable("calls are nested too deeply, or there is too much YAML")
        positional, keywords = split_words(arg)
        slots = yield from self.slots([positional, keywords])
        yield
        for step in (*map(Step, slots), *CALLERS[fun](positional, keywords)):
            if step is NOTHING:
                yield
                continue
            if isinstance(step, Returner):
                self._found.returners += names_of(step.name)
                continue
            if isinstance(step.fun, str) and step.fun.count(",") >= FUNCTIONS:
                raise Unreadable("too many functions")
            yield
            for name, own in calls(step.fun, step.arg):
                self._spend(1)
                if len(name) > NAME:
                    raise Unreadable("a function name that is too long")
                self._found.functions.append(name)
                if name not in CALLERS:
                    continue
                if step.arg is None:
                    raise Unreadable(f"{name} within {fun}")
                yield from self.follow(name, own, depth - 1)

    def _spend(self, items: int) -> None:
        self._items -= items
        if self._items < 0:
            raise Unreadable("too many arguments")


def calls(fun: Any, arg: Any) -> list[tuple[str, list[Any]]]:
    """
    The functions of a command with their arguments; several come as a list or with commas.

    For several functions C{arg} is a list of lists, in the same order.
    """
    args = list(arg) if isinstance(arg, (list, tuple)) else [] if arg is None else [arg]
    if isinstance(fun, str) and "," not in fun:
        return [(fun.strip(), args)]
    if not isinstance(fun, (str, list, tuple)):
        return []
    names = fun.split(",") if isinstance(fun, str) else [str(name) for name in fun]
    found = []
    for number, name in enumerate(names):
        own = args[number] if number < len(args) else []
        found.append((name.strip(), list(own) if isinstance(own, (list, tuple)) else [own]))
    return found


def names_of(value: Any) -> list[str]:
    """Names in a list, or in a text with commas."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in names_of(str(item))]
    return [] if value is None else [str(value)]


def _slots_of(text: str) -> Iterator[str]:
    """The functions of a text with slots: it may be one, or the value of a keyword."""
    word = keyword_of(text) if "=" in text[:256] else None
    for each in (text, word[1]) if word else (text,):
        if each.lstrip().startswith(SLOT):
            match = _SLOT.match(each.lstrip())
            if match is None:
                raise Unreadable("a slot")
            yield match[1]


class Returner(NamedTuple):
    """Returners that get the returns: one, or several with commas."""

    name: Any


NOTHING = Returner(None)
"""A step in which nothing was found."""

Reader: TypeAlias = Callable[[list[Any], dict[str, Any]], Iterator[Step | Returner]]


def _at(args: list[Any], kwargs: Mapping[str, Any], position: int, keyword: str) -> Any:
    """An argument by keyword or position."""
    if keyword in kwargs:
        return kwargs[keyword]
    return args[position] if 0 <= position < len(args) else None


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _words(kwargs: Any, *without: str) -> list[Any]:
    """Keywords as an argument."""
    if not isinstance(kwargs, Mapping):
        return []
    rest = {str(key): kwargs[key] for key in kwargs if key not in without}
    return [{**rest, "__kwarg__": True}] if rest else []


def _named(position: int, keyword: str) -> Reader:
    """A function that is given another one's name, and behind it that one's arguments."""

    def read(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
        name = _at(args, kwargs, position, keyword)
        if name is not None:
            yield Step(_plain(name), [*args[position + 1 :], *_words(kwargs, keyword)])

    return read


def _plain(name: Any) -> Any:
    """A name, or several with commas; of a list, each is one of several functions."""
    if isinstance(name, bytes):
        return name.decode("utf-8", "replace")
    return name if isinstance(name, str) or name is None else names_of(name)


def _owners(kwargs: Mapping[str, Any]) -> None:
    """Where returns go besides, and how, no rule allows; so nobody may hide it in a call."""
    for name in ("ret_config", "ret_kwargs", "return_config", "return_kwargs"):
        if kwargs.get(name):
            raise Unreadable(name)


_COMMAND = ("tgt", "fun", "arg", "timeout", "tgt_type", "ret", "kwarg", "ssh", "expect_minions")


def _command(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{saltutil.cmd(tgt, fun, arg, timeout, tgt_type, ret, kwarg)}."""
    _owners(kwargs)
    name = _at(args, kwargs, 1, "fun")
    if name is not None:
        own = [*_list(_at(args, kwargs, 2, "arg")), *_words(_at(args, kwargs, 6, "kwarg"))]
        yield Step(_plain(name), [*own, *_words(kwargs, *_COMMAND)])
    yield Returner(_at(args, kwargs, 5, "ret") or None)


def _publish(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{publish.publish(tgt, fun, arg, tgt_type, returner)}."""
    name = _at(args, kwargs, 1, "fun")
    if name is not None:
        own = _at(args, kwargs, 2, "arg")
        if isinstance(own, str) and len(own) > TEXT:
            raise Unreadable("there is too much YAML")
        yield Step(_plain(name), _list(yamlify(own)))
    yield Returner(_at(args, kwargs, 4, "returner") or None)


def _cross(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{test.cross_test(func, args)}."""
    name = _at(args, kwargs, 0, "func")
    if name is not None:
        yield Step(_plain(name), _list(_at(args, kwargs, 1, "args")))


def _mine_send(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{mine.send(name)}: C{mine_function} is called where it is given, else C{name}."""
    name = kwargs.get("mine_function") or _at(args, kwargs, 0, "name")
    if name is not None:
        rest = _words(kwargs, "name", "mine_function", "allow_tgt", "allow_tgt_type")
        yield Step(_plain(name), [*args[1:], *rest])


def _mine_update(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{mine.update(clear, mine_functions)}: an entry may go by one name and call another."""
    # Whichever it is: Salt 3006 takes the functions as the first argument
    for wanted in (kwargs.get("mine_functions"), *args):
        if isinstance(wanted, (list, tuple)):
            wanted = dict.fromkeys(names_of(wanted))
        if not isinstance(wanted, Mapping):
            continue
        for alias, definition in wanted.items():
            entries = _list(definition)
            maps = [entry for entry in entries if isinstance(entry, Mapping)]
            own = [entry for entry in entries if not isinstance(entry, Mapping)]
            for entry in maps:
                own += _words(entry, "mine_function", "allow_tgt", "allow_tgt_type")
            others = [entry["mine_function"] for entry in maps if entry.get("mine_function")]
            if len(others) > 1:
                raise Unreadable("more than one mine_function in an entry")
            for name in (str(alias), *others):
                yield Step(_plain(name), own)


def _schedule(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{schedule.add(name, function=, job_args=, job_kwargs=, returner=)}."""
    _owners(kwargs)
    name = kwargs.get("function")
    if name is not None:
        own = [*_list(kwargs.get("job_args")), *_words(kwargs.get("job_kwargs"))]
        yield Step(_plain(name), own)
    yield Returner(kwargs.get("returner"))


def _saltcheck(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{saltcheck.run_test(test={'module_and_function': ...})}."""
    test = kwargs.get("test")
    if isinstance(test, Mapping) and test.get("module_and_function") is not None:
        own = [*_list(test.get("args")), *_words(test.get("kwargs"))]
        yield Step(_plain(test["module_and_function"]), own)


# -- states that are called one by one ----------------------------------------------------------


def _single(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{state.single(fun, name)}."""
    yield from _state(_at(args, kwargs, 0, "fun"), {**kwargs, "name": _at(args, kwargs, 1, "name")})


def _low(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{state.low(data)}."""
    data = _at(args, kwargs, 0, "data")
    if isinstance(data, Mapping):
        yield from _state(f"{data.get('state')}.{data.get('fun')}", data)


def _high(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{state.high(data)}: C{{id: {state: [function, {argument: value}]}}}."""
    data = _at(args, kwargs, 0, "data")
    for name, body in data.items() if isinstance(data, Mapping) else ():
        yield NOTHING
        if isinstance(body, str):
            body = {body: []}
        for state, entries in body.items() if isinstance(body, Mapping) else ():
            words: dict[Any, Any] = {"name": name}
            functions = []
            for entry in _list(entries):
                if isinstance(entry, Mapping):
                    words.update(entry)
                else:
                    functions.append(str(entry))
            if len(functions) > 1:
                raise Unreadable("more than one function in a state")
            if words.get("names"):
                words["name"] = _list(words["names"])
                if any(isinstance(each, Mapping) for each in words["name"]):
                    raise Unreadable("names that have arguments of their own")
            yield from _state(".".join([str(state), *functions]), words)


def _state(fun: Any, words: Mapping[Any, Any]) -> Iterator[Step | Returner]:
    """What one state calls: its conditions, and what some take as the name of a function."""
    for condition in ("onlyif", "unless", "check_cmd"):
        for entry in _list(words.get(condition)):
            if isinstance(entry, Mapping):
                if entry.get("fun") is not None:
                    own = [*_list(entry.get("args")), *_words(entry, "fun", "args")]
                    yield Step(_plain(entry["fun"]), own)
            elif not isinstance(entry, bool):
                yield Step("cmd.retcode", [entry])
    reader = STATES.get(".".join(str(fun).split(".")[:2]))
    if reader is not None:
        yield from reader([], {str(key): words[key] for key in words})


_OWN = frozenset(("name", "fun", "state", "sfun", "test", "queue", "__reqs__"))


def _module_run(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{module.run}: functions as keywords, or one as C{name}."""
    yield Returner(kwargs.get("returner"))
    for key, given in kwargs.items():
        if "." in key:
            own = [entry for entry in _list(given) if not isinstance(entry, Mapping)]
            for entry in _list(given):
                own += _words(entry) if isinstance(entry, Mapping) else []
            yield Step(key.split(":")[0], own)
    if not any("." in key for key in kwargs):
        rest = {key.removeprefix("m_"): kwargs[key] for key in kwargs if key not in _OWN}
        own = [*_list(rest.get("args")), *_words(rest), *_words(rest.get("kwargs"))]
        name = kwargs.get("name")
        yield Step(_plain(name), None if isinstance(name, list) else own)


def _salt_function(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """The state C{salt.function}."""
    _owners(kwargs)
    name = kwargs.get("name")
    own = [*_list(kwargs.get("arg")), *_words(kwargs.get("kwarg"))]
    yield Step(_plain(name), None if isinstance(name, list) else own)
    if kwargs.get("fail_function") is not None:
        yield Step(_plain(kwargs["fail_function"]), None)
    yield Returner(kwargs.get("ret") or None)


def _salt_state(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """The state C{salt.state}."""
    _owners(kwargs)
    which = "highstate" if kwargs.get("highstate") else "top" if kwargs.get("top") else "sls"
    yield Step(f"state.{which}", [])
    yield Returner(kwargs.get("ret") or None)


def _fixed(name: str) -> Reader:
    """A state that always calls the same function."""

    def read(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
        yield Step(name, [])

    return read


def _loop(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Step | Returner]:
    """C{loop.until}: C{name} until a condition holds."""
    own: list[Any] = []
    for words in (kwargs.get("m_args") or kwargs.get("args"), kwargs.get("m_kwargs")):
        own += _words(words) if isinstance(words, Mapping) else _list(words)
    name = kwargs.get("name")
    own += _words(kwargs.get("kwargs"))
    yield Step(_plain(name), None if isinstance(name, list) else own)


STATES: Mapping[str, Reader] = {
    "module.run": _module_run,
    "module.wait": _module_run,
    "module.watch": _module_run,
    "module.mod_watch": _module_run,
    "module.xrun": _module_run,
    "schedule.present": _schedule,
    "salt.function": _salt_function,
    "salt.state": _salt_state,
    "salt.runner": _fixed("saltutil.runner"),
    "salt.parallel_runners": _fixed("saltutil.runner"),
    "salt.wheel": _fixed("saltutil.wheel"),
    "loop.until": _loop,
    "loop.until_no_eval": _loop,
}
"""States that call functions by name; they are seen where a state is called one by one."""

CALLERS: Mapping[str, Reader] = {
    "saltutil.cmd": _command,
    "saltutil.cmd_iter": _command,
    "saltutil.mmodule": _named(1, "fun"),
    "publish.publish": _publish,
    "publish.full_data": _publish,
    "mine.send": _mine_send,
    "mine.update": _mine_update,
    "test.try": _named(0, "module"),
    "test.try_": _named(0, "module"),
    "test.cross_test": _cross,
    "saltcheck.run_test": _saltcheck,
    "schedule.add": _schedule,
    "schedule.modify": _schedule,
    "schedule.build_schedule_item": _schedule,
    "state.single": _single,
    "state.low": _low,
    "state.high": _high,
    # Not ours, but Salt's minions have them
    "chroot.call": _named(1, "function"),
    "docker.call": _named(1, "function"),
    "highstate_doc.render": _named(1, "jinja_template_function"),
    "napalm.netmiko_fun": _named(0, "fun"),
    "napalm.junos_call": _named(0, "fun"),
    "snapper.run": _named(0, "function"),
    "transactional_update.call": _named(0, "function"),
}
"""Functions that call others by name; state functions that leave a trace are among them."""
