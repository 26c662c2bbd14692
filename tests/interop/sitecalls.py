"""
What functions of public trees answer, with ours or beside the C{salt} package.

    PYTHONPATH=. python tests/interop/sitecalls.py CLONE... > ours
    PYTHONPATH=. PEERS/3008/bin/python tests/interop/sitecalls.py --stock CLONE... > stock
    PYTHONPATH=. python tests/interop/sitecalls.py --compare ours stock

A clone is a git repository, as L{tests.interop.sitetrees} reads it. The calls are those that say
by themselves what to give them: filters, parsers, names, and what reads grains, pillar and files
of a temporary directory. Each side has the modules loaded by its own loader.
"""

from __future__ import annotations

import copy
import importlib
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

GRAINS = {
    "os": "Debian",
    "os_family": "Debian",
    "kernel": "Linux",
    "id": "web__core__eu-west-1",
    "fqdn": "web1.example.org",
    "host": "web1",
    "num_cpus": 6,
    "mem_total": 20000,
    "roles": ["web"],
    "pnda": {"flavor": "standard"},
    "pnda_cluster": "blue",
    "virtual": "physical",
    "cpu_flags": ["vmx"],
    "oscodename": "bookworm",
}
PILLAR = {
    "system": {"var": "/var/x"},
    "java": {"jdk_home": "/opt/jdk", "default": {"prio": 5}},
    "metalk8s": {
        "nodes": {"a": {"roles": ["master"]}, "b": {"roles": ["node", "master"]}},
        "debug": True,
    },
    "nodes": {"b1": {"roles": ["x"]}},
    "branch": "feature",
    "global_roles": ["web", "db"],
    "rgw_configurations": ["rgw", "other"],
    "ganesha_configurations": ["silver"],
    "zookeeper": {"hosts": ["a", "b"]},
    "hdfs": {"nameservices": ["one"]},
    "cri": {"socket_timeout": 30},
    "gateway": "gw.example.org",
    "data": {"text": "yes", "number": "5", "none": None},
}
IFACES = {
    "br0": {"ipaddr": "10.9.0.1", "netmask": "255.255.255.0"},
    "out": {"ipaddr": "192.168.121.1", "netmask": "255.255.0.0"},
}
NODE = {
    "id": 7,
    "ifaces": {
        "lo": {"prefixes": ["10.132.255.7/32", "2a03:2260:2342:ffff::7/128"]},
        "vlan5": {"prefixes": ["10.1.2.3/24"], "ospf": {"stub_iface": True}},
        "vx_a": {"vxlan": 5},
    },
    "roles": ["router"],
    "sysLocation": "x",
}
SPLIT = {"podAntiAffinity": {"hard": [{"topologyKey": "h"}], "soft": [{"topologyKey": "s"}]}}


def _each(tree: str, kind: str, calls: Mapping[str, Iterable[Sequence[Any]]]) -> list[Any]:
    return [(tree, kind, name, list(args)) for name, several in calls.items() for args in several]


CALLS: list[tuple[str, str, str, list[Any]]] = [
    *_each(
        "ffho-salt-public",
        "modules",
        {
            "ffho.re_replace": [("a+", "b", "caat")],
            "ffho.is_bool": [(True,), (0,)],
            "ffho.any_item_in_list": [(["a"], ["b", "a"]), ([], ["a"])],
            "ffho.cmp": [(1, 2), ("b", "a"), (3, 3)],
            "ffho_net.gen_batman_iface_mac": [(1, 20, "bat"), (12, "300", 1234), (1, 2, "odd")],
            "ffho_net.get_batman_iface_penalty": [("vx_ffp_DCI",), ("eth0",)],
            "ffho_net.get_node_iface_ips": [(NODE, "lo"), (NODE, "lo", True), (NODE, "nosuch")],
            "ffho_net.get_primary_ip": [(NODE, "v4"), (NODE, "v6")],
            "ffho_net.get_router_id": [(NODE, "x")],
            "ffho_net.get_te_prefixes": [({"prefixes": {"10.0.0.0/8": ["x"]}}, "x", "v4")],
            "ffho_net.cidr_to_dotted_mask": [(24,), (0,)],
            "ffho_net.is_subprefix": [("10.0.0.0/8", "10.1.0.0/16"), ("10.0.0.0/8", "11.0.0.0/9")],
            "ffho_net.get_network_address": [("10.1.2.3/24",), ("10.1.2.3/24", True)],
            "ffho_net.get_vrfs_by_id": [()],
            "ffho_net.get_ospf_config": [(NODE, "x")],
            "ffho_netfilter.generate_mgmt_config": [({}, NODE)],
            "ffho_netfilter.get_ospf_active_interface": [(NODE,)],
            "ffho_netfilter.get_vxlan_interfaces": [(NODE["ifaces"],)],
            "ffho_auth.get_ssh_authkeys": [({"keys": {}}, NODE, "x", "root")],
        },
    ),
    *_each(
        "states",
        "modules",
        {
            "common.saltenv": [()],
            "common.global_roles": [()],
            "common.iter_to_bullet_list": [(["a", "b"],)],
            "common.format_error_msg": [(["b", "a"], "wrong"), ([], "wrong"), (["b", "a"], "w", 0)],
            "password.sha256": [("x",)],
            "yaml_utils.yaml_dquote": [('a "b"\n\u00fc',)],
            "yaml_utils.yaml_squote": [("it's",)],
            "yaml_utils.yaml_encode": [("x: y",), (5,), (None,), (True,), ([1],)],
            "pkg_installed.exists": [()],
            "hosts.list_hosts": [()],
        },
    ),
    *_each(
        "DeepSea",
        "modules",
        {
            "deepsea.user": [()],
            "deepsea.group": [()],
            "deepsea.ssl_ca_cert_cn": [()],
            "deepsea.ssl_cert_cn_wildcard": [()],
            "rgw.configurations": [()],
            "rgw.configuration": [("rgw",), ("nosuch",)],
            "helper.convert_out": [("x",), (b"x",), (5,), (None,)],
            "helper.run": [("echo a; exit 3",), (["true"],)],
            "mds.get_name": [("web1",), ("1web",)],
            "multi.kill_iperf_cmd": [()],
        },
    ),
    *_each("caasp-salt", "grains", {"caasp_nodename.caasp_nodename": [()]}),
    *_each(
        "caasp-salt",
        "modules",
        {
            "caasp_filters.is_ip": [("10.0.0.1",), ("::1",), ("x",)],
            "caasp_filters.get_max": [([1, 5, 3],)],
            "caasp_filters.basename": [("/a/b.txt",)],
            "caasp_cri.cri_name": [()],
            "caasp_cri.cri_runtime_endpoint": [()],
        },
    ),
    *_each(
        "sre-salt-prime",
        "modules",
        {"meta.classify": [(), ("db__core__us_master",), ("odd",)], "meta.rds_endpoint": [()]},
    ),
    *_each(
        "afk-saltstack",
        "utils",
        {
            "jinja_filters.format_route_policy_name": [("p", "ipv4"), ("p", "")],
            "jinja_filters.deep_get": [({"a": {"b": 1}}, "a", "b"), ({}, "a")],
        },
    ),
    *_each(
        "sonic-saltstack",
        "utils",
        {
            "naming.normalize_plural": [("a",), (["a"],)],
        },
    ),
    *_each("salt-talk", "modules", {"mysite.ping": [()]}),
    *_each(
        "salt-vault-formula",
        "utils",
        {
            "vaultutil.timestring_map": [("60m",), (5,), (None,), ("1.5h",), ("x",)],
            "vaultutil.iso_to_timestamp": [("2022-08-22T17:16:21-09:30",), ("2022-08-22T17:16Z",)],
            "vaultutil.parse_config": [
                ({"auth": {"token": "t"}, "server": {"url": "http://h"}},),
                ({"auth": {"method": "approle", "role_id": "r"}, "server": {"url": "u"}},),
                ({},),
            ],
            "vaultutil.is_v2": [("secret/x",)],
        },
    ),
    *_each(
        "salt-vault-formula",
        "modules",
        {
            "vault.get_server_config": [()],
            "vault.list_secrets": [("x",)],
            "vault.update_config": [()],
        },
    ),
    *_each(
        "saltstack-formulas",
        "modules",
        {
            "system.log_dir": [("x",)],
            "system.work_dir": [("x",)],
            "system.custom_dir": [("x", "y")],
            "system.home_dir": [("x",)],
            "system.basename": [("http://h/a/b.tgz",), ("a\\b",)],
            "system.eval_path_patterns": [(["/etc/host*name", "/no*"],)],
            "java.alternatives_install_cmd": [("/opt/j",)],
            "java.alternatives_set_cmd": [("/opt/j",)],
            "chronos_client.merge": [({"a": 1}, {"a": 2, "b": 3})],
            "search.my_host": [()],
            "search.resolve_ips": [(["127.0.0.1"],)],
            "zookeeper.ensemble_address": [()],
            "hdfs.nameservice_names": [()],
            "riemann.as_file_names": [(["a b", "c"],)],
        },
    ),
    *_each(
        "heroes-salt",
        "modules",
        {
            "os_network.gw_with_cidr": [("10.0.0.1", "10.0.0.0/8")],
            "os_network.strip_cidr": [("10.0.0.1/8",)],
            "os_network.convert_4to6": [("192.168.67.37", "2a07:de40:b27e:64::/96")],
            "os_network.sixify": [("firstyear", "2a07:de40:b27e:5002::"), ("x", "nonsense")],
        },
    ),
    *_each("heroes-salt", "grains", {"os_grains.system_python": [()]}),
    *_each(
        "platform-salt",
        "modules",
        {
            "pnda.cluster_name": [()],
            "pnda.make_path_from_segments": [(["a", "b"],)],
            "pnda.generate_http_link": [("x", ":80/y")],
        },
    ),
    *_each("ffhf-salt", "grains", {"freifunk.which": [("sh",), ("nosuch",)]}),
    *_each(
        "salt-formula-keystone",
        "modules",
        {
            "keystone_policy.rule_list": [("/nosuch",), ("{dir}/policy.json",)],
            "keystone_policy.rule_get": [("a", "{dir}/policy.json"), ("no", "{dir}/policy.json")],
            "keystone_policy.rule_set": [("b", "rule:a", "{dir}/policy.json")],
            "keystone_policy.rule_delete": [("b", "{dir}/policy.json")],
        },
    ),
    *_each(
        "salt-formula-linux",
        "modules",
        {
            "linux_hosts.fqdn_sort_fn": [("abc",)],
            "linux_hosts.fqdn_sort_filter": [(["abc", "a", "ab"],), (None,)],
        },
    ),
    *_each(
        "salt-formula-maas",
        "modules",
        {
            "creds.convert_tuple_to_string": [(["a", "b", "c"],), (["a"],)],
            "creds.convert_string_to_tuple": [("a:b:c",), ("a",)],
        },
    ),
    *_each(
        "metalk8s",
        "modules",
        {
            "metalk8s_os.get_kubereserved": [()],
            "metalk8s_service_configuration.get_pod_affinity": [
                (SPLIT, {"app": "x"}, "n"),
                ({}, {}, "n"),
            ],
            "metalk8s_service_configuration.get_service_conf": [("n", "", {}), ("n", "c", 5)],
            "metalk8s_solutions.read_config": [()],
            "metalk8s_solutions.manifest_from_iso": [("/nosuch",)],
            "metalk8s_network.get_ip_from_cidrs": [(["127.0.0.0/8"],), (["10.255.255.0/30"],)],
            "metalk8s_checks.packages": [()],
            "metalk8s_checks.ports": [()],
            "cri.available": [("no",)],
        },
    ),
    *_each(
        "metalk8s",
        "utils",
        {
            "pillar_utils.assert_equals": [({"a": 1}, {"a": 2}), ({"a": 1}, {"a": 1})],
            "pillar_utils.assert_keys": [({"a": 1}, ["a", "b"])],
            "pillar_utils.promote_errors": [({"a": {"_errors": ["x"]}}, "a")],
            "pillar_utils.errors_to_dict": [(["x"],)],
        },
    ),
    *_each(
        "test-saltstack",
        "grains",
        {
            "custom.frobnicate": [()],
        },
    ),
    *_each(
        "salt-shared",
        "modules",
        {
            "extipv4.combine_net_mask": [("10.9.0.0", "24"), ("x", "24"), ("10.9.0.0", "x")],
            "extipv4.cidr_from_net": [("10.9.0.0/255.255.255.0",), ("10.9.0.0/20",)],
            "extipv4.start_from_net": [("10.9.0.30/24",)],
            "extipv4.end_from_net": [("10.9.0.30/24",)],
            "extipv4.netcidr_from_net": [("10.9.0.30/255.255.255.0",)],
            "extipv4.short_from_net": [("10.9.0.30/24",)],
            "extipv4.reverse_from_net": [("10.9.0.30/24",)],
            "extipv4.short_reverse_from_net": [("10.9.0.30/24",)],
            "extipv4.size_from_net": [("10.9.0.30/22",)],
            "extipv4.calc_ip_from_net": [("10.9.0.0/24", 30), ("10.9.0.0/24", -1)],
            "extipv4.net_list": [
                ("net_addr", ["br0", "out"], IFACES),
                ("net_addr_mask", ["br0"], IFACES, {"prefix": "  "}),
                ("net_addr_cidr", ["br0", "out"], IFACES),
                ("net_broadcast", ["br0"], IFACES),
                ("net_reverse", ["br0"], IFACES),
                ("nosuch", ["br0"], IFACES),
            ],
            "extutils.re_sub": [("a+", "b", "caat")],
            "extutils.re_findall": [("a.", "abac")],
            "extutils.quote": [("a b",)],
        },
    ),
]
PAGE = "docs/site-modules.md"
"""Ours tells it with the name of what is not there."""
Get = Callable[[str, str], Any]
"""The function of a kind and name, or C{None}."""


def with_ours(opts: dict[str, Any]) -> Get:
    """Our loader."""
    from saltwisted.worker.process.loader import Loaders

    loaders = Loaders(opts, grains=GRAINS, pillar=PILLAR, stock=False)
    return lambda kind, name: loaders[kind].get(name)


def with_stock(opts: dict[str, Any]) -> Get:
    """Stock's."""
    import salt.config
    import salt.loader
    import salt.loader.lazy

    opts = {**salt.config.DEFAULT_MINION_OPTS, **opts, "grains": GRAINS, "pillar": PILLAR}
    context: dict[str, Any] = {}
    utils = salt.loader.utils(opts, context=context)
    modules = salt.loader.minion_mods(opts, context=context, utils=utils)
    kinds: dict[str, Any] = {
        "utils": utils,
        "modules": modules,
        "states": salt.loader.states(opts, modules, utils, None, context=context),
        "grains": salt.loader.grain_funcs(opts),
    }

    def get(kind: str, name: str) -> Any:
        try:
            return kinds[kind][name]
        except KeyError:
            return None

    return get


def filled(value: Any, folder: str) -> Any:
    """The arguments, with the temporary directory in them."""
    if isinstance(value, str):
        return value.replace("{dir}", folder)
    if isinstance(value, list):
        return [filled(each, folder) for each in value]
    return value


def answer(get: Get, kind: str, name: str, args: list[Any], folder: str) -> str:
    """What a call answers, as one text."""
    found = get(kind, name)
    if found is None:
        return "absent"
    try:
        value = found(*filled(copy.deepcopy(args), folder))
    except Exception as error:
        value = f"{type(error).__name__}: {error}"
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value)).replace(folder, "{dir}")
    text = text.replace(f" ({PAGE})", "").replace("saltwisted.loaded.", "salt.loaded.")
    return re.sub(r"^OrderedDict\((.*)\)$", r"\1", text)


def look(name: str, texts: Iterable[tuple[str, str]], make: Callable[..., Get]) -> list[Any]:
    """Answers of one tree's calls, each with what was called."""
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, module, text in texts:
            place = Path(folder, kind, f"{module}.py")
            place.parent.mkdir(exist_ok=True)
            if not place.exists():
                place.write_text(text)
        Path(folder, "policy.json").write_text('{"a": "role:admin", "c": ""}')
        Path(folder, "archive").mkdir()
        Path(folder, "archive", "product.txt").write_text("NAME=x\nVERSION=1.2\nSHORT_VERSION=1\n")
        opts = {"module_dirs": [folder], "id": GRAINS["id"], "file_client": "local"}
        opts.update(cachedir=folder, extension_modules=f"{folder}/extmods", root_dir=folder)
        get = make(opts)
        for tree, kind, function, args in CALLS:
            if tree == name:
                said = answer(get, kind, function, args, folder)
                found.append(
                    [f"{tree}/{kind}/{function}({json.dumps(args, default=repr)[1:-1]})", said]
                )
    return found


def compare(one: str, two: str) -> int:
    """Print what differs, and count."""
    answers = [
        dict(json.loads(line) for line in Path(path).read_text().splitlines())
        for path in (one, two)
    ]
    ours, stock = answers
    differ = [call for call in stock if ours.get(call) != stock[call]]
    for call in differ:
        sys.stdout.write(f"{call}\n    ours:  {ours.get(call)}\n    stock: {stock[call]}\n")
    absent = sum(1 for said in stock.values() if said == "absent")
    sys.stdout.write(f"{len(stock)} calls, {absent} absent with stock, {len(differ)} differ\n")
    return 1 if differ else 0


def main(words: list[str]) -> int:
    """Answers as lines of JSON, or the comparison of two such files."""
    logging.disable(logging.CRITICAL)
    if words[0] == "--compare":
        return compare(*words[1:])
    make: Callable[..., Get] = with_ours
    if words[0] == "--stock":
        make, words = with_stock, words[1:]
    # A neighbour, since stock's Python has not what the package of the tests imports
    files_of = importlib.import_module("sitetrees").files_of
    for clone in words:
        name, texts = files_of(Path(os.path.abspath(clone)))
        for line in look(name, texts, make):
            sys.stdout.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
