"""
Read options of the minion, with grains and pillar as further places to look.

C{config.get} is what SLS trees use: options, then grains, then pillar, then the master's
options (there with C{pillar_opts}), then Salt's defaults for modules. A person who asks sees
stars in place of secrets among the options (see L{saltwisted.worker.masking}).
"""

from __future__ import annotations

import fnmatch
import logging
import urllib.parse
from typing import Any

from saltwisted.domain.targeting.traverse import traverse
from saltwisted.modules import _data, _files, _sdb
from saltwisted.worker.masking import shown_options

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any

DEFAULTS: dict[str, Any] = {
    "mongo.db": "salt",
    "mongo.password": "",
    "mongo.port": 27017,
    "mongo.user": "",
    "redis.db": "0",
    "redis.host": "salt",
    "redis.port": 6379,
    "test.foo": "unconfigured",
    "ca.cert_base_path": "/etc/pki",
    "solr.cores": [],
    "solr.host": "localhost",
    "solr.port": "8983",
    "solr.baseurl": "/solr",
    "solr.type": "master",
    "solr.request_timeout": None,
    "solr.init_script": "/etc/rc.d/solr",
    "solr.dih.import_options": {
        "clean": False,
        "optimize": True,
        "commit": True,
        "verbose": False,
    },
    "solr.backup_path": None,
    "solr.num_backups": 1,
    "poudriere.config": "/usr/local/etc/poudriere.conf",
    "poudriere.config_dir": "/usr/local/etc/poudriere.d",
    "ldap.uri": "",
    "ldap.server": "localhost",
    "ldap.port": "389",
    "ldap.tls": False,
    "ldap.no_verify": False,
    "ldap.anonymous": True,
    "ldap.scope": 2,
    "ldap.attrs": None,
    "ldap.binddn": "",
    "ldap.bindpw": "",
    "hosts.file": "/etc/hosts",
    "aliases.file": "/etc/aliases",
    "virt": {"tunnel": False, "images": "/srv/salt-images"},
    "docker.exec_driver": "docker-exec",
    "docker.compare_container_networks": {
        "static": ["Aliases", "Links", "IPAMConfig"],
        "automatic": ["IPAddress", "Gateway", "GlobalIPv6Address", "IPv6Gateway"],
    },
}

_ABSENT: Any = object()


def backup_mode(backup: Any = "") -> Any:
    """
    The given backup mode, or the option C{backup_mode}.

    CLI Example::

        salt '*' config.backup_mode
    """
    return backup or option("backup_mode")


def manage_mode(mode: Any) -> str | None:
    """
    A file mode as states write it: octal text with a leading zero.

    CLI Example::

        salt '*' config.manage_mode 644
    """
    return _files.normalize_mode(mode)


def valid_fileproto(uri: str) -> bool:
    """
    Whether files can be fetched from such an address.

    CLI Example::

        salt '*' config.valid_fileproto salt://path/to/file
    """
    return urllib.parse.urlparse(uri).scheme in _files.VALID_PROTOS


def _master_opts() -> Any:
    found = __pillar__.get("master", {})
    return found if isinstance(found, dict) else {}


def _of(place: Any, name: str) -> Any:
    """A value of one of the places; of the options, as the caller may see it."""
    value = place[name]
    return shown_options({name: value})[name] if place is __opts__ else value


def option(
    value: str,
    default: Any = None,
    omit_opts: bool = False,
    omit_grains: bool = False,
    omit_pillar: bool = False,
    omit_master: bool = False,
    omit_all: bool = False,
    wildcard: bool = False,
) -> Any:
    """
    An option by its whole name, from options, grains, pillar, the master's, or defaults.

    With C{wildcard} the name is a glob and the answer a map.

    CLI Example::

        salt '*' config.option redis.host
    """
    if omit_all:
        omit_opts = omit_grains = omit_pillar = omit_master = True
    if wildcard:
        found: dict[str, Any] = {}
        for omit, place in (
            (False, DEFAULTS),
            (omit_master, _master_opts()),
            (omit_pillar, __pillar__),
            (omit_grains, __grains__),
            (omit_opts, __opts__),
        ):
            if not omit:
                names = fnmatch.filter(place, value)
                here = {name: place[name] for name in names}
                found.update(shown_options(here) if place is __opts__ else here)
        return found or ({} if default is None else default)
    for omit, place in (
        (omit_opts, __opts__),
        (omit_grains, __grains__),
        (omit_pillar, __pillar__),
    ):
        if not omit and value in place:
            return _of(place, value)
    if not omit_master and value in _master_opts():
        return _master_opts()[value]
    if value in DEFAULTS:
        return DEFAULTS[value]
    return "" if default is None else default


def merge(
    value: str,
    default: Any = "",
    omit_opts: bool = False,
    omit_master: bool = False,
    omit_pillar: bool = False,
) -> Any:
    """
    An option with the values of all places in one: maps joined, lists one after the other.

    The minion's options win over the master's, these over the pillar. A text is taken
    from the first place that has one.

    CLI Example::

        salt '*' config.merge schedule
    """
    result: Any = None
    for omit, place in (
        (omit_opts, __opts__),
        (omit_master, _master_opts()),
        (omit_pillar, __pillar__),
    ):
        if omit or value not in place:
            continue
        here = _of(place, value)
        if result is None:
            result = here
            if isinstance(result, str):
                return result
        elif isinstance(result, dict) and isinstance(here, dict):
            result = {**here, **result}
        elif isinstance(result, (list, tuple)) and isinstance(here, (list, tuple)):
            result = [*result, *here]
    if result is None:
        return DEFAULTS.get(value, default)
    return result


def get(
    key: Any,
    default: Any = "",
    delimiter: str = ":",
    merge: str | None = None,
    omit_opts: bool = False,
    omit_pillar: bool = False,
    omit_master: bool = False,
    omit_grains: bool = False,
) -> Any:
    """
    A value by C{a:b:c} from options, grains, pillar, the master's options, or defaults.

    merge
        C{recurse} or C{overwrite}: join the maps of all places first, the options on top.

    CLI Example::

        salt '*' config.get pkg:apache
        salt '*' config.get lxc.container_profile:centos merge=recurse
    """
    if merge is None:
        for omit, place in (
            (omit_opts, __opts__),
            (omit_grains, __grains__),
            (omit_pillar, __pillar__),
            (omit_master, _master_opts() if not omit_master else {}),
            (False, DEFAULTS),
        ):
            if omit:
                continue
            found = traverse(_shown(place, key, delimiter), key, _ABSENT, delimiter)
            if found is not _ABSENT:
                return _from_sdb(found)
        return default
    if merge not in ("recurse", "overwrite"):
        log.warning("Unsupported merge strategy '%s'. Falling back to 'recurse'.", merge)
        merge = "recurse"
    lists = bool(__opts__.get("pillar_merge_lists", False))
    joined: Any = dict(DEFAULTS)
    for place in (_master_opts(), __pillar__, __grains__, __opts__):
        joined = _data.merge(joined, dict(_shown(place, key, delimiter)), merge, lists)
    found = traverse(joined, key, _ABSENT, delimiter)
    return default if found is _ABSENT else _from_sdb(found)


def _shown(place: Any, key: Any, delimiter: str) -> Any:
    """One of the places, with the option in it that a key begins with as the caller may see it."""
    first = str(key).split(delimiter)[0]
    if place is not __opts__ or first not in place:
        return place
    seen = _of(place, first)
    return place if seen is place[first] else {first: seen}


def _from_sdb(value: Any) -> Any:
    """The value behind C{sdb://profile/key}; anything else as it is."""
    place = _sdb.place_of(value, __opts__, __pillar__)
    return value if place is None else _sdb.ask(place, "get", __salt__.loaders["sdb"])


def dot_vals(value: str) -> dict[str, Any]:
    """
    All options whose names begin with this word and a dot.

    CLI Example::

        salt '*' config.dot_vals host
    """
    prefix = f"{value}."
    found = {}
    for place in (_master_opts(), __opts__):
        found.update({key: _of(place, key) for key in place if key.startswith(prefix)})
    return found


def gather_bootstrap_script(bootstrap: str | None = None) -> Any:
    """
    Not here: it belongs to salt-cloud.

    CLI Example::

        salt '*' config.gather_bootstrap_script
    """
    return (False, "config.gather_bootstrap_script is unavailable")


def items() -> Any:
    """
    All options.

    CLI Example::

        salt '*' config.items
    """
    return shown_options(__opts__)
