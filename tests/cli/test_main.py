"""
The executable: its subcommands, its options and configuration, and its manners as a process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted import __version__
from saltwisted.cli import elsewhere
from saltwisted.cli.main import COMMANDS
from saltwisted.cli.progress import line
from tests.cli.support import CommandTestCase, run
from tests.cli.test_salt import JID, job

SECRET = "correct-horse-battery"


class ExecutableTests(SynchronousTestCase):
    """C{saltwisted} itself."""

    def test_names(self) -> None:
        """By a subcommand, or through a link with its name, it is that command."""
        for name in COMMANDS:
            direct = run(["/usr/bin/saltwisted", name, "--help"])
            linked = run([f"/usr/local/bin/{name}", "--help"])

            self.assertEqual((direct.status, direct.err), (0, ""), name)
            self.assertEqual(linked.out, direct.out)
            typed = name if name.startswith("salt") else f"saltwisted {name}"
            self.assertTrue(direct.out.startswith(f"Usage: {typed} "), direct.out[:40])

    def test_elsewhere(self) -> None:
        """What Salt has and we have not is not a mistake in typing; it ends non-zero, too."""
        for name in elsewhere.COMMANDS:
            result = run(["saltwisted", name])
            self.assertEqual((result.status, result.out), (64, ""))
            self.assertIn(f"{name} is not part of saltwisted", result.err)
        self.assertIn("saltwisted --role minion", run(["saltwisted", "salt-minion"]).err)

    def test_unknown(self) -> None:
        """An unknown subcommand names the nearest that there is; status 64."""
        result = run(["saltwisted", "salt-kye", "-L"])

        self.assertEqual((result.status, result.out), (64, ""))
        self.assertIn("there is no command 'salt-kye'. Did you mean salt-key?\n", result.err)

    def test_alone(self) -> None:
        """Without words it lists the subcommands, with status 64; --help lists them with 0."""
        alone, helped = run(["saltwisted"]), run(["saltwisted", "--help"])

        self.assertEqual((alone.status, helped.status), (64, 0))
        for name in COMMANDS:
            self.assertIn(f"\n  {name} ", alone.out)

    def test_versions(self) -> None:
        """--version names ours and Salt's; the report has Salt's blocks, for every command."""
        short = run(["saltwisted", "--version"])
        command = run(["salt-key", "--version"])
        report = run(["saltwisted", "--versions-report"])

        self.assertEqual(short.out, f"saltwisted {__version__} (Salt 3008.5)\n")
        self.assertEqual(command.out, f"salt-key 3008.5 (saltwisted {__version__})\n")
        self.assertTrue(report.out.startswith("Salt Version:\n"))
        for title in ("Python Version:", "Dependency Versions:", "System Versions:"):
            self.assertIn(f"\n \n{title}\n", report.out)
        self.assertEqual(run(["salt", "-V"]).out, report.out)


class OptionTests(CommandTestCase):
    """What the command line, the configuration and other files say together."""

    config = "timeout: 9\ngather_job_timeout: 21\noutput: json\n"

    def asked(self, *words: str, **files: str) -> dict[str, Any]:
        """The arguments of the operation that C{salt} with these words asks for."""
        daemon = self.daemon(run=job(("m", 1, 0)))
        self.result = self.command("salt", *words, "*", "x.y")
        return daemon.asked[-1][1]

    def test_file_counts(self) -> None:
        """What the command line does not say is as in the configuration."""
        args = self.asked()

        self.assertEqual((args["timeout"], args["gather_job_timeout"]), (9, 21))
        self.assertEqual(json.loads(self.result.out), {"m": 1})

    def test_command_line_wins(self) -> None:
        """What it says, it says against the configuration."""
        args = self.asked("-t", "5", "--out=txt")

        self.assertEqual((args["timeout"], self.result.out), (5, "m: 1\n"))

    def test_saltfile(self) -> None:
        """A Saltfile counts for its command, below the command line."""
        path = f"{self.root}/Saltfile"
        with open(path, "w", encoding="utf-8") as file:
            file.write("salt: {timeout: 33, output: raw}\nsalt-run: {output: txt}\n")

        args = self.asked(f"--saltfile={path}", "--out=txt")

        self.assertEqual((args["timeout"], self.result.out), (33, "m: 1\n"))

    def test_saltrc(self) -> None:
        """C{~/.saltrc} counts for all commands."""
        with open(f"{self.root}/.saltrc", "w", encoding="utf-8") as file:
            file.write("output: txt\n")

        self.asked()

        self.assertEqual(self.result.out, "m: 1\n")

    def test_broken_configuration(self) -> None:
        """A file that is not YAML: the reason with file and line, status 1."""
        with open(f"{self.root}/master", "w", encoding="utf-8") as file:
            file.write("a: [\n")

        result = self.command("salt", "*", "test.ping")

        self.assertEqual((result.status, result.out), (1, ""))
        self.assertTrue(result.err.startswith("[ERROR   ] "), result.err)
        self.assertIn(f"{self.root}/master:", result.err)

    def test_no_directory(self) -> None:
        """A directory that is not there is an error, and no other place is worked on instead."""
        for words in (
            ["salt-key", "-c", f"{self.root}/none", "-L"],
            ["salt", "-c", f"{self.root}/none", "*", "test.ping"],
            ["status", "-c", f"{self.root}/none"],
            ["backup", "-c", f"{self.root}/none", f"{self.root}/file"],
        ):
            result = run(words, home=self.root)

            said = f"the configuration directory {self.root}/none does not exist"
            self.assertEqual((result.status, result.out), (78, ""), words)
            self.assertIn(said, result.err)
        self.assertFalse(os.path.exists(f"{self.root}/file"))

    def test_output_file(self) -> None:
        """--out-file takes the output instead of stdout, and is emptied unless appended to."""
        path = f"{self.root}/result"
        with open(path, "w", encoding="utf-8") as file:
            file.write("old\n")
        os.chmod(path, 0o640)

        self.asked("--out=txt", f"--out-file={path}")
        self.assertEqual(self.result.out, "")
        self.asked("--out=txt", f"--out-file={path}", "--out-file-append")

        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "m: 1\nm: 1\n")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o640)

    def daemon(self, **answers: Any) -> Any:
        """One daemon for all commands of a test."""
        if not hasattr(self, "only"):
            self.only = super().daemon(**answers)
        return self.only

    def test_colors(self) -> None:
        """Colour is off where stdout is not a terminal, and on when forced."""
        self.asked("--out=nested")
        self.assertEqual(self.result.out, "m:\n    1\n")

        self.asked("--out=nested", "--force-color")
        self.assertEqual(self.result.out, "\033[0;36mm\033[0;0m:\n    \033[0;1;33m1\033[0;0m\n")

    def test_log_lines_in_yaml(self) -> None:
        """With --out=yaml a line on the console is a comment."""
        result = self.command("salt", "-l", "debug", "--out=yaml", "*", "x.y")

        self.assertTrue(result.err.startswith("# [WARNING ] Insecure logging"), result.err)

    def test_wrong_option(self) -> None:
        """A wrong option is told below the usage line; status 64."""
        result = self.command("salt", "--nope")

        self.assertEqual(
            (result.status, result.err),
            (
                64,
                "Usage: salt [options] '<target>' <function> [arguments]\n\n"
                "salt: error: no such option: --nope\n",
            ),
        )


class ProcessTests(CommandTestCase):
    """Commands as processes of their own."""

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the executable."""
        process = subprocess.Popen(
            [sys.executable, "-m", "saltwisted.cli.main", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOME": self.root},
            # Whoever is started in the background ignores Ctrl-C, and so would its children
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        self.addCleanup(process.stdout.close)  # type: ignore[union-attr]
        self.addCleanup(process.stderr.close)  # type: ignore[union-attr]
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_imports(self) -> None:
        """The way of C{salt '*' test.ping} imports neither Twisted, Jinja, attrs nor zope."""
        self.daemon(run=job(("m", True, 0)))
        code = (
            "import sys; from saltwisted.cli.main import main\n"
            f"main(['salt', '-c', {self.root!r}, '*', 'test.ping'])\n"
            # Debian's .pth files make the package zope known to every Python
            "print(*sorted({name.split('.')[0] for name in sys.modules if name != 'zope'}))"
        )

        text = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout

        returned, modules = text.rsplit("\n", 2)[:2]
        self.assertEqual(returned, "m:\n    True")
        heavy = {"twisted", "jinja2", "attr", "zope", "cryptography", "zmq", "argparse", "logging"}
        self.assertEqual(heavy & set(modules.split()), set())

    def test_interrupted(self) -> None:
        """Ctrl-C tells the job id on stderr and leaves with 0; the job is not touched."""
        ended = threading.Event()

        def waiting(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            yield {"kind": "published", "jid": JID, "minions": ["m"], "missing": []}
            ended.wait(10)

        self.daemon(run=waiting)
        self.addCleanup(ended.set)
        process = self.start("salt", "-c", self.root, "--show-jid", "*", "test.sleep", "9")
        assert process.stdout is not None

        self.assertEqual(process.stdout.readline(), f"jid: {JID}\n")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)

        self.assertEqual((process.returncode, out), (0, ""))
        self.assertEqual(
            err,
            f"\nExiting gracefully on Ctrl-c\nThis job's jid is: {JID}\nThe minions may not have "
            "all finished running and any remaining minions will return upon completion. To look "
            "up the return data for this job later, run the following command:\n\n"
            f"salt-run jobs.lookup_jid {JID}\n",
        )

    def test_batch_in_background(self) -> None:
        """--async with --batch prints the job id and goes on without the command."""
        third = threading.Event()

        def answer(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            if args["fun"] == "test.ping":
                return job(("a", True, 0), ("b", True, 0), ("c", True, 0))(args)
            if args["tgt"] == ["c"]:
                third.set()
            return job(*((name, True, 0) for name in args["tgt"]))(args)

        daemon = self.daemon(run=answer)
        process = self.start("salt", "-c", self.root, "--async", "-b1", "*", "x.y")
        out, err = process.communicate(timeout=10)

        self.assertTrue(third.wait(10))
        jids = {args["jid"] for _, args in daemon.asked if args["fun"] == "x.y"}
        self.assertEqual(out, f"Executed batch command with job ID: {jids.pop()}\n")
        self.assertEqual((jids, err, process.returncode), (set(), "", 0))

    def test_reader_goes_away(self) -> None:
        """A closed pipe behind stdout is no error."""
        self.daemon(run=job(*((f"m{n:05}", "x" * 200, 0) for n in range(600))))
        process = self.start("salt", "-c", self.root, "*", "x.y")
        assert process.stdout is not None and process.stderr is not None

        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()

        self.assertEqual((process.wait(10), err), (0, ""))


class SecretTests(CommandTestCase):
    """T-LOG-1 for the commands."""

    def test_t_log_1(self) -> None:
        """Arguments, passwords and returns are in no log line, not even at level trace."""
        self.daemon(run=job(("m", "nothing", 0)), wheel=lambda args: {"return": {}})
        words = ("-l", "trace", "--log-file-level=trace", f"--log-file={self.root}/cli.log")

        shown = [
            self.command("salt", *words, "*", "x.y", SECRET, f"password={SECRET}"),
            self.command(
                "salt", *words, "-a", "pam", "--username=u", f"--password={SECRET}", "*", "x.y"
            ),
            self.command("salt", *words, "--metadata", f"{{a: {SECRET}}}", "*", "x.y"),
        ]

        with open(f"{self.root}/cli.log", encoding="utf-8") as file:
            log = file.read()
        self.assertIn("Insecure logging configuration", log)
        for text in (log, *(result.err for result in shown)):
            self.assertNotIn(SECRET, text)
        self.assertEqual(os.stat(f"{self.root}/cli.log").st_mode & 0o007, 0)


class ProgressTests(SynchronousTestCase):
    """The bar of C{--progress}."""

    def test_line(self) -> None:
        """The bar fills its room in proportion, with time and counts behind it."""
        self.assertEqual(
            line(1, 2, 3725.5, 60), " 50% |########        | Elapsed Time: 1:02:05 Returns: [1/2]"
        )
        self.assertEqual(line(0, 0, 0, 10), "100% || Elapsed Time: 0:00:00 Returns: [0/0]")
