"""
Where a daemon cannot listen, and why: words for people, and whether trying again may help.
"""

from __future__ import annotations

import errno
import os
import socket

from saltwisted.errors import ConfigError, PortError

EVERYWHERE = ("", "*", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
_NO_ADDRESS = (errno.EADDRNOTAVAIL, errno.ENODEV, errno.EAFNOSUPPORT, errno.EINVAL)


def no_address(host: str, devices: bool = False) -> str:
    """
    Why nobody can listen on a host here; C{""} if one can. Nothing listens meanwhile, and a port
    is in use for as long as one call of the system takes.

    @param host: an address, or a name of this machine. A name is looked up, which may take
        seconds.
    @param devices: whether the name of a network interface (C{eth0}) is an address, too, as
        ZeroMQ has it, and no other name is.
    """
    if host in EVERYWHERE:
        return ""
    if devices and host in (name for _, name in socket.if_nameindex()):
        return ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if devices:
            socket.inet_pton(family, host.partition("%")[0])
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except OSError as error:
        return _words(host, error) or (error.strerror or str(error))
    return ""


def port_in_use(host: str, port: int) -> str:
    """
    Why a port cannot be bound now, if somebody else has it or we may not; C{""} if it can. It is
    bound for as long as one call of the system takes, and nobody is answered.
    """
    if host == "*":
        host = "0.0.0.0"  # noqa: S104 - ZeroMQ's word for it
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EPERM):
            return f"cannot listen on {host}:{port}: {os.strerror(error.errno)}"
    return ""


def _words(host: str, error: OSError) -> str:
    if isinstance(error, socket.gaierror) or error.errno is None:
        return f"{host} is neither an address nor a name that this machine knows"
    if error.errno in _NO_ADDRESS:
        return f"{host} is no address of this machine"
    return ""


def cannot_listen(host: str, port: int, error: BaseException, what: str, other: str) -> ConfigError:
    """
    The error to raise after a failed bind. A port that is in use may be free a moment later;
    an address that is not here, or a port that this user may not have, is for a person to mend.

    @param error: of the socket: an C{OSError}, or another one with its C{errno}.
    @param what: begins the sentence: C{cannot listen}, C{metrics: cannot listen}.
    @param other: who may have the port, as a question: C{is another master running?}
    """
    number = getattr(error, "errno", None)
    place = f"{what} on {host}:{port}"
    if number == errno.EADDRINUSE:
        return PortError(f"{place}: {os.strerror(number)}{'; ' * bool(other)}{other}")
    if isinstance(error, OSError) and (words := _words(host, error)):
        return ConfigError(f"{place}: {words}")
    if number in _NO_ADDRESS:
        return ConfigError(f"{place}: {host} is no address of this machine")
    if number in (errno.EACCES, errno.EPERM):
        return ConfigError(f"{place}: {os.strerror(number)}")
    return PortError(f"{place}: {getattr(error, 'strerror', None) or error}")
