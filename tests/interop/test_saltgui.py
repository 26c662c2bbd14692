"""
SaltGUI in a headless Chromium, served by a real master's C{app} and C{static}.

C{SALTWISTED_SALTGUI} names the folder C{saltgui} of a checkout; C{.ci/run --long} gets it from
GitHub, at the commit that stands there. None of it is in this repository.
"""

from __future__ import annotations

import os
import socket
import unittest

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.testing.ports import reserve_ports
from tests.chromium import Chromium
from tests.harness import OurMaster, OurMinion, scratch, until

SALTGUI = os.environ.get("SALTWISTED_SALTGUI", "")
OPTIONAL = ("minions.txt", "salt-auth.txt", "salt-motd.txt", "salt-motd.html")
"""Files that a site may have. SaltGUI asks for them, and browsers note that they are not there."""


@unittest.skipUnless(SALTGUI, "SALTWISTED_SALTGUI is not set: no SaltGUI to test with")
class SaltGuiTests(SynchronousTestCase):
    """One master with one minion, and one that waits to be accepted."""

    def setUp(self) -> None:
        """Start them."""
        home = scratch(self)
        users = os.path.join(home, "users")
        with open(users, "w", encoding="utf-8") as file:
            file.write("admin:adminpw\n")
        (port,) = reserve_ports(1)
        rules = {"^filename": users, "admin": [".*", "@runner", "@wheel", "@jobs"]}
        self.master = OurMaster(
            home,
            external_auth={"file": rules},
            netapi_enable_clients=["local", "local_async", "runner", "wheel"],
            rest_cherrypy={
                "port": port,
                "host": "127.0.0.1",
                "disable_ssl": True,
                "app": os.path.join(SALTGUI, "index.html"),
                "static": os.path.join(SALTGUI, "static"),
                "static_path": "/static",
            },
        )
        self.addCleanup(self.master.kill)
        self.master.up()
        until("the API", lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
        self.url = f"http://127.0.0.1:{port}/"
        self.minions = [OurMinion(home, self.master, name) for name in ("web1", "new1")]
        for minion in self.minions:
            self.addCleanup(minion.kill)
            minion.up()
            until("its key", lambda minion=minion: minion.id in self.master.keys()["minions_pre"])
        self.master.accept("web1")
        self.browser = Chromium(self)

    def page(self, name: str, *words: str) -> None:
        """Go to a page of SaltGUI, and wait until a person reads these words there."""
        if not self.browser.address.endswith(f"#{name}"):
            self.browser.go(f"{self.url}#{name}")
        self.browser.until(
            f"{words} on the page {name}",
            "const page = document.querySelector(arguments[0]);"
            "return arguments[1].every(word => page.innerText.includes(word))",
            f"#page-{name}",
            list(words),
        )

    def test_session(self) -> None:
        """
        Somebody logs in, sees minions and keys, runs test.ping, sees its job and its events as
        they come, and logs out; the browser's console has no complaint.
        """
        browser = self.browser
        browser.go(self.url)
        browser.until("the form", "return document.querySelector('#username')")
        browser.run("localStorage.setItem('eauth', arguments[0])", "file")
        browser.go(f"{self.url}?again")
        browser.until("the form", "return document.querySelector('#username')")
        browser.run("document.querySelector('select').value = 'file'")
        browser.type("#username", "admin")
        browser.type("#password", "adminpw")
        browser.click("#login-button")
        browser.until("the login", "return location.hash.includes('minions')")
        self.assertTrue(browser.cookies["session_id"]["httpOnly"])
        self.page("minions", "web1", "Debian", "1 unaccepted key")

        self.page("events", "press")
        browser.run(
            "[...document.querySelectorAll('#page-events .small-button-left')]"
            ".find(button => button.innerText.includes('\u2bc8')).click()"
        )
        self.page("events", "waiting for")
        browser.click("#button-manual-run")
        browser.type("#target", "web1")
        browser.type("#command", "test.ping")
        browser.click("#run-command")
        browser.until(
            "the answer",
            "return /web1[^]*true/.test(document.querySelector('#popup-output').innerText)",
        )
        browser.click("#cmd-close-button")
        self.page("events", "salt/job/", "/ret/web1")
        self.page("jobs", "test.ping", "web1")
        self.page("keys", "new1", "unaccepted", "accepted")

        browser.click("#button-logout1")
        browser.until(
            "the form", "return document.querySelector('#page-login').style.display === ''"
        )
        self.assertNotIn("session_id", browser.cookies)
        wrong = [
            line
            for line in browser.log()
            if line.startswith("SEVERE") and not any(name in line for name in OPTIONAL)
        ]
        self.assertEqual(wrong, [])
