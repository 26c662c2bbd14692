"""
Changing lines and texts within a file: expressions, comment marks, blocks between markers.

A part of the module C{file}: it needs nothing of the loader. Rules on lines of text are in
L{saltwisted.modules._edit}.
"""

from __future__ import annotations

import logging
import operator
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from saltwisted.modules import _edit, _file_work, _files
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    SaltInvocationError,
)

log = logging.getLogger(__name__)


RE_FLAG_TABLE = {"I": re.I, "L": re.L, "M": re.M, "S": re.S, "U": re.U, "X": re.X}


def psed(
    path: str,
    before: Any,
    after: Any,
    limit: str = "",
    backup: str = ".bak",
    flags: str = "gMS",
    escape_all: bool = False,
    multi: bool = False,
) -> None:
    """
    Replace text as C{sed} would, with Python's expressions; C{file.replace} is the better way.

    CLI Example::

        salt '*' file.psed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'
    """
    path = _files.expanded(path)
    pattern = _file_work.sed_text(str(before), escape_all)
    limit = _file_work.sed_text(limit, escape_all)
    text = _file_work.read_text(path)
    if limit:
        text = "".join(re.compile(limit).split(text)[1:])
    bits = 0
    for flag in flags.replace("g", ""):
        bits |= RE_FLAG_TABLE[flag]
    _file_work.keep_copy(path, backup)
    result = re.sub(pattern, str(after), text, count=0 if "g" in flags else 1, flags=bits)
    _files.write_atomically(path, result.encode("utf-8", "surrogateescape"))


def uncomment(path: str, regex: str, char: str = "#", backup: Any = ".bak") -> Any:
    """
    Take the comment mark off lines; C{file.comment_line} is the newer name.

    CLI Example::

        salt '*' file.uncomment /etc/hosts.deny 'ALL: PARANOID'
    """
    return comment_line(path, regex, char, False, backup)


def comment(path: str, regex: str, char: str = "#", backup: Any = ".bak") -> Any:
    """
    Put a comment mark before lines; C{file.comment_line} is the newer name.

    CLI Example::

        salt '*' file.comment /etc/modules pcspkr
    """
    return comment_line(path, regex, char, True, backup)


def comment_line(
    path: str, regex: str, char: str = "#", cmnt: bool = True, backup: Any = ".bak"
) -> Any:
    """
    Put a comment mark before the lines that an expression fits, or take it off.

    @return: a diff, or false if no line fits.

    CLI Example::

        salt '*' file.comment_line /etc/modules pcspkr
        salt '*' file.comment_line /etc/modules pcspkr cmnt=False
    """
    bare, end = regex.lstrip("^").rstrip("$"), "$" if regex.endswith("$") else ""
    if cmnt:
        pattern = f"{'^' if regex.startswith('^') else ''}({bare}){end}"
    else:
        pattern = f"^{char}\\s*({bare}){end}"
    path = os.path.realpath(_files.expanded(path))
    if not os.path.isfile(path):
        raise SaltInvocationError(f"File not found: {path}")
    if not _files.is_text(path):
        raise SaltInvocationError(f"Cannot perform string replacements on a binary file: {path}")
    try:
        # Lines end with a newline alone here, and nowhere else.
        lines = [line + "\n" for line in _file_work.read_text(path).split("\n")]
    except OSError as error:
        raise CommandExecutionError(f"Unable to open file '{path}'. Exception: {error}") from error
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    compiled = re.compile(pattern)
    old, new, whole = [], [], []
    for line in lines:
        if compiled.match(line):
            changed = f"{char}{line}" if cmnt else line.lstrip(char)
            old.append(line)
            new.append(changed)
            line = changed
        whole.append(line)
    if not old:
        return False
    if backup:
        _file_work.keep_copy(path, backup)
    _file_work.put_content(
        path, "".join(whole).encode("utf-8", "surrogateescape"), keep_inode=False
    )
    return _edit.diff(old, new)


def _get_flags(flags: Any) -> re.RegexFlag:
    """Flags of expressions given as a number, a name, or names."""
    if isinstance(flags, int):
        return re.RegexFlag(flags)
    if isinstance(flags, str):
        flags = [flags]
    if not isinstance(flags, Iterable) or isinstance(flags, Mapping):
        raise CommandExecutionError(
            f'Invalid re flags: "{flags}", must be given either as a single flag string, a '
            "list of strings, as an integer, or as an re flag"
        )
    result = re.RegexFlag(0)
    for name in flags:
        flag = getattr(re.RegexFlag, str(name).upper(), None)
        if not flag:
            raise CommandExecutionError(f"Invalid re flag given: {name}")
        result |= flag
    return result


def search(
    path: str,
    pattern: str,
    flags: Any = 8,
    bufsize: Any = 1,
    ignore_if_missing: bool = False,
    multiline: bool = False,
) -> bool:
    """
    Whether a regular expression is found in a file.

    CLI Example::

        salt '*' file.search /etc/crontab 'mymaintenance.sh'
    """
    wanted = _get_flags(flags)
    if multiline:
        wanted |= re.MULTILINE
    answer: bool = replace(
        path,
        pattern,
        "",
        flags=wanted,
        dry_run=True,
        search_only=True,
        show_changes=False,
        ignore_if_missing=ignore_if_missing,
    )
    return answer


def replace(
    path: str,
    pattern: str,
    repl: Any,
    count: int = 0,
    flags: Any = 8,
    bufsize: Any = 1,
    append_if_not_found: bool = False,
    prepend_if_not_found: bool = False,
    not_found_content: Any = None,
    backup: Any = ".bak",
    dry_run: bool = False,
    search_only: bool = False,
    show_changes: bool = True,
    ignore_if_missing: bool = False,
    preserve_inode: bool = True,
    backslash_literal: bool = False,
    encoding: str | None = None,
) -> Any:
    """
    Replace what an expression finds in a file.

    count
        How often at most; 0 is everywhere.
    flags
        Of Python's expressions: C{MULTILINE} (8) if not given; a number, name or list.
    append_if_not_found, prepend_if_not_found, not_found_content
        Where nothing is found and the replacement is not there yet, add it (or this).
    backup
        Ending of the copy that is kept, or false.
    dry_run, search_only, show_changes
        Change nothing; only answer whether it is found; answer with a diff.
    preserve_inode
        Write into the file as it is, for hard links; else replace it in one step.
    backslash_literal
        Backslashes in the replacement are nothing special.
    encoding
        Of the file, if it is not UTF-8.

    CLI Example::

        salt '*' file.replace /etc/httpd/httpd.conf pattern='LogLevel warn' repl='LogLevel info'
        salt '*' file.replace /some/file 'before' 'after' flags='[MULTILINE, IGNORECASE]'
    """
    given = _files.expanded(path)
    link = given if os.path.islink(given) else None
    path = os.path.realpath(given)
    if not os.path.exists(path):
        if ignore_if_missing:
            return False
        raise SaltInvocationError(f"File not found: {path}")
    _check_replace(path, encoding, search_only, append_if_not_found, prepend_if_not_found)
    bits = _get_flags(flags)
    raw = _content(path)
    if bufsize != "file":
        operator.index(bufsize)  # the whole is read at once, but a text is a mistake
    # Without an encoding the file is bytes, and so are expression and replacement.
    text: Any = raw.decode(encoding) if encoding else raw
    compiled = re.compile(_form(pattern, encoding), bits)
    if search_only:
        return bool(compiled.search(text))
    new = _form(repl, encoding)
    if backslash_literal:
        new = new.replace(_form("\\", encoding), _form("\\\\", encoding))
    result, hits = compiled.subn(new, text, count)
    old_lines, new_lines = text.splitlines(True), result.splitlines(True)
    changed = old_lines != new_lines
    if not hits and (append_if_not_found or prepend_if_not_found):
        there = not_found_content if not_found_content else repl
        if not _has_line(text, str(there), bits, encoding):
            wanted = _form(repl if not_found_content is None else not_found_content, encoding)
            _add(new_lines, wanted, _form(os.linesep, encoding), append_if_not_found)
            changed = True
            result = _form("", encoding).join(new_lines)
    if changed and not dry_run:
        if backup:
            _file_work.keep_copy(path, backup)
            if link:
                _file_work.link_backup(link, backup)
        _file_work.put_content(
            path, result.encode(encoding) if encoding else result, preserve_inode
        )
    difference = _edit.diff(old_lines, new_lines)
    return difference if show_changes else changed and bool(difference)


def _check_replace(
    path: str, encoding: str | None, search_only: bool, append: bool, prepend: bool
) -> None:
    """@raises SaltInvocationError: C{file.replace} cannot do that."""
    if encoding is None and not _files.is_text(path):
        raise SaltInvocationError(f"Cannot perform string replacements on a binary file: {path}")
    if search_only and (append or prepend):
        raise SaltInvocationError("search_only cannot be used with append/prepend_if_not_found")
    if append and prepend:
        raise SaltInvocationError("Only one of append and prepend_if_not_found is permitted")


def _has_line(text: Any, line: str, bits: int, encoding: str | None) -> bool:
    literal = f"^{re.escape(line)}($|(?=\r\n))"
    return bool(re.search(_form(literal, encoding), text, bits))


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CommandExecutionError(f"Unable to open file '{path}'. Exception: {error}") from error


def _form(value: Any, encoding: str | None) -> Any:
    """A value as text; as bytes if there is no encoding."""
    return str(value) if encoding else str(value).encode()


def _add(lines: list[Any], line: Any, newline: Any, append: bool) -> None:
    """Put a line behind the others, or before them."""
    if not append:
        lines.insert(0, line + newline)
        return
    if lines and not lines[-1].endswith(newline):
        lines[-1] += newline
    lines.append(line + newline)


def blockreplace(
    path: str,
    marker_start: str = "#-- start managed zone --",
    marker_end: str = "#-- end managed zone --",
    content: str = "",
    append_if_not_found: bool = False,
    prepend_if_not_found: bool = False,
    backup: Any = ".bak",
    dry_run: bool = False,
    show_changes: bool = True,
    append_newline: bool | None = False,
    insert_before_match: str | None = None,
    insert_after_match: str | None = None,
) -> Any:
    """
    Replace what stands between two marker lines of a file.

    append_if_not_found, prepend_if_not_found, insert_before_match, insert_after_match
        Where there are no markers, put the block with them at the end, at the beginning, or
        beside the first line that an expression fits.
    append_newline
        Put a new line after the content: always, never, or (C{None}) if it has none.

    CLI Example::

        salt '*' file.blockreplace /etc/hosts '#-- start managed zone foobar : DO NOT EDIT --' \\
            '#-- end managed zone foobar --' $'10.0.1.1 foo.foobar\\n10.0.1.2 bar.foobar' True
    """
    places = (
        append_if_not_found,
        prepend_if_not_found,
        bool(insert_before_match),
        bool(insert_after_match),
    )
    if sum(places) > 1:
        raise SaltInvocationError(
            "Only one of append_if_not_found, prepend_if_not_found, insert_before_match, and "
            "insert_after_match is permitted"
        )
    path = _files.expanded(path)
    if not os.path.exists(path):
        raise SaltInvocationError(f"File not found: {path}")
    encoding = _file_work.encoding_of(path)
    if encoding is None and os.path.isfile(path) and not _files.is_text(path, 2048):
        raise SaltInvocationError(f"Cannot perform string replacements on a binary file: {path}")
    for value, name in (
        (insert_before_match, "insert_before_match"),
        (insert_after_match, "insert_after_match"),
    ):
        if value and not isinstance(value, str):
            raise CommandExecutionError(f"RegEx expected in {name} parameter.")
    # What is neither marked nor UTF-8 is kept byte by byte.
    errors = "strict" if encoding else "surrogateescape"
    encoding = encoding or "utf-8"
    old = _lines(path, encoding, errors)
    new = _edit.replace_block(
        old,
        marker_start,
        marker_end,
        content,
        append=append_if_not_found,
        prepend=prepend_if_not_found,
        append_newline=append_newline,
        before=insert_before_match,
        after=insert_after_match,
    )
    difference = _edit.diff(old, new)
    if difference and not dry_run:
        if backup is not False:
            _file_work.keep_copy(path, backup)
        _file_work.put_content(path, "".join(new).encode(encoding, errors), keep_inode=False)
    return difference if show_changes else difference != ""


def _lines(path: str, encoding: str, errors: str) -> list[str]:
    try:
        with open(path, encoding=encoding, errors=errors, newline="") as file:
            return list(file)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandExecutionError(f"Failed to read from {path}: {error}") from error
