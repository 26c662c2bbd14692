"""
The table of advice: no text prints a command beside it, and each command has a test.
"""

from __future__ import annotations

import re
import string
from importlib import import_module
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted import advice
from saltwisted.advice import TABLE, By
from tests.advice.carried import CARRIED_OUT
from tests.advice.scan import COMMAND, commands
from tests.harness import ROOT

RUNS = ("modules", "states", "utils", "compat")
"""Packages that run such programs on minions, and whose documentation is Salt's."""
ALLOWED = {
    # What a command line of ours is called by itself, in its own usage
    ("cli/takeover.py", "saltwisted takeover"): "its own name in its usage",
    ("cli/democommand.py", "saltwisted demo"): "its own name in its usage",
    ("cli/complete.py", "saltwisted complete"): "its own name in its usage",
    ("tap.py", "saltwisted --role"): "the usage of twistd's plugin",
    ("tools/takeover.py", "saltwisted takeover"): "who has written a file, in its head",
}
"""By file and beginning: texts that are no advice, with the reason."""
COMMANDS = [row for row in TABLE.values() if row.command]
FIELDS = {
    "pids": ["7", "8"], "mode": "0600", "path": "/x y/z", "directory": "/x y",
    "machine": "machine",
    "options": {"--to": "/x y"}, "host": ["-p", "7", "a"],
    "reached": 1, "all": 3, "missing": ["b", "c"], "late": ["b", "c"],
}  # fmt: skip


def of(row: advice.Advice) -> advice.Said:
    """A row with something in each of its places."""
    names = {
        name
        for template in (row.words, row.command, row.on)
        for _, name, _, _ in string.Formatter().parse(template)
        if name not in (None, "command", "on")
    }
    return advice.of(row.id, **{str(name): FIELDS.get(str(name), f"a{name}") for name in names})


class TableTests(SynchronousTestCase):
    """L{saltwisted.advice}."""

    def test_one_place(self) -> None:
        """No text of the program recommends a command but those of the table."""
        top = Path(ROOT, "saltwisted")
        found, used = [], set()
        for path in sorted(top.rglob("*.py")):
            name = str(path.relative_to(top))
            if name == "advice.py" or name.split("/")[0] in RUNS:
                continue
            for line, text in commands(path.read_text()):
                allowed = [key for key in ALLOWED if key[0] == name and text.startswith(key[1])]
                used.update(allowed)
                if not allowed:
                    found.append(f"{name}:{line}: {text}")

        self.assertEqual(found, [], "\n" + "\n".join(found))
        self.assertEqual(set(ALLOWED) - used, set(), "an exception that nobody needs")

    def test_scan_bites(self) -> None:
        """Each kind of command is found, in f-strings and parts of sentences, and prose is not."""
        for text in (
            "'Start it: systemctl start x'", "f'chmod {mode} {path}'", "'on b: rm /etc/x'",
            "'apt-get install chrony'", "f'run \\'saltwisted remove {node}\\' there'",
            "'salt-key -d ID'", "f'salt-run jobs.lookup_jid {jid}'", "'twistd --nodaemon'",
            "'see saltwisted members'", "'a' + 'chown x y'", "f'setfacl -R {x}'", "'timedatectl'",
        ):  # fmt: skip
            self.assertEqual(len(list(commands(f"x = {text}"))), 1, text)
        for text in (
            "'salt-key says so'", "'saltwisted has no thorium'", "'/usr/bin/systemctl'",
            "'the salt master'", "'git'", "'saltwisted: error'",
        ):  # fmt: skip
            self.assertEqual(list(commands(f"x = {text}")), [], text)
        self.assertEqual(list(commands('"""saltwisted members"""')), [])
        self.assertEqual(list(commands('def f():\n    """chmod 7 x"""')), [])

    def test_carried_out(self) -> None:
        """Each command has a test that carries it out, which there is; words need none."""
        self.assertEqual(set(CARRIED_OUT), {row.id for row in COMMANDS})
        for row, name in CARRIED_OUT.items():
            module, class_name, method = name.rsplit(".", 2)
            test = getattr(import_module(module), class_name)
            self.assertTrue(hasattr(test, method), f"{row}: there is no {name}")

    def test_rows(self) -> None:
        """A row with a command says it in its words, and who may run it; another names none."""
        for row in TABLE.values():
            said = of(row)
            if row.command:
                self.assertIn("{command}", row.words, row.id)
                self.assertIsNot(row.by, By.NOBODY, row.id)
                self.assertIn(said.command, str(said))
                self.assertNotIn("\n", said.command)
            else:
                self.assertIs(row.by, By.NOBODY, row.id)
                self.assertIsNone(COMMAND.search(row.words), row.id)

    def test_used(self) -> None:
        """Each row is used somewhere."""
        texts = [
            path.read_text()
            for path in Path(ROOT, "saltwisted").rglob("*.py")
            if path.name != "advice.py"
        ]
        text = "\n".join(texts)
        parts = set(re.findall(r'f"((?:member|cluster)\.)\{', text))
        for name in TABLE:
            known = f'"{name}"' in text or f"'{name}'" in text
            self.assertTrue(known or name.partition(".")[0] + "." in parts, name)

    def test_quoted(self) -> None:
        """What is put into a command is one word of a shell, whatever it is; lists are several."""
        said = advice.of("file.mode", mode="0600", path="/a b; rm -rf /")
        self.assertEqual(said.command, "chmod 0600 '/a b; rm -rf /'")
        said = advice.of("demo.end", pids=[7, 8], directory="/tmp/$x")
        self.assertEqual(said.command, "kill 7 8 && rm -r '/tmp/$x'")

    def test_here(self) -> None:
        """
        A command of ours carries the configuration and the place of the program where a shell
        would not find them; one for another node, or of the system, does not.
        """
        members = advice.of("members.look").at("/x y", "/v/bin/")
        self.assertEqual(members.command, "/v/bin/saltwisted members -c '/x y'")
        self.assertIn(members.command, str(members))
        there = advice.of("cluster.known", node="b").at("/x", "/v/bin/")
        self.assertEqual(there.command, "saltwisted remove b")
        mode = advice.of("file.mode", mode="0600", path="/k").at("/x", "/v/bin/")
        self.assertEqual(mode.command, "chmod 0600 /k")

    def test_missing(self) -> None:
        """Who forgets a parameter, or an id, hears of it at once."""
        with self.assertRaises(KeyError):
            advice.of("member.down")
        with self.assertRaises(KeyError):
            advice.of("no.such")
