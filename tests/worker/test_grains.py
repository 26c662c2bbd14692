"""
Grains: values on described machines, order of authority, laziness.

What stock Salt answers for a distribution is recorded in C{distributions.yaml}; the
comparison of a whole C{grains.items} with stock on the same machine is an interop test.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import tempfile
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import yaml
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.compat import COMPAT_VERSION
from saltwisted.wire import msgpack
from saltwisted.worker.grains import collect as grains_module
from saltwisted.worker.grains import distribution, netinfo, virtual
from saltwisted.worker.grains.collect import Grains
from saltwisted.worker.grains.machine import Machine

HERE = os.path.dirname(os.path.abspath(__file__))


class DescribedMachine(Machine):
    """A machine that consists of files (path to text) and of commands (argv to code and output)."""

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        commands: Mapping[Sequence[str], tuple[int, str]] | None = None,
        links: Mapping[str, str] | None = None,
        root: bool = True,
    ) -> None:
        self.files = dict(files or {})
        self.commands = dict(commands or {})
        self.links = dict(links or {})
        self.root = root
        self.ran: list[tuple[str, ...]] = []
        self.gateways: dict[int, list[netinfo.Route]] = {}

    def read_bytes(self, path: str) -> bytes | None:
        value = self.files.get(path)
        return value.encode() if isinstance(value, str) else value

    def read(self, path: str) -> str | None:
        raw = self.read_bytes(path)
        return None if raw is None else raw.decode("utf-8", "surrogateescape")

    def isfile(self, path: str) -> bool:
        return path in self.files

    def isdir(self, path: str) -> bool:
        return any(name.startswith(path.rstrip("/") + "/") for name in self.files)

    def exists(self, path: str) -> bool:
        return self.isfile(path) or self.isdir(path)

    def listdir(self, path: str) -> list[str]:
        start = path.rstrip("/") + "/"
        names = [*self.files, *self.links]
        return sorted({n[len(start) :].split("/")[0] for n in names if n.startswith(start)})

    def readlink(self, path: str) -> str:
        return self.links.get(path, "")

    def in_chroot(self) -> bool:
        return False

    def is_root(self) -> bool:
        return self.root

    def which(self, name: str) -> str | None:
        if name.startswith("/"):
            return name if name in self.files else None
        known = {argv[0] for argv in self.commands}
        return f"/usr/bin/{name}" if name in known else None

    def run(self, argv: Sequence[str], timeout: float = 30) -> tuple[int, str]:
        self.ran.append(tuple(argv))
        return self.commands.get(tuple(argv), (127, ""))

    def interfaces(self) -> dict[str, dict[str, Any]]:
        return {
            "eth0": {
                "up": True,
                "hwaddr": "02:00:00:00:00:01",
                "inet": [{"address": "10.0.0.9"}],
                "inet6": [{"address": "fe80::1"}],
                "secondary": [{"type": "inet", "address": "10.0.0.10"}],
            }
        }

    def routes(self, family: int) -> list[netinfo.Route]:
        return self.gateways.get(family, [])

    def node_name(self) -> str:
        return "web1"

    def full_name(self) -> str:
        return "web1.example.org"

    def resolve(self, name: str, family: int) -> list[str]:
        return ["10.0.0.9"] if family == socket.AF_INET else []

    def reverse_name(self, address: str) -> str:
        return "web1.example.org" if address == "10.0.0.9" else ""


class CountingGrains(Grains):
    """Remembers which groups were computed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.computed: list[str] = []
        super().__init__(*args, **kwargs)

    def group(self, name: str) -> Mapping[str, Any]:
        if name not in self._groups:
            self.computed.append(name)
        return super().group(name)


class DistributionTests(SynchronousTestCase):
    """C{os} and its kin, judged by recorded answers of stock Salt."""

    def test_every_recorded_distribution(self) -> None:
        """Each recorded distribution gives exactly the grains that stock Salt gave."""
        with open(os.path.join(HERE, "distributions.yaml"), encoding="utf-8") as file:
            cases = yaml.safe_load(file)

        for name, case in cases.items():
            found = distribution.distribution(DescribedMachine(case["files"]))
            if found.get("osrelease"):
                found.update(
                    distribution.release_grains(
                        found["os"], found["osfullname"], found["osrelease"]
                    )
                )
            self.assertEqual(json.loads(json.dumps(found)), case["grains"], name)

    def test_families(self) -> None:
        """Each distribution belongs to the family whose package manager it has."""
        for name, family in (
            ("AlterOS", "RedHat"),
            ("RED OS", "RedHat"),
            ("alfaLinux", "Suse"),
            ("alfaLinux Rise", "Suse"),
        ):
            text = f'NAME="{name}"\nVERSION_ID="8.0"\nID="x"\n'
            found = distribution.distribution(DescribedMachine({"/etc/os-release": text}))
            self.assertEqual((found["os"], found["os_family"]), (name, family))

    def test_escapes_in_os_release(self) -> None:
        """Quotes and backslashes of os-release are read as a shell reads them."""
        text = 'NAME="A \\"b\\" \\$c"\nID=\'x\'\nBROKEN=\'y\n'

        found = distribution.os_release(DescribedMachine({"/etc/os-release": text}))

        self.assertEqual(found["NAME"], 'A "b" $c')
        self.assertEqual(found["ID"], "x")
        self.assertEqual(found["BROKEN"], "'y")

    def test_cpe_spellings(self) -> None:
        """Both spellings of a CPE name are understood, and anything else is nothing."""
        self.assertEqual(
            distribution.cpe_name("cpe:/o:opensuse:leap:15.5"),
            {"vendor": "opensuse", "product": "leap", "version": "15.5"},
        )
        self.assertEqual(
            distribution.cpe_name("cpe:2.3:o:amazon:amazon_linux:*"),
            {"vendor": "amazon", "product": "amazon_linux"},
        )
        self.assertEqual(distribution.cpe_name("cpe:2.2:o:a"), {})


class VirtualTests(SynchronousTestCase):
    """C{virtual} and C{virtual_subtype} on described machines."""

    def virtual(
        self,
        files: Mapping[str, str | bytes],
        commands: Mapping[Sequence[str], tuple[int, str]] | None = None,
        **kwargs: Any,
    ) -> tuple[dict[str, Any], DescribedMachine]:
        machine = DescribedMachine(files, commands, **kwargs)
        return virtual.virtual(machine, {}), machine

    DETECT = {("systemd-detect-virt",): (0, "vmware")}

    def test_docker_needs_no_program(self) -> None:
        """C{/.dockerenv} alone makes a Docker container, and no program is started."""
        found, machine = self.virtual({"/.dockerenv": ""}, self.DETECT)

        self.assertEqual(found, {"virtual": "container", "virtual_subtype": "Docker"})
        self.assertEqual(machine.ran, [])

    def test_lxc_by_systemd(self) -> None:
        """The name that an LXC container's systemd left in C{/run} counts."""
        found, machine = self.virtual({"/run/systemd/container": "lxc\n"}, self.DETECT)

        self.assertEqual(found, {"virtual": "container", "virtual_subtype": "LXC"})
        self.assertEqual(machine.ran, [])

    def test_lxc_by_environment_of_init(self) -> None:
        """Without systemd's tool the environment of process 1 still shows LXC."""
        found, _machine = self.virtual({"/proc/1/environ": "TERM=x\0container=lxc\0"})

        self.assertEqual(found, {"virtual": "container", "virtual_subtype": "LXC"})

    def test_podman_named_oci(self) -> None:
        """An image that only says C{oci} is told from Docker by C{/run/.containerenv}."""
        files = {"/proc/1/environ": "container=oci\0", "/run/.containerenv": ""}

        found, _machine = self.virtual(files, self.DETECT)

        self.assertEqual(found, {"virtual": "container", "virtual_subtype": "Podman"})

    def test_kvm_by_its_clock(self) -> None:
        """A guest with the kvm clock is kvm without asking CPUID."""
        files = {
            "/sys/fs/cgroup/cgroup.procs": "",
            "/proc/cpuinfo": "flags\t: fpu hypervisor\n",
            "/sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc\n",
            "/sys/class/dmi/id/sys_vendor": "QEMU\n",
        }

        found, machine = self.virtual(files, self.DETECT)

        self.assertEqual(found, {"virtual": "kvm"})
        self.assertEqual(machine.ran, [])

    def test_ambiguous_asks_systemd(self) -> None:
        """Where files leave it open, the program decides."""
        files = {
            "/sys/fs/cgroup/cgroup.procs": "",
            "/proc/cpuinfo": "flags\t: fpu hypervisor\n",
        }

        found, machine = self.virtual(files, self.DETECT)

        self.assertEqual(found, {"virtual": "VMware"})
        self.assertEqual(machine.ran, [("systemd-detect-virt",)])

    def test_bare_metal(self) -> None:
        """A known maker's machine without the hypervisor flag is physical, with no program run."""
        files = {
            "/sys/fs/cgroup/cgroup.procs": "",
            "/proc/cpuinfo": "flags\t: fpu sse\n",
            "/sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
            "/sys/firmware/dmi/tables/DMI": b"Dell\0PowerEdge\0",
        }
        commands = {**self.DETECT, ("dmidecode",): (0, "Vendor: Dell Inc.")}

        found, machine = self.virtual(files, commands)

        self.assertEqual(found, {"virtual": "physical"})
        self.assertEqual(machine.ran, [])

    def test_amazon_product(self) -> None:
        """A KVM guest of Amazon is Nitro with the instance type, as root sees it."""
        files = {
            "/run/systemd/container": "",
            "/sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
            "/sys/class/dmi/id/product_name": "t3.micro\n",
            "/proc/cpuinfo": "model name\t: QEMU Virtual CPU\n",
        }
        commands = {("dmidecode",): (1, "")}

        as_root, _ = self.virtual(files, commands)
        as_user, _ = self.virtual(files, commands, root=False)

        self.assertEqual(as_root, {"virtual": "Nitro", "virtual_subtype": "Amazon EC2 (t3.micro)"})
        self.assertEqual(as_user, {"virtual": "kvm"})

    def test_xen_domains(self) -> None:
        """The capabilities file tells the controlling domain from a guest, and both are xen."""
        guest, _ = self.virtual({"/proc/xen/capabilities": ""})
        host, _ = self.virtual({"/proc/xen/capabilities": "control_d\n"})

        self.assertEqual(guest, {"virtual": "xen", "virtual_subtype": "Xen PV DomU"})
        self.assertEqual(host, {"virtual": "xen", "virtual_subtype": "Xen Dom0"})

    def test_virt_what_alone_counts_where_it_is_installed(self) -> None:
        """With virt-what installed its first known line decides, as in Salt."""
        commands = {("virt-what",): (0, "hyperv\naws"), **self.DETECT}

        found, _machine = self.virtual({}, commands)

        self.assertEqual(found, {"virtual": "HyperV"})

    def test_kubernetes(self) -> None:
        """A control group of kubepods gives a subtype and turns physical into virtual."""
        found, _machine = self.virtual({"/proc/1/cgroup": "1:cpu:/mine/kubepods/x\n"})
        self.assertEqual(found, {"virtual": "physical"})

        found, _machine = self.virtual({"/proc/1/cgroup": "1:cpu:/kubepods/burst\n"})
        self.assertEqual(found, {"virtual": "virtual", "virtual_subtype": "kubernetes"})


class GroupTests(SynchronousTestCase):
    """Single groups on described machines."""

    def grains(
        self,
        files: Mapping[str, str | bytes],
        opts: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Grains:
        return Grains(opts or {}, machine=DescribedMachine(files, **kwargs))

    def test_memory_in_mebibytes(self) -> None:
        """Memory is in whole MiB, rounded down."""
        grains = self.grains({"/proc/meminfo": "MemTotal:  2047 kB\nSwapTotal: 4096 kB\n"})

        self.assertEqual((grains["mem_total"], grains["swap_total"]), (1, 4))

    def test_kernel_parameters(self) -> None:
        """A word without one C{=} has no value, quotes are stripped."""
        grains = self.grains({"/proc/cmdline": 'quiet root=UUID=1 a="b c" x=1\n'})

        self.assertEqual(
            grains["kernelparams"],
            [("quiet", None), ("root", None), ("a", "b c"), ("x", "1")],
        )

    def test_resolver(self) -> None:
        """Comments end a line, nameservers are told by family and kept once."""
        text = (
            "nameserver 1.1.1.1 # one\nnameserver 1.1.1.1\nnameserver fe80::1\nnameserver bad\n"
            "search a b ; c\noptions ndots:2 rotate\nsortlist 10.0.0.0 130.1.0.0/255.255.0.0\n"
        )

        found = self.grains({"/etc/resolv.conf": text})["dns"]

        self.assertEqual(found["nameservers"], ["1.1.1.1", "fe80::1"])
        self.assertEqual(found["ip4_nameservers"], ["1.1.1.1"])
        self.assertEqual(found["ip6_nameservers"], ["fe80::1"])
        self.assertEqual(found["search"], ["a", "b"])
        self.assertEqual(found["options"], ["ndots:2"])
        self.assertEqual(found["sortlist"], ["10.0.0.0/255.0.0.0", "130.1.0.0/255.255.0.0"])

    def test_disks(self) -> None:
        """Real block devices are told by their rotational flag, virtual ones left out."""
        files = {
            "/sys/block/sda/queue/rotational": "1\n",
            "/sys/block/nvme0n1/queue/rotational": "0\n",
            "/sys/block/loop0/queue/rotational": "1\n",
        }
        links = {"/sys/block/loop0": "../devices/virtual/block/loop0"}

        grains = self.grains(files, links=links)

        self.assertEqual((grains["disks"], grains["ssds"]), (["sda"], ["nvme0n1"]))

    def test_mdadm(self) -> None:
        """RAID devices come from mdstat; without it there is no such grain."""
        text = "Personalities : [raid1]\nmd1 : active raid1 a b\nmd0 : active\nunused devices: <>\n"

        self.assertEqual(self.grains({"/proc/mdstat": text})["mdadm"], ["md0", "md1"])
        self.assertNotIn("mdadm", self.grains({}))

    def test_lvm(self) -> None:
        """Volume groups map to their logical volumes, an empty group to an empty list."""
        commands = {
            ("lvm", "vgs", "-o", "vg_name", "--noheadings"): (0, "  vg0\n  vg1"),
            ("lvm", "lvs", "-o", "vg_name,lv_name", "--noheadings"): (0, "  vg0 root\n  vg0 swap"),
        }

        grains = self.grains({}, commands=commands)

        self.assertEqual(grains["lvm"], {"vg0": ["root", "swap"], "vg1": []})

    def test_selinux(self) -> None:
        """Enabled and enforcing are read from selinuxfs."""
        commands = {("selinuxenabled",): (0, ""), ("getenforce",): (0, "")}
        files = {"/sys/fs/selinux/enforce": "0", "/etc/selinux/config": ""}

        on = self.grains(files, commands=commands)
        off = self.grains({}, commands=commands)

        self.assertEqual(on["selinux"], {"enabled": True, "enforced": "Permissive"})
        self.assertEqual(off["selinux"], {"enabled": False, "enforced": "Disabled"})

    def test_systemd_from_its_library(self) -> None:
        """Version and features come from the shared library, without a process."""
        commands = {("systemctl", "--version"): (0, ""), ("localectl",): (0, "")}
        files = {
            "/lib/systemd/libsystemd-shared-252.so": b"\0x\0+PAM -AUDIT +SYSVINIT unified=1\0y"
        }
        grains = self.grains(files, commands=commands)

        self.assertEqual(
            grains["systemd"], {"version": "252", "features": "+PAM -AUDIT +SYSVINIT unified=1"}
        )
        self.assertEqual(grains.machine.ran, [])

    def test_systemd_asked_when_two_libraries(self) -> None:
        """In the middle of an upgrade the program itself is asked."""
        commands = {
            ("systemctl", "--version"): (0, "systemd 253 (253-1)\n+PAM"),
            ("localectl",): (0, ""),
        }
        files = {
            "/lib/systemd/libsystemd-shared-252.so": b"",
            "/lib/systemd/libsystemd-shared-253.so": b"",
        }

        grains = self.grains(files, commands=commands)

        self.assertEqual(grains["systemd"], {"version": "253", "features": "+PAM"})

    def test_init(self) -> None:
        """Process 1 is known by its run directory, its image or its name."""
        cases: list[tuple[dict[str, str | bytes], str]] = [
            ({"/run/systemd/system/x": ""}, "systemd"),
            ({"/proc/1/cmdline": "/sbin/init\0", "/sbin/init": b"..SysVinit.."}, "sysvinit"),
            ({"/proc/1/cmdline": "runit\0"}, "runit"),
            ({"/proc/1/cmdline": "/usr/bin/python3\0/sbin/my_init\0"}, "runit"),
            ({"/proc/1/cmdline": "/bin/sh\0"}, "unknown"),
            ({}, "unknown"),
        ]

        for files, expected in cases:
            self.assertEqual(grains_module.init_system(DescribedMachine(files)), expected, files)

    def test_osarch_without_dpkg(self) -> None:
        """The native architecture of a Debian is that of the installed dpkg package."""
        files = {
            "/etc/os-release": "NAME=Debian\nID=debian\n",
            "/var/lib/dpkg/status": "Package: a\nArchitecture: all\n\n"
            "Package: dpkg\nStatus: install ok installed\nArchitecture: arm64\n\n",
        }

        grains = self.grains(files)

        self.assertEqual(grains["osarch"], "arm64")
        self.assertEqual(grains.machine.ran, [])

    def test_graphics_cards(self) -> None:
        """lspci is run only when a display device exists, and names its vendor."""
        output = (
            "Slot:\t00:02.0\nClass:\tVGA compatible controller\nVendor:\tIntel Corporation\n"
            "Device:\tUHD 620\n\nSlot:\t00:1f.0\nClass:\tISA bridge\nVendor:\tX\nDevice:\tY"
        )
        commands = {("lspci", "-vmm"): (0, output)}
        card = self.grains({"/sys/bus/pci/devices/a/class": "0x030000\n"}, commands=commands)
        none = self.grains({"/sys/bus/pci/devices/a/class": "0x060100\n"}, commands=commands)

        self.assertEqual(card["gpus"], [{"vendor": "intel", "model": "UHD 620"}])
        self.assertEqual(card["num_gpus"], 1)
        self.assertEqual((none["num_gpus"], none.machine.ran), (0, []))

    def test_hardware_values_nobody_filled_in(self) -> None:
        """What firmware says in place of an answer is no answer."""
        clean = grains_module.clean_hardware_value

        self.assertIsNone(clean("system-serial-number", "To be filled by O.E.M."))
        self.assertIsNone(clean("system-serial-number", "0123456789"))
        self.assertIsNone(clean("system-product-name", "Not Specified"))
        self.assertIsNone(clean("system-uuid", "nonsense"))
        self.assertEqual(clean("system-product-name", "X1"), "X1")

    def test_secure_boot(self) -> None:
        """The last byte of the SecureBoot variable says whether it is on."""
        path = "/sys/firmware/efi/efivars/SecureBoot-8be4"

        self.assertIs(self.grains({path: b"\x06\0\0\0\x01"})["efi-secure-boot"], True)
        self.assertIs(self.grains({path: b"\x06\0\0\0\x00"})["efi-secure-boot"], False)
        self.assertIs(self.grains({})["efi"], False)

    def route(self, **values: Any) -> netinfo.Route:
        plain: dict[str, Any] = {
            "family": socket.AF_INET,
            "destination": "default",
            "gateway": "",
            "via6": False,
            "multipath": False,
            "interface": 1,
            "metric": 0,
        }
        return netinfo.Route(**{**plain, **values})

    def test_gateways(self) -> None:
        """The first default route of a family gives its gateway, or C{True} if it has none."""
        grains = self.grains({})
        assert isinstance(grains.machine, DescribedMachine)
        grains.machine.gateways = {
            socket.AF_INET: [
                self.route(destination="10.0.0.0/8"),
                self.route(gateway="10.0.0.1"),
                self.route(gateway="10.0.0.2"),
            ],
            socket.AF_INET6: [self.route()],
        }

        self.assertEqual(
            (grains["ip_gw"], grains["ip4_gw"], grains["ip6_gw"]), (True, "10.0.0.1", True)
        )
        none = self.grains({})
        self.assertEqual((none["ip_gw"], none["ip4_gw"]), (False, False))

    def test_addresses_of_interfaces(self) -> None:
        """Secondary addresses come last, and each map holds its own family."""
        grains = self.grains({})

        self.assertEqual(grains["ip4_interfaces"], {"eth0": ["10.0.0.9", "10.0.0.10"]})
        self.assertEqual(grains["ip6_interfaces"], {"eth0": ["fe80::1"]})
        self.assertEqual(grains["ip_interfaces"], {"eth0": ["10.0.0.9", "fe80::1", "10.0.0.10"]})
        self.assertEqual(grains["hwaddr_interfaces"], {"eth0": "02:00:00:00:00:01"})

    def test_names(self) -> None:
        """Host and domain are the two parts of the full name; every reverse name is listed."""
        grains = self.grains({})

        self.assertEqual((grains["host"], grains["domain"]), ("web1", "example.org"))
        self.assertEqual(grains["localhost"], "web1")
        self.assertEqual(grains["fqdns"], ["web1.example.org"])
        self.assertEqual(self.grains({}, {"enable_fqdns_grains": False})["fqdns"], [])
        self.assertEqual(grains["fqdn_ip4"], ["10.0.0.9"])
        self.assertEqual(grains["fqdn_ip6"], [])

    def test_server_id(self) -> None:
        """The server id is SHA-256 of the minion id modulo 2**31, as in Salt."""
        self.assertEqual(Grains({"id": "testmin"})["server_id"], 168508286)


class AuthorityTests(SynchronousTestCase):
    """Which source of a grain wins."""

    def setUp(self) -> None:
        self.machine = DescribedMachine({"/etc/salt/grains": "os: FromFile\nroles: [web]\n"})
        self.opts: dict[str, Any] = {"conf_file": "/etc/salt/minion", "id": "m"}

    def test_file_over_core(self) -> None:
        """The grains file replaces a core grain, lazily and as a whole."""
        lazy = Grains(self.opts, machine=self.machine)
        whole = Grains(self.opts, machine=self.machine).as_dict()

        self.assertEqual((lazy["os"], lazy["roles"]), ("FromFile", ["web"]))
        self.assertEqual((whole["os"], whole["roles"]), ("FromFile", ["web"]))

    def test_option_over_file(self) -> None:
        """The C{grains} option replaces the file."""
        grains = Grains({**self.opts, "grains": {"os": "FromOption"}}, machine=self.machine)

        self.assertEqual(grains["os"], "FromOption")
        self.assertEqual(grains.as_dict()["os"], "FromOption")

    def test_custom_between_core_and_file(self) -> None:
        """A custom module replaces core grains, and the file replaces it."""

        def custom() -> dict[str, Any]:
            return {"os": "Custom", "kernel": "Custom", "mine": 1}

        grains = Grains(self.opts, lambda: [("my.custom", custom)], machine=self.machine)

        self.assertEqual((grains["os"], grains["kernel"]), ("FromFile", "Custom"))
        self.assertEqual(grains.as_dict()["mine"], 1)

    def test_custom_sees_core_and_its_failures_are_alone(self) -> None:
        """A custom function may take C{grains}; one that raises costs only its own grains."""

        def broken() -> dict[str, Any]:
            raise RuntimeError("no")

        def first() -> dict[str, Any]:
            return {"one": 1}

        def second(grains: dict[str, Any]) -> dict[str, Any]:
            return {"two": grains["one"] + 1, "same": grains["kernel"]}

        functions = [("a.broken", broken), ("b.first", first), ("c.second", second)]
        grains = Grains(self.opts, lambda: functions, machine=self.machine)

        self.assertEqual(grains["two"], 2)
        self.assertEqual(grains["same"], os.uname().sysname)

    def test_deep_merge(self) -> None:
        """With C{grains_deep_merge} maps from several sources are merged."""
        opts = {**self.opts, "grains": {"app": {"a": 1}}, "grains_deep_merge": True}

        grains = Grains(opts, lambda: [("m.f", lambda: {"app": {"b": 2}})], machine=self.machine)

        self.assertEqual(grains["app"], {"a": 1, "b": 2})

    def test_blacklist(self) -> None:
        """C{grains_blacklist} hides computed grains by glob or expression, not configured ones."""
        opts = {
            **self.opts,
            "grains_blacklist": ["cpu*", "os|rol.*"],
            "grains": {"cpu_model": "mine"},
        }

        grains = Grains(opts, machine=self.machine)

        self.assertNotIn("cpu_flags", grains)
        self.assertNotIn("os", grains)
        self.assertNotIn("roles", grains)
        self.assertEqual(grains["cpu_model"], "mine")
        self.assertIn("kernel", grains.as_dict())
        self.assertNotIn("os", grains.as_dict())

    def test_bad_grains_file(self) -> None:
        """A grains file that is not a YAML map is as none."""
        self.machine.files["/etc/salt/grains"] = "a: [\n"

        self.assertNotIn("a", Grains(self.opts, machine=self.machine))

    def test_version_is_the_level_of_compatibility(self) -> None:
        """Templates see the Salt version that we answer for, and ours under its own name."""
        grains = Grains(self.opts, machine=self.machine)

        self.assertEqual(grains["saltversioninfo"], list(COMPAT_VERSION))
        self.assertEqual(grains["saltversion"], "3008.5")
        self.assertNotEqual(grains["saltwistedversion"], grains["saltversion"])


class LazinessTests(SynchronousTestCase):
    """Only what is asked for is computed, and the map is a C{dict} all the same."""

    def grains(self, **opts: Any) -> CountingGrains:
        return CountingGrains({"id": "m", **opts}, machine=DescribedMachine())

    def test_one_group(self) -> None:
        """C{grains["mem_total"]} computes memory and the grains file alone."""
        grains = self.grains()

        self.assertEqual(grains["mem_total"], 0)

        self.assertEqual(grains.computed, ["file", "memory"])

    def test_unknown_name(self) -> None:
        """A name that no group can give is absent without computing groups."""
        grains = self.grains()

        self.assertNotIn("roles", grains)
        self.assertIsNone(grains.get("roles"))
        self.assertRaises(KeyError, grains.__getitem__, "roles")

        self.assertEqual(grains.computed, ["file"])

    def test_declared_names_are_complete(self) -> None:
        """No group returns a name that it did not declare, on this machine."""
        opts = {"id": "m", "append_domain": "x", "resources": {"a": ["b"]}}
        grains = Grains({**opts, "enable_fqdns_grains": False})

        for group in (*grains_module._CORE, *grains_module._REST):
            undeclared = [key for key in grains.group(group.name) if not group.gives(key)]
            self.assertEqual(undeclared, [], group.name)

    def test_names_are_declared_once(self) -> None:
        """No two groups declare the same name."""
        groups = (*grains_module._CORE, *grains_module._REST)
        names = [key for group in groups for key in group.keys]

        self.assertEqual(len(names), len(set(names)))

    def test_whole_dict_everywhere(self) -> None:
        """Serialisers and C-level copies see every grain, not only the computed ones."""
        expected = self.grains().as_dict()
        self.assertIn("kernel", expected)
        ordinary = json.loads(json.dumps(expected))

        self.assertEqual(dict(self.grains()), expected)
        self.assertEqual({**self.grains()}, expected)
        self.assertEqual(json.loads(json.dumps(self.grains())), ordinary)
        self.assertEqual(msgpack.unpack(msgpack.pack(self.grains())), ordinary)
        self.assertEqual(deepcopy(self.grains()), expected)
        self.assertEqual(pickle.loads(pickle.dumps(self.grains())), expected)
        self.assertEqual(self.grains().copy(), expected)
        self.assertEqual(len(self.grains()), len(expected))
        self.assertEqual(list(self.grains()), list(expected))

    def test_written_value_stays(self) -> None:
        """A module that sets a grain sees it, before and after the rest is computed."""
        grains = self.grains()
        grains["kernel"] = "Mine"
        grains["new"] = 1

        self.assertEqual(grains.as_dict()["kernel"], "Mine")
        self.assertEqual(grains["new"], 1)

    def test_refresh(self) -> None:
        """After a refresh the same object answers again."""
        grains = self.grains()
        grains["kernel"] = "Mine"
        machine = grains.machine
        assert isinstance(machine, DescribedMachine)
        self.assertEqual(grains["mem_total"], 0)

        machine.files["/proc/meminfo"] = "MemTotal: 2048 kB\n"
        grains.refresh(static={"role": "x"})

        self.assertEqual((grains["mem_total"], grains["role"]), (2, "x"))
        self.assertNotEqual(grains["kernel"], "Mine")


class CacheTests(SynchronousTestCase):
    """C{grains_cache}."""

    def setUp(self) -> None:
        self.folder = self.mktemp()
        os.makedirs(self.folder)
        self.opts = {"id": "m", "cachedir": self.folder, "grains_cache": True}
        self.path = os.path.join(self.folder, "grains.cache.p")

    def test_written_and_read(self) -> None:
        """The cache is private, and a second minion process answers from it alone."""
        first = Grains(self.opts, machine=DescribedMachine({"/proc/meminfo": "MemTotal: 2048 kB"}))
        self.assertEqual(first["mem_total"], 2)
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)

        second = CountingGrains(self.opts, machine=DescribedMachine())

        self.assertEqual(second["mem_total"], 2)
        self.assertEqual(second.computed, [])

    def test_too_old(self) -> None:
        """A cache older than C{grains_cache_expiration} is not used."""
        Grains(
            self.opts, machine=DescribedMachine({"/proc/meminfo": "MemTotal: 2048 kB"})
        ).complete()
        os.utime(self.path, (1, 1))

        self.assertEqual(Grains(self.opts, machine=DescribedMachine())["mem_total"], 0)

    def test_damaged(self) -> None:
        """A damaged cache is replaced."""
        with open(self.path, "wb") as file:
            file.write(b"\xc1garbage")

        grains = Grains(self.opts, machine=DescribedMachine())

        self.assertEqual(grains["id"], "m")
        with open(self.path, "rb") as file:
            self.assertEqual(msgpack.unpack(file.read())["id"], "m")

    def test_refresh_does_not_read_the_cache(self) -> None:
        """A refresh computes, and writes the cache again."""
        Grains(self.opts, machine=DescribedMachine()).complete()
        grains = Grains(self.opts, machine=DescribedMachine({"/proc/meminfo": "MemTotal: 2048 kB"}))
        self.assertEqual(grains["mem_total"], 0)

        grains.refresh()

        self.assertEqual(grains["mem_total"], 2)


class NetinfoTests(SynchronousTestCase):
    """Shapes made from interface data."""

    IFACES = {
        "lo": {"up": True, "inet": [{"address": "127.0.0.1"}], "inet6": [{"address": "::1"}]},
        "eth0": {
            "up": True,
            "inet": [{"address": "10.0.0.9"}],
            "secondary": [{"type": "inet", "address": "10.0.0.10"}],
        },
        "eth1": {"up": False, "inet": [{"address": "10.0.0.2"}]},
    }

    def test_addresses_sorted_as_numbers(self) -> None:
        """Addresses come once, sorted as numbers, loopback on request."""
        found = netinfo.addresses(self.IFACES)

        self.assertEqual(found, ["10.0.0.2", "10.0.0.9", "10.0.0.10"])
        self.assertIn("127.0.0.1", netinfo.addresses(self.IFACES, include_loopback=True))

    def test_pick(self) -> None:
        """Interfaces are picked by globs, a text may hold several."""
        self.assertEqual(list(netinfo.pick(self.IFACES, "eth*")), ["eth0", "eth1"])
        self.assertEqual(list(netinfo.pick(self.IFACES, "lo, eth1")), ["lo", "eth1"])

    def test_kernel_answers(self) -> None:
        """The kernel of any machine that runs this knows a loopback interface."""
        found = netinfo.interfaces()

        self.assertIn("lo", found)
        self.assertEqual(found["lo"]["hwaddr"], "00:00:00:00:00:00")

    def test_masks(self) -> None:
        """Prefix lengths become dotted masks at both ends of the range."""
        self.assertEqual(
            [netinfo.netmask(bits) for bits in (0, 8, 25, 32)],
            ["0.0.0.0", "255.0.0.0", "255.255.255.128", "255.255.255.255"],
        )


class CacheDirTests(SynchronousTestCase):
    """Where the static file is looked for."""

    def test_path(self) -> None:
        """Beside the configuration file, or in it if it is a directory."""
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(
                grains_module.grains_file({"conf_file": folder}), os.path.join(folder, "grains")
            )
        self.assertEqual(
            grains_module.grains_file({"conf_file": "/etc/salt/minion"}), "/etc/salt/grains"
        )
        self.assertEqual(grains_module.grains_file({"config_dir": "/x"}), "/x/grains")
        self.assertEqual(grains_module.grains_file({}), "")
