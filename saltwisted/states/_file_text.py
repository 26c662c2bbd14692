"""
Lines and blocks of text in files, as states of C{file}.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any

from saltwisted.modules import _edit
from saltwisted.states import _file_rules
from saltwisted.states._file_work import (
    Surroundings,
    edited,
    failed_ret,
    new_ret,
    shown_diff,
    text_lines,
    unusable,
    warn_about_hash,
)
from saltwisted.worker import templates

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__states__: Any
# What a run of states puts in place for each call; these serve outside of one.
__low__: Any = {}
__env__: str = "base"

_around = Surroundings(globals())


def line(
    name: str,
    content: Any = None,
    match: Any = None,
    mode: str | None = None,
    location: str | None = None,
    before: Any = None,
    after: Any = None,
    show_changes: bool = True,
    backup: Any = False,
    quiet: bool = False,
    indent: bool = True,
    create: bool = False,
    user: Any = None,
    group: Any = None,
    file_mode: Any = None,
) -> dict[str, Any]:
    """
    A line is in a file, or is not.

    mode
        C{ensure}, C{replace}, C{delete} or C{insert}.
    content, match
        The line, and what finds the one to change (by default the same).
    location, before, after
        C{start} or C{end}, or expressions for the lines beside it.
    create, user, group, file_mode
        Make the file, and whose it is.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.line")
    __states__["file.managed"](
        name, create=create, user=user, group=group, mode=file_mode, replace=False
    )
    problem = unusable(name)
    if problem:
        return failed_ret(ret, problem)
    if mode:
        mode = mode.lower()
    if mode is None:
        return failed_ret(ret, "Mode was not defined. How to process the file?")
    if content is None and mode != "delete":
        return failed_ret(ret, "Content can only be empty if mode is ['delete']")
    changes = __salt__["file.line"](
        name,
        content,
        match=match,
        mode=mode,
        location=location,
        before=before,
        after=after,
        show_changes=show_changes,
        backup=backup,
        quiet=quiet,
        indent=indent,
    )
    return edited(ret, changes, "Changes would be made", __opts__["test"])


def replace(
    name: str,
    pattern: str,
    repl: Any,
    count: int = 0,
    flags: Any = 8,
    bufsize: Any = 1,
    append_if_not_found: bool = False,
    prepend_if_not_found: bool = False,
    not_found_content: Any = None,
    backup: Any = ".bak",
    show_changes: bool = True,
    ignore_if_missing: bool = False,
    backslash_literal: bool = False,
    encoding: str | None = None,
) -> dict[str, Any]:
    """
    What an expression finds in a file is replaced.

    append_if_not_found, prepend_if_not_found, not_found_content
        What to add where it finds nothing.
    ignore_if_missing
        A missing file is not a failure.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.replace")
    problem = unusable(name)
    if problem:
        if ignore_if_missing and "file not found" in problem:
            ret["comment"] = "No changes needed to be made"
            return ret
        return failed_ret(ret, problem)
    changes = __salt__["file.replace"](
        name,
        pattern,
        repl,
        count=count,
        flags=flags,
        bufsize=bufsize,
        append_if_not_found=append_if_not_found,
        prepend_if_not_found=prepend_if_not_found,
        not_found_content=not_found_content,
        backup=backup,
        dry_run=__opts__["test"],
        show_changes=show_changes,
        ignore_if_missing=ignore_if_missing,
        backslash_literal=backslash_literal,
        encoding=encoding,
    )
    return edited(ret, changes, "Changes would have been made", __opts__["test"])


def keyvalue(
    name: str,
    key: Any = None,
    value: Any = None,
    key_values: Any = None,
    separator: str = "=",
    append_if_not_found: bool = False,
    prepend_if_not_found: bool = False,
    search_only: bool = False,
    show_changes: bool = True,
    ignore_if_missing: bool = False,
    count: int = 1,
    uncomment: str | None = None,
    key_ignore_case: bool = False,
    value_ignore_case: bool = False,
    create_if_missing: bool = False,
    prune: bool = False,
) -> dict[str, Any]:
    """
    Keys have their values on the lines of a file.

    key, value, key_values
        One pair, or a map of them.
    uncomment
        Characters before a key that are taken away.
    count
        How many lines of a key are kept; further ones go.
    prune
        Lines of other keys go.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name, None)
    if not name:
        return failed_ret(ret, "Must provide name to file.keyvalue")
    problem, pairs = _wanted_pairs(key, value, key_values)
    if problem:
        return failed_ret(ret, problem)
    try:
        with open(name, encoding="utf-8") as file:
            lines = file.readlines()
    except OSError as error:
        if not (create_if_missing and isinstance(error, FileNotFoundError)):
            ret["comment"] = f"unable to open {name}"
            ret["result"] = bool(ignore_if_missing)
            return ret
        append_if_not_found = True
        lines = []
    did = _file_rules.set_keys(
        lines,
        pairs,
        separator,
        count=count,
        uncomment=uncomment,
        key_ignore_case=key_ignore_case,
        value_ignore_case=value_ignore_case,
        append=append_if_not_found,
        prepend=prepend_if_not_found,
        prune=prune,
    )
    if not did.changes and not did.deleted:
        ret["result"] = True
        return ret
    return _write_pairs(ret, did, show_changes)


def _wanted_pairs(key: Any, value: Any, key_values: Any) -> tuple[str, dict[str, Any]]:
    """What is wrong with the arguments of C{keyvalue}, and the pairs that they mean."""
    if key is not None and value is not None:
        if type(key_values) is dict:
            return "file.keyvalue can not combine key_values with key and value", {}
        return "", {str(key): value}
    if not key_values or not isinstance(key_values, dict):
        why = "is not a dictionary" if key_values else "is empty"
        return f"file.keyvalue key and value not supplied and key_values {why}", {}
    return "", key_values


def _write_pairs(
    ret: dict[str, Any], did: _file_rules.KeyLines, show_changes: bool
) -> dict[str, Any]:
    """The return of C{keyvalue} by what became of the lines, which are written."""
    name = ret["name"]
    if show_changes:
        ret["changes"]["diff"] = "".join(did.diff)
    if __opts__["test"]:
        ret["comment"] = (
            f"File {name} is set to be changed "
            f"({did.changes} lines modified, {did.deleted} deleted)"
        )
        if show_changes:
            ret["comment"] += "\nPredicted diff:\n\r\t\t" + "\r\t\t".join(did.diff)
        return ret
    ret["comment"] = f"Changed {did.changes}, deleted {did.deleted} lines"
    try:
        with open(name, "w", encoding="utf-8") as file:
            file.writelines(did.content)
    except OSError:
        return failed_ret(ret, f"{name} not writable")
    ret["result"] = True
    return ret


def _rendered(
    sources: list[tuple[Any, Any]], template: str, defaults: Any, context: Any
) -> tuple[dict[str, Any] | None, list[str]]:
    """A failed return, or the texts that sources render to."""
    found: list[str] = []
    for source, _ in sources:
        path = __salt__["cp.cache_file"](source, __env__)
        if not path or not os.path.exists(path) or not templates.known(template):
            lost = failed_ret(new_ret(source), f"Failed to load template file {source}")
            return {**lost, "data": []}, []
        variables = {
            "salt": __salt__,
            "pillar": __pillar__,
            "grains": __grains__,
            "opts": __opts__,
            "saltenv": __env__,
            **(defaults or {}),
            **(context or {}),
        }
        with open(path, "rb") as file:
            text = templates.render_text(file.read().decode("utf-8"), template, variables, path)
        if not text:
            why = f"Failed to read rendered template file {path} ({source})"
            return failed_ret(new_ret(source), why), []
        found.append(text)
    return None, found


def _with_accumulated(name: str, content: str) -> str:
    """A content, and after it the texts that were accumulated for a file."""
    texts, users = _around().accumulated()
    gathered = texts.get(name, {})
    meant = [
        one
        for one, states in users.get(name, {}).items()
        if one in gathered and __low__.get("__id__") in states
    ]
    for one in meant or gathered:
        for chunk in gathered[one]:
            content = chunk if content == "" else f"{content}\n{chunk}"
    return content


def blockreplace(
    name: str,
    marker_start: str = "#-- start managed zone --",
    marker_end: str = "#-- end managed zone --",
    source: Any = None,
    source_hash: Any = None,
    template: str = "jinja",
    sources: Any = None,
    source_hashes: Any = None,
    defaults: Any = None,
    context: Any = None,
    content: str = "",
    append_if_not_found: bool = False,
    prepend_if_not_found: bool = False,
    backup: Any = ".bak",
    show_changes: bool = True,
    append_newline: bool | None = None,
    insert_before_match: str | None = None,
    insert_after_match: str | None = None,
) -> dict[str, Any]:
    """
    A content stands between two marker lines of a file.

    content, source, sources, template, context, defaults
        The content, accumulated texts, and what sources render to, in this order.
    append_if_not_found, prepend_if_not_found, insert_before_match, insert_after_match
        Where the block goes in a file without markers.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name, False)
    if not name:
        return failed_ret(ret, "Must provide name to file.blockreplace")
    warn_about_hash(source, source_hash)
    problem, pairs = _file_rules.pair_sources(source, source_hash, sources, source_hashes)
    problem = problem or unusable(name)
    if problem:
        return failed_ret(ret, problem)
    content = _with_accumulated(name, content)
    if pairs:
        failed, parts = _rendered(pairs, template, defaults, context)
        if failed:
            return failed
        content += "".join(parts)
    try:
        changes = __salt__["file.blockreplace"](
            name,
            marker_start,
            marker_end,
            content=content,
            append_if_not_found=append_if_not_found,
            prepend_if_not_found=prepend_if_not_found,
            insert_before_match=insert_before_match,
            insert_after_match=insert_after_match,
            backup=backup,
            dry_run=__opts__["test"],
            show_changes=show_changes,
            append_newline=append_newline,
        )
    except Exception as error:
        log.exception("Encountered error managing block")
        ret["comment"] = f"Encountered error managing block: {error}. See the log for details."
        return ret
    return edited(ret, changes, "Changes would be made", __opts__["test"])


def _set_comment(
    ret: dict[str, Any], regex: str, char: str, on: bool, backup: Any, after: str, words: str
) -> dict[str, Any]:
    """Comment lines or undo it, and look whether that worked."""
    name = ret["name"]
    if __opts__["test"]:
        ret["changes"][name] = "updated"
        ret["comment"] = f"File {name} is set to be updated"
        ret["result"] = None
        return ret
    old = text_lines(name)
    __salt__["file.comment_line"](name, regex, char, on, backup)
    new = text_lines(name)
    ret["result"] = __salt__["file.search"](name, after, multiline=True)
    if old != new:
        ret["changes"]["diff"] = shown_diff(name, old, new)
    if ret["result"]:
        ret["comment"] = f"{words.capitalize()} lines successfully"
    else:
        ret["comment"] = f"Expected {words} lines not found"
    return ret


def comment(
    name: str, regex: str, char: str = "#", backup: Any = ".bak", ignore_missing: bool = False
) -> dict[str, Any]:
    """
    Lines that an expression fits are comments.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name, False)
    if not name:
        return failed_ret(ret, "Must provide name to file.comment")
    problem = unusable(name)
    if problem:
        return failed_ret(ret, problem)
    bare = re.sub(r"^(\(\?[iLmsux]\))?\^?(.*?)\$?$", r"\2", regex)
    commented = char + bare
    if not __salt__["file.search"](name, rf"^(?!\s*{char})\s*{bare}", multiline=True):
        if __salt__["file.search"](name, commented, multiline=True):
            ret["comment"] = "Pattern already commented"
        elif ignore_missing:
            ret["comment"] = "Pattern not found and ignore_missing set to True"
        else:
            return failed_ret(ret, f"{bare}: Pattern not found")
        ret["result"] = True
        return ret
    return _set_comment(ret, regex, char, True, backup, commented, "commented")


def uncomment(name: str, regex: str, char: str = "#", backup: Any = ".bak") -> dict[str, Any]:
    """
    Lines that an expression fits are not comments.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name, False)
    if not name:
        return failed_ret(ret, "Must provide name to file.uncomment")
    problem = unusable(name)
    if problem:
        return failed_ret(ret, problem)
    bare = regex.lstrip("^")
    opened = f"^[ \t]*{bare}"
    if not __salt__["file.search"](name, f"{char}[ \t]*{bare}", multiline=True):
        if not __salt__["file.search"](name, opened, multiline=True):
            return failed_ret(ret, f"{regex}: Pattern not found")
        ret["comment"] = "Pattern already uncommented"
        ret["result"] = True
        return ret
    return _set_comment(ret, regex, char, False, backup, opened, "uncommented")


def _ready_to_add(
    ret: dict[str, Any],
    makedirs: bool,
    text: Any,
    pairs: list[tuple[Any, Any]],
    template: str,
    defaults: Any,
    context: Any,
) -> tuple[dict[str, Any] | None, list[str]]:
    """The start of C{append} and C{prepend}: a final return, or the texts to add."""
    name = ret["name"]
    if makedirs is True:
        folder = os.path.dirname(name)
        if __opts__["test"]:
            ret["comment"] = f"Directory {folder} is set to be updated"
            ret["result"] = None
        elif not __salt__["file.directory_exists"](folder):
            _around().make_parents(name)
    problem = unusable(name)
    if problem:
        touched = __states__["file.touch"](name, makedirs=makedirs)
        if __opts__["test"]:
            return touched, []
        if unusable(name):
            return failed_ret(ret, problem), []
    if pairs:
        failed, text = _rendered(pairs, template, defaults, context)
        if failed:
            return failed, []
    return None, _file_rules.texts(text)


def append(
    name: str,
    text: Any = None,
    makedirs: bool = False,
    source: Any = None,
    source_hash: Any = None,
    template: str = "jinja",
    sources: Any = None,
    source_hashes: Any = None,
    defaults: Any = None,
    context: Any = None,
    ignore_whitespace: bool = True,
    show_changes: bool = True,
) -> dict[str, Any]:
    """
    Texts are in a file; those that are not are put at its end.

    text, source, sources, template, context, defaults
        The texts, or what renders to them.
    ignore_whitespace
        A text is there also if its words are set apart differently.
    """
    ret = new_ret(name, False)
    if not name:
        return failed_ret(ret, "Must provide name to file.append")
    warn_about_hash(source, source_hash)
    name = os.path.expanduser(name)
    problem, pairs = _file_rules.pair_sources(source, source_hash, sources, source_hashes)
    if problem:
        return failed_ret(ret, problem)
    shown, ret["name"] = ret["name"], name
    final, chunks = _ready_to_add(ret, makedirs, text, pairs, template, defaults, context)
    ret["name"] = shown
    if final is not None:
        return final
    old = text_lines(name, keep_ends=False)
    added: list[str] = []
    for chunk in chunks:
        regex = _edit.loose_regex(chunk) if ignore_whitespace else chunk
        if not __salt__["file.search"](name, regex, multiline=True):
            added += chunk.splitlines()
    if __opts__["test"]:
        new = old + added
        ret["result"] = None if added else True
        ret["comment"] = f"File {name} is {'set to be updated' if added else 'in correct state'}"
    else:
        if added:
            __salt__["file.append"](name, args=added)
            ret["comment"] = f"Appended {len(added)} lines"
        else:
            ret["comment"] = f"File {name} is in correct state"
        new = text_lines(name, keep_ends=False)
        ret["result"] = True
    if old != new:
        ret["changes"]["diff"] = shown_diff(name, old, new, show_changes, "\n")
    return ret


def prepend(
    name: str,
    text: Any = None,
    makedirs: bool = False,
    source: Any = None,
    source_hash: Any = None,
    template: str = "jinja",
    sources: Any = None,
    source_hashes: Any = None,
    defaults: Any = None,
    context: Any = None,
    header: Any = None,
    show_changes: bool = True,
) -> dict[str, Any]:
    """
    Texts are in a file; those that are not are put at its beginning.

    header
        They must be the first lines, wherever else they are.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name, False)
    if not name:
        return failed_ret(ret, "Must provide name to file.prepend")
    warn_about_hash(source, source_hash)
    problem, pairs = _file_rules.pair_sources(source, source_hash, sources, source_hashes)
    if problem:
        return failed_ret(ret, problem)
    final, chunks = _ready_to_add(ret, makedirs, text, pairs, template, defaults, context)
    if final is not None:
        return final
    old = text_lines(name)
    added: list[str] = []
    for chunk in chunks:
        if not header and __salt__["file.search"](name, _edit.loose_regex(chunk), multiline=True):
            continue
        added += chunk.splitlines()
    if __opts__["test"]:
        new = [f"{one}\n" for one in added] + old
        ret["result"] = None if added else True
        ret["comment"] = f"File {name} is {'set to be updated' if added else 'in correct state'}"
    else:
        head = [bare for one in old[: len(added)] for bare in one.splitlines()]
        if header and head == added:
            added = []
        elif added:
            __salt__["file.prepend"](name, *added)
        new = text_lines(name)
        ret["result"] = True
        ret["comment"] = (
            f"Prepended {len(added)} lines" if added else f"File {name} is in correct state"
        )
    if old != new:
        ret["changes"]["diff"] = shown_diff(name, old, new, show_changes)
    return ret
