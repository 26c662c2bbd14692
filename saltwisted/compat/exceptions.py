"""
C{salt.exceptions}: the classes that our workers know, and those that modules only name.

The second ones are raised and caught by site modules among themselves, or are raised by parts of
stock's that have no counterpart here: an C{except} clause must still find them.
"""

from __future__ import annotations

from typing import Any

from saltwisted.worker import exceptions as _ours
from saltwisted.worker.exceptions import SaltException


class InvalidKeyError(SaltException, ValueError):
    """A key that is none."""


class SaltClientTimeout(SaltException):
    """
    A job had no answer in time.

    @ivar jid: the job's id.
    """

    def __init__(self, message: Any, jid: str | None = None) -> None:
        super().__init__(message)
        self.jid = jid


def get_error_message(error: BaseException) -> Any:
    """What an exception says."""
    return error.args[0] if error.args else ""


class MasterExit(SystemExit):
    """The master is to end."""


class SaltSystemExit(SystemExit):
    """
    Something is so wrong that the process is to end.

    @ivar code: its exit code.
    @ivar message: why.
    """

    def __init__(self, code: int = 0, msg: str | None = None) -> None:
        super().__init__(msg)
        self.code = code
        self.message = msg


class LoggingRuntimeError(RuntimeError):
    """Logging was used in a wrong way."""


_BELOW = {
    "SaltException": (
        "AuthenticationError FileserverConfigError GitRemoteError MissingSmb NotImplemented"
        " NxosError PublishError SaltCloudException SaltDaemonNotRunning SaltDeserializationError"
        " SaltMasterError SaltMasterUnresolvableError SaltNoMinionsFound SaltRunnerError"
        " SaltSyndicMasterError SaltValidationError SaltWheelError TemplateError TimeoutError"
        " TokenExpiredError UnsupportedAlgorithm"
    ),
    "CommandExecutionError": (
        "CheckError CodePageError InvalidConfigError InvalidEntityError VMwareSaltError"
    ),
    "SaltCloudException": (
        "SaltCloudConfigError SaltCloudExecutionFailure SaltCloudExecutionTimeout"
        " SaltCloudNotFound SaltCloudPasswordError SaltCloudSystemExit"
    ),
    "NxosError": "NxosCliError NxosClientError NxosRequestNotSupported",
    "VMwareSaltError": (
        "VMwareApiError VMwareConnectionError VMwareNotFoundError VMwareObjectExistsError"
        " VMwareObjectNotFoundError VMwareObjectRetrievalError VMwarePowerOnError"
        " VMwareRuntimeError VMwareSystemError VMwareVmCreationError VMwareVmRegisterError"
    ),
    "VMwareObjectRetrievalError": "VMwareMultipleObjectsError",
    "VMwareApiError": "VMwareFileNotFoundError",
}
"""Classes that have a name and nothing else, by the class they are kinds of (3008's tree)."""


def _make_all() -> None:
    space = globals()
    space.update({name: value for name, value in vars(_ours).items() if not name.startswith("_")})
    for base, names in _BELOW.items():
        for name in names.split():
            space.setdefault(name, type(name, (space[base],), {}))
    for value in list(space.values()):
        if isinstance(value, type) and issubclass(value, BaseException):
            # As those of ours: a traceback names the class as stock's does.
            value.__module__ = "salt.exceptions"


_make_all()
