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
    work = _Lines(ret, wanted, comment)
    work.sort(__salt__["hosts.list_hosts"](), clean)
    work.each(
        work.add,
        ("added", name, "hosts.add_host"),
        (
            "Host {name} ({ip}) would be added",
            "Added host {name} ({ip})",
            "Failed to add host {name} ({ip})",
        ),
    )
    # A comment may hold braces of its own.
    text = comment.replace("{", "{{").replace("}", "}}")
    work.each(
        work.remark,
        ("comment_added", comment, "hosts.set_comment"),
        (
            f"Comment for {{ip}} ({text}) would be added",
            f"Set comment for host {{ip}} ({text})",
            f"Failed to add comment for host {{ip}} ({text})",
        ),
    )
    work.each(
        work.remove,
        ("removed", name, "hosts.rm_host"),
        (
            "Host {name} ({ip}) would be removed",
            "Removed host {name} ({ip})",
            "Failed to remove host {name} ({ip})",
        ),
    )
    ret["comment"] = "\n".join(work.said)
    return ret


class _Lines:
    """
    What is to be done with the lines of a name.

    @ivar add: addresses that the name is given; C{remove}: those that it is taken from.
    @ivar remark: addresses that the comment is put behind.
    @ivar said: the comment of the state so far.
    """

    def __init__(self, ret: dict[str, Any], wanted: list[Any], comment: str) -> None:
        self.ret = ret
        self.wanted = wanted
        self.comment = comment
        self.add: list[str] = []
        self.remark: list[str] = []
        self.remove: list[str] = []
        self.said: list[str] = []

    def sort(self, hosts: dict[str, Any], clean: bool) -> None:
        """Compare with the file as it is."""
        self.add = [address for address in self.wanted if address not in hosts]
        self.remark = list(self.add) if self.comment else []
        for address, entry in hosts.items():
            if isinstance(entry, dict):  # else it is a comment of the file
                self._sort_one(address, entry, clean)

    def _sort_one(self, address: str, entry: dict[str, Any], clean: bool) -> None:
        name = self.ret["name"]
        has_name = name in entry.get("aliases", ())
        if address not in self.wanted:
            if has_name and clean:
                self.remove.append(address)
            elif has_name:
                self.ret.setdefault("warnings", []).append(
                    f"Host {name} present for IP address {address}. To get rid of this warning, "
                    f"either run this state with 'clean' set to True to remove {name} from "
                    f"{address}, or add {address} to the 'ip' argument."
                )
        elif has_name:
            if self.comment and entry.get("comment") != self.comment:
                self.remark.append(address)
            else:
                self.said.append(f"Host {name} ({address}) already present")
        elif _is_address(address):
            self.add.append(address)
            if self.comment:
                self.remark.append(address)
        else:
            self.ret["result"] = False
            self.said.append(f"Invalid IP Address for {name} ({address})")

    def each(
        self, addresses: list[str], what: tuple[str, str, str], words: tuple[str, str, str]
    ) -> None:
        """
        Do something with each of several addresses.

        @param what: the key among the changes, the value there, and the function.
        @param words: what would be done, what was done, what failed.
        """
        ret, (key, value, function) = self.ret, what
        for address in dict.fromkeys(addresses):
            would, done, failed = (word.format(name=ret["name"], ip=address) for word in words)
            if __opts__["test"]:
                if key != "comment_added":
                    ret["result"] = None
                self.said.append(would)
            elif __salt__[function](address, value):
                self.said.append(done)
            else:
                ret["result"] = False
                self.said.append(failed)
                continue
            ret["changes"].setdefault(key, {}).setdefault(address, []).append(value)


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
