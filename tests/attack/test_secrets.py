"""
What a running master, minion and the commands leave on the disk and in the logs.

One site runs with the worst umask, its log at level trace, a world-writable C{TMPDIR},
and every Python process of it watched by an audit hook (C{watch/sitecustomize.py}); then
it is made to do one of everything. The tests look at what is left.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
from ast import literal_eval
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import msgpack
import zmq
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import TransportClosed
from tests.attack.fleet import WireMinion, put_key
from tests.harness import ROOT, OurMaster, OurMinion, reserve_ports
from tests.wire.recorded import key

CANARY = {
    name: f"canary{number}{name}Zx9"
    for number, name in enumerate(
        ("pillar", "url", "argument", "environment", "stdin", "option", "event", "mine", "cached",
         "script", "file", "grain", "failure", "extra", "login")
    )
}  # fmt: skip
RANDOM = re.compile(r"[0-9a-f]{16}|/[a-z0-9_]{8}$")
"""
What is in a name that L{saltwisted.worker.freshfile} and L{saltwisted.stores.files} draw, and what
Python itself draws to see whether a directory can be written to.
"""
URL = f"http://bob:{CANARY['url']}@127.0.0.1:1/secret.txt"


class Site:
    """A master and a minion that have done one of everything, and are stopped; made once."""

    _made: Site | None = None

    @classmethod
    def made(cls) -> Site:
        """The one."""
        if cls._made is None:
            cls._made = cls()
        return cls._made

    def __init__(self) -> None:
        self.home = tempfile.mkdtemp(prefix="swt", dir="/tmp")
        atexit.register(shutil.rmtree, self.home, ignore_errors=True)
        os.chmod(self.home, 0o755)
        self.tmp = os.path.join(self.home, "tmp")
        os.mkdir(self.tmp)
        os.chmod(self.tmp, 0o1777)
        self.watch = os.path.join(self.home, "watch.log")
        self._run()

    def _watched(self, daemon: Any) -> None:
        daemon.env.update(
            PYTHONPATH=f"{ROOT}/tests/attack/watch:{ROOT}",
            SALTWISTED_WATCH=self.watch,
            TMPDIR=self.tmp,
        )

    def _run(self) -> None:
        open(self.watch, "w").close()
        options = {
            "log_level": "trace",
            "log_level_logfile": "trace",
            "my_password": CANARY["option"],
        }
        users = os.path.join(self.home, "users")
        with open(users, "w", encoding="utf-8") as file:
            file.write(f"fred:{CANARY['login']}\n")
        os.chmod(users, 0o600)
        (self.port,) = reserve_ports(1)
        top = os.path.join(self.home, "master")
        self.master = OurMaster(
            self.home,
            auto_accept=True,
            pillar_cache=True,
            netapi_enable_clients=["local"],
            rest_twisted={
                "host": "127.0.0.1",
                "port": self.port,
                "disable_ssl": True,
                "log_access_file": f"{top}/access.log",
                "log_error_file": f"{top}/error.log",
            },
            external_auth={"file": {"^filename": users, "fred": ["test.*", "@runner"]}},
            **options,
        )
        self.minion = OurMinion(
            self.home, self.master, grains={"secret": CANARY["grain"]}, **options
        )
        for daemon in (self.master, self.minion):
            self._watched(daemon)
        self._fill()
        put_key(self.master.pki, "spy", key("minion"))
        self.given = self._walk()
        self.events: list[dict[str, Any]] = []
        self.done: dict[str, subprocess.CompletedProcess[str]] = {}
        umask = os.umask(0)
        try:
            self.master.up()
            listener = threading.Thread(target=self._listen, daemon=True)
            listener.start()
            self._learn_keys()
            self.minion.up()
            self.master.ping_until("ours")
            self._work()
            self.minion.stop()
            self.master.stop()
            listener.join(10)
        finally:
            os.umask(umask)
            self.minion.kill()
            self.master.kill()
        self.left = self._walk()

    def _fill(self) -> None:
        def put(folder: str, name: str, text: str) -> None:
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as handle:
                handle.write(text)

        put(self.master.pillar_root, "top.sls", "base:\n  '*': [secret, broken]\n")
        put(self.master.pillar_root, "secret.sls", f"password: {CANARY['pillar']}\n")
        put(
            self.master.pillar_root,
            "broken.sls",
            f"{{% set password = '{CANARY['extra']}' %}}\nx: {{{{ nothing.there }}}}\n",
        )
        put(self.master.file_root, "s.sh", "#!/bin/sh\necho script $1\n")
        put(self.master.file_root, "t.j2", "password {{ pillar['password'] }}\n")
        put(self.master.file_root, "secret.txt", CANARY["file"])

    def _walk(self) -> dict[str, os.stat_result]:
        return {
            path: os.lstat(path)
            for daemon in (self.master, self.minion)
            for folder, folders, files in os.walk(daemon.root)
            for path in (os.path.join(folder, name) for name in (*folders, *files))
        }

    def _listen(self) -> None:
        with contextlib.suppress(TransportClosed), self.master.events("") as stream:
            for event in stream:
                self.events.append(event)

    def _learn_keys(self) -> None:
        """A minion that has signed in knows the publish key and a session key."""
        with zmq.Context() as context:
            spy = WireMinion(context, self.master.ret_port, "spy")
            spy.sign_in()
            assert spy.publish_key is not None
            assert spy.session is not None
            self.keys = {"publish key": spy.publish_key.text, "session key": spy.session.text}
            spy.ask("_minion_event", tag="my/spy", data={"x": 1})
            spy.asker.close()

    def _salt(self, *args: str) -> None:
        number = len(self.done)
        self.done[f"{number} salt {args[0]}"] = self.master.command("salt", "ours", *args)

    def _command(self, name: str, *args: str) -> None:
        self.done[f"{len(self.done)} {name} {args}"] = self.master.command(name, *args)

    def _work(self) -> None:
        out = os.path.join(self.home, "ours", "out")
        os.mkdir(out, 0o700)
        self._salt("pillar.items")
        self._salt("saltutil.refresh_pillar")
        self._salt("grains.items")
        self._salt("grains.setval", "colour", CANARY["grain"])
        self._salt("cmd.run", f"echo {CANARY['argument']}", "output_loglevel=quiet")
        self._salt("cmd.run", f"no-such-program {CANARY['failure']}", "output_loglevel=quiet")
        self._salt("cmd.run", "cat", f"stdin={CANARY['stdin']}", "output_loglevel=quiet")
        self._salt(
            "cmd.run",
            "true",
            f"env={{'PASSWORD': '{CANARY['environment']}'}}",
            "output_loglevel=quiet",
        )
        for _ in (1, 2):
            self._salt("cmd.script", "salt://s.sh", CANARY["script"], "output_loglevel=quiet")
            self._salt("cp.get_template", "salt://t.j2", f"{out}/t")
        self._salt("cp.get_file", "salt://secret.txt", f"{out}/s")
        self._salt("cp.cache_file", "salt://secret.txt")
        self._salt("cp.get_url", URL, f"{out}/u")
        self._salt("cp.cache_file", URL)
        self._salt("file.write", f"{out}/w", "one\ntwo")
        self._salt("file.replace", f"{out}/w", "one", "three")
        self._salt("mine.send", "password", "mine_function=test.echo", CANARY["mine"])
        self._salt("event.send", "my/tag", f"{{'password': '{CANARY['event']}'}}")
        self._salt("schedule.add", "job1", "function=test.ping", "seconds=3600")
        self._salt("schedule.save")
        self._salt("saltutil.sync_all")
        self._salt("test.no_such_function", CANARY["failure"])
        self._command("salt-key", "-L")
        self._command("salt-key", "-F")
        self._command("salt-run", "jobs.list_jobs")
        self._command("salt-run", "cache.pillar")
        self._log_in()
        self._log_in_by_http()
        source = os.path.join(out, "s")
        self._command("salt-cp", "ours", source, f"{out}/copied")
        self._command("salt-key", "-y", "-d", "spy")
        self._command("salt-key", "--gen-keys=fresh", f"--gen-keys-dir={self.tmp}")
        self._command("backup", os.path.join(self.tmp, "backup.tgz"))
        self.modes = {
            name: stat.S_IMODE(os.stat(os.path.join(self.tmp, name)).st_mode)
            for name in os.listdir(self.tmp)
        }
        for name in self.modes:
            os.unlink(os.path.join(self.tmp, name))
        for args in (
            ["pillar.items"],
            ["--local", "test.ping"],
            ["cp.get_file", "salt://s.sh", f"{out}/c"],
        ):
            done = subprocess.run(
                [*self.master_python(), "salt-call", "-c", self.minion.conf, *args],
                env=self.minion.env, capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            self.done[f"{len(self.done)} salt-call {args}"] = done
        self.status = json.dumps(
            [c.call("status") for c in (self.master.control(), self._minion_control())], default=str
        )

    def _log_in(self) -> None:
        """By password and by token, right and wrong; the tokens join what must not be seen."""
        user = ("-a", "file", "--username", "fred", "--password")
        self.master.env["HOME"] = self.home
        self._command("salt", *user, CANARY["login"], "-T", "ours", "test.ping")
        self._command("salt", "-a", "file", "ours", "test.ping")
        self._command("salt-run", *user, CANARY["login"], "test.arg", "a")
        wrong = CANARY["login"] + "x"
        self.master.command("salt", *user, wrong, "ours", "test.ping")
        login = ("eauth=file", "username=fred", f"password={CANARY['login']}")
        made = self.master.run("auth.mk_token", *login)["token"]
        with open(os.path.join(self.home, "salt_token"), encoding="ascii") as file:
            self.keys.update({"kept token": file.read(), "made token": made})
        self._command("salt-run", "auth.del_token", made)

    def _log_in_by_http(self) -> None:
        """The same by the API, which writes files of its own."""
        api = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        form = urlencode({"eauth": "file", "username": "fred", "password": CANARY["login"]})
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        api.request("POST", "/login", form, kind)
        token = json.load(api.getresponse())["return"][0]["token"]
        self.keys["session"] = token
        api.request("GET", f"/ws/{token}?token={token}")
        api.getresponse().read()
        api.close()

    @staticmethod
    def master_python() -> list[str]:
        """How a command is run."""
        import sys

        return [sys.executable, "-m", "saltwisted.cli.main"]

    def _minion_control(self) -> Any:
        from saltwisted.worker.control import ControlClient

        return ControlClient(path=f"{self.minion.root}/var/run/salt/minion/saltwisted.sock")

    def logs(self) -> dict[str, str]:
        """All log files."""
        found = {}
        for path in self.left:
            if "/var/log/" in path or path.endswith(".log"):
                with contextlib.suppress(IsADirectoryError), open(path, errors="replace") as handle:
                    found[path] = handle.read()
        return found


class Secrets(SynchronousTestCase):
    """What is left."""

    def setUp(self) -> None:
        """The site, made once."""
        self.site = Site.made()

    def test_everything_was_done(self) -> None:
        """The commands did what they were for; else the other tests would see nothing."""
        failed = {n: d.stdout + d.stderr for n, d in self.site.done.items() if d.returncode}
        expected = ("no_such_function", "get_url", "cache_file", "cmd.run")
        self.assertEqual({n: t for n, t in failed.items() if not any(e in n for e in expected)}, {})
        text = "".join(d.stdout for d in self.site.done.values())
        for name in ("pillar", "argument", "stdin", "script", "grain"):
            self.assertIn(CANARY[name], text, name)
        tags = [event["tag"] for event in self.site.events]
        self.assertIn("my/tag", tags)
        self.assertGreater(len(tags), 40)

    def test_T_LOG_1(self) -> None:
        """At level trace no log, status or event (returns aside) has a secret."""
        logs = self.site.logs()
        self.assertGreaterEqual(len(logs), 4)
        self.assertGreater(sum(map(len, logs.values())), 2000)
        self.assertIn("DEBUG", "".join(logs.values()))
        texts = {**logs, "status": self.site.status}
        # A job's arguments are in its own event, by Salt's contract, as what was returned is in
        # its return's; and an event's own data is for everybody who listens
        for event in self.site.events:
            tag = event["tag"]
            if not re.fullmatch(r"salt/job/\d+/(new|ret/ours)|salt/run/\d+/ret|\d+|my/tag", tag):
                texts[f"event {tag}"] = json.dumps(event["data"], default=repr)
        secrets = {**CANARY, **self.site.keys, **self._files()}

        for where, text in texts.items():
            for name, secret in secrets.items():
                at = text.find(secret)
                self.assertEqual(at, -1, f"{name} in {where}: {text[max(at - 300, 0) : at + 100]}")

    def test_T_LOG_1_stored(self) -> None:
        """Passwords and tokens are in no file: not in a job's record, not in a token's own file."""
        arguments = {path for path, text in self._stored() if CANARY["argument"].encode() in text}
        self.assertTrue(any("jobs.sqlite" in path for path in arguments), "the search sees records")
        secrets = {name: self.site.keys[name] for name in ("kept token", "made token", "session")}
        secrets["login"] = CANARY["login"]

        for path, text in self._stored():
            for name, secret in secrets.items():
                self.assertNotIn(secret.encode(), text, f"{name} in {path}")

    def _stored(self) -> Iterator[tuple[str, bytes]]:
        """Every file that master and minion have left, path and content."""
        for path, info in self.site.left.items():
            if stat.S_ISREG(info.st_mode) and path not in self.site.given:
                with open(path, "rb") as file:
                    yield path, file.read()

    def _files(self) -> dict[str, str]:
        """Secrets that lie in files: private keys, user keys, what sessions are derived from."""
        found = {}
        for path, info in self.site.left.items():
            if path.endswith("/session_secret"):
                with open(path, "rb") as packed:
                    for version, value, _ in msgpack.unpackb(packed.read(), raw=False):
                        found[f"{path} {version} in hexadecimal"] = value.hex()
                        found[f"{path} {version} in base64"] = b64encode(value).decode()
            elif stat.S_ISREG(info.st_mode) and (
                path.endswith((".pem", "_key")) or "/sessions/" in path
            ):
                with open(path) as handle:
                    lines = [line for line in handle.read().split() if len(line) > 40]
                found[path] = lines[min(1, len(lines) - 1)]
        self.assertGreaterEqual(len(found), 4)
        return found

    def test_T_FS_1(self) -> None:
        """With umask 000 nothing is readable by others but public keys, or writable by any."""
        wrong = []
        for path, info in self.site.left.items():
            if (
                path in self.site.given
                or "/ours/out" in path
                or path.endswith(("master/master.log", "ours/ours.log"))
            ):
                continue
            mode = stat.S_IMODE(info.st_mode)
            if stat.S_ISDIR(info.st_mode):
                secret = any(part in path for part in ("/pki", "/var/cache/"))
                if mode & (0o077 if secret else 0o022):
                    wrong.append(f"{mode:o} {path}/")
            elif stat.S_ISSOCK(info.st_mode):
                if not path.endswith("/saltwisted.sock"):
                    wrong.append(f"socket {path}")
            elif stat.S_ISREG(info.st_mode):
                public = path.endswith(".pub") or "/pki/master/minions" in path
                if mode & (0o022 if public else 0o027):
                    wrong.append(f"{mode:o} {path}")
            elif stat.S_ISLNK(info.st_mode):
                wrong.append(f"link {path}")
        self.assertEqual(wrong, [])
        self.assertGreater(len(self.site.left) - len(self.site.given), 40)
        for name in ("master.pem", "minion.pem", ".root_key", "jobs.sqlite"):
            (path,) = [p for p in self.site.left if p.endswith("/" + name)]
            self.assertIn(stat.S_IMODE(self.site.left[path].st_mode), (0o400, 0o600), path)
        logs = {os.path.basename(path) for path in self.site.logs()}
        self.assertLessEqual({"access.log", "error.log"}, logs)
        modes = self.site.modes
        self.assertEqual(modes["backup.tgz"], 0o600, "it holds every private key")
        self.assertIn(modes["fresh.pem"], (0o400, 0o600))

    def test_T_TMP_1(self) -> None:
        """In directories that anybody may write to, files are made exclusively, by random names."""
        with open(self.site.watch) as handle:
            lines = [line.rstrip("\n").split("\t") for line in handle]
        made: Counter[str] = Counter()
        mine: set[tuple[str, str]] = set()
        drawn: set[tuple[str, str]] = set()
        wrong: list[str] = []
        renamed: list[str] = []
        for pid, event, flags, parent, quoted in lines:
            path = literal_eval(quoted)
            if not int(parent, 8) & 0o002 or path in self.site.given:
                continue
            if event.startswith("tempfile."):
                drawn.add((pid, path))
            elif event == "os.mkdir" or int(flags) & os.O_EXCL:
                made[path] += 1
                mine.add((pid, path))
                if (pid, path) not in drawn and not RANDOM.search(path):
                    wrong.append(f"{event} {path}: by a name that can be known before")
            elif event == "os.rename":
                # It replaces what lies there, and follows no link
                renamed.append(path)
            elif (pid, path) not in mine:
                wrong.append(f"{event} {path}")
        self.assertEqual(wrong, [])
        self.assertEqual({path: n for path, n in made.items() if n > 1}, {})
        # cmd.script and templates use such files, twice each; keys and the backup are put there
        self.assertGreaterEqual(len(made), 5)
        names = {os.path.basename(path) for path in renamed}
        self.assertEqual(names, {"backup.tgz", "fresh.pem", "fresh.pub"})
        self.assertEqual(os.listdir(self.site.tmp), [])
        self.assertGreater(len(lines), 200)
