"""
Merge keys mean the same in each of our readers, whichever PyYAML is installed.
"""

from __future__ import annotations

from typing import Any

import yaml
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli import yamlin
from saltwisted.config.document import loader_class
from saltwisted.domain.render.yaml import SaltLoader
from saltwisted.domain.yamltext import load_yaml

READERS: dict[str, Any] = {
    "command line": yamlin.load,
    "configuration": lambda text: load_yaml(text, loader_class()),
    "SLS": lambda text: SaltLoader(text).document(),
}
MEANT = {
    "{<<: {a: 1}, a: 2}": {"a": 2},
    "{<<: {aa: 1}, aa: 2}": {"aa": 2},
    "{a: 2, <<: {a: 1, b: 3}}": {"b": 3, "a": 2},
    "{<<: [{a: 1}, {b: 3}], c: 2}": {"b": 3, "a": 1, "c": 2},
    "{<<: {<<: {a: 1}, b: 2}, c: 3}": {"a": 1, "b": 2, "c": 3},
}
REFUSED = {
    "{<<: [{a: 1}, {a: 3}], b: 2}": "found conflicting ID 'a'",
    "{<<: [{aa: 1}, {aa: 3}], b: 2}": "found conflicting ID 'aa'",
    "{<<: 5, b: 2}": "expected a mapping or list of mappings for merging, but found scalar",
    "{<<: [5], b: 2}": "expected a mapping for merging, but found scalar",
}
"""What stock 3008.2 answers, with PyYAML 6.0 and with 6.0.4."""


class MergeTests(SynchronousTestCase):
    """Three readers."""

    def test_meant(self) -> None:
        """What stands in the map itself wins, and the pairs keep stock's order."""
        for reader, load in READERS.items():
            for text, value in MEANT.items():
                found = load(text)

                self.assertEqual(list(found.items()), list(value.items()), f"{reader}: {text}")

    def test_refused(self) -> None:
        """A key that two merged maps have is refused, however long it is; so is what is no map."""
        for load in READERS.values():
            for text, words in REFUSED.items():
                error = self.assertRaises(yaml.YAMLError, load, text)

                self.assertIn(words, str(error))
