"""
What C{pip.installed} calls a change.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.modules.pip import normalize
from tests.modules import harness


class SatisfiedTests(SynchronousTestCase):
    """Packages of which pip says that they are there."""

    def test_satisfied(self) -> None:
        """They are no change, however pip writes their names; others are."""
        said = """
Requirement already satisfied: My_Pkg>=1.0 in /usr/lib/python3
Requirement already up-to-date: Zope.Interface in /usr/lib/python3
Requirement already satisfied: other[extra]~=2 in /usr/lib/python3
Successfully installed new-1.0
"""
        there = {"my-pkg": "1.0", "zope-interface": "5", "other": "2", "new": "1.0"}
        salt = {
            "pip.normalize": normalize,
            "pip.list": lambda prefix, **_kw: {prefix: there[prefix]},
        }
        state: Any = harness.load("../states/pip_state", salt=salt)
        targets = [(name, name) for name in there]

        ret = state._installed({"changes": {}}, {"stdout": said}, list(there), targets, [], {})

        self.assertEqual(ret["changes"], {"new==1.0": "Installed"})
