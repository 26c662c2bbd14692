"""
Archives: what is in them, packing, unpacking.

Names inside an archive come from strangers: a member that would land outside the target
directory, by C{..}, an absolute name or a link in the same archive, is refused.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import shlex
import stat
import subprocess
import tarfile
import urllib.parse
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from saltwisted.modules._system import needs
from saltwisted.worker import systools, templates
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__opts__: dict[str, Any]
__pillar__: dict[str, Any]

__func_alias__ = {"zip_": "zip", "list_": "list", "tar_": "tar"}

_TAR_ENDINGS = (
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.bz2",
    ".tbz2",
    ".tbz",
    ".tar.xz",
    ".txz",
    ".tar.lzma",
    ".tlz",
)

Contents = tuple[list[str], list[str], list[str]]
"""Directories (with a slash), files, links."""


def _guess(path: str) -> str | None:
    name = path.lower()
    if name.endswith(_TAR_ENDINGS):
        return "tar"
    return next((kind for kind in ("zip", "rar") if name.endswith("." + kind)), None)


def list_(
    name: str,
    archive_format: str | None = None,
    options: str | None = None,
    strip_components: Any = None,
    clean: bool = False,
    verbose: bool = False,
    saltenv: str = "base",
    source_hash: str | None = None,
    use_etag: bool = False,
) -> Any:
    """
    What is in an archive, here or on the master.

    @param archive_format: C{tar}, C{zip} or C{rar}; by default by its name.
    @param options: a command that unpacks the compression of a tar archive to its output.
    @param strip_components: leave out so many leading directories.
    @param clean: remove the copy in the cache.
    @param verbose: a map of kinds, with what is at the top level.

    CLI Example::

        salt '*' archive.list /path/to/myfile.tar.gz
        salt '*' archive.list salt://foo.tar.gz strip_components=1
    """
    cached = __salt__["cp.cache_file"](name, saltenv, source_hash=source_hash, use_etag=use_etag)
    if not cached:
        raise CommandExecutionError(f"Failed to cache {name}")
    try:
        strip = _strip_count(strip_components)
        parsed = urllib.parse.urlparse(name)
        kind = archive_format or _guess(parsed.path or parsed.netloc)
        if kind is None:
            raise CommandExecutionError(
                "Unable to guess archive format, please pass an 'archive_format' argument."
            )
        contents = _contents(kind, name, cached, options)
        if clean:
            _forget(cached)
        if strip:
            dirs, files, links = (_stripped(names, strip) for names in contents)
        else:
            dirs, files, links = contents
    except CommandExecutionError as error:
        info = dict(error.info or {})
        info["archive location"] = cached
        raise CommandExecutionError(error.error, info=info) from error
    if not verbose:
        return sorted(dirs + files + links)
    return _verbose(sorted(dirs), sorted(files), sorted(links))


def _strip_count(value: Any) -> int:
    if not value:
        return 0
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number <= 0:
        raise CommandExecutionError("'strip_components' must be a positive integer")
    return number


def _contents(kind: str, name: str, cached: str, options: str | None) -> Contents:
    try:
        if kind == "tar":
            return _list_tar(name, cached, options)
        if kind == "zip":
            return _list_zip(name, cached)
        if kind == "rar":
            return _list_rar(name, cached)
    except OSError as error:
        raise CommandExecutionError(f"Failed to list contents of {name}: {error}") from error
    raise CommandExecutionError(f"Unsupported archive format '{kind}'")


def _members(archive: tarfile.TarFile) -> Contents:
    dirs, files, links = [], [], []
    for member in archive:
        if member.issym():
            links.append(member.name)
        elif member.isdir():
            dirs.append(f"{member.name}/")
        else:
            files.append(member.name)
    return dirs, files, links


def _list_tar(name: str, cached: str, options: str | None) -> Contents:
    try:
        with tarfile.open(cached) as archive:
            return _members(archive)
    except tarfile.ReadError:
        log.debug("An external program is needed to unpack %s", cached)
    if not systools.which("tar"):
        raise CommandExecutionError("'tar' command not available")
    command: list[str] = []
    if options is not None:
        try:
            command = shlex.split(options)
        except (AttributeError, ValueError) as error:
            raise CommandExecutionError("Invalid CLI options") from error
    elif (
        systools.which("xz")
        and __salt__["cmd.retcode"](["xz", "-t", cached], python_shell=False, ignore_retcode=True)
        == 0
    ):
        command = ["xz", "--decompress", "--stdout"]
    if command:
        process = subprocess.Popen(
            [*command, cached], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                return _members(archive)
        except tarfile.ReadError as error:
            errors = process.communicate()[1]
            if process.returncode != 0:
                raise CommandExecutionError(
                    f"Failed to decompress {name}",
                    info={"error": errors.decode("utf-8", "replace")},
                ) from error
        finally:
            process.communicate()
    raise CommandExecutionError(
        f"Unable to list contents of {name}. If this is an XZ-compressed tar archive, install XZ"
        " Utils to enable listing its contents. If it is compressed using something other than"
        " XZ, it may be necessary to specify CLI options to decompress the archive. See the"
        " documentation for details."
    )


def _list_zip(name: str, cached: str) -> Contents:
    dirs: set[str] = set()
    files: list[str] = []
    links: list[str] = []
    try:
        with zipfile.ZipFile(cached) as archive:
            for member in archive.infolist():
                mode = member.external_attr >> 16
                if stat.S_ISLNK(mode):
                    links.append(member.filename)
                elif stat.S_ISDIR(mode):
                    dirs.add(member.filename)
                else:
                    files.append(member.filename)
    except zipfile.BadZipfile as error:
        raise CommandExecutionError(f"{name} is not a ZIP file") from error
    for path in list(files):
        folder = "".join(path.rpartition("/")[:2])
        if folder:
            dirs.add(folder)
            if folder in files:
                # Some programs write directories without saying so.
                files.remove(folder)
    return list(dirs), files, links


def _list_rar(name: str, cached: str) -> Contents:
    try:
        import rarfile  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return _list_rar_by_command(name)
    dirs, files = [], []
    with rarfile.RarFile(cached) as archive:
        for member in archive.infolist():
            path = member.filename.replace("\\", "/")
            if member.isdir():
                dirs.append(path + "/")
            else:
                files.append(path)
    return dirs, files, []


def _list_rar_by_command(name: str) -> Contents:
    if not systools.which("rar"):
        raise CommandExecutionError("rar command not available, is it installed?")
    output = __salt__["cmd.run"](["rar", "lt", name], python_shell=False, ignore_retcode=False)
    dirs, files = [], []
    for path, kind in re.findall(r"Name:\s*([^\n]+)\s*Type:\s*([^\n]+)", output):
        if kind == "Directory":
            dirs.append(path + "/")
        else:
            files.append(path)
    if not dirs and not files:
        raise CommandExecutionError(
            f"Failed to list {name}, is it a rar file? If so, the installed version of rar may be"
            " too old to list data in a parsable format. Installing the rarfile Python module may"
            " be an easier workaround if newer rar is not readily available.",
            info={"error": output},
        )
    return dirs, files, []


def _stripped(names: list[str], count: int) -> list[str]:
    found = []
    for name in names:
        parts = name.split(os.sep, count)
        if len(parts) > count and parts[count]:
            found.append(parts[count])
    return sorted(found)


def _verbose(dirs: list[str], files: list[str], links: list[str]) -> dict[str, list[str]]:
    top = [name for name in dirs if name.count("/") == 1]
    # Archives need not name the directory that everything is in.
    common = os.path.commonprefix(dirs + files + links)
    if "/" in common:
        first = common.split("/")[0] + "/"
        if first not in top:
            top.append(first)
    return {
        "dirs": dirs,
        "files": files,
        "links": links,
        "top_level_dirs": top,
        "top_level_files": [name for name in files if "/" not in name],
        "top_level_links": [name for name in links if "/" not in name],
    }


def _forget(cached: str) -> None:
    try:
        os.remove(cached)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("Failed to clean cached archive %s: %s", cached, error)


def _expand_sources(sources: Any) -> list[str]:
    """Paths from a list, or text with commas, wildcards replaced."""
    if sources is None:
        return []
    if isinstance(sources, str):
        sources = [part.strip() for part in sources.split(",")]
    elif isinstance(sources, (float, int)):
        sources = [str(sources)]
    found: list[str] = []
    for source in sources:
        found += glob.glob(source) if re.search("[*?[]", source) else [source]
    return found


def _lines(command: list[str], **kwargs: Any) -> list[str]:
    return list(__salt__["cmd.run"](command, python_shell=False, **kwargs).splitlines())


@needs("tar")
def tar_(
    options: str,
    tarfile: str,
    sources: Any = None,
    dest: str | None = None,
    cwd: str | None = None,
    template: str | None = None,
    runas: str | None = None,
) -> list[str]:
    """
    Run C{tar}; gives its output as lines.

    CLI Example::

        salt '*' archive.tar cjvf /tmp/tarfile.tar.bz2 /tmp/file_1,/tmp/file_2
        salt '*' archive.tar xf foo.tar dest=/target/directory
    """
    if not options:
        raise SaltInvocationError("Tar options can not be empty")
    command = ["tar", *options.split(), f"{tarfile}"]
    if dest:
        command += ["-C", f"{dest}"]
    command += _expand_sources(sources)
    return _lines(command, cwd=cwd, template=template, runas=runas)


@needs("gzip")
def gzip(
    sourcefile: str,
    template: str | None = None,
    runas: str | None = None,
    options: str | None = None,
) -> list[str]:
    """
    Run C{gzip}.

    CLI Example::

        salt '*' archive.gzip /tmp/sourcefile.txt
    """
    command = ["gzip", *([options] if options else []), f"{sourcefile}"]
    return _lines(command, template=template, runas=runas)


@needs("gunzip")
def gunzip(
    gzipfile: str,
    template: str | None = None,
    runas: str | None = None,
    options: str | None = None,
) -> list[str]:
    """
    Run C{gunzip}.

    CLI Example::

        salt '*' archive.gunzip /tmp/sourcefile.txt.gz
    """
    command = ["gunzip", *([options] if options else []), f"{gzipfile}"]
    return _lines(command, template=template, runas=runas)


@needs("zip")
def cmd_zip(
    zip_file: str,
    sources: Any,
    template: str | None = None,
    cwd: str | None = None,
    runas: str | None = None,
) -> list[str]:
    """
    Make a zip archive by the program C{zip}.

    CLI Example::

        salt '*' archive.cmd_zip /tmp/zipfile.zip /tmp/sourcefile1,/tmp/sourcefile2
    """
    command = ["zip", "-r", f"{zip_file}", *_expand_sources(sources)]
    return _lines(command, cwd=cwd, template=template, runas=runas)


@contextmanager
def _as_user(runas: str | None) -> Iterator[None]:
    """
    What is inside happens with the rights of a user.

    @raises SaltInvocationError: there is no such user.
    """
    if not runas:
        yield
        return
    entry = __salt__["user.info"](runas)
    if not entry:
        raise SaltInvocationError(f"User '{runas}' does not exist")
    euid, egid = os.geteuid(), os.getegid()
    os.setegid(entry["gid"])
    os.seteuid(entry["uid"])
    try:
        yield
    finally:
        os.seteuid(euid)
        os.setegid(egid)


def zip_(
    zip_file: str,
    sources: Any,
    template: str | None = None,
    cwd: str | None = None,
    runas: str | None = None,
    zip64: bool = False,
) -> list[str]:
    """
    Make a zip archive; gives the names in it.

    @param cwd: what relative sources are relative to; must be absolute.
    @param zip64: allow what old programs cannot read: more than 2 GiB.

    CLI Example::

        salt '*' archive.zip /tmp/zipfile.zip /tmp/sourcefile1,/tmp/sourcefile2
        salt '*' archive.zip /tmp/baz.zip baz.txt cwd=/foo/bar
    """
    if runas and not __salt__["user.info"](runas):
        raise SaltInvocationError(f"User '{runas}' does not exist")
    zip_file, sources = _render_names(zip_file, sources, template)
    paths = _expand_sources(sources)
    if not cwd:
        if not all(os.path.isabs(path) for path in paths):
            raise SaltInvocationError("Relative paths require the 'cwd' parameter")
    elif not isinstance(cwd, str) or not os.path.isabs(cwd):
        raise SaltInvocationError("cwd must be absolute")
    names: list[str] = []
    try:
        with (
            _as_user(runas),
            zipfile.ZipFile(zip_file, "w", zipfile.ZIP_DEFLATED, zip64) as archive,
        ):
            for path in paths:
                full = os.path.join(cwd, path) if cwd else path
                if os.path.exists(full):
                    names += _pack(archive, full, cwd)
    except zipfile.LargeZipFile as error:
        raise CommandExecutionError(
            "Resulting zip file too large, would require ZIP64 supportwhich has not been enabled."
            " Rerun command with zip64=True"
        ) from error
    except (OSError, ValueError) as error:
        raise CommandExecutionError(f"Exception encountered creating zipfile: {error}") from error
    return names


def _pack(archive: zipfile.ZipFile, path: str, cwd: str | None) -> list[str]:
    def inside(full: str) -> str:
        return os.path.relpath(full, cwd if cwd and full.startswith(cwd) else "/")

    if not os.path.isdir(path):
        archive.write(path, inside(path))
        return [inside(path)]
    names = []
    for folder, _folders, files in os.walk(path):
        short = inside(folder)
        names.append(f"{short}/")
        archive.write(folder, short)
        for file in files:
            names.append(os.path.join(short, file))
            archive.write(os.path.join(folder, file), names[-1])
    return names


@needs("unzip")
def cmd_unzip(
    zip_file: str,
    dest: str,
    excludes: Any = None,
    options: str | None = None,
    template: str | None = None,
    runas: str | None = None,
    trim_output: Any = False,
    password: str | None = None,
) -> list[str]:
    """
    Unpack a zip archive by the program C{unzip}.

    CLI Example::

        salt '*' archive.cmd_unzip /tmp/zipfile.zip /home/strongbad/ excludes=file_1,file_2
    """
    command = ["unzip"]
    if password:
        command += ["-P", password]
    if options:
        command += shlex.split(options)
    command += [f"{zip_file}", "-d", f"{dest}"]
    if excludes is not None:
        command += ["-x", *_names(excludes)]
    done = __salt__["cmd.run_all"](
        command,
        template=template,
        runas=runas,
        python_shell=False,
        redirect_stderr=True,
        output_loglevel="quiet" if password else "debug",
    )
    if done["retcode"] != 0:
        raise CommandExecutionError(done["stdout"])
    return _trimmed(done["stdout"].splitlines(), trim_output)


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return [str(value)] if isinstance(value, (float, int)) else list(value)


def unzip(
    zip_file: str,
    dest: str,
    excludes: Any = None,
    options: str | None = None,
    template: str | None = None,
    runas: str | None = None,
    trim_output: Any = False,
    password: Any = None,
    extract_perms: bool = True,
) -> list[str]:
    """
    Unpack a zip archive; gives the names of what was unpacked.

    @param excludes: names to leave out.
    @param trim_output: true, or a number: no more names than this (100).
    @param extract_perms: set the modes that the archive holds.
    @raises CommandExecutionError: also for a member that would land outside C{dest}.

    CLI Example::

        salt '*' archive.unzip /tmp/zipfile.zip /home/strongbad/ excludes=file_1,file_2
    """
    if runas and not __salt__["user.info"](runas):
        raise SaltInvocationError(f"User '{runas}' does not exist")
    zip_file, dest = _render_names(zip_file, dest, template)
    unwanted = set(_names(excludes or []))
    secret = None if not password else str(password).encode()
    if isinstance(password, bytes):
        secret = password
    try:
        with _as_user(runas), zipfile.ZipFile(zip_file) as archive:
            names = [name for name in archive.namelist() if name not in unwanted]
            for name in names:
                _unpack(archive, name, dest, secret, extract_perms)
    except (OSError, RuntimeError, ValueError, zipfile.BadZipfile) as error:
        raise CommandExecutionError(f"Exception encountered unpacking zipfile: {error}") from error
    return _trimmed(names, trim_output)


def _unpack(
    archive: zipfile.ZipFile, name: str, dest: str, password: bytes | None, perms: bool
) -> None:
    member = archive.getinfo(name)
    path = os.path.join(dest, name)
    root = os.path.realpath(dest)
    parent = os.path.realpath(os.path.dirname(path.rstrip("/")))
    if parent != root and not parent.startswith(root.rstrip("/") + "/"):
        raise ValueError(f"{name!r} would be written outside of {dest}")
    mode = member.external_attr >> 16
    if stat.S_ISLNK(mode):
        os.symlink(archive.read(name).decode("utf-8", "surrogateescape"), path)
        return
    if os.path.islink(path):
        raise ValueError(f"{name!r} would be written through a link")
    archive.extract(name, dest, password)
    if perms:
        if mode == 0:
            mode = (0o777 if name.endswith("/") else 0o666) & ~_umask()
        os.chmod(path, stat.S_IMODE(mode))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def is_encrypted(
    name: str,
    clean: bool = False,
    saltenv: str = "base",
    source_hash: str | None = None,
    use_etag: bool = False,
) -> bool:
    """
    Whether a zip archive needs a password.

    CLI Example::

        salt '*' archive.is_encrypted /path/to/myfile.zip
    """
    cached = __salt__["cp.cache_file"](name, saltenv, source_hash=source_hash, use_etag=use_etag)
    if not cached:
        raise CommandExecutionError(f"Failed to cache {name}")
    info = {"archive location": cached}
    try:
        with zipfile.ZipFile(cached) as archive:
            archive.testzip()
        encrypted = False
    except RuntimeError:
        encrypted = True
    except zipfile.BadZipfile as error:
        raise CommandExecutionError(f"{name} is not a ZIP file", info=info) from error
    except OSError as error:
        raise CommandExecutionError(str(error), info=info) from error
    if clean:
        _forget(cached)
    return encrypted


@needs("rar")
def rar(
    rarfile: str,
    sources: Any,
    template: str | None = None,
    cwd: str | None = None,
    runas: str | None = None,
) -> list[str]:
    """
    Make a rar archive by the program C{rar}.

    CLI Example::

        salt '*' archive.rar /tmp/rarfile.rar /tmp/sourcefile1,/tmp/sourcefile2
    """
    command = ["rar", "a", "-idp", f"{rarfile}", *_expand_sources(sources)]
    return _lines(command, cwd=cwd, template=template, runas=runas)


@needs("unrar", "rar")
def unrar(
    rarfile: str,
    dest: str,
    excludes: Any = None,
    template: str | None = None,
    runas: str | None = None,
    trim_output: Any = False,
) -> list[str]:
    """
    Unpack a rar archive.

    CLI Example::

        salt '*' archive.unrar /tmp/rarfile.rar /home/strongbad/ excludes=file_1,file_2
    """
    program = systools.which_bin(("unrar", "rar")) or "unrar"
    command = [program, "x", "-idp", f"{rarfile}"]
    for name in _names(excludes) if excludes is not None else ():
        command += ["-x", f"{name}"]
    command.append(f"{dest}")
    return _trimmed(_lines(command, template=template, runas=runas), trim_output)


def _render_names(first: str, second: Any, template: str | None) -> tuple[str, Any]:
    if not template:
        return first, second
    if not templates.known(template):
        raise CommandExecutionError(
            f"Attempted to render file paths with unavailable engine {template}"
        )
    context = {
        "salt": __salt__,
        "pillar": __pillar__,
        "grains": __grains__,
        "opts": __opts__,
        "saltenv": None,
    }
    return (
        templates.render_text(first, template, context),
        templates.render_text(second, template, context)
        if isinstance(second, str)
        else [templates.render_text(str(item), template, context) for item in second],
    )


def _trimmed(files: list[str], trim: Any) -> list[str]:
    """At most so many names, and a word about it."""
    if trim is False:
        return files
    count = 100 if trim is True else trim
    if len(files) > count:
        return [*files[:count], f"List trimmed after {count} files."]
    return files
