"""
States to apply, in order, in a fresh directory; L{tests.states.record} asks stock Salt.

A script adds calls of state functions (each under C{test} first, then for real, then for real
once more, unless told otherwise), and of execution functions, to see what states left behind.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from typing import Any

if __package__:
    from tests.states.certs_applied import certs
    from tests.states.keychains_applied import keychains
else:
    from certs_applied import certs
    from keychains_applied import keychains

SECTIONS: dict[str, Any] = {"top": 2, "one": {"a": 5, "new": "x"}, "three": {"d": "4"}}

KEPT = ("name", "result", "changes", "comment", "warnings", "skip_req", "skip_watch")
"""What of a state's return is compared; the rest is the compiler's."""

PILLAR: dict[str, Any] = {
    "text": "from pillar\nsecond\n",
    "deep": {"key": "deep text"},
    "empty": "",
    "number": 5,
    "data": {"b": [1, 2], "a": {"x": None, "y": True}},
    "b64": base64.b64encode(b"decoded\n").decode(),
}


def _sections(text: str) -> dict[str, list[str]]:
    """The comment of C{file.recurse} by path; stock's order is that of a set."""
    parts = (part.partition(" ####\n") for part in re.split(r"(?m)^#### ", text)[1:])
    return {path: sorted(lines.strip().splitlines()) for path, _, lines in parts}


def plain(value: Any, folder: str) -> Any:
    """An answer without what no two runs have in common; the order of what was removed is none."""
    if isinstance(value, dict):
        found = {plain(str(key), folder): plain(item, folder) for key, item in value.items()}
        if isinstance(found.get("removed"), list):
            found["removed"] = sorted(found["removed"])
        if str(found.get("comment", "")).startswith("#### "):
            found["comment"] = _sections(found["comment"])
        if "pid" in found:
            found["pid"] = 0
        return found
    if isinstance(value, (list, tuple)):
        return [plain(item, folder) for item in value]
    if isinstance(value, bytes):
        return {"bytes": plain(value.decode("latin-1"), folder)}
    if isinstance(value, str):
        if value.startswith("An exception occurred in this state: Traceback"):
            return "An exception occurred in this state"
        value = value.replace(folder, "{W}")
        value = re.sub(r"[^\s'\"]*__salt\.tmp\.\w+", "TMP", value)
        value = re.sub(r"/tmp/tmp\w+", "TMP", value)
        value = re.sub(r"(\n *pid:\n *)\d+", r"\g<1>0", value)
        return re.sub(r"\.20\d\d(-\d\d){5}", ".DATE", value)
    return value


class Script:
    """
    One list of calls.

    @ivar calls: C{(function, arguments, test)}; C{test} is C{None} for an execution function.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.calls: list[tuple[str, dict[str, Any], bool | None]] = []

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def write(self, name: str, content: str | bytes, mode: int = 0o644) -> None:
        data = content if isinstance(content, bytes) else content.encode()
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data)
        os.chmod(self.path(name), mode)

    def once(self, state: str, name: str, test: bool = False, **words: Any) -> None:
        self.calls.append((state, {"name": name, **words}, test))

    def apply(self, state: str, name: str, **words: Any) -> None:
        """What would be done, what is done, and that it is done then."""
        for test in (True, False, False):
            self.once(state, name, test, **words)

    def look(self, *names: str) -> None:
        """The content of files, as bytes."""
        for name in names:
            self.calls.append(("file.read", {"path": self.path(name), "binary": True}, None))

    def modes(self, *names: str) -> None:
        for name in names:
            self.calls.append(("file.get_mode", {"path": self.path(name)}, None))

    def find(self, name: str) -> None:
        """All paths in a directory."""
        self.calls.append(("file.find", {"path": self.path(name), "print": "path"}, None))


def prepare(s: Script) -> None:
    """The files that all scripts find, and what the file server has."""
    s.write("a", "one\ntwo\nthree\n", 0o640)
    s.write("conf", "# head\nkey = 1\n#opt on\n  indented = x\n#opt off\nlast\n", 0o755)
    s.write("kv", "a=1\n#b=2\nc = 3\na=4\nD=x\n")
    s.write("bin", b"\0\1\2abc")
    s.write("tree/x.txt", "x", 0o600)
    s.write("tree/sub/y.log", "y" * 2000)
    s.write("tree/sub/deep/z", "z")
    os.symlink(s.path("a"), s.path("link"))
    s.write("roots/plain.txt", "served\n", 0o755)
    s.write("roots/tpl.j2", "hello {{ who }} {{ pillar['number'] }} {{ name }}\n")
    s.write("roots/text.j2", "hello {{ who }} {{ pillar['number'] }}\n")
    s.write("roots/broken.j2", "x {{ undefined_thing.attr }}\n")
    s.write("roots/empty.txt", "")
    s.write("roots/tree/one", "1\n")
    s.write("roots/tree/two.txt", "2\n", 0o755)
    s.write("roots/tree/in/three.txt", "3 {{ grains['id'] }}\n")
    s.write("roots/more/one", "other 1\n")
    s.write("roots/more/four", "4\n")
    s.write("roots/fix.patch", "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n")
    s.write("roots/bad.patch", "--- a\n+++ b\n@@ -1,2 +1,2 @@\n nope\n-never\n+was\n")


def managed(s: Script) -> None:
    """Content from everywhere."""
    w = s.path
    s.apply("file.managed", w("n1"), contents="hello")
    s.apply("file.managed", w("n2"), contents=["a", "b", 3], mode="0600")
    s.apply("file.managed", w("n3"), contents="x\ny\n", contents_newline=False)
    s.apply("file.managed", w("n4"), source="salt://plain.txt", mode="keep")
    s.modes("n2", "n4")
    s.apply("file.managed", w("n5"), source="salt://plain.txt", mode=644, show_changes=False)
    s.apply(
        "file.managed",
        w("n6"),
        source="salt://tpl.j2",
        template="jinja",
        context={"who": "you"},
        defaults={"who": "nobody"},
    )
    s.apply("file.managed", w("n7"), contents="{{ who }}", template="jinja", context={"who": "me"})
    s.apply("file.managed", w("n8"), contents_pillar="text")
    s.apply("file.managed", w("n9"), contents_pillar=["text", "deep:key"])
    s.apply("file.managed", w("n10"), contents_grains="id")
    s.apply("file.managed", w("n11"), source=["salt://nosuch", "salt://plain.txt"])
    s.apply("file.managed", w("n12"), source=w("a"))
    # Under test stock stumbles over this one.
    s.once("file.managed", w("n13"), source="salt://plain.txt", new_file_diff=True)
    s.apply("file.managed", w("n14"))
    s.apply("file.managed", w("n15"), replace=False, mode="0640")
    s.apply("file.managed", w("deep/dir/n16"), contents="x", makedirs=True, dir_mode="0750")
    s.apply("file.managed", w("deep2/n17"), contents="x")
    s.apply("file.managed", w("a"), contents="new\ntwo\n", mode="0600")
    s.apply("file.managed", w("a"), contents="old\ntwo\n", show_changes=False, backup="minion")
    s.apply("file.managed", w("bin"), contents="text")
    s.apply("file.managed", w("link"), contents="through")
    s.apply("file.managed", w("link"), contents="instead", follow_symlinks=False)
    s.apply("file.managed", w("conf"), replace=False, mode="0600")
    s.apply("file.managed", w("e1"), source="salt://empty.txt")
    s.apply("file.managed", w("c1"), contents="good", check_cmd="grep -q good")
    s.apply("file.managed", w("c2"), contents="bad", check_cmd="grep good")
    s.apply("file.managed", w("c3"), contents="x", check_cmd="ls /nonexistent-dir")
    s.look("n1", "n2", "n3", "n6", "n7", "n8", "n9", "n10", "a", "c1")
    s.apply("file.managed", w("n1"), contents="  hello", ignore_whitespace=True)
    s.apply("file.managed", w("n2"), contents="b\na\n3", ignore_ordering=True)
    s.find("deep")
    for name, words in (
        ("rel/path", {"contents": "x"}),
        (w("tree"), {"contents": "x"}),
        (w("q"), {"source": "salt://nosuch"}),
        (w("q"), {"source": ["salt://nosuch", "salt://neither"]}),
        (w("q"), {"source": w("nosuch")}),
        (w("q"), {"source": "salt://plain.txt", "contents": "x"}),
        (w("q"), {"contents": "x", "mode": "keep"}),
        (w("q"), {"contents": "x", "contents_pillar": "text"}),
        (w("q"), {"contents_pillar": "nosuch"}),
        (w("q"), {"contents": "", "allow_empty": False}),
        (w("q"), {"contents_pillar": "empty", "allow_empty": False}),
        (w("q"), {"contents": {"a": 1}}),
        (w("q"), {"contents": []}),
        (w("q"), {"contents": "x", "user": "nosuchuser"}),
        (w("q"), {"contents": "x", "user": "nosuchuser", "group": "nosuchgroup"}),
        (w("q"), {"contents": "x", "create": False}),
        (w("q"), {"contents": "x", "context": [1]}),
        (w("q"), {"contents": "x", "defaults": "q"}),
        (w("q"), {"source": "salt://plain.txt", "file_mode": "0600"}),
        (w("q2"), {"source": "salt://tpl.j2", "template": "nosuch"}),
        (w("q3"), {"source": "https://127.0.0.1:9/x"}),
        (w("q4"), {"source": "salt://plain.txt", "source_hash": "00"}),
        (w("q5"), {"contents": "{{ x", "template": "nosuch"}),
        (w("q6"), {"source": "salt://broken.j2", "template": "jinja"}),
    ):
        s.once("file.managed", name, True, **words)
        s.once("file.managed", name, False, **words)


def directory(s: Script) -> None:
    """Directories, what is below them, what is in the way."""
    w = s.path
    s.apply("file.directory", w("d1"), mode="0750")
    s.apply("file.directory", w("d2/x/y"), makedirs=True, dir_mode=700)
    s.modes("d1", "d2", "d2/x", "d2/x/y")
    s.apply("file.directory", w("d3/x/"))
    s.apply("file.directory", w("tree"), file_mode="0644", dir_mode="0711", recurse=["mode"])
    s.apply("file.directory", w("tree"), mode="0755", recurse=["mode", "ignore_files"])
    s.apply("file.directory", w("tree"), mode="0700", recurse=["mode", "ignore_dirs", "silent"])
    s.apply("file.directory", w("tree"), mode="0777", recurse=["mode"], max_depth=1)
    s.apply("file.directory", w("tree"), mode="0750", recurse=["mode"], children_only=True)
    s.apply("file.directory", w("tree"), clean=True, exclude_pat="x*")
    s.find("tree")
    s.apply("file.directory", w("tree"), clean=True)
    s.apply("file.directory", w("a"))
    s.apply("file.directory", w("a"), backupname=w("a.bak"))
    s.apply("file.directory", w("conf"), force=True)
    s.apply("file.directory", w("link"), allow_symlink=False)
    for name, words in (
        ("rel", {}),
        (w("tree"), {"recurse": "mode"}),
        (w("tree"), {"recurse": ["nosuch"]}),
        (w("tree"), {"recurse": ["ignore_files", "ignore_dirs"]}),
        (w("tree"), {"max_depth": 1, "clean": True}),
        (w("tree"), {"user": "nosuchuser"}),
        (w("tree"), {"recurse": ["user"], "mode": "0712"}),
        (w("kv"), {"backupname": w("bin")}),
    ):
        s.once("file.directory", name, True, **words)
        s.once("file.directory", name, False, **words)


def recurse(s: Script) -> None:
    """Directories of the file server."""
    w = s.path
    # One entry for each directory below only if they are there before: the order of stock's
    # set decides which one is made on the way to another.
    s.apply("file.directory", w("r1/in"), makedirs=True)
    s.apply("file.recurse", w("r1"), source="salt://tree")
    s.find("r1")
    s.apply("file.directory", w("r2/in"), makedirs=True)
    s.apply("file.recurse", w("r2"), source="salt://tree/", file_mode="keep", dir_mode="0750")
    s.modes("r2/two.txt", "r2/in")
    s.apply("file.recurse", w("r3"), source="salt://tree", include_pat="*.txt", maxdepth=0)
    s.apply("file.recurse", w("r4"), source="salt://tree", exclude_pat="E@(two|in)")
    s.apply("file.recurse", w("r5"), source=["salt://nosuch", "salt://more"])
    s.apply("file.directory", w("r6/in"), makedirs=True)
    s.apply("file.recurse", w("r6"), source=["salt://more", "salt://tree"], merge=True)
    s.look("r6/one")
    s.write("r1/stray", "x")
    s.write("r1/straydir/y", "x")
    s.apply("file.recurse", w("r1"), source="salt://tree", clean=True)
    s.apply("file.recurse", w("r1"), source="salt://tree", template="jinja")
    s.look("r1/in/three.txt")
    for name, words in (
        ("rel", {"source": "salt://tree"}),
        (w("q"), {"source": "salt://nosuch"}),
        (w("q"), {"source": "/tmp"}),
        (w("q"), {"source": "salt://tree", "mode": "0600"}),
        (w("a"), {"source": "salt://tree"}),
        (w("q"), {"source": "salt://tree", "user": "nosuchuser"}),
    ):
        s.once("file.recurse", name, True, **words)
        s.once("file.recurse", name, False, **words)


def links(s: Script) -> None:
    """Symbolic and hard links."""
    w = s.path
    s.apply("file.symlink", w("l1"), target=w("a"))
    s.apply("file.symlink", w("l1"), target=w("conf"))
    s.apply("file.symlink", w("nd/l2"), target="rel")
    s.apply("file.symlink", w("nd/l2"), target="rel", makedirs=True)
    s.apply("file.symlink", w("kv"), target=w("a"))
    s.apply("file.symlink", w("kv"), target=w("a"), backupname="kv.bak")
    s.apply("file.symlink", w("conf"), target=w("a"), backupname=w("kv.bak"))
    s.apply("file.symlink", w("conf"), target=w("a"), backupname="x/kv.bak")
    s.apply("file.symlink", w("conf"), target=w("a"), force=True)
    s.apply("file.symlink", w("tree"), target=w("a"))
    s.apply("file.symlink", w("bin"), target=w("a"), atomic=True)
    s.once("file.symlink", "rel", target=w("a"))
    s.once("file.symlink", w("q"), target=w("a"), user="nosuchuser")
    s.once("file.symlink", w("q"), target=w("a"), user="nosuchuser", group="nosuchgroup")
    s.apply("file.hardlink", w("h1"), target=w("a"))
    s.apply("file.hardlink", w("h1"), target=w("tree/x.txt"))
    s.apply("file.hardlink", w("h2"), target=w("nosuch"))
    s.apply("file.hardlink", w("h2"), target=w("tree"))
    s.apply("file.hardlink", w("tree"), target=w("a"))
    s.apply("file.hardlink", w("nh/h3"), target=w("a"))
    s.apply("file.hardlink", w("nh/h3"), target=w("a"), makedirs=True)
    s.apply("file.hardlink", w("tree/sub/y.log"), target=w("a"))
    s.apply("file.hardlink", w("tree/sub/y.log"), target=w("a"), force=True)
    s.once("file.hardlink", "rel", target="rel2")


def presence(s: Script) -> None:
    """There or not, touched, tidied, pruned, kept by date."""
    w = s.path
    for name in (w("a"), w("nosuch"), w("tree"), ""):
        s.once("file.exists", name)
        s.once("file.missing", name)
    s.apply("file.touch", w("t1"))
    s.apply("file.touch", w("t1"), atime=10, mtime=20)
    s.apply("file.touch", w("nt/t2"))
    s.apply("file.touch", w("nt/t2"), makedirs=True)
    s.apply("file.touch", w("tree"))
    s.once("file.touch", "rel")
    s.apply("file.tidied", w("tree"), matches=[r".*\.log"], age=0)
    s.apply("file.tidied", w("tree"), size="1k", age=5000, age_size_only="size")
    s.apply("file.tidied", w("tree"), age=5000, size=1, age_size_logical_operator="and")
    s.apply("file.tidied", w("tree"), exclude=["z"], rmdirs=False)
    s.once("file.tidied", "rel")
    s.once("file.tidied", w("nosuch"))
    s.write("empty/x/y/keep", "k")
    os.makedirs(w("empty/z/q"))
    s.apply("file.pruned", w("empty"))
    s.apply("file.pruned", w("empty/z"), recurse=True)
    s.apply("file.pruned", w("empty"), ignore_errors=True)
    s.apply("file.pruned", w("nosuch"))
    for day in range(1, 29):
        s.write(f"backups/dump-2024-{1 + day % 3:02d}-{day:02d}", "b")
    s.write("backups/other", "b")
    s.apply(
        "file.retention_schedule",
        w("backups"),
        retain={
            "most_recent": 3,
            "first_of_day": 4,
            "first_of_week": 2,
            "first_of_month": "all",
            "first_of_year": 1,
            "first_of_hour": 1,
        },
        strptime_format="dump-%Y-%m-%d",
    )
    s.once("file.retention_schedule", w("nosuch"), retain={"most_recent": 1})
    s.apply("file.absent", w("link"))
    s.apply("file.absent", w("a"))
    s.apply("file.absent", w("tree"))
    s.once("file.absent", "rel")
    s.once("file.absent", "/")


def lines(s: Script) -> None:
    """Texts in files."""
    w = s.path
    s.apply("file.append", w("a"), text="four")
    s.apply("file.append", w("a"), text=["one", "fi ve", "six\nseven"])
    s.apply("file.append", w("a"), text="fi    ve")
    s.apply("file.append", w("a"), text="fi    ve", ignore_whitespace=False, show_changes=False)
    s.apply("file.append", w("a"), source="salt://text.j2", context={"who": "you"})
    s.apply("file.append", w("nosuch/x"), text="x")
    s.apply("file.append", w("newdir/x"), text="x", makedirs=True)
    s.apply("file.append", w("newfile"), text=["x", "y"])
    s.once("file.append", w("a"), text="x", source="salt://a", sources=["salt://b"])
    s.once("file.append", w("a"), source="salt://nosuch")
    s.apply("file.prepend", w("a"), text="zero")
    s.apply("file.prepend", w("a"), text=["two", "minus one"])
    s.apply("file.prepend", w("a"), text=["HEAD", "two"], header=True)
    s.apply("file.prepend", w("newfile2"), text="x", show_changes=False)
    s.apply("file.line", w("conf"), content="key = 2", match="key", mode="replace")
    s.apply("file.line", w("conf"), match="last", mode="delete")
    s.apply("file.line", w("conf"), content="added", mode="insert", location="end")
    s.apply("file.line", w("conf"), content="key = 3", mode="ensure", after="head")
    s.once("file.line", w("conf"), content="x")
    s.once("file.line", w("conf"), mode="replace")
    s.once("file.line", w("nosuch"), content="x", mode="ensure")
    s.apply("file.line", w("newline"), content="x", mode="insert", location="start", create=True)
    s.apply("file.replace", w("conf"), pattern="^key.*$", repl="key = 9", backup=False)
    s.apply("file.replace", w("conf"), pattern="nowhere", repl="there", append_if_not_found=True)
    s.apply("file.replace", w("conf"), pattern="zzz", repl="q")
    s.once("file.replace", w("nosuch"), pattern="a", repl="b")
    s.once("file.replace", w("nosuch"), pattern="a", repl="b", ignore_if_missing=True)
    s.once("file.replace", "rel", pattern="a", repl="b")
    s.apply("file.comment", w("conf"), regex="^key")
    s.apply("file.comment", w("conf"), regex="^nothing")
    s.apply("file.comment", w("conf"), regex="^nothing", ignore_missing=True)
    s.apply("file.uncomment", w("conf"), regex="^opt on")
    s.apply("file.uncomment", w("conf"), regex="nothing")
    s.once("file.comment", w("nosuch"), regex="x")
    s.apply("file.blockreplace", w("conf"), content="block")
    s.apply("file.blockreplace", w("conf"), content="block\nlines", append_if_not_found=True)
    s.apply("file.blockreplace", w("conf"), source="salt://text.j2", context={"who": "x"})
    s.apply("file.blockreplace", w("conf"), content="q", marker_start="# <", marker_end="# >")
    s.once("file.blockreplace", w("nosuch"), content="x")
    s.look("a", "conf", "newdir/x", "newfile", "newfile2", "newline")


def keyvalue(s: Script) -> None:
    """Keys and values on lines."""
    w = s.path
    s.apply("file.keyvalue", w("kv"), key="a", value=5)
    s.apply("file.keyvalue", w("kv"), key="a", value="6", count=2)
    s.apply("file.keyvalue", w("kv"), key_values={"b": "x"}, uncomment="# ")
    s.apply("file.keyvalue", w("kv"), key="d", value="X", key_ignore_case=True)
    s.apply("file.keyvalue", w("kv"), key="D", value="x", value_ignore_case=True)
    s.apply("file.keyvalue", w("kv"), key="new", value="1")
    s.apply("file.keyvalue", w("kv"), key="new", value="1", append_if_not_found=True)
    s.apply("file.keyvalue", w("kv"), key_values={"n2": 1, "n3": True}, prepend_if_not_found=True)
    s.apply("file.keyvalue", w("kv"), key="c", value="7", separator=" = ", show_changes=False)
    s.look("kv")
    s.apply("file.keyvalue", w("kv"), key_values={"a": 1, "new": 2}, prune=True)
    s.apply("file.keyvalue", w("kvnew"), key="a", value="1", create_if_missing=True)
    s.look("kv", "kvnew")
    s.once("file.keyvalue", w("nosuch"), key="a", value="1")
    s.once("file.keyvalue", w("nosuch"), key="a", value="1", ignore_if_missing=True)
    s.once("file.keyvalue", w("kv"))
    s.once("file.keyvalue", w("kv"), key_values=["a"])
    s.once("file.keyvalue", w("kv"), key="a", value="1", key_values={"a": 1})


def copies(s: Script) -> None:
    """Copies and moves."""
    w = s.path
    s.apply("file.copy", w("c1"), source=w("a"))
    s.apply("file.copy", w("c1"), source=w("conf"))
    s.apply("file.copy", w("c1"), source=w("conf"), force=True)
    s.apply("file.copy", w("c2"), source=w("conf"), preserve=True)
    s.apply("file.copy", w("c3"), source=w("conf"), mode="0600")
    s.apply("file.copy", w("nc/x/c4"), source=w("a"))
    s.apply("file.copy", w("nc/x/c4"), source=w("a"), makedirs=True)
    s.apply("file.copy", w("c5"), source=w("tree"))
    s.apply("file.copy", w("tree"), source=w("a"), subdir=True)
    s.once("file.copy", w("c6"), source=w("nosuch"))
    s.once("file.copy", "rel", source=w("a"))
    s.once("file.copy", w("c6"), source=w("a"), user="nosuchuser")
    s.modes("c1", "c2", "c3", "nc/x")
    s.find("c5")
    s.apply("file.rename", w("m1"), source=w("c1"))
    s.apply("file.rename", w("m1"), source=w("c2"))
    s.apply("file.rename", w("m1"), source=w("c2"), force=True)
    s.apply("file.rename", w("nm/m2"), source=w("m1"))
    s.apply("file.rename", w("nm/m2"), source=w("m1"), makedirs=True)
    s.apply("file.rename", w("ml"), source=w("link"))
    s.once("file.rename", "rel", source=w("a"))


def data(s: Script) -> None:
    """Data in formats, Base64, patches, devices, the cache."""
    w = s.path
    sample: dict[str, Any] = {"b": [1, 2, {"x": "ü"}], "a": {"n": None, "t": True}, "s": "yes"}
    s.apply("file.serialize", w("y1"), dataset=sample)
    s.apply("file.serialize", w("y2"), dataset=sample, encoding="utf-8", serializer="yaml")
    s.apply("file.serialize", w("j1"), dataset=sample, formatter="json", mode="0600")
    s.apply("file.serialize", w("j2"), dataset=sample, formatter="json", encoding="utf-8")
    s.apply(
        "file.serialize",
        w("j3"),
        dataset=sample,
        serializer="json",
        serializer_opts=[{"indent": 4}],
    )
    s.apply("file.serialize", w("i1"), dataset={"s": {"k": 1}}, serializer="configparser")
    s.apply("file.serialize", w("m1"), dataset=sample, serializer="msgpack")
    s.apply("file.serialize", w("p1"), dataset_pillar="data", show_changes=False)
    s.apply("file.serialize", w("y3"), dataset="text")
    s.apply(
        "file.serialize",
        w("j1"),
        dataset={"a": {"q": 1}, "z": 1},
        serializer="json",
        merge_if_exists=True,
    )
    s.apply("file.serialize", w("y1"), dataset={"s": "no"}, merge_if_exists=True)
    s.apply("file.serialize", w("y1"), dataset={}, deserializer_opts=[{"x": 1}])
    s.apply("file.serialize", w("k1"), dataset={"a": 1}, check_cmd="grep -q nothing")
    s.look("y1", "y2", "j1", "j2", "j3", "i1", "m1", "p1", "y3")
    s.once("file.serialize", w("q"), dataset={"a": 1}, serializer="nosuch")
    s.once("file.serialize", w("q"), dataset={"a": 1}, serializer="json", formatter="yaml")
    s.once("file.serialize", w("q"))
    s.once("file.serialize", w("q"), dataset={"a": 1}, dataset_pillar="data")
    s.once("file.serialize", w("q"), dataset={"a": 1}, create=False)
    s.apply("file.decode", w("dec"), encoded_data=PILLAR["b64"])
    s.look("dec", "a")
    s.write("p", "one\ntwo\nthree\n")
    s.apply("file.patch", w("p"), source="salt://fix.patch")
    s.apply("file.patch", w("conf"), source="salt://bad.patch")
    s.apply("file.patch", w("conf"), source="salt://nosuch.patch")
    s.apply("file.patch", w("nosuch"), source="salt://fix.patch")
    s.once("file.patch", "rel", source="salt://fix.patch")
    s.once("file.patch", w("p"), source="salt://fix.patch", options="-r x -N")
    s.once("file.patch", w("p"), source="salt://fix.patch", options="-px")
    s.once("file.patch", w("p"), source="salt://fix.patch", reject_file="rel")
    s.once("file.patch", w("p"), source="salt://fix.patch", reject_file=w("nosuch/x"))
    s.look("p")
    s.apply("file.mknod", w("pipe"), ntype="p", mode="0600")
    s.apply("file.mknod", w("conf"), ntype="p")
    s.once("file.mknod", w("conf"), ntype="c")
    s.once("file.mknod", w("x"), True, ntype="b")
    s.once("file.mknod", w("x"), ntype="q")
    s.apply("file.cached", w("conf"))
    s.apply("file.cached", w("nosuch"))
    s.apply("file.cached", w("conf"), source_hash="00" * 32)
    s.apply("file.not_cached", w("conf"))
    s.once("file.cached", "https://127.0.0.1:9/x")
    s.once("file.cached", "salt://nosuch")
    s.once("file.not_cached", "salt://nosuch")
    s.once("file.shortcut", w("x.lnk"), target="y")


def ini(s: Script) -> None:
    """Options and sections."""
    w = s.path
    s.write("x.ini", "top = 1\n[one]\na = 1\nb = 2\n[two]\nc = 3\n")
    s.apply("ini.options_present", w("x.ini"), sections={"one": {"a": 5, "new": "x"}})
    s.apply("ini.options_present", w("x.ini"), sections={"top": 2, "three": {"d": "4"}})
    s.apply("ini.options_present", w("x.ini"), sections=SECTIONS, strict=True)
    s.apply("ini.options_absent", w("x.ini"), sections={"one": ["a", "nosuch"]})
    s.apply("ini.sections_absent", w("x.ini"), sections=["one", "nosuch"])
    s.once("ini.sections_present", w("x.ini"), True, sections={"two": {}, "top": {}})
    s.once("ini.options_present", w("nodir/x.ini"), sections={"a": {"b": 1}})
    s.once("ini.options_present", w("x.ini"))
    s.look("x.ini")


def host(s: Script) -> None:
    """The hosts file, that of the configuration."""
    s.write("hosts", "127.0.0.1 localhost\n10.0.0.1 a b # old\n10.0.0.2 a\n")
    s.apply("host.present", "n1", ip="10.1.1.1")
    s.apply("host.present", "n2", ip=["10.1.1.1"], comment="said {so}")
    s.apply("host.present", "a", ip="10.0.0.1")
    s.apply("host.present", "a", ip="10.0.0.1", clean=True, comment="new")
    s.apply("host.absent", "n1", ip="10.1.1.1")
    s.apply("host.absent", "b", ip=["10.0.0.1"])
    s.apply("host.only", "10.0.0.9", hostnames="q")
    s.apply("host.only", "10.0.0.9", hostnames=["q", "r "])
    s.look("hosts")


def small(s: Script) -> None:
    """Environment and events."""
    s.apply("environ.setenv", "SALTWISTED_T1", value="x")
    s.apply("environ.setenv", "any", value={"SALTWISTED_T1": "y", "SALTWISTED_T2": "z"})
    s.apply("environ.setenv", "SALTWISTED_T1", value=False)
    s.apply("environ.setenv", "SALTWISTED_T2", value=False, false_unsets=True)
    s.once("environ.setenv", "SALTWISTED_T2", value=5)
    s.once("event.send", "a/tag", True, data={"x": 1})
    s.once("event.send", "a/tag", True, data={"x": 1}, show_changed=False)
    s.once("event.wait", "a/tag")


def together(s: Script) -> None:
    """States that work on one another: accumulators, and directories cleaned around files."""
    w = s.path
    s.write("block", "top\n#-- start managed zone --\n#-- end managed zone --\n")
    s.write("own/stray", "x")
    s.write("own/below/stray", "x")
    high: dict[str, Any] = {
        "first": {
            "file": [
                "accumulated",
                {"filename": w("block")},
                {"text": ["one", "two"]},
                {"require_in": [{"file": "block"}]},
            ]
        },
        "second": {
            "file": [
                "accumulated",
                {"filename": w("acc")},
                {"text": "three"},
                {"require_in": [{"file": "acc"}]},
            ]
        },
        "lonely": {"file": ["accumulated", {"filename": w("acc")}, {"text": "x"}]},
        "block": {"file": ["blockreplace", {"name": w("block")}, {"content": "zero"}]},
        "acc": {
            "file": [
                "managed",
                {"name": w("acc")},
                {"template": "jinja"},
                {"source": "salt://acc.j2"},
            ]
        },
        "mine": {"file": ["managed", {"name": w("own/mine")}, {"contents": "x"}]},
        "served": {
            "file": ["recurse", {"name": w("own/served")}, {"source": "salt://more"}],
        },
        "dir": {
            "file": [
                "directory",
                {"name": w("own")},
                {"clean": True},
                {"require": [{"file": "mine"}, {"file": "served"}]},
            ]
        },
    }
    for key, value in high.items():
        value["__sls__"], value["__env__"] = "x", "base"
        value["file"].append({"order": 10000 + len(key)})
    s.write("roots/acc.j2", "{{ accumulator }}\n")
    s.calls.append(("state.high", {"data": high}, None))
    s.look("block", "acc")
    s.find("own")


SCRIPTS: dict[str, Callable[[Script], None]] = {
    "managed": managed,
    "directory": directory,
    "recurse": recurse,
    "links": links,
    "presence": presence,
    "lines": lines,
    "keyvalue": keyvalue,
    "copies": copies,
    "data": data,
    "ini": ini,
    "host": host,
    "small": small,
    "together": together,
    "certs": certs,
    "keychains": keychains,
}
