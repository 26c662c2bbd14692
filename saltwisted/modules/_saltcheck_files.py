"""
Where the tests of C{saltcheck} lie: files C{*.tst} beside the SLS that they test.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from typing import Any

log = logging.getLogger(__name__)


def folders(sls: str, location: str) -> list[str]:
    """The C{salt://} folders that may have tests of an SLS, the deepest first."""
    words = sls.split(".")
    found = {f"salt://{'/'.join(part)}/{location}" for part in (words, words[:-1], words[:1])}
    return sorted(found, key=lambda path: (-len(path), path))


def endings(sls: str, location: str) -> tuple[str, ...]:
    """How the paths of the files end that test an SLS, and not its neighbours."""
    words, where = sls.split("."), os.path.normpath(location)
    return (
        os.path.join(*words, where, "init.tst"),
        os.path.join(*words[:-1], where, f"{words[-1]}.tst"),
        os.path.join(words[0], where, *words[1:-1], f"{words[-1]}.tst"),
    )


class TestFiles:
    """
    The tests of SLS that a caller names, one after the other.

    @param salt: C{__salt__}.
    @ivar found_states: the SLS that have a folder with tests.
    """

    def __init__(self, salt: Mapping[str, Any], saltenv: str) -> None:
        self._salt = salt
        self._saltenv = saltenv
        self._location = salt["config.get"]("saltcheck_test_location", "saltcheck-tests")
        self._states: list[str] | None = None
        self._paths: list[str] = []
        self.found_states: list[str] = []

    def add(self, sls: str, check_all: bool = False) -> None:
        """
        Find the tests of an SLS and of what it includes.

        @param check_all: all of their folders, and not those of these SLS alone.
        """
        if self._states is None:
            self._states = self._salt["cp.list_states"](saltenv=self._saltenv)
        # What is no SLS is taken for the name of a file with tests
        chunks: Any = [{"__sls__": sls}]
        if sls in self._states:
            chunks = self._salt["state.show_low_sls"](sls, saltenv=self._saltenv, test=True)
        names: dict[str, None] = {}
        for chunk in chunks:
            if not isinstance(chunk, dict):
                log.error("low data from show_low_sls is not formed as a dict: %s", chunk)
                return
            if "__sls__" in chunk:
                names[chunk["__sls__"]] = None
        kept: list[str] = []
        for name in names:
            kept += self._fetched(name, check_all)
            if check_all:
                self._paths += kept
            else:
                ends = endings(name, self._location)
                self._paths += [path for path in kept if path.endswith(ends)]

    def _fetched(self, sls: str, check_all: bool) -> list[str]:
        """The files of an SLS's folders, in the cache of the minion."""
        kept: list[str] = []
        for folder in folders(sls, self._location):
            if sls in self.found_states:
                break
            fetched = self._salt["cp.cache_dir"](folder, saltenv=self._saltenv, include_pat="*.tst")
            kept += fetched
            if fetched and not check_all:
                self.found_states.append(sls)
        return kept

    def take(self) -> dict[str, Any]:
        """The tests by name of all files that were found since the last time."""
        paths, self._paths = self._paths, []
        tests: dict[str, Any] = {}
        for path in dict.fromkeys(paths):
            rendered = self._salt["slsutil.renderer"](path, saltenv=self._saltenv)
            # As in Salt all keys are text
            tests.update(json.loads(json.dumps(rendered)))
        return tests
