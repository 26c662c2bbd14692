"""
Minion keys: which ids are valid names, and what a sign-in with a key means.

The states are Salt's: I{pending}, I{accepted}, I{rejected}, I{denied}. Nothing is read or written
here. L{judge} takes what is stored as arguments and returns what to answer, what to write and which
event to fire.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import lru_cache

from attrs import field, frozen

from saltwisted.domain.acl import expr_match

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+=~,-]*", re.ASCII)
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul"] + [f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)]
)
_SEPARATORS = frozenset("/\\\0\u2044\u2215\u2216\u29f5\u29f8\u29f9\ufe68\uff0f\uff3c")


def valid_minion_id(value: object) -> bool:
    """
    Whether C{value} may be a minion's id, which is also a file name on the master.

    Stricter than Salt, which refuses slashes, backslashes, NUL and what leaves the
    directory: also refused are more than 255 bytes, a dot in front (Salt keeps
    C{.key_cache} among the keys), a dot or white space at the end, control and
    format characters, slashes in disguise (percent escapes, look-alikes), text that
    is not UTF-8, and the bare names of Windows devices.
    """
    return isinstance(value, str) and 0 < len(value) <= 255 and _valid(value)


@lru_cache(maxsize=1024)
def _valid(value: str) -> bool:
    """The same for a text of some length: kept, since a sign-in asks a dozen times."""
    if _PLAIN.fullmatch(value) is not None:
        return value[-1] != "." and value.lower() not in _DEVICES
    if value[0] in ". " or value[-1] in ". " or not value.isprintable():
        return False
    if not _SEPARATORS.isdisjoint(value) or _ESCAPE.search(value) is not None:
        return False
    # What cannot be encoded is not printable either
    return len(value.encode()) <= 255


def clean_key(pub: bytes) -> bytes:
    """A public key as it is compared and sent: no white space around it, lines end with C{\\n}."""
    text = pub.strip()
    # Mostly it is so already, and this is asked several times for every sign-in. A single byte is
    # found ten times as fast as two: only the blank stands in the lines of every key
    if not (b"\r" in text or b"\t" in text or b"\x0b" in text or b"\x0c" in text or b" \n" in text):
        return text
    return b"\n".join(line.rstrip() for line in text.splitlines())


class Answer(Enum):
    """The answer to a sign-in; the words of the reply are in L{saltwisted.wire.handshake}."""

    ACCEPT = "accept"
    PENDING = "pending"
    REFUSED = "refused"
    FULL = "full"


@frozen
class Verdict:
    """
    The decision about one sign-in.

    @ivar act: the word of the C{salt/auth} event, as stock masters fire it.
    @ivar write: state to store the key in, or C{""}.
    @ivar pub: what to store there.
    @ivar reason: one line for the log.
    """

    answer: Answer
    act: str
    reason: str
    write: str = ""
    pub: bytes = field(default=b"", repr=False)

    @property
    def result(self) -> bool:
        """The C{result} of the C{salt/auth} event."""
        return self.answer in (Answer.ACCEPT, Answer.PENDING)


@frozen(kw_only=True)
class SignIn:
    """
    The facts for a decision.

    @ivar pub: the key that was sent.
    @ivar pub_is_good: whether it is an RSA key of enough bits and a sound exponent (T-KEY-2).
    @ivar state: where a key of this id is stored: C{accepted pending rejected} or C{""}.
    @ivar stored: that key.
    @ivar connected: how many minions are connected, and C{is_connected}: whether this is one.
    """

    minion_id: str
    pub: bytes = field(repr=False)
    pub_is_good: bool = True
    state: str = ""
    stored: bytes = field(default=b"", repr=False)
    autosign: bool = False
    autoreject: bool = False
    open_mode: bool = False
    max_minions: int = 0
    connected: int = 0
    is_connected: bool = False


def judge(ask: SignIn) -> Verdict:
    """
    Decide about a sign-in, in the order of stock masters.

    The id, then C{max_minions}, C{open_mode}, and the stored state: a
    rejected key stays out, an accepted one must be the same, a new one is
    rejected, accepted or put aside by the site's rules, a pending one must be the same to be
    accepted by them. A key that is not a sound key is refused before anything is
    written, where stock writes it first.
    """
    if not valid_minion_id(ask.minion_id):
        return Verdict(Answer.REFUSED, "", "the id is not a valid minion id")
    pub = clean_key(ask.pub)
    if ask.max_minions > 0 and ask.connected > ask.max_minions and not ask.is_connected:
        return Verdict(Answer.FULL, "full", f"more than {ask.max_minions} minions are connected")
    if not pub or not ask.pub_is_good:
        return Verdict(Answer.REFUSED, "error", "the key is not a valid RSA key")
    same = bool(ask.stored) and clean_key(ask.stored) == pub
    if ask.open_mode:
        if ask.state == "accepted" and same:
            return Verdict(Answer.ACCEPT, "accept", "open mode, the key is known")
        return Verdict(Answer.ACCEPT, "accept", "open mode", write="accepted", pub=pub)
    return _ROWS[ask.state](ask, pub, same)


def _rejected(ask: SignIn, pub: bytes, same: bool) -> Verdict:
    return Verdict(Answer.REFUSED, "reject", "the key is rejected")


def _accepted(ask: SignIn, pub: bytes, same: bool) -> Verdict:
    if same:
        return Verdict(Answer.ACCEPT, "accept", "the key is accepted")
    return _denied(pub, "another key is accepted for this id")


def _denied(pub: bytes, reason: str) -> Verdict:
    return Verdict(Answer.REFUSED, "denied", reason, write="denied", pub=pub)


def _new(ask: SignIn, pub: bytes, same: bool) -> Verdict:
    if ask.autoreject:
        return _refuse(pub)
    if ask.autosign:
        return _sign(pub)
    return Verdict(Answer.PENDING, "pend", "a new key", write="pending", pub=pub)


def _pending(ask: SignIn, pub: bytes, same: bool) -> Verdict:
    if ask.autoreject:
        return _refuse(clean_key(ask.stored) or pub)
    if not same:
        return _denied(pub, "another key is pending for this id")
    if ask.autosign:
        return _sign(pub)
    return Verdict(Answer.PENDING, "pend", "the key waits for acceptance")


def _refuse(pub: bytes) -> Verdict:
    return Verdict(
        Answer.REFUSED,
        "reject",
        "by autoreject_file",
        write="rejected",
        pub=pub,
    )


def _sign(pub: bytes) -> Verdict:
    return Verdict(Answer.ACCEPT, "accept", "accepted by rule", write="accepted", pub=pub)


_ROWS = {"rejected": _rejected, "accepted": _accepted, "": _new, "pending": _pending}


# -- autosign and autoreject


def signing_lines(text: str) -> tuple[str, ...]:
    """The entries of an autosign or autoreject file: no comments, no empty lines."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def id_matches(minion_id: str, lines: Iterable[str]) -> bool:
    """Whether an entry, a glob or a regular expression for the whole id, means this minion."""
    return any(expr_match(minion_id, line) for line in lines)


_NAME = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)


class IdLines:
    """
    The entries of one file, put in order so that a file of ten thousand names costs a sign-in no
    more than one of ten: whoever signs in is a stranger.

    @param lines: as L{signing_lines} gives them.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._others: list[str] = []
        # A dot of a name means any character: by length, where names have their dots
        self._dots: dict[int, set[tuple[int, ...]]] = {}
        for line in dict.fromkeys(lines):
            if not _NAME.fullmatch(line):
                self._others.append(line)
                continue
            self._names.add(line)
            if "." in line:
                places = tuple(at for at, letter in enumerate(line) if letter == ".")
                self._dots.setdefault(len(line), set()).add(places)

    def match(self, minion_id: str) -> bool:
        """As L{id_matches} of these lines."""
        if minion_id in self._names:
            return True
        for places in self._dots.get(len(minion_id), ()):
            letters = list(minion_id)
            for at in places:
                letters[at] = "." if letters[at] != "\n" else "\n"
            if "".join(letters) in self._names:
                return True
        return id_matches(minion_id, self._others)


def grains_match(grains: object, values: Mapping[str, Iterable[str]]) -> bool:
    """
    Whether a minion's C{autosign_grains} carry one of the values kept for that grain.

    @param values: grain to the lines of its file in C{autosign_grains_dir}.
    """
    if not isinstance(grains, Mapping):
        return False
    return any(name in grains and str(grains[name]) in lines for name, lines in values.items())


def may_be_trusted(
    mode: int, group: int, permissive: bool, is_root: bool, own_groups: Collection[int]
) -> bool:
    """
    Whether a file that lets minions in may be believed: nobody else can write it.

    With C{permissive_pki_access} the group may; if the master is root, only a group of
    the master's user.
    """
    if mode & 0o002:
        return False
    if mode & 0o020:
        return permissive and (not is_root or group in own_groups)
    return True
