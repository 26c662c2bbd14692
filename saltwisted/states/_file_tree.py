"""
C{file.recurse}: a directory as one of the file server, file by file.

What is to be made is planned in C{_file_recurse}; here it is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from attrs import define, field

from saltwisted.modules import _files
from saltwisted.states import _file_recurse
from saltwisted.states._file_directory import clean, required
from saltwisted.states._file_work import FileState, Ret, owner
from saltwisted.worker.exceptions import CommandExecutionError


@define(kw_only=True, eq=False, repr=False, slots=False)
class Tree(FileState):
    """
    @ivar choice: which served paths are taken, as C{_file_recurse.plan} has it.
    @ivar managed: options of C{file.managed} for each file.
    @ivar sym_mode: C{file.symlink}'s C{mode}; likewise C{force_symlinks} its C{force}.
    @ivar put_folder: C{file.directory}; likewise C{put_file} and C{put_link}.
    @ivar kwargs: whatever else was given; for C{file.managed}.
    @ivar comments: path to what is to be said of it.
    """

    source: Any
    clean: bool
    require: Any
    user: Any
    group: Any
    dir_mode: Any
    file_mode: Any
    sym_mode: Any
    force_symlinks: bool
    replace: bool
    exclude_pat: Any
    choice: dict[str, Any]
    managed: dict[str, Any]
    put_folder: Callable[..., Ret]
    put_file: Callable[..., Ret]
    put_link: Callable[..., Ret]
    kwargs: dict[str, Any]

    comments: dict[str, list[str]] = field(factory=dict, init=False)

    def work(self) -> None:
        """From the arguments to the directory."""
        self.user = owner(self.user, self.kwargs)
        sources = self._check()
        plan = _file_recurse.plan(
            self.salt,
            self.around.env,
            self.name,
            sources,
            exclude_pat=self.exclude_pat,
            **self.choice,
        )
        self._put_folders(plan)
        self._put_files(plan)
        self._put_links(plan)
        if self.clean:
            self._clean(plan)
        self._conclude()

    def _check(self) -> list[str]:
        """The sources that are there; the target is made if it is not."""
        if "mode" in self.kwargs:
            self.fail(
                "'mode' is not allowed in 'file.recurse'. Please use 'file_mode' and 'dir_mode'."
            )
        self.dir_mode = _files.normalize_mode(self.dir_mode)
        keep_mode = isinstance(self.file_mode, str) and self.file_mode.lower() == "keep"
        self.file_mode = "keep" if keep_mode else _files.normalize_mode(self.file_mode)
        problem = self.around.unknown_owner(self.user, self.group)
        if problem:
            self.fail(problem)
        if not os.path.isabs(self.name):
            self.fail(f"Specified file {self.name} is not an absolute path")
        try:
            sources = _file_recurse.existing(
                self.salt, self.around.context, self.source, self.around.env
            )
        except CommandExecutionError as error:
            self.fail(f"Recurse failed: {error}")
        if not os.path.isdir(self.name):
            if os.path.exists(self.name):
                self.fail(f"The path {self.name} exists and is not a directory")
            if not self.around.test:
                self.salt["file.makedirs_perms"](
                    name=self.name, user=self.user, group=self.group, mode=self.dir_mode
                )
        return sources

    def _put_folders(self, plan: _file_recurse.Plan) -> None:
        for path in sorted(plan.folders):
            if os.path.basename(path) == "..":
                continue
            wrong = self.clean and os.path.exists(path) and not os.path.isdir(path)
            if wrong and not self._cleared(
                path, f"Replacing {path} with a directory", "Replaced file with a directory"
            ):
                continue
            part = self.put_folder(
                path,
                user=self.user,
                group=self.group,
                recurse=[],
                dir_mode=self.dir_mode,
                makedirs=True,
            )
            self._merge(path, part)

    def _put_files(self, plan: _file_recurse.Plan) -> None:
        passed = {key: value for key, value in self.kwargs.items() if key != "makedirs"}
        for path, address in plan.files.items():
            wrong = self.clean and self.replace and os.path.isdir(path)
            if wrong and not self._cleared(
                path,
                f"Replacing directory {path} with a file",
                "Replaced directory with a new file",
            ):
                continue
            part = self.put_file(
                path,
                source=address,
                user=self.user,
                group=self.group,
                mode=self.file_mode,
                makedirs=True,
                replace=self.replace,
                **self.managed,
                **passed,
            )
            self._merge(path, part)

    def _put_links(self, plan: _file_recurse.Plan) -> None:
        waiting = set(plan.links)
        while waiting:
            # A link to another link comes after it; in a ring of links any may be first.
            ready = [path for path in waiting if plan.links[path][1] not in waiting - {path}]
            for path in sorted(ready or waiting):
                part = self.put_link(
                    path,
                    plan.links[path][0],
                    makedirs=True,
                    force=self.force_symlinks,
                    user=self.user,
                    group=self.group,
                    mode=self.sym_mode,
                )
                self._merge(path, part)
                waiting.discard(path)

    def _cleared(self, path: str, forecast: str, done: str) -> bool:
        """Remove what is of the other kind; false if a test ends here."""
        if self.around.test:
            self._merge(path, {"changes": {}, "result": None, "comment": forecast})
            return False
        self.salt["file.remove"](path)
        self._merge(path, {"changes": {"diff": done}, "result": True, "comment": ""})
        return True

    def _merge(self, path: str, part: Ret) -> None:
        """Add what a state of one path says."""
        if part["result"] is False or self.ret["result"] is True:
            self.ret["result"] = part["result"]
        if part["result"] is not True and part["comment"]:
            self.comments.setdefault(path, []).append(part["comment"])
        if part["changes"]:
            self.ret["changes"][path] = part["changes"]

    def _clean(self, plan: _file_recurse.Plan) -> None:
        keep = plan.keep | required(self.around, self.name, self.require)
        removed = clean(self.around, self.name, keep, self.exclude_pat)
        if removed and self.around.test:
            self.ret["result"] = self.ret["result"] and None
            self.comments.setdefault("removed", []).extend(removed)
        elif removed:
            self.ret["changes"]["removed"] = removed

    def _conclude(self) -> None:
        ret = self.ret
        ret["comment"] = "\n".join(
            f"\n#### {path} ####\n" + "\n".join(lines) for path, lines in self.comments.items()
        ).strip()
        if not ret["comment"]:
            ret["comment"] = f"Recursively updated {self.name}"
        if not ret["changes"] and ret["result"]:
            ret["comment"] = f"The directory {self.name} is in the correct state"
