"""
Archives, unpacked once.

Which archive and whether it has to be unpacked is found out here; unpacking itself is in
C{_archive_unpack}, the memory of checksums in C{_archive_sums}.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import string
import urllib.parse
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from attrs import define, field

from saltwisted.modules import _files
from saltwisted.modules.archive import _guess
from saltwisted.states import _archive_sums
from saltwisted.states._archive_owners import Owners, listed
from saltwisted.states._archive_unpack import Unpacker, UnpackError
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any
__states__: Any
__env__: str

_FORMATS = ("tar", "rar", "zip")
_STRIP = re.compile(r"--strip(?:-components)?(?:\s+|=)[\"']?(\d+)[\"']?")
_SIGNING = ("signed_by_any", "signed_by_all", "keyring", "gnupghome", "sig_backend")


class _Finished(Exception):
    """The return is complete."""


def _absolute(path: Any) -> bool:
    return path is None or (isinstance(path, str) and os.path.isabs(path))


@define(kw_only=True)
class _Extraction:
    """
    One state, from its arguments to its return.

    @ivar name: the directory, with a slash at its end.
    @ivar source: the archive's address, then its path if it is on this machine.
    @ivar cached: the archive on this machine.
    @ivar contents: what it holds; C{None} if nobody knows.
    """

    ret: dict[str, Any]
    name: str
    source: Any
    words: dict[str, Any]
    kwargs: dict[str, Any]
    keep: bool = True
    local: bool = False
    format: Any = None
    options: str | None = None
    trim: Any = False
    by_command: Any = None
    owner: tuple[int, int] = (-1, -1)
    sums: dict[str, Any] = field(factory=dict)
    cached: str = ""
    contents: Any = None

    def finish(self, comment: str, result: bool | None = False) -> NoReturn:
        """This is the end of it."""
        self.ret["comment"] = comment
        self.ret["result"] = result
        raise _Finished

    def warn(self, text: str) -> None:
        self.ret.setdefault("warnings", []).append(text)

    @property
    def shown(self) -> str:
        """The source without a password in it."""
        return _files.hidden_credentials(self.source)

    # -- the arguments

    def check_paths(self) -> None:
        words = self.words
        if not _absolute(self.name):
            self.finish(f"{self.name} is not an absolute path")
        self.name = self.name.rstrip(os.sep)
        if os.path.isfile(self.name):
            self.finish(f"{self.name} exists and is not a directory")
        self.name += os.sep
        for word in ("if_missing", "enforce_ownership_on"):
            if not _absolute(words[word]):
                self.finish(f"Value for '{word}' is not an absolute path")
        owned = words["enforce_ownership_on"]
        if owned is not None and os.path.relpath(owned, self.name).startswith("../"):
            self.finish(f"Value for 'enforce_ownership_on' must be within {self.name}")
        missing = words["if_missing"]
        if missing is not None and os.path.exists(missing):
            self.finish(f"Path {missing} exists", True)

    def check_owner(self) -> None:
        ids = []
        for kind, function in (("user", "file.user_to_uid"), ("group", "file.group_to_gid")):
            wanted = self.words[kind]
            number = __salt__[function](wanted) if wanted else -1
            if number == "":
                self.finish(f"{kind.capitalize()} {wanted} does not exist")
            ids.append(number)
        self.owner = (ids[0], ids[1])

    def choose_source(self) -> None:
        words = self.words
        if words["source_hash_update"] and not words["source_hash"]:
            self.warn(
                "The 'source_hash_update' argument is ignored when 'source_hash' is not also"
                " specified."
            )
        backend = words["sig_backend"]
        signed = words["signature"] or words["source_hash_sig"]
        if signed and f"{backend}.verify" not in __salt__:
            self.finish(f"Cannot verify signatures because the {backend} module was not loaded")
        given = self.source
        try:
            self.source = __salt__["file.source_list"](given, words["source_hash"], __env__)[0]
        except CommandExecutionError as error:
            self.finish(error.strerror)
        if not self.source:
            self.finish(f'Invalid source "{given}"')
        parts = urllib.parse.urlparse(self.source)
        path = os.path.join(parts.netloc, parts.path).rstrip(os.sep)
        scheme = parts.scheme
        if scheme and scheme.lower() in string.ascii_lowercase:
            path, scheme = f"{scheme}:{path}", "file"
        self.local = scheme in _files.LOCAL_PROTOS
        if self.local:
            self.source = os.path.realpath(os.path.expanduser(path))
            if not os.path.isfile(self.source):
                self.finish(f"Source file '{self.shown}' does not exist")
        self._choose_format(path or parts.netloc)

    def _choose_format(self, path: str) -> None:
        self.format = self.words["archive_format"] or _guess(path)
        known = ", ".join(_FORMATS)
        if self.format is None:
            self.finish(
                "Could not guess archive_format from the value of the 'source' argument. Please"
                f" set this archive_format to one of the following: {known}"
            )
        if isinstance(self.format, str):
            self.format = self.format.lower()
        if self.format not in _FORMATS:
            self.finish(
                f"Invalid archive_format '{self.format}'. Either set it to a supported value"
                f" ({known}) or remove this argument and the archive format will be guessed based"
                " on file extension."
            )

    def check_options(self) -> None:
        words = self.words
        options, password = words["options"], words["password"]
        self.options = options if options is None else str(options)
        self.by_command = words["use_cmd_unzip"]
        if self.format == "zip":
            self._check_zip_options(password)
        elif password:
            self.finish("The 'password' argument is only supported for zip archives")
        if self.format == "rar":
            if "archive.unrar" not in __salt__:
                self.finish(
                    "archive.unrar function not available, rar/unrar might not be installed on"
                    " minion"
                )
            if self.options:
                self.finish(
                    "The 'options' argument is only compatible with the following archive"
                    " formats: tar, zip"
                )
        self.trim = words["trim_output"]
        if self.trim is True:
            self.trim = 100
        elif self.trim and not isinstance(self.trim, int):
            try:
                self.trim = int(self.trim)
            except TypeError:
                self.finish("Invalid value for trim_output, must be True/False or an integer")

    def _check_zip_options(self, password: Any) -> None:
        if self.options:
            if self.by_command is None:
                self.by_command = True
            elif not self.by_command:
                self.finish(
                    "'use_cmd_unzip' cannot be set to False if CLI options are being specified"
                    " (via the 'options' argument). Either remove 'use_cmd_unzip', or set it to"
                    " True."
                )
            if "archive.cmd_unzip" not in __salt__:
                self.finish(
                    "archive.cmd_unzip function not available, unzip might not be installed on"
                    " minion"
                )
        if password and self.by_command is None:
            self.by_command = False
        elif password and self.by_command:
            self.warn(
                "Using a password in combination with setting 'use_cmd_unzip' to True is"
                " considered insecure. It is recommended to remove the 'use_cmd_unzip' argument"
                " (or set it to False) and allow Salt to extract the archive using Python's"
                " built-in ZIP file support."
            )

    # -- the archive

    def _signing(self) -> dict[str, Any]:
        return {word: self.words[word] for word in _SIGNING}

    def fetch(self) -> None:
        """Have the archive on this machine, with the checksum that it should have."""
        words = self.words
        hashed = {key: words[key] for key in ("source_hash", "source_hash_name", "source_hash_sig")}
        if words["source_hash"]:
            try:
                self.sums = __salt__["file.get_source_sum"](
                    source=self.source, saltenv=__env__, **hashed, **self._signing()
                )
            except CommandExecutionError as error:
                self.finish(error.strerror)
        if words["skip_files_list_verify"]:
            self._skip_by_sum()
        if self.local:
            self.cached = self.source
        else:
            if __opts__["test"]:
                self.finish(
                    f"Archive {self.shown} would be cached (if necessary) and checked to discover"
                    " if extraction is needed",
                    None,
                )
            self._cache(hashed)
        if words["signature"]:
            self._check_signature()

    def _skip_by_sum(self) -> None:
        if self.local:
            place = self.source
        else:
            place = __salt__["cp.is_cached"](self.source, saltenv=__env__)
        if not place:
            parts = urllib.parse.urlparse(self.source)
            place = os.path.join(
                __opts__["cachedir"], "extrn_files", __env__, parts.netloc, parts.path.lstrip("/")
            )
        known = _archive_sums.remembered(__opts__, place)
        if self.sums and known and known["hsum"] == self.sums["hsum"]:
            self.finish(
                f"Archive {self.shown} existing source sum is the same as the expected one and"
                " skip_files_list_verify argument was set to True. Extraction is not needed",
                None if __opts__["test"] else True,
            )

    def _cache(self, hashed: dict[str, Any]) -> None:
        if "file.cached" not in __states__:
            self.finish(f"Unable to cache {self.shown}, file.cached state not available")
        try:
            did = __states__["file.cached"](
                self.source,
                skip_verify=self.words["skip_verify"],
                saltenv=__env__,
                use_etag=self.words["use_etag"],
                **hashed,
                **self._signing(),
            )
        except Exception as error:
            # Whatever went wrong below is this state's failure.
            text = f"Failed to cache {self.shown}: {error}"
            log.exception("%s", text)
            self.finish(text)
        if not did["result"]:
            self.ret = did
            raise _Finished
        self.cached = __salt__["cp.is_cached"](self.source, saltenv=__env__)

    def _check_signature(self) -> None:
        given = self.words["signature"]
        found: list[Any] = []
        cached: list[str] = []
        backend = self.words["sig_backend"]
        failed = "Failed verifying the source file's signature:"
        for one in [given] if isinstance(given, str) else given:
            place = __salt__["cp.cache_file"](one, __env__)
            if place:
                cached.append(place)
            elif backend == "gpg":
                self.finish(f"{failed} Detached signature file {one} not found")
            found.append(place or one)
        words = {key: value for key, value in self._signing().items() if key != "sig_backend"}
        answer = __salt__[f"{backend}.verify"](
            filename=self.cached,
            signature=found[0] if isinstance(given, str) else found,
            **words,
        )
        if answer["res"] is not True:
            for path in (*cached, self.cached):
                _files.forget_cached(path, __opts__["cachedir"])
            self.finish(f"{failed} The file's signature could not be verified: {answer['message']}")

    def read(self) -> None:
        """Find out what the archive holds."""
        words = self.words
        if self.format == "zip" and not words["password"]:
            try:
                secret = __salt__["archive.is_encrypted"](
                    self.cached, clean=False, saltenv=__env__, use_etag=words["use_etag"]
                )
            except CommandExecutionError:
                # No zip archive: reading its contents will say so.
                secret = False
            if secret:
                self.finish(
                    f"Archive {self.shown} is password-protected, but no password was specified."
                    " Please set the 'password' argument."
                )
        strip = _STRIP.search(self.options) if self.options and self.format == "tar" else None
        try:
            self.contents = __salt__["archive.list"](
                self.cached,
                archive_format=self.format,
                options=words["list_options"],
                strip_components=int(strip[1]) if strip else None,
                clean=False,
                verbose=True,
                use_etag=words["use_etag"],
            )
        except CommandExecutionError as error:
            self.finish(self._unreadable(error.strerror))
        tops = self.contents
        if words["enforce_toplevel"] and (
            len(tops["top_level_dirs"]) > 1 or tops["top_level_files"]
        ):
            self.finish(
                "Archive does not have a single top-level directory. To allow this archive to be"
                " extracted, set 'enforce_toplevel' to False. To avoid a"
                f" '{self.format}-bomb' it may also be advisable to set a top-level directory by"
                " adding it to the 'name' value (for example, setting 'name' to"
                f" {os.path.join(self.name, 'some_dir')} instead of {self.name})."
            )
        if words["clean"] and words["clean_parent"]:
            self.finish("Only one of 'clean' and 'clean_parent' can be set to True")

    def _unreadable(self, text: str) -> str:
        words = self.words
        ways = []
        if not words["if_missing"]:
            ways.append("'if_missing' must be set")
        if not words["enforce_ownership_on"] and (words["user"] or words["group"]):
            ways.append("Ownership cannot be managed without setting 'enforce_ownership_on'.")
        if not ways:
            return text
        if self.format == "tar":
            advice = (
                "If the source archive is a tar archive compressed using a compression type not"
                " natively supported by the tar command, then setting the 'list_options' argument"
                " may allow the contents to be listed. Otherwise, if Salt is unable to determine"
                " the files/directories in the archive, the following workaround(s) would need to"
                " be used for this state to proceed"
            )
        else:
            advice = "The following workarounds must be used for this state to proceed"
        head = f" (assuming the source file is a valid {self.format} archive):"
        return f"{text}\n\n{advice}" + listed(head, ways)

    # -- what is there

    def compare(self) -> tuple[bool, bool]:
        """Whether something of the contents is missing, and whether something was removed."""
        wrong: list[str] = []
        missing = False
        kinds: tuple[tuple[str, Callable[[int], bool]], ...] = (
            ("dirs", stat.S_ISDIR),
            ("files", lambda mode: not (stat.S_ISLNK(mode) or stat.S_ISDIR(mode))),
            ("links", stat.S_ISLNK),
        )
        for kind, fits in kinds:
            for path in self.contents[kind]:
                try:
                    mode = os.lstat(os.path.join(self.name, path).rstrip(os.sep)).st_mode
                except OSError as error:
                    if error.errno == errno.ENOENT:
                        missing = True
                    elif error.errno != errno.ENOTDIR:
                        self.finish(str(error))
                    continue
                if not fits(mode):
                    wrong.append(path)
        return missing, bool(wrong) and self._clear(wrong)

    def _clear(self, wrong: list[str]) -> bool:
        """Remove what stands in the way, if that is allowed."""
        words = self.words
        text = (
            f"The below paths (relative to {self.name}) exist, but are the incorrect type (file"
            " instead of directory, symlink instead of file, etc.)."
        )
        paths = "\n\n" + "\n".join(f"- {path}" for path in wrong)
        if __opts__["test"] and words["clean"]:
            self.finish(
                f"{text} Since the 'clean' option is enabled, the destination paths would be"
                f" cleared and the archive would be extracted.{paths}",
                None,
            )
        if __opts__["test"] and words["clean_parent"]:
            self.finish(
                f"{text} Since the 'clean_parent' option is enabled, the destination parent"
                " directory would be removed first and then re-created and the archive would be"
                " extracted",
                None,
            )
        if words["clean"]:
            return False
        if not words["force"]:
            self.finish(
                f"{text} To proceed with extraction, set 'force' to True. Note that this will"
                f" remove these paths before extracting.{paths}"
            )
        return self._remove(
            [os.path.join(self.name, path) for path in wrong],
            "One or more paths existed by were the incorrect type (i.e. file instead of directory"
            " or vice-versa), but could not be removed. The following errors were observed:",
        )

    def _remove(self, paths: Iterable[str], head: str) -> bool:
        """Remove paths; true if there was something to remove."""
        errors = []
        removed = []
        for path in paths:
            try:
                _files.remove_tree(path.rstrip(os.sep))
                removed.append(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                errors.append(str(error))
        if removed:
            self.ret["changes"].setdefault("removed", []).extend(removed)
        if errors:
            self.finish(listed(head, errors))
        return bool(removed)

    # -- unpacking

    def unpack(self) -> tuple[Any, bool]:
        """Unpack: the names of files, and whether the directory was made for them."""
        words = self.words
        if words["clean_parent"]:
            try:
                _files.remove_tree(self.name.rstrip(os.sep))
                self.ret["changes"]["removed"] = (
                    f"Directory {self.name} was removed prior to the extraction"
                )
            except FileNotFoundError:
                pass
            except OSError as error:
                head = (
                    f"Unable to remove the directory {self.name}. The following errors were"
                    " observed:"
                )
                self.finish(listed(head, [str(error)]))
        if words["clean"]:
            self._remove(
                (
                    os.path.join(self.name, path)
                    for path in (
                        *self.contents["top_level_dirs"],
                        *self.contents["top_level_files"],
                    )
                ),
                "One or more paths could not be cleaned. The following errors were observed:",
            )
        made = not os.path.isdir(self.name)
        if made:
            __states__["file.directory"](self.name, user=words["user"], makedirs=True)
        unpacker = Unpacker(
            salt=__salt__,
            path=self.cached,
            target=self.name,
            options=self.options,
            trim=self.trim,
            kwargs=self.kwargs,
        )
        try:
            if self.format == "zip":
                perms = words["extract_perms"]
                return unpacker.zip(self.by_command, words["password"], perms), made
            return (unpacker.rar() if self.format == "rar" else unpacker.tar()), made
        except UnpackError as error:
            if error.clean and made:
                try:
                    os.rmdir(self.name)
                except OSError:
                    log.debug("Keeping %s: it is not empty", self.name)
            if error.changes is not None:
                self.ret["changes"] = error.changes
            self.finish(error.comment)
        except CommandExecutionError as error:
            self.finish(error.strerror)

    # -- owners

    def own(self) -> Owners:
        """Give the files to their owner."""
        words = self.words
        owners = Owners(__states__, bool(__opts__["test"]), self.ret, self.name, words, self.owner)
        owners.give(self.contents)
        return owners

    # -- the whole

    def run(self) -> None:
        """From the arguments to the return."""
        self.check_paths()
        self.check_owner()
        self.choose_source()
        self.check_options()
        self.fetch()
        words = self.words
        before = _archive_sums.remembered(__opts__, self.cached)
        verified = words["source_hash"] and not words["skip_verify"]
        if verified and words["source_hash_update"]:
            _archive_sums.remember(__opts__, self.cached)
        self.read()
        missing, removed = self.compare()
        needed = bool(words["overwrite"]) or missing or removed
        renewed = False
        if not needed and words["source_hash_update"] and before is not None:
            renewed = before != _archive_sums.remembered(__opts__, self.cached, before["hash_type"])
            needed = renewed
        why = ""
        if renewed:
            why = ", due to source_hash update"
        elif missing:
            why = ", due to absence of one or more files/dirs"
        files: Any = []
        made = False
        if needed:
            self._check_hash(bool(verified))
            if __opts__["test"]:
                clean = ", after cleaning destination path(s)" if words["clean"] else ""
                self.finish(
                    f"Archive {self.shown} would be extracted to {self.name}{clean}{why}", None
                )
            files, made = self.unpack()
        owners = self.own()
        if needed:
            self._tell_extracted(files, made, why)
        else:
            self.ret["result"] = True
            self.ret["comment"] = "All files in archive are already present"
            if __opts__["test"] and self.ret["changes"].get("updated ownership"):
                self.ret["result"] = None
                self.ret["comment"] += (
                    ". Ownership would be updated on one or more files/directories."
                )
        owners.tell()
        if not self.local and not self.keep:
            did = __states__["file.not_cached"](self.source, saltenv=__env__)
            if not did["result"]:
                self.warn(did["comment"])

    def _check_hash(self, verified: bool) -> None:
        if self.local and verified:
            wanted = self.sums["hsum"]
            self.ret["result"] = __salt__["file.check_hash"](self.source, wanted)
            if not self.ret["result"]:
                self.finish(f"{self.shown} does not match the desired source_hash {wanted}")

    def _tell_extracted(self, files: Any, made: bool, why: str) -> None:
        if not files:
            self.ret["result"] = False
            self.ret["comment"] = f"No files were extracted from {self.shown}"
            return
        if made:
            self.ret["changes"]["directories_created"] = [self.name]
        self.ret["changes"]["extracted_files"] = files
        trimmed = f". Output was trimmed to {self.trim} number of lines" if self.trim else ""
        self.ret["comment"] = f"{self.shown} extracted to {self.name}{why}{trimmed}"
        self.ret["result"] = True


def extracted(
    name: str,
    source: Any,
    source_hash: Any = None,
    source_hash_name: str | None = None,
    source_hash_update: bool = False,
    skip_files_list_verify: bool = False,
    skip_verify: bool = False,
    password: Any = None,
    options: Any = None,
    list_options: Any = None,
    force: bool = False,
    overwrite: bool = False,
    clean: bool = False,
    clean_parent: bool = False,
    user: Any = None,
    group: Any = None,
    if_missing: Any = None,
    trim_output: Any = False,
    use_cmd_unzip: Any = None,
    extract_perms: bool = True,
    enforce_toplevel: bool = True,
    enforce_ownership_on: Any = None,
    archive_format: Any = None,
    use_etag: bool = False,
    signature: Any = None,
    source_hash_sig: Any = None,
    signed_by_any: Any = None,
    signed_by_all: Any = None,
    keyring: Any = None,
    gnupghome: Any = None,
    sig_backend: str = "gpg",
    **kwargs: Any,
) -> dict[str, Any]:
    """
    An archive is unpacked in a directory.

    source, source_hash, source_hash_name, skip_verify
        The archive, and the checksum it must have, as for C{file.managed}.
    source_hash_update
        Unpack again when the checksum changes.
    skip_files_list_verify
        The checksum alone decides, not whether all files are there.
    archive_format
        C{tar}, C{zip} or C{rar}, where the name does not tell.
    options, list_options
        Options for C{tar} or C{unzip}, to unpack and to list.
    password, use_cmd_unzip, extract_perms
        For zip archives: their password, whether to use C{unzip}, whether to keep modes.
    overwrite, force, clean, clean_parent
        Unpack in any case; remove what is of another kind, the archive's paths, or the
        directory first.
    enforce_toplevel
        Refuse an archive that would not put all into one directory.
    user, group, enforce_ownership_on
        Owners of what was unpacked, or of this path alone.
    if_missing
        Do nothing if this path exists.
    trim_output
        How many of the files to name.
    keep_source
        Keep the archive in the minion's cache.
    signature, source_hash_sig, signed_by_any, signed_by_all, keyring, gnupghome, sig_backend
        Signatures to check.
    """
    words = {key: value for key, value in locals().items() if key not in ("kwargs", "name")}
    ret: dict[str, Any] = {"name": name, "result": False, "changes": {}, "comment": ""}
    if skip_files_list_verify and skip_verify:
        ret["comment"] = 'Only one of "skip_files_list_verify" and "skip_verify" can be set to True'
        return ret
    kwargs = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    if "keep_source" in kwargs and "keep" in kwargs:
        ret["warnings"] = [
            "Both 'keep_source' and 'keep' were used. Since these both do the same thing, 'keep'"
            " was ignored."
        ]
    old_keep = kwargs.pop("keep", True)
    keep = bool(kwargs.pop("keep_source", old_keep))
    work = _Extraction(ret=ret, name=name, source=source, words=words, kwargs=kwargs, keep=keep)
    try:
        work.run()
    except _Finished:
        log.debug("%s: %s", name, work.ret["comment"])
    return work.ret
