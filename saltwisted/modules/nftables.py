"""
Firewalls by nftables.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
from typing import Any

from saltwisted.modules import _nftables_rule
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]

_FAMILIES = {
    "ipv4": "ip",
    "ip4": "ip",
    "ip": "ip",
    "ipv6": "ip6",
    "ip6": "ip6",
    "inet": "inet",
    "arp": "arp",
    "bridge": "bridge",
    "netdev": "netdev",
}
_SAVED = ("ip", "ip6", "inet", "arp", "bridge", "netdev")
_CONF = "/etc/nftables"
_NUMERIC = ("--numeric",) * 3

Answer = dict[str, Any]


def __virtual__() -> Any:
    if systools.which("nft"):
        return "nftables"
    return False, "The nftables execution module failed to load: nftables is not installed."


def _nft(*words: Any) -> str:
    """What nft says, errors too."""
    cmd = ["nft", *(str(word) for word in words if word != "")]
    return str(__salt__["cmd.run"](cmd, python_shell=False))


def _answer(comment: str, result: bool = False) -> Answer:
    return {"comment": comment, "result": result}


def _split(rule: Any) -> list[str]:
    """The words of a rule that is given as text."""
    return shlex.split(str(rule))


def _conf() -> str | None:
    known = ("RedHat", "Arch", "Debian")
    if __grains__["os_family"] in known or __grains__["os"] == "Gentoo":
        return _CONF
    return None


def _lacking(
    table: Any, chain: Any, family: str, rule: Any = True, is_deep: bool = True
) -> Answer | None:
    """What is not given, or not there; C{None} if all is."""
    if not chain:
        return _answer("Chain needs to be specified")
    if not rule:
        return _answer("Rule needs to be specified")
    found = check_table(table, family=family)
    if found["result"] and is_deep:
        found = check_chain(table, chain, family=family)
    return None if found["result"] else found


def version() -> str:
    """
    The version of nftables.

    CLI Example::

        salt '*' nftables.version
    """
    return _nft("--version").split()[1]


def build_rule(
    table: str | None = None,
    chain: str | None = None,
    command: str | None = None,
    position: Any = "",
    full: Any = None,
    family: str = "ipv4",
    **kwargs: Any,
) -> Answer:
    """
    A rule in nft's own words, made of arguments as C{iptables.build_rule} takes them.

    With C{full} (the text C{True}) it is the whole command.

    CLI Example::

        salt '*' nftables.build_rule match=state connstate=RELATED,ESTABLISHED jump=ACCEPT
        salt '*' nftables.build_rule filter input command=insert position=3 \\
            full=True match=state connstate=related,established jump=accept
    """
    nft_family = _FAMILIES[family]
    rule = _nftables_rule.built(kwargs, nft_family)
    ret = {"comment": "", "rule": rule, "result": False}
    if full in ("True", "true"):
        for word, value in (("Table", table), ("Chain", chain), ("Command", command)):
            if not value:
                return {**ret, "comment": f"{word} needs to be specified"}
        where = f"{nft_family} {table} {chain}"
        if command in ("Insert", "insert", "INSERT"):
            at = f"position {position} " if position else ""
            ret["rule"] = f"nft insert rule {where} {at}{rule}"
        else:
            ret["rule"] = f"nft {command} rule {where} {rule}"
    return {**ret, "comment": "Successfully built rule" if ret["rule"] else "", "result": True}


def get_saved_rules(conf_file: str | None = None) -> list[str]:
    """
    The lines of a file of rules that are no comments.

    CLI Example::

        salt '*' nftables.get_saved_rules
    """
    with open(conf_file or _conf() or "", encoding="utf-8", errors="surrogateescape") as file:
        return [line for line in file if line.strip() and not line.strip().startswith("#")]


def _json(*words: str) -> Any:
    try:
        found = json.loads(_nft(*words))
    except ValueError:
        return []
    return found.get("nftables") or [] if isinstance(found, dict) else []


def list_tables(family: str = "ipv4") -> list[Any]:
    """
    The tables of a family.

    CLI Example::

        salt '*' nftables.list_tables family=ipv6
    """
    found = _json("--json", *_NUMERIC, "list", "tables", _FAMILIES[family])
    return [item["table"] for item in found if "metainfo" not in item]


def get_rules(family: str = "ipv4") -> list[str]:
    """
    The tables of a family as nft writes them.

    CLI Example::

        salt '*' nftables.get_rules family=ipv6
    """
    words = (*_NUMERIC, "list", "table", _FAMILIES[family])
    return [_nft(*words, table["name"]) for table in list_tables(family)]


def get_rules_json(family: str = "ipv4") -> Any:
    """
    All rules of a family as data.

    CLI Example::

        salt '*' nftables.get_rules_json family=ipv6
    """
    return _json(*_NUMERIC, "--json", "list", "ruleset", _FAMILIES[family])


def save(filename: str | None = None, family: str = "ipv4") -> str:
    """
    Write the rules of all families to a file, or to C{salt-all-in-one.nft} in a directory.

    CLI Example::

        salt '*' nftables.save /etc/nftables
    """
    path = filename or _conf() or ""
    text = "#! nft -f\n"
    for each in _SAVED:
        tables = get_rules(each)
        text += ("\n" if tables else "") + "\n".join(tables)
    text += "\n"
    if __salt__["file.directory_exists"](path):
        path = os.path.join(path, "salt-all-in-one.nft")
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    except OSError as error:
        raise CommandExecutionError(f"Problem writing to configuration file: {error}") from error
    return text


def get_rule_handle(
    table: str = "filter", chain: str | None = None, rule: Any = None, family: str = "ipv4"
) -> Answer:
    """
    The number by which nft knows a rule.

    CLI Example::

        salt '*' nftables.get_rule_handle filter input rule='tcp dport 22 log accept'
    """
    lacking = _lacking(table, chain, family, rule)
    if lacking is not None:
        return lacking
    found = check(table, chain, rule, family=family)
    if not found["result"]:
        return found
    said = _nft(*_NUMERIC, "--handle", "list", "chain", _FAMILIES[family], table, chain)
    handle = re.search(rf"{_as_listed(rule)} # handle (?P<handle>\d+)", said)
    if handle:
        return {"result": True, "handle": handle["handle"]}
    return _answer(f"Could not find rule {rule}")


def _as_listed(rule: Any) -> str:
    """A pattern for a rule: nft leaves out the brackets around what is one."""
    return str(rule).replace("{ ", "{? ?").replace(" }", " ?}?")


def check(
    table: str = "filter", chain: str | None = None, rule: Any = None, family: str = "ipv4"
) -> Answer:
    """
    Whether a rule, in nft's own words, is in a chain.

    CLI Example::

        salt '*' nftables.check filter input rule='tcp dport 22 log accept'
    """
    lacking = _lacking(table, chain, family, rule)
    if lacking is not None:
        return lacking
    said = _nft("--handle", "list", "chain", _FAMILIES[family], table, chain)
    about = f"Rule {rule} in chain {chain} in table {table} in family {family}"
    if re.search(f"{_as_listed(rule)} #", said):
        return _answer(f"{about} exists", True)
    return _answer(f"{about} does not exist")


def check_chain(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> Answer:
    """
    Whether a table has a chain.

    CLI Example::

        salt '*' nftables.check_chain filter input
    """
    if not chain:
        return _answer("Chain needs to be specified")
    about = f"Chain {chain} in table {table} in family {family}"
    if f"chain {chain} {{" in _nft("list", "table", _FAMILIES[family], table):
        return _answer(f"{about} exists", True)
    return _answer(f"{about} does not exist")


def check_table(table: str | None = None, family: str = "ipv4") -> Answer:
    """
    Whether there is a table.

    CLI Example::

        salt '*' nftables.check_table nat
    """
    if not table:
        return _answer("Table needs to be specified")
    nft_family = _FAMILIES[family]
    about = f"Table {table} in family {family}"
    if f"table {nft_family} {table}" in _nft("list", "tables", nft_family):
        return _answer(f"{about} exists", True)
    return _answer(f"{about} does not exist")


def _did(said: str, about: str, word: str) -> Answer:
    if said:
        return _answer(f"{about} could not be {word}")
    return _answer(f"{about} {word}", True)


def new_table(table: str, family: str = "ipv4") -> Answer:
    """
    Make a table.

    CLI Example::

        salt '*' nftables.new_table filter
    """
    found = check_table(table, family=family)
    if not table or found["result"]:
        return found
    said = _nft("add", "table", _FAMILIES[family], table)
    return _did(said, f"Table {table} in family {family}", "created")


def delete_table(table: str, family: str = "ipv4") -> Answer:
    """
    Remove a table.

    CLI Example::

        salt '*' nftables.delete_table filter
    """
    found = check_table(table, family=family)
    if not found["result"]:
        return found
    said = _nft("delete", "table", _FAMILIES[family], table)
    return _did(said, f"Table {table} in family {family}", "deleted")


def new_chain(
    table: str = "filter",
    chain: str | None = None,
    table_type: str | None = None,
    hook: str | None = None,
    priority: Any = None,
    family: str = "ipv4",
) -> Answer:
    """
    Make a chain; with a type, a hook and a priority it is a base chain.

    CLI Example::

        salt '*' nftables.new_chain filter input table_type=filter hook=input priority=0
    """
    lacking = _lacking(table, chain, family, is_deep=False)
    if lacking is not None:
        return lacking
    about = f"Chain {chain} in table {table} in family {family}"
    if check_chain(table, chain, family=family)["result"]:
        return _answer(f"{about} already exists")
    words = []
    if table_type or hook or priority:
        if not (table_type and hook and str(priority)):
            return _answer("Table_type, hook, and priority required.")
        words = ["{", "type", table_type, "hook", hook, "priority", f"{priority};", "}"]
    said = _nft("--", "add", "chain", _FAMILIES[family], table, chain, *words)
    return _did(said, about, "created")


def delete_chain(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> Answer:
    """
    Remove a chain.

    CLI Example::

        salt '*' nftables.delete_chain filter input
    """
    lacking = _lacking(table, chain, family)
    if lacking is not None:
        return lacking
    said = _nft("delete", "chain", _FAMILIES[family], table, chain)
    return _did(said, f"Chain {chain} in table {table} in family {family}", "deleted")


def _added(words: list[str], table: str, chain: Any, rule: Any, family: str) -> Answer:
    """Add a rule that is not there yet."""
    lacking = _lacking(table, chain, family, rule)
    if lacking is not None:
        return lacking
    where = f"chain {chain} in table {table} in family {family}"
    if check(table, chain, rule, family=family)["result"]:
        return _answer(f"Rule {rule} {where} already exists")
    command, *position = words
    said = _nft(command, "rule", _FAMILIES[family], table, chain, *position, *_split(rule))
    if said:
        return _answer(f'Failed to add rule "{rule}" {where}.')
    return _answer(f'Added rule "{rule}" {where}.', True)


def append(
    table: str = "filter", chain: str | None = None, rule: Any = None, family: str = "ipv4"
) -> Answer:
    """
    Add a rule, in nft's own words, at the end of a chain.

    CLI Example::

        salt '*' nftables.append filter input rule='tcp dport 22 log accept'
    """
    return _added(["add"], table, chain, rule, family)


def insert(
    table: str = "filter",
    chain: str | None = None,
    position: Any = None,
    rule: Any = None,
    family: str = "ipv4",
) -> Answer:
    """
    Put a rule, in nft's own words, at the beginning of a chain, or before a rule.

    @param position: the number of that rule.

    CLI Example::

        salt '*' nftables.insert filter input position=4 rule='tcp dport 22 log accept'
    """
    words = ["insert", *(["position", str(position)] if position else [])]
    return _added(words, table, chain, rule, family)


def delete(
    table: str,
    chain: str | None = None,
    position: Any = None,
    rule: Any = None,
    family: str = "ipv4",
) -> Answer:
    """
    Remove a rule, given in nft's own words or by its number.

    CLI Example::

        salt '*' nftables.delete filter input position=3
        salt '*' nftables.delete filter input rule='tcp dport 22 log accept'
    """
    if position and rule:
        return _answer("Only specify a position or a rule, not both")
    lacking = _lacking(table, chain, family)
    if lacking is not None:
        return lacking
    if not position:
        if not check(table, chain, rule, family=family)["result"]:
            where = f"chain {chain} in table {table} in family {family}"
            return _answer(f"Rule {rule} {where} does not exist")
        found = get_rule_handle(table, chain, rule, family)
        if not found["result"]:
            return found
        position = found["handle"]
    said = _nft("delete", "rule", _FAMILIES[family], table, chain, "handle", position)
    if said:
        where = f"chain {chain}  table {table} in family {family}"
        return _answer(f'Failed to delete rule "{rule}" in {where}')
    where = f"chain {chain} in table {table} in family {family}"
    return _answer(f'Deleted rule "{rule}" in {where}.', True)


def flush(table: str = "filter", chain: str = "", family: str = "ipv4") -> Answer:
    """
    Remove all rules of a chain, or of a table.

    CLI Example::

        salt '*' nftables.flush filter input
    """
    lacking = _lacking(table, chain or "any", family, is_deep=bool(chain))
    if lacking is not None:
        return lacking
    where = f"from table {table} in family {family}."
    words = ["table", _FAMILIES[family], table]
    if chain:
        where = f"from chain {chain} in table {table} in family {family}."
        words = ["chain", _FAMILIES[family], table, chain]
    if _nft("flush", *words):
        return _answer(f"Failed to flush rules {where}")
    return _answer(f"Flushed rules {where}", True)


def _chain(table: str, chain: str, family: str) -> dict[str, Any]:
    """The facts of a chain; none if it is not there."""
    for item in get_rules_json(family=family):
        found: dict[str, Any] = item.get("chain", {})
        if (found.get("table"), found.get("name")) == (table, chain):
            return found
    return {}


def get_policy(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> Any:
    """
    The policy of a base chain.

    CLI Example::

        salt '*' nftables.get_policy filter input
    """
    if not chain:
        return "Error: Chain needs to be specified"
    return _chain(table, chain, family).get("policy")


def set_policy(
    table: str = "filter", chain: str | None = None, policy: str | None = None, family: str = "ipv4"
) -> Any:
    """
    Set the policy of a base chain; whether that was possible.

    CLI Example::

        salt '*' nftables.set_policy filter input accept
    """
    if not chain:
        return "Error: Chain needs to be specified"
    if not policy:
        return "Error: Policy needs to be specified"
    facts = _chain(table, chain, family)
    if not facts.keys() >= {"type", "hook", "prio"}:
        return False
    base = f"type {facts['type']} hook {facts['hook']} priority {facts['prio']};"
    where = ["chain", _FAMILIES[family], table, chain]
    cmd = ["nft", "add", *where, f"{{ {base} policy {policy}; }}"]
    return not __salt__["cmd.run_all"](cmd, python_shell=False)["retcode"]
