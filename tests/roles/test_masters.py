from __future__ import annotations

import os
import tempfile
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import ConfigError
from saltwisted.roles.caller import _asked
from saltwisted.roles.minion import keys_of, led_by
from tests.minion.fakemaster import config


class FuncTests(SynchronousTestCase):
    """C{master_type: func}."""

    def module(self, text: str) -> Any:
        """A configuration whose masters a module with this text names."""
        root = self.mktemp()
        folder = os.path.join(root, "extmods", "modules")
        os.makedirs(folder)
        with open(os.path.join(folder, "who.py"), "w") as handle:
            handle.write(text)
        return config(
            master="who.leads",
            master_type="func",
            root_dir=root,
            cachedir=root,
            extension_modules=os.path.join(root, "extmods"),
        )

    def test_names(self) -> None:
        """One name or several become masters of which one is in use at a time."""
        settings = config(master="who.leads", master_type="func")
        for found in ("a", ["a"], ["a:4506", "b"]):
            led = led_by(settings, found)
            self.assertEqual(led.master, [found] if isinstance(found, str) else found)
            self.assertEqual(led.master_type, "failover")

    def test_no_names(self) -> None:
        """What is not a name is an error that shows it."""
        settings = config(master="who.leads", master_type="func")
        for found in (None, "", [], [1], [""], {"a": 1}, 7):
            error = self.assertRaises(ConfigError, led_by, settings, found)
            self.assertIn("who.leads", str(error))

    def test_salt_call(self) -> None:
        """C{salt-call} asks the function itself, and says when it cannot."""
        good = self.module("def leads():\n    return [__grains__['id'], 'b']\n")
        bad = self.module("def leads():\n    return 1 / 0\n")
        none = self.module("def follows():\n    return 'a'\n")

        self.assertEqual(_asked(good, {"id": "a"}), ["a", "b"])
        self.assertIn("division", str(self.assertRaises(ConfigError, _asked, bad, {})))
        self.assertIn("no 'who.leads'", str(self.assertRaises(ConfigError, _asked, none, {})))


class KeyFileTests(SynchronousTestCase):
    """Where masters' keys are remembered."""

    def test_one_for_all(self) -> None:
        """Without a signing key all masters share one file."""
        self.assertIsNone(keys_of(config()))

    def test_each_its_own(self) -> None:
        """With one each master has a file, and no name leads out of its directory."""
        pki = tempfile.gettempdir()
        made = keys_of(config(pki_dir=pki, verify_master_pubkey_sign=True))
        assert made is not None
        folder = os.path.join(pki, "minion_masters")
        for name in ("a", "fe80::1", "../../minion", "..", "a/b"):
            path = os.path.normpath(made(name).path)
            self.assertEqual(os.path.dirname(path), folder, name)
        self.assertNotEqual(made("a:1").path, made("a:2").path)
