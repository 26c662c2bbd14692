"""
The scripts of L{tests.modules.machineplays}: which calls are made, and what commands answer.

This file is read with stock's Python too, so it imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.modules.plays import Play


def _both(p: Play, function: str, *args: Any, **kwargs: Any) -> None:
    """Call a state under C{test=True}, and then for real."""
    for is_test in (True, False):
        p.let("opts", test=is_test)
        p.call(function, *args, **kwargs)


def alias(p: Play) -> None:
    """The aliases of mail, with comments, lists and lines that are none."""
    p.functions["config.option"] = p.path("aliases")
    p.programs["newaliases"] = "/usr/bin/newaliases"
    p.call("aliases.list_aliases")
    p.write("aliases", "# head\npostmaster: root\nroot: kim@x.org, ann # both\n\nodd line\na:b\n")
    p.call("aliases.list_aliases")
    for name in ("root", "postmaster", "nope", "a"):
        p.call("aliases.get_target", name)
    p.call("aliases.has_target", "root", "kim@x.org, ann")
    p.call("aliases.has_target", "root", ["kim@x.org", "ann"])
    p.call("aliases.has_target", "root", "ann")
    p.call("aliases.has_target", "nope", "ann")
    p.call("aliases.has_target", "root", "")
    p.call("aliases.set_target", "", "x")
    p.call("aliases.set_target", "x", "")
    for args in (("root", "bob"), ("root", "bob"), ("new", ["a", "b"]), ("a", "c")):
        p.call("aliases.set_target", *args)
        p.read("aliases")
    p.call("aliases.rm_alias", "nope")
    p.call("aliases.rm_alias", "postmaster")
    p.read("aliases")
    for target in ("one@x.org", "one@x.org", ["one", "two"], ["one", "two"]):
        _both(p, "states/alias.present", "kim", target=target)
        p.read("aliases")
    _both(p, "states/alias.present", "kim", target="")
    _both(p, "states/alias.absent", "kim")
    _both(p, "states/alias.absent", "kim")
    p.read("aliases")
    p.let("programs", newaliases=None)
    p.call("aliases.set_target", "z", "y")


SCRIPTS: dict[str, Callable[[Play], None]] = {
    "alias": alias,
}
