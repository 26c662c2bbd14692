"""
The facts in which L{saltwisted.domain.doctor} looks for problems.

Every fact is gathered separately: if one is unavailable, it is left out and reported, and does not
affect the others.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from saltwisted.config.options import MasterConfig, MinionConfig
from saltwisted.domain import doctor
from saltwisted.domain.doctor import Finding, Severity
from saltwisted.domain.roots import health
from saltwisted.domain.takeover import not_here
from saltwisted.errors import RemoteError, SaltwistedError, TransportClosed
from saltwisted.tools.ports import listener
from saltwisted.tools.units import master_role, start_command, unit, unit_of
from saltwisted.wire.expiry import validities
from saltwisted.wire.msgpack import unpack_bin
from saltwisted.wire.rsa import fingerprint
from saltwisted.worker.control import ControlClient

FOLDERS = {
    "accepted": "minions",
    "pending": "minions_pre",
    "rejected": "minions_rejected",
    "denied": "minions_denied",
}
HAPROXY = "/etc/haproxy/haproxy.cfg"
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to
MOST_MINIONS_READ = 5000


class Looker:
    """
    What is checked in the same way for every role.

    @ivar role: C{master}, C{cluster} or C{minion}.
    @ivar unit: the unit of systemd that the daemon belongs to, or would.
    @ivar unknown: what could not be checked, and why.
    @ivar status: what the daemon reports about itself; empty while none answers.
    """

    def __init__(self, config: MasterConfig | MinionConfig, sources: list[str], role: str) -> None:
        self.config = config
        self.sources = sources
        self.role = role
        self.unit = unit(role)
        self.unknown: dict[str, str] = {}
        self.status: Mapping[str, Any] = {}

    def _try(self, what: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
        try:
            return list(look())
        except PermissionError as error:
            self.unknown[what] = f"{error.filename}: permission denied; run this as root"
        except (SaltwistedError, TimeoutError) as error:
            self.unknown[what] = str(error)
        except (OSError, ValueError, KeyError) as error:
            self.unknown[what] = f"{type(error).__name__}: {error}"
        return []

    def ask(self, op: str, **args: Any) -> Any:
        """
        A question to the daemon.

        @raises TransportClosed: there is none.
        @raises RemoteError: it does not answer this one.
        """
        path = os.path.join(self.config.sock_dir, "saltwisted.sock")
        with ControlClient(path=path, timeout=20) as client:
            return client.call(op, **args)

    def _daemon(self) -> Iterator[Finding]:
        try:
            self.status = self.ask("status")
        except (TransportClosed, TimeoutError) as error:
            what = {"cluster": "node of the cluster"}.get(self.role, self.role)
            yield Finding(
                id="daemon.down",
                severity=Severity.ERROR,
                text=f"no {what} answers",
                evidence=[str(error)],
                command=start_command(self.role, {"conf_file": self.config.conf_file}),
            )
            return
        self.unit = unit_of(self.pid) or self.unit
        yield from doctor.shut_in(self.status.get("problems") or {}, self.unit)
        yield from doctor.claims(self.status.get("claims") or {})

    @property
    def pid(self) -> int:
        """The daemon's process; 0 while none answers."""
        return int(self.status.get("pid") or 0)

    @property
    def owner(self) -> int:
        """Who the daemon runs as, as far as it can be seen."""
        with suppress(OSError):
            if self.pid:
                return os.stat(f"/proc/{self.pid}").st_uid
        return os.geteuid()

    def _secrets(self) -> Iterator[tuple[str, int, int, int]]:
        """Files that hold secrets, with the bits that are too many."""
        group = 0 if getattr(self.config, "permissive_pki_access", False) else 0o070
        paths = [(self.config.pki_dir, 0o007 | group), (self.config.cachedir, 0o007)]
        with suppress(FileNotFoundError):
            for name in os.listdir(self.config.pki_dir):
                if name.endswith(".pem"):
                    paths.append((os.path.join(self.config.pki_dir, name), 0o007 | group))
        # What is in the configuration is for everybody, unless it names a password
        for path in self.sources:
            paths.append((path, 0o007 if _has_secret(path) else 0o002))
        for path, forbidden in paths:
            with suppress(FileNotFoundError):
                info = os.stat(path)
                yield path, stat.S_IMODE(info.st_mode), info.st_uid, forbidden

    def _room(self) -> dict[str, tuple[int, int, int, int]]:
        found = {}
        for path in (self.config.cachedir, self.config.pki_dir):
            with suppress(FileNotFoundError):
                room = os.statvfs(path)
                found[path] = (
                    room.f_bavail * room.f_frsize,
                    room.f_blocks * room.f_frsize,
                    room.f_favail,
                    room.f_files,
                )
        return found

    def _unsupported(self) -> dict[str, str]:
        config = self.config
        return not_here(config.role, config.value, config.defaults)


class MinionDoctor(Looker):
    """Checks one minion."""

    def __init__(self, config: MinionConfig, sources: list[str]) -> None:
        super().__init__(config, sources, "minion")

    def look(self, from_minion: str = "") -> list[Finding]:
        """Everything that a minion needs."""
        found: list[Finding] = list(self._try("daemon", self._daemon))
        if self.status:
            found += self._try("masters", lambda: doctor.minion(self.status, self.unit))
        found += self._try("clock", lambda: doctor.clocks(synchronised(), {}))
        found += self._try("modes", lambda: doctor.modes(self._secrets(), self.owner))
        found += self._try("disks", lambda: doctor.disks(self._room()))
        found += self._try("options", lambda: doctor.unsupported(self._unsupported()))
        return doctor.sorted_findings(found)


class Doctor(Looker):
    """Checks one master, with its cluster if it has one."""

    config: MasterConfig

    def __init__(self, config: MasterConfig, sources: list[str]) -> None:
        super().__init__(config, sources, master_role(config.pki_dir))

    def look(self, from_minion: str = "") -> list[Finding]:
        """
        Everything.

        @param from_minion: a minion that is asked to ring our ports, too.
        """
        found: list[Finding] = list(self._try("daemon", self._daemon))
        publish, ret = int(self.config.publish_port), int(self.config.ret_port)
        listeners = {port: listener(port, self.pid) for port in (publish, ret)}
        found += self._try(
            "ports",
            lambda: doctor.ports(self.pid, listeners, self._reach(from_minion), self.unit),
        )
        found += self._try("clock", lambda: doctor.clocks(synchronised(), self._skews()))
        found += self._try(
            "certificates",
            lambda: doctor.certificates(self._certificates(), time.time(), self.unit),
        )
        found += self._try("keys", lambda: doctor.keys(self._keys()))
        found += self._try("modes", lambda: doctor.modes(self._secrets(), self.owner))
        found += self._try("disks", lambda: doctor.disks(self._room()))
        accepted = int((self.status.get("keys") or {}).get("accepted") or 0)
        found += self._try(
            "limits", lambda: doctor.limits(open_files(self.pid), accepted, self.unit)
        )
        found += self._try("versions", lambda: doctor.versions(self._versions()))
        found += self._try("proxy", lambda: doctor.proxy(haproxy_timeouts(HAPROXY)))
        found += self._try("options", lambda: doctor.unsupported(self._unsupported()))
        if self._in_cluster() and self.status:
            found += self._try("cluster", self._cluster)
            found += self._try("roots", self._roots)
        return doctor.sorted_findings(found)

    def _reach(self, from_minion: str) -> dict[str, bool]:
        """Connections to our ports from here, and from a minion if one is named."""
        if not self.status:
            return {}
        host = "127.0.0.1" if self.config.interface in EVERYWHERE else self.config.interface
        reached: dict[str, bool] = {}
        for port in (int(self.config.publish_port), int(self.config.ret_port)):
            way = f"this machine to {host}:{port}"
            try:
                with socket.create_connection((host, port), timeout=5):
                    reached[way] = True
            except OSError:
                reached[way] = False
        if self._in_cluster():
            reached.update(self._from_peers())
        if from_minion:
            reached.update(self._from_minion(from_minion))
        return reached

    def _from_peers(self) -> dict[str, bool]:
        """What the other members say of our ports, and we of theirs."""
        try:
            rung = self.ask("members_ring")
        except RemoteError as error:
            self.unknown["ports from peers"] = error.message
            return {}
        for node, why in rung["unknown"].items():
            self.unknown[f"ports from {node}"] = str(why)
        return {str(way): bool(there) for way, there in rung["reached"].items()}

    def _from_minion(self, minion_id: str) -> dict[str, bool]:
        """What a minion says of each of our ports, by the name that it has for its master."""
        master = self._run(minion_id, "config.get", ["master"])
        names = master if isinstance(master, list) else [master]
        reached: dict[str, bool] = {}
        for name in names:
            for port in (int(self.config.publish_port), int(self.config.ret_port)):
                answer = self._run(minion_id, "network.connect", [str(name), port])
                there = isinstance(answer, Mapping) and bool(answer.get("result"))
                reached[f"{minion_id} to {name}:{port}"] = there
        return reached

    def _run(self, minion_id: str, fun: str, arg: list[Any]) -> Any:
        path = os.path.join(self.config.sock_dir, "saltwisted.sock")
        with ControlClient(path=path, timeout=30) as client:
            for item in client.stream("run", tgt=minion_id, tgt_type="list", fun=fun, arg=arg):
                if isinstance(item, Mapping) and item.get("kind") == "return":
                    return item.get("return", (item.get("data") or {}).get("return"))
        return None

    def _certificates(self) -> Iterator[tuple[str, str, float, float]]:
        """Those of the C{ssl} option; what nodes of a cluster show is renewed at each start."""
        given = self.config.ssl
        for option in ("certfile", "ca_certs"):
            path = given.get(option) if isinstance(given, Mapping) else None
            if isinstance(path, str):
                with open(path, "rb") as stream:
                    for one in validities(stream.read()):
                        yield path, one.name, one.since, one.until

    def _skews(self) -> dict[str, float]:
        if not self._in_cluster() or not self.status:
            return {}
        rows = self.ask("members").get("members", [])
        return {str(row["node"]): float(row["skew"]) for row in rows if "skew" in row}

    def _in_cluster(self) -> bool:
        return os.path.exists(os.path.join(self.config.pki_dir, "cluster", "node.json"))

    def _cluster(self) -> Iterator[Finding]:
        try:
            rows = self.ask("members").get("members", [])
            drift = self.ask("members_drift")["drift"]
        except RemoteError as error:
            self.unknown["cluster"] = error.message
            return iter(())
        return doctor.cluster(rows, drift or [])

    def _roots(self) -> Iterator[Finding]:
        try:
            return health.roots(self.ask("roots", do="status"))
        except RemoteError as error:
            self.unknown["roots"] = error.message
            return iter(())

    def _keys(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for state, folder in FOLDERS.items():
            path = os.path.join(self.config.pki_dir, folder)
            if not os.path.isdir(path):
                continue
            found[state] = {}
            for name in os.listdir(path):
                with open(os.path.join(path, name), "rb") as stream:
                    found[state][name] = fingerprint(stream.read(), self.config.hash_type)
        return found

    def _versions(self) -> dict[str, str]:
        """What minions' grains say, for those that are accepted."""
        folder = os.path.join(self.config.cachedir, "grains")
        accepted = set(self._keys().get("accepted", {}))
        found: dict[str, str] = {}
        for minion_id in sorted(accepted)[:MOST_MINIONS_READ]:
            with suppress(OSError, SaltwistedError):
                with open(os.path.join(folder, f"{minion_id}.p"), "rb") as stream:
                    grains = unpack_bin(stream.read())
                # ours tells the version of Salt that it is compatible with
                if isinstance(grains, Mapping) and "saltwistedversion" not in grains:
                    found[minion_id] = str(grains.get("saltversion") or "")
        return found


def _has_secret(path: str) -> bool:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        return re.search(r"^\s*[\w.]*(pass|secret|token)\w*:\s*\S", stream.read(), re.M) is not None
    return False


def synchronised() -> bool | None:
    """Whether the kernel's clock is kept by a time service (adjtimex(2)); C{None}: unknown."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(512)
        state = libc.adjtimex(buffer)
        return None if state < 0 else state != 5  # TIME_ERROR
    return None


def open_files(pid: int) -> int:
    """How many files a process may have open; 0 when that is not known."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/limits", encoding="ascii") as stream:
        for line in stream:
            if line.startswith("Max open files"):
                word = line.split()[3]
                return 0 if word == "unlimited" else int(word)
    return 0


_TIMEOUT = re.compile(r"^\s*timeout\s+(client|server|tunnel)\s+(\d+)(us|ms|s|m|h|d)?", re.M)
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def haproxy_timeouts(path: str) -> dict[str, float]:
    """The idle timeouts in a configuration of HAProxy, in seconds, the shortest of each kind."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError:
        return {}
    if "4505" not in text and "4506" not in text:
        return {}
    found: dict[str, float] = {}
    for kind, number, scale in _TIMEOUT.findall(text):
        seconds = int(number) * _UNITS[scale or "ms"]
        found[f"timeout {kind}"] = min(seconds, found.get(f"timeout {kind}", seconds))
    return found


def mend(finding: Finding) -> str:
    """
    Do what is safe to do; what was done.

    @raises OSError: it could not be done.
    """
    word, *arguments = finding.fix
    if word == "chmod":
        path, mode = arguments
        os.chmod(path, mode)
        return f"chmod {mode:04o} {path}"
    return ""
