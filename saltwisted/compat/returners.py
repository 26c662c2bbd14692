"""
C{salt.returners}: the options of a returner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Ask = Callable[..., Any]
"""C{config.option}, or the like of it for options in a map."""


def get_returner_options(
    virtualname: str | None = None,
    ret: Mapping[str, Any] | None = None,
    attrs: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    What is configured as C{virtualname.option}, or, if the job names a C{ret_config}, as
    C{ret_config.virtualname.option}. Above that are the options of a profile that C{profile_attr}
    leads to, and the job's C{ret_kwargs}.

    @param attrs: the returner's names of options to those in the configuration.
    @param kwargs: C{__salt__} or C{__opts__}, C{defaults}, C{profile_attr}, C{profile_attrs}.
    """
    functions, opts = kwargs.get("__salt__") or {}, kwargs.get("__opts__") or {}
    ask: Any = functions.get("config.option", opts)
    chosen = str((ret or {}).get("ret_config") or "")
    defaults = kwargs.get("defaults") or {}
    found: dict[str, Any] = {}
    for name, attribute in (attrs or {}).items():
        value = _value(ask, chosen, virtualname, attribute)
        if value is not None and value != "":
            found[name] = value
        elif name in defaults:
            found[name] = defaults[name]
    profile = found.get(kwargs.get("profile_attr") or "")
    if profile:
        creds = ask(profile) if "config.option" in functions else ask.get(profile)
        if creds:
            attributes = kwargs.get("profile_attrs") or {}
            found.update(
                {name: creds.get(f"{virtualname}.{attributes[name]}") for name in attributes}
            )
    found.update((ret or {}).get("ret_kwargs") or {})
    return found


def _value(ask: Any, chosen: str, virtualname: str | None, attribute: str) -> Any:
    name = f"{virtualname}.{attribute}"
    if isinstance(ask, Mapping):
        return ask[name] if name in ask and not chosen else ask.get(attribute)
    if chosen:
        value = ask(f"{chosen}.{virtualname}", {}).get(attribute, ask(f"{chosen}.{name}"))
        if value:
            return value
    return ask(f"{virtualname}", {}).get(attribute, ask(name))
