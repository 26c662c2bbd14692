"""
The options of Salt's commands, and how they meet the configuration.

Each command is a list of groups of options over C{optparse}, which Salt uses as
well: abbreviations, clustered short options and error texts are therefore the
same. After parsing, an option wins over the configuration file only if it was
given; where it was not, the file's value is what the command sees
(L{CommandLine.opts} is the merged map, in Salt's names).

The help texts are ours. Options that Salt accepts and that mean nothing here
(profiling, C{--hosts}) are accepted with a sentence on stderr or refused in
the command itself, not here.
"""

from __future__ import annotations

import optparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from saltwisted.cli import console

EX_USAGE = 64
_LEVEL_CHOICES = [
    "all",
    "debug",
    "error",
    "critical",
    "garbage",
    "info",
    "profile",
    "quiet",
    "trace",
    "warning",
]


class _Option(optparse.Option):
    """An option that remembers whether it was given."""

    explicit = False

    def take_action(self, *args: Any, **kwargs: Any) -> Any:
        self.explicit = True
        return super().take_action(*args, **kwargs)


class Parser(optparse.OptionParser):
    """C{optparse} with Salt's exit status for usage errors (64) and its two version flags."""

    def __init__(self, prog: str, usage: str, description: str) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            option_class=_Option,
            add_help_option=False,
            epilog="When you ask for help, add the output of "
            f"{shown_name(prog)} --versions-report.",
        )
        self.add_option("--version", action="callback", callback=_show_version, help=_VERSION_HELP)
        self.add_option(
            "-V",
            "--versions-report",
            action="callback",
            callback=_show_report,
            help="show the versions of saltwisted and of everything that it uses, and exit",
        )
        self.add_option("-h", "--help", action="help", help="show this text and exit")

    def shown_name(self) -> str:
        """What a person types to run this command; a Saltfile has its name alone."""
        return shown_name(self.get_prog_name())

    def expand_prog_name(self, s: str) -> str:
        """C{%prog} in usage texts."""
        return s.replace("%prog", self.shown_name())

    def error(self, msg: str) -> NoReturn:
        """Print the usage and the reason on stderr, and leave with status 64."""
        self.print_usage(sys.stderr)
        self.exit(EX_USAGE, f"{self.shown_name()}: error: {msg}\n")

    def exit(self, status: int = 0, msg: str | None = None) -> NoReturn:
        """Leave, with a line on stderr."""
        if msg:
            console.write_error(msg if msg.endswith("\n") else msg + "\n")
        raise SystemExit(status)

    def every_option(self) -> list[_Option]:
        """All options that have a name in the result, groups included."""
        found = list(self.option_list)
        for group in self.option_groups:
            found.extend(group.option_list)
        return [option for option in found if isinstance(option, _Option) and option.dest]


def shown_name(prog: str) -> str:
    """Salt's commands have links of their own; the others are words after C{saltwisted}."""
    return prog if prog.startswith("salt") else f"saltwisted {prog}"


_VERSION_HELP = "show the version and exit"


def _show_version(_option: Any, _opt: str, _value: Any, parser: Parser) -> None:
    from saltwisted import __version__
    from saltwisted.config.compat import COMPAT_VERSION_TEXT

    name = parser.get_prog_name()
    console.say(f"{name} {COMPAT_VERSION_TEXT} (saltwisted {__version__})")
    raise SystemExit(0)


def _show_report(_option: Any, _opt: str, _value: Any, _parser: Parser) -> None:
    from saltwisted.worker.versions import versions_report

    console.say("\n".join(versions_report()))
    raise SystemExit(0)


Group = Callable[[Parser], None]


def _flag(where: Any, *names: str, **more: Any) -> None:
    where.add_option(*names, action="store_true", default=more.pop("default", False), **more)


def saltfile(parser: Parser) -> None:
    """C{--saltfile}: defaults for the command line in a file of the project."""
    parser.add_option(
        "--saltfile", help="a Saltfile with defaults for this command (else ./Saltfile is used)"
    )


def config_dir(parser: Parser) -> None:
    """C{-c}."""
    parser.add_option(
        "-c",
        "--config-dir",
        help="the directory with the files master and minion (default: $SALTWISTED_CONFIG_DIR, "
        "$SALT_CONFIG_DIR, /etc/saltwisted or /etc/salt)",
    )


def executors(parser: Parser) -> None:
    """C{--module-executors}, C{--executor-opts}."""
    parser.add_option(
        "--module-executors", metavar="LIST", help="executors to use instead of the minion's own"
    )
    parser.add_option("--executor-opts", metavar="OPTS", help="options for the executors")


def timeout(default: int) -> Group:
    """C{-t}."""

    def add(parser: Parser) -> None:
        parser.add_option(
            "-t",
            "--timeout",
            type=int,
            default=default,
            help="seconds to wait before asking silent minions whether they still run the job "
            "(default: %default, or the configuration's)",
        )

    return add


def stdin_args(parser: Parser) -> None:
    """C{--args-stdin}."""
    _flag(parser, "--args-stdin", help="read more options and arguments from stdin, one per line")


def hard_crash(parser: Parser) -> None:
    """C{--hard-crash}."""
    _flag(
        parser,
        "--hard-crash",
        default=os.environ.get("SALT_HARD_CRASH", False),
        help="show a traceback for errors of the command itself",
    )


def no_parse(parser: Parser) -> None:
    """C{--no-parse}."""
    parser.add_option(
        "--no-parse",
        metavar="name1,name2,...",
        default=os.environ.get("SALT_NO_PARSE", ""),
        help="keywords whose values are text, whatever they look like",
    )


def jid(parser: Parser) -> None:
    """C{--jid}."""
    parser.add_option("--jid", help="the job id to use instead of a new one")


def external_auth(short: bool = True) -> Group:
    """C{-a}, C{-T}, C{--username}, C{--password}. C{salt-key} has no C{-a} to spare."""

    def add(parser: Parser) -> None:
        group = parser.add_option_group("External Authentication")
        names = ["--auth", "--eauth", "--external-auth"]
        group.add_option(
            *(["-a", *names] if short else names),
            dest="eauth",
            default="",
            metavar="EAUTH",
            help="the external authentication system that checks the user",
        )
        _flag(group, "-T", "--make-token", dest="mktoken", help="make a token, for later calls")
        group.add_option("--username", help="user name for external authentication")
        group.add_option("--password", help="password for external authentication")

    return add


def targets(extended: bool) -> Group:
    """The kinds of targets; C{extended} has compound, pillar and address targets too."""

    def add(parser: Parser) -> None:
        group = parser.add_option_group("Target Options", "What kind of thing the target is.")
        _flag(group, "-H", "--hosts", dest="list_hosts", help="list the hosts of a roster")
        _flag(group, "-E", "--pcre", help="a regular expression over minion ids")
        _flag(group, "-L", "--list", help="minion ids, separated by commas or spaces")
        _flag(group, "-G", "--grain", help='a grain and a glob: "os:Deb*"')
        _flag(group, "-P", "--grain-pcre", help='a grain and a regular expression: "os:Deb.*"')
        _flag(group, "-N", "--nodegroup", help="the name of a group in the configuration")
        _flag(group, "-R", "--range", help="a range expression: %cluster")
        if extended:
            _flag(group, "-C", "--compound", help='several kinds: "G@os:Debian and web* or E@db.*"')
            _flag(
                group,
                "-I",
                "--pillar",
                dest="pillar_target",
                help='a pillar value and a glob: "role:prod*"',
            )
            _flag(
                group,
                "-J",
                "--pillar-pcre",
                help='a pillar value and a regular expression: "role:prod.*"',
            )
            _flag(group, "-S", "--ipcidr", help="an address or a network: 10.1.0.0/16")
        more = parser.add_option_group("Additional Target Options")
        more.add_option(
            "--delimiter",
            default=":",
            help="the sign between the levels of grain and pillar targets (default: '%default')",
        )

    return add


_TARGET_NAMES = (
    "list_hosts",
    "pcre",
    "list",
    "grain",
    "grain_pcre",
    "nodegroup",
    "range",
    "compound",
    "pillar_target",
    "pillar_pcre",
    "ipcidr",
)


def target_type(parser: Parser, options: Any) -> str | None:
    """Which target option was given, in Salt's words; two at once are an error."""
    chosen = [name for name in _TARGET_NAMES if getattr(options, name, False) is True]
    if len(chosen) > 1:
        ordered = [o for o in parser.every_option() if o.dest in chosen]
        names = "/".join(option.get_opt_string() for option in ordered)
        parser.error(f"The options {names} are mutually exclusive. Please only choose one of them")
    if not chosen:
        return None
    return "pillar" if chosen[0] == "pillar_target" else chosen[0]


def outputs(parser: Parser) -> None:
    """The output options, which all commands share."""
    group = parser.add_option_group("Output Options")
    group.add_option(
        "--out", "--output", dest="output", metavar="OUTPUT", help="the outputter to print with"
    )
    group.add_option(
        "--out-indent",
        "--output-indent",
        dest="output_indent",
        type=int,
        help="columns per level, for outputters that indent; negative for one line",
    )
    group.add_option(
        "--out-file",
        "--output-file",
        dest="output_file",
        help="a file for the output; it is emptied first",
    )
    _flag(
        group,
        "--out-file-append",
        "--output-file-append",
        dest="output_file_append",
        help="do not empty the output file first",
    )
    _flag(group, "--no-color", "--no-colour", dest="no_color", help="never print colours")
    _flag(
        group,
        "--force-color",
        "--force-colour",
        dest="force_color",
        help="print colours even into a file or pipe",
    )
    group.add_option(
        "--state-output",
        "--state_output",
        help="how states are shown: full, terse, mixed, changes or filter, each also with _id",
    )
    group.add_option(
        "--state-verbose",
        "--state_verbose",
        help="True or False: whether states that changed nothing are shown",
    )


def logs(short: bool = True, file_option: str = "log_file") -> Group:
    """C{-l}, C{--log-file}, C{--log-file-level}. C{salt-key} has another use for C{-l}."""

    def add(parser: Parser) -> None:
        group = parser.add_option_group("Logging Options")
        group.add_option(
            *(["-l"] if short else []),
            "--log-level",
            choices=_LEVEL_CHOICES,
            help="the lowest level on stderr: all, garbage, trace, debug, profile, info, warning, "
            "error, critical, quiet (those before info may show secrets)",
        )
        group.add_option("--log-file", dest=file_option, help="the log file")
        group.add_option(
            "--log-file-level",
            dest="log_level_logfile",
            choices=_LEVEL_CHOICES,
            help="the lowest level in the log file",
        )

    return add


def profiling(parser: Parser) -> None:
    """C{--profiling-path}, C{--enable-profiling}."""
    group = parser.add_option_group("Profiling support")
    group.add_option("--profiling-path", default="/tmp/stats", help="where profiles go")  # noqa: S108
    _flag(group, "--enable-profiling", dest="profiling_enabled", help="profile the call")


class CommandLine:
    """
    A command line, read and merged with the configuration.

    @ivar options: what C{optparse} found; given options and defaults.
    @ivar args: the words that are not options.
    @ivar opts: configuration and options under Salt's names.
    @ivar config_dir: the directory that was read.
    """

    def __init__(
        self, parser: Parser, options: Any, args: list[str], opts: dict[str, Any], config_dir: str
    ) -> None:
        self.parser = parser
        self.options = options
        self.args = args
        self.opts = opts
        self.config_dir = config_dir

    def given(self, name: str) -> bool:
        """Whether the option stood on the command line (or in a Saltfile)."""
        return any(o.explicit for o in self.parser.every_option() if o.dest == name)


def read(
    parser: Parser,
    argv: Sequence[str],
    role: str,
    environ: Mapping[str, str] = os.environ,
    log_option: str = "log_file",
    needs_id: bool = True,
) -> CommandLine:
    """
    Read the command line and the configuration behind it.

    @param role: C{master} or C{minion}: whose file is read.
    @param needs_id: whether C{id} is used; where it is not configured, DNS may be asked for it.
    @raises SystemExit: 64 for a wrong command line, 1 for a configuration that cannot be read.
    """
    options, args = parser.parse_args(list(argv))
    if getattr(options, "args_stdin", False):
        lines = [line.rstrip("\r\n") for line in sys.stdin]
        options, more = parser.parse_args(lines, options)
        args.extend(more)
    _read_saltfile(parser, options, environ)
    _normalise(parser, options)
    opts, directory = _configuration(parser, options, role, environ, needs_id)
    _merge(parser, options, opts)
    if "output" in opts and opts["output"] is None:
        del opts["output"]
    _start_logging(parser, options, opts, log_option)
    for path in options.passed_over:
        # With the main file nearly everything is missing; beside it are secrets of the daemon
        level = "warning" if path == opts["conf_file"] else "info"
        console.log(level, f"{path} may not be read by this user, and is passed over")
    return CommandLine(parser, options, args, opts, directory)


def _read_saltfile(parser: Parser, options: Any, environ: Mapping[str, str]) -> None:
    path = options.saltfile or environ.get("SALT_SALTFILE")
    if path is None:
        places = ["Saltfile", os.path.expanduser("~/.salt/Saltfile")]
        path = next((place for place in places if os.path.isfile(place)), None)
    if path is None:
        return
    if not os.path.isfile(path):
        parser.error(f"'{path}' file does not exist.\n")
    mine = _yaml_file(parser, path).get(parser.get_prog_name())
    if not isinstance(mine, dict):
        return
    for option in parser.every_option():
        name = str(option.dest)
        if name in mine:
            value = mine.pop(name)
            if getattr(options, name) == parser.defaults.get(name):
                setattr(options, name, value)
                option.explicit = True
    for name, value in mine.items():
        setattr(options, str(name), value)


def _yaml_file(parser: Parser, path: str) -> dict[str, Any]:
    import yaml

    from saltwisted.cli.yamlin import load

    try:
        with open(path, "rb") as file:
            found = load(file.read())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        parser.exit(1, f"{parser.get_prog_name()}: error: {path}: {error}\n")
    return found if isinstance(found, dict) else {}


def _normalise(parser: Parser, options: Any) -> None:
    """Bring values that may be words or lists into the form that the commands use."""
    if hasattr(options, "no_parse"):
        names = options.no_parse or ""
        options.no_parse = [name.strip() for name in names.split(",")] if names else []
    for name in ("state_verbose", "rotate_aes_key", "preserve_minions"):
        value = getattr(options, name, None)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            setattr(options, name, value.lower() == "true")
    path = getattr(options, "output_file", None)
    if path and not options.output_file_append and os.path.isfile(path):
        try:
            os.truncate(path, 0)  # kept with its mode and owner
        except OSError as error:
            parser.error(f"{path}: Access denied: {error}")
    number = getattr(options, "jid", None)
    if number is not None:
        from saltwisted.domain.jid import is_jid

        if not is_jid(number):
            parser.error(f"'{number}' is not a valid JID")


def _configuration(
    parser: Parser, options: Any, role: str, environ: Mapping[str, str], needs_id: bool
) -> tuple[dict[str, Any], str]:
    from saltwisted.errors import ConfigError, SaltwistedError, WrongPlace
    from saltwisted.worker.process.configio import Disk, load_from_disk

    disk = Disk(passing=True)
    directory = options.config_dir
    try:
        loaded = load_from_disk(role, directory, environ, guess_id=needs_id, disk=disk)
    except WrongPlace:
        raise
    except ConfigError as error:
        console.write_error(f"[ERROR   ] Error in the configuration: {error}\n")
        raise SystemExit(1) from None
    except (SaltwistedError, OSError) as error:
        parser.error(f"Failed to load configuration: {error}")
    opts = dict(loaded.config.as_opts())
    found = str(opts.get("config_dir") or loaded.config.config_dir)
    opts["conf_file"] = os.path.join(found, role)
    if role == "master":
        _read_saltrc(parser, opts, environ)
    options.config_dir = found
    options.passed_over = disk.passed
    return opts, found


def _read_saltrc(parser: Parser, opts: dict[str, Any], environ: Mapping[str, str]) -> None:
    """A user's own settings for the commands: C{~/.saltrc}, or the file the environment names."""
    path = environ.get("SALT_CLIENT_CONFIG") or os.path.expanduser("~/.saltrc")
    if os.path.isfile(path):
        opts.update(_yaml_file(parser, path))


def _merge(parser: Parser, options: Any, opts: dict[str, Any]) -> None:
    for option in parser.every_option():
        name = str(option.dest)
        value = getattr(options, name, parser.defaults.get(name))
        known = opts.get(name)
        if known is None or (value is not None and option.explicit):
            if value is not None:
                opts[name] = value
        else:
            setattr(options, name, known)


def _start_logging(parser: Parser, options: Any, opts: dict[str, Any], log_option: str) -> None:
    level = str(opts.get("log_level") or "warning")
    prefix = "# " if getattr(options, "output", None) == "yaml" else ""
    console.configure(
        level,
        opts.get(log_option),
        str(opts.get("log_level_logfile") or level),
        prefix,
        any(o.explicit for o in parser.every_option() if o.dest == log_option),
    )
    if console.LEVELS.get(level, 30) < console.LEVELS["info"]:
        console.log(
            "warning", "Insecure logging configuration detected! Sensitive data may be logged."
        )
