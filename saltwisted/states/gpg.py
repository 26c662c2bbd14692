"""
Public keys in a keychain of GnuPG.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping
from typing import Any

from attrs import define, field

from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any

_TRUST = {
    "expired": "Expired",
    "unknown": "Unknown",
    "not_trusted": "Not Trusted",
    "marginally": "Marginally",
    "fully": "Fully Trusted",
    "ultimately": "Ultimately Trusted",
}
_FAILURES = (CommandExecutionError, SaltInvocationError)


def present(
    name: str,
    keys: Any = None,
    user: str | None = None,
    keyserver: str | None = None,
    gnupghome: str | None = None,
    trust: str | None = None,
    keyring: str | None = None,
    source: Any = None,
    skip_keyserver: bool = False,
    text: Any = None,
    subkey_maxage: int | None = 100,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Keys are in the keychain, and have not expired.

    name, keys
        Their ids.
    user, gnupghome, keyring
        Which keychain.
    keyserver
        Where to ask for them.
    trust
        How far their owners are trusted: C{expired}, C{unknown}, C{not_trusted}, C{marginally},
        C{fully} or C{ultimately}.
    source
        Files to take a key from that the key server has not given.
    skip_keyserver
        Do not ask a key server.
    text
        Take the keys from this text instead.
    subkey_maxage
        A subkey that has expired at most so many days ago is a reason to ask for the key anew.
    """
    ret: dict[str, Any] = {"name": name, "result": True, "changes": {}, "comment": ""}
    chain = {"user": user, "gnupghome": gnupghome, "keyring": keyring}
    try:
        if not text and skip_keyserver and not source:
            raise SaltInvocationError(
                "When skipping keyservers, you must provide at least one source"
            )
        if trust and trust not in _TRUST:
            raise SaltInvocationError(f"Invalid trust level {trust}")
        found = __salt__["gpg.list_keys"](**chain)
    except _FAILURES as error:
        return {**ret, "result": False, "comment": str(error)}
    here = {key["keyid"]: key for key in found}
    sources = source if isinstance(source, list) else [source] if source else []
    parts = []
    for keyid in _names(keys or name):
        key = _Key(
            keyid,
            chain=chain,
            known=here.get(keyid),
            days=subkey_maxage,
            text=text,
            sources=sources,
            keyserver=keyserver,
            asks_server=not skip_keyserver,
        )
        key.come()
        parts.append(key)
    for key in parts:
        if trust:
            key.trust(trust)
        if key.result is not True and ret["result"] is not False:
            ret["result"] = key.result
        if key.changes:
            ret["changes"][key.keyid] = key.changes
    ret["comment"] = "\n".join(
        f"Key {key.keyid}:\n  * " + "\n  * ".join(key.said) for key in parts if key.said
    )
    return ret


def _names(keys: Any) -> list[str]:
    return [keys] if isinstance(keys, str) else list(keys)


def _lately_expired(key: Mapping[str, Any] | None, days: int | None) -> dict[str, Any]:
    """The subkeys that have expired, but not long ago, by id."""
    if not days or key is None:
        return {}
    today = datetime.datetime.now(tz=datetime.UTC).astimezone().date()
    return {
        sub["keyid"]: sub
        for sub in key.get("subkeys", [])
        if sub.get("expired") and (today - datetime.date.fromisoformat(sub["expires"])).days <= days
    }


@define
class _Key:
    """
    One key that is to be there.

    @ivar known: what the keychain knows of it.
    @ivar said: lines of the comment.
    """

    keyid: str
    chain: Mapping[str, Any] = field(kw_only=True)
    known: dict[str, Any] | None = field(kw_only=True)
    days: int | None = field(kw_only=True)
    text: Any = field(kw_only=True)
    sources: list[str] = field(kw_only=True)
    keyserver: str | None = field(kw_only=True)
    asks_server: bool = field(kw_only=True)
    result: bool | None = True
    changes: dict[str, Any] = field(factory=dict)
    said: list[str] = field(factory=list)

    @property
    def is_expired(self) -> bool:
        return bool(self.known and self.known.get("expired"))

    def _fail(self, error: Exception) -> None:
        self.result = False
        self.said += str(error).splitlines()

    def come(self) -> None:
        """Get it, unless it is there."""
        subs = _lately_expired(self.known, self.days)
        is_old = self.is_expired or bool(subs)
        if self.known and not is_old:
            self.said.append(f"GPG Public Key {self.keyid} already in keychain")
        elif __opts__["test"]:
            self._forecast(subs, is_old)
        else:
            try:
                self._fetch(subs, is_old)
            except _FAILURES as error:
                if self.is_expired:
                    self.said.append("Existing key is expired, tried to fetch updated one")
                elif subs:
                    self.said.append("Existing key has expired subkeys, tried to refresh")
                self._fail(error)

    def _forecast(self, subs: Mapping[str, Any], is_old: bool) -> None:
        self.result = None
        why = f"Would have attempted to update {self.keyid} because it"
        if not is_old:
            self.said = [f"Would have added {self.keyid} to GPG keychain"]
            self.changes["added"] = True
            self.known = {"trust": "unknown"}
            return
        self.changes["refresh"] = True
        if self.is_expired:
            self.said = [f"{why} is expired"]
        else:
            self.said = [f"{why} has expired subkeys:"]
            self.said += [f"  - {sub} (expired on {subs[sub]['expires']})" for sub in subs]

    def _fetch(self, subs: Mapping[str, Any], is_old: bool) -> None:
        message = self._imported(is_old)
        new = __salt__["gpg.get_key"](keyid=self.keyid, **self.chain)
        if not new:
            raise CommandExecutionError(
                f"{message}\nThe new key {self.keyid} could not be retrieved though."
            )
        if not is_old:
            self.changes["added"] = True
        if new.get("expired"):
            self.known = None if not is_old else self.known
            raise CommandExecutionError(f"{message}\nThe new key {self.keyid} is expired though.")
        if is_old:
            self._compare(new, subs)
        else:
            self.said.append(f"Added {self.keyid} to GPG keychain")
        self.known = new

    def _compare(self, new: Mapping[str, Any], subs: Mapping[str, Any]) -> None:
        """What came of asking for a key anew."""
        before = {sub["keyid"] for sub in (self.known or {}).get("subkeys", [])}
        added = {sub["keyid"] for sub in new.get("subkeys", [])} - before
        extended = set(subs) - set(_lately_expired(new, self.days))
        if self.is_expired:
            self.said.append(f"Updated {self.keyid} because it was expired")
            self.changes["refresh"] = True
        elif added or extended:
            self.said.append(f"Updated {self.keyid} because it had expired subkeys.")
            self.changes["refresh"] = True
            changed = {"added": sorted(added), "extended": sorted(extended)}
            self.changes["subkeys"] = {word: ids for word, ids in changed.items() if ids}
        else:
            self.said.append(
                f"Attempted to update {self.keyid} because it has expired subkeys,"
                " but no new signatures or keys were found"
            )

    def _imported(self, is_old: bool) -> str:
        """Import it from wherever it can be had; what was said about that."""
        if self.text:
            taken = self._taken(is_old, "text", self.text)
            if isinstance(taken, str):
                raise CommandExecutionError(taken)
            return self._judged(taken)
        result: dict[str, Any] = {}
        if self.asks_server:
            asked = {"keyserver": self.keyserver, "keys": self.keyid}
            result = dict(__salt__["gpg.receive_keys"](**asked, **self.chain))
            if is_old and result["res"]:
                is_new = any("updated: new" in line for line in result["message"])
                result["res"] = True if is_new else False if self.is_expired else None
            result["message"] = "\n".join(result["message"])
        if self.sources and not result.get("res"):
            return self._judged(self._from_source(is_old, result))
        return self._judged(result)

    def _from_source(self, is_old: bool, result: Mapping[str, Any]) -> dict[str, Any]:
        for source in self.sources:
            path = __salt__["cp.cache_file"](source)
            taken = self._taken(is_old, "path", path) if path else "it is not there"
            if isinstance(taken, dict):
                return taken
            log.debug("Key %s cannot be taken from %s: %s", self.keyid, source, taken)
        before = f"{result['message']}\n" if result else ""
        raise CommandExecutionError(
            f"{before}none of the specified sources were found or contained the (unexpired)"
            f" key {self.keyid}."
        )

    def _taken(self, is_old: bool, kind: str, where: Any) -> dict[str, Any] | str:
        """Import the key from a text or a file; or why it cannot be."""
        place = {"user": self.chain["user"], "gnupghome": self.chain["gnupghome"]}
        asked = {"text": None, "path": None, kind: where}
        found = __salt__["gpg.read_key"](keyid=self.keyid, **asked, **place)
        if not found:
            return f"Passed text did not contain the requested key {self.keyid}"
        if found[0].get("expired") and is_old:
            return f"Passed text contained the key {self.keyid}, but it's expired"
        given = {"text": asked["text"], "filename": asked["path"], "select": self.keyid}
        done: dict[str, Any] = __salt__["gpg.import_key"](**given, **self.chain)
        return done

    @staticmethod
    def _judged(result: Mapping[str, Any]) -> str:
        if result["res"] is False:
            raise CommandExecutionError(result["message"])
        return str(result["message"])

    def trust(self, level: str) -> None:
        """Say how far its owner is trusted. A key that is not there is left out."""
        if self.known is None:
            return
        if self.known.get("trust") == _TRUST[level]:
            self.said.append(f"GPG Public Key {self.keyid} already in correct trust state")
            return
        if __opts__["test"]:
            self.result = None
            self.said.append(f"Would have set trust level for {self.keyid} to {level}")
            self.changes["trust"] = level
            return
        asked = {"keyid": self.keyid, "trust_level": level}
        try:
            self._judged(__salt__["gpg.trust_key"](**asked, **self.chain))
        except _FAILURES as error:
            self.result = False
            self.said.append(str(error))
            return
        self.said.append(f"Set trust level for {self.keyid} to {level}")
        self.changes["trust"] = level


def absent(
    name: str,
    keys: Any = None,
    user: str | None = None,
    gnupghome: str | None = None,
    keyring: str | None = None,
    keyring_absent_if_empty: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Keys are not in the keychain.

    name, keys
        Their ids.
    user, gnupghome, keyring
        Which keychain.
    keyring_absent_if_empty
        Remove the file of the keyring with its last key.
    """
    chain = {"user": user, "gnupghome": gnupghome, "keyring": keyring}
    ret: dict[str, Any] = {"name": name, "result": True, "changes": {}, "comment": []}
    said: list[str] = ret["comment"]
    names = _names(keys or name)
    here = {key["keyid"] for key in __salt__["gpg.list_keys"](**chain)}
    for keyid in names:
        if keyid not in here:
            said.append(f"{keyid} not found in GPG keychain")
            continue
        if __opts__["test"]:
            ret["result"] = None
            said.append(f"Would have deleted {keyid} from GPG keychain")
        else:
            done = __salt__["gpg.delete_key"](keyid=keyid, **chain)
            if done["res"] is False:
                ret["result"] = False
                said.append(done["message"])
                continue
            said.append(f"Deleted {keyid} from GPG keychain")
        ret["changes"].setdefault("deleted", []).append(keyid)
    if not __opts__["test"] and ret["result"]:
        rest = {key["keyid"] for key in __salt__["gpg.list_keys"](**chain)}
        remaining = [keyid for keyid in names if keyid in rest]
        if remaining:
            ret["result"] = False
            said.append(
                "State check revealed the following keys could not be deleted: "
                + ", ".join(remaining)
            )
            gone = [keyid for keyid in ret["changes"].get("deleted", []) if keyid not in rest]
            ret["changes"]["deleted"] = gone
        elif not rest and keyring and keyring_absent_if_empty:
            if __salt__["file.file_exists"](keyring):
                __salt__["file.remove"](keyring)
                said.append(f"Removed empty keyring file {keyring}")
                ret["changes"]["removed"] = keyring
    ret["comment"] = "\n".join(said)
    return ret
