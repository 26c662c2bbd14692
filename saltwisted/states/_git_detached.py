"""
C{git.detached}: a checkout at one commit, on no branch.
"""

from __future__ import annotations

import logging

from attrs import define

from saltwisted.states._git_work import Finished, Work, is_hash, joined, reason
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)


@define(kw_only=True)
class Detached(Work):
    """
    @ivar rev: the branch, tag or commit.
    """

    rev: str
    force_clone: bool
    force_checkout: bool
    fetch_remote: bool
    hard_reset: bool
    submodules: bool

    def work(self) -> None:
        """From the checkout as it is to the return."""
        self.check_no_file()
        self.fetch_url()
        by_hash = is_hash(self.rev)
        if by_hash:
            self.rev = self.rev.lower()
        old = None
        here = False
        if self.is_checkout():
            old = self.position()[0]
            if by_hash:
                here = self.ask("describe", self.rev) is not None
            else:
                self._set_remote()
        else:
            self._clone()
        if not here and self.fetch_remote is not False:
            self._fetch()
        commit = self._commit(by_hash)
        if self.hard_reset:
            if self.test:
                self.finish(f"Hard reset to HEAD would be performed on {self.target}")
            self.git("reset", opts=["--hard", "HEAD"])
            self.comments.append("Repository was reset to HEAD before checking out revision")
        new = None
        if commit != old:
            if self.test:
                self.ret["changes"]["HEAD"] = {"old": old, "new": commit}
                self.finish(f"Commit ID {commit} would be checked out at {self.target}")
            self.git("checkout", commit, force=self.force_checkout)
            self.comments.append(f"Commit ID {commit} was checked out at {self.target}")
            new = self.ask("revision")
        if self.submodules:
            self.update_submodules(with_env=False)
            self.comments.append("Submodules were updated")
        if new is not None:
            self.ret["changes"]["HEAD"] = {"old": old, "new": new}
        else:
            self.comments.append("Already checked out at correct revision")
        self.ret["comment"] = joined(self.comments)

    def _set_remote(self) -> None:
        remotes = self.git("remotes", redact_auth=False)
        old = remotes[self.remote]["fetch"] if self.remote in remotes else None
        if old is not None and self.name in old:
            return
        if self.test:
            self.finish(f"Remote {self.remote} would be set to {self.name}")
        self.git("remote_set", url=self.name, remote=self.remote, **self.login)
        self.comments.append(f"Remote {self.remote} updated from '{old}' to '{self.name}'")

    def _clone(self) -> None:
        self.make_room(self.force_clone, {})
        if self.test:
            self.finish(f"Repository {self.name} would be cloned to {self.target}")
        options = ["--no-checkout"]
        if self.remote != "origin":
            options += ["--origin", self.remote]
        try:
            self.git("clone", self.name, opts=options, **self.keys, **self.login)
        except Finished:
            raise
        except Exception as error:
            # Whatever git or the machine refuses is the state's failure.
            log.exception("git.detached failed for %s", self.target)
            self.fail(reason(error))
        self.comments.append(f"{self.name} cloned to {self.target}")

    def _fetch(self) -> None:
        if self.test:
            self.finish(f"Repository remote {self.remote} would be fetched")
        refspecs = [f"refs/heads/*:refs/remotes/{self.remote}/*", "+refs/tags/*:refs/tags/*"]
        try:
            changed = self.git(
                "fetch", remote=self.remote, force=True, refspecs=refspecs, **self.keys
            )
        except CommandExecutionError as error:
            self.fail(f"Fetch failed:\n\n{error}")
        if changed:
            self.comments.append(f"Remote {self.remote} was fetched, resulting in updated refs")

    def _commit(self, by_hash: bool) -> str:
        """The commit to check out."""
        missing = f"Revision '{self.rev}' does not exist"
        if by_hash:
            if not self.git("describe", self.rev):
                self.fail(missing, told=False)
            return self.rev
        try:
            # The target is a repository too: its references are what was fetched.
            refs = self.git(
                "remote_refs", identity=self.identity, ignore_retcode=False, **self.login
            )
        except CommandExecutionError as error:
            self.fail(f"Failed to list refs for {self.remote}: {reason(error)}", told=False)
        names = (f"refs/remotes/{self.remote}/{self.rev}", f"refs/tags/{self.rev}")
        found = [str(refs[name]) for name in names if name in refs]
        if not found:
            self.fail(missing, told=False)
        return found[0]
