"""
C{salt}: what is asked of the daemon, and what the user sees.

The expected texts are those of stock Salt 3008.2 for the same returns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.cli.support import CommandTestCase, Refusal

JID = "20261121064303567846"


def job(
    *returns: tuple[str, Any, int], missing: tuple[str, ...] = (), connected: bool = True
) -> Any:
    """A C{run} operation with these returns (id, value, code) and these silent minions."""

    def answer(_args: dict[str, Any]) -> Iterator[dict[str, Any]]:
        ids = [name for name, _, _ in returns] + list(missing)
        yield {"kind": "published", "jid": JID if ids else "", "minions": ids, "missing": []}
        for name, value, code in returns:
            data = {"return": value, "retcode": code, "success": not code, "jid": JID, "fun": "f"}
            yield {"kind": "return", "id": name, "data": data}
        if missing:
            yield {
                "kind": "missing",
                "ids": list(missing),
                "connected": dict.fromkeys(missing, connected),
            }

    return answer


class ReturnsTests(CommandTestCase):
    """Returns, one by one."""

    def test_in_order_of_arrival(self) -> None:
        """Returns are printed as they come, not sorted."""
        self.daemon(run=job(("beta", True, 0), ("alpha", True, 0)))

        result = self.command("salt", "*", "test.ping")

        self.assertEqual(result.out, "beta:\n    True\nalpha:\n    True\n")
        self.assertEqual((result.status, result.err), (0, ""))

    def test_awaited(self) -> None:
        """Minions that have yet to connect are named beside the returns, of many the first ten."""
        late = [f"m{number}" for number in range(12)]

        def answer(_args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            for item in job(("m0", True, 0))(_args):
                yield {**item, "late": late} if item["kind"] == "published" else item

        self.daemon(run=answer)

        result = self.command("salt", "*", "test.ping")

        self.assertEqual(result.out, "m0:\n    True\n")
        names = ", ".join(late[:10])
        self.assertTrue(result.err.startswith(f"{names} and 2 more: the master was"), result.err)
        self.assertIn("publish_window", result.err)

    def test_what_is_asked(self) -> None:
        """The daemon gets Salt's publish load, with parsed arguments and the time-outs."""
        daemon = self.daemon(run=job(("m", None, 0)))

        self.command("salt", "-t", "7", "-G", "os:Debian", "cmd.run", "echo 1", "3", "shell=/x")

        op, args = daemon.asked[0]
        self.assertEqual(op, "run")
        self.assertEqual(args["tgt"], "os:Debian")
        self.assertEqual(args["tgt_type"], "grain")
        self.assertEqual(args["fun"], "cmd.run")
        self.assertEqual(args["arg"], ["echo 1", 3, {"__kwarg__": True, "shell": "/x"}])
        self.assertEqual((args["timeout"], args["gather_job_timeout"]), (7, 10))
        self.assertEqual(args["kwargs"]["delimiter"], ":")

    def test_nobody(self) -> None:
        """A target without minions is said on stdout, and the status is 2."""
        self.daemon(run=job())

        result = self.command("salt", "no*", "test.ping")

        self.assertEqual(
            result.out, "No minions matched the target. No command was sent, no jid was assigned.\n"
        )
        self.assertEqual((result.status, result.err), (2, "ERROR: No return received\n"))

    def test_nobody_by_mistake(self) -> None:
        """What is wrong with a target is said on stderr, in front and in the background."""
        published = {"kind": "published", "jid": None, "minions": [], "missing": []}
        problem = "Invalid regular expression '*('"
        self.daemon(
            run=lambda args: iter([{**published, "problems": [problem]}]),
            publish=lambda args: {"jid": None, "minions": [], "problems": [problem]},
        )

        for words in ([], ["--async"]):
            result = self.command("salt", *words, "-E", "*(", "test.ping")
            self.assertIn(f"{problem}\n", result.err)
            self.assertIn("No minions matched the target.", result.out)

    def test_failed(self) -> None:
        """A non-zero return code makes the status 1, after all returns were printed."""
        self.daemon(run=job(("a", "no", 127), ("b", "yes", 0)))

        result = self.command("salt", "*", "cmd.run", "x")

        self.assertEqual(result.out, "a:\n    no\nb:\n    yes\n")
        self.assertEqual(
            (result.status, result.err), (1, "ERROR: Minions returned with non-zero exit code\n")
        )

    def test_silent(self) -> None:
        """A minion that did not answer is shown with the way to its return, and is a failure."""
        self.daemon(run=job(("a", True, 0), missing=("b",)))

        result = self.command("salt", "*", "test.ping")

        self.assertEqual(
            result.out,
            "a:\n    True\nb:\n    Minion did not return. [No response]\n"
            "    The minions may not have all finished running and any remaining minions will "
            "return upon completion. To look up the return data for this job later, run the "
            f"following command:\n    \n    salt-run jobs.lookup_jid {JID}\n",
        )
        self.assertEqual(result.status, 1)

    def test_away(self) -> None:
        """A minion that is known not to be connected is told apart."""
        self.daemon(run=job(missing=("b",), connected=False))

        result = self.command("salt", "*", "test.ping")

        self.assertEqual(result.out, "b:\n    Minion did not return. [Not connected]\n")

    def test_unknown_id(self) -> None:
        """An id in a list that the master does not know is shown as silent, after the others."""

        def answer(_args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            yield {"kind": "published", "jid": JID, "minions": ["a"], "missing": ["x", "a"]}
            yield {"kind": "return", "id": "a", "data": {"return": True, "retcode": 0}}

        self.daemon(run=answer)

        result = self.command("salt", "-L", "a,x", "test.ping")

        self.assertTrue(result.out.startswith("a:\n    True\nx:\n    Minion did not return. [No"))
        self.assertEqual(result.status, 1)

    def test_outputter_that_cannot(self) -> None:
        """Data that an outputter cannot show is shown nested."""
        self.daemon(run=job(("a", True, 0)))

        result = self.command("salt", "*", "test.ping", "--out=key")

        self.assertEqual((result.status, result.out), (0, "a:\n    True\n"))

    def test_progress(self) -> None:
        """--progress draws a bar on stderr, and only the summary on stdout."""
        self.daemon(run=job(("a", True, 0), ("b", True, 0), missing=("c",)))

        result = self.command("salt", "-p", "*", "test.ping")

        self.assertTrue(result.out.startswith("\n\n" + "-" * 43 + "\nSummary\n"))
        self.assertIn("# of minions returned: 2\n", result.out)
        self.assertIn(" 67% |", result.err)
        self.assertTrue(result.err.endswith("Returns: [2/3]\r\n"))

    def test_configuration_dump(self) -> None:
        """--config-dump prints the master's configuration, and nothing of the command line."""
        result = self.command("salt", "--config-dump", "-t", "77", "*", "test.ping")

        self.assertEqual(result.status, 0)
        self.assertIn(f"\nsock_dir: {self.root}/run\n", result.out)
        self.assertIn("\ntimeout: 5\n", result.out)

    def test_json_documents(self) -> None:
        """JSON is one document per minion, and one line each with a negative indent."""
        self.daemon(run=job(("a", [1], 0), ("b", {"x": "ü"}, 0)))

        result = self.command("salt", "*", "x.y", "--out=json", "--out-indent=-1")

        self.assertEqual(result.out, '{"a": [1]}\n{"b": {"x": "ü"}}\n')

    def test_static_is_one_document(self) -> None:
        """With -s the returns are one document; who does not answer the ping is left out."""
        daemon = self.daemon(run=job(("a", True, 0), ("b", True, 0)))

        result = self.command("salt", "-s", "*", "test.ping", "--out=json")

        self.assertEqual(json.loads(result.out), {"a": True, "b": True})
        self.assertEqual([args["tgt_type"] for _, args in daemon.asked], ["glob", "list"])

    def test_unknown_outputter(self) -> None:
        """An unknown outputter is reported for each return, and nested is used."""
        self.daemon(run=job(("a", True, 0)))

        result = self.command("salt", "*", "test.ping", "--out=quux")

        self.assertEqual(result.out, "a:\n    True\n")
        self.assertEqual(
            result.err, "[ERROR   ] Invalid outputter quux specified, fall back to nested\n"
        )
        self.assertEqual(result.status, 0)

    def test_verbose(self) -> None:
        """-v names the job before its returns; --show-jid does so in one line."""
        self.daemon(run=job(("a", True, 0)))

        verbose = self.command("salt", "-v", "*", "test.ping")
        short = self.command("salt", "--show-jid", "*", "test.ping")

        text = f"Executing job with jid {JID}"
        self.assertEqual(verbose.out, f"{text}\n{'-' * len(text)}\n\na:\n    True\n")
        self.assertEqual(short.out, f"jid: {JID}\na:\n    True\n")

    def test_summary(self) -> None:
        """--summary counts; with -v it names the silent and the failed."""
        self.daemon(run=job(("a", True, 0), ("c", False, 1), missing=("b",)))

        result = self.command("salt", "-v", "--summary", "*", "test.ping")

        rule = "-" * 43
        self.assertTrue(
            result.out.endswith(
                f"\n\n{rule}\nSummary\n{rule}\n# of minions targeted: 3\n"
                "# of minions returned: 2\n# of minions that did not return: 1\n"
                "# of minions with errors: 1\nMinions not responding: b\n"
                f"Minions with failures: c\n{rule}\n"
            ),
            result.out,
        )

    def test_no_summary_with_out(self) -> None:
        """--out suppresses the summary, which no parser could read."""
        self.daemon(run=job(("a", True, 0)))

        result = self.command("salt", "--summary", "*", "test.ping", "--out=json")

        self.assertEqual(json.loads(result.out), {"a": True})

    def test_asynchronous(self) -> None:
        """--async prints the job id and does not wait."""
        daemon = self.daemon(publish=lambda args: {"jid": JID, "minions": ["a"], "missing": []})

        result = self.command("salt", "--async", "*", "test.ping")

        self.assertEqual(result.out, f"Executed command with job ID: {JID}\n")
        self.assertEqual([op for op, _ in daemon.asked], ["publish"])

    def test_refused(self) -> None:
        """A refusal is printed where returns are, and the status is 2."""

        def refuse(_args: dict[str, Any]) -> None:
            raise Refusal("AuthorizationError", "Authorization error occurred.")

        self.daemon(run=refuse)

        result = self.command("salt", "*", "test.ping")

        self.assertEqual((result.status, result.out), (2, "Authorization error occurred.\n"))

    def test_no_master(self) -> None:
        """Without a daemon the socket's path and the command to start one are told; status 2."""
        result = self.command("salt", "*", "test.ping")

        self.assertEqual(result.out, "The salt master could not be contacted. Is master running?\n")
        self.assertIn(f"{self.root}/run/saltwisted.sock", result.err)
        self.assertIn(f"saltwisted --role master --config {self.root}\n", result.err)
        self.assertEqual(result.status, 2)

    def test_preview(self) -> None:
        """--preview-target lists ids and publishes nothing."""
        daemon = self.daemon(match=lambda args: ["alpha", "beta"])

        result = self.command("salt", "--preview-target", "*")

        self.assertEqual(result.out, "- alpha\n- beta\n")
        self.assertEqual([op for op, _ in daemon.asked], ["match"])

    def test_documentation(self) -> None:
        """-d merges the texts of all minions, sorted by function."""
        self.daemon(run=job(("a", {"x.b": "B"}, 0), ("b", {"x.a": "A", "x.b": "B"}, 0)))

        result = self.command("salt", "-d", "*", "x")

        self.assertEqual((result.status, result.out), (0, "x.a:\nA\n\nx.b:\nB\n\n"))

    def test_subset(self) -> None:
        """--subset asks who has the function, and publishes to that many of them."""

        def answer(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            if args["fun"] == "sys.list_functions":
                lists = (("a", ["x.y"], 0), ("b", ["x.z"], 0), ("c", False, 1))
                return job(*lists)(args)
            return job(*((name, 1, 0) for name in args["tgt"]))(args)

        daemon = self.daemon(run=answer)

        result = self.command("salt", "--subset=2", "*", "x.y")

        self.assertEqual(result.out, "a:\n    1\n")
        self.assertEqual(daemon.asked[1][1]["tgt"], ["a"])
        self.assertEqual(daemon.asked[1][1]["tgt_type"], "list")


class WordsTests(CommandTestCase):
    """The words of the command line."""

    def asked(self, *words: str) -> dict[str, Any]:
        """The arguments of the operation that these words lead to."""
        daemon = self.daemon(run=job(("m", 1, 0)))
        result = self.command("salt", *words)
        self.assertEqual(result.err, "")
        return daemon.asked[-1][1]

    def test_several_functions(self) -> None:
        """Functions with commas take arguments parted by a comma alone."""
        args = self.asked("*", "test.ping,test.echo,cmd.run", ",", "a=1", ",", "x,y", "2")

        self.assertEqual(args["fun"], ["test.ping", "test.echo", "cmd.run"])
        self.assertEqual(args["arg"], [[], [{"__kwarg__": True, "a": 1}], ["x,y", 2]])

    def test_several_functions_in_words(self) -> None:
        """Without lone commas, commas inside of words part the arguments."""
        args = self.asked("*", "test.echo,test.echo", "a,b")

        self.assertEqual(args["arg"], [["a"], ["b"]])

    def test_too_few_arguments(self) -> None:
        """Fewer argument lists than functions: status 42, with Salt's sentence."""
        result = self.command("salt", "*", "a.b,c.d,e.f", "x,y")

        self.assertEqual(result.status, 42)
        self.assertEqual(
            result.err, "Cannot execute compound command without defining all arguments.\n"
        )

    def test_list_target(self) -> None:
        """-L takes commas or spaces."""
        self.assertEqual(self.asked("-L", "a, b", "x.y")["tgt"], ["a", "b"])

    def test_kinds_of_targets(self) -> None:
        """Each target option has Salt's word for it."""
        expected = {
            "-E": "pcre",
            "-G": "grain",
            "-P": "grain_pcre",
            "-I": "pillar",
            "-J": "pillar_pcre",
            "-S": "ipcidr",
            "-N": "nodegroup",
            "-R": "range",
            "-C": "compound",
        }
        daemon = self.daemon(run=job(("m", 1, 0)))

        for flag in expected:
            self.command("salt", flag, "x", "test.ping")

        self.assertEqual([args["tgt_type"] for _, args in daemon.asked], list(expected.values()))

    def test_two_kinds(self) -> None:
        """Two target options exclude one another: status 64."""
        result = self.command("salt", "-E", "-L", "x", "test.ping")

        self.assertEqual(result.status, 64)
        self.assertTrue(
            result.err.endswith(
                "salt: error: The options --pcre/--list are mutually exclusive. "
                "Please only choose one of them\n"
            )
        )

    def test_no_function(self) -> None:
        """A target without a function prints the help and leaves with 42."""
        result = self.command("salt", "*")

        self.assertTrue(result.out.startswith("Usage: salt "))
        self.assertEqual((result.status, result.err), (42, "\nIncomplete options passed.\n\n"))

    def test_no_target(self) -> None:
        """No words at all: the help, and 42."""
        result = self.command("salt")

        self.assertEqual(
            (result.status, result.err),
            (42, "\nCannot execute command without defining a target.\n\n"),
        )

    def test_arguments_from_stdin(self) -> None:
        """--args-stdin reads options and arguments, one per line."""
        daemon = self.daemon(run=job(("m", 1, 0)))

        self.command("salt", "--args-stdin", "*", "test.echo", stdin="a b\n--out=json\n")

        self.assertEqual(daemon.asked[0][1]["arg"], ["a b"])

    def test_no_parse(self) -> None:
        """--no-parse keeps a keyword's value text."""
        args = self.asked("--no-parse=a", "*", "x.y", "a=1", "b=1")

        self.assertEqual(args["arg"], [{"__kwarg__": True, "a": "1", "b": 1}])

    def test_extras_of_the_job(self) -> None:
        """Returner, metadata and executors travel as Salt sends them."""
        args = self.asked(
            "--return=sqlite",
            "--return_config=alt",
            "--metadata={a: 1}",
            "--module-executors=[sudo]",
            "--start-event",
            "*",
            "x.y",
        )

        self.assertEqual(args["ret"], "sqlite")
        self.assertEqual(
            args["kwargs"],
            {
                "show_timeout": True,
                "show_jid": False,
                "delimiter": ":",
                "ret_config": "alt",
                "module_executors": ["sudo"],
                "metadata": {"a": 1},
                "start_event": True,
            },
        )
