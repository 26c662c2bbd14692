"""
C{salt.utils.configparser}, C{vt} and small parts: all values are what stock 3008.2 has given.
"""

from __future__ import annotations

from tests.worker.test_saltname import SiteCase

GIT = r'''
import io
import salt.utils.configparser as ours

TEXT = """[user]
\tname = me ; comment
\temail = a;b
        eight = x y
# c
[core]
\tbare
\tempty = ""
[remote "o"]
\tfetch = first
\tfetch = second
\turl: http://x/y=z
"""


def parsed(text):
    made = ours.GitConfigParser()
    try:
        made.read_file(io.StringIO(text))
    except Exception as error:
        return made, type(error).__name__
    return made, {name: dict(made._sections[name]) for name in made.sections()}


def read():
    return [parsed(text)[1] for text in (TEXT, "x = 1\n", "[user]\n\t= bad\n")]


def changed():
    made = parsed(TEXT)[0]
    found = []
    for call in (
        lambda: made.get("user", "name", as_list=True),
        lambda: made.get('remote "o"', "fetch"),
        lambda: made.set("user", "name", ["x"]),
        lambda: made.set("user", "name", 5),
        lambda: made.set_multivar("user", "name", "two"),
        lambda: made.set_multivar("user", "other", ["a", "b"]),
        lambda: made.set_multivar("nosuch", "x", "y"),
        lambda: made.remove_option_regexp('remote "o"', "fetch", "rst"),
        lambda: made.remove_option_regexp("user", "name", "zzz"),
        lambda: made.remove_option_regexp("user", "nokey", "."),
        lambda: made.remove_section("core"),
    ):
        try:
            found.append(call())
        except Exception as error:
            found.append([type(error).__name__, str(error)])
    written = io.StringIO()
    written.mode = "w"
    made.write(written)
    return [*found, written.getvalue()]
'''
PROGRAMS = r"""
import io, os, time
import salt.utils.vt as vt

QUIET = {"stream_stdout": False, "stream_stderr": False}


def ran(*args, typed=(), **kwargs):
    terminal = vt.Terminal(*args, **{**QUIET, **kwargs})
    out = err = ""
    for line in typed:
        terminal.sendline(line)
    while terminal.has_unread_data:
        some, more = terminal.recv()
        out, err = out + (some or ""), err + (more or "")
        time.sleep(0.005)
    alive = terminal.isalive()
    terminal.close(terminate=True, kill=True)
    return [out, err, terminal.exitstatus, terminal.signalstatus, alive]


def several():
    env = {"V": "\u00e9", "PATH": os.environ["PATH"]}
    tests = "test -t 0 && test -t 1 && echo tty; test -t 2 || echo pipe >&2; exit 3"
    return [
        ran(tests, shell=True),
        ran(["printf", "a\\nb\\n"]),
        ran("read x; echo got $x", shell=True, typed=["word"]),
        ran("kill -9 $$", shell=True),
        ran("stty size", shell=True, rows=33, cols=77),
        ran("echo $V; pwd", shell=True, env=env, cwd="/tmp"),
    ]


def refused():
    found = []
    for call in (
        lambda: vt.Terminal(**QUIET),
        lambda: vt.Terminal("true", shell=True),
        lambda: vt.Terminal(["/nosuch"], **QUIET),
    ):
        try:
            found.append(call())
        except vt.TerminalException as error:
            found.append(str(error))
    return found


def stubborn():
    script = "trap '' HUP INT TERM; echo up; sleep 100"
    terminal = vt.Terminal(script, shell=True, **QUIET)
    while "up" not in (terminal.recv()[0] or ""):
        time.sleep(0.005)
    return [terminal.isalive(), terminal.terminate(), terminal.terminate(force=True)]


def shown():
    place = io.StringIO()
    with vt.Terminal("echo shown", shell=True, **{**QUIET, "stream_stdout": place}) as terminal:
        while terminal.has_unread_data:
            terminal.recv()
    return place.getvalue()
"""


SMALL = r"""
import json
import salt.loader, salt.syspaths
import salt.utils.yamlloader as yamlloader
from salt.modules.cmdmod import _run_quiet
from salt.utils.args import parse_function


def calls():
    texts = ("f()", "m.f(a, [1, 2], k=v, d={a: (1, 2)})", "m.f('a b', \"c\\\"d\")", "f(", "(a)",
             "f(a]", "f([a)", "f(a)(b)", "f(a=b=c)", "f(,)", "f(a b)", "", "f", "f(k=)")
    return [parse_function(text) for text in texts]


def quiet():
    return [_run_quiet("echo hi; echo x"), _run_quiet("echo e >&2; echo o", python_shell=True),
            _run_quiet("pwd", "/tmp")]


def others():
    found = salt.loader.raw_mod({"id": "x"}, "hashutil", {})
    return [sorted(found)[:1], found["hashutil.md5_digest"]("x"),
            salt.loader.raw_mod({"id": "x"}, "nosuch", {}),
            salt.syspaths.BOOTSTRAP.endswith("/cloud/deploy/bootstrap-salt.sh"),
            yamlloader.load("a: [1]", Loader=yamlloader.SaltYamlSafeLoader)]
"""


class FileTests(SiteCase):
    """Each in a Python of its own."""

    def test_git_config(self) -> None:
        """Files of C{git config} are read, changed and written, also with multivars."""
        found = self.run_site(GIT, "site.read", "site.changed")

        sections = {
            "user": {"name": "me", "email": "a;b", "eight": "x y"},
            "core": {"bare": "", "empty": ""},
            'remote "o"': {"fetch": ["first", "second"], "url": "http://x/y=z"},
        }
        others = ["MissingSectionHeaderError", {"user": {"": "bad"}}]
        self.assertEqual(found["site.read"], [sections, *others])
        self.assertEqual(
            found["site.changed"],
            [
                *(["me"], ["first", "second"]),
                ["TypeError", "option value cannot be a list unless allow_list is True"],
                ["TypeError", "option values must be strings"],
                *(None, None, ["NoSectionError", "No section: 'nosuch'"]),
                *(True, False, False, ["KeyError", "'core'"]),
                "[user]\n\tname = me\n\tname = two\n\temail = a;b\n\teight = x y\n\tother = a\n"
                '\tother = b\n[remote "o"]\n\turl = http://x/y=z\n\tfetch = second\n',
            ],
        )

    def test_programs(self) -> None:
        """A program has a terminal; what it says, how it ends, and what ends it can be told."""
        found = self.run_site(
            PROGRAMS, "site.several", "site.refused", "site.stubborn", "site.shown"
        )

        self.assertEqual(
            found["site.several"],
            [
                ["tty\n", "pipe\n", 3, None, False],
                ["a\nb\n", "", 0, None, False],
                ["word\ngot word\n", "", 0, None, False],
                ["", "", None, 9, False],
                ["33 77\n", "", 0, None, False],
                ["\u00e9\n/tmp\n", "", 0, None, False],
            ],
        )
        self.assertEqual(
            found["site.refused"],
            [
                'You need to pass at least one of "args", "executable" ',
                "Don't know how to handle 'None' as the VT's 'stream_stdout' parameter.",
                "Failed to spawn the VT. Error: [Errno 2] No such file or directory: '/nosuch'",
            ],
        )
        self.assertEqual(found["site.stubborn"], [True, False, True])
        self.assertEqual(found["site.shown"], "shown\n")


class SmallTests(SiteCase):
    """What a few modules of public trees import."""

    def test_small(self) -> None:
        """Calls in text, commands for grains, functions of one file, places, YAML."""
        found = self.run_site(SMALL, "site.calls", "site.quiet", "site.others")

        self.assertEqual(
            found["site.calls"],
            [
                ["f", [], {}],
                ["m.f", ["a", "[1,2]"], {"k": "v", "d": "{a:(1,2)}"}],
                ["m.f", ["a b", 'c"d'], {}],
                *([None, None, None],) * 4,
                ["f", ["a"], {}],
                ["f", [], {"b": "c"}],
                ["f", [], {}],
                ["f", ["ab"], {}],
                *([None, None, None],) * 2,
                ["f", [], {"k": ""}],
            ],
        )
        self.assertEqual(found["site.quiet"], ["hi; echo x", "e\no", "/tmp"])
        digest = "9dd4e461268c8034f5c8564e155c67a6"
        self.assertEqual(
            found["site.others"],
            [["hashutil.base64_b64decode"], digest, {}, True, {"a": [1]}],
        )
