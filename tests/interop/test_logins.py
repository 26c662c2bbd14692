"""
External authentication beside stock 3008: the same options, the same commands and requests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any

from twisted.trial.unittest import TestCase

from tests.harness import (
    OurMaster,
    OurMinion,
    StockMaster,
    StockMinion,
    needs_peers,
    scratch,
    until,
)

ASK = """
import json, sys
import salt.channel.client, salt.config
conf, uri, loads = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
opts = salt.config.client_config(conf)
answers, token = [], ""
for load in loads:
    if load.get("token") == "TOKEN":
        load["token"] = token
    if load.get("kwargs", {}).get("token") == "TOKEN":
        load["kwargs"]["token"] = token
    with salt.channel.client.ReqChannel.factory(opts, crypt="clear", master_uri=uri) as channel:
        answer = channel.send(load)
    if isinstance(answer, dict) and load["cmd"] == "mk_token" and "token" in answer:
        token = answer["token"]
    answers.append(answer)
print(json.dumps(answers))
"""
FRED = {"eauth": "file", "username": "fred", "password": "secret"}
ANN = {"eauth": "file", "username": "ann", "password": "secret2"}
WRONG = {**FRED, "password": "wrong"}


def publish(fun: str, tgt: str = "*", arg: Any = (), **kwargs: Any) -> dict[str, Any]:
    """The load of a publication."""
    load = {"fun": fun, "tgt": tgt, "arg": list(arg), "tgt_type": "glob", "ret": "", "jid": ""}
    return {"cmd": "publish", "user": "root", **load, "kwargs": kwargs}


REQUESTS = (
    publish("test.ping", **FRED),
    publish("test.ping", **WRONG),
    publish("test.ping", **{**FRED, "username": "nobody"}),
    publish("test.ping", **{**FRED, "eauth": "ldap"}),
    publish("cmd.run", arg=["id"], **FRED),
    publish("test.ping", **ANN),
    publish("test.arg", arg=["abc", {"__kwarg__": True, "x": 1}], **ANN),
    publish("test.arg", arg=["abc"], **ANN),
    publish("test.arg", arg=["b", {"__kwarg__": True, "x": 1}], **ANN),
    publish("saltutil.find_job", arg=["x"], **ANN),
    publish("test.ping", eauth="auto", username="eve", password="x"),
    publish("test.echo", arg=["x"], eauth="auto", username="eve", password="x"),
    publish("test.ping", eauth="sharedsecret", username="fred", password="s3"),
    publish("test.ping", eauth="sharedsecret", username="fred", password="s4"),
    {"cmd": "mk_token", **FRED},
    {"cmd": "get_token", "token": "TOKEN"},
    publish("test.ping", token="TOKEN"),
    publish("cmd.run", arg=["id"], token="TOKEN"),
    publish("test.ping", token="0" * 64),
    {"cmd": "runner", "fun": "test.arg", "kwarg": {"arg": [1], "kwarg": {}}, "token": "TOKEN"},
    {"cmd": "runner", "fun": "test.arg", "kwarg": {"arg": [], "kwarg": {}}, **FRED},
    {"cmd": "runner", "fun": "test.arg", "kwarg": {"arg": [], "kwarg": {}}, **ANN},
    {"cmd": "runner", "fun": "jobs.list_jobs", "kwarg": {"arg": [], "kwarg": {}}, **ANN},
    {"cmd": "runner", "fun": "jobs.active", "kwarg": {"arg": [], "kwarg": {}}, **ANN},
    {"cmd": "runner", "fun": "test.arg", "kwarg": {"arg": [], "kwarg": {}}, **WRONG},
    {"cmd": "runner", "fun": "test", "kwarg": {"arg": [], "kwarg": {}}, **FRED},
    {"cmd": "wheel", "fun": "key.list_all", **FRED},
    {"cmd": "wheel", "fun": "key.list_all", **ANN},
    {"cmd": "wheel", "fun": "key.list_all", **WRONG},
    {"cmd": "wheel", "fun": "key.list_all", "token": "0" * 64},
    {"cmd": "mk_token", **WRONG},
    {"cmd": "mk_token", **FRED, "token_expire": 100},
    {"cmd": "rm_token", "token": "TOKEN"},
    publish("test.ping"),
    {**publish("test.ping"), "key": "wrong"},
    {"cmd": "runner", "fun": "test.arg", "kwarg": {}, "user": "root"},
    {"cmd": "runner", "fun": "test.arg", "kwarg": {}, "user": "root", "key": "wrong"},
    {"cmd": "wheel", "fun": "key.list_all", "user": "root", "key": "wrong"},
    {"cmd": "_prep_auth_info"},
)

AS_FRED = ("-a", "file", "--username", "fred", "--password")
AS_ANN = ("-a", "file", "--username", "ann", "--password")
COMMANDS: tuple[tuple[tuple[str, ...], tuple[int, int]], ...] = (
    # the words; the exit status of stock and of ours, which tells a refusal
    (("salt", *AS_FRED, "secret", "s1", "test.ping"), (0, 0)),
    (("salt", *AS_FRED, "bad", "s1", "test.ping"), (0, 2)),
    (("salt", *AS_FRED, "secret", "s1", "cmd.run", "id"), (0, 2)),
    (("salt", *AS_ANN, "secret2", "s1", "test.ping"), (0, 0)),
    (("salt-run", "auth.mk_token", "eauth=file", "username=fred", "password=bad"), (0, 0)),
    (("salt-run", *AS_FRED, "secret", "test.arg", "a"), (0, 0)),
)


@needs_peers
class LoginsBesideStock(TestCase):
    """One stock master and one of ours with the same options, each with a minion C{s1}."""

    timeout = 900

    def setUp(self) -> None:
        self.home = scratch(self)
        users = os.path.join(self.home, "users")
        with open(users, "w", encoding="utf-8") as file:
            file.write("fred:secret\nann:secret2\n")
        limits = {"test.arg": {"args": ["a.*"], "kwargs": {"x": "1"}}}
        options: dict[str, Any] = {
            "auto_accept": True,
            "sharedsecret": "s3",
            "token_expire_user_override": True,
            "external_auth": {
                "file": {
                    "^filename": users,
                    "fred": ["test.*", "@runner", "@wheel"],
                    "ann": [{"s*": ["test.ping", limits]}, {"@jobs": ["list_jobs"]}],
                },
                "auto": {"*": ["test.ping"], "grp%": ["test.echo"]},
                "sharedsecret": {"fred": ["test.*"]},
            },
        }
        self.stock = StockMaster(self.home, "3008", **options)
        self.addCleanup(self.stock.kill)
        self.stock.start()
        self.ours = OurMaster(self.home, **options)
        self.addCleanup(self.ours.kill)
        self.ours.up()
        for minion in (
            StockMinion(self.home, "3008", self.stock, "s1"),
            OurMinion(os.path.join(self.ours.root), self.ours, "s1"),
        ):
            self.addCleanup(minion.kill)
            minion.start()
        for master in (self.stock, self.ours):
            until("s1 to answer", lambda m=master: pinged(m))

    def requests(self, master: Any) -> list[Any]:
        """What a master answers to all requests of a stock client."""
        done = subprocess.run(
            [
                f"{self.stock.venv}/bin/python",
                "-c",
                ASK,
                os.path.join(self.stock.conf, "master"),
                f"tcp://127.0.0.1:{master.ret_port}",
                json.dumps(REQUESTS),
            ],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=self.home,
            check=False,
        )
        try:
            return list(json.loads(done.stdout.splitlines()[-1]))
        except (ValueError, IndexError):
            raise AssertionError(done.stdout + done.stderr) from None

    def test_requests_and_commands(self) -> None:
        """Answers of the request port are equal but for names of the moment; so is the output."""
        stock, ours = self.requests(self.stock), self.requests(self.ours)
        for load, theirs, answer in zip(REQUESTS, stock, ours, strict=True):
            self.assertEqual(plain(answer), plain(theirs), load)
        made = ours[14]
        self.assertEqual(made["expire"] - made["start"] > 43199, True)

        for words, statuses in COMMANDS:
            name, *args = words
            theirs = self.stock.command(name, *args)
            answer = self.ours.command(name, *args)
            self.assertEqual(answer.stdout.strip(), theirs.stdout.strip(), words)
            self.assertEqual((theirs.returncode, answer.returncode), statuses, words)

    def test_stock_command(self) -> None:
        """Stock's own C{salt -a file --async} runs a job on our master, or is refused."""
        # It looks for this name before it asks, and for nothing behind it
        path = os.path.join(self.ours.root, "var/run/salt/master/publish_pull.ipc")
        with open(path, "w", encoding="ascii"):
            pass
        stock = [f"{self.stock.venv}/bin/salt", "-c", self.ours.conf, "--async", "-a", "file"]

        def run(password: str) -> subprocess.CompletedProcess[str]:
            words = [*stock, "--username", "fred", "--password", password, "s1", "test.ping"]
            return subprocess.run(
                words, capture_output=True, text=True, timeout=120, cwd=self.home, check=False
            )

        done = run("secret")
        found = re.search(r"job ID: (\d{20})", done.stdout)
        assert found is not None, done.stdout + done.stderr
        until(
            "the job's return",
            lambda: self.ours.run("jobs.lookup_jid", found[1]) == {"s1": True},
        )
        self.assertIn("Authentication error occurred.", run("bad").stderr)


def plain(answer: Any) -> Any:
    """An answer without what is another each time."""
    if isinstance(answer, dict):
        moment = ("token", "jid", "tag", "start", "expire", "_stamp", "_expires")
        return {k: k if k in moment and v else plain(v) for k, v in answer.items()}
    if isinstance(answer, list):
        return [plain(item) for item in answer]
    return answer


def pinged(master: Any) -> bool:
    """Whether C{s1} answers this master."""
    return "True" in master.command("salt", "s1", "test.ping").stdout
