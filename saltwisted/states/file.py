"""
Files and directories: that they are there, what is in them, whose they are.

The states of stock's C{file}, on the functions of the execution module. Decisions that need no
machine are in C{_file_rules}, formats of data in C{saltwisted.modules._serializers}. The longer
states are at home in files of their own, C{managed} in C{_file_managed}, C{directory} in
C{_file_directory}, C{recurse} in C{_file_tree}, C{serialize} in C{_file_serialized}; what these
share is in C{_file_work}. States of text are in C{_file_text}, those of mere paths in
C{_file_paths}. The Windows arguments are taken and mean nothing here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from saltwisted.modules import _files
from saltwisted.modules._arguments import picked, taken
from saltwisted.states._file_directory import Directory, Meta
from saltwisted.states._file_links import Hardlink, Symlink
from saltwisted.states._file_managed import manage, run_check_cmd
from saltwisted.states._file_patch import Patch
from saltwisted.states._file_serialized import Serialized
from saltwisted.states._file_tree import Tree
from saltwisted.states._file_work import Surroundings, failed_ret, new_ret
from saltwisted.wire import msgpack

__func_alias__ = {"copy_": "copy"}
__parts__ = ("_file_text", "_file_paths")

_CHOICE = ("keep_symlinks", "include_pat", "maxdepth", "include_empty", "merge")
"""By which arguments C{recurse} chooses among what is served."""

_around = Surroundings(globals())

__salt__: Any
__opts__: Any
__grains__: Any
__states__: Any

# What a run of states puts in place for each call; these serve outside of one.
__low__: Any = {}
__lowstate__: Any = ()
__env__: str = "base"
__instance_id__: str = ""


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
    arguments = locals()
    return manage(_around(), arguments, _shell() if check_cmd else {})


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


# -- patches ---------------------------------------------------------------------------


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


# -- times -----------------------------------------------------------------------------


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
        _around().make_parents(name)
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


# -- others ----------------------------------------------------------------------------


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
