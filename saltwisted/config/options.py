"""
Every option of Salt's master and minion, with Salt's names, types and defaults.

The defaults are those of Salt 3008.2 on Linux (C{DEFAULT_MASTER_OPTS} and
C{DEFAULT_MINION_OPTS}); a test compares them with a Salt beside us. Options
whose names are not a Python names (C{keys.cache_driver}) are in C{extra}, like
the keys of a site's own. Numbers are seconds where an option is a time, unless
its line says otherwise. How files become values is in C{load.py}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from saltwisted.config.schema import HandedOn, Options, Secret, fresh

_REFSPECS = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
_SHORT = [1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000]
_TRACING = {
    "enabled": False,
    "exporter": "otlp-http",
    "endpoint": "",
    "service_name": "",
    "sampler": "parent_based",
    "sampler_arg": 1.0,
    "resource_attributes": {},
    "insecure": True,
    "headers": {},
}
_METRICS = {
    "enabled": False,
    "exporter": "otlp-http",
    "endpoint": "",
    "service_name": "",
    "resource_attributes": {},
    "insecure": True,
    "headers": {},
    "export_interval_seconds": 60,
    "prometheus": {"host": "127.0.0.1", "port": 9464},
    "histogram_boundaries": {
        "salt.job.duration": [*_SHORT, 30000, 60000],
        "salt.minion.exec.duration": _SHORT,
        "salt.master.requests.duration": _SHORT,
    },
}


LOGIN_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "auth.pam.service": ("login", "The file of `/etc/pam.d` that PAM uses for logins."),
    "auth.ldap.uri": ("", "Directory servers (`ldaps://one ldaps://two`), tried in this order."),
    "auth.ldap.server": ("localhost", "The server, if `auth.ldap.uri` is empty."),
    "auth.ldap.port": ("389", "The port of `auth.ldap.server`."),
    "auth.ldap.starttls": (False, "Whether a plain connection is encrypted before it is used."),
    "auth.ldap.tls": (False, "Whether to use `ldaps://` with `auth.ldap.server`."),
    "auth.ldap.no_verify": (False, "Whether to accept any certificate of a directory server."),
    "auth.ldap.ca_file": ("", "Authorities for directory servers; by default the system's."),
    "auth.ldap.binddn": (
        "",
        "The DN of a user (`{{ username }}`), or of the account that searches.",
    ),
    "auth.ldap.bindpw": ("", "The password of `auth.ldap.binddn`, if that account searches."),
    "auth.ldap.anonymous": (False, "Whether users are searched for without a bind."),
    "auth.ldap.basedn": ("", "The base of searches for users and groups."),
    "auth.ldap.scope": (2, "How deep to search for users: 0, 1 or 2 (the whole tree)."),
    "auth.ldap.filter": ("", "The filter that finds a user: `uid={{ username }}`."),
    "auth.ldap.accountattributename": ("memberUid", "The attribute of a group that names users."),
    "auth.ldap.groupou": ("Groups", "The `ou` with the groups; empty: all of `auth.ldap.basedn`."),
    "auth.ldap.groupclass": ("posixGroup", "The object class of groups."),
    "auth.ldap.groupattribute": ("memberOf", "The attribute of a user that names groups."),
    "auth.ldap.persontype": ("person", "The object class of users, in Active Directory."),
    "auth.ldap.activedirectory": (False, "Whether groups are searched for as in Active Directory."),
    "auth.ldap.freeipa": (False, "Whether groups are searched for as in FreeIPA."),
    "auth.ldap.group_basedn": ("", "The base of searches for groups, with FreeIPA."),
    "auth.ldap.group_filter": ("", "The filter that finds the groups of a user, with FreeIPA."),
    "auth.ldap.auth_by_group_membership_only": (
        False,
        "Accepted and without effect: a login always needs the password of the user.",
    ),
    "auth.ldap.minion_stripdomains": (
        [],
        "Domains that are taken off the names of computers, for `ldap(OU=...)` in rules.",
    ),
}
"""Options of login backends, C{auth.*}: default and meaning. They are in C{extra}."""


class CommonOptions(Options):
    """What master and minion have in common, with the same default."""

    role: ClassVar[str] = ""
    dotted: ClassVar[dict[str, Any]] = {}
    """Defaults of options whose names are not attributes."""
    when_set: ClassVar[frozenset[str]] = frozenset()
    """Options that Salt's C{__opts__} lacks until somebody sets them."""

    # -- This machine and its directories

    #: The directory that was read; set by the loader, never in a file.
    config_dir: str = "/etc/salt"
    #: Options without an attribute: a site's own data, dotted names, rare options.
    extra: Mapping[str, Any] = {}
    #: The name of this machine; empty means: from minion_id or the host's names.
    id: str = ""
    #: The user to run as; a minion needs root for most of what it does.
    user: str = "root"
    #: The prefix of every path below, so that an installation can live in one directory.
    root_dir: str = "/"
    #: Whether directories are made and their modes checked at start.
    verify_env: HandedOn[bool] = True
    #: Whether the group may read the keys.
    permissive_pki_access: bool = False

    # -- Network

    #: The address to listen on.
    interface: str = "0.0.0.0"  # noqa: S104 - Salt's default
    #: Connections that a client keeps to the master at once; not used here.
    sock_pool_size: HandedOn[int] = 1
    #: The largest event that the bus accepts, in bytes.
    max_event_size: HandedOn[int] = 1048576
    ipc_mode: HandedOn[str] = "ipc"
    ipc_write_buffer: HandedOn[int] = 0
    #: Whether to use IPv6; without a value, the address of the master decides.
    ipv6: bool | None = None
    #: Whether TCP keepalive probes idle connections.
    tcp_keepalive: bool = True
    #: Seconds of silence before the first probe.
    tcp_keepalive_idle: float = 300
    #: Probes without answer before a connection is given up; -1: the system's.
    tcp_keepalive_cnt: int = -1
    #: Seconds between two probes; -1: the system's.
    tcp_keepalive_intvl: int = -1
    #: How master and minions talk: zeromq or tcp.
    transport: str = "zeromq"
    #: Whether a publication goes only to the minions it names.
    zmq_filtering: bool = False
    #: Whether stock's minions watch their sockets, and react to a cut at once (3008.5: on by
    #: default). Ours always do.
    zmq_monitor: HandedOn[bool] = False
    #: Seconds to wait for the connection to a web server.
    http_connect_timeout: float = 20.0
    #: Seconds to wait for a web server's whole answer.
    http_request_timeout: float = 3600.0
    #: The largest answer accepted from a web server, in bytes.
    http_max_body: int = 107374182400
    #: Certificate and key for the tcp transport.
    ssl: dict[str, Any] | bool | None = None
    disable_aes_with_tls: HandedOn[bool] = False
    use_os_truststore: bool = False

    # -- Keys and trust

    #: The digest of keys' fingerprints and of files.
    hash_type: str = "sha256"
    #: Accept every key, for emergencies; this switches authentication off.
    open_mode: bool = False
    #: Bits of a new RSA key.
    keysize: int = 2048
    #: The name of the key that signs the master's public key.
    master_sign_key_name: str = "master_sign"
    #: Leave MD5 out of the fingerprints that `x509` shows. Nothing else is limited to FIPS.
    fips_mode: bool = False

    # -- Who may do what

    #: Local users, each with the functions it may run on minions.
    publisher_acl: dict[str, Any] = {}
    #: Users and modules that are never allowed.
    publisher_acl_blacklist: dict[str, Any] = {}

    # -- Running jobs

    #: Whether the process number is part of a job id.
    unique_jid: bool = False
    #: A returner to which minions send their returns themselves.
    ext_job_cache: HandedOn[str] = ""
    reactor_niceness: HandedOn[int | None] = None

    # -- Files

    #: Environments, each with its directories for salt:// files; the first directory wins.
    file_roots: dict[str, Any] = {"base": ["/srv/salt", "/srv/spm/salt"]}
    #: How top files of several environments are merged: merge, same, merge_all.
    top_file_merging_strategy: str = "merge"
    #: Seconds between two updates of the file list of roots.
    roots_update_interval: HandedOn[float] = 60
    #: Seconds between two fetches of gitfs.
    gitfs_update_interval: float = 60
    hgfs_update_interval: HandedOn[float] = 60
    minionfs_update_interval: HandedOn[float] = 60
    s3fs_update_interval: HandedOn[float] = 60
    svnfs_update_interval: HandedOn[float] = 60
    #: Git repositories that serve files.
    gitfs_remotes: list[Any] = []
    gitfs_mountpoint: str = ""
    #: The directory inside the repositories that is served.
    gitfs_root: str = ""
    #: The branch that is environment base.
    gitfs_base: str = "master"
    gitfs_fallback: str = ""
    gitfs_user: str = ""
    gitfs_password: Secret[str] = ""
    gitfs_insecure_auth: bool = False
    gitfs_privkey: str = ""
    gitfs_pubkey: HandedOn[str] = ""
    gitfs_passphrase: Secret[str] = ""
    gitfs_saltenv_whitelist: list[Any] = []
    gitfs_saltenv_blacklist: list[Any] = []
    gitfs_global_lock: HandedOn[bool] = True
    gitfs_ssl_verify: bool = True
    gitfs_saltenv: list[Any] = []
    gitfs_ref_types: list[Any] = ["branch", "tag", "sha"]
    gitfs_refspecs: list[Any] = _REFSPECS
    gitfs_disable_saltenv_mapping: bool = False
    gitfs_proxy: str = ""
    gitfs_depth: HandedOn[int] = 1
    #: Whether minions may push files to the master (cp.push).
    file_recv: bool = False
    #: The largest pushed file, in megabytes.
    file_recv_max_size: int = 100
    #: Regular expressions: paths that match one are not served.
    file_ignore_regex: list[Any] = []
    #: Globs: paths that match one are not served.
    file_ignore_glob: list[Any] = []
    #: Where files are served from, in this order.
    fileserver_backend: list[Any] = ["roots"]
    #: Whether links are followed when files are listed.
    fileserver_followsymlinks: bool = True
    #: Whether links are left out.
    fileserver_ignoresymlinks: bool = False

    # -- Pillar

    #: Environments, each with its directories for pillar files.
    pillar_roots: dict[str, Any] = {"base": ["/srv/pillar", "/srv/spm/pillar"]}
    #: External pillars that a minion may request on demand.
    on_demand_ext_pillar: list[Any] = ["libvirt", "virtkey"]
    #: Pillar keys whose values are decrypted, each with a renderer if wanted.
    decrypt_pillar: list[Any] = []
    #: The delimiter between the parts of a key in decrypt_pillar.
    decrypt_pillar_delimiter: str = ":"
    #: The renderer for keys of decrypt_pillar that name none.
    decrypt_pillar_default: str = "gpg"
    #: Renderers that may be named in decrypt_pillar.
    decrypt_pillar_renderers: list[Any] = ["gpg"]
    #: Whether a value that cannot be decrypted fails the rendering.
    gpg_decrypt_must_succeed: bool = True
    #: The environment for pillar; without a value all of them.
    pillarenv: str | None = None
    git_pillar_update_interval: float = 60
    #: The branch that is environment base of git pillar.
    git_pillar_base: str = "master"
    git_pillar_branch: str = "master"
    git_pillar_env: str = ""
    git_pillar_fallback: str = ""
    git_pillar_root: str = ""
    git_pillar_ssl_verify: bool = True
    git_pillar_global_lock: HandedOn[bool] = True
    git_pillar_user: str = ""
    git_pillar_password: Secret[str] = ""
    git_pillar_insecure_auth: bool = False
    git_pillar_privkey: str = ""
    git_pillar_pubkey: HandedOn[str] = ""
    git_pillar_passphrase: Secret[str] = ""
    git_pillar_refspecs: list[Any] = _REFSPECS
    git_pillar_includes: bool = True
    git_pillar_proxy: str = ""
    git_pillar_depth: HandedOn[int] = 1
    git_pillar_ref_types: HandedOn[list[Any]] = ["branch", "tag", "sha"]
    git_pillar_disable_saltenv_mapping: HandedOn[bool] = False
    #: Whether the master's options are in every pillar, under master.
    pillar_opts: bool = False
    #: How pillar files are merged: smart, aggregate, recurse, overwrite, none.
    pillar_source_merging_strategy: str = "smart"
    #: Whether pillar.items shows stars for values unless it is called with unmask=True.
    pillar_mask_output: bool = True
    #: Whether lists in pillar are merged instead of replaced.
    pillar_merge_lists: bool = False
    #: Whether included pillar files win over the including one.
    pillar_includes_override_sls: bool = False
    #: Whether compiled pillars are kept.
    pillar_cache: HandedOn[bool] = False
    #: Seconds for which a compiled pillar is kept.
    pillar_cache_ttl: HandedOn[float] = 3600
    pillar_cache_backend: HandedOn[str] = "disk"
    gpg_cache: HandedOn[bool] = False
    gpg_cache_ttl: HandedOn[float] = 86400
    gpg_cache_backend: HandedOn[str] = "disk"

    # -- States

    thoriumenv: HandedOn[str | None] = None
    thorium_top: HandedOn[str] = "top.sls"
    thorium_interval: HandedOn[float] = 0.5
    thorium_roots: HandedOn[dict[str, Any]] = {"base": ["/srv/thorium"]}
    #: The order in which environments are merged.
    env_order: list[Any] = []
    #: The environment for states and files; without a value all of them.
    saltenv: str | None = None
    #: Whether a state run may not choose another saltenv.
    lock_saltenv: bool = False
    #: The environment whose top file counts when the strategy is same.
    default_top: str = "base"
    #: The renderer of sls files that do not name one.
    renderer: str = "jinja|yaml"
    #: Only these renderers may be used.
    renderer_whitelist: list[Any] = []
    #: These renderers may not be used.
    renderer_blacklist: list[Any] = []
    #: Whether a state run stops at the first failed state.
    failhard: bool = False
    #: The name of the top file.
    state_top: str = "top.sls"
    #: The only environment to take a top file from.
    state_top_saltenv: str | None = None
    #: Whether external top data counts before the top file.
    master_tops_first: bool = False
    #: Whether state runs only show what they would do.
    test: bool = False
    #: Whether successful states are shown too.
    state_verbose: bool = True
    #: How states are shown: full, terse, mixed, changes, filter, with _id.
    state_output: str = "full"
    #: Whether only states with changes are shown.
    state_output_diff: bool = False
    #: Whether start time and duration are shown.
    state_output_profile: bool = True
    #: Whether states run in the order in which they are written.
    state_auto_order: bool = True
    #: Whether every state fires an event when it is done.
    state_events: bool = False
    #: Modules whose states are aggregated into one, or true for all.
    state_aggregate: bool | list[Any] | str = False
    state_max_parallel: int = 0

    # -- Modules and grains

    #: More directories with outputters.
    outputter_dirs: list[Any] = []
    #: More directories with utility modules.
    utils_dirs: list[Any] = []
    #: More directories with modules, each with _modules and the like below.
    module_dirs: list[Any] = []
    optimization_order: HandedOn[list[Any]] = [0, 1, 2]
    cython_enable: HandedOn[bool] = False
    #: By kind, the only modules that are synchronised.
    extmod_whitelist: dict[str, Any] = {}
    #: By kind, modules that are not synchronised.
    extmod_blacklist: dict[str, Any] = {}
    #: Whether modules that the master no longer has are removed.
    clean_dynamic_modules: bool = True

    # -- Mine, schedule, beacons, events

    range_server: HandedOn[str] = "range:80"
    reactor_refresh_interval: HandedOn[float] = 60
    reactor_worker_threads: HandedOn[int] = 10
    reactor_worker_hwm: HandedOn[int] = 10000
    engines: HandedOn[list[Any]] = []
    #: How event tags are matched against those that modules listen for (salt.utils.event).
    event_match_type: str = "startswith"
    #: Scheduled jobs: functions on a minion, runners on a master (see automation).
    schedule: dict[str, Any] = {}

    # -- Logs

    #: What is logged: quiet critical error warning info profile debug trace all.
    log_level: str = "warning"
    #: The same for the log file, if it differs.
    log_level_logfile: str | None = None
    #: The time format on the terminal.
    log_datefmt: str = "%H:%M:%S"
    #: The time format in the log file.
    log_datefmt_logfile: str = "%Y-%m-%d %H:%M:%S"
    #: The line format on the terminal.
    log_fmt_console: str = "[%(levelname)-8s] %(message)s"
    #: The line format in the log file.
    log_fmt_logfile: str = (
        "%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d]"
        "[%(levelname)-8s][%(process)d] %(message)s"
    )
    log_fmt_jid: HandedOn[str | None] = "[JID: %(jid)s]"
    log_fmt_minion_id: HandedOn[str | None] = "[%(minion_id)s]"
    #: Levels for single loggers, by name.
    log_granular_levels: HandedOn[dict[str, Any]] = {}
    #: Size at which the log file is rotated; 0 leaves that to logrotate.
    log_rotate_max_bytes: HandedOn[int] = 0
    #: Rotated log files to keep.
    log_rotate_backup_count: HandedOn[int] = 0

    # -- Rarely used

    winrepo_dir: HandedOn[str] = "/srv/salt/win/repo"
    winrepo_dir_ng: HandedOn[str] = "/srv/salt/win/repo-ng"
    winrepo_cachefile: HandedOn[str] = "winrepo.p"
    winrepo_remotes: HandedOn[list[Any]] = ["https://github.com/saltstack/salt-winrepo.git"]
    winrepo_remotes_ng: HandedOn[list[Any]] = ["https://github.com/saltstack/salt-winrepo-ng.git"]
    winrepo_branch: HandedOn[str] = "master"
    winrepo_fallback: HandedOn[str] = ""
    winrepo_ssl_verify: HandedOn[bool] = True
    winrepo_proxy: HandedOn[str] = ""
    winrepo_user: HandedOn[str] = ""
    winrepo_password: HandedOn[Secret[str]] = ""
    winrepo_insecure_auth: HandedOn[bool] = False
    winrepo_privkey: HandedOn[str] = ""
    winrepo_pubkey: HandedOn[str] = ""
    winrepo_passphrase: HandedOn[Secret[str]] = ""
    winrepo_refspecs: HandedOn[list[Any]] = _REFSPECS
    winrepo_depth: HandedOn[int] = 1
    cluster_mode: HandedOn[bool] = False
    cache_sreqs: HandedOn[bool] = True
    #: The cache for the data of minions: grains, pillar and mine.
    cache: str = "localfs"
    discovery: HandedOn[dict[str, Any] | bool] = False
    #: Switches of single behaviours. `x509_v2: false` takes the states of `x509` away.
    features: dict[str, Any] = {}
    tracing: HandedOn[dict[str, Any]] = _TRACING
    metrics: HandedOn[dict[str, Any]] = _METRICS

    def as_opts(self) -> dict[str, Any]:
        """
        The Salt-shaped whole, as modules and templates see it in C{__opts__}.

        Every call makes new maps and lists, so that nobody can spoil another's.
        """
        opts: dict[str, Any] = fresh(self.dotted)
        absent = self.when_set
        for name, value in self.__dict__.items():
            if name != "extra" and not (name in absent and value == self.defaults[name]):
                opts[name] = fresh(value)
        opts.update(fresh(self.extra))
        opts["__role"] = self.role
        return opts


class MasterConfig(CommonOptions):
    """The configuration of a master."""

    role: ClassVar[str] = "master"
    dotted: ClassVar[dict[str, Any]] = {
        "keys.cache_driver": "localfs_key",
        "pillar.cache_driver": None,
        "eauth_tokens.cache_driver": None,
        "eauth_tokens.cluster_id": None,
    }
    when_set: ClassVar[frozenset[str]] = frozenset(
        (
            "autosign_file", "autoreject_file", "autosign_grains_dir", "peer_run", "mine_get",
            "presence_events", "auth_events_autosign_grains", "append_domain", "log_dir", "include",
            "autosign_timeout", "minion_id_lowercase", "minion_id_remove_domain", "id_function",
            "rest_cherrypy", "rest_twisted", "rest_timeout", "minion_events", "wheel_dirs",
            "fileserver_list_cache_time",
        )
    )  # fmt: skip

    # -- This machine and its directories

    #: The directory of the local sockets.
    sock_dir: str = "/var/run/salt/master"
    #: The directory of the keys.
    pki_dir: str = "/etc/salt/pki/master"
    key_cache: HandedOn[str] = ""
    #: The directory of everything that can be recreated.
    cachedir: str = "/var/cache/salt/master"
    #: The directory of synchronised modules.
    extension_modules: str = "/var/cache/salt/master/extmods"
    #: Files the daemon may have open at once.
    max_open_files: HandedOn[int] = 100000
    #: The file that was read; set by the loader.
    conf_file: str = "/etc/salt/master"
    #: The file of the process number; with systemd there is none.
    pidfile: str = "/var/run/salt-master.pid"
    #: Files that are read as if they were part of this one.
    default_include: str = "master.d/*.conf"
    sqlite_queue_dir: HandedOn[str] = "/var/cache/salt/master/queues"
    #: A domain that completes the id.
    append_domain: str = ""
    #: More files to read, after default_include; relative to this one.
    include: str | list[Any] = []
    #: Whether a guessed id is written in small letters.
    minion_id_lowercase: bool = False
    #: A domain to cut off a guessed id, or true for any.
    minion_id_remove_domain: str | bool = False
    #: A function that gives the id.
    id_function: str | dict[str, Any] = {}
    #: The directory of tokens; follows cachedir.
    token_dir: HandedOn[str] = "/var/cache/salt/master/tokens"  # noqa: S105 - a directory
    #: The directory of syndics; follows cachedir.
    syndic_dir: HandedOn[str] = "/var/cache/salt/master/syndics"

    # -- Network

    #: The port on which minions listen for jobs.
    publish_port: int = 4505
    #: Connections that may wait to be accepted.
    zmq_backlog: int = 1000
    #: Publications that may wait for one slow minion before it loses some.
    pub_hwm: int = 1000
    #: The port for minions' requests and returns.
    ret_port: int = 4506
    tcp_master_pub_port: HandedOn[int] = 4512
    tcp_master_pull_port: HandedOn[int] = 4513
    tcp_master_publish_pull: HandedOn[int] = 4514
    tcp_master_workers: HandedOn[int] = 4515

    # -- Keys and trust

    #: No longer used.
    auth_mode: HandedOn[int] = 1
    #: Whether minions are pinged after a change of the publish key.
    ping_on_rotate: bool = False
    #: Whether cached data stays when a key is deleted.
    preserve_minion_cache: bool = False
    #: Accept every new key.
    auto_accept: bool = False
    #: Seconds after which the publish key is changed.
    publish_session: float = 86400
    #: The password of the master's private key.
    key_pass: Secret[str | None] = None
    #: The password of the signing key.
    signing_key_pass: Secret[str | None] = None
    #: Whether publications are signed.
    sign_pub_messages: bool = True
    #: The largest number of accepted keys; 0 is no limit.
    max_minions: int = 0
    #: Whether sign-in replies are signed with the signing key.
    master_sign_pubkey: bool = False
    #: The file with a signature of the public key that was made elsewhere.
    master_pubkey_signature: str | None = None
    #: Whether the master sends master_pubkey_signature and signs nothing itself.
    master_use_pubkey_signature: bool = False
    #: Whether the publish key changes when a key is deleted or rejected.
    rotate_aes_key: bool = True
    #: Whether a minion may revoke its own key.
    allow_minion_key_revoke: bool = True
    #: Whether unsigned returns are refused.
    require_minion_sign_messages: HandedOn[bool] = False
    #: Whether returns with a wrong signature are refused.
    drop_messages_signature_fail: HandedOn[bool] = False
    #: Whether sign-ins fire events.
    auth_events: bool = True
    auth_events_pend_autosign_grains: HandedOn[bool] = False
    #: How publications are signed.
    publish_signing_algorithm: str = "PKCS1v15-SHA1"
    cluster_encryption_algorithm: HandedOn[str] = "OAEP-SHA1"
    #: Not used.
    request_server_aes_session: HandedOn[float] = 0
    #: Seconds after which a request is too old; 0 accepts any age.
    request_server_ttl: float = 0
    #: The oldest protocol version a minion may use.
    minimum_auth_version: int = 3
    #: A file with ids, globs or regular expressions: keys of matching ids are accepted.
    autosign_file: str = ""
    #: A file with ids, globs or regular expressions: keys of matching ids are rejected.
    autoreject_file: str = ""
    #: A directory with files of grain values: keys of minions with such a value are accepted.
    autosign_grains_dir: str = ""
    #: Minutes for which an entry of minions_autosign is valid.
    autosign_timeout: float = 120
    #: Grains that sign-in events of pending keys carry.
    auth_events_autosign_grains: HandedOn[list[Any]] = []

    # -- Who may do what

    #: Which minions may run which functions on others.
    peer: dict[str, Any] = {}
    #: Whether only users that this machine knows get a key for publisher_acl.
    client_acl_verify: bool = True
    #: Whether publisher_acl also applies to users who use sudo.
    sudo_acl: bool = False
    #: Who may do what, by authentication backend (file, ldap, oidc, pam, rest, sharedsecret, auto).
    external_auth: dict[str, Any] = {}
    #: Seconds for which a token is valid.
    token_expire: float = 43200
    #: Whether users may ask for tokens that live longer.
    token_expire_user_override: bool | dict[str, Any] = False
    #: Whether the rules of "*" in external_auth also count for users with rules of their own.
    permissive_acl: bool = False
    #: Whether a token keeps the rights that its user had at the login.
    keep_acl_in_token: bool = False
    eauth_acl_module: HandedOn[str] = ""
    #: Where tokens are stored; there is one choice, and in a cluster they are on all nodes.
    eauth_tokens: str = "localfs"
    django_auth_path: HandedOn[str] = ""
    django_auth_settings: HandedOn[str] = ""
    #: Whether a chunk of the HTTP API may use raw_shell.
    netapi_allow_raw_shell: bool = False
    #: The clients that the HTTP API offers; none by default.
    netapi_enable_clients: list[Any] = []
    #: The HTTP API as Salt's rest_cherrypy; port is needed.
    rest_cherrypy: dict[str, Any] = {}
    #: The HTTP API, with the same names; an empty map is enough.
    rest_twisted: dict[str, Any] | None = None
    #: Seconds that the HTTP API waits for a runner or wheel function.
    rest_timeout: float = 300
    #: Which minions may run which runners.
    peer_run: dict[str, Any] = {}
    #: Which minions may fire which event tags of their own; empty: all minions, any tag. Tags below
    #: salt/ that stock's minions do not fire need a rule that begins with salt/.
    minion_events: dict[str, Any] = {}
    #: Which minions may read which functions of the mine.
    mine_get: dict[str, Any] = {}
    #: Bytes of mine data that are kept for one minion; more is refused.
    mine_size_max: int = 4194304
    #: Seconds after which a fetch of a git remote is given up.
    gitfs_timeout: float = 300
    #: Megabytes that a git remote may send in one fetch.
    gitfs_max_size: int = 8192
    #: Serve only what was signed: gpg or ssh.
    gitfs_verify: str = ""
    #: The file with the OpenPGP keys of those who may sign.
    gitfs_verify_keyring: str = ""
    #: The file with the SSH keys of those who may sign, as ssh-keygen reads it.
    gitfs_verify_allowed_signers: str = ""
    #: The secret with which a git server signs POST /hook/git of the API, which fetches remotes.
    gitfs_webhook_secret: Secret[str] = ""
    #: As gitfs_verify, for git_pillar.
    git_pillar_verify: str = ""
    #: As gitfs_verify_keyring, for git_pillar.
    git_pillar_verify_keyring: str = ""
    #: As gitfs_verify_allowed_signers, for git_pillar.
    git_pillar_verify_allowed_signers: str = ""

    # -- Running jobs

    #: Worker processes of stock's master; here, the limit of rendering workers.
    worker_threads: HandedOn[int] = 5
    worker_pools_enabled: HandedOn[bool] = True
    worker_pools: HandedOn[dict[str, Any]] = {}
    #: Seconds a command waits for minions.
    timeout: float = 5
    #: Seconds a command waits for its job to be published.
    publish_timeout: HandedOn[float] = 30
    #: Hours to keep jobs: the old name, used if keep_jobs_seconds is not set.
    keep_jobs: float = 24
    #: Seconds to keep jobs and returns.
    keep_jobs_seconds: float = 86400
    #: Returns without a published job that are kept for one minion; the oldest go.
    job_claims_max: int = 10000
    #: Bytes of such returns for one minion; the newest stays, however large.
    job_claims_size_max: int = 268435456
    archive_jobs: HandedOn[bool] = False
    #: Whether minions that did not answer are shown.
    show_timeout: bool = True
    #: Whether the job id is shown.
    show_jid: bool = False
    #: Whether jobs are remembered.
    job_cache: bool = True
    #: Where jobs are remembered.
    master_job_cache: str = "local_cache"
    job_cache_store_endtime: HandedOn[bool] = False
    req_server_niceness: HandedOn[int | None] = None
    pub_server_niceness: HandedOn[int | None] = None
    fileserver_update_niceness: HandedOn[int | None] = None
    mworker_niceness: HandedOn[int | None] = None
    mworker_queue_niceness: HandedOn[int | None] = None
    maintenance_niceness: HandedOn[int | None] = None
    event_return_niceness: HandedOn[int | None] = None
    event_publisher_niceness: HandedOn[int | None] = None
    #: Seconds to wait for minions that are asked whether they still run the job.
    gather_job_timeout: float = 10
    #: Whether a summary follows the returns.
    cli_summary: bool = False
    #: Seconds within which a job may still reach a minion that connects later.
    publish_window: float = 30
    #: What happens to an orchestration whose master has died or was restarted: a master continues
    #: it (`continue`), or it is marked as interrupted (`interrupt`). With `off` no record is
    #: kept, and orchestrations end with their master, as in Salt.
    orchestrate_takeover: str = "continue"
    #: Seconds a starting node waits for its peers (clusters).
    catchup_wait: float = 10
    #: Whether a node serves minions while it reaches no peer (clusters).
    serve_alone: bool = True
    #: Nodes that must have a return or an event before it is acknowledged (clusters).
    return_copies: int = 2
    #: Who decides what happens once: pair or both (how two members decide), or etcd (clusters).
    claims: str = "pair"
    #: The members of the etcd 3 that decides, http://host:2379 or https:// each (claims: etcd).
    claims_etcd: list[Any] = []
    #: The authorities that sign the certificate of etcd, PEM; by default the system's.
    claims_etcd_ca: str | None = None
    #: The certificate that this node shows to etcd, PEM; intermediates may follow.
    claims_etcd_cert: str | None = None
    #: The key of claims_etcd_cert, PEM.
    claims_etcd_key: str | None = None
    #: The user of etcd, if it has users.
    claims_etcd_user: str | None = None
    #: The password of claims_etcd_user.
    claims_etcd_password: Secret[str | None] = None
    #: The prefix of this cluster's keys in etcd; another for each cluster.
    claims_etcd_prefix: str = "saltwisted"
    #: Whether this node keeps pillar_roots in step with its peers, and compiles pillars (clusters).
    cluster_pillar: bool = True
    #: How roots are kept in step: quiet_ms, scan_s, conflict, links, guard_files, ... (clusters).
    cluster_roots: dict[str, Any] = {}

    # -- Files

    master_roots: HandedOn[dict[str, Any]] = {"base": ["/srv/salt-master"]}
    #: Where files come from: remote is the master, local is file_roots.
    file_client: str = "local"
    #: Whether this is a masterless call; set by commands.
    local: bool = True
    #: Mercurial repositories that serve files.
    hgfs_remotes: HandedOn[list[Any]] = []
    hgfs_mountpoint: HandedOn[str] = ""
    hgfs_root: HandedOn[str] = ""
    hgfs_base: HandedOn[str] = "default"
    hgfs_branch_method: HandedOn[str] = "branches"
    hgfs_saltenv_whitelist: HandedOn[list[Any]] = []
    hgfs_saltenv_blacklist: HandedOn[list[Any]] = []
    #: Subversion repositories that serve files.
    svnfs_remotes: HandedOn[list[Any]] = []
    svnfs_mountpoint: HandedOn[str] = ""
    svnfs_root: HandedOn[str] = ""
    svnfs_trunk: HandedOn[str] = "trunk"
    svnfs_branches: HandedOn[str] = "branches"
    svnfs_tags: HandedOn[str] = "tags"
    svnfs_saltenv_whitelist: HandedOn[list[Any]] = []
    svnfs_saltenv_blacklist: HandedOn[list[Any]] = []
    #: The environment of files pushed by minions.
    minionfs_env: str = "base"
    #: Where these files are in that environment: salt://a/b.
    minionfs_mountpoint: str = ""
    #: The minions whose files are served: globs or regular expressions.
    minionfs_whitelist: list[Any] = []
    #: The minions whose files are not served.
    minionfs_blacklist: list[Any] = []
    #: Bytes of one chunk of a file.
    file_buffer_size: int = 1048576
    #: Seconds for which a list of files is not looked at again; from 1 on it is one second.
    fileserver_list_cache_time: int = 20
    fileserver_verify_config: HandedOn[bool] = True
    salt_cp_chunk_size: int = 98304
    #: Seconds between two updates of the file server.
    fileserver_interval: HandedOn[float] = 3600

    # -- Pillar

    git_pillar_verify_config: HandedOn[bool] = True
    #: External sources of pillar, in order.
    ext_pillar: list[Any] = []
    pillar_version: int = 2
    #: Whether the details of a broken pillar are hidden from the minion.
    pillar_safe_render_error: bool = True
    #: Whether a minion whose pillar has errors gets the last one that had none, of this master.
    pillar_last_good: bool = False

    # -- States

    #: External top data.
    master_tops: dict[str, Any] = {}
    #: Settings of Jinja for templates.
    jinja_env: dict[str, Any] = {}
    #: Settings of Jinja for sls files.
    jinja_sls_env: dict[str, Any] = {}
    jinja_lstrip_blocks: bool = False
    jinja_trim_blocks: bool = False

    # -- Modules and grains

    #: More directories with runners.
    runner_dirs: list[Any] = []
    #: More directories with wheel functions.
    wheel_dirs: list[Any] = []
    #: Seconds that a site's own runner or wheel function may take; 0: no limit.
    site_function_timeout: float = 3600
    #: Whether there is a grain gpus.
    enable_gpu_grains: bool = False
    queue_dirs: HandedOn[list[Any]] = []
    pass_variable_prefix: HandedOn[str] = ""
    pass_strict_fetch: HandedOn[bool] = False
    pass_gnupghome: HandedOn[str] = ""
    pass_dir: HandedOn[str] = ""

    # -- Mine, schedule, beacons, events

    #: Serves /metrics, /livez and /readyz; an empty map is enough.
    metrics: dict[str, Any] = _METRICS
    #: Whether numbers about requests are fired as events.
    master_stats: HandedOn[bool] = False
    master_stats_event_iter: HandedOn[int] = 60
    #: Whether grains and pillar of minions are remembered, for targeting.
    minion_data_cache: bool = True
    #: Whether the mine is kept although minion_data_cache is off.
    enforce_mine_cache: bool = False
    #: Event tags with the sls files that react to them: a list, or the path of a file with one.
    reactor: str | list[Any] = []
    #: Not used: the files of reactions are read anew each time.
    reactor_refresh_interval: HandedOn[float] = 60
    #: Runners, wheel functions and callers that reactions run at the same time.
    reactor_worker_threads: int = 10
    #: Events, and calls of their reactions, that may wait; more are reported as lost.
    reactor_worker_hwm: int = 10000
    #: The niceness of the process that renders reactions.
    reactor_niceness: int | None = None
    #: The length of a chain of reactions, each caused by the one before.
    reactor_chain_limit: int = 8
    #: The largest event to which the reactor reacts, in bytes.
    max_event_size: int = 1048576
    #: Returners that store events.
    event_return: HandedOn[str | list[Any]] = ""
    #: Events to collect before they are stored.
    event_return_queue: HandedOn[int] = 0
    #: Only events with these tags are stored.
    event_return_whitelist: HandedOn[list[Any]] = []
    #: Events with these tags are not stored.
    event_return_blacklist: HandedOn[list[Any]] = []
    #: Seconds between two rounds of periodic work.
    loop_interval: float = 60
    #: Names for compound targets.
    nodegroups: dict[str, Any] = {}
    #: Not used: presence is always known.
    con_cache: HandedOn[bool] = False
    #: Whether changes of presence fire events.
    minion_data_cache_events: bool = True
    #: Whether other hosts' connections count for presence.
    detect_remote_minions: HandedOn[bool] = False
    #: The port of connections that count for presence.
    remote_minions_port: HandedOn[int] = 22
    #: Seconds between two rounds of cleaning.
    maintenance_interval: HandedOn[float] = 3600
    #: Whether the coming and going of minions fires events.
    presence_events: bool = False

    # -- Logs

    syndic_log_file: HandedOn[str] = "/var/log/salt/syndic"
    #: The log file, or the address of a log daemon.
    log_file: str = "/var/log/salt/master"
    #: The log file of salt-key.
    key_logfile: str = "/var/log/salt/key"
    ssh_log_file: HandedOn[str] = "/var/log/salt/ssh"
    #: The directory of the log file.
    log_dir: str = ""

    # -- Rarely used

    #: The master above this syndic.
    syndic_master: HandedOn[str | list[Any]] = "masterofmasters"
    syndic_failover: HandedOn[str] = "random"
    syndic_forward_all_events: HandedOn[bool] = False
    syndic_pidfile: HandedOn[str] = "/var/run/salt-syndic.pid"
    #: Whether syndics are below this master.
    order_masters: bool = False
    runner_returns: bool = True
    serial: HandedOn[str] = "msgpack"
    search: HandedOn[str] = ""
    ssh_list_nodegroups: HandedOn[dict[str, Any]] = {}
    ssh_use_home_key: HandedOn[bool] = False
    cluster_key_pass: Secret[str | None] = None
    syndic_wait: HandedOn[float] = 5
    syndic_event_forward_timeout: HandedOn[float] = 0.5
    syndic_jid_forward_cache_hwm: HandedOn[int] = 100
    regen_thin: HandedOn[bool] = False
    ssh_passwd: HandedOn[Secret[str]] = ""
    ssh_priv_passwd: HandedOn[Secret[str]] = ""
    ssh_port: HandedOn[str] = "22"
    ssh_sudo: HandedOn[bool] = False
    ssh_sudo_user: HandedOn[str] = ""
    ssh_timeout: HandedOn[float] = 60
    ssh_keepalive: HandedOn[bool] = True
    ssh_keepalive_interval: HandedOn[float] = 60
    ssh_keepalive_count_max: HandedOn[int] = 3
    #: The user of salt-ssh.
    ssh_user: HandedOn[str] = "root"
    ssh_scan_ports: HandedOn[str] = "22"
    ssh_scan_timeout: HandedOn[float] = 0.01
    ssh_identities_only: HandedOn[bool] = False
    ssh_config_file: HandedOn[str] = "/root/.ssh/config"
    dummy_pub: HandedOn[bool] = False
    memcache_expire_seconds: HandedOn[float] = 0
    memcache_max_items: HandedOn[int] = 1024
    memcache_full_cleanup: HandedOn[bool] = False
    memcache_debug: HandedOn[bool] = False
    thin_extra_mods: HandedOn[str] = ""
    min_extra_mods: HandedOn[str] = ""
    thin_exclude_saltexts: HandedOn[bool] = False
    thin_saltext_allowlist: HandedOn[list[Any] | None] = None
    thin_saltext_blocklist: HandedOn[list[Any]] = []
    enable_ssh_minions: HandedOn[bool] = False
    #: The name of a cluster of stock masters.
    cluster_id: str | None = None
    #: The other masters of the cluster (cluster_id).
    cluster_peers: list[Any] = []
    #: The directory of the keys that the masters of a cluster share.
    cluster_pki_dir: str | None = None
    cluster_pool_port: int = 4520
    cluster_pub_fingerprint: str | None = None
    cluster_secret: Secret[str | None] = None
    cluster_isolated_filesystem: HandedOn[bool] = False
    cluster_max_log_size: HandedOn[int | None] = None
    cluster_max_voters: HandedOn[int | None] = None
    cluster_voter_health_check_interval: HandedOn[float] = 1.0
    cluster_voter_timeout: HandedOn[float] = 10.0
    cluster_min_voters: HandedOn[int] = 3
    cluster_demote_cooldown: HandedOn[float] = 60.0
    cluster_auto_replace_voters: HandedOn[bool] = False

    def as_opts(self) -> dict[str, Any]:
        """As for both roles; a master's file clients never update the file server."""
        return {**super().as_opts(), "__fs_update": True}


class MinionConfig(CommonOptions):
    """The configuration of a minion."""

    role: ClassVar[str] = "minion"
    dotted: ClassVar[dict[str, Any]] = {
        "keys.cache_driver": "localfs_key",
        "pillar.cache_driver": None,
    }
    when_set: ClassVar[frozenset[str]] = frozenset(
        (
            "publish_port", "append_domain", "autosign_grains", "nodegroups", "mine_functions",
            "log_dir", "include", "key_logfile",
        )
    )  # fmt: skip

    # -- This machine and its directories

    #: The directory of the keys.
    pki_dir: str = "/etc/salt/pki/minion"
    #: A function that gives the id.
    id_function: str | dict[str, Any] = {}
    #: The directory of everything that can be recreated.
    cachedir: str = "/var/cache/salt/minion"
    #: Options whose directories get the id appended.
    append_minionid_config_dirs: list[Any] = []
    #: The file that was read; set by the loader.
    conf_file: str = "/etc/salt/minion"
    #: The directory of the local sockets.
    sock_dir: str = "/var/run/salt/minion"
    #: The directory of synchronised modules.
    extension_modules: str = "/var/cache/salt/minion/extmods"
    #: Files that are read as if they were part of this one.
    default_include: str = "minion.d/*.conf"
    #: The file of the process number; with systemd there is none.
    pidfile: str = "/var/run/salt-minion.pid"
    #: Whether a guessed id is remembered in minion_id.
    minion_id_caching: bool = True
    #: Whether a guessed id is written in small letters.
    minion_id_lowercase: bool = False
    #: A domain to cut off a guessed id, or true for any.
    minion_id_remove_domain: str | bool = False
    #: A domain that completes the id.
    append_domain: str = ""
    #: More files to read, after default_include; relative to this one.
    include: str | list[Any] = []

    # -- The master to talk to

    #: The master's name or address, or a list of them; host:port is fine.
    master: str | list[Any] = "salt"
    #: str for one master or all of a list, failover, distributed, disable, func.
    master_type: str = "str"
    #: ip_only if a master's address must not be split at its colon.
    master_uri_format: str = "default"
    #: The interface to connect from.
    source_interface_name: HandedOn[str] = ""
    #: The address to connect from.
    source_address: str = ""
    #: The port to send requests from.
    source_ret_port: HandedOn[int] = 0
    #: The port to listen for jobs from.
    source_publish_port: int = 0
    #: The master's port for requests.
    master_port: int = 4506
    #: The fingerprint that the master's key must have.
    master_finger: str = ""
    #: Not used any more: see random_master.
    master_shuffle: bool = False
    #: Seconds between two checks that the master is there; stock's of 3008.5 notice a cut without.
    master_alive_interval: float = 0
    #: Whether to go back to the first master when it returns.
    master_failback: bool = False
    #: Seconds between two tries to go back to the first master.
    master_failback_interval: float = 0
    #: Whether the master's key must be signed by a known key.
    verify_master_pubkey_sign: bool = False
    #: Whether the signature of the master's key is checked at every sign-in.
    always_verify_signature: bool = False
    syndic_finger: HandedOn[str] = ""
    #: Seconds between two look-ups of the master's name.
    retry_dns: float = 30
    #: How often the master's name is looked up; without a value, for ever.
    retry_dns_count: HandedOn[int | None] = None
    resolve_dns_fallback: HandedOn[bool] = True
    #: How often the whole list of masters is tried; -1 means for ever.
    master_tries: HandedOn[int] = 1
    #: Whether the list of masters is shuffled.
    random_master: bool = False

    # -- Network

    tcp_pub_port: HandedOn[int] = 4510
    tcp_pull_port: HandedOn[int] = 4511
    #: How often the tcp transport signs in.
    tcp_authentication_retries: HandedOn[int] = 5
    #: Seconds before the tcp transport reconnects.
    tcp_reconnect_backoff: float = 1
    #: The longest wait between two reconnects, in milliseconds.
    recon_max: float = 10000
    #: Milliseconds before the first reconnect.
    recon_default: float = 1000
    #: Whether the wait before a reconnect is random.
    recon_randomize: bool = True
    #: A web proxy.
    proxy_host: str = ""
    proxy_username: str = ""
    proxy_password: Secret[str] = ""
    #: The port of that web proxy.
    proxy_port: int = 0
    #: The port on which minions listen for jobs.
    publish_port: int = 4505

    # -- Keys and trust

    #: Whether publications are signed.
    sign_pub_messages: bool = False
    #: Accept every new key.
    auto_accept: bool = True
    #: Minutes for which an entry of minions_autosign is valid.
    autosign_timeout: float = 120
    #: Seconds between two sign-ins while the key is not accepted.
    acceptance_wait_time: float = 10
    #: The longest such wait; 0 means that it does not grow.
    acceptance_wait_time_max: float = 0
    #: Whether a rejected minion keeps trying; ours always does.
    rejected_retry: bool = False
    #: Seconds, at most, to wait before a new sign-in after a key change.
    random_reauth_delay: HandedOn[float] = 10
    #: Seconds to wait for the answer to a sign-in.
    auth_timeout: float = 5
    #: How often a sign-in is tried before the next master.
    auth_tries: int = 7
    auth_retries: HandedOn[int] = 0
    #: Not used: a minion never ends because of a failed sign-in.
    auth_safemode: HandedOn[bool] = False
    #: Whether returns are signed.
    minion_sign_messages: bool = False
    #: How secrets are wrapped at sign-in.
    encryption_algorithm: str = "OAEP-SHA1"
    #: How this minion signs.
    signing_algorithm: str = "PKCS1v15-SHA1"
    #: Grains to show the master at sign-in, for automatic acceptance.
    autosign_grains: list[Any] = []

    # -- Who may do what

    #: Who signs commands to the master.
    username: HandedOn[str | None] = None
    #: The password of username.
    password: HandedOn[Secret[str | None]] = None
    #: The user that jobs become by sudo.
    sudo_user: str = ""

    # -- Running jobs

    #: Whether the minion also keeps its returns (see orchestration).
    cache_jobs: bool = False
    #: Seconds to wait for the master's answer.
    request_channel_timeout: float = 60
    #: How often a request is sent.
    request_channel_tries: int = 3
    #: Whether jobs run in processes; here they always do.
    multiprocessing: HandedOn[bool] = True
    #: Jobs that may run at once; -1 is no limit.
    process_count_max: int = -1
    #: Seconds before a return is sent again.
    return_retry_timer: float = 5
    #: The longest wait before a return is sent again, in seconds.
    return_retry_timer_max: float = 10
    #: How often stock sends a return; ours sends it until it is acknowledged.
    return_retry_tries: int = 3
    #: Whether returns go to the master; here they always do.
    pub_ret: HandedOn[bool] = True
    #: Job ids that are remembered, so that no job runs twice.
    minion_jid_queue_hwm: int = 100
    multifunc_ordered: bool = False

    # -- Files

    #: With `minion`, files are kept before they are changed.
    backup_mode: str = ""
    #: Where files come from: remote is the master, local is file_roots.
    file_client: str = "remote"
    #: Whether this is a masterless call; set by commands.
    local: bool = False
    #: Whether the master is asked although file_client is local.
    use_master_when_local: bool = False
    #: Bytes of one chunk of a file.
    file_buffer_size: int = 262144
    salt_cp_chunk_size: int = 65536

    # -- Pillar

    pillarenv_from_saltenv: bool = False
    #: Whether salt-ssh's pillar is merged.
    ssh_merge_pillar: HandedOn[bool] = True

    # -- States

    #: States to run at start: highstate, sls or top.
    startup_states: str = ""
    #: The sls files for startup_states: sls.
    sls_list: list[Any] = []
    #: The top file for startup_states: top.
    top_file: str = ""
    #: Whether a state run waits for the one before; a number limits the queue.
    state_queue: bool | int = False
    #: Whether snapshots are made around state runs.
    snapper_states: bool = False
    snapper_states_config: str = "root"
    #: Requisites that are ignored.
    disabled_requisites: str | list[Any] = []
    #: Conditions for states of one kind, or for all states.
    global_state_conditions: dict[str, Any] | None = None

    # -- Modules and grains

    #: Grains that are not collected.
    grains_blacklist: list[Any] = []
    #: Whether grains are kept between starts.
    grains_cache: bool = False
    grains_cache_expiration: float = 300
    grains_deep_merge: bool = False
    #: Whether modules are synchronised at state runs.
    autoload_dynamic_modules: bool = True
    #: Modules that are not loaded.
    disable_modules: list[Any] = []
    #: Returners that are not loaded.
    disable_returners: list[Any] = []
    #: Only functions of these modules may be called by name: in jobs, templates, conditions, slots.
    whitelist_modules: list[Any] = []
    #: Only states of these modules may be used.
    whitelist_state_modules: list[Any] = []
    returner_dirs: list[Any] = []
    grains_dirs: list[Any] = []
    states_dirs: list[Any] = []
    render_dirs: list[Any] = []
    providers: dict[str, Any] = {}
    #: Whether the grain fqdns asks DNS.
    enable_fqdns_grains: bool = False
    #: Whether there is a grain gpus.
    enable_gpu_grains: bool = True
    enable_zip_modules: HandedOn[bool] = False
    #: Grains set here.
    grains: dict[str, Any] = {}
    modules_max_memory: HandedOn[int] = -1
    #: Minutes between two refreshes of the grains; 0 is never.
    grains_refresh_every: float = 0
    #: Whether cmd.shell must be asked for by name.
    cmd_safe: bool = True

    # -- Mine, schedule, beacons, events

    #: Seconds, at most, to wait before the start.
    random_startup_delay: float = 0
    #: Grains that the start event carries.
    start_event_grains: list[Any] = []
    #: Whether the minion sends mine data.
    mine_enabled: bool = True
    #: Whether an update of the mine shows as a job.
    mine_return_job: bool = False
    #: Minutes between two updates of the mine.
    mine_interval: float = 60
    #: Whether the start event is also sent under its old name.
    enable_legacy_startup_events: bool = True
    #: Seconds between two rounds of periodic work.
    loop_interval: float = 1
    restart_on_error: HandedOn[bool] = False
    #: Minutes between two pings of the master; 0 is none.
    ping_interval: float = 0
    #: How the minion restarts itself.
    minion_restart_command: list[Any] = []
    beacons_before_connect: HandedOn[bool] = False
    scheduler_before_connect: bool = False
    #: Names for compound targets.
    nodegroups: dict[str, Any] = {}
    #: Beacons: what is watched, and how often.
    beacons: dict[str, Any] = {}
    #: The functions whose results go to the mine.
    mine_functions: dict[str, Any] = {}

    # -- Logs

    #: The log file, or the address of a log daemon.
    log_file: str = "/var/log/salt/minion"
    #: The directory of the log file.
    log_dir: str = ""
    #: The log file of salt-key.
    key_logfile: str = ""

    # -- Rarely used

    #: Where esky updates come from.
    update_url: HandedOn[bool | str] = False
    update_restart_services: HandedOn[list[Any]] = []
    resource_pillar_key: HandedOn[str] = "resources"
    syndic_retries: HandedOn[int] = 3
    winrepo_source_dir: HandedOn[str] = "salt://win/repo-ng/"
    winrepo_cache_expire_max: HandedOn[int] = 604800
    winrepo_cache_expire_min: HandedOn[int] = 1800

    def as_opts(self) -> dict[str, Any]:
        """
        As for both roles; C{__cachedir} is where the cache is when modules move C{cachedir}, and
        a port that is written with the one master is C{master_port}.
        """
        opts = {"__cachedir": self.cachedir, **super().as_opts()}
        one = self.master if isinstance(self.master, str) and "," not in self.master else ""
        if one and self.master_type == "str":
            # Modules see the two apart, as in Salt
            opts["master"], opts["master_port"] = self.address_of(one)
        return opts

    def masters(self) -> list[tuple[str, int]]:
        """
        The configured masters as host and request port, in the order they are written.

        C{host:port} and C{[v6]:port} are split, unless C{master_uri_format} is C{ip_only};
        a bare IPv6 address is a host. C{tcp://} in front says nothing. Names are not resolved.
        """
        names = [self.master] if isinstance(self.master, str) else self.master
        if isinstance(self.master, str) and "," in self.master:
            names = [name.strip() for name in self.master.split(",")]
        return [self.address_of(name) for name in names if name]

    def address_of(self, name: str) -> tuple[str, int]:
        """Host and request port of one master as it is written; see L{masters}."""
        host, port = name.strip(), self.master_port
        if host.startswith("tcp://"):
            host = host[6:].rstrip("/")
        if self.master_uri_format != "ip_only":
            if host.startswith("[") and "]" in host:
                host, _, rest = host[1:].partition("]")
                if rest.startswith(":") and rest[1:].isdigit():
                    port = int(rest[1:])
            elif host.count(":") == 1 and host.rpartition(":")[2].isdigit():
                host, _, number = host.partition(":")
                port = int(number)
        return host.strip("[]"), port


SECRETS = MasterConfig.secret | MinionConfig.secret | {"auth.ldap.bindpw", "sharedsecret", "token"}
"""Every option whose value nobody is shown; the last three have no attribute."""
SECRET_WITHIN = frozenset(("webhook_signatures", "headers", "header_dict", "header_list"))
"""
What is secret as a whole below an option, though its name does not say so: of hooks what signs them
(C{rest_twisted}), and headers of requests (C{tracing}, C{metrics}, external pillars).
"""
OF_SALT = frozenset(("rest_tornado", "rest_wsgi", "git_pillar_remotes", "roster_defaults"))
"""Options of Salt's own master that have no attribute here, and are no data of a site's modules."""
