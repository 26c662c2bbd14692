"""Salt's C{system} functions; nothing is shut down here."""

from __future__ import annotations

import datetime

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError
from tests.modules.harness import Commands, load


class SystemTests(SynchronousTestCase):
    """Command lines and dates."""

    def setUp(self) -> None:
        self.commands = Commands()
        self.module = load("system", salt=self.commands.salt())
        self.programs: set[str] = set()
        self.patch(systools, "which", lambda name: name if name in self.programs else None)

    def test_stop_and_start(self) -> None:
        """Each function has its command; times are passed on."""
        self.module.halt()
        self.module.init(3)
        self.module.poweroff()
        self.module.reboot()
        self.module.reboot(5)
        self.module.shutdown("20:00")

        self.assertEqual(
            self.commands.ran,
            [
                "halt",
                "init 3",
                "poweroff",
                "shutdown -r now",
                "shutdown -r 5",
                "shutdown -h 20:00",
            ],
        )

    def test_set_date_in_a_zone(self) -> None:
        """A time at an offset is given to date in UTC, with seconds first."""
        self.assertTrue(self.module.set_system_date_time(2020, 2, 3, 1, 30, 5, "+0200"))

        self.assertEqual(self.commands.ran, ["date -u 020223302020.05"])

    def test_date_without_seconds(self) -> None:
        """A date that knows no seconds is tried again; if that fails its first error is told."""
        self.commands.answers["date 02030130"] = [{"retcode": 1, "stderr": "no"}, 0]
        self.assertTrue(self.module.set_system_date_time(2020, 2, 3, 1, 30, 5))

        self.commands.answers["date"] = {"retcode": 1, "stderr": "worse"}
        self.commands.answers.pop("date 02030130")
        error = self.assertRaises(
            CommandExecutionError, self.module.set_system_date_time, 2020, 2, 3, 1, 30, 5
        )
        self.assertEqual(str(error), "date failed: worse")

    def test_hardware_clock_follows(self) -> None:
        """Where there is a hardware clock it is set as well."""
        self.programs = {"hwclock"}

        self.module.set_system_date("2020/01/02")

        self.assertEqual(self.commands.ran[1:], ["hwclock --test --systohc", "hwclock --systohc"])

    def test_bad_dates(self) -> None:
        """A time that cannot be read is false, a date an error, an offset too."""
        self.assertFalse(self.module.set_system_time("noon"))
        self.assertRaises(SaltInvocationError, self.module.set_system_date, "tomorrow")
        self.assertRaises(SaltInvocationError, self.module.get_system_time, "CET")
        self.assertRaises(SaltInvocationError, self.module.set_system_date_time, 2020, 13)
        self.assertEqual(self.commands.ran, [])

    def test_formats(self) -> None:
        """Dates and times come back in Salt's formats."""
        text = self.module.get_system_date_time("+0000")
        moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)

        self.assertLess(
            abs(moment - datetime.datetime.now(datetime.UTC)), datetime.timedelta(seconds=5)
        )
        self.assertRegex(self.module.get_system_time(), r"^[01]\d:[0-5]\d:[0-6]\d [AP]M$")
        self.assertRegex(self.module.get_system_date(), r"^[A-Z][a-z]{2} \d\d/\d\d/\d{4}$")

    def test_description_in_file(self) -> None:
        """Without hostnamectl the description lives in a file, escaped; other lines stay."""
        path = self.mktemp()
        self.module._MACHINE_INFO = path
        self.assertIs(self.module.get_computer_desc(), False)
        with open(path, "w", encoding="utf-8") as file:
            file.write("ICON_NAME=computer\n")

        self.assertTrue(self.module.set_computer_desc('Michael\'s "box"\ntwo'))
        self.assertEqual(self.module.get_computer_desc(), 'Michael\'s "box"\ntwo')
        self.assertTrue(self.module.set_computer_desc("plain"))

        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), 'ICON_NAME=computer\nPRETTY_HOSTNAME="plain"\n')

    def test_description_by_hostnamectl(self) -> None:
        """hostnamectl is asked and told, if it is there."""
        self.programs = {"hostnamectl"}
        self.commands.answers["hostnamectl status --pretty"] = 'My \\"box\\"'
        self.commands.answers["hostnamectl set-hostname"] = 1

        self.assertEqual(self.module.get_computer_desc(), 'My "box"')
        self.assertFalse(self.module.set_computer_desc("x"))
