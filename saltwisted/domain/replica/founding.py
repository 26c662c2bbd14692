"""
Who founds a cluster: decided from what the listed peers answered, so that start order is free.

A node with no peers listed founds. A node with peers founds only when every one of them has
answered, over mutual proof, that it has no cluster, and its own id is the smallest; so two
halves never found twice. Otherwise it joins a node that has a cluster, or waits and says for
which nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen


@frozen
class Answer:
    """
    What one listed peer said.

    @ivar node: its id; C{""} when it did not answer.
    @ivar cluster: its cluster's id; C{""} when it has none.
    @ivar myself: whether the address turned out to be our own.
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
    """Join by this address."""

    address: str


@frozen
class Wait:
    """
    Not now.

    @ivar whom: addresses (or node ids) that are waited for, with the reason of each.
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
