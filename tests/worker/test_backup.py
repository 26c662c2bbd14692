"""
What is in a backup, and what a restore leaves alone; the daemons' part is in C{tests.care}.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.progress import Counter
from saltwisted.errors import StoreError, WrongPlace
from saltwisted.tools import backup as store
from saltwisted.tools.backup import MANIFEST, backup, restore
from saltwisted.worker.process.configio import load_from_disk
from tests.harness import scratch, write_config


class BackupTests(SynchronousTestCase):
    """A master's directories, without a master."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.roots = Path(self.home, "cache/saltwisted/roots")
        self.roots.mkdir(parents=True)
        self.keys = Path(self.home, "pki/minions")
        self.keys.mkdir(parents=True)
        Path(self.keys, "web1").write_text("key")
        Path(self.home, "pki/master.pem").write_text("pem")
        Path(self.roots, "pack").write_bytes(b"x" * 1000)
        values = {"id": "m", "pki_dir": f"{self.home}/pki", "cachedir": f"{self.home}/cache"}
        write_config(f"{self.home}/etc/master", values)
        self.config = load_from_disk("master", f"{self.home}/etc").master
        self.file = f"{self.home}/backup.tgz"

    def names(self) -> set[str]:
        """The base names in the backup, as any tar reads it."""
        with tarfile.open(self.file) as archive:
            return {os.path.basename(member.name) for member in archive}

    def test_roots(self) -> None:
        """The generations of roots are in it only when they are asked for."""
        backup(self.config, self.file)
        plain = self.names()
        backup(self.config, self.file, roots=True)

        self.assertEqual(plain, {"manifest.json", "master", "master.pem", "web1"})
        self.assertEqual(self.names(), {*plain, "pack"})

    def test_left_alone(self) -> None:
        """A restore takes away what came later, but not the roots that the backup left out."""
        backup(self.config, self.file)
        Path(self.keys, "web1").write_text("other")
        Path(self.keys, "late").write_text("late")

        restore(self.file, False)

        self.assertEqual(Path(self.keys, "web1").read_text(), "key")
        self.assertEqual(os.listdir(self.keys), ["web1"])
        self.assertTrue(Path(self.roots, "pack").exists())

    def test_directories(self) -> None:
        """
        Directories that are gone get their modes back, and those of a backup without them what an
        installation gives: all users of the machine read the configuration.
        """
        os.makedirs(f"{self.home}/etc/master.d")
        Path(self.home, "etc/master.d/more.conf").write_text("timeout: 7\n")
        modes = {"etc": 0o755, "etc/master.d": 0o750, "pki": 0o700, "pki/minions": 0o711}
        for name, mode in modes.items():
            os.chmod(f"{self.home}/{name}", mode)
        backup(self.config, self.file)
        for known in (True, False):
            for name in ("etc", "pki"):
                shutil.rmtree(f"{self.home}/{name}")
            if not known:
                self.patch(store, "directories", lambda folders, without="": {})
                modes |= {"etc/master.d": 0o755, "pki/minions": 0o700}
                restore(self.file, False)
                backup(self.config, self.file)
                for name in ("etc", "pki"):
                    shutil.rmtree(f"{self.home}/{name}")

            restore(self.file, False)

            found = {name: os.stat(f"{self.home}/{name}").st_mode & 0o777 for name in modes}
            self.assertEqual(found, modes, known)

    def test_no_master(self) -> None:
        """Where there is no master's key there is nothing to save: a wrong directory, no file."""
        os.unlink(f"{self.home}/pki/master.pem")

        error = self.assertRaises(WrongPlace, backup, self.config, self.file)

        self.assertIn(f"{self.home}/pki/master.pem does not exist", str(error))
        self.assertFalse(os.path.exists(self.file))

    def test_T_FS_1_modes(self) -> None:
        """
        T-FS-1: whatever the umask, a backup is its owner's alone, and so is all that it is made of
        on the way: the directory in which copies are, and the file that it is not yet.
        """
        self.addCleanup(os.umask, os.umask(0))
        Path(self.keys, "large").write_bytes(b"k" * 300_000)
        place = Path(self.file).parent
        before = set(os.listdir(place))
        found: set[tuple[bool, int]] = set()
        names: set[str] = set()

        def look() -> None:
            for name in {*os.listdir(place)} - before:
                info = os.lstat(place / name)
                found.add((stat.S_ISDIR(info.st_mode), stat.S_IMODE(info.st_mode)))
                names.add(name)
                if stat.S_ISDIR(info.st_mode):
                    for each in os.scandir(place / name):
                        if each.name == "body":
                            found.add((False, stat.S_IMODE(each.stat().st_mode)))

        copy = shutil.copyfileobj

        def copied(*given: Any) -> None:
            look()
            copy(*given)

        self.patch(shutil, "copyfileobj", copied)
        backup(self.config, self.file, say=lambda files, size: look())

        self.assertEqual(found, {(True, 0o700), (False, 0o600)})
        # Of a directory of copies, and of the file
        self.assertEqual(len(names), 2)
        self.assertNotIn(os.path.basename(self.file), names)
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        self.assertEqual({*os.listdir(place)} - before, {os.path.basename(self.file)})

    def test_T_TMP_1_links(self) -> None:
        """
        T-TMP-1: where a link was put under the name of a backup, it is replaced: what it led to is
        as it was, and a file that somebody holds open learns nothing.
        """
        victim = Path(self.home, "victim")
        victim.write_text("safe")
        for plant in (os.symlink, os.link):
            plant(victim, self.file)
            backup(self.config, self.file)
            info = os.lstat(self.file)
            self.assertTrue(stat.S_ISREG(info.st_mode))
            self.assertEqual((stat.S_IMODE(info.st_mode), info.st_nlink), (0o600, 1))
            os.unlink(self.file)
        self.assertEqual(victim.read_text(), "safe")

        with open(self.file, "w+", encoding="utf-8") as held:
            os.chmod(self.file, 0o666)
            backup(self.config, self.file)
            self.assertEqual(held.read(), "")
        self.assertIn("web1", self.names())

    def test_T_TMP_1_failed(self) -> None:
        """T-TMP-1: a backup that fails leaves the earlier one, and nothing beside it."""
        backup(self.config, self.file)
        before, there = Path(self.file).read_bytes(), {*os.listdir(self.home)}

        def full(*given: Any) -> None:
            raise OSError(28, "No space left on device")

        self.patch(shutil, "copyfileobj", full)
        self.assertRaises(StoreError, backup, self.config, self.file)

        self.assertEqual(Path(self.file).read_bytes(), before)
        self.assertEqual({*os.listdir(self.home)}, there)

    def test_never_still(self) -> None:
        """A file that changes at each try is an error with its path: no half of it is kept."""
        path = Path(self.keys, "large")
        path.write_bytes(b"x" * 300_000)
        copy = shutil.copyfileobj

        def copied(*given: Any) -> None:
            copy(*given)
            with path.open("ab") as file:
                file.write(b"more")

        self.patch(shutil, "copyfileobj", copied)
        error = self.assertRaises(StoreError, backup, self.config, self.file)

        self.assertIn("keeps changing", str(error))
        self.assertIn(str(path), str(error))
        self.assertFalse(os.path.exists(self.file))

    def test_many(self) -> None:
        """Files go in one by one and come back in one reading: a thousand need no second copy."""
        for number in range(1000):
            Path(self.keys, f"m{number}").write_bytes(os.urandom(300))
        heard: list[tuple[int, int]] = []
        before = {path.name: path.read_bytes() for path in self.keys.iterdir()}

        backup(self.config, self.file, say=lambda files, size: heard.append((files, size)))
        for path in self.keys.iterdir():
            path.unlink()
        restore(self.file, False)

        self.assertEqual([files for files, _ in heard], list(range(1, 1004)))
        after = {path.name: path.read_bytes() for path in self.keys.iterdir()}
        self.assertEqual(after, before)


class ForgedTests(SynchronousTestCase):
    """A restore looks at everything before it writes anything."""

    def setUp(self) -> None:
        """One directory that a backup may be of."""
        self.home = scratch(self)
        self.folder = f"{self.home}/cache"
        os.mkdir(self.folder)
        self.file = f"{self.home}/backup.tgz"
        self.kept = {f"{self.folder}/a": b"data"}

    def forge(self, manifest: Any = None, **more: Any) -> None:
        """
        A backup of some files.

        @param manifest: in place of the right one.
        @param more: C{files} that are in it, C{links}, and what C{listed} entries say otherwise.
        """
        files, links = more.get("files", self.kept), more.get("links", {})
        entries = [
            {"path": path, "kind": "file", "mode": 0o600, "uid": 0, "gid": 0, "size": len(data)}
            | {"digest": hashlib.sha256(data).hexdigest()}
            for path, data in files.items()
        ]
        entries = [{**entry, **more.get("listed", {})} for entry in entries]
        entries += more.get("also", [])
        head = {"format": 1, "saltwisted": "1", "folders": [self.folder], "entries": entries}
        text = json.dumps(head if manifest is None else manifest).encode()
        with tarfile.open(self.file, "w:gz") as archive:
            for path, data in {f"/{more.get('name', MANIFEST)}": text, **files}.items():
                info = tarfile.TarInfo(path[1:])
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            for path, target in links.items():
                info = tarfile.TarInfo(path[1:])
                info.type, info.linkname = tarfile.SYMTYPE, target
                archive.addfile(info)

    def refused(self, words: str) -> None:
        """It is, and nothing was written."""
        error = self.assertRaises(StoreError, restore, self.file, False)
        self.assertIn(words, str(error))
        self.assertEqual(os.listdir(self.folder), [])

    def test_right(self) -> None:
        """What is as the manifest says is put back."""
        self.forge()
        restore(self.file, False)
        self.assertEqual(Path(self.folder, "a").read_bytes(), b"data")

    def test_manifest(self) -> None:
        """A backup begins with a manifest, of a format that is known."""
        self.forge(name="other.json")
        self.refused("is not a backup")
        for odd in ([], 5, "x", {}, {"format": "x"}, {"format": None}):
            self.forge(odd)
            self.refused("no usable manifest")
        self.forge({"format": 2, "saltwisted": "9", "folders": [], "entries": []})
        self.refused("newer version")
        Path(self.file).write_bytes(b"no archive")
        self.assertRaises(StoreError, restore, self.file, False)

    def test_T_PATH_2_elsewhere(self) -> None:
        """T-PATH-2: a file that lies elsewhere, or is not in the manifest, is not written."""
        for path in (
            *(f"{self.home}/x", f"{self.folder}x", f"{self.folder}/../x", "/etc/x"),
            *(f"{self.folder}/b/../../x", f"{self.folder}//a", f"{self.folder}/./a"),
        ):
            self.forge(files={path: b"data"})
            self.refused("does not belong in it")
        self.forge(listed={"path": f"{self.folder}/other"})
        self.refused("does not belong in it")

    def test_damaged(self) -> None:
        """A file that is not what the manifest says, or is missing, is named."""
        link = f"{self.folder}/l"
        self.forge(listed={"digest": hashlib.sha256(b"other").hexdigest()})
        self.refused("not what was saved")
        self.forge(listed={"kind": "link", "digest": "target"})
        self.refused("not what was saved")
        entry = {"path": link, "kind": "link", "digest": "a", "mode": 0, "uid": 0, "gid": 0}
        self.forge(links={link: "/etc/shadow"}, also=[entry])
        self.refused("not what was saved")
        self.forge(links={link: "a"}, also=[{**entry, "kind": "file"}])
        self.refused("not what was saved")
        self.forge(also=[entry])
        self.refused("is missing")


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


class CounterTests(SynchronousTestCase):
    """The line that counts."""

    def test_counts(self) -> None:
        """On a terminal it counts and is wiped; a file, and what is quick, see nothing."""
        screen, file, quick = Screen(), io.StringIO(), Screen()
        for stream, after in ((screen, 0.0), (file, 0.0), (quick, 60.0)):
            counter = Counter("{} files", stream, after)
            counter.show(1)
            counter.end()

        self.assertEqual(screen.getvalue(), "\r1 files\r\033[K")
        self.assertEqual((file.getvalue(), quick.getvalue()), ("", ""))
