"""
The repository that a checkout follows: its references, and which commit of it is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from saltwisted.states._git_work import (
    Work,
    is_hash,
    reason,
    short,
)
from saltwisted.worker.exceptions import CommandExecutionError


@frozen
class Upstream:
    """
    The branch of the other repository that a local one follows.

    @ivar has: which it is; false if it is none.
    @ivar wanted: which it is to be; C{None} to leave it, false to have none.
    """

    has: Any
    wanted: Any

    @property
    def change(self) -> str:
        """What is to become of it; empty if nothing is."""
        if self.wanted and not self.has:
            return f"set to {self.wanted}"
        if self.has and self.wanted is False:
            return "unset"
        if self.wanted and self.has != self.wanted:
            return f"updated to {self.wanted}"
        return ""

    def options(self, branch: str | None, branches: list[str]) -> list[str] | None:
        """Options for C{git branch}; C{None} if it is not to be called."""
        if not self.change:
            return None
        if self.change == "unset":
            return ["--unset-upstream"]
        if branch is not None and branch not in branches:
            return None
        return ["--set-upstream-to", str(self.wanted)]


@define(kw_only=True)
class RemoteWork(Work):
    """
    A state that looks at another repository.

    @ivar rev: the branch, tag or commit there; C{HEAD} for its default branch.
    @ivar remote_rev: the commit to arrive at; C{None} if there is none, or for a bare repository.
    @ivar kind: whether C{rev} is a C{branch}, C{tag} or C{sha1}.
    @ivar tracked: the upstream to set; C{None} to leave it, false to have none.
    @ivar place: the revision as the comments call it.
    """

    rev: str
    bare: bool
    depth: Any
    force_fetch: bool
    fetch_tags: bool
    refspec_branch: str
    refspec_tag: str

    remote_refs: Mapping[str, str] = field(factory=dict)
    default_branch: str | None = None
    remote_rev: str | None = None
    kind: str | None = None
    tracked: Any = False
    place: str = "None"

    def ask_remote(self) -> None:
        """Find the commit that is meant among the references of the repository."""
        try:
            refs = self.salt["git.remote_refs"](
                self.name,
                heads=False,
                tags=False,
                user=self.user,
                password=self.password,
                ignore_retcode=False,
                output_encoding=self.encoding,
                **self.keys,
                **self.login,
            )
        except CommandExecutionError as error:
            self.fail(f"Failed to check remote refs: {reason(error)}")
        self.remote_refs = refs
        head = refs.get("HEAD")
        if head is not None:
            named = [ref for ref in refs if ref.startswith("refs/heads/") and refs[ref] == head]
            self.default_branch = named[0][len("refs/heads/") :] if named else None
        if not self.bare:
            self._resolve(head)
        if self.depth is not None and self.kind not in ("branch", "tag"):
            self.fail(
                "When 'depth' is used, 'rev' must be set to the name of a branch or tag on the"
                " remote repository"
            )
        if self.remote_rev is None and not self.bare and self.rev != "HEAD":
            self.fail(f"No revision matching '{self.rev}' exists in the remote repository")

    def _resolve(self, head: str | None) -> None:
        rev, refs = self.rev, self.remote_refs
        if rev == "HEAD":
            if head is not None:
                self.remote_rev, self.kind, self.tracked = head, "sha1", None
                self.place = f"remote HEAD ({head[:7]})"
        elif f"refs/heads/{rev}" in refs:
            self.remote_rev, self.kind = refs[f"refs/heads/{rev}"], "branch"
            self.tracked = f"{self.remote}/{rev}"
            self.place = f"{self.tracked} ({short(self.remote_rev)})"
        elif f"refs/tags/{rev}^{{}}" in refs or f"refs/tags/{rev}" in refs:
            # The commit, rather than the annotated tag that names it.
            found = refs.get(f"refs/tags/{rev}^{{}}") or refs[f"refs/tags/{rev}"]
            self.remote_rev, self.kind = found, "tag"
            self.place = f"{rev} ({short(found)})"
        elif is_hash(rev):
            self.rev = self.remote_rev = rev.lower()
            self.kind = "sha1"
            self.place = self.remote_rev[:7]

    @property
    def _refspecs(self) -> list[str]:
        branch, tag = self.refspec_branch, self.refspec_tag
        if not self.fetch_tags:
            return []
        return [
            f"refs/heads/{branch}:refs/remotes/{self.remote}/{branch}",
            f"+refs/tags/{tag}:refs/tags/{tag}",
        ]

    def fetch_refs(self) -> Any:
        """Fetch branches and tags; what has changed."""
        try:
            return self.git(
                "fetch",
                remote=self.remote,
                force=self.force_fetch,
                refspecs=self._refspecs,
                **self.keys,
            )
        except CommandExecutionError as error:
            self.fail(
                "Fetch failed. Set 'force_fetch' to True to force the fetch if the failure was due"
                " to not being able to fast-forward. Output of the fetch command follows:\n\n"
                + reason(error)
            )
