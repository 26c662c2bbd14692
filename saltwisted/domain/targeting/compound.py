"""
Compound targets: C{G@os:Debian and ( web* or L@a,b ) and not E@.*old}.

There are two readers, because Salt has two. The minion reads the words as Python's C{and or not}
(L{evaluate}). The master reads them as set operators, closes forgotten parentheses, and inserts
C{and} before C{not} (L{select}). Where Salt's two differ, ours differ in the same way: a job
reaches the minions that it would reach under Salt, and the master waits for those for which Salt
would wait. No C{eval}: both are operator stacks over the words. Words are separated by white space;
an operator is a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple

from saltwisted.domain.targeting.nodegroups import (
    EXPANDED,
    OPERATORS,
    TOO_MANY,
    Note,
    enclosed,
    silent,
)

WORD = re.compile(r"(?:(?P<engine>[GPIJLNSERTM])(?P<delimiter>(?<=[GPIJ]).)?@)?(?P<pattern>.+)$")
"""An engine letter, for some a delimiter of one character, C{@}, and the pattern."""


class Word(NamedTuple):
    """One operand: C{engine} is empty for a glob; C{delimiter} is empty when not given."""

    engine: str
    delimiter: str
    pattern: str


def parse_word(word: str) -> Word:
    """Split C{G;@os;Debian} into its parts."""
    match = WORD.match(word)
    if match is None:
        return Word("", "", word)
    return Word(match["engine"] or "", match["delimiter"] or "", match["pattern"])


def words_of(expression: Any) -> list[str] | None:
    """The words of an expression; C{None} if it is neither text nor a list."""
    if isinstance(expression, str):
        return expression.split()
    if isinstance(expression, (list, tuple)):
        return [str(word) for word in expression]
    return None


class _Malformed(Exception):
    """Operators and operands do not fit together."""


_NOTHING = object()
"""C{( )}: an empty pair of parentheses, which Python reads as an empty tuple."""


class _Stack:
    """
    Operator precedence over a stream of operands and operators.

    @param binary: symbol to its rank and function; a higher rank binds tighter.
    @param unary: likewise for prefix operators.
    """

    def __init__(
        self,
        binary: Mapping[str, tuple[int, Callable[[Any, Any], Any]]],
        unary: Mapping[str, tuple[int, Callable[[Any], Any]]],
    ) -> None:
        self._binary = binary
        self._unary = unary
        self._values: list[Any] = []
        self._operators: list[str] = []
        self._want_operand = True
        self._previous = ""

    def operand(self, value: Any) -> None:
        if not self._want_operand:
            raise _Malformed
        self._values.append(value)
        self._want_operand = False
        self._previous = "value"

    def operator(self, symbol: str) -> None:
        if symbol == "(":
            if not self._want_operand:
                raise _Malformed
            self._operators.append(symbol)
        elif symbol == ")":
            self._close()
        elif self._want_operand:
            if symbol not in self._unary:
                raise _Malformed
            self._operators.append("u" + symbol)
        else:
            if symbol not in self._binary:
                raise _Malformed
            rank = self._binary[symbol][0]
            while self._operators and self._rank(self._operators[-1]) >= rank:
                self._reduce()
            self._operators.append(symbol)
            self._want_operand = True
        self._previous = symbol

    def _close(self) -> None:
        if self._want_operand:
            if self._previous != "(":
                raise _Malformed
            self._values.append(_NOTHING)
            self._want_operand = False
        while self._operators and self._operators[-1] != "(":
            self._reduce()
        if not self._operators:
            raise _Malformed
        self._operators.pop()

    def _rank(self, symbol: str) -> int:
        if symbol == "(":
            return -1
        if symbol[0] == "u":
            return self._unary[symbol[1:]][0]
        return self._binary[symbol][0]

    def _reduce(self) -> None:
        symbol = self._operators.pop()
        if symbol[0] == "u":
            self._values.append(self._unary[symbol[1:]][1](self._values.pop()))
        else:
            right = self._values.pop()
            left = self._values.pop()
            self._values.append(self._binary[symbol][1](left, right))

    def result(self) -> Any:
        if self._want_operand:
            raise _Malformed
        while self._operators:
            if self._operators[-1] == "(":
                raise _Malformed
            self._reduce()
        return self._values[0]


def _truth(value: Any) -> bool:
    return value is not _NOTHING and bool(value)


_BOOLEAN = (
    {
        "or": (1, lambda left, right: _truth(left) or _truth(right)),
        "and": (2, lambda left, right: _truth(left) and _truth(right)),
    },
    {"not": (3, lambda value: not _truth(value))},
)


def evaluate(
    expression: Any,
    ask: Callable[[Word], bool | None],
    nodegroups: Mapping[str, Any],
    note: Note = silent,
) -> bool:
    """
    A minion's reading: is it me?

    @param ask: the answer for one operand; C{None} when its engine is unknown, which
        makes the whole expression false.
    @param note: hears why an expression is refused.
    """
    words = words_of(expression)
    if words is None:
        note("Compound target received that is neither string, list nor tuple")
        return False
    stack = _Stack(*_BOOLEAN)
    last = ""
    words.reverse()
    try:
        while words:
            word = words.pop()
            if word in OPERATORS:
                if not last and word not in ("(", "not"):
                    note(f"Invalid beginning operator: {word}")
                    return False
                if last == "(" and word in ("and", "or"):
                    note(f'Invalid beginning operator after "(": {word}')
                    return False
                if word == "not" and last and last not in ("and", "or", "("):
                    stack.operator("and")
                stack.operator(word)
                last = word
                continue
            parsed = parse_word(word)
            if parsed.engine == "N":
                words += reversed(enclosed(parsed.pattern, nodegroups, note))
                continue
            answer = ask(parsed)
            if answer is None:
                note(f'Unrecognized target engine "{parsed.engine}" for expression "{word}"')
                return False
            stack.operand(answer)
            last = "value"
        return _truth(stack.result())
    except _Malformed:
        note(f"Invalid compound target: {_text(expression)}")
        return False


def _sets(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(left: Any, right: Any) -> Any:
        if left is _NOTHING or right is _NOTHING:
            raise _Malformed
        return function(left, right)

    return checked


_SETS: tuple[dict[str, Any], dict[str, Any]] = (
    {
        "|": (1, _sets(lambda left, right: left | right)),
        "&": (2, _sets(lambda left, right: left & right)),
        "-": (3, _sets(lambda left, right: left - right)),
    },
    {},
)


class _Selection:
    """
    What a master has read so far of an expression.

    @ivar last: what was read last: an operator, or C{value}.
    """

    def __init__(self, expression: Any, everyone: Callable[[], set[str]]) -> None:
        self.last = ""
        self._expression = expression
        self._everyone = everyone
        self._stack = _Stack(*_SETS)
        self._open: list[str] = []  # '(' as written, '-' for a 'not' waiting for its operand

    def _push(self, symbol: str) -> None:
        self._stack.operator(symbol)
        self.last = symbol

    def operator(self, word: str) -> str:
        """
        Take an operator; why it cannot stand there, empty if it can.

        @raises _Malformed: the expression makes no sense.
        """
        if not self.last and word not in ("not", "("):
            return f"Expression may begin with binary operator: {word}"
        if self.last == "(" and word in ("and", "or"):
            return f'Invalid beginning operator after "(": {word}'
        if word == "not":
            if self.last and self.last not in ("&", "|", "("):
                self._push("&")
            self._push("(")
            self._stack.operand(self._everyone())
            self._push("-")
            self._open.append("-")
        elif word == "(":
            self._push("(")
            self._open.append("(")
        elif word == ")":
            if not self._open or self._open[-1] != "(":
                text = _text(self._expression)
                return f"Unexpected right parenthesis in compound target: {text}"
            self._push(")")
            self._open.pop()
            self._satisfied()
        else:
            self._push("&" if word == "and" else "|")
        return ""

    def operand(self, found: set[str]) -> None:
        """Take the minions that a word means."""
        self._stack.operand(found)
        self.last = "value"
        self._satisfied()

    def _satisfied(self) -> None:
        if self._open and self._open[-1] == "-":
            self._push(")")
            self._open.pop()

    def close(self) -> Iterator[None]:
        """Close what was left open, in steps."""
        for _ in self._open:
            self._push(")")
            yield None

    def result(self) -> set[str]:
        """
        Who it is.

        @raises _Malformed: the expression makes no sense.
        """
        result = self._stack.result()
        return set() if result is _NOTHING else result


def select(
    expression: Any,
    find: Callable[[Word, bool], Generator[Any, Any, set[str] | None]],
    everyone: Callable[[], set[str]],
    nodegroups: Mapping[str, Any],
    note: Note = silent,
) -> Generator[Any, Any, set[str] | None]:
    """
    A master's reading: which minions match, in steps, one for each word and those of C{find}.

    @param find: the minions of one operand, and whether it is being subtracted (missing names do
        not count then); C{None} if its engine is unknown.
    @param everyone: all accepted minions, from which C{not} subtracts.
    @return: the ids; C{None} if the expression is invalid, and so matches nobody.
    """
    words = words_of(expression)
    if words is None:
        note("Compound target that is neither string, list nor tuple")
        return None
    selection = _Selection(expression, everyone)
    words.reverse()
    count = 0
    try:
        while words:
            word = words.pop()
            yield None
            count += 1
            if count > EXPANDED:
                note(TOO_MANY)
                return None
            if word in OPERATORS:
                problem = selection.operator(word)
                if problem:
                    note(problem)
                    return None
                continue
            parsed = parse_word(word)
            if parsed.engine == "N":
                words += reversed(enclosed(parsed.pattern, nodegroups, note))
                continue
            found = yield from find(parsed, selection.last == "-")
            if found is None:
                note(f'Unrecognized target engine "{parsed.engine}" for expression "{word}"')
                return None
            selection.operand(found)
        yield from selection.close()
        return selection.result()
    except _Malformed:
        note(f"Invalid compound target: {_text(expression)}")
        return None


def _text(expression: Any) -> str:
    text = expression if isinstance(expression, str) else " ".join(map(str, expression))
    return text if len(text) <= 200 else text[:197] + "..."
