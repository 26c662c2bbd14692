"""
The section C{git}: what files and pillar from a git repository cost.

The repository has 10 000 small files, one of 10 MiB, 50 branches that differ in one file, and 20
tags. CPU is that of the master's whole tree of processes; what stock's C{salt-run} does in its own
process counts for it. Stock reads with the library that C{gitfs_provider} names, which has to be in
its venv.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import threading
import time
from typing import Any

from saltwisted.errors import RemoteError, TransportClosed
from tests.bench import gitnodes
from tests.bench.machine import pss_mib
from tests.bench.reactor import calm, used
from tests.gitrepos import ENVIRON
from tests.harness import until, write_config

FILES, BRANCHES, TAGS, MANY_BRANCHES = 10_000, 50, 20, 500
SMALL, LARGE = "d00/f00000.txt", "big.bin"
UPDATES = 30
COLD_LISTS = 10
CLIENTS = 8
PATIENCE = 240.0
PROVIDERS = {"pygit2": "pygit2", "gitpython": "git"}
"""A provider of stock and its library; C{gitcli} needs none."""


def git(repo: str, *args: str, data: bytes = b"") -> str:
    """Run git in a repository; what it said."""
    argv = ["git", "-C", repo, *args]
    done = subprocess.run(argv, input=data, capture_output=True, check=True, env=ENVIRON)
    return done.stdout.decode().strip()


def bare(path: str) -> str:
    """An empty repository."""
    os.makedirs(path)
    git(path, "init", "-q", "--bare", "-b", "master")
    return path


def commit(ref: str, files: dict[str, bytes], after: str = "") -> bytes:
    """A commit for C{git fast-import}."""
    lines = [b"commit %s\ncommitter t <t@example.net> 1700000000 +0000\ndata 1\nx\n" % ref.encode()]
    if after:
        lines.append(b"from %s\n" % after.encode())
    for name, content in files.items():
        lines.append(b"M 100644 inline %s\ndata %d\n" % (name.encode(), len(content)))
        lines.append(content + b"\n")
    return b"".join(lines)


def fill(repo: str, files: int, branches: int, tags: int) -> None:
    """Make the repository of this section, packed as a server has it."""
    contents = {f"d{n % 100:02}/f{n:05}.txt": f"file {n}\n".encode() * 20 for n in range(files)}
    contents[LARGE] = os.urandom(1 << 20) * 10
    lines = [commit("refs/heads/master", contents)]
    for n in range(branches):
        which = {"which.txt": f"branch {n}\n".encode()}
        lines.append(commit(f"refs/heads/b{n:02}", which, "refs/heads/master"))
    for n in range(tags):
        lines.append(b"reset refs/tags/v%02d\nfrom refs/heads/b%02d\n\n" % (n, n % branches))
    git(repo, "fast-import", "--quiet", data=b"".join(lines))
    git(repo, "gc", "-q")


def mib(folder: str) -> float:
    """What a folder takes on disk."""
    done = subprocess.run(["du", "-sk", folder], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0]) / 1024


class Serving:
    """A master whose files and pillar come from git; it is not started yet."""

    def __init__(self, bench: Any) -> None:
        self.bench, self.stock = bench, bench.stock
        self.repo = bare(os.path.join(bench.home, "states.git"))
        fill(self.repo, FILES, BRANCHES, TAGS)
        self.url = f"file://{self.repo}"
        # The provider's name means nothing to ours
        provider = os.environ.get("SALTWISTED_GITFS_PROVIDER", "pygit2")
        pillar = bare(os.path.join(bench.home, "pillar.git"))
        self.options = {
            "fileserver_backend": ["gitfs"],
            "gitfs_provider": provider,
            "git_pillar_provider": provider,
            "gitfs_update_interval": 3600,
            "loop_interval": 5,
            "gitfs_remotes": [self.url],
            "ext_pillar": [{"git": [f"master file://{pillar}"]}],
        }
        self.master = bench.make(**self.options)
        names = sorted(os.listdir(self.master.pillar_root))
        contents = {}
        for name in names:
            path = os.path.join(self.master.pillar_root, name)
            with open(path, "rb") as file:
                contents[name] = file.read()
            os.unlink(path)
        git(pillar, "fast-import", "--quiet", data=commit("refs/heads/master", contents))

    @property
    def pids(self) -> list[int]:
        """The master's process."""
        return [self.master.pid]

    def memory(self, name: str) -> None:
        """MiB of PSS of the tree."""
        self.bench.put(name, pss_mib(self.master.pid))

    def served(self) -> bool:
        """Whether a minion gets a small file whole."""
        found = self.bench.swarm("check", "--path", SMALL, "--prefix", "chk-")
        return str(found["results"].get("_file_hash and _serve_file", "")).startswith("ok")

    def runner(self, fun: str, **kwarg: Any) -> Any:
        """What a runner of ours returns."""
        return self.master.ask("runner", fun=fun, arg=[], kwarg=kwarg)["return"]

    def update(self) -> None:
        """Fetch at once, and wait for it."""
        if self.stock:
            self.master.command("salt-run", "fileserver.update", "backend=git", seconds=600)
        else:
            self.master.ask("git.update")

    def push(self, ref: str, name: str, content: bytes) -> None:
        """Push one file."""
        git(self.repo, "fast-import", "--quiet", data=commit(ref, {name: content}, f"{ref}^0"))


def section(bench: Any) -> None:
    """All figures of one master."""
    if bench.stock and not _has_library(bench):
        return
    serving = Serving(bench)
    if bench.stock:
        _cold_command(bench, serving)
    else:
        _at_runtime(bench, serving)
    bench.start(serving.master)
    assert serving.served()
    bench.stop()
    _start(bench, serving)
    _files(bench, serving)
    _lists(bench, serving)
    serving.memory("git: memory with 12 lists of 10 000 files, MiB PSS")
    _first_use(bench, serving)
    args = ["-n", str(CLIENTS), "--seconds", bench.seconds, "--expect", "part0"]
    bench.cpu("git: pillar, nothing changed", "pillar", *args)
    serving.memory("git: memory loaded, MiB PSS")
    _updates(bench, serving)
    bench.latencies("git")
    if not serving.stock:
        _beside(bench, serving)
        gitnodes.section(bench)


def _has_library(bench: Any) -> bool:
    """Whether stock can read repositories; if not, that is said."""
    provider = os.environ.get("SALTWISTED_GITFS_PROVIDER", "pygit2")
    library = PROVIDERS.get(provider)
    if library is None:
        return True
    python = os.path.join(os.environ["SALTWISTED_PEERS"], bench.kind, "bin/python")
    if subprocess.run([python, "-c", f"import {library}"], capture_output=True).returncode == 0:
        return True
    print(f"  {bench.kind}: no {library} in its venv, nothing to compare with", flush=True)
    return False


def _start(bench: Any, serving: Serving) -> None:
    """
    From C{exec} with an empty cache to the first file that a minion has, the load generator's own
    share taken off; memory before anybody asks for anything, and after the first minion.
    """
    master = serving.master
    _empty(serving)
    began = time.monotonic()
    master.start()
    bench.master = master
    until("the port", bench.listens, every=0.02, seconds=PATIENCE)
    bench.put("git: start to the open port, s", time.monotonic() - began)
    if not serving.stock:
        until("the first fetch", lambda: _is_fetched(master), every=0.02, seconds=PATIENCE)
    until("the first file", serving.served, every=0.2, seconds=PATIENCE)
    took = time.monotonic() - began
    owns = []
    for _ in range(3):
        began = time.monotonic()
        serving.served()
        owns.append(time.monotonic() - began)
    bench.put("git: start to the first file, s", took - min(owns))
    calm(serving.pids)
    serving.memory("git: memory after the first minion, MiB PSS")
    bench.put("git: disk, times the repository", _disk(serving))
    bench.stop()
    bench.start(master)
    calm(serving.pids)
    serving.memory("git: memory at rest, MiB PSS")


def _disk(serving: Serving) -> float:
    """What is kept of the repository, in its own size."""
    kept = os.path.join(_cache_of(serving), "gitfs" if serving.stock else "saltwisted/git")
    return mib(kept) / mib(serving.repo)


def _is_fetched(master: Any) -> bool:
    """Whether ours has the refs of a remote."""
    try:
        nodes = master.ask("git.status")["nodes"]
    except (RemoteError, TransportClosed):
        return False
    return "refs/remotes/origin/master" in json.dumps(nodes)


def _cache_of(serving: Serving) -> str:
    """The master's C{cachedir}."""
    below = "cache" if serving.stock else "var/cache/salt/master"
    return os.path.join(serving.master.root, below)


def _files(bench: Any, serving: Serving) -> None:
    """Hashes and contents."""
    args = ["-n", str(CLIENTS), "--seconds", bench.seconds]
    bench.cpu("git: file hash, small", "files", "--mode", "hash", "--path", SMALL, *args)
    bench.cpu("git: file hash, 10 MiB", "files", "--mode", "hash", "--path", LARGE, *args)
    bench.cpu("git: 10 MiB file", "files", "--mode", "fetch", "-n", "8", "--path", LARGE)
    bench.put("git: disk, when the 10 MiB file was asked for", _disk(serving))
    bench.cpu("git: list of 10 000 files, cached", "files", "--mode", "list", *args)


def _lists(bench: Any, serving: Serving) -> None:
    """Lists of trees that nobody has asked for, beside those that somebody has."""
    if serving.stock:
        return
    envs = [f"b{n:02}" for n in range(20, 20 + COLD_LISTS)]
    spent = []
    for _ in range(2):
        calm(serving.pids, 5)
        before = used(serving.pids)
        for env in envs:
            assert len(serving.runner("fileserver.file_list", saltenv=env)) == FILES + 2
        spent.append(1000 * (used(serving.pids) - before) / len(envs))
    bench.put("git: list of 10 000 files, cold", spent[0] - spent[1])


def _first_use(bench: Any, serving: Serving) -> None:
    """Eight at once on branches that nobody has asked for: answers that are not the file's."""
    wrong = 0
    for number in range(30, 40):
        args = ["-n", str(CLIENTS), "--path", "which.txt", "--saltenv", f"b{number:02}"]
        found = bench.swarm("files", "--mode", "fetch", *args)
        size = len(f"branch {number}\n".encode())
        wrong += int(found.get("error_count") or 0) + (found["bytes"] != size * CLIENTS)
    bench.put("git: eight at once on a first use, wrong", float(wrong))


def _updates(bench: Any, serving: Serving) -> None:
    """Fetches that bring nothing, with few branches and with many; and one that brings a file."""
    few = _nothing_new(bench, serving)
    bench.put("git: update, nothing new", few)
    times = []
    for number in range(1 if serving.stock else 5):
        serving.push("refs/heads/master", f"new{number}.txt", b"new\n")
        pushed = time.monotonic()
        serving.update()
        found = bench.swarm("files", "--mode", "fetch", "-n", "1", "--path", f"new{number}.txt")
        assert not found.get("error_count"), found
        times.append(time.monotonic() - pushed - _own(bench))
    bench.put("git: push to visible by update, s", statistics.median(times))
    if serving.stock:
        return
    more = b"".join(
        b"reset refs/heads/more/%d\nfrom refs/heads/master^0\n\n" % n
        for n in range(MANY_BRANCHES - BRANCHES)
    )
    git(serving.repo, "fast-import", "--quiet", data=more)
    git(serving.repo, "pack-refs", "--all")
    serving.update()
    many = _nothing_new(bench, serving)
    bench.put("git: update, nothing new, 500 branches", many)
    args = ["-n", str(CLIENTS), "--seconds", bench.seconds]
    name = "git: file hash, small, 500 branches"
    bench.cpu(name, "files", "--mode", "hash", "--path", SMALL, *args)


def _own(bench: Any) -> float:
    """What the load generator takes to fetch a small file that it can have."""
    began = time.monotonic()
    bench.swarm("files", "--mode", "fetch", "-n", "1", "--path", SMALL)
    return time.monotonic() - began


def _nothing_new(bench: Any, serving: Serving) -> float:
    """CPU milliseconds of a fetch that brings nothing."""
    serving.update()
    calm(serving.pids, 10)
    count = 3 if serving.stock else UPDATES
    children = os.times()
    before = used(serving.pids)
    for _ in range(count):
        serving.update()
    calm(serving.pids, 10)
    spent = used(serving.pids) - before
    if serving.stock:
        now = os.times()
        spent += now.children_user + now.children_system
        spent -= children.children_user + children.children_system
    return 1000 * spent / count


def _beside(bench: Any, serving: Serving) -> None:
    """
    How long minions wait for a hash: while nothing else happens, while fetches bring something all
    the time, and while a remote that takes connections and says nothing is asked.
    """
    _wait(bench, "undisturbed")
    ended = threading.Event()
    fetched = [0]

    def push() -> None:
        while not ended.is_set():
            serving.push("refs/heads/master", "beside.txt", b"%d\n" % fetched[0])
            serving.update()
            fetched[0] += 1

    pushing = threading.Thread(target=push)
    pushing.start()
    try:
        _wait(bench, "beside fetches")
    finally:
        ended.set()
        pushing.join()
    bench.put("git: fetches meanwhile", float(fetched[0]))
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        remotes = [serving.url, f"git://127.0.0.1:{deaf.getsockname()[1]}/none.git"]
        options = {**serving.master.options, "gitfs_remotes": remotes}
        write_config(os.path.join(serving.master.conf, "master"), options)
        bench.start(serving.master)
        problem = serving.master.ask("status")["problems"].get("git", "")
        assert "not fetched yet" in problem, problem
        _wait(bench, "beside a remote that says nothing")
        bench.stop()


def _wait(bench: Any, name: str) -> None:
    """The p99 of the answers that minions wait for."""
    args = ["-n", str(CLIENTS), "--seconds", bench.seconds, "--path", SMALL]
    found = [bench.swarm("files", "--mode", "hash", *args)["lat_ms"]["p99"] for _ in range(3)]
    bench.put(f"git: wait for a hash, {name}, p99 ms", statistics.median(found))


def _at_runtime(bench: Any, serving: Serving) -> None:
    """CPU of the first fetch of a remote that is configured while the master runs."""
    master = bench.make(**{**serving.options, "gitfs_remotes": [], "ext_pillar": []})
    bench.start(master)
    calm([master.pid])
    before = used([master.pid])
    write_config(os.path.join(master.conf, "master"), {**master.options, **serving.options})
    os.kill(master.pid, signal.SIGHUP)
    until("the first fetch", lambda: _is_fetched(master), every=0.2, seconds=PATIENCE)
    calm([master.pid], 10)
    bench.put("git: update, cold, CPU s", used([master.pid]) - before)
    bench.stop()


def _cold_command(bench: Any, serving: Serving) -> None:
    """The same of stock's command, without a master."""
    before = os.times()
    serving.update()
    now = os.times()
    spent = now.children_user + now.children_system
    spent -= before.children_user + before.children_system
    bench.put("git: update, cold, CPU s", spent)


def _empty(serving: Serving) -> None:
    """Nothing was fetched yet."""
    for name in ("gitfs", "git_pillar", "file_lists", "saltwisted/git"):
        shutil.rmtree(os.path.join(_cache_of(serving), name), ignore_errors=True)
