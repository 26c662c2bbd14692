"""
C{file.managed}: a file with a content, an owner and a mode.
"""

from __future__ import annotations

import logging
import os
import shlex
import urllib.parse
from collections.abc import Mapping
from typing import Any, NoReturn

from attrs import define, field, frozen

from saltwisted.modules import _files
from saltwisted.modules._arguments import picked, taken
from saltwisted.states import _file_rules
from saltwisted.states._file_work import (
    Around,
    FileState,
    Finished,
    Ret,
    new_ret,
    owner,
    warn_about_hash,
)
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

_MISSING = object()

SIGNED = (
    *("source_hash_sig", "signed_by_any", "signed_by_all", "keyring", "gnupghome"),
    "sig_backend",
)
"""What C{managed} and C{cached} are told of signatures."""
_DISREGARDED = ("ignore_ordering", "ignore_whitespace", "ignore_comment_characters")
"""Which kinds of changes do not trigger other states."""


def run_check_cmd(salt: Any, cmd: str, filename: str, **options: Any) -> Any:
    """Run a command with a file's name after it: true, or what to put into the return."""
    did = salt["cmd.run_all"](f"{cmd} {shlex.quote(filename)}", **options)
    if did["retcode"] == 0:
        return True
    parts = ["check_cmd execution failed", did.get("stdout"), did.get("stderr")]
    return {
        "comment": "\n".join(part for part in parts if part),
        "skip_watch": True,
        "result": False,
    }


def joined(contents: Any, newline: bool, encoding: str | None) -> str | None:
    """
    Contents as lines, or C{None} if there are none.

    @raises UnicodeDecodeError: bytes that are no text.
    """
    parts = _file_rules.texts(contents, encoding)
    if not parts:
        return None
    whole = "".join(
        line.rstrip("\n").rstrip("\r") + os.linesep for part in parts for line in part.splitlines()
    )
    return whole if newline else whole.rstrip("\n").rstrip("\r")


@frozen(kw_only=True, eq=False)
class Given:
    """
    The content as the arguments give it: itself, or where pillar or grains have it.

    @ivar newline: whether it ends in a new line.
    """

    contents: Any = field(repr=False)
    pillar: Any
    grains: Any
    newline: bool
    delimiter: str
    allow_empty: bool

    @property
    def count(self) -> int:
        """In how many ways it is given."""
        return sum(one is not None for one in (self.contents, self.pillar, self.grains))

    @property
    def origin(self) -> str:
        """What a comment calls it."""
        if self.pillar:
            return f"contents_pillar {self.pillar}"
        if self.grains:
            return f"contents_grains {self.grains}"
        return "'contents'"


@define(kw_only=True, eq=False, repr=False, slots=False)
class Managed(FileState):
    """
    @ivar given: the content that the arguments give.
    @ivar labels: the parts of the SELinux context.
    @ivar signed: what is asked of signatures; C{signature} is the file's own.
    @ivar disregard: which kinds of changes do not trigger other states.
    @ivar kwargs: whatever else was given, for the execution module.
    @ivar contents: the content itself, if it does not come from a source.
    @ivar keep_mode: whether the mode is the source's.
    @ivar fetched: the local file that holds the new content.
    @ivar summed: the hash of the source.
    @ivar trial: the file that C{check_cmd} is shown.
    """

    source: Any
    source_hash: Any
    source_hash_name: str | None
    keep_source: bool
    user: Any
    group: Any
    mode: Any
    attrs: Any
    template: str | None
    makedirs: bool
    dir_mode: Any
    context: Any
    replace: bool
    defaults: Any
    backup: Any
    show_changes: bool
    create: bool
    given: Given
    tmp_dir: str | None
    tmp_ext: str
    encoding: str | None
    encoding_errors: str
    follow_symlinks: bool
    check_cmd: Any
    shell: dict[str, Any]
    skip_verify: bool
    labels: dict[str, Any]
    verify_ssl: bool
    use_etag: bool
    signature: Any
    signed: dict[str, Any]
    disregard: dict[str, Any]
    new_file_diff: bool
    kwargs: dict[str, Any]

    contents: Any = field(default=None, init=False)
    keep_mode: bool = field(default=False, init=False)
    fetched: Any = field(default=None, init=False)
    summed: Any = field(default=None, init=False)
    trial: str = field(default="", init=False)

    def work(self) -> None:
        """From the arguments to the file."""
        if not self.name:
            self.fail("Destination file name is required")
        self.keep_mode = isinstance(self.mode, str) and self.mode.lower() == "keep"
        self.mode = None if self.keep_mode else _files.normalize_mode(self.mode)
        self._check_combination()
        self._read_contents()
        self._check_place()
        self._check_hash()
        if not self.replace and os.path.exists(self.name):
            self._only_permissions()
            return
        texts, _ = self.around.accumulated()
        if self.name in texts:
            self.context = {**self.context, "accumulator": texts[self.name]}
        if self.around.test:
            self._forecast()
        else:
            self._carry_out()

    # -- the arguments ---------------------------------------------------------------

    def _check_combination(self) -> None:
        given = self.given.count
        either = "'contents', 'contents_pillar', or 'contents_grains'"
        if self.source and given:
            self.fail(f"'source' cannot be used in combination with {either}")
        if self.keep_mode and given:
            self.fail(f"Mode preservation cannot be used in combination with {either}")
        if given > 1:
            self.fail(
                "Only one of 'contents', 'contents_pillar', and 'contents_grains' is permitted"
            )
        warn_about_hash(self.source, self.source_hash)
        if not self.source and not given and self.replace:
            # Nothing to replace it with: do not even read it.
            self.replace = False
            log.warning(
                "State for file: %s - Neither 'source' nor 'contents' nor 'contents_pillar' nor "
                "'contents_grains' was defined, yet 'replace' was set to 'True'. As there is no "
                "source to replace the file with, 'replace' has been set to 'False' to avoid "
                "reading the file unnecessarily.",
                self.name,
            )
        if "file_mode" in self.kwargs:
            self.ret["warnings"] = [
                "The 'file_mode' argument will be ignored.  Please use 'mode' instead to set file "
                "permissions."
            ]

    def _read_contents(self) -> None:
        """Find the content that is given, and make it the text of a file."""
        given = self.given
        wanted = given.contents
        if given.pillar is not None:
            wanted = self._looked_up(given.pillar, "Pillar")
        elif given.grains is not None:
            wanted = self._looked_up(given.grains, "Grain")
        if wanted is None:
            return
        if not given.allow_empty and not wanted:
            self.fail(
                f"{given.origin} value would result in empty contents. Set allow_empty to True to "
                "allow the managed file to be empty."
            )
        try:
            self.contents = joined(wanted, given.newline, self.encoding)
        except UnicodeDecodeError:
            if self.template:
                self.fail(
                    "Contents specified by contents/contents_pillar/contents_grains appears to "
                    "be binary data, and as will not be able to be treated as a Jinja template."
                )
            self.contents = wanted
        if self.contents is None:
            self.fail(
                "Contents specified by contents/contents_pillar/contents_grains is not a string "
                "or list of strings, and is not binary data. SLS is likely malformed."
            )
        if self.template:
            self._render_contents()

    def _looked_up(self, keys: Any, kind: str) -> Any:
        """Contents out of pillar or grains."""
        options: dict[str, Any] = {"delimiter": self.given.delimiter}
        look_up = self.salt["grains.get"] if kind == "Grain" else self.salt["pillar.get"]
        if kind == "Pillar":
            # A masked value is meant to be written out here.
            options["unmask"] = True
        found = []
        for key in keys if isinstance(keys, list) else [keys]:
            value = look_up(key, _MISSING, **options)
            if value is _MISSING:
                self.fail(f"{kind} {key} does not exist")
            found.append(value)
        return os.linesep.join(found) if isinstance(keys, list) else found[0]

    def _render_contents(self) -> None:
        rendered = self.salt["file.apply_template_on_contents"](
            self.contents,
            template=self.template,
            context=self.context,
            defaults=self.defaults,
            saltenv=self.around.env,
        )
        if not isinstance(rendered, str):
            self.ret["result"] = rendered.get("result", False)
            self.finish(rendered.get("comment", "Error while applying template on contents"))
        self.contents = rendered

    def _check_place(self) -> None:
        """Whether the file, its owner and its variables can be as they are given."""
        self.user = owner(self.user, self.kwargs)
        if not self.create and not os.path.isfile(self.name):
            self.finish(f"File {self.name} is not present and is not set for creation")
        problem = self.around.unknown_owner(self.user, self.group)
        if problem:
            self.fail(problem)
        if not os.path.isabs(self.name):
            self.fail(f"Specified file {self.name} is not an absolute path")
        if os.path.isdir(self.name):
            self.fail(f"Specified target {self.name} is a directory")
        if self.context is None:
            self.context = {}
        elif not isinstance(self.context, dict):
            self.fail("Context must be formed as a dict")
        if self.defaults and not isinstance(self.defaults, dict):
            self.fail("Defaults must be formed as a dict")

    # -- a file that is as it should be ----------------------------------------------

    def _check_hash(self) -> None:
        """Leave a file alone that already has the hash which was announced for it."""
        from_source = self.contents is None and not self.template and self.source
        if not from_source or self.skip_verify or not self.replace:
            return
        if not os.path.exists(self.name):
            return
        try:
            self.replace = not self._has_hash()
        except (CommandExecutionError, OSError) as error:
            log.error(
                "Failed checking existing file's hash against specified source_hash: %s", error
            )

    def _has_hash(self) -> bool:
        self.source, self.source_hash = self.salt["file.source_list"](
            self.source, self.source_hash, self.around.env
        )
        if not self.source or not self.source_hash or os.path.isabs(self.source):
            return False
        if urllib.parse.urlparse(self.source).scheme in ("salt", "file"):
            return False
        summed = self.salt["file.get_source_sum"](
            self.name,
            self.source,
            self.source_hash,
            self.source_hash_name,
            self.around.env,
            verify_ssl=self.verify_ssl,
            **self.signed,
        )
        have = self.salt["file.get_hash"](self.name, summed["hash_type"])
        return bool(summed["hsum"] == have)

    def _only_permissions(self) -> None:
        """The end for a file whose content is not to be looked at."""
        name, mode = self.name, self.mode
        self.ret, perms = self.salt["file.check_perms"](
            name,
            self.ret,
            self.user,
            self.group,
            mode,
            self.attrs,
            self.follow_symlinks,
            **self.labels,
        )
        if self.around.test:
            have = perms.get("lmode") if isinstance(perms, dict) else None
            if mode and have is not None and mode != have:
                self.ret["comment"] = (
                    f"File {name} will be updated with permissions {mode} from its current state "
                    f"of {have}"
                )
            else:
                self.ret["comment"] = f"File {name} not updated"
        elif not self.ret["changes"] and self.ret["result"]:
            self.ret["comment"] = f"File {name} exists with proper permissions. No changes made."

    # -- what would change -----------------------------------------------------------

    def _forecast(self) -> None:
        """What is said under C{test}."""
        try:
            found = self._would_change()
        except CommandExecutionError as error:
            self.fail(f"Unable to manage file: {error}")
        matters, disregarding = False, any(self.disregard.values())
        if disregarding:
            matters, found = found
        if isinstance(found, tuple):
            self.ret["result"], self.ret["comment"] = found
            return
        self.ret["changes"] = found
        if not found:
            self.finish(f"The file {self.name} is in the correct state")
        self.ret["result"] = None
        self.ret["comment"] = (
            f"The file {self.name} is set to be changed\nNote: No changes made, actual changes "
            "may\nbe different due to other states."
        )
        if "diff" in found and not self.show_changes:
            found["diff"] = "<show_changes=False>"
        if disregarding and not matters:
            self.ret["skip_req"] = True

    def _would_change(self) -> Any:
        return self.salt["file.check_managed_changes"](
            self.name,
            self.source,
            self.source_hash,
            self.source_hash_name,
            self.user,
            self.group,
            self.mode,
            self.attrs,
            self.template,
            self.context,
            self.defaults,
            self.around.env,
            self.contents,
            self.skip_verify,
            self.keep_mode,
            verify_ssl=self.verify_ssl,
            follow_symlinks=self.follow_symlinks,
            new_file_diff=self.new_file_diff,
            **self.labels,
            **self.signed,
            **self.disregard,
            **self.kwargs,
        )

    # -- the change ------------------------------------------------------------------

    def _carry_out(self) -> None:
        """Fetch the content, show it to C{check_cmd}, and put it in place."""
        try:
            self.source, self.source_hash = self.salt["file.source_list"](
                self.source, self.source_hash, self.around.env
            )
        except CommandExecutionError as error:
            self.fail(f"Unable to manage file: {error}")
        try:
            self.fetched, self.summed, problem = self._get()
        except Exception as error:
            self._unable("manage", error)
        if self.check_cmd:
            self._try()
        if problem and self.contents is None:
            if self.trial:
                _files.safe_remove(self.trial)
            self.fail(f"Unable to manage file: {problem}")
        try:
            self.ret = self._write(self.name)
        except Exception as error:
            self._unable("manage", error)
        finally:
            self._forget()

    def _get(self) -> Any:
        return self.salt["file.get_managed"](
            self.name,
            self.template,
            self.source,
            self.source_hash,
            self.source_hash_name,
            self.user,
            self.group,
            self.mode,
            self.attrs,
            self.around.env,
            self.context,
            self.defaults,
            self.skip_verify,
            verify_ssl=self.verify_ssl,
            use_etag=self.use_etag,
            **self.signed,
            **self.kwargs,
        )

    def _write(self, path: str) -> dict[str, Any]:
        signed = {key: value for key, value in self.signed.items() if key != "source_hash_sig"}
        answer: dict[str, Any] = self.salt["file.manage_file"](
            path,
            self.fetched,
            self.ret,
            self.source,
            self.summed,
            self.user,
            self.group,
            self.mode,
            self.attrs,
            self.around.env,
            self.backup,
            self.makedirs,
            self.template,
            self.show_changes,
            self.contents,
            self.dir_mode,
            self.follow_symlinks,
            self.skip_verify,
            self.keep_mode,
            encoding=self.encoding,
            encoding_errors=self.encoding_errors,
            use_etag=self.use_etag,
            signature=self.signature,
            new_file_diff=self.new_file_diff,
            **signed,
            **self.labels,
            **self.disregard,
            **self.kwargs,
        )
        return answer

    def _try(self) -> None:
        """Write a file apart, and end here if C{check_cmd} does not agree to it."""
        self.trial = _files.mkstemp(suffix=self.tmp_ext, dir=self.tmp_dir)
        if self.salt["file.file_exists"](self.name):
            try:
                self.salt["file.copy"](self.name, self.trial)
            except Exception as error:
                _files.safe_remove(self.trial)
                self.fail(f"Unable to copy file {self.name} to {self.trial}: {error}")
        try:
            tried = self._write(self.trial)
        except Exception as error:
            self._forget()
            self._unable("check_cmd", error)
        self.ret = new_ret(self.name)
        if not tried["changes"]:
            return
        if any(self.disregard.values()):
            self.ret["skip_req"] = True
        verdict = run_check_cmd(self.salt, self.check_cmd, self.trial, **self.shell)
        if isinstance(verdict, dict):
            self.ret.update(verdict)
            _files.safe_remove(self.trial)
            raise Finished
        self.fetched = self.trial

    def _unable(self, what: str, error: Exception) -> NoReturn:
        """End the state, from within the handler of what went wrong."""
        log.debug("file.managed of %s", self.name, exc_info=True)
        self.ret["changes"] = {}
        self.fail(f"Unable to {what} file: {error}")

    def _forget(self) -> None:
        """Remove the file that was tried, and the source's copy unless it is to be kept."""
        if self.trial:
            _files.safe_remove(self.trial)
        if self.keep_source:
            return
        fetched = self.fetched
        if not fetched and self.source and urllib.parse.urlparse(self.source).scheme == "salt":
            fetched = self.salt["cp.is_cached"](self.source, self.around.env)
        if fetched:
            _files.safe_remove(fetched)


def manage(around: Around, arguments: Mapping[str, Any], shell: dict[str, Any]) -> Ret:
    """
    The state C{file.managed}.

    @param arguments: those of the state.
    @param shell: how C{check_cmd} is run.
    """
    given = {**arguments, "name": os.path.expanduser(arguments["name"])}
    labels = given["selinux"] or {}
    return Managed(
        around=around,
        given=Given(
            contents=given["contents"],
            pillar=given["contents_pillar"],
            grains=given["contents_grains"],
            newline=given["contents_newline"],
            delimiter=given["contents_delimiter"],
            allow_empty=given["allow_empty"],
        ),
        shell=shell,
        labels={key: labels.get(key) for key in ("seuser", "serole", "setype", "serange")},
        signed=picked(given, SIGNED),
        disregard=picked(given, _DISREGARDED),
        **taken(Managed, given),
    ).run()
