"""
Unpacking one archive into a directory, by Python's own means or by the programs for it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tarfile
from typing import Any

from attrs import define, frozen

from saltwisted.worker.exceptions import CommandExecutionError, CommandNotFoundError


@define
class UnpackError(Exception):
    """
    An archive could not be unpacked.

    @ivar comment: why.
    @ivar changes: what the program answered.
    @ivar clean: whether a directory made for it goes away again.
    """

    comment: str = ""
    changes: Any = None
    clean: bool = False


@frozen(kw_only=True)
class Unpacker:
    """
    @ivar path: the archive.
    @ivar target: the directory.
    @ivar kwargs: further arguments of C{archive.unzip} and its like.
    """

    salt: Any
    path: str
    target: str
    options: str | None
    trim: Any
    kwargs: dict[str, Any]

    def zip(self, by_command: Any, password: Any, perms: bool) -> Any:
        """
        Unpack a zip archive.

        @raises UnpackError: C{unzip} failed.
        @raises CommandExecutionError: the archive is broken, or has another password.
        """
        words = {"options": self.options, "trim_output": self.trim, "password": password}
        if not by_command:
            return self.salt["archive.unzip"](
                self.path, self.target, extract_perms=perms, **self._without_options(words)
            )
        try:
            return self.salt["archive.cmd_unzip"](self.path, self.target, **words, **self.kwargs)
        except (CommandExecutionError, CommandNotFoundError) as error:
            raise UnpackError(error.strerror) from error

    def _without_options(self, words: dict[str, Any]) -> dict[str, Any]:
        # They are for the program.
        return {**{key: words[key] for key in words if key != "options"}, **self.kwargs}

    def rar(self) -> Any:
        """
        Unpack a rar archive.

        @raises UnpackError: C{unrar} failed.
        """
        try:
            return self.salt["archive.unrar"](
                self.path, self.target, trim_output=self.trim, **self.kwargs
            )
        except (CommandExecutionError, CommandNotFoundError) as error:
            raise UnpackError(error.strerror) from error

    def tar(self) -> Any:
        """
        Unpack a tar archive, by C{tar} if there are options for it.

        @raises UnpackError: it is none, or C{tar} failed.
        """
        if self.options is not None:
            return self._tar_by_command(self.options)
        try:
            with tarfile.open(self.path, "r") as archive:
                self._extract(archive)
                names = archive.getnames()
                return names[: self.trim] if self.trim else names
        except tarfile.ReadError:
            return self._xz()

    def _extract(self, archive: tarfile.TarFile) -> None:
        """
        All members; none that would come to lie outside of the directory.

        @raises UnpackError: one would.
        """
        if sys.version_info >= (3, 12):
            archive.extractall(self.target, filter="data")
            return
        root = os.path.realpath(self.target)
        for member in archive.getmembers():
            place = os.path.normpath(os.path.join(root, member.name))
            if place != root and not place.startswith(os.path.join(root, "")):
                raise UnpackError(f"Refusing to extract {member.name!r} outside of {self.target}")
        archive.extractall(self.target)  # noqa: S202 - the names were just looked at

    def _xz(self) -> Any:
        """What Python cannot read may be of C{xz}, where Python lacks that."""
        if not shutil.which("xz"):
            raise UnpackError(
                "Failed to read from tar archive. If it is XZ-compressed, install xz-utils to"
                " attempt extraction.",
                clean=True,
            )
        words = {"python_shell": False, "ignore_retcode": True}
        if self.salt["cmd.retcode"](["xz", "-t", self.path], **words) != 0:
            raise UnpackError(
                "Failed to read from tar archive using Python's native tar file support. If"
                " archive is compressed using something other than gzip or bzip2, the 'options'"
                " argument may be required to pass the correct options to the tar command in"
                " order to extract the archive.",
                clean=True,
            )
        command = f"xz --decompress --stdout {shlex.quote(self.path)} | tar xvf -"
        done = self.salt["cmd.run_all"](command, cwd=self.target, python_shell=True)
        if done["retcode"] != 0:
            raise UnpackError(changes=done, clean=True)
        return done["stderr" if self._bsdtar() else "stdout"]

    def _tar_by_command(self, options: str) -> Any:
        if not shutil.which("tar"):
            raise UnpackError("tar command not available, it might not be installed on minion")
        done = self.salt["cmd.run_all"](
            tar_command(options, self.path), cwd=self.target, python_shell=False
        )
        if done["retcode"] != 0:
            raise UnpackError(changes=done)
        lines = done["stderr" if self._bsdtar() else "stdout"].splitlines()
        if self.trim:
            lines = lines[: self.trim]
        return lines or "no tar output so far"

    def _bsdtar(self) -> bool:
        """Whether C{tar} is that of BSD, which names the files on its other output."""
        return "bsdtar" in self.salt["cmd.run"](["tar", "--version"], python_shell=False)


def tar_command(options: str, path: str) -> list[str]:
    """C{tar} with an SLS's options: letters without a dash go together with ours."""
    letters = "xv"
    rest = []
    words = [word for word in shlex.split(options) if word not in ("v", "-v", "--verbose")]
    for place, word in enumerate(words):
        if place == 0 and not word.startswith("-"):
            letters += word.replace("x", "").replace("f", "")
        else:
            rest.append(word)
    return ["tar", letters, *rest, "-f", path]
