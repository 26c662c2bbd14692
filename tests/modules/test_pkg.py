"""Salt's C{pkg} for apt, with C{lowpkg} and C{pkg_resource}: command lines, changes, sources."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.modules import _apt, _apt_entries, _debsources, _packages
from saltwisted.modules._debsources import Line, Sources, Stanza
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError
from tests.modules.harness import Commands, connect, load

QUERY = "dpkg-query --showformat"


class PkgCase(SynchronousTestCase):
    """The three modules together, over a described dpkg."""

    def setUp(self) -> None:
        self.commands = Commands()
        self.context: dict[str, Any] = {"salt.utils.systemd.booted": False}
        self.opts: dict[str, Any] = {"test": False, "cachedir": self.mktemp()}
        salt = self.commands.salt()
        salt["config.valid_fileproto"] = lambda url: str(url).startswith("salt://")
        common: dict[str, Any] = {"salt": salt, "context": self.context, "opts": self.opts}
        self.pkg = load("aptpkg", **common)
        self.resource = load("pkg_resource", **common)
        self.low = load("dpkg_lowpkg", **common)
        connect(self.pkg, self.resource, self.low)
        self.patch(systools, "which", lambda name: None)
        self.installed = {"bash": "5.2", "vim": "2:9.0"}

    def installs(self, **after: str) -> None:
        """Let the list of packages be another one from the first apt-get on."""

        def lists(_text: str, _kwargs: Any) -> str:
            changed = any(" install " in ran or " remove " in ran for ran in self.commands.ran)
            now = {**self.installed, **after} if changed else self.installed
            return "".join(f"install ok installed {n} {v} amd64\n" for n, v in now.items() if v)

        self.commands.answers[QUERY] = lists

    def apt(self) -> list[str]:
        """What apt-get was called for."""
        return [command for command in self.commands.ran if command.startswith("apt-get")]


HEAD = "apt-get -q -y -o DPkg::Options::=--force-confold -o DPkg::Options::=--force-confdef"


class InstallTests(PkgCase):
    """C{pkg.install}."""

    def test_one_package(self) -> None:
        """Changes are what differs between the lists before and after."""
        self.installs(zsh="5.9")

        found = self.pkg.install("zsh")

        self.assertEqual(found, {"zsh": {"old": "", "new": "5.9"}})
        self.assertEqual(self.apt(), [f"{HEAD} install zsh"])

    def test_never_asks(self) -> None:
        """The environment forbids questions, and a given one is added to it."""
        self.installs(zsh="5.9")
        self.opts["system-environment"] = {"modules": {"pkg": {"_": {"A": "1"}}}}

        self.pkg.install("zsh", env=[{"B": "2"}])

        env = next(kw["env"] for text, kw in self.commands.calls if text.startswith(HEAD))
        self.assertEqual(env["DEBIAN_FRONTEND"], "noninteractive")
        self.assertEqual((env["A"], env["B"]), ("1", "2"))

    def test_up_and_down(self) -> None:
        """A version below the installed one goes into a call of its own that forces it."""
        self.installs(bash="5.1")

        self.pkg.install(pkgs=[{"bash": "5.1"}, {"vim": "2:9.1"}, "zsh"])

        self.assertEqual(
            self.apt(),
            [f"{HEAD} install vim=2:9.1 zsh", f"{HEAD} --force-yes install bash=5.1"],
        )

    def test_comparison(self) -> None:
        """C{>=} takes the first known version that fits; none is an error that names them."""
        self.installs(zsh="5.9")
        self.commands.answers["apt-cache show zsh"] = "Package: zsh\nVersion: 5.9\nVersion: 5.8\n"

        self.pkg.install(pkgs=[{"zsh": "<5.9"}])
        error = self.assertRaises(CommandExecutionError, self.pkg.install, pkgs=[{"zsh": ">6"}])

        self.assertEqual(self.apt(), [f"{HEAD} install zsh=5.8"])
        self.assertEqual(
            error.info,
            {
                "errors": ["No version matching 'zsh>6' could be found (available: 5.9, 5.8)"],
                "changes": {},
            },
        )

    def test_reinstall(self) -> None:
        """A reinstalled package is in the changes though its version is the same."""
        self.installs()

        found = self.pkg.install("bash", reinstall=True)

        self.assertEqual(found, {"bash": {"old": "5.2", "new": "5.2"}})
        self.assertEqual(self.apt(), [f"{HEAD} install --reinstall bash"])

    def test_options(self) -> None:
        """Each option has its place on the command line."""
        self.installs(zsh="1")

        self.pkg.install(
            "zsh",
            fromrepo="backports",
            skip_verify=True,
            only_upgrade=True,
            install_recommends=False,
            force_conf_new=True,
            downloadonly=True,
        )

        self.assertEqual(
            self.apt(),
            [
                "apt-get -q -y -o DPkg::Options::=--force-confnew --no-install-recommends"
                " --only-upgrade --allow-unauthenticated -t backports install zsh --download-only"
            ],
        )

    def test_sources(self) -> None:
        """A file is installed by its path; its own name and version decide up or down."""
        self.installs(zsh="1")
        path = os.path.abspath(self.mktemp())
        open(path, "w").close()
        self.commands.answers[f"dpkg -I {path}"] = (
            " Package: bash\n Version: 5.1\n Architecture: i386\n Depends: x\n"
        )

        self.pkg.install(sources=[{"bash": path}])

        # bash:i386 is another package than bash.
        self.assertEqual(self.apt(), [f"{HEAD} install {path}"])

    def test_held_package(self) -> None:
        """A held package that is named is released for the call, and held again."""
        self.installs(bash="5.3")
        self.commands.answers["dpkg --get-selections"] = "bash hold\nvim install\n"

        self.pkg.install("bash")

        sets = [kw["stdin"] for text, kw in self.commands.calls if "--set-selections" in text]
        self.assertEqual(sets[0], "bash install")

    def test_failure(self) -> None:
        """apt's error is told together with what changed all the same."""
        self.installs(zsh="1")
        self.commands.answers[HEAD] = {"retcode": 100, "stderr": "E: broken"}

        error = self.assertRaises(CommandExecutionError, self.pkg.install, "zsh")

        self.assertTrue(str(error).startswith("Problem encountered installing package(s)."))
        self.assertEqual(
            error.info, {"errors": ["E: broken"], "changes": {"zsh": {"old": "", "new": "1"}}}
        )

    def test_refresh_only_if_needed(self) -> None:
        """With a wanted version the lists are fetched only if they do not know it as latest."""
        self.installs(zsh="5.9")
        self.commands.answers["apt-cache -q policy zsh"] = "zsh:\n  Candidate: 5.9\n"

        self.pkg.install("zsh", version="5.9", refresh=True)
        self.assertNotIn("apt-get -q update", self.commands.ran)
        self.pkg.install("zsh", version="6.0", refresh=True)
        self.assertIn("apt-get -q update", self.commands.ran)

    def test_nothing(self) -> None:
        """Nothing named, nothing done."""
        self.assertEqual(self.pkg.install(), {})
        self.assertEqual(self.apt(), [])

    def test_duplicates(self) -> None:
        """The same package twice is refused."""
        error = self.assertRaises(SaltInvocationError, self.pkg.install, pkgs=["a", {"a": "1"}])

        self.assertIn("duplicated packages names", str(error))

    def test_lock_is_waited_for(self) -> None:
        """A lock held by another apt is waited for by growing pauses."""
        self.installs(zsh="1")
        busy = {"retcode": 100, "stderr": "E: Could not get lock /var/lib/dpkg/lock"}
        self.commands.answers[HEAD] = [busy, busy, 0]
        pauses: list[float] = []
        self.patch(_apt, "_sleep", pauses.append)

        self.pkg.install("zsh")

        self.assertEqual(pauses, [2, 4])


class RemoveTests(PkgCase):
    """C{pkg.remove}, C{purge}, C{autoremove}."""

    def test_remove(self) -> None:
        """Only what is installed is removed; wildcards stand for installed names."""
        self.installs(vim="")

        found = self.pkg.remove(pkgs=["v*", "nope"])

        self.assertEqual(found, {"vim": {"old": "2:9.0", "new": ""}})
        self.assertEqual(self.apt(), ["apt-get -q -y remove vim"])
        self.assertEqual(self.pkg.remove("nope"), {})

    def test_purge(self) -> None:
        """Purging takes what was removed before as well, and tells both."""
        self.commands.answers[QUERY] = (
            "install ok installed vim 1 all\ndeinstall ok config-files old 2 all\n"
        )

        found = self.pkg.purge(pkgs=["vim", "old"])

        self.assertEqual(found, {"removed": {}, "installed": {}})
        self.assertEqual(self.apt(), ["apt-get -q -y purge vim old"])

    def test_autoremove_list(self) -> None:
        """The list is what apt would remove."""
        self.commands.answers["apt-get --assume-no --purge autoremove"] = (
            "Reading\nThe following packages will be REMOVED:\n  b* a*\n  c*\n0 upgraded\n  x\n"
        )

        self.assertEqual(self.pkg.autoremove(list_only=True, purge=True), ["a*", "b*", "c*"])


class ListTests(PkgCase):
    """Lists and versions."""

    def test_lists(self) -> None:
        """Packages are told by what is wanted of them; foreign ones carry their architecture."""
        self.commands.answers[QUERY] = (
            "install ok installed a 1 amd64\nhold ok installed b 2 all\n"
            "install ok installed a 1 i386\ndeinstall ok config-files c 3 all\n"
            "purge ok installed d 4 all\ninstall ok half-configured e 5 all\nbroken\n"
            "install ok installed a 0.9 amd64\n"
        )

        self.assertEqual(self.pkg.list_pkgs(), {"a": "0.9,1", "b": "2", "a:i386": "1", "d": "4"})
        self.assertEqual(self.pkg.list_pkgs(versions_as_list=True)["a"], ["0.9", "1"])
        self.assertEqual(self.pkg.list_pkgs(removed=True), {"c": "3"})
        self.assertEqual(self.pkg.list_pkgs(purge_desired=True), {"d": "4"})
        self.assertEqual(len(self.commands.ran), 1)
        self.pkg.list_pkgs(use_context=False)
        self.assertEqual(len(self.commands.ran), 2)

    def test_latest_version(self) -> None:
        """Up to date is empty; an unknown name makes a map of the answer, as in Salt."""
        self.commands.answers[QUERY] = (
            "install ok installed a 1.1 all\ninstall ok installed b 1 all\n"
        )
        one = "a:\n  Installed: 1.1\n  Candidate: 1.1\n  Version table:\n     1.1 500\n"
        two = "b:\n  Candidate: 2\n"
        self.commands.answers["apt-cache -q policy a"] = one
        self.commands.answers["apt-cache -q policy b"] = two
        self.commands.answers["apt-cache -q policy a b c"] = f"{one}{two}c:\n  Candidate: (none)\n"

        def latest(*names: str, **kwargs: Any) -> Any:
            return self.pkg.latest_version(*names, refresh=False, **kwargs)

        self.assertEqual(latest("a"), "")
        self.assertEqual(latest("a", show_installed=True), "1.1")
        self.assertEqual(latest("a", "b", "c"), {"a": "", "b": "2", "c": ""})
        self.assertEqual(latest("nope"), {"nope": ""})
        self.assertEqual(latest("b", "nope"), "2")
        self.assertRaises(SaltInvocationError, latest, "a", repo="x")

    def test_refresh(self) -> None:
        """Each address is told fetched, unchanged or failed; the refresh mark is removed."""
        os.makedirs(self.opts["cachedir"])
        _packages.write_rtag(self.opts)
        self.commands.answers["apt-get -q update"] = (
            "Hit:1 http://a stable InRelease\nGet:2 http://b stable InRelease [12.3 kB]\n"
            "Ign:3 http://c x\nErr:4 http://d y\nReading package lists...\n"
        )

        self.assertEqual(
            self.pkg.refresh_db(),
            {
                "http://a stable InRelease": None,
                "http://b stable InRelease": True,
                "http://c x": False,
                "http://d y": False,
            },
        )
        self.assertFalse(os.path.exists(_packages.rtag(self.opts)))
        error = self.assertRaises(CommandExecutionError, self.pkg.refresh_db, failhard=True)
        self.assertEqual(str(error), "Error getting repos: http://d y")

    def test_upgrades(self) -> None:
        """The upgradable packages are read from a dry run; its failure is told."""
        self.commands.answers["apt-get --just-print"] = (
            "Inst a [1] (2 Debian:12)\nConf a (2 Debian:12 [amd64])\n"
        )
        self.assertEqual(self.pkg.list_upgrades(refresh=False), {"a": "2"})

        self.commands.answers["apt-get --just-print"] = {"retcode": 1, "stdout": "out"}
        error = self.assertRaises(CommandExecutionError, self.pkg.list_upgrades, refresh=False)
        self.assertEqual(str(error), "Failed to get upgrades: out")

    def test_upgrade_failure_has_the_result(self) -> None:
        """A failed upgrade tells what changed and what apt said."""
        self.commands.answers["apt-get -q -y"] = {"retcode": 1, "stderr": "bad"}

        error = self.assertRaises(
            CommandExecutionError, self.pkg.upgrade, refresh=False, dist_upgrade=True
        )

        self.assertTrue(self.apt()[0].endswith(" dist-upgrade"))
        self.assertEqual(error.info["changes"], {})
        self.assertEqual(error.info["result"]["stderr"], "bad")

    def test_names(self) -> None:
        """An own architecture is left out of a name, a foreign one stays."""
        self.assertEqual(self.pkg.normalize_name("zsh:amd64"), "zsh")
        self.assertEqual(self.pkg.normalize_name("zsh:all"), "zsh")
        self.assertEqual(self.pkg.normalize_name("zsh:i386"), "zsh:i386")
        self.assertEqual(self.pkg.parse_arch("zsh:i386"), {"name": "zsh", "arch": "i386"})
        self.assertEqual(self.pkg.parse_arch("zsh"), {"name": "zsh", "arch": None})

    def test_show(self) -> None:
        """Fields by name and version, filtered without regard to case."""
        self.commands.answers["apt-cache show a"] = (
            "Package: a\nVersion: 1\nDescription: x: y\n long\n\nPackage: a\nVersion: 2\nTag: t\n"
        )

        self.assertEqual(
            self.pkg.show("a", filter="Description"), {"a": {"1": {"Description": "x: y"}, "2": {}}}
        )
        self.assertRaises(SaltInvocationError, self.pkg.show, "a", bad=1)

    def test_owner(self) -> None:
        """A file without package has an empty owner."""
        self.commands.answers["dpkg -S /a"] = "pa: /a"
        self.commands.answers["dpkg -S /b"] = {"retcode": 1, "stderr": "no path found"}

        self.assertEqual(self.pkg.owner("/a"), "pa")
        self.assertEqual(self.pkg.owner("/a", "/b"), {"/a": "pa", "/b": ""})
        self.assertEqual(self.pkg.owner(), "")


class SelectionTests(PkgCase):
    """Holds and selections."""

    def setUp(self) -> None:
        super().setUp()
        self.commands.answers["dpkg --get-selections"] = "a install\nb hold\n"
        self.commands.answers["dpkg --get-selections a"] = "a install\n"
        self.commands.answers["dpkg --get-selections b"] = "b hold\n"
        self.commands.answers["dpkg --get-selections nope"] = ""

    def test_hold(self) -> None:
        """Held is told apart from newly held."""
        found = self.pkg.hold(pkgs=["a", {"b": "1"}])

        self.assertEqual(
            found["a"],
            {
                "name": "a",
                "changes": {"old": "install", "new": "hold"},
                "result": True,
                "comment": "Package a is now being held.",
            },
        )
        self.assertEqual(found["b"]["comment"], "Package b is already set to be held.")
        self.assertEqual(found["b"]["changes"], {})

    def test_unhold(self) -> None:
        """Released is told apart from never held and from unknown."""
        found = self.pkg.unhold(pkgs=["a", "b", "nope"])

        self.assertEqual(found["a"]["comment"], "Package a is already set not to be held.")
        self.assertEqual(found["b"]["changes"], {"old": "hold", "new": "install"})
        self.assertEqual(found["nope"]["comment"], "Package nope does not have a state.")
        self.assertIs(found["nope"]["result"], False)

    def test_pretending(self) -> None:
        """With C{test=True} nothing is set."""
        self.opts["test"] = True

        self.assertIsNone(self.pkg.hold("a")["a"]["result"])
        self.assertIsNone(self.pkg.unhold("b")["b"]["result"])
        self.assertEqual(self.pkg.set_selections(selection={"hold": ["a"]}), {})
        self.assertFalse(any("--set-selections" in command for command in self.commands.ran))

    def test_set(self) -> None:
        """Only what differs is set; states must be dpkg's own."""
        found = self.pkg.set_selections(selection='{"hold": ["a", "b"]}', clear=True)

        self.assertEqual(found, {"a": {"old": "install", "new": "hold"}})
        self.assertIn("dpkg --clear-selections", self.commands.ran)
        error = self.assertRaises(
            SaltInvocationError, self.pkg.set_selections, selection={"bad": ["a"]}
        )
        self.assertEqual(str(error), "Invalid state(s): bad")

    def test_names_needed(self) -> None:
        """Nothing named, and two kinds of names, are refused."""
        self.assertRaises(SaltInvocationError, self.pkg.hold)
        self.assertRaises(SaltInvocationError, self.pkg.unhold, pkgs=["a"], sources=["b"])


class VersionTests(PkgCase):
    """The order of Debian versions."""

    ORDER = ("0~rc1", "0", "0+b", "1~~", "1~~a", "1~", "1", "1a", "1+", "1.0", "1.0-1", "1.0-1.1")

    def test_order(self) -> None:
        """Tildes come before the end, letters before other signs, revisions count last."""
        for at, older in enumerate(self.ORDER):
            for newer in self.ORDER[at + 1 :]:
                self.assertEqual(self.pkg.version_cmp(older, newer), -1, (older, newer))
                self.assertEqual(self.pkg.version_cmp(newer, older), 1, (older, newer))
        self.assertEqual(self.commands.ran, [])

    def test_epochs(self) -> None:
        """An epoch outweighs everything, unless it is to be ignored."""
        self.assertEqual(self.pkg.version_cmp("1:1", "2"), 1)
        self.assertEqual(self.pkg.version_cmp("1:1", "2", ignore_epoch=True), -1)
        self.assertEqual(self.pkg.version_cmp("0:1", "1"), 0)
        self.assertEqual(self.pkg.version_cmp("1.01", "1.1"), 0)

    def test_dpkg_judges_what_is_no_version(self) -> None:
        """A malformed version is given to dpkg."""
        self.commands.answers["dpkg --compare-versions"] = 2
        self.commands.answers["dpkg --compare-versions a b gt c"] = 0

        self.assertEqual(self.pkg.version_cmp("a b", "c"), 1)
        self.assertIsNone(self.pkg.version_cmp("c", "a b"))

    @given(st.lists(st.text("0129az.+~", min_size=1, max_size=6), min_size=3, max_size=3))
    def test_total_order(self, parts: list[str]) -> None:
        """The comparison is an order: antisymmetric and transitive."""
        versions = [f"1{part}" for part in parts]
        compare = _packages.debian_compare

        for a in versions:
            for b in versions:
                self.assertEqual(compare(a, b), -(compare(b, a) or 0))
        a, b, c = sorted(versions, key=lambda item: sum(compare(item, x) or 0 for x in versions))
        self.assertLessEqual(compare(a, b) or 0, 0)
        self.assertLessEqual(compare(b, c) or 0, 0)
        self.assertLessEqual(compare(a, c) or 0, 0)

    def test_match(self) -> None:
        """The first version that fits is taken."""
        compare = self.pkg.version_cmp
        known = ["1.2", "1.1", "1.0"]

        self.assertEqual(_packages.match_version("<1.2", known, compare), "1.1")
        self.assertEqual(_packages.match_version(">= 1.0", known, compare), "1.2")
        self.assertEqual(_packages.match_version("1.0", known, compare), "1.0")
        self.assertIsNone(_packages.match_version(">2", known, compare))
        self.assertIsNone(_packages.match_version("=1.0", known, compare))


class ResourceTests(PkgCase):
    """Reading what is to be installed."""

    def test_targets(self) -> None:
        """Names, lists and sources each have their kind."""
        parse = self.resource.parse_targets

        self.assertEqual(parse("a,b:amd64"), ({"a": None, "b": None}, "repository"))
        self.assertEqual(parse("a", version="1"), ({"a": "1"}, "repository"))
        self.assertEqual(parse(pkgs=["a", {"b": 1.2}]), ({"a": None, "b": "1.2"}, "repository"))
        self.assertEqual(parse(sources=[{"a": "/x.deb"}]), (["/x.deb"], "file"))
        self.assertEqual(parse(pkgs=["a"], sources=[{"b": "c"}]), (None, None))
        self.assertEqual(parse(), (None, None))
        self.assertRaises(SaltInvocationError, parse, sources=[{"a": "rel.deb"}])

    def test_missing_source(self) -> None:
        """A source that cannot be fetched is an error that names it; it is not left out."""
        self.resource.__salt__["cp.cache_file"] = lambda url, saltenv: ""

        error = self.assertRaises(
            CommandExecutionError, self.resource.parse_targets, sources=[{"a": "salt://a.deb"}]
        )

        self.assertEqual(str(error), "Unable to cache source salt://a.deb for package a")

    def test_sources_from_the_master(self) -> None:
        """A place on the master is fetched first."""
        self.resource.__salt__["cp.cache_file"] = lambda url, saltenv: f"/cache/{saltenv}"

        found = self.resource.parse_targets(sources=[{"a": "salt://a.deb"}], saltenv="dev")

        self.assertEqual(found, (["/cache/dev"], "file"))

    def test_version(self) -> None:
        """One name gives text, several or a wildcard a map."""
        self.commands.answers[QUERY] = (
            "install ok installed a1 1 all\ninstall ok installed a2 2 all\n"
        )

        self.assertEqual(self.pkg.version("a1"), "1")
        self.assertEqual(self.pkg.version("nope"), "")
        self.assertEqual(self.pkg.version("a*"), {"a1": "1", "a2": "2"})
        self.assertEqual(self.pkg.version("a1", "nope"), {"a1": "1", "nope": ""})
        self.assertEqual(self.pkg.version("a1", versions_as_list=True), ["1"])

    def test_attributes(self) -> None:
        """Lists with attributes hold what was asked for, always with version and architecture."""
        packages = {
            "a": [
                {
                    "epoch": "1",
                    "version": "2",
                    "release": "3",
                    "arch": "amd64",
                    "install_date": "x",
                }
            ]
        }

        self.assertEqual(self.resource.format_pkg_list(packages, False, None), {"a": "1:2-3"})
        self.assertEqual(
            self.resource.format_pkg_list(packages, False, ["epoch"]),
            {"a": [{"epoch": "1", "version": "2", "arch": "amd64"}]},
        )


class LowTests(PkgCase):
    """C{lowpkg}."""

    def test_info(self) -> None:
        """Fields that are empty or of no interest are left out; the date is in UTC."""
        self.commands.answers["dpkg-query -W -f=package:"] = (
            "package:a\nrevision:\narchitecture:all\nmaintainer:M <m@e>\nsummary:s\nsource:a\n"
            "version:1\nsection:misc\ninstalled_size:5\nsize:\nMD5:\nSHA1:\nSHA256:\norigin:\n"
            "homepage:http://h\nstatus:ii \ninstall_date:86400\ndescription:s\n long\n\n*/~^\\*\n"
        )

        found = self.low.info("a")["a"]

        self.assertEqual(found["install_date"], "1970-01-02T00:00:00Z")
        self.assertEqual(found["description"], "s\n long\n")
        self.assertNotIn("installed_size", found)
        self.assertNotIn("size", found)
        shown = self.pkg.info_installed("a")["a"]
        self.assertEqual((shown["name"], shown["url"]), ("a", "http://h"))
        self.assertNotIn("status", shown)

    def test_files(self) -> None:
        """The files of several packages as one sorted list."""
        self.commands.answers["dpkg-query -f="] = "installed\ta\ninstalled\tb\nconfig-files\tc\n"
        self.commands.answers["dpkg -L a"] = "/x\n/a"
        self.commands.answers["dpkg -L b"] = "/x\n/b"

        self.assertEqual(self.low.file_list(), {"errors": [], "files": ["/a", "/b", "/x"]})
        self.assertEqual(self.low.file_dict()["packages"]["a"], ["/x", "/a"])
        self.commands.answers["dpkg-query -f="] = {"retcode": 1, "stderr": "none"}
        self.assertEqual(self.low.file_list("q"), "Error:  none")

    def test_deb_without_version(self) -> None:
        """What a file does not say is named in the error."""
        path = self.mktemp()
        open(path, "w").close()
        self.commands.answers["dpkg -I"] = " Package: a\n"

        error = self.assertRaises(
            CommandExecutionError, self.low.bin_pkg_info, os.path.abspath(path)
        )

        self.assertIn("Unable to get version, arch for", str(error))


class SourcesCase(PkgCase):
    """A directory in place of C{/etc/apt}."""

    def setUp(self) -> None:
        super().setUp()
        self.root = os.path.abspath(self.mktemp())
        self.parts = os.path.join(self.root, "sources.list.d/")
        os.makedirs(self.parts)
        self.main = os.path.join(self.root, "sources.list")
        self.patch(_debsources, "MAIN_FILE", self.main)
        self.patch(_debsources, "PARTS_DIR", self.parts)
        self.patch(systools, "which", lambda name: f"/usr/bin/{name}")

    def write(self, name: str, text: str) -> str:
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def text(self, path: str) -> str:
        with open(path, encoding="utf-8") as file:
            return file.read()


class EntryTests(SourcesCase):
    """Lines and stanzas."""

    def test_line(self) -> None:
        """All parts of a line are read."""
        entry = Line(
            "deb [arch=amd64,i386 signed-by=/k.gpg trusted=yes] http://a/ st main x # note"
        )

        self.assertEqual(
            (entry.type, entry.uri, entry.dist, entry.comps),
            ("deb", "http://a/", "st", ["main", "x"]),
        )
        self.assertEqual(entry.architectures, ["amd64", "i386"])
        self.assertEqual((entry.signedby, entry.trusted), ("/k.gpg", True))
        self.assertEqual(entry.comment, " note")

    def test_lines_that_are_none(self) -> None:
        """Comments, blank lines and half lines are kept, and are not entries."""
        for text in ("", "# a comment", "deb http://a", "foo http://a b", "deb [x http://a b c"):
            self.assertTrue(Line(text).invalid, text)
            self.assertEqual(str(Line(text)), text.strip())
        disabled = Line("# deb http://a st main")
        self.assertFalse(disabled.invalid)
        self.assertTrue(disabled.disabled)

    def test_unknown_options_stay(self) -> None:
        """An option that is not known here survives a change of another."""
        entry = Line("deb [lang=de arch=amd64] http://a st main")
        entry.architectures = ["i386"]
        entry.trusted = "yes"

        self.assertEqual(str(entry), "deb [lang=de arch=i386 trusted=yes] http://a st main")

    def test_disc(self) -> None:
        """The label of a disc may have blanks."""
        entry = Line("deb cdrom:[Debian 12 _B_]/ bookworm main")

        self.assertEqual(entry.uri, "cdrom:[Debian 12 _B_]/")

    def test_round_trip(self) -> None:
        """Reading and saving leaves files as they are, comments included."""
        line = "# head\n\ndeb http://a st main\n# deb-src http://a st main\n"
        stanza = (
            "# about\nTypes: deb deb-src\nURIs: http://a http://b\nSuites: s1 s2\n"
            "Components: main\nSigned-By: BEGIN\n .\n END\n"
        )
        main = self.write("sources.list", line)
        part = self.write("sources.list.d/x.sources", stanza)
        self.write("sources.list.d/ignored.bak", "deb http://z z z\n")

        sources = Sources()
        sources.save()

        self.assertEqual(self.text(main), line)
        self.assertEqual(self.text(part), stanza)
        self.assertEqual(len(list(sources)), 5)

    def test_stanza(self) -> None:
        """Fields of a stanza are lists, keys are known in any case."""
        entry = Stanza("types: deb\nURIS: http://a\nsuites: st\nEnabled: no\n", "x.sources")

        self.assertEqual((entry.types, entry.uris, entry.suites), (["deb"], ["http://a"], ["st"]))
        self.assertTrue(entry.disabled)
        entry.disabled = False
        entry.comps = ["main"]
        self.assertEqual(str(entry), "types: deb\nURIS: http://a\nsuites: st\nComponents: main")

    def test_broken_file(self) -> None:
        """A file that cannot be read is left out, the others count."""
        self.write("sources.list.d/a.list", "deb [trusted=maybe] http://a st main\n")
        self.write("sources.list.d/b.list", "deb http://b st main\n")

        self.assertEqual([entry.uris for entry in Sources()], [["http://b"]])


class RepoTests(SourcesCase):
    """C{pkg.list_repos}, C{get_repo}, C{mod_repo}, C{del_repo}."""

    def test_list(self) -> None:
        """A stanza is listed once for each address, suite and type."""
        self.write(
            "sources.list.d/x.sources",
            "Types: deb deb-src\nURIs: http://a\nSuites: s1 s2\nComponents: main\n"
            "Signed-By: /k.gpg\n",
        )

        found = self.pkg.list_repos()

        self.assertEqual(
            [(item["type"], item["dist"]) for item in found["http://a"]],
            [("deb", "s1"), ("deb-src", "s1"), ("deb", "s2"), ("deb-src", "s2")],
        )
        self.assertEqual(found["http://a"][0]["line"], "deb [signed-by=/k.gpg] http://a s1 main")

    def test_get(self) -> None:
        """A repository is found by type, address, suite and any of its components."""
        self.write("sources.list", "deb http://a/ st main contrib\n")

        self.assertEqual(self.pkg.get_repo("deb http://a st contrib")["comps"], ["main", "contrib"])
        self.assertEqual(self.pkg.get_repo("deb http://a st non-free"), {})
        self.assertEqual(self.pkg.get_repo("deb-src http://a st main"), {})

    def test_add(self) -> None:
        """A new entry goes into its file, the lists are fetched, the entry is told."""
        path = os.path.join(self.parts, "new.list")

        found = self.pkg.mod_repo("deb http://a st main", file=path, comments=["x", "y"])

        self.assertEqual(self.text(path), "deb http://a st main #x y\n")
        self.assertEqual(found["deb http://a st main"]["file"], path)
        self.assertIn("apt-get -q update", self.commands.ran)

    def test_add_stanza(self) -> None:
        """A file that ends in C{.sources} gets a stanza."""
        path = os.path.join(self.parts, "new.sources")

        self.pkg.mod_repo(
            "deb [trusted=yes] http://a st main", file=path, refresh=False, architectures="amd64"
        )

        self.assertEqual(
            self.text(path),
            "Types: deb\nURIs: http://a\nSuites: st\nComponents: main\nTrusted: yes\n"
            "Architectures: amd64\n",
        )

    def test_change(self) -> None:
        """An entry of the same place is changed, not doubled."""
        self.write("sources.list", "deb http://a st main\n")

        self.pkg.mod_repo("deb http://a st main", refresh=False, comps="main,x", disabled=True)

        self.assertEqual(self.text(self.main), "# deb http://a st main x\n")
        self.assertNotIn("apt-get -q update", self.commands.ran)

    def test_key_needed(self) -> None:
        """Without apt-key a new entry must name a key file or be trusted."""
        self.patch(systools, "which", lambda name: None)

        error = self.assertRaises(SaltInvocationError, self.pkg.mod_repo, "deb http://a st main")

        self.assertEqual(
            str(error), "missing 'signedby' or 'trusted' option when apt-key is missing"
        )
        self.pkg.mod_repo("deb [signed-by=/k] http://a st main", refresh=False)

    def test_nonsense(self) -> None:
        """What is not an entry is refused."""
        error = self.assertRaises(SaltInvocationError, self.pkg.mod_repo, "nonsense")

        self.assertIn("Name nonsense is not valid", str(error))
        self.assertRaises(CommandExecutionError, self.pkg.mod_repo, "ppa:a/b")

    def test_delete_component(self) -> None:
        """Components that are named go, the others stay."""
        self.write("sources.list", "deb http://a st main contrib x\n")

        self.pkg.del_repo("deb http://a st contrib x")

        self.assertEqual(self.text(self.main), "deb http://a st main\n")

    def test_delete_file(self) -> None:
        """A file of its own goes with its last entry; the main file stays, without the entry."""
        part = self.write("sources.list.d/a.list", "deb http://a st main\n")
        self.write("sources.list", "deb http://b st main\n")

        text = self.pkg.del_repo("deb http://a/ st main")
        self.pkg.mod_repo("deb http://c st main", file=part, refresh=False)
        self.pkg.del_repo("deb http://b st main")

        self.assertEqual(
            text, f"File {part} containing repo 'deb http://a/ st main' has been removed."
        )
        self.assertEqual(self.text(self.main), "")
        self.assertEqual(self.text(part), "deb http://c st main\n")

    def test_delete_suite_of_stanza(self) -> None:
        """A stanza loses the suite, and goes with its last one."""
        part = self.write(
            "sources.list.d/a.sources",
            "Types: deb\nURIs: http://a\nSuites: s1 s2\nComponents: main\n",
        )

        self.pkg.del_repo("deb http://a s1 main")
        self.assertIn("Suites: s2\n", self.text(part))
        self.pkg.del_repo("deb http://a s2 main")

        self.assertFalse(os.path.exists(part))

    def test_delete_unknown(self) -> None:
        """A repository that is not there is an error."""
        error = self.assertRaises(CommandExecutionError, self.pkg.del_repo, "deb http://q q q")

        self.assertEqual(str(error), "Repo deb http://q q q doesn't exist in the sources.list(s)")

    def test_consolidate(self) -> None:
        """Entries that differ in components only become one in the main file."""
        self.write("sources.list", "deb http://a st main\n")
        part = self.write("sources.list.d/a.list", "deb http://a st contrib\n")

        self.pkg.mod_repo("deb http://a st main", consolidate=True, refresh=False)

        self.assertFalse(os.path.exists(part))
        self.assertIn("http://a st main", self.text(self.main))

    def test_expanded_definition(self) -> None:
        """What a state wants is completed to what C{get_repo} would show."""
        found = _apt_entries.expand_repo_def(
            os_name="Debian", repo="deb http://a st main", comps="main, x", architectures="amd64"
        )

        self.assertEqual(found["line"], "deb [arch=amd64] http://a st main x")
        self.assertEqual(found["file"], self.main)
        self.assertEqual(found["suites"], ["st"])


class KeyTests(SourcesCase):
    """Keys that apt trusts."""

    COLONS = (
        "tru::1\npub:-:4096:1:AAAABBBBCCCCDDDD:1500000000:::-:::scSC::::::23::0:\n"
        "fpr:::::::::F1:\nuid:-::::1500000000::HASH::Some One <a@b>::::::::::0:\n"
        "sub:-:4096:1:1111222233334444:1500000000::::::e::::::23:\nfpr:::::::::F2:\n"
    )

    def test_keys(self) -> None:
        """A key has its fingerprint, its user and its subkey."""
        self.commands.answers["gpg"] = self.COLONS
        open(os.path.join(self.root, "k.gpg"), "w").close()
        os.rmdir(self.parts)

        found = self.pkg.get_repo_keys(aptkey=False, keydir=self.root)["AAAABBBBCCCCDDDD"]

        self.assertEqual((found["bits"], found["fingerprint"]), (4096, "F1"))
        self.assertEqual(found["uid"], "Some One <a@b>")
        self.assertEqual(found["subkey"]["fingerprint"], "F2")

    def test_add_file(self) -> None:
        """A key from a file becomes a file; armour goes unless the name ends in C{.asc}."""
        source = self.write("sources.list.d/key.txt", "-----BEGIN PGP PUBLIC KEY-----\nx\n")
        self.pkg.__salt__["cp.cache_file"] = lambda path, saltenv: source
        plain = f"{source}.decrypted"
        self.commands.answers["gpg"] = lambda *_: open(plain, "w").close() or 0

        self.assertTrue(self.pkg.add_repo_key("salt://k", aptkey=False, keydir=self.root))
        self.assertTrue(
            self.pkg.add_repo_key("salt://k", aptkey=False, keydir=self.root, keyfile="a.asc")
        )

        self.assertEqual(self.commands.ran, [f"gpg --yes --output {plain} --dearmor {source}"])
        self.assertIn("BEGIN PGP", self.text(os.path.join(self.root, "a.asc")))

    def test_missing_folder(self) -> None:
        """There are no keys without their directory; one that cannot be made is an error."""
        below_file = self.write("sources.list.d/x", "") + "/keys"
        self.assertIs(self.pkg.get_repo_keys(aptkey=False, keydir="/no/such"), False)
        self.assertIs(self.pkg.add_repo_key("x", aptkey=False, keydir=below_file), False)

    def test_readable(self) -> None:
        """apt's own user can read a new directory and a new key, whatever the umask is."""
        self.addCleanup(os.umask, os.umask(0o077))
        source = self.write("sources.list.d/key.gpg", "x")
        self.pkg.__salt__["cp.cache_file"] = lambda path, saltenv: source
        folder = os.path.join(self.root, "new", "keys")

        self.assertTrue(self.pkg.add_repo_key("salt://k", aptkey=False, keydir=folder))

        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o755)
        self.assertEqual(os.stat(os.path.join(folder, "key.gpg")).st_mode & 0o777, 0o644)

    def test_readable_from_server(self) -> None:
        """What gpg writes for a key server's key can be read by apt, too."""
        path = os.path.join(self.root, "k.gpg")

        def receive(*_: Any) -> int:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            return 0

        self.commands.answers["gpg --no-default-keyring"] = receive
        words = {"keyserver": "k", "keyid": "AAAABBBB", "keyfile": "k.gpg", "aptkey": False}
        os.rmdir(self.parts)

        self.assertTrue(self.pkg.add_repo_key(keydir=self.root, **words))

        self.assertEqual(os.stat(path).st_mode & 0o777, 0o644)

    def test_arguments(self) -> None:
        """A key id alone says too little, and nothing says nothing."""
        self.assertRaises(SaltInvocationError, self.pkg.add_repo_key, keyid="AB")
        self.assertRaises(SaltInvocationError, self.pkg.add_repo_key, keyserver="k")
        self.assertRaises(TypeError, self.pkg.add_repo_key)
        self.assertRaises(SaltInvocationError, self.pkg.del_repo_key)

    def test_delete(self) -> None:
        """A key file is found by the end of the key's id."""
        self.commands.answers["gpg"] = self.COLONS
        path = os.path.join(self.root, "k.gpg")
        open(path, "w").close()
        os.rmdir(self.parts)

        self.assertIs(
            self.pkg.del_repo_key(keyid="00000000", aptkey=False, keydir=self.root), False
        )
        self.assertEqual(
            self.pkg.del_repo_key(keyid="CCCCDDDD", aptkey=False, keydir=self.root), "CCCCDDDD"
        )
        self.assertFalse(os.path.exists(path))
