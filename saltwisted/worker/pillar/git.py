"""
The C{git} external pillar: SLS files and top files from branches of repositories.

Each remote has a bare repository of its own below C{cachedir/git_pillar}, named by
a digest of its URL and of how it is reached, so that two remotes never share one
(CVE-2023-20898). It is fetched at most every C{git_pillar_update_interval} seconds,
by one process at a time. A commit is laid out once, into a directory that bears
its name, and pillar is compiled from exactly that. Only transports that cannot
run programs are allowed; passwords travel in the environment of the C{git}
process, never in its arguments.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import field, frozen

from saltwisted.domain.render.tree import merge
from saltwisted.worker.exceptions import FileserverConfigError

log = logging.getLogger(__name__)

GLOBAL = {
    "root": "git_pillar_root",
    "env": "git_pillar_env",
    "base": "git_pillar_base",
    "fallback": "git_pillar_fallback",
    "ssl_verify": "git_pillar_ssl_verify",
    "proxy": "git_pillar_proxy",
    "user": "git_pillar_user",
    "password": "git_pillar_password",
    "privkey": "git_pillar_privkey",
}
"""Parameters of a remote and the options that are their defaults."""
PER_REMOTE = frozenset(
    {
        *GLOBAL,
        "name",
        "mountpoint",
        "all_saltenvs",
        "refspecs",
        "ref_types",
        "disable_saltenv_mapping",
        "depth",
        "pubkey",
        "passphrase",
        "insecure_auth",
    }
)
TRANSPORTS = "file:git:http:https:ssh"
TIMEOUT = 120
"""Seconds for one fetch."""
KEPT = 3
"""Layouts of older commits that stay, for compilations that still read them."""

_SCP = re.compile(r"^[\w.]+[\w.-]*@?[\w.-]*:(?!//|:)")
_URL = re.compile(r"^(file|git|https?|ssh|git\+ssh)://")
_COMMIT = re.compile(r"^[0-9a-f]{40,64}$")


@frozen(kw_only=True)
class Remote:
    """
    One entry of the configuration.

    @ivar branch: C{__env__} stands for the pillar environment.
    @ivar options: the parameters, with defaults from the master's options.
    """

    url: str = field(repr=False)
    branch: str
    options: Mapping[str, Any] = field(repr=False)

    @property
    def shown(self) -> str:
        """The URL without credentials, for logs."""
        return re.sub(r"//[^/@]*@", "//", self.url)

    def directory(self) -> str:
        """The name of its repository's directory."""
        reached = (self.url, self.options.get("name"), self.options.get("user"))
        return hashlib.sha256(repr(reached).encode()).hexdigest()[:32]


def remotes(config: Any, opts: Mapping[str, Any]) -> list[Remote]:
    """
    The entries of C{ext_pillar: [{git: [...]}]}.

    @raises FileserverConfigError: an entry cannot be used.
    """
    found = []
    for entry in config if isinstance(config, (list, tuple)) else [config]:
        own: dict[str, Any] = {}
        if isinstance(entry, dict):
            if len(entry) != 1:
                raise FileserverConfigError(f"Invalid git_pillar remote: {sorted(entry)}")
            entry, given = next(iter(entry.items()))
            for part in given if isinstance(given, list) else [given or {}]:
                own.update(part)
        words = str(entry).split(None, 1)
        branch, url = words if len(words) == 2 else (opts.get("git_pillar_branch"), words[0])
        unknown = sorted(set(own) - PER_REMOTE)
        if unknown:
            raise FileserverConfigError(
                f"Invalid git_pillar configuration parameter(s): {', '.join(unknown)}"
            )
        if not (_URL.match(url) or _SCP.match(url) or url.startswith("/")):
            raise FileserverConfigError("Invalid git_pillar remote: the form of its URL is unknown")
        options = {name: opts.get(option) for name, option in GLOBAL.items()}
        options.update({name: value for name, value in own.items() if value is not None})
        found.append(Remote(url=url, branch=str(branch or "master"), options=options))
    return found


class GitPillar:
    """
    Repositories and their layouts.

    @param now: seconds since the epoch.
    """

    def __init__(self, opts: Mapping[str, Any], now: Callable[[], float] = time.time) -> None:
        self._opts = opts
        self._now = now
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
        for remote in remotes(config, self._opts):
            asked = pillarenv or saltenv or "base"
            base = str(remote.options.get("base") or "master")
            branch, env = remote.branch, remote.branch
            if branch == "__env__":
                everywhere = remote.options.get("all_saltenvs")
                branch = str(everywhere or (base if asked == "base" else asked))
                env = asked if everywhere else branch
            env = str(remote.options.get("env") or ("base" if env == base else env))
            laid_out = self._layout(remote, branch)
            if laid_out is None:
                continue
            mountpoint = str(remote.options.get("mountpoint") or "").removeprefix("salt://")
            if mountpoint.strip("/"):
                found.append((self._mounted(laid_out, mountpoint.strip("/")), env, True))
            else:
                found.append((laid_out, env, False))
        return found

    # -- repositories ----------------------------------------------------------------

    def _layout(self, remote: Remote, branch: str) -> str | None:
        """The root directory of a branch's files, or C{None} if it cannot be had."""
        repository = os.path.join(self._top, remote.directory())
        try:
            with _locked(repository + ".lock"):
                self._fetch(remote, repository)
                commit = self._commit(repository, branch)
                if commit is None and remote.options.get("fallback"):
                    commit = self._commit(repository, str(remote.options["fallback"]))
                if commit is None:
                    log.error("git_pillar: %s has no branch or tag %s", remote.shown, branch)
                    return None
                place = self._checkout(repository, commit)
        except (OSError, subprocess.SubprocessError) as error:
            log.error("git_pillar: %s cannot be used: %s", remote.shown, type(error).__name__)
            return None
        root = os.path.normpath(
            os.path.join(place, str(remote.options.get("root") or "").strip("/"))
        )
        if root != place and not root.startswith(place + os.sep):
            raise FileserverConfigError("git_pillar: root points outside the repository")
        return root

    def _fetch(self, remote: Remote, repository: str) -> None:
        """Bring the repository up to date, if that was not done lately."""
        if not os.path.isdir(repository):
            os.makedirs(self._top, mode=0o700, exist_ok=True)
            self._git(remote, "init", "--quiet", "--bare", repository)
        stamp = os.path.join(repository, "fetched")
        try:
            age = self._now() - os.stat(stamp).st_mtime
            if 0 <= age < self._interval:
                return
        except FileNotFoundError:
            pass
        try:
            self._git(
                remote,
                "--git-dir",
                repository,
                "fetch",
                "--quiet",
                "--prune",
                "--no-recurse-submodules",
                "--",
                remote.url,
                "+refs/heads/*:refs/heads/*",
                "+refs/tags/*:refs/tags/*",
            )
        except subprocess.CalledProcessError as error:
            # What is there serves on; its age shows in the log.
            log.error("git_pillar: %s cannot be fetched (%s)", remote.shown, error.returncode)
        with open(stamp, "w"):
            pass
        os.utime(stamp, (self._now(), self._now()))

    def _commit(self, repository: str, ref: str) -> str | None:
        """The commit of a branch, a tag or a commit's own name."""
        names = [f"refs/heads/{ref}", f"refs/tags/{ref}"]
        if _COMMIT.match(ref):
            names.append(ref)
        for name in names:
            line = ["rev-parse", "--quiet", "--verify", "--end-of-options", name + "^{commit}"]
            try:
                found = self._git(None, "--git-dir", repository, *line).decode().strip()
            except subprocess.CalledProcessError:
                continue
            if _COMMIT.match(found):
                return found
        return None

    def _checkout(self, repository: str, commit: str) -> str:
        """The directory with a commit's files, made whole or not at all."""
        above = repository + ".files"
        place = os.path.join(above, commit)
        if os.path.isdir(place):
            os.utime(place)
            return place
        os.makedirs(above, mode=0o700, exist_ok=True)
        building = tempfile.mkdtemp(prefix=".new-", dir=above)
        try:
            index = os.path.join(building, ".index")
            self._git(
                None,
                "--git-dir",
                repository,
                "--work-tree",
                building,
                "checkout",
                "--quiet",
                "--force",
                commit,
                "--",
                ".",
                index=index,
            )
            os.unlink(index)
            os.rename(building, place)
        except (OSError, subprocess.SubprocessError):
            shutil.rmtree(building, ignore_errors=True)
            raise
        self._sweep(above, keep=commit)
        return place

    def _sweep(self, above: str, keep: str) -> None:
        others = [name for name in os.listdir(above) if _COMMIT.match(name) and name != keep]
        others.sort(key=lambda name: os.stat(os.path.join(above, name)).st_mtime)
        for name in others[:-KEPT]:
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

    def _git(self, remote: Remote | None, *args: str, index: str = "") -> bytes:
        """
        Run git without hooks or prompts.

        @raises subprocess.SubprocessError: it failed or took too long.
        """
        environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.environ.get("HOME", "/"),
            "LC_ALL": "C",
            "GIT_ALLOW_PROTOCOL": TRANSPORTS,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        }
        settings = {"core.hooksPath": os.devnull, "core.fsmonitor": "false", "gc.auto": "0"}
        if index:
            environ["GIT_INDEX_FILE"] = index
        if remote is not None:
            settings.update(_reach(remote, environ))
        environ["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (key, value) in enumerate(settings.items()):
            environ[f"GIT_CONFIG_KEY_{number}"] = key
            environ[f"GIT_CONFIG_VALUE_{number}"] = value
        done = subprocess.run(
            ["git", *args],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            check=True,
        )
        return done.stdout


def _reach(remote: Remote, environ: dict[str, str]) -> dict[str, str]:
    """How a remote is reached: git settings, and what the environment needs."""
    options = remote.options
    settings: dict[str, str] = {}
    if options.get("ssl_verify") is False:
        settings["http.sslVerify"] = "false"
    if options.get("proxy"):
        settings["http.proxy"] = str(options["proxy"])
    if options.get("user") and options.get("password"):
        pair = f"{options['user']}:{options['password']}".encode()
        settings["http.extraHeader"] = f"Authorization: Basic {base64.b64encode(pair).decode()}"
    if options.get("privkey"):
        import shlex

        environ["GIT_SSH_COMMAND"] += f" -o IdentitiesOnly=yes -i {shlex.quote(options['privkey'])}"
    return settings


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """One process at a time per repository."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(path, "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def compile_branches(
    opts: Mapping[str, Any],
    config: Any,
    saltenv: str | None,
    pillarenv: str | None,
    compile_roots: Callable[[str, list[str]], Mapping[str, Any]],
) -> Any:
    """
    The pillar of all remotes, each by its own top file, merged in their order.

    @param compile_roots: compiles for an environment and its directories.
    """
    places = GitPillar(opts).directories(config, saltenv, pillarenv)
    merged: Any = {}
    for place, env, mounted in places:
        if mounted or (pillarenv and env != pillarenv):
            continue
        roots = [place]
        if opts.get("git_pillar_includes", True):
            roots += [other for other, its_env, _ in places if its_env == env and other != place]
        merged = merge(
            merged,
            compile_roots(env, roots),
            str(opts.get("pillar_source_merging_strategy") or "smart"),
            lists=bool(opts.get("pillar_merge_lists")),
        )
    return merged
