"""
The C{mako} renderer, if that library is installed.

Undefined names are errors, and includes come from the roots: C{salt://} URLs, absolute ones below
the roots, and ones relative to the including file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.render.errors import TemplateFailure
from saltwisted.domain.render.host import RenderHost


def render(
    text: str, host: RenderHost, saltenv: str, place: str, variables: Mapping[str, Any]
) -> str:
    """
    The text that a template makes.

    @param place: the template's own path below the roots, or nothing.
    @raises TemplateFailure: with Mako's account of the mistake.
    """
    template = host.library("mako.template")
    if template is None:
        raise TemplateFailure("No module named 'mako'")
    lookup = MakoLookup(host, saltenv) if saltenv else None
    try:
        made = template.Template(text, strict_undefined=True, uri=place or None, lookup=lookup)
        return str(made.render(**variables))
    except Exception as error:
        exceptions = host.library("mako.exceptions")
        told = str(exceptions.text_error_template().render(error=error))
        raise TemplateFailure(told, quotable=False) from error


class MakoLookup:
    """Finds what a Mako template includes, as Mako's own lookup would."""

    def __init__(self, host: RenderHost, saltenv: str) -> None:
        self._host = host
        self._saltenv = saltenv
        self._made: dict[str, Any] = {}

    def adjust_uri(self, uri: str, relativeto: str | None) -> str:
        """C{salt://} and relative names to paths below the roots."""
        if uri.startswith("salt://"):
            return uri[7:]
        if uri.startswith(("/", "file://")):
            return uri
        return posixpath.normpath(posixpath.join(posixpath.dirname(relativeto or ""), uri))

    def get_template(self, uri: str, relativeto: str | None = None) -> Any:
        """
        Called by Mako.

        @raises Exception: Mako's own for a missing template.
        """
        host = self._host
        if uri not in self._made:
            if uri.startswith("file://"):
                path: str | None = uri[7:]
            else:
                path = host.find(uri.lstrip("/"), self._saltenv)
            if path is None or host.stamp(path) is None:
                raise host.library("mako.exceptions").TopLevelLookupException(
                    f"Cannot locate template for uri {uri!r}"
                )
            text = host.read(path).decode()
            self._made[uri] = host.library("mako.template").Template(text, uri=uri, lookup=self)
        return self._made[uri]
