"""Salt's C{service}: systemd, Debian without it, and plain init scripts."""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError
from tests.modules.harness import GRAINS, Commands, load

BOOTED = {
    "salt.utils.systemd.booted": True,
    "salt.utils.systemd.offline": False,
    "salt.utils.systemd.version": 252,
    "salt.utils.systemd.status": True,
}


class SystemdCase(SynchronousTestCase):
    """systemd as process 1, described by the answers of systemctl."""

    def setUp(self) -> None:
        self.commands = Commands()
        self.context: dict[str, Any] = dict(BOOTED)
        self.module = load("systemd_service", salt=self.commands.salt(), context=self.context)
        self.patch(systools, "which", lambda name: f"/usr/bin/{name}")
        self.root = self.mktemp()
        os.makedirs(os.path.join(self.root, "etc"))

    def acts(self) -> list[str]:
        """The commands that do something, without the questions that precede them."""
        return [c for c in self.commands.ran if " status " not in c]


class SystemdTests(SystemdCase):
    """Commands, names and errors."""

    def test_virtual(self) -> None:
        """The module is there if systemd runs, or systemctl could work offline."""
        self.assertEqual(self.module.__virtual__(), "service")
        self.context.update({"salt.utils.systemd.booted": False})
        self.assertFalse(self.module.__virtual__()[0])
        self.context.update({"salt.utils.systemd.offline": "/usr/bin/systemctl"})
        self.assertEqual(self.module.__virtual__(), "service")

    def test_start(self) -> None:
        """A bare name is a service, started in a scope of its own."""
        self.assertTrue(self.module.start("nginx"))
        self.assertTrue(self.module.start("x.timer", no_block=True))

        self.assertEqual(
            self.acts(),
            [
                "/usr/bin/systemd-run --scope /usr/bin/systemctl start nginx.service",
                "/usr/bin/systemd-run --scope /usr/bin/systemctl --no-block start x.timer",
            ],
        )

    def test_scope_can_be_switched_off(self) -> None:
        """C{systemd.scope: False} runs systemctl directly."""
        self.module.__salt__["config.get"] = lambda name, default: False

        self.module.restart("nginx")

        self.assertEqual(self.acts(), ["/usr/bin/systemctl restart nginx.service"])

    def test_errors_without_the_scope(self) -> None:
        """What systemctl says is the error, without the line about the scope."""
        self.commands.answers["/usr/bin/systemd-run"] = {
            "retcode": 1,
            "stderr": "Running scope as unit: run-1.scope\nFailed to start x.service: no",
        }

        for name in ("start", "restart", "reload_", "force_reload", "enable"):
            error = self.assertRaises(CommandExecutionError, getattr(self.module, name), "x")
            self.assertEqual(str(error), "Failed to start x.service: no")
        self.assertIs(self.module.stop("x"), False)
        self.assertIs(self.module.disable("x"), False)

    def test_own_unit_is_not_waited_for(self) -> None:
        """Restarting the minion does not wait for the end of the process that asks."""
        self.module.restart("salt-minion")
        self.module.stop("saltwisted-minion")
        self.module.restart("salt-minion", no_block=False)

        self.assertEqual(["--no-block" in c for c in self.acts()], [True, True, False])

    def test_changed_unit_files_are_read_again(self) -> None:
        """A unit that changed on disk makes systemd read its files first."""
        self.commands.answers["/usr/bin/systemctl status"] = (
            "Warning: changed on disk. Run 'systemctl daemon-reload' to reload units."
        )

        self.module.stop("x")

        self.assertEqual(self.acts()[0], "/usr/bin/systemctl --system daemon-reload")

    def test_available(self) -> None:
        """Exit codes up to 3 mean that the unit is known; old systemd is judged by its text."""
        self.commands.answers["/usr/bin/systemctl status"] = 3
        self.assertTrue(self.module.available("x"))
        self.commands.answers["/usr/bin/systemctl status"] = 4
        self.assertTrue(self.module.missing("x"))

        self.context["salt.utils.systemd.version"] = 208
        self.commands.answers["/usr/bin/systemctl status"] = "   Loaded: not-found (Reason: x)"
        self.assertFalse(self.module.available("x"))
        self.commands.answers["/usr/bin/systemctl status"] = "   Loaded: loaded (/lib/x)"
        self.assertTrue(self.module.available("x"))
        self.commands.answers["/usr/bin/systemctl status"] = "nothing"
        error = self.assertRaises(CommandExecutionError, self.module.available, "x")
        self.assertEqual(str(error), "Failed to get information on unit 'x'")

    def test_offline(self) -> None:
        """Without a running systemd availability cannot be told."""
        self.context["salt.utils.systemd.offline"] = "/usr/bin/systemctl"

        error = self.assertRaises(CommandExecutionError, self.module.available, "x")

        self.assertEqual(
            str(error), "Cannot run in offline mode. Failed to get information on unit 'x'"
        )

    def test_lists(self) -> None:
        """Units are listed by their state; services lose their suffix, other types keep it."""
        self.commands.answers["/usr/bin/systemctl --full --no-legend --no-pager"] = (
            "● bad.service loaded failed failed X\n"
            "ssh.service loaded active running SSH\nx.timer loaded active waiting X\n"
            "s.socket loaded active running S\n"
        )
        self.commands.answers[
            "/usr/bin/systemctl --full --no-legend --no-pager list-unit-files"
        ] = "ssh.service enabled enabled\nx.timer disabled\ng.service static -\nbroken\n"
        self.module._INIT_SCRIPTS = os.path.join(self.root, "none")

        self.assertEqual(self.module.get_running(), ["s.socket", "ssh"])
        self.assertEqual(self.module.get_enabled(), ["ssh"])
        self.assertEqual(self.module.get_disabled(), ["x.timer"])
        self.assertEqual(self.module.get_static(), ["g"])

    def test_noRunlevel(self) -> None:
        """A machine without the program C{runlevel} is not asked for it."""
        self.patch(systools, "which", lambda name: None)

        self.assertFalse(self.module._script_enabled("ssh", self.root))

        self.assertEqual([line for line in self.commands.ran if "runlevel" in line], [])

    def test_all_below_a_root(self) -> None:
        """Unit files and init scripts of another root, each name once."""
        units = os.path.join(self.root, "lib/systemd/system")
        scripts = os.path.join(self.root, "etc/init.d")
        os.makedirs(units)
        os.makedirs(scripts)
        for name in ("a.service", "b.timer", "README"):
            open(os.path.join(units, name), "w").close()
        for name, mode in (("a", 0o755), ("c", 0o755), ("d", 0o644)):
            path = os.path.join(scripts, name)
            open(path, "w").close()
            os.chmod(path, mode)

        self.assertEqual(self.module.get_all(root=self.root), ["a", "b.timer", "c"])

    def test_masked(self) -> None:
        """A link to C{/dev/null} masks, for good or until the next start."""
        for folder in ("etc", "run"):
            os.makedirs(os.path.join(self.root, folder, "systemd/system"))
        os.symlink("/dev/null", os.path.join(self.root, "etc/systemd/system/a.service"))
        os.symlink("/dev/null", os.path.join(self.root, "run/systemd/system/b.service"))

        self.assertTrue(self.module.masked("a", root=self.root))
        self.assertFalse(self.module.masked("b", root=self.root))
        self.assertTrue(self.module.masked("b", runtime=True, root=self.root))
        self.assertTrue(self.module.unmask_("c", root=self.root))
        self.assertFalse(any("unmask" in command for command in self.commands.ran))

    def test_start_unmasks(self) -> None:
        """With C{unmask} a masked unit is unmasked before it is started."""
        self.module.masked = lambda name, runtime=False, root=None: True

        self.module.start("a", unmask=True, unmask_runtime=True)

        self.assertEqual(
            [command.split("systemctl ")[1] for command in self.acts()],
            ["unmask a.service", "unmask --runtime a.service", "start a.service"],
        )

    def test_enabled(self) -> None:
        """An alias is enabled if its unit is; exit codes decide for the others."""
        ask = "/usr/bin/systemctl is-enabled"
        self.commands.answers.update(
            {
                f"{ask} on.service": "enabled",
                f"{ask} off.service": {"retcode": 1, "stdout": "disabled"},
                f"{ask} nick.service": "alias",
                "/usr/bin/systemctl show nick.service -P Id": "on.service",
                f"{ask} t@x.service": {"retcode": 1, "stdout": ""},
                "find /etc/systemd/system -name t@x": "/etc/systemd/system/a.wants/t@x",
            }
        )

        self.assertTrue(self.module.enabled("on"))
        self.assertTrue(self.module.disabled("off"))
        self.assertTrue(self.module.enabled("nick"))
        self.assertTrue(self.module.enabled("t@x"))

    def test_init_script_under_systemd(self) -> None:
        """A script without a unit is enabled by update-rc.d."""
        self.module._init_scripts = lambda root: ["old"]

        self.assertTrue(self.module.enable("old"))
        self.assertTrue(self.module.disable("old"))

        self.assertEqual(
            self.acts(),
            [
                "systemd-run --scope /usr/bin/update-rc.d -f old defaults 99",
                "systemd-run --scope /usr/bin/update-rc.d -f old remove",
            ],
        )

    def test_show(self) -> None:
        """Lists are lists, structured values maps."""
        self.commands.answers["/usr/bin/systemctl show x.service"] = (
            "Id=x.service\nAfter=a.target b.service\nEnvironment=A=1 B=2\n"
            "ExecStart={ path=/bin/x ; argv[]=/bin/x -f ; pid=7 }"
        )

        self.assertEqual(
            self.module.show("x"),
            {
                "Id": "x.service",
                "After": ["a.target", "b.service"],
                "Environment": "A=1 B=2",
                "ExecStart": {"path": "/bin/x", "argv[]": "/bin/x -f", "pid": "7"},
            },
        )

    def test_status_of_many(self) -> None:
        """A wildcard gives a map, a name its own answer."""
        self.module.get_all = lambda: ["a1", "a2", "b"]
        self.commands.answers["/usr/bin/systemctl is-active a2.service"] = 3

        self.assertEqual(self.module.status("a*"), {"a1": True, "a2": False})
        self.assertIs(self.module.status("a2"), False)

    def test_mask_error(self) -> None:
        """The output of a failed mask is in the error."""
        self.commands.answers["/usr/bin/systemd-run"] = {"retcode": 1, "stdout": "no"}

        error = self.assertRaises(CommandExecutionError, self.module.mask, "x")

        self.assertIn("Failed to mask service 'x'", str(error))
        self.assertIn("no", str(error))


class DebianTests(SynchronousTestCase):
    """Init scripts of a Debian without systemd."""

    def setUp(self) -> None:
        self.commands = Commands({"runlevel": "N 2"})
        self.context: dict[str, Any] = {"salt.utils.systemd.booted": False}
        self.module = load("debian_service", salt=self.commands.salt(), context=self.context)
        root = self.mktemp()
        self.module._SCRIPTS = os.path.join(root, "init.d")  # type: ignore[attr-defined]
        self.module._RUNLEVELS = root  # type: ignore[attr-defined]
        for path in (
            "init.d/cron",
            "init.d/ssh",
            "init.d/README",
            "rc2.d/S01cron",
            "rcS.d/S09udev",
        ):
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            open(os.path.join(root, path), "w").close()

    def test_virtual(self) -> None:
        """It is for Debian and its kin without systemd."""
        self.assertEqual(self.module.__virtual__(), "service")
        self.context["salt.utils.systemd.booted"] = True
        self.assertFalse(self.module.__virtual__()[0])

    def test_lists(self) -> None:
        """What starts in the run level is enabled, all scripts are services."""
        self.assertEqual(self.module.get_enabled(), ["cron", "udev"])
        self.assertEqual(self.module.get_all(), ["cron", "ssh", "udev"])
        self.assertEqual(self.module.get_disabled(), ["ssh"])
        self.assertTrue(self.module.available("ssh"))
        self.assertTrue(self.module.missing("README"))
        self.assertTrue(self.module.enabled("cron"))
        self.assertTrue(self.module.disabled("ssh"))

    def test_actions(self) -> None:
        """Exit code 0 of the script is true."""
        self.commands.answers["service ssh stop"] = 1

        self.assertTrue(self.module.start("ssh"))
        self.assertFalse(self.module.stop("ssh"))
        self.assertEqual(self.module.status("*s*h"), {"ssh": True})
        self.assertTrue(self.module.enable("a b"))

        self.assertEqual(self.commands.ran[-1], "insserv 'a b' && update-rc.d 'a b' enable")


class PlainTests(SynchronousTestCase):
    """Other Linuxes without systemd."""

    def test_virtual(self) -> None:
        """Systems with a module of their own are left to it."""
        context = {"salt.utils.systemd.booted": False}
        for grains, expected in (
            ({"os": "Void", "init": "unknown"}, True),
            ({"os": "Debian"}, False),
            ({"os": "Void", "init": "systemd"}, False),
        ):
            module = load("linux_service", grains={**GRAINS, **grains}, context=context)
            self.assertEqual(module.__virtual__() == "service", expected, grains)

    def test_script(self) -> None:
        """The script is called with the action."""
        commands = Commands()
        module = load("linux_service", salt=commands.salt(), grains={**GRAINS, "os": "Arch"})

        self.assertTrue(module.reload_("x"))

        self.assertEqual(commands.ran, ["/etc/rc.d/x reload"])
