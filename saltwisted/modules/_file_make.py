"""
Making directories, devices and pipes, each with an owner and a mode.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.modules import _files
from saltwisted.modules._file_around import Around
from saltwisted.modules._file_perms import Permissions
from saltwisted.worker.exceptions import SaltInvocationError


def own(around: Around, name: str, user: Any, group: Any, mode: Any) -> None:
    """Set owner and mode of what was made; a mode such as 755 has the digits that one sees."""
    Permissions(
        around=around,
        name=name,
        ret=None,
        user=user,
        group=group,
        mode=int(f"{mode}") if mode else None,
    ).set()


def make_directory(around: Around, name: str, user: Any, group: Any, mode: Any) -> None:
    """Make a directory and those above it, all with this owner and mode."""
    name = _files.expanded(name)
    head, tail = os.path.split(name)
    if not tail:
        head, tail = os.path.split(head)
    if head and tail and not os.path.exists(head):
        try:
            make_directory(around, head, user, group, mode)
        except FileExistsError:
            pass
        if tail == os.curdir:
            return
    os.mkdir(name)
    own(around, name, user, group, mode)


def make_missing(around: Around, path: str, user: Any, group: Any, mode: Any) -> None:
    """The same, if there is no such directory."""
    directory = os.path.normpath(_files.expanded(path))
    if not os.path.isdir(directory):
        # A caller gives a mode such as 755: the same digits again.
        make_directory(around, directory, user, group, mode)


def make_parents(around: Around, path: str, user: Any, group: Any, mode: Any) -> Any:
    """
    Make the directories above a path; a path that ends in a slash is a directory itself.

    @return: what is there already, in a sentence.
    """
    mode = _files.normalize_mode(mode) if mode else mode
    folder = os.path.normpath(os.path.dirname(_files.expanded(path)))
    if os.path.isdir(folder):
        return f"Directory '{folder}' already exists"
    if os.path.exists(folder):
        return f"The path '{folder}' already exists and is not a directory"
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        above = os.path.dirname(folder)
        if above == folder:
            raise SaltInvocationError(
                f"Recursive creation for path '{above}' would result in an infinite loop. "
                "Please use an absolute path."
            )
        folder = above
    for each in reversed(missing):
        make_missing(around, each, user, group, mode)
    return None


def make_node(
    around: Around,
    name: str,
    kind: int,
    device: int,
    user: Any,
    group: Any,
    mode: Any,
    what: str,
) -> dict[str, Any]:
    """
    Make a device or a pipe; answers as a state.

    @param kind: C{stat.S_IFCHR} and its like.
    @param what: its name in the answer.
    """
    name = _files.expanded(name)
    ret: dict[str, Any] = {"name": name, "changes": {}, "comment": "", "result": False}
    created = {"new": f"{what} {name} created."}
    if around.test:
        ret["changes"], ret["result"] = created, None
    else:
        try:
            os.mknod(name, int(str(mode).lstrip("0Oo"), 8) | kind, device)
        except FileExistsError:
            ret["comment"] = f"File {name} exists and cannot be overwritten"
        else:
            ret["changes"], ret["result"] = created, True
    if os.path.lexists(name):
        own(around, name, user, group, mode)
    return ret
