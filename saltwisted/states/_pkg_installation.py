"""
The work of C{pkg.installed}, when it is known what is to be done.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from saltwisted.states import _pkg_holds, _pkg_reports
from saltwisted.states._pkg_targets import Finder, Install, Ret, done, refused
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError


def warned(ret: Ret, found: Install) -> Ret:
    """A return, with what was noticed on the way."""
    if found.warnings:
        ret.setdefault("warnings", []).extend(found.warnings)
    return ret


def only_held(salt: Any, ret: Ret, pkgs: Any, sources: Any, hold: Any) -> Ret:
    """Hold or let go of what is installed already."""
    try:
        held, problem = _pkg_holds.hold_or_not(
            salt, hold, name=ret["name"], pkgs=pkgs, sources=sources
        )
    except (CommandExecutionError, SaltInvocationError) as error:
        return refused(ret["name"], str(error))
    if held is None:
        return problem or ret
    held.add_to(ret)
    return ret


@frozen(kw_only=True)
class Installation:
    """
    @ivar found: what is to be done.
    @ivar words: arguments for C{pkg.install}; C{kwargs} are those that the state has not.
    @ivar verify: how C{pkg.verify} is to be asked, or false.
    @ivar holds: whether packages are to be held, or let go of, afterwards.
    """

    name: Any
    finder: Finder
    found: Install
    pkgs: Any
    sources: Any
    words: dict[str, Any]
    kwargs: dict[str, Any]
    verify: Any
    reinstall: bool
    holds: bool

    def run(self) -> Ret:
        """Install, hold, and look whether all is there."""
        salt, found, name = self.finder.salt, self.found, self.name
        comment: list[str] = []
        changes: Ret = {}
        did: Any = {}
        if found.targets or found.reinstall:
            try:
                did = self._install()
            except CommandExecutionError as error:
                return _pkg_reports.failed(name, error, "installing package(s)")
            if isinstance(did, dict):
                changes.update(did)
            elif isinstance(did, str):
                comment.append(did)
                did = {}
        held: _pkg_holds.Held | None = None
        if self.holds:
            try:
                held, problem = _pkg_holds.hold_or_not(
                    salt, self.kwargs["hold"], name=name, pkgs=found.desired
                )
            except (CommandExecutionError, SaltInvocationError) as error:
                comment.append(str(error))
                return done(name, False, "\n".join(comment), changes)
            if problem:
                return problem
        if found.unpurge:
            changes["purge_desired"] = salt["lowpkg.unpurge"](*found.unpurge)
        sources = bool(self.sources)
        good = _pkg_reports.report(self.finder, found, sources, changes, held, comment)
        again = _pkg_reports.report_again(
            self.finder, found, sources, self.reinstall, self.verify, did, comment
        )
        return done(name, good and again, "\n".join(comment), changes)

    def _install(self) -> Any:
        found, pkgs, sources = self.found, self.pkgs, self.sources
        if pkgs:
            wanted = (*found.targets.items(), *found.reinstall.items())
            pkgs = [{one: version} for one, version in wanted]
        elif sources:
            first = [one for one in sources if next(iter(one)) in found.targets]
            sources = first + [one for one in sources if next(iter(one)) in found.reinstall]
        return self.finder.salt["pkg.install"](
            name=None,
            pkgs=pkgs,
            sources=sources,
            reinstall=bool(found.reinstall),
            split_arch=False,
            **self.words,
            **self.kwargs,
        )
