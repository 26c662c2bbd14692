"""
The files that the master of this process serves, in its own order of sources.

Orchestrations, reactions, pillars and a site's own functions run in processes of the master.
Through C{salt://} they read what minions are served. If that is only directories, they read those
themselves (L{saltwisted.worker.localroots}). For commits and pushed files they ask the master,
through the socket that a process was started with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient
from saltwisted.worker.exceptions import SaltClientError

DIRECTORIES = ("roots",)


def needs_master(opts: Mapping[str, Any]) -> bool:
    """Whether the master serves more than the directories of C{file_roots}."""
    return tuple(opts.get("fileserver_backend") or DIRECTORIES) != DIRECTORIES


class ServedFiles:
    """
    Answers as a master's file server does: it is one.

    @param client: the socket to the master.
    """

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    def request(self, load: Mapping[str, Any], timeout: float | None = None) -> Any:
        """
        The answer to one file request.

        @raises SaltClientError: the master refused, or is gone.
        """
        try:
            return self._client.call("files", load=dict(load))
        except (RemoteError, TransportClosed) as error:
            raise SaltClientError(f"{load.get('cmd')}: {error}") from error


def served_by(client: Any, opts: Mapping[str, Any]) -> ServedFiles | None:
    """Who answers about files; C{None} where the directories of this machine do."""
    return ServedFiles(client) if client is not None and needs_master(opts) else None
