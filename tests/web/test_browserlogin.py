"""
Logins of browsers at a provider, and scripts that send its token with each request.
"""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.codeflow import LASTS
from tests.provider import Provider, encoded, jwk, rsa_key, signed
from tests.web.rig import ApiRig, Reply

ARG = {"client": "runner", "fun": "test.arg", "arg": ["a"]}
HOST = "api.example:8000"
BACK = f"https://{HOST}/login/oidc/callback"
CALLBACK = "/login/oidc/callback"
CLIENT = "salt-browsers"


class Browser:
    """One browser: it keeps cookies, and asks for pages."""

    def __init__(self, api: ApiRig) -> None:
        self.api = api
        self.cookies: dict[str, str] = {}

    def ask(self, path: str, **more: Any) -> Reply:
        """A page."""
        kept = "; ".join(f"{name}={text}" for name, text in self.cookies.items())
        reply = self.api.ask("GET", path, Accept="text/html", Cookie=kept, **more)
        for line in reply.headers.get("set-cookie", []):
            name, _, text = line.partition(";")[0].partition("=")
            if "Max-Age=0;" in line:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = text
        return reply

    def begin(self, path: str = "/login/oidc", **more: Any) -> str:
        """Begin a login; where the browser is sent to."""
        reply = self.ask(path, **more)
        self.api.test.assertEqual(reply.status, 302, reply.text)
        return reply.headers["location"][0]

    def at_provider(self, address: str) -> str:
        """Log in there; the path on which it sends the browser back."""
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
        connection.request("GET", f"{parts.path}?{parts.query}")
        back = urlsplit(str(connection.getresponse().getheader("Location")))
        connection.close()
        return f"{back.path}?{back.query}"


class BrowserRig(SynchronousTestCase):
    """One master whose users log in at a provider."""

    def setUp(self) -> None:
        self.provider = Provider(self)
        self.api = self.made()
        self.browser = Browser(self.api)

    def made(self, rules: Any = None, **block: Any) -> ApiRig:
        """A master's API."""
        given = {"client_id": CLIENT, "redirect_uri": BACK, **(rules or {})}
        oidc = {
            **self.provider.options(**given),
            "ops%": ["@runner"],
            "fred": ["test.ping"],
        }
        return ApiRig(self, external_auth={"oidc": oidc}, block=block)

    def refused(self, path: str, status: int = 401, browser: Browser | None = None) -> str:
        """Coming back on this path logs nobody in; what is said."""
        browser = browser or self.browser
        reply = browser.ask(path)
        self.assertEqual(reply.status, status, reply.text)
        self.assertNotIn("session_id", browser.cookies)
        self.assertNotIn("location", reply.headers)
        return reply.text


class BrowserTests(BrowserRig):
    """The code flow."""

    def test_login(self) -> None:
        """A browser is sent to the provider with PKCE, and comes back to a session."""
        address = self.browser.begin("/login/oidc?next=/app/jobs?a=b")
        asked = dict(parse_qsl(urlsplit(address).query))
        self.assertTrue(address.startswith(f"{self.provider.issuer}/authorize?"), address)
        self.assertEqual(
            sorted(asked),
            ["client_id", "code_challenge", "code_challenge_method", "nonce", "redirect_uri",
             "response_type", "scope", "state"],
        )  # fmt: skip
        self.assertEqual(asked["redirect_uri"], BACK)
        self.assertEqual(asked["code_challenge_method"], "S256")
        self.assertEqual(len(asked["code_challenge"]), 43)

        self.provider.claims = {"groups": ["ops"]}
        reply = self.browser.ask(self.browser.at_provider(address))
        self.assertEqual((reply.status, reply.headers["location"]), (302, ["/app/jobs?a=b"]))
        self.assertEqual(reply.headers["cache-control"], ["no-store"])
        self.assertEqual(sorted(self.browser.cookies), ["session_id"])
        line = reply.headers["set-cookie"][-1]
        self.assertIn("; HttpOnly; ", line)
        self.assertIn("; Path=/; SameSite=Lax", line)

        word = self.browser.cookies["session_id"]
        self.assertEqual(
            self.api.ask("POST", "/", [ARG], Cookie=f"session_id={word}").json,
            {"return": [{"args": ["a"], "kwargs": {}}]},
        )
        # As after any login: it lives as long as tokens do, and ends with a logout
        token = self.known(word)
        self.assertEqual((token.name, token.eauth, token.groups), ("fred", "oidc", ("ops",)))
        self.assertEqual(token.expire - token.start, 43200)
        self.api.ask("POST", "/logout", token=word)
        self.assertEqual(self.api.ask("POST", "/", [ARG], token=word).status, 401)

    def known(self, word: str) -> Any:
        """What a token stands for."""
        return self.api.rig.ctx.logins.token(word)

    def test_rules(self) -> None:
        """Groups of the provider's token become rights, and without them there are none."""
        self.browser.ask(self.browser.at_provider(self.browser.begin()))
        word = self.browser.cookies["session_id"]
        self.assertEqual(self.api.ask("POST", "/", [ARG], token=word).status, 401)

    def test_secret(self) -> None:
        """A client with a secret says it to the provider alone, in either of two ways."""
        self.provider.secret = "the client's"
        path = self.mktemp()
        with open(path, "w", encoding="utf-8") as file:
            file.write("the client's\n")
        for ways in (["client_secret_basic"], ["client_secret_post"]):
            self.provider.changes = {"token_endpoint_auth_methods_supported": ways}
            # urlencoded before it is put together, as RFC 6749 has it
            self.provider.secret = "the%20client%27s" if "basic" in ways[0] else "the client's"
            browser = Browser(self.made({"client_secret_file": path}))
            address = browser.begin()
            self.assertNotIn("client", address.partition("client_id")[2].partition("&")[2])
            self.assertEqual(browser.ask(browser.at_provider(address)).status, 302)

    def test_next(self) -> None:
        """T-EAUTH-10: a login leads to a page of this server, and nowhere else."""
        for path in ("/", "/app", "/app/?x=http://elsewhere/", "/a%20b"):
            browser = Browser(self.api)
            address = browser.begin(f"/login/oidc?{urlencode({'next': path})}")
            reply = browser.ask(browser.at_provider(address))
            self.assertEqual(reply.headers["location"], [path])
        for path in (
            "//elsewhere", "///elsewhere", "/\\elsewhere", "\\\\elsewhere", "https://elsewhere",
            "/\t/elsewhere", "/\r\n/elsewhere", "elsewhere", "javascript:alert(1)", "/x\\y", " /a",
            "/" + "a" * 5000, "\x00/a", "/a b",
        ):  # fmt: skip
            reply = self.api.ask("GET", f"/login/oidc?{urlencode({'next': path})}")
            self.assertEqual(reply.status, 400, path)
            self.assertNotIn("set-cookie", reply.headers)

    def test_next_is_bound(self) -> None:
        """T-EAUTH-10: the page cannot be changed on the way, since the state is bound to it."""
        back = self.browser.at_provider(self.browser.begin("/login/oidc?next=/app"))
        name, text = next(iter(self.browser.cookies.items()))
        self.browser.cookies[name] = f"{text.partition('.')[0]}.{encoded(b'/other')}"
        self.assertIn("not begun this login", self.refused(back))

    def test_other_node(self) -> None:
        """Any node ends what another one has begun: the browser has all that is needed."""
        back = self.browser.at_provider(self.browser.begin("/login/oidc?next=/app"))
        self.browser.api = self.made()
        reply = self.browser.ask(back)
        self.assertEqual((reply.status, reply.headers["location"]), (302, ["/app"]))

    def test_other_browser(self) -> None:
        """T-EAUTH-10: a way back that somebody else has begun logs this browser in nowhere."""
        theirs = Browser(self.api)
        back = theirs.at_provider(theirs.begin())
        self.assertIn("not begun this login", self.refused(back))
        self.browser.begin()
        self.assertIn("not begun this login", self.refused(back))
        self.assertNotIn("/realm/token", self.provider.server.asked)

    def test_state(self) -> None:
        """T-EAUTH-10: without its state, or with a wrong one, no code is looked at."""
        for state in ("", "x", None):
            self.browser.begin()
            query = {"code": "code-0", **({} if state is None else {"state": state})}
            self.refused(f"{CALLBACK}?{urlencode(query)}")
            self.assertEqual(self.browser.cookies, {})
        for kept in ("", ".", "a.b", "a" * 43, "a" * 43 + "." + "b" * 5000, "a" * 43 + ".Lw=="):
            self.browser.cookies = {"oidc_login": kept}
            self.refused(f"{CALLBACK}?code=c&state=s")
        self.assertNotIn("/realm/token", self.provider.server.asked)

    def test_replayed(self) -> None:
        """T-EAUTH-10: a way back logs in once; neither the cookie nor the code is good again."""
        address = self.browser.begin()
        cookies = dict(self.browser.cookies)
        back = self.browser.at_provider(address)
        self.assertEqual(self.browser.ask(back).status, 302)
        self.browser.cookies = {}
        self.refused(back)
        # Even who has kept the cookie: the provider gives a token for a code once
        self.browser.cookies = cookies
        self.refused(back)

    def test_code_of_other_login(self) -> None:
        """T-EAUTH-10: a stolen code put into a login of one's own fails at PKCE, and at nonce."""
        theirs = Browser(self.api)
        stolen = dict(parse_qsl(urlsplit(theirs.at_provider(theirs.begin())).query))["code"]
        own = dict(parse_qsl(urlsplit(self.browser.begin()).query))
        path = f"{CALLBACK}?{urlencode({'code': stolen, 'state': own['state']})}"
        self.refused(path)

        self.provider.claims = {"nonce": "of another"}
        self.refused(self.browser.at_provider(self.browser.begin()))
        self.provider.claims = {"nonce": None}
        self.refused(self.browser.at_provider(self.browser.begin()))

    def test_tokens(self) -> None:
        """T-EAUTH-9: a code's token is judged like others, and has to be made for this client."""
        for claims in (
            {"iss": "https://other.example"},
            {"aud": "salt"},
            {"aud": [CLIENT, "other"]},
            {"aud": [CLIENT], "azp": "other"},
            {"exp": 5},
            {"exp": None},
            {"sub": ""},
            {"sub": "fred\nroot"},
            {"sub": "f" * 300},
        ):
            self.provider.claims = claims
            self.refused(self.browser.at_provider(self.browser.begin()))
        self.provider.claims = {"aud": [CLIENT, "other"], "azp": CLIENT}
        self.assertEqual(
            self.browser.ask(self.browser.at_provider(self.browser.begin())).status, 302
        )

    def test_forged(self) -> None:
        """T-EAUTH-9: nor is one without a signature, or signed with what everybody knows."""
        published = jwk("r1", rsa_key())["n"].encode()
        for header in ({"alg": "none"}, {"alg": "HS256", "kid": "r1"}, {"alg": "RS256"}):
            made: list[str] = []

            def forge(header: Any = header, made: Any = made, **claims: Any) -> str:
                made.append(forged(header, self.provider, claims, published))
                return made[0]

            self.patch(self.provider, "token", forge)
            self.refused(self.browser.at_provider(self.browser.begin()))
            self.assertEqual(len(made), 1)

    def test_mix_up(self) -> None:
        """T-EAUTH-10: an answer that names another provider is none, nor one that names none."""
        for changes, issuer in (
            (False, "https://evil.example"),
            (True, "https://evil"),
            (True, ""),
        ):
            self.provider.changes = {"authorization_response_iss_parameter_supported": changes}
            browser = Browser(self.made())
            back = browser.at_provider(browser.begin())
            query = dict(parse_qsl(urlsplit(back).query))
            query["iss"] = issuer
            if not issuer:
                del query["iss"]
            text = self.refused(f"{CALLBACK}?{urlencode(query)}", browser=browser)
            self.assertIn("another provider", text)
        self.assertNotIn("/realm/token", self.provider.server.asked)

    def test_said_no(self) -> None:
        """Who is refused by the provider reads why, and nothing of it is markup."""
        self.provider.user = ""
        self.assertIn("access_denied", self.refused(self.browser.at_provider(self.browser.begin())))
        own = dict(parse_qsl(urlsplit(self.browser.begin()).query))
        query = urlencode({"error": "<script>alert(1)</script>", "state": own["state"]})
        self.assertNotIn("<script>", self.refused(f"{CALLBACK}?{query}"))

    def test_host(self) -> None:
        """T-EAUTH-10: what a request says of its host does not become an address."""
        address = self.browser.begin(Host="evil.example")
        self.assertEqual(dict(parse_qsl(urlsplit(address).query))["redirect_uri"], BACK)
        other = "https://node2.example:8000/login/oidc/callback"
        api = self.made({"redirect_uri": [BACK, other]})
        for host, back in ((HOST, BACK), ("NODE2.example:8000", other), ("evil", BACK)):
            asked = dict(parse_qsl(urlsplit(Browser(api).begin(Host=host)).query))
            self.assertEqual(asked["redirect_uri"], back)

    def test_away(self) -> None:
        """While the provider is away browsers are told so; without one there is no such page."""
        self.provider.away = True
        self.assertEqual(self.browser.ask("/login/oidc").status, 503)
        for changes in (
            {"token_endpoint": "http://elsewhere.example/token"},
            {"authorization_endpoint": "javascript:alert(1)"},
            {"code_challenge_methods_supported": ["plain"]},
            {"issuer": "https://other.example"},
        ):
            self.provider.away, self.provider.changes = False, changes
            self.assertEqual(Browser(self.made()).ask("/login/oidc").status, 503, changes)
        self.provider.changes = {}
        without = ApiRig(self, external_auth={"oidc": self.provider.options()})
        for path in ("/login/oidc", CALLBACK):
            self.assertEqual(without.ask("GET", path).status, 404)

    def test_app(self) -> None:
        """With an app for browsers the login is still itself, and leads to the app."""
        page = self.mktemp()
        with open(page, "w", encoding="utf-8") as file:
            file.write("<p>app</p>")
        browser = Browser(self.made(app=page))
        reply = browser.ask(browser.at_provider(browser.begin()))
        self.assertEqual((reply.status, reply.headers["location"]), (302, ["/app"]))

    def test_acl(self) -> None:
        """C{api_acl} counts for who comes back from the provider, too."""
        browser = Browser(self.made(api_acl={"users": {"fred": ["198.51.100.1"]}}))
        self.refused(browser.at_provider(browser.begin()), browser=browser)

    def test_late(self) -> None:
        """The browser is told to forget a login that it does not end."""
        reply = self.browser.ask("/login/oidc")
        (line,) = reply.headers["set-cookie"]
        self.assertIn(f"; HttpOnly; Max-Age={LASTS:.0f}; Path=/; SameSite=Lax", line)

    def test_flood(self) -> None:
        """T-EAUTH-10: made-up codes are asked for one by one, and slower after each refusal."""
        state = dict(parse_qsl(urlsplit(self.browser.begin()).query))["state"]
        own = dict(self.browser.cookies)
        kept = "; ".join(f"{name}={text}" for name, text in own.items())
        path = f"{CALLBACK}?{urlencode({'code': 'x', 'state': state})}"
        opened = [self.api.open("GET", path, Cookie=kept) for _ in range(40)]
        self.api.wait(5)
        self.assertLessEqual(self.provider.server.asked.count("/realm/token"), 6)
        self.assertIn(503, {reply.status for each in opened for reply in each.replies})


def forged(header: Any, provider: Provider, claims: Any, published: bytes) -> str:
    """A token that the provider has not signed."""
    import hmac
    import time

    now = int(time.time())
    whole = {"iss": provider.issuer, "exp": now + 300, "iat": now, **claims}
    text = signed(header, whole, None)
    if header["alg"] == "HS256":
        return text + encoded(hmac.new(published, text[:-1].encode(), "sha256").digest())
    if header["alg"] == "RS256":
        return signed(header, whole, rsa_key(2048, 7))
    return text


class BearerTests(BrowserRig):
    """Scripts."""

    def ask(self, token: str, low: Any = None, path: str = "/", **more: Any) -> Reply:
        """A request with a token of the provider."""
        told = {"Authorization": f"Bearer {token}", **more}
        if low is None:
            return self.api.ask("GET", path, **told)
        return self.api.ask("POST", path, low, **told)

    def good(self, **claims: Any) -> str:
        """A token that counts for the API's clock."""
        end = self.api.rig.clock.seconds() + 3000
        return self.provider.token(**{"groups": ["ops"], "exp": end, **claims})

    def test_calls(self) -> None:
        """A provider's token in the header is enough for each call; no session is begun."""
        token = self.good()
        for path in ("/", "/run"):
            reply = self.ask(token, [ARG], path)
            self.assertEqual(reply.json, {"return": [{"args": ["a"], "kwargs": {}}]})
            self.assertNotIn("set-cookie", reply.headers)
        reply = self.ask(token, path="/jobs")
        self.assertEqual(reply.status, 200, reply.text)
        # It was judged once, and nothing of it is on the disk or at other nodes
        judged = [asked for asked in self.api.rig.backends.asked if "password" in asked]
        self.assertEqual(len(judged), 1)
        self.assertEqual(list(self.api.rig.ctx.logins.tokens.items()), [])

    def test_end(self) -> None:
        """It counts to its own end, and is judged again after ten minutes."""
        token = self.good(exp=self.api.rig.clock.seconds() + 700)
        self.assertEqual(self.ask(token, [ARG]).status, 200)
        self.api.rig.clock.advance(599)
        self.assertEqual(self.ask(token, [ARG]).status, 200)
        self.api.rig.clock.advance(2)
        self.provider.keys = {"r2": rsa_key(2048, 2)}
        judged = len(self.api.rig.backends.asked)
        self.ask(token, [ARG])
        self.assertGreater(len(self.api.rig.backends.asked), judged)

    def test_T_EAUTH_9_refused(self) -> None:
        """T-EAUTH-9: a wrong one is 401, and says how one comes in; after the wait of a login."""
        good = self.good()
        for token in (
            self.provider.token(exp=5),
            self.good(aud="other"),
            self.good(iss="https://other"),
            good[:-4] + "AAAA",
            forged({"alg": "none"}, self.provider, {"sub": "fred", "aud": "salt"}, b""),
            forged({"alg": "HS256", "kid": "r1"}, self.provider, {"sub": "fred"}, b"x"),
            "x",
            "a.b.c",
            "",
            "x" * 9000,
        ):
            connection = self.api.open("POST", "/", [ARG], Authorization=f"Bearer {token}")
            self.assertEqual(connection.replies, [], token)
            self.api.wait(5)
            (reply,) = connection.replies
            self.assertEqual(reply.status, 401, token)
            self.assertEqual(reply.headers["www-authenticate"], ['Bearer error="invalid_token"'])

    def test_rights(self) -> None:
        """It gives what its groups may, and its user's name is on record."""
        self.assertEqual(self.ask(self.good(groups=[]), [ARG]).status, 401)
        ping = {"client": "local", "fun": "test.ping", "tgt": "api-00000"}
        connection = self.api.open(
            "POST", "/", [ping], Authorization=f"bearer {self.good(groups=[])}"
        )
        self.api.answer(True, 0)
        self.assertEqual(connection.replies[0].json, {"return": [{"api-00000": True}]})
        self.assertEqual(self.api.rig.published_jobs()[0]["user"], "fred")

    def test_many_at_once(self) -> None:
        """Of many calls at once with one token, one has it judged."""
        told = {"Authorization": f"Bearer {self.good()}"}
        opened = [self.api.open("POST", "/", [ARG], **told) for _ in range(40)]
        self.api.wait(1)
        self.assertEqual({reply.status for each in opened for reply in each.replies}, {200})
        self.assertEqual(len(self.api.rig.backends.asked), 1)

    def test_without(self) -> None:
        """Where no provider is, such a header means nothing, and a session counts as ever."""
        api = ApiRig(self)
        token = api.login()
        header = {"Authorization": "Bearer x", "Cookie": f"session_id={token}"}
        self.assertEqual(api.ask("POST", "/", [ARG], **header).status, 200)
        # The header that Salt's clients send counts first
        mine = {"Authorization": "Bearer x"}
        self.assertEqual(api.ask("POST", "/", [ARG], token=token, **mine).status, 200)
