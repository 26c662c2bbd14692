"""
The dispatch table: every command that a master answers, on one screen.

C{once}: the command acts, so a request whose nonce was seen is refused (T-REPLAY-2).
C{unacknowledged}: after this error the sender gets no answer and tries again, because an answer
would mean that its data is safe. C{most}: bytes of the largest request that a handler gets
(T-COST-3). A handler is a coroutine function, or a plain one on the hot paths; its value is sealed
for the sender.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from saltwisted.doors import MINIONS_ASK, MINIONS_DATA
from saltwisted.errors import StoreError
from saltwisted.master.handlers import (
    auth,
    events,
    files,
    local,
    mine,
    peer,
    pillar,
    returns,
    tops,
)


@frozen
class Row:
    """
    One command: its handler and its rules.

    @ivar replies: the handler gets a function to answer with, and calls it once, at some time.
    """

    handler: Callable[..., Any]
    counter: str
    once: bool = False
    unacknowledged: type[Exception] | None = None
    replies: bool = False
    most: int = MINIONS_ASK.request


LONG = {"most": MINIONS_DATA.request}
"""Rules of commands by which minions bring something, which may be as long as any request."""


def sealed_commands() -> dict[str, Row]:
    """Commands of signed-in minions. Any other name gets Salt's empty answer (T-RPC-1)."""
    rows: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        ("_pillar", pillar.pillar, LONG),
        ("_return", returns.minion_return, {"unacknowledged": StoreError, **LONG}),
        ("_syndic_return", returns.syndic_return, {"unacknowledged": StoreError, **LONG}),
        (
            "_minion_event",
            events.minion_event,
            {"once": True, "unacknowledged": StoreError, **LONG},
        ),
        ("_register_resources", events.register_resources, {}),
        ("_file_envs", files.envs, {}),
        ("_file_list", files.file_list, {}),
        ("_file_list_emptydirs", files.file_list_emptydirs, {}),
        ("_dir_list", files.dir_list, {}),
        ("_symlink_list", files.symlink_list, {}),
        ("_file_hash", files.file_hash, {}),
        ("_file_hash_and_stat", files.file_hash_and_stat, {}),
        ("_file_find", files.file_find, {}),
        ("_serve_file", files.serve_file, {}),
        ("_file_recv", files.file_recv, {"once": True, **LONG}),
        ("_master_opts", tops.master_opts, {}),
        ("_master_tops", tops.master_tops, LONG),
        ("_mine", mine.mine, {"once": True, **LONG}),
        ("_mine_get", mine.mine_get, {}),
        ("_mine_delete", mine.mine_delete, {"once": True}),
        ("_mine_flush", mine.mine_flush, {"once": True}),
        ("minion_pub", peer.minion_pub, {"once": True}),
        ("minion_publish", peer.minion_publish, {"once": True}),
        ("pub_ret", peer.pub_ret, {}),
        ("minion_runner", peer.minion_runner, {"once": True}),
        ("revoke_auth", peer.revoke_auth, {"once": True}),
        ("_saltwisted_keys", peer.publish_keys, {}),
    ]
    return {name: Row(handler, name, **rules) for name, handler, rules in rows}


def clear_commands() -> dict[str, Row]:
    """Commands without a session: the sign-in, and local tools that hold a user key."""
    rows: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        ("_auth", auth.sign_in, {"replies": True}),
        ("ping", local.ping, {}),
        ("publish", local.publish, {}),
        ("runner", local.runner, {}),
        ("wheel", local.wheel, {}),
        ("mk_token", local.mk_token, {}),
        ("get_token", local.get_token, {}),
    ]
    return {name: Row(handler, name, **rules) for name, handler, rules in rows}
