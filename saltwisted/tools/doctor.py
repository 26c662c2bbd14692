"""
The facts in which L{saltwisted.domain.doctor} looks for problems.

Every fact is gathered separately: if one is unavailable, it is left out and reported, and does not
affect the others.
"""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from attrs import evolve

from saltwisted.config.options import MasterConfig, MinionConfig
from saltwisted.domain import doctor, standing
from saltwisted.domain.doctor import Account, Finding, Severity
from saltwisted.domain.roots import health
from saltwisted.domain.takeover import not_here
from saltwisted.errors import RemoteError, SaltwistedError, TransportClosed
from saltwisted.tools import units
from saltwisted.tools.ports import listener
from saltwisted.wire.expiry import validities
from saltwisted.wire.msgpack import unpack_bin
from saltwisted.wire.rsa import fingerprint
from saltwisted.worker.control import ControlClient
from saltwisted.worker.process.configio import load_from_disk

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
    @ivar unit: the unit of systemd that the daemon belongs to, or would; C{""} if none does.
    @ivar node: the id of this node or minion.
    @ivar unknown: what could not be checked, and why.
    @ivar status: what the daemon reports about itself; empty while none answers.
    """

    def __init__(self, config: MasterConfig | MinionConfig, sources: list[str], role: str) -> None:
        self.config = config
        self.sources = sources
        self.role = role
        self.node = str(config.id)
        directory = os.path.dirname(str(config.conf_file or ""))
        installed = units.is_installed(role) and directory in ("", units.PACKAGED)
        self.unit = units.unit(role) if installed else ""
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
                advice=units.start(self.role, {"conf_file": self.config.conf_file}),
            )
            return
        self.unit = units.unit_of(self.pid)
        self.node = str(self.status.get("id") or self.node)
        yield from standing.clock(float(self.status.get("clock_set_back") or 0))
        yield from doctor.shut_in(self.status.get("problems") or {}, self.unit)
        yield from doctor.claims(self.status.get("claims") or {})

    @property
    def pid(self) -> int:
        """The daemon's process; 0 while none answers."""
        return int(self.status.get("pid") or 0)

    def account(self) -> Account | None:
        """
        Whom the daemon runs as; if it does not run, whom it would: the user of the configuration,
        or of its unit. C{None} if neither is a user of this machine.
        """
        with suppress(OSError):
            if self.pid:
                info = os.stat(f"/proc/{self.pid}")
                return _account(str(info.st_uid)) or Account(
                    user=str(info.st_uid),
                    group=str(info.st_gid),
                    uid=info.st_uid,
                    gid=info.st_gid,
                )
        for user in (str(self.config.user or ""), units.user_of(self.role) if self.unit else ""):
            found = _account(user) if user else None
            if found is not None:
                return found
        return None

    def _secrets(self) -> Iterator[tuple[str, int, int, int, int]]:
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
                yield path, info.st_mode, info.st_uid, info.st_gid, forbidden

    def _told(self, found: list[Finding]) -> list[Finding]:
        """With this node's name, and commands as they can be run here; the worst first."""
        directory = os.path.dirname(str(self.config.conf_file or ""))
        role = "minion" if self.role == "minion" else "master"
        told = []
        for one in found:
            if one.advice is not None:
                one = evolve(one, advice=units.here(one.advice, directory, role))
            told.append(one.of_node(self.node))
        return doctor.sorted_findings(told)

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
        found += self._try("modes", lambda: doctor.modes(self._secrets(), self.account()))
        found += self._try("disks", lambda: doctor.disks(self._room()))
        found += self._try("options", lambda: doctor.unsupported(self._unsupported()))
        return self._told(found)


class Doctor(Looker):
    """Checks one master, with its cluster if it has one."""

    config: MasterConfig

    def __init__(self, config: MasterConfig, sources: list[str]) -> None:
        super().__init__(config, sources, units.master_role(config.pki_dir))

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
            lambda: doctor.ports(
                self.pid, listeners, self._reach(from_minion), self.unit, self._serves
            ),
        )
        found += self._try("clock", lambda: doctor.clocks(synchronised(), self._skews()))
        found += self._try(
            "certificates",
            lambda: doctor.certificates(self._certificates(), time.time()),
        )
        found += self._try("keys", lambda: doctor.keys(self._keys()))
        found += self._try("modes", lambda: doctor.modes(self._secrets(), self.account()))
        found += self._try("disks", lambda: doctor.disks(self._room()))
        accepted = int((self.status.get("keys") or {}).get("accepted") or 0)
        found += self._try("limits", lambda: doctor.limits(open_files(self.pid), accepted))
        found += self._try("versions", lambda: doctor.versions(self._versions()))
        found += self._try("proxy", lambda: doctor.proxy(haproxy_timeouts(HAPROXY)))
        found += self._try("options", lambda: doctor.unsupported(self._unsupported()))
        if not self._in_cluster():
            found += doctor.not_serving(self.status)
        elif self.status:
            found += self._try("cluster", self._cluster)
            if self._serves:
                found += self._try("drift", self._drift)
            if self._is_member:
                found += self._try("roots", self._roots)
        return self._told(found)

    @property
    def _serves(self) -> bool:
        """Whether it says that it serves."""
        return bool(self.status.get("serving", True))

    @property
    def _is_member(self) -> bool:
        """Whether it is a member, as far as it tells: one that is none says little."""
        return "keys" in self.status

    def _reach(self, from_minion: str) -> dict[str, bool]:
        """Connections to our ports from here, and from a minion if one is named."""
        if not self.status or not self._serves:
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
        return units.is_node(self.config.pki_dir)

    def _cluster(self) -> Iterator[Finding]:
        try:
            return standing.findings(self.ask("members"))
        except RemoteError as error:
            self.unknown["cluster"] = error.message
            return iter(())

    def _drift(self) -> Iterator[Finding]:
        try:
            return standing.drift(self.ask("members_drift")["drift"] or [])
        except RemoteError as error:
            self.unknown["options of members"] = error.message
            return iter(())

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


def serve(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """
    Look at the master with a configuration; the entry of a pooled worker process.

    @param payload: C{config_dir}.
    @return: C{findings}, each as L{Finding.as_json} has it, and C{unknown}: what could not be
        checked, and why.
    @raises ConfigError: the configuration cannot be read any more.
    """
    loaded = load_from_disk("master", payload["config_dir"] or None, guess_id=False)
    one = Doctor(loaded.master, list(loaded.sources))
    return {"findings": [found.as_json() for found in one.look()], "unknown": one.unknown}


_SECRET = re.compile(r"^\s*([\w.]*(?:pass|secret|token)\w*):[ \t]*(\S.*?)\s*$", re.M)
_NO_SECRET = re.compile(r"(expire|_dir|_file|_type|_url|_limit|_timeout)", re.I)
_NO_VALUE = re.compile(
    r"(#.*|[-+.\d]+|true|false|yes|no|on|off|null|none|~|''|\"\"|sdb://.*)", re.I
)
"""Numbers and switches are no secrets: C{token_expire: 43200} is for everybody to see."""


def _has_secret(path: str) -> bool:
    """Whether a file of the configuration names a password or the like."""
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        return any(
            not _NO_SECRET.search(name) and not _NO_VALUE.fullmatch(value)
            for name, value in _SECRET.findall(stream.read())
        )
    return False


def _account(user: str) -> Account | None:
    """A user of this machine, by name or number."""
    found = units.numbers(user)
    if found is None:
        return None
    uid, gid, groups = found
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = str(gid)
    name = pwd.getpwuid(uid).pw_name
    return Account(user=name, group=group, uid=uid, gid=gid, groups=groups)


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
    word, path, *arguments = finding.fix
    if word == "chown":
        os.chown(path, arguments.pop(0), -1)
    elif word == "chgrp":
        os.chown(path, -1, arguments.pop(0))
    (mode,) = arguments
    os.chmod(path, mode)
    return finding.command
