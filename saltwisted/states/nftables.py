"""
Firewalls by nftables.

Arguments that are not named below are what C{nftables.build_rule} makes rules of.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.highstate.words import INTERNAL_KEYWORDS

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "nftables.version" in __salt__:
        return "nftables"
    return False, "nftables module could not be loaded"


def _new(name: str) -> dict[str, Any]:
    return {"name": name, "changes": {}, "result": None, "comment": ""}


def _done(ret: dict[str, Any], comment: str) -> dict[str, Any]:
    return {**ret, "changes": {"locale": ret["name"]}, "result": True, "comment": comment}


def _failed(ret: dict[str, Any], comment: str) -> dict[str, Any]:
    return {**ret, "result": False, "comment": comment}


def chain_present(
    name: str,
    table: str = "filter",
    table_type: str | None = None,
    hook: str | None = None,
    priority: Any = None,
    family: str = "ipv4",
) -> dict[str, Any]:
    """
    A chain is there.

    name
        The chain.
    table
        The table that has it.
    table_type
        Of a base chain: C{filter}, C{route} or C{nat}.
    hook
        Of a base chain.
    priority
        Of a base chain.
    family
        The family of the table.
    """
    ret = _new(name)
    if __salt__["nftables.check_chain"](table, name, family=family)["result"]:
        comment = f"nftables {name} chain is already exist in {table} table for {family}"
        return {**ret, "result": True, "comment": comment}
    if __opts__["test"]:
        comment = f"nftables chain {name} would be created in table {table} for family {family}"
        return {**ret, "comment": comment}
    base = {"table_type": table_type, "hook": hook, "priority": priority}
    did = __salt__["nftables.new_chain"](table, name, **base, family=family)
    if did["result"]:
        return _done(ret, f"nftables {name} chain in {table} table create success for {family}")
    why = did["comment"].strip()
    return _failed(ret, f"Failed to create {name} chain in {table} table: {why} for {family}")


def chain_absent(name: str, table: str = "filter", family: str = "ipv4") -> dict[str, Any]:
    """
    A chain is not there; its rules go with it.

    name
        The chain.
    table
        The table that has it.
    family
        The family of the table.
    """
    ret = _new(name)
    if not __salt__["nftables.check_chain"](table, name, family)["result"]:
        comment = f"nftables {name} chain is already absent in {table} table for {family}"
        return {**ret, "result": True, "comment": comment}
    if __opts__["test"]:
        comment = f"nftables {name} chain in {table} table needs to be removed {family}"
        return {**ret, "comment": comment}
    word = "flush"
    did = __salt__["nftables.flush"](table, name, family)
    if did["result"]:
        word = "delete"
        did = __salt__["nftables.delete_chain"](table, name, family)
        if did["result"]:
            comment = f"nftables {name} chain in {table} table delete success for {family}"
            return _done(ret, comment)
    why = did["comment"].strip()
    return _failed(ret, f"Failed to {word} {name} chain in {table} table: {why} for {family}")


def _built(family: str, command: str, kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any, str]:
    """The arguments that are the rule's, the rule, and how it is shown."""
    words = {key: value for key, value in kwargs.items() if key not in INTERNAL_KEYWORDS}
    build = __salt__["nftables.build_rule"]
    rule = build(family=family, **words)["rule"]
    shown = build(full=True, family=family, command=command, **words)["rule"]
    return words, rule, shown.strip()


def _saved(words: dict[str, Any], family: str) -> bool:
    """Save the rules if that is wanted; whether it was."""
    if words.get("save"):
        __salt__["nftables.save"](filename=None, family=family)
    return bool(words.get("save"))


def append(name: str, family: str = "ipv4", **kwargs: Any) -> dict[str, Any]:
    """
    A rule is in a chain; if it is not, it is added at the end.

    name
        A name for the rule.
    family
        The family of the table.
    table
        The table.
    chain
        The chain.
    save
        Also for the next start.
    """
    ret = _new(name)
    words, rule, shown = _built(family, "add", kwargs)
    table, chain = words["table"], words["chain"]
    if __salt__["nftables.check"](table, chain, rule, family)["result"]:
        comment = f"nftables rule for {name} already set ({shown}) for {family}"
        return {**ret, "result": True, "comment": comment}
    if __opts__.get("test"):
        comment = f"nftables rule for {name} needs to be set ({shown}) for {family}"
        return {**ret, "comment": comment}
    did = __salt__["nftables.append"](table, chain, rule, family)
    if not did["result"]:
        head = f"Failed to set nftables rule for {name}.\nAttempted rule was {shown}"
        return _failed(ret, f"{head} for {family}.\n{did['comment']}")
    word = "Set and Saved" if _saved(words, family) else "Set"
    return _done(ret, f"{word} nftables rule for {name} to: {shown} for {family}")


def insert(name: str, family: str = "ipv4", **kwargs: Any) -> dict[str, Any]:
    """
    A rule is in a chain; if it is not, it is put before another.

    name
        A name for the rule.
    family
        The family of the table.
    table
        The table.
    chain
        The chain.
    position
        The number of the rule that it is put before.
    save
        Also for the next start.
    """
    ret = _new(name)
    words, rule, shown = _built(family, "insert", kwargs)
    table, chain = words["table"], words["chain"]
    if __salt__["nftables.check"](table, chain, rule, family)["result"]:
        comment = f"nftables rule for {name} already set for {family} ({shown})"
        return {**ret, "result": True, "comment": comment}
    if __opts__.get("test"):
        comment = f"nftables rule for {name} needs to be set for {family} ({shown})"
        return {**ret, "comment": comment}
    did = __salt__["nftables.insert"](table, chain, words["position"], rule, family)
    if not did["result"]:
        head = f"Failed to set nftables rule for {name}."
        return _failed(ret, f"{head}\nAttempted rule was {shown}")
    word = "Set and Saved" if _saved(words, family) else "Set"
    return _done(ret, f"{word} nftables rule for {name} to: {shown} for {family}")


def delete(name: str, family: str = "ipv4", **kwargs: Any) -> dict[str, Any]:
    """
    A rule is not in a chain.

    name
        A name for the rule.
    family
        The family of the table.
    table
        The table.
    chain
        The chain.
    position
        Remove the rule of this number.
    save
        Also for the next start.
    """
    ret = _new(name)
    words, rule, shown = _built(family, "D", kwargs)
    table, chain = words["table"], words["chain"]
    if not __salt__["nftables.check"](table, chain, rule, family)["result"]:
        comment = f"nftables rule for {name} already absent for {family} ({shown})"
        return {**ret, "result": True, "comment": comment}
    if __opts__.get("test"):
        comment = f"nftables rule for {name} needs to be deleted for {family} ({shown})"
        return {**ret, "comment": comment}
    what = {"position": words["position"]} if "position" in words else {"rule": rule}
    if not __salt__["nftables.delete"](table, chain, family=family, **what)["result"]:
        head = f"Failed to delete nftables rule for {name}."
        return _failed(ret, f"{head}\nAttempted rule was {shown}")
    if _saved(words, family):
        return _done(ret, f"Deleted and Saved nftables rule for {name} for {shown}{family}")
    return _done(ret, f"Delete nftables rule for {name} {shown}")


def flush(
    name: str, family: str = "ipv4", ignore_absence: bool = False, **kwargs: Any
) -> dict[str, Any]:
    """
    A chain, or a whole table, has no rules.

    name
        A name for the state.
    family
        The family of the table.
    table
        The table.
    chain
        The chain; all of them if none is given.
    ignore_absence
        It is well if there is no such table or chain.
    """
    ret = _new(name)
    if __opts__["test"]:
        return {**ret, "comment": "nftables flush not performed in test mode."}
    table, chain = kwargs.get("table", "filter"), kwargs.get("chain", "")
    is_there = __salt__["nftables.check_table"](table, family=family)["result"]
    if not is_there and not ignore_absence:
        what = f"table {table} in family {family}, table does not exist."
        return _failed(ret, f"Failed to flush {what}")
    if "chain" in kwargs:
        has_chain = __salt__["nftables.check_chain"](table, chain, family=family)["result"]
        if not has_chain and not ignore_absence:
            what = f"chain {chain} in table {table} in family {family}, chain does not exist."
            return _failed(ret, f"Failed to flush {what}")
        is_there = is_there and has_chain
    did = __salt__["nftables.flush"](table, chain, family)["result"]
    if did or (ignore_absence and not is_there):
        where = f"{table} table {chain} chain {family} family"
        return _done(ret, f"Flush nftables rules in {where}")
    return _failed(ret, "Failed to flush nftables rules")


def set_policy(
    name: str, table: str = "filter", family: str = "ipv4", **kwargs: Any
) -> dict[str, Any]:
    """
    A base chain has a policy.

    name
        A name for the state.
    table
        The table.
    family
        The family of the table.
    chain
        The chain.
    policy
        The policy.
    save
        Also for the next start.
    save_filename
        The file that it is saved to.
    """
    ret = _new(name)
    chain, policy = kwargs["chain"], kwargs["policy"]
    about = f"nftables default policy for chain {chain} on table {table} for {family}"
    now = __salt__["nftables.get_policy"](table, chain, family)
    if (now or "").lower() == policy.lower():
        return {**ret, "result": True, "comment": f"{about} already set to {policy}"}
    if __opts__["test"]:
        return {**ret, "comment": f"{about} needs to be set to {policy}"}
    if not __salt__["nftables.set_policy"](table, chain, policy.lower(), family):
        return _failed(ret, "Failed to set nftables default policy")
    word = "Set"
    if kwargs.get("save"):
        __salt__["nftables.save"](filename=kwargs.get("save_filename"), family=family)
        word = "Set and saved"
    return _done(ret, f"{word} default policy for {chain} to {policy} family {family}")


def table_present(name: str, family: str = "ipv4", **kwargs: Any) -> dict[str, Any]:
    """
    A table is there.

    name
        The table.
    family
        Its family.
    """
    ret = _new(name)
    if __salt__["nftables.check_table"](name, family=family)["result"]:
        comment = f"nftables table {name} already exists in family {family}"
        return {**ret, "result": True, "comment": comment}
    if __opts__["test"]:
        comment = f"nftables table {name} would be created in family {family}"
        return {**ret, "comment": comment}
    if __salt__["nftables.new_table"](name, family=family)["result"]:
        return _done(ret, f"nftables table {name} successfully created in family {family}")
    return _failed(ret, f"Failed to create table {name} for family {family}")


def table_absent(name: str, family: str = "ipv4", **kwargs: Any) -> dict[str, Any]:
    """
    A table is not there.

    name
        The table.
    family
        Its family.
    """
    ret = _new(name)
    if not __salt__["nftables.check_table"](name, family)["result"]:
        comment = f"nftables table {name} is already absent from family {family}"
        return {**ret, "result": True, "comment": comment}
    if __opts__["test"]:
        comment = f"nftables table {name} would be deleted from family {family}"
        return {**ret, "comment": comment}
    if __salt__["nftables.delete_table"](name, family=family)["result"]:
        return _done(ret, f"nftables table {name} successfully deleted from family {family}")
    return _failed(ret, f"Failed to delete table {name} from family {family}")
