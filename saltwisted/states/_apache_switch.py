"""
What the states of Debian's Apache have in common: something is enabled, or is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def switched(
    salt: Mapping[str, Callable[..., Any]], is_test: bool, name: str, kind: str, is_on: bool
) -> dict[str, Any]:
    """
    Let something be enabled or disabled.

    @param kind: C{site}, C{mod} or C{conf}.
    """
    ret: dict[str, Any] = {"name": name, "result": True, "comment": "", "changes": {}}
    word, short = ("enable", "en") if is_on else ("disable", "dis")
    shown = "module" if kind == "mod" else kind
    if bool(salt[f"apache.check_{kind}_enabled"](name)) == is_on:
        return {**ret, "comment": f"{name} already {word}d."}
    changes = {"old": None, "new": name} if is_on else {"old": name, "new": None}
    if is_test:
        comment = f"Apache {shown} {name} is set to be {word}d."
        return {**ret, "result": None, "comment": comment, "changes": changes}
    status = salt[f"apache.a2{short}{kind}"](name)["Status"]
    if isinstance(status, str) and f"{word}d" in status:
        return {**ret, "changes": changes}
    why = f" ({status})" if isinstance(status, str) else ""
    return {**ret, "result": False, "comment": f"Failed to {word} {name} Apache {shown}{why}"}
