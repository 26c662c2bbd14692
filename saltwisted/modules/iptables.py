"""
Firewalls by iptables.

Lines that C{iptables.save} leaves out are regular expressions of the option
C{iptables.save_filters}.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import uuid
from typing import Any

from saltwisted.modules import _iptables_rule
from saltwisted.worker import systools
from saltwisted.worker.exceptions import SaltException

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__context__: dict[str, Any]

_NO_CHAIN = "Error: Chain needs to be specified"
_NO_RULE = "Error: Rule needs to be specified"
_NO_POSITION = "Error: Position needs to be specified or use append (-A)"

_FILES = {
    "RedHat": ("/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables"),
    "Arch": ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
    "Debian": ("/etc/iptables/rules.v4", "/etc/iptables/rules.v6"),
    "Gentoo": ("/var/lib/iptables/rules-save", "/var/lib/ip6tables/rules-save"),
    "Suse": ("/etc/sysconfig/scripts/SuSEfirewall2-custom",) * 2,
    "Void": ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
    "Alpine": ("/etc/iptables/rules-save", "/etc/iptables/rules6-save"),
    "NILinuxRT": ("/etc/natinst/share/iptables.conf", "/etc/natinst/share/ip6tables.conf"),
}
"""Where rules are kept for the next start; Debian's are those of iptables-persistent."""


def __virtual__() -> Any:
    if systools.which("iptables"):
        return True
    return False, "The iptables execution module cannot be loaded: iptables not installed."


def _program(family: str, end: str = "") -> list[str]:
    """The program of a family, or its sister whose name has an end."""
    return [f"{systools.which('ip6tables' if family == 'ipv6' else 'iptables')}{end}"]


def _said(words: list[str]) -> str:
    return str(__salt__["cmd.run_stdout"](words, python_shell=False))


def _has_option(option: str, family: str) -> bool:
    words = [*_program(family), "--help"]
    said = __salt__["cmd.run_stdout"](words, python_shell=False, output_loglevel="quiet")
    return option in said


def _waiting(family: str) -> list[str]:
    """The words in front of a change: wait for whoever changes something just now."""
    return _program(family) + (["--wait"] if _has_option("--wait", family) else [])


def _split(rule: Any) -> list[str]:
    """The words of a rule that is given as text."""
    return shlex.split(str(rule))


def _errors(words: list[str]) -> Any:
    """Run a command; what it says when something is wrong."""
    return __salt__["cmd.run_stderr"](words, python_shell=False)


def _conf(family: str) -> str:
    """The file of rules for the next start."""
    for grain in ("os_family", "os"):
        if __grains__.get(grain) in _FILES:
            return _FILES[__grains__[grain]][family == "ipv6"]
    raise SaltException(
        f"Saving iptables to file is not supported on {__grains__['os']}."
        " Please file an issue with SaltStack"
    )


def _filters() -> list[re.Pattern[str]]:
    """What is not to be saved."""
    key = "iptables.save_filters"
    if key not in __context__:
        found = []
        for pattern in __salt__["config.option"](key, []):
            try:
                found.append(re.compile(pattern))
            except re.error as error:
                log.warning("Skipping regex rule: '%s': %s", pattern, error)
        __context__[key] = found
    filters: list[re.Pattern[str]] = __context__[key]
    return filters


def version(family: str = "ipv4") -> str:
    """
    The version of iptables.

    CLI Example::

        salt '*' iptables.version
        salt '*' iptables.version family=ipv6
    """
    return _said([*_program(family), "--version"]).split()[1]


def build_rule(
    table: str = "filter",
    chain: str | None = None,
    command: str | None = None,
    position: Any = "",
    full: Any = None,
    family: str = "ipv4",
    **kwargs: Any,
) -> str:
    """
    A rule in iptables' own words, made of arguments that are called like its long options.

    C{connstate} is C{--state}; C{state} and C{name} are left out, as a state's are; C{name_} is
    the C{--name} of a match. C{!} or C{not} in front of a value negates it. An option of a
    target that has no value is given as an empty string. With C{full} it is the whole command.

    CLI Example::

        salt '*' iptables.build_rule match=state \\
            connstate=RELATED,ESTABLISHED jump=ACCEPT

        salt '*' iptables.build_rule filter INPUT command=I position=3 \\
            full=True match=state connstate=RELATED,ESTABLISHED jump=ACCEPT
    """
    rule = _iptables_rule.Rule(kwargs).text()
    if not full or rule == _iptables_rule.NO_PROTOCOL:
        return rule
    for word, value in (("Table", table), ("Chain", chain), ("Command", command)):
        if not value:
            return f"Error: {word} needs to be specified"
    dash = "-" if str(command) in "ACDIRLSFZNXPE" else "--"
    wait = "--wait" if _has_option("--wait", family) else ""
    (program,) = _program(family)
    return f"{program} {wait} -t {table} {dash}{command} {chain} {position} {rule}"


def get_saved_rules(conf_file: str | None = None, family: str = "ipv4") -> dict[str, Any]:
    """
    The rules of a file, or of that for the next start.

    CLI Example::

        salt '*' iptables.get_saved_rules
    """
    with open(conf_file or _conf(family), encoding="utf-8", errors="surrogateescape") as file:
        return _iptables_rule.parsed(file.read())


def get_rules(family: str = "ipv4") -> dict[str, Any]:
    """
    The rules that are in force.

    CLI Example::

        salt '*' iptables.get_rules
    """
    return _iptables_rule.parsed(_said(_program(family, "-save")))


def _policy(rules: dict[str, Any], table: str, chain: str) -> Any:
    return rules.get(table, {}).get(chain, {}).get("policy")


def get_saved_policy(
    table: str = "filter",
    chain: str | None = None,
    conf_file: str | None = None,
    family: str = "ipv4",
) -> Any:
    """
    The policy of a chain in a file of rules.

    CLI Example::

        salt '*' iptables.get_saved_policy filter INPUT conf_file=/etc/iptables.saved
    """
    if not chain:
        return _NO_CHAIN
    return _policy(get_saved_rules(conf_file, family), table, chain)


def get_policy(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> Any:
    """
    The policy of a chain.

    CLI Example::

        salt '*' iptables.get_policy filter INPUT
    """
    if not chain:
        return _NO_CHAIN
    return _policy(get_rules(family), table, chain)


def set_policy(
    table: str = "filter", chain: str | None = None, policy: str | None = None, family: str = "ipv4"
) -> Any:
    """
    Set the policy of a chain; gives what iptables says if that is refused.

    CLI Example::

        salt '*' iptables.set_policy filter INPUT ACCEPT
    """
    if not chain:
        return _NO_CHAIN
    if not policy:
        return "Error: Policy needs to be specified"
    return _errors([*_waiting(family), "-t", table, "-P", chain, policy])


def save(filename: str | None = None, family: str = "ipv4") -> Any:
    """
    Write the rules that are in force to a file, or to that for the next start.

    CLI Example::

        salt '*' iptables.save /etc/sysconfig/iptables
    """
    path = filename or _conf(family)
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        os.makedirs(folder)
    text = _said(_program(family, "-save"))
    if _filters():
        lines = text.splitlines(True)
        text = "".join(line for line in lines if not any(each.search(line) for each in _filters()))
    return __salt__["file.write"](path, text)


def check(
    table: str = "filter", chain: str | None = None, rule: Any = None, family: str = "ipv4"
) -> Any:
    """
    Whether a rule, in iptables' own words, is in a chain.

    CLI Example::

        salt '*' iptables.check filter INPUT \\
            rule='-m state --state RELATED,ESTABLISHED -j ACCEPT'
    """
    if not chain:
        return _NO_CHAIN
    if not rule:
        return _NO_RULE
    begin = [*_program(family), "-t", table]
    if _has_option("--check", family):
        words = [*begin, "-C", chain, *_split(rule)]
        quiet = {"python_shell": False, "output_loglevel": "quiet"}
        return __salt__["cmd.retcode"](list(words), **quiet) == 0
    # Old ones cannot be asked: the rule is written as they write it, in a chain of our own.
    own = hex(uuid.getnode())
    for words in (["-N", own], ["-A", own, *_split(rule)]):
        _said([*begin, *words])
    lines = _said(_program(family, "-save")).splitlines()
    for words in (["-F", own], ["-X", own]):
        _said([*begin, *words])
    return any(line.replace(own, chain) in lines for line in lines if line.startswith(f"-A {own}"))


def check_chain(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> Any:
    """
    Whether a table has a chain.

    CLI Example::

        salt '*' iptables.check_chain filter INPUT
    """
    if not chain:
        return _NO_CHAIN
    return f":{chain} " in _said([*_program(family, "-save"), "-t", table])


def new_chain(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> Any:
    """
    Make a chain; gives what iptables says if that is refused.

    CLI Example::

        salt '*' iptables.new_chain filter CUSTOM_CHAIN
    """
    if not chain:
        return _NO_CHAIN
    return _errors([*_waiting(family), "-t", table, "-N", chain]) or True


def delete_chain(table: str = "filter", chain: str | None = None, family: str = "ipv4") -> Any:
    """
    Remove a chain; gives what iptables says if that is refused.

    CLI Example::

        salt '*' iptables.delete_chain filter CUSTOM_CHAIN
    """
    if not chain:
        return _NO_CHAIN
    return _errors([*_waiting(family), "-t", table, "-X", chain]) or True


def append(
    table: str = "filter", chain: str | None = None, rule: Any = None, family: str = "ipv4"
) -> Any:
    """
    Add a rule, in iptables' own words, at the end of a chain; false if it is there, or is refused.

    CLI Example::

        salt '*' iptables.append filter INPUT \\
            rule='-m state --state RELATED,ESTABLISHED -j ACCEPT'
    """
    if not chain:
        return _NO_CHAIN
    if not rule:
        return _NO_RULE
    begin = [*_waiting(family), "-t", table]
    if check(table, chain, rule, family) is True:
        return False
    return not _errors([*begin, "-A", chain, *_split(rule)])


def insert(
    table: str = "filter",
    chain: str | None = None,
    position: Any = None,
    rule: Any = None,
    family: str = "ipv4",
) -> Any:
    """
    Put a rule, in iptables' own words, at a position; gives what iptables says if it is refused.

    A negative position counts from the end: -1 is before the last rule. False is given if the
    rule is somewhere in the chain.

    CLI Example::

        salt '*' iptables.insert filter INPUT position=3 \\
            rule='-m state --state RELATED,ESTABLISHED -j ACCEPT'
    """
    if not chain:
        return _NO_CHAIN
    if not position:
        return _NO_POSITION
    if not rule:
        return _NO_RULE
    if position < 0:
        size = len(get_rules(family)[table][chain]["rules"])
        position = (size + position + 1) or 1
    begin = [*_waiting(family), "-t", table]
    if check(table, chain, rule, family) is True:
        return False
    return _errors([*begin, "-I", chain, str(position), *_split(rule)])


def delete(
    table: str,
    chain: str | None = None,
    position: Any = None,
    rule: Any = None,
    family: str = "ipv4",
) -> Any:
    """
    Remove a rule, given in iptables' own words or by its position.

    CLI Example::

        salt '*' iptables.delete filter INPUT position=3
        salt '*' iptables.delete filter INPUT \\
            rule='-m state --state RELATED,ESTABLISHED -j ACCEPT'
    """
    if position and rule:
        return "Error: Only specify a position or a rule, not both"
    return _errors([*_waiting(family), "-t", table, "-D", str(chain), *_split(position or rule)])


def flush(table: str = "filter", chain: str = "", family: str = "ipv4") -> Any:
    """
    Remove all rules of a chain, or of all chains of a table.

    CLI Example::

        salt '*' iptables.flush filter INPUT
    """
    return _errors([*_waiting(family), "-t", table, "-F", *([chain] if chain else [])])
