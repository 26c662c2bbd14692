"""
Wheel functions that read and write files of the master, and what a call's return code means.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml
from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.who import local
from saltwisted.master import configfiles
from saltwisted.wire.rsa import PublicKey, clean_pem
from tests.master.rig import Rig


class WheelTestCase(SynchronousTestCase):
    """Calls wheel functions of one master."""

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.one, self.two, self.pillar = (self.home / name for name in ("one", "two", "pillar"))
        for folder in (self.one, self.two, self.pillar):
            folder.mkdir(parents=True)
        self.rig = Rig(
            self,
            file_roots={"base": [str(self.one), str(self.two)], "dev": [str(self.two)]},
            pillar_roots={"base": [str(self.pillar)]},
            conf_file=str(self.home / "master"),
            config_dir=str(self.home),
        )

    def call(self, fun: str, *arg: Any, **kwarg: Any) -> tuple[Any, bool]:
        """What a function returned, and whether it went well."""
        call = self.rig.ctx.wheel(fun, list(arg), kwarg, local("root"))
        found = self.successResultOf(Deferred.fromCoroutine(call))
        return found["return"], found["success"]

    def runner(self, fun: str, *arg: Any) -> tuple[Any, bool]:
        """What a runner returned, and whether it went well."""
        run = self.rig.ctx.runner(fun, list(arg), {}, local("root"))
        found = self.successResultOf(Deferred.fromCoroutine(run))
        return found["return"], found["success"]


class RootsTests(WheelTestCase):
    """C{file_roots} and C{pillar_roots}."""

    def test_written_and_read(self) -> None:
        """What is written is found and read again, in both kinds of roots, with stock's words."""
        for kind, root in (("file_roots", self.one), ("pillar_roots", self.pillar)):
            path = str(root / "a/b.sls")
            self.assertEqual(
                self.call(f"{kind}.write", "x: é\n", "a/b.sls"),
                (f"Wrote data to file {path}", True),
            )
            self.assertEqual(self.call(f"{kind}.find", "a/b.sls"), ([{path: "txt"}], True))
            self.assertEqual(self.call(f"{kind}.read", "a/b.sls"), ([{path: "x: é\n"}], True))
        self.assertEqual((self.pillar / "a/b.sls").stat().st_mode & 0o777, 0o600)
        self.assertEqual((self.one / "a/b.sls").stat().st_mode & 0o777, 0o644)

    def test_which_root(self) -> None:
        """The index chooses among roots, an environment has its own, and a mode is kept."""
        (self.two / "x").write_text("old")
        (self.two / "x").chmod(0o640)
        self.call("file_roots.write", "new", "x", index=1)
        self.assertEqual((self.two / "x").read_text(), "new")
        self.assertEqual((self.two / "x").stat().st_mode & 0o777, 0o640)
        self.assertFalse((self.one / "x").exists())
        self.assertEqual(self.call("file_roots.read", "x", "dev")[0], [{f"{self.two}/x": "new"}])
        self.assertEqual(self.call("file_roots.read", "x", "nosuch"), ([], True))

    def test_listed(self) -> None:
        """A tree for each root, binary files told from text, and read of them is nothing."""
        (self.one / "d/e").mkdir(parents=True)
        (self.one / "d/e/f").write_bytes(b"\0\1")
        tree = {str(self.one): {"d": {"e": {"f": "f"}}}, str(self.two): {}}
        self.assertEqual(self.call("file_roots.list_env")[0], tree)
        self.assertEqual(
            self.call("file_roots.list_roots")[0], {"base": [tree], "dev": [{str(self.two): {}}]}
        )
        self.assertEqual(self.call("file_roots.find", "d/e/f")[0], [{f"{self.one}/d/e/f": "bin"}])
        self.assertEqual(self.call("file_roots.read", "d/e/f")[0], [])

    def test_T_PATH_2_nothing_outside(self) -> None:
        """T-PATH-2: no path and no link leads out of a root, to read or to write."""
        outside = self.home / "outside"
        outside.write_text("secret")
        (self.one / "link").symlink_to(outside)
        (self.one / "folder").symlink_to(self.home)
        (self.pillar / "link").symlink_to(outside)
        (self.pillar / "folder").symlink_to(self.home)
        paths = ("../outside", str(outside), "link", "folder/outside", "a/../../outside", "", ".")
        for kind in ("file_roots", "pillar_roots"):
            for path in paths:
                self.assertEqual(self.call(f"{kind}.find", path), ([], True), path)
                self.assertEqual(self.call(f"{kind}.read", path), ([], True), path)
                self.assertIs(self.call(f"{kind}.write", "mine", path)[1], False, path)
            self.assertIs(self.call(f"{kind}.write", "mine", "../new")[1], False)
            self.assertIs(self.call(f"{kind}.write", "mine", "folder/new")[1], False)
        self.assertEqual(outside.read_text(), "secret")
        self.assertFalse((self.home / "new").exists())

    def test_T_PATH_2_never_keys(self) -> None:
        """T-PATH-2: keys are neither read nor written, even where a root is above them."""
        pki = self.rig.config.pki_dir
        os.makedirs(f"{pki}/minions", exist_ok=True)
        Path(pki, "master.pem").write_text("secret")
        self.rig.config.file_roots["base"].append(os.path.dirname(pki))
        self.assertEqual(self.call("file_roots.read", "pki/master.pem"), ([], True))
        self.assertIs(self.call("file_roots.write", "k", "pki/minions/evil", index=2)[1], False)
        self.assertEqual(os.listdir(f"{pki}/minions"), [])

    def test_refused(self) -> None:
        """What cannot be written fails, and says why in stock's words or the system's."""
        for words, said in (
            (("x", "a", "nosuch"), "Named environment nosuch is not present"),
            (("x", "a", "base", 2), "Specified index 2 in environment base is not present"),
            (("x", "a", "base", -1), "Specified index -1 in environment base is not present"),
            (("x", "/a"), "The path passed in /a is not relative to the environment base"),
            (("x", "../a"), "Invalid path: ../a"),
            (("x", "d/"), "Invalid path: d/"),
            ((5, "a"), "What is written is text"),
        ):
            self.assertEqual(self.call("file_roots.write", *words), (said, False))
        self.assertEqual(os.listdir(self.one), [])

    def test_disk_refuses(self) -> None:
        """A write that the system refuses is an error with the path and the reason."""
        (self.one / "file").write_text("")
        text, success = self.call("file_roots.write", "x", "file/below")
        self.assertIs(success, False)
        self.assertIn("file/below: ", text)

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise PermissionError(13, "Permission denied")

        self.patch(os, "makedirs", refuse)
        text, success = self.call("file_roots.write", "x", "new")
        self.assertEqual((text, success), (f"{self.one}/new: Permission denied", False))


class ConfigTests(WheelTestCase):
    """C{config.apply} and C{config.update_config}."""

    def test_apply(self) -> None:
        """One option is set, where it stood or at the end; comments and all others stay."""
        file = self.home / "master"
        file.write_text("# first\ntimeout: 5  # s\nnodegroups:\n  a: b\n  c: d\n\n# last\nuser: x")
        self.assertEqual(self.call("config.apply", "timeout", 7), (None, True))
        self.assertEqual(self.call("config.apply", "nodegroups", {"e": ["f"]}), (None, True))
        self.assertEqual(self.call("config.apply", "new", True), (None, True))
        text = file.read_text()
        self.assertEqual(
            yaml.safe_load(text),
            {"timeout": 7, "nodegroups": {"e": ["f"]}, "user": "x", "new": True},
        )
        self.assertTrue(text.startswith("# first\n"))
        self.assertIn("# last\n", text)

    def test_apply_begins(self) -> None:
        """Without a file there is one afterwards, not readable for everybody."""
        self.assertEqual(self.call("config.apply", "a", [1]), (None, True))
        self.assertEqual(yaml.safe_load((self.home / "master").read_text()), {"a": [1]})
        self.assertEqual((self.home / "master").stat().st_mode & 0o007, 0)

    def test_apply_refused(self) -> None:
        """A file that is no map, or not written line by line, stays as it is."""
        file = self.home / "master"
        for text in ("- a\n", "a: [\n", "{a: 1, b: 2}\n", "a: &x 1\nb: *x\n"):
            file.write_text(text)
            _, success = self.call("config.apply", "a", 5)
            self.assertIs(success, False, text)
            self.assertEqual(file.read_text(), text)

    def test_update_config(self) -> None:
        """A file of its own in master.d; the folder is made."""
        self.assertEqual(
            self.call("config.update_config", "gui", {"id": 1}), ("Wrote gui.conf", True)
        )
        file = self.home / "master.d/gui.conf"
        self.assertEqual(yaml.safe_load(file.read_text()), {"id": 1})

    def test_T_PATH_2_update_config(self) -> None:
        """T-PATH-2: no name leads out of master.d, and no link is followed."""
        (self.home / "master.d").mkdir()
        (self.home / "master.d/link.conf").symlink_to(self.home / "goal")
        for name in ("../x", "a/b", "/x", "", ".hidden", "link", "a\0b", 5):
            self.assertIs(self.call("config.update_config", name, {})[1], False, name)
        self.assertEqual(os.listdir(self.home / "master.d"), ["link.conf"])
        self.assertFalse((self.home / "goal").exists() or (self.home / "x.conf").exists())

    def test_option_by_option(self) -> None:
        """Values of several lines are replaced as a whole, whatever their form."""
        for old in (
            "a: |\n  b\n  c\n",
            "a:\n- b\n- c\n",
            "a: {b: 1,\n  c: 2}\n",
            "a: 'b\n\n  c'\n",
        ):
            made = configfiles.with_option(f"x: 1\n{old}y: 2\n", "a", 5)
            self.assertEqual(made, "x: 1\na: 5\ny: 2\n")


class KeyTests(WheelTestCase):
    """C{key.gen_keys} and C{key.gen_signature}."""

    def test_gen_keys(self) -> None:
        """A pair is made once, and its fingerprint told; a second call changes nothing."""
        finger, success = self.call("key.gen_keys", str(self.home), "mine")
        self.assertTrue(success)
        key = (self.home / "mine.pem").read_bytes()
        self.assertEqual(self.call("key.gen_keys", str(self.home), "mine"), (finger, True))
        self.assertEqual((self.home / "mine.pem").read_bytes(), key)
        self.assertEqual((self.home / "mine.pem").stat().st_mode & 0o777, 0o400)
        self.assertIn(b"BEGIN PUBLIC KEY", (self.home / "mine.pub").read_bytes())

    def test_T_PATH_2_gen_keys(self) -> None:
        """T-PATH-2: a name that is a path is refused."""
        for name in ("../x", "/x", "..", "a/b"):
            text, success = self.call("key.gen_keys", str(self.one), name)
            self.assertEqual((text, success), (f"{name}: not a plain file name", False))
        self.assertEqual(os.listdir(self.one), [])

    def test_gen_signature(self) -> None:
        """The signature is one that a minion can verify; an existing one stays."""
        pki = self.rig.config.pki_dir
        Path(pki, "master.pub").write_text(
            self.call("key.master_key_str")[0]["local"]["master.pub"]
        )
        text, success = self.call("key.gen_signature")
        self.assertEqual((success, "does not exist" in text), (False, True))
        self.assertEqual(self.call("key.gen_signature", auto_create=True), (True, True))
        self.assertEqual(self.call("key.gen_signature", auto_create=True), (False, True))
        signing = PublicKey.from_pem(Path(pki, "master_sign.pub").read_text())
        made = Path(pki, "rig_master_pubkey_signature").read_bytes()
        signed = clean_pem(Path(pki, "master.pub").read_text()).encode()
        self.assertTrue(signing.verify(signed, base64.b64decode(made)))


class AcceptTests(WheelTestCase):
    """C{key.accept}."""

    def test_nobody(self) -> None:
        """A name that nobody has is a failure; one that is accepted already is none."""
        pem = self.call("key.gen")[0]["pub"].encode()
        self.rig.keys.put("pending", "web1", pem)
        self.rig.keys.put("rejected", "web2", pem)
        self.assertEqual(self.call("key.accept", "web9"), ({}, False))
        self.assertEqual(self.call("key.accept", "web1"), ({"minions": ["web1"]}, True))
        self.assertEqual(self.call("key.accept", match="web1"), ({"minions": ["web1"]}, True))
        self.assertEqual(self.call("key.accept", "web2"), ({"minions_rejected": ["web2"]}, False))
        self.assertIs(self.call("key.accept", "web2", include_rejected=True)[1], True)


class JobsTests(WheelTestCase):
    """The runner C{jobs}, as it judges."""

    def test_exit_success(self) -> None:
        """Whoever has a return code that is not 0 has not succeeded, whatever was returned."""
        jid = "20260131040506123456"
        self.rig.jobs.save_job(jid, {"fun": "state.apply", "tgt": "*"}, list("abcdef"))
        for minion, value, code in (
            ("a", {"x": {"result": False}}, 2),
            ("b", True, 0),
            ("c", "", 0),
            ("d", {"test.ping": True, "x.y": "text"}, {"test.ping": 0, "x.y": 1}),
            ("e", [True, 5], [0, 0]),
        ):
            self.rig.jobs.save_return({"id": minion, "jid": jid, "return": value, "retcode": code})
        found, success = self.runner("jobs.exit_success", jid)
        self.assertTrue(success)
        self.assertEqual(
            found, {"a": False, "b": True, "c": False, "d": False, "e": True, "f": False}
        )

    def test_unknown(self) -> None:
        """A jid of which nothing is known is a failure, in each function that shows one job."""
        jid = "20260131040506123456"
        for fun in ("lookup_jid", "list_job", "print_job", "exit_success"):
            self.assertIs(self.runner(f"jobs.{fun}", "20260131040506999999")[1], False, fun)
        self.rig.jobs.save_job(jid, {"fun": "test.ping", "tgt": "*"}, ["a"])
        for fun in ("lookup_jid", "list_job", "print_job", "exit_success"):
            self.assertIs(self.runner(f"jobs.{fun}", jid)[1], True, fun)

    def test_mine_of_no_kind(self) -> None:
        """A kind of target that does not exist is named, and is no empty answer."""
        self.assertEqual(self.runner("mine.get", "*", "x.y"), ({}, True))
        self.assertEqual(
            self.runner("mine.get", "*", "x.y", "horoscope"),
            ("There is no kind of target 'horoscope'", False),
        )


class RunnerTests(WheelTestCase):
    """The runner C{sdb}."""

    def test_sdb(self) -> None:
        """Each function is the execution function of its name, in a process of its own."""
        asked: list[Any] = []

        class Execution:
            async def execute(
                self, run: Any, fun: str, arg: Any, kwarg: Any, with_pillar: bool
            ) -> Any:
                asked.append([fun, *arg])
                return "value"

        ctx = evolve(self.rig.ctx, execution=Execution())
        for fun, arg in (
            ("sdb.get", ["sdb://a/b"]),
            ("sdb.set", ["sdb://a/b", 5]),
            ("sdb.delete", ["sdb://a/b"]),
            ("sdb.get_or_set_hash", ["sdb://a/b", 3, "ab"]),
        ):
            run = ctx.runner(fun, arg, {}, local("root"))
            found = self.successResultOf(Deferred.fromCoroutine(run))
            self.assertEqual((found["return"], found["success"]), ("value", True))
            self.assertEqual(asked.pop(), [fun, *arg])
        self.assertIs(self.runner("sdb.get", "sdb://a/b")[1], False)


class ErrorTests(WheelTestCase):
    """C{error.error}."""

    def test_error(self) -> None:
        """It fails with a name and a message; without them it is an empty map."""
        self.assertEqual(self.call("error.error"), ({}, True))
        text, success = self.call("error.error", "Exception", "This is an error.")
        self.assertIs(success, False)
        self.assertIn("Exception: This is an error.", text)
        run = self.rig.ctx.runner("error.error", ["Exception"], {}, local("root"))
        self.assertIs(self.successResultOf(Deferred.fromCoroutine(run))["success"], False)
