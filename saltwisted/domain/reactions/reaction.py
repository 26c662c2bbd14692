"""
What one call of a compiled SLS asks for: its kind, function, target and arguments.

The forms are stock's: C{args} as a map, as a list of maps with one key, or (for C{caller}) as a
list of values; C{arg} and C{kwarg}; or the arguments of a runner or wheel function by their own
names beside everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from saltwisted.domain.highstate.words import IN_KEYWORDS, REQUISITE_KEYWORDS

LOCAL, RUNNER, WHEEL, CALLER = "local", "runner", "wheel", "caller"
KINDS = (LOCAL, RUNNER, WHEEL, CALLER)
ALIASES = {"cmd": LOCAL}
USER = "Reactor"
"""As whom runners and wheel functions run, as in stock."""
FIRE_TAGS = ("salt/reactors/manage/",)

_OURS = frozenset(
    ("state", "fun", "__id__", "__sls__", "__env__", "__sls_included_from__", "name", "name_order",
     "order", "key")
)  # fmt: skip
_NOT_LOOSE = _OURS | REQUISITE_KEYWORDS | IN_KEYWORDS
_LOCAL_FIELDS = frozenset(
    ("tgt", "tgt_type", "arg", "kwarg", "args", "ret", "jid", "user", "timeout", "listen")
)


class ReactionError(Exception):
    """Why a call cannot be made; as text."""


@frozen(kw_only=True)
class Reaction:
    """
    One call.

    @ivar user: in whose name; as in stock, a published job runs under the master's own name.
    @ivar loose: arguments by their own names, which only the function's signature can tell from
        others; C{None} if the arguments are plain.
    @ivar more: what a publication may carry besides (C{metadata}, C{ret_config}, ...).
    """

    kind: str
    fun: str
    id: str
    sls: str
    tgt: Any = None
    tgt_type: str = "glob"
    ret: Any = ""
    arg: tuple[Any, ...] = ()
    kwarg: Mapping[str, Any] = field(factory=dict)
    loose: Mapping[str, Any] | None = None
    more: Mapping[str, Any] = field(factory=dict)

    @property
    def name(self) -> str:
        """As it is called in messages."""
        return f"{self.kind}.{self.fun}"

    def arguments(self) -> list[Any]:
        """Positional ones, and a map of the others, as a publication has them."""
        given = [str(one) if _is_jid(one) else one for one in self.arg]
        return [*given, {"__kwarg__": True, **self.kwarg}] if self.kwarg else given

    def bound(self, parameters: Sequence[str], takes_more: bool) -> Reaction:
        """
        With the arguments that a function takes by their own names.

        @param parameters: their names.
        @param takes_more: whether it takes any name.
        @raises ReactionError: there is one that it does not take.
        """
        if self.loose is None:
            return self
        named = {key: value for key, value in self.loose.items() if key in parameters}
        others = {
            key: value
            for key, value in self.loose.items()
            if key not in named and key not in _NOT_LOOSE
        }
        if others and not takes_more:
            names = ", ".join(f"'{name}'" for name in others)
            verb = "is an invalid keyword argument" if len(others) == 1 else "are invalid arguments"
            raise ReactionError(f"{names} {verb} for '{self.fun}'")
        return Reaction(
            kind=self.kind, fun=self.fun, id=self.id, sls=self.sls, kwarg={**named, **others}
        )


def reaction_of(chunk: Mapping[str, Any]) -> Reaction:
    """
    What a call of low data means.

    @raises ReactionError: it means nothing.
    """
    kind = ALIASES.get(chunk["state"], chunk["state"])
    if kind not in KINDS:
        raise ReactionError(
            f"unknown reaction type {kind!r}: there are local, runner, wheel and caller"
        )
    fun = chunk.get("fun")
    if not isinstance(fun, str) or "." not in fun:
        raise ReactionError(f"{fun!r} is not a function: write MODULE.FUNCTION, such as test.ping")
    named: dict[str, Any] = {"kind": kind, "fun": fun}
    named.update(id=str(chunk.get("__id__", "")), sls=str(chunk.get("__sls__", "")))
    if kind == LOCAL:
        named.update(_publication(chunk))
    if "args" in chunk:
        return Reaction(**named, **_args(kind, chunk["args"]))
    if kind in (RUNNER, WHEEL) and "arg" not in chunk and "kwarg" not in chunk:
        return Reaction(**named, loose={k: v for k, v in chunk.items() if k not in ("state",)})
    arg, kwarg = chunk.get("arg", ()), chunk.get("kwarg", {})
    if arg is None:
        arg = ()
    if not isinstance(arg, (list, tuple)):
        raise ReactionError(f"arg must be a list, not {type(arg).__name__}")
    if isinstance(kwarg, list):
        kwarg = repacked(kwarg)
    if not isinstance(kwarg, Mapping) and kwarg is not None:
        raise ReactionError(f"kwarg must be a map, not {type(kwarg).__name__}")
    return Reaction(**named, arg=tuple(arg), kwarg=_texts(kwarg or {}))


def _publication(chunk: Mapping[str, Any]) -> dict[str, Any]:
    if not chunk.get("tgt"):
        raise ReactionError("a local reaction needs tgt, its target")
    tgt_type = chunk.get("tgt_type", "glob")
    if not isinstance(tgt_type, str):
        raise ReactionError(f"tgt_type must be text such as glob, not {type(tgt_type).__name__}")
    more = {
        key: value
        for key, value in chunk.items()
        if key not in _NOT_LOOSE and key not in _LOCAL_FIELDS
    }
    return {
        "tgt": chunk["tgt"],
        "tgt_type": tgt_type,
        "ret": chunk.get("ret") or "",
        "more": more,
    }


def _args(kind: str, given: Any) -> dict[str, Any]:
    """The newer form. All values go by name, but for a C{caller}'s plain list."""
    if isinstance(given, Mapping):
        return {"kwarg": _texts(given)}
    if kind == CALLER and isinstance(given, (list, tuple)) and not _is_dictlist(given):
        return {"arg": tuple(given)}
    if not isinstance(given, (list, tuple)):
        raise ReactionError(
            f"args must be a map, or a list of maps of one key, not {type(given).__name__}"
        )
    return {"kwarg": repacked(given)}


def repacked(items: Sequence[Any]) -> dict[str, Any]:
    """
    A list of maps of one key as one map; a bare word has no value, as in stock.

    @raises ReactionError: there is something else in it.
    """
    found: dict[str, Any] = {}
    for item in items:
        if isinstance(item, Mapping) and len(item) == 1:
            key, value = next(iter(item.items()))
            found[str(key)] = value
        elif isinstance(item, (str, int, float)):
            found[str(item)] = None
        else:
            raise ReactionError(
                "Incorrect argument format: args must be a map, or a list of maps of one key, and "
                f"has {str(item)[:100]!r}"
            )
    return found


def _is_dictlist(items: Sequence[Any]) -> bool:
    return all(isinstance(item, Mapping) and len(item) == 1 for item in items)


def _texts(given: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in given.items()}


def _is_jid(value: Any) -> bool:
    return type(value) is int and len(str(value)) == 20
