"""
Rules of iptables: made of arguments, and read from what iptables-save says.
"""

from __future__ import annotations

import argparse
import functools
import re
import shlex
import string
from typing import Any, NoReturn

from saltwisted.domain.highstate.words import INTERNAL_KEYWORDS
from saltwisted.modules._iptables_words import AFTER_JUMP, LONG, OF_SETS, SAME, SHORT, UNDERSCORED
from saltwisted.worker.exceptions import CommandExecutionError

_NOT = re.compile(r"(!|not)\s?")
_NOT_OURS = (*INTERNAL_KEYWORDS, "name", "state", "chain", "save", "table")
_NAMED = ("pknock", "quota2", "recent")
"""Matches whose C{--name} is given as C{name_}."""

NO_PROTOCOL = "Error: protocol must be specified"


def _is_negated(value: Any) -> bool:
    return str(value).startswith(("!", "not"))


class Rule:
    """
    The words of one rule.

    @ivar words: what there is so far.
    """

    def __init__(self, kwargs: dict[str, Any]) -> None:
        self._kwargs = dict(kwargs)
        if "target" in self._kwargs:
            self._kwargs["jump"] = self._kwargs.pop("target")
        for name in _NOT_OURS:
            self._kwargs.pop(name, None)
        self.words: list[str] = []

    def _take(self, name: str, option: str) -> bool:
        """Add an option and its value, if there is one; C{!} or C{not} goes in front of both."""
        if name not in self._kwargs:
            return False
        value = self._kwargs.pop(name)
        bang = "! " if _is_negated(value) else ""
        self.words.append(f"{bang}{option} {_NOT.sub('', str(value)) if bang else value}")
        return True

    def _once(self, words: str) -> bool:
        """Add words that are not there yet."""
        if words in self.words:
            return False
        self.words.append(words)
        return True

    def text(self) -> str:
        """The whole rule, or the sentence that says what is wrong."""
        self._take("if", "-i")
        self._take("of", "-o")
        if "proto" in self._kwargs and self._kwargs.get("match") != "policy":
            self._kwargs["protocol"] = self._kwargs.pop("proto")
        has_protocol = self._take("protocol", "-p")
        self._matches()
        self._sets()
        if "connstate" in self._kwargs:
            self._once("-m state")
            self._take("connstate", "--state")
        self._take("dport", "--dport")
        self._take("sport", "--sport")
        for name in ("dports", "sports"):
            if name in self._kwargs:
                if self._once("-m multiport") and not has_protocol:
                    return NO_PROTOCOL
                self._ports(name)
        if "comment" in self._kwargs:
            self._once("-m comment")
            self.words.append(f'--comment "{self._kwargs.pop("comment")}"')
        if self._kwargs.get("set"):
            self._take("set", "--match-set")
        after = self._after_jump()
        for key, value in self._kwargs.items():
            bang = "! " if _is_negated(value) else ""
            shown = _NOT.sub("", str(value)) if bang else value
            dash = "-" if len(key) == 1 else "--"
            tail = "" if shown in (None, "") else f" {shown}"
            self.words.append(f"{bang}{dash}{key}{tail}")
        return " ".join([*self.words, *after])

    def _matches(self) -> None:
        if "match" not in self._kwargs:
            return
        given = self._kwargs.pop("match")
        for match in given if isinstance(given, list) else given.split(","):
            self.words.append(f"-m {match}")
            if match.strip() in _NAMED and "name_" in self._kwargs:
                self.words.append(f"--name {self._kwargs.pop('name_')}")
        if given == "policy":
            self._take("proto", "--proto")

    def _sets(self) -> None:
        given = self._kwargs.pop("match-set", [])
        for item in [given] if isinstance(given, str) else given:
            bang = "! " if _is_negated(item) else ""
            self.words.append(f"-m set {bang}--match-set {_NOT.sub('', item) if bang else item}")

    def _ports(self, name: str) -> None:
        value = self._kwargs.pop(name)
        if isinstance(value, list):
            if any(_is_negated(port) for port in value):
                value = [_NOT.sub("", str(port)) for port in value]
                self.words.append("!")
            value = ",".join(str(port) for port in value)
        elif _is_negated(value):
            value = _NOT.sub("", value)
            self.words.append("!")
        self.words.append(f"--{name} {value}")

    def _after_jump(self) -> list[str]:
        """The jump, and the options of its target."""
        found = []
        for name in AFTER_JUMP:
            if name in self._kwargs:
                value = self._kwargs.pop(name)
                text = str(value)
                if value in (None, ""):
                    found.append(f"--{name}")
                elif name not in OF_SETS and any(blank in text for blank in string.whitespace):
                    found.append(f'--{name} "{text}"')
                else:
                    found.append(f"--{name} {text}")
        return found


class _Parser(argparse.ArgumentParser):
    """One that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise CommandExecutionError(f"A rule of iptables cannot be read: {message}")


@functools.cache
def _parser() -> argparse.ArgumentParser:
    """All known options; each may be there several times."""
    parser = _Parser()
    for first, second in (*SHORT.items(), *SAME.items()):
        name = second.lstrip("-")
        parser.add_argument(first, second, dest=UNDERSCORED.get(name, name), action="append")
    for name in LONG:
        parser.add_argument(f"--{name}", dest=name, action="append")
    return parser


def _begins(word: str) -> bool:
    """Whether an option begins here."""
    return word == "!" or word.startswith("-")


def _joined(words: list[str]) -> list[str]:
    """The words of a saved rule: each option with one value, in which a C{!} may stand."""
    index = 0
    while index + 1 < len(words):
        is_swapped = words[index] == "!" and words[index + 1].startswith("-")
        if is_swapped:
            words[index], words[index + 1] = words[index + 1], words[index]
        if words[index].startswith("-"):
            index += 1
            if words[index].startswith("-") or (words[index] == "!" and not is_swapped):
                words.insert(index, "")
            else:
                while index + 1 < len(words) and not _begins(words[index + 1]):
                    words[index] += f" {words.pop(index + 1)}"
        index += 1
    if words[-1].startswith("-"):
        words.append("")
    return words


def parsed(saved: str) -> dict[str, Any]:
    """Tables, chains and rules of what iptables-save has written."""
    found: dict[str, Any] = {}
    chains: dict[str, Any] = {}
    for line in saved.splitlines():
        if line.startswith("*"):
            chains = found.setdefault(line.replace("*", ""), {})
            chains.clear()
        elif line.startswith(":"):
            name, policy, counters = line.split()[:3]
            packets, count = counters.strip("[]").split(":")
            chains[name.replace(":", "")] = {
                "policy": policy,
                "packet count": packets,
                "byte count": count,
                "rules": [],
                "rules_comment": {},
            }
        elif line.startswith("-A"):
            options = vars(_parser().parse_known_args(_joined(shlex.split(line)))[0])
            rule = {key: value for key, value in options.items() if value and key != "append"}
            chain = chains[options["append"][0]]
            if options["comment"] is not None:
                chain["rules_comment"][options["comment"][0].strip('"')] = rule
            chain["rules"].append(rule)
    return found
