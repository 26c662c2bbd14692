"""C{salt.pillar}: the pillar of a minion, compiled from the roots of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.worker.pillar.work import PillarWorker
from saltwisted.worker.process.loader import make_grains


class Pillar:
    """
    @param opts: options with C{pillar_roots} and C{ext_pillar}.
    @param minion_id: whose pillar.
    """

    def __init__(
        self,
        opts: Mapping[str, Any],
        grains: Mapping[str, Any] | None,
        minion_id: str,
        saltenv: str | None,
        ext: Mapping[str, Any] | None = None,
        pillar_override: Mapping[str, Any] | None = None,
        pillarenv: str | None = None,
        extra_minion_data: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.opts = dict(opts)
        self._request = {
            "id": minion_id,
            "grains": make_grains(opts) if grains is None else grains,
            "saltenv": saltenv,
            "pillarenv": pillarenv,
            "override": pillar_override,
            "ext": ext,
            "extra": extra_minion_data,
        }

    def compile_pillar(self, ext: bool = True) -> dict[str, Any]:
        """Compile it; what is wrong with it is under C{_errors}."""
        changes: dict[str, Any] = {} if ext else {"ext_pillar": []}
        return PillarWorker({**self.opts, **changes}).value(self._request)


class _OfMaster:
    """The pillar that a minion's master compiles for it."""

    def __init__(self, functions: Any, override: Any, pillarenv: Any) -> None:
        self._functions = functions
        self._options = {"pillar": override, "pillarenv": pillarenv}

    def compile_pillar(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Have it compiled."""
        from saltwisted.worker.masking import plain_pillar

        options = {name: value for name, value in self._options.items() if value is not None}
        with plain_pillar():
            return dict(self._functions["pillar.items"](**options))


def get_pillar(
    opts: Mapping[str, Any],
    grains: Mapping[str, Any] | None,
    minion_id: str,
    saltenv: str | None = None,
    ext: Mapping[str, Any] | None = None,
    funcs: Any = None,
    pillar_override: Mapping[str, Any] | None = None,
    pillarenv: str | None = None,
    extra_minion_data: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """
    What has C{compile_pillar()}: the roots of this machine where C{file_client} is C{local}, as
    on a master, and the minion's master otherwise, which needs the module's C{__salt__} as
    C{funcs}.
    """
    if opts.get("file_client") == "remote" and funcs is not None:
        return _OfMaster(funcs, pillar_override, pillarenv)
    return Pillar(
        opts, grains, minion_id, saltenv, ext, pillar_override, pillarenv, extra_minion_data
    )
