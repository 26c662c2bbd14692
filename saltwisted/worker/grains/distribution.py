"""
Which Linux this is: the grains C{os}, C{os_family}, C{osrelease}, C{lsb_distrib_*} and others.

The facts come from C{/etc/os-release}, C{/etc/lsb-release} and, for systems that older Salt
recognised in another way, from the release file of the distribution. The names are those that Salt
has used since long before os-release; sites target by them.
"""

from __future__ import annotations

import re
from typing import Any

from saltwisted.worker.grains.machine import Machine

_OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")
_ASSIGNMENT = re.compile(r"""^([a-zA-Z0-9_]+)=('|")?(.*)(?(2)\2|)$""")
_UNESCAPE = re.compile(r"""\\([\\$"'`])""")

_LSB_LINE = re.compile(
    r"""^(DISTRIB_(?:ID|RELEASE|CODENAME|DESCRIPTION))=(?:'|")?([\w\s.\-_]+)(?:'|")?"""
)

_SHORT_TO_OS = {
    "redhatente": "RedHat",
    "gentoobase": "Gentoo",
    "archarm": "Arch ARM",
    "arch": "Arch",
    "debian": "Debian",
    "raspbian": "Raspbian",
    "fedoraremi": "Fedora",
    "pidora": "Fedora",
    "chapeau": "Chapeau",
    "korora": "Korora",
    "amazonami": "Amazon",
    "alt": "ALT",
    "enterprise": "OEL",
    "oracleserv": "OEL",
    "cloudserve": "CloudLinux",
    "cloudlinux": "CloudLinux",
    "virtuozzo": "Virtuozzo",
    "almalinux": "AlmaLinux",
    "almalinuxk": "AlmaLinux",
    "scientific": "ScientificLinux",
    "synology": "Synology",
    "nilrt": "NILinuxRT",
    "poky": "Poky",
    "manjaro": "Manjaro",
    "manjarolin": "Manjaro",
    "univention": "Univention",
    "antergos": "Antergos",
    "sles": "SUSE",
    "slesexpand": "RES",
    "void": "Void",
    "linuxmint": "Mint",
    "neon": "KDE neon",
    "pop": "Pop",
    "rocky": "Rocky",
    "alibabaclo": "Alinux",
    "mendel": "Mendel",
    "photon": "VMware Photon OS",
}
"""The first ten letters of the name, without "Linux", to the C{os} grain."""

_FULL_TO_OS = {
    ("astra", "Astra Linux (Orel)"): "AstraLinuxCE",
    ("astra", "Astra Linux (Smolensk)"): "AstraLinuxSE",
    ("pop", "Pop!_OS"): "Pop",
}
"""C{(ID, NAME)} of os-release, where the name alone would mislead."""

_FAMILIES = {
    "Debian": "Ubuntu, Mint, Trisquel, GCEL, Linaro, elementary OS, elementary, Univention,"
    " Raspbian, Devuan, antiX, Kali, Parrot OS, neon, Cumulus, Deepin, KDE neon, IDMS, TurnKey,"
    " Pop, AstraLinuxCE, AstraLinuxSE, Mendel, OSMC",
    "RedHat": "Fedora, Chapeau, Korora, FedBerry, CentOS, CentOS Stream, GoOSe, Scientific, Amazon,"
    " CloudLinux, Virtuozzo, AlmaLinux, AlmaLinux Kitten, OVS, OEL, XCP, XCP-ng, XenServer, RES,"
    " Sangoma, VMware Photon OS, ALT, ScientificLinux, Rocky, Alinux, openEuler, AlterOS,"
    " RED OS",
    "Suse": "SLES, SUSE Enterprise Server, SUSE  Enterprise Server, SLED, openSUSE, SUSE,"
    " openSUSE Leap, openSUSE Tumbleweed, SLES_SAP, alfaLinux, alfaLinux Rise",
    "Arch": "Arch ARM, Manjaro, Manjaro ARM, Antergos, EndeavourOS",
    "Mandriva": "Mandrake",
    "Bluewhite": "Bluewhite64",
    "Slackware": "Slamd64",
    "VMware": "VMwareESX",
    "Gentoo": "Funtoo",
    "NILinuxRT": "NILinuxRT",
    "Void": "Void",
}
_OS_TO_FAMILY = {
    name.strip(): family for family, names in _FAMILIES.items() for name in names.split(",")
}

_WORD_LINUX = re.compile(r"\W(?:gnu/)?linux", re.IGNORECASE)
_VERSION_WITH_NAME = re.compile(r"\d[\d.+\-a-z]* \((?P<codename>.+)\)")

_RELEASE_NAME = re.compile(r"\w+[-_](release|version)$")
_NOT_RELEASES = frozenset(
    (
        "debian_version",
        "lsb-release",
        "oem-release",
        "os-release",
        "system-release",
        "plesk-release",
        "iredmail-release",
        "board-release",
        "ec2_version",
    )
)
_RELEASE_LINE = re.compile(
    r"(?P<name>.+?) *(?:release )? *(?P<version>\d[\d.+\-a-z]*) *(?:LTS)? *"
    r"(?:\((?P<codename>.*)\)[^)]*)?$"
)
"""C{CentOS Linux release 7.9.2009 (Core)}."""


def os_release(machine: Machine) -> dict[str, str]:
    """The assignments of os-release with its three defaults; empty if there is no such file."""
    for path in _OS_RELEASE:
        text = machine.read(path)
        if text is None:
            continue
        found = {"NAME": "Linux", "ID": "linux", "PRETTY_NAME": "Linux"}
        for line in text.split("\n"):
            match = _ASSIGNMENT.match(line)
            if match:
                found[match.group(1)] = _UNESCAPE.sub(r"\1", match.group(3))
        return found
    return {}


def lsb_release(machine: Machine) -> dict[str, str]:
    """C{lsb_distrib_*} from C{/etc/lsb-release}."""
    found: dict[str, str] = {}
    for line in (machine.read("/etc/lsb-release") or "").splitlines():
        match = _LSB_LINE.match(line)
        if match:
            found["lsb_" + match.group(1).lower()] = match.group(2).rstrip()
    return found


def os_grain(full_name: str, os_id: str | None = None) -> str:
    """The C{os} grain for a distribution that calls itself C{full_name}."""
    known = _FULL_TO_OS.get((os_id or "", full_name))
    if known:
        return known
    name = _WORD_LINUX.sub("", full_name).strip()
    return _SHORT_TO_OS.get(name.replace(" ", "").lower()[:10], name)


def _from_os_release(facts: dict[str, str]) -> dict[str, str]:
    grains = {"os": os_grain(facts["NAME"], facts["ID"])}
    like = facts.get("ID_LIKE")
    ids = [facts["ID"], *like.split()] if like else [facts["ID"]]
    if len(ids) > 1 and ("debian" in ids or "ubuntu" in ids):
        family = "debian"
    else:
        family = ids[-1]
    grains["os_family"] = "RedHat" if family == "fedora" else family.capitalize()
    codename = facts.get("VERSION_CODENAME")
    if not codename and facts["ID"] == "astra":
        codename = facts.get("VARIANT_ID")
    elif not codename and facts["ID"] in ("almalinux", "rocky"):
        match = _VERSION_WITH_NAME.match(facts.get("VERSION", ""))
        codename = match.group("codename") if match else None
    if codename:
        grains["oscodename"] = codename
    if facts["NAME"].strip():
        grains["osfullname"] = facts["NAME"].strip()
    return {key: value for key, value in grains.items() if value}


def distribution(machine: Machine) -> dict[str, Any]:
    """
    All grains of this module but those that L{release_grains} derives.

    Salt imports Debian's Python module C{lsb_release} where it can, which its own packages
    never can; so C{/etc/lsb-release} is read and the older rules have the last word, as in
    the packaged Salt.
    """
    grains: dict[str, Any] = dict(lsb_release(machine))
    facts = os_release(machine)
    if facts:
        grains.update(_from_os_release(facts))
    _older_names(machine, grains, facts)
    name, version, codename = _distro(machine, facts)
    if "osfullname" not in grains:
        nilrt = grains.get("lsb_distrib_id", "").lower().startswith("nilrt")
        grains["osfullname"] = "nilrt" if nilrt else grains.get("lsb_distrib_id", name).strip()
    if "osrelease" not in grains:
        lsb_name = grains.get("lsb_distrib_codename", "")
        # The minor number is missing in os-release there.
        if "CentOS Linux 7" in lsb_name or "CentOS Linux 8" in lsb_name:
            grains.pop("lsb_distrib_release", None)
        grains["osrelease"] = grains.get("lsb_distrib_release", version).strip()
    _codename(grains, codename)
    if "os" not in grains:
        grains["os"] = os_grain(grains["osfullname"])
    if "SUSE_SUPPORT_PRODUCT" in facts:
        product = facts["SUSE_SUPPORT_PRODUCT"]
        release = facts.get("SUSE_SUPPORT_PRODUCT_VERSION", "")
        grains["oscodename"] = facts.get("SUSE_PRETTY_NAME", f"{product} {release}")
        grains["osrelease"] = release
        if product == "SUSE Linux Micro":
            grains["osfullname"] = "SL-Micro"
    grains["os_family"] = _OS_TO_FAMILY.get(grains["os"], grains["os"])
    return grains


def _codename(grains: dict[str, Any], fallback: str) -> None:
    lsb_name = grains.get("lsb_distrib_codename", "")
    name = grains.get("os", "")
    if lsb_name and any(word in name for word in ("Rocky", "AlmaLinux", "AstraLinuxSE")):
        _before, bracket, inside = lsb_name.partition("(")
        if bracket:
            inside = inside.partition(")")[0]
            if name == "AstraLinuxSE":
                inside = inside.split()[0].lower()
            grains["lsb_distrib_codename"] = inside
    grains["oscodename"] = grains.get("lsb_distrib_codename", "").strip() or fallback
    if "Red Hat" in grains["oscodename"]:
        grains["oscodename"] = fallback


def _older_names(machine: Machine, grains: dict[str, Any], facts: dict[str, str]) -> None:
    """C{lsb_distrib_*} where C{/etc/lsb-release} does not give them."""
    if grains.get("lsb_distrib_description", "").lower().startswith("antergos"):
        grains["osfullname"] = "Antergos Linux"
    elif "lsb_distrib_id" in grains:
        return
    elif facts:
        _lsb_from_os_release(grains, facts)
    elif machine.isfile("/etc/SuSE-release"):
        _suse(machine.read("/etc/SuSE-release") or "", grains)
    elif machine.isfile("/etc/altlinux-release"):
        grains["lsb_distrib_id"] = "altlinux"
        for line in (machine.read("/etc/altlinux-release") or "").splitlines():
            words = line.split()
            if len(words) > 3 and words[0] == "ALT":
                grains["lsb_distrib_release"] = words[2]
                grains["lsb_distrib_codename"] = words[3].strip("()")
    elif machine.isfile("/etc/centos-release"):
        grains["lsb_distrib_id"] = "CentOS"
        for line in (machine.read("/etc/centos-release") or "").splitlines():
            number = re.search(r"\d+\.\d+", line)
            if number:
                grains["lsb_distrib_release"] = number.group()
            codename = re.search(r"(?<=\()(.*?)(?=\))", line)
            if codename:
                grains["lsb_distrib_codename"] = codename.group()
    elif machine.isfile("/etc.defaults/VERSION") and machine.isfile("/etc.defaults/synoinfo.conf"):
        grains["osfullname"] = "Synology"
        parts: dict[str, str] = {}
        for line in (machine.read("/etc.defaults/VERSION") or "").splitlines():
            key, equals, value = line.partition("=")
            if equals:
                parts[key] = value.strip('"')
        if {"majorversion", "minorversion", "buildnumber"} <= parts.keys():
            grains["osrelease"] = (
                f"{parts['majorversion']}.{parts['minorversion']}-{parts['buildnumber']}"
            )


def _lsb_from_os_release(grains: dict[str, Any], facts: dict[str, str]) -> None:
    grains["lsb_distrib_id"] = facts["NAME"].strip()
    if "VERSION_ID" in facts:
        grains["lsb_distrib_release"] = facts["VERSION_ID"]
    grains["lsb_distrib_codename"] = facts.get("VERSION_CODENAME", facts["PRETTY_NAME"])
    if "CPE_NAME" in facts:
        cpe = cpe_name(facts["CPE_NAME"])
        if cpe.get("vendor", "").lower() in ("suse", "opensuse"):
            grains["os"] = "SUSE"
            if facts["NAME"] == "openSUSE Leap":
                grains["osfullname"] = "Leap"
            elif facts.get("VERSION") == "Tumbleweed":
                grains["osfullname"] = "Tumbleweed"
            # SLES keeps VERSION_ID.
            if cpe.get("version") and cpe["vendor"] == "opensuse":
                grains["lsb_distrib_release"] = cpe["version"]
    if facts["ID"].strip() == "mendel":
        words = facts["PRETTY_NAME"].split()
        if len(words) >= 3:
            grains["lsb_distrib_release"] = words[2]


def cpe_name(text: str) -> dict[str, str]:
    """
    Vendor, product and version of a CPE name in either of its two spellings.

    C{cpe:/o:vendor:product:version} and C{cpe:2.3:o:vendor:product:version...}; a C{*} means
    "any" and is left out.
    """
    parts = text.split(":")
    if len(parts) < 5 or parts[0] != "cpe":
        return {}
    if parts[1].startswith("/"):
        fields = parts[2:5]
    elif parts[1] == "2.3" and (len(parts) == 6 or 7 < len(parts) <= 13):
        fields = parts[3:6]
    else:
        return {}
    names = ("vendor", "product", "version")
    return {name: value for name, value in zip(names, fields, strict=True) if value != "*"}


def _suse(text: str, grains: dict[str, Any]) -> None:
    grains["lsb_distrib_id"] = "SUSE"
    version = patch = ""
    for line in text.splitlines():
        low = line.lower()
        if "enterprise" in low:
            grains["lsb_distrib_id"] = "SLES"
            grains["lsb_distrib_codename"] = re.sub(r"\(.+\)", "", line).strip()
        elif "version" in low:
            version = re.sub(r"[^0-9]", "", line)
        elif "patchlevel" in low:
            patch = re.sub(r"[^0-9]", "", line)
    grains["lsb_distrib_release"] = f"{version}.{patch}" if patch else version
    codename = grains.get("lsb_distrib_codename", "")
    if patch and codename and f"SP{patch}" not in codename:
        grains["lsb_distrib_codename"] = codename = f"{codename} SP{patch}"
    if not codename:
        grains["lsb_distrib_codename"] = "n.a"


def _distro(machine: Machine, facts: dict[str, str]) -> tuple[str, str, str]:
    """
    Name, most precise version and codename, as the C{distro} library finds them from files.

    Of several spellings of the version the one with the most dots wins, the first of equals.
    """
    of_file = _release_file(machine)
    pretty = _RELEASE_LINE.match(facts.get("PRETTY_NAME", ""))
    candidates = [
        facts.get("VERSION_ID", ""),
        of_file.get("version", ""),
        pretty.group("version") if pretty else "",
    ]
    if facts.get("ID") == "debian" or "debian" in facts.get("ID_LIKE", "").split():
        candidates.append((machine.read("/etc/debian_version") or "").strip())
    version = ""
    for candidate in candidates:
        if candidate.count(".") > version.count(".") or not version:
            version = candidate
    codename = facts.get("VERSION_CODENAME", facts.get("UBUNTU_CODENAME"))
    if codename is None:
        match = re.search(r"\((\D+)\)|,\s*(\D+)", facts.get("VERSION", ""))
        if match:
            codename = match.group(1) or match.group(2)
        else:
            codename = of_file.get("codename", "")
    name = facts.get("NAME") or of_file.get("name", "")
    return name.strip("\"'"), version.strip("\"'"), codename.strip("\"'")


def _release_file(machine: Machine) -> dict[str, str]:
    """The first line of the first C{/etc/*-release} that is a distribution's own."""
    for name in machine.listdir("/etc"):
        if name in _NOT_RELEASES or not _RELEASE_NAME.match(name):
            continue
        line = (machine.read(f"/etc/{name}") or "").split("\n", 1)[0].strip()
        match = _RELEASE_LINE.match(line)
        if match:
            return {key: value for key, value in match.groupdict().items() if value}
        if line:
            return {"name": line}
    return {}


def release_grains(name: str, full_name: str, release: str) -> dict[str, Any]:
    """C{osrelease_info}, C{osmajorrelease} and C{osfinger} from the plain release."""
    info = tuple(int(part) if part.isdigit() else part for part in release.split("."))
    grains: dict[str, Any] = {"osrelease_info": info}
    if isinstance(info[0], int):
        grains["osmajorrelease"] = info[0]
    else:
        try:
            grains["osmajorrelease"] = int(info[0])
        except ValueError:
            pass
    short = ("Debian", "FreeBSD", "OpenBSD", "NetBSD", "Mac", "Raspbian", "AlmaLinux")
    whole = name in ("Ubuntu", "Pop", "NixOS")
    grains["osfinger"] = f"{name if name in short else full_name}-{release if whole else info[0]}"
    return grains
