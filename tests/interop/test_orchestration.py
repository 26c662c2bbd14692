"""
Orchestrations by a real master of ours with minions of ours: what goes wrong, and how that ends.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMaster, OurMinion, reserve_ports, scratch, until

MANY = 50
RESTARTS = 50 if os.environ.get("SALTWISTED_LONG") == "1" else 2
LAST = "case_master_dies"
TREE = {
    "own.sls": """
{% set word = pillar.get('word', 'none') %}
tell {{ word }}:
  salt.function: [{name: test.echo}, {tgt: two}, {arg: ['{{ word }}']}]
apply {{ word }}:
  salt.state: [{tgt: two}, {sls: mine}, {pillar: {word: '{{ word }}'}}, {concurrent: true}]
""",
    "mine.sls": """
mine:
  test.configurable_test_state: [{changes: false}, {result: true}, {comment: "{{ pillar.word }}"}]
""",
    "lost.sls": "it: {salt.function: [{name: test.ping}, {tgt: '*'}, {timeout: 1}]}\n",
    "lost_state.sls": "it: {salt.state: [{tgt: '*'}, {sls: fine}, {timeout: 1}]}\n",
    "lost_batch.sls": """
it: {salt.function: [{name: test.ping}, {tgt: '*'}, {timeout: 1}, {batch: 1}]}
""",
    "lost_allowed.sls": """
it: {salt.function: [{name: test.ping}, {tgt: '*'}, {timeout: 1}, {expect_minions: false}]}
""",
    "fine.sls": "fine: {test.nop: []}\n",
    "rolling.sls": """
it: {salt.state: [{tgt: '*'}, {sls: mark}, {batch: 1}, {failhard: true}]}
after: {salt.function: [{name: test.ping}, {tgt: two}, {require: [{salt: it}]}]}
""",
    "mark.sls": """
mark: {file.append: [{name: MARKS}, {text: "{{ grains.id }}"}]}
wrong: {test.fail_without_changes: []}
""",
    "slow.sls": """
{% for number in range(3) %}
step {{ number }}:
  salt.function:
    - name: cmd.run
    - tgt: two
    - arg:
      - |
        echo {{ number }} >> MARKS
        while [ -d "$(dirname MARKS)" ] && [ ! -e GO{{ number }} ]; do sleep 0.1; done
{% endfor %}
""",
    "outer.sls": """
inner: {salt.runner: [{name: state.orchestrate}, {mods: slow}]}
last: {test.nop: []}
""",
    "itself.sls": "again: {salt.runner: [{name: state.orchestrate}, {mods: itself}]}\n",
    "raises.sls": "it: {salt.runner: [{name: jobs.lookup_jid}]}\n",
    "huge.sls": """
it:
  salt.function:
    - name: cmd.run
    - tgt: two
    - arg: ['head -c 52428800 /dev/zero | tr "\\\\0" x']
that: {salt.function: [{name: test.ping}, {tgt: two}]}
""",
    "thousand.sls": """
it:
  salt.parallel_runners:
    - runners:
{% for number in range(1000) %}
        r{{ number }}: [{name: test.arg}, {arg: [{{ number }}]}]
{% endfor %}
""",
    "ssh.sls": "it: {salt.state: [{tgt: two}, {sls: fine}, {ssh: true}]}\n",
    "unwell.sls": "it: {salt.wheel: [{name: no.such}]}\n",
    "circle.sls": """
one: {salt.function: [{name: test.ping}, {tgt: two}, {require: [{salt: other}]}]}
other: {salt.function: [{name: test.ping}, {tgt: two}, {require: [{salt: one}]}]}
""",
    "own_circle.sls": """
it: {salt.function: [{name: test.ping}, {tgt: two}, {require: [{salt: it}]}]}
""",
    "around.sls": "include: [about]\nit: {test.nop: []}\n",
    "about.sls": "include: [around]\nthat: {test.nop: []}\n",
    "nobody.sls": "it: {salt.state: [{tgt: nobody}, {sls: fine}]}\n",
    "nobody_function.sls": """
it: {salt.function: [{name: test.ping}, {tgt: 'G@no:where'}, {tgt_type: compound}]}
""",
    "no_state.sls": "it: {salt.states: [{tgt: two}]}\n",
    "no_function.sls": "it: {salt.function: [{name: no.such}, {tgt: two}]}\n",
    "no_runner.sls": "it: {salt.runner: [{name: no.such}]}\n",
    "no_sls.sls": "it: {salt.state: [{tgt: two}, {sls: not.there}]}\n",
    "endless.sls": """
{% for one in range(90000) %}{% for other in range(90000) %}{% endfor %}{% endfor %}
it: {test.nop: []}
""",
    "never.sls": """
it: {salt.function: [{name: test.sleep}, {tgt: two}, {arg: [600]}]}
that: {salt.function: [{name: test.ping}, {tgt: two}]}
""",
    "bad.sls": "it: {test.fail_without_changes: []}\n",
    "meets.sls": """
refused: {salt.state: [{tgt: two}, {sls: fine}]}
beside: {salt.state: [{tgt: two}, {sls: fine}, {concurrent: true}]}
queued: {salt.state: [{tgt: two}, {sls: fine}, {queue: true}]}
""",
    "held.sls": """
held:
  cmd.run:
    - name: |
        echo held >> MARKS
        while [ -d "$(dirname MARKS)" ] && [ ! -e GO0 ]; do sleep 0.1; done
""",
    "takes.sls": """
it:
  salt.function:
    - {name: cmd.run}
    - {tgt: '*'}
    - {timeout: 1}
    - {arg: ['echo a >> MARKS; sleep 12']}
after:
  salt.function:
    - {name: cmd.run}
    - {tgt: two}
    - {arg: ['echo b >> MARKS']}
    - {require: [{salt: it}]}
""",
    "wrong_state.sls": "it: {salt.state: [{tgt: two}, {sls: wrong}]}\n",
    "wrong.sls": """
first: {test.nop: []}
second: {test.fail_without_changes: [{comment: not today}]}
third: {test.fail_without_changes: []}
""",
    "wrong_function.sls": "it: {salt.function: [{name: cmd.run}, {tgt: two}, {arg: [exit 3]}]}\n",
    "restart.sls": """
restart: {salt.function: [{name: cmd.run_bg}, {tgt: two}, {arg: ['echo again >> MARKS']}]}
back:
  salt.wait_for_event:
    - {name: salt/minion/two/start}
    - {id_list: [two]}
    - {timeout: 120}
    - {require: [{salt: restart}]}
after: {salt.function: [{name: test.ping}, {tgt: two}, {require: [{salt: back}]}]}
""",
    "parallel.sls": "one: {salt.function: [{name: no.such}, {tgt: two}, {parallel: true}]}\n",
}


class OrchestrationTests(SynchronousTestCase):
    """A master and two minions, which take longer to start than any of the cases."""

    timeout = 600

    def setUp(self) -> None:
        self.home = scratch(self)
        self.marks = os.path.join(self.home, "marks")
        (self.port,) = reserve_ports(1)
        users, begin = (os.path.join(self.home, name) for name in ("users", "begin.sls"))
        with open(users, "w") as handle:
            handle.write("kim:word\n")
        with open(begin, "w") as handle:
            handle.write(
                "begin:\n  runner.state.orchestrate:\n    - args:\n"
                "        mods: {{ tag.rpartition('/')[2] }}\n"
            )
        self.master = OurMaster(
            self.home,
            timeout=10,
            gather_job_timeout=2,
            reactor=[{"site/begin/*": [begin]}],
            rest_twisted={"port": self.port, "host": "127.0.0.1", "disable_ssl": True},
            netapi_enable_clients=["runner_async"],
            external_auth={"file": {"^filename": users, "kim": ["@runner"]}},
        )
        self.addCleanup(self.master.kill)
        go = os.path.join(self.home, "go")
        for name, text in TREE.items():
            with open(os.path.join(self.master.file_root, name), "w") as handle:
                handle.write(text.replace("MARKS", self.marks).replace("GO", go))
        self.master.up()
        self.minions = {
            name: OurMinion(self.home, self.master, minion_id=name) for name in ("one", "two")
        }
        for minion in self.minions.values():
            self.addCleanup(minion.kill)
            minion.up()
            self.master.accept(minion.id)
        for name in self.minions:
            self.master.ping_until(name)

    def test_cases(self) -> None:
        """Each C{case_} holds, on the same master, whatever the others have done; one kills it."""
        failed = []
        cases = [name for name in dir(self) if name.startswith("case_")]
        for name in sorted(cases, key=lambda name: (name == LAST, name)):
            try:
                getattr(self, name)()
            except Exception:
                failed.append(f"{name}:\n{traceback.format_exc()}")
            finally:
                self.clean()
        if failed:
            self.fail("\n".join([*failed, self.master.tail()]))

    def clean(self) -> None:
        """What a case has left on the disk."""
        for name in os.listdir(self.home):
            if name == "marks" or name.startswith("go"):
                os.unlink(os.path.join(self.home, name))

    def orchestrate(self, *words: str) -> tuple[int, dict[str, Any]]:
        """The exit status of an orchestration, and its results by id."""
        done = self.master.command("salt-run", "state.orch", *words, "--out", "json")
        try:
            (found,) = json.loads(done.stdout)["data"].values()
        except (ValueError, TypeError, KeyError):
            raise AssertionError(f"{done.stdout}\n{done.stderr}\n{self.master.tail()}") from None
        return done.returncode, {one["__id__"]: one for one in found.values()}

    def call(self, fun: str, *arg: Any, **kwarg: Any) -> dict[str, Any]:
        """A runner by the control socket; its whole answer."""
        client = self.master.control()
        try:
            answer: dict[str, Any] = client.call("runner", fun=fun, arg=list(arg), kwarg=kwarg)
            return answer
        finally:
            client.close()

    def marked(self) -> list[str]:
        """What steps have written."""
        if not os.path.exists(self.marks):
            return []
        with open(self.marks) as handle:
            return handle.read().split()

    def go(self, number: int) -> None:
        """Let a step of C{slow} end."""
        with open(os.path.join(self.home, f"go{number}"), "w"):
            pass

    def case_many(self) -> None:
        """Fifty orchestrations with fifty pillars at once: each tells minions its own words."""
        answers: dict[str, Mapping[str, Any]] = {}

        def one(word: str) -> None:
            answers[word] = self.call("state.orch", "own", pillar={"word": word})

        threads = [threading.Thread(target=one, args=(f"w{n}",)) for n in range(MANY)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        self.assertEqual(len(answers), MANY)
        for word, answer in answers.items():
            self.assertTrue(answer["success"], answer)
            (results,) = answer["return"]["data"].values()
            told, applied = results.values()
            self.assertEqual(told["changes"], {"ret": {"two": word}})
            self.assertEqual(applied["comment"], "States ran successfully. No changes made to two.")
            client = self.master.control()
            job = client.call("runner", fun="jobs.lookup_jid", arg=[applied["__jid__"]], kwarg={})
            client.close()
            returned = job["return"]
            (state,) = (
                returned["data"]["two"].values() if "data" in returned else returned["two"].values()
            )
            self.assertEqual(state["comment"], word)

    def case_lost(self) -> None:
        """A minion that does not answer is named, and is a failure, unless the step says else."""
        self.minions["one"].freeze()
        try:
            self.lose()
        finally:
            self.minions["one"].thaw()
            self.master.ping_until("one")

    def lose(self) -> None:
        """One of two is silent."""
        for name in ("lost", "lost_batch"):
            code, found = self.orchestrate(name)
            self.assertEqual((code, found["it"]["result"]), (1, False), found)
            self.assertIn("Minion one did not return.", found["it"]["comment"])
            self.assertEqual(found["it"]["changes"]["ret"]["two"], True)
        code, found = self.orchestrate("lost_state")
        self.assertEqual((code, found["it"]["result"]), (1, False))
        self.assertIn("Minion one did not return a state result.", found["it"]["comment"])
        code, found = self.orchestrate("lost_allowed")
        self.assertEqual((code, found["it"]["result"]), (0, True), found)

    def case_rolling(self) -> None:
        """With C{batch: 1} and C{failhard} the first failure leaves the second minion untouched."""
        code, found = self.orchestrate("rolling")

        self.assertEqual((code, found["it"]["result"]), (1, False))
        self.assertEqual(len(self.marked()), 1)
        self.assertNotIn("after", found)

    def case_no_failure_ends_with_0(self) -> None:
        """Whatever fails, C{salt-run} does not end with 0."""
        for words in (
            ("state.orch", "bad"),
            ("state.orch", "raises"),
            ("state.orch", "unwell"),
            ("state.orch", "ssh"),
            ("state.orch", "parallel"),
            ("state.orch", "nowhere"),
            ("state.orch", "fine", "pillar=[1]"),
            ("state.orch",),
            ("state.orch", "fine", "colour=blue"),
            ("state.orchestrate_single", "salt.function", "no.such", "tgt=two"),
            ("state.orchestrate_single", "salt.function", "test.ping", "tgt=nobody"),
            ("state.orchestrate_high", "{it: {test.fail_without_changes: []}}"),
            ("state.orch_show_sls", "nowhere"),
        ):
            done = self.master.command("salt-run", *words)
            self.assertEqual(done.returncode, 1, f"{words}:\n{done.stdout}\n{done.stderr}")

    def case_nonsense(self) -> None:
        """What makes no sense is said in words, changes nothing, and does not end with 0."""
        for name, said in (
            ("circle", "ecursive requisite"),
            ("own_circle", "ecursive requisite"),
            ("nobody", "No minions returned"),
            ("nobody_function", "No minions responded"),
            ("no_state", "'salt.states' is not available."),
            ("no_function", "'no.such' is not available."),
            ("no_runner", "'no.such' is not available."),
            ("no_sls", "No matching sls found for 'not.there' in env 'base'"),
        ):
            done = self.master.command("salt-run", "state.orch", name)
            self.assertEqual(done.returncode, 1, name)
            self.assertIn(said, done.stdout, name)
        # As with stock, SLS may include one another
        self.assertEqual(self.orchestrate("around")[0], 0)

    def orchestrations(self) -> list[str]:
        """The pids of their processes."""
        return [one for one in os.listdir("/proc") if one.isdigit() and self.is_ours(one)]

    def case_endless(self) -> None:
        """
        A run that never ends is ended at once by its jid, also while its SLS renders for ever; an
        operator's Ctrl-C ends it as well. Meanwhile the master does what it is told.
        """
        for name in ("endless", "never"):
            with self.master.events("salt/run/", "salt/job/") as events:
                self.master.command("salt-run", "--async", "state.orchestrate", name, check=True)
                jid = next(one for one in events if self.is_new(one))["data"]["jid"]
                if name == "never":
                    next(one for one in events if one["data"].get("fun") == "test.sleep")
                self.assertTrue(self.call("manage.up")["success"])
                done = self.master.command("orch", "stop", jid)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"{jid} is stopped on", done.stdout)
                ret = next(one for one in events if one["tag"] == f"salt/run/{jid}/ret")
            self.assertFalse(ret["data"]["success"])
            self.assertIn("stopped it", ret["data"]["return"])
            until("the end of the process", lambda: not self.orchestrations())
            done = self.master.command("orch", "stop", jid)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.master.command("salt", "two", "saltutil.kill_all_jobs")

            words = ["salt-run", "-c", self.master.conf, "state.orch", name]
            command = subprocess.Popen(
                [sys.executable, "-m", "saltwisted.cli.main", *words],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self.master.env,
                # What a shell begins in the background does not hear Ctrl-C, nor do its children
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
            until("the process", self.orchestrations)
            command.send_signal(signal.SIGINT)
            command.wait(60)
            until("the end of the process", lambda: not self.orchestrations())
            self.master.command("salt", "two", "saltutil.kill_all_jobs")

    def case_soft_kill(self) -> None:
        """
        A run is ended at its next step by its jid, whoever has begun it: a command, a schedule,
        a reaction, the API or a step of another run; it is then no success.
        """
        for begin in (*self.ways(), self.by_another):
            with self.master.events("salt/run/") as events:
                begin("slow")
                new = next(one for one in events if self.is_new(one))
                jid = new["data"]["jid"]
                until("the first step", lambda: self.marked() == ["0"])

                done = self.master.command("salt-run", "state.soft_kill", jid)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.go(0)
                ret = next(one for one in events if one["tag"] == f"salt/run/{jid}/ret")

            self.assertFalse(ret["data"]["success"])
            (results,) = ret["data"]["return"]["data"].values()
            self.assertEqual(len(results), 1, results)
            self.assertEqual(self.marked(), ["0"])
            os.unlink(self.marks)
            os.unlink(os.path.join(self.home, "go0"))

    @staticmethod
    def is_new(event: Mapping[str, Any]) -> bool:
        """Whether a run begins that is not a step of another."""
        data = event["data"]
        return event["tag"].endswith("/new") and data["fun"].startswith("runner.state.orch")

    def ways(self) -> list[Callable[[str], None]]:
        """All that begin a run of an SLS."""
        return [self.by_command, self.by_schedule, self.by_reaction, self.by_api]

    def by_command(self, sls: str = "slow") -> None:
        """Begin it."""
        self.master.command("salt-run", "--async", "state.orchestrate", sls, check=True)

    def by_schedule(self, sls: str) -> None:
        """Begin it."""
        words = (f"name={sls}", "function=state.orchestrate", f"job_args=[{sls}]", "seconds=3600")
        for done in (
            self.master.command("salt-run", "schedule.add", *words),
            self.master.command("salt-run", "schedule.run_job", sls),
        ):
            self.assertEqual(done.returncode, 0, done.stdout)

    def by_reaction(self, sls: str) -> None:
        """Begin it."""
        self.master.command("salt-run", "event.send", f"site/begin/{sls}", check=True)

    def by_api(self, sls: str) -> None:
        """Begin it."""
        kim = {"username": "kim", "password": "word", "eauth": "file"}
        login = self.post("/login", kim)["return"][0]
        low = {"client": "runner_async", "fun": "state.orchestrate", "arg": [sls]}
        self.assertIn("jid", self.post("/", [low], login["token"])["return"][0])

    def post(self, path: str, low: Any, token: str = "") -> Any:
        """What the API answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Content-Type": "application/json", "X-Auth-Token": token}
        try:
            connection.request("POST", path, json.dumps(low), headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        self.assertEqual(answer.status, 200, text)
        return json.loads(text)

    def by_another(self, sls: str) -> None:
        """Begin C{slow} as a step of another run."""
        self.master.command("salt-run", "--async", "state.orchestrate", "outer", check=True)

    def case_meets_another(self) -> None:
        """
        While a minion applies states, a step that would is refused, goes on beside it
        (C{concurrent}) or waits for its end (C{queue}), in the same way whoever has begun the run.
        """
        for begin in self.ways():
            self.master.command("salt", "--async", "two", "state.apply", "held", check=True)
            until("the state", lambda: self.marked() == ["held"])
            with self.master.events("saltwisted/orchestrate/") as events:
                begin("meets")
                told = [next(events) for _ in range(5)]
                self.go(0)
                told += [next(events), next(events)]

            found = [
                (one["tag"].rpartition("/")[2], one["data"].get("id"), one["data"].get("result"))
                for one in told
            ]
            self.assertEqual(
                found,
                [
                    ("step", "refused", None),
                    ("result", "refused", False),
                    ("step", "beside", None),
                    ("result", "beside", True),
                    ("step", "queued", None),
                    ("result", "queued", True),
                    ("end", None, None),
                ],
                begin,
            )
            self.assertIn("is running as PID", told[1]["data"]["comment"])
            self.clean()

    def case_takes_long(self) -> None:
        """A step waits for minions that take ten times its timeout; the next one begins then."""
        code, found = self.orchestrate("takes")

        self.assertEqual((code, found["it"]["result"]), (0, True), found)
        self.assertEqual(self.marked(), ["a", "a", "b"])
        self.assertGreater(found["it"]["duration"], 10_000.0)

    def case_where_to_look(self) -> None:
        """Of a failure the minion, the job, the return code and the first failed state are said."""
        for sls, said in (
            ("wrong_state", ", retcode 2, first failed state second (test.fail_without_changes):"),
            ("wrong_function", ", retcode 3"),
        ):
            code, found = self.orchestrate(sls)
            self.assertEqual((code, found["it"]["result"]), (1, False))
            said = f"Minion two: job {found['it']['__jid__']}{said}"
            self.assertIn(said, found["it"]["comment"])

    def case_minion_dies(self) -> None:
        """A minion that dies while it does a step is named with the job, and is a failure."""
        minion = self.minions["two"]
        with self.master.events("salt/run/") as events:
            self.by_command("slow")
            jid = next(one for one in events if self.is_new(one))["data"]["jid"]
            until("the first step", lambda: self.marked() == ["0"])
            minion.kill()
            ret = next(one for one in events if one["tag"] == f"salt/run/{jid}/ret")
        minion.up()
        self.master.ping_until("two")

        self.assertFalse(ret["data"]["success"])
        (results,) = ret["data"]["return"]["data"].values()
        first = next(one for one in results.values() if one["__id__"] == "step 0")
        said = f"Minion two did not return. Its job is {first['__jid__']}."
        self.assertIn(said, first["comment"])

    def case_minion_restarts(self) -> None:
        """
        A step restarts a minion, the next one waits until it is back, and the one after that
        reaches it. 50 times with C{--long}.
        """
        minion = self.minions["two"]
        for turn in range(RESTARTS):
            with self.master.events("saltwisted/orchestrate/") as events:
                self.by_command("restart")
                told: list[str] = []
                while "end" not in told:
                    event = next(events)
                    told.append(event["tag"].rpartition("/")[2])
                    if told == ["step", "result"]:
                        minion.stop()
                        minion.up()
            self.assertEqual(event["data"]["state"], "done", turn)
            self.assertEqual(told, [*(["step", "result"] * 3), "end"])
            self.clean()

    def case_within_itself(self) -> None:
        """An orchestration that begins itself ends with a clear error."""
        code, found = self.orchestrate("itself")

        self.assertEqual((code, found["again"]["result"]), (1, False))
        self.assertIn("does one begin itself?", json.dumps(found))

    def case_large(self) -> None:
        """A return of 50 MiB, and a thousand runners at once, harm nothing else."""
        code, found = self.orchestrate("huge")
        self.assertEqual(code, 0, {key: one["comment"] for key, one in found.items()})
        self.assertEqual(len(found["it"]["changes"]["ret"]["two"]), 50 * 1024 * 1024)

        code, found = self.orchestrate("thousand")
        self.assertEqual(code, 0)
        self.assertEqual(len(found["it"]["changes"]["ret"]), 1000)

    def case_process_dies(self) -> None:
        """A run whose process is killed ends at once and says so; the master is as before."""
        with self.master.events("salt/run/") as events:
            self.by_command()
            jid = next(one for one in events if self.is_new(one))["data"]["jid"]
            until("the first step", lambda: self.marked() == ["0"])

            (pid,) = self.orchestrations()
            os.kill(int(pid), signal.SIGKILL)
            ret = next(one for one in events if one["tag"] == f"salt/run/{jid}/ret")

        self.assertFalse(ret["data"]["success"])
        self.assertIn("SIGKILL", ret["data"]["return"])
        self.assertTrue(self.call("manage.up")["success"])

    def is_ours(self, pid: str) -> bool:
        """Whether a process is that of an orchestration of this test's master."""
        try:
            with open(f"/proc/{pid}/comm") as handle:
                name = handle.read().strip()
            with open(f"/proc/{pid}/stat") as handle:
                parent = int(handle.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{parent}/stat") as handle:
                above = int(handle.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return False
        return name == "salt-orch" and above == self.master.pid

    def case_master_dies(self) -> None:
        """
        Who waits for a run whose master is killed is told its jid, and does not end with 0; the
        process of the run ends too. When the master is back, the run goes on to its end: each
        step is done once.
        """
        done: dict[str, Any] = {}

        def run() -> None:
            done["it"] = self.master.command("salt-run", "state.orch", "slow")

        with self.master.events("salt/run/") as events:
            thread = threading.Thread(target=run)
            thread.start()
            jid = next(one for one in events if self.is_new(one))["data"]["jid"]
            until("the first step", lambda: self.marked() == ["0"])
        (pid,) = self.orchestrations()

        os.kill(self.master.pid, signal.SIGKILL)

        thread.join()
        self.assertEqual(done["it"].returncode, 2)
        self.assertIn(f"orchestration {jid}", done["it"].stderr)
        until("the end of the run's process", lambda: not os.path.exists(f"/proc/{pid}"))
        self.assertEqual(self.marked(), ["0"])

        for number in range(3):
            self.go(number)
        self.master.up()

        def state() -> str:
            client = self.master.control()
            try:
                return str(client.call("orch.show", jid=jid)["state"])
            finally:
                client.close()

        until("the end of the run", lambda: state() != "running")
        self.assertEqual((state(), self.marked()), ("done", ["0", "1", "2"]))
