"""
The text of a failed rendering: file, line and the lines around it.

Salt's wording is kept to the letter, because people search for it and scripts match it. The parts
are also kept as attributes, so that a log can name file and line without quoting a template that
may contain secrets.
"""

from __future__ import annotations

from saltwisted.errors import RenderError

MARKER = "    <======================"
"""What Salt appends to the offending line."""


class TemplateFailure(RenderError):
    """
    A L{RenderError} that knows what may be logged.

    @ivar problem: the error, without quoted lines and traceback.
    @ivar quotable: whether C{problem} only has names and syntax. If not, it may quote data, as the
        text of an exception from a called function does.
    @ivar unforeseen: whether Salt's renderer lets the library's own exception (our cause) through.
        Salt then reports an SLS in other words, with a traceback.
    """

    unforeseen = False

    def __init__(
        self,
        problem: str,
        line: int | None = None,
        source: str = "",
        trace: str = "",
        sls: str = "",
        quotable: bool = True,
        brief: str = "",
    ) -> None:
        context = excerpt(source, line, marker=MARKER) if line and source else ""
        text = f"{problem}\n{trace}\n" if trace else problem
        if context:
            text += f"; line {line}\n\n{context}"
        super().__init__(text, sls=sls, line=line or None, context=context)
        self.problem = brief or (problem.splitlines()[0] if problem else "")
        self.quotable = quotable

    def summary(self) -> str:
        """One line for a log: no data, no quoted source."""
        what = self.problem if self.quotable else "the reason may quote data and is not logged"
        return f"{what} (line {self.line})" if self.line else what


LARGEST = 32 * 1024 * 1024
"""Bytes that what is to be rendered may have: no memory is lost for what cannot be meant."""


def too_large(size: int, sls: str = "") -> TemplateFailure:
    """The failure for a value that is larger than anything reasonable."""
    return TemplateFailure(
        f"{size} bytes are too many; at most {LARGEST} bytes are rendered", sls=sls
    )


def unforeseen(failure: TemplateFailure) -> TemplateFailure:
    """The same failure, marked as one that Salt's renderer does not catch."""
    failure.unforeseen = True
    return failure


def excerpt(source: str, line: int, around: int = 5, marker: str = "") -> str:
    """
    The lines around one line, between C{---} rules, as Salt quotes them.

    @param line: 1-based; beyond the end, the whole source is returned.
    """
    lines = source.splitlines()
    if line > len(lines):
        return source
    first = max(0, line - around - 1)
    last = min(len(lines), line + around)
    shown = lines[first:last]
    if marker:
        shown[line - 1 - first] += marker
    if first:
        shown.insert(0, "[...]")
    if last < len(lines):
        shown.append("[...]")
    return "\n".join(["---", *shown, "---"])


class FilterError(ValueError):
    """A filter was used in an invalid way; reported as a failed function of Salt."""


class TemplateError(Exception):
    """What a template's C{raise('...')} raises."""


TemplateError.__module__ = "salt.exceptions"  # the last line of the quoted traceback names it
