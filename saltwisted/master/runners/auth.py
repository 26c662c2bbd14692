"""
Runners C{auth.*}: tokens of external authentication.

Passwords and tokens in arguments and values are neither in events nor in the job cache: L{HIDDEN}
lists what is hidden there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.master.logins import NotProven
from saltwisted.master.runner_table import Run

MASK = "**********"


async def mk_token(run: Run, **load: Any) -> Any:
    """
    Create an eauth token using provided credentials.

    CLI Example::

        salt-run auth.mk_token username=saltdev password=saltdev eauth=auto
        salt-run auth.mk_token username=saltdev password=saltdev eauth=auto token_expire=94670856

    C{token_expire} counts where C{token_expire_user_override} lets the user choose. The value is
    empty when the password is wrong.
    """
    try:
        return await run.ctx.logins.make_token(load, f"runner of {run.user}")
    except NotProven:
        return ""


async def del_token(run: Run, token: str) -> bool:
    """
    Delete an eauth token by name, on all masters of a cluster.

    CLI Example::

        salt-run auth.del_token 6556760736e4077daa601baec2b67c24
    """
    return await run.ctx.logins.delete_token(token)


def hidden_arguments(arg: list[Any], kwarg: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as others may see them."""
    secret = ("password", "token")
    return [MASK for _ in arg], {k: MASK if k in secret else v for k, v in kwarg.items()}


def hidden_value(value: Any) -> Any:
    """The value as others may see it."""
    if isinstance(value, Mapping) and "token" in value:
        return {**value, "token": MASK}
    return value


FUNCTIONS = {"mk_token": mk_token, "del_token": del_token}
