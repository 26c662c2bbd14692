"""
C{salt.loader}: loaders for modules that make one by themselves.

Each function answers with our loader of one kind, which has the functions of the site too.
"""

from __future__ import annotations

import os
import types
from collections.abc import Mapping
from typing import Any

from saltwisted.worker.process import loader as _loader
from saltwisted.worker.process.modulefiles import KINDS


def _loaders(opts: Mapping[str, Any], context: dict[str, Any] | None = None) -> _loader.Loaders:
    def found() -> Any:
        given = opts.get("grains")
        return given if given else _loader.make_grains(opts)

    return _loader.Loaders(opts, grains=found, context=context)


def minion_mods(
    opts: Mapping[str, Any], context: dict[str, Any] | None = None, *args: Any, **kwargs: Any
) -> Any:
    """Execution modules, those that C{whitelist_modules} allows."""
    return _loaders(opts, context).called


def raw_mod(
    opts: Mapping[str, Any], name: str, functions: Any, mod: str = "modules", **kwargs: Any
) -> dict[str, Any]:
    """The functions of one file; none, if there is no such file."""
    loader = _loader.Loaders(opts, extra={"__salt__": functions})[mod]
    module = loader.module_of(name)
    found = vars(module) if module is not None else {}
    return {
        f"{name}.{each}": value
        for each, value in found.items()
        if isinstance(value, types.FunctionType)
        and value.__module__ == found["__name__"]
        and not each.startswith("_")
    }


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


class LazyLoader:
    """
    Functions of modules in some directories, and no others, as a map by C{module.function}.

    @param module_dirs: the directories.
    @param tag: of which kind they are, in Salt's word.
    @param pack: names that they find around them, in place of the loader's own.
    """

    def __new__(  # type: ignore[misc]
        cls,
        module_dirs: list[str],
        opts: Mapping[str, Any] | None = None,
        tag: str = "module",
        loaded_base_name: str | None = None,
        mod_type_check: Any = None,
        pack: Mapping[str, Any] | None = None,
        whitelist: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> _loader.Loader:
        """
        Our loader of this kind, with these directories.

        @raises NotImplementedError: for a class of one's own, which relies on what is inside.
        """
        if cls is not LazyLoader:
            raise NotImplementedError(
                "salt.loader.LazyLoader: saltwisted runs site modules without the salt package,"
                " and its loader cannot be derived from (docs/site-modules.md)"
            )
        return alone(module_dirs, opts or {}, tag, pack or {}, whitelist)


def alone(
    folders: list[str],
    opts: Mapping[str, Any],
    tag: str,
    pack: Mapping[str, Any],
    whitelist: Any = None,
) -> _loader.Loader:
    """A loader for directories, without the site's others, and without ours."""
    kind = next((name for name, spec in KINDS.items() if spec.tag == tag), "modules")
    spec = KINDS[kind]
    chosen = {**opts, "module_dirs": [], "extension_modules": os.devnull, spec.option: folders}
    if whitelist:
        chosen["whitelist_modules"] = list(whitelist)
    given = _loader.Loaders(
        chosen,
        grains=opts.get("grains") or {},
        pillar=opts.get("pillar") or {},
        stock=False,
        extra=dict(pack),
        beside={kind: {}},
    )
    return given[kind]
