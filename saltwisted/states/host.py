"""
Lines of the hosts file.
"""

from __future__ import annotations

import ipaddress
from typing import Any

__salt__: Any
__opts__: Any


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def present(name: str, ip: Any, comment: str = "", clean: bool = False) -> dict[str, Any]:
    """
    A name stands for an address, or for each of several.

    comment
        To put behind the addresses.
    clean
        The name is taken from all other addresses.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": ""}
    wanted = ip if isinstance(ip, list) else [ip]
    hosts = __salt__["hosts.list_hosts"]()
    said: list[str] = []
    add = [address for address in wanted if address not in hosts]
    remark = list(add) if comment else []
    remove: list[str] = []
    for address, entry in hosts.items():
        if not isinstance(entry, dict):
            continue  # a comment of the file
        has_name = name in entry.get("aliases", ())
        if address not in wanted:
            if has_name and clean:
                remove.append(address)
            elif has_name:
                ret.setdefault("warnings", []).append(
                    f"Host {name} present for IP address {address}. To get rid of this warning, "
                    f"either run this state with 'clean' set to True to remove {name} from "
                    f"{address}, or add {address} to the 'ip' argument."
                )
        elif has_name:
            if comment and entry.get("comment") != comment:
                remark.append(address)
            else:
                said.append(f"Host {name} ({address}) already present")
        elif _is_address(address):
            add.append(address)
            if comment:
                remark.append(address)
        else:
            ret["result"] = False
            said.append(f"Invalid IP Address for {name} ({address})")

    def each(
        addresses: list[str], key: str, value: str, function: str, words: tuple[str, str, str]
    ) -> None:
        for address in dict.fromkeys(addresses):
            would, done, failed = (word.format(name=name, ip=address) for word in words)
            if __opts__["test"]:
                if key != "comment_added":
                    ret["result"] = None
                said.append(would)
            elif __salt__[function](address, value):
                said.append(done)
            else:
                ret["result"] = False
                said.append(failed)
                continue
            ret["changes"].setdefault(key, {}).setdefault(address, []).append(value)

    each(
        add,
        "added",
        name,
        "hosts.add_host",
        (
            "Host {name} ({ip}) would be added",
            "Added host {name} ({ip})",
            "Failed to add host {name} ({ip})",
        ),
    )
    # A comment may hold braces of its own.
    text = comment.replace("{", "{{").replace("}", "}}")
    each(
        remark,
        "comment_added",
        comment,
        "hosts.set_comment",
        (
            f"Comment for {{ip}} ({text}) would be added",
            f"Set comment for host {{ip}} ({text})",
            f"Failed to add comment for host {{ip}} ({text})",
        ),
    )
    each(
        remove,
        "removed",
        name,
        "hosts.rm_host",
        (
            "Host {name} ({ip}) would be removed",
            "Removed host {name} ({ip})",
            "Failed to remove host {name} ({ip})",
        ),
    )
    ret["comment"] = "\n".join(said)
    return ret


def absent(name: str, ip: Any) -> dict[str, Any]:
    """
    A name does not stand for an address, or for any of several.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": None, "comment": ""}
    said = []
    for address in ip if isinstance(ip, list) else [ip]:
        if not __salt__["hosts.has_pair"](address, name):
            ret["result"] = True
            said.append(f"Host {name} ({address}) already absent")
        elif __opts__["test"]:
            said.append(f"Host {name} ({address}) needs to be removed")
        elif __salt__["hosts.rm_host"](address, name):
            ret["changes"] = {"host": name}
            ret["result"] = True
            said.append(f"Removed host {name} ({address})")
        else:
            ret["result"] = False
            said.append("Failed to remove host")
    ret["comment"] = "\n".join(said)
    return ret


def only(name: str, hostnames: Any) -> dict[str, Any]:
    """
    An address has these names and no others.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": None, "comment": ""}
    names = [hostnames] if isinstance(hostnames, str) else hostnames
    old = " ".join(__salt__["hosts.get_alias"](name))
    new = " ".join(one.strip() for one in names)
    if old == new:
        ret["comment"] = f'IP address {name} already set to "{new}"'
        ret["result"] = True
        return ret
    if __opts__["test"]:
        ret["comment"] = f'Would change {name} from "{old}" to "{new}"'
        return ret
    ret["result"] = __salt__["hosts.set_host"](name, new)
    if not ret["result"]:
        ret["comment"] = f'hosts.set_host failed to change {name} from "{old}" to "{new}"'
        return ret
    ret["comment"] = f'successfully changed {name} from "{old}" to "{new}"'
    ret["changes"] = {name: {"old": old, "new": new}}
    return ret
