"""
Salt's directories of minion keys, by id.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from attrs import field, frozen

from saltwisted.domain.keys import clean_key
from saltwisted.domain.replica.keyset import KeySet, finger_of
from saltwisted.stores import files
from saltwisted.stores.keys import DIRECTORIES, KeyStore

EXCLUSIVE = ("accepted", "rejected", "pending")


@frozen
class Shown:
    """
    What the directories contain for one id.

    @ivar state: C{accepted rejected pending}, or C{""}.
    @ivar finger: the fingerprint of its key.
    @ivar denied: the key in C{minions_denied}.
    """

    state: str = ""
    finger: str = ""
    denied: str = ""
    pubs: Mapping[str, bytes] = field(factory=dict, eq=False, repr=False)


NOTHING = Shown()


class KeyDirectories:
    """
    Reads and writes what the directories contain for one id, and remembers what it last read or
    wrote.

    @ivar shown: what it remembers, by id.
    @ivar writing: whether something is being written here at this moment.
    """

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self.shown: dict[str, Shown] = {}
        self.writing = False

    def make(self) -> None:
        """Make the directories."""
        for name in DIRECTORIES.values():
            files.make_dir(os.path.join(self._keys.pki_dir, name))

    def are_there(self) -> bool:
        """Whether all of them are."""
        return all(
            os.path.isdir(os.path.join(self._keys.pki_dir, name)) for name in DIRECTORIES.values()
        )

    def look(self, minion_id: str) -> Shown:
        """What lies in the directories now."""
        pubs: dict[str, bytes] = {}
        state = finger = denied = ""
        # Who has just changed something himself need not look at the disk for it
        key = self._keys.seen if self._keys.inside else self._keys.key
        for each in EXCLUSIVE:
            pub = key(each, minion_id)
            if pub is not None:
                state, finger = each, finger_of(pub)
                pubs[finger] = pub
                break
        pub = key("denied", minion_id)
        if pub is not None:
            denied = finger_of(pub)
            pubs[denied] = pub
        return Shown(state, finger, denied, pubs)

    def write(self, minion_id: str, wanted: Shown, before: Shown | None = None) -> None:
        """
        Make the directories match the log.

        @param before: what was there a moment ago.
        @raises StoreError: the disk refuses.
        """
        before = before or self.look(minion_id)
        self.writing = True
        try:
            self._write_over(minion_id, wanted, before)
        finally:
            self.writing = False

    def _write_over(self, minion_id: str, wanted: Shown, before: Shown) -> None:
        # What is written now comes back as changes, which must not seem to come from outside
        self.shown[minion_id] = wanted
        if wanted.state and not _same(before, wanted):
            self._keys.put(wanted.state, minion_id, clean_key(wanted.pubs[wanted.finger]) + b"\n")
        elif before.state and not wanted.state:
            self._keys.delete(minion_id, [before.state])
        if before.denied != wanted.denied:
            if before.denied:
                self._keys.delete(minion_id, ["denied"])
            if wanted.denied:
                self._keys.put("denied", minion_id, clean_key(wanted.pubs[wanted.denied]) + b"\n")
        if wanted == NOTHING:
            self.shown.pop(minion_id, None)


def wanted_of(keyset: KeySet, minion_id: str) -> Shown:
    """What ought to lie there, by the log."""
    view = keyset.view(minion_id)
    pubs: dict[str, bytes] = {}
    state = finger = denied = ""
    if view.holder is not None and view.holder.pub:
        state, finger = view.holder.state, view.holder.finger
        pubs[finger] = view.holder.pub
    for shown in view.denied:
        if shown.pub:
            denied = shown.finger
            pubs[denied] = shown.pub
            break
    return Shown(state, finger, denied, pubs)


def _same(one: Shown, other: Shown) -> bool:
    return (one.state, one.finger) == (other.state, other.finger)
