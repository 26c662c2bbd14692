"""
Texts.
"""

from __future__ import annotations

import difflib
import errno
import fnmatch
import re
import time
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from saltwisted.domain.render import textfilters
from saltwisted.modules import _edit
from saltwisted.utils._own import own
from saltwisted.worker import renderfilters

build_whitespace_split_regex = own(__name__, _edit.loose_regex)
camel_to_snake_case = own(__name__, textfilters.to_snake_case)
check_whitelist_blacklist = own(__name__, textfilters.check_whitelist_blacklist)
contains_whitespace = own(__name__, textfilters.contains_whitespace)
expr_match = own(__name__, textfilters.expression_matches)
human_to_bytes = own(__name__, textfilters.human_to_bytes)
is_hex = own(__name__, textfilters.is_hex)
random = own(__name__, renderfilters.random_str)
snake_to_camel_case = own(__name__, textfilters.to_camelcase)
to_num = own(__name__, textfilters.to_num)


def to_bytes(s: Any, encoding: Any = None, errors: str = "strict") -> bytes:
    """A text as bytes; by the first of several encodings that can do it."""
    return textfilters.to_bytes(s, encoding, errors)


def to_str(s: Any, encoding: Any = None, errors: str = "strict", normalize: bool = False) -> str:
    """Bytes as a text; by the first of several encodings that can do it."""
    encodings = encoding if isinstance(encoding, (tuple, list)) else [encoding or "utf-8"]
    if not encodings:
        raise ValueError("encoding cannot be empty")
    if not isinstance(s, (str, bytes, bytearray)):
        raise TypeError(f"expected str, bytes, or bytearray not {type(s)}")
    text = s if isinstance(s, str) else _decoded(s, encodings, errors)
    return unicodedata.normalize("NFC", text) if normalize else text


to_unicode = own(__name__, to_str)


def _decoded(data: bytes | bytearray, encodings: Iterable[str], errors: str) -> str:
    failed: UnicodeDecodeError | None = None
    for one in encodings:
        try:
            return data.decode(one, errors)
        except UnicodeDecodeError as error:
            failed = error
    assert failed is not None
    raise failed


def to_none(text: Any) -> Any:
    """C{None} for what is empty or blank."""
    return text if str(text).strip() else None


def is_quoted(value: Any) -> str:
    """The quote that a text is wrapped in; an empty text if it is in none."""
    if isinstance(value, str) and value[:1] in ("'", '"') and value[0] == value[-1]:
        return value[0]
    return ""


def dequote(value: Any) -> Any:
    """A text without the quotes around it."""
    return value[1:-1] if is_quoted(value) else value


def is_binary(data: Any) -> bool:
    """Whether this looks like no text."""
    if not data or not isinstance(data, (str, bytes)):
        return False
    return renderfilters.is_binary(data if isinstance(data, bytes) else data.encode())


def _found(text: str, patterns: Any) -> bool:
    """Whether one of some globs, or regular expressions after C{E@}, fits."""
    return any(
        bool(re.search(one[2:], text)) if one.startswith("E@") else fnmatch.fnmatch(text, one)
        for one in (patterns if isinstance(patterns, list) else [patterns])
    )


def check_include_exclude(path_str: str, include_pat: Any = None, exclude_pat: Any = None) -> bool:
    """Whether a path is to be taken: it is included, if anything is, and not excluded."""
    if include_pat and not _found(path_str, include_pat):
        return False
    return not (exclude_pat and _found(path_str, exclude_pat))


def get_diff_list(a: Iterable[Any], b: Iterable[Any], *args: Any, **kwargs: Any) -> Iterator[str]:
    """The differences of two lists of lines, line by line."""
    encodings = ("utf-8", "latin-1")
    old, new = ([to_str(line, encodings) for line in lines] for lines in (a, b))
    return difflib.unified_diff(old, new, *args, **kwargs)


def get_diff(a: Iterable[Any], b: Iterable[Any], *args: Any, **kwargs: Any) -> str:
    """The differences of two lists of lines, as one text."""
    return "".join(get_diff_list(a, b, *args, **kwargs))


def get_conditional_diff(
    a: Iterable[Any],
    b: Iterable[Any],
    *args: Any,
    ignore_ordering: bool = True,
    ignore_whitespace: bool = True,
    ignore_comment_characters: Any = "#",
    **kwargs: Any,
) -> tuple[bool, str]:
    """
    Whether two lists of lines differ in more than order, blanks and comments, and their diff.

    @param ignore_comment_characters: what begins a comment, or a list of such; what follows on
        the line is not compared.
    """
    lines = list(get_diff_list(a, b, *args, **kwargs))
    lenience = (ignore_ordering, ignore_whitespace, ignore_comment_characters)
    return _edit.matters(lines, *lenience), "".join(lines)


def print_cli(msg: Any, retries: int = 10, step: float = 0.01) -> None:
    """
    Print something; that nobody reads it any more is all right.

    @param retries: how often to try, C{step} seconds apart, while the reader has no room.
    """
    for _ in range(retries):
        try:
            try:
                print(msg)  # noqa: T201 - this is its purpose
            except UnicodeEncodeError:
                print(msg.encode())  # noqa: T201
            return
        except BlockingIOError:
            time.sleep(step)
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            return


def get_context(template: str, line: int, num_lines: int = 5, marker: str | None = None) -> str:
    """
    The lines around one of a text, between dashes.

    @param line: its number, from 1 on. Beyond the end the answer is the whole text.
    @param num_lines: how many there are before and after it.
    @param marker: put behind it.
    """
    lines = template.splitlines()
    if line > len(lines):
        return template
    first, last = max(0, line - num_lines - 1), min(len(lines), line + num_lines)
    at = line - first - 1
    shown = lines[first:last]
    if marker:
        shown[at] += marker
    before, after = (["[...]"] if cut else [] for cut in (first > 0, last < len(lines)))
    return "\n".join(("---", *before, *shown, *after, "---"))
