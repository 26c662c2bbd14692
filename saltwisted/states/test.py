"""
States that do nothing but answer as they are told, to try trees of states and requisites.

In C{test=True} they say what they would have answered.
"""

from __future__ import annotations

import random
from typing import Any

from saltwisted.domain.highstate.words import tag_of
from saltwisted.worker.exceptions import SaltInvocationError

__opts__: Any
__salt__: Any
__low__: Any
__running__: Any

_PRETENDED = {"testing": {"old": "Unchanged", "new": "Something pretended to change"}}


def _answer(name: Any, result: bool | None, comment: Any, changed: bool = False) -> dict[str, Any]:
    changes = {key: dict(value) for key, value in _PRETENDED.items()} if changed else {}
    return {"name": name, "changes": changes, "result": result, "comment": comment}


def nop(name: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Nothing, successfully. Any other arguments are ignored.
    """
    return _answer(name, True, "Success!")


def succeed_without_changes(name: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Success without changes.

    comment
        Instead of C{Success!}.
    """
    return _answer(name, True, kwargs.get("comment", "Success!"))


def fail_without_changes(name: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Failure without changes.

    comment
        Instead of C{Failure!}.
    """
    if __opts__["test"]:
        return _answer(name, False, "If we weren't testing, this would be a failure!")
    return _answer(name, False, kwargs.get("comment", "Failure!"))


def succeed_with_changes(name: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Success with changes.

    comment
        Instead of C{Success!}.
    """
    if __opts__["test"]:
        comment = "If we weren't testing, this would be successful with changes"
        return _answer(name, None, comment, True)
    return _answer(name, True, kwargs.get("comment", "Success!"), True)


def fail_with_changes(name: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Failure with changes.

    comment
        Instead of C{Failure!}.
    """
    if __opts__["test"]:
        comment = "If we weren't testing, this would be failed with changes"
        return _answer(name, None, comment, True)
    return _answer(name, False, kwargs.get("comment", "Failure!"), True)


def configurable_test_state(
    name: Any,
    changes: Any = True,
    result: Any = True,
    comment: Any = "",
    warnings: Any = None,
    allow_test_mode_failure: bool = False,
) -> dict[str, Any]:
    """
    An answer put together from its parts.

    changes, result
        True, False or C{Random}.
    warnings
        A text or a list of texts.
    allow_test_mode_failure
        In test mode C{result: False} is a failure too.
    """
    answer = _answer(name, False, comment, _chosen(changes, "changes", "True, False, or 'Random'"))
    answer["result"] = _chosen(result, "result", "True, False, or 'Random'")
    if isinstance(warnings, str):
        answer["warnings"] = [warnings]
    elif isinstance(warnings, list):
        answer["warnings"] = warnings
    elif warnings is not None:
        raise SaltInvocationError(
            "You have specified the state option 'warnings' with invalid arguments. It must be a "
            "string or a list of strings"
        )
    if __opts__["test"]:
        if not (allow_test_mode_failure and result is False):
            answer["result"] = True if changes is False else None
        answer["comment"] = comment or "This is a test"
    return answer


def _chosen(value: Any, option: str, allowed: str) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() == "random":
        return random.choice((True, False))  # noqa: S311 - a test's dice
    raise SaltInvocationError(
        f"You have specified the state option '{option}' with invalid arguments. It must be "
        f"either {allowed}"
    )


def show_notification(name: Any, text: Any = None, **kwargs: Any) -> dict[str, Any]:
    """
    Success, with a text as its comment.
    """
    if not text:
        raise SaltInvocationError("Missing required argument text.")
    return _answer(name, True, text)


def mod_watch(name: Any, sfun: str | None = None, **kwargs: Any) -> dict[str, Any]:
    """
    What a state of this module answers when a state that it watches has changed.

    C{result}, C{comment} and C{changes} of the state replace the parts of the answer.
    """
    changed = []
    for low in __low__.get("__reqs__", {}).get("watch", []):
        if __running__[tag_of(low)]["changes"]:
            changed.append(f"{low['state']}: {low['__id__']}")
    return {
        "name": name,
        "result": kwargs.get("result", True),
        "comment": kwargs.get("comment", "Watch statement fired."),
        "changes": kwargs.get("changes", {"Requisites with changes": changed}),
    }


def check_pillar(
    name: Any,
    present: Any = None,
    boolean: Any = None,
    integer: Any = None,
    string: Any = None,
    listing: Any = None,
    dictionary: Any = None,
    verbose: bool = False,
) -> dict[str, Any]:
    """
    Failure, if keys of the pillar are missing or of another type.

    present
        A key or a list of keys that have to be there.
    boolean, integer, string, listing, dictionary
        Keys that have to be of this type.
    verbose
        Also tell those that are right.
    """
    wanted: list[tuple[Any, Any]] = [
        (None, present),
        (bool, boolean),
        (int, integer),
        ((str,), string),
        (list, listing),
        (dict, dictionary),
    ]
    if not any(keys for _, keys in wanted):
        raise SaltInvocationError("Missing required argument text.")
    fine: dict[str, Any] = {}
    failed: dict[str, Any] = {}
    for kind, keys in wanted:
        for key in _names(keys or []):
            value = __salt__["pillar.get"](key, None)
            if value is None:
                failed[key] = None
            elif kind is not None and not isinstance(value, kind):
                failed[key] = kind
            else:
                fine[key] = kind
    comment = "".join(
        f'Pillar key "{key}" is missing.\n'
        if kind is None
        else f'Pillar key "{key}" is not {kind}.\n'
        for key, kind in failed.items()
    )
    if verbose and fine:
        comment += "Those keys passed the check:\n"
        comment += "".join(f"- {key} ({kind})\n" for key, kind in fine.items())
    return _answer(name, not failed, comment)


def _names(keys: Any) -> list[Any]:
    if isinstance(keys, str):
        return [keys]
    if not isinstance(keys, list):
        raise TypeError
    return keys
