"""
Who founds a cluster: decided from the answers of the listed peers, so that the start order does not
matter.

A node without listed peers founds a cluster. A node with peers founds one only when every one of
them has answered, over mutual proof, that it has no cluster, and the node's own id is the smallest;
so two halves never found two clusters. Otherwise the node joins a node that has a cluster, or waits
and says for which nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen


@frozen
class Answer:
    """
    The answer of one listed peer.

    @ivar node: its id; C{""} if it did not answer.
    @ivar cluster: its cluster's id; C{""} if it has none.
    @ivar myself: whether the address turned out to be this node's own.
    """

    node: str = ""
    cluster: str = ""
    myself: bool = False
    reason: str = ""


@frozen
class Found:
    """Found a cluster now."""


@frozen
class JoinPeer:
    """Join through this address."""

    address: str


@frozen
class Wait:
    """
    Not now.

    @ivar whom: addresses (or node ids) for which it waits, with the reason for each.
    """

    whom: tuple[str, ...]


def decide(
    own: str, listed: Sequence[str], answers: Mapping[str, Answer]
) -> Found | JoinPeer | Wait:
    """
    What to do, by the answers so far.

    @param listed: addresses of C{cluster_peers}.
    @param answers: by address.
    """
    waiting: list[str] = []
    smaller: list[str] = []
    for address in listed:
        answer = answers.get(address, Answer())
        if answer.myself:
            continue
        if answer.cluster:
            return JoinPeer(address)
        if not answer.node:
            waiting.append(f"{address} ({answer.reason or 'no answer yet'})")
        elif answer.node < own:
            smaller.append(f"{answer.node} to found the cluster")
        elif answer.node == own:
            waiting.append(
                f"{address} (it has the same id as this node, {own}: give one of them another)"
            )
    if waiting or smaller:
        return Wait(tuple(waiting + smaller))
    return Found()
