"""
States with keys of GnuPG: keys in a keychain, and files and archives whose signature is asked for.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from typing import TYPE_CHECKING, Any

if __package__:
    from tests.modules.gpgkeys import detached, keys
else:
    import sys

    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(__file__)), "modules"))
    from gpgkeys import detached, keys

if TYPE_CHECKING:
    from tests.states.scripts import Script


def _tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
        member = tarfile.TarInfo("inside")
        member.size = 6
        tar.addfile(member, io.BytesIO(b"hello\n"))
    return made.getvalue()


def _keys(s: Script, have: dict[str, str]) -> None:
    chain = {"gnupghome": s.path("g")}
    ann, ben, old, gone = (have[f"{n}_fingerprint"][-16:] for n in ("ann", "ben", "old", "gone"))
    alone = {"skip_keyserver": True, **chain}
    s.apply("gpg.present", ann, text=have["all"], **chain)
    s.apply("gpg.present", ann, text=have["all"], trust="fully", **chain)
    s.apply("gpg.present", "two", keys=[ann, ben], text=have["all"], trust="ultimately", **chain)
    s.apply("gpg.present", ben, source=s.path("roots/nosuch.asc"), **alone)
    s.apply("gpg.present", gone, source="salt://nosuch.asc", **alone)
    s.apply("gpg.present", gone, source=["salt://ann.asc", "salt://gone.asc"], **alone)
    s.apply("gpg.present", "AAAAAAAAAAAAAAAA", text=have["all"], trust="fully", **chain)
    s.apply("gpg.present", old, text=have["old"], **chain)
    s.apply("gpg.present", old, text=have["old"], **chain)
    s.apply("gpg.present", ann, **alone)
    s.apply("gpg.present", ann, text="x", trust="blindly", **chain)
    s.calls.append(("gpg.list_keys", dict(chain), None))
    s.apply("gpg.absent", ann, **chain)
    s.apply("gpg.absent", "more", keys=[ann, ben, "AAAA"], **chain)
    ring = {**chain, "keyring": s.path("ring")}
    s.apply("gpg.present", ann, text=have["ann"], **ring)
    s.apply("gpg.absent", ann, keyring_absent_if_empty=True, **ring)
    s.calls.append(("gpg.import_key", {"text": have["ben_secret"], **chain}, None))
    s.apply("gpg.absent", ben, **chain)
    s.calls.append(("gpg.import_key", {"text": have["all"], **chain}, None))


def _files(s: Script, have: dict[str, str]) -> None:
    ann, ben = have["ann_fingerprint"], have["ben_fingerprint"]
    chain: dict[str, Any] = {"gnupghome": s.path("g")}
    signed = "salt://hello.asc"
    s.write("roots/hello", "hello\n")
    s.write("roots/hello.asc", have["ann_detached"])
    s.write("roots/both.asc", have["both_detached"])
    s.write("roots/inline", have["ann_signed"])
    s.write("roots/bad", have["bad_signed"])
    asked: list[dict[str, Any]] = [
        {"signature": signed},
        {"signature": signed, "signed_by_any": [ben, ann]},
        {"signature": signed, "signed_by_any": ben},
        {"signature": signed, "signed_by_all": [ann, ben]},
        {"signature": "salt://both.asc", "signed_by_all": [ann, ben]},
        {"signature": "salt://nosuch.asc"},
        {"signature": True},
        {"signature": signed, "keyring": s.path("emptyring")},
        {"signature": signed, "sig_backend": "nosuch"},
    ]
    for number, words in enumerate(asked):
        target = s.path(f"m{number}")
        s.apply("file.managed", target, source="salt://hello", **words, **chain)
        s.calls.append(("file.file_exists", {"path": target}, None))
    s.apply("file.managed", s.path("in"), source="salt://inline", signature=True, **chain)
    s.apply("file.managed", s.path("bad"), source="salt://bad", signature=True, **chain)


def _sums(s: Script, have: dict[str, str]) -> None:
    """Lists of hashes that are signed, of files and archives."""
    ann, ben = have["ann_fingerprint"], have["ben_fingerprint"]
    chain: dict[str, Any] = {"gnupghome": s.path("g")}
    s.write("roots/web/hello", "hello\n")
    s.write("roots/web/a.tar", _tar())
    files = {"hello": b"hello\n", "a.tar": _tar()}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    s.write("roots/web/SUMS", sums)
    s.write("roots/web/SUMS.asc", detached(sums.encode()))
    s.write("roots/web/a.tar.asc", detached(files["a.tar"]))
    s.write("roots/web/other.asc", have["ann_detached"])
    s.write("roots/web/hello.asc", have["ann_detached"])
    hashed = {"source_hash": "salt://web/SUMS"}
    for sig in (True, "salt://web/other.asc"):
        words = {**hashed, "source_hash_sig": sig, "signed_by_any": [ann], **chain}
        s.apply("file.managed", s.path("h"), source="salt://web/hello", **words)
        s.apply("archive.extracted", s.path("x"), source="salt://web/a.tar", **words)
    words = {**hashed, "source_hash_sig": "salt://web/SUMS.asc", "signed_by_all": ann, **chain}
    s.apply("file.managed", s.path("signed"), source="salt://web/hello", **words)
    words["enforce_toplevel"] = False
    s.apply("archive.extracted", s.path("z"), source="salt://web/a.tar", **words)
    words = {"signature": "salt://web/a.tar.asc", "signed_by_any": [ben, ann], **chain}
    words["enforce_toplevel"] = False
    s.apply("archive.extracted", s.path("v"), source="salt://web/a.tar", **words)
    for more in ({}, {"signed_by_any": [ben]}):
        words = {"signature": "salt://web/hello.asc", **more, **chain}
        s.apply("archive.extracted", s.path("y"), source="salt://web/a.tar", **words)


def keychains(s: Script) -> None:
    """Keys come and go; who has not signed is not believed."""
    have = keys()
    s.write("roots/ann.asc", have["ann"])
    s.write("roots/gone.asc", have["gone_revoked"])
    _keys(s, have)
    _files(s, have)
    _sums(s, have)
    s.calls.append(("cmd.retcode", {"cmd": f"gpgconf --homedir {s.path('g')} --kill all"}, None))
