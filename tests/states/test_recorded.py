"""
Our states give the answers of stock Salt, call by call, through the real loader.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.worker.fileclient import file_client
from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.process.main import NoMaster
from tests.states import fakes
from tests.states.record import HERE, answers, prepared
from tests.states.scripts import PILLAR

NEED_ROOT = ("links", "copies")


class Recorded(SynchronousTestCase):
    """Each test runs one script of C{tests.states.scripts}."""

    def setUp(self) -> None:
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.addCleanup(os.umask, os.umask(0o022))
        old = os.environ.get("SHELL")
        os.environ["SHELL"] = "/bin/sh"
        if old is None:
            self.addCleanup(os.environ.pop, "SHELL")
        else:
            self.addCleanup(os.environ.__setitem__, "SHELL", old)

    def check(self, name: str) -> None:
        """Run a script and compare."""
        if name in NEED_ROOT and os.geteuid() != 0:
            raise SkipTest("needs root: links and copies are given to root")
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
        with open(os.path.join(HERE, f"{name}.json"), encoding="utf-8") as file:
            recorded: list[Any] = json.load(file)["answers"]

        found = answers(loaders.modules, script)

        self.assertEqual(len(recorded), len(script.calls), "the answers are of another script")
        different = [
            f"{call}\n  stock {theirs}\n  ours  {ours}"
            for call, theirs, ours in zip(script.calls, recorded, found, strict=True)
            if theirs != ours
        ]
        self.assertEqual(different, [], "\n" + "\n".join(different))

    def test_keychains(self) -> None:
        """Keys come and go, and files and archives are taken only as signed, as by stock."""
        self.check("keychains")

    def test_ini(self) -> None:
        """Options and sections of C{.ini} files are set and removed as by stock."""
        self.check("ini")

    def test_host(self) -> None:
        """Names are added to the hosts file and taken from it as by stock."""
        self.check("host")

    def test_together(self) -> None:
        """Accumulated texts reach their files; what required states made is not cleaned away."""
        self.check("together")

    def test_small(self) -> None:
        """Variables of the environment and forecasts of events are as stock's."""
        for name in ("SALTWISTED_T1", "SALTWISTED_T2"):
            self.addCleanup(os.environ.pop, name, None)

        self.check("small")

    def test_managed(self) -> None:
        """C{file.managed} writes, forecasts and refuses what stock does."""
        self.check("managed")

    def test_directory(self) -> None:
        """C{file.directory} makes, cleans and forbids what stock does."""
        self.check("directory")

    def test_recurse(self) -> None:
        """C{file.recurse} takes the files that stock takes, and cleans as it does."""
        self.check("recurse")

    def test_links(self) -> None:
        """Symbolic and hard links are made, changed and refused as by stock."""
        self.check("links")

    def test_presence(self) -> None:
        """Removing, touching, tidying and retention leave what stock leaves."""
        self.check("presence")

    def test_lines(self) -> None:
        """Edits of texts give stock's diffs and comments."""
        self.check("lines")

    def test_keyvalue(self) -> None:
        """C{file.keyvalue} changes the lines that stock changes."""
        self.check("keyvalue")

    def test_certs(self) -> None:
        """Keys, certificates, requests and revocation lists are made and kept as by stock."""
        self.check("certs")

    def test_copies(self) -> None:
        """Copies and moves are as stock's, modes and all."""
        self.check("copies")

    def test_data(self) -> None:
        """Serialized data, decoded texts, patches, pipes and cached files are as stock's."""
        self.check("data")


def _sorted(answer: Any) -> Any:
    """An answer without the order of sets, which stock's texts and calls follow by chance."""
    if isinstance(answer, dict):
        return {
            key: sorted(map(_sorted, value), key=repr) if key == "did" else _sorted(value)
            for key, value in answer.items()
        }
    if isinstance(answer, str):
        return re.sub(
            r"\{('[^'{}]*'(?:, '[^'{}]*')*)\}",
            lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}",
            answer,
        )
    return answer


class Faked(SynchronousTestCase):
    """Each test applies the states of one module to a machine in memory."""

    def check(self, name: str) -> None:
        """Apply and compare returns and the changes that were asked for."""
        with open(os.path.join(HERE, f"{name}.json"), encoding="utf-8") as file:
            recorded: list[Any] = json.load(file)["answers"]

        found = json.loads(json.dumps(fakes.answers("saltwisted.states", name)))

        self.assertEqual(len(recorded), len(fakes.STATES[name]), "answers to other states")
        different = [
            f"{call}\n  stock {theirs}\n  ours  {ours}"
            for call, theirs, ours in zip(fakes.STATES[name], recorded, found, strict=True)
            if _sorted(theirs) != _sorted(ours)
        ]
        self.assertEqual(different, [], "\n" + "\n".join(different))

    def test_group(self) -> None:
        """Groups get the number and members that stock gives them, by the same calls."""
        self.check("group")

    def test_user(self) -> None:
        """Users are made and changed by the calls that stock makes, with its words."""
        self.check("user")

    def test_service(self) -> None:
        """Services are started, enabled, masked and watched as by stock."""
        self.check("service")

    def test_cron(self) -> None:
        """Crontab lines are asked for and forecast as by stock."""
        self.check("cron")

    def test_grains(self) -> None:
        """Grains are set, added to and removed as by stock."""
        self.check("grains")
