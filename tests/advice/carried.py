"""
Which test carries out which command of the table of advice.
"""

from __future__ import annotations

from collections.abc import Mapping

_FILES = "tests.advice.test_files.ModeTests"
_DISKS = "tests.advice.test_files.DiskTests"
_LONE = "tests.advice.test_daemons.LoneTests"
_JOBS = "tests.advice.test_daemons.JobTests"
_MEMBERS = "tests.advice.test_members.MemberTests"
_OUTSIDE = "tests.advice.test_members.OutsideTests"
_ROOTS = "tests.advice.test_roots.RootsTests"
_DEMO = "tests.advice.test_demo.DemoTests"
_GIT = "tests.worker.test_gitservers.SSHTests"
_UNITS = "tests.packaging.test_advice.UnitTests"
_STOCK = "tests.takeover.test_stock.StockTests"

CARRIED_OUT: Mapping[str, str] = {
    "start.unit": f"{_UNITS}.test_advice",
    "start.hand": f"{_LONE}.test_start",
    "start.lone": f"{_UNITS}.test_advice",
    "status.elsewhere": f"{_LONE}.test_elsewhere",
    "log.unit": f"{_UNITS}.test_advice",
    "member.lone": f"{_OUTSIDE}.test_offline",
    "left.lone": f"{_OUTSIDE}.test_left",
    "left.member": f"{_OUTSIDE}.test_offline",
    "stop.first": f"{_OUTSIDE}.test_offline",
    "file.mode": f"{_FILES}.test_mode",
    "file.group": f"{_FILES}.test_group",
    "file.user": f"{_FILES}.test_user",
    "file.owner": f"{_FILES}.test_owner",
    "own.tree": f"{_FILES}.test_tree",
    "roots.access": f"{_FILES}.test_access",
    "takeover.access": f"{_FILES}.test_takeover_access",
    "takeover.shadow": f"{_UNITS}.test_advice",
    "disk.space": f"{_DISKS}.test_look",
    "disk.inodes": f"{_DISKS}.test_look",
    "disk.refuses": f"{_DISKS}.test_look",
    "members.look": f"{_MEMBERS}.test_words",
    "drift.look": f"{_MEMBERS}.test_words",
    "member.down": f"{_MEMBERS}.test_down",
    "member.suspended": f"{_MEMBERS}.test_approve",
    "member.approve": f"{_MEMBERS}.test_approve",
    "member.dead": f"{_MEMBERS}.test_dead",
    "cluster.lost-disk": f"{_MEMBERS}.test_lost_disk",
    "cluster.outside": f"{_OUTSIDE}.test_left",
    "cluster.refused": f"{_OUTSIDE}.test_refused",
    "cluster.unfounded": f"{_MEMBERS}.test_down",
    "cluster.other": f"{_OUTSIDE}.test_left",
    "cluster.itself": f"{_OUTSIDE}.test_left",
    "cluster.known": f"{_MEMBERS}.test_down",
    "cluster.untold": f"{_OUTSIDE}.test_untold",
    "cluster.secret": f"{_DISKS}.test_secret",
    "token.use": f"{_MEMBERS}.test_words",
    "token.list": f"{_MEMBERS}.test_words",
    "roots.suspended": f"{_ROOTS}.test_suspended",
    "roots.held": f"{_ROOTS}.test_held",
    "roots.conflicts": f"{_ROOTS}.test_conflict",
    "roots.conflicts-all": f"{_ROOTS}.test_conflict",
    "roots.look": f"{_ROOTS}.test_looks",
    "roots.wait": f"{_ROOTS}.test_looks",
    "roots.log": f"{_ROOTS}.test_looks",
    "roots.help": f"{_LONE}.test_looks",
    "job.lookup": f"{_JOBS}.test_lookup",
    "orch.show": f"{_JOBS}.test_orchestration",
    "automation.look": f"{_LONE}.test_looks",
    "receipts.look": f"{_MEMBERS}.test_dead",
    "git.key-changed": f"{_GIT}.test_other_host_key",
    "git.key-unknown": f"{_GIT}.test_key",
    "takeover.switch": f"{_STOCK}.test_3006",
    "takeover.undo": f"{_STOCK}.test_3006",
    "modules.sync": f"{_LONE}.test_looks",
    "commands.list": f"{_LONE}.test_looks",
    "demo.keep": f"{_DEMO}.test_keep",
    "demo.ping": f"{_DEMO}.test_keep",
    "demo.keys": f"{_DEMO}.test_keep",
    "demo.jobs": f"{_DEMO}.test_keep",
    "demo.grains": f"{_DEMO}.test_keep",
    "demo.end": f"{_DEMO}.test_keep",
}
"""By id: module, class and method."""
