"""
What a renderer may ask of the world: everything impure, in one argument.

The renderer decides nothing that depends on the machine. Files, the clock, dice, programs and
Salt's functions come through a L{RenderHost}. The real ones are in C{worker/renderhost.py}; tests
use a dictionary. A host may block, so rendering happens only in worker processes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol


class RenderHost(Protocol):
    """
    @ivar function_errors: exceptions by which Salt's functions report a failure of
        their own; told as C{Problem running salt function in Jinja template}.
    @ivar filters: the filters that need the machine, by name (see
        L{saltwisted.domain.render.filters.IMPURE}).
    """

    function_errors: tuple[type[BaseException], ...]
    filters: Mapping[str, Callable[..., Any]]

    def find(self, path: str, saltenv: str) -> str | None:
        """
        A local file with the content of C{salt://path}, or C{None} when there is none.

        @param path: relative, with C{/}, without the scheme.
        """

    def stamp(self, path: str) -> Hashable | None:
        """A value that changes whenever the file's content does; C{None}: no such file."""

    def read(self, path: str) -> bytes:
        """
        The content of a local file.

        @raises OSError: it cannot be read.
        """

    def now(self) -> float:
        """Seconds; only differences are used."""

    def log(self, level: str, message: str) -> None:
        """C{level} is C{profile}, C{debug}, C{warning} or C{error}. Never carries data."""

    def rendering(self) -> AbstractContextManager[Any]:
        """Entered around each rendering: pillar functions answer with plain values inside."""

    def prepare_python(self) -> None:
        """Called before Python code of the site is run, which may import C{salt}."""

    def gpg(self, message: bytes) -> bytes:
        """
        The plain text of an armoured message.

        @raises RenderError: no gpg, or no key and C{gpg_decrypt_must_succeed}.
        """

    def library(self, name: str) -> Any:
        """An optional Python library (C{mako.template}), or C{None} when it is not installed."""
