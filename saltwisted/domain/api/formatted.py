"""
The data of C{/ws?format_events}: the state of jobs and minions, instead of events.

The documents are those of Salt's C{event_processor}. Salt's data grow as long as a client listens;
here the oldest are dropped, and an unexpected event changes nothing. Nothing runs on minions: stock
asks new minions for their grains, in the client's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.events import weight

MOST = 256 * 1024
"""Bytes, roughly, of jobs that are told, and as many of minions."""


class SaltInfo:
    """What one client has been sent."""

    def __init__(self) -> None:
        self._jobs = _Kept()
        self._minions = _Kept()
        self._missing: dict[str, int] = {}
        self._changed: dict[str, None] = {}

    def heard(self, tag: str, data: Mapping[str, Any]) -> bool:
        """
        Take an event in.

        @return: whether there is something new to tell.
        """
        words = tag.split("/")
        kind = words[1] if words[0] == "salt" and len(words) > 1 else ""
        if kind == "job" and len(words) > 3:
            if words[3] == "new":
                self._new(data)
            elif words[3] == "ret" and len(words) > 4:
                self._returned(words[2], words[4], data)
        elif kind == "key":
            self._key(data)
        elif kind == "presence":
            self._present(data.get("present"))
        return bool(self._changed)

    def tell(self) -> list[dict[str, Any]]:
        """What there is to send, each a document; later ones change none of them."""
        told: list[dict[str, Any]] = []
        for name in self._changed:
            if name == "jobs":
                jobs = self._jobs.items()
                told.append({name: {jid: _copied(job) for jid, job in jobs}})
            else:
                told.append({name: [{**info, "id": id_} for id_, info in self._minions.items()]})
        self._changed.clear()
        return told

    def _new(self, data: Mapping[str, Any]) -> None:
        jid, minions = data.get("jid"), data.get("minions")
        if not isinstance(jid, str) or not isinstance(minions, (list, tuple)):
            return
        named: dict[str, Any] = {str(each): {"success": False} for each in minions}
        job = {
            "jid": jid,
            "start_time": data.get("_stamp"),
            "minions": named,
            "fun": data.get("fun"),
            "tgt": data.get("tgt"),
            "tgt_type": data.get("tgt_type"),
            "state": "running",
        }
        self._jobs.put(jid, job)
        self._missing[jid] = len(named)
        self._forget()
        self._changed["jobs"] = None
        if data.get("fun") == "grains.items":
            self._minions = _Kept()

    def _returned(self, jid: str, minion: str, data: Mapping[str, Any]) -> None:
        job = self._jobs.get(jid)
        if job is None:
            job = {"minions": {}}
            self._jobs.put(jid, job)
            self._missing[jid] = 0
        minions = job["minions"]
        before = minions.get(minion)
        after = minions[minion] = {
            "success": bool(data.get("success")),
            "return": data.get("return"),
            "retcode": data.get("retcode"),
        }
        # A job of thousands of minions has thousands of returns: each is looked at alone
        missing = self._missing[jid] + (not after["success"])
        missing -= before is not None and not before["success"]
        self._missing[jid] = missing
        if not missing:
            job["state"] = "complete"
        self._jobs.grow(jid, job, weight(after) - (weight(before) if before else -len(minion)))
        self._forget()
        self._changed["jobs"] = None
        if data.get("fun") == "grains.items":
            known = self._minions.get(minion) or {}
            self._minions.put(minion, {**known, "grains": data.get("return")})
            self._changed["minions"] = None

    def _forget(self) -> None:
        """Of jobs that are dropped, how many are missing is dropped, too."""
        if len(self._missing) > 2 * len(self._jobs) + 8:
            self._missing = {jid: self._missing[jid] for jid, _ in self._jobs.items()}

    def _key(self, data: Mapping[str, Any]) -> None:
        minion = data.get("id")
        if not isinstance(minion, str):
            return
        if data.get("act") == "delete":
            self._minions.drop(minion)
        elif data.get("act") == "accept":
            self._minions.put(minion, self._minions.get(minion) or {})
        self._changed["minions"] = None

    def _present(self, present: Any) -> None:
        if not isinstance(present, (list, tuple)):
            return
        for minion in {id_ for id_, _ in self._minions.items()} - set(map(str, present)):
            self._minions.drop(minion)
            self._changed["minions"] = None


def _copied(job: Mapping[str, Any]) -> dict[str, Any]:
    return {**job, "minions": dict(job["minions"])}


class _Kept:
    """The newest by name, as many as weigh so much."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Any]] = {}
        self._weights: dict[str, int] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: str) -> dict[str, Any] | None:
        return self._entries.get(name)

    def items(self) -> list[tuple[str, dict[str, Any]]]:
        return list(self._entries.items())

    def put(self, name: str, entry: dict[str, Any]) -> None:
        """A new entry, or the present one anew."""
        self.grow(name, entry, weight(entry) - self._weights.get(name, 0))

    def grow(self, name: str, entry: dict[str, Any], by: int) -> None:
        """
        An entry is the newest.

        @param by: how much heavier it has become.
        """
        self._total += by
        self._weights[name] = self._weights.pop(name, 0) + by
        self._entries.pop(name, None)
        self._entries[name] = entry
        while self._total > MOST and len(self._entries) > 1:
            self.drop(next(iter(self._entries)))

    def drop(self, name: str) -> None:
        self._total -= self._weights.pop(name, 0)
        self._entries.pop(name, None)
