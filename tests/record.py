"""
Records what stock Salt answers, for the tests that compare ours with it: one command for each kind.

    python tests/record.py                       what there is to record, and what each needs
    python tests/record.py KIND [NAME...]        record it: all of it, or these

Stock is the venv C{3008} in the directory that C{SALTWISTED_PEERS} names (or C{--peers DIR}). It
has to be the very release that recorded all the rest; this program says so, and how to get it,
before anything is written. Look at the difference in git before you commit it: nothing may have
changed that you did not mean to change. The tests themselves never run this.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent
RELEASE = "3008.2"
LINE = RELEASE.partition(".")[0]
OLDER = "3006.28"
"""The judge of what the later release has moved out into extensions."""


@frozen(kw_only=True)
class Kind:
    """
    One kind of recording.

    @ivar case: where a case is written.
    @ivar command: words; C{STOCK} is stock's Python, C{OURS} this one, C{NAMES} what was asked for.
    @ivar into: the file that the output goes to, if the recorder does not write it.
    @ivar judged: the test that then compares.
    @ivar release: the release of stock that answers.
    @ivar is_root: whether it must be root, as it changes owners.
    """

    case: str
    command: str
    judged: str
    into: str = ""
    release: str = RELEASE
    is_root: bool = False

    @property
    def line(self) -> str:
        """The venv of stock."""
        return self.release.partition(".")[0]

    @property
    def takes_names(self) -> bool:
        """Whether some of its cases can be recorded alone."""
        return self.command.endswith("NAMES")


KINDS: Mapping[str, Kind] = {
    "modules": Kind(
        case="a function in tests/modules/scripts.py, named in SCRIPTS",
        command="STOCK tests/modules/record.py NAMES",
        judged="tests.modules.test_recorded",
        is_root=True,
    ),
    "plays": Kind(
        case="a play in tests/modules/plays.py, for modules whose programs are played",
        command="STOCK tests/modules/plays.py",
        judged="tests.modules.test_plays",
        is_root=True,
    ),
    "machine": Kind(
        case="a script in tests/modules/machinescripts.py, named in SUBJECTS of machineplays.py",
        command="STOCK tests/modules/machineplays.py NAMES",
        judged="tests.modules.test_machineplays",
        is_root=True,
    ),
    "states": Kind(
        case="a function in tests/states/scripts.py (named in SCRIPTS) or tests/states/fakes.py",
        command="STOCK tests/states/record.py NAMES",
        judged="tests.states.test_recorded",
        is_root=True,
    ),
    "servers": Kind(
        case="a call in a script of tests/servers, for modules of PostgreSQL and its like",
        command="STOCK tests/servers/record.py NAMES",
        judged="tests.servers.test_recorded",
        release=OLDER,
        is_root=True,
    ),
    "web": Kind(
        case="a call in tests/web/calls.py that asks the master alone",
        command="OURS tests/web/record.py NAMES",
        judged="tests.web.test_recorded",
    ),
    "differential": Kind(
        case="an entry in tests/interop/differential/cases/*.yaml: a tree, and calls of salt-call",
        command="OURS -m tests.interop.differential.runner --record STOCK NAMES",
        judged="tests.interop.differential",
        is_root=True,
    ),
    "orchestration": Kind(
        case="an entry in tests/interop/orchestration/cases.yaml: an SLS, and words for salt-run",
        command="OURS -m tests.interop.orchestration.runner --record NAMES",
        judged="tests.interop.orchestration",
        is_root=True,
    ),
    "chroot": Kind(
        case="an entry in tests/interop/chroot/cases/*.yaml, for what needs a machine of its own",
        command="OURS -m tests.interop.chroot.cases --record NAMES",
        judged="tests.interop.chroot",
        is_root=True,
    ),
    "arguments": Kind(
        case="an entry in FORMS of tests/master/record_arguments.py",
        command="STOCK tests/master/record_arguments.py",
        into="tests/master/arguments.json",
        judged="tests.master.test_arguments",
    ),
    "output": Kind(
        case="an entry in tests/cli/record.py: values and outputters",
        command="STOCK tests/cli/record.py",
        judged="tests.cli",
    ),
    "config": Kind(
        case="an entry in CASES of tests/config/record_config.py",
        command="STOCK tests/config/record_config.py",
        into="tests/config/config_cases.json",
        judged="tests.config",
    ),
    "render": Kind(
        case="an entry in tests/domain/render_inputs.json",
        command="STOCK tests/domain/record_render.py",
        into="tests/domain/render_cases.json",
        judged="tests.domain.test_render_stock",
    ),
    "targeting": Kind(
        case="an entry in tests/domain/record_targeting.py",
        command="STOCK tests/domain/record_targeting.py",
        into="tests/domain/targeting_cases.json",
        judged="tests.domain.test_targeting",
    ),
}


def overview() -> str:
    """What there is to record."""
    lines = [
        f"Needed: a venv with salt=={RELEASE}, called {LINE}, in the directory SALTWISTED_PEERS."
    ]
    for name, kind in KINDS.items():
        names = " [NAME...]" if kind.takes_names else ""
        lines += [
            "",
            f"{name}{names}{' (as root)' if kind.is_root else ''}",
            f"  a new case is {kind.case}",
            f"  then it is compared by: trial {kind.judged}",
        ]
    return "\n".join(lines)


def lacking(kind: Kind, names: Sequence[str], peers: str, uid: int) -> str:
    """What is missing, as a sentence that says how to get it; C{""} when nothing is."""
    if names and not kind.takes_names:
        return "this kind is recorded as a whole: leave the names out"
    if not peers:
        return "SALTWISTED_PEERS is not set, and there is no --peers: where are the venvs of stock?"
    if kind.is_root and uid != 0:
        return "this kind changes owners: run it as root (in a container if you like)"
    venv = os.path.join(peers, kind.line)
    make = f"python3 -m venv {venv} && {venv}/bin/pip install salt=={kind.release}"
    python = os.path.join(venv, "bin", "python")
    if not os.access(python, os.X_OK):
        return f"there is no stock Salt in {venv}: {make}"
    asked = subprocess.run(
        [python, "-c", "import salt.version; print(salt.version.__version__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = asked.stdout.strip() or "none"
    if found != kind.release:
        return f"the rest was recorded with salt {kind.release}, and in {venv} is {found}: {make}"
    return ""


def record(kind: Kind, names: Sequence[str], peers: str) -> int:
    """Run the recorder; its output replaces the recording only if it has succeeded."""
    stand_ins = {
        "STOCK": [os.path.join(os.path.abspath(peers), kind.line, "bin", "python")],
        "OURS": [sys.executable],
        "NAMES": list(names),
    }
    words = [word for part in kind.command.split() for word in stand_ins.get(part, [part])]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SALTWISTED_PEERS": os.path.abspath(peers)}
    output = subprocess.PIPE if kind.into else None
    done = subprocess.run(words, cwd=ROOT, env=env, stdout=output, check=False)
    if done.returncode == 0 and kind.into:
        (ROOT / kind.into).write_bytes(done.stdout)
    return done.returncode


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="tests/record.py", description="Record stock Salt.")
    parser.add_argument("kind", nargs="?", choices=list(KINDS))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--peers", default=os.environ.get("SALTWISTED_PEERS", ""))
    asked = parser.parse_args(argv)
    if asked.kind is None:
        sys.stdout.write(overview() + "\n")
        return 0
    kind = KINDS[asked.kind]
    if reason := lacking(kind, asked.names, asked.peers, os.geteuid()):
        sys.stderr.write(f"{reason}\n")
        return 64
    status = record(kind, asked.names, asked.peers)
    if status == 0:
        sys.stdout.write(f"Look at 'git diff --stat', then run: trial {kind.judged}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
