"""
The Jinja filters that need the machine: clock, dice, files, names, the network.

L{saltwisted.domain.render.filters.IMPURE} lists their names. A caller that needs to know that an
answer may differ next time passes C{note}, which is called with the filter's name whenever that is
so.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import pwd
import random
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from saltwisted.domain.render.netfilters import bracketed
from saltwisted.worker.exceptions import SaltException
from saltwisted.worker.walk import walk

TEXT_BYTES = bytes(range(32, 127)) + b"\n\r\t\f\b"
PATHS = ("/sbin", "/bin", "/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")


def silent(name: str) -> None:
    """Nobody wants to know."""


def impure_filters(
    functions: Callable[[], Mapping[str, Any]], note: Callable[[str], None] = silent
) -> dict[str, Callable[..., Any]]:
    """
    The filters, by name.

    @param functions: gives Salt's functions when one is needed (C{http_query}).
    """

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            note(name)
            return function(*args, **kwargs)

        call.__name__ = name
        call.__doc__ = function.__doc__
        return call

    def strftime(date: Any = None, format: str = "%Y-%m-%d") -> str:
        """A time as text; of now, if there is none."""
        if date is None or (isinstance(date, str) and not date.isdigit()):
            note("strftime")
        return as_datetime(date).strftime(format)

    def http_query(url: str, **options: Any) -> Any:
        """What C{http.query} answers."""
        table = functions()
        if "http.query" not in table:
            raise SaltException("http_query needs the http execution module")
        return table["http.query"](url, **options)

    found: dict[str, Callable[..., Any]] = {
        "dns_check": dns_check,
        "file_hashsum": file_hashsum,
        "gen_mac": gen_mac,
        "get_uid": get_uid,
        "http_query": http_query,
        "is_bin_file": is_bin_file,
        "is_empty": is_empty,
        "is_text_file": is_text_file,
        "list_files": list_files,
        "rand_str": random_hash,
        "random": random.choice,
        "random_hash": random_hash,
        "random_sample": random_sample,
        "random_shuffle": random_shuffle,
        "random_str": random_str,
        "which": which,
    }
    return {
        **{name: noted(name, function) for name, function in found.items()},
        "date_format": strftime,
        "strftime": strftime,
        "json_query": json_query,
    }


_WRITTEN = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}))?)?")
"""Year, month, day and perhaps a time: what needs no library to be read."""


def as_datetime(date: Any) -> datetime.datetime:
    """
    Whatever means a point in time, in local time.

    @raises RuntimeError: it cannot be read; words need the C{timelib} library.
    @raises ValueError: C{timelib} cannot read it either.
    """
    if date is None:
        return datetime.datetime.now()  # noqa: DTZ005 - local time, as in Salt
    if isinstance(date, datetime.datetime):
        return date
    timelib = _optional("timelib")
    try:
        if isinstance(date, str):
            written = _WRITTEN.fullmatch(date.strip())
            if written is not None:
                numbers = [int(part) for part in written.groups("0")]
                return datetime.datetime(*numbers)  # type: ignore[arg-type]  # noqa: DTZ001
            if timelib is not None:
                try:
                    made = timelib.strtodatetime(date.encode())
                    assert isinstance(made, datetime.datetime)
                    return made
                except ValueError:
                    pass
            date = int(date) if date.isdigit() else float(date)
        return datetime.datetime.fromtimestamp(date)  # noqa: DTZ006
    except Exception as error:
        if timelib is not None:
            raise ValueError(f"Unable to parse {date}") from error
        raise RuntimeError(f"Unable to parse {date}. Consider installing timelib") from error


def json_query(data: Any, expr: str) -> Any:
    """Ask nested data in JMESPath."""
    import jmespath

    return jmespath.search(expr, data)


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


# -- dice ------------------------------------------------------------------------


def random_str(size: int = 32) -> str:
    """Characters of the base64 alphabet."""
    return base64.b64encode(os.urandom(size)).decode()[:size]


def random_hash(size: int = 9999999999, hash_type: str | None = None) -> str:
    """The digest of a number up to C{size}."""
    number = random.SystemRandom().randint(0, size)
    return str(getattr(hashlib, hash_type or "md5")(str(number).encode()).hexdigest())


def random_sample(values: Any, size: int, seed: Any = None) -> list[Any]:
    """Some of the values; the same ones for the same seed."""
    if seed is None:
        return random.sample(values, size)
    raw = seed.encode() if isinstance(seed, str) else seed
    return random.Random(hashlib.sha512(raw).hexdigest()).sample(values, size)  # noqa: S311


def random_shuffle(values: Any, seed: Any = None) -> list[Any]:
    """The values in another order; the same one for the same seed."""
    return random_sample(values, len(values), seed)


def gen_mac(prefix: str = "AC:DE:48") -> str:
    """A hardware address with this prefix."""
    return prefix + "".join(f":{byte:02X}" for byte in os.urandom(3))


# -- files -----------------------------------------------------------------------


def file_hashsum(path: str, form: str = "sha256", chunk_size: int = 65536) -> str:
    """
    The digest of a file.

    @raises ValueError: there is no such algorithm.
    """
    make = getattr(hashlib, form, None)
    if make is None:
        raise ValueError(f"Invalid hash type: {form}")
    digest = make()
    with open(path, "rb") as stream:
        while chunk := stream.read(chunk_size):
            digest.update(chunk)
    return str(digest.hexdigest())


def is_binary(data: bytes) -> bool:
    """A NUL byte, or more than 30 % of what is not text."""
    if not data:
        return False
    if b"\0" in data:
        return True
    text = TEXT_BYTES
    try:
        data.decode()
        text += bytes(range(128, 255))
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            text += bytes(range(128, 255))
    return len(data.translate(None, text)) / len(data) > 0.30


def is_bin_file(path: str) -> bool:
    """Whether a file holds something else than text."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as stream:
            return is_binary(stream.read(2048))
    except OSError:
        return False


def is_text_file(fp_: Any, blocksize: int = 512) -> bool:
    """Whether a file, or an open stream, begins like text."""
    if hasattr(fp_, "read"):
        block = fp_.read(blocksize)
    else:
        try:
            with open(fp_, "rb") as stream:
                block = stream.read(blocksize)
        except OSError:
            return False
    return not is_binary(block.encode() if isinstance(block, str) else block)


def is_empty(filename: str) -> bool:
    """Whether a file is there and has no byte."""
    try:
        return os.stat(filename).st_size == 0
    except OSError:
        return False


def list_files(directory: str) -> list[str]:
    """A directory and all that is below it, by every way that links to directories give."""
    found = {directory}
    for here, folders, files in walk(directory):
        found.update(os.path.join(here, name) for name in (*files, *folders))
    return list(found)


def which(exe: str | None = None) -> str | None:
    """The path of a program; the usual directories are searched after C{PATH}."""
    if not exe:
        return None

    def runs(path: str) -> bool:
        return os.path.isfile(path) and os.access(path, os.X_OK)

    if os.path.dirname(exe):
        if os.path.isabs(exe) and runs(exe):
            return exe
        exe = os.path.basename(exe)
    named = os.environ.get("PATH", "").split(os.pathsep)
    for directory in (*named, *(path for path in PATHS if path not in named)):
        path = os.path.join(directory, exe)
        if runs(path):
            return path
    return None


# -- names and the network ---------------------------------------------------------


def get_uid(user: str | None = None) -> int | None:
    """A user's number; our own without a name; C{None} for nobody."""
    if user is None:
        return os.geteuid()
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def dns_check(addr: str, port: int, safe: bool = False, ipv6: bool | None = None) -> str:
    """
    The first address of a name that takes a connection, or else the first, for a URL.

    @raises SaltException: the name has no address.
    """
    family = {True: socket.AF_INET6, False: socket.AF_INET}.get(bool(ipv6), socket.AF_UNSPEC)
    if ipv6 is None:
        family = socket.AF_UNSPEC
    found: Sequence[Any] = ()
    for kind in (family, socket.AF_INET) if ipv6 else (family,):
        try:
            found = socket.getaddrinfo(addr, port, kind, socket.SOCK_STREAM)
            break
        except TypeError:
            raise SaltException(
                f"Attempt to resolve address '{addr}' failed. Invalid or unresolveable address"
            ) from None
        except OSError:
            continue
    if not found:
        raise SaltException(f"DNS lookup or connection check of '{addr}' failed.")
    addresses = list(dict.fromkeys((entry[0], entry[4][0]) for entry in found))
    for kind, ip in addresses:
        try:
            with socket.socket(kind, socket.SOCK_STREAM) as sock:
                sock.settimeout(2)
                sock.connect((ip, port))
                return bracketed(ip)
        except OSError:
            continue
    return bracketed(addresses[0][1])
