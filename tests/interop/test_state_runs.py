"""
State runs of our minion for a real master of ours: the same trees, fetched over the wire.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMaster, OurMinion, scratch

FILES = {
    "top.sls": "base:\n  '*': [web.site]\n",
    "web/init.sls": "include: [.map]\n",
    "web/map.jinja": "{% set name = pillar.get('site', 'nobody') %}\n",
    "web/site.sls": """
{% from 'web/map.jinja' import name with context %}
site:
  test.succeed_with_changes:
    - name: "{{ name }} on {{ grains.id }}"
told:
  test.nop:
    - watch: [{test: site}]
    - fire_event: site/is/told
script:
  cmd.script:
    - name: tool one
    - source: salt://web/tool.sh
    - parallel: true
after:
  test.nop:
    - require: [{cmd: script}]
""",
    "web/tool.sh": "#!/bin/sh\necho tool $1\n",
    "slow.sls": "begun: {test.nop: []}\n"
    "wait:\n  cmd.run: [{name: 'until [ -e GATE ]; do sleep 0.1; done', timeout: 120}]\n"
    "next:\n  test.nop: []\n",
    "broken.sls": "a:\n  test.nop:\n    - name: {{ nothing.here }}\n",
    "custom.sls": "own:\n  mine.done: []\n",
    "_states/mine.py": (
        "def done(name):\n"
        "    return {'name': name, 'changes': {}, 'result': True, 'comment': 'custom'}\n"
    ),
}


class StateRunTests(SynchronousTestCase):
    """C{salt MINION state.apply} with our own daemons on both ends."""

    timeout = 180

    def setUp(self) -> None:
        """One master, one minion, one tree."""
        home = scratch(self)
        self.gate = os.path.join(home, "gate")  # the state C{wait} waits for this file
        self.master = OurMaster(home, state_events=True)
        self.addCleanup(self.master.kill)
        for name, text in FILES.items():
            path = os.path.join(self.master.file_root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as handle:
                handle.write(text.replace("GATE", self.gate))
        for name, text in (("top.sls", "base: {'*': [p]}\n"), ("p.sls", "site: blog\n")):
            with open(os.path.join(self.master.pillar_root, name), "w") as handle:
                handle.write(text)
        self.master.up()
        self.minion = OurMinion(home, self.master)
        self.addCleanup(self.minion.kill)
        self.minion.up()
        self.master.accept(self.minion.id)
        self.master.ping_until(self.minion.id)

    def _apply(self, *args: str) -> Any:
        return self.master.salt(self.minion.id, *args)[self.minion.id]

    def test_runs(self) -> None:
        """Files, pillar, custom modules and events find their way; errors are told."""
        with self.master.events("salt/job/", "salt/state_result/") as events:
            whole = self._apply("state.apply")
            tags = []
            for event in events:
                tags.append(event["tag"])
                if "/ret/" in event["tag"] and event["data"]["fun"] == "state.apply":
                    break

        by_id = {value["__id__"]: value for value in whole.values()}
        self.assertEqual(list(by_id), ["site", "told", "script", "after"])
        self.assertTrue(all(value["result"] for value in by_id.values()), whole)
        self.assertEqual(by_id["site"]["name"], "blog on ours")
        self.assertEqual(by_id["told"]["comment"], "Watch statement fired.")
        self.assertEqual(by_id["script"]["changes"]["stdout"], "tool one")
        self.assertEqual(len([tag for tag in tags if "/prog/ours/" in tag]), 3, tags)
        self.assertEqual(len([tag for tag in tags if tag.endswith("/ours/site/is/told")]), 1, tags)

        changed = self._apply("state.apply", "web.site", "pillar={site: other}", "test=True")
        first = next(iter(changed.values()))
        self.assertEqual((first["name"], first["result"]), ("other on ours", None))

        self.assertIn(
            "Jinja variable 'nothing' is undefined", self._apply("state.apply", "broken")[0]
        )
        self.assertIn("No matching sls found for 'gone'", self._apply("state.apply", "gone")[0])
        done = self.master.command("salt", self.minion.id, "state.apply", "broken")
        self.assertNotEqual(done.returncode, 0)

        custom = self._apply("state.apply", "custom", "sync_mods=states")
        self.assertEqual(next(iter(custom.values()))["comment"], "custom")

        # Two runs that begin together may each take the other for the one that was first.
        with self.master.events("salt/job/") as events:
            jid = self.master.command(
                "salt", "--async", self.minion.id, "state.apply", "slow"
            ).stdout.split()[-1]
            for event in events:
                if event["tag"].startswith(f"salt/job/{jid}/prog/"):
                    break
        conflict = self._apply("state.apply", "web.site")
        self.assertIsInstance(conflict, list, str(self.master.run("jobs.lookup_jid", jid)))
        self.assertIn(f"with jid {jid}", conflict[0])
        self._apply("state.soft_kill", jid, "next")
        with open(self.gate, "w"):
            pass
        queued = self._apply("state.apply", "web.site", "queue=True")
        self.assertEqual(len(queued), 4)
        ended = self.master.run("jobs.lookup_jid", jid)
        self.assertEqual([value["__id__"] for value in ended["ours"].values()], ["begun", "wait"])
