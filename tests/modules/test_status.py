"""Salt's C{status} functions over described C{/proc} files."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.modules.harness import Commands, load


class StatusTests(SynchronousTestCase):
    """Shapes and numbers."""

    def setUp(self) -> None:
        self.commands = Commands()
        self.files: dict[str, str] = {}
        self.module = load("status", salt=self.commands.salt())

        def read_text(path: str, default: str = "", limit: int = -1) -> str:
            return self.files.get(path, default)

        class Tools:
            pass

        tools: Any = Tools()
        tools.read_text = read_text
        tools.which = lambda name: f"/usr/bin/{name}"
        self.module.systools = tools  # type: ignore[attr-defined]

    def test_cpustats(self) -> None:
        """Each line of C{/proc/stat} has its own shape."""
        self.files["/proc/stat"] = (
            "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 11 2\nintr 100 1 0 2\nctxt 55\nsoftirq 9 1 2\n"
        )

        found = self.module.cpustats()

        self.assertEqual(
            found["cpu"],
            {
                "user": 1,
                "nice": 2,
                "system": 3,
                "idle": 4,
                "iowait": 5,
                "irq": 6,
                "softirq": 7,
                "steal": 8,
            },
        )
        self.assertEqual(found["cpu0"], 11)
        self.assertEqual(found["intr"], {"total": 100, "irqs": [1, 0, 2]})
        self.assertEqual(found["softirq"], {"total": 9, "softirqs": [1, 2]})
        self.assertEqual(found["ctxt"], 55)

    def test_meminfo(self) -> None:
        """Values stay text, as in Salt; a unit is there only if the kernel gives one."""
        self.files["/proc/meminfo"] = "MemTotal:  100 kB\nHugePages_Total: 0\n"

        self.assertEqual(
            self.module.meminfo(),
            {"MemTotal": {"value": "100", "unit": "kB"}, "HugePages_Total": {"value": "0"}},
        )

    def test_cpuinfo(self) -> None:
        """Flags are a list, everything else text, the last processor wins."""
        self.files["/proc/cpuinfo"] = "processor\t: 0\nflags\t: a b\n\nprocessor\t: 1\n"

        self.assertEqual(self.module.cpuinfo(), {"processor": "1", "flags": ["a", "b"]})

    def test_netdev(self) -> None:
        """The counters behind the colon are told by direction, also without a blank after it."""
        self.files["/proc/net/dev"] = (
            "Inter-| Receive\n face |bytes\n  eth0:100 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
        )

        found = self.module.netdev()["eth0"]

        self.assertEqual(found["iface"], "eth0")
        self.assertEqual((found["rx_bytes"], found["rx_frame"], found["rx_multicast"]), (100, 6, 8))
        self.assertEqual(
            (found["tx_bytes"], found["tx_colls"], found["tx_compressed"]), (9, 14, 16)
        )

    def test_netstats_without_the_last_column(self) -> None:
        """Salt leaves out the last counter of each group, and so do we."""
        self.files["/proc/net/netstat"] = "TcpExt: A B C\nTcpExt: 1 2 3\n"

        self.assertEqual(self.module.netstats(), {"TcpExt": {"A": 1, "B": 2}})

    def test_procs(self) -> None:
        """User, process id and command are found by the header of C{ps}."""
        self.commands.answers["ps"] = (
            "UID  PID PPID C STIME TTY TIME CMD\nroot 1 0 0 Jan1 ? 00:00 /sbin/init splash\n"
        )

        self.assertEqual(self.module.procs(), {"1": {"user": "root", "cmd": "/sbin/init splash"}})

    def test_pid(self) -> None:
        """All processes that match are listed, one per line."""
        self.commands.answers["ps"] = "root 9991 x nginx: master\nroot 9992 x nginx: worker\n"

        self.assertEqual(self.module.pid("nginx"), "9991\n9992")
        self.assertEqual(self.module.pid("nothing"), "")

    def test_w(self) -> None:
        """Each session has its user, terminal and command."""
        self.commands.answers["w"] = "root pts/0 10:00 2.00s 0.1s 0.0s vim a b\n"

        self.assertEqual(
            self.module.w(),
            [
                {
                    "user": "root",
                    "tty": "pts/0",
                    "login": "10:00",
                    "idle": "2.00s",
                    "jcpu": "0.1s",
                    "pcpu": "0.0s",
                    "what": "vim a b",
                }
            ],
        )

    def test_custom(self) -> None:
        """The named fields of the named functions are gathered, missing ones are C{UNKNOWN}."""
        salt: dict[str, Any] = self.module.__salt__  # type: ignore[attr-defined]
        salt["config.dot_vals"] = lambda name: {
            "status.loadavg.custom": ["1-min", "nope"],
            "status.custom": ["x"],
            "status.gone.custom": ["y"],
        }
        salt["status.loadavg"] = lambda: {"1-min": 0.5}

        self.assertEqual(self.module.custom(), {"1-min": 0.5, "nope": "UNKNOWN"})

    def test_master_fires_when_the_connection_changed(self) -> None:
        """The daemon hears of a connection that is not as expected, and only then."""
        fired: list[tuple[str, dict[str, Any]]] = []

        class Daemon:
            def call(self, op: str, **args: Any) -> None:
                fired.append((args["tag"], args["data"]))

        class Net:
            @staticmethod
            def host_to_ips(name: str) -> list[str] | None:
                return ["10.0.0.1"] if name == "salt" else None

            @staticmethod
            def remotes(port: int) -> set[str]:
                return {"10.0.0.1"} if port == 4505 else set()

        self.module.netinfo = Net  # type: ignore[attr-defined]
        self.module.__daemon__ = Daemon()  # type: ignore[attr-defined]

        self.assertIs(self.module.master("salt"), True)
        self.assertIs(self.module.master("unknown"), None)
        self.assertEqual(fired, [])
        self.assertIs(self.module.master("salt", connected=False), True)
        self.assertEqual(fired, [("__master_connected", {"master": "salt"})])

    def test_diskusage_by_path(self) -> None:
        """A path is measured itself, one that is not there is left out."""
        found = self.module.diskusage("/", "/no/such/place")

        self.assertEqual(list(found), ["/"])
        self.assertGreater(found["/"]["total"], found["/"]["available"])
