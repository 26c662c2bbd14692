"""
The takeover of a stock salt-master: the work on disk and with services.

L{saltwisted.domain.takeover} decides what happens to options and keys. The stock installation is
only read, except when keys are given back. Everything written is in the target directory, and in
its record C{takeover.json}, which L{undo} needs.
"""

from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

from attrs import asdict, evolve, field, frozen

from saltwisted import advice
from saltwisted.config.api import closed_api
from saltwisted.config.document import parse
from saltwisted.config.load import OWN_DIR
from saltwisted.config.options import MasterConfig
from saltwisted.config.secrets import shown_value
from saltwisted.domain.acl import minion_rules
from saltwisted.domain.events import OF_THE_MASTER, closed_to_minions
from saltwisted.domain.minionevents import adding
from saltwisted.domain.reactions.entries import Entry
from saltwisted.domain.reactions.entries import parse as parse_reactor
from saltwisted.domain.render.yaml import YAMLError, safe_load
from saltwisted.domain.takeover import Act, Finding, Return, Verdict, give_back, judge_all
from saltwisted.errors import ConfigError, RemoteError, StoreError, TransportClosed
from saltwisted.kinds import JOB_STORE
from saltwisted.tools import checking, daemons, jobhistory, pushedfiles, treeuses
from saltwisted.tools.jobhistory import Counts
from saltwisted.tools.places import Places
from saltwisted.tools.ports import listener
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from saltwisted.wire.rsa import PrivateKey
from saltwisted.worker.beneath import reading
from saltwisted.worker.control import ControlClient
from saltwisted.worker.freshfile import fresh
from saltwisted.worker.process.configio import Machine, load_from_disk
from saltwisted.worker.readable import unreadable

KEY_FOLDERS = ("minions", "minions_pre", "minions_rejected", "minions_denied", "minions_autosign")
RECORD = "takeover.json"
WRITTEN = "takeover.conf"
SECRETS = "takeover-secrets.conf"
"""
What only the daemon may read. Everybody else may read the rest: the commands of users that
C{publisher_acl} and C{external_auth} allow something do.
"""
USER = "saltwisted"
JOIN_TIME = 120.0
"""Seconds without progress after which a join has failed."""
BANKS = ("grains", "pillar", "mine")


@frozen(kw_only=True)
class Problem:
    """Something that an operator must know before the switch."""

    id: str
    text: str
    fatal: bool = False


@frozen(kw_only=True)
class Plan:
    """
    Everything that a takeover would do.

    @ivar keys: where stock's minion keys are, with their digests.
    @ivar service_user: the user that our master will run as.
    @ivar jobs: how many jobs stock's cache has.
    """

    source: MasterConfig
    sources: tuple[str, ...]
    places: Places
    findings: tuple[Finding, ...]
    options: Mapping[str, Any] = field(repr=False)
    keys: Mapping[tuple[str, str], str] = field(repr=False)
    fingerprint: str
    service_user: str
    jobs: int
    warnings: tuple[str, ...]
    problems: tuple[Problem, ...]

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        counts: dict[str, int] = {}
        for folder, _ in self.keys:
            counts[folder] = counts.get(folder, 0) + 1
        return {
            "from": self.source.config_dir,
            "to": self.places.config,
            "files": list(self.sources),
            "master_key": self.fingerprint,
            "user": self.service_user,
            "keys": counts,
            "jobs": self.jobs,
            "options": [
                {
                    "option": found.option,
                    "verdict": found.verdict.value,
                    "reason": found.reason,
                    "file": found.where,
                }
                for found in self.findings
            ],
            "warnings": list(self.warnings),
            "problems": [
                {"id": one.id, "text": one.text, "fatal": one.fatal} for one in self.problems
            ],
        }


# -- looking


def saltfile_directory(names: tuple[str, ...]) -> str:
    """
    The configuration directory that a Saltfile names for C{salt-master}; empty if none does.

    @raises ConfigError: a Saltfile that is not YAML.
    """
    for name in names:
        with suppress(OSError), open(os.path.expanduser(name), encoding="utf-8") as stream:
            section = parse(stream.read(), name).get("salt-master")
            if isinstance(section, Mapping) and section.get("config_dir"):
                return str(section["config_dir"])
    return ""


def plan(source: str, target: str, offered: frozenset[str] = frozenset()) -> Plan:
    """
    What taking over the master of C{source} means.

    @raises ConfigError: its configuration cannot be read, or has values that cannot work here.
    @raises StoreError: its key is not there or is not to be used.
    """
    if not os.path.isfile(os.path.join(source, "master")):
        raise ConfigError("no salt-master configuration was found", os.path.join(source, "master"))
    loaded = load_from_disk("master", source)
    config = loaded.master
    places = Places.of(os.path.abspath(target))
    given: dict[str, tuple[Any, str]] = {}
    for path in loaded.sources:
        with open(path, encoding="utf-8") as stream:
            for name in parse(stream.read(), path):
                given[str(name)] = (config.value(str(name)), path)
    known = {*MasterConfig.fields, *MasterConfig.dotted}
    findings, options = judge_all(given, known, offered)
    options.update(places.explicit)
    keys = read_keys(config.pki_dir)
    user = USER if os.geteuid() == 0 and _has_user(USER) else ""
    return Plan(
        source=config,
        sources=tuple(loaded.sources),
        places=places,
        findings=tuple(findings),
        options=options,
        keys=keys,
        fingerprint=master_fingerprint(config),
        service_user=user or Machine().user(),
        jobs=jobhistory.count(os.path.join(config.cachedir, "jobs")),
        warnings=tuple(loaded.warnings),
        problems=(
            *problems(config, places, findings, user),
            *(Problem(id="modules", text=text) for text in treeuses.missing(config.file_roots)),
        ),
    )


def foreseen(made: Plan, role: str) -> Plan:
    """
    The plan, with what our daemon would complain of when it starts with what is to be written.

    @raises StoreError: that could not be found out.
    """
    user = made.service_user if os.geteuid() == 0 else ""
    known = "\n".join(made.warnings)
    lost = {one.option for one in made.findings if one.verdict is Verdict.UNSUPPORTED}
    found = [
        Problem(id="check", text=str(one), fatal=one.severity == "error")
        for one in checking.faults(
            role, made.places.config, user=user, files=files(made), ports=False
        )
        # What stock's own files say was read, and told, already
        if one.text not in known and one.text.partition(" is set, and is not")[0] not in lost
    ]
    return evolve(made, problems=(*made.problems, *found))


def master_fingerprint(config: MasterConfig) -> str:
    """
    The fingerprint of the master's key.

    @raises StoreError: it is not there, or no key that minions could trust.
    """
    path = os.path.join(config.pki_dir, "master.pem")
    try:
        with open(path, "rb") as stream:
            key = PrivateKey.from_pem(stream.read(), config.key_pass or None)
    except OSError as error:
        raise StoreError(error.strerror or str(error), path) from None
    except Exception as error:  # cryptography has many ways to refuse a key
        raise StoreError(f"cannot be used: {error}", path) from None
    return key.public.fingerprint(config.hash_type)


def read_keys(pki_dir: str) -> dict[tuple[str, str], str]:
    """Every minion key below a C{pki_dir}, with its digest; links and hidden files are none."""
    found: dict[tuple[str, str], str] = {}
    for folder in KEY_FOLDERS:
        for name, data in _files(os.path.join(pki_dir, folder)):
            found[folder, name] = hashlib.sha256(data.strip()).hexdigest()
    return found


def _files(folder: str) -> Iterator[tuple[str, bytes]]:
    """
    Names and contents of the files in a directory, sorted; links and hidden files are none.

    The directory may be a service's user's own, who must not have root read and hand on what only
    root may: a link in its place counts only if root, or who runs this, put it there.
    """
    try:
        here = _open_folder(folder)
    except OSError:
        return
    try:
        for name in sorted(os.listdir(here)):
            if name.startswith("."):
                continue
            stream = reading(name, here)
            if stream is not None:
                with stream:
                    yield name, stream.read()
    finally:
        os.close(here)


def _open_folder(path: str) -> int:
    """@raises OSError: there is no such directory, or it is somebody else's link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_NOFOLLOW)
    except OSError:
        link = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(link).st_uid not in (0, os.geteuid()):
            raise NotADirectoryError(path)
        target = os.path.join(os.path.dirname(path), os.readlink("", dir_fd=link))
        return os.open(target, flags)
    finally:
        os.close(link)


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _taken_ports(config: MasterConfig) -> Iterator[Problem]:
    """Ports that somebody else has: not the stock master, nor its salt-api."""
    taken = {}
    for port in (int(config.publish_port), int(config.ret_port)):
        who = listener(port)
        if who and "salt-master" not in who.lower() and not daemons.stock_pid(config):
            taken[port] = who
    port = daemons.api_port(config)
    who = listener(port) if port else ""
    if who and daemons.API not in who.lower() and not daemons.api_pid(config):
        taken[port] = who
    for port, who in taken.items():
        yield Problem(id="port", text=f"port {port} is used by {who}", fatal=True)


def problems(
    config: MasterConfig, places: Places, findings: list[Finding], user: str
) -> Iterator[Problem]:
    """What stands in the way, or would be missed after the switch."""
    yield from _taken_ports(config)
    if text := closed_api(config.value, config.netapi_enable_clients):
        yield Problem(id="api-clients", text=text)
    if os.path.exists(os.path.join(places.pki, "master.pem")):
        with open(os.path.join(places.pki, "master.pem"), "rb") as stream:
            mine = stream.read()
        with open(os.path.join(config.pki_dir, "master.pem"), "rb") as stream:
            if mine != stream.read():
                yield Problem(
                    id="identity",
                    text=f"{places.pki}/master.pem is the key of another master; its minions "
                    "would lose their master. Move that directory away first",
                    fatal=True,
                )
    if config.cluster_id:
        yield Problem(
            id="cluster",
            text="this is a member of a cluster of stock masters, whose key is in "
            f"{config.cluster_pki_dir}: run saltwisted on its own configuration instead "
            "(--config DIR), where cluster_pki_dir works",
            fatal=True,
        )
    roots = [
        (option, path)
        for option in ("file_roots", "pillar_roots")
        for paths in getattr(config, option).values()
        for path in paths
    ]
    for option, path in roots:
        if os.path.isdir(path):
            unreadable = cannot_read(path, user)
            if unreadable:
                yield Problem(
                    id="rights",
                    text=f"{option}: user {user} cannot read {unreadable[0]}"
                    + (f" and {len(unreadable) - 1} more" if unreadable[1:] else "")
                    + f"; {advice.of('takeover.access', user=user, path=path)}",
                )
    for option in ("autosign_file", "autoreject_file", "autosign_grains_dir"):
        path = str(getattr(config, option) or "")
        if path and os.path.exists(path) and cannot_read(path, user):
            yield Problem(id="rights", text=f"{option}: user {user} cannot read {path}")
    if "pam" in (config.external_auth or {}) and user and not in_group(user, "shadow"):
        yield Problem(
            id="pam",
            text=f"external_auth: user {user} can check only its own password through PAM; "
            f"{advice.of('takeover.shadow', user=user)}",
        )
    yield from _unheard(config)
    lost = [found.option for found in findings if found.verdict is Verdict.UNSUPPORTED]
    if lost:
        yield Problem(id="unsupported", text=f"set, but not supported: {', '.join(lost)}")
    if config.master_job_cache not in JOB_STORE.here:
        yield Problem(
            id="job-cache",
            text="the job history stays where master_job_cache keeps it; ours starts empty",
        )


def _unheard(config: MasterConfig) -> Iterator[Problem]:
    """Entries of the reactor for whose tags below C{salt/} no minion can fire events any more."""
    opened = config.minion_events
    named = {tag for tags in opened.values() for tag in minion_rules(tags)}
    tags = dict.fromkeys(entry.tag for entry in _reactor_entries(config.reactor))
    closed = [tag for tag in tags if closed_to_minions(tag) and tag not in named]
    if masters := [tag for tag in closed if tag.startswith(OF_THE_MASTER)]:
        yield Problem(
            id="reactor",
            text=f"reactor: {', '.join(masters)}: comes from the master alone; minions cannot fire "
            "such tags any more",
        )
    if sites := [tag for tag in closed if not tag.startswith(OF_THE_MASTER)]:
        line = adding(opened, "*", sites)
        yield Problem(
            id="reactor",
            text=f"reactor: {', '.join(sites)}: minions cannot fire such tags any more"
            + (f"; if they must, this line allows it: {line}" if line else ""),
        )


def _reactor_entries(reactor: Any) -> list[Entry]:
    """Those of the option, or of the file that it names; none of a file that cannot be read."""
    if isinstance(reactor, str) and reactor:
        try:
            with open(reactor, encoding="utf-8") as stream:
                reactor = safe_load(stream.read())
        except (OSError, ValueError, YAMLError):
            return []
    return parse_reactor(reactor)[0]


def in_group(user: str, group: str) -> bool:
    """Whether a user is a member of a group; also where there is no such group."""
    try:
        return grp.getgrnam(group).gr_gid in os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except KeyError:
        return True


def cannot_read(path: str, user: str, most: int = 20) -> list[str]:
    """
    What C{user} cannot read at or below a path; nothing to ask when nobody changes the user.

    Tried by a child that has become this user, since only the kernel knows all the rules.
    """
    if not user:
        return []
    entry = pwd.getpwnam(user)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            os.initgroups(user, entry.pw_gid)
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)
            os.write(writer, json.dumps(unreadable(path, most)).encode()[:60000])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return [str(name) for name in json.loads(said or b"[]")]


# -- writing


class Writer:
    """Writes files and directories for the user that ours runs as, and remembers which."""

    def __init__(self, user: str) -> None:
        self.owner: tuple[int, int] | None = None
        if os.geteuid() == 0:
            entry = pwd.getpwnam(user)
            self.owner = (entry.pw_uid, entry.pw_gid)
        self.written: list[str] = []

    def folder(self, path: str, mode: int = 0o700) -> None:
        """Make a directory, and its parents as root; one that is there stays as it is."""
        if os.path.isdir(path):
            return
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        os.mkdir(path, mode)
        if self.owner is not None:
            os.chown(path, *self.owner)
        self.written.append(path)

    @contextmanager
    def adding(self, path: str) -> Iterator[IO[bytes]]:
        """Add to a file, made if there is none."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        with os.fdopen(fd, "ab") as stream:
            if self.owner is not None:
                os.fchown(fd, *self.owner)
            yield stream
            stream.flush()
            os.fsync(fd)
        self.written.append(path)

    def file(self, path: str, data: bytes, mode: int = 0o600, group_only: bool = False) -> None:
        """Write a file whole or not at all; C{group_only}: root's, readable for our group."""
        owner = self.owner
        if owner is not None and group_only:
            owner = (0, owner[1])
        # The directory may be the service's own already
        folder = _open_folder(os.path.dirname(path))
        try:
            with fresh(os.path.basename(path), mode, owner, folder=folder) as stream:
                stream.write(data)
        finally:
            os.close(folder)
        self.written.append(path)


def take(made: Plan) -> dict[str, Any]:
    """
    Write configuration and copies; stop and start nothing. The record of it.

    @raises StoreError: something cannot be written.
    """
    writer = Writer(made.service_user)
    places = made.places
    try:
        writer.folder(places.config, 0o755)
        writer.folder(os.path.join(places.config, "master.d"), 0o755)
        writer.folder(places.pki)
        writer.folder(places.cache)
        copy_pki(made.source.pki_dir, places.pki, made.source, writer)
        copy_cache(made.source.cachedir, places.cache, writer)
        if "minionfs" in made.source.fileserver_backend:
            pushedfiles.copy(made.source.cachedir, places.cache, writer)
        began = time.time()
        history = copy_history(made, writer)
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(places.config, "master.d", SECRETS))
        for path, text in files(made).items():
            mode = 0o640 if path.endswith(f"/{SECRETS}") else 0o644
            writer.file(path, text.encode(), mode, group_only=True)
        record = {
            "from": made.source.config_dir,
            "to": places.config,
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "user": made.service_user,
            "keys": [[*place, digest] for place, digest in sorted(made.keys.items())],
            "stock": {"pki_dir": made.source.pki_dir, "pidfile": made.source.pidfile},
            "switched": False,
            "was_enabled": False,
            "history": {"when": began, **asdict(history)},
            "written": [path for path in writer.written if not path.startswith(places.pki + "/")],
        }
        write_record(places, record)
    except OSError as error:
        raise StoreError(error.strerror or str(error), str(error.filename or "")) from error
    return record


def write_record(places: Places, record: Mapping[str, Any]) -> None:
    """Keep the record, root's own."""
    path = os.path.join(places.config, RECORD)
    with fresh(path) as stream:
        stream.write(json.dumps(record, indent=2).encode())


def read_record(target: str) -> dict[str, Any]:
    """
    The record of the takeover into C{target}.

    @raises StoreError: there was none, or it cannot be read.
    """
    path = os.path.join(target, RECORD)
    try:
        with open(path, encoding="utf-8") as stream:
            record: dict[str, Any] = json.load(stream)
    except FileNotFoundError:
        raise StoreError("there is no record of a takeover", path) from None
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot be read: {error}", path) from None
    return record


def files(made: Plan) -> dict[str, str]:
    """The configuration that is to be written: path to text."""
    folder = os.path.join(made.places.config, "master.d")
    secret = {name for name, value in made.options.items() if shown_value(name, value) != value}
    found = {os.path.join(folder, WRITTEN): configuration(made, secret)}
    if secret:
        kept = {name: made.options[name] for name in sorted(secret)}
        head = "# What of the options has secrets: see takeover.conf. Only the master reads it."
        found[os.path.join(folder, SECRETS)] = f"{head}\n{_dumped(kept)}"
    main = os.path.join(made.places.config, "master")
    if not os.path.exists(main):
        found[main] = "# see master.d\n"
    return found


def _dumped(options: Mapping[str, Any]) -> str:
    import yaml

    if not options:
        return ""
    return str(yaml.safe_dump(dict(options), default_flow_style=False, allow_unicode=True))


def configuration(made: Plan, secret: Collection[str]) -> str:
    """
    The text of C{master.d/takeover.conf}.

    @param secret: the options that are in a file of their own.
    """
    lines = [
        f"# Taken over from {made.source.config_dir} on {time.strftime('%Y-%m-%d')} by",
        "# saltwisted takeover. Change what you like; --undo removes this file.",
        "#",
    ]
    for found in made.findings:
        if found.verdict is not Verdict.TAKEN:
            lines.append(f"# {found.verdict.value}: {found.option}: {found.reason}")
    if secret:
        lines.append(f"# in {SECRETS}, because of their secrets: {', '.join(sorted(secret))}")
    return (
        "\n".join(lines)
        + "\n"
        + _dumped({name: value for name, value in made.options.items() if name not in secret})
    )


def copy_pki(source: str, target: str, config: MasterConfig, writer: Writer) -> None:
    """Copy the master's own keys and every minion's; what is there under a name is replaced."""
    names = ["master.pem", "master.pub"]
    sign = config.master_sign_key_name
    names += [f"{sign}.pem", f"{sign}.pub", config.extra.get("master_pubkey_signature") or ""]
    names += ["master_pubkey_signature"]
    for name in names:
        path = os.path.join(source, str(name))
        if name and os.path.isfile(path):
            with open(path, "rb") as stream:
                writer.file(os.path.join(target, str(name)), stream.read())
    for folder in KEY_FOLDERS:
        if os.path.isdir(os.path.join(source, folder)):
            writer.folder(os.path.join(target, folder))
        there = dict(_files(os.path.join(source, folder)))
        for name, data in there.items():
            writer.file(os.path.join(target, folder, name), data)
        for name, _ in _files(os.path.join(target, folder)):
            if name not in there:
                os.unlink(os.path.join(target, folder, name))


def copy_cache(source: str, target: str, writer: Writer) -> int:
    """
    Copy what the master knows of its minions, so that targets by grains work at once.

    Both layouts: 3008's banks, and C{minions/<id>/data.p} of those before. The number of
    files written.
    """
    count = 0

    def put(bank: str, name: str, value: bytes) -> None:
        nonlocal count
        writer.folder(os.path.join(target, bank))
        writer.file(os.path.join(target, bank, f"{name}.p"), value)
        count += 1

    for bank in BANKS:
        for name, data in _files(os.path.join(source, bank)):
            if name.endswith(".p"):
                put(bank, name[:-2], data)
    with suppress(OSError):
        for minion_id in sorted(os.listdir(os.path.join(source, "minions"))):
            folder = os.path.join(source, "minions", minion_id)
            known = _unpacked(os.path.join(folder, "data.p"))
            for bank in ("grains", "pillar"):
                if isinstance(known, Mapping) and known.get(bank):
                    put(bank, minion_id, pack_bin(known[bank]))
            mine = _unpacked(os.path.join(folder, "mine.p"))
            if isinstance(mine, Mapping) and mine:
                put("mine", minion_id, pack_bin(mine))
    return count


def copy_history(made: Plan, writer: Writer, since: float = 0.0) -> Counts:
    """
    Copy the history of jobs to where ours brings it in when it has started.

    @param since: what has changed since then is added to what was copied before, in seconds
        since 1970; 0: everything, from the beginning.
    """
    folder = os.path.join(made.places.cache, "saltwisted")
    path = os.path.join(folder, jobhistory.FILE)
    writer.folder(folder)
    if not since:
        with suppress(FileNotFoundError):
            os.unlink(path)
    with writer.adding(path) as stream:
        counts = jobhistory.write(os.path.join(made.source.cachedir, "jobs"), stream, since)
    if not os.path.getsize(path):
        os.unlink(path)
    return counts


def _unpacked(path: str) -> Any:
    """The value in a cache file, or C{None}: what cannot be read is made again by minions."""
    try:
        with open(path, "rb") as stream:
            return unpack_bin(stream.read())
    except Exception:  # a cache is worth no failure
        return None


def switch(
    made: Plan,
    record: dict[str, Any],
    service: str,
    role: str,
    token: str = "",
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """
    Stop stock, copy what it accepted since, start ours; stock is started again if ours fails.

    @param token: of the cluster to enter, with all keys that this master has.
    @param say: hears what is done next.
    @return: what the cluster said of itself; nothing without a token.
    @raises StoreError: it did not work, and everything is as before.
    """
    joined: dict[str, Any] = {}
    say(f"Stopping {service} ...")
    daemons.stop_stock(made.source, record, service)
    try:
        say("Copying the keys that it accepted since ...")
        copy_pki(made.source.pki_dir, made.places.pki, made.source, Writer(made.service_user))
        copied = float((record.get("history") or {}).get("when") or 0.0)
        copy_history(made, Writer(made.service_user), copied - jobhistory.SLACK if copied else 0.0)
        keys = read_keys(made.source.pki_dir)
        record["keys"] = [[*place, digest] for place, digest in sorted(keys.items())]
        record["switched"] = True
        write_record(made.places, record)
        say("Starting saltwisted ...")
        daemons.start_ours(made.places, role)
        if token:
            say("Joining the cluster ...")
            joined = enter(made.places, token, say)
    except (StoreError, OSError) as error:
        with suppress(StoreError):
            daemons.stop_ours(made.places)
        record["switched"] = False
        write_record(made.places, record)
        again = daemons.start_stock(record, service)
        words = (
            "the stock master is running again"
            if again
            else ("please start the stock master again")
        )
        raise StoreError(f"{error}; {words}", made.places.config) from None
    return joined


def enter(
    places: Places, token: str, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """
    Become a member of the cluster that the token is of, and wait until we serve as one.

    Asked is first what that would mean: another identity would cut off every minion of this
    master, so that is refused.

    @return: C{cluster}, C{members}, C{minions} as the cluster told them before.
    @raises StoreError: the token is refused, the identities differ, or it took too long.
    """
    path = os.path.join(places.sock, "saltwisted.sock")
    client = ControlClient(path=path, timeout=60)
    try:
        found: dict[str, Any] = client.call("cluster_join", token=token, dry_run=True)
        if found.get("identity_changes"):
            raise StoreError(
                f"the cluster {found.get('cluster')} has another master key: "
                f"{found.get('cut_off')} accepted minions of this master would be cut off",
                places.config,
            )
        client.call("cluster_join", token=token, dry_run=False, discard=False)
    except (TransportClosed, TimeoutError) as error:
        raise StoreError(str(error), places.config) from None
    except RemoteError as error:
        raise StoreError(error.message, places.config) from None
    finally:
        client.close()

    end, why = time.monotonic() + JOIN_TIME, ""
    seen: tuple[Any, Any] = ("", None)

    def ready() -> bool:
        nonlocal end, seen, why
        try:
            with ControlClient(path=path, timeout=10) as again:
                state = again.call("members")
        except (TransportClosed, TimeoutError, RemoteError):
            return False
        # The first sync of large roots takes its time: as long as it gets on, it may
        if (state.get("problem"), state.get("progress")) != seen:
            seen = (state.get("problem"), state.get("progress"))
            end = time.monotonic() + JOIN_TIME
        if state.get("problem") and state["problem"] != why:
            say(f"It does not serve yet: {state['problem']} ...")
        why = str(state.get("problem") or "")
        return bool(state["ready"]) and state["cluster"] == found["cluster"]

    while not ready():
        if time.monotonic() > end:
            text = f"has joined, but made no progress for two minutes and does not serve: {why}"
            raise StoreError(text, places.config)
        time.sleep(0.1)
    return found


def returned(record: Mapping[str, Any], places: Places) -> Return:
    """What giving back would change in stock's key directories."""
    before = {(folder, name): digest for folder, name, digest in record["keys"]}
    return give_back(before, read_keys(places.pki), read_keys(record["stock"]["pki_dir"]))


def undo(record: dict[str, Any], places: Places, service: str) -> tuple[Return, bool]:
    """
    Stop ours, give the keys back, take away what was written, start stock.

    Files of stock's get the owner and mode that the others in their directory have.

    @return: what was given back, and whether stock was started.
    @raises StoreError: ours does not stop, or a key cannot be written; nothing is removed then.
    """
    daemons.stop_ours(places)
    back = returned(record, places)
    stock = record["stock"]["pki_dir"]
    ours = {folder: dict(_files(os.path.join(places.pki, folder))) for folder in KEY_FOLDERS}
    try:
        for change in back.changes:
            path = os.path.join(stock, change.folder, change.minion_id)
            if change.act is Act.REMOVE:
                with suppress(FileNotFoundError):
                    os.unlink(path)
                continue
            folder = os.path.dirname(path)
            owner = os.stat(stock)
            if not os.path.isdir(folder):
                os.mkdir(folder, 0o700)
                os.chown(folder, owner.st_uid, owner.st_gid)
            data = ours[change.folder].get(change.minion_id)
            if data is None:
                raise StoreError("is gone", os.path.join(change.folder, change.minion_id))
            # The directory may be a service's: it must not lead root astray
            with fresh(path, 0o644, (owner.st_uid, owner.st_gid)) as stream:
                stream.write(data)
        # One identity, one place: the copies of the private keys go
        shutil.rmtree(places.pki)
        os.unlink(os.path.join(places.config, "master.d", WRITTEN))
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(places.config, "master.d", SECRETS))
        os.unlink(os.path.join(places.config, RECORD))
        if places.config == OWN_DIR:
            Writer(record["user"]).folder(places.pki)
    except OSError as error:
        raise StoreError(error.strerror or str(error), str(error.filename or stock)) from error
    return back, daemons.start_stock(record, service)
