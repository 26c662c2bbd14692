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
        pkgs, sources = self._open()
        if found.targets or found.reinstall:
            try:
                did = self._install(pkgs, sources)
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
        # As in stock: where no source is left to install, packages are told by their versions.
        by_file = bool(sources)
        good = _pkg_reports.report(self.finder, found, by_file, changes, held, comment)
        again = _pkg_reports.report_again(
            self.finder, found, by_file, self.reinstall, self.verify, did, comment
        )
        return done(name, good and again, "\n".join(comment), changes)

    def _open(self) -> tuple[Any, Any]:
        """The packages, and the sources, that are still to be installed."""
        found = self.found
        if self.pkgs:
            wanted = (*found.targets.items(), *found.reinstall.items())
            return [{one: version} for one, version in wanted], self.sources
        if self.sources:
            first = [one for one in self.sources if next(iter(one)) in found.targets]
            more = [one for one in self.sources if next(iter(one)) in found.reinstall]
            return self.pkgs, first + more
        return self.pkgs, self.sources

    def _install(self, pkgs: Any, sources: Any) -> Any:
        return self.finder.salt["pkg.install"](
            name=None,
            pkgs=pkgs,
            sources=sources,
            reinstall=bool(self.found.reinstall),
            split_arch=False,
            **self.words,
            **self.kwargs,
        )
