"""
C{file.serialize}: a file that holds data in a format.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field

from saltwisted.domain.render.tree import merge_recurse
from saltwisted.modules import _data, _files, _serializers
from saltwisted.states import _file_rules
from saltwisted.states._file_managed import run_check_cmd
from saltwisted.states._file_work import FileState, Finished


@define(kw_only=True, eq=False, repr=False, slots=False)
class Serialized(FileState):
    """
    @ivar others: serializers that modules offer.
    @ivar shell: in which shell C{check_cmd} runs.
    @ivar kwargs: whatever else was given; C{formatter} is C{serializer}'s other name.
    @ivar kind: the format.
    @ivar contents: the text of the file.
    @ivar old: the data that the file held, if the new is put over it; C{new}: both together.
    """

    dataset: Any
    dataset_pillar: Any
    user: Any
    group: Any
    mode: Any
    backup: Any
    makedirs: bool
    show_changes: bool
    create: bool
    merge_if_exists: bool
    encoding: str | None
    encoding_errors: str
    serializer: str | None
    serializer_opts: Any
    deserializer_opts: Any
    check_cmd: Any
    shell: dict[str, Any]
    tmp_dir: str | None
    tmp_ext: str
    others: Mapping[str, Any]
    kwargs: dict[str, Any]

    kind: str = field(default="", init=False)
    contents: Any = field(default=None, init=False)
    old: Any = field(default=None, init=False)
    new: Any = field(default=None, init=False)

    def work(self) -> None:
        """From the data to the file."""
        if not self.name:
            self.fail("Must provide name to file.serialize")
        if not self.create and not os.path.isfile(self.name):
            self.finish(f"File {self.name} is not present and is not set for creation")
        self._settle_data()
        self._write_text()
        self.mode = _files.normalize_mode(self.mode)
        if self.around.test:
            self._forecast()
        else:
            if self.check_cmd:
                self._try()
            self.ret = self._put(self.name)
        if isinstance(self.old, dict) and isinstance(self.new, dict):
            self.ret["changes"]["diff"] = _file_rules.data_diff(self.old, self.new)

    def _settle_data(self) -> None:
        """Which format and which data are meant."""
        formatter = self.kwargs.pop("formatter", None)
        if self.serializer and formatter:
            self.fail("Only one of serializer and formatter are allowed")
        self.kind = str(self.serializer or formatter or "yaml").lower()
        if self.dataset and self.dataset_pillar:
            self.fail("Only one of 'dataset' and 'dataset_pillar' is permitted")
        if self.dataset_pillar:
            self.dataset = self.salt["pillar.get"](self.dataset_pillar, unmask=True)
        if self.dataset is None:
            self.fail("Neither 'dataset' nor 'dataset_pillar' was defined")

    def _write_text(self) -> None:
        """The data, put over what the file holds if that is wanted, as a text."""
        write, read = _serializers.pair(self.kind, self.others)
        if write is None:
            self.fail(
                f"The {self.kind} serializer could not be found. It either does not exist or its "
                "prerequisites are not installed."
            )
        options: dict[str, Any] = {}
        if self.kind == "yaml":
            options = {"default_flow_style": False}
            if self.encoding:
                options["allow_unicode"] = True
        elif self.kind == "json":
            options = {"indent": 2, "separators": (",", ": "), "sort_keys": True}
            if self.encoding:
                options["ensure_ascii"] = False
        options.update(_data.repack_dictlist(self.serializer_opts) if self.serializer_opts else {})
        if self.merge_if_exists and os.path.isfile(self.name):
            self._merge(read)
        elif self.deserializer_opts and not self.merge_if_exists:
            self.ret["warnings"] = [
                "The 'deserializer_opts' option is ignored unless merge_if_exists is set to True."
            ]
        self.contents = write(self.dataset, **options)
        if isinstance(self.contents, str):
            self.contents += "\n"

    def _merge(self, read: Callable[..., Any] | None) -> None:
        if read is None:
            self.fail(f"merge_if_exists is not supported for the {self.kind} serializer")
        given = _data.repack_dictlist(self.deserializer_opts) if self.deserializer_opts else {}
        try:
            if self.kind == "msgpack":
                with open(self.name, "rb") as binary:
                    self.old = read(binary.read(), **given)
            else:
                with open(self.name, encoding="utf-8") as file:
                    self.old = read(file, **given)
        except (TypeError, _serializers.DeserializationError) as error:
            self.fail(f"Failed to deserialize existing data: {error}")
        if self.old is None:
            return
        self.new = merge_recurse(self.old, self.dataset)
        if self.old == self.new:
            self.finish(f"The file {self.name} is in the correct state")
        self.dataset = self.new

    def _forecast(self) -> None:
        """What is said under C{test}."""
        ret = self.ret
        ret["changes"] = self.salt["file.check_managed_changes"](
            name=self.name,
            source=None,
            source_hash={},
            source_hash_name=None,
            user=self.user,
            group=self.group,
            mode=self.mode,
            attrs=None,
            template=None,
            context=None,
            defaults=None,
            saltenv=self.around.env,
            contents=self.contents,
            skip_verify=False,
            **self.kwargs,
        )
        if ret["changes"]:
            ret["result"] = None
            ret["comment"] = f"Dataset will be serialized and stored into {self.name}"
            if not self.show_changes:
                ret["changes"]["diff"] = "<show_changes=False>"
        else:
            ret["comment"] = f"The file {self.name} is in the correct state"

    def _put(self, path: str) -> dict[str, Any]:
        did: dict[str, Any] = self.salt["file.manage_file"](
            name=path,
            sfn="",
            ret=self.ret,
            source=None,
            source_sum={},
            user=self.user,
            group=self.group,
            mode=self.mode,
            attrs=None,
            saltenv=self.around.env,
            backup=self.backup,
            makedirs=self.makedirs,
            template=None,
            show_changes=self.show_changes,
            encoding=self.encoding,
            encoding_errors=self.encoding_errors,
            contents=self.contents,
        )
        return did

    def _try(self) -> None:
        """Write a file apart, and end here if C{check_cmd} does not agree to it."""
        trial = _files.mkstemp(suffix=self.tmp_ext, dir=self.tmp_dir)
        try:
            self._show(trial)
        except Finished:
            raise
        except Exception as error:
            self.fail(f"Unable to check_cmd file: {error}")
        finally:
            _files.safe_remove(trial)

    def _show(self, trial: str) -> None:
        if self.salt["file.file_exists"](self.name):
            try:
                self.salt["file.copy"](self.name, trial)
            except Exception as error:
                self.fail(f"Unable to copy file {self.name} to {trial}: {error}")
        if not self._put(trial)["changes"]:
            return
        verdict = run_check_cmd(self.salt, self.check_cmd, trial, **self.shell)
        if isinstance(verdict, dict):
            self.ret.update(verdict)
            raise Finished
