"""
What is wrong with an installation: rules from facts to findings.

Each rule is a function of plain facts, which L{saltwisted.tools.doctor} gathers. A finding has an
id that does not change between versions, a severity, the evidence, and the command that fixes it,
so that nobody has to look anything up.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from attrs import evolve, field, frozen

from saltwisted import advice
from saltwisted.advice import Said
from saltwisted.words import counted

MOST_EVIDENCE = 10
SHORTEST_IDLE = 40.0
"""Seconds that a proxy must leave a link alone: heartbeats come every 10 to 30."""
LOW_DISK = 0.05
LOW_BYTES = 512 * 1024 * 1024
DESCRIPTORS_PER_MINION = 2
SPARE_DESCRIPTORS = 512
MOST_SKEW = 30.0
DAY = 86400.0
SOON = 30 * DAY
"""A certificate that ends within this time is worth a warning."""

MENDED: Mapping[int, tuple[tuple[int, ...], str]] = {
    3006: ((3006, 17), "CVE-2025-62348, CVE-2025-62349"),
    3007: ((3007, 9), "CVE-2025-62348, CVE-2025-62349"),
}
"""By line of Salt: the first version without the known holes, and what they are called."""
OLDEST_LINE = 3006
ON_DISK = ("disk", "jobs", "cache", "facts")
"""What of the daemon's problems is that a disk refuses."""


class Severity(Enum):
    """How much it matters."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@frozen(kw_only=True)
class Finding:
    """
    One problem.

    @ivar evidence: what was seen.
    @ivar advice: what to do about it, if somebody knows.
    @ivar node: the node that it is about, if another than the one that looked.
    @ivar fix: for C{--fix}: C{(word, arguments...)}, if it is safe to do without asking.
    """

    id: str
    severity: Severity
    text: str
    evidence: Sequence[str] = ()
    advice: Said | None = None
    node: str = ""
    fix: tuple[Any, ...] = field(default=())

    @property
    def command(self) -> str:
        """The fix, as a text to a shell; C{""} if a person has to decide."""
        return self.advice.command if self.advice is not None else ""

    def of_node(self, node: str) -> Finding:
        """The same, by a node that is known by now."""
        return self if self.node else evolve(self, node=node)

    def as_json(self) -> dict[str, Any]:
        """For scripts and the API."""
        told = self.advice
        return {
            "id": self.id,
            "node": self.node,
            "severity": self.severity.value,
            "text": self.text,
            "evidence": list(self.evidence)[:MOST_EVIDENCE],
            "command": self.command,
            "on": told.on if told is not None else "",
            "by": told.by.value if told is not None and self.command else "",
            "advice": told.words if told is not None else "",
            "mendable": bool(self.fix),
        }


@frozen(kw_only=True)
class Account:
    """Whom a daemon runs as: names for commands, numbers for files."""

    user: str
    group: str
    uid: int
    gid: int
    groups: frozenset[int] = frozenset()

    def may(self, mode: int, uid: int, gid: int) -> bool:
        """Whether it can read such a file, or work in such a directory."""
        if self.uid == 0:
            return True
        need = 0o7 if stat.S_ISDIR(mode) else 0o4
        if uid == self.uid:
            return (mode >> 6) & need == need
        if gid == self.gid or gid in self.groups:
            return (mode >> 3) & need == need
        return mode & need == need


def log_of(unit: str) -> Said:
    """Where a daemon says more; C{unit} is empty for one that was started by hand."""
    return advice.of("log.unit", unit=unit) if unit else advice.of("log.hand")


def ports(
    ours: int,
    listeners: Mapping[int, str],
    reached: Mapping[str, bool],
    unit: str = "saltwisted-master",
    serves: bool = True,
) -> Iterator[Finding]:
    """
    Whether our ports are ours, and can be reached.

    @param ours: our process, 0 if it does not run.
    @param listeners: who listens on each of our ports; empty if nobody.
    @param reached: C{side to address:port}, and whether a connection came about.
    @param unit: the unit of systemd that the daemon belongs to, C{""} if it was started by hand;
        here and below.
    @param serves: whether it says that it serves. If not, closed ports are no finding: why it
        does not is.
    """
    for port, who in listeners.items():
        if not who and ours and serves:
            yield Finding(
                id="port.closed",
                severity=Severity.ERROR,
                text=f"nothing listens on port {port}, although the daemon runs",
                advice=log_of(unit),
            )
        elif who and f"(pid {ours})" not in who and who != "another user's process":
            yield Finding(
                id="port.taken",
                severity=Severity.ERROR,
                text=f"port {port} is used by {who}",
                evidence=[who],
                advice=advice.of("port.stock") if "salt-master" in who else None,
            )
    closed = [way for way, there in reached.items() if not there]
    if closed:
        yield Finding(
            id="port.unreachable",
            severity=Severity.ERROR,
            text="a port cannot be reached",
            evidence=closed,
            advice=advice.of("port.firewall"),
        )


def clocks(synchronised: bool | None, skews: Mapping[str, float]) -> Iterator[Finding]:
    """
    Whether clocks agree.

    @param synchronised: what the kernel says; C{None} if it cannot be asked.
    @param skews: seconds by which others are ahead.
    """
    if synchronised is False:
        yield Finding(
            id="clock.unsynchronised",
            severity=Severity.WARNING,
            text="the kernel says that no time service synchronises this clock",
            advice=advice.of("clock.unsynchronised"),
        )
    wrong = [f"{who}: {skew:+.0f} s" for who, skew in skews.items() if abs(skew) > MOST_SKEW]
    if wrong:
        yield Finding(
            id="clock.skew",
            severity=Severity.WARNING,
            text=f"clocks are more than {MOST_SKEW:.0f} s apart",
            evidence=wrong,
            advice=advice.of("clock.wrong"),
        )


def certificates(entries: Iterable[tuple[str, str, float, float]], now: float) -> Iterator[Finding]:
    """
    Certificates that are not valid, or will soon not be.

    @param entries: file, name, and from when until when, in seconds since 1970.
    """
    for path, name, since, until in entries:
        days = (until - now) / DAY
        if now < since:
            yield Finding(
                id="certificate.early",
                severity=Severity.ERROR,
                text=f"the certificate of {name} is not valid yet",
                evidence=[f"{path}: from {_day(since)}, and it is {_day(now)}"],
                advice=advice.of("clock.wrong"),
            )
        elif until - now < SOON:
            ended = until <= now
            yield Finding(
                id="certificate.ended" if ended else "certificate.ends",
                severity=Severity.ERROR if ended else Severity.WARNING,
                text=f"the certificate of {name} "
                + (f"ended {_days(-days)} ago" if ended else f"ends in {_days(days)}"),
                evidence=[f"{path}: until {_day(until)}"],
                advice=advice.of("certificate.renew"),
            )


def _days(number: float) -> str:
    return counted(round(number), "day")


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


def keys(digests: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """
    Conflicts between minion keys.

    @param digests: by state, minion id to fingerprint.
    """
    accepted = digests.get("accepted", {})
    by_key: dict[str, list[str]] = {}
    for name, digest in accepted.items():
        by_key.setdefault(digest, []).append(name)
    shared = [" = ".join(sorted(names)) for names in by_key.values() if len(names) > 1]
    if shared:
        yield Finding(
            id="key.shared",
            severity=Severity.WARNING,
            text=(
                "several accepted minions share a key: probably a machine was cloned together "
                "with its pki"
            ),
            evidence=sorted(shared),
            advice=advice.of("key.shared"),
        )
    for state in ("pending", "rejected"):
        both = sorted(set(accepted) & set(digests.get(state, {})))
        if both:
            yield Finding(
                id="key.two-states",
                severity=Severity.WARNING,
                text=f"keys are accepted and {state} at once",
                evidence=both,
                advice=advice.of("key.states"),
            )
    denied = {
        name
        for name, digest in digests.get("denied", {}).items()
        if accepted.get(name, digest) != digest
    }
    if denied:
        yield Finding(
            id="minion.duplicate-id",
            severity=Severity.WARNING,
            text="another machine uses the id of an accepted minion and is denied",
            evidence=sorted(denied),
            advice=advice.of("key.id"),
        )
    folded: dict[str, list[str]] = {}
    for name in accepted:
        folded.setdefault(name.lower(), []).append(name)
    alike = [", ".join(sorted(names)) for names in folded.values() if len(names) > 1]
    if alike:
        yield Finding(
            id="minion.alike",
            severity=Severity.NOTE,
            text="some ids differ only in case",
            evidence=sorted(alike),
        )


def modes(
    entries: Iterable[tuple[str, int, int, int, int]], account: Account | None
) -> Iterator[Finding]:
    """
    Files with secrets that others may read or write.

    @param entries: path, mode with the file's type, user, group, and the bits that it may not
        have.
    @param account: whom the daemon runs as, or will; C{None} if nobody can know.
    """
    for path, mode, uid, gid, forbidden in entries:
        if mode & forbidden:
            told, fix = _tighter(path, mode, uid, gid, forbidden, account)
            yield Finding(
                id="file.mode",
                severity=Severity.ERROR,
                text=f"other users may read or change {path} (mode {mode & 0o7777:04o})",
                advice=told,
                fix=fix,
            )
        if account is not None and uid not in (0, account.uid):
            yield Finding(
                id="file.owner",
                severity=Severity.ERROR,
                text=f"{path} belongs to user {uid}, who can change it",
                advice=advice.of("file.owner", user=account.user, path=path),
            )


def _tighter(
    path: str, mode: int, uid: int, gid: int, forbidden: int, account: Account | None
) -> tuple[Said, tuple[Any, ...]]:
    """
    How a file loses rights and the daemon keeps its own: what to say, and what C{--fix} does.

    A file that only "others" let the daemon read would be lost to it by the mode alone.
    """
    better = mode & ~forbidden
    if account is None:
        return advice.of("file.unknown"), ()
    if account.may(better, uid, gid) or not account.may(mode, uid, gid):
        better &= 0o7777
        said = advice.of("file.mode", mode=f"{better:04o}", path=path)
        return said, ("chmod", path, better)
    if stat.S_ISDIR(mode) or forbidden & 0o040:
        better = (better | (0o700 if stat.S_ISDIR(mode) else 0o400)) & 0o7777
        said = advice.of("file.user", user=account.user, mode=f"{better:04o}", path=path)
        return said, ("chown", path, account.uid, better)
    better = (better | 0o040) & 0o7777
    said = advice.of("file.group", group=account.group, mode=f"{better:04o}", path=path)
    return said, ("chgrp", path, account.gid, better)


def disks(free: Mapping[str, tuple[int, int, int, int]]) -> Iterator[Finding]:
    """
    Room on file systems.

    @param free: by path: free bytes, all bytes, free inodes, all inodes.
    """
    for path, (bytes_free, total, inodes_free, inodes) in free.items():
        scarce = bytes_free < LOW_BYTES or (total and bytes_free / total < LOW_DISK)
        if scarce:
            yield Finding(
                id="disk.space",
                severity=Severity.ERROR if bytes_free < LOW_BYTES // 8 else Severity.WARNING,
                text=f"only {bytes_free >> 20} MiB are free for {path}",
                advice=advice.of("disk.space", path=path),
            )
        if inodes and inodes_free / inodes < LOW_DISK:
            yield Finding(
                id="disk.inodes",
                severity=Severity.WARNING,
                text=f"only {inodes_free} inodes are left on the file system of {path}",
                advice=advice.of("disk.inodes", path=path),
            )


def limits(open_files: int, minions: int) -> Iterator[Finding]:
    """Whether as many connections are allowed as there are minions."""
    need = minions * DESCRIPTORS_PER_MINION + SPARE_DESCRIPTORS
    if 0 < open_files < need:
        yield Finding(
            id="limit.files",
            severity=Severity.ERROR,
            text=f"the daemon may open {open_files} files; "
            f"with {counted(minions, 'minion')} it may need {need}",
            advice=advice.of("limit.files"),
        )


def versions(minions: Mapping[str, str]) -> Iterator[Finding]:
    """
    Minions with known holes.

    @param minions: id to the version of Salt that its grains tell.
    """
    old: dict[str, list[str]] = {}
    for name, text in minions.items():
        number = version_of(text)
        if not number:
            continue
        first, why = MENDED.get(number[0], ((), ""))
        if number[0] < OLDEST_LINE:
            old.setdefault("versions before 3006 get no fixes", []).append(f"{name} {text}")
        elif first and number < first:
            old.setdefault(why, []).append(f"{name} {text}")
    for why, names in sorted(old.items()):
        yield Finding(
            id="minion.old",
            severity=Severity.WARNING,
            text=f"minions with known security holes ({why})",
            evidence=sorted(names),
            advice=advice.of("minion.old"),
        )


def version_of(text: str) -> tuple[int, ...]:
    """C{3006.9} as C{(3006, 9)}; nothing for what is not a version."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = part.split("+")[0].split("r")[0]
        if not digits.isdigit():
            break
        numbers.append(int(digits))
    return tuple(numbers)


def proxy(timeouts: Mapping[str, float]) -> Iterator[Finding]:
    """
    A proxy that cuts idle links.

    @param timeouts: what a configuration of HAProxy on this machine says, in seconds.
    """
    short = [
        f"{name}: {seconds:.0f} s" for name, seconds in timeouts.items() if seconds < SHORTEST_IDLE
    ]
    if short:
        yield Finding(
            id="proxy.idle",
            severity=Severity.WARNING,
            text="a proxy on this machine cuts connections that are idle for a short time",
            evidence=short,
            advice=advice.of("proxy.idle"),
        )


def claims(status: Mapping[str, Any]) -> Iterator[Finding]:
    """The findings in the claims of a master's status."""
    problem = str(status.get("problem") or "")
    if problem:
        yield Finding(
            id="claims.none",
            severity=Severity.WARNING,
            text="reactions and scheduled jobs do not run on this master",
            evidence=[problem],
        )


def unsupported(options: Mapping[str, str]) -> Iterator[Finding]:
    """Options that ask for something missing, each with its reason."""
    if options:
        yield Finding(
            id="option.unsupported",
            severity=Severity.WARNING,
            text="the configuration uses options that saltwisted does not support",
            evidence=[f"{name}: {reason}" for name, reason in sorted(options.items())],
        )


def minion(status: Mapping[str, Any], unit: str = "saltwisted-minion") -> Iterator[Finding]:
    """Whether a minion has its masters, by its own words."""
    rows = status.get("masters") or []
    if status.get("master_type") == "disable":
        yield Finding(
            id="minion.alone",
            severity=Severity.NOTE,
            text="the minion has no master: master_type is disable",
        )
        return
    away = [row for row in rows if row.get("state") not in ("up", "idle")]
    if away or not rows:
        has_one = any(row.get("state") == "up" for row in rows)
        yield Finding(
            id="minion.master",
            severity=Severity.WARNING if has_one else Severity.ERROR,
            text="the minion is not connected to "
            + ("some of its masters" if has_one else "any master"),
            evidence=[
                f"{row.get('master')}: {row.get('state')}"
                + (f": {row['reason']}" if row.get("reason") else "")
                for row in away
            ],
            advice=log_of(unit),
        )


def not_serving(status: Mapping[str, Any]) -> Iterator[Finding]:
    """A master that runs, and has not opened its ports; of a node its members say why."""
    if status.get("serving") is False:
        yield Finding(
            id="daemon.waiting",
            severity=Severity.WARNING,
            text="not serving: its ports are not open yet",
        )


def configuration(reason: str) -> Finding:
    """A configuration that the daemon refuses, in its own words."""
    return Finding(
        id="config.broken",
        severity=Severity.ERROR,
        text="the configuration cannot be used: the daemon does not start with it",
        evidence=[reason],
    )


def shut_in(problems: Mapping[str, str], unit: str = "saltwisted-master") -> Iterator[Finding]:
    """What the daemon itself says it cannot do (a disk that refuses, mostly)."""
    for name, problem in problems.items():
        if name not in ON_DISK:
            yield Finding(
                id="daemon.problem",
                severity=Severity.WARNING,
                text=f"{name}: {problem}",
                advice=log_of(unit),
            )
            continue
        yield Finding(
            id="store.problem",
            severity=Severity.ERROR,
            text=f"the store of {name} cannot write",
            evidence=[problem],
            advice=advice.of("disk.refuses"),
        )


def sorted_findings(found: Iterable[Finding]) -> list[Finding]:
    """The worst first."""
    order = list(Severity)
    return sorted(found, key=lambda one: (order.index(one.severity), one.id, one.text))
