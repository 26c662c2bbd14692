"""
Files from the master (or, locally, from C{file_roots}) to this minion, and back.

Fetching is the work of L{saltwisted.worker.fileclient}; here are the names, defaults and
answers that people and SLS trees know.
"""

from __future__ import annotations

import base64
import errno
import fnmatch
import gzip as gzip_format
import logging
import os
import urllib.parse
from typing import Any

from saltwisted.modules import _files
from saltwisted.worker import templates
from saltwisted.worker.exceptions import CommandExecutionError, SaltRenderError

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__context__: Any
__master__: Any
__fileclient__: Any


def _env(saltenv: str | None) -> str:
    return saltenv or __opts__.get("saltenv") or "base"


def _path_env(path: str, saltenv: str | None) -> tuple[str, str]:
    """A path and the environment it is in: C{?saltenv=} in the path wins."""
    path, inside = _files.split_env(path)
    return path, inside or _env(saltenv)


def _rendered(path: str, dest: str, saltenv: str, template: str | None, extra: Any) -> list[str]:
    """Source and target with their template expressions filled in."""
    if not template:
        return [path, dest]
    if not templates.known(template):
        raise CommandExecutionError(
            f"Attempted to render file paths with unavailable engine {template}"
        )
    pillar = __pillar__
    if "pillarenv" in extra or "pillar" in extra:
        override = extra.get("pillar")
        pillarenv = extra.get("pillarenv", __opts__.get("pillarenv"))
        pillar = __salt__["pillar.items"](pillar=override, pillarenv=pillarenv, unmask=True)
        if isinstance(override, dict):
            pillar.update(override)
    context = {
        "salt": __salt__,
        "pillar": pillar,
        "grains": __grains__,
        "opts": __opts__,
        "saltenv": saltenv,
    }
    result = []
    for text in (path, dest):
        try:
            result.append(templates.render_text(text, template, context))
        except SaltRenderError:
            raise
        except Exception as error:
            raise CommandExecutionError(
                f"Failed to render file path with error: {error}"
            ) from error
    return result


def get_file(
    path: str,
    dest: str,
    saltenv: str | None = None,
    makedirs: bool = False,
    template: str | None = None,
    gzip: Any = None,
    **kwargs: Any,
) -> Any:
    """
    Fetch one file and answer with the path it was written to, or an empty text.

    makedirs
        Make the directories of the target.
    template
        Render both paths with this engine first.
    gzip
        Compress on the way, 1 to 9.

    CLI Example::

        salt '*' cp.get_file salt://path/to/file /minion/dest
        salt '*' cp.get_file "salt://{{grains.os}}/vimrc" /etc/vimrc template=jinja
        salt '*' cp.get_file salt://path/to/file?saltenv=dev /minion/dest
    """
    saltenv = _env(saltenv)
    path, dest = _rendered(path, dest, saltenv, template, kwargs)
    path, saltenv = _path_env(path, saltenv)
    if not hash_file(path, saltenv):
        return ""
    return __fileclient__.get_file(path, dest, makedirs, saltenv, gzip)


def envs() -> Any:
    """
    The environments of the file server.

    CLI Example::

        salt '*' cp.envs
    """
    return __fileclient__.envs()


def get_template(
    path: str,
    dest: str,
    template: str = "jinja",
    saltenv: str | None = None,
    makedirs: bool = False,
    **kwargs: Any,
) -> Any:
    """
    Fetch a file, render it, and write the result; answers with the path, or an empty text.

    CLI Example::

        salt '*' cp.get_template salt://path/to/template /minion/dest
    """
    saltenv = _env(saltenv)
    kwargs.setdefault("salt", __salt__)
    kwargs.setdefault("pillar", __pillar__)
    kwargs.setdefault("grains", __grains__)
    kwargs.setdefault("opts", __opts__)
    return __fileclient__.get_template(path, dest, template, makedirs, saltenv, **kwargs)


def get_dir(
    path: str,
    dest: str,
    saltenv: str | None = None,
    template: str | None = None,
    gzip: Any = None,
    **kwargs: Any,
) -> Any:
    """
    Fetch a directory with all below it; answers with the paths that were written.

    CLI Example::

        salt '*' cp.get_dir salt://path/to/dir/ /minion/dest
    """
    saltenv = _env(saltenv)
    path, dest = _rendered(path, dest, saltenv, template, kwargs)
    return __fileclient__.get_dir(path, dest, saltenv, gzip)


def get_url(
    path: str,
    dest: Any = "",
    saltenv: str | None = None,
    makedirs: bool = False,
    source_hash: str | None = None,
) -> Any:
    """
    Fetch from any address: C{salt}, C{file}, C{http}, C{https}, C{ftp}, ...

    dest
        Where to write it; empty is the cache; nothing (C{None}) answers with the content.
    source_hash
        A copy in the cache with this hash is used instead of fetching.

    CLI Example::

        salt '*' cp.get_url salt://my/file /tmp/this_file_is_mine
        salt '*' cp.get_url http://www.slashdot.org /tmp/index.html
    """
    saltenv = _env(saltenv)
    if isinstance(dest, str):
        result = __fileclient__.get_url(path, dest, makedirs, saltenv, source_hash=source_hash)
    else:
        result = __fileclient__.get_url(
            path, None, makedirs, saltenv, no_cache=True, source_hash=source_hash
        )
    if not result:
        log.error(
            "Unable to fetch file %s from saltenv %s.", _files.hidden_credentials(path), saltenv
        )
        return result
    return result.decode("utf-8") if isinstance(result, bytes) else result


def get_file_str(path: str, saltenv: str | None = None) -> Any:
    """
    The content of a file, or false if it is not there.

    CLI Example::

        salt '*' cp.get_file_str salt://my/file
    """
    cached = cache_file(path, _env(saltenv))
    if not isinstance(cached, str):
        return cached
    try:
        with open(cached, "rb") as file:
            return file.read().decode("utf-8")
    except OSError:
        return False


def cache_file(
    path: str,
    saltenv: str | None = None,
    source_hash: str | None = None,
    verify_ssl: bool = True,
    use_etag: bool = False,
) -> Any:
    """
    Fetch a file into the cache and answer with its path there, or false.

    CLI Example::

        salt '*' cp.cache_file salt://path/to/file
        salt '*' cp.cache_file https://foo.domain.tld/file source_hash=<sha256>
    """
    path, saltenv = _path_env(path, saltenv)
    remote = urllib.parse.urlparse(path).scheme in _files.REMOTE_PROTOS
    # One fetch from a foreign server per job, as states ask several times for one file.
    key = f"cp.cache_file_|-{path}_|-{saltenv}"
    if remote and key in __context__:
        if __context__[key] and os.path.isfile(__context__[key]):
            return __context__[key]
        del __context__[key]
    result = __fileclient__.cache_file(
        path, saltenv, source_hash=source_hash, verify_ssl=verify_ssl, use_etag=use_etag
    )
    if not result and not use_etag:
        log.error(
            "Unable to cache file '%s' from saltenv '%s'.",
            _files.hidden_credentials(path),
            saltenv,
        )
    if remote:
        __context__[key] = result
    return result


def cache_file_ssh(
    path: str,
    saltenv: str | None = None,
    source_hash: str | None = None,
    verify_ssl: bool = True,
    use_etag: bool = False,
) -> Any:
    """
    Another name of C{cp.cache_file}.

    CLI Example::

        salt '*' cp.cache_file_ssh salt://path/to/file
    """
    return cache_file(path, saltenv, source_hash, verify_ssl, use_etag)


def cache_dest(url: str, saltenv: str | None = None) -> Any:
    """
    Where in the cache a file would be, without fetching it.

    CLI Example::

        salt '*' cp.cache_dest https://foo.com/bar.rpm
    """
    return __fileclient__.cache_dest(url, _env(saltenv))


def cache_files(paths: Any, saltenv: str | None = None) -> Any:
    """
    Fetch several files into the cache: a list, or a text with commas.

    CLI Example::

        salt '*' cp.cache_files salt://pathto/file1,salt://pathto/file1
    """
    return __fileclient__.cache_files(paths, _env(saltenv))


def cache_dir(
    path: str,
    saltenv: str | None = None,
    include_empty: bool = False,
    include_pat: str | None = None,
    exclude_pat: str | None = None,
) -> Any:
    """
    Fetch a directory into the cache; answers with the paths there.

    Patterns are globs, or regular expressions after C{E@}.

    CLI Example::

        salt '*' cp.cache_dir salt://path/to/dir
        salt '*' cp.cache_dir salt://path/to/dir include_pat='E@*.py$'
    """
    return __fileclient__.cache_dir(path, _env(saltenv), include_empty, include_pat, exclude_pat)


def cache_master(saltenv: str | None = None) -> Any:
    """
    Fetch every file of an environment into the cache.

    CLI Example::

        salt '*' cp.cache_master
    """
    return __fileclient__.cache_master(_env(saltenv))


def cache_local_file(path: str) -> Any:
    """
    Copy a file of this machine into the cache, unless the same is there already.

    CLI Example::

        salt '*' cp.cache_local_file /etc/hosts
    """
    if not os.path.exists(path):
        return ""
    cached = is_cached(path)
    if cached and hash_file(path)["hsum"] == hash_file(cached)["hsum"]:
        return cached
    return __fileclient__.cache_local_file(path)


def list_states(saltenv: str | None = None) -> Any:
    """
    The names of all sls of an environment.

    CLI Example::

        salt '*' cp.list_states
    """
    return __fileclient__.list_states(_env(saltenv))


def list_master(saltenv: str | None = None, prefix: str = "") -> Any:
    """
    The files of an environment of the file server.

    CLI Example::

        salt '*' cp.list_master
    """
    return __fileclient__.file_list(_env(saltenv), prefix)


def list_master_dirs(saltenv: str | None = None, prefix: str = "") -> Any:
    """
    The directories of an environment of the file server.

    CLI Example::

        salt '*' cp.list_master_dirs
    """
    return __fileclient__.dir_list(_env(saltenv), prefix)


def list_master_symlinks(saltenv: str | None = None, prefix: str = "") -> Any:
    """
    The symbolic links of an environment of the file server, with what they point to.

    CLI Example::

        salt '*' cp.list_master_symlinks
    """
    return __fileclient__.symlink_list(_env(saltenv), prefix)


def list_minion(saltenv: str | None = None) -> Any:
    """
    The files of an environment that are in the cache of this minion.

    CLI Example::

        salt '*' cp.list_minion
    """
    return __fileclient__.file_local_list(_env(saltenv))


def is_cached(path: str, saltenv: str | None = None) -> Any:
    """
    Where in the cache a file is, or an empty text.

    CLI Example::

        salt '*' cp.is_cached salt://path/to/file
    """
    path, saltenv = _path_env(path, saltenv)
    return __fileclient__.is_cached(path, saltenv)


def hash_file(path: str, saltenv: str | None = None) -> Any:
    """
    The hash of a file (C{salt://} or of this machine) and its kind, or an empty map.

    CLI Example::

        salt '*' cp.hash_file salt://path/to/file
    """
    path, saltenv = _path_env(path, saltenv)
    return __fileclient__.hash_file(path, saltenv)


def hash_file_ssh(path: str, saltenv: str | None = None) -> Any:
    """
    Another name of C{cp.hash_file}.

    CLI Example::

        salt '*' cp.hash_file_ssh salt://path/to/file
    """
    return hash_file(path, saltenv)


def stat_file(path: str, saltenv: str | None = None, octal: bool = True) -> Any:
    """
    The mode of a file on the file server: octal text, or a number without C{octal}.

    CLI Example::

        salt '*' cp.stat_file salt://path/to/file
    """
    path, saltenv = _path_env(path, saltenv)
    status = __fileclient__.hash_and_stat_file(path, saltenv)[1]
    if status is None:
        return None
    return _files.mode_text(status[0]) if octal is True else status[0]


def push(
    path: str,
    keep_symlinks: bool = False,
    upload_path: str | None = None,
    remove_source: bool = False,
) -> Any:
    """
    Send a file to the master, which keeps it in this minion's part of its cache.

    The master must have C{file_recv} on.

    CLI Example::

        salt '*' cp.push /etc/fstab
        salt '*' cp.push /etc/system-release keep_symlinks=True
        salt '*' cp.push /etc/fstab upload_path='/new/path/fstab'
    """
    if "../" in path or not os.path.isabs(path):
        log.debug("Path must be absolute, returning False")
        return False
    if not keep_symlinks:
        path = os.path.realpath(path)
    if not os.path.isfile(path):
        return False
    if upload_path and "../" in upload_path:
        return False
    target = os.path.normpath((upload_path or path).lstrip(os.sep))
    load: dict[str, Any] = {
        "cmd": "_file_recv",
        "id": __opts__["id"],
        "path": [part for part in target.split(os.sep) if part],
        "size": os.path.getsize(path),
    }
    first = True
    with open(path, "rb") as file:
        while True:
            place = file.tell()
            data = file.read(__opts__["file_buffer_size"])
            if not data and not first:
                break
            first = False
            answer = __master__.request({**load, "loc": place, "data": data})
            if not answer:
                log.error(
                    "cp.push Failed transfer failed. Ensure master has 'file_recv' set to "
                    "'True' and that the file is not larger than the 'file_recv_size_max' "
                    "setting on the master."
                )
                return answer
    if remove_source:
        try:
            os.remove(path)
        except OSError:
            log.error("cp.push failed to remove file '%s'", path)
            return False
    return True


def push_dir(path: str, glob: str | None = None, upload_path: str | None = None) -> Any:
    """
    Send all files below a directory to the master, or those whose names fit a glob.

    CLI Example::

        salt '*' cp.push_dir /etc/modprobe.d/ glob='*.conf'
    """
    if "../" in path or not os.path.isabs(path):
        return False
    path = os.path.realpath(path)
    if os.path.isfile(path):
        return push(path, upload_path=upload_path)
    found = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if glob is None or fnmatch.fnmatch(name, glob)
    ]
    if not found:
        return False
    for name in found:
        target = None
        if upload_path:
            below = os.path.relpath(name, path)
            target = os.path.join(os.sep, upload_path.strip(os.sep), below)
        answer = push(name, upload_path=target)
        if not answer:
            return answer
    return True


def recv(files: dict[str, Any], dest: str) -> Any:
    """
    Write small files that C{salt-cp} sent along; answers with each path and whether it went.
    """
    result: dict[str, bool] = {}
    for path, data in files.items():
        name = os.path.basename(path)
        if name == os.path.basename(dest) and not os.path.isdir(dest):
            final = dest
        elif os.path.isdir(dest):
            final = os.path.join(dest, name)
        elif os.path.isdir(os.path.dirname(dest)):
            final = dest
        else:
            return "Destination unavailable"
        try:
            with open(final, "wb") as file:
                file.write(data if isinstance(data, bytes) else data.encode())
        except OSError:
            result[final] = False
        else:
            result[final] = True
    return result


def recv_chunked(
    dest: str,
    chunk: str | None,
    append: bool = False,
    compressed: bool = True,
    mode: int | None = None,
) -> Any:
    """
    Write one piece of a file that C{salt-cp -C} sends; answers true or with an error text.

    No piece at all makes a directory.
    """
    __context__.setdefault("retcode", 0)

    def failed(error: OSError) -> str:
        __context__["retcode"] = 1
        return str(error)

    if chunk is None:
        try:
            os.makedirs(dest)
        except OSError as error:
            if error.errno != errno.EEXIST:
                return failed(error)
            if os.path.isfile(dest):
                return "Path exists and is a file"
        return True
    data = base64.b64decode(chunk)
    if compressed:
        data = gzip_format.decompress(data)
    try:
        os.makedirs(os.path.dirname(dest) or ".", exist_ok=True)
        with open(dest, "ab" if append else "wb") as file:
            file.write(data)
        if not append and mode is not None:
            os.chmod(dest, mode)
    except OSError as error:
        return failed(error)
    return True
