"""
The exceptions that execution and state modules raise, under Salt's names.

A worker turns each kind into its own wording of the return (see L{saltwisted.worker.process.main}),
so a module raises L{CommandExecutionError} for "the machine said no" and
L{SaltInvocationError} for "you asked in a wrong way". When stock modules are
used beside ours, the loader puts these classes in place of theirs in
C{salt.exceptions}, so that C{except} clauses on both sides see one class.
Errors of saltwisted itself are in L{saltwisted.errors}.
"""

from __future__ import annotations

from typing import Any


class SaltException(Exception):
    """
    The root of Salt's exceptions.

    @ivar message: the text, also as C{strerror}, which modules read.
    """

    def __init__(self, message: Any = "") -> None:
        text = message if isinstance(message, str) else str(message)
        super().__init__(text)
        self.message = text
        self.strerror = text

    def pack(self) -> dict[str, Any]:
        """Plain data for an event or a return."""
        return {"message": str(self), "args": self.args}


class SaltInvocationError(SaltException, TypeError):
    """The caller's arguments are invalid."""


class SaltClientError(SaltException):
    """A request to the master could not be made."""


class SaltReqTimeoutError(SaltException):
    """The master did not answer in time."""


class CommandNotFoundError(SaltException):
    """A program that the function needs is not installed."""


class CommandExecutionError(SaltException):
    """
    The operation failed on this machine.

    @ivar error: the message without details.
    @ivar info: structured details, appended to the text as the nested outputter shows them.
    @ivar strerror_without_changes: the text without C{info["changes"]}, for state results.
    """

    def __init__(self, message: Any = "", info: Any = None) -> None:
        self.error = message if isinstance(message, str) else str(message)
        self.info = info
        text = self.strerror_without_changes = self.error
        if info:
            head = self.error
            if head:
                head += " " if head[-1] in ".?!" else ". "
            head += "Additional info follows:\n\n"
            text = self.strerror_without_changes = head + nested_text(info)
            if isinstance(info, dict):
                rest = {key: value for key, value in info.items() if key != "changes"}
                self.strerror_without_changes = head + nested_text(rest) if rest else self.error
        super().__init__(text)


class ArgumentValueError(CommandExecutionError):
    """An argument has a value that the function cannot work with."""


class LoaderError(SaltException):
    """A module could not be loaded, or a name is not in the loader."""


class MinionError(SaltException):
    """A file could not be fetched, or the minion itself failed."""


class FileserverConfigError(SaltException):
    """C{file_roots} or a backend option is invalid."""


class FileLockError(SaltException):
    """
    A lock file could not be taken in time.

    @ivar time_start: when waiting began (Unix time), or C{None}.
    """

    def __init__(self, message: Any, time_start: float | None = None, *args: Any) -> None:
        super().__init__(message)
        self.time_start = time_start


class SaltRenderError(SaltException):
    """
    A template or data file could not be rendered.

    @ivar line_num: 1-based line, or C{None}.
    @ivar buffer: the source.
    @ivar context: the lines around the mistake, as stock prints them.
    """

    def __init__(
        self,
        message: Any,
        line_num: int | None = None,
        buf: str = "",
        marker: str = "    <======================",
        trace: str | None = None,
    ) -> None:
        text = message if isinstance(message, str) else str(message)
        self.error = text
        self.line_num = line_num
        self.buffer = buf
        self.context = ""
        if trace:
            text += f"\n{trace}\n"
        if line_num is not None and buf:
            lines = buf.splitlines()
            first = max(line_num - 6, 0)
            shown = lines[first : line_num + 5]
            if 0 <= line_num - 1 - first < len(shown):
                shown[line_num - 1 - first] += marker
            cut = ["[...]"] if first else []
            tail = ["[...]"] if line_num + 5 < len(lines) else []
            self.context = "\n".join(["---", *cut, *shown, *tail, "---"])
            text += f"; line {line_num}\n\n{self.context}"
        super().__init__(text)


class EauthAuthenticationError(SaltException):
    """External authentication failed."""


class TokenAuthenticationError(SaltException):
    """A token is unknown or expired."""


class AuthorizationError(SaltException):
    """The caller may not do this."""


class GitLockError(SaltException):
    """A git remote is locked by another process."""


class PillarRenderError(SaltException):
    """A pillar sls could not be rendered."""


class PkgParseError(SaltException):
    """The output of a package manager could not be understood."""


class SaltCacheError(SaltException):
    """The data cache failed."""


class SaltConfigurationError(SaltException):
    """An option is invalid."""


class TimedProcTimeoutError(SaltException):
    """A command ran longer than its C{timeout}."""


for _found in list(globals().values()):
    if isinstance(_found, type) and issubclass(_found, SaltException):
        # Tracebacks in results and returns name the class as stock's do.
        _found.__module__ = "salt.exceptions"
del _found


def nested_text(value: Any) -> str:
    """Plain data as the C{nested} outputter prints it, without colours."""
    lines: list[str] = []
    _nest(value, 0, "", lines)
    return "\n".join(lines).rstrip()


def _nest(value: Any, indent: int, prefix: str, out: list[str]) -> None:
    pad = " " * indent
    if isinstance(value, dict):
        if indent:
            out.append(pad + "----------")
        for key in sorted(value, key=str):
            out.append(f"{pad}{prefix}{key}:")
            _nest(value[key], indent + 4, "", out)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, (list, tuple, dict)):
                out.append(pad + "|_")
                _nest(item, indent + 2, "" if isinstance(item, dict) else "- ", out)
            else:
                _nest(item, indent, "- ", out)
    elif isinstance(value, str):
        for number, line in enumerate(value.splitlines() or [""]):
            out.append(pad + (prefix if number == 0 else " " * len(prefix)) + line)
    else:
        out.append(f"{pad}{prefix}{value}")
