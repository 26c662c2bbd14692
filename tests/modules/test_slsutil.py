"""
What recorded answers cannot show of C{slsutil}: formats of others, and formats in states.
"""

from __future__ import annotations

from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.modules import _serializers
from saltwisted.worker.exceptions import CommandExecutionError
from saltwisted.worker.process.loader import Loaders

UPPER = """
def serialize(obj, **options):
    return str(obj).upper() + options.get("end", "")
"""


class FormatTests(SynchronousTestCase):
    """Formats of modules, of libraries, and of C{file.serialize}."""

    def loaders(self, **given: Any) -> Loaders:
        opts = {**MinionConfig(id="m1", file_client="local").as_opts(), **given}
        return Loaders(opts, grains={}, pillar={}, stock=False)

    def test_synced(self) -> None:
        """A serializer of the site is used; what it cannot do is said in stock's words."""
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "upper.py").write_text(UPPER)
        functions = self.loaders(serializers_dirs=[str(folder.resolve())]).modules

        self.assertEqual(functions["slsutil.serialize"]("upper", "ab", end="."), "AB.")
        error = self.assertRaises(
            CommandExecutionError, functions["slsutil.deserialize"], "upper", "AB"
        )
        self.assertEqual(str(error), "Serializer 'upper' does not implement deserialize.")

    def test_toml(self) -> None:
        """TOML is written where its library is, and read everywhere: Python has a reader."""
        functions = self.loaders().modules
        self.patch(_serializers.importlib.util, "find_spec", lambda name: None)
        error = self.assertRaises(
            CommandExecutionError, functions["slsutil.serialize"], "toml", {"a": 1}
        )
        self.assertEqual(str(error), "Serializer 'toml' does not implement serialize.")
        read = functions["slsutil.deserialize"]
        self.assertEqual(read("toml", "[a]\nb = [1, 2]\n"), {"a": {"b": [1, 2]}})
        self.assertEqual(read("toml", b"a = '\xc3\xa4'"), {"a": "\u00e4"})
        self.assertRaises(_serializers.DeserializationError, read, "toml", "a = ")

        self.patch(_serializers.importlib.util, "find_spec", find_spec)
        if find_spec("toml") is None:
            raise SkipTest("the library toml is not installed: only its absence was tested")
        text = functions["slsutil.serialize"]("toml", {"a": {"b": [1, 2]}})
        self.assertEqual(functions["slsutil.deserialize"]("toml", text), {"a": {"b": [1, 2]}})

    def test_order_in_files(self) -> None:
        """C{file.serialize} sorts the keys of ordered maps too, as stock does."""
        path = Path(self.mktemp()).resolve()
        states = self.loaders(test=False).states

        data = OrderedDict([("z", 1), ("a", OrderedDict([("y", 1), ("b", 2)]))])
        states["file.serialize"](str(path), dataset=data)

        self.assertEqual(path.read_text(), "a:\n  b: 2\n  y: 1\nz: 1\n")

    def test_merged_with_bad_data(self) -> None:
        """What a file holds that is not of the format ends in a sentence and stays as it is."""
        path = Path(self.mktemp()).resolve()
        states = self.loaders(test=False).states
        for kind, text in (("json", "{"), ("yaml", "a: ["), ("configparser", "x")):
            path.write_text(text)

            ret = states["file.serialize"](
                str(path), dataset={"a": {"b": 1}}, serializer=kind, merge_if_exists=True
            )

            self.assertIs(ret["result"], False, ret)
            self.assertIn("Failed to deserialize existing data: ", ret["comment"])
            self.assertEqual(path.read_text(), text)
