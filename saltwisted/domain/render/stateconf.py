"""
The C{stateconf} renderer: SLS files that are parts of others, as functions are parts of programs.

Names that begin with a dot belong to the file: the id C{.here} of the file C{web.site} is
C{web.site::here} in all other files. Each file ends with a state C{.goal} that requires all the
others. The arguments of its C{stateconf.set} states, including those of files that were rendered
before, are variables of its template.
"""

from __future__ import annotations

import copy
import getopt
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import define, field

from saltwisted.domain.highstate.verify import mistakes
from saltwisted.domain.render.errors import TemplateFailure

High = dict[str, Any]
Step = Callable[[Any, Mapping[str, Any]], Any]
"""Renders a template with further variables, or reads data (which has no use for them)."""

REQUIRE = ("require", "watch", "listen", "onchanges", "onfail")
REQUIRE_IN = tuple(f"{word}_in" for word in REQUIRE)
REQUISITES = (*REQUIRE, *REQUIRE_IN, "use", "use_in")
END = r"#\s*-+\s*end of state config\s*-+"
START, GOAL, FUNCTION = ".start", ".goal", "stateconf.set"
NO_STATES = ("include", "exclude", "extend")
USAGE = """Invalid use of stateconf renderer!
Usage: #!stateconf [-GoSp] [<data_renderer> [options] . <template_renderer> [options]]

such as: #!stateconf -o yaml . jinja

  -G  no state .goal, which requires all the others
  -o  states run in the order in which they stand, by a require of each on the one before
  -s  a state .start, which comes before all the others
  -p  high data comes from the renderer before; stateconf.set sets nothing
"""


class Values(dict[str, Any]):
    """The arguments of a C{stateconf.set}, for templates that want attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@define
class Known:
    """
    What the files rendered so far have set, for those that follow.

    @ivar values: by the whole id of the C{stateconf.set}.
    @ivar extended: what an C{extend} has said about one that may still follow.
    """

    values: dict[str, Values] = field(factory=dict)
    extended: dict[str, Values] = field(factory=dict)


@define
class StateConf:
    """
    One file.

    @ivar known: what others have set; added to.
    @ivar engine: finds the step of a renderer, by its name and argument.
    """

    known: Known
    sls: str
    saltenv: str
    engine: Callable[[str, str], Step | None]
    flags: frozenset[str] = frozenset()

    def render(self, data: Any, argument: str) -> Any:
        """
        The high data of a file.

        @param data: its text, or with C{-p} high data.
        @param argument: what stands behind the renderer's name.
        @raise TemplateFailure: wrong options, an unknown renderer, or what cannot be put in order.
        """
        try:
            flags, words = getopt.getopt(argument.split(), "Gosp")
        except getopt.GetoptError as error:
            raise TemplateFailure(str(error), sls=self.sls) from error
        self.flags = frozenset(flag for flag, _ in flags)
        if "-p" in self.flags:
            return self._prepared(data)
        read, template = self._steps(" ".join(words) or "yaml . jinja")

        def rendered(text: str, values: Mapping[str, Any], first: bool = False) -> High:
            folder = posixpath.dirname(self.sls.replace(".", "/")) if "." in self.sls else self.sls
            made: High = self._prepared(
                read(template(text, {"sls_dir": folder or ".", **values}), {}), first
            )
            return made

        text = data if isinstance(data, str) else str(data.read())
        mark = re.search(END, text)
        if mark:
            rendered(text[: mark.start()], {}, first=True)
        own = f"{self.sls}::"
        return rendered(text, {k.removeprefix(own): v for k, v in self.known.values.items()})

    def _steps(self, line: str) -> tuple[Step, Step]:
        """The two renderers of C{data . template}; a dot behind a backslash is a dot."""
        parts = [
            part.strip().replace("\\.", ".")
            for part in re.split(r"\s+(?<!\\)\.\s+", line, maxsplit=1)
        ]
        if len(parts) < 2:
            raise TemplateFailure(USAGE, sls=self.sls)
        steps: list[Step] = []
        for part in parts:
            name, _, argument = part.partition(" ")
            step = self.engine(name, argument.strip())
            if step is None:
                raise TemplateFailure(f"Renderer: '{name}.render' is not available!", sls=self.sls)
            if "-o" in self.flags and not steps and name != "yaml":
                words = "Implicit ordering is only supported if the yaml renderer is used!"
                raise TemplateFailure(words, sls=self.sls)
            steps.append(step)
        return steps[0], steps[1]

    # -- high data

    def _prepared(self, high: Any, first: bool = False) -> Any:
        """
        High data with whole names, and with the states that this renderer adds.

        @param first: it is the part before the end of the configuration alone.
        """
        try:
            return self._worked(copy.deepcopy(high), first)
        except TemplateFailure:
            raise
        except Exception as error:  # data of any form may be here
            if isinstance(high, dict):
                high = {
                    id_: {"__sls__": self.sls, **body} if isinstance(body, dict) else body
                    for id_, body in high.items()
                }
            found = mistakes(high) or ["sls preprocessing/rendering failed!"]
            raise TemplateFailure("\n".join(found), sls=self.sls) from error

    def _worked(self, data: High, first: bool) -> High:
        for id_, states in data.items():
            if isinstance(states, str):
                data[id_] = {states: []}
        self._name_files(data)
        if not first and "-o" in self.flags:
            self._put_in_order(data)
        if "-s" in self.flags:
            self._add_start(data)
        if not first and "-G" not in self.flags:
            self._add_goal(data)
        self._name_states(data)
        self._take_values(data)
        return data

    def _failure(self, text: str) -> TemplateFailure:
        return TemplateFailure(text, sls=self.sls)

    def _file(self, relative: str, sls: str) -> str:
        """The whole name of C{.other}; each dot more is a folder further up."""
        name = relative.lstrip(".")
        levels = len(relative) - len(name)
        parts = sls.split(".")
        if levels > len(parts):
            raise self._failure("Attempted relative include goes beyond top level package")
        return ".".join([*parts[:-levels], name])

    def _id(self, relative: str) -> str:
        """The whole id of C{.here}, or of C{.other::here}."""
        if "::" in relative:
            return self._file(relative, self.sls)
        return "::".join(self._file(relative, f"{self.sls}.").rsplit(".", 1))

    def _name_files(self, data: High) -> None:
        includes = data.get("include", [])
        for number, each in enumerate(includes):
            env, name = each.popitem() if isinstance(each, dict) else (self.saltenv, each)
            if name.startswith("."):
                includes[number] = {env: self._file(name, self.sls)}
            elif isinstance(each, dict):
                each[env] = name
        for each in data.get("exclude", []):
            if "sls" in each and each["sls"].startswith("."):
                each["sls"] = self._file(each["sls"], self.sls)

    def _put_in_order(self, data: High) -> None:
        """Each state requires the one before it."""
        for id_, _, _, args in _states(data):
            if id_ != "extend" and any(_pairs(args, ["names"])):
                raise self._failure(
                    f"'names' declaration(found in state id: {id_}) is not supported with "
                    "implicitly ordered states! You should generate the states in a template "
                    "for-loop instead."
                )
        after = {_tag(id_, state) for id_, _, state, _ in _states(data) if id_ != "extend"}
        before: set[str] = set()
        last: dict[str, str] = {}
        for id_, _, state, args in list(_states(data)):
            if id_ == "extend":
                continue
            tag = _tag(id_, state)
            after.discard(tag)
            self._check_order(tag, args, before, after)
            if last:
                for _, _, value in _pairs(args, ["require"]):
                    value.insert(0, last)
                    break
                else:
                    args.append({"require": [last]})
            before.add(tag)
            last = {_module(state): id_}

    def _check_order(self, tag: str, args: Any, before: set[str], after: set[str]) -> None:
        """No state may require one that runs after it."""
        for words, others, where in ((REQUIRE, after, "after"), (REQUIRE_IN, before, "before")):
            for _, state, id_ in _inner(args, words):
                if _tag(id_, state) in others:
                    raise self._failure(
                        f"State({tag}) can't {'/'.join(words)} a state({_tag(id_, state)}) "
                        f"defined {where} it!"
                    )

    def _add_start(self, data: High) -> None:
        name = START
        if name in data:
            raise self._failure(
                f"Can't generate start state({name})! The same state id already exists!"
            )
        if not data:
            return
        for id_, states in data.items():
            if id_ in NO_STATES or id_.startswith("__"):
                continue
            if states.get("__sls__", self.sls) == self.sls:
                break
        else:
            raise self._failure("Can't determine the first state in the sls file!")
        data[name] = {FUNCTION: [{"require_in": [{_module(next(iter(states))): id_}]}]}

    def _add_goal(self, data: High) -> None:
        name = GOAL
        if name in data:
            raise self._failure(
                f"Can't generate goal state({name})! The same state id already exists!"
            )
        wanted = [
            {_module(state): id_}
            for id_, states, state, _ in _states(data, NO_STATES)
            if "__sls__" not in states
        ]
        data[name] = {FUNCTION: [{"require": wanted}]}

    def _name_states(self, data: High, is_extend: bool = False) -> None:
        if "extend" in data and not is_extend:
            self._name_states(data["extend"], True)
        for _, _, _, args in _states(data):
            for requisite, state, id_ in _inner(args, REQUISITES):
                if id_.startswith("."):
                    requisite[state] = self._id(id_)
        for id_ in [each for each in data if each.startswith(".")]:
            whole = self._id(id_)
            if whole in data:
                raise self._failure(
                    f"Can't rename state id({id_}) into {whole} because the later already exists!"
                )
            for state, args in data[id_].items():
                is_named = any(isinstance(arg, dict) and next(iter(arg)) == "name" for arg in args)
                if _module(state) != _module(FUNCTION) and not is_named:
                    args.insert(0, {"name": id_[1:]})
            data[whole] = data.pop(id_)

    def _take_values(self, data: High, is_extend: bool = False) -> None:
        """Keep the arguments of C{stateconf.set}, for the templates that come."""
        names = (_module(FUNCTION), FUNCTION)
        kept = self.known.extended if is_extend else self.known.values
        for id_, states in data.items():
            if id_ == "extend" and not is_extend:
                self._take_values(states, True)
                continue
            name = next((each for each in names if each in states), None)
            if name is None:
                continue
            values = kept.setdefault(id_, Values())
            for arg in states[name]:
                if isinstance(arg, dict):
                    key, value = next(iter(arg.items()))
                    values[key] = value
            if not is_extend and id_ in self.known.extended:
                more = self.known.extended[id_]
                for word in REQUIRE:
                    if word in more:
                        more[word] += values.get(word, [])
                values.update(more)


def _states(
    data: Mapping[str, Any], without: tuple[str, ...] = ("include", "exclude")
) -> Iterator[tuple[str, Any, str, Any]]:
    """Id, states of the id, name and arguments of each state."""
    for id_, states in data.items():
        if id_.startswith("__") or id_ in without:
            continue
        for state, args in states.items():
            if not state.startswith("__"):
                yield id_, states, state, args


def _pairs(args: Any, names: Any = None) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Each argument that is a map, with its name and value."""
    for arg in args:
        if isinstance(arg, dict):
            name, value = next(iter(arg.items()))
            if names is None or name in names:
                yield arg, name, value


def _inner(args: Any, names: Any) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """The same of what these arguments have as their values: requisites."""
    for _, _, value in _pairs(args, names):
        yield from _pairs(value)


def _module(state: str) -> str:
    return state.split(".", 1)[0]


def _tag(id_: str, state: str) -> str:
    return f"{id_}:{_module(state)}"
