"""
Firewalls by iptables.

Arguments that are not named below are options of iptables by their long names; C{connstate} is
C{--state}, and C{name_} is the C{--name} of a match. An option of a target that has no value is
given as an empty string.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from saltwisted.domain.highstate.words import INTERNAL_KEYWORDS, tag_of

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "iptables.version" in __salt__:
        return True
    return False, "iptables module could not be loaded"


def _new(name: str) -> dict[str, Any]:
    return {"name": name, "changes": {}, "result": None, "comment": ""}


def _done(ret: dict[str, Any], comment: str) -> dict[str, Any]:
    return {**ret, "changes": {"locale": ret["name"]}, "result": True, "comment": comment}


def _failed(ret: dict[str, Any], comment: str) -> dict[str, Any]:
    return {**ret, "result": False, "comment": comment}


def _file(save: Any) -> Any:
    """The file that an argument C{save} names; none if it is simply true."""
    return None if save is True else save


def chain_present(name: str, table: str = "filter", family: str = "ipv4") -> dict[str, Any]:
    """
    A chain is there.

    name
        The chain.
    table
        The table that has it.
    family
        C{ipv4} or C{ipv6}.
    """
    ret = _new(name)
    if __salt__["iptables.check_chain"](table, name, family) is True:
        comment = f"iptables {name} chain is already exist in {table} table for {family}"
        return {**ret, "result": True, "comment": comment}
    if __opts__["test"]:
        comment = f"iptables {name} chain in {table} table needs to be set for {family}"
        return {**ret, "comment": comment}
    said = __salt__["iptables.new_chain"](table, name, family)
    if said is True:
        return _done(ret, f"iptables {name} chain in {table} table create success for {family}")
    return _failed(
        ret, f"Failed to create {name} chain in {table} table: {said.strip()} for {family}"
    )


def chain_absent(name: str, table: str = "filter", family: str = "ipv4") -> dict[str, Any]:
    """
    A chain is not there; its rules go with it.

    name
        The chain.
    table
        The table that has it.
    family
        C{ipv4} or C{ipv6}.
    """
    ret = _new(name)
    if not __salt__["iptables.check_chain"](table, name, family):
        comment = f"iptables {name} chain is already absent in {table} table for {family}"
        return {**ret, "result": True, "comment": comment}
    if __opts__["test"]:
        comment = f"iptables {name} chain in {table} table needs to be removed {family}"
        return {**ret, "comment": comment}
    word = "flush"
    said = __salt__["iptables.flush"](table, name, family)
    if not said:
        word = "delete"
        said = __salt__["iptables.delete_chain"](table, name, family)
        if said is True:
            comment = f"iptables {name} chain in {table} table delete success for {family}"
            return _done(ret, comment)
    return _failed(
        ret, f"Failed to {word} {name} chain in {table} table: {said.strip()} for {family}"
    )


def _each(
    state: Callable[..., dict[str, Any]], name: str, family: str, rules: list[dict[str, Any]]
) -> dict[str, Any]:
    """Apply a state to several rules; they are saved once, at the end."""
    ret = _new(name)
    changed: list[Any] = []
    comments = []
    file: Any = False
    for given in rules:
        rule = {key: value for key, value in given.items() if key not in ("rules", "__agg__")}
        if rule.get("save"):
            file = rule["save"]
            rule["save"] = False
        did = state(**rule)
        changed += [did["changes"]["locale"]] if "locale" in did["changes"] else []
        comments.append(did["comment"])
        ret["result"] = did["result"]
    if file:
        __salt__["iptables.save"](filename=_file(file), family=family)
    if changed:
        ret["changes"] = {"locale": changed}
    return {**ret, "comment": "\n".join(comments)}


def _built(
    name: str, table: str, family: str, command: str, kwargs: dict[str, Any]
) -> tuple[dict[str, Any], str, str]:
    """The arguments that are the rule's, the rule, and the command that shows it."""
    left = ("__agg__", *INTERNAL_KEYWORDS)
    words = {key: value for key, value in kwargs.items() if key not in left}
    words.update(name=name, table=table)
    build = __salt__["iptables.build_rule"]
    rule = build(family=family, **words)
    full = build(full="True", family=family, command=command, **words)
    return words, rule, full.strip()


def _rules_of(tables: dict[str, Any]) -> list[Any]:
    return [chain.get("rules") for chains in tables.values() for chain in chains.values()]


def _saved_anew(save: Any, family: str) -> Any:
    """Save the rules if those of the file are others; what was said, or C{None}."""
    saved = __salt__["iptables.get_saved_rules"](conf_file=_file(save), family=family)
    if _rules_of(__salt__["iptables.get_rules"](family=family)) == _rules_of(saved):
        return None
    return __salt__["iptables.save"](filename=_file(save), family=family)


def _there(ret: dict[str, Any], comment: str, full: str, save: Any, family: str) -> dict[str, Any]:
    """The rule is there; perhaps it is not in the file."""
    if save:
        said = _saved_anew(save, family)
        if said is not None:
            comment += f"\nSaved iptables rule {ret['name']} for {family}\n{full}\n{said}"
    return {**ret, "result": True, "comment": comment}


def _set(ret: dict[str, Any], full: str, save: Any, family: str) -> dict[str, Any]:
    """The rule was set."""
    name = ret["name"]
    if not save:
        return _done(ret, f"Set iptables rule for {name} to: {full} for {family}")
    said = __salt__["iptables.save"](filename=_file(save), family=family)
    return _done(ret, f"Set and saved iptables rule {name} for {family}\n{full}\n{said}")


def append(name: str, table: str = "filter", family: str = "ipv4", **kwargs: Any) -> dict[str, Any]:
    """
    A rule is in a chain; if it is not, it is added at the end.

    name
        A name for the rule.
    table
        The table.
    family
        C{ipv4} or C{ipv6}.
    chain
        The chain.
    save
        Also for the next start; or the file that it is saved to.
    """
    if "rules" in kwargs:
        return _each(append, name, family, kwargs["rules"])
    ret = _new(name)
    words, rule, full = _built(name, table, family, "A", kwargs)
    save = words.get("save")
    if __salt__["iptables.check"](table, words["chain"], rule, family) is True:
        comment = f"iptables rule for {name} already set ({full}) for {family}"
        return _there(ret, comment, full, save, family)
    if __opts__["test"]:
        comment = f"iptables rule for {name} needs to be set ({full}) for {family}"
        return {**ret, "comment": comment}
    if __salt__["iptables.append"](table, words["chain"], rule, family):
        return _set(ret, full, save, family)
    return _failed(
        ret,
        f"Failed to set iptables rule for {name}.\nAttempted rule was {full} for {family}",
    )


def insert(name: str, table: str = "filter", family: str = "ipv4", **kwargs: Any) -> dict[str, Any]:
    """
    A rule is in a chain; if it is not, it is put at a position.

    name
        A name for the rule.
    table
        The table.
    family
        C{ipv4} or C{ipv6}.
    chain
        The chain.
    position
        Where: 1 is the first.
    save
        Also for the next start; or the file that it is saved to.
    """
    if "rules" in kwargs:
        return _each(insert, name, family, kwargs["rules"])
    ret = _new(name)
    words, rule, full = _built(name, table, family, "I", kwargs)
    save = words.get("save")
    if __salt__["iptables.check"](table, words["chain"], rule, family) is True:
        comment = f"iptables rule for {name} already set for {family} ({full})"
        return _there(ret, comment, full, save, family)
    if __opts__["test"]:
        comment = f"iptables rule for {name} needs to be set for {family} ({full})"
        return {**ret, "comment": comment}
    if not __salt__["iptables.insert"](table, words["chain"], words["position"], rule, family):
        return _set(ret, full, save, family)
    return _failed(ret, f"Failed to set iptables rule for {name}.\nAttempted rule was {full}")


def delete(name: str, table: str = "filter", family: str = "ipv4", **kwargs: Any) -> dict[str, Any]:
    """
    A rule is not in a chain.

    name
        A name for the rule.
    table
        The table.
    family
        C{ipv4} or C{ipv6}.
    chain
        The chain.
    position
        Remove the rule that is there, rather than one that looks like this.
    save
        Also for the next start; or the file that it is saved to.
    """
    if "rules" in kwargs:
        return _each(delete, name, family, kwargs["rules"])
    ret = _new(name)
    words, rule, full = _built(name, table, family, "D", kwargs)
    chain = words["chain"]
    is_there = __salt__["iptables.check"](table, chain, rule, family) is True
    if not is_there and "position" not in words:
        comment = f"iptables rule for {name} already absent for {family} ({full})"
        return {**ret, "result": True, "comment": comment}
    if __opts__["test"]:
        comment = f"iptables rule for {name} needs to be deleted for {family} ({full})"
        return {**ret, "comment": comment}
    what = {"position": words["position"]} if "position" in words else {"rule": rule}
    if __salt__["iptables.delete"](table, chain, family=family, **what):
        return _failed(
            ret, f"Failed to delete iptables rule for {name}.\nAttempted rule was {full}"
        )
    if not words.get("save"):
        return _done(ret, f"Delete iptables rule for {name} {full}")
    said = __salt__["iptables.save"](filename=_file(words["save"]), family=family)
    return _done(ret, f"Deleted and saved iptables rule {name} for {family}\n{full}\n{said}")


def set_policy(
    name: str, table: str = "filter", family: str = "ipv4", **kwargs: Any
) -> dict[str, Any]:
    """
    A chain has a policy.

    name
        A name for the state.
    table
        The table.
    family
        C{ipv4} or C{ipv6}.
    chain
        The chain.
    policy
        The policy.
    save
        Also for the next start; or the file that it is saved to.
    """
    ret = _new(name)
    chain, policy = kwargs["chain"], kwargs["policy"]
    about = f"iptables default policy for chain {chain} on table {table} for {family}"
    if __salt__["iptables.get_policy"](table, chain, family) == policy:
        return {**ret, "result": True, "comment": f"{about} already set to {policy}"}
    if __opts__["test"]:
        return {**ret, "comment": f"{about} needs to be set to {policy}"}
    if __salt__["iptables.set_policy"](table, chain, policy, family):
        return _failed(ret, "Failed to set iptables default policy")
    word = "Set"
    if kwargs.get("save"):
        __salt__["iptables.save"](filename=_file(kwargs["save"]), family=family)
        word = "Set and saved"
    return _done(ret, f"{word} default policy for {chain} to {policy} family {family}")


def flush(name: str, table: str = "filter", family: str = "ipv4", **kwargs: Any) -> dict[str, Any]:
    """
    A chain, or a whole table, has no rules.

    name
        A name for the state.
    table
        The table.
    family
        C{ipv4} or C{ipv6}.
    chain
        The chain; all of them if none is given.
    """
    ret = _new(name)
    chain = kwargs.get("chain", "")
    if __opts__["test"]:
        comment = f"iptables rules in {name} table {table} chain {family} family"
        return {**ret, "comment": f"{comment} needs to be flushed"}
    if __salt__["iptables.flush"](table, chain, family):
        return _failed(ret, "Failed to flush iptables rules")
    return _done(ret, f"Flush iptables rules in {table} table {chain} chain {family} family")


def mod_aggregate(
    low: dict[str, Any], chunks: list[dict[str, Any]], running: dict[str, Any]
) -> dict[str, Any]:
    """The rules of all states that would do the same, set by the first of them."""
    if low.get("fun") not in ("append", "insert"):
        return low
    rules: list[dict[str, Any]] = []
    for chunk in chunks:
        if (
            tag_of(chunk) in running
            or chunk.get("state") != "iptables"
            or "__agg__" in chunk
            or chunk.get("fun") != low.get("fun")
        ):
            continue
        if chunk not in rules:
            rules.append(copy.deepcopy(chunk))
            chunk["__agg__"] = True
    if rules:
        low.setdefault("rules", []).extend(rules)
    return low
