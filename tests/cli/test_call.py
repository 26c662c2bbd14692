"""
C{salt-call}: a function in this process, its value, its failures and the exit status.

The texts around the functions' own are those of stock Salt 3008.2.
"""

from __future__ import annotations

import json
import logging
import os

from saltwisted.wire.rsa import PrivateKey
from tests.cli.support import CommandTestCase

KEY = PrivateKey.generate(2048)


class CallTestCase(CommandTestCase):
    """Keeps this process's logging as it was."""

    def setUp(self) -> None:
        """C{salt-call} takes the root logger."""
        super().setUp()
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level

        def restore() -> None:
            root.handlers[:] = handlers
            root.setLevel(level)

        self.addCleanup(restore)


class LocalTests(CallTestCase):
    """With C{--local}."""

    def test_value(self) -> None:
        """The value stands under the key C{local}."""
        result = self.command("salt-call", "--local", "test.ping")

        self.assertEqual((result.status, result.out, result.err), (0, "local:\n    True\n", ""))

    def test_arguments(self) -> None:
        """Words become values, and functions that take any keyword are told of the job."""
        result = self.command(
            "salt-call", "--local", "--out=json", "test.arg", "a", "1", "b={c: 2}"
        )

        value = json.loads(result.out)["local"]
        self.assertEqual((value["args"], value["kwargs"]["b"]), (["a", 1], {"c": 2}))
        told = {key for key in value["kwargs"] if key.startswith("__pub_")}
        self.assertEqual(told, {"__pub_fun", "__pub_jid", "__pub_pid", "__pub_tgt"})

    def test_metadata(self) -> None:
        """--metadata prints the whole return; --set-metadata is in it."""
        result = self.command(
            "salt-call", "--local", "--metadata", "--set-metadata={a: 1}", "--out=json", "test.ping"
        )

        ret = json.loads(result.out)["local"]
        self.assertEqual(len(ret.pop("jid")), 20)
        self.assertEqual(
            ret,
            {
                "return": True,
                "retcode": 0,
                "id": "here",
                "fun": "test.ping",
                "fun_args": [],
                "metadata": {"a": 1},
            },
        )

    def test_return_code(self) -> None:
        """A return code makes the status 1; with --retcode-passthrough it is the status."""
        words = ("--local", "test.retcode", "5")

        self.assertEqual(self.command("salt-call", *words).status, 1)
        self.assertEqual(self.command("salt-call", "--retcode-passthrough", *words).status, 5)

    def test_unknown_function(self) -> None:
        """A function that is not there is said on stderr, with status 255."""
        result = self.command("salt-call", "--local", "nope.x")

        self.assertEqual(
            (result.status, result.out, result.err), (255, "", "'nope.x' is not available.\n")
        )

    def test_wrong_arguments(self) -> None:
        """Too many arguments: the reason on stderr, the documentation on stdout, status 1."""
        result = self.command("salt-call", "--local", "test.ping", "extra")

        self.assertEqual(
            result.err,
            "\nPassed invalid arguments: ping() takes 0 positional arguments but 1 was given.\n\n"
            "Usage:\n",
        )
        self.assertIn("salt '*' test.ping", result.out)
        self.assertEqual(result.status, 1)

    def test_wrong_keyword(self) -> None:
        """A keyword that the function does not take is named."""
        result = self.command("salt-call", "--local", "test.ping", "a=1")

        self.assertEqual(
            (result.status, result.err),
            (1, "The following keyword arguments are not valid: a=1\n"),
        )

    def test_exception(self) -> None:
        """Any other exception ends in its traceback, with status 1."""
        result = self.command("salt-call", "--local", "test.exception", "boom")

        self.assertTrue(result.err.endswith("Exception: boom\n"))
        self.assertEqual((result.status, result.out), (1, ""))

    def test_documentation(self) -> None:
        """-d prints the functions whose names begin so."""
        result = self.command("salt-call", "--local", "-d", "test.ping")

        self.assertTrue(result.out.startswith("test.ping:\n"))

    def test_other_id(self) -> None:
        """--id is the minion's id for this call."""
        result = self.command("salt-call", "--local", "--id=other", "config.get", "id")

        self.assertEqual(result.out, "local:\n    other\n")

    def test_pillar_root(self) -> None:
        """--pillar-root is where the pillar is compiled from."""
        os.mkdir(f"{self.root}/pillar")
        for name, text in (("top", "base: {'*': [a]}"), ("a", "x: {{ opts.id }}")):
            with open(f"{self.root}/pillar/{name}.sls", "w", encoding="utf-8") as file:
                file.write(text + "\n")

        result = self.command(
            "salt-call", "--local", f"--pillar-root={self.root}/pillar", "pillar.ls"
        )

        self.assertEqual(result.out, "local:\n    - x\n")

    def configure(self, text: str) -> None:
        """Add lines to the minion's file."""
        with open(f"{self.root}/minion", "a", encoding="utf-8") as file:
            file.write(text)

    def test_pillar_of_configuration(self) -> None:
        """C{pillar} of the configuration is part of the pillar, below what is compiled."""
        os.mkdir(f"{self.root}/pillar")
        for name, text in (("top", "base: {'*': [a]}"), ("a", "x: {{ opts.id }}\ny: 1")):
            with open(f"{self.root}/pillar/{name}.sls", "w", encoding="utf-8") as file:
                file.write(text + "\n")
        self.configure("pillar: {x: mine, z: 2}\n")
        words = ("salt-call", "--local", f"--pillar-root={self.root}/pillar", "--out=json")

        whole = {"x": "here", "y": 1, "z": 2}
        for call in (["pillar.items", "unmask=True"], ["pillar.items", "unmask=True", "pillar={}"]):
            value = json.loads(self.command(*words, *call).out)["local"]
            self.assertEqual(value, whole, call)
        value = json.loads(self.command(*words, "slsutil.renderer", "string={{ pillar }}").out)
        self.assertEqual(value["local"], whole)

    def test_executors(self) -> None:
        """
        C{module_executors} of the configuration may be a list; one that is not there is named, and
        the command line comes first.
        """
        self.configure("module_executors: [nosuch, direct_call]\n")

        result = self.command("salt-call", "--local", "test.ping")
        self.assertIn("Executor 'nosuch' is not available", result.out + result.err)
        result = self.command(
            "salt-call", "--local", "--module-executors=[direct_call]", "test.ping"
        )
        self.assertEqual((result.status, result.out), (0, "local:\n    True\n"))

    def test_no_function(self) -> None:
        """Without a function: the help, and a usage error."""
        result = self.command("salt-call", "--local")

        self.assertEqual(result.status, 64)
        self.assertTrue(result.out.startswith("Usage: salt-call "))
        self.assertTrue(
            result.err.endswith("salt-call: error: Requires function, --grains or --doc\n")
        )

    def test_roots_without_local(self) -> None:
        """Local roots without --local are said to be ignored."""
        self.daemon(**{"return": lambda args: None})

        result = self.command("salt-call", "--file-root=/x", "test.ping")

        self.assertTrue(
            result.err.startswith("Warning: --file-root is ignored because --local was not")
        )


class PrivateMinionTests(CallTestCase):
    """No minion runs."""

    config = "master: 127.0.0.1\nmaster_port: 9\n"

    def test_no_master(self) -> None:
        """
        A private minion is started and looks for the master; a function that does not need it
        runs all the same. A process of its own, and so real time.
        """
        os.mkdir(f"{self.root}/pki")
        for name, text in (("pem", KEY.pem()), ("pub", KEY.public.pem + "\n")):
            with open(f"{self.root}/pki/minion.{name}", "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(f"{self.root}/pki/minion.{name}", 0o400)

        result = self.command("salt-call", "-t", "1", "test.ping")

        self.assertEqual((result.status, result.out), (0, "local:\n    True\n"))
        self.assertIn("The return did not reach the master: no master is connected", result.err)


class MinionTests(CallTestCase):
    """A minion runs: it is the way to the master."""

    def test_return_is_handed_on(self) -> None:
        """The minion gets the return, for the master to number."""
        daemon = self.daemon(**{"return": lambda args: None})

        result = self.command("salt-call", "test.ping")

        self.assertEqual(result.out, "local:\n    True\n")
        ((op, args),) = daemon.asked
        self.assertEqual(op, "return")
        load = args["load"]
        self.assertEqual(
            (load["cmd"], load["jid"], load["id"], load["fun"], load["return"], load["retcode"]),
            ("_return", "req", "here", "test.ping", True, 0),
        )

    def test_no_return_event(self) -> None:
        """--no-return-event keeps the return here."""
        daemon = self.daemon(**{"return": lambda args: None})

        self.command("salt-call", "--no-return-event", "test.ping")

        self.assertEqual(daemon.asked, [])

    def test_pillar(self) -> None:
        """The pillar is asked of the master, when a function wants it."""
        daemon = self.daemon(pillar_request=lambda args: {"x": 1})

        result = self.command("salt-call", "--no-return-event", "pillar.ls")

        self.assertEqual(result.out, "local:\n    - x\n")
        load = daemon.asked[0][1]["load"]
        self.assertEqual((load["cmd"], load["id"]), ("_pillar", "here"))
        self.assertIn("kernel", load["grains"])
