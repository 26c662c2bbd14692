"""
The rest of what site modules call by C{__utils__}, to be recorded with stock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

MODULE = """
import asyncio
import contextlib
import io
import os
from collections import OrderedDict
from unittest import mock

import salt.utils.args
import salt.utils.data
import salt.utils.files
import salt.utils.stringutils


def ask(name, *args, **kwargs):
    return repr(__utils__[name](*args, **kwargs))


def diff(old, new, **kwargs):
    found = __utils__["data.recursive_diff"](old, new, **kwargs)
    return {side: repr(rest) for side, rest in found.items()}


def given(first, second, third=3, *, fourth=4):
    pass


def anything(first, second=2, **rest):
    pass


given.__module__ = "helped"


def format_call(name, *args, **kwargs):
    found = __utils__["args.format_call"](globals()[name], *args, **kwargs)
    return [found["args"], found["kwargs"], found is args[1] if len(args) > 1 else None]


def spec(name):
    return [
        list(salt.utils.args.get_function_argspec(globals()[name], is_class_method=each))
        for each in (None, True)
    ]


def report(module):
    functions = {"a.given": given, "a.x": anything, "ab.given": given, "a.none": None}
    return __utils__["args.argspec_report"](functions, module)


def mapped():
    found = salt.utils.data.CaseInsensitiveDict({"Ab": 1, "c": 2, 3: "x", ("T", 1): 5}, aB=7)
    seen = [repr(found), len(found), found["AB"], found[("t", 1)], 3 in found, "C" in found]
    del found["C"]
    found["ab"] = 8
    other = {"AB": 8, 3: "x", ("t", 1): 5}
    seen += [found.get("none"), list(found), sorted(map(repr, found.items_lower())), found == other]
    return seen + [found == 5, found != {"AB": 9}, type(found.copy()).__name__]


def cases(value, **kwargs):
    data = salt.utils.data
    return [repr(each(value, **kwargs)) for each in (data.to_lowercase, data.to_uppercase)]


def ordered(value):
    return cases(OrderedDict([("Key", [value, ("Tt", 1)])]), preserve_dict_class=True)


def walked(top, **kwargs):
    errors = []
    found = [
        [folder, sorted(folders), sorted(files)]
        for folder, folders, files in salt.utils.files.safe_walk(
            top, onerror=lambda error: errors.append(error.errno), **kwargs
        )
    ]
    return [sorted(found), found and found[0][0], errors]


def locked(path, **kwargs):
    async def work(fails=False):
        async with salt.utils.files.await_lock(path, **kwargs):
            seen.append(os.path.isfile(kwargs.get("lock_fn") or path + ".w"))
            if fails:
                raise ValueError("in it")

    seen = []
    for fails in (False, True):
        try:
            asyncio.run(work(fails))
        except Exception as error:
            seen += [type(error).__name__, str(error)]
    return [*seen, os.path.exists(kwargs.get("lock_fn") or path + ".w")]


class Stream(io.StringIO):
    def __init__(self, *numbers):
        super().__init__()
        self.numbers = list(numbers)

    def write(self, text):
        if self.numbers:
            number = self.numbers.pop(0)
            raise OSError(number, os.strerror(number))
        return super().write(text)


def printed(message, *numbers, **kwargs):
    stream = Stream(*numbers)
    with contextlib.redirect_stdout(stream):
        try:
            salt.utils.stringutils.print_cli(message, step=0, **kwargs)
        except OSError as error:
            return [stream.getvalue(), error.errno]
    return stream.getvalue()


def diffed(old, new, **kwargs):
    return [
        list(salt.utils.stringutils.get_diff_list(old, new, "o", n=1)),
        list(salt.utils.stringutils.get_conditional_diff(old, new, "o", "n", **kwargs)),
    ]


def handlers(*args):
    return __utils__["state.search_onfail_requisites"](*args)


def options(given, **kwargs):
    found = __utils__["state.get_sls_opts"](given, **kwargs)
    names = ("saltenv", "pillarenv", "deep")
    return [{name: found[name] for name in names}, found is given]


def windows(path, *args):
    with mock.patch.dict(os.environ, SystemRoot="C:\\\\Windows"):
        return __utils__["path.safe_path"](path, *args)


def named():
    files = salt.utils.files
    return [files.VALID_PROTOS, files.LOCAL_PROTOS, files.HASHES, files.HASHES_REVMAP[64],
            salt.utils.args.KWARG_REGEX.match("a=b").groups(), salt.utils.data.ALGORITHMS_ATTR_NAME]
"""

Ask = Callable[..., None]

WORDS = (
    *("a", "b=1", "x=[1, 2]", "y={a: b}", "a==b", "z=None", "9a=1", "None", "true", "1_000"),
    *("1.5e3", "#x", "a # b", "n=1 # b", "[1, #", "{a: 1}", "{a: 1, a: 2}", "a: 1", "- a", "|"),
    *(
        "!",
        "!x",
        "'q'",
        "",
        "  ",
        "---",
        "...",
        "\t1",
        "a=\n",
        "k-l= x",
        "2024-01-01",
        "0000-00-00",
    ),
    *(
        "1:30",
        "0x1F",
        "010",
        "m=0644",
        "0o17",
        "~",
        "*a",
        "&a b",
        "@",
        "%",
        "!!timestamp z",
        "0b11",
    ),
    *("!!python/object:x y", "!!binary aGk=", "k==", ".inf", "+1", "[]", "a,b", "\u00fc=\u00df"),
    *(1, None, True, [1], {"a": 1}, 20240101000000000000, "20240101000000000000", 1.5, b"b=1"),
)
"""Arguments as they come from a command line or an interface."""


def helpers(s: Any) -> None:
    """What custom modules call by C{__utils__}, and seldom."""
    s.write("roots/_modules/helped.py", MODULE)
    s.call("saltutil.sync_modules")

    def ask(name: str, *args: Any, **kwargs: Any) -> None:
        s.call("helped.ask", name, *args, **kwargs)

    _ask_arguments(s.call, ask)
    _ask_data(s.call, ask)
    _ask_states(s.call, ask)
    _ask_texts(s.call, ask)
    _ask_files(s, ask)
    s.call("helped.named")


def _ask_arguments(call: Ask, ask: Ask) -> None:
    for word in WORDS:
        ask("args.yamlify_arg", word)
        ask("args.parse_input", [word])
        ask("args.parse_kwarg", word)
    for extra in ({"__kwarg__": True, "z": 1}, {"__kwarg__": False, "z": 1}):
        for words in ({}, {"condition": False}, {"no_parse": ["b", "n"]}):
            ask("args.parse_input", ["b=1", "q", "n=[x]", extra, "b=2"], **words)
    for kwargs in (None, {}, {"a": 1}):
        ask("args.condition_input", [20240101000000000000, "x", True, 2024], kwargs)
    for text in (
        *("a.b()", "a.b(c)", "a.b(c, d=e)", "a.b(c d, 'e, f')", "a.b([1, (2)], x={a=b})", "a.b"),
        *("a.b(", "a.b([)", "a.b(c)d", "()", "", "a.b(c=)", "a.b(,)", "a.b(x=1=2)", 'a.b("\'")'),
    ):
        ask("args.parse_function", text)
    ask("args.prepare_kwargs", {"a": 1, "b": None, "c": 3, "d": None}, ["a", "b"])
    for name in ("given", "anything"):
        call("helped.spec", name)
        for data in (
            *({}, {"first": 1}, {"first": 1, "second": 2}, {"first": 1, "second": 2, "more": [3]}),
            {"first": 1, "second": 2, "third": 0, "fourth": 0, "more": 1, "yet": 2, "and": 3},
        ):
            call("helped.format_call", name, data)
            call("helped.format_call", name, data, {"full": "state.fun"}, ["more"])
            call("helped.format_call", name, data, {}, ("more", "yet", "and"))
    call("helped.format_call", "given", {"second": 2}, None, (), True)
    for module in ("a", "a.given", "*.given", "", "none"):
        call("helped.report", module)


def _ask_data(call: Ask, ask: Ask) -> None:
    values = (
        *(1, True, None, "a", {}, [], {"a": 1}, {"a": 1, "b": {"c": [1, 2], "d": 3}}),
        *({"a": 2, "b": {"c": [2, 1], "e": 3}}, {"b": {"c": (1, 2, 3), "d": 3}}, [1, 2, 3]),
        *([3, 2, 1, 0], [{"a": 1, "b": 2}, {"a": 2}], [{"a": 2, "b": 1}, {"a": 1}], (1, 2), {1, 2}),
        *({2, 3}, OrderedDict([("a", 1), ("b", 2)]), OrderedDict([("b", 2), ("a", 1)])),
        *(OrderedDict([("a", 3), ("c", {"b": 1}), ("b", 2)]), [[1, [2]], "x"], [[1, [3]], "x"]),
    )
    for old in values:
        for new in values:
            for words in (
                *({}, {"ignore_keys": ["a"]}, {"ignore_order": True}),
                {"ignore_missing_keys": True},
            ):
                call("helped.diff", old, new, **words)
    tree = {"a": {"b": [{"c": 1}, {"c": 2, "d": None}], "e": None}, "1": {"c": {"c": 0}}}
    for path in (
        *("", "a", "a:b", "a:b:{n}:c", "a:b:{n}:d", "a:{k}", "{x}:{y}", "{x}:{x}", "a:e", "a:e:f"),
        *("a:e:{x}", "no", "a:b:c", "1:c:c", "a::b", "{value}", "a:{", "{}:c"),
    ):
        ask("data.get_value", tree, path)
        ask("data.get_value", tree, path, "D")
    for value in ("aB\u00df", b"aB", 5, None, ["aB", ("Cd", {"Ef": "gH"})], {"Ab": {1: "cD"}}, {1}):
        call("helped.cases", value)
        call("helped.ordered", value)
    call("helped.mapped")
    for text in ("[{a: 0644}, b]", "- a: 1\n  b: 2", "[", "[{a: 1, a: 2}]"):
        ask("data.repack_dictlist", text)


def _ask_states(call: Ask, ask: Ask) -> None:
    good, bad = {"result": True}, {"result": False}
    high: dict[str, Any] = {
        "handler": {"file": ["run", {"onfail": [{"cmd": "broken"}]}, {"onfail_stop": False}]},
        "other": {"cmd": ["run", {"onfail": [{"cmd": "broken"}]}], "__sls__": "x"},
    }
    failed, handled = "cmd_|-broken_|-n_|-run", "file_|-handler_|-n_|-run"
    runs: tuple[Any, ...] = (
        *(None, {}, [], {failed: good}, {failed: bad}, {failed: bad, handled: good}),
        *(
            {failed: bad, handled: bad},
            {"broken": bad, "handler": good},
            {failed: {"result": None}},
        ),
        *({"x": {"y": good}}, {"x": {"y": bad}}, {"x": {}}, {"x": "text"}, {"__extend__": []}),
        *({"__extend__": {}}, {"m": {failed: bad, handled: good}}, {"a": good, "b": []}),
    )
    for running in runs:
        for words in ({}, {"highstate": high}, {"recurse": True}):
            ask("state.check_result", running, **words)
    for tag in (failed, handled, "broken", "other", "file_|-broken_|-n_|-run"):
        call("helped.handlers", tag, high)
        for running in ({tag: bad}, {tag: bad, handled: good}, {tag: bad, handled: bad}):
            ask("state.check_onfail_requisites", tag, bad, running, high)
    jobs = [{"jid": jid, "fun": "state.apply"} for jid in ("1", "2", 3, None)]
    for jid in (None, "2", 3, "0"):
        ask("state.check_prior_running_states", {"cachedir": "/nosuch"}, jid, jobs)
    ask("state.get_active_states", {"cachedir": "/nosuch"})
    for lock in (False, True):
        for follow in (False, True):
            given = {"saltenv": "base", "pillarenv": None, "deep": [1], "lock_saltenv": lock}
            given["pillarenv_from_saltenv"] = follow
            for kwargs in (
                *({}, {"saltenv": "dev"}, {"saltenv": None}, {"saltenv": "base"}, {"saltenv": 7}),
                *({"pillarenv": 8}, {"pillarenv": None, "saltenv": "dev"}),
            ):
                call("helped.options", given, **kwargs)


def _ask_texts(call: Ask, ask: Ask) -> None:
    for text in (
        'if [ -z "$debian_chroot" ] && [ -r /etc/x ]; then',
        *("a 'b c' d", "it's", "a  b\n  c\t", "", "'\\\"", "# no comment", "\u00fc.*"),
    ):
        ask("stringutils.build_whitespace_split_regex", text)
    old = ["a\n", "b  # why\n", "; c\n", "d\n"]
    for new in (
        *(old, ["d\n", "a\n", "b  # why\n", "; c\n"], [" a\n", "b # how\n", "; c\n", "d\n"]),
        *(["a\n", b"gr\xfcn\n"], [], ["a\n", "b  # why\n", "; x\n", "d\n", "# new\n"]),
    ):
        for words in (
            *({}, {"ignore_ordering": False, "ignore_whitespace": False}),
            {"ignore_ordering": False, "ignore_whitespace": False, "ignore_comment_characters": []},
            *({"ignore_comment_characters": each} for each in (None, ";", ["#", ";"], 7)),
        ):
            call("helped.diffed", old, new, **words)
    for numbers in ((), (11,), (32,), (5,), (11, 11, 11)):
        call("helped.printed", "gr\u00fcn", *numbers, retries=2)


def _ask_files(s: Any, ask: Ask) -> None:
    w = s.path
    s.call("file.symlink", w("d"), w("d/e/round"))
    for words in ({}, {"topdown": False}, {"followlinks": False}):
        for name in ("d", "nosuch", "a", "empty"):
            s.call("helped.walked", w(name), **words)
    for number, content in enumerate(
        (
            *(b"\xff\xfea\0", b"\xfe\xff\0a", b"\xff\xfe\0\0a", b"\0\0\xfe\xffa", b"\xef\xbb\xbfa"),
            *(b"+/v8-", b"+/v9", b"+/vx", b"", b"plain", b"gr\xc3\xbcn", b"gr\xfcn", b"\0\1"),
            b"a" + b"\xc3\xbc" * 1024,
        )
    ):
        s.write(f"encoded{number}", content)
        ask("files.get_encoding", w(f"encoded{number}"))
    for name in ("nosuch", "d"):
        ask("files.get_encoding", w(name))
    ask("files.case_insensitive_filesystem")
    ask("files.case_insensitive_filesystem", w("d"))
    s.call("helped.locked", w("out/lock"))
    s.call("helped.locked", w("out/lock"), lock_fn=w("out/other"))
    s.call("helped.locked", w("lock"), lock_fn=w("a"), timeout=0.05, sleep=0.01)
    s.call("helped.locked", w("lock"), lock_fn=w("d"))
    s.call("helped.locked", w("lock"), lock_fn=w("nosuch/x"))
    s.call("helped.locked", 7)
    for path in (
        *("C:\\", "c:\\windows\\x", "D:\\x", "\\", "\\\\srv", "/etc", "C:\\Windows\\TEMP\\a", "C:"),
        *("c:\\winDOWS", ""),
    ):
        for allow in ((), ("C:\\Windows\\TEMP",), (["C:\\Windows\\temp", "\\"],)):
            s.call("helped.windows", path, *allow)
