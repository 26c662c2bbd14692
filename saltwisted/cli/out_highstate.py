"""
The C{highstate} outputter: what states did, and the counts below.

Read from the options: C{state_output} (C{full}, C{terse}, C{mixed}, C{changes},
C{filter}, each also with C{_id}), C{state_verbose}, C{state_tabular}, C{state_output_diff},
C{state_output_profile}, C{state_output_pct}, C{state_compress_ids},
C{state_output_exclude}, C{state_output_terse}. The text is that of Salt 3008 for
the same return, to the byte; the tests hold recorded cases.
"""

from __future__ import annotations

import copy
import pprint
import re
import textwrap
from collections import Counter
from typing import Any

from saltwisted.cli import console
from saltwisted.cli.output import Options, colors, format_data, without_escapes

_CHANGES_INDENT = 14
_NO_ORDER = (
    "The State execution failed to record the order in which all states were executed. The state "
    "return missing data is:"
)
_NESTING = ("state.orch", "state.orchestrate", "state.sls")
_LABELS: dict[Any, str] = {
    True: "Succeeded",
    False: "Failed",
    None: "Not Run",
    "warnings": "Warnings",
}
_LABEL_WIDTH = max(map(len, _LABELS.values()))


def output(data: Any, opts: Options, **kwargs: Any) -> str:
    """
    Show the state returns of minions, by id.

    Keyword C{indent_level}: how deep this is inside of an orchestration.
    """
    data = _unwrapped(data)
    if isinstance(data, str):
        return data
    if isinstance(data, int):
        raise TypeError("a number is not a state return")  # shown by the nested outputter
    if data is None:
        return "None"
    masters = [key for key in data if key.endswith("_master")]
    if "retcode" in data and len(masters) == 1:  # an orchestration's own return code
        data = {key: value for key, value in data.items() if key != "retcode"}
    if opts.get("state_compress_ids", False):
        data = _compressed(data)
    level = kwargs.get("indent_level", 1)
    texts = [_Host(opts, level).show(host, states)[0] for host, states in data.items()]
    if texts:
        return "\n".join(texts)
    console.log(
        "error", f"Data passed to highstate outputter is not a valid highstate return: {data}"
    )
    return ""


def _unwrapped(data: Any) -> Any:
    """The returns themselves, out of what runners and C{jobs.lookup_jid} put around them."""
    if isinstance(data, dict) and "return" in data:
        data = data["return"]
    if isinstance(data, dict) and "data" in data:
        data = data["data"]
    if isinstance(data, dict) and len(data) == 1:
        only = next(iter(data.values()))
        if isinstance(only, dict) and "jid" in only and "fun" in only:
            data = only.get("return", {}).get("data", data)
    return data


def _compressed(data: Any) -> Any:
    """States of one id, sls and result as one, with their number; unchanged if that fails."""
    if not isinstance(data, dict):
        return data
    try:
        return {host: _compress(states) for host, states in data.items()}
    except Exception:
        console.log("warning", "Unable to compress state output by ID! Returning output normally.")
        return data


def _compress(states: dict[str, Any]) -> dict[str, Any]:
    def group(tag: str, state: dict[str, Any]) -> tuple[str, str, str, str]:
        kind = tag.split("_|-")[0]
        return kind, str(state["__id__"]), str(state["__sls__"]), str(state["result"])

    sizes = Counter(group(tag, state) for tag, state in states.items())
    found: dict[str, Any] = {}
    for tag, state in states.items():
        key = group(tag, state)
        if sizes[key] == 1:
            found[tag] = state
            continue
        parts = tag.split("_|-")
        parts[1] = f"{state['__id__']} ({sizes[key]})"
        parts[2] = f"state_compressed_{state['__sls__']}_{state['__id__']}_{state['result']}"
        name = "_|-".join(parts)
        if name not in found:
            found[name] = copy.copy(state)
            continue
        _add(found[name], state)
    return found


def _add(total: dict[str, Any], state: dict[str, Any]) -> None:
    """Put one more state into the one that stands for several."""
    total["__run_num__"] = min(state["__run_num__"], total["__run_num__"])
    total["duration"] = round(state["duration"] + total["duration"], 3)
    total["start_time"] = min(state["start_time"], total["start_time"])
    changes = state.get("changes")
    if not changes:
        return
    before = total.get("changes")
    if before and not before.get("compressed changes"):
        before = {"compressed changes": {total["name"]: before}}
    elif not before:
        before = {"compressed changes": {}}
    before["compressed changes"][state["name"]] = changes
    total["changes"] = before


class _Host:
    """The text for one minion."""

    def __init__(self, opts: Options, level: int) -> None:
        self.opts = opts
        self.level = level
        self.paint = colors(opts)
        self.end = self.paint["ENDC"]
        self.tabular = opts.get("state_tabular", False)
        self.lines: list[str] = []
        self.counts: dict[Any, int] = {}
        self.serial = 0.0
        self.parallel: list[float] = []
        self.changed = 0
        self.color = self.paint["GREEN"]

    def show(self, host: Any, states: Any) -> tuple[str, bool]:
        """The text, and whether anything changed."""
        if isinstance(host, bytes):
            host = host.decode("utf-8", "replace")
        if isinstance(states, int | str):
            self._plain(states)
        elif isinstance(states, list):
            self._errors(states)
        elif isinstance(states, dict):
            self._states(states)
            self._footer(host)
        if self.opts.get("strip_colors", True):
            host = without_escapes(host)
        self.lines.insert(0, f"{self.color}{host}:{self.end}")
        return "\n".join(self.lines), self.changed > 0

    def _plain(self, value: int | str) -> None:
        """The return of C{salt.function} in an orchestration, which counts as a change."""
        self.changed = 1
        rows: list[Any] = value.splitlines() if isinstance(value, str) else [value]
        self.lines.extend(f"{self.color}    {row}{self.end}" for row in rows)
        self.color = self.paint["CYAN"]

    def _errors(self, errors: list[Any]) -> None:
        self.color = self.paint["LIGHT_RED"]
        self.lines.append(f"    {self.color}Data failed to compile:{self.end}")
        for error in errors:
            shown = without_escapes(error) if self.opts.get("strip_colors", True) else error
            self.lines.append(f"{self.color}----------\n    {shown}{self.end}")

    def _states(self, states: dict[str, Any]) -> None:
        usable: dict[str, dict[str, Any]] = {}
        for tag, state in states.items():
            if not isinstance(state, dict):
                continue
            if tag != "changes" and state and "__run_num__" not in state:
                self.lines[:0] = [_NO_ORDER, pprint.pformat(state)]
            if "result" in state:
                usable[tag] = state
        for tag in sorted(usable, key=lambda tag: usable[tag].get("__run_num__", 0)):
            self._state(tag, usable[tag])

    def _state(self, tag: str, state: dict[str, Any]) -> None:
        result = state["result"]
        several = self._several(tag)
        self.counts[result] = self.counts.get(result, 0) + several
        self._time(state)
        changed, text = self._changes(state)
        if changed and several > 1:
            self.changed += len(state["changes"].get("compressed changes", {})) or 1
        elif changed:
            self.changed += 1
        quiet = self.opts.get("state_output_diff", False) or not self.opts.get(
            "state_verbose", False
        )
        if quiet and result and not changed:
            return
        color = self._colors(result, changed)
        parts = tag.split("_|-")
        form = self.opts.get("state_output", "full").lower()
        if form.endswith("_id"):
            parts[2] = parts[1]
        if form.startswith("filter"):
            terse, left_out = self._filters()
            if str(result) in terse:
                self.lines.append(self._terse(color, parts, state))
                return
            if str(result) in left_out:
                return
        elif (
            form.startswith("terse")
            or (form.startswith("mixed") and result is not False)
            or (form.startswith("changes") and result and not changed)
        ):
            self.lines.append(self._terse(color, parts, state))
            return
        self._full(color, parts, state, text)

    def _several(self, tag: str) -> int:
        """How many states this one stands for."""
        if not self.opts.get("state_compress_ids", False) or "_|-state_compressed_" not in tag:
            return 1
        count = re.search(r"\((\d+)\)$", tag.split("_|-")[1])
        return int(count[1]) if count else 1

    def _time(self, state: dict[str, Any]) -> None:
        duration = state.get("duration", 0)
        try:
            seconds = float(duration)
        except ValueError:
            try:
                seconds = float(duration.partition(" ms")[0])
            except ValueError:
                console.log("error", f"Cannot parse a float from duration {duration}")
                return
        if "__parallel__" in state:
            self.parallel.append(seconds)
        else:
            self.serial += seconds

    def _changes(self, state: dict[str, Any]) -> tuple[bool, str]:
        """Whether the state changed something, and the text for it."""
        changes = state["changes"]
        if state.get("name") in _NESTING:
            nested = "\n" + output(changes, self.opts, indent_level=self.level + 1)
            pad = " " * _CHANGES_INDENT * self.level
            return True, re.sub("^", pad, nested, flags=re.MULTILINE)
        if not changes:
            return False, ""
        if not isinstance(changes, dict):
            return True, f"Invalid Changes data: {changes}"
        inner = changes.get("ret")
        if inner is None or changes.get("out") != "highstate":
            shown = format_data(changes, "nested", self.opts, nested_indent=_CHANGES_INDENT)
            return True, f"\n{shown}"
        text = ""
        changed = False
        for host, states in inner.items():
            block, one_changed = _Host(self.opts, 1).show(host, states)
            pad = " " * _CHANGES_INDENT
            text += "\n" + "\n".join(pad + row for row in block.splitlines())
            changed = changed or one_changed
        return changed, text

    def _colors(self, result: Any, changed: bool) -> str:
        """The state's colour; a failure or a test result colours the minion's name as well."""
        color = self.paint["CYAN"] if changed else self.paint["GREEN"]
        if result is False:
            color = self.color = self.paint["RED"]
        elif result is None:
            color = self.color = self.paint["LIGHT_YELLOW"]
        return color

    def _filters(self) -> tuple[list[str], list[str]]:
        """Results to show in one line, and results to leave out."""
        given: dict[str, Any] = {}
        for arg in self.opts.get("arg") or []:
            if isinstance(arg, dict) and "__kwarg__" in arg:
                given = arg

        def words(name: str) -> list[str]:
            value: Any = given.get(name, self.opts.get(f"state_output_{name}", []))
            return value.split(",") if isinstance(value, str) else list(value)

        return words("terse"), words("exclude")

    def _full(self, color: str, parts: list[str], state: dict[str, Any], changes: str) -> None:
        end = self.end
        rows = [
            f"{color}----------{end}",
            f"    {color}      ID: {parts[1]}{end}",
            f"    {color}Function: {parts[0]}.{parts[3]}{end}",
        ]
        if parts[1] != parts[2]:
            rows.append(f"    {color}    Name: {parts[2]}{end}")
        rows += [
            f"    {color}  Result: {state['result']!s}{end}",
            f"    {color} Comment: {_comment(state)}{end}",
        ]
        if self.opts.get("state_output_profile") and "start_time" in state:
            duration = state.get("duration", "")
            shown = "" if duration == "" else f"{duration} ms"
            rows += [
                f"    {color} Started: {state['start_time']!s}{end}",
                f"    {color}Duration: {shown}{end}",
            ]
        rows.append(f"{color}     Changes:   {changes}{end}")
        if "warnings" in state:
            self.counts["warnings"] = self.counts.get("warnings", 0) + 1
            pad = " " * 14
            wrapped = textwrap.fill(
                "\n".join(state["warnings"]), 80, initial_indent=pad, subsequent_indent=pad
            )
            rows.append(f"   {self.paint['LIGHT_RED']} Warnings: {wrapped.lstrip()}{end}")
        self.lines += rows

    def _terse(self, color: str, parts: list[str], state: dict[str, Any]) -> str:
        result = "Changed" if state["changes"] else "Clean"
        if state["result"] is False:
            result = "Failed"
        elif state["result"] is None:
            result = "Differs"
        if isinstance(self.tabular, str):
            return self.tabular.format(
                color, parts[2], parts[0], parts[-1], result, self.end, state
            )
        text = ""
        if "warnings" in state:
            joined = "\n".join(state["warnings"])
            text = f"{self.paint['LIGHT_RED']}Warnings:\n{joined}{self.end}"
            text += "\n" if self.tabular is True else ""
        timed = self.opts.get("state_output_profile") and "start_time" in state
        if self.tabular is True:
            text += color
            if timed:
                text += f"{state['start_time']!s} [{state['duration']!s:>7} ms] "
            return text + f"{parts[0]:>10}.{parts[-1]:<10} {result:7}   Name: {parts[2]}{self.end}"
        text += f" {color} Name: {parts[2]} - Function: {parts[0]}.{parts[-1]} - Result: {result}"
        if timed:
            text += f" - Started: {state['start_time']!s} - Duration: {state['duration']!s} ms"
        return text + self.end

    def _footer(self, host: Any) -> None:
        paint, counts = self.paint, self.counts
        warnings = counts.get("warnings", 0)
        total = sum(counts.values()) - warnings
        width = _LABEL_WIDTH + 2 + max((len(str(n)) for n in counts.values()), default=0)
        rule = "-" * width

        def line(color: str, text: str) -> str:
            return f"{paint[color]}{text}{self.end}"

        def count(label: str, number: Any) -> str:
            return f"{label}: {number:>{width - len(label) - 2}}"

        good = counts.get(True, 0) + counts.get(None, 0)
        bad = counts.get(False, 0)
        notes = []
        if counts.get(None, 0) > 0:
            notes.append(line("LIGHT_YELLOW", f"unchanged={counts[None]}"))
        if self.changed > 0:
            notes.append(line("GREEN", f"changed={self.changed}"))
        bad_color = "RED" if bad else "CYAN"
        self.lines += [
            line("CYAN", f"\nSummary for {host}\n{rule}"),
            line("GREEN", count(_LABELS[True], good)) + (f" ({', '.join(notes)})" if notes else ""),
            line(bad_color, count(_LABELS[False], bad)),
        ]
        if self.opts.get("state_output_pct", False) and total:
            self.lines += [
                line("GREEN", count("Success %", round(good / total * 100, 2))),
                line(bad_color, count("Failure %", round(bad / total * 100, 2))),
            ]
        if warnings:
            self.lines.append(line("LIGHT_RED", count(_LABELS["warnings"], warnings)))
        self.lines.append(line("CYAN", f"{rule}\nTotal states run: {total:>{width - 7}}"))
        if self.opts.get("state_output_profile"):
            self.lines.append(line("CYAN", self._run_time(width)))

    def _run_time(self, width: int) -> str:
        """States that ran beside one another count by the longest."""
        total = self.serial + max(self.parallel, default=0.0)
        unit = "ms"
        if total > 999:
            total, unit = total / 1000, "s"
        return f"Total run time: {f'{total:.3f}'.rjust(width - 5)} {unit}"


def _comment(state: dict[str, Any]) -> str:
    text = str(state["comment"]).strip().replace("\n", "\n" + " " * 14)
    extra = state.get("data")
    if isinstance(extra, list):
        text = " ".join([text, *map(str, extra)])
    elif isinstance(extra, dict):
        text += "".join(f"\n\t\t{key}: {value}" for key, value in extra.items())
    elif "data" in state:
        text = f"{text} {extra}"
    return text
