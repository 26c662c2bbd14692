"""
The C{key} wheel functions: what C{salt-key} does to minion keys.

Groups are named as in Salt's own answers (C{minions}, C{minions_pre}, C{minions_rejected},
C{minions_denied}, C{local}). Every change fires C{salt/key}. Long lists are processed in slices, so
that minions are served meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted.domain.targeting.globs import globbed
from saltwisted.errors import StoreError, WireError
from saltwisted.master import keymaking
from saltwisted.master.context import Context
from saltwisted.master.wheel_table import Call
from saltwisted.stores.keys import DIRECTORIES
from saltwisted.transports.deferreds import all_within, as_deferred, let_go
from saltwisted.wire.rsa import PrivateKey, PublicKey, fingerprint

log = Logger()
GROUP = DIRECTORIES
"""State to the name of its group."""
STATE = {group: state for state, group in GROUP.items()}
LOCAL = ("master.pem", "master.pub")
FLUSH_SECONDS = 5.0
"""How long the disk has to make key files last."""
SLICE = 32
"""Keys that are moved between two turns of the reactor."""


def groups(ctx: Context) -> dict[str, list[str]]:
    """All minion keys, by group, in Salt's order of groups."""
    ctx.keys.rescan()
    keys = ctx.keys.list_keys()
    return {
        GROUP[state]: sorted(keys[state], key=str.lower)
        for state in ("pending", "rejected", "accepted", "denied")
    }


def matching(ctx: Context, match: Any, exact: bool = False) -> dict[str, list[str]]:
    """Ids per group that a glob, a comma list of globs or a list of globs means."""
    patterns = match.split(",") if isinstance(match, str) else [str(m) for m in match]
    found: dict[str, list[str]] = {}
    for group, ids in groups(ctx).items():
        if patterns == ["*"] and not exact:
            hits = ids
        elif exact:
            hits = [i for i in ids if i in patterns]
        else:
            hits = [i for i in ids if any(globbed(i, p) for p in patterns)]
        if hits:
            found[group] = list(hits)
    return found


async def list_all(call: Call) -> dict[str, list[str]]:
    """All keys by group, with the master's own."""
    return {**groups(call.ctx), "local": list(LOCAL)}


async def list_(call: Call, match: str) -> dict[str, list[str]]:
    """The keys of one group, named as on C{salt-key -l}."""
    everything = {**groups(call.ctx), "local": list(LOCAL)}
    word = str(match)
    for prefixes, group in (
        (("acc",), "minions"),
        (("pre", "un"), "minions_pre"),
        (("rej",), "minions_rejected"),
        (("den",), "minions_denied"),
    ):
        if word.startswith(prefixes):
            return {group: everything[group]}
    if word.startswith("all"):
        return everything
    return {}


async def name_match(call: Call, match: Any) -> dict[str, list[str]]:
    """Which keys a glob means."""
    return matching(call.ctx, match)


async def list_match(call: Call, match: Any) -> dict[str, list[str]]:
    """Which groups have these exact ids."""
    return matching(call.ctx, match, exact=True)


async def _change(call: Call, chosen: Mapping[str, Sequence[str]], target: str) -> None:
    """Move keys into a state, a slice at a time, one event each."""
    ctx = call.ctx
    done = 0
    with ctx.seams.key_changes.together():
        for group, ids in chosen.items():
            state = STATE.get(group)
            if state is None or state == target:
                continue
            for minion_id in ids:
                pub = ctx.keys.key(state, minion_id)
                if pub is None:
                    continue
                if target == "accepted" and not _usable(pub):
                    ctx.counters["refused:weak-key"] += 1
                    continue
                if ctx.keys.move(minion_id, state, target):
                    ctx.bus.fire(
                        "salt/key",
                        {
                            "result": True,
                            "act": target,
                            "id": minion_id,
                            "pub": pub.decode("utf-8", "replace"),
                        },
                    )
                done += 1
                if done % SLICE == 0:
                    await deferLater(ctx.clock, 0)
    await _flushed(ctx)


async def _flushed(ctx: Context) -> None:
    """
    Wait for the disk under the key directories, but not for ever.

    @raises StoreError: it refuses, or does not answer.
    """
    flushing = as_deferred(ctx.pool(ctx.keys.flush))
    if not await all_within(ctx.clock, FLUSH_SECONDS, [flushing]):
        let_go(flushing, log, "key files were not written")
        raise StoreError(
            f"unknown: the disk has not finished a write for {FLUSH_SECONDS:.0f} s; the change "
            "holds for now, and may be undone if the machine fails",
            ctx.keys.pki_dir,
        )
    await flushing


def _usable(pub: bytes) -> bool:
    try:
        PublicKey.from_pem(pub)
    except WireError:
        return False
    return True


def _sources(base: str, **extra: bool) -> list[str]:
    return [base, *(group for group, wanted in extra.items() if wanted)]


async def _select_and_change(
    call: Call, match: Any, sources: Iterable[str], target: str
) -> dict[str, list[str]]:
    found = matching(call.ctx, match)
    await _change(call, {g: found[g] for g in sources if g in found}, target)
    return await _outcome(call, matching(call.ctx, match))


async def _outcome(call: Call, keys: dict[str, list[str]]) -> dict[str, list[str]]:
    """
    What is answered after a change: in a cluster once the members that can be reached have it.

    Under C{unconfirmed} are those that have not said so in time.
    """
    late = await call.ctx.seams.key_changes.settled()
    return {**keys, "unconfirmed": list(late)} if late else keys


async def accept(
    call: Call, match: Any, include_rejected: bool = False, include_denied: bool = False
) -> dict[str, list[str]]:
    """
    Accept pending keys (and rejected or denied ones, if included).

    It is a failure if no key that is meant is accepted then.
    """
    sources = _sources(
        "minions_pre", minions_rejected=include_rejected, minions_denied=include_denied
    )
    found = await _select_and_change(call, match, sources, "accepted")
    call.judge(bool(found.get(GROUP["accepted"])))
    return found


async def accept_dict(
    call: Call,
    match: Mapping[str, Sequence[str]],
    include_rejected: bool = False,
    include_denied: bool = False,
) -> dict[str, list[str]]:
    """Accept exactly these keys, given by group."""
    sources = _sources(
        "minions_pre", minions_rejected=include_rejected, minions_denied=include_denied
    )
    await _change(call, {g: match[g] for g in sources if g in match}, "accepted")
    found = matching(call.ctx, [i for ids in match.values() for i in ids], exact=True)
    return await _outcome(call, found)


async def reject(
    call: Call,
    match: Any,
    include_accepted: bool = False,
    include_denied: bool = False,
    rotate_aes_key: bool | None = None,
) -> dict[str, list[str]]:
    """Reject pending keys (and accepted or denied ones, if included)."""
    sources = _sources("minions_pre", minions=include_accepted, minions_denied=include_denied)
    result = await _select_and_change(call, match, sources, "rejected")
    _rotate(call.ctx, rotate_aes_key)
    return result


async def reject_dict(
    call: Call,
    match: Mapping[str, Sequence[str]],
    include_accepted: bool = False,
    include_denied: bool = False,
    rotate_aes_key: bool | None = None,
) -> dict[str, list[str]]:
    """Reject exactly these keys, given by group."""
    sources = _sources("minions_pre", minions=include_accepted, minions_denied=include_denied)
    await _change(call, {g: match[g] for g in sources if g in match}, "rejected")
    _rotate(call.ctx, rotate_aes_key)
    found = matching(call.ctx, [i for ids in match.values() for i in ids], exact=True)
    return await _outcome(call, found)


async def delete(
    call: Call,
    match: Any,
    preserve_minions: bool = False,
    rotate_aes_key: bool | None = None,
    exact: bool = False,
) -> dict[str, list[str]]:
    """Delete keys in every group; what the master remembers of the minion goes too."""
    found = matching(call.ctx, match, exact=exact)
    await _delete(call, found, preserve_minions, rotate_aes_key)
    return await _outcome(call, matching(call.ctx, match, exact=exact))


async def delete_dict(
    call: Call,
    match: Mapping[str, Sequence[str]],
    preserve_minions: bool = False,
    rotate_aes_key: bool | None = None,
) -> dict[str, list[str]]:
    """Delete exactly these keys, given by group."""
    await _delete(call, match, preserve_minions, rotate_aes_key)
    found = matching(call.ctx, [i for ids in match.values() for i in ids], exact=True)
    return await _outcome(call, found)


async def _delete(
    call: Call,
    chosen: Mapping[str, Sequence[str]],
    preserve_minions: bool,
    rotate: bool | None,
) -> None:
    ctx = call.ctx
    preserve = preserve_minions or bool(ctx.config.preserve_minion_cache)
    done = 0
    with ctx.seams.key_changes.together():
        for group, ids in chosen.items():
            state = STATE.get(group)
            if state is None:
                continue
            for minion_id in ids:
                try:
                    if not ctx.keys.delete(minion_id, [state]):
                        continue
                except StoreError:
                    continue
                ctx.bus.fire("salt/key", {"result": True, "act": "delete", "id": minion_id})
                if not preserve and state != "denied":
                    for bank in ("grains", "pillar", "mine"):
                        ctx.cache.delete(bank, minion_id)
                done += 1
                if done % SLICE == 0:
                    await deferLater(ctx.clock, 0)
    await _flushed(ctx)
    if done:
        _rotate(ctx, rotate)


def _rotate(ctx: Context, asked: bool | None) -> None:
    """Make a new publish key soon, unless the option or the caller says not to."""
    wanted = ctx.config.rotate_aes_key if asked is None else asked
    if wanted:
        ctx.rotation.request("a key was deleted or rejected")


async def finger(call: Call, match: Any, hash_type: str | None = None) -> dict[str, Any]:
    """Fingerprints of the matching keys, by group."""
    algorithm = hash_type or call.ctx.config.hash_type
    shown: dict[str, dict[str, str]] = {}
    for group, ids in matching(call.ctx, match).items():
        for minion_id in ids:
            pub = call.ctx.keys.key(STATE[group], minion_id)
            if pub:
                shown.setdefault(group, {})[minion_id] = fingerprint(pub, algorithm)
    if any(globbed(name, str(match)) for name in LOCAL):
        shown["local"] = (await finger_master(call, hash_type))["local"]
    return shown


async def finger_master(call: Call, hash_type: str | None = None) -> dict[str, Any]:
    """The fingerprint of the master's own public key."""
    algorithm = hash_type or call.ctx.config.hash_type
    identity: PrivateKey = call.ctx.identity
    return {"local": {"master.pub": fingerprint(identity.public.pem, algorithm)}}


async def key_str(call: Call, match: Any) -> dict[str, Any]:
    """The matching public keys themselves, by group."""
    shown: dict[str, dict[str, str]] = {}
    for group, ids in matching(call.ctx, match).items():
        for minion_id in ids:
            pub = call.ctx.keys.key(STATE[group], minion_id)
            if pub:
                shown.setdefault(group, {})[minion_id] = pub.decode("utf-8", "replace")
    return shown


async def master_key_str(call: Call) -> dict[str, Any]:
    """The master's own public key."""
    return {"local": {"master.pub": call.ctx.identity.public.pem}}


async def gen(call: Call, id_: str | None = None, keysize: int = 2048) -> dict[str, str]:
    """A new key pair, not stored."""
    private = await call.ctx.pool(PrivateKey.generate, int(keysize))
    return {"priv": private.pem(), "pub": private.public.pem}


async def gen_accept(
    call: Call, id_: str, keysize: int = 2048, force: bool = False
) -> dict[str, str]:
    """A new key pair whose public half is accepted at once."""
    if call.ctx.keys.accepted(id_) is not None and not force:
        return {}
    pair = await gen(call, id_, keysize)
    with call.ctx.seams.key_changes.together():
        call.ctx.keys.put("accepted", id_, pair["pub"].encode())
    await _flushed(call.ctx)
    await call.ctx.seams.key_changes.settled()
    return pair


async def gen_keys(
    call: Call,
    keydir: str | None = None,
    keyname: str | None = None,
    keysize: int | None = None,
    user: str | None = None,
) -> str:
    """
    The fingerprint of a key pair in a directory (pki_dir), which is made unless it is there.

    It belongs to the user with whose rights the master runs, whatever C{user} says.
    """
    config = call.ctx.config
    folder, name = str(keydir or config.pki_dir), str(keyname or "minion")
    bits = int(keysize or config.keysize)
    return str(await call.ctx.pool(keymaking.generate, folder, name, bits, config.hash_type))


async def gen_signature(
    call: Call,
    priv: str = "",
    pub: str = "",
    signature_path: str = "",
    auto_create: bool = False,
    keysize: int | None = None,
) -> bool:
    """
    Write the signature over the master's public key, which minions verify.

    Returns false if there is one. C{auto_create} makes the signing key unless it is there.
    """
    config, pool = call.ctx.config, call.ctx.pool
    folder, name = config.pki_dir, config.master_sign_key_name
    private = str(priv or os.path.join(folder, f"{name}.pem"))
    passphrase = config.signing_key_pass or None
    if auto_create and not priv:
        await pool(keymaking.pair, folder, name, int(keysize or config.keysize), passphrase)
    goal = os.path.join(
        str(signature_path or folder),
        config.master_pubkey_signature or f"{config.id}_pubkey_signature",
    )
    public = str(pub or os.path.join(folder, "master.pub"))
    return bool(await pool(keymaking.sign, private, passphrase, public, goal))


FUNCTIONS = {
    "accept": accept,
    "accept_dict": accept_dict,
    "delete": delete,
    "delete_dict": delete_dict,
    "finger": finger,
    "finger_master": finger_master,
    "gen": gen,
    "gen_accept": gen_accept,
    "gen_keys": gen_keys,
    "gen_signature": gen_signature,
    "glob_match": name_match,
    "key_str": key_str,
    "list": list_,
    "list_all": list_all,
    "list_match": list_match,
    "master_key_str": master_key_str,
    "name_match": name_match,
    "print": key_str,
    "reject": reject,
    "reject_dict": reject_dict,
}
