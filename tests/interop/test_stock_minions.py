"""
Stock salt-minions 3006, 3007 and 3008, as real processes, under our master.

One master and three minions serve all the tests of a class; what a test changes, it
changes for itself (files and targets of its own name).
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.compat import COMPAT_VERSION_TEXT
from tests.harness import (
    OurMaster,
    OurMinion,
    StockMinion,
    needs_peers,
    scratch,
    until,
    write_config,
)

VERSIONS = ("3006", "3007", "3008")
MIB = 1024 * 1024


class Site:
    """A master of ours with one accepted stock minion of each version; made once."""

    _made: Site | None = None

    def __init__(self) -> None:
        self.home = tempfile.mkdtemp(prefix="swt", dir="/tmp")
        atexit.register(self.close)
        self.master = OurMaster(
            self.home,
            peer={".*": ["test.ping"]},
            nodegroups={"stocks": "stock-*", "web": "G@role:web and stock-300*"},
            mine_interval=1,
        )
        self._fill()
        self.master.up()
        self.minions = {
            version: StockMinion(
                self.home,
                version,
                self.master,
                mine_functions={"test.arg": ["mined"]},
                state_events=True,
            )
            for version in VERSIONS
        }
        for minion in self.minions.values():
            minion.up()
        for minion in self.minions.values():
            self.master.accept(minion.id)
        for minion in self.minions.values():
            self.master.ping_until(minion.id)

    def _fill(self) -> None:
        roots = self.master.file_root
        self.files = {
            "empty": b"",
            "one": b"1",
            "sub/dir/a.txt": b"a\n",
            "sub/dir/b.txt": b"b\n",
            "big": os.urandom(MIB) * 200,
        }
        for name, data in self.files.items():
            path = os.path.join(roots, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as handle:
                handle.write(data)
        with open(os.path.join(roots, "top.sls"), "w") as handle:
            handle.write("base:\n  'stock-*':\n    - web\n")
        with open(os.path.join(roots, "web.sls"), "w") as handle:
            handle.write(
                "{% set name = grains['id'] %}\n"
                "made:\n  file.managed:\n"
                "    - name: {{ opts['root_dir'] }}/made.txt\n"
                "    - source: salt://made.txt.j2\n    - template: jinja\n"
                "ran:\n  cmd.run:\n    - name: echo {{ pillar['greeting'] }}\n"
                "    - require:\n      - file: made\n"
            )
        with open(os.path.join(roots, "secret.sls"), "w") as handle:
            handle.write(
                "told:\n  cmd.run: [{name: 'echo {{ pillar.word }}', fire_event: true}]\n"
                "more:\n  cmd.run: [{name: 'echo {{ pillar.word }} more'}]\n"
            )
        with open(os.path.join(roots, "made.txt.j2"), "w") as handle:
            handle.write("{{ grains['id'] }} {{ pillar['greeting'] }}\n")
        pillar = self.master.pillar_root
        with open(os.path.join(pillar, "top.sls"), "w") as handle:
            handle.write("base:\n  '*':\n    - common\n  'stock-3008':\n    - only8\n")
        with open(os.path.join(pillar, "common.sls"), "w") as handle:
            handle.write("greeting: hello\nwho: {{ grains['id'] }}\ndeep: {er: [1, 2]}\n")
        with open(os.path.join(pillar, "only8.sls"), "w") as handle:
            handle.write("eight: true\n")

    @classmethod
    def get(cls) -> Site:
        """The site, made at the first call."""
        if cls._made is None:
            cls._made = Site()
        return cls._made

    def close(self) -> None:
        """End what was started."""
        for minion in getattr(self, "minions", {}).values():
            minion.kill()
        self.master.kill()
        shutil.rmtree(self.home, ignore_errors=True)


@needs_peers
class StockMinions(SynchronousTestCase):
    """What users do with minions, with stock minions."""

    def setUp(self) -> None:
        self.site = Site.get()
        self.master = self.site.master
        self.ids = [m.id for m in self.site.minions.values()]

    def all(self, value: object) -> dict[str, object]:
        """The same value from every minion."""
        return dict.fromkeys(self.ids, value)

    def test_ping(self) -> None:
        """Every stock minion answers, and the command ends with 0."""
        done = self.master.command("salt", "*", "test.ping", "--out", "json", "--static")

        self.assertEqual(json.loads(done.stdout), self.all(True))
        self.assertEqual(done.returncode, 0)

    def test_targets(self) -> None:
        """Every type of target means the same minions to us and to the minions themselves."""
        cases = [
            (["stock-300[67]"], ["stock-3006", "stock-3007"]),
            (["-E", "stock-(3006|3008)"], ["stock-3006", "stock-3008"]),
            (["-L", "stock-3006,stock-3008"], ["stock-3006", "stock-3008"]),
            (["-G", "role:web"], self.ids),
            (["-G", "deep:list:two"], self.ids),
            (["-P", "role:^w"], self.ids),
            (["-I", "greeting:hello"], self.ids),
            (["-I", "who:stock-3007"], ["stock-3007"]),
            (["-J", "greeting:^hel+o$"], self.ids),
            (["-S", "127.0.0.0/8"], self.ids),
            (["-C", "G@role:web and not stock-3007"], ["stock-3006", "stock-3008"]),
            (["-C", "( stock-3006 or E@.*8$ ) and I@deep:er:1"], ["stock-3006", "stock-3008"]),
            (["-C", "L@stock-3006,stock-3007 and S@127.0.0.1"], ["stock-3006", "stock-3007"]),
            (["-N", "web"], self.ids),
            (["-C", "N@stocks and not stock-3006"], ["stock-3007", "stock-3008"]),
            (["-G", "--delimiter", "|", "deep|list|one"], self.ids),
        ]
        for words, expected in cases:
            answer = self.master.salt(*words, "test.ping")
            self.assertEqual(sorted(answer), sorted(expected), words)

    def test_cmd_run(self) -> None:
        """Shell commands run, and their output and return codes come back."""
        self.assertEqual(self.master.salt("*", "cmd.run", "echo $((6*7))"), self.all("42"))
        done = self.master.command("salt", "stock-3006", "cmd.run", "exit 3")
        self.assertEqual(done.returncode, 1)

    def test_files(self) -> None:
        """Files of no byte, one byte and 200 MiB arrive whole, and directories with them."""
        for name, data in self.site.files.items():
            if "/" in name:
                continue
            path = f"/tmp/{os.path.basename(self.site.home)}.{name}"
            self.addCleanup(_remove, [f"{path}.{i}" for i in self.ids])
            for minion_id in self.ids:
                got = self.master.salt(
                    minion_id, "cp.get_file", f"salt://{name}", f"{path}.{minion_id}", "-t", "60"
                )
                self.assertEqual(got, {minion_id: f"{path}.{minion_id}"})
                self.assertEqual(_sha256(f"{path}.{minion_id}"), hashlib.sha256(data).hexdigest())
        for minion_id in self.ids:
            target = os.path.join(self.site.home, f"dir.{minion_id}")
            os.makedirs(target)
            got = self.master.salt(minion_id, "cp.get_dir", "salt://sub/dir", target)
            self.assertEqual(sorted(got[minion_id]), [f"{target}/dir/a.txt", f"{target}/dir/b.txt"])

    def test_pillar(self) -> None:
        """Each minion gets its own pillar, by target and with its grains."""
        # 3008 masks what its pillar functions show
        items = {
            **self.master.salt("stock-300[67]", "pillar.items"),
            **self.master.salt("stock-3008", "pillar.items", "unmask=True"),
        }

        for minion_id in self.ids:
            expected = {"greeting": "hello", "who": minion_id, "deep": {"er": [1, 2]}}
            if minion_id == "stock-3008":
                expected["eight"] = True
            self.assertEqual(items[minion_id], expected)

    def test_pillar_refresh(self) -> None:
        """A changed pillar file is what a minion gets after a refresh."""
        path = os.path.join(self.master.pillar_root, "common.sls")
        with open(path) as handle:
            before = handle.read()
        self.addCleanup(_write, path, before)
        _write(path, before + "later: 1\n")
        self.master.salt("*", "saltutil.refresh_pillar", "wait=True")

        self.assertEqual(self.master.salt("*", "pillar.get", "later"), self.all(1))

    def test_mine(self) -> None:
        """What one minion puts into the mine another one reads."""
        self.master.salt("*", "mine.update")
        expected = {i: {"args": ["mined"], "kwargs": {}} for i in self.ids}

        got = self.master.salt("stock-3006", "mine.get", "*", "test.arg")["stock-3006"]

        self.assertEqual(sorted(got), sorted(expected))
        for value in got.values():
            self.assertEqual(value["args"], ["mined"])
        gone = self.master.salt("stock-3008", "mine.delete", "test.arg")
        self.assertEqual(gone, {"stock-3008": True})
        got = self.master.salt("stock-3006", "mine.get", "*", "test.arg")["stock-3006"]
        self.assertEqual(sorted(got), ["stock-3006", "stock-3007"])

    def test_events(self) -> None:
        """An event that a minion sends is on our bus with Salt's shape."""
        for minion_id in self.ids:
            with self.master.events(f"my/{minion_id}") as events:
                self.master.salt(minion_id, "event.send", f"my/{minion_id}/tag", "{x: 1}")
                event = next(events)
            self.assertEqual(event["tag"], f"my/{minion_id}/tag")
            self.assertEqual(event["data"]["id"], minion_id)
            self.assertEqual(event["data"]["data"]["x"], 1)

    def test_schedule(self) -> None:
        """A scheduled job of a minion returns to us and is kept."""
        for minion_id in self.ids:
            with self.master.events("salt/job/") as events:
                self.master.salt(
                    minion_id, "schedule.add", "beat", "function=test.arg", "seconds=1",
                    "job_args=['tick']",
                )  # fmt: skip
                tail = f"/ret/{minion_id}"
                event = next(
                    e
                    for e in events
                    if e["tag"].endswith(tail) and e["data"].get("schedule") == "beat"
                )
            self.master.salt(minion_id, "schedule.delete", "beat")
            jid = event["data"]["jid"]
            found = self.master.run("jobs.lookup_jid", jid)
            self.assertEqual(found[minion_id]["args"], ["tick"])

    def test_state_apply(self) -> None:
        """The stock state compiler works from our file server, top file and pillar."""
        for version, minion in self.site.minions.items():
            answer = self.master.salt(minion.id, "state.apply", "-t", "60")[minion.id]
            self.assertIsInstance(answer, dict, answer)
            results = {chunk["__id__"]: chunk["result"] for chunk in answer.values()}
            self.assertEqual(results, {"made": True, "ran": True}, version)
            with open(os.path.join(minion.root, "made.txt")) as handle:
                self.assertEqual(handle.read(), f"{minion.id} hello\n")

    def test_T_LOG_1_progress(self) -> None:
        """
        T-LOG-1: of a job that is marked as secret nobody hears a word, neither while its states run
        nor when they are done; of others one does.
        """
        with self.master.events("salt/") as events:
            for minion_id in self.ids:
                for metadata in ({"no_log": True}, {}):
                    tags, said = [], []
                    client = self.master.control()
                    jid = client.call(
                        "publish", tgt=minion_id, fun="state.apply",
                        arg=["secret", {"pillar": {"word": "canary-5e1"}, "__kwarg__": True}],
                        kwargs={"metadata": metadata},
                    )["jid"]  # fmt: skip
                    client.close()
                    while f"salt/job/{jid}/ret/{minion_id}" not in tags:
                        event = next(events)
                        if jid in event["tag"]:
                            tags.append(event["tag"])
                            said.append(event)
                    self.assertIn(f"salt/job/{jid}/prog/{minion_id}/1", tags)
                    results = [tag for tag in tags if tag.startswith("salt/state_result/")]
                    self.assertEqual(len(results), 1, tags)
                    if metadata:
                        self.assertNotIn("canary", repr(said))
                        self.assertNotIn("canary", repr(self.master.run("jobs.list_job", jid)))
                    else:
                        self.assertIn("canary", results[0])

    def test_salt_call(self) -> None:
        """The stock salt-call gets pillar and files from us, and its return is kept."""
        for minion in self.site.minions.values():
            self.assertIn("greeting", minion.call("pillar.items"))
            self.assertEqual(minion.call("cp.get_file_str", "salt://one"), "1")

    def test_peer_publish(self) -> None:
        """A minion publishes what C{peer} allows, and nothing else."""
        got = self.master.salt("stock-3008", "publish.publish", "stock-3006", "test.ping")
        self.assertEqual(got, {"stock-3008": {"stock-3006": True}})
        got = self.master.salt("stock-3008", "publish.publish", "stock-3006", "cmd.run", "id")
        self.assertFalse(got["stock-3008"])

    def test_batch(self) -> None:
        """A batch reaches everybody, one after another."""
        done = self.master.command("salt", "-b", "1", "*", "test.ping", "--out", "json", "--static")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_runners(self) -> None:
        """The runners know who is up and what ran."""
        self.assertEqual(self.master.run("manage.up"), self.ids)
        self.assertEqual(self.master.run("manage.status"), {"up": self.ids, "down": []})
        self.assertEqual(sorted(self.master.run("manage.present")), self.ids)
        versions = self.master.run("manage.versions")
        # Its venv may have an older release of the series than the one that we answer for
        newest = self.master.salt("stock-3008", "test.version")["stock-3008"]
        is_same = newest == COMPAT_VERSION_TEXT
        group = "Up to date" if is_same else "Minion requires update"
        self.assertIn("stock-3008", versions[group])
        self.assertIn("stock-3006", versions["Minion requires update"])


@needs_peers
class Doors(SynchronousTestCase):
    """Keys, restarts and rotations, each with daemons of its own."""

    def start(self, version: str, **options: object) -> tuple[OurMaster, StockMinion]:
        """A master of ours and one stock minion."""
        home = scratch(self)
        master = OurMaster(home, **options)
        self.addCleanup(master.kill)
        master.up()
        minion = StockMinion(home, version, master)
        self.addCleanup(minion.kill)
        minion.up()
        return master, minion

    def pending(self, master: OurMaster, minion: StockMinion) -> None:
        """Wait for the key."""
        until("the pending key", lambda: minion.id in master.keys()["minions_pre"])

    def wait_for_denied(self, master: OurMaster, minion_id: str) -> None:
        """Wait for a denied key."""
        until("the denied key", lambda: master.keys()["minions_denied"] == [minion_id])

    def test_accept_deny_delete(self) -> None:
        """
        A key waits, is accepted and serves; a second key for its id is denied, and the first minion
        goes on; after its deletion it waits again.
        """
        for version in VERSIONS:
            master, minion = self.start(version)
            self.pending(master, minion)
            minion.wait_for_line("cached the public key")
            master.accept(minion.id)
            master.ping_until(minion.id)
            self.deny(master, minion)

            master.command("salt-key", "-y", "-d", minion.id, check=True)

            self.assertEqual(master.keys()["minions"], [])
            done = master.command("salt", minion.id, "test.ping")
            self.assertIn("No minions matched the target", done.stdout)
            minion.kill()
            minion.up()
            self.pending(master, minion)
            minion.kill()
            master.kill()

    def test_reject(self) -> None:
        """A rejected minion is told so: it says it, and ends, as under a stock master."""
        for version in VERSIONS:
            master, minion = self.start(version)
            self.pending(master, minion)
            master.command("salt-key", "-y", "-r", minion.id, check=True)

            minion.wait_for_line("has rejected this minion's public key", 60)

            minion.kill()
            master.kill()

    def deny(self, master: OurMaster, minion: StockMinion) -> None:
        """Another minion comes with its id."""
        other = StockMinion(master.root, minion.version, master, minion_id=minion.id)
        self.addCleanup(other.kill)
        other.up()
        self.wait_for_denied(master, minion.id)
        master.ping_until(minion.id)
        other.kill()

    def test_full(self) -> None:
        """A full master says so to a new minion, which stays and asks on; others are served."""
        master, first = self.start("3008", max_minions=1, auto_accept=True)
        other = StockMinion(master.root, "3006", master, minion_id="other")
        self.addCleanup(other.kill)
        other.up()
        master.ping_until(first.id)
        master.ping_until(other.id)
        for version in VERSIONS:
            second = StockMinion(master.root, version, master, minion_id=f"second-{version}")
            self.addCleanup(second.kill)
            with master.events("salt/auth") as events:
                second.up()
                event = next(e for e in events if e["data"]["id"] == second.id)
            self.assertEqual((event["data"]["act"], event["data"]["result"]), ("full", False))
            self.assertNotIn(second.id, master.keys()["minions"])
            self.assertTrue(second.running)
            second.kill()

    def test_wrong_master_key(self) -> None:
        """A minion that knows another master's key refuses ours, and goes on trying."""
        for version in VERSIONS:
            master, minion = self.start(version)
            master.accept(minion.id)
            master.ping_until(minion.id)
            master.kill()
            for name in ("master.pem", "master.pub"):
                os.unlink(os.path.join(master.pki, name))
            master.up()
            minion.kill()
            minion.up()

            minion.wait_for_line("master key has changed", 120)

            self.assertTrue(minion.running)
            minion.kill()
            master.kill()

    def test_rotation(self) -> None:
        """After a new publish key the next job still runs on every minion, once."""
        home = scratch(self)
        master = OurMaster(home, auto_accept=True)
        self.addCleanup(master.kill)
        master.up()
        minions = [StockMinion(home, version, master) for version in VERSIONS]
        for minion in minions:
            self.addCleanup(minion.kill)
            minion.up()
        for minion in minions:
            master.ping_until(minion.id)
        folder = os.path.join(master.root, "var/cache/salt/master")
        with open(os.path.join(folder, ".dfn"), "w") as handle:
            os.fchmod(handle.fileno(), 0o400)
        rotations = master.control().call("status")["rotations"]
        # A deletion asks for a rotation at once, with no wait for the drop file's turn
        with open(os.path.join(master.pki, "minions_pre", "gone"), "w") as handle:
            handle.write("x")
        master.command("salt-key", "-y", "-d", "gone", check=True)
        until("the rotation", lambda: master.control().call("status")["rotations"] > rotations)

        mark = os.path.join(home, "mark")
        answer = master.salt("*", "cmd.run", f"echo x >> {mark}.$$; echo x >> {mark}", "-t", "30")

        self.assertEqual(sorted(answer), sorted(m.id for m in minions))
        with open(mark) as handle:
            self.assertEqual(len(handle.read().split()), len(minions))

    def test_zmq_filtering(self) -> None:
        """With C{zmq_filtering} on both sides jobs reach those whom they mean."""
        home = scratch(self)
        master = OurMaster(home, auto_accept=True, zmq_filtering=True)
        self.addCleanup(master.kill)
        master.up()
        minions = [StockMinion(home, v, master, zmq_filtering=True) for v in ("3006", "3008")]
        ours = OurMinion(home, master, zmq_filtering=True)
        for minion in (*minions, ours):
            self.addCleanup(minion.kill)
            minion.up()
        for minion in (*minions, ours):
            master.ping_until(minion.id)

        for words, expected in (
            (["*"], ["ours", "stock-3006", "stock-3008"]),
            (["-L", "ours,stock-3008"], ["ours", "stock-3008"]),
            (["-G", "role:web"], ["ours", "stock-3006", "stock-3008"]),
            (["-C", "stock-* and not stock-3006"], ["stock-3008"]),
        ):
            self.assertEqual(sorted(master.salt(*words, "test.ping")), expected)

    def test_restart_and_revocation(self) -> None:
        """
        After the master was killed and started again, minions answer without a hand. From the
        moment its key is deleted, no request of a minion is served.
        """
        for version in VERSIONS:
            master, minion = self.start(version, auto_accept=True)
            master.ping_until(minion.id)
            master.kill()
            master.options["auto_accept"] = False
            write_config(os.path.join(master.conf, "master"), master.options)
            master.up()
            master.ping_until(minion.id)
            master.command("salt-key", "-y", "-d", minion.id, check=True)

            with self.assertRaises(AssertionError):
                minion.call("pillar.items", seconds=40)

            minion.kill()
            master.kill()


def _sha256(path: str) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _remove(paths: list[str]) -> None:
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)


def _write(path: str, text: str) -> None:
    with open(path, "w") as handle:
        handle.write(text)
