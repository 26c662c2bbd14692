"""
C{salt.state}: the words of a state's arguments that are not for its function.
"""

from __future__ import annotations

from saltwisted.domain.highstate.words import INTERNAL_KEYWORDS

STATE_REQUISITE_KEYWORDS = frozenset(
    [
        "listen",
        "onchanges",
        "onchanges_any",
        "onfail",
        "onfail_all",
        "onfail_any",
        "onfail_stop",
        "prereq",
        "prerequired",
        "require",
        "require_any",
        "watch",
        "watch_any",
    ]
)
STATE_REQUISITE_IN_KEYWORDS = frozenset(
    ["listen_in", "onchanges_in", "onfail_in", "prereq_in", "require_in", "watch_in"]
)
STATE_INTERNAL_KEYWORDS = frozenset(INTERNAL_KEYWORDS)
STATE_RUNTIME_KEYWORDS = STATE_INTERNAL_KEYWORDS - (
    STATE_REQUISITE_KEYWORDS | STATE_REQUISITE_IN_KEYWORDS
) | {"prereq", "prereq_in"}
