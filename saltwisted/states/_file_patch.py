"""
C{file.patch}: a patch is applied to a file, or to the files of a directory.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable
from typing import Any

from attrs import define, field

from saltwisted.modules import _files
from saltwisted.states import _file_rules
from saltwisted.states._file_work import FileState, Finished, Ret
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)


@define(kw_only=True, eq=False, repr=False, slots=False)
class Patch(FileState):
    """
    @ivar fetch: C{file.managed}, which puts the patch into a file, also under C{test}.
    @ivar words: options of the program.
    @ivar made: temporary files.
    """

    source: Any
    source_hash: Any
    source_hash_name: str | None
    skip_verify: bool
    template: str | None
    context: Any
    defaults: Any
    options: str
    reject_file: str | None
    strip: Any
    fetch: Callable[..., Ret]
    kwargs: dict[str, Any]

    words: list[str] = field(factory=list, init=False)
    made: list[str] = field(factory=list, init=False)

    def work(self) -> None:
        """From the arguments to the patched file."""
        self.ret["result"] = False
        self._check()
        try:
            self._apply()
        finally:
            for path in self.made:
                _files.safe_remove(path)

    def _check(self) -> None:
        if not systools.which("patch"):
            self.fail("patch executable not found on minion")
        if not self.name:
            self.fail("A file/directory to be patched is required")
        self.name = os.path.expanduser(self.name)
        if not os.path.isabs(self.name):
            self.fail(f"{self.name} is not an absolute path")
        if not os.path.exists(self.name):
            self.fail(f"{self.name} does not exist")
        for old in ("hash", "dry_run_first"):
            if old in self.kwargs:
                self.ret.setdefault("warnings", []).append(
                    f"The '{old}' argument is no longer used and has been ignored."
                )
        if self.reject_file is not None:
            folder = os.path.dirname(self.reject_file)
            if not os.path.isabs(folder):
                self.fail(f"'{self.reject_file}' is not an absolute path")
            if not os.path.isdir(folder):
                self.fail(
                    f"Parent directory for reject_file '{self.reject_file}' either does not "
                    "exist, or is not a directory"
                )
        problem, self.words, self.strip = _file_rules.patch_words(self.options, self.strip)
        if problem:
            self.fail(problem)
        choose = self.salt["file.source_list"]
        try:
            self.source = choose(self.source, self.source_hash, self.around.env)[0]
        except CommandExecutionError as error:
            self.fail(error.strerror)

    def _temporary(self) -> str:
        self.made.append(_files.mkstemp())
        return self.made[-1]

    def _run(self, diff: str, more: list[str], dry_run: bool = False) -> Ret:
        line = " ".join(shlex.quote(word) for word in [*self.words, *more])
        did: Ret = self.salt["file.patch"](self.name, diff, options=line, dry_run=dry_run)
        return did

    def _fetch_patch(self, diff: str) -> None:
        try:
            fetched = self.fetch(
                diff,
                source=self.source,
                source_hash=self.source_hash,
                source_hash_name=self.source_hash_name,
                skip_verify=self.skip_verify,
                template=self.template,
                context=self.context,
                defaults=self.defaults,
            )
        except Exception as error:
            shown = _files.hidden_credentials(self.source)
            log.exception("file.patch of %s", self.name)
            self.fail(f"Failed to cache patch file {shown}: {error}")
        if not self.around.test and not fetched["result"]:
            self.ret = fetched
            raise Finished

    def _apply(self) -> None:
        diff = self._temporary()
        self._fetch_patch(diff)
        rejects = self._temporary() if self.reject_file is None else self.reject_file
        into = self.strip is not None and os.path.isdir(self.name)
        stripped = [f"-p{self.strip}"] if into else []
        tried = self._run(diff, ["-N", "-r", rejects, "-o", self._temporary(), *stripped])
        if tried["retcode"] != 0:
            self._refused(tried, rejects)
        if self.around.test:
            self.ret.update(result=None, comment="The patch would be applied", changes=tried)
            return
        self.ret["changes"] = self._run(diff, stripped)
        if self.ret["changes"]["retcode"] == 0:
            self.ret.update(result=True, comment="Patch successfully applied")
        else:
            self.ret["comment"] = "Failed to apply patch"

    def _refused(self, tried: Ret, rejects: str) -> None:
        """The patch does not fit: it is in already, or something is wrong."""
        if not os.path.exists(rejects) or os.path.getsize(rejects) == 0:
            self.fail(tried["stderr"])
        # What was rejected goes in backwards if it is in already.
        backwards = self._run(rejects, ["-R", "-f"], dry_run=True)
        if tried["retcode"] == 2 and tried["stderr"]:
            self.fail(tried["stderr"])
        if backwards["retcode"] == 0:
            self.ret["result"] = True
            self.finish("Patch was already applied")
        text = "Patch would not apply cleanly, no changes made. Results of dry-run are below."
        if self.reject_file is None:
            text += (
                " Run state again using the reject_file option to save rejects to a "
                "persistent file."
            )
        self.finish(text + "\n\n" + _file_rules.shown(tried, 14, self.around.opts.get("output")))
