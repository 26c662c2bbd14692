"""
Minion keys and the master's own, worked on as files: C{salt-key} when no master runs.

The layout is Salt's: one file per minion in C{minions}, C{minions_pre}, C{minions_rejected} and
C{minions_denied} below C{pki_dir}. A running master is asked instead (it would
notice the files, too); here nobody else is told, except by the drop file that makes a
master which shares these directories change its session key.

Fingerprints are those that minions and C{key.finger} show. (Stock Salt 3008.2 prints
others in C{salt-key}, because it also hashes the first and last line of the file.)
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from saltwisted.domain.keys import valid_minion_id
from saltwisted.errors import StoreError, WireError
from saltwisted.worker.freshfile import fresh

if TYPE_CHECKING:
    from saltwisted.domain.replica.tokens import Token

ACCEPTED, PENDING, REJECTED, DENIED = (
    "minions",
    "minions_pre",
    "minions_rejected",
    "minions_denied",
)
STATES = (PENDING, REJECTED, ACCEPTED, DENIED)
"""In the order of Salt's JSON."""

_MAX_KEY = 64 * 1024

Names = dict[str, list[str]]
"""State to minion ids."""


def ignoring_case(names: Iterable[str]) -> list[str]:
    """Sorted as Salt sorts ids."""
    return sorted(names, key=str.lower)


def matching(keys: Mapping[str, list[str]], match: str | list[str]) -> Names:
    """The keys that a glob, several with commas between, or a list of globs mean."""
    globs = match.split(",") if isinstance(match, str) else list(match)
    found: Names = {}
    for state, names in keys.items():
        if globs == ["*"]:
            chosen = list(names)
        else:
            chosen = [
                name
                for name in ignoring_case(names)
                for glob in globs
                if fnmatch.fnmatchcase(name, glob)
            ]
        if chosen:
            found[state] = chosen
    return found


class KeyFiles:
    """
    The key directories of one master, without that master.

    The methods have the names and results of Salt's C{key} wheel functions.
    """

    def __init__(self, opts: Mapping[str, Any]) -> None:
        # As in Salt: masters of one cluster_pki_dir have the minions' keys there
        common = opts.get("cluster_pki_dir") if opts.get("cluster_id") else None
        self.pki_dir = str(common or opts["pki_dir"])
        self.opts = opts

    def list_all(self) -> Names:
        """All minion keys by state, and the master's own files under C{local}."""
        found = {state: self._names(state) for state in STATES}
        found["local"] = ignoring_case(
            entry
            for entry in self._entries(self.pki_dir)
            if entry.endswith((".pem", ".pub")) and _is_file(os.path.join(self.pki_dir, entry))
        )
        return found

    def name_match(self, match: str | list[str]) -> Names:
        """The minion keys that a glob means, by state."""
        return matching({state: self._names(state) for state in STATES}, match)

    def accept_dict(
        self, match: Names, include_rejected: bool = False, include_denied: bool = False
    ) -> Names:
        """Accept these pending keys (rejected and denied ones if included)."""
        return self._move(
            match, ACCEPTED, [REJECTED] * include_rejected + [DENIED] * include_denied
        )

    def reject_dict(
        self,
        match: Names,
        include_accepted: bool = False,
        include_denied: bool = False,
        rotate_aes_key: bool = True,
    ) -> Names:
        """Reject these pending keys (accepted and denied ones if included)."""
        more = [ACCEPTED] * include_accepted + [DENIED] * include_denied
        found = self._move(match, REJECTED, more)
        if rotate_aes_key:
            self.drop_file()
        return found

    def delete_dict(self, match: Names, rotate_aes_key: bool = True, **_more: Any) -> Names:
        """Delete these keys. The minions' cached data is the running master's to drop."""
        found: Names = {}
        for state, names in match.items():
            for name in names:
                try:
                    os.unlink(self._path(state, name))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise _store_error(error, self._path(state, name)) from None
                found.setdefault(state, []).append(name)
        if rotate_aes_key:
            self.drop_file()
        return found

    def key_str(self, match: str | list[str]) -> dict[str, dict[str, str]]:
        """The public keys that a glob means."""
        return {
            state: {name: self._text(state, name).strip() for name in names}
            for state, names in self.name_match(match).items()
        }

    def finger(self, match: str | list[str], hash_type: str) -> dict[str, dict[str, str]]:
        """The fingerprints that a glob means, the master's own among them."""
        from saltwisted.wire.rsa import fingerprint

        return {
            state: {name: fingerprint(self._text(state, name), hash_type) for name in names}
            for state, names in matching(self.list_all(), match).items()
        }

    def drop_file(self) -> None:
        """Ask a master that works in C{cachedir} to change its session key."""
        directory = str(self.opts["cachedir"])
        path = os.path.join(directory, ".dfn")
        if os.path.exists(path) or not os.path.isdir(directory):
            return
        fresh = os.path.join(directory, ".dfn-next")
        try:
            _write(fresh, str(self.opts.get("id", "")).encode(), 0o400)
            os.rename(fresh, path)
        except OSError as error:
            raise _store_error(error, path) from None

    def _move(self, match: Names, target: str, more: list[str]) -> Names:
        from saltwisted.wire.rsa import PublicKey

        moved: list[str] = []
        for state in [PENDING, *more]:
            for name in match.get(state, []):
                try:
                    PublicKey.from_pem(self._text(state, name))
                except (WireError, StoreError):
                    continue
                source, goal = self._path(state, name), self._path(target, name)
                try:
                    os.makedirs(os.path.dirname(goal), 0o700, exist_ok=True)
                    os.replace(source, goal)
                    for other in (ACCEPTED, PENDING, REJECTED):
                        if other != target and os.path.lexists(self._path(other, name)):
                            os.unlink(self._path(other, name))
                except OSError as error:
                    raise _store_error(error, goal) from None
                moved.append(name)
        return {target: moved} if moved else {}

    def _path(self, state: str, name: str) -> str:
        return os.path.join(self.pki_dir, state, name)

    def _text(self, state: str, name: str) -> str:
        directory = self.pki_dir if state == "local" else os.path.join(self.pki_dir, state)
        path = os.path.join(directory, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                return file.read(_MAX_KEY).decode("ascii", "replace")
        except OSError as error:
            raise _store_error(error, path) from None

    def _names(self, state: str) -> list[str]:
        directory = os.path.join(self.pki_dir, state)
        return ignoring_case(
            name
            for name in self._entries(directory)
            if valid_minion_id(name) and _is_file(os.path.join(directory, name))
        )

    @staticmethod
    def _entries(directory: str) -> list[str]:
        try:
            return os.listdir(directory)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _store_error(error, directory) from None


def generate(directory: str, name: str, bits: int, passphrase: str | None = None) -> str:
    """
    The fingerprint of the key pair C{name.pem}, C{name.pub} in a directory; made if not there.

    @raises StoreError: the directory cannot be written, or the name is none.
    """
    from saltwisted.wire.rsa import PrivateKey, fingerprint

    if os.path.basename(name) != name or name in ("", ".", ".."):
        raise StoreError("not a plain file name", name)
    private, public = (os.path.join(directory, name + end) for end in (".pem", ".pub"))
    try:
        if not os.path.lexists(private):
            key = PrivateKey.generate(bits)
            _write(private, key.pem(passphrase).encode(), 0o400)
            _write(public, key.public.pem.encode() + b"\n", 0o400)
        with open(public, encoding="ascii") as file:
            return fingerprint(file.read())
    except OSError as error:
        raise _store_error(error, private) from None


def sign_master_key(
    opts: Mapping[str, Any],
    priv: str = "",
    pub: str = "",
    directory: str = "",
    auto_create: bool = False,
    bits: int = 2048,
) -> bool | str:
    """
    Write the signature over the master's public key (C{salt-key --gen-signature}).

    What is signed is the key's text as it travels, without a newline at its end: a minion
    verifies just that.

    @return: true when it was written, false when there was one already, or what is missing.
    """
    import base64

    from saltwisted.wire.rsa import PrivateKey, clean_pem

    pki_dir = str(opts["pki_dir"])
    if pub and not os.path.isfile(pub):
        return f"Public-key {pub} does not exist"
    if priv and not os.path.isfile(priv):
        return f"Private-key {priv} does not exist"
    sign_name = str(opts.get("master_sign_key_name") or "master_sign")
    passphrase = opts.get("signing_key_pass") or None
    private = priv or os.path.join(pki_dir, f"{sign_name}.pem")
    if not os.path.isfile(private):
        if not auto_create:
            return "No usable private-key found"
        generate(pki_dir, sign_name, bits, passphrase)
    public = pub or os.path.join(pki_dir, "master.pub")
    if not os.path.isfile(public):
        return "No usable public-key found"
    name = opts.get("master_pubkey_signature") or f"{opts['id']}_pubkey_signature"
    goal = os.path.join(directory or pki_dir, str(name))
    if os.path.lexists(goal):
        return False
    try:
        with open(private, encoding="ascii") as file:
            key = PrivateKey.from_pem(file.read(), passphrase)
        with open(public, "rb") as raw:
            signature = key.sign(clean_pem(raw.read()).encode("ascii"))
        _write(goal, base64.b64encode(signature) + b"\n", 0o400)
    except OSError as error:
        raise _store_error(error, goal) from None
    return True


def lay_down_token(pki_dir: str, token: str, discard_identity: bool) -> None:
    """
    Leave a join token where a node of a cluster looks at its start (C{pki_dir/cluster}).

    @raises StoreError: the disk refuses.
    """
    folder = os.path.join(pki_dir, "cluster")
    path = os.path.join(folder, "join.token")
    words = f"{token} discard-identity\n" if discard_identity else f"{token}\n"
    try:
        _make_private(pki_dir, folder)
        _write(path, words.encode(), 0o600)
    except OSError as error:
        raise _store_error(error, path) from None


def lay_down_beginning(pki_dir: str) -> None:
    """
    Leave word, where a node looks at its start, that it is the first of a cluster.

    @raises StoreError: the disk refuses.
    """
    folder = os.path.join(pki_dir, "cluster")
    try:
        _make_private(pki_dir, folder)
        _write(os.path.join(folder, "begin"), b"", 0o600)
    except OSError as error:
        raise _store_error(error, folder) from None


def lay_down_minion_token(pki_dir: str, cachedir: str, token: Token) -> None:
    """
    Leave a join token, and the masters in it, where a minion looks at its start.

    @raises StoreError: the disk refuses.
    """
    names = "".join(f"{name}\n" for name in token.peers)
    for folder, name, text in (
        (os.path.join(cachedir, "saltwisted"), "masters", names),
        (pki_dir, "join.token", f"{token.line}\n"),
    ):
        path = os.path.join(folder, name)
        try:
            _make_private(folder)
            _write(path, text.encode(), 0o600)
        except OSError as error:
            raise _store_error(error, path) from None


def accepted_here(pki_dir: str) -> int:
    """How many minions' keys are accepted in these directories; 0 where there are none."""
    try:
        return sum(map(valid_minion_id, os.listdir(os.path.join(pki_dir, ACCEPTED))))
    except OSError:
        return 0


def _make_private(*folders: str) -> None:
    """Make directories that nobody else may read; named from the outermost that has to be so."""
    for folder in folders:
        os.makedirs(folder, 0o700, exist_ok=True)


def _write(path: str, data: bytes, mode: int) -> None:
    """A file that was not there before, whole or not at all."""
    with fresh(path, mode) as file:
        file.write(data)


def _is_file(path: str) -> bool:
    """A file itself: a link is not a key, as in Salt 3008."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _store_error(error: OSError, path: str) -> StoreError:
    return StoreError(error.strerror or str(error), path)
