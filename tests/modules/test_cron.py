"""Salt's C{cron} over a table in memory."""

from __future__ import annotations

import os
import pwd
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from tests.modules.harness import load

TAG = "# Lines below here are managed by Salt, do not edit\n"


class CronTests(SynchronousTestCase):
    """What stands in the table after each call, and what the call says."""

    def setUp(self) -> None:
        self.tab: str | None = None
        self.ran: list[tuple[list[str], dict[str, Any]]] = []
        self.user = pwd.getpwuid(os.geteuid()).pw_name

        def show(command: list[str], **kwargs: Any) -> str:
            self.ran.append((command, kwargs))
            return self.tab or ""

        def put(command: list[str], **kwargs: Any) -> dict[str, Any]:
            self.ran.append((command, kwargs))
            with open(command[-1], encoding="utf-8") as file:
                text = file.read()
            if "BAD" in text:
                return {"retcode": 1, "stderr": "bad minute", "stdout": ""}
            self.tab = text
            return {"retcode": 0, "stderr": "", "stdout": ""}

        self.cron = load("cron", salt={"cmd.run_stdout": show, "cmd.run_all": put})

    def job(self, *args: Any, **kwargs: Any) -> Any:
        return self.cron.set_job(self.user, *args, **kwargs)

    def test_virtual(self) -> None:
        """Without crontab the module is not there."""
        self.patch(systools, "which", lambda name: None)

        self.assertEqual(
            self.cron.__virtual__(), (False, "Cannot load cron module: crontab command not found")
        )

    def test_new_job(self) -> None:
        """A job is written below the mark, with comment and identifier above it."""
        self.tab = "0 0 * * * mine\n"

        answer = self.job("5", "*", "*", "*", 1, "/bin/a", comment="two\nlines", identifier="id")

        self.assertEqual(answer, "new")
        self.assertEqual(
            self.tab,
            f"0 0 * * * mine\n{TAG}# two\n# lines SALT_CRON_IDENTIFIER:id\n5 * * * 1 /bin/a\n",
        )

    def test_present_and_updated(self) -> None:
        """The same job again is present, another time or command of its identifier an update."""
        self.job("5", "*", "*", "*", "*", "/bin/a", identifier="id")

        self.assertEqual(self.job("5", "*", "*", "*", "*", "/bin/a", identifier="id"), "present")
        self.assertEqual(self.job("6", "*", "*", "*", "*", "/bin/b", identifier="id"), "updated")
        self.assertEqual(
            self.job("6", "*", "*", "*", "*", "/bin/b", identifier="id", commented=True), "updated"
        )

        self.assertEqual(self.tab, f"{TAG}# SALT_CRON_IDENTIFIER:id\n#DISABLED#6 * * * * /bin/b\n")

    def test_adoption(self) -> None:
        """A job without identifier is found by its command, and gets the identifier."""
        self.tab = f"{TAG}1 * * * * /bin/a\n"

        self.assertEqual(self.job("1", "*", "*", "*", "*", "/bin/a", identifier="x"), "updated")

        self.assertIn("SALT_CRON_IDENTIFIER:x\n1 * * * * /bin/a", self.tab)

    def test_other_identifier_is_another_job(self) -> None:
        """Two jobs with the same command may differ in their identifiers."""
        self.job("1", "*", "*", "*", "*", "/bin/a", identifier="x")

        self.assertEqual(self.job("2", "*", "*", "*", "*", "/bin/a", identifier="y"), "new")

        self.assertEqual(len(self.cron.list_tab(self.user)["crons"]), 2)

    def test_special_and_back(self) -> None:
        """A job may change between a time and C{@daily}."""
        self.job("1", "*", "*", "*", "*", "/bin/a", identifier="x")

        self.assertEqual(
            self.cron.set_special(self.user, "@daily", "/bin/a", identifier="x"), "updated"
        )
        tab = self.cron.list_tab(self.user)
        self.assertEqual((tab["crons"], tab["special"][0]["spec"]), ([], "@daily"))
        self.assertEqual(self.job("3", "*", "*", "*", "*", "/bin/a", identifier="x"), "updated")
        tab = self.cron.list_tab(self.user)
        self.assertEqual((tab["crons"][0]["minute"], tab["special"]), ("3", []))

    def test_random_is_drawn_once(self) -> None:
        """A drawn minute stays when the job is set again."""
        self.job("random", "random", "random", "random", "random", "/bin/a", identifier="x")
        before = self.tab
        minute = int(self.cron.list_tab(self.user)["crons"][0]["minute"])

        self.assertEqual(
            self.job("random", "random", "random", "random", "random", "/bin/a", identifier="x"),
            "present",
        )

        self.assertEqual(self.tab, before)
        self.assertTrue(0 <= minute < 60)

    def test_range(self) -> None:
        """C{a:b} draws between the two."""
        self.job("10:12", "*", "*", "*", "*", "/bin/a")

        self.assertIn(self.cron.list_tab(self.user)["crons"][0]["minute"], ("10", "11", "12"))

    def test_reading(self) -> None:
        """Everything that may stand in a table is read as Salt reads it."""
        self.tab = (
            f"# mine\nA=b\n{TAG}\n# c1 SALT_CRON_IDENTIFIER:x y\n# second\n"
            "#DISABLED#1 2 3 4 5 cmd  two\n@weekly wk a\n@bad\n1 2 3\nX=y=z\nNOT = env\n"
        )

        tab = self.cron.list_tab(self.user)

        self.assertEqual(tab["pre"], ["# mine", "A=b"])
        self.assertEqual(tab["env"], [{"name": "X", "value": "y=z"}])
        self.assertEqual(
            tab["crons"],
            [
                {
                    "minute": "1",
                    "hour": "2",
                    "daymonth": "3",
                    "month": "4",
                    "dayweek": "5",
                    "cmd": "cmd  two",
                    "identifier": "x y",
                    "comment": "c1\nsecond",
                    "commented": True,
                }
            ],
        )
        self.assertEqual(tab["special"][0]["cmd"], "wk a")

    def test_header_of_crontab(self) -> None:
        """What some crontab programs put in front of the file is not part of it."""
        self.tab = (
            "# DO NOT EDIT THIS FILE - edit the master and reinstall.\n# (x)\n# (y)\n1 * * * * a\n"
        )

        self.assertEqual(self.cron.raw_cron(self.user), "1 * * * * a\n")

    def test_remove(self) -> None:
        """A job is removed by command or identifier, with times only if these fit."""
        self.job("1", "*", "*", "*", "*", "/bin/a")
        self.job("1", "*", "*", "*", "*", "/bin/b", identifier="x")
        remove = self.cron.rm_job

        self.assertEqual(remove(self.user, "/bin/b"), "absent")
        self.assertEqual(remove(self.user, "/bin/a", minute=2), "absent")
        self.assertEqual(remove(self.user, "/bin/a", minute="random"), "removed")
        self.assertEqual(remove(self.user, "other", identifier="x"), "removed")
        self.assertEqual(self.tab, TAG)

    def test_remove_special(self) -> None:
        """Of two the one with the right time is removed."""
        self.tab = f"{TAG}@daily a\n@weekly a\n"

        self.assertEqual(self.cron.rm_special(self.user, "a", special="@weekly"), "removed")
        self.assertEqual(self.cron.rm_special(self.user, "nope"), "absent")

        self.assertEqual(self.tab, f"{TAG}@daily a\n")

    def test_variables(self) -> None:
        """Variables stand above the jobs; an empty value is written as C{\"\"}."""
        self.tab = f"{TAG}@daily a\n"

        self.assertEqual(self.cron.set_env(self.user, "MAILTO"), "new")
        self.assertEqual(self.cron.set_env(self.user, "PATH", "/x"), "new")
        self.assertEqual(self.cron.set_env(self.user, "PATH", "/x"), "present")
        self.assertEqual(self.cron.set_env(self.user, "PATH", "/y"), "updated")
        self.assertEqual(self.tab, f'{TAG}MAILTO=""\nPATH=/y\n@daily a\n')
        self.assertEqual(self.cron.rm_env(self.user, "MAILTO"), "removed")
        self.assertEqual(self.cron.rm_env(self.user, "MAILTO"), "absent")

    def test_entry(self) -> None:
        """A job is found by identifier first."""
        self.job("1", "*", "*", "*", "*", "/bin/a", identifier="x")

        self.assertEqual(self.cron.get_entry(self.user, "x")["cmd"], "/bin/a")
        self.assertEqual(self.cron.get_entry(self.user, cmd="/bin/a")["identifier"], "x")
        self.assertIs(self.cron.get_entry(self.user, "y", "/bin/a"), False)

    def test_error_of_crontab(self) -> None:
        """What crontab refuses is the answer, and its temporary file is gone."""
        self.assertEqual(self.job("1", "*", "*", "*", "*", "BAD"), "bad minute")

        path = self.ran[-1][0][-1]
        self.assertFalse(os.path.exists(path))

    def test_whose_table(self) -> None:
        """One's own table needs no option; root names the user; others become the user."""
        self.assertEqual(self.cron._crontab(self.user, "-l")[0], ["crontab", "-l"])
        self.patch(os, "geteuid", lambda: 0)
        self.assertEqual(self.cron._crontab("daemon", "-l")[0], ["crontab", "-u", "daemon", "-l"])
        self.patch(os, "geteuid", lambda: 12345)
        self.assertEqual(
            self.cron._crontab("daemon", "f"),
            (["crontab", "f"], {"python_shell": False, "runas": "daemon"}),
        )
