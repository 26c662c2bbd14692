"""
The sources of files keep their contract: directories, generations, both in one, and the fake.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.roots.entry import DIR, FILE, LINK, TreeEntry, lanes
from saltwisted.domain.roots.index import Index
from saltwisted.domain.roots.manifest import Generation
from saltwisted.domain.who import local
from saltwisted.errors import ConfigError, StoreError
from saltwisted.kinds import FILES
from saltwisted.master.chunks import Chunks
from saltwisted.master.fileserver import FileServer
from saltwisted.parts import IFileSource
from saltwisted.stores.roots.generations import GenerationRoots, Source
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.tree import Listing
from saltwisted.stores.sources.table import FILE_SOURCES
from saltwisted.testing.files import MemoryFiles
from tests.contracts.files import LARGE, TREES, FileSourceContract, Tree
from tests.master.rig import Rig
from tests.stores.support import FolderTestCase


def write(top: Path, tree: Tree) -> None:
    """A tree as directories."""
    for path in tree.empty:
        (top / path).mkdir(parents=True)
    for path, content in tree.files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(content)
    for path, target in tree.links.items():
        (top / path).symlink_to(target)


def memory(**more: Any) -> MemoryFiles:
    """The trees as a fake."""
    return MemoryFiles(
        {env: tree.files for env, tree in TREES.items()},
        {env: tree.links for env, tree in TREES.items()},
        {env: tree.empty for env, tree in TREES.items()},
        **more,
    )


class FakeTests(FileSourceContract, SynchronousTestCase):
    """The one for tests."""

    hash_type = "md5"

    def source(self) -> IFileSource:
        """A fake."""
        return memory(hash_type="md5")

    def test_written(self) -> None:
        """What a test writes is there."""
        source = memory()
        source.write("base", "new", b"x")
        self.assertEqual(self.content(source, "new"), b"x")


class TreesTestCase(FolderTestCase):
    """The trees on a disk."""

    hash_type = "sha256"

    def setUp(self) -> None:
        """Write them."""
        super().setUp()
        for env, tree in TREES.items():
            write(Path(self.folder) / env, tree)
        (Path(self.folder) / "pki").mkdir()

    def config(self, **more: Any) -> MasterConfig:
        """A master's."""
        roots = {env: [f"{self.folder}/{env}"] for env in TREES}
        return MasterConfig(
            **{
                "file_roots": roots,
                "hash_type": self.hash_type,
                "pki_dir": f"{self.folder}/pki",
                **more,
            }
        )


class DirectoryTests(FileSourceContract, TreesTestCase):
    """C{roots} as a lone master makes it."""

    def source(self) -> IFileSource:
        """The real one."""
        source = FILE_SOURCES.take("roots")(self.config(), maybeDeferred)
        source.startService()
        self.addCleanup(source.stopService)
        return source


class Pool:
    """A pool that works when somebody waits, in the order in which it was asked."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Deferred[Any], Callable[[], Any]]] = []
        self.done = 0

    def run(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Later."""
        d: Deferred[Any] = Deferred()
        self._waiting.append((d, lambda: function(*args)))
        return d

    def work(self) -> None:
        """Now."""
        while self._waiting:
            d, call = self._waiting.pop(0)
            self.done += 1
            maybeDeferred(call).chainDeferred(d)


class LaterTests(FileSourceContract, TreesTestCase):
    """C{roots} whose pool has much to do: what is asked meanwhile waits, and is asked once."""

    def setUp(self) -> None:
        """An idle pool."""
        super().setUp()
        self.pool = Pool()

    def source(self) -> IFileSource:
        """The real one."""
        return FILE_SOURCES.take("roots")(self.config(), self.pool.run)

    def value(self, answer: Any) -> Any:
        """Have the pool work, if it is asked."""
        if isinstance(answer, Deferred):
            self.pool.work()
            return self.successResultOf(answer)
        return answer

    def test_once(self) -> None:
        """Ten who ask for one hash or one list at once cost one look."""
        source = self.source()
        found = source.find("base", "web/files/large")
        for ask in (lambda: source.hash(found), lambda: source.listing("base")):
            before, answers = self.pool.done, [ask() for _ in range(10)]
            values = [self.value(answer) for answer in answers]
            self.assertEqual(self.pool.done - before, 1)
            self.assertTrue(all(value == values[0] for value in values))


class SeveralDirectoriesTests(FileSourceContract, TreesTestCase):
    """C{roots} with more than one directory for an environment."""

    def source(self) -> IFileSource:
        """The real one, with an empty directory before and another file behind."""
        (Path(self.folder) / "before").mkdir()
        (Path(self.folder) / "behind").mkdir()
        (Path(self.folder) / "behind/top.sls").write_text("behind")
        config = self.config()
        roots = dict(config.file_roots)
        roots["base"] = [f"{self.folder}/before", *roots["base"], f"{self.folder}/behind"]
        return FILE_SOURCES.take("roots")(self.config(file_roots=roots), maybeDeferred)


class GenerationTests(FileSourceContract, TreesTestCase):
    """C{roots} as a node of a cluster serves them, from what was committed."""

    hash_type = "md5"
    replicated: tuple[str, ...] = ("base", "dev")

    def source(self) -> IFileSource:
        """The real one; the directories that are replicated are not looked at."""
        folder = tempfile.mkdtemp(prefix="swt-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, True)
        store = ContentStore(folder, {})
        self.addCleanup(store.close)
        sources: dict[str, Source] = {}
        for env in self.replicated:
            root = f"{self.folder}/{env}"
            shutil.rmtree(root, ignore_errors=True)
            served = (_generation(TREES[env], store), store)
            sources[root] = lambda served=served: served  # type: ignore[misc]
        config = self.config()
        return GenerationRoots(config.file_roots, maybeDeferred, config, sources)


class MixedTests(GenerationTests):
    """C{roots} of which one environment is replicated, and the other one is not."""

    hash_type = "sha512"
    replicated = ("base",)


def _generation(tree: Tree, store: ContentStore) -> Generation:
    entries: dict[bytes, TreeEntry] = {}
    for path in [*tree.files, *tree.links, *[f"{path}/." for path in tree.empty]]:
        for above in list(Path(path).parents)[:-1]:
            entries[os.fsencode(above)] = TreeEntry(DIR, 0o755)
    for path in tree.empty:
        entries[os.fsencode(path)] = TreeEntry(DIR, 0o755)
    for path, content in tree.files.items():
        digest = hashlib.sha256(content).digest()
        store.put_known(digest, content)
        entries[os.fsencode(path)] = TreeEntry(FILE, 0o644, len(content), 5 * 10**9, digest)
    for path, target in tree.links.items():
        entries[os.fsencode(path)] = TreeEntry(LINK, 0, 0, 0, os.fsencode(target))
    index = Index(*lanes("m", b"12345678"))
    index.commit(entries, 1)
    return index.generation()


class ServerTests(SynchronousTestCase):
    """A file server over several sources."""

    def server(self, *sources: IFileSource) -> FileServer:
        """A file server."""
        return FileServer(sources, MasterConfig(file_buffer_size=1000), maybeDeferred)

    def test_pieces(self) -> None:
        """A minion that asks for piece after piece has the file, from whichever source."""
        other = MemoryFiles({"base": {"mine": LARGE[:5000]}}, name="other")
        server, place = self.server(memory(), other), Chunks().place()
        for path, content in (("mine", LARGE[:5000]), ("top.sls", b"base:\n")):
            data, more = b"", b"-"
            while more:
                reply = server.serve_file(path, "base", len(data), None, place)
                assert isinstance(reply, dict)
                more = reply["data"]
                data += more
            self.assertEqual(data, content)

    def test_first_counts(self) -> None:
        """The first source that has a file serves it; its name and its hash are told."""
        one = MemoryFiles({"base": {"a": b"1"}}, name="one")
        two = MemoryFiles({"base": {"a": b"2", "b": b"2"}, "dev": {"a": b"3"}}, name="two")
        server = self.server(one, two)

        self.assertEqual([server.file_find(path)["back"] for path in "ab"], ["one", "two"])
        self.assertEqual(server.file_find("a", "dev")["back"], "two")
        self.assertEqual(server.file_find("c", "base"), {"path": "", "rel": ""})
        for path, content in (("a", b"1"), ("b", b"2")):
            told = server.file_hash(path)
            assert isinstance(told, Mapping)
            self.assertEqual(told["hsum"], hashlib.sha256(content).hexdigest())

    def test_all_are_listed(self) -> None:
        """Lists and environments are those of all sources, or of those that are asked for."""
        one = MemoryFiles({"base": {"a": b"1", "x/y": b""}}, {"base": {"l": "a"}}, name="one")
        two = MemoryFiles({"base": {"a": b"2", "b": b"2"}, "dev": {"c": b"3"}}, name="two")
        server = self.server(one, two)

        self.assertEqual(server.envs(), ["base", "dev"])
        self.assertEqual(server.envs(["one"]), ["base"])
        self.assertEqual(server.list_now("files", "base", ""), ["a", "b", "l", "x/y"])
        self.assertEqual(server.list_now("files", "base", "", ["two"]), ["a", "b"])
        self.assertEqual(server.list_now("files", "base", "", []), [])
        self.assertEqual(server.list_now("dirs", "base", "/x/"), ["x"])
        self.assertEqual(server.links_now("base", ""), {"l": "a"})

    def test_one_is_slow(self) -> None:
        """A list comes when all sources have theirs; one that fails is the list's failure."""
        waiting: list[Deferred[Listing]] = []

        class Slow(MemoryFiles):
            """Lists later."""

            def listing(self, saltenv: str) -> Any:
                """When the test says."""
                waiting.append(Deferred())
                return waiting[-1]

        server = self.server(memory(), Slow({"base": {}}, name="slow"))
        good = server.list_now("files", "dev", "")
        bad = server.list_now("files", "dev", "")
        assert isinstance(good, Deferred) and isinstance(bad, Deferred)
        self.assertNoResult(good)

        waiting[0].callback(Listing(("z",)))
        waiting[1].errback(StoreError("the disk is away"))

        self.assertEqual(self.successResultOf(good), ["top.sls", "z"])
        self.failureResultOf(bad, StoreError)


class RunnerTests(SynchronousTestCase):
    """C{salt-run fileserver.*} over several sources."""

    def test_backends(self) -> None:
        """Each backend is asked by its name; what there is not is said."""
        rig = Rig(self)
        one = MemoryFiles({"base": {"a": b""}}, name="one")
        two = MemoryFiles({"dev": {"b": b""}}, name="two")
        server = FileServer([one, two], rig.config, maybeDeferred)
        object.__setattr__(rig.ctx.seams.pins, "newest", server)

        def ask(fun: str, **kwarg: Any) -> Any:
            call = rig.ctx.runner(f"fileserver.{fun}", [], kwarg, local("root"))
            return self.successResultOf(Deferred.fromCoroutine(call))["return"]

        self.assertEqual(ask("envs", sources=True), {"one": ["base"], "two": ["dev"]})
        self.assertEqual(ask("envs", backend="two"), ["dev"])
        self.assertEqual(ask("envs", backend="-two"), ["base"])
        self.assertEqual(ask("envs", backend=["git"]), [])
        self.assertEqual(ask("file_list", saltenv="dev", backend="one"), [])
        self.assertEqual(ask("file_list", saltenv="dev", backend="two,one"), ["b"])
        self.assertEqual(ask("clear_file_list_cache", saltenv="dev"), {"two": ["dev"]})


class RegistryTests(SynchronousTestCase):
    """The names that C{fileserver_backend} knows."""

    def test_unknown(self) -> None:
        """A name that is not there is an error with the right one."""
        with self.assertRaisesRegex(ConfigError, "unknown file server backend 'root': .*'roots'"):
            FILE_SOURCES.take("root")
        self.assertEqual(list(FILE_SOURCES), list(FILES.here))

    def test_chosen(self) -> None:
        """Of several those that are here serve; without any, the directories do."""
        self.assertEqual(FILES.chosen(["hgfs", "gitfs", "roots"]), ("gitfs", "roots"))
        self.assertEqual(FILES.chosen(["hgfs"]), ("roots",))
        self.assertEqual(FILES.chosen([]), ("roots",))
