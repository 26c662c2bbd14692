"""
The cluster options of the configuration: which combinations cannot work, and where this node is
reached.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from saltwisted import advice
from saltwisted.cluster.life.lifecycle import Settings
from saltwisted.cluster.links.peers import join_address
from saltwisted.config.options import MasterConfig
from saltwisted.domain.claims.electorate import ETCD, MODES
from saltwisted.domain.claims.etcd import Settings as EtcdSettings
from saltwisted.domain.claims.etcd import settings_of as etcd_settings
from saltwisted.domain.replica.joining import weak_secret
from saltwisted.errors import ConfigError
from saltwisted.worker.grains.netinfo import interfaces

MOST_ADDRESSES = 8
CONTAINERS = ("docker", "br-", "veth", "virbr", "cni", "lxc", "lxdbr", "podman")
"""Beginnings of names of interfaces that lead to guests of this machine alone."""
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


def check(config: MasterConfig) -> None:
    """
    Refuse what cannot work as a cluster.

    @raises ConfigError: with what to write instead.
    """
    if config.cluster_secret is not None:
        reason = weak_secret(str(config.cluster_secret))
        if reason:
            raise ConfigError(f"{reason}; {advice.of('cluster.secret')}")
    if config.cluster_key_pass and config.cluster_key_pass != config.key_pass:
        raise ConfigError(
            "cluster_key_pass: the cluster's identity key is pki_dir/master.pem here; set key_pass "
            "to the same"
        )
    if config.return_copies not in (1, 2):
        raise ConfigError(
            f"return_copies: {config.return_copies}: use 1 or 2: a return is acknowledged when "
            "this many nodes have it. All nodes get it afterwards in any case"
        )
    if config.claims not in MODES:
        raise ConfigError(
            f"claims: {config.claims}: use pair (of two members the first by name decides), both "
            "(each of two members acts: things may happen twice) or etcd"
        )
    if config.claims == ETCD:
        etcd_of(config)
    if config.cluster_peers and config.cluster_secret is None:
        raise ConfigError(
            "cluster_peers without cluster_secret: nodes cannot prove who they are. "
            f"{advice.of('cluster.tokens')}"
        )


def etcd_of(config: MasterConfig) -> EtcdSettings:
    """
    Where the etcd is that decides about claims.

    @raises ConfigError: with the option, and what to write instead.
    """
    return etcd_settings(
        config.claims_etcd,
        {
            "ca": config.claims_etcd_ca,
            "cert": config.claims_etcd_cert,
            "key": config.claims_etcd_key,
            "user": config.claims_etcd_user,
            "password": config.claims_etcd_password,
            "prefix": config.claims_etcd_prefix,
        },
    )


def settings_of(config: MasterConfig) -> Settings:
    """The cluster options of the configuration."""
    return Settings(
        node=config.id,
        interface=config.interface,
        port=int(config.cluster_pool_port),
        peers=tuple(str(peer) for peer in config.cluster_peers if str(peer) != config.id),
        cluster_secret=str(config.cluster_secret or ""),
        pinned=str(config.cluster_pub_fingerprint or ""),
        **where_of(config),
    )


def where_of(config: MasterConfig) -> dict[str, Any]:
    """Where others and minions reach this node, as its network is now."""
    if config.interface in EVERYWHERE:
        hosts = own_hosts(primary_address(), interfaces(), bool(config.ipv6))
    else:
        hosts = [config.interface]
    port = int(config.cluster_pool_port)
    return {
        "addresses": tuple(join_address(host, port) for host in hosts[:1]),
        "also": tuple(join_address(host, port) for host in hosts[1:]),
        "serves": join_address(hosts[0], int(config.ret_port)) if hosts else "",
        "hosts": tuple(hosts),
    }


def own_hosts(primary: str, links: Mapping[str, Mapping[str, Any]], ipv6: bool) -> list[str]:
    """
    The addresses of this machine, best first: that of its default route, then those of its
    interfaces that are up. What is only good on this machine or this cable is none.
    """
    found = [primary] if primary else []
    for name, link in links.items():
        if link.get("up") and not name.startswith(CONTAINERS):
            for family in ("inet", "inet6") if ipv6 else ("inet",):
                found += [str(one["address"]) for one in link.get(family, ())]
    usable = (one for one in dict.fromkeys(found) if _is_reachable(one))
    return list(usable)[:MOST_ADDRESSES]


def _is_reachable(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)


def primary_address() -> str:
    """The address from which this machine reaches others; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return ""
