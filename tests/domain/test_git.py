"""
Which environment is which commit, and what is at a path of a tree: by Salt's rules.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.git import GitRemote
from saltwisted.domain.git import mapping, refspecs, trees
from saltwisted.domain.git.mapping import Tip
from saltwisted.domain.git.pacing import NEVER, pause
from saltwisted.domain.git.pushes import place_of, pushed_to


def remote(**parameters: Any) -> GitRemote:
    """One with these."""
    return GitRemote(id="/r", url="/r", **parameters)


def tip(letter: str) -> Tip:
    """Some commit."""
    return Tip(letter * 40, letter * 40, letter * 40)


REFS = {
    "refs/remotes/origin/master": tip("a"),
    "refs/remotes/origin/dev": tip("b"),
    "refs/remotes/origin/feature/x.y": tip("c"),
    "refs/tags/v1": tip("d"),
    "refs/tags/dev": tip("e"),
    "refs/tags/tree": Tip("f" * 40, "", ""),
}


class EnvironmentTests(SynchronousTestCase):
    """Environments of a repository."""

    def envs(self, **parameters: Any) -> list[str]:
        """Those of REFS."""
        return sorted(mapping.environments(remote(**parameters), REFS))

    def test_by_name(self) -> None:
        """Branches and tags are environments by their names, whatever is in them; base is base."""
        self.assertEqual(self.envs(), ["base", "dev", "feature/x.y", "tree", "v1"])
        self.assertEqual(self.envs(base="dev"), ["base", "feature/x.y", "master", "tree", "v1"])

    def test_types(self) -> None:
        """Only refs of the types that are wanted count."""
        self.assertEqual(self.envs(ref_types=("tag",)), ["dev", "tree", "v1"])
        self.assertEqual(self.envs(ref_types=("branch",)), ["base", "dev", "feature/x.y"])
        self.assertEqual(self.envs(ref_types=("sha",)), [])

    def test_lists(self) -> None:
        """White and black list are wild cards or expressions; the black one holds before."""
        self.assertEqual(self.envs(saltenv_whitelist=("base", "v[0-9]+")), ["base", "v1"])
        self.assertEqual(self.envs(saltenv_blacklist=("feature/*", "tree")), ["base", "dev", "v1"])
        both = self.envs(saltenv_whitelist=("*",), saltenv_blacklist=("base",))
        self.assertEqual(both, ["dev", "feature/x.y", "tree", "v1"])

    def test_mapped(self) -> None:
        """What is mapped is there by its new name, and not by its own; or nothing else is there."""
        said = {"qa": {"ref": "dev"}, "gone": {"ref": "nowhere"}}
        self.assertEqual(
            self.envs(saltenv=said), ["base", "feature/x.y", "gone", "qa", "tree", "v1"]
        )
        only = self.envs(saltenv=said, disable_saltenv_mapping=True)
        self.assertEqual(only, ["base", "gone", "qa"])

    def test_base_is_a_commit(self) -> None:
        """A base that is a commit is there, though no ref names it."""
        self.assertIn("base", self.envs(base="0123abcd", ref_types=("sha",)))


class TipTests(SynchronousTestCase):
    """The commit of an environment."""

    def tip(self, env: str, **parameters: Any) -> Any:
        """The first letter of its commit, or what is to be looked up."""
        found = mapping.tip_of(remote(**parameters), REFS, env)
        return found.commit[0] if isinstance(found, Tip) else found

    def test_order(self) -> None:
        """Of a branch and a tag of one name the branch is meant, unless the types say otherwise."""
        self.assertEqual(self.tip("dev"), "b")
        self.assertEqual(self.tip("dev", ref_types=("tag", "branch")), "e")

    def test_base(self) -> None:
        """Environment base is the ref base."""
        self.assertEqual(self.tip("base"), "a")
        self.assertEqual(self.tip("base", base="v1"), "d")
        self.assertEqual(self.tip("base", base="0123ABCD"), "0123abcd")

    def test_nothing(self) -> None:
        """A ref that is not there, leads to no commit, or is not exposed is nothing."""
        for env in ("prod", "tree", "../master", "HEAD", "refs/tags/v1", "origin/dev", ""):
            self.assertIsNone(self.tip(env), env)
        self.assertIsNone(self.tip("dev", saltenv_blacklist=("dev",)))
        self.assertIsNone(self.tip("abc", ref_types=("sha",)))

    def test_mapped(self) -> None:
        """The mapping of the remote holds before that of all; one ref may hold for all."""
        own, everywhere = {"qa": {"ref": "v1"}}, {"qa": {"ref": "dev"}, "x": {"ref": "dev"}}
        both = {"saltenv": own, "saltenv_everywhere": everywhere}
        self.assertEqual((self.tip("qa", **both), self.tip("x", **both)), ("d", "b"))
        self.assertEqual(self.tip("anything", all_saltenvs="v1"), "d")
        self.assertIsNone(self.tip("dev", disable_saltenv_mapping=True))
        self.assertEqual(self.tip("qa", disable_saltenv_mapping=True, saltenv=own), "d")

    def test_fallback(self) -> None:
        """What is not there is the fallback, if there is one."""
        self.assertEqual(self.tip("prod", fallback="dev"), "b")
        self.assertIsNone(self.tip("prod", fallback="nowhere"))

    def test_places(self) -> None:
        """Root and mount point are those of the environment, of all remotes, or of this one."""
        one = remote(
            root="r",
            mountpoint="m",
            saltenv={"dev": {"root": ""}},
            saltenv_everywhere={"dev": {"root": "x", "mountpoint": "y"}},
        )
        self.assertEqual(
            (mapping.root_of(one, "dev"), mapping.mountpoint_of(one, "dev")), ("", "y")
        )
        self.assertEqual(
            (mapping.root_of(one, "base"), mapping.mountpoint_of(one, "base")), ("r", "m")
        )


TREES = {
    "top": {"a": (0o100644, "A"), "d": (0o40000, "D"), "l": (0o120000, "L"), "m": (0o160000, "M")},
    "D": {"b": (0o100664, "B"), "u": (0o120000, "U"), "x": (0o100755, "X"), "s": (0o120000, "S")},
}
TOP, SUB, A, LINKED = (f"{number:040x}" for number in (10**6, 10**6 + 1, 10**6 + 2, 10**6 + 3))
LINKS = {"L": "d/u", "U": "../a", "S": "../../top/a"}


class ResolveTests(SynchronousTestCase):
    """A path in a tree."""

    def at(self, path: str, links: dict[str, str] = LINKS) -> Any:
        """What is there."""
        parts = trees.clean(path)
        if parts is None:
            return None
        return trees.resolve("top", parts, lambda tree, name: TREES[tree].get(name), links.get)

    def test_files(self) -> None:
        """A file has its mode, where old forms of modes are one of two."""
        self.assertEqual(self.at("a"), (0o100644, "A"))
        self.assertEqual(self.at("d/b"), (0o100644, "B"))
        self.assertEqual(self.at("./d//x"), (0o100755, "X"))
        self.assertEqual(self.at("d"), (0o40000, "D"))

    def test_links(self) -> None:
        """A link leads on; one that leads above the top, in a circle, or far leads nowhere."""
        self.assertEqual(self.at("l"), (0o100644, "A"))
        self.assertIsNone(self.at("d/s"))
        for target in ("/a", "l", "", "a/b", "d/", "nowhere", "d/../../a"):
            found = self.at("l", {"L": target})
            self.assertTrue(found is None or found[0] == 0o40000, target)

    def test_T_GIT_6_links_to_odd_names(self) -> None:
        """T-GIT-6: a link leads to no name that a path may not have, though the tree has it."""
        for name in (".git", ".GIT", ".git. ", "a\0", "d/b"):
            odd = {"top": {**TREES["top"], name: (0o100644, "A")}, "D": TREES["D"]}
            found = trees.resolve(
                "top", ("l",), lambda tree, part, odd=odd: odd[tree].get(part), {"L": name}.get
            )
            wanted = (0o100644, "B") if name == "d/b" else None
            self.assertEqual(found, wanted, name)

    def test_nothing(self) -> None:
        """T-GIT-6: what is no plain path is nothing; nor is a submodule, or what is in a file."""
        for path in (
            "",
            "/a",
            "..",
            "../a",
            "d/../a",
            ".git",
            "d/.GIT/x",
            "a/b",
            "m",
            "m/x",
            "a\0",
            "z",
        ):
            self.assertIsNone(self.at(path), path)


class ListTests(SynchronousTestCase):
    """Everything in a tree."""

    def raw(self, *rows: tuple[str, bytes, str]) -> bytes:
        """A tree of entries (mode, name, object)."""
        return b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in rows
        )

    def listed(self, objects: dict[str, bytes], most: int = 100) -> trees.Everything:
        """What is in the tree C{TOP}."""

        def read(oids: Sequence[str], kind: str, limit: int) -> list[bytes | None]:
            return [objects[oid] if len(objects[oid]) <= limit else None for oid in oids]

        return trees.everything(TOP, read, most)

    def test_raw(self) -> None:
        """The raw form of a tree is read to its end, or refused."""
        raw = self.raw(("100644", b"a", A), ("40000", b"d", SUB), ("120000", b"l", LINKED))
        found = trees.names_of(raw)

        self.assertEqual(
            (found.files, found.folders, found.links), (["a"], [("d", SUB)], [("l", LINKED)])
        )
        for cut in range(1, len(raw)):
            if cut not in (29, 57):
                with self.assertRaises(ValueError, msg=str(cut)):
                    trees.names_of(raw[:cut])

    def test_odd_among_others(self) -> None:
        """Wherever a name stands among others that is not plain, it is left out, and no other."""
        some = (b"a", b"a.b", b"", b".", b"..", b".git", b"a/b", b".a", b"\xc3\xbc")
        for names in itertools.product(some, repeat=3):
            found = trees.names_of(self.raw(*(("100644", name, A) for name in names)))

            plain = [name.decode() for name in names if trees.is_plain(name.decode())]
            self.assertEqual((found.files, found.odd), (plain, 3 - len(plain)), names)

    def test_everything(self) -> None:
        """
        Files, directories and links come sorted, a tree that is there twice in both places, a
        submodule nowhere.
        """
        sub = self.raw(("100755", b"b", A), ("120000", b"l", LINKED))
        top = self.raw(
            ("100644", b"z", A), ("40000", b"y", SUB), ("40000", b"d", SUB), ("160000", b"m", A)
        )

        found = self.listed({TOP: top, SUB: sub, LINKED: b"../z"})

        self.assertEqual(found.files, ["d/b", "d/l", "y/b", "y/l", "z"])
        self.assertEqual(found.dirs, ["d", "y"])
        self.assertEqual(found.links, {"d/l": "../z", "y/l": "../z"})
        self.assertEqual(found.left_out, 0)

    def test_odd(self) -> None:
        """
        T-GIT-6: names that mean something else are left out and counted, each in every place where
        it can stand; a link to what is no text is a file that leads nowhere.
        """
        odd = (b"..", b".", b".git", b".GIT. ", b"a/b", b"\xff", b"")
        for name in odd:
            for rows in ((name, b"good"), (b"good", name), (b"a", name, b"good"), (name,)):
                raw = self.raw(*(("100644", each, A) for each in rows))
                found = self.listed({TOP: raw})
                good = sorted(each.decode() for each in rows if each != name)
                self.assertEqual((found.files, found.left_out), (good, 1), name)
        for target in (b"\xff", b"x" * (trees.MOST_LINK + 1)):
            raw = self.raw(("120000", b"l", LINKED), ("100644", b".gitignore", A))
            found = self.listed({TOP: raw, LINKED: target})
            self.assertEqual((found.files, found.links), ([".gitignore", "l"], {}))

    def test_bounds(self) -> None:
        """More entries than may be, a tree in itself, and a path that is too long, have an end."""
        raw = self.raw(*(("100644", b"%d" % n, A) for n in range(101)))
        self.assertEqual(len(self.listed({TOP: raw}, 101).files), 101)
        with self.assertRaises(ValueError):
            self.listed({TOP: raw})
        with self.assertRaises(ValueError):
            self.listed({TOP: self.raw(("40000", b"d", TOP))}, 10_000)
        # Each level twice the one before
        doubling = {
            f"{n:040x}": self.raw(*(("40000", name, f"{n + 1:040x}") for name in (b"a", b"b")))
            for n in range(60)
        }
        with self.assertRaises(ValueError):
            self.listed({**doubling, TOP: doubling[f"{0:040x}"]}, 10_000)
        long = self.raw(("40000", b"d" * 4000, SUB))
        found = self.listed(
            {TOP: long, SUB: self.raw(*(("100644", n * b"n", A) for n in (95, 96)))}
        )
        self.assertEqual((len(found.files), found.left_out), (1, 1))


OWN = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")


class RefspecTests(SynchronousTestCase):
    """What a fetch would make of the refs of a remote."""

    TOLD = {"refs/heads/a/b": A, "refs/heads/x": SUB, "refs/tags/v1": TOP, "refs/pull/1/head": A}

    def test_tracked(self) -> None:
        """Each ref that a refspec names comes under its new name, and what is excluded does not."""
        found = refspecs.tracked(self.TOLD, OWN)
        self.assertEqual(
            found,
            {"refs/remotes/origin/a/b": A, "refs/remotes/origin/x": SUB, "refs/tags/v1": TOP},
        )
        found = refspecs.tracked(self.TOLD, ("refs/pull/*/head:refs/remotes/origin/pr/*",))
        self.assertEqual(found, {"refs/remotes/origin/pr/1": A})
        found = refspecs.tracked(self.TOLD, ("+refs/heads/x:refs/remotes/origin/y",))
        self.assertEqual(found, {"refs/remotes/origin/y": SUB})
        found = refspecs.tracked(self.TOLD, (OWN[0], "^refs/heads/a/*", "^refs/heads/y"))
        self.assertEqual(found, {"refs/remotes/origin/x": SUB})

    def test_only_git_can_say(self) -> None:
        """Short names, names that are not there, and two for one place, are left to git."""
        for specs in (
            ("x:refs/remotes/origin/x",),
            ("refs/heads/gone:refs/remotes/origin/x",),
            ("refs/heads/x:refs/remotes/origin/*",),
            ("refs/heads/*:refs/tags/*", "refs/tags/*:refs/tags/*"),
        ):
            told = {**self.TOLD, "refs/heads/v1": A}
            self.assertIsNone(refspecs.tracked(told, specs), specs)

    def test_narrow(self) -> None:
        """A remote is asked for branches and tags alone where nothing else is wanted."""
        self.assertTrue(refspecs.is_narrow((*OWN, "^refs/heads/x")))
        self.assertFalse(refspecs.is_narrow((*OWN, "refs/pull/*:refs/remotes/origin/pr/*")))


class PaceTests(SynchronousTestCase):
    """When a remote is asked again."""

    def test_pauses(self) -> None:
        """Each failure doubles the pause, up to a quarter of an hour; no interval is never."""
        self.assertEqual(
            [round(pause(60, n, 0.5)) for n in range(6)], [60, 120, 240, 480, 900, 900]
        )
        self.assertEqual(pause(0, 0, 0.5), NEVER)
        self.assertEqual(pause(0, 1, 0.5), 120)
        self.assertEqual(round(pause(0.1, 0, 0.5)), 1)
        self.assertEqual(round(pause(7200, 3, 0.5)), 7200)
        self.assertLess(pause(60, 0, 0.0), pause(60, 0, 1.0))


class PushTests(SynchronousTestCase):
    """What a git server says of a push."""

    def test_places(self) -> None:
        """A repository is the same however it is reached."""
        for url in (
            "https://git.example.org/ops/states.git", "git@git.example.org:ops/states.git",
            "ssh://git@Git.example.org:2222/ops/states", "https://u:p@git.example.org/ops/states/",
            "git://git.example.org/ops/states.git?x#y", "git.example.org:/ops/states",
        ):  # fmt: skip
            self.assertEqual(place_of(url), "git.example.org/ops/states", url)
        self.assertEqual(place_of("file:///srv/git/a.git"), place_of("/srv/git/a"))
        self.assertEqual((place_of(""), place_of("https://h"), place_of("https://h/")), ("",) * 3)

    def test_servers(self) -> None:
        """GitHub and Gitea tell of a repository, GitLab of a project, GitHub as a form, too."""
        github = {"repository": {"clone_url": "https://h/a.git", "size": 7, "ssh_url": "g@h:a.git"}}
        gitlab = {"project": {"git_ssh_url": "git@h:a.git"}, "repository": {"homepage": "x"}}

        self.assertEqual(pushed_to(github), {"h/a"})
        self.assertEqual(pushed_to(gitlab), {"h/a", "/x"})
        self.assertEqual(pushed_to({"payload": json.dumps(github)}), {"h/a"})
        for odd in (None, 1, [], {"repository": 1}, {"payload": "[" * 10_000}, {"payload": "7"}):
            self.assertEqual(pushed_to(odd), set())
