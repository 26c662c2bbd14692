"""
The context of a function that is called on a minion's machine outside its daemon: options, grains,
pillar and files, each created when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saltwisted.worker.control import ControlClient
from saltwisted.worker.exceptions import SaltClientError
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.process.main import DaemonLink, MasterLink, NoMaster
from saltwisted.worker.process.opts import Opts


class Here:
    """
    @param opts: the minion's options.
    @param client: the control socket of the minion that asks its master for us; C{None}: nothing
        else takes part, files and pillar are those of this machine.
    @param failed: called with the reason why there is no pillar; what it raises is what the
        function sees.
    @ivar loaders: the modules.
    """

    def __init__(
        self,
        opts: dict[str, Any],
        client: ControlClient | None,
        failed: Callable[[SaltClientError], None] = lambda error: None,
    ) -> None:
        self._opts = opts
        self._local = client is None
        self._failed = failed
        self._master: Any = Alone(opts) if client is None else MasterLink(client)
        self.loaders = Loaders(
            opts,
            grains=lambda: make_grains(opts),
            pillar=self._pillar,
            master=self._master,
            daemon=None if client is None else DaemonLink(client),
            fileclient=self._files,
        )

    def _files(self) -> Any:
        from saltwisted.worker.fileclient import file_client

        if self._opts.get("file_client") != "local":
            return file_client(self._opts, self._master)
        from saltwisted.worker.git.localfiles import local_files

        return file_client(self._opts, self._master, served=local_files(self._opts))

    def _pillar(self) -> Any:
        opts = self._opts
        load = {
            "cmd": "_pillar",
            "ver": "2",
            "id": opts["id"],
            "grains": self.loaders.grains if self._local else dict(self.loaders.grains),
            "saltenv": opts.get("saltenv"),
            "pillarenv": opts.get("pillarenv"),
        }
        try:
            return self._master.pillar(load)
        except SaltClientError as error:
            self._failed(error)
            raise


class Alone(NoMaster):
    """
    C{__master__} without a master: pillars are compiled from C{pillar_roots} here, over C{pillar}
    of the configuration, as in Salt.
    """

    def __init__(self, opts: dict[str, Any]) -> None:
        super().__init__("salt-call runs without one (--local)")
        self._opts = opts
        own = opts.static_pillar if isinstance(opts, Opts) else opts.get("pillar")
        self._own = dict(own) if isinstance(own, dict) else {}
        self._worker: Any = None

    def pillar(self, load: dict[str, Any], timeout: float | None = None) -> Any:
        """The pillar, from the files of this machine."""
        from saltwisted.worker.pillar.work import PillarWorker

        if self._worker is None:
            self._worker = PillarWorker(self._opts)
        request = {key: load.get(key) for key in ("id", "grains", "saltenv", "pillarenv")}
        request["seed"] = self._own
        request["override"] = load.get("pillar_override")
        return self._worker.value(request)
