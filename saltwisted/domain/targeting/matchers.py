"""
Whether a target matches one minion, by the facts of that minion.

The minion uses it for each publication; it is also used wherever a master or a state run asks about
one minion: top files, mine, C{match.*}. The answers are those of C{salt/matchers} in 3008.2. An
invalid target matches nobody, and C{note} gets the reason; the caller logs it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from attrs import frozen

from saltwisted.domain.presence import MOST_ADDRESSES
from saltwisted.domain.targeting.bounds import path_fault
from saltwisted.domain.targeting.compound import Word, evaluate
from saltwisted.domain.targeting.globs import globbed
from saltwisted.domain.targeting.nodegroups import Note, expand, silent
from saltwisted.domain.targeting.traverse import DELIMITER, subdict_match

Network = (
    ipaddress.IPv4Address | ipaddress.IPv6Address | ipaddress.IPv4Network | ipaddress.IPv6Network
)

DELIMITED = frozenset(("grain", "grain_pcre", "pillar"))
"""Types for which a minion heeds the C{delimiter} of a publication; Salt forgets the others."""


@frozen(kw_only=True)
class MinionFacts:
    """
    What a target may ask about a minion.

    @ivar data: the value of a key of the C{data} module's store, or C{None}.
    @ivar expand_range: the host names of a range expression, if that library is installed.
    """

    id: str
    grains: Mapping[str, Any] = {}
    pillar: Mapping[str, Any] = {}
    nodegroups: Mapping[str, Any] = {}
    data: Callable[[str], Any] | None = None
    expand_range: Callable[[str], Iterable[str]] | None = None


def matches(
    tgt: Any,
    tgt_type: str,
    facts: MinionFacts,
    delimiter: str = DELIMITER,
    note: Note = silent,
) -> bool:
    """
    Whether a target means this minion.

    @param delimiter: between the keys of grains and pillar; a compound names its own.
    @param note: hears one sentence when the target cannot be understood.
    """
    matcher = MATCHERS.get(tgt_type)
    if matcher is None:
        note(f"Attempting to match with unknown matcher: {tgt_type}")
        return False
    return matcher(tgt, facts, delimiter, note)


def publication_matches(load: Mapping[str, Any], facts: MinionFacts, note: Note = silent) -> bool:
    """Whether a published job means this minion; it needs C{tgt jid fun arg}, as in Salt."""
    if not all(key in load for key in ("tgt", "jid", "fun", "arg")):
        return False
    tgt_type = load.get("tgt_type", "glob")
    delimiter = load.get("delimiter", DELIMITER) if tgt_type in DELIMITED else DELIMITER
    return matches(load["tgt"], tgt_type, facts, delimiter, note)


def compiled(pattern: Any) -> re.Pattern[str] | None:
    """A regular expression; C{None} if it is none. Python keeps the last ones compiled."""
    try:
        return re.compile(pattern)
    except (re.error, TypeError, RecursionError, OverflowError):
        return None


def glob(tgt: Any, facts: MinionFacts, _delimiter: str, _note: Note) -> bool:
    """Shell wild cards against the id."""
    return isinstance(tgt, str) and globbed(facts.id, tgt)


def pcre(tgt: Any, facts: MinionFacts, _delimiter: str, note: Note) -> bool:
    """A regular expression that matches the beginning of the id."""
    regex = compiled(tgt)
    if regex is None:
        note(f"Invalid regular expression {tgt!r}")
        return False
    return regex.match(facts.id) is not None


def in_list(tgt: Any, facts: MinionFacts, _delimiter: str, _note: Note) -> bool:
    """The id is one of the names, given as a list or separated by commas."""
    if isinstance(tgt, str):
        return facts.id in tgt.split(",") if facts.id else tgt == ""
    return isinstance(tgt, (list, tuple, set, frozenset, dict)) and facts.id in tgt


def _nested(which: str, regex: bool = False, exact: bool = False) -> Any:
    def matcher(tgt: Any, facts: MinionFacts, delimiter: str, note: Note) -> bool:
        if not isinstance(tgt, str) or delimiter not in tgt:
            note(f"Got insufficient arguments for {which} match statement from master")
            return False
        reason = path_fault(tgt, delimiter)
        if reason:
            note(reason)
            return False
        data = facts.grains if which == "grains" else facts.pillar
        return subdict_match(data, tgt, delimiter, regex, exact)

    return matcher


def parse_network(tgt: Any) -> Network | None:
    """An address or a network without host bits; C{None} otherwise."""
    try:
        return ipaddress.ip_address(tgt)
    except ValueError:
        try:
            return ipaddress.ip_network(tgt)
        except ValueError:
            return None


def in_network(network: Network, grains: Mapping[str, Any]) -> bool:
    """Whether one of the addresses in the grains is this address, or in this network."""
    addresses = grains.get(f"ipv{network.version}")
    if not isinstance(addresses, (list, tuple, set)):
        addresses = [addresses] if isinstance(addresses, str) else []
    if isinstance(network, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return str(network) in addresses
    first, mask = int(network.network_address), int(network.netmask)
    return any(
        number is not None and number & mask == first
        for number in (
            _address_number(text, network.version)
            for text in islice(addresses, MOST_ADDRESSES)
            if isinstance(text, str)
        )
    )


_IPV4 = re.compile(r"(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})", re.A)


@lru_cache(maxsize=16384)
def _address_number(address: str, version: int) -> int | None:
    """An address as a number; C{None} if it is none, or of the other version."""
    match = _IPV4.fullmatch(address) if version == 4 else None
    if match is not None:
        # Ten times as quick, for minions with hundreds of them
        one, two, three, four = map(int, match.groups())
        if max(one, two, three, four) < 256:
            return one << 24 | two << 16 | three << 8 | four
        return None
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return int(parsed) if parsed.version == version else None


def ipcidr(tgt: Any, facts: MinionFacts, _delimiter: str, note: Note) -> bool:
    """An address or network in CIDR notation."""
    network = parse_network(tgt)
    if network is None:
        note(f"Invalid IP/CIDR target: {tgt}")
        return False
    return in_network(network, facts.grains)


def in_range(tgt: Any, facts: MinionFacts, _delimiter: str, note: Note) -> bool:
    """A range expression, if somebody can expand it."""
    if facts.expand_range is None:
        note("Range matcher unavailable (unable to import seco.range)")
        return False
    return str(facts.grains.get("fqdn")) in list(facts.expand_range(tgt))


def nodegroup(tgt: Any, facts: MinionFacts, delimiter: str, note: Note) -> bool:
    """A group by name; groups are known to masters and in top files."""
    if tgt not in facts.nodegroups:
        note(f"Unknown nodegroup {tgt!r}")
        return False
    return compound(expand(tgt, facts.nodegroups, note), facts, delimiter, note)


def data(tgt: Any, facts: MinionFacts, _delimiter: str, _note: Note) -> bool:
    """A value that C{data.update} stored on the minion."""
    if not isinstance(tgt, str) or facts.data is None:
        return False
    parts = tgt.split(":")
    if len(parts) < 2:
        return False
    value = facts.data(parts[0])
    if value is None:
        return False
    if isinstance(value, list):
        wanted = parts[1].lower()
        return any(globbed(str(member).lower(), wanted) for member in value)
    if isinstance(value, dict):
        return parts[1] in value
    return globbed(str(value), parts[1])


def managing_minion(tgt: Any, facts: MinionFacts, _delimiter: str, _note: Note) -> bool:
    """The minion of exactly this id (3008's C{M@})."""
    return bool(tgt == facts.id)


def resource(tgt: Any, _facts: MinionFacts, _delimiter: str, note: Note) -> bool:
    """3008's resources (C{T@}), which this minion does not manage: never."""
    note(f"Resource targets are not supported: T@{tgt}")
    return False


def compound(tgt: Any, facts: MinionFacts, _delimiter: str, note: Note) -> bool:
    """Words with engines and operators; see L{saltwisted.domain.targeting.compound}."""

    def ask(word: Word) -> bool | None:
        if not word.engine:
            return glob(word.pattern, facts, DELIMITER, note)
        engine = ENGINES.get(word.engine)
        if engine is None or (word.engine == "R" and facts.expand_range is None):
            return None
        if word.engine == "E" and compiled(word.pattern) is None:
            return None  # the whole expression is void, not this word alone
        return bool(engine(word.pattern, facts, word.delimiter or DELIMITER, note))

    return evaluate(tgt, ask, facts.nodegroups, note)


def confirm_top(
    match: str, entries: Sequence[Any], facts: MinionFacts, note: Note = silent
) -> bool:
    """
    Whether a target of a top file matches this minion.

    @param entries: the entries below the target; a map C{{match: type}} among them says how to read
        the target, otherwise it is a compound.
    """
    how = "compound"
    for entry in entries:
        if isinstance(entry, Mapping) and "match" in entry:
            how = entry["match"]
    return matches(match, how, facts, DELIMITER, note)


Matcher = Callable[[Any, MinionFacts, str, Note], bool]

MATCHERS: dict[str, Matcher] = {
    "glob": glob,
    "pcre": pcre,
    "list": in_list,
    "grain": _nested("grains"),
    "grain_pcre": _nested("grains", regex=True),
    "pillar": _nested("pillar"),
    "pillar_pcre": _nested("pillar", regex=True),
    "pillar_exact": _nested("pillar", exact=True),
    "compound": compound,
    "ipcidr": ipcidr,
    "range": in_range,
    "nodegroup": nodegroup,
    "data": data,
    "managing_minion": managing_minion,
    "resource": resource,
}


def is_kind(tgt_type: Any) -> bool:
    """Whether there are targets of this kind (C{glob}, C{compound}, ...)."""
    return isinstance(tgt_type, str) and tgt_type.removesuffix("_pillar_exact") in MATCHERS


ENGINES: dict[str, Matcher] = {
    "G": MATCHERS["grain"],
    "P": MATCHERS["grain_pcre"],
    "I": MATCHERS["pillar"],
    "J": MATCHERS["pillar_pcre"],
    "L": in_list,
    "S": ipcidr,
    "E": pcre,
    "R": in_range,
    "T": resource,
    "M": managing_minion,
}
