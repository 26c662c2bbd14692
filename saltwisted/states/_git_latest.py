"""
C{git.latest}: a checkout that follows a branch, a tag or a commit of another repository.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from attrs import define, field

from saltwisted.states._git_remote import RemoteWork, Upstream
from saltwisted.states._git_work import (
    Finished,
    joined,
    reason,
    same_rev,
    short,
)
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)


@define(kw_only=True)
class Latest(RemoteWork):
    """
    A checkout that is made, or moved to the commit.

    @ivar branch: the local branch to have checked out, or C{None} for whichever is.
    """

    branch: str | None
    update_head: bool
    force_checkout: bool
    force_clone: bool
    force_reset: Any
    submodules: bool
    mirror: bool
    sync_tags: bool

    lfs: dict[str, Any] = field(factory=dict)

    local_rev: str | None = None
    local_branch: str | None = None
    branches: list[str] = field(factory=list)
    tags: set[str] = field(factory=set)
    base_rev: str | None = None
    local_changes: bool = False
    matches: bool = False
    has_rev: bool = False
    forward: bool | None = None

    def work(self) -> None:
        """From the remote's references to the return."""
        if self.salt["git.config_get_regexp"](
            r"filter\.lfs\.", **{"global": True, "ignore_retcode": True}
        ):
            self.lfs = {"identity": self.identity}
        self.check_no_file()
        self.fetch_url()
        if self.rev != "HEAD" and self.bare:
            self.fail("'rev' is not compatible with the 'mirror' and 'bare' arguments")
        self.ask_remote()
        exists = self.is_checkout("refs" if self.bare else ".git")
        if not exists:
            self.make_room(self.force_clone, {"forced clone": True, "new": self._arrow})
            if self.test:
                self.ret["changes"]["new"] = self._arrow
                self.finish(f"Repository {self.name} would be cloned to {self.target}")
        try:
            new = self._update() if exists else self._clone()
        except Finished:
            raise
        except Exception as error:
            # Whatever git or the machine refuses is the state's failure.
            log.exception("git.latest failed for %s", self.target)
            self.fail(reason(error))
        if exists:
            if not self.bare and not same_rev(new, self.remote_rev, self.kind):
                self.fail("Failed to update repository")
            if self.local_rev == new:
                self.up_to_date(self.comments)
            self.ret["changes"]["revision"] = {"old": self.local_rev, "new": new}
        elif new is not None:
            self.ret["changes"]["revision"] = {"old": None, "new": new}
        self.ret["comment"] = joined(self.comments)

    @property
    def _arrow(self) -> str:
        return f"{self.name} => {self.target}"

    @property
    def _changes_branch(self) -> bool:
        return self.branch is not None and self.branch != self.local_branch

    # -- a checkout that is there

    def _update(self) -> Any:
        self.branches = self.git("list_branches")
        self.tags = set(self.git("list_tags"))
        self.local_rev, self.local_branch = self.position()
        if not self.bare and self.remote_rev is None and self.local_rev is not None:
            self.fail(
                "Remote repository is empty, cannot update from a non-empty to an empty repository"
            )
        base_branch = self._base()
        remotes = self.git("remotes", redact_auth=False)
        self.matches = same_rev(self.local_rev, self.remote_rev, self.kind)
        self._look_for_changes()
        self.has_rev = self._has_remote_rev(remotes)
        action = self._plan()
        upstream: Any = None
        if base_branch is not None:
            upstream = self.ask("rev_parse", f"{base_branch}@{{upstream}}", opts=["--abbrev-ref"])
        self._set_remote(remotes, action)
        if self.remote_rev is not None:
            if self.test:
                self._forecast(action, upstream)
            self._move(upstream)
        elif self.bare:
            self._fetch_bare()
        return self.ask("revision")

    def _base(self) -> str | None:
        """The branch and the commit that the update starts from."""
        self.base_rev = self.local_rev
        if not self._changes_branch or self.branch is None:
            return self.local_branch
        if self.branch not in self.branches:
            self.base_rev = self.remote_rev
            return self.local_branch
        try:
            self.base_rev = self.git("rev_parse", self.branch + "^{commit}", ignore_retcode=True)
        except CommandExecutionError as error:
            self.fail(f"Unable to get position of local branch '{self.branch}': {reason(error)}")
        return self.branch

    def _look_for_changes(self) -> None:
        try:
            self.local_changes = not self.bare and bool(self.git("diff", "HEAD"))
        except CommandExecutionError:
            log.warning("git.latest: Unable to determine if %s has local changes", self.target)
        if not (self.local_changes and self.matches):
            return
        if self.force_reset is not True:
            self.up_to_date(self.comments, True)
        if self.test:
            self.ret["changes"]["forced update"] = True
            self.finish(
                f"{self.target} is up-to-date, but with uncommitted changes. Since 'force_reset'"
                " is set to True, these local changes would be reset. To only reset when there"
                " are changes in the remote repository, set 'force_reset' to 'remote-changes'."
            )

    def _has_remote_rev(self, remotes: Mapping[str, Any]) -> bool:
        """Whether the commit is here already, under its name too."""
        wanted = self.remote_rev
        if wanted is None:
            return False
        if self.kind == "sha1" and self.base_rev is not None and self.base_rev.startswith(wanted):
            return True
        if self.commit_of(wanted) is None:
            return False
        if self.kind == "branch":
            return self.remote in remotes and self.ask("rev_parse", self.tracked) == wanted
        if self.kind == "tag":
            if self.rev not in self.tags:
                return False
            here = self.commit_of(self.rev)
            if here != wanted and not self.force_reset:
                self.fail(
                    f"'{self.rev}' is a tag, but the remote SHA1 for this tag ({short(wanted)})"
                    f" doesn't match the local SHA1 ({short(here)}). Set 'force_reset' to True to"
                    " force this update.",
                    told=False,
                )
            return bool(here == wanted)
        return True

    def _stays(self) -> bool:
        """Whether the checkout is to stay where it is, though the remote has moved."""
        return (
            not self.matches
            and not self.update_head
            and (self.branch is None or self.branch == self.local_branch)
        )

    def _say_stays(self) -> None:
        place = self.place.capitalize() if self.rev == "HEAD" else self.place
        self.finish(
            f"{place} is already present and local HEAD ({short(self.local_rev)}) does not match,"
            " but update_head=False. HEAD has not been updated locally.",
            True,
        )

    def _is_ancestor(self, **words: Any) -> bool:
        if self.base_rev is None:
            return True
        refs = [self.base_rev, self.remote_rev]
        return bool(self.git("merge_base", refs=refs, is_ancestor=True, **words))

    def _plan(self) -> str:
        """How the checkout will move, as a word."""
        discards = self.local_changes and self.force_reset != "remote-changes"
        self.forward = False if discards else None
        if self.has_rev:
            if self._stays():
                self._say_stays()
            if self.forward is not False:
                self.forward = self._is_ancestor(ignore_retcode=True)
        if self.forward is False:
            if self.force_reset is False:
                self._refuse()
            return "hard-reset"
        return "fast-forwarded" if self.forward else "updated"

    def _refuse(self) -> None:
        """The history would have to be given up."""
        old, new = short(self.base_rev), short(self.remote_rev)
        advice = ""
        if self.branch is None and self.rev != "HEAD":
            if self.local_branch != self.rev:
                advice = (
                    f" The desired rev ({self.rev}) differs from the name of the local branch"
                    f" ({self.local_branch}), if the desired rev is a branch name then a forced"
                    " update could possibly be avoided by setting the 'branch' argument to"
                    f" '{self.rev}' instead."
                )
        elif (
            self.branch is None
            and self.default_branch is not None
            and self.local_branch != self.default_branch
        ):
            advice = (
                f" The default remote branch ({self.default_branch}) differs from the local branch"
                f" ({self.local_branch}). This could be caused by changing the default remote"
                " branch, or if the local branch was manually changed. Rather than forcing an"
                " update, it may be advisable to set the 'branch' argument to"
                f" '{self.default_branch}' instead. To ensure that this state follows the"
                f" '{self.default_branch}' branch instead of the remote HEAD, set the 'rev'"
                f" argument to '{self.default_branch}'."
            )
        dirty = self.local_changes
        way = f"from {old} to {new}" if dirty and old != new else f"to {new}"
        after = (
            f" (after checking out local branch '{self.branch}')" if self._changes_branch else ""
        )
        why = "there are uncommitted changes" if dirty else "this is not a fast-forward merge"
        self.fail(
            f"Repository would be updated {way}{after}, but {why}. Set 'force_reset' to True"
            f"{' (or ' + repr('remote-changes') + ')' if dirty else ''} to force this update"
            f"{' and discard these changes' if dirty else ''}.{advice}"
        )

    def _set_remote(self, remotes: Mapping[str, Any], action: str) -> None:
        """Let the remote's name stand for the address."""
        old = remotes[self.remote]["fetch"] if self.remote in remotes else None
        new = self.fetch_url()
        if self.remote_rev is None or old == new:
            return
        would = "would be changed" if self.test else "changed"
        text = f"Remote '{self.remote}' {would} from {self.shown(old)} to {self.shown(new)}"
        if self.test:
            actions = [text]
            if not self.has_rev:
                actions.append("Remote would be fetched")
            if not self.matches and self.update_head:
                self.ret["changes"]["revision"] = {"old": self.local_rev, "new": self.remote_rev}
                if self.forward is False:
                    self.ret["changes"]["forced update"] = True
                actions.append(f"Repository would be {action} to {short(self.remote_rev)}")
            self._end_forecast(actions, bool(actions))
        self.git("remote_set", url=self.name, remote=self.remote, **self.login)
        if old is None:
            self.comments.append(f"Remote '{self.remote}' set to {self.shown(new)}")
            self.ret["changes"]["new"] = f"{self.name} => {self.remote}"
        else:
            self.comments.append(text)

    def _end_forecast(self, actions: list[str], tells: bool) -> None:
        if self.ret["changes"]:
            self.finish(joined(actions))
        if not self.matches and not self.update_head and tells:
            self.finish(joined(actions), True)
        self.up_to_date(actions)

    def _forecast(self, action: str, upstream: Any) -> None:
        actions: list[str] = []
        new = short(self.remote_rev)
        if not self.has_rev:
            actions.append(f"Remote '{self.remote}' would be fetched")
        if not self.matches and (self.update_head or self._changes_branch):
            self.ret["changes"]["revision"] = {"old": self.local_rev, "new": self.remote_rev}
        if self._changes_branch:
            if self.branch in self.branches:
                actions.append(f"Branch '{self.branch}' would be checked out and {action} to {new}")
            else:
                actions.append(
                    f"New branch '{self.branch}' would be checked out, with {self.place} as a"
                    " starting point"
                )
                if self.tracked:
                    actions.append(f"Tracking branch would be set to {self.tracked}")
        elif not self.matches:
            old = short(self.local_rev)
            if not self.update_head:
                actions.append(
                    f"Local HEAD ({old}) does not match {self.place} but update_head=False, HEAD"
                    " would not be updated locally"
                )
            elif self.forward is True:
                actions.append(f"Repository would be fast-forwarded from {old} to {new}")
            else:
                how = "hard-reset" if self.force_reset and self.has_rev else "updated"
                actions.append(f"Repository would be {how} from {old} to {new}")
        change = Upstream(upstream, self.tracked).change
        if change:
            actions.append(f"Tracking branch would be {change}")
        self._end_forecast(actions, bool(actions))

    def _move(self, upstream: Any) -> None:
        """Go to the commit."""
        upstream = Upstream(upstream, self.tracked)
        change, options = upstream.change, upstream.options(self.branch, self.branches)
        if options is not None and self.local_branch is None:
            self.fail(
                "Cannot set/unset upstream tracking branch, local HEAD refers to nonexistent"
                " branch. This may have been caused by cloning a remote repository for which the"
                " default branch was renamed or deleted. If you are unable to fix the remote"
                " repository, you can work around this by setting the 'branch' argument (which"
                " will ensure that the named branch is created if it does not already exist)."
            )
        self._compare_tags()
        if not self.has_rev:
            self._fetch()
        if self._changes_branch:
            self._change_branch()
        if self.forward is False:
            self.git("reset", opts=["--hard", self.remote_rev], **self.lfs)
            self.ret["changes"]["forced update"] = True
            if self.local_changes:
                self.comments.append("Uncommitted changes were discarded")
            self.comments.append(f"Repository was hard-reset to {self.place}")
        elif self.forward is True and self.local_changes and self.force_reset is not False:
            self.git("discard_local_changes")
            self.comments.append("Uncommitted changes were discarded")
        if options is not None:
            self.git("branch", opts=options)
            self.comments.append(f"Tracking branch was {change}")
        if self.forward is True and not same_rev(self.base_rev, self.remote_rev, self.kind):
            self._fast_forward()
        if self.submodules:
            self._submodules()

    def _compare_tags(self) -> None:
        refs = self.git(
            "ls_remote", remote=self.remote, opts="--tags", ignore_retcode=True, **self.keys
        )
        there = {ref.replace("refs/tags/", "") for ref in refs if "^{}" not in ref}
        if self.tags == there:
            return
        self.has_rev = False
        new, gone = there - self.tags, self.tags - there
        if new:
            self.ret["changes"]["new_tags"] = new
        if not self.sync_tags:
            return
        deleted = []
        for tag in sorted(gone):
            try:
                self.git("tag", tag, opts="-d")
                deleted.append(tag)
            except CommandExecutionError as error:
                text = f"Failed to remove local tag '{tag}':\n\n{error}\n\n"
                self.ret.setdefault("warnings", []).append(text)
        if deleted:
            self.ret["changes"]["deleted_tags"] = deleted
            self.comments.append(
                "The following tags were removed from the local checkout: " + ", ".join(deleted)
            )

    def _fetch(self) -> None:
        if self.fetch_refs():
            self.comments.append(f"{self.name} was fetched, resulting in updated refs")
        try:
            self.git("rev_parse", f"{self.remote_rev}^{{commit}}", ignore_retcode=True)
        except CommandExecutionError as error:
            text = f"Fetch did not successfully retrieve rev '{self.rev}' from {self.name}: {error}"
            self.fail(text, told=False)
        if self._stays():
            self._say_stays()
        self.forward = self._is_ancestor()
        if self.force_reset is False and (
            self.forward is False or (self.forward and self.local_changes)
        ):
            self._refuse()

    @property
    def _start(self) -> Any:
        """Where a new branch starts."""
        return self.remote_rev if self.rev == "HEAD" else self.tracked or self.rev

    def _change_branch(self) -> None:
        if self.local_changes and not self.force_checkout:
            self.fail(
                f"Local branch '{self.local_branch}' has uncommitted changes. Set 'force_checkout'"
                " to True to discard them and proceed.",
                told=False,
            )
        force = self.force_checkout
        if self.branch in self.branches:
            self.git("checkout", self.branch, force=force, opts=[])
            self.comments.append(f"'{self.branch}' was checked out")
        else:
            self.git("checkout", self._start, force=force, opts=["-b", self.branch])
            self.comments.append(
                f"New branch '{self.branch}' was checked out, with {self.place} as a starting point"
            )

    def _fast_forward(self) -> None:
        if not self.tracked and self.rev != "HEAD":
            self.git("reset", opts=["--hard", self.rev], **self.lfs)
            self.comments.append(f"Repository was reset to {self.rev} (fast-forward)")
        elif self.git("symbolic_ref", "HEAD", opts=["--quiet"], ignore_retcode=True):
            self.git("merge", rev=self.remote_rev, opts=["--ff-only"], **self.lfs)
            self.comments.append(f"Repository was fast-forwarded to {self.place}")
        else:
            self.fail("Unable to fast-forward, HEAD is detached")

    def _submodules(self, with_env: bool = True) -> None:
        try:
            self.update_submodules(with_env)
        except CommandExecutionError as error:
            self.fail(f"Failed to update submodules: {reason(error)}")

    def _fetch_bare(self) -> None:
        if self.test:
            # Stock joins the letters of this text as if they were sentences.
            self.up_to_date(list(f"Bare repository at {self.target} would be fetched"))
        more = ", resulting in updated refs" if self.fetch_refs() else ""
        self.comments.append(f"Bare repository at {self.target} was fetched{more}")

    # -- a new checkout

    def _clone(self) -> Any:
        options = ["--mirror"] if self.mirror else ["--bare"] if self.bare else []
        if self.remote != "origin":
            options += ["--origin", self.remote]
        if self.depth is not None:
            options += ["--depth", str(self.depth), "--branch", self.rev]
        try:
            self.git("clone", self.name, opts=options, **self.keys, **self.login)
        except CommandExecutionError as error:
            self.fail(f"Clone failed: {reason(error)}")
        self.ret["changes"]["new"] = self._arrow
        what = " as mirror" if self.mirror else " as bare repository" if self.bare else ""
        self.comments.append(f"{self.name} cloned to {self.target}{what}")
        if not self.bare and self.remote_rev:
            self._settle()
        if self.submodules and self.remote_rev:
            self._submodules(with_env=False)
        return self.ask("revision")

    def _settle(self) -> None:
        """Go to the wanted commit in a clone."""
        if self.kind == "tag" and self.rev not in self.git("list_tags"):
            self.fail(f"Revision '{self.rev}' does not exist in clone")
        if self.branch is not None and self.branch not in self.git("list_branches"):
            self.git("checkout", self._start, opts=["-b", self.branch])
            self.comments.append(
                f"Branch '{self.branch}' checked out, with {self.place} as a starting point"
            )
        self.local_rev, self.local_branch = self.position()
        if self.local_branch is None and "HEAD" not in self.remote_refs:
            self.fail(
                "Remote HEAD refers to a ref that does not exist. This can happen when the default"
                " branch on the remote repository is renamed or deleted. If you are unable to fix"
                " the remote repository, you can work around this by setting the 'branch' argument"
                " (which will ensure that the named branch is created if it does not already"
                " exist)."
            )
        if not same_rev(self.local_rev, self.remote_rev, self.kind):
            self.git("reset", opts=["--hard", self.remote_rev])
            self.comments.append(f"Repository was reset to {self.place}")
        upstream = self.ask("rev_parse", f"{self.local_branch}@{{upstream}}", opts=["--abbrev-ref"])
        self.branches = self.git("list_branches")
        upstream = Upstream(upstream, self.tracked)
        change, options = upstream.change, upstream.options(self.branch, self.branches)
        if options is not None:
            self.git("branch", opts=options)
            self.comments.append(f"Tracking branch was {change}")
