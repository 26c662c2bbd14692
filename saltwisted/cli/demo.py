"""
C{saltwisted demo}: a master and minions of its own, and what they can do, in one command.

Everything is real and temporary: daemons as separate processes on loopback ports, the
commands that an operator would type, one directory that is gone at the end, also after a
failure or Ctrl-C (unless C{--keep} leaves it running).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from saltwisted import advice
from saltwisted.cli import console
from saltwisted.cli.playground import Daemon, Interrupts, Playground, PlaygroundError
from saltwisted.errors import SaltwistedError
from saltwisted.tools import units
from saltwisted.words import counted

COMMAND_LIMIT = 90
"""Seconds that one command of the demonstration may take."""


class Demo:
    """
    One demonstration.

    @ivar report: what C{--json} prints.
    """

    def __init__(self, minions: int, keep: bool, as_json: bool, masters: int = 1) -> None:
        self.keep = keep
        self.as_json = as_json
        self.report: dict[str, Any] = {
            "ok": False,
            "masters": masters,
            "minions": minions,
            "steps": [],
        }
        self._count = minions
        self._begin = time.monotonic()
        self._place: Playground | None = None
        self._terminal = not as_json and sys.stdout.isatty()
        self._drawn = 0.0

    def run(self) -> int:
        """Show all of it, and clean up; the result is the exit status."""
        with Interrupts() as interrupts:
            return self._run(interrupts)

    def _run(self, interrupts: Interrupts) -> int:
        status = 1
        try:
            with interrupts.held():
                self._place = self._make_place(interrupts)
            self._show_all(self._place)
            self.report["ok"] = True
            status = 0
        except PlaygroundError as error:
            self._fail(str(error), error)
        except (SaltwistedError, OSError) as error:
            self._fail(f"{type(error).__name__}: {error}")
        except KeyboardInterrupt:
            self._fail("interrupted")
            status = 130
        finally:
            try:
                with interrupts.held():
                    self._end(status)
            except KeyboardInterrupt:
                status = status or 130
        return status

    def _make_place(self, interrupts: Interrupts) -> Playground:
        return Playground(self._count, interrupts)

    # The steps

    def _show_all(self, place: Playground) -> None:
        names = [minion.name for minion in place.minions]
        self.report["directory"] = place.root
        self._say(
            f"A playground of saltwisted: one master and {counted(len(names), 'minion')}, as "
            "processes of their own,\nwithout root rights. Everything lies below "
            f"{place.root}.\n"
        )
        self._step("Start the master", lambda: place.start_master(self._tick), place.master.command)
        publish, requests = place.ports
        self._say(f"        It listens on 127.0.0.1, ports {publish} and {requests}.")
        self._step(
            f"Start {', '.join(names)}; each shows its key to the master",
            lambda: place.start_minions(self._tick),
            place.minions[0].command,
        )
        self._command("Look at the keys: they are not trusted yet", ["salt-key", "-L"], names)
        self._accept(place, names)
        self._command("Ask all minions whether they are there", ["salt", "*", "test.ping"], names)
        self._command(
            "Run a command on all of them",
            ["salt", "*", "cmd.run", "echo $((6 * 7))"],
            [*names, "42"],
        )
        self._command(
            "Look at the pillar that the master made for each of them",
            ["salt", "*", "pillar.items", "unmask=True"],
            [f"Hello, {name}" for name in names],
        )
        self._fetch(place, names)
        self._command(
            "Put them into the state that files/top.sls and files/site.sls describe",
            ["salt", "*", "state.apply"],
            ["Succeeded: 2 (changed=2)"] * len(names),
        )
        self._command(
            "Again, in short form: nothing has to change",
            ["salt", "*", "state.apply", "--state-verbose=false"],
            ["Succeeded: 2\n"] * len(names),
        )

    def _accept(self, place: Playground, names: list[str]) -> None:
        """Accept the keys, and wait until every minion has signed in and says so."""
        with place.master.client() as client:
            events = client.stream_within(
                COMMAND_LIMIT, "events", tags=["salt/minion/"], match="startswith"
            )
            next(events)  # the master listens for us from here on
            self._command("Trust them", ["salt-key", "-y", "-A"], names)

            def signed_in() -> None:
                missing = set(names)
                try:
                    while missing:
                        tag = str(next(events)["tag"]).split("/")
                        if tag[-1] == "start":
                            missing.discard(tag[2])
                except TimeoutError:
                    late = next(m for m in place.minions if m.name in missing)
                    raise PlaygroundError(f"{late.name} did not sign in", late) from None
                events.close()

            self._step("Wait until the minions have signed in", signed_in)

    def _fetch(self, place: Playground, names: list[str]) -> None:
        target = os.path.join(place.root, "{{ grains.id }}", "hello.txt")
        self._command(
            "Let them fetch a file from the master's file server",
            ["salt", "*", "cp.get_file", "salt://hello.txt", target, "template=jinja"],
            names,
        )
        with open(os.path.join(place.master.directory, "files", "hello.txt"), "rb") as file:
            content = file.read()
        for name in names:
            with open(os.path.join(place.root, name, "hello.txt"), "rb") as file:
                if file.read() != content:
                    raise PlaygroundError(f"{name} got another file than the master has")

    def _step(self, title: str, do: Callable[[], None], command: Sequence[str] = ()) -> None:
        """Do something, and say what it was and how long it took."""
        number = len(self.report["steps"]) + 1
        self._say(f"\n{number:>2}.  {title}")
        if command:
            self._say(f"        $ {_words(command)}")
        begin = time.monotonic()
        step: dict[str, Any] = {"title": title, "ok": False}
        if command:
            step["command"] = _words(command)
        self.report["steps"].append(step)
        try:
            do()
            step["ok"] = True
        finally:
            step["seconds"] = round(time.monotonic() - begin, 3)
            self._clear_tick()
        self._say(f"        done in {step['seconds']:.2f} s")

    def _command(
        self, title: str, words: list[str], expected: list[str], at: Daemon | None = None
    ) -> str:
        """Run one of our commands as an operator would, and show its output; that is given back."""
        place = self._place
        assert place is not None
        directory = (at or place.master).directory
        shown = ["saltwisted", words[0], "-c", directory, *words[1:]]

        def execute() -> None:
            done = subprocess.run(
                [sys.executable, "-m", "saltwisted.cli.main", *shown[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_LIMIT,
                check=False,
            )
            self.report["steps"][-1]["output"] = done.stdout
            for line in (done.stdout + done.stderr).splitlines():
                self._say(f"        {line}")
            if done.returncode:
                raise PlaygroundError(f"{words[0]} left with status {done.returncode}")
            for text in expected:
                if text not in done.stdout:
                    raise PlaygroundError(f"{text!r} is missing from the answer of {words[0]}")

        try:
            self._step(title, execute, shown)
        except subprocess.TimeoutExpired:
            raise PlaygroundError(f"{words[0]} did not end in {COMMAND_LIMIT} seconds") from None
        return str(self.report["steps"][-1]["output"])

    # The end

    def _end(self, status: int) -> None:
        place = self._place
        self.report["seconds"] = round(time.monotonic() - self._begin, 3)
        if place is not None and self.keep and status == 0:
            self._explain(place)
            self.report["kept"] = True
            self.report["processes"] = {
                daemon.name: daemon.process.pid for daemon in place.daemons if daemon.process
            }
        elif place is not None:
            if status == 0:
                self._explain(place)
            self._say("\nNow everything is stopped and removed ...")
            place.stop()
            self.report["kept"] = False
            self._say("Done." if status == 0 else "The directory is gone.")
        if self.as_json:
            import json

            console.say(json.dumps(self.report, indent=4))

    def _explain(self, place: Playground) -> None:
        """How to talk to what runs here."""
        here = place.master.directory
        self._say(f"\nAll steps did what they should, in {self.report['seconds']:.1f} s.\n")
        if not self.keep:
            self._say(str(units.here(advice.of("demo.keep"), "")))
            return
        self._say("It keeps running. Use it like this:")
        for row, directory in (
            ("demo.ping", here),
            ("demo.keys", here),
            ("demo.jobs", here),
            ("demo.grains", place.minions[0].directory),
        ):
            self._say(f"        {units.here(advice.of(row, directory=directory), '')}")
        pids = [d.process.pid for d in place.daemons if d.process]
        self._say(str(advice.of("demo.end", pids=pids, directory=place.root)))

    def _fail(self, reason: str, error: PlaygroundError | None = None) -> None:
        """Say what went wrong, with the end of the log of the daemon that is to blame."""
        self._clear_tick()
        self.report["error"] = reason
        lines: list[str] = []
        blamed = error.daemon if error is not None else None
        if error is not None and blamed is None and self._place is not None:
            blamed = self._place.master
        if blamed is not None:
            lines = blamed.tail()
            self.report["log"] = {"daemon": blamed.name, "lines": lines}
        if self.as_json:
            return
        console.write_error(f"\nThis did not work: {reason}\n")
        if blamed is not None:
            console.write_error(f"The last lines of {blamed.name}:\n")
            console.write_error("".join(f"    {line}\n" for line in lines))

    # Output

    def _say(self, text: str) -> None:
        if not self.as_json:
            console.say(text)

    def _tick(self) -> None:
        """Show that time passes, on a terminal."""
        now = time.monotonic()
        if self._terminal and now - self._drawn > 0.1:
            self._drawn = now
            console.say(f"\r        {now - self._begin:5.1f} s", end="")

    def _clear_tick(self) -> None:
        if self._terminal and self._drawn:
            self._drawn = 0.0
            console.say("\r" + " " * 20 + "\r", end="")


def _words(command: Sequence[str]) -> str:
    """A command as one would type it."""
    return " ".join(shlex.quote(word) for word in command)
