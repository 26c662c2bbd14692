"""
Our minion, as a real process, under stock salt-masters 3006 and 3008 and under ours.

The same things are asked of it by the command of whichever master it is under.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import (
    ROOT,
    OurMaster,
    OurMinion,
    StockMaster,
    needs_peers,
    scratch,
    until,
)

MIB = 1024 * 1024
STOCK = ("3006", "3008")
MASTERS = (*STOCK, "ours")
TARGETING = """
import json, sys
import salt.client

local = salt.client.LocalClient(sys.argv[1])
found = [
    {k: v for k, v in local.cmd(tgt, "test.ping", tgt_type=kind).items() if k == "ours"}
    for tgt, kind in (
        ("ou*", "glob"), ("^ours$", "pcre"), (["ours", "other"], "list"), ("role:web", "grain"),
        ("deep:list:two", "grain"), ("role:^w", "grain_pcre"), ("greeting:hello", "pillar"),
        ("greeting:^h", "pillar_pcre"), ("127.0.0.0/8", "ipcidr"), ("web", "nodegroup"),
        ("( G@role:web and not E@x.* ) or L@other", "compound"), ("I@deep:er:2", "compound"),
    )
]
nobody = [
    local.cmd(tgt, "test.ping", tgt_type=kind)
    for tgt, kind in (("not ours", "compound"), ("role:db", "grain"), ("^our$", "pcre"))
]
print()
print(json.dumps([found, nobody]))
"""
SCRIPT = """
import json, sys
import salt.client, salt.config, salt.runner, salt.utils.jid, salt.wheel

local = salt.client.LocalClient(sys.argv[1])
found = {}
found["cmd"] = local.cmd("*", "test.ping")
found["words"] = {
    k: [v["args"], {w: x for w, x in v["kwargs"].items() if not w.startswith("__")}]
    for k, v in local.cmd("*", "test.arg", ["a", 1], kwarg={"b": [2]}).items()
}
found["list"] = local.cmd(["ours", "other"], "test.echo", ["x"], tgt_type="list")
found["list"] = {k: v.partition("salt-run")[0] for k, v in found["list"].items()}
found["full"] = {
    k: {w: v[w] for w in ("ret", "retcode")}
    for k, v in local.cmd("*", "cmd.run", ["exit 3"], full_return=True).items()
}
found["several"] = local.cmd("*", ["test.ping", "test.echo"], [[], ["y"]])
found["nobody"] = local.cmd("nobody*", "test.ping")
found["iter"] = [sorted((k, v["ret"]) for k, v in each.items())
                 for each in local.cmd_iter("*", "test.echo", ["z"])]
found["subset"] = local.cmd_subset("*", "test.ping", subset=1)
job = local.run_job("*", "test.echo", ["later"])
found["job"] = [sorted(job["minions"]), len(job["jid"])]
found["returns"] = [
    sorted((k, v["ret"]) for k, v in each.items())
    for each in local.get_cli_returns(job["jid"], job["minions"], timeout=15) if each
]
wanted = salt.utils.jid.gen_jid(salt.config.master_config(sys.argv[1]))
found["jid"] = local.cmd("ours", "test.echo", ["own"], jid=wanted)
found["kept"] = sorted(local.get_cache_returns(wanted))
found["async"] = len(local.cmd_async("*", "test.ping"))
opts = salt.config.master_config(sys.argv[1])
found["opts"] = [opts["publish_port"] > 0, opts["id"] != ""]
found["runner"] = salt.runner.RunnerClient(opts).cmd("test.arg", ["r"], kwarg={"k": 1})
found["wheel"] = salt.wheel.WheelClient(opts).call_func("key.list", match="acc")
print()
print(json.dumps(found, default=str))
"""


class Place:
    """One master with one accepted minion of ours; made once per kind of master."""

    _made: dict[str, Place] = {}

    def __init__(self, kind: str) -> None:
        self.home = tempfile.mkdtemp(prefix="swt", dir="/tmp")
        atexit.register(self.close)
        self.minion: OurMinion | None = None
        options: dict[str, Any] = {"nodegroups": {"web": "G@role:web"}, "peer": {".*": ["test.*"]}}
        self.master: Any = (
            OurMaster(self.home, **options)
            if kind == "ours"
            else StockMaster(self.home, kind, **options)
        )
        self._fill()
        self.master.up()
        self.minion = OurMinion(self.home, self.master, mine_functions={"test.arg": ["mined"]})
        self.minion.up()
        self.master.accept(self.minion.id)
        self.minion.wait_for_line("connected to master")
        until("the first answer", self._answers)

    def _answers(self) -> bool:
        assert self.minion is not None
        done = self.master.command("salt", "-t", "3", self.minion.id, "test.ping", "--out", "json")
        return '"ours": true' in done.stdout

    def _fill(self) -> None:
        self.files = {
            "empty": b"",
            "one": b"1",
            "sub/dir/a.txt": b"a\n",
            "sub/dir/b.txt": b"b\n",
            "big": os.urandom(MIB) * 200,
            "_modules/mine_own.py": b"def hello(name='x'):\n    return 'hello ' + name\n",
        }
        for name, data in self.files.items():
            path = os.path.join(self.master.file_root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as handle:
                handle.write(data)
        with open(os.path.join(self.master.pillar_root, "top.sls"), "w") as handle:
            handle.write("base:\n  '*':\n    - common\n")
        with open(os.path.join(self.master.pillar_root, "common.sls"), "w") as handle:
            handle.write("greeting: hello\nwho: {{ grains['id'] }}\ndeep: {er: [1, 2]}\n")

    def script(self, text: str) -> Any:
        """What a script prints as JSON that is run beside the master, with its C{salt}."""
        ours = isinstance(self.master, OurMaster)
        first = "import saltwisted.client\n" if ours else ""
        python = sys.executable if ours else f"{self.master.venv}/bin/python"
        done = subprocess.run(
            [python, "-W", "ignore", "-c", first + text, os.path.join(self.master.conf, "master")],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": ROOT if ours else ""},
        )
        if done.returncode:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    @classmethod
    def get(cls, kind: str) -> Place:
        """The place, made at the first call."""
        if kind not in cls._made:
            cls._made[kind] = Place(kind)
        return cls._made[kind]

    def close(self) -> None:
        """End what was started."""
        if self.minion is not None:
            self.minion.kill()
        self.master.kill()
        shutil.rmtree(self.home, ignore_errors=True)


@needs_peers
class OurMinionTests(SynchronousTestCase):
    """What users do with minions, with ours, under each master."""

    def each(self) -> list[Place]:
        """Every master with our minion under it."""
        return [Place.get(kind) for kind in MASTERS]

    def test_ping(self) -> None:
        """It answers a ping."""
        for place in self.each():
            self.assertEqual(place.master.salt("*", "test.ping"), {"ours": True})

    def test_scripts(self) -> None:
        """A script with C{salt.client} beside our master says what it says beside stock's."""

        def said() -> Any:
            # Stock's client misses a return that comes just before it listens
            answers = Place.get("3008").script(SCRIPT)
            return answers if answers["returns"] else None

        stock = until("stock's client to see a return", said)
        ours = Place.get("ours").script(SCRIPT)
        self.assertEqual(ours, stock)
        self.assertEqual(stock["cmd"], {"ours": True})

    def test_targets(self) -> None:
        """
        It is found by every type of target, and not by targets of others. Stock's masters are asked
        by one script, since a command of stock's takes seconds to start.
        """
        for kind in STOCK:
            found, nobody = Place.get(kind).script(TARGETING)
            self.assertEqual(found, [{"ours": True}] * len(found), kind)
            self.assertEqual((len(found), nobody), (12, [{}, {}, {}]), kind)
        master = Place.get("ours").master
        for words in (
            ["ou*"], ["-E", "^ours$"], ["-L", "ours,other"], ["-G", "role:web"],
            ["-G", "deep:list:two"], ["-P", "role:^w"], ["-I", "greeting:hello"],
            ["-J", "greeting:^h"], ["-S", "127.0.0.0/8"], ["-N", "web"],
            ["-C", "( G@role:web and not E@x.* ) or L@other"], ["-C", "I@deep:er:2"],
        ):  # fmt: skip
            self.assertEqual(master.salt(*words, "test.ping"), {"ours": True}, words)
        for words in (["-C", "not ours"], ["-G", "role:db"], ["-E", "^our$"]):
            done = master.command("salt", *words, "test.ping")
            self.assertIn("No minions matched the target", done.stdout, words)

    def test_cmd_run(self) -> None:
        """It runs commands, with output and return code as stock gives them."""
        for place in self.each():
            self.assertEqual(place.master.salt("*", "cmd.run", "echo $((6*7))"), {"ours": "42"})
            everything = place.master.salt("*", "cmd.run_all", "echo a; echo b >&2; exit 3")["ours"]
            self.assertEqual(everything["retcode"], 3)
            self.assertEqual((everything["stdout"], everything["stderr"]), ("a", "b"))
            self.assertEqual(place.master.command("salt", "*", "cmd.run", "false").returncode, 1)

    def test_files(self) -> None:
        """Files of no byte, one byte and 200 MiB arrive whole, and directories with them."""
        for place in self.each():
            for name in ("empty", "one", "big"):
                path = os.path.join(place.home, f"got.{name}")
                got = place.master.salt("*", "-t", "60", "cp.get_file", f"salt://{name}", path)
                self.assertEqual(got, {"ours": path})
                with open(path, "rb") as handle:
                    digest = hashlib.file_digest(handle, "sha256").hexdigest()
                self.assertEqual(digest, hashlib.sha256(place.files[name]).hexdigest())
            target = os.path.join(place.home, "dir")
            os.makedirs(target, exist_ok=True)
            got = place.master.salt("*", "cp.get_dir", "salt://sub/dir", target)["ours"]
            self.assertEqual(sorted(got), [f"{target}/dir/a.txt", f"{target}/dir/b.txt"])
            self.assertEqual(
                place.master.salt("*", "cp.get_file", "salt://nope", f"{target}/nope"), {"ours": ""}
            )

    def test_pillar(self) -> None:
        """It gets its pillar, and a changed one after a refresh."""
        expected = {"greeting": "hello", "who": "ours", "deep": {"er": [1, 2]}}
        for place in self.each():
            got = place.master.salt("*", "pillar.items", "unmask=True")["ours"]
            self.assertEqual(got, expected)
            path = os.path.join(place.master.pillar_root, "common.sls")
            with open(path, "a") as handle:
                handle.write("later: 1\n")
            place.master.salt("*", "saltutil.refresh_pillar", "wait=True")
            got = place.master.salt("*", "pillar.get", "later", "unmask=True")
            self.assertEqual(got, {"ours": 1})
            with open(path) as handle:
                text = handle.read()
            with open(path, "w") as handle:
                handle.write(text.replace("later: 1\n", ""))
            place.master.salt("*", "saltutil.refresh_pillar", "wait=True")

    def test_grains(self) -> None:
        """Its grains are those of the machine and of its configuration."""
        for place in self.each():
            items = place.master.salt("*", "grains.items")["ours"]
            self.assertEqual((items["id"], items["kernel"]), ("ours", "Linux"))
            self.assertEqual(items["deep"], {"list": ["one", "two"]})

    def test_custom_module(self) -> None:
        """A module synced from C{_modules} runs."""
        for place in self.each():
            synced = place.master.salt("*", "saltutil.sync_modules")["ours"]
            self.assertIn(synced, (["modules.mine_own"], []))
            got = place.master.salt("*", "mine_own.hello", "name=you")
            self.assertEqual(got, {"ours": "hello you"})

    def test_synced_grains_at_once(self) -> None:
        """A target by a grain that has just been synced finds the minion, and another one not."""
        for number, place in enumerate(self.each()):
            path = os.path.join(place.master.file_root, "_grains", "freshly.py")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as handle:
                handle.write(f"def freshly():\n    return {{'fresh': 'value{number}'}}\n")
            self.assertEqual(
                place.master.salt("*", "saltutil.sync_grains"), {"ours": ["grains.freshly"]}
            )
            found = place.master.salt("-G", f"fresh:value{number}", "test.ping")
            self.assertEqual(found, {"ours": True}, place.master)
            done = place.master.command("salt", "-G", "fresh:other", "test.ping")
            self.assertIn("No minions matched the target", done.stdout)

    def test_mine(self) -> None:
        """It offers mine data, and reads it."""
        for place in self.each():
            place.master.salt("*", "mine.update")
            got = place.master.salt("*", "mine.get", "*", "test.arg")["ours"]
            self.assertEqual(got["ours"]["args"], ["mined"])

    def test_peer_publish(self) -> None:
        """It publishes through the master and gets the returns."""
        for place in self.each():
            got = place.master.salt("*", "publish.publish", "ours", "test.arg", "x", "-t", "20")
            self.assertEqual(got["ours"]["ours"]["args"], ["x"])

    def test_schedule(self) -> None:
        """A scheduled job runs and its return reaches the master's job cache."""
        for place in self.each():
            place.master.salt(
                "*", "schedule.add", "beat", "function=test.arg", "seconds=1", "job_args=['tick']"
            )
            found = until("the scheduled job in the job cache", lambda p=place: self.beats(p))
            place.master.salt("*", "schedule.delete", "beat")
            self.assertIn("test.arg", found)

    def beats(self, place: Place) -> str:
        """The jobs that C{salt-run} lists, as text, once there is one of the schedule."""
        done = place.master.command(
            "salt-run", "jobs.list_jobs", "search_function=test.arg", "search_target=ours"
        )
        return str(done.stdout) if "test.arg" in done.stdout else ""

    def test_running_and_kill(self) -> None:
        """A long job is listed while it runs, found by its jid, and can be killed."""
        for place in self.each():
            done = place.master.command("salt", "--async", "*", "test.sleep", "300", "--out", "txt")
            jid = next(w for w in done.stdout.split() if w.isdigit() and len(w) == 20)
            running = until(
                "the job among the running",
                lambda p=place: p.master.salt("*", "saltutil.running").get("ours"),
            )
            self.assertEqual([job["jid"] for job in running], [jid])
            self.assertEqual(running[0]["fun"], "test.sleep")
            found = place.master.salt("*", "saltutil.find_job", jid)["ours"]
            self.assertEqual(found["jid"], jid)
            place.master.salt("*", "saltutil.kill_job", jid)
            until(
                "the end of the job",
                lambda p=place: p.master.salt("*", "saltutil.running") == {"ours": []},
            )

    def test_events(self) -> None:
        """Events that it sends reach the master's bus."""
        place = Place.get("ours")
        with place.master.events("my/") as events:
            place.master.salt("*", "event.send", "my/tag", "{x: 1}")
            event = next(events)
        self.assertEqual((event["tag"], event["data"]["id"]), ("my/tag", "ours"))
        self.assertEqual(event["data"]["data"]["x"], 1)

    def test_unavailable_function(self) -> None:
        """A function that is not there gives stock's text and a failure."""
        for place in self.each():
            done = place.master.command("salt", "*", "nope.nope", "--out", "json", "--static")
            self.assertEqual(json.loads(done.stdout), {"ours": "'nope.nope' is not available."})
            self.assertEqual(place.master.command("salt", "*", "nope.nope").returncode, 1)

    def test_wrong_arguments(self) -> None:
        """Wrong arguments give stock's text, not a traceback."""
        for place in self.each():
            got = place.master.salt("*", "test.sleep", "1", "2", "3")["ours"]
            self.assertIn("Passed invalid arguments to test.sleep", got)


@needs_peers
class OurMinionDoorTests(SynchronousTestCase):
    """Keys, restarts and rotations under a master that comes and goes."""

    def start(self, kind: str, **options: Any) -> tuple[Any, OurMinion]:
        """A master and a minion of ours."""
        home = scratch(self)
        master: Any = OurMaster(home) if kind == "ours" else StockMaster(home, kind)
        self.addCleanup(master.kill)
        master.up()
        minion = OurMinion(home, master, **options)
        self.addCleanup(minion.kill)
        minion.up()
        return master, minion

    def answers(self, master: Any, minion: OurMinion) -> None:
        """Wait until it answers."""

        def one() -> bool:
            done = master.command("salt", "-t", "3", minion.id, "test.ping", "--out", "json")
            return f'"{minion.id}": true' in done.stdout

        until("an answer", one)

    def refuses(self, master: Any, minion: OurMinion) -> bool:
        """Whether it has told that the master's key is another one; a job makes it look."""
        master.command("salt", "-t", "1", minion.id, "test.ping")
        return "minion_master.pub" in minion.text()

    def test_accept_restart_delete(self) -> None:
        """
        It waits for acceptance, serves, finds a killed master again by itself, and waits again
        after its key was deleted.
        """
        for kind in MASTERS:
            master, minion = self.start(kind)
            master.accept(minion.id)
            self.answers(master, minion)
            master.kill()
            master.up()
            self.answers(master, minion)
            master.command("salt-key", "-y", "-d", minion.id)
            path = os.path.join(master.pki, "minions_pre", minion.id)
            if kind == "ours":
                until("the pending key", lambda p=path: os.path.exists(p))
                master.accept(minion.id)
                self.answers(master, minion)
            self.assertTrue(minion.running)
            minion.kill()
            master.kill()

    def test_rejected(self) -> None:
        """A rejected minion of ours does not end: it serves once it is accepted."""
        master, minion = self.start("ours")
        until("the pending key", lambda: minion.id in master.keys()["minions_pre"])
        master.command("salt-key", "-y", "-r", minion.id, check=True)
        minion.wait_for_line("rejected")

        master.command("salt-key", "-y", "-a", minion.id, "--include-rejected", check=True)

        self.answers(master, minion)
        self.assertTrue(minion.running)

    def test_return_waits_for_the_master(self) -> None:
        """A job that ends while the master is away is returned when it is back."""
        master, minion = self.start("ours")
        master.accept(minion.id)
        self.answers(master, minion)
        mark = os.path.join(minion.root, "mark")
        done = master.command(
            "salt", "--async", "*", "cmd.run", f"sleep 2; echo x > {mark}; echo y"
        )
        jid = next(w for w in done.stdout.split() if w.isdigit() and len(w) == 20)
        master.kill()
        until("the end of the job", lambda: os.path.exists(mark))
        master.up()

        found = until("the return", lambda: master.run("jobs.lookup_jid", jid))

        self.assertEqual(found, {minion.id: "y"})

    def test_return_survives_the_minion(self) -> None:
        """A job outlives a killed minion daemon, and the next one returns it."""
        master, minion = self.start("ours")
        master.accept(minion.id)
        self.answers(master, minion)
        mark = os.path.join(minion.root, "mark")
        done = master.command(
            "salt", "--async", "*", "cmd.run", f"sleep 2; echo x > {mark}; echo y"
        )
        jid = next(w for w in done.stdout.split() if w.isdigit() and len(w) == 20)
        until("the job", lambda: master.salt("*", "saltutil.running").get(minion.id))
        os.kill(minion.pid, 9)
        assert minion.process is not None
        minion.process.wait()
        until("the end of the job", lambda: os.path.exists(mark))
        minion.up()

        found = until("the return", lambda: master.run("jobs.lookup_jid", jid))

        self.assertEqual(found, {minion.id: "y"})

    def test_rotation(self) -> None:
        """Our minion reads the first job under a new publish key without signing in again."""
        master, minion = self.start("ours")
        master.accept(minion.id)
        self.answers(master, minion)
        before = master.control().call("status")
        with open(os.path.join(master.pki, "minions_pre", "gone"), "w") as handle:
            handle.write("x")
        master.command("salt-key", "-y", "-d", "gone", check=True)
        until(
            "the rotation",
            lambda: master.control().call("status")["rotations"] > before["rotations"],
        )

        self.assertEqual(master.salt("*", "test.ping"), {minion.id: True})

        after = master.control().call("status")["counters"]
        self.assertEqual(after["signin:accept"], before["counters"]["signin:accept"])

    def test_wrong_master_key(self) -> None:
        """It refuses a master with another key, names both, and goes on trying."""
        for kind in ("ours", "3008"):
            master, minion = self.start(kind)
            master.accept(minion.id)
            self.answers(master, minion)
            master.kill()
            for name in os.listdir(master.pki):
                if name.endswith((".pem", ".pub")):
                    os.unlink(os.path.join(master.pki, name))
            master.up()
            # The session still holds; what shows the change is a job signed with the new key
            until("a connection", lambda m=master, i=minion: self.refuses(m, i))

            self.assertTrue(minion.running)
            minion.kill()
            master.kill()

    def test_master_finger(self) -> None:
        """With C{master_finger} only that master is believed."""
        home = scratch(self)
        master = OurMaster(home)
        self.addCleanup(master.kill)
        master.up()
        done = master.command("salt-key", "-F", "master", "--out", "json", check=True)
        finger = json.loads(done.stdout)["local"]["master.pub"]
        another = ("11:" if finger.startswith("00:") else "00:") + finger[3:]
        wrong = OurMinion(home, master, "wrong", master_finger=another)
        right = OurMinion(home, master, "right", master_finger=finger)
        for minion in (wrong, right):
            self.addCleanup(minion.kill)
            minion.up()
            master.accept(minion.id)

        self.answers(master, right)
        wrong.wait_for_line("master_finger")
        self.assertTrue(wrong.running)
        self.assertFalse(
            os.path.exists(os.path.join(wrong.root, "etc/salt/pki/minion/minion_master.pub"))
        )
