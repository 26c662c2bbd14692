"""
C{_auth}: how a minion and a master come to share two keys.

The minion shows its public key, a nonce, and (when it knows the master
already) a token encrypted to the master's key. The master answers with the
publish key and the minion's session key, both encrypted to the minion, and
signs the whole answer. No answer that says no is encrypted, but all are
signed, save the complaint about an unknown algorithm.

Master side: L{accepted_reply}, L{negative_reply}, L{bad_algorithm_reply}, over
a L{MasterIdentity}. Which of them, is decided above (C{domain/keys.py}).

Minion side: L{MinionHandshake}. It differs from stock in one thing: nothing is
to be remembered about a master before its signature and the nonce have been
verified (stock writes the key file first). The order is salt-wire's otherwise.

Private RSA operations are in L{accepted_reply} (two), L{negative_reply} (one)
and L{MinionHandshake.read} (two or three): run them in a thread.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections import OrderedDict
from collections.abc import Sequence
from hmac import compare_digest
from typing import Any

from attrs import define, field, frozen

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.wire.commands import Auth
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.envelope import VERSION, encode_clear_reply, encode_clear_request
from saltwisted.wire.msgpack import guess, pack, unpack, unpack_raw
from saltwisted.wire.rsa import (
    ENCRYPTION,
    OAEP_SHA1,
    PKCS1V15_SHA1,
    PKCS1V15_SHA224,
    SIGNING,
    PrivateKey,
    PublicKey,
    clean_pem,
    fingerprint,
)

OURS = "saltwisted"
"""A field that our minion adds to its question and our master repeats: "we may speak plainly".
Stock masters ignore it, stock minions never see it."""

_KEPT = 8
HANDOVER = "handover"
"""A field of our master's answer to our minion: the statements by which its key was replaced."""
MOST_HANDOVERS = 16
Handovers = Sequence[tuple[str, bytes]]
"""A public key (PEM) and the signature of the one before it, oldest first."""


def statement_of(pub_pem: str | bytes) -> bytes:
    """What a master's key signs about the key that follows it."""
    return b"saltwisted: the master's key is followed by\n" + clean_pem(pub_pem).encode("ascii")


def hand_over(old: PrivateKey, pub_pem: str | bytes) -> bytes:
    """The signature of a master's key under L{statement_of} the next."""
    return old.sign(statement_of(pub_pem), PKCS1V15_SHA224)


def followed(known: PublicKey, handovers: object) -> PublicKey:
    """
    The key that a remembered one is followed by, as far as the statements prove it.

    @param handovers: L{Handovers}, as they came: nothing of it is believed unproven.
    """
    rows = handovers if isinstance(handovers, (list, tuple)) else ()
    for row in list(rows)[:MOST_HANDOVERS]:
        if not isinstance(row, (list, tuple)) or len(row) != 2:
            continue
        pem, signature = row
        if not isinstance(pem, str) or not isinstance(signature, bytes):
            continue
        try:
            if known.verify(statement_of(pem), signature, PKCS1V15_SHA224):
                known = PublicKey.from_pem(pem)
        except (WireError, UnicodeEncodeError):
            continue
    return known


def digest_of(publish_key: SessionKey) -> bytes:
    """What the master signs (X9.31) about its publish key: 64 hexadecimal characters."""
    return hashlib.sha256(publish_key.text.encode("ascii")).hexdigest().encode("ascii")


# -- the master ------------------------------------------------------------


def _lined(text: str) -> bytes:
    return text.encode("ascii") + b"\n"


def signed_form_of(pub_pem: bytes, signature: bytes, signer: PublicKey | None) -> bytes:
    """
    The form of a public key that a signature file covers. Stock minions verify the text as it
    travels; 3008's C{salt-key --gen-signature} signs it with a final newline, 3006's and ours
    without.

    @param signature: the content of the file, base64.
    @param signer: the signing key, if it is known here; else the usual form is assumed.
    @raises WireError: the signature is of another key, or none at all.
    """
    bare = clean_pem(pub_pem).encode("ascii")
    try:
        raw = a2b_base64(signature)
    except Base64Error as error:
        raise WireError("no base64") from error
    if signer is None:
        return bare
    for form in (bare, bare + b"\n"):
        if any(signer.verify(form, raw, algorithm) for algorithm in SIGNING):
            return form
    raise WireError("signature of another key")


class MasterIdentity:
    """
    The master's key, and the signatures by it that are made once and kept.

    May be used from threads: the worst that a race does is make one twice.

    @ivar key: private. In a cluster, the cluster's.
    @ivar pub_key: the text that travels as C{pub_key}.
    @ivar handovers: statements of the keys that this one has replaced.
    """

    def __init__(
        self,
        key: PrivateKey,
        pub_pem: str | bytes | None = None,
        sign_key: PrivateKey | None = None,
        pub_signature: str | bytes | None = None,
    ) -> None:
        """
        @param pub_pem: the public key file, when its text is to be sent as it stands.
        @param sign_key: with C{master_sign_pubkey}: the signing key.
        @param pub_signature: with C{master_use_pubkey_signature}: the file's base64, sent as
            it stands instead of signing.
        """
        self.key = key
        self.pub_key = key.public.pem
        if pub_pem is not None:
            self.pub_key = clean_pem(pub_pem)
            if pub_signature is not None and pub_pem in (self.pub_key + "\n", _lined(self.pub_key)):
                # The signature is over the text with a final newline: so it must travel
                self.pub_key += "\n"
        self.handovers: Handovers = ()
        self.sign_key = sign_key
        self.pub_signature = pub_signature
        self._digests: OrderedDict[str, bytes] = OrderedDict()
        self._pub_sigs: dict[str, bytes] = {}

    def hand_over(self, handovers: Handovers) -> None:
        """What our minions are told of the keys that this one has replaced."""
        self.handovers = handovers

    def digest_signature(self, publish_key: SessionKey) -> bytes:
        """The X9.31 signature over L{digest_of} a publish key; some 5 ms the first time."""
        signature = self._digests.get(publish_key.text)
        if signature is None:
            signature = self.key.sign_x931(digest_of(publish_key))
            self._digests[publish_key.text] = signature
            while len(self._digests) > _KEPT:
                self._digests.popitem(last=False)
        return signature

    def pub_sig(self, algorithm: str) -> str | bytes | None:
        """What goes into C{pub_sig}, or C{None} when this master has no signing key."""
        if self.pub_signature:
            return self.pub_signature
        if self.sign_key is None:
            return None
        signature = self._pub_sigs.get(algorithm)
        if signature is None:
            made = self.sign_key.sign(self.pub_key.encode("ascii"), algorithm)
            signature = self._pub_sigs[algorithm] = b64encode(made) + b"\n"
        return signature


def bad_algorithm(request: Auth) -> str:
    """C{bad sig algo}, C{bad enc algo}, or C{""} when both names are known."""
    if request.sig_algo not in SIGNING:
        return "bad sig algo"
    if request.enc_algo not in ENCRYPTION:
        return "bad enc algo"
    return ""


def bad_algorithm_reply(word: str) -> bytes:
    """The unsigned complaint about an algorithm name."""
    return encode_clear_reply({"ret": word})


def _signed(inner: dict[str, Any], key: PrivateKey, algorithm: str) -> bytes:
    load = pack(inner)
    return pack({"enc": "clear", "load": load, "sig": key.sign(load, algorithm)})


def negative_reply(request: Auth, ret: bool | str, key: PrivateKey, version: int) -> bytes:
    """
    The answer to a minion that is not admitted.

    @param ret: C{True} for pending, C{False} for rejected or denied, C{"full"}.
    """
    if version < 2:
        return encode_clear_reply({"ret": ret})
    if request.sig_algo not in SIGNING:
        return bad_algorithm_reply("bad sig algo")
    return _signed({"ret": ret, "nonce": request.nonce}, key, request.sig_algo)


def accepted_reply(
    request: Auth,
    identity: MasterIdentity,
    minion_key: PublicKey,
    publish_key: SessionKey,
    session: SessionKey,
    publish_port: int,
    version: int,
) -> bytes:
    """
    The answer to a minion that is admitted.

    A token that cannot be opened (it was made for another master's key) is left
    out, as in Salt; the minion then refuses, and says why.

    @param minion_key: the accepted key, as stored.
    @param session: the key for this minion's requests.
    @param version: of the request; 0 and 1 get the map itself, unsigned.
    """
    word = bad_algorithm(request)
    if word:
        return bad_algorithm_reply(word)
    reply: dict[str, Any] = {
        "enc": "pub",
        "pub_key": identity.pub_key,
        "publish_port": publish_port,
    }
    if OURS in request.load:
        reply[OURS] = 1
        if identity.handovers:
            reply[HANDOVER] = [[pem, signature] for pem, signature in identity.handovers]
    pub_sig = identity.pub_sig(request.sig_algo)
    if pub_sig is not None:
        reply["pub_sig"] = pub_sig
    if request.token:
        try:
            token = identity.key.decrypt(request.token, request.enc_algo)
            reply["token"] = minion_key.encrypt(token, request.enc_algo)
        except WireError:
            pass
    reply["aes"] = minion_key.encrypt(publish_key.text.encode("ascii"), request.enc_algo)
    reply["session"] = minion_key.encrypt(session.text.encode("ascii"), request.enc_algo)
    reply["sig"] = identity.digest_signature(publish_key)
    if version < 2:
        return pack(reply)
    reply["nonce"] = request.nonce
    return _signed(reply, identity.key, request.sig_algo)


# -- the minion ------------------------------------------------------------


class HandshakeError(AuthenticationError):
    """The reply to C{_auth} cannot be trusted. Try again later; never leave."""


class NotAReply(HandshakeError):
    """Bytes that no master sends in answer to C{_auth}."""


class MasterKeyChanged(HandshakeError):
    """
    The master shows another key than the one remembered.

    @ivar expected: fingerprint of the remembered key.
    @ivar got: fingerprint of the key shown.
    """

    def __init__(self, expected: str, got: str) -> None:
        super().__init__("master key changed")
        self.expected = expected
        self.got = got


class MasterFingerprint(HandshakeError):
    """
    The key's fingerprint is not the configured C{master_finger}.

    @ivar expected: the option.
    @ivar got: fingerprint of the key shown.
    """

    def __init__(self, expected: str, got: str) -> None:
        super().__init__("master_finger")
        self.expected = expected
        self.got = got


class MasterNotSigned(HandshakeError):
    """C{verify_master_pubkey_sign} and the master's C{master_sign_pubkey} do not agree, or the
    signature over its key is wrong."""


class MasterUnproven(HandshakeError):
    """The answer is not signed by the key it shows, or is an answer to another request."""


@frozen(kw_only=True)
class Accepted:
    """
    Signed in.

    @ivar publish_key: opens publications.
    @ivar session: seals requests, opens replies.
    @ivar master_key: the verified key.
    @ivar remember: the key is new: write C{master_key.pem} to C{minion_master.pub} now.
    @ivar ours: the master is a saltwisted one.
    """

    publish_key: SessionKey = field(repr=False)
    session: SessionKey = field(repr=False)
    publish_port: int
    master_key: PublicKey
    remember: bool
    ours: bool = False


@frozen
class NotYet:
    """
    The master said no, for now.

    @ivar reason: C{pending}, C{rejected}, C{full}, C{bad sig algo}, C{bad enc algo},
        C{cluster_retry} or C{refused}.
    @ivar proven: whether the remembered master signed it. What is not proven may come
        from anybody; it changes how long to wait, and nothing else.
    """

    reason: str
    proven: bool


@define(kw_only=True)
class MinionHandshake:
    """
    One minion's side of the exchange with one master.

    @ivar token: 76 characters of chance, kept for the life of the object
        (L{SessionKey.generate}C{.text}); the master must be able to repeat them.
    @ivar verify_master_pubkey_sign: demand a signature of C{sign_key} over the master's key.
    @ivar sign_key: the key in C{<master_sign_key_name>.pub}, or C{None} when there is no file.
    @ivar open_mode: accept a changed key.
    """

    id: str
    key: PrivateKey = field(repr=False)
    token: str = field(repr=False)
    enc_algo: str = OAEP_SHA1
    sig_algo: str = PKCS1V15_SHA1
    verify_master_pubkey_sign: bool = False
    always_verify_signature: bool = False
    sign_key: PublicKey | None = None
    open_mode: bool = False
    master_finger: str = ""
    hash_type: str = "sha256"

    def request(
        self,
        nonce: str,
        known: PublicKey | None,
        autosign_grains: dict[str, Any] | None = None,
        join: Sequence[Any] = (),
        patience: float = 0,
    ) -> bytes:
        """
        The frame to send.

        @param nonce: 32 hexadecimal characters, fresh.
        @param known: the remembered master key, if any.
        @param join: of who has a join token: its id, and the proof for this nonce.
        @param patience: seconds for which a master of ours may keep the answer that the key is
            pending, so that an acceptance is known at once; stock masters answer anyhow.
        """
        load: dict[str, Any] = {
            "cmd": "_auth",
            "id": self.id,
            "nonce": nonce,
            "enc_algo": self.enc_algo,
            "sig_algo": self.sig_algo,
            OURS: 1,
        }
        if autosign_grains is not None:
            load["autosign_grains"] = autosign_grains
        if join:
            load["join"] = list(join)
        if patience > 0:
            load["patience"] = patience
        if known is not None:
            load["token"] = known.encrypt(self.token.encode("ascii"), self.enc_algo)
        load["pub"] = self.key.public.pem
        return encode_clear_request(load, VERSION)

    def read(
        self, frame: bytes, nonce: str, known: PublicKey | None, pin: str = ""
    ) -> Accepted | NotYet:
        """
        Judge the reply.

        @param nonce: of the request.
        @param known: the master key given to L{request}.
        @param pin: the SHA-256 fingerprint that the master's key must have, without colons.
        @raises HandshakeError: not to be trusted; see its subclasses.
        @raises WireError: malformed.
        """
        outer = unpack_raw(frame)
        if outer.__class__ is bytes:
            return NotYet("refused", False)
        if outer.__class__ is not dict or b"load" not in outer:
            raise NotAReply("no load")
        load, signature = outer[b"load"], outer.get(b"sig")
        if load.__class__ is dict:
            return self._unsigned(guess(load))
        if load.__class__ is not bytes or signature.__class__ is not bytes:
            raise NotAReply("no signature")
        reply = unpack(load)
        if reply.__class__ is not dict:
            raise NotAReply("no map")
        master: PublicKey | None
        if "pub_key" in reply:
            master, remember = self._judge_key(reply, known, pin)
        else:
            master, remember = known, False
        if master is not None:
            if not master.verify(load, signature, self.sig_algo):
                raise MasterUnproven("signature")
            got = reply.get("nonce")
            if got.__class__ is not str or not compare_digest(got.encode(), nonce.encode()):
                raise MasterUnproven("nonce")
        if "ret" in reply or master is None or "pub_key" not in reply:
            return NotYet(_reason(reply.get("ret")), master is not None)
        return self._open(reply, master, known, remember)

    @staticmethod
    def _unsigned(load: dict[Any, Any]) -> NotYet:
        if load.get("cluster_retry"):
            return NotYet("cluster_retry", False)
        ret = load.get("ret")
        if ret in ("bad sig algo", "bad enc algo"):
            return NotYet(str(ret), False)
        return NotYet("refused", False)

    def _judge_key(
        self, reply: dict[Any, Any], known: PublicKey | None, pin: str
    ) -> tuple[PublicKey, bool]:
        """The key that the reply must be signed with, and whether it is news."""
        text = reply["pub_key"]
        if text.__class__ is not str:
            raise NotAReply("pub_key")
        try:
            shown = PublicKey.from_pem(text)
        except WireError as error:
            raise NotAReply("pub_key") from error
        signed = "pub_sig" in reply
        if signed != self.verify_master_pubkey_sign:
            raise MasterNotSigned(
                "the master signs its key, but this minion does not verify it"
                if signed
                else "the master does not sign its key, but this minion requires it"
            )
        same = known is not None and clean_pem(text) == known.pem
        if not same and known is not None and shown == known:
            same = True
        if signed and (not same or self.always_verify_signature):
            self._check_pub_sig(text, reply["pub_sig"])
        elif (
            known is not None
            and not same
            and not self.open_mode
            and followed(known, reply.get(HANDOVER)) != shown
        ):
            raise MasterKeyChanged(
                known.fingerprint(self.hash_type), shown.fingerprint(self.hash_type)
            )
        if self.master_finger:
            got = fingerprint(shown.pem, self.hash_type)
            if not compare_digest(got.encode(), self.master_finger.encode()):
                raise MasterFingerprint(self.master_finger, got)
        if pin:
            got = fingerprint(shown.pem, "sha256").replace(":", "")
            if not compare_digest(got.encode(), pin.encode()):
                raise MasterFingerprint(pin, got)
        return shown, not same

    def _check_pub_sig(self, text: str, pub_sig: Any) -> None:
        """
        The signing key over the master's key. 3008's C{salt-key --gen-signature} signs the
        text with a final newline, which travels without: both forms are the same key.
        """
        if self.sign_key is None:
            raise MasterNotSigned("no verification key on this minion")
        try:
            raw = pub_sig.encode("ascii") if isinstance(pub_sig, str) else bytes(pub_sig)
            signature = a2b_base64(raw)
        except (Base64Error, UnicodeEncodeError, TypeError, ValueError) as error:
            raise MasterNotSigned("pub_sig") from error
        bare = text.rstrip("\n").encode()
        for form in (text.encode(), bare, bare + b"\n"):
            if self.sign_key.verify(form, signature, self.sig_algo):
                return
        raise MasterNotSigned("the signature over the master's key is wrong")

    def _open(
        self, reply: dict[Any, Any], master: PublicKey, known: PublicKey | None, remember: bool
    ) -> Accepted:
        """The keys inside a reply whose signature and nonce are right."""
        publish_key = self._key(reply.get("aes"))
        if not compare_digest(master.open_x931(reply.get("sig", b"")), digest_of(publish_key)):
            raise MasterUnproven("digest")
        if known is not None and not remember:
            token = reply.get("token")
            if token.__class__ is not bytes:
                raise MasterUnproven("token")
            opened = self.key.decrypt(token, self.enc_algo)
            if not compare_digest(opened, self.token.encode("ascii")):
                raise MasterUnproven("token")
        session = self._key(reply.get("session"))
        port = reply.get("publish_port")
        if port.__class__ is not int or not 0 < port < 65536:
            raise NotAReply("publish_port")
        return Accepted(
            publish_key=publish_key,
            session=session,
            publish_port=port,
            master_key=master,
            remember=remember,
            ours=OURS in reply,
        )

    def _key(self, sealed: Any) -> SessionKey:
        if sealed.__class__ is not bytes:
            raise NotAReply("key")
        text = self.key.decrypt(sealed, self.enc_algo)
        # "key_|-token" is what auth_mode 2 would send.
        return SessionKey(text.partition(b"_|-")[0].decode("ascii", "replace"))


def _reason(ret: Any) -> str:
    if ret is True:
        return "pending"
    if ret is False:
        return "rejected"
    return "full" if ret == "full" else "refused"
