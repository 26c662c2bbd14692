"""
The rules by which C{file.line}, C{file.blockreplace} and diffs work, on lines of text.

Nothing here reads or writes a file.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)


# -- diffs -------------------------------------------------------------------------


def _texts(lines: Iterable[Any]) -> list[str]:
    """Lines as text: UTF-8 where it is, else Latin-1, which never fails."""
    result = []
    for line in lines:
        data = line if isinstance(line, bytes) else line.encode("utf-8", "surrogateescape")
        try:
            result.append(data.decode("utf-8"))
        except UnicodeDecodeError:
            result.append(data.decode("latin-1"))
    return result


def diff(old: Iterable[Any], new: Iterable[Any], *names: str) -> str:
    """A unified diff of two lists of lines; empty if they are the same."""
    return "".join(_unified(old, new, names))


def _unified(old: Iterable[Any], new: Iterable[Any], names: tuple[str, ...]) -> list[str]:
    first, second = (*names, "", "")[:2]
    return list(difflib.unified_diff(_texts(old), _texts(new), first, second))


def conditional_diff(
    old: Iterable[Any],
    new: Iterable[Any],
    *names: str,
    ignore_ordering: bool = False,
    ignore_whitespace: bool = False,
    ignore_comment_characters: Any = None,
) -> tuple[bool, str]:
    """
    A unified diff, and whether it matters once some differences are disregarded.

    Lines are compared as two bags: what was taken away against what was added.
    """
    lines = _unified(old, new, names)
    lenience = (ignore_ordering, ignore_whitespace, ignore_comment_characters)
    return matters(lines, *lenience), "".join(lines)


def matters(
    lines: Sequence[str],
    ignore_ordering: bool,
    ignore_whitespace: bool,
    ignore_comment_characters: Any,
) -> bool:
    """Whether there is more in the lines of a diff than what is disregarded."""
    comments: list[str] = []
    if isinstance(ignore_comment_characters, str):
        comments = [ignore_comment_characters]
    elif isinstance(ignore_comment_characters, list):
        comments = ignore_comment_characters
    elif ignore_comment_characters is not None:
        log.warning("ignore_comment_characters must be set to a string or list")
    if not (ignore_ordering or ignore_whitespace or comments):
        return bool(lines)
    bags: dict[str, list[str]] = {"+": [], "-": []}
    for line in lines:
        if line[:3] in ("+++", "---") or line[:1] not in bags:
            continue
        rest = line[1:]
        for mark in comments:
            rest = rest.partition(mark)[0]
        if ignore_whitespace:
            rest = rest.strip()
        if rest:
            bags[line[0]].append(rest)
    return sorted(bags["+"]) != sorted(bags["-"])


def loose_regex(text: str) -> str:
    """An expression that finds a text however its words are set apart and its lines broken."""
    whole = ""
    for line in text.splitlines():
        lexer = shlex.shlex(line)
        lexer.whitespace_split = True
        lexer.commenters = ""
        if "'\\\"" in line:
            lexer.quotes = ""
        elif "'" in line:
            lexer.quotes = '"'
        elif '"' in line:
            lexer.quotes = "'"
        gap = r"(?:[\s]+)?"
        whole += gap + gap.join(re.escape(word) for word in lexer) + gap
    return rf"(?m)^{whole}$"


# -- one line ------------------------------------------------------------------------

_EOL = re.compile("((?<!\r)\n|\r(?!\n)|\r\n)$")
LINE_MODES = ("insert", "ensure", "delete", "replace")


def eol(line: str) -> str:
    """The end of a line: a newline of any kind, or nothing."""
    found = _EOL.search(line)
    return found.group() if found else ""


def with_eol(like: str, line: str) -> str:
    """A line with the ending of another."""
    return line.rstrip() + (eol(like) or os.linesep)


def _indented(like: str, line: str, indent: bool) -> str:
    if not indent:
        return line
    return like[: len(like) - len(like.lstrip("\t "))] + line.lstrip()


def _matching(lines: Sequence[str], pattern: str | None) -> list[str] | None:
    """The lines in which a pattern is found, as an expression or word for word."""
    if not lines or not pattern:
        return None
    try:
        compiled = re.compile(pattern, re.DOTALL)
    except Exception as error:
        raise CommandExecutionError(f"{error}: '{pattern}'") from error
    return [line for line in lines if compiled.search(line) or pattern in line]


def _exactly_one(found: Sequence[str], name: str) -> None:
    if len(found) != 1:
        much = "more than" if len(found) > 1 else "less than"
        raise CommandExecutionError(f'Found {much} expected occurrences in "{name}" expression')


def _bare(line: str) -> str:
    return line.rstrip("\r\n")


def check_line_mode(mode: str | None, content: Any, quote: str = "") -> None:
    """
    Refuse a mode that there is not, and one that needs content and has none.

    @raises CommandExecutionError: in Salt's words.
    """
    if mode is None:
        raise CommandExecutionError("Mode was not defined. How to process the file?")
    if mode not in LINE_MODES:
        raise CommandExecutionError(f"Unknown mode: {quote}{mode}{quote}")
    if mode != "delete" and content is None:
        raise CommandExecutionError('Content can only be empty if mode is "delete"')


def set_line(
    lines: list[str],
    content: Any = None,
    match: str | None = None,
    mode: str | None = None,
    location: str | None = None,
    before: str | None = None,
    after: str | None = None,
    indent: bool = True,
) -> list[str]:
    """
    Insert, replace, delete or ensure one line; the rules of C{file.line}.

    @param lines: with their endings, but perhaps the last.
    @raises CommandExecutionError: the place is not clear.
    """
    check_line_mode(mode, content)
    if not match and before is None and after is None:
        match = content
    befores = _matching(lines, before)
    afters = _matching(lines, after)
    matches = _matching(lines, match)
    if not lines and mode in ("delete", "replace"):
        log.warning("Cannot find text to %s. File is empty.", mode)
        return []
    if mode == "delete":
        if matches:
            lines = [line for line in lines if line != matches[0]]
    elif mode == "replace":
        if matches:
            index = lines.index(matches[0])
            lines[index] = _indented(lines[index], content, indent)
    elif mode == "insert":
        lines = _insert(lines, content, location, befores, afters, indent)
    else:
        _ensure(lines, content, befores, afters, indent)
    return lines


def _insert(
    lines: list[str],
    content: str,
    location: str | None,
    befores: list[str] | None,
    afters: list[str] | None,
    indent: bool,
) -> list[str]:
    if befores is None and afters is None and location is None:
        raise CommandExecutionError(
            'On insert either "location" or "before/after" conditions are required.'
        )
    if location:
        if location == "end":
            lines.append(_indented(lines[-1], content, indent) if lines else content)
        elif location == "start":
            lines.insert(0, with_eol(lines[0], content) if lines else content + os.linesep)
    elif befores and afters:
        _exactly_one(befores, "before")
        _exactly_one(afters, "after")
        index = lines.index(befores[0])
        lines.insert(index, _indented(lines[index], content, indent))
    elif afters:
        _exactly_one(afters, "after")
        index = lines.index(afters[0])
        follows = lines[index + 1] if index + 1 < len(lines) else None
        if follows is None or _bare(follows) != _bare(content):
            lines.insert(index + 1, _indented(lines[index], content, indent))
    elif befores:
        _exactly_one(befores, "before")
        index = lines.index(befores[0])
        # For the first line this looks at the last, as Salt does.
        if _bare(lines[index - 1]) != _bare(content):
            lines.insert(index, _indented(lines[index], content, indent))
    else:
        raise CommandExecutionError("Neither before or after was found in file")
    return lines


def _ensure(
    lines: list[str],
    content: str,
    befores: list[str] | None,
    afters: list[str] | None,
    indent: bool,
) -> None:
    if befores and afters:
        _exactly_one(afters, "after")
        _exactly_one(befores, "before")
        first, last = lines.index(afters[0]), lines.index(befores[0])
        if any(line.lstrip() == content for line in lines):
            return
        if first + 1 == last:
            lines.insert(first + 1, _indented(lines[first], content, indent))
        elif first + 2 == last:
            lines[first + 1] = _indented(lines[first], content, indent)
        else:
            raise CommandExecutionError(
                'Found more than one line between boundaries "before" and "after".'
            )
    elif befores:
        _exactly_one(befores, "before")
        index = lines.index(befores[0])
        if index == 0 or _bare(lines[index - 1]) != _bare(content):
            lines.insert(index, _indented(lines[index - 1], content, indent))
    elif afters:
        _exactly_one(afters, "after")
        index = lines.index(afters[0])
        if index + 1 >= len(lines) or _bare(lines[index + 1]) != _bare(content):
            lines.insert(index + 1, _indented(lines[index], content, indent))
    else:
        raise CommandExecutionError(
            "Wrong conditions? Unable to ensure line without knowing where to put it before "
            "and/or after."
        )


def finish_lines(lines: list[str]) -> list[str]:
    """Give every line but the last an ending, like the line before it."""
    for index, line in enumerate(lines[:-1]):
        if not eol(line):
            lines[index] = with_eol(lines[index - 1 if index > 1 else 1], line)
    if lines and lines[-1] == "":
        lines.pop()
    return lines


# -- a marked block --------------------------------------------------------------------

NO_MARKERS = "Cannot edit marked block. Markers were not found in file."


def replace_block(
    lines: Sequence[str],
    start: str,
    end: str,
    content: str,
    append: bool = False,
    prepend: bool = False,
    append_newline: bool | None = False,
    before: str | None = None,
    after: str | None = None,
) -> list[str]:
    """
    The lines with what stands between two markers replaced; the rules of C{file.blockreplace}.

    @param lines: with their endings.
    @param before: expression; without a block, one is put before the first line that fits.
    @raises CommandExecutionError: no block and no other place, or a block without an end.
    """
    if append_newline is None and not content.endswith((os.linesep, "\n")):
        append_newline = True
    parts = content.replace("\r\n", "\n").split("\n")
    linesep = "\n"
    if lines:
        linesep = "\r\n" if lines[0].endswith("\r\n") else "\n"

    def block(opening: bool, closing: str) -> list[str]:
        closing = closing.rstrip("\r\n") + linesep
        made = [start + linesep] if opening else []
        made += [part + linesep for part in parts[:-1]]
        if append_newline:
            made += [parts[-1] + linesep, closing]
        else:
            made.append(parts[-1] + closing)
        return made

    result: list[str] = []
    inside = found = False
    for line in lines:
        if start in line:
            inside = True
            result.append(line)
        elif inside:
            position = line.find(end)
            if position != -1:
                inside, found = False, True
                result += block(False, line[position:])
        else:
            result.append(line)
    if inside:
        raise CommandExecutionError(
            "Unterminated marked block. End of file reached before marker_end."
        )
    if found:
        return result
    if prepend:
        return block(True, end) + result
    if append:
        if result and not result[-1].endswith(linesep):
            result[-1] += linesep
        return result + block(True, end)
    pattern = before or after
    if pattern:
        for index, line in enumerate(lines):
            if re.search(pattern, line):
                place = index if before else index + 1
                return result[:place] + block(True, end) + result[place:]
    raise CommandExecutionError(NO_MARKERS)
