"""
C{saltwisted check} against real starts: what a start complains of, the check finds.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.roles.ending import EX_CONFIG
from saltwisted.web.tls import self_signed
from saltwisted.wire.rsa import PrivateKey
from tests.harness import ROOT, reserve_ports, scratch, write_config

KEY = PrivateKey.generate(2048)
Change = Callable[["Site"], None]


class Site:
    """The directories and the options of one daemon that works, until somebody changes them."""

    def __init__(self, home: str, role: str, ports: list[int]) -> None:
        self.home, self.role = home, role
        self.name = "minion" if role == "minion" else "master"
        self.conf = f"{home}/conf"
        self.values: dict[str, Any] = {
            "id": "one",
            "pki_dir": f"{home}/pki",
            "cachedir": f"{home}/cache",
            "sock_dir": f"{home}/run",
            "log_file": f"{home}/log",
        }
        if role == "minion":
            self.values |= {"master": "127.0.0.1", "master_port": ports[0]}
        else:
            self.values |= {
                "interface": "127.0.0.1",
                "publish_port": ports[0],
                "ret_port": ports[1],
                "file_roots": {"base": [f"{home}/srv"]},
                "pillar_roots": {"base": [f"{home}/pillar"]},
                "cluster_roots": {"free_mib": 1},
            }
            os.makedirs(f"{home}/srv")
            os.makedirs(f"{home}/pillar")
        if role == "cluster":
            self.values["cluster_pool_port"] = ports[2]
        os.makedirs(f"{home}/pki", 0o700)
        self.key("pki")
        self.text: str | None = None

    def key(self, folder: str, passphrase: str | None = None) -> None:
        """The daemon's key pair: to make one takes long."""
        self.file(f"{folder}/{self.name}.pem", KEY.pem(passphrase))
        self.file(f"{folder}/{self.name}.pub", KEY.public.pem + "\n")

    def file(self, name: str, text: str) -> str:
        """A file below the home; its path."""
        path = Path(self.home, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def write(self) -> None:
        """The configuration; the line of each option is its place in C{values}."""
        path = f"{self.conf}/{self.name}"
        write_config(path, self.values)
        if self.text is not None:
            Path(path).write_bytes(self.text.encode("utf-8", "surrogateescape"))

    def line(self, option: str) -> int:
        """Where an option stands."""
        return list(self.values).index(option) + 1


@frozen
class Case:
    """
    One fault.

    @ivar words: what the start says of it.
    @ivar option: which option the check points at; C{""}: it names another file.
    @ivar late: whether a part of the daemon complains of it by itself, without the readings.
    """

    role: str
    words: str
    change: Change
    option: str = ""
    late: bool = True


def sets(**options: Any) -> Change:
    """These options; C{HOME} in a text is the home of the site."""

    def change(site: Site) -> None:
        text = json.dumps(options).replace("HOME", site.home)
        site.values |= json.loads(text)

    return change


def reads(text: str) -> Change:
    """The whole file is this text."""

    def change(site: Site) -> None:
        site.text = text

    return change


def puts(name: str, text: str, **options: Any) -> Change:
    """A file below the home, and options."""

    def change(site: Site) -> None:
        site.file(name, text)
        sets(**options)(site)

    return change


def link(site: Site) -> None:
    """A key that is a link to nowhere, as in a copied directory."""
    os.unlink(f"{site.home}/pki/master.pem")
    os.symlink("nosuch.pem", f"{site.home}/pki/master.pem")


def half(site: Site) -> None:
    """The public half alone."""
    os.unlink(f"{site.home}/pki/{site.name}.pem")


def locked(site: Site) -> None:
    """A key with a passphrase that the configuration does not have."""
    site.key("pki", "right")
    site.values["key_pass"] = "wrong"


def pem(site: Site) -> None:
    """An API with a certificate and the key of another."""
    for name in ("one", "two"):
        site.file(f"{name}.pem", self_signed(name, time.time()).decode())
    api(disable_ssl=False, ssl_crt="HOME/one.pem", ssl_key="HOME/two.pem")(site)


def api(**block: Any) -> Change:
    """The HTTP API, on a port that the system chooses."""
    return sets(rest_twisted={"port": 0, "host": "127.0.0.1", "disable_ssl": True, **block})


def tls(**options: Any) -> Change:
    """TLS on the ports of the TCP transport."""

    def change(site: Site) -> None:
        site.file("both.pem", self_signed("one", time.time()).decode())
        whole = {"certfile": "HOME/both.pem", "keyfile": "HOME/both.pem", **options}
        sets(transport="tcp", ssl=whole)(site)

    return change


def etcd(**options: Any) -> Change:
    """Claims in an etcd that is not there."""
    return sets(claims="etcd", claims_etcd=["https://127.0.0.1:9"], **options)


def itself(site: Site) -> None:
    """A file that includes itself."""
    site.file("conf/more", "include: more\n")
    sets(include="more")(site)


def shown(site: Site) -> None:
    """A certificate for etcd that is none."""
    site.file("x", "x")
    etcd(claims_etcd_cert="HOME/x", claims_etcd_key="HOME/x")(site)


MISSING = "HOME/nosuch"
CASES: dict[str, Case] = {
    # the files
    "yaml": Case("master", "master:2", reads("a: [\n")),
    "twice": Case("master", "conflicting ID", reads("id: a\nid: b\n")),
    "nomap": Case("master", "lines of the form", reads("- a\n")),
    "include": Case("master", "include needs", reads("include: {a: b}\n")),
    "bytes": Case("master", "not UTF-8", reads("id: \udce4\n")),
    "itself": Case("master", "included by itself", itself),
    "minion yaml": Case("minion", "minion:2", reads("a: [\n")),
    # values
    "type": Case("master", "timeout:", sets(timeout=[1]), "timeout"),
    "port": Case("master", "a port is from 1", sets(ret_port=70000), "ret_port"),
    "sdb": Case("master", "sdb://", sets(key_pass="sdb://x/y"), "key_pass"),
    "algorithm": Case("minion", "use OAEP", sets(encryption_algorithm="x"), "encryption_algorithm"),
    "master_type": Case("minion", "master_type: use", sets(master_type="x"), "master_type"),
    "user": Case("master", "does not exist", sets(user="nosuchuser"), "user", late=False),
    # ports
    "transport": Case("master", "use zeromq or tcp", sets(transport="udp"), "transport"),
    "minion transport": Case("minion", "use zeromq", sets(transport="udp"), "transport"),
    "interface": Case("master", "no address of this", sets(interface="10.9.9.9"), "interface"),
    "device": Case("master", "nosuch0", sets(interface="nosuch0"), "interface"),
    "node interface": Case("cluster", "no address of", sets(interface="10.9.9.9"), "interface"),
    "tcp interface": Case(
        "master", "no address of", sets(interface="10.9.9.9", transport="tcp"), "interface"
    ),
    "socket": Case("master", "not a socket", puts("run/saltwisted.sock", ""), "sock_dir"),
    "long": Case(
        "master", "unix socket", sets(sock_dir=f"HOME/{'x' * 99}", cachedir=f"HOME/{'y' * 99}"),
        "sock_dir",
    ),
    # ssl
    "certfile": Case("master", "certfile", tls(certfile=MISSING), "ssl"),
    "no certfile": Case("master", "certfile", sets(transport="tcp", ssl={}), "ssl"),
    "version": Case("master", "ssl_version", tls(ssl_version="PROTOCOL_SSLv2"), "ssl"),
    "ciphers": Case("master", "ciphers", tls(ciphers="NOSUCH"), "ssl"),
    "cert_reqs": Case("master", "cert_reqs", tls(cert_reqs="X"), "ssl"),
    "verify_flags": Case("master", "verify_flags", tls(verify_flags=["X"]), "ssl"),
    "verify_locations": Case("master", "verify_locations", tls(verify_locations=[{"x": 1}]), "ssl"),
    "minion ssl": Case("minion", "cert_reqs", tls(cert_reqs="X"), "ssl"),
    # metrics
    "metrics": Case("master", "unknown option", sets(metrics={"x": 1}), "metrics"),
    "metrics port": Case("master", "port is a", sets(metrics={"port": "x"}), "metrics"),
    "metrics flag": Case("master", "true or false", sets(metrics={"minions": "x"}), "metrics"),
    "metrics functions": Case("master", "functions is", sets(metrics={"functions": 1}), "metrics"),
    "metrics host": Case(
        "master", "no address of", sets(metrics={"host": "10.9.9.9", "port": 0}), "metrics"
    ),
    # the API
    "api host": Case("master", "no address of", api(host="10.9.9.9"), "rest_twisted"),
    "api certificate": Case(
        "master", "certificate", api(disable_ssl=False, ssl_crt=MISSING, ssl_key=MISSING),
        "rest_twisted",
    ),
    "api half": Case(
        "master", "is needed beside", api(disable_ssl=False, ssl_crt=MISSING), "rest_twisted"
    ),
    "api pair": Case("master", "cannot be used", pem, "rest_twisted"),
    "api log": Case("master", "No such file", api(log_access_file=f"{MISSING}/x"), "rest_twisted"),
    "api hook": Case(
        "master", "webhook_signatures", api(webhook_signatures={"x": "short"}), "rest_twisted"
    ),
    "git hook": Case(
        "master", "eight or more",
        lambda site: (api()(site), sets(gitfs_webhook_secret="short")(site))[-1],
        "gitfs_webhook_secret",
    ),
    # keys
    "key": Case("master", "not an RSA private key", puts("pki/master.pem", "x")),
    "passphrase": Case("master", "not an RSA private key", locked),
    "link": Case("master", "which does not exist", link),
    "half": Case("master", "is missing or empty", half),
    "minion key": Case("minion", "not a usable private key", puts("pki/minion.pem", "x")),
    "signature": Case(
        "master", "salt-key makes it with --gen-signature",
        sets(master_sign_pubkey=True, master_use_pubkey_signature=True),
        "master_use_pubkey_signature",
    ),
    "sign key": Case(
        "master", "not an RSA", puts("pki/master_sign.pem", "x", master_sign_pubkey=True)
    ),
    "signer": Case(
        "minion", "does not exist", sets(verify_master_pubkey_sign=True),
        "verify_master_pubkey_sign",
    ),
    "signer key": Case("minion", "not a usable public", puts("pki/master_sign.pub", "x")),
    # a cluster
    "secret": Case("cluster", "make one by", sets(cluster_secret="x"), "cluster_secret", False),
    "copies": Case("cluster", "return_copies: 3", sets(return_copies=3), "return_copies", False),
    "claims": Case("cluster", "claims: x", sets(claims="x"), "claims", False),
    "peers": Case(
        "cluster", "without cluster_secret", sets(cluster_id="x", cluster_peers=["two"]),
        "cluster_peers", False,
    ),
    "key pass": Case(
        "cluster", "cluster_key_pass", sets(cluster_key_pass="x"), "cluster_key_pass", False
    ),
    "etcd": Case("cluster", "claims_etcd", sets(claims="etcd"), "claims", False),
    "etcd pair": Case("cluster", "or neither", etcd(claims_etcd_cert="x"), "claims_etcd_cert"),
    "etcd address": Case(
        "cluster", "is not an address", sets(claims="etcd", claims_etcd=["x"]), "claims_etcd"
    ),
    "etcd certificate": Case("cluster", "no PEM file", shown, "claims_etcd_cert"),
    "etcd ca": Case("cluster", "claims_etcd_ca", etcd(claims_etcd_ca=MISSING), "claims_etcd_ca"),
    "conflict": Case(
        "cluster", "conflict must be", sets(cluster_roots={"conflict": "x"}), "cluster_roots"
    ),
    "quiet": Case("cluster", "cluster_roots", sets(cluster_roots={"quiet_ms": "x"}),
                  "cluster_roots"),
    "node": Case("cluster", "is damaged", puts("pki/cluster/node.json", "{")),
    "node interface tcp": Case(
        "cluster", "no address of", sets(interface="10.9.9.9", transport="tcp"), "interface"
    ),
}  # fmt: skip
"""Each kind of fault that a start can complain of."""
if os.geteuid() == 0:
    CASES["owner"] = Case("master", "belongs to root", sets(user="nobody"), late=False)
LATER = "-"
"""Begins the reason why a start does not raise an error."""
RAISES: dict[str, tuple[int, str]] = {
    "cluster.life.settings:check": (5, "secret, copies, claims, peers, key pass"),
    "cluster.links.port:PeerPort.startService": (1, "node interface"),
    "cluster.roots.settings:settings_of": (5, "conflict, quiet"),
    "config.document:parse": (5, "yaml, twice, nomap"),
    "config.git:_remote": (3, "- a remote that cannot work is left out, with a warning"),
    "config.git:_saltenvs": (1, "- likewise"),
    "config.git:check_path": (1, "- likewise"),
    "config.git:check_ref": (1, "- likewise"),
    "config.git:check_url": (5, "- likewise"),
    "config.git:judge": (7, "- likewise"),
    "config.git:typed": (4, "- likewise"),
    "config.gitpillar:pillar_remotes": (5, "- likewise"),
    "config.load:_Collector.include": (2, "include, itself"),
    "config.load:_Settling.fitted": (2, "type, sdb"),
    "config.load:_Settling.judge": (2, "port, algorithm, master_type"),
    "domain.api.signatures:_signed": (4, "api hook"),
    "domain.api.signatures:git_rule_of": (1, "git hook"),
    "domain.api.signatures:signatures_of": (
        1,
        "- what is no map is left out before",
    ),
    "domain.claims.etcd:_endpoint": (1, "etcd address"),
    "domain.claims.etcd:settings_of": (5, "etcd, etcd pair"),
    "domain.metrics.settings:_flag": (1, "metrics flag"),
    "domain.metrics.settings:_functions": (1, "metrics functions"),
    "domain.metrics.settings:_host": (1, "metrics host"),
    "domain.metrics.settings:_port": (1, "metrics port"),
    "domain.metrics.settings:settings_of": (3, "metrics"),
    "kinds:Parts.take": (1, "- a name that there is not is warned of, and the usual one taken"),
    "minion.links:Links.__init__": (1, "master_type"),
    "roles.api:check": (1, "api host"),
    "roles.caller:_asked": (2, "- of a command"),
    "roles.metrics:_library": (1, "- of the installation"),
    "roles.metrics:check": (1, "metrics host"),
    "roles.minion:Network._ask_who.asked": (1, "- a function of the site's says it at run time"),
    "roles.minion:_opened": (1, "minion key"),
    "roles.minion:led_by": (1, "- a function of the site's says it at run time"),
    "roles.minion:sign_key_of": (2, "signer, signer key"),
    "roles.ports:Ports.startService": (1, "interface"),
    "roles.ports:check_interface": (1, "interface, device"),
    "roles.ports:check_transport": (1, "transport, minion transport"),
    "roles.privileges:become": (2, "user"),
    "roles.privileges:check_owner": (1, "owner"),
    "roles.stores:Stores.job_log": (1, "- there is no other job store yet"),
    "stores.git.objects:library": (2, "- of the installation"),
    "stores.identity:_opened": (1, "key, passphrase, sign key"),
    "roles.lone:check_lone": (2, "- the state of a node on the disk: tests.advice.test_members"),
    "stores.identity:pub_signature_of": (2, "signature"),
    "tools.backup:backup": (1, "- of a command"),
    "tools.takeover:plan": (1, "- of a command"),
    "transports.etcdtls:_read": (1, "etcd ca"),
    "transports.etcdtls:_shown": (1, "etcd certificate"),
    "transports.etcdtls:tls_policy": (2, "etcd ca"),
    "transports.ipc:ControlServer._lock": (1, "- another daemon, which may end"),
    "transports.ipc:ControlServer.startService": (2, "- a directory that cannot be made"),
    "transports.ipc:check_socket": (3, "socket, long"),
    "transports.ssl_options:_context": (2, "version, ciphers"),
    "transports.ssl_options:_files": (3, "certfile, no certfile, verify_flags"),
    "transports.ssl_options:_trust": (1, "verify_locations"),
    "transports.ssl_options:_verify": (1, "cert_reqs, minion ssl"),
    "web.logfiles:LogFile.startService": (1, "api log"),
    "web.logfiles:check_log_file": (1, "api log"),
    "web.measures:MeasuresPort.startService": (1, "metrics host"),
    "web.service:Api.startService": (1, "api host"),
    "web.tls:context_of": (1, "api half"),
    "web.tls:loaded": (1, "api pair"),
    "web.tls:read": (1, "api certificate"),
    "worker.git.localfiles:LocalGit._remotes": (1, "- of the installation"),
    "worker.pillar.git:GitPillar._layout": (1, "- of a minion's pillar"),
    "worker.pillar.git:GitPillar._mounted": (1, "- likewise"),
    "worker.pillar.git:remotes": (1, "- likewise"),
    "worker.process.configio:Disk.read": (2, "bytes"),
    "worker.process.configio:Machine.call_id_function": (1, "- a function of the site's"),
    "worker.process.configio:load_from_disk": (1, "- tests.cli.test_main, and nothing to read"),
}
"""
What raises a C{ConfigError}: how often, and the cases that show it, or after a dash why a start
does not.
"""
MAKERS = (
    *("ConfigError", "WrongPlace", "PortError", "fail"),
    "ConfigError",
    "WrongPlace",
    "PortError",
    "fail",
    "cannot_listen",
    "_not_ours",
    "_unusable",
)
"""Classes, and functions that make one of them to be raised."""


def raisers() -> dict[str, int]:
    """C{module:function} to how many such errors it raises, by the code."""
    found: dict[str, int] = {}

    def walk(node: ast.AST, module: str, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}".strip(".")
            if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call):
                made = ast.unparse(child.exc.func).rpartition(".")[2]
                if any(made.endswith(maker) for maker in MAKERS):
                    found[f"{module}:{name}"] = found.get(f"{module}:{name}", 0) + 1
            walk(child, module, inner)

    top = Path(ROOT, "saltwisted")
    for path in top.rglob("*.py"):
        text = path.read_text()
        if any(f"{maker}(" in text for maker in MAKERS):
            module = ".".join(path.relative_to(top).with_suffix("").parts)
            walk(ast.parse(text), module, "")
    return found


GOOD = ("master", "cluster", "minion")


class RaiseTests(SynchronousTestCase):
    """The cases are all that there are."""

    def test_all(self) -> None:
        """
        Whatever raises an error of the configuration is in the table, as often as it does, with
        cases that are tried or a reason. A new one needs a row, and its place in the readings.
        """
        self.assertEqual(raisers(), {name: count for name, (count, _) in RAISES.items()})
        named = {
            case
            for _, words in RAISES.values()
            if not words.startswith(LATER)
            for case in words.split(", ")
        }
        self.assertEqual(named - CASES.keys() - {"owner"}, set())


class StartTests(SynchronousTestCase):
    """The cases, each with a start that looks first, one that does not, and the check."""

    def sites(self) -> dict[str, Site]:
        """By name of the case, or role of one that works."""
        home = scratch(self)
        os.chmod(home, 0o755)
        wanted: Mapping[str, tuple[str, Change]] = {
            **{role: (role, lambda site: None) for role in GOOD},
            **{name: (case.role, case.change) for name, case in CASES.items()},
        }
        found = {}
        ports = reserve_ports(3)
        for number, (name, (role, change)) in enumerate(wanted.items()):
            # Only those that work bind their ports, in whatever order
            own = reserve_ports(3) if name in GOOD else ports
            site = found[name] = Site(f"{home}/{number}", role, own)
            change(site)
            site.write()
        return found

    def test_verdicts(self) -> None:
        """
        A start that fails is one that the check has called an error, with the same words and the
        line of the option; one that works has nothing to be told. What the readings refuse, a part
        of the daemon refuses by itself, too: so they refuse nothing that would work.
        """
        sites = self.sites()
        late = [name for name, case in CASES.items() if case.late]
        order = [("start", name) for name in sites] + [("late", name) for name in late]
        order += [("check", name) for name in sites]
        answers = starts([(what, sites[name]) for what, name in order])
        became = dict(zip(order, answers, strict=True))

        for role in GOOD:
            self.assertEqual(became["start", role][0], 0, became["start", role][1])
            self.assertEqual(json.loads(became["check", role][1]), [], role)
        wrong = []
        for name, case in CASES.items():
            site = sites[name]
            status, said = became["start", name]
            if status not in (1, EX_CONFIG) or case.words not in said or "Traceback" in said:
                wrong.append(f"{name}: the start left with {status}: {said}")
            if case.late and became["late", name][0] == 0:
                wrong.append(f"{name}: a daemon works with it: {became['late', name][1]}")
            errors = [
                f"{one['path']}:{one['line']} {one['text']}"
                for one in json.loads(became["check", name][1])
                if one["severity"] == "error"
            ]
            if not any(case.words in text for text in errors):
                wrong.append(f"{name}: the check says {errors}")
            place = f"{site.conf}/{site.name}:{site.line(case.option)} " if case.option else ""
            if not any(text.startswith(place) for text in errors):
                wrong.append(f"{name}: at another place than {place}: {errors}")
        self.assertEqual(wrong, [], "\n".join(wrong))


def starts(cases: Sequence[tuple[str, Site]]) -> list[tuple[int, str]]:
    """What became of each: a status, and what was said."""
    question = [[what, site.role, site.conf] for what, site in cases]
    done = subprocess.run(
        [sys.executable, "-m", "tests.roles.starts"], input=json.dumps(question).encode(),
        capture_output=True, check=False, timeout=300, env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stderr.decode())
    return [(status, said) for status, said in json.loads(done.stdout)]
