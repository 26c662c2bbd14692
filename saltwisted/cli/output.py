"""
Outputters: how data becomes the text that a command prints.

Here is the choice of the outputter, the fall-back when one fails, and the
short outputters. C{highstate} and C{table} have modules of their own and
are imported when they are asked for. The formats are those of Salt 3008 to
the byte, colours included, since scripts read them; C{quiet} and
C{newline_values_only}, which Salt has dropped and scripts still name, work too.

An outputter is a function C{(data, opts, **kwargs) -> str | None}; C{opts} is
the merged map of configuration and command line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from importlib import import_module
from typing import Any

from saltwisted.cli import console
from saltwisted.domain.yamltext import load_yaml

Options = MutableMapping[str, Any]
Outputter = Callable[..., "str | None"]

_CODES = {
    "BLACK": "0;30",
    "DARK_GRAY": "0;1;30",
    "RED": "0;31",
    "LIGHT_RED": "0;1;31",
    "GREEN": "0;32",
    "LIGHT_GREEN": "0;1;32",
    "YELLOW": "0;33",
    "LIGHT_YELLOW": "0;1;33",
    "BLUE": "0;34",
    "LIGHT_BLUE": "0;1;34",
    "MAGENTA": "0;35",
    "LIGHT_MAGENTA": "0;1;35",
    "CYAN": "0;36",
    "LIGHT_CYAN": "0;1;36",
    "LIGHT_GRAY": "0;37",
    "WHITE": "0;1;37",
    "DEFAULT_COLOR": "0;39",
    "ENDC": "0;0",
}


def colors(opts: Mapping[str, Any]) -> dict[str, str]:
    """Name to escape sequence; all empty where colour is off. C{color_theme} is a YAML file."""
    use = opts.get("color", True)
    if not use:
        return dict.fromkeys(_CODES, "")
    found = {name: f"\033[{code}m" for name, code in _CODES.items()}
    theme = opts.get("color_theme")
    if theme:
        found.update(_theme(str(theme)))
    return found


def _theme(path: str) -> dict[str, str]:
    import yaml

    if not os.path.isfile(path):
        console.log("warning", f"The named theme {path} if not available")
    try:
        with open(path, encoding="utf-8") as file:
            chosen = load_yaml(file)
        return {str(name): f"\033[{code}m" for name, code in chosen.items()}
    except (OSError, yaml.YAMLError, AttributeError):
        console.log("warning", f"Failed to read the color theme {path}")
        return {}


def without_escapes(text: Any) -> Any:
    """Text in which no terminal command can start; other values as they are."""
    return text.replace("\033", "?") if isinstance(text, str) else text


def _json(data: Any, opts: Options, **_kwargs: Any) -> str:
    import json

    indent: Any = 4
    sort = False
    if "output_indent" in opts:
        indent = opts["output_indent"]
        if indent == "pretty":
            indent, sort = 4, True
        elif isinstance(indent, int) and indent < 0:
            indent = None
    try:
        return json.dumps(data, default=repr, indent=indent, sort_keys=sort, ensure_ascii=False)
    except (TypeError, ValueError):
        return "{}"


def _yaml(data: Any, opts: Options, **_kwargs: Any) -> str | None:
    from saltwisted.cli.yamlout import dump

    if "output_indent" not in opts:
        return dump(data, default_flow_style=False)
    indent = opts["output_indent"]
    if indent >= 0:
        return dump(data, default_flow_style=False, indent=indent)
    return dump(data, default_flow_style=True, indent=0)


def _txt(data: Any, _opts: Options, **_kwargs: Any) -> str:
    lines: list[str] = []
    if isinstance(data, Mapping):
        for key, value in data.items():
            rows: list[Any] = value.splitlines() if isinstance(value, str | bytes) else [value]
            lines.extend(f"{key}: {row}\n" for row in rows)
        return "".join(lines)
    if isinstance(data, str):
        return data + "\n"
    import pprint

    return pprint.pformat(data) + "\n"


def _raw(data: Any, _opts: Options, **_kwargs: Any) -> str:
    return data if isinstance(data, str) else str(data)


def _pprint(data: Any, opts: Options, **_kwargs: Any) -> str:
    import pprint

    if isinstance(data, Exception):
        data = str(data)
    indent = opts.get("output_indent", -1)
    return pprint.pformat(data, indent=indent) if indent >= 0 else pprint.pformat(data)


def _no_return(data: Any, opts: Options, **_kwargs: Any) -> str:
    paint = colors(opts)
    lines: list[str] = []

    def show(value: Any, indent: int) -> None:
        if isinstance(value, str):
            for line in value.split("\n"):
                lines.append(f"{paint['RED']}{' ' * indent}{line}{paint['ENDC']}\n")
        elif isinstance(value, dict):
            for key in sorted(value):
                lines.append(f"{paint['CYAN']}{' ' * indent}{key}{paint['ENDC']}:\n")
                show(value[key], indent + 4)

    show(data, 0)
    return "".join(lines)


_HEADINGS = {
    "minions": ("Accepted", "GREEN"),
    "minions_denied": ("Denied", "MAGENTA"),
    "minions_pre": ("Unaccepted", "RED"),
    "minions_rejected": ("Rejected", "BLUE"),
    "local": ("Local", "MAGENTA"),
}


def _key(data: Any, opts: Options, **_kwargs: Any) -> str:
    paint = colors(opts)
    pad = " " * (4 if opts.get("__multi_key") else 0)
    lines = []
    for status in sorted(data):
        title, color = _HEADINGS[status]
        lines.append(f"{pad}{paint['LIGHT_' + color]}{title} Keys:{paint['ENDC']}")
        names = data[status]
        for name in sorted(names):
            shown = without_escapes(name) if opts.get("strip_colors", True) else name
            if isinstance(names, list):
                lines.append(f"{pad}{paint[color]}{shown}{paint['ENDC']}")
            elif isinstance(names, dict):
                lines.append(f"{pad}{paint[color]}{shown}:  {names[name]}{paint['ENDC']}")
    return "\n".join(lines)


def _quiet(_data: Any, _opts: Options, **_kwargs: Any) -> str:
    return ""


def _values_only(data: Any, _opts: Options, **_kwargs: Any) -> str:
    found: list[str] = []

    def collect(value: Any) -> None:
        if isinstance(value, Mapping):
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                collect(inner)
        else:
            found.append(str(value))

    collect(data)
    return "\n".join(found)


_SHORT: dict[str, Outputter] = {
    "json": _json,
    "key": _key,
    "newline_values_only": _values_only,
    "no_return": _no_return,
    "pprint": _pprint,
    "quiet": _quiet,
    "raw": _raw,
    "txt": _txt,
    "yaml": _yaml,
}
_MODULES = {
    "highstate": "saltwisted.cli.out_highstate",
    "nested": "saltwisted.cli.out_nested",
    "table": "saltwisted.cli.out_table",
}
NAMES = frozenset(_SHORT) | frozenset(_MODULES)


def _nothing(_record: Any) -> bool:
    return False


def of_site(name: str, opts: Mapping[str, Any]) -> Outputter | None:
    """
    An outputter of the site's own, from C{_output} or C{outputter_dirs}, or of an extension, if its
    name is none of ours; C{None}: there is none.

    It runs in this process, as in Salt. If it cannot be used, that is said.
    """
    synced = os.path.join(str(opts.get("extension_modules") or ""), "output")
    places = (opts.get("outputter_dirs"), opts.get("module_dirs"), os.path.isdir(synced))
    is_ours = name in _SHORT or name in _MODULES
    if not any(places) and (is_ours or not _has_extensions()):
        return None
    from saltwisted.worker.process import asbefore
    from saltwisted.worker.process import loader as loading
    from saltwisted.worker.process.witness import witnessed

    console.adopt_logging()
    loader = loading.Loaders(opts, grains={}, pillar={}, stock=False)["outputters"]
    # What it says of a file is said below, in one line
    loading.log.addFilter(_nothing)
    try:
        with witnessed():
            function: Outputter | None = loader.get(f"{name}.output")
    finally:
        loading.log.removeFilter(_nothing)
    if function is None:
        why = loader.missing_modules.get(name)
        if why is not None:
            kind = type(why).__name__ + ": " if isinstance(why, BaseException) else ""
            path = ", ".join(loader.files_of(name))
            console.log("error", f"The outputter {path} cannot be used: {kind}{why}")
        return None
    path = function.__code__.co_filename

    def output(data: Any, opts: Options, **kwargs: Any) -> str | None:
        try:
            with witnessed():
                asbefore.begins(path)
                text = function(data, **kwargs)
        except (Exception, SystemExit) as error:
            console.log("error", f"The outputter {path} failed: {type(error).__name__}: {error}")
            raise TypeError(path) from error
        return None if text is None else str(text)

    return output


def _has_extensions() -> bool:
    from saltwisted.worker.process.extensions import entry_points

    return bool(entry_points(sys.path))


def find(name: str, opts: Mapping[str, Any] | None = None) -> Outputter:
    """The outputter of this name; an unknown one is reported and C{nested} takes its place."""
    written = of_site(name, opts) if opts else None
    if written is not None:
        return written
    short = _SHORT.get(name)
    if short is not None:
        return short
    if name not in _MODULES:
        if name != "grains":  # old minions still ask for it
            console.log("error", f"Invalid outputter {name} specified, fall back to nested")
        name = "nested"
    outputter: Outputter = import_module(_MODULES[name]).output
    return outputter


def _is_terminal() -> bool:
    try:
        return os.isatty(sys.stdout.fileno())
    except (AttributeError, OSError, ValueError):
        return False


def choose_color(opts: Options) -> None:
    """Decide C{opts["color"]} by the options, the configuration and the terminal."""
    if opts.get("force_color"):
        opts["color"] = True
    elif opts.get("no_color"):
        opts["color"] = False
    elif "color" not in opts:
        opts["color"] = _is_terminal()


def select(out: str | None, opts: Options) -> Outputter:
    """
    The outputter to use: the command line's C{--out}, else what the minion asked for.

    C{--out=highstate} alone leaves the minion's choice in force, as in Salt.
    """
    if "output" in opts and opts["output"] != "highstate":
        out = opts["output"]
    if not out and opts.get("static"):
        fun = opts.get("fun", "")
        if opts.get("output"):
            out = opts["output"]
        elif isinstance(fun, str) and fun.split(".")[0] == "state":
            out = "highstate"
    if out == "text":
        out = "txt"
    choose_color(opts)
    return find(out or "nested", opts)


def format_data(data: Any, out: str | None, opts: Options, **kwargs: Any) -> str | None:
    """The text for C{data}, without trailing white space; falls back to nested, then to raw."""
    chosen = select(out, opts)
    for outputter in (chosen, import_module(_MODULES["nested"]).output):
        try:
            text = outputter(data, opts, **kwargs)
        except (KeyError, AttributeError, TypeError):
            continue
        return text if text is None else text.rstrip()
    console.log("error", "Nested output failed: ")
    return _raw(data, opts).rstrip()


def display(data: Any, out: str | None, opts: Options, **kwargs: Any) -> None:
    """Print C{data}, or append it to the file of C{--out-file}. Keyword: C{_retcode} colours."""
    text = format_data(data, out, opts, **kwargs)
    path = opts.get("output_file")
    if path:
        if text:
            with open(path, "a", encoding="utf-8") as file:
                file.write(text + "\n")
        return
    if text:
        console.say(text)
