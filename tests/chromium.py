"""
A headless Chromium for tests, driven by WebDriver: Debian's C{chromium} and C{chromium-driver}.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
from typing import Any
from unittest import SkipTest

from tests.harness import Daemon, scratch, until

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
"""Root has no sandbox, and containers have a small /dev/shm."""


class Chromium:
    """One browser with one window."""

    def __init__(self, test: Any) -> None:
        """
        Start it; it ends with the test.

        @raises SkipTest: it is not installed.
        """
        if shutil.which("chromedriver") is None or shutil.which("chromium") is None:
            raise SkipTest("Debian's chromium and chromium-driver are not installed")
        home = scratch(test)
        # It writes its settings and caches below the home directory
        self._driver = Daemon("chromedriver", ["chromedriver", "--port=0"], home, {"HOME": home})
        test.addCleanup(self._driver.kill)
        self._driver.start()
        found = until(
            "chromedriver", lambda: re.search(r"successfully on port (\d+)", self._driver.text())
        )
        self._port = int(found[1])
        options = {"args": [*ARGUMENTS, f"--user-data-dir={os.path.join(home, 'profile')}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"
        test.addCleanup(self._ask, "DELETE", self._session)

    def _ask(self, method: str, path: str, told: Any = None) -> Any:
        connection = http.client.HTTPConnection("localhost", self._port, timeout=120)
        try:
            body = None if told is None else json.dumps(told)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and value.get("error"):
            raise AssertionError(f"{value['error']}: {value['message']}")
        return value

    def go(self, address: str) -> None:
        """Open a page, and follow where it leads."""
        self._ask("POST", f"{self._session}/url", {"url": address})

    @property
    def address(self) -> str:
        """Where it is."""
        return str(self._ask("GET", f"{self._session}/url"))

    @property
    def cookies(self) -> dict[str, dict[str, Any]]:
        """What it keeps for this page, by name."""
        return {row["name"]: row for row in self._ask("GET", f"{self._session}/cookie")}

    def run(self, script: str, *args: Any) -> Any:
        """What a function's body of JavaScript returns; a promise is waited for."""
        return self._ask(
            "POST", f"{self._session}/execute/sync", {"script": script, "args": list(args)}
        )

    def until(self, what: str, script: str, *args: Any) -> Any:
        """Wait until such a body returns something true."""
        try:
            return until(what, lambda: self.run(script, *args))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text}\n{self.log()}") from None

    @property
    def text(self) -> str:
        """What there is to read."""
        return str(self.run("return document.body.innerText"))

    def log(self) -> list[str]:
        """What the browser's console has got since it was last asked."""
        rows = self._ask("POST", f"{self._session}/se/log", {"type": "browser"})
        return [f"{row['level']} {row['message']}" for row in rows]

    def type(self, selector: str, text: str) -> None:
        """Write into a field as a person does."""
        found = self._ask(
            "POST", f"{self._session}/element", {"using": "css selector", "value": selector}
        )
        (element,) = found.values()
        self._ask("POST", f"{self._session}/element/{element}/value", {"text": text})

    def click(self, selector: str) -> None:
        """Click on the first that fits."""
        self.run(
            "document.querySelector(arguments[0])"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))",
            selector,
        )
