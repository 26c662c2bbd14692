"""
Records what a stock salt-api answers to calls of C{tests/web/calls.py}.

    python tests/record.py web NAME...

Without names it records those that have no recording yet. There is a master, and no minion: calls
that ask minions were recorded with simulated ones, and are refused here. Those of C{/ws} need
C{ws4py} in the venv of stock.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.harness import Daemon, StockMaster, reserve_ports, until, write_config
from tests.web.calls import APP, CALLS, CLIENTS, FILES, RULES, USERS, Request

RECORDED = Path(__file__).with_name("recorded-3008.2.json")
ALWAYS = {"server", "date", "content-length", "vary", "connection", "transfer-encoding"}
"""Headers that are in no recording."""


def asks_minions(call: Request) -> bool:
    """Whether somebody but the master has to answer it."""
    asked = call.path.startswith("/minions") and not call.app
    return asked or '"local' in call.content().decode()


def answer(port: int, call: Request, token: str) -> dict[str, Any]:
    """Make a call; its status, type, names of headers and what is said."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    content = call.content()
    told = {"Accept": call.accept or "", "X-Auth-Token": token, **call.headers}
    if content or call.method == "POST":
        told["Content-Length"] = str(len(content))
    if content:
        told["Content-Type"] = call.kind
    connection.putrequest(call.method, call.path, skip_accept_encoding=True)
    for name, text in told.items():
        if text:
            connection.putheader(name, text)
    connection.endheaders(content or None)
    reply = connection.getresponse()
    kind = reply.getheader("content-type")
    streams = str(kind).startswith("text/event-stream") and call.method == "GET"
    text = (reply.readline() if streams else reply.read()).decode("utf-8", "replace")
    names = {name.lower() for name, _ in reply.getheaders()}
    record = {"status": reply.status, "type": kind, "headers": sorted(names - ALWAYS)}
    if call.method == "OPTIONS":
        record["allow"] = reply.getheader("allow")
    connection.close()
    told = said(text)
    if call.path == "/stats" and reply.status == 200:
        # The figures are of this machine and this minute
        told = {"json": sorted(told["json"]["CherryPy Applications"])}
    return {**record, **told}


def said(text: str) -> dict[str, Any]:
    """The two sentences of a page, what JSON means, or the text."""
    if page := re.search(r"<h2>(.*?)</h2>\s*<p>(.*?)</p>", text, re.S):
        return {"page": [page[1], page[2]]}
    try:
        return {"json": json.loads(text)}
    except ValueError:
        return {"text": text}


def login(port: int, user: str) -> str:
    """The token of a session."""
    given = {"username": user, "password": f"{user}pw", "eauth": "file"}
    call = Request(name="login", path="/login", low=given)
    return str(answer(port, call, "")["json"]["return"][0]["token"])


def begin(home: str, daemons: list[Any]) -> dict[bool, int]:
    """A master with two APIs: without an app and with one; their ports."""
    for name, text in {"users": USERS, "app.html": APP, **FILES}.items():
        path = Path(home, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    block = {
        "host": "127.0.0.1",
        "disable_ssl": True,
        "collect_stats": True,
        "static": os.path.join(home, "static"),
    }
    options = {
        "external_auth": {"file": {"^filename": os.path.join(home, "users"), **RULES}},
        "netapi_enable_clients": CLIENTS,
    }
    ports = dict(zip((False, True), reserve_ports(2), strict=True))
    master = StockMaster(home, "3008", **options, rest_cherrypy={**block, "port": ports[False]})
    daemons.append(master)
    master.up()
    config = yaml.safe_load(Path(master.conf, "master").read_text(encoding="utf-8"))
    app = {**block, "port": ports[True], "app": os.path.join(home, "app.html")}
    write_config(os.path.join(home, "app", "master"), {**config, "rest_cherrypy": app})
    for conf in (master.conf, os.path.join(home, "app")):
        argv = [f"{master.venv}/bin/salt-api", "-c", conf, f"--pid-file={conf}/pid"]
        daemons.append(Daemon("salt-api", argv, master.root, {"PYTHONPATH": ""}))
        daemons[-1].start()
    for port in ports.values():
        until("the API", lambda port=port: not socket.socket().connect_ex(("127.0.0.1", port)))
    return ports


def main(names: list[str]) -> int:
    """The command."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    calls = {call.name: call for call in CALLS}
    names = names or [name for name in calls if name not in recorded["calls"]]
    if wrong := [name for name in names if name not in calls or asks_minions(calls[name])]:
        sys.stderr.write(f"cannot record {', '.join(wrong)}\n")
        return 64
    daemons: list[Any] = []
    with tempfile.TemporaryDirectory() as home:
        try:
            ports = begin(home, daemons)
            tokens = {user: login(ports[False], user) for user in RULES}
            for name in names:
                call = calls[name]
                token = tokens.get(call.token, call.token)
                recorded["calls"][name] = answer(ports[call.app], call, token)
        finally:
            for daemon in reversed(daemons):
                daemon.kill()
    text = json.dumps(recorded, indent=0, sort_keys=True)
    RECORDED.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
