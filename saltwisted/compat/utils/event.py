"""
C{salt.utils.event}: events of a master or minion on this machine, by its control socket.

A user needs the right to listen or to fire that he needs for C{salt-run state.event} too.
"""

from __future__ import annotations

import fnmatch
import os
import re
import select
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any

from saltwisted.compat.client import refusals
from saltwisted.errors import TransportClosed
from saltwisted.worker.control import ControlClient

SALT = "salt"
TAGEND = "\n\n"
TAGPARTER = "/"
TAGS = {
    name: name
    for name in (
        *("auth", "job", "key", "minion", "syndic"),
        *("run", "wheel", "cloud", "fileserver", "queue"),
    )
}
SUB_EVENT = ("state.highstate", "state.sls")

_MATCHES = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "find": lambda tag, wanted: wanted in tag,
    "regex": lambda tag, wanted: re.search(wanted, tag) is not None,
    "fnmatch": fnmatch.fnmatch,
}


def tagify(suffix: Any = "", prefix: str = "", base: str = SALT) -> str:
    """The parts of a tag with slashes between them: C{tagify([jid, "ret"], "job")}."""
    parts = [base, TAGS.get(prefix, prefix)]
    many = isinstance(suffix, Iterable) and not isinstance(suffix, str)
    parts += list(suffix) if many else [suffix]
    return TAGPARTER.join(text for part in parts if (text := str(part)))


class SaltEvent:
    """
    Listens to events, and fires them.

    @param node: C{master} or C{minion}.
    @param sock_dir: where its control socket is, if not where C{opts} say.
    @param listen: whether to be told from now on; else it begins with the first question.
    """

    def __init__(
        self,
        node: str,
        sock_dir: str | None = None,
        opts: Mapping[str, Any] | None = None,
        listen: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.opts = dict(opts or {})
        self.node = node
        self._path = os.path.join(
            str(sock_dir or self.opts.get("sock_dir") or f"/var/run/salt/{node}"), "saltwisted.sock"
        )
        self._listening: ControlClient | None = None
        self._stream: Generator[Any, None, Any] | None = None
        if listen:
            self.connect_pub()

    def __enter__(self) -> SaltEvent:
        return self

    def __exit__(self, *args: object) -> None:
        self.destroy()

    def connect_pub(self, timeout: float | None = None) -> bool:
        """Be told of events from now on; whether somebody tells them."""
        if self._stream is not None:
            return True
        client = ControlClient(path=self._path)
        stream = client.stream("events", tags=[""], match="startswith")
        try:
            with refusals():
                while not next(stream).get("ready"):
                    pass
        except TransportClosed:
            client.close()
            return False
        self._listening, self._stream = client, stream
        return True

    def close_pub(self) -> None:
        """Be told no more."""
        if self._listening is not None:
            self._listening.close()
        self._listening = self._stream = None

    destroy = close_pub

    def subscribe(self, tag: str | None = None, match_type: str | None = None) -> None:
        """All events are told anyway."""

    unsubscribe = subscribe

    def get_event(
        self,
        wait: float | None = 5,
        tag: str = "",
        full: bool = False,
        match_type: str | None = None,
        no_block: bool = False,
        auto_reconnect: bool = False,
        **kwargs: Any,
    ) -> Any:
        """
        The next event whose tag fits; C{None} when there is none in C{wait} seconds (0: ever).

        @param full: with its tag: C{{"tag", "data"}}.
        @param match_type: C{startswith}, C{endswith}, C{find}, C{regex} or C{fnmatch}.
        """
        self.connect_pub()
        assert self._listening is not None and self._stream is not None
        fits = _MATCHES[match_type or str(self.opts.get("event_match_type") or "startswith")]
        seconds = 0.0 if no_block else (wait or 0.0)
        end = time.monotonic() + seconds if seconds or no_block else None
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._listening], [], [], left)[0]:
                return None
            with refusals():
                item = next(self._stream)
            if fits(item["tag"], tag):
                return {"tag": item["tag"], "data": item["data"]} if full else item["data"]

    def get_event_noblock(self) -> Any:
        """The next event that has come already, with its tag."""
        return self.get_event(full=True, no_block=True)

    def iter_events(
        self, tag: str = "", full: bool = False, match_type: str | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Events as they come, without end."""
        while True:
            yield self.get_event(0, tag, full, match_type)

    def fire_event(self, data: Any, tag: str, timeout: float = 1000) -> bool:
        """Fire an event."""
        with refusals(), ControlClient(path=self._path) as client:
            client.call("fire_event", tag=tag, data=dict(data))
        return True

    def fire_master(self, data: Any, tag: str, timeout: float = 1000) -> bool:
        """From a minion: fire an event on its master."""
        with refusals(), ControlClient(path=self._path) as client:
            client.call("fire_event", tag=tag, data=dict(data), to_master=True)
        return True


class MasterEvent(SaltEvent):
    """Events of the master on this machine."""

    def __init__(
        self,
        sock_dir: str | None = None,
        opts: Mapping[str, Any] | None = None,
        listen: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__("master", sock_dir, opts, listen)


class LocalClientEvent(MasterEvent):
    """The same."""


class MinionEvent(SaltEvent):
    """Events of the minion on this machine."""

    def __init__(
        self, opts: Mapping[str, Any], listen: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__("minion", None, opts, listen)


def get_event(
    node: str,
    sock_dir: str | None = None,
    opts: Mapping[str, Any] | None = None,
    listen: bool = True,
    *args: Any,
    **kwargs: Any,
) -> SaltEvent:
    """Events of a C{node}: C{master} or C{minion}."""
    return SaltEvent(node, sock_dir, opts, listen)


def get_master_event(
    opts: Mapping[str, Any], sock_dir: str | None, listen: bool = True, *args: Any, **kwargs: Any
) -> MasterEvent:
    """Events of the master on this machine."""
    return MasterEvent(sock_dir, opts, listen)
