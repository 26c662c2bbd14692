"""
The C{salt-call} command: one function on this machine, in this process.

With C{--local} nothing else takes part. Otherwise requests to the master go through the
minion that runs here (L{saltwisted.cli.callmaster}), or, where none runs, through a private
one that lives as long as the call. Files, pillar and grains are fetched only if the
function asks for them.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.cli import args as words
from saltwisted.cli import console, options, output
from saltwisted.cli.options import CommandLine, Parser

EX_UNKNOWN = 255
_ROOTS = {"file_root": "--file-root", "pillar_root": "--pillar-root", "states_dir": "--states-dir"}


def _more(parser: Parser) -> None:
    flag = options._flag
    parser.add_option("--proxyid", help="refused: saltwisted has no proxy minions")
    flag(parser, "-g", "--grains", dest="grains_run", help="print the grains")
    parser.add_option(
        "-m", "--module-dirs", action="append", default=[], help="another directory with modules"
    )
    flag(
        parser,
        "-d",
        "--doc",
        "--documentation",
        dest="doc",
        help="print the documentation of a module or function, or of all",
    )
    parser.add_option(
        "--master", default="", help="the master to use instead of the configured one"
    )
    parser.add_option("--return", default="", metavar="RETURNER", help="returners for the return")
    flag(parser, "--local", help="do not contact a master")
    for name, what in (("file-root", "files"), ("pillar-root", "pillar"), ("states-dir", "states")):
        parser.add_option(
            f"--{name}", action="append", help=f"with --local: the directory for {what}"
        )
    flag(parser, "--retcode-passthrough", help="exit with the return code of the function")
    flag(parser, "--metadata", dest="print_metadata", help="print the whole return")
    parser.add_option("--set-metadata", dest="metadata", help="data to keep with the job")
    parser.add_option("--id", default="", help="the minion id to use instead of the configured one")
    flag(parser, "--skip-grains", help="accepted for old scripts; grains are made when needed")
    flag(parser, "--refresh-grains-cache", help="compute the grains again")
    flag(parser, "--no-return-event", help="do not tell the master what was returned")
    parser.add_option(
        "-t", "--timeout", dest="auth_timeout", type=int, default=60, help="seconds for the sign-in"
    )
    flag(parser, "--output-diff", dest="state_output_diff", help="show only states that changed")
    parser.add_option("--priv", dest="user", help="the user to run as")
    parser.add_option("--cachedir", default="/var/cache/salt/", help="another cache directory")


def build_parser() -> Parser:
    """The options of C{salt-call}."""
    parser = Parser(
        "salt-call",
        "%prog [options] <function> [arguments]",
        "Runs an execution function on this machine.",
    )
    for add in (
        options.saltfile,
        options.config_dir,
        options.executors,
        options.stdin_args,
        options.hard_crash,
        options.no_parse,
        _more,
        options.outputs,
        options.profiling,
        options.logs(),
    ):
        add(parser)
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run C{salt-call} with these words; the result is the exit status."""
    parser = build_parser()
    line = options.read(parser, argv, "minion", environ)
    chosen, rest = line.options, line.args
    if chosen.proxyid:
        parser.error("proxy minions are not available")
    if not rest and not chosen.grains_run and not chosen.doc:
        parser.print_help()
        parser.error("Requires function, --grains or --doc")
    if rest and chosen.grains_run:
        parser.error("-g/--grains does not accept any arguments")
    if chosen.doc and len(rest) > 1:
        parser.error("You can only get documentation for one method at one time")
    _override(line)
    from saltwisted.cli.users import become

    become(line.opts)
    console.adopt_logging()
    call = SaltCall(line)
    try:
        return call.run()
    finally:
        call.close()


def _override(line: CommandLine) -> None:
    """Bring what the options say about directories and the master into the configuration."""
    chosen, opts = line.options, line.opts
    for name, key in (("file_root", "file_roots"), ("pillar_root", "pillar_roots")):
        given = getattr(chosen, name)
        if given:
            opts[key] = {"base": [os.path.abspath(path) for path in given]}
    if chosen.states_dir:
        opts["states_dirs"] = [os.path.abspath(path) for path in chosen.states_dir]
    if not chosen.local:
        ignored = [flag for name, flag in _ROOTS.items() if getattr(chosen, name)]
        if ignored:
            console.write_error(
                f"Warning: {', '.join(ignored)} {'is' if len(ignored) == 1 else 'are'} ignored "
                "because --local was not specified; the remote file client retrieves these from "
                "the master. Re-run with --local to use the local override.\n"
            )
    for directories in chosen.module_dirs:
        found = [os.path.abspath(path) for path in directories.split(",")]
        opts["module_dirs"] = [*(opts.get("module_dirs") or []), *found]
    if line.given("cachedir"):
        opts["cachedir"] = os.path.abspath(chosen.cachedir)
        opts["extension_modules"] = os.path.join(opts["cachedir"], "extmods")
    if chosen.local:
        opts["file_client"] = "local"
    if line.given("refresh_grains_cache"):
        opts["grains_cache"] = False
    if isinstance(chosen.module_executors, str) and chosen.module_executors:
        # Of the command line; what the configuration says is a value already
        opts["module_executors"] = words.value_of(chosen.module_executors)
    opts["fun"] = line.args[0] if line.args else ""
    opts["arg"] = line.args[1:]


class SaltCall:
    """One run of the command."""

    def __init__(self, line: CommandLine) -> None:
        self.line = line
        self.options = line.options
        self.opts = line.opts
        self.fun: str = line.opts["fun"]
        self.local = (
            self.opts.get("file_client") == "local" or self.opts.get("master_type") == "disable"
        )
        from saltwisted.cli.callmaster import Surroundings

        self.around = Surroundings(line, self.local)
        self.loaders = self.around.loaders

    def close(self) -> None:
        """Hang up, and end what was started for this call."""
        self.around.close()

    def run(self) -> int:
        """Do what the options say; the result is the exit status."""
        if self.options.grains_run:
            output.display({"local": dict(self.loaders.grains)}, "grains", self.opts)
            return 0
        functions = self.loaders.called
        if self.options.doc:
            for name, function in sorted(functions.items()):
                if name.startswith(self.fun) and function.__doc__:
                    console.say(f"{name}:\n{function.__doc__}\n")
            return 0
        if self.fun not in functions:
            self.around.witness.put_back()
            return self._unknown()
        ret: dict[str, Any] = {"jid": _new_jid()}
        try:
            status = self._call(ret)
        finally:
            self.around.witness.put_back()
        if status is not None:
            return status
        outputter = getattr(functions[self.fun], "__outputter__", None)
        if isinstance(outputter, str):
            ret["out"] = outputter
        ret["id"] = self.opts["id"]
        ret["fun"] = self.fun
        ret["fun_args"] = self.opts["arg"]
        if self.options.metadata is not None:
            ret["metadata"] = words.value_of(self.options.metadata)
        self._hand_on(ret)
        return self._show(ret)

    def _unknown(self) -> int:
        """A function that is not there: the documentation of those like it, or why."""
        why = self.loaders.called.missing_fun_string(self.fun)
        functions = self.loaders.modules
        docs = functions["sys.doc"](f"{self.fun}*") if "sys.doc" in functions else {}
        if docs:
            return self._show({"return": {**docs, self.fun: why}, "out": "nested", "retcode": 1})
        console.write_error(why + "\n")
        return EX_UNKNOWN

    def _call(self, ret: dict[str, Any]) -> int | None:
        """Run the function and fill C{ret}; or say what went wrong, and the exit status."""
        from saltwisted.worker.exceptions import (
            CommandExecutionError,
            CommandNotFoundError,
            SaltInvocationError,
        )
        from saltwisted.worker.jobfiles import remove_quietly, write_proc
        from saltwisted.worker.process.call import split_arguments

        job: dict[str, Any] = {
            "fun": self.fun,
            "pid": os.getpid(),
            "jid": ret["jid"],
            "tgt": "salt-call",
        }
        if self.options.metadata is not None:
            job["metadata"] = words.value_of(self.options.metadata)
        if self.options.executor_opts:
            job["executor_opts"] = words.value_of(self.options.executor_opts)
        given = words.parse_input(self.opts["arg"], self.options.no_parse)
        proc = None
        try:
            proc = write_proc(self.opts["cachedir"], job, os.getpid())
        except OSError:
            console.write_error(
                "Cannot write to process directory. Do you have permissions to write to "
                f"{os.path.join(self.opts['cachedir'], 'proc', ret['jid'])} ?\n"
            )
        try:
            try:
                split_arguments(self.loaders.modules[self.fun], given, job)
            except SaltInvocationError as error:
                console.write_error(f"{error}\n")
                return 1
            ret["return"] = value = self._value(job, given)
            ret["retcode"] = self._retcode(value)
            return None
        except CommandNotFoundError as error:
            console.write_error(f"Command required for '{self.fun}' not found: {error}\n")
        except CommandExecutionError as error:
            if console.enabled("debug"):
                console.write_error(traceback.format_exc())
            console.write_error(f"Error running '{self.fun}': {error}\n")
        except TypeError as error:
            console.write_error(f"\nPassed invalid arguments: {error}.\n\nUsage:\n")
            console.say(str(self.loaders.modules[self.fun].__doc__))
            if console.enabled("debug"):
                console.write_error(traceback.format_exc())
        except Exception:
            if self.options.hard_crash:
                raise
            console.write_error(traceback.format_exc())
        finally:
            if proc is not None:
                remove_quietly(proc)
        return 1

    def _value(self, job: Mapping[str, Any], given: Sequence[Any]) -> Any:
        """What the function gives back; all of it, if it yields."""
        from saltwisted.worker.process.call import call
        from saltwisted.worker.unlogged import unlogged_job

        with unlogged_job(job):
            value = call(self.loaders, job, self.fun, given)
            return list(value) if hasattr(value, "__next__") else value

    def _retcode(self, value: Any) -> int:
        code = self.loaders.context.get("retcode", 0)
        if code == 0 and isinstance(value, Mapping):
            good = value.get("result", True) and value.get("success", True)
            return 0 if good else 1
        return int(code)

    def _hand_on(self, ret: dict[str, Any]) -> None:
        """Give the return to returners, and to the master or the job cache of this machine."""
        for name in filter(None, getattr(self.options, "return").split(",")):
            ret["success"] = True
            try:
                self.loaders["returners"][f"{name}.returner"](ret)
            except Exception as error:
                console.log("error", f"The returner {name} failed: {type(error).__name__}: {error}")
        self.around.witness.put_back()
        if not self.local and not self.options.no_return_event:
            self.around.tell_master(ret)
        elif self.opts.get("cache_jobs"):
            from saltwisted.worker.process.main import cache_job

            cache_job(self.opts, ret)

    def _show(self, ret: dict[str, Any]) -> int:
        retcode = ret.get("retcode", 0)
        whole = self.options.print_metadata
        output.display(
            {"local": ret if whole else ret.get("return", {})},
            "nested" if whole else ret.get("out", "nested"),
            self.opts,
            _retcode=retcode,
        )
        if self.options.retcode_passthrough:
            return int(retcode)
        return 1 if retcode else 0


def _new_jid() -> str:
    from time import time

    from saltwisted.domain.jid import jid_at

    return jid_at(time())
