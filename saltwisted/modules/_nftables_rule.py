"""
Rules of nftables, made of arguments.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.highstate.words import INTERNAL_KEYWORDS

_NOT_OURS = (*INTERNAL_KEYWORDS, "state", "chain", "save", "table")

_SETS = {
    "connstate": "ct state",
    "icmp-type": "icmp type",
    "icmpv6-type": "icmpv6 type",
    "pkttype": "meta pkttype",
}
"""Arguments whose value is a set."""

_AFTER = {
    ("jump",): "",
    ("j",): "",
    ("redirect-to", "to-port"): "redirect to ",
    ("to-ports",): "--to-ports ",
    ("to-source",): "",
    ("to-destination",): "",
    ("reject-with",): "reject with ",
}
"""What stands at the end, in this order; of several names the first counts."""


def _first(given: dict[str, Any], *names: str) -> Any:
    return next((given[name] for name in names if given.get(name)), None)


def _ports(value: Any) -> str:
    """Ports as nft lists them: from high to low."""
    return ", ".join(str(port) for port in sorted(map(int, value.split(",")), reverse=True))


def built(kwargs: dict[str, Any], family: str) -> str:
    """
    The text of a rule.

    @param family: as nft calls it.
    """
    given = {key: value for key, value in kwargs.items() if key not in _NOT_OURS}
    if "target" in given:
        given["jump"] = given.pop("target")
    words = [
        f"meta {word} {given[name]} "
        for name, word in (("if", "iifname"), ("of", "oifname"))
        if name in given
    ]
    words += [f"{word} {{ {given[name]} }} " for name, word in _SETS.items() if name in given]
    words += ["counter "] if "counter" in given else []
    for short, long in (("saddr", "source"), ("daddr", "destination")):
        if short in given or long in given:
            words.append(f"{family} {short} {given.get(short) or given.get(long)} ")
    for name in ("dport", "sport"):
        if name in given:
            words.append(f"{name} {{ {str(given[name]).replace(':', '-')} }} ")
    for name in ("dports", "sports"):
        if name in given:
            words.append(f"{name[:-1]} {{ {_ports(given[name])} }} ")
    for names, word in _AFTER.items():
        if any(name in given for name in names):
            words.append(f"{word}{_first(given, *names) if len(names) > 1 else given[names[0]]} ")
    # The protocol stands in front of the ports.
    rule, proto = "".join(words).strip(), given.get("proto", "")
    return rule.replace("dport", f"{proto} dport").replace("sport", f"{proto} sport")
