"""
The C{salt} command: run functions on minions and print what they return.

The daemon does the waiting (time-outs, asking the silent ones); here the items
of its C{run} stream become lines, in the order and wording of stock Salt. Batches
are in L{saltwisted.cli.batch}.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from saltwisted import advice
from saltwisted.cli import args as words
from saltwisted.cli import console, link, options, output
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.cli.returns import Return, as_return, formatted, missing_return, retcode_of
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient

EX_NO_TARGET = 42
NOBODY = "No minions matched the target. No command was sent, no jid was assigned."
MOST_NAMES = 10
"""Names of minions in a line about them."""


def awaited(late: Sequence[str]) -> str:
    """
    The line about minions that have yet to connect, after a start of their master or their
    acceptance.
    """
    names = ", ".join(late[:MOST_NAMES])
    more = f" and {len(late) - MOST_NAMES} more" if len(late) > MOST_NAMES else ""
    return (
        f"{names}{more}: the master was started, or the key accepted, a moment ago. Who connects"
        " within publish_window gets the job then\n"
    )


def _say_nobody(answer: Mapping[str, Any]) -> None:
    """Nobody was reached: that, and what is wrong with the target, if the master says so."""
    for problem in answer.get("problems") or ():
        console.write_error(f"{problem}\n")
    console.say(NOBODY)


def _more(parser: Parser) -> None:
    flag = options._flag
    flag(parser, "-s", "--static", help="print all returns together, at the end")
    flag(parser, "-p", "--progress", help="show a progress bar instead of the returns")
    flag(parser, "--failhard", help="with --batch: stop at the first failure")
    flag(parser, "--async", dest="async", help="print the job id and do not wait")
    parser.add_option(
        "--subset",
        type=int,
        default=0,
        help="run on this many of the targeted minions, chosen at random among those that "
        "have the function",
    )
    flag(parser, "-v", "--verbose", help="print the job id first")
    parser.add_option(
        "--hide-timeout",
        dest="show_timeout",
        action="store_false",
        default=True,
        help="accepted for old scripts; minions that do not answer are always shown",
    )
    flag(parser, "--show-jid", dest="show_jid", help="print the job id without the rule below it")
    _batches(parser)
    parser.add_option(
        "--return", default="", metavar="RETURNER", help="also send returns to these returners"
    )
    parser.add_option(
        "--return_config", default="", metavar="CONF", help="configuration of the returner"
    )
    parser.add_option(
        "--return_kwargs", default={}, metavar="KWARGS", help="arguments of the returner"
    )
    flag(
        parser,
        "-d",
        "--doc",
        "--documentation",
        dest="doc",
        help="print the documentation of a function, or of all",
    )
    parser.add_option(
        "--args-separator",
        default=",",
        help="the word between the arguments of several functions (default: '%default')",
    )
    flag(parser, "--summary", dest="cli_summary", help="print counts at the end")
    parser.add_option("--metadata", default="", help="data to keep with the job, for searching")
    parser.add_option(
        "--generation",
        default="",
        metavar="GEN|COMMIT",
        help="run on an earlier tree of the master's files: the generation of a job, or a commit",
    )
    flag(parser, "--start-event", help="minions fire an event before they run the function")
    flag(parser, "--output-diff", dest="state_output_diff", help="show only states that changed")
    flag(parser, "--config-dump", help="print the master's configuration")
    flag(parser, "--preview-target", help="print the minions that match, and run nothing")


def _batches(parser: Parser) -> None:
    parser.add_option(
        "-b",
        "--batch",
        "--batch-size",
        dest="batch",
        default="",
        help="how many minions may run at a time: a number or a percentage",
    )
    parser.add_option(
        "--batch-wait",
        type=float,
        default=0,
        help="seconds to wait after a minion has finished before the next one starts",
    )
    parser.add_option(
        "--batch-safe-limit",
        type=int,
        default=0,
        help="use a batch if at least this many minions match",
    )
    parser.add_option(
        "--batch-safe-size", default=8, help="the size of such a batch (default: %default)"
    )


def build_parser() -> Parser:
    """The options of C{salt}."""
    parser = Parser(
        "salt",
        "%prog [options] '<target>' <function> [arguments]",
        "Runs functions on many machines at once and shows their answers as they come.",
    )
    for add in (
        options.saltfile,
        options.config_dir,
        options.executors,
        options.timeout(5),
        options.stdin_args,
        options.hard_crash,
        options.no_parse,
        _more,
        options.targets(extended=True),
        options.external_auth(),
        options.outputs,
        options.logs(),
    ):
        add(parser)
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run C{salt} with these words; the result is the exit status."""
    line = options.read(build_parser(), argv, "master", environ, needs_id=False)
    _targets_and_function(line)
    client = link.connect(line.opts)
    try:
        return Salt(line, client).run()
    finally:
        client.close()


def _targets_and_function(line: CommandLine) -> None:
    """Fill C{tgt}, C{tgt_type}, C{fun} and C{arg} of the merged options from the words."""
    parser, chosen, rest, opts = line.parser, line.options, line.args, line.opts
    if len(rest) <= 1 and not chosen.doc and not chosen.preview_target:
        parser.print_help()
    opts["selected_target_option"] = options.target_type(parser, chosen)
    if chosen.config_dump:
        from saltwisted.cli.yamlout import dump
        from saltwisted.worker.process.configio import Disk, load_from_disk

        config = load_from_disk("master", line.config_dir, disk=Disk(passing=True)).config
        console.say(dump(dict(config.as_opts()), default_flow_style=False), end="")
        raise SystemExit(0)
    if chosen.preview_target:
        rest.append("not_a_valid_command")
    if chosen.doc:
        if not rest:
            rest.append("*")
        if len(rest) < 2 or rest[1] != "sys.doc":
            rest.insert(1, "sys.doc")
        if len(rest) > 3:
            parser.error("You can only get documentation for one method at one time.")
    if not rest:
        parser.exit(EX_NO_TARGET, "\nCannot execute command without defining a target.\n\n")
    target = rest[0]
    if chosen.list:
        opts["tgt"] = target.replace(" ", "").split(",") if "," in target else target.split()
    else:
        opts["tgt"] = target
    if len(rest) < 2:
        parser.exit(EX_NO_TARGET, "\nIncomplete options passed.\n\n")
    if "," in rest[1]:
        opts["fun"] = rest[1].split(",")
        opts["arg"] = _several(line, len(opts["fun"]), rest[2:])
    else:
        opts["fun"] = rest[1]
        opts["arg"] = words.parse_input(rest[2:], chosen.no_parse)


def _several(line: CommandLine, functions: int, rest: list[str]) -> list[list[Any]]:
    """The arguments of several functions, parted by separators alone or inside of words."""
    separator = line.options.args_separator
    parts: list[list[str]] = [[]]
    if rest.count(separator) == functions - 1:
        for word in rest:
            if word == separator:
                parts.append([])
            else:
                parts[-1].append(word)
    else:
        for word in rest:
            pieces = word.split(separator)
            for number, piece in enumerate(pieces):
                if number:
                    parts.append([])
                if piece or len(pieces) == 1:
                    parts[-1].append(piece)
        if functions > len(parts):
            line.parser.exit(
                EX_NO_TARGET, "Cannot execute compound command without defining all arguments.\n"
            )
        if functions < len(parts):
            line.parser.exit(
                EX_NO_TARGET,
                "Cannot execute compound command with more arguments than commands.\n",
            )
    return [words.parse_input(part, line.options.no_parse) for part in parts]


class Salt:
    """
    One run of the command.

    @ivar opts: the merged configuration.
    @ivar jid: of the job that was published, for the sentence at Ctrl-C.
    """

    def __init__(self, line: CommandLine, client: ControlClient) -> None:
        self.options = line.options
        self.opts = line.opts
        self.client = client
        self.jid: str | None = None
        self._proof: dict[str, Any] | None = None

    def run(self) -> int:
        """Do what the options say; the result is the exit status."""
        try:
            return self._choose(self.options)
        except KeyboardInterrupt:
            console.write_error(_interrupted(self.jid))
            return 0
        except RemoteError as error:
            return self._refused(error)
        except TransportClosed as error:
            console.log("error", f"Unable to connect to the salt master: {error}")
            output.display(
                "The salt master could not be contacted. Is master running?", "", self.opts
            )
            console.write_error(f"{link.start(self.opts)}\n")
            return 2

    def _refused(self, error: RemoteError) -> int:
        """The reason goes where returns go. The status is 2, where stock Salt leaves with 0."""
        output.display(str(error), "", self.opts, _retcode=1)
        return 2

    def _choose(self, chosen: Any) -> int:
        if chosen.batch or chosen.static:
            return self._batch()
        if chosen.preview_target:
            return self.show(self.matching(), self.opts.get("output", "nested"))
        limit = chosen.batch_safe_limit
        if limit > 1 and len(self.matching()) >= limit:
            console.say("\nNOTICE: Too many minions targeted, switching to batch execution.")
            self.opts["batch"] = chosen.batch = chosen.batch_safe_size
            return self._batch()
        publication = self.publication()
        if self.opts.get("async"):
            return self._in_background(publication)
        if chosen.subset:
            publication = self._subset(publication)
        return self._in_front(publication)

    # The publication

    def publication(self) -> dict[str, Any]:
        """What the daemon shall publish, in the shape of Salt's C{publish} load."""
        chosen, opts = self.options, self.opts
        kwargs: dict[str, Any] = {
            "show_timeout": chosen.show_timeout,
            "show_jid": chosen.show_jid,
            "delimiter": chosen.delimiter,
        }
        if chosen.return_config:
            kwargs["ret_config"] = chosen.return_config
        for name, key in (
            ("return_kwargs", "ret_kwargs"),
            ("module_executors", "module_executors"),
            ("executor_opts", "executor_opts"),
            ("metadata", "metadata"),
        ):
            value = getattr(chosen, name)
            if value:
                kwargs[key] = words.value_of(value) if isinstance(value, str) else value
        if chosen.start_event:
            kwargs["start_event"] = True
        if chosen.generation:
            # A name of digits alone is no number
            kwargs["generation"] = chosen.generation
        if chosen.eauth:
            kwargs.update(self.credentials())
        return {
            "tgt": opts["tgt"],
            "tgt_type": opts["selected_target_option"] or "glob",
            "fun": opts["fun"],
            "arg": opts["arg"],
            "ret": getattr(chosen, "return") or "",
            "jid": "",
            "kwargs": kwargs,
            "user": self.sudo_user(),
        }

    @staticmethod
    def sudo_user() -> str:
        """Who stands behind root, for the job's record; the daemon knows everybody else."""
        name = os.environ.get("SUDO_USER", "") if os.geteuid() == 0 else ""
        return f"sudo_{name}" if name else ""

    def credentials(self) -> dict[str, Any]:
        """What external authentication needs: a token, or name and password asked for once."""
        if self._proof is None:
            from saltwisted.cli.credentials import gather

            self._proof = gather(self.options, self.opts, self.client)
        return self._proof

    def timeouts(self) -> dict[str, Any]:
        """Seconds to wait for returns, and for the answers of those asked again."""
        seconds = self.options.timeout
        if seconds <= 0:
            seconds = self.opts["timeout"]
        return {"timeout": seconds, "gather_job_timeout": self.opts["gather_job_timeout"]}

    def matching(self) -> list[str]:
        """The ids that the target means, without publishing anything."""
        found = self.client.call(
            "match",
            tgt=self.opts["tgt"],
            tgt_type=self.opts["selected_target_option"] or "glob",
            delimiter=self.options.delimiter,
            kwargs=self.credentials() if self.options.eauth else {},
        )
        return list(found)

    def _subset(self, publication: dict[str, Any]) -> dict[str, Any]:
        """The same for a few minions, chosen at random among those that have the function."""
        import random

        ask = words.inquiry(publication, "sys.list_functions")
        answers: dict[str, Any] = {}
        for full in self.returns(ask):
            answers.update({name: item["ret"] for name, item in full.items()})
        names = list(answers)
        random.SystemRandom().shuffle(names)
        wanted = publication["fun"]
        having = [
            name
            for name in names
            if isinstance(answers[name], list | tuple | dict) and wanted in answers[name]
        ]
        return {**publication, "tgt": having[: self.options.subset], "tgt_type": "list"}

    # Running it

    def returns(
        self,
        publication: dict[str, Any],
        started: Callable[[dict[str, Any]], None] = lambda item: None,
    ) -> Iterator[Return]:
        """
        Publish, and yield each minion's return as it comes; those that stay silent at the end.

        An empty map is yielded when nobody matched. C{started} gets the item which says
        that the job was published.
        """
        unknown: set[str] = set()
        for item in self.client.stream("run", **publication, **self.timeouts(), full=True):
            kind = item["kind"]
            if kind == "published":
                self.jid = item["jid"] or None
                started(item)
                if item.get("older"):
                    console.write_error(
                        f"{', '.join(item['older'])}: an older job has not returned yet, and the"
                        " files of that one are served until then\n"
                    )
                if item.get("late"):
                    console.write_error(awaited(item["late"]))
                if not item["minions"] or not item["jid"]:
                    _say_nobody(item)
                    yield {}
                    return
                unknown.update(item.get("missing") or ())
            elif kind == "return":
                unknown.discard(item["id"])
                yield {item["id"]: as_return(item["data"])}
            elif kind == "missing":
                connected = item.get("connected") or {}
                for name in item["ids"]:
                    unknown.discard(name)
                    yield {name: missing_return(connected.get(name, True), self.jid)}
        # Named in a list of ids, and not known to the master.
        for name in sorted(unknown):
            yield {name: missing_return(True, self.jid)}

    def _in_background(self, publication: dict[str, Any]) -> int:
        answer = self.client.call("publish", **publication)
        if not answer.get("minions"):
            _say_nobody(answer)
        console.say(f"Executed command with job ID: {answer.get('jid') or 0}")
        return 0

    def _in_front(self, publication: dict[str, Any]) -> int:
        if self.options.progress:
            return self._with_progress(publication)
        if self.opts["fun"] == "sys.doc":
            return self._documentation(publication)
        all_returns: dict[str, Any] = {}
        failed = False
        for full in self.returns(publication, self._announce):
            shown, out, retcode = formatted(full)
            failed = failed or retcode != 0
            status = self.show(shown, out, retcode)
            if status:
                return status
            all_returns.update(full)
        if self.opts.get("cli_summary") is True and self.opts.get("output") is None:
            self._summary(all_returns)
        if failed:
            console.write_error("ERROR: Minions returned with non-zero exit code\n")
            return 1
        return 0

    def _announce(self, item: dict[str, Any]) -> None:
        if not item["jid"] or not item["minions"]:
            return
        if self.options.verbose:
            text = f"Executing job with jid {item['jid']}"
            console.say(f"{text}\n{'-' * len(text)}\n")
        elif self.options.show_jid:
            console.say(f"jid: {item['jid']}")

    def _with_progress(self, publication: dict[str, Any]) -> int:
        from saltwisted.cli.progress import Bar

        bar: list[Bar] = []

        def started(item: dict[str, Any]) -> None:
            self._announce(item)
            bar.append(Bar(len(item["minions"]), sys.stderr))

        collected: dict[str, Any] = {}
        for full in self.returns(publication, started):
            for name, item in full.items():
                if item.get("out") != "no_return":
                    bar[0].step()
                collected[name] = item
        if bar:
            bar[0].end()
        self._summary(collected)
        return 0

    def _documentation(self, publication: dict[str, Any]) -> int:
        collected: dict[str, Any] = {}
        for full in self.returns(publication, self._announce):
            collected.update({name: item["ret"] for name, item in full.items()})
        if not collected:
            console.write_error("No minions found to gather docs from\n")
            return 2
        found: dict[str, Any] = {}
        for answer in collected.values():
            if isinstance(answer, dict):
                for function, text in answer.items():
                    if text and function not in found:
                        found[function] = text
        for function in sorted(found):
            if self.options.output:
                output.display({function: found[function]}, "nested", self.opts)
            else:
                console.say(f"{function}:\n{found[function]}\n")
        return 0

    def _batch(self) -> int:
        from saltwisted.cli.batch import run_batch

        return run_batch(self)

    # Printing

    def show(self, data: Any, out: str, retcode: int = 0) -> int:
        """Print a return; the exit status is 2 if there was nothing in it."""
        output.display(data, out, self.opts, _retcode=retcode)
        if not data:
            console.write_error("ERROR: No return received\n")
            return 2
        return 0

    def _summary(self, returns: Mapping[str, Any]) -> None:
        silent = {
            name: item["ret"]
            for name, item in returns.items()
            if isinstance(item.get("ret"), str) and item["ret"].startswith("Minion did not return")
        }
        failed = [name for name, item in returns.items() if name not in silent and retcode_of(item)]
        rule = "-" * 43
        lines = [
            "\n",
            rule,
            "Summary",
            rule,
            f"# of minions targeted: {len(returns)}",
            f"# of minions returned: {len(returns) - len(silent)}",
            f"# of minions that did not return: {len(silent)}",
            f"# of minions with errors: {len(failed)}",
        ]
        if self.options.verbose:
            away = [name for name, text in silent.items() if "Not connected" in text]
            mute = [name for name in silent if name not in away]
            for title, names in (
                ("Minions not connected", away),
                ("Minions not responding", mute),
                ("Minions with failures", failed),
            ):
                if names:
                    lines.append(f"{title}: {' '.join(names)}")
        lines.append(rule)
        console.say("\n".join(lines))


def _interrupted(jid: str | None) -> str:
    text = "\nExiting gracefully on Ctrl-c\n"
    if jid is not None:
        text += f"This job's jid is: {jid}\n{advice.of('job.lookup', jid=jid)}\n"
    return text
