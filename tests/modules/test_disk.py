"""Salt's C{disk} functions over recorded output."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    CommandNotFoundError,
    SaltInvocationError,
)
from tests.modules.harness import Commands, load

DF = """Filesystem     1024-blocks  Used Available Capacity Mounted on
/dev/sda1          100000 40000     60000      40% /
//server/my share   10000  9000      1000      90% /mnt/share
/dev/mapper/a-very-long-name-of-a-volume
                     5000  1000      4000      20% /data
"""


class DiskTests(SynchronousTestCase):
    """Shapes made from C{df}, C{blkid}, C{blockdev}, C{smartctl}, C{hdparm}, C{iostat}."""

    def setUp(self) -> None:
        self.commands = Commands()
        self.module = load("disk", salt=self.commands.salt())
        self.missing: set[str] = set()
        self.patch(
            systools, "which", lambda name: None if name in self.missing else f"/usr/bin/{name}"
        )

    def test_usage(self) -> None:
        """Names with blanks and names on a line of their own are put together."""
        self.commands.answers["df -P"] = DF

        found = self.module.usage()

        self.assertEqual(
            found["/mnt/share"],
            {
                "filesystem": "//server/my share",
                "1K-blocks": "10000",
                "used": "9000",
                "available": "1000",
                "capacity": "90%",
            },
        )
        self.assertEqual(found["/data"]["used"], "1000")

    def test_flags(self) -> None:
        """Flags are passed on, unknown ones refused before anything runs."""
        self.module.usage("hi")
        error = self.assertRaises(CommandExecutionError, self.module.usage, "Z")

        self.assertEqual(self.commands.ran, ["df -P -hi"])
        self.assertEqual(str(error), "Invalid flag passed to disk.usage")

    def test_percent(self) -> None:
        """All mount points or one; an unknown one gives nothing."""
        self.commands.answers["df -P"] = DF

        self.assertEqual(self.module.percent("/"), "40%")
        self.assertEqual(self.module.percent()["/mnt/share"], "90%")
        self.assertEqual(self.module.percent("/nope"), {})

    def test_blkid(self) -> None:
        """Attributes of a device, with blanks in their values."""
        self.commands.answers["blkid"] = (
            '/dev/sda1: LABEL="my disk" UUID="1-2" TYPE="ext4" PARTLABEL=""\n'
        )

        self.assertEqual(
            self.module.blkid(),
            {
                "/dev/sda1": {"LABEL": "my disk", "UUID": "1-2", "TYPE": "ext4", "PARTLABEL": ""},
            },
        )
        self.module.blkid(token="TYPE=ext4")
        self.assertEqual(self.commands.ran[-1], "blkid -t TYPE=ext4")

    def test_dump(self) -> None:
        """The lines of blockdev are named by their options."""
        self.commands.answers["blockdev"] = "\n".join(str(number) for number in range(12))

        self.assertEqual(self.module.dump("/dev/sda")["getro"], "0")
        self.assertEqual(self.module.dump("/dev/sda", ["getra"]), {"getra": "10"})
        self.commands.answers["blockdev"] = 1
        self.assertIs(self.module.dump("/dev/sda"), False)

    def test_tune(self) -> None:
        """Options become switches, what is not an option is refused by name."""
        self.commands.answers["blockdev"] = "\n".join("0" * 12)

        self.module.tune("/dev/sda", **{"read-ahead": 1024, "read-write": True})
        error = self.assertRaises(
            SaltInvocationError, self.module.tune, "/dev/sda", **{"read-only": False, "x": 1}
        )

        self.assertEqual(self.commands.ran[0], "blockdev --setra 1024 --setrw /dev/sda")
        self.assertEqual(str(error), "Invalid keyword arguments: read-only=False, x=1")

    def test_format(self) -> None:
        """The options of mkfs depend on the kind of file system."""
        self.assertTrue(self.module.format_("/dev/x", inode_size=128, force=True))
        self.module.format_("/dev/x", "xfs", inode_size=256, force=True)
        self.module.format_("/dev/x", "vfat", fat=32)
        self.commands.answers["mkfs"] = 1
        self.assertFalse(self.module.format_("/dev/x"))

        self.assertEqual(
            [command for command in self.commands.ran if command != "sync"],
            [
                "mkfs -t ext4 -i 128 -F /dev/x",
                "mkfs -t xfs -i size=256 -f /dev/x",
                "mkfs -t vfat -F 32 /dev/x",
                "mkfs -t ext4 /dev/x",
            ],
        )

    def test_fstype(self) -> None:
        """lsblk is asked first, df if it does not know."""
        self.commands.answers["lsblk"] = "FSTYPE\next4\n"
        self.assertEqual(self.module.fstype("/dev/x"), "ext4")

        self.commands.answers["lsblk"] = "FSTYPE\n\n"
        self.commands.answers["df -T"] = "Filesystem Type\n/dev/x xfs 1 2\n"
        self.assertEqual(self.module.fstype("/dev/x"), "/dev/x xfs 1 2")

        self.missing = {"lsblk", "df"}
        error = self.assertRaises(CommandNotFoundError, self.module.fstype, "/dev/x")
        self.assertIn("[\"'lsblk'\", \"'df'\"]", str(error))

    def test_smart_attributes(self) -> None:
        """Attributes by number; numbers are numbers, several of them a list."""
        self.commands.answers["smartctl"] = (
            "junk\nID# ATTRIBUTE_NAME FLAG RAW_VALUE\n"
            "  5 Reallocated 0x0033 0\n194 Temp 0x0022 30 1 2\n\nend\n"
        )

        found = self.module.smart_attributes("sda")
        named = self.module.smart_attributes("/dev/sda", attributes=[5], values=["flag"])

        self.assertEqual(
            found[5], {"attribute_name": "Reallocated", "flag": "0x0033", "raw_value": 0}
        )
        self.assertEqual(found[194]["raw_value"], [30, 1, 2])
        self.assertEqual(named, {5: {"flag": "0x0033"}})

    def test_hdparms(self) -> None:
        """Each line has a shape of its own."""
        self.commands.answers["hdparm"] = (
            "/dev/sda:\n look-ahead    =  1 (on)\n geometry = 1/2/3, sectors = 99, start = 0\n"
            " max sectors   = 100/200, HPA is disabled\n"
        )

        found = self.module.hdparms("sda")["/dev/sda"]

        self.assertEqual(found["look-ahead"], [1, "on"])
        self.assertEqual(found["geometry"], [1, 2, 3, {"sectors": "99", "start": "0"}])
        self.assertEqual(found["max_sectors"], [100, 200, "HPA is disabled"])

    def test_iostat(self) -> None:
        """The samples are averaged to two places."""
        self.commands.answers["iostat -x 1 2"] = (
            "avg-cpu: %user %idle\n 1.00 99.00\n\nDevice: r/s w/s\nsda 1.00 2.00\n\n"
            "avg-cpu: %user %idle\n 2.00 98.01\n\nDevice: r/s w/s\nsda 2.00 2.00\n"
        )

        self.assertEqual(
            self.module.iostat(1, 2),
            {"sys": {"%user": 1.5, "%idle": 98.5}, "sda": {"r/s": 1.5, "w/s": 2.0}},
        )

    def test_wipe(self) -> None:
        """Only a successful wipefs is true."""
        self.assertTrue(self.module.wipe("/dev/x"))
        self.commands.answers["wipefs"] = 1
        self.assertFalse(self.module.wipe("/dev/x"))
