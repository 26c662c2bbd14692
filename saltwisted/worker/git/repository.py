"""
A repository that is fetched into, and what is known of it.

A folder of a remote has these names in it:

  - C{lock}: whoever changes anything here holds it (C{flock}: it ends with its process).
  - C{repo.N}: a bare repository that no git program ever writes to. Packs are put into it whole,
    and its C{packed-refs} is replaced whole: there is no lock of git's own in it, and a process
    that is killed at any moment leaves it as it was, or as it was to be.
  - C{quarantine-*}: where git fetches to. It borrows the objects of C{repo.N}, and is thrown away
    when it has failed, or at the next fetch if it was killed.
  - C{state}: the name of the repository that counts, its refs with their commits, which objects are
    large, and how the last fetch went. It is replaced last: what it says is there.
  - C{ask}: the program that tells git passwords, where the remote wants some; it has none in it.
  - C{files}: large files that were asked for, each by the name of its object.
  - C{packs} and C{incoming-*}: what is sent to another node of a cluster, and comes from one
    (L{saltwisted.worker.git.packs}).

The content of an object is checked against its name when it is read.
"""

from __future__ import annotations

import fcntl
import math
import os
import pwd
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgpack

from saltwisted import advice
from saltwisted.wire.text import is_text
from saltwisted.worker.git import news, program
from saltwisted.worker.git.program import GitError

if TYPE_CHECKING:
    from saltwisted.worker.git.signatures import Judge

STATE, LOCK, FILES, ASK = "state", "lock", "files", "ask"
QUARANTINE, INCOMING = "quarantine-", "incoming-"
MOST_FILE = 1 << 30
MOST_REFS = 20_000
MOST_REF_TEXT = 2 * 1024 * 1024
"""Bytes of the names of all refs."""
KEPT_REFS = "refs/saltwisted/"
"""Below it are commits that no ref of the remote names, and that are served."""
MANY_PACKS = 40
"""Packs after which they are made one."""
CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlogallrefupdates = false\n"
ASIDE = ("seen", "pins", "refused", "signed", "good", "verify", "back")
"""What a state has beside its refs where only signed commits count, or it is rolled back."""
Refs = dict[str, list[str]]
"""Ref to its object, the commit that this leads to, and that one's tree; C{""} for none."""


class Damaged(GitError):
    """The data on disk is damaged."""


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """Nobody else changes anything in this folder meanwhile."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, LOCK), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def state_of(folder: str) -> dict[str, Any]:
    """What is known of a remote; empty if nothing."""
    try:
        with open(os.path.join(folder, STATE), "rb") as file:
            state = msgpack.unpackb(file.read(), strict_map_key=False)
    except (OSError, ValueError, msgpack.UnpackException):
        return {}
    return state if isinstance(state, dict) and "repo" in state else {}


def replace(path: str, data: bytes, mode: int = 0o600) -> None:
    """A file is its old content or its new one, also after the power has failed."""
    temporary = f"{path}.{os.urandom(8).hex()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.rename(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync(os.path.dirname(path))


def sync(folder: str) -> None:
    """What has names in a folder keeps them."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove(path: str) -> None:
    """Remove a directory with all that is in it, as far as that is possible."""
    import shutil

    shutil.rmtree(path, ignore_errors=True)


def skeleton(path: str) -> None:
    """An empty repository, without a git program, and with nothing of a template."""
    for name in ("objects/pack", "objects/info", "refs/heads", "refs/tags"):
        os.makedirs(os.path.join(path, name), mode=0o700, exist_ok=True)
    for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", CONFIG)):
        with open(os.path.join(path, name), "w") as file:
            file.write(text)


def sweep(folder: str, keep: str, besides: str = "") -> list[str]:
    """
    Remove what a killed fetch has left: quarantines, packs of peers, locks of git's own, and
    repositories that count no more. Whoever calls it holds the lock.

    @param besides: a pack that is wanted yet.
    @return: the names of the locks that there were.
    """
    gone = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        old = name.startswith("repo.") and name != keep
        if old or (name.startswith(QUARANTINE) and not _is_used(path)):
            remove(path)
        elif name.startswith((STATE + ".", ASK + ".", INCOMING)) and name != besides:
            with suppress(OSError):
                os.unlink(path)
    for above, folders, names in os.walk(os.path.join(folder, keep)) if keep else ():
        folders[:] = [each for each in folders if each != "pack"]
        for name in names:
            if name.endswith(".lock"):
                gone.append(name)
                with suppress(OSError):
                    os.unlink(os.path.join(above, name))
    return gone


def _is_used(quarantine: str) -> bool:
    """Whether the process that fetches into it lives."""
    try:
        with open(os.path.join(quarantine, LOCK), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def packed_refs(path: str) -> dict[str, str]:
    """Ref to object, of C{packed-refs} and of the refs beside it, which come before."""
    found: dict[str, str] = {}
    with suppress(FileNotFoundError), open(os.path.join(path, "packed-refs"), "rb") as file:
        # A name may have what Python takes for the end of a line, too, and git does not
        for line in file.read().decode(errors="surrogateescape").split("\n"):
            oid, _, name = line.partition(" ")
            if name and oid[:1] not in "#^":
                found[name] = oid
    top = os.path.join(path, "refs")
    for above, _, names in os.walk(top):
        for each in names:
            full = os.path.join(above, each)
            with open(full, encoding="ascii", errors="replace") as text:
                oid = text.read(200).strip()
            if all(sign in "0123456789abcdef" for sign in oid) and len(oid) in (40, 64):
                found["refs/" + os.path.relpath(full, top)] = oid
    return found


class Fetch:
    """
    One fetch of one remote.

    @param request: C{folder}, C{url}, C{refspecs}, how the remote is reached
        (L{program.environment}) and the limits C{seconds} and C{most} (bytes). With C{fresh} the
        repository is recreated; with C{copy} from its own objects, and its state stays the same;
        C{keep} are objects that a copy must have although no ref leads to them. With C{verify} only
        what was signed by one of C{signers} counts (L{saltwisted.worker.git.signatures}); C{pins}
        are commits of the configuration. A C{mark} is that of the fetch before, of the repository
        C{repo}.
    @ivar state: what counts now, as far as it is known.
    @ivar mark: by this the next fetch knows that there is nothing new; C{b""} if it cannot.
    @ivar is_known: whether this fetch knows that: then C{state} is empty.
    @ivar is_less: whether something that counted when the fetch began no longer does, whatever the
        remote says.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self._folder = str(request["folder"])
        self._seconds = float(request["seconds"])
        self._judge: Judge | None = None
        self.locks: list[str] = []
        self.state: dict[str, Any] = {}
        self.mark = b""
        self.is_known = self.is_less = False
        self._less: dict[str, Any] = {}
        self._said: bytes | None = None

    def run(self) -> dict[str, Any]:
        """
        Fetch, and have the new state count.

        @return: it; nothing if L{is_known}.
        @raises GitError: it failed, and the old one counts.
        @raises OSError: the disk has refused.
        """
        quarantine = ""
        # Whoever is asked may say nothing for minutes: the lock is for what is done here
        self._until = time.monotonic() + self._seconds
        if self._nothing_is_new():
            self.is_known = True
            return {}
        try:
            with locked(self._folder):
                self.state = self._state()
                self.locks = sweep(self._folder, str(self.state.get("repo", "")), self._keeps())
                if self._request.get("verify") and not self._request.get("copy"):
                    self._begin_judging()
                    self._until = time.monotonic() + self._seconds
                fresh = self._request.get("fresh")
                repo = "" if fresh else str(self.state.get("repo", ""))
            if repo and self._has_all(repo):
                return self.state
            with locked(self._folder):
                self._is_still(repo)
                quarantine = self._borrow(repo)
            refs = self._ask(quarantine)
            with locked(self._folder):
                now = self._is_still(repo)
                # Two that begin at once do not make two
                is_fresh = bool(fresh) or "repo" not in now
                self.state = now = {**now, **self._less}
                return self._take(quarantine, refs, now, is_fresh)
        finally:
            if quarantine:
                self._leave(quarantine)
            if self._judge is not None:
                self._judge.close()

    def _state(self) -> dict[str, Any]:
        """What is known, unless its repository is gone."""
        state = state_of(self._folder)
        if state and not os.path.isdir(os.path.join(self._folder, state["repo"], "objects")):
            return {}
        return state

    def _is_still(self, repo: str) -> dict[str, Any]:
        """What is known now; it has to be of the same repository."""
        now = self._state()
        if repo and now.get("repo") != repo:
            raise GitError("the repository was recreated in the meantime")
        return now

    def _keeps(self) -> str:
        """What is not swept away though nobody holds it."""
        return ""

    @property
    def _holds(self) -> bool:
        """Whether what comes does not count yet."""
        return bool(self._request.get("hold"))

    def _begin_judging(self) -> None:
        """Who may sign may have changed: what was served before has to be good, too."""
        from saltwisted.worker.git.signatures import Judge

        request, state = self._request, self.state
        place = os.path.join(self._folder, QUARANTINE + os.urandom(8).hex())
        self._judge = Judge(request["verify"], request["signers"], place, self._seconds)
        if state and state.get("verify") != self._judge.policy and not request.get("fresh"):
            repo = os.path.join(self._folder, state["repo"])
            named = {tip[0] for tip in state["refs"].values() if tip[1]}
            if lost := named - self._commits(repo, sorted(named)).keys():
                raise GitError(f"bad object {min(lost)}")
            less = self._judge.judged(repo, state["refs"], {}, {})
            self.is_less = less["refs"] != state["refs"]
            self._less = {**less, "seen": {}}
            self.state = {**state, **self._less}
            if not self._holds:
                self.state = self._settle(self.state)

    def _fresh(self) -> str:
        name = f"repo.{os.urandom(4).hex()}"
        skeleton(os.path.join(self._folder, name))
        return name

    def _take(
        self, quarantine: str, refs: dict[str, str], before: dict[str, Any], is_fresh: bool
    ) -> dict[str, Any]:
        """Put into the repository what has come, and have it count, or be kept for later."""
        packs = _packs(quarantine)
        state = before
        if is_fresh:
            state = {"repo": self._fresh(), "refs": {}, "large": {}}
        pins = self._pins()
        aside = self._request.get("aside") or {}
        if not packs and self._is_same(refs, state):
            return state
        large = {**state["large"], **self._large(quarantine, packs)}
        if self._request.get("copy"):
            new = {**before, "repo": state["repo"], "large": large}
        else:
            tips = self._tips(quarantine, refs, state["refs"])
            new = {"repo": state["repo"], "refs": tips, "large": large}
        if self._judge is not None:
            new |= self._judged(quarantine, tips, pins) | {"seen": refs, "pins": pins}
        new |= aside
        old = before.get("refs", {})
        if self._holds and is_fresh:
            old = self._tips(quarantine, self._known(quarantine, old), {})
        repo = os.path.join(self._folder, state["repo"])
        self._adopt(quarantine, repo, packs)
        if not self._holds:
            point(repo, named(new, refs))
            return self._settle(new)
        # The packs are there now: what is large in them has to be known when they are used
        kept = {**before, "repo": state["repo"], "refs": old, "large": large}
        kept["at"] = before.get("at", 0.0)
        point(repo, named(kept, {ref: tip[0] for ref, tip in old.items()}))
        replace(os.path.join(self._folder, STATE), msgpack.packb(kept))
        return {**new, "served": old}

    def _pins(self) -> list[str]:
        return sorted(self._request.get("pins") or ()) if self._judge else []

    def _is_same(self, refs: Mapping[str, str], state: Mapping[str, Any]) -> bool:
        """Whether all that would count after a fetch counts already."""
        aside = self._request.get("aside") or {}
        same = refs == _seen(state) and self._pins() == state.get("pins", [])
        same = same and all(state.get(name) == value for name, value in aside.items())
        return same and "at" in state

    def _known(self, quarantine: str, refs: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Those of some refs whose objects have come."""
        wanted = sorted({tip[0] for tip in refs.values()})
        lacking = set(missing(quarantine, wanted, self._seconds))
        return {ref: tip[0] for ref, tip in refs.items() if tip[0] not in lacking}

    def _judged(
        self, quarantine: str, tips: Mapping[str, list[str]], pins: Sequence[str]
    ) -> dict[str, Any]:
        """Which of the refs count, by who has signed them."""
        assert self._judge is not None
        before = dict(self.state)
        old = [tip[0] for tip in before.get("refs", {}).values()]
        there = self._commits(quarantine, [*old, *pins])
        before["refs"] = {
            ref: tip for ref, tip in before.get("refs", {}).items() if there.get(tip[0])
        }
        named = {pin: there[pin] for pin in pins if there.get(pin)}
        return self._judge.judged(quarantine, tips, before, named)

    def _commits(self, repo: str, names: Sequence[str]) -> dict[str, str]:
        """Name of an object to the commit that it leads to; those that are not there are not."""
        if not names:
            return {}
        asked = "".join(f"{name}^{{commit}}\n" for name in names).encode()
        args = ["--git-dir", repo, "cat-file", "--batch-check=%(objectname)"]
        told = program.run(
            args, program.environment({}), seconds=self._seconds, stdin=asked
        ).decode()
        rows = zip(names, told.splitlines(), strict=True)
        return {name: row for name, row in rows if " " not in row}

    def _settle(self, state: dict[str, Any]) -> dict[str, Any]:
        state = {name: state[name] for name in ("repo", "refs", "large", *ASIDE) if name in state}
        state["at"] = float(self._request["now"])
        if self._request.get("version"):
            state["version"] = list(self._request["version"])
        replace(os.path.join(self._folder, STATE), msgpack.packb(state))
        self.state = state
        return state

    def _borrow(self, name: str) -> str:
        """An empty repository that knows the refs and has the objects of another, if there is."""
        quarantine = os.path.join(self._folder, QUARANTINE + os.urandom(8).hex())
        os.mkdir(quarantine, 0o700)
        # Held for as long as this process lives: others know by it that it is not left over
        self._held = open(os.path.join(quarantine, LOCK), "w")  # noqa: SIM115 - _leave lets it go
        fcntl.flock(self._held, fcntl.LOCK_EX)
        skeleton(quarantine)
        if name:
            repo = os.path.join(self._folder, name)
            with open(os.path.join(quarantine, "objects/info/alternates"), "w") as file:
                file.write(os.path.join(os.path.abspath(repo), "objects") + "\n")
            with suppress(FileNotFoundError):
                with open(os.path.join(repo, "packed-refs"), "rb") as had:
                    refs = had.read()
                with open(os.path.join(quarantine, "packed-refs"), "wb") as copy:
                    copy.write(refs)
        return quarantine

    def _leave(self, quarantine: str) -> None:
        remove(quarantine)
        self._held.close()

    def _nothing_is_new(self) -> bool:
        """
        Whether a remote says what it said before, and nobody has written here since. How many refs
        it has is no matter.
        """
        request = self._request
        mark, repo = request.get("mark"), str(request.get("repo") or "")
        if not mark or not repo or any(request.get(name) for name in ("fresh", "copy", "verify")):
            return False
        self._listen(repo)
        if news.mark_of(request, self._said, news.on_disk(self._folder, STATE, repo)) != mark:
            return False
        self.mark = mark
        return True

    def _listen(self, repo: str) -> bytes | None:
        """What the remote says of its refs."""
        if self._said is None:
            request, environ = self._reach()
            path = os.path.join(self._folder, repo)
            left = math.ceil(self._until - time.monotonic())
            try:
                self._said = news.heard(path, request, environ, left)
            except GitError as error:
                raise GitError(explain(error.text, request)) from None
        return self._said

    def _has_all(self, repo: str) -> bool:
        """Whether all that the remote has counts already. Nothing is made to find that out."""
        if self._request.get("copy"):
            return False
        said = self._listen(repo)
        told = None if said is None else news.after_fetch(said, self._request["refspecs"])
        path, had = os.path.join(self._folder, repo), _seen(self.state)
        disk = news.on_disk(self._folder, STATE, repo)
        if told != had or not news.is_whole(path, had.values()):
            return False
        with locked(self._folder):
            self.state = {**self._is_still(repo), **self._less}
            same = self._is_same(had, self.state)
            if same and disk == news.on_disk(self._folder, STATE, repo):
                self.mark = news.mark_of(self._request, said, disk)
            return same

    def _reach(self) -> tuple[dict[str, Any], dict[str, str]]:
        """How the remote is reached, and the environment of a git that reaches it."""
        request = program.apart(self._request)
        if not (request.get("password") or request.get("passphrase")):
            return request, program.environment(request)
        # The same for all times, and nothing in it is secret: who holds no lock may make it, too
        ask = os.path.join(self._folder, ASK)
        with suppress(OSError), open(ask, encoding="ascii") as file:
            if file.read() == program.ASK:
                return request, program.environment(request, ask)
        replace(ask, program.ASK.encode(), 0o700)
        return request, program.environment(request, ask)

    def _ask(self, quarantine: str) -> dict[str, str]:
        """Have git fetch; the refs that there are then."""
        request, environ = self._reach()
        args = ["--git-dir", quarantine, "fetch", "--quiet", "--prune", "--no-tags", "--force"]
        args += ["--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options"]
        args += [request["url"], *request["refspecs"]]
        most, left = int(request.get("most") or 0), math.ceil(self._until - time.monotonic())
        try:
            program.run(args, environ, seconds=left, most=most)
        except GitError as error:
            if most and _reached(quarantine, most):
                raise GitError(f"the remote sent more than {most >> 20} MiB in one fetch") from None
            raise GitError(explain(error.text, request)) from None
        found = packed_refs(quarantine)
        # A name that is no UTF-8 can be no environment, and must not keep the others away
        refs = {
            ref: oid for ref, oid in found.items() if not ref.startswith(KEPT_REFS) and is_text(ref)
        }
        bound(refs)
        return refs

    def _large(self, quarantine: str, packs: Sequence[str]) -> dict[str, int]:
        """What is in new packs and not to be read at once (L{unpacking.large})."""
        if not packs:
            return {}
        from saltwisted.worker.git import unpacking

        # The same packs without those of the repository: what was there before may be elsewhere
        alone = os.path.join(quarantine, "alone")
        skeleton(alone)
        os.rmdir(os.path.join(alone, "objects/pack"))
        os.symlink("../../objects/pack", os.path.join(alone, "objects/pack"))
        found: dict[str, int] = {}
        for pack in packs:
            with open(os.path.join(quarantine, "objects/pack", pack + ".idx"), "rb") as file:
                found |= unpacking.large(alone, file.read(), self._seconds)
        return found

    def _tips(self, quarantine: str, refs: Mapping[str, str], before: Mapping[str, Any]) -> Refs:
        """What each ref leads to; asked of git for what is new."""
        known = {tip[0]: tip for tip in before.values()}
        asked = sorted({oid for oid in refs.values() if oid not in known})
        if asked:
            lines = "".join(f"{oid}^{{commit}}\n{oid}^{{tree}}\n" for oid in asked)
            form = "--batch-check=%(objectname) %(objecttype)"
            args = ["--git-dir", quarantine, "cat-file", form]
            environ = program.environment({})
            told = program.run(args, environ, seconds=self._seconds, stdin=lines.encode())
            rows = [line.split() for line in told.decode().splitlines()]
            for number, oid in enumerate(asked):
                pair = [
                    row[0] if len(row) == 2 and row[1] == kind else ""
                    for row, kind in zip(
                        rows[2 * number : 2 * number + 2], ("commit", "tree"), strict=True
                    )
                ]
                # A tag of a tree, or of a blob, is no environment
                known[oid] = [oid, *(pair if all(pair) else ("", ""))]
        return {ref: known[oid] for ref, oid in sorted(refs.items())}

    def _adopt(self, quarantine: str, repo: str, packs: Sequence[str]) -> None:
        """Put what has come into the repository. Each step leaves one that is whole."""
        source, target = (os.path.join(path, "objects/pack") for path in (quarantine, repo))
        for pack in packs:
            names = [name for name in os.listdir(source) if name.partition(".")[0] == pack]
            # An index without its pack is a fault, a pack without its index nothing
            for name in sorted(names, key=lambda name: name.endswith(".idx")):
                if name.endswith((".pack", ".idx", ".rev")):
                    fd = os.open(os.path.join(source, name), os.O_RDONLY | os.O_CLOEXEC)
                    try:
                        os.fsync(fd)
                    finally:
                        os.close(fd)
                    os.rename(os.path.join(source, name), os.path.join(target, name))
        sync(target)


def bound(refs: Mapping[str, str]) -> None:
    """
    Refs become environments, and are kept and told by their names.

    @raises GitError: there are too many, or their names are too long together.
    """
    if len(refs) > MOST_REFS:
        raise GitError(f"the remote has {len(refs)} refs; at most {MOST_REFS} are accepted")
    if sum(map(len, refs)) > MOST_REF_TEXT:
        raise GitError(f"the names of the remote's refs have more than {MOST_REF_TEXT >> 20} MiB")


def _reached(quarantine: str, most: int) -> bool:
    """Whether a file has become as large as one may be."""
    folder = os.path.join(quarantine, "objects/pack")
    return any(os.path.getsize(os.path.join(folder, each)) >= most for each in os.listdir(folder))


def _packs(quarantine: str) -> list[str]:
    names = os.listdir(os.path.join(quarantine, "objects/pack"))
    return sorted(name[:-5] for name in names if name.endswith(".pack"))


def point(repo: str, refs: Mapping[str, str]) -> None:
    """From now on these are the refs of a repository."""
    lines = [f"{oid} {ref}\n" for ref, oid in sorted(refs.items())]
    text = "# pack-refs with: sorted \n" + "".join(lines)
    replace(os.path.join(repo, "packed-refs"), text.encode(errors="surrogateescape"))


def _seen(state: Mapping[str, Any]) -> dict[str, str]:
    """The refs that the remote had when it was fetched."""
    seen: dict[str, str] = state.get("seen", {ref: tip[0] for ref, tip in state["refs"].items()})
    return seen


def named(state: Mapping[str, Any], refs: Mapping[str, str]) -> dict[str, str]:
    """
    The refs that a repository has on disk: what is served and was not sent is kept as well.

    @param refs: what the remote has.
    """
    tips = [*(state["refs"] if "seen" in state else {}).values()]
    tips += (state.get("back") or {}).values()
    return {**{f"{KEPT_REFS}{tip[0]}": tip[0] for tip in tips}, **refs}


def keep(folder: str, oids: Iterable[str], seconds: float) -> None:
    """
    Give names to objects that no ref leads to any more, and that shall be in the next repository:
    jobs run on them, or may.
    """
    with locked(folder):
        repo = os.path.join(folder, str(state_of(folder)["repo"]))
        wanted = sorted(set(oids))
        gone = set(missing(repo, wanted, seconds))
        kept = {f"{KEPT_REFS}{oid}": oid for oid in wanted if oid not in gone}
        if kept:
            point(repo, {**packed_refs(repo), **kept})


def missing(repo: str, oids: Sequence[str], seconds: float) -> list[str]:
    """Those of some objects that a repository has not."""
    if not oids:
        return []
    args = ["--git-dir", repo, "cat-file", "--batch-check=%(objectname)"]
    names = "".join(f"{oid}\n" for oid in oids).encode()
    told = program.run(args, program.environment({}), seconds=seconds, stdin=names)
    lines = told.decode().splitlines()
    return [oid for oid, line in zip(oids, lines, strict=True) if line.endswith(" missing")]


def explain(text: str, reach: Mapping[str, Any]) -> str:
    """What git said, and what an administrator may do about it."""
    line = program.said(text, reach)
    if "HOST IDENTIFICATION HAS CHANGED" in line:
        name, port = _host_of(reach)
        known = f"[{name}]:{port}" if port else name
        return (
            f"the host's key is not the one in known_hosts: somebody may intercept the connection."
            f" {advice.of('git.key-changed', host=known)}"
        )
    if "ost key verification failed" in line or "No matching host key" in line:
        name, port = _host_of(reach)
        host = ["-p", port, name] if port else [name]
        known = f"{_home()}/.ssh/known_hosts"
        return f"{line}; {advice.of('git.key-unknown', host=host, known=known)}"
    if "dubious ownership" in line:
        return f"{line}; the repository belongs to another user"
    return line


def _host_of(reach: Mapping[str, Any]) -> tuple[str, str]:
    """The host of a remote, and its port if one is said."""
    host = program.host_of(str(reach["url"])) or str(reach["url"]).partition(":")[0]
    name, _, port = host.rpartition("@")[2].partition(":")
    return name, port


def _home() -> str:
    """Where ssh looks for its files, whatever C{HOME} is."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "~"


def spool(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    Lay a large file out whole, under the name of its object, where it can be read in pieces.

    @param request: C{folder}, C{repo}, C{id}, C{size}, C{hash_type}, C{seconds} and C{keep} (bytes
        that all such files may have together).
    @return: C{path} and C{hash}.
    @raises GitError: there is no such object, or it is damaged.
    """
    import hashlib

    folder = os.path.join(str(request["folder"]), FILES)
    oid, size = str(request["id"]), int(request["size"])
    if size > MOST_FILE:
        raise GitError(f"a file of {size >> 20} MiB is not served: {MOST_FILE >> 20} MiB at most")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, oid)
    named = hashlib.new("sha1" if len(oid) == 40 else "sha256", usedforsecurity=False)
    named.update(b"blob %d\0" % size)
    digest = hashlib.new(str(request["hash_type"]), usedforsecurity=False)
    _make_room(folder, max(int(request["keep"]) - size, 0))
    temporary = f"{path}.{os.urandom(8).hex()}"
    args = ["--git-dir", str(request["repo"]), "cat-file", "blob", oid]
    try:
        with open(temporary, "xb") as file:

            def sink(data: bytes) -> None:
                file.write(data)
                named.update(data)
                digest.update(data)

            environ = program.environment({})
            program.run(args, environ, seconds=float(request["seconds"]), sink=sink)
        if named.hexdigest() != oid:
            raise Damaged(f"object {oid} is damaged")
        os.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return {"path": path, "hash": digest.hexdigest()}


def _make_room(folder: str, keep: int) -> None:
    """Remove the files that were laid out first until the others have so many bytes at most."""
    rows = []
    for name in os.listdir(folder):
        with suppress(OSError):
            info = os.stat(os.path.join(folder, name))
            rows.append((info.st_mtime, info.st_size, name))
    rows.sort(reverse=True)
    total = 0
    for _, size, name in rows:
        total += size
        if total > keep:
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))
