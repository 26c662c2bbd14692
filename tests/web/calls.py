"""
The calls of the HTTP API that were recorded from a stock salt-api, and how one is made.

C{recorded-3008.2.json} has what stock 3008.2 with CherryPy 18.10 answers to each of them: one
master with the users of L{USERS} and two simulated minions.
"""

from __future__ import annotations

import json
from typing import Any

from attrs import field, frozen

USERS = "admin:adminpw\nreader:readerpw\nnobody:nobodypw\n"
RULES = {"admin": [".*", "@wheel", "@runner", "@jobs"], "reader": ["test.*"]}
CLIENTS = [
    "local", "local_async", "local_batch", "local_subset",
    "runner", "runner_async", "wheel", "wheel_async", "ssh",
]  # fmt: skip
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
YAML = "application/x-yaml"
LOGIN = {"username": "admin", "password": "adminpw", "eauth": "file"}
READER = {"username": "reader", "password": "readerpw", "eauth": "file"}
PING = {"client": "local", "tgt": "*", "fun": "test.ping"}
APP = "<html>app</html>"
FILES = {"static/a.txt": "hello\n", "static/sub/b.css": "p {}\n", "static/c.json": "{}"}
"""What C{app} and C{static} name."""
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@frozen(kw_only=True)
class Request:
    """
    One call.

    @ivar token: whose session it has: C{admin}, C{reader}, C{nobody}, a text of its own, or none.
    @ivar low: the body as JSON, or as YAML if that is its type.
    @ivar kind: the type of a body; C{""}: it does not say one.
    @ivar app: whether it is made where there is an C{app}.
    """

    name: str
    method: str = "POST"
    path: str = "/"
    token: str = ""
    low: Any = None
    body: str = ""
    kind: str = JSON
    accept: str | None = JSON
    headers: dict[str, str] = field(factory=dict)
    app: bool = False

    def content(self) -> bytes:
        """The bytes of the body."""
        return (self.body or ("" if self.low is None else json.dumps(self.low))).encode()


def get(name: str, path: str, **more: Any) -> Request:
    """A call without a body."""
    return Request(name=name, method="GET", path=path, **more)


def low(name: str, *chunks: Any, **more: Any) -> Request:
    """Chunks of low state of somebody who has logged in."""
    return Request(name=name, low=list(chunks), **{"token": "admin", **more})


def runner(fun: str, **more: Any) -> dict[str, Any]:
    """A chunk."""
    return {"client": "runner", "fun": fun, **more}


def wheel(fun: str, **more: Any) -> dict[str, Any]:
    """A chunk."""
    return {"client": "wheel", "fun": fun, **more}


CALLS = [
    get("root", "/"),
    get("root-any", "/", accept="*/*"),
    get("root-none", "/", accept=None),
    get("root-yaml", "/", accept=YAML),
    get("root-xml", "/", accept="application/xml"),
    get("root-html", "/", accept="text/html"),
    get("root-app", "/", accept="application/*"),
    get("root-q", "/", accept="application/x-yaml;q=0.9, application/json;q=0.5"),
    get("root-badq", "/", accept="application/json;q=x"),
    get("root-origin", "/", headers={"Origin": "http://elsewhere.example"}),
    Request(name="root-options", method="OPTIONS"),
    Request(name="root-preflight", method="OPTIONS",
            headers={"Origin": "http://a.example", "Access-Control-Request-Method": "POST"}),
    Request(name="root-put", method="PUT", low={}),
    Request(name="root-delete", method="DELETE"),
    Request(name="root-head", method="HEAD"),
    get("nowhere", "/nowhere"),
    get("nowhere-deep", "/login/a/b"),
    get("dots", "/static/../../etc/passwd"),
    get("login-get", "/login"),
    Request(name="login", path="/login", low=LOGIN),
    Request(name="login-list", path="/login", low=[LOGIN]),
    Request(name="login-text", path="/login", low=LOGIN, kind="text/plain;charset=UTF-8"),
    Request(name="login-form", path="/login", kind=FORM,
            body="username=admin&password=adminpw&eauth=file"),
    Request(name="login-yaml", path="/login", kind=YAML,
            body="username: admin\npassword: adminpw\neauth: file\n"),
    Request(name="login-wrong", path="/login", low={**LOGIN, "password": "no"}),
    Request(name="login-unknown-user", path="/login", low={**LOGIN, "username": "no"}),
    Request(name="login-unknown-eauth", path="/login", low={**LOGIN, "eauth": "no"}),
    Request(name="login-no-password", path="/login", low={"username": "admin", "eauth": "file"}),
    Request(name="login-empty", path="/login"),
    Request(name="login-empty-map", path="/login", low={}),
    Request(name="login-bad-json", path="/login", body="{"),
    Request(name="login-bad-yaml", path="/login", kind=YAML, body="a: [\n"),
    Request(name="login-other-type", path="/login", kind="image/png", body="x"),
    Request(name="login-reader", path="/login", low=READER),
    Request(name="login-nobody", path="/login",
            low={"username": "nobody", "password": "nobodypw", "eauth": "file"}),
    Request(name="login-accept-yaml", path="/login", low=LOGIN, accept=YAML),
    Request(name="login-put", path="/login", method="PUT", low=LOGIN),
    Request(name="post-no-token", low=[PING]),
    Request(name="post-bad-token", low=[PING], token="0" * 40),
    Request(name="post-odd-token", low=[PING], token="not hex"),
    low("ping", PING),
    Request(name="ping-map", low=PING, token="admin"),
    Request(name="ping-text", low=PING, token="admin", kind="text/plain;charset=UTF-8"),
    Request(name="ping-form", token="admin", kind=FORM, body="client=local&tgt=*&fun=test.ping"),
    Request(name="ping-yaml", token="admin", kind=YAML,
            body="- client: local\n  tgt: '*'\n  fun: test.ping\n"),
    low("ping-answer-yaml", PING, accept=YAML),
    low("ping-xml", PING, accept="text/xml"),
    low("ping-list", {**PING, "tgt": ["api-00000"], "tgt_type": "list"}),
    low("ping-expr-form", {**PING, "tgt": "api-00000,api-00001", "expr_form": "list"}),
    low("ping-nobody", {**PING, "tgt": "none*"}),
    low("ping-full", {**PING, "full_return": True}),
    low("ping-two", PING, PING),
    low("ping-no-tgt", {"client": "local", "fun": "test.ping"}),
    low("ping-no-fun", {"client": "local", "tgt": "*"}),
    low("ping-bad-type", {**PING, "tgt_type": "nosuch"}),
    low("ping-bad-compound", {**PING, "tgt": "( and", "tgt_type": "compound"}),
    low("ping-bad-timeout", {**PING, "timeout": "soon"}),
    low("arg", {**PING, "fun": "test.arg", "arg": ["a", 1], "kwarg": {"b": 2}}),
    low("arg-text", {**PING, "fun": "test.arg", "arg": "a"}),
    Request(name="arg-form", token="admin", kind=FORM,
            body="client=local&tgt=*&fun=test.arg&arg=1&arg=a%3D2"),
    low("several", {**PING, "fun": ["test.ping", "test.arg"], "arg": [[], ["a"]]}),
    low("async", {**PING, "client": "local_async"}),
    low("async-nobody", {**PING, "client": "local_async", "tgt": "none*"}),
    low("subset", {**PING, "client": "local_subset", "sub": 1}),
    low("batch", {**PING, "client": "local_batch", "batch": "1"}),
    low("batch-bad", {**PING, "client": "local_batch", "batch": "x"}),
    low("runner", runner("test.arg", arg=["a", "b=1"], kwarg={"c": 2})),
    low("runner-full", runner("test.arg", full_return=True)),
    low("runner-old-keywords", runner("test.arg", other=1)),
    low("runner-async", {"client": "runner_async", "fun": "test.arg"}),
    low("runner-unknown", runner("no.such")),
    low("runner-no-fun", {"client": "runner"}),
    low("runner-bad-arguments", runner("jobs.list_job", arg=[1, 2, 3, 4, 5, 6, 7])),
    low("runner-one-word", runner("test")),
    low("wheel", wheel("key.list_all")),
    low("wheel-match", wheel("key.finger", match="api-00000")),
    low("wheel-async", {"client": "wheel_async", "fun": "key.list_all"}),
    low("wheel-unknown", wheel("no.such")),
    low("wheel-no-argument", wheel("key.finger")),
    low("ssh", {**PING, "client": "ssh"}),
    low("client-unknown", {**PING, "client": "nosuch"}),
    low("client-missing", {"tgt": "*", "fun": "test.ping"}),
    low("raw-shell", {**PING, "raw_shell": True}),
    Request(name="low-number", low=7, token="admin"),
    Request(name="low-text", body='"x"', token="admin"),
    Request(name="low-list-of-text", low=["x"], token="admin"),
    Request(name="low-none", token="admin"),
    Request(name="low-empty", low=[], token="admin"),
    Request(name="low-bad-json", body="[{", token="admin"),
    Request(name="low-plain-text", body="hello", kind="text/plain", token="admin"),
    low("reader-ping", PING, token="reader"),
    low("reader-cmd", {**PING, "fun": "cmd.run", "arg": ["id"]}, token="reader"),
    low("reader-runner", runner("test.arg"), token="reader"),
    low("reader-wheel", wheel("key.list_all"), token="reader"),
    low("nobody-ping", PING, token="nobody"),
    get("minions", "/minions", token="admin"),
    get("minions-no-token", "/minions"),
    get("minion", "/minions/api-00000", token="admin"),
    get("minion-unknown", "/minions/none", token="admin"),
    get("minions-reader", "/minions", token="reader"),
    Request(name="minions-post", path="/minions", token="admin",
            low=[{"tgt": "*", "fun": "test.ping"}]),
    Request(name="minions-post-two", path="/minions", token="admin",
            low=[{"tgt": "*", "fun": "test.ping"}, {"tgt": "none", "fun": "test.ping"}]),
    Request(name="minions-post-no-tgt", path="/minions", token="admin", low=[{"fun": "test.ping"}]),
    get("jobs", "/jobs", token="admin"),
    get("jobs-no-token", "/jobs"),
    get("job-unknown", "/jobs/20200101000000000000", token="admin"),
    get("job-odd", "/jobs/nosuch", token="admin"),
    get("keys", "/keys", token="admin"),
    get("keys-no-token", "/keys"),
    get("key", "/keys/api-00000", token="admin"),
    get("key-unknown", "/keys/none", token="admin"),
    get("keys-reader", "/keys", token="reader"),
    Request(name="keys-post", path="/keys", kind=FORM,
            body="mid=made&username=admin&password=adminpw&eauth=file"),
    Request(name="keys-post-token", path="/keys", kind=FORM, body="mid=made2", token="admin"),
    Request(name="keys-post-no-mid", path="/keys", low=LOGIN),
    Request(name="token", path="/token", low=LOGIN),
    Request(name="token-list", path="/token", low=[LOGIN]),
    Request(name="token-wrong", path="/token", low={**LOGIN, "password": "no"}),
    Request(name="token-no-password", path="/token", low={"username": "admin", "eauth": "file"}),
    Request(name="token-empty", path="/token"),
    get("token-get", "/token"),
    Request(name="run-login", path="/run", low=[{**PING, **LOGIN}]),
    Request(name="run-wrong", path="/run", low=[{**PING, **LOGIN, "password": "no"}]),
    Request(name="run-nobody", path="/run", low=[PING]),
    Request(name="run-token-bad", path="/run", low=[{**PING, "token": "0" * 64}]),
    Request(name="run-token-odd", path="/run", low=[{**PING, "token": "not hex"}]),
    Request(name="run-form", path="/run", kind=FORM,
            body="client=local&tgt=*&fun=test.ping&username=admin&password=adminpw&eauth=file"),
    Request(name="run-runner", path="/run", low=[{**runner("test.arg"), **LOGIN}]),
    get("run-get", "/run"),
    get("login-slash", "/login/"),
    Request(name="logout-no-token", path="/logout"),
    Request(name="logout", path="/logout", token="reader"),
    Request(name="logout-again", path="/logout", token="reader"),
    low("after-logout", PING, token="reader"),
    get("logout-get", "/logout", token="admin"),
    low("runner-arg-null", runner("test.arg", arg=None)),
    low("runner-arg-empty", runner("test.arg", arg="")),
    low("runner-arg-map", runner("test.arg", arg={"a": 1})),
    Request(name="no-type", token="admin", kind="", body="client=runner&fun=test.arg"),
    Request(name="no-type-json", token="admin", kind="", body="[{}]"),
    Request(name="no-type-no-token", kind="", body="[{}]"),
    Request(name="no-type-login", path="/login", kind="", body="username=admin"),
    Request(name="no-type-run", path="/run", kind="", body="x"),
    Request(name="no-type-keys", path="/keys", kind="", body="x", token="admin"),
    Request(name="options-login", method="OPTIONS", path="/login"),
    Request(name="options-hook", method="OPTIONS", path="/hook/a"),
    Request(name="options-events", method="OPTIONS", path="/events"),
    Request(name="options-stats", method="OPTIONS", path="/stats"),
    Request(name="options-static", method="OPTIONS", path="/static/a.txt"),
    Request(name="options-app", method="OPTIONS", path="/app", app=True),
    Request(name="options-nowhere", method="OPTIONS", path="/nowhere"),
    Request(name="hook", path="/hook/a/b", low={"x": 1}, token="admin"),
    Request(name="hook-top", path="/hook", low={"x": 1}, token="admin"),
    Request(name="hook-form", path="/hook/a", kind=FORM, body="x=1&arg=2", token="admin"),
    Request(name="hook-text", path="/hook/a", kind="text/plain", body="hello", token="admin"),
    Request(name="hook-yaml", path="/hook/a", low={"x": 1}, token="admin", accept=YAML),
    Request(name="hook-none", path="/hook/a", token="admin"),
    Request(name="hook-no-token", path="/hook/a", low={"x": 1}),
    Request(name="hook-bad-json", path="/hook/a", body="{", token="admin"),
    Request(name="hook-other-type", path="/hook/a", kind="image/png", body="x", token="admin"),
    Request(name="hook-no-type", path="/hook/a", kind="", body="x", token="admin"),
    get("hook-get", "/hook/a", token="admin"),
    get("events-no-token", "/events"),
    get("events", "/events", token="admin"),
    get("events-any", "/events", token="admin", accept="text/event-stream"),
    Request(name="events-head", method="HEAD", path="/events", token="admin"),
    Request(name="events-post", path="/events", token="admin", low={}),
    get("ws-no-token", "/ws"),
    get("ws-no-token-upgrade", "/ws", headers=UPGRADE),
    get("ws-bad-token", "/ws/" + "0" * 40, headers=UPGRADE),
    get("ws-plain", "/ws", token="admin"),
    get("ws", "/ws", token="admin", headers=UPGRADE),
    get("stats", "/stats", token="admin"),
    get("stats-no-token", "/stats"),
    Request(name="stats-post", path="/stats", token="admin", low={}),
    get("static", "/static/a.txt"),
    get("static-token", "/static/a.txt", token="admin"),
    get("static-css", "/static/sub/b.css", accept="text/css"),
    get("static-json", "/static/c.json", accept="*/*"),
    get("static-slash", "/static/a.txt/"),
    get("static-directory", "/static/sub"),
    get("static-missing", "/static/nosuch"),
    get("static-top", "/static"),
    Request(name="static-head", method="HEAD", path="/static/a.txt"),
    Request(name="static-post", path="/static/a.txt", low={}),
    get("app", "/app", app=True, accept="text/html"),
    get("app-json", "/app", app=True),
    get("app-deep", "/app/a/b", app=True, accept="text/html"),
    Request(name="app-head", method="HEAD", path="/app", app=True),
    Request(name="app-post", path="/app", app=True, low={}),
    get("app-root", "/", app=True, accept="text/html"),
    get("app-minions", "/minions", app=True, accept="text/html,*/*;q=0.8"),
    get("app-root-json", "/", app=True),
    get("app-not", "/app"),
]  # fmt: skip
