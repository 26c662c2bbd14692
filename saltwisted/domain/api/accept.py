"""
The format of an answer: the client's C{Accept}, read as CherryPy reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from saltwisted.domain.api.problems import Problem

JSON = "application/json"
YAML = "application/x-yaml"
MSGPACK = "application/x-msgpack"
FORMS = (JSON, YAML, MSGPACK)
"""What can be answered; the first is for who does not care. Salt has no msgpack here."""
LONGEST = 2048
"""Characters of an C{Accept} that are read."""


def ranges(header: str) -> list[str]:
    """
    What a header accepts, most wanted first, without anything that has C{q=0}.

    @raises Problem: a quality is not a number.
    """
    return [name for quality, name in qualities(header) if quality > 0]


def qualities(header: str) -> list[tuple[float, str]]:
    """
    Everything that a header names, each with its quality, most wanted first.

    @raises Problem: a quality is not a number.
    """
    found: list[tuple[float, str]] = []
    for part in header[:LONGEST].split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        if not name:
            continue
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip().lower() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    raise Problem(400, f"Malformed HTTP header: `{header[:200]}`") from None
        found.append((quality, name.lower()))
    found.sort(reverse=True)
    return found


def best(header: str | None, forms: Sequence[str] = FORMS) -> str:
    """
    The form to answer in.

    @param header: the C{Accept} of the request, C{None} if it has none.
    @raises Problem: C{406}, none of ours is accepted.
    """
    wanted = ranges(header) if header else []
    if not wanted:
        return forms[0]
    for name in wanted:
        if name == "*/*":
            return forms[0]
        if name.endswith("/*"):
            for form in forms:
                if form.startswith(name[:-1]):
                    return form
        elif name in forms:
            return name
    raise Problem(
        406,
        f"Your client sent this Accept header: {(header or '')[:200]}. But this resource only"
        f" emits these media types: {', '.join(forms)}.",
    )


def prefers_html(header: str | None) -> bool:
    """Whether a browser wants a page: it asks for C{text/html} before anything else."""
    if not header or header.strip() == "*/*":
        return False
    wanted = ranges(header)
    return "text/html" in wanted or "text/*" in wanted
