"""
The C{salt-run} command: functions that run on the master.

The master runs them; progress events become lines as they come, the value is printed
by the outputter that the runner names. C{state.event} is served here, from the
master's event stream, since it prints lines of its own.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted import advice
from saltwisted.cli import args as words
from saltwisted.cli import console, elsewhere, link, options, output, steps
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient

EX_NO_MASTER = 2
_BROKEN = "Exception occurred in runner "


def _more(parser: Parser) -> None:
    flag = options._flag
    flag(
        parser,
        "-d",
        "--doc",
        "--documentation",
        dest="doc",
        help="print the documentation of a runner, of a function, or of all",
    )
    flag(parser, "--async", dest="async", help="start the runner and do not wait")
    flag(parser, "--skip-grains", help="accepted for old scripts; no grains are loaded")
    flag(parser, "--quiet", help="print nothing")


def build_parser() -> Parser:
    """The options of C{salt-run}."""
    parser = Parser(
        "salt-run",
        "%prog [options] <function> [arguments]",
        "Runs a runner: a function on the master itself.",
    )
    for add in (
        options.saltfile,
        options.config_dir,
        options.timeout(1),
        options.stdin_args,
        options.jid,
        options.hard_crash,
        options.no_parse,
        _more,
        options.external_auth(),
        options.outputs,
        options.profiling,
        options.logs(),
    ):
        add(parser)
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run C{salt-run} with these words; the result is the exit status."""
    parser = build_parser()
    line = options.read(parser, argv, "master", environ, needs_id=False)
    if line.options.doc and len(line.args) > 1:
        parser.error("You can only get documentation for one method at one time")
    client = link.connect(line.opts)
    try:
        return SaltRun(line, client).run()
    finally:
        client.close()


class SaltRun:
    """One run of the command."""

    def __init__(self, line: CommandLine, client: ControlClient) -> None:
        self.options = line.options
        self.opts = line.opts
        self.client = client
        self.orchestration = ""
        self.fun = line.args[0] if line.args else ""
        self.args, self.kwargs = words.parse(line.args[1:], line.options.no_parse)
        self.opts["fun"] = self.fun
        self.opts["arg"] = line.args[1:]

    def run(self) -> int:
        """Do what the options say; the result is the exit status."""
        try:
            if self.options.doc or not self.fun:
                self._print_docs(self._docs(self.fun))
                return 0
            if self.fun == "state.event" and self.kwargs.get("node", "master") == "master":
                try:
                    return self._watch(*self.args, **self.kwargs)
                except TypeError as error:
                    self._display(f"Passed invalid arguments: {error}", "nested")
                    return 0
            return self._run()
        except RemoteError as error:
            self._display(str(error), "nested")
            return 1
        except TransportClosed as error:
            if self.orchestration:
                shown = link.told(advice.of("orch.show", jid=self.orchestration), self.opts)
                console.write_error(
                    f"The master has gone while orchestration {self.orchestration} was running. "
                    f"{shown}\n"
                )
                return EX_NO_MASTER
            console.log("error", f"Unable to connect to the salt master: {error}")
            console.write_error(
                f"Runners run in the master, and none is running here. {link.start(self.opts)}\n"
            )
            return EX_NO_MASTER

    def _run(self) -> int:
        request: dict[str, Any] = {
            "fun": self.fun,
            "arg": words.condense(self.args, None),
            "kwarg": self.kwargs,
        }
        if self.options.jid:
            request["jid"] = self.options.jid
        if self.options.eauth:
            from saltwisted.cli.credentials import gather

            request.update(gather(self.options, self.opts, self.client))
        if self.opts.get("async"):
            answer = self.client.call("runner", **request, **{"async": True})
            console.log("warning", _in_background(answer["tag"]))
            return 0
        if steps.are_shown() and not self.options.quiet:
            request["steps"] = True
        return self._finish(self._follow(request))

    def _follow(self, request: dict[str, Any]) -> dict[str, Any]:
        """Show progress until the runner has ended; its whole answer."""
        stream = self.client.stream("runner", **request)
        while True:
            try:
                item = next(stream)
            except StopIteration as end:
                return dict(end.value)
            if "orchestration" in item:
                self.orchestration = str(item["orchestration"])
                continue
            if "step" in item:
                steps.show(item["step"])
                continue
            if "say" in item:
                console.say(item["say"])
                continue
            if "err" in item:
                console.write_error(f"{item['err']}\n")
                continue
            if "log" in item:
                console.log(item["log"], item["text"])
                continue
            suffix = str(item.get("tag", "")).rsplit("/", 1)[-1]
            if suffix in ("new", "ret"):
                continue
            event = item.get("data")
            if suffix == "generation" and isinstance(event, dict) and event.get("generation"):
                # Not on standard output, which has Salt's form
                console.write_error(f"Roots generation: {event['generation']}\n")
                for minion, names in (event.get("mixed") or {}).items():
                    console.write_error(f"Roots mixed: {minion} also got {', '.join(names)}\n")
                continue
            if suffix == "claims" and isinstance(event, dict) and event.get("minions"):
                names = ", ".join(map(str, event["minions"]))
                console.write_error(f"Not asked for, said by the minion alone: {names}\n")
                continue
            named = event.get("outputter") if isinstance(event, dict) else None
            self._display({"suffix": suffix, "event": event}, named)

    def _finish(self, answer: dict[str, Any]) -> int:
        """Print the value; the status is the runner's own return code if it has one."""
        value = answer.get("return")
        if value == f"'{self.fun}' is not available." and elsewhere.is_runner(self.fun):
            console.write_error(f"The runner {self.fun} is not part of saltwisted.\n")
            return 1
        if value == f"'{self.fun}' is not available.":
            docs = self._docs(f"{self.fun}*")
            self._display(docs or value, "nested")
            # Whoever names a module wants to read of it; a function that is not there is an error
            return 0 if docs else 1
        if answer.get("jid"):
            console.log("info", f"Runner completed: {answer['jid']}")
        outputter = answer.get("outputter")
        shown = value
        if isinstance(value, dict):
            outputter = outputter or value.get("outputter")
        if isinstance(value, dict) and set(value) == {"data", "outputter"}:
            shown = value["data"]
        else:
            # Also C{--out=highstate}, which does not count elsewhere
            outputter = self.opts.get("output") or outputter
        self._display(shown, outputter)
        return _status(answer)

    def _display(self, data: Any, outputter: str | None) -> None:
        if not self.options.quiet:
            output.display(data, outputter, self.opts)

    def _docs(self, match: str) -> dict[str, str]:
        """Documentation by function: of all, of a module, of a function, or of a glob."""
        answer = self.client.call("runner", fun="doc.runner", arg=[], kwarg={}, keep=False)
        docs: dict[str, str] = answer["return"]
        if not match:
            return docs
        if "*" in match:
            return {name: text for name, text in docs.items() if fnmatch.fnmatch(name, match)}
        begin = match if match.endswith(".") else match + "."
        return {
            name: text for name, text in docs.items() if name == match or name.startswith(begin)
        }

    def _print_docs(self, docs: Mapping[str, str]) -> None:
        for name in sorted(docs):
            output.display(f"{name}:", "text", self.opts)
            console.say(docs[name])

    def _watch(
        self,
        tagmatch: str = "*",
        count: int = -1,
        quiet: bool = False,
        sock_dir: str | None = None,
        pretty: bool = False,
        node: str = "master",
    ) -> int:
        """Print the events whose tags match: the tag, a tab, and the data as JSON."""
        import json

        client = self.client
        if sock_dir:
            client = link.connect({"sock_dir": sock_dir})
        matches = _tag_matcher(str(tagmatch))
        stream = client.stream("events", tags=[""], match="startswith")
        for item in stream:
            tag = item["tag"]
            if item.get("ready") or not matches(tag):
                continue
            if not quiet:
                text = json.dumps(
                    item["data"],
                    sort_keys=bool(pretty),
                    indent=4 if pretty else None,
                    default=repr,
                    ensure_ascii=False,
                )
                console.say(f"{tag}\t{text}")
            count -= count > 0
            if count == 0:
                break
        stream.close()
        return 0


def _tag_matcher(expression: str) -> Any:
    """As Salt: a glob, or else a regular expression over the whole tag."""
    import re

    try:
        pattern = re.compile(rf"\A{expression}\Z")
    except re.error:
        pattern = None

    def matches(tag: str) -> bool:
        if fnmatch.fnmatch(tag, expression):
            return True
        return pattern is not None and pattern.match(tag) is not None

    return matches


def _in_background(tag: str) -> str:
    return (
        "Running in asynchronous mode. Results of this execution may be collected by attaching to "
        "the master event bus or by examining the master job cache, if configured. This execution "
        f"is running under tag {tag}"
    )


def _status(answer: Mapping[str, Any]) -> int:
    """The answer's return code, or the one inside of the value, as orchestrations have it."""
    if "retcode" in answer:
        return int(answer["retcode"])
    value = answer.get("return")
    if isinstance(value, dict):
        inner = value.get("data")
        for place in (value, inner if isinstance(inner, dict) else {}):
            if "retcode" in place:
                return int(place["retcode"])
    broken = isinstance(value, str) and value.startswith(_BROKEN)
    return 1 if broken and answer.get("success") is False else 0
