"""
Files and directories: what they are, what is in them, and changing both.

The functions that states are built on (C{get_managed}, C{check_managed_changes},
C{manage_file}, C{check_perms}) and those that people call. Rules on lines of text are in
L{saltwisted.modules._edit}, announced hashes in L{saltwisted.modules._sums}, the search of
C{file.find} in L{saltwisted.modules._find}.

Changed content replaces a file in one step. Where Salt promises to keep the inode
(C{preserve_inode}) or to add to a file (C{append}, C{seek_write}), it is written in place.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from typing import Any

from saltwisted.modules import (
    _edit,
    _file_diff,
    _file_look,
    _file_make,
    _file_manage,
    _file_owners,
    _file_replace,
    _file_source,
    _file_work,
    _file_write,
    _files,
)
from saltwisted.modules._arguments import picked, taken
from saltwisted.modules._file_around import Around, Lenience, SecurityContext
from saltwisted.modules._file_diff import Comparison
from saltwisted.modules._file_manage import Placement
from saltwisted.modules._file_perms import Permissions
from saltwisted.modules._file_source import Announced, Fetch, Signing
from saltwisted.worker import templates
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

__func_alias__ = {"makedirs_": "makedirs"}
__parts__ = (_file_look, _file_owners, _file_replace, _file_write, "_file_programs", "_file_kept")

_FETCHED = (
    *("name", "template", "source", "source_hash", "source_hash_name", "user", "group", "mode"),
    *("attrs", "saltenv", "context", "defaults", "skip_verify"),
)
"""Arguments of a state that C{get_managed} takes."""
_COMPARED = (
    *("name", "source", "user", "group", "mode", "attrs", "saltenv", "contents"),
    *("seuser", "serole", "setype", "serange", "follow_symlinks"),
)
"""Arguments of a state that C{check_file_meta} takes."""

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__context__: Any


def _around() -> Around:
    return Around(
        salt=__salt__,
        opts=__opts__,
        grains=__grains__,
        pillar=__pillar__,
        context=__context__,
    )


# -- hashes ----------------------------------------------------------------------------


def get_source_sum(
    file_name: str = "",
    source: str = "",
    source_hash: Any = None,
    source_hash_name: str | None = None,
    saltenv: str = "base",
    verify_ssl: bool = True,
    source_hash_sig: Any = None,
    signed_by_any: Any = None,
    signed_by_all: Any = None,
    keyring: Any = None,
    gnupghome: Any = None,
    sig_backend: str = "gpg",
) -> dict[str, str]:
    """
    The hash that C{source_hash} means: a hash, or a place with a list of hashes.

    CLI Example::

        salt '*' file.get_source_sum /tmp/foo.tar.gz source=http://mydomain.tld/foo.tar.gz \\
            source_hash=499ae16dcae71eeb7c3a30c75ea7a1a6
    """
    return Announced(
        signing=Signing(**taken(Signing, locals())),
        **taken(Announced, locals()),
    ).find(__salt__)


# -- editing -------------------------------------------------------------------------------


def line(
    path: str,
    content: Any = None,
    match: str | None = None,
    mode: str | None = None,
    location: str | None = None,
    before: str | None = None,
    after: str | None = None,
    show_changes: bool = True,
    backup: bool = False,
    quiet: bool = False,
    indent: bool = True,
) -> Any:
    """
    Insert, replace, delete or ensure one line of a file.

    mode
        C{ensure}: the line is there, between or beside C{before} and C{after}; C{replace}
        or C{delete}: the line that C{match} fits; C{insert}: at C{location} (C{start},
        C{end}) or beside C{before}, C{after}.
    show_changes
        Answer with a diff; else whether something changed.
    backup
        Keep the old file with a date at the end of its name.
    quiet
        Answer false where there is no such file.
    indent
        Give the line the indentation of the one that it stands beside.

    CLI Example::

        salt '*' file.line /path/to/file content="CREATEMAIL_SPOOL=no" \\
            match="CREATE_MAIL_SPOOL=yes" mode="replace"
    """
    path = os.path.realpath(_files.expanded(path))
    if not os.path.isfile(path):
        if quiet:
            return False
        raise CommandExecutionError(f'File "{path}" does not exists or is not a file.')
    mode = mode.lower() if mode else mode
    _edit.check_line_mode(mode, content, '"')
    with open(path, encoding="utf-8", newline="") as file:
        old = file.readlines()
    body = list(old)
    if body and _edit.eol(body[-1]):
        body.append("")
    body = _edit.set_line(body, content, match, mode, location, before, after, indent)
    body = _edit.finish_lines(body)
    changed = "".join(body) != "".join(old)
    dry = __opts__["test"] is not False
    if changed and backup and not dry:
        _file_work.keep_copy(path, f".{time.strftime('%Y-%m-%d-%H-%M-%S')}")
    difference = None
    if changed:
        if show_changes:
            difference = _edit.diff("".join(old).splitlines(True), body)
        if not dry:
            _file_work.put_content(path, "".join(body).encode(), keep_inode=False)
    return (show_changes and difference) or changed


# -- links, moving, copying, removing ------------------------------------------------------


def copy(src: str, dst: str, recurse: bool = False, remove_existing: bool = False) -> bool:
    """
    Copy a file, or a directory with C{recurse}; owner and mode come along.

    remove_existing
        Remove a directory that is there first; else its other files stay.

    CLI Example::

        salt '*' file.copy /path/to/src /path/to/dst
        salt '*' file.copy /path/to/src_dir /path/to/dst_dir recurse=True
    """
    src = _files.absolute(src, "File path must be absolute.")
    dst = _files.expanded(dst)
    if not os.path.exists(src):
        raise CommandExecutionError(f"No such file or directory '{src}'")
    old = _file_owners.stats(src)
    try:
        if os.path.isdir(dst) or os.path.isdir(src):
            if not recurse:
                raise SaltInvocationError(
                    "Cannot copy overwriting a directory without recurse flag set to true!"
                )
            if remove_existing:
                if os.path.exists(dst):
                    shutil.rmtree(dst)
                shutil.copytree(src, dst)
            else:
                _file_work.copy_tree(src, dst)
        else:
            shutil.copyfile(src, dst)
    except OSError as error:
        raise CommandExecutionError(f"Could not copy '{src}' to '{dst}'") from error
    check_perms(dst, None, old["user"], old["group"], old["mode"])
    return True


# -- managed files: what states stand on -----------------------------------------------------


def source_list(source: Any, source_hash: Any, saltenv: str) -> Any:
    """
    Of several sources the first that is there, with its hash.

    CLI Example::

        salt '*' file.source_list salt://http/httpd.conf '{hash_type: 'md5', 'hsum': <md5sum>}' base
    """
    key = f"{source}_|-{source_hash}_|-{saltenv}"
    if key in __context__:
        return __context__[key]
    found = _file_source.choose(__salt__, source, source_hash, saltenv)
    __context__[key] = found
    return found


def _clean_tmp(path: Any) -> None:
    """Remove a file that was made here for a template's output."""
    _file_source.clean_tmp(__opts__, path)


def apply_template_on_contents(
    contents: Any, template: str, context: Any, defaults: Any, saltenv: str
) -> Any:
    """
    A text rendered with an engine and the usual variables.

    CLI Example::

        salt '*' file.apply_template_on_contents contents='This is a {{ template }} string.' \\
            template=jinja "context={}" "defaults={'template': 'cool'}" saltenv=base
    """
    if not templates.known(template):
        return {
            "result": False,
            "comment": f"Specified template format {template} is not supported",
        }
    variables = {
        **_around().template_names,
        "saltenv": saltenv,
        **_file_source.own_context(defaults, context),
    }
    text = contents.decode("utf-8") if isinstance(contents, bytes) else str(contents)
    return templates.render_text(text, template, variables)


def get_managed(
    name: str,
    template: str | None,
    source: Any,
    source_hash: Any,
    source_hash_name: str | None,
    user: Any,
    group: Any,
    mode: Any,
    attrs: Any,
    saltenv: str,
    context: Any,
    defaults: Any,
    skip_verify: bool = False,
    verify_ssl: bool = True,
    use_etag: bool = False,
    source_hash_sig: Any = None,
    signed_by_any: Any = None,
    signed_by_all: Any = None,
    keyring: Any = None,
    gnupghome: Any = None,
    ignore_ordering: bool = False,
    ignore_whitespace: bool = False,
    ignore_comment_characters: Any = None,
    sig_backend: str = "gpg",
    **kwargs: Any,
) -> tuple[str, dict[str, Any], str]:
    """
    Fetch (and render) the file that a state wants: its local path, its hash, or an error text.

    CLI Example::

        salt '*' file.get_managed /etc/httpd/conf.d/httpd.conf jinja salt://http/httpd.conf \\
            '{hash_type: 'md5', 'hsum': <md5sum>}' None root root '755' base None None
    """
    given = locals()
    signing = Signing(**taken(Signing, given))
    return Fetch(around=_around(), signing=signing, **taken(Fetch, given)).fetch()


def check_perms(
    name: str,
    ret: Any,
    user: Any,
    group: Any,
    mode: Any,
    attrs: Any = None,
    follow_symlinks: bool = False,
    seuser: str | None = None,
    serole: str | None = None,
    setype: str | None = None,
    serange: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    Set owner, mode, attributes and SELinux context of a path if they are not right.

    @return: the state's return with what changed, and the old permissions.

    CLI Example::

        salt '*' file.check_perms /etc/sudoers '{}' root root 400 ai
    """
    given = locals()
    selinux = SecurityContext(**taken(SecurityContext, given))
    return Permissions(around=_around(), selinux=selinux, **taken(Permissions, given)).set()


def check_managed(
    name: str,
    source: Any,
    source_hash: Any,
    source_hash_name: str | None,
    user: Any,
    group: Any,
    mode: Any,
    attrs: Any,
    template: str | None,
    context: Any,
    defaults: Any,
    saltenv: str,
    contents: Any = None,
    skip_verify: bool = False,
    seuser: str | None = None,
    serole: str | None = None,
    setype: str | None = None,
    serange: str | None = None,
    follow_symlinks: bool = False,
    **kwargs: Any,
) -> tuple[bool | None, str]:
    """
    Whether a file is as a state wants it: true, or nothing and what would change.

    CLI Example::

        salt '*' file.check_managed /etc/httpd/conf.d/httpd.conf salt://http/httpd.conf \\
            '{hash_type: 'md5', 'hsum': <md5sum>}' root, root, '755' jinja True None None base
    """
    source, source_hash = source_list(source, source_hash, saltenv)
    path, summed = "", None
    if contents is None:
        path, summed, problem = get_managed(**picked(locals(), _FETCHED), **kwargs)
        if problem:
            _clean_tmp(path)
            return False, problem
    changes = check_file_meta(sfn=path, source_sum=summed, **picked(locals(), _COMPARED))
    # Salt does not look at owner and mode below the directory for temporary files.
    if name.startswith(tempfile.gettempdir()):
        for key in ("user", "group", "mode"):
            changes.pop(key, None)
    _clean_tmp(path)
    if not changes:
        return True, f"The file {name} is in the correct state"
    listed = "".join(f"{key}: {value}\n" for key, value in changes.items())
    return None, "The following values are set to be changed:\n" + listed


def check_managed_changes(
    name: str,
    source: Any,
    source_hash: Any,
    source_hash_name: str | None,
    user: Any,
    group: Any,
    mode: Any,
    attrs: Any,
    template: str | None,
    context: Any,
    defaults: Any,
    saltenv: str,
    contents: Any = None,
    skip_verify: bool = False,
    keep_mode: bool = False,
    seuser: str | None = None,
    serole: str | None = None,
    setype: str | None = None,
    serange: str | None = None,
    verify_ssl: bool = True,
    follow_symlinks: bool = False,
    ignore_ordering: bool = False,
    ignore_whitespace: bool = False,
    ignore_comment_characters: Any = None,
    new_file_diff: bool = False,
    **kwargs: Any,
) -> Any:
    """
    What would change if a state made a file as it wants it; or false and an error text.

    CLI Example::

        salt '*' file.check_managed_changes /etc/httpd/conf.d/httpd.conf salt://http/httpd.conf \\
            '{hash_type: 'md5', 'hsum': <md5sum>}' root, root, '755' jinja True None None base
    """
    source, source_hash = source_list(source, source_hash, saltenv)
    path, summed = "", None
    lenience = Lenience(**taken(Lenience, locals()))
    if contents is None:
        path, summed, problem = get_managed(
            verify_ssl=verify_ssl, **picked(locals(), _FETCHED), **lenience.words, **kwargs
        )
        if summed and "hsum" in summed:
            summed["hsum"] = summed["hsum"].lower()
        if problem:
            _clean_tmp(path)
            return False, problem
        if path and source and keep_mode:
            mode = _file_manage.kept_mode(__salt__, source, saltenv, mode)
    changes = check_file_meta(
        sfn=path,
        source_sum=summed,
        new_file_diff=new_file_diff,
        **picked(locals(), _COMPARED),
        **lenience.words,
    )
    _clean_tmp(path)
    return changes


def check_file_meta(
    name: str,
    sfn: str,
    source: Any,
    source_sum: Any,
    user: Any,
    group: Any,
    mode: Any,
    attrs: Any,
    saltenv: str,
    contents: Any = None,
    seuser: str | None = None,
    serole: str | None = None,
    setype: str | None = None,
    serange: str | None = None,
    verify_ssl: bool = True,
    follow_symlinks: bool = False,
    ignore_ordering: bool = False,
    ignore_whitespace: bool = False,
    ignore_comment_characters: Any = None,
    new_file_diff: bool = False,
) -> Any:
    """
    What differs between a file and what it should be: content, owner, mode.

    With one of the C{ignore_} arguments a pair: whether the content differs in earnest, and
    the differences.

    CLI Example::

        salt '*' file.check_file_meta /etc/httpd/conf.d/httpd.conf None salt://http/httpd.conf \\
            '{hash_type: 'md5', 'hsum': <md5sum>}' root root '755' None base
    """
    given = locals()
    return Comparison(
        around=_around(),
        selinux=SecurityContext(**taken(SecurityContext, given)),
        lenience=Lenience(**taken(Lenience, given)),
        **taken(Comparison, given),
    ).compare()


def get_diff(
    file1: str,
    file2: str,
    saltenv: str = "base",
    show_filenames: bool = True,
    show_changes: bool = True,
    template: bool = False,
    source_hash_file1: str | None = None,
    source_hash_file2: str | None = None,
    ignore_ordering: bool = False,
    ignore_whitespace: bool = False,
    ignore_comment_characters: Any = None,
) -> Any:
    """
    A unified diff of two files, of this machine or from the file server.

    With one of the C{ignore_} arguments a pair: whether they differ in earnest, and the diff.

    CLI Example::

        salt '*' file.get_diff /home/fred/.vimrc salt://users/fred/.vimrc
        salt '*' file.get_diff /tmp/foo.txt /tmp/bar.txt
    """
    return _file_diff.diff(
        _around(),
        file1,
        file2,
        saltenv=saltenv,
        show_filenames=show_filenames,
        show_changes=show_changes,
        template=template,
        source_hash_file1=source_hash_file1,
        source_hash_file2=source_hash_file2,
        lenience=Lenience(**taken(Lenience, locals())),
    )


def manage_file(
    name: str,
    sfn: str,
    ret: Any,
    source: Any,
    source_sum: Any,
    user: Any,
    group: Any,
    mode: Any,
    attrs: Any,
    saltenv: str,
    backup: Any,
    makedirs: bool = False,
    template: str | None = None,
    show_changes: bool = True,
    contents: Any = None,
    dir_mode: Any = None,
    follow_symlinks: bool = True,
    skip_verify: bool = False,
    keep_mode: bool = False,
    encoding: str | None = None,
    encoding_errors: str = "strict",
    seuser: str | None = None,
    serole: str | None = None,
    setype: str | None = None,
    serange: str | None = None,
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
    Make a file what C{file.get_managed} found, with owner and mode; answers as a state.

    CLI Example::

        salt '*' file.manage_file /etc/httpd/conf.d/httpd.conf '' '{}' salt://http/httpd.conf \\
            '{hash_type: 'md5', 'hsum': <md5sum>}' root root '755' '' base ''
    """
    given = locals()
    return Placement(
        around=_around(),
        selinux=SecurityContext(**taken(SecurityContext, given)),
        lenience=Lenience(**taken(Lenience, given)),
        signing=Signing(**taken(Signing, given)),
        **taken(Placement, given),
    ).place()


# -- directories and special files -----------------------------------------------------------


def mkdir(dir_path: str, user: Any = None, group: Any = None, mode: Any = None) -> bool:
    """
    Make a directory, and those above it, if it is not there.

    CLI Example::

        salt '*' file.mkdir /opt/jetty/context
    """
    _file_make.make_missing(_around(), dir_path, user, group, mode)
    return True


def makedirs_(path: str, user: Any = None, group: Any = None, mode: Any = None) -> Any:
    """
    Make the directories above a path; a path that ends in a slash is a directory itself.

    CLI Example::

        salt '*' file.makedirs /opt/code/
    """
    return _file_make.make_parents(_around(), path, user, group, mode)


def makedirs_perms(name: str, user: Any = None, group: Any = None, mode: Any = "0755") -> None:
    """
    Make a directory and those above it, all with this owner and mode.

    CLI Example::

        salt '*' file.makedirs_perms /opt/code
    """
    _file_make.make_directory(_around(), name, user, group, mode)


def mknod_chrdev(
    name: str,
    major: Any,
    minor: Any,
    user: Any = None,
    group: Any = None,
    mode: Any = "0660",
) -> dict[str, Any]:
    """
    Make a character device.

    CLI Example::

        salt '*' file.mknod_chrdev /dev/chr 180 31
    """
    device = os.makedev(major, minor)
    what = "Character device"
    return _file_make.make_node(_around(), name, stat.S_IFCHR, device, user, group, mode, what)


def mknod_blkdev(
    name: str,
    major: Any,
    minor: Any,
    user: Any = None,
    group: Any = None,
    mode: Any = "0660",
) -> dict[str, Any]:
    """
    Make a block device.

    CLI Example::

        salt '*' file.mknod_blkdev /dev/blk 8 999
    """
    device = os.makedev(major, minor)
    what = "Block device"
    return _file_make.make_node(_around(), name, stat.S_IFBLK, device, user, group, mode, what)


def mknod_fifo(
    name: str, user: Any = None, group: Any = None, mode: Any = "0660"
) -> dict[str, Any]:
    """
    Make a named pipe.

    CLI Example::

        salt '*' file.mknod_fifo /dev/fifo
    """
    return _file_make.make_node(_around(), name, stat.S_IFIFO, 0, user, group, mode, "Fifo pipe")


def mknod(
    name: str,
    ntype: str,
    major: Any = 0,
    minor: Any = 0,
    user: Any = None,
    group: Any = None,
    mode: Any = "0600",
) -> dict[str, Any]:
    """
    Make a device or pipe: C{c} character, C{b} block, C{p} pipe.

    CLI Example::

        salt '*' file.mknod /dev/chr c 180 31
        salt '*' file.nknod /dev/fifo p
    """
    makedirs_(name, user, group)
    if ntype == "c":
        return mknod_chrdev(name, major, minor, user, group, mode)
    if ntype == "b":
        return mknod_blkdev(name, major, minor, user, group, mode)
    if ntype == "p":
        return mknod_fifo(name, user, group, mode)
    raise SaltInvocationError(
        f"Node type unavailable: '{ntype}'. Available node types are character ('c'), block "
        "('b'), and pipe ('p')."
    )
