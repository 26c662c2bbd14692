"""
C{file.cached}: what an address names is in the minion's cache.
"""

from __future__ import annotations

import os
import urllib.parse
from typing import Any

from attrs import define, field

from saltwisted.modules import _files
from saltwisted.states._file_work import FileState
from saltwisted.worker.exceptions import CommandExecutionError


@define(kw_only=True, eq=False, repr=False, slots=False)
class Cached(FileState):
    """
    @ivar signed: what is asked of the signature of a list of hashes.
    @ivar summed: the hash that it should have.
    @ivar wanted: the same, if it is to be verified.
    @ivar kind: which hash is meant.
    """

    source_hash: Any
    source_hash_name: str | None
    skip_verify: bool
    saltenv: str
    use_etag: bool
    signed: dict[str, Any]

    summed: dict[str, Any] = field(factory=dict, init=False)
    wanted: str | None = field(default=None, init=False)
    kind: str = field(default="", init=False)

    def work(self) -> None:
        """From the address to the cache."""
        self.ret["result"] = False
        try:
            parts = urllib.parse.urlparse(self.name)
        except Exception:
            self.fail("Only URLs or local file paths are valid input")
        if (
            parts.scheme in _files.REMOTE_PROTOS
            and not self.skip_verify
            and not self.source_hash
            and not self.use_etag
        ):
            self.fail(
                "Unable to verify upstream hash of source file "
                f"{_files.hidden_credentials(self.name)}, please set source_hash or "
                "set skip_verify or use_etag to True"
            )
        if self.source_hash:
            self._look_up()
        self.kind = self.summed.get("hash_type", self.around.opts["hash_type"])
        self.wanted = self.summed.get("hsum") if not self.skip_verify else None
        if self.around.test:
            self._forecast()
        elif parts.scheme in _files.LOCAL_PROTOS:
            self._look(os.path.realpath(os.path.expanduser(parts.path)))
        else:
            self._cache()

    def _look_up(self) -> None:
        """The hash that the arguments announce."""
        try:
            self.summed = self.salt["file.get_source_sum"](
                source=self.name,
                source_hash=self.source_hash,
                source_hash_name=self.source_hash_name,
                saltenv=self.saltenv,
                **self.signed,
            )
        except CommandExecutionError as error:
            self.fail(error.strerror)
        if not self.summed:
            self.fail(
                f"Failed to get source hash from {self.source_hash}. This may be a bug. If this "
                "error persists, please report it and set skip_verify to True to work around it."
            )

    def _hash(self, path: str, kind: str) -> str:
        found: str = self.salt["file.get_hash"](path, kind)
        return found

    def _forecast(self) -> None:
        name = self.name
        self.ret["result"] = None
        copy = self.salt["cp.is_cached"](name, saltenv=self.saltenv)
        if not copy:
            self.finish(f"File will be cached: {name}")
        if not self.summed:
            self.finish(f"No hash found. File will be cached: {name}")
        if self._hash(copy, self.around.opts["hash_type"]) == self.summed["hsum"]:
            self.finish(f"File already cached: {name}")
        self.finish(f"Hashes don't match.\nFile will be cached: {name}")

    def _look(self, path: str) -> None:
        """A file of this machine needs no cache."""
        if not os.path.exists(path):
            self.fail(f"File {path} is not present on the minion")
        self.ret["result"] = True
        text = f"File {path} is present on the minion"
        if not self.wanted:
            self.finish(text)
        have = self._hash(path, self.kind)
        if have == self.wanted:
            self.finish(f"{text} and has hash {have}")
        self.fail(
            f"{text}, but the hash ({have}) does not match the specified hash ({self.wanted})"
        )

    def _cache(self) -> None:
        ret, wanted = self.ret, self.wanted
        copy = self.salt["cp.is_cached"](self.name, saltenv=self.saltenv)
        before = self._hash(copy, self.kind) if copy else None
        if wanted and before == wanted:
            ret["result"] = True
            ret["comment"] = f"File is already cached to {copy} with hash {before}"
        try:
            copy = self.salt["cp.cache_file"](
                self.name,
                saltenv=self.saltenv,
                source_hash=self.summed.get("hsum"),
                use_etag=self.use_etag,
            )
        except Exception as error:
            self.finish(_files.hidden_credentials(str(error)))
        if not copy:
            shown = _files.hidden_credentials(self.name)
            self.finish(f"Failed to cache {shown}, check minion log for more information")
        after = self._hash(copy, self.kind)
        if before != after:
            ret["changes"]["hash"] = {"old": before, "new": after}
        if not wanted:
            ret.update(result=True, comment=f"File is cached to {copy}")
        elif after == wanted:
            ret.update(result=True, comment=f"File is already cached to {copy} with hash {after}")
        else:
            ret["comment"] = (
                f"File is cached to {copy}, but the hash ({after}) does not match the specified "
                f"hash ({wanted})"
            )
