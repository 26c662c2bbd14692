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

import datetime
import glob
import logging
import os
import shlex
import shutil
import stat
import tempfile
import time
import urllib.parse
from typing import Any

from saltwisted.modules import (
    _edit,
    _file_look,
    _file_owners,
    _file_perms,
    _file_replace,
    _file_work,
    _file_write,
    _files,
    _sums,
)
from saltwisted.worker import systools, templates
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    MinionError,
    SaltInvocationError,
)

log = logging.getLogger(__name__)

__func_alias__ = {"makedirs_": "makedirs"}
__parts__ = (_file_look, _file_owners, _file_replace, _file_write)

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__context__: Any


# -- owners and modes ----------------------------------------------------------------


def chattr(*files: str, **kwargs: Any) -> bool:
    """
    Add or remove attributes of files; answers whether that went.

    operator
        C{add} or C{remove}.
    attributes
        Letters of C{aAcCdDeijPsStTu}.
    flags, version
        Further arguments for the program C{chattr}: C{R}, C{V}, C{f}; a version number.

    CLI Example::

        salt '*' file.chattr foo1.txt foo2.txt operator=add attributes=ai
        salt '*' file.chattr foo3.txt operator=remove attributes=i version=2
    """
    operator = kwargs.pop("operator", None)
    attributes = kwargs.pop("attributes", None)
    flags = kwargs.pop("flags", None)
    version = kwargs.pop("version", None)
    if operator not in ("add", "remove"):
        raise SaltInvocationError("Need an operator: 'add' or 'remove' to modify attributes.")
    if attributes is None:
        raise SaltInvocationError("Need attributes: [aAcCdDeijPsStTu]")
    if flags is not None or version is not None:
        words = ["chattr", f"{'+' if operator == 'add' else '-'}{attributes}"]
        if flags is not None:
            words.append(f"-{flags}")
        if version is not None:
            words += ["-v", str(version)]
        return not __salt__["cmd.run"]([*words, *files], python_shell=False)
    mask = 0
    for letter in str(attributes):
        if letter not in _file_work.FLAGS:
            return False
        mask |= _file_work.FLAGS[letter]
    try:
        for path in files:
            if operator == "add":
                _file_work.inode_flags(path, lambda bits: bits | mask)
            else:
                _file_work.inode_flags(path, lambda bits: bits & ~mask)
    except OSError:
        return False
    return True


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
    place = None
    if os.path.isabs(source_hash):
        place = source_hash
    else:
        scheme = urllib.parse.urlparse(source_hash).scheme
        if scheme in _files.VALID_PROTOS:
            place = __salt__["cp.cache_file"](source_hash, saltenv, verify_ssl=verify_ssl)
            if not place:
                raise CommandExecutionError(
                    f"Source hash file {_files.hidden_credentials(source_hash)} not found"
                )
            if source_hash_sig:
                _check_sig(
                    place,
                    signature=source_hash_sig if source_hash_sig is not True else None,
                    signed_by_any=signed_by_any,
                    signed_by_all=signed_by_all,
                    keyring=keyring,
                    gnupghome=gnupghome,
                    sig_backend=sig_backend,
                    saltenv=saltenv,
                    verify_ssl=verify_ssl,
                )
        elif scheme:
            raise _sums.invalid(source_hash)
    if place is None:
        return _sums.parse(source_hash)
    found = _file_owners.extract_hash(place, "", file_name, source, source_hash_name)
    if found is None:
        raise _sums.invalid(source_hash)
    found["hsum"] = found["hsum"].lower()
    return found


def _check_sig(
    on_file: str,
    signature: Any = None,
    signed_by_any: Any = None,
    signed_by_all: Any = None,
    keyring: Any = None,
    gnupghome: Any = None,
    sig_backend: str = "gpg",
    saltenv: str = "base",
    verify_ssl: bool = True,
) -> None:
    """
    Verify a file's signature; a file that fails is removed from the cache.

    @raises CommandExecutionError: it does not verify, or cannot be verified here.
    """
    function = f"{sig_backend}.verify"
    if function not in __salt__:
        raise CommandExecutionError(
            f"Signature verification requires the {sig_backend} module, which could not be "
            "found. Make sure you have the necessary tools and libraries intalled"
        )
    given: Any = None
    cached: list[str] = []
    if signature is not None:
        found = []
        for one in [signature] if isinstance(signature, str) else signature:
            local = __salt__["cp.cache_file"](one, saltenv, verify_ssl=verify_ssl)
            if local:
                cached.append(local)
            elif sig_backend == "gpg":
                raise CommandExecutionError(f"Detached signature file {one} not found")
            found.append(local or one)
        given = found[0] if isinstance(signature, str) else found
    result = __salt__[function](
        filename=on_file,
        signature=given,
        keyring=keyring,
        gnupghome=gnupghome,
        signed_by_any=signed_by_any,
        signed_by_all=signed_by_all,
    )
    if result["res"] is True:
        return
    for path in (*cached, on_file):
        _files.safe_remove(path)
    raise CommandExecutionError(f"The file's signature could not be verified: {result['message']}")


# -- searching ---------------------------------------------------------------------------


def grep(path: str, pattern: str, *opts: Any) -> dict[str, Any]:
    """
    Run C{grep} on a file or a glob; options one by one after the pattern.

    CLI Example::

        salt '*' file.grep /etc/passwd nobody
        salt '*' file.grep /etc/sysconfig/network-scripts/ifcfg-eth0 ipaddr -- -i
    """
    path = _files.expanded(path)
    words: list[str] = []
    for option in opts:
        split = shlex.split(str(option))
        if len(split) > 1:
            raise SaltInvocationError(
                "Passing multiple command line arguments in a single string is not "
                f"supported, please pass the following arguments separately: {option}"
            )
        words += split
    answer: dict[str, Any] = __salt__["cmd.run_all"](
        ["grep", *words, pattern, *(glob.glob(path) or [path])], python_shell=False
    )
    return answer


# -- editing -------------------------------------------------------------------------------


def sed(
    path: str,
    before: Any,
    after: Any,
    limit: str = "",
    backup: str = ".bak",
    options: str = "-r -e",
    flags: str = "g",
    escape_all: bool = False,
    negate_match: bool = False,
) -> Any:
    """
    Replace text with the program C{sed}; C{file.replace} is the better way.

    CLI Example::

        salt '*' file.sed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'
    """
    path = _files.expanded(path)
    if not os.path.exists(path):
        return False
    before = _file_work.sed_text(str(before), escape_all)
    after = _file_work.sed_text(str(after), escape_all)
    limit = _file_work.sed_text(limit, escape_all)
    words = ["sed", f"-i{backup}" if backup else "-i", *shlex.split(options)]
    words.append(
        (f"/{limit}/ " if limit else "")
        + ("!" if negate_match else "")
        + f"s/{before}/{after}/{flags}"
    )
    return __salt__["cmd.run_all"]([*words, path], python_shell=False)


def sed_contains(path: str, text: Any, limit: str = "", flags: str = "g") -> bool:
    """
    Whether C{sed} finds a text in a file; C{file.search} is the better way.

    CLI Example::

        salt '*' file.contains /etc/crontab 'mymaintenance.sh'
    """
    path = _files.expanded(path)
    if not os.path.exists(path):
        return False
    before = _file_work.sed_text(str(text))
    limit = _file_work.sed_text(str(limit))
    expression = (f"/{limit}/ " if limit else "") + f"s/{before}/$/p{flags}"
    return bool(
        __salt__["cmd.run"](["sed", "-n", "-r", "-e", expression, path], python_shell=False)
    )


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


def patch(originalfile: str, patchfile: str, options: str = "", dry_run: bool = False) -> Any:
    """
    Apply a patch to a file or directory with the program C{patch}.

    CLI Example::

        salt '*' file.patch /opt/file.txt /tmp/file.txt.patch
    """
    program = systools.which("patch")
    if not program:
        raise CommandExecutionError(
            "patch executable not found. Is the distribution's patch package installed?"
        )
    words = [program, *shlex.split(options)]
    if dry_run:
        words.append("--dry-run")
    # Neither ask questions nor leave reject files about.
    if "-N" not in words and "--forward" not in words:
        words.append("--forward")
    if not any(word == "-r" or word.startswith(("-r ", "--reject-file")) for word in words):
        words.append("--reject-file=-")
    words += ["-i", patchfile]
    if os.path.isdir(originalfile):
        words += ["-d", originalfile]
        if not any(word.startswith(("-p", "--strip=")) for word in words):
            words.append("--strip=0")
    else:
        words.append(originalfile)
    return __salt__["cmd.run_all"](words, python_shell=False)


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


# -- looking ---------------------------------------------------------------------------------


# -- SELinux -----------------------------------------------------------------------------------


def restorecon(path: str, recursive: bool = False) -> bool:
    """
    Reset the SELinux context of a path; answers whether that went.

    CLI Example::

        salt '*' file.restorecon /home/user/.ssh/authorized_keys
    """
    words = ["restorecon", "-FR" if recursive else "-F", path]
    return not __salt__["cmd.retcode"](words, python_shell=False)


def set_selinux_context(
    path: str,
    user: str | None = None,
    role: str | None = None,
    type: str | None = None,
    range: str | None = None,
    persist: bool = False,
) -> Any:
    """
    Set parts of the SELinux context of a path; with C{persist} in the policy too.

    CLI Example::

        salt '*' file.set_selinux_context path <user> <role> <type> <range>
    """
    if not any((user, role, type, range)):
        return False
    if persist:
        result = __salt__["selinux.fcontext_add_policy"](
            path, sel_type=type, sel_user=user, sel_level=range
        )
        if result.get("retcode", None) != 0:
            raise CommandExecutionError(f"Problem setting fcontext: {result}")
    words = ["chcon"]
    for option, value in (("-u", user), ("-r", role), ("-t", type), ("-l", range)):
        if value:
            words += [option, value]
    if __salt__["cmd.retcode"]([*words, path], python_shell=False):
        return False
    return _file_owners.get_selinux_context(path)


# -- managed files: what states stand on -----------------------------------------------------


def _exists_by_url(parts: urllib.parse.ParseResult) -> bool:
    return any(
        place and os.path.exists(place)
        for place in (parts.netloc, parts.path, os.path.join(parts.netloc, parts.path))
    )


def _reachable(url: str) -> bool:
    """Whether a server has a file, without fetching it; certificates are checked."""
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=60):
            return True
    except (urllib.error.URLError, OSError, ValueError):
        return False


def source_list(source: Any, source_hash: Any, saltenv: str) -> Any:
    """
    Of several sources the first that is there, with its hash.

    CLI Example::

        salt '*' file.source_list salt://http/httpd.conf '{hash_type: 'md5', 'hsum': <md5sum>}' base
    """
    key = f"{source}_|-{source_hash}_|-{saltenv}"
    if key in __context__:
        return __context__[key]
    found = _choose_source(source, source_hash, saltenv)
    __context__[key] = found
    return found


def _choose_source(source: Any, source_hash: Any, saltenv: str) -> tuple[Any, Any]:
    if not isinstance(source, list):
        return source, source_hash
    known: dict[str, set[str]] = {}

    def on_master(path: str, env: str) -> bool:
        if env not in known:
            known[env] = {
                *__salt__["cp.list_master"](env),
                *__salt__["cp.list_master_dirs"](env),
            }
        return path in known[env]

    for one in source:
        its_hash = source_hash
        if isinstance(one, dict):
            if len(one) != 1:
                continue
            one, its_hash = next(iter(one.items()))
            its_hash = its_hash or source_hash
        if not isinstance(one, str):
            continue
        parts = urllib.parse.urlparse(one)
        path, env = _files.parse_url(one)
        if (
            (parts.scheme in ("salt", "") and on_master(path, env or saltenv))
            or (parts.scheme == "file" and _exists_by_url(parts))
            or (parts.scheme in ("http", "https", "ftp") and _reachable(one))
            or (one.startswith(os.sep) and os.path.exists(one))
        ):
            return one, its_hash
    raise CommandExecutionError("none of the specified sources were found")


def _clean_tmp(path: Any) -> None:
    """Remove a file that was made here for a template's output."""
    prefix = os.path.join(tempfile.gettempdir(), _files.TEMPFILE_PREFIX)
    if not path or not path.startswith(prefix) or not os.path.exists(path):
        return
    roots = [root for group in (__opts__.get("file_roots") or {}).values() for root in group]
    if not any(path.startswith(root) for root in roots):
        os.remove(path)


def _context(defaults: Any, context: Any) -> dict[str, Any]:
    merged = defaults if defaults else {}
    if context:
        merged.update(context)
    return dict(merged)


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
        "salt": __salt__,
        "pillar": __pillar__,
        "grains": __grains__,
        "opts": __opts__,
        "saltenv": saltenv,
        **_context(defaults, context),
    }
    return templates.render_text(_text(contents), template, variables)


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


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
    path = ""
    summed: dict[str, Any] = {}
    scheme = ""
    if source:
        parts = urllib.parse.urlparse(source)
        scheme = parts.scheme if parts.scheme in _files.VALID_PROTOS else ""
        if scheme in _files.LOCAL_PROTOS:
            local = source
            if scheme == "file":
                local = os.path.join(parts.netloc, parts.path).rstrip(os.sep)
            path = local
            if not os.path.exists(path):
                return "", {}, f"Local file source {path} does not exist"
        if scheme == "salt":
            summed = __salt__["cp.hash_file"](source, saltenv)
            if not summed:
                return "", {}, f"Source file {source} not found in saltenv '{saltenv}'"
        elif not source_hash and scheme in _files.LOCAL_PROTOS:
            summed = {"hsum": _file_owners.get_hash(path), "hash_type": "sha256"}
        elif not skip_verify:
            if source_hash:
                try:
                    summed = get_source_sum(
                        name,
                        source,
                        source_hash,
                        source_hash_name,
                        saltenv,
                        verify_ssl=verify_ssl,
                        source_hash_sig=source_hash_sig,
                        signed_by_any=signed_by_any,
                        signed_by_all=signed_by_all,
                        keyring=keyring,
                        gnupghome=gnupghome,
                        sig_backend=sig_backend,
                    )
                except CommandExecutionError as error:
                    return "", {}, f"Unable to manage file: {error.strerror}"
            elif not use_etag:
                return (
                    "",
                    {},
                    "Unable to verify upstream hash of source file "
                    f"{_files.hidden_credentials(source)}, please set source_hash or set "
                    "skip_verify to True",
                )
    if not source or not (template or scheme in _files.REMOTE_PROTOS):
        return path, summed, ""

    again = False
    cached = __salt__["cp.is_cached"](source, saltenv)
    if cached and (source_hash or skip_verify or use_etag):
        kind = summed.get("hash_type", "sha256")
        have = _file_owners.get_hash(cached, form=kind)
        if skip_verify:
            path = cached
            summed = {"hsum": have, "hash_type": kind}
        elif use_etag or have != summed.get("hsum", __opts__["hash_type"]):
            again = True
        else:
            path = cached
    shown = _files.hidden_credentials(source)
    if not path or again:
        try:
            path = __salt__["cp.cache_file"](
                source,
                saltenv,
                source_hash=summed.get("hsum"),
                verify_ssl=verify_ssl,
                use_etag=use_etag,
            )
        except Exception as error:
            return "", {}, f"Failed to cache {shown}: {error}"
    if not path or not os.path.exists(path):
        return path, {}, f"Source file '{shown}' not found"
    if path == name:
        raise SaltInvocationError("Source file cannot be the same as destination")
    if not template:
        return path, summed, ""
    if not templates.known(template):
        return path, {}, f"Specified template format {template} is not supported"
    own = _context(defaults, context)
    variables = {
        "name": name,
        "source": source,
        "user": user,
        "group": group,
        "mode": mode,
        "attrs": attrs,
        "saltenv": saltenv,
        "salt": __salt__,
        "pillar": __pillar__,
        "grains": __grains__,
        "opts": __opts__,
        **kwargs,
    }
    try:
        with open(path, "rb") as file:
            data = file.read()
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        if not _files.is_text(path, 2048):
            # A picture among the templates of file.recurse is copied as it is.
            return path, summed, ""
        raise
    rendered = templates.render_text(text, template, variables, path, own).encode()
    path = _files.temporary_with(rendered)
    return path, {"hash_type": "sha256", "hsum": _file_owners.get_hash(path)}, ""


_SELINUX_NAMES = ("User", "Role", "Type", "Range")


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
    name = _files.expanded(name)
    mode = _files.normalize_mode(mode)
    if not ret:
        ret = {"name": name, "changes": {}, "comment": [], "result": True}
        earlier: Any = ""
    else:
        earlier = ret["comment"]
        ret["comment"] = []
    old = _file_owners.stats(name, follow_symlinks=follow_symlinks)
    perms = {
        "luser": old["uid"] if isinstance(user, int) else old["user"],
        "lgroup": old["gid"] if isinstance(group, int) else old["group"],
        "lmode": old["mode"],
    }
    test = __opts__["test"]
    is_link = os.path.islink(name)
    itself = is_link and not follow_symlinks
    if user and user not in (old["user"], old["uid"]):
        perms["cuser"] = user
    if group and group not in (old["group"], old["gid"]):
        perms["cgroup"] = group
    if ("cuser" in perms or "cgroup" in perms) and not test:
        try:
            problem = (_file_owners.lchown if itself else _file_owners.chown)(
                name,
                old["user"] if user is None else user,
                old["group"] if group is None else group,
            )
            if problem:
                ret["result"] = False
                ret["comment"].append(problem)
            elif not is_link:
                # A change of owner takes set-uid bits away; they come back here.
                _file_owners.set_mode(name, old["mode"])
        except OSError:
            ret["result"] = False
    if mode is not None and test is not True and not itself and mode != old["mode"]:
        perms["cmode"] = mode
        _file_owners.set_mode(name, mode)

    new = _file_owners.stats(name, follow_symlinks=follow_symlinks)
    for word, wanted, have, changed in (
        ("user", user, (new["user"], new["uid"]), "cuser"),
        ("group", group, (new["group"], new["gid"]), "cgroup"),
        ("mode", None if itself else mode, (new["mode"],), "cmode"),
    ):
        if not wanted:
            continue
        if wanted in have:
            if changed in perms:
                ret["changes"][word] = wanted
        elif test is True:
            ret["changes"][word] = wanted
        else:
            ret["result"] = False
            ret["comment"].append(f"Failed to change {word} to {wanted}")

    if attrs is not None and not os.path.isdir(name) and not itself:
        _check_attrs(name, ret, attrs)
    if seuser or serole or setype or serange:
        _check_selinux(name, ret, [seuser, serole, setype, serange])
    if isinstance(earlier, str):
        ret["comment"] = "; ".join([*([earlier] if earlier else []), *ret["comment"]])
    if test is True and ret["changes"]:
        ret["result"] = None
    return ret, perms


def _check_attrs(name: str, ret: dict[str, Any], attrs: Any) -> None:
    difference = _file_perms.attr_changes(name, attrs)
    if not difference or not any(difference):
        return
    changes = {"old": "".join(_file_owners.lsattr(name).get(name, ())), "new": attrs}
    if __opts__["test"] is not True:
        if difference.added:
            chattr(name, operator="add", attributes=difference.added)
        if difference.removed:
            chattr(name, operator="remove", attributes=difference.removed)
        if any(_file_perms.attr_changes(name, attrs) or ()):
            ret["result"] = False
            ret["comment"].append(f"Failed to change attributes to {attrs}")
            changes["new"] = "".join(_file_owners.lsattr(name).get(name, ()))
    if changes["old"] != changes["new"]:
        ret["changes"]["attrs"] = changes


def _check_selinux(name: str, ret: dict[str, Any], wanted: list[str | None]) -> None:
    try:
        have = _file_perms.selinux_parts(name)
    except ValueError:
        log.error("Unable to get current selinux attributes")
        ret["result"] = False
        ret["comment"].append("Failed to get selinux attributes")
        return
    asked = [new if new and new != old else None for new, old in zip(wanted, have, strict=True)]
    if not any(asked):
        return
    rows = list(zip(_SELINUX_NAMES, asked, have, strict=True))
    changes = {
        "Old": " ".join(f"{word}: {old}" for word, new, old in rows if new),
        "New": " ".join(f"{word}: {new}" for word, new, old in rows if new),
    }
    if __opts__["test"]:
        ret["comment"] = [f"File {name} selinux context to be updated"]
        ret["result"] = None
        ret["changes"]["selinux"] = changes
        return
    # The policy needs a type beside whatever else is set.
    result = set_selinux_context(
        name, user=asked[0], role=asked[1], type=asked[2] or have[2], range=asked[3], persist=True
    )
    parts = result.split(":") if isinstance(result, str) else []
    if len(parts) != 4:
        log.error("Unable to set current selinux attributes")
        ret["result"] = False
        ret["comment"].append("Failed to set selinux attributes")
        return
    ret["comment"].append(f"The file {name} is set to be changed")
    for word, new, now in zip(("seuser", "serole", "setype", "serange"), asked, parts, strict=True):
        if new and new != now:
            ret["comment"].append(f"Unable to update {word} context")
            ret["result"] = False
    ret["changes"]["selinux"] = changes


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
    path = ""
    summed = None
    if contents is None:
        path, summed, problem = get_managed(
            name,
            template,
            source,
            source_hash,
            source_hash_name,
            user,
            group,
            mode,
            attrs,
            saltenv,
            context,
            defaults,
            skip_verify,
            **kwargs,
        )
        if problem:
            _clean_tmp(path)
            return False, problem
    changes = check_file_meta(
        name,
        path,
        source,
        summed,
        user,
        group,
        mode,
        attrs,
        saltenv,
        contents,
        seuser=seuser,
        serole=serole,
        setype=setype,
        serange=serange,
        follow_symlinks=follow_symlinks,
    )
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
    path = ""
    summed = None
    if contents is None:
        path, summed, problem = get_managed(
            name,
            template,
            source,
            source_hash,
            source_hash_name,
            user,
            group,
            mode,
            attrs,
            saltenv,
            context,
            defaults,
            skip_verify,
            verify_ssl=verify_ssl,
            ignore_ordering=ignore_ordering,
            ignore_whitespace=ignore_whitespace,
            ignore_comment_characters=ignore_comment_characters,
            **kwargs,
        )
        if summed and "hsum" in summed:
            summed["hsum"] = summed["hsum"].lower()
        if problem:
            _clean_tmp(path)
            return False, problem
        if path and source and keep_mode:
            mode = _kept_mode(source, saltenv, mode)
    changes = check_file_meta(
        name,
        path,
        source,
        summed,
        user,
        group,
        mode,
        attrs,
        saltenv,
        contents,
        seuser=seuser,
        serole=serole,
        setype=setype,
        serange=serange,
        follow_symlinks=follow_symlinks,
        ignore_ordering=ignore_ordering,
        ignore_whitespace=ignore_whitespace,
        ignore_comment_characters=ignore_comment_characters,
        new_file_diff=new_file_diff,
    )
    _clean_tmp(path)
    return changes


def _kept_mode(source: str, saltenv: str, mode: Any) -> Any:
    """The mode of a source, for C{mode: keep}."""
    if urllib.parse.urlparse(source).scheme in ("salt", "file", ""):
        try:
            return __salt__["cp.stat_file"](source, saltenv=saltenv, octal=True)
        except Exception as error:
            log.warning("Unable to stat %s: %s", source, type(error).__name__)
    return mode


def _write_temporary(contents: Any, encoding: str | None = None, errors: str = "strict") -> str:
    if not isinstance(contents, bytes):
        contents = str(contents).encode(encoding or "utf-8", errors if encoding else "strict")
    return _files.temporary_with(contents)


def _obfuscated() -> bool:
    return bool(__salt__["config.option"]("obfuscate_templates"))


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
    changes: dict[str, Any] = {}
    serious = False
    ignoring = {
        "ignore_ordering": ignore_ordering,
        "ignore_whitespace": ignore_whitespace,
        "ignore_comment_characters": ignore_comment_characters,
    }
    lenient = any(ignoring.values())
    summed = source_sum or {}
    try:
        have = _file_owners.stats(name, summed.get("hash_type"), follow_symlinks)
    except CommandExecutionError:
        have = {}
    if not have and not new_file_diff:
        changes["newfile"] = name
        return (True, changes) if lenient else changes
    if "hsum" in summed and summed["hsum"] != have.get("sum"):
        if not sfn and source:
            sfn = __salt__["cp.cache_file"](
                source, saltenv, source_hash=summed["hsum"], verify_ssl=verify_ssl
            )
        if sfn:
            try:
                if lenient:
                    serious, changes["diff"] = get_diff(
                        name, sfn, template=True, show_filenames=False, **ignoring
                    )
                elif have:
                    changes["diff"] = get_diff(name, sfn, template=True, show_filenames=False)
                else:
                    changes["diff"] = _diff_to_nothing(sfn)
            except CommandExecutionError as error:
                changes["diff"] = error.strerror
        else:
            changes["sum"] = "Checksum differs"
    if contents is not None:
        temporary = _write_temporary(contents)
        difference: Any
        try:
            if lenient:
                serious, difference = get_diff(name, temporary, show_filenames=False, **ignoring)
            elif have:
                difference = get_diff(name, temporary, show_filenames=False)
            else:
                difference = _diff_to_nothing(temporary)
        except CommandExecutionError as error:
            log.error("Failed to diff files")
            difference = error.strerror
        _clean_tmp(temporary)
        if difference:
            changes["diff"] = "<Obfuscated Template>" if _obfuscated() else difference
    if not have:
        return changes
    if user is not None and user not in (have["user"], have["uid"]):
        changes["user"] = user
    if group is not None and group not in (have["group"], have["gid"]):
        changes["group"] = group
    mode = _files.normalize_mode(mode)
    if mode is not None and mode != have["mode"]:
        changes["mode"] = mode
    if attrs:
        different = _file_perms.attr_changes(name, attrs)
        if different is not None and any(different):
            changes["attrs"] = attrs
    if seuser or serole or setype or serange:
        try:
            parts = _file_perms.selinux_parts(name)
        except ValueError:
            log.error("Unable to get current selinux attributes")
            changes["selinux"] = "Unable to get current selinux attributes"
        else:
            for word, new, old in zip(
                ("user", "role", "type", "range"),
                (seuser, serole, setype, serange),
                parts,
                strict=True,
            ):
                if new and new != old:
                    changes["selinux"] = {word: new}
    return (serious, changes) if lenient else changes


def _diff_to_nothing(path: str) -> Any:
    empty = _files.mkstemp()
    try:
        return get_diff(empty, path, show_filenames=False)
    finally:
        _files.safe_remove(empty)


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
    paths: list[str] = []
    errors: list[str] = []
    for name, source_hash in ((file1, source_hash_file1), (file2, source_hash_file2)):
        try:
            # A plain path needs no cache, and states compare many.
            if os.path.isabs(name) and os.path.isfile(name):
                cached: Any = name
            else:
                cached = __salt__["cp.cache_file"](name, saltenv, source_hash=source_hash)
        except MinionError as error:
            errors.append(str(error))
            continue
        if cached is False or cached == "":
            errors.append(f"File {name} not found")
        else:
            paths.append(cached)
    if errors:
        raise CommandExecutionError("Failed to cache one or more files", info=errors)
    contents: list[list[bytes]] = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                contents.append(file.readlines())
        except OSError as error:
            raise CommandExecutionError(f"Failed to read {path}: {error.strerror}") from error
    lenient = bool(ignore_ordering or ignore_whitespace or ignore_comment_characters)
    if contents[0] == contents[1]:
        return (False, "") if lenient else ""
    if template and _obfuscated():
        return "<Obfuscated Template>"
    if not show_changes:
        return "<show_changes=False>"
    binary = _binary_difference(*paths)
    if binary:
        return binary
    names = paths if show_filenames else []
    if lenient:
        return _edit.conditional_diff(
            contents[0],
            contents[1],
            *names,
            ignore_ordering=ignore_ordering,
            ignore_whitespace=ignore_whitespace,
            ignore_comment_characters=ignore_comment_characters,
        )
    return _edit.diff(contents[0], contents[1], *names)


def _binary_difference(old: str, new: str) -> str:
    """In place of a diff, where one of the files is no text."""
    was, becomes = not _files.is_text(old), not _files.is_text(new)
    if was and becomes:
        return "Replace binary file"
    if was:
        return "Replace binary file with text file"
    if becomes:
        return "Replace text file with binary file"
    return ""


def _failed(ret: dict[str, Any], comment: str) -> dict[str, Any]:
    ret["result"] = False
    ret["comment"] = comment
    return ret


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
    name = _files.expanded(name)
    state: dict[str, Any] = ret or {"name": name, "changes": {}, "comment": "", "result": True}
    summed = dict(source_sum or {})
    if "hsum" in summed:
        summed["hsum"] = summed["hsum"].lower()
    if source:
        if not sfn:
            sfn = __salt__["cp.cache_file"](source, saltenv, verify_ssl=verify_ssl)
            if not sfn:
                return _failed(state, f"Source file '{source}' not found")
            kind = summed.get("hash_type", __opts__["hash_type"])
            summed = {"hash_type": kind, "hsum": _file_owners.get_hash(sfn, form=kind)}
        if keep_mode:
            mode = _kept_mode(source, saltenv, mode)
    verify = bool(
        source
        and urllib.parse.urlparse(source).scheme != "salt"
        and not skip_verify
        and not use_etag
    )

    def refused(subject: Any, advice: str = "") -> bool:
        """Whether what was fetched is not what was announced or signed; says so in the return."""
        if verify:
            got = _file_owners.get_hash(sfn, summed["hash_type"])
            if got != summed["hsum"]:
                _failed(
                    state,
                    f"Specified {summed['hash_type']} checksum for {subject} "
                    f"({summed['hsum']}) does not match actual checksum ({got}){advice}",
                )
                return True
        if signature:
            try:
                _check_sig(
                    sfn,
                    signature=signature if signature is not True else None,
                    signed_by_any=signed_by_any,
                    signed_by_all=signed_by_all,
                    keyring=keyring,
                    gnupghome=gnupghome,
                    sig_backend=sig_backend,
                    saltenv=saltenv,
                    verify_ssl=verify_ssl,
                )
            except CommandExecutionError as error:
                _failed(state, f"Failed checking new file's signature: {error}")
                return True
        return False

    def commit(new: str, target: str) -> bool:
        try:
            _files.copyfile(
                new, target, __salt__["config.backup_mode"](backup), __opts__["cachedir"]
            )
        except OSError as error:
            _clean_tmp(new)
            _failed(state, f"Failed to commit change: {error}")
            return False
        return True

    ignoring = {
        "ignore_ordering": ignore_ordering,
        "ignore_whitespace": ignore_whitespace,
        "ignore_comment_characters": ignore_comment_characters,
    }
    lenient = any(ignoring.values())
    selinux: dict[str, Any] = {
        "seuser": seuser,
        "serole": serole,
        "setype": setype,
        "serange": serange,
    }
    serious = False

    if os.path.isfile(name) or os.path.islink(name):
        a_link = os.path.islink(name)
        real = os.path.realpath(name) if a_link and follow_symlinks else name
        replace_link = a_link and not follow_symlinks
        have = None
        if source and not replace_link:
            have = _file_owners.get_hash(real, summed.get("hash_type", __opts__["hash_type"]))
        if source and (have is None or summed.get("hsum", __opts__["hash_type"]) != have):
            advice = (
                ". If the 'source_hash' value refers to a remote file with multiple possible "
                "matches, then it may be necessary to set 'source_hash_name'."
            )
            if refused(source, advice):
                return state
            if _obfuscated():
                state["changes"]["diff"] = "<Obfuscated Template>"
            elif not show_changes:
                state["changes"]["diff"] = "<show_changes=False>"
            else:
                try:
                    difference = get_diff(real, sfn, show_filenames=False, **ignoring)
                    if lenient:
                        serious, difference = difference
                    if difference:
                        state["changes"]["diff"] = difference
                except CommandExecutionError as error:
                    state["changes"]["diff"] = error.strerror
            if not commit(sfn, real):
                return state
        if contents is not None:
            temporary = _write_temporary(contents, encoding, encoding_errors)
            try:
                difference = get_diff(
                    real,
                    temporary,
                    show_filenames=False,
                    show_changes=show_changes,
                    template=True,
                    **ignoring,
                )
                if lenient and isinstance(difference, tuple):
                    serious, difference = difference
            except CommandExecutionError as error:
                state.setdefault("warnings", []).append(
                    f"Failed to detect changes to file: {error.strerror}"
                )
                difference = ""
            if difference:
                state["changes"]["diff"] = difference
                if not commit(temporary, real):
                    return state
            _clean_tmp(temporary)
        if os.path.islink(name) and not follow_symlinks:
            if not sfn:
                sfn = __salt__["cp.cache_file"](source, saltenv, verify_ssl=verify_ssl)
            if not sfn:
                return _failed(state, f"Source file '{source}' not found")
            if refused(name):
                return state
            if not commit(sfn, name):
                return state
            state["changes"]["diff"] = "Replace symbolic link with regular file"
        state, _ = check_perms(name, state, user, group, mode, attrs, follow_symlinks, **selinux)
        if state["changes"]:
            state["comment"] = f"File {name} updated"
            if lenient and not serious:
                state["skip_req"] = True
        elif state["result"]:
            state["comment"] = f"File {name} is in the correct state"
        _clean_tmp(sfn)
        return state

    # There is no such file yet.
    folder = os.path.dirname(name)
    if source:
        if refused(name):
            return state
        state["changes"]["diff"] = _diff_to_nothing(sfn) if new_file_diff else "New file"
    if not os.path.isdir(folder):
        if not makedirs:
            _clean_tmp(sfn)
            state["changes"].pop("diff", None)
            return _failed(state, "Parent directory not present")
        makedirs_(name, user=user, group=group, mode=_directory_mode(dir_mode, mode))
    if not source and not __opts__["test"]:
        if not _touch_private(name, bool(mode)):
            what = "Empty file" if contents is None else "File"
            return _failed(state, f"{what} {name} not created")
        if contents is None:
            state["changes"]["new"] = f"file {name} created"
            state["comment"] = "Empty file"
        else:
            state["changes"]["diff"] = "New file"
    if contents is not None:
        temporary = _write_temporary(contents, encoding, encoding_errors)
        if new_file_diff and state["changes"].get("diff") == "New file":
            state["changes"]["diff"] = _diff_to_nothing(temporary)
        done = commit(temporary, name)
        _clean_tmp(temporary)
        if not done:
            return state
    elif sfn and not commit(sfn, name):
        return state
    if mode is None:
        mode = f"{0o666 & ~_umask():o}"
    state, _ = check_perms(name, state, user, group, mode, attrs, **selinux)
    if not state["comment"]:
        state["comment"] = f"File {name} updated"
    if __opts__["test"]:
        state["comment"] = f"File {name} not updated"
    elif not state["changes"] and state["result"]:
        state["comment"] = f"File {name} is in the correct state"
    _clean_tmp(sfn)
    if lenient and state["changes"] and not serious:
        state["skip_req"] = True
    return state


def _umask() -> int:
    """The umask of this process."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _directory_mode(dir_mode: Any, mode: Any) -> Any:
    """For directories made on the way to a file: the file's mode, with x where there is any r."""
    if dir_mode is not None or mode is None:
        return dir_mode
    return "".join(digit if digit == "0" else str(int(digit) | 1) for digit in str(mode)[-3:])


def _touch_private(name: str, private: bool) -> bool:
    """Make an empty file; readable by nobody else until its mode is set, if one is asked for."""
    old = os.umask(0o077) if private else None
    try:
        return _file_write.touch(name)
    finally:
        if old is not None:
            os.umask(old)


# -- directories and special files -----------------------------------------------------------


def mkdir(dir_path: str, user: Any = None, group: Any = None, mode: Any = None) -> bool:
    """
    Make a directory, and those above it, if it is not there.

    CLI Example::

        salt '*' file.mkdir /opt/jetty/context
    """
    directory = os.path.normpath(_files.expanded(dir_path))
    if not os.path.isdir(directory):
        # A caller gives a mode such as 755: the same digits again.
        makedirs_perms(directory, user, group, mode)
    return True


def makedirs_(path: str, user: Any = None, group: Any = None, mode: Any = None) -> Any:
    """
    Make the directories above a path; a path that ends in a slash is a directory itself.

    CLI Example::

        salt '*' file.makedirs /opt/code/
    """
    mode = _files.normalize_mode(mode) if mode else mode
    folder = os.path.normpath(os.path.dirname(_files.expanded(path)))
    if os.path.isdir(folder):
        return f"Directory '{folder}' already exists"
    if os.path.exists(folder):
        return f"The path '{folder}' already exists and is not a directory"
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        above = os.path.dirname(folder)
        if above == folder:
            raise SaltInvocationError(
                f"Recursive creation for path '{above}' would result in an infinite loop. "
                "Please use an absolute path."
            )
        folder = above
    for each in reversed(missing):
        mkdir(each, user=user, group=group, mode=mode)
    return None


def makedirs_perms(name: str, user: Any = None, group: Any = None, mode: Any = "0755") -> None:
    """
    Make a directory and those above it, all with this owner and mode.

    CLI Example::

        salt '*' file.makedirs_perms /opt/code
    """
    name = _files.expanded(name)
    head, tail = os.path.split(name)
    if not tail:
        head, tail = os.path.split(head)
    if head and tail and not os.path.exists(head):
        try:
            makedirs_perms(head, user, group, mode)
        except FileExistsError:
            pass
        if tail == os.curdir:
            return
    os.mkdir(name)
    check_perms(name, None, user, group, int(f"{mode}") if mode else None)


def _make_node(
    name: str, kind: int, device: int, user: Any, group: Any, mode: Any, what: str
) -> dict[str, Any]:
    name = _files.expanded(name)
    ret: dict[str, Any] = {"name": name, "changes": {}, "comment": "", "result": False}
    created = {"new": f"{what} {name} created."}
    if __opts__["test"]:
        ret["changes"], ret["result"] = created, None
    else:
        try:
            os.mknod(name, int(str(mode).lstrip("0Oo"), 8) | kind, device)
        except FileExistsError:
            ret["comment"] = f"File {name} exists and cannot be overwritten"
        else:
            ret["changes"], ret["result"] = created, True
    if os.path.lexists(name):
        check_perms(name, None, user, group, int(f"{mode}") if mode else None)
    return ret


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
    return _make_node(name, stat.S_IFCHR, device, user, group, mode, "Character device")


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
    return _make_node(name, stat.S_IFBLK, device, user, group, mode, "Block device")


def mknod_fifo(
    name: str, user: Any = None, group: Any = None, mode: Any = "0660"
) -> dict[str, Any]:
    """
    Make a named pipe.

    CLI Example::

        salt '*' file.mknod_fifo /dev/fifo
    """
    return _make_node(name, stat.S_IFIFO, 0, user, group, mode, "Fifo pipe")


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


# -- backups -----------------------------------------------------------------------------------


def _backup_root() -> str:
    return os.path.join(__salt__["config.get"]("cachedir"), "file_backup")


def _limit(limit: Any) -> int | None:
    if limit is None:
        return None
    try:
        return int(limit)
    except (TypeError, ValueError):
        log.error("file.list_backups: 'limit' value must be numeric")
        return None


def _backups(folder: str, name: str, limit: int | None) -> dict[int, dict[str, Any]]:
    """The backups of one file in a directory of backups, the newest first, numbered."""
    found = []
    for entry in os.listdir(folder):
        place = os.path.join(folder, entry)
        if not entry.startswith(f"{name}_") or not os.path.isfile(place):
            continue
        try:
            when = datetime.datetime.strptime(entry[len(name) + 1 :], "%a_%b_%d_%H:%M:%S_%f_%Y")
        except ValueError:
            continue
        found.append((when, place))
    found.sort(reverse=True)
    return {
        number: {
            "Backup Time": when.strftime("%a %b %d %Y %H:%M:%S.%f"),
            "Size": os.stat(place).st_size,
            "Location": place,
        }
        for number, (when, place) in enumerate(found[:limit])
    }


def list_backups(path: str, limit: Any = None) -> dict[int, dict[str, Any]]:
    """
    The backups of a file that C{backup: minion} made, the newest first.

    CLI Example::

        salt '*' file.list_backups /foo/bar/baz.txt
    """
    folder, name = os.path.split(_files.expanded(path))
    place = os.path.join(_backup_root(), folder[1:])
    return _backups(place, name, _limit(limit)) if os.path.isdir(place) else {}


def list_backup(path: str, limit: Any = None) -> dict[int, dict[str, Any]]:
    """
    Another name of C{file.list_backups}.

    CLI Example::

        salt '*' file.list_backup /foo/bar/baz.txt
    """
    return list_backups(path, limit)


def list_backups_dir(path: str, limit: Any = None) -> dict[str, dict[int, dict[str, Any]]]:
    """
    The backups of all files of a directory.

    CLI Example::

        salt '*' file.list_backups_dir /foo/bar/baz/
    """
    folder = os.path.dirname(_files.expanded(path))
    place = os.path.join(_backup_root(), folder[1:])
    if not os.path.isdir(place):
        return {}
    # As Salt does, a file's name is taken to end at its first underscore.
    names = {entry.split("_")[0] for entry in os.listdir(place)}
    return {name: _backups(place, name, _limit(limit)) for name in sorted(names)}


def _one_backup(path: str, backup_id: Any) -> tuple[dict[str, Any] | None, str]:
    """A backup by its number, or why there is none."""
    try:
        number = int(backup_id)
    except (TypeError, ValueError):
        return None, f"Invalid backup_id '{backup_id}'"
    if len(str(backup_id)) != len(str(number)):
        return None, f"Invalid backup_id '{backup_id}'"
    found = list_backups(path).get(number)
    return found, f"backup_id '{backup_id}' does not exist for {path}"


def restore_backup(path: str, backup_id: Any) -> dict[str, Any]:
    """
    Put the content of a backup back; what is there now becomes a backup too.

    CLI Example::

        salt '*' file.restore_backup /foo/bar/baz.txt 0
    """
    path = _files.expanded(path)
    found, problem = _one_backup(path, backup_id)
    if found is None:
        return {"result": False, "comment": problem}
    place = found["Location"]
    if os.path.exists(path):
        _files.backup(path, _backup_root())
    try:
        _files.copyfile(place, path)
    except OSError as error:
        return {
            "result": False,
            "comment": f"Unable to restore {place} to {path}: {error}",
        }
    return {"result": True, "comment": f"Successfully restored {place} to {path}"}


def delete_backup(path: str, backup_id: Any) -> dict[str, Any]:
    """
    Remove a backup.

    CLI Example::

        salt '*' file.delete_backup /var/cache/salt/minion/file_backup/home/foo/bar/baz.txt 0
    """
    path = _files.expanded(path)
    found, problem = _one_backup(path, backup_id)
    if found is None:
        return {"result": False, "comment": problem}
    try:
        os.remove(found["Location"])
    except OSError as error:
        return {
            "result": False,
            "comment": f"Unable to remove {found['Location']}: {error}",
        }
    return {"result": True, "comment": f"Successfully removed {found['Location']}"}


def remove_backup(path: str, backup_id: Any) -> dict[str, Any]:
    """
    Another name of C{file.delete_backup}.

    CLI Example::

        salt '*' file.remove_backup /foo/bar/baz.txt 0
    """
    return delete_backup(path, backup_id)
