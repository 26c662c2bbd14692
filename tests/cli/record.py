"""
Records what stock Salt makes of our cases: C{outputs.json} and C{args.json} in C{data}.

Run it with the Python of a Salt 3008.2: C{PEERS/3008/bin/python tests/cli/record.py}. The
tests never run it; it is kept so that anybody can see, and repeat, where the expected
texts come from. The cases themselves are in this file; nothing of saltwisted is imported.
"""

from __future__ import annotations

import copy
import json
import os
import random
import sys
from typing import Any

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def state(
    name: str,
    number: int,
    result: bool | None = True,
    changes: Any = None,
    comment: Any = "fine",
    kind: str = "file",
    fun: str = "managed",
    id_: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One state's return under its tag."""
    body = {
        "name": name,
        "changes": {} if changes is None else changes,
        "result": result,
        "comment": comment,
        "__sls__": "web.server",
        "__run_num__": number,
        "__id__": id_ or name,
        "start_time": f"10:00:0{number % 10}.123456",
        "duration": 1.5 + number,
        **more,
    }
    for gone in [key for key, value in body.items() if value == "-"]:
        del body[gone]
    return {f"{kind}_|-{id_ or name}_|-{name}_|-{fun}": body}


DIFF = "--- \n+++ \n@@ -1 +1 @@\n-a\n+b\n"
MIXED = {
    **state("/etc/motd", 0, changes={"diff": DIFF, "mode": "0644"}, comment="File updated\nreally"),
    **state("nginx", 1, kind="pkg", fun="installed", comment="All good"),
    **state("run it", 2, False, comment="Command failed", kind="cmd", fun="run", id_="runner"),
    **state("later", 3, None, changes={"new": "x"}, comment="would", kind="test", fun="nop"),
    **state("plain", 4, comment="x", warnings=["You should not do this " * 6, "nor that"]),
}
SEVERAL = {
    **state("a", 0, id_="many", changes={"ret": 1}),
    **state("b", 1, id_="many", changes={"ret": 2}),
    **state("c", 2, id_="many"),
    **state("d", 3, False, id_="many"),
    **state("e", 4, id_="other"),
}
LONG = {
    **state("slow", 0, duration=900.25),
    **state("slower", 1, duration="650.5 ms"),
    **state("beside", 2, duration=200, __parallel__=True),
    **state("beside too", 3, duration=300, __parallel__=True),
}
ODD = {
    **state("no times", 0, start_time="-", duration="-"),
    **state("with data", 1, data={"a": 1, "b": [2]}),
    **state("with list", 2, data=["x", 3]),
    **state("with text", 3, data="tail"),
    **state("list comment", 4, comment=["a", "b"]),
    **state("none comment", 5, comment=None),
    **state("bad changes", 6, changes="what"),
    **state("esc", 7, comment="\033[31mred", changes={"k": "\033[31mred"}),
    **state("ünï", 8, comment="żółć"),
    **state("broken duration", 9, duration="soon"),
}
ORCHESTRATION = {
    "master_master": {
        **state(
            "ping them",
            0,
            changes={"out": "highstate", "ret": {"m1": True, "m2": "text\nlines", "m3": 7}},
            kind="salt",
            fun="function",
        ),
        **state(
            "apply",
            1,
            changes={"out": "highstate", "ret": {"m1": copy.deepcopy(MIXED), "m2": ["broken"]}},
            kind="salt",
            fun="state",
        ),
        **state(
            "state.orchestrate",
            2,
            changes={"data": {"inner_master": copy.deepcopy(LONG)}, "retcode": 0},
            kind="salt",
            fun="runner",
        ),
    },
    "retcode": 0,
}
HIGHSTATES: dict[str, Any] = {
    "mixed": {"m1": MIXED},
    "several": {"m1": SEVERAL},
    "long": {"m1": LONG},
    "odd": {"m1": ODD},
    "failed to compile": {"m1": ["Rendering SLS failed", "line\033[1m two"]},
    "text": {"m1": "not available\nat all"},
    "number": {"m1": 7},
    "nothing": {"m1": {}},
    "no order": {"m1": {"x_|-y_|-z_|-w": {"comment": "no number"}}},
    "none": {"m1": None},
    "two": {"m2": state("a", 0), "m1": state("b", 0, False)},
    "orchestration": {"outputter": "highstate", "data": ORCHESTRATION},
    "lookup": {"m1": {"jid": "1", "fun": "state.apply", "return": {"data": {"m1": LONG}}}},
    "wrapped": {"return": {"m1": LONG}},
    "only text": "Error: no",
    "only number": 3,
    "only none": None,
    "empty": {},
}
FORMS = [
    {"state_output": form + suffix}
    for form in ("full", "terse", "mixed", "changes", "filter")
    for suffix in ("", "_id")
]
OPTIONS: list[dict[str, Any]] = [
    *FORMS,
    {"color": True},
    {"state_verbose": False},
    {"state_output_diff": True},
    {"state_output_pct": True},
    {"state_output_profile": False},
    {"state_output": "terse", "state_tabular": True},
    {"state_output": "terse", "state_tabular": True, "state_output_profile": False},
    {"state_output": "terse", "state_tabular": "{0}{1}|{2}|{3}|{4}{5}"},
    {"state_compress_ids": True},
    {"state_compress_ids": True, "state_output": "terse_id", "color": True},
    {"state_output": "filter", "arg": [{"__kwarg__": True, "exclude": "True,"}]},
    {"state_output": "filter", "arg": [{"__kwarg__": True, "terse": "True,None"}]},
    {"state_output": "filter", "state_output_exclude": ["False"], "state_output_terse": "None"},
    {"strip_colors": False},
]
VALUES: dict[str, Any] = {
    "true": {"m": True},
    "none": {"m": None},
    "numbers": {"m": [1, 1.5, -3, 10**20, 1e100, 0.1]},
    "text": {"m": "two\nlines\n\nand more"},
    "blank": {"m": ""},
    "escapes": {"m": "\033[31mred", "k\033": 1},
    "deep": {"m": {"b": {"c": [1, [2, [3, {"d": "e"}]], {"f": {"g": [{}]}}]}, "a": []}},
    "lists": {"m": [["a", "b"], {"c": "d", "e": ["f\ng", "h"]}, "x\ny", [], {}]},
    "mixed keys": {"m": {1: "a", "b": 2, None: 3}},
    "number keys": {"m": {2: "a", 10: "b"}},
    "unicode": {"zażółć": "gęślą", "日本": ["語"]},
    "rows": {"m": {"out": [{"a": 1, "b_c": "x"}, {"a": 22, "b_c": None}]}},
    "row lists": {"m": [["a", "b"], ["cc", "dd"]]},
    "row texts": {"m": ["x", "yy"]},
    "uneven": {"m": ["x", 1]},
    "keys": {"minions": ["b", "a"], "minions_pre": ["c\033"], "minions_denied": [], "local": ["l"]},
    "fingers": {"minions": {"b": "1:2", "a": "3:4"}, "minions_rejected": {}},
    "plain text": "hello\nyou",
    "plain list": ["a", {"b": 1}],
    "plain number": 5,
    "plain true": True,
    "empty map": {},
    "doc": {"m": {"test.ping": "\n    Answers.\n\n    CLI Example:\n    "}},
    "silent": {"m": "Minion did not return. [No response]\nLater:\n\nsalt-run x"},
    "long": {"m": {f"key{n:02}": "x" * n for n in range(0, 60, 7)}},
}
VALUE_OPTIONS: list[dict[str, Any]] = [
    {},
    {"color": True},
    {"output_indent": 2},
    {"output_indent": -1},
    {"_retcode": 1, "color": True},
]
OUTPUTTERS = ["nested", "json", "yaml", "txt", "raw", "pprint", "key", "table", "no_return"]
OUTPUTTERS += ["quux", "text"]


def words() -> list[str]:
    """Words that people write, and eight hundred that nobody would."""
    dice = random.Random(7)
    signs = "abeoxyn019 .:-_#{}[],'\"=!&*|>%@~+/TFN"
    strange = ["".join(dice.choices(signs, k=dice.randint(1, 9))) for _ in range(800)]
    with open(os.path.join(DATA, "words.json"), encoding="utf-8") as file:
        return list(dict.fromkeys([*json.load(file), *strange]))


def cases() -> list[dict[str, Any]]:
    """What is to be shown, how."""
    base = {
        "color": False,
        "state_verbose": True,
        "state_output": "full",
        "state_output_diff": False,
        "state_output_profile": True,
    }
    found = []
    for options in OPTIONS:
        for name, data in HIGHSTATES.items():
            found.append({"name": name, "out": "highstate", "opts": {**base, **options}})
            found[-1]["data"] = data
    for options in VALUE_OPTIONS:
        for name, data in VALUES.items():
            for out in OUTPUTTERS:
                opts = {"color": False, "transport": "zeromq", **options}
                retcode = opts.pop("_retcode", 0)
                found.append({"name": name, "out": out, "opts": opts, "data": data})
                if retcode:
                    found[-1]["retcode"] = retcode
    return found


def record() -> None:
    """Ask stock Salt, and write the answers."""
    import salt.output  # type: ignore[import-not-found, unused-ignore]
    import salt.utils.args  # type: ignore[import-not-found, unused-ignore]
    import salt.version  # type: ignore[import-not-found, unused-ignore]

    version = str(salt.version.__version__)
    texts = []
    for case in cases():
        opts = {**copy.deepcopy(case["opts"]), "extension_modules": "", "optimization_order": [0]}
        kwargs = {"_retcode": case["retcode"]} if "retcode" in case else {}
        texts.append(
            salt.output.try_printout(copy.deepcopy(case["data"]), case["out"], opts, **kwargs)
        )
    write("outputs.json", {"salt": version, "texts": texts})
    answers = [[word, repr(salt.utils.args.parse_input([word]))] for word in words()]
    write("args.json", {"salt": version, "answers": answers})


def write(name: str, data: Any) -> None:
    """One value per line, so that a later recording shows its differences."""
    with open(os.path.join(DATA, name), "w", encoding="utf-8") as file:
        json.dump(data, file, ensure_ascii=True, indent=0)
        file.write("\n")


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != os.path.dirname(DATA)]
    record()
