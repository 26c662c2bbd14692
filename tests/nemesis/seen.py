"""
What each node has at the end, asked as an operator and as a minion would.
"""

from __future__ import annotations

import hashlib
from typing import Any

from saltwisted.wire.handshake import Accepted
from tests.attack.fleet import Refused, WireMinion
from tests.nemesis.clients import ERRORS, WAIT, Stage, digest, served
from tests.nemesis.world import Node, decoded


def look(stage: Stage, node: Node, eye: str) -> dict[str, Any]:
    """
    All that the history asks about, as this node has it.

    @param eye: a light minion that is accepted.
    """
    wanted = [record for record in stage.history.records if record["kind"] == "op"]
    found: dict[str, Any] = {}
    _, text, _ = node.cli("salt-key", "-L", "--out", "json")
    groups = decoded(text) or {}
    found["keys"] = {name: group for group, names in groups.items() for name in names}
    _, text, _ = node.cli("token", "list", "--json")
    found["tokens"] = {row["id"]: row["state"] for row in decoded(text) or []}
    _, text, _ = node.cli("roots", "conflicts", "--json")
    found["conflicts"] = sorted({row["path"] for row in decoded(text) or []})
    found["jobs"] = jobs(node, [record for record in wanted if record["op"] == "job"])
    found["returns"] = returns(node, [record for record in wanted if record["op"] == "return"])
    minion = stage.minion(node, eye)
    try:
        outcome = minion.sign_in(WAIT)
        if not isinstance(outcome, Accepted):
            raise Refused(outcome.reason)
        names = {record["key"] for record in wanted if record["op"] == "mine"}
        mined = {name: minion.ask("_mine_get", tgt=name, fun="n") for name in sorted(names)}
        found["mine"] = {name: said.get(name) for name, said in mined.items() if said}
        found["files"] = {
            path: file(minion, path) for path in minion.ask("_file_list", saltenv="base", prefix="")
        }
    finally:
        minion.asker.close()
    return found


def file(minion: WireMinion, path: str) -> str:
    """The digest of what is served, if that is what the node says it is."""
    data = served(minion.ask, path)
    if data is None:
        return "is listed and not served"
    digest = hashlib.sha256(data).hexdigest()
    said = minion.ask("_file_hash", path=path, saltenv="base").get("hsum")
    return digest if said == digest else f"{digest} is served, {said} is announced"


def jobs(node: Node, wanted: list[dict[str, Any]]) -> dict[str, Any]:
    """The argument of each job."""
    found = {}
    jids = [record["jid"] for record in wanted if record.get("jid")]
    for jid, said in node.runner("jobs.list_job", jids).items():
        arguments = said.get("Arguments") if isinstance(said, dict) else None
        if arguments:
            found[jid] = arguments[0]
    return found


def returns(node: Node, wanted: list[dict[str, Any]]) -> dict[str, str]:
    """The digest of each return."""
    found = {}
    jids = sorted({record["key"].partition("/")[0] for record in wanted})
    for jid, said in node.runner("jobs.lookup_jid", jids).items():
        values = said.get("data", said) if isinstance(said, dict) else {}
        for name, value in values.items():
            found[f"{jid}/{name}"] = digest(str(value))
    return found


def all_nodes(stage: Stage, eye: str) -> dict[str, Any]:
    """What each node has; for one that does not say, why not."""
    found: dict[str, Any] = {}
    for node in stage.world.nodes:
        try:
            found[node.name] = look(stage, node, eye)
        except (*ERRORS, TypeError, KeyError) as error:
            found[node.name] = {"silent": repr(error)}
    return found
