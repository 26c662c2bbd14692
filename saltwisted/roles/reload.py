"""
Reading the configuration again while the daemon serves (C{ExecReload}, SIGHUP).

Options that are looked at when they are needed take effect at once. The others were built
into sockets, stores and connections at the start: they keep their values, and the log names
them, so that nobody believes a port to have moved. A configuration that cannot work changes
nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.config.load import Loaded
from saltwisted.errors import SaltwistedError
from saltwisted.roles.logs import SaltLog

MASTER_BUILT_IN = frozenset(
    """
    id user root_dir sock_dir pki_dir cachedir cache extension_modules interface ipv6 publish_port
    ret_port transport zmq_backlog pub_hwm zmq_filtering tcp_keepalive tcp_keepalive_idle
    tcp_keepalive_cnt tcp_keepalive_intvl keysize key_pass signing_key_pass master_sign_pubkey
    master_sign_key_name sign_pub_messages publish_signing_algorithm publish_session
    file_roots fileserver_backend file_ignore_regex file_ignore_glob
    fileserver_followsymlinks fileserver_ignoresymlinks fileserver_list_cache_time
    hash_type keep_jobs_seconds keep_jobs
    master_job_cache job_claims_max job_claims_size_max
    loop_interval minimum_auth_version request_server_ttl max_open_files cluster_id
    cluster_peers cluster_pki_dir cluster_secret cluster_pub_fingerprint cluster_pool_port
    claims claims_etcd claims_etcd_ca claims_etcd_cert claims_etcd_key claims_etcd_user
    claims_etcd_password claims_etcd_prefix
    rest_cherrypy rest_twisted metrics order_masters ssl engines conf_file
    config_dir
    """.split()  # noqa: SIM905
)
"""Options of a master that count from its start; all others are looked at when needed."""

MINION_BUILT_IN = frozenset(
    """
    id user root_dir sock_dir pki_dir cachedir master master_type master_port publish_port
    transport ipv6 random_master master_shuffle master_failback master_failback_interval
    master_alive_interval master_uri_format source_interface_name source_address
    source_ret_port source_publish_port tcp_keepalive tcp_keepalive_idle tcp_keepalive_cnt
    tcp_keepalive_intvl keysize master_finger verify_master_pubkey_sign master_sign_key_name
    minion_sign_messages signing_algorithm encryption_algorithm process_count_max
    return_retry_timer return_retry_timer_max minion_jid_queue_hwm mine_enabled mine_interval
    mine_return_job grains_refresh_every scheduler_before_connect unique_jid ssl schedule
    recon_default recon_max recon_randomize request_channel_timeout startup_states conf_file
    config_dir
    """.split()  # noqa: SIM905
)
"""Likewise of a minion. C{schedule} is in C{_schedule.conf} as well; its own reload is a job."""

Apply = Callable[[Iterable[str]], Any]


class Reload:
    """
    Reads the configuration again; never twice at once.

    @ivar waiting: names of options whose new values count from the next start.
    """

    log = Logger()

    def __init__(
        self,
        config: Any,
        read: Callable[[], Loaded],
        run: Callable[..., Deferred[Any]],
        built_in: frozenset[str],
        apply: Apply,
        logs: SaltLog,
        level: str | None,
    ) -> None:
        """
        @param config: the configuration that everybody holds; it takes the new values.
        @param read: reads the files; runs in a thread by C{run}.
        @param apply: called with the names that changed, after they have.
        @param level: the log level of the command line, which stays above the files'.
        """
        self._config = config
        self._read = read
        self._run = run
        self._built_in = built_in
        self._apply = apply
        self._logs = logs
        self._level = level
        self.waiting: list[str] = []

    async def __call__(self) -> str:
        """Read, and take what can be taken; what happened, in a few words."""
        try:
            loaded: Loaded = await self._run(self._read)
        except SaltwistedError as error:
            self.log.error(
                "the configuration was not reloaded, and nothing has changed: {error}",
                error=str(error),
            )
            return f"the configuration could not be read again: {error}"
        old, new = self._config, loaded.config
        changed = sorted(name for name in old.fields if old.value(name) != new.value(name))
        live = [name for name in changed if name not in self._built_in]
        self.waiting = [name for name in changed if name in self._built_in]
        old.adopt(new, live)
        self._logs.follow(old, self._level)
        for warning in loaded.warnings:
            self.log.warn("{warning}", warning=warning)
        if live:
            self._apply(live)
        self.log.info(
            "configuration read again; changed: {changed}",
            changed=", ".join(live) or "nothing",
            always=True,
        )
        if self.waiting:
            self.log.warn(
                "these options have changed and take effect at the next start: {waiting}",
                waiting=", ".join(self.waiting),
            )
            return f"serving; a restart is needed for {', '.join(self.waiting)}"
        return "serving"
