"""
The scripts of L{tests.modules.machineplays}: which calls are made, and what commands answer.

This file is read with stock's Python too, so it imports nothing of ours.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if __package__:
    from tests.modules.firewalldscripts import firewalld, firewalld_states
    from tests.modules.networkscripts import (
        debian_ip,
        dig,
        network_states,
        selinux,
        selinux_states,
    )
else:
    from firewalldscripts import firewalld, firewalld_states
    from networkscripts import (
        debian_ip,
        dig,
        network_states,
        selinux,
        selinux_states,
    )

if TYPE_CHECKING:
    from tests.modules.plays import Play


def _both(p: Play, function: str, *args: Any, **kwargs: Any) -> None:
    """Call a state under C{test=True}, and then for real."""
    for is_test in (True, False):
        p.let("opts", test=is_test)
        p.call(function, *args, **kwargs)


def alias(p: Play) -> None:
    """The aliases of mail, which are there, are not there, or cannot be set."""
    for is_there in (True, False):
        for did in (True, False):
            for target in ("one@x.org", ["one", "two"]):
                p.let("functions", **{"aliases.has_target": is_there, "aliases.set_target": did})
                _both(p, "states/alias.present", "kim", target=target)
            p.let("functions", **{"aliases.get_target": "x" if is_there else ""})
            p.let("functions", **{"aliases.rm_alias": did})
            _both(p, "states/alias.absent", "kim")


SAVED = """# Generated
*filter
:INPUT ACCEPT [10:200]
:FORWARD DROP [0:0]
:OWN - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -m comment --comment "ssh in" -j ACCEPT
-A INPUT ! -s 10.0.0.0/8 -i eth0 -m state --state NEW,ESTABLISHED -j DROP
-A INPUT -m set ! --match-set bad src -j LOG --log-prefix "in: "
-A INPUT -p tcp --tcp-flags FIN,SYN,RST,ACK SYN -j OWN
-A OWN -m limit --limit 5/min --limit-burst 7 -j RETURN
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -o eth0 -j MASQUERADE
-A POSTROUTING -p udp -m udp ! --dport 53 -j SNAT --to-source 1.2.3.4 --random
COMMIT
"""


def _rules() -> list[dict[str, Any]]:
    """Arguments of rules: all that a rule may be made of, alone and together."""
    singles: list[tuple[str, Any]] = [
        *(("if", v) for v in ("eth0", "!eth0", "not eth0", "! eth0")),
        *(("of", v) for v in ("lo", "!lo")),
        *(("proto", v) for v in ("tcp", "!udp", "not icmp", 6)),
        *(("protocol", v) for v in ("tcp", "! udp")),
        *(("source", v) for v in ("1.2.3.4", "!1.2.3.4", "not 1.2.3.4", "notable")),
        *(("s", v) for v in ("1.2.3.4", "! 1.2.3.4")),
        *(("destination", v) for v in ("::1", "!::1")),
        *(("connstate", v) for v in ("NEW", "!NEW", "not RELATED,ESTABLISHED")),
        *(("match", v) for v in ("state", "state,comment", ["tcp", "mark"], "policy", " a , b ")),
        *(("match-set", v) for v in ("x src", "!x src", ["x src", "not y dst"])),
        *(("set", v) for v in ("", "x src", "!x src", None)),
        *(("dport", v) for v in (22, "22", "!22", "not 1:5")),
        *(("sport", v) for v in (22, "not 22")),
        *(("dports", v) for v in ([80, 443], "80,443")),
        *(("comment", v) for v in ("x", "a b", "!no", "")),
        *(("jump", v) for v in ("ACCEPT", "LOG x", "", None, "!DROP")),
        *(("target", v) for v in ("ACCEPT", "DROP")),
        *(("j", v) for v in ("ACCEPT",)),
        *(("ctstate", v) for v in ("NEW", "!NEW", "")),
        *(("icmp-type", v) for v in ("8", 8, "!8", None)),
        *(("log-prefix", v) for v in ("x", "x: ", "", "tab\there")),
        *(("to-ports", v) for v in (80, "1-5")),
        *(("random", v) for v in ("", None, True)),
        *(("save", v) for v in (True, "/x")),
        *(("state", v) for v in ("iptables",)),
        *(("name", v) for v in ("x",)),
        *(("table", v) for v in ("nat",)),
        *(("name_", v) for v in ("x",)),
        *(("order", v) for v in (1,)),
        *(("require", v) for v in ([{"pkg": "x"}],)),
        *(("f", v) for v in ("", "x")),
        *(("syn", v) for v in ("", None, False, 0)),
        *(("goto", v) for v in ("OWN",)),
        *(("limit", v) for v in ("5/min",)),
    ]
    tcp = {"proto": "tcp"}
    return [
        {},
        *({name: value} for name, value in singles),
        *({**tcp, "dports": v} for v in ([80, 443], ["!80", 443], "80,443", "!80,443", "not 80")),
        *({**tcp, "sports": v} for v in ([80, 443], ["not80"], 80, "!80")),
        {"proto": "udp", "dports": [1], "sports": [2]},
        {"proto": "esp", "match": "policy", "dir": "in", "pol": "ipsec", "jump": "ACCEPT"},
        {"proto": "!esp", "match": "policy", "jump": "ACCEPT"},
        {"proto": "esp", "match": ["policy"], "jump": "ACCEPT"},
        {"match": "recent", "name_": "SSH", "set": "", "jump": "DROP"},
        {"match": "recent,x", "name_": "SSH", "rcheck": None, "seconds": 60},
        {"match": "state", "connstate": "NEW", "jump": "ACCEPT"},
        {"match": ["comment", "state"], "connstate": "NEW", "comment": "hi", "jump": "ACCEPT"},
        {"jump": "LOG", "log-prefix": "in x: ", "log-level": 4, "source": "10.0.0.0/8"},
        {"jump": "REJECT", "reject-with": "icmp-port-unreachable", **tcp},
        {"jump": "SNAT", "to-source": "1.2.3.4", "persistent": "", "of": "eth0"},
        {"jump": "MARK", "set-mark": "0x1", "match": "mark", "mark": "!0x2"},
        {"jump": "SET", "add-set": "x", "exist": "", "timeout": 5},
        {"j": "A", "jump": "B", "target": "C"},
        {"limit": "5/min", "limit-burst": 7, "match": "limit", "jump": "RETURN"},
        {**tcp, "tcp-flags": "!SYN,ACK SYN", "jump": "DROP"},
        {"proto": "tcp", "protocol": "udp"},
        {"if": "a", "of": "b", "dport": 1, "sport": 2, "proto": "tcp", "jump": "X", "s": "y"},
        {"match": 5},
        {"match-set": 5},
    ]


def iptables(p: Play) -> None:
    """Rules that are built, read and set."""
    p.programs.update({name: f"/sbin/{name}" for name in ("iptables", "ip6tables")})
    p.functions["config.option"] = []
    for rule in _rules():
        p.call("iptables.build_rule", **rule)
    help_ = "usage --wait -C --check"
    for has in ("", help_):
        p.answer("/sbin/iptables --help", has)
        for command in ("A", "I", "insert", "D", "AC"):
            words = {"jump": "ACCEPT", "full": True, "command": command}
            p.call("iptables.build_rule", "filter", "INPUT", position=3, **words)
    p.call("iptables.build_rule", "nat", "X", "A", full="True", family="ipv6", jump="Y")
    for table, chain, command in ((None, "a", "A"), ("a", None, "A"), ("a", "b", None)):
        p.call("iptables.build_rule", table, chain, command, full=True)
    p.call("iptables.build_rule", "a", "b", "A", full=True, dports=[1])
    p.answer("/sbin/iptables --version", "iptables v1.8.9 (nf_tables)")
    p.call("iptables.version")
    p.call("iptables.__virtual__")
    p.answer("/sbin/iptables-save", SAVED)
    p.call("iptables.get_rules")
    p.write("saved", SAVED)
    p.call("iptables.get_saved_rules", p.path("saved"))
    p.call("iptables.get_saved_rules", p.path("nope"))
    for chain in ("INPUT", "nope", "", "OWN", "FORWARD"):
        p.call("iptables.get_policy", chain=chain)
        p.call("iptables.get_saved_policy", chain=chain, conf_file=p.path("saved"))
        p.call("iptables.check_chain", chain=chain)
    p.call("iptables.get_policy", table="nope", chain="INPUT")
    rule = "-p tcp -m tcp --dport 22 -m comment --comment 'ssh in' -j ACCEPT"
    for is_there in (True, False):
        p.answer("/sbin/iptables -t filter -C", 0 if is_there else 1)
        for refused in ("", "iptables: Bad rule"):
            p.answer("/sbin/iptables --wait", {"stderr": refused, "retcode": int(bool(refused))})
            for args in (("filter", "INPUT", rule), ("filter",), ("filter", "INPUT")):
                p.call("iptables.check", *args)
                p.call("iptables.append", *args)
            for position in (1, -1, -2, -4, None):
                p.call("iptables.insert", "filter", "INPUT", position, rule)
            p.call("iptables.insert", "filter", None, 1, rule)
            p.call("iptables.insert", "filter", "INPUT", 1)
            p.call("iptables.delete", "filter", "INPUT", 2)
            p.call("iptables.delete", "filter", "INPUT", 2, rule)
            p.call("iptables.delete", "filter", "INPUT", rule=rule)
            for function in ("new_chain", "delete_chain", "flush"):
                for chain in ("OWN", ""):
                    p.call(f"iptables.{function}", chain=chain)
            p.call("iptables.set_policy", "filter", "INPUT", "DROP")
            p.call("iptables.set_policy", "filter", "INPUT")
            p.call("iptables.set_policy", "filter")
    p.answer("/sbin/iptables --help", "old")
    p.call("iptables.check", "filter", "INPUT", rule)
    node = hex(uuid.getnode())
    p.answer("/sbin/iptables-save", f"-A {node} -j X\n-A INPUT -j X\n")
    p.call("iptables.check", "filter", "INPUT", "-j X")
    p.call("iptables.check", "filter", "FORWARD", "-j X")


def iptables_save(p: Play) -> None:
    """Rules are written to a file, some of them not."""
    p.programs.update({name: f"/sbin/{name}" for name in ("iptables", "ip6tables")})
    p.answers["/sbin/iptables-save"] = SAVED
    p.functions["config.option"] = ["-j MASQ", "(", "^:OWN"]
    p.call("iptables.save", p.path("new/rules"))
    # The error names the file that is looked for.
    for family in ("RedHat", "Arch", "Suse", "Void", "NILinuxRT"):
        p.let("grains", os_family=family)
        p.call("iptables.get_saved_rules", family="ipv6")
    for name in ("Gentoo", "Alpine", "Odd"):
        p.let("grains", os_family=name, os=name)
        p.call("iptables.get_saved_rules", family="ipv6")


def iptables_states(p: Play) -> None:
    """The states, with rules that are there, that are not, and that are refused."""
    p.programs.update({name: f"/sbin/{name}" for name in ("iptables", "ip6tables")})
    p.functions["config.option"] = []
    p.answers.update({"/sbin/iptables --help": "--wait --check", "/sbin/iptables-save": SAVED})
    p.write("saved", SAVED)
    p.write("other", SAVED.replace("22", "23"))
    ssh = {"chain": "INPUT", "proto": "tcp", "dport": 22, "jump": "ACCEPT", "require": []}
    for there in (0, 1):
        p.answer("/sbin/iptables -t filter -C", there)
        for refused in ("", "iptables: Bad rule\n"):
            p.answer("/sbin/iptables --wait", {"stderr": refused, "retcode": int(bool(refused))})
            for save in ({}, {"save": p.path("saved")}, {"save": p.path("other")}):
                _both(p, "states/iptables.append", "ssh", **ssh, **save)
                _both(p, "states/iptables.insert", "ssh", **ssh, position=1, **save)
                _both(p, "states/iptables.delete", "ssh", **ssh, **save)
            _both(p, "states/iptables.delete", "ssh", **ssh, position=2)
            for function in ("append", "insert"):
                more = {"position": 2} if function == "insert" else {}
                low = {**ssh, **more, "state": "iptables", "fun": function, "__id__": "a"}
                rules = [{**low, "name": "a", "save": p.path("x")}, {**low, "name": "b"}]
                _both(p, f"states/iptables.{function}", "a", **low, rules=rules)
            for policy in ("ACCEPT", "DROP"):
                for save in ({}, {"save": p.path("x")}):
                    words = {"chain": "INPUT", "policy": policy}
                    _both(p, "states/iptables.set_policy", "pol", **words, **save)
            for words in ({}, {"chain": "INPUT"}, {"table": "nat"}):
                _both(p, "states/iptables.flush", "clean", **words)
            for name in ("OWN", "NEW"):
                _both(p, "states/iptables.chain_present", name)
                _both(p, "states/iptables.chain_absent", name)
    p.call("states/iptables.append", "x", jump="ACCEPT")
    p.call("states/iptables.insert", "x", chain="INPUT")
    low = {"state": "iptables", "fun": "append", "__id__": "a", "name": "a", "chain": "X"}
    chunks = [low, {**low, "__id__": "b"}, {**low, "fun": "insert"}, {**low, "state": "pkg"}]
    p.call("states/iptables.mod_aggregate", low, chunks, {})
    p.call("states/iptables.mod_aggregate", {**low, "fun": "flush"}, chunks, {})
    tag = "iptables_|-b_|-a_|-append"
    p.call("states/iptables.mod_aggregate", {**low, "rules": [{"x": 1}]}, chunks, {tag: 1})


def sysfs(p: Play) -> None:
    """Attributes in a directory that stands for the kernel's."""
    p.write("sys/num", "5\n")
    p.write("sys/sub/real", "0.5\n", 0o444)
    p.write("sys/sub/deep/choice", "always [madvise] never\n")
    p.write("sys/empty/none", "\n")
    p.write("sys/act/go", "", 0o200)
    p.write("sys/closed/shut", "x", 0)
    for name in ("sys/num", "sys", "sys/sub", "nope", "sys/empty/none", "sys/empty", "sys/act"):
        path = p.path(name)
        for function in ("read", "attr", "interfaces", "target"):
            p.call(f"sysfs.{function}", path)
        p.call("sysfs.target", path, full=False)
    p.call("sysfs.read", ["num", "nope", "sub"], p.path("sys"))
    p.call("sysfs.read", "num", p.path("sys"))
    p.call("sysfs.attr", p.path("sys/num"), 7)
    p.call("sysfs.write", p.path("sys/num"), "eight")
    p.call("sysfs.write", p.path("sys"), "eight")
    p.read("sys/num")
    for name, value in (
        ("sys/num", "eight"),
        ("sys/num", 9),
        ("sys/num", "9"),
        ("sys/sub/deep/choice", "madvise"),
        ("sys/sub/deep/choice", "never"),
        ("sys/sub", 1),
        ("nope", 1),
    ):
        _both(p, "states/sysfs.present", p.path(name), value=value)
    p.read("sys/num")


GEOMETRY = """meta-data=/dev/vdb               isize=512    agcount=4, agsize=65536 blks
         =                       sectsz=512   attr=2, projid32bit=1
data     =                       bsize=4096   blocks=262144, imaxpct=25
         =                       sunit=0      swidth=0 blks
naming   =version 2              bsize=4096   ascii-ci=0, ftype=1
log      =internal log           bsize=4096   blocks=2560, version=2
realtime =none                   extsz=4096   blocks=0, rtextents=0
"""
INVENTORY = (
    "file system 0:\n\tfs id:\t\taf7ac66e\n\tsession 0:\n\t\tmount point:\thost:/mnt\n"
    "\t\tdevice:\t\thost:/dev/loop0\n\t\ttime:\t\tMon Mar  2 13:36:04 2015\n\t\tstream 0:\n"
    "\t\t\tpathname:\t/mnt/dump\n\t\t\tmedia file 0:\n\t\t\t\tmfile index:\t0\n"
    "\t\t\t\tmfile size:\t22,120\nxfsrestore: Restore Status: SUCCESS\n"
)


def xfs(p: Play) -> None:
    """File systems told about, made, dumped."""
    p.answers["xfs_info"] = GEOMETRY
    p.call("xfs.info", "/dev/vdb")
    p.answer("xfs_info", {"stderr": "xfs_info: /dev/x is not a mounted XFS", "retcode": 1})
    p.call("xfs.info", "/dev/x")
    p.answer("mkfs.xfs", GEOMETRY)
    for words in (
        {},
        {"label": "a b", "ssize": "s", "noforce": True},
        {"bso": "size=4k", "gmo": "crc=1", "nmo": "x=y", "ino": "a=b", "rso": "c=d"},
        {"dso": "su=32k,sw=6", "lso": "logdev=/dev/y,size=1b"},
        {"dso": "plain"},
        {"dso": "a=b=c"},
        {"lso": "a=b,c"},
    ):
        p.call("xfs.mkfs", "/dev/vdb", **words)
    p.answer("mkfs.xfs", {"stderr": "no such device", "retcode": 1})
    p.call("xfs.mkfs", "/dev/vdb")
    p.call("xfs.dump", "/dev/vdb", "/tape", label="x y")
    p.let("programs", xfsdump="/sbin/xfsdump")
    said = (
        "xfsdump: session id: 1-2\nxfsdump: session label: x y\nxfsdump: media file size 22 b\n"
        "xfsdump: dump complete: 0 s\nxfsdump: Dump Summary:\nxfsdump:   stream 0 ok\n"
        "xfsdump: Dump Status: SUCCESS\n"
    )
    p.answer("xfsdump", said)
    p.call("xfs.dump", "/dev/vdb", "/tape", label="x y")
    p.call("xfs.dump", "/dev/vdb", "/tape", label="x", level=3, noerase=True)
    p.answer("xfsdump", {"stderr": "usage", "retcode": 1})
    p.call("xfs.dump", "/dev/vdb", "/tape", label="x")
    p.answer("xfsrestore -I", INVENTORY)
    p.call("xfs.inventory")
    p.answer("xfsrestore -I", "xfsrestore: Restore Status: SUCCESS\n")
    p.call("xfs.inventory")
    session = "Session 0:\nUUID : 1-2\nLabel : x: y\nDevice path: /dev/vdb\n"
    pruned = f"Pruning\n-----\n{session}-----\nmore: x\n"
    p.answer("xfsinvutil", pruned)
    p.call("xfs.prune_dump", "1-2")
    p.call("xfs.prune_dump", "3")
    p.answer("xfsinvutil", "nothing\n")
    p.call("xfs.prune_dump", "3")
    p.answer(
        "blkid -o export",
        "DEVNAME=/dev/vda1\nUUID=1\nTYPE=ext4\n\nDEVNAME=/dev/vdb\nUUID=2\nLABEL=x\nTYPE=xfs\n\n"
        "DEVNAME=/dev/vdc\nTYPE=xfs\n",
    )
    p.call("xfs.devices")
    p.call("xfs.modify", "/dev/vdb")
    for words in ({"label": "a b"}, {"lazy_counting": False, "uuid": True}, {"uuid": False}):
        p.call("xfs.modify", "/dev/vdb", **words)
    p.call("xfs.modify", "/dev/vdb", lazy_counting=True)
    p.answer("xfs_admin", {"stderr": "is mounted", "retcode": 1})
    p.call("xfs.modify", "/dev/vdb", label="x")
    p.call("xfs.estimate", p.path("nope"))
    p.write("here/x", "")
    p.answer(
        "xfs_estimate",
        "directory  bsize  blocks megabytes logsize\n/mnt   4096  5    20.0MB   16384\n",
    )
    p.call("xfs.estimate", p.path("here"))
    p.call("xfs.defragment", "/")
    p.call("xfs.defragment", "/dev/no-such-device")


PV = "  /dev/sdb:vg:2097152:-1:8:8:-1:4096:255:100:155:uuid"
VG = "  vg:r/w:772:-1:0:1:1:-1:0:1:1:1044480:4096:255:155:100:uuid"
LV = "  /dev/vg/root:vg:3:1:-1:1:2097152:256:-1:0:-1:253:0"
NONE = {"retcode": 5, "stderr": "  Failed to find it\n"}


def lvm(p: Play) -> None:
    """The module: what is asked, what is run."""
    p.call("lvm.__virtual__")
    p.programs.update({name: f"/sbin/{name}" for name in ("lvm", "lvcreate")})
    p.answers.update({"pvdisplay": PV, "vgdisplay": VG, "lvdisplay": LV})
    version = "  LVM version:     2.03.16(2) (2022-05-18)\n  Library version: 1.02.185\n"
    p.answers["lvm version"] = version
    for function in (
        "__virtual__",
        "version",
        "fullversion",
        "pvdisplay",
        "vgdisplay",
        "lvdisplay",
    ):
        p.call(f"lvm.{function}")
    p.call("lvm.pvdisplay", "/dev/sdb", real=True)
    p.write("one", "")
    p.write("two", "")
    one, two = p.path("one"), p.path("two")
    for shown in (PV, f'  "{one}" is a new physical volume of 1GiB', NONE):
        p.answer("pvdisplay", shown)
        p.call("lvm.pvdisplay", one, quiet=True)
        for code in (0, 5):
            for program in ("pvcreate", "pvremove", "pvresize"):
                p.answer(program, {"retcode": code, "stderr": "  is in use\n"})
                for words in ({}, {"override": False}, {"force": False}):
                    p.call(f"lvm.{program}", f"{one},{two}", **words)
                p.call(f"lvm.{program}", [one])
                p.call(f"lvm.{program}", p.path("nope"))
            p.call("lvm.pvcreate", one, dataalignmentoffset="7s", metadatasize=0, odd="x")
    p.call("lvm.pvcreate", "")
    for code in (0, 5):
        for program in ("vgcreate", "vgextend", "vgremove", "lvremove", "/sbin/lvcreate"):
            p.answer(program, {"retcode": code, "stderr": "  No such volume group\n"})
        for program in ("lvresize", "lvextend"):
            p.answer(program, {"retcode": code, "stderr": "  too small\n"})
            for words in (
                {"size": "1G"},
                {"extents": "+100%FREE", "resizefs": True},
                {"extents": 5, "size": 5},
                {"force": True, "size": 5},
                {},
            ):
                p.call(f"lvm.{program}", lvpath="/dev/vg/root", **words)
        for function in ("vgcreate", "vgextend"):
            p.call(f"lvm.{function}", "vg", "/dev/a,/dev/b")
            p.call(f"lvm.{function}", "vg", ["/dev/a"], force=True)
            p.call(f"lvm.{function}", "vg", "")
            p.call(f"lvm.{function}", "", "/dev/a")
        p.call("lvm.vgcreate", "vg", "/dev/a", clustered="y", odd="n", zero=None)
        for words in (
            {"size": "1G"},
            {"extents": "100%FREE", "pv": "/dev/a", "force": True},
            {"snapshot": "root", "size": 5},
            {"size": "1G", "thinvolume": True},
            {"size": "1G", "thinpool": True},
            {"extents": 5, "thinvolume": True},
            {"extents": 5, "thinpool": True},
            {"size": 1, "thinpool": True, "thinvolume": True},
            {"size": 1, "extents": 1},
            {},
            {"size": 1, "stripes": 5, "nosync": True, "odd": 1, "thin": None, "zero": ""},
        ):
            p.call("lvm.lvcreate", "root", "vg", **words)
        for force in (True, False):
            p.call("lvm.vgremove", "vg", force=force)
            p.call("lvm.lvremove", "root", "vg", force=force)


def lvm_states(p: Play) -> None:
    """The states: what is there, what is not, what is refused."""
    p.programs.update({name: f"/sbin/{name}" for name in ("lvm", "lvcreate")})
    p.write("one", "")
    one = p.path("one")
    mine = PV.replace("/dev/sdb", one)
    for before, after in ((mine, mine), (NONE, NONE), (NONE, mine), (mine, NONE)):
        for function in ("pv_present", "pv_absent"):
            for is_test in (True, False):
                p.let("opts", test=is_test)
                asked = [before, before, after] if function == "pv_present" else [before] * 2
                p.answer("pvdisplay", [*asked, after])
                p.call(f"states/lvm.{function}", one)
    for before, after in ((VG, VG), (NONE, NONE), (NONE, VG), (VG, NONE)):
        for is_test in (True, False):
            p.let("opts", test=is_test)
            p.answer("pvdisplay", mine)
            p.answer("vgdisplay", [before, after])
            p.call("states/lvm.vg_absent", "vg")
            p.answer("vgdisplay", [before, after])
            p.call("states/lvm.vg_present", "vg", devices=one, zero="y")
    p.answer("vgdisplay", VG)
    p.let("opts", test=False)
    orphan, other = mine.replace(":vg:", "::", 1), mine.replace(":vg:", ":other:", 1)
    for shown in (NONE, other, [orphan, mine], orphan, mine):
        p.answer("pvdisplay", shown)
        p.call("states/lvm.vg_present", "vg", devices=[one])
    for before, after in ((LV, LV), (NONE, NONE), (NONE, LV), (LV, NONE)):
        for is_test in (True, False):
            p.let("opts", test=is_test)
            p.answer("/sbin/lvcreate", {"retcode": int(after == NONE), "stderr": " no room\n"})
            p.answer("lvdisplay", [before, after])
            p.call("states/lvm.lv_absent", "root", vgname="vg")
            p.answer("lvdisplay", [before, after])
            p.call("states/lvm.lv_present", "root", vgname="vg", size="1G", stripes=2)
    p.answer("lvdisplay", LV)
    p.answer("lvresize", {"retcode": 5, "stderr": " no room\n"})
    larger = LV.replace("2097152:256", "4194304:512")
    for is_test in (True, False):
        p.let("opts", test=is_test)
        for words in (
            {},
            {"size": "2g"},
            {"size": 512},
            {"size": "512M", "force": True},
            {"size": "2097152s"},
            {"size": "1T"},
            {"size": "1gb"},
            {"size": "1x"},
            {"size": "xg"},
            {"size": "1.5g"},
            {"extents": 512, "resizefs": True},
            {"extents": 256},
            {"extents": 1},
            {"extents": "50%VG"},
            {"extents": 1, "size": 1},
            {"snapshot": "snap", "size": 5},
        ):
            p.call("states/lvm.lv_present", "root", vgname="vg", **words)
            if words.get("size") in ("2g", "512M") or words.get("extents") == 512:
                p.answer("lvdisplay", [LV, larger])
                p.call("states/lvm.lv_present", "root", vgname="vg", **words)
                p.answer("lvdisplay", LV)
    thin = {"size": "1G", "thinvolume": True}
    p.call("states/lvm.lv_present", "root", vgname="vg/pool", **thin)


def blockdev(p: Play) -> None:
    """Devices that are there or not, with file systems or without."""
    p.call("states/blockdev.__virtual__")
    p.functions["file.is_blkdev"] = False
    p.functions["disk.dump"] = {"getra": "256", "getfra": "256", "getro": "0"}
    p.call("states/blockdev.__virtual__")
    _both(p, "states/blockdev.tuned", "/dev/x", **{"read-ahead": 1})
    p.let("functions", **{"file.is_blkdev": True})
    for after in (
        {"getra": "512", "getfra": "256", "getro": "1"},
        {"getra": "256", "getfra": "256", "getro": "0"},
        {},
    ):
        p.let("functions", **{"disk.tune": after})
        for words in (
            {"read-ahead": 512},
            {"read-only": True},
            {"read-write": False, "filesystem-read-ahead": 256},
            {"odd": 1},
        ):
            _both(p, "states/blockdev.tuned", "/dev/x", **words)
    _both(p, "states/blockdev.formatted", p.path("nope"))
    p.write("dev", "")
    p.answers["blkid"] = "ext4"
    _both(p, "states/blockdev.formatted", p.path("dev"))
    _both(p, "states/blockdev.formatted", p.path("dev"), fs_type="xfs")
    p.let("programs", **{"mkfs.xfs": "/sbin/mkfs.xfs"})
    for found in (["ext4", "ext4"], ["ext4", "ext4", "xfs"]):
        p.answer("blkid", found)
        _both(p, "states/blockdev.formatted", p.path("dev"), fs_type="xfs", force=True, label="x")


LOGROTATE = """# head
weekly
rotate 4
create 0664 root adm
compress
/var/log/wtmp {
    monthly
    create 0664 root utmp
    rotate 1
}
/var/log/a /var/log/b {
    daily
    postrotate
        invoke-rc.d x {reload}

        # a comment
    endscript
    prerotate
        true
    endscript
    size 100k
}
/one { daily }
tabooext + .dpkg
"""


def logrotate(p: Play) -> None:
    """A file with blocks and scripts, and a directory that it includes."""
    p.write("plain", LOGROTATE)
    p.write("d/apt", "/var/log/apt/term.log {\n  rotate 12\n  missingok\n}\n")
    p.write("conf", f"{LOGROTATE}include {p.path('d')}\n")
    conf = {"conf_file": p.path("conf")}
    for name in ("plain", "conf", "nope"):
        p.call("logrotate.show_conf", p.path(name))
    for key in ("rotate", "weekly", "nope", "/var/log/wtmp", "/var/log/apt/term.log", "/one"):
        p.call("logrotate.get", key, **conf)
    for key in ("/var/log/wtmp", "/var/log/a", "rotate", "nope"):
        p.call("logrotate.get", key, "monthly", **conf)
    for args in (
        ("rotate", 4),
        ("rotate", 5),
        ("weekly", True),
        ("daily", True),
        ("compress", False),
        ("/var/log/wtmp", "x"),
        ("/var/log/wtmp", "rotate", 1),
        ("/var/log/wtmp", "rotate", 2),
        ("/var/log/apt/term.log", "rotate", 2),
        ("/var/log/apt/term.log", "missingok", False),
        ("/var/log/apt/term.log", "nope", False),
        ("/var/log/apt/term.log", "nope", 0),
        ("rotate", "x", 2),
        ("/new", "rotate", 2),
    ):
        p.call("logrotate.set", *args, **conf)
    for done in (True, False):
        p.let("functions", **{"file.replace": done})
        for words in (
            {"key": "rotate", "value": "4"},
            {"key": "rotate", "value": 5},
            {"key": "weekly", "value": True},
            {"key": "/var/log/wtmp", "value": "rotate", "setting": "1"},
            {"key": "/var/log/wtmp", "value": "rotate", "setting": 2},
            {"key": "/var/log/wtmp", "value": "rotate"},
            {"key": "nope", "value": "rotate", "setting": 2},
            {"key": "rotate", "value": "x", "setting": 2},
        ):
            _both(p, "states/logrotate.set", "it", **words, **conf)


ZONE = """$ORIGIN example.org.
$TTL 86400 ; a day
@ IN SOA ns1.example.org. host.master.example.org. (
    2024010101 ; serial
    3H ; refresh
    900
    2W
    1D )
@ IN NS ns1.example.org.
  IN NS ns2.example.org.
@ IN MX 10 mail.example.org.
@ IN MX 20 mail2.example.org.
www 3600 IN A 1.2.3.4
ftp.example.org. 60 IN AAAA ::1
alias IN CNAME www
"""


def dnsutil(p: Play) -> None:
    """Hosts, zones, and questions with dig and without."""
    p.write("hosts", "127.0.0.1 localhost\n# c\n\n10.0.0.1 a b\n10.0.0.1 c\n::1 six # no\n")
    p.write("zone", ZONE)
    path = p.path("hosts")
    p.call("dnsutil.__virtual__")
    p.call("dnsutil.parse_hosts", path)
    p.call("dnsutil.parse_hosts", p.path("nope"))
    p.call("dnsutil.parse_hosts", hosts="1.1.1.1 x\n1.1.1.1 y")
    for ip, entries in (("10.0.0.1", "a"), ("10.0.0.1", "a,z"), ("10.0.0.9", "n,m")):
        p.call("dnsutil.hosts_append", path, ip, entries)
        p.read("hosts")
    for entries in ("a", "z,c,b", "nope", "localhost"):
        p.call("dnsutil.hosts_remove", path, entries)
        p.read("hosts")
    p.call("dnsutil.parse_zone", p.path("zone"))
    p.call("dnsutil.parse_zone", p.path("nope"))
    p.call("dnsutil.parse_zone", zone=ZONE.replace("2W", "45").replace("1D", "1W"))
    p.call("dnsutil.parse_zone", zone=ZONE.replace("2W", "30D").replace("900", "999999"))
    questions = (
        ("check_ip", "1.2.3.4"),
        ("A", "host.invalid", "ns"),
        ("AAAA", "host.invalid", "ns"),
        ("NS", "x.org"),
        ("SPF", "x.org", "TXT"),
        ("MX", "x.org", True, "ns"),
    )
    for function, *args in questions:
        p.call(f"dnsutil.{function}", *args)
    p.let("programs", dig="/usr/bin/dig")
    for function, *args in questions:
        p.let("functions", **{f"dig.{function}": ["answer"]})
        p.call(f"dnsutil.{function}", *args)
    p.call("dnsutil.A", "host.invalid")
    for stored in ("2099010105", "2001010101"):
        p.let("functions", **{"grains.get": stored})
        p.call("dnsutil.serial", "x.org")
    p.let("functions", **{"grains.get": "2099010105"})
    p.call("dnsutil.serial", update=True)


def saltutil_states(p: Play) -> None:
    """Each kind, with something that came, nothing, and an error."""

    def refuse(**_kwargs: Any) -> None:
        raise ValueError("no {master}")

    kinds = "all beacons clouds engines grains executors log_handlers modules output outputters"
    kinds += " pillar proxymodules matchers renderers returners sdb states tops resources thorium"
    kinds += " utils serializers wrapper"
    for kind in kinds.split():
        some: Any = {"modules": ["modules.x"], "states": []} if kind == "all" else ["x.y"]
        for answer in (some, type(some)(), refuse):
            p.let("functions", **{f"saltutil.sync_{kind}": answer})
            _both(p, f"states/saltutil.sync_{kind}", "sync", refresh=True, saltenv="dev")


def apache(p: Play) -> None:
    """What the server says, and files for it."""
    p.call("apache.__virtual__")
    p.programs["apache2ctl"] = "/usr/sbin/apache2ctl"
    p.call("apache.__virtual__")
    p.answers.update(
        {
            "apache2ctl -v": "Server version: Apache/2.4.57 (Debian)\nServer built:   2023\n",
            "apache2ctl -V": "Server version: Apache/2.4.57\nServer's Module Magic Number: 2:3\n"
            'Server compiled with....\n -D APR_HAS_MMAP\n -D HTTPD_ROOT="/etc/apache2"\nodd\n',
            "apache2ctl -M": "Loaded Modules:\n core_module (static)\n alias_module (shared)\n\n",
            "apache2ctl -l": "Compiled in modules:\n  core.c\n  mod_so.c\n\n",
            "apache2ctl -L": "<Directory (core.c)\n\tContainer\n\tAllowed in *.conf\n",
            "apache2ctl -S": "VirtualHost configuration:\n*:80   is a NameVirtualHost\n"
            "  default server x.org (/etc/apache2/sites-enabled/000.conf:1)\n"
            "  port 80 namevhost y.org (/etc/apache2/sites-enabled/y.conf:1)\n\nServerRoot: x\n",
        }
    )
    for function in ("version", "fullversion", "modules", "servermods", "directives", "vhosts"):
        p.call(f"apache.{function}")
    for said in ({}, {"stdout": "up\n"}, {"stderr": "Syntax OK\n"}, {"stderr": "x", "retcode": 1}):
        p.answer("apache2ctl", said)
        for signal in ("restart", "configtest", "odd", None):
            p.call("apache.signal", signal)
    p.call("apache.useradd", "/f", "kim", "pw")
    p.call("apache.userdel", "/f", "kim")
    name = p.path("site.conf")
    host = {
        "this": "*:80",
        "ServerName": "x.org",
        "ServerAlias": ["y.org", "z.org"],
        "Directory": {"this": "/var/www", "Order": "Deny,Allow", "Deny from": "all"},
        "Limit": [{"this": "POST"}, {"Order": "x"}, {"Deny": ["a", "b"]}],
        "Odd": 5,
    }
    for config in (
        [{"Listen": "22"}, {"Listen": ["80", "443"]}],
        [{"VirtualHost": host}],
        [{"VirtualHost": [{"this": "*:80"}, {"ServerName": "x"}, {"Alias": ["a", "b"]}]}],
        [{"Directory": {"Order": "x"}}],
        [],
    ):
        p.call("apache.config", name, config)
        p.call("apache.config", name, config, edit=False)
        p.read("site.conf")
        _both(p, "states/apache.configfile", name, config=config)
        _both(p, "states/apache.configfile", name, config=config)
        p.read("site.conf")
    _both(p, "states/apache.configfile", p.path("no/such"), config=[{"Listen": "1"}])


def apache_debian(p: Play) -> None:
    """What is enabled: nothing on this machine, and what the states are told."""
    p.call("apache.__virtual__")
    p.programs["apache2ctl"] = "/usr/sbin/apache2ctl"
    p.call("apache.__virtual__")
    p.let("grains", os_family="RedHat")
    p.call("apache.__virtual__")
    p.let("grains", os_family="Debian")
    for kind in ("site", "mod", "conf"):
        for name in ("no-such-thing", "no-such-thing.conf", "no-such-thing.load", "default"):
            p.call(f"apache.check_{kind}_enabled", name)
    for has in (False, True):
        for kind in ("site", "mod", "conf"):
            state = "states/apache_module" if kind == "mod" else f"states/apache_{kind}"
            p.call(f"{state}.__virtual__")
            for code in (0, 1, 2, 256):
                for word in ("en", "dis"):
                    p.answer(f"a2{word}{kind}", code)
                    p.call(f"apache.a2{word}{kind}", "thing")
                for is_there in (False, True):
                    p.let("functions", **{f"apache.check_{kind}_enabled": is_there})
                    _both(p, f"{state}.enabled", "thing")
                    _both(p, f"{state}.disabled", "thing")
        if not has:
            p.let("programs", a2enconf="/sbin/a2enconf", a2disconf="/sbin/a2disconf")


NFT_TABLE = """table ip filter {
	chain input { # handle 1
		type filter hook input priority filter; policy accept;
		tcp dport 22 counter packets 0 bytes 0 accept # handle 4
		ct state { new, related } tcp dport { 80, 443 } accept # handle 5
		ip saddr 1.2.3.4 drop # handle 6
	}
	chain own {
	}
}
"""
NFT_JSON = (
    '{"nftables": [{"metainfo": {"version": "1"}}, {"table": {"family": "ip", "name": "filter"}},'
    ' {"chain": {"family": "ip", "table": "filter", "name": "input", "type": "filter", "hook":'
    ' "input", "prio": 0, "policy": "accept"}}, {"chain": {"table": "filter", "name": "own"}}]}'
)


def _nft_answers(p: Play) -> None:
    p.programs["nft"] = "/usr/sbin/nft"
    p.answers.update(
        {
            "nft list tables ip": "table ip filter\ntable ip nat\n",
            "nft list table ip filter": NFT_TABLE,
            "nft --handle list chain ip filter": NFT_TABLE,
            "nft --numeric --numeric --numeric --handle list chain ip filter": NFT_TABLE,
            "nft --numeric --numeric --numeric --json list ruleset": NFT_JSON,
            "nft --json --numeric --numeric --numeric list tables": NFT_JSON,
            "nft --numeric --numeric --numeric list table": NFT_TABLE,
        }
    )


def nftables(p: Play) -> None:
    """Rules that are built, and what is there."""
    p.call("nftables.__virtual__")
    _nft_answers(p)
    p.call("nftables.__virtual__")
    p.answer("nft --version", "nftables v1.0.6 (Lester Gooch #5)")
    p.call("nftables.version")
    everything = {
        "if": "eth0",
        "of": "eth1",
        "connstate": "NEW,ESTABLISHED",
        "icmp-type": "echo-request",
        "icmpv6-type": "nd-redirect",
        "pkttype": "host",
        "counter": True,
        "source": "1.2.3.4",
        "destination": "5.6.7.8",
        "sport": 5,
        "jump": "accept",
    }
    for rule in (
        {},
        everything,
        *({key: value} for key, value in everything.items()),
        *({"proto": "tcp", "dport": port} for port in (22, "22", "1:5")),
        {"proto": "udp", "dports": "80,443,22", "sports": "1,2"},
        {"proto": "udp", "dports": "a,b"},
        {"saddr": "1.1.1.1", "source": "2.2.2.2", "daddr": "", "destination": "3.3.3.3"},
        {"target": "drop", "jump": "accept"},
        {"j": "x", "jump": "y"},
        {"redirect-to": 80, "to-port": 81},
        {"to-port": 81},
        {"to-ports": 5, "jump": "redirect"},
        {"jump": "snat", "to-source": "1.1.1.1"},
        {"jump": "dnat", "to-destination": "1.1.1.1:80"},
        {"jump": "reject", "reject-with": "icmp type host-unreachable"},
        {"state": "nftables", "save": True, "match": "state", "order": 1, "name": "x"},
    ):
        p.call("nftables.build_rule", **rule)
    for full in (True, "True", "true"):
        for command in ("add", "insert", "Insert", None):
            for position in ("", 3):
                words = {"full": full, "command": command, "position": position, "jump": "drop"}
                p.call("nftables.build_rule", "filter", "input", family="ipv6", **words)
    p.call("nftables.build_rule", "filter", full="True")
    p.call("nftables.build_rule", full="True")
    p.call("nftables.build_rule", family="odd")
    for function in ("list_tables", "get_rules", "get_rules_json"):
        p.call(f"nftables.{function}")
    p.write("saved", "#! nft -f\n\n  # c\ntable ip x {\n}\n")
    p.call("nftables.get_saved_rules", p.path("saved"))
    p.call("nftables.check_table")
    for table in ("filter", "nope", ""):
        p.call("nftables.check_table", table)
        for chain in ("input", "nope", ""):
            p.call("nftables.check_chain", table, chain)
            for rule in (
                "tcp dport 22 counter packets 0 bytes 0 accept",
                "ct state { new, related } tcp dport { 80, 443 } accept",
                "ip saddr { 1.2.3.4 } drop",
                "nope",
                "",
            ):
                p.call("nftables.check", table, chain, rule)
    rules = ("tcp dport 22 counter packets 0 bytes 0 accept", "tcp dport 23 accept")
    p.call("nftables.get_rule_handle", "filter", "input", rules[0])
    p.call("nftables.get_rule_handle", "filter", "input", rules[1])
    p.call("nftables.get_rule_handle", "filter")
    p.call("nftables.get_policy", "filter")
    p.call("nftables.get_policy", "filter", "own")
    for said in ("", "Error: syntax error"):
        for word in ("add", "insert", "delete", "flush", "-- add"):
            p.answer(f"nft {word}", {"stdout": said, "retcode": int(bool(said))})
        for table in ("filter", "nope", "new"):
            for function in ("new_table", "delete_table", "flush"):
                p.call(f"nftables.{function}", table)
            for chain in ("input", "nope", ""):
                for function in ("new_chain", "delete_chain", "flush"):
                    p.call(f"nftables.{function}", table, chain)
                for rule in (*rules, ""):
                    p.call("nftables.append", table, chain, rule)
                    p.call("nftables.insert", table, chain, 3, rule)
                    p.call("nftables.insert", table, chain, rule=rule)
        base = {"table_type": "filter", "hook": "input"}
        p.call("nftables.new_chain", "filter", "in", **base, priority=0)
        p.call("nftables.new_chain", "filter", "in", **base, priority=-5, family="ipv4")
        p.call("nftables.new_chain", "filter", "in", hook="input")
        for chain in ("input", "own", "nope", ""):
            p.call("nftables.set_policy", "filter", chain, "drop")
        p.call("nftables.set_policy", "filter", "input")
    p.call("nftables.delete", "filter", "input", 1, "x")
    p.call("nftables.delete", "filter", "input", rule="nope")
    p.functions["file.directory_exists"] = False
    p.call("nftables.save", p.path("rules"))
    p.read("rules")
    p.call("nftables.save", p.path("no/such/place"))
    p.let("functions", **{"file.directory_exists": True})
    p.call("nftables.save", p.folder)
    p.answer("nft --numeric --numeric --numeric --json list ruleset", "")
    p.answer("nft --json --numeric --numeric --numeric list tables", "broken")
    p.call("nftables.get_rules_json")
    p.call("nftables.list_tables")
    p.call("nftables.set_policy", "filter", "input", "drop")


def nftables_states(p: Play) -> None:
    """The states, with what is there, what is not, and what is refused."""
    p.call("states/nftables.__virtual__")
    _nft_answers(p)
    p.functions["file.directory_exists"] = False
    p.functions["nftables.save"] = "saved"
    p.functions["nftables.version"] = "1"
    p.call("states/nftables.__virtual__")
    rule: dict[str, Any] = {"table": "filter", "chain": "input", "proto": "tcp", "jump": "accept"}
    for said in ("", "Error: syntax error"):
        for word in ("add", "insert", "delete", "flush", "-- add"):
            p.answer(f"nft {word}", {"stdout": said, "retcode": int(bool(said))})
        for more in (
            {"dport": 22, "counter packets 0 bytes 0": ""},
            {"dport": 23},
            {"source": "1.2.3.4", "jump": "drop"},
            {"dport": 23, "save": True, "require": []},
        ):
            words = {**rule, **more}
            _both(p, "states/nftables.append", "it", **words)
            _both(p, "states/nftables.insert", "it", **words, position=4)
        _both(p, "states/nftables.delete", "it", **rule, dport=99)
        for name in ("filter", "nope"):
            _both(p, "states/nftables.table_present", name)
            _both(p, "states/nftables.table_absent", name)
        for name in ("input", "nope"):
            _both(p, "states/nftables.chain_present", name)
            _both(p, "states/nftables.chain_present", name, table="nope")
        base = {"table_type": "nat", "hook": "prerouting", "priority": -100}
        _both(p, "states/nftables.chain_present", "pre", **base)
        for is_ignored in (False, True):
            places = [{"table": "nope", "chain": "x"}, {"chain": "input"}, {"chain": "nope"}]
            for where in places if is_ignored else [{}, {"table": "nope"}, *places]:
                _both(p, "states/nftables.flush", "it", ignore_absence=is_ignored, **where)
        for policy in ("drop", "DROP"):
            for save in ({}, {"save": True, "save_filename": "/x"}):
                words = {"chain": "input", "policy": policy, **save}
                p.let("functions", **{"nftables.get_policy": "accept"})
                _both(p, "states/nftables.set_policy", "pol", **words)
                p.let("functions", **{"nftables.get_policy": "drop"})
                _both(p, "states/nftables.set_policy", "pol", **words)
    for deleted in (True, False):
        p.let("functions", **{"nftables.check": {"result": True, "comment": ""}})
        p.let("functions", **{"nftables.delete": {"result": deleted, "comment": "no"}})
        for more in ({}, {"position": 4}, {"save": True}):
            _both(p, "states/nftables.delete", "it", **rule, dport=22, **more)


SCRIPTS: dict[str, Callable[[Play], None]] = {
    "alias": alias,
    "iptables": iptables,
    "iptables_save": iptables_save,
    "iptables_states": iptables_states,
    "sysfs": sysfs,
    "xfs": xfs,
    "lvm": lvm,
    "lvm_states": lvm_states,
    "blockdev": blockdev,
    "logrotate": logrotate,
    "dnsutil": dnsutil,
    "saltutil_states": saltutil_states,
    "apache": apache,
    "apache_debian": apache_debian,
    "nftables": nftables,
    "nftables_states": nftables_states,
    "firewalld": firewalld,
    "firewalld_states": firewalld_states,
    "selinux": selinux,
    "selinux_states": selinux_states,
    "debian_ip": debian_ip,
    "dig": dig,
    "network_states": network_states,
}
