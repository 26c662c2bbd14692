"""
Calls of C{gpg} to ask of stock and of ours: keys that were made once, whose answers never change.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if __package__:
    from tests.modules.gpgkeys import keys
else:
    from gpgkeys import keys

if TYPE_CHECKING:
    from tests.modules.scripts import Script


def _verify(s: Script, have: dict[str, str], **chain: Any) -> None:
    """
    Signatures, with all that may be asked of who has signed.

    Those without worth are not among them: ours differs there (L{tests.modules.test_gpg}).
    """
    ann, ben, gone = (have[f"{who}_fingerprint"] for who in ("ann", "ben", "gone"))
    wanted: list[dict[str, Any]] = [
        {},
        {"signed_by_any": ann},
        {"signed_by_any": [ben, gone]},
        {"signed_by_all": [ann, ben]},
        {"signed_by_all": ben},
        {"signed_by_any": [ann], "signed_by_all": [ben]},
        {"signed_by_any": "nobody"},
        {"trustmodel": "always"},
    ]
    for name in ("ann", "both", "bad"):
        for more in wanted:
            s.call("gpg.verify", text=have[f"{name}_signed"], **more, **chain)
    for name in ("ann", "ben", "both"):
        for more in wanted:
            given = {"filename": s.path("hello"), "signature": s.path(f"{name}_detached")}
            s.call("gpg.verify", **given, **more, **chain)
    s.call("gpg.verify", filename=s.path("emptyf"), signature=s.path("ann_detached"), **chain)
    s.call("gpg.verify", filename=s.path("ann_signed"), **chain)
    s.call("gpg.verify", filename=s.path("hello"), **chain)
    s.call("gpg.verify", **chain)
    s.call("gpg.verify", text="x", trustmodel="blind", **chain)


def _keychain(s: Script, have: dict[str, str], chain: dict[str, Any]) -> None:
    """Keys come, are listed, found, trusted and go."""
    s.call("gpg.list_keys", **chain)
    for name in ("ann", "ann", "gone_revoked", "old", "bad_signed"):
        s.call("gpg.import_key", text=have[name], **chain)
    s.call("gpg.import_key", filename=s.path("all"), **chain, select=have["ben_fingerprint"][-16:])
    s.call("gpg.import_key", filename=s.path("all"), **chain, select=["AAAAAAAAAAAAAAAA"])
    s.call("gpg.import_key", filename=s.path("hello"), **chain, select=["x"])
    s.call("gpg.import_key", filename=s.path("nosuch"), **chain)
    s.call("gpg.import_key", text="x", filename="y", **chain)
    s.call("gpg.import_key", **chain)
    s.call("gpg.list_keys", **chain)
    s.call("gpg.list_secret_keys", **chain)
    for name in ("ann", "old", "ben"):
        print_ = have[f"{name}_fingerprint"]
        for key in ({"keyid": print_[-16:]}, {"keyid": print_[-8:]}, {"fingerprint": print_}):
            s.call("gpg.get_key", **key, **chain)
        s.call("gpg.get_secret_key", fingerprint=print_, **chain)
        s.call("gpg.trust_key", fingerprint=print_, trust_level="fully", **chain)
        s.call("gpg.trust_key", keyid=print_[-16:], trust_level="ultimately", **chain)
        s.call("gpg.get_key", fingerprint=print_, **chain)
        for bare in (True, False):
            s.call("gpg.export_key", keyids=print_, bare=bare, **chain)
    s.call("gpg.export_key", keyids="ann@example.com,nobody@x", output=s.path("o"), **chain)
    s.call("gpg.export_key", keyids="nobody@x", **chain)
    s.call("gpg.export_key", keyids="nobody@x", bare=True, **chain)
    s.call("gpg.read_key", path=s.path("o"), **chain)
    s.call("gpg.trust_key", keyid="AAAA", trust_level="fully", **chain)
    s.call("gpg.trust_key", keyid="AAAA", trust_level="blindly", **chain)
    s.call("gpg.trust_key", keyid="AAAA", fingerprint="A", trust_level="fully", **chain)
    s.call("gpg.get_key", keyid="AAAA", **chain)
    _verify(s, have, **chain)
    s.call("gpg.delete_key", **chain)
    s.call("gpg.delete_key", keyid="A", fingerprint="B", **chain)
    s.call("gpg.delete_key", keyid="AAAA", **chain)
    s.call("gpg.delete_key", keyid=have["old_fingerprint"][-8:], **chain)
    s.call("gpg.delete_key", fingerprint=have["ann_fingerprint"], **chain)
    s.call("gpg.list_keys", **chain)


def keychains(s: Script) -> None:
    """Keychains in a home, in a keyring of one's own; secret keys; what cannot be done."""
    have = keys()
    s.write("hello", "hello\n")
    for name, text in have.items():
        s.write(name, text)
    home = {"gnupghome": s.path("gnupg")}
    _keychain(s, have, home)
    _keychain(s, have, {**home, "keyring": s.path("ring")})
    s.call("gpg.list_keys", keyring=["a", "b"], **home)
    s.call("gpg.list_keys", user="nobody-of-that-name")
    s.call("file.get_mode", s.path("gnupg"))
    for name in ("all", "ann_secret", "hello", "nosuch"):
        s.call("gpg.read_key", path=s.path(name), **home)
    s.call("gpg.read_key", text=have["all"], keyid=have["ben_fingerprint"][-8:], **home)
    s.call("gpg.read_key", text=have["all"], fingerprint=have["old_fingerprint"], **home)
    s.call("gpg.read_key", text=have["all"], keyid="AAAA", **home)
    s.call("gpg.read_key", **home)
    s.call("gpg.read_key", text="x", path="y", **home)

    other = {"gnupghome": s.path("secret")}
    for name in ("ann_secret", "ben"):
        s.call("gpg.import_key", text=have[name], **other)
    s.call("gpg.list_secret_keys", **other)
    s.call("gpg.get_secret_key", keyid=have["ann_fingerprint"][-16:], **other)
    s.call("gpg.sign", text="hello", use_passphrase=True, **other)
    s.call("gpg.sign", **other)
    s.call("gpg.encrypt", text="x", recipients="nobody@x", **other)
    s.call("gpg.encrypt", text="x", recipients="nobody@x", bare=True, **other)
    s.call("gpg.encrypt", text="x", recipients="ben@example.com", **other)
    s.call("gpg.encrypt", recipients="ann@example.com", **other)
    s.call("gpg.encrypt", text="x", **other)
    s.call("gpg.encrypt", text="x", recipients="a", sign=True, use_passphrase=True, **other)
    s.call("gpg.decrypt", text="nothing", **other)
    s.call("gpg.decrypt", text="nothing", bare=True, **other)
    s.call("gpg.decrypt", **other)
    s.call("gpg.decrypt", text="x", use_passphrase=True, **other)
    s.call("gpg.create_key", use_passphrase=True, **other)
    print_ = have["ann_fingerprint"]
    s.call("gpg.delete_key", fingerprint=print_, **other)
    s.call("gpg.delete_key", fingerprint=print_, delete_secret=True, **other)
    s.call("gpg.delete_key", keyid=print_[-8:], delete_secret=True, use_passphrase=False, **other)
    s.call("gpg.list_secret_keys", **other)
    s.call("gpg.list_keys", **other)
    for folder in ("gnupg", "secret"):
        s.call("cmd.retcode", f"gpgconf --homedir {os.path.join(s.folder, folder)} --kill all")
