"""
From Salt's configuration files to one frozen configuration.

The order is Salt's: defaults, the role's file, C{default_include}, C{include};
each later one replaces whole top-level keys, while files of one include are
merged into one another, lists and maps too. Nothing is read here: the disk and
the host are arguments (L{FileReader}, L{Host}), and C{worker/process/configio.py} has
the real ones. Which directories count is decided by L{choose_directory}.

Differences from Salt, all on purpose: a broken file or a value that cannot
work stops the start and is named with its line, where Salt logs and goes on
without; and with C{/etc/saltwisted} the default paths are our own.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from saltwisted.config import api, git, logins
from saltwisted.config.document import line_of, parse
from saltwisted.config.options import MasterConfig, MinionConfig
from saltwisted.config.schema import Misfit, fit, fresh
from saltwisted.config.secrets import shown_value
from saltwisted.errors import ConfigError
from saltwisted.kinds import CHOICES
from saltwisted.words import listed

OWN_DIR = "/etc/saltwisted"
SALT_DIR = "/etc/salt"

PREPENDED = {
    "master": (
        "pki_dir", "cachedir", "pidfile", "sock_dir", "extension_modules", "autosign_file",
        "autoreject_file", "token_dir", "syndic_dir", "sqlite_queue_dir", "autosign_grains_dir",
    ),
    "minion": ("pki_dir", "cachedir", "sock_dir", "extension_modules", "pidfile"),
}  # fmt: skip
"""Paths that live under C{root_dir}."""

PREPENDED_LOGS = {
    "master": ("log_file", "key_logfile", "ssh_log_file"),
    "minion": ("log_file", "key_logfile"),
}
"""Likewise, unless they are the address of a log daemon (C{udp://...})."""

ENCRYPTION = ("OAEP-SHA1", "OAEP-SHA224")
SIGNING = ("PKCS1v15-SHA1", "PKCS1v15-SHA224")

OTHER_NAMES = frozenset(
    """
    auth_dirs azurefs_update_interval batch_manager_loop_interval beacons_dirs ca_bundle
    cache_dirs client_acl client_acl_blacklist cluster_join_timeout cluster_port color
    color_theme conf_dir deploy_scripts_search_path diff_cache_events eauth_redis_host
    eauth_redis_port enable_cloud_grains enable_lspci engines_dirs environment
    event_return_queue_max_seconds executor_dirs ext_pillar_first ext_processes
    file_ignore_glob fileserver_dirs fileserver_events
    force_color git_pillar_provider git_pillar_remotes gitfs_provider
    grains_refresh_pre_exec inventory_base_uri keep_tmp
    lazy_loader_strict_matching location log_datefmt_console log_fmt log_handlers_dirs
    matchers_dirs metaproxy mine_cache minion_memory_headroom minion_memory_max
    mmap_cache_key_size mmap_cache_size mmap_cache_slot_size module_executors napalm
    netapi_dirs netapi_disable_clients no_color no_proxy output output_file output_indent
    pass_to_ext_pillars pillar pillar_dirs pillar_gitfs_ssl_verify pkgdb_dirs pkgfiles_dirs
    preserve_minions profiling_enabled profiling_path proxy proxy_always_alive
    proxy_deep_merge_pillar_in_opts proxy_dirs proxy_keep_alive proxy_keep_alive_interval
    proxy_merge_grains_in_module proxy_merge_pillar_in_opts
    proxy_merge_pillar_in_opts_strategy proxy_mines_pillar proxyid publish_drain_timeout
    queue_dirs reclass_source_path redis resources rest_tornado
    rest_wsgi return returner roster roster_defaults roster_dirs roster_file rosters
    runner_queue saltversion schedule_returner sdb_dirs serializers_dirs sharedsecret show_pillar
    sign_remote_message ssh_ext_alternatives ssh_minion_opts ssh_options ssh_run_pre_flight
    ssh_update_roster startup_nodes state_compress_ids state_output_exclude state_output_pct
    state_output_terse state_tabular stateconf_end_marker stateconf_goal_state
    stateconf_start_state strip_colors syndic_mode thorium_dirs timezone token token_file
    tokens_dirs top_dirs tty update_cachedir userdata_template virtual_timer
    winrepo_installer_cache_expire workers_ipc_name wrapper_dirs zmq_heartbeat_ivl
    zmq_heartbeat_timeout
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Options of Salt that have no default and no attribute here: known, hence no warning."""


class FileReader(Protocol):
    """The disk, as far as configuration asks for it."""

    def read(self, path: str) -> str | None:
        """
        The file's text; C{None} if there is no such file.

        @raises ConfigError: when it is there and cannot be read.
        """

    def glob(self, pattern: str) -> Sequence[str]:
        """The existing paths which match, in any order; a pattern without wild cards is a path."""

    def expand_user(self, path: str) -> str:
        """The path with a leading C{~} replaced."""

    def absolute(self, path: str) -> str:
        """The path from the root, without dots."""


class Host(Protocol):
    """The machine, as far as configuration asks for it."""

    def user(self) -> str:
        """The name of the user who runs this process."""

    def owner(self, path: str) -> str:
        """The name of the user to whom a path belongs; C{""} if there is no such path or user."""

    def home(self) -> str:
        """That user's home directory."""

    def guess_id(self) -> str:
        """A minion id from the host's names, or one of its addresses, or C{localhost}."""

    def call_id_function(
        self, function: str, kwargs: Mapping[str, Any], config: MasterConfig | MinionConfig
    ) -> str:
        """
        The id which an execution module function gives (C{id_function}).

        @param config: the configuration so far, complete but for its C{id}.
        @raises ConfigError: when there is no such function, or it gives no name.
        """

    def program(self) -> str:
        """The name this program was started by."""


class Remark(str):
    """
    A sentence for the operator: C{path:line: text}, as far as the place is known.

    @ivar path: the file, or C{None}.
    @ivar line: the line (1-based), or C{None}.
    @ivar reason: the text without the place.
    """

    path: str | None
    line: int | None
    reason: str

    __slots__ = ("line", "path", "reason")

    @staticmethod
    def at(place: tuple[str | None, int | None], reason: str) -> Remark:
        """A text with its place."""
        path, line = place
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        remark = Remark(where + reason)
        remark.path, remark.line, remark.reason = path, line, reason
        return remark


class Loaded:
    """
    What loading gave.

    @ivar config: L{MasterConfig} or L{MinionConfig}, by role; L{master} and L{minion} are
        the same with its type.
    @ivar sources: the files that were read, in order; the first line of a log names them.
    @ivar id_to_cache: C{(path, id)} when the id was guessed and should be written there.
    @ivar where: C{where(option, *keys)}: the file and the line (1-based) that set an option, or
        what has these keys below it, if that is found; each C{None} if it is not known. It reads
        the files' texts again: for messages only.
    """

    def __init__(
        self,
        config: MasterConfig | MinionConfig,
        warnings: Sequence[str | Callable[[], str]] = (),
        sources: Sequence[str] = (),
        id_to_cache: tuple[str, str] | None = None,
        where: Callable[..., tuple[str | None, int | None]] = lambda *names: (None, None),
    ) -> None:
        self.config: Any = config
        self._warnings = warnings
        self.sources = sources
        self.id_to_cache = id_to_cache
        self.where = where

    @cached_property
    def warnings(self) -> list[str]:
        """
        Sentences for the operator, in order of discovery.

        Worded when somebody asks: finding lines and nearest names takes longer
        than all the rest, and a command line does not show them.
        """
        return [text if isinstance(text, str) else text() for text in self._warnings]

    @property
    def master(self) -> MasterConfig:
        """The configuration of a master."""
        if not isinstance(self.config, MasterConfig):
            raise TypeError("a minion's configuration was loaded")
        return self.config

    @property
    def minion(self) -> MinionConfig:
        """The configuration of a minion."""
        if not isinstance(self.config, MinionConfig):
            raise TypeError("a master's configuration was loaded")
        return self.config


def choose_directory(
    role: str, given: str | None, environ: Mapping[str, str], reader: FileReader
) -> str:
    """
    The directory that counts: as given, of the environment, ours if it has the file, or Salt's.

    C{SALT_CONFIG_DIR} counts as in Salt: only if the role's file is in it.
    """
    if given:
        return given
    if environ.get("SALTWISTED_CONFIG_DIR"):
        return environ["SALTWISTED_CONFIG_DIR"]
    if reader.glob(os.path.join(OWN_DIR, role)):
        return OWN_DIR
    theirs = environ.get("SALT_CONFIG_DIR", "")
    if theirs and reader.glob(os.path.join(theirs, role)):
        return theirs
    return SALT_DIR


def own_paths(role: str) -> dict[str, Any]:
    """Default paths when the configuration is in C{/etc/saltwisted}."""
    cache, log = f"/var/cache/saltwisted/{role}", "/var/log/saltwisted"
    paths = {
        "pki_dir": f"{OWN_DIR}/pki/{role}",
        "cachedir": cache,
        "sock_dir": f"/run/saltwisted/{role}",
        "log_file": f"{log}/{role}",
        "pidfile": f"/run/saltwisted/{role}.pid",
        "extension_modules": f"{cache}/extmods",
    }
    if role == "master":
        paths["key_logfile"] = f"{log}/key"
        paths["ssh_log_file"] = f"{log}/ssh"
        paths["sqlite_queue_dir"] = f"{cache}/queues"
    return paths


def merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Merge as Salt does between included files: maps deeply, lists by adding what is new."""
    for key, value in more.items():
        here = into.get(key)
        if isinstance(here, dict) and isinstance(value, Mapping):
            merge(here, value)
        elif isinstance(here, list) and isinstance(value, list):
            into[key] = here + [item for item in value if item not in here]
        else:
            into[key] = value


class _Collector:
    """Reads files, and remembers which file gave each top-level key."""

    def __init__(self, reader: FileReader) -> None:
        self.reader = reader
        self.texts: dict[str, str] = {}
        self.origin: dict[str, str] = {}
        self.sources: list[str] = []
        self.warnings: list[str | Callable[[], str]] = []
        self._open: list[str] = []

    def read(self, path: str) -> dict[str, Any] | None:
        text = self.reader.read(path)
        if text is None:
            return None
        self.sources.append(path)
        self.texts[path] = text
        try:
            values = parse(text, path)
        except ConfigError as error:
            if not path.endswith("_schedule.conf"):
                raise
            # Salt writes this file itself, and a crash may have cut it.
            self.warnings.append(f"{error}; the saved schedule is ignored")
            return {}
        for key in values:
            if isinstance(key, str):
                self.origin[key] = path
        if "id" in values and values["id"] is not None:
            values["id"] = str(values["id"])
        return values

    def include(self, patterns: Any, beside: str, verbose: bool) -> dict[str, Any]:
        """The merged content of an include list; relative names start beside the including file."""
        if not patterns:
            return {}
        if isinstance(patterns, str):
            patterns = [patterns]
        if not isinstance(patterns, list) or not all(isinstance(p, str) for p in patterns):
            line = line_of(self.texts.get(beside, ""), "include")
            raise ConfigError("include needs a path or a list of paths", beside, line)
        merged: dict[str, Any] = {}
        for pattern in patterns:
            path = os.path.join(os.path.dirname(beside), self.reader.expand_user(pattern))
            found = sorted(self.reader.glob(path))
            if not found and verbose:
                self.warnings.append(f"{beside}: include {pattern!r} matches no file")
            for name in found:
                if name in self._open:
                    raise ConfigError(f"{name} is included by itself", beside)
                values = self.read(name)
                if values is None:
                    continue
                self._open.append(name)
                values.update(self.include(values.get("include"), name, verbose))
                self._open.pop()
                merge(merged, values)
        return merged

    def where(self, option: str, *inner: str) -> tuple[str | None, int | None]:
        for name in reversed(self.sources) if inner else ():
            line = line_of(self.texts[name], option, *inner)
            if line is not None:
                return name, line
        path = self.origin.get(option)
        return path, None if path is None else line_of(self.texts[path], option)


def load(
    role: str,
    reader: FileReader,
    host: Host,
    config_dir: str | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    guess_id: bool = True,
) -> Loaded:
    """
    Read a role's configuration.

    @param role: C{master} or C{minion}.
    @param guess_id: whether to find an id when none is set, which may ask DNS; without it
        the id is then C{""}, as a command line likes it.
    @param overrides: options from a command line, over every file.
    @raises ConfigError: with file and line, when a value cannot work.
    """
    environ = environ or {}
    directory = choose_directory(role, config_dir, environ, reader)
    main = os.path.join(directory, role)
    collector = _Collector(reader)
    files = collector.read(main) or {}
    default_include = files.get("default_include", f"{role}.d/*.conf")
    include = files.get("include")
    files.update(collector.include(default_include, main, verbose=False))
    files.update(collector.include(include, main, verbose=True))
    given = {**files, **(overrides or {})}
    settling = _Settling(role, directory, main, given, collector, host)
    return settling.settle(guess_id)


class _Settling:
    """From given values to whole ones: types, defaults, id, paths."""

    def __init__(
        self,
        role: str,
        directory: str,
        main: str,
        given: dict[Any, Any],
        collector: _Collector,
        host: Host,
    ) -> None:
        self.role = role
        self.cls: Any = MasterConfig if role == "master" else MinionConfig
        self.other: Any = MinionConfig if role == "master" else MasterConfig
        self.directory = directory
        self.main = main
        self.given = given
        self.collector = collector
        self.host = host
        self.warnings = collector.warnings
        self.id_to_cache: tuple[str, str] | None = None

    def fail(self, option: str, reason: str) -> ConfigError:
        path, line = self.collector.where(option)
        return ConfigError(reason, path, line)

    def warn(self, option: str, text: str | Callable[[], str]) -> None:
        """Note a warning; its place in the files is looked up when it is read."""

        def worded() -> str:
            reason = text if isinstance(text, str) else text()
            return Remark.at(self.collector.where(option), reason)

        self.warnings.append(worded)

    def settle(self, guess_id: bool) -> Loaded:
        """The whole, from what was given."""
        values: dict[str, Any] = fresh(self.cls.defaults)
        values.update(fresh(self.cls.dotted))
        del values["extra"]
        values["user"] = self.host.user()
        if self.role == "master":
            values["ssh_config_file"] = os.path.join(self.host.home(), ".ssh", "config")
        if os.path.normpath(self.directory) == OWN_DIR:
            values.update(own_paths(self.role))
        defaults = dict(values)
        for option, value in self.given.items():
            values[option] = self.fitted(option, value, defaults)
        values["conf_file"] = self.main
        values["config_dir"] = self.directory
        values["__cli"] = self.host.program()
        self.logs(values, defaults)
        self.normalise(values)
        if guess_id or values["id"]:
            self.identify(values)
        self.derive_paths(values)
        self.settle_user(values)
        self.judge(values)
        return Loaded(
            self.typed(values),
            self.warnings,
            self.collector.sources,
            self.id_to_cache,
            self.collector.where,
        )

    def typed(self, values: Mapping[str, Any]) -> Any:
        """The values as the role's class, with what has no attribute in C{extra}."""
        known = {name: values[name] for name in values if name in self.cls.fields}
        extra = {name: values[name] for name in values if name not in known}
        return self.cls(**known, extra=extra)

    def fitted(self, option: Any, value: Any, defaults: Mapping[str, Any]) -> Any:
        """One given value in its declared type."""
        if not isinstance(option, str) or option not in self.cls.fields:
            self.unknown(option)
            return value
        declared = self.cls.fields[option]
        if option in ("peer", "peer_run") and isinstance(value, bool):
            # Nobody has a right by it, in stock neither: no reason to refuse the start
            self.warn(option, f"{option} has to be a map; {value!r} allows nothing")
            return {}
        if value is None and "None" not in declared:
            return defaults[option]
        if isinstance(value, str) and value.startswith("sdb://"):
            raise self.fail(option, f"{option}: sdb:// values are not supported yet")
        if option in ("open_mode", "auto_accept") and not isinstance(value, bool):
            self.warn(option, f"{option} is on only when it is 'True'; {value!r} counts as False")
            return False
        try:
            fitting, change = fit(declared, value)
        except Misfit as misfit:
            raise self.fail(option, f"{option}: {misfit}, not {_shown(option, value)}") from None
        if change is not None and not (
            isinstance(fitting, (str, int, float)) and isinstance(value, str)
        ):
            quiet = isinstance(fitting, str) or option in ("file_ignore_regex", "file_ignore_glob")
            if not quiet:
                given, read = _shown(option, value), _shown(option, fitting)
                self.warn(option, f"{option} should not be {given}; read as {read}")
        return fitting

    def unknown(self, option: Any) -> None:
        """An option nobody knows is kept, with a warning that names its nearest neighbour."""
        name = str(option)
        if name in OTHER_NAMES or name in self.other.fields or name in self.other.dotted:
            return
        if name in self.cls.dotted or "." in name or name.startswith("_"):
            return  # 'mysql.host' and its like belong to a module

        def worded() -> str:
            from difflib import get_close_matches

            near = get_close_matches(name, [*self.cls.fields, *OTHER_NAMES], 1, 0.75)
            hint = f"did you mean {near[0]!r}?" if near else "it is kept as data of your own"
            return f"unknown option {name!r}: {hint}"

        self.warn(name, worded)

    def logs(self, values: dict[str, Any], defaults: Mapping[str, Any]) -> None:
        """C{log_dir} moves the log file."""
        if values["log_dir"]:
            name = values["log_file"]
            if name == defaults["log_file"]:
                name = os.path.basename(name)
            values["log_file"] = os.path.join(values["log_dir"], name)

    def normalise(self, values: dict[str, Any]) -> None:
        """The small repairs that Salt makes to what people write."""
        if "environment" in values:
            if values["saltenv"] is None:
                values["saltenv"] = values["environment"]
                self.warn("environment", "environment is now called saltenv")
            else:
                values["environment"] = values["saltenv"]
                self.warn("environment", "environment is ignored, since saltenv is set")
        values["fileserver_backend"] = [
            name + "fs" if name in ("git", "hg", "svn", "minion") else name
            for name in values["fileserver_backend"]
        ]
        for roots in ("file_roots", "pillar_roots"):
            values[roots] = self.roots(values[roots])
        values["hash_type"] = values["hash_type"].lower()
        if values["ssl"] is False:
            values["ssl"] = None
        elif values["ssl"] is True:
            values["ssl"] = {}
        if isinstance(values.get("return"), list):
            values["return"] = ",".join(str(name) for name in values["return"])
        if self.role == "master":
            self.hours(values)
            if "rest" in values["external_auth"] and not values["keep_acl_in_token"]:
                self.warn("external_auth", "external_auth 'rest' sets keep_acl_in_token to True")
                values["keep_acl_in_token"] = True
            self.logins(values)
            for text in api.problems(values):
                self.warn("rest_cherrypy", text)
            self.parts(values)
            self.git(values)
            self.cluster(values)
            values["file_ignore_regex"] = [
                regex for regex in values["file_ignore_regex"] if self.is_regex(regex)
            ]
        else:
            self.masters(values)

    def hours(self, values: dict[str, Any]) -> None:
        """The old C{keep_jobs} counts where C{keep_jobs_seconds} is as it always was."""
        usual = self.cls.defaults
        if (
            values["keep_jobs_seconds"] == usual["keep_jobs_seconds"]
            and values["keep_jobs"] != usual["keep_jobs"]
        ):
            values["keep_jobs_seconds"] = values["keep_jobs"] * 3600
            self.warn("keep_jobs", "keep_jobs is now called keep_jobs_seconds, and counts seconds")

    def logins(self, values: dict[str, Any]) -> None:
        """What of C{external_auth} cannot work is said at the start, and not at the first login."""
        if values["external_auth"]:
            for text in logins.problems(values["external_auth"], values):
                self.warn("external_auth", text)
        for name, text in logins.misspelt(values):
            self.warn(name, text)
        store = values["eauth_tokens"]
        if store != "localfs":
            self.warn(
                "eauth_tokens",
                f"eauth_tokens {store!r} is not available here: tokens are in files below"
                " cachedir, and in a cluster on every node",
            )
        driver = values["eauth_tokens.cache_driver"]
        if driver not in (None, "localfs"):
            self.warn(
                "eauth_tokens.cache_driver",
                f"eauth_tokens.cache_driver {driver!r} is not available here: tokens are in"
                " files below cachedir, and in a cluster on every node",
            )

    def parts(self, values: dict[str, Any]) -> None:
        """A part by a name that nobody knows is said at the start, with the one that was meant."""
        for kind in CHOICES:
            for text in kind.complaints(values[kind.option]):
                self.warn(kind.option, text)

    def git(self, values: dict[str, Any]) -> None:
        """Remotes that cannot work are told at the start; without the backend nobody has them."""
        if "gitfs" in values["fileserver_backend"]:
            for text in git.remotes_of(values.get)[1]:
                self.warn("gitfs_remotes", text)
        elif values["gitfs_remotes"]:
            self.warn("gitfs_remotes", "gitfs_remotes: gitfs is not in fileserver_backend")

    def cluster(self, values: dict[str, Any]) -> None:
        """The options of Salt's own clusters mean nothing without a C{cluster_id}."""
        if values["cluster_id"] is not None:
            return
        for option, nothing in (("cluster_peers", []), ("cluster_pki_dir", None)):
            if values[option]:
                self.warn(option, f"{option} is ignored without a cluster_id")
                values[option] = nothing

    def masters(self, values: dict[str, Any]) -> None:
        """Names of masters are text, whatever YAML made of them."""
        if isinstance(values["master"], list):
            values["master"] = [str(name) for name in values["master"]]

    def is_regex(self, regex: Any) -> bool:
        """Whether Python can compile it; a broken one is left out, with a warning."""
        import re

        try:
            re.compile(regex)
        except (re.error, TypeError) as error:
            self.warn("file_ignore_regex", f"file_ignore_regex {regex!r} is left out: {error}")
            return False
        return True

    def roots(self, roots: Mapping[Any, Any]) -> dict[str, Any]:
        """Environment names are text, their directories lists, wild cards expanded."""
        settled: dict[str, Any] = {}
        for env, directories in roots.items():
            expanded: list[Any] = []
            for directory in directories if isinstance(directories, (list, tuple)) else []:
                if isinstance(directory, str) and any(sign in directory for sign in "*?["):
                    expanded.extend(sorted(self.collector.reader.glob(directory)))
                else:
                    expanded.append(directory)
            settled[str(env)] = expanded
        return settled

    def identify(self, values: dict[str, Any]) -> None:
        """Settle C{id} as Salt does: set, remembered, asked for, or guessed."""
        by_address, guessed = False, False
        if not values["id"]:
            guessed = True
            values["id"] = self.guess(values)
            by_address = values["id"].count(".") == 3 and all(
                part.isdigit() and int(part) < 256 for part in values["id"].split(".")
            )
        domain = values["append_domain"]
        name = values["id"]
        if domain and not by_address and not name.endswith((domain, ".")):
            values["id"] = f"{name}.{domain}"
        if self.role == "master" and guessed:
            values["id"] += "_master"

    def guess(self, values: Mapping[str, Any]) -> str:
        """The id in C{minion_id}, or a new one."""
        cache = os.path.join(self.directory, "minion_id")
        if os.path.normpath(self.directory) != OWN_DIR:
            cache = os.path.join(values["root_dir"], SALT_DIR[1:], "minion_id")
        caching = values.get("minion_id_caching", True)
        if caching:
            lines = (self.collector.reader.read(cache) or "").split("\n", 1)
            name = lines[0].strip()
            if name and name != "localhost":
                return name
        asked = values["id_function"]
        if asked:
            function, kwargs = asked, None
            if isinstance(asked, Mapping):
                function, kwargs = next(iter(asked.items()))
            whole = dict(values)
            self.derive_paths(whole)
            name = self.host.call_id_function(str(function), kwargs or {}, self.typed(whole))
        else:
            name = self.host.guess_id()
        if values["minion_id_lowercase"]:
            name = name.lower()
        domain = values["minion_id_remove_domain"]
        if domain is True:
            name = name.split(".", 1)[0]
        elif domain and name.upper().endswith("." + domain.upper()):
            name = name[: -len(domain) - 1]
        if caching and self.role == "minion":
            self.id_to_cache = (cache, name)
        return name

    def derive_paths(self, values: dict[str, Any]) -> None:
        """Paths which follow from others, and C{root_dir} before them."""
        for option in values.get("append_minionid_config_dirs", ()):
            if option in ("pki_dir", "cachedir", "extension_modules"):
                values[option] = os.path.join(values[option], values["id"])
            elif option == "pidfile":
                head, tail = os.path.split(values[option])
                values[option] = os.path.join(head, "salt", values["id"], tail)
        if len(values["sock_dir"]) > len(values["cachedir"]) + 10:
            values["sock_dir"] = os.path.join(values["cachedir"], ".salt-unix")
        if self.role == "master":
            values["token_dir"] = os.path.join(values["cachedir"], "tokens")
            values["syndic_dir"] = os.path.join(values["cachedir"], "syndics")
        if not values["extension_modules"]:
            values["extension_modules"] = os.path.join(values["cachedir"], "extmods")
        if not values["utils_dirs"]:
            values["utils_dirs"] = [os.path.join(values["extension_modules"], "utils")]
        root = self.collector.reader.absolute(values["root_dir"])
        for option in PREPENDED[self.role]:
            values[option] = under_root(root, values[option])
        for option in PREPENDED_LOGS[self.role]:
            if values[option] and "://" not in values[option]:
                values[option] = under_root(root, values[option])

    def settle_user(self, values: dict[str, Any]) -> None:
        """
        Root's commands work for whom the keys belong to, where no file names a C{user}.

        The package's units say themselves whom a master runs as. What a command of root's
        makes below C{pki_dir} has to be that user's, too.
        """
        own = os.path.normpath(self.directory) == OWN_DIR
        if own and "user" not in self.given and values["user"] == "root":
            values["user"] = self.host.owner(values["pki_dir"]) or "root"

    def judge(self, values: Mapping[str, Any]) -> None:
        """Refuse what is of the right type and still cannot work."""
        allowed: list[tuple[str, Sequence[str]]] = [
            ("encryption_algorithm", ENCRYPTION),
            ("signing_algorithm", SIGNING),
            ("publish_signing_algorithm", SIGNING),
            ("cluster_encryption_algorithm", ENCRYPTION),
            ("master_type", MASTER_TYPES),
        ]
        for option, words in allowed:
            if option in values and values[option] not in words:
                shown = _shown(option, values[option])
                raise self.fail(option, f"{option}: use {listed(words, 'or')}, not {shown}")
        for option in ("publish_port", "ret_port", "master_port"):
            if option in values and not 0 < values[option] < 65536:
                raise self.fail(option, f"{option}: a port is from 1 to 65535")


MASTER_TYPES = ("str", "failover", "distributed", "func", "disable")


def under_root(root: str, path: str) -> str:
    """A path below C{root_dir}: Salt's default root is cut off and the chosen one put before."""
    if not path:
        return path
    if path == root or path.startswith(root.rstrip("/") + "/"):
        return os.path.normpath(path)
    return os.path.normpath(os.path.join(root, path.lstrip("/")))


def _shown(option: str, value: Any) -> str:
    text = repr(shown_value(option, value))
    return text if len(text) <= 60 else text[:57] + "..."
