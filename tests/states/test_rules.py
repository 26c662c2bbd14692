"""
What the states of packages, mounts, checkouts and orchestration decide, without a machine.
"""

from __future__ import annotations

import importlib
from itertools import pairwise
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.modules import _packages
from saltwisted.states import (
    _archive_unpack,
    _git_remote,
    _git_work,
    _mount_options,
    _pip_specs,
    _pkg_installation,
    _pkg_targets,
    _pkg_versions,
    _salt_results,
)
from saltwisted.worker.exceptions import CommandExecutionError


def compare(one: str, other: str, ignore_epoch: bool = False) -> int | None:
    """Debian's order."""
    if ignore_epoch:
        one, other = (version.rpartition(":")[2] for version in (one, other))
    return _packages.debian_compare(one, other)


class VersionTests(SynchronousTestCase):
    """Versions of packages as an SLS names them."""

    def test_conditions(self) -> None:
        """Several conditions stand with commas; none means equal."""
        self.assertEqual(_pkg_versions.conditions(" "), [])
        self.assertEqual(_pkg_versions.conditions("1.2"), [("==", "1.2")])
        self.assertEqual(_pkg_versions.conditions(">= 1.2,<2"), [(">=", "1.2"), ("<", "2")])

    def test_fulfils(self) -> None:
        """Wildcards, ranges and epochs; without an epoch C{==} takes any."""
        for installed, text, expected in (
            (["1.0-1"], "1.0*", True),
            (["1.0-1"], "1.1*", False),
            (["1.5"], ">1.0, <2", True),
            (["0.9", "2.5"], ">1.0, <2", False),
            (["1:3.0"], "3.0", True),
            (["1:3.0"], ">2:0", False),
            (["1:3.0"], "<4.0", False),
        ):
            found = _pkg_versions.fulfils(installed, text, compare)
            self.assertIs(found, expected, (installed, text))
        self.assertTrue(_pkg_versions.fulfils(["2.0"], "1.0", compare, allow_updates=True))
        self.assertFalse(_pkg_versions.fulfils(["0.5"], "1.0", compare, allow_updates=True))

    def test_described(self) -> None:
        """A package in a comment carries what was asked for."""
        wanted = {"a": None, "b": "1", "c": ">2"}
        found = [_pkg_versions.described(name, wanted) for name in wanted]
        self.assertEqual(found, ["a", "b=1", "c>2"])


class Machine(dict[str, Any]):
    """C{__salt__} of a machine with a few packages."""

    def __init__(self) -> None:
        super().__init__()
        packages = {"a": ["1.0"], "b": ["2.0"]}
        self["pkg.list_pkgs"] = lambda **words: {} if "purge_desired" in words else packages
        self["pkg.version_cmp"] = compare
        self["pkg.latest_version"] = lambda *names, **words: (
            "" if len(names) == 1 else dict.fromkeys(names, "9")
        )
        self["pkg_resource.check_extra_requirements"] = lambda name, version: True
        self["pkg_resource.version_clean"] = lambda version: version


class TargetTests(SynchronousTestCase):
    """What is left to install or remove."""

    def install(self, pkgs: Any, **words: Any) -> Any:
        """What C{pkg.installed} would do."""
        finder = _pkg_targets.Finder(Machine(), None, {})
        asked: dict[str, Any] = {
            "skip_suggestions": False,
            "verify": False,
            "normalize": True,
            "reinstall": False,
            "refresh": False,
            **words,
        }
        return finder.install("s", None, pkgs, None, **asked)

    def test_architecture(self) -> None:
        """A name with the machine's own architecture is the package that is listed without it."""
        machine = Machine()
        machine["pkg.normalize_name"] = lambda name: name.removesuffix(":amd64")
        finder = _pkg_targets.Finder(machine, None, {"split_arch": False})
        words = {"skip_suggestions": True, "verify": False, "reinstall": False, "refresh": False}

        for normalize in (True, False):
            found = finder.install("s", None, ["a:amd64"], None, normalize=normalize, **words)
            self.assertEqual(found["comment"], "All specified packages are already installed")
            other = finder.install("s", None, ["a:i386"], None, normalize=normalize, **words)
            self.assertEqual(other.targets, {"a:i386": None})

    def test_install(self) -> None:
        """Only what is missing or at another version is a target."""
        found = self.install(["a", "c", {"b": ">=3"}])

        self.assertEqual(found.targets, {"c": None, "b": ">=3"})
        self.assertEqual(found.desired, {"a": None, "c": None, "b": ">=3"})

    def test_latest(self) -> None:
        """C{latest} of what has no newer version is the version that is there."""
        found = self.install([{"a": "latest"}])

        self.assertTrue(found["result"])
        self.assertEqual(
            found["comment"],
            "All specified packages are already installed and are at the desired version",
        )

    def test_reinstall(self) -> None:
        """What is there goes over itself, what is not is installed."""
        found = self.install(["a", "c"], reinstall=True)

        self.assertEqual((found.targets, found.reinstall), ({"c": None}, {"a": None}))

    def test_broken_comparison(self) -> None:
        """A version that cannot be compared is the state's failure, with its reason."""
        machine = Machine()

        def refuse(*args: Any, **words: Any) -> int:
            raise CommandExecutionError("no such version")

        machine["pkg.version_cmp"] = refuse
        finder = _pkg_targets.Finder(machine, None, {})

        _, found = finder.remove("s", "7", None, True)
        _, other = finder.remove("a", "7", None, True)

        assert found is not None
        assert other is not None
        self.assertTrue(found["result"])
        self.assertEqual((other["result"], other["comment"]), (False, "no such version"))

    def test_aggregate(self) -> None:
        """Packages of later states are taken over once, with their versions; holds are not."""
        module = importlib.import_module("saltwisted.states.pkg")
        low = {"state": "pkg", "fun": "installed", "name": "a", "__id__": "1", "pkgs": ["a"]}
        chunks: list[dict[str, Any]] = [
            {"state": "pkg", "fun": "installed", "name": "b", "__id__": "2", "version": "3"},
            {"state": "pkg", "fun": "installed", "name": "c", "__id__": "3", "pkgs": [{"a": "1"}]},
            {"state": "pkg", "fun": "installed", "name": "d", "__id__": "4", "hold": True},
            {"state": "pkg", "fun": "removed", "name": "e", "__id__": "5"},
            {"state": "pkg", "fun": "installed", "name": "f", "__id__": "6", "fromrepo": "x"},
            {"state": "pkg", "fun": "installed", "name": "g", "__id__": "7"},
            {"state": "file", "fun": "managed", "name": "h", "__id__": "8"},
        ]

        found = module.mod_aggregate(low, chunks, {"pkg_|-7_|-g_|-installed": {}})

        self.assertEqual(found["pkgs"], [{"a": "1"}, {"b": "3"}])
        taken = [chunk["__id__"] for chunk in chunks if chunk.get("__agg__")]
        self.assertEqual(taken, ["2", "3"])


class InstallationTests(SynchronousTestCase):
    """What C{pkg.installed} tells of its work."""

    def test_no_source_left(self) -> None:
        """Where nothing is to be installed any more, packages are told by versions, as in stock."""
        salt = {
            "lowpkg.unpurge": lambda *names: {name: {"new": "i", "old": "p"} for name in names},
            "pkg.list_pkgs": lambda **_: {"a": ["1"]},
            "pkg.version_cmp": compare,
            "pkg_resource.version_clean": lambda version: version,
        }
        found = _pkg_targets.Install(
            desired={"a": "1"},
            targets={},
            unpurge=["a"],
            reinstall={},
            altered={},
            warnings=[],
            refreshed=False,
        )
        work = _pkg_installation.Installation(
            name="a",
            finder=_pkg_targets.Finder(salt, None, {}),
            found=found,
            pkgs=None,
            sources=[{"a": "salt://a.deb"}],
            words={},
            kwargs={},
            verify=False,
            reinstall=False,
            holds=False,
        )

        ret = work.run()

        self.assertEqual(ret["comment"], "The following packages were already installed: a=1")
        self.assertEqual(list(ret["changes"]), ["purge_desired"])


class PythonVersionTests(SynchronousTestCase):
    """PEP 440 and 508, by the examples of the former."""

    def test_order(self) -> None:
        """Versions are ordered as PEP 440 says."""
        ordered = (
            "1.dev0",
            "1.0.dev456",
            "1.0a1",
            "1.0a2.dev456",
            "1.0a12.dev456",
            "1.0a12",
            "1.0b1.dev456",
            "1.0b2",
            "1.0b2.post345.dev456",
            "1.0b2.post345",
            "1.0rc1.dev456",
            "1.0rc1",
            "1.0",
            "1.0+abc.5",
            "1.0+abc.7",
            "1.0+5",
            "1.0.post456.dev34",
            "1.0.post456",
            "1.0.15",
            "1.1.dev1",
            "1!0.1",
        )

        versions = [_pip_specs.parse_version(text) for text in ordered]

        self.assertNotIn(None, versions)
        for earlier, later in pairwise(versions):
            assert earlier is not None
            assert later is not None
            self.assertLess(earlier, later)
        self.assertTrue(_pip_specs.same("1.0", "1.0.0"))
        self.assertTrue(_pip_specs.same("v1.0-ALPHA1", "1.0a1"))
        self.assertIsNone(_pip_specs.parse_version("words"))

    def test_fulfils(self) -> None:
        """Conditions as pip reads them; an early version only where one is named."""
        for version, specs, expected in (
            ("1.4.5", [("~=", "1.4.2")], True),
            ("1.5", [("~=", "1.4.2")], False),
            ("2.2.post3", [("~=", "2.2")], True),
            ("1.1.post1", [("==", "1.1")], False),
            ("1.1.post1", [("==", "1.1.*")], True),
            ("1.1a1", [("==", "1.1.*")], False),
            ("1.1+local", [("==", "1.1")], True),
            ("1.1", [("!=", "1.1.*")], False),
            ("1.7.post2", [(">", "1.7")], False),
            ("1.7.1", [(">", "1.7")], True),
            ("2.0rc1", [(">", "1.0")], False),
            ("2.0rc1", [(">=", "2.0rc1")], True),
            ("2.0rc1", [("<", "2.0")], False),
            ("1.0", [("===", "1.0")], True),
            ("1.0", [], True),
            ("junk", [(">", "1")], False),
        ):
            self.assertIs(_pip_specs.fulfils(version, specs), expected, (version, specs))

    def test_requirement(self) -> None:
        """Names, extras, conditions and addresses; anything else is refused."""
        parse = _pip_specs.parse_requirement
        self.assertEqual(parse("Some.Pkg[x,y] >=1,<2 ; python_version>'3'"),
                         _pip_specs.Requirement("Some.Pkg", ((">=", "1"), ("<", "2"))))  # fmt: skip
        self.assertEqual(parse("a (==1.*)"), _pip_specs.Requirement("a", (("==", "1.*"),)))
        self.assertEqual(parse("git+https://x/y@z"), _pip_specs.Requirement("", ()))
        for wrong in ("a=1", "a==", "a==words", "-r file", "a b", ""):
            self.assertIsNone(parse(wrong), wrong)


class MountTests(SynchronousTestCase):
    """Options and devices of mounted file systems."""

    def missing(self, options: list[str], fstype: str = "ext4", **active: Any) -> list[str]:
        """The options that are not in force."""
        rules = _mount_options.Rules.make(None, None, None, None, None)
        return rules.missing(options, fstype, {"opts": [], **active}, lambda kind, name: "7")[0]

    def test_missing(self) -> None:
        """Only options that a file system shows are missed, as it would show them."""
        self.assertEqual(self.missing(["ro", "nofail", "_netdev"], opts=["rw"]), ["ro"])
        self.assertEqual(self.missing(["tcp"], "nfs", opts=["proto=tcp"]), [])
        self.assertEqual(self.missing(["user=a"], "cifs", superopts=["username=a"]), [])
        self.assertEqual(self.missing(["uid=kim"], "vfat", superopts=["uid=7"]), [])
        self.assertEqual(self.missing(["size=1m"], "tmpfs", superopts=["size=1024k"]), [])
        self.assertEqual(self.missing(["size=5m"], "ramfs"), [])
        self.assertEqual(self.missing(["password=x"], "cifs"), [])

    def test_names(self) -> None:
        """Volumes go by their mapper's name; what stands behind a fuse program is the device."""
        self.assertEqual(_mount_options.mapper_device("/dev/a-b/c"), "/dev/mapper/a--b-c")
        self.assertIsNone(_mount_options.mapper_device("/dev/sda"))
        self.assertEqual(_mount_options.fuse_device("sshfs#kim@host:/a"), "kim@host:/a")


class SmallTests(SynchronousTestCase):
    """Words of archives and git."""

    def test_tar_command(self) -> None:
        """Letters join ours, other options follow; who wants noise has it already."""
        self.assertEqual(
            _archive_unpack.tar_command("vxzf --strip-components=1 -v", "/a b"),
            ["tar", "xvvz", "--strip-components=1", "-f", "/a b"],
        )
        self.assertEqual(_archive_unpack.tar_command("-J", "/a"), ["tar", "xv", "-J", "-f", "/a"])

    def test_git(self) -> None:
        """Revisions, comments and errors."""
        self.assertTrue(_git_work.same_rev("abcdef", "abc", "sha1"))
        self.assertFalse(_git_work.same_rev("abcdef", "abc", "branch"))
        self.assertTrue(_git_work.same_rev(None, None, "tag"))
        self.assertFalse(_git_work.same_rev("a", None, "tag"))
        self.assertEqual(_git_work.joined(["a"]), "a")
        self.assertEqual(_git_work.joined(["a", "b"]), "a. b.")
        error = CommandExecutionError("Command 'git x' failed: fatal: y")
        self.assertEqual(_git_work.reason(error), "fatal: y")
        self.assertEqual(
            _git_work.unknown_words({"a": 1, "__id__": 2}),
            "The following keyword arguments are not valid: a=1",
        )

    def test_upstream(self) -> None:
        """What becomes of the branch that a local one follows, and how git is told."""
        upstream = _git_remote.Upstream
        for has, wanted, change, options in (
            (False, "origin/a", "set to origin/a", ["--set-upstream-to", "origin/a"]),
            ("origin/b", "origin/a", "updated to origin/a", ["--set-upstream-to", "origin/a"]),
            ("origin/b", False, "unset", ["--unset-upstream"]),
            ("origin/b", None, "", None),
            ("origin/a", "origin/a", "", None),
            (False, False, "", None),
        ):
            one = upstream(has, wanted)
            self.assertEqual((one.change, one.options("a", ["a"])), (change, options))
        self.assertIsNone(upstream(False, "origin/a").options("new", ["a"]))


class OrchestrationTests(SynchronousTestCase):
    """Answers of minions and runners."""

    def test_succeeded(self) -> None:
        """A false result anywhere fails a run; so do an error list and nothing at all."""
        good = {"a_|-b": {"result": True}, "c": {"result": None}}
        for answer, expected in (
            (good, True),
            ({"x": {"result": False}}, False),
            ({"m": {"inner": {"result": False}}}, False),
            ({"m": good}, True),
            (["error"], False),
            ({}, False),
        ):
            self.assertIs(_salt_results.succeeded(answer), expected, answer)

    def test_sort(self) -> None:
        """Runs are changed, the same, or failed with a reason; who may fail is not a failure."""
        runs = _salt_results.StateRuns.sort(
            {
                "m1": {"ret": {"a": {"result": True, "changes": {"x": 1}}}},
                "m2": {"ret": {"a": {"result": True, "changes": {}}}},
                "m3": {"failed": True},
                "m4": {"return": ["broken", ""]},
                "m5": {"ret": {"a": {"result": False}}},
                "m6": {"ret": {"a": {"result": False}}},
            },
            ["m6"],
        )
        ret: dict[str, Any] = {"result": True}

        runs.tell(ret, 0)

        self.assertEqual(runs.same, ["m2"])
        self.assertEqual(list(runs.failed), ["m3", "m4", "m5"])
        self.assertEqual(
            ret["comment"],
            "Run failed on minions: m3, m4, m5\n"
            "Minion m3 did not return a state result.\n"
            "Minion m4 returned errors: broken",
        )
        self.assertIs(ret["changes"]["ret"]["m3"], False)
        runs.tell(ret, 3)
        self.assertEqual(
            ret["comment"],
            "States ran successfully. Updating m1, m3, m4, m5, m6. No changes made to m2.",
        )

    def test_where_to_look(self) -> None:
        """Of who failed the job is named, the return code, and the state that failed first."""
        bad = {"result": False, "comment": "no\nsuch"}
        answer = {
            "pkg_|-b_|-b_|-installed": {**bad, "__run_num__": 2, "__id__": "b"},
            "file_|-c_|-/c_|-managed": {**bad, "__run_num__": 1},
            "file_|-a_|-a_|-managed": {"result": True, "__run_num__": 0},
        }
        for data, said in (
            ({"ret": answer, "retcode": 2, "jid": "7"},
             "Minion m: job 7, retcode 2, first failed state c (file.managed): no"),
            ({"ret": False, "jid": "7"}, "Minion m: job 7, retcode 0"),
            ({"failed": True, "jid": "7"}, "Minion m: job 7"),
            ({"ret": {"odd": {"result": False}}, "jid": "7", "retcode": 1},
             "Minion m: job 7, retcode 1, first failed state odd"),
            ({"ret": answer, "retcode": 2}, ""),
        ):  # fmt: skip
            self.assertEqual(_salt_results.whereabouts("m", data), said)
        runs = _salt_results.StateRuns.sort({"m": {"ret": answer, "retcode": 2, "jid": "7"}}, [])
        ret: dict[str, Any] = {"result": True}
        runs.tell(ret, 0)
        self.assertEqual(
            ret["comment"],
            "Run failed on minions: m\n"
            "Minion m: job 7, retcode 2, first failed state c (file.managed): no",
        )

    def test_changes(self) -> None:
        """Changes are found however deep, and unwrapped where they are a run's."""
        value = {"m1": {"s": {"changes": {"out": "highstate", "ret": {"a": 1}}}}, "m2": {"x": 5}}
        self.assertEqual(_salt_results.extracted_changes(value), {"m1": {"s": {"a": 1}}})

    def test_seen(self) -> None:
        """An id may stand in the event's data, or in the data of what was fired."""
        self.assertEqual(_salt_results.seen({"data": {"id": "a"}}, "id"), ["a"])
        self.assertEqual(_salt_results.seen({"data": {"data": {"id": ["a"]}}}, "id"), ["a"])
        self.assertEqual(_salt_results.seen({"data": {}}, "id"), [])
