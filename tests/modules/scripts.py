"""
Calls whose answers were recorded from stock Salt: one list for each subject.

A script prepares a directory, then calls functions one after the other; later calls see what
earlier ones did. C{record.py} runs the scripts with stock and keeps the answers in
C{tests/vectors/modules}; C{test_recorded.py} runs them with our modules and compares. This
file is read by both, so it imports nothing of ours and nothing of Salt's.

The directory is written C{{W}} in recorded answers. What differs from run to run (inodes,
times, process ids, random names) is taken out by L{plain} on both sides.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

if __package__:
    from tests.modules.certs import certificates
    from tests.modules.gpgcalls import keychains
    from tests.modules.partscripts import parts
    from tests.modules.signcalls import signatures
    from tests.modules.sitescripts import site
    from tests.modules.utilscripts import helpers
else:
    from certs import certificates
    from gpgcalls import keychains
    from partscripts import parts
    from signcalls import signatures
    from sitescripts import site
    from utilscripts import helpers

Call = tuple[str, tuple[Any, ...], dict[str, Any]]

PILLAR: dict[str, Any] = {
    "secret": "hunter2",
    "n": 5,
    "t": True,
    "z": 0,
    "e": "",
    "d": {"a": [1, "x", {"k": "v"}]},
    "master": {"m.x": 1},
}
GRAINS_FILE = "old: 1\nl: [a, b]\nm: {x: {y: 1}, li: [p, {q: 1}]}\n"

VOLATILE = frozenset(
    (
        *("inode", "atime", "mtime", "ctime", "st_atime", "st_mtime", "st_ctime", "pid"),
        *("Backup Time", "last_update", "next_update"),
    )
)
"""Keys of answers that no two runs have in common."""


def plain(value: Any, folder: str) -> Any:
    """An answer without what no two runs have in common."""
    if isinstance(value, dict):
        return {
            str(key).replace(folder, "{W}"): plain(item, folder)
            for key, item in value.items()
            if key not in VOLATILE
        }
    if isinstance(value, (list, tuple)):
        return [plain(item, folder) for item in value]
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, str):
        value = value.replace(folder, "{W}")
        value = re.sub(r"__salt\.tmp\.\w+", "TMP", value)
        value = re.sub(r"\.20\d\d(-\d\d){5}", ".DATE", value)
        return re.sub(r"_[A-Z][a-z]{2}_[A-Z][a-z]{2}_\d\d_[\d:]+_\d+_20\d\d", "_STAMP", value)
    return value


class Script:
    """
    One list of calls.

    @ivar folder: the prepared directory.
    @ivar calls: what to call, in order.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.calls: list[Call] = []

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> None:
        self.calls.append((function, args, kwargs))

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def write(self, name: str, content: str | bytes, mode: int = 0o644) -> None:
        data = content if isinstance(content, bytes) else content.encode()
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data)
        os.chmod(self.path(name), mode)

    def read(self, *names: str) -> None:
        """Ask for the content of files, to see what calls did to them."""
        for name in names:
            self.call("file.read", self.path(name), binary=True)


def prepare(script: Script) -> None:
    """The files that all scripts find."""
    write = script.write
    write("a", "one\ntwo\nthree\n", 0o640)
    write("nonl", "one\ntwo")
    write("crlf", "one\r\ntwo\r\n")
    write("bin", b"\0\1\2abc")
    write("emptyf", "")
    write("uml", "grün\nblau\n")
    write("latin", b"gr\xfcn\nx\n")
    write("conf", "# head\nkey = 1\n#opt on\n  indented = x\n#opt off\nlast\n", 0o755)
    write("d/x.txt", "xx")
    write("d/y.log", "yyyy" * 500)
    write("d/e/z.txt", "zz grep me")
    write("d/e/f/w.conf", "w")
    write(
        "blk",
        "top\n#-- start managed zone --\nold1\nold2\n#-- end managed zone --\nbottom\n",
    )
    write("blk2", "top\n#-- start managed zone --\nold\n")
    write(
        "hashes",
        "d41d8cd98f00b204e9800998ecf8427e  empty.txt\n"
        "5d41402abc4b2a76b9719d911017c592 *hello.tgz\n"
        "foo.iso aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d\n"
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824  ./dir/x.bin\n",
    )
    write("h1", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n")
    write("L", "first\n  indented one\nsecond\nthird\nsecond copy\nlast\n")
    write("L0", "")
    write("L1", "only")
    write("LC", "a\r\nb\r\nc\r\n")
    write("p.patch", "--- a\n+++ a\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n")
    os.makedirs(script.path("empty/a/b"))
    os.symlink("a", script.path("lnk"))
    os.symlink("/nosuch", script.path("broken"))
    os.link(script.path("a"), script.path("hard"))
    for number, name in enumerate(("x.txt", "y.log", "e/z.txt")):
        os.utime(script.path(f"d/{name}"), (1600000000 + number, 1600000000 + number))
    write("roots/f.txt", "hello {{ grains.id }}\n")
    write("roots/ctx.txt", "v={{ v }} u={{ u }} m={{ mode }}\n")
    write("roots/bad.txt", "{% if %}\n")
    write("roots/und.txt", "a\n{{ nosuch }}\n")
    write("roots/d/a", "a")
    write("roots/d/e/b", "b")
    write("roots/s.sh", '#!/bin/sh\necho "hi $1 $2"; exit 3\n')
    write("roots/x.sls", "a: test.nop\n")
    write("roots/_modules/mymod.py", 'def hi():\n    return "hi"\n')
    write("roots/_modules/sub/x.py", "y = 1\n")
    write("roots/_grains/g.py", 'def g():\n    return {"gg": 1}\n')
    os.symlink("f.txt", script.path("roots/lnk"))
    os.makedirs(script.path("out"))
    write("conf.d/grains", GRAINS_FILE)


# -- files ----------------------------------------------------------------------------------


def file_look(s: Script) -> None:
    """Questions about files that change nothing and need no rights."""
    c, w = s.call, s.path
    for name in ("0", "root", "daemon", 99999, "nosuch", ""):
        c("file.gid_to_group", name)
    for name in (0, "root", "nosuch", 7, ""):
        c("file.group_to_gid", name)
        c("file.user_to_uid", name)
    c("file.group_to_gid", None)
    c("file.uid_to_user", 0)
    c("file.uid_to_user", 99999)
    for name in ("a", "lnk", "broken", "nosuch", "d", "conf"):
        for function in [
            "get_mode",
            "is_link",
            "is_hardlink",
            "file_exists",
            "directory_exists",
            "is_chrdev",
            "is_blkdev",
            "is_fifo",
            "get_devmm",
            "readlink",
        ]:
            c(f"file.{function}", w(name))
        c("file.get_mode", w(name), follow_symlinks=False)
        c("file.readlink", w(name), canonicalize=True)
    c("file.is_link", w("lnk"), nostat=True)
    c("file.is_link", w("a"), nostat=True)
    for function in ("lstat", "readlink", "readdir", "statvfs", "stats"):
        c(f"file.{function}", "rel")
    c("file.get_devmm", "/dev/null")
    c("file.is_chrdev", "/dev/null")
    for function in ("get_sum", "get_hash"):
        for args in ((w("a"),), (w("a"), "md5"), (w("a"), "nosuch"), (w("nosuch"),)):
            c(f"file.{function}", *args)
    for value in (
        "md5:5a",
        "d41d8cd98f00b204e9800998ecf8427e",
        "md5=d41d8cd98f00b204e9800998ecf8427e",
        "abc",
        5,
    ):
        c("file.check_hash", w("emptyf"), value)
    for place in ("hashes", "h1"):
        for words in (
            {"file_name": "/x/hello.tgz"},
            {"file_name": "empty.txt"},
            {"source": "http://a/b/foo.iso"},
            {"source": "https://q/x.bin?z=1"},
            {"source_hash_name": "./dir/x.bin"},
            {"source_hash_name": "foo.iso"},
            {"file_name": "nomatch"},
            {},
        ):
            for kind in ("", "md5", "bogus"):
                c("file.extract_hash", w(place), kind, **words)
            c("file.extract_hash", w(place), **words)
    for value in (
        "md5=d41d8cd98f00b204e9800998ecf8427e",
        "d41d8cd98f00b204e9800998ecf8427e",
        "D41D8CD98F00B204E9800998ECF8427E",
        "sha1=abc",
        "foo=abc",
        "zz",
        "",
        "sha256=d41d8cd98f00b204e9800998ecf8427e",
        w("hashes"),
        "salt://nosuch",
        "gopher://x",
    ):
        c("file.get_source_sum", "/x/hello.tgz", "http://a/hello.tgz", value)
    for words in (
        {},
        {"name": "*.txt"},
        {"type": "d"},
        {"size": "+1k"},
        {"size": "2"},
        {"size": "-3"},
        {"maxdepth": 1},
        {"mindepth": 2},
        {"mindepth": 1, "maxdepth": 2},
        {"grep": "grep me"},
        {"regex": ".*t$"},
        {"iname": "X.*"},
        {"iregex": "X"},
        {"print": "name,size,type,mode,md5", "type": "f"},
        {"mtime": "+30d", "type": "f"},
        {"mtime": "-1h", "type": "f"},
        {"owner": "nosuch"},
        {"bad": "x"},
        {"name": ""},
        {"type": "q"},
        {"size": "x"},
        {"mtime": "x"},
        {"regex": "("},
        {"name": "y.log", "delete": "f", "test": True},
    ):
        c("file.find", w("d"), **words)
    c("file.find", w("*"), type="f", name="x*")
    c("file.find", w("d"), "print")
    c("file.find", w("nosuch"))
    c("file.find", w("d"), "delete", name="y.log")
    c("file.find", w("d"))
    for function, *args in (
        ("contains", "two"),
        ("contains", " two \n"),
        ("contains", "zzz"),
        ("contains_regex", "^t"),
        ("contains_regex", "^q"),
        ("contains_regex", "^opt", "#"),
        ("contains_glob", "*two*"),
        ("contains_glob", "two"),
        ("search", "^two"),
        ("search", "^q"),
        ("search", "TWO", ["IGNORECASE"]),
        ("search", "one\ntwo"),
        ("search", "TWO", "I"),
    ):
        for name in ("a", "nosuch", "conf", "crlf"):
            c(f"file.{function}", w(name), *args)
    c("file.search", w("nosuch"), "two", ignore_if_missing=True)
    c("file.search", w("bin"), "two")
    c("file.search", w("a"), "x", flags="BAD")
    c("file.search", w("a"), "x", flags={"a": 1})
    c("file.search", w("a"), "one.two", flags="DOTALL", multiline=True)
    c("file.grep", w("a"), "two")
    c("file.grep", w("a"), "TWO", "-i")
    c("file.grep", w("a"), "two", "-i -v")
    c("file.access", w("a"), "r")
    c("file.access", w("a"), 4)
    c("file.access", w("a"), "q")
    c("file.access", "rel", "r")
    c("file.access", w("nosuch"), "f")
    for name in ("bin", "latin", "nosuch", "crlf", "uml"):
        c("file.read", w(name))
    c("file.readdir", w("d/e"))
    c("file.readdir", w("a"))
    c("file.path_exists_glob", w("*x*"))
    c("file.path_exists_glob", w("*QQ*"))
    c("file.diskusage", w("d"))
    c("file.diskusage", w("conf"))
    c("file.statvfs", w("nosuch"))
    c("file.pardir")
    c("file.normpath", "a/b/../c//d")
    c("file.basename", "a/b")
    c("file.dirname", "a/b")
    c("file.join", "/", "a", "b")
    c("file.join", "a", "/b")
    c("file.lsattr", w("nosuch"))
    c("file.chattr", w("a"))
    c("file.chattr", w("a"), operator="add")


def file_replace(s: Script) -> None:
    """C{replace}, C{blockreplace} and commenting."""
    c, w = s.call, s.path
    append, prepend = {"append_if_not_found": True}, {"prepend_if_not_found": True}
    calls: list[tuple[str, Any, dict[str, Any]]] = [
        ("two", "2", {}),
        ("two", "two", {}),
        ("nope", "x", {}),
        ("nope", "x", append),
        ("nope", "x", append),
        ("nope", "y", prepend),
        ("nope", "z", {**append, "not_found_content": "ZZZ"}),
        ("o", "0", {"count": 1}),
        ("t(h)ree", "\\1r", {}),
        ("^.*$", "L", {"count": 2}),
        ("hr", "\\d", {"backslash_literal": True}),
        ("hr", "\\q", {}),
        ("L", "M", {"dry_run": True}),
        ("L", "M", {"show_changes": False}),
        ("nn", "M", {"show_changes": False}),
        ("M", "N", {"backup": False}),
        ("N", "P", {"preserve_inode": False}),
        ("x", "y", {"search_only": True, **append}),
        ("x", "y", {**append, **prepend}),
        ("P", 7, {}),
        ("7", "é", {}),
        ("é", "e", {"encoding": "utf-8"}),
    ]
    for pattern, new, words in calls:
        c("file.replace", w("a"), pattern, new, **words)
        s.read("a")
    s.read("a.bak")
    c("file.replace", w("lnk"), "e", "E")
    c("file.readlink", w("lnk.bak"))
    c("file.replace", w("nosuch"), "a", "b")
    c("file.replace", w("nosuch"), "a", "b", ignore_if_missing=True)
    c("file.replace", w("bin"), "a", "b")
    c("file.replace", w("crlf"), "^two$", "2")
    c("file.replace", w("crlf"), "two", "2", **append)
    c("file.replace", w("emptyf"), "a", "b", **append)
    c("file.replace", w("nonl"), "zz", "zz", **append)
    c("file.replace", w("uml"), "grün", "rot")
    c("file.replace", w("conf"), "(", "x")
    c("file.replace", w("conf"), "key = 1", "key = 2")
    s.read("crlf", "emptyf", "nonl", "uml", "conf")
    c("file.get_mode", w("conf"))
    for words in (
        {"content": "new1\nnew2"},
        {"content": "new1\nnew2\n"},
        {"content": "x", "append_newline": True},
        {"content": "y\n", "append_newline": None},
        {"content": "z", "append_newline": None},
        {"content": "z", "append_newline": None, "show_changes": False},
        {"content": ""},
        {"content": "q", "dry_run": True},
        {"content": "q", "show_changes": False},
        {"content": "r", "backup": False},
    ):
        c("file.blockreplace", w("blk"), **words)
        s.read("blk")
    for name in ("blk2", "nosuch", "bin", "nonl"):
        c("file.blockreplace", w(name), content="x")
    newline = {"append_newline": True}
    c("file.blockreplace", w("nonl"), "#s", "#e", content="x", **append, **newline)
    c("file.blockreplace", w("crlf"), "#s", "#e", content="x\ny", **prepend, **newline)
    s.read("nonl", "crlf")
    c("file.blockreplace", w("crlf"), "#s", "#e", content="q\n")
    c("file.blockreplace", w("uml"), "#s", "#e", content="x\n", insert_before_match="blau")
    c("file.blockreplace", w("uml"), "#s2", "#e2", content="x\n", insert_after_match="blau")
    c("file.blockreplace", w("uml"), "#s3", "#e3", content="x\n", insert_after_match="nope")
    c("file.blockreplace", w("uml"), **append, **prepend)
    c("file.blockreplace", w("uml"), insert_before_match=5)
    c("file.blockreplace", w("emptyf"), "#s", "#e", content="a\n", **append)
    s.read("crlf", "uml", "emptyf")
    for regex, words in (
        ("key", {}),
        ("key", {"cmnt": False}),
        ("^opt", {"cmnt": False}),
        ("opt", {"cmnt": False}),
        ("last$", {}),
        ("nomatch", {}),
        ("^key.*$", {"char": "//"}),
        ("key", {"char": "//", "cmnt": False}),
        ("  ind", {"backup": False}),
    ):
        c("file.comment_line", w("conf"), regex, **words)
        s.read("conf")
    c("file.comment", w("conf"), "key")
    c("file.uncomment", w("conf"), "key")
    c("file.get_mode", w("conf"))
    for name in ("nosuch", "bin", "crlf"):
        c("file.comment_line", w(name), "x")


def file_line(s: Script) -> None:
    """C{line} in all its modes."""
    insert = {"mode": "insert"}
    ensure = {"mode": "ensure"}
    replace = {"mode": "replace"}
    delete = {"mode": "delete"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("L", {**insert, "content": "X", "location": "end"}),
        ("L", {**insert, "content": "X", "location": "start"}),
        ("L", {**insert, "content": "Y", "after": "^third"}),
        ("L", {**insert, "content": "Y", "after": "^third"}),
        ("L", {**insert, "content": "Z", "before": "^third"}),
        ("L", {**insert, "content": "Z", "before": "^third"}),
        ("L", {**insert, "content": "N", "after": "second"}),
        ("L", {**insert, "content": "N", "after": "nosuch"}),
        ("L", {**insert, "content": "N"}),
        ("L", {**insert, "content": "Q", "after": "^  ind"}),
        ("L", {**insert, "content": "Q2", "after": "^  ind", "indent": False}),
        ("L", {**insert, "content": "B", "before": "^third", "after": "^second$"}),
        ("L", {**ensure, "content": "E1", "after": "^first"}),
        ("L", {**ensure, "content": "E1", "after": "^first"}),
        ("L", {**ensure, "content": "E2", "before": "^last"}),
        ("L", {**ensure, "content": "E3", "before": "^last", "after": "^second copy"}),
        ("L", {**ensure, "content": "E4", "before": "^last", "after": "^first"}),
        ("L", {**ensure, "content": "E5"}),
        ("L", {**ensure, "content": "E6", "after": "nosuch"}),
        ("L", {**replace, "match": "^third", "content": "THIRD"}),
        ("L", {**replace, "match": "nosuch", "content": "T"}),
        ("L", {**replace, "content": "last"}),
        ("L", {**delete, "match": "^second"}),
        ("L", {**delete, "content": "last"}),
        ("L", {**delete, "match": "zzz"}),
        ("L", {"mode": "bad", "content": "x"}),
        ("L", {"content": "x"}),
        ("L", insert),
        ("L", {"mode": "INSERT", "content": "C", "location": "end"}),
        ("L", {**insert, "content": "D", "location": "end", "show_changes": False}),
        ("L", {**insert, "content": "(", "after": "("}),
        ("L", {**insert, "content": "1", "location": "bogus"}),
        ("L", {**delete, "match": "X", "backup": True}),
        ("L0", {**insert, "content": "X", "location": "end"}),
        ("L0", {**insert, "content": "X", "location": "start"}),
        ("L0", {**delete, "match": "x"}),
        ("L0", {**replace, "match": "x", "content": "y"}),
        ("L0", {**ensure, "content": "x", "after": "z"}),
        ("L1", {**insert, "content": "X", "location": "end"}),
        ("L1", {**insert, "content": "W", "location": "start"}),
        ("L1", {**replace, "match": "only", "content": "y"}),
        ("LC", {**insert, "content": "X", "location": "end"}),
        ("LC", {**insert, "content": "W", "location": "start"}),
        ("LC", {**insert, "content": "V", "after": "b"}),
        ("LC", {**replace, "match": "^a", "content": "A"}),
    ]
    for name, words in calls:
        s.call("file.line", s.path(name), **words)
        s.read(name)
    s.call("file.line", s.path("nosuch"), mode="insert", content="x", location="end")
    s.call("file.line", s.path("nosuch"), mode="insert", content="x", location="end", quiet=True)
    s.call("file.find", s.folder, regex="L.*", maxdepth=1)


def file_change(s: Script) -> None:
    """Writing, linking, moving, removing, patching; no rights needed."""
    c, w = s.call, s.path
    c("file.append", w("a"), "x", "y")
    c("file.append", w("nonl"), "z")
    c("file.append", w("nonl"), args=["q", 5])
    c("file.append", w("nonl"), args="r")
    c("file.append", w("emptyf"), "e")
    c("file.append", w("nosuch"), "e")
    c("file.prepend", w("a"), "p", "q")
    c("file.prepend", w("newp"), "p")
    s.read("a", "nonl", "emptyf", "newp")
    c("file.write", w("a"), "w1", "w2")
    c("file.write", w("newq"), args="v")
    s.read("a", "newq")
    c("file.touch", w("t1"))
    c("file.touch", w("t1"), 5, "6")
    c("file.touch", w("t1"), "x")
    c("file.touch", w("nodir/x"))
    c("file.truncate", w("a"), 3)
    c("file.seek_read", w("uml"), 4, 2)
    s.read("a")
    for mode in ("0600", "600", 600, "0o644", "9", "", 0, "keep"):
        c("file.set_mode", w("a"), mode)
    c("file.set_mode", w("nosuch"), "600")
    c("file.set_mode", w("a"), "0640")
    for function, *args in (
        ("symlink", w("a"), w("l1")),
        ("symlink", w("a"), w("l1")),
        ("symlink", w("b"), w("l1")),
        ("symlink", w("b"), w("l1"), True),
        ("symlink", w("b"), w("conf")),
        ("symlink", w("b"), "rel"),
        ("symlink", w("b"), w("nodir/x")),
        ("symlink", "rel", w("l2")),
        ("symlink", w("a"), w("l1"), False, True),
        ("symlink", w("q"), w("d"), False, True),
        ("link", w("a"), w("h2")),
        ("link", w("a"), w("h2")),
        ("link", "rel", w("h3")),
        ("rename", w("h2"), w("h4")),
        ("rename", w("h2"), w("h4")),
        ("rename", "rel", "x"),
        ("copy", w("a"), w("cp1")),
        ("copy", w("conf"), w("cp2")),
        ("copy", "rel", w("x")),
        ("copy", w("nosuch"), w("x")),
        ("copy", w("d"), w("d2")),
        ("copy", w("d"), w("d2"), True),
        ("copy", w("d"), w("d2"), True, True),
        ("copy", w("a"), w("nodir/x")),
        ("copy", w("a"), w("d2")),
        ("move", w("cp1"), w("cp3")),
        ("move", w("cp1"), w("cp3")),
        ("move", "rel", w("x")),
        ("move", w("cp3"), "rel"),
        ("move", w("cp3"), w("cp4"), True),
    ):
        c(f"file.{function}", *args)
    c("file.readlink", w("l1"))
    c("file.get_mode", w("cp2"))
    c("file.find", w("d2"))
    c("file.rmdir", w("empty"))
    c("file.rmdir", w("empty"), True)
    c("file.rmdir", w("d2"), True, True)
    c("file.rmdir", w("nosuch"))
    c("file.rmdir", "rel")
    c("file.rmdir", w("d2"), verbose=True, older_than=1)
    c("file.rmdir", w("d2"), recurse=True, older_than=5)
    for name in ("l1", "broken", "d2", "nosuch"):
        c("file.remove", w(name))
    c("file.remove", "rel")
    c("file.mkdir", w("m1/m2"))
    c("file.mkdir", w("m3"), mode=700)
    c("file.makedirs", w("n1/n2/f"))
    c("file.makedirs", w("n3/n4/"), mode="0700")
    c("file.makedirs", w("n1/n2/"))
    c("file.makedirs", w("a/x"))
    c("file.makedirs_perms", w("o1/o2"), mode="0711")
    c("file.makedirs_perms", w("o1/o2"))
    c("file.find", w("?[1-9]"), type="d", print="path,mode")
    c("file.mknod", w("f1"), "p")
    c("file.mknod", w("f1"), "p")
    c("file.mknod", w("z1"), "z")
    c("file.mknod_fifo", w("f2"), mode="0666")
    c("file.find", w("f?"), print="path,mode,type")
    c("file.write", w("a"), "one", "two", "three")
    c("file.patch", w("a"), w("p.patch"), dry_run=True)
    c("file.patch", w("a"), w("p.patch"))
    s.read("a")
    c("file.patch", w("a"), w("p.patch"))
    c("file.sed", w("conf"), "key", "KEY")
    c("file.sed", w("nosuch"), "a", "b")
    c("file.sed_contains", w("conf"), "KEY")
    c("file.sed_contains", w("conf"), "zzz")
    c("file.psed", w("conf"), "KEY", "k2")
    s.read("conf")


def file_owner(s: Script) -> None:
    """What needs root: owners and devices."""
    c, w = s.call, s.path
    pairs: tuple[tuple[Any, Any], ...] = (
        ("root", "root"),
        ("daemon", ""),
        ("nosuch", "root"),
        ("root", "nosuch"),
        ("nosuch", "nosuch"),
        (None, "daemon"),
        ("", ""),
        (1, 2),
    )
    for user, group in pairs:
        c("file.chown", w("a"), user, group)
        c("file.get_user", w("a"))
        c("file.get_gid", w("a"))
    c("file.lchown", w("lnk"), "daemon", "daemon")
    c("file.stats", w("lnk"), follow_symlinks=False)
    c("file.chown", w("nosuch"), "root", "root")
    c("file.chown", w("broken"), "root", "root")
    c("file.chgrp", w("a"), "daemon")
    c("file.chgrp", w("a"), "nosuch")
    c("file.set_mode", w("a"), "04755")
    c("file.stats", w("a"), "md5")
    c("file.chown", w("a"), 0, 0)
    asked: tuple[dict[str, Any], ...] = (
        {},
        {"mode": "0600"},
        {"user": "daemon"},
        {"group": "nosuch"},
        {"user": "nosuch"},
        {"user": 1, "group": 1, "mode": 644},
        {"mode": "04750"},
    )
    for words in asked:
        user, group, mode = (words.get(word) for word in ("user", "group", "mode"))
        c("file.check_perms", w("a"), {}, user, group, mode)
        if group != "nosuch" and user != "nosuch":
            c("file.check_perms", w("lnk"), None, user, group, mode)
    earlier = {"name": "q", "changes": {}, "comment": "hi", "result": True}
    c("file.check_perms", w("a"), earlier, "nosuch", None, None)
    c("file.check_perms", w("nosuch"), {}, None, None, None)
    c("file.check_perms", w("d"), {}, None, None, "0700")
    c("file.check_perms", w("lnk"), {}, None, None, "0644", follow_symlinks=True)
    c("file.makedirs", w("n3/n4/"), mode="0700", user="daemon")
    c("file.mkdir", w("m4"), user="daemon", group="daemon", mode="0750")
    c("file.mknod", w("c1"), "c", 1, 3)
    c("file.mknod", w("b1"), "b", 7, 0, user="daemon", mode="0600")
    c("file.mknod_chrdev", w("a"), 1, 3)
    c("file.get_devmm", w("c1"))
    c("file.find", w("[bcmn][0-9]*"), print="path,mode,user,group,type")


def file_managed(s: Script) -> None:
    """What C{file.managed} is made of."""
    c, w = s.call, s.path
    for sources in (
        "salt://f.txt",
        ["salt://nosuch", "salt://f.txt"],
        ["salt://nosuch", {"salt://f.txt": "hh"}],
        [{"salt://f.txt": None}],
        ["/nosuch", w("a")],
        ["file:///nosuch", "file://" + w("a")],
        ["salt://nosuch"],
        ["salt://d"],
        [{"a": 1, "b": 2}],
        ["salt://f.txt?saltenv=dev", "salt://f.txt?saltenv=base"],
    ):
        c("file.source_list", sources, "x", "base")
    empty = "md5=d41d8cd98f00b204e9800998ecf8427e"
    for source, source_hash, template, context in (
        ("salt://f.txt", "", None, None),
        ("salt://nosuch", "", None, None),
        (w("a"), "", None, None),
        ("file://" + w("a"), "", None, None),
        (w("nosuch"), "", None, None),
        ("http://127.0.0.1:9/x", "", None, None),
        ("http://127.0.0.1:9/x", "bad", None, None),
        ("salt://f.txt", "", "jinja", None),
        ("salt://f.txt", "", "nosuch", None),
        (w("a"), empty, None, None),
        ("", "", None, None),
        (None, None, None, None),
        ("salt://ctx.txt", "", "jinja", {"v": 1}),
        ("salt://bad.txt", "", "jinja", None),
        ("salt://und.txt", "", "jinja", None),
    ):
        defaults = {"v": 2, "u": 3} if context else None
        c(
            "file.get_managed",
            *(w("target"), template, source, source_hash, None, "root", "root", "0644", None),
            *("base", context, defaults),
        )
    text = hashlib.sha256(b"hello {{ grains.id }}\n").hexdigest()
    master, nothing = "salt://f.txt", None
    steps: list[tuple[str, Any, Any, Any, dict[str, Any]]] = [
        ("t_new", master, None, None, {}),
        ("t_new", master, None, None, {}),
        ("a", master, None, None, {}),
        ("t2", master, None, "0640", {}),
        ("nod/t3", master, None, None, {}),
        ("nod/t3", master, None, "0600", {"makedirs": True}),
        ("t4", nothing, "text\n", None, {}),
        ("t4", nothing, "text\n", None, {}),
        ("t4", nothing, "text2\n", None, {}),
        ("t4", nothing, "text2\n", "0600", {}),
        ("t4", nothing, "text3\n", None, {"show_changes": False}),
        ("t5", nothing, None, None, {}),
        ("t5", nothing, None, None, {}),
        ("t6", nothing, "grün", None, {"encoding": "latin-1"}),
        ("lnk", master, None, None, {}),
        ("lnk", master, None, None, {"follow_symlinks": False}),
        ("t7", nothing, "x\n", None, {"new_file_diff": True}),
        ("t9", master, None, None, {"keep_mode": True}),
        ("t4", master, None, None, {"backup": "minion"}),
        ("bin", master, None, None, {}),
        ("t4", nothing, "hello {{ grains.id }}  \n", None, {"ignore_whitespace": True}),
        (
            "t4",
            nothing,
            "hello {{ grains.id }} # c\n",
            None,
            {"ignore_comment_characters": "#"},
        ),
        ("t4", nothing, "different\n", None, {"ignore_ordering": True}),
        ("d", master, None, None, {}),
    ]
    heeded = [
        "new_file_diff",
        "keep_mode",
        "ignore_whitespace",
        "ignore_ordering",
        "ignore_comment_characters",
        "follow_symlinks",
    ]
    for name, source, contents, mode, words in steps:
        words = dict(words)
        backup = words.pop("backup", "")
        summed = {"hsum": text, "hash_type": "sha256"} if source else {}
        common = (w(name), source, "", None, None, None, mode, None, None, None, None, "base")
        c(
            "file.check_managed_changes",
            *common,
            contents=contents,
            **{key: value for key, value in words.items() if key in heeded},
        )
        c("file.check_managed", *common, contents=contents)
        c(
            "file.manage_file",
            *(w(name), "", {}, source, summed, None, None, mode, None, "base", backup),
            contents=contents,
            **words,
        )
        c("file.get_mode", w(name))
    for function in ("list_backups", "list_backup", "list_backups_dir"):
        c(f"file.{function}", w("t4"))
    c("file.list_backups", w("t4"), limit="x")
    c("file.list_backups", w("none"))
    c("file.restore_backup", w("t4"), 0)
    s.read("t4")
    for number in ("00", "x", 9):
        c("file.restore_backup", w("t4"), number)
    for number in (0, 7, "q"):
        c("file.delete_backup", w("t4"), number)
    c("file.get_diff", w("a"), w("conf"))
    c("file.get_diff", w("a"), w("a"))
    c("file.get_diff", w("a"), w("latin"), show_filenames=False)
    c("file.get_diff", w("nosuch"), w("a"))
    c("file.get_diff", w("a"), "salt://f.txt", show_filenames=False)
    c("file.get_diff", w("a"), w("conf"), show_changes=False)
    c("file.get_diff", w("a"), w("conf"), ignore_ordering=True)
    for template in ("x {{ v }} {{ u }}", "{{ salt['pillar.get']('secret') }}", "{{ nosuch }}"):
        c(
            "file.apply_template_on_contents",
            *(template, "jinja", {"v": 1}, {"v": 2, "u": 3}, "base"),
        )
    c("file.apply_template_on_contents", "x", "nosuch", {}, {}, "base")


# -- facts and rules --------------------------------------------------------------------------


def facts(s: Script) -> None:
    """Grains, pillar and options."""
    c = s.call
    for key in ("old", "m:x:y", "l:0", "m:li:q", "l:5", "m:li:nope", "nosuch"):
        c("grains.get", key, "dflt")
        c("grains.has_value", key)
    c("grains.item", "old", "m:x", "zz")
    c("grains.item", "old", "zz", default="q")
    c("grains.item", "id", sanitize=True)
    grains_file = s.path("conf.d/grains")
    for function, *args in (
        ("setval", "new", {"a": [1, 2]}),
        ("setvals", {"a": "b", "old": None}, True),
        ("setvals", "x"),
        ("append", "l", "c"),
        ("append", "l", "a"),
        ("append", "a", "z"),
        ("append", "a", "z", True),
        ("append", "n2:n3", "v"),
        ("remove", "l", "a"),
        ("remove", "l", "zz"),
        ("remove", "id", "z"),
        ("set", "m:x:y", 1),
        ("set", "m:x:y", 2),
        ("set", "m:x", 2),
        ("set", "m:x", 2, True),
        ("set", "m:x:deep", 3),
        ("set", "m:li:p", "v"),
        ("set", "m:li:neu", "v"),
        ("set", "fresh:a:b", "v"),
        ("set", "l", {"a": 1}),
        ("set", "a", None),
        ("set", "new", None, True, True),
        ("delkey", "fresh"),
        ("delkey", "fresh", True),
        ("delval", "old"),
        ("delval", "old", True),
        ("delkey", "m:li:p"),
    ):
        c(f"grains.{function}", *args)
        c("file.read", grains_file)
    for lookup, words in (
        ({"mm": {"a": 1}, "default": {"b": 2}}, {}),
        ({"m*": {"a": 1}}, {"merge": {"c": 3}, "base": "b"}),
        ({"x": 1, "default": {"b": 2}}, {}),
        ({"base": {"l": {"z": 1}}, "mm": {"l": {"y": 2}}}, {"base": "base"}),
        ({"mm": 3, "b": {}}, {"base": "b"}),
        ({"mm": 3}, {"merge": [1]}),
    ):
        c("grains.filter_by", lookup, "id", **words)
    c("grains.equals", "id", "mm")
    for key in ("secret", "nosuch", "d:a:2:k", "d:a:0", "d", "z", "t"):
        c("pillar.get", key)
        c("pillar.get", key, unmask=True)
        c("pillar.get", key, "D")
    c("pillar.get", "d", {"q": 1}, merge=True, unmask=True)
    c("pillar.get", "d:a", ["q"], merge=True, unmask=True)
    c("pillar.get", "d:a", {"q": 1}, merge=True)
    c("pillar.get", "d", "x", merge=True)
    c("pillar.item", "secret", "n", "nope")
    c("pillar.item", "secret", unmask=True)
    c("pillar.item", "nope", default=3)
    c("pillar.raw", "d")
    c("pillar.raw", "d", unmask=False)
    c("pillar.raw", "nope")
    for key in ("d", "nope", "n"):
        c("pillar.keys", key)
    c("pillar.filter_by", {"hunter*": {"a": 1}}, "secret")
    for key in ("test.foo", "secret", "d:a:0", "nope", "id", "m.x", "redis.port", "virt:tunnel"):
        c("config.get", key)
        c("config.get", key, "D")
        c("config.option", key)
        c("config.merge", key, "z")
    c("config.get", "id", omit_opts=True)
    c("config.get", "d:a:0", omit_pillar=True)
    c("config.get", "m.x", omit_master=True)
    c("config.get", "d", merge="recurse")
    c("config.option", "nope", wildcard=True)
    c("config.option", "red*", wildcard=True)
    c("config.option", "sec*", wildcard=True)
    c("config.option", "secret", omit_all=True)
    for mode in (644, "0644", "00755", "keep", None, "0o600", "04755"):
        c("config.manage_mode", mode)
    for url in ("salt://x", "ftp://x", "/x", "gopher://x"):
        c("config.valid_fileproto", url)
    c("config.dot_vals", "test")
    c("config.backup_mode")
    c("config.backup_mode", "x")


def targets(s: Script) -> None:
    """C{match.*}, the data store and the mine without a master."""
    c = s.call
    for target in (
        "mm",
        "m*",
        "x",
        "mm or x",
        "not mm",
        "I@d:a:x",
        "J@secret:^hunt",
        "L@a,mm",
        "E@^m.$",
        "N@grp",
        "(mm and not x) or y",
        "mm and",
        "bad and or",
        "D@k:v",
        5,
    ):
        c("match.compound", target)
    c("match.compound", "zz", minion_id="zz")
    c("match.glob", "z*", "zz")
    c("match.glob", "m*")
    c("match.list", "a,mm")
    c("match.list", ["mm"])
    c("match.list", "zz", "zz")
    c("match.pcre", "^m")
    c("match.pcre", "(")
    c("match.grain", "id:mm")
    c("match.grain", "id|mm", delimiter="|")
    c("match.grain", "bad")
    c("match.grain_pcre", "id:m.*")
    c("match.pillar", "secret:hunter*")
    c("match.pillar", "d:a:x")
    c("match.pillar_pcre", "secret:h.*")
    c("match.filter_by", {"mm": {"a": 1}, "default": 2})
    c("match.filter_by", {"x": 1, "default": 2})
    c("match.filter_by", {"m*": {"a": 1}}, merge={"b": 2})
    c("match.filter_by", {"m*": None}, merge={"b": 2})
    c("match.filter_by", {"m*": {}}, merge=5)
    c("match.filter_by", {"z*": 1}, minion_id="zz")
    c("match.search_by", {"a": ["mm", "x"], "b": ["q"], "c": ["m*"]})
    c("match.search_by", {"b": ["q"]})
    c("match.ifelse", "x", "X", "m*", "M", "D")
    c("match.ifelse", "x", "X", "D")
    c("match.ifelse", "D")
    c("match.ifelse", "a", "b")
    c("match.ifelse", True, 1, 2)
    c("match.ifelse", False, 1, 2)
    c("data.update", "k", "v")
    c("data.load")
    c("data.get", "k")
    c("data.get", "zz", 5)
    c("data.get", ["k", "z"])
    c("data.get", ["k", "z"], 1)
    c("data.cas", "k", "w", "v")
    c("data.cas", "k", "w", "v")
    c("data.cas", "q", "w", "v")
    for function in ("items", "keys", "values"):
        c(f"data.{function}")
    c("data.has_key", "k")
    c("data.pop", "k")
    c("data.pop", "k", "d")
    c("data.dump", {"a": 1})
    c("data.dump", "{'b':2}")
    c("data.load")
    c("data.clear")
    c("data.load")
    c("mine.send", "test.echo", "hi")
    c("mine.get", "*", "test.echo")
    c("mine.get", "x", "test.echo")
    c("mine.get", "*", ["test.echo", "zz"])
    c("mine.get", "*", "test.echo,zz")
    c("mine.send", "al", mine_function="test.arg", x=1, allow_tgt="x*", allow_tgt_type="glob")
    c("mine.get", "*", "al")
    c("mine.send", "nosuch.fn")
    c("mine.send", "test.echo")
    c("mine.update")
    c("mine.update", mine_functions=["test.version", "no.such"])
    c(
        "mine.update",
        mine_functions={
            "e": [{"mine_function": "test.echo"}, "q"],
            "t": {"mine_function": "test.kwarg", "z": 1},
        },
    )
    c("mine.get", "*", "e,t")
    c("mine.update", clear=True, mine_functions={"test.echo": ["w"]})
    c("mine.get", "*", "e")
    c("mine.delete", "test.echo")
    c("mine.delete", "nope")
    c("mine.flush")
    c("mine.valid")
    c("data.load")
    c("publish.publish", "*", "test.ping")
    c("publish.full_data", "*", "test.ping")


def words(s: Script) -> None:
    """Functions on texts and numbers: test, hashutil, random, environ."""
    c = s.call
    c("test.ping")
    c("test.echo", "x")
    c("test.arg", 1, "b", c=2)
    c("test.arg_type", 1, "b", c=2.0)
    c("test.arg_repr", 1, "b", c=None)
    c("test.arg_clean", 1, __pub_jid=3, x=1)
    c("test.kwarg", a=1)
    c("test.outputter", {"a": 1})
    c("test.retcode", 3)
    c("test.exception")
    c("test.exception", "no")
    c("test.raise_exception", "TypeError", "x")
    c("test.raise_exception", "salt.exceptions.CommandExecutionError", "x")
    c("test.raise_exception", "NoSuch")
    c("test.raise_exception", "len")
    c("test.try", "test.exception")
    c("test.try", "test.echo", text="z")
    c("test.assertion", False)
    c("test.assertion", True)
    c("test.true")
    c("test.false")
    c("test.tty", "x")
    c("test.conf_test")
    c("test.cross_test", "test.echo", ["z"])
    c("test.provider", "cmd")
    c("test.provider", "zzz")
    c("test.sleep", "0")
    c("test.fib", "x")
    c("test.fib", -1)
    for function in [
        "base64_b64encode",
        "base64_encodestring",
        "md5_digest",
        "sha256_digest",
        "sha512_digest",
        "digest",
    ]:
        c(f"hashutil.{function}", "get salted")
        c(f"hashutil.{function}", "grün" * 40)
    c("hashutil.digest", "x", "sha1")
    c("hashutil.digest_file", s.path("a"))
    c("hashutil.digest_file", "/nosuch")
    c("hashutil.base64_b64decode", "Z2V0IHNhbHRlZA==")
    c("hashutil.base64_b64decode", "/wA=")
    c("hashutil.base64_decodestring", "Z2V0IHNhbHRlZA==\n")
    c("hashutil.base64_encodefile", s.path("bin"))
    c("hashutil.base64_decodefile", "Z2V0IHNhbHRlZA==", s.path("decoded"))
    s.read("decoded")
    signature = "eBWf9bstXg+NiP5AOwppB5HMvZiYMPzEM9W5YMm/AmQ="
    c("hashutil.hmac_signature", "get salted", "shared secret", signature)
    c("hashutil.hmac_signature", "get salted", "shared secret", "x")
    c("hashutil.hmac_compute", "get salted", "shared secret")
    c("hashutil.github_signature", "a", "b", "sha1=x")
    c("random.hash", "abc")
    c("random.hash", "abc", "md5")
    c("random.hash", "abc", "nosuch")
    c("random.str_encode", "abc")
    c("random.str_encode", 5)
    c("random.get_str", "x")
    c("random.get_str", 5, chars="a")
    c("random.shadow_hash", "My5alT", "MyP@asswd", "md5")
    c("random.shadow_hash", "My5alT", "MyP@asswd")
    c("random.shadow_hash", "My5alT", "MyP@asswd", "sha256")
    c("random.rand_int", 1, 10, seed="x")
    c("random.seed")
    c("random.seed", 100, "h")
    c("random.sample", [1, 2, 3, 4], 2, seed="s")
    c("random.shuffle", [1, 2, 3, 4], seed="s")
    c("random.sample", [1], 3)
    c("environ.setval", "MA_X", "a")
    c("environ.setval", "MA_X", False)
    c("environ.setval", "MA_X", False, false_unsets=True)
    c("environ.setval", "MA_X", 5)
    c("environ.get", "MA_X", "d")
    c("environ.get", 5)
    c("environ.setenv", {"MA_X": "1", "MA_Y": False})
    c("environ.setenv", {"MA_X": 1})
    c("environ.setenv", "x")
    c("environ.setenv", {"MA_Y": "2"}, update_minion=True)
    c("environ.has_value", "MA_X", "1")
    c("environ.has_value", "MA_X", "2")
    c("environ.has_value", "NOPE")
    c("environ.item", ["MA_X", "NO"], default=3)
    c("environ.setenv", {"MA_X": False, "MA_Y": False}, false_unsets=True)


def commands(s: Script) -> None:
    """C{cmd.*} without other users."""
    c = s.call
    c("cmd.run", "echo hi")
    c("cmd.run", "echo hi | cat")
    c("cmd.run", "echo hi | cat", python_shell=True)
    c("cmd.shell", "echo hi | cat; echo err >&2")
    c("cmd.run_all", 'sh -c "echo out; echo err >&2; exit 4"')
    here: dict[str, Any] = {"cwd": s.path("d"), "env": {"PATH": "/usr/bin:/bin"}}
    c("cmd.run_all", "nosuchprog x", **here)
    c("cmd.run_all", ["echo", "a b", 3])
    c("cmd.run", 'echo "unbalanced')
    c("cmd.run", "env", clean_env=True)
    c("cmd.run", "env", clean_env=True, env={"A": 1, "B": None, "C": "x y"})
    c("cmd.run", "env", clean_env=True, env=[{"A": 1}, {"B": "z"}])
    c("cmd.run", "env", clean_env=True, reset_system_locale=False)
    c("cmd.run", "cat", stdin="one\\ntwo\n")
    c("cmd.run", "pwd", cwd=s.path("d"))
    c("cmd.run", "pwd", cwd="/nonexist")
    c("cmd.run", "pwd", cwd="tmp")
    c("cmd.run", "id", runas="nosuch")
    for mask in ("077", "000", "9", 22):
        c("cmd.run", "sh -c umask", umask=mask)
    c("cmd.run_all", "sleep 3", timeout=0.2)
    c("cmd.run_all", "sleep 3", timeout="x")
    c("cmd.retcode", "false")
    for codes in (1, "1,2", "x", [3]):
        c("cmd.retcode", "false", success_retcodes=codes)
    c("cmd.run_all", 'sh -c "echo good; exit 3"', success_stdout="good")
    c("cmd.run_all", 'sh -c "echo bad >&2; exit 3"', success_stderr=["bad"])
    c("cmd.run_stdout", 'sh -c "echo out; echo err >&2"')
    c("cmd.run_stderr", 'sh -c "echo out; echo err >&2"')
    c("cmd.run", 'sh -c "echo out; echo err >&2"', redirect_stderr=False)
    c("cmd.run", "echo x", hide_output=True)
    c("cmd.run_all", "echo x", hide_output=True)
    c("cmd.run", 'sh -c "echo x; exit 2"', raise_err=True)
    c("cmd.run", 'printf "a\\n\\n"', rstrip=False)
    c("cmd.run_bg", "true")
    c("cmd.run_all", "true", bg=True)
    c("cmd.which", "nosuch")
    c("cmd.has_exec", "ls")
    c("cmd.has_exec", "nosuch")
    c("cmd.exec_code", "sh", 'echo "a $1"', args="q")
    c("cmd.exec_code_all", "sh", "exit 4")
    c("cmd.exec_code", "sh", 'echo "$@"', args=["1", "2 3"])
    c("cmd.exec_code", "nosuchlang", "x", **here)
    c("cmd.shell_info", "nosuch")
    c("cmd.tty", "foo", "x")
    c("cmd.run", "echo x", shell="/no/shell")
    c("cmd.run", 3, **here)
    c("cmd.run_all", "", **here)
    c("cmd.run_all", [], **here)
    c("cmd.run_all", 'printf "\\xff\\xfe"', python_shell=True, shell="/bin/bash")
    c("cmd.run", 'printf "\\xe4"', python_shell=True, shell="/bin/bash", output_encoding="latin-1")
    c("cmd.script", "salt://s.sh", 'a "b c"')
    c("cmd.script", "salt://nosuch.sh")
    c("cmd.script_retcode", "salt://s.sh")
    c("cmd.script", "salt://s.sh", args=["x", "y"], hide_output=True)
    c("cmd.script_retcode", "salt://nosuch.sh")
    c("cmd.run", "echo {{ grains.id }}", template="jinja")
    c("cmd.run", "echo {{ grains.id", template="jinja")
    c("cmd.run", "echo x", template="nosuch")
    c("cmd.run", "env", prepend_path="/foo", env={"PATH": "/bin"}, clean_env=True)


def fetching(s: Script) -> None:
    """C{cp.*}, C{saltutil.sync_*} and events, without a master."""
    c, w = s.call, s.path
    c("cp.get_file", "salt://f.txt", w("out/f"))
    c("cp.get_file", "salt://f.txt", w("out/"))
    c("cp.get_file", "salt://nosuch", w("out/n"))
    c("cp.get_file", "salt://f.txt", w("out/q/f"))
    c("cp.get_file", "salt://f.txt", w("out/q/f"), makedirs=True)
    c("cp.get_file", "salt://f.txt?saltenv=base", w("out/e"))
    c("cp.get_file", "salt://f.txt?saltenv=dev", w("out/ed"))
    c("cp.get_file", "salt://{{pillar.e}}f.txt", w("out/t"), template="jinja")
    c("cp.get_file", "salt://f.txt", w("out/t"), template="nosuch")
    c("cp.get_dir", "salt://d", w("out"))
    c("cp.get_dir", "salt://d/", w("out/dd"))
    c("cp.get_dir", "salt://nosuch", w("out"))
    c("cp.get_url", "salt://f.txt")
    c("cp.get_url", "salt://f.txt", w("out/u"))
    c("cp.get_url", "salt://f.txt", None)
    c("cp.get_url", w("a"))
    c("cp.get_url", "salt://nosuch")
    c("cp.get_file_str", "salt://f.txt")
    c("cp.get_file_str", "salt://nosuch")
    c("cp.cache_file", "salt://f.txt")
    c("cp.cache_file", "salt://nosuch")
    c("cp.cache_files", "salt://f.txt,salt://d/a")
    c("cp.cache_dir", "salt://d")
    c("cp.cache_dir", "salt://d", include_pat="b")
    c("cp.cache_dir", "salt://d", exclude_pat="E@^a")
    c("cp.cache_local_file", w("a"))
    c("cp.cache_local_file", "/nosuch")
    c("cp.list_states")
    c("cp.list_master", prefix="d")
    c("cp.list_master_symlinks")
    c("cp.is_cached", "salt://f.txt")
    c("cp.is_cached", "salt://nosuch")
    c("cp.hash_file", "salt://f.txt")
    c("cp.hash_file", "salt://nosuch")
    c("cp.hash_file", w("a"))
    c("cp.stat_file", "salt://f.txt")
    c("cp.stat_file", "salt://nosuch")
    c("cp.envs")
    c("cp.cache_dest", "https://a.b/c")
    c("cp.get_template", "salt://f.txt", w("out/tt"))
    s.read("out/tt")
    c("cp.get_template", "salt://no", w("out/tt"))
    c("cp.recv", {"/a/b": "x"}, w("out/"))
    c("cp.recv", {"/a/b": "x"}, "/nosuch/x/")
    c("cp.recv", {"/a/b": "x"}, w("out/new"))
    c("cp.recv_chunked", w("out/ch"), None)
    c("cp.recv_chunked", w("out/f"), None)
    c("cp.recv_chunked", w("out/ch2/f"), "aGk=", compressed=False, mode=0o600)
    c("cp.recv_chunked", w("out/ch2/f"), "aGk=", compressed=False, append=True)
    s.read("out/ch2/f")
    c("cp.push", "rel")
    c("cp.push", "/nosuch")
    c("cp.push_dir", "rel")
    for kind in ("modules", "grains", "states", "all", "tops", "pillar"):
        c(f"saltutil.sync_{kind}")
    c("mymod.hi")
    c("saltutil.mmodule", "base", "test.ping")
    c("saltutil.running")
    c("saltutil.find_job", "20200101000000000000")
    c("saltutil.find_cached_job", "20200101000000000000")
    c("saltutil.is_running", "*")
    c("saltutil.signal_job", "1", 9)
    c("saltutil.kill_all_jobs")
    c("saltutil.clear_job_cache")
    c("saltutil.refresh_pillar")
    c("saltutil.refresh_grains", foo=1)
    c("saltutil.refresh_modules")
    c("event.fire", {}, "x")
    c("event.send", "x/y", {"a": 1})
    c("event.fire_master", {}, "x")


def schedules(s: Script) -> None:
    """C{schedule.*} without a daemon, and its file."""
    c = s.call
    add = "schedule.add"
    ping = {"function": "test.ping"}
    c("schedule.list")
    c("schedule.list", return_yaml=False)
    c(add, "j1", **ping, seconds=60)
    c(add, "j1", **ping, seconds=60, when="1pm")
    c(add, "j1", **ping, when="1pm", cron="* * * * *")
    c(add, "j1", **ping, test=True)
    c(add, "j1", **ping, job_args="x")
    c(add, "j1", **ping, job_kwargs="x")
    c(add, "j1", **ping, when="garbage q")
    c(add, "", function="x")
    c(add, "j1", **ping, seconds=5, offline=True, splay={"start": 1, "end": 2}, job_args=["a"])
    c("schedule.list", offline=True)
    c(add, "j1", function="x", offline=True)
    c(add, "j2", **ping, when=["1pm", "Monday 3:00am"], offline=True, enabled=False)
    c("schedule.list", offline=True, return_yaml=False)
    c("schedule.list", offline=True, show_disabled=False)
    c("schedule.modify", "j1", seconds=9, offline=True)
    c("schedule.modify", "j1", seconds=9, offline=True, test=True)
    c("schedule.modify", "nope", seconds=1)
    c("schedule.modify", "j1", seconds=1, cron="x")
    c("schedule.delete", "j1", offline=True)
    c("schedule.delete", "j9")
    c("schedule.delete", "j9", test=True)
    c("schedule.purge", test=True, offline=True)
    c("schedule.purge", offline=True)
    c("schedule.purge")
    c("schedule.list", offline=True)
    item = "schedule.build_schedule_item"
    c(item, "x", function="f", hours=1, metadata={"a": 1}, returner="z")
    c(item, "", function="f")
    c("schedule.is_enabled")
    c("schedule.is_enabled", "x")
    c("schedule.run_job", "x")
    c("schedule.enable_job", "x")
    c("schedule.disable_job", "x")
    c("schedule.disable_job", "x", test=True)
    c("schedule.save")
    c("schedule.save", test=True)
    c("schedule.enable")
    c("schedule.enable", test=True)
    c("schedule.disable")
    c("schedule.move", "x", "y")
    c("schedule.copy", "x", "y")
    c("schedule.postpone_job", "x", "bad", "bad")
    c("schedule.postpone_job", "x", "2020-01-01T01:01:01", "")
    c("schedule.postpone_job", "x", "2020-01-01T01:01:01", "2020-01-01T01:01:02")
    c("schedule.skip_job", "x", "bad")
    c("schedule.skip_job", "x", "2020-01-01T01:01:01")
    c("key.finger")
    c("key.finger_master")
    c("minion.list")


def specs(s: Script) -> None:
    """The arguments of all functions."""
    for module in [
        "config",
        "cp",
        "data",
        "environ",
        "event",
        "file",
        "grains",
        "hashutil",
        "key",
        "match",
        "mine",
        "minion",
        "pillar",
        "publish",
        "random",
        "saltutil",
        "schedule",
        "test",
    ]:
        s.call("sys.argspec", module)
    for function in [
        "run",
        "shell",
        "run_stdout",
        "run_stderr",
        "run_all",
        "retcode",
        "run_bg",
        "script",
        "script_retcode",
        "exec_code",
        "exec_code_all",
        "run_chroot",
        "tty",
        "which",
        "which_bin",
        "has_exec",
        "shells",
        "shell_info",
    ]:
        s.call("sys.argspec", f"cmd.{function}")


def slsutil(s: Script) -> None:
    """Writing and reading formats, banners, merging, looking for files."""
    c = s.call
    sample: dict[str, Any] = {"b": [1, 2, {"x": "\u00fc"}], "a": {"n": None, "t": True}, "s": "yes"}
    for kind in ("yaml", "yamlex", "json", "configparser", "msgpack", "nosuch"):
        c("slsutil.serialize", kind, {"s": {"k": 1, "K2": "v"}})
        c("slsutil.serialize", kind, sample)
        c("slsutil.serialize", kind, "text")
        c("slsutil.serialize", kind, [1.5, True, None, "07", "no", b"\x00"])
        c("slsutil.deserialize", kind, "a: 1\n")
        c("slsutil.deserialize", kind, "")
        c("slsutil.deserialize", kind, "\t[")
        c("slsutil.deserialize", kind, '{"a": [1, 010]}')
        c("slsutil.deserialize", kind, b"[s]\nk = v\n")
        c("slsutil.deserialize", kind, "[s]\nk = %(z)s\n")
        c("slsutil.deserialize", kind, None)
        c("slsutil.serialize", kind, {"a": {1, 2}.__class__})
    ordered = OrderedDict([("z", 1), ("a", OrderedDict([("y", [1]), ("b", ())]))])
    for kind in ("yaml", "yamlex", "json"):
        c("slsutil.serialize", kind, ordered)
    c("slsutil.serialize", "yaml", sample, default_flow_style=False, allow_unicode=True)
    c("slsutil.serialize", "yaml", sample, default_flow_style=True, __pub_jid="1")
    c("slsutil.serialize", "yaml", sample, nosuch=1)
    c("slsutil.serialize", "json", sample, indent=2, sort_keys=True)
    c("slsutil.serialize", "json", sample, nosuch=1)
    c("slsutil.deserialize", "json", "[1.5]", parse_float=str)
    c("slsutil.deserialize", "yaml", "a: 1", nosuch=1)
    c("slsutil.deserialize", "yaml", "a: !encrypted x\nb: 2026-01-02\nc: !!python/name:os.system x")
    c("slsutil.deserialize", "yaml", "a: !encrypted x\nb: 2026-01-02\n")
    c("slsutil.deserialize", "yaml", "a: !other x")
    c("slsutil.deserialize", "yamlex", "a: [1]\na: !aggregate [2]\n")
    c("slsutil.deserialize", "msgpack", b"\x81\xa1a\x01")
    c("slsutil.deserialize", "msgpack", b"\x81\x01\xc4\x01\xff")
    c("slsutil.deserialize", "msgpack", b"\x81")
    c("slsutil.banner")
    c("slsutil.banner", newline=True)
    c("slsutil.banner", commentchar=" *", borderchar="*", blockstart="/**", blockend=" */")
    c("slsutil.banner", commentchar="//", borderchar="=-", width=40)
    c("slsutil.banner", title="T" * 30, text="one two\nthree " * 5, width=24)
    c("slsutil.banner", title="", text="")
    c("slsutil.banner", width=4)
    c("slsutil.banner", width=5, title="ab", text="c")
    for value in (True, 0, "", "x"):
        c("slsutil.boolstr", value)
        c("slsutil.boolstr", value, "yes", "no")
    c("slsutil.merge", {"a": {"b": 1}, "l": [1]}, {"a": {"c": 2}, "l": [2, 1]})
    for strategy in ("aggregate", "list", "overwrite", "recurse", "none", "nosuch"):
        c("slsutil.merge", {"a": {"b": 1}, "l": [1]}, {"a": {"c": 2}, "l": [2]}, strategy)
    c("slsutil.merge", {"l": [1]}, {"l": [2, 1]}, merge_lists=True)
    c("slsutil.merge", {"l": [1]}, "x")
    c("slsutil.merge_all", [{"foo": "Foo"}, {"foo": {"bar": [1]}}, {"foo": {"bar": [2]}}])
    c("slsutil.merge_all", [])
    c("slsutil.update", {"a": {"b": 1}}, {"a": {"c": 2}})
    c("slsutil.update", {"a": {"b": 1}}, {"a": {"c": 2}}, recursive_update=False)
    c("slsutil.update", {"a": [1]}, {"a": [2, 1]}, merge_lists=True)
    c("slsutil.update", [], {})
    s.write("roots/shop/defaults.yaml", "port: 80\nusers: {root: {uid: 0}}\nl: [a, b]\n")
    s.write("roots/shop/files/x.conf", "x")
    for path in ("shop", "shop/files", "shop/files/x.conf", "shop/nosuch", "", "/shop"):
        c("slsutil.file_exists", path)
        c("slsutil.dir_exists", path)
        c("slsutil.path_exists", path)
    c("slsutil.file_exists", "shop/defaults.yaml", saltenv="nosuch")
    c("slsutil.findup", "shop/files", "defaults.yaml")
    c("slsutil.findup", "shop/files/x.conf", ["nosuch", "f.txt"])
    c("slsutil.findup", "shop/./files/", "x.conf")
    c("slsutil.findup", "", "f.txt")
    c("slsutil.findup", "shop", "nosuch")
    c("slsutil.findup", "nosuch", "f.txt")
    c("slsutil.findup", "shop", {"f.txt": 1})
    c("sys.argspec", "slsutil")


def defaults(s: Script) -> None:
    """Defaults of formulas, and maps laid over one another."""
    c = s.call
    s.write(
        "roots/shop/defaults.yaml", "port: 80\nusers: {root: {uid: 0}}\nl: [a, b]\nmode: 0644\n"
    )
    s.write("roots/store/defaults.json", '{"port": 81, "80": "http"}')
    s.write("roots/both/defaults.json", '{"from": "json"}')
    s.write("roots/both/defaults.yaml", "from: yaml\n")
    s.write("roots/void/defaults.yaml", "")
    s.write("roots/list/defaults.yaml", "[{a: 1}, b]\n")
    s.write("roots/wrong/defaults.json", "{")
    s.write("roots/deep/formula/defaults.yaml", "a: 1\n")
    for key in (
        *(
            "shop",
            "shop:port",
            "shop:users:root:uid",
            "shop:mode",
            "shop:l:1",
            "shop:nosuch",
            "store:port",
        ),
        *("store:80", "both", "void", "void:x", "list:a", "list:1", "list:7", "nosuch"),
        *("nosuch:x", "wrong", "deep/formula:a", "", ":a", "shop:"),
    ):
        c("defaults.get", key)
        c("defaults.get", key, "D")
    c("defaults.merge", {"a": {"b": [1]}}, {"a": {"b": [2, 1], "c": None}})
    c("defaults.merge", {"a": {"b": [1]}}, {"a": {"b": [2, 1]}}, merge_lists=True)
    c("defaults.merge", {"a": 1}, None)
    c("defaults.merge", None, {"a": 1})
    c("defaults.merge", None, {"a": 1}, in_place=False)
    c("defaults.merge", None, {"a": 1}, in_place=False, convert_none=False)
    c("defaults.merge", {"a": 1}, None, convert_none=False)
    c("defaults.merge", {"a": 1}, "x")
    c("defaults.deepcopy", {"a": [1]})
    nodes = {"h1": {"i": 1, "x": {"l": ["b"]}}, "h2": None}
    c("defaults.update", nodes, {"on": True, "x": {"l": ["a"]}})
    c("defaults.update", nodes, {"on": True, "x": {"l": ["a"]}}, merge_lists=False, in_place=False)
    c("defaults.update", nodes, None)
    c("defaults.update", nodes, {"on": True}, convert_none=False)
    c("defaults.update", None, {"on": True})
    c("defaults.update", None, {"on": True}, in_place=False)
    c("defaults.update", None, {"on": True}, in_place=False, convert_none=False)
    c("sys.argspec", "defaults")


def syncs(s: Script) -> None:
    """A top file that cannot be rendered before the module that it calls is synced."""
    s.write("roots/top.sls", "base:\n  '*': [{{ salt['mymod.hi']() }}]\n")
    s.call("saltutil.sync_modules")
    s.call("mymod.hi")
    s.call("saltutil.sync_all")


ALIASES = """# mail
postmaster: root
root:\t\tkim@example.com  # the admin
list: "|/usr/bin/program -x", a@b.c
twice: one
twice: two
umlaut: gr\u00fcn
"""


def aliases(s: Script) -> None:
    """The aliases of mail, in a file of several kinds of lines and in one that is not there."""
    c = s.call
    place = s.path("aliases")
    c("aliases.list_aliases")
    c("aliases.set_target", "first", "somebody")
    s.read("aliases")
    c("file.get_mode", place)
    c("file.write", place, ALIASES.rstrip("\n"))
    c("aliases.list_aliases")
    for name in ("postmaster", "root", "list", "twice", "umlaut", "nosuch", ""):
        c("aliases.get_target", name)
        c("aliases.has_target", name, "root")
    c("aliases.has_target", "list", ['"|/usr/bin/program -x"', "a@b.c"])
    c("aliases.has_target", "root", "")
    c("aliases.set_target", "", "x")
    c("aliases.set_target", "x", "")
    c("aliases.set_target", "postmaster", "root")
    s.read("aliases")
    c("file.set_mode", place, "0600")
    c("aliases.set_target", "root", ["a", "b"])
    c("aliases.set_target", "root", ["a", "b"])
    c("aliases.set_target", "twice", "three")
    c("aliases.set_target", "new", "n")
    s.read("aliases")
    c("file.get_mode", place)
    c("aliases.rm_alias", "twice")
    c("aliases.rm_alias", "nosuch")
    c("aliases.rm_alias", "postmaster")
    s.read("aliases")
    c("sys.argspec", "aliases")


def utils(s: Script) -> None:
    """What custom modules call by C{__utils__}."""
    s.write(
        "roots/_modules/asked.py",
        "def ask(name, *args, **kwargs):\n"
        "    found = __utils__[name](*args, **kwargs)\n"
        "    return sorted(found) if name == 'files.list_files' else found\n"
        "def read(path, *args, **kwargs):\n"
        "    with __utils__['files.fopen'](path, *args, **kwargs) as stream:\n"
        "        return stream.read()\n"
        "def write(path, text):\n"
        "    with __utils__['files.fopen'](path, 'w') as stream:\n"
        "        return stream.write(text)\n"
        "def reading(path, ignore=None):\n"
        "    try:\n"
        "        open(path).close()\n"
        "    except OSError as error:\n"
        "        return __utils__['files.process_read_exception'](error, path, ignore)\n"
        "def owned(path, **kwargs):\n"
        "    with __utils__['files.fpopen'](path, 'w', **kwargs) as stream:\n"
        "        return stream.write('x')\n",
    )
    s.call("saltutil.sync_modules")

    def ask(name: str, *args: Any, **kwargs: Any) -> None:
        s.call("asked.ask", name, *args, **kwargs)

    _ask_dictupdate(ask)
    _ask_texts(ask)
    _ask_data(ask)
    _ask_args(ask)
    w = s.path
    ask("state.gen_tag", {"state": "a", "__id__": "{b}", "name": 7, "fun": "d", "x": 1})
    ask("state.gen_tag", {"state": "a"})
    part = {"name": "p", "result": True, "comment": "c", "changes": {"x": 1}}
    for whole in ({}, {"result": True, "comment": "was", "changes": {}}, {"comment": ["one"]}):
        ask("state.merge_subreturn", whole, part)
        ask("state.merge_subreturn", whole, {**part, "result": False, "changes": {}}, "key")
    ask("state.merge_subreturn", {"comment": ""}, {**part, "comment": ["a", "b"]})
    for name in ("a.tar", "A.TAR.GZ", "a.tbz", "a.tar.lzma", "a.zip", "a.RAR", "tar", "a.gz"):
        ask("files.guess_archive_type", name)
    s.call("asked.reading", w("nosuch"))
    s.call("asked.reading", w("nosuch"), ignore=2)
    s.call("asked.reading", w("d"))
    ask("files.recursive_copy", w("d"), w("out/copied"))
    ask("files.list_files", w("out/copied"))
    s.call("asked.owned", w("out/owned"), mode=0o640)
    s.call("file.get_mode", w("out/owned"))
    for name in ("a", "crlf", "uml", "latin", "bin", "emptyf", "nosuch", "d"):
        for function in ("is_text", "is_binary", "is_empty"):
            ask(f"files.{function}", w(name))
    for name in ("a", "crlf", "uml", "latin", "nosuch"):
        s.call("asked.read", w(name))
        s.call("asked.read", w(name), "rb")
        s.call("asked.read", w(name), binary=True)
        s.call("asked.read", w(name), mode="r", encoding="latin-1")
    s.call("asked.read", 1)
    s.call("asked.write", w("out/fopen"), "\u00fc\r\nb\n")
    s.read("out/fopen")
    ask("files.list_files", w("d"))
    for mode in (644, "0644", "0o755", None, "'07'", "keep"):
        ask("files.normalize_mode", mode)
    for size in ("10", "2K", "1T", "1.5G", "x", 7):
        ask("files.human_size_to_bytes", size)
    ask("files.safe_filename_leaf", 'a/b:c*"<\u00fc')
    ask("files.safe_filepath", "/a:b/c|d")
    ask("files.st_mode_to_octal", 33188)
    ask("files.st_mode_to_octal", "x")
    ask("files.remove", w("nosuch"))
    ask("files.remove", w("out/fopen"))
    ask("files.rm_rf", w("empty"))
    ask("files.rm_rf", w("lnk"))
    ask("files.rm_rf", w("nosuch"))
    ask("files.safe_rm", w("nosuch"))
    ask("files.rename", w("hard"), w("harder"))
    for name in ("lnk", "a", "broken", "empty", "hard", "harder"):
        ask("path.islink", w(name))
        s.call("file.file_exists", w(name))
    ask("path.readlink", w("broken"))
    ask("path.readlink", w("a"))
    for parts in (("/a", "/b", "c/"), ("a", "..", "b"), (), ("a",), ("/", "b"), (b"/a", "b")):
        ask("path.join", *parts)
    ask("path.join", "a", nosuch=1)
    for name in ("sh", "/bin/sh", "nosuch", "", None):
        ask("path.which", name)
        ask("path.check_or_die", name)
    ask("path.which_bin", ["nosuch", "sh"])
    ask("path.which_bin", "sh")
    ask("path.which_bin", 7)
    ask("path.sanitize_win_path", "C:\\a<b>|?*")
    ask("path.expand", "/tmp/../usr/./$nosuch")


Ask = Callable[..., None]


def _ask_dictupdate(ask: Ask) -> None:
    nested = {"a": {"b": [1], "c": {"d": 1}}, "l": [1, 2]}
    for words in ({}, {"merge_lists": True}, {"recursive_update": False}):
        ask("dictupdate.update", nested, {"a": {"b": [2, 1], "c": 7}, "n": None}, **words)
    ask("dictupdate.update", {"a": [1]}, {"a": {"b": 1}}, merge_lists=True)
    ask("dictupdate.update", [], {})
    for kind in ("list", "recurse", "aggregate", "overwrite"):
        ask(f"dictupdate.merge_{kind}", nested, {"a": {"b": [2]}, "x": 1})
        ask("dictupdate.merge", nested, {"a": {"b": [2]}, "x": 1}, kind)
    ask("dictupdate.merge", nested, {"l": [3]}, merge_lists=True)
    for keys in ("a:c:new", "l:x", "z", "a:c"):
        ask("dictupdate.ensure_dict_key", nested, keys)
        for verb, value in (("set", 5), ("update", {"k": 1}), ("append", 1), ("extend", [1, 2])):
            ask(f"dictupdate.{verb}_dict_key_value", nested, keys, value)
    ask("dictupdate.update_dict_key_value", nested, "a", None)
    ask("dictupdate.append_dict_key_value", nested, "a", 1)


def _ask_texts(ask: Ask) -> None:
    for value in ("gr\u00fcn", b"gr\xc3\xbcn", b"gr\xfcn", 7, None, ""):
        for function in ("to_bytes", "to_str", "to_unicode", "is_quoted", "dequote", "is_binary"):
            if (function != "is_quoted" and function != "dequote") or value != "":
                ask(f"stringutils.{function}", value)
        ask("stringutils.to_none", value)
    ask("stringutils.to_str", b"gr\xfcn", ["utf-8", "latin-1"])
    ask("stringutils.to_str", b"gr\xfcn", "utf-8", "replace")
    ask("stringutils.to_str", "a", [])
    for text in ("'a'", '"a"', "'a\"", "a"):
        ask("stringutils.is_quoted", text)
        ask("stringutils.dequote", text)
    for text in ("7", "7.5", "x", " ", "ff"):
        ask("stringutils.to_num", text)
        ask("stringutils.is_hex", text)
        ask("stringutils.contains_whitespace", text)
    ask("stringutils.human_to_bytes", "1.5 GB")
    ask("stringutils.expr_match", "web1", "web*")
    ask("stringutils.expr_match", "web1", "web[0-9]+")
    ask("stringutils.check_whitelist_blacklist", "a", ["a*"], ["ab"])
    for patterns in (
        *(("*.x", None), (None, "*.x"), ("E@a.*", "*.y"), (["*.z", "a*"], ["b*", "*.x"])),
        *((None, None), (["*.z"], None)),
    ):
        ask("stringutils.check_include_exclude", "a/b.x", *patterns)
    ask("stringutils.get_diff", ["a\n", "b\n"], ["a\n", b"gr\xfcn\n"], "old", "new")
    ask("stringutils.camel_to_snake_case", "camelCaseHTTP")
    for line, words in ((1, {}), (3, {"num_lines": 1}), (6, {"marker": " <--"}), (9, {})):
        ask("stringutils.get_context", "a\nb\nc\nd\ne\nf\ng\nh", line, **words)
    ask("stringutils.snake_to_camel_case", "snake_case_x", uppercamel=True)


def _ask_data(ask: Ask) -> None:
    data = {"a": {"b": [{"c": 1}, 2]}, "1": "x", 2: "y"}
    for key in ("a:b:c", "a:b:1", "a:b:9", "a", "2", "1", "x", "a:b"):
        for function in ("traverse_dict", "traverse_dict_and_list"):
            ask(f"data.{function}", data, key, "D")
        ask("data.subdict_match", data, f"{key}:1")
    for value in (0, 1, -1, "0", "2", "true", "True", "yes", "", None, [], [0], 0.5):
        ask("data.is_true", value)
    for value in ([{"a": 1}, {"b": 2}], [{"a": 1, "b": 2}], [], {}, ["a", {"b": 1}], "[{a: 1}]"):
        ask("data.is_dictlist", value)
        ask("data.repack_dictlist", value)
        ask("data.is_list", value)
        ask("data.is_iter", value)
    ask("data.compare_dicts", {"a": 1, "b": 2}, {"b": 3, "c": 4})
    ask("data.compare_lists", [1, 2], [2, 3])
    ask("data.exactly_one", [0, 1, ""])
    ask("data.exactly_n", [0, 1, 2], 2)
    ask("data.sorted_ignorecase", ["b", "A", "c"])
    ask("data.substr_in_list", "b", ["abc"])
    ask("data.flatten", [1, [2, [3, [None]]]])
    ask("data.flatten", [1, [2, [3]]], levels=1)
    ask("data.to_entries", {"a": 1})
    ask("data.from_entries", [{"key": "a", "value": 1}])
    ask("data.stringify", ["a", b"b", 1, None])
    ask("data.simple_types_filter", {"a": (1, {2: b"x"}), None: [b"y", None], b"k": {1.5: True}})
    ask("data.json_query", data, "a.b[0].c")
    ask("data.mysql_to_dict", ["+--+", "| Id | x |", "| 7 | y |"], "Id")
    ask("data.filter_by", {"x*": {"a": 1}, "default": 2}, "1", data)
    for mixed in ([b"gr\xc3\xbcn", ("t", [b"x"])], {b"k": b"v", "l": [(b"x", 1)]}, 5):
        for function in ("decode_dict", "decode_list", "decode_tuple", "encode_tuple"):
            ask(f"data.{function}", mixed)
    empty = {"a": None, "b": {"c": "", "d": [0, 1, {}]}, "e": False, "f": 0}
    for words in ({}, {"recurse_depth": 1}, {"recurse_depth": 5}, {"ignore_types": [int]}):
        ask("data.filter_falsey", empty, **words)
        ask("data.filter_falsey", [None, [None], "x", 0], **words)
    ask("data.filter_falsey", "")
    ask("data.hash", "text", "md5")
    ask("data.hash", "text", "nosuch")
    ask("data.sample", [1, 2, 3, 4], 2, seed="s")
    ask("data.shuffle", [1, 2, 3, 4], seed="s")


def _ask_args(ask: Ask) -> None:
    ask("args.clean_kwargs", a=1, __b=2, __pub_fun="x")
    ask("args.invalid_kwargs", {"a": 1})
    ask("args.invalid_kwargs", ["a"])
    ask("args.invalid_kwargs", {"a": 1}, raise_exc=False)
    ask("args.shlex_split", "a 'b c'")
    ask("args.shlex_split", ["a"])
    ask("args.shlex_split", "a 'b")
    for value in ("a, b,c", ["a", 1], 7, ""):
        ask("args.split_input", value)
        ask("args.split_input", value, str)
    ask("args.test_mode", test=True)
    ask("args.test_mode", TEST="true", x=1)
    ask("args.test_mode", test="no")


def logs(s: Script) -> None:
    """Lines for the log."""
    c = s.call
    for level in ("debug", "info", "warning", "error", "critical", "exception", "trace"):
        c(f"log.{level}", "100 % {done} %s")
    c("log.info", {"a": 1})
    c("sys.argspec", "log")


SCRIPTS: dict[str, Callable[[Script], None]] = {
    function.__name__: function
    for function in (
        file_look,
        file_replace,
        file_line,
        file_change,
        file_owner,
        file_managed,
        facts,
        targets,
        words,
        commands,
        fetching,
        schedules,
        specs,
        syncs,
        aliases,
        utils,
        helpers,
        site,
        parts,
        logs,
        slsutil,
        defaults,
        certificates,
        keychains,
        signatures,
    )
}
NEED_ROOT = frozenset(("file_owner", "aliases"))
