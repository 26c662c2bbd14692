"""
C{salt.loader}: loaders for modules that make one by themselves.

Each function answers with our loader of one kind, which has the functions of the site too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.worker.process import loader as _loader


def _loaders(opts: Mapping[str, Any], context: dict[str, Any] | None = None) -> _loader.Loaders:
    def found() -> Any:
        given = opts.get("grains")
        return given if given else _loader.make_grains(opts)

    return _loader.Loaders(opts, grains=found, context=context)


def minion_mods(
    opts: Mapping[str, Any], context: dict[str, Any] | None = None, *args: Any, **kwargs: Any
) -> Any:
    """Execution modules: C{__salt__}."""
    return _loaders(opts, context).modules


def utils(
    opts: Mapping[str, Any], whitelist: Any = None, context: dict[str, Any] | None = None, **kw: Any
) -> Any:
    """C{__utils__}."""
    return _loaders(opts, context).utils


def states(opts: Mapping[str, Any], functions: Any = None, *args: Any, **kwargs: Any) -> Any:
    """C{__states__}."""
    return _loaders(opts).states


def returners(opts: Mapping[str, Any], functions: Any = None, *args: Any, **kwargs: Any) -> Any:
    """C{__ret__}."""
    return _loaders(opts)["returners"]


def serializers(opts: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
    """C{__serializers__}."""
    return _loaders(opts)["serializers"]


def render(opts: Mapping[str, Any], functions: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Renderers."""
    return _loaders(opts)["renderers"]


def grains(opts: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
    """This machine's grains."""
    return _loader.make_grains(opts)
