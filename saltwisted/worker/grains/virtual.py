"""
What this system runs on: grains C{virtual}, C{virtual_subtype}, C{virtual_hv_*}.

Salt asks C{systemd-detect-virt}, C{virt-what}, C{dmidecode} and C{lspci}, and then corrects their
answers by files. This module first reads the files that each program would read. The program is run
only if they leave its answer open (CPUID cannot be read without one).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from saltwisted.worker.grains.machine import Machine

_DMI = "/sys/class/dmi/id/"

_CONTAINERS = frozenset(
    (
        "systemd-nspawn",
        "lxc-libvirt",
        "lxc",
        "openvz",
        "docker",
        "podman",
        "rkt",
        "wsl",
        "proot",
        "pouch",
    )
)

_DMIDECODE_WORDS = (
    b"QEMU",
    b"Bochs",
    b"BHYVE",
    b"oVirt",
    b"RHEV",
    b"VirtualBox",
    b"VMware",
    b"Microsoft",
    b"Parallels",
    b"Google",
    b"Nutanix",
    b"SeaBIOS",
)
"""Without any of these in the firmware's tables, no rule for dmidecode's output can fire."""

_LSPCI_VENDORS = frozenset(("0x15ad", "0x80ee", "0x1af4", "0x1b36", "0x1234"))
"""VMware, VirtualBox, virtio, QEMU, Bochs: without them C{lspci} says nothing of interest."""

_XEN_FEATURES = {
    0: "writable_page_tables",
    1: "writable_descriptor_tables",
    2: "auto_translated_physmap",
    3: "supervisor_mode_kernel",
    4: "pae_pgdir_above_4gb",
    5: "mmu_pt_update_preserve_ad",
    7: "gnttab_map_avail_bits",
    8: "hvm_callback_vector",
    9: "hvm_safe_pvclock",
    10: "hvm_pirqs",
    11: "dom0",
    12: "grant_map_identity",
    13: "memory_op_vnode_supported",
    14: "ARM_SMCCC_supported",
}
"""Bits of C{/sys/hypervisor/properties/features}, from Xen's public C{features.h}."""


def virtual(machine: Machine, opts: Mapping[str, Any], product: str = "") -> dict[str, Any]:
    """
    C{virtual} and, where known, C{virtual_subtype}.

    @param product: the C{productname} grain.
    """
    grains: dict[str, Any] = {"virtual": "physical"}
    _ask_programs(machine, opts, grains)
    if machine.in_chroot():
        grains["virtual_subtype"] = "chroot"
    _openvz(machine, grains)
    _xen(machine, grains, product)
    if "QEMU Virtual CPU" in (machine.read("/proc/cpuinfo") or ""):
        grains["virtual"] = "kvm"
    _product_name(machine, grains)
    _container(machine, grains)
    if grains.get("virtual_subtype") and grains["virtual"] == "physical":
        grains["virtual"] = "virtual"
    _cloud(machine, grains)
    return grains


def _ask_programs(machine: Machine, opts: Mapping[str, Any], grains: dict[str, Any]) -> None:
    if machine.which("virt-what"):
        code, output = machine.run(["virt-what"])
        if code == 0:
            _from_virt_what(output, grains)
            return
    else:
        if machine.which("systemd-detect-virt") and _from_detect_virt(detect_virt(machine), grains):
            return
        if machine.which("dmidecode"):
            output_or_none = _dmidecode(machine)
            if output_or_none is not None:
                _from_dmidecode(output_or_none, grains)
                return
    if opts.get("enable_lspci", True) is not True or not machine.exists("/proc/bus/pci"):
        return
    if machine.which("lspci") and _LSPCI_VENDORS & pci_vendors(machine):
        model = machine.run(["lspci"])[1].lower()
        if "vmware" in model:
            grains["virtual"] = "VMware"
        elif "virtualbox" in model:
            grains["virtual"] = "VirtualBox"
        elif "qemu" in model or "virtio" in model:
            grains["virtual"] = "kvm"


def pci_vendors(machine: Machine) -> set[str]:
    """Vendor numbers of the PCI devices, as C{0x8086}."""
    root = "/sys/bus/pci/devices"
    return {(machine.read(f"{root}/{slot}/vendor") or "").strip() for slot in machine.listdir(root)}


def detect_virt(machine: Machine) -> str:
    """
    What C{systemd-detect-virt} prints; the empty string for C{none}.

    The order of questions is systemd's (v250 and later): containers first, then DMI for those
    that hide behind KVM, then CPUID. The kernel's own paravirtual clock proves KVM; without
    the hypervisor flag there is no CPUID answer; all else is asked of the program itself.
    """
    known = _container_name(machine)
    if known is None:
        known = _hypervisor_name(machine)
    if known is not None:
        return known
    code, output = machine.run(["systemd-detect-virt"])
    return output if code == 0 else ""


def _container_name(machine: Machine) -> str | None:
    """The container manager, or C{None} if there is no sign of one."""
    if machine.exists("/proc/vz") and not machine.exists("/proc/bc"):
        return "openvz"
    kernel = machine.read("/proc/sys/kernel/osrelease") or ""
    if "Microsoft" in kernel or "WSL" in kernel:
        return "wsl"
    said = ""
    for path in ("/run/host/container-manager", "/run/systemd/container"):
        lines = (machine.read(path) or "").splitlines()
        if lines and lines[0]:
            said = lines[0]
            break
    if not said:
        for entry in (machine.read("/proc/1/environ") or "").split("\0"):
            if entry.startswith("container="):
                said = entry.partition("=")[2]
                break
    if said and said != "oci":
        return said if said in _CONTAINERS else "container-other"
    if machine.exists("/run/.containerenv"):
        return "podman"
    if machine.exists("/.dockerenv"):
        return "docker"
    return "container-other" if said else None


def _hypervisor_name(machine: Machine) -> str | None:
    """The hypervisor, C{""} for bare metal, or C{None} if only CPUID can tell."""
    if machine.exists("/proc/xen") or machine.exists("/sys/hypervisor/type"):
        return None
    # A private control group name space makes a "container-other" of us; so does User Mode Linux
    # of a machine, and both are rare enough to ask.
    if machine.exists("/sys/fs/cgroup/cgroup.events") or not machine.exists("/sys/fs/cgroup"):
        return None
    cpuinfo = machine.read("/proc/cpuinfo") or ""
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    if flags is None:
        return None
    dmi = [
        (machine.read(_DMI + name) or "").strip()
        for name in ("product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version")
    ]
    if any(dmi) and "hypervisor" not in flags.group(1).split():
        metal = (
            "HP",
            "Dell",
            "Lenovo",
            "Supermicro",
            "FUJITSU",
            "ASUS",
            "Intel",
            "Gigabyte",
            "ASRock",
        )
        return "" if dmi[1].startswith(metal) else None
    clocks = machine.read("/sys/devices/system/clocksource/clocksource0/available_clocksource")
    hidden = ("innotek", "VirtualBox", "Xen", "Amazon", "Parallels", "Google", "KVM Virtual")
    if "kvm-clock" in (clocks or "").split() and not any(
        text.startswith(hidden) for text in dmi if text
    ):
        return "kvm"
    return None


def _from_detect_virt(output: str, grains: dict[str, Any]) -> bool:
    """True if the answer settles the matter."""
    exact = ("qemu", "kvm", "oracle", "xen", "bochs", "chroot", "uml", "systemd-nspawn")
    if output in exact:
        grains["virtual"] = output
        return True
    for word, kind, subtype in (
        ("vmware", "VMware", ""),
        ("microsoft", "VirtualPC", ""),
        ("lxc", "container", "LXC"),
        ("podman", "container", "Podman"),
        ("docker", "container", "Docker"),
        ("amazon", "Nitro", "Amazon EC2"),
    ):
        if word in output:
            grains["virtual"] = kind
            if subtype:
                grains["virtual_subtype"] = subtype
            return True
    return False


def _from_virt_what(output: str, grains: dict[str, Any]) -> None:
    exact = {
        "ibm_power-kvm": ("kvm", ""),
        "ibm_power-lpar_shared": ("LPAR", "shared"),
        "ibm_power-lpar_dedicated": ("LPAR", "dedicated"),
    }
    inside = (
        ("lxc", ("container", "LXC")),
        ("docker", ("container", "Docker")),
        ("vmware", ("VMware", "")),
        ("parallels", ("Parallels", "")),
        ("nutanix", ("kvm", "Nutanix AHV")),
        ("hyperv", ("HyperV", "")),
    )
    for line in output.splitlines():
        if line in ("kvm", "qemu", "uml", "xen"):
            found = (line, "")
        else:
            hits = [result for word, result in inside if word in line]
            if not hits and line not in exact:
                continue
            found = hits[0] if hits else exact[line]
        grains["virtual"] = found[0]
        if found[1]:
            grains["virtual_subtype"] = found[1]
        return


def _dmidecode(machine: Machine) -> str | None:
    """Its output, C{""} if that would be without interest, C{None} if it fails."""
    tables = machine.read_bytes("/sys/firmware/dmi/tables/DMI")
    if tables is not None and not any(word in tables for word in _DMIDECODE_WORDS):
        return ""
    code, output = machine.run(["dmidecode"])
    return output if code == 0 else None


def _from_dmidecode(output: str, grains: dict[str, Any]) -> None:
    emulated = ("Vendor: QEMU", "Manufacturer: QEMU", "Vendor: Bochs", "Manufacturer: Bochs")
    if any(mark in output for mark in emulated):
        grains["virtual"] = "kvm"
    for marks, kind, subtype in (
        (("BHYVE",), "bhyve", ""),
        (("Manufacturer: oVirt",), "kvm", "ovirt"),
        (("Product Name: RHEV Hypervisor",), "kvm", "rhev"),
        (("VirtualBox",), "VirtualBox", ""),
        (("VMware",), "VMware", ""),
        ((": Microsoft", "Virtual Machine"), "VirtualPC", ""),
        (("Parallels Software",), "Parallels", ""),
        (("Manufacturer: Google",), "kvm", ""),
        (("Manufacturer: Nutanix", "Product Name: AHV"), "kvm", "Nutanix AHV"),
        (("Vendor: SeaBIOS",), "kvm", ""),
    ):
        if all(mark in output for mark in marks):
            grains["virtual"] = kind
            if subtype:
                grains["virtual_subtype"] = subtype
            return


def _openvz(machine: Machine, grains: dict[str, Any]) -> None:
    if machine.isdir("/proc/vz"):
        if machine.isfile("/proc/vz/version"):
            grains["virtual"] = "openvzhn"
        elif machine.isfile("/proc/vz/veinfo"):
            grains["virtual"] = "openvzve"
    for number in re.findall(
        r"^envID:\s+(\d+)$", machine.read("/proc/self/status") or "", re.MULTILINE
    ):
        grains["virtual"] = "openvzve" if int(number) else "openvzhn"


def _xen(machine: Machine, grains: dict[str, Any], product: str) -> None:
    if not any(machine.isdir(path) for path in ("/proc/sys/xen", "/sys/bus/xen", "/proc/xen")):
        return
    capabilities = machine.read("/proc/xen/capabilities")
    if machine.isfile("/proc/xen/xsd_kva"):
        grains["virtual_subtype"] = "Xen Dom0"
    elif product == "HVM domU":
        grains["virtual_subtype"] = "Xen HVM DomU"
    elif capabilities is not None:
        dom0 = "control_d" in capabilities
        grains["virtual_subtype"] = "Xen Dom0" if dom0 else "Xen PV DomU"
    elif machine.isdir("/sys/bus/xen") and (
        machine.isdir("/sys/bus/xen/drivers/xenconsole")
        or "xen:" in machine.run(["dmesg"])[1].lower()
    ):
        grains["virtual_subtype"] = "Xen PV DomU"
    if "dom" in grains.get("virtual_subtype", "").lower():
        grains["virtual"] = "xen"


def _product_name(machine: Machine, grains: dict[str, Any]) -> None:
    text = machine.read("/sys/devices/virtual/dmi/id/product_name") or ""
    for word, kind, subtype in (
        ("VirtualBox", "VirtualBox", ""),
        ("RHEV Hypervisor", "kvm", "rhev"),
        ("oVirt Node", "kvm", "ovirt"),
        ("Google", "gce", ""),
        ("BHYVE", "bhyve", ""),
    ):
        if word in text:
            grains["virtual"] = kind
            if subtype:
                grains["virtual_subtype"] = subtype
            return


def _container(machine: Machine, grains: dict[str, Any]) -> None:
    groups = machine.read("/proc/1/cgroup") or ""
    if ":/lxc/" in groups:
        grains.update(virtual="container", virtual_subtype="LXC")
    elif ":/kubepods/" in groups:
        grains["virtual_subtype"] = "kubernetes"
    elif ":/libpod_parent/" in groups:
        grains["virtual_subtype"] = "libpod"
    elif any(mark in groups for mark in (":/system.slice/docker", ":/docker/", ":/docker-ce/")):
        grains.update(virtual="container", virtual_subtype="Docker")
    # Newer LXC leaves no name in the control groups.
    if grains.get("virtual_subtype") != "LXC" and "container=lxc" in (
        machine.read("/proc/1/environ") or ""
    ):
        grains.update(virtual="container", virtual_subtype="LXC")


def _cloud(machine: Machine, grains: dict[str, Any]) -> None:
    """Amazon and Nutanix behind a known hypervisor; Salt asks C{dmidecode -t system}."""
    if grains["virtual"] not in ("qemu", "kvm", "xen", "amazon"):
        return
    # It needs root; so the answer of the world-readable files counts only there.
    if not machine.which("dmidecode") or not machine.is_root():
        return
    vendor = (machine.read(_DMI + "sys_vendor") or "").strip()
    product = (machine.read(_DMI + "product_name") or "").strip()
    version = (machine.read(_DMI + "product_version") or "").strip()
    if vendor.startswith("Amazon EC2"):
        if grains["virtual"] != "xen":
            grains["virtual"] = "Nitro"
        grains["virtual_subtype"] = f"Amazon EC2 ({product})" if product else "Amazon EC2"
    elif re.search(r".\.amazon", version):
        grains["virtual_subtype"] = "Amazon EC2"
    elif vendor.startswith("Nutanix") and product.startswith("AHV"):
        grains["virtual_subtype"] = "Nutanix AHV"


def hypervisor(machine: Machine, kind: str) -> dict[str, Any]:
    """C{virtual_hv_version}, C{virtual_hv_version_info}, C{virtual_hv_features*} of a Xen guest."""
    grains: dict[str, Any] = {}
    if "xen" not in kind:
        return grains
    parts = [
        machine.read(f"/sys/hypervisor/version/{name}") for name in ("major", "minor", "extra")
    ]
    if None not in parts:
        info = [(part or "").strip() for part in parts]
        grains["virtual_hv_version"] = f"{info[0]}.{info[1]}{info[2]}"
        grains["virtual_hv_version_info"] = info
    features = machine.read("/sys/hypervisor/properties/features")
    if features is not None:
        features = features.strip()
        bits = int(features or "0", 16)
        grains["virtual_hv_features"] = features
        grains["virtual_hv_features_list"] = [
            name for bit, name in _XEN_FEATURES.items() if bits & (1 << bit)
        ]
    return grains
