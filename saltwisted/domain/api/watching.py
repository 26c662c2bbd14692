"""
Which events a listener may see over HTTP.

Stock shows all events to everybody who has a token: the returns and pillars of all minions. Here a
user who may do everything sees everything. Others see the events of their own jobs, and those of
minions that a rule with C{'@events'} covers. C{events_for_all} is stock's way.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import frozen

from saltwisted.domain.who import EAUTH, Who, who_in

EVENTS = "@events"
_ALL = frozenset((".*", ".+"))
REMEMBERED = 20_000
"""Jobs whose users are known."""
_OF_MINIONS = {("salt", "minion"): 2, ("salt", "beacon"): 2, ("salt", "state_result"): 3}
"""The first two words of tags about one minion, to the place of its id."""
_CALLS = ("job", "run", "wheel")
_OF_JOBS = frozenset(("ret", "prog", "start", "sub"))


@frozen
class Sight:
    """
    What rules let a user see.

    @ivar everything: all events.
    @ivar targets: whose events, besides those of the user's own jobs, as compound targets.
    """

    everything: bool
    targets: tuple[str, ...] = ()


def sight_of(rules: Sequence[Any], for_all: bool = False) -> Sight:
    """By the rules of C{external_auth}."""
    words = {rule for rule in rules if isinstance(rule, str)}
    owner = words & _ALL and words & {"@runner", "@runners"} and words & {"@wheel", "@wheels"}
    if for_all or owner or EVENTS in words:
        return Sight(True)
    targets = []
    for rule in rules:
        if isinstance(rule, Mapping) and len(rule) == 1:
            ((target, patterns),) = rule.items()
            patterns = patterns if isinstance(patterns, (list, tuple)) else [patterns]
            if isinstance(target, str) and not target.startswith("@") and EVENTS in patterns:
                targets.append(target)
    return Sight(False, tuple(dict.fromkeys(targets)))


def minion_of(tag: str, sender: str) -> str:
    """
    The minion to which an event belongs; C{""} if to none. The event's data is ignored, because
    minions put into it what they like.
    """
    if sender:
        return sender
    words = tag.split("/")
    if words[0] != "salt" or len(words) < 3:
        return ""
    if words[1] == "job":
        return words[4] if len(words) > 4 and words[3] in _OF_JOBS else ""
    place = _OF_MINIONS.get((words[0], words[1]))
    return words[place] if place is not None and len(words) > place else ""


class JobUsers:
    """Who began which job, runner or wheel function, as far as events have shown."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._users: OrderedDict[str, Who] = OrderedDict()

    def heard(self, tag: str, data: Mapping[str, Any]) -> Who | None:
        """
        Remember the event that announces a call.

        @return: to whose call an event belongs; C{None} if that is unknown, or to none.
        """
        words = tag.split("/", 4)
        if len(words) < 4 or words[0] != "salt" or words[1] not in _CALLS:
            return None
        jid = words[2]
        known = self._users.get(jid)
        if known is None and words[3] == "new":
            if not data.get(EAUTH):
                # A release that does not say it: of a bare name nobody knows whose it is
                return None
            known = self._users[jid] = who_in(data)
            if len(self._users) > self._most:
                self._users.popitem(last=False)
        return known


@frozen
class Eyes:
    """
    A user's sight, with the minions that the targets match now.

    @ivar who: the user, as the login has proven it.
    """

    who: Who
    everything: bool = False
    minions: Collection[str] = frozenset()

    def see(self, minion: str, who: Who | None) -> bool:
        """
        Whether the user may see an event.

        @param minion: the minion to which it belongs.
        @param who: to whose call it belongs, if that is known.
        """
        return self.everything or who == self.who or minion in self.minions
