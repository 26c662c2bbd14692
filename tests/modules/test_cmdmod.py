"""
C{cmd.*} beyond what stock's recorded answers show: other users, time limits, and secrets.
"""

from __future__ import annotations

import logging
import os
import pwd
import select
import shutil
import subprocess
import tempfile
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.modules import _chroot, _process
from saltwisted.worker.exceptions import CommandExecutionError, TimedProcTimeoutError
from tests.modules.harness import load


class Records(logging.Handler):
    """Keeps log records as text."""

    def __init__(self) -> None:
        super().__init__(level=1)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def cmd(**dunders: Any) -> Any:
    """The module with an empty site configuration."""
    salt = {"config.get": lambda name, default="": default}
    return load("cmdmod", salt={**salt, **dunders.pop("salt", {})}, **dunders)


class TSecrets(SynchronousTestCase):
    """T-LOG-1: what a caller passes in is in no log line."""

    def test_tLog1(self) -> None:
        """Arguments, environment and input stay out of the log even if the program prints them."""
        module, records = cmd(), Records()
        module.log.addHandler(records)
        module.log.setLevel(1)
        module.log.propagate = False
        canary = "canary-4711"

        module.run(f"echo {canary}")
        module.run("env", env={"PASSWORD": canary})
        module.run("cat", stdin=f"{canary}\n")
        module.run_all(["sh", "-c", f"echo {canary} >&2; exit 1"])
        with self.assertRaises(CommandExecutionError):
            module.run("/nonexistent/program", env={"PASSWORD": canary}, stdin=canary)

        self.assertGreater(len(records.lines), 8)
        self.assertEqual([line for line in records.lines if canary in line], [])

    def test_outputIsLogged(self) -> None:
        """The output of a program is logged at the level that the caller asks for."""
        module, records = cmd(), Records()
        module.log.addHandler(records)
        module.log.setLevel(logging.INFO)
        module.log.propagate = False

        module.run("pwd", cwd="/", output_loglevel="info")
        module.run("pwd", cwd="/", output_loglevel="debug")

        self.assertEqual([line for line in records.lines if line == "stdout: /"], ["stdout: /"])

    def test_quiet(self) -> None:
        """With C{quiet} nothing is logged, and the error does not name the command."""
        module, records = cmd(), Records()
        module.log.addHandler(records)
        module.log.setLevel(1)

        module.run("false", output_loglevel="quiet")
        with self.assertRaises(CommandExecutionError) as caught:
            module.run("/nonexistent/program secret", output_loglevel="quiet")

        self.assertEqual(records.lines, [])
        self.assertIn("REDACTED", str(caught.exception))
        self.assertNotIn("secret", str(caught.exception))


class Limits(SynchronousTestCase):
    """Time limits and what is left running."""

    def test_descendants(self) -> None:
        """A time limit ends the shell and what it started."""
        with self.assertRaises(TimedProcTimeoutError) as caught:
            _process.run(
                "sleep 60 & echo $!; wait",
                None,
                0.1,
                {"shell": True, "stdout": subprocess.PIPE},
            )

        pid = caught.exception.pid  # type: ignore[attr-defined]
        self.assertEqual(_process.descendants(pid), [])
        self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_wholeTree(self) -> None:
        """Children of children are found."""
        process = subprocess.Popen(["sh", "-c", "sh -c 'sleep 60; true'; true"])
        self.addCleanup(process.wait)
        self.addCleanup(_process.kill_tree, process.pid)
        found: list[int] = []
        while len(found) < 2:
            found = _process.descendants(process.pid)

        watched = [os.pidfd_open(pid) for pid in found]
        for watch in watched:
            self.addCleanup(os.close, watch)

        _process.kill_tree(process.pid)

        process.wait()
        for watch in watched:
            # The descriptor becomes readable when the process has ended.
            self.assertEqual(select.select([watch], [], [], 10)[0], [watch])

    def test_background(self) -> None:
        """A background command is not waited for, and its exit code is nobody's."""
        module = cmd()

        answer = module.run_bg(["sleep", "60"])

        self.addCleanup(os.waitpid, answer["pid"], 0)
        self.addCleanup(os.kill, answer["pid"], 9)
        self.assertEqual(module.__context__["retcode"], 0)


class Users(SynchronousTestCase):
    """Running as somebody else; needs root."""

    def setUp(self) -> None:
        if os.geteuid() != 0:
            raise SkipTest("needs root: it becomes other users")

    def test_loginEnvironment(self) -> None:
        """C{runas} gives the login environment of the user, all its groups, and its name."""
        module = cmd()

        environment = module.run("env", runas="daemon", shell="/bin/sh", cwd="/").splitlines()
        identity = module.run("id -un", runas="daemon", shell="/bin/sh", cwd="/")

        self.assertEqual(identity, "daemon")
        self.assertIn("USER=daemon", environment)
        self.assertIn("LOGNAME=daemon", environment)
        self.assertIn(f"HOME={pwd.getpwnam('daemon').pw_dir}", environment)

    def test_groups(self) -> None:
        """The groups of root do not stay with a process of another user."""
        module = cmd()

        groups = module.run("id -G", runas="daemon", shell="/bin/sh", cwd="/").split()

        expected = os.getgrouplist("daemon", pwd.getpwnam("daemon").pw_gid)
        self.assertEqual(sorted(map(int, groups)), sorted(set(expected)))

    def test_noisyProfile(self) -> None:
        """An environment is found between its marks, whatever start-up files print."""
        answer = _process.login_environment("daemon", "/bin/sh")

        self.assertEqual(answer["HOME"], pwd.getpwnam("daemon").pw_dir)
        self.assertNotIn("_", answer)

    def test_endlessLogin(self) -> None:
        """A login that does not end is given up and killed, and the command runs without it."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        su = os.path.join(folder, "su")
        with open(su, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec 3> {folder}/alive\nsleep 600\n")
        os.mkfifo(f"{folder}/alive")
        alive = os.open(f"{folder}/alive", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, alive)
        os.chmod(su, 0o755)
        self.patch(os, "environ", {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        self.patch(_process, "LOGIN_TIMEOUT", 0.5)

        with self.assertLogs(_process.log, "ERROR") as lines:
            self.assertEqual(_process.login_environment("daemon", None), {})

        self.assertIn("login of user 'daemon' did not end", lines.output[0])
        # The end of the file: nobody of its group is left who could write
        self.assertEqual(select.select([alive], [], [], 60)[0], [alive])
        self.assertEqual(os.read(alive, 1), b"")

    def test_scriptIsPrivate(self) -> None:
        """A fetched script lies under a random name, for its user alone, and not afterwards."""
        folder = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, folder)
        os.chmod(folder, 0o755)
        source = os.path.join(folder, "source.sh")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nstat -c "%a %U" "$0"; echo "$0"; touch "$0" && echo writable\n')
        self.addCleanup(os.remove, source)
        module = cmd(salt={"cp.cache_file": lambda path, saltenv: path})

        answer = module.script(source, runas="daemon", shell="/bin/sh", cwd=folder)

        lines = answer["stdout"].splitlines()
        self.assertEqual(lines[0], "500 daemon")
        self.assertRegex(os.path.basename(lines[1]), r"^__salt\.tmp\.\w{8}\.sh$")
        self.assertEqual(os.listdir(folder), ["source.sh"])


class Rules(SynchronousTestCase):
    """Shell by default, and what a site forbids."""

    def test_shellFromMaster(self) -> None:
        """A job from a master gets a shell, a call from another module does not."""
        module = cmd()

        self.assertEqual(module.run("echo a | cat", __pub_jid="20200101000000000000"), "a")
        self.assertEqual(module.run("echo a | cat"), "a | cat")
        self.assertEqual(module.run("echo a | cat", python_shell=False, __pub_jid="1"), "a | cat")

    def test_blacklist(self) -> None:
        """C{cmd_blacklist_glob} and C{cmd_whitelist_glob} bind jobs from a master."""
        site = {"cmd_blacklist_glob": ["*reboot*"], "cmd_whitelist_glob": ["echo *"]}
        module = cmd(salt={"config.get": lambda name, default="": site.get(name, default)})

        self.assertEqual(module.run("echo x", __pub_jid="1"), "x")
        for text in ("echo reboot", "id"):
            with self.assertRaises(CommandExecutionError) as caught:
                module.run(text, __pub_jid="1")
            self.assertEqual(str(caught.exception), f'The shell command "{text}" is not permitted')

    def test_blacklistStands(self) -> None:
        """No argument takes from a command that it comes from a master."""
        module = cmd(salt={"config.get": {"cmd_blacklist_glob": ["id"]}.get})

        for function in (module.run, module.run_all, module.retcode, module.run_bg):
            with self.assertRaises(CommandExecutionError) as caught:
                function("id", __pub_jid="1", from_master=False)
            self.assertEqual(str(caught.exception), 'The shell command "id" is not permitted')

    def test_retcode(self) -> None:
        """The exit code of a job is that of its last command, unless it is to be ignored."""
        module = cmd()

        module.run("sh -c 'exit 7'")
        self.assertEqual(module.__context__["retcode"], 7)
        module.run("sh -c 'exit 7'", ignore_retcode=True)
        self.assertEqual(module.__context__["retcode"], 0)

    def test_chroot(self) -> None:
        """The command in another root is one word of the line, whatever characters it has."""
        module = cmd()
        lines: list[str] = []
        module.__context__["cmd.run_chroot.func"] = lambda cmd, **_: lines.append(cmd) or {}
        self.patch(_chroot, "mount", lambda *args: None)

        module.run_chroot("/no such; root", "echo 'a'; id")

        self.assertEqual(lines, ["""chroot '/no such; root' /bin/sh -c 'echo '"'"'a'"'"'; id'"""])

    def test_terminal(self) -> None:
        """
        With C{use_vt} the program has a terminal, and both its outputs are told apart; their lines
        end as without one.
        """
        module = cmd()

        answer = module.run_all(
            "test -t 1 && echo yes && echo more; echo no >&2; echo any >&2",
            use_vt=True,
            python_shell=True,
        )

        self.assertEqual(answer["stdout"], "yes\nmore\n")
        self.assertEqual(answer["stderr"], "no\nany\n")
        self.assertEqual(answer["retcode"], 0)
