"""
C{saltwisted complete}: the words that a shell may offer, for its completion.

The shells' own files are a few lines each and ask here, so that options are those of
the parsers, and minions and functions those of this machine. Names of functions are read from
the sources without importing them and kept in the user's cache directory; ids of
minions are the names in the master's key directory, for those who may look into it.
It never fails aloud: a completion that breaks must not disturb the line being typed.
"""

from __future__ import annotations

import ast
import json
import optparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

from saltwisted import __version__
from saltwisted.cli import console
from saltwisted.worker.freshfile import fresh

KEY_STATES = {
    "-a": ("minions_pre", "minions_rejected", "minions_denied"),
    "--accept": ("minions_pre", "minions_rejected", "minions_denied"),
    "-r": ("minions_pre", "minions"),
    "--reject": ("minions_pre", "minions"),
}
"""Which directories an option of C{salt-key} takes names from; the others take all."""

_ALL_STATES = ("minions", "minions_pre", "minions_rejected", "minions_denied")
_OUTPUTS = "highstate json key nested newline_values_only no_return pprint quiet raw table txt yaml"
_MOST = 5000


def build_parser() -> optparse.OptionParser:
    """The options of C{saltwisted complete}: none but its help."""
    return optparse.OptionParser(
        prog="saltwisted complete",
        usage="%prog -- WORD...",
        description="Prints what the last word of a command line could become, one candidate a "
        "line. The completion files of bash, zsh and fish call it.",
    )


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """
    Print one candidate a line.

    @param argv: the words of the line from the command on, the one being typed last.
    """
    words = list(argv)
    if words[:1] != ["--"]:
        build_parser().parse_args(words)
        return 64
    words = words[1:]
    try:
        found = candidates(words, environ)
    except Exception:  # whatever it is, it must not disturb the line being typed
        return 1
    current = words[-1] if words else ""
    # Targets are often quoted, for their stars; the shell knows of the open quote itself
    current = current.removeprefix(current[:1]) if current[:1] in ("'", '"') else current
    fitting = sorted({word for word in found if word.startswith(current)})
    for word in fitting[:_MOST]:
        console.say(word)
    return 0


def candidates(words: list[str], environ: Mapping[str, str]) -> Iterable[str]:
    """Everything that could stand where the last word is, fitting or not."""
    from saltwisted.cli.main import COMMANDS

    if not words:
        return ()
    name, rest = os.path.basename(words[0]), words[1:]
    if name not in COMMANDS:
        if len(rest) < 2:
            return (*COMMANDS, "--help", "--version", "--versions-report")
        name, rest = rest[0], rest[1:]
        if name not in COMMANDS:
            return ()
    return _of_command(name, rest, environ)


def parser_of(name: str) -> Any:
    """The option parser of a command, also of one that makes it only when it runs."""
    from saltwisted.cli.main import COMMANDS

    module, _, function = COMMANDS[name][0].partition(":")
    command = import_module(f"saltwisted.cli.{module}")
    if not function and hasattr(command, "build_parser"):
        return command.build_parser()
    seen: list[Any] = []
    show = optparse.OptionParser.print_help
    optparse.OptionParser.print_help = lambda self, file=None: seen.append(self)  # type: ignore[method-assign]
    try:
        getattr(command, function or "main")(["--help"])
    except SystemExit:
        pass
    finally:
        optparse.OptionParser.print_help = show  # type: ignore[method-assign]
    return seen[0]


def _of_command(name: str, words: list[str], environ: Mapping[str, str]) -> Iterable[str]:
    options = _options(parser_of(name))
    current = words[-1] if words else ""
    if current.startswith("-"):
        return options
    before = words[-2] if len(words) > 1 else ""
    if options.get(before) is not None:
        return _of_option(name, before, options[before], words, environ)
    place = sum(1 for _ in _positionals(words[:-1], options))
    if name in ("salt", "salt-cp") and place == 0:
        return _ids(words, environ, ("minions",))
    if (name, place) in (("salt", 1), ("salt-call", 0)):
        return functions("modules", environ)
    if (name, place) == ("salt-run", 0):
        return functions("runners", environ)
    return ()


def _of_option(
    name: str, option: str, kind: Any, words: list[str], environ: Mapping[str, str]
) -> Iterable[str]:
    """What may follow an option that takes a value."""
    if option in ("--out", "--output"):
        return _OUTPUTS.split()
    if kind.choices:
        return tuple(kind.choices)
    if name == "salt-key" and kind.dest in ("accept", "reject", "delete", "print", "finger"):
        return _ids(words, environ, KEY_STATES.get(option, _ALL_STATES))
    return ()


def _options(parser: Any) -> dict[str, Any]:
    """Every option string; C{None} for those that take no value."""
    found: dict[str, Any] = {}
    for group in (parser, *parser.option_groups):
        for option in group.option_list:
            for text in (*option._short_opts, *option._long_opts):
                found[text] = option if option.takes_value() else None
    return found


def _positionals(words: Iterable[str], options: Mapping[str, Any]) -> Iterable[str]:
    """The words that are neither options nor their values."""
    value_of = None
    for word in words:
        if value_of is not None:
            value_of = None
        elif word.startswith("-") and len(word) > 1:
            value_of = options.get(word)
        else:
            yield word


def _ids(words: list[str], environ: Mapping[str, str], folders: Iterable[str]) -> Iterable[str]:
    """The names of the keys in these directories; empty for those who may not look."""
    from saltwisted.worker.process.configio import Disk, load_from_disk

    directory = None
    for option, value in pairwise(words):
        if option in ("-c", "--config-dir"):
            directory = value
    disk = Disk(passing=True)
    config = load_from_disk("master", directory, environ, guess_id=False, disk=disk).master
    found: list[str] = []
    for folder in folders:
        try:
            found += os.listdir(os.path.join(config.pki_dir, folder))
        except OSError:
            continue
    return (name for name in found if not name.startswith("."))


def functions(kind: str, environ: Mapping[str, str]) -> list[str]:
    """
    The functions of our own modules, C{module.function}, from a cache of the user's.

    @param kind: C{modules} or C{runners}.
    """
    home = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.path.join(home, "saltwisted", f"{kind}.json")
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folder = os.path.join(package, "master/runners" if kind == "runners" else kind)
    stamp = [__version__, os.stat(folder).st_mtime_ns]
    try:
        with open(path, encoding="utf-8") as stream:
            kept = json.load(stream)
        if kept["stamp"] == stamp:
            return [str(name) for name in kept["names"]]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    names = sorted(_read_folder(folder))
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with fresh(path, sync=False) as stream:
            stream.write(json.dumps({"stamp": stamp, "names": names}).encode())
    except OSError:
        pass  # no cache then, only a slower next time
    return names


def _read_folder(folder: str) -> Iterable[str]:
    def source(name: str) -> str:
        with open(os.path.join(folder, name + ".py"), encoding="utf-8") as stream:
            return stream.read()

    for name in os.listdir(folder):
        if name.endswith(".py") and not name.startswith("_"):
            yield from functions_of(name[:-3], source(name[:-3]), source)


def _named(part: ast.expr) -> str:
    """The name of a part: as a module that is imported, or as text for one that is loaded."""
    return part.id if isinstance(part, ast.Name) else str(ast.literal_eval(part))


def functions_of(name: str, source: str, read: Callable[[str], str] = lambda part: "") -> list[str]:
    """
    The public functions of one module's source, under the names by which they are called.

    @param read: the source of a part of the module, a private one beside it.
    """
    aliases: dict[str, str] = {}
    defined: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defined.append(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            value = getattr(node, "value", None)
            if not isinstance(target, ast.Name) or value is None:
                continue
            if target.id == "__virtualname__" and isinstance(value, ast.Constant):
                name = str(value.value)
            if target.id == "__func_alias__" and isinstance(value, ast.Dict):
                aliases = {str(k): str(v) for k, v in ast.literal_eval(value).items()}
            if target.id == "__parts__" and isinstance(value, ast.Tuple):
                for part in map(_named, value.elts):
                    defined += [each.partition(".")[2] for each in functions_of("", read(part))]
    return [f"{name}.{aliases.get(text, text)}" for text in defined if not text.startswith("_")]
