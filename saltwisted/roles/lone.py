"""
A machine with the state of a cluster's node does not become a lone master by another role.

It would serve with the cluster's key, and everything that it decides (a key that is deleted, a
job that is run) would be undone, or be done twice, when it is a node again.
"""

from __future__ import annotations

from saltwisted import advice
from saltwisted.config.load import OWN_DIR, SALT_DIR
from saltwisted.config.options import MasterConfig
from saltwisted.errors import ConfigError, StoreError
from saltwisted.stores.facts.node import JOINING, LEFT, MEMBER, NODE, REMOVED, NodeFiles

ROWS = {
    MEMBER: "member.lone",
    JOINING: "member.lone",
    LEFT: "left.lone",
    REMOVED: "left.lone",
}
"""By the phase of the node."""


def check_lone(config: MasterConfig) -> None:
    """
    Refuse to start where a node of a cluster has its state. Nothing is written.

    @raises ConfigError: with what to do instead.
    """
    files = NodeFiles(config.pki_dir)
    path = f"{files.folder}/{NODE}"
    try:
        state = files.state()
    except StoreError as error:
        # Damaged or not, it is a node's
        raise ConfigError(error.reason, path) from error
    row = ROWS.get(state.phase)
    if row is None:
        return
    directory = str(config.config_dir or "")
    told = advice.of(row, node=state.node, cluster=state.cluster or "?")
    usual = directory in ("", OWN_DIR, SALT_DIR)
    raise ConfigError(str(told.at("" if usual else directory)), path)
