"""
Our modules give the answers of stock Salt, call by call, through the real loader.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.worker.fileclient import file_client
from saltwisted.worker.masking import answering
from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.process.main import NoMaster
from tests.modules.record import VECTORS, answers, prepared
from tests.modules.scripts import NEED_ROOT, PILLAR


class _AsJobs:
    """Functions that are called as a job calls them: for who asked."""

    def __init__(self, functions: Any) -> None:
        self._functions = functions

    def __getitem__(self, name: str) -> Any:
        function = self._functions[name]

        def called(*args: Any, **kwargs: Any) -> Any:
            with answering(name):
                return function(*args, **kwargs)

        return called


class Recorded(SynchronousTestCase):
    """Each test runs one script of C{tests.modules.scripts}."""

    def setUp(self) -> None:
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.addCleanup(os.umask, os.umask(0o022))
        self.patch(os, "environ", os.environ)
        old = os.environ.get("SHELL")
        os.environ["SHELL"] = "/bin/sh"
        if old is None:
            self.addCleanup(os.environ.pop, "SHELL")
        else:
            self.addCleanup(os.environ.__setitem__, "SHELL", old)

    def check(self, name: str, unlike: tuple[str, ...] = ()) -> None:
        """Run a script and compare; C{unlike} names calls that are to differ."""
        if name in NEED_ROOT and os.geteuid() != 0:
            raise SkipTest("needs root: it changes owners")
        script = prepared(name)
        self.addCleanup(shutil.rmtree, script.folder, True)
        opts = load_from_disk("minion", script.path("conf.d")).config.as_opts()
        master = NoMaster()
        loaders = Loaders(
            opts,
            grains=lambda: make_grains(opts),
            pillar=json.loads(json.dumps(PILLAR)),
            master=master,
            fileclient=lambda: file_client(opts, master),
            stock=False,
        )
        with open(os.path.join(VECTORS, "modules", f"{name}.json"), encoding="utf-8") as file:
            recorded = json.load(file)["answers"]

        found = answers(_AsJobs(loaders.modules), script)
        # A script's own module that does not load would be alike on both sides
        there = {
            call[0].partition(".")[0]
            for call, theirs in zip(script.calls, recorded, strict=False)
            if theirs[1:] != ["KeyError", f"'{call[0]}'"]
        }
        self.assertEqual({call[0].partition(".")[0] for call in script.calls} - there, set())

        self.assertEqual(len(recorded), len(script.calls), "the vectors are of another script")
        different = []
        for call, theirs, ours in zip(script.calls, recorded, found, strict=True):
            if _ordered(call[0], theirs) != _ordered(call[0], ours):
                different.append(f"{call}\n  stock {theirs}\n  ours  {ours}")
        self.assertEqual(different, [], "\n" + "\n".join(different))

    def test_fileLook(self) -> None:
        """What is asked about files, hashes and searches is answered as stock does."""
        self.check("file_look")

    def test_fileReplace(self) -> None:
        """Replacing, managed blocks and comments give stock's files and diffs."""
        self.check("file_replace")

    def test_fileLine(self) -> None:
        """C{file.line} changes the lines that stock changes, and refuses what it refuses."""
        self.check("file_line")

    def test_fileChange(self) -> None:
        """Writing, linking, moving and removing leave what stock leaves."""
        self.check("file_change")

    def test_fileOwner(self) -> None:
        """Owners, set-uid bits and devices are handled as in stock."""
        self.check("file_owner")

    def test_fileManaged(self) -> None:
        """What C{file.managed} stands on gives stock's comments and changes."""
        self.check("file_managed")

    def test_facts(self) -> None:
        """Grains, pillar and options are found, masked and changed as in stock."""
        self.check("facts")

    def test_targets(self) -> None:
        """Targets, data store and mine answer as in stock."""
        self.check("targets")

    def test_words(self) -> None:
        """Functions on texts and numbers answer as in stock."""
        self.check("words")

    def test_commands(self) -> None:
        """Programs are run with stock's environment, errors and exit codes."""
        self.check("commands")

    def test_fetching(self) -> None:
        """Files are fetched and modules synced as in stock."""
        self.check("fetching")

    def test_schedules(self) -> None:
        """The schedule's functions use stock's words."""
        self.check("schedules")

    def test_specs(self) -> None:
        """All functions have stock's arguments and defaults."""
        self.check("specs")

    def test_syncs(self) -> None:
        """What is synced does not wait for a top file that can be rendered."""
        self.check("syncs")

    def test_aliases(self) -> None:
        """Aliases of mail are found, set and removed, and every other line stays, as in stock."""
        self.check("aliases")

    def test_utils(self) -> None:
        """What custom modules call by C{__utils__} answers as stock's."""
        self.check("utils")

    def test_helpers(self) -> None:
        """What they call seldom does: arguments, deep differences, results of runs, encodings."""
        self.check("helpers")

    def test_site(self) -> None:
        """What a site's module imports of C{salt}, which is not installed, answers as stock's."""
        self.check("site")

    def test_parts(self) -> None:
        """What extensions import of C{salt} besides answers as stock's."""
        self.check("parts")

    def test_logs(self) -> None:
        """C{log} has stock's functions, which answer as there, whatever the message is."""
        self.check("logs")

    def test_slsutil(self) -> None:
        """Formats, banners, merges and searches of C{slsutil} are stock's, errors included."""
        self.check("slsutil")

    def test_defaults(self) -> None:
        """Defaults of a formula are found and laid over others as in stock."""
        self.check("defaults")

    def test_certificates(self) -> None:
        """Keys, certificates, requests and revocation lists are stock's, byte by byte."""
        self.check("certificates")

    def test_keychains(self) -> None:
        """Keys are kept, trusted and deleted, and signatures verified, as by stock's C{gpg}."""
        self.check("keychains")

    def test_signatures(self) -> None:
        """Texts and files are signed, and signatures verified, as by stock's C{asymmetric}."""
        self.check("signatures")


_UNORDERED = frozenset(("file.readdir", "saltutil.list_extmods", "cp.get_dir", "cp.cache_dir"))


def _ordered(function: str, answer: Any) -> Any:
    """An answer whose order is the file system's, in an order of ours."""
    if function in _UNORDERED and isinstance(answer[1], list):
        return [answer[0], sorted(answer[1])]
    return answer
