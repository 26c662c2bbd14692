"""
Files and directories: that they are there, what is in them, whose they are.

The states of stock's C{file}, on the functions of the execution module. Decisions that need no
machine are in C{_file_rules}, formats of data in C{_file_data}. The longer states are at home
in files of their own, C{managed} in C{_file_managed}, C{directory} in C{_file_directory},
C{recurse} in C{_file_tree}, C{serialize} in C{_file_serialized}; what these share is in
C{_file_work}. The Windows arguments are taken and mean nothing here.
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
import logging
import os
import re
import shutil
import urllib.parse
from collections.abc import Iterator
from typing import Any

from saltwisted.modules import _files
from saltwisted.modules._arguments import picked, taken
from saltwisted.states import _file_rules
from saltwisted.states._file_cached import Cached
from saltwisted.states._file_copied import Copied
from saltwisted.states._file_directory import Directory, Meta
from saltwisted.states._file_links import Hardlink, Symlink
from saltwisted.states._file_managed import Given, Managed, run_check_cmd
from saltwisted.states._file_patch import Patch
from saltwisted.states._file_serialized import Serialized
from saltwisted.states._file_tidied import Tidied
from saltwisted.states._file_tree import Tree
from saltwisted.states._file_work import Around, failed_ret, new_ret, warn_about_hash
from saltwisted.wire import msgpack
from saltwisted.worker import templates
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__func_alias__ = {"copy_": "copy"}

_SIGNED = (
    *("source_hash_sig", "signed_by_any", "signed_by_all", "keyring", "gnupghome"),
    "sig_backend",
)
"""What C{managed} and C{cached} are told of signatures."""
_DISREGARDED = ("ignore_ordering", "ignore_whitespace", "ignore_comment_characters")
_CHOICE = ("keep_symlinks", "include_pat", "maxdepth", "include_empty", "merge")
"""By which arguments C{recurse} chooses among what is served."""

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__context__: Any
__states__: Any

# What a run of states puts in place for each call; these serve outside of one.
__low__: Any = {}
__lowstate__: Any = ()
__env__: str = "base"
__instance_id__: str = ""


def _around() -> Around:
    """What this call finds around itself; a run of states changes it between two calls."""
    return Around(
        salt=__salt__,
        opts=__opts__,
        context=__context__,
        lowstate=__lowstate__,
        env=__env__,
        instance=__instance_id__,
    )


def _unusable(name: str) -> str:
    """Why a file cannot be edited, if so."""
    if not os.path.isabs(name):
        return f"Specified file {name} is not an absolute path"
    if not os.path.exists(name):
        return f"{name}: file not found"
    return ""


def _make_parents(path: str, user: Any = None, group: Any = None, mode: Any = None) -> None:
    __salt__["file.makedirs"](path=path, user=user, group=group, mode=mode)


def _text_lines(path: str, keep_ends: bool = True) -> list[str]:
    with open(path, "rb") as file:
        return file.read().decode("utf-8").splitlines(keep_ends)


def _shown_diff(
    name: str, old: list[str], new: list[str], show: bool = True, glue: str = ""
) -> str:
    if not _files.is_text(name):
        return "Replace binary file"
    if not show:
        return "<show_changes=False>"
    return glue.join(difflib.unified_diff(old, new))


# -- accumulators -------------------------------------------------------------------


def accumulated(name: str, filename: str, text: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Gather texts for a file that a later C{file.managed} or C{file.blockreplace} writes.

    filename
        The file. The state that writes it is named in C{require_in} or C{watch_in}.
    text
        What to add, a text or a list.
    """
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.accumulated")
    if text is None:
        return failed_ret(ret, "No text supplied for accumulator")
    wanted_by = __low__.get("require_in", []) + __low__.get("watch_in", [])
    if not any("file" in one for one in wanted_by):
        return failed_ret(
            ret, f"Orphaned accumulator {name} in {__low__['__sls__']}:{__low__['__id__']}"
        )
    around = _around()
    texts, users = around.accumulated()
    known = users.setdefault(filename, {}).setdefault(name, [])
    for one in wanted_by:
        known.extend(one.values() if isinstance(one, dict) else one)
    gathered = texts.setdefault(filename, {}).setdefault(name, [])
    for chunk in [text] if isinstance(text, (str, dict)) else text:
        if chunk not in gathered:
            gathered.append(chunk)
            ret["comment"] = f"Accumulator {name} for file {filename} was charged by text"
    packed = msgpack.pack({"accumulators": texts, "accumulators_deps": users})
    _files.write_atomically(around.accumulator_file(), packed, 0o600)
    return ret


# -- there or not -------------------------------------------------------------------


def exists(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A path is there; nothing is done about it if not.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.exists")
    if not os.path.exists(name):
        return failed_ret(ret, f"Specified path {name} does not exist")
    ret["comment"] = f"Path {name} exists"
    return ret


def missing(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    A path is not there; nothing is done about it if it is.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.missing")
    if os.path.exists(name):
        return failed_ret(ret, f"Specified path {name} exists")
    ret["comment"] = f"Path {name} is missing"
    return ret


def absent(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Nothing is at a path: a file, a link, or a directory with all in it is removed.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.absent")
    if not os.path.isabs(name):
        return failed_ret(ret, f"Specified file {name} is not an absolute path")
    if name == "/":
        return failed_ret(ret, 'Refusing to make "/" absent')
    if os.path.isfile(name) or os.path.islink(name):
        kind = "file"
    elif os.path.isdir(name):
        kind = "directory"
    else:
        ret["comment"] = f"File {name} is not present"
        return ret
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"{kind.capitalize()} {name} is set for removal"
    else:
        try:
            __salt__["file.remove"](name, force=True)
        except CommandExecutionError as error:
            return failed_ret(ret, str(error))
        ret["comment"] = f"Removed {kind} {name}"
    ret["changes"]["removed"] = name
    return ret


def tidied(
    name: str,
    age: int = 0,
    matches: Any = None,
    rmdirs: bool = False,
    size: Any = 0,
    exclude: Any = None,
    full_path_match: bool = False,
    followlinks: bool = False,
    time_comparison: str = "atime",
    age_size_logical_operator: str = "OR",
    age_size_only: str | None = None,
    rmlinks: bool = True,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A directory is rid of what is old or large enough.

    age, size
        In days, and in bytes (or C{1M}); one suffices, both must hold with
        C{age_size_logical_operator: AND}, one alone counts with C{age_size_only}.
    matches, exclude
        Lists of expressions on names, or on whole paths with C{full_path_match}.
    time_comparison
        C{atime}, C{mtime} or C{ctime}.
    """
    name = os.path.expanduser(name)
    return Tidied(around=_around(), **taken(Tidied, locals())).run()


def pruned(
    name: str, recurse: bool = False, ignore_errors: bool = False, older_than: Any = None
) -> dict[str, Any]:
    """
    A directory is not there, if it was empty; with C{recurse} empty ones below it go too.

    ignore_errors
        It is good enough that some were removed; includes C{recurse}.
    older_than
        Only directories unchanged for that many days.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    recurse = recurse or ignore_errors
    if not os.path.isdir(name):
        ret["comment"] = f"Directory {name} is not present"
        return ret
    if __opts__["test"]:
        ret["result"] = None
        ret["changes"]["deleted"] = name
        ret["comment"] = f"Directory {name} is set for removal"
        return ret
    did = __salt__["file.rmdir"](name, recurse=recurse, verbose=True, older_than=older_than)
    result = did.pop("result")
    if not result and not (ignore_errors and did["deleted"]):
        ret.update(result=result, changes=did, comment=f"Failed to remove directory {name}")
    elif not recurse:
        ret["comment"] = f"Removed directory {name}"
        ret["changes"]["deleted"] = name
    elif did["deleted"]:
        ret["comment"] = f"Recursively removed empty directories under {name}"
        ret["changes"]["deleted"] = sorted(did["deleted"])
    return ret


def retention_schedule(
    name: str, retain: dict[str, Any], strptime_format: str | None = None, timezone: Any = None
) -> dict[str, Any]:
    """
    Of the dated files in a directory those stay that a schedule keeps, such as backups.

    retain
        How many of C{most_recent}, C{first_of_hour}, C{first_of_day}, C{first_of_week},
        C{first_of_month}, C{first_of_year}; a number or C{all}.
    strptime_format
        How names tell the time; otherwise it is the time of change.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.retention_schedule")
    if not os.path.isdir(name):
        return failed_ret(ret, "Name provided to file.retention must be a directory")
    dated: dict[str, tuple[datetime.datetime, float]] = {}
    ignored = []
    for one in __salt__["file.readdir"](name):
        if strptime_format:
            try:
                when = datetime.datetime.strptime(one, strptime_format)  # noqa: DTZ007
                utc = when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
                dated[one] = when, utc.timestamp()
            except ValueError:
                ignored.append(one)
            continue
        status = {} if one in (".", "..") else __salt__["file.lstat"](os.path.join(name, one))
        if status:
            seconds = status["st_mtime"]
            dated[one] = datetime.datetime.fromtimestamp(seconds, timezone), seconds
        else:
            ignored.append(one)
    keep = _file_rules.retained(dated, retain)
    doomed = sorted(set(dated) - keep, reverse=True)
    if doomed:
        ret["changes"] = {
            "retained": sorted(keep, reverse=True),
            "deleted": doomed,
            "ignored": sorted(ignored, reverse=True),
        }
    if __opts__["test"]:
        ret["comment"] = f"{len(doomed)} backups would have been removed from {name}.\n"
        if doomed:
            ret["result"] = None
    else:
        for one in doomed:
            __salt__["file.remove"](os.path.join(name, one))
        ret["comment"] = f"{len(doomed)} backups were removed from {name}.\n"
    return ret


# -- links ---------------------------------------------------------------------------


def hardlink(
    name: str,
    target: str,
    force: bool = False,
    makedirs: bool = False,
    user: Any = None,
    group: Any = None,
    dir_mode: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A path is another name of a file.

    force
        A file in the way is replaced.
    makedirs, user, group, dir_mode
        Make the directories above it, and whose they are.
    """
    name = os.path.expanduser(name)
    return Hardlink(around=_around(), **taken(Hardlink, locals())).run()


def symlink(
    name: str,
    target: str,
    force: bool = False,
    backupname: str | None = None,
    makedirs: bool = False,
    user: Any = None,
    group: Any = None,
    mode: Any = None,
    win_owner: Any = None,
    win_perms: Any = None,
    win_deny_perms: Any = None,
    win_inheritance: Any = None,
    atomic: bool = False,
    disallow_copy_and_unlink: bool = False,
    inherit_user_and_group: bool = False,
    follow_symlinks: bool = True,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A path is a symbolic link to another.

    force
        What is in the way is removed.
    backupname
        What is in the way is renamed to this.
    makedirs, mode
        Make the directories above it, with this mode.
    atomic
        Put the link in place in one step.
    inherit_user_and_group
        An existing link keeps its owner where none is given.
    follow_symlinks
        Whether a link in the way counts by what it points to.
    """
    name = os.path.expanduser(name)
    return Symlink(around=_around(), **taken(Symlink, locals())).run()


# -- whole files ---------------------------------------------------------------------


def _shell() -> dict[str, Any]:
    """In which shell C{check_cmd} runs."""
    return {"shell": __grains__["shell"]} if "shell" in __grains__ else {}


def mod_run_check_cmd(cmd: str, filename: str, **check_cmd_opts: Any) -> Any:
    """
    Run a command with a file's name after it: true, or what to put into the return.
    """
    return run_check_cmd(__salt__, cmd, filename, **check_cmd_opts)


def managed(
    name: str,
    source: Any = None,
    source_hash: Any = "",
    source_hash_name: str | None = None,
    keep_source: bool = True,
    user: Any = None,
    group: Any = None,
    mode: Any = None,
    attrs: Any = None,
    template: str | None = None,
    makedirs: bool = False,
    dir_mode: Any = None,
    context: Any = None,
    replace: bool = True,
    defaults: Any = None,
    backup: Any = "",
    show_changes: bool = True,
    create: bool = True,
    contents: Any = None,
    tmp_dir: str | None = None,
    tmp_ext: str = "",
    contents_pillar: Any = None,
    contents_grains: Any = None,
    contents_newline: bool = True,
    contents_delimiter: str = ":",
    encoding: str | None = None,
    encoding_errors: str = "strict",
    allow_empty: bool = True,
    follow_symlinks: bool = True,
    check_cmd: Any = None,
    skip_verify: bool = False,
    selinux: Any = None,
    win_owner: Any = None,
    win_perms: Any = None,
    win_deny_perms: Any = None,
    win_inheritance: bool = True,
    win_perms_reset: bool = False,
    verify_ssl: bool = True,
    use_etag: bool = False,
    signature: Any = None,
    source_hash_sig: Any = None,
    signed_by_any: Any = None,
    signed_by_all: Any = None,
    keyring: Any = None,
    gnupghome: Any = None,
    ignore_ordering: bool = False,
    ignore_whitespace: bool = False,
    ignore_comment_characters: Any = None,
    new_file_diff: bool = False,
    sig_backend: str = "gpg",
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A file has a content, an owner and a mode.

    source, source_hash, source_hash_name
        Where the content is: C{salt://}, an address, a path, or a list of which the first
        that is there counts; and the hash (or a file of hashes, and the name in it) that
        what comes from the web must have, unless C{skip_verify} or C{use_etag}.
    contents, contents_pillar, contents_grains
        The content itself, or the key under which pillar or grains have it.
    contents_newline, allow_empty, encoding, encoding_errors
        Whether it ends in a new line, whether it may be empty, and its character set.
    template, context, defaults
        The engine that renders it, and its variables.
    user, group, mode, attrs, selinux
        C{mode: keep} is the source's. C{selinux} is a map of C{seuser} and so on.
    replace, create, makedirs, dir_mode
        Whether an existing file is changed, a missing one made, and the directories above.
    backup
        C{minion}: keep the old content.
    check_cmd, tmp_dir, tmp_ext
        A command that must agree to the new file, given as its last word.
    signature, source_hash_sig, signed_by_any, signed_by_all, keyring, gnupghome, sig_backend
        Signatures on the file, or on its file of hashes.
    ignore_ordering, ignore_whitespace, ignore_comment_characters
        Changes of these kinds alone do not trigger other states.
    new_file_diff, show_changes
        What is shown of the changes.
    """
    kwargs.pop("env", None)
    name = os.path.expanduser(name)
    arguments = locals()
    return Managed(
        around=_around(),
        given=Given(
            contents=contents,
            pillar=contents_pillar,
            grains=contents_grains,
            newline=contents_newline,
            delimiter=contents_delimiter,
            allow_empty=allow_empty,
        ),
        shell=_shell() if check_cmd else {},
        labels={key: (selinux or {}).get(key) for key in ("seuser", "serole", "setype", "serange")},
        signed=picked(arguments, _SIGNED),
        disregard=picked(arguments, _DISREGARDED),
        **taken(Managed, arguments),
    ).run()


# -- directories ---------------------------------------------------------------------


def directory(
    name: str,
    user: Any = None,
    group: Any = None,
    recurse: Any = None,
    max_depth: int | None = None,
    dir_mode: Any = None,
    file_mode: Any = None,
    makedirs: bool = False,
    clean: bool = False,
    require: Any = None,
    exclude_pat: Any = None,
    follow_symlinks: bool = False,
    force: bool = False,
    backupname: str | None = None,
    allow_symlink: bool = True,
    children_only: bool = False,
    win_owner: Any = None,
    win_perms: Any = None,
    win_deny_perms: Any = None,
    win_inheritance: bool = True,
    win_perms_reset: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A directory is there, with owner and mode.

    recurse
        A list of what also holds for all in it: C{user}, C{group}, C{mode}; C{ignore_files},
        C{ignore_dirs}; C{silent} for short changes. C{max_depth} limits how deep.
    dir_mode, file_mode
        Modes of directories, and of files with C{recurse}.
    makedirs
        Make the directories above it.
    clean, exclude_pat, require
        Remove what no required file state made and the patterns do not exclude.
    force, backupname, allow_symlink
        What becomes of a file or link in the way.
    children_only
        What is in it, not the directory itself.
    """
    return Directory(
        around=_around(),
        name=os.path.expanduser(name),
        meta=Meta(user, group, dir_mode, file_mode),
        words=recurse or [],
        max_depth=max_depth,
        makedirs=makedirs,
        clean=clean,
        require=require,
        exclude_pat=exclude_pat,
        follow=follow_symlinks,
        force=force,
        backupname=backupname,
        allow_symlink=allow_symlink,
        children_only=children_only,
        kwargs=kwargs,
    ).run()


def recurse(
    name: str,
    source: Any,
    keep_source: bool = True,
    clean: bool = False,
    require: Any = None,
    user: Any = None,
    group: Any = None,
    dir_mode: Any = None,
    file_mode: Any = None,
    sym_mode: Any = None,
    template: str | None = None,
    context: Any = None,
    replace: bool = True,
    defaults: Any = None,
    include_empty: bool = False,
    backup: Any = "",
    include_pat: Any = None,
    exclude_pat: Any = None,
    maxdepth: int | None = None,
    keep_symlinks: bool = False,
    force_symlinks: bool = False,
    win_owner: Any = None,
    win_perms: Any = None,
    win_deny_perms: Any = None,
    win_inheritance: bool = True,
    merge: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A directory is as one of the file server, file by file.

    source, merge
        C{salt://} directories: the first that is there, or all with C{merge}.
    clean, require
        Remove what is not served and no required file state made.
    include_pat, exclude_pat, maxdepth, include_empty
        What is taken: globs or C{E@} expressions on relative paths, how deep, and whether
        empty directories count.
    keep_symlinks, force_symlinks, sym_mode
        Served links become links, also where something is in the way.
    user, group, dir_mode, file_mode, template, context, defaults, replace, backup
        As in C{file.managed}, for each file.
    """
    kwargs.pop("env", None)
    name = os.path.expanduser(name)
    arguments = locals()
    return Tree(
        around=_around(),
        choice=picked(arguments, _CHOICE),
        managed=picked(arguments, ("keep_source", "template", "context", "defaults", "backup")),
        put_folder=directory,
        put_file=managed,
        put_link=symlink,
        **taken(Tree, arguments),
    ).run()


# -- lines and blocks of text ----------------------------------------------------------


def _edited(ret: dict[str, Any], changes: Any, forecast: str) -> dict[str, Any]:
    """A return after an edit: the diff, or that there was nothing to do."""
    if not changes:
        ret.update(result=True, comment="No changes needed to be made")
        return ret
    ret["changes"]["diff"] = changes
    if __opts__["test"]:
        ret.update(result=None, comment=forecast)
    else:
        ret.update(result=True, comment="Changes were made")
    return ret


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
    managed(name, create=create, user=user, group=group, mode=file_mode, replace=False)
    problem = _unusable(name)
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
    return _edited(ret, changes, "Changes would be made")


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
    problem = _unusable(name)
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
    return _edited(ret, changes, "Changes would have been made")


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
    if key is not None and value is not None:
        if type(key_values) is dict:
            return failed_ret(ret, "file.keyvalue can not combine key_values with key and value")
        key_values = {str(key): value}
    elif not key_values or not isinstance(key_values, dict):
        why = "is not a dictionary" if key_values else "is empty"
        return failed_ret(ret, f"file.keyvalue key and value not supplied and key_values {why}")
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
        key_values,
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
    problem = problem or _unusable(name)
    if problem:
        return failed_ret(ret, problem)
    around = _around()
    texts, users = around.accumulated()
    gathered = texts.get(name, {})
    meant = [
        one
        for one, states in users.get(name, {}).items()
        if one in gathered and __low__.get("__id__") in states
    ]
    for one in meant or gathered:
        for chunk in gathered[one]:
            content = chunk if content == "" else f"{content}\n{chunk}"
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
    return _edited(ret, changes, "Changes would be made")


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
    old = _text_lines(name)
    __salt__["file.comment_line"](name, regex, char, on, backup)
    new = _text_lines(name)
    ret["result"] = __salt__["file.search"](name, after, multiline=True)
    if old != new:
        ret["changes"]["diff"] = _shown_diff(name, old, new)
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
    problem = _unusable(name)
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
    problem = _unusable(name)
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
            _make_parents(name)
    problem = _unusable(name)
    if problem:
        touched = touch(name, makedirs=makedirs)
        if __opts__["test"]:
            return touched, []
        if _unusable(name):
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
    old = _text_lines(name, keep_ends=False)
    added: list[str] = []
    for chunk in chunks:
        regex = _file_rules.loose_regex(chunk) if ignore_whitespace else chunk
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
        new = _text_lines(name, keep_ends=False)
        ret["result"] = True
    if old != new:
        ret["changes"]["diff"] = _shown_diff(name, old, new, show_changes, "\n")
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
    old = _text_lines(name)
    added: list[str] = []
    for chunk in chunks:
        if not header and __salt__["file.search"](
            name, _file_rules.loose_regex(chunk), multiline=True
        ):
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
        new = _text_lines(name)
        ret["result"] = True
        ret["comment"] = (
            f"Prepended {len(added)} lines" if added else f"File {name} is in correct state"
        )
    if old != new:
        ret["changes"]["diff"] = _shown_diff(name, old, new, show_changes)
    return ret


@contextlib.contextmanager
def _for_real() -> Iterator[None]:
    """Without C{test}, for a file that only serves a state's own ends."""
    spaces = [__opts__, __salt__["file.manage_file"].__globals__["__opts__"]]
    before = [one.get("test") for one in spaces]
    try:
        for one in spaces:
            one["test"] = False
        yield
    finally:
        for one, value in zip(spaces, before, strict=True):
            one["test"] = value


def _fetched(path: str, **wanted: Any) -> dict[str, Any]:
    """A file that only serves a state's own ends is put in its place, also under C{test}."""
    with _for_real():
        return managed(path, **wanted)


def patch(
    name: str,
    source: Any = None,
    source_hash: Any = None,
    source_hash_name: str | None = None,
    skip_verify: bool = False,
    template: str | None = None,
    context: Any = None,
    defaults: Any = None,
    options: str = "",
    reject_file: str | None = None,
    strip: Any = None,
    saltenv: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A patch is applied to a file, or to the files of a directory.

    options, strip
        More options for the program C{patch}, and how many directories of names to strip.
    reject_file
        Where to leave what does not fit.
    source, source_hash, source_hash_name, skip_verify, template, context, defaults
        The patch, as in C{file.managed}.
    """
    return Patch(around=_around(), fetch=_fetched, **taken(Patch, locals())).run()


# -- times, copies, moves ---------------------------------------------------------------


def touch(
    name: str, atime: Any = None, mtime: Any = None, makedirs: bool = False
) -> dict[str, Any]:
    """
    A file is there, with these times (in seconds), or that of now.
    """
    name = os.path.expanduser(name)
    ret: dict[str, Any] = {"name": name, "changes": {}}
    if not name:
        return failed_ret(ret, "Must provide name to file.touch")
    if not os.path.isabs(name):
        return failed_ret(ret, f"Specified file {name} is not an absolute path")
    there = os.path.exists(name)
    if __opts__["test"]:
        # Stock says of a file with the right times, too, that it is new.
        ret.update(result=None, changes={"new": name})
        if not there:
            ret["comment"] = f"File {name} is set to be created"
            return ret
        have = __salt__["file.stats"](name, follow_symlinks=False)
        if any(
            want is not None and str(want) != str(have[key])
            for key, want in (("atime", atime), ("mtime", mtime))
        ):
            ret["comment"] = f"Times set to be updated on file {name}"
            ret["changes"] = {"touched": name}
        else:
            ret.update(result=True, comment=f"File {name} exists and has the correct times")
        return ret
    if makedirs:
        _make_parents(name)
    if not os.path.isdir(os.path.dirname(name)):
        return failed_ret(ret, f"Directory not present to touch file {name}")
    ret["result"] = __salt__["file.touch"](name, atime, mtime)
    if ret["result"] and not there:
        ret["comment"] = f"Created empty file {name}"
        ret["changes"]["new"] = name
    elif ret["result"]:
        kind = "directory" if os.path.isdir(name) else "file"
        ret["comment"] = f"Updated times on {kind} {name}"
        ret["changes"]["touched"] = name
    return ret


def copy_(
    name: str,
    source: str,
    force: bool = False,
    makedirs: bool = False,
    preserve: bool = False,
    user: Any = None,
    group: Any = None,
    mode: Any = None,
    dir_mode: Any = None,
    subdir: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A file or directory of this machine has a copy.

    force
        What is in the way is replaced.
    preserve
        Owner and mode are the source's.
    subdir
        If the name is a directory, the copy goes into it.
    """
    name = os.path.expanduser(name)
    source = os.path.expanduser(source)
    return Copied(around=_around(), **taken(Copied, locals())).run()


def rename(
    name: str, source: str, force: bool = False, makedirs: bool = False, **kwargs: Any
) -> dict[str, Any]:
    """
    A file or directory has moved to a new place.
    """
    name = os.path.expandvars(os.path.expanduser(name))
    source = os.path.expandvars(os.path.expanduser(source))
    ret = new_ret(name)
    if not name:
        return failed_ret(ret, "Must provide name to file.rename")
    if not os.path.isabs(name):
        return failed_ret(ret, f"Specified file {name} is not an absolute path")
    if not os.path.lexists(source):
        ret["comment"] = f'Source file "{source}" has already been moved out of place'
        return ret
    there = os.path.lexists(name)
    if there and not force:
        ret["comment"] = f'The target file "{name}" exists and will not be overwritten'
        return ret
    if __opts__["test"]:
        ret["comment"] = f'File "{source}" is set to be moved to "{name}"'
        ret["result"] = None
        return ret
    if there:
        try:
            __salt__["file.remove"](name)
        except OSError:
            return failed_ret(ret, f'Failed to delete "{name}" in preparation for forced move')
    folder = os.path.dirname(name)
    if not os.path.isdir(folder):
        if not makedirs:
            return failed_ret(ret, f"The target directory {folder} is not present")
        _make_parents(name)
    try:
        if os.path.islink(source):
            os.symlink(os.readlink(source), name)
            os.unlink(source)
        else:
            shutil.move(source, name)
    except OSError:
        return failed_ret(ret, f'Failed to move "{source}" to "{name}"')
    ret["comment"] = f'Moved "{source}" to "{name}"'
    ret["changes"] = {name: source}
    return ret


# -- data ------------------------------------------------------------------------------


def serialize(
    name: str,
    dataset: Any = None,
    dataset_pillar: Any = None,
    user: Any = None,
    group: Any = None,
    mode: Any = None,
    backup: Any = "",
    makedirs: bool = False,
    show_changes: bool = True,
    create: bool = True,
    merge_if_exists: bool = False,
    encoding: str | None = None,
    encoding_errors: str = "strict",
    serializer: str | None = None,
    serializer_opts: Any = None,
    deserializer_opts: Any = None,
    check_cmd: Any = None,
    tmp_dir: str | None = None,
    tmp_ext: str = "",
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A file holds data in a format.

    dataset, dataset_pillar
        The data, or the pillar key that has it.
    serializer (or formatter), serializer_opts, deserializer_opts
        C{yaml} (by default), C{json}, C{configparser}, C{msgpack} or what serializer modules
        offer, with options for it.
    merge_if_exists
        The data is put over what the file holds.
    """
    kwargs.pop("env", None)
    name = os.path.expanduser(name)
    return Serialized(
        around=_around(),
        shell=_shell() if check_cmd else {},
        others=globals().get("__serializers__") or {},
        **taken(Serialized, locals()),
    ).run()


def decode(
    name: str,
    encoded_data: str | None = None,
    contents_pillar: str | None = None,
    encoding_type: str = "base64",
    checksum: str = "md5",
) -> dict[str, Any]:
    """
    A file holds what a Base64 text, given or in pillar, stands for.
    """
    ret = new_ret(name, False)
    if not (encoded_data or contents_pillar):
        raise CommandExecutionError(
            "Specify either the 'encoded_data' or 'contents_pillar' argument."
        )
    if encoded_data and contents_pillar:
        raise CommandExecutionError(
            "Specify only one 'encoded_data' or 'contents_pillar' argument."
        )
    content: Any = encoded_data
    if not content:
        content = __salt__["pillar.get"](contents_pillar, False)
        if content is False:
            raise CommandExecutionError("Pillar data not found.")
    if __salt__["file.file_exists"](name):
        wanted = __salt__["hashutil.digest"](
            __salt__["hashutil.base64_decodestring"](content), checksum
        )
        have = __salt__["hashutil.digest_file"](name, checksum)
        if wanted == have:
            ret.update(result=True, comment="File is in the correct state.")
            return ret
        ret["changes"] = {"old": have, "new": wanted}
    if __opts__["test"] is True:
        ret.update(result=None, comment="File is set to be updated.")
        return ret
    ret["result"] = __salt__["hashutil.base64_decodefile"](content, name)
    ret["comment"] = "File was updated."
    if not ret["changes"]:
        made = __salt__["hashutil.digest_file"](name, checksum)
        ret["changes"] = {"old": None, "new": made}
    return ret


# -- devices ---------------------------------------------------------------------------

_NODES = {
    "c": ("character device", "file.is_chrdev"),
    "b": ("block device", "file.is_blkdev"),
    "p": ("fifo pipe", "file.is_fifo"),
}


def mknod(
    name: str,
    ntype: str,
    major: int = 0,
    minor: int = 0,
    user: Any = None,
    group: Any = None,
    mode: Any = "0600",
) -> dict[str, Any]:
    """
    A device or a pipe is there.

    ntype
        C{c}haracter device, C{b}lock device or C{p}ipe.
    """
    name = os.path.expanduser(name)
    ret = new_ret(name, False)
    if not name:
        return failed_ret(ret, "Must provide name to file.mknod")
    if ntype not in _NODES:
        return failed_ret(
            ret,
            f"Node type unavailable: '{ntype}'. Available node types are character ('c'), block "
            "('b'), and pipe ('p')",
        )
    kind, is_one = _NODES[ntype]
    if __salt__["file.file_exists"](name):
        return failed_ret(ret, f"File {name} exists and is not a {kind}. Refusing to continue")
    kind = kind.capitalize()
    if not __salt__[is_one](name):
        if __opts__["test"]:
            ret.update(result=None, comment=f"{kind} {name} is set to be created")
            return ret
        made: dict[str, Any] = __salt__["file.mknod"](name, ntype, major, minor, user, group, mode)
        return made
    if ntype != "p":
        have = tuple(__salt__["file.get_devmm"](name))
        if have != (major, minor):
            return failed_ret(
                ret,
                f"{kind} {name} exists and has a different major/minor {have[0]}/{have[1]}. "
                "Refusing to continue",
            )
    checked: dict[str, Any] = __salt__["file.check_perms"](name, None, user, group, mode)[0]
    if not checked["changes"]:
        checked["comment"] = f"{kind} {name} is in the correct state"
    return checked


# -- the cache -------------------------------------------------------------------------


def cached(
    name: str,
    source_hash: Any = "",
    source_hash_name: str | None = None,
    skip_verify: bool = False,
    saltenv: str = "base",
    use_etag: bool = False,
    source_hash_sig: Any = None,
    signed_by_any: Any = None,
    signed_by_all: Any = None,
    keyring: Any = None,
    gnupghome: Any = None,
    sig_backend: str = "gpg",
) -> dict[str, Any]:
    """
    What an address names is in the minion's cache, for C{cp.is_cached} and other states.
    """
    arguments = locals()
    signed = picked(arguments, _SIGNED)
    return Cached(around=_around(), signed=signed, **taken(Cached, arguments)).run()


def not_cached(name: str, saltenv: str = "base") -> dict[str, Any]:
    """
    What an address names is not in the minion's cache.
    """
    ret = new_ret(name, False)
    try:
        parts = urllib.parse.urlparse(name)
    except Exception:
        return failed_ret(ret, "Only URLs or local file paths are valid input")
    if parts.scheme in _files.LOCAL_PROTOS:
        path = os.path.realpath(os.path.expanduser(parts.path))
        ret.update(result=True, comment=f"File {path} is a local path, no action taken")
        return ret
    copy = __salt__["cp.is_cached"](name, saltenv=saltenv)
    if not copy:
        ret.update(result=True, comment=f"{name} is not cached")
        return ret
    try:
        os.remove(copy)
    except OSError as error:
        return failed_ret(ret, f"Failed to delete {copy}: {error}")
    ret.update(result=True, changes={"deleted": True}, comment=f"{copy} was deleted")
    return ret


# -- others ----------------------------------------------------------------------------


def shortcut(name: str, target: str, **kwargs: Any) -> dict[str, Any]:
    """
    A Windows shortcut; fails elsewhere.
    """
    return failed_ret(new_ret(name), "Shortcuts are only supported on Windows")


def mod_beacon(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Watch what C{managed} or C{directory} made, if the state asks for a C{beacon}.
    """
    function = kwargs.pop("sfun", None)
    ret = new_ret(name)
    if function not in ("managed", "directory"):
        return failed_ret(ret, f"file.{function} does not work with the beacon state function")
    if not kwargs.get("beacon"):
        ret["comment"] = "Not adding beacon."
        return ret
    given = kwargs.get("beacon_data", {})
    watched: dict[str, Any] = {"mask": given.get("mask", ["create", "delete", "modify"])}
    if function == "directory":
        watched["auto_add"] = given.get("auto_add", True)
        watched["recurse"] = given.get("recurse", True)
        watched["exclude"] = given.get("exclude", [])
    made: dict[str, Any] = __states__["beacon.present"](
        name=f"beacon_inotify_{name}",
        files={name: watched},
        interval=given.get("interval", 60),
        coalesce=given.get("coalesce", False),
        beacon_module="inotify",
    )
    return made
