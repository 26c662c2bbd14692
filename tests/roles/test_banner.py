"""
What a daemon says of its configuration when it starts.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.roles import banner
from saltwisted.roles.banner import Banner
from saltwisted.roles.master import Master
from tests.config.test_stock import loaded


class BannerTests(SynchronousTestCase):
    """The first lines of a log."""

    def lines(self, role: str, text: str) -> list[str]:
        """The options that are said to be no part of us."""
        seen: list[dict[str, Any]] = []
        globalLogPublisher.addObserver(seen.append)
        self.addCleanup(globalLogPublisher.removeObserver, seen.append)
        found = loaded(role, {role: text})
        Banner(found.config, found.sources, found.warnings).startService()
        return [
            f"{event['option']}: {event['reason']}"
            for event in seen
            if "is not part of saltwisted" in str(event.get("log_format"))
        ]

    def test_missing(self) -> None:
        """Each option that asks for what is not here is one line; what is served is none."""
        text = (
            "reactor: [{a: [/x.sls]}]\nengines: [x]\nfileserver_backend: [roots, hgfs]\n"
            "master_job_cache: mysql\nevent_return: [x]\nexternal_auth: {pam: {a: [test.*]}}\n"
        )

        names = [line.partition(":")[0] for line in self.lines("master", text)]

        self.assertEqual(
            names, ["engines", "event_return", "fileserver_backend", "master_job_cache"]
        )

    def test_no_directory(self) -> None:
        """A mistyped C{--config}, and one that names a file, are warned of; a directory is not."""
        seen: list[dict[str, Any]] = []
        globalLogPublisher.addObserver(seen.append)
        self.addCleanup(globalLogPublisher.removeObserver, seen.append)
        folder = self.mktemp()
        os.mkdir(folder)
        file = os.path.join(folder, "master")
        with open(file, "w"):
            pass
        for path in (folder, file, folder + "x"):
            config: Any = SimpleNamespace(
                config_dir=path, id="m", role="master", value=lambda name: None, defaults={}
            )
            self.patch(banner, "not_here", lambda *args: {})
            Banner(config, (), ()).startService()

        said = [(event["path"], event["what"]) for event in seen if "what" in event]
        self.assertEqual(said, [(file, "is no directory"), (folder + "x", "does not exist")])

    def test_plain(self) -> None:
        """A configuration without any says nothing, nor does one that sets a default."""
        self.assertEqual(self.lines("master", "cache: localfs\nreactor: []\n"), [])
        self.assertEqual(self.lines("minion", "id: x\n"), [])

    def test_minion(self) -> None:
        """A minion names its own."""
        text = "id: x\nbeacons: {load: []}\nengines: [x]\nschedule: {a: {function: test.ping}}\n"

        self.assertEqual(
            self.lines("minion", text),
            ["beacons: beacons do not run", "engines: engines do not run"],
        )


class SummaryTests(SynchronousTestCase):
    """The line that a service manager shows of a master."""

    def test_master(self) -> None:
        """It serves when its ports are open; a store that cannot write is named beside that."""

        def said(is_open: bool, **problems: str) -> str:
            stub = SimpleNamespace(ports=SimpleNamespace(open=is_open), problems=lambda: problems)
            return Master.summary(stub)  # type: ignore[arg-type]

        self.assertEqual(said(False), "not serving yet")
        self.assertEqual(said(True), "serving")
        self.assertEqual(
            said(True, jobs="No space left on device"),
            "serving, with something missing; jobs: No space left on device",
        )
