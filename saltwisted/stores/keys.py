"""
Minion keys in Salt's directories, and the master's own key pair.

There is one file per minion id in C{minions} (accepted), C{minions_pre} (pending),
C{minions_rejected} and C{minions_denied}, as in Salt, so that other tools can read and change them.
The store notices such changes: L{KeyStore.accepted} compares one C{lstat} with memory for every
request, and L{KeyStore.rescan}, which the owner calls once a second, lists a directory whose mtime
has changed. As in Salt 3008, a link is not a key. L{saltwisted.domain.keys} decides which state a
key may have.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import islice

from attrs import field, frozen
from twisted.logger import Logger

from saltwisted.domain.keys import valid_minion_id
from saltwisted.errors import StoreError
from saltwisted.interfaces import IKeyStore
from saltwisted.stores import files
from saltwisted.stores.durable import Background, Durable

DIRECTORIES: Mapping[str, str] = {
    "accepted": "minions",
    "pending": "minions_pre",
    "rejected": "minions_rejected",
    "denied": "minions_denied",
}
"""State to directory name."""

_EXCLUSIVE = ("accepted", "pending", "rejected")
"""In order of caution: the last is the safest."""
_MAX_KEY = 64 * 1024
_Mark = tuple[int, int, int]
_UNREAD: _Mark = (0, -1, 0)
LOOKS = 10
"""How often an empty file is looked at before it is taken for what it is: a key that is none."""

Changed = Callable[[str, str, str], None]


class _Folder:
    """One state: its directory, the ids in it in order, and the keys that were read so far."""

    __slots__ = ("ids", "keys", "mtime", "path", "prefix")

    def __init__(self, path: str) -> None:
        self.path = path
        self.prefix = path + "/"
        self.keys: dict[str, tuple[_Mark, bytes]] = {}
        self.ids: list[str] = []
        self.mtime = -1

    def add(self, minion_id: str, mark: _Mark, pub: bytes) -> bool:
        new = minion_id not in self.keys
        if new:
            insort(self.ids, minion_id)
        self.keys[minion_id] = (mark, pub)
        return new

    def drop(self, minion_id: str) -> bool:
        if self.keys.pop(minion_id, None) is None:
            return False
        del self.ids[bisect_left(self.ids, minion_id)]
        return True


class KeyStore:
    """
    The four directories below C{pki_dir}, with their contents in memory.

    Reactor thread only. Writes are renames, and so complete whenever the process is killed. They
    are made durable by C{background} shortly afterwards (see L{Durable}), or at once if there is
    none.

    @param background: runs a blocking call in a thread, C{background(call)}.
    @ivar inside: true while receivers are informed of a change that was made by this object's own
        methods, and not found in the directories.
    """

    log = Logger()

    def __init__(self, pki_dir: str, background: Background | None = None) -> None:
        self.pki_dir = pki_dir
        self._durable = None if background is None else Durable(background)
        self._receivers: list[Changed] = []
        self._empty: dict[str, int] = {}
        self._looks = 1
        self._folders = {
            state: _Folder(os.path.join(pki_dir, name)) for state, name in DIRECTORIES.items()
        }
        self._accepted = self._folders["accepted"]
        self.inside = False

    def open(self) -> None:
        """Create missing directories (0700), clear what a killed write left, and read the names."""
        files.make_dir(self.pki_dir)
        for folder in self._folders.values():
            files.make_dir(folder.path)
            files.sweep_temporary(folder.path)
        # What is empty now was left by a power failure, and is known as such
        self.rescan()
        self._looks = LOOKS
        self._settle()

    def _settle(self) -> None:
        """
        Finish the moves that a kill interrupted: of two exclusive states the later holds.

        L{put} writes the new state before it removes the old one, so the file that
        was written last is the one that was meant. At equal times the safer state holds.
        """
        seen: dict[str, list[str]] = {}
        for state in _EXCLUSIVE:
            for minion_id in self._folders[state].keys:
                seen.setdefault(minion_id, []).append(state)
        for minion_id, states in seen.items():
            if len(states) < 2:
                continue
            ages: dict[str, int] = {}
            for state in states:
                with suppress(OSError):
                    info = os.lstat(self._folders[state].prefix + minion_id)
                    # A power failure can leave a name without content: that is not a key
                    if info.st_size:
                        ages[state] = info.st_mtime_ns
            if not ages:
                continue
            meant = max(ages, key=lambda state: (ages[state], _EXCLUSIVE.index(state)))
            for state in states:
                if state != meant:
                    self._remove(self._folders[state], minion_id)
            self.log.warn(
                "the key of {minion_id} was {states} at once: it is now {meant}, "
                "the state that it was given last",
                minion_id=minion_id,
                states=" and ".join(states),
                meant=meant,
            )

    # -- reading, once per request

    def accepted(self, minion_id: str) -> bytes | None:
        """The accepted key as it is on disk at this moment, or C{None}."""
        return self._read("accepted", self._accepted, minion_id)

    def pending(self, minion_id: str) -> bytes | None:
        """The pending key, or C{None}."""
        return self._read("pending", self._folders["pending"], minion_id)

    def denied(self, minion_id: str) -> bytes | None:
        """The first key that was denied for this id, or C{None}."""
        return self._read("denied", self._folders["denied"], minion_id)

    def _read(self, state: str, folder: _Folder, minion_id: str) -> bytes | None:
        known = folder.keys.get(minion_id)
        if known is None and not valid_minion_id(minion_id):
            return None
        try:
            info = os.lstat(folder.prefix + minion_id)
        except (FileNotFoundError, NotADirectoryError):
            if known is not None and folder.drop(minion_id):
                self._notify(minion_id, state, "")
            return None
        except OSError as error:
            raise files.store_error(error, folder.prefix + minion_id) from error
        mark = (info.st_ino, info.st_size, info.st_mtime_ns)
        if known is not None and known[0] == mark:
            return known[1] or None
        return self._load(state, folder, minion_id, info, known)

    def _load(
        self,
        state: str,
        folder: _Folder,
        minion_id: str,
        info: os.stat_result,
        known: tuple[_Mark, bytes] | None,
    ) -> bytes | None:
        mark = (info.st_ino, info.st_size, info.st_mtime_ns)
        if not stat.S_ISREG(info.st_mode):
            if known is not None and folder.drop(minion_id):
                self._notify(minion_id, state, "")
            return None
        try:
            pub = files.read_file(folder.prefix + minion_id, _MAX_KEY) or b""
        except StoreError as error:
            self.log.error("a key cannot be read: {error}", error=error)
            pub = b""
        new = folder.add(minion_id, mark, pub)
        if new:
            self._notify(minion_id, "", state)
        elif known is not None and known[0] is not _UNREAD and known[1] != pub:
            self._notify(minion_id, state, state)
        # A power failure can leave a name without content: that is not a key, and is rewritten
        return pub or None

    def list_keys(self) -> Mapping[str, Sequence[str]]:
        """State to sorted ids, as last seen."""
        return {state: tuple(folder.ids) for state, folder in self._folders.items()}

    def accepted_ids(self) -> Sequence[str]:
        """Sorted ids of accepted minions; the list is the store's own: read it, do not keep it."""
        return self._accepted.ids

    def accepted_at(self, minion_id: str) -> float | None:
        """When the accepted key was last written (seconds since 1970), or C{None}."""
        try:
            return os.lstat(self._accepted.prefix + minion_id).st_mtime
        except OSError:
            return None

    def acceptance(self, minion_id: str) -> int | None:
        """
        Which acceptance of the minion's key this is, or C{None} when it is not accepted.

        The inode's change time, in nanoseconds: it is another one after every deletion or
        rejection, also by other programs, and the same after a restart.
        """
        try:
            return os.lstat(self._accepted.prefix + minion_id).st_ctime_ns
        except OSError:
            return None

    def state(self, minion_id: str) -> str:
        """C{accepted}, C{pending} or C{rejected} as last seen, or C{""}."""
        for state in _EXCLUSIVE:
            if minion_id in self._folders[state].keys:
                return state
        return ""

    def key(self, state: str, minion_id: str) -> bytes | None:
        """The key in any state."""
        return self._read(state, self._folders[state], minion_id)

    def seen(self, state: str, minion_id: str) -> bytes | None:
        """The key in a state as last seen: for who hears of a change that was made in here."""
        folder = self._folders[state]
        known = folder.keys.get(minion_id)
        if known is not None and known[0] is _UNREAD:
            return self._read(state, folder, minion_id)
        return None if known is None else known[1] or None

    # -- writing

    def put(self, state: str, minion_id: str, pub: bytes) -> None:
        """
        Store a key in a state, and remove it from the others.

        C{denied} is independent of the others, and keeps the first key, as in Salt.

        @raises StoreError: the id is not a valid name, or the disk refuses.
        """
        folder = self._folders[state]
        self._check(minion_id)
        if state == "denied" and self._read(state, folder, minion_id) is not None:
            return
        old = self.state(minion_id) if state != "denied" else ""
        path = folder.prefix + minion_id
        self._write(path, pub)
        info = os.lstat(path)
        new = folder.add(minion_id, (info.st_ino, info.st_size, info.st_mtime_ns), pub)
        if state != "denied":
            for other in _EXCLUSIVE:
                if other != state:
                    self._remove(self._folders[other], minion_id)
        if new or old:
            self._notify_inside(minion_id, old, state)

    def move(self, minion_id: str, source: str, target: str) -> bool:
        """Put the key of one state into another; false if there was none."""
        pub = self.key(source, minion_id)
        if pub is None:
            return False
        if source == target:
            return True
        self.put(target, minion_id, pub)
        if source == "denied":
            self._remove(self._folders[source], minion_id)
        return True

    def delete(self, minion_id: str, states: Iterable[str] = tuple(DIRECTORIES)) -> Sequence[str]:
        """Remove the key from these states (by default all); returns the states that had one."""
        self._check(minion_id)
        gone = []
        for state in states:
            if self._remove(self._folders[state], minion_id):
                gone.append(state)
        for state in gone:
            self._notify_inside(minion_id, state, "")
        return gone

    def on_change(self, receiver: Changed) -> None:
        """
        Call C{receiver(minion_id, old_state, new_state)} after each change, from inside or outside.

        C{""} is absent; equal states mean that the key itself was replaced.
        """
        self._receivers.append(receiver)

    def _check(self, minion_id: str) -> None:
        if not valid_minion_id(minion_id):
            raise StoreError("not a minion id", repr(minion_id)[:200])

    def _write(self, path: str, pub: bytes) -> None:
        files.write_atomic(path, pub, 0o600, sync=self._durable is None)
        if self._durable is not None:
            self._durable.wrote(path)

    def _remove(self, folder: _Folder, minion_id: str) -> bool:
        there = files.remove(folder.prefix + minion_id, sync=self._durable is None)
        if there and self._durable is not None:
            self._durable.removed(folder.path)
        known = folder.drop(minion_id)
        return there or known

    def together(self) -> AbstractContextManager[None]:
        """What is put in here is made durable as one group, from its end on."""
        return nullcontext() if self._durable is None else self._durable.together()

    def flush(self) -> None:
        """Block until everything written so far is durable."""
        if self._durable is not None:
            self._durable.flush()

    # -- changes from outside

    def rescan(self, most: int = 0) -> int:
        """
        List each directory whose mtime has changed; returns how many ids came or went.

        A directory of 10 000 keys takes a few milliseconds, if few of them are new.

        @param most: new ids that are looked at; when so many were, call again for the rest.
            0 for all.
        """
        count = 0
        for state, folder in self._folders.items():
            try:
                mtime = os.stat(folder.path).st_mtime_ns
                if mtime == folder.mtime:
                    continue
                names = os.listdir(folder.path)
            except FileNotFoundError:
                mtime, names = -1, []
            except OSError as error:
                self.log.error("{path}: {error}", path=folder.path, error=error)
                continue
            found, whole = self._compare(state, folder, names, most)
            count += found
            if whole and not self._waits(folder, names):
                folder.mtime = mtime
        return count

    def _compare(
        self, state: str, folder: _Folder, names: Sequence[str], most: int
    ) -> tuple[int, bool]:
        here = set(names)
        gone = folder.keys.keys() - here
        come = here - folder.keys.keys()
        look = come if not most or len(come) <= most else set(islice(come, most))
        new = [name for name in look if self._is_key(folder, name)]
        if not new and len(look) < len(come):
            # What is not a key never becomes known: too much of it must not hide what is one
            look = come
            new = [name for name in look if self._is_key(folder, name)]
        if len(new) > 100:
            folder.keys.update((name, (_UNREAD, b"")) for name in new)
            folder.ids = sorted(folder.keys)
        else:
            for name in new:
                folder.add(name, _UNREAD, b"")
        for name in gone:
            folder.drop(name)
        for name in sorted(gone):
            self._notify(name, state, "")
        for name in sorted(new):
            self._notify(name, "", state)
        return len(gone) + len(new), len(look) == len(come)

    def _is_key(self, folder: _Folder, name: str) -> bool:
        if not valid_minion_id(name):
            if not name.startswith("."):
                self.log.warn(
                    "{path!r} is not a minion id, and is ignored", path=folder.prefix + name
                )
            return False
        path = folder.prefix + name
        try:
            info = os.lstat(path)
        except OSError:
            return False
        if info.st_size or not stat.S_ISREG(info.st_mode):
            self._empty.pop(path, None)
            return stat.S_ISREG(info.st_mode)
        # Somebody copies a key to here, and the directory does not tell when it is written
        looks = self._empty[path] = self._empty.get(path, 0) + 1
        if looks < self._looks:
            return False
        del self._empty[path]
        return True

    def _waits(self, folder: _Folder, names: Sequence[str]) -> bool:
        """Whether an empty file in here is looked at again."""
        if self._empty:
            here = {folder.prefix + name for name in names}
            for path in [each for each in self._empty if each.startswith(folder.prefix)]:
                if path in here:
                    return True
                del self._empty[path]
        return False

    def _notify_inside(self, minion_id: str, old: str, new: str) -> None:
        self.inside = True
        try:
            self._notify(minion_id, old, new)
        finally:
            self.inside = False

    def _notify(self, minion_id: str, old: str, new: str) -> None:
        for receiver in tuple(self._receivers):
            try:
                receiver(minion_id, old, new)
            except Exception:
                self.log.failure("a receiver of key changes failed")

    # -- autosign by a file

    def take_autosign(self, minion_id: str, now: float, minutes: float = 120.0) -> bool:
        """
        Use up C{minions_autosign/<id>}: true if it was there and not older than C{minutes}.

        With 0 minutes stubs do not age. Stubs that are too old are removed on the way, as in Salt.
        """
        folder = os.path.join(self.pki_dir, "minions_autosign")
        try:
            names = os.listdir(folder)
        except OSError:
            return False
        found = False
        for name in names:
            path = f"{folder}/{name}"
            try:
                info = os.lstat(path)
                if not stat.S_ISREG(info.st_mode):
                    continue
                expired = minutes > 0 and now - info.st_mtime > minutes * 60
                if expired or name == minion_id:
                    os.unlink(path)
                    found = found or (name == minion_id and not expired)
            except OSError as error:
                self.log.error("{path}: {error}", path=path, error=error)
        return found


_KeyStore: type[IKeyStore] = KeyStore  # mypy compares them


@frozen
class KeyPair:
    """A private key and its public half, both PEM."""

    private: bytes = field(repr=False)
    public: bytes


def kept_keys(pki_dir: str, name: str = "master") -> KeyPair | None:
    """
    The pair C{<name>.pem} and C{<name>.pub} as it is on the disk, the public half empty if it is
    missing; C{None} if there is none. Nothing is written.

    @raises StoreError: a link leads nowhere, or half of the pair is missing.
    """
    pem, pub = f"{pki_dir}/{name}.pem", f"{pki_dir}/{name}.pub"
    for path in (pem, pub):
        if os.path.islink(path) and not os.path.exists(path):
            raise StoreError(
                f"is a link to {os.readlink(path)}, which does not exist: copy that file too, "
                "or put the key itself in its place",
                path,
            )
    private, public = files.read_file(pem, _MAX_KEY), files.read_file(pub, _MAX_KEY)
    if private:
        return KeyPair(private, public or b"")
    if public:
        raise StoreError(
            f"is missing or empty, but {name}.pub is there: restore it, or remove {name}.pub "
            "to start with a new key (every minion must then forget the old one)",
            pem,
        )
    return None


def master_keys(
    pki_dir: str,
    generate: Callable[[], tuple[bytes, bytes]],
    public_of: Callable[[bytes], bytes],
    name: str = "master",
) -> KeyPair:
    """
    The pair C{<name>.pem} and C{<name>.pub}; created if there is none.

    Salt 3008 renames the pair after the master's id and leaves links. These are followed. A link
    that leads nowhere (a copied directory) is not taken for a master without a key, because a new
    key would lock every minion out.

    @param generate: creates a pair, C{(private, public)} in PEM.
    @param public_of: the public half of a private key, for a missing C{.pub}.
    @raises StoreError: a link leads nowhere, or the disk refuses.
    """
    files.make_dir(pki_dir)
    pem, pub = f"{pki_dir}/{name}.pem", f"{pki_dir}/{name}.pub"
    kept = kept_keys(pki_dir, name)
    if kept is not None:
        if not kept.public:
            kept = KeyPair(kept.private, public_of(kept.private))
            files.write_atomic(pub, kept.public, 0o600)
        return kept
    private, public = generate()
    # The private half first: after a kill in between the public one is made from it
    files.write_atomic(pem, private, 0o400)
    files.write_atomic(pub, public, 0o600)
    return KeyPair(private, public)
