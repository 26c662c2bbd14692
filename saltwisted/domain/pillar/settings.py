"""
The pillar options of the configuration, except how files are rendered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen


def asked_environment(opts: Mapping[str, Any], kwargs: Mapping[str, Any]) -> dict[str, str | None]:
    """
    What the arguments of a call make of the option C{pillarenv}.

    C{saltenv} counts only where a call names one: without it the configured environment stays.

    @return: C{{"pillarenv": value}}, or nothing if the option stays as it is.
    """
    if "pillarenv" in kwargs:
        given = kwargs["pillarenv"]
    elif opts.get("pillarenv_from_saltenv") and "saltenv" in kwargs:
        given = kwargs["saltenv"]
    else:
        return {}
    return {"pillarenv": None if given is None else str(given)}


@frozen(kw_only=True)
class PillarSettings:
    """
    Salt's options under shorter names.

    @ivar roots: environment to directories, with C{__env__} resolved.
    @ivar environments: C{base} and the names in C{roots}, in the order of the file.
    @ivar top: path of the top file below the roots (C{state_top}).
    @ivar renderer: the default pipe; it decides what C{smart} means.
    @ivar opts: what C{pillar_opts} puts under C{master}, if it is set.
    """

    roots: Mapping[str, Sequence[str]]
    environments: Sequence[str]
    saltenv: str | None = None
    pillarenv: str | None = None
    top: str = "top.sls"
    renderer: str = "jinja|yaml"
    strategy: str = "smart"
    merge_lists: bool = False
    includes_override: bool = False
    safe_errors: bool = True
    env_order: Sequence[str] = ()
    ext: Any = ()
    ext_first: bool = False
    ext_excluded: Sequence[str] = ()
    decrypt: Any = ()
    decrypt_delimiter: str = ":"
    decrypt_default: str = "gpg"
    decrypt_renderers: Sequence[str] = ("gpg",)
    opts: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls, opts: Mapping[str, Any], saltenv: str | None, pillarenv: str | None
    ) -> PillarSettings:
        """
        From Salt's option names and what the minion asked for.

        @param saltenv: the minion's; it takes precedence over the option.
        @param pillarenv: likewise.
        """
        if pillarenv is None and opts.get("pillarenv_from_saltenv"):
            pillarenv = saltenv
        asked = saltenv
        saltenv = opts.get("saltenv") if saltenv is None else saltenv
        pillarenv = opts.get("pillarenv") if pillarenv is None else pillarenv
        roots = resolve_roots(opts.get("pillar_roots") or {}, pillarenv or saltenv or "base")
        top = str(opts.get("state_top") or "top.sls").removeprefix("salt://").lstrip("/")
        return cls(
            roots=roots,
            environments=["base", *(name for name in roots if name != "base")],
            saltenv=asked,
            pillarenv=pillarenv,
            top=top,
            renderer=str(opts.get("renderer") or "jinja|yaml"),
            strategy=str(opts.get("pillar_source_merging_strategy") or "smart"),
            merge_lists=bool(opts.get("pillar_merge_lists")),
            includes_override=bool(opts.get("pillar_includes_override_sls")),
            safe_errors=bool(opts.get("pillar_safe_render_error", True)),
            env_order=tuple(opts.get("env_order") or ()),
            ext=opts.get("ext_pillar", ()),
            ext_first=bool(opts.get("ext_pillar_first")),
            ext_excluded=tuple(opts.get("exclude_ext_pillar") or ()),
            decrypt=opts.get("decrypt_pillar") or (),
            decrypt_delimiter=str(opts.get("decrypt_pillar_delimiter") or ":"),
            decrypt_default=str(opts.get("decrypt_pillar_default") or "gpg"),
            decrypt_renderers=tuple(opts.get("decrypt_pillar_renderers") or ("gpg",)),
            opts=opts if opts.get("pillar_opts") else None,
        )


def resolve_roots(roots: Mapping[str, Any], env: str) -> dict[str, list[str]]:
    """
    C{pillar_roots} for one environment: C{__env__} stands for it unless it has roots of its own.

    The word is also replaced inside the directories' names.
    """
    resolved = {
        str(name): [str(path) for path in (paths or ())]
        for name, paths in roots.items()
        if name != "__env__"
    }
    if "__env__" in roots and env not in resolved:
        resolved[env] = [str(path).replace("__env__", env) for path in roots["__env__"] or ()]
    return resolved
