"""
Cases of C{cases/*.yaml}: what is prepared, applied and looked at on a machine.

A case has C{prepare} (a shell script), C{files} of the tree, C{pillar}, C{opts} of the
configuration, and C{run}: words for C{salt-call}, or after C{!} a shell command whose output is
part of the answer. C{CODE} stands for the folder of these tests. Further words:

C{against}: the stock Salt to compare with (3008).
C{net}: with the network.
C{host_key}: with the key of an ssh server.
C{slow}: only where the long tests run.
C{beside}: ours runs with the C{salt} package importable beside it.
C{loose}: of a state only its result and comment are compared, since the rest is random.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.interop.chroot import root
from tests.interop.differential.runner import normal

HERE = Path(__file__).parent
RECORDED = Path(root.ROOT) / "tests" / "vectors" / "states" / "chroot.json.gz"
CONF = "/etc/salt"
_STAMP = re.compile(r"\b(?:20\d\d-\d\d-\d\dT?[\d:.]*|1[6-9]\d{8}(?:\.\d+)?)\b")


def cases() -> dict[str, Mapping[str, Any]]:
    """Every case under its name, C{file/name}."""
    found = {}
    for path in sorted((HERE / "cases").glob("*.yaml")):
        for name, case in yaml.safe_load(path.read_text()).items():
            found[f"{path.stem}/{name}"] = case
    return found


def work(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the driver has to do for a case."""
    opts = {
        "id": "m1",
        "file_client": "local",
        "log_level": "quiet",
        "log_level_logfile": "quiet",
        "enable_gpu_grains": False,
        "enable_fqdns_grains": False,
        "file_roots": {"base": ["/srv/salt"]},
        "pillar_roots": {"base": ["/srv/pillar"]},
        **case.get("opts", {}),
    }
    files = {f"{CONF}/minion": json.dumps(opts), "/srv/salt/.keep": ""}
    files.update({f"/srv/salt/{name}": text for name, text in case.get("files", {}).items()})
    files.update({f"/srv/pillar/{name}": text for name, text in case.get("pillar", {}).items()})
    if case.get("host_key"):
        files["/etc/ssh/test_key"] = _host_key()
    steps: list[dict[str, Any]] = [{"write": files}]
    for step in ("!" + case.get("prepare", ":"), *case["run"]):
        text = step.replace("CODE", str(HERE))
        if text.startswith("!"):
            steps.append({"sh": text[1:]})
        else:
            words = ["-c", CONF, "--local", "--out", "json", "--retcode-passthrough"]
            steps.append({"argv": [*words, *shlex.split(text)]})
    return steps


def _host_key() -> str:
    """The same key each time: what the two sides learn from a server is compared."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = Ed25519PrivateKey.from_private_bytes(b"a key for tests, 32 bytes long..")
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def _loose(value: Any) -> Any:
    """Of each state's return only the result and the comment."""
    if not isinstance(value, dict):
        return value
    found = {}
    for tag, one in value.items():
        kept = one if not isinstance(one, dict) else {k: one.get(k) for k in ("result", "comment")}
        found[tag] = kept
    return found


def answer(step: Mapping[str, Any], got: Mapping[str, Any], loose: bool = False) -> dict[str, Any]:
    """What one step answered, made comparable."""
    if "argv" not in step:
        return {"status": got["status"], "out": got["out"], "err": got["err"]}
    try:
        value = json.loads(_STAMP.sub("STAMP", got["out"]))["local"]
        value = normal(_loose(value) if loose else value)
    except (ValueError, KeyError, TypeError):
        return {"status": got["status"]}
    return {"status": got["status"], "return": value}


def apply(side: str, case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """
    The answers of one side to the steps of C{run}.

    @raises AssertionError: the preparation failed.
    """
    steps = work(case)
    if side == "ours" and case.get("beside"):
        side = "ours beside 3008"
    got = root.run(side, steps, net=bool(case.get("net")))
    if got[1]["status"]:
        raise AssertionError(f"the preparation failed: {got[1]}")
    loose = bool(case.get("loose"))
    return [answer(step, one, loose) for step, one in zip(steps[2:], got[2:], strict=True)]


def raw(side: str, case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As L{apply}, as it came."""
    return root.run(side, work(case), net=bool(case.get("net")))[2:]


def recorded() -> dict[str, Any]:
    """Stock's answers as they were written down."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as stream:
        found: dict[str, Any] = json.load(stream)
    return found


def record(names: Iterable[str]) -> None:
    """Write down what stock answers to some cases."""
    known = recorded() if RECORDED.exists() else {}
    chosen = cases()
    for name in names:
        known[name] = stock(chosen[name])
    text = json.dumps({name: known[name] for name in chosen if name in known})
    with open(RECORDED, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as stream:
        stream.write(text.encode())


def stock(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The answers of the stock Salt that judges a case."""
    return apply(str(case.get("against", "3008")), case)


def main() -> int:
    """
    Compare the cases whose names begin like an argument with stock, and print what differs.

    C{-r}: with what was written down. C{--record}: write down what stock answers.
    """
    from tests.interop.differential.runner import explained

    wanted = tuple(word for word in sys.argv[1:] if not word.startswith("-"))
    chosen = {name: one for name, one in cases().items() if not wanted or name.startswith(wanted)}
    if "--record" in sys.argv:
        record(chosen)
        return 0
    known = recorded() if "-r" in sys.argv else {}
    bad = 0
    for name, case in chosen.items():
        start = time.time()
        ours = apply("ours", case)
        middle = time.time()
        theirs = known[name] if known else stock(case)
        times = f"{middle - start:.1f} s, stock {time.time() - middle:.1f} s"
        sys.stdout.write(f"{name}: {times}\n")
        if ours != theirs:
            bad += 1
            sys.stdout.write(f"== {name}\n{explained(theirs, ours)}\n")
    sys.stdout.write(f"{len(chosen) - bad} of {len(chosen)} are equal\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
