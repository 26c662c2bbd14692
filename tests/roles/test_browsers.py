"""
What browsers do with the API, in a real one: a login at a provider on another site, a session by
its cookie, JSON that is sent as text, and events.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.testing.ports import reserve_ports
from tests.chromium import Chromium
from tests.harness import OurMaster, scratch, until
from tests.provider import Provider

PAGE = """<!DOCTYPE html>
<title>a console</title>
<link rel="icon" href="data:,">
<ul id="tags"></ul>
<script>
async function ask(low) {
  const answer = await fetch("/", {method: "POST", body: JSON.stringify(low),
    headers: {Accept: "application/json"}});
  return answer.ok ? answer.json() : answer.status;
}
function watch() {
  const events = new EventSource("/events");
  events.onopen = () => { document.title = "watching"; };
  events.onmessage = message => {
    const row = document.createElement("li");
    row.textContent = JSON.parse(message.data).tag;
    document.getElementById("tags").append(row);
  };
}
</script>
"""
RUN = {"client": "runner", "fun": "test.arg", "arg": ["a"]}


class BrowserTests(SynchronousTestCase):
    """One master, one provider, one Chromium."""

    def setUp(self) -> None:
        """Start them. The provider has another name than the master, and so is another site."""
        home = scratch(self)
        page = os.path.join(home, "console.html")
        with open(page, "w", encoding="utf-8") as file:
            file.write(PAGE)
        self.provider = Provider(self)
        self.provider.claims = {"groups": ["ops"]}
        elsewhere = self.provider.issuer.replace("localhost", "127.0.0.1")
        self.provider.changes = {"authorization_endpoint": f"{elsewhere}/authorize"}
        (port,) = reserve_ports(1)
        self.url = f"http://localhost:{port}"
        given = {"client_id": "salt", "redirect_uri": f"{self.url}/login/oidc/callback"}
        self.master = OurMaster(
            home,
            external_auth={
                "oidc": {**self.provider.options(**given), "ops%": [".*", "@runner", "@events"]}
            },
            netapi_enable_clients=["runner"],
            rest_cherrypy={"port": port, "disable_ssl": True, "app": page, "events_for_all": True},
        )
        self.addCleanup(self.master.kill)
        self.master.up()
        until("the API", lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
        self.browser = Chromium(self)

    def ask(self, low: Any) -> Any:
        """What the page gets for low state, or the status of a refusal."""
        return self.browser.run("return ask(arguments[0])", low)

    def test_console(self) -> None:
        """
        T-EAUTH-10: a browser logs in at a provider elsewhere and lands on the page that it wanted.
        The page's scripts cannot read the session, and use it; it sees events by its cookie alone.
        """
        browser = self.browser
        browser.go(f"{self.url}/app")
        self.assertEqual(self.ask(RUN), 401)

        browser.go(f"{self.url}/login/oidc?next=/app%3Fhere")
        self.assertEqual(browser.address, f"{self.url}/app?here")
        kept = browser.cookies
        self.assertEqual(sorted(kept), ["session_id"])
        self.assertEqual(
            (kept["session_id"]["httpOnly"], kept["session_id"]["sameSite"]), (True, "Lax")
        )
        self.assertEqual(browser.run("return document.cookie"), "")

        browser.run("watch()")
        browser.until("the stream", "return document.title === 'watching'")
        self.assertEqual(self.ask(RUN), {"return": [{"args": ["a"], "kwargs": {}}]})
        browser.until(
            "the event", "return document.getElementById('tags').innerText.includes('/ret')"
        )
        self.assertIn("fred (oidc) does runner fun='test.arg' (by the HTTP API", self.master.text())
        self.assertEqual([line for line in browser.log() if "401" not in line], [])

    def test_T_EAUTH_10_others_way_back(self) -> None:
        """T-EAUTH-10: a way back from the provider that another has begun logs nobody in."""
        browser = self.browser
        browser.go(f"{self.url}/login/oidc")
        self.assertIn("session_id", browser.cookies)
        browser.run("return fetch('/logout', {method: 'POST', body: '{}'}).then(() => true)")
        state = self.provider.asked_last["state"]
        browser.go(f"{self.url}/login/oidc/callback?code=theirs&state={state}")
        self.assertIn("not begun this login", browser.text)
        self.assertNotIn("session_id", browser.cookies)
