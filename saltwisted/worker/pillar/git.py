"""
The C{git} external pillar: SLS files and top files from branches of repositories.

Each remote has a repository of its own below C{cachedir/git_pillar}, named by a digest of its URL
and of how it is reached, so that two remotes never share one (CVE-2023-20898). It is fetched like
those of C{gitfs} (L{saltwisted.worker.git.repository}): by the master in the background, or here,
if there is no master or nothing was fetched yet. A commit is written once to a directory with its
name, and pillar is compiled from exactly that. Git does not check anything out: files are written
as they are in the object database, without filters, and links that lead out of the tree are left
out.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from saltwisted.config.gitpillar import FETCHED, PillarRemote, pillar_remotes
from saltwisted.domain.git import mapping, trees
from saltwisted.domain.git.mapping import Tip
from saltwisted.domain.render.tree import merge
from saltwisted.errors import ConfigError
from saltwisted.worker.exceptions import FileserverConfigError
from saltwisted.worker.git import program, repository
from saltwisted.worker.git.program import GitError
from saltwisted.worker.git.reading import Objects
from saltwisted.worker.renderhost import RootsHost

log = logging.getLogger(__name__)

SECONDS = 120.0
"""For one fetch by a worker."""
KEPT = 32
"""Layouts of other commits that stay, since the branches of several environments take turns."""
SPARED = 600.0
"""
Seconds for which a layout stays after its last use, whatever others there are: somebody may still
read it. The longest compilation ends after half of that.
"""
MOST = 1 << 30
MOST_LAID = 1 << 30
"""Bytes of all files of a commit that is written to a directory, equal ones counted each time."""
MOST_ROWS = 32 << 20
"""Bytes of the list of its files."""
AT_ONCE = 16 << 20
"""Bytes of files that are in memory at once, unless one has more."""

_COMMIT = re.compile(r"^[0-9a-f]{40,64}$")


class TooMuch(GitError):
    """A commit has more than is written to a directory."""


def remotes(config: Any, opts: Mapping[str, Any]) -> list[PillarRemote]:
    """
    The entries of C{ext_pillar: [{git: [...]}]}.

    @raises FileserverConfigError: an entry cannot be used.
    """
    try:
        return pillar_remotes(config, opts.get)
    except ConfigError as error:
        raise FileserverConfigError(error.reason) from None


class GitPillar:
    """
    Repositories and the directories of their commits.

    @param now: seconds since the epoch.
    @param host: is told which files decide what is read.
    """

    def __init__(
        self,
        opts: Mapping[str, Any],
        now: Callable[[], float] = time.time,
        host: RootsHost | None = None,
    ) -> None:
        self._opts = opts
        self._now = now
        self._host = host
        self._top = os.path.join(str(opts["cachedir"]), "git_pillar")
        self._interval = float(opts.get("git_pillar_update_interval") or 0)

    def directories(
        self, config: Any, saltenv: str | None, pillarenv: str | None
    ) -> list[tuple[str, str, bool]]:
        """
        Directory, environment and whether it is only mounted, for each remote that can be used.

        @raises FileserverConfigError: the configuration makes no sense.
        """
        found = []
        if not self._opts.get(FETCHED):
            self._is_unsure()
        for remote in remotes(config, self._opts):
            asked = pillarenv or saltenv or "base"
            base = remote.base or "master"
            branch, env = remote.branch, remote.branch
            if branch == "__env__":
                branch = str(remote.all_saltenvs or (base if asked == "base" else asked))
                env = asked if remote.all_saltenvs else branch
            env = remote.env or ("base" if env == base else env)
            laid_out = self._layout(remote, branch)
            if laid_out is None:
                continue
            mountpoint = remote.mountpoint.removeprefix("salt://").strip("/")
            if mountpoint:
                found.append((self._mounted(laid_out, mountpoint), env, True))
            else:
                found.append((laid_out, env, False))
        return found

    # -- repositories ----------------------------------------------------------------

    def _layout(self, remote: PillarRemote, branch: str) -> str | None:
        """The root directory of a branch's files, or C{None} if it cannot be had."""
        folder = os.path.join(self._top, remote.directory())
        state = self._state(remote, folder)
        commit = self._commit(remote, state, branch)
        if commit is None:
            if state:
                log.error("git_pillar: %s has no branch or tag %s", remote.shown, branch)
            return None
        try:
            place = self._laid_out(folder, os.path.join(folder, state["repo"]), commit)
        except (GitError, OSError, ValueError) as error:
            log.error("git_pillar: %s cannot be used: %s", remote.shown, error)
            self._is_unsure()
            return None
        root = os.path.normpath(os.path.join(place, remote.root.strip("/")))
        if root != place and not root.startswith(place + os.sep):
            raise FileserverConfigError("git_pillar: root points outside the repository")
        return root

    def _state(self, remote: PillarRemote, folder: str) -> dict[str, Any]:
        """What is known of a remote, brought up to date if nobody else does that."""
        if self._host is not None:
            # Which commit each branch has stands there, and it is replaced whole
            self._host.depends(os.path.join(folder, repository.STATE))
        state = repository.state_of(folder)
        if self._opts.get(FETCHED) or not self._is_due(folder):
            return state
        try:
            return repository.Fetch(fetch_request(remote, folder, self._now())).run()
        except (GitError, OSError) as error:
            # What is there serves on; its age shows in the log
            log.error("git_pillar: %s cannot be fetched: %s", remote.shown, error)
            return state

    def _is_unsure(self) -> None:
        """It may be another one the next time, for reasons that no file shows."""
        if self._host is not None:
            self._host.volatile.add("git")

    def _is_due(self, folder: str) -> bool:
        """Whether it is time to fetch; who is told so has to."""
        stamp = os.path.join(folder, "fetched")
        with suppress(FileNotFoundError):
            if 0 <= self._now() - os.stat(stamp).st_mtime < self._interval:
                return False
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(stamp, "w"):
            pass
        os.utime(stamp, (self._now(), self._now()))
        return True

    def _commit(self, remote: PillarRemote, state: Mapping[str, Any], ref: str) -> str | None:
        """The commit of a branch, a tag or a commit's own name; else that of the fallback."""
        refs = {name: Tip(*tip) for name, tip in state.get("refs", {}).items()}
        for name in (ref, remote.fallback):
            for kind in ("remotes/origin", "tags"):
                tip = refs.get(f"refs/{kind}/{name}")
                if name and tip is not None and tip.commit:
                    return tip.commit
            if mapping.is_whole_id(name) and name in state.get("signed", (name,)):
                return name
        return None

    def _laid_out(self, folder: str, repo: str, commit: str) -> str:
        """The directory with a commit's files, made whole or not at all."""
        above = os.path.join(folder, "files")
        place = os.path.join(above, commit)
        with suppress(FileNotFoundError):
            self._used(place)
            return place
        os.makedirs(above, mode=0o700, exist_ok=True)
        # Whoever compiles the next pillar need not find that out again
        refused = os.path.join(above, f".refused-{commit}")
        with suppress(FileNotFoundError), open(refused, encoding="utf-8") as file:
            raise TooMuch(file.read())
        building = tempfile.mkdtemp(prefix=".new-", dir=above)
        try:
            lay_out(repo, commit, building)
            os.rename(building, place)
        except TooMuch as error:
            shutil.rmtree(building, ignore_errors=True)
            repository.replace(refused, error.text.encode())
            raise
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            if os.path.isdir(place):
                return place  # another worker was faster
            raise
        self._used(place)
        self._sweep(above, keep=commit)
        return place

    def _used(self, place: str) -> None:
        """Note when a layout was read last, and nothing else: who depends on it sees no change."""
        os.utime(place, ns=(int(self._now() * 1e9), os.stat(place).st_mtime_ns))

    def _sweep(self, above: str, keep: str) -> None:
        used: list[tuple[float, str]] = []
        for name in os.listdir(above):
            if _COMMIT.match(name) and name != keep:
                with suppress(FileNotFoundError):
                    used.append((os.stat(os.path.join(above, name)).st_atime, name))
        for last, name in sorted(used)[:-KEPT]:
            if self._now() - last >= SPARED:
                shutil.rmtree(os.path.join(above, name), ignore_errors=True)

    def _mounted(self, directory: str, mountpoint: str) -> str:
        """A directory in which the other one stands at the mount point."""
        if ".." in mountpoint.split("/"):
            raise FileserverConfigError("git_pillar: mountpoint points outside the roots")
        name = hashlib.sha256(f"{directory}\0{mountpoint}".encode()).hexdigest()[:32]
        outer = os.path.join(self._top, "mounted", name)
        link = os.path.join(outer, mountpoint)
        if not os.path.islink(link):
            os.makedirs(os.path.dirname(link), mode=0o700, exist_ok=True)
            os.symlink(directory, link)
        return outer


def fetch_request(remote: PillarRemote, folder: str, now: float) -> dict[str, Any]:
    """What L{repository.Fetch} is to do."""
    return {
        "folder": folder,
        **remote.reached(),
        "pins": sorted(mapping.pins(remote) | {b for b in (remote.branch,) if mapping.is_hex(b)}),
        "seconds": SECONDS,
        "most": MOST,
        "now": now,
    }


def lay_out(repo: str, commit: str, place: str) -> None:
    """
    Write the files of a commit into an empty directory.

    @raises GitError: the commit is not there, or damaged.
    @raises TooMuch: its tree is more than may be written.
    """
    until = time.monotonic() + SECONDS
    rows, sizes = _rows(repo, commit)
    if sum(sizes[oid] for mode, oid in rows.values() if mode & 0o100000) > MOST_LAID:
        raise TooMuch(f"the files of {commit[:12]} have more than {MOST_LAID >> 20} MiB")
    links = [oid for mode, oid in rows.values() if mode == trees.LINK]
    short = [oid for oid in dict.fromkeys(links) if sizes[oid] <= trees.MOST_LINK]
    targets = _contents(repo, short, sizes)
    files: dict[str, list[str]] = {}
    for path, (mode, oid) in sorted(rows.items()):
        full = os.path.join(place, path)
        if mode == trees.FOLDER:
            os.mkdir(full, 0o700)
        elif mode == trees.LINK:
            if time.monotonic() > until:
                raise TooMuch(f"the links of {commit[:12]} lead too far")
            if oid in targets and _leads(rows, targets, path):
                os.symlink(os.fsdecode(targets[oid]), full)
        elif mode != trees.MODULE:
            files.setdefault(oid, []).append(path)
    for some in _batches(files, sizes):
        for oid, content in _contents(repo, some, sizes).items():
            for path in files[oid]:
                full, mode = os.path.join(place, path), rows[path][0]
                how = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with open(os.open(full, how, 0o700 if mode & 0o100 else 0o600), "wb") as file:
                    file.write(content)


def _rows(repo: str, commit: str) -> tuple[dict[str, tuple[int, str]], dict[str, int]]:
    """Each path of a commit with its mode and object, and the sizes of the objects."""
    pieces: list[bytes] = []
    left = MOST_ROWS

    def sink(data: bytes) -> None:
        nonlocal left
        left -= len(data)
        if left < 0:
            raise TooMuch(f"the list of files of {commit[:12]} has more than {MOST_ROWS >> 20} MiB")
        pieces.append(data)

    args = ["--git-dir", repo, "ls-tree", "-r", "-t", "-z", "-l", "--full-tree"]
    args += ["--end-of-options", commit]
    program.run(args, program.environment({}), seconds=SECONDS, sink=sink)
    rows: dict[str, tuple[int, str]] = {}
    sizes: dict[str, int] = {}
    for line in b"".join(pieces).split(b"\0"):
        head, _, name = line.partition(b"\t")
        path = os.fsdecode(name)
        if path and all(map(trees.is_plain, path.split("/"))):
            octal, _, oid, size = head.decode().split()
            rows[path] = (int(octal, 8), oid)
            sizes[oid] = int(size) if size.isdecimal() else 0
    return rows, sizes


def _batches(oids: Iterable[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Objects, some at a time: so many as are in memory at once."""
    some: list[str] = []
    held = 0
    for oid in sorted(oids):
        if some and held + sizes[oid] > AT_ONCE:
            yield some
            some, held = [], 0
        some.append(oid)
        held += sizes[oid]
    if some:
        yield some


def _leads(rows: Mapping[str, tuple[int, str]], contents: Mapping[str, bytes], path: str) -> bool:
    """Whether a link leads to something in the tree; a tree is named by its path here."""

    def look(above: str, name: str) -> trees.Entry | None:
        below = f"{above}/{name}" if above else name
        found = rows.get(below)
        return (trees.FOLDER, below) if found and found[0] == trees.FOLDER else found

    def target(oid: str) -> str | None:
        return os.fsdecode(contents[oid]) if oid in contents else None

    return trees.resolve("", path.split("/"), look, target) is not None


def _contents(repo: str, oids: list[str], sizes: Mapping[str, int]) -> dict[str, bytes]:
    """
    Blobs by their names.

    @raises GitError: one is not there, or is not what its name says.
    """
    with Objects(repo) as objects:
        found = zip(
            oids,
            objects.read(oids, "blob", max((sizes[oid] for oid in oids), default=0)),
            strict=True,
        )
        return {oid: data for oid, data in found if data is not None}


def compile_branches(
    opts: Mapping[str, Any],
    config: Any,
    saltenv: str | None,
    pillarenv: str | None,
    compile_roots: Callable[[str, list[str]], Mapping[str, Any]],
    host: RootsHost | None = None,
) -> Any:
    """
    The pillar of all remotes, each by its own top file, merged in their order.

    @param compile_roots: compiles for an environment and its directories.
    @param host: is told what decides which those are.
    """
    places = GitPillar(opts, host=host).directories(config, saltenv, pillarenv)
    merged: Any = {}
    errors: list[Any] = []
    for place, env, mounted in places:
        if mounted or (pillarenv and env != pillarenv):
            continue
        roots = [place]
        if opts.get("git_pillar_includes", True):
            roots += [other for other, its_env, _ in places if its_env == env and other != place]
        compiled = dict(compile_roots(env, roots))
        errors += compiled.pop("_errors", ())
        merged = merge(
            merged,
            compiled,
            str(opts.get("pillar_source_merging_strategy") or "smart"),
            lists=bool(opts.get("pillar_merge_lists")),
        )
    # However lists are merged, each of them is named
    return {**merged, "_errors": errors} if errors else merged
