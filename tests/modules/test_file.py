"""
C{file.*} beyond stock's recorded answers: whole files, private files, no leftovers.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.modules import _edit, _files, _find, _sums
from saltwisted.worker.exceptions import CommandExecutionError, SaltRenderError
from tests.modules.harness import load

CANARY = "canary-4711"


def file_module(folder: str, **salt: Any) -> Any:
    """The module with an empty configuration, and files of this machine as sources."""
    functions = {
        "config.get": lambda name, default="": {"cachedir": folder}.get(name, default),
        "config.option": lambda name, default="": "",
        "config.backup_mode": lambda mode="": mode,
        "cp.cache_file": lambda path, *args, **kwargs: path if os.path.exists(path) else False,
        "cp.is_cached": lambda *args: "",
        **salt,
    }
    opts = {
        "test": False,
        "cachedir": folder,
        "hash_type": "sha256",
        "file_roots": {},
        "saltenv": "base",
    }
    return load("file", salt=functions, opts=opts)


class Base(SynchronousTestCase):
    """A directory for one test."""

    def setUp(self) -> None:
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.addCleanup(os.umask, os.umask(0o022))
        self.module = file_module(os.path.join(self.folder, "cache"))

    def path(self, name: str, content: str | None = None, mode: int = 0o644) -> str:
        full = os.path.join(self.folder, name)
        if content is not None:
            with open(full, "w", encoding="utf-8") as file:
                file.write(content)
            os.chmod(full, mode)
        return full

    def manage(self, name: str, contents: Any = None, **words: Any) -> dict[str, Any]:
        given = {"user": None, "group": None, "mode": None, "backup": "", **words}
        answer: dict[str, Any] = self.module.manage_file(
            self.path(name),
            "",
            {},
            given.pop("source", None),
            given.pop("source_sum", {}),
            given.pop("user"),
            given.pop("group"),
            given.pop("mode"),
            None,
            "base",
            given.pop("backup"),
            contents=contents,
            **given,
        )
        return answer


class Wholeness(Base):
    """A reader sees the old content or the new one, with the right permissions."""

    def test_oldContentStays(self) -> None:
        """An open file keeps its old content when another takes its place."""
        path = self.path("f", "old\n")

        with open(path, encoding="utf-8") as reader:
            self.manage("f", "new\n")
            self.assertEqual(reader.read(), "old\n")

        with open(path, encoding="utf-8") as reader:
            self.assertEqual(reader.read(), "new\n")

    def test_privateFromTheStart(self) -> None:
        """A file that is to be private never has another mode on its way."""
        modes: list[int] = []
        rename, move = os.rename, shutil.move

        def watched(source: str, target: str) -> None:
            modes.append(os.stat(source).st_mode & 0o777)
            move(source, target)

        self.patch(shutil, "move", watched)
        self.manage("f", "secret\n", mode="0600")

        self.assertEqual(modes, [0o600])
        self.assertEqual(os.stat(self.path("f")).st_mode & 0o777, 0o600)
        self.assertIs(os.rename, rename)

    def test_ownMode(self) -> None:
        """A managed file keeps its mode when none is asked for, a new one has the umask's."""
        self.path("f", "old\n", 0o640)
        os.umask(0o027)

        self.manage("f", "new\n")
        self.manage("g", "new\n")

        self.assertEqual(os.stat(self.path("f")).st_mode & 0o777, 0o640)
        self.assertEqual(os.stat(self.path("g")).st_mode & 0o777, 0o640)

    def test_failedWrite(self) -> None:
        """A full disk leaves the old file and no temporary one."""
        path = self.path("f", "old\n")

        def full(*args: Any) -> None:
            raise OSError(28, "No space left on device")

        self.patch(shutil, "copyfileobj", full)
        answer = self.manage("f", "new\n")

        self.assertEqual(answer["result"], False)
        self.assertIn("Failed to commit change", answer["comment"])
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "old\n")
        self.assertEqual(os.listdir(self.folder), ["f"])

    def test_editing(self) -> None:
        """Lines, blocks and comments are changed in one step; C{replace} keeps the inode."""
        path = self.path("f", "a\nb\n", 0o640)
        inode = os.stat(path).st_ino

        self.module.replace(path, "a", "A", backup=False)
        self.assertEqual(os.stat(path).st_ino, inode)
        self.module.line(path, "c", mode="insert", after="b")
        self.assertNotEqual(os.stat(path).st_ino, inode)

        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "A\nb\nc\n")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o640)

    def test_shorter(self) -> None:
        """A file that becomes shorter in place has no rest of the old content."""
        path = self.path("f", "long long long\n")

        self.module.replace(path, "long ", "", backup=False)

        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "long\n")

    def test_throughLink(self) -> None:
        """An edited link stays a link, and what it points to is changed."""
        path = self.path("f", "a\n")
        os.symlink("f", self.path("l"))

        self.module.comment_line(self.path("l"), "a", backup=False)

        self.assertTrue(os.path.islink(self.path("l")))
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "#a\n")


class Leftovers(Base):
    """T-TMP-1: nothing predictable in shared directories, and nothing left there."""

    def test_tTmp1(self) -> None:
        """Every file made in a shared directory is made exclusively under a random name."""
        shared = self.path("shared")
        os.mkdir(shared)
        self.patch(tempfile, "tempdir", shared)
        opened: list[tuple[str, int]] = []
        real = os.open

        def watched(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            if isinstance(path, str) and path.startswith(shared) and flags & os.O_CREAT:
                opened.append((os.path.basename(path), flags))
            return real(path, flags, *args, **kwargs)

        self.patch(os, "open", watched)
        module = self.module
        source = self.path("source", "x {{ v }}\n")
        self.manage("f", "one\n", new_file_diff=True)
        self.manage("f", "two\n")
        module.check_managed_changes(
            *(self.path("f"), None, "", None, None, None, None, None, None, None, None, "base"),
            contents="three\n",
        )
        path, _, problem = module.get_managed(
            *(self.path("t"), "jinja", source, "", None, None, None, None, None, "base"),
            *({"v": 1}, None),
        )

        self.assertEqual(problem, "")
        self.assertTrue(path.startswith(shared))
        module._clean_tmp(path)
        self.assertEqual(os.listdir(shared), [])
        self.assertGreater(len(opened), 3)
        for name, flags in opened:
            self.assertTrue(flags & os.O_EXCL, name)
            self.assertRegex(name, r"^__salt\.tmp\.\w{8}$")

    def test_planted(self) -> None:
        """A link that somebody planted under a backup's name is replaced, not followed."""
        victim = self.path("victim", "mine\n")
        path = self.path("f", "#-- start managed zone --\n#-- end managed zone --\n")
        os.symlink(victim, path + ".bak")

        self.module.blockreplace(path, content="x\n")

        with open(victim, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine\n")
        self.assertFalse(os.path.islink(path + ".bak"))

    def test_backups(self) -> None:
        """The backup of a private file is private too, in private directories."""
        os.umask(0)
        self.path("f", "old\n", 0o600)

        self.manage("f", "new\n", backup="minion")

        (backup,) = self.module.list_backups(self.path("f")).values()
        self.assertEqual(os.stat(backup["Location"]).st_mode & 0o777, 0o600)
        root = os.path.join(self.folder, "cache", "file_backup")
        modes = {os.stat(place).st_mode & 0o777 for place, _, _ in os.walk(root)}
        self.assertEqual(modes, {0o700})

    def test_secretsInErrors(self) -> None:
        """User and password of an address are not in what the caller reads."""
        _, _, problem = self.module.get_managed(
            *("/x", None, f"http://user:{CANARY}@127.0.0.1:9/x", "", None, None, None, None),
            *(None, "base", None, None),
        )

        self.assertIn("<redacted>", problem)
        self.assertNotIn(CANARY, problem)


class Templates(Base):
    """What a managed file's template sees."""

    def render(self, text: str, **words: Any) -> str:
        """The output for a template, with its context."""
        source = self.path("source", text)
        path, _, problem = self.module.get_managed(
            *(self.path("t"), "jinja", source, "", None, "u", "g", "0640", None, "base"),
            *(words.get("context"), words.get("defaults")),
        )
        self.assertEqual(problem, "")
        self.addCleanup(_files.safe_remove, path)
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_variables(self) -> None:
        """Arguments of the state are variables, and its context goes over its defaults."""
        text = self.render(
            "{{ mode }} {{ user }} {{ v }} {{ w }}\n",
            context={"v": 1},
            defaults={"v": 2, "w": 3},
        )

        self.assertEqual(text, "0640 u 1 3\n")

    def test_errorNamesLine(self) -> None:
        """A template that fails says where."""
        with self.assertRaises(SaltRenderError) as caught:
            self.render("fine\n{{ nothing.here }}\n")

        self.assertIn("line 2", str(caught.exception))

    def test_binary(self) -> None:
        """A binary file among templates is taken as it is."""
        source = os.path.join(self.folder, "picture")
        with open(source, "wb") as file:
            file.write(b"\x89PNG\0\xff{{ x }}")

        path, _, problem = self.module.get_managed(
            *(self.path("t"), "jinja", source, "", None, None, None, None, None, "base"),
            *(None, None),
        )

        self.assertEqual((path, problem), (source, ""))


class Attributes(Base):
    """C{lsattr} and C{chattr} without their programs."""

    def test_flags(self) -> None:
        """An attribute that was added is listed, and removed again."""
        path = self.path("f", "x")
        if path not in self.module.lsattr(path):
            raise SkipTest("the file system has no attributes")

        self.assertTrue(self.module.chattr(path, operator="add", attributes="d"))
        self.assertIn("d", self.module.lsattr(path)[path])
        answer, _ = self.module.check_perms(path, {}, None, None, None, attrs="A")

        if answer["result"]:
            self.assertEqual(set(answer["changes"]["attrs"]["new"]), {"A"})
            self.assertNotIn("d", self.module.lsattr(path)[path])

    def test_unknown(self) -> None:
        """A letter that is not an attribute, or a file that is not there, is a false answer."""
        path = self.path("f", "x")

        self.assertFalse(self.module.chattr(path, operator="add", attributes="q"))
        self.assertFalse(self.module.chattr(self.path("none"), operator="add", attributes="i"))


class Rules(SynchronousTestCase):
    """The pure helpers."""

    def test_sizes(self) -> None:
        """Sizes of C{file.find} mean a range: a unit is as coarse as it is written."""
        self.assertEqual(_find.size_range("2k"), (2048, 3071))
        self.assertEqual(_find.size_range("-1m"), (0, 1 << 20))
        self.assertEqual(_find.size_range("1.5k"), (1536, 2559))
        self.assertRaises(ValueError, _find.size_range, "k")

    def test_intervals(self) -> None:
        """Intervals add up, and their smallest unit is how exact they are."""
        self.assertEqual(_find.interval("-1w2d"), (777600.0, 86400, "-"))
        self.assertEqual(_find.interval("1.5h"), (5400.0, 3600, ""))
        self.assertRaises(ValueError, _find.interval, "soon")

    def test_executes(self) -> None:
        """A path is one word of a command, whatever characters it has."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        name = os.path.join(folder, "a; touch planted")
        with open(name, "w", encoding="utf-8"):
            pass

        finder = _find.Finder({"exec": "ls {}", "type": "f"})
        answers = list(finder.find(folder))

        self.assertEqual(answers, [f"ls {name}:\n{name}\n\n"])
        self.assertEqual(os.listdir(folder), ["a; touch planted"])

    def test_latin(self) -> None:
        """A diff of bytes that are no UTF-8 is text that can be sent."""
        text = _edit.diff([b"gr\xfcn\n"], ["gr\udcfcn!\n"])

        self.assertIn("-grün\n+grün!\n", text)
        text.encode("utf-8")

    def test_block(self) -> None:
        """A block keeps its markers' lines and the file's line ends."""
        lines = ["a\r\n", "S\r\n", "old\r\n", "E tail\r\n", "z\r\n"]

        self.assertEqual(
            _edit.replace_block(lines, "S", "E", "one\ntwo\n"),
            ["a\r\n", "S\r\n", "one\r\n", "two\r\n", "E tail\r\n", "z\r\n"],
        )
        self.assertRaises(
            CommandExecutionError, _edit.replace_block, ["S\n", "old\n"], "S", "E", "x"
        )

    def test_lenient(self) -> None:
        """Order, white space and comments can be left out of a comparison."""
        old, new = ["b\n", "a # x\n"], ["a\n", "  b\n"]

        self.assertTrue(_edit.conditional_diff(old, new, ignore_ordering=True)[0])
        serious, text = _edit.conditional_diff(
            old, new, ignore_whitespace=True, ignore_comment_characters="#"
        )
        self.assertFalse(serious)
        self.assertIn("+  b", text)

    def test_sums(self) -> None:
        """Of several hashes the one that names the file wins over the first."""
        lines = ["a" * 32 + "  other\n", "b" * 32 + " *./wanted\n", "c" * 40 + "  wanted\n"]

        self.assertEqual(
            _sums.extract(lines, "", "/x/wanted"), {"hsum": "b" * 32, "hash_type": "md5"}
        )
        self.assertEqual(
            _sums.extract(lines, "sha1", "/x/wanted"), {"hsum": "c" * 40, "hash_type": "sha1"}
        )
        self.assertIsNone(_sums.extract(["nothing\n"]))
