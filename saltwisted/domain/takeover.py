"""
Taking over a stock salt-master: what happens to its options and its keys.

Every configured option gets one verdict with its reason, so that nothing is dropped silently.
Nothing is read or written here; L{saltwisted.tools.takeover} does that. Keys are compared as sets
of (directory, id, digest), so that giving them back is a question of three sets: the original ones,
ours, and stock's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from attrs import frozen

from saltwisted import advice
from saltwisted.domain.keys import valid_minion_id
from saltwisted.kinds import FILES, JOB_STORE, LOGINS, MINION_CACHE


class Verdict(Enum):
    """What happens to an option."""

    TAKEN = "taken"
    MAPPED = "mapped"
    IGNORED = "ignored"
    UNSUPPORTED = "unsupported"


@frozen
class Finding:
    """
    One option and its verdict.

    @ivar where: the file that set it.
    @ivar reason: why, in one sentence; mostly empty for options that are taken over.
    """

    option: str
    verdict: Verdict
    reason: str = ""
    where: str = ""


MAPPED: Mapping[str, str] = {
    "root_dir": "each path below it is written in full",
    "user": "the unit's User= decides; keys are copied for that user",
    "pki_dir": "keys are copied to a directory of our own; these stay untouched",
    "cachedir": "a cache of our own; what is known about minions is copied",
    "sock_dir": "a directory of our own",
    "extension_modules": f"follows the cache directory; {advice.of('modules.sync')}",
    "sqlite_queue_dir": "follows the cache directory",
    "token_dir": "follows the cache directory",
    "syndic_dir": "follows the cache directory",
    "log_file": "a log of our own, and the journal",
    "log_dir": "a log of our own, and the journal",
    "key_logfile": "a log of our own",
    "ssh_log_file": "a log of our own",
    "pidfile": "systemd knows our process",
    "default_include": "what is included is written into one file",
    "include": "what is included is written into one file",
    "client_acl": "is called publisher_acl now",
    "client_acl_blacklist": "is called publisher_acl_blacklist now",
    "environment": "is called saltenv now",
    "keep_jobs": "is keep_jobs_seconds now, in seconds",
    "log_fmt": "log_fmt_console and log_fmt_logfile",
}
"""Options that become something else, and what."""

_OLD_NAMES = {"client_acl": "publisher_acl", "client_acl_blacklist": "publisher_acl_blacklist"}

_ONE = "the master is one process, without a pool of workers"
_SSH = "saltwisted has no salt-ssh"
_API = "there is no rest_tornado; the same API is served by rest_cherrypy or rest_twisted"
IGNORED: Mapping[str, str] = {
    "worker_threads": _ONE,
    "worker_pools": _ONE,
    "worker_pools_enabled": _ONE,
    "worker_pool_default": _ONE,
    "sock_pool_size": _ONE,
    "ipc_mode": "the master needs no sockets between processes",
    "ipc_write_buffer": "the master needs no sockets between processes",
    "tcp_master_pub_port": "the master needs no sockets between processes",
    "tcp_master_pull_port": "the master needs no sockets between processes",
    "tcp_master_publish_pull": "the master needs no sockets between processes",
    "tcp_master_workers": "the master needs no sockets between processes",
    "con_cache": "presence is always known",
    "auth_mode": "no longer has a meaning in Salt either",
    "serial": "messages are msgpack, as in Salt",
    "zmq_monitor": "connections are always watched",
    "max_open_files": "the unit's LimitNOFILE= decides",
    "maintenance_interval": "cleaning is done when it is due",
    "unique_jid": "job ids always grow",
    "log_rotate_max_bytes": "logrotate is configured by the package",
    "log_rotate_backup_count": "logrotate is configured by the package",
    "search": "no longer has a meaning in Salt either",
    "dummy_pub": "is for Salt's own tests",
}
"""Options without a meaning here, and why."""

_IGNORED_PREFIXES: Mapping[str, str] = {
    "ssh_": _SSH,
    "thin_": _SSH,
    "min_extra": _SSH,
    "roster": _SSH,
    "hgfs_": "files are served from file_roots, from git and from what minions push alone",
    "svnfs_": "files are served from file_roots, from git and from what minions push alone",
    "s3fs_": "files are served from file_roots, from git and from what minions push alone",
    "syndic_": "saltwisted has no syndic",
    "thorium": "saltwisted has no thorium",
    "memcache_": "minion data is in memory anyway",
    "winrepo_": "winrepo runners are not supported; minions use their own cache",
}
_NICENESS = "_niceness"

UNREAD = frozenset(
    """
    archive_jobs auth_events_autosign_grains auth_events_pend_autosign_grains cache_sreqs
    cluster_auto_replace_voters cluster_demote_cooldown cluster_isolated_filesystem
    cluster_max_log_size cluster_max_voters cluster_min_voters cluster_mode
    cluster_voter_health_check_interval cluster_voter_timeout cython_enable detect_remote_minions
    discovery django_auth_path django_auth_settings eauth_acl_module eauth_tokens.cluster_id
    event_match_type event_return_blacklist event_return_queue event_return_whitelist
    fileserver_interval fileserver_verify_config gitfs_depth gitfs_global_lock gitfs_provider
    minionfs_update_interval gitfs_pubkey gpg_cache gpg_cache_backend gpg_cache_ttl
    job_cache_store_endtime key_cache log_fmt_jid log_fmt_minion_id
    master_roots master_stats master_stats_event_iter
    optimization_order pillar.cache_driver pillar_cache
    pillar_cache_backend pillar_cache_ttl publish_timeout reactor_refresh_interval
    regen_thin remote_minions_port
    request_server_aes_session roots_update_interval tracing verify_env
    """.split()  # noqa: SIM905 - read as a list of words
)
"""Options that Salt's files may set and nothing here looks at; none of them is missed."""


def exports_elsewhere(block: Any) -> bool:
    """Whether a block C{metrics} is for something else than Prometheus."""
    return (
        isinstance(block, Mapping)
        and bool(block.get("enabled", True))
        and block.get("exporter", "prometheus") != "prometheus"
    )


def _set(value: Any) -> bool:
    return value not in (None, False, "", [], {}, 0)


def _other_than(*usual: Any) -> Callable[[Any], bool]:
    return lambda value: value not in usual


STOCK_TOPS = frozenset(("cobbler", "mongo", "reclass", "saltclass", "varstack"))

UNSUPPORTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "syndic_master": (
        _other_than("masterofmasters", None, "", []),
        "syndics are not supported: this master cannot be below another",
    ),
    "order_masters": (_set, "syndics are not supported: minions below one do not answer"),
    "engines": (_set, "engines do not run"),
    "external_auth": (
        lambda value: bool(set(value or ()) - set(LOGINS.here)),
        "logins by other backends than file, ldap, pam, rest and sharedsecret are refused",
    ),
    "ext_job_cache": (_set, "minions are not told to return elsewhere"),
    "master_job_cache": (
        _other_than(*JOB_STORE.here),
        "jobs are kept in our own database, which the runner jobs reads",
    ),
    "event_return": (_set, "events are not written to returners"),
    "fileserver_backend": (
        lambda value: any(name not in FILES.here for name in value or ()),
        "files are served from file_roots, from git and from what minions push alone",
    ),
    "hgfs_remotes": (_set, "files are served from file_roots alone; check it out there"),
    "svnfs_remotes": (_set, "files are served from file_roots alone; check it out there"),
    "master_tops": (
        lambda value: bool(set(value or ()) & STOCK_TOPS),
        "of the master tops, ext_nodes and modules of your own (_tops) are here; stock's are not",
    ),
    "cache": (_other_than(*MINION_CACHE.here), "minion data is kept in files, as localfs does"),
    "keys.cache_driver": (_other_than("localfs_key"), "keys are files in pki_dir"),
    "rest_tornado": (_set, _API),
    "enable_ssh_minions": (_set, _SSH),
    "metrics": (
        exports_elsewhere,
        "metrics are there for Prometheus alone: 'exporter: prometheus' serves /metrics",
    ),
    "fips_mode": (_set, "algorithms are not restricted to those of FIPS"),
    "disable_aes_with_tls": (_set, "messages are always sealed"),
    "queue_dirs": (_set, "saltwisted has no queues"),
    "range_server": (
        _other_than("range:80", None, ""),
        "minions are not targeted by range (-R)",
    ),
    "require_minion_sign_messages": (
        _set,
        "signatures of minions are not required: each message is sealed by its minion's session",
    ),
    "drop_messages_signature_fail": (
        _set,
        "signatures of minions are not checked: each message is sealed by its minion's session",
    ),
    "pass_dir": (_set, "the renderer pass is not supported"),
    "pass_gnupghome": (_set, "the renderer pass is not supported"),
    "pass_variable_prefix": (_set, "the renderer pass is not supported"),
    "pass_strict_fetch": (_set, "the renderer pass is not supported"),
    "log_granular_levels": (_set, "all parts have one log level"),
    "thorium_roots": (_other_than({"base": ["/srv/thorium"]}), "saltwisted has no thorium"),
    "cluster_id": (
        _set,
        "saltwisted does not join a cluster of stock masters; take over one master, then join "
        "the others to it",
    ),
    "cluster_peers": (_set, "list them again when the others are taken over too"),
    "cluster_pki_dir": (_set, "nodes share no directory; keys are replicated"),
}
"""Options whose value asks for what is not here: when that is so, and what it means."""


SUPPORTED_PARTS: Mapping[str, Callable[[Any], Any]] = {
    "external_auth": lambda value: {
        name: rules for name, rules in dict(value).items() if name in LOGINS.here
    },
    "master_tops": lambda value: {
        name: given for name, given in dict(value).items() if name not in STOCK_TOPS
    },
    "fileserver_backend": lambda value: [name for name in value if name in FILES.here],
}
"""What stays of an option of which only a part is here."""

HERE = frozenset(("cluster_id", "cluster_peers", "cluster_pki_dir"))
"""What cannot be taken over, and can be set."""

MINION_UNSUPPORTED: Mapping[str, str] = {
    "beacons": "beacons do not run",
    "engines": "engines do not run",
    "metaproxy": "proxy minions are not supported",
    "proxy": "proxy minions are not supported",
}
"""The same for a minion; empty values ask for nothing."""


def not_here(
    role: str, value_of: Callable[[str], Any], defaults: Mapping[str, Any]
) -> dict[str, str]:
    """
    The options of a running daemon that ask for something missing, and what that means.

    @param value_of: the value of an option, C{None} if it has none.
    """
    found: dict[str, str] = {}
    names = UNSUPPORTED if role != "minion" else MINION_UNSUPPORTED
    for option in sorted(set(names) - HERE):
        value = value_of(option)
        if value is None or value == defaults.get(option):
            continue
        if role == "minion":
            if _set(value):
                found[option] = MINION_UNSUPPORTED[option]
            continue
        asks, reason = UNSUPPORTED[option]
        if asks(value):
            found[option] = reason
    return found


def judge(option: str, value: Any, known: Iterable[str], offered: frozenset[str]) -> Finding:
    """
    The fate of one option that is set.

    @param known: the names that this version reads.
    @param offered: names of L{UNSUPPORTED} which this version has learned meanwhile.
    """
    if option in MAPPED:
        return Finding(option, Verdict.MAPPED, MAPPED[option])
    if option in UNSUPPORTED and option not in offered:
        asks, reason = UNSUPPORTED[option]
        if asks(value):
            return Finding(option, Verdict.UNSUPPORTED, reason)
    if option in IGNORED:
        return Finding(option, Verdict.IGNORED, IGNORED[option])
    if option.endswith(_NICENESS):
        return Finding(option, Verdict.IGNORED, _ONE)
    if option in UNREAD:
        return Finding(option, Verdict.IGNORED, "saltwisted does not use it")
    for prefix, reason in _IGNORED_PREFIXES.items():
        if option.startswith(prefix):
            return Finding(option, Verdict.IGNORED, reason)
    if option not in known:
        return Finding(option, Verdict.TAKEN, "kept as data, for templates and modules")
    return Finding(option, Verdict.TAKEN)


def judge_all(
    given: Mapping[str, tuple[Any, str]],
    known: Iterable[str],
    offered: frozenset[str] = frozenset(),
) -> tuple[list[Finding], dict[str, Any]]:
    """
    The verdict on every option, and the options to write.

    @param given: options that files set: their settled value and the file.
    """
    names = frozenset(known)
    findings: list[Finding] = []
    write: dict[str, Any] = {}
    for option in sorted(given):
        value, where = given[option]
        found = judge(option, value, names, offered)
        reason = found.reason
        if found.verdict is Verdict.UNSUPPORTED and option in SUPPORTED_PARTS:
            kept = SUPPORTED_PARTS[option](value)
            if kept:
                write[option] = kept
                reason = f"{reason}; kept: {', '.join(kept)}"
        findings.append(Finding(option, found.verdict, reason, where))
        if found.verdict is Verdict.TAKEN:
            write[option] = value
        elif option in _OLD_NAMES:
            write.setdefault(_OLD_NAMES[option], value)
        elif option == "environment":
            write.setdefault("saltenv", value)
        elif option == "keep_jobs" and "keep_jobs_seconds" not in given:
            write["keep_jobs_seconds"] = int(value * 3600)
    return findings, write


# -- keys

Place = tuple[str, str]
"""Directory below C{pki_dir} and minion id."""
KeySet = Mapping[Place, str]
"""Where keys are, each with a digest of its content."""


class Act(Enum):
    """What happens to a file with a key."""

    WRITE = "write"
    REMOVE = "remove"


@frozen
class KeyChange:
    """One file to write or to remove."""

    act: Act
    folder: str
    minion_id: str


@frozen
class Return:
    """
    The changes that give keys back.

    @ivar kept: places where both sides changed and stock's version stays.
    """

    changes: tuple[KeyChange, ...]
    kept: tuple[Place, ...]


def give_back(before: KeySet, ours: KeySet, stock: KeySet) -> Return:
    """
    What stock's directories lack of the decisions that were made at ours since the takeover.

    If both have changed, a withdrawn acceptance counts on either side, and everything else stays as
    stock has it.
    """
    changes: list[KeyChange] = []
    kept: list[Place] = []
    for place in sorted({*before, *ours}):
        was, here, there = before.get(place), ours.get(place), stock.get(place)
        if here in (was, there):
            continue
        folder, minion_id = place
        if not valid_minion_id(minion_id):
            continue
        if there != was and not (here is None and folder == "minions"):
            kept.append(place)
        else:
            act = Act.REMOVE if here is None else Act.WRITE
            changes.append(KeyChange(act, folder, minion_id))
    return Return(tuple(changes), tuple(kept))
