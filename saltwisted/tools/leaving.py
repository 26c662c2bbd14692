"""
A node leaves its cluster while it is stopped, and becomes a lone master.

Its keys stay what they are, as does everything that it serves; the state of the node is put
aside as a whole, by one rename, so that a crash leaves the one or the other. The other members are
told nothing: somebody has to remove the node there.
"""

from __future__ import annotations

import os

from attrs import frozen

from saltwisted.errors import StoreError
from saltwisted.tools.units import node_file, node_state


@frozen
class Left:
    """
    What was left.

    @ivar phase: of the node until now; C{member} if the others still count it.
    @ivar kept: where its state is kept.
    """

    node: str
    cluster: str
    phase: str
    kept: str


def foresee(pki_dir: str, stamp: str) -> Left:
    """
    What L{leave} would do.

    @param stamp: what tells the name of the kept directory from others.
    @raises StoreError: this machine is no node of a cluster.
    """
    if not os.path.exists(node_file(pki_dir)):
        raise StoreError("this machine is no node of a cluster: there is nothing to leave", pki_dir)
    state = node_state(pki_dir)
    folder = os.path.dirname(node_file(pki_dir))
    return Left(
        node=str(state.get("node") or ""),
        cluster=str(state.get("cluster") or ""),
        phase=str(state.get("phase") or ""),
        kept=f"{folder}.left-{stamp}",
    )


def leave(pki_dir: str, stamp: str) -> Left:
    """
    Put the state of the node aside. It must not run.

    @raises StoreError: there is none, or it cannot be moved; nothing has changed.
    """
    found = foresee(pki_dir, stamp)
    folder = os.path.dirname(node_file(pki_dir))
    try:
        if os.path.lexists(found.kept):
            raise FileExistsError(17, "is there already", found.kept)
        os.rename(folder, found.kept)
        directory = os.open(pki_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise StoreError(str(error.strerror), str(error.filename or folder)) from error
    return found
